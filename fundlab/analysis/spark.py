"""Spark's side of an analysis: what of a Spark frame an analysis takes, and exact arithmetic.

Spark has no nanoseconds: a time is an integer of nanoseconds since 1970, as ``Store.scan`` gives
it, or one of Spark's own timestamps. Times and durations of a result are such integers, or
timestamps where they are whole microseconds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from fundlab.analysis.frames import JSON, KEPT, MONEY, MONEY_TYPE, TEXT, TIME, Kind, Wanted
from fundlab.errors import AnalysisError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_EXACT: Final = {
    "spark.sql.ansi.enabled": "true",  # overflow is an error, else it is a null
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",  # else a - b has 17 places
}
_INTEGERS: Final = ("bigint", "int", "smallint", "tinyint")


def is_spark(frame: object) -> bool:
    return type(frame).__module__.startswith("pyspark.sql.") and hasattr(frame, "sparkSession")


@contextmanager
def exact_arithmetic(session: SparkSession) -> Iterator[None]:
    """What is planned inside keeps every digit and refuses overflow; then as it was."""
    before = {name: session.conf.get(name) for name in _EXACT}
    try:
        for name, value in _EXACT.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, found in before.items():
            session.conf.set(name, str(found))


def overflows() -> tuple[type[Exception], ...]:
    """Spark's own overflow error, where Spark is in use."""
    if "pyspark" not in sys.modules:
        return ()
    from pyspark.errors import ArithmeticException

    return (ArithmeticException,)


def errors() -> tuple[type[Exception], ...]:
    """Spark's own errors, where Spark is in use."""
    if "pyspark" not in sys.modules:
        return ()
    from pyspark.errors import PySparkException

    return (PySparkException,)


def narrow(frame: DataFrame, want: Wanted, keep: bool) -> DataFrame:
    """The wanted columns: text, ``DECIMAL(38, 18)`` and integer nanoseconds."""
    from pyspark.sql import functions as sql

    types = dict(frame.dtypes)
    want.check(list(frame.columns))
    for name, kind in {**want.columns, **want.optional}.items():
        if kind is MONEY:
            _refuse_longer(frame, want.frame, name, types.get(name, ""))
    chosen = [
        _narrowed(want.frame, name, types.get(name), kind).alias(name)
        for name, kind in {**want.columns, **want.optional}.items()
    ]
    if keep:
        chosen += [sql.col(f"`{name}`").alias(KEPT + name) for name in types]
    return frame.select(*chosen)


def constant(session: SparkSession, rows: pa.Table) -> DataFrame:
    """A small table of our own beside the caller's rows."""
    for place, field in enumerate(rows.schema):
        nanoseconds = pa.types.is_timestamp(field.type) and field.type.unit == "ns"
        if nanoseconds or pa.types.is_duration(field.type):
            whole = rows.column(place).cast(pa.int64())
            rows = rows.set_column(place, pa.field(field.name, pa.int64()), whole)
    found: DataFrame = session.createDataFrame(rows)
    return found


def _refuse_longer(frame: DataFrame, label: str, name: str, found: str) -> None:
    """Spark would round what has more than 18 decimals."""
    from pyspark.sql import functions as sql

    decimals = re.fullmatch(r"decimal\(\d+,(\d+)\)", found)
    if decimals is None or int(decimals[1]) <= MONEY_TYPE.scale:
        return
    column = sql.col(f"`{name}`")
    back = column.cast("decimal(38,18)").cast(found)
    longer = frame.filter(column != back).select(column).limit(1).collect()
    if longer:
        raise AnalysisError(
            f"{label} column {name!r} ({found}) does not fit: {longer[0][0]} has more than 18 "
            "decimals"
        )


def _narrowed(label: str, name: str, found: str | None, kind: Kind) -> Column:
    from pyspark.sql import functions as sql

    if found is None:
        missing: Any = {MONEY: "decimal(38,18)", TIME: "bigint"}.get(kind, "string")
        return sql.lit(None).cast(missing)
    column = sql.col(f"`{name}`")
    if kind is JSON and found.startswith(("struct", "map", "array")):
        return sql.to_json(column)
    fits = {
        TEXT: found == "string" or found.startswith(("varchar", "char")),
        JSON: found == "string",
        MONEY: found.startswith("decimal") or found in _INTEGERS,
        TIME: found in ("timestamp", "bigint"),
    }
    if not fits[kind]:
        raise AnalysisError(f"{label} column {name!r} holds {found}; {kind.value} are needed")
    if kind is MONEY:
        return column.cast("decimal(38,18)")
    if kind is TIME and found == "timestamp":
        return sql.unix_micros(column) * sql.lit(1000)
    return column
