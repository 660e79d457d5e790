"""Balances, deposit addresses, quotes (§2.1, §2.4, §2.5, §2.7, §2.9, §4.7, §4.13, §4.16, §7)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from interface_tables import NETWORKS
from sandbox_caller import (
    ADDRESSES,
    MISSING,
    QUOTES,
    Caller,
    assert_problem,
    fund,
)  # fmt: skip  # fmt: skip

from fundlab.base.errors import SandboxError
from fundlab.sandbox import Sandbox


def test_balances_of_every_asset_and_of_nothing_else(sandbox: Sandbox, caller: Caller) -> None:
    """§4.7."""
    for asset in ("USD", "USDG", "PYUSD", "USDP", "USDC", "BTC", "ETH", "SOL"):
        assert caller.balance(sandbox.profile_ids[0], asset) == {
            "asset": asset, "available": "0.00", "trading": "0.00",
        }  # fmt: skip
    assert_problem(caller.get(f"/v2/profiles/{sandbox.profile_ids[0]}/balances/XYZ"), 404)
    assert_problem(caller.get(f"/v2/profiles/{MISSING}/balances/USD"), 404)


def test_trading_is_part_of_the_ledger_balance(sandbox: Sandbox, caller: Caller) -> None:
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "100")
    sandbox.control.set_trading(profile_id, "USD", "30.25")
    assert caller.balance(profile_id) == {
        "asset": "USD", "available": "69.75", "trading": "30.25",
    }  # fmt: skip


@pytest.mark.parametrize("network", NETWORKS)
def test_deposit_addresses_on_every_network(sandbox: Sandbox, caller: Caller, network: str) -> None:
    """§2.7, §4.13."""
    body = {"profile_id": sandbox.profile_ids[0], "crypto_network": network, "metadata": {"a": "b"}}
    made = caller.post(ADDRESSES, body).json()
    assert made.keys() == {
        "id", "profile_id", "customer_id", "crypto_network", "address", "conversion_target_asset",
        "compatible_crypto_networks", "created_at", "metadata",
    }  # fmt: skip
    assert made["conversion_target_asset"] == "NO_CONVERSION"
    same_kind = {"ETHEREUM", "POLYGON_POS", "BASE", "ARBITRUM_ONE", "INK", "XLAYER"}
    compatible = same_kind if network in same_kind else {network}
    assert sorted(made["compatible_crypto_networks"]) == sorted(compatible)
    assert_problem(caller.post(ADDRESSES, body | {"crypto_network": "DOGE"}), 400)


def test_what_arrives_at_a_deposit_address_carries_its_metadata(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§2.1, §2.4."""
    profile_id = sandbox.profile_ids[0]
    body = {"profile_id": profile_id, "crypto_network": "ETHEREUM", "metadata": {"a": "b"}}
    address = caller.post(ADDRESSES, body).json()["address"]
    sandbox.control.crypto_deposit(address, "ETH", "1.000000000000000001")
    sandbox.clock.advance(60)
    (done,) = caller.rows("/v2/transfer/transfers?type=CRYPTO_DEPOSIT")
    assert (done["metadata"], done["crypto_network"]) == ({"a": "b"}, "ETHEREUM")
    assert done["notional_value"] == "2500.00"
    assert caller.balance(profile_id, "ETH")["available"] == "1.000000000000000001"
    (same,) = caller.rows(f"/v2/transfer/transfers?crypto_tx_hashes={done['crypto_tx_hash']}")
    assert same == done


