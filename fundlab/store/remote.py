"""Files that are not on this machine: as much of ``pathlib.Path`` as the store needs, on object
stores (``objects.py``), and on the filesystems of Arrow and of ``fsspec``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from fundlab.base.errors import InvalidRequest, StoreError, first_line
from fundlab.base.paths import URI_AS_PATH, local_path
from fundlab.base.values import check_unicode

OBJECT_STORES: Final = frozenset({"s3", "s3a", "gcs", "gs", "abfs", "abfss", "az"})
_PATTERN: Final = re.compile(r"[*?\[]")
SCRATCH: Final = Path(".cache") / "fundlab"  # below the user's home


@dataclass(frozen=True, order=True)
class RemotePath:
    """``key`` in ``filesystem``. What is on its way there waits in ``scratch``, on this machine."""

    key: str
    scheme: str
    scratch: Path = field(compare=False, repr=False)
    filesystem: fs.FileSystem = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.key.lstrip('/')}"

    def __truediv__(self, name: str | Path) -> RemotePath:
        return replace(self, key=f"{self.key}/{name}")

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return Path(self.name).stem

    @property
    def parent(self) -> RemotePath:
        return replace(self, key=self.key.rpartition("/")[0])

    def resolve(self) -> RemotePath:
        return self

    @property
    def creates(self) -> bool:
        """Whether the filesystem knows ``create``: what ``fsspec`` does for those that do not is to
        look first, which is too late when it writes."""
        base = "fsspec.spec", "fsspec.asyn"
        every = type(self._python()).__mro__
        own = takewhile(lambda one: one.__module__ not in base, every)
        return any(name in vars(one) for one in own for name in ("pipe_file", "_pipe_file"))

    def exists(self) -> bool:
        return bool(self._info().type != fs.FileType.NotFound)

    def is_dir(self) -> bool:
        return bool(self._info().type == fs.FileType.Directory)

    def size(self) -> int:
        return int(self._file().size)

    def state(self) -> tuple[tuple[object, ...], int | None, int]:
        """What changes with the file, when it changed (ns), where that is known, and its size."""
        info, ukey = self._file(), getattr(self._python(), "ukey", None)
        mark = info.size, info.mtime_ns, ukey and ukey(self.key)
        return mark, info.mtime_ns, int(info.size)

    def written_at(self) -> float:
        return float((self._info().mtime_ns or 0) / 10**9)

    def iterdir(self) -> Iterator[RemotePath]:
        self._forget_listings()
        for info in self.filesystem.get_file_info(fs.FileSelector(self.key, allow_not_found=True)):
            yield self / info.base_name

    def open(self, mode: str = "rb") -> pa.NativeFile:
        """The file to read, at any position."""
        if mode != "rb":
            raise ValueError(f"mode {mode!r}: files are only read here, or put in one piece")
        return self.filesystem.open_input_file(self.key)

    def read_bytes(self) -> bytes:
        with self.open() as file:
            return bytes(file.read())

    def put(self, file: Path) -> None:
        """Make ``file`` appear here, complete: object stores take it so, others can rename it."""
        self.filesystem.create_dir(self.parent.key, recursive=True)
        if re.split("[+:]", self.filesystem.type_name)[-1] in OBJECT_STORES:
            self._send(file)
        else:
            hidden = self.parent / f".{self.name}.tmp"
            hidden._send(file)
            self.filesystem.move(hidden.key, self.key)

    def create(self, content: bytes) -> None:
        """Write a file where there is none, as the storage decides. Raises ``FileExistsError``."""
        self._python().pipe_file(self.key, content, mode="create")

    def write_bytes(self, content: bytes) -> None:
        """In place of any file there is."""
        self._python().pipe_file(self.key, content, mode="overwrite")

    def _send(self, file: Path) -> None:
        python = self._python()
        if python is not None:
            python.put_file(str(file), self.key)  # ends an upload only where all was sent
            return
        fs.copy_files(
            str(file), self.key,
            source_filesystem=fs.LocalFileSystem(), destination_filesystem=self.filesystem,
        )  # fmt: skip

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            self.filesystem.delete_file(self.key)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rmdir(self) -> None:
        self.filesystem.delete_dir(self.key)

    def _python(self) -> Any:
        """The filesystem in Python that Arrow's goes through, if it does."""
        handler = getattr(self.filesystem, "handler", None)
        return getattr(handler, "fs", handler)

    def _forget_listings(self) -> None:
        """What ``fsspec`` remembers of a folder hides what others published there since."""
        forget = getattr(self._python(), "invalidate_cache", None)
        if forget is not None:
            forget(self.parent.key)
            forget(self.key)

    def _info(self) -> fs.FileInfo:
        self._forget_listings()
        return self.filesystem.get_file_info(self.key)

    def _file(self) -> fs.FileInfo:
        info = self._info()
        if info.type != fs.FileType.File:
            raise FileNotFoundError(f"{self} does not exist")
        return info


