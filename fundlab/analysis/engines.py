"""The one door between a caller's frame and the engine that computes on it.

A frame enters as a Narwhals lazy frame over DuckDB with three kinds of column: text, money as
``DECIMAL(38, 18)`` and time as integer nanoseconds since 1970 (an engine timestamp would cut them
to microseconds). The result leaves as the kind of frame that came in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.decimals import types_mapper
from fundlab.errors import AnalysisError

MONEY_TYPE: Final = pa.decimal128(38, 18)
_STRING: Final = pd.StringDtype("pyarrow")
TIME_TYPE: Final = pa.timestamp("ns", "UTC")
ROW: Final = "row_number"
"""The position of an in-memory row, kept beside the columns of an analysis."""
KEPT: Final = "kept."
"""Prefix of a relation's own columns while an analysis carries them along."""

FrameT = TypeVar("FrameT")
"""pandas DataFrame, pyarrow Table, Polars DataFrame or LazyFrame, DuckDB relation."""


class Kind(Enum):
    TEXT = "text"
    MONEY = "exact decimals"
    TIME = "timestamps with a time zone"


TEXT, MONEY, TIME = Kind.TEXT, Kind.MONEY, Kind.TIME


@dataclass(frozen=True)
class Wanted:
    """The columns an analysis needs of a frame; ``optional`` ones become nulls where absent."""

    frame: str
    columns: Mapping[str, Kind]
    optional: Mapping[str, Kind]

    def check(self, present: Sequence[str]) -> None:
        missing = [name for name in self.columns if name not in present]
        if missing:
            raise AnalysisError(
                f"{self.frame} has no column {', '.join(map(repr, missing))}; needed are "
                f"{', '.join(self.columns)}, found are {', '.join(map(str, present)) or 'none'}"
            )


def wanted(frame: str, optional: Mapping[str, Kind] | None = None, /, **columns: Kind) -> Wanted:
    return Wanted(frame, columns, optional or {})


class Workbench:
    """The engine of one call, chosen by the kind of ``frame``.

    In-memory frames get a DuckDB connection of their own, closed on exit; a DuckDB relation is
    computed where it lives and stays lazy. Use as a context manager.
    """

    def __init__(self, frame: object) -> None:
        self._frame = frame
        self.lazy = isinstance(frame, duckdb.DuckDBPyRelation)
        self._connection: duckdb.DuckDBPyConnection | None = None
        if not self.lazy:
            column_names(frame)  # refuses what is no frame
            self._connection = duckdb.connect(":memory:")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    def take(self, frame: object, want: Wanted, *, keep: bool = False) -> nw.LazyFrame[Any]:
        """The wanted columns of ``frame``. With ``keep`` also what it takes to widen the result
        again in :meth:`give_rows`."""
        if isinstance(frame, duckdb.DuckDBPyRelation):
            if not self.lazy:
                frame = frame.to_arrow_table()
            else:
                return nw.from_native(_narrow(frame, want, keep))
        return self.constant(_to_arrow(frame, want, numbered=keep))

    def constant(self, rows: pa.Table) -> nw.LazyFrame[Any]:
        """A small table of our own, beside the caller's rows."""
        if self._connection is not None:
            return nw.from_native(self._connection.from_arrow(rows))
        home = cast("duckdb.DuckDBPyRelation", self._frame)
        beside = home.query("unused", "SELECT * FROM rows")  # DuckDB finds the local by its name
        return nw.from_native(cast("duckdb.DuckDBPyRelation", beside))

    def collect(self, rows: nw.LazyFrame[Any]) -> pa.Table:
        """The rows as an Arrow table, times still as integers. Raises ``OverflowError``."""
        with engine_errors():
            table: pa.Table = rows.to_native().to_arrow_table()
            return table

    def give(self, rows: nw.LazyFrame[Any], schema: pa.Schema) -> Any:
        """The result, in the kind of frame that came in, with the columns of ``schema``."""
        rows = rows.select(*schema.names)
        if self.lazy:
            return rows.to_native()
        return self.give_table(self.collect(rows).cast(schema))

    def give_table(self, table: pa.Table) -> Any:
        """A finished table, in the kind of frame that came in."""
        if self.lazy:
            return self.constant(table).to_native()
        if isinstance(self._frame, pd.DataFrame):
            return to_pandas(table)
        if isinstance(self._frame, pa.Table):
            return table
        return _to_polars(self._frame, table)

    def give_rows(self, rows: nw.LazyFrame[Any], added: Mapping[str, pa.DataType]) -> Any:
        """The caller's own rows in the order of ``rows``, every column as it was, plus ``added``
        (a column of the same name is replaced)."""
        if self.lazy:
            names = [name for name in column_names(self._frame) if name not in added]
            columns = [nw.col(KEPT + name).alias(name) for name in names]
            chosen = rows.select(*columns, *added)
            order = [name for name in column_names(self._frame) if name in added]
            every = column_names(self._frame) + [name for name in added if name not in order]
            return chosen.select(*every).to_native()
        table = self.collect(rows.select(ROW, *added))
        place = table.column(ROW).to_numpy()
        new = {name: table.column(name).cast(dtype) for name, dtype in added.items()}
        if isinstance(self._frame, pd.DataFrame):
            return _widen_pandas(self._frame, place, new)
        if isinstance(self._frame, pa.Table):
            return _widen_arrow(self._frame, place, new)
        return _to_polars(self._frame, _widen_arrow(_whole_arrow(self._frame), place, new))


