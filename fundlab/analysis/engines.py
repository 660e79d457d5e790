"""The one door between a caller's frame and the engine that computes on it.

A frame enters as a Narwhals lazy frame over DuckDB, or over Spark where it lives there, with three
kinds of column: text, money as ``DECIMAL(38, 18)`` and time as integer nanoseconds since 1970 (an
engine timestamp would cut them to microseconds). The result leaves as the kind of frame that came
in; where it came from is all there is to choose the engine by.

Spark has no nanoseconds: there a time is an integer of nanoseconds since 1970, as ``Store.scan``
gives it, or one of Spark's own timestamps. Times and durations of a result are such integers, or
timestamps where they are whole microseconds.

Classic Spark plans a frame when it is made, Spark Connect when it is collected: a classic session
is left as it was, a Connect session keeps the two settings that exact decimals need.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast
from weakref import WeakKeyDictionary

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import AMOUNT_TYPE, without_views
from fundlab.base.errors import AnalysisError, first_line
from fundlab.base.values import overflow
from fundlab.decimals import types_mapper
from fundlab.store.duck import shared_connection
from fundlab.store.scan import is_connect, send_to_spark
from fundlab.tables.transfers import SETTLED_AT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FrameT = TypeVar("FrameT")
"""pandas DataFrame, pyarrow Table, Polars DataFrame or LazyFrame, DuckDB relation, Spark
DataFrame; or a ``Store``, whose transfers are then scanned."""

TIME_TYPE: Final = pa.timestamp("ns", "UTC")
TEXT_TYPE: Final = pa.string()
ROW: Final = "row_number"
"""The position of an in-memory row, kept beside the columns of an analysis."""
_KEPT: Final = "kept:"
"""Prefix of a lazy frame's own columns while an analysis carries them along."""
_PANDAS_TEXT: Final = pd.StringDtype("pyarrow")
_FIRST_TOO_LARGE: Final = Decimal((0, (1,), 20))
"""The first whole amount that ``AMOUNT_TYPE`` cannot hold."""
_SAFE_SUM: Final = 1e20
"""Up to it no sum of 128 bits wraps around, and each fits an amount."""


class Kind(Enum):
    TEXT = "text"
    MONEY = "exact decimals"
    TIME = "timestamps with a time zone"
    JSON = "JSON text or mappings"


TEXT, MONEY, TIME, JSON = Kind.TEXT, Kind.MONEY, Kind.TIME, Kind.JSON
_ARROW_TYPES: Final = {TEXT: TEXT_TYPE, JSON: TEXT_TYPE, MONEY: AMOUNT_TYPE, TIME: pa.int64()}
_TEXT_TESTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_ARROW_TESTS: Final = {
    TEXT: _TEXT_TESTS,
    JSON: _TEXT_TESTS,
    MONEY: (pa.types.is_decimal, pa.types.is_integer),
    TIME: (lambda found: pa.types.is_timestamp(found) and found.tz is not None,),
}
_DUCKDB_TYPES: Final = {
    TEXT: "VARCHAR", JSON: "VARCHAR", MONEY: "DECIMAL(38, 18)", TIME: "BIGINT",
}  # fmt: skip
_DUCKDB_INTEGERS: Final = frozenset(
    f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")
) | {"INTEGER", "UINTEGER", "BIGNUM", "VARINT"}
_DUCKDB_SETTINGS: Final = {
    "default_order": ("ASC", "ASCENDING"),
    "default_collation": ("", "BINARY", "C", "POSIX"),
}
"""Of a caller's connection: else sums would run backwards, or names that differ only in case fall
together."""
_SPARK_TYPES: Final = {TEXT: "string", JSON: "string", MONEY: "decimal(38,18)", TIME: "bigint"}
_SPARK_SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",  # overflow is an error, else it is a null
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",  # else a - b has 17 places
}


_beside: ContextVar[duckdb.DuckDBPyConnection | None] = ContextVar("beside", default=None)


