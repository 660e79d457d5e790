"""What a report is made from, as DuckDB relations: never all of it in memory at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb
import narwhals as nw
import pandas as pd
import pyarrow as pa
from duckdb import CaseExpression, ColumnExpression, ConstantExpression

from fundlab.analysis.engines import engine_errors, relations_of, to_pandas
from fundlab.base.arrow import with_durations
from fundlab.base.errors import AnalysisError, a_type
from fundlab.models import COMPLETED, INTERNAL_TYPES
from fundlab.store.duck import own_connection
from fundlab.store.scan import hold_in_duckdb
from fundlab.store.settlement_times import FAILED_AT, failures
from fundlab.store.snapshot import Snapshot, steadily
from fundlab.tables import find_table, to_arrow
from fundlab.tables.schema import INSTANT_TYPE
from fundlab.tables.transfers import SETTLED_AT, Basis, placed_at

if TYPE_CHECKING:
    from fundlab.evidence.table_store import TableStore
    from fundlab.evidence.verdict import Judgement

Relation = duckdb.DuckDBPyRelation

DAY: Final = 86_400_000_000_000
COMPLETE: Final = f"status IN {COMPLETED}"
INTERNAL: Final = f"type IN {INTERNAL_TYPES}"
PLACED: Final = "placed_at"
ASSET: Final = "coalesce(balance_asset, asset)"
HELD: Final = (
    "id", "ref_id", "profile_id", "asset", "balance_asset", "direction", "type", "status", "amount",
    "fee", "total", "created_at", "updated_at",
)  # fmt: skip
"""What a close and its pack are made of."""
SHOWN: Final = (
    *HELD, "fiat_account_id", "crypto_network", "destination_address", "notional_value", "group_id",
    "auto_conversion",
)  # fmt: skip
"""What a report is made of."""


@dataclass(frozen=True)
class Span:
    """The nanoseconds from ``first`` (``None``: the beginning) to ``end``, which is excluded."""

    first: int | None
    end: int

    def of(self, rows: Relation, at: str = "created_at") -> Relation:
        from_first = "" if self.first is None else f" AND epoch_ns({at}) >= {self.first}"
        return rows.filter(f"epoch_ns({at}) < {self.end}{from_first}")


class Held:
    """The current transfers of a store, read into memory when they are first asked for, once for
    all questions; ``at`` may name a ``pin``. Each page's checksum is verified."""

    def __init__(self, store: TableStore, basis: Basis, **at: Any) -> None:
        self._store, self._basis, self._at = store, basis, at

    def __getstate__(self) -> dict[str, Any]:
        """A copy reads the rows for itself."""
        return {name: value for name, value in vars(self).items() if name != "_rows"}

    def with_failures(self, rows: Relation, span: Span) -> Relation:
        """:func:`with_failures` of ``rows``, which are those :meth:`asked`."""
        connection, _ = self._rows
        return steadily(
            lambda: with_failures(
                rows, span, self._store.current("transfers", **self._at), connection
            )
        )

    def forget(self) -> None:
        """Give their memory back: who asks again reads them again."""
        if (held := vars(self).pop("_rows", None)) is not None:
            held[0].close()

    def keep_to(self, pin: str) -> None:
        """Who reads the rows again finds those of ``pin``, whatever the store has learned since."""
        self._at = {"pin": pin}

    @contextmanager
    def asked(self) -> Iterator[Relation]:
        """The rows, for analyses within; on the created basis they do not say when they settled."""
        with engine_errors():
            connection, rows = self._rows
            with relations_of(connection):
                yield rows if self._basis == "settled" else rows.project(", ".join(HELD))

    @cached_property
    def _rows(self) -> tuple[duckdb.DuckDBPyConnection, Relation]:
        def read() -> tuple[duckdb.DuckDBPyConnection, Relation]:
            manifest, connection = self._store.manifest(), own_connection()
            transfers = self._store.current("transfers", manifest=manifest, **self._at)
            events = self._store.snapshot("events", manifest=manifest, **self._at)
            return connection, hold_in_duckdb(transfers, events, HELD, connection)

        return steadily(read)


