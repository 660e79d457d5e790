"""The same analyses on Spark, to the last digit; and the store read by the cluster.

On Spark Connect, which managed Spark is: by Sail, a server of it that needs no Java. With Java and
the whole of PySpark (``uv pip install pyspark``) also on classic Spark, and on Spark's own Connect.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from extra_packages import needs
from fake_service import FakeService, moment, withdrawal
from fake_service import transfer as service_transfer
from spark_sessions import ENGINES, spark_session
from transfer_examples import (
    DAY,
    START,
    arrow,
    balances_by_hand,
    make_rows,
    observed,
    records,
    table,
    transfer,
)

import fundlab as fl
from fundlab import Store
from fundlab.analysis import balances, checks, events, fees, flows, reconcile
from fundlab.analysis.engines import to_pandas
from fundlab.base.errors import AnalysisError, InvalidRequest, StoreDamaged

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
D = Decimal


@pytest.fixture(
    scope="module",
    params=["sail", *(pytest.param(name, marks=pytest.mark.slow) for name in ENGINES[1:])],
)
def session(request: pytest.FixtureRequest) -> Iterator[Any]:
    with warnings.catch_warnings(), spark_session(request.param) as found:
        warnings.simplefilter("ignore")
        yield found


def as_nanoseconds(frame: pa.Table) -> pa.Table:
    """What Spark can hold: times and durations as integers."""
    for place, field in enumerate(frame.schema):
        if pa.types.is_timestamp(field.type) or pa.types.is_duration(field.type):
            column = frame.column(place)
            if pa.types.is_timestamp(field.type):
                column = column.cast(pa.timestamp("ns", "UTC"))
            frame = frame.set_column(place, field.name, column.cast(pa.int64()))
    return frame


ROWS = make_rows(400)
TABLE = table(ROWS)
REPORTED = observed(balances_by_hand(ROWS), START + 400 * DAY)
BROKEN = table(ROWS[:100] + ROWS[101:])
ANALYSES: dict[str, Callable[[Any], Any]] = {
    "changes": balances.changes,
    "running": lambda rows: balances.running(rows, view="available"),
    "at": lambda rows: balances.at(rows, "2026-06-01"),
    "daily": lambda rows: balances.daily(rows, tz="America/New_York"),
    "statement": lambda rows: balances.statement(rows, "2026-03", tz="America/New_York"),
    "holds": balances.holds,
    "compare": lambda rows: reconcile.compare(rows, REPORTED),
    "invariants": checks.invariants,
    "anomalies": lambda rows: checks.anomalies(rows, dormant_for="3D"),
    "summary": lambda rows: fees.summary(rows, by=["type", "asset"], freq="MS"),
    "summary_of_a_period": lambda rows: fees.summary(rows, by="asset", period="2026-03"),
    "effective": fees.effective,
    "batching": fees.batching,
    "net": lambda rows: flows.net(rows, freq="W", tz="America/New_York"),
    "net_by_the_hour": lambda rows: flows.net(rows, freq="6h"),
    "counterparties": flows.counterparties,
    "conversions": flows.conversions,
    "ageing": lambda rows: flows.ageing(rows, "2026-12-31"),
    "internal_pairs": flows.internal_pairs,
    "settlement_time": flows.settlement_time,
}


@pytest.mark.parametrize("name", ANALYSES)
def test_spark_gives_the_same_to_the_last_digit(name: str, session: Any) -> None:
    analyse = ANALYSES[name]
    found = analyse(session.createDataFrame(as_nanoseconds(TABLE)))
    expected = as_nanoseconds(analyse(TABLE))
    assert type(found).__module__.startswith("pyspark.sql")
    got = as_nanoseconds(found.toArrow())
    assert got.column_names == expected.column_names
    assert got.to_pylist() == expected.to_pylist()


def test_explain_on_spark(session: Any) -> None:
    found = reconcile.explain(session.createDataFrame(as_nanoseconds(BROKEN)), REPORTED)
    expected = reconcile.explain(BROKEN, REPORTED)
    assert expected.num_rows
    assert found.toArrow().to_pylist() == expected.to_pylist()


def test_the_largest_and_the_smallest_meet_exactly(session: Any) -> None:
    rows = [
        transfer("a", amount=D("99999999999999999999.999999999999999999")),
        transfer("b", amount=D("1E-18"), direction="DEBIT", created_at=START + 1),
    ]
    found = balances.running(session.createDataFrame(as_nanoseconds(arrow(rows))))
    assert [row["balance"] for row in found.toArrow().to_pylist()] == [
        D("99999999999999999999.999999999999999999"),
        D("99999999999999999999.999999999999999998"),
    ]


def test_overflow_is_an_error(session: Any) -> None:
    huge = [{**ROWS[0], "id": str(n), "total": D("6E19"), "status": "COMPLETED"} for n in range(2)]
    rows = session.createDataFrame(as_nanoseconds(table(huge)))
    with pytest.raises(OverflowError, match="20 integer digits"):
        reconcile.explain(rows, REPORTED)


@pytest.mark.parametrize("count", [2, 3, 6])
def test_no_sum_wraps_around(session: Any, count: int) -> None:
    """Sail's would, from three on: -160282366920938463463.37 for 180000000000000000000."""
    huge = [{**ROWS[0], "id": str(n), "total": D("6E19"), "status": "COMPLETED"}
            for n in range(count)]  # fmt: skip
    rows = session.createDataFrame(as_nanoseconds(table(huge)))
    # Spark's own error comes when the result is collected.
    refused = (OverflowError, needs("pyspark.errors").ArithmeticException)
    with pytest.raises(refused):
        balances.at(rows, "2027-01-01").toArrow()


