"""Money in motion: net flow by period and counterparty, conversions, halves, time, open items."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

import narwhals as nw
import pandas as pd
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
from fundlab.errors import AnalysisError
from fundlab.models import COMPLETED, INTERNAL_TYPES, TransferType
from fundlab.moments import moment_ns
from fundlab.transfers import Rows, moved_asset

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
_CONVERSIONS: Final = columns(
    profile_id=_TEXT,
    direction=_TEXT,
    from_asset=_TEXT,
    to_asset=_TEXT,
    count=pa.int64(),
    amount=MONEY_TYPE,
    total=MONEY_TYPE,
    first=TIME_TYPE,
    last=TIME_TYPE,
)
_AGEING: Final = columns(
    type=_TEXT, asset=_TEXT, age=_TEXT, count=pa.int64(), total=MONEY_TYPE, oldest=TIME_TYPE
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

    >>> fl.flows.net(transfers, freq="MS").drop(columns="period")
      profile_id asset  inflow  outflow  net
    0       main   USD    1000      285  715
    1      spare   USD      60        0   60
    """
    with Workbench(transfers) as bench:
        changes = counted.changes(bench, transfers, "ledger", by)
        groups = ["period", "profile_id", "asset"]
        flows = _in_and_out(with_period(bench, changes, freq, tz), groups)
        result: FrameT = bench.give(flows.sort(*groups), _NET)
        return result


def counterparties(transfers: FrameT, freq: str | None = None, tz: str = "UTC") -> FrameT:
    """(``period``,) ``profile_id``, ``kind``, ``counterparty``, ``asset``, ``count`` (int64),
    ``inflow``, ``outflow``, ``net`` (decimals), sorted, missing counterparties last: completed
    transfers by who is on the other side.

    ``kind`` is ``fiat_account`` (its id), ``address`` (the crypto destination), ``profile`` (the
    other half of an internal transfer) or ``unknown``, as for deposits: the interface does not say
    who sent them. ``freq`` as in :func:`net`. Raises :class:`AnalysisError` for missing columns and
    rows nobody can count. Interface §2.4.

    >>> found = fl.flows.counterparties(transfers)
    >>> found[["profile_id", "kind", "counterparty", "inflow", "outflow"]]
      profile_id          kind counterparty  inflow  outflow
    0       main  fiat_account         acme       0      225
    1       main       profile        spare       0       60
    2       main       unknown         <NA>    1000        0
    3      spare       profile         main      60        0
    """
    want = counted.transfer_columns("created_at", type=TEXT)
    names = ("fiat_account_id", "destination_address", "group_id")
    with Workbench(transfers) as bench:
        taken = bench.take(transfers, want.with_optional(dict.fromkeys(names, TEXT)))
        rows = counted.completed(bench, taken, "id", "profile_id", "asset", "total", "created_at")
        rows = _with_counterparty(rows).with_columns(at=nw.col("created_at"))
        groups = ["profile_id", "kind", "counterparty", "asset"]
        if freq is not None:
            rows, groups = with_period(bench, rows, freq, tz), ["period", *groups]
        sums = _in_and_out(rows, groups, count=nw.len().cast(nw.Int64))
        types = {name: TIME_TYPE if name == "period" else _TEXT for name in groups}
        schema = columns(
            **types, count=pa.int64(), inflow=MONEY_TYPE, outflow=MONEY_TYPE, net=MONEY_TYPE
        )
        result: FrameT = bench.give(sums.sort(*groups, nulls_last=True), schema)
        return result


