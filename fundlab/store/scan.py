"""The current rows of a snapshot as a lazy DuckDB relation."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import duckdb
import pyarrow as pa

from fundlab.errors import AnalysisError, InvalidRequest, StoreChanged, StoreError, first_line
from fundlab.store.duck import own_connection
from fundlab.store.parts import FROM, TO, check_data, check_files, find_parts
from fundlab.store.remote import RemotePath, StorePath
from fundlab.store.snapshot import Snapshot, steadily
from fundlab.tables.schema import TABLES

if TYPE_CHECKING:
    from fundlab.store.store import Store

Work = TypeVar("Work", bound=Callable[..., Any])


def queries(work: Work) -> Work:
    """``work``, which scans a store and queries what it scanned, in a store that others compact.

    After an engine's error it is done again where files went meanwhile; else the file that is not
    what was written is named (``StoreDamaged``), or what DuckDB says (``StoreError``).
    """

    @wraps(work)
    def steady(store: Store, *args: Any, **options: Any) -> Any:
        def once() -> Any:
            before = _paths(store)
            try:
                return work(store, *args, **options)
            except (duckdb.Error, AnalysisError) as error:
                if before - _paths(store):
                    raise StoreChanged(f"{store.path} was compacted while it was read") from error
                for table in TABLES:
                    for part in store.snapshot(table).files:
                        check_data(part)
                if isinstance(error, AnalysisError):
                    raise
                raise StoreError(f"{store.path}: a query failed: {first_line(error)}") from error

        return steadily(once)

    return cast("Work", steady)


def _paths(store: Store) -> set[StorePath]:
    return {path for table in TABLES for path in find_parts(store.path / table).values()}


def scan_with_duckdb(
    snapshot: Snapshot,
    connection: duckdb.DuckDBPyConnection | None = None,
    memory_limit: str | None = None,
) -> duckdb.DuckDBPyRelation:
    """The columns of the table; moments are ``TIMESTAMPTZ_NS``, amounts ``DECIMAL(38, 18)``.

    A query on it reads only the columns and row groups it needs. DuckDB verifies no checksums, so
    all files are verified here, each once in a process and again after it changed. ``connection``
    is one of your own; by default a new one in memory, that spills beyond ``memory_limit`` (half
    of the memory there is). Raises ``StoreDamaged`` for a file that is not what was written,
    ``FileNotFoundError`` for one that a compaction took away.
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
    check_files(snapshot.files)
    try:
        return connection.sql(_current_rows(snapshot, connection))
    except duckdb.Error as error:
        check_files(snapshot.files)
        where = snapshot.files[0].path.parent
        raise StoreError(f"{where}: DuckDB cannot read it: {first_line(error)}") from error


def _current_rows(snapshot: Snapshot, connection: duckdb.DuckDBPyConnection) -> str:
    """One query over all files, which DuckDB opens together; those replaced are left out by file
    and place."""
    columns = ", ".join(
        f'"{field.name}"'
        if any(field.name in part.names for part in snapshot.files)
        else f'NULL::{_sql(field.type)} AS "{field.name}"'
        for field in snapshot.table.schema
    )
    paths = ", ".join(_text(_path_on(connection, part.path)) for part in snapshot.files)
    # Columns come from the files only, not from what their folders are called.
    query = (
        f"SELECT {columns} FROM read_parquet([{paths}], union_by_name = true, "  # noqa: S608
        "hive_partitioning = false) AS rows"
    )
    # By their places, as one text for each file: thousands of numbers are slow to parse.
    gone = [
        f"SELECT {number} AS file, "
        f"unnest(string_split('{','.join(map(str, ends.rows.tolist()))}', ','))::BIGINT AS place"
        for number, part in enumerate(snapshot.files)
        if (ends := snapshot.replaced.get(part.seq)) is not None
    ]
    if gone:
        query += (
            f" ANTI JOIN ({' UNION ALL '.join(gone)}) AS gone"
            " ON rows.file_index = gone.file AND rows.file_row_number = gone.place"
        )
    if snapshot.inside_base:
        limit = snapshot.limit
        query += f" WHERE {FROM} <= {limit} AND ({TO} IS NULL OR {TO} > {limit})"
    elif any(TO in part.names for part in snapshot.files):
        query += f" WHERE {TO} IS NULL"
    return query


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


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
