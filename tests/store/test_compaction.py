"""A store that is synced every day is read as fast as one that was loaded in one go."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from fake_service import FakeService, moment, transfer, withdrawal
from hypothesis import given, settings
from hypothesis import strategies as st

from fundlab import Store
from fundlab.base.errors import StoreDamaged, StoreError
from fundlab.store import compaction, parts, store_files
from fundlab.store.manifests import File, Manifest
from fundlab.sync.run import SyncResult

DAYS = 28
FEW = 3


def a_day(service: FakeService, day: int) -> None:
    """Two transfers more, an event, and yesterday's withdrawal has been paid."""
    for row in service.transfers:
        if row["status"] == "PENDING":
            row.update(status="COMPLETED", updated_at=moment(1000 * day))
    service.transfers += [
        transfer(2 * day, created_at=moment(1000 * day + 1)),
        withdrawal(2 * day + 1, created_at=moment(1000 * day + 2), amount="1", total="1"),
    ]
    service.events.append({"id": f"e-{day}", "created_at": moment(1000 * day)})


@pytest.fixture(scope="module")
def daily(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A store synced on so many days, the service, and what was known after each sync."""
    store, service = Store(tmp_path_factory.mktemp("daily") / "store"), FakeService()
    found: dict[str, Any] = {"store": store, "service": service, "known": [], "results": []}
    for day in range(DAYS):
        a_day(service, day)
        found["results"].append(store.sync(service))  # type: ignore[arg-type]
        at = store.snapshot("transfers").publications[-1].published_at
        found["known"].append((at, {row["id"]: row["status"] for row in service.transfers}))
        if day in (0, 7, 8, 25):
            store.pin(f"day-{day}")
    return found


@pytest.mark.seconds
class TestDailySyncs:
    @pytest.mark.thorough
    @pytest.mark.parametrize("table", ["transfers", "events", "balances"])
    def test_leave_few_files_to_read(self, daily: dict[str, Any], table: str) -> None:
        assert len(daily["store"].snapshot(table).files) <= FEW

    def test_say_what_was_merged(self, daily: dict[str, Any]) -> None:
        merged = [result for result in daily["results"] if result.compacted]
        assert len(merged) == 9
        for result in merged:
            assert result.compacted == ("transfers", "events", "balances")
            assert result.to_json()["compacted"] == result.compacted
            assert "merged the files of transfers, events, balances" in str(result)

    def test_keep_every_state_readable(self, daily: dict[str, Any]) -> None:
        store, known = daily["store"], daily["known"]
        for at, expected in known:
            frame = store.read("transfers", as_of=pd.Timestamp(at, tz="UTC"))
            assert dict(zip(frame["id"], frame["status"], strict=True)) == expected
        for day in (0, 7, 8, 25):
            frame = store.read("transfers", pin=f"day-{day}")
            assert dict(zip(frame["id"], frame["status"], strict=True)) == known[day][1]

    def test_keep_every_version(self, daily: dict[str, Any]) -> None:
        history = daily["store"].history("transfers")
        assert len(history) == 3 * DAYS - 1  # the last withdrawal is not paid yet
        brought = history.groupby("published_at", observed=True).size()
        assert brought.index.astype("int64").tolist() == [at for at, _ in daily["known"]]
        assert len(daily["store"].history("balances")) == DAYS
        assert len(daily["store"].read("events")) == DAYS

    def test_stay_proved_from_each_balance_to_the_next(self, daily: dict[str, Any]) -> None:
        found = daily["store"].verify()
        assert (found.ok, found.intervals) == (True, DAYS)
        assert daily["store"].assertions()["complete"].all()

    def test_go_on_asking_only_for_what_is_new(self, daily: dict[str, Any]) -> None:
        """Last, because it syncs once more."""
        service = daily["service"]
        service.calls.clear()
        result = daily["store"].sync(service)
        assert result["transfers"].fetched <= 3
        assert all(
            any(name.endswith(".gte") for name in params)
            for operation, params in service.calls
            if operation in ("list_transfers", "list_events") and "ids" not in params
        )


@pytest.mark.seconds
def test_a_store_that_was_never_merged_is_by_its_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, service = Store(tmp_path / "store"), FakeService()
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "pays", lambda snapshot: False)
        for day in range(10):
            a_day(service, day)
            store.sync(service)  # type: ignore[arg-type]
    assert len(store.snapshot("transfers").files) == 10
    before = store.history("transfers")
    result = store.sync(service)  # type: ignore[arg-type]
    assert result["transfers"].part is None
    assert result.compacted == ("transfers", "events", "balances")
    assert len(store.snapshot("transfers").files) == 1
    assert store.history("transfers").equals(before)


def test_a_large_change_is_merged_at_once_and_a_few_rows_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a hundredth of the size: an eighth of 4,000 rows is more than eight files are worth."""
    for name, rows in (("FILE_ROWS", 50), ("FEW_ROWS", 150), ("WORTH_ROWS", 400)):
        monkeypatch.setattr(compaction, name, rows)
    store = Store(tmp_path / "store")
    service = FakeService([transfer(n) for n in range(4_000)])
    store.sync(service, ["transfers"])  # type: ignore[arg-type]
    for count, merged in ((300, ()), (500, ("transfers",))):
        for row in service.transfers[:count]:
            row.update(updated_at=moment(20_000 + count), memo=f"{count}")
        result = store.sync(service, ["transfers"])  # type: ignore[arg-type]
        assert (result["transfers"].changed, result.compacted) == (count, merged)
    assert store.read("transfers")["memo"].eq("500").sum() == 500


@dataclass(frozen=True)
class Sized:
    """A file as far as the rule of merging looks at it."""

    rows: int
    replaced: int = 0

    @property
    def replacing(self) -> dict[int, int]:
        return {0: self.replaced}


@pytest.mark.parametrize(
    ("days", "a_day", "files", "rewritten"),
    [(60, 110, 3, 2_500), (1_100, 20, 3, 4_000), (1_100, 110, 8, 15_000), (400, 5_000, 43, 42_000)],
)
def test_a_small_table_is_merged_early_and_a_large_one_not_too_often(
    days: int, a_day: int, files: int, rewritten: int
) -> None:
    """Most files there are after a sync, and rows rewritten by one on average."""
    there: list[Sized] = []
    most, total = 0, 0
    for _ in range(days):
        there.append(Sized(a_day, a_day // 11))
        if compaction.pays(SimpleNamespace(files=there)):  # type: ignore[arg-type]
            there = [Sized(sum(file.rows for file in there))]
            total += there[0].rows
        most = max(most, len(there))
    assert most <= files
    assert total / days <= rewritten


@pytest.mark.parametrize(
    ("sizes", "replaced", "more"),
    [
        ([0, 0, 0], 4_999, 5_000),  # 15,000 for any table
        ([1, 1, 29_998], 4_999, 5_000),
        ([40_000, 1, 1], 10_000, 10_001),  # half of 40,002 rows
        ([59_000, 500, 502], 19_999, 20_000),  # six files, from 60,000 rows
        ([240_005, 0, 0], 19_999, 20_000),
        ([240_008, 0, 0], 20_000, 20_001),  # an eighth
    ],
)
def test_merging_pays_from_just_as_many_rows_on(sizes: list[int], replaced: int, more: int) -> None:
    """Two later files are worth 10,000 rows, each row replaced one; what the first replaced is as
    it was."""
    for count, pays in ((replaced, False), (more, True)):
        first, second, third = sizes
        files = [Sized(first, 50_000), Sized(second, count), Sized(third)]
        assert compaction.pays(SimpleNamespace(files=files)) is pays  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "age_s", "base_age_s", "removed"),
    [
        ("part-00000002-0123456789abcdef.parquet", 3_600, 3_600, True),
        ("part-00000002-0123456789abcdef.parquet", 3_599, 3_600, False),
        ("part-00000002-0123456789abcdef.parquet", 3_600, 3_599, False),
        ("part-00000003-0123456789abcdef.parquet", 3_600, 3_600, True),
        ("part-00000004-0123456789abcdef.parquet", 9_999, 9_999, False),
        (".part-00000003-0123456789abcdef.parquet.tmp", 0, 0, True),
        ("base-00000003-0123456789abcdef.parquet", 9_999, 9_999, False),
        ("notes.parquet", 9_999, 9_999, False),
    ],
)
def test_what_was_merged_goes_an_hour_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    name: str, age_s: int, base_age_s: int, removed: bool,
) -> None:  # fmt: skip
    """The base is of the third publication, the newest."""
    base = "base-00000003-0123456789abcdef.parquet"
    monkeypatch.setattr(compaction, "time", SimpleNamespace(time=lambda: 1_000_000.0))
    folder = tmp_path / "transfers"
    folder.mkdir()
    for path, age in ((folder / name, age_s), (folder / base, base_age_s)):
        path.touch()
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    newest = Manifest(3, files={"transfers": (File(base, 0, ""),)})
    compaction.remove_superseded(folder, newest)
    assert (folder / name).exists() is not removed
    assert (folder / base).exists()
    if name != base:
        (folder / name).touch()
        os.utime(folder / name, (0, 0))
        (folder / base).unlink()
        compaction.remove_superseded(folder, newest)
        assert (folder / name).exists()  # a repair may want it


