"""Page bytes → Arrow table: in bulk, exact, and strict on what matters (interface §2, §4).

A plain page is read by the compiled decoder where there is one (`fundlab.tables.plain_pages`),
without an object for each value. Any other page, and every page where nothing was compiled, is read
here, into structs in which only members that are ever sent take time: the layout of a table starts
out small and grows with the members met. What the interface does not list is kept as JSON, byte for
byte.
This half alone says what is wrong with a page; on the pages that both can read they agree.

Amounts and moments are held to the interface's grammar as text, whole columns at once, before any
cast, because casts are lenient: Arrow's wraps around above 20 integer digits and takes ``1e5``.
The first malformed value stops the page with a ``DataError`` that names it.
"""

from __future__ import annotations

import hashlib
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import astuple

from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import (
    DataError,
    EmptyListWarning,
    ProtocolError,
    UnknownValueWarning,
    a_type,
    shorten,
)
from fundlab.base.exact import AMOUNT
from fundlab.base.garbage import no_search
from fundlab.base.values import UUID, Amount, Instant, id_text, unless_unset
from fundlab.models import FiatNetworkInstructions
from fundlab.tables.plain_pages import INSTRUCTIONS, read_plain
from fundlab.tables.schema import Column, Kind, Table, find_table, parse_instants

# \A and \z, never ^ and $: `$` would let a trailing newline pass. Which days a month has, and
# which years fit, is left to `parse_instants`.
AMOUNT_GRAMMAR: Final = rf"\A{AMOUNT}\z"
INSTANT_GRAMMAR: Final = (
    r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])\z"
)
MAX_NAMED_VALUES: Final = 100
MAX_REMEMBERED_MEMBERS: Final = 128
MEMBER_TYPES: Final[Mapping[Kind, Any]] = {
    "text": str | None,
    "enum": str | None,
    "amount": str | None,
    "instant": str | None,
    "flag": bool | None,
    "count": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None,
    "json": msgspec.Raw,
}

_MUST_BE: Final[Mapping[Kind, str]] = {
    "flag": "true or false", "count": "a whole number of 64 bits"
}  # fmt: skip
_OF_INSTRUCTIONS: Final = frozenset(FiatNetworkInstructions.model_fields)
_NULL: Final = msgspec.Raw(b"null")
_AWKWARD: Final = re.compile(r'[\x00-\x1f"\\]')  # what msgspec refuses in a member's name
_CURSORS: Final[Sequence[Any]] = (
    ("next_page_cursor", str | None, None),
    ("next_page", str | None, None),
)
_cursors: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(
    msgspec.defstruct("Page", _CURSORS)
)
Members = Mapping[str, msgspec.Raw]
"""A record as it is: its members, and the JSON of each."""


@dataclass(frozen=True)
class Page:
    """The rows of one page, in the service's order, and the cursor of the next, if there is one."""

    rows: pa.Table
    next_cursor: str | None
    invalid: tuple[InvalidRow, ...] = ()


@dataclass(frozen=True)
class InvalidRow:
    """A row that cannot be read: its ``id``, if it has one that can, its JSON as it came, and what
    is wrong with it."""

    table: str
    id: str | None
    raw: str
    reason: str

    @property
    def key(self) -> str:
        """The same for the same bytes of the same id."""
        return hashlib.sha256(f"{self.id or ''}{self.raw}".encode()).hexdigest()[:16]


def decode_page(table: Table | str, body: bytes, *, page: int = 1, set_aside: bool = False) -> Page:
    """One page of a list operation as an Arrow table of ``table.schema``; ``page`` counts from 1.
    With ``set_aside`` malformed records are among ``Page.invalid``, and the others are read.

    Raises ``ProtocolError`` where the body is not JSON or not a page, and ``DataError``, naming
    table, page, record, field and value, where one record is malformed. Warns
    ``UnknownValueWarning`` once for each enumeration value that the interface does not list, as far
    as the first hundred of a column, and ``EmptyListWarning`` once for an array that is not there.
    """
    table = find_table(table)
    if not isinstance(body, bytes):
        raise TypeError(f"body is {a_type(body)}; give the bytes of the page")
    try:
        if not body.isascii():
            body.decode()  # kept JSON would otherwise be checked by nobody
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{table.name}, page {page}: not JSON: {error}") from None
    try:
        return _decoded(table, body, page)
    except DataError:
        if not set_aside:
            raise
    # One by one, which is slow, and seldom.
    items, invalid, read = str(table.items), [], []
    loose = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    for raw in msgspec.json.decode(loose[items], type=list[msgspec.Raw]):
        page_of_one = b'{"%s":[%s]}' % (items.encode(), bytes(raw))
        try:
            _decoded(table, page_of_one, page)
        except DataError as error:
            id_ = None
            with suppress(KeyError, msgspec.ValidationError):
                id_ = id_text(msgspec.json.decode(_members(raw)["id"], type=str)) or None
            invalid.append(InvalidRow(table.name, id_, bytes(raw).decode(), error.reason))
        else:
            read.append(raw)
    whole = _decoded(table, msgspec.json.encode({**loose, items: read}), page)
    return replace(whole, invalid=tuple(invalid))


