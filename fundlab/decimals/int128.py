"""Vectorised arithmetic on Arrow's 128-bit decimals, seen as pairs of 64-bit words.

A column of n values is an array of shape (n, 2) and type uint64, called `units` here: the low
and the high word of value x 10**18 in two's complement, which is byte for byte the value buffer
of an Arrow decimal128(38, 18). Nothing in this module knows about missing values: their slots
hold zero.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from fundlab.exact import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS

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
    left, right = np.broadcast_arrays(left, right)
    out = np.empty(left.shape, np.uint64)
    for rows in blocks(len(out)):
        a, part = left[rows], out[rows]
        np.add(a, right[rows], out=part)
        part[:, 1] += part[:, 0] < a[:, 0]
        # Two numbers of 38 digits add up to less than 2 * 10**38: a sum that wraps around 2**128
        # lands beyond 10**38 on the other side, so looking at the result finds every overflow.
        checked(part)
    return out


def subtract(left: Units, right: Units) -> Units:
    """left - right, exact or OverflowError. Either may be one row, which is broadcast."""
    left, right = np.broadcast_arrays(left, right)
    out = np.empty(left.shape, np.uint64)
    for rows in blocks(len(out)):
        a, b, part = left[rows], right[rows], out[rows]
        np.subtract(a, b, out=part)
        part[:, 1] -= a[:, 0] < b[:, 0]
        checked(part)
    return out


def negative(units: Units) -> Units:
    out = ~units
    out[:, 0] += np.uint64(1)
    out[:, 1] += out[:, 0] == 0
    return out


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
    return _compared(left, right, lambda a, b: (a[:, 0] == b[:, 0]) & (a[:, 1] == b[:, 1]))


def less(left: Units, right: Units) -> Bools:
    def lower(a: Units, b: Units) -> Bools:
        answer: Bools = a[:, 0] < b[:, 0]
        answer &= high(a) == high(b)
        answer |= high(a) < high(b)
        return answer

    return _compared(left, right, lower)


def _compared(left: Units, right: Units, kernel: Callable[[Units, Units], Bools]) -> Bools:
    """Whether `kernel` holds for each two rows; either side may be one row."""
    out = np.empty(max(len(left), len(right)) if len(left) and len(right) else 0, bool)
    for rows in blocks(len(out)):
        a = left if len(left) == 1 else left[rows]
        b = right if len(right) == 1 else right[rows]
        out[rows] = kernel(a, b)
    return out


def total(units: Units) -> int:
    """The exact sum as a Python integer, however large."""
    result = 0
    for rows in blocks(len(units)):
        result += _sum(low(units[rows])) + (_sum(high(units[rows])) << 64)
    return result


def running_total(units: Units) -> Units:
    """Sums of the first 1, 2, 3 ... rows, exact or OverflowError."""
    out = np.empty(units.shape, np.uint64)
    before_low = before_high = np.zeros(1, np.uint64)
    for rows in blocks(len(units)):
        words = np.ascontiguousarray(units[rows, 0])
        sums = np.cumsum(words)
        sums += before_low
        tops = units[rows, 1] + (sums < words)
        np.cumsum(tops, out=tops)
        tops += before_high
        out[rows, 0] = sums
        out[rows, 1] = tops
        before_low, before_high = sums[-1:], tops[-1:]
    return checked(out)  # each step adds less than 10**38, so no overflow can pass unseen


def order(units: Units) -> Positions:
    """Positions that sort the values; equal values keep their order."""
    # Sorting by a float that follows the value is twice as fast as by two words, and right
    # unless two different values share a float, which the comparison afterwards finds.
    rough = high(units).astype(np.float64) * 2.0**64 + low(units).astype(np.float64)
    positions = np.argsort(rough, kind="stable")
    ordered = take(units, positions)
    if less(ordered[1:], ordered[:-1]).any():
        positions = np.lexsort((low(units), high(units)))
    return positions


def ranks(units: Units) -> tuple[Ints, Units]:
    """(codes, distinct): the sorted distinct values, and where each value stands among them."""
    positions = order(units)
    ordered = take(units, positions)
    first = np.ones(len(units), bool)
    first[1:] = ~equal(ordered[1:], ordered[:-1])
    codes = np.empty(len(units), np.int64)
    codes[positions] = np.cumsum(first) - 1
    return codes, ordered[first]


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
    magnitude = absolute(units)
    words, tops = magnitude[:, 0], magnitude[:, 1]
    piece = np.uint64((1 << 42) - 1)
    # value = lead + rest, each piece exact, rest far below the last bit of lead
    first = (words & piece).astype(np.float64)
    middle = ((words >> np.uint64(42)) | (tops << np.uint64(22))) & piece
    last = (tops >> np.uint64(20)).astype(np.float64) * 2.0**84
    lead, rest = _two_sum(last, middle.astype(np.float64) * 2.0**42)
    lead, rest = _two_sum(lead, rest + first)
    quotient = lead / ONE
    product, error = _two_product(quotient, float(ONE))
    correction = ((lead - product) - error + rest) / ONE
    out: Floats = quotient + correction
    # What is lost by the last rounding is known to 2**-40 of its size: redo near-ties in integers.
    lost = np.abs(correction - (out - quotient)) / np.spacing(out)
    doubtful = (np.abs(lost - 0.5) < 1e-6) | (np.abs(lost - 0.25) < 1e-6)
    if doubtful.any():
        out[doubtful] = [value / ONE for value in to_ints(magnitude[doubtful])]
    out[high(units) < 0] *= -1.0
    return out


def take(units: Units, positions: npt.NDArray[np.intp]) -> Units:
    """Rows of `units` (contiguous or not) at `positions`."""
    whole = np.ascontiguousarray(units).view(np.complex128).ravel()  # moves 16 bytes at once
    return whole.take(positions).view(np.uint64).reshape(-1, 2)


def blocks(length: int) -> Iterator[slice]:
    for start in range(0, length, BLOCK):
        yield slice(start, start + BLOCK)


def _sum(words: Units | Ints) -> int:
    """The exact sum of one block of words, from the sum of their upper halves and the whole sum,
    of which only the remainder by 2**64 is left."""
    upper = int((words >> words.dtype.type(32)).sum()) << 32
    return upper + (int(words.sum()) - upper) % (1 << 64)


def _numbered_float(numbers: Ints) -> Floats:
    """The float that stands at `number` when all finite floats are counted up from 0.0."""
    bits = np.abs(numbers)
    bits[numbers < 0] |= np.int64(-(1 << 63))
    return bits.view(np.float64)


def _two_sum(large: Floats, small: Floats) -> tuple[Floats, Floats]:
    total = large + small
    part = total - large
    return total, (large - (total - part)) + (small - part)


def _two_product(left: Floats, right: float) -> tuple[Floats, Floats]:
    """left * right as the rounded product and its exact error (Dekker)."""
    product = left * right
    a, b = _halves(left)
    c, d = (float(x[0]) for x in _halves(np.array([right])))
    return product, ((a * c - product) + a * d + b * c) + b * d


def _halves(values: Floats) -> tuple[Floats, Floats]:
    scaled = values * 134217729.0  # 2**27 + 1
    top = scaled - (scaled - values)
    return top, values - top
