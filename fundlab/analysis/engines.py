"""The one door between a caller's frame and the engine that computes on it.

A frame enters as a Narwhals lazy frame over DuckDB, or over Spark where it lives there, with three
kinds of column: text, money as ``DECIMAL(38, 18)`` and time as integer nanoseconds since 1970 (an
engine timestamp would cut them to microseconds). The result leaves as the kind of frame that came
in; where it came from is all there is to choose the engine by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

import duckdb
import narwhals as nw
import pandas as pd
import pyarrow as pa

from fundlab.analysis import spark
from fundlab.analysis.frames import (
    JSON,
    KEPT,
    MONEY,
    MONEY_TYPE,
    ROW,
    TEXT,
    TIME,
    TIME_TYPE,
    Kind,
    Wanted,
    column_names,
    columns,
    to_arrow,
    to_pandas,
    to_polars,
    wanted,
    whole_arrow,
    widen_arrow,
    widen_pandas,
)
from fundlab.errors import AnalysisError, first_line
from fundlab.store.duck import shared_connection
from fundlab.values import overflow

__all__ = [
    "JSON", "KEPT", "MONEY", "MONEY_TYPE", "ROW", "TEXT", "TIME", "TIME_TYPE", "FrameT", "Kind",
    "Wanted", "Workbench", "column_names", "columns", "engine_errors", "is_store", "to_pandas",
    "wanted",
]  # fmt: skip

_INTEGERS = frozenset(
    f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")
) | {"INTEGER", "UINTEGER", "BIGNUM", "VARINT"}

FrameT = TypeVar("FrameT")
"""pandas DataFrame, pyarrow Table, Polars DataFrame or LazyFrame, DuckDB relation, Spark
DataFrame; or a ``Store``, whose transfers are then scanned."""


_SETTINGS: Final = {
    "default_order": ("ASC", "ASCENDING"),
    "default_collation": ("", "BINARY", "C", "POSIX"),
}
"""Of a caller's DuckDB connection: what an analysis takes for granted."""


