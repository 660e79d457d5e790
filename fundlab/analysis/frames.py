"""In-memory frames on their way to Arrow, checked, and back as the kind of frame they were."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final, cast

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.decimals import types_mapper
from fundlab.errors import AnalysisError

MONEY_TYPE: Final = pa.decimal128(38, 18)
TIME_TYPE: Final = pa.timestamp("ns", "UTC")
MOST: Final = Decimal((0, (1,), 20))
"""The first whole amount that ``MONEY_TYPE`` cannot hold."""
ROW: Final = "row_number"
"""The position of an in-memory row, kept beside the columns of an analysis."""
KEPT: Final = "kept:"
"""Prefix of a lazy frame's own columns while an analysis carries them along."""
_STRING: Final = pd.StringDtype("pyarrow")


class Kind(Enum):
    TEXT = "text"
    MONEY = "exact decimals"
    TIME = "timestamps with a time zone"
    JSON = "JSON text or mappings"


TEXT, MONEY, TIME, JSON = Kind.TEXT, Kind.MONEY, Kind.TIME, Kind.JSON


@dataclass(frozen=True)
class Wanted:
    """The columns an analysis needs of a frame; ``optional`` ones become nulls where absent."""

    frame: str
    columns: Mapping[str, Kind]
    optional: Mapping[str, Kind]

    def with_optional(self, optional: Mapping[str, Kind]) -> Wanted:
        return Wanted(self.frame, self.columns, {**self.optional, **optional})

    def check(self, present: Sequence[str]) -> None:
        """Raises :class:`AnalysisError` unless each column is there, and there once."""
        twice = [name for name in {**self.columns, **self.optional} if present.count(name) > 1]
        if twice:
            raise AnalysisError(
                f"{self.frame} has more than one column {twice[0]!r}; drop or rename the others"
            )
        missing = [name for name in self.columns if name not in present]
        if missing:
            raise AnalysisError(
                f"{self.frame} has no column {', '.join(map(repr, missing))}; needed are "
                f"{', '.join(self.columns)}, found are {', '.join(map(str, present)) or 'none'}"
            )


def wanted(frame: str, optional: Mapping[str, Kind] | None = None, /, **columns: Kind) -> Wanted:
    return Wanted(frame, columns, optional or {})


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
    if pa.types.is_int32(dtype):
        return pd.Int32Dtype()  # our counts are int64 and never missing; this one may be
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
    if native is None or not (
        native.implementation.is_polars() or native.implementation.is_pyspark()
    ):
        raise AnalysisError(
            f"a {type(frame).__module__}.{type(frame).__qualname__} is no frame for an analysis; "
            "give a pandas DataFrame, a pyarrow Table, a Polars, DuckDB or Spark frame"
        )
    return list(native.collect_schema().names())


def to_arrow(frame: object, want: Wanted, *, numbered: bool) -> pa.Table:
    want.check(column_names(frame))
    rows = frame if isinstance(frame, pd.DataFrame | pa.Table) else whole_arrow(frame)
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


def whole_arrow(frame: object) -> pa.Table:
    native = nw.from_native(cast("Any", frame))
    eager = native.collect() if isinstance(native, nw.LazyFrame) else native
    return eager.to_arrow()


def _arrow_column(frame: pd.DataFrame | pa.Table, label: str, name: str, kind: Kind) -> Any:
    if isinstance(frame, pa.Table):
        column = frame.column(name)
        nested = kind is JSON and pa.types.is_nested(column.type)
        return _json_texts(column.to_pylist()) if nested else column
    series = frame[name]
    if kind is JSON and series.dtype == object:
        return _json_texts(series.tolist())
    if series.dtype != object:
        return pa.array(series, from_pandas=True)
    if series.isna().all():  # pandas calls a column without values an object
        return pa.array([None] * len(series), _engine_type(kind))
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


def _json_texts(values: Sequence[object]) -> pa.Array:
    """Texts as they are, mappings as JSON; whatever pandas calls missing is missing."""
    texts = [
        value if isinstance(value, str)
        else json.dumps(value, default=str) if isinstance(value, Mapping | list)
        else None
        for value in values
    ]  # fmt: skip
    return pa.array(texts, pa.string())


def _typed(column: Any, want: Wanted, name: str, kind: Kind) -> Any:
    """``column`` as the engine takes it. Raises ``AnalysisError`` where that would lose a digit:
    Arrow's own cast to fewer integer digits may wrap around."""
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
        if kind is MONEY and pa.types.is_decimal(found) and found.precision - found.scale > 20:
            _refuse_large(column)
        return column.cast(_engine_type(kind))
    except pa.ArrowInvalid as error:
        raise AnalysisError(
            f"{want.frame} column {name!r} ({found}) does not fit: {error}"
        ) from error


def _refuse_large(column: Any) -> None:
    ends = pc.min_max(column).as_py()
    for value in (ends["min"], ends["max"]):
        if value.copy_abs() >= MOST:
            raise pa.ArrowInvalid(f"{value} has more than 20 integer digits")


def _acceptable(found: pa.DataType, kind: Kind) -> bool:
    if kind in (TEXT, JSON):
        texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        return any(test(found) for test in texts)
    if kind is MONEY:
        return bool(pa.types.is_decimal(found) or pa.types.is_integer(found))
    return bool(pa.types.is_timestamp(found) and found.tz is not None)


def _engine_type(kind: Kind) -> pa.DataType:
    if kind is MONEY:
        return MONEY_TYPE
    return pa.int64() if kind is TIME else pa.string()


# ------------------------------------------------------------------------------ on the way out


def widen_pandas(
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


def widen_arrow(table: pa.Table, place: np.ndarray[Any, Any], new: Mapping[str, Any]) -> pa.Table:
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


def to_polars(like: object, table: pa.Table) -> Any:
    native = nw.from_native(cast("Any", like))
    frame = nw.from_arrow(table, backend=native.implementation).to_native()
    return frame.lazy() if isinstance(native, nw.LazyFrame) else frame
