"""The standing rows of a snapshot as a lazy DuckDB relation."""

from __future__ import annotations

import re
import uuid

import duckdb
import pyarrow as pa

from fundlab.errors import InvalidRequest
from fundlab.store.duck import own_connection
from fundlab.store.parts import FROM, TO, Part
from fundlab.store.remote import RemotePath, StorePath
from fundlab.store.snapshot import Snapshot


def scan_with_duckdb(
    snapshot: Snapshot,
    connection: duckdb.DuckDBPyConnection | None = None,
    memory_limit: str | None = None,
) -> duckdb.DuckDBPyRelation:
    """The columns of the table; moments are ``TIMESTAMPTZ_NS``, amounts ``DECIMAL(38, 18)``.

    A query on it reads only the columns and row groups it needs. Footers are verified, pages as
    far as DuckDB does. ``connection`` is one of your own; by default a new one in memory, that
    spills beyond ``memory_limit`` (half of the memory there is).
    """
    if connection is None:
        connection = own_connection(memory_limit)
    elif memory_limit is not None:
        raise InvalidRequest(
            "give either connection, which has a limit of its own, or memory_limit"
        )
    if not snapshot.files:
        nothing: duckdb.DuckDBPyRelation = connection.from_arrow(snapshot.table.empty())
        return nothing
    selects = [_select(snapshot, part, connection) for part in snapshot.files]
    return connection.sql(" UNION ALL ".join(selects))


def _select(snapshot: Snapshot, part: Part, connection: duckdb.DuckDBPyConnection) -> str:
    """One file's standing rows; names and numbers below are the store's own, not a caller's."""
    there = set(part.metadata.schema.to_arrow_schema().names)
    columns = ", ".join(
        f'"{field.name}"' if field.name in there else f'NULL::{_sql(field.type)} AS "{field.name}"'
        for field in snapshot.table.schema
    )
    path = _path_on(connection, part.path).replace("'", "''")
    options = "file_row_number = true, hive_partitioning = false"  # columns come from the file only
    text = f"SELECT {columns} FROM read_parquet('{path}', {options})"  # noqa: S608
    if snapshot.inside_base:
        return (
            f"{text} WHERE {FROM} <= {snapshot.limit} AND ({TO} IS NULL OR {TO} > {snapshot.limit})"
        )
    tests = [f"{TO} IS NULL"] if part.kind == "base" else []
    gone = snapshot.replaced.get(part.seq)
    if gone is not None:
        name = f"replaced_{uuid.uuid4().hex}"
        connection.register(name, pa.table({"row": gone}))
        tests.append(f'file_row_number NOT IN (SELECT "row" FROM {name})')  # noqa: S608
    return f"{text} WHERE {' AND '.join(tests)}" if tests else text


def _path_on(connection: duckdb.DuckDBPyConnection, path: StorePath) -> str:
    if not isinstance(path, RemotePath):
        return re.sub(r"([*?\[])", r"[\1]", str(path.resolve()))  # or it would be a pattern
    try:
        from fundlab.store.remote_files import shown_to
    except ImportError as error:
        raise InvalidRequest(
            f"{path}: DuckDB reads it through fsspec, which is not installed: pip install fsspec"
        ) from error
    return shown_to(connection, path)


def _sql(arrow_type: pa.DataType) -> str:
    if pa.types.is_decimal(arrow_type):
        return f"DECIMAL({arrow_type.precision}, {arrow_type.scale})"
    names = {pa.string(): "VARCHAR", pa.bool_(): "BOOLEAN", pa.int64(): "BIGINT"}
    return names.get(arrow_type, "TIMESTAMPTZ_NS")
