"""The order of rows, and which of several with the same key counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.tables.schema import Table


def moment_column(table: Table) -> str:
    """The column that places a row in time."""
    return "created_at" if "created_at" in table.schema.names else "observed_at"


def order_columns(table: Table) -> list[str]:
    """The columns that rows are ordered by: their moment, then their key."""
    moment = moment_column(table)
    return [moment, *(name for name in table.key if name != moment)]


def in_order(rows: pa.Table, table: Table) -> pa.Table:
    """``rows`` by their moment, ties by key: the order of every frame, whoever wrote the rows."""
    keys = order_columns(table)
    order = pc.sort_indices(rows.select(keys), sort_keys=[(name, "ascending") for name in keys])
    places = order.to_numpy()
    moved = np.flatnonzero(places != np.arange(rows.num_rows))
    if not len(moved):
        return rows
    first = int(moved[0])  # most often few are not in order, the last: only what is taken is copied
    late = rows.slice(first).take(pa.array(places[first:] - first))
    return pa.concat_tables([rows.slice(0, first), late])


def distinct(rows: pa.Table, table: Table) -> pa.Table:
    """``rows`` without repeated keys: of those the newest ``updated_at``, else the last one."""
    if table.key != ("id",) or pc.count_distinct(rows.column("id")).as_py() == rows.num_rows:
        return rows
    position = pa.array(np.arange(rows.num_rows))
    keyed = pa.table({"id": rows.column("id"), "position": position})
    if "updated_at" in rows.column_names:
        moments = rows.column("updated_at").cast(pa.int64()).fill_null(np.iinfo(np.int64).min)
        order = pc.sort_indices(
            pa.table({"moment": moments, "position": position}),
            sort_keys=[("moment", "ascending"), ("position", "ascending")],
        )
        rank = np.empty(rows.num_rows, dtype=np.int64)
        rank[order.to_numpy()] = np.arange(rows.num_rows)
        keyed = keyed.append_column("rank", pa.array(rank))
        best = keyed.group_by("id").aggregate([("rank", "max")]).column("rank_max").to_numpy()
        chosen = order.to_numpy()[best]
    else:
        chosen = keyed.group_by("id").aggregate([("position", "max")]).column(1).to_numpy()
    return rows.take(pa.array(np.sort(chosen)))
