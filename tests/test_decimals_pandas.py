"""Decimal columns in everyday pandas: making, memory, files, looks, and what must be refused."""

from __future__ import annotations

import copy
import io
import json
import pickle
from decimal import Decimal
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fundlab import decimals
from fundlab.decimals import DecimalArray, DecimalDtype, read_parquet, rolling, types_mapper

mpl.use("Agg")

D = Decimal
LARGEST = "99999999999999999999.999999999999999999"


def column(*values: Any, name: str = "x") -> pd.Series:
    return pd.Series(values, dtype="decimal", name=name)


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "k": list("aabbab"),
            "x": column("1442725.09", "0.15", "-1.5", None, "0.0000001", "3"),
            "n": range(6),
        }
    )


def values(series: Any) -> list[Any]:
    return [None if value is pd.NA else value for value in series.tolist()]


# ---- making


@pytest.mark.parametrize(
    "source",
    [
        ["1.10", None],
        [D("1.1"), pd.NA],
        np.array(["1.1", None], dtype=object),
        pd.Series(["1.1", None], dtype="str"),
        pd.Series(["1.1", None], dtype="string[pyarrow]"),
        pd.Series(["1.1", None], dtype="category"),
        pa.array(["1.1", None]),
        pa.array([D("1.10"), None], pa.decimal128(7, 2)),
        pa.chunked_array([pa.array([D("1.10")], pa.decimal128(7, 2)),
                          pa.array([None], pa.decimal128(7, 2))]),
        pd.Series([D("1.10"), None], dtype=pd.ArrowDtype(pa.decimal128(7, 2))),
    ],
    ids=lambda source: type(source).__name__,
)  # fmt: skip
def test_made_from(source: Any) -> None:
    assert values(DecimalArray(source)) == [D("1.1"), None]
    if not isinstance(source, pa.Array | pa.ChunkedArray):
        assert values(pd.array(source, dtype="decimal")) == [D("1.1"), None]
        assert values(pd.Series(source).astype("decimal")) == [D("1.1"), None]


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64", "Int32", "UInt64", "int64[pyarrow]"])
def test_made_from_integers(dtype: str) -> None:
    info = np.iinfo(dtype.lower().removesuffix("[pyarrow]"))
    source = pd.Series([info.min, 0, info.max], dtype=dtype)
    assert source.astype("decimal").tolist() == [D(info.min), D(0), D(info.max)]


def test_made_from_a_mixed_list() -> None:
    mixed = [D("1.5"), 2, "0.25", None, np.int64(-3), float("nan"), D("1E+3"), D("NaN")]
    assert values(column(*mixed)) == [D("1.5"), 2, D("0.25"), None, -3, None, 1000, None]


@pytest.mark.parametrize(
    "text",
    ["", ".", "+", "1.", "1e5", "1E-7", " 1", "1 ", "1\n", "1,5", "--1", "1_0", "nan", "٣", "0x1",
     "0" * 21, "0." + "0" * 19, "1" * 65, "0.1234567890123456789"],
)  # fmt: skip
def test_text_that_is_no_amount_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="at position 1") as caught:
        pd.array(["1.5", text], dtype="decimal")
    assert repr(text) in str(caught.value) or len(text) > 64


@pytest.mark.parametrize("text", ["0", "+1", "-.25", ".25", "007", "-0", LARGEST, "-" + LARGEST])
def test_text_that_is_an_amount(text: str) -> None:
    assert pd.array([text], dtype="decimal")[0] == D(text)


@pytest.mark.parametrize("value", [10**20, D(10) ** 20, "1" + "0" * 20, -(10**30), D("1E+30")])
def test_what_does_not_fit_overflows(value: Any) -> None:
    with pytest.raises(OverflowError):
        DecimalArray([value])


def test_a_decimal_is_never_rounded_on_entry() -> None:
    with pytest.raises(ValueError, match="more than 18 decimals"):
        DecimalArray([D("0.1234567890123456789")])
    assert DecimalArray([D("0.5" + "0" * 40)])[0] == D("0.5")


