"""Anchors: one line that stands for everything there is, and proves later that nothing of it was
removed, rolled back, rewritten, reordered or cut.

An anchor is kept elsewhere. It names the newest manifest and counts what there is in each lane (the
publications of a table, the records, the rows of each journal), with a hash over all of it in
order. The rows of a publication are hashed by their values, in no order: the same before a
compaction and after it, and with another version of Parquet.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.errors import InvalidRequest, StoreError, number_of, reason_of, shorten
from fundlab.base.progress import with_progress
from fundlab.evidence.observations import Problem
from fundlab.store.manifests import canonical
from fundlab.store.parts import FROM, Publication
from fundlab.store.records import RECORDS
from fundlab.store.snapshot import Snapshot, read_versions, steadily
from fundlab.store.store_files import StoreFiles
from fundlab.tables.schema import TABLES

MANIFEST: Final = "manifest"
_FORMAT: Final = "fundlab-anchor-1"
_GIVE: Final = (
    f"give a line that begins with {_FORMAT!r}, or the file that 'fundlab anchor --out' wrote"
)
_LINE: Final = re.compile(
    rf"{_FORMAT} (?P<lanes>(?:[\w.-]+=\d+:[0-9a-f]{{16}} )*{MANIFEST}=\d+:[0-9a-f]{{16}} )"
    r"(?P<hash>[0-9a-f]{64})"
    r"(?P<signed> key=(?P<key>\S+) signature=(?P<signature>[\w-]+))?",
    re.ASCII,
)
_SHORT: Final = 16
_NOUNS: Final = {"records": "record"}

Lanes = Mapping[str, Sequence[str]]
"""The hash of each thing in a lane, in order."""


# ------------------------------------------------------------------------- what stands for rows


def row_hashes(rows: pa.Table) -> list[bytes]:
    """SHA-256 of each row: its columns by name, those that are null left out."""
    pieces = []
    for name in sorted(rows.column_names):
        column = rows.column(name)
        if column.null_count == rows.num_rows:
            continue
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        text = column.cast(pa.string()).cast(pa.binary())
        length = pc.cast(pc.binary_length(text), pa.string()).cast(pa.binary())
        piece = pc.binary_join_element_wise(name.encode(), length, text, b":")
        pieces.append(pc.fill_null(piece, b""))
    if not pieces:
        return [hashlib.sha256().digest()] * rows.num_rows
    joined = pc.binary_join_element_wise(*pieces, b"\n")
    return [
        hashlib.sha256(value).digest()
        for chunk in joined.chunks
        for value in chunk.cast(pa.large_binary()).to_pylist()
    ]


def table_lane(snapshot: Snapshot) -> list[str]:
    """A hash of each publication of a table: what is said of it, and its rows."""
    hashes: dict[int, list[bytes]] = {entry.seq: [] for entry in snapshot.publications}
    schema = snapshot.table.schema
    versions = (rows for part in snapshot.files for rows in read_versions(part, {}, schema))
    for rows in with_progress(
        ((rows.num_rows, rows) for rows in versions), sum(part.rows for part in snapshot.files),
        f"hashing {snapshot.table.name}",
    ):  # fmt: skip
        since = rows.column(FROM).to_numpy()
        digests = row_hashes(rows.select(schema.names))
        for seq in np.unique(since).tolist():
            hashes[seq] += [digests[at] for at in np.flatnonzero(since == seq)]
    lane = []
    for entry in snapshot.publications:
        rows_hash = hashlib.sha256(b"".join(sorted(hashes.pop(entry.seq)))).hexdigest()
        lane.append(hashlib.sha256(canonical([_said(entry), rows_hash])).hexdigest())
    return lane


def table_lanes(store: StoreFiles) -> dict[str, Sequence[str]]:
    """What an anchor stands for: a hash of each publication of each table, with all of its
    rows, of each record, and of the manifest. Reads every row."""

    def look() -> dict[str, Sequence[str]]:
        manifest = store.manifest()
        found: dict[str, Sequence[str]] = {
            name: table_lane(store.snapshot(name, manifest=manifest)) for name in TABLES
        }
        found[RECORDS] = [record.hash for record in store.records(manifest)]
        return found

    return steadily(look)


def _said(entry: Publication) -> list[Any]:
    return [entry.seq, entry.published_at, entry.rows, entry.query, entry.watermark]


# ------------------------------------------------------------------------- anchors


@dataclass(frozen=True)
class Anchor:
    """What was there: how many in each lane and the hash over them, and one over all; under
    ``manifest`` the number and the hash of that. ``lanes`` are the hashes of each thing, where the
    anchor is a file; of a line alone ``None``."""

    counts: Mapping[str, int]
    heads: Mapping[str, str]
    hash: str
    lanes: Lanes | None = None
    key: str | None = None
    signature: str | None = None

    @property
    def line(self) -> str:
        """The head: what to print, mail, commit or have signed."""
        lanes = "".join(f"{n}={self.counts[n]}:{self.heads[n][:_SHORT]} " for n in self.counts)
        return f"{_FORMAT} {lanes}{self.hash}"

    @property
    def signed_line(self) -> str:
        signed = f" key={self.key} signature={self.signature}" if self.signature else ""
        return self.line + signed

    def to_json(self) -> dict[str, Any]:
        return {
            "anchor": self.signed_line,
            "lanes": {n: list(v) for n, v in (self.lanes or {}).items()},
        }


def lane_head(leaves: Sequence[str]) -> str:
    """One hash over things in this order."""
    head = b""
    for leaf in leaves:
        head = hashlib.sha256(head + bytes.fromhex(leaf)).digest()
    return head.hex()


def make_anchor(lanes: Lanes, number: int, manifest: str) -> Anchor:
    """The anchor of ``lanes``, with the ``number`` and the hash of the ``manifest`` they are of."""
    kept = {name: leaves for name, leaves in lanes.items() if leaves}
    counts = {name: len(leaves) for name, leaves in kept.items()} | {MANIFEST: number}
    heads = {name: lane_head(leaves) for name, leaves in kept.items()}
    heads[MANIFEST] = manifest[:_SHORT]
    total = hashlib.sha256(canonical([[n, counts[n], heads[n]] for n in sorted(heads)])).hexdigest()
    return Anchor(counts, heads, total, kept)


def read_anchor(given: str | os.PathLike[str]) -> Anchor:
    """The anchor in a file, a JSON one or a line, or the line itself. Raises ``InvalidRequest`` for
    what is neither, ``StoreError`` for a file that cannot be read."""
    if not isinstance(given, str | os.PathLike):
        raise InvalidRequest(f"{shorten(given)} is not an anchor: {_GIVE}")
    text = os.fspath(given)
    if not text.startswith(_FORMAT):
        try:
            text = Path(text).expanduser().read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise StoreError(
                f"the anchor {text[:80]!r} cannot be read: {reason_of(error)}; {_GIVE}"
            ) from None
    lanes: Lanes | None = None
    with suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict) and isinstance(found.get("anchor"), str):
            text, lanes = found["anchor"], found.get("lanes") or None
    match = _LINE.fullmatch(text.strip())
    if match is None:
        raise InvalidRequest(f"{str(given)[:80]!r} is not an anchor: {_GIVE}")
    entries = [entry.partition("=")[::2] for entry in match["lanes"].split()]
    numbers = {name: value.partition(":")[::2] for name, value in entries}
    anchor = Anchor(
        {name: int(count) for name, (count, _) in numbers.items()},
        {name: head for name, (_, head) in numbers.items()},
        match["hash"], lanes, match["key"], match["signature"],
    )  # fmt: skip
    newest = anchor.counts[MANIFEST], anchor.heads[MANIFEST]
    if lanes is not None and make_anchor(lanes, *newest).line != anchor.line:
        raise InvalidRequest(f"{str(given)[:80]!r}: its hashes are not those of its anchor line")
    return anchor


def check_anchor(anchor: Anchor, there_is: Anchor) -> list[Problem]:
    """What of the anchored is not there any more as it was, each named; ``there_is`` is
    the anchor of what there is."""
    lanes = there_is.lanes or {}
    problems: list[Problem] = []

    def add(lane: str, where: str, expected: str, found: str) -> None:
        problems.append(Problem(lane, "anchor", where, expected, found))

    number, hash_ = anchor.counts[MANIFEST], anchor.heads[MANIFEST]
    if number > there_is.counts[MANIFEST]:
        found = f"{there_is.counts[MANIFEST]}: all was rolled back"
        add(MANIFEST, MANIFEST, f"number {number} or later", found)
    elif number == there_is.counts[MANIFEST] and hash_ != there_is.heads[MANIFEST]:
        add(MANIFEST, f"manifest {number}", "as anchored", "another one")
    every = {name: count for name, count in anchor.counts.items() if name != MANIFEST}
    for name, count in every.items():
        noun = _NOUNS.get(name, "row" if name.startswith("journal-") else "publication")
        there = lanes.get(name, ())
        wanted = None if anchor.lanes is None else anchor.lanes[name]
        same = list(there[:count])
        if len(there) < count:
            how = "the newest were removed, or all was rolled back"
            if name.startswith("journal-") and not there:
                how = "the journal is not here, or was removed"
            add(name, name, number_of(count, noun), f"{len(there):,}: {how}")
        elif wanted is None and lane_head(same)[:_SHORT] != anchor.heads[name]:
            which = "the first one" if count == 1 else f"one or more of the first {count:,}"
            add(name, f"{noun} 1 to {count}", "as anchored", f"{which} rewritten, or their order")
        if wanted is None:
            continue
        places = {leaf: place for place, leaf in enumerate(there, 1)}
        for place, (was, now) in enumerate(zip(wanted, same, strict=False), 1):
            if was == now:
                continue
            found = f"moved to {places[was]}" if was in places else "rewritten"
            add(name, f"{noun} {place}", "as anchored", found)
    if not problems:
        cut = {name: list(lanes[name][:count]) for name, count in every.items()}
        if make_anchor(cut, number, hash_).hash != anchor.hash:
            add("anchor", "the anchor", "its hash", "another: something was rewritten")
    return problems
