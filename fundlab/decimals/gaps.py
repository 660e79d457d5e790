"""What pandas keeps for its own types: describe, the largest values, joins, plots, Excel …

It has no hook there. Of any other extension type it makes floats or objects (in describe, in joins
with nullable integers, in concatenations with empty frames), rounds to 16 digits (in Excel) or not
at all (``DataFrame.round`` by name), or fails with messages about its insides ("No matching
signature found"). Each function under ``@instead_of`` takes the place of one of pandas' own: it
answers for decimal columns, exactly but for plots, which are drawn in floats, and hands every
other column on to pandas' own. Beside it stands the pandas issue that would make it unnecessary.
Where a later pandas has no such place, importing `fundlab.decimals` gives a `GapWarning`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from importlib.metadata import version
from inspect import getattr_static
from pkgutil import resolve_name
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from fundlab.decimals.array import DecimalArray, DecimalDtype
from fundlab.decimals.convert import FLOAT_HINT
from fundlab.decimals.groups import PANDAS
from fundlab.decimals.int128 import LIMIT, ONE
from fundlab.decimals.scalars import in_format, is_missing, to_scalar

EXCEL_DIGITS = 15  # significant ones, of a number in a cell

OTHERS = {"altair": "altair", "ibis": "ibis-framework", "matplotlib": "matplotlib",
          "seaborn": "seaborn"}  # fmt: skip
"""Other libraries than pandas, by their modules: how each is called where it is installed from."""

Function = Callable[..., Any]


class GapWarning(UserWarning):
    """This pandas keeps one of its functions elsewhere: there decimal columns are not exact."""


class Gap(NamedTuple):
    owner: str  # a module, or a class in one
    name: str
    issue: int  # of pandas, or of the library that the owner belongs to
    answer: Function  # takes pandas' own function, and then what that takes


GAPS: list[Gap] = []


def instead_of(
    owner: str,
    name: str,
    *,
    issue: int,
    since: tuple[int, int] = (2, 2),
    before: tuple[int, int] = (99, 0),
) -> Callable[[Function], Function]:
    """``since`` and ``before`` are versions of pandas."""

    def register(answer: Function) -> Function:
        if since <= PANDAS < before:
            GAPS.append(Gap(owner, name, issue, answer))
        return answer

    return register


def close(gaps: list[Gap]) -> None:
    """Put the answers in pandas' places; once, when the package is imported."""
    for gap in gaps:
        try:
            owner = resolve_name(gap.owner)
            pandas_own = getattr(owner, gap.name)
        except (ImportError, AttributeError):
            library = OTHERS.get(re.split("[.:]", gap.owner)[0], "pandas")
            warnings.warn(
                f"{library} {version(library)} has no {gap.owner}.{gap.name}: fundlab cannot make "
                f"it exact for decimal columns; its results may be floats (see {library} issue "
                f"#{gap.issue}, and which versions of {library} this version of fundlab supports)",
                GapWarning,
                stacklevel=2,
            )
        else:
            answer: Any = _bound(gap.answer, pandas_own)
            if isinstance(getattr_static(owner, gap.name), staticmethod):
                answer = staticmethod(answer)
            setattr(owner, gap.name, answer)


def _bound(answer: Function, pandas_own: Function) -> Function:
    @wraps(pandas_own)
    def bound(*args: Any, **kwargs: Any) -> Any:
        return answer(pandas_own, *args, **kwargs)

    return bound


@instead_of("pandas.core.methods.describe", "describe_numeric_1d", issue=61707)
def describe(
    pandas_own: Function, series: pd.Series[Any], percentiles: npt.NDArray[np.float64]
) -> Any:
    """A decimal column, too: the standard deviation as its float prints.

    That is missing where it has more than 20 digits before the point.
    """
    if not isinstance(series.dtype, DecimalDtype):
        return pandas_own(series, percentiles)
    deviation: Any = series.std()
    if deviation is not pd.NA:
        units = round(Fraction(repr(deviation)) * ONE)
        deviation = to_scalar(units) if abs(units) < LIMIT else pd.NA
    quantiles = series.quantile(percentiles).tolist() if len(percentiles) else []
    values = [series.count(), series.mean(), deviation, series.min(), *quantiles, series.max()]
    names = pd.Series([], dtype="float64").describe(percentiles=percentiles.tolist()).index
    return pd.Series(DecimalArray(values), index=names, name=series.name)


