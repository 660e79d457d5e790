"""An object store as a filesystem of Arrow's: by obstore's own in memory, and by what it is asked
for. ``test_object_storage.py`` has a server."""

from __future__ import annotations

import errno
import io
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError
from obstore.store import MemoryStore
from pyarrow import fs

from fundlab.store import objects
from fundlab.store.objects import Objects, open_bucket
from fundlab.store.remote import RemotePath


@pytest.fixture
def bucket() -> fs.PyFileSystem:
    return fs.PyFileSystem(Objects(MemoryStore(), "gs", "books"))


@pytest.fixture
def july(bucket: fs.PyFileSystem, tmp_path: Path) -> RemotePath:
    return RemotePath("books/july", "gs", tmp_path, bucket)


def test_files_and_folders(july: RemotePath, bucket: fs.PyFileSystem, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"PAR1")
    (july / "transfers" / "1").put(tmp_path / "part")
    (july / "head").create(b"one")
    (july / "head").write_bytes(b"seven")
    (july / "empty").write_bytes(b"")
    assert bucket.type_name == "py::gs"
    assert bucket.normalize_path("books//july/") == "books//july/"
    assert [(str(one), one.size()) for one in sorted(july.iterdir()) if not one.is_dir()] == [
        ("gs://books/july/empty", 0), ("gs://books/july/head", 5),
    ]  # fmt: skip
    assert [one.name for one in july.iterdir() if one.is_dir()] == ["transfers"]
    assert (july / "transfers" / "1").read_bytes() == b"PAR1"
    assert (july / "empty").read_bytes() == b""
    age = datetime.now(UTC).timestamp() - (july / "head").written_at()
    assert 0 <= age < 60
    assert not (july / "none").exists()
    assert not list((july / "none").iterdir())

    bucket.copy_file("books/july/head", "books/july/copied")
    bucket.move("books/july/head", "books/july/moved")
    assert (july / "copied").read_bytes() == (july / "moved").read_bytes() == b"seven"
    assert not (july / "head").exists()
    (july / "moved").unlink()
    assert not (july / "moved").exists()


def test_a_name_that_is_taken(july: RemotePath) -> None:
    (july / "head").create(b"one")
    with pytest.raises(FileExistsError) as caught:
        (july / "head").create(b"two")
    assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, "books/july/head")
    assert (july / "head").read_bytes() == b"one"


