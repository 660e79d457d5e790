"""At the door between a caller's frame and the engine: nothing shadowed, wrapped or rounded."""

from __future__ import annotations

import os
import signal
import stat
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from transfer_examples import DAY, EVERY_KIND, KINDS, START, arrow, decimal_typed, records, transfer

from fundlab import Store
from fundlab.analysis import balances, engines, fees, flows, flux
from fundlab.analysis.engines import JSON, MONEY, TEXT, TIME, Wanted
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


OURS = ["opened", "moved", "balance", "total", "At", "Moved", "Change", "Direction", "Asset", "Id"]


@pytest.mark.parametrize("by", OURS)
def test_a_column_that_is_called_as_one_of_ours_is_not_taken_for_it(by: str) -> None:
    rows = decimal_typed([transfer("a"), transfer("b")])
    rows[by] = rows["created_at"]
    for made in (balances.running, balances.daily, flows.net):
        with pytest.raises(AnalysisError, match="rename one that is called as a column of these"):
            made(rows, by=by)


@pytest.mark.parametrize("by", ["Asset", "Total", "Count", "Direction", "Id", ""])
def test_a_group_that_is_called_as_a_column_of_ours_is_refused(by: str) -> None:
    rows = decimal_typed([transfer("a"), transfer("b")])
    rows = rows.assign(**{by: "x"}) if by else rows
    with pytest.raises(AnalysisError, match=f"by='{by}': give different text columns"):
        fees.summary(rows, by=by)
    with pytest.raises(AnalysisError, match=f"by='{by}': this analysis has a column of that name"):
        flux.explain(rows, rows, by=by)


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


def test_a_relation_is_held_beside_the_callers_only_where_there_is_one() -> None:
    connection = duckdb.connect()
    rows = connection.sql("SELECT 1 AS one UNION ALL SELECT 2")
    with engines.relations_of(connection):
        found = engines.held(rows, "mine")
    connection.execute("DELETE FROM mine WHERE one = 2")
    assert found.fetchall() == [(1,)], "of the table"
    assert engines.held(rows, "other") is rows


@pytest.mark.parametrize(
    ("present", "says"),
    [
        (["id", "at"], "t has no column 'total'; the columns are id, at"),
        (["at"], "t has no column 'id', 'total'; needed are id, total, the columns are at"),
        ([], "t has no column 'id', 'total'; needed are id, total, the columns are none"),
        (["id", "total", "id"], "t has more than one column 'id'; drop or rename the others"),
        (["id", "total", "x", "memo", "x", "memo"], "t has more than one column 'memo'; drop or"),
    ],
)
def test_a_column_is_there_once(present: list[str], says: str) -> None:
    want = Wanted("t", {"id": TEXT, "total": MONEY}, {"memo": TEXT})
    with pytest.raises(AnalysisError) as caught:
        want.among(present)
    assert str(caught.value).startswith(says)
    assert ("settled=True" in str(caught.value)) is False
    with pytest.raises(
        AnalysisError, match=r"are id; store.read\('transfers', settled=True\) gives"
    ):
        Wanted("t", {"settled_at": TIME}).among(["id"])
    assert [*want.among(["total", "id", "x", "x"])] == ["id", "total", "memo"]


def test_what_is_no_frame_is_named() -> None:
    for other in ([1], nw.from_native(arrow(ROWS))):
        named = f"{type(other).__module__}.{type(other).__qualname__} is not a frame"
        with pytest.raises(AnalysisError, match=named):
            engines.column_names(other)


