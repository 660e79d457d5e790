"""Copies of a store elsewhere, and a store from such a copy.

Files of a store never change, so a backup copies what is not there yet and is what the manifest of
the store says, reads it back, and ends with a manifest of its own: the names, sizes and hashes of
all that belonged together. Nothing there is ever removed or overwritten; what is not in a manifest
was of a backup that did not end.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from fundlab.base.errors import StoreDamaged, StoreError, number_of
from fundlab.base.progress import with_progress
from fundlab.base.values import Instant
from fundlab.store import disk
from fundlab.store.manifests import (
    MANIFESTS,
    Manifest,
    canonical,
    is_newest,
    read_manifest,
    restore_manifest,
    store_around,
)
from fundlab.store.parts import damaged
from fundlab.store.records import RECORDS, read_records
from fundlab.store.remote import StorePath, locate
from fundlab.store.snapshot import steadily

_NAME: Final = re.compile(r"(\d{8})-([0-9a-f]{16})\.json", re.ASCII)
_KEPT_ASIDE: Final = "journals"


@dataclass(frozen=True)
class Backup:
    """What a backup holds: ``files`` of how many ``bytes``, ``copied`` of them now; ``at`` is when
    it was made (RFC 3339), ``journals`` the names of the journals in it."""

    place: str
    at: str
    files: int
    bytes: int
    copied: int
    journals: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.place}: {number_of(self.files, 'file')} of {self.at[:19]}Z, {self.copied:,} "
            f"copied, {number_of(len(self.journals), 'journal')}"
        )


def back_up(
    path: StorePath, destination: StorePath, journals: Mapping[str, Path], now: int
) -> Backup:
    """Copy what ``destination`` lacks of the store at ``path`` and of ``journals`` (snapshots by
    their name), and add a manifest. A sync meanwhile does no harm.

    Raises ``StoreError`` where the destination is within a store, cannot be written, or does not
    hold what was copied.
    """
    if around := store_around(destination):
        raise StoreError(f"{destination} is within the store {around}: give a folder beside it")
    known = _manifest(destination).get("files", {}) if _manifests(destination) else {}
    swept: set[Path] = set()

    def copy_all() -> tuple[Manifest, dict[str, list[Any]], int]:
        files, copied = {}, 0
        manifest = read_manifest(path)
        wanted: dict[str, tuple[int, str | None]] = {
            f"{table}/{file.name}": (file.size, file.sha256)
            for table, entries in manifest.files.items()
            for file in entries
        }
        wanted |= {
            f"{RECORDS}/{record.name}": (0, record.hash)
            for record in read_records(path / RECORDS, manifest.record)
        }
        for name, digest in with_progress(
            ((size, (name, digest)) for name, (size, digest) in wanted.items()),
            sum(size for size, _ in wanted.values()), "backing up", "bytes",
        ):  # fmt: skip
            entry = known.get(name)
            there = destination / name
            if (
                entry is None
                or entry[1] != digest
                or not there.exists()
                or disk.state_of(there).size != entry[0]
            ):
                try:
                    entry = _copy(path / name, there, swept, digest)
                except FileNotFoundError as error:
                    if is_newest(path, manifest):
                        raise damaged(path / name, "is missing") from error
                    raise
                copied += 1
            files[name] = entry
        return manifest, files, copied

    manifest, files, copied = steadily(copy_all)
    kept = {}
    for name, snapshot in journals.items():
        digest = hashlib.sha256(snapshot.read_bytes()).hexdigest()
        place = f"{_KEPT_ASIDE}/{name}.{digest[:16]}"
        if not (destination / place).exists():
            _copy(snapshot, destination / place, swept)
        kept[name] = [place, digest]
    at = str(Instant.from_ns(now))
    newest = manifest.to_bytes().decode()
    content = canonical({"at": at, "files": files, "journals": kept, "manifest": newest})
    number = len(_manifests(destination)) + 1
    digest = hashlib.sha256(content).hexdigest()
    name = f"{number:08d}-{digest[:16]}.json"
    with disk.replacing(destination / MANIFESTS / name, swept=swept) as file:
        file.write(content)
    size = sum(size for size, _ in files.values())
    return Backup(str(destination), at, len(files), size, copied, tuple(kept))


def restore(
    source: str | StorePath, target: Path, aside: Path, put_back: Callable[[Path, str], object]
) -> Backup:
    """Write the newest backup at ``source`` into the new folder ``target``, each file checked.

    Before that has its name, ``put_back`` is told of each journal, with its path in ``aside`` and
    when the backup was made: a store that is there has its journals.

    Raises ``StoreError`` where the folder holds anything, or there is no backup, ``StoreDamaged``
    where a file of it is not what was written; nothing is there then.
    """
    place = locate(source)
    if target.exists() and any(target.iterdir()):
        raise StoreError(f"{target} is not empty: restore into a new folder, then compare the two")
    if not _manifests(place):
        raise StoreError(f"there is no backup at {place}; 'fundlab backup {place}' makes one")
    content = _manifest(place)
    hidden, swept = target.with_name(f".{target.name}.{uuid4().hex}.tmp"), set[Path]()
    try:
        for name, digest in with_progress(
            ((size, (name, digest)) for name, (size, digest) in content["files"].items()),
            sum(size for size, _ in content["files"].values()), "restoring", "bytes",
        ):  # fmt: skip
            _copy(place / name, hidden / name, swept, digest)
        for name, (there, digest) in content["journals"].items():
            _copy(place / there, aside / name, swept, digest)
        disk.make_folder(hidden)
        restore_manifest(hidden, content["manifest"].encode())
        for name in content["journals"]:
            put_back(aside / name, content["at"])
        with disk.named(target):  # by now somebody may have begun a store there
            if target.exists():
                target.rmdir()
            hidden.rename(target)
            disk.sync_folder(target.parent)
    finally:
        if hidden.exists():
            shutil.rmtree(hidden)
    sizes = [size for size, _ in content["files"].values()]
    journals = tuple(content["journals"])
    return Backup(str(place), content["at"], len(sizes), sum(sizes), len(sizes), journals)


def _copy(
    source: StorePath, target: StorePath, swept: set[Path], digest: str | None = None
) -> list[Any]:
    """Copy a file and read it back: its size and SHA-256, which is ``digest`` where given."""
    content = source.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if digest is not None and found != digest:
        raise StoreDamaged("is not what was written", path=source)
    with disk.replacing(target, swept=swept) as file:
        file.write(content)
    if hashlib.sha256(target.read_bytes()).hexdigest() != found:
        raise StoreDamaged("is not what was copied there", path=target)
    return [len(content), found]


def _manifests(place: StorePath) -> Sequence[StorePath]:
    return [path for path in disk.files_in(place / MANIFESTS) if _NAME.fullmatch(path.name)]


def _manifest(place: StorePath) -> dict[str, Any]:
    """The newest one. Raises ``StoreDamaged`` where it is not what was written."""
    path = _manifests(place)[-1]
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest()[:16] != path.stem.rpartition("-")[2]:
        raise StoreDamaged("is not what was written", path=path, hint="make a new backup elsewhere")
    found: dict[str, Any] = json.loads(content)
    return found
