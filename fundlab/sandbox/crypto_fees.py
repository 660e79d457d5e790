"""Fee quotes (§4.16): a fixed schedule by asset and network, guaranteed for five minutes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from fundlab.base.exact import EXACT, MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS
from fundlab.models import (
    CreateCryptoWithdrawalFee,
    CreateFiatWithdrawal,
    CryptoNetwork,
    StableAsset,
)
from fundlab.models.json_schema import ABSENT, Schema
from fundlab.models.requests import CENTS, UNITS
from fundlab.sandbox.accounts_and_addresses import ON_NETWORKS, check_address
from fundlab.sandbox.clock import NS, micros_text
from fundlab.sandbox.ledger import MAX_UNITS, SCALE, units, units_text
from fundlab.sandbox.refusals import invalid, not_found
from fundlab.sandbox.world import ASSETS, World, to_bytes

QUOTE_LASTS_NS: Final = 300 * NS
NETWORK_FEES_USD: Final = {
    CryptoNetwork.BITCOIN: Decimal("2.50"), CryptoNetwork.ETHEREUM: Decimal("3.00"),
    CryptoNetwork.BITCOIN_CASH: Decimal("0.10"), CryptoNetwork.LITECOIN: Decimal("0.20"),
    CryptoNetwork.SOLANA: Decimal("0.05"), CryptoNetwork.POLYGON_POS: Decimal("0.10"),
    CryptoNetwork.BASE: Decimal("0.15"), CryptoNetwork.ARBITRUM_ONE: Decimal("0.20"),
    CryptoNetwork.STELLAR: Decimal("0.02"), CryptoNetwork.INK: Decimal("0.15"),
    CryptoNetwork.XLAYER: Decimal("0.15"),
}  # fmt: skip
"""What a withdrawal costs on a network, in USD."""

FEE_RATES: Final = {
    "BTC": Decimal("0.00001"), "ETH": Decimal("0.0004"), "SOL": Decimal("0.006"),
    "LTC": Decimal("0.01"), "BCH": Decimal("0.002"),
}  # fmt: skip
"""What one USD buys of the asset; of a stablecoin it buys 1."""
LEAST: Final = Decimal((0, (1,), -MAX_FRACTION_DIGITS))
ONE: Final = Decimal(1)
CENT: Final = Decimal("0.01")
STABLECOINS: Final = [asset.value for asset in StableAsset if asset != "USD"]
COINS: Final = [asset for asset in ASSETS if asset not in set(StableAsset)]
FEE_RULES: Final[list[Schema]] = [
    {
        "oneOf": [
            {
                "required": [given],
                "properties": {
                    "asset": {"enum": assets},
                    given: amount,
                    other: ABSENT,
                    "crypto_network": networks,
                    "destination_address": address,
                },
            }
            for given, other in (("amount", "total"), ("total", "amount"))
            for assets, amount in ((STABLECOINS, CENTS), (COINS, UNITS))
            for networks, address in ON_NETWORKS
        ]
    }
]
"""What ``create_fee_quote`` takes, in JSON Schema: in one choice, from which tools make data."""


def crypto_withdrawal_fee(
    asset: str, network: CryptoNetwork, own: Mapping[CryptoNetwork, Decimal] = NETWORK_FEES_USD
) -> Decimal:
    """The deterministic schedule: the network's fee, where it is one of ``own`` that, in the
    withdrawn asset."""
    fee = EXACT.multiply(own.get(network, NETWORK_FEES_USD[network]), FEE_RATES.get(asset, ONE))
    return fee.quantize(LEAST, context=EXACT)


def usd_value(asset: str, amount: int) -> str | None:
    """What ``amount`` units are worth in USD, to the cent; ``None`` where no amount of the
    interface can say it."""
    value = EXACT.divide(amount, EXACT.multiply(SCALE, FEE_RATES.get(asset, ONE)))
    cents = value.quantize(CENT, context=EXACT)
    return str(cents) if cents < 10**MAX_INTEGER_DIGITS else None


def amount_and_total(
    wanted: CreateCryptoWithdrawalFee | CreateFiatWithdrawal, fee: int
) -> tuple[int, int]:
    """Without and with ``fee``, whichever of the two is asked for. Raises the 400 ``Refusal``."""
    if wanted.amount is not None:
        amount = units(wanted.amount)
    else:
        amount = units(wanted.total or Decimal(0)) - fee
    if amount <= 0:
        raise invalid("total", f"does not exceed the fee of {units_text(fee)}")
    return amount, amount + fee


def create_fee_quote(
    world: World, customer_id: str, wanted: CreateCryptoWithdrawalFee
) -> dict[str, Any]:
    """§4.16: guaranteed for five minutes; ``total = amount + fee`` whichever was given."""
    if wanted.asset not in ASSETS or wanted.asset == "USD":
        raise invalid("asset", f"no crypto withdrawals of {wanted.asset[:40]!r}")
    check_address("destination_address", wanted.crypto_network, wanted.destination_address)
    if wanted.identity_id is not None:
        world.check_end_user(customer_id, wanted.identity_id, None)
        saved = world.database.one(
            "SELECT 1 FROM destination_addresses WHERE address = ? AND crypto_network = ? "
            "AND identity_id = ? AND customer_id = ?",
            wanted.destination_address, wanted.crypto_network.value, wanted.identity_id,
            customer_id,
        )  # fmt: skip
        if saved is None:
            what = "saved destination address of this identity"
            raise not_found(what, "destination_address", wanted.destination_address)
    fee = units(
        crypto_withdrawal_fee(wanted.asset, wanted.crypto_network, world.behaviour.network_fees)
    )
    amount, total = amount_and_total(wanted, fee)
    if total > MAX_UNITS:
        raise invalid("amount", "amount and fee together exceed 20 integer digits")
    stamp = world.stamp()
    quote = {
        "id": world.new_id("quotes"),
        "fee": units_text(fee),
        "asset": wanted.asset,
        "amount": units_text(amount),
        "total": units_text(total),
        "expires_at": micros_text(stamp + QUOTE_LASTS_NS),
        "destination_address": wanted.destination_address,
        "crypto_network": str(wanted.crypto_network),
    }
    world.database.insert(
        "quotes", id=quote["id"], customer_id=customer_id, created_at_ns=stamp,
        body=to_bytes(quote),
    )  # fmt: skip
    return quote
