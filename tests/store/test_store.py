"""The store: newest wins, nothing is forgotten, damage is noticed."""

import errno
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_service import FakeService, forge_manifest, moment, transfer, withdrawal
from hypothesis import given, settings
from hypothesis import strategies as st

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import (
    InvalidRequest,
    StoreDamaged,
    StoreError,
    StoreLocked,
    UnknownValueWarning,
)
from fundlab.base.values import Instant
from fundlab.store import compaction, disk, parts, snapshot
from fundlab.tables import to_arrow, to_frame


def sync(store: Store, *records: dict[str, Any]) -> None:
    store.sync(FakeService([dict(record) for record in records]), tables=["transfers"], full=True)


def files(store: Store, table: str = "transfers") -> list[Path]:
    return sorted((store.path / table).glob("*.parquet"))


def sweep(store: Store) -> None:
    """As every run does that writes."""
    with store.lock():
        pass


def let_an_hour_pass(store: Store) -> None:
    an_hour_ago = time.time() - 3_600
    for path in store.path.rglob("*.parquet"):
        os.utime(path, (an_hour_ago, an_hour_ago))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three versions of one transfer, one of another, in three publications: as parts and as one
    file, for each test to copy."""
    folder = tmp_path_factory.mktemp("made")
    found = Store(folder / "parts")
    first, second = withdrawal(1, profile_id="p-2"), transfer(2)
    sync(found, first)
    sync(found, {**first, "status": "COMPLETED", "updated_at": moment(10)}, second)
    sync(found, {**first, "status": "FAILED", "updated_at": moment(20)}, second)
    compacted = Store(shutil.copytree(found.path, folder / "compacted"))
    compacted.compact()
    return {"parts": found.path, "compacted": compacted.path}


@pytest.fixture
def store(made: dict[str, Path], tmp_path: Path) -> Store:
    return Store(shutil.copytree(made["parts"], tmp_path / "store"))


@pytest.fixture(params=["parts", "compacted"])
def either(made: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    """The same store, as parts and as one file."""
    return Store(shutil.copytree(made[request.param], tmp_path / "store"))


class TestReading:
    def test_the_newest_version_wins(self, either: Store) -> None:
        frame = either.read("transfers")
        assert frame[["id", "status"]].values.tolist() == [
            ["t-000001", "FAILED"],
            ["t-000002", "COMPLETED"],
        ]

    def test_history_has_every_version(self, either: Store) -> None:
        frame = either.history("transfers")
        assert frame[["id", "status"]].values.tolist() == [
            ["t-000001", "PENDING"],
            ["t-000001", "COMPLETED"],
            ["t-000002", "COMPLETED"],
            ["t-000001", "FAILED"],
        ]
        assert frame["published_at"].is_monotonic_increasing
        assert str(frame["published_at"].dtype) == "datetime64[ns, UTC]"

    def test_as_of(self, either: Store) -> None:
        published = either.history("transfers")["published_at"].unique()
        found = [either.read("transfers", as_of=at)["status"].tolist() for at in published]
        assert found == [["PENDING"], ["COMPLETED", "COMPLETED"], ["FAILED", "COMPLETED"]]
        before = "the store knew nothing before " + str(Instant.from_ns(published[0].value))
        for at in (published[0] - pd.Timedelta(1, "ns"), "2000-01-01"):
            for read in (either.read, either.read_arrow, either.scan, either.known):
                with pytest.raises(InvalidRequest, match=re.escape(before)):
                    read("transfers", as_of=at)

    def test_columns_in_the_order_asked_for(self, either: Store) -> None:
        assert list(either.read("transfers", columns=["total", "id"])) == ["total", "id"]
        assert either.read("transfers", columns=["status"])["status"].tolist() == [
            "FAILED", "COMPLETED",
        ]  # fmt: skip

    def test_a_month_stands_for_its_first_moment(self, either: Store) -> None:
        month, after = moment(2)[:7], pd.Timestamp(moment(2)) + pd.offsets.MonthBegin()
        rows = either.read("transfers")
        assert len(rows) == 2
        assert either.read("transfers", since=month).equals(rows)
        assert len(either.read("transfers", since=month, until=f"{after:%Y-%m}")) == 2
        assert len(either.read("transfers", until=month)) == 0
        with pytest.raises(InvalidRequest, match="as_of='2026-03'"):
            either.read("transfers", as_of="2026-03")

    def test_since_includes_until_excludes(self, either: Store) -> None:
        assert either.read("transfers", since=moment(2))["id"].tolist() == ["t-000002"]
        assert either.read("transfers", until=moment(2))["id"].tolist() == ["t-000001"]

    def test_profiles(self, either: Store) -> None:
        assert either.read("transfers", profile_id="p-2")["id"].tolist() == ["t-000001"]
        assert len(either.read("transfers", profile_id=["p-1", "p-2"])) == 2

    def test_a_table_never_synced_is_empty_and_typed(self, either: Store) -> None:
        frame = either.read("events")
        assert len(frame) == 0
        assert str(frame["created_at"].dtype) == "datetime64[ns, UTC]"
        assert len(either.history("balances")) == 0
        with pytest.raises(StoreError, match="there is no store at"):
            Store(either.path / "elsewhere").read("transfers")

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ({"table": "transfer"}, "table 'transfer' is unknown"),
            ({"table": "transfers", "columns": ["colour"]}, "colour"),
            ({"table": "transfers", "since": "soon"}, "since='soon'"),
            ({"table": "transfers", "as_of": "2026-13-01"}, "as_of='2026-13-01'"),
            ({"table": "transfers", "pin": "none"}, "pin 'none' does not exist"),
            ({"table": "events", "profile_id": "p"}, "events has no profile_id"),
            ({"table": "transfers", "pin": "a", "as_of": "2026-01-01"}, "not both"),
            ({"table": "transfers", "pin": 5}, "pin 5 does not exist"),
            ({"table": "transfers", "columns": ["id", "total", "id"]}, "name each column once"),
            ({"table": "transfers", "columns": 5}, "columns=5: give a text or a list of texts"),
            ({"table": "transfers", "columns": ["id", 5]}, "columns=.'id', 5.: give a text or"),
            ({"table": "transfers", "profile_id": 5}, "profile_id=5: give a text or a list"),
        ],
    )
    def test_what_is_not_there_is_named(
        self, either: Store, arguments: dict[str, Any], says: str
    ) -> None:
        with pytest.raises(InvalidRequest, match=says):
            either.read(**arguments)

    def test_a_path_that_is_a_file(self, either: Store) -> None:
        with pytest.raises(InvalidRequest, match=r"/\.lock' is a file; a store is a folder"):
            Store(either.path / ".lock")

    def test_only_the_row_groups_of_a_profile_are_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 3)
        store, rare = Store(tmp_path), transfer(4, profile_id="rare")
        sync(store, *(transfer(n) for n in range(4)), rare, *(transfer(n) for n in range(5, 9)))
        read: list[tuple[int, list[str]]] = []
        original = parts.PartReader.read

        def noting(reader: parts.PartReader, group: int, schema: pa.Schema) -> pa.Table:
            read.append((group, schema.names))
            return original(reader, group, schema)

        monkeypatch.setattr(parts.PartReader, "read", noting)
        found = store.read_arrow("transfers", columns=["id"], profile_id=["rare", "none"])
        assert found.column("id").to_pylist() == ["t-000004"]
        assert sorted(read) == [
            (0, ["profile_id"]), (1, ["id", "profile_id"]), (1, ["profile_id"]), (2, ["profile_id"])
        ]  # fmt: skip

    def test_a_frame_is_that_of_the_arrow_rows(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Which were read as text: a value that no current row has any more is no category."""
        monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 2)
        store = Store(tmp_path)
        with pytest.warns(UnknownValueWarning, match="STRANGE"):
            sync(store, *(transfer(n, status="STRANGE") for n in range(3)), transfer(3))
        later = [transfer(n, updated_at=moment(9)) for n in range(3)]
        with pytest.warns(UnknownValueWarning, match="ODD"):
            sync(store, later[0], {**later[1], "status": "ODD"}, later[2], transfer(3))
        for chosen in ({}, {"since": "2026-01-01"}, {"profile_id": "p-1"}):
            rows = store.read_arrow("transfers", **chosen)
            frame = store.read("transfers", **chosen)
            expected = to_frame(rows.sort_by([("created_at", "ascending"), ("id", "ascending")]))
            pd.testing.assert_frame_equal(frame, expected)
            assert "STRANGE" not in frame["status"].cat.categories
        assert "ODD" in store.read("transfers")["status"].tolist()

    def test_any_parquet_tool_reads_the_files(self, store: Store) -> None:
        names = [str(path) for path in files(store)]
        found = duckdb.read_parquet(names).aggregate("count(*), sum(total)").fetchall()
        assert found == [(4, Decimal("42"))]

    def test_scan_gives_the_same_rows(self, either: Store) -> None:
        published = either.history("transfers")["published_at"].unique()
        for at in [None, *published]:
            relation = either.scan("transfers", as_of=at).order("created_at, id")
            assert to_frame(relation.to_arrow_table(), "transfers").equals(
                either.read("transfers", as_of=at)
            )
        assert either.scan("events").fetchall() == []
        with pytest.raises(InvalidRequest, match="engine 'abacus'"):
            either.scan("transfers", engine="abacus")  # type: ignore[arg-type]


