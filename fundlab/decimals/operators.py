"""What operators, comparisons and NumPy's functions give for decimal columns."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fundlab.base.exact import MAX_INTEGER_DIGITS
from fundlab.base.values import of_units
from fundlab.decimals import convert, groups, int128, text, wide
from fundlab.decimals.int128 import LIMIT, ONE, SCALE, Bools, Column, Units, cleared
from fundlab.decimals.scalars import from_scalar, is_missing, is_number, parse_one

Signs = npt.NDArray[np.int8]

_KERNELS: dict[str, Callable[[Units, Units], Units]] = {
    "add": int128.add,
    "sub": int128.subtract,
    "mul": wide.multiply,
    "truediv": wide.divide,
    "floordiv": wide.floor_divide,
    "mod": wide.remainder,
}


def boolean(values: Bools, missing: Bools, whole: bool = False) -> Any:
    """A nullable array, of ``missing`` itself where it is not known to be ``whole``."""
    if whole:  # zeros of the system's, which are neither written nor read
        return pd.arrays.BooleanArray(values, np.zeros(len(values), bool))
    return pd.arrays.BooleanArray(values & ~missing if missing.any() else values, missing)


# ---- arithmetic


def operand(other: Any, length: int) -> Column | None:
    """(units, missing) of the other side, one row for a scalar; None where it is not a number."""
    if isinstance(other, np.ndarray) and other.ndim == 0:
        other = other.item()
    if is_missing(other):
        return np.zeros((1, 2), np.uint64), np.ones(1, bool)
    if is_number(other):
        return int128.from_ints([from_scalar(other)]), np.zeros(1, bool)
    if isinstance(other, float | np.floating):
        raise TypeError(f"{other!r} is a float; {convert.FLOAT_HINT}")
    if not pd.api.types.is_list_like(other):
        return None
    if getattr(other, "ndim", 1) != 1:
        raise NotImplementedError("decimal columns have one dimension")
    column = convert.from_any(other, strings=False)
    if len(column[1]) != length:
        raise ValueError(f"Lengths must match: {length} and {len(column[1])}")
    return column


def calculate(name: str, column: Column, other: Any, reflected: bool) -> Column | None:
    """``column + other`` and the like, or ``other + column``; None where `other` is not a number.

    Sums and differences are exact; products and quotients round half-even at 18 decimals.
    """
    units, missing = column
    if name == "mul":  # truth values are 0 and 1, so that ``x * (x > 0)`` keeps some values
        if isinstance(other, bool | np.bool_):
            other = int(other)
        elif getattr(getattr(other, "dtype", None), "kind", None) == "b":
            other = pd.array(other, dtype="Int64")
    if name in {"mul", "truediv"} and _is_finer(other):
        top, bottom = other.as_integer_ratio()
        if name == "mul":
            return wide.scale(units, top, bottom), missing.copy()
        if not reflected:
            return wide.scale(units, bottom, top), missing.copy()
        return cleared(wide.divide_into(top * ONE**2, bottom, _divisors(column)), missing.copy())
    theirs = operand(other, len(units))
    if theirs is None:
        return None
    left, right = (theirs[0], units) if reflected else (units, theirs[0])
    missing = missing | theirs[1]
    if name in {"truediv", "floordiv", "mod"}:
        right = _divisors((right, missing))
    return cleared(_KERNELS[name](left, right), missing)


def power(column: Column, other: Any, reflected: bool) -> Column | None:
    """Integer powers, rounded half-even once. x ** 0 is 1, also where x is zero or missing.

    Exponents beyond 4 and below -1 make a Python Decimal of each value.
    """
    theirs = operand(other, len(column[0]))
    if theirs is None:
        return None
    (base, base_gone), (exponent, exponent_gone) = (
        (theirs, column) if reflected else (column, theirs)
    )
    base_gone, exponent_gone = np.broadcast_arrays(base_gone, exponent_gone)
    base = np.broadcast_to(base, column[0].shape)
    try:
        exponents = wide.whole_numbers(np.broadcast_to(exponent, base.shape), np.dtype(np.int64))
    except ValueError:
        raise ValueError("a decimal column can be raised to whole numbers only") from None
    one = int128.from_ints([ONE])
    missing = (base_gone & ((exponents != 0) | exponent_gone)) | (
        exponent_gone & ~int128.equal(base, one)
    )
    out = np.zeros(base.shape, np.uint64)
    for n in np.unique(exponents[~missing]).tolist():
        rows = np.flatnonzero((exponents == n) & ~missing)
        bases = int128.take(base, rows)
        if n < 0 and not int128.nonzero(bases).all():
            raise ZeroDivisionError(f"zero cannot be raised to the power {n}")
        if n == 0:
            out[rows] = one
        elif n == -1:
            out[rows] = wide.divide(one, bases)
        else:
            out[rows] = (wide.power if 0 < n < 5 else groups.powers)(bases, n)
    return out, missing


def dot(left: Any, right: Any) -> Any:
    """The sum of the products in units, rounded half-even once, for vectors; None if one is
    missing.

    A matrix gives a list of these, one for each of its columns, or rows.
    """
    for matrix, vector in ((left, right), (right.T, left)):
        if getattr(matrix, "ndim", 1) == 2:
            return [dot(row, vector) for row in matrix]
    (a, a_gone), (b, b_gone) = (convert.from_any(one, strings=False) for one in (left, right))
    if len(a) != len(b):
        raise ValueError(f"Lengths must match: {len(a)} and {len(b)}")
    if a_gone.any() or b_gone.any():
        return None
    return round(Fraction(wide.inner(a, b), ONE))


def _is_finer(value: Any) -> bool:
    """Whether a scalar is a Decimal of 19 to 100 decimals, which a column can't hold.

    It can still be multiplied by one: a product is rounded anyway.
    """
    if not isinstance(value, Decimal) or not value.is_finite():
        return False
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or not -100 <= exponent < -SCALE:
        return False
    return value.adjusted() < MAX_INTEGER_DIGITS and bool(ONE % value.as_integer_ratio()[1])


def _divisors(column: Column) -> Units:
    """The divisors, with 1 for what is missing anyway; ZeroDivisionError for any other zero."""
    units, missing = column
    zero = ~int128.nonzero(units)
    if not zero.any():
        return units
    if (zero & ~missing).any():
        raise ZeroDivisionError(
            "division of a decimal column by zero: replace the zeros with pd.NA first"
        )
    return np.where(zero[:, None], int128.from_ints([ONE]), units)


# ---- comparison


def compare(column: Column, other: Any, op: Callable[[Any, Any], Any], whole: bool = False) -> Any:
    """A nullable boolean array; floats are compared by their exact value, and text of an amount,
    from which a column can be made, by the amount.

    Text such as ``1,10`` raises, for an empty answer would look like one; a word equals no value,
    and raises TypeError with ``<``. ``whole``: no value of the column is missing.
    """
    units, missing = column
    count = len(units)
    if getattr(other, "_column", None) is not None and len(other) == count:  # a decimal array, too
        theirs, gone = other._column
        whole = whole and other._whole
        gone = gone if whole else missing | gone
        return boolean(_COMPARED[op](units, theirs), gone, whole)
    if isinstance(other, np.ndarray) and other.ndim == 0:
        other = other.item()
    if is_missing(other):
        return boolean(np.zeros(count, bool), np.ones(count, bool))
    if isinstance(other, str) and any(map(str.isdigit, other)):
        units_of_one = int128.from_ints([parse_one(other, 0)])
        return boolean(_COMPARED[op](units, units_of_one), missing.copy())
    if is_number(other):
        try:
            units_of_one = int128.from_ints([from_scalar(other)])
        except (ValueError, OverflowError):
            pass  # a number that no value equals, but each is less or greater than
        else:
            own = missing if whole else missing.copy()
            return boolean(_COMPARED[op](units, units_of_one), own, whole)
    if is_number(other) or isinstance(other, bool | np.bool_ | float | np.floating | Fraction):
        return boolean(op(_signs_against(units, other), 0), missing.copy())
    if not pd.api.types.is_list_like(other):
        if op in {operator.eq, operator.ne}:
            return boolean(np.full(count, op is operator.ne), missing.copy())
        raise TypeError(f"a decimal column has no order with {type(other).__name__} {other!r}")
    if len(other) != count:
        raise ValueError(f"Lengths must match: {count} and {len(other)}")
    if getattr(getattr(other, "dtype", None), "kind", None) == "f":
        floats = np.asarray(
            other.astype(np.float64)
            if isinstance(other, np.ndarray)
            else other.to_numpy(np.float64, na_value=np.nan)
        )
        # by the exact value of each float; NaN counts as 0
        beyond, unknown = np.abs(floats) >= LIMIT / ONE, np.isnan(floats)
        near = np.where(beyond | unknown, 0.0, floats)
        cut, rest = wide.divide_floor(*convert.float_fractions(near, SCALE))
        signs = _signs(units, wide.join(cut, near < 0))
        level = signs == 0  # where the float lies further from zero than what was kept of it
        level &= np.logical_or.reduce([np.zeros(count, bool), *[limb != 0 for limb in rest]])
        signs[level] = np.where(floats[level] < 0, 1, -1)
        signs[beyond] = -np.sign(floats[beyond])
        return boolean(op(signs, 0), missing | unknown)
    try:
        theirs, gone = convert.from_any(other)
    except (TypeError, ValueError, OverflowError):
        # values that are not decimals of 18 places: one Python object at a time
        gone = missing | np.array([is_missing(one) for one in other], bool)
        pairs = zip(text.to_objects(*column, None), other, gone, strict=True)
        each = [not lost and bool(op(a, _as_number(b, op))) for a, b, lost in pairs]
        return boolean(np.array(each, bool), gone)
    return boolean(_COMPARED[op](units, theirs), missing | gone)


def _as_number(one: Any, op: Callable[[Any, Any], Any]) -> Any:
    """What a decimal is compared with: a text of digits is the amount that it says."""
    if isinstance(one, str) and any(map(str.isdigit, one)):
        return of_units(parse_one(one, 0))
    if isinstance(one, str) and op not in {operator.eq, operator.ne}:
        raise TypeError(f"a decimal column has no order with str {one!r}")
    return one


_COMPARED: dict[Callable[[Any, Any], Any], Callable[[Units, Units], Bools]] = {
    operator.eq: int128.equal,
    operator.ne: lambda a, b: ~int128.equal(a, b),
    operator.lt: int128.less,
    operator.ge: lambda a, b: ~int128.less(a, b),
    operator.gt: lambda a, b: int128.less(b, a),
    operator.le: lambda a, b: ~int128.less(b, a),
}


def _signs(left: Units, right: Units) -> Signs:
    """-1, 0 or 1 as left is less than, equal to or greater than right."""
    return int128.less(right, left).astype(np.int8) - int128.less(left, right)


def _signs_against(units: Units, number: Any) -> Signs:
    if isinstance(number, Decimal | float | np.floating) and not np.isfinite(float(number)):
        return np.full(len(units), -1 if number > 0 else 1, np.int8)
    if isinstance(number, np.bool_):
        number = bool(number)
    if isinstance(number, Decimal) and number and abs(number.adjusted()) > 2 * SCALE:
        # as far away, or as near zero, and without the 999,999,999 digits of 1E-999999999
        sign, _, _ = number.as_tuple()
        number = Decimal((sign, (1,), 2 * SCALE if number.adjusted() > 0 else -2 * SCALE))
    # integers of NumPy are Rational too, but without as_integer_ratio
    rational = isinstance(number, Rational)
    top, bottom = (number.numerator, number.denominator) if rational else number.as_integer_ratio()
    whole, part = divmod(int(top) * ONE, int(bottom))
    if abs(whole) >= LIMIT:
        whole, part = (LIMIT if whole > 0 else -LIMIT), 0
    signs = _signs(units, int128.from_ints([whole]))
    return np.where(signs == 0, np.int8(-1), signs) if part else signs


# ---- NumPy


PANDAS_KNOWS: dict[str, set[np.ufunc]] = {
    "__call__": {
        np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.divmod,
        np.power, np.negative, np.positive, np.absolute, np.matmul,
        np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
        np.bitwise_and, np.bitwise_or, np.bitwise_xor,
    },
    "reduce": {np.add, np.multiply, np.maximum, np.minimum},
}  # fmt: skip
"""What pandas sends to operators and to reductions of the array, by the method that is called."""


def floor(column: Any) -> Any:
    whole = column // 1
    return whole - (column < whole).astype("Int64")


def _known(answer: bool) -> Callable[[Any], Any]:
    """The same answer for every value, missing where the value is."""
    return lambda column: pd.arrays.BooleanArray(np.full(len(column), answer), column.isna())


OF_ONE: dict[np.ufunc, Callable[[Any], Any]] = {
    np.sign: lambda column: column._from_sequence(
        (column > 0).astype("Int64") - (column < 0).astype("Int64")
    ),
    np.fabs: abs,
    np.floor: floor,
    np.ceil: lambda column: -floor(-column),
    np.trunc: lambda column: column // 1,
    np.rint: lambda column: column.round(),
    np.square: lambda column: column * column,
    np.reciprocal: lambda column: 1 / column,
    np.isnan: _known(False),
    np.isinf: _known(False),
    np.isfinite: _known(True),
}
"""Exact results of functions that are not operators, by the array that they are given."""

OF_TWO: dict[
    np.ufunc, tuple[bool, bool]
] = {  # whether the larger, whether a missing value is ignored
    np.maximum: (True, False),
    np.minimum: (False, False),
    np.fmax: (True, True),
    np.fmin: (False, True),
}


def larger_or_smaller(ufunc: np.ufunc, column: Column, other: Any) -> Column | None:
    """The larger or smaller of each two values; one that is missing wins, or is ignored."""
    theirs = operand(other, len(column[0]))
    if theirs is None:
        return None
    larger, ignores_missing = OF_TWO[ufunc]
    (a, a_gone), (b, b_gone) = column, theirs
    second = int128.less(a, b) if larger else int128.less(b, a)
    gone = a_gone | b_gone
    if ignores_missing:
        second = (second & ~b_gone) | a_gone
        gone = a_gone & b_gone
    return cleared(np.where(second[:, None], b, a), gone)


def refusal(ufunc: np.ufunc, method: str) -> TypeError:
    name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    return TypeError(
        f"{name} gives no exact decimals: for floats, convert the column with astype('float64')"
    )