class TestWhereMergingFails:
    def test_a_full_disk_leaves_the_sync_done(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(compaction, "FEW_ROWS", compaction.FILE_ROWS)
        store = Store(tmp_path / "store")

        def sync(count: int) -> SyncResult:
            service = FakeService([transfer(n) for n in range(count)])
            return store.sync(service, ["transfers"])  # type: ignore[arg-type]

        def full(*given: Any) -> Any:
            raise StoreError("base.tmp cannot be written: No space left on device")

        sync(1)
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "fundlab"):
            patch.setattr(compaction, "write_part", full)
            result = sync(2)
        assert (result.new, result.compacted) == (1, ())
        assert "transfers: the sync is complete, but its files were not merged: " in caplog.text
        assert "No space left" in caplog.text
        assert len(store.read("transfers")) == 2
        assert sync(3).compacted == ("transfers",)

    def test_a_file_that_cannot_have_its_name_changes_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store, service = Store(tmp_path / "store"), FakeService([transfer(1)])
        store.sync(service, ["transfers"])  # type: ignore[arg-type]
        service.transfers.append(transfer(2))
        store.sync(service, ["transfers"])  # type: ignore[arg-type]
        before = sorted(path for path in store.path.rglob("*") if path.is_file())

        def full(*given: Any) -> Any:
            raise StoreError("base.parquet cannot be written: No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(store_files.disk, "publish", full)
            with pytest.raises(StoreError, match="No space left"):
                store.compact(["transfers"])
        assert sorted(path for path in store.path.rglob("*") if path.is_file()) == before
        assert len(store.read("transfers")) == 2
        assert [*store.compact(["transfers"])] == ["transfers"]

    def test_damage_is_an_error_and_what_was_fetched_is_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In an old row, which no sync asks for any more."""
        monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 1)
        monkeypatch.setattr(compaction, "FEW_ROWS", compaction.FILE_ROWS)
        store = Store(tmp_path / "store")
        service = FakeService([transfer(1), transfer(5000)])
        store.sync(service, ["transfers"])  # type: ignore[arg-type]
        (part,) = store.snapshot("transfers").files
        content = bytearray((store.path / "transfers" / part.path.name).read_bytes())
        column = part.metadata.schema.names.index("memo")
        content[part.metadata.row_group(0).column(column).data_page_offset + 3] ^= 1
        (store.path / "transfers" / part.path.name).write_bytes(content)
        service.transfers.append(transfer(9000))
        with pytest.raises(StoreDamaged, match=part.path.name):
            store.sync(service, ["transfers"])  # type: ignore[arg-type]
        assert len(store.read("transfers", columns=["id"])) == 3


def test_rows_without_a_moment_are_merged_after_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 1)
    monkeypatch.setattr(compaction, "FEW_ROWS", 0)
    store, service = Store(tmp_path / "store"), FakeService([])
    for number, made in enumerate((moment(1), "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z")):
        later = moment(100 + number)
        service.transfers.append(transfer(number, created_at=made, updated_at=later))
        store.sync(service, ["transfers"], full=True)  # type: ignore[arg-type]
    store.compact()
    assert len(store.snapshot("transfers").files) == 1
    found = store.read_arrow("transfers", columns=["id"]).column("id").to_pylist()
    assert found == [service.transfers[number]["id"] for number in (0, 1, 2)]


def test_rows_are_handed_on_as_soon_as_none_that_is_read_later_can_be_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a table larger than the memory can be merged."""
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 2)
    monkeypatch.setattr(compaction, "FEW_ROWS", 0)
    store, service = Store(tmp_path / "store"), FakeService([])
    for day in range(6):
        service.transfers += [transfer(1000 * day + n) for n in range(2)]
        store.sync(service, ["transfers"])  # type: ignore[arg-type]
    found = [len(rows) for rows in compaction._current(store.snapshot("transfers"))]
    assert [rows for rows in found if rows] == [2] * 6


