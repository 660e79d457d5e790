"""What the store knew of one table at one moment: which files count, and which rows in them.

A row is current until a later part replaces it; the part says which, so reading costs no join: the
rows replaced are left out by their position. Which version replaces which is decided when rows are
written: `fundlab.store.changes`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import numbers, of_numbers
from fundlab.base.errors import StoreDamaged
from fundlab.base.progress import with_progress
from fundlab.store.manifests import File
from fundlab.store.parts import (
    BOOKKEEPING,
    FROM,
    TO,
    Part,
    PartReader,
    Publication,
    as_read,
    damaged,
    each_row_group,
    open_part,
)
from fundlab.store.remote import StorePath
from fundlab.tables.schema import INSTANT_TYPE, Table

_ATTEMPTS: Final = 10
_PATIENCE_S: Final = 20.0
_PAUSE_S: Final = 0.05

_LIFE: Final = pa.schema(BOOKKEEPING["base"])
_BEGINNING: Final = pa.schema([_LIFE.field(FROM)])

Mask = npt.NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """One row group within a snapshot: where its rows are, and which of them are current."""

    part: Part
    number: int
    start: int
    current: Mask | None  # None: all of them

    @property
    def count(self) -> int:
        """How many of its rows are current."""
        every = self.part.header.row_groups[self.number][0]
        return every if self.current is None else int(self.current.sum())


@dataclass(frozen=True)
class Ends:
    """Of one file: the sorted positions of the rows replaced, and by which publication."""

    rows: npt.NDArray[np.int64]
    by: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Pointer:
    """The rows of a file (their positions) that replace rows of an earlier one."""

    part: Part
    rows: npt.NDArray[np.int64]
    target: Part
    replaced: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Snapshot:
    """The files of a table that count, up to publication ``limit``, its last (0: none yet).

    ``publications`` are those of the table that count, in order, ``last`` the last of them, and
    ``begins`` is where its rows begin (ns, ``None``: with the first there is). ``inside_base``: it
    is older than its first file, so a row's own life there says whether it was current.
    ``accepted_gone``: no row of these ids is current (see
    `fundlab.evidence.vanished_rows.accepted_gone`).
    """

    table: Table
    files: tuple[Part, ...]
    limit: int
    publications: tuple[Publication, ...]
    last: Publication | None
    begins: int | None
    inside_base: bool
    accepted_gone: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def gone_ids(self) -> pa.Array:
        """Those of ``accepted_gone``."""
        return pa.array(self.accepted_gone, pa.string())

    @property
    def span(self) -> tuple[int, int] | None:
        """The oldest and the newest moment of any version in its files (ns); ``None``: of none."""
        groups = [group for part in self.files for group in part.header.row_groups]
        moments = [moment for _, *both in groups for moment in both if moment is not None]
        return (min(moments), max(moments)) if moments else None

    @cached_property
    def pointers(self) -> Sequence[Pointer]:
        """What replaces what, in the order of the files.

        Raises ``StoreDamaged`` for one that leads to no row of an earlier file.
        """
        before: dict[int, Part] = {}
        found: list[Pointer] = []
        for part in self.files:
            for rows, targets, replaced in part.pointers:
                for seq in sorted(pc.unique(of_numbers(targets)).to_pylist()):
                    mine = targets == seq
                    target = before.get(seq)
                    end = 0 if target is None else target.starts[target.live_groups]
                    wrong = np.flatnonzero(mine & ((replaced < 0) | (replaced >= end)))
                    if target is None or len(wrong):
                        at = wrong[0]
                        raise damaged(
                            part.path,
                            f"row {rows[at]} replaces row {replaced[at]} of file {seq}, which has "
                            f"{end} rows to replace",
                        )
                    found.append(Pointer(part, rows[mine], target, replaced[mine]))
            before[part.seq] = part
        return found

    @cached_property
    def replaced(self) -> Mapping[int, Ends]:
        """For each file, by its number: which of its rows were replaced since.

        Raises ``StoreDamaged`` where a pointer leads nowhere, or two to one row.
        """
        pointers: dict[int, list[Pointer]] = {}
        for pointer in self.pointers:
            pointers.setdefault(pointer.target.seq, []).append(pointer)
        ends: dict[int, Ends] = {}
        for seq, mine in pointers.items():
            rows = np.concatenate([one.replaced for one in mine])
            by = np.repeat(
                np.array([one.part.seq for one in mine], np.int32),
                [len(one.replaced) for one in mine],
            )
            order = np.argsort(rows, kind="stable")
            rows, by = rows[order], by[order]
            twice = np.flatnonzero(rows[1:] == rows[:-1])
            if len(twice):
                at = twice[0]
                raise damaged(
                    mine[0].target.path,
                    f"row {rows[at]} is replaced twice, by publications {by[at]} and {by[at + 1]}",
                )
            ends[seq] = Ends(rows, by)
        return ends

    def in_each_group(
        self,
        work: Callable[[PartReader, Group], T],
        first: int | None = None,
        end: int | None = None,
        coded: Sequence[str] = (),
    ) -> Iterator[T]:
        """What ``work`` makes of each group of ``numbers``, of all files in order; several at
        once. The columns ``coded`` are read dictionary-coded."""
        return self.in_groups(work, [(p, self.numbers(p, first, end)) for p in self.files], coded)

    def in_groups(
        self,
        work: Callable[[PartReader, Group], T],
        wanted: Sequence[tuple[Part, Sequence[int]]],
        coded: Sequence[str] = (),
    ) -> Iterator[T]:
        """The same of the row groups with these numbers."""
        self.replaced  # noqa: B018 - once, before several threads ask for it

        def look(reader: PartReader, number: int) -> tuple[int, T]:
            group = self.group(reader, number)
            return reader.part.header.row_groups[number][0], work(reader, group)

        total = sum(part.header.row_groups[n][0] for part, numbers in wanted for n in numbers)
        done = each_row_group(wanted, look, coded)
        return with_progress(done, total, f"reading {self.table.name}")

    @property
    def count(self) -> int:
        """How many rows are current."""
        if not (self.inside_base or self.accepted_gone):
            every = sum(part.starts[part.live_groups] for part in self.files)
            return every - sum(len(pointer.replaced) for pointer in self.pointers)
        return sum(self.in_each_group(lambda _, group: group.count))

    def numbers(self, part: Part, first: int | None = None, end: int | None = None) -> list[int]:
        """The row groups with current rows that may hold a moment from ``first`` up to, not
        including, ``end`` (ns): where a row has none, nothing is known of the others'."""
        live = len(part.header.row_groups) if self.inside_base else part.live_groups
        if first is None and end is None:
            return list(range(live))
        return [
            number
            for number, (_, low, high) in enumerate(part.header.row_groups[:live])
            if low is None or high is None
            or ((first is None or high >= first) and (end is None or low < end))
        ]  # fmt: skip

    def group(self, reader: PartReader, number: int) -> Group:
        """A row group, and which of its rows are current at this snapshot."""
        part = reader.part
        start, end = part.starts[number : number + 2]
        current: Mask = np.ones(end - start, bool)
        if self.inside_base:
            # Of those that nothing had replaced yet, only since when is read.
            life = _LIFE if number >= part.live_groups else _BEGINNING
            lives = reader.read(number, life)
            current = lives.column(FROM).to_numpy() <= self.limit
            if life is _LIFE:
                current &= lives.column(TO).to_numpy() > self.limit
        elif part.seq in self.replaced:
            gone = self.replaced[part.seq].rows
            low, high = np.searchsorted(gone, [start, end])
            current[gone[low:high] - start] = False
        if self.accepted_gone:
            ids = reader.read(number, pa.schema([self.table.schema.field("id")])).column("id")
            current &= ~numbers(pc.is_in(ids, value_set=self.gone_ids))
        return Group(part, number, start, None if current.all() else current)