def priced(session: Any, value: str, kind: pa.DataType) -> Any:
    rows = as_nanoseconds(arrow([transfer("a")]))
    place = rows.column_names.index("total")
    return session.createDataFrame(rows.set_column(place, "total", pa.array([D(value)], kind)))


def test_digits_that_do_not_fit_are_refused(session: Any) -> None:
    longer = pa.decimal128(38, 20)
    with pytest.raises(AnalysisError, match=r"'total' .* does not fit: 0\.12345678901234567891"):
        balances.at(priced(session, "0.12345678901234567891", longer), "2027-01-01")
    fits = balances.at(priced(session, "0.12345678901234567800", longer), "2027-01-01")
    assert fits.toArrow().to_pylist()[0]["balance"] == D("0.123456789012345678")
    with pytest.raises(OverflowError, match="20 integer digits"):
        balances.at(priced(session, "1E30", pa.decimal128(38, 2)), "2027-01-01").toArrow()


@pytest.mark.filterwarnings("ignore::fundlab.errors.MixedAssetsWarning")
@pytest.mark.parametrize("by", ["profile_id", "status", "day", "step"])
def test_summary_by_names_of_our_own(session: Any, by: str) -> None:
    rows = TABLE.append_column("day", TABLE["type"]).append_column("step", TABLE["type"])
    found = fees.summary(session.createDataFrame(as_nanoseconds(rows)), by=by, freq="MS")
    expected = as_nanoseconds(fees.summary(rows, by=by, freq="MS"))
    assert as_nanoseconds(found.toArrow()).to_pylist() == expected.to_pylist()


def test_the_session_is_left_as_it_was_where_that_is_exact(session: Any) -> None:
    names = ("spark.sql.ansi.enabled", "spark.sql.decimalOperations.allowPrecisionLoss")
    before = [session.conf.get(name) for name in names]
    balances.at(session.createDataFrame(as_nanoseconds(TABLE)), "2026-06-01")
    connect = type(session).__module__.startswith("pyspark.sql.connect")  # plans when it collects
    expected = ["true", "false"] if connect else before
    assert [session.conf.get(name) for name in names] == expected


def test_a_store_elsewhere_is_read_by_the_cluster(session: Any) -> None:
    """Nanoseconds and all, by a Spark that cannot reach it."""
    store = Store(f"memory://{session.version}-{type(session).__module__}/books")
    rows = [service_transfer(1, created_at=moment(1, 123_456_789)), service_transfer(2)]
    store.sync(FakeService(rows), tables=["transfers"])
    store.sync(FakeService([rows[0], rows[1] | {"memo": "x", "updated_at": moment(9)}]), full=True)
    found = store.scan("transfers", spark=session, settled=True).toArrow().to_pylist()
    expected = as_nanoseconds(store.read_arrow("transfers", settled=True)).to_pylist()
    assert found == expected
    assert {row["created_at"] % 1000 for row in found} == {0, 789}
    assert store.scan("addresses", spark=session).count() == 0


def test_events_on_spark(session: Any) -> None:
    told = pa.table(
        {
            "id": ["e1"],
            "type": ["transfer.wire_deposit.completed"],
            "object": ['{"id": "t1", "status": "COMPLETED"}'],
            "created_at": pa.array([START + 5], pa.int64()),
            "undelivered_webhooks": pa.array([2], pa.int64()),
        }
    )
    found = events.backlog(session.createDataFrame(told)).toArrow().to_pylist()
    assert [(row["type"], row["undelivered"], row["oldest"]) for row in found] == [
        ("transfer.wire_deposit.completed", 2, START + 5)
    ]


@pytest.mark.parametrize("name", ["total=999/books", "boo*k", "back\\slash"])
def test_what_the_folder_is_called_changes_nothing(session: Any, tmp_path: Path, name: str) -> None:
    store = Store(tmp_path / name)
    store.sync(FakeService([service_transfer(1)]), tables=["transfers"])
    shutil.copytree(store.path, store.path.parent / "booook")
    found = store.scan("transfers", spark=session).select("total").collect()
    assert [row["total"] for row in found] == [D("10.5")]


