"""Decimal columns in the tools that analysts reach for next."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fundlab.decimals import DecimalDtype

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
