"""A store's folder, whatever it is called, whatever stands or is linked in it."""

import errno
import json
import multiprocessing
import os
import shutil
import time
from collections.abc import Iterator
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import pytest
from fake_service import FakeService, forge_manifest, transfer
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import fs

from fundlab import Store
from fundlab.base.errors import (
    InvalidRequest,
    NetworkError,
    StoreChanged,
    StoreDamaged,
    StoreError,
    StoreLocked,
)
from fundlab.store import duck, lock, store_files
from fundlab.store.disk import make_folder
from fundlab.store.duck import own_connection, shared_connection
from fundlab.store.lock import locked


def sub_tree(folder: Path) -> fs.SubTreeFileSystem:
    """A filesystem of Arrow's that is not local."""
    return fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())


DAY_NS = 86_400 * 10**9


def sync(store: Store, *numbers: int, hook: Any = lambda *_: None) -> Store:
    service = FakeService([transfer(n) for n in numbers or (1, 2, 3)], hook=hook)
    store.sync(service, tables=["transfers"], full=True)  # type: ignore[arg-type]
    return store


def totals(store: Store) -> list[Any]:
    relation = store.scan("transfers").aggregate("count(*), sum(total), min(status), min(asset)")
    found: list[Any] = relation.fetchall()
    return found


class TestNames:
    """What a folder is called changes no figure."""

    @pytest.mark.parametrize(
        "name",
        [
            "status=PENDING/asset=EUR/total=999/books", "book[1]", "b?ok", "boo*k", "o'brien",
            "[a-z]*", "a]b", "{a,b}", "back\\slash", "**",
        ],
    )  # fmt: skip
    def test_a_scan_reads_this_store_only(self, tmp_path: Path, name: str) -> None:
        store = sync(Store(tmp_path / name))
        for beside in ("book1", "boook", "boo-backup-k", "a", "b", "x"):
            shutil.copytree(store.path, store.path.parent / beside, dirs_exist_ok=True)
        assert totals(store) == [(3, Decimal("31.5"), "COMPLETED", "USD")]

    @pytest.mark.parametrize("key", ["status=PENDING/total=999/books", "b?o*k[1]", "**"])
    def test_nor_elsewhere(self, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        sync(Store(tmp_path / "bucket" / key))
        sync(Store(tmp_path / "bucket" / "bxook1"), *range(9))
        store = Store(key, filesystem=sub_tree(tmp_path / "bucket"))
        assert totals(store) == [(3, Decimal("31.5"), "COMPLETED", "USD")]
        with pytest.raises(InvalidRequest, match="fsspec takes"):
            Store("bo*k", filesystem=MemoryFileSystem())

    def test_two_buckets_with_one_key(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        memory = MemoryFileSystem()
        one, other = (Store("b", filesystem=DirFileSystem(f"/{n}", memory)) for n in ("x", "y"))
        sync(one)
        with one.lock():
            sync(other, 1)
        connection = duckdb.connect()
        counts = [
            store.scan("transfers", connection=connection).aggregate("count(*)").fetchall()
            for store in (one, other)
        ]
        assert counts == [[(3,)], [(1,)]]

    def test_no_home_to_wait_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def homeless() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "home", homeless)
        with pytest.raises(InvalidRequest, match="set HOME"):
            Store("memory://books")

    def test_what_does_not_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unreachable(uri: str) -> None:
            raise OSError(f"{uri}: connection refused")

        monkeypatch.setattr(fs, "FileSystem", type("Refusing", (), {"from_uri": unreachable}))
        problem = r"hdfs://127.0.0.1:1/books cannot be opened.*refused"
        with pytest.raises(StoreError, match=problem) as caught:
            Store("hdfs://user:swordfish@127.0.0.1:1/books")
        assert "swordfish" not in str(caught.value)

    def test_the_place_stays_where_it_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path)
        store = sync(Store("books"))
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert len(store.read("transfers")) == 3
        assert store.path == tmp_path / "books"

    def test_a_tilde_is_the_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        assert Store("~/books").path == tmp_path / "books"
        with pytest.raises(InvalidRequest, match="~nobody-of-this-name"):
            Store("~nobody-of-this-name/books")

    @pytest.mark.parametrize("name", [os.fsdecode(b"b\xff"), "a\0b"])
    def test_names_that_not_every_reader_takes(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InvalidRequest, match="path="):
            Store(tmp_path / name)


