"""Where rows with given ids stand in a snapshot: by salted 64-bit hashes, checked by the ids.

Ids are text of any kind. Hashing whole columns at once and searching a sorted array is several
times as fast as looking texts up, and holds 16 bytes a row instead of the text.
"""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.store.snapshot import Snapshot

_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)
_SLOT_BITS: Final = 20
_SLOT_SHIFT: Final = np.uint64(64 - _SLOT_BITS)
_ALL_BITS: Final = 2**64 - 1
_LONGEST: Final = 128  # a column is hashed as a matrix that is as wide as its longest text
_SALT: Final = np.uint64(secrets.randbits(64))  # another in each run: nobody can aim at it

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Places:
    """For each row looked for: the number of the file and the position in it; 0 if nowhere."""

    part: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]


def hash_texts(texts: pa.ChunkedArray | pa.Array) -> Hashes:
    """A 64-bit hash of each text; the same text has the same one throughout a run."""
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    return np.concatenate([np.empty(0, np.uint64), *map(_hash_chunk, chunks)])


def find_places(snapshot: Snapshot, hashes: Hashes) -> Places:
    """Where the standing rows are whose ids have these hashes, none of which is there twice."""
    places = Places(np.zeros(len(hashes), np.int32), np.zeros(len(hashes), np.int64))
    if not len(hashes):
        return places
    order = np.argsort(hashes)
    wanted = hashes[order]
    slots = np.zeros(1 << _SLOT_BITS, bool)  # passes over most rows before the search
    slots[wanted >> _SLOT_SHIFT] = True
    schema = pa.schema([snapshot.table.schema.field("id")])
    for part in snapshot.files:
        with part.open() as reader:
            for group in snapshot.groups(part, reader):
                there = hash_texts(reader.read(group.number, schema).column("id"))
                likely = slots[there >> _SLOT_SHIFT]
                if group.standing is not None:
                    likely &= group.standing
                rows = np.flatnonzero(likely)
                spot = np.minimum(np.searchsorted(wanted, there[rows]), len(wanted) - 1)
                hit = wanted[spot] == there[rows]
                rows, spot = rows[hit], spot[hit]
                places.part[order[spot]] = part.seq
                places.row[order[spot]] = rows + group.start
    return places


def find_rows(snapshot: Snapshot, ids: pa.Array) -> pa.Table:
    """The standing rows with these ids, in the order of the files."""
    table = snapshot.table
    places = find_places(snapshot, hash_texts(ids.unique()))
    found = [table.empty()]
    for part in snapshot.files:
        rows = np.sort(places.row[places.part == part.seq])
        starts = np.asarray(part.starts())
        with part.open() as reader:
            for number in np.unique(np.searchsorted(starts, rows, side="right") - 1):
                low, high = np.searchsorted(rows, starts[[number, number + 1]])
                chosen = pa.array(rows[low:high] - starts[number])
                found.append(reader.read(int(number), table.schema).take(chosen))
    every = pa.concat_tables(found)
    return every.filter(pc.is_in(every.column("id"), value_set=ids))


def _hash_chunk(texts: pa.Array) -> Hashes:
    texts = texts.cast(pa.large_binary())
    _, offsets_buffer, data = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset :][: len(texts) + 1]
    lengths = np.diff(offsets)
    hashes = lengths.astype(np.uint64) * _PRIME + _SALT
    if not len(lengths) or not lengths.max():
        return hashes
    characters = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    if lengths.max() > _LONGEST:
        return np.array([_hash_one(text) for text in texts.to_pylist()], np.uint64)
    width = -(-int(lengths.max()) // 8) * 8
    padded = np.zeros((len(lengths), width), np.uint8)
    if lengths.min() == lengths.max():
        padded[:, : lengths[0]] = characters.reshape(len(lengths), -1)
    else:
        padded[np.arange(width) < lengths[:, None]] = characters
    for number, word in enumerate(padded.view(np.uint64).T):
        mixed = (hashes ^ word) * _PRIME
        mixed ^= mixed >> _SHIFT
        hashes = np.where(lengths > 8 * number, mixed, hashes)
    return hashes


def _hash_one(text: bytes) -> int:
    """The same for a text of any length, one at a time."""
    done = (len(text) * int(_PRIME) + int(_SALT)) & _ALL_BITS
    for start in range(0, len(text), 8):
        word = int.from_bytes(text[start : start + 8].ljust(8, b"\0"), sys.byteorder)
        done = ((done ^ word) * int(_PRIME)) & _ALL_BITS
        done ^= done >> int(_SHIFT)
    return done
