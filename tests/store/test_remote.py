"""The same store elsewhere: fsspec's in-memory files, and filesystems that are for reading only."""

import errno
import hashlib
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import fsspec
import pytest
from fake_service import FakeService, moment, transfer
from fsspec import AbstractFileSystem
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from pyarrow import fs

from fundlab import Store
from fundlab.base.errors import InvalidRequest, StoreDamaged, StoreError, StoreLocked
from fundlab.store import compaction, objects
from fundlab.store.parts import PartReader
from fundlab.store.remote import RemotePath, locate
from fundlab.store.remote_files import RemoteFiles, shown_to

FIRST = FakeService([transfer(n) for n in range(30)], events=[{"id": "e", "created_at": moment(1)}])
SECOND = FakeService([transfer(3, status="FAILED", updated_at=moment(90)), transfer(99)])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def memory() -> Iterator[MemoryFileSystem]:
    found = fsspec.filesystem("memory")
    yield found
    found.store.clear()
    found.pseudo_dirs[:] = [""]


@pytest.fixture(
    params=["fsspec", pytest.param("fsspec by name", marks=pytest.mark.thorough)],
)
def elsewhere(request: pytest.FixtureRequest, memory: MemoryFileSystem) -> Store:
    if request.param == "fsspec by name":
        return Store("memory://books/july", clock=ticking())
    return Store("books/july", filesystem=memory, clock=ticking())


def ticking() -> Any:
    ticks = iter(range(1_800_000_000 * 10**9, 2**62, 10**9))
    return lambda: next(ticks)


def filled(store: Store) -> Store:
    store.sync(FIRST)  # type: ignore[arg-type]
    store.pin("before")
    store.sync(SECOND, tables=["transfers"], full=True)  # type: ignore[arg-type]
    return store


def test_it_answers_as_one_on_this_machine_does(
    elsewhere: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = filled(Store(tmp_path / "here", clock=ticking())), filled(elsewhere)
    assert isinstance(there.path, RemotePath)
    for _ in range(2):
        for table in ("transfers", "events"):
            assert there.read(table).equals(here.read(table))
            assert there.history(table).equals(here.history(table))
        assert there.read("transfers", pin="before").equals(here.read("transfers", pin="before"))
        assert list(there.pins()) == ["before"]
        statuses = there.scan("transfers").aggregate("status, count(*)").order("status").fetchall()
        assert statuses == [("COMPLETED", 30), ("FAILED", 1)]
        assert there.verify().problems == ()
        assert set(there.compact()) == set(here.compact())
    monkeypatch.setattr(compaction, "GRACE_S", 0)
    with there.lock():
        assert len(list((there.path / "transfers").iterdir())) == 1
    manifests = [one for one in (there.path / "manifests").iterdir() if one.name != "probe"]
    assert len(manifests) == 2


def test_a_filesystem_of_arrow_is_for_reading(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """None of them has a write that succeeds only where nothing has that name."""
    here = filled(Store(tmp_path / "bucket" / "july"))
    bucket = fs.SubTreeFileSystem(str(tmp_path / "bucket"), fs.LocalFileSystem())
    there = Store("july", filesystem=bucket)
    assert "is open for reading only: a 'subtree" in caplog.text
    assert "read-only" in repr(there)
    assert there.read("transfers").equals(here.read("transfers"))
    assert there.read("transfers", pin="before").equals(here.read("transfers", pin="before"))
    assert len(there.scan("transfers")) == 31
    assert there.verify().problems == ()
    with pytest.raises(StoreError, match=r"reading only: .* give the URI .*\[remote\]"):
        there.sync(SECOND)  # type: ignore[arg-type]


class Heedless(MemoryFileSystem):  # type: ignore[misc, unused-ignore]
    """Overwrites, whatever it was asked."""

    protocol = "heedless"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path, value, **options)


def test_storage_that_ignores_the_condition_is_for_reading(memory: MemoryFileSystem) -> None:
    before = filled(Store("books/july", filesystem=memory)).read("transfers")
    there = Store("books/july", filesystem=Heedless())
    assert there.read("transfers").equals(before)
    with pytest.raises(StoreError, match=r"although it was asked not to \(If-None-Match\)"):
        there.pin("after")
    assert Store("books/july", filesystem=Heedless(), read_only=True).pins()


def test_a_flipped_bit_is_noticed(memory: MemoryFileSystem) -> None:
    store = filled(Store("memory://books/july"))
    part = store.snapshot("transfers").files[0].path
    assert isinstance(part, RemotePath)
    content = bytearray(part.read_bytes())
    content[100] ^= 4
    memory.pipe_file(part.key, bytes(content))
    assert not store.verify().ok
    with pytest.raises(StoreDamaged):
        store.read("transfers")


def test_a_newest_file_that_is_gone_is_noticed() -> None:
    store = Store("memory://books/july")
    for service in (FIRST, SECOND):
        store.sync(service, tables=["transfers"])  # type: ignore[arg-type]
    part = store.snapshot("transfers").files[-1].path
    assert isinstance(part, RemotePath)
    part.unlink()
    assert f"{part.name}: is missing, not intact" in str(store.verify())
    with pytest.raises(StoreDamaged, match=f"{part.name}: is missing"):
        store.read("transfers")


def test_threads_that_scan_do_not_move_each_other(elsewhere: Store) -> None:
    """DuckDB's threads share an open file; each seeks, then reads. They got each other's bytes, and
    scans of large stores failed."""
    part = filled(elsewhere).snapshot("transfers").files[0].path
    assert isinstance(part, RemotePath)
    file, content = RemoteFiles(part).open(part.key), part.read_bytes()
    file.seek(40)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: (file.tell(), file.read(8))).result() == (0, content[:8])
    assert file.read(8) == content[40:48]
    assert file.tell() == 48
    assert file.seek(-4, 2) == len(content) - 4
    assert (file.read(), file.read()) == (b"PAR1", b"")


