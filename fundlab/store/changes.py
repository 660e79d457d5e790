"""Which fetched rows are new, which differ from what the store has, and which it has already."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.store.parts import BOOKKEEPING, REPLACED_PART, PartReader
from fundlab.store.snapshot import Group, Snapshot
from fundlab.tables.order import in_order
from fundlab.tables.schema import TABLES, Table


@dataclass(frozen=True)
class Changes:
    """``rows``: the new and the changed ones as a part stores them, in order; and how many."""

    rows: pa.Table
    new: int
    changed: int
    unchanged: int


def find_changes(snapshot: Snapshot, fetched: pa.Table) -> Changes:
    """Compare ``fetched``, of which no two rows have the same key, with the standing rows."""
    if snapshot.table.key != ("id",) or not snapshot.files:
        return _all_new(snapshot.table, fetched)
    fetched = fetched.combine_chunks()
    search = _Search(fetched)
    for part in snapshot.files:
        with part.open() as reader:
            for group in snapshot.groups(part, reader):
                search.look_into(reader, group)
    return search.result(snapshot.table)


def update_changes(before: Changes, after: Changes, fetched: pa.Table) -> tuple[Changes, pa.Table]:
    """The changes once ``fetched``, whose own are ``after``, is known too; and the rows in which
    the two looks differ, as both saw them."""
    ids = fetched.column("id").combine_chunks()
    again = pc.is_in(before.rows.column("id"), value_set=ids)
    seen_before, kept = before.rows.filter(again), before.rows.filter(pc.invert(again))
    moved = pa.concat_tables([_not_in(after.rows, seen_before), _not_in(seen_before, after.rows)])
    rows = pa.concat_tables([kept, after.rows])
    rows = in_order(rows, TABLES["transfers"])
    changed = rows.num_rows - rows.column(REPLACED_PART).null_count
    return Changes(rows, rows.num_rows - changed, changed, after.unchanged), moved


def _not_in(rows: pa.Table, others: pa.Table) -> pa.Table:
    """The rows that ``others`` does not have in just this version; ids are unique in each."""
    position = pc.index_in(rows.column("id"), value_set=others.column("id").combine_chunks())
    same = position.is_valid().to_numpy().copy()
    where = np.flatnonzero(same)
    twins = others.take(position.drop_null())
    for name in rows.schema.names:
        mine = rows.column(name).take(pa.array(where))
        same[where] &= _equal(mine, twins.column(name))
    return rows.filter(pa.array(~same))


def _all_new(table: Table, fetched: pa.Table) -> Changes:
    rows = in_order(fetched, table)
    for field in BOOKKEEPING["part"]:
        rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return Changes(rows, rows.num_rows, 0, 0)


class _Search:
    """Finds the standing row of every fetched one."""

    def __init__(self, fetched: pa.Table) -> None:
        count = fetched.num_rows
        self.fetched = fetched
        self.ids = pa.array([], pa.string()) if not count else fetched.column("id").chunk(0)
        self.part: npt.NDArray[np.int32] = np.zeros(count, dtype=np.int32)
        self.row: npt.NDArray[np.int64] = np.zeros(count, dtype=np.int64)
        self.same: npt.NDArray[np.bool_] = np.zeros(count, dtype=bool)

    def look_into(self, reader: PartReader, group: Group) -> None:
        if not len(self.ids):
            return
        there = reader.read(group.number, pa.schema([self.fetched.schema.field("id")]))
        match = pc.index_in(there.column("id"), value_set=self.ids).combine_chunks()
        hit = match.is_valid().to_numpy(zero_copy_only=False)
        if group.standing is not None:
            hit &= group.standing
        rows = np.flatnonzero(hit)
        if not len(rows):
            return
        fetched = match.take(pa.array(rows)).to_numpy().astype(np.int64)
        self.part[fetched] = group.part.seq
        self.row[fetched] = rows + group.start
        self.same[fetched] = self._same(reader, group, rows, fetched)

    def _same(
        self,
        reader: PartReader,
        group: Group,
        rows: npt.NDArray[np.int64],
        fetched: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Which of them are the same in all columns; ``updated_at`` alone decides most."""
        same: npt.NDArray[np.bool_] = np.ones(len(rows), dtype=bool)
        names = self.fetched.schema.names
        first = [name for name in names if name == "updated_at"]
        steps: list[list[str]] = [first, [name for name in names if name not in first]]
        for wanted in steps:
            if not wanted or not same.any():
                continue
            schema = pa.schema([self.fetched.schema.field(name) for name in wanted])
            left = np.flatnonzero(same)
            stored = reader.read(group.number, schema).take(pa.array(rows[left]))
            given = self.fetched.select(wanted).take(pa.array(fetched[left]))
            for name in wanted:
                same[left] &= _equal(stored.column(name), given.column(name))
        return same

    def result(self, table: Table) -> Changes:
        known = self.part > 0
        keep = ~(known & self.same)
        rows = self.fetched.filter(pa.array(keep))
        replaced = known[keep]
        part, row = BOOKKEEPING["part"]
        rows = rows.append_column(part, pa.array(self.part[keep], part.type, mask=~replaced))
        rows = rows.append_column(row, pa.array(self.row[keep], row.type, mask=~replaced))
        changed = int(replaced.sum())
        return Changes(in_order(rows, table), rows.num_rows - changed, changed, int((~keep).sum()))


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Where the two are equal, or both null."""
    equal = pc.fill_null(pc.equal(left, right), False)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return np.asarray(pc.or_(equal, both_null).to_numpy())