@pytest.mark.parametrize(
    "source",
    [[1.5], pd.Series([1.5]), pd.array([1.5, None], dtype="Float64"), pa.array([1.5]), [D(1), 1.5]],
)
def test_floats_enter_by_name_only(source: Any) -> None:
    with pytest.raises(TypeError, match=r"DecimalArray\.from_float"):
        DecimalArray(source)


@pytest.mark.parametrize("value", [True, object(), pd.Timestamp("2026-01-01"), [1], b"1"])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        DecimalArray([D(1), value])


def test_from_float_says_how_it_rounds() -> None:
    made = DecimalArray.from_float([0.1, 2.675, 0.125, -0.375, None], decimals=2)
    assert values(made) == [D("0.1"), D("2.67"), D("0.12"), D("-0.38"), None]
    assert DecimalArray.from_float([0.1])[0] == D("0.100000000000000006")
    with pytest.raises(ValueError, match="from 0 to 18"):
        DecimalArray.from_float([0.1], decimals=19)
    with pytest.raises(OverflowError):
        DecimalArray.from_float([float("inf")])


# ---- refusing


@pytest.mark.parametrize(
    "other", [1.5, np.float64(1.5), pd.Series([1.5]), pd.Series([1.5], dtype="Float64")]
)
def test_floats_do_not_mix(other: Any) -> None:
    for calculate in (lambda: column("1") + other, lambda: other * column("1")):
        with pytest.raises(TypeError, match="from_float"):
            calculate()
    assert values(column("1") < other) == [True]


@pytest.mark.parametrize("other", ["1", True, pd.Timestamp("2026-01-01"), pd.Series(["1"])])
def test_what_is_no_number_does_not_mix(other: Any) -> None:
    with pytest.raises(TypeError):
        column("1") + other


def test_overflow_is_an_error_everywhere() -> None:
    big = column(LARGEST, LARGEST)
    one = pd.Series([0, 0])
    for calculate in [
        lambda: big + big, lambda: big - -big, lambda: big * 2, lambda: big / D("0.5"),
        lambda: big // D("0.5"), lambda: big**2, big.sum, big.cumsum, big.prod,
        lambda: big.groupby(one).sum(), lambda: big.groupby(one).cumsum(),
        lambda: big.groupby(one).transform("sum"), lambda: big.groupby(one).prod(),
        lambda: rolling(big, 2).sum(), lambda: big.round(-1), lambda: (-big).diff(1) - big.sum(),
        lambda: big.to_frame().sum(), lambda: pd.concat([big, big], axis=1).sum(axis=1),
    ]:  # fmt: skip
        with pytest.raises(OverflowError):
            calculate()
    assert big.mean() == D(LARGEST)
    assert big.groupby(one).mean().tolist() == [D(LARGEST)]


