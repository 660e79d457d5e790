"""What transfers cost: summed, in basis points, quoted against charged, and if batched.

How a fee enters the total of a transfer, and with which sign, stands in `fundlab.tables.transfers`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Protocol

import narwhals as nw
import pandas as pd
import pyarrow as pa

from fundlab.analysis.counting import (
    completed,
    is_taken,
    moment_of,
    refuse,
    refuse_repeated,
    span_in,
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
    to_pandas,
)
from fundlab.analysis.periods import with_period
from fundlab.base.arrow import AMOUNT_TYPE, exact_table
from fundlab.base.errors import AnalysisError, MixedAssetsWarning, ServiceError
from fundlab.base.exact import EXACT, MAX_INTEGER_DIGITS
from fundlab.base.periods import Moment
from fundlab.models import TransferType
from fundlab.tables.transfers import MOMENTS, TEXTS, Basis, Rows, filled, moved_asset

__all__ = ["batching", "compare_quotes", "drift", "effective", "summary"]
__dir__ = __all__.copy  # what completion offers

BPS_PLACES: Final = Decimal("0.0001")
GUARANTEED_NS: Final = 5 * 60 * 10**9
"""How long before ``expires_at`` a quote was made."""
_DEFAULT_BY: Final = ("type", "asset")
_MEASURES: Final[Mapping[str, pa.DataType]] = {
    "count": pa.int64(),
    "amount": AMOUNT_TYPE,
    "fee": AMOUNT_TYPE,
}
_RESERVED: Final = frozenset({*_MEASURES, "total", "at", *MOMENTS.values()})
_BATCHES: Final = columns(
    ("period", TIME_TYPE),
    ("profile_id type asset target", TEXT_TYPE),
    *_MEASURES.items(),
    ("single_fee saved", AMOUNT_TYPE),
)
_COMPARED: Final = columns(
    ("id crypto_network destination_address nickname asset", TEXT_TYPE),
    ("amount fee total", AMOUNT_TYPE),
    ("expires_at", TIME_TYPE),
    ("problem", TEXT_TYPE),
)
_DRIFT: Final = columns(
    ("transfer_id quote_id asset crypto_network", TEXT_TYPE),
    ("amount quoted charged drift", AMOUNT_TYPE),
    ("created_at expires_at", TIME_TYPE),
    ("status", TEXT_TYPE),
)
_PLACES: Final = ("destination_address", "crypto_network")
_QUOTES: Final = Wanted(
    "quotes",
    {
        **dict.fromkeys(("id", *_PLACES, "asset"), TEXT),
        "fee": MONEY,
        "expires_at": TIME,
    },
    {"amount": MONEY},
)


class QuotingClient(Protocol):
    """What of a client is needed."""

    def list_crypto_destination_addresses(self, **filters: Any) -> Iterable[Any]: ...

    def create_crypto_withdrawal_fee(self, **request: Any) -> Any: ...


def summary(
    transfers: FrameT,
    by: str | Sequence[str] = _DEFAULT_BY,
    freq: str | None = None,
    tz: str = "UTC",
    basis: Basis = "created",
    period: str | tuple[Moment, Moment] | None = None,
) -> FrameT:
    """The ``by`` columns (and ``period``), ``count``, ``amount``, ``fee`` of completed transfers,
    sorted, missing ``by`` values last.

    ``by`` names any text columns, such as ``type``, ``asset`` (the one whose balance changes),
    ``crypto_network`` or ``profile_id``; ``period`` among them says where the period stands, by
    default last. ``freq`` is a pandas offset alias over ``created_at`` (``settled_at`` with
    ``basis="settled"``: ``store.read("transfers", settled=True)`` has it) in the zone ``tz``;
    its column is labelled as pandas' ``Grouper`` labels it. The argument ``period`` leaves out what
    belongs to other times, as :func:`fundlab.balances.statement` does. Raises
    :class:`AnalysisError` for columns that cannot be used and invalid rows; warns
    (``MixedAssetsWarning``) where several assets are added up for want of ``asset`` in ``by``.

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
    at = moment_of(basis)
    with Workbench(transfers, at) as bench:
        return bench.give(*_summed(bench, transfers, by, freq, tz, at, period))


