"""Whatever pandas hands over, as units: arrays, lists, scalars, Arrow, text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.types import infer_dtype

from fundlab.decimals import int128, text, wide
from fundlab.decimals.dtype import DecimalDtype
from fundlab.decimals.int128 import ONE, PRECISION, SCALE, Bools, Floats, Units
from fundlab.decimals.scalars import from_scalar, is_missing, is_number, is_whole
from fundlab.decimals.text import ARROW_TYPE

FLOAT_HINT = (
    "floats are not exact: convert them with fundlab.decimals.DecimalArray.from_float(values, "
    "decimals=2), which rounds half-even, or use Decimal or int"
)


def from_any(values: Any, *, strings: bool = True) -> tuple[Units, Bools]:
    """(units, missing) of Decimals, integers, text, missing values, or arrays of these.

    `strings=False` refuses text, as arithmetic does. The units may share memory that must not be
    written to. Raises TypeError for floats (unless all are NaN) and for what is no number,
    ValueError and OverflowError for what does not fit.
    """
    if isinstance(values, pd.Series | pd.Index):
        values = values.array
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return from_arrow(values, strings=strings)
    if (
        not pd.api.types.is_list_like(values, allow_sets=False)
        or isinstance(values, Mapping)
        or getattr(values, "ndim", 1) != 1
    ):
        raise _no_list(values)
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, DecimalDtype):
        column: tuple[Units, Bools] = values._column
        return column
    if isinstance(dtype, pd.ArrowDtype | pd.StringDtype):
        return from_arrow(pa.array(values), strings=strings)
    if isinstance(dtype, pd.CategoricalDtype):
        units, missing = from_any(values.categories, strings=strings)
        return _taken(units, missing, np.asarray(values.codes, dtype=np.intp))
    if isinstance(dtype, pd.api.extensions.ExtensionDtype):
        return _from_extension(values, strings)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return _from_numbers(values)
    return _from_objects(values, strings)


def from_arrow(array: Any, *, strings: bool = True) -> tuple[Units, Bools]:
    """(units, missing) of an Arrow array: decimals, integers, text or nulls.

    A decimal128(38, 18) array without nulls is shared, not copied. Raises as `from_any`.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_null(kind):
        return np.zeros((len(array), 2), np.uint64), np.ones(len(array), bool)
    if pa.types.is_floating(kind):
        raise TypeError(FLOAT_HINT)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        if strings:
            return text.parse(array)
        raise TypeError("text is not a number: convert the column with astype('decimal') first")
    if pa.types.is_integer(kind):
        missing = array.is_null().to_numpy(zero_copy_only=False)
        numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
        return _cleared(*_from_numbers(numbers, missing))
    if not pa.types.is_decimal(kind):
        raise TypeError(f"an Arrow array of {kind} cannot become a decimal column")
    if kind != ARROW_TYPE:
        if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):  # min_max knows neither
            array = pc.cast(array, pa.decimal128(kind.precision, kind.scale))
        check_range(array)
        try:
            array = pc.cast(array, ARROW_TYPE)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{kind} values with more than {SCALE} decimals: {error}") from None
    units, missing = _cleared(*text.from_arrow_buffers(array))
    return int128.checked(units), missing


def from_float(values: Any, decimals: int) -> tuple[Units, Bools]:
    """(units, missing) of floats, each exact binary value rounded half-even at `decimals` places.

    Raises ValueError for `decimals` outside 0 to 18, OverflowError for infinities and beyond 20
    digits before the point, TypeError for integers that no float holds, text and decimals.
    """
    decimals = places(decimals)
    if decimals not in range(SCALE + 1):
        raise ValueError(f"decimals={decimals!r}: expected a whole number from 0 to {SCALE}")
    floats = _floats(values)
    missing = np.isnan(floats)
    floats = np.where(missing, 0.0, floats)
    if (np.abs(floats) >= 1e20).any():
        raise int128.overflow()
    lowered = wide.divide_half_even(*_scaled(floats, decimals))
    units = wide.times(lowered, wide.constant(10 ** (SCALE - decimals)))
    return wide.join(units, floats < 0), missing


