"""The scalars of a decimal column: decimal.Decimal, printed as money is."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import wraps
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fundlab.decimals.int128 import LIMIT, ONE, SCALE, Bools, Units, overflow
from fundlab.decimals.text import format_one, is_tiny, to_text


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


def to_scalar(value: int) -> Decimal:
    """The Decimal of an integer that stands for value / 10**18, without padding zeros."""
    kind = PlainDecimal if 0 < abs(value) < ONE // 10**6 else Decimal
    return kind(format_one(value))


def checked_scalar(value: int) -> Decimal:
    """As `to_scalar`, or OverflowError where the value has more than 38 digits."""
    if abs(value) >= LIMIT:
        raise overflow()
    return to_scalar(value)


def to_objects(units: Units, missing: Bools, na_value: object) -> npt.NDArray[np.object_]:
    """An object array of Decimals, one Python object a value."""
    out = np.empty(len(units), object)
    texts: list[Any] = to_text(units, missing).to_pylist()
    kinds: list[Callable[[str], Decimal]] = [Decimal, PlainDecimal]
    out[:] = [
        na_value if text is None else kinds[tiny](text)
        for text, tiny in zip(texts, is_tiny(units).tolist(), strict=True)
    ]
    return out


def is_missing(value: object) -> bool:
    return (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, float | np.floating) and bool(np.isnan(value)))
        or (isinstance(value, Decimal) and value.is_nan())
    )


def is_number(value: object) -> bool:
    """Whether a scalar can enter exactly: Decimal and integers, but no truth values."""
    return isinstance(value, Decimal) or is_whole(value)


def is_whole(value: object) -> bool:
    """Whether a scalar is an integer, of Python or NumPy, and no truth value or time."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.timedelta64)


def from_scalar(value: Any) -> int:
    """value x 10**18 of a Decimal or an integer.

    Raises OverflowError beyond 20 digits before the point, ValueError where a Decimal has more
    than 18 after it or is infinite.
    """
    if isinstance(value, Decimal):
        return _from_decimal(value)
    number: int = int(value) * ONE
    if abs(number) >= LIMIT:
        raise OverflowError(f"{value} has more than 20 digits: too large for a decimal column")
    return number


def _from_decimal(value: Decimal) -> int:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} cannot enter a decimal column: it is not finite")
    if not any(digits):
        return 0
    if value.adjusted() >= 20:
        raise OverflowError(
            f"{value} has more than 20 digits before the point: too large for a decimal column"
        )
    number: int = int("".join(map(str, digits)))
    shift = exponent + SCALE
    if shift >= 0:
        number *= 10**shift
    else:
        number, lost = divmod(number, 10**-shift)
        if lost:
            raise ValueError(
                f"{value} has more than {SCALE} decimals: round it before it enters the column"
            )
    return -number if sign else number