def effective(
    transfers: FrameT,
    by: str | Sequence[str] = _DEFAULT_BY,
    freq: str | None = None,
    tz: str = "UTC",
    basis: Basis = "created",
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
    at = moment_of(basis)
    with Workbench(transfers, at) as bench:
        rows, schema = _summed(bench, transfers, by, freq, tz, at)
        table = bench.collect(rows.select(*schema.names))
        bps: list[Decimal | None] = []
        for fee, amount in zip(table["fee"].to_pylist(), table["amount"].to_pylist(), strict=True):
            points = EXACT.divide(EXACT.multiply(fee, Decimal(10_000)), amount) if amount else None
            if points is not None and points.adjusted() >= MAX_INTEGER_DIGITS:
                points = None
            bps.append(None if points is None else points.quantize(BPS_PLACES, context=EXACT))
        field = pa.field("bps", AMOUNT_TYPE)
        return bench.give(
            table.append_column(field, pa.array(bps, AMOUNT_TYPE)), schema.append(field)
        )


def _summed(
    bench: Workbench[Any],
    transfers: object,
    by: str | Sequence[str],
    freq: str | None,
    tz: str,
    at: str,
    period: str | tuple[Moment, Moment] | None = None,
) -> tuple[Rows, pa.Schema]:
    groups = [by] if isinstance(by, str) else list(by) if isinstance(by, Sequence) else [by]
    wrong = [
        name for name in groups
        if not isinstance(name, str) or is_taken(name, {*_RESERVED, *TEXTS}, {*TEXTS} - _RESERVED)
    ]  # fmt: skip
    if wrong or len(set(groups)) < len(groups) or (not groups and freq is None):
        raise AnalysisError(
            f"by={by!r}: give different text columns, such as ['type', 'asset'], to group; months "
            "are freq='MS', and which time counts is basis="
        )
    if "period" in groups and freq is None:
        raise AnalysisError(f"by={by!r} needs freq, a pandas offset alias such as 'MS'")
    if freq is not None and "period" not in groups:
        groups.append("period")
    texts = dict.fromkeys((name for name in groups if name != "period"), TEXT)
    want = transfer_columns(at, amount=MONEY, fee=MONEY, **texts)
    rows = completed(bench, transfers, want, "amount", "fee", at)
    rows = rows.with_columns(asset=moved_asset(), at=nw.col(at))
    if period is not None:
        first, end = span_in(transfers, period, tz)
        rows = rows.filter((nw.col("at") >= first) & (nw.col("at") < end))
    if "asset" not in groups:
        asset = nw.col("asset")
        assets = bench.collect(rows.select(first=asset.min(), last=asset.max())).to_pylist()
        first, last = assets[0].values()
        if first != last:
            warnings.warn(
                f"by={by!r} adds up amounts of several assets, {first} and {last} among them: put "
                "'asset' into by, or give the transfers of one asset",
                MixedAssetsWarning,
                stacklevel=3,
            )
    if freq is not None:
        rows = with_period(bench, rows, freq, tz)
    sums = rows.group_by(*groups).agg(
        count=nw.len().cast(nw.Int64), amount=nw.col("amount").sum(), fee=nw.col("fee").sum()
    )
    types = {name: TIME_TYPE if name == "period" else TEXT_TYPE for name in groups}
    return sums.sort(*groups, nulls_last=True), pa.schema([*types.items(), *_MEASURES.items()])


def batching(
    transfers: FrameT, freq: str = "D", tz: str = "UTC", basis: Basis = "created"
) -> FrameT:
    """``period``, ``profile_id``, ``type``, ``asset``, ``target``, ``count``, ``amount``,
    ``fee``, ``single_fee``, ``saved`` (decimals), sorted: completed withdrawals that went to one
    account or address (``target``) within one period, and what one instead would have saved.

    ``single_fee`` is the largest fee among them, ``saved`` the rest; exact where a fee does not
    grow with the amount. Only periods with more than one are listed. ``freq`` is a pandas offset
    alias in the zone ``tz``, ``basis`` as in :func:`summary`. Raises :class:`AnalysisError` for
    missing columns and invalid rows.

    >>> done = transfers.assign(status="COMPLETED")
    >>> fl.fees.batching(done, freq="MS")[["target", "count", "fee", "single_fee", "saved"]]
      target  count  fee  single_fee  saved
    0   acme      2   50          25     25
    """
    targets = ("fiat_account_id", "destination_address")
    by = moment_of(basis)
    want = transfer_columns(by, targets, type=TEXT, amount=MONEY, fee=MONEY)
    with Workbench(transfers, by) as bench:
        rows = completed(bench, transfers, want, "amount", "fee", by, "profile_id")
        sent = rows.filter(nw.col("direction") == "DEBIT").with_columns(
            asset=moved_asset(), target=filled(*targets), at=nw.col(by)
        )
        sent = with_period(bench, sent.filter(~nw.col("target").is_null()), freq, tz)
        groups = ["period", "profile_id", "type", "asset", "target"]
        sums = sent.group_by(*groups).agg(
            count=nw.len().cast(nw.Int64),
            amount=nw.col("amount").sum(),
            fee=nw.col("fee").sum(),
            single_fee=nw.col("fee").max(),
        )
        several = sums.filter(nw.col("count") > 1).with_columns(
            saved=nw.col("fee") - nw.col("single_fee")
        )
        return bench.give(several.sort(*groups), _BATCHES)


def compare_quotes(
    client: QuotingClient,
    asset: str,
    amount: str | Decimal | None = None,
    total: str | Decimal | None = None,
    *,
    crypto_networks: str | Sequence[str] | None = None,
    addresses: str | Sequence[str] | None = None,
    identity_id: str | None = None,
) -> pd.DataFrame:
    """A guaranteed quote for every saved destination address, cheapest first: ``id``,
    ``crypto_network``, ``destination_address``, ``nickname``, ``asset``, ``amount``, ``fee``,
    ``total`` (decimals), ``expires_at``, ``problem``.

    Give ``amount`` (what arrives) or ``total`` (what leaves), not both. ``crypto_networks`` and
    ``addresses`` narrow the addresses, ``identity_id`` asks for an end user's. An address the
    service refuses to quote has no fee and says why in ``problem``; other errors are raised.
    Nothing is withdrawn. Raises :class:`AnalysisError` for both or neither of ``amount`` and
    ``total``, ``ServiceError`` and ``NetworkError`` as the client does.

    >>> quotes = fl.fees.compare_quotes(client, "USDC", amount="2500")
    >>> quotes[["crypto_network", "amount", "fee", "total"]].head(3)
      crypto_network  amount   fee    total
    0        STELLAR    2500  0.02  2500.02
    1        STELLAR    2500  0.02  2500.02
    2         SOLANA    2500  0.05  2500.05
    """
    if (amount is None) == (total is None):
        raise AnalysisError("give exactly one of amount and total")
    asked = {"amount": amount, "total": total, "identity_id": identity_id}
    request = {name: value for name, value in asked.items() if value is not None}
    filters = {
        "crypto_networks": crypto_networks,
        "addresses": addresses,
        "identity_id": identity_id,
    }
    given = {name: value for name, value in filters.items() if value is not None}
    rows: list[dict[str, Any]] = []
    for saved in client.list_crypto_destination_addresses(**given):
        place = {
            "crypto_network": str(saved.crypto_network),
            "destination_address": saved.address,
            "asset": asset,
        }
        row = {**place, "nickname": saved.nickname}
        rows.append(row)
        try:
            quote = client.create_crypto_withdrawal_fee(**place, **request)
        except ServiceError as error:
            if error.status not in (400, 404):
                raise
            row["problem"] = error.detail or error.title
            continue
        fee = Decimal(quote.fee)
        arrives, leaves = (None if v is None else Decimal(v) for v in (quote.amount, quote.total))
        # An answer may leave one of the two out.
        if arrives is None and leaves is not None:
            arrives = EXACT.subtract(leaves, fee)
        elif leaves is None and arrives is not None:
            leaves = EXACT.add(arrives, fee)
        row |= {"id": quote.id, "fee": fee, "amount": arrives, "total": leaves}
        row["expires_at"] = quote.expires_at.ns
    last, order = Decimal("Infinity"), ("crypto_network", "destination_address")
    rows.sort(key=lambda row: (row.get("fee", last), *map(row.get, order)))
    return to_pandas(exact_table(_COMPARED, [tuple(map(row.get, _COMPARED.names)) for row in rows]))


def drift(quotes: FrameT, transfers: object) -> FrameT:
    """``transfer_id``, ``quote_id``, ``asset``, ``crypto_network``, ``amount``, ``quoted``,
    ``charged``, ``drift`` (charged less quoted; decimals), ``created_at``, ``expires_at``,
    ``status``, by ``created_at``: crypto withdrawals that did not fail, against the quote for
    them.

    ``quotes`` is what :func:`compare_quotes` gives, or several of those. A quote is for the
    withdrawals of its asset, network and address, and of its amount where it names one. Of several
    the one that stood when the transfer was made counts (``status`` ``in_time``), the last made if
    there are more; else the last that expired (``expired``). Withdrawals never quoted are left out.
    A quote stands for the 5 minutes before ``expires_at``. Raises :class:`AnalysisError` for
    missing columns, duplicate quotes and invalid rows.

    >>> quotes = fl.fees.compare_quotes(client, "USDC", amount="2500").head(1)
    >>> sent = transfers.head(1).assign(
    ...     type="CRYPTO_WITHDRAWAL",
    ...     direction="DEBIT",
    ...     asset="USDC",
    ...     amount=quotes["amount"],
    ...     fee=quotes["fee"] + 1,
    ...     crypto_network=quotes["crypto_network"],
    ...     destination_address=quotes["destination_address"],
    ...     created_at=quotes["expires_at"] - pd.Timedelta("1min"),
    ... )
    >>> fl.fees.drift(quotes, sent)[["amount", "quoted", "charged", "drift", "status"]]
       amount  quoted  charged  drift   status
    0    2500    0.02     1.02      1  in_time
    """
    want = transfer_columns("created_at", _PLACES, type=TEXT, amount=MONEY, fee=MONEY)
    with Workbench(quotes) as bench:
        rows = bench.take(transfers, want)
        needed = ("id", "asset", "amount", "fee", "created_at")
        refuse(bench, rows, needed, uncountable=True)
        sent = rows.filter(
            nw.col("type") == TransferType.CRYPTO_WITHDRAWAL.value, nw.col("status") != "FAILED"
        ).select(*needed, *_PLACES)
        given = bench.take(quotes, _QUOTES)
        given = given.filter(~nw.col("id").is_null())  # an address the service would not quote
        refuse(bench, given, ("fee", "expires_at"), "quotes")
        refuse_repeated(bench, given, "quotes", "id")
        quoted = given.select(
            "asset",
            *_PLACES,
            "expires_at",
            quote_id=nw.col("id"),
            quoted=nw.col("fee"),
            quoted_amount=nw.col("amount"),
        )
        in_time = nw.when(nw.col("created_at") <= nw.col("expires_at")).then(nw.lit("in_time"))
        both = (
            sent.join(quoted, on=["asset", *_PLACES], how="inner")
            .filter(
                nw.col("quoted_amount").is_null() | (nw.col("quoted_amount") == nw.col("amount")),
                nw.col("expires_at") - GUARANTEED_NS <= nw.col("created_at"),
            )
            .with_columns(
                status=in_time.otherwise(nw.lit("expired")),
                one=nw.lit(1),
                late=0 - nw.col("expires_at"),
            )
        )
        # Of several quotes for a transfer the first in this order.
        turn = nw.col("one").cum_sum().over("id", order_by=["status", "late", "quote_id"])
        best = both.with_columns(turn=turn).filter(nw.col("turn") == 1)
        drifted = best.with_columns(
            transfer_id=nw.col("id"), charged=nw.col("fee"), drift=nw.col("fee") - nw.col("quoted")
        )
        return bench.give(drifted.sort("created_at", "transfer_id"), _DRIFT)