def with_failures(
    rows: Relation, span: Span, transfers: Snapshot, connection: duckdb.DuckDBPyConnection
) -> Relation:
    """``rows``, current ones of ``transfers``, with :data:`FAILED_AT` where some of them failed
    that were made until ``span`` ends and last changed after it began, by whatever."""
    late = (
        Span(None, span.end)
        .of(rows)
        .filter(f"status = 'FAILED' AND coalesce(epoch_ns(updated_at) >= {span.first}, TRUE)")
    )
    ids = late.project("id").to_arrow_table().column("id").drop_null().combine_chunks()
    if not len(ids):
        return rows
    failed = connection.from_arrow(failures(transfers, ids)).project(
        f"id AS failed_id, {FAILED_AT}"
    )
    beside = rows.set_alias("rows").join(failed, "rows.id = failed_id", "left")
    at = f"CASE WHEN failed_id IS NULL THEN updated_at ELSE {FAILED_AT} END AS {FAILED_AT}"
    return beside.project(", ".join([*rows.columns, at]))


def failed_at(rows: Relation) -> str:
    """The column that says when each of ``rows`` that failed did, as far as that is known."""
    return FAILED_AT if FAILED_AT in rows.columns else "updated_at"


class Seen(NamedTuple):
    """What a close was made of."""

    judgement: Judgement
    rows: Held


def relation(frame: object, table: str) -> Relation:
    """``frame`` with every column of ``table``: a DataFrame, an Arrow table or a relation."""
    if isinstance(frame, duckdb.DuckDBPyRelation):
        return frame
    return own_connection().from_arrow(arrow_table(frame, table))


def arrow_table(frame: object, table: str) -> pa.Table:
    """A DataFrame or Arrow table with every column of ``table``, those it lacks missing."""
    if isinstance(frame, pd.DataFrame):
        given, known = frame, [n for n in frame.columns if find_table(table).column(str(n))]
        columns = to_arrow(given[known], table)
        if SETTLED_AT in given.columns:
            settled = pa.array(given[SETTLED_AT], INSTANT_TYPE, from_pandas=True)
            columns = columns.append_column(SETTLED_AT, settled)
        frame = columns
    if not isinstance(frame, pa.Table):
        raise AnalysisError(
            f"{table} is {a_type(frame)}; give a DataFrame, an Arrow table or a relation"
        )
    rows: pa.Table = frame
    for field in find_table(table).schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


def frame_of(rows: Any) -> pd.DataFrame:
    """A result as a DataFrame, money exact, durations as timedeltas."""
    with engine_errors():
        return to_pandas(with_durations(rows.to_arrow_table()))


def placed(rows: Relation, basis: Basis) -> Relation:
    """``rows`` with the column :data:`PLACED`: when each belongs to a period."""
    if basis == "settled" and SETTLED_AT not in rows.columns:
        raise AnalysisError(
            "transfers has no column 'settled_at', which basis='settled' needs; read them with "
            "store.read('transfers', settled=True)"
        )
    with_moment = nw.from_native(rows).with_columns(placed_at(basis).alias(PLACED))
    return with_moment.to_native()


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


def check_begun(period: str, first: int, known_until: int) -> None:
    """Raises ``AnalysisError`` for a period of which nothing can be known yet."""
    if first > known_until:
        start, end = (f"{moment(ns):%Y-%m-%dT%H:%M:%SZ}" for ns in (first, known_until))
        raise AnalysisError(
            f"period={period!r} has not begun: it starts at {start}, and what is known ends at "
            f"{end}; give an earlier period, or sync the store first"
        )


def check_known(period: str, first: int, end: int, known_until: int, judgement: Judgement) -> None:
    """:func:`check_begun`; and raises ``AnalysisError`` for a period that is over before the store
    begins."""
    check_begun(period, first, known_until)
    if judgement.since is not None and judgement.since.value >= end:
        raise AnalysisError(
            f"period={period!r} is over before the store begins, at "
            f"{judgement.since:%Y-%m-%d %H:%M} UTC; give a later period, or run 'fundlab sync "
            "--full' first"
        )