@pytest.mark.parametrize("compacted", [False, True])
def test_the_cluster_reads_the_store(session: Any, tmp_path: Path, compacted: bool) -> None:
    store = Store(tmp_path / "store")
    first, second = withdrawal(1, profile_id="p-2"), service_transfer(2)
    for given in ([first], [{**first, "status": "COMPLETED", "updated_at": moment(10)}, second]):
        store.sync(FakeService([dict(row) for row in given]), tables=["transfers"], full=True)
    if compacted:
        store.compact()
    rows = store.scan("transfers", spark=session)
    assert rows.columns == store.scan("transfers", engine="spark", spark=session).columns
    read = as_nanoseconds(store.read_arrow("transfers"))
    assert rows.columns == read.column_names
    assert sorted(rows.toArrow().to_pylist(), key=lambda row: row["id"]) == sorted(
        read.to_pylist(), key=lambda row: row["id"]
    )
    assert records(balances.at(rows, "2030-01-01").toArrow()) == records(
        balances.at(store.read_arrow("transfers"), "2030-01-01")
    )


def test_the_cluster_reads_when_transfers_settled(session: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    first = withdrawal(1, profile_id="p-2")
    for given in ([first], [{**first, "status": "COMPLETED", "updated_at": moment(10)}]):
        store.sync(FakeService([*given, service_transfer(2)]), tables=["transfers"], full=True)
    rows = store.scan("transfers", spark=session, settled=True)
    read = as_nanoseconds(store.read_arrow("transfers", settled=True))
    assert rows.columns == read.column_names
    assert sorted(rows.toArrow().to_pylist(), key=itemgetter("id")) == sorted(
        read.to_pylist(), key=itemgetter("id")
    )
    on_spark = balances.roll_forward(rows, "2026-10", basis="settled").toArrow()
    here = balances.roll_forward(
        store.read_arrow("transfers", settled=True), "2026-10", basis="settled"
    )
    assert records(on_spark) == records(here)


def test_the_cluster_reads_each_state_and_no_damage(session: Any, tmp_path: Path) -> None:
    """Parts, a base and parts again, with rows replaced in each; rows accepted as gone; then a bit
    flips."""
    store = Store(tmp_path / "status=FAILED" / "store")
    for turn, numbers in enumerate(([1, 2, 3, 4], [2, 5], [5, 4, 6], [1, 6], [7])):
        rows = [service_transfer(n, updated_at=moment(100 * turn + n)) for n in numbers]
        store.sync(FakeService(rows, complete=True), tables=["transfers"], full=True)
        store.pin(f"turn-{turn}")
        if turn == 2:
            store.compact()
    left = FakeService([service_transfer(n) for n in (1, 2, 5, 7)], complete=True)
    store.sync(left, tables=["transfers"], full=True)
    store.accept_gone(by="Ana", reason="never executed")
    store.pin("accepted")
    assert store.scan("transfers", spark=session).count() == 4
    for state in ({}, *({"pin": name} for name in store.pins())):
        found = store.scan("transfers", spark=session, **state).toArrow().to_pylist()
        expected = as_nanoseconds(store.read_arrow("transfers", **state)).to_pylist()
        assert sorted(found, key=itemgetter("id")) == sorted(expected, key=itemgetter("id")), state
    for path in [part.path for part in store.snapshot("transfers").files]:
        intact = path.read_bytes()
        path.write_bytes(intact[:150] + bytes([intact[150] ^ 1]) + intact[151:])
        with pytest.raises(StoreDamaged, match=path.name):
            store.scan("transfers", spark=session)
        path.write_bytes(intact)


def test_what_spark_gives_is_shown_with_the_number_of_its_rows(session: Any) -> None:
    frame = session.createDataFrame([(n, "USD") for n in range(7)], ["n", "asset"])
    shown = fl.show(frame, rows=2)
    assert (len(shown.rows), shown.hidden) == (2, 5)
    assert repr(shown).endswith("\n7 rows, 5 of them not shown (rows= shows more)")


def test_a_session_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="give spark=session"):
        Store(tmp_path).scan("transfers", engine="spark")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["running", "at", "daily", "compare", "invariants", "summary", "effective", "net"]
)
def test_a_million_transfers_equal_pandas(name: str, session: Any, million: Any) -> None:
    """As rows that a hundred services of ten thousand transfers each would give."""
    rows, here, on_spark = million
    analyse = ANALYSES[name]
    expected = as_nanoseconds(pa.Table.from_pandas(analyse(here), preserve_index=False))
    found = as_nanoseconds(analyse(on_spark).toArrow())
    for field in found.schema:  # pandas has no days: midnights
        if pa.types.is_date(field.type):
            days = expected.column(field.name).cast(pa.timestamp("ns")).cast(field.type)
            expected = expected.set_column(
                expected.column_names.index(field.name), field.name, days
            )
    assert rows.num_rows == 1_000_000
    assert found.column_names == expected.column_names
    order = [(column, "ascending") for column in expected.column_names]
    assert found.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()


@pytest.fixture(scope="module")
def million(session: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, Any, Any]:
    some = table(make_rows(10_000))
    parts = []
    for turn in range(100):
        part = some
        for name in ("id", "profile_id", "group_id"):
            renamed = pc.binary_join_element_wise(part.column(name), str(turn), "-")
            part = part.set_column(part.column_names.index(name), name, renamed)
        parts.append(part)
    rows = pa.concat_tables(parts)
    path = tmp_path_factory.mktemp("million") / "rows.parquet"
    pq.write_table(as_nanoseconds(rows), path)
    return rows, to_pandas(rows), session.read.parquet(str(path))
