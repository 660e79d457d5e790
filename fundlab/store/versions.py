"""Every version of every row, and the publications between which it stood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fundlab.store.parts import BOOKKEEPING, FROM, TO, Part
from fundlab.store.snapshot import Snapshot
from fundlab.tables.order import order_columns
from fundlab.tables.schema import INSTANT_TYPE

PUBLISHED_AT: Final = "published_at"
LIFE = pa.schema(BOOKKEEPING["base"])


@dataclass(frozen=True)
class Ends:
    """Of one file: the sorted positions of the rows replaced, and by which publication."""

    rows: npt.NDArray[np.int64]
    by: npt.NDArray[np.int32]

    def within(self, start: int, count: int) -> pa.Array:
        """For each of ``count`` rows from ``start``: replaced by; null where it stands."""
        ends = np.zeros(count, dtype=np.int32)
        low, high = np.searchsorted(self.rows, [start, start + count])
        ends[self.rows[low:high] - start] = self.by[low:high]
        return pa.array(ends, pa.int32(), mask=ends == 0)


def find_ends(snapshot: Snapshot) -> Mapping[int, Ends]:
    """By the number of the file: which of its rows later parts replaced."""
    found: dict[int, list[Ends]] = {}
    for part, target, rows in snapshot.replacements():
        by = np.full(len(rows), part.seq, dtype=np.int32)
        found.setdefault(target, []).append(Ends(rows, by))
    return {target: _merged(ends) for target, ends in found.items()}


def read_versions(
    part: Part, ends: Mapping[int, Ends], columns: pa.Schema
) -> Iterator[tuple[int, pa.Table]]:
    """Each row group of ``part``: its number, and its rows with ``_from`` and ``_to``."""
    starts = part.starts
    with part.open() as reader:
        for number in part.groups():
            rows = reader.read(number, columns)
            count = starts[number + 1] - starts[number]
            until = pa.nulls(count, pa.int32())
            if part.seq in ends:
                until = ends[part.seq].within(starts[number], count)
            since = pa.array(np.full(count, part.seq, dtype=np.int32))
            if part.kind == "base":
                life = reader.read(number, LIFE)
                since = life.column(FROM)
                old = number >= (part.header.live_groups or 0)
                until = life.column(TO) if old else until
            yield number, rows.append_column(FROM, since).append_column(TO, until)


def read_history(snapshot: Snapshot) -> pa.Table:
    """Every version, with ``published_at``; in order of publication, then of the table."""
    table = snapshot.table
    published = {entry.seq: entry.published_at for entry in snapshot.publications}
    field = pa.field(PUBLISHED_AT, INSTANT_TYPE)
    found = [pa.schema([*table.schema, field]).empty_table()]
    for part in snapshot.files:
        for _, rows in read_versions(part, {}, table.schema):
            moments = [published[seq] for seq in rows.column(FROM).to_pylist()]
            column = pa.array(moments, pa.int64()).cast(INSTANT_TYPE)
            found.append(rows.select(table.schema.names).append_column(field, column))
    rows = pa.concat_tables(found)
    order = [PUBLISHED_AT, *order_columns(table)]
    return rows.sort_by([(name, "ascending") for name in order])


def _merged(ends: list[Ends]) -> Ends:
    rows = np.concatenate([entry.rows for entry in ends])
    order = np.argsort(rows, kind="stable")
    return Ends(rows[order], np.concatenate([entry.by for entry in ends])[order])
