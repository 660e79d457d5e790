"""Quoted fees: side by side over addresses and networks, and against what was charged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Final, Protocol

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
    to_pandas,
    wanted,
)
from fundlab.errors import AnalysisError, ServiceError
from fundlab.models import TransferType
from fundlab.values import EXACT

GUARANTEED_NS: Final = 5 * 60 * 10**9
"""How long before ``expires_at`` a quote was made."""
_TEXT: Final = pa.string()
_COMPARED: Final = columns(
    id=_TEXT,
    crypto_network=_TEXT,
    destination_address=_TEXT,
    nickname=_TEXT,
    asset=_TEXT,
    amount=MONEY_TYPE,
    fee=MONEY_TYPE,
    total=MONEY_TYPE,
    expires_at=TIME_TYPE,
    problem=_TEXT,
)
_DRIFT: Final = columns(
    transfer_id=_TEXT,
    quote_id=_TEXT,
    asset=_TEXT,
    crypto_network=_TEXT,
    amount=MONEY_TYPE,
    quoted=MONEY_TYPE,
    charged=MONEY_TYPE,
    drift=MONEY_TYPE,
    created_at=TIME_TYPE,
    expires_at=TIME_TYPE,
    status=_TEXT,
)
_QUOTES: Final = wanted(
    "quotes",
    id=TEXT,
    crypto_network=TEXT,
    destination_address=TEXT,
    asset=TEXT,
    fee=MONEY,
    expires_at=TIME,
)
_LAST: Final = 1 << 62


class QuotingClient(Protocol):
    """What of a client is needed."""

    def list_crypto_destination_addresses(self, **filters: Any) -> Iterable[Any]: ...

    def create_crypto_withdrawal_fee(self, **request: Any) -> Any: ...


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
    ``total``, ``ServiceError`` and ``NetworkError`` as the client does. Interface §4.15, §4.16.

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
    found = client.list_crypto_destination_addresses(**given)
    rows = [_quote(client, saved, asset, request) for saved in found]
    rows.sort(key=_cheapest)
    arrays = [pa.array([row.get(f.name) for row in rows], _ingoing(f.type)) for f in _COMPARED]
    return to_pandas(pa.table(arrays, names=_COMPARED.names).cast(_COMPARED))


def drift(quotes: FrameT, transfers: object) -> FrameT:
    """``transfer_id``, ``quote_id``, ``asset``, ``crypto_network``, ``amount``, ``quoted``,
    ``charged``, ``drift`` (charged less quoted; decimals), ``created_at``, ``expires_at``,
    ``status``, by ``created_at``: crypto withdrawals that did not fail, against the quote for
    them.

    ``quotes`` is what :func:`compare_quotes` gives, or several of those. A quote is for the
    withdrawals of its asset, network and address, and of its amount where it names one. Of several
    the one that stood when the transfer was made counts (``status`` ``in_time``), the last made if
    there are more; else the last lapsed (``lapsed``). Withdrawals never quoted are left out. A
    quote stands for the 5 minutes before ``expires_at``. Raises :class:`AnalysisError` for missing
    columns, duplicate quotes and rows nobody can count. Interface §2.9.

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
    want = counted.transfer_columns("created_at", type=TEXT, amount=MONEY, fee=MONEY)
    places = dict.fromkeys(("destination_address", "crypto_network"), TEXT)
    with Workbench(quotes) as bench:
        rows = bench.take(transfers, want.with_optional(places))
        needed = ("id", "asset", "amount", "fee", "created_at")
        counted.refuse(bench, rows, *counted.STATES, *map(counted.gap, needed))
        sent = rows.filter(
            nw.col("type") == TransferType.CRYPTO_WITHDRAWAL.value, nw.col("status") != "FAILED"
        ).select("id", "asset", "amount", "fee", "created_at", *places)
        quoted = _quoted(bench, quotes)
        both = sent.join(quoted, on=["asset", *places], how="inner").filter(
            (nw.col("quoted_amount").is_null() | (nw.col("quoted_amount") == nw.col("amount"))),
            nw.col("made_at") <= nw.col("created_at"),
        )
        best = _best(both).select(
            *(name for name in _DRIFT.names if name not in ("transfer_id", "charged", "drift")),
            transfer_id=nw.col("id"),
            charged=nw.col("fee"),
            drift=nw.col("fee") - nw.col("quoted"),
        )
        result: FrameT = bench.give(best.sort("created_at", "transfer_id"), _DRIFT)
        return result


def _quote(
    client: QuotingClient, saved: Any, asset: str, request: dict[str, Any]
) -> dict[str, Any]:
    network, address = str(saved.crypto_network), saved.address
    row = {
        "crypto_network": network,
        "destination_address": address,
        "nickname": saved.nickname,
        "asset": asset,
    }
    try:
        quote = client.create_crypto_withdrawal_fee(
            asset=asset, destination_address=address, crypto_network=network, **request
        )
    except ServiceError as error:
        if error.status not in (400, 404):
            raise
        return {**row, "problem": error.detail or error.title}
    fee = Decimal(quote.fee)
    amount, total = (None if v is None else Decimal(v) for v in (quote.amount, quote.total))
    if amount is None and total is not None:
        amount = EXACT.subtract(total, fee)
    if total is None and amount is not None:
        total = EXACT.add(amount, fee)
    told = {"id": quote.id, "fee": fee, "amount": amount, "total": total}
    return {**row, **told, "expires_at": quote.expires_at.ns}


def _cheapest(row: dict[str, Any]) -> tuple[bool, Decimal, str, str]:
    fee = row.get("fee")
    return fee is None, fee or Decimal(0), row["crypto_network"], row["destination_address"]


def _ingoing(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _quoted(bench: Workbench, quotes: object) -> Any:
    taken = bench.take(quotes, _QUOTES.with_optional({"amount": MONEY}))
    rows = taken.filter(~nw.col("id").is_null())  # an address the service would not quote
    counted.refuse(bench, rows, counted.gap("fee"), counted.gap("expires_at"), label="quotes")
    counted.unique_ids(bench, rows, "quotes")
    return rows.select(
        "asset",
        "destination_address",
        "crypto_network",
        "expires_at",
        quote_id=nw.col("id"),
        quoted=nw.col("fee"),
        quoted_amount=nw.col("amount"),
        made_at=nw.col("expires_at") - GUARANTEED_NS,
    )


def _best(both: Any) -> Any:
    in_time = nw.col("created_at") <= nw.col("expires_at")
    told = both.with_columns(
        status=nw.when(in_time).then(nw.lit("in_time")).otherwise(nw.lit("lapsed")),
        one=nw.lit(1),
        late=_LAST - nw.col("expires_at"),
    )
    turn = nw.col("one").cum_sum().over("id", order_by=["status", "late", "quote_id"])
    return told.with_columns(turn=turn).filter(nw.col("turn") == 1)
