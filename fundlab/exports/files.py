"""A file that is there complete, or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR
from pathlib import Path

from fundlab.base.atomic_files import unfinished
from fundlab.base.errors import InvalidRequest, OutputError, StoreError
from fundlab.base.paths import local_path
from fundlab.base.values import check_unicode


@contextmanager
def replacing(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A file beside ``target`` to write to; renamed to it at the end, removed on an error. What
    killed runs left of the same target is removed, too. Of a link the file it leads to is replaced.

    Missing folders are made, and who may read an earlier file may read the new one, nobody else.
    Raises ``InvalidRequest`` for a target without a name, with half a character in it or that is
    no path of this machine, ``OutputError`` where the system refuses and for a device or a pipe,
    whose place a file would take.

    >>> with fl.exports.replacing(folder / "new" / "note.txt") as unfinished:
    ...     unfinished.write_text("complete or not at all") > 0
    True
    >>> (folder / "new" / "note.txt").read_text(encoding="utf-8")
    'complete or not at all'
    """
    check_unicode(str(target), f"path={str(target)!r}")
    target = local_path(target)
    if not target.name:
        raise InvalidRequest(f"path={str(target)!r} names no file")
    with writing(target):
        if target.is_symlink():
            target = Path(os.path.realpath(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():  # at once, not when all is written
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        if target.exists() and not target.is_file():
            raise OutputError(f"{target} is a device or a pipe; give the path of a file")
        rights = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        with unfinished(target, 0o666 if rights is None else 0o600) as hidden:
            yield hidden
            with hidden.open("rb") as file:
                os.fsync(file.fileno())
            if rights is not None:
                hidden.chmod(rights)
            hidden.replace(target)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system refuses within becomes an ``OutputError`` that names ``path``.

    >>> with fl.exports.writing(folder / "note.txt"):
    ...     raise IsADirectoryError(21, "Is a directory")
    Traceback (most recent call last):
    ...
    fundlab.errors.OutputError: ...note.txt cannot be written (Is a directory); give another ...
    """
    try:
        yield
    except StoreError:  # what is written is read from a store, and a compaction took a file away
        raise
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written ({error.strerror or error}); give another place, or see to "
            "its space and rights"
        ) from error