@contextmanager
def engine_errors() -> Iterator[None]:
    """DuckDB's out-of-range as ``OverflowError``: a sum that 38 digits cannot hold."""
    try:
        yield
    except duckdb.OutOfRangeException as error:
        raise OverflowError(f"a sum exceeds 20 integer digits: {error}") from error


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Arrow to pandas, typed as the loaders do: money ``decimal``, times ``datetime64[ns, UTC]``,
    text ``string``; calendar days ``datetime64[ns]``."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=_pandas_type)
    for name, dtype in zip(table.schema.names, table.schema.types, strict=True):
        if pa.types.is_date(dtype):
            frame[name] = pd.to_datetime(frame[name]).astype("datetime64[ns]")
        elif frame.empty and pa.types.is_string(dtype):
            frame[name] = pd.array([], dtype=_STRING)  # Arrow's own cannot be merged when empty
    return frame


def _pandas_type(dtype: pa.DataType) -> Any:
    return _STRING if pa.types.is_string(dtype) else types_mapper(dtype)


def columns(**types: pa.DataType) -> pa.Schema:
    """The schema of a result."""
    return pa.schema(list(types.items()))


# ------------------------------------------------------------------------------- on the way in


def column_names(frame: object) -> list[str]:
    if isinstance(frame, duckdb.DuckDBPyRelation):
        return list(frame.columns)
    if isinstance(frame, pd.DataFrame):
        return [str(name) for name in frame.columns]
    if isinstance(frame, pa.Table):
        return list(frame.column_names)
    try:
        native = nw.from_native(cast("Any", frame))
    except TypeError:
        native = None
    if native is None or not native.implementation.is_polars():
        raise AnalysisError(
            f"a {type(frame).__module__}.{type(frame).__qualname__} is no frame for an analysis; "
            "give a pandas DataFrame, a pyarrow Table, a Polars frame or a DuckDB relation"
        )
    return list(native.collect_schema().names())


def _to_arrow(frame: object, want: Wanted, *, numbered: bool) -> pa.Table:
    want.check(column_names(frame))
    rows = frame if isinstance(frame, pd.DataFrame | pa.Table) else _whole_arrow(frame)
    names, height = column_names(rows), len(rows)
    columns: dict[str, Any] = {}
    for name, kind in {**want.columns, **want.optional}.items():
        if name in names:
            columns[name] = _typed(_arrow_column(rows, want.frame, name, kind), want, name, kind)
        else:
            columns[name] = pa.array([None] * height, _engine_type(kind))
    if numbered:
        columns[ROW] = pa.array(np.arange(height, dtype="int64"))
    return pa.table(columns)


def _whole_arrow(frame: object) -> pa.Table:
    native = nw.from_native(cast("Any", frame))
    eager = native.collect() if isinstance(native, nw.LazyFrame) else native
    return eager.to_arrow()