def test_files_as_duckdb_asks_for_them(memory: MemoryFileSystem) -> None:
    memory.pipe_file("/books/[1]*.parquet", bytes(range(100)))
    path = RemotePath("books/[1]*.parquet", "memory", Path("s"), arrow_of(memory))
    files, connection = RemoteFiles(path), duckdb.connect()
    name = shown_to(connection, path)
    assert name == shown_to(connection, path) == f"{files.protocol}://{path.key}"
    assert files.protocol == f"fundlab-s-{id(path.filesystem):x}"
    assert connection.list_filesystems() == [files.protocol]
    other = RemotePath(path.key, "memory", path.scratch, arrow_of(Heedless()))
    assert RemoteFiles(other)._at(name).filesystem is other.filesystem
    assert (files.exists(name), files.exists(f"{name}.none")) == (True, False)
    assert files.info(name) == {"name": name, "size": 100, "type": "file"}
    assert files.glob(name) == [name]
    assert files.modified(name) == datetime(1970, 1, 1, tzinfo=UTC)
    file = files.open(name)
    assert file.tell() == 0
    assert file.read(0) == b""
    assert (file.seek(7), file.read(1), file.read(2)) == (7, b"\x07", b"\x08\x09")
    assert (file.seek(5, 1), file.seek(-3, 1), file.seek(-1, 2), file.seek(3, 0)) == (15, 12, 99, 3)
    assert (file.read(-1), file.read()) == (bytes(range(3, 100)), b"")
    file.close()
    with pytest.raises(ValueError, match="closed file"):
        file.read()


def arrow_of(memory: MemoryFileSystem) -> fs.PyFileSystem:
    return fs.PyFileSystem(fs.FSSpecHandler(memory))


class Distant(MemoryFileSystem):  # type: ignore[misc, unused-ignore]
    """As an object store answers: each read of an open file is a request of its own."""

    protocol = "distant"

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        found = super()._open(path, mode, **options)
        return Asking(self, path, found.getvalue()) if mode == "rb" else found


