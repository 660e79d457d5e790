"""The hidden file that something is written to before it gets its name."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

_ENDING: Final = r"\.[0-9a-f]{32}\.tmp"


@contextmanager
def unfinished(target: Path, mode: int = 0o666) -> Iterator[Path]:
    """A new file beside ``target``, ``.<target>.<hex>.tmp``; gone at the end, unless it was renamed
    by then. A folder beside it may have that name and ``-<anything>.tmp`` after it.

    Removes what killed runs left of the same ``target``.
    """
    sweep(target.parent, re.escape(target.name))
    while True:
        hidden = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
        handle = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # by another run, which is about to sweep it
            swept = True
        except OSError:  # a filesystem without locks: there nothing is ever swept
            swept = False
        else:
            swept = not hidden.exists()
        if not swept:
            break
        os.close(handle)
        hidden.unlink(missing_ok=True)
    try:
        yield hidden
    finally:
        os.close(handle)
        hidden.unlink(missing_ok=True)


def sweep(folder: Path, names: str) -> None:
    """Remove what killed runs left of files whose names match the pattern ``names``. A run that
    lives holds a lock on its file, which the kernel releases however the run ends. What another
    user left stays where this one may not open or remove it.
    """
    ours = re.compile(rf"(\.(?:{names}){_ENDING})(?:-.+\.tmp)?")
    for left in folder.iterdir():
        found = ours.fullmatch(left.name)
        if found is None:
            continue
        with (
            suppress(FileNotFoundError, PermissionError),  # swept by another run; another user's
            _abandoned(left.with_name(found[1])) as abandoned,
        ):
            if abandoned and left.is_dir():
                shutil.rmtree(left)
            elif abandoned:
                left.unlink(missing_ok=True)


@contextmanager
def _abandoned(hidden: Path) -> Iterator[bool]:
    """Whether no living run holds ``hidden``; none can take hold of it within."""
    try:
        handle = os.open(hidden, os.O_RDONLY)
    except FileNotFoundError:
        yield True
        return
    free = False
    try:
        with suppress(OSError):  # held by a run that lives, or nobody knows, for want of locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        yield free
    finally:
        os.close(handle)
