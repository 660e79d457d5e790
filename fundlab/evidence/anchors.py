"""The chain of a store, and anchors: one line that stands for everything there is, and proves later
that nothing of it was removed, rolled back, rewritten, reordered or cut.

Every publication and record names the file of the one before it (``link``), whose name ends in a
hash of its bytes: so a file that vanished or was replaced leaves a gap, whichever it was but the
last; the last one stands in the file ``head``, a note for accidents that anybody may write to.

An anchor is kept elsewhere. It counts what there is in each lane (the publications of a table, the
closes and annotations, the passes, the pins, the rows of each journal), with a hash over all of it
in order.
The rows of a publication are hashed by their values, in no order: the same before a compaction and
after it, and with another version of Parquet.
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

from fundlab.base.errors import InvalidRequest, StoreError, number_of
from fundlab.evidence.observations import Problem
from fundlab.store.parts import FROM, Part, PartReader, Publication
from fundlab.store.records import Record, canonical
from fundlab.store.remote import StorePath
from fundlab.store.snapshot import Snapshot, read_group_versions

HEAD: Final = "head"
_HEAD_BYTES: Final = 160
_FORMAT: Final = "fundlab-anchor-1"
_LINE: Final = re.compile(
    rf"{_FORMAT} (?P<lanes>(?:[\w.-]+=\d+:[0-9a-f]{{16}} )*)(?P<hash>[0-9a-f]{{64}})"
    r"(?P<signed> key=(?P<key>\S+) signature=(?P<signature>[\w-]+))?",
    re.ASCII,
)
_SHORT: Final = 16
_NOUNS: Final = {"records": "record", "passes": "pass", "pins": "pin"}

Lanes = Mapping[str, Sequence[str]]
"""The hash of each thing in a lane, in order."""


# ------------------------------------------------------------------------- the chain


@dataclass(frozen=True)
class Link:
    """What names the one before it: ``number`` in the chain of the store, ``name`` of its file,
    ``previous`` the name of the file before it. ``merged``: its file went with a compaction, and
    with it the hash in its name."""

    number: int
    name: str
    previous: str
    merged: bool = False


def table_links(snapshot: Snapshot) -> list[Link]:
    """The links among the publications of a table."""
    table = snapshot.table.name
    names = {part.seq: part.path.name for part in snapshot.files if part.kind == "part"}
    return [
        Link(entry.query["chain"][0], f"{table}/{names.get(entry.seq, f'part-{entry.seq:08d}')}",
             entry.query["chain"][1], entry.seq not in names)
        for entry in snapshot.publications
        if "chain" in entry.query
    ]  # fmt: skip


def part_link(table: str, part: Part) -> Link | None:
    """That of the last publication in a file."""
    chain = part.header.publications[-1].query.get("chain")
    name = part.path.name if part.kind == "part" else f"part-{part.seq:08d}"
    return (
        None if chain is None else Link(chain[0], f"{table}/{name}", chain[1], part.kind != "part")
    )


def record_links(folder: str, records: Sequence[Record]) -> list[Link]:
    return [
        Link(record.chain[0], f"{folder}/{record.name}", record.chain[1])
        for record in records
        if record.chain is not None
    ]


def write_head(folder: StorePath, link: Sequence[Any]) -> None:
    """Note which link is the last one: for accidents, so it need not outlive a power cut, and half
    of it counts as none. Written over the one before it, as long: to cut a file takes longer."""
    note = json.dumps(link).encode().ljust(_HEAD_BYTES)
    with suppress(OSError):  # the links themselves are there
        if not isinstance(folder, Path):
            (folder / HEAD).write_bytes(note)
            return
        file = os.open(folder / HEAD, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            os.write(file, note)
        finally:
            os.close(file)


def read_head(folder: StorePath) -> Link | None:
    with suppress(OSError, ValueError, TypeError):
        number, name = json.loads((folder / HEAD).read_text(encoding="utf-8"))
        return Link(int(number), str(name), "")
    return None


def broken_links(links: Sequence[Link], head: Link | None, lost: Sequence[str]) -> list[Problem]:
    """Where the chain is not what was written: ``lost`` are the names of what was recorded as
    lost."""
    problems: list[Problem] = []

    def add(where: str, expected: str, found: str) -> None:
        problems.append(Problem("chain", "chain", where, expected, found))

    known: dict[int, Link] = {}
    for link in sorted(links, key=lambda one: one.number):
        if link.number in known:
            add(
                link.name,
                "one file",
                f"two of number {link.number}, the other {known[link.number].name}",
            )
        known.setdefault(link.number, link)
    for number, link in known.items():
        before = known.get(number - 1)
        if number == 1 or link.previous in lost:
            continue
        if before is None:
            add(link.name, f"{link.previous} before it", "nothing: it is missing")
        elif not (
            before.name == link.previous
            or (before.merged and link.previous.startswith(before.name))
        ):
            add(link.name, f"{link.previous} before it", before.name)
    last = max(known, default=0)
    if head is not None and head.number > last and head.name not in lost:
        add("the newest file", head.name, "nothing: it is missing")
    return problems


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
    for part in snapshot.files:
        reader = PartReader(part)
        for number in range(len(part.header.row_groups)):
            rows = read_group_versions(reader, number, {}, schema)
            since = rows.column(FROM).to_numpy()
            digests = row_hashes(rows.select(schema.names))
            for seq in np.unique(since).tolist():
                hashes[seq] += [digests[at] for at in np.flatnonzero(since == seq)]
    lane = []
    for entry in snapshot.publications:
        rows_hash = hashlib.sha256(b"".join(sorted(hashes.pop(entry.seq)))).hexdigest()
        lane.append(hashlib.sha256(canonical([_said(entry), rows_hash])).hexdigest())
    return lane


def _said(entry: Publication) -> list[Any]:
    return [entry.seq, entry.published_at, entry.rows, entry.query, entry.watermark,
            entry.proved_by]  # fmt: skip


# ------------------------------------------------------------------------- anchors


@dataclass(frozen=True)
class Anchor:
    """What was there: how many in each lane and the hash over them, and one over all. ``lanes``
    are the hashes of each thing, where the anchor is a file; of a line alone ``None``."""

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


def make_anchor(lanes: Lanes) -> Anchor:
    kept = {name: leaves for name, leaves in lanes.items() if leaves}
    counts = {name: len(leaves) for name, leaves in kept.items()}
    heads = {name: lane_head(leaves) for name, leaves in kept.items()}
    total = hashlib.sha256(canonical([[n, counts[n], heads[n]] for n in sorted(heads)])).hexdigest()
    return Anchor(counts, heads, total, kept)


def read_anchor(given: str | os.PathLike[str]) -> Anchor:
    """The anchor in a file, a JSON one or a line, or the line itself. Raises ``InvalidRequest`` for
    what is neither, ``StoreError`` for a file that cannot be read."""
    text = os.fspath(given)
    if not text.startswith(_FORMAT):
        try:
            text = Path(text).expanduser().read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise StoreError(f"the anchor {text[:80]!r} cannot be read: {error}") from None
    lanes: Lanes | None = None
    with suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict) and isinstance(found.get("anchor"), str):
            text, lanes = found["anchor"], found.get("lanes") or None
    match = _LINE.fullmatch(text.strip())
    if match is None:
        raise InvalidRequest(
            f"{str(given)[:80]!r} is not an anchor: give a line that begins with {_FORMAT!r}, or "
            "the file that 'fundlab anchor --out' wrote"
        )
    entries = [entry.partition("=")[::2] for entry in match["lanes"].split()]
    numbers = {name: value.partition(":")[::2] for name, value in entries}
    anchor = Anchor(
        {name: int(count) for name, (count, _) in numbers.items()},
        {name: head for name, (_, head) in numbers.items()},
        match["hash"], lanes, match["key"], match["signature"],
    )  # fmt: skip
    if lanes is not None and make_anchor(lanes).line != anchor.line:
        raise InvalidRequest(f"{str(given)[:80]!r}: its hashes are not those of its anchor line")
    return anchor


def check_anchor(anchor: Anchor, lanes: Lanes) -> list[Problem]:
    """What of the anchored is not there any more as it was, each named."""
    problems: list[Problem] = []

    def add(lane: str, where: str, expected: str, found: str) -> None:
        problems.append(Problem(lane, "anchor", where, expected, found))

    for name, count in anchor.counts.items():
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
        places = {leaf: number for number, leaf in enumerate(there, 1)}
        for number, (was, now) in enumerate(zip(wanted, same, strict=False), 1):
            if was == now:
                continue
            found = f"moved to {places[was]}" if was in places else "rewritten"
            add(name, f"{noun} {number}", "as anchored", found)
    if not problems:
        cut = {name: list(lanes[name][:count]) for name, count in anchor.counts.items()}
        if make_anchor(cut).hash != anchor.hash:
            add("anchor", "the anchor", "its hash", "another: something was rewritten")
    return problems
