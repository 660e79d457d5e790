"""What each tool makes of a decimal column, and how it comes back: the table of notebook 08.

Each function here is a row: it checks what the row says. ``python tests/decimals/
test_decimals_matrix.py`` writes the table into the notebook, after it has run every check.
"""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import matplotlib.pyplot as plt
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from extra_packages import needs
from spark_sessions import spark_session

import fundlab as fl

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "08-exact-decimals.ipynb"
CELL = "tools"
D = Decimal
LARGEST = "99999999999999999999.999999999999999999"
FLOATS = [1e20, -0.15, None]


class Row(NamedTuple):
    tool: str
    goes_in: str
    comes_out: str
    check: Callable[[pd.DataFrame], None]


MATRIX: list[Row] = []


def tool(name: str, goes_in: str, comes_out: str) -> Callable[[Any], Any]:
    def register(check: Callable[[pd.DataFrame], None]) -> Callable[[pd.DataFrame], None]:
        MATRIX.append(Row(name, goes_in, comes_out, check))
        return check

    return register


def table() -> str:
    lines = ["| tool | a frame goes in | and comes out |", "| --- | --- | --- |"]
    lines += [f"| {row.tool} | {row.goes_in} | {row.comes_out} |" for row in MATRIX]
    return "\n".join(lines)


def made() -> pd.DataFrame:
    amounts = pd.array([LARGEST, "-0.15", None], dtype="decimal")
    return pd.DataFrame({"asset": ["USD", "EUR", "EUR"], "amount": amounts})


def same(back: Any, frame: pd.DataFrame) -> bool:
    """The same amounts, as a decimal column."""
    amounts = pd.Series(back).reset_index(drop=True)
    return bool(amounts.dtype == "decimal" and amounts.equals(frame["amount"]))


HEAVY = {"Altair", "Great Tables", "Ibis", "PySpark", "SQLAlchemy and SQLite", "marimo", "openpyxl",
         "pandera", "pickle, joblib", "plotly", "scikit-learn", "seaborn"}  # fmt: skip


@tool("DuckDB", "`duckdb.sql(\"… from frame\")`, as `DECIMAL(38,18)`",
      "`fl.sql(query, frame=frame)`: `decimal`; `.df()` makes floats")  # fmt: skip
def _(frame: pd.DataFrame) -> None:
    rows = duckdb.sql("select amount, typeof(amount) from frame").fetchall()
    assert rows == [(D(LARGEST), "DECIMAL(38,18)"), (D("-0.15"), "DECIMAL(38,18)"),
                    (None, "DECIMAL(38,18)")]  # fmt: skip
    assert same(fl.sql("from frame", frame=frame)["amount"], frame)
    assert duckdb.sql("from frame").df()["amount"].dtype == "float64"


@tool("DuckDB, `to_sql`", "`to_sql` into DuckDB: exact text; "
      "`connection.sql(\"create table t as from frame\")`: `DECIMAL(38,18)`",
      "`read_sql(…).astype({\"amount\": \"decimal\"})` of the text")  # fmt: skip
def _(frame: pd.DataFrame) -> None:
    with duckdb.connect() as connection:
        with pytest.warns(UserWarning, match="only supports SQLAlchemy"):
            frame.to_sql("kept", connection, index=False)
        text = connection.sql("select amount from kept").fetchall()
        assert same(pd.Series([one for (one,) in text]).astype("decimal"), frame)
        connection.sql("create table exact as from frame")
        assert str(connection.table("exact").types[1]) == "DECIMAL(38,18)"


@tool("Polars", "`pl.from_pandas(frame)`, as `Decimal(38, 18)`",
      "`.to_arrow().to_pandas(types_mapper=fl.types_mapper)`")  # fmt: skip
def _(frame: pd.DataFrame) -> None:
    found = pl.from_pandas(frame)
    assert found.schema["amount"] == pl.Decimal(38, 18)
    assert same(found.to_arrow().to_pandas(types_mapper=fl.types_mapper)["amount"], frame)


@tool("Narwhals", "`nw.from_native(frame)`, as `Decimal`", "`.to_native()`: `decimal`")
def _(frame: pd.DataFrame) -> None:
    wrapped: Any = nw.from_native(frame, eager_only=True)
    assert wrapped["amount"].dtype == nw.Decimal
    assert same(wrapped.filter(nw.col("asset") != "x").to_native()["amount"], frame)


@tool("PyArrow", "`pa.table(frame)`, as `decimal128(38, 18)`",
      "`.to_pandas(types_mapper=fl.types_mapper)`; files: `fl.read_parquet`")  # fmt: skip
def _(frame: pd.DataFrame) -> None:
    arrow = pa.table(frame)
    assert arrow.schema.field("amount").type == pa.decimal128(38, 18)
    assert same(arrow.to_pandas(types_mapper=fl.types_mapper)["amount"], frame)