@instead_of("pandas.core.methods.selectn:SelectNSeries", "compute", issue=42737)
def select_n(pandas_own: Function, task: Any, method: str) -> Any:
    """The `n` largest or smallest values in order, missing ones last.

    Of equal ones the first come first, or the last with `keep` "last"; "all" gives more than `n`
    rather than leave one out that equals the last.
    """
    series, keep = task.obj, task.keep
    if not isinstance(series.dtype, DecimalDtype):
        return pandas_own(task, method)
    rows = series.reset_index(drop=True)
    if keep == "last":
        rows = rows[::-1]
    ordered = rows.sort_values(ascending=method == "nsmallest", kind="stable")
    count = max(task.n, 0)
    chosen = ordered.head(count)
    if keep == "all" and 0 < count < len(ordered):
        last = ordered.iloc[count - 1]
        equal = ordered.isna() if last is pd.NA else (ordered == last).fillna(False)
        chosen = ordered[(np.arange(len(ordered)) < count) | equal.to_numpy(dtype=bool)]
    return series.take(chosen.index.to_numpy())


@instead_of("pandas:DataFrame", "round", issue=55114)
def round_by_name(
    pandas_own: Function, frame: pd.DataFrame, decimals: Any = 0, *args: Any, **kwargs: Any
) -> Any:
    """``DataFrame.round({"amount": 2})``, of which pandas leaves out all but its own numbers."""
    rounded = pandas_own(frame, decimals, *args, **kwargs)
    if isinstance(decimals, dict | pd.Series):
        for position, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
            if isinstance(dtype, DecimalDtype) and name in decimals:
                rounded.isetitem(position, frame.iloc[:, position].round(decimals[name]))
    return rounded


@instead_of("pandas.core.reshape.merge:_MergeOperation", "_maybe_coerce_merge_keys", issue=53696)
def coerce_merge_keys(pandas_own: Function, merge: Any) -> None:
    """Both keys of a merge become decimals, where one is and the other holds whole numbers; floats
    are refused, which pandas would match with nothing.

    pandas itself has a common type for these, but of nullable and Arrow integers makes floats.
    """
    for position, pair in enumerate(zip(merge.left_join_keys, merge.right_join_keys, strict=True)):
        dtypes = [key.dtype for key in pair]
        for key in pair if DecimalDtype() in dtypes else ():
            if key.dtype.kind == "f" and not pd.isna(key).all():
                raise TypeError(
                    f"merge: one key is decimal, the other {key.dtype}: 1.1 as a float equals no "
                    f"amount; {FLOAT_HINT}"
                )
        if DecimalDtype() in dtypes and DecimalDtype()._get_common_dtype(dtypes) is not None:
            merge.left_join_keys[position], merge.right_join_keys[position] = (
                pd.array(getattr(key, "array", key), dtype=DecimalDtype()) for key in pair
            )
    pandas_own(merge)


@instead_of("pandas.core.reshape.merge", "_factorize_keys", issue=53696)
def factorize_keys(pandas_own: Function, left: Any, right: Any, *args: Any, **kwargs: Any) -> Any:
    """The keys of a join as numbers: pandas would sort Python's Decimals, three times as long."""
    if isinstance(left, DecimalArray) and isinstance(right, DecimalArray):
        left, right = (one._values_for_factorize()[0] for one in (left, right))
    return pandas_own(left, right, *args, **kwargs)


