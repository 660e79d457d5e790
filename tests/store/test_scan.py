"""``Store.scan``: the rows of ``read``, all files read as one, none of them unverified."""

from __future__ import annotations

import itertools
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from extra_packages import needs
from fake_service import FakeService, moment, rewrite, transfer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import AnalysisError, InvalidRequest, StoreDamaged, StoreError
from fundlab.reports import job
from fundlab.store import compaction, parts, scan
from fundlab.store.parts import TO
from fundlab.store.remote import RemotePath
from fundlab.tables import to_frame

EDITS = st.lists(
    st.one_of(
        st.lists(st.integers(0, 39), min_size=1, max_size=12, unique=True),  # synced, some again
        st.sampled_from(["compact", "pin"]),
    ),
    min_size=1,
    max_size=7,
)


def ticking() -> Callable[[], int]:
    ticks = iter(range(1_800_000_000 * 10**9, 2**62, 10**9))
    return lambda: next(ticks)


def synced(store: Store, numbers: list[int], turn: int) -> None:
    rows = [transfer(n, updated_at=moment(100 * turn + n), memo=f"turn {turn}") for n in numbers]
    store.sync(FakeService(rows), tables=["transfers"], full=True)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three parts; rows of the first are replaced in both others."""
    found = Store(tmp_path / "books")
    for turn, numbers in enumerate(([1, 2, 3, 4], [2, 5], [4, 6])):
        synced(found, numbers, turn)
    return found


@pytest.mark.seconds
@settings(
    max_examples=5, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(edits=EDITS, chunk=st.integers(2, 9))
def test_a_scan_gives_the_rows_of_read(
    tmp_path_factory: pytest.TempPathFactory, edits: list[Any], chunk: int
) -> None:
    """Whatever was replaced, compacted and pinned: of each publication and of now."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROW_GROUP_ROWS", chunk)
        store = Store(tmp_path_factory.mktemp("scan"), clock=ticking())
        for turn, edit in enumerate(edits):
            if edit == "compact":
                store.compact()
            elif edit == "pin":
                store.pin(f"turn-{turn}")
            else:
                synced(store, edit, turn)
    states = [{}, *({"pin": name} for name in store.pins())]
    states += [{"as_of": at} for at in store.history("transfers")["published_at"].unique()]
    for state in states:
        rows = store.scan("transfers", **state).order("created_at, id").to_arrow_table()
        found = to_frame(rows, "transfers")
        assert found.equals(store.read("transfers", **state)), state


def test_what_a_base_has_of_replaced_rows_is_none_of_now_beside_a_later_part(store: Store) -> None:
    store.compact()
    synced(store, [1, 9], 5)
    snapshot = store.snapshot("transfers")
    assert [TO in part.names for part in snapshot.files] == [True, False]
    ids = [row[0] for row in store.scan("transfers").order("id").project("id").fetchall()]
    assert ids == [f"t-{number:06d}" for number in (1, 2, 3, 4, 5, 6, 9)]