def conversions(transfers: FrameT) -> FrameT:
    """``profile_id``, ``direction``, ``from_asset``, ``to_asset``, ``count`` (int64), ``amount``,
    ``total`` (decimals), ``first``, ``last``, sorted: completed transfers that a rule converted,
    that is whose ``balance_asset`` is not their ``asset``.

    ``amount`` is in the transfer's own asset, ``total`` in the one whose balance changed: for
    credits ``to_asset``, for debits ``from_asset``. Raises :class:`AnalysisError` for missing
    columns and rows nobody can count. Interface §2.4, §2.6.

    >>> bought = transfers[transfers["id"] == "t1"].assign(balance_asset="USDC")
    >>> fl.flows.conversions(bought).iloc[:, :6]
      profile_id direction from_asset to_asset  count  amount
    0       main    CREDIT        USD     USDC      1    1000
    """
    want = counted.transfer_columns("created_at", amount=MONEY)
    with Workbench(transfers) as bench:
        needed = ("profile_id", "asset", "amount", "total", "created_at")
        rows = counted.completed(bench, bench.take(transfers, want), *needed)
        credit = nw.when(nw.col("direction") == "CREDIT")
        found = (
            rows.filter(nw.col("balance_asset") != nw.col("asset"))
            .with_columns(
                from_asset=credit.then(nw.col("asset")).otherwise(nw.col("balance_asset")),
                to_asset=credit.then(nw.col("balance_asset")).otherwise(nw.col("asset")),
            )
            .group_by("profile_id", "direction", "from_asset", "to_asset")
            .agg(
                count=nw.len().cast(nw.Int64),
                amount=nw.col("amount").sum(),
                total=nw.col("total").sum(),
                first=nw.col("created_at").min(),
                last=nw.col("created_at").max(),
            )
        )
        order = ["profile_id", "direction", "from_asset", "to_asset"]
        result: FrameT = bench.give(found.sort(*order), _CONVERSIONS)
        return result


def ageing(
    transfers: FrameT, as_of: str | datetime, edges: Sequence[str] = ("1h", "1D", "3D", "7D")
) -> FrameT:
    """``type``, ``asset``, ``age``, ``count`` (int64), ``total`` (decimal), ``oldest`` (its
    ``created_at``), by type, asset and age, the youngest first: pending transfers at ``as_of``.

    ``age`` names the bracket, such as ``1D to 3D`` (the first included); ``edges`` are pandas
    timedeltas, ascending. Transfers made after ``as_of`` are left out. Raises
    :class:`AnalysisError` for edges that make no sense, missing columns and rows nobody can count.
    Interface §2.4, §3.3.

    >>> fl.flows.ageing(transfers, "2026-10-31")
                  type asset    age  count  total                    oldest
    0  WIRE_WITHDRAWAL   USD  7D on      1  100.5 2026-10-05 09:00:00+00:00
    """
    moment, steps = moment_ns(as_of, "as_of"), _edges(edges)
    names = [f"under {edges[0]}", *(f"{a} to {b}" for a, b in pairwise(edges)), f"{edges[-1]} on"]
    with Workbench(transfers) as bench:
        rows = bench.take(transfers, counted.transfer_columns("created_at", type=TEXT))
        pending = nw.col("status") == "PENDING"
        needed = ("type", "asset", "total", "created_at")
        counted.refuse(
            bench, rows, *counted.STATES, *(counted.gap(name, pending) for name in needed)
        )
        bracket: nw.Expr = nw.lit(0)
        for place, step in enumerate(steps, start=1):
            old = nw.when(moment - nw.col("created_at") >= step)
            bracket = old.then(nw.lit(place)).otherwise(bracket)
        labels = pa.table({"bracket": pa.array(range(len(names)), pa.int64()), "age": names})
        open_items = (
            rows.filter(pending, nw.col("created_at") <= moment)
            .with_columns(asset=moved_asset(), bracket=bracket.cast(nw.Int64))
            .group_by("type", "asset", "bracket")
            .agg(
                count=nw.len().cast(nw.Int64),
                total=nw.col("total").sum(),
                oldest=nw.col("created_at").min(),
            )
            .join(bench.constant(labels), on="bracket", how="inner")
        )
        result: FrameT = bench.give(open_items.sort("type", "asset", "bracket"), _AGEING)
        return result


