"""The client and the embedded service, written apart from one interface, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from test_operations import WIRE

from fundlab import sandbox
from fundlab.base import errors
from fundlab.client.doctor import doctor
from fundlab.models import OPERATIONS

OWNER = {"institution_details": {"name": "Harbor Trading LLC"}}


@pytest.fixture(scope="module", params=["ES256", "EdDSA"])
def service(request: pytest.FixtureRequest) -> Iterator[sandbox.Sandbox]:
    with sandbox.serve(
        seed=7, transfers=250, signing=True, signing_alg=request.param, clock="manual"
    ) as running:
        yield running


def test_every_read(service: sandbox.Sandbox) -> None:
    with service.connect() as client:
        transfers = list(client.list_transfers(page_size=40, order="ASC"))
        assert len(transfers) >= 250
        assert len({transfer.id for transfer in transfers}) == len(transfers)
        moments = [transfer.created_at.ns for transfer in transfers if transfer.created_at]
        assert moments == sorted(moments)
        assert client.get_transfer(transfers[0].id) == transfers[0]
        chosen = list(
            client.list_transfers(profile_ids=service.profile_ids[:1], type="WIRE_DEPOSIT")
        )
        assert {row.id for row in chosen} == {
            row.id
            for row in transfers
            if row.profile_id == service.profile_ids[0] and row.type == "WIRE_DEPOSIT"
        }
        events = list(client.list_events(page_size=100))
        assert len(events) >= len(transfers)
        assert len(list(client.list_events(max_rows=7))) == 7
        for address in client.list_crypto_destination_addresses():
            assert address.identity_id is None
        balance = client.get_profile_balance(service.profile_ids[0], "USD")
        assert balance.available >= 0


def test_every_create_once_and_again(service: sandbox.Sandbox) -> None:
    profile = service.profile_ids[0]
    with service.connect() as client:
        creates: list[tuple[str, dict[str, Any]]] = [
            ("create_fiat_deposit_instructions",
             {"profile_id": profile, "fiat_network": "WIRE", "routing_number_type": "ABA",
              "metadata": {"a": "b"}}),
            ("create_fiat_account",
             {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE}),
            ("create_deposit_address", {"profile_id": profile, "crypto_network": "SOLANA"}),
            ("create_orchestration_rule",
             {"profile_id": profile, "source_asset": "USDC", "destination_asset": "USD",
              "source": {"profile": {"profile_id": profile}}}),
        ]  # fmt: skip
        for name, arguments in creates:
            first = getattr(client, name)(ref_id=f"once-{name}", **arguments)
            again = getattr(client, name)(ref_id=f"once-{name}", **arguments)
            assert first.id == again.id, name
            other = dict(arguments)
            if "profile_id" in other:
                other["profile_id"] = service.profile_ids[1]
            else:
                other["fiat_account_owner"] = {"institution_details": {"name": "Other"}}
            with pytest.raises(errors.Conflict, match="belongs to"):
                getattr(client, name)(ref_id=f"once-{name}", **other)


def test_money_in_and_out(service: sandbox.Sandbox) -> None:
    profile = service.profile_ids[0]
    with service.connect() as client:
        before = client.get_profile_balance(profile, "USD").available
        instructions = client.create_fiat_deposit_instructions(
            profile_id=profile, fiat_network="WIRE", routing_number_type="ABA"
        )
        assert instructions.memo_id is not None
        client.initiate_sandbox_fiat_deposit(
            amount="5000.00",
            memo_id=instructions.memo_id,
            fiat_network_instructions=WIRE,
            fiat_account_owner=OWNER,
        )
        service.clock.advance(61)
        middle = client.get_profile_balance(profile, "USD").available
        assert middle - before == Decimal("5000.00")

        account = client.create_fiat_account(
            fiat_account_owner=OWNER, fiat_network_instructions=WIRE
        )
        intent: dict[str, Any] = {
            "ref_id": "pay", "amount": "100.00", "profile_id": profile,
            "fiat_account_id": account.id,
        }  # fmt: skip
        with pytest.raises(errors.ValidationFailed):
            client.create_fiat_withdrawal(**intent)
        service.clock.advance(11)
        assert client.get_fiat_account(account.id).status == "APPROVED"
        transfer = client.create_fiat_withdrawal(**intent)
        assert (transfer.status, transfer.total) == ("PENDING", Decimal("125.00"))
        assert client.create_fiat_withdrawal(**intent).id == transfer.id
        with pytest.raises(errors.Conflict, match=r"amount is '100\.00', not '100\.01'"):
            client.create_fiat_withdrawal(**(intent | {"amount": "100.01"}))
        service.clock.advance(6)
        assert client.get_transfer(transfer.id).status == "COMPLETED"
        after = client.get_profile_balance(profile, "USD").available
        assert middle - after == Decimal("125.00")
        updated = client.update_fiat_account(account.id, metadata={"seen": "yes"})
        assert (updated.status, updated.metadata) == ("PENDING", {"seen": "yes"})
        service.clock.advance(11)
        with pytest.raises(errors.InsufficientFunds) as caught:
            client.create_fiat_withdrawal(**(intent | {"ref_id": "big", "amount": "9999999999"}))
        assert caught.value.meta["asset"] == "USD"


def test_a_quote(service: sandbox.Sandbox) -> None:
    with service.connect() as client:
        quote = client.create_crypto_withdrawal_fee(
            asset="USDC",
            destination_address="0x" + "ab" * 20,
            crypto_network="BASE",
            amount="100.00",
        )
        assert quote.total == (quote.amount or Decimal("NaN")) + quote.fee


def test_refusals(service: sandbox.Sandbox) -> None:
    with service.connect() as client:
        with pytest.raises(errors.NotFound):
            client.get_transfer("a b %2f é")
        with pytest.raises(errors.ValidationFailed):
            list(client.list_transfers(page_cursor="nonsense"))


def test_a_wrong_secret_and_a_wrong_signature(service: sandbox.Sandbox) -> None:
    stranger = service.connect(client_secret="wrong")
    with stranger, pytest.raises(errors.AuthenticationFailed, match="check client_id and client_s"):
        stranger.get_transfer("t")
    branded = service.connect(signature_prefix="other/")
    with branded, pytest.raises(errors.AuthenticationFailed, match="signing_key"):
        branded.get_transfer("t")


def test_the_doctor_finds_nothing(service: sandbox.Sandbox) -> None:
    with service.connect() as client:
        checks = doctor(client.settings)
    assert [check for check in checks if not check.ok] == []
    assert len([check for check in checks if check.name.startswith("scope ")]) == len(
        {operation.scope for operation in OPERATIONS.values()}
    )
