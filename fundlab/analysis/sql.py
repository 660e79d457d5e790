"""SQL over frames: DuckDB computes, and typed frames come back."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.errors import InvalidRequest, first_line
from fundlab.store.duck import own_connection
from fundlab.tables import AMOUNT_TYPE, to_frame


def sql(query: str, **frames: Any) -> pd.DataFrame:
    """The rows of a DuckDB query over ``frames``, each a table of the name it is given by.

    Frames are pandas, Arrow or Polars frames, and what ``store.scan`` gives. Amounts are
    ``DECIMAL(38, 18)`` in the query, and ``decimal`` in the result; moments are
    ``datetime64[ns, UTC]``, dates ``datetime64[ns]``, whole numbers ``Int64``, other columns
    ``string`` and ``boolean``. Sums, differences and products by whole numbers are exact; DuckDB's
    own ``/`` and ``avg`` give floats, which stay ``float64``: divide in the frame. Its plain
    ``duckdb.sql(query).df()`` makes floats of all amounts. Moments have nanoseconds, but DuckDB's
    functions of time take microseconds: ``date_trunc('day', created_at::timestamptz)``.

    Each call has a database of its own, so that no name outlives it, and variables of the notebook
    are no tables. Raises ``InvalidRequest`` for a query that fails or gives no rows, for whole
    numbers beyond 64 bits, and for decimals beyond 20 integer or 18 fractional digits.

    >>> fl.sql("select asset, sum(amount) as total from t group by asset", t=transfers)
      asset  total
    0   USD  1395.5
    """
    with own_connection() as connection:
        connection.execute("SET python_enable_replacements = false")
        try:
            for name, frame in frames.items():
                relation = isinstance(frame, duckdb.DuckDBPyRelation)  # of another connection
                connection.register(name, pa.table(frame) if relation else frame)
            result = connection.sql(query)
            if result is None:
                raise InvalidRequest("the query gives no rows: expected a SELECT over the frames")
            rows, types = result.to_arrow_table(), list(map(str, result.types))
        except duckdb.Error as error:
            given, hint = ", ".join(frames) or "none", ""
            if "TIMESTAMPTZ_NS" in str(error):
                hint = (
                    "; DuckDB computes with moments of microseconds: write created_at::timestamptz"
                )
            raise InvalidRequest(
                f"the query failed: {first_line(error)} (frames given by name: {given}; "
                f"give another as fl.sql(query, NAME=frame)){hint}"
            ) from error
    for position, (field, kind) in enumerate(zip(rows.schema, types, strict=True)):
        target = field.type
        if kind == "UHUGEINT":  # whose first bit Arrow takes for a sign
            raise InvalidRequest(
                f"column {field.name!r} ({kind}) does not fit int64; cast it in the query, to "
                "VARCHAR for all digits"
            )
        if kind == "HUGEINT":  # as sums of whole numbers are
            target = pa.int64()
        elif kind == "DATE":
            target = pa.timestamp("ns")
        elif pa.types.is_timestamp(target):
            target = pa.timestamp("ns", target.tz and "UTC")
        elif pa.types.is_integer(target):
            target = pa.int64()
        elif pa.types.is_decimal(target):
            target = AMOUNT_TYPE
        try:
            column = pc.cast(rows.column(position), target)
        except pa.ArrowInvalid as error:
            raise InvalidRequest(
                f"column {field.name!r} ({kind}) does not fit {target}: {first_line(error)}; "
                "cast it in the query, to VARCHAR for all digits"
            ) from error
        rows = rows.set_column(position, field.with_type(target), column)
    return to_frame(rows)
