"""Plain pages → Arrow columns by a compiled decoder: ``plain_pages.c``, which says what is plain.

`fundlab.base.compiled` builds it. Any other page is left to `fundlab.tables.decode`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from fundlab.base.compiled import load
from fundlab.tables.schema import Kind, Table, find_table

INSTRUCTIONS: Final = "fiat_network_instructions"
_KINDS: Final[Sequence[Kind | Literal["id"] | None]] = (  # in the order of plain_pages.c
    "text", "amount", "instant", "flag", "count", "json", None, "id",
)  # fmt: skip
_NO_ROOM: Final = -2


class _Column(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("length", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("required", ctypes.c_int32),
    )


SOURCE: Final = Path(__file__).with_name("plain_pages.c")
library = load(SOURCE)


@lru_cache(maxsize=64)
def _layout(name: str, kept: tuple[str, ...]) -> tuple[Any, list[pa.DataType]] | None:
    """What the decoder needs of each column and each member kept beside them, and the types of
    what it gives; ``None`` for a table whose pages hold values in odd places."""
    table = find_table(name)
    if table.items is None or INSTRUCTIONS in table.model.model_fields:
        return None
    columns = [
        (
            column.name,
            "id" if column.is_id else "text" if column.kind == "enum" else column.kind,
            column.name in table.required,
        )
        for column in table.columns[:-1]
    ] + [(member, None, False) for member in kept]
    described = [
        _Column(member.encode(), len(member.encode()), _KINDS.index(kind), required)
        for member, kind, required in columns
    ]
    types = [column.type for column in table.columns[:-1]] + [pa.binary()] * len(kept)
    return (_Column * len(described))(*described), types


def read_plain(
    table: Table, body: bytes, kept: tuple[str, ...]
) -> tuple[list[pa.Array], bytes] | None:
    """The columns of a page, ``extra`` left out, and what is left of the page without its rows; or
    ``None``. ``body`` must be UTF-8. After the columns come the JSON texts of the members ``kept``.
    """
    layout = library and _layout(table.name, kept)
    if not layout:
        return None
    columns, types = layout
    places, extent = np.empty((len(columns), 5), np.int64), np.empty(4, np.int64)
    about = ctypes.c_char_p(body), columns, ctypes.c_int32(len(columns))
    room, verdict = table.page_size, _NO_ROOM
    while verdict == _NO_ROOM:
        spans = np.empty((room, len(columns)), np.int64)
        verdict = library.read_page(
            about[0], ctypes.c_int64(len(body)), str(table.items).encode(), *about[1:],
            _at(spans), ctypes.c_int64(room), _at(places), _at(extent),
        )  # fmt: skip
        room *= 8
    if verdict:
        return None
    rows, start, end, size = extent.tolist()
    memory = pa.allocate_buffer(size)
    if library.write_columns(
        *about, _at(spans), ctypes.c_int64(rows), _at(places), ctypes.c_void_p(memory.address)
    ):
        return None
    arrays = []
    for type_, (valid, offsets, data, length, nulls) in zip(types, places.tolist(), strict=True):
        buffers = [memory.slice(valid, (rows + 7) // 8) if nulls else None]
        if type_.num_buffers == 3:
            buffers.append(memory.slice(offsets, 4 * (rows + 1)))
        buffers.append(memory.slice(data, length))
        arrays.append(pa.Array.from_buffers(type_, rows, buffers, nulls))
    return arrays, body[:start] + b"[]" + body[end:]


def _at(values: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.ctypes.data)
