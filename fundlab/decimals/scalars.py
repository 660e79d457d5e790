"""One value of a decimal column: as a Decimal, as an integer (value x 10**18), and as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import (
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
    getcontext,
    localcontext,
)
from fractions import Fraction
from functools import wraps
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from fundlab.base.exact import AMOUNT_PARTS, EXACT, MAX_AMOUNT_LENGTH, MAX_INTEGER_DIGITS
from fundlab.decimals.int128 import LIMIT, ONE, SCALE, overflow

_WIDE = Context(prec=10_000, rounding=ROUND_HALF_EVEN, Emin=-(10**9), Emax=10**9)
_OR_REFUSE = Context(
    prec=10_000, Emin=-(10**9), Emax=10**9,
    traps=[Inexact, InvalidOperation, DivisionByZero, Overflow],
)  # fmt: skip

_AMOUNT = re.compile(rf"[+-]?{AMOUNT_PARTS}")


def in_format(spec: str) -> Callable[[Decimal], str]:
    """What shows a Decimal by ``spec``, rounded half-even whatever the thread's context is."""

    def shown(value: Decimal) -> str:
        with localcontext(_WIDE):
            return format(value, spec)

    return shown


def _operators(compute: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """The methods of ``value + other`` and of ``other + value``, or of another operation."""

    def result_of(left: Any, right: Any) -> Any:
        try:
            result = compute(left, right)
        except Inexact:
            raise ArithmeticError(
                f"an operation on {left!r:.80} and {right!r:.80} has no exact result of up to "
                f"{_OR_REFUSE.prec} digits: round the values first"
            ) from None
        return tuple(map(ExactDecimal, result)) if type(result) is tuple else ExactDecimal(result)

    def takes(other: Any) -> bool:
        if isinstance(other, float):
            raise TypeError(
                f"{other!r} is a float, and floats are not exact: calculate with "
                f"Decimal('{float(other)!r}') or an int; for charts and styles, convert the column "
                "with astype('float64')"
            )
        return isinstance(other, Decimal | int)

    def method(self: Decimal, other: Any) -> Any:
        return result_of(self, other) if takes(other) else NotImplemented

    def reflected(self: Decimal, other: Any) -> Any:
        return result_of(other, self) if takes(other) else NotImplemented

    return method, reflected


def _method(name: str) -> Any:
    """A method of Decimal that takes a context: one of enough digits, rounding as the thread's."""
    operation = getattr(Decimal, name)

    @wraps(operation)
    def method(self: Decimal, *args: Any, context: Context | None = None, **kwargs: Any) -> Any:
        if context is None:
            context = _WIDE.copy()
            context.rounding = getcontext().rounding
        return ExactDecimal(operation(self, *args, context=context, **kwargs))

    return method


def _divided(left: Any, right: Any) -> Decimal:
    """The quotient rounded half-even at 18 decimals, as a column's is."""
    quotient = EXACT.divide(left, right)  # which raises where there is none
    if not quotient.is_finite() or not (Decimal(left).is_finite() and Decimal(right).is_finite()):
        return quotient
    return Decimal(format_one(round(Fraction(left) / Fraction(right) * ONE)))


def _raised(base: Any, exponent: Any) -> Decimal:
    if exponent != int(exponent):
        raise ValueError(f"{base} ** {exponent}: a value can be raised to whole numbers only")
    if exponent < 0:
        return _divided(1, _OR_REFUSE.power(base, -exponent))
    return Decimal(1) if exponent == 0 else _OR_REFUSE.power(base, exponent)


class ExactDecimal(Decimal):
    """A Decimal that calculates as its column does, and never prints an exponent.

    Python rounds results of Decimals to the 28 digits of the thread's context, silently, and
    values here have up to 38. Sums, differences, products and whole powers of these are exact;
    quotients and negative powers round half-even at 18 decimals. What has no exact result of
    10,000 digits raises ArithmeticError. ``sqrt``, ``exp`` and logarithms are Decimal's own.
    Everywhere else it is the Decimal that it equals, in another process too.
    """

    __slots__ = ()

    __add__, __radd__ = _operators(_OR_REFUSE.add)
    __sub__, __rsub__ = _operators(_OR_REFUSE.subtract)
    __mul__, __rmul__ = _operators(_OR_REFUSE.multiply)
    __truediv__, __rtruediv__ = _operators(_divided)
    __floordiv__, __rfloordiv__ = _operators(_OR_REFUSE.divide_int)
    __mod__, __rmod__ = _operators(_OR_REFUSE.remainder)
    __divmod__, __rdivmod__ = _operators(_OR_REFUSE.divmod)
    __pow__, __rpow__ = _operators(_raised)

    copy_abs = __abs__ = lambda self: ExactDecimal(_WIDE.abs(self))
    copy_negate = __neg__ = lambda self: ExactDecimal(_WIDE.minus(self))
    __pos__ = lambda self: ExactDecimal(_WIDE.plus(self))  # noqa: E731

    quantize = _method("quantize")
    normalize = _method("normalize")
    to_integral_value = _method("to_integral_value")
    max = _method("max")
    min = _method("min")
    fma = _method("fma")
    scaleb = _method("scaleb")
    remainder_near = _method("remainder_near")

    def __round__(self, ndigits: int | None = None) -> Any:
        if ndigits is None:
            return super().__round__()
        return self.quantize(Decimal((0, (1,), -ndigits)), rounding=ROUND_HALF_EVEN)

    def __conform__(self, protocol: object) -> str:
        """What sqlite3 writes, which has no decimals: text, every digit of it."""
        return str(self)

    def __str__(self) -> str:
        return Decimal.__format__(self, "f")

    def __repr__(self) -> str:
        return f"Decimal('{self}')"

    def __format__(self, spec: str, /, *args: Any, **kwargs: Any) -> str:
        return super().__format__(spec or "f", *args, **kwargs)


def is_missing(value: object) -> bool:
    return (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, float | np.floating) and bool(np.isnan(value)))
        or (isinstance(value, Decimal) and value.is_nan())
    )


