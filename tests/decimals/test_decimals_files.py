"""Decimal columns in files, on the screen and in plots, and the helpers."""

from __future__ import annotations

import io
import json
import pickle
from decimal import Decimal
from typing import Any

import duckdb
import matplotlib as mpl
import matplotlib.pyplot as plt
import narwhals
import numpy as np
import openpyxl
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_columns import LARGEST, D, column, values

from fundlab import decimals
from fundlab.decimals import DecimalDtype, read_parquet, rolling, types_mapper

mpl.use("Agg")

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


def test_parquet_keeps_the_index_beside_chosen_columns(frame: pd.DataFrame, tmp_path: Any) -> None:
    path = tmp_path / "x.parquet"
    stored = frame.set_index(pd.Index(list("uvwxyz"), name="id"))
    stored.to_parquet(path)
    pd.testing.assert_frame_equal(read_parquet(path, columns=["x"]), stored[["x"]])
    (tmp_path / "parts").mkdir()
    stored.to_parquet(tmp_path / "parts" / "0.parquet")
    pd.testing.assert_frame_equal(read_parquet(tmp_path / "parts", columns=["x"]), stored[["x"]])
    for place in (path, tmp_path / "parts"):
        with pytest.raises(ValueError, match="'amuont' is not in the file"):
            read_parquet(place, columns=["x", "amuont"])
    with pytest.raises(TypeError, match="list of names"):
        read_parquet(path, columns="x")  # type: ignore[arg-type]


def test_parquet_from_an_open_file(frame: pd.DataFrame, tmp_path: Any) -> None:
    memory = io.BytesIO()
    frame.to_parquet(memory)
    pd.testing.assert_frame_equal(read_parquet(memory), frame)
    sheet = tmp_path / "rows.csv"
    frame.to_csv(sheet)
    with pytest.raises(
        pa.ArrowInvalid, match=r"rows\.csv cannot be read as Parquet: .*pd\.read_csv"
    ):
        read_parquet(sheet)
    (tmp_path / "x").write_bytes(memory.getvalue())
    with (tmp_path / "x").open("rb") as file:
        pd.testing.assert_frame_equal(read_parquet(file, columns=["x"]), frame[["x"]])


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


def test_csv_and_json(frame: pd.DataFrame, tmp_path: Any) -> None:
    texts = ["1442725.09", "0.15", "-1.5", "", "0.0000001", "3"]
    assert frame[["x"]].to_csv(index=False).splitlines() == ["x", *(t or '""' for t in texts)]
    back = pd.read_csv(io.StringIO(frame.to_csv(index=False)), dtype={"x": "decimal"})
    pd.testing.assert_series_equal(back["x"], frame["x"])
    rows = json.loads(frame.to_json(orient="records"))
    assert [row["x"] or "" for row in rows] == texts


LONG = "12345678901234567890.123456789"


@pytest.mark.parametrize("engine", ["openpyxl", "xlsxwriter"])
def test_excel_holds_numbers_and_text_where_they_are_longer(engine: Any, tmp_path: Any) -> None:
    path = tmp_path / "x.xlsx"
    frame = pd.DataFrame({"n": range(4), "x": column("1442725.09", LONG, None, "-3")})
    frame.to_excel(path, index=False, engine=engine)
    cells = openpyxl.load_workbook(path).active["B"]
    assert [cell.value for cell in cells] == ["x", 1442725.09, LONG, None, -3]
    frame["x"].to_excel(path, index=False, engine=engine)
    assert openpyxl.load_workbook(path).active["A3"].value == LONG