class Asking(MemoryFile):  # type: ignore[misc, unused-ignore]
    def read(self, size: int = -1) -> bytes:
        if self.fs is not None and self.path not in self.fs.store:
            raise OSError(5, f"NoSuchKey: {self.path}")
        return bytes(super().read(size))


def test_a_compaction_during_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files go between the opening of one and the reading of its rows."""
    store = filled(Store("books/july", filesystem=Distant()))
    before, turns, original = store.read("transfers"), iter([True]), PartReader.__init__

    def late(reader: PartReader, *given: Any) -> None:
        original(reader, *given)
        if next(turns, False):
            again = Store("books/july", filesystem=Distant())
            assert "transfers" in again.compact()
            with again.lock():
                assert len(list((again.path / "transfers").iterdir())) == 1

    monkeypatch.setattr(PartReader, "__init__", late)
    assert store.read("transfers").equals(before)
    assert next(turns, None) is None


class Failing(MemoryFileSystem):  # type: ignore[misc, unused-ignore]
    """Takes the first half of a file."""

    protocol = "failing"

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode != "wb":
            return super()._open(path, mode, **options)
        found = Halved(self, path)
        found.commit()
        return found


class Halved(MemoryFile):  # type: ignore[misc, unused-ignore]
    def write(self, data: bytes) -> int:
        super().write(data[: len(data) // 2])
        raise OSError(5, "the network is gone")


class Buckets(MemoryFileSystem):  # type: ignore[misc, unused-ignore]
    """Takes files whole, under their last name."""

    protocol = "s3"

    def put_file(self, lpath: str, rpath: str, *_: Any, **__: Any) -> None:
        self.store[self._strip_protocol(rpath)] = MemoryFile(self, rpath, Path(lpath).read_bytes())

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        assert mode in ("rb", "xb") or "data" in options
        return super()._open(path, mode, **options)

    def mv(self, *_: Any, **__: Any) -> None:
        raise AssertionError("object stores cannot rename")


def test_an_object_store_gets_each_file_in_one_piece(memory: MemoryFileSystem) -> None:
    store = filled(Store("s3://books/july", filesystem=Buckets()))
    assert str(store.path) == "s3://books/july"
    assert store.verify().problems == ()
    assert len(store.read("transfers")) == 31
    assert not [path for path in memory.find("/", withdirs=False) if path.endswith(".tmp")]


def test_half_a_file_is_none(memory: MemoryFileSystem) -> None:
    store = Store("books/july", filesystem=Failing())
    with pytest.raises(StoreError, match=r"books/july.* cannot be written: .*the network is gone"):
        store.sync(FIRST)  # type: ignore[arg-type]
    mended = Store("books/july", filesystem=memory)
    assert mended.read("transfers").empty
    assert [path for path in memory.find("/books/july") if path.endswith(".tmp")]
    filled(mended)
    assert [path for path in memory.find("/") if path.endswith((".tmp", ".arrow"))] == []
    assert mended.verify().problems == ()
    assert len(mended.read("transfers")) == 31


def test_one_writer_on_this_machine(home: Path) -> None:
    with (
        Store("memory://books/july").lock(),
        pytest.raises(StoreLocked, match=f"memory://books/july .*process {os.getpid()}"),
        Store("memory://books/july/").lock(),
    ):
        pass
    (folder,) = (home / ".cache" / "fundlab").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / ".transfers-part-of-a-killed-run.tmp").write_bytes(b"PAR1")
    with Store("memory://books/july").lock():
        assert [path.name for path in folder.iterdir()] == [".lock"]


def memory_of(scheme: str, bucket: str, memory: MemoryFileSystem) -> fs.PyFileSystem:
    assert bucket in ("books", "b")
    return arrow_of(memory)


@dataclass
class Named:
    """A filesystem whose name is a secret."""

    secret: str


class ReadOnly(AbstractFileSystem):  # type: ignore[misc, unused-ignore]
    protocol = "readonly"


class Awaited(AbstractFileSystem):  # type: ignore[misc, unused-ignore]
    protocol = "awaited"

    async def _pipe_file(self, path: str, value: bytes, mode: str = "create") -> None:
        """As it is called where fsspec makes the other of it."""


class Forgetful(MemoryFileSystem):  # type: ignore[misc, unused-ignore]
    """Remembers of each folder what was in it, until it is told to forget."""

    protocol = "forgetful"
    forgot: ClassVar[list[str]] = []

    def invalidate_cache(self, path: str | None = None) -> None:
        self.forgot.append(str(path))


class Silent:
    """A filesystem that does not say when a file was written."""

    handler = None

    def get_file_info(self, key: str) -> fs.FileInfo:
        return fs.FileInfo(key, fs.FileType.File, size=7)


class TestOnePath:
    @pytest.fixture
    def subtree(self, tmp_path: Path) -> RemotePath:
        found = locate(
            "books/july", filesystem=fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        )
        assert isinstance(found, RemotePath)
        return found

    def test_is_its_name(self, memory: MemoryFileSystem) -> None:
        """Whatever it is reached by; which may hold a key."""
        one, two, other = (
            RemotePath(key, "gs", Path(scratch), Named(scratch))  # type: ignore[arg-type]
            for key, scratch in (("b/x", "1"), ("b/x", "2"), ("b/y", "1"))
        )
        assert one == two != other
        assert hash(one) == hash(two)
        assert repr(one) == "RemotePath(key='b/x', scheme='gs')"
        assert sorted([other, two]) == [two, other]
        part = one / "transfers" / "part-1.parquet"
        assert (part.name, part.stem, str(part)) == (
            "part-1.parquet", "part-1", "gs://b/x/transfers/part-1.parquet",
        )  # fmt: skip
        assert (part.parent.key, part.parent.parent) == ("b/x/transfers", one)

    def test_files_are_put_in_place_complete(self, subtree: RemotePath, tmp_path: Path) -> None:
        """By a name that nobody reads, on a filesystem of Arrow's that can rename."""
        (tmp_path / "own").write_bytes(b"PAR1")
        part = subtree / "transfers" / "1.parquet"
        assert not part.exists()
        assert not part.is_dir()
        with pytest.raises(FileNotFoundError, match=f"{part} does not exist"):
            part.size()
        part.put(tmp_path / "own")
        assert (part.exists(), part.is_dir(), part.size()) == (True, False, 4)
        assert [one.name for one in part.parent.iterdir()] == ["1.parquet"]
        assert part.read_bytes() == b"PAR1"
        with part.open("rb") as file:
            assert file.read() == b"PAR1"
        with pytest.raises(ValueError, match="mode 'wb': files are only read here"):
            part.open("wb")
        with pytest.raises(FileNotFoundError):
            part.parent.size()
        os.utime(tmp_path / "books/july/transfers/1.parquet", ns=(0, 1_500_000_000))
        assert part.written_at() == 1.5
        assert part.state() == ((4, 1_500_000_000, None), 1_500_000_000, 4)
        part.unlink()
        part.unlink(missing_ok=True)
        with pytest.raises(FileNotFoundError):
            part.unlink()
        assert part.parent.is_dir()
        part.parent.rmdir()
        assert not part.parent.exists()
        assert list(part.parent.iterdir()) == []

    def test_what_is_written_without_a_word_when(self) -> None:
        silent = RemotePath("b/x", "gs", Path(), Silent())  # type: ignore[arg-type]
        assert silent.written_at() == 0
        assert silent.state() == ((7, None, None), None, 7)

    def test_what_fsspec_knows_of_a_file_is_part_of_its_state(
        self, memory: MemoryFileSystem
    ) -> None:
        path = Store("memory://books/july").path / "head"
        assert isinstance(path, RemotePath)
        path.write_bytes(b"one")
        before, _, size = path.state()
        assert before[2] == memory.ukey("/books/july/head") is not None
        assert (before[0], size) == (3, 3)

    def test_a_listing_that_fsspec_remembers_is_none(self) -> None:
        path = RemotePath("b/x", "f", Path(), fs.PyFileSystem(fs.FSSpecHandler(Forgetful())))
        for ask in (path.exists, path.is_dir, lambda: list(path.iterdir())):
            Forgetful.forgot.clear()
            ask()
            assert Forgetful.forgot == ["b", "b/x"]

    @pytest.mark.parametrize(
        ("kind", "creates"),
        [
            (MemoryFileSystem, True),  # has a pipe_file of its own
            (Forgetful, True),
            (DirFileSystem, True),
            (ReadOnly, False),
            (Awaited, True),
        ],
    )
    def test_whether_it_can_write_only_what_is_new(self, kind: Any, creates: bool) -> None:
        given = ("b", MemoryFileSystem()) if kind is DirFileSystem else ()
        path = RemotePath("b", "x", Path(), fs.PyFileSystem(fs.FSSpecHandler(kind(*given))))
        assert path.creates is creates