JSONS = ['{"a": 1}', '{"a": 1}', None]


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        (pd.Series([np.nan, np.nan]), TEXT, [None, None]),
        (pd.Series([None, None], dtype=object), MONEY, [None, None]),
        (pd.Series([None, pd.NaT], dtype=object), TIME, [None, None]),
        (pd.Series(["a", np.nan], dtype=object), TEXT, ["a", None]),
        (pd.Series(["a", pd.NA], dtype="string"), TEXT, ["a", None]),
        (pd.Series(["a", None], dtype="category"), TEXT, ["a", None]),
        (pd.Series([D(1), None], dtype=object), MONEY, [D(1), None]),
        (pd.Series([3, 4]), MONEY, [D(3), D(4)]),
        (pd.Series([3, None], dtype="Int64"), MONEY, [D(3), None]),
        (pd.Series(pd.to_datetime([0, None], utc=True)), TIME, [0, None]),
        (pd.Series([{"a": 1}, '{"a": 1}', np.nan], dtype=object), JSON, JSONS),
        (pd.Series([[1], {"a": D(2)}, None], dtype=object), JSON, ["[1]", '{"a": "2"}', None]),
        (pa.array([{"a": 1}, {"a": 1}, None]), JSON, JSONS),
        (pa.array(JSONS), JSON, JSONS),
        (pa.array(["a", None]).dictionary_encode(), TEXT, ["a", None]),
        (pa.array([7, None], pa.timestamp("us", "UTC")), TIME, [7000, None]),
        (pa.array([D("1.5")], pa.decimal128(38, 17)), MONEY, [D("1.5")]),
    ],
)  # fmt: skip
def test_a_column_in_memory_is_taken_as_it_is_meant(
    column: Any, kind: Any, expected: list[Any]
) -> None:
    in_arrow = isinstance(column, pa.Array)
    frame = pa.table({"x": column}) if in_arrow else pd.DataFrame({"x": column})
    found = engines.from_memory(frame, Wanted("t", {"x": kind}, {"y": MONEY}), numbered=False)
    assert found.column_names == ["x", "y"]
    assert found.column("x").to_pylist() == expected
    assert found.column("y").null_count == len(expected)
    numbered = engines.from_memory(frame, Wanted("t", {"x": kind}), numbered=True)
    assert numbered.column(engines.ROW).to_pylist() == [*range(len(expected))]


@pytest.mark.parametrize(
    ("column", "kind", "says"),
    [
        (pd.Series([pd.Timestamp("2026-01-01"), 5], dtype=object), TIME, "holds Python objects"),
        (pd.Series(["a", 5], dtype=object), TEXT, "does not hold text throughout"),
        (pd.Series([D(1), "x"], dtype=object), MONEY, "does not hold exact decimals throughout"),
        (pd.Series([1.5]), MONEY, r"holds double; exact decimals are needed, never rounded or "
         r"guessed: read them so, as by pd\.read_csv\(path, dtype=\{'x': 'decimal'\}\)$"),
        (pd.Series([1.5]), TEXT, "holds double; text are needed$"),
        (pd.Series(pd.to_datetime([0])), TIME, "timestamps with a time zone are needed, never"),
        (pa.array([[1]]), TEXT, "holds list<.*>; text are needed$"),
        (pa.array([5]), TIME, "holds int64; timestamps with a time zone are needed"),
        (pa.array([D("1E20")], pa.decimal128(38, 17)), MONEY, "1.* more than 20 integer digits"),
        (pa.array([-D("1E20")], pa.decimal128(38, 17)), MONEY, "-1.* more than 20 integer digits"),
        (pa.array([D("0.123")], pa.decimal256(50, 30)), MONEY, None),
    ],
)  # fmt: skip
def test_a_column_in_memory_that_would_lose_something_is_refused(
    column: Any, kind: Any, says: str | None
) -> None:
    in_arrow = isinstance(column, pa.Array)
    frame = pa.table({"x": column}) if in_arrow else pd.DataFrame({"x": column})
    want = Wanted("t", {"x": kind})
    if says is None:
        assert engines.from_memory(frame, want, numbered=False).num_rows == len(column)
        return
    with pytest.raises(AnalysisError, match=rf"t column 'x' .*{says}"):
        engines.from_memory(frame, want, numbered=False)


