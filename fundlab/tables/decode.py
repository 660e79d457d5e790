"""Page bytes → Arrow table: in bulk, exact, and strict on what matters (interface §2, §4).

Amounts and moments are held to the interface's grammar as text, whole columns at once, before any
cast, because casts are lenient: Arrow's wraps around above 20 integer digits and takes ``1e5``.
The first malformed value stops the page with a ``DataError`` that names it.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.errors import DataError, ProtocolError, UnknownValueWarning
from fundlab.models import FiatNetworkInstructions
from fundlab.tables.schema import AMOUNT_TYPE, INSTANT_TYPE, Column, Kind, Table, find_table
from fundlab.values import Amount, Instant

# \A and \z, never ^ and $: `$` would let a trailing newline pass.
AMOUNT_GRAMMAR: Final = r"\A(?:[0-9]{1,20}|[0-9]{0,20}\.[0-9]{1,18})\z"
# Which days a month has, and which years fit, is left to the cast and to _check_years.
INSTANT_GRAMMAR: Final = (
    r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])\z"
)
FIRST_INSTANT: Final = pa.scalar(Instant.parse("1678-01-01T00:00:00Z").ns, INSTANT_TYPE)
LAST_INSTANT: Final = pa.scalar(Instant.parse("2261-12-31T23:59:59.999999999Z").ns, INSTANT_TYPE)
MAX_REMEMBERED_MEMBERS: Final = 128
_AWKWARD: Final = re.compile(r'[\x00-\x1f"\\]')  # what msgspec refuses in a member's name

_OWNER: Final = "fiat_account_owner"
_INSTRUCTIONS: Final = "fiat_network_instructions"


@dataclass(frozen=True)
class Page:
    """The rows of one page, in the service's order, and the cursor of the next, if there is one."""

    rows: pa.Table
    next_cursor: str | None


def decode_page(table: Table | str, body: bytes, *, page: int = 1) -> Page:
    """One page of a list operation as an Arrow table of ``table.schema``; ``page`` counts from 1.

    Raises ``ProtocolError`` where the body is not JSON or not a page, and ``DataError``, naming
    table, page, record, field and value, where one record is malformed. Warns
    ``UnknownValueWarning`` once for each enumeration value that the interface does not list.
    """
    table = find_table(table)
    layout, found = _read(table, body, page)
    extras = _extras(table, layout, found, body)
    rows = getattr(found, layout.items)
    if _INSTRUCTIONS in table.model.model_fields:
        for row in rows:
            _lift_nested(table, row)
    ids = list(map(attrgetter("id"), rows))
    arrays = []
    for column in table.columns[:-1]:
        values = list(map(attrgetter(column.name), rows))
        arrays.append(_array(column, values, _Refusal(table, page, ids, column)))
    arrays.append(pa.array(extras, pa.string()))
    return Page(
        pa.Table.from_arrays(arrays, schema=table.schema),
        found.next_page_cursor or found.next_page or None,
    )


# ---------------------------------------------------------------------------- bytes → records


@dataclass(frozen=True)
class _Layout:
    """What a page of a table looks like, with the unlisted members met so far.

    ``unlisted`` maps a member to the attribute of the row that keeps it; ``None`` lets any member
    pass, to be read in a second look.
    """

    items: str
    unlisted: Mapping[str, str] | None
    page: msgspec.json.Decoder[Any]


_MEMBER_TYPES: Final[Mapping[Kind, Any]] = {
    "text": str | None,
    "enum": str | None,
    "amount": str | None,
    "instant": str | None,
    "flag": bool | None,
    "count": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None,
    "json": msgspec.Raw,
}
_layouts: dict[str, _Layout] = {}
_layouts_lock = threading.Lock()


def _read(table: Table, body: bytes, page: int) -> tuple[_Layout, Any]:
    """The page as structs, widened by whatever unlisted members its records have."""
    if not isinstance(body, bytes):
        raise TypeError(f"body is a {type(body).__name__}; give the bytes of the page")
    layout = _layouts.get(table.name) or _remember(table, ())
    try:
        if not body.isascii():
            body.decode()  # kept JSON would otherwise be checked by nobody
        return layout, layout.page.decode(body)
    except msgspec.ValidationError as error:
        refused = error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"{table.name}, page {page}: not JSON: {error}") from None
    layout = _widened(table, layout, _records(table, layout, body, page, refused))
    try:
        return layout, layout.page.decode(body)
    except msgspec.ValidationError as error:
        raise _culprit(table, layout, body, page, error) from None


def _remember(table: Table, members: Sequence[str]) -> _Layout:
    layout = _build_layout(table, members)
    with _layouts_lock:
        _layouts[table.name] = layout
    return layout