class TestPins:
    def test_a_pin_stays_what_it_was(self, store: Store) -> None:
        store.pin("2026-02")
        before = store.read("transfers")
        sync(store, transfer(3), *({**transfer(n), "memo": "x"} for n in (1, 2)))
        assert store.read("transfers", pin="2026-02").equals(before)
        store.compact()
        assert store.read("transfers", pin="2026-02").equals(before)
        assert list(store.pins()) == ["2026-02"]

    def test_names(self, store: Store) -> None:
        store.pin("a")
        with pytest.raises(StoreError, match="'a' exists"):
            store.pin("a")
        for bad in ("", "../a", "a/b", ".a", "a\n"):
            with pytest.raises(InvalidRequest, match="pin"):
                store.pin(bad)
            with pytest.raises(InvalidRequest, match="pin"):
                store.read("transfers", pin=bad)
        with pytest.raises(InvalidRequest, match="pin 5: give letters"):
            store.pin(5)  # type: ignore[arg-type]

    def test_less_than_was_pinned_is_damage(self, store: Store) -> None:
        store.pin("a")
        newest = files(store)[-1]
        newest.unlink()
        for way in (store.read, store.scan):
            with pytest.raises(StoreDamaged, match=f"{newest.name}: is missing"):
                way("transfers", pin="a")


