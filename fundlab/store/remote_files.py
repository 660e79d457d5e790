"""The files of a store elsewhere, as DuckDB asks for them."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fsspec import AbstractFileSystem  # type: ignore[import-untyped, unused-ignore]

from fundlab.store.remote import RemotePath

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


class RemoteFiles(AbstractFileSystem):  # type: ignore[misc, unused-ignore]
    """The files beside ``path``, to read."""

    cachable = False

    def __init__(self, path: RemotePath) -> None:
        super().__init__()
        self.protocol = protocol_of(path)
        self._path = path

    def exists(self, path: str, **_: Any) -> bool:
        return self._at(path).exists()

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": self._at(path).size(), "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        """A name is that of one file, whatever signs are in it."""
        return [path]

    def modified(self, *_: Any) -> datetime:
        """Files of a store never change."""
        return datetime.fromtimestamp(0, UTC)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> _SharedFile:
        return _SharedFile(self._at(path).open(mode))

    def _at(self, path: str) -> RemotePath:
        return replace(self._path, key=path.removeprefix(f"{self.protocol}://"))


class _SharedFile:
    """A file that several threads of DuckDB read at once: each has a position of its own."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file, self._lock, self._here = file, threading.Lock(), threading.local()

    def seek(self, position: int, whence: int = 0) -> int:
        start = {0: 0, 1: self.tell(), 2: self._file.size()}[whence]
        self._here.position = start + position
        return self.tell()

    def tell(self) -> int:
        return int(getattr(self._here, "position", 0))

    def read(self, size: int = -1) -> bytes:
        with self._lock:
            self._file.seek(self.tell())
            found = bytes(self._file.read(None if size < 0 else size))
        self._here.position = self.tell() + len(found)
        return found

    def close(self) -> None:
        self._file.close()


def protocol_of(path: RemotePath) -> str:
    """Of this very filesystem: keys may be the same in another."""
    return f"fundlab-{path.scratch.name}-{id(path.filesystem):x}"


def shown_to(connection: duckdb.DuckDBPyConnection, path: RemotePath) -> str:
    """What ``path`` is called on ``connection``."""
    name = protocol_of(path)
    if not connection.filesystem_is_registered(name):
        connection.register_filesystem(RemoteFiles(path))
    return f"{name}://{path.key}"
