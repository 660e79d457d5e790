"""The hidden file that something is written to before it gets its name; and the lock of a file, by
which a run shows that it lives."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

_ENDING: Final = r"\.[0-9a-f]{32}\.tmp"


@contextmanager
def try_lock(handle: int) -> Iterator[bool]:
    """Hold the lock of an open file or folder; whether it was free. The kernel releases it when the
    run ends, however that ends. Raises ``OSError`` where the filesystem has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        free = True
    except BlockingIOError:  # another run's
        free = False
    process = os.getpid()
    try:
        yield free
    finally:
        if free and os.getpid() == process:  # a forked child has it open too: not its to release
            fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def unfinished(target: Path, mode: int = 0o666, swept: set[Path] | None = None) -> Iterator[Path]:
    """A new file beside ``target``, ``.<target>.<hex>.tmp``; gone at the end, unless it was renamed
    by then. A folder beside it may have that name and ``-<anything>.tmp`` after it.

    Removes what killed runs left of the same ``target``; or, where its folder is not yet among
    those ``swept``, of every file in it.
    """
    if swept is None:
        sweep(target.parent, re.escape(target.name))
    elif target.parent not in swept:
        sweep(target.parent, ".+")
        swept.add(target.parent)
    while True:
        with ExitStack() as held:
            hidden = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
            held.callback(hidden.unlink, missing_ok=True)
            handle = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
            held.callback(os.close, handle)
            ours = True
            with suppress(OSError):  # a filesystem without locks: there nothing is ever swept
                # Another run that is about to sweep the file may hold it, or have swept it.
                ours = held.enter_context(try_lock(handle)) and hidden.exists()
            if ours:
                yield hidden
                return


def sweep(folder: Path, names: str) -> None:
    """Remove what killed runs left of files whose names match the pattern ``names``. A run that
    lives holds a lock on its file, which the kernel releases however the run ends. What another
    user left stays where this one may not open or remove it.
    """
    pattern = re.compile(rf"(\.(?:{names}){_ENDING})(?:-.+\.tmp)?")
    for left in folder.iterdir():
        match = pattern.fullmatch(left.name)
        if match is None:
            continue
        # Swept by another run; another user's; or held by a run that lives, or, for want of
        # locks, nobody knows.
        with suppress(FileNotFoundError, PermissionError), ExitStack() as held:
            abandoned = True
            with suppress(FileNotFoundError):
                handle = os.open(left.with_name(match[1]), os.O_RDONLY)
                held.callback(os.close, handle)
                abandoned = False
                with suppress(OSError):
                    abandoned = held.enter_context(try_lock(handle))
            if abandoned and left.is_dir():
                shutil.rmtree(left)
            elif abandoned:
                left.unlink(missing_ok=True)
