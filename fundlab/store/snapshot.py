"""What the store knew of one table at one moment: which files count, and which rows in them.

A row stands until a later part replaces it; the part says which, so reading costs no join: the
rows replaced are left out by their position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.errors import StoreDamaged
from fundlab.store.parts import (
    BOOKKEEPING,
    FROM,
    REPLACED_PART,
    REPLACED_ROW,
    TO,
    Part,
    PartReader,
    Publication,
    each_row_group,
    find_parts,
    moment_scalar,
    open_part,
)
from fundlab.store.remote import StorePath
from fundlab.tables.order import moment_column
from fundlab.tables.schema import Table

_ATTEMPTS: Final = 10
_LISTINGS: Final = 20
_PAUSE_S: Final = 0.05

_LIFE: Final = pa.schema(BOOKKEEPING["base"])

Mask = npt.NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """One row group within a snapshot: where its rows are, and which of them stand."""

    part: Part
    number: int
    start: int
    rows: int
    standing: Mask | None  # None: all of them


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
    def inside_base(self) -> bool:
        return bool(self.files) and self.limit < self.files[0].seq

    def replacements(self) -> Iterator[tuple[Part, int, npt.NDArray[np.int64]]]:
        """A part, the number of a file before it, and the positions there that it replaced."""
        schema = pa.schema(BOOKKEEPING["part"])
        for part in self.files:
            numbers = list(part.replacing())
            if not numbers:
                continue
            with part.open() as reader:
                for number in numbers:
                    pointers = reader.read(number, schema).drop_null()
                    targets = pointers.column(REPLACED_PART).to_numpy()
                    rows = pointers.column(REPLACED_ROW).to_numpy()
                    for target in np.unique(targets):
                        yield part, int(target), rows[targets == target]

    @cached_property
    def replaced(self) -> Mapping[int, npt.NDArray[np.int64]]:
        """For each file, by its number: the sorted positions of the rows replaced since."""
        found: dict[int, list[npt.NDArray[np.int64]]] = {}
        for _, target, rows in self.replacements():
            found.setdefault(target, []).append(rows)
        return {target: np.sort(np.concatenate(rows)) for target, rows in found.items()}

    def groups(
        self, part: Part, reader: PartReader, first: int | None = None, end: int | None = None
    ) -> Iterator[Group]:
        """The row groups with standing rows that may lie between ``first`` and ``end`` (ns)."""
        for number in self._numbers(part, first, end):
            yield self._group(part, reader, number)

    def in_each_group(
        self,
        work: Callable[[PartReader, Group], T],
        first: int | None = None,
        end: int | None = None,
    ) -> Iterator[T]:
        """What ``work`` makes of each of ``groups``, of all files in order; several at once."""
        wanted = [(part, self._numbers(part, first, end)) for part in self.files]
        return each_row_group(
            wanted,
            lambda reader, number: work(reader, self._group(reader.part, reader, number)),
        )

    def _numbers(self, part: Part, first: int | None, end: int | None) -> list[int]:
        live = None if self.inside_base else part.header.live_groups
        return [number for number in part.groups(first, end) if live is None or number < live]

    def _group(self, part: Part, reader: PartReader, number: int) -> Group:
        start, rows = part.starts[number], part.starts[number + 1] - part.starts[number]
        if self.inside_base:
            return Group(part, number, start, rows, self._stood(reader, number))
        return Group(part, number, start, rows, self._not_replaced(part, start, rows))

    def _not_replaced(self, part: Part, start: int, rows: int) -> Mask | None:
        gone = self.replaced.get(part.seq)
        if gone is None:
            return None
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
        raise StoreDamaged(
            f"{folder}: publication {limit} is missing, which a pin names; there are {last}"
        )
    counting = [part for part in files if part.kind == "base" or part.seq <= last]
    return Snapshot(table, tuple(counting if last else ()), last)


def steadily(read: Callable[[], T]) -> T:
    """What ``read``, which takes its own snapshots, gives: a compaction may take files away under
    it, then it looks again.

    Raises ``StoreDamaged`` where files go faster than they can be read.
    """
    gone: FileNotFoundError | None = None
    for _ in range(_ATTEMPTS):
        try:
            return read()
        except FileNotFoundError as error:
            gone = error
    raise StoreDamaged(f"the store changes too fast to be read: {gone}") from gone


def read_standing(
    snapshot: Snapshot,
    columns: Sequence[str] | None = None,
    *,
    first: int | None = None,
    end: int | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
) -> pa.Table:
    """The standing rows, in the order of the files.

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
    problem: Any = None
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
            problem = f"publication {missing[0]} of {table.name} is missing"
        time.sleep(_PAUSE_S)
    raise StoreDamaged(f"{folder}: {problem}")


def _of_one_service(files: list[Part]) -> list[Part]:
    for part in files[1:]:
        if part.header.service != files[0].header.service:
            raise StoreDamaged(f"{part.path} is of another service or credential than its store")
    return files
