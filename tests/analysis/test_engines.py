"""At the door between a caller's frame and the engine: nothing shadowed, wrapped or rounded."""

from __future__ import annotations

import os
import signal
import stat
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from transfer_examples import DAY, EVERY_KIND, KINDS, START, arrow, decimal_typed, records, transfer

from fundlab import Store
from fundlab.analysis import balances, fees, flows
from fundlab.base.errors import AnalysisError, InvalidRequest
from fundlab.store.duck import own_connection
from fundlab.store.scan import scan_with_duckdb

D = Decimal
ROWS = [transfer("a"), transfer("b", created_at=START + 2 * DAY)]
OPENING = pd.DataFrame({"profile_id": ["p1"], "asset": ["USD"], "balance": [D(5)]})


def connected(**config: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config=dict(config))
    connection.register("tr", arrow(ROWS))
    return connection


# ------------------------------------------------------------------ tables of the caller's own


def test_no_table_of_the_caller_stands_in_for_ours() -> None:
    connection = connected()
    connection.execute(
        "CREATE TABLE rows AS SELECT 'p1' AS profile_id, 'USD' AS asset, "
        "1000::DECIMAL(38, 18) AS balance, 1000::DECIMAL(38, 18) AS opened"
    )
    connection.execute("CREATE VIEW unused AS SELECT 42 AS x")
    found = balances.at(connection.table("tr"), "2027-01-01", opening=OPENING)
    assert [row["balance"] for row in records(found)] == [D(25)]
    daily = records(balances.daily(connection.table("tr")))
    assert [row["balance"] for row in daily] == [D(10), D(10), D(20)]
    names = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1")
    assert [name for (name,) in names.fetchall()] == ["tr", "unused"]


@pytest.mark.parametrize(
    ("name", "value"), [("default_order", "DESC"), ("default_collation", "NOCASE")]
)
def test_a_connection_that_sorts_or_compares_otherwise_is_refused(name: str, value: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"SET {name} = '{value}'")
    rows = connection.from_arrow(arrow(ROWS))
    for analyse in (balances.running, balances.daily, fees.summary):
        with pytest.raises(AnalysisError, match=f"{name}='{value}'.*; RESET {name}"):
            analyse(rows)
    connection.execute(f"RESET {name}")
    assert records(balances.running(rows))


def test_a_connection_that_reads_no_python_frames_is_refused() -> None:
    connection = connected(python_enable_replacements="false")
    with pytest.raises(AnalysisError, match="python_enable_replacements"):
        balances.at(connection.table("tr"), "2027-01-01", opening=OPENING)


# ----------------------------------------------------------------------------- every digit kept


def priced(value: str, kind: pa.DataType) -> pa.Table:
    rows = arrow([transfer("a")])
    place = rows.column_names.index("total")
    return rows.set_column(place, "total", pa.array([D(value)], kind))


