"""Money in motion: net flow by period, halves of internal transfers, time to settle."""

from __future__ import annotations

from typing import Final

import narwhals as nw
import pyarrow as pa

from fundlab.analysis import rows as counted
from fundlab.analysis.engines import (
    MONEY,
    MONEY_TYPE,
    TEXT,
    TIME,
    TIME_TYPE,
    FrameT,
    Workbench,
    columns,
)
from fundlab.analysis.periods import with_period
from fundlab.analysis.rows import Rows
from fundlab.models import TransferType

_TEXT: Final = pa.string()
_NET: Final = columns(
    period=TIME_TYPE,
    profile_id=_TEXT,
    asset=_TEXT,
    inflow=MONEY_TYPE,
    outflow=MONEY_TYPE,
    net=MONEY_TYPE,
)
_PAIRS: Final = columns(
    group_id=_TEXT,
    debit_id=_TEXT,
    credit_id=_TEXT,
    asset=_TEXT,
    amount=MONEY_TYPE,
    status=_TEXT,
)
_PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_SETTLEMENT: Final = columns(
    type=_TEXT,
    count=pa.int64(),
    **{name: pa.duration("ns") for name in (*_PERCENTILES, "max")},
)


def net(transfers: FrameT, freq: str = "D", tz: str = "UTC", by: str = "created_at") -> FrameT:
    """``period``, ``profile_id``, ``asset``, ``inflow``, ``outflow``, ``net``, sorted: what
    completed transfers brought and took; both flows are unsigned, ``net`` is their difference.

    One row where something moved. ``period`` is labelled as pandas' ``Grouper(freq=freq)`` does,
    in the zone ``tz``, as an instant in UTC. Interface §2.4.
    """
    with Workbench(transfers) as bench:
        changes = counted.changes(bench, transfers, "ledger", by)
        credit = nw.when(nw.col("direction") == "CREDIT")
        flows = (
            with_period(bench, changes, freq, tz)
            .with_columns(
                inflow=credit.then(nw.col("total")).otherwise(counted.zero()),
                outflow=credit.then(counted.zero()).otherwise(nw.col("total")),
            )
            .group_by("period", "profile_id", "asset")
            .agg(nw.col("inflow").sum(), nw.col("outflow").sum())
            .with_columns(net=nw.col("inflow") - nw.col("outflow"))
        )
        result: FrameT = bench.give(flows.sort("period", "profile_id", "asset"), _NET)
        return result


def internal_pairs(transfers: FrameT) -> FrameT:
    """``group_id``, ``debit_id``, ``credit_id``, ``asset``, ``amount``, ``status``, sorted: the
    halves of internal transfers, matched by ``group_id`` (interface §2.4).

    ``status`` is ``paired``; ``mismatch`` where amount, asset or state of the halves differ;
    ``orphan_debit`` or ``orphan_credit`` where the other half, or a ``group_id``, is missing.
    Of several halves of one side the earliest is matched, the others are orphans.
    """
    want = counted.transfer_columns("created_at", type=TEXT, amount=MONEY, group_id=TEXT)
    with Workbench(transfers) as bench:
        taken = bench.take(transfers, want)
        counted.refuse(bench, taken, *counted.STATES)
        rows = taken.with_columns(
            asset=counted.moved_asset(),
            state=nw.when(nw.col("status").is_in(counted.COMPLETED))
            .then(nw.lit(counted.COMPLETED[0]))
            .otherwise(nw.col("status")),
        )
        debits = _halves(rows, TransferType.INTERNAL_TRANSFER_DEBIT)
        credits_ = _halves(rows, TransferType.INTERNAL_TRANSFER_CREDIT)
        both = debits.join(credits_, on=["group", "turn"], how="full", suffix="_credit")
        pairs = both.select(
            nw.coalesce("group_id", "group_id_credit").alias("group_id"),
            nw.col("id").alias("debit_id"),
            nw.col("id_credit").alias("credit_id"),
            nw.coalesce("asset", "asset_credit").alias("asset"),
            nw.coalesce("amount", "amount_credit").alias("amount"),
            status=_pair_status(),
        )
        order = ["group_id", "debit_id", "credit_id"]
        result: FrameT = bench.give(pairs.sort(*order, nulls_last=True), _PAIRS)
        return result


def settlement_time(transfers: FrameT) -> FrameT:
    """``type``, ``count``, ``p50``, ``p90``, ``p99``, ``max``, sorted by type: from
    ``created_at`` to ``updated_at`` of completed transfers, as timedeltas.

    Percentiles are interpolated linearly; times beyond 104 days are good to about 10 ns.
    """
    want = counted.transfer_columns("created_at", type=TEXT, updated_at=TIME)
    with Workbench(transfers) as bench:
        needed = ("created_at", "updated_at", "type")
        rows = counted.completed(bench, bench.take(transfers, want), *needed)
        took = nw.col("took")
        measured = (
            rows.with_columns(took=nw.col("updated_at") - nw.col("created_at"))
            .group_by("type")
            .agg(
                count=nw.len().cast(nw.Int64),
                max=took.max(),
                **{
                    name: took.quantile(share, interpolation="linear")
                    for name, share in _PERCENTILES.items()
                },
            )
            .with_columns(nw.col(*_PERCENTILES).round(0).cast(nw.Int64))
        )
        table = bench.collect(measured.sort("type").select(*_SETTLEMENT.names))
        result: FrameT = bench.give_table(table.cast(_SETTLEMENT))
        return result


def _halves(rows: Rows, kind: TransferType) -> Rows:
    """One side, numbered within its group; a row without ``group_id`` is a group of its own."""
    alone = nw.concat_str([nw.lit("id "), nw.col("id")])
    named = nw.concat_str([nw.lit("group "), nw.col("group_id")])
    side = rows.filter(nw.col("type") == kind.value).with_columns(
        group=nw.coalesce(named, alone), one=nw.lit(1)
    )
    turn = nw.col("one").cum_sum().over("group", order_by=["created_at", "id"])
    kept = ["group", "turn", "group_id", "id", "asset", "amount", "state"]
    return side.with_columns(turn=turn).select(*kept)


def _pair_status() -> nw.Expr:
    same = (
        (nw.col("amount") == nw.col("amount_credit"))
        & (nw.col("asset") == nw.col("asset_credit"))
        & (nw.col("state") == nw.col("state_credit"))
    )
    matched = nw.when(same).then(nw.lit("paired")).otherwise(nw.lit("mismatch"))
    no_debit = nw.when(nw.col("id").is_null()).then(nw.lit("orphan_credit")).otherwise(matched)
    no_credit = nw.when(nw.col("id_credit").is_null()).then(nw.lit("orphan_debit"))
    return no_credit.otherwise(no_debit)
