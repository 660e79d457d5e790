"""Many parts into one base: every version stays, the current ones first, and less to open.

Row groups are merged in the order of time, so memory holds those that overlap. The next manifest
names the base in place of the files it stands for: readers count it or them, never both and never
neither. Those stay for ``GRACE_S``, for who has begun to read them.

A sync compacts where it pays. One more file makes reading about as much slower as 5,000 more rows
do, a replaced row as much as one, and an eighth more is worth rewriting all; of a table that is
smaller, half more, since it is soon rewritten. So a sync rewrites, on average over many, at most
30,000 rows of a table, and eight for each that it replaces, however large the store becomes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.progress import with_progress
from fundlab.store import disk, parts
from fundlab.store.manifests import Manifest
from fundlab.store.parts import (
    FILE_NAME,
    TO,
    Draft,
    Header,
    Part,
    PartReader,
    damaged,
    stored_schema,
    write_part,
)
from fundlab.store.remote import StorePath
from fundlab.store.snapshot import Snapshot, read_group_versions
from fundlab.tables.schema import INSTANT_TYPE, SCHEMA_VERSION

FILE_ROWS: Final = 5_000
FEW_ROWS: Final = 3 * FILE_ROWS  # three files, of a table however small
WORTH_ROWS: Final = 6 * FILE_ROWS  # six files, of a table of 60,000 rows or more
GRACE_S: Final = 3_600
_LONG_AGO: Final = -(2**63)


def pays(snapshot: Snapshot) -> bool:
    """Whether reading has become so much slower that everything is worth rewriting."""
    later = snapshot.files[1:]
    spent = sum(FILE_ROWS + sum(part.replacing.values()) for part in later)
    rows = sum(part.rows for part in snapshot.files)
    return spent >= max(FEW_ROWS, min(WORTH_ROWS, rows // 2), rows // 8)


def merge_files(
    folder: StorePath, snapshot: Snapshot, progress: bool | None = None
) -> Draft | None:
    """One file, which nobody sees yet, for those of ``snapshot``, the newest; ``None`` if it is one
    already. Raises ``StoreDamaged`` where a file is not what was written.
    """
    table, files = snapshot.table, snapshot.files
    if not files or (len(files) == 1 and files[0].kind == "base"):
        return None
    header = Header(table.name, SCHEMA_VERSION, files[-1].header.service, snapshot.publications)
    # Current rows by their moment, then the replaced ones.
    rows, current = sum(part.rows for part in files), snapshot.count

    def shown(found: Iterator[pa.Table], total: int) -> Iterator[pa.Table]:
        sized = ((one.num_rows, one) for one in found)
        return with_progress(sized, total, f"merging {table.name}", enabled=progress)

    draft = write_part(
        folder, "base", table, header,
        shown(_current(snapshot), current), shown(_replaced(snapshot), rows - current),
    )  # fmt: skip
    if draft.rows != rows:
        draft.discard()
        raise damaged(folder, f"{draft.rows} rows came together instead of {rows}")
    return draft


def _current(snapshot: Snapshot) -> Iterator[pa.Table]:
    """The rows that nothing replaced, in the order of time: each row group is read when the time of
    its first row has come, and a row is handed on when none that is read later can be before it."""
    table, moment = snapshot.table, snapshot.table.moment
    pieces = []
    for place, part in enumerate(snapshot.files):
        for number, (_, first, _) in enumerate(part.header.row_groups[: part.live_groups]):
            pieces.append((_LONG_AGO if first is None else first, place, number))
    pieces.sort()
    waiting: list[pa.Table] = []
    count = 0
    following = [*pieces[1:], None][: len(pieces)]
    for (_, place, number), after in zip(pieces, following, strict=True):
        rows = _versions(snapshot, snapshot.files[place], number)
        rows = rows.filter(pc.is_null(rows.column(TO)))
        waiting.append(rows)
        count += rows.num_rows
        if after is None or count >= parts.ROW_GROUP_ROWS:
            ordered = table.in_order(pa.concat_tables(waiting))
            done = count
            if after is not None:
                earlier = pc.less(ordered.column(moment), pa.scalar(after[0], INSTANT_TYPE))
                done = int(pc.sum(earlier, min_count=0).as_py())
            yield ordered.slice(0, done)
            waiting, count = [ordered.slice(done)], count - done


def _replaced(snapshot: Snapshot) -> Iterator[pa.Table]:
    for part in snapshot.files:
        ends = snapshot.replaced.get(part.seq)
        gone = [] if ends is None else part.groups_of(ends.rows)
        for number in [*gone, *range(part.live_groups, len(part.header.row_groups))]:
            rows = _versions(snapshot, part, number)
            yield rows.filter(pc.is_valid(rows.column(TO)))


def _versions(snapshot: Snapshot, part: Part, number: int) -> pa.Table:
    table = snapshot.table
    rows = read_group_versions(PartReader(part), number, snapshot.replaced, table.schema)
    return rows.cast(stored_schema(table, "base"))


def remove_superseded(folder: StorePath, manifest: Manifest) -> None:
    """Remove the files of ``folder`` that ``manifest``, the newest, does not name: a base has had
    their rows for ``GRACE_S``, or the filesystem does not say since when; or the run that wrote
    them published nothing.
    """
    files = manifest.files.get(folder.name, ())
    named = {file.name for file in files}
    if files and not (folder / files[0].name).exists():
        return  # what reads the table says so; a repair may want those that it was merged from
    merged_at = disk.written_at(folder / files[0].name) if files else 0.0
    until = time.time() - GRACE_S
    superseded = []
    for path in disk.files_in(folder):
        finished = path.name.removeprefix(".").removesuffix(".tmp")
        match = FILE_NAME.fullmatch(finished)
        # One of a number to come is of a run on another machine that is about to publish it.
        if match is None or finished in named or int(match[2]) > manifest.number:
            continue
        if finished != path.name or max(merged_at, disk.written_at(path)) <= until:
            superseded.append(path)
    disk.remove(superseded)
