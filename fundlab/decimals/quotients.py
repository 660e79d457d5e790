"""Rounded quotients in two words: products, quotients and rounding of amounts of usual size.

A quotient is guessed in float64, and what the guess leaves is computed modulo 2**128, where it is
exact because it is small; dividing that once more gives the last digits. Rows whose float does not
decide how they round are computed again by `fundlab.decimals.wide`, and so is a block of rows whose
numbers are too far apart for this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fundlab.decimals.int128 import Bools, Floats, Ints, Units

_HALF = np.uint64(32)
_LOWER = np.uint64((1 << 32) - 1)

Result = tuple[Units, Bools]  # and the rows to compute again
Words = tuple[Any, Any]  # the low and the high words, of a column or of one number


def product(left: Units, right: Units, divisor: int) -> Result | None:
    """left * right / divisor rounded half-even; None where the numbers are too large."""
    a, b = _words(left), _words(right)
    low, top = times(a[0], b[0])
    top += a[0] * b[1]
    top += a[1] * b[0]
    whole = np.array([divisor], np.uint64), np.zeros(1, np.uint64)
    return _nearest((low, top), _floats(a) * _floats(b), whole, np.array([float(divisor)]))


def quotient(left: Units, right: Units, factor: int) -> Result | None:
    """left * factor / right rounded half-even; None where the numbers are too far apart."""
    a, b, c = _words(left), _words(right), np.uint64(factor)
    low, top = times(a[0], np.array([c]))
    top += a[1] * c
    return _nearest((low, top), _floats(a) * float(factor), b, _floats(b))


def multiples(units: Units, step: int) -> Result | None:
    """The multiple of `step` (even, below 2**62) nearest to each value, of two the even one.

    None where a value is too large.
    """
    low, top = _words(units)
    guess = np.rint(_floats((low, top)) * (1.0 / step))
    if np.abs(guess).max(initial=0.0) >= 2.0**50:
        return None
    whole = guess.astype(np.int64)
    # What the guess leaves fits one word, so its low word is all of it.
    rest: Any = (low - whole.view(np.uint64) * np.uint64(step)).view(np.int64)
    half = step // 2
    doubtful = np.flatnonzero(np.abs(rest) >= half)
    if len(doubtful):
        left = rest[doubtful]
        odd = (whole[doubtful] & 1).astype(bool)
        above = (left > half) | ((left == half) & odd)
        below = (left < -half) | ((left == -half) & odd)
        rest[doubtful] = left + np.where(above, -step, np.where(below, step, 0))
    out = np.empty(units.shape, np.uint64)
    np.subtract(low, rest.view(np.uint64), out=out[:, 0])
    np.negative(rest, out=rest)
    top += (rest >> 63).view(np.uint64)
    top += out[:, 0] < low
    out[:, 1] = top
    return out, np.zeros(0, bool)


def times(left: Any, right: Any) -> Words:
    """The low and the high words of the products of words."""
    a, b = left & _LOWER, left >> _HALF
    c, d = right & _LOWER, right >> _HALF
    middle = a * c
    middle >>= _HALF
    outer = a * d
    inner = b * c
    middle += outer & _LOWER
    middle += inner  # at most 2**64 - 1
    top = b * d
    outer >>= _HALF
    middle >>= _HALF
    top += outer
    top += middle
    return left * right, top


def _nearest(dividend: Words, size: Floats, divisor: Words, scale: Floats) -> Result | None:
    """dividend / divisor, of which `size` and `scale` are the floats."""
    guess = size / scale
    largest, widest = np.abs(guess).max(initial=1.0), np.abs(scale).max()
    # The guess is right to 2**-50 of its size. What it leaves of the dividend must fit two words
    # with its sign, and the second part of the quotient be known to a small part of one.
    second_part = largest * 2.0**-49 + 1.0
    if second_part > 2.0**43 or second_part * widest >= 2.0**126:
        return None
    shift = max(0, int(np.log2(largest)) - 52)
    guess *= 2.0**-shift
    first: Ints = np.rint(guess, out=guess).astype(np.int64)
    words = first.view(np.uint64)
    low, top = times(words, divisor[0])
    top += words * divisor[1]
    top -= divisor[0] & (first >> 63).view(np.uint64)
    if shift:
        up, down = np.uint64(shift), np.uint64(64 - shift)
        top <<= up
        top |= low >> down
        low <<= up
    rest = dividend[0] - low
    top = dividend[1] - top
    top -= rest > dividend[0]
    last = _floats((rest, top))
    last /= scale
    nearest = np.rint(last)
    last -= nearest
    doubtful = np.abs(last, out=last) > 0.5 - second_part * 2.0**-50
    second: Any = nearest.astype(np.int64)
    out = np.empty((len(first), 2), np.uint64)
    low = words << np.uint64(shift)
    np.add(low, second.view(np.uint64), out=out[:, 0])
    tops: Any = first >> (64 - shift) if shift else first >> 63
    second >>= 63
    tops += second
    tops += out[:, 0] < low
    out[:, 1] = tops.view(np.uint64)
    return out, doubtful


def _words(units: Units) -> Words:
    return np.ascontiguousarray(units[:, 0]), units[:, 1].copy()


def _floats(words: Words) -> Floats:
    low, top = (word.view(np.int64) for word in words)
    # of the low word with its sign, so that numbers just below zero keep their digits
    floats: Floats = (top - (low >> 63)).astype(np.float64)
    floats *= 2.0**64
    floats += low
    return floats