@pytest.mark.parametrize("engine", ["openpyxl", "xlsxwriter"])
def test_excel_rounds_no_label_and_no_category(engine: Any, tmp_path: Any) -> None:
    path = tmp_path / "x.xlsx"
    keys = column(LONG, "0.5")

    def written(data: Any) -> set[Any]:
        data.to_excel(path, engine=engine)
        rows = openpyxl.load_workbook(path).active.iter_rows(values_only=True)
        return {cell for row in rows for cell in row}

    plain = pd.DataFrame({"n": [7, 8]})
    for data in (
        plain.set_index(pd.Index(keys)),
        plain.set_index(pd.MultiIndex.from_arrays([list("ab"), keys])),
        plain.T.set_axis(pd.Index(keys), axis=1),
        plain.set_index(pd.CategoricalIndex(keys)),
        plain.assign(x=keys.astype("category")),
        keys.astype("category"),
        keys.set_axis(pd.Index(keys)),
    ):
        before = data.copy()
        assert {LONG, 0.5} <= written(data)
        assert data.equals(before)
        assert data.index.dtype == before.index.dtype


def test_excel_keeps_the_names_of_the_columns(tmp_path: Any) -> None:
    labels = pd.MultiIndex.from_tuples([("a", "x"), ("a", "n")], names=["upper", "lower"])
    frame = pd.concat([column("1.5"), pd.Series([7])], axis=1).set_axis(labels, axis=1)
    frame.to_excel(tmp_path / "x.xlsx")
    rows = list(openpyxl.load_workbook(tmp_path / "x.xlsx").active.iter_rows(values_only=True))
    assert [row[0] for row in rows[:2]] == ["upper", "lower"]
    assert rows[-1] == (0, 1.5, 7)


def test_parquet_folders_and_arrow_types(frame: pd.DataFrame, tmp_path: Any) -> None:
    frame.to_parquet(tmp_path / "parts", partition_cols=["k"])
    parts = read_parquet(tmp_path / "parts")
    assert parts["x"].dtype == "decimal"
    assert parts["x"].sum() == frame["x"].sum()
    with pytest.raises(FileNotFoundError):
        read_parquet(tmp_path / "none.parquet")
    assert pa.array(frame["x"], type=pa.string()).to_pylist()[3:] == [None, "0.0000001", "3"]
    assert pa.array(frame["x"], type=pa.float64()).to_pylist()[:2] == [1442725.09, 0.15]
    assert frame["x"].astype("bool[pyarrow]").tolist() == [True, True, True, pd.NA, True, True]
    assert frame["x"].astype("boolean").tolist() == [True, True, True, pd.NA, True, True]


def test_other_engines_read_the_column(frame: pd.DataFrame) -> None:
    assert polars.from_pandas(frame)["x"].dtype == polars.Decimal(38, 18)
    assert narwhals.from_native(frame).schema["x"] == narwhals.Decimal
    summed = narwhals.from_native(frame).group_by("k").agg(narwhals.col("x").sum()).to_native()
    assert sorted(summed["x"].tolist()) == [D("1.5"), D("1442725.2400001")]
    table = pa.table(frame)
    rows = duckdb.from_arrow(table).aggregate("k, sum(x) as x", "k").order("k").fetchall()
    assert rows == [("a", D("1442725.2400001")), ("b", D("1.5"))]


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


