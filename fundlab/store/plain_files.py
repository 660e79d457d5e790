"""The current rows as plain Parquet, one file a table, for tools that know nothing of a store.

Which rows are current is decided in `fundlab.store.snapshot`.

The files of a store hold every version and moments to the nanosecond: a plain sum over them counts
replaced rows, Polars refuses parts beside a base, Spark the moments. Here each row is there once,
and each column is of a type that every reader has.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fundlab.base.errors import InvalidRequest
from fundlab.base.paths import local_path
from fundlab.store import disk
from fundlab.store.parts import in_row_groups
from fundlab.store.remote import StorePath
from fundlab.store.snapshot import Snapshot, keep
from fundlab.tables.schema import INSTANT_TYPE, TABLES


def export_files(store: StorePath, folder: str | os.PathLike[str]) -> dict[str, Path]:
    """The file of each table in ``folder``, which is made, and found to take files, for the rows of
    the store at ``store``.

    Raises ``InvalidRequest`` for a folder within the store, ``StoreError`` where it takes none.
    """
    place = local_path(folder, "folder").absolute()
    if isinstance(store, Path) and place.resolve().is_relative_to(store.resolve()):
        raise InvalidRequest(f"folder={str(folder)!r} is within the store: give another one")
    files = {table: place / f"{table}.parquet" for table in TABLES}
    for path in files.values():
        disk.check_replaceable(path)
    return files


def write_current(snapshot: Snapshot, path: Path) -> None:
    """Replace the file at ``path`` by one of the current rows, in the order of the files.

    Raises ``StoreError`` where it cannot be written; an earlier file then stays.
    """
    with disk.replacing(path) as file, pq.ParquetWriter(
        file, _portable(snapshot.table.schema.empty_table()).schema, version="2.6",
        compression="snappy", write_page_checksum=True,
    ) as writer:  # fmt: skip
        schema = snapshot.table.schema
        found = snapshot.in_each_group(
            lambda reader, group: keep(reader.read(group.number, schema), group.current)
        )
        for rows in in_row_groups(found):
            writer.write_table(_portable(rows), row_group_size=rows.num_rows)


def _portable(rows: pa.Table) -> pa.Table:
    """Moments cut to microseconds, and beside each its exact nanoseconds since 1970."""
    columns: dict[str, pa.ChunkedArray] = {}
    for name in rows.column_names:
        column = rows.column(name)
        if column.type != INSTANT_TYPE:
            columns[name] = column
            continue
        exact = column.cast(pa.int64())
        floored = pc.floor_temporal(column, unit="microsecond")
        columns[name] = floored.cast(pa.timestamp("us", "UTC"))
        columns[f"{name}_ns"] = exact
    return pa.table(columns)
