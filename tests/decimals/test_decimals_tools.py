"""Decimal columns in the tools that analysts reach for next."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from decimal import ROUND_HALF_EVEN, ROUND_UP, Decimal, localcontext
from typing import Any

import duckdb
import matplotlib.pyplot as plt
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from extra_packages import needs

from fundlab.decimals import DecimalDtype, rolling, text
from fundlab.decimals.groups import PANDAS

D = Decimal
LARGEST = "99999999999999999999.999999999999999999"


@pytest.fixture
def transfers() -> pd.DataFrame:
    amounts = [LARGEST, "-0.15", None, "0.0000001"]
    return pd.DataFrame(
        {"asset": ["USD", "EUR", None, "EUR"], "amount": pd.array(amounts, dtype="decimal"),
         "at": pd.date_range("2026-10-01", periods=4, tz="UTC"), "n": range(4)}
    )  # fmt: skip


def test_duckdb_finds_the_frame_by_its_name(transfers: pd.DataFrame) -> None:
    exact = "select asset, sum(amount), typeof(max(amount)) from transfers group by 1 order by 1"
    rows = [("EUR", D("-0.1499999"), "DECIMAL(38,18)"), ("USD", D(LARGEST), "DECIMAL(38,18)"),
            (None, None, "DECIMAL(38,18)")]  # fmt: skip
    assert duckdb.sql(exact).fetchall() == rows
    with duckdb.connect() as connection:
        assert connection.execute(exact).fetchall() == rows
        connection.register("registered", transfers)
        connection.execute("create table kept as from registered")
        assert connection.table("kept").types[1] == "DECIMAL(38,18)"
        assert connection.sql("from kept").to_arrow_table()["amount"].to_pylist() == [
            D(LARGEST), D("-0.15"), None, D("0.0000001")]  # fmt: skip
    table = duckdb.sql("select amount + 1 as amount from transfers where n = 1").to_arrow_table()
    assert DecimalDtype().__from_arrow__(table["amount"]).tolist() == [D("0.85")]
    part = transfers[transfers["n"] > 0].iloc[::-1]  # neither contiguous nor from the first row
    assert duckdb.sql("select amount from part where amount < 1").fetchall() == [
        (D("0.0000001"),), (D("-0.15"),)]  # fmt: skip
    assert part["amount"].tolist() == [D("0.0000001"), pd.NA, D("-0.15")]


def test_tools_that_read_arrow(transfers: pd.DataFrame) -> None:
    assert pa.table(transfers).schema.field("amount").type == pa.decimal128(38, 18)
    assert pl.from_pandas(transfers).schema["amount"] == pl.Decimal(38, 18)
    assert pl.DataFrame(transfers)["amount"].to_list() == [
        D(LARGEST), D("-0.15"), None, D("0.0000001")]  # fmt: skip
    wrapped: Any = nw.from_native(transfers, eager_only=True)
    assert wrapped["amount"].dtype == nw.Decimal
    known = wrapped.filter(~nw.col("asset").is_null())
    totals = known.group_by("asset").agg(nw.col("amount").sum()).sort("asset").to_native()
    assert (totals["amount"].dtype, totals["amount"].tolist()) == (
        "decimal", [D("-0.1499999"), D(LARGEST)])  # fmt: skip


def test_sqlite_keeps_every_digit_as_text(transfers: pd.DataFrame) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        transfers[["asset", "amount"]].to_sql("kept", connection, index=False)
        rows = connection.execute("select amount, typeof(amount) from kept").fetchall()
        assert rows == [(LARGEST, "text"), ("-0.15", "text"), (None, "null"), ("0.0000001", "text")]
        back = pd.read_sql("select * from kept", connection).astype({"amount": "decimal"})
    pd.testing.assert_series_equal(back["amount"], transfers["amount"])


def test_the_type_is_its_own(transfers: pd.DataFrame) -> None:
    amount = transfers["amount"]
    arrow = amount.astype(pd.ArrowDtype(pa.decimal128(38, 18)))
    assert amount.dtype != arrow.dtype
    assert arrow.dtype != amount.dtype
    for together in ([amount, arrow], [arrow, amount], [arrow[:0], amount]):
        assert pd.concat(together).dtype == "decimal"
    assert transfers.convert_dtypes()["amount"].dtype == "decimal"
    assert transfers.convert_dtypes(dtype_backend="pyarrow")["amount"].dtype == "decimal"
    assert pd.to_numeric(amount).dtype == "decimal"
    assert pd.to_numeric(arrow.dropna().astype(str)).dtype == "float64"
    with pytest.raises(TypeError, match="downcast='float'"):
        pd.to_numeric(amount, downcast="float")
    both = transfers[["amount"]].assign(more=amount * 0)
    assert both.T.dtypes.eq("decimal").all()
    assert both.apply(lambda row: row.sum(), axis=1).tolist()[:2] == [D(LARGEST), D("-0.15")]
    assert transfers.select_dtypes("number").columns.tolist() == ["amount", "n"]
    assert transfers.select_dtypes("float").columns.tolist() == []


# ---- what was ignored in silence, or raised


@pytest.fixture
def column() -> pd.Series:
    return pd.Series(["1234.5", "2.345", None, "0.0000001"], dtype="decimal", name="x")


def test_display_options_are_heeded(column: pd.Series) -> None:
    own = pd.option_context("display.float_format", "{:,.2f}".format)
    with own, localcontext(rounding=ROUND_HALF_EVEN):  # it rounds as who wrote it says
        assert [line.split()[-1] for line in str(column).splitlines()[:4]] == [
            "1,234.50", "2.34", "<NA>", "0.00"]  # fmt: skip
        assert "1,234.50" in column.to_frame().to_html()
    with pd.option_context("display.precision", 1):
        assert [line.split()[-1] for line in str(column).splitlines()[:4]] == [
            "1234.5", "2.3", "<NA>", "0.0"]  # fmt: skip
    assert str(column).split()[1::2][:4] == ["1234.5", "2.345", "<NA>", "0.0000001"]


def test_csv_files_are_written_as_asked(column: pd.Series) -> None:
    frame = column.to_frame()
    assert frame.to_csv(index=False, sep=";", decimal=",") == (
        "x\n1234,5\n2,345\n\"\"\n0,0000001\n")  # fmt: skip
    assert frame.to_csv(index=False, float_format="%.2f", na_rep="-") == (
        "x\n1234.50\n2.34\n-\n0.00\n")  # fmt: skip
    assert "1,234.5" in frame.to_csv(float_format=lambda value: f"{value:,.1f}")
    with localcontext(prec=3, rounding=ROUND_UP):
        assert frame.to_csv(index=False, float_format="%.2f").split() == [
            "x", "1234.50", "2.34", '""', "0.00"]  # fmt: skip
        assert "<td>2.34</td>" in frame.to_html(float_format="%.2f")
        assert ">2.34</td>" in frame.style.format(precision=2).to_html()
    with pytest.raises(ValueError, match=r"float_format='%e': decimal columns take '%\.2f'"):
        frame.to_csv(float_format="%e")
    by_amount = pd.DataFrame({"n": [1]}, index=pd.Index(column[1:2]))
    assert by_amount.to_csv(sep=";", decimal=",") == "x;n\n2,345;1\n"
    by_both = by_amount.assign(k="a").set_index("k", append=True)
    assert by_both.to_csv(float_format="%.1f") == "x,k,n\n2.3,a,1\n"
    floats = pd.DataFrame({"f": [1.5]})
    assert floats.to_csv(index=False, decimal=",", float_format="%.2f") == 'f\n"1,50"\n'


def test_styles_show_as_many_decimals_as_asked(column: pd.Series) -> None:
    def cells(styler: Any) -> list[str]:
        return [str(row[1]["display_value"]) for row in styler._translate(False, False)["body"]]

    style = column.to_frame().style
    assert cells(style) == ["1234.5", "2.345", "<NA>", "0.0000001"]
    assert cells(style.format(precision=2)) == ["1234.50", "2.34", "<NA>", "0.00"]
    european = style.format(precision=1, thousands=".", decimal=",", na_rep="-")
    assert cells(european) == ["1.234,5", "2,3", "-", "0,0"]
    with localcontext(rounding=ROUND_HALF_EVEN):  # a format of one's own
        own = cells(style.format("{:.3f}", na_rep="?"))
    assert own == ["1234.500", "2.345", "?", "0.000"]


def test_a_missing_bound_does_not_bind(column: pd.Series) -> None:
    bounds = pd.Series([None, "3", "3", "1"], dtype="decimal")
    assert column.clip(lower=bounds).tolist() == [D("1234.5"), 3, pd.NA, 1]
    assert column.clip(upper=[None, 2, 2, 2]).tolist() == [D("1234.5"), 2, pd.NA, D("1E-7")]
    floats = pd.Series([1.0, 5.0])
    assert floats.clip(upper=[None, 2.0]).tolist() == [1.0, 2.0]
    frame = pd.DataFrame({"x": column, "n": [1.5, 2.5, 3.5, 4.5]})
    by_row = frame.clip(lower=pd.Series([None, 3, 3, 3], dtype="decimal"), axis=0)
    assert by_row["x"].tolist() == [D("1234.5"), 3, pd.NA, 3]
    by_name = frame.clip(upper=pd.Series({"n": 2, "x": None}), axis=1)
    assert by_name["x"].equals(column)
    assert by_name["n"].tolist() == [1.5, 2, 2, 2]
    assert frame[["x"]].clip(lower=frame[["x"]] + 1)["x"].equals(column + 1)
    frame.clip(upper=pd.Series({"x": D(2), "n": D(2)}), axis=1, inplace=True)
    assert frame["x"].tolist() == [2, 2, pd.NA, D("1E-7")]


def test_text_of_frames_is_shown_as_asked(column: pd.Series) -> None:
    frame = column.to_frame()
    assert frame.to_string(index=False, float_format="%.2f", decimal=",").split() == [
        "x", "1234,50", "2,34", "<NA>", "0,00"]  # fmt: skip
    assert column.to_string(float_format="{:,.1f}".format).split()[1] == "1,234.5"
    assert "<td>2.3</td>" in frame.to_html(float_format="%.1f")
    assert pd.DataFrame({"f": [1.25]}).to_string(float_format="%.1f", header=False) == "0 1.2"


@pytest.mark.thorough
def test_latex_is_shown_as_asked_before_any_style(column: pd.Series) -> None:
    frame = column.to_frame().assign(f=[0.125, 1, 2, 3])

    def cells(**asked: Any) -> list[list[str]]:
        rows = frame.to_latex(index=False, header=False, **asked).splitlines()
        return [line[:-3].split(" & ") for line in rows if " & " in line]

    assert [x for x, _ in cells(float_format="%.2f")] == ["1234.50", "2.34", "NaN", "0.00"]
    assert cells(float_format="%.2f", decimal=",")[0] == ["1234,50", "0,12"]
    assert cells(float_format="{:,.1f}".format, formatters={"x": str})[0] == ["1234.5", "0.1"]
    script = """
