"""One value of a decimal column: as a Decimal, as an integer (value x 10**18), and as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import wraps
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from fundlab.decimals.int128 import LIMIT, ONE, PRECISION, SCALE, overflow

MAX_LENGTH = 64
INTEGER_DIGITS = PRECISION - SCALE

EXACT = Context(prec=120, rounding=ROUND_HALF_EVEN, Emin=-(10**9), Emax=10**9)
"""Holds any product of three values to its last digit, whatever the thread's own context is."""

_AMOUNT = re.compile(r"[+-]?(?:([0-9]+)|([0-9]*)\.([0-9]+))")


def _plain(operation: Callable[..., Any]) -> Any:
    """A method of Decimal whose Decimals print without an exponent too."""

    @wraps(operation)
    def plain(self: Decimal, *args: Any, **kwargs: Any) -> Any:
        result = operation(self, *args, **kwargs)
        return PlainDecimal(result) if isinstance(result, Decimal) else result

    return plain


class PlainDecimal(Decimal):
    """A Decimal nearer to zero than 0.000001, printed without an exponent.

    ``str(Decimal("0.0000001"))`` is ``1E-7``, and CSV files, messages and tables take ``str``.
    Nothing else differs; what is calculated with one prints so too.
    """

    __slots__ = ()

    __pos__ = _plain(Decimal.__pos__)
    __neg__ = _plain(Decimal.__neg__)
    __abs__ = _plain(Decimal.__abs__)
    __add__ = _plain(Decimal.__add__)
    __radd__ = _plain(Decimal.__radd__)
    __sub__ = _plain(Decimal.__sub__)
    __rsub__ = _plain(Decimal.__rsub__)
    __mul__ = _plain(Decimal.__mul__)
    __rmul__ = _plain(Decimal.__rmul__)
    __truediv__ = _plain(Decimal.__truediv__)
    __rtruediv__ = _plain(Decimal.__rtruediv__)
    __floordiv__ = _plain(Decimal.__floordiv__)
    __rfloordiv__ = _plain(Decimal.__rfloordiv__)
    __mod__ = _plain(Decimal.__mod__)
    __rmod__ = _plain(Decimal.__rmod__)
    __pow__ = _plain(Decimal.__pow__)
    __rpow__ = _plain(Decimal.__rpow__)
    __round__ = _plain(Decimal.__round__)
    quantize = _plain(Decimal.quantize)
    normalize = _plain(Decimal.normalize)
    copy_abs = _plain(Decimal.copy_abs)
    copy_negate = _plain(Decimal.copy_negate)

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
    digits = f"{whole}.{fraction:0{SCALE}}".rstrip("0").rstrip(".")
    return f"-{digits}" if value < 0 else digits


def to_scalar(value: int) -> Decimal:
    """The Decimal of an integer that stands for value / 10**18, without padding zeros.

    Raises OverflowError where the value has more than 38 digits.
    """
    if abs(value) >= LIMIT:
        raise overflow()
    kind = PlainDecimal if 0 < abs(value) < ONE // 10**6 else Decimal
    return kind(format_one(value))


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
    if value.adjusted() >= INTEGER_DIGITS:
        raise OverflowError(
            f"{value} has more than 20 digits before the point: too large for a decimal column"
        )
    number = int("".join(map(str, digits)))
    shift = exponent + SCALE
    if shift >= 0:
        number *= int(10**shift)
    else:
        number, lost = divmod(number, int(10**-shift))
        if lost:
            raise ValueError(
                f"{value} has more than {SCALE} decimals: round it before it enters the column"
            )
    return -number if sign else number


def parse_one(text: str, position: int) -> int:
    """One amount as an integer, value x 10**18.

    Raises ValueError for text that is not an amount with an optional sign, OverflowError for one
    with more than 20 digits before the point; both name the text and its position.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None or len(text) > MAX_LENGTH:
        raise ValueError(
            f"cannot read {text[:80]!r} at position {position} as a decimal: expected at most "
            f"{MAX_LENGTH} characters, digits with an optional sign and point, such as "
            "'-1442725.09'"
        )
    whole, fraction = match[1] or match[2] or "", match[3] or ""
    if len(whole.lstrip("0")) > INTEGER_DIGITS:
        raise OverflowError(
            f"{text!r} at position {position} has more than 20 digits before the point"
        )
    if len(whole) > INTEGER_DIGITS or len(fraction) > SCALE:
        raise ValueError(
            f"{text!r} at position {position} has {len(whole)} digits before and {len(fraction)} "
            f"after the point: a decimal column takes at most {INTEGER_DIGITS} and {SCALE}"
        )
    value: int = int(whole or "0") * ONE + int(fraction.ljust(SCALE, "0"))
    return -value if text[0] == "-" else value
