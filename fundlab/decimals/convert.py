"""Whatever pandas hands over, as units: arrays, lists, scalars, Arrow, text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.types import infer_dtype

from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.decimals import int128, text, wide
from fundlab.decimals.int128 import (
    PRECISION,
    SCALE,
    Column,
    Floats,
    cleared,
    from_arrow_buffers,
)
from fundlab.decimals.scalars import from_scalar, is_missing, is_number, is_whole, parse_one

FLOAT_HINT = (
    "floats are not exact: convert them with fundlab.decimals.DecimalArray.from_float(values, "
    "decimals=2), which rounds half-even, or use Decimal or int"
)


def from_any(values: Any, *, strings: bool = True) -> Column:
    """(units, missing) of Decimals, integers, text, missing values, or arrays of these.

    `strings=False` refuses text, as arithmetic does. The units may share memory that must not be
    written to. Raises TypeError for floats (unless all are NaN) and for what is not a number,
    ValueError and OverflowError for what does not fit.
    """
    if isinstance(values, pd.Series | pd.Index):
        values = values.array
    column: Column | None = getattr(values, "_column", None)
    if column is not None:  # a decimal array already
        return column
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return from_arrow(values, strings=strings)
    if not _is_sequence(values) or getattr(values, "ndim", 1) != 1:
        raise _no_sequence(values)
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, pd.ArrowDtype | pd.StringDtype):
        return from_arrow(pa.array(values), strings=strings)
    if isinstance(dtype, pd.CategoricalDtype):
        units, missing = from_any(values.categories, strings=strings)
        codes = np.asarray(values.codes, dtype=np.intp)
        if not len(units):
            return _nothing(len(codes))
        taken = np.where(codes < 0, 0, codes)
        return cleared(int128.take(units, taken), missing[taken] | (codes < 0))
    if isinstance(dtype, pd.api.extensions.ExtensionDtype):
        missing = np.asarray(values.isna(), dtype=bool)
        if missing.all():
            return _nothing(len(values))
        if dtype.kind == "f":
            raise TypeError(FLOAT_HINT)
        whole = getattr(dtype, "numpy_dtype", None)
        if dtype.kind in "iu" and whole is not None:
            return cleared(_scaled_integers(values.to_numpy(whole, na_value=0)), missing)
        return _from_objects(np.asarray(values, dtype=object), strings)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return _scaled_integers(values), np.zeros(len(values), bool)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        if not np.isnan(values).all():
            raise TypeError(FLOAT_HINT)
        return _nothing(len(values))
    return _from_objects(values, strings)


def from_arrow(array: Any, *, strings: bool = True) -> Column:
    """(units, missing) of an Arrow array: decimals, integers, text or nulls.

    A decimal128(38, 18) array without nulls is shared, not copied. Raises as `from_any`.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if kind == AMOUNT_TYPE:
        units, missing = cleared(*from_arrow_buffers(array))
        return int128.checked(units), missing
    if pa.types.is_null(kind):
        return _nothing(len(array))
    if pa.types.is_floating(kind):
        raise TypeError(FLOAT_HINT)
    if is_text(kind):
        if strings:
            return text.parse(array)
        raise TypeError("text is not a number: convert the column with astype('decimal') first")
    if pa.types.is_integer(kind):
        missing = array.is_null().to_numpy(zero_copy_only=False)
        whole = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
        return cleared(_scaled_integers(whole), missing)
    if not pa.types.is_decimal(kind):
        raise TypeError(f"an Arrow array of {kind} cannot become a decimal column")
    if kind.bit_width < 128:  # which min_max does not know
        array = pc.cast(array, pa.decimal128(kind.precision, kind.scale))
    check_range(array)
    try:
        array = pc.cast(array, AMOUNT_TYPE)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{kind} values with more than {SCALE} decimals: {error}") from None
    return from_arrow(array)


def from_float(values: Any, decimals: int) -> Column:
    """(units, missing) of floats, each exact binary value rounded half-even at `decimals` places.

    Raises ValueError for `decimals` outside 0 to 18, OverflowError for infinities and beyond 20
    digits before the point, TypeError for integers that no float holds, text and decimals.
    """
    decimals = places(decimals)
    if decimals not in range(SCALE + 1):
        raise ValueError(f"decimals={decimals!r}: expected a whole number from 0 to {SCALE}")
    if isinstance(values, pd.Series | pd.Index):
        values = values.array
    elif isinstance(values, pa.Array | pa.ChunkedArray):
        values = pd.array(values, dtype=pd.ArrowDtype(values.type))
    elif not _is_sequence(values):
        raise _no_sequence(values)
    elif not hasattr(values, "dtype"):
        values = _cells(values)
    if values.dtype.kind != "f" and not all(
        is_missing(one)
        or isinstance(one, float | np.floating)
        or (is_whole(one) and float(int(one)) == int(one))
        for one in values
    ):
        raise TypeError(
            "from_float takes floats only, and would round other values silently: make a column of "
            "integers, Decimals and text with DecimalArray(values) or astype('decimal')"
        )
    floats = pd.array(values, dtype="Float64").to_numpy(np.float64, na_value=np.nan)
    missing = np.isnan(floats)
    floats = np.where(missing, 0.0, floats)
    if (np.abs(floats) >= 1e20).any():
        raise int128.overflow()
    lowered = wide.divide_half_even(*float_fractions(floats, decimals))
    units = wide.times(lowered, wide.constant(10 ** (SCALE - decimals)))
    return wide.join(units, floats < 0), missing