def _floats(values: Any) -> Floats:
    """Values that are floats already, or integers that a float holds exactly."""
    values = _sequence(values)
    kind = values.dtype.kind
    if kind == "O":
        kind = {"floating": "f", "empty": "f"}.get(infer_dtype(values, skipna=True), "O")
    if kind != "f" and not all(is_missing(one) or _is_float(one) for one in values):
        raise TypeError(
            "from_float takes floats only, and would round other values silently: make a column of "
            "integers, Decimals and text with DecimalArray(values) or astype('decimal')"
        )
    return np.asarray(pd.array(values, dtype="Float64").to_numpy(np.float64, na_value=np.nan))


def _is_float(number: Any) -> bool:
    return isinstance(number, float | np.floating) or (
        is_whole(number) and float(int(number)) == int(number)
    )


def _sequence(values: Any) -> Any:
    """Values in an order, as an array of NumPy or pandas."""
    if isinstance(values, pd.Series | pd.Index):
        return values.array
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return pd.array(values, dtype=pd.ArrowDtype(values.type))
    if not pd.api.types.is_list_like(values, allow_sets=False) or isinstance(values, Mapping):
        raise _no_list(values)
    if hasattr(values, "dtype"):
        return values
    return _cells(values)


def _no_list(values: Any) -> TypeError:
    return TypeError(
        f"a decimal column is made from a one-dimensional list or array, not from "
        f"{type(values).__name__} {values!r:.80}"
    )


def places(decimals: Any) -> int:
    """The whole number given as `decimals`, as a Python integer."""
    if is_whole(decimals):
        return int(decimals)
    raise TypeError(
        f"decimals={decimals!r} is of type {type(decimals).__name__}: expected a whole number, "
        "such as 2"
    )


def truncated(floats: Floats) -> tuple[Units, Bools]:
    """(units, whether more follows) of floats below 10**20, cut off after 18 decimals."""
    units, rest = wide.divide_floor(*_scaled(floats, SCALE))
    more = np.zeros(len(floats), bool)
    for limb in rest:
        more |= limb != 0
    return wide.join(units, floats < 0), more


def _scaled(floats: Floats, decimals: int) -> tuple[wide.Wide, wide.Wide]:
    """The exact magnitude x 10**decimals of floats below 10**20, as a fraction."""
    # value = mantissa * 2**exponent with a whole mantissa
    fractions, exponents = np.frexp(np.abs(floats))
    mantissas = (fractions * 2.0**53).astype(np.int64)
    digits = [mantissas & ((1 << 30) - 1), mantissas >> 30]
    whole = wide.times(digits, wide.constant(10**decimals))
    shifts = exponents.astype(np.int64) - 53
    raised = wide.times(whole, wide.powers_of_two(np.maximum(shifts, 0)))
    return raised, wide.powers_of_two(np.clip(-shifts, 0, 120))  # all is gone after 113 bits


def from_scalar_units(value: Any) -> Units:
    return int128.from_ints([from_scalar(value)])


def is_finer(value: Any) -> bool:
    """Whether a scalar is a Decimal of 19 to 100 decimals, which a column can't hold.

    It can still be multiplied by one: a product is rounded anyway.
    """
    if not isinstance(value, Decimal) or not value.is_finite():
        return False
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or not -100 <= exponent < -SCALE or value.adjusted() >= 20:
        return False
    return bool(ONE % value.as_integer_ratio()[1])


def check_range(array: pa.Array, digits: int = PRECISION - SCALE) -> None:
    """OverflowError where an Arrow decimal has more than `digits` digits before the point.

    Arrow's own cast to more decimals then wraps around silently, as 10**30 from decimal128(38, 0).
    """
    ends, most = pc.min_max(array).as_py().values(), Decimal((0, (1,), digits))
    if any(end is not None and end.copy_abs() >= most for end in ends):
        raise OverflowError(f"a value has more than {digits} digits before the point")


