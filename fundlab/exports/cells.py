"""How each kind of column becomes text, a column at a time.

=====================  ========================================================
amounts                ``10``, ``1.5``, ``0.000000000000000001``: every digit, no exponent
moments                RFC 3339 in UTC: ``2026-10-01T09:30:00.123456789Z``
days                   ``2026-10-01``
durations              seconds, exact: ``183600``, ``0.5``
flags, whole numbers   ``true``, ``false``, ``42``
=====================  ========================================================
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import InvalidRequest
from fundlab.decimals import DecimalArray

_STARTS_A_FORMULA: Final = r"\A(?:[\t\r\n]|[\s\p{Z}\p{C}]*['=+\-@|%＝＋－＠])"
"""What spreadsheets take for a formula or command at the start of a cell, also behind blanks."""


def is_money(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) or pa.types.is_duration(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether the column's words may come from outside."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    )


def exactly(column: pa.ChunkedArray, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    """``column`` as a ``kind``; raises ``InvalidRequest`` where a value does not fit."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise InvalidRequest(f"column {name!r} holds {column.type}: {error}") from None


def as_text(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """``column`` as text; missing values stay missing.

    Raises ``InvalidRequest`` for a kind of column that has no exact text.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_date(kind):
        return column.cast(pa.date32()).cast(pa.string())
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            raise InvalidRequest(f"column {name!r} holds times without a zone; give them one")
        utc = exactly(column, name, pa.timestamp("ns", "UTC"))
        digits = pc.strftime(utc.cast(pa.timestamp("ns")), "%Y-%m-%dT%H:%M:%S")
        trimmed = pc.replace_substring_regex(digits, r"\.?0+\z", "")
        return pc.binary_join_element_wise(trimmed, "Z", "")
    if pa.types.is_duration(kind):  # as exact seconds
        ns = exactly(column, name, pa.duration("ns")).cast(pa.int64())
        column = pc.multiply(
            ns.cast(pa.decimal128(19, 0)), pa.scalar("0.000000001").cast(pa.decimal128(10, 9))
        )
    elif not pa.types.is_decimal(kind):
        raise InvalidRequest(
            f"column {name!r} holds {kind}, which has no exact text; give decimals, times, text, "
            "flags or whole numbers"
        )
    amounts = exactly(column, name, AMOUNT_TYPE)
    chunks: list[pa.Array] = []
    for chunk in amounts.chunks:
        texts = DecimalArray.from_arrow(chunk).astype("string[pyarrow]").__arrow_array__()
        chunks += texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    return pa.chunked_array([chunk.cast(pa.string()) for chunk in chunks], pa.string())


def harmless(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """``texts`` with an apostrophe before each that a spreadsheet would run, or that begins with
    one: taking one leading apostrophe away gives the text as it was."""
    risky = starts_a_formula(texts)
    if not pc.any(risky).as_py():
        return texts
    return pc.if_else(risky, pc.binary_join_element_wise("'", texts, ""), texts)


def starts_a_formula(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.match_substring_regex(texts, _STARTS_A_FORMULA)


def write_text(page: Any, row: int, place: int, text: str, style: Any) -> None:
    """A text into a cell of an ``xlsxwriter`` sheet."""
    if text.startswith("<r>") and text.endswith("</r>"):  # the writer would take it for markup
        pieces = (text[:1], text[1:2], text[2:])
        page.write_rich_string(row, place, *pieces, *([style] if style else []))
    else:
        page.write_string(row, place, text, style)
