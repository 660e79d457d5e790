"""The standing rows of a snapshot as a lazy Spark DataFrame, read on the cluster."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from fundlab.store.parts import FROM, TO, Part
from fundlab.store.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NANOSECONDS: Final = "spark.sql.legacy.parquet.nanosAsLong"
_GLOB: Final = "__globPaths__"
_ROW: Final = "replaced:row"


def scan_with_spark(snapshot: Snapshot, session: SparkSession) -> DataFrame:
    """The columns of the table; moments are integer nanoseconds since 1970, because Spark has no
    nanoseconds, and amounts ``DECIMAL(38, 18)``.

    The files must be where every worker finds them under the same path. Sets the session's
    ``spark.sql.legacy.parquet.nanosAsLong``, without which Spark refuses to read the files.
    """
    session.conf.set(_NANOSECONDS, "true")
    if not snapshot.files:
        return session.createDataFrame([], _types(snapshot))
    found = [_select(snapshot, part, session) for part in snapshot.files]
    return reduce(lambda left, right: left.unionByName(right), found)


def _select(snapshot: Snapshot, part: Part, session: SparkSession) -> DataFrame:
    from pyspark.sql import functions as sql

    reader = session.read.option(_GLOB, "false")  # a name is that of one file
    rows = reader.parquet(str(part.path.resolve()))
    if snapshot.inside_base:
        after = sql.col(TO).isNull() | (sql.col(TO) > snapshot.limit)
        rows = rows.filter((sql.col(FROM) <= snapshot.limit) & after)
    elif part.kind == "base":
        rows = rows.filter(sql.col(TO).isNull())
    gone = snapshot.replaced.get(part.seq) if not snapshot.inside_base else None
    if gone is not None:
        places = session.createDataFrame(pa.table({_ROW: gone}))
        numbered = rows.withColumn("_place", sql.col("_metadata.row_index"))
        same = numbered["_place"] == places[f"`{_ROW}`"]
        rows = numbered.join(sql.broadcast(places), same, "left_anti")
    there = set(rows.columns)
    columns = [
        sql.col(field.name)
        if field.name in there
        else sql.lit(None).cast(_spark_type(field.type)).alias(field.name)
        for field in snapshot.table.schema
    ]
    return rows.select(*columns)


def _types(snapshot: Snapshot) -> str:
    return ", ".join(f"`{field.name}` {_spark_type(field.type)}" for field in snapshot.table.schema)


def _spark_type(arrow_type: pa.DataType) -> str:
    if pa.types.is_decimal(arrow_type):
        return f"decimal({arrow_type.precision},{arrow_type.scale})"
    return {pa.string(): "string", pa.bool_(): "boolean"}.get(arrow_type, "bigint")
