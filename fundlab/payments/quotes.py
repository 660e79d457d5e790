"""Fee quotes for crypto withdrawals, with the time that is left of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from fundlab.base.progress import progress_bar
from fundlab.base.values import money_text
from fundlab.client.arguments import AmountLike, Network
from fundlab.display import Card, Row, Shown
from fundlab.models import CryptoWithdrawalFee
from fundlab.payments.identity import SECOND, shown_time
from fundlab.payments.plan import service_card

if TYPE_CHECKING:
    from fundlab.client.client import Client


@dataclass(frozen=True, repr=False)
class FeeQuote(Shown):
    """A guaranteed fee (§2.9) and how long it holds; ``now`` (ns) is the service's clock."""

    quote: CryptoWithdrawalFee
    client: Client
    now: Callable[[], int] = time.time_ns

    @property
    def fee(self) -> Decimal:
        return self.quote.fee

    @property
    def seconds_left(self) -> float:
        """0 when it has expired."""
        expires = self.quote.expires_at
        return 0.0 if expires is None else max(0.0, (expires.ns - self.now()) / SECOND)

    def watch(self, sleep: Callable[[float], object] = time.sleep) -> None:
        """Count down until it expires; interrupting loses nothing."""
        total = round(self.seconds_left)
        with progress_bar(total, "s", desc="the fee holds", enabled=None) as bar:
            while self.seconds_left > 0:
                sleep(min(1.0, self.seconds_left))
                bar.update(max(0, total - round(self.seconds_left) - bar.n))

    def card(self) -> Card:
        quote, left = self.quote, round(self.seconds_left)
        amounts = (
            Row(label, f"{money_text(value)} {quote.asset}", money=True)
            for label, value in (
                ("Amount", quote.amount),
                ("Fee", quote.fee),
                ("Total", quote.total),
            )
            if value is not None
        )
        network = f"on {quote.crypto_network}"
        rows = (Row("To", quote.destination_address or "", detail=network), *amounts)
        warnings: tuple[str, ...] = ("It has expired: ask for another.",)
        status = None
        if left and quote.expires_at is not None:
            until = shown_time(quote.expires_at.ns, self.now())
            warnings = ()
            status = f"holds for {left // 60}:{left % 60:02d} more, until {until}"
        title = f"Fee for withdrawing {quote.asset}"
        return service_card(
            self.client, title, rows, warnings=warnings, status=status,
            notes=(f"quote {quote.id}",),
        )  # fmt: skip


def quote_fee(
    client: Client,
    *,
    asset: str,
    destination_address: str,
    crypto_network: Network,
    amount: AmountLike | None = None,
    total: AmountLike | None = None,
    identity_id: str | None = None,
    now: Callable[[], int] | None = None,
) -> FeeQuote:
    """Ask for a guaranteed fee (§4.16); it moves nothing. Errors as the client's operation.

    ``now`` (ns) is the service's clock, by default as its answers tell it.

    >>> quote = fl.quote_fee(
    ...     client,
    ...     asset="USDC",
    ...     destination_address="0x" + "1" * 40,
    ...     crypto_network="ETHEREUM",
    ...     amount="2500",
    ... )
    >>> quote.quote.fee.text, quote.quote.total.text
    ('3.00', '2503.00')
    """
    clock = now or (lambda: client.transport.service_ns(time.time_ns()))
    quote = client.create_crypto_withdrawal_fee(
        asset=asset, destination_address=destination_address, crypto_network=crypto_network,
        amount=amount, total=total, identity_id=identity_id,
    )  # fmt: skip
    return FeeQuote(quote, client, clock)
