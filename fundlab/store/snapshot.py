"""What the store knew of one table at one moment: which files count, and which rows in them.

A row is current until a later part replaces it; the part says which, so reading costs no join: the
rows replaced are left out by their position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.errors import StoreDamaged
from fundlab.store.parts import (
    BOOKKEEPING,
    FROM,
    TO,
    Part,
    PartReader,
    Publication,
    damaged,
    each_row_group,
    find_parts,
    moment_scalar,
    open_part,
)
from fundlab.store.remote import StorePath
from fundlab.tables.order import moment_column
from fundlab.tables.schema import Table

_ATTEMPTS: Final = 10
_PATIENCE_S: Final = 20.0
_LISTINGS: Final = 20
_PAUSE_S: Final = 0.05

_LIFE: Final = pa.schema(BOOKKEEPING["base"])

Mask = npt.NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """One row group within a snapshot: where its rows are, and which of them are current."""

    part: Part
    number: int
    start: int
    rows: int
    standing: Mask | None  # None: all of them


@dataclass(frozen=True)
class Ends:
    """Of one file: the sorted positions of the rows replaced, and by which publication."""

    rows: npt.NDArray[np.int64]
    by: npt.NDArray[np.int32]

    def within(self, start: int, count: int) -> pa.Array:
        """For each of ``count`` rows from ``start``: replaced by; null where it is current."""
        ends = np.zeros(count, dtype=np.int32)
        low, high = np.searchsorted(self.rows, [start, start + count])
        ends[self.rows[low:high] - start] = self.by[low:high]
        return pa.array(ends, pa.int32(), mask=ends == 0)


@dataclass(frozen=True)
class Pointer:
    """The rows of a file (their positions) that replace rows of an earlier one."""

    part: Part
    rows: npt.NDArray[np.int64]
    target: Part
    replaced: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Snapshot:
    """The files of a table that count, up to publication ``limit`` (0: nothing published yet)."""

    table: Table
    files: tuple[Part, ...]
    limit: int

    @cached_property
    def publications(self) -> tuple[Publication, ...]:
        """Those that count, in order."""
        every = [entry for part in self.files for entry in part.header.publications]
        return tuple(entry for entry in every if entry.seq <= self.limit)

    @property
    def last(self) -> Publication | None:
        return self.publications[-1] if self.publications else None

    @property
    def begins(self) -> int | None:
        """Where the rows begin (ns, ``None``: with the first there is)."""
        return None if self.last is None else self.last.begins

    @property
    def inside_base(self) -> bool:
        return bool(self.files) and self.limit < self.files[0].seq

    @cached_property
    def pointers(self) -> Sequence[Pointer]:
        """What replaces what, in the order of the files.

        Raises ``StoreDamaged`` for one that leads to no row of an earlier file.
        """
        before: dict[int, Part] = {}
        found: list[Pointer] = []
        for part in self.files:
            numbers = part.replacing()
            if numbers:
                with part.open() as reader:
                    for number in numbers:
                        found += _read_pointers(reader, number, before)
            before[part.seq] = part
        return found

    @cached_property
    def replaced(self) -> Mapping[int, Ends]:
        """For each file, by its number: which of its rows were replaced since.

        Raises ``StoreDamaged`` where a pointer leads nowhere, or two to one row.
        """
        found: dict[int, list[Pointer]] = {}
        for pointer in self.pointers:
            found.setdefault(pointer.target.seq, []).append(pointer)
        return {seq: _ends(pointers) for seq, pointers in found.items()}

    def in_each_group(
        self,
        work: Callable[[PartReader, Group], T],
        first: int | None = None,
        end: int | None = None,
    ) -> Iterator[T]:
        """What ``work`` makes of each group of ``numbers``, of all files in order; several at
        once."""
        wanted = [(part, self.numbers(part, first, end)) for part in self.files]
        self.replaced  # noqa: B018 - once, before several threads ask for it
        return each_row_group(
            wanted, lambda reader, number: work(reader, self.group(reader, number))
        )

    def numbers(self, part: Part, first: int | None = None, end: int | None = None) -> list[int]:
        """The row groups with current rows that may lie between ``first`` and ``end`` (ns)."""
        live = None if self.inside_base else part.header.live_groups
        return [number for number in part.groups(first, end) if live is None or number < live]

    def group(self, reader: PartReader, number: int) -> Group:
        part = reader.part
        start, rows = part.starts[number], part.starts[number + 1] - part.starts[number]
        if self.inside_base:
            return Group(part, number, start, rows, self._stood(reader, number))
        return Group(part, number, start, rows, self._not_replaced(part, start, rows))

    def current(self, part: Part) -> Mask:
        """Which rows of a file are current; not for a snapshot inside a base."""
        current = np.arange(part.rows) < part.current_end
        if part.seq in self.replaced:
            current[self.replaced[part.seq].rows] = False
        return current

    def _not_replaced(self, part: Part, start: int, rows: int) -> Mask | None:
        if part.seq not in self.replaced:
            return None
        gone = self.replaced[part.seq].rows
        low, high = np.searchsorted(gone, [start, start + rows])
        if low == high:
            return None
        standing = np.ones(rows, dtype=bool)
        standing[gone[low:high] - start] = False
        return standing

    def _stood(self, reader: PartReader, number: int) -> Mask | None:
        current = number < (reader.part.header.live_groups or 0)  # nothing replaced them yet
        names = (FROM,) if current else (FROM, TO)
        lives = reader.read(number, pa.schema([_LIFE.field(name) for name in names]))
        stood: Mask = lives.column(FROM).to_numpy() <= self.limit
        if not current:
            stood &= lives.column(TO).to_numpy() > self.limit
        return None if stood.all() else stood


def _read_pointers(
    reader: PartReader, number: int, before: Mapping[int, Part]
) -> Iterator[Pointer]:
    part = reader.part
    pointers = reader.read(number, pa.schema(BOOKKEEPING["part"]))
    given = pc.or_(*(column.is_valid() for column in pointers.columns)).to_numpy()
    rows = np.flatnonzero(given) + part.starts[number]
    targets, replaced = (column.fill_null(-1).to_numpy()[given] for column in pointers.columns)
    for seq in np.unique(targets).tolist():
        mine = targets == seq
        end = before[seq].current_end if seq in before else 0
        wrong = np.flatnonzero(mine & ((replaced < 0) | (replaced >= end)))
        if len(wrong):
            raise damaged(
                part.path,
                f"row {rows[wrong[0]]} replaces row {replaced[wrong[0]]} of file {seq}, which has "
                f"{end} rows to replace",
            )
        yield Pointer(part, rows[mine], before[seq], replaced[mine])


def _ends(pointers: Sequence[Pointer]) -> Ends:
    rows = np.concatenate([one.replaced for one in pointers])
    by = np.concatenate([np.full(len(one.replaced), one.part.seq, np.int32) for one in pointers])
    order = np.argsort(rows, kind="stable")
    rows, by = rows[order], by[order]
    twice = np.flatnonzero(rows[1:] == rows[:-1])
    if len(twice):
        raise damaged(
            pointers[0].target.path,
            f"row {rows[twice[0]]} is replaced twice, by publications {by[twice[0]]} and "
            f"{by[twice[0] + 1]}",
        )
    return Ends(rows, by)


def take_snapshot(
    folder: StorePath, table: Table, *, as_of: int | None = None, limit: int | None = None
) -> Snapshot:
    """The newest state of ``table``, that of ``as_of`` (ns), or that of publication ``limit``.

    Raises ``StoreDamaged`` where publication ``limit``, which a pin has seen, is not there.
    """
    files = _consistent_files(folder, table)
    known = [entry for part in files for entry in part.header.publications]
    if as_of is not None:
        known = [entry for entry in known if entry.published_at <= as_of]
    if limit is not None:
        known = [entry for entry in known if entry.seq <= limit]
    last = known[-1].seq if known else 0
    if limit is not None and last != limit:
        raise damaged(
            folder, f"publication {limit} is missing, which a pin names; there are {last}"
        )
    counting = [part for part in files if part.kind == "base" or part.seq <= last]
    return Snapshot(table, tuple(counting if last else ()), last)


def newest_file(folder: StorePath, table: Table) -> Part | None:
    """The file of the last publication; those before it are not opened."""

    def look() -> Part | None:
        found = find_parts(folder)
        last = max((seq for _, seq in found), default=0)
        path = found.get(("base", last)) or found.get(("part", last))
        return None if path is None else open_part(path, table)

    return steadily(look)


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


def read_standing(
    snapshot: Snapshot,
    columns: Sequence[str] | None = None,
    *,
    first: int | None = None,
    end: int | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
) -> pa.Table:
    """The current rows, in the order of the files.

    ``first`` (inclusive) and ``end`` (exclusive) are nanoseconds; ``where`` maps a column to the
    texts it may have.
    """
    wanted = [
        column for column in snapshot.table.schema.names if columns is None or column in columns
    ]
    needed = set(wanted) | set(where or ())
    if first is not None or end is not None:
        needed.add(moment_column(snapshot.table))
    schema = pa.schema([field for field in snapshot.table.schema if field.name in needed])

    accepted = {column: pa.array(texts, pa.string()) for column, texts in (where or {}).items()}
    empty = snapshot.table.schema.empty_table().select(wanted)

    def standing(reader: PartReader, group: Group) -> pa.Table:
        for column, texts in accepted.items():  # most groups have none of a rare profile
            there = reader.read(group.number, pa.schema([schema.field(column)])).column(column)
            if not pc.any(pc.is_in(there, value_set=texts), min_count=0).as_py():
                return empty
        rows = keep(reader.read(group.number, schema), group.standing)
        rows = _inside(rows, snapshot.table, first, end)
        for column, texts in accepted.items():
            rows = rows.filter(pc.is_in(rows.column(column), value_set=texts))
        return rows.select(wanted)

    found = snapshot.in_each_group(standing, first, end)
    return pa.concat_tables([empty, *found]).replace_schema_metadata(snapshot.table.schema.metadata)


def keep(rows: pa.Table, mask: Mask | None) -> pa.Table:
    return rows if mask is None else rows.filter(pa.array(mask))


def _inside(rows: pa.Table, table: Table, first: int | None, end: int | None) -> pa.Table:
    moments = moment_column(table)
    if first is not None:
        rows = rows.filter(pc.greater_equal(rows.column(moments), moment_scalar(first)))
    if end is not None:
        rows = rows.filter(pc.less(rows.column(moments), moment_scalar(end)))
    return rows


def _consistent_files(folder: StorePath, table: Table) -> list[Part]:
    """The newest base and every part after it.

    A compaction may take files away while they are being listed, so a gap is looked at again
    before it counts as damage.
    """
    problem: StoreDamaged | FileNotFoundError | None = None
    for _ in range(_LISTINGS):
        found = find_parts(folder)
        base = max((seq for kind, seq in found if kind == "base"), default=0)
        later = sorted(seq for kind, seq in found if kind == "part" and seq > base)
        if later == list(range(base + 1, base + 1 + len(later))):
            paths = [found["part", seq] for seq in later]
            if base:
                paths.insert(0, found["base", base])
            try:
                return _of_one_service([open_part(path, table) for path in paths])
            except FileNotFoundError as error:
                problem = error
        else:
            missing = sorted(set(range(base + 1, later[-1])) - set(later))
            problem = damaged(folder, f"publication {missing[0]} of {table.name} is missing")
        time.sleep(_PAUSE_S)
    if isinstance(problem, StoreDamaged):
        raise problem
    raise StoreDamaged(f"the store changes too fast to be read: {problem}")


def _of_one_service(files: list[Part]) -> list[Part]:
    for part in files[1:]:
        if part.header.service != files[0].header.service:
            raise damaged(part.path, "is of another service or credential than its store")
    return files
