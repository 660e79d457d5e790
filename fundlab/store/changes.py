"""Which staged rows are new, which differ from what the store has, and which it has already.

A version that is older than the one in the store, as a replica of the service that lags behind
sends it, is known already: the newest ``updated_at`` wins whenever it comes.

Memory holds 8 to 28 bytes for each staged row, the ids of a million of them, and a few row groups:
the rows themselves are read from the stage in the order of time, compared, and handed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.errors import StoreError
from fundlab.store.lookup import Places, find_places, hash_texts
from fundlab.store.parts import (
    BOOKKEEPING,
    Part,
    PartReader,
    each_row_group,
)
from fundlab.store.snapshot import Snapshot
from fundlab.store.staging import FILE_ROWS, Stage
from fundlab.store.writing import ROW_GROUP_ROWS, in_row_groups
from fundlab.tables.order import distinct, in_order
from fundlab.tables.schema import Table

Mask = npt.NDArray[np.bool_]
_POSITION: Final = "position"
_AT_ONCE: Final = 1_000_000


class Changes:
    """What of ``stage`` the store does not have. The counts are complete once all are taken."""

    def __init__(self, snapshot: Snapshot, stage: Stage) -> None:
        self._snapshot, self._stage = snapshot, stage
        self.new = self.changed = self.unchanged = 0

    def groups(self) -> Iterator[pa.Table]:
        """The new and the changed rows as a part stores them, in row groups."""
        yield from in_row_groups(self._changed())

    def _changed(self) -> Iterator[pa.Table]:
        keep, places = self._placed()
        part, row = BOOKKEEPING["part"]
        for rows in _in_time(self._stage, keep):
            position = rows.column(_POSITION).to_numpy()
            rows = rows.drop_columns([_POSITION])
            parts, at = places.part[position], places.row[position]
            changed = ~self._known(rows, parts, at)
            replaced = (parts > 0)[changed]
            self.unchanged += int((~changed).sum())
            self.changed += int(replaced.sum())
            self.new += int((~replaced).sum())
            if not changed.all():
                rows = rows.filter(pa.array(changed))
            rows = rows.append_column(part, pa.array(parts[changed], part.type, mask=~replaced))
            yield rows.append_column(row, pa.array(at[changed], row.type, mask=~replaced))

    def _placed(self) -> tuple[Mask, Places]:
        """Which staged rows count, and where the store has them: by their position."""
        hashes = np.concatenate(
            [np.empty(0, np.uint64)]
            + [hash_texts(rows.column("id")) for rows in self._stage.read(["id"])]
        )
        keep = _newest_only(self._stage, hashes)
        places = Places(np.zeros(len(hashes), np.int32), np.zeros(len(hashes), np.int64))
        for start, ids in _ids_in_blocks(self._stage) if self._snapshot.files else ():
            mine = np.flatnonzero(keep[start : start + len(ids)])
            found = find_places(self._snapshot, ids.take(pa.array(mine)))
            places.part[start + mine], places.row[start + mine] = found.part, found.row
        return keep, places

    def _known(
        self, rows: pa.Table, parts: npt.NDArray[np.int32], at: npt.NDArray[np.int64]
    ) -> Mask:
        known: Mask = np.zeros(rows.num_rows, bool)
        for part in self._snapshot.files:
            mine = np.flatnonzero(parts == part.seq)
            if len(mine):
                known[mine] = _known_in(part, rows.take(pa.array(mine)), at[mine])
        return known


def all_new(table: Table, rows: pa.Table) -> Iterator[pa.Table]:
    """``rows`` that nothing was known of, as a part stores them."""
    rows = in_order(rows, table)
    for field in BOOKKEEPING["part"]:
        rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return in_row_groups([rows])


def differing(rows: pa.Table, others: pa.Table) -> pa.Table:
    """The rows that ``others`` does not have in just this version; ids are unique in each."""
    position = pc.index_in(rows.column("id"), value_set=others.column("id").combine_chunks())
    same = position.is_valid().to_numpy().copy()
    where = np.flatnonzero(same)
    theirs = others.take(position.drop_null())
    for name in rows.schema.names:
        mine = rows.column(name).take(pa.array(where))
        same[where] &= equal_or_null(mine, theirs.column(name))
    return rows.filter(pa.array(~same))


def equal_or_null(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    """Where the two are equal, or both null."""
    equal = pc.fill_null(pc.equal(left, right), False)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return np.asarray(pc.or_(equal, both_null).to_numpy())


def _ids_in_blocks(stage: Stage) -> Iterator[tuple[int, pa.ChunkedArray]]:
    """The ids of all staged rows, a million at once, and the position of the first."""
    waiting: list[pa.Table] = []
    start = count = 0
    for rows in stage.read(["id"]):
        waiting.append(rows)
        count += rows.num_rows
        if count >= _AT_ONCE:
            yield start, pa.concat_tables(waiting).column("id")
            waiting, start, count = [], start + count, 0
    if count:
        yield start, pa.concat_tables(waiting).column("id")


def _newest_only(stage: Stage, hashes: npt.NDArray[np.uint64]) -> Mask:
    """All rows but older versions of one that is staged more than once."""
    keep: Mask = np.ones(len(hashes), bool)
    ordered = np.sort(hashes)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    del ordered
    if not len(repeated):
        return keep
    some = range(0, len(hashes), _AT_ONCE)
    alike = [np.isin(hashes[start : start + _AT_ONCE], repeated) for start in some]
    repeats = np.flatnonzero(np.concatenate(alike))
    names = [name for name in ("id", "updated_at") if name in stage.table.schema.names]
    found, start = [], 0
    for rows in stage.read(names):
        low, high = np.searchsorted(repeats, [start, start + rows.num_rows])
        at = pa.array(repeats[low:high])
        found.append(rows.take(pc.subtract(at, start)).append_column(_POSITION, at))
        start += rows.num_rows
    newest = distinct(pa.concat_tables(found), stage.table).column(_POSITION).to_numpy()
    keep[repeats] = False
    keep[newest] = True
    if len(np.unique(hashes[newest])) < len(newest):
        raise StoreError(f"{stage.table.name}: two ids look alike by chance; run the sync again")
    return keep


def _in_time(stage: Stage, keep: Mask) -> Iterator[pa.Table]:
    """The rows that count, a row group at a time, in the order of time as far as the pieces are."""
    waiting: list[pa.Table] = []
    pieces = stage.pieces
    count, starts = 0, np.cumsum([0, *(piece.rows for piece in pieces)])
    for number in sorted(range(len(pieces)), key=lambda n: pieces[n].first):
        chosen = np.flatnonzero(keep[starts[number] : starts[number + 1]])
        rows = pieces[number].read()
        if len(chosen) < rows.num_rows:
            rows = rows.take(pa.array(chosen))
        waiting.append(rows.append_column(_POSITION, pa.array(chosen + starts[number])))
        count += len(chosen)
        if count >= ROW_GROUP_ROWS + FILE_ROWS:
            rows = in_order(pa.concat_tables(waiting), stage.table)
            yield rows.slice(0, ROW_GROUP_ROWS)
            waiting, count = [rows.slice(ROW_GROUP_ROWS)], count - ROW_GROUP_ROWS
    if count:
        yield in_order(pa.concat_tables(waiting), stage.table)


def _known_in(part: Part, rows: pa.Table, at: npt.NDArray[np.int64]) -> Mask:
    """Which ``rows`` are as ``part`` has them at these positions, or older."""
    same: Mask = np.ones(len(at), bool)
    older: Mask = np.zeros(len(at), bool)
    first = [name for name in ("updated_at",) if name in rows.schema.names]  # decides most rows
    others = [name for name in rows.schema.names if name not in ("id", *first)]

    def compare(reader: PartReader, number: int) -> None:
        start, end = part.starts[number : number + 2]
        mine = np.flatnonzero((at >= start) & (at < end))
        for names in filter(None, (first, others)):
            left = mine[same[mine]]
            if not len(left):
                return
            given = rows.select(names).take(pa.array(left))
            stored = reader.read(number, given.schema).take(pa.array(at[left] - start))
            if names is first:
                older[left] = _is_later(stored.column(first[0]), given.column(first[0]))
            for name in names:
                same[left] &= equal_or_null(stored.column(name), given.column(name))

    for _ in each_row_group([(part, part.groups_of(at))], compare):
        pass
    return same | older


def _is_later(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    return np.asarray(pc.fill_null(pc.greater(left, right), False).to_numpy())
