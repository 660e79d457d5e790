"""What pandas keeps for its own types: describe, the largest values, joins, plots, Excel …

It has no hook there. Of any other extension type it makes floats or objects (in describe, in joins
with nullable integers, in concatenations with empty frames), rounds to 16 digits (in Excel) or not
at all (``DataFrame.round`` by name), or fails with messages about its insides ("No matching
signature found"). `close` puts answers for decimal columns in these places, exact ones but for
plots, which are drawn in floats; every other column goes on to pandas' own function. A later
pandas that has one of them elsewhere gives its own answer again, and a test says so.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from pkgutil import resolve_name
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fundlab.decimals.array import DecimalArray, DecimalDtype
from fundlab.decimals.int128 import LIMIT, ONE
from fundlab.decimals.scalars import to_scalar

EXCEL_DIGITS = 15  # significant ones, of a number in a cell

Function = Callable[..., Any]


def close() -> None:
    """Put the answers in pandas' places; once, when the package is imported."""
    for place, name, answer in (
        ("pandas.core.methods.describe", "describe_numeric_1d", _or(described, _dtype)),
        ("pandas.core.methods.selectn:SelectNSeries", "compute", _or(_selected, _dtype_of_task)),
        ("pandas.plotting._core:PlotAccessor", "__call__", _of(_accessor_of_floats)),
        ("pandas:DataFrame", "boxplot", _of(in_floats)),
        ("pandas.core.generic:NDFrame", "to_excel", _of(in_cells)),
        ("pandas:DataFrame", "round", _rounding_by_name),
        ("pandas.core.reshape.merge", "_factorizers", _with_decimals),
        ("pandas.core.reshape.merge:_MergeOperation", "_maybe_coerce_merge_keys", _of(_joining)),
        ("pandas.core.dtypes.concat", "_get_result_dtype", _without_blanks),
        ("pandas.core.groupby.groupby:GroupBy", "ohlc", _or(_open_to_close, _dtype_of_group)),
    ):
        try:
            owner = resolve_name(place)
            pandas_own = getattr(owner, name)
        except (ImportError, AttributeError):
            continue
        setattr(owner, name, answer(pandas_own))


def _or(exact: Function, dtype_of: Function) -> Callable[[Function], Function]:
    """pandas' own function, but `exact` where the subject is a decimal column."""

    def wrapped(pandas_own: Function) -> Function:
        @wraps(pandas_own)
        def answer(subject: Any, *args: Any, **kwargs: Any) -> Any:
            chosen = exact if isinstance(dtype_of(subject), DecimalDtype) else pandas_own
            return chosen(subject, *args, **kwargs)

        return answer

    return wrapped


def _of(convert: Function) -> Callable[[Function], Function]:
    """pandas' own function of what `convert` makes of its subject."""

    def wrapped(pandas_own: Function) -> Function:
        @wraps(pandas_own)
        def answer(subject: Any, *args: Any, **kwargs: Any) -> Any:
            return pandas_own(convert(subject), *args, **kwargs)

        return answer

    return wrapped


def _dtype(series: pd.Series[Any]) -> Any:
    return series.dtype


def _dtype_of_task(task: Any) -> Any:
    return task.obj.dtype


def described(series: pd.Series[Any], percentiles: npt.NDArray[np.float64]) -> pd.Series[Any]:
    """What ``describe`` shows, as a decimal column: the standard deviation as its float prints.

    That is missing where it has more than 20 digits before the point.
    """
    deviation: Any = series.std()
    if deviation is not pd.NA:
        units = round(Fraction(repr(deviation)) * ONE)
        deviation = to_scalar(units) if abs(units) < LIMIT else pd.NA
    quantiles = series.quantile(percentiles).tolist() if len(percentiles) else []
    values = [series.count(), series.mean(), deviation, series.min(), *quantiles, series.max()]
    names = pd.Series([], dtype="float64").describe(percentiles=percentiles.tolist()).index
    return pd.Series(DecimalArray(values), index=names, name=series.name)


def _selected(task: Any, method: str) -> pd.Series[Any]:
    return selected(task.obj, task.n, task.keep, largest=method == "nlargest")


def selected(series: pd.Series[Any], n: int, keep: str, *, largest: bool) -> pd.Series[Any]:
    """The `n` largest or smallest values in order, missing ones last.

    Of equal ones the first come first, or the last with `keep` "last"; "all" gives more than `n`
    rather than leave one out that equals the last.
    """
    rows = series.reset_index(drop=True)
    if keep == "last":
        rows = rows[::-1]
    ordered = rows.sort_values(ascending=not largest, kind="stable")
    count = max(n, 0)
    chosen = ordered.head(count)
    if keep == "all" and 0 < count < len(ordered):
        last = ordered.iloc[count - 1]
        equal = ordered.isna() if last is pd.NA else (ordered == last).fillna(False)
        chosen = ordered[(np.arange(len(ordered)) < count) | equal.to_numpy(dtype=bool)]
    return series.take(chosen.index.to_numpy())