@pytest.mark.parametrize(
    ("sql", "kind", "expected"),
    [
        ("'a'", TEXT, "a"),
        ("'a'::ENUM ('a', 'b')", TEXT, "a"),
        ("'00000000-0000-0000-0000-000000000001'::UUID", TEXT,
         "00000000-0000-0000-0000-000000000001"),
        *((f"7::{kind}", MONEY, D(7)) for kind in
          ("TINYINT", "USMALLINT", "INTEGER", "UINTEGER", "BIGINT", "HUGEINT", "UHUGEINT")),
        ("1.5::DECIMAL(20, 18)", MONEY, D("1.5")),
        ("1.5::DECIMAL(30, 20)", MONEY, D("1.5")),
        ("NULL::DECIMAL(30, 20)", MONEY, None),
        ("TIMESTAMPTZ '1970-01-01 00:00:01+00'", TIME, 10**9),
        ("TIMESTAMP_NS '1970-01-01 00:00:00.000000001'", TIME, 1),
        ("'[1]'::JSON", JSON, "[1]"),
        ("'[1]'", JSON, "[1]"),
        ("{'a': 1}", JSON, '{"a":1}'),
        ("[1]", JSON, "[1]"),
        *((sql, kind, None) for sql, kind in (
            ("1", TEXT), ("['a']", TEXT), ("'1'", MONEY), ("1.5::DOUBLE", MONEY), ("[1.5]", MONEY),
            ("DATE '2026-01-01'", TIME), ("5", TIME), ("[TIMESTAMP '2026-01-01']", TIME),
        )),
    ],
)  # fmt: skip
def test_a_column_of_duckdb_is_taken_exactly_or_refused(sql: str, kind: Any, expected: Any) -> None:
    connection = duckdb.connect()
    relation = connection.sql(f'SELECT {sql} AS "a ""x"')
    want = Wanted("t", {'a "x': kind}, {"y": kind})
    if expected is None and not sql.startswith("NULL"):
        with pytest.raises(AnalysisError, match=r"t column 'a \"x' holds .*; .* are needed"):
            engines.from_duckdb(relation, want, keep=False)
        return
    found = engines.from_duckdb(relation, want, keep=False)
    assert (found.columns, found.fetchall()) == (['a "x', "y"], [(expected, None)])
    kept = engines.from_duckdb(relation, want, keep=True)
    assert kept.columns == ['a "x', "y", 'kept:a "x']


def test_the_first_amount_with_too_many_decimals_is_named() -> None:
    relation = duckdb.sql(
        "SELECT x::DECIMAL(30, 20) AS x FROM (VALUES (1.5), (0.1234567890123456789)) AS t(x)"
    )
    says = (
        r"t column 'x' \(DECIMAL\(30,20\)\) does not fit: 0.12345678901234567890 has more than 18"
    )
    with pytest.raises(AnalysisError, match=says):
        engines.from_duckdb(relation, Wanted("t", {"x": MONEY}), keep=False)


@pytest.mark.parametrize(
    ("nanoseconds", "microseconds"),
    [(1_499, 1), (1_500, 2), (2_500, 2), (2_501, 3), (-1_500, -2), (None, None)],
)
def test_lengths_of_time_are_rounded_to_what_duckdb_holds(
    nanoseconds: int | None, microseconds: int | None
) -> None:
    lengths = pa.array([nanoseconds], pa.int64()).cast(pa.duration("ns"))
    found = engines._in_microseconds(pa.table({"n": [1], "x": lengths, "y": lengths}))
    expected = None if microseconds is None else microseconds * 1000
    for name in ("x", "y"):
        assert found.column(name).cast(pa.int64()).to_pylist() == [expected]
    assert found.column("n").to_pylist() == [1]


# ------------------------------------------------------------- what is asked of Spark, in its words


