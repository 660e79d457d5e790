"""The pages of a list as Arrow tables, checked against what was asked.

Pages are fetched in the background while earlier ones are decoded. A server may ignore a filter
that the interface does not list: rows that do not belong are left out here, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, Protocol, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from fundlab.errors import InvalidRequest, ProtocolError, UnheededFilterWarning, shorten
from fundlab.load.background import Offer, produced
from fundlab.models import OPERATIONS
from fundlab.tables.decode import decode_page
from fundlab.tables.expand import member
from fundlab.tables.schema import INSTANT_TYPE, Table
from fundlab.values import Instant

MAX_EMPTY_PAGES: Final = 1_000
_AHEAD: Final = 2
_WINDOW: Final = ("created_at_gte", "created_at_lt")
_COMPARISONS: Final[Mapping[str, Callable[..., Any]]] = {
    "lt": pc.less,
    "lte": pc.less_equal,
    "eq": pc.equal,
    "gte": pc.greater_equal,
    "gt": pc.greater,
}
# parameter → column, where they differ
_COLUMNS: Final[Mapping[str, str]] = {
    "ids": "id",
    "ref_ids": "ref_id",
    "profile_ids": "profile_id",
    "identity_ids": "identity_id",
    "account_ids": "account_id",
    "group_ids": "group_id",
    "crypto_tx_hashes": "crypto_tx_hash",
    "statuses": "status",
    "crypto_networks": "crypto_network",
    "addresses": "address",
    "nicknames": "nickname",
    "bookmarked_status": "bookmarked",
    "secondary_statuses": "secondary_status",
}
_SAME_STATUS: Final[Mapping[str, str]] = {"COMPLETED": "COMPLETE"}  # §2.4, the note


class PageSource(Protocol):
    """What the stream needs of a client."""

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes: ...


@dataclass(frozen=True)
class Asked:
    """A list operation and what was asked of it, by the names of its query model."""

    table: Table
    filters: Mapping[str, Any]

    def params(self) -> list[tuple[str, str]]:
        """What is sent: always with ``limit``, ``order`` and, where there is one, ``order_by``.

        Raises ``InvalidRequest`` naming the parameter that the operation does not take.
        """
        operation = OPERATIONS[str(self.table.operation)]
        given = {"limit": self.table.page_size, "order": "ASC", **self.sent()}
        if operation.query is None:
            raise InvalidRequest(f"{self.table.name} does not come in pages")
        try:
            return operation.query(**given).to_params()
        except ValidationError as error:
            found = error.errors()[0]
            name = ".".join(str(part) for part in found["loc"][:1]) or "filters"
            raise InvalidRequest(f"{name}={found['input']!r}: {found['msg']}") from None

    def sent(self) -> Mapping[str, Any]:
        """The filters the service hears of: of the two times one only, as its order demands."""
        if any(name.startswith("updated_at_") for name in self.filters):
            return {n: v for n, v in self.filters.items() if not n.startswith("created_at_")}
        return self.filters

    def heeded(self, rows: pa.Table) -> Mapping[str, Any]:
        """For each filter that can be checked: which rows satisfy it."""
        checks = {name: _check(self.table, rows, name, v) for name, v in self.filters.items()}
        return {name: mask for name, mask in checks.items() if mask is not None}


@dataclass(frozen=True)
class Fetched:
    """One page: its rows that were asked for, and the filters the service did not heed.

    ``walk`` tells apart the walks it may belong to. ``covered`` is the stretch of ``created_at``
    (ns, the end excluded, ``None`` is open) that is complete with it; ``None`` if nobody can say.
    """

    number: int
    rows: pa.Table
    unheeded: tuple[str, ...] = ()
    walk: int = 0
    covered: tuple[int | None, int | None] | None = None


_numbers: Final = count(1)


class Walk:
    """The pages of what was asked, one after another.

    Rows that were not asked for are left out. Where this is ``part_of`` a larger question they are
    those that do not belong to it: a service may cut the edges of a part more coarsely than named.

    Raises ``ProtocolError`` where a cursor comes back or pages without rows never end.
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
        self._params = asked.params()
        self._progress = _Progress.of(asked)
        self._cursors: set[str] = set()
        self._cursor: str | None = None
        self._empty = 0
        self.ended = False

    def next_page(self, number: int) -> Fetched:
        """Fetch and decode the next page, the ``number``-th of the load."""
        return self.decode(self.next_body(), number, last=self.ended)

    def next_body(self) -> bytes:
        """Fetch the next page and find out whether another follows."""
        table = self._asked.table
        sent = self._params
        if self._cursor is not None:
            sent = [*sent, ("page_cursor", self._cursor)]
        body = self._source.fetch_page(str(table.operation), sent)
        self._cursor = _cursor_of(table, body)
        self.ended = not self._cursor
        if self._cursor:
            if self._cursor in self._cursors:
                raise ProtocolError(
                    f"{table.name}: a page repeats the cursor {shorten(self._cursor)} of an "
                    "earlier one; stopped rather than going in circles"
                )
            self._cursors.add(self._cursor)
        return body

    def decode(self, body: bytes, number: int, *, last: bool = False) -> Fetched:
        table = self._asked.table
        rows = decode_page(table, body, page=number).rows
        self._empty = 0 if rows.num_rows else self._empty + 1
        if self._empty > MAX_EMPTY_PAGES:
            raise ProtocolError(f"{table.name}: {self._empty} pages without rows, and no end")
        if self._unchecked:
            return Fetched(number, rows)
        covered = self._progress.after(rows, last) if self._progress is not None else None
        return replace(_checked(self._belonging, rows, number), covered=covered, walk=self._number)


