"""The pages of a list as Arrow tables, checked against what was asked.

Pages are fetched in the background while earlier ones are decoded. A service may ignore a filter
that the interface does not list: rows that do not belong are left out here, with a warning.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from typing import Any, Final, Protocol, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.api import paging
from fundlab.api.filters import Asked, Check, ask
from fundlab.background import produced
from fundlab.errors import InvalidRequest, ProtocolError
from fundlab.models import OPERATIONS
from fundlab.tables.decode import decode_page
from fundlab.tables.schema import INSTANT_TYPE, TABLES, Table

_AHEAD: Final = 2
_WINDOW: Final = ("created_at_gte", "created_at_lt")
_TABLE_OF: Final = {table.operation: table for table in TABLES.values()}


class PageSource(Protocol):
    """What the stream needs of a client."""

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes: ...


def ask_table(
    table: Table, given: Mapping[str, Any], label: str = "", own: Sequence[str] = ()
) -> Asked:
    """What ``given`` asks of the list of ``table``: oldest first in its largest pages by default.

    Raises ``InvalidRequest`` as ``ask`` does, and where no operation lists the table.
    """
    if table.operation is None:
        raise InvalidRequest(f"{table.name} do not come in pages")
    defaults = {"limit": table.page_size, "order": "ASC"}
    chosen = {name: value for name, value in given.items() if value is not None}
    return ask(OPERATIONS[table.operation], defaults | chosen, label=label or table.name, own=own)


def table_of(asked: Asked) -> Table:
    """The table that a list operation fills."""
    return _TABLE_OF[asked.operation.name]


@dataclass(frozen=True)
class Fetched:
    """One page: its rows that belong, the filters that the service ``ignored``, and those that some
    of these rows leave open.

    ``walk`` tells apart the walks it may belong to. ``covered`` is the stretch of ``created_at``
    (ns, the end excluded, ``None`` is open) that is complete with it; ``None`` if nobody can say.
    """

    number: int
    rows: pa.Table
    ignored: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    walk: int = 0
    covered: tuple[int | None, int | None] | None = None


_numbers: Final = count(1)


class Walk:
    """The pages of what was asked, one after another.

    Rows that were not asked for are left out. Where this is ``part_of`` a larger question they are
    those that do not belong to it: a service may cut the edges of a part more coarsely than named.

    Raises ``ProtocolError`` where a cursor comes back or pages without a new row do not end.
    """

    def __init__(
        self,
        source: PageSource,
        asked: Asked,
        *,
        unchecked: bool = False,
        part_of: Asked | None = None,
    ) -> None:
        self._source, self._asked, self._unchecked = source, asked, unchecked
        self._belonging, self._number = part_of or asked, next(_numbers)
        self._table, self._params = table_of(asked), asked.query.to_params()
        self._progress = _Progress.of(asked)
        self._pages = paging.Walk(asked.label)
        self._seen = _Seen()

    @property
    def ended(self) -> bool:
        return self._pages.ended

    def next_page(self, number: int) -> Fetched:
        """Fetch and decode the next page, the ``number``-th of the load."""
        return self.decode(self.next_body(), number, last=self.ended)

    def next_body(self) -> bytes:
        """Fetch the next page and find out whether another follows."""
        sent = self._params
        if self._pages.cursor is not None:
            sent = [*sent, ("page_cursor", self._pages.cursor)]
        body = self._source.fetch_page(self._asked.operation.name, sent)
        self._pages.follow(_cursor_of(self._table, body))
        return body

    def decode(self, body: bytes, number: int, *, last: bool = False) -> Fetched:
        rows = decode_page(self._table, body, page=number).rows
        self._pages.count(rows.num_rows, new=self._seen.adds(rows.column("id").to_pylist()))
        if self._unchecked:
            return Fetched(number, rows)
        covered = self._progress.after(rows, last) if self._progress is not None else None
        return replace(_checked(self._belonging, rows, number), covered=covered, walk=self._number)


class _Seen:
    """Which ids came before: for any number of them in 4 MiB, so that memory stays flat.

    An id is known by its hash only: a new one may be taken for one that came before, but not all
    those of many pages in succession.
    """

    def __init__(self) -> None:
        self._marks = bytearray(1 << 22)

    def adds(self, ids: list[str]) -> bool:
        """Whether one of ``ids`` is new; from now on none is."""
        places = [hash(id_) & 0x3FFFFF for id_ in ids]
        new = not all(self._marks[place] for place in places)
        for place in places:
            self._marks[place] = 1
        return new


@dataclass
class _Progress:
    """How far a walk in ascending order of ``created_at`` has come; nothing once order breaks."""

    begin: int | None
    end: int | None
    broken: bool = False

    @classmethod
    def of(cls, asked: Asked) -> Self | None:
        filters = asked.sent.keys() - {"limit", "order"}
        if asked.query.order != "ASC" or not filters <= {*_WINDOW}:
            return None
        begin, end = (getattr(asked.query, name) for name in _WINDOW)
        return cls(begin and begin.ns, end and end.ns)

    def after(self, rows: pa.Table, last: bool) -> tuple[int | None, int | None] | None:
        """What is complete with these rows. Those of the newest moment may go on overleaf."""
        column, begin = rows.column("created_at"), self.begin
        moments = column.drop_null().cast(pa.int64()).to_numpy()
        if begin is not None:
            moments = np.concatenate([[begin], moments])
        self.broken |= bool(column.null_count or np.any(moments[1:] < moments[:-1]))
        if self.broken or not len(moments):
            return None
        self.begin = int(moments[-1])
        return begin, self.end if last and self.end is not None else self.begin


def fetch_pages(
    source: PageSource, asked: Asked, part_of: Asked | None = None
) -> Iterator[Fetched]:
    """Every page of what was asked, in order, rows that were not asked for left out.

    Raises ``ProtocolError`` and ``DataError`` for malformed pages, and whatever the client raises.
    """
    walk = Walk(source, asked, part_of=part_of)

    def bodies() -> Generator[tuple[bytes, bool]]:
        while not walk.ended:
            yield walk.next_body(), walk.ended

    for number, (body, last) in enumerate(produced([bodies()], _AHEAD), start=1):
        yield walk.decode(body, number, last=last)


def _checked(asked: Asked, rows: pa.Table, number: int) -> Fetched:
    verdicts = {check: _verdicts(rows, check) for check in asked.checks}
    ignored = [check.name for check, met in verdicts.items() if met.false_count]
    if ignored:
        belongs = reduce(pc.and_, [met.fill_null(True) for met in verdicts.values()])
        rows = rows.filter(belongs)
        verdicts = {check: met.filter(belongs) for check, met in verdicts.items()}
    return Fetched(
        number,
        rows,
        tuple(name for name in ignored if name in asked.sent),
        tuple(check.name for check, met in verdicts.items() if check.shown and met.null_count),
    )


def _verdicts(rows: pa.Table, check: Check) -> pa.BooleanArray:
    """``check.verdict`` of every row."""
    column = rows.column(check.member).combine_chunks()
    if column.type == INSTANT_TYPE:
        met = check.meets(column.cast(pa.int64()).fill_null(0).to_numpy())
        return pa.array(met, mask=column.is_null().to_numpy(zero_copy_only=False))
    coded = column.dictionary_encode()
    found = coded.dictionary.to_pylist()
    if check.member == "secondary_status":
        found = [_name_in(text) for text in found]
    return pa.array(map(check.verdict, found), pa.bool_()).take(coded.indices)


class _Named(msgspec.Struct):
    name: msgspec.Raw = msgspec.Raw(b"null")


def _name_in(text: str) -> str | None:
    """The ``name`` in a JSON object, if it is a text."""
    try:
        name = msgspec.json.decode(text, type=_Named).name
        return msgspec.json.decode(name, type=str)
    except (msgspec.ValidationError, RecursionError):
        return None


class _Cursors(msgspec.Struct):
    """All that is read of a page before the next one is asked for."""

    next_page_cursor: str | None = None
    next_page: str | None = None


_cursors: Final = msgspec.json.Decoder(_Cursors)


def _cursor_of(table: Table, body: bytes) -> str | None:
    try:
        found = _cursors.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"{table.name}: a page that is not JSON, or no page: {error}") from None
    return found.next_page_cursor or found.next_page