class TestSpilling:
    SQL = "CREATE OR REPLACE TEMP TABLE t AS SELECT md5(range::VARCHAR) m FROM range(3000000)"

    @pytest.mark.seconds
    def test_a_cleaner_of_temporary_files_disturbs_nobody(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        monkeypatch.setattr(duck, "_folders", {})
        own_connection()
        before = shared_connection().execute(WHERE).fetchall()
        for folder in tmp_path.glob("fundlab-*"):
            shutil.rmtree(folder)
        with own_connection("60MB") as connection:
            connection.execute("SET threads = 1")
            connection.execute(self.SQL)
            (folder,) = tmp_path.glob("fundlab-*")
            assert folder.stat().st_mode & 0o777 == 0o700
        ((place,),) = shared_connection().execute(WHERE).fetchall()
        assert [(place,)] != before
        assert Path(place).parent == folder

    def test_a_child_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        child = multiprocessing.get_context("fork").Process(target=own_connection)
        child.start()
        child.join()
        assert child.exitcode == 0
        assert list(tmp_path.glob("fundlab-*")) == []

    def test_a_folder_goes_with_its_process_and_not_with_a_fork_of_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ends: list[Any] = []
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        monkeypatch.setattr(duck, "_folders", {})
        monkeypatch.setattr(duck, "Finalize", lambda _, end, exitpriority: ends.append(end))
        folder = duck._private_folder()
        assert duck._private_folder() == folder
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: 1)
            ends[0]()
        assert folder.is_dir()
        for _ in range(2):  # a cleaner may have been there
            ends[0]()
        assert not folder.exists()
        assert len(ends) == 1

    @pytest.mark.parametrize("size", ["-1", "", "much", "2"])
    def test_what_is_no_limit_leaves_no_connection(
        self, size: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made, connect = list[Any](), duckdb.connect

        def noted(**given: Any) -> Any:
            made.append(connect(**given))
            return made[-1]

        monkeypatch.setattr(duckdb, "connect", noted)
        with pytest.raises(InvalidRequest, match=f"memory_limit={size!r} is not a valid size"):
            own_connection(size)
        with pytest.raises(duckdb.ConnectionException, match="closed"):
            made[0].execute("SELECT 1")


WHERE = "SELECT current_setting('temp_directory')"


class TestTimeZone:
    @pytest.fixture(autouse=True)
    def far_away(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
        monkeypatch.undo()
        time.tzset()

    def test_a_scan_means_utc_as_read_does(self, tmp_path: Path) -> None:
        store = Store(tmp_path)
        late = transfer(1, created_at="2026-04-01T01:00:00Z")
        store.sync(FakeService([late]), tables=["transfers"])  # type: ignore[arg-type]
        rows = store.scan("transfers")
        assert len(store.read("transfers", since="2026-04-01")) == 1
        assert len(rows.filter("created_at >= '2026-04-01'").select("id").fetchall()) == 1
        assert rows.select("strftime(created_at, '%Y-%m-%d')").fetchall() == [("2026-04-01",)]
        ((moment,),) = rows.select("created_at").fetchall()
        assert moment.isoformat() == "2026-04-01T01:00:00+00:00"

    def test_so_does_every_connection_of_our_own(self) -> None:
        for connection in (own_connection(), own_connection().cursor(), shared_connection()):
            zone = connection.execute("SELECT current_setting('TimeZone')").fetchall()
            assert zone == [("UTC",)]


class TestLinks:
    """A link in the folder never leads to what is not the store's."""

    def test_in_place_of_the_lock(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_text("private")
        (tmp_path / "books").mkdir()
        (tmp_path / "books" / ".lock").symlink_to(tmp_path / "key")
        with pytest.raises(StoreError, match=r"\.lock is a link"):
            sync(Store(tmp_path / "books"))
        assert (tmp_path / "key").read_text() == "private"

    def test_in_place_of_the_staged_files(self, tmp_path: Path) -> None:
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs" / "thesis.txt").write_text("x")
        (tmp_path / "books" / ".staging").mkdir(parents=True)
        (tmp_path / "books" / ".staging" / "transfers").symlink_to(tmp_path / "docs")
        store = Store(tmp_path / "books")
        with pytest.raises(StoreError, match=r"\.staging/transfers is a link"):
            sync(store)
        assert (tmp_path / "docs" / "thesis.txt").exists()
        assert len(store.read("transfers")) == 0


class TestStrangers:
    """What others put into the folder stays there and disturbs nothing."""

    def test_among_the_staged_files(self, tmp_path: Path) -> None:
        staged = tmp_path / ".staging" / "transfers"
        (staged / "@eaDir").mkdir(parents=True)
        (staged / "notes.txt").write_text("mine")
        (staged / ".0a.tmp").write_text("of a run that was killed")
        store = sync(Store(tmp_path))
        sync(store, 4)
        assert sorted(path.name for path in staged.iterdir()) == ["@eaDir", "notes.txt"]
        assert len(store.read("transfers")) == 4

    def test_among_the_records_and_manifests(self, tmp_path: Path) -> None:
        store = sync(Store(tmp_path))
        store.pin("oct")
        for folder in ("records", "manifests"):
            (tmp_path / folder / "._oct.json").write_bytes(b"\0\5\26\7")
            (tmp_path / folder / "Thumbs.db").write_bytes(b"\0")
        assert list(store.pins()) == ["oct"]
        assert store.verify().ok


def _hold_on(started: Any) -> None:
    started.set()
    time.sleep(30)


class TestLock:
    def test_a_child_that_was_forked_does_not_keep_it(self, tmp_path: Path) -> None:
        store = sync(Store(tmp_path))
        fork = multiprocessing.get_context("fork")
        started = fork.Event()
        with store.lock():
            child = fork.Process(target=_hold_on, args=(started,))
            child.start()
            assert started.wait(20)
        try:
            store.pin("after")
        finally:
            child.kill()
            child.join()

    def test_a_child_that_was_forked_does_not_keep_a_folder(self, tmp_path: Path) -> None:
        fork = multiprocessing.get_context("fork")
        started = fork.Event()
        handles = [os.open(tmp_path, os.O_RDONLY) for _ in range(2)]
        with locked(handles[0], tmp_path, lambda: "the first run has it"):
            child = fork.Process(target=_hold_on, args=(started,))
            child.start()
            assert started.wait(20)
            with (
                pytest.raises(StoreLocked, match="the first run has it"),
                locked(handles[1], tmp_path, lambda: "the first run has it"),
            ):
                pass
        try:
            with locked(handles[1], tmp_path, lambda: "the child has it"):
                pass
        finally:
            child.kill()
            child.join()
            for handle in handles:
                os.close(handle)

    def test_a_child_that_leaves_does_not_release_it(self, tmp_path: Path) -> None:
        store = sync(Store(tmp_path))
        with store.lock():
            child = os.fork()
            if not child:
                try:
                    with store.lock():
                        pass
                except StoreLocked:
                    pass
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            with pytest.raises(StoreLocked):
                store.pin("a")

    def test_taken_away_under_a_run_nothing_is_published(self, tmp_path: Path) -> None:
        def meanwhile(operation: str, params: dict[str, str]) -> None:
            if (tmp_path / ".lock").exists() and not done:
                done.append(operation)
                (tmp_path / ".lock").unlink()
                sync(Store(tmp_path), 1)

        done: list[str] = []
        store = Store(tmp_path)
        with pytest.raises(StoreError, match=r"\.lock was taken away"):
            sync(store, 1, 2, hook=meanwhile)
        assert store.read("transfers")["id"].tolist() == ["t-000001"]
        assert len([*(tmp_path / "transfers").glob("*.parquet")]) == 1, "nor left behind"
        sync(store, 1, 2)
        assert store.verify().ok

    def test_what_the_other_run_took_away_is_no_riddle(self, tmp_path: Path) -> None:
        """The staged rows of a run that died, which this one had gone on with."""
        service, store = FakeService([transfer(1), transfer(2)]), Store(tmp_path)

        def broken(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance":
                raise NetworkError("no connection")

        def meanwhile(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance" and not done:
                done.append(operation)
                (tmp_path / ".lock").unlink()
                Store(tmp_path).sync(service, tables="balances")  # type: ignore[arg-type]

        done: list[str] = []
        service.hook = broken
        with pytest.raises(NetworkError):
            store.sync(service, tables="balances")  # type: ignore[arg-type]
        service.hook = meanwhile
        with pytest.raises(StoreError, match=r"\.lock was taken away"):
            store.sync(service, tables="balances")  # type: ignore[arg-type]

    def test_a_folder_of_a_run_that_died_is_on_the_disk_before_it_is_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, synced = tmp_path / "made" / "journal", list[Path]()
        folder.mkdir(parents=True)  # and nothing of it synced
        monkeypatch.setattr("fundlab.store.disk.sync_folder", synced.append)
        make_folder(folder)
        assert synced == [tmp_path / "made"]
        (folder / "file").touch()
        make_folder(folder)
        assert synced == [tmp_path / "made"]

    @pytest.mark.parametrize("change", [Store.compact, lambda store: store.pin("a")])
    def test_nor_by_a_compaction_or_pin(
        self, tmp_path: Path, change: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = sync(sync(Store(tmp_path)), 4)
        original = Store.manifest

        def manifest(self: Store) -> Any:
            found = original(self)
            (tmp_path / ".lock").unlink(missing_ok=True)
            return found

        monkeypatch.setattr(Store, "manifest", manifest)
        with pytest.raises(StoreError, match=r"\.lock was taken away"):
            change(store)
        monkeypatch.undo()
        assert store.pins() == {}
        assert len(list((tmp_path / "transfers").glob("part-*"))) == 2


class TestClock:
    def test_a_last_publication_far_ahead(self, tmp_path: Path) -> None:
        now = 1_800_000_000 * 10**9
        sync(Store(tmp_path, clock=lambda: now))
        sync(Store(tmp_path, clock=lambda: now + 5 * DAY_NS), 4)
        store = Store(tmp_path, clock=lambda: now + DAY_NS)
        wrong = sorted((tmp_path / "transfers").iterdir())[-1]
        with pytest.raises(StoreError, match="2027-01-20T08:00:00") as caught:
            sync(store, 5)
        assert str(wrong) in str(caught.value)
        wrong.unlink()  # as the message says
        assert "is missing" in str(store.repair())
        assert len(sync(store, 4, 5).read("transfers")) == 5
        assert store.verify().ok


@pytest.mark.parametrize("reason", [errno.EINVAL, errno.EBADF])
def test_a_filesystem_that_does_not_sync_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    fsync = os.fsync

    def refusing(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").is_dir():
            raise OSError(reason, os.strerror(reason))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refusing)
    assert len(sync(Store(tmp_path)).read("transfers")) == 3


def test_what_a_run_that_died_has_named_is_on_the_disk_before_anything_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have died between a rename and the sync of the folder; the next one found the file,
    had nothing to write there, and said that all was done."""
    store = sync(Store(tmp_path))
    fsync, synced = os.fsync, set[str]()

    def watched(handle: int) -> None:
        synced.add(str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    with store.lock():
        assert str(tmp_path / "transfers") in synced


class TestForeignFiles:
    """A file that bears the right name and hash, yet was not written by this version."""

    def plant(self, folder: Path, header: object) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from fundlab.store.parts import read_footer

        (folder / "transfers").mkdir(parents=True)
        path = folder / "transfers" / "x"
        with pq.ParquetWriter(path, pa.schema([("id", pa.string())])) as writer:
            writer.write_table(pa.table({"id": ["a"]}))
            if header is not None:
                writer.add_key_value_metadata({"fundlab": json.dumps(header)})
        made = path.rename(path.with_name(f"part-00000001-{read_footer(path)[1]}.parquet"))
        data = made.read_bytes()
        entry = [made.name, len(data), sha256(data).hexdigest()]
        content = {
            "number": 1, "at": "2026-01-01T00:00:00Z", "previous": "", "run": "", "record": "",
            "service": {}, "files": {"transfers": [entry]},
        }  # fmt: skip
        (folder / "manifests").mkdir()
        (folder / "manifests" / "00000001.json").write_text(json.dumps({"manifest": content}))
        forge_manifest(folder, lambda content: None)

    @pytest.mark.parametrize(
        "header",
        [None, [], 5, {}, {"publications": [{"x": 1}]}, {"table": 1},
         {"table": "transfers", "schema_version": 1, "service": {}, "publications": [],
          "row_groups": [[1, None, None]]}],
    )  # fmt: skip
    def test_one_that_is_none_of_ours(self, tmp_path: Path, header: object) -> None:
        self.plant(tmp_path, header)
        with pytest.raises(StoreDamaged, match=r"part-00000001.*not one of this store's files"):
            Store(tmp_path).read("transfers")
        (problem,) = Store(tmp_path).verify().problems
        assert problem.rule == "file"

    def test_one_of_a_newer_version(self, tmp_path: Path) -> None:
        self.plant(tmp_path, {"schema_version": 99, "table": "transfers", "compression": "x"})
        with pytest.raises(StoreError, match="update fundlab") as caught:
            Store(tmp_path).read("transfers")
        assert not isinstance(caught.value, StoreDamaged)
        (problem,) = Store(tmp_path).verify().problems
        assert "update fundlab" in problem.found


@pytest.mark.parametrize(
    ("number", "told"), [(errno.ENOTSUP, StoreError), (errno.ENOLCK, StoreError), (errno.EIO, None)]
)
def test_a_filesystem_without_locks_is_named(
    number: int, told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What else a disk says stays what it is."""
    error = OSError(number, "odd")

    def refuse(descriptor: int) -> None:
        raise error

    monkeypatch.setattr(lock, "try_lock", refuse)
    with pytest.raises(OSError if told is None else told) as caught, locked(0, tmp_path, str):
        pass
    if told is None:
        assert caught.value is error
    else:
        assert "has no locks (odd)" in str(caught.value)


@pytest.mark.parametrize("newest", [True, False])
def test_a_file_that_goes_as_a_snapshot_is_taken(
    newest: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a compaction, which has published since; else it is lost, and named."""
    store = sync(Store(tmp_path))
    (part,) = (tmp_path / "transfers").iterdir()
    known = store.manifest()
    part.unlink()

    def gone(*_: Any, **__: Any) -> None:
        raise StoreChanged("is not there")

    monkeypatch.setattr(store_files, "take_snapshot", gone)
    monkeypatch.setattr(store_files, "is_newest", lambda path, manifest: newest)
    with pytest.raises(StoreDamaged if newest else StoreChanged) as caught:
        store.snapshot("transfers", manifest=known)
    assert (part.name in str(caught.value)) is newest