def test_what_is_calculated_with_a_tiny_value_looks_like_money(frame: pd.DataFrame) -> None:
    tiny = frame["x"].abs().min()
    shown = {
        "0.0000001": [abs(tiny), (-tiny) * -1, +tiny, tiny + 0, 0 + tiny, tiny * 1, tiny / 1,
                      tiny**1, tiny - 0, tiny % 1, round(tiny, 7), sum([tiny]), tiny.copy_abs(),
                      tiny.normalize(), pickle.loads(pickle.dumps(tiny * 1))],
        "0.0000002": [tiny * 2, D(2) * tiny, tiny + tiny],
        "-0.0000001": [0 - tiny, -tiny],
    }  # fmt: skip
    for text, results in shown.items():
        for result in results:
            assert isinstance(result, Decimal)
            assert (str(result), result, hash(result)) == (text, D(text), hash(D(text)))
    assert [tiny // 1, 1 % tiny, 2 ** (tiny * 0), round(tiny)] == [0, 0, 1, 0]
    assert tiny + D("0.5") == D("0.5000001")
    with pytest.raises(TypeError):
        tiny + 0.5
    doubled = frame[4:5].apply(lambda row: row["x"] * 2, axis=1)
    assert doubled.to_csv(index=False, header=False).strip() == "0.0000002"


def test_plots_leave_gaps(frame: pd.DataFrame) -> None:
    expected = [1442725.09, 0.15, -1.5, np.nan, 1e-7, 3.0]
    np.testing.assert_array_equal(frame["x"].plot().lines[0].get_ydata(), expected)
    np.testing.assert_array_equal(
        plt.subplots()[1].plot(frame["x"])[0].get_ydata(orig=False), expected
    )
    plt.close("all")


@pytest.mark.parametrize("kind", ["line", "bar", "barh", "hist", "box", "area"])
def test_every_kind_of_plot(frame: pd.DataFrame, kind: Any) -> None:
    axes = frame[["x", "n"]].abs().plot(kind=kind, subplots=True)
    assert [len(one.get_children()) > 10 for one in np.ravel(list(axes))] == [True, True]
    plt.close("all")


def test_other_plots(frame: pd.DataFrame) -> None:
    low, high = frame.plot.scatter(x="x", y="n").collections[0].get_offsets()[:2, 0]
    assert (low, high) == (1442725.09, 0.15)
    box = frame.boxplot("x", return_type="dict")
    assert box["medians"][0].get_ydata().tolist() == [0.15, 0.15]
    assert frame[["x"]].hist()[0, 0].patches[0].get_height() == 4
    assert frame["x"].hist(ax=plt.subplots()[1]).patches[0].get_height() == 4
    (a, b) = frame["x"].hist(by=frame["x"].isna() | (frame["x"] > 0), bins=3)
    assert sum(bar.get_height() for axes in (a, b) for bar in axes.patches) == 5
    assert plt.subplots()[1].hist2d(frame["x"].dropna(), frame["x"].dropna())[0].sum() == 5
    assert frame["x"].dtype == "decimal"
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


@pytest.mark.parametrize(
    "window", ["-1D", "0D", pd.Timedelta(0), "soon", np.timedelta64("NaT", "ns")]
)
def test_a_window_is_longer_than_none(window: Any) -> None:
    times = pd.date_range("2026-10-01", periods=2)
    with pytest.raises(ValueError, match="window="):
        rolling(column("1", "2").set_axis(times), window)


@pytest.mark.parametrize("window", [2.0, "2", None, True, pd.Series([1]), [2]])
def test_a_window_is_rows_or_a_time(window: Any) -> None:
    times = pd.date_range("2026-10-01", periods=2)
    for index in (times, range(2)):
        with pytest.raises(
            TypeError, match=r"(?s)window=.*expected a whole number of rows, or a time"
        ):
            rolling(column("1", "2").set_axis(index), window)


@pytest.mark.parametrize(
    "window", [np.timedelta64(2, "D"), pd.Timedelta("2D"), pd.offsets.Day(2), "48h"]
)
def test_windows_as_times_of_any_type(window: Any) -> None:
    times = pd.date_range("2026-10-01", periods=3)
    assert values(rolling(column("1", "2", "4").set_axis(times), window).sum()) == [1, 3, 6]


def test_rolling_refuses_what_it_cannot_mean() -> None:
    for wrong in (3, -1, 1.5, "1"):
        with pytest.raises(ValueError, match="min_periods="):
            rolling(column("1", "2"), 2, min_periods=wrong)  # type: ignore[arg-type]
    for data in (column("1").to_frame(), column("1").array, [1]):
        with pytest.raises(TypeError, match="expected a decimal Series"):
            rolling(data, 2)  # type: ignore[arg-type]


def test_the_public_door() -> None:
    names = "DecimalArray DecimalDtype Rolling read_parquet rolling types_mapper"
    assert decimals.__all__ == names.split()
    assert pd.api.types.pandas_dtype("decimal") == DecimalDtype()
