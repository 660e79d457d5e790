"""Many parts into one base: every version stays, the current ones first, and less to open.

Row groups are merged in the order of time, so memory holds those that overlap. The base becomes
visible by one rename, and from then on readers count it and not the files it stands for: never
both and never neither. Those stay for ``GRACE_S``, for who has begun to read them.

A sync compacts where it pays. One more file makes reading about as much slower as 5,000 more rows
do, a replaced row as much as one, and an eighth more is worth rewriting all; of a table that is
smaller, half more, since it is soon rewritten. So a sync rewrites, on average over many, at most
30,000 rows of a table, and eight for each that it replaces, however large the store becomes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.errors import StoreError
from fundlab.store import disk
from fundlab.store.parts import TO, Header, Part, damaged, find_parts, moment_scalar, stored_schema
from fundlab.store.remote import StorePath
from fundlab.store.snapshot import Snapshot
from fundlab.store.versions import read_group_versions
from fundlab.store.writing import ROW_GROUP_ROWS, in_row_groups, write_part
from fundlab.tables.order import in_order, moment_column
from fundlab.tables.schema import SCHEMA_VERSION

FILE_ROWS: Final = 5_000
FEW_ROWS: Final = 3 * FILE_ROWS  # three files, of a table however small
WORTH_ROWS: Final = 6 * FILE_ROWS  # six files, of a table of 60,000 rows or more
GRACE_S: Final = 3_600
_LONG_AGO: Final = -(2**63)


def pays(snapshot: Snapshot) -> bool:
    """Whether reading has become so much slower that everything is worth rewriting."""
    later = snapshot.files[1:]
    spent = sum(FILE_ROWS + sum(part.replacing().values()) for part in later)
    rows = sum(part.rows for part in snapshot.files)
    return spent >= max(FEW_ROWS, min(WORTH_ROWS, rows // 2), rows // 8)


def compact_table(
    folder: StorePath, snapshot: Snapshot, check_held: Callable[[], None]
) -> StorePath | None:
    """Publish one file for those of ``snapshot``, the newest; ``None`` if it is one already.

    The caller holds the store's lock; ``check_held`` raises where it was taken away. Raises
    ``StoreDamaged`` where a file is not what was written.
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
    try:
        rows = sum(part.rows for part in snapshot.files)
        if draft.rows != rows:
            raise damaged(folder, f"{draft.rows} rows came together instead of {rows}")
        check_held()
    except StoreError:
        draft.discard()
        raise
    return draft.publish()


def remove_superseded(folder: StorePath) -> None:
    """Remove the files whose rows a base holds that has been there for ``GRACE_S``, or of which
    the filesystem does not say since when.
    """
    found = find_parts(folder)
    until = time.time() - GRACE_S
    bases = [seq for (kind, seq), path in found.items() if kind == "base"]
    settled = max((seq for seq in bases if disk.written_at(found["base", seq]) <= until), default=0)
    disk.remove(
        [
            path
            for (kind, seq), path in found.items()
            if seq < settled or (seq == settled and kind == "part")
        ]
    )


class _Merge:
    """The row groups of the new base: current rows by their moment, then the replaced ones."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.table, self.files = snapshot.table, snapshot.files
        self.ends = snapshot.replaced

    def groups(self) -> Iterator[pa.Table]:
        yield from in_row_groups(self._current())
        yield from in_row_groups(self._replaced())

    def _current(self) -> Iterator[pa.Table]:
        """Each row group is read when the time of its first row has come, and a row is handed on
        when none that is read later can be before it."""
        pieces = [
            (_first_moment(part, number), place, number)
            for place, part in enumerate(self.files)
            for number in range(_live_groups(part))
        ]
        pieces.sort()
        waiting: list[pa.Table] = []
        count = 0
        following = [*pieces[1:], None][: len(pieces)]
        for (_, place, number), after in zip(pieces, following, strict=True):
            rows = self._versions(self.files[place], number)
            rows = rows.filter(pc.is_null(rows.column(TO)))
            waiting.append(rows)
            count += rows.num_rows
            if after is None or count >= ROW_GROUP_ROWS:
                ordered = in_order(pa.concat_tables(waiting), self.table)
                done = count if after is None else self._count_before(after[0], ordered)
                yield ordered.slice(0, done)
                waiting, count = [ordered.slice(done)], count - done

    def _count_before(self, moment: int, rows: pa.Table) -> int:
        earlier = pc.less(rows.column(moment_column(self.table)), moment_scalar(moment))
        return int(pc.sum(earlier, min_count=0).as_py())

    def _replaced(self) -> Iterator[pa.Table]:
        for part in self.files:
            gone = part.groups_of(self.ends[part.seq].rows) if part.seq in self.ends else []
            for number in [*gone, *range(_live_groups(part), len(part.header.row_groups))]:
                rows = self._versions(part, number)
                yield rows.filter(pc.is_valid(rows.column(TO)))

    def _versions(self, part: Part, number: int) -> pa.Table:
        with part.open() as reader:
            rows = read_group_versions(reader, number, self.ends, self.table.schema)
        return rows.cast(stored_schema(self.table, "base"))


def _first_moment(part: Part, number: int) -> int:
    first = part.header.row_groups[number][1]
    return _LONG_AGO if first is None else first


def _live_groups(part: Part) -> int:
    """How many row groups, from the first on, may hold current rows."""
    live = part.header.live_groups
    return len(part.header.row_groups) if live is None else live
