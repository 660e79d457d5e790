"""Records: what people said of a store, such as closes and annotations; append-only.

Each is a small file, published by one rename and never rewritten. Its name is its number and the
beginning of the hash of its bytes, canonical JSON that names the hash of the record before it. So
a byte that is not what was written, and a record that was taken away, are errors; of the newest
ones the chain of the store tells (`fundlab.evidence.anchors`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from fundlab.base.errors import InvalidRequest, StoreDamaged
from fundlab.base.values import Instant, moment_ns
from fundlab.store import disk
from fundlab.store.remote import StorePath

RECORDS: Final = "records"
_NAME: Final = re.compile(r"(\d{8})-([0-9a-f]{16})\.json", re.ASCII)
RESTORE: Final = "restore its folder from a backup: nobody else has what people recorded"

Kind = Literal["close", "reopen", "annotate", "accept", "pass", "repair"]


@dataclass(frozen=True)
class Record:
    """``at`` is when it was made (RFC 3339), ``hash`` the SHA-256 of all its bytes; ``chain`` its
    number in the chain of the store and the file before it there."""

    seq: int
    kind: str
    at: str
    hash: str
    content: Mapping[str, Any]
    chain: tuple[int, str] | None = None

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.seq:08d}-{self.hash[:16]}.json"


def canonical(content: Any) -> bytes:
    """``content`` as JSON, the same bytes for the same content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def check_texts(**given: str | None) -> None:
    """Raises ``InvalidRequest`` for what no table of the records could hold: nothing that is once
    recorded can be taken back."""
    for name, text in given.items():
        if text is not None and not isinstance(text, str):
            raise InvalidRequest(f"{name}={text!r}: give a text")
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            raise InvalidRequest(f"{name}={text!r} is not a valid text: half a character") from None


def append_record(
    folder: StorePath,
    kind: Kind,
    at: str,
    content: Mapping[str, Any],
    chain: tuple[int, str] | None = None,
) -> Record:
    """Publish one more record; the caller holds the store's lock. Amounts in ``content`` are
    text."""
    before = read_records(folder)
    seq, previous = len(before) + 1, before[-1].hash if before else ""
    whole: dict[str, Any] = {
        "seq": seq,
        "kind": kind,
        "at": at,
        "previous": previous,
        "content": dict(content),
    }
    if chain is not None:
        whole["chain"] = list(chain)
    written = canonical(whole)
    digest = hashlib.sha256(written).hexdigest()
    made = Record(seq, kind, at, digest, json.loads(written)["content"], chain)
    path = folder / made.name
    hidden = disk.hidden_file(folder, path.stem)
    with disk.new_file(hidden) as file:
        file.write(written)
    disk.publish(hidden, path)
    return made


def known_by(records: Sequence[Record], as_of: str | datetime | None) -> list[Record]:
    """Those made until then; all without ``as_of``."""
    until = None if as_of is None else moment_ns(as_of, "as_of")
    return [one for one in records if until is None or Instant.parse(one.at).ns <= until]


def read_records(folder: StorePath) -> list[Record]:
    """Every record, oldest first. Raises ``StoreDamaged`` unless all are there as written."""
    found: list[Record] = []
    for path in _files(folder):
        if int(path.name[:8]) != len(found) + 1:
            raise StoreDamaged(f"record {len(found) + 1} is missing", path=folder, hint=RESTORE)
        record, previous = _read(path)
        if previous != (found[-1].hash if found else "") or record.seq != len(found) + 1:
            raise StoreDamaged(
                "does not follow the record before it, which was replaced", path=path, hint=RESTORE
            )
        found.append(record)
    return found


def newest_record(folder: StorePath) -> Record | None:
    """The last one alone. Raises ``StoreDamaged`` where it is not what was written."""
    files = _files(folder)
    return _read(files[-1])[0] if files else None


def _files(folder: StorePath) -> list[StorePath]:
    """Without those that are unfinished, or a system's own."""
    return [path for path in disk.files_in(folder) if _NAME.fullmatch(path.name)]


def _read(path: StorePath) -> tuple[Record, str]:
    """A record, and the hash of the one before it."""
    text = path.read_bytes()
    digest = hashlib.sha256(text).hexdigest()
    if not path.stem.endswith(digest[:16]):
        raise StoreDamaged("is not what was written", path=path, hint=RESTORE)
    whole = json.loads(text)
    chain = tuple(whole["chain"]) if "chain" in whole else None
    made = Record(whole["seq"], whole["kind"], whole["at"], digest, whole["content"], chain)
    return made, whole["previous"]