def _build_layout(table: Table, members: Sequence[str] | None) -> _Layout:
    if table.items is None:
        raise ProtocolError(f"{table.name} does not come in pages")
    fields: list[Any] = [
        (column.name, str)
        if column.name in table.required
        else (column.name, _MEMBER_TYPES[column.kind], None)
        for column in table.columns[:-1]
    ]
    unlisted = {name: f"unlisted_{number}" for number, name in enumerate(sorted(members or ()))}
    fields += [(attribute, msgspec.Raw, None) for attribute in unlisted.values()]
    # without the garbage collector: a page is thousands of objects that hold no cycle
    row = msgspec.defstruct(
        "Row", fields, gc=False, forbid_unknown_fields=members is not None,
        rename={attribute: member for member, attribute in unlisted.items()},
    )  # fmt: skip
    page = msgspec.defstruct("Page", [(table.items, list[row]), *_CURSORS])  # type: ignore[valid-type]
    decoder = msgspec.json.Decoder(page)
    return _Layout(table.items, None if members is None else unlisted, decoder)


_CURSORS: Final[Sequence[Any]] = (
    ("next_page_cursor", str | None, None),
    ("next_page", str | None, None),
)


def _records(
    table: Table, layout: _Layout, body: bytes, page: int, refused: Exception
) -> list[dict[str, msgspec.Raw]]:
    """The records as they are: their members and the JSON of each."""
    loose = msgspec.defstruct("Page", [(layout.items, list[msgspec.Raw]), *_CURSORS])
    try:
        raws = getattr(msgspec.json.decode(body, type=loose), layout.items)
    except msgspec.ValidationError:
        raise ProtocolError(f"{table.name}, page {page}: not a page: {refused}") from None
    records = []
    for number, raw in enumerate(raws, start=1):
        try:
            records.append(msgspec.json.decode(raw, type=dict[str, msgspec.Raw]))
        except msgspec.ValidationError:
            raise DataError(
                "not an object", table=table.name, page=page, record=f"#{number}", value=_text(raw)
            ) from None
    return records


def _widened(table: Table, layout: _Layout, records: list[dict[str, msgspec.Raw]]) -> _Layout:
    known = set(layout.unlisted or ())
    met = {member for record in records for member in record} - _listed(table)
    if met <= known:
        return layout
    if len(met | known) > MAX_REMEMBERED_MEMBERS or any(map(_AWKWARD.search, met)):
        return _build_layout(table, None)
    return _remember(table, sorted(met | known))


def _listed(table: Table) -> set[str]:
    return {column.name for column in table.columns[:-1]}


def _culprit(
    table: Table, layout: _Layout, body: bytes, page: int, refused: Exception
) -> DataError:
    """The first member of the first record that is not of its type."""
    required = table.required
    for number, record in enumerate(_records(table, layout, body, page, refused), start=1):
        name = _record_name(record.get("id"), number)
        for column in table.columns[:-1]:
            raw = record.get(column.name)
            if raw is None and column.name not in required:
                continue
            if raw is None:
                return DataError(
                    "missing", table=table.name, page=page, record=name, field=column.name
                )
            kind = str if column.name in required else _MEMBER_TYPES[column.kind]
            try:
                msgspec.json.decode(raw, type=kind)
            except msgspec.ValidationError as error:
                return DataError(
                    str(error), table=table.name, page=page, record=name, field=column.name,
                    value=_text(raw),
                )  # fmt: skip
    return DataError(str(refused), table=table.name, page=page)


def _record_name(raw: msgspec.Raw | None, number: int) -> str:
    try:
        return msgspec.json.decode(raw, type=str) if raw is not None else f"#{number}"
    except msgspec.ValidationError:
        return f"#{number}"


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode()


# ---------------------------------------------------------------------------- records → columns


@dataclass(frozen=True)
class _Refusal:
    """Where a column comes from, to name what is malformed in it."""

    table: Table
    page: int
    ids: Sequence[str]
    column: Column

    def of(self, position: int, value: object, problem: str) -> DataError:
        return DataError(
            problem, table=self.table.name, page=self.page,
            record=self.ids[position] or f"#{position + 1}", field=self.column.name, value=value,
        )  # fmt: skip


