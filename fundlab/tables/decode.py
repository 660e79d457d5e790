"""Page bytes → Arrow table: in bulk, exact, and strict on what matters (interface §2, §4).

Amounts and moments are held to the interface's grammar as text, whole columns at once, before any
cast, because casts are lenient: Arrow's wraps around above 20 integer digits and takes ``1e5``.
The first malformed value stops the page with a ``DataError`` that names it.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import astuple

from fundlab.errors import DataError, UnknownValueWarning, shorten
from fundlab.models import FiatNetworkInstructions
from fundlab.tables.layout import INSTRUCTIONS, MEMBER_TYPES, Layout, read_page, unlisted_members
from fundlab.tables.schema import AMOUNT_TYPE, EXTRA, INSTANT_TYPE, Column, Table, find_table
from fundlab.values import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS, Amount, Instant

# \A and \z, never ^ and $: `$` would let a trailing newline pass. Which days a month has, and
# which years fit, is left to the cast and to the comparison after it.
AMOUNT_GRAMMAR: Final = r"\A(?:[0-9]{1,20}|[0-9]{0,20}\.[0-9]{1,18})\z"
INSTANT_GRAMMAR: Final = (
    r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])\z"
)
MAX_NAMED_VALUES: Final = 100
FIRST_INSTANT: Final = pa.scalar(Instant.parse("1678-01-01T00:00:00Z").ns, INSTANT_TYPE)
LAST_INSTANT: Final = pa.scalar(Instant.parse("2261-12-31T23:59:59.999999999Z").ns, INSTANT_TYPE)

_ZERO, _POINT = np.uint8(ord("0")), ord(".")
# each character of a plain time: the lowest there may be, and how far above it one may lie
_LOWEST: Final = np.frombuffer(b"0000-00-00T00:00:00.000000000Z", np.uint8)
_SPAN: Final = np.frombuffer(b"9999-19-39T29:59:59.999999999Z", np.uint8) - _LOWEST
_PLAIN_LENGTHS: Final = {
    20 + digits: tuple(np.delete(each, np.s_[19 + digits : 29]) for each in (_LOWEST, _SPAN))
    for digits in (0, *range(2, 11))
}

Values = Sequence[Any]


@dataclass(frozen=True)
class Page:
    """The rows of one page, in the service's order, and the cursor of the next, if there is one."""

    rows: pa.Table
    next_cursor: str | None


def decode_page(table: Table | str, body: bytes, *, page: int = 1) -> Page:
    """One page of a list operation as an Arrow table of ``table.schema``; ``page`` counts from 1.

    Raises ``ProtocolError`` where the body is not JSON or not a page, and ``DataError``, naming
    table, page, record, field and value, where one record is malformed. Warns
    ``UnknownValueWarning`` once for each enumeration value that the interface does not list, as far
    as the first hundred of a column.
    """
    with _collector_paused():
        return _decoded(find_table(table), body, page)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A page is thousands of objects that hold no cycle: looking for one costs a tenth."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _decoded(table: Table, body: bytes, page: int) -> Page:
    layout, found = read_page(table, body, page)
    rows = getattr(found, layout.items)
    if INSTRUCTIONS in table.model.model_fields:
        for row in rows:
            _lift_nested(table, row)
    values = dict(zip(layout.attributes, zip(*map(astuple, rows), strict=True), strict=False))
    source = _Source(table, page, values.get("id", ()))
    arrays = [_array(column, values.get(column.name), source) for column in table.columns[:-1]]
    arrays.append(pa.array(_extras(table, layout, values, body, len(rows)), pa.string()))
    return Page(
        pa.Table.from_arrays(arrays, schema=table.schema),
        found.next_page_cursor or found.next_page or None,
    )


# ---------------------------------------------------------------------------- values → columns


@dataclass(frozen=True)
class _Source:
    """Where values come from, to name what is malformed."""

    table: Table
    page: int
    ids: Sequence[str]

    def refuse(self, column: str, position: int, value: object, problem: str) -> DataError:
        return DataError(
            problem, table=self.table.name, page=self.page,
            record=self.ids[position] or f"#{position + 1}", field=column, value=value,
        )  # fmt: skip

    def malformed(self, column: str, values: Values, parse: Callable[[str], object]) -> DataError:
        """The error for the first value that ``parse`` refuses."""
        for position, text in enumerate(values):
            if text is not None:
                try:
                    parse(text)
                except ValueError as error:
                    return self.refuse(column, position, text, str(error))
        return DataError("malformed", table=self.table.name, page=self.page, field=column)


def _array(column: Column, values: Values | None, source: _Source) -> pa.Array:
    if values is None:
        return pa.nulls(len(source.ids), column.type)
    if column.kind == "json":
        return _json_texts(values)
    if column.kind in ("flag", "count"):
        return pa.array(values, column.type)
    if column.kind == "amount":
        return _amounts(column, values, source)
    if column.kind == "instant":
        return _instants(column, values, source)
    if column.kind == "enum":
        _warn_of_unknown(column, values, source.table)
    texts = pa.array(values, pa.string())
    if column.name in source.table.required:
        starts, _ = _characters(texts)
        if np.any(starts[1:] == starts[:-1]):
            raise source.refuse(column.name, values.index(""), "", "empty")
    return texts


