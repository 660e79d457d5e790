"""One list read by several workers at once: disjoint windows of ``created_at``, side by side.

A worker that still has pages before it gives half of the rest of its window away whenever another
has nothing to do, so windows end up narrow where rows are dense. A row may come twice where a
window is cut, and the caller drops repeats; none is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.errors import ValidationFailed
from fundlab.load.background import Offer, produced
from fundlab.load.stream import Asked, Fetched, PageSource, Walk
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
    span = _probed_span(source, asked)
    if span is None or workers < 2:
        return None
    windows = [bounds(asked)] if gaps is None else gaps
    board = _Board(newest=span[1], waiting=[_Window(*window) for window in windows])
    numbers = _Numbers()

    def work(offer: Offer[Fetched]) -> None:
        try:
            while (window := board.take()) is not None:
                _read(source, asked, window, board, numbers, offer)
                board.finished()
        except BaseException:
            board.stop()
            raise

    return produced([work] * workers, 2 * workers)


@dataclass(frozen=True)
class _Window:
    """From ``start`` (inclusive) to ``end`` (exclusive), ns; ``None`` is open."""

    start: int | None
    end: int | None

    def asked(self, asked: Asked) -> Asked:
        return within(asked, (self.start, self.end))


def within(asked: Asked, window: Span) -> Asked:
    """The same question of one stretch of time, oldest rows first."""
    given = dict(zip((LOWER, UPPER), window, strict=True))
    moments = {name: Instant.from_ns(ns) for name, ns in given.items() if ns is not None}
    others = {n: v for n, v in asked.filters.items() if n not in (LOWER, UPPER, "order")}
    return replace(asked, filters={**others, **moments})


def _read(
    source: PageSource,
    asked: Asked,
    window: _Window,
    board: _Board,
    numbers: _Numbers,
    offer: Offer[Fetched],
) -> None:
    """All pages of ``window``, less what is given away on the way."""
    walk = Walk(source, window.asked(asked))
    while True:
        page = walk.next_page(numbers.next())
        offer(page)
        if walk.ended:
            return
        rest = board.split(window, _newest(page.rows))
        if rest is not None:
            window = rest
            walk = Walk(source, window.asked(asked))


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

    def split(self, window: _Window, reached: int | None) -> _Window | None:
        """Give away the later half of what is left of ``window``; the earlier half to go on with.

        ``None`` where nobody waits, or the window is too narrow: a page of rows of one moment
        must be walked through by its cursor.
        """
        if reached is None or (window.start is not None and reached <= window.start):
            return None
        middle = (reached + (self.newest if window.end is None else window.end)) // 2
        with self.changed:
            if self.idle <= len(self.waiting) or middle <= reached:
                return None
            self.waiting.append(_Window(middle, window.end))
            self.changed.notify()
        return _Window(reached, middle)


class _Numbers:
    """Page numbers in the order of asking, whoever asks."""

    def __init__(self) -> None:
        self._last, self._lock = 0, threading.Lock()

    def next(self) -> int:
        with self._lock:
            self._last += 1
            return self._last


def _probed_span(source: PageSource, asked: Asked) -> tuple[int, int] | None:
    """The oldest and newest moment of what is asked for, if windows on it are honoured.

    A window from the middle on must begin there, and one up to the middle must end there.
    """
    taken = {LOWER, UPPER, "order"}
    others = [name for name in asked.filters if name not in taken]
    if asked.table.column("created_at") is None or any(
        name.startswith(("created_at", "updated_at")) or name == "order_by" for name in others
    ):
        return None
    first, last = _edge(source, asked, "ASC"), _edge(source, asked, "DESC")
    if first is None or last is None or last - first < 2:
        return None
    middle = Instant.from_ns((first + last) // 2 + 1)
    try:
        above = _edge(source, _with(asked, **{LOWER: middle}), "ASC")
        below = _edge(source, _with(asked, **{UPPER: middle}), "DESC")
    except ValidationFailed:
        return None
    honoured = above is not None and below is not None and below < middle.ns <= above
    return (first, last) if honoured else None


def _edge(source: PageSource, asked: Asked, order: str) -> int | None:
    """The moment of the first row in ``order``, as the service gives it."""
    walk = Walk(source, _with(asked, order=order, limit=1), unchecked=True)
    rows = walk.next_page(1).rows
    if rows.num_rows == 0 or rows.column("created_at").null_count:
        return None
    moment: int = rows.column("created_at").cast(pa.int64())[0].as_py()
    return moment


def _with(asked: Asked, **filters: Any) -> Asked:
    return replace(asked, filters={**asked.filters, **filters})


def bounds(asked: Asked) -> Span:
    """The window that ``asked`` names itself."""
    given = (asked.filters.get(LOWER), asked.filters.get(UPPER))
    first, end = (None if value is None else Instant.parse(value).ns for value in given)
    return first, end


def _newest(rows: pa.Table) -> int | None:
    found: int | None = pc.max(rows.column("created_at").cast(pa.int64())).as_py()
    return found
