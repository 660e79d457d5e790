"""The one door to the disk: what is written is down before it gets its name.

Order of every publication on this machine: the file's bytes are synced, then it is renamed, then
its folder is synced. Elsewhere a file is finished here first and then put there in one piece, which
is how object stores take it. Either way a power cut leaves the old state or the new one. A full or
failing disk is a ``StoreError``.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

import pyarrow as pa

from fundlab.base.atomic_files import unfinished
from fundlab.base.errors import StoreError, first_line
from fundlab.store.remote import RemotePath, StorePath

_PUBLISHED: Final = "what was published before is intact: see to the disk, then run it again"
_ELSEWHERE: Final = "give another folder, or see to its space and rights"
"""What to do about a file that is not one of the store's."""
_MOMENT_NS: Final = 2 * 10**9  # as coarse as any filesystem's clock


def own_folder(store: StorePath) -> Path:
    """Where this machine keeps what is on its way to a store: in it, where it is here."""
    return store.scratch if isinstance(store, RemotePath) else store


def hidden_file(folder: StorePath, name: str) -> Path:
    """Where a file of ``folder`` is written before it appears there; always on this machine."""
    label = f"{folder.name}-" if isinstance(folder, RemotePath) else ""
    return own_folder(folder) / f".{label}{name}.tmp"


@contextmanager
def new_file(hidden: Path) -> Iterator[IO[bytes]]:
    """A file to write, on disk when the block ends, gone when it fails."""
    make_folder(hidden.parent)
    try:
        with named(hidden), hidden.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def check_replaceable(path: Path) -> None:
    """Raises ``StoreError`` unless a file can take the place of ``path``; its folder is made."""
    make_folder(path.parent, _ELSEWHERE)
    with named(path, _ELSEWHERE), unfinished(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


@contextmanager
def replacing(
    path: StorePath, mode: int = 0o666, swept: set[Path] | None = None
) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of ``path``, not one of the store's, at the end.

    What goes elsewhere waits in one folder of this machine. That one, and any where folders
    ``swept`` are given, is cleared first of what killed runs left of whatever file, and becomes one
    of them: each file may have had a name that never comes again."""
    folder = path.scratch.parent if isinstance(path, RemotePath) else path.parent
    make_folder(folder, _ELSEWHERE)
    if swept is None and isinstance(path, RemotePath):
        swept = set()
    here = folder / path.name
    with named(here, _ELSEWHERE), unfinished(here, mode, swept) as hidden:
        with hidden.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if isinstance(path, RemotePath):
            with named(path, _ELSEWHERE):
                path.put(hidden)
        else:
            hidden.rename(path)
            sync_folder(folder)


def publish(hidden: Path, path: StorePath) -> None:
    """Give a finished file its name, at once and complete; where that fails it is gone."""
    try:
        with named(path):
            if isinstance(path, RemotePath):
                path.put(hidden)
            else:
                hidden.rename(path)
                sync_folder(path.parent)
    finally:
        hidden.unlink(missing_ok=True)


def write_new(path: StorePath, content: bytes | pa.Buffer) -> None:
    """A new file that appears at once and complete."""
    hidden = hidden_file(path.parent, uuid4().hex)
    with new_file(hidden) as file:
        file.write(content)
    publish(hidden, path)


def rewrite(path: StorePath, content: bytes) -> None:
    """A file in place of any there is, at once and complete."""
    if isinstance(path, RemotePath):
        with named(path):
            path.write_bytes(content)
    else:
        with replacing(path) as file:
            file.write(content)


def make_folder(folder: StorePath, advice: str = _PUBLISHED) -> None:
    """Create ``folder`` and its parents, down to the disk."""
    if isinstance(folder, RemotePath):
        return  # elsewhere a folder comes with its first file
    with named(folder, advice):
        if there := folder.is_dir():
            with os.scandir(folder) as entries:  # of which there may be many: one is enough
                if any(entries):
                    return
    make_folder(folder.parent, advice)
    with named(folder, advice):
        try:
            folder.mkdir(exist_ok=True)
        except FileExistsError:
            raise StoreError(f"{folder} is not a folder: give another") from None
        # one that holds nothing yet may be of a run that died before its name was on the disk
        with suppress(PermissionError) if there else nullcontext():
            sync_folder(folder.parent)


def remove(files: Sequence[StorePath], and_folder: StorePath | None = None) -> None:
    """Remove ``files`` of one folder, down to the disk; and that folder, unless it holds anything
    else, as it does while NFS keeps a file of it open."""
    for path in files:
        with named(path):
            path.unlink(missing_ok=isinstance(path, RemotePath))  # another machine's run was first
    for folder in {path.parent for path in files}:
        with named(folder):
            sync_folder(folder)
    if and_folder is not None and and_folder.is_dir():
        with named(and_folder):
            try:
                and_folder.rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                    raise


def sync_folder(folder: StorePath) -> None:
    """Make renames and removals in ``folder`` outlive a power cut, where its filesystem can."""
    if isinstance(folder, RemotePath):
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):  # it does not sync folders, as SMB
            raise
    finally:
        os.close(handle)


def refuse_link(path: StorePath) -> None:
    """Raises ``StoreError`` for a link: what is written or removed there may be anybody's."""
    if isinstance(path, Path) and path.is_symlink():
        raise StoreError(f"{path} is a link to what is not the store's: remove it, then run again")


def files_in(folder: StorePath) -> list[StorePath]:
    """What ``folder`` holds, by name; nothing where there is none. What NFS keeps of a removed
    file while somebody has it open counts as removed."""
    here = isinstance(folder, Path)
    there: list[StorePath] = list(folder.iterdir()) if not here or folder.is_dir() else []
    return sorted((path for path in there if not path.name.startswith(".nfs")), key=str)


@dataclass(frozen=True)
class State:
    """What changes with a file: ``mark``, and when it changed (ns), where that is known."""

    mark: tuple[object, ...]
    changed_ns: int | None
    size: int


def state_of(path: StorePath) -> State:
    """The state of a file. Raises ``FileNotFoundError`` where there is none."""
    if isinstance(path, RemotePath):
        return State(*path.state())
    found = path.stat()
    moments = found.st_mtime_ns, found.st_ctime_ns
    return State((found.st_dev, found.st_ino, found.st_size, *moments), max(moments), found.st_size)


def has_settled(state: State) -> bool:
    """Not so just after a change: another one could then have the same moment."""
    return state.changed_ns is None or time.time_ns() - state.changed_ns > _MOMENT_NS


def written_at(path: StorePath) -> float:
    """When a file was written, in seconds since 1970; 0 where its filesystem does not say."""
    return path.written_at() if isinstance(path, RemotePath) else path.stat().st_mtime


@contextmanager
def readable(path: StorePath) -> Iterator[None]:
    """What a disk or a network says of ``path``, which cannot be read, as a ``StoreError``; that it
    is not there stays what it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: StorePath, error: OSError) -> StoreError:
    """What to say of ``path``, which cannot be read."""
    where = "the network" if isinstance(path, RemotePath) else "the disk"
    return StoreError(
        f"{path} cannot be read: {error.strerror or first_line(error)}: see to {where} and to who "
        "may read it, then run it again"
    )


@contextmanager
def named(path: StorePath, advice: str = _PUBLISHED) -> Iterator[None]:
    """What the disk says of ``path``, which cannot be written, as a ``StoreError``."""
    try:
        yield
    except StoreError:  # a file of the store that a compaction took away, among others
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{path} cannot be written: {reason}; {advice}") from error