@instead_of("pandas.core.window.rolling:BaseWindow", "_prep_values", issue=11446)
def windows(pandas_own: Function, window: Any, values: Any) -> Any:
    """Of ``rolling``, ``expanding`` and ``ewm``, also of groups: pandas computes them in floats."""
    if isinstance(values, DecimalArray):
        warnings.warn(
            "rolling, expanding and ewm of pandas make floats of a decimal column; "
            "fl.decimals.rolling(column, window) is exact, also of column = frame.groupby(…)[name]",
            GapWarning,
            stacklevel=_level_of_caller(),
        )
    return pandas_own(window, values)


def _level_of_caller() -> int:
    """How far up the line stands that asked pandas: Python shows a warning once for each line."""
    level, frame = 1, sys._getframe(1)
    inside = ("pandas", __name__.partition(".")[0])
    while frame.f_globals.get("__name__", "").partition(".")[0] in inside and frame.f_back:
        level, frame = level + 1, frame.f_back
    return level


@instead_of("pandas.core.dtypes.concat", "_get_result_dtype", issue=40893)
def result_dtype(pandas_own: Function, arrays: Any, *args: Any) -> Any:
    """The type of a concatenation, in which floats or objects without a value have no say."""
    if not any(isinstance(array.dtype, DecimalDtype) for array in arrays):
        return pandas_own(arrays, *args)
    kept = []
    for array in arrays:
        blank = isinstance(array.dtype, np.dtype | pd.Float64Dtype | pd.Float32Dtype)
        if not (blank and array.dtype.kind in "fO" and pd.isna(array).all()):
            kept.append(array)
    any_extension, kinds, dtype = pandas_own(kept, *args)
    return any_extension, kinds, DecimalDtype() if dtype is None else dtype


@instead_of("pandas.core.arrays.arrow.array", "transpose_homogeneous_pyarrow", issue=54224)
def transpose(pandas_own: Function, arrays: Any) -> Any:
    """The rows of a frame of decimal columns as columns: pandas would make them its own Arrow
    type."""
    arrays = list(arrays)
    transposed = pandas_own(arrays)
    if isinstance(arrays[0], DecimalArray):
        return [DecimalArray(row) for row in transposed]
    return transposed


@instead_of("pandas:DataFrame", "stack", issue=58817)
def stack(pandas_own: Function, frame: pd.DataFrame, *args: Any, **kwargs: Any) -> Any:
    """``frame.stack()`` of decimal columns moves their values; pandas makes objects of them."""
    arrays = [column.array for _, column in frame.items()]
    plain = not isinstance(frame.columns, pd.MultiIndex) and kwargs.get("future_stack", True)
    if not plain or not arrays or not all(isinstance(one, DecimalArray) for one in arrays):
        return pandas_own(frame, *args, **kwargs)
    rows = np.arange(frame.size).reshape(frame.shape, order="F")
    places = pandas_own(
        pd.DataFrame(rows, index=frame.index, columns=frame.columns), *args, **kwargs
    )
    values = DecimalArray._concat_same_type(arrays).take(places.to_numpy())
    return pd.Series(values, index=places.index)


@instead_of("pandas.core.apply:FrameColumnApply", "_make_ea_row_builder", issue=65097, since=(3, 1))
def row_builder(pandas_own: Function, arrays: Any, *args: Any) -> Callable[[int], Any]:
    """The rows for ``frame.apply(function, axis=1)``: pandas makes each of scalars of Arrow's."""
    if not all(isinstance(one, DecimalArray) for one in arrays):
        theirs: Callable[[int], Any] = pandas_own(arrays, *args)
        return theirs
    units = np.stack([one._units for one in arrays], axis=1)
    missing = np.stack([one._missing for one in arrays], axis=1)
    return lambda row: DecimalArray._of(units[row], missing[row])  # of memory of its own


@instead_of("pandas:Series", "map", issue=62164, before=(3, 1))
def map_values(pandas_own: Function, series: pd.Series[Any], *args: Any, **kwargs: Any) -> Any:
    """``series.map(function)``: results that are all Decimals stay a decimal column."""
    mapped = pandas_own(series, *args, **kwargs)
    if isinstance(series.dtype, DecimalDtype) and mapped.dtype == object and len(mapped):
        try:
            values = DecimalArray._from_scalars(mapped)
        except (TypeError, ValueError):
            return mapped
        return pd.Series(values, index=mapped.index, name=mapped.name)
    return mapped


