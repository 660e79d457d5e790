"""The one door to the disk: what is written is down before it gets its name.

Order of every publication: the file's bytes are synced, then it is renamed, then its folder is
synced. A power cut leaves the old state or the new one. A full or failing disk is a ``StoreError``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fundlab.errors import StoreError


@contextmanager
def new_file(hidden: Path) -> Iterator[IO[bytes]]:
    """A file to write, on disk when the block ends, gone when it fails."""
    make_folder(hidden.parent)
    try:
        with _named(hidden), hidden.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def publish(hidden: Path, path: Path) -> Path:
    """Give a finished file its name, by one rename."""
    with _named(path):
        hidden.rename(path)
        sync_folder(path.parent)
    return path


def make_folder(folder: Path) -> None:
    """Create ``folder`` and its parents, down to the disk."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with _named(folder):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in ``folder`` outlive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"{path} cannot be written: {reason}; what was published before is whole: "
            "see to the disk, then run it again"
        ) from error
