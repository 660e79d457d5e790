"""A bucket that two machines write: each write is a step, before which somebody may end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import fs

from fundlab.store.remote import RemotePath
from tests.simulation.reading import Row, rows
from tests.simulation.schedule import Schedule


class Bucket(MemoryFileSystem):  # type: ignore[misc, unused-ignore]
    """What was put is there at once and complete, as object stores promise."""

    protocol = "bucket"
    cachable = False

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]
        self._schedule = schedule

    def place(self, key: str, scratch: Path) -> RemotePath:
        """A folder in it, for a machine that has its ``scratch`` files there."""
        return RemotePath(key, "bucket", scratch, fs.PyFileSystem(fs.FSSpecHandler(self)))

    def rows(self, key: str, columns: Iterable[str]) -> dict[str, Row]:
        """The transfers of the store at ``key``, as its files have them."""
        start = f"/{key}/"
        names = [name.removeprefix(start) for name in self.store if name.startswith(start)]
        return rows(names, lambda name: bytes(self.store[start + name].getvalue()), columns)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **more: Any) -> None:
        self._schedule.step(f"puts {path}", 0.01)
        super().pipe_file(path, value, mode=mode, **more)

    def put_file(self, lpath: str, rpath: str, **more: Any) -> None:
        self._schedule.step(f"puts {rpath}", 0.01)
        super().put_file(lpath, rpath, **more)