@instead_of("pandas.core.groupby.groupby:GroupBy", "quantile", issue=37505, before=(3, 1))
def group_quantile(
    pandas_own: Function,
    groups: Any,
    q: Any = 0.5,
    interpolation: str = "linear",
    numeric_only: bool = False,
) -> Any:
    """Before 3.1 there is no hook for it."""
    given = groups._selected_obj
    kinds = [given.dtype] if isinstance(given, pd.Series) else list(given.dtypes)
    if DecimalDtype() not in kinds:
        return pandas_own(groups, q, interpolation, numeric_only)
    if isinstance(given, pd.DataFrame):
        raise TypeError(
            f"groupby(…).quantile of frames with decimal columns needs pandas 3.1, not "
            f"{pd.__version__}: take it of each column, as in groupby(…)['amount'].quantile()"
        )
    if not np.iterable(q):
        return groups.agg(lambda rows: rows.quantile(q, interpolation=interpolation))
    return groups.apply(lambda rows: rows.quantile(q, interpolation=interpolation))


@instead_of("pandas.core.groupby.groupby:GroupBy", "ohlc", issue=37493)
def open_high_low_close(pandas_own: Function, groups: Any) -> Any:
    if not isinstance(getattr(groups._selected_obj, "dtype", None), DecimalDtype):
        return pandas_own(groups)
    return groups.agg(open="first", high="max", low="min", close="last")


@instead_of("pandas.core.internals.blocks", "convert_dtypes", issue=53648)
def convert_dtypes(pandas_own: Function, array: Any, *args: Any, **kwargs: Any) -> Any:
    """``frame.convert_dtypes()`` keeps decimals, of which pandas' own types have none."""
    if isinstance(array.dtype, DecimalDtype):
        return array.dtype
    return pandas_own(array, *args, **kwargs)


@instead_of("pandas", "to_numeric", issue=33013)
def to_numeric(
    pandas_own: Function, arg: Any, errors: Any = "raise", downcast: Any = None, **kwargs: Any
) -> Any:
    """Decimals are numbers already; `downcast` to a type of NumPy is refused."""
    if not isinstance(getattr(arg, "dtype", None), DecimalDtype):
        return pandas_own(arg, errors, downcast, **kwargs)
    if downcast is not None:
        raise TypeError(
            f"downcast={downcast!r}: a decimal column has no smaller type; for floats, convert it "
            "with astype('float64') first"
        )
    return arg


@instead_of("pandas.core.generic:NDFrame", "_clip_with_one_bound", issue=40420)
def clip(pandas_own: Function, data: Any, bound: Any, method: Any, axis: Any, inplace: Any) -> Any:
    """``clip(lower=others)``: a bound that is missing does not bind.

    pandas fills it with an infinity, which is a float.
    """
    if isinstance(data, pd.DataFrame):
        if not pd.api.types.is_list_like(bound) or DecimalDtype() not in list(data.dtypes):
            return pandas_own(data, bound, method, axis, inplace)
        if not isinstance(bound, pd.Series | pd.DataFrame):
            align: Any = data._align_for_op
            bound = align(bound, axis, flex=None)[1]
        by_row = isinstance(bound, pd.Series) and axis == 0
        clipped = data if inplace else data.copy()
        for position, name in enumerate(data.columns):
            column = data.iloc[:, position]
            their_own = bound if by_row else bound[name]
            compared: Any = getattr(column, method.__name__)
            clipped.isetitem(position, clip(pandas_own, column, their_own, compared, 0, False))
        return None if inplace else clipped
    if not isinstance(data.dtype, DecimalDtype):
        return pandas_own(data, _in_floats(bound), method, axis, inplace)
    if not pd.api.types.is_list_like(bound):
        return data.copy() if is_missing(bound) else pandas_own(data, bound, method, axis, inplace)
    if not isinstance(bound, pd.Series):
        bound = pd.Series(bound, index=data.index, dtype=DecimalDtype())
    within = method(bound, axis=axis).fillna(True)
    return data.where(within, bound, axis=axis, inplace=inplace)


