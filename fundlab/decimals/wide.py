"""Products, quotients and rounding of whole columns, on numbers of any width.

A wide number is a list of int64 arrays, its limbs, 30 bits each, lowest first. Thirty bits leave
room to add up many products of limbs before carrying. Signs are kept beside the magnitudes. What
``kernels.c`` does faster is left to it, where it was compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fundlab.decimals import kernels
from fundlab.decimals.int128 import (
    ONE,
    PRECISION,
    SCALE,
    Bools,
    Floats,
    Ints,
    Units,
    blocks,
    calculated,
    checked,
    from_ints,
    high,
    magnitudes,
    negated,
    overflow,
)

Wide = list[Ints]

_BITS = 30
_BASE = 1 << _BITS
_MASK = _BASE - 1
_STEP = 9  # 10**9 is the largest power of ten below 2**30


def multiply(left: Units, right: Units) -> Units:
    """left * right rounded half-even at 18 decimals, or OverflowError."""
    if kernels.library:
        return calculated(kernels.MULTIPLY, left, right)

    def product(a: Units, b: Units) -> Units:
        (x, minus_x), (y, minus_y) = split(a), split(b)
        return join(shift_down(times(x, y), SCALE), minus_x ^ minus_y)

    return _blockwise(product, left, right)


def divide(left: Units, right: Units) -> Units:
    """left / right rounded half-even at 18 decimals, or OverflowError. No divisor is zero."""
    if kernels.library:
        return calculated(kernels.DIVIDE, left, right)

    def quotient(a: Units, b: Units) -> Units:
        (x, minus_x), (y, minus_y) = split(a), split(b)
        return join(divide_half_even(times(x, constant(ONE)), y), minus_x ^ minus_y)

    return _blockwise(quotient, left, right)


def scale(units: Units, top: int, bottom: int) -> Units:
    """units * top / bottom rounded half-even, or OverflowError."""
    factor, divisor = constant(abs(top)), constant(abs(bottom))

    def scaled(a: Units, _: Units) -> Units:
        x, minus = split(a)
        return join(
            divide_half_even(times(x, factor), divisor), minus ^ ((top < 0) != (bottom < 0))
        )

    return _blockwise(scaled, units, units)


def divide_into(top: int, bottom: int, units: Units) -> Units:
    """top / (bottom * units) rounded half-even, or OverflowError. No divisor is zero."""
    dividend, factor = constant(abs(top)), constant(bottom)

    def quotient(a: Units, _: Units) -> Units:
        x, minus = split(a)
        return join(divide_half_even(dividend, times(x, factor)), minus ^ (top < 0))

    return _blockwise(quotient, units, units)


def inner(left: Units, right: Units) -> int:
    """The exact sum of the products of two columns, as a Python integer."""
    total = 0
    for rows in blocks(len(left)):
        (x, minus_x), (y, minus_y) = split(left[rows]), split(right[rows])
        minus = minus_x ^ minus_y
        for place, limb in enumerate(times(x, y)):
            total += int(np.where(minus, -limb, limb).sum()) << (_BITS * place)
    return total


def floor_divide(left: Units, right: Units) -> Units:
    """The integer part of left / right, towards zero as Decimal does, or OverflowError."""

    def quotient(a: Units, b: Units) -> Units:
        (x, minus_x), (y, minus_y) = split(a), split(b)
        whole, _ = divide_floor(x, y)
        return join(times(whole, constant(ONE)), minus_x ^ minus_y)

    return _blockwise(quotient, left, right)


def remainder(left: Units, right: Units) -> Units:
    """What floor_divide leaves, with the sign of `left`, as Decimal does."""

    def rest(a: Units, b: Units) -> Units:
        (x, minus_x), (y, minus_y) = split(a), split(b)
        return join(divide_floor(x, y)[1], np.broadcast_arrays(minus_x, minus_y)[0])

    return _blockwise(rest, left, right)


def power(base: Units, exponent: int) -> Units:
    """base ** exponent for a small positive exponent: one rounding, half-even, at the end."""

    def raised(a: Units, _: Units) -> Units:
        x, minus = split(a)
        result = x
        for _step in range(exponent - 1):
            result = times(result, x)
        return join(shift_down(result, SCALE * (exponent - 1)), minus & bool(exponent % 2))

    return _blockwise(raised, base, base)


def round_to(units: Units, decimals: int) -> Units:
    """Rounded half-even to `decimals` places, which may be negative; or OverflowError."""
    places = SCALE - decimals
    if places <= 0:
        return units.copy()
    if places > PRECISION:
        return np.zeros(units.shape, np.uint64)
    if kernels.library:
        out: Units = kernels.room(len(units), "2u8")
        if kernels.call("round_to", units, from_ints([10**places]), out, len(units)) < 0:
            raise overflow()
        return out

    def rounded(a: Units, _: Units) -> Units:
        x, minus = split(a)
        return join(times(shift_down(x, places), constant(10**places)), minus)

    return _blockwise(rounded, units, units)


def scaled_integers(values: Ints | Units) -> Units:
    """Integers of 64 bits as units."""
    minus = values < 0
    words = values.astype(np.uint64)
    magnitude = np.where(minus, ~words + np.uint64(1), words)
    units = np.stack([magnitude, np.zeros_like(magnitude)], axis=1)
    limbs, _ = split(units)
    return join(times(limbs, constant(ONE)), minus)


def whole_numbers(units: Units, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Units as NumPy integers of type `kind`.

    Raises ValueError where a value has decimals, OverflowError where it does not fit.
    """
    limbs, minus = split(units)
    whole, rest = divide_floor(limbs, constant(ONE))
    if trimmed(rest):
        raise ValueError(f"cannot make {kind} of values with decimals: round them first")
    parts = [*whole, *[np.zeros(len(units), np.int64)] * (3 - len(whole))]
    span = np.iinfo(kind)
    words = sum(part.view(np.uint64) << np.uint64(_BITS * i) for i, part in enumerate(parts[:3]))
    words = np.broadcast_to(np.asarray(words, np.uint64), len(units))
    bound = np.where(minus, np.uint64(-int(span.min)), np.uint64(span.max))
    if len(whole) > 3 or (parts[2] >= 16).any() or (words > bound).any():
        raise OverflowError(f"values outside {span.min} to {span.max} do not fit {kind}")
    return np.where(minus, np.uint64(0) - words, words).astype(kind)