def float_fractions(floats: Floats, decimals: int) -> tuple[wide.Wide, wide.Wide]:
    """The exact magnitude x 10**decimals of floats below 10**20, as a fraction."""
    # value = mantissa * 2**exponent with a whole mantissa
    fractions, exponents = np.frexp(np.abs(floats))
    mantissas = (fractions * 2.0**53).astype(np.int64)
    digits = [mantissas & ((1 << 30) - 1), mantissas >> 30]
    whole = wide.times(digits, wide.constant(10**decimals))
    shifts = exponents.astype(np.int64) - 53
    raised = wide.times(whole, wide.powers_of_two(np.maximum(shifts, 0)))
    return raised, wide.powers_of_two(np.clip(-shifts, 0, 120))  # all is gone after 113 bits


def places(decimals: Any) -> int:
    """The whole number given as `decimals`, as a Python integer."""
    if is_whole(decimals):
        return int(decimals)
    raise TypeError(
        f"decimals={decimals!r} is of type {type(decimals).__name__}: expected a whole number, "
        "such as 2"
    )


def is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def check_range(array: pa.Array, digits: int = PRECISION - SCALE) -> None:
    """OverflowError where an Arrow decimal has more than `digits` digits before the point.

    Arrow's own cast to more decimals then wraps around silently, as 10**30 from decimal128(38, 0).
    """
    ends, most = pc.min_max(array).as_py().values(), Decimal((0, (1,), digits))
    if any(end is not None and end.copy_abs() >= most for end in ends):
        raise OverflowError(f"a value has more than {digits} digits before the point")


def _is_sequence(values: Any) -> bool:
    return pd.api.types.is_list_like(values, allow_sets=False) and not isinstance(values, Mapping)


def _no_sequence(values: Any) -> TypeError:
    return TypeError(
        f"a decimal column is made from a one-dimensional list or array, not from "
        f"{type(values).__name__} {values!r:.80}"
    )


def _nothing(length: int) -> Column:
    return np.zeros((length, 2), np.uint64), np.ones(length, bool)


def _scaled_integers(whole: npt.NDArray[Any]) -> int128.Units:
    words: Any = whole.astype(np.uint64 if whole.dtype.kind == "u" else np.int64)
    return wide.scaled_integers(words)


def _from_objects(values: Iterable[Any], strings: bool) -> Column:
    cells = _cells(values)
    kind = infer_dtype(cells, skipna=True)
    if kind == "string":
        if not strings:
            raise TypeError("text is not a number: convert it with Decimal(...) first")
        return text.parse(pa.array(cells, pa.large_string(), from_pandas=True))
    # PyArrow ends the process at exponents such as that of 1E-999999999.
    near = all(-99 < cell.adjusted() < 99 for cell in cells if isinstance(cell, Decimal))
    if near and kind in {"decimal", "integer", "empty"}:
        try:
            return cleared(*from_arrow_buffers(pa.array(cells, AMOUNT_TYPE, from_pandas=True)))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # one value at a time finds what is wrong, or reads what Arrow does not
    missing = np.array([is_missing(cell) for cell in cells], bool)
    numbers = []
    for position, (cell, gone) in enumerate(zip(cells, missing, strict=True)):
        if gone:
            numbers.append(0)
        elif isinstance(cell, str) and strings:
            numbers.append(parse_one(cell, position))
        elif is_number(cell):
            numbers.append(from_scalar(cell))
        elif isinstance(cell, float | np.floating):
            raise TypeError(f"{cell!r} at position {position} is a float; {FLOAT_HINT}")
        else:
            raise TypeError(
                f"{cell!r} at position {position} is of type {type(cell).__name__}; "
                "a decimal column takes Decimal, int, text such as '1.50' and missing values"
            )
    return int128.from_ints(numbers), missing


def _cells(values: Iterable[Any]) -> npt.NDArray[np.object_]:
    listed = list(values)
    cells = np.empty(len(listed), object)
    cells[:] = listed
    return cells
