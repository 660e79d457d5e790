"""The manifest of a store: which files count, of all tables at once.

Every publication (a sync, a merge of files, a record) writes one more, ``manifests/00000042.json``,
by one rename; elsewhere by one write that the storage lets happen only where nothing has that name,
so that of two machines one publishes and the other is told. It names every file with its size and
SHA-256, the newest record, and the hash of the manifest before it. Every read begins with it: a
file that is lost, or is another one, has no way to pass for what was written.

The file ``head`` repeats the number and the hash of the newest, so that losing that one shows, too.
It is written just after: where a run was killed between the two it names the one before.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from fundlab.base.errors import StoreDamaged, StoreError, StoreLocked, install_command
from fundlab.base.values import Instant
from fundlab.store import disk
from fundlab.store.remote import RemotePath, StorePath

MANIFESTS: Final = "manifests"
HEAD: Final = "head"
_NAME: Final = re.compile(r"(\d{8})\.json", re.ASCII)
_HINT: Final = "restore it from a backup, or let 'fundlab repair' make it again of what is there"
_PROBE: Final = b"A write that succeeds only where nothing has this name.\n"
_PAUSE_S: Final = 0.02
_LOOKS: Final = 50


@dataclass(frozen=True)
class File:
    """A file of a table: its name, its size in bytes, and the SHA-256 of all of them."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What was published last, and when (``at``, ns): ``files`` of each table, in the order in
    which they are read, and the name of the newest ``record``. ``previous`` is the ``hash`` of the
    manifest before it; ``run`` tells those apart that two machines write at once. Of a store in
    which nothing was published the ``number`` is 0."""

    number: int = 0
    at: int = 0
    service: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, tuple[File, ...]] = field(default_factory=dict)
    record: str = ""
    previous: str = ""
    run: str = ""
    hash: str = ""

    @property
    def name(self) -> str:
        return f"{MANIFESTS}/{self.number:08d}.json"

    def to_bytes(self) -> bytes:
        """What its file holds."""
        return canonical({"manifest": _content(self), "sha256": self.hash})


def canonical(content: Any) -> bytes:
    """``content`` as JSON, the same bytes for the same content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def read_manifest(store: StorePath) -> Manifest:
    """The newest manifest of the store at ``store``. Raises ``StoreDamaged``, which names it, where
    it is lost or is not what was written, and ``StoreError`` where it cannot be read."""
    for _ in range(_LOOKS):
        with disk.readable(store):
            head = read_head(store)
            numbers = numbers_of(store)
            number = max(numbers, default=0)
            problem = _out_of_step(store, head, number)
            if problem is None:
                if not number:
                    return Manifest()
                try:
                    manifest = load_manifest(store, number)
                except FileNotFoundError:  # two more were published meanwhile
                    time.sleep(_PAUSE_S)
                    continue
                known = {manifest.number: manifest.hash, manifest.number - 1: manifest.previous}
                if head[0] and known.get(head[0], head[1]) != head[1]:
                    problem = _damaged(store / manifest.name, "is not the one that was published")
            if problem is None:
                return manifest
            if head == read_head(store) and numbers == numbers_of(store):
                raise problem
        time.sleep(_PAUSE_S)
    raise StoreDamaged("the store changes too fast to be read", path=store)


def load_manifest(store: StorePath, number: int) -> Manifest:
    """The manifest with this number. Raises ``StoreDamaged`` unless it is what was written, and
    ``FileNotFoundError``."""
    path = store / f"{MANIFESTS}/{number:08d}.json"
    written = path.read_bytes()
    try:
        whole = json.loads(written)
        content, digest = whole["manifest"], whole["sha256"]
        as_written = digest == _hash(content) and content["number"] == number
    except (ValueError, TypeError, KeyError):
        as_written = False
    if not as_written:
        raise _damaged(path, "is not what was written")
    files = {
        table: tuple(File(*entry) for entry in entries)
        for table, entries in content.pop("files").items()
    }
    return Manifest(**content | {"at": Instant.parse(content["at"]).ns}, files=files, hash=digest)


def write_manifest(
    store: StorePath,
    before: Manifest,
    at: int,
    service: Mapping[str, str],
    files: Mapping[str, Sequence[File]],
    record: str,
) -> Manifest:
    """Publish the manifest after ``before``: from here on its files count. The caller holds the
    lock of the store. Raises ``StoreLocked`` where another machine's run was first."""
    kept = {table: tuple(entries) for table, entries in files.items() if entries}
    elsewhere = isinstance(store, RemotePath)
    made = Manifest(
        before.number + 1, at, dict(service), kept, record, before.hash,
        run=uuid4().hex if elsewhere else "",
    )  # fmt: skip
    made = replace(made, hash=_hash(_content(made)))
    path, written = store / made.name, made.to_bytes()
    if isinstance(path, RemotePath):
        with disk.named(path):
            try:
                path.create(written)
            except OSError as error:
                # Somebody was first, or the answer was lost: what is there says which.
                try:
                    there = path.read_bytes()
                except OSError:
                    raise error from None
                if there != written:
                    raise beaten(store) from None
    else:
        disk.write_new(path, written)
    write_head(store, made)
    return made


