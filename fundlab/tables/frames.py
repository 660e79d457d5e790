"""Arrow tables → typed DataFrames, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.errors import InvalidRequest
from fundlab.tables.schema import INSTANT_TYPE, TABLES, Table, find_table, parse_instants

if TYPE_CHECKING:
    import pandas as pd

_TABLE_NAME: Final = b"fundlab.table"


def to_frame(rows: pa.Table, table: Table | str | None = None) -> pd.DataFrame:
    """``rows`` as a typed DataFrame, the same types for no rows as for many.

    Columns are ``decimal``, ``datetime64[ns, UTC]``, ``category``, ``string``, ``boolean`` and
    ``Int64``.

    Enumerations are those of ``table``, by default the table named in the rows' own metadata;
    a category lists every value of the interface, then any other that occurs. Columns that the
    table does not have are typed by what they hold.
    """
    import pandas as pd

    from fundlab.decimals import types_mapper

    text = pd.StringDtype("pyarrow")
    types = {
        pa.string(): text,
        pa.large_string(): text,
        pa.bool_(): pd.BooleanDtype(),
        pa.int64(): pd.Int64Dtype(),
    }
    if table is None:
        named = (rows.schema.metadata or {}).get(_TABLE_NAME, b"").decode()
        table = TABLES.get(named)
    for position, field in enumerate(rows.schema):
        # engines give UTC other names (Etc/UTC), which pandas takes for another type
        if pa.types.is_timestamp(field.type) and field.type.tz not in (None, "UTC"):
            moments = rows.column(position).cast(INSTANT_TYPE)
            rows = rows.set_column(position, field.with_type(INSTANT_TYPE), moments)
    frame: pd.DataFrame = rows.to_pandas(
        types_mapper=lambda type_: types_mapper(type_) or types.get(type_)
    )
    for column in () if table is None else find_table(table).of_kind("enum"):
        if column.name not in frame.columns:
            continue
        values = rows.column(column.name)
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        met = set(values.unique().to_pylist()) - {None}
        categories = [*column.members, *sorted(met - {*column.members})]
        chunks = values.unify_dictionaries().chunks
        texts = chunks[0].dictionary.cast(pa.string()) if chunks else pa.array([], pa.string())
        places = pc.index_in(texts, value_set=pa.array(categories, pa.string()))
        # the category of each text, and at last that of none
        place_of = np.append(places.fill_null(-1).to_numpy(), -1).astype(np.int32)
        given = [chunk.indices.cast(pa.int32()).fill_null(len(texts)) for chunk in chunks]
        codes = np.concatenate([np.empty(0, np.int32), *(place_of[one] for one in given)])
        frame[column.name] = pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(categories))
    if frame.empty:
        for name in frame.columns[frame.dtypes == text]:
            # an empty column from Arrow has no chunk, and pandas 3.1 cannot merge two of those
            frame[name] = pd.array([], dtype=text)
    return frame


def to_arrow(frame: pd.DataFrame, table: Table | str) -> pa.Table:
    """``frame`` as an Arrow table of the schema of ``table``; columns it lacks are null.

    Raises ``InvalidRequest`` for a column the table does not have or a value it cannot hold.
    """
    import pandas as pd

    table = find_table(table)
    strange = [str(name) for name in frame.columns if table.column(str(name)) is None]
    if strange:
        raise InvalidRequest(f"{table.name} has no column {', '.join(map(repr, strange))}")
    arrays = []
    for column in table.columns:
        if column.name not in frame.columns:
            arrays.append(pa.nulls(len(frame), column.type))
            continue
        values = frame[column.name]
        if isinstance(values.dtype, pd.CategoricalDtype):
            values = values.astype(pd.StringDtype("pyarrow"))
        try:
            array = pa.array(values)
            if isinstance(array, pa.ChunkedArray):
                array = array.combine_chunks()
            texts = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
            parsed = texts and column.kind == "instant"
            arrays.append(parse_instants(array) if parsed else array.cast(column.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise InvalidRequest(
                f"column {column.name!r} cannot be {column.type}: {error}"
            ) from None
    return pa.Table.from_arrays(arrays, schema=table.schema)