@tool("Ibis", "`ibis.memtable(frame)`, as `decimal(38, 18)`",
      "`.to_pyarrow().to_pandas(types_mapper=fl.types_mapper)`")  # fmt: skip
def _(frame: pd.DataFrame) -> None:
    ibis = needs("ibis")
    rows = ibis.memtable(frame)
    assert str(rows.schema()["amount"]) == "decimal(38, 18)"
    totals = rows.group_by("asset").agg(total=rows.amount.sum()).order_by("asset").to_pyarrow()
    assert totals["total"].to_pylist() == [D("-0.15"), D(LARGEST)]
    back = rows.to_pyarrow().to_pandas(types_mapper=fl.types_mapper)
    assert sorted(back["amount"].dropna()) == [D("-0.15"), D(LARGEST)]
    kept = ibis.duckdb.connect().create_table("kept", frame)
    assert kept.amount.sum().to_pyarrow().as_py() == D("99999999999999999999.849999999999999999")


@tool("pandera", "`pa.Column(checks=pa.Check.ge(Decimal(0)))`, exact; its own `\"decimal\"` is "
      "another type, and refuses: check `s.dtype == \"decimal\"`", "the frame itself")  # fmt: skip
def _(frame: pd.DataFrame) -> None:
    pandera = needs("pandera.pandas")
    typed = pandera.Check(lambda amounts: amounts.dtype == "decimal")
    least = pandera.Check.ge(D("-0.15"))
    schema = pandera.DataFrameSchema(
        {"amount": pandera.Column(checks=[typed, least], nullable=True)}
    )
    assert same(schema.validate(frame)["amount"], frame)
    with pytest.raises(pandera.errors.SchemaError, match="greater_than_or_equal_to"):
        schema.validate(frame.assign(amount=frame["amount"] - D("1E-18")))
    with pytest.raises(pandera.errors.SchemaError, match=r"Decimal\(28, 0\)"):
        pandera.DataFrameSchema({"amount": pandera.Column("decimal", nullable=True)}).validate(
            frame
        )


@tool("Great Tables", "`GT(frame)`: all digits; `fmt_number` and `fmt_currency` round exactly",
      "a page")  # fmt: skip
def _(frame: pd.DataFrame) -> None:
    great = needs("great_tables")
    assert LARGEST in great.GT(frame).as_raw_html()
    page = great.GT(frame).fmt_number("amount", decimals=18).as_raw_html()
    assert "99,999,999,999,999,999,999.999999999999999999" in page
    half = frame.assign(amount=frame["amount"] * 0 + D("12345678901.125"))
    assert "$12,345,678,901.12" in great.GT(half).fmt_currency("amount").as_raw_html()


@tool("Matplotlib", "`plt.plot`, `bar`, `pie`, `boxplot` …: drawn in floats", "a picture")
def _(frame: pd.DataFrame) -> None:
    _, axes = plt.subplots()
    axes.bar(frame["asset"][:2], frame["amount"][:2])
    assert axes.patches[0].get_height() == 1e20
    axes.pie(frame["amount"][:1])
    assert len(axes.patches) == 3
    assert axes.boxplot(frame["amount"].dropna())["medians"][0].get_ydata()[0] == 5e19
    plt.close("all")


@tool("seaborn", "`barplot`, `heatmap`, `regplot` …: drawn in floats", "a picture")
def _(frame: pd.DataFrame) -> None:
    axes = needs("seaborn").heatmap(frame[["amount"]])
    assert axes.collections[0].get_array()[1, 0] == -0.15
    plt.close("all")


@tool("plotly", "`px.bar(frame)`: drawn in floats", "a picture")
def _(frame: pd.DataFrame) -> None:
    drawn = json.loads(needs("plotly.express").bar(frame, x="asset", y="amount").to_json())
    assert drawn["data"][0]["y"] == FLOATS


@tool("Altair", "`alt.Chart(frame)`: drawn in floats", "a picture")
def _(frame: pd.DataFrame) -> None:
    altair = needs("altair")
    drawn = json.loads(altair.Chart(frame).mark_bar().encode(x="asset", y="amount").to_json())
    (rows,) = drawn["datasets"].values()
    assert [row["amount"] for row in rows] == FLOATS
    assert drawn["encoding"]["y"]["type"] == "quantitative"


@tool("SQLAlchemy and SQLite", "`to_sql`: text, every digit",
      "`read_sql(…).astype({\"amount\": \"decimal\"})`")  # fmt: skip
def _(frame: pd.DataFrame) -> None:
    sqlalchemy = needs("sqlalchemy")
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection:
        frame.to_sql("kept", connection, index=False)
        back = pd.read_sql("select amount, typeof(amount) as kind from kept", connection)
    engine.dispose()
    assert back["kind"].tolist() == ["text", "text", "null"]
    assert same(back["amount"].astype("decimal"), frame)