@contextmanager
def relations_of(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Inside, relations that analyses take are of ``connection``, one of our own, and tables of
    theirs are put beside them directly. A relation says nothing of its connection: to ask it for a
    setting, or for a table beside it, makes a view, after which DuckDB binds every step again."""
    token = _beside.set(connection)
    try:
        yield
    finally:
        _beside.reset(token)


def held(rows: duckdb.DuckDBPyRelation, name: str) -> duckdb.DuckDBPyRelation:
    """``rows`` read once, as the table ``name`` of the connection of :func:`relations_of`; outside
    as they are."""
    connection = _beside.get()
    if connection is None:
        return rows
    rows.to_table(name)
    return connection.table(name)


@dataclass(frozen=True)
class Wanted:
    """The columns an analysis needs of a frame; ``optional`` ones become nulls where absent."""

    frame: str
    columns: Mapping[str, Kind]
    optional: Mapping[str, Kind] = field(default_factory=dict)

    def among(self, present: Sequence[str]) -> Mapping[str, Kind]:
        """All of them. Raises :class:`AnalysisError` unless each column needed is there, and no
        column twice."""
        every = {**self.columns, **self.optional}
        twice = [name for name in every if present.count(name) > 1]
        if twice:
            raise AnalysisError(
                f"{self.frame} has more than one column {twice[0]!r}; drop or rename the others"
            )
        missing = [name for name in self.columns if name not in present]
        if missing:
            settled = "; store.read('transfers', settled=True) gives settled_at"
            needed = f"needed are {', '.join(self.columns)}, " * (len(missing) > 1)
            raise AnalysisError(
                f"{self.frame} has no column {', '.join(map(repr, missing))}; {needed}"
                f"the columns are {', '.join(map(str, present)) or 'none'}"
                + settled
                * (SETTLED_AT in missing)
            )
        return every


class Workbench(ExitStack, Generic[FrameT]):
    """The engine of one call, chosen by the kind of ``frame``.

    In-memory frames get a DuckDB connection of their own, closed on exit; a DuckDB relation and a
    Spark frame are computed where they live and stay lazy. Use as a context manager.
    """

    def __init__(self, frame: FrameT, by: str = "created_at") -> None:
        """A store is scanned with the times its transfers settled at where ``by`` is that."""
        super().__init__()
        self._given = frame
        self._frame: Any = frame
        if is_store(frame):
            self._frame = cast("Any", frame).scan("transfers", settled=by == SETTLED_AT)
        self._spark = _is_spark(self._frame)
        self.lazy = self._spark or isinstance(self._frame, duckdb.DuckDBPyRelation)
        self._connection: duckdb.DuckDBPyConnection | None = None
        if not self.lazy:
            column_names(self._frame)  # refuses what is not a frame

    def __enter__(self) -> Self:
        self.enter_context(engine_errors())
        if self._spark:
            settings = self._frame.sparkSession.conf
            for name, value in _SPARK_SETTINGS.items():
                if not is_connect(self._frame):  # planned inside: then as it was
                    self.callback(settings.set, name, str(settings.get(name)))
                settings.set(name, value)
        elif self.lazy:
            self._connection = _beside.get()
            for name, accepted in _DUCKDB_SETTINGS.items() if self._connection is None else ():
                with engine_errors():
                    query = f"SELECT current_setting('{name}')"
                    ((setting,),) = self._frame.query("replaced_setting", query).fetchall()
                if str(setting).upper() not in accepted:
                    raise AnalysisError(
                        f"the DuckDB connection of transfers has {name}={setting!r}, which would "
                        f"change figures; RESET {name}, or give transfers as an Arrow table"
                    )
        else:
            self._connection = self.enter_context(shared_connection())
        return self

    def names(self) -> list[str]:
        """The columns of the caller's frame."""
        return column_names(self._frame)

    def take(self, frame: object, want: Wanted, *, keep: bool = False) -> nw.LazyFrame[Any]:
        """The wanted columns of ``frame``. With ``keep`` also what it takes to widen the result
        again in :meth:`give_rows`."""
        if frame is self._given:
            frame = self._frame
        elif is_store(frame):
            frame = cast("Any", frame).scan("transfers")
        if _is_spark(frame):
            on_spark = from_spark(cast("Any", frame), want, keep)
            return nw.from_native(on_spark) if self._spark else self.constant(on_spark.toArrow())
        if isinstance(frame, duckdb.DuckDBPyRelation):
            relation = from_duckdb(frame, want, keep)
            if self.lazy and not self._spark:
                return nw.from_native(relation)
            return self.constant(relation.to_arrow_table())
        return self.constant(from_memory(frame, want, keep))

    def constant(self, rows: pa.Table) -> nw.LazyFrame[Any]:
        """A small table of our own, beside the caller's rows."""
        if self._connection is not None:
            return nw.from_native(self._connection.from_arrow(rows))
        if self._spark:
            on_spark: Any = send_to_spark(rows, self._frame.sparkSession)
            return cast("nw.LazyFrame[Any]", nw.from_native(on_spark))
        # A relation's connection reads a Python variable by its name only: one that no table of
        # the caller's has, since a table would come first.
        fundlab_rows_of_an_analysis_7d3b90c4 = rows  # noqa: F841 - named in the query
        query = "SELECT * FROM fundlab_rows_of_an_analysis_7d3b90c4"
        try:
            beside: duckdb.DuckDBPyRelation = self._frame.query("replaced_rows", query)
        except duckdb.CatalogException as error:
            raise AnalysisError(
                "the DuckDB connection of transfers reads no frames of Python, which this analysis "
                "needs beside them; SET python_enable_replacements = true, or give transfers as an "
                "Arrow table"
            ) from error
        return nw.from_native(beside)

    def collect(self, rows: nw.LazyFrame[Any]) -> pa.Table:
        """The rows as an Arrow table, times still as integers. Raises ``OverflowError``."""
        native: Any = rows.to_native()
        return native.toArrow() if self._spark else native.to_arrow_table()

    def give(self, result: nw.LazyFrame[Any] | pa.Table, schema: pa.Schema) -> FrameT:
        """The result, rows of the engine or a finished table, in the kind of frame that came in,
        with the columns of ``schema``."""
        given: Any
        if not self.lazy:
            done = isinstance(result, pa.Table)
            table = result if done else self.collect(result.select(*schema.names))
            table = table.cast(schema)
            given = to_pandas(table) if isinstance(self._frame, pd.DataFrame) else table
            if not isinstance(self._frame, pd.DataFrame | pa.Table):
                given = _as_polars(table, self._frame)
        elif isinstance(result, pa.Table):
            given = result.cast(schema)
            given = self.constant(given if self._spark else _in_microseconds(given)).to_native()
        else:
            given = result.select(*schema.names).to_native()
            types = {} if self._spark else dict(zip(given.columns, given.types, strict=True))
            projected = []
            for name, kind in zip(schema.names, schema.types, strict=True):
                column = _quoted(name)
                if pa.types.is_timestamp(kind) and types.get(name) == "BIGINT":
                    # Computed as integer nanoseconds: a timestamp again.
                    column = f"make_timestamp_ns({column}) AT TIME ZONE 'UTC' AS {column}"
                projected.append(column)
            given = given if self._spark else given.project(", ".join(projected))
        return cast("FrameT", given)

    def give_rows(self, rows: nw.LazyFrame[Any], added: Mapping[str, pa.DataType]) -> FrameT:
        """The caller's own rows in the order of ``rows``, every column as it was, plus ``added``
        (a column of the same name is replaced)."""
        given: Any
        if self.lazy:
            names = self.names()
            every = names + [name for name in added if name not in names]
            given = rows.select(
                *(name if name in added else nw.col(_KEPT + name).alias(name) for name in every)
            ).to_native()
            return cast("FrameT", given)
        table = self.collect(rows.select(ROW, *added))
        place = table.column(ROW).to_numpy()
        new = {name: table.column(name).cast(dtype) for name, dtype in added.items()}
        if isinstance(self._frame, pd.DataFrame):
            given = self._frame.take(place).reset_index(drop=True)
            for name, values in new.items():
                column = to_pandas(pa.table({name: values}))[name]
                if name in self._frame.columns:
                    before = self._frame[name].dtype
                    if isinstance(before, pd.CategoricalDtype):
                        both = before.categories.union(
                            pd.Index(column.dropna().unique()), sort=False
                        )
                        before = pd.CategoricalDtype(both, ordered=before.ordered)
                    column = column.astype(before)
                given[name] = column
            return cast("FrameT", given)
        in_arrow = isinstance(self._frame, pa.Table)
        given = without_views(self._frame) if in_arrow else _polars_to_arrow(self._frame)
        given = given.take(pa.array(place))
        for name, values in new.items():
            if name in given.column_names:
                position, before = given.column_names.index(name), given.schema.field(name).type
                coded = pa.types.is_dictionary(before)
                values = pc.dictionary_encode(values) if coded else values
                given = given.set_column(position, name, values.cast(before))
            else:
                given = given.append_column(name, values)
        return cast("FrameT", given if in_arrow else _as_polars(given, self._frame))


def _in_microseconds(table: pa.Table) -> pa.Table:
    """Durations rounded half-even to what DuckDB's intervals hold; it would cut them."""
    for number, (name, kind) in enumerate(zip(table.schema.names, table.schema.types, strict=True)):
        if pa.types.is_duration(kind):
            exact = table.column(number).cast(pa.int64()).cast(pa.decimal128(38, 0))
            rounded = pc.round(exact, ndigits=-3).cast(pa.int64()).cast(kind)
            table = table.set_column(number, name, rounded)
    return table


@contextmanager
def engine_errors() -> Iterator[None]:
    """The engine's errors as ours: ``OverflowError`` for a sum that 38 digits cannot hold,
    ``AnalysisError`` for the others, such as rows whose file was taken away."""
    beyond: list[type[Exception]] = [duckdb.OutOfRangeException]
    others: list[type[Exception]] = [duckdb.Error]
    if "pyspark" in sys.modules:
        from pyspark.errors import ArithmeticException, PySparkException

        beyond.append(ArithmeticException)
        others.append(PySparkException)
    try:
        yield
    except tuple(beyond) as error:
        raise overflow("a sum of amounts") from error
    except tuple(others) as error:
        # Sail, a server of Spark Connect, has no class of its own for what does not fit.
        if (isinstance(error, duckdb.ConversionException) and "out of range" in str(error)) or (
            "Cannot cast to Decimal128(38, 18). Overflowing" in str(error)
        ):
            raise overflow("an amount or a sum of amounts") from error
        raise AnalysisError(
            f"the engine cannot read or compute these rows: {first_line(error)}; where it names a "
            "file of a store, scan the store again"
        ) from error


def columns(*fields: tuple[str, pa.DataType]) -> pa.Schema:
    """The schema of a result, as in ``columns(("id type", TEXT_TYPE), ("fee", AMOUNT_TYPE))``."""
    return pa.schema([(name, kind) for names, kind in fields for name in names.split()])


def is_store(frame: object) -> bool:
    return hasattr(type(frame), "scan") and hasattr(type(frame), "snapshot")


def column_names(frame: object) -> list[str]:
    """Raises :class:`AnalysisError` for what is not a frame."""
    if isinstance(frame, duckdb.DuckDBPyRelation | pd.DataFrame):
        return [str(name) for name in frame.columns]
    if isinstance(frame, pa.Table):
        return list(frame.column_names)
    try:
        native = nw.from_native(cast("Any", frame))
    except TypeError:
        native = None
    if native is None or not (native.implementation.is_polars() or _is_spark(frame)):
        raise AnalysisError(
            f"a {type(frame).__module__}.{type(frame).__qualname__} is not a frame that an "
            "analysis takes; give a pandas DataFrame, a pyarrow Table, a Polars, DuckDB or Spark "
            "frame"
        )
    return list(native.collect_schema().names())


# --------------------------------------------------------------------------- in-memory frames


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Arrow to pandas, typed as the loaders do: money ``decimal``, times ``datetime64[ns, UTC]``,
    text ``string``; calendar days ``datetime64[ns]``."""
    # Our counts are int64 and never missing; an int32 may be.
    special = {TEXT_TYPE: _PANDAS_TEXT, pa.int32(): pd.Int32Dtype()}
    frame: pd.DataFrame = table.to_pandas(types_mapper=lambda t: special.get(t) or types_mapper(t))
    for name, dtype in zip(table.schema.names, table.schema.types, strict=True):
        if pa.types.is_date(dtype):
            frame[name] = pd.to_datetime(frame[name]).astype("datetime64[ns]")
        elif frame.empty and pa.types.is_string(dtype):
            frame[name] = pd.array(
                [], dtype=_PANDAS_TEXT
            )  # Arrow's own cannot be merged when empty
    return frame


def from_memory(frame: object, want: Wanted, numbered: bool) -> pa.Table:
    """Raises ``AnalysisError`` for a column that an engine would not take without losing a
    digit."""
    kinds = want.among(column_names(frame))
    rows = frame if isinstance(frame, pd.DataFrame | pa.Table) else _polars_to_arrow(frame)
    taken: dict[str, Any] = {}
    for name, kind in kinds.items():
        label, target = f"{want.frame} column {name!r}", _ARROW_TYPES[kind]
        if name not in column_names(rows):
            taken[name] = pa.nulls(len(rows), target)
            continue
        # As an Arrow column, whatever it is now.
        column: Any = rows[name]
        if isinstance(column, pd.Series):
            if column.dtype != object:
                column = pa.array(column, from_pandas=True)
            elif kind is JSON:
                column = _json_texts(column.tolist())
            elif column.isna().all():  # pandas calls a column without values an object
                column = pa.nulls(len(column), target)
            elif kind is TIME:
                raise AnalysisError(
                    f"{label} holds Python objects; convert it with pd.to_datetime(…, utc=True)"
                )
            else:
                try:
                    column = pa.array(column, type=target, from_pandas=True)
                except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
                    raise AnalysisError(
                        f"{label} does not hold {kind.value} throughout: {error}"
                    ) from error
        elif kind is JSON and pa.types.is_nested(column.type):
            column = _json_texts(column.to_pylist())
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        # As the engine takes it, exactly.
        held = column.type
        if column.null_count == len(column):  # pandas calls an empty column float or object
            taken[name] = pa.nulls(len(column), target)
            continue
        if not any(test(held) for test in _ARROW_TESTS[kind]):
            advice = "" if kind is TEXT else ", never rounded or guessed"
            if kind is MONEY and pa.types.is_floating(held):
                advice += f": read them so, as by pd.read_csv(path, dtype={{{name!r}: 'decimal'}})"
            raise AnalysisError(f"{label} holds {held}; {kind.value} are needed{advice}")
        if kind is MONEY and pa.types.is_decimal(held) and held.precision - held.scale > 20:
            # Arrow's own cast to fewer integer digits may wrap around.
            for value in pc.min_max(column).as_py().values():
                if value.copy_abs() >= _FIRST_TOO_LARGE:
                    raise AnalysisError(
                        f"{label} ({held}) does not fit: {value} has more than 20 integer digits"
                    )
        try:
            taken[name] = (column.cast(TIME_TYPE) if kind is TIME else column).cast(target)
        except pa.ArrowInvalid as error:
            raise AnalysisError(f"{label} ({held}) does not fit: {error}") from error
    if numbered:
        taken[ROW] = pa.array(np.arange(len(rows), dtype="int64"))
    return pa.table(taken)


def _json_texts(values: Sequence[object]) -> pa.Array:
    """Texts as they are, mappings as JSON; whatever pandas calls missing is missing."""
    texts = [
        value if isinstance(value, str)
        else json.dumps(value, default=str) if isinstance(value, Mapping | list)
        else None
        for value in values
    ]  # fmt: skip
    return pa.array(texts, TEXT_TYPE)


def _polars_to_arrow(frame: object) -> pa.Table:
    native = nw.from_native(cast("Any", frame))
    eager = native.collect() if isinstance(native, nw.LazyFrame) else native
    return eager.to_arrow()


def _as_polars(table: pa.Table, like: object) -> Any:
    native = nw.from_native(cast("Any", like))
    frame = nw.from_arrow(table, backend=native.implementation).to_native()
    return frame.lazy() if isinstance(native, nw.LazyFrame) else frame


# ------------------------------------------------------------------------------------- DuckDB


def from_duckdb(
    relation: duckdb.DuckDBPyRelation, want: Wanted, keep: bool
) -> duckdb.DuckDBPyRelation:
    """A timestamp without zone is read as UTC: Parquet written elsewhere and older engines drop the
    zone of nanosecond columns."""
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    chosen = []
    for name, kind in want.among(relation.columns).items():
        column, held, target = _quoted(name), types.get(name), _DUCKDB_TYPES[kind]
        if held is None:
            taken = f"CAST(NULL AS {target})"
        elif kind is JSON:
            text = column if held in ("VARCHAR", "JSON") else f"to_json({column})"
            taken = f"CAST({text} AS VARCHAR)"
        else:
            fits = {
                TEXT: held in ("VARCHAR", "UUID") or held.startswith("ENUM("),
                MONEY: held in _DUCKDB_INTEGERS or held.startswith("DECIMAL("),
                TIME: held.startswith("TIMESTAMP"),
            }
            if held.endswith("]") or not fits[kind]:
                raise AnalysisError(
                    f"{want.frame} column {name!r} holds {held}; {kind.value} are needed"
                )
            taken = f"epoch_ns({column})" if kind is TIME else f"CAST({column} AS {target})"
            if kind is MONEY and _has_more_decimals(held):  # which DuckDB would round
                longer = relation.filter(f"{column} <> CAST({taken} AS {held})").project(column)
                _refuse_longer(longer.limit(1).fetchall(), want.frame, name, held)
        chosen.append(f"{taken} AS {column}")
    if keep:
        chosen += [f"{_quoted(name)} AS {_quoted(_KEPT + name)}" for name in relation.columns]
    return relation.project(", ".join(chosen))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _has_more_decimals(found: str) -> bool:
    decimals = re.fullmatch(r"decimal\(\d+,\s*(\d+)\)", found, re.IGNORECASE)
    return decimals is not None and int(decimals[1]) > AMOUNT_TYPE.scale


def _refuse_longer(rows: Sequence[Any], label: str, name: str, found: str) -> None:
    if rows:
        raise AnalysisError(
            f"{label} column {name!r} ({found}) does not fit: {rows[0][0]} has more than 18 "
            "decimals"
        )


# -------------------------------------------------------------------------------------- Spark


def _is_spark(frame: object) -> bool:
    return type(frame).__module__.startswith("pyspark.sql.") and hasattr(frame, "sparkSession")


def _notices_overflow(session: SparkSession) -> bool:
    """Whether a sum of 39 digits is an error there, as in Spark. Sail's wrap around: it is asked
    first, in doubles, whether any sum can come near that."""
    from pyspark.errors import ArithmeticException

    if session not in _noticing:
        huge = "CAST('60000000000000000000' AS DECIMAL(38, 18))"
        try:
            session.sql(f"SELECT sum(x) FROM VALUES ({huge}), ({huge}) AS t(x)").collect()  # noqa: S608
        except ArithmeticException:
            _noticing[session] = True
        else:
            _noticing[session] = False
    return _noticing[session]


_noticing: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


def from_spark(frame: DataFrame, want: Wanted, keep: bool) -> DataFrame:
    from pyspark.sql import functions as sql

    types = dict(frame.dtypes)
    chosen: list[Column] = []
    for name, kind in want.among(list(frame.columns)).items():
        held, target = types.get(name), _SPARK_TYPES[kind]
        column = sql.lit(None).cast(target) if held is None else sql.col(f"`{name}`")
        if held is not None:
            fits = {
                TEXT: held == "string" or held.startswith(("varchar", "char")),
                JSON: held == "string" or held.startswith(("struct", "map", "array")),
                MONEY: held.startswith("decimal")
                or held in ("bigint", "int", "smallint", "tinyint"),
                TIME: held in ("timestamp", "bigint"),
            }
            if not fits[kind]:
                raise AnalysisError(
                    f"{want.frame} column {name!r} holds {held}; {kind.value} are needed"
                )
            if kind is MONEY and _has_more_decimals(held):  # which Spark would round
                longer = frame.filter(column != column.cast(target).cast(held)).select(column)
                _refuse_longer(longer.limit(1).collect(), want.frame, name, held)
            if kind is MONEY:
                column = column.cast(target)
            elif kind is TIME and held == "timestamp":
                column = sql.unix_micros(column) * sql.lit(1000)
            elif kind is JSON and held != "string":
                column = sql.to_json(column)
        chosen.append(column.alias(name))
    amounts = [name for name, kind in want.among(frame.columns).items() if kind is MONEY]
    if is_connect(frame) and amounts and not _notices_overflow(frame.sparkSession):
        sums = [sql.sum(sql.abs(sql.col(f"`{name}`").cast("double"))) for name in amounts
                if name in types]  # fmt: skip
        if any(value is not None and value > _SAFE_SUM for value in frame.select(*sums).first()):
            raise overflow(f"{want.frame}: a sum of amounts, which this server would not notice,")
    if keep:
        chosen += [sql.col(f"`{name}`").alias(_KEPT + name) for name in types]
    return frame.select(*chosen)