def is_whole(value: object) -> bool:
    """Whether a scalar is an integer, of Python or NumPy, and no truth value or time."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.timedelta64)


def is_number(value: object) -> bool:
    """Whether a scalar can enter exactly: Decimal and integers, but no truth values."""
    return isinstance(value, Decimal) or is_whole(value)


# ---- units to Decimal and text


def format_one(value: int) -> str:
    """value / 10**18 without padding zeros or an exponent."""
    whole, fraction = divmod(abs(value), ONE)
    digits = f"{whole}.{fraction:018}".rstrip("0") if fraction else str(whole)
    return f"-{digits}" if value < 0 else digits


def to_scalar(value: int) -> Decimal:
    """The Decimal of an integer that stands for value / 10**18, without padding zeros.

    Raises OverflowError where the value has more than 38 digits.
    """
    if abs(value) >= LIMIT:
        raise overflow()
    return ExactDecimal(format_one(value))


# ---- Decimal and text to units


def from_scalar(value: Any) -> int:
    """value x 10**18 of a Decimal or an integer.

    Raises OverflowError beyond 20 digits before the point, ValueError where a Decimal has more
    than 18 after it or is infinite.
    """
    if not isinstance(value, Decimal):
        number: int = int(value) * ONE
        if abs(number) >= LIMIT:
            raise OverflowError(f"{value} has more than 20 digits: too large for a decimal column")
        return number
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} cannot enter a decimal column: it is not finite")
    if not any(digits):
        return 0
    if value.adjusted() >= MAX_INTEGER_DIGITS:
        raise OverflowError(
            f"{Decimal.__str__(value):.80} has more than 20 digits before the point: too large for "
            "a decimal column"
        )
    number = int("".join(map(str, digits)))
    shift = exponent + SCALE
    if shift >= 0:
        number *= int(10**shift)
    else:
        # as many trailing zeros as digits would make it zero
        number, lost = divmod(number, int(10 ** min(-shift, len(digits))))
        if lost or -shift > len(digits):
            raise ValueError(
                f"{Decimal.__str__(value):.80} has more than {SCALE} decimals: round it before it "
                "enters the column"
            )
    return -number if sign else number


def parse_one(text: str, position: int) -> int:
    """One amount as an integer, value x 10**18.

    Raises ValueError for text that is not an amount with an optional sign, OverflowError for one
    with more than 20 digits before the point; both name the text and its position.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None or len(text) > MAX_AMOUNT_LENGTH:
        raise ValueError(
            f"cannot read {text[:80]!r} at position {position} as a decimal: expected at most "
            f"{MAX_AMOUNT_LENGTH} characters, digits with an optional sign and point, such as "
            "'-1442725.09'"
        )
    whole, fraction = match[1], match[2] or ""
    if len(whole.lstrip("0")) > MAX_INTEGER_DIGITS:
        raise OverflowError(
            f"{text!r} at position {position} has more than 20 digits before the point"
        )
    if len(whole) > MAX_INTEGER_DIGITS or len(fraction) > SCALE:
        raise ValueError(
            f"{text!r} at position {position} has {len(whole)} digits before and {len(fraction)} "
            f"after the point: a decimal column takes at most {MAX_INTEGER_DIGITS} and {SCALE}"
        )
    value: int = int(whole or "0") * ONE + int(fraction.ljust(SCALE, "0"))
    return -value if text[0] == "-" else value