@pytest.mark.parametrize("given", ["amount", "total"])
def test_a_fee_quote_is_guaranteed_for_five_minutes(
    sandbox: Sandbox, caller: Caller, given: str
) -> None:
    """§4.16."""
    body = {
        "asset": "USDC", "destination_address": "0x" + "ab" * 20, "crypto_network": "ETHEREUM",
        given: "100.00",
    }  # fmt: skip
    quote = caller.post(QUOTES, body).json()
    assert Decimal(quote["amount"]) + Decimal(quote["fee"]) == Decimal(quote["total"])
    assert quote[given] == "100.00"
    assert quote["fee"] == "3.00"
    assert quote["expires_at"] == "2026-11-01T00:05:00.000000Z"
    assert (quote["asset"], quote["destination_address"]) == ("USDC", "0x" + "ab" * 20)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"total": "1"}, 400), ({"amount": None}, 400), ({"amount": "0"}, 400),
        ({"amount": "1.001"}, 400), ({"asset": "USD"}, 400), ({"asset": "XYZ"}, 400),
        ({"amount": None, "total": "3.00"}, 400), ({"crypto_network": None}, 400),
        ({"destination_address": ""}, 400), ({"amount": "99999999999999999999"}, 400),
        ({"identity_id": MISSING}, 404),
    ],
)  # fmt: skip
def test_fee_quotes_are_validated(caller: Caller, change: dict[str, Any], status: int) -> None:
    """§7."""
    body = {
        "asset": "USDC", "destination_address": "0x" + "ab" * 20, "crypto_network": "ETHEREUM",
        "amount": "10",
    }  # fmt: skip
    assert_problem(caller.post(QUOTES, body | change), status)


SPELLED = {
    "BITCOIN": ("1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "bc1" + "q" * 39, "tb1" + "q" * 39),
    "LITECOIN": ("LM2WMpR1Rp6j3Sa59cMXMs1SPzj9eXpGc1", "ltc1" + "q" * 39),
    "BITCOIN_CASH": ("bitcoincash:q" + "p" * 41, "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"),
    "SOLANA": ("7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV",),
    "STELLAR": ("GDQE7IXJ4HUHV6RQHIUPRJSEZE4DRS5WY577O2FY6YQ5LVWZ7JZTU2V5",),
    "XLAYER": ("0x89205A3A3b2A69De6Dbf7f01ED13B2108B2c43e7",),
    "BASE": ("0x89205A3A3b2A69De6Dbf7f01ED13B2108B2c43e7",),
}
"""Network → addresses as they are spelled on it; the old ones of Bitcoin are those of both."""


@pytest.mark.parametrize("network", SPELLED)
def test_an_address_suits_its_network(sandbox: Sandbox, caller: Caller, network: str) -> None:
    """§2.7: in a quote, in a rule's destination and where the operator saves one."""
    body = {"asset": "USDC", "crypto_network": network, "amount": "10.00"}
    end = {"source_asset": "USD", "destination_asset": "USDC", "source": {"fiat": WIRE_ABA}}
    for other, addresses in SPELLED.items():
        for number, address in enumerate(addresses):
            fits = address in SPELLED[network]
            quote = caller.post(QUOTES, {**body, "destination_address": address})
            assert quote.status_code == (200 if fits else 400), (other, address)
            rule = {
                **end, "profile_id": sandbox.profile_ids[0], "ref_id": f"{other} {number}",
                "destination": {"crypto": {"network": network, "address": address}},
            }  # fmt: skip
            made = caller.post("/v2/orchestration/rules", rule)
            assert made.status_code == (200 if fits else 400)
            if not fits:
                problem = assert_problem(quote, 400)
                assert problem["meta"]["field"] == "destination_address"
                assert f"is not an address of {network}" in problem["detail"]
                with pytest.raises(SandboxError, match="is not an address of"):
                    sandbox.control.add_destination_address(network, address)


WIRE_ABA = {"network": "WIRE", "account_type": "ABA"}


def test_an_end_users_quote_needs_a_saved_address(sandbox: Sandbox, caller: Caller) -> None:
    """§4.16."""
    user = sandbox.control.add_identity()["identity_id"]
    body = {
        "asset": "BTC", "destination_address": "bc1" + "q" * 39, "crypto_network": "BITCOIN",
        "amount": "0.5", "identity_id": user,
    }  # fmt: skip
    assert_problem(caller.post(QUOTES, body), 404)
    sandbox.control.add_destination_address("BITCOIN", "bc1" + "q" * 39, identity_id=user)
    assert caller.post(QUOTES, body).json()["fee"] == "0.000025"
