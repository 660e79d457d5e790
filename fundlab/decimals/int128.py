"""Vectorised arithmetic on Arrow's 128-bit decimals, seen as pairs of 64-bit words.

A column of n values is an array of shape (n, 2) and type uint64, called `units` here: the low
and the high word of value x 10**18 in two's complement, which is byte for byte the value buffer
of an Arrow decimal128(38, 18). The arithmetic knows nothing of missing values: their slots hold
zero; a column is units and which of its values are missing. Where ``kernels.c`` was compiled, its
loops do the work.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.exact import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS
from fundlab.decimals import kernels

Units = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]
Column = tuple[Units, Bools]  # and which of its values are missing

SCALE = MAX_FRACTION_DIGITS
PRECISION = MAX_INTEGER_DIGITS + SCALE
ONE = 10**SCALE
LIMIT = 10**PRECISION  # every value x 10**18 lies strictly between -LIMIT and LIMIT

BLOCK = 1 << 14  # rows handled at a time, so that temporaries stay in the processor's cache

_TOP_HIGH = np.int64(LIMIT >> 64)

if sys.byteorder != "little":  # pragma: no cover - no such machine runs pandas wheels
    raise ImportError("fundlab.decimals needs a little-endian machine")


def low(units: Units) -> Units:
    return units[:, 0]


def high(units: Units) -> Ints:
    return units[:, 1].view(np.int64)


def from_ints(values: Sequence[int]) -> Units:
    """Python integers (value x 10**18) as units; the caller has checked their range."""
    raw = b"".join([value.to_bytes(16, "little", signed=True) for value in values])
    return np.frombuffer(raw, dtype=np.uint64).reshape(-1, 2).copy()


def to_ints(units: Units) -> list[int]:
    """Units as Python integers (value x 10**18), one object a value."""
    return [(h << 64) | w for w, h in zip(low(units).tolist(), high(units).tolist(), strict=True)]


def checked(units: Units) -> Units:
    """The same units, or OverflowError where one of them has more than 38 digits."""
    highs = units[:, 1].view(np.int64)
    if len(units) == 0 or (highs.max() < _TOP_HIGH and highs.min() >= -_TOP_HIGH):
        return units
    bound = from_ints([LIMIT])
    if not (less(negative(bound), units) & less(units, bound)).all():
        raise overflow()
    return units


def overflow() -> OverflowError:
    return OverflowError(
        "a result does not fit a decimal column: its values have at most 38 digits, "
        "20 before the point and 18 after it"
    )


def add(left: Units, right: Units) -> Units:
    """left + right, exact or OverflowError. Either may be one row, which is broadcast."""
    if kernels.library:
        return calculated(kernels.ADD, left, right)
    out = left + right
    out[:, 1] += out[:, 0] < low(left)
    # Two numbers of 38 digits add up to less than 2 * 10**38: a sum that wraps around 2**128 lands
    # beyond 10**38 on the other side, so looking at the result finds every overflow.
    return checked(out)


def subtract(left: Units, right: Units) -> Units:
    """left - right, exact or OverflowError. Either may be one row, which is broadcast."""
    if kernels.library:
        return calculated(kernels.SUBTRACT, left, right)
    out = left - right
    out[:, 1] -= low(left) < low(right)
    return checked(out)


def calculated(operation: object, left: Units, right: Units) -> Units:
    """The result of one of the operations of `kernels`, or OverflowError."""
    out: Units = kernels.room(np.broadcast_shapes(left.shape, right.shape)[0], "2u8")
    if kernels.of_two("calculate", left, right, out, operation) < 0:
        raise overflow()
    return out


def negative(units: Units) -> Units:
    out = ~units
    out[:, 0] += np.uint64(1)
    out[:, 1] += out[:, 0] == 0
    return out


def magnitudes(units: Units, minus: Bools) -> tuple[Units, Units]:
    """The low and the high words of the values without their sign, given which are negative."""
    words, tops = np.ascontiguousarray(units[:, 0]), np.ascontiguousarray(units[:, 1])
    return negated(words, tops, minus) if minus.any() else (words, tops)


def negated(words: Units, tops: Units, where: Bools) -> tuple[Units, Units]:
    """The low and the high words of two's complements of some rows, the others as they are."""
    flip = np.uint64(0) - where.astype(np.uint64)  # all ones, or zero
    words = (words ^ flip) - flip
    return words, (tops ^ flip) + ((words == 0) & where)


def absolute(units: Units) -> Units:
    below = high(units) < 0
    return np.where(below[:, None], negative(units), units) if below.any() else units.copy()


def nonzero(units: Units) -> Bools:
    answer: Bools = (units[:, 0] | units[:, 1]) != 0
    return answer


def cleared(units: Units, missing: Bools) -> Column:
    """A column with zeros under what is missing, as everything here assumes."""
    if missing.any() and units[missing].any():
        units = np.where(missing[:, None], np.uint64(0), units)
    return units, missing


def equal(left: Units, right: Units) -> Bools:
    if kernels.library:
        return _compared("equal", left, right)
    answer: Bools = (left == right).all(axis=1)
    return answer


