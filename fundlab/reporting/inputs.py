"""What a report is made from, as DuckDB relations: never all of it in memory at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pandas as pd
import pyarrow as pa
from duckdb import CaseExpression, ColumnExpression, ConstantExpression

from fundlab.analysis.engines import engine_errors, to_pandas
from fundlab.errors import AnalysisError
from fundlab.models import COMPLETED, INTERNAL_TYPES
from fundlab.store.duck import own_connection
from fundlab.tables import find_table, to_arrow

Relation = duckdb.DuckDBPyRelation

DAY: Final = 86_400_000_000_000
COMPLETE: Final = f"status IN {COMPLETED}"
INTERNAL: Final = f"type IN {INTERNAL_TYPES}"
ASSET: Final = "coalesce(balance_asset, asset)"


@dataclass(frozen=True)
class Span:
    """The nanoseconds from ``first`` (``None``: the beginning) to ``end``, which is excluded."""

    first: int | None
    end: int

    def of(self, rows: Relation) -> Relation:
        rows = rows.filter(f"epoch_ns(created_at) < {self.end}")
        return rows if self.first is None else rows.filter(f"epoch_ns(created_at) >= {self.first}")


def relation(frame: object, table: str) -> Relation:
    """``frame`` with every column of ``table``: a DataFrame, an Arrow table or a relation."""
    if isinstance(frame, duckdb.DuckDBPyRelation):
        return frame
    return own_connection().from_arrow(arrow_table(frame, table))


def arrow_table(frame: object, table: str) -> pa.Table:
    """A DataFrame or Arrow table with every column of ``table``, those it lacks missing."""
    if isinstance(frame, pd.DataFrame):
        known = [name for name in frame.columns if find_table(table).column(str(name))]
        frame = to_arrow(frame[known], table)
    if not isinstance(frame, pa.Table):
        raise AnalysisError(
            f"{table} is a {type(frame).__name__}; give a DataFrame, an Arrow table or a relation"
        )
    rows: pa.Table = frame
    for field in find_table(table).schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


def frame_of(rows: Any) -> pd.DataFrame:
    """A result as a DataFrame, money exact, durations as timedeltas."""
    with engine_errors():
        table = rows.to_arrow_table()
    for place, field in enumerate(table.schema):
        if pa.types.is_interval(field.type):
            lengths = [None if one is None else one.days * DAY + one.nanoseconds
                       for one in table.column(place).to_pylist()]  # fmt: skip
            table = table.set_column(place, field.name, pa.array(lengths, pa.duration("ns")))
    return to_pandas(table)


def named(rows: Relation, names: Collection[str], others: str) -> Relation:
    """``rows`` whose ``profile_id`` is one of ``names``, or ``others``."""
    profile = ColumnExpression("profile_id")
    if not names:
        return rows
    known = profile.isin(*(ConstantExpression(name) for name in names))
    renamed = CaseExpression(known, profile).otherwise(ConstantExpression(others))
    columns = [
        renamed.alias(name) if name == "profile_id" else ColumnExpression(name)
        for name in rows.columns
    ]
    return rows.select(*columns)


def moment(ns: int) -> pd.Timestamp:
    return pd.Timestamp(ns, unit="ns", tz="UTC")


def count(rows: Relation) -> int:
    with engine_errors():  # to count violations is to compute them
        return int(rows.aggregate("count(*)").fetchall()[0][0])