@instead_of("pandas", "cut", issue=30944)
def cut(
    pandas_own: Function,
    x: Any,
    bins: Any,
    right: bool = True,
    labels: Any = None,
    retbins: bool = False,
    precision: int = 3,
    include_lowest: bool = False,
    duplicates: Any = "raise",
    ordered: bool = True,
) -> Any:
    """``pd.cut(amounts, [Decimal("0.1"), 2])``: each value in the bin that it exactly lies in.

    Bins are labelled as those of floats are. A number of bins is one of floats anyway.
    """
    given = {
        "right": right, "precision": precision, "include_lowest": include_lowest,
        "duplicates": duplicates, "ordered": ordered, "labels": labels,
    }  # fmt: skip
    edged = np.iterable(bins) and not isinstance(bins, pd.IntervalIndex)
    if not isinstance(getattr(x, "dtype", None), DecimalDtype) or not edged:
        return pandas_own(x, bins, retbins=retbins, **given)
    edges = list(dict.fromkeys(bins)) if duplicates == "drop" else list(bins)
    whole = all(float(edge).is_integer() and edge == int(edge) for edge in edges)
    near = [int(edge) if whole else float(edge) for edge in edges]
    if labels is None:
        # pandas makes the labels, and checks the bins
        given["labels"] = pandas_own(np.array([near[0]]), near, **given).categories
    values = pd.Series(getattr(x, "array", x))
    bin_of = np.zeros(len(values))  # of the bin, between the numbers of its edges
    for edge in edges:
        bin_of += (values > edge if right else values >= edge).to_numpy(float, na_value=np.nan)
    bin_of -= 0.5
    if include_lowest:
        bin_of[(values == edges[0]).to_numpy(bool, na_value=False)] = 0.5
    within: Any = bin_of
    if isinstance(x, pd.Series):
        within = pd.Series(bin_of, index=x.index, name=x.name)
    binned = pandas_own(within, range(len(edges)), **given)
    return (binned, np.array(edges)) if retbins else binned


@instead_of("pandas.core.reshape.merge:_AsOfMerge", "_validate_tolerance", issue=29130)
def no_tolerance(pandas_own: Function, merge: Any, left_keys: Any) -> None:
    if merge.tolerance is not None and isinstance(left_keys[-1], DecimalArray):
        raise TypeError(
            f"merge_asof(tolerance={merge.tolerance!r}) is not supported for decimal keys: merge "
            "without it, then drop the rows whose keys are too far apart"
        )
    pandas_own(merge, left_keys)


@instead_of("pandas.core.reshape.merge:_AsOfMerge", "_get_join_indexers", issue=29130)
def as_of(pandas_own: Function, merge: Any) -> Any:
    """``pd.merge_asof(on="amount")`` compares the ranks of the keys; "nearest" needs distances."""
    left, right = merge.left_join_keys[-1], merge.right_join_keys[-1]
    if isinstance(left, DecimalArray) and isinstance(right, DecimalArray):
        if merge.direction == "nearest":
            raise TypeError(
                "merge_asof(direction='nearest') is not supported for decimal keys: merge with "
                "'backward' and with 'forward', and keep the nearer of both"
            )
        for side, key in (("left", left), ("right", right)):
            if key.isna().any():
                raise ValueError(f"Merge keys contain null values on {side} side")
        codes = pd.concat([pd.Series(left), pd.Series(right)]).rank(method="dense").to_numpy(float)
        merge.left_join_keys[-1], merge.right_join_keys[-1] = (
            codes[: len(left)], codes[len(left) :])  # fmt: skip
    return pandas_own(merge)


# ---- text: what is asked for of floats holds for decimals