def less(left: Units, right: Units) -> Bools:
    if kernels.library:
        return _compared("less", left, right)
    level = high(left) == high(right)
    return np.where(level, low(left) < low(right), high(left) < high(right))


def _compared(name: str, left: Units, right: Units) -> Bools:
    out: Bools = kernels.room(np.broadcast_shapes(left.shape, right.shape)[0], bool)
    kernels.of_two(name, left, right, out)
    return out


def extreme(units: Units, largest: bool) -> int:
    """The largest of the values, or the least."""
    if kernels.library:
        out = np.empty((1, 2), np.uint64)
        kernels.call("extreme", units, len(units), int(largest), out)
        return to_ints(out)[0]
    of_words = np.max if largest else np.min
    top = of_words(high(units))
    return int(top) << 64 | int(of_words(low(units)[high(units) == top]))


def total(units: Units) -> int:
    """The exact sum as a Python integer, however large."""
    if kernels.library:
        sums = np.zeros(3, np.uint64)
        kernels.call("group_totals", units, None, len(units), sums)
        return int.from_bytes(sums.tobytes(), "little", signed=True)
    return sum(sum(to_ints(units[rows])) for rows in blocks(len(units)))


def running_total(units: Units) -> Units:
    """Sums of the first 1, 2, 3 ... rows, exact or OverflowError."""
    out: Units = kernels.room(len(units), "2u8")
    if kernels.library:
        if kernels.call("running_total", units, out, len(units)) < 0:
            raise overflow()
        return out
    np.cumsum(low(units), out=out[:, 0])
    np.cumsum(units[:, 1] + (out[:, 0] < low(units)), out=out[:, 1])
    return checked(out)  # each step adds less than 10**38, so no overflow can pass unseen


def order(units: Units) -> Positions:
    """Positions that sort the values; equal values keep their order."""
    if not kernels.library or len(units) >> 32:
        return np.lexsort((low(units), high(units)))
    positions = np.empty(len(units), np.intp)
    kernels.call("order", units, len(units), np.empty((2, len(units)), np.uint64), positions)
    return positions


def runs(units: Units) -> tuple[Positions, Bools]:
    """(positions, starts): the order of the values, and where in it a new value begins."""
    positions = order(units)
    ordered = take(units, positions)
    starts = np.ones(len(units), bool)
    starts[1:] = ~equal(ordered[1:], ordered[:-1])
    return positions, starts


def ranks(units: Units) -> tuple[Ints, Units]:
    """(codes, distinct): the sorted distinct values, and where each value stands among them."""
    positions, starts = runs(units)
    codes = np.empty(len(units), np.int64)
    codes[positions] = np.cumsum(starts) - 1
    return codes, take(units, positions[starts])


def sort_keys(units: Units) -> npt.NDArray[np.complex128]:
    """One complex number a value: different for different values, and in the same order.

    pandas hashes and joins complex128 arrays natively, but no 16-byte type of ours. With
    value = 3 * 2**62 * q + r, both q and r (less its middle) fit the range of the integers that
    number the finite floats, so each becomes the float of that number.
    """
    fourths = (low(units) >> np.uint64(62)).view(np.int64)
    tops = high(units)
    # value >> 62 is 4 * tops + fourths; dividing by 3 leaves tops + (tops + fourths) // 3
    thirds, rest = np.divmod(tops + fourths, 3)
    small = rest * (1 << 62)  # at most 2 * 2**62, which wraps; the subtraction wraps it back
    small += (low(units) & np.uint64((1 << 62) - 1)).view(np.int64)
    small -= 3 << 61
    keys = np.empty(len(units), np.complex128)
    keys.real = _numbered_float(tops + thirds)
    keys.imag = _numbered_float(small)
    return keys


def to_floats(units: Units) -> Floats:
    """The nearest float64 to each value, ties to even, as Python's float(Decimal) gives."""
    if not kernels.library:
        return np.array([value / ONE for value in to_ints(units)], np.float64)
    floats = np.empty(len(units))
    kernels.call("to_floats", units, floats, len(units))
    return floats


def take(units: Units, positions: npt.NDArray[np.intp]) -> Units:
    """Rows of `units` (contiguous or not) at `positions`."""
    whole = np.ascontiguousarray(units).view(np.complex128).ravel()  # moves 16 bytes at once
    return whole.take(positions).view(np.uint64).reshape(-1, 2)


def blocks(length: int, size: int = BLOCK) -> Iterator[slice]:
    for start in range(0, length, size):
        yield slice(start, start + size)


def _numbered_float(numbers: Ints) -> Floats:
    """The float that stands at `number` when all finite floats are counted up from 0.0."""
    bits = np.abs(numbers)
    bits[numbers < 0] |= np.int64(-(1 << 63))
    return bits.view(np.float64)


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
    there = pa.array(~missing).buffers()[1] if missing.any() else None
    buffers = [there, pa.py_buffer(np.ascontiguousarray(units))]
    return pa.Array.from_buffers(AMOUNT_TYPE, len(units), buffers)