@pytest.mark.seconds
def test_many_parts_are_opened_as_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one branch of the query a part: binding and planning those took most of the time."""
    monkeypatch.setattr(compaction, "pays", lambda snapshot: False)
    for turn in range(3, 12):
        synced(store, [turn, turn + 20], turn)
    assert len(store.snapshot("transfers").files) == 12
    relation = store.scan("transfers")
    assert len(re.findall("(?i)(?:read_parquet|parquet_scan)", relation.explain())) == 1
    assert relation.aggregate("count(*)").fetchall() == [(20,)]
    store.compact()
    synced(store, [40], 40)
    assert (
        len(re.findall("(?i)(?:read_parquet|parquet_scan)", store.scan("transfers").explain())) < 3
    )


def test_of_an_empty_store_spark_has_the_columns(tmp_path: Path) -> None:
    needs("pyspark")
    session: Any = SimpleNamespace(
        conf=SimpleNamespace(set=lambda name, value: None),
        createDataFrame=lambda rows, types: (rows, types.split(", ")),
    )
    store = Store(tmp_path)
    synced(store, [], 0)
    found: Any = scan.scan_with_spark(store.snapshot("events"), session)
    rows, types = found
    assert rows == []
    assert types == [
        "`id` string", "`type` string", "`object_type` string", "`object` string",
        "`created_at` bigint", "`undelivered_webhooks` bigint", "`is_test` boolean",
        "`extra` string",
    ]  # fmt: skip


def test_a_column_that_older_files_lack_is_null(store: Store) -> None:
    before = store.read("transfers")
    oldest = sorted((store.path / "transfers").iterdir())[0]
    rewrite(oldest, pq.read_table(oldest).drop_columns(["memo"]))
    expected = before["memo"].where(~before["memo"].eq("turn 0"))
    rows = store.scan("transfers").order("created_at, id")
    found = to_frame(rows.to_arrow_table(), "transfers")
    assert found["memo"].isna().tolist() == expected.isna().tolist()
    assert found.drop(columns="memo").equals(before.drop(columns="memo"))
    assert str(rows.select("memo").types[0]) == "VARCHAR"


def test_an_enumeration_that_older_files_lack_is_missing_in_a_frame(store: Store) -> None:
    before = store.read("transfers")
    oldest = sorted((store.path / "transfers").iterdir())[0]
    rewrite(oldest, pq.read_table(oldest).drop_columns(["type"]))
    found = store.read("transfers")
    assert found["type"].isna().tolist() == before["memo"].eq("turn 0").tolist()
    assert found.drop(columns="type").equals(before.drop(columns="type"))


def test_rows_held_in_duckdb_are_those_of_a_scan(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their texts come as codes, of other dictionaries in each row group and file: one of a text
    for each row, one of none, and a file without the column."""
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 2)
    monkeypatch.setattr(compaction, "pays", lambda snapshot: False)
    rows = [transfer(n, updated_at=moment(n), memo=f"turn {n}") for n in (7, 8, 9, 10)]
    del rows[1]["memo"]
    store.sync(FakeService(rows), tables=["transfers"], full=True)  # type: ignore[arg-type]
    oldest = sorted((store.path / "transfers").iterdir())[0]
    rewrite(oldest, pq.read_table(oldest).drop_columns(["memo"]))
    columns = ["id", "status", "memo", "profile_id", "total", "group_id"]
    snapshots = store.snapshot("transfers"), store.snapshot("events")
    held = scan.hold_in_duckdb(*snapshots, columns, duckdb.connect())
    known = store.scan("transfers", settled=True).project(", ".join([*columns, "settled_at"]))
    found, expected = (one.order("id").fetchall() for one in (held, known))
    assert found == expected
    assert {row[2] for row in found} >= {None, "turn 1", "turn 2", "turn 7", "turn 10"}


def test_a_scan_leaves_nothing_on_a_connection(store: Store) -> None:
    connection = duckdb.connect()
    count = "SELECT count(*) FROM duckdb_views() WHERE NOT internal"
    before = connection.execute(count).fetchall()
    assert len(store.scan("transfers", connection=connection).fetchall()) == 6
    assert connection.execute(count).fetchall() == before


# ---------------------------------------------------------------------------- damage


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 16
    path.write_bytes(content)


@pytest.mark.parametrize("unnoticed", [False, True])
def test_a_flipped_bit_is_noticed_by_the_next_scan(store: Store, unnoticed: bool) -> None:
    """Also where the file was found intact before, and keeps its size and time."""
    path = sorted((store.path / "transfers").iterdir())[1]
    long_ago = path.stat().st_mtime_ns - 10**12
    os.utime(path, ns=(long_ago, long_ago))
    store.scan("transfers")
    flip(path, 100)
    if unnoticed:
        os.utime(path, ns=(long_ago, long_ago))
    for way in (
        store.scan,
        lambda _: fl.balances.at(store, "2027-01-01"),
        lambda _: fl.report(store),
    ):
        with pytest.raises(StoreDamaged, match=path.name):
            way("transfers")


