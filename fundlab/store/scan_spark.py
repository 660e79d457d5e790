"""The current rows of a snapshot as a lazy Spark DataFrame, read on the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from fundlab.store.parts import FROM, TO, check_files
from fundlab.store.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NANOSECONDS: Final = "spark.sql.legacy.parquet.nanosAsLong"
_GLOB: Final = "__globPaths__"
_FILE, _ROW = "replaced:file", "replaced:row"


def scan_with_spark(snapshot: Snapshot, session: SparkSession) -> DataFrame:
    """The columns of the table; moments are integer nanoseconds since 1970, because Spark has no
    nanoseconds, and amounts ``DECIMAL(38, 18)``.

    The files must be where every worker finds them under the same path. They are verified here,
    each once in a process and again after it changed: what a worker reads, later or from another
    disk, is not. Sets the session's ``spark.sql.legacy.parquet.nanosAsLong``, without which Spark
    refuses to read the files. Raises as ``scan_with_duckdb``.
    """
    from pyspark.sql import functions as sql

    session.conf.set(_NANOSECONDS, "true")
    names = snapshot.table.schema.names
    types = ", ".join(f"`{field.name}` {_type(field.type)}" for field in snapshot.table.schema)
    if not snapshot.files:
        return session.createDataFrame([], types)
    check_files(snapshot.files)
    # With its columns given, Spark opens no file to ask for them; what a file lacks is null.
    reader = session.read.option(_GLOB, "false").schema(f"{types}, `{FROM}` int, `{TO}` int")
    rows = reader.parquet(*(str(part.path.resolve()) for part in snapshot.files))
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


def _type(arrow_type: pa.DataType) -> str:
    if pa.types.is_decimal(arrow_type):
        return f"decimal({arrow_type.precision},{arrow_type.scale})"
    return {pa.string(): "string", pa.bool_(): "boolean"}.get(arrow_type, "bigint")