moments = st.integers(0, 40)
publications = st.lists(
    st.dictionaries(st.integers(0, 25), moments, min_size=1), min_size=2, max_size=5
)


@pytest.mark.thorough
@settings(max_examples=15, deadline=None)
@given(steps=publications, group_rows=st.integers(1, 9))
def test_merged_rows_are_in_the_order_of_time(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[int, int]], group_rows: int
) -> None:
    """Whichever overlap, whatever moved in time: all of them, and row groups as large as may be."""
    store = Store(tmp_path_factory.mktemp("law") / "store")
    rows: dict[str, dict[str, Any]] = {}
    for later, step in enumerate(steps):
        for number, at in step.items():
            made = transfer(number, created_at=moment(at), updated_at=moment(100 + later))
            rows[made["id"]] = made
        service = FakeService(list(rows.values()))
        store.sync(service, ["transfers"], full=True)  # type: ignore[arg-type]
    versions = len(store.history("transfers"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROW_GROUP_ROWS", group_rows)
        if len(store.snapshot("transfers").files) > 1:
            store.compact()
            (part,) = store.snapshot("transfers").files
            sizes = [size for size, _, _ in part.header.row_groups]
            live = part.header.live_groups or 0
            assert sum(sizes[:live]) == len(rows)
            assert sum(sizes) == versions
            assert max(sizes) <= group_rows
    expected = sorted(rows.values(), key=lambda row: (row["created_at"], row["id"]))
    found = store.read_arrow("transfers", columns=["id"]).column("id").to_pylist()
    if len(store.snapshot("transfers").files) == 1:
        assert found == [row["id"] for row in expected]


class TestCommand:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        store = Store(tmp_path / "store")
        for count in (1, 2):
            events = [{"id": f"e-{n}", "created_at": moment(n)} for n in range(count)]
            service = FakeService([transfer(n) for n in range(count)], events=events)
            store.sync(service, ["transfers", "events"])  # type: ignore[arg-type]
        return store

    def test_merges_the_tables_named(self, store: Store, fundlab: Any) -> None:
        status, out, _ = fundlab("compact", "transfers", "--store", store.path)
        assert (status, out) == (0, f"merged the files of transfers in {store.path}\n")
        counts = {table: len(store.snapshot(table).files) for table in ("transfers", "events")}
        assert counts == {"transfers": 1, "events": 2}

    def test_merges_all_as_json_and_the_second_time_nothing(
        self, store: Store, fundlab: Any
    ) -> None:
        status, out, _ = fundlab("compact", "--store", store.path, "--json")
        body = json.loads(out)
        assert (status, body["store"]) == (0, str(store.path))
        assert set(body["compacted"]) == {"transfers", "events"}
        for table, path in body["compacted"].items():
            assert Path(path) == store.snapshot(table).files[0].path
        assert json.loads(fundlab("compact", "--store", store.path, "--json")[1])["compacted"] == {}
        found = fundlab("compact", "--store", store.path)
        assert found[:2] == (0, f"each table of {store.path} is one file already\n")

    def test_ends_with_4_while_another_run_holds_the_store(
        self, store: Store, fundlab: Any
    ) -> None:
        with store.lock():
            status, out, _ = fundlab("compact", "--store", store.path, "--json")
        assert (status, json.loads(out)["error"]["type"]) == (4, "StoreLocked")

    def test_ends_with_2_for_wrong_usage_and_1_where_there_is_no_store(
        self, tmp_path: Path, fundlab: Any
    ) -> None:
        assert fundlab("compact", "transfer")[0] == 2
        status, _, err = fundlab("compact", "--store", tmp_path / "none")
        assert status == 1
        assert "there is no store at" in err