def _array(column: Column, values: list[Any], refusal: _Refusal) -> pa.Array:
    if values.count(None) == len(values):
        return pa.nulls(len(values), column.type)
    if column.kind == "json":
        texts = [None if value is None else bytes(value) for value in values]
        return pa.array([None if text == b"null" else text for text in texts], pa.string())
    if column.kind in ("flag", "count"):
        return pa.array(values, column.type)
    texts = pa.array(values, pa.string())
    if column.kind == "amount":
        return _amounts(texts, refusal)
    if column.kind == "instant":
        return _instants(texts, refusal)
    if column.kind == "enum":
        _warn_of_unknown(texts, refusal)
    if column.name in refusal.table.required and "" in values:
        raise refusal.of(values.index(""), "", "empty")
    return texts


def _json_text(raw: msgspec.Raw | None) -> bytes | None:
    if raw is None:
        return None
    text = bytes(raw)
    return None if text == b"null" else text


def _amounts(texts: pa.Array, refusal: _Refusal) -> pa.Array:
    if not _all(pc.match_substring_regex(texts, AMOUNT_GRAMMAR)):
        raise _first_refused(texts, Amount, refusal)
    return texts.cast(AMOUNT_TYPE)


def _instants(texts: pa.Array, refusal: _Refusal) -> pa.Array:
    if not _all(pc.match_substring_regex(texts, INSTANT_GRAMMAR)):
        raise _first_refused(texts, Instant.parse, refusal)
    try:
        # Arrow knows the calendar, but not the lower-case letters RFC 3339 allows
        moments = pc.ascii_upper(texts).cast(INSTANT_TYPE)
    except pa.ArrowInvalid:
        raise _first_refused(texts, Instant.parse, refusal) from None
    inside = pc.and_(pc.greater_equal(moments, FIRST_INSTANT), pc.less_equal(moments, LAST_INSTANT))
    if not _all(inside):
        raise _first_refused(texts, Instant.parse, refusal)
    return moments


def _all(flags: pa.Array) -> bool:
    return pc.all(flags, min_count=0).as_py() is not False


def _first_refused(texts: pa.Array, parse: Callable[[str], object], refusal: _Refusal) -> DataError:
    for position, text in enumerate(texts.to_pylist()):
        if text is not None:
            try:
                parse(text)
            except ValueError as error:
                return refusal.of(position, text, str(error))
    name = refusal.column.name
    return DataError("malformed", table=refusal.table.name, page=refusal.page, field=name)


_reported: set[tuple[str, str, str]] = set()


def _warn_of_unknown(texts: pa.Array, refusal: _Refusal) -> None:
    column, table = refusal.column, refusal.table
    for value in texts.unique().to_pylist():
        seen = (table.name, column.name, str(value))
        if value is None or value in column.members or seen in _reported:
            continue
        warnings.warn(
            f"{table.name}: {column.name} {value!r} is not among the values the interface lists; "
            "it is kept as it is",
            UnknownValueWarning,
            stacklevel=2,
        )
        _reported.add(seen)


def _extras(table: Table, layout: _Layout, found: Any, body: bytes) -> list[bytes | None]:
    """For each row, a JSON object of its unlisted members, sorted by name."""
    if layout.unlisted is None:
        listed = _listed(table)
        records = _records(table, layout, body, 0, RuntimeError("read before"))
        return [
            _object({name: raw for name, raw in record.items() if name not in listed})
            for record in records
        ]
    rows = getattr(found, layout.items)
    if not layout.unlisted:
        return [None] * len(rows)
    pairs = layout.unlisted.items()
    return [
        _object({name: raw for name, at in pairs if (raw := getattr(row, at)) is not None})
        for row in rows
    ]


def _object(members: Mapping[str, msgspec.Raw]) -> bytes | None:
    pairs = [msgspec.json.encode(name) + b":" + bytes(members[name]) for name in sorted(members)]
    return b"{" + b",".join(pairs) + b"}" if pairs else None


def _lift_nested(table: Table, row: Any) -> None:
    """Fill fields that live answers nest in unexpected places, as the models do."""
    if _json_text(row.fiat_network_instructions) is None:
        nested = _members(row.fiat_account_owner).get(_INSTRUCTIONS)
        if nested is not None and bytes(nested).startswith(b"{"):
            row.fiat_network_instructions = nested
    for name, raw in _members(row.fiat_network_instructions).items():
        column = table.column(name)
        if column is None or name in FiatNetworkInstructions.model_fields:
            continue
        current = getattr(row, name)
        if current is None or (column.kind == "json" and _json_text(current) is None):
            _lift(row, column, raw)


def _lift(row: Any, column: Column, raw: msgspec.Raw) -> None:
    try:
        setattr(row, column.name, msgspec.json.decode(raw, type=_MEMBER_TYPES[column.kind]))
    except msgspec.ValidationError:
        return  # of another type: what the service nests elsewhere stays there only


def _members(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    text = _json_text(raw)
    if text is None or not text.startswith(b"{"):
        return {}
    return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
