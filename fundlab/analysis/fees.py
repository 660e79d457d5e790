"""What transfers cost: summed, in basis points, quoted against charged, and if batched."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import narwhals as nw
import pyarrow as pa

from fundlab.analysis import rows as counted
from fundlab.analysis.engines import MONEY, MONEY_TYPE, TEXT, TIME_TYPE, FrameT, Workbench, columns
from fundlab.analysis.periods import with_period
from fundlab.analysis.quotes import compare_quotes, drift
from fundlab.errors import AnalysisError, MixedAssetsWarning
from fundlab.transfers import Rows, moved_asset
from fundlab.values import EXACT, MAX_INTEGER_DIGITS

__all__ = ["batching", "compare_quotes", "drift", "effective", "summary"]

BPS_PLACES: Final = Decimal("0.0001")
_DEFAULT_BY: Final = ("type", "asset")
_MEASURES: Final[Mapping[str, pa.DataType]] = {
    "count": pa.int64(),
    "amount": MONEY_TYPE,
    "fee": MONEY_TYPE,
}
_RESERVED: Final = frozenset({*_MEASURES, "total", "at", "created_at"})
_TARGETS: Final = {"fiat_account_id": TEXT, "destination_address": TEXT}
_BATCHES: Final = columns(
    period=TIME_TYPE,
    profile_id=pa.string(),
    type=pa.string(),
    asset=pa.string(),
    target=pa.string(),
    **_MEASURES,
    single_fee=MONEY_TYPE,
    saved=MONEY_TYPE,
)


def summary(
    transfers: FrameT,
    by: str | Sequence[str] = _DEFAULT_BY,
    freq: str | None = None,
    tz: str = "UTC",
) -> FrameT:
    """The ``by`` columns (and ``period``), ``count``, ``amount``, ``fee`` of completed transfers,
    sorted, missing ``by`` values last.

    ``by`` names any text columns, such as ``type``, ``asset`` (the one whose balance changes),
    ``crypto_network`` or ``profile_id``; ``period`` among them says where the period stands, by
    default last. ``freq`` is a pandas offset alias over ``created_at`` in the zone ``tz``;
    ``period`` is labelled as pandas' ``Grouper`` labels it. Raises :class:`AnalysisError` for
    columns that cannot be used and rows nobody can count; warns (``MixedAssetsWarning``) where
    several assets are added up for want of ``asset`` in ``by``. Interface §2.4.

    >>> fl.fees.summary(transfers)
                           type asset  count  amount  fee
    0  INTERNAL_TRANSFER_CREDIT   USD      1      60    0
    1   INTERNAL_TRANSFER_DEBIT   USD      1      60    0
    2              WIRE_DEPOSIT   USD      1    1000    0
    3           WIRE_WITHDRAWAL   USD      1     200   25
    >>> fl.fees.summary(transfers, by="asset", freq="W")
      asset                    period  count  amount  fee
    0   USD 2026-10-04 00:00:00+00:00      4    1320   25
    """
    with Workbench(transfers) as bench:
        rows, schema = _summed(bench, transfers, by, freq, tz)
        result: FrameT = bench.give(rows, schema)
        return result


def effective(
    transfers: FrameT,
    by: str | Sequence[str] = _DEFAULT_BY,
    freq: str | None = None,
    tz: str = "UTC",
) -> FrameT:
    """:func:`summary` with ``bps``: fee by amount in basis points, a decimal rounded half-even at
    4 places; missing where the amount is zero, or so small that no number of 20 integer digits
    would do.

    >>> fl.fees.effective(transfers, by="type")[["type", "amount", "fee", "bps"]]
                           type  amount  fee   bps
    0  INTERNAL_TRANSFER_CREDIT      60    0     0
    1   INTERNAL_TRANSFER_DEBIT      60    0     0
    2              WIRE_DEPOSIT    1000    0     0
    3           WIRE_WITHDRAWAL     200   25  1250
    """
    with Workbench(transfers) as bench:
        rows, schema = _summed(bench, transfers, by, freq, tz)
        table = bench.collect(rows.select(*schema.names)).cast(schema)
        sums = zip(table["fee"].to_pylist(), table["amount"].to_pylist(), strict=True)
        bps = pa.array([_basis_points(fee, amount) for fee, amount in sums], MONEY_TYPE)
        result: FrameT = bench.give_table(table.append_column("bps", bps))
        return result


def batching(transfers: FrameT, freq: str = "D", tz: str = "UTC") -> FrameT:
    """``period``, ``profile_id``, ``type``, ``asset``, ``target``, ``count``, ``amount``,
    ``fee``, ``single_fee``, ``saved`` (decimals), sorted: completed withdrawals that went to one
    account or address (``target``) within one period, and what one instead would have saved.

    ``single_fee`` is the largest fee among them, ``saved`` the rest; exact where a fee does not
    grow with the amount. Only periods with more than one are listed. ``freq`` is a pandas offset
    alias over ``created_at`` in the zone ``tz``. Raises :class:`AnalysisError` for missing columns
    and rows nobody can count. Interface §2.4.

    >>> done = transfers.assign(status="COMPLETED")
    >>> fl.fees.batching(done, freq="MS")[["target", "count", "fee", "single_fee", "saved"]]
      target  count  fee  single_fee  saved
    0   acme      2   50          25     25
    """
    want = counted.transfer_columns("created_at", type=TEXT, amount=MONEY, fee=MONEY)
    with Workbench(transfers) as bench:
        taken = bench.take(transfers, want.with_optional(_TARGETS))
        rows = counted.completed(bench, taken, "amount", "fee", "created_at", "profile_id")
        sent = rows.filter(nw.col("direction") == "DEBIT").with_columns(
            asset=moved_asset(), target=nw.coalesce(*_TARGETS), at=nw.col("created_at")
        )
        named = with_period(bench, sent.filter(~nw.col("target").is_null()), freq, tz)
        groups = ["period", "profile_id", "type", "asset", "target"]
        sums = named.group_by(*groups).agg(
            count=nw.len().cast(nw.Int64),
            amount=nw.col("amount").sum(),
            fee=nw.col("fee").sum(),
            single_fee=nw.col("fee").max(),
        )
        several = sums.filter(nw.col("count") > 1).with_columns(
            saved=nw.col("fee") - nw.col("single_fee")
        )
        result: FrameT = bench.give(several.sort(*groups), _BATCHES)
        return result


def _summed(
    bench: Workbench, transfers: object, by: str | Sequence[str], freq: str | None, tz: str
) -> tuple[Rows, pa.Schema]:
    groups = _by_columns(by, freq)
    texts = dict.fromkeys((name for name in groups if name != "period"), TEXT)
    want = counted.transfer_columns("created_at", amount=MONEY, fee=MONEY, **texts)
    rows = counted.completed(bench, bench.take(transfers, want), "amount", "fee", "created_at")
    rows = rows.with_columns(asset=moved_asset(), at=nw.col("created_at"))
    if "asset" not in groups:
        _warn_of_mixed(bench, rows, by)
    if freq is not None:
        rows = with_period(bench, rows, freq, tz)
    sums = rows.group_by(*groups).agg(
        count=nw.len().cast(nw.Int64), amount=nw.col("amount").sum(), fee=nw.col("fee").sum()
    )
    fields: dict[str, Any] = {
        name: TIME_TYPE if name == "period" else pa.string() for name in groups
    }
    return sums.sort(*groups, nulls_last=True), pa.schema({**fields, **_MEASURES})


def _warn_of_mixed(bench: Workbench, rows: Rows, by: str | Sequence[str]) -> None:
    asset = nw.col("asset")
    found = bench.collect(rows.select(first=asset.min(), last=asset.max())).to_pylist()
    first, last = found[0].values()
    if first != last:
        warnings.warn(
            f"by={by!r} adds up amounts of several assets, {first} and {last} among them: put "
            "'asset' into by, or give the transfers of one asset",
            MixedAssetsWarning,
            stacklevel=2,
        )


def _by_columns(by: str | Sequence[str], freq: str | None) -> list[str]:
    """The groups of the result, ``period`` among them where there is one."""
    names = [by] if isinstance(by, str) else list(by) if isinstance(by, Sequence) else [by]
    wrong = [name for name in names if not isinstance(name, str) or name in _RESERVED]
    if wrong or len(set(names)) < len(names) or (not names and freq is None):
        raise AnalysisError(f"by={by!r}: give different text columns, such as ['type', 'asset']")
    if "period" in names and freq is None:
        raise AnalysisError(f"by={by!r} needs freq, a pandas offset alias such as 'MS'")
    return names if freq is None or "period" in names else [*names, "period"]


def _basis_points(fee: Any, amount: Any) -> Decimal | None:
    if amount == 0:
        return None
    points = EXACT.divide(EXACT.multiply(fee, Decimal(10_000)), amount)
    if points.adjusted() >= MAX_INTEGER_DIGITS:
        return None
    return points.quantize(BPS_PLACES, context=EXACT)
