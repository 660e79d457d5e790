"""What pandas keeps for its own types: describe, the largest values, some joins, plots, Excel.

It has no hook there. Of any other extension type it makes floats in the first, and fails in the
others with messages about its insides ("No matching signature found"), or rounds to 16 digits (in
Excel). `close` puts answers for decimal columns in these places, exact ones but for plots, which
are drawn in floats; every other column goes on to pandas' own function. A later pandas that has
one of them elsewhere gives its own answer again, and a test says so.
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

from fundlab.decimals.array import DecimalArray
from fundlab.decimals.dtype import DecimalDtype
from fundlab.decimals.int128 import ONE
from fundlab.decimals.scalars import checked_scalar

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
        ("pandas.core.reshape.merge", "_factorizers", _with_decimals),
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

    Raises OverflowError where that has more than 20 digits before the point.
    """
    deviation: Any = series.std()
    if deviation is not pd.NA:
        deviation = checked_scalar(round(Fraction(repr(deviation)) * ONE))
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


def _accessor_of_floats(accessor: Any) -> Any:
    return type(accessor)(in_floats(accessor._parent))


def in_floats(data: Any) -> Any:
    """A Series or DataFrame with its decimal columns as float64, NaN where missing."""
    return _each_decimal(data, lambda series: series.astype("float64"))


def in_cells(data: Any) -> Any:
    """A Series or DataFrame for Excel: Decimals, and text where 15 digits are too few."""
    return _each_decimal(data, lambda series: series.astype(object).map(_cell, na_action="ignore"))


def _cell(value: Decimal) -> Decimal | str:
    return value if Decimal(f"{value:.{EXCEL_DIGITS}g}") == value else str(value)


def _each_decimal(data: Any, change: Callable[[pd.Series[Any]], pd.Series[Any]]) -> Any:
    if isinstance(data, pd.Series):
        return change(data) if isinstance(data.dtype, DecimalDtype) else data
    if not any(isinstance(dtype, DecimalDtype) for dtype in data.dtypes):
        return data
    columns = [data.iloc[:, place] for place in range(data.shape[1])]
    return pd.concat([_each_decimal(one, change) for one in columns], axis=1)