def _from_extension(values: Any, strings: bool) -> tuple[Units, Bools]:
    kind = values.dtype.kind
    missing = np.asarray(values.isna(), dtype=bool)
    if missing.all():
        return np.zeros((len(values), 2), np.uint64), missing
    if kind == "f":
        raise TypeError(FLOAT_HINT)
    integers = getattr(values.dtype, "numpy_dtype", None)
    if kind in "iu" and integers is not None:
        return _cleared(*_from_numbers(values.to_numpy(integers, na_value=0), missing))
    return _from_objects(np.asarray(values, dtype=object), strings)


def _from_numbers(values: npt.NDArray[Any], missing: Bools | None = None) -> tuple[Units, Bools]:
    if values.dtype.kind == "f":
        if not np.isnan(values).all():
            raise TypeError(FLOAT_HINT)
        return np.zeros((len(values), 2), np.uint64), np.ones(len(values), bool)
    words: Any = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)
    return wide.scaled_integers(words), np.zeros(len(values), bool) if missing is None else missing


def _from_objects(values: Any, strings: bool) -> tuple[Units, Bools]:
    cells = _cells(values)
    kind = infer_dtype(cells, skipna=True)
    if kind == "string":
        if not strings:
            raise TypeError("text is not a number: convert it with Decimal(...) first")
        return text.parse(pa.array(cells, pa.large_string(), from_pandas=True))
    if kind in {"decimal", "integer", "empty"}:
        try:
            return _cleared(*text.from_arrow_buffers(pa.array(cells, ARROW_TYPE, from_pandas=True)))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # one value at a time finds what is wrong, or reads what Arrow does not
    return _one_by_one(cells, strings)


def _cells(values: Iterable[Any]) -> npt.NDArray[np.object_]:
    listed = list(values)
    cells = np.empty(len(listed), object)
    cells[:] = listed
    return cells


def _one_by_one(cells: Iterable[Any], strings: bool) -> tuple[Units, Bools]:
    """Mixed lists: Decimals, integers and text side by side."""
    missing = np.array([is_missing(cell) for cell in cells], bool)
    numbers = [
        0 if gone else _number(cell, position, strings)
        for position, (cell, gone) in enumerate(zip(cells, missing, strict=True))
    ]
    return int128.from_ints(numbers), missing


def _number(cell: Any, position: int, strings: bool) -> int:
    if isinstance(cell, str) and strings:
        return text.parse_one(cell, position)
    if is_number(cell):
        return from_scalar(cell)
    if isinstance(cell, float | np.floating):
        raise TypeError(f"{cell!r} at position {position} is a float; {FLOAT_HINT}")
    raise TypeError(
        f"{cell!r} at position {position} is of type {type(cell).__name__}; "
        "a decimal column takes Decimal, int, text such as '1.50' and missing values"
    )


def _cleared(units: Units, missing: Bools) -> tuple[Units, Bools]:
    """The same, with zeros under what is missing, as all arithmetic here assumes."""
    if missing.any() and units[missing].any():
        units = np.where(missing[:, None], np.uint64(0), units)
    return units, missing


def _taken(units: Units, missing: Bools, codes: npt.NDArray[np.intp]) -> tuple[Units, Bools]:
    gone = codes < 0
    if not len(units):
        return np.zeros((len(codes), 2), np.uint64), gone
    taken = np.where(gone, 0, codes)
    return _cleared(int128.take(units, taken), missing[taken] | gone)


def exact_ratio(value: Any) -> tuple[int, int]:
    """value x 10**18 of a Decimal, a float or a rational number as a fraction, for comparisons."""
    # integers of NumPy are Rational too, but without as_integer_ratio
    rational = isinstance(value, Rational)
    top, bottom = (value.numerator, value.denominator) if rational else value.as_integer_ratio()
    return int(top) * ONE, int(bottom)