def test_a_file_is_read_to_be_verified_once_in_a_process(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (store.path / "transfers").iterdir():
        os.utime(path, ns=(10**18, 10**18))
    monkeypatch.setattr("fundlab.store.disk._MOMENT_NS", -1)  # as if that were long ago
    store.scan("transfers")
    read: list[str] = []
    monkeypatch.setattr("fundlab.store.parts.check_data", lambda part: read.append(part.path.name))
    store.scan("transfers")
    assert read == []
    monkeypatch.setattr(compaction, "pays", lambda snapshot: False)
    synced(store, [7], 7)
    store.scan("transfers")
    assert [name[:13] for name in read] == ["part-00000004"]


# ---------------------------------------------------------------------------- what engines say


def test_what_an_engine_says_never_arrives_raw(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files that go, or are damaged, between the check and the query."""
    relation = store.scan("transfers")
    path = sorted((store.path / "transfers").iterdir())[0]
    content = path.read_bytes()
    path.write_bytes(content[:300])
    with pytest.raises(AnalysisError, match="scan the store again") as caught:
        fl.balances.daily(relation)
    assert "\n" not in str(caught.value)
    path.write_bytes(content)

    @scan.queries
    def work(store: Store) -> Any:
        raise duckdb.IOException("IO Error: something\nLINE 1: select")

    with pytest.raises(StoreError, match=r"books: a query failed: IO Error: something$"):
        work(store)


def test_a_compaction_between_scan_and_query(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the project asks of a scan itself begins again; a part of it is not believed."""
    original, turns = Store.scan, iter([True])

    def late(self: Store, *args: Any, **options: Any) -> Any:
        relation = original(self, *args, **options)
        if next(turns, False):
            merged_at_once(self)
        return relation

    expected = job.missing_months(store, tmp_path / "out")
    monkeypatch.setattr(Store, "scan", late)
    assert job.missing_months(store, tmp_path / "out") == expected != []
    assert next(turns, None) is None


def merged_at_once(store: Store) -> None:
    Store(store.path).compact()
    for part in (store.path / "transfers").glob("part-*"):
        part.unlink()


def test_a_file_that_goes_while_it_is_verified(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, turns = scan.check_files, iter([True])

    def late(parts: Any) -> None:
        if next(turns, False):
            merged_at_once(store)
        original(parts)

    monkeypatch.setattr(scan, "check_files", late)
    assert len(store.scan("transfers").fetchall()) == 6
    assert next(turns, None) is None


def test_files_that_go_while_a_stream_is_written_are_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not said to be a disk that refuses the file that is written."""
    original, turns = parts.PartReader.__init__, iter([True])

    def late(reader: parts.PartReader, *given: Any) -> None:
        if [*tmp_path.glob(".out.parquet.*")] and next(turns, False):
            merged_at_once(store)
        original(reader, *given)

    monkeypatch.setattr(parts.PartReader, "__init__", late)
    assert fl.balances.write_running(store, tmp_path / "out.parquet") == 6
    assert next(turns, None) is None


def test_what_a_query_says_is_about_the_store(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it was compacted meanwhile, or one of its files is not what was written."""

    def asked(error: Exception) -> Any:
        @scan.queries
        def work(store: Store) -> Any:
            raise error

        return work(store)

    own = AnalysisError("of no unit")
    with pytest.raises(AnalysisError) as caught:
        asked(own)
    assert caught.value is own
    path = sorted((store.path / "transfers").iterdir())[0]
    flip(path, 100)
    with pytest.raises(StoreDamaged, match=path.name):
        asked(duckdb.IOException("odd"))


def test_what_duckdb_cannot_read_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []
    monkeypatch.setattr(scan, "check_files", lambda parts: checked.append(len(parts)))

    def refuse(*_: Any) -> str:
        raise duckdb.IOException("IO Error: odd\nLINE 1")

    monkeypatch.setattr(scan, "_current_rows", refuse)
    snapshot = store.snapshot("transfers")
    one: Any = SimpleNamespace(files=snapshot.files[:1], table=snapshot.table)
    for held in (snapshot, one):
        with pytest.raises(StoreError, match=r"transfers: DuckDB cannot read it: IO Error: odd$"):
            scan.scan_with_duckdb(held)
    assert checked == [3, 3, 1, 1]
    with pytest.raises(InvalidRequest, match=r"give either connection, .* or memory_limit"):
        store.scan("transfers", connection=duckdb.connect(), memory_limit="1GB")


def test_rows_accepted_as_gone_are_in_no_scan(store: Store) -> None:
    snapshot = replace(store.snapshot("transfers"), accepted_gone={"t-000002": 1, "it's": 1})
    ids = scan.scan_with_duckdb(snapshot).project("id").order("id").fetchall()
    assert ids == [(f"t-{n:06d}",) for n in (1, 3, 4, 5, 6)]


def test_a_file_elsewhere_needs_fsspec(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = store.snapshot("transfers")
    remote = RemotePath("books/x.parquet", "gs", Path(), None)
    parts = [SimpleNamespace(path=remote, names=one.names) for one in snapshot.files]
    elsewhere = SimpleNamespace(table=snapshot.table, files=parts)
    monkeypatch.setitem(sys.modules, "fundlab.store.remote_files", None)
    with pytest.raises(InvalidRequest, match=r"gs://books/x\.parquet: .* pip install fsspec"):
        scan._current_rows(elsewhere, duckdb.connect())  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- beside a compaction


def rows_of(ids: list[str]) -> int:
    assert len(set(ids)) == len(ids)
    return len(ids)


READERS: dict[str, Callable[[Store], int]] = {
    "read": lambda store: rows_of(store.read("transfers")["id"].tolist()),
    "scan": lambda store: rows_of([row[0] for row in store.scan("transfers").fetchall()]),
    "an older scan": lambda store: older_scan(store),
    "balances.at": lambda store: len(fl.balances.at(store, "2027-01-01").fetchall()),
    "running": lambda store: rows_of(fl.balances.running(store).read_all()["id"].to_pylist()),
    "write_running": lambda store: fl.balances.write_running(store, store.path / "out.parquet"),
    "verify": lambda store: int(store.verify().ok),
    "export": lambda store: (
        fl.exports.export_table(store, "transfers", store.path / "out.json", "json").rows
    ),
}


def older_scan(store: Store) -> int:
    """What was scanned stays readable after a compaction that came between."""
    relation, seen = store.scan("transfers"), len(store.snapshot("transfers").publications)
    for _ in range(200):
        if len(store.snapshot("transfers").publications) > seen + 1:
            break
        time.sleep(0.01)
    return rows_of([row[0] for row in relation.fetchall()])


@pytest.mark.parametrize(
    "rounds",
    [pytest.param(3, marks=pytest.mark.thorough), pytest.param(26, marks=pytest.mark.campaign)],
)
def test_readers_beside_compactions_meet_no_error(store: Store, rounds: int) -> None:
    beside_compactions(store, rounds, READERS)


def test_where_what_was_merged_goes_at_once_reading_begins_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a filesystem that does not say when a file was written."""
    monkeypatch.setattr(compaction, "GRACE_S", -60)
    again = {name: READERS[name] for name in ("read", "write_running", "verify", "export")}
    beside_compactions(store, 4, again, pause_s=1.5)


def beside_compactions(
    store: Store, rounds: int, readers: dict[str, Callable[[Store], int]], pause_s: float = 0
) -> None:
    done, turns = threading.Event(), itertools.count(3)

    def compacting() -> int:
        for turn in turns:
            if done.is_set():
                return turn
            synced(store, [1 + turn % 6, 2], turn)
            Store(store.path).compact()
            done.wait(pause_s)
        return 0

    with ThreadPoolExecutor(1) as other:
        busy = other.submit(compacting)
        try:
            for name in [*readers] * rounds:
                expected = 1 if name in ("verify", "balances.at") else 6
                assert readers[name](Store(store.path)) == expected, name
        finally:
            done.set()
        assert busy.result() > 3