def test_what_is_not_there_is_said_in_one_line(july: RemotePath, bucket: fs.PyFileSystem) -> None:
    """obstore says it in nine lines."""
    for way, name in (
        (lambda: (july / "none").open(), "july/none"),
        (lambda: bucket.copy_file("books/july/none", "books/x"), "books/july/none"),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            way()
        assert caught.value.errno == errno.ENOENT
        assert str(caught.value) == f"[Errno 2] No such file or directory: '{name}'"


@pytest.mark.parametrize(
    ("said", "number", "text"),
    [
        (PermissionDeniedError("a\nb"), errno.EACCES, "Permission denied"),
        (UnauthenticatedError("a\nb"), errno.EACCES, "Permission denied"),
        (GenericError("no answer of http://h/k?X-Amz-Signature=abc\nDebug"), errno.EIO,
         "no answer of http://h/k"),
    ],
)  # fmt: skip
def test_what_a_server_says(
    said: Exception, number: int, text: str, july: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(*_: Any, **__: Any) -> None:
        raise said

    monkeypatch.setattr(objects, "obstore", SimpleNamespace(put=put))
    with pytest.raises(OSError, match=text) as caught:
        (july / "head").write_bytes(b"")
    found = caught.value
    assert (found.errno, found.strerror, found.filename) == (number, text, "books/july/head")
    assert found.__suppress_context__


def test_nothing_else_is_written_through_it(bucket: fs.PyFileSystem) -> None:
    bucket.create_dir("books/none")
    bucket.delete_dir("books/none")
    for way in (bucket.open_output_stream, bucket.open_append_stream, bucket.delete_dir_contents):
        with pytest.raises(NotImplementedError):
            way("books/july")


# ------------------------------------------------------------------------ reading


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The ranges that are asked for from here on."""
    asked: list[Any] = []

    def get(store: Any, name: str, options: Any) -> Any:
        asked.append(options["range"])
        return obstore.get(store, name, options=options)

    def get_range(store: Any, name: str, start: int, end: int) -> Any:
        asked.append((start, end))
        return obstore.get_range(store, name, start=start, end=end)

    monkeypatch.setattr(objects, "obstore", SimpleNamespace(get=get, get_range=get_range))
    return asked


CONTENT = bytes(range(100))


@pytest.mark.parametrize(
    ("seek", "size", "asked"),
    [
        ((0, 0), 5, [(0, 5)]),
        ((0, 0), 20, [(0, 20)]),
        ((0, 0), 21, [(0, 20), (20, 21)]),
        ((0, 0), 0, []),
        ((30, 0), 41, [(30, 50), (50, 70), (70, 71)]),
        ((0, 0), -1, [(0, 20), (20, 40), (40, 60), (60, 80), (80, 100)]),
        ((89, 0), 1, [(89, 90)]),
        ((89, 0), 99, [(89, 100)]),
        ((90, 0), 3, []),  # its last ten bytes came with its size
        ((95, 0), 3, []),
        ((95, 0), -1, []),
        ((-10, 2), 10, []),
        ((-11, 2), 2, [(89, 91)]),
        ((100, 0), 1, []),
        ((4, 1), 2, [(4, 6)]),
    ],
)
def test_positions(
    seek: tuple[int, int], size: int, asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, beside = MemoryStore(), io.BytesIO(CONTENT)
    obstore.put(store, "july", CONTENT)
    monkeypatch.setattr(objects, "_END", 10)
    monkeypatch.setattr(objects, "_READ", 20)
    requests = counted(monkeypatch)
    file = objects._Reading(store, "july")
    assert requests == [{"suffix": 10}]
    assert file.tell() == 0
    assert file.seek(*seek) == beside.seek(*seek)
    assert file.read(size) == beside.read(size)
    assert requests[1:] == asked
    assert file.read(size) == beside.read(size)  # where the first ended, the second begins
    assert file.tell() == beside.tell()
    assert (file.seek(0), file.seek(-3, 2), file.seek(1, 1)) == (0, 97, 98)
    assert file.read() == CONTENT[98:]
    assert not file.closed
    file.close()
    assert file.closed


def test_how_much_is_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 KiB of its end, then 32 MiB a request."""
    mib, asked = 1 << 20, []

    def get(store: Any, name: str, options: Any) -> Any:
        asked.append(options)
        return SimpleNamespace(meta={"size": 70 * mib}, bytes=bytes)

    def get_range(store: Any, name: str, start: int, end: int) -> bytes:
        asked.append((start, end))
        return b"x"

    monkeypatch.setattr(objects, "obstore", SimpleNamespace(get=get, get_range=get_range))
    assert objects._Reading(None, "july").read() == b"xxx"
    assert asked == [
        {"range": {"suffix": 65_536}}, (0, 32 * mib), (32 * mib, 64 * mib), (64 * mib, 70 * mib),
    ]  # fmt: skip


def test_one_whose_end_cannot_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Azure."""
    store = MemoryStore()
    obstore.put(store, "july", CONTENT)

    def get(*_: Any, **__: Any) -> None:
        raise GenericError("suffix ranges are not supported")

    fake = SimpleNamespace(get=get, head=obstore.head, get_range=obstore.get_range)
    monkeypatch.setattr(objects, "obstore", fake)
    file = objects._Reading(store, "july")
    assert (file.seek(0, 2), file.read()) == (100, b"")
    assert (file.seek(90), file.read(4), file.read()) == (90, CONTENT[90:94], CONTENT[94:])


# ------------------------------------------------------------------------ opening


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each bucket is opened with; ``boto3`` is there, and has credentials."""
    asked: list[dict[str, Any]] = []

    def from_url(url: str, **given: Any) -> MemoryStore:
        asked.append({"url": url} | given)
        return MemoryStore()

    provider = ModuleType("obstore.auth.boto3")
    provider.Boto3CredentialProvider = lambda: "a profile"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "obstore.auth.boto3", provider)
    monkeypatch.setattr(objects, "from_url", from_url)
    monkeypatch.setattr(objects, "find_spec", {"boto3": "there"}.get)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE", "AWS_ALLOW_HTTP"):
        monkeypatch.delenv(name, raising=False)
    return asked


@pytest.mark.parametrize(
    ("scheme", "set_", "url", "profile"),
    [
        ("s3", {}, "s3://books", True),
        ("s3a", {}, "s3a://books", True),
        ("s3", {"AWS_ACCESS_KEY_ID": "key"}, "s3://books", False),
        ("s3", {"AWS_SKIP_SIGNATURE": "true"}, "s3://books", False),
        ("gs", {}, "gs://books", False),
        ("gcs", {}, "gs://books", False),
        ("az", {}, "az://books", False),
    ],
)
def test_what_it_is_reached_with(
    scheme: str, set_: dict[str, str], url: str, profile: bool, opened: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for name, value in set_.items():
        monkeypatch.setenv(name, value)
    assert open_bucket(scheme, "books").type_name == f"py::{scheme}"
    assert opened == [
        {
            "url": url,
            "client_options": {"connect_timeout": "10s", "timeout": "5m", "allow_http": False},
            "retry_config": {"max_retries": 4, "retry_timeout": timedelta(seconds=60)},
        }
        | ({"credential_provider": "a profile"} if profile else {})
    ]


@pytest.mark.parametrize(("said", "allowed"), [("true", True), ("TRUE", True), ("1", False)])
def test_plain_http_is_for_who_says_so(
    said: str, allowed: bool, opened: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ALLOW_HTTP", said)
    open_bucket("gs", "books")
    assert opened[0]["client_options"]["allow_http"] is allowed


def test_without_boto3_the_environment_is_all_there_is(
    opened: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "find_spec", {}.get)
    open_bucket("s3", "books")
    assert "credential_provider" not in opened[0]


def test_a_profile_that_is_not_there(
    opened: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise ValueError("a credential of nobody")

    monkeypatch.setattr(sys.modules["obstore.auth.boto3"], "Boto3CredentialProvider", none)
    with pytest.raises(OSError, match="no credentials for S3 are set") as caught:
        open_bucket("s3", "books")
    assert caught.value.errno == errno.EACCES
    assert opened == []