def restore_manifest(store: Path, written: bytes) -> None:
    """Write the manifest of a backup into the folder of a store that has its files already."""
    content = json.loads(written)
    manifest = Manifest(content["manifest"]["number"], hash=content["sha256"])
    if manifest.number:
        disk.write_new(store / manifest.name, written)
        write_head(store, manifest)


def write_head(store: StorePath, manifest: Manifest) -> None:
    """Note which manifest is the newest, and remove those that nobody needs any more: all but it
    and the one before it."""
    disk.rewrite(store / HEAD, canonical([manifest.number, manifest.hash]))
    old = [number for number in numbers_of(store) if number < manifest.number - 1]
    disk.remove([store / f"{MANIFESTS}/{number:08d}.json" for number in old])


def settle_head(store: StorePath, manifest: Manifest) -> None:
    """Make up for a run that was killed after its manifest."""
    if manifest.number and read_head(store) != (manifest.number, manifest.hash):
        write_head(store, manifest)


def is_newest(store: StorePath, manifest: Manifest) -> bool:
    """Whether nothing was published since."""
    return max(numbers_of(store), default=0) == manifest.number


def beaten(store: StorePath) -> StoreLocked:
    return StoreLocked(
        f"{store}: another run, on another machine or of another user, has published since this "
        "one began: nothing more of this one was published; run it again"
    )


def why_read_only(root: RemotePath) -> str:
    """Why nothing may be published at ``root``, which is elsewhere; empty where it may. Writes a
    file of its own, twice where it is not there yet.

    Raises ``StoreError`` where the storage does not answer.
    """
    if not root.creates:
        return (
            f"a {root.filesystem.type_name!r} filesystem has no write that succeeds only "
            "where nothing has that name, so two runs could publish over each other; give the "
            f"URI (s3://…, gs://…, az://…) and run {install_command('remote')}"
        )
    try:
        for _ in range(2):
            (root / MANIFESTS / "probe").create(_PROBE)
    except FileExistsError:
        return ""
    except PermissionError as error:
        return f"it may not be written to ({error.strerror or error})"
    except OSError as error:
        raise StoreError(f"{root} cannot be opened: {error.strerror or error}") from None
    return (
        "this storage lets a write happen where the name is taken, although it was asked not "
        "to (If-None-Match), so two runs could publish over each other"
    )


def _content(manifest: Manifest) -> dict[str, Any]:
    content = asdict(manifest)
    del content["hash"]
    content["at"] = str(Instant.from_ns(manifest.at))
    content["files"] = {
        table: [[one.name, one.size, one.sha256] for one in entries]
        for table, entries in manifest.files.items()
    }
    return content


def _hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(content)).hexdigest()


def numbers_of(store: StorePath) -> list[int]:
    """Of the manifests that are there."""
    names = (_NAME.fullmatch(path.name) for path in disk.files_in(store / MANIFESTS))
    return [int(match[1]) for match in names if match]


def store_around(place: StorePath) -> StorePath | None:
    """The store that ``place`` is or, on this machine, is within. A backup, whose manifests have
    other names, is none."""
    here = place.resolve()
    around = (here, *here.parents) if isinstance(here, Path) else (here,)
    return next((folder for folder in around if numbers_of(folder)), None)


def read_head(store: StorePath) -> tuple[int, str]:
    """The number and the hash it names; 0 and nothing where it is not there."""
    path = store / HEAD
    try:
        number, digest = json.loads(path.read_bytes())
        return int(number), str(digest)
    except FileNotFoundError:
        return 0, ""
    except (ValueError, TypeError):
        raise _damaged(path, "is not what was written") from None


def _out_of_step(store: StorePath, head: tuple[int, str], number: int) -> StoreDamaged | None:
    if number < head[0]:
        return _damaged(store / f"{MANIFESTS}/{head[0]:08d}.json", "is missing: it was the newest")
    if number > head[0] + 1 and not head[0]:
        return _damaged(store / HEAD, f"is missing, and {number} manifests were published")
    # Elsewhere a slow machine may note its own after another's.
    if number > head[0] + 1 and isinstance(store, Path):
        return _damaged(store / HEAD, f"names manifest {head[0]}, and the newest is {number}")
    return None


def _damaged(path: StorePath, problem: str) -> StoreDamaged:
    return StoreDamaged(problem, path=path, hint=_HINT)
