"""The door to the disk: in which order what is written comes down, and what a disk's errors say."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from fundlab.base.errors import StoreError
from fundlab.store import disk
from fundlab.store.remote import RemotePath, locate


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made durable and renamed, in order: a file with the bytes that it had by then."""
    done: list[str] = []
    rename = Path.rename

    def synced(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        name = str(path.relative_to(tmp_path.parent)) if path.is_dir() else path.read_text()
        done.append(f"sync {name.replace(tmp_path.name, 'x')}")

    def renamed(path: Path, target: Path) -> Path:
        done.append(f"rename to {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    return done


def replace(path: Path) -> None:
    with disk.replacing(path) as file:
        file.write(b"new")


@pytest.mark.parametrize(
    ("work", "order"),
    [
        (lambda at: disk.write_new(at / "full" / "a", b"new"),
         ["sync new", "rename to a", "sync x/full"]),
        (lambda at: replace(at / "full" / "file"), ["sync new", "rename to file", "sync x/full"]),
        (lambda at: disk.rewrite(at / "full" / "a", b"new"),
         ["sync new", "rename to a", "sync x/full"]),
        (lambda at: disk.write_new(at / "b" / "c" / "a", b"new"),
         ["sync x", "sync x/b", "sync new", "rename to a", "sync x/b/c"]),
        (lambda at: replace(at / "b" / "a"), ["sync x", "sync new", "rename to a", "sync x/b"]),
        (lambda at: disk.make_folder(at / "full"), []),
        (lambda at: (at / "empty").mkdir() or disk.make_folder(at / "empty"), ["sync x"]),
        (lambda at: disk.make_folder(at / "b" / "c"), ["sync x", "sync x/b"]),
        (lambda at: disk.check_replaceable(at / "b" / "c" / "a"), ["sync x", "sync x/b"]),
        (lambda at: disk.remove([at / "full" / "file"]), ["sync x/full"]),
        (lambda at: disk.remove([at / "full" / "file"], at / "full"), ["sync x/full"]),
        (lambda at: disk.remove([]), []),
    ],
)  # fmt: skip
def test_what_is_written_is_down_before_it_has_its_name(
    tmp_path: Path, steps: list[str], work: Callable[[Path], object], order: list[str]
) -> None:
    work(tmp_path)
    assert steps == order
    assert list(tmp_path.rglob(".*.tmp")) == []


@pytest.mark.parametrize("error", [OSError(5, "no"), KeyboardInterrupt()])
@pytest.mark.parametrize("way", ["new", "replacing"])
def test_what_fails_leaves_nothing(tmp_path: Path, error: BaseException, way: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    block = disk.new_file(tmp_path / ".file.tmp") if way == "new" else disk.replacing(path)
    raised = StoreError if isinstance(error, OSError) else KeyboardInterrupt

    def fail() -> None:
        with block as file:
            file.write(b"new")
            raise error

    with pytest.raises(raised):
        fail()
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


def test_a_file_that_cannot_even_be_made_is_refused_with_what_the_system_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(StoreError, match="No space left on device"):
        disk.write_new(tmp_path / "file", b"new")


@pytest.mark.parametrize("error", [OSError(5, "no"), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_what_cannot_be_published_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, where: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setenv("HOME", str(tmp_path))
    bucket = locate("books", filesystem=MemoryFileSystem())
    monkeypatch.setattr(Path, "rename", fail)
    monkeypatch.setattr(RemotePath, "put", fail)
    with pytest.raises(StoreError if isinstance(error, OSError) else KeyboardInterrupt):
        disk.write_new((tmp_path if where == "here" else bucket) / "file", b"new")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_that_is_replaced_is_as_others_of_this_user_are(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    replace(tmp_path / "file")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_what_cannot_be_replaced_or_removed_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="folder cannot be written: Is a directory; give another"):
        disk.check_replaceable(tmp_path / "folder")
    with pytest.raises(StoreError, match=r"file is not a folder: give another$"):
        disk.check_replaceable(tmp_path / "file" / "x")
    with pytest.raises(StoreError, match=r"file is not a folder: give another$"):
        disk.make_folder(tmp_path / "file")
    with pytest.raises(StoreError, match="none cannot be written: No such file"):
        disk.remove([tmp_path / "none"])
    disk.check_replaceable(tmp_path / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize(
    ("number", "stays"),
    [(errno.ENOTEMPTY, True), (errno.EEXIST, True), (errno.EBUSY, True), (errno.EACCES, False)],
)
def test_a_folder_that_holds_something_else_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, stays: bool
) -> None:
    def refuses(path: Path) -> None:
        raise OSError(number, os.strerror(number))

    disk.remove([], tmp_path / "none")
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(Path, "rmdir", refuses)
    if stays:
        disk.remove([], tmp_path / "folder")
    else:
        with pytest.raises(StoreError, match="folder cannot be written: Permission denied"):
            disk.remove([], tmp_path / "folder")


@pytest.mark.parametrize(
    ("number", "refused"), [(errno.EINVAL, False), (errno.EBADF, False), (errno.EIO, True)]
)
def test_a_folder_is_synced_where_its_filesystem_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, refused: bool
) -> None:
    handles = []

    def fails(handle: int) -> None:
        handles.append(handle)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fails)
    if refused:
        with pytest.raises(OSError, match="Input/output error"):
            disk.sync_folder(tmp_path)
    else:
        disk.sync_folder(tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handles[0])


@pytest.mark.parametrize(
    ("changed_ns", "settled"), [(None, True), (0, True), (9, True), (10, False), (11, False)]
)
def test_a_file_has_settled_two_seconds_after_it_changed(
    monkeypatch: pytest.MonkeyPatch, changed_ns: int | None, settled: bool
) -> None:
    monkeypatch.setattr(disk.time, "time_ns", lambda: 2 * 10**9 + 10)
    assert disk.has_settled(disk.State((), changed_ns, 1)) is settled


def test_the_state_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    first = disk.state_of(path)
    found = path.stat()
    assert (first.size, first.changed_ns) == (3, max(found.st_mtime_ns, found.st_ctime_ns))
    os.utime(path, (1, 1))
    assert disk.state_of(path) != first
    assert disk.state_of(path).changed_ns == path.stat().st_ctime_ns
    assert disk.written_at(path) == 1
    with pytest.raises(FileNotFoundError):
        disk.state_of(tmp_path / "none")


def test_what_a_folder_holds(tmp_path: Path) -> None:
    for name in ("b", "a", ".nfs01", ".c"):
        (tmp_path / name).touch()
    assert [path.name for path in disk.files_in(tmp_path)] == [".c", "a", "b"]
    assert disk.files_in(tmp_path / "none") == []
    (tmp_path / "link").symlink_to(tmp_path / "a")
    disk.refuse_link(tmp_path / "a")
    with pytest.raises(StoreError, match="link is a link to what is not the store's"):
        disk.refuse_link(tmp_path / "link")


@pytest.mark.parametrize(
    ("error", "read", "written"),
    [
        (OSError(28, "No space left"), "x cannot be read: No space left: see to the disk",
         "x cannot be written: No space left; what was published before is intact"),
        (OSError("torn"), "x cannot be read: torn: see to the disk",
         "x cannot be written: torn; what was published"),
        (StoreError("damage"), "damage", "damage"),
        (FileNotFoundError(2, "gone"), None, "x cannot be written: gone; what was"),
    ],
)  # fmt: skip
def test_what_a_disk_says_is_an_error_of_the_store(
    error: OSError, read: str | None, written: str
) -> None:
    for wrap, says in ((disk.readable, read), (disk.named, written)):
        raised: Any = FileNotFoundError if says is None else StoreError
        with pytest.raises(raised) as caught, wrap(Path("x")):
            raise error
        assert str(caught.value).startswith(says or "")


def test_a_file_elsewhere_that_another_run_is_at_or_left_half_written_stops_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = locate("books/shared", filesystem=MemoryFileSystem())
    with disk.replacing(path) as first:
        first.write(b"half")
        with disk.replacing(path) as second:
            second.write(b"whole")
        assert path.read_bytes() == b"whole"
    assert path.read_bytes() == b"half"


def test_what_a_place_elsewhere_refuses_does_not_stay_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = locate("books/refused", filesystem=MemoryFileSystem())

    def refused(_path: object, _file: object) -> None:
        raise OSError(errno.EACCES, "Forbidden")

    monkeypatch.setattr(type(path), "put", refused)
    with pytest.raises(StoreError, match="Forbidden"), disk.replacing(path) as file:
        file.write(b"rows")
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []


def test_what_killed_uploads_left_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was to be called; not what a run that lives still writes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    bucket = MemoryFileSystem()

    def waiting() -> list[Path]:
        return [one for one in tmp_path.rglob("*") if one.is_file()]

    with disk.replacing(locate("books/may", filesystem=bucket)) as longer:
        (lives,) = waiting()
        abandoned = lives.with_name(lives.name.replace("may", "march"))  # nobody has it open
        abandoned.write_bytes(b"half")
        with disk.replacing(locate("books/april", filesystem=bucket)) as file:
            assert len(waiting()) == 2
            assert abandoned not in waiting()
            file.write(b"april")
        assert waiting() == [lives]
        longer.write(b"may")
    assert (bucket.cat("books/april"), bucket.cat("books/may")) == (b"april", b"may")
    assert waiting() == []


def test_what_was_published_elsewhere_waits_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    memory = MemoryFileSystem()
    path = locate("books/published", filesystem=memory)
    (tmp_path / "hidden").write_bytes(b"PAR1")
    disk.publish(tmp_path / "hidden", path)
    assert path.read_bytes() == b"PAR1"
    assert not (tmp_path / "hidden").exists()
