"""Vectorised arithmetic on Arrow's 128-bit decimals, seen as pairs of 64-bit words.

A column of n values is an array of shape (n, 2) and type uint64, called `units` here: the low
and the high word of value x 10**18 in two's complement, which is byte for byte the value buffer
of an Arrow decimal128(38, 18). Nothing in this module knows about missing values: their slots
hold zero.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

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
_LARGE_BLOCK = 1 << 16  # where these are truth values

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
    return _carried(np.add, left, right, lambda result, a, _, out: np.less(result, a, out=out))


def subtract(left: Units, right: Units) -> Units:
    """left - right, exact or OverflowError. Either may be one row, which is broadcast."""
    return _carried(np.subtract, left, right, lambda _, a, b, out: np.less(a, b, out=out))


def _carried(operation: np.ufunc, left: Units, right: Units, carries: Callable[..., Any]) -> Units:
    """`operation` on the words, and on the high one and what the low one carries into it."""
    left, right = np.broadcast_arrays(left, right)
    out = np.empty(left.shape, np.uint64)
    carry = np.zeros(min(len(out), BLOCK), np.uint64)
    truths = carry.view(bool)[::8]  # 1 is true: so no truth values have to become words
    for rows in blocks(len(out)):
        a, b, part = left[rows], right[rows], out[rows]
        operation(a, b, out=part)
        carries(part[:, 0], a[:, 0], b[:, 0], truths[: len(part)])
        operation(part[:, 1], carry[: len(part)], out=part[:, 1])
        # Two numbers of 38 digits add up to less than 2 * 10**38: a sum that wraps around 2**128
        # lands beyond 10**38 on the other side, so looking at the result finds every overflow.
        checked(part)
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
    flip = np.uint64(0) - where.view(np.uint8)  # all ones, or zero
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
    return _compared(left, right, np.equal)


def less(left: Units, right: Units) -> Bools:
    return _compared(left, right, np.less)


def _compared(left: Units, right: Units, compare: np.ufunc) -> Bools:
    """`compare` for each two rows; either side may be one row."""
    out = np.empty(max(len(left), len(right)) if len(left) and len(right) else 0, bool)
    for rows in blocks(len(out), _LARGE_BLOCK):
        a = left if len(left) == 1 else left[rows]
        b = right if len(right) == 1 else right[rows]
        part = compare(high(a), high(b), out=out[rows])
        level = high(a) == high(b)  # there the low words decide; often they are few
        if np.count_nonzero(level) < len(level) // 8:
            places = np.flatnonzero(level)
            words = (one if len(one) == 1 else one[places] for one in (low(a), low(b)))
            part[places] = compare(*words)
        else:
            np.copyto(part, compare(low(a), low(b)), where=level)
    return out


def extreme(units: Units, largest: bool) -> int:
    """The largest of the values, or the least."""
    of_words, of_integers = (np.max, max) if largest else (np.min, min)
    best = to_ints(units[:1])[0]
    for rows in blocks(len(units)):
        tops = np.ascontiguousarray(high(units[rows]))
        top = int(of_words(tops))
        if of_integers(top, best >> 64) == top:
            word = int(of_words(low(units[rows]).take(np.flatnonzero(tops == top))))
            best = of_integers(best, (top << 64) | word)
    return best


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
    if len(units) < 2:
        return np.arange(len(units))
    # NumPy sorts numbers of 16 bits in a tenth of the time of 64. Twice these, the first 32 bits
    # of the distances from the least value, mostly decide.
    least = extreme(units, False)
    bits = (extreme(units, True) - least).bit_length()
    keys = _bits(units, least, max(bits - 32, 0))
    positions = _ordered_by(keys)
    keys = keys.take(positions)
    tied = np.zeros(len(units), bool)
    tied[1:] = keys[1:] == keys[:-1]
    tied[:-1] |= tied[1:]
    if bits <= 32 or not tied.any():
        return positions
    rows = positions[tied]
    level = take(units, rows)
    if less(level[1:], level[:-1]).any():  # in order where all that are tied are equal
        within = None
        for shift in range(0, bits, 32):
            within = _ordered_by(_bits(level, least, shift), within)
        positions[tied] = rows[within]
    return positions


def _bits(units: Units, least: int, shift: int) -> npt.NDArray[np.uint32]:
    """32 bits of the distances from `least`, without the last `shift`."""
    start = from_ints([least])[0]
    keys = np.empty(len(units), np.uint32)
    for rows in blocks(len(units)):
        words = low(units[rows]) - start[0]
        tops = units[rows, 1] - start[1]
        tops -= words > low(units[rows])
        if shift >= 64:
            words = tops >> np.uint64(shift - 64)
        elif shift:
            words >>= np.uint64(shift)
            words |= tops << np.uint64(64 - shift)
        keys[rows] = words
    return keys


def _ordered_by(keys: npt.NDArray[np.uint32], positions: Positions | None = None) -> Positions:
    """`positions`, by default all, sorted by their `keys`; those of equal keys keep their order."""
    for shift in (0, 16):
        digits = (keys >> np.uint32(shift)).astype(np.uint16)
        if positions is None:
            positions = np.argsort(digits, kind="stable")
        elif digits.any():
            positions = positions.take(np.argsort(digits.take(positions), kind="stable"))
    answer: Positions = np.asarray(positions)
    return answer


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


def distinct(units: Units, codes: bool = True) -> tuple[Positions, Positions]:
    """(codes, rows): the first row of each value, by appearance, and the number of each value
    among these; without `codes` only the rows."""
    positions, starts = runs(units)
    firsts = positions[starts]
    chosen = np.zeros(len(units), bool)
    chosen[firsts] = True
    rows = np.flatnonzero(chosen)
    numbers = np.empty(len(units) if codes else 0, np.intp)
    if codes:
        by_appearance = (np.cumsum(chosen) - 1)[firsts]
        numbers[positions] = by_appearance[np.cumsum(starts) - 1]
    return numbers, rows


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


def few_values(units: Units) -> bool:
    """Whether most values of a sample are repeated: hashing is then faster than sorting."""
    sample = take(units, np.linspace(0, len(units) - 1, min(len(units), 4096)).astype(np.intp))
    _, starts = runs(sample)
    return bool(np.count_nonzero(starts) * 4 < len(sample) * 3)


def maybe_among(units: Units, values: Units) -> tuple[Bools, Positions]:
    """(False for each row, the rows that may equal one of `values`): few others, if values are few.

    Each value marks one place of a table, by its hash.
    """
    bits = min(max((16 * len(values)).bit_length(), 12), 22)
    table = np.zeros(1 << bits, bool)

    def places(part: Units) -> Ints:
        hashed = part[:, 1] * np.uint64(0xD6E8FEB86659FD93)
        hashed ^= part[:, 0]
        hashed *= np.uint64(0x9E3779B97F4A7C15)
        hashed >>= np.uint64(64 - bits)
        return hashed.view(np.int64)

    table[places(values)] = True
    rows = [
        np.flatnonzero(table.take(places(units[part]))) + part.start for part in blocks(len(units))
    ]
    return np.zeros(len(units), bool), np.concatenate([np.zeros(0, np.intp), *rows])


def to_floats(units: Units) -> Floats:
    """The nearest float64 to each value, ties to even, as Python's float(Decimal) gives."""
    floats = np.empty(len(units))
    piece = np.uint64((1 << 42) - 1)
    for rows in blocks(len(units)):
        magnitude = absolute(units[rows])
        words, tops = magnitude[:, 0], magnitude[:, 1]
        # value = lead + rest, each piece exact, rest far below the last bit of lead
        first = (words & piece).astype(np.float64)
        middle = ((words >> np.uint64(42)) | (tops << np.uint64(22))) & piece
        last = (tops >> np.uint64(20)).astype(np.float64) * 2.0**84
        lead, rest = _two_sum(last, middle.astype(np.float64) * 2.0**42)
        lead, rest = _two_sum(lead, rest + first)
        # quotient * ONE is the rounded product and its exact error (Dekker)
        quotient = lead / ONE
        product = quotient * float(ONE)
        a, b = _halves(quotient)
        c, d = (float(half[0]) for half in _halves(np.array([float(ONE)])))
        error = ((a * c - product) + a * d + b * c) + b * d
        correction = ((lead - product) - error + rest) / ONE
        out: Floats = quotient + correction
        # What is lost by the last rounding is known to 2**-40 of its size: redo near-ties in
        # integers.
        lost = np.abs(correction - (out - quotient)) / np.spacing(out)
        doubtful = (np.abs(lost - 0.5) < 1e-6) | (np.abs(lost - 0.25) < 1e-6)
        if doubtful.any():
            out[doubtful] = [value / ONE for value in to_ints(magnitude[doubtful])]
        out[high(units[rows]) < 0] *= -1.0
        floats[rows] = out
    return floats


def take(units: Units, positions: npt.NDArray[np.intp]) -> Units:
    """Rows of `units` (contiguous or not) at `positions`."""
    whole = np.ascontiguousarray(units).view(np.complex128).ravel()  # moves 16 bytes at once
    return whole.take(positions).view(np.uint64).reshape(-1, 2)


def blocks(length: int, size: int = BLOCK) -> Iterator[slice]:
    for start in range(0, length, size):
        yield slice(start, start + size)


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


def _halves(values: Floats) -> tuple[Floats, Floats]:
    scaled = values * 134217729.0  # 2**27 + 1
    top = scaled - (scaled - values)
    return top, values - top
