"""Money in motion: net flow by period and counterparty, conversions, halves, time, open items."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, cast

import narwhals as nw
import pyarrow as pa

from fundlab.analysis.counting import (
    check_reaches,
    completed,
    moment_of,
    refuse,
    refuse_repeated,
    signed_changes,
    transfer_columns,
)
from fundlab.analysis.engines import (
    MONEY,
    TEXT,
    TEXT_TYPE,
    TIME,
    TIME_TYPE,
    FrameT,
    Wanted,
    Workbench,
    columns,
    is_store,
)
from fundlab.analysis.periods import length_ns, with_period
from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import AnalysisError
from fundlab.base.values import moment_ns
from fundlab.models import COMPLETED, TransferType
from fundlab.tables.transfers import (
    SETTLED_AT,
    Basis,
    Rows,
    filled,
    inflow,
    is_half,
    moved_asset,
    outflow,
)

__all__ = [
    "ageing",
    "conversions",
    "counterparties",
    "internal_pairs",
    "net",
    "settlement_time",
]
__dir__ = __all__.copy  # what completion offers

_FLOWS: Final = columns(("inflow outflow net", AMOUNT_TYPE))
_PAIRS: Final = columns(
    ("group_id debit_id credit_id asset", TEXT_TYPE), ("amount", AMOUNT_TYPE), ("status", TEXT_TYPE)
)
_INSTRUCTIONS: Final = Wanted("instructions", {"id": TEXT, "memo_id": TEXT})
_MEMOS: Final = columns(("memo direction instructions_id", TEXT_TYPE))
_CONVERSIONS: Final = columns(
    ("profile_id direction from_asset to_asset", TEXT_TYPE),
    ("count", pa.int64()),
    ("amount total", AMOUNT_TYPE),
    ("first last", TIME_TYPE),
)
_AGEING: Final = columns(
    ("type asset age", TEXT_TYPE),
    ("count", pa.int64()),
    ("total", AMOUNT_TYPE),
    ("oldest", TIME_TYPE),
)
_PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_SETTLEMENT: Final = columns(
    ("type", TEXT_TYPE),
    ("count", pa.int64()),
    *dict.fromkeys((*_PERCENTILES, "max"), pa.duration("ns")).items(),
)


def net(
    transfers: FrameT,
    freq: str = "D",
    tz: str = "UTC",
    by: str = "created_at",
    basis: Basis | None = None,
) -> FrameT:
    """``period``, ``profile_id``, ``asset``, ``inflow``, ``outflow``, ``net``, sorted: what
    completed transfers brought and took; both flows are unsigned, ``net`` is their difference.

    One row where something moved. ``period`` is labelled as pandas' ``Grouper(freq=freq)`` does,
    in the zone ``tz``, as an instant in UTC. ``basis`` as in ``balances.changes``.

    >>> fl.flows.net(transfers, freq="MS").drop(columns="period")
      profile_id asset  inflow  outflow  net
    0       main   USD    1000      285  715
    1      spare   USD      60        0   60
    """
    by = moment_of(basis, by)
    with Workbench(transfers, by) as bench:
        rows, span = signed_changes(bench, transfers, "ledger", by)
        groups = ["period", "profile_id", "asset"]
        flows = _in_and_out(with_period(bench, rows, freq, tz, span), groups)
        types = {"period": TIME_TYPE, "profile_id": TEXT_TYPE, "asset": TEXT_TYPE}
        return bench.give(flows.sort(*groups), pa.schema([*types.items(), *_FLOWS]))


def counterparties(
    transfers: FrameT,
    freq: str | None = None,
    tz: str = "UTC",
    basis: Basis = "created",
    instructions: object = None,
) -> FrameT:
    """(``period``,) ``profile_id``, ``kind``, ``counterparty``, ``asset``, ``count`` (int64),
    ``inflow``, ``outflow``, ``net`` (decimals), sorted, missing counterparties last: completed
    transfers by who is on the other side.

    ``kind`` is ``fiat_account`` (its id), ``address`` (the crypto destination), ``profile`` (the
    other half of an internal transfer), ``instructions`` or ``unknown``: the interface does not say
    who sent a deposit, but the memo it quotes is one of the deposit ``instructions``, which are
    ``store.read("deposit_instructions")`` and come with a ``Store``. ``freq`` and ``basis`` as in
    :func:`net`. Raises :class:`AnalysisError` for missing columns, invalid rows, and a memo of two
    instructions.

    >>> found = fl.flows.counterparties(transfers)
    >>> found[["profile_id", "kind", "counterparty", "inflow", "outflow"]]
      profile_id          kind counterparty  inflow  outflow
    0       main  fiat_account         acme       0      225
    1       main       profile        spare       0       60
    2       main       unknown         <NA>    1000        0
    3      spare       profile         main      60        0
    """
    optional = ("fiat_account_id", "destination_address", "group_id", "memo")
    by = moment_of(basis)
    if instructions is None and is_store(transfers):
        instructions = cast("Any", transfers).read_arrow("deposit_instructions")
    want = transfer_columns(by, optional, type=TEXT)
    with Workbench(transfers, by) as bench:
        needed = ("id", "profile_id", "asset", "total", by)
        rows = completed(bench, transfers, want, *needed)
        # Of a deposit the instructions whose memo it quotes.
        memos = bench.constant(_MEMOS.empty_table())
        if instructions is not None:
            named = bench.take(instructions, _INSTRUCTIONS).filter(nw.col("memo_id") != "")
            refuse_repeated(bench, named, "instructions", "memo_id")
            memos = named.select(
                nw.lit("CREDIT").alias("direction"), memo="memo_id", instructions_id="id"
            )
        # Of a half of an internal transfer the other half's profile.
        halves = rows.filter(is_half())
        turned = nw.when(nw.col("direction") == "CREDIT").then(nw.lit("DEBIT"))
        others = (
            halves.group_by("group_id", "direction")
            .agg(other=nw.col("profile_id").min())
            .with_columns(direction=turned.otherwise(nw.lit("CREDIT")))
        )
        profile = nw.when(~nw.col("other").is_null()).then(nw.lit("profile"))
        fiat = nw.when(~filled("fiat_account_id").is_null()).then(nw.lit("fiat_account"))
        crypto = nw.when(~filled("destination_address").is_null()).then(nw.lit("address"))
        quoted = nw.when(~nw.col("instructions_id").is_null()).then(nw.lit("instructions"))
        known = crypto.otherwise(quoted.otherwise(nw.lit("unknown")))
        rows = (
            rows.join(others, on=["group_id", "direction"], how="left")
            .join(memos, on=["memo", "direction"], how="left")
            .with_columns(
                asset=moved_asset(),
                at=nw.col(by),
                counterparty=filled(
                    "other", "fiat_account_id", "destination_address", "instructions_id"
                ),
                kind=profile.otherwise(fiat.otherwise(known)),
            )
        )
        groups = ["profile_id", "kind", "counterparty", "asset"]
        types = dict.fromkeys(groups, TEXT_TYPE)
        if freq is not None:
            rows, groups = with_period(bench, rows, freq, tz), ["period", *groups]
            types = {"period": TIME_TYPE, **types}
        flows = _in_and_out(rows, groups, count=nw.len().cast(nw.Int64))
        schema = pa.schema([*types.items(), ("count", pa.int64()), *_FLOWS])
        return bench.give(flows.sort(*groups, nulls_last=True), schema)


def _in_and_out(rows: Rows, groups: Sequence[str], **also: nw.Expr) -> Rows:
    sides = rows.with_columns(inflow=inflow(), outflow=outflow())
    sums = sides.group_by(*groups).agg(nw.col("inflow").sum(), nw.col("outflow").sum(), **also)
    return sums.with_columns(net=nw.col("inflow") - nw.col("outflow"))


def conversions(
    transfers: FrameT, freq: str | None = None, tz: str = "UTC", basis: Basis = "created"
) -> FrameT:
    """(``period``,) ``profile_id``, ``direction``, ``from_asset``, ``to_asset``, ``count`` (int64),
    ``amount``, ``total`` (decimals), ``first``, ``last``, sorted: completed transfers that a rule
    converted, that is whose ``balance_asset`` is not their ``asset``.

    ``amount`` is in the transfer's own asset, ``total`` in the one whose balance changed: for
    credits ``to_asset``, for debits ``from_asset``; ``first`` and ``last`` are times of ``basis``.
    ``freq`` and ``basis`` as in :func:`net`. Raises :class:`AnalysisError` for missing columns and
    invalid rows.

    >>> bought = transfers[transfers["id"] == "t1"].assign(balance_asset="USDC")
    >>> fl.flows.conversions(bought).iloc[:, :6]
      profile_id direction from_asset to_asset  count  amount
    0       main    CREDIT        USD     USDC      1    1000
    """
    by = moment_of(basis)
    want = transfer_columns(by, amount=MONEY)
    with Workbench(transfers, by) as bench:
        rows = completed(bench, transfers, want, "profile_id", "asset", "amount", "total", by)
        credit = nw.when(nw.col("direction") == "CREDIT")
        converted = rows.filter(nw.col("balance_asset") != nw.col("asset")).with_columns(
            at=nw.col(by),
            from_asset=credit.then(nw.col("asset")).otherwise(nw.col("balance_asset")),
            to_asset=credit.then(nw.col("balance_asset")).otherwise(nw.col("asset")),
        )
        order, schema = ["profile_id", "direction", "from_asset", "to_asset"], _CONVERSIONS
        if freq is not None:
            converted, order = with_period(bench, converted, freq, tz), ["period", *order]
            schema = pa.schema([("period", TIME_TYPE), *schema])
        sums = converted.group_by(*order).agg(
            count=nw.len().cast(nw.Int64),
            amount=nw.col("amount").sum(),
            total=nw.col("total").sum(),
            first=nw.col("at").min(),
            last=nw.col("at").max(),
        )
        return bench.give(sums.sort(*order), schema)


def ageing(
    transfers: FrameT,
    as_of: str | datetime | None = None,
    edges: Sequence[str] = ("1h", "1D", "3D", "7D", "30D"),
) -> FrameT:
    """``type``, ``asset``, ``age``, ``count`` (int64), ``total`` (decimal), ``oldest`` (its
    ``created_at``), by type, asset and age, the youngest first: pending transfers at ``as_of``,
    by default now.

    ``age`` names the bracket, such as ``1D to 3D`` (the first included); ``edges`` are pandas
    timedeltas, ascending. Transfers made after a given ``as_of`` are left out. Raises
    :class:`AnalysisError` for edges that make no sense, missing columns and invalid rows.

    >>> fl.flows.ageing(transfers, "2026-10-31")
                  type asset        age  count  total                    oldest
    0  WIRE_WITHDRAWAL   USD  7D to 30D      1  100.5 2026-10-05 09:00:00+00:00
    """
    moment = time.time_ns() if as_of is None else moment_ns(as_of, "as_of")
    try:
        edges = edges if isinstance(edges, str) else [*edges]
        steps = [length_ns(edge) for edge in edges]
    except (ValueError, TypeError) as error:
        raise AnalysisError(f"edges={edges!r}: give timedeltas such as '1h', '3D'") from error
    if not steps or steps != sorted(set(steps)) or steps[0] <= 0:
        raise AnalysisError(f"edges={edges!r}: give ascending timedeltas above 0")
    names = [f"under {edges[0]}", *(f"{a} to {b}" for a, b in pairwise(edges)), f"{edges[-1]} on"]
    with Workbench(transfers) as bench:
        rows = bench.take(transfers, transfer_columns("created_at", type=TEXT))
        pending = nw.col("status") == "PENDING"
        if as_of is not None:
            check_reaches(transfers, f"as_of={as_of}", lambda: moment)
            created = nw.col("created_at")
            pending &= (created <= moment) | created.is_null()  # which is refused
        needed = ("type", "asset", "total", "created_at")
        refuse(bench, rows, needed, among=pending, uncountable=True)
        bracket: nw.Expr = nw.lit(0)
        for place, step in enumerate(steps, start=1):
            old = nw.when(moment - nw.col("created_at") >= step)
            bracket = old.then(nw.lit(place)).otherwise(bracket)
        labels = pa.table({"bracket": pa.array(range(len(names)), pa.int64()), "age": names})
        open_items = (
            rows.filter(pending)
            .with_columns(asset=moved_asset(), bracket=bracket.cast(nw.Int64))
            .group_by("type", "asset", "bracket")
            .agg(
                count=nw.len().cast(nw.Int64),
                total=nw.col("total").sum(),
                oldest=nw.col("created_at").min(),
            )
            .join(bench.constant(labels), on="bracket", how="inner")
        )
        return bench.give(open_items.sort("type", "asset", "bracket"), _AGEING)


def internal_pairs(transfers: FrameT) -> FrameT:
    """``group_id``, ``debit_id``, ``credit_id``, ``asset``, ``amount``, ``status``, sorted: the
    halves of internal transfers, matched by ``group_id``.

    ``status`` is ``paired``; ``mismatch`` where amount, asset or state of the halves differ;
    ``orphan_debit`` or ``orphan_credit`` where the other half, or a ``group_id``, is missing.
    Of several halves of one side the earliest is matched, the others are orphans.

    >>> fl.flows.internal_pairs(transfers)
      group_id debit_id credit_id asset  amount  status
    0       g1       t3        t4   USD      60  paired
    >>> fl.flows.internal_pairs(transfers[transfers["id"] != "t4"])["status"].tolist()
    ['orphan_debit']
    """
    want = transfer_columns("created_at", type=TEXT, amount=MONEY, group_id=TEXT)
    with Workbench(transfers) as bench:
        rows = bench.take(transfers, want)
        refuse(bench, rows, (), uncountable=True)
        done = nw.when(nw.col("status").is_in(COMPLETED)).then(nw.lit(COMPLETED[0]))
        # A row without a group is one of its own; several halves of a side are numbered.
        in_group = nw.concat_str([nw.lit("group "), filled("group_id")])
        alone = nw.concat_str([nw.lit("id "), nw.col("id")])
        rows = rows.with_columns(
            asset=moved_asset(),
            state=done.otherwise(nw.col("status")),
            group=nw.coalesce(in_group, alone),
            group_id=filled("group_id"),
            one=nw.lit(1),
        )
        turn = nw.col("one").cum_sum().over("group", order_by=["created_at", "id"])
        kept = ["group", "turn", "group_id", "id", "asset", "amount", "state"]
        debits, credits_ = (
            rows.filter(nw.col("type") == kind.value).with_columns(turn=turn).select(*kept)
            for kind in (
                TransferType.INTERNAL_TRANSFER_DEBIT,
                TransferType.INTERNAL_TRANSFER_CREDIT,
            )
        )
        same = (
            (nw.col("amount") == nw.col("amount_credit"))
            & (nw.col("asset") == nw.col("asset_credit"))
            & (nw.col("state") == nw.col("state_credit"))
        )
        matched = nw.when(same).then(nw.lit("paired")).otherwise(nw.lit("mismatch"))
        no_debit = nw.when(nw.col("id").is_null()).then(nw.lit("orphan_credit"))
        no_credit = nw.when(nw.col("id_credit").is_null()).then(nw.lit("orphan_debit"))
        pairs = debits.join(credits_, on=["group", "turn"], how="full", suffix="_credit").select(
            *(
                nw.coalesce(name, f"{name}_credit").alias(name)
                for name in ("group_id", "asset", "amount")
            ),
            debit_id=nw.col("id"),
            credit_id=nw.col("id_credit"),
            status=no_credit.otherwise(no_debit.otherwise(matched)),
        )
        order = ["group_id", "debit_id", "credit_id"]
        return bench.give(pairs.sort(*order, nulls_last=True), _PAIRS)


def settlement_time(transfers: FrameT) -> FrameT:
    """``type``, ``count``, ``p50``, ``p90``, ``p99``, ``max``, sorted by type: how long completed
    transfers took from ``created_at`` to ``settled_at``, as timedeltas.

    ``settled_at`` is a column of ``store.read("transfers", settled=True)``, and known of a
    ``Store``; a frame without it is measured to ``updated_at``, which any later change of a row
    moves. Percentiles are interpolated linearly; those between times many days apart are good to
    about 10 ns, and in DuckDB, whose intervals have microseconds, each is rounded to one.

    >>> fl.flows.settlement_time(transfers)[["type", "count", "p50", "max"]]
                           type  count             p50             max
    0  INTERNAL_TRANSFER_CREDIT      1 0 days 00:30:00 0 days 00:30:00
    1   INTERNAL_TRANSFER_DEBIT      1 0 days 00:30:00 0 days 00:30:00
    2              WIRE_DEPOSIT      1 0 days 00:30:00 0 days 00:30:00
    3           WIRE_WITHDRAWAL      1 0 days 00:30:00 0 days 00:30:00
    """
    with Workbench(transfers, SETTLED_AT) as bench:
        end = SETTLED_AT if SETTLED_AT in bench.names() else "updated_at"
        want = transfer_columns("created_at", **{"type": TEXT, end: TIME})
        rows = completed(bench, transfers, want, "created_at", end, "type")
        took = nw.col("took")
        measured = (
            rows.with_columns(took=nw.col(end) - nw.col("created_at"))
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
        return bench.give(table, _SETTLEMENT)