class Workbench:
    """The engine of one call, chosen by the kind of ``frame``.

    In-memory frames get a DuckDB connection of their own, closed on exit; a DuckDB relation and a
    Spark frame are computed where they live and stay lazy. Use as a context manager.
    """

    def __init__(self, frame: object) -> None:
        self._given = frame
        self._frame = _scanned(frame)
        self._spark = spark.is_spark(self._frame)
        self.lazy = self._spark or isinstance(self._frame, duckdb.DuckDBPyRelation)
        self._closing = ExitStack()
        self._connection: duckdb.DuckDBPyConnection | None = None
        if not self.lazy:
            column_names(self._frame)  # refuses what is no frame

    def __enter__(self) -> Self:
        self._closing.enter_context(engine_errors())
        if self._spark:
            session = cast("Any", self._frame).sparkSession
            self._closing.enter_context(spark.exact_arithmetic(session))
        elif self.lazy:
            with engine_errors():
                _refuse_settings(cast("duckdb.DuckDBPyRelation", self._frame))
        else:
            self._connection = shared_connection()
            self._closing.callback(self._connection.close)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.__exit__(kind, error, trace)

    def take(self, frame: object, want: Wanted, *, keep: bool = False) -> nw.LazyFrame[Any]:
        """The wanted columns of ``frame``. With ``keep`` also what it takes to widen the result
        again in :meth:`give_rows`."""
        frame = self._frame if frame is self._given else _scanned(frame)
        if spark.is_spark(frame):
            found = spark.narrow(cast("Any", frame), want, keep)
            return nw.from_native(found) if self._spark else self.constant(found.toArrow())
        if isinstance(frame, duckdb.DuckDBPyRelation):
            narrow = _narrow(frame, want, keep)
            if self.lazy and not self._spark:
                return nw.from_native(narrow)
            return self.constant(narrow.to_arrow_table())
        return self.constant(to_arrow(frame, want, numbered=keep))

    def names(self) -> list[str]:
        """The columns of the caller's frame."""
        return column_names(self._frame)

    def constant(self, rows: pa.Table) -> nw.LazyFrame[Any]:
        """A small table of our own, beside the caller's rows."""
        if self._connection is not None:
            return nw.from_native(self._connection.from_arrow(rows))
        if self._spark:
            session = cast("Any", self._frame).sparkSession
            beside: nw.LazyFrame[Any] = nw.from_native(spark.constant(session, rows))
            return beside
        return nw.from_native(_beside(cast("duckdb.DuckDBPyRelation", self._frame), rows))

    def collect(self, rows: nw.LazyFrame[Any]) -> pa.Table:
        """The rows as an Arrow table, times still as integers. Raises ``OverflowError``."""
        native: Any = rows.to_native()
        table: pa.Table = native.toArrow() if self._spark else native.to_arrow_table()
        return table

    def give(self, rows: nw.LazyFrame[Any], schema: pa.Schema) -> Any:
        """The result, in the kind of frame that came in, with the columns of ``schema``."""
        rows = rows.select(*schema.names)
        if self.lazy:
            native = rows.to_native()
            return native if self._spark else _with_moments(native, schema)
        return self.give_table(self.collect(rows).cast(schema))

    def give_table(self, table: pa.Table) -> Any:
        """A finished table, in the kind of frame that came in."""
        if self.lazy:
            return self.constant(table).to_native()
        if isinstance(self._frame, pd.DataFrame):
            return to_pandas(table)
        if isinstance(self._frame, pa.Table):
            return table
        return to_polars(self._frame, table)

    def give_rows(self, rows: nw.LazyFrame[Any], added: Mapping[str, pa.DataType]) -> Any:
        """The caller's own rows in the order of ``rows``, every column as it was, plus ``added``
        (a column of the same name is replaced)."""
        if self.lazy:
            names = [name for name in self.names() if name not in added]
            kept = [nw.col(KEPT + name).alias(name) for name in names]
            chosen = rows.select(*kept, *added)
            order = [name for name in self.names() if name in added]
            every = self.names() + [name for name in added if name not in order]
            return chosen.select(*every).to_native()
        table = self.collect(rows.select(ROW, *added))
        place = table.column(ROW).to_numpy()
        new = {name: table.column(name).cast(dtype) for name, dtype in added.items()}
        if isinstance(self._frame, pd.DataFrame):
            return widen_pandas(self._frame, place, new)
        if isinstance(self._frame, pa.Table):
            return widen_arrow(self._frame, place, new)
        return to_polars(self._frame, widen_arrow(whole_arrow(self._frame), place, new))


@contextmanager
def engine_errors() -> Iterator[None]:
    """The engine's errors as ours: ``OverflowError`` for a sum that 38 digits cannot hold,
    ``AnalysisError`` for the others, such as rows whose file was taken away."""
    beyond: tuple[type[Exception], ...] = (duckdb.OutOfRangeException, *spark.overflows())
    others: tuple[type[Exception], ...] = (duckdb.Error, *spark.errors())
    try:
        yield
    except beyond as error:
        raise overflow("a sum of amounts") from error
    except others as error:
        if isinstance(error, duckdb.ConversionException) and "out of range" in str(error):
            raise overflow("an amount or a sum of amounts") from error
        raise AnalysisError(
            f"the engine cannot read or compute these rows: {first_line(error)}; where it names a "
            "file of a store, scan the store again"
        ) from error


def is_store(frame: object) -> bool:
    return hasattr(frame, "scan") and hasattr(frame, "snapshot")


def _scanned(frame: object) -> object:
    """The transfers of a store, lazily; any other frame as it is."""
    return cast("Any", frame).scan("transfers") if is_store(frame) else frame


def _refuse_settings(home: duckdb.DuckDBPyRelation) -> None:
    """Sums would run backwards, or names that differ only in case fall together."""
    for name, accepted in _SETTINGS.items():
        setting: Any = home.query("replaced_setting", f"SELECT current_setting('{name}')")
        ((found,),) = setting.fetchall()
        if str(found).upper() not in accepted:
            raise AnalysisError(
                f"the DuckDB connection of transfers has {name}={found!r}, which would change "
                f"figures; RESET {name}, or give transfers as an Arrow table"
            )


