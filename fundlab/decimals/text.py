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

from fundlab.arrow import AMOUNT_TYPE
from fundlab.decimals.int128 import (
    SCALE,
    Bools,
    Column,
    Ints,
    Units,
    blocks,
    high,
    magnitudes,
    negated,
)
from fundlab.decimals.scalars import ExactDecimal, parse_one
from fundlab.decimals.wide import Words, divide_small, split
from fundlab.exact import AMOUNT, MAX_AMOUNT_LENGTH, MAX_INTEGER_DIGITS

_WITHIN = rf"^[+-]?{AMOUNT}$"
_ALPHABET = np.zeros(256, bool)
_ALPHABET[list(b"0123456789.+-")] = True

_BYTE = np.uint64(8)
_LAST_BYTE = np.uint64(1 << 56)
_ZEROS = np.uint64(0x3030303030303030)
_POINT_ZEROS = np.uint64(0x303030303030302E)
_ZERO_TO_MINUS = np.uint64(ord("0") ^ ord("-"))
# and of eight characters, without what digits have in common
_ALL = np.uint64((1 << 64) - 1)
_POINTS = np.uint64(0x0101010101010101 * (ord(".") ^ ord("0")))
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_EIGHTHS = np.uint64(0x8080808080808080)
_NINES = np.uint64(0x7676767676767676)  # carries into the eighth bit beyond 9
_PAIRS = np.uint64(0x000000FF000000FF)
_OUTER = np.uint64(100 + (1_000_000 << 32))
_INNER = np.uint64(1 + (10_000 << 32))
# by how many characters there are from the point on
_POWERS = np.array([10**after for after in range(SCALE + 2)], np.uint64)
_RAISED = np.array([1, *(10 ** (SCALE + 1 - after) for after in range(1, SCALE + 2))], np.uint64)


def parse(strings: pa.Array) -> Column:
    """(units, missing) of an Arrow array of text.

    Raises ValueError for text that is not an amount with an optional sign, OverflowError for one
    with more than 20 digits before the point; both name the text and its position.
    """
    strings = pc.cast(strings, pa.large_string())
    usual = _usual(strings)
    if usual is not None:
        return usual
    try:
        if not _looks_fine(strings):
            raise _first_error(strings)
        return from_arrow_buffers(pc.cast(strings, AMOUNT_TYPE))
    except pa.ArrowInvalid:
        raise _first_error(strings) from None