def _decoded(table: Table, body: bytes, page: int) -> Page:
    layout = _layouts.get(table.name)
    kept = () if layout is None or not layout.unlisted else tuple(sorted(layout.unlisted))
    try:
        plain = read_plain(table, body, kept)
        cursors = None if plain is None else _cursors.decode(plain[1])
    except msgspec.DecodeError:
        cursors = None  # what is wrong with it is said below
    if plain is not None and cursors is not None:
        arrays, extras = plain[0], _objects(kept, plain[0][len(table.columns) - 1 :])
        del arrays[len(table.columns) - 1 :]
    else:
        with no_search():
            arrays, extras, cursors = _read_carefully(table, body, page)
    for column, array in zip(table.columns, arrays, strict=False):
        if column.kind != "enum":
            continue
        seen = _reported.setdefault((table.name, column.name), set())
        for value in sorted({*array.unique().to_pylist()} - {*column.members, None} - seen):
            if len(seen) > MAX_NAMED_VALUES:
                break
            named = len(seen) < MAX_NAMED_VALUES
            warnings.warn(
                f"{table.name}: {column.name}"
                f"{f' {shorten(value)} is' if named else ': and more values are'} not among those "
                "the interface lists; kept as sent",
                UnknownValueWarning,
                stacklevel=3,
            )
            seen.add(value)
    count = len(arrays[0])
    if extras is None:
        arrays.append(pa.nulls(count, pa.string()))
    else:
        arrays.append(pa.array(extras, pa.string(), size=count))
    return Page(
        pa.Table.from_arrays(arrays, schema=table.schema),
        cursors.next_page_cursor or cursors.next_page or None,
    )


def _read_carefully(
    table: Table, body: bytes, page: int
) -> tuple[list[pa.Array], Iterable[bytes | None] | None, Any]:
    """The columns of a page, what goes into ``extra`` if anything, and its cursors."""
    layout, decoded = _read(table, body, page)
    rows = getattr(decoded, layout.items)
    if rows is None:
        rows = []
        others = {*msgspec.json.decode(body, type=dict[str, msgspec.Raw])}
        if layout.items not in others and others - {name for name, *_ in _CURSORS}:
            raise ProtocolError(
                f"{table.name}, page {page}: not a page: it has no array {layout.items!r}"
            )
        if table.name not in _empty:
            _empty.add(table.name)
            warnings.warn(
                f"{table.name}: the array {layout.items!r} of a page is null or absent: taken for "
                "a list without rows",
                EmptyListWarning,
                stacklevel=4,
            )
    nested = {c.name: c for c in table.columns[:-1] if c.name not in _OF_INSTRUCTIONS}
    for row in rows if INSTRUCTIONS in table.model.model_fields else ():
        # Fill fields that live answers nest in unexpected places, as the models do.
        if row.fiat_network_instructions == _NULL:
            inside = _members(row.fiat_account_owner).get(INSTRUCTIONS, _NULL)
            if bytes(inside).startswith(b"{"):
                row.fiat_network_instructions = inside
        for name, raw in _members(row.fiat_network_instructions).items():
            if name in nested and getattr(row, name) in (None, _NULL):
                try:
                    found_there = msgspec.json.decode(raw, type=MEMBER_TYPES[nested[name].kind])
                except msgspec.ValidationError:
                    continue  # of another type: what is nested elsewhere stays there only
                setattr(row, name, found_there)
    values = dict(zip(layout.attributes, zip(*map(astuple, rows), strict=True), strict=False))
    arrays = [
        pa.nulls(len(rows), column.type)
        if column.name not in values
        else _array(table, column, values[column.name], page, values["id"])
        for column in table.columns[:-1]
    ]
    extras: Iterable[bytes | None] | None = None
    if layout.unlisted is None:
        listed = {column.name for column in table.columns[:-1]}
        extras = (
            _object({name: raw for name, raw in record.items() if name not in listed})
            for record in _records(table, layout.items, body, page)
        )
    elif rows:
        names = sorted(layout.unlisted)
        extras = _objects(names, [values[layout.unlisted[name]] for name in names])
    return arrays, extras, decoded