ENTRIES: dict[str, Any] = {
    "arrow": lambda rows: rows,
    "pandas": lambda rows: rows.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "duckdb": lambda rows: duckdb.connect().from_arrow(rows),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("value", ["1E30", "-1E30", "100000000000000000000"])
def test_money_that_does_not_fit_is_refused(entry: str, value: str) -> None:
    frame = ENTRIES[entry](priced(value, pa.decimal128(38, 2)))
    fits_not = r"does not fit|more than 20 integer digits"
    with pytest.raises((AnalysisError, OverflowError), match=fits_not):
        records(balances.at(frame, "2027-01-01"))


@pytest.mark.parametrize("kind", [pa.decimal256(76, 2), pa.decimal256(60, 30)], ids=str)
def test_wide_decimals_fit_or_are_refused(kind: pa.DataType) -> None:
    found = balances.at(priced("99999999999999999999.25", kind), "2027-01-01")
    assert records(found)[0]["balance"] == D("99999999999999999999.25")
    with pytest.raises(AnalysisError, match=r"'total' .* does not fit"):
        balances.at(priced("123456789012345678901", kind), "2027-01-01")


@pytest.mark.parametrize("entry", ENTRIES)
def test_digits_beyond_the_eighteenth_are_refused(entry: str) -> None:
    kind = pa.decimal128(38, 20)
    frame = ENTRIES[entry](priced("0.12345678901234567891", kind))
    with pytest.raises(AnalysisError, match=r"column 'total' .* does not fit"):
        balances.at(frame, "2027-01-01")
    fits = ENTRIES[entry](priced("0.12345678901234567800", kind))
    assert records(balances.at(fits, "2027-01-01"))[0]["balance"] == D("0.123456789012345678")


# ------------------------------------------------------------- frames nobody can compute with


@pytest.mark.parametrize(
    ("sql", "holds"),
    [
        ("INTERVAL 1 DAY", "INTERVAL"),
        ("[1, 2]", r"INTEGER\[\]"),
        ("[1.5]", r"DECIMAL\(2,1\)\[\]"),
        ("{'INT': 1}", "STRUCT"),
        ("1.5::DOUBLE", "DOUBLE"),
    ],
)
def test_what_only_sounds_like_money_is_refused(sql: str, holds: str) -> None:
    frame = connected().sql(f"SELECT * REPLACE ({sql} AS total) FROM tr")
    with pytest.raises(AnalysisError, match=f"column 'total' holds {holds}"):
        balances.at(frame, "2027-01-01")


def test_a_list_of_texts_is_no_text() -> None:
    frame = connected().sql("SELECT * REPLACE ([asset] AS asset) FROM tr")
    with pytest.raises(AnalysisError, match=r"column 'asset' holds VARCHAR\[\]; text"):
        balances.at(frame, "2027-01-01")


def test_two_columns_of_one_name_are_refused() -> None:
    frame = arrow(ROWS).to_pandas()
    twice = pd.concat([frame, frame[["total"]]], axis=1)
    with pytest.raises(AnalysisError, match="transfers has more than one column 'total'"):
        balances.at(twice, "2027-01-01")
    table = arrow(ROWS)
    with pytest.raises(AnalysisError, match="transfers has more than one column 'asset'"):
        balances.at(table.append_column("asset", table["asset"]), "2027-01-01")


def test_a_pandas_frame_without_rows_may_have_any_dtypes() -> None:
    empty = pd.DataFrame(columns=arrow([]).column_names)
    assert records(balances.daily(empty)) == []
    assert records(balances.running(empty)) == []
    assert records(fees.summary(empty)) == []


@pytest.mark.parametrize("by", [None, 5, ["created_at"], "type", "profile_id"])
def test_by_must_name_a_column_of_times(by: Any) -> None:
    for made in (balances.running, balances.daily, flows.net):
        with pytest.raises(AnalysisError, match=r"by=.*: give the name of a column of times"):
            made(arrow(ROWS), by=by)  # type: ignore[operator]


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("asset", ["USD", None])
def test_an_asset_may_be_missing_where_another_changes(kind: str, asset: str | None) -> None:
    rows = [transfer("a", asset=asset, balance_asset="USDC")]
    if asset is None:
        with pytest.raises(AnalysisError, match="asset is missing"):
            balances.at(KINDS[kind](rows), "2027-01-01")
    else:
        assert records(balances.at(KINDS[kind](rows), "2027-01-01"))[0]["asset"] == "USDC"


# -------------------------------------------------------------------------- memory, and overflow


def empty_store(folder: Path) -> Store:
    store = Store(folder)
    with store.lock():
        return store


def settings_of(relation: duckdb.DuckDBPyRelation) -> tuple[str, str]:
    names = ("memory_limit", "temp_directory")
    sql = ", ".join(f"current_setting('{name}')" for name in names)
    ((limit, folder),) = relation.query("unused", f"SELECT {sql}").fetchall()
    return limit, folder


def test_a_scan_keeps_to_its_memory_and_spills_into_a_private_folder(tmp_path: Path) -> None:
    snapshot = empty_store(tmp_path / "store").snapshot("transfers")
    limit, folder = settings_of(scan_with_duckdb(snapshot, memory_limit="64MiB"))
    assert limit == "64.0 MiB"
    assert stat.S_IMODE(Path(folder).parent.stat().st_mode) == 0o700
    assert not Path(folder).is_relative_to(Path.cwd())
    usual, other = settings_of(scan_with_duckdb(snapshot))
    assert usual == settings_of(scan_with_duckdb(snapshot))[0] != limit
    assert other != folder


@pytest.mark.seconds
def test_what_does_not_fit_into_memory_is_spilled_and_removed() -> None:
    connection = own_connection("60MB")
    connection.execute("SET threads = 1")
    ((folder,),) = connection.execute("SELECT current_setting('temp_directory')").fetchall()
    connection.execute("CREATE TABLE t AS SELECT hash(i) AS h FROM range(6000000) r(i) ORDER BY h")
    assert list(Path(folder).iterdir())
    sums = "SELECT sum(h), min(h) <= max(h) FROM t"
    by_hand = "SELECT sum(hash(i)), true FROM range(6000000) r(i)"
    assert connection.execute(sums).fetchall() == connection.execute(by_hand).fetchall()
    connection.close()
    assert not Path(folder).exists()


def test_a_forked_process_computes_too() -> None:
    """A fork inherits a database without its threads, and would wait for them forever."""
    expected = records(balances.at(arrow(ROWS), "2027-01-01"))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        found = records(balances.at(arrow(ROWS), "2027-01-01"))
        os.write(write, b"same" if found == expected else b"other")
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        assert told.read() == b"same"
    assert os.waitpid(child, 0)[1] == 0


def test_a_store_is_scanned_under_the_limit_given(tmp_path: Path) -> None:
    store = empty_store(tmp_path / "store")
    for engine in ("auto", "duckdb"):
        relation = store.scan("transfers", engine=engine, memory_limit="64MiB")  # type: ignore[arg-type]
        assert settings_of(relation)[0] == "64.0 MiB"
    assert settings_of(balances.daily(store.scan("transfers", memory_limit="1GiB")))[0] == "1.0 GiB"
    with pytest.raises(InvalidRequest, match="engine 'polars' is unknown; there are 'auto'"):
        store.scan("transfers", engine="polars")  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", ["lots", "", "-1", 5, "5 parsecs"])
def test_a_limit_must_be_a_size(limit: Any, tmp_path: Path) -> None:
    snapshot = empty_store(tmp_path / "store").snapshot("transfers")
    with pytest.raises(
        InvalidRequest, match=r"memory_limit=.* is not a valid size; give one such as '2GB'"
    ):
        scan_with_duckdb(snapshot, memory_limit=limit)


def test_a_connection_of_the_callers_has_its_own_limit(tmp_path: Path) -> None:
    snapshot = empty_store(tmp_path / "store").snapshot("transfers")
    with pytest.raises(InvalidRequest, match="give either connection"):
        scan_with_duckdb(snapshot, duckdb.connect(), memory_limit="1GB")


def test_an_overflow_is_loud_now_or_when_fetched() -> None:
    huge = [transfer(str(n), amount=D("6E19")) for n in range(2)]
    with pytest.raises(OverflowError, match="20 integer digits"):
        balances.at(arrow(huge), "2027-01-01")
    lazily = balances.at(duckdb.connect().from_arrow(arrow(huge)), "2027-01-01")
    with pytest.raises(duckdb.OutOfRangeException):
        lazily.fetchall()


def test_what_only_looks_like_a_store_is_taken_for_a_frame() -> None:
    class Scanned(pd.DataFrame):
        def scan(self) -> None:
            raise AssertionError("nobody scans a frame")

    rows = [transfer("a", amount=Decimal("1.5")), transfer("b", amount=Decimal("2"))]
    found = balances.running(Scanned(decimal_typed(rows)))
    assert records(found) == records(balances.running(arrow(rows)))


def test_an_amount_has_twenty_integer_digits_at_most() -> None:
    def taken(amount: Decimal) -> Any:
        rows = arrow([transfer("a")])
        wide = pa.array([amount], pa.decimal128(38, 10))
        return balances.running(rows.set_column(rows.column_names.index("total"), "total", wide))

    least = Decimal((0, (1,), 20))
    for sign in (1, -1):
        with pytest.raises(AnalysisError, match="has more than 20 integer digits"):
            taken(sign * least)
    (row,) = records(taken(least - Decimal("1E-10")))
    assert row["balance"] == least - Decimal("1E-10")