def internal_pairs(transfers: FrameT) -> FrameT:
    """``group_id``, ``debit_id``, ``credit_id``, ``asset``, ``amount``, ``status``, sorted: the
    halves of internal transfers, matched by ``group_id`` (interface §2.4).

    ``status`` is ``paired``; ``mismatch`` where amount, asset or state of the halves differ;
    ``orphan_debit`` or ``orphan_credit`` where the other half, or a ``group_id``, is missing.
    Of several halves of one side the earliest is matched, the others are orphans.

    >>> fl.flows.internal_pairs(transfers)
      group_id debit_id credit_id asset  amount  status
    0       g1       t3        t4   USD      60  paired
    >>> fl.flows.internal_pairs(transfers[transfers["id"] != "t4"])["status"].tolist()
    ['orphan_debit']
    """
    want = counted.transfer_columns("created_at", type=TEXT, amount=MONEY, group_id=TEXT)
    with Workbench(transfers) as bench:
        taken = bench.take(transfers, want)
        counted.refuse(bench, taken, *counted.STATES)
        rows = taken.with_columns(
            asset=moved_asset(),
            state=nw.when(nw.col("status").is_in(COMPLETED))
            .then(nw.lit(COMPLETED[0]))
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

    Percentiles are interpolated linearly; those between times many days apart are good to about
    10 ns.

    >>> fl.flows.settlement_time(transfers)[["type", "count", "p50", "max"]]
                           type  count             p50             max
    0  INTERNAL_TRANSFER_CREDIT      1 0 days 00:30:00 0 days 00:30:00
    1   INTERNAL_TRANSFER_DEBIT      1 0 days 00:30:00 0 days 00:30:00
    2              WIRE_DEPOSIT      1 0 days 00:30:00 0 days 00:30:00
    3           WIRE_WITHDRAWAL      1 0 days 00:30:00 0 days 00:30:00
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


def _in_and_out(rows: Rows, groups: Sequence[str], **also: nw.Expr) -> Rows:
    credit = nw.when(nw.col("direction") == "CREDIT")
    told = rows.with_columns(
        inflow=credit.then(nw.col("total")).otherwise(counted.zero()),
        outflow=credit.then(counted.zero()).otherwise(nw.col("total")),
    )
    sums = told.group_by(*groups).agg(nw.col("inflow").sum(), nw.col("outflow").sum(), **also)
    return sums.with_columns(net=nw.col("inflow") - nw.col("outflow"))


def _with_counterparty(rows: Rows) -> Rows:
    sides = rows.filter(nw.col("type").is_in(INTERNAL_TYPES), ~nw.col("group_id").is_null())
    other = sides.group_by("group_id", "direction").agg(other=nw.col("profile_id").min())
    turned = nw.when(nw.col("direction") == "CREDIT").then(nw.lit("DEBIT"))
    other = other.with_columns(direction=turned.otherwise(nw.lit("CREDIT")))
    named = rows.with_columns(asset=moved_asset()).join(
        other, on=["group_id", "direction"], how="left"
    )
    known = nw.when(~nw.col("other").is_null()).then(nw.lit("profile"))
    fiat = nw.when(~nw.col("fiat_account_id").is_null()).then(nw.lit("fiat_account"))
    crypto = nw.when(~nw.col("destination_address").is_null()).then(nw.lit("address"))
    return named.with_columns(
        counterparty=nw.coalesce("other", "fiat_account_id", "destination_address"),
        kind=known.otherwise(fiat.otherwise(crypto.otherwise(nw.lit("unknown")))),
    )


def _edges(edges: Sequence[str]) -> list[int]:
    try:
        steps = [int(pd.Timedelta(edge).as_unit("ns").value) for edge in edges]
    except (ValueError, TypeError) as error:
        raise AnalysisError(f"edges={edges!r}: give timedeltas such as '1h', '3D'") from error
    if not steps or steps != sorted(set(steps)) or steps[0] <= 0:
        raise AnalysisError(f"edges={edges!r}: give ascending timedeltas above 0")
    return steps


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
