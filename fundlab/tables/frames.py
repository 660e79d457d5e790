"""Arrow tables → typed DataFrames, and back."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.decimals import types_mapper
from fundlab.errors import InvalidRequest
from fundlab.tables.schema import INSTANT_TYPE, TABLES, Column, Table, find_table

_TEXT: Final = pd.StringDtype("pyarrow")
_TABLE_NAME: Final = b"fundlab.table"


def to_frame(rows: pa.Table, table: Table | str | None = None) -> pd.DataFrame:
    """``rows`` as a typed DataFrame, the same types for no rows as for many.

    Columns are ``decimal``, ``datetime64[ns, UTC]``, ``category``, ``string``, ``boolean`` and
    ``Int64``.

    Enumerations are those of ``table``, by default the table named in the rows' own metadata;
    a category lists every value of the interface, then any other that occurs. Columns that the
    table does not have are typed by what they hold.
    """
    enums = _enums_of(rows, table)
    rows = _in_utc(rows)
    frame: pd.DataFrame = rows.to_pandas(types_mapper=_pandas_type)
    for name, members in enums.items():
        if name in frame.columns:
            frame[name] = _categories(rows.column(name), members)
    if frame.empty:
        for name in frame.columns[frame.dtypes == _TEXT]:
            # an empty column from Arrow has no chunk, and pandas 3.1 cannot merge two of those
            frame[name] = pd.array([], dtype=_TEXT)
    return frame


def to_arrow(frame: pd.DataFrame, table: Table | str) -> pa.Table:
    """``frame`` as an Arrow table of the schema of ``table``; columns it lacks are null.

    Raises ``InvalidRequest`` for a column the table does not have or a value it cannot hold.
    """
    table = find_table(table)
    strange = [str(name) for name in frame.columns if table.column(str(name)) is None]
    if strange:
        raise InvalidRequest(f"{table.name} has no column {', '.join(map(repr, strange))}")
    arrays = []
    for column in table.columns:
        if column.name in frame.columns:
            arrays.append(_arrow_column(frame[column.name], column))
        else:
            arrays.append(pa.nulls(len(frame), column.type))
    return pa.Table.from_arrays(arrays, schema=table.schema)


def _in_utc(rows: pa.Table) -> pa.Table:
    """Engines give UTC other names (``Etc/UTC``), which pandas takes for another type."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz not in (None, "UTC"):
            moments = rows.column(place).cast(INSTANT_TYPE)
            rows = rows.set_column(place, field.with_type(INSTANT_TYPE), moments)
    return rows


def _enums_of(rows: pa.Table, table: Table | str | None) -> dict[str, tuple[str, ...]]:
    if table is None:
        name = (rows.schema.metadata or {}).get(_TABLE_NAME, b"").decode()
        if name not in TABLES:
            return {}
        table = name
    return {column.name: column.members for column in find_table(table).of_kind("enum")}


def _pandas_type(arrow_type: pa.DataType) -> Any:
    if pa.types.is_decimal(arrow_type):
        return types_mapper(arrow_type)
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        return _TEXT
    if pa.types.is_boolean(arrow_type):
        return pd.BooleanDtype()
    if pa.types.is_int64(arrow_type):
        return pd.Int64Dtype()
    return None


def _categories(values: pa.ChunkedArray, members: tuple[str, ...]) -> Any:
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    met = set(values.unique().drop_null().to_pylist())
    unknown = sorted(met - set(members))
    categories = [*members, *unknown]
    codes = pc.index_in(values, value_set=pa.array(categories, pa.string()), skip_nulls=True)
    return pd.Categorical.from_codes(
        codes.fill_null(-1).to_numpy(), dtype=pd.CategoricalDtype(categories)
    )


def _arrow_column(values: pd.Series[Any], column: Column) -> pa.Array:
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(pd.StringDtype("pyarrow"))
    try:
        array = pa.array(values, from_pandas=True)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        return array.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidRequest(f"column {column.name!r} cannot be {column.type}: {error}") from None
