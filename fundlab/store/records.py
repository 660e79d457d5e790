"""Records: what people said of a store and what its runs found, append-only: closes, annotations,
pins, what was accepted, whose key signs approvals, what passes over all rows found.

Each is a small file, published with a manifest and never rewritten. Its name is the number of that
publication and the beginning of the hash of its bytes, canonical JSON that names the record before
it; the manifest names the newest. So a record that was lost, replaced or changed is an error.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

from fundlab.base.errors import InvalidRequest, StoreDamaged, StoreError
from fundlab.base.values import check_unicode
from fundlab.store import disk
from fundlab.store.manifests import canonical
from fundlab.store.remote import StorePath

RECORDS: Final = "records"
_NAME: Final = re.compile(r"(\d{8})-([0-9a-f]{16})\.json", re.ASCII)
_HELD: Final = WeakValueDictionary[str, "Record"]()
RESTORE: Final = "restore its folder from a backup: nobody else has what people recorded"

Kind = Literal["close", "reopen", "annotate", "accept", "pass", "pin", "repair", "person"]


@dataclass(frozen=True)
class Record:
    """``number`` is that of the publication it came with, ``at`` when it was made (RFC 3339),
    ``hash`` the SHA-256 of all its bytes, ``previous`` the name of the record before it."""

    number: int
    kind: str
    at: str
    hash: str
    content: Mapping[str, Any]
    previous: str

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.number:08d}-{self.hash[:16]}.json"


def check_texts(**given: str | None) -> None:
    """Raises ``InvalidRequest`` for what no table of the records could hold: nothing that is once
    recorded can be taken back."""
    for name, text in given.items():
        if text is not None and not isinstance(text, str):
            raise InvalidRequest(f"{name}={text!r}: give a text")
        check_unicode(text or "", f"{name}={text!r}")


def needed(**given: str) -> None:
    """Refuses an empty text, or what is not one."""
    for name, text in given.items():
        if not isinstance(text, str) or not text.strip():
            raise InvalidRequest(f"{name}={text!r}: give a text")
    check_texts(**given)


def write_record(
    folder: StorePath, number: int, kind: Kind, at: str, content: Mapping[str, Any], previous: str
) -> Record:
    """Write a record, which counts once a manifest names it. Amounts in ``content`` are text."""
    whole = {"number": number, "kind": kind, "at": at, "previous": previous,
             "content": dict(content)}  # fmt: skip
    written = canonical(whole)
    made = _record(written, hashlib.sha256(written).hexdigest())
    disk.write_new(folder / made.name, written)
    return made


def read_records(folder: StorePath, newest: str) -> list[Record]:
    """Every record up to the one named ``newest``, oldest first. Raises ``StoreDamaged`` unless all
    are there as written; ``StoreError`` where they cannot be read."""
    found: list[Record] = []
    name = newest
    left: list[str] | None = None
    while name:
        record = read_record(folder / name)
        found.append(record)
        if left is None and "records" in record.content:  # of a repair: those that were left
            left = list(record.content["records"])
        name = record.previous if left is None else left.pop() if left else ""
    return found[::-1]


def read_record(path: StorePath) -> Record:
    """Raises ``StoreDamaged`` where it is missing, or not what was written."""
    try:
        with disk.readable(path):
            written = path.read_bytes()
    except FileNotFoundError:
        raise StoreDamaged("is missing", path=path, hint=RESTORE) from None
    digest = hashlib.sha256(written).hexdigest()
    if not path.stem.endswith(f"-{digest[:16]}"):
        raise StoreDamaged("is not what was written", path=path, hint=RESTORE)
    return _record(written, digest)


def intact_records(folder: StorePath) -> list[Record]:
    """Those of the files in ``folder`` that are what was written, oldest first."""
    found = []
    for path in disk.files_in(folder):
        if _NAME.fullmatch(path.name):
            try:
                found.append(read_record(path))
            except StoreError:
                continue
    return found


def pins_of(records: Sequence[Record]) -> dict[str, Record]:
    """The record that made each pin, by its name, oldest first: it names what is known at the
    publication of that record. A close is a pin, too."""
    return {one.content["pin"]: one for one in records if one.kind in ("pin", "close")}


def repair_that_lost(records: Sequence[Record], table: str, number: int) -> Record | None:
    """The repair before which it was lost what ``table`` was at publication ``number``, if any."""
    for record in records:
        lost_from = record.content["tables"].get(table) if record.kind == "repair" else None
        if lost_from is not None and lost_from <= number < record.number:
            return record
    return None


def _record(written: bytes, digest: str) -> Record:
    """A record that somebody holds is not parsed again: that of a close may have megabytes."""
    record = _HELD.get(digest)
    if record is None:
        _HELD[digest] = record = Record(hash=digest, **json.loads(written))
    return record