def _json_texts(values: Sequence[msgspec.Raw]) -> pa.Array:
    """Each value's own bytes; a JSON ``null`` is null."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])
    texts = pa.StringArray.from_buffers(
        len(values), pa.py_buffer(offsets), pa.py_buffer(b"".join(values))
    )
    nulls = pc.equal(texts, "null")
    return pc.if_else(nulls, None, texts) if pc.any(nulls).as_py() else texts


def _amounts(column: Column, values: Values, source: _Source) -> pa.Array:
    texts = pa.array(values, pa.string())
    if _are_plain_amounts(texts) or _all(pc.match_substring_regex(texts, AMOUNT_GRAMMAR)):
        return texts.cast(AMOUNT_TYPE)
    raise source.malformed(column.name, values, Amount)


def _are_plain_amounts(texts: pa.Array) -> bool:
    """Whether each is digits, a point, digits: sure, and in a quarter of the grammar's time."""
    offsets, characters = _characters(texts)
    points = np.flatnonzero(characters - _ZERO > 9)
    starts, ends = offsets[:-1], offsets[1:]
    if texts.null_count or len(points) != len(texts) or np.any(characters[points] != _POINT):
        return False
    whole, fraction = points - starts, ends - points - 1  # negative unless each has its own point
    return bool(
        np.all((whole >= 0) & (whole <= MAX_INTEGER_DIGITS))
        and np.all((fraction > 0) & (fraction <= MAX_FRACTION_DIGITS))
    )


def _instants(column: Column, values: Values, source: _Source) -> pa.Array:
    texts = pa.array(values, pa.string())
    if _are_plain_instants(texts) or _all(pc.match_substring_regex(texts, INSTANT_GRAMMAR)):
        try:
            # Arrow knows the calendar, but not the lower-case letters RFC 3339 allows
            moments = pc.ascii_upper(texts).cast(INSTANT_TYPE)
        except pa.ArrowInvalid:
            raise source.malformed(column.name, values, Instant.parse) from None
        if _all(pc.greater_equal(moments, FIRST_INSTANT)) and _all(
            pc.less_equal(moments, LAST_INSTANT)
        ):
            return moments
    raise source.malformed(column.name, values, Instant.parse)


def _are_plain_instants(texts: pa.Array) -> bool:
    """Whether all are in UTC and of one length: sure, and in a fifth of the grammar's time."""
    offsets, characters = _characters(texts)
    length = len(characters) // max(len(texts), 1)
    if texts.null_count or length not in _PLAIN_LENGTHS or np.any(np.diff(offsets) != length):
        return False
    lowest, span = _PLAIN_LENGTHS[length]
    lines = characters.reshape(-1, length)
    beyond_23 = (lines[:, 11] == ord("2")) & (lines[:, 12] > ord("3"))
    return bool(np.all(lines - lowest <= span) and not np.any(beyond_23))


def _characters(texts: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Where each text begins, and at last where the last one ends; and the bytes of all."""
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int32)[: len(texts) + 1]
    return starts, np.frombuffer(data or b"", np.uint8)[: starts[-1]]


def _all(flags: pa.Array) -> bool:
    return bool(pc.all(flags, min_count=0).as_py() is not False)


_reported: dict[tuple[str, str], set[str]] = {}


def _warn_of_unknown(column: Column, values: Values, table: Table) -> None:
    seen = _reported.setdefault((table.name, column.name), set())
    for value in sorted({*values} - {*column.members, None} - seen):
        if len(seen) > MAX_NAMED_VALUES:
            return
        name = f" {shorten(value)} is" if len(seen) < MAX_NAMED_VALUES else ": and more values are"
        warnings.warn(
            f"{table.name}: {column.name}{name} not among those the interface lists; kept as sent",
            UnknownValueWarning,
            stacklevel=2,
        )
        seen.add(value)


def _extras(
    table: Table, layout: Layout, values: Mapping[str, Values], body: bytes, count: int
) -> list[bytes | None]:
    """For each row, a JSON object of its unlisted members, sorted by name."""
    if layout.unlisted is None:
        return [_object(members) for members in unlisted_members(table, layout, body)]
    if not layout.unlisted or not count:
        return [None] * count
    names = sorted(layout.unlisted)
    columns = [values[layout.unlisted[name]] for name in names]
    return [
        _object({name: raw for name, raw in zip(names, row, strict=True) if raw is not None})
        for row in zip(*columns, strict=True)
    ]


def _object(members: Mapping[str, msgspec.Raw]) -> bytes | None:
    pairs = [msgspec.json.encode(name) + b":" + bytes(members[name]) for name in sorted(members)]
    return b"{" + b",".join(pairs) + b"}" if pairs else None


# ---------------------------------------------------------------------------- what is nested


def _lift_nested(table: Table, row: Any) -> None:
    """Fill fields that live answers nest in unexpected places, as the models do."""
    if _is_null(row.fiat_network_instructions):
        nested = _members(row.fiat_account_owner).get(INSTRUCTIONS)
        if nested is not None and bytes(nested).startswith(b"{"):
            row.fiat_network_instructions = nested
    for name, raw in _members(row.fiat_network_instructions).items():
        column = table.column(name)
        if column is None or name == EXTRA or name in FiatNetworkInstructions.model_fields:
            continue
        current = getattr(row, name)
        if current is None or (column.kind == "json" and _is_null(current)):
            _lift(row, column, raw)


def _lift(row: Any, column: Column, raw: msgspec.Raw) -> None:
    try:
        setattr(row, column.name, msgspec.json.decode(raw, type=MEMBER_TYPES[column.kind]))
    except msgspec.ValidationError:
        return  # of another type: what the service nests elsewhere stays there only


def _is_null(raw: msgspec.Raw) -> bool:
    return bytes(raw) == b"null"


def _members(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    if not bytes(raw).startswith(b"{"):
        return {}
    return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