class Asked:
    """An expression of Spark as text; what the tests that need a server hold to be true of it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __ne__(self, other: object) -> Asked:  # type: ignore[override]
        return Asked(f"{self.text} <> {other}")

    def __mul__(self, other: Asked) -> Asked:
        return Asked(f"{self.text} * {other}")

    def __str__(self) -> str:
        return self.text

    def cast(self, kind: str) -> Asked:
        return Asked(f"{self.text}::{kind}")

    def alias(self, name: str) -> Asked:
        return Asked(f"{self.text} AS {name}")


def called(name: str) -> Any:
    return lambda given: Asked(f"{name}({given})")


class Frame:
    """A frame of Spark whose server would answer with the rows ``answer``."""

    def __init__(self, dtypes: dict[str, str], answer: Any = (), asked: str = "") -> None:
        self.dtypes, self.columns = [*dtypes.items()], [*dtypes]
        self.answer, self.asked, self.sparkSession = answer, asked, None

    def filter(self, condition: Asked) -> Frame:
        return Frame(dict(self.dtypes), self.answer, f"where {condition}: ")

    def select(self, *chosen: Asked) -> Frame:
        text = self.asked + ", ".join(map(str, chosen))
        return Frame(dict(self.dtypes), self.answer, text)

    def limit(self, most: int) -> Frame:
        return self

    def collect(self) -> list[Any]:
        return self.answer


@pytest.fixture
def spark_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("lit", "unix_micros", "to_json", "sum", "abs")
    functions = SimpleNamespace(col=Asked, **{name: called(name) for name in names})
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "pyspark.sql", SimpleNamespace(functions=functions))


@pytest.mark.usefixtures("spark_functions")
@pytest.mark.parametrize(
    ("dtype", "kind", "asked"),
    [
        ("string", TEXT, "`x`"), ("varchar(3)", TEXT, "`x`"), ("char(3)", TEXT, "`x`"),
        ("bigint", TEXT, None), ("map<string,string>", TEXT, None),
        ("decimal(38,18)", MONEY, "`x`::decimal(38,18)"),
        ("decimal(10,2)", MONEY, "`x`::decimal(38,18)"),
        ("bigint", MONEY, "`x`::decimal(38,18)"), ("int", MONEY, "`x`::decimal(38,18)"),
        ("smallint", MONEY, "`x`::decimal(38,18)"), ("tinyint", MONEY, "`x`::decimal(38,18)"),
        ("double", MONEY, None), ("string", MONEY, None),
        ("timestamp", TIME, "unix_micros(`x`) * lit(1000)"), ("bigint", TIME, "`x`"),
        ("timestamp_ntz", TIME, None), ("date", TIME, None),
        ("string", JSON, "`x`"), ("struct<a:int>", JSON, "to_json(`x`)"),
        ("map<string,int>", JSON, "to_json(`x`)"), ("array<int>", JSON, "to_json(`x`)"),
        ("int", JSON, None),
    ],
)  # fmt: skip
def test_a_column_of_spark_is_taken_exactly_or_refused(
    dtype: str, kind: Any, asked: str | None
) -> None:
    frame: Any = Frame({"x": dtype, "z": "int"})
    want = Wanted("t", {"x": kind}, {"y": kind})
    if asked is None:
        with pytest.raises(AnalysisError, match=rf"t column 'x' holds {dtype}; .* are needed"):
            engines.from_spark(frame, want, keep=False)
        return
    absent = {TEXT: "string", JSON: "string", MONEY: "decimal(38,18)", TIME: "bigint"}[kind]
    expected = f"{asked} AS x, lit(None)::{absent} AS y"
    assert engines.from_spark(frame, want, keep=False).asked == expected  # type: ignore[attr-defined]
    kept: Any = engines.from_spark(frame, want, keep=True)
    assert kept.asked == f"{expected}, `x` AS kept:x, `z` AS kept:z"


@pytest.mark.usefixtures("spark_functions")
def test_an_amount_of_spark_with_too_many_decimals_is_refused() -> None:
    frame: Any = Frame({"x": "decimal(38,19)"}, answer=[(D("0.1234567890123456789"),)])
    says = r"t column 'x' \(decimal\(38,19\)\) does not fit: 0.1234567890123456789 has more than"
    with pytest.raises(AnalysisError, match=says):
        engines.from_spark(frame, Wanted("t", {"x": MONEY}), keep=False)
    for kind in ({"x": "decimal(38,19)"}, {"x": "decimal(38, 18)"}):
        none: Any = Frame(kind)
        assert engines.from_spark(none, Wanted("t", {"x": MONEY}), keep=False)


class Server:
    """A session of Spark Connect that says in which way a sum of 39 digits ends there."""

    def __init__(self, error: Exception | None) -> None:
        self.error, self.asked = error, 0

    def sql(self, query: str) -> Server:
        assert query.count("60000000000000000000") == 2
        return self

    def collect(self) -> list[Any]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return []


class Remote(Frame):
    def select(self, *chosen: Asked) -> Any:
        text = ", ".join(map(str, chosen))
        return SimpleNamespace(asked=text, first=lambda: self.answer[text])


Remote.__module__ = "pyspark.sql.connect.dataframe"


@pytest.mark.usefixtures("spark_functions")
@pytest.mark.parametrize(
    ("notices", "sums", "refused"),
    [
        (True, None, False),
        (False, (None, None), False),
        (False, (1e20, None), False),
        (False, (None, 1.1e20), True),
        (False, (1.1e20, 0.0), True),
    ],
)
def test_a_server_whose_sums_wrap_around_is_asked_how_large_they_get(
    monkeypatch: pytest.MonkeyPatch, notices: bool, sums: Any, refused: bool
) -> None:
    class ArithmeticException(Exception):
        pass

    fake = SimpleNamespace(ArithmeticException=ArithmeticException)
    monkeypatch.setitem(sys.modules, "pyspark.errors", fake)
    server = Server(ArithmeticException() if notices else None)
    asked = "sum(abs(`x`::double)), sum(abs(`z`::double))"
    frame: Any = Remote({"x": "decimal(38,18)", "z": "int", "s": "string"}, {asked: sums})
    frame.sparkSession = server
    want = Wanted("t", {"x": MONEY, "s": TEXT}, {"y": MONEY, "z": MONEY})
    for _ in range(2):
        if refused:
            with pytest.raises(OverflowError, match="t: a sum of amounts, which this server would"):
                engines.from_spark(frame, want, keep=False)
        else:
            assert engines.from_spark(frame, want, keep=False)
    assert server.asked == 1
    assert engines.from_spark(frame, Wanted("t", {"s": TEXT}), keep=False)
    frame.sparkSession = other = Server(None)
    assert engines.from_spark(frame, Wanted("t", {"s": TEXT}), keep=False)
    assert not other.asked, "where there are no amounts"


class SparkError(Exception):
    pass


class SparkOverflow(SparkError):
    pass


@pytest.mark.parametrize(
    ("error", "becomes", "says"),
    [
        (duckdb.OutOfRangeException("x"), OverflowError, "a sum of amounts has more than"),
        (duckdb.ConversionException("x is out of range"), OverflowError, "an amount or a sum of"),
        (duckdb.ConversionException("x"), AnalysisError, "cannot read or compute these rows: x; w"),
        (duckdb.IOException("out of range"), AnalysisError, "these rows: out of range; where it"),
        (SparkOverflow("x"), OverflowError, "a sum of amounts has more than"),
        (SparkError("x"), AnalysisError, "cannot read or compute these rows: x; where it names"),
        (SparkError("Cannot cast to Decimal128(38, 18). Overflowing on 1"), OverflowError,
         "an amount or a sum of amounts has more"),
        (ValueError("x"), ValueError, "^x$"),
    ],
)  # fmt: skip
def test_an_engines_errors_are_ours(
    error: Exception, becomes: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = SimpleNamespace(ArithmeticException=SparkOverflow, PySparkException=SparkError)
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "pyspark.errors", fake)
    with pytest.raises(becomes, match=says), engines.engine_errors():
        raise error
    monkeypatch.delitem(sys.modules, "pyspark")
    ours = type(error) if isinstance(error, SparkError) else becomes
    with pytest.raises(ours), engines.engine_errors():
        raise error


def test_texts_that_polars_gives_as_views_are_texts() -> None:
    rows = arrow([transfer("a"), transfer("b")])
    viewed = rows.set_column(0, "id", rows.column("id").cast(pa.string_view()))
    assert records(balances.running(viewed)) == records(balances.running(rows))
