"""What every room shares of Arrow: the type of amounts, and columns as NumPy's arrays.

Arrow imports pandas where it is given a value of Python's without a type, groups a table, or makes
a column an array of NumPy's: half a second and 60 MB of which a sync has no use; and NumPy's masked
arrays, where it is given any array of NumPy's. So what a sync does names the type of each value
(``pa.scalar(0, pa.int64())``) and takes :func:`numbers`, :func:`of_numbers` and :func:`groups`.
See `fundlab.base.pandas_hook` for Arrow's other question about pandas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fundlab.base.exact import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS
from fundlab.base.values import overflow

AMOUNT_TYPE: Final = pa.decimal128(MAX_INTEGER_DIGITS + MAX_FRACTION_DIGITS, MAX_FRACTION_DIGITS)


@contextmanager
def frugal_memory() -> Iterator[None]:
    """Arrow takes its memory from the system meanwhile. The allocator that it comes with keeps for
    each thread what passes through it: a quarter more memory for a sync, and twice the time in the
    kernel."""
    usual = pa.default_memory_pool()
    if usual.backend_name == "system":
        yield
        return
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(usual)


def exact_table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """``rows`` as a table of ``schema``. Raises ``OverflowError`` for a sum it cannot hold."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    try:
        arrays = [pa.array(c, kind) for c, kind in zip(columns, schema.types, strict=True)]
    except pa.ArrowInvalid as error:
        raise overflow("a sum of amounts") from error
    return pa.Table.from_arrays(arrays, schema=schema)


def without_views(rows: pa.Table) -> pa.Table:
    """``rows`` with texts of a kind that files and engines take: Polars gives them as views."""
    for position, field in enumerate(rows.schema):
        if pa.types.is_string_view(field.type):
            column = rows.column(position).cast(pa.large_string())
            rows = rows.set_column(position, field.with_type(pa.large_string()), column)
    return rows


def numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """The integers, moments (nanoseconds) or flags of a column without nulls. Not to be written
    to: they may be those of the column."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pa.types.is_boolean(column.type):
        return np.from_dlpack(column.cast(pa.uint8())).view(bool)
    return np.from_dlpack(column.view(pa.int64()) if pa.types.is_temporal(column.type) else column)


def of_numbers(values: np.ndarray[Any, Any], valid: np.ndarray[Any, Any] | None = None) -> pa.Array:
    """Numbers or flags of NumPy's, its moments as integers, as an array of Arrow's, null where they
    are not ``valid``. Not copied."""
    data = np.packbits(values, bitorder="little") if values.dtype == bool else values
    known = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [known, pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)


def groups(rows: pa.Table, by: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Each combination of values in the columns ``by`` that occurs, and its rows in their order."""
    codes, values = np.zeros(rows.num_rows, np.int64), []
    for name in by:
        column = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        values.append(column.dictionary)
        codes = codes * len(column.dictionary) + numbers(column.indices)
    order = np.argsort(codes, kind="stable")
    codes, rows = codes[order], rows.take(of_numbers(order))
    begins = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    places = np.unravel_index(codes[begins], [max(1, len(found)) for found in values])
    for number, (start, end) in enumerate(pairwise([*begins, rows.num_rows])):
        key = (found[int(place[number])] for found, place in zip(values, places, strict=True))
        yield tuple(one.as_py() for one in key), rows.slice(start, end - start)


def with_durations(table: pa.Table) -> pa.Table:
    """``table`` with DuckDB's intervals, of days and nanoseconds, as durations."""
    for place, field in enumerate(table.schema):
        if pa.types.is_interval(field.type):
            every = table.column(place).to_pylist()
            if any(one and one.months for one in every):
                continue  # a month has no length of its own
            lengths = [None if one is None else one.days * 86_400 * 10**9 + one.nanoseconds
                       for one in every]  # fmt: skip
            table = table.set_column(place, field.name, pa.array(lengths, pa.duration("ns")))
    return table