class TestCompaction:
    def test_one_file_and_nothing_to_do_the_second_time(self, store: Store) -> None:
        assert list(store.compact()) == ["transfers"]
        (part,) = store.snapshot("transfers").files
        assert (part.kind, part.seq) == ("base", 3)
        assert store.compact() == {}

    def test_tables_as_elsewhere(self, store: Store) -> None:
        assert store.compact(["events"]) == store.compact("events") == {}
        with pytest.raises(InvalidRequest, match="table 'event' is unknown"):
            store.compact("event")
        with pytest.raises(InvalidRequest, match="tables=5: give a text or a list of texts"):
            store.compact(5)  # type: ignore[arg-type]
        assert set(store.compact("transfers")) == {"transfers"}

    def test_a_reader_in_the_middle_of_it_is_not_disturbed(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The files go away between the listing and the reading."""
        before = store.read("transfers")
        monkeypatch.setattr(compaction, "GRACE_S", 0)
        opened = iter([True])
        original = parts.PartReader.__init__

        def open_later(reader: parts.PartReader, *given: Any) -> None:
            if next(opened, False):
                store.compact()
                sweep(store)
                assert len(files(store)) == 1
            original(reader, *given)

        monkeypatch.setattr(parts.PartReader, "__init__", open_later)
        assert store.read("transfers").equals(before)

    def test_who_has_begun_to_read_has_an_hour(self, store: Store) -> None:
        """A relation of DuckDB reads its files only when it is asked."""
        relation, before = store.scan("transfers"), store.read("transfers")
        store.compact()
        sweep(store)
        sync(store, transfer(3))
        assert relation.order("id").select("id").fetchall() == [("t-000001",), ("t-000002",)]
        assert len(store.read("transfers")) == len(before) + 1
        assert store.verify().files == 2
        let_an_hour_pass(store)
        sweep(store)
        assert [path.name[:13] for path in files(store)] == ["base-00000003", "part-00000005"]

    def test_no_file_stays_because_merging_goes_on(self, store: Store) -> None:
        """However often it happens: what a base holds that is an hour old is not needed."""
        store.compact()
        let_an_hour_pass(store)
        sync(store, transfer(3))
        store.compact()
        kept = ["base-00000003", "base-00000005", "part-00000005"]
        assert [path.name[:13] for path in files(store)] == kept

    def test_what_a_killed_compaction_left_is_removed(self, store: Store) -> None:
        store.compact()
        hidden = store.path / "transfers" / ".base-half.tmp"
        hidden.write_bytes(b"PAR1")
        assert len(store.read("transfers")) == 2
        sweep(store)
        assert not hidden.exists()

    def test_rows_that_are_lost_while_merging_are_noticed(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = store.history("transfers")
        monkeypatch.setattr(parts, "in_row_groups", lambda tables: list(tables)[:1])
        with pytest.raises(StoreDamaged, match="transfers: 3 rows came together instead of 4"):
            store.compact()
        assert store.history("transfers").equals(before)
        assert list(store.path.rglob(".*.tmp")) == []

    def test_a_disk_that_fails_when_the_old_files_go(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = store.read("transfers")

        def failing(folder: Path) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        store.compact()
        let_an_hour_pass(store)
        monkeypatch.setattr(disk, "sync_folder", failing)
        with pytest.raises(StoreError, match="transfers cannot be written: No space left"):
            store.compact()
        assert store.read("transfers").equals(before)
        assert store.verify().ok


steps = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 9), st.sampled_from(["PENDING", "COMPLETED", "FAILED"])),
        st.booleans(),
    ),
    max_size=7,
)


@pytest.mark.seconds
@settings(max_examples=5, deadline=None)
@given(steps=steps, group_rows=st.integers(1, 5))
def test_every_state_stays_readable_through_any_history(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[dict[int, str], bool]],
    group_rows: int,
) -> None:
    """Against a dictionary: what was known after each publication, with compactions between."""
    store = Store(tmp_path_factory.mktemp("law") / "store")
    with store.lock():
        pass  # as a sync begins: no store is there before
    state: dict[str, str] = {}
    known: list[tuple[int, dict[str, str]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROW_GROUP_ROWS", group_rows)
        for number, (changes, compacts) in enumerate(steps):
            records = [
                transfer(n, status=s, memo=str(number), created_at=moment(n * 7 % 10))
                for n, s in changes.items()
            ]
            before = len(store.snapshot("transfers").publications)
            if records:
                sync(store, *records)
            state = {**state, **{f"t-{n:06d}": s for n, s in changes.items()}}
            last = store.snapshot("transfers").last
            if last is not None and len(store.snapshot("transfers").publications) > before:
                known.append((last.published_at, state))
            if compacts:
                store.compact()
        for at, expected in known:
            frame = store.read("transfers", as_of=pd.Timestamp(at, tz="UTC"))
            assert dict(zip(frame["id"], frame["status"], strict=True)) == expected
            assert frame["created_at"].is_monotonic_increasing
            assert store.scan("transfers", as_of=pd.Timestamp(at, tz="UTC")).shape[0] == len(
                expected
            )
        assert store.verify().ok
        assert len(store.history("transfers")) == sum(len(changes) for changes, _ in steps)


class TestDamage:
    @pytest.mark.parametrize(
        ("seed", "count"), [(7, 5), pytest.param(8, 100, marks=pytest.mark.campaign)]
    )
    def test_any_flipped_bit_is_an_error_or_harmless(
        self, store: Store, seed: int, count: int
    ) -> None:
        expected = store.read("transfers")
        chance = random.Random(seed)
        errors = 0
        for path in files(store):
            whole = path.read_bytes()
            noticed = 0
            for _ in range(count):
                broken = bytearray(whole)
                broken[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
                path.write_bytes(broken)
                assert not store.verify().ok
                try:
                    assert store.read("transfers").equals(expected)
                except StoreDamaged:
                    noticed += 1
            path.write_bytes(whole)
            assert noticed > 0.4 * count
            errors += noticed
        print(f"seed {seed}: {3 * count} bits flipped: {errors} errors, the rest read the same")
        assert store.verify().ok

    @pytest.mark.parametrize("place", ["data", "footer", "end"])
    def test_is_said_in_one_line_with_the_next_step(self, store: Store, place: str) -> None:
        path = files(store)[1]
        content = bytearray(path.read_bytes())
        content[{"data": 60, "footer": -200, "end": -2}[place]] ^= 255
        path.write_bytes(content)
        with pytest.raises(StoreDamaged) as caught:
            store.read("transfers")
        said = str(caught.value)
        assert said.isprintable()  # neither lines nor control characters of what read the file
        assert said.startswith(f"{path}: ")
        assert said.count(path.name) == 1
        assert said.endswith(
            "restore it from a backup, or let 'fundlab repair' say what is lost and fetch it again"
        )
        assert str(pickle.loads(pickle.dumps(caught.value))) == said
        (problem,) = store.verify().problems
        assert problem.where in (path.name, "transfers")
        assert problem.expected == "intact"
        assert str(path) not in problem.found
        assert "Restore the files that are not what was written from a backup" in str(
            store.verify()
        )

    def test_a_dictionary_said_to_be_empty(self, store: Store) -> None:
        """Its number of values is in a page's header, which no checksum covers."""
        path = files(store)[0]
        content = bytearray(path.read_bytes())
        metadata = pq.ParquetFile(path).metadata
        names = metadata.schema.names
        start = metadata.row_group(0).column(names.index("asset")).dictionary_page_offset
        number = content.index(b"\x3c\x15", start) + 2  # in the header of a dictionary's page
        assert content[number] == 2 * 1
        content[number] = 0
        path.write_bytes(content)
        with pytest.raises(StoreDamaged):
            fl.balances.running(store).read_all()

    def test_a_file_cut_short(self, store: Store) -> None:
        path = files(store)[1]
        path.write_bytes(path.read_bytes()[:-3])
        with pytest.raises(StoreDamaged, match="cut short"):
            store.read("transfers")

    def test_a_missing_part(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(snapshot, "_PAUSE_S", 0)
        files(store)[1].unlink()
        with pytest.raises(StoreDamaged, match=r"part-00000002-.*: is missing"):
            store.read("transfers")
        assert "part-00000002" in str(store.verify())

    def test_two_numbers_swapped(self, store: Store) -> None:
        _, second, third = files(store)
        second.rename(second.with_name(second.name.replace("-00000002-", "-00000003-")))
        third.rename(third.with_name(third.name.replace("-00000003-", "-00000002-")))
        with pytest.raises(StoreDamaged, match=f"{second.name}: is missing"):
            store.read("transfers")
        assert second.name in str(store.verify())

    def test_a_file_under_another_name(self, store: Store) -> None:
        """As a swap of two files, or an older one put back, leaves it."""
        _, second, third = files(store)
        second.write_bytes(third.read_bytes())
        with pytest.raises(StoreDamaged, match=rf"{second.name}: (has|the footer)"):
            store.read("transfers")
        assert second.name in str(store.verify())

    def test_a_base_under_another_number(self, store: Store) -> None:
        store.compact()
        (base,) = (path for path in files(store) if path.name.startswith("base"))
        base.rename(base.with_name(base.name.replace("-00000003-", "-00000002-")))
        with pytest.raises(StoreDamaged, match=f"{base.name}: is missing"):
            store.read("transfers")

    def test_a_part_of_another_store(self, store: Store, tmp_path: Path) -> None:
        other, service = Store(tmp_path / "other"), FakeService(client_id="client-2")
        for number in range(3):
            service.transfers.append(transfer(number))
            other.sync(service, tables=["transfers"], full=True)
        mine, theirs = files(store)[-1], files(other)[-1]
        mine.unlink()
        theirs.rename(store.path / "transfers" / theirs.name)
        with pytest.raises(StoreDamaged, match=f"{mine.name}: is missing"):
            store.read("transfers")
        assert mine.name in str(store.verify())

    def test_a_file_of_another_table(self, store: Store) -> None:
        path = files(store)[0]
        (store.path / "events").mkdir(exist_ok=True)
        path.rename(store.path / "events" / path.name)

        def moved(content: dict[str, Any]) -> None:
            content["files"]["events"] = [content["files"]["transfers"].pop(0)]

        forge_manifest(store.path, moved)
        with pytest.raises(StoreDamaged, match="holds transfers, not events"):
            store.read("events")


class TestWriting:
    def test_a_column_added_later_reads_as_missing_in_old_files(self, store: Store) -> None:
        found = store.snapshot("transfers")
        wider = found.table.schema.append(pa.field("new", "int64"))
        rows = parts.PartReader(found.files[-1]).read(0, wider)
        assert rows.column("new").to_pylist() == [None]
        assert rows.column("id").to_pylist() == ["t-000001"]

    def test_a_version_older_than_the_stored_one_does_not_win(self, store: Store) -> None:
        """As a replica of the service that lags behind sends it."""
        before = store.history("transfers")
        late, newer = withdrawal(1, profile_id="p-2"), transfer(2, updated_at=moment(30), memo="x")
        for _ in range(2):
            done = store.sync(FakeService([late, newer]), tables=["transfers"], full=True)
            counts = done["transfers"]
            assert store.read("transfers")["status"].tolist() == ["FAILED", "COMPLETED"]
            assert store.read("transfers")["memo"].tolist()[1] == "x"
        assert (counts.new, counts.changed, counts.unchanged) == (0, 0, 2)
        assert len(store.history("transfers")) == len(before) + 1
        gone = {**newer, "updated_at": None, "memo": "y"}
        undated = FakeService([late, gone], honours={"created_at"})
        store.sync(undated, tables=["transfers"], full=True)
        assert store.read("transfers")["memo"].tolist()[1] == "y"

    def test_parts_say_what_they_are(self, store: Store) -> None:
        part = store.snapshot("transfers").files[1]
        (publication,) = part.header.publications
        assert (part.header.table, publication.seq, publication.rows) == ("transfers", 2, 2)
        assert part.header.service == {"base_url": "http://127.0.0.1:1", "client_id": "client-1"}
        assert publication.watermark["updated"]["id"] == "t-000001"
        assert publication.query == {"since": None}
        data = files(store)[1].read_bytes()
        assert (part.file.size, part.file.sha256) == (len(data), sha256(data).hexdigest())
        compression = pq.ParquetFile(files(store)[1]).metadata.row_group(0).column(0).compression
        assert compression == "ZSTD"

    def test_other_tools_read_the_files(self, store: Store) -> None:
        """Polars' own reader; DuckDB is asked in every ``scan``."""
        path = files(store)[2]
        theirs = polars.read_parquet(path, use_pyarrow=False)
        ours = pq.ParquetFile(path).read()
        for name in ("id", "total", "status", "metadata", "_part", "_row"):
            assert theirs[name].to_list() == ours.column(name).to_pylist()
        for name in ("created_at", "updated_at"):
            moments = ours.column(name).cast(pa.int64()).to_pylist()
            assert theirs[name].dt.timestamp("ns").to_list() == moments

    def test_a_first_part_replaces_nothing(self, store: Store) -> None:
        """Which is read from its footer, so a column is read without the bookkeeping."""
        found = store.snapshot("transfers").files
        assert [list(part.replacing) for part in found] == [[], [0], [0]]

    def test_time_running_backwards_does_not_reorder_publications(self, tmp_path: Path) -> None:
        now = 1_800_000_000 * 10**9
        sync(Store(tmp_path, clock=lambda: now), transfer(1))
        store = Store(tmp_path, clock=lambda: now - 500)
        sync(store, transfer(2), transfer(1))
        moments = [entry.published_at for entry in store.snapshot("transfers").publications]
        assert moments == [now, now + 1]

    def test_frames_go_back_to_what_was_stored(self, store: Store) -> None:
        rows = store.read_arrow("transfers")
        assert to_arrow(to_frame(rows), "transfers").equals(rows)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the lock of ``tmp_path``."""
    code = (
        "import sys, time; from fundlab import Store\n"
        "with Store(sys.argv[1]).lock(): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


class TestLock:
    def test_another_process_is_named_and_a_killed_one_leaves_nothing(
        self, tmp_path: Path, holder: subprocess.Popen[bytes]
    ) -> None:
        store = Store(tmp_path)
        with pytest.raises(StoreLocked, match=f"process {holder.pid}"), store.lock():
            pass
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                with store.lock():
                    return
            except StoreLocked:
                time.sleep(0.01)
        pytest.fail("the lock of a killed process was not released")

    @pytest.mark.parametrize("reason", [errno.ENOLCK, errno.EOPNOTSUPP])
    def test_a_filesystem_without_locks(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
    ) -> None:
        def refusing(*_: object) -> None:
            raise OSError(reason, os.strerror(reason))

        monkeypatch.setattr("fcntl.flock", refusing)
        with (
            pytest.raises(StoreError, match="this filesystem has no locks"),
            Store(tmp_path).lock(),
        ):
            pass

    def test_a_lock_that_cannot_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a" / ".lock").mkdir(parents=True)
        with pytest.raises(StoreError, match=r"/\.lock cannot be written: Is a directory"):
            Store(tmp_path / "a").pin("a")

        def forbidden(path: Any, *rest: Any) -> int:
            if str(path).endswith(".lock"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return allowed(path, *rest)

        allowed = os.open
        monkeypatch.setattr(os, "open", forbidden)
        with pytest.raises(StoreError, match=r"/\.lock cannot be written: Permission denied"):
            Store(tmp_path / "b").pin("a")

    def test_what_nfs_keeps_of_an_open_file_disturbs_nobody(self, tmp_path: Path) -> None:
        kept = tmp_path / ".staging" / "transfers" / ".nfs0001"

        def keeping(operation: str, params: dict[str, str]) -> None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(b"")

        store = Store(tmp_path)
        for n in range(2):
            store.sync(FakeService([transfer(n)], hook=keeping), tables=["transfers"], full=True)
        assert len(store.read("transfers")) == 2
        assert kept.exists()

    def test_reading_needs_no_lock(self, store: Store) -> None:
        with store.lock():
            assert len(store.read("transfers")) == 2