def split(units: Units) -> tuple[Wide, Bools]:
    """(limbs of the magnitude, whether negative), without the limbs that are zero in all rows."""
    minus = high(units) < 0
    words, tops = magnitudes(units, minus)
    mask = np.uint64(_MASK)
    limbs = [
        words & mask,
        (words >> np.uint64(30)) & mask,
        ((words >> np.uint64(60)) | (tops << np.uint64(4))) & mask,
    ]
    if tops.size and tops.max() >= 1 << 26:
        limbs += [(tops >> np.uint64(26)) & mask, tops >> np.uint64(56)]
    return trimmed([limb.view(np.int64) for limb in limbs]), minus


def join(limbs: Wide, minus: Bools) -> Units:
    """Units of a magnitude and its sign, or OverflowError beyond 38 digits."""
    limbs = trimmed(limbs)
    if len(limbs) > 5 or (len(limbs) == 5 and limbs[4].max() >= 1 << 7):  # beyond 127 bits
        raise overflow()
    parts = [limb.view(np.uint64) for limb in limbs]
    parts += [np.zeros(1, np.uint64)] * (5 - len(parts))
    words = parts[0] | (parts[1] << np.uint64(30)) | (parts[2] << np.uint64(60))
    tops = (parts[2] >> np.uint64(4)) | (parts[3] << np.uint64(26)) | (parts[4] << np.uint64(56))
    if minus.any():
        words, tops = negated(words, tops, minus)
    units = np.empty((len(minus), 2), np.uint64)
    units[:, 0], units[:, 1] = words, tops
    return checked(units)