@instead_of("pandas.core.indexes.base", "get_values_for_csv", issue=26276)
@instead_of("pandas.core.internals.blocks", "get_values_for_csv", issue=26276)
def csv_block(pandas_own: Function, values: Any, **kwargs: Any) -> Any:
    """``to_csv(decimal=",", float_format="%.2f")``, of columns and of the index."""
    if not isinstance(values, DecimalArray):
        return pandas_own(values, **kwargs)
    shown = _as_asked(kwargs.get("float_format"), kwargs.get("decimal", "."))
    cells = values.to_numpy(object, na_value=kwargs.get("na_rep", ""))
    present = ~values.isna()
    cells[present] = [shown(value) for value in cells[present]]
    return cells


@instead_of("pandas.io.formats.format:_ExtensionArrayFormatter", "_format_strings", issue=53675)
def format_strings(pandas_own: Function, task: Any) -> Any:
    """``to_string(float_format="%.2f", decimal=",")``, and of ``to_html``."""
    asked = task.float_format is not None or task.decimal != "."
    if isinstance(task.values, DecimalArray) and task.formatter is None and asked:
        task.formatter = _as_asked(task.float_format, task.decimal)
    return pandas_own(task)


def _as_asked(float_format: Any, decimal: str) -> Callable[[Any], str]:
    """How a Decimal is shown with pandas' arguments `float_format` and `decimal`."""
    shown: Any = str
    if callable(float_format):
        shown = float_format
    elif float_format is not None:
        places = re.fullmatch(r"%\.(\d+)f", float_format)
        if places is None:
            raise ValueError(
                f"float_format={float_format!r}: decimal columns take '%.2f' and the like, or a "
                "function of a Decimal"
            )
        shown = in_format(f".{places[1]}f")
    return lambda value: shown(value).replace(".", decimal)


def styled(pandas_own: Function, formatter: Any = None, **kwargs: Any) -> Any:
    """``style.format(precision=2, thousands=",", decimal=".")``; all digits if nobody asks."""
    pandas_shown = pandas_own(formatter, **kwargs)
    precision, thousands = kwargs.get("precision"), kwargs.get("thousands")
    decimal = kwargs.get("decimal", ".")
    if formatter is not None or (precision is None and thousands is None and decimal == "."):
        return pandas_shown
    spec = ("," if thousands is not None else "") + ("f" if precision is None else f".{precision}f")
    marks, text = {",": thousands, ".": decimal}, in_format(spec)

    def shown(value: Any) -> Any:
        if not isinstance(value, Decimal):
            return pandas_shown(value)
        return "".join(marks.get(mark, mark) for mark in text(value))

    return shown


def bars(pandas_own: Function, data: Any, *args: Any, **kwargs: Any) -> Any:
    """``style.bar()``."""
    return pandas_own(_in_floats(data), *args, **kwargs)


@instead_of("pandas.core.generic:NDFrame", "to_latex", issue=15171)
def to_latex(pandas_own: Function, data: Any, *args: Any, **kwargs: Any) -> Any:
    """``to_latex(float_format="%.2f", decimal=",")``, unless `formatters` has a column's own."""
    frame = data.to_frame() if isinstance(data, pd.Series) else data
    float_format, formatters = kwargs.get("float_format"), kwargs.get("formatters")
    if float_format is not None and (formatters is None or isinstance(formatters, dict)):
        shown = _as_asked(float_format, kwargs.get("decimal", "."))
        names = frame.columns[frame.dtypes == DecimalDtype()]
        if len(names):
            kwargs["formatters"] = {**dict.fromkeys(names, shown), **(formatters or {})}
    return pandas_own(data, *args, **kwargs)


# ---- plots and Excel take the frame in other types


@instead_of("pandas.plotting._core:PlotAccessor", "__call__", issue=26173)
def plot(pandas_own: Function, accessor: Any, *args: Any, **kwargs: Any) -> Any:
    return pandas_own(type(accessor)(_in_floats(accessor._parent)), *args, **kwargs)


