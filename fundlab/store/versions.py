"""Every version of every row, and the publications between which it stood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from fundlab.store.parts import BOOKKEEPING, FROM, TO, Part, PartReader
from fundlab.store.snapshot import Ends, Snapshot
from fundlab.tables.order import order_columns
from fundlab.tables.schema import INSTANT_TYPE

PUBLISHED_AT: Final = "published_at"
LIFE = pa.schema(BOOKKEEPING["base"])


def read_versions(
    part: Part, ends: Mapping[int, Ends], columns: pa.Schema
) -> Iterator[tuple[int, pa.Table]]:
    """Each row group of ``part``: its number, and its rows with ``_from`` and ``_to``."""
    with part.open() as reader:
        for number in part.groups():
            yield number, read_group_versions(reader, number, ends, columns)


def read_group_versions(
    reader: PartReader, number: int, ends: Mapping[int, Ends], columns: pa.Schema
) -> pa.Table:
    """The rows of one row group, with ``_from`` and ``_to``."""
    part, rows = reader.part, reader.read(number, columns)
    start, end = part.starts[number : number + 2]
    until = pa.nulls(end - start, pa.int32())
    if part.seq in ends:
        until = ends[part.seq].within(start, end - start)
    since = pa.array(np.full(end - start, part.seq, dtype=np.int32))
    if part.kind == "base":
        life = reader.read(number, LIFE)
        since = life.column(FROM)
        old = number >= (part.header.live_groups or 0)
        until = life.column(TO) if old else until
    return rows.append_column(FROM, since).append_column(TO, until)


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