class TestNames:
    def test_a_file_uri_and_a_local_filesystem_are_this_machine(self, tmp_path: Path) -> None:
        assert Store(f"file://{tmp_path}").path == tmp_path
        assert Store(str(tmp_path), filesystem=fs.LocalFileSystem()).path == tmp_path

    @pytest.mark.parametrize("uri", ["memory://books", "s3://bucket/books", "file:///books"])
    def test_a_uri_is_no_path(self, uri: str, tmp_path: Path) -> None:
        with pytest.raises(InvalidRequest, match="makes one slash of the two in a URI"):
            Store(Path(uri))
        assert Store(tmp_path / "10:30").path == tmp_path / "10:30"

    def test_half_a_character_is_in_no_name(self) -> None:
        with pytest.raises(InvalidRequest, match=r"path=.*is not valid Unicode"):
            locate("books/\udc80", fs.SubTreeFileSystem("/", fs.LocalFileSystem()))

    def test_a_password_in_a_uri_is_not_shown(self) -> None:
        with pytest.raises(InvalidRequest) as caught:
            Store("nosuch://user:swordfish@host/books")
        assert "swordfish" not in repr(caught.value)
        assert "nosuch://host/books" in str(caught.value)

    @pytest.mark.parametrize("path", ["memory://", "memory:///"])
    def test_a_whole_filesystem(self, path: str) -> None:
        with pytest.raises(InvalidRequest, match="name a folder"):
            Store(path)

    @pytest.mark.parametrize(
        ("uri", "name", "scheme"),
        [
            ("memory://books/july/", "memory://books/july", "memory"),
            ("memory:///books/july//", "memory://books/july", "memory"),
        ],
    )
    def test_what_waits_for_a_place_waits_in_a_folder_of_its_own(
        self, uri: str, name: str, scheme: str, home: Path
    ) -> None:
        found = locate(uri)
        assert isinstance(found, RemotePath)
        assert (str(found), found.scheme) == (name, scheme)
        digest = hashlib.sha256(f"{scheme}://{found.key}".encode()).hexdigest()
        assert found.scratch == home / ".cache" / "fundlab" / digest[:16]
        assert locate(found) is found.resolve() is found

    def test_the_same_key_in_two_sub_trees_is_not_the_same_place(
        self, tmp_path: Path, memory: MemoryFileSystem
    ) -> None:
        names = {
            locate("july", filesystem=one).scratch  # type: ignore[union-attr]
            for one in (
                fs.SubTreeFileSystem(str(tmp_path / "a"), fs.LocalFileSystem()),
                fs.SubTreeFileSystem(str(tmp_path / "b"), fs.LocalFileSystem()),
                DirFileSystem("c", memory), DirFileSystem("d", memory),
            )
        }  # fmt: skip
        assert len(names) == 4
        within = DirFileSystem("july", DirFileSystem("/books/", memory))
        inner, whole = (
            locate(key, filesystem=one)
            for key, one in (("part", within), ("books/july/part", memory))
        )
        assert (str(inner), str(whole)) == (
            "fsspec+dir://part", "fsspec+memory://books/july/part",
        )  # fmt: skip
        digest = hashlib.sha256(b"fsspec+dir:///books/july/part").hexdigest()
        assert inner.scratch.name == digest[:16]  # type: ignore[union-attr]

    @pytest.mark.parametrize("sign", "*?[")
    def test_a_pattern_of_fsspec_is_no_name(self, sign: str, tmp_path: Path) -> None:
        with pytest.raises(InvalidRequest, match="takes '\\*', '\\?' and '\\[' for patterns"):
            locate(f"memory://books/{sign}")
        bucket = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        assert locate(f"books{sign}", filesystem=bucket).name == f"books{sign}"

    @pytest.mark.parametrize(
        ("uri", "key"),
        [("gs://books/a/b", "books/a/b"), ("gcs://books", "books"), ("az://b/x", "b/x")],
    )
    def test_a_bucket_is_opened_by_its_name(
        self, uri: str, key: str, monkeypatch: pytest.MonkeyPatch, memory: MemoryFileSystem
    ) -> None:
        monkeypatch.setattr(objects, "open_bucket", lambda *given: memory_of(*given, memory))
        found = locate(uri)
        assert isinstance(found, RemotePath)
        assert (found.key, str(found)) == (key, uri)

    @pytest.mark.parametrize(
        ("uri", "where"),
        [
            ("gs://user:swordfish@bucket/x", "gs://bucket/x"),
            ("gs://bucket/x?nosuch=swordfish", "gs://bucket/x"),
        ],
    )
    def test_a_uri_that_says_with_which_key_is_left_to_others(
        self, uri: str, where: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(objects, "open_bucket", None)
        with pytest.raises(InvalidRequest, match=f"path='{where}' cannot be opened: ") as caught:
            locate(uri)
        assert "swordfish" not in str(caught.value)

    def test_a_place_that_does_not_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By its own word, in one line: ``hdfs`` takes eighty."""

        def refuse(scheme: str, bucket: str) -> None:
            raise OSError(errno.EACCES, "no credentials", bucket)

        def odd(uri: str) -> None:
            raise OSError(f"no way to {uri}\nand a trace")

        monkeypatch.setattr(objects, "open_bucket", refuse)
        with pytest.raises(StoreError, match=r"^gs://books/a cannot be opened: no credentials$"):
            locate("gs://books/a")
        monkeypatch.setattr("fsspec.core.url_to_fs", odd)
        with pytest.raises(
            StoreError, match=r"^odd://books/a cannot be opened: no way to odd://books/a$"
        ):
            locate("odd://user:pass@books/a")
        with pytest.raises(StoreError, match=r"^hdfs://127.0.0.1:1/x cannot be opened: [^\n]*$"):
            locate("hdfs://127.0.0.1:1/x?user=swordfish")

    def test_without_fsspec(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "fsspec.core", None)
        with pytest.raises(InvalidRequest, match="knows no 'odd' and fsspec is not installed"):
            locate("odd://books/a")

    def test_without_a_home(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def nowhere() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "home", nowhere)
        with pytest.raises(InvalidRequest, match=r"memory:///b/x: .* directory\.; set HOME"):
            locate("memory://b/x")

    def test_no_filesystem_at_all(self) -> None:
        with pytest.raises(InvalidRequest, match=r"filesystem=dict: give one of pyarrow\.fs"):
            Store("books", filesystem={})


@pytest.mark.parametrize("login", ["", "user:pass@"])
def test_a_bucket_that_cannot_be_opened_is_named(login: str) -> None:
    with pytest.raises(InvalidRequest, match="path='odd://bucket/books' cannot be opened"):
        Store(f"odd://{login}bucket/books")