def take_snapshot(
    folder: StorePath,
    table: Table,
    files: Sequence[File],
    *,
    as_of: int | None = None,
    limit: int | None = None,
) -> Snapshot:
    """The state of ``table`` that these ``files`` of a manifest hold, that of ``as_of`` (ns), or
    that of publication ``limit``.

    Raises ``StoreDamaged`` where a file is not what was written, ``StoreChanged`` where one is not
    there.
    """
    parts = [open_part(folder, file, table) for file in files]
    known = [
        entry
        for part in parts
        for entry in part.header.publications
        if (as_of is None or entry.published_at <= as_of) and (limit is None or entry.seq <= limit)
    ]
    last = known[-1] if known else None
    reached = 0 if last is None else last.seq
    counting = [part for part in parts if known and (part.kind == "base" or part.seq <= reached)]
    return Snapshot(
        table,
        tuple(counting),
        reached,
        tuple(known),
        last,
        begins=None if last is None else last.begins,
        inside_base=bool(counting) and reached < counting[0].seq,
    )


def steadily(read: Callable[[], T]) -> T:
    """What ``read``, which takes its own snapshots, gives: a compaction may take files away under
    it, then it looks again.

    Raises ``StoreDamaged`` where files go faster than they can be read.
    """
    deadline, attempts = time.monotonic() + _PATIENCE_S, 0
    while True:
        try:
            return read()
        except FileNotFoundError as error:
            attempts += 1
            if attempts >= _ATTEMPTS and time.monotonic() > deadline:
                raise StoreDamaged(f"the store changes too fast to be read: {error}") from error
        time.sleep(_PAUSE_S)