@instead_of("pandas:DataFrame", "boxplot", issue=26173)
def boxplot(pandas_own: Function, frame: pd.DataFrame, *args: Any, **kwargs: Any) -> Any:
    return pandas_own(_in_floats(frame), *args, **kwargs)


@instead_of("pandas.core.generic:NDFrame", "to_excel", issue=49598)
def to_excel(pandas_own: Function, data: Any, *args: Any, **kwargs: Any) -> None:
    """Cells are Decimals, and text where 15 digits are too few.

    In columns, categories, the index and the labels of columns.
    """
    cells = _each_decimal(
        data, lambda series: series.astype(object).map(_cell, na_action="ignore")
    ).copy(deep=False)
    cells.index = _labels(data.index)
    if isinstance(data, pd.DataFrame):
        cells.columns = _labels(data.columns)
    pandas_own(cells, *args, **kwargs)


def drawn(own: Function, *args: Any, **kwargs: Any) -> Any:
    """Plots of Matplotlib, seaborn and Altair that compute, or write JSON, before they draw."""
    return own(
        *map(_in_floats, args), **{name: _in_floats(value) for name, value in kwargs.items()}
    )


def memtable(own: Function, proxy: Any, schema: Any) -> Any:
    """ibis makes a Decimal of each value, which a missing one cannot be, unless it is one."""
    frame = proxy.obj
    ours = [name for name, kind in frame.dtypes.items() if isinstance(kind, DecimalDtype)]
    each = {
        name: frame[name].astype(object).where(frame[name].notna(), Decimal("NaN")) for name in ours
    }
    return own(type(proxy)(frame.assign(**each)), schema)


ON_IMPORT = {
    "ibis.formats.pandas": [
        Gap("ibis.formats.pandas:PandasDataFrameProxy", "to_pyarrow", 5343, memtable)
    ],
    "pandas.io.formats.style_render": [
        Gap("pandas.io.formats.style_render", "_maybe_wrap_formatter", 15171, styled)
    ],
    "pandas.io.formats.style": [Gap("pandas.io.formats.style", "_bar", 56283, bars)],
    "matplotlib.axes": [
        Gap("matplotlib.axes:Axes", name, 23991, drawn)
        for name in ("boxplot", "hist2d", "imshow", "pcolormesh", "pie", "violinplot")
    ],
    "altair": [Gap("altair:Chart", "__init__", 2272, drawn)],
    "seaborn": [
        Gap("seaborn", name, 3042, drawn)
        for name in ("clustermap", "heatmap", "lmplot", "regplot", "residplot")
    ],
}
"""By the module whose import closes them."""


def _in_floats(data: Any) -> Any:
    """A Series or DataFrame with its decimal columns as float64, NaN where missing; a list of such;
    a decimal array; anything else as it is."""
    if isinstance(data, DecimalArray):
        return data.to_numpy(np.float64)
    if isinstance(data, list | tuple) and any(
        isinstance(one, pd.Series | DecimalArray) for one in data
    ):
        return [_in_floats(one) for one in data]
    if not isinstance(data, pd.Series | pd.DataFrame):
        return data
    return _each_decimal(
        data,
        lambda one: one.astype("float64") if isinstance(one.dtype, DecimalDtype) else one,
    )


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


def _cell(value: Decimal) -> Decimal | float | str:
    if Decimal(f"{value:.{EXCEL_DIGITS}g}") != value:
        return str(value)
    return float(value) if PANDAS < (3, 0) else value  # of a Decimal pandas 2 makes text


def _each_decimal(data: Any, change: Callable[[pd.Series[Any]], pd.Series[Any]]) -> Any:
    """A Series or DataFrame with its columns changed that hold decimals, or categories of them."""
    if isinstance(data, pd.Series):
        return change(data) if _holds_decimals(data.dtype) else data
    if not any(_holds_decimals(dtype) for dtype in data.dtypes):
        return data
    columns = [data.iloc[:, position] for position in range(data.shape[1])]
    changed = pd.concat([_each_decimal(one, change) for one in columns], axis=1)
    changed.columns = data.columns
    return changed
