"""Which staged rows are new, which differ from what the store has, and which it has already.

A version that is older than the one in the store, as a replica of the service that lags behind
sends it, is known already: the newest ``updated_at`` wins whenever it comes; of versions that this
does not tell apart, the one fetched last.

Where the store has a row is found by salted 64-bit hashes of the ids, then by the ids. Ids are text
of any kind: hashing whole columns at once and searching a sorted array is several times as fast as
looking texts up. Memory holds 8 to 28 bytes for each staged row, the ids of a million of them, and
a few row groups: the rows themselves are read from the stage in the order of time, compared, and
handed on.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import numbers, of_numbers
from fundlab.base.errors import StoreError
from fundlab.store import parts
from fundlab.store.parts import BOOKKEEPING, PartReader, each_row_group
from fundlab.store.snapshot import Group, Mask, Snapshot
from fundlab.store.staging import FILE_ROWS, Stage
from fundlab.tables.schema import Table

_POSITION: Final = "position"
_AT_ONCE: Final = 1_000_000
_SLOT_BITS: Final = 20
_SLOT_SHIFT: Final = np.uint64(64 - _SLOT_BITS)
_ALL_BITS: Final = 2**64 - 1
_LONGEST: Final = 128  # a column is hashed as a matrix that is as wide as its longest text
_BLOCK: Final = 8192  # what stays in the processor's cache
Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]


@dataclass
class Changes:
    """What of ``stage`` the store does not have. The counts are complete once all are taken."""

    snapshot: Snapshot
    stage: Stage
    new: int = 0
    changed: int = 0
    unchanged: int = 0

    def groups(self) -> Iterator[pa.Table]:
        """The new and the changed rows as a part stores them, in the order of time."""
        stage, table, pieces = self.stage, self.stage.table, self.stage.pieces
        keep = _newest_only(stage)
        # Where the store has those that count, many at once: a search reads all of its ids.
        places = Places(np.zeros(len(keep), np.int32), np.zeros(len(keep), np.int64))
        waiting: list[pa.Table] = []
        start = count = 0
        for number, piece in enumerate(pieces if self.snapshot.files else (), 1):
            waiting.append(piece.read(["id", table.moment]))
            count += piece.rows
            if count >= _AT_ONCE or number == len(pieces):
                mine = np.flatnonzero(keep[start : start + count])
                wanted = pa.concat_tables(waiting).take(of_numbers(mine))
                found = find_places(self.snapshot, wanted.column("id"), wanted.column(table.moment))
                places.part[start + mine], places.row[start + mine] = found.part, found.row
                waiting, start, count = [], start + count, 0
        count, starts = 0, np.cumsum([0, *(piece.rows for piece in pieces)])
        # The oldest pieces first, a row group at a time: what is read later than the one after it
        # may hold rows before those at its end.
        for number in sorted(range(len(pieces)), key=lambda n: pieces[n].first):
            chosen = np.flatnonzero(keep[starts[number] : starts[number + 1]])
            rows = pieces[number].read()
            if len(chosen) < rows.num_rows:
                rows = rows.take(of_numbers(chosen))
            waiting.append(rows.append_column(_POSITION, of_numbers(chosen + starts[number])))
            count += len(chosen)
            if count >= parts.ROW_GROUP_ROWS + FILE_ROWS:
                rows = table.in_order(pa.concat_tables(waiting))
                yield self._unknown(rows.slice(0, parts.ROW_GROUP_ROWS), places)
                count -= parts.ROW_GROUP_ROWS
                waiting = [rows.slice(parts.ROW_GROUP_ROWS)]
            del rows
        if count:
            yield self._unknown(table.in_order(pa.concat_tables(waiting)), places)

    def _unknown(self, rows: pa.Table, places: Places) -> pa.Table:
        """Those of ``rows`` that the store does not have as they are, or newer, with the row that
        each replaces."""
        position = numbers(rows.column(_POSITION))
        rows = rows.drop_columns([_POSITION])
        seqs, at = places.part[position], places.row[position]
        first = [name for name in ("updated_at",) if name in rows.schema.names]  # decides most rows
        others = [name for name in rows.schema.names if name not in ("id", *first)]
        same: Mask = seqs > 0
        older: Mask = np.zeros(len(at), bool)

        def compare(reader: PartReader, number: int) -> None:
            start, end = reader.part.starts[number : number + 2]
            mine = np.flatnonzero((seqs == reader.part.seq) & (at >= start) & (at < end))
            for names in filter(None, (first, others)):
                left = mine[same[mine]]
                if not len(left):
                    return
                given = rows.select(names).take(of_numbers(left))
                stored = reader.read(number, given.schema).take(of_numbers(at[left] - start))
                if names is first:
                    later = pc.greater(stored.column(first[0]), given.column(first[0]))
                    older[left] = numbers(pc.fill_null(later, False))
                for name in names:
                    same[left] &= equal_or_null(stored.column(name), given.column(name))

        files = [(part, at[seqs == part.seq]) for part in self.snapshot.files]
        for _ in each_row_group([(part, part.groups_of(rows)) for part, rows in files], compare):
            pass
        changed = ~(same | older)
        replaced = (seqs > 0)[changed]
        self.unchanged += int((~changed).sum())
        self.changed += int(replaced.sum())
        self.new += int((~replaced).sum())
        if not changed.all():
            rows = rows.filter(of_numbers(changed))
        for field, values in zip(BOOKKEEPING["part"], (seqs, at), strict=True):
            column = of_numbers(values[changed], replaced).cast(field.type)
            rows = rows.append_column(field, column)
        return rows


def all_new(table: Table, rows: pa.Table) -> Iterator[pa.Table]:
    """``rows`` that nothing was known of, as a part stores them."""
    rows = table.in_order(rows)
    for field in BOOKKEEPING["part"]:
        rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    yield rows


def differing(rows: pa.Table, others: pa.Table) -> pa.Table:
    """The rows that ``others`` does not have in just this version; ids are unique in each."""
    position = pc.index_in(rows.column("id"), value_set=others.column("id").combine_chunks())
    same = numbers(position.is_valid()).copy()
    where = np.flatnonzero(same)
    theirs = others.take(position.drop_null())
    for name in rows.schema.names:
        mine = rows.column(name).take(of_numbers(where))
        same[where] &= equal_or_null(mine, theirs.column(name))
    return rows.filter(of_numbers(~same))


def equal_or_null(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    """Where the two are equal, or both null."""
    equal = pc.fill_null(pc.equal(left, right), False)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return numbers(pc.or_(equal, both_null))


def _newest_only(stage: Stage) -> Mask:
    """All rows but older versions of one that is staged more than once."""
    count = start = 0
    hashes: Hashes = np.empty(sum(piece.rows for piece in stage.pieces), np.uint64)
    for rows in stage.read(["id"]):
        hashes[count : count + rows.num_rows] = hash_texts(rows.column("id"))
        count += rows.num_rows
    keep: Mask = np.ones(count, bool)
    hashes.sort()
    repeated = hashes[1:][hashes[1:] == hashes[:-1]]
    del hashes
    if not len(repeated):
        return keep
    found = []
    for rows in stage.read([n for n in ("id", "updated_at") if n in stage.table.schema.names]):
        at = np.flatnonzero(np.isin(hash_texts(rows.column("id")), repeated))
        keep[start + at] = False
        found.append(rows.take(of_numbers(at)).append_column(_POSITION, of_numbers(start + at)))
        start += rows.num_rows
    newest = stage.table.distinct(pa.concat_tables(found))
    keep[numbers(newest.column(_POSITION))] = True
    hashes = np.sort(hash_texts(newest.column("id")))
    if np.any(hashes[1:] == hashes[:-1]):
        raise StoreError(f"{stage.table.name}: two ids look alike by chance; run the sync again")
    return keep


# ------------------------------------------------------------------------------- where rows are


@dataclass(frozen=True)
class Places:
    """For each row looked for: the number of the file and the position in it; 0 if nowhere."""

    part: npt.NDArray[np.int32]
    row: Positions


def find_places(
    snapshot: Snapshot, ids: pa.Array | pa.ChunkedArray, moments: pa.ChunkedArray | None = None
) -> Places:
    """Where the current rows with these ids are; no id is given twice.

    With their ``moments`` they are looked for in the row groups of that time, and in all others
    only where one is not there: it is new, or its moment was another one.
    """
    places = Places(np.zeros(len(ids), np.int32), np.zeros(len(ids), np.int64))
    span: tuple[int | None, int | None] = (None, None)
    if moments is not None and moments.null_count < len(moments):
        known = numbers(moments.drop_null())
        span = int(known.min()), int(known.max()) + 1
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
        if group.current is not None:
            likely &= group.current
        rows = np.flatnonzero(likely)
        spot = np.minimum(np.searchsorted(wanted, looked_at[rows]), len(wanted) - 1)
        hit = wanted[spot] == looked_at[rows]
        rows, which = rows[hit], order[spot[hit]]
        same = numbers(pc.equal(there.take(of_numbers(rows)), ids.take(of_numbers(which))))
        return group.part.seq, which[same], rows[same] + group.start

    near = [(part, snapshot.numbers(part, *span)) for part in snapshot.files]
    rest = [(part, sorted({*snapshot.numbers(part)}.difference(mine))) for part, mine in near]
    for groups in (near, rest):
        if not places.part.all():
            for seq, which, rows in snapshot.in_groups(found, groups):
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
        within = of_numbers(rows[low:high] - starts[number])
        return reader.read(number, table.schema).take(within)

    groups = [(part, part.groups_of(wanted[part.seq])) for part in snapshot.files]
    return pa.concat_tables([table.schema.empty_table(), *each_row_group(groups, chosen)])


def made_salts(randbits: Callable[[int], int]) -> tuple[np.uint64, np.uint64, np.uint64]:
    """One to begin with, and two odd ones to multiply with."""
    return np.uint64(randbits(64)), np.uint64(randbits(64) | 1), np.uint64(randbits(64) | 1)


_SALTS = made_salts(secrets.randbits)
"""Others in each run: what a bit of a text changes in a hash depends on all of them, so nobody can
aim at two texts with one."""


def hash_texts(texts: pa.ChunkedArray | pa.Array) -> Hashes:
    """A 64-bit hash of each text; the same text has the same one throughout a run."""
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    found = [np.empty(0, np.uint64)]
    for chunk in chunks:
        starts = range(0, len(chunk), _BLOCK)
        found += [_hash_block(chunk.slice(s, _BLOCK).cast(pa.large_binary())) for s in starts]
    return np.concatenate(found)


def _hash_block(texts: pa.Array) -> Hashes:
    """The words of all texts at once: a matrix with a column for every eight characters."""
    _, offsets_buffer, data = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset :][: len(texts) + 1]
    lengths = np.diff(offsets)
    salt, first, last = _SALTS
    hashes = lengths.astype(np.uint64) * first + salt
    if not lengths.max():
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
