"""Where rows with given ids stand in a snapshot: by salted 64-bit hashes, then by the ids.

Ids are text of any kind. Hashing whole columns at once and searching a sorted array is several
times as fast as looking texts up, and holds 16 bytes a row instead of the text.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.store.parts import PartReader, each_row_group
from fundlab.store.snapshot import Group, Snapshot

_SLOT_BITS: Final = 20
_SLOT_SHIFT: Final = np.uint64(64 - _SLOT_BITS)
_ALL_BITS: Final = 2**64 - 1
_LONGEST: Final = 128  # a column is hashed as a matrix that is as wide as its longest text
_BLOCK: Final = 8192  # what stays in the processor's cache
Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]


def made_salts(randbits: Callable[[int], int]) -> tuple[np.uint64, np.uint64, np.uint64]:
    """One to begin with, and two odd ones to multiply with."""
    return np.uint64(randbits(64)), np.uint64(randbits(64) | 1), np.uint64(randbits(64) | 1)


_SALTS = made_salts(secrets.randbits)
"""Others in each run: what a bit of a text changes in a hash depends on all of them, so nobody can
aim at two texts with one."""


@dataclass(frozen=True)
class Places:
    """For each row looked for: the number of the file and the position in it; 0 if nowhere."""

    part: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]


def hash_texts(texts: pa.ChunkedArray | pa.Array) -> Hashes:
    """A 64-bit hash of each text; the same text has the same one throughout a run."""
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    blocks = [
        chunk.slice(start, _BLOCK) for chunk in chunks for start in range(0, len(chunk), _BLOCK)
    ]
    return np.concatenate([np.empty(0, np.uint64), *map(_hash_block, blocks)])


def find_places(snapshot: Snapshot, ids: pa.Array | pa.ChunkedArray) -> Places:
    """Where the current rows with these ids are; no id is given twice."""
    places = Places(np.zeros(len(ids), np.int32), np.zeros(len(ids), np.int64))
    if not len(ids):
        return places
    hashes = hash_texts(ids)
    order = np.argsort(hashes)
    wanted = hashes[order]
    slots = np.zeros(1 << _SLOT_BITS, bool)  # passes over most rows before the search
    slots[wanted >> _SLOT_SHIFT] = True
    schema = pa.schema([snapshot.table.schema.field("id")])

    def found(reader: PartReader, group: Group) -> tuple[int, Positions, Positions]:
        there = reader.read(group.number, schema).column("id")
        looked_at = hash_texts(there)
        likely = slots[looked_at >> _SLOT_SHIFT]
        if group.standing is not None:
            likely &= group.standing
        rows = np.flatnonzero(likely)
        spot = np.minimum(np.searchsorted(wanted, looked_at[rows]), len(wanted) - 1)
        hit = wanted[spot] == looked_at[rows]
        rows, which = rows[hit], order[spot[hit]]
        same = pc.equal(there.take(pa.array(rows)), ids.take(pa.array(which))).to_numpy()
        return group.part.seq, which[same], rows[same] + group.start

    for seq, which, rows in snapshot.in_each_group(found):
        places.part[which] = seq
        places.row[which] = rows
    return places


def find_rows(snapshot: Snapshot, ids: pa.Array) -> pa.Table:
    """The current rows with these ids, in the order of the files."""
    table = snapshot.table
    places = find_places(snapshot, ids.unique())
    wanted = {part.seq: np.sort(places.row[places.part == part.seq]) for part in snapshot.files}

    def chosen(reader: PartReader, number: int) -> pa.Table:
        rows, starts = wanted[reader.part.seq], reader.part.starts
        low, high = np.searchsorted(rows, starts[number : number + 2])
        within = pa.array(rows[low:high] - starts[number])
        return reader.read(number, table.schema).take(within)

    groups = [(part, part.groups_of(wanted[part.seq])) for part in snapshot.files]
    found = [table.empty(), *each_row_group(groups, chosen)]
    return pa.concat_tables(found)


def _hash_block(texts: pa.Array) -> Hashes:
    texts = texts.cast(pa.large_binary())
    _, offsets_buffer, data = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset :][: len(texts) + 1]
    lengths = np.diff(offsets)
    salt, first, last = _SALTS
    hashes = lengths.astype(np.uint64) * first + salt
    if not len(lengths) or not lengths.max():
        return hashes
    characters = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    if lengths.max() > _LONGEST:
        return np.array([_hash_one(text) for text in texts.to_pylist()], np.uint64)
    shortest, width = int(lengths.min()), -(-int(lengths.max()) // 8) * 8
    padded = np.zeros((len(lengths), width), np.uint8)
    if shortest == lengths.max():
        padded[:, :shortest] = characters.reshape(len(lengths), -1)
    else:
        padded[np.arange(width) < lengths[:, None]] = characters
    for number, word in enumerate(np.ascontiguousarray(padded.view(np.uint64).T)):
        mixed = hashes if shortest > 8 * number else hashes.copy()
        mixed ^= word
        mixed *= first  # carries a bit up, at random
        mixed.byteswap(inplace=True)  # and down again
        mixed *= last
        hashes = mixed if mixed is hashes else np.where(lengths > 8 * number, mixed, hashes)
    return hashes


def _hash_one(text: bytes) -> int:
    """The same for a text of any length, one at a time."""
    salt, first, last = map(int, _SALTS)
    done = (len(text) * first + salt) & _ALL_BITS
    for start in range(0, len(text), 8):
        word = int.from_bytes(text[start : start + 8].ljust(8, b"\0"), sys.byteorder)
        done = ((done ^ word) * first) & _ALL_BITS
        done = int.from_bytes(done.to_bytes(8, "little"), "big") * last & _ALL_BITS
    return done