import fundlab, pandas
print(pandas.Series(["1234.5"], dtype="decimal").to_latex(decimal=","))
"""
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "0 & 1234,5 " in shown.stdout, shown.stderr


def test_bins_are_exact(column: pd.Series) -> None:
    least = D("1E-18")
    more = D("2.000000000000000001")
    values = pd.Series([0, least, 2, more, 5, None], dtype="decimal", name="x")
    right = pd.cut(values, [0, D(2), 5])
    assert right.cat.codes.tolist() == [-1, 0, 0, 1, 1, -1]
    assert (right.name, str(right.cat.categories[0])) == ("x", "(0, 2]")
    assert pd.cut(values, [D(0), D(2), D(5)], right=False).cat.codes.tolist() == [
        0,
        0,
        1,
        1,
        -1,
        -1,
    ]
    lowest = pd.cut(values, [0.0, 2.0, float("inf")], include_lowest=True)
    assert lowest.cat.codes.tolist() == [0, 0, 0, 1, 1, -1]
    halves = pd.cut(values, pd.array(["0.5", "2.5"], dtype="decimal"), labels=["some"])
    assert halves.cat.codes.tolist() == [-1, -1, 0, 0, -1, -1]
    found, edges = pd.cut(values, [0, D("2"), D("2"), 5], retbins=True, duplicates="drop",
                          labels=False)  # fmt: skip
    assert (found.dropna().tolist(), edges.tolist()) == ([0, 0, 1, 1], [0, 2, 5])
    for bins in ([0, 2, 2], [2, 0]):
        with pytest.raises(ValueError, match=r"unique|monoton"):
            pd.cut(values, bins)
    same = pd.cut(column.astype("float64"), [0, 2.5, 2000])
    pd.testing.assert_series_equal(pd.cut(column, [0, 2.5, 2000]), same)
    totals = values.groupby(pd.cut(values, [0, 2, 5]), observed=True).sum()
    assert totals.tolist() == [more, D("7.000000000000000001")]


def test_merging_to_the_last_amount() -> None:
    tiny = D("1E-18")
    steps = pd.DataFrame(
        {"limit": pd.array([0, 100, 100 + tiny], dtype="decimal"), "fee": [1, 2, 3]}
    )
    paid = pd.DataFrame({"limit": pd.array([5, 100, 100 + tiny, 10**19], dtype="decimal")})
    assert pd.merge_asof(paid, steps, on="limit")["fee"].tolist() == [1, 2, 3, 3]
    later = pd.merge_asof(paid, steps, on="limit", direction="forward", allow_exact_matches=False)
    assert later["fee"].tolist()[:2] == [2, 3]
    assert later["limit"].dtype == "decimal"
    for given in ({"tolerance": D(1)}, {"direction": "nearest"}):
        with pytest.raises(TypeError, match="is not supported for decimal keys: merge with"):
            pd.merge_asof(paid, steps, on="limit", **given)
    with pytest.raises(ValueError, match="right keys must be sorted"):
        pd.merge_asof(paid, steps[::-1], on="limit")
    with pytest.raises(ValueError, match="null values on left"):
        pd.merge_asof(paid.reindex([0, 9]), steps, on="limit")


def test_stacks_and_rows_stay_decimals(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame(
        {"a": pd.array([LARGEST, "-1", None], dtype="decimal"),
         "b": pd.array(["0", None, "-0.000000000000000001"], dtype="decimal")},
        index=pd.Index(["x", "y", "y"], name="k"),
    )  # fmt: skip
    objects = frame.astype(object)
    expected = [objects.iloc[row, place] for row in range(3) for place in range(2)]
    with monkeypatch.context() as patched:
        patched.setattr(text, "to_objects", None)  # on neither way an object is made
        stacked = frame.stack(future_stack=True)
        if PANDAS < (3, 1):  # which makes objects of rows, and decimals of these
            patched.undo()
        totals = frame.apply(lambda row: row.sum(), axis=1)
        second = frame.apply(lambda row: row["b"], axis=1)
    assert (stacked.dtype, stacked.tolist()) == ("decimal", expected)
    assert stacked.index.equals(objects.stack(future_stack=True).index)
    assert totals.tolist() == [D(LARGEST), -1, D("-1E-18")]
    assert second.tolist() == frame["b"].tolist()
    several = frame.set_axis(pd.MultiIndex.from_tuples([("p", "a"), ("q", "b")]), axis=1)
    assert several.stack(future_stack=True).dtypes.eq("decimal").all()
    assert frame[:0].stack(future_stack=True).dtype == "decimal"


def test_plots_that_compute(column: pd.Series) -> None:
    frame = pd.DataFrame({"x": column.dropna(), "y": column.dropna() * 2})
    floats = frame.astype("float64")
    for drawn in (frame, floats):
        plt.subplots()[1].pie(drawn["x"])
    exact_pie, rough_pie = (plt.figure(number).axes[0].patches for number in plt.get_fignums())
    assert [wedge.theta2 for wedge in exact_pie] == [wedge.theta2 for wedge in rough_pie]
    _, axes = plt.subplots()
    exact = axes.boxplot([frame["x"], frame["y"].array])["medians"]
    rough = axes.boxplot([floats["x"], floats["y"]])["medians"]
    assert [line.get_ydata().tolist() for line in exact] == [
        line.get_ydata().tolist() for line in rough]  # fmt: skip
    axes.violinplot(frame["x"])
    assert axes.imshow(frame).get_array().tolist() == floats.to_numpy().tolist()
    assert axes.pcolormesh(frame).get_array().tolist() == floats.to_numpy().tolist()
    assert "width: 10em" in frame.style.bar().to_html()
    plt.close("all")


@pytest.mark.thorough
def test_plots_of_seaborn_that_compute(column: pd.Series) -> None:
    sns = needs("seaborn")
    frame = pd.DataFrame({"x": column.dropna(), "y": column.dropna() * 2})
    _, axes = plt.subplots()
    assert sns.heatmap(frame, ax=axes).collections[-1].get_array().size == 6
    sns.regplot(data=frame, x="x", y="y", ax=axes, ci=None)
    sns.residplot(x=frame["x"], y=frame["y"], ax=axes)
    sns.lmplot(data=frame, x="x", y="y", ci=None)
    plt.close("all")


def test_windows_stay_in_their_group() -> None:
    frame = pd.DataFrame(
        {"k": ["b", "a", None, "b", "a", "b"],
         "x": pd.array(["1", "2", "9", None, "4", "8"], dtype="decimal")},
        index=pd.date_range("2026-10-01", periods=6),
    )  # fmt: skip
    groups = frame.groupby("k")["x"]
    floats = frame.astype({"x": "float64"}).groupby("k")["x"]
    for window, least in ((2, 1), (2, 2), (1, 1), ("3D", 1), ("9D", 2)):
        for how in ("sum", "mean"):
            exact = getattr(rolling(groups, window, min_periods=least), how)()
            rough = getattr(floats.rolling(window, min_periods=least), how)()
            assert exact.dtype == "decimal"
            pd.testing.assert_series_equal(exact.astype("float64"), rough)
    thirds = rolling(frame.groupby("k")["x"], "9D").mean()
    assert thirds["a"].tolist() == [2, 3]
    assert rolling(frame[:0].groupby("k")["x"], 2).sum().empty
    with pytest.raises(TypeError, match="series is of DataFrameGroupBy"):
        rolling(frame.groupby("k"), 2)  # type: ignore[arg-type]


def test_what_would_need_floats_says_what_to_call(column: pd.Series) -> None:
    with pytest.raises(TypeError, match=r"interpolate.*ffill\(\).*astype\('float64'\)"):
        column.interpolate()
    with pytest.raises(TypeError, match=r"0\.5 is a float.*Decimal\('0.5'\).*astype\('float64'\)"):
        column.iloc[0] * 0.5