@tool("openpyxl", "`to_excel(engine=\"openpyxl\")`: numbers to 15 digits, longer ones text",
      "`read_excel(…, dtype=str).astype({\"amount\": \"decimal\"})`")  # fmt: skip
def _(frame: pd.DataFrame) -> None:
    through_a_workbook(frame, "openpyxl")


@tool("XlsxWriter", "`to_excel(engine=\"xlsxwriter\")`: numbers to 15 digits, longer ones text",
      "`read_excel(…, dtype=str).astype({\"amount\": \"decimal\"})`")  # fmt: skip
def _(frame: pd.DataFrame) -> None:
    through_a_workbook(frame, "xlsxwriter")


def through_a_workbook(frame: pd.DataFrame, engine: Any) -> None:
    file = io.BytesIO()
    frame.to_excel(file, engine=engine, index=False)
    back = pd.read_excel(file, dtype=str)["amount"]
    assert same(back.astype("decimal"), frame)
    with pytest.raises(TypeError, match="floats are not exact"):
        pd.read_excel(file, dtype={"amount": "decimal"})


@tool("`to_json`", "text, every digit", '`read_json(…, dtype={"amount": "decimal"})`')
def _(frame: pd.DataFrame) -> None:
    text = frame.to_json()
    assert json.loads(text)["amount"]["0"] == LARGEST
    assert same(pd.read_json(io.StringIO(text), dtype={"amount": "decimal"})["amount"], frame)


@tool("pickle, joblib", "the column", "the column")
def _(frame: pd.DataFrame) -> None:
    joblib = needs("joblib")
    file = io.BytesIO()
    joblib.dump(frame, file)
    file.seek(0)
    for back in (pickle.loads(pickle.dumps(frame)), joblib.load(file)):
        assert same(back["amount"], frame)
    assert joblib.hash(frame) == joblib.hash(frame.copy())


@tool("PySpark", "`spark.createDataFrame(pa.table(frame))`, as `decimal(38,18)`",
      "`.toArrow().to_pandas(types_mapper=fl.types_mapper)`")  # fmt: skip
def _(frame: pd.DataFrame) -> None:
    with spark_session("sail") as session:
        rows = session.createDataFrame(pa.table(frame))
        assert dict(rows.dtypes)["amount"] == "decimal(38,18)"
        assert same(rows.toArrow().to_pandas(types_mapper=fl.types_mapper)["amount"], frame)


MARIMO = """
import marimo

app = marimo.App()


@app.cell
def _():
    import duckdb
    import fundlab as fl
    import pandas as pd
    frame = pd.DataFrame({"amount": pd.array(["0.1", "0.2", None], dtype="decimal")})
    return duckdb, fl, frame


@app.cell
def _(duckdb, fl, frame):
    sums = duckdb.sql("select sum(amount) from frame").fetchall()
    back = fl.sql("from frame", frame=frame)["amount"].dtype
    return back, sums


if __name__ == "__main__":
    _, found = app.run()
    print(found["sums"], found["back"])
"""


@tool("marimo", "the frame in Python and SQL cells, as in DuckDB", "`fl.sql`: `decimal`")
def _(frame: pd.DataFrame) -> None:
    pytest.importorskip("marimo", reason="the extra 'tools' is not installed")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "book.py")  # marimo reads the source of its cells
        script.write_text(MARIMO, encoding="utf-8")
        done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.stdout == "[(Decimal('0.300000000000000000'),)] decimal\n", done.stderr


@tool("scikit-learn", "`fit(frame)`: computed in floats, as all numbers are", "floats")
def _(frame: pd.DataFrame) -> None:
    linear = pytest.importorskip("sklearn.linear_model", reason="the extra 'tools' is missing")
    known = frame.dropna()[["amount"]]
    for given in (known, known.astype("float64")):
        model = linear.LinearRegression().fit(given, [1.0, 0.0])
        assert model.coef_[0] == pytest.approx(1e-20)


@pytest.fixture
def frame() -> Iterator[pd.DataFrame]:
    given = made()
    yield given
    assert same(given["amount"], made())  # no tool wrote into it


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=row.tool, marks=[pytest.mark.thorough] * (row.tool in HEAVY))
     for row in MATRIX],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:The 'future.infer_string'", "ignore:PySpark does not yet")
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis 12, DuckDB 2.0.1
def test_a_tool_does_what_its_row_says(row: Row, frame: pd.DataFrame) -> None:
    row.check(frame)


def test_the_notebook_shows_the_table() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    (source,) = ["".join(cell["source"]) for cell in cells if cell["id"] == CELL]
    assert table() in source


if __name__ == "__main__":
    for one in MATRIX:
        one.check(made())
    nbformat = needs("nbformat")
    notebook = nbformat.read(NOTEBOOK, 4)
    (place,) = [cell for cell in notebook.cells if cell["id"] == CELL]
    place["source"] = place["source"].partition("| tool |")[0] + table()
    nbformat.write(notebook, NOTEBOOK)
