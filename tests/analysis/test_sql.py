"""SQL over frames of ours, and typed frames back."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fundlab as fl
from fundlab.base.errors import InvalidRequest

D = Decimal
LARGEST = "99999999999999999999.999999999999999999"
MOMENT = pd.Timestamp("2026-10-01T12:00:00.123456789Z")


@pytest.fixture
def rows() -> pd.DataFrame:
    return pd.DataFrame(
        {"asset": pd.array(["USD", "EUR", None], dtype="string"),
         "amount": pd.array([LARGEST, "-0.15", None], dtype="decimal"),
         "created_at": pd.DatetimeIndex([MOMENT, MOMENT, None]),
         "n": pd.array([1, None, 3], dtype="Int64"),
         "done": pd.array([True, None, False], dtype="boolean")}
    )  # fmt: skip


def test_a_frame_comes_back_as_it_went_in(rows: pd.DataFrame) -> None:
    back = fl.sql("from rows", rows=rows)
    pd.testing.assert_frame_equal(back, rows, check_dtype=False)
    kinds = {"asset": "string", "amount": "decimal", "n": "Int64", "done": "boolean",
             "created_at": "datetime64[ns, UTC]"}  # fmt: skip
    assert {name: str(dtype) for name, dtype in back.dtypes.items()} == kinds
    empty = fl.sql("from rows where n > 9", rows=rows)
    assert {name: str(dtype) for name, dtype in empty.dtypes.items()} == kinds


def test_results_are_typed_as_our_own_frames_are(rows: pd.DataFrame) -> None:
    query = """
        select sum(amount) as total, sum(n) as n, count(*) as count, 1::tinyint as one,
               max(created_at)::timestamptz as last, date '2026-10-01' as day, avg(n) as mean,
               timestamp '2026-10-01 09:30' as clock
        from rows where amount < 1
    """
    found = fl.sql(query, rows=rows.assign(n=rows["n"].fillna(7)))
    assert found.loc[0, "total"] == D("-0.15")
    assert found[["n", "count", "one"]].to_numpy().tolist() == [[7, 1, 1]]
    assert found.dtypes[["n", "count", "one"]].eq("Int64").all()
    assert found.dtypes["last"] == "datetime64[ns, UTC]"
    assert found.loc[0, "last"] == MOMENT.round("us")  # TIMESTAMPTZ has microseconds
    assert found.loc[0, "day"] == pd.Timestamp("2026-10-01")
    assert found.dtypes["mean"] == "float64"
    assert found["clock"].tolist() == [pd.Timestamp("2026-10-01 09:30")]  # of no zone


def test_functions_of_time_take_moments_of_microseconds(rows: pd.DataFrame) -> None:
    """Before DuckDB 2.0.1 the others are refused, and it is said how to ask."""
    query = "select date_trunc('day', created_at{}) as day from rows where n = 1"
    found = [fl.sql(query.format("::timestamptz"), rows=rows)]
    try:
        found.append(fl.sql(query.format(""), rows=rows))
        assert fl.sql("select 1 as x from rows where created_at > '2100-01-01'", rows=rows).empty
    except InvalidRequest as error:
        assert str(error).endswith("microseconds: write created_at::timestamptz")  # noqa: PT017
    for day in found:
        assert day.loc[0, "day"] == pd.Timestamp("2026-10-01", tz="UTC")


def test_decimals_of_any_scale_and_whole_numbers_of_any_size_have_our_types(
    rows: pd.DataFrame,
) -> None:
    query = """
        select round(amount, 2) as amount, amount::decimal(30, 4) as narrow, 1.5 as rate,
               0.15::decimal(38, 2) * 0.001 as product, 7::utinyint as small, 7::ubigint as large
        from rows where amount < 1
    """
    found = fl.sql(query, rows=rows)
    kinds = ["decimal"] * 4 + ["Int64"] * 2
    assert list(map(str, found.dtypes)) == kinds
    assert found.iloc[0].tolist() == [D("-0.15"), D("-0.15"), D("1.5"), D("0.00015"), 7, 7]
    exact = fl.sql("select amount * 0.001 as x from rows where amount < 1", rows=rows)
    assert (str(exact.dtypes["x"]), exact.loc[0, "x"]) == ("decimal", D("-0.00015"))
    for wrong in (
        "1e-19::decimal(38, 19)",
        "1e21::decimal(38, 2)",
        "18446744073709551615::ubigint",
    ):
        with pytest.raises(InvalidRequest, match=r"column 'x' .* does not fit .*; cast it in the"):
            fl.sql(f"select {wrong} as x")


def test_frames_of_other_tools_and_lazy_tables_of_a_store(
    rows: pd.DataFrame,
) -> None:
    query = "select a.amount + b.amount as amount from a, b where a.n = b.n and a.amount < 1"
    small = rows.assign(n=[1, 2, 3])
    for other in (pa.table(small), pl.from_pandas(small)):
        assert fl.sql(query, a=small, b=other)["amount"].tolist() == [D("-0.3")]
    lazy = fl.sample().scan("transfers")
    count = fl.sql("select count(*) as n, sum(total) as total from lazy", lazy=lazy)
    read = fl.sample().read("transfers")
    assert count.loc[0].tolist() == [len(read), read["total"].sum()]


def test_a_query_that_fails_says_so_in_one_line(rows: pd.DataFrame) -> None:
    with pytest.raises(
        fl.errors.InvalidRequest, match=r"the query failed: .*\(frames .*: other; give another as"
    ):
        fl.sql("from rows", other=rows)  # a variable of this function is no table
    with pytest.raises(fl.errors.InvalidRequest, match="by name: none"):
        fl.sql("select 1 / ")
    with pytest.raises(fl.errors.InvalidRequest, match=r"the query failed: .*verflow"):
        fl.sql("select amount * 1000 as x from rows", rows=rows)
    with pytest.raises(fl.errors.InvalidRequest, match="gives no rows"):
        fl.sql("")
    with pytest.raises(fl.errors.InvalidRequest, match=r"'x' \(HUGEINT\) does not fit int64"):
        fl.sql("select 9223372036854775808::hugeint as x")


def test_a_whole_number_beyond_arrows_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"column 'a' .UHUGEINT. does not fit int64; cast it"):
        fl.sql("select 340282366920938463463374607431768211455::uhugeint a")
