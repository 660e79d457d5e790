"""The pages of a list as Arrow tables, read by one worker in order or by several side by side.

Pages are fetched in the background and decoded beside that, while earlier ones are made use of.
Several workers read disjoint windows of ``created_at`` where the service honours them, see
`fundlab.sync.windows`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import numbers, of_numbers
from fundlab.base.errors import InvalidRequest, ValidationFailed
from fundlab.base.threads import gathered, produced
from fundlab.base.values import Instant
from fundlab.client.pages import LAST_PLACE, Asked, Check, Walk
from fundlab.models import OPERATIONS
from fundlab.store.changes import Hashes, hash_texts
from fundlab.store.staging import Span
from fundlab.sync.windows import Board, Window
from fundlab.tables import plain_pages
from fundlab.tables.decode import InvalidRow, Page, decode_page
from fundlab.tables.schema import INSTANT_TYPE, TABLES, Table

_AHEAD: Final = 2
_DECODERS: Final = min(4, os.cpu_count() or 1)
_LOWER, _UPPER = "created_at_gte", "created_at_lt"
_named: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(
    msgspec.defstruct("SecondaryStatus", [("name", str | None, None)])
)
_TABLE_OF: Final = {table.operation: table for table in TABLES.values()}
_numbers: Final = count(1)
_LAST_MEMBER: Final = re.compile(
    rb'"next_page_cursor"[ \n\r\t]*:[ \n\r\t]*"([!#-\[\]-~]+)"[ \n\r\t]*\}[ \n\r\t]*\Z'
)
_LONGEST_CURSOR: Final = 1024


class PageSource(Protocol):
    """What is needed of a client."""

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes: ...


def ask_table(
    table: Table, given: Mapping[str, Any], label: str = "", own: Sequence[str] = ()
) -> Asked:
    """What ``given`` asks of the list of ``table``: oldest first in its largest pages by default.

    Raises ``InvalidRequest`` as ``Asked`` does, and where no operation lists the table.
    """
    if table.operation is None:
        raise InvalidRequest(f"{table.name} do not come in pages")
    defaults = {"limit": table.page_size, "order": "ASC"}
    chosen = {name: value for name, value in given.items() if value is not None}
    return Asked(OPERATIONS[table.operation], defaults | chosen, label or table.name, own)


@dataclass(frozen=True)
class Fetched:
    """One page: its rows that belong, the filters that the service ``ignored``, and those that some
    of these rows leave open.

    ``walk`` tells apart the walks it may belong to. ``covered`` is the stretch of ``created_at``
    (ns, the end excluded, ``None`` is open) that is complete with it; ``None`` if nobody can say.
    ``expected`` is how many rows there will be in all, if they go on to the newest one known, or to
    this moment, as densely as in the time covered so far. ``invalid`` are rows that were set aside.
    ``hashes`` are those of all ids that came.
    """

    rows: pa.Table
    hashes: Hashes
    ignored: set[str]
    unchecked: set[str]
    walk: int
    covered: Span | None
    expected: int | None = None
    invalid: tuple[InvalidRow, ...] = ()


def fetch(
    source: PageSource,
    asked: Asked,
    workers: int,
    gaps: Sequence[Span] | None = None,
    set_aside: bool = False,
) -> Iterator[Fetched]:
    """Every page: in order by one worker, in any order by several, with repeats.

    ``gaps`` are the stretches of ``created_at`` to read, all that is asked for by default; with
    ``set_aside`` malformed rows stop nothing. Raises ``ProtocolError`` and ``DataError`` for
    malformed pages, and whatever the client raises.
    """
    # Only the compiled decoder lets other threads run: those of the other would stand in each
    # other's way.
    decoders = ThreadPoolExecutor(_DECODERS if plain_pages.library else 1, "fundlab-decode")
    try:
        for part in asked.parts:
            walked = partial(TableWalk, source, whole=part, decoders=decoders, numbers=count(1),
                             set_aside=set_aside)  # fmt: skip
            span = _probed_span(source, part) if workers > 1 else None
            if span is None:
                stretches = [part] if gaps is None else [_within(part, gap) for gap in gaps]
                sources: list[Downloads] = [
                    (one for asked in stretches for one in walked(asked).downloads())
                ]
            else:
                spans = [_bounds(part)] if gaps is None else gaps
                board = Board(
                    span[1], [one for gap in spans for one in Window(*gap).parts(workers, span)]
                )
                sources = [_side_by_side(walked, part, board) for _ in range(workers)]
            oldest, end = span or (0, time.time_ns())
            done = so_far = 0
            with closing(produced(sources, _AHEAD * len(sources))) as found:
                for walk, page, last in found:
                    one = walk.judged(page.result(), last=last)
                    so_far += one.rows.num_rows
                    if one.covered is not None and one.rows.num_rows:
                        first = one.rows.column("created_at")[0].value
                        begin, until = one.covered[0] or first, one.covered[1] or first
                        oldest, done = min(oldest or begin, begin), done + until - begin
                    if done > 0:
                        ratio = max(1, end - oldest) / done
                        one = replace(one, expected=round(so_far * max(1, ratio)))
                    yield one
    finally:
        decoders.shutdown(wait=False, cancel_futures=True)


def first_page(source: PageSource, asked: Asked) -> Page:
    """The first page of what is asked for; rows that cannot be read stand beside the others."""
    body = source.fetch_page(asked.operation.name, asked.query.to_params())
    return decode_page(_TABLE_OF[asked.operation.name], body, set_aside=True)


Downloads = Generator[tuple["TableWalk", "Future[Page]", bool]]
"""Pages as they came, each with its walk, and whether it is the last one of it."""


def _side_by_side(walked: Callable[[Asked], TableWalk], asked: Asked, board: Board) -> Downloads:
    """The pages of one worker: of its windows, less what it gives away on the way."""
    try:
        while (window := board.take()) is not None:
            rest: Window | None = window
            while (window := rest) is not None:
                walk, rest = walked(_within(asked, window)), None
                for found in walk.downloads():
                    yield found
                    if walk.ended or not board.hungry:
                        continue
                    # The newest moment of the page says what is left of the window.
                    newest = pc.max(found[1].result().rows.column("created_at").cast(pa.int64()))
                    rest = board.split(window, newest.as_py())
                    if rest is not None:
                        break
            board.finished()
    except BaseException:
        board.stop()
        raise


class TableWalk(Walk):
    """A walk whose pages become Arrow tables, by the ``decoders``, as the next of ``numbers``; rows
    that do not belong are left out."""

    def __init__(
        self,
        source: PageSource,
        asked: Asked,
        whole: Asked,
        decoders: ThreadPoolExecutor,
        numbers: Iterator[int],
        set_aside: bool = False,
    ) -> None:
        super().__init__(asked, whole)
        self._set_aside = set_aside
        self._decoders, self._numbers = decoders, numbers
        self.table = _TABLE_OF[asked.operation.name]
        self._source, self._number = source, next(_numbers)
        self._begin, self._end = _bounds(asked)
        # How far the rows are complete shows where they come in order, and all of them.
        others = asked.sent.keys() - {_LOWER, _UPPER, "limit", "order"}
        self._covers = not others and asked.filters["order"] == "ASC"

    def downloads(self) -> Downloads:
        """Fetch page after page; of each only the cursor is waited for before the next one."""
        while not self.ended:
            body = self._source.fetch_page(self.asked.operation.name, self.params)
            page = self._decoders.submit(
                decode_page, self.table, body, page=next(self._numbers), set_aside=self._set_aside
            )
            # A page mostly ends in its cursor. Within a text each of these quotes would have a
            # backslash before it; and what is not JSON is refused by the decoder.
            if found := _LAST_MEMBER.search(body, len(body) - _LONGEST_CURSOR):
                self.follow(found[1].decode())
            else:
                self.follow(page.result().next_cursor)
            yield self, page, self.ended

    def judged(self, page: Page, *, last: bool) -> Fetched:
        """What belongs of the rows of the next ``page``; ``last`` of this walk or not."""
        rows, covered = page.rows, None
        if page.invalid:
            self._covers = False  # a run that goes on where this one died must see them, too
        verdicts: list[tuple[Check, list[bool | None]]] = []
        for check in self.checks:  # of moments all at once, else of each value once
            column = rows.column(check.member).combine_chunks()
            if column.type == INSTANT_TYPE:
                met = check.compare(numbers(column.cast(pa.int64()).fill_null(0)), check.wanted)
                found = of_numbers(met, numbers(column.is_valid()))
            else:
                coded = column.dictionary_encode()
                values = coded.dictionary.to_pylist()
                if check.member == "secondary_status":
                    values = [_name_in(text) for text in values]
                found = pa.array(map(check.verdict, values), pa.bool_()).take(coded.indices)
            if not pc.all(found, skip_nulls=False).as_py():
                verdicts.append((check, found.to_pylist()))
        hashes = hash_texts(rows.column("id"))
        judged = self.judge(hashes, verdicts)
        if self._covers:
            # Complete is what lies before the newest row, whose moment may go on overleaf; and
            # nothing more where the order breaks.
            column = rows.column("created_at")
            moments = numbers(column.drop_null() if column.null_count else column)
            if self._begin is not None:
                moments = np.concatenate([[self._begin], moments])
            self._covers = not column.null_count and not np.any(moments[1:] < moments[:-1])
            if self._covers and len(moments):
                begin, self._begin = self._begin, int(moments[-1])
                covered = begin, self._end if last and self._end is not None else self._begin
        if judged.belong is not None:
            rows = rows.filter(pa.array(judged.belong, pa.bool_()))
        return Fetched(
            rows, hashes, judged.ignored, judged.unchecked, self._number, covered,
            invalid=page.invalid,
        )  # fmt: skip

    def _any_new(self, ids: Hashes) -> bool:
        came, places = np.frombuffer(self._came, np.uint8), ids & np.uint64(LAST_PLACE)
        new = not came[places].all()
        came[places] = 1
        return new


def _name_in(status: str | None) -> str | None:
    """The name of a secondary status, where it has one that is a text."""
    try:
        return None if status is None else _named.decode(status).name
    except (msgspec.ValidationError, RecursionError):
        return None


def contradicted_ids(page: Fetched) -> list[str]:
    """The ids that one page has more than once, with other members each time."""
    hashes, rows = np.sort(page.hashes), page.rows
    if not np.any(hashes[1:] == hashes[:-1]):
        return []
    different = rows.group_by(rows.column_names).aggregate([])
    counts = different.group_by("id").aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts.column("count_all"), 1))
    return sorted(twice.column("id").to_pylist())


# ----------------------------------------------------------------------------- stretches of time


def _bounds(asked: Asked) -> Span:
    """The window that ``asked`` names itself."""
    first, end = (asked.sent.get(name) for name in (_LOWER, _UPPER))
    return first and first.ns, end and end.ns


def _within(asked: Asked, window: Span) -> Asked:
    """The same question of one stretch of time, oldest rows first."""
    start, end = (None if ns is None else Instant.from_ns(ns) for ns in window)
    return asked.but(**{_LOWER: start, _UPPER: end, "order": "ASC"})


def _probed_span(source: PageSource, asked: Asked) -> tuple[int, int] | None:
    """The oldest and newest moment of what is asked for, if windows on it are honoured.

    A window from the middle on must begin there, and one up to the middle must end there. ``None``
    too where there are too few rows to share, or another order is asked for.
    """
    others = asked.filters.keys() - {_LOWER, _UPPER}
    if any(name.startswith(("created_at", "updated_at", "order_by")) for name in others):
        return None

    def edge(question: Asked) -> int | None:
        """The moment of the first row, as the service gives it."""
        rows = first_page(source, question).rows
        if rows.num_rows == 0 or rows.column("created_at").null_count:
            return None
        moment: int = rows.column("created_at").cast(pa.int64())[0].as_py()
        return moment

    both = [asked.but(order="ASC", limit=1), asked.but(order="DESC", limit=1)]
    first, last = gathered(edge, both, 2)
    if first is None or last is None or last - first < 2:
        return None
    middle = Instant.from_ns((first + last) // 2 + 1)
    cut = [both[0].but(**{_LOWER: middle}), both[1].but(**{_UPPER: middle})]
    try:
        above, below = gathered(edge, cut, 2)
    except ValidationFailed:
        return None
    honoured = above is not None and below is not None and below < middle.ns <= above
    return (first, last) if honoured else None