@dataclass
class _Progress:
    """How far a walk in ascending order of ``created_at`` has come; nothing once order breaks."""

    begin: int | None
    end: int | None
    broken: bool = False

    @classmethod
    def of(cls, asked: Asked) -> Self | None:
        sent = {name: value for name, value in asked.sent().items() if value is not None}
        ascending = str(sent.pop("order", "ASC")) == "ASC"
        if not ascending or not sent.keys() <= {*_WINDOW} or not asked.table.column("created_at"):
            return None
        window = [sent.get(name) for name in _WINDOW]
        begin, end = (None if value is None else Instant.parse(value).ns for value in window)
        return cls(begin, end)

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

    def fetch(offer: Offer[tuple[bytes, bool]]) -> None:
        while not walk.ended:
            body = walk.next_body()
            offer((body, walk.ended))

    for number, (body, last) in enumerate(produced([fetch], _AHEAD), start=1):
        yield walk.decode(body, number, last=last)


def warn_unheeded(table: Table, names: Iterable[str]) -> None:
    """Say once per load which filters the service ignored."""
    listed = ", ".join(sorted(set(names)))
    if listed:
        warnings.warn(
            f"{table.name}: the service does not heed {listed}; all pages were read and the rows "
            "that do not belong left out",
            UnheededFilterWarning,
            stacklevel=4,
        )


def _checked(asked: Asked, rows: pa.Table, number: int) -> Fetched:
    masks = asked.heeded(rows)
    broken = [name for name, mask in masks.items() if pc.all(mask, min_count=0).as_py() is False]
    for name in broken:
        keep = _check(asked.table, rows, name, asked.filters[name])
        rows = rows.filter(keep)
    return Fetched(number, rows, tuple(name for name in broken if name in asked.sent()))


def _check(table: Table, rows: pa.Table, name: str, value: Any) -> Any:
    """Which rows satisfy the filter, ``None`` where it cannot be told.

    A row without the member is trusted where the record need not show it.
    """
    if value is None or name in ("limit", "order", "order_by"):
        return None
    field, _, comparison = name.rpartition("_")
    if field in ("created_at", "updated_at") and comparison in _COMPARISONS:
        bound = pa.scalar(Instant.parse(value).ns, INSTANT_TYPE)
        return pc.fill_null(_COMPARISONS[comparison](rows.column(field), bound), True)
    column = _COLUMNS.get(name, name)
    if column not in rows.schema.names:
        return None
    values = rows.column(column)
    if name == "secondary_statuses":
        return pa.chunked_array([[_named(text, _texts(value)) for text in values.to_pylist()]])
    if isinstance(value, bool):
        return pc.fill_null(pc.equal(values, value), True)
    accepted = _texts(value)
    accepted += [_SAME_STATUS[text] for text in accepted if text in _SAME_STATUS]
    mask = pc.is_in(values, value_set=pa.array(accepted, pa.string()))
    if column == "identity_id" and table.name == "addresses":
        return pc.or_(mask, pc.is_null(values))  # an address need not show its identity (§2.8)
    return mask


def _texts(value: Any) -> list[str]:
    return [str(value)] if isinstance(value, str) else [str(entry) for entry in value]


def _named(text: str | None, names: list[str]) -> bool:
    name = member(text, "name") if text else None
    return name in names if name is not None else text is not None


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