def _arrow_column(frame: pd.DataFrame | pa.Table, label: str, name: str, kind: Kind) -> Any:
    if isinstance(frame, pa.Table):
        return frame.column(name)
    series = frame[name]
    if series.dtype != object:
        return pa.array(series, from_pandas=True)
    if kind is TIME:
        raise AnalysisError(
            f"{label} column {name!r} holds Python objects; convert it with "
            "pd.to_datetime(…, utc=True)"
        )
    try:
        return pa.array(series, type=_engine_type(kind), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise AnalysisError(
            f"{label} column {name!r} does not hold {kind.value} throughout: {error}"
        ) from error


def _typed(column: Any, want: Wanted, name: str, kind: Kind) -> Any:
    found = column.type
    if pa.types.is_dictionary(found):
        column, found = column.cast(found.value_type), found.value_type
    if column.null_count == len(column):  # pandas calls an empty column float or object
        return pa.array([None] * len(column), _engine_type(kind))
    if not _acceptable(found, kind):
        raise AnalysisError(
            f"{want.frame} column {name!r} holds {found}; {kind.value} are needed"
            + ("" if kind is TEXT else ", never rounded or guessed")
        )
    try:
        if kind is TIME:
            return column.cast(TIME_TYPE).cast(pa.int64())
        return column.cast(_engine_type(kind))
    except pa.ArrowInvalid as error:
        raise AnalysisError(
            f"{want.frame} column {name!r} ({found}) does not fit: {error}"
        ) from error


def _acceptable(found: pa.DataType, kind: Kind) -> bool:
    if kind is TEXT:
        texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        return any(test(found) for test in texts)
    if kind is MONEY:
        return bool(pa.types.is_decimal(found) or pa.types.is_integer(found))
    return bool(pa.types.is_timestamp(found) and found.tz is not None)


def _engine_type(kind: Kind) -> pa.DataType:
    if kind is MONEY:
        return MONEY_TYPE
    return pa.string() if kind is TEXT else pa.int64()


def _narrow(relation: duckdb.DuckDBPyRelation, want: Wanted, keep: bool) -> duckdb.DuckDBPyRelation:
    want.check(relation.columns)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    columns = [
        f"{_narrowed(want.frame, name, types.get(name), kind)} AS {_quoted(name)}"
        for name, kind in {**want.columns, **want.optional}.items()
    ]
    if keep:
        columns += [f"{_quoted(name)} AS {_quoted(KEPT + name)}" for name in relation.columns]
    return relation.project(", ".join(columns))


def _narrowed(label: str, name: str, found: str | None, kind: Kind) -> str:
    """SQL for one column. A timestamp without zone is read as UTC: Parquet written elsewhere and
    older engines drop the zone of nanosecond columns."""
    sql = {TEXT: "VARCHAR", MONEY: "DECIMAL(38, 18)", TIME: "BIGINT"}[kind]
    if found is None:
        return f"CAST(NULL AS {sql})"
    fits = {
        TEXT: found.startswith(("VARCHAR", "ENUM", "UUID")),
        MONEY: found.startswith("DECIMAL") or "INT" in found,
        TIME: found.startswith("TIMESTAMP"),
    }
    if not fits[kind]:
        raise AnalysisError(f"{label} column {name!r} holds {found}; {kind.value} are needed")
    if kind is TIME:
        return f"epoch_ns({_quoted(name)})"
    return f"CAST({_quoted(name)} AS {sql})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# ------------------------------------------------------------------------------ on the way out


def _widen_pandas(
    frame: pd.DataFrame, place: np.ndarray[Any, Any], new: Mapping[str, Any]
) -> pd.DataFrame:
    result = frame.take(place).reset_index(drop=True)
    for name, values in new.items():
        column = to_pandas(pa.table({name: values}))[name]
        if name in frame.columns:
            before = frame[name].dtype
            if isinstance(before, pd.CategoricalDtype):
                both = before.categories.union(pd.Index(column.dropna().unique()), sort=False)
                before = pd.CategoricalDtype(both, ordered=before.ordered)
            column = column.astype(before)
        result[name] = column
    return result


def _widen_arrow(table: pa.Table, place: np.ndarray[Any, Any], new: Mapping[str, Any]) -> pa.Table:
    result = table.take(pa.array(place))
    for name, values in new.items():
        if name in result.column_names:
            position = result.column_names.index(name)
            before = result.schema.field(name).type
            if pa.types.is_dictionary(before):
                values = pc.dictionary_encode(values)
            result = result.set_column(position, name, values.cast(before))
        else:
            result = result.append_column(name, values)
    return result


def _to_polars(like: object, table: pa.Table) -> Any:
    native = nw.from_native(cast("Any", like))
    frame = nw.from_arrow(table, backend=native.implementation).to_native()
    return frame.lazy() if isinstance(native, nw.LazyFrame) else frame
