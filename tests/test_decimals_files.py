"""Decimal columns in files, on the screen and in plots, and the helpers."""

from __future__ import annotations

import io
import json
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

from fundlab import decimals
from fundlab.decimals import DecimalDtype, read_parquet, rolling, types_mapper

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


def test_the_public_door() -> None:
    names = "DecimalArray DecimalDtype Rolling read_parquet rolling types_mapper"
    assert decimals.__all__ == names.split()
    assert pd.api.types.pandas_dtype("decimal") == DecimalDtype()
