"""Object stores (S3 and what speaks as it does, Google Cloud Storage, Azure) as a filesystem of
Arrow's, with the one thing those lack: a write that succeeds only where nothing has that name."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import from_url
from pyarrow import fs

_END: Final = 64 << 10
_READ: Final = 32 << 20  # bytes a request: one that takes minutes is one that does not answer
_RETRIES: Final[Any] = {"max_retries": 4, "retry_timeout": timedelta(minutes=1)}


def open_bucket(scheme: str, bucket: str) -> fs.FileSystem:
    """The filesystem whose keys begin with ``bucket``. What it is reached with comes from the
    environment (``AWS_…``, ``GOOGLE_…``, ``AZURE_…``), and for S3 from the profiles of AWS where
    ``boto3`` is installed. Raises ``OSError`` where that is not enough."""
    given: dict[str, Any] = {}
    named = {"AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"} & os.environ.keys()
    if scheme in ("s3", "s3a") and not named and find_spec("boto3"):
        from obstore.auth.boto3 import Boto3CredentialProvider

        try:
            given["credential_provider"] = Boto3CredentialProvider()
        except ValueError:
            raise OSError(errno.EACCES, "no credentials for S3 are set") from None
    url = f"{'gs' if scheme == 'gcs' else scheme}://{bucket}"
    # ``http://`` is for who says so: on this machine, where there is no network to listen on.
    plain = os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"
    client: Any = {"connect_timeout": "10s", "timeout": "5m", "allow_http": plain}
    with _answers(url):
        store = from_url(url, client_options=client, retry_config=_RETRIES, **given)
    return fs.PyFileSystem(Objects(store, scheme, bucket))


class Objects(fs.FileSystemHandler):  # type: ignore[misc, unused-ignore]
    """The objects of one bucket; folders are what their names have in common."""

    def __init__(self, store: Any, scheme: str, bucket: str) -> None:
        self._store, self._scheme, self._bucket = store, scheme, bucket

    def get_type_name(self) -> str:
        return self._scheme

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        found = []
        for path in paths:
            try:
                with _answers(path):
                    found.append(self._described(obstore.head(self._store, self._name(path))))
            except FileNotFoundError:
                below = self.get_file_info_selector(fs.FileSelector(path))
                kind = fs.FileType.Directory if below else fs.FileType.NotFound
                found.append(fs.FileInfo(path, kind))
        return found

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        with _answers(selector.base_dir):
            found = obstore.list_with_delimiter(self._store, f"{self._name(selector.base_dir)}/")
        return [
            *(self._described(one) for one in found["objects"]),
            *(
                fs.FileInfo(f"{self._bucket}/{name}", fs.FileType.Directory)
                for name in found["common_prefixes"]
            ),
        ]

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_Reading(self._store, self._name(path)), mode="r")

    open_input_stream = open_input_file

    def put_file(self, file: str, path: str) -> None:
        """Upload a file of this machine, which appears complete, in place of any there is."""
        with _answers(path):
            obstore.put(self._store, self._name(path), Path(file))

    def pipe_file(self, path: str, content: bytes, mode: Literal["create", "overwrite"]) -> None:
        """Raises ``FileExistsError`` where a name is taken that was to be new: as the server found
        it, in the same step."""
        with _answers(path):
            obstore.put(self._store, self._name(path), content, mode=mode)

    def copy_file(self, src: str, dest: str) -> None:
        with _answers(src):
            obstore.copy(self._store, self._name(src), self._name(dest))

    def move(self, src: str, dest: str) -> None:
        self.copy_file(src, dest)
        self.delete_file(src)

    def delete_file(self, path: str) -> None:
        with _answers(path):
            obstore.delete(self._store, self._name(path))

    def create_dir(self, path: str, recursive: bool) -> None:
        """Nothing to do: a folder comes with its first object, and goes with its last one."""

    def delete_dir(self, path: str) -> None:
        """As ``create_dir``; no object is removed."""

    def _unused(self, *given: Any) -> Any:
        raise NotImplementedError

    delete_dir_contents = delete_root_dir_contents = _unused
    open_output_stream = open_append_stream = _unused

    def _name(self, path: str) -> str:
        return path.removeprefix(self._bucket).strip("/")

    def _described(self, found: Any) -> fs.FileInfo:
        name = f"{self._bucket}/{found['path']}"
        return fs.FileInfo(
            name, fs.FileType.File, size=found["size"], mtime=found["last_modified"].timestamp()
        )


class _Reading:
    """An object that is read, at any position; what Arrow needs of a Python file, no more."""

    def __init__(self, store: Any, name: str) -> None:
        self._store, self._name, self._position = store, name, 0
        self.closed = False
        # Its size and its end in one request: there a Parquet file says what is in it.
        with _answers(name):
            try:
                found = obstore.get(store, name, options={"range": {"suffix": _END}})
                self._size, self._end = int(found.meta["size"]), bytes(found.bytes())
            except (GenericError, NotSupportedError):  # of an empty one, and on Azure
                self._size, self._end = int(obstore.head(store, name)["size"]), b""

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._position + size, self._size)
        known = self._size - len(self._end)
        if known <= self._position:
            found = self._end[self._position - known : end - known]
            self._position += len(found)
            return found
        pieces = []
        while self._position < end:
            until = min(self._position + _READ, end)
            with _answers(self._name):
                pieces.append(
                    bytes(
                        obstore.get_range(self._store, self._name, start=self._position, end=until)
                    )
                )
            self._position = until
        return b"".join(pieces)

    def seek(self, position: int, whence: int = 0) -> int:
        self._position = {0: 0, 1: self._position, 2: self._size}[whence] + position
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        self.closed = True


@contextmanager
def _answers(path: str) -> Iterator[None]:
    """What a server says, as the error a disk gives; without the address, which may be signed."""
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        kinds = {
            FileNotFoundError: errno.ENOENT,
            AlreadyExistsError: errno.EEXIST,
            PermissionDeniedError: errno.EACCES,
            UnauthenticatedError: errno.EACCES,
        }
        number = kinds.get(type(error), errno.EIO)
        said = str(error).splitlines()[0].partition("?")[0]
        raise OSError(number, said if number == errno.EIO else os.strerror(number), path) from None