def _with_decimals(factorizers: dict[Any, Any]) -> dict[Any, Any]:
    """What numbers the keys of a join, by the type of their scalars, with one for Decimals."""
    numbers_complex: Any = factorizers[np.complex128]

    class NumbersDecimals(numbers_complex):  # type: ignore[misc]
        def factorize(self, values: DecimalArray, **kwargs: Any) -> Any:
            return super().factorize(values._values_for_factorize()[0], **kwargs)

    return {**factorizers, Decimal: NumbersDecimals}


def _rounding_by_name(pandas_own: Function) -> Function:
    """``DataFrame.round({"amount": 2})``, of which pandas leaves out all but its own numbers."""

    @wraps(pandas_own)
    def answer(frame: pd.DataFrame, decimals: Any = 0, *args: Any, **kwargs: Any) -> Any:
        rounded = pandas_own(frame, decimals, *args, **kwargs)
        if isinstance(decimals, dict | pd.Series):
            for place, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
                if isinstance(dtype, DecimalDtype) and name in decimals:
                    rounded.isetitem(place, frame.iloc[:, place].round(decimals[name]))
        return rounded

    return answer


def _joining(merge: Any) -> Any:
    """A merge with both of its keys decimals, where one is and the other holds whole numbers.

    pandas itself has a common type for these, but of nullable and Arrow integers makes floats.
    """
    for place, pair in enumerate(zip(merge.left_join_keys, merge.right_join_keys, strict=True)):
        dtypes = [key.dtype for key in pair]
        if DecimalDtype() in dtypes and DecimalDtype()._get_common_dtype(dtypes) is not None:
            merge.left_join_keys[place], merge.right_join_keys[place] = map(_decimals, pair)
    return merge


def _decimals(key: Any) -> DecimalArray:
    array = getattr(key, "array", key)
    return array if isinstance(array, DecimalArray) else DecimalArray(array)


def _without_blanks(pandas_own: Function) -> Function:
    """The type of a concatenation, in which floats or objects without a value have no say."""

    @wraps(pandas_own)
    def answer(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(one.dtype, DecimalDtype) for one in arrays):
            return pandas_own(arrays, *args, **kwargs)
        telling = [one for one in arrays if not _is_blank(one)]
        any_extension, kinds, dtype = pandas_own(telling, *args, **kwargs)
        return any_extension, kinds, DecimalDtype() if dtype is None else dtype

    return answer


def _is_blank(array: Any) -> bool:
    dtype = array.dtype
    untold = isinstance(dtype, np.dtype | pd.Float64Dtype | pd.Float32Dtype) and dtype.kind in "fO"
    return untold and bool(pd.isna(array).all())


def _dtype_of_group(groups: Any) -> Any:
    return getattr(groups._selected_obj, "dtype", None)


def _open_to_close(groups: Any) -> pd.DataFrame:
    frame: pd.DataFrame = groups.agg(open="first", high="max", low="min", close="last")
    return frame


def _accessor_of_floats(accessor: Any) -> Any:
    return type(accessor)(in_floats(accessor._parent))


def in_floats(data: Any) -> Any:
    """A Series or DataFrame with its decimal columns as float64, NaN where missing."""
    return _each_decimal(
        data,
        lambda one: one.astype("float64") if isinstance(one.dtype, DecimalDtype) else one,
    )


def in_cells(data: Any) -> Any:
    """A Series or DataFrame for Excel: Decimals, and text where 15 digits are too few.

    In columns, categories, the index and the labels of columns.
    """
    cells = _each_decimal(data, _cells).copy(deep=False)
    cells.index = _labels(data.index)
    if isinstance(data, pd.DataFrame):
        cells.columns = _labels(data.columns)
    return cells


def _cells(series: pd.Series[Any]) -> pd.Series[Any]:
    return series.astype(object).map(_cell, na_action="ignore")


def _labels(index: pd.Index[Any]) -> pd.Index[Any]:
    if isinstance(index, pd.MultiIndex):
        levels: list[Any] = [_labels(level) for level in index.levels]
        return index.set_levels(levels, verify_integrity=False)
    if not _holds_decimals(index.dtype):
        return index
    labels: pd.Index[Any] = pd.Index(
        [_cell(one) if isinstance(one, Decimal) else one for one in index],
        dtype=object,
        name=index.name,
    )
    return labels


def _holds_decimals(dtype: Any) -> bool:
    held = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    return isinstance(held, DecimalDtype)


def _cell(value: Decimal) -> Decimal | str:
    return value if Decimal(f"{value:.{EXCEL_DIGITS}g}") == value else str(value)


def _each_decimal(data: Any, change: Callable[[pd.Series[Any]], pd.Series[Any]]) -> Any:
    """A Series or DataFrame with its columns changed that hold decimals, or categories of them."""
    if isinstance(data, pd.Series):
        return change(data) if _holds_decimals(data.dtype) else data
    if not any(_holds_decimals(dtype) for dtype in data.dtypes):
        return data
    columns = [data.iloc[:, place] for place in range(data.shape[1])]
    changed = pd.concat([_each_decimal(one, change) for one in columns], axis=1)
    changed.columns = data.columns
    return changed
