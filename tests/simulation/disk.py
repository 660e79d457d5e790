"""What a file still holds after a power cut: the folder of a run, and what of it is on the disk.

Everything under ``root`` is written to a real folder, which is what a machine sees while it has
power. Beside it is kept what a cut may take away: bytes that were written since their file was
synced, and names given or taken since their folder was. Of what SQLite writes, which it syncs by
itself, a cut may take what was committed without ``synchronous = EXTRA``.

A full or failing disk is an error of the next writes.
"""

# pathlib is made of what is replaced here.
# ruff: noqa: PTH110, PTH112, PTH115, PTH120

from __future__ import annotations

import errno
import io
import itertools
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.simulation.environment import BEGIN_NS, wall_ns
from tests.simulation.schedule import Schedule, Wrong

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_BESIDE: Final = ("-journal", "-wal", "-shm")
_EXTRA: Final = 3
_TRANSACTIONS: Final = ("BEGIN IMMEDIATE", "COMMIT")
_connect = sqlite3.connect
_real_open, _real_os_open, _real_fsync, _real_stat = io.open, os.open, os.fsync, os.stat
_listdir, _scandir, _realpath = os.listdir, os.scandir, os.path.realpath
_AGO_NS: Final = 50 * 365 * 86_400 * 10**9
"""How much earlier than in virtual time files are marked as written: whatever the real clock says
of one shows that it was written since."""