# ---------------------------------------------------------------------------- values → columns

_reported: dict[tuple[str, str], set[str]] = {}
_empty: set[str] = set()


def _array(
    table: Table, column: Column, values: Sequence[Any], page: int, ids: Sequence[str]
) -> pa.Array:
    kind = column.kind
    if kind == "json":  # each value's own bytes; a JSON null is null
        lengths = np.zeros(len(values) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=lengths[1:])
        texts = pa.StringArray.from_buffers(
            len(values), pa.py_buffer(lengths), pa.py_buffer(b"".join(values))
        )
        nulls = pc.equal(texts, pa.scalar("null", pa.string()))
        missing = pa.scalar(None, pa.string())
        return pc.if_else(nulls, missing, texts) if pc.any(nulls).as_py() else texts
    if kind in ("flag", "count"):
        return pa.array(values, column.type)
    texts = pa.array(values, pa.string())
    parse: Callable[[str], object] | None = None
    if kind == "amount":
        if pc.all(pc.match_substring_regex(texts, AMOUNT_GRAMMAR), min_count=0).as_py():
            return texts.cast(AMOUNT_TYPE)
        parse = Amount
    elif kind == "instant":
        if any(text is not None and text.startswith("0001-") for text in values):
            values = [unless_unset(text) for text in values]
            texts = pa.array(values, pa.string())
        if pc.all(pc.match_substring_regex(texts, INSTANT_GRAMMAR), min_count=0).as_py():
            try:
                # Arrow knows the calendar, but not the lower-case letters RFC 3339 allows
                return parse_instants(pc.ascii_upper(texts))
            except pa.ArrowInvalid:
                pass  # named below
        parse = Instant.parse
    elif column.name not in table.required or "" not in values:
        return _in_small_letters(texts) if column.is_id else texts
    for position, text in enumerate(values):
        problem = "" if text or text is None else "empty"
        try:
            if parse is not None and text is not None:
                parse(text)
        except ValueError as error:
            problem = str(error)
        if problem:
            raise DataError(
                problem, table=table.name, page=page, record=ids[position] or f"#{position + 1}",
                field=column.name, value=text,
            )  # fmt: skip
    raise DataError("malformed", table=table.name, page=page, field=column.name)


def _in_small_letters(ids: pa.Array) -> pa.Array:
    """``ids``, each as ``id_text`` gives it."""
    return pc.if_else(pc.match_substring_regex(ids, rf"\A{UUID}\z"), pc.ascii_lower(ids), ids)


def _objects(names: Sequence[str], columns: Sequence[Any]) -> Iterable[bytes | None] | None:
    """For each row the JSON object of the members ``names``, whose JSON the ``columns`` hold."""
    if not names:
        return None
    raws = zip(*(c.to_pylist() if isinstance(c, pa.Array) else c for c in columns), strict=True)
    return (_object(dict(zip(names, row, strict=True))) for row in raws)


def _object(members: Mapping[str, msgspec.Raw | bytes | None]) -> bytes | None:
    """One JSON object, sorted by name."""
    pairs = [
        msgspec.json.encode(name) + b":" + bytes(raw)
        for name, raw in sorted(members.items())
        if raw is not None
    ]
    return b"{" + b",".join(pairs) + b"}" if pairs else None


def _members(raw: msgspec.Raw) -> Members:
    if not bytes(raw).startswith(b"{"):
        return {}
    return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])


# ---------------------------------------------------------------------------- bytes → structs


@dataclass(frozen=True)
class _Layout:
    """What a page of a table looks like, as far as it was met.

    ``attributes`` are those of a record's struct. ``unlisted`` maps a member the interface does
    not list to its attribute; ``None`` lets any member pass, to be read in a second look.
    """

    items: str
    attributes: tuple[str, ...]
    unlisted: Mapping[str, str] | None
    page: msgspec.json.Decoder[Any]


_layouts: dict[str, _Layout] = {}
_layouts_lock = threading.Lock()