# ------------------------------------------------------------------------------- current rows


def read_current(
    snapshot: Snapshot,
    columns: Sequence[str] | None = None,
    *,
    first: int | None = None,
    end: int | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
    coded: Sequence[str] = (),
) -> pa.Table:
    """The current rows, in the order of the files.

    ``first`` (inclusive) and ``end`` (exclusive) are nanoseconds; ``where`` maps a column to the
    texts it may have, in whatever case they are written. The texts ``coded``, other than those,
    come dictionary-coded: a third of the time where few texts repeat.
    """
    table, moment = snapshot.table, snapshot.table.moment
    wanted = [column for column in table.schema.names if columns is None or column in columns]
    needed = {*wanted, *(where or ())}
    if first is not None or end is not None:
        needed.add(moment)
    schema = as_read((field for field in table.schema if field.name in needed), coded)
    accepted = {
        column: pa.array([text.lower() for text in texts], pa.string())
        for column, texts in (where or {}).items()
    }
    empty = schema.empty_table().select(wanted)

    def current(reader: PartReader, group: Group) -> pa.Table:
        for column, texts in accepted.items():  # most groups have none of a rare profile
            there = reader.read(group.number, pa.schema([schema.field(column)])).column(column)
            if not pc.any(pc.is_in(pc.utf8_lower(there), value_set=texts)).as_py():
                return empty
        rows = keep(reader.read(group.number, schema), group.current)
        if first is not None:
            begin = pa.scalar(first, INSTANT_TYPE)
            rows = rows.filter(pc.greater_equal(rows.column(moment), begin))
        if end is not None:
            rows = rows.filter(pc.less(rows.column(moment), pa.scalar(end, INSTANT_TYPE)))
        for column, texts in accepted.items():
            rows = rows.filter(pc.is_in(pc.utf8_lower(rows.column(column)), value_set=texts))
        return rows.select(wanted)

    found = snapshot.in_each_group(current, first, end, coded)
    return pa.concat_tables([empty, *found]).replace_schema_metadata(table.schema.metadata)


def keep(rows: pa.Table, mask: Mask | None) -> pa.Table:
    return rows if mask is None else rows.filter(of_numbers(mask))


# ------------------------------------------------------------------------------- every version


def read_versions(part: Part, ends: Mapping[int, Ends], columns: pa.Schema) -> Iterator[pa.Table]:
    """The rows of each row group of ``part``, with the publications from which on and until which
    they stood: ``_from`` and ``_to``."""
    reader = PartReader(part)
    for number in range(len(part.header.row_groups)):
        yield read_group_versions(reader, number, ends, columns)


def read_group_versions(
    reader: PartReader, number: int, ends: Mapping[int, Ends], columns: pa.Schema
) -> pa.Table:
    """The rows of one row group, with ``_from`` and ``_to``."""
    return with_life(reader, number, ends, reader.read(number, columns))


def with_life(
    reader: PartReader, number: int, ends: Mapping[int, Ends], rows: pa.Table
) -> pa.Table:
    """The ``rows`` of one row group, with ``_from`` and ``_to``."""
    part = reader.part
    start, end = part.starts[number : number + 2]
    replaced: pa.Array | pa.ChunkedArray = pa.nulls(end - start, pa.int32())
    if part.seq in ends:
        gone, until = ends[part.seq], np.zeros(end - start, np.int32)
        low, high = np.searchsorted(gone.rows, [start, end])
        until[gone.rows[low:high] - start] = gone.by[low:high]
        replaced = of_numbers(until, until != 0)
    since: pa.Array | pa.ChunkedArray = of_numbers(np.full(end - start, part.seq, np.int32))
    if part.kind == "base":
        life = reader.read(number, _LIFE)
        since = life.column(FROM)
        replaced = life.column(TO) if number >= part.live_groups else replaced
    return rows.append_column(FROM, since).append_column(TO, replaced)


def read_history(snapshot: Snapshot) -> pa.Table:
    """Every version, with ``published_at``; in order of publication, then of the table."""
    table = snapshot.table
    published = {entry.seq: entry.published_at for entry in snapshot.publications}
    field = pa.field("published_at", INSTANT_TYPE)
    found = [pa.schema([*table.schema, field]).empty_table()]
    for part in snapshot.files:
        for rows in read_versions(part, {}, table.schema):
            moments = [published[seq] for seq in rows.column(FROM).to_pylist()]
            column = pa.array(moments, pa.int64()).cast(INSTANT_TYPE)
            found.append(rows.select(table.schema.names).append_column(field, column))
    order = [field.name, *table.order]
    return pa.concat_tables(found).sort_by([(name, "ascending") for name in order])
