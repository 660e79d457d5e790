"""Decimal columns in everyday pandas: groups, shapes, choosing, summaries, other types."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from extra_packages import needs
from small_columns import LARGEST, D, column, values

from fundlab.decimals import DecimalDtype, rolling
from fundlab.decimals.gaps import GapWarning
from fundlab.decimals.groups import PANDAS

# ---- everyday


def test_groupby(frame: pd.DataFrame) -> None:
    table = frame.groupby("k").agg(total=("x", "sum"), mean=("x", "mean"), rows=("x", "size"))
    assert table["total"].tolist() == [D("1442725.2400001"), D("1.5")]
    assert table["mean"].tolist() == [D("480908.413333366666666667"), D("0.75")]
    both = frame.groupby("k")["x"].agg(["sum", "mean", "nunique"])
    assert both["sum"].dtype == both["mean"].dtype == "decimal"
    assert frame.groupby("k").sum()["n"].tolist() == [5, 10]
    assert frame.groupby("k")[["x", "n"]].cumsum()["x"].tolist()[:3] == [
        D("1442725.09"), D("1442725.24"), D("-1.5")]  # fmt: skip
    keyless = frame.assign(k=["a", None, "b", "b", "a", None]).groupby("k")["x"]
    assert values(keyless.cumsum()) == [
        D("1442725.09"), None, D("-1.5"), None, D("1442725.0900001"), None]  # fmt: skip
    assert values(keyless.transform("sum"))[1] is None
    assert frame.groupby("k")["x"].idxmax().tolist() == [0, 5]
    assert frame.groupby("x")["n"].sum().index.dtype == "decimal"


def test_groups_that_are_all_missing() -> None:
    series = column(None, None, "1")
    key = [0, 0, 1]
    assert values(series.groupby(key).sum()) == [0, 1]
    assert values(series.groupby(key).sum(min_count=1)) == [None, 1]
    assert values(series.groupby(key).mean()) == [None, 1]
    if not PANDAS < (3, 0):  # which has no such argument
        assert values(series.groupby(key).sum(skipna=False)) == [None, 1]
    categories = pd.Categorical(["a", "a", "b"], categories=["a", "b", "never"])
    assert values(series.groupby(categories, observed=False).sum()) == [0, 1, 0]
    assert values(series.groupby(categories, observed=False).max()) == [None, 1, None]


def test_resample(frame: pd.DataFrame) -> None:
    series = frame.set_index(pd.date_range("2026-10-01", periods=6, freq="12h", tz="UTC"))["x"]
    daily = series.resample("D")
    assert values(daily.sum()) == [D("1442725.24"), D("-1.5"), D("3.0000001")]
    assert values(daily.last()) == [D("0.15"), D("-1.5"), D("3")]
    assert values(rolling(series, "1D").sum())[:2] == [D("1442725.09"), D("1442725.24")]


def test_reshaping(frame: pd.DataFrame) -> None:
    pivot = frame.pivot_table(index="k", columns="n", values="x", aggfunc="sum", margins=True)
    assert pivot.loc["All", "All"] == D("1442726.7400001")
    crossed = pd.crosstab(frame["k"], frame["n"], values=frame["x"], aggfunc="sum")
    assert crossed.loc["b", 5] == 3
    assert set(crossed.dtypes) == {DecimalDtype()}
    assert frame.set_index(["k", "n"])["x"].unstack().dtypes.eq("decimal").all()
    assert frame.melt(id_vars="k", value_vars=["x"])["value"].dtype == "decimal"


def test_concat() -> None:
    series = column("0.5")
    assert values(pd.concat([series, pd.Series([2])])) == [D("0.5"), 2]
    assert values(pd.concat([series, pd.Series([2, None], dtype="Int64")])) == [D("0.5"), 2, None]
    empty = pd.DataFrame({"x": column()})
    assert pd.concat([series.to_frame(), empty])["x"].dtype == "decimal"
    assert pd.concat([empty, empty])["x"].sum() == 0
    arrow = pd.Series([D("1.25")], dtype=pd.ArrowDtype(pa.decimal128(9, 2)))
    assert values(pd.concat([series, arrow])) == [D("0.5"), D("1.25")]


@pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation")  # of pandas 2
@pytest.mark.parametrize(
    "blank",
    [pd.Series([], dtype=float), pd.Series([np.nan, np.nan]), pd.Series([], dtype=object),
     pd.Series([None, np.nan], dtype=object), pd.Series([np.nan], dtype="float32"),
     pd.Series([None], dtype="Float64")],
    ids=["empty", "NaN", "empty objects", "None", "float32", "Float64"],
)  # fmt: skip
def test_what_holds_no_value_changes_no_type(blank: pd.Series) -> None:
    series = column("0.5")
    gone = [None] * len(blank)
    for together in (
        pd.concat([series, blank]),
        pd.concat([series.to_frame(), blank.to_frame("x")])["x"],
        pd.concat([series, blank, pd.Series([2])]).iloc[:-1],
    ):
        assert (together.dtype, values(together)) == ("decimal", [D("0.5"), *gone])
    assert pd.concat([blank, series])[-1:].dtype == "decimal"


@pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation")  # of pandas 2
def test_concat_with_empty_frames_and_with_floats() -> None:
    series = column("0.5")
    empty = pd.DataFrame(columns=["x"])
    assert pd.concat([empty, series.to_frame()])["x"].dtype == "decimal"
    assert pd.concat([pd.DataFrame(), series.to_frame(), empty])["x"].sum() == D("0.5")
    wider = pd.concat([series.to_frame(), pd.DataFrame({"y": [1]})])
    assert values(wider["x"]) == [D("0.5"), None]
    floats = pd.concat([series, pd.Series([1.5, None])])
    assert floats.dtype == object
    assert floats.tolist()[:2] == [D("0.5"), 1.5]


def test_choosing(frame: pd.DataFrame) -> None:
    assert frame.query("x > 0.1 and n < 3").index.tolist() == [0, 1]
    assert frame[frame["x"] == D("0.15")].index.tolist() == [1]
    assert frame.eval("x + n").iloc[4] == D("4.0000001")
    assert values(frame["x"].where(frame["x"] > 0, 0))[2:4] == [0, 0]
    assert values(frame["x"].fillna(0))[3] == 0
    assert values(frame["x"].clip(lower=0, upper=2)) == [
        2, D("0.15"), 0, None, D("0.0000001"), 2]  # fmt: skip
    assert frame["x"].isin([3, "x", 0.15, D("0.15"), None]).tolist() == [
        False, True, False, True, False, True]  # fmt: skip
    assert frame.set_index("x").loc[D("0.15"), "n"] == 1
    index = pd.Index(frame["x"].dropna()).sort_values()
    assert index.get_indexer([D(3), D(4)]).tolist() == [3, -1]
    assert frame.select_dtypes("number").columns.tolist() == ["x", "n"]
    assert frame[["x", "n"]].sum(axis=1).iloc[1] == D("1.15")
    assert frame["x"].map(lambda value: value * 2, na_action="ignore").dtype == "decimal"


QUARTILES = ["25%", "50%", "75%"]


def test_describe_is_exact(frame: pd.DataFrame) -> None:
    summary = frame["x"].describe()
    assert summary.dtype == "decimal"
    assert summary.index.tolist() == ["count", "mean", "std", "min", *QUARTILES, "max"]
    assert summary.drop("std").tolist() == [
        5, D("288545.34800002"), D("-1.5"), D("0.0000001"), D("0.15"), 3, D("1442725.09"),
    ]  # fmt: skip
    assert float(summary["std"]) == frame["x"].std()
    both = frame[["x", "n"]].describe(percentiles=[0.1])
    assert both.dtypes.astype(str).tolist() == ["decimal", "float64"]
    assert both.loc["10%", "x"] == D("-0.89999996")
    each = frame.groupby("k")["x"].describe()
    assert set(each.dtypes) == {DecimalDtype()}
    assert each["max"].tolist() == [D("1442725.09"), 3]
    assert values(column(None).describe()) == [0, *[None] * 7]
    assert frame["n"].describe()["max"] == 5.0
    wide = column(LARGEST, "-" + LARGEST).describe()  # whose standard deviation has 21 digits
    assert (wide["std"], wide["mean"], wide["max"]) == (pd.NA, 0, D(LARGEST))


def test_rounding_frames(frame: pd.DataFrame) -> None:
    for decimals in ({"x": 1}, {"x": np.int64(1), "none": 3}, pd.Series({"x": 1}), 1):
        rounded = frame[["x", "n"]].round(decimals)
        assert values(rounded["x"]) == [D("1442725.1"), D("0.2"), D("-1.5"), None, 0, 3]
        assert (rounded.dtypes.tolist(), rounded["n"].tolist()) == (
            [DecimalDtype(), np.dtype("int64")], list(range(6)))  # fmt: skip
    assert frame["x"].iloc[1] == D("0.15")
    assert values(frame.round({"n": 1})["x"]) == values(frame["x"])
    floats = pd.DataFrame({"f": [0.126]})
    assert floats.round({"f": 2})["f"].tolist() == [0.13]


def test_truth_values_multiply_as_one_and_zero(frame: pd.DataFrame) -> None:
    x = column("1.5", "-2", None)
    for mask in (x > 0, (x > 0).fillna(False).astype(bool), (x > 0).astype("bool[pyarrow]")):
        assert values(x * mask) == [D("1.5"), 0, None]
        assert values(mask * x) == [D("1.5"), 0, None]
    assert values(x.array * np.array([True, False, True])) == [D("1.5"), 0, None]
    assert values(True * x * np.True_) == values(x)
    for calculate in (lambda: x + (x > 0), lambda: x - True):
        with pytest.raises(TypeError):
            calculate()


def test_text_of_an_amount_stands_for_it_and_what_only_looks_like_one_raises(
    frame: pd.DataFrame,
) -> None:
    three = frame["x"] == 3
    assert three.sum() == 1
    assert (frame["x"] == "3.00").tolist() == three.tolist()
    assert frame["x"].isin(["3.00", "x"]).tolist() == three.fillna(False).tolist()
    assert frame["x"].lt("3").tolist() == frame["x"].lt(3).tolist()
    assert not (frame["x"] == "USD").any()  # as where a whole frame is compared
    with pytest.raises(TypeError):
        frame["x"].lt("USD")
    with pytest.raises(ValueError, match="cannot read '3,00' at position 0 as a decimal"):
        frame[frame["x"] == "3,00"]


def test_floats_match_nothing_so_they_are_no_key_of_a_merge() -> None:
    ours = pd.DataFrame({"x": pd.array(["1.10", "2"], dtype="decimal"), "n": [1, 2]})
    for theirs in ([1.1, 2.0], pd.array([1.1, None], dtype="Float64")):
        given = pd.DataFrame({"x": theirs, "name": ["a", "b"]})
        for left, right in ((ours, given), (given, ours)):
            with pytest.raises(TypeError, match=r"one key is decimal, the other [Ff]loat64"):
                left.merge(right, on="x")
    assert len(ours.merge(pd.DataFrame({"x": [D("1.1")], "name": ["a"]}), on="x")) == 1


def test_windows_of_pandas_say_that_they_make_floats() -> None:
    frame = pd.DataFrame({"k": ["a", "a"], "x": pd.array(["0.1", "0.2"], dtype="decimal")})
    for roll in (
        lambda: frame["x"].rolling(2).sum(),
        lambda: frame.groupby("k")["x"].rolling(2).sum(),
        lambda: frame["x"].expanding().sum(),
    ):
        with pytest.warns(
            GapWarning, match=r"fl.decimals.rolling\(column, window\) is exact"
        ) as seen:
            roll()
        place = roll.__code__.co_filename, roll.__code__.co_firstlineno
        assert [(one.filename, one.lineno) for one in seen] == [place]  # shown once for each line
    assert rolling(frame.groupby("k")["x"], 2).sum().tolist()[1] == D("0.3")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # of options that ibis sets
def test_a_table_of_ibis_takes_a_missing_amount() -> None:
    ibis = needs("ibis")
    frame = pd.DataFrame({"x": pd.array(["1.10", None], dtype="decimal")})
    table = ibis.memtable(frame).to_pyarrow()
    assert table["x"].to_pylist() == [D("1.1"), None]


def test_none_is_no_position(frame: pd.DataFrame) -> None:
    array = frame["x"].array.copy()
    with pytest.raises(IndexError, match="one dimension"):
        array[None]
    with pytest.raises(IndexError, match="one dimension"):
        array[None] = 1


@pytest.mark.parametrize("keep", ["first", "last", "all"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 9])
@pytest.mark.parametrize("method", ["nlargest", "nsmallest"])
def test_the_largest_and_smallest(method: str, n: int, keep: Any) -> None:
    source = [3, 1, None, 3, 2, 1, None, 3]
    index = list("abcdefgh")
    exact = getattr(column(*source).set_axis(index), method)(n, keep=keep)
    floats = getattr(pd.Series(source, dtype="float64", index=index), method)(n, keep=keep)
    if n < len(source):  # else pandas itself sorts, and heeds no `keep`
        assert exact.index.tolist() == floats.index.tolist()
    assert exact.dtype == "decimal"
    assert exact.astype("float64").dropna().tolist() == floats.dropna().tolist()


def test_the_largest_of_frames_and_groups(frame: pd.DataFrame) -> None:
    assert frame.nlargest(2, "x")["n"].tolist() == [0, 5]
    assert frame.nsmallest(2, ["x", "n"])["n"].tolist() == [2, 4]
    assert values(frame.groupby("k")["x"].nlargest(1)) == [D("1442725.09"), 3]
    assert frame[["x"]].idxmax().tolist() == [0]
    assert frame[["x", "n"]].idxmin().tolist() == [2, 0]
    with pytest.raises(ValueError, match="empty sequence" if PANDAS < (3, 0) else "all NA"):
        column(None, None).to_frame().idxmax()


def test_merge_keys() -> None:
    left = pd.DataFrame({"x": column("1.1", "2", "3", None), "a": range(4)})
    right = pd.DataFrame({"x": column("1.10", "3", "5", None), "b": range(4)})
    assert left.merge(right, on="x")["b"].tolist() == [0, 1, 3]
    outer = left.merge(right, on="x", how="outer")
    assert (outer["x"].dtype, values(outer["x"])) == ("decimal", [D("1.1"), 2, 3, 5, None])
    for whole in (pd.Series([3, 2]), pd.Series([3, 2], dtype="Int64"), pd.Series([D(3), D(2)])):
        other = pd.DataFrame({"x": whole, "b": [0, 1]})
        assert left.merge(other, on="x")["b"].tolist() == [1, 0]
        assert other.merge(left, on="x")["a"].tolist() == [2, 1]
    nothing = left[:0].astype({"a": "string"}).merge(right[:0], on="x", how="outer")
    assert nothing.dtypes.astype(str).tolist() == ["decimal", "string", "int64"]


@pytest.mark.parametrize("dtype", ["int64", "Int64", "uint64", "UInt64", "int64[pyarrow]"])
@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_merge_on_integers_is_exact(dtype: Any, how: Any) -> None:
    left = pd.DataFrame({"x": column("1", "5"), "a": [0, 1]})
    right = pd.DataFrame({"x": pd.Series([2**53 + 1, 5], dtype=dtype), "b": [0, 1]})
    keys = {"inner": [5], "left": [1, 5], "right": [2**53 + 1, 5], "outer": [1, 5, 2**53 + 1]}
    merged = left.merge(right, on="x", how=how)
    assert (merged["x"].dtype, merged["x"].tolist()) == ("decimal", keys[how])
    other_side = {"left": "right", "right": "left"}.get(how, how)
    again = right.merge(left, on="x", how=other_side)["x"].tolist()
    assert again == keys[how]
    assert not any(isinstance(key, float) for key in again)
    apart = left.merge(right.rename(columns={"x": "y"}), left_on="x", right_on="y")
    assert (apart["x"].dtype, apart["y"].dtype) == ("decimal", dtype)


def test_merge_on_integers_some_missing_or_beside_other_keys() -> None:
    left = pd.DataFrame({"x": column("1", "5", None), "k": list("aab")})
    right = pd.DataFrame({"x": pd.array([2**53 + 1, 5, None], "Int64"), "k": list("aab"), "b": 1})
    merged = left.merge(right, on=["x", "k"], how="outer")
    assert values(merged["x"]) == [1, 5, 2**53 + 1, None]
    assert merged["k"].tolist() == list("aaab")


def test_ohlc(frame: pd.DataFrame) -> None:
    bars = frame.groupby("k")["x"].ohlc()
    assert bars.columns.tolist() == ["open", "high", "low", "close"]
    assert bars.loc["a"].tolist() == [D("1442725.09"), D("1442725.09"), D("0.0000001"), D("1E-7")]
    assert bars.dtypes.eq("decimal").all()
    times = pd.date_range("2026-10-01", periods=6, freq="12h")
    daily = frame.set_index(times)["x"].resample("D").ohlc()
    assert daily.iloc[0].tolist() == [D("1442725.09"), D("1442725.09"), D("0.15"), D("0.15")]
    assert frame.groupby("k")["n"].ohlc().loc["b"].tolist() == [2, 5, 2, 5]


def test_numpy_functions_are_exact_or_refused(frame: pd.DataFrame) -> None:
    x = frame["x"]
    assert values(np.sign(x)) == [1, 1, -1, None, 1, 1]
    assert values(np.floor(x)) == [1442725, 0, -2, None, 0, 3]
    assert values(np.ceil(x)) == [1442726, 1, -1, None, 1, 3]
    assert values(np.trunc(x)) == [1442725, 0, -1, None, 0, 3]
    assert values(np.rint(x)) == [1442725, 0, -2, None, 0, 3]
    assert values(np.square(x))[4] == D("0.00000000000001")
    assert values(np.reciprocal(x))[:2] == [D("0.000000693132743675"), D("6.666666666666666667")]
    assert values(np.isfinite(x)) == [True, True, True, None, True, True]
    assert values(np.maximum(x, 0))[1:4] == [D("0.15"), 0, None]
    assert values(np.minimum(D("0.1"), x.array))[1:4] == [D("0.1"), D("-1.5"), None]
    assert values(np.fmin(x, column("1", None, None, "4", None, "6"))) == [
        1, D("0.15"), D("-1.5"), 4, D("0.0000001"), 3]  # fmt: skip
    assert [np.sum(x), np.max(x), np.abs(x).dtype] == [x.sum(), x.max(), "decimal"]
    for refused in (np.sqrt, np.exp, np.log, np.add.accumulate):
        with pytest.raises(TypeError, match=r"astype\('float64'\)"):
            refused(x.array)
    with pytest.raises(TypeError, match="from_float"):
        np.maximum(x, 0.5)


def test_dot_misses_what_is_missing() -> None:
    assert column("1", None).dot(column("1", "2")) is pd.NA
    assert repr(column("1.50").dot(column("2.50"))) == "Decimal('3.75')"


def test_a_sum_takes_no_finer_scalar() -> None:
    third = D("0." + "3" * 28)
    for calculate in (lambda: column("1") + third, lambda: column("1") % third):
        with pytest.raises(ValueError, match="more than 18 decimals"):
            calculate()
    for calculate in (lambda: third / column("0"), lambda: column("0") ** -1):
        with pytest.raises(ZeroDivisionError):
            calculate()


def test_other_types(frame: pd.DataFrame) -> None:
    whole = column("1", "-2", None)
    assert whole.dropna().astype("int64").tolist() == [1, -2]
    assert whole.astype("Int64").tolist() == [1, -2, pd.NA]
    assert whole.astype(pd.ArrowDtype(pa.decimal128(5, 2))).tolist()[:2] == [1, -2]
    assert whole.astype("float64").isna().tolist() == [False, False, True]
    with pytest.raises(ValueError, match="round them first"):
        frame["x"].dropna().astype("int64")
    with pytest.raises(ValueError, match="missing"):
        whole.astype("int64")
    for kind in (pa.decimal128(38, 25), pa.decimal128(5, 2), pa.decimal256(76, 70)):
        with pytest.raises(OverflowError, match="digits before the point"):
            column("100000000000001").astype(pd.ArrowDtype(kind))
    for kind in (pa.decimal128(20, 1), pa.int64()):
        with pytest.raises(pa.ArrowInvalid):
            column("0.25").astype(pd.ArrowDtype(kind))
    with pytest.raises(OverflowError, match="int8"):
        column("128").astype("int8")
    assert column("-128", "127").astype("int8").tolist() == [-128, 127]


@pytest.mark.parametrize("kind", ["str", "object", "category", "list"])
@pytest.mark.parametrize("op", [operator.eq, operator.ne, operator.lt, operator.ge])
def test_a_column_of_texts_is_compared_as_each_of_them(kind: str, op: Any) -> None:
    amounts, texts = pd.Series(["1.10", "2", None], dtype="decimal"), ["1.1", "3", "5"]
    other: Any = texts if kind == "list" else pd.Series(texts).astype(kind)
    each = [op(amounts.iloc[n : n + 1], text).iloc[0] for n, text in enumerate(texts)]
    found = op(amounts, other)
    assert found.iloc[:2].tolist() == each[:2]
    assert found.isna().tolist() == [False, False, True]


def test_a_text_that_is_no_amount_is_no_equal_and_has_no_order() -> None:
    amounts = pd.Series(["1.10", "2"], dtype="decimal")
    assert (amounts == pd.Series(["1.1", "none"])).tolist() == [True, False]
    assert (amounts != pd.Series(["1.1", "none"])).tolist() == [False, True]
    with pytest.raises(TypeError, match="has no order with str 'none'"):
        amounts < pd.Series(["1.1", "none"])  # noqa: B015
