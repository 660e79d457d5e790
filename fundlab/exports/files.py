"""A file that is there whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A name beside ``target`` to write to; renamed to it at the end, removed on an error.

    Missing folders are made.

    >>> with fl.exports.replacing(folder / "new" / "note.txt") as unfinished:
    ...     unfinished.write_text("whole or not at all") > 0
    True
    >>> (folder / "new" / "note.txt").read_text(encoding="utf-8")
    'whole or not at all'
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        yield unfinished
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
