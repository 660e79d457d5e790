"""Decimal columns from Arrow, from text and to text, a column at a time.

Text is an amount as section 2 of the interface writes it, ``^[0-9]*\\.?[0-9]+$`` in full, with an
optional sign, at most 64 characters and at most 20 digits before and 18 after the point.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.decimals.int128 import PRECISION, SCALE, Bools, Column, Ints, Units, blocks
from fundlab.decimals.scalars import ExactDecimal, parse_one
from fundlab.decimals.wide import divide_small, split
from fundlab.exact import AMOUNT, MAX_AMOUNT_LENGTH

AMOUNT_TYPE = pa.decimal128(PRECISION, SCALE)

_WITHIN = rf"^[+-]?{AMOUNT}$"
_ALPHABET = np.zeros(256, bool)
_ALPHABET[list(b"0123456789.+-")] = True

_TRIPLES = np.frombuffer(b"".join(b"%03d" % i for i in range(1000)), np.uint8).reshape(1000, 3).T
_TRIPLES = np.ascontiguousarray(_TRIPLES)  # the three digits of 000 to 999, by place
_WHOLE = 21  # columns of digits before the point: thirteen triples hold 38 digits and one more
_POINT = 1 + _WHOLE  # after a column for the sign
_WIDTH = _POINT + 1 + SCALE


def parse(strings: pa.Array) -> Column:
    """(units, missing) of an Arrow array of text.

    Raises ValueError for text that is not an amount with an optional sign, OverflowError for one
    with more than 20 digits before the point; both name the text and its position.
    """
    strings = pc.cast(strings, pa.large_string())
    try:
        if not _looks_fine(strings):
            raise _first_error(strings)
        return from_arrow_buffers(pc.cast(strings, AMOUNT_TYPE))
    except pa.ArrowInvalid:
        raise _first_error(strings) from None


def to_text(units: Units, missing: Bools) -> pa.Array:
    """Arrow large strings without padding zeros or exponents: `1442725.09`, `0.15`, `-1.5`."""
    pieces, lengths = [np.zeros(0, np.uint8)], [np.zeros(1, np.int64)]
    for rows in blocks(len(units)):
        text, length = _block_text(units[rows], missing[rows])
        pieces.append(text)
        lengths.append(length)
    offsets = np.cumsum(np.concatenate(lengths))
    return pa.LargeStringArray.from_buffers(
        len(units),
        pa.py_buffer(offsets),
        pa.py_buffer(np.concatenate(pieces)),
        validity(missing),
    )


def to_objects(units: Units, missing: Bools, na_value: object) -> npt.NDArray[np.object_]:
    """An object array of Decimals, one Python object a value."""
    out = np.empty(len(units), object)
    texts: list[Any] = to_text(units, missing).to_pylist()
    collecting = gc.isenabled()
    gc.disable()  # looking for cycles among new numbers would take most of the time
    try:
        out[:] = [na_value if text is None else ExactDecimal(text) for text in texts]
    finally:
        if collecting:
            gc.enable()
    return out


def validity(missing: Bools) -> pa.Buffer | None:
    """Arrow's validity bitmap, or None where nothing is missing."""
    return pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None


def from_arrow_buffers(array: pa.Array) -> Column:
    """(units, missing) of a decimal128(38, 18) array, sharing its value buffer, read-only."""
    count = len(array)
    missing = np.zeros(count, bool)
    if array.null_count:
        missing = array.is_null().to_numpy(zero_copy_only=False).copy()
    if count == 0:
        return np.zeros((0, 2), np.uint64), missing
    start = array.offset * 2
    words = np.frombuffer(array.buffers()[1], np.uint64, count=start + 2 * count)[start:]
    words.flags.writeable = False  # Arrow lends also buffers that could be written to
    return words.reshape(-1, 2), missing


def to_arrow(units: Units, missing: Bools) -> pa.Array:
    """A decimal128(38, 18) array on the same memory, where that is contiguous."""
    buffers = [validity(missing), pa.py_buffer(np.ascontiguousarray(units))]
    return pa.Array.from_buffers(AMOUNT_TYPE, len(units), buffers)


def _looks_fine(strings: pa.Array) -> bool:
    """What Arrow's own parser lets pass and we don't: exponents, `1.`, endless zeros."""
    present = strings.drop_null()
    if len(present) == 0:
        return True
    offsets = np.frombuffer(present.buffers()[1], np.int64)
    offsets = offsets[present.offset : present.offset + len(present) + 1]
    characters = np.frombuffer(present.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    if lengths.min() == 0 or lengths.max() > MAX_AMOUNT_LENGTH:
        return False
    last = characters[offsets[1:] - 1]
    if not ((last >= ord("0")) & (last <= ord("9"))).all():
        return False
    if not _ALPHABET[characters[offsets[0] : offsets[-1]]].all():
        return False
    long = np.flatnonzero(lengths > SCALE)
    return not len(long) or pc.all(pc.match_substring_regex(present.take(long), _WITHIN)).as_py()


def _first_error(strings: pa.Array) -> Exception:
    for position, text in enumerate(strings.to_pylist()):
        if text is not None:
            try:
                parse_one(text, position)
            except (ValueError, OverflowError) as error:
                return error
    return AssertionError("Arrow refuses text that parse_one reads")  # pragma: no cover


def _block_text(units: Units, missing: Bools) -> tuple[npt.NDArray[np.uint8], Ints]:
    count = len(units)
    limbs, minus = split(units)
    cells = np.empty((count, _WIDTH), np.uint8)
    cells[:, 0] = ord("0")
    cells[:, _POINT] = ord(".")
    for triple in range(13):  # groups of three digits, from the last
        if triple % 3 == 0:
            limbs, nine = divide_small(limbs, 10**9)
            rest = np.broadcast_to(nine, count).astype(np.intp)
        right = _WIDTH - 3 * triple
        right -= right <= _POINT + 1  # skip the point
        for column in range(3):
            cells[:, right - 3 + column] = _TRIPLES[column].take(rest % 1000)
        rest //= 1000
    filled = cells != ord("0")
    filled[:, _POINT - 1] = True  # one digit before the point stays
    first = filled[:, :_POINT].argmax(axis=1)
    last = _WIDTH - filled[:, ::-1].argmax(axis=1)
    last[last == _POINT + 1] = _POINT  # no digits after the point: no point
    signed = np.flatnonzero(minus)
    first[signed] -= 1
    cells[signed, first[signed]] = ord("-")
    last[missing] = first[missing]
    used = slice(first.min(), last.max())
    columns = np.arange(_WIDTH, dtype=np.int8)[used]
    kept = columns >= first[:, None].astype(np.int8)
    kept &= columns < last[:, None].astype(np.int8)
    return cells[:, used][kept], (last - first).astype(np.int64)