def join_present(limbs: Wide, minus: Bools, missing: Bools) -> Units:
    """As `join`, with zeros where the result is missing, however large it were."""
    if missing.any():
        limbs = [np.where(missing, 0, limb) for limb in limbs]
    return join(limbs, minus)


def constant(value: int) -> Wide:
    """One number, zero or positive, as limbs of length one, to be broadcast."""
    if value < 0:
        raise ValueError(f"{value}: limbs hold no negative number")
    limbs = []
    while value:
        limbs.append(np.array([value & _MASK], np.int64))
        value >>= _BITS
    return limbs


def powers_of_two(exponents: Ints) -> Wide:
    """2**exponent for each exponent, none of them negative."""
    place, bit = np.divmod(exponents, _BITS)
    powers = np.left_shift(np.int64(1), bit)
    return [np.where(place == k, powers, 0) for k in range(int(place.max(initial=0)) + 1)]


def times(left: Wide, right: Wide) -> Wide:
    if not left or not right:
        return []
    columns: Wide = []
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            product = a * b
            if i + j < len(columns):
                columns[i + j] = columns[i + j] + product
            else:
                columns.append(product)
    return trimmed(carried(columns))


def plus(left: Wide, right: Wide) -> Wide:
    """left + right, limb by limb, without carrying."""
    length = max(len(left), len(right))
    return [a + b for a, b in zip(_padded(left, length), _padded(right, length), strict=True)]


def divide_half_even(numerator: Wide, divisor: Wide) -> Wide:
    quotient, rest = divide_floor(numerator, divisor)
    twice = carried([limb * 2 for limb in rest])
    over = carried(_minus(twice, divisor))
    tie = np.logical_and.reduce(np.broadcast_arrays(*[limb == 0 for limb in over]))
    return _plus_one(quotient, (over[-1] >= 0) & (~tie | _odd(quotient)))


def divide_floor(numerator: Wide, divisor: Wide) -> tuple[Wide, Wide]:
    """(quotient, remainder), limb by limb, each guessed from below in floating point.

    A guess is at most one too small: float64 knows the ratio to 2**-49, and 2**-48 of it is
    given away. What it leaves goes to the next limb, which may so exceed 30 bits for a moment.
    """
    rest = numerator
    if not rest:
        return [], []
    inverse = (1.0 - 2.0**-48) / _floats(divisor)
    ratio = _floats(rest) * inverse
    largest = float(ratio.max())
    count = 0 if largest < 0.5 else int(np.log2(largest)) // _BITS + 1
    quotient: Wide = [np.zeros(1, np.int64)] * count
    for place in reversed(range(count)):
        digit = (ratio * 2.0 ** (-_BITS * place)).astype(np.int64)
        rest = trimmed(carried(_minus(rest, [limb * digit for limb in divisor], place)))
        quotient[place] = digit
        if place:
            ratio = _floats(rest) * inverse
    over = carried(_minus(rest, divisor))
    fits = over[-1] >= 0
    rest = [np.where(fits, o, r) for o, r in zip(over, _padded(rest, len(over)), strict=True)]
    return _plus_one(carried(quotient), fits), trimmed(rest)


def shift_down(limbs: Wide, places: int) -> Wide:
    """limbs / 10**places, rounded half-even."""
    if not limbs or places == 0:
        return limbs
    sticky: Bools | bool = False
    while places > _STEP:
        limbs, rest = divide_small(limbs, 10**_STEP)
        sticky = sticky | (rest != 0)
        places -= _STEP
    limbs, rest = divide_small(limbs, 10**places)
    half = 10**places // 2
    return _plus_one(limbs, (rest > half) | ((rest == half) & (sticky | _odd(limbs))))