StorePath = Path | RemotePath


def locate(path: str | os.PathLike[str] | RemotePath, filesystem: Any = None) -> StorePath:
    """Where ``path`` is: a folder of this machine, a URI (``s3://bucket/folder``), or the key of a
    folder in ``filesystem`` (one of ``pyarrow.fs`` or of ``fsspec``).

    Raises ``InvalidRequest`` for a URI that nothing here can open, or that was made a ``Path``,
    and ``StoreError`` where what it names does not answer.
    """
    if isinstance(path, RemotePath):
        return path
    if isinstance(path, Path) and URI_AS_PATH.match(str(path)):
        raise InvalidRequest(
            f"path={path!r}: a Path makes one slash of the two in a URI: give it as text"
        )
    scheme, separator, _ = str(path).partition("://")
    if filesystem is None and not separator:
        return local_path(path).absolute()  # the same place wherever the process goes later
    if filesystem is None:
        found, key = _opened(str(path), scheme)
    else:
        check_unicode(str(path), f"path={str(path)!r}")
        found, key = _as_arrow(filesystem), str(path).rpartition("://")[2]
        scheme = scheme if separator else str(found.type_name).rpartition("::")[2]
    if isinstance(found, fs.LocalFileSystem):
        return local_path(key).absolute()
    key = key.rstrip("/")
    if not key.strip("/"):
        raise InvalidRequest(f"path={str(path)!r}: name a folder, not a filesystem")
    if _PATTERN.search(key) and isinstance(getattr(found, "handler", None), fs.FSSpecHandler):
        raise InvalidRequest(f"path={str(path)!r}: fsspec takes '*', '?' and '[' for patterns")
    name = f"{scheme}://{_whole_key(found, key)}"
    try:
        home = Path.home()
    except RuntimeError as error:
        raise InvalidRequest(
            f"{name}: what is on its way there waits in your home folder: {error}; set HOME"
        ) from None
    scratch = home / SCRATCH / hashlib.sha256(name.encode()).hexdigest()[:16]
    return RemotePath(key, scheme, scratch, found)


def _whole_key(filesystem: fs.FileSystem, key: str) -> str:
    """The same key in two sub-trees is not the same place."""
    if isinstance(filesystem, fs.SubTreeFileSystem):
        return _whole_key(filesystem.base_fs, f"{filesystem.base_path.rstrip('/')}/{key}")
    inner: Any = getattr(getattr(filesystem, "handler", None), "fs", None)
    while getattr(inner, "protocol", None) == "dir":  # fsspec's sub-trees
        key, inner = f"{inner.path.rstrip('/')}/{key}", inner.fs
    return key


def _opened(uri: str, scheme: str) -> tuple[fs.FileSystem, str]:
    parts = urlsplit(uri)
    where = f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"  # no password, no key
    check_unicode(uri, f"path={where!r}")
    # Of a URI that says with which key, and where, Arrow knows what it means.
    plain = ":" not in parts.netloc and not parts.query
    if scheme in OBJECT_STORES and plain and parts.netloc and find_spec("obstore"):
        from fundlab.store.objects import open_bucket

        try:
            return open_bucket(scheme, parts.netloc), parts.netloc + parts.path
        except OSError as error:
            raise StoreError(f"{where} cannot be opened: {error.strerror}") from None
    try:
        found, key = fs.FileSystem.from_uri(uri)
    except pa.ArrowInvalid as error:
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise InvalidRequest(
                f"path={where!r}: pyarrow knows no {scheme!r} and fsspec is not installed: "
                "pip install fsspec, and its package for this kind of storage"
            ) from error
    except OSError as error:
        raise StoreError(f"{where} cannot be opened: {_without(uri, where, error)}") from None
    else:
        return found, str(key)
    try:
        found, key = url_to_fs(uri)
    except (ValueError, ImportError) as error:
        reason = _without(uri, where, error)
        raise InvalidRequest(f"path={where!r} cannot be opened: {reason}") from None
    except OSError as error:
        raise StoreError(f"{where} cannot be opened: {_without(uri, where, error)}") from None
    return _as_arrow(found), str(key)


def _without(uri: str, where: str, error: Exception) -> str:
    return first_line(error).replace(uri, where)


def _as_arrow(filesystem: Any) -> fs.FileSystem:
    if isinstance(filesystem, fs.FileSystem):
        return filesystem
    if not hasattr(filesystem, "_strip_protocol"):
        raise InvalidRequest(
            f"filesystem={type(filesystem).__name__}: give one of pyarrow.fs or of fsspec"
        )
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem))
