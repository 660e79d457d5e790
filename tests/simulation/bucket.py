"""A bucket that two machines write: each write is a step, before which somebody may end, and whose
answer may be lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import obstore
from obstore.store import MemoryStore
from pyarrow import fs

from fundlab.store.objects import Objects
from fundlab.store.remote import RemotePath
from tests.simulation.environment import Virtual
from tests.simulation.reading import Row, rows
from tests.simulation.schedule import Wrong


class Bucket(Objects):
    """What was put is there at once and complete, as object stores promise. ``put`` is told of each
    write before it, and says what becomes of it: ``refused``, ``unanswered``, or nothing."""

    def __init__(self, put: Callable[[str], str | None]) -> None:
        super().__init__(MemoryStore(), "s3", "books")
        self._put = put
        self._written_ns: dict[str, int] = {}

    def end(self) -> None:
        """Nothing is written any more. The program keeps the bucket for as long as it remembers
        parts in it, and would keep the whole run with it."""
        del self._put

    def place(self, scratch: Path) -> RemotePath:
        """A folder in it, for a machine that has its ``scratch`` files there."""
        return RemotePath("books/funds", "s3", scratch, fs.PyFileSystem(self))

    def rows(self, columns: Iterable[str]) -> dict[str, Row]:
        """The transfers of the store in it, as its files have them."""
        start = "funds/"
        return rows(
            [name.removeprefix(start) for name in self._written_ns],
            lambda name: bytes(obstore.get(self._store, start + name).bytes()),
            columns,
        )

    def put_file(self, file: str, path: str) -> None:
        with self._written(path):
            super().put_file(file, path)

    def pipe_file(self, path: str, content: bytes, mode: Literal["create", "overwrite"]) -> None:
        with self._written(path):
            super().pipe_file(path, content, mode)

    @contextmanager
    def _written(self, path: str) -> Iterator[None]:
        if path.rpartition("/")[2].startswith("."):
            raise Wrong(f"{path} shows in a bucket, which takes files in one piece")
        kind = self._put(path)
        if kind == "refused":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        yield
        self._written_ns[self._name(path)] = Virtual.now_ns
        if kind == "unanswered":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def delete_file(self, path: str) -> None:
        super().delete_file(path)
        del self._written_ns[self._name(path)]

    def _described(self, found: Any) -> fs.FileInfo:
        """With the time of the run."""
        name = found["path"]
        return fs.FileInfo(
            f"books/{name}", fs.FileType.File, size=found["size"], mtime_ns=self._written_ns[name]
        )
