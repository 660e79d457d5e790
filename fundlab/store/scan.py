"""The current rows of a snapshot, lazily: a DuckDB relation, or a Spark DataFrame that a cluster
reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa

from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import AnalysisError, InvalidRequest, StoreChanged, StoreError, first_line
from fundlab.base.progress import with_progress
from fundlab.store.duck import own_connection
from fundlab.store.manifests import Manifest
from fundlab.store.parts import FROM, TO, check_data, check_files, in_row_groups
from fundlab.store.remote import RemotePath, StorePath
from fundlab.store.settlement_times import ADDED, PLACE, SETTLED, settled_rows, with_settlement
from fundlab.store.snapshot import Snapshot, read_current, steadily
from fundlab.tables.schema import SETTLED_AT, TABLES

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession

_NANOSECONDS: Final = "spark.sql.legacy.parquet.nanosAsLong"
_GLOB: Final = "__globPaths__"
_DUCKDB_GROUP: Final = 122_880
"""Rows that DuckDB compresses together: each once, where so many come at a time."""
_FILE, _ROW = "replaced:file", "replaced:row"
_DUCKDB: Final = {
    AMOUNT_TYPE: "DECIMAL(38, 18)", pa.string(): "VARCHAR", pa.bool_(): "BOOLEAN",
    pa.int64(): "BIGINT",
}  # fmt: skip
_SPARK: Final = {AMOUNT_TYPE: "decimal(38,18)", pa.string(): "string", pa.bool_(): "boolean"}
Work = TypeVar("Work", bound=Callable[..., Any])


class Scanned(Protocol):
    """What a scan needs of a store."""

    path: StorePath

    def manifest(self) -> Manifest: ...

    def snapshot(self, table: str) -> Snapshot: ...


def queries(work: Work) -> Work:
    """``work``, which scans a store and queries what it scanned, in a store that others compact.

    After an engine's error it is done again where files went meanwhile; else the file that is not
    what was written is named (``StoreDamaged``), or what DuckDB says (``StoreError``).
    """

    @wraps(work)
    def steady(store: Scanned, *args: Any, **options: Any) -> Any:
        import duckdb  # which a sync has no use for, see ``own_connection``

        def once() -> Any:
            before = store.manifest().number
            try:
                return work(store, *args, **options)
            except (duckdb.Error, AnalysisError) as error:
                if before != store.manifest().number:
                    raise StoreChanged(f"{store.path} was compacted while it was read") from error
                for table in TABLES:
                    for part in store.snapshot(table).files:
                        check_data(part)
                if isinstance(error, AnalysisError):
                    raise
                raise StoreError(f"{store.path}: a query failed: {first_line(error)}") from error

        return steadily(once)

    return cast("Work", steady)


def scan_with_duckdb(
    snapshot: Snapshot,
    connection: duckdb.DuckDBPyConnection | None = None,
    memory_limit: str | None = None,
    settled: pa.Table | None = None,
) -> duckdb.DuckDBPyRelation:
    """The columns of the table, and those of ``settled`` beside its ids; moments are
    ``TIMESTAMPTZ_NS``, amounts ``DECIMAL(38, 18)``.

    A query on it reads only the columns and row groups it needs. DuckDB verifies no checksums, so
    all files are verified here, each once in a process and again after it changed. ``connection``
    is one of your own; by default a new one in memory, that spills beyond ``memory_limit`` (half
    of the memory there is). Raises ``StoreDamaged`` for a file that is not what was written,
    ``FileNotFoundError`` for one that a compaction took away.
    """
    import duckdb

    if connection is None:
        connection = own_connection(memory_limit)
    elif memory_limit is not None:
        raise InvalidRequest(
            "give either connection, which has a limit of its own, or memory_limit"
        )
    if not snapshot.files:
        empty = snapshot.table.schema.empty_table()
        if settled is not None:
            empty = with_settlement(empty, settled)
        nothing: duckdb.DuckDBPyRelation = connection.from_arrow(empty)
        return nothing
    check_files(snapshot.files)
    try:
        if settled is None:
            return connection.sql(_current_rows(snapshot, connection))
        # By their places, as numbers: every query on it joins them, and ids take long.
        known = connection.from_arrow(settled.drop_columns(["id"])).set_alias("known")
        placed = f"(rows.file_index::BIGINT << 40) + rows.file_row_number AS {PLACE}"
        rows = connection.sql(_current_rows(snapshot, connection, placed)).set_alias("rows")
        also = ", ".join(f"known.{name}" for name in ADDED)
        both = rows.join(known, f"rows.{PLACE} = known.{PLACE}", "left")
        return both.project(f"rows.* EXCLUDE ({PLACE}), {also}")
    except duckdb.Error as error:
        check_files(snapshot.files)
        where = snapshot.files[0].path.parent
        raise StoreError(f"{where}: DuckDB cannot read it: {first_line(error)}") from error


def hold_in_duckdb(
    snapshot: Snapshot,
    events: Snapshot,
    columns: Sequence[str],
    connection: duckdb.DuckDBPyConnection,
) -> duckdb.DuckDBPyRelation:
    """``columns`` of the current transfers and when they settled, in a table of ``connection``: for
    who asks many questions. Each row is read once, the checksum of each page verified; the table is
    compressed, and what is beyond the connection's memory limit spills."""
    name, memory = snapshot.table.name, pa.default_memory_pool()
    kinds = [snapshot.table.schema.field(column) for column in columns]
    schema = pa.schema([*kinds, SETTLED.field(SETTLED_AT)])
    connection.from_arrow(schema.empty_table()).to_table(name)
    connection.execute("SET threads = 1")  # several take more processor and memory
    memory.release_unused()  # what was read before this: 100 MB after a judgement of 1,000,000
    groups = in_row_groups(settled_rows(snapshot, events, columns), _DUCKDB_GROUP)

    def held() -> Iterator[tuple[int, None]]:
        for rows in groups:
            connection.from_arrow(rows.select(schema.names)).insert_into(name)
            count = rows.num_rows
            del rows
            memory.release_unused()
            connection.execute("CHECKPOINT")  # which compresses, and takes memory for it
            yield count, None

    for _ in with_progress(held(), snapshot.count, f"reading {name}"):
        pass
    connection.execute("RESET threads")
    memory.release_unused()
    return connection.table(name)