def _read(table: Table, body: bytes, page: int) -> tuple[_Layout, Any]:
    """The page as structs: its records in the attribute ``layout.items``, and its cursors.

    Raises ``ProtocolError`` where ``body`` is not a page, ``DataError`` naming what is malformed.
    """
    where = f"{table.name}, page {page}"
    try:
        layout = _layouts.get(table.name)
        if layout is None:  # it begins with all members where some are nested in odd places
            odd = INSTRUCTIONS in table.model.model_fields
            layout = _remembered(
                table, [c.name for c in table.columns[:-1] if odd or c.name in table.required]
            )
        try:
            return layout, layout.page.decode(body)
        except msgspec.ValidationError as error:
            refused = error
        # Once more with a layout for the members of these records too, in the order they come in.
        records = _records(table, layout.items, body, page, refused)
        member_of = {attribute: name for name, attribute in (layout.unlisted or {}).items()}
        known = [member_of.get(attribute, attribute) for attribute in layout.attributes]
        met = list(dict.fromkeys(chain(chain.from_iterable(records), known)))
        if len(met) > len(known):
            layout = _remembered(table, met)
        try:
            return layout, layout.page.decode(body)
        except msgspec.ValidationError as error:
            raise _culprit(table, records, page, error) from None
    except RecursionError:
        raise ProtocolError(f"{where}: nested too deeply to be read") from None
    except msgspec.DecodeError as error:
        raise ProtocolError(f"{where}: not JSON: {error}") from None


def _remembered(table: Table, members: Sequence[str]) -> _Layout:
    """The layout for pages of the ``members`` that were met, in the order they were met in; for
    this page alone, and any member at all, where they are too many to remember or too awkward."""
    if table.items is None:
        raise ProtocolError(f"{table.name} does not come in pages")
    listed = {column.name: column for column in table.columns[:-1]}
    others = [name for name in members if name not in listed]
    strict = len(others) <= MAX_REMEMBERED_MEMBERS and not any(map(_AWKWARD.search, others))
    unlisted = {name: f"unlisted_{n}" for n, name in enumerate(others)} if strict else None
    fields: list[Any] = [(name, str) for name in listed if name in table.required]
    for name in members if strict else listed:
        if name in table.required:
            continue
        if name not in listed:
            fields.append((f"unlisted_{others.index(name)}", msgspec.Raw, None))
        else:
            kind = listed[name].kind
            fields.append((name, MEMBER_TYPES[kind], _NULL if kind == "json" else None))
    # without the garbage collector: a page is thousands of objects that hold no cycle
    row = msgspec.defstruct(
        "Row", fields, gc=False, forbid_unknown_fields=strict,
        rename={attribute: name for name, attribute in (unlisted or {}).items()},
    )  # fmt: skip
    page = msgspec.defstruct("Page", [(table.items, list[row] | None, None), *_CURSORS])  # type: ignore[valid-type]
    layout = _Layout(
        table.items, tuple(name for name, *_ in fields), unlisted, msgspec.json.Decoder(page)
    )
    if strict:
        with _layouts_lock:
            _layouts[table.name] = layout
    return layout


def _records(
    table: Table, items: str, body: bytes, page: int, refused: Exception | None = None
) -> list[Members]:
    """The records as they are."""
    loose = msgspec.defstruct("Page", [(items, list[msgspec.Raw] | None, None), *_CURSORS])
    try:
        raws = getattr(msgspec.json.decode(body, type=loose), items) or []
    except msgspec.ValidationError:
        raise ProtocolError(f"{table.name}, page {page}: not a page: {refused}") from None
    records: list[Members] = []
    for number, raw in enumerate(raws, start=1):
        try:
            records.append(msgspec.json.decode(raw, type=dict[str, msgspec.Raw]))
        except msgspec.ValidationError:
            raise DataError(
                "not an object", table=table.name, page=page, record=f"#{number}",
                value=bytes(raw).decode(),
            ) from None  # fmt: skip
    return records


def _culprit(table: Table, records: Sequence[Members], page: int, refused: Exception) -> DataError:
    """The first member of the first record that is not of its type."""
    for number, record in enumerate(records, start=1):
        try:
            id_ = msgspec.json.decode(record["id"], type=str)
        except (KeyError, msgspec.ValidationError):
            id_ = f"#{number}"
        for column in table.columns[:-1]:
            raw, required = record.get(column.name), column.name in table.required
            if raw is None and not required:
                continue
            if raw is None:
                return DataError(
                    "missing", table=table.name, page=page, record=id_, field=column.name
                )
            try:
                msgspec.json.decode(raw, type=str if required else MEMBER_TYPES[column.kind])
            except msgspec.ValidationError:
                return DataError(
                    f"must be {_MUST_BE.get(column.kind, 'text in quotes')}", table=table.name,
                    page=page, record=id_, field=column.name, value=bytes(raw).decode(),
                )  # fmt: skip
    return DataError(str(refused), table=table.name, page=page)
