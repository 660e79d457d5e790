"""Many parts into one base: every version stays, the current ones first, and less to open.

The oldest file is streamed and the few rows published since are merged into it, so memory holds
those only. The base becomes visible by one rename and only then the files it stands for go:
readers see either, never both and never neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.errors import StoreError
from fundlab.store import disk
from fundlab.store.parts import (
    TO,
    Header,
    Part,
    find_parts,
    moment_scalar,
    stored_schema,
)
from fundlab.store.remote import StorePath
from fundlab.store.snapshot import Snapshot
from fundlab.store.versions import find_ends, read_versions
from fundlab.store.writing import in_row_groups, write_part
from fundlab.tables.order import in_order, moment_column
from fundlab.tables.schema import SCHEMA_VERSION


def compact_table(
    folder: StorePath, snapshot: Snapshot, check_held: Callable[[], None]
) -> StorePath | None:
    """Replace the files of ``snapshot``, the newest, by one; ``None`` if it is one already.

    The caller holds the store's lock; ``check_held`` raises where it was taken away.
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
        check_held()
    except StoreError:
        draft.discard()
        raise
    path = draft.publish()
    remove_superseded(folder)
    return path


def remove_superseded(folder: StorePath) -> None:
    """Remove the files whose rows the newest base holds."""
    found = find_parts(folder)
    newest = max((seq for kind, seq in found if kind == "base"), default=0)
    gone = [
        path
        for (kind, seq), path in found.items()
        if seq < newest or (seq == newest and kind == "part")
    ]
    disk.remove(gone)


class _Merge:
    """The row groups of the new base: current rows by their moment, then the replaced ones."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.table = snapshot.table
        self.schema = stored_schema(snapshot.table, "base")
        self.first, *later = snapshot.files
        self.ends = find_ends(snapshot)
        rows = [self.schema.empty_table()]
        for part in later:
            rows += [self._stored(found) for _, found in self._versions(part)]
        current, replaced = _split(pa.concat_tables(rows))
        self.late = in_order(current, self.table)
        self.replaced = [replaced]

    def groups(self) -> Iterator[pa.Table]:
        yield from in_row_groups(self._current())
        yield from in_row_groups([in_order(pa.concat_tables(self.replaced), self.table)])
        yield from self._replaced_long_ago()

    def _current(self) -> Iterator[pa.Table]:
        taken = 0
        for number, versions in self._versions(self.first):
            if number >= self._live_groups():
                break
            current, replaced = _split(self._stored(versions))
            self.replaced.append(replaced)
            until = max(taken, self._count_up_to(self.first.header.row_groups[number][2]))
            merged = pa.concat_tables([current, self.late.slice(taken, until - taken)])
            taken = until
            yield in_order(merged, self.table)
        yield self.late.slice(taken)

    def _replaced_long_ago(self) -> Iterator[pa.Table]:
        """The versions that were replaced before the last compaction."""
        for number, versions in self._versions(self.first):
            if number >= self._live_groups():
                yield self._stored(versions)

    def _live_groups(self) -> int:
        live = self.first.header.live_groups
        return len(self.first.header.row_groups) if live is None else live

    def _count_up_to(self, moment: int | None) -> int:
        """How many of the late rows are not after ``moment``."""
        if moment is None:
            return 0
        column = self.late.column(moment_column(self.table))
        return int(pc.sum(pc.less_equal(column, moment_scalar(moment)), min_count=0).as_py())

    def _versions(self, part: Part) -> Iterator[tuple[int, pa.Table]]:
        return read_versions(part, self.ends, self.table.schema)

    def _stored(self, versions: pa.Table) -> pa.Table:
        return versions.cast(self.schema)


def _split(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    current = pc.is_null(rows.column(TO))
    return rows.filter(current), rows.filter(pc.invert(current))
