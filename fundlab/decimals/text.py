"""Decimal columns from text and to text, a column at a time.

Text is an amount as section 2 of the interface writes it, ``^[0-9]*\\.?[0-9]+$`` in full, with an
optional sign, at most 64 characters and at most 20 digits before and 18 after the point.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.garbage import no_search
from fundlab.decimals import kernels
from fundlab.decimals.int128 import (
    BLOCK,
    Bools,
    Column,
    Positions,
    Units,
    blocks,
    cleared,
    from_arrow_buffers,
    from_ints,
    take,
    to_arrow,
    to_ints,
)
from fundlab.decimals.scalars import ExactDecimal, format_one, parse_one


def parse(strings: pa.Array) -> Column:
    """(units, missing) of an Arrow array of text.

    Raises ValueError for text that is not an amount with an optional sign, OverflowError for one
    with more than 20 digits before the point; both name the text and its position.
    """
    strings = pc.cast(strings, pa.large_string())
    if not kernels.library:
        texts = enumerate(strings.to_pylist())
        numbers = [0 if one is None else parse_one(one, position) for position, one in texts]
        return from_ints(numbers), np.array(strings.is_null())
    missing, units = np.array(strings.is_null()), kernels.room(len(strings), "2u8")
    _, offsets, characters = (buffer.address if buffer else 0 for buffer in strings.buffers())
    offsets += strings.offset * 8
    wrong = kernels.call("parse", characters, offsets, missing, len(strings), units)
    if wrong < len(strings):
        parse_one(strings[wrong].as_py(), wrong)  # raises what is wrong
    return units, missing


def to_text(units: Units, missing: Bools) -> pa.Array:
    """Arrow large strings without padding zeros or exponents: `1442725.09`, `0.15`, `-1.5`."""
    if not kernels.library:
        numbers = zip(to_ints(units), missing, strict=True)
        return pa.array([None if gone else format_one(n) for n, gone in numbers], pa.large_string())
    characters, offsets = bytearray(), np.zeros(len(units) + 1, np.int64)
    room = np.empty(BLOCK * kernels.LONGEST, np.uint8)
    for rows in blocks(len(units)):
        lengths = offsets[1:][rows]
        size = kernels.call("to_text", units[rows], missing[rows], len(lengths), room, lengths)
        characters += room[:size].data  # grows in place
    np.cumsum(offsets, out=offsets)
    return pa.LargeStringArray.from_buffers(
        len(units),
        pa.py_buffer(offsets),
        pa.py_buffer(characters),
        pa.array(~missing).buffers()[1] if missing.any() else None,
    )


def to_objects(units: Units, missing: Bools, na_value: object) -> npt.NDArray[np.object_]:
    """An object array of Decimals. Equal values of a long column share one."""
    codes = None
    if len(units) > BLOCK:  # of amounts that are many, some are mostly the same
        codes, (units, _) = distinct(units, np.zeros(len(units), bool), kept=True)
    texts = to_text(units, np.zeros(len(units), bool)).to_pylist()
    with no_search():
        # not through a list: NumPy would look for sequences in each of its numbers
        out = np.fromiter(map(ExactDecimal, texts), object, len(texts))
    out = out if codes is None else out[codes]
    out[missing] = na_value
    return out


def distinct(units: Units, missing: Bools, *, kept: bool) -> tuple[Positions, Column]:
    """(codes, column): the different values by appearance, and the number of each row's value
    among these. What is missing has the number -1, or is one of them where it is `kept`."""
    count = len(units)
    if kernels.library and not count >> 32:
        codes, rows = np.empty((2, count), np.intp)
        places = kernels.empty_table(count)
        found = kernels.call("distinct", units, missing, int(kept), count, *places, codes, rows)
        del places  # before the values are taken
        rows = rows[:found]
        return codes, (take(units, rows), missing[rows])
    nulls = "encode" if kept else "mask"
    encoded = to_arrow(units, missing).dictionary_encode(null_encoding=nulls)
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
    return codes, cleared(*from_arrow_buffers(encoded.dictionary))