class Disk:
    """The disk under ``root``; ``limbo`` keeps what a cut may bring back."""

    def __init__(self, root: Path, schedule: Schedule) -> None:
        self.root, self.limbo = root, root.with_name(f"{root.name}.limbo")
        self.limbo.mkdir()
        self._prefix, self._schedule = f"{root}/", schedule
        self.really = _realpath(root)
        """The folder, by the name that the system gives to what is opened in it."""
        self._pending: dict[str, list[tuple[Callable[[], None], str | None]]] = {}
        """By folder how each name given or taken is undone, and what that needs of ``limbo``."""
        self._loose: dict[str, set[str]] = {}
        """By folder the names given in it since it was synced."""
        self._hidden: set[str] = set()
        self._committed: dict[str, bytes] = {}
        """Of each journal what its last commit left on the disk for certain."""
        self._numbers = itertools.count()
        self.fails: Callable[[str], int | None] = lambda what: None
        """The error number with which the next write ends, if it does."""
        self.cannot_read: Callable[[str], bool] = lambda path: False
        """Whether a file of this name gives an error to who reads it."""

    # ------------------------------------------------------------------------------ what is down

    def sync_file(self, handle: int) -> None:
        at = _moment(_real_stat(handle))
        _mark(handle, wall_ns() if at is None else at, synced=True)

    def sync_folder(self, folder: str) -> None:
        self._loose.pop(folder, None)
        for _, kept in self._pending.pop(folder, ()):
            if kept is not None:
                _unlink(kept)

    def cut(self, chance: random.Random) -> None:
        """The power goes and comes back: what was not synced may be gone, or torn."""
        for folder in sorted(self._pending):
            undo = self._pending[folder]
            for one, _ in reversed(undo[chance.randint(0, len(undo)) :]):
                one()
        for folder in list(self._pending):
            self.sync_folder(folder)
        # A file may have two names; what was committed last under either is in it.
        last = {
            _real_stat(name).st_ino: content
            for name, content in self._committed.items() if os.path.exists(name)
        }  # fmt: skip
        for path in sorted(self.root.rglob("*")):
            if not path.is_file() or path.name.endswith(_BESIDE):
                continue
            found = _real_stat(path)
            if found.st_ino in last:  # also under a name whose removal was undone
                if str(path) in self._committed and chance.random() < 0.5:
                    with _real_open(path, "wb") as file:  # also where the disk is full
                        file.write(last[found.st_ino])
                continue
            if not _is_synced(found):
                kept = chance.randint(0, found.st_size)
                with _real_open(path, "r+b") as file:
                    file.truncate(kept)
                    if chance.random() < 0.5:  # the size was down before the bytes
                        file.truncate(found.st_size)

    def loose(self, folder: Path) -> list[str]:
        """The files in ``folder`` and below whose names a power cut may still take."""
        names = (f"{above}/{name}" for above, some in self._loose.items() for name in some)
        return sorted(name for name in names if name.startswith(f"{folder}/")
                      and Path(name).is_file())  # fmt: skip

    def hidden(self) -> list[str]:
        """The files that were begun under a hidden name, and have it still."""
        self._hidden = {name for name in self._hidden if os.path.lexists(name)}
        return sorted(self._hidden)

    def _undo(self, folder: str, undo: Callable[[], None], kept: str | None = None) -> None:
        def gently() -> None:
            with suppress(FileNotFoundError):  # it went before, and that was not undone
                undo()

        self._pending.setdefault(folder, []).append((gently, kept))

    def _saved(self, path: str) -> str | None:
        """Another name of the file, under which it outlives its removal."""
        kept = str(self.limbo / str(next(self._numbers)))
        try:
            _link(path, kept)
        except FileNotFoundError:
            return None
        return kept

    # ------------------------------------------------------------------------------ what is done

    def is_ours(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._prefix)

    def shown(self, path: Any) -> str:
        """As in a trace: from the folder of the run on."""
        return os.fspath(path)[len(self._prefix) :]

    def write(self, what: str, path: Any) -> None:
        """A step that writes. Raises ``OSError`` where the disk does not take it."""
        self._schedule.step(f"{what} {self.shown(path)}", 0.0005)
        error = self.fails(what)
        if error is not None:
            raise OSError(error, os.strerror(error), str(path))

    def created(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        self._loose.setdefault(folder, set()).add(name)
        self._undo(os.path.dirname(path), lambda: _unlink(path))
        if path.rpartition("/")[2].startswith(".") and path.endswith(".tmp"):
            self._hidden.add(path)

    def rename(self, source: Any, target: Any, **more: Any) -> None:
        if not self.is_ours(target):
            _rename(source, target, **more)
            return
        here, there = os.fspath(source), os.fspath(target)
        self.write("renames", there)
        ours = self.shown(there).startswith(("store/", "published/"))
        if ours and Path(here).is_file() and not _is_synced(_real_stat(here)):
            raise Wrong(f"{self.shown(here)} is not on the disk, and is called {self.shown(there)}")
        folder, _, name = there.rpartition("/")
        self._loose.setdefault(folder, set()).add(name)
        before = self._saved(there) if not os.path.isdir(there) else None
        _rename(here, there)
        self._committed.pop(there, None)

        def undo() -> None:
            _rename(there, here)
            if before is not None:
                _link(before, there)

        self._undo(os.path.dirname(there), undo, before)

    def unlink(self, path: Any, **more: Any) -> None:
        if not self.is_ours(path) or more:
            _unlink(path, **more)
            return
        name = os.fspath(path)
        self.write("removes", name)
        before = self._saved(name)
        _unlink(name)
        self._committed.pop(name, None)
        if before is not None:
            self._undo(os.path.dirname(name), lambda: _link(before, name), before)

    def listdir(self, path: Any = ".") -> list[Any]:
        """In order: that of a folder is its filesystem's own."""
        return sorted(_listdir(path))

    def scandir(self, path: Any = ".") -> Entries:
        with _scandir(path) as found:
            return Entries(sorted(found, key=lambda entry: entry.name))

    def realpath(self, path: Any, **more: Any) -> Any:
        """The folder of a run has the same name wherever it is, and no links."""
        return os.path.normpath(path) if self.is_ours(path) else _realpath(path, **more)

    def link(self, source: Any, target: Any, **more: Any) -> None:
        if self.is_ours(target):
            self.write("links", target)
            # what SQLite wrote it has synced by itself
            if os.fspath(source) not in self._committed and not _is_synced(_real_stat(source)):
                raise Wrong(f"{source} is not on the disk, and is called {self.shown(target)}")
        _link(source, target, **more)
        if self.is_ours(target):
            here, there = os.fspath(source), os.fspath(target)
            self.created(there)
            if here in self._committed:
                self._committed[there] = self._committed[here]

    def mkdir(self, path: Any, *more: Any, **keywords: Any) -> None:
        if self.is_ours(path):
            self.write("makes", path)
        _mkdir(path, *more, **keywords)
        if self.is_ours(path):
            name = os.fspath(path)
            self._undo(os.path.dirname(name), lambda: shutil.rmtree(name, ignore_errors=True))

    def rmdir(self, path: Any, **more: Any) -> None:
        if self.is_ours(path):
            self.write("removes", path)
        _rmdir(path, **more)

    def fsync(self, handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        if f"{path}/".startswith(f"{self.really}/"):
            path = f"{self.root}{path.removeprefix(self.really)}"
        else:
            _real_fsync(handle)
            return
        self.write("syncs", f"{path}/" if path == str(self.root) else path)
        if os.path.isdir(path):
            self.sync_folder(path)
        else:
            self.sync_file(handle)

    def open(self, path: Any, mode: str = "r", *more: Any, **keywords: Any) -> Any:
        if not self.is_ours(path) or not set(mode) & set("wax+"):
            if self.is_ours(path) and self.cannot_read(os.fspath(path)):
                raise OSError(FAILING, os.strerror(FAILING), os.fspath(path))
            return _real_open(path, mode, *more, **keywords)
        new = not os.path.exists(path)
        self.write("opens", path)
        file = _real_open(path, mode, *more, **keywords)
        if new:
            self.created(os.fspath(path))
        return file

    def os_open(self, path: Any, flags: int, *more: Any, **keywords: Any) -> int:
        if not self.is_ours(path) or not flags & _WRITES:
            return _real_os_open(path, flags, *more, **keywords)
        new = not os.path.exists(path)
        self.write("opens", path)
        handle = _real_os_open(path, flags, *more, **keywords)
        if new:
            self.created(os.fspath(path))
        return handle

    def connect(self, path: Any, **keywords: Any) -> sqlite3.Connection:
        """A journal is opened, and its transactions begin and end, in steps."""
        name = os.fspath(path).removeprefix("file://").partition("?")[0]
        if not self.is_ours(name):
            return _connect(path, **keywords)
        step, shown, committed = self._schedule.step, self.shown(name), self._committed
        sync_folder = self.sync_folder
        step(f"opens {shown}", 0.0005)

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                if sql in _TRANSACTIONS:
                    step(f"{sql} {shown}", 0.0005)
                if sql.startswith("PRAGMA busy_timeout"):
                    sql = "PRAGMA busy_timeout = 0"  # in real time, in which nobody goes on
                found = super().execute(sql, *values)
                if sql == "COMMIT":
                    ((synced,),) = super().execute("PRAGMA synchronous")
                    if synced >= _EXTRA or name not in committed:
                        committed.pop(name, None)  # to be the last
                        with _real_open(name, "rb") as file:
                            committed[name] = file.read()
                    if synced >= _EXTRA:  # its folder, too, once the rollback journal is gone
                        sync_folder(os.path.dirname(name))
                return found

        return _connect(path, factory=Connection, **keywords)

    def stat(self, path: Any, **more: Any) -> os.stat_result:
        """As the system says, but for the moments: when in virtual time this was first seen."""
        found = _real_stat(path, **more)
        if not self.is_ours(path):
            return found
        at = _moment(found)
        if at is None:
            at = _mark(path, wall_ns(), synced=False, **more)
        seconds = at // 10**9
        values = list(found)
        values[7:10] = seconds, seconds, seconds
        extra = {
            f"st_{kind}time{ns}": at if ns else at / 1e9 for kind in "amc" for ns in ("", "_ns")
        }
        for name in ("st_blksize", "st_blocks", "st_rdev"):
            extra[name] = getattr(found, name)
        return os.stat_result(values, extra)


class Entries(list[Any]):
    """What ``os.scandir`` gives: an iterator that is closed at the end."""

    def __next__(self) -> Any:
        if not self:
            raise StopIteration
        return self.pop(0)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        """There is no handle to close."""


def _mark(file: Any, at: int, *, synced: bool, **more: Any) -> int:
    """Have ``file`` say that it was written ``at`` (ns; of the last digit is made whether it was
    ``synced`` since)."""
    at = at & ~1 | synced
    os.utime(file, ns=(at - _AGO_NS, at - _AGO_NS), **more)
    return at


def _moment(found: os.stat_result) -> int | None:
    """When a file is marked as written; ``None`` where it was written since it was marked."""
    at = found.st_mtime_ns + _AGO_NS
    return at if at < _AGO_NS + BEGIN_NS // 2 else None


def _is_synced(found: os.stat_result) -> bool:
    at = _moment(found)
    return at is not None and bool(at & 1)


_rename, _unlink, _link, _mkdir, _rmdir = os.rename, os.unlink, os.link, os.mkdir, os.rmdir


def attach(disk: Disk) -> None:
    """All writes of this process go through ``disk``."""
    os.rename = os.replace = disk.rename
    os.unlink = os.remove = disk.unlink
    os.link, os.mkdir, os.rmdir = disk.link, disk.mkdir, disk.rmdir
    os.fsync, os.open, os.stat = disk.fsync, disk.os_open, disk.stat
    os.listdir, os.scandir = disk.listdir, disk.scandir  # type: ignore[assignment]
    os.path.realpath = disk.realpath  # type: ignore[assignment]
    io.open, sqlite3.connect = disk.open, disk.connect  # type: ignore[assignment]


def detach() -> None:
    os.rename = os.replace = _rename
    os.unlink = os.remove = _unlink
    os.link, os.mkdir, os.rmdir = _link, _mkdir, _rmdir
    os.fsync, os.open, os.stat = _real_fsync, _real_os_open, _real_stat
    os.listdir, os.scandir, os.path.realpath = _listdir, _scandir, _realpath
    io.open, sqlite3.connect = _real_open, _connect


NO_SPACE, FAILING = errno.ENOSPC, errno.EIO