def _current_rows(snapshot: Snapshot, connection: duckdb.DuckDBPyConnection, *also: str) -> str:
    """One query over all files, which DuckDB opens together; those replaced are left out by file
    and place."""
    columns = ", ".join(
        [
            *also,
            *(
                f'"{field.name}"'
                if any(field.name in part.names for part in snapshot.files)
                else f'NULL::{_DUCKDB.get(field.type, "TIMESTAMPTZ_NS")} AS "{field.name}"'
                for field in snapshot.table.schema
            ),
        ]
    )
    paths = []
    for part in snapshot.files:
        if isinstance(part.path, RemotePath):
            try:
                from fundlab.store.remote_files import shown_to
            except ImportError as error:
                raise InvalidRequest(
                    f"{part.path}: DuckDB reads it through fsspec, which is not installed: pip "
                    "install fsspec"
                ) from error
            path = shown_to(connection, part.path)
        else:
            path = re.sub(r"([*?\[])", r"[\1]", str(part.path.resolve()))  # or it were a pattern
        paths.append("'" + path.replace("'", "''") + "'")
    # Columns come from the files only, not from what their folders are called.
    query = (
        f"SELECT {columns} FROM read_parquet([{', '.join(paths)}], union_by_name = true, "  # noqa: S608
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
    where = []
    if snapshot.inside_base:
        limit = snapshot.limit
        where.append(f"{FROM} <= {limit} AND ({TO} IS NULL OR {TO} > {limit})")
    elif any(TO in part.names for part in snapshot.files):
        where.append(f"{TO} IS NULL")
    if snapshot.accepted_gone:
        ids = ", ".join("'" + id_.replace("'", "''") + "'" for id_ in snapshot.accepted_gone)
        where.append(f"id NOT IN ({ids})")
    return query + (f" WHERE {' AND '.join(where)}" if where else "")


def is_connect(of_spark: object) -> bool:
    """Whether a session or a frame is of Spark Connect: its server may see no file of this machine,
    and plans a frame when it is collected."""
    return type(of_spark).__module__.startswith("pyspark.sql.connect.")


def send_to_spark(rows: pa.Table, session: SparkSession) -> DataFrame:
    """``rows``, sent from this machine; moments and durations as integer nanoseconds, which is all
    that each Spark keeps of them."""
    for place, field in enumerate(rows.schema):
        if str(field.type).startswith(("timestamp[ns", "duration")):
            rows = rows.set_column(place, field.name, rows.column(place).cast(pa.int64()))
    if rows.num_rows:
        return session.createDataFrame(rows)
    from pyspark.sql.pandas.types import from_arrow_schema

    return session.createDataFrame([], from_arrow_schema(rows.schema))  # Connect takes no empty one


def scan_with_spark(
    snapshot: Snapshot, session: SparkSession, settled: pa.Table | None = None
) -> DataFrame:
    """The columns of the table, and those of ``settled`` beside its ids; moments are integer
    nanoseconds since 1970, because Spark has no nanoseconds, and amounts ``DECIMAL(38, 18)``.

    Classic Spark reads files that are where every worker finds them under the same path. They are
    verified here, each once in a process and again after it changed: what a worker reads, later or
    from another disk, is not. Sets the session's ``spark.sql.legacy.parquet.nanosAsLong``, without
    which Spark refuses to read the files. Raises as ``scan_with_duckdb``.

    Rows of a store elsewhere, and all rows for Spark Connect, are read and checked here and sent:
    the other side needs no access to the files, and this one memory for the rows. (Sail takes 128
    MB at once: beyond that publish the rows as plain Parquet, which any Spark reads.)
    """
    from pyspark.sql import functions as sql

    names = snapshot.table.schema.names
    if is_connect(session) or any(isinstance(part.path, RemotePath) for part in snapshot.files):
        sent = read_current(snapshot, names)
        return send_to_spark(sent if settled is None else with_settlement(sent, settled), session)
    session.conf.set(_NANOSECONDS, "true")
    if settled is not None:
        rows = scan_with_spark(snapshot, session)
        rows = rows.join(send_to_spark(settled.drop_columns([PLACE]), session), "id", "left")
        return rows.select(*names, *ADDED)
    types = ", ".join(
        f"`{field.name}` {_SPARK.get(field.type, 'bigint')}" for field in snapshot.table.schema
    )
    if not snapshot.files:
        return session.createDataFrame([], types)
    check_files(snapshot.files)
    # With its columns given, Spark opens no file to ask for them; what a file lacks is null.
    reader = session.read.option(_GLOB, "false").schema(f"{types}, `{FROM}` int, `{TO}` int")
    rows = reader.parquet(*(str(part.path.resolve()) for part in snapshot.files))
    if snapshot.accepted_gone:
        rows = rows.filter(~sql.col("id").isin(list(snapshot.accepted_gone)))
    if snapshot.inside_base:
        after = sql.col(TO).isNull() | (sql.col(TO) > snapshot.limit)
        return rows.filter((sql.col(FROM) <= snapshot.limit) & after).select(names)
    rows = rows.filter(sql.col(TO).isNull())
    replaced = [
        (part.path.name, snapshot.replaced[part.seq].rows)
        for part in snapshot.files
        if part.seq in snapshot.replaced
    ]
    if replaced:
        gone = pa.table(
            {
                _FILE: pa.array([name for name, places in replaced for _ in places]),
                _ROW: np.concatenate([places for _, places in replaced]),
            }
        )
        places = session.createDataFrame(gone)
        rows = rows.withColumns(
            {"_file": sql.col("_metadata.file_name"), "_row": sql.col("_metadata.row_index")}
        )
        same = (rows["_file"] == places[f"`{_FILE}`"]) & (rows["_row"] == places[f"`{_ROW}`"])
        rows = rows.join(sql.broadcast(places), same, "left_anti")
    return rows.select(names)
