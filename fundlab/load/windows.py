"""One list read by several workers at once: disjoint windows of ``created_at``, side by side.

A worker that still has pages before it gives half of the rest of its window away whenever another
has nothing to do, so windows end up narrow where rows are dense. A row may come twice where a
window is cut, and the caller drops repeats; none is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.api.filters import Asked
from fundlab.background import gathered, produced
from fundlab.errors import ValidationFailed
from fundlab.load.stream import Fetched, PageSource, Walk, table_of
from fundlab.tables.schema import INSTANT_TYPE, Table
from fundlab.values import Instant

LOWER, UPPER = "created_at_gte", "created_at_lt"
Span = tuple[int | None, int | None]


def fetch_with_workers(
    source: PageSource, asked: Asked, workers: int, gaps: Sequence[Span] | None = None
) -> Iterator[Fetched] | None:
    """The pages of ``asked`` in any order, some rows perhaps twice; ``None`` if it cannot be
    split: too few rows, another order asked for, or a service that does not honour the windows.

    ``gaps`` are the stretches of time to read, all that is asked for by default.
    """
    span = _probed_span(source, asked) if workers > 1 else None
    if span is None:
        return None
    spans = [bounds(asked)] if gaps is None else gaps
    windows = [part for one in spans for part in _Window(*one).parts(workers, span)]
    return _decoded(source, asked, _Board(span[1], windows), workers)


def _decoded(source: PageSource, asked: Asked, board: _Board, workers: int) -> Iterator[Fetched]:
    """Workers only download: threads that decode would stand in each other's way."""

    def work() -> Generator[tuple[Walk, bytes, bool]]:
        try:
            while (window := board.take()) is not None:
                yield from _downloaded(source, asked, window, board)
                board.finished()
        except BaseException:
            board.stop()
            raise

    found = produced([work() for _ in range(workers)], 2 * workers)
    for number, (walk, body, last) in enumerate(found, start=1):
        yield walk.decode(body, number, last=last)


@dataclass(frozen=True)
class _Window:
    """From ``start`` (inclusive) to ``end`` (exclusive), ns; ``None`` is open."""

    start: int | None
    end: int | None

    def asked(self, asked: Asked) -> Asked:
        return within(asked, (self.start, self.end))

    def parts(self, count: int, span: tuple[int, int]) -> Iterator[_Window]:
        """The window in ``count`` pieces of equal length, as far as rows are in ``span``."""
        low = span[0] if self.start is None else max(self.start, span[0])
        high = span[1] if self.end is None else min(self.end, span[1])
        cuts = sorted({low + (high - low) * n // count for n in range(1, count)} - {low, high})
        edges = [self.start, *(cuts if low < high else ()), self.end]
        return (_Window(*pair) for pair in pairwise(edges))


def within(asked: Asked, window: Span) -> Asked:
    """The same question of one stretch of time, oldest rows first."""
    start, end = (None if ns is None else Instant.from_ns(ns) for ns in window)
    return asked.but(**{LOWER: start, UPPER: end, "order": "ASC"})


def _downloaded(
    source: PageSource, asked: Asked, window: _Window, board: _Board
) -> Generator[tuple[Walk, bytes, bool]]:
    """All pages of ``window``, less what is given away on the way."""
    walk = Walk(source, window.asked(asked), part_of=asked)
    while True:
        body = walk.next_body()
        yield walk, body, walk.ended
        if walk.ended:
            return
        rest = board.split(window, _newest(table_of(asked), body)) if board.hungry else None
        if rest is not None:
            window = rest
            walk = Walk(source, window.asked(asked), part_of=asked)


@dataclass
class _Board:
    """The windows nobody reads yet, and how many workers are looking for one."""

    newest: int  # the newest row's moment when the load began
    waiting: list[_Window]
    busy: int = 0
    idle: int = 0
    stopped: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self) -> _Window | None:
        """The next window; ``None`` once nothing is left to do for anybody."""
        with self.changed:
            self.idle += 1
            self.changed.wait_for(lambda: self.waiting or not self.busy or self.stopped)
            self.idle -= 1
            if self.stopped or not self.waiting:
                self.changed.notify_all()
                return None
            self.busy += 1
            return self.waiting.pop()

    def finished(self) -> None:
        with self.changed:
            self.busy -= 1
            self.changed.notify_all()

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    @property
    def hungry(self) -> bool:
        """Whether somebody waits for a window."""
        return self.idle > len(self.waiting)

    def split(self, window: _Window, reached: int | None) -> _Window | None:
        """Give away the later half of what is left of ``window``; the earlier half to go on with.

        ``None`` where nobody waits, or the window is too narrow: a page of rows of one moment
        must be walked through by its cursor.
        """
        if reached is None or (window.start is not None and reached <= window.start):
            return None
        middle = (reached + (self.newest if window.end is None else window.end)) // 2
        with self.changed:
            if not self.hungry or middle <= reached:
                return None
            self.waiting.append(_Window(middle, window.end))
            self.changed.notify()
        return _Window(reached, middle)


def _probed_span(source: PageSource, asked: Asked) -> tuple[int, int] | None:
    """The oldest and newest moment of what is asked for, if windows on it are honoured.

    A window from the middle on must begin there, and one up to the middle must end there.
    """
    others = asked.filters.keys() - {LOWER, UPPER}
    if any(name.startswith(("created_at", "updated_at", "order_by")) for name in others):
        return None
    first, last = _edges(source, (asked, "ASC"), (asked, "DESC"))
    if first is None or last is None or last - first < 2:
        return None
    middle = Instant.from_ns((first + last) // 2 + 1)
    try:
        above, below = _edges(
            source,
            (asked.but(**{LOWER: middle}), "ASC"),
            (asked.but(**{UPPER: middle}), "DESC"),
        )
    except ValidationFailed:
        return None
    honoured = above is not None and below is not None and below < middle.ns <= above
    return (first, last) if honoured else None


def _edges(source: PageSource, *questions: tuple[Asked, str]) -> list[int | None]:
    return gathered(lambda question: _edge(source, *question), questions, len(questions))


def _edge(source: PageSource, asked: Asked, order: str) -> int | None:
    """The moment of the first row in ``order``, as the service gives it."""
    walk = Walk(source, asked.but(order=order, limit=1), unchecked=True)
    rows = walk.next_page(1).rows
    if rows.num_rows == 0 or rows.column("created_at").null_count:
        return None
    moment: int = rows.column("created_at").cast(pa.int64())[0].as_py()
    return moment


def bounds(asked: Asked) -> Span:
    """The window that ``asked`` names itself."""
    first, end = (asked.filters.get(name) for name in (LOWER, UPPER))
    return first and first.ns, end and end.ns


def _newest(table: Table, body: bytes) -> int | None:
    """The newest moment of a page; ``None`` where it cannot be told, which decoding will name."""
    try:
        rows = getattr(_moments_of(str(table.items)).decode(body), str(table.items))
        texts = pa.array([row.created_at for row in rows], pa.string())
        found: int | None = pc.max(texts.cast(INSTANT_TYPE).cast(pa.int64())).as_py()
    except (msgspec.DecodeError, pa.ArrowInvalid):
        return None
    return found


class _Created(msgspec.Struct, gc=False):
    created_at: str | None = None


@cache
def _moments_of(items: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(msgspec.defstruct("Page", [(items, list[_Created])]))