def test_division_by_zero_raises() -> None:
    for calculate in (lambda: column("1") / 0, lambda: 1 // column("0"), lambda: column("0") ** -1):
        with pytest.raises(ZeroDivisionError):
            calculate()
    assert values(column(None, "1") / column("0", "2")) == [None, D("0.5")]


def test_a_power_is_a_whole_number() -> None:
    with pytest.raises(ValueError, match="whole numbers"):
        column("4") ** D("0.5")
    assert values(column("0", None, "2") ** 0) == [1, 1, 1]
    assert values(2 ** column("3", "-1", None)) == [8, D("0.5"), None]


# ---- memory


def test_arrow_shares_memory_both_ways() -> None:
    source = pa.array([D("1.5"), D("2.5"), D("3.5")], pa.decimal128(38, 18))
    array = DecimalArray.from_arrow(source)
    back = pa.array(array)
    assert back.buffers()[1].address == source.buffers()[1].address
    part = pa.array(DecimalArray.from_arrow(source.slice(1))[1:])
    assert part.to_pylist() == [D("3.5")]
    assert part.buffers()[1].address == source.buffers()[1].address + 32


def test_arrow_is_never_written_to() -> None:
    source = pa.array([D("1.5"), None, D("3.5")], pa.decimal128(38, 18))
    array = DecimalArray.from_arrow(source)
    view = array[1:]
    view[0] = "9"
    assert values(array) == [D("1.5"), 9, D("3.5")]
    assert source.to_pylist() == [D("1.5"), None, D("3.5")]

    owned = column("1", "2").array.copy()
    before, view = pa.array(owned), owned[:]
    view[0] = 7
    assert before.to_pylist() == [1, 2]
    assert values(owned) == [7, 2]
    after = pa.array(owned)
    owned[1] = 8
    assert after.to_pylist() == [7, 2]


def test_views_of_views() -> None:
    array = column("1", "2", "3", "4").array
    assert values(array[::-1][1:3]) == [3, 2]
    assert values(array[1:][::-2]) == [4, 2]
    assert values(array[0:0][::-1]) == []
    assert pa.array(array[::2]).to_pylist() == [1, 3]


def test_what_is_below_a_null_does_not_count() -> None:
    words = np.array([[5, 0], [2**64 - 1, 2**63 - 1]], np.uint64)
    buffers = [pa.py_buffer(b"\x01"), pa.py_buffer(words)]
    source = pa.Array.from_buffers(pa.decimal128(38, 18), 2, buffers)
    array = pd.Series(DecimalArray.from_arrow(source))
    assert array.sum() == D("5E-18")
    assert values(array + array) == [D("1E-17"), None]


def test_arrow_values_beyond_38_digits_are_refused() -> None:
    words = np.array([[0, 2**63 - 1]], np.uint64)
    source = pa.Array.from_buffers(pa.decimal128(38, 18), 1, [None, pa.py_buffer(words)])
    with pytest.raises(OverflowError):
        DecimalArray.from_arrow(source)
    for exponent in range(20, 38):  # some of which Arrow's own cast turns into other numbers
        with pytest.raises(OverflowError):
            DecimalArray.from_arrow(pa.array([D(10) ** exponent], pa.decimal128(38, 0)))
    for exponent in range(20, 76):
        with pytest.raises(OverflowError):
            DecimalArray.from_arrow(pa.array([D(10) ** exponent], pa.decimal256(76, 0)))
        with pytest.raises(OverflowError):
            DecimalArray([D(7) * D(10) ** exponent])
    with pytest.raises(ValueError, match="decimals"):
        DecimalArray.from_arrow(pa.array([D("1E-20")], pa.decimal128(38, 20)))


def test_a_value_takes_seventeen_bytes() -> None:
    assert column(*["1.5", None] * 500).memory_usage(index=False) == 17_000


def test_copies_and_pickles(frame: pd.DataFrame) -> None:
    for clone in (copy.deepcopy(frame), pickle.loads(pickle.dumps(frame)), frame.copy()):
        pd.testing.assert_frame_equal(clone, frame)
    part = pickle.loads(pickle.dumps(frame["x"].iloc[2:3]))
    assert part.tolist() == [D("-1.5")]
    tiny = pickle.loads(pickle.dumps(frame["x"].iloc[4]))
    assert (str(tiny), tiny) == ("0.0000001", D("1E-7"))


def test_copy_on_write(frame: pd.DataFrame) -> None:
    other = frame[["x"]]
    other.loc[0, "x"] = 5
    again = pd.Series(frame["x"].array)
    again.iloc[1] = 6
    wrapped = DecimalArray(frame["x"])
    wrapped[2] = 7
    assert frame["x"].tolist()[:3] == [D("1442725.09"), D("0.15"), D("-1.5")]


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


def test_describe_is_in_floats(frame: pd.DataFrame) -> None:
    # pandas has no hook there: it turns exact results into Float64
    summary = frame["x"].describe()
    assert summary["count"] == 5
    assert summary["max"] == 1442725.09
    assert frame["x"].quantile([0.25, 0.5]).tolist() == [D("0.0000001"), D("0.15")]


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


# ---- files


def test_parquet_holds_plain_decimals(frame: pd.DataFrame, tmp_path: Any) -> None:
    path = tmp_path / "x.parquet"
    frame.to_parquet(path)
    assert pq.read_schema(path).field("x").type == pa.decimal128(38, 18)
    assert pq.ParquetFile(path).read().column("x").to_pylist()[0] == D("1442725.09")
    pd.testing.assert_frame_equal(read_parquet(path), frame)
    assert read_parquet(str(path), columns=["x"]).columns.tolist() == ["x"]
    table = pa.Table.from_pandas(frame)
    pd.testing.assert_frame_equal(table.to_pandas(types_mapper=types_mapper), frame)


def test_types_mapper_takes_what_fits() -> None:
    fitting = [
        pa.decimal128(38, 18),
        pa.decimal128(20, 0),
        pa.decimal256(38, 18),
        pa.decimal128(5, 2),
    ]
    assert [types_mapper(kind) for kind in fitting] == [DecimalDtype()] * 4
    others = [
        pa.decimal128(38, 2),
        pa.decimal128(38, 20),
        pa.decimal256(76, 18),
        pa.int64(),
        pa.string(),
    ]
    assert [types_mapper(kind) for kind in others] == [None] * 5


def test_csv_json_and_excel(frame: pd.DataFrame, tmp_path: Any) -> None:
    texts = ["1442725.09", "0.15", "-1.5", "", "0.0000001", "3"]
    assert frame[["x"]].to_csv(index=False).splitlines() == ["x", *(t or '""' for t in texts)]
    back = pd.read_csv(io.StringIO(frame.to_csv(index=False)), dtype={"x": "decimal"})
    pd.testing.assert_series_equal(back["x"], frame["x"])
    rows = json.loads(frame.to_json(orient="records"))
    assert [row["x"] or "" for row in rows] == texts
    frame.to_excel(tmp_path / "x.xlsx", index=False)
    assert pd.read_excel(tmp_path / "x.xlsx")["x"][0] == 1442725.09


# ---- looks

SHOWN = """\
            x
0  1442725.09
1        0.15
2        -1.5
3        <NA>
4   0.0000001
5           3"""


def test_looks(frame: pd.DataFrame) -> None:
    assert repr(frame[["x"]]) == SHOWN
    assert frame[["x"]].to_string() == SHOWN
    assert repr(frame["x"]).splitlines()[:5] == [
        "0    1442725.09", "1          0.15", "2          -1.5", "3          <NA>",
        "4     0.0000001"]  # fmt: skip
    assert "[1442725.09, 0.15, -1.5, <NA>, 0.0000001, 3]" in repr(frame["x"].array)
    html = frame.to_html()
    assert "<td>0.0000001</td>" in html
    assert "<td>1442725.09</td>" in html
    assert repr(frame["x"].sum()) == "Decimal('1442726.7400001')"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("10", "10"), ("100.00", "100"), ("-0.50", "-0.5"), ("-0", "0"), ("0.000000000000000001",) * 2,
     (LARGEST, LARGEST), ("0.00001", "0.00001")],
)  # fmt: skip
def test_a_value_looks_like_money(text: str, shown: str) -> None:
    array = pd.array([text], dtype="decimal")
    value = array[0]
    assert isinstance(value, Decimal)
    assert [str(value), f"{value}", repr(value)] == [shown, shown, f"Decimal('{shown}')"]
    assert array.astype(str)[0] == shown
    assert hash(value) == hash(D(text))
    assert f"{value:.3f}" == f"{D(shown):.3f}"


def test_plots_leave_gaps(frame: pd.DataFrame) -> None:
    import matplotlib.pyplot as plt

    drawn = frame["x"].plot().lines[0].get_ydata()
    assert np.ma.filled(drawn.astype(float), np.nan).tolist()[:3] == [1442725.09, 0.15, -1.5]
    frame.plot.bar(x="k", y="x")
    plt.close("all")


# ---- the helper


def test_rolling_names_what_it_takes() -> None:
    with pytest.raises(ValueError, match="window=0"):
        rolling(column("1"), 0)
    with pytest.raises(TypeError, match="DatetimeIndex"):
        rolling(column("1"), "7D")
    with pytest.raises(TypeError, match="float64"):
        rolling(pd.Series([1.5]), 2)
    backwards = column("1", "2").set_axis(pd.to_datetime(["2026-10-02", "2026-10-01"]))
    with pytest.raises(ValueError, match="sorted"):
        rolling(backwards, "7D")


def test_the_public_door() -> None:
    names = "DecimalArray DecimalDtype Rolling read_parquet rolling types_mapper"
    assert decimals.__all__ == names.split()
    assert pd.api.types.pandas_dtype("decimal") == DecimalDtype()
