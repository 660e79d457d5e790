"""Arithmetic and comparison of a decimal column with columns and scalars."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from fundlab.decimals import convert, groups, int128, ufuncs, wide
from fundlab.decimals.int128 import LIMIT, ONE, Bools, Floats, Units
from fundlab.decimals.scalars import checked_scalar, is_missing, is_number
from fundlab.decimals.storage import Stored

_SMALL_POWERS = range(1, 5)  # rounded once, in wide integers; other powers in Decimals

_ARITHMETIC: dict[str, Callable[[Units, Units], Units]] = {
    "add": int128.add,
    "sub": int128.subtract,
    "mul": wide.multiply,
    "truediv": wide.divide,
    "floordiv": wide.floor_divide,
    "mod": wide.remainder,
}


class Operated(Stored):
    """What `+ - * / // % **`, rounding and `== < >` do. Like Python's Decimal, but exact."""

    __array_priority__ = 1000
    __pandas_priority__ = 1500  # integers of other extension types, Arrow's too, leave `+` to us

    def _operand(self, other: Any) -> groups.Column | None:
        """(units, missing) of the other side, one row for a scalar; None where it is no number."""
        if isinstance(other, np.ndarray) and other.ndim == 0:
            other = other.item()
        if isinstance(other, type(self)):
            column = other._column
        elif pd.api.types.is_list_like(other):
            if getattr(other, "ndim", 1) != 1:
                raise NotImplementedError("decimal columns have one dimension")
            column = convert.from_any(other, strings=False)
        elif is_missing(other):
            return np.zeros((1, 2), np.uint64), np.ones(1, bool)
        elif is_number(other):
            return convert.from_scalar_units(other), np.zeros(1, bool)
        elif isinstance(other, float | np.floating):
            raise TypeError(f"{other!r} is a float; {convert.FLOAT_HINT}")
        else:
            return None
        if len(column[1]) != len(self):
            raise ValueError(f"Lengths must match: {len(self)} and {len(column[1])}")
        return column

    def _calculate(self, other: Any, name: str, reflected: bool = False) -> Any:
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        if name == "mul":
            other = _counted(other)
        if name in {"mul", "truediv"} and convert.is_finer(other):
            return self._of(self._scaled(other, name, reflected), self.isna())
        operand = self._operand(other)
        if operand is None:
            return NotImplemented
        missing = self._missing | operand[1]
        left, right = self._units, operand[0]
        if reflected:
            left, right = right, left
        if name in {"truediv", "floordiv", "mod"}:
            right = _divisors(right, missing)
        return self._of(zeroed(_ARITHMETIC[name](left, right), missing), missing)

    def _scaled(self, other: Decimal, name: str, reflected: bool) -> Units:
        """Times, by or into a Decimal of more than 18 decimals, rounded once."""
        top, bottom = other.as_integer_ratio()
        if name == "mul":
            return wide.scale(self._units, top, bottom)
        if not reflected:
            return wide.scale(self._units, bottom, top)
        divisors = _divisors(self._units, self._missing)
        return zeroed(wide.divide_into(top * ONE**2, bottom, divisors), self._missing)

    def _raise_to(self, other: Any, reflected: bool = False) -> Any:
        """Integer powers, rounded half-even once. x ** 0 is 1, also where x is zero or missing.

        Exponents beyond 4 and below -1 make a Python Decimal of each value.
        """
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        operand = self._operand(other)
        if operand is None:
            return NotImplemented
        (base, base_gone), (power, power_gone) = self._column, operand
        if reflected:
            (base, base_gone), (power, power_gone) = (power, power_gone), (base, base_gone)
        base_gone, power_gone = np.broadcast_arrays(base_gone, power_gone)
        base = np.broadcast_to(base, (len(self), 2))
        try:
            exponents = wide.whole_numbers(np.broadcast_to(power, base.shape), np.dtype(np.int64))
        except ValueError:
            raise ValueError("a decimal column can be raised to whole numbers only") from None
        missing = (base_gone & ((exponents != 0) | power_gone)) | (
            power_gone & ~int128.equal(base, int128.from_ints([ONE]))
        )
        out = np.zeros(base.shape, np.uint64)
        for exponent in np.unique(exponents[~missing]).tolist():
            rows = np.flatnonzero((exponents == exponent) & ~missing)
            out[rows] = _power(int128.take(base, rows), exponent)
        return self._of(out, missing)

    def __add__(self, other: Any) -> Any:
        return self._calculate(other, "add")

    def __radd__(self, other: Any) -> Any:
        return self._calculate(other, "add", reflected=True)

    def __sub__(self, other: Any) -> Any:
        return self._calculate(other, "sub")

    def __rsub__(self, other: Any) -> Any:
        return self._calculate(other, "sub", reflected=True)

    def __mul__(self, other: Any) -> Any:
        return self._calculate(other, "mul")

    def __rmul__(self, other: Any) -> Any:
        return self._calculate(other, "mul", reflected=True)

    def __truediv__(self, other: Any) -> Any:
        return self._calculate(other, "truediv")

    def __rtruediv__(self, other: Any) -> Any:
        return self._calculate(other, "truediv", reflected=True)

    def __floordiv__(self, other: Any) -> Any:
        """The integer part of the quotient, towards zero, as Decimal's ``//`` gives."""
        return self._calculate(other, "floordiv")

    def __rfloordiv__(self, other: Any) -> Any:
        return self._calculate(other, "floordiv", reflected=True)

    def __mod__(self, other: Any) -> Any:
        """What ``//`` leaves, with the sign of the dividend, as Decimal's ``%`` gives."""
        return self._calculate(other, "mod")

    def __rmod__(self, other: Any) -> Any:
        return self._calculate(other, "mod", reflected=True)

    def __divmod__(self, other: Any) -> Any:
        quotient = self.__floordiv__(other)
        return NotImplemented if quotient is NotImplemented else (quotient, self.__mod__(other))

    def __rdivmod__(self, other: Any) -> Any:
        quotient = self.__rfloordiv__(other)
        return NotImplemented if quotient is NotImplemented else (quotient, self.__rmod__(other))

    def __pow__(self, other: Any) -> Any:
        return self._raise_to(other)

    def __rpow__(self, other: Any) -> Any:
        return self._raise_to(other, reflected=True)

    def __neg__(self) -> Self:
        return self._of(int128.negative(self._units), self.isna())

    def __pos__(self) -> Self:
        return self.copy()

    def __abs__(self) -> Self:
        return self._of(int128.absolute(self._units), self.isna())

    def round(self, decimals: int = 0, *_: Any, **__: Any) -> Self:
        """Rounded half-even to `decimals` places; negative ones round to tens, hundreds …

        Raises TypeError for `decimals` that are no whole number.
        """
        rounded = wide.round_to(self._units, convert.places(decimals))
        return self._of(rounded, self.isna())

    def __round__(self, decimals: int = 0) -> Self:
        return self.round(decimals)

    # ---- NumPy

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Exact, or TypeError: NumPy itself would round Decimals at 28 digits, silently."""
        if any(isinstance(one, pd.Series | pd.Index | pd.DataFrame) for one in inputs):
            return NotImplemented
        if method == "__call__" and not kwargs:
            result = ufuncs.exact(ufunc, inputs)
            if result is not NotImplemented:
                return result
        if "out" not in kwargs and ufunc not in ufuncs.PANDAS_KNOWS.get(method, set()):
            raise ufuncs.refusal(ufunc, method)
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """``np.dot``, behind ``Series.dot`` and ``@``, exactly; others as if this were not here."""
        if func is np.dot and len(args) == 2 and not kwargs:
            return self._dot(*args)
        return func._implementation(*args, **kwargs)

    @classmethod
    def _dot(cls, left: Any, right: Any) -> Any:
        """The sum of the products, rounded half-even once, for vectors; missing if a value is.

        A matrix gives one Decimal for each of its columns, or rows, as an object array.
        """
        for matrix, vector in ((left, right), (right.T, left)):
            if getattr(matrix, "ndim", 1) == 2:
                return np.array([cls._dot(row, vector) for row in matrix], object)
        (a, a_gone), (b, b_gone) = (convert.from_any(one, strings=False) for one in (left, right))
        if len(a) != len(b):
            raise ValueError(f"Lengths must match: {len(a)} and {len(b)}")
        if a_gone.any() or b_gone.any():
            return pd.NA
        return checked_scalar(round(Fraction(wide.inner(a, b), ONE)))

    # ---- comparison

    def _compare(self, other: Any, op: Callable[[Any, Any], Any]) -> Any:
        """A nullable boolean array; floats are compared by their exact value.

        Text equals no value, as it equals no Decimal, and raises TypeError with ``<``.
        """
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        if isinstance(other, np.ndarray) and other.ndim == 0:
            other = other.item()
        if is_missing(other):
            return boolean(np.zeros(len(self), bool), np.ones(len(self), bool))
        if isinstance(other, np.bool_):
            other = bool(other)
        if is_number(other) or isinstance(other, bool | float | np.floating | Fraction):
            return boolean(op(_signs_against(self._units, other), 0), self.isna())
        if not pd.api.types.is_list_like(other):
            return self._compare_unlike(op, other)
        if len(other) != len(self):
            raise ValueError(f"Lengths must match: {len(self)} and {len(other)}")
        dtype = getattr(other, "dtype", None)
        if getattr(dtype, "kind", None) == "f":
            floats = np.asarray(
                other.astype(np.float64)
                if isinstance(other, np.ndarray)
                else other.to_numpy(np.float64, na_value=np.nan)
            )
            signs = _signs_against_floats(self._units, floats)
            return boolean(op(signs, 0), self._missing | np.isnan(floats))
        try:
            units, missing = convert.from_any(other, strings=False)
        except (TypeError, ValueError, OverflowError):
            return self._compare_objects(op, other)
        return boolean(op(_signs(self._units, units), 0), self._missing | missing)

    def _compare_unlike(self, op: Callable[[Any, Any], Any], other: object) -> Any:
        if op in {operator.eq, operator.ne}:
            return boolean(np.full(len(self), op is operator.ne), self.isna())
        raise TypeError(f"a decimal column has no order with {type(other).__name__} {other!r}")

    def _compare_objects(self, op: Callable[[Any, Any], Any], other: Any) -> Any:
        """Against values that are no decimals of 18 places, one Python object at a time."""
        theirs = np.empty(len(self), object)
        theirs[:] = list(other)
        missing = self._missing | np.array([is_missing(one) for one in theirs], bool)
        values = np.zeros(len(self), bool)
        for i in np.flatnonzero(~missing):
            values[i] = bool(op(self[i], theirs[i]))
        return boolean(values, missing)

    def __eq__(self, other: object) -> Any:
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    def __contains__(self, item: object) -> bool:
        if is_missing(item):
            return item is pd.NA and bool(self._missing.any())
        return bool((self == item).any())


def boolean(values: Bools, missing: Bools) -> Any:
    return pd.arrays.BooleanArray(np.where(missing, False, values), missing)


def _counted(other: Any) -> Any:
    """Truth values as 0 and 1, so that ``x * (x > 0)`` keeps some values; others as they are."""
    if isinstance(other, bool | np.bool_):
        return int(other)
    if getattr(getattr(other, "dtype", None), "kind", None) == "b":
        return pd.array(other, dtype="Int64")
    return other


def zeroed(units: Units, missing: Bools) -> Units:
    if missing.any():
        units[missing] = 0
    return units


def _divisors(units: Units, missing: Bools) -> Units:
    """The divisors, with 1 for what is missing anyway; ZeroDivisionError for any other zero."""
    zero = ~int128.nonzero(units)
    if not zero.any():
        return units
    if (zero & ~missing).any():
        raise ZeroDivisionError(
            "division of a decimal column by zero: replace the zeros with pd.NA first"
        )
    return np.where(zero[:, None], int128.from_ints([ONE]), units)


def _power(units: Units, exponent: int) -> Units:
    if exponent == 0:
        return np.repeat(int128.from_ints([ONE]), len(units), axis=0)
    if exponent < 0 and not int128.nonzero(units).all():
        raise ZeroDivisionError(f"zero cannot be raised to the power {exponent}")
    if exponent == -1:
        return wide.divide(int128.from_ints([ONE]), units)
    return (
        wide.power(units, exponent) if exponent in _SMALL_POWERS else groups.powers(units, exponent)
    )


def _signs(left: Units, right: Units) -> npt.NDArray[np.int8]:
    """-1, 0 or 1 as left is less than, equal to or greater than right."""
    return int128.less(right, left).astype(np.int8) - int128.less(left, right)


def _signs_against(units: Units, number: Any) -> npt.NDArray[np.int8]:
    if isinstance(number, Decimal | float | np.floating) and not np.isfinite(float(number)):
        return np.full(len(units), -1 if number > 0 else 1, np.int8)
    top, bottom = convert.exact_ratio(number)
    whole, part = divmod(top, bottom)
    whole, part = (whole, part) if abs(whole) < LIMIT else (LIMIT if whole > 0 else -LIMIT, 0)
    signs = _signs(units, int128.from_ints([whole]))
    return np.where(signs == 0, np.int8(-1), signs) if part else signs


def _signs_against_floats(units: Units, floats: Floats) -> npt.NDArray[np.int8]:
    """-1, 0 or 1 by the exact value of each float; NaN counts as 0."""
    beyond = np.abs(floats) >= LIMIT / ONE
    cut, more = convert.truncated(np.where(beyond | np.isnan(floats), 0.0, floats))
    signs = _signs(units, cut)
    level = more & (signs == 0)  # there the float lies further from zero than what was kept of it
    signs[level] = np.where(floats[level] < 0, 1, -1)
    signs[beyond] = -np.sign(floats[beyond])
    return signs