def _beside(home: duckdb.DuckDBPyRelation, rows: pa.Table) -> duckdb.DuckDBPyRelation:
    """``rows`` on the connection of ``home``, which only reads a Python variable by its name: one
    that no table of the caller's has, since a table would come first."""
    fundlab_rows_of_an_analysis_7d3b90c4 = rows  # noqa: F841 - named in the query
    try:
        found = home.query("replaced_rows", "SELECT * FROM fundlab_rows_of_an_analysis_7d3b90c4")
    except duckdb.CatalogException as error:
        raise AnalysisError(
            "the DuckDB connection of transfers reads no frames of Python, which this analysis "
            "needs beside them; SET python_enable_replacements = true, or give transfers as an "
            "Arrow table"
        ) from error
    return cast("duckdb.DuckDBPyRelation", found)


def _narrow(relation: duckdb.DuckDBPyRelation, want: Wanted, keep: bool) -> duckdb.DuckDBPyRelation:
    want.check(relation.columns)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    columns = []
    for name, kind in {**want.columns, **want.optional}.items():
        columns.append(f"{_narrowed(want.frame, name, types.get(name), kind)} AS {_quoted(name)}")
        if kind is MONEY and _fraction_digits(types.get(name, "")) > MONEY_TYPE.scale:
            _refuse_longer(relation, want.frame, name, types[name])
    if keep:
        columns += [f"{_quoted(name)} AS {_quoted(KEPT + name)}" for name in relation.columns]
    return relation.project(", ".join(columns))


def _narrowed(label: str, name: str, found: str | None, kind: Kind) -> str:
    """SQL for one column. A timestamp without zone is read as UTC: Parquet written elsewhere and
    older engines drop the zone of nanosecond columns."""
    sql = {TEXT: "VARCHAR", JSON: "VARCHAR", MONEY: "DECIMAL(38, 18)", TIME: "BIGINT"}[kind]
    if found is None:
        return f"CAST(NULL AS {sql})"
    fits = {
        TEXT: found in ("VARCHAR", "UUID") or found.startswith("ENUM("),
        MONEY: found in _INTEGERS or found.startswith("DECIMAL("),
        TIME: found.startswith("TIMESTAMP"),
    }
    if kind is JSON:
        text = _quoted(name) if found in ("VARCHAR", "JSON") else f"to_json({_quoted(name)})"
        return f"CAST({text} AS VARCHAR)"
    if found.endswith("]") or not fits[kind]:
        raise AnalysisError(f"{label} column {name!r} holds {found}; {kind.value} are needed")
    if kind is TIME:
        return f"epoch_ns({_quoted(name)})"
    return f"CAST({_quoted(name)} AS {sql})"


def _fraction_digits(found: str) -> int:
    decimals = re.fullmatch(r"DECIMAL\(\d+,\s*(\d+)\)", found)
    return 0 if decimals is None else int(decimals[1])


def _refuse_longer(relation: duckdb.DuckDBPyRelation, label: str, name: str, found: str) -> None:
    """DuckDB would round what has more than 18 decimals."""
    column = _quoted(name)
    back = f"CAST(CAST({column} AS DECIMAL(38, 18)) AS {found})"
    longer = relation.filter(f"{column} <> {back}").project(column).limit(1).fetchall()
    if longer:
        raise AnalysisError(
            f"{label} column {name!r} ({found}) does not fit: {longer[0][0]} has more than 18 "
            "decimals"
        )


def _with_moments(relation: duckdb.DuckDBPyRelation, schema: pa.Schema) -> duckdb.DuckDBPyRelation:
    """Times that were computed as integer nanoseconds, as timestamps again."""
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    whole = [
        field.name
        for field in schema
        if pa.types.is_timestamp(field.type) and types[field.name] == "BIGINT"
    ]
    if not whole:
        return relation
    return relation.project(
        ", ".join(
            f"make_timestamp_ns({_quoted(name)}) AT TIME ZONE 'UTC' AS {_quoted(name)}"
            if name in whole
            else _quoted(name)
            for name in relation.columns
        )
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