def to_text(units: Units, missing: Bools) -> pa.Array:
    """Arrow large strings without padding zeros or exponents: `1442725.09`, `0.15`, `-1.5`."""
    characters, offsets = bytearray(), np.zeros(len(units) + 1, np.int64)
    for rows in blocks(len(units)):
        text, lengths = _block_text(units[rows], missing[rows])
        characters += text.data  # grows in place
        offsets[1:][rows] = lengths
    np.cumsum(offsets, out=offsets)
    return pa.LargeStringArray.from_buffers(
        len(units),
        pa.py_buffer(offsets),
        pa.py_buffer(characters),
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


def _usual(strings: pa.Array) -> Column | None:
    """(units, missing) of amounts with at most 14 digits before the point, 39 characters in all.

    None where there is any other text.
    """
    count, units = len(strings), np.empty((len(strings), 2), np.uint64)
    missing = np.zeros(count, bool)
    if strings.null_count:
        missing = strings.is_null().to_numpy(zero_copy_only=False).copy()
    offsets = np.frombuffer(strings.buffers()[1] or bytes(8), np.int64)[strings.offset :]
    first, last = offsets[0], offsets[count]
    padding = np.zeros(40, np.uint8)  # words of eight characters may begin before the first text
    text = np.frombuffer(strings.buffers()[2] or b"", np.uint8)[first:last]
    text = np.concatenate([padding, text, padding])
    anywhere = np.lib.stride_tricks.as_strided(
        text[:8].view(np.uint64), (len(text) - 7,), (1,), writeable=False
    )
    for rows in blocks(count):
        starts = offsets[:-1][rows] + (len(padding) - first)
        ends = offsets[1:][rows] + (len(padding) - first)
        starts, ends = starts[: len(units[rows])], ends[: len(units[rows])]
        gone = missing[rows]
        leading = text[starts]
        minus = leading == ord("-")
        starts = starts + (minus | (leading == ord("+")))
        lengths = ends - starts
        if gone.any():
            lengths, minus = np.where(gone, 0, lengths), minus & ~gone
        longest = int(lengths.max())
        if longest > 39 or ((lengths < 1) & ~gone).any():
            return None
        # The digits from the last one on, with a zero in the place of the point: this many follow.
        low, size = np.zeros(len(ends), np.uint64), np.zeros(len(ends))
        after, wrong = np.zeros(len(ends), np.int64), np.zeros(len(ends), np.uint64)
        for place in range(0, longest, 8):
            word = anywhere[ends - (place + 8)] ^ _ZEROS
            outside = np.clip(place + 8 - lengths, 0, 8)
            word &= _ALL << (outside << 3).view(np.uint64)
            point = word ^ _POINTS
            point = ~(((point & _SEVENS) + _SEVENS) | point) & _EIGHTHS
            if point.any():
                wrong |= (point & (point - np.uint64(1))) | (after * (point != 0)).view(np.uint64)
                after += np.where(point != 0, place + 8 - _last_byte(point), 0)
                word &= ~(point - (point >> np.uint64(7)) | point)
            wrong |= (word + _NINES) & _EIGHTHS | word & _EIGHTHS
            word = word * np.uint64(10) + (word >> _BYTE)
            word = (word & _PAIRS) * _OUTER + ((word >> np.uint64(16)) & _PAIRS) * _INNER
            word >>= np.uint64(32)
            low += word * np.uint64(10**place % (1 << 64))
            size += word * 10.0**place
        within = (after != 1) & (after <= SCALE + 1) & (lengths - after <= MAX_INTEGER_DIGITS)
        if wrong.any() or not within.all():
            return None
        power = _POWERS.take(after)
        rough = np.rint(size / power)  # what follows the point is less than a tenth
        if rough.max() >= 2.0**47:
            return None
        whole = rough.astype(np.int64).view(np.uint64)
        rest = (low - whole * power) * _RAISED.take(after)
        words = whole * np.uint64(10**SCALE)
        tops: Any = np.rint((rough * 10.0**SCALE - words) * 2.0**-64).astype(np.int64)
        rest += words
        tops += rest < words
        units[rows, 0], units[rows, 1] = negated(rest, tops.view(np.uint64), minus)
    return units, missing


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
    """(the characters, the length of each text), from words of eight characters.

    Each is written where its text goes on, and what stands behind that is overwritten by the next
    one, so that no character has to be moved alone.
    """
    chunks, rest, minus = _parts(units)
    words, lengths = [], []
    begun: Any = False
    for chunk in chunks:
        digits = _digits(chunk)
        shown = digits | _LAST_BYTE if chunk is chunks[-1] else digits  # a zero is shown once
        zeros = _last_byte(shown & -shown)
        first = minus
        if chunk is not chunks[0]:
            zeros, first = np.where(begun, 1, zeros), minus & ~begun
        if chunk is not chunks[-1]:
            begun = begun | (digits != 0)
            zeros, first = np.where(begun, zeros, 8), first & begun
        zeros -= first  # chunks have seven digits, so that there is a place for the sign
        ascii_text = digits + _ZEROS
        places = zeros.view(np.uint64) << np.uint64(3)
        ascii_text ^= (first * _ZERO_TO_MINUS) << places
        words.append(np.where(zeros < 8, ascii_text >> places, 0))
        lengths.append(8 - zeros)
    if rest.any():
        # the point and seven digits, eight, three
        sevens = rest // 10**11
        lower = rest - sevens * 10**11
        digits = _digits(sevens)
        words.append(digits + _POINT_ZEROS)
        lengths.append(_length(digits))
        if lower.any():
            eights = lower // 10**3
            middle, last = _digits(eights), _digits((lower - eights * 10**3) * 10**5)
            lengths[-1] = np.where(lower != 0, 8, lengths[-1])
            words += [middle + _ZEROS, last + _ZEROS]
            lengths += [np.where(last != 0, 8, _length(middle)), _length(last)]
    total = sum(lengths[1:], lengths[0])
    if missing.any():
        total[missing] = 0
        lengths = [np.where(missing, 0, length) for length in lengths]
    steps = np.stack(lengths, axis=1).ravel()
    ends = np.cumsum(steps)
    characters = np.empty(ends[-1] + 8, np.uint8)
    anywhere = np.lib.stride_tricks.as_strided(
        characters[:8].view(np.uint64), (int(ends[-1]) + 1,), (1,)
    )
    anywhere[ends - steps] = np.stack(words, axis=1).ravel()
    return characters[: ends[-1]], total


def _parts(units: Units) -> tuple[list[Words], Words, Bools]:
    """(seven digits each of the whole part, the 18 digits after the point, whether negative)."""
    signed = high(units)
    minus = signed < 0
    top: Any = 0
    if max(int(signed.max()), -int(signed.min())) < 1 << 40:  # whole parts that floats hold
        words, tops = magnitudes(units, minus)
        rough = tops.view(np.int64).astype(np.float64)
        rough *= 2.0**64
        rough += words
        rough *= 1.0 / 10**SCALE
        whole: Any = rough.astype(np.int64).view(np.uint64)
        rest: Any = words - whole * np.uint64(10**SCALE)
        off = np.flatnonzero(rest >= 10**SCALE)  # by one, or below zero by one
        whole[off] += np.where(rest[off] >> np.uint64(63), -1, 1).astype(np.uint64)
        rest[off] = words[off] - whole[off] * np.uint64(10**SCALE)
    else:
        limbs, _ = split(units)
        nines = []
        for _place in range(5):
            limbs, nine = divide_small(limbs, 10**9)
            nines.append(np.broadcast_to(nine, len(units)))
        rest = nines[1] * 10**9 + nines[0]
        whole, top = nines[3] * 10**9 + nines[2], nines[4]
        whole, rest, top = (number.astype(np.uint64) for number in (whole, rest, top))
    chunks = [whole]
    if np.any(top) or whole.max() >= 10**7:
        upper = whole // 10**7
        highest = upper // 10**7
        chunks = [highest + top * 10**4, upper - highest * 10**7, whole - upper * 10**7]
        while not chunks[0].any() and len(chunks) > 1:
            del chunks[0]
    return chunks, rest, minus


def _digits(numbers: Words) -> Words:
    """The eight digits of numbers below 10**8, one in each byte, the first in the lowest."""
    upper = numbers // 10**4
    fours = upper | ((numbers - upper * 10**4) << np.uint64(32))
    upper = ((fours * 10486) >> np.uint64(20)) & np.uint64(0x7F0000007F)
    twos = upper | ((fours - upper * 100) << np.uint64(16))
    upper = ((twos * 103) >> np.uint64(10)) & np.uint64(0x000F000F000F000F)
    digits: Words = upper | ((twos - upper * 10) << _BYTE)
    return digits


def _last_byte(words: Words) -> Ints:
    """The place of the highest byte that is not zero; below zero where all are."""
    places: Ints = words.view(np.int64).astype(np.float64).view(np.int64)
    places >>= 52
    places -= 1023
    places >>= 3
    return places


def _length(digits: Words) -> Ints:
    """How many digits there are before zeros alone."""
    return np.maximum(_last_byte(digits) + 1, 0)
