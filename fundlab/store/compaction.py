"""Many parts into one base: every version stays, the current ones first, and less to open.

The oldest file is streamed and the few rows published since are merged into it, so memory holds
those only. The base becomes visible by one rename and only then the files it stands for go:
readers see either, never both and never neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.store.parts import (
    BOOKKEEPING,
    FROM,
    REPLACED_PART,
    REPLACED_ROW,
    ROW_GROUP_ROWS,
    TO,
    Header,
    Part,
    find_parts,
    moment_scalar,
    stored_schema,
    sync_folder,
    write_part,
)
from fundlab.store.snapshot import Snapshot
from fundlab.tables.order import in_order, moment_column
from fundlab.tables.schema import SCHEMA_VERSION, Table


def compact_table(folder: Path, snapshot: Snapshot) -> Path | None:
    """Replace the files of ``snapshot``, the newest, by one; ``None`` if it is one already.

    The caller holds the store's lock.
    """
    if not snapshot.files or (len(snapshot.files) == 1 and snapshot.files[0].kind == "base"):
        return None
    header = Header(
        snapshot.table.name,
        SCHEMA_VERSION,
        snapshot.files[-1].header.service,
        snapshot.publications,
    )
    draft = write_part(folder, "base", snapshot.table, header, _Merge(snapshot).groups())
    path = draft.publish()
    remove_superseded(folder)
    return path


def remove_superseded(folder: Path) -> None:
    """Remove the files whose rows the newest base holds."""
    found = find_parts(folder)
    newest = max((seq for kind, seq in found if kind == "base"), default=0)
    gone = [
        path
        for (kind, seq), path in found.items()
        if seq < newest or (seq == newest and kind == "part")
    ]
    for path in gone:
        path.unlink()
    if gone:
        sync_folder(folder)


@dataclass(frozen=True)
class _Ends:
    """Of one file: the sorted positions of the rows replaced, and the publication that did."""

    rows: npt.NDArray[np.int64]
    by: npt.NDArray[np.int32]

    def within(self, start: int, count: int) -> npt.NDArray[np.int32]:
        """For each of ``count`` rows from ``start``: replaced by, 0 where it stands."""
        ends = np.zeros(count, dtype=np.int32)
        low, high = np.searchsorted(self.rows, [start, start + count])
        ends[self.rows[low:high] - start] = self.by[low:high]
        return ends


class _Merge:
    """The row groups of the new base: current rows by their moment, then the replaced ones."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.table = snapshot.table
        self.schema = stored_schema(snapshot.table, "base")
        self.first, *later = snapshot.files
        self.ends = _ends_of(snapshot)
        rows = pa.concat_tables([self.schema.empty_table(), *map(self._whole, later)])
        current = pc.is_null(rows.column(TO))
        self.late = in_order(rows.filter(current), self.table)
        self.replaced = [rows.filter(pc.invert(current))]

    def groups(self) -> Iterator[pa.Table]:
        yield from _in_size(self._current())
        replaced = in_order(pa.concat_tables(self.replaced), self.table)
        yield from _in_size([replaced])
        yield from self._replaced_before()

    def _current(self) -> Iterator[pa.Table]:
        starts = self.first.starts()
        taken = 0
        with self.first.open() as reader:
            for number in self._live_groups():
                rows = reader.read(number, self.table.schema)
                ends = self._ends_within(self.first, starts[number], rows.num_rows)
                since = None
                if self.first.kind == "base":
                    since = reader.read(number, pa.schema([BOOKKEEPING["base"][0]])).column(FROM)
                stored = self._stored(rows, since, self.first.seq, ends)
                standing = pc.is_null(stored.column(TO))
                self.replaced.append(stored.filter(pc.invert(standing)))
                until = self._count_up_to(self.first.header.row_groups[number][2])
                merged = [stored.filter(standing), self.late.slice(taken, max(until - taken, 0))]
                taken = max(taken, until)
                yield in_order(pa.concat_tables(merged), self.table)
        yield self.late.slice(taken)

    def _live_groups(self) -> range:
        live = self.first.header.live_groups
        return range(len(self.first.header.row_groups) if live is None else live)

    def _replaced_before(self) -> Iterator[pa.Table]:
        """The row groups of versions that were replaced before the last compaction."""
        if self.first.kind == "base":
            with self.first.open() as reader:
                for number in range(len(self._live_groups()), len(self.first.header.row_groups)):
                    yield reader.read(number, self.schema)

    def _count_up_to(self, moment: int | None) -> int:
        """How many of the late rows are not after ``moment``."""
        if moment is None:
            return 0
        column = self.late.column(moment_column(self.table))
        found = pc.sum(pc.less_equal(column, moment_scalar(moment)), min_count=0)
        return int(found.as_py())

    def _whole(self, part: Part) -> pa.Table:
        found, starts = [self.schema.empty_table()], part.starts()
        with part.open() as reader:
            for number in part.groups():
                rows = reader.read(number, self.table.schema)
                ends = self._ends_within(part, starts[number], rows.num_rows)
                found.append(self._stored(rows, None, part.seq, ends))
        return pa.concat_tables(found)

    def _ends_within(self, part: Part, start: int, count: int) -> npt.NDArray[np.int32]:
        ends = self.ends.get(part.seq)
        return np.zeros(count, dtype=np.int32) if ends is None else ends.within(start, count)

    def _stored(
        self,
        rows: pa.Table,
        since: pa.ChunkedArray | None,
        seq: int,
        ends: npt.NDArray[np.int32],
    ) -> pa.Table:
        if since is None:
            since = pa.array(np.full(rows.num_rows, seq, dtype=np.int32))
        until = pa.array(ends, pa.int32(), mask=ends == 0)
        rows = rows.append_column(FROM, since).append_column(TO, until)
        return rows.cast(self.schema)


def _ends_of(snapshot: Snapshot) -> Mapping[int, _Ends]:
    found: dict[int, list[_Ends]] = {}
    schema = pa.schema(BOOKKEEPING["part"])
    for part in snapshot.files:
        if part.kind != "part":
            continue
        with part.open() as reader:
            for number in part.groups():
                pointers = reader.read(number, schema).drop_null()
                targets = pointers.column(REPLACED_PART).to_numpy()
                rows = pointers.column(REPLACED_ROW).to_numpy()
                for target in np.unique(targets):
                    mine = rows[targets == target]
                    by = np.full(len(mine), part.seq, dtype=np.int32)
                    found.setdefault(int(target), []).append(_Ends(mine, by))
    return {target: _merged(ends) for target, ends in found.items()}


def _merged(ends: list[_Ends]) -> _Ends:
    rows = np.concatenate([entry.rows for entry in ends])
    order = np.argsort(rows, kind="stable")
    return _Ends(rows[order], np.concatenate([entry.by for entry in ends])[order])


def _in_size(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in the same order, in row groups of the usual size."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= ROW_GROUP_ROWS:
            rows = pa.concat_tables(waiting)
            yield rows.slice(0, ROW_GROUP_ROWS)
            waiting, count = [rows.slice(ROW_GROUP_ROWS)], count - ROW_GROUP_ROWS
    if count:
        yield pa.concat_tables(waiting)