def carried(limbs: Wide) -> Wide:
    """The same number with every limb but the last in 0 .. 2**30 - 1; the last bears the sign.

    A last limb that is too large is spread over further ones.
    """
    out: Wide = []
    carry: Ints | int = 0
    for limb in limbs:
        value = limb + carry if isinstance(carry, np.ndarray) else limb
        out.append(value & _MASK)
        carry = value >> _BITS
    while isinstance(carry, np.ndarray) and carry.size:
        least, most = carry.min(), carry.max()
        if most <= 0 and least >= -1:
            if least < 0:
                out[-1] = out[-1] + (carry << _BITS)
            break
        out.append(carry & _MASK)
        carry = carry >> _BITS
    return out


def trimmed(limbs: Wide) -> Wide:
    """Without the top limbs that are zero in every row."""
    while limbs and not limbs[-1].any():
        limbs = limbs[:-1]
    return limbs


def signed_split(units: Units) -> Wide:
    """Limbs that can be summed each on its own: of the last one the sign is that of the value."""
    words, tops = units[:, 0], high(units)
    mask = np.uint64(_MASK)
    limbs = [
        (words & mask).view(np.int64),
        ((words >> np.uint64(30)) & mask).view(np.int64),
        (words >> np.uint64(60)).view(np.int64) | ((tops & ((1 << 26) - 1)) << 4),
        tops >> 26,
    ]
    if units.size and max(limbs[3].max(), -limbs[3].min()) >= _BASE:
        limbs[3:] = [limbs[3] & _MASK, limbs[3] >> _BITS]
    return limbs


def magnitude(limbs: Wide, length: int) -> tuple[Wide, Bools]:
    """(magnitude, whether negative) of summed signed limbs."""
    out = carried(limbs)
    if not out:
        return [], np.zeros(length, bool)
    minus = out[-1] < 0
    if minus.any():
        out = carried([np.where(minus, -limb, limb) for limb in limbs])
    return trimmed(out), minus


def _blockwise(kernel: Callable[[Units, Units], Units], left: Units, right: Units) -> Units:
    """`kernel` of each block of rows, so that temporaries stay small."""
    out = np.empty(np.broadcast_shapes(left.shape, right.shape), np.uint64)
    for rows in blocks(len(out)):
        out[rows] = kernel(*(one if len(one) == 1 else one[rows] for one in (left, right)))
    return out


def divide_small(limbs: Wide, divisor: int) -> tuple[Wide, Ints]:
    small = np.uint64(divisor)
    rest = np.zeros(1, np.uint64)
    quotient: Wide = []
    for limb in reversed(limbs):
        value = (rest << np.uint64(_BITS)) | limb.view(np.uint64)
        digit = value // small
        rest = value - digit * small
        quotient.append(digit.view(np.int64))
    return trimmed(quotient[::-1]), rest.view(np.int64)


def _plus_one(limbs: Wide, where: Bools) -> Wide:
    if not where.any():
        return limbs
    return carried([limbs[0] + where, *limbs[1:]] if limbs else [where.astype(np.int64)])


def _minus(left: Wide, right: Wide, place: int = 0) -> Wide:
    """left - right * 2**(30 * place), limb by limb, without carrying."""
    out = _padded(left, len(right) + place)
    for i, limb in enumerate(right):
        out[i + place] = out[i + place] - limb
    return out


def _padded(limbs: Wide, length: int) -> Wide:
    return [*limbs, *[np.zeros(1, np.int64)] * (length - len(limbs))]


def _odd(limbs: Wide) -> Bools | bool:
    return (limbs[0] & 1).astype(bool) if limbs else False


def _floats(limbs: Wide) -> Floats:
    if not limbs:
        return np.zeros(1)
    total = limbs[0].astype(np.float64)
    for place, limb in enumerate(limbs[1:], start=1):
        total = total + limb * 2.0 ** (_BITS * place)
    return total
