"""Real answers of the sandbox: two pages of every list table, and one answer of every operation."""

from __future__ import annotations

import json
from typing import Any

import fundlab as fl
from fundlab.api.client import Client
from fundlab.demo import BANK, OWNER
from fundlab.models import OPERATIONS

LISTS = {
    "transfers": "list_transfers",
    "events": "list_events",
    "addresses": "list_crypto_destination_addresses",
    "fiat_accounts": "list_fiat_accounts",
    "deposit_instructions": "list_fiat_deposit_instructions",
}
ROWS = 12


def record_pages() -> dict[str, tuple[str, str]]:
    """For each table a first page, whose cursor is ``more``, and the last one."""
    with (
        fl.sandbox.serve(seed=7, transfers=300, clock="manual") as sandbox,
        sandbox.connect() as client,
    ):
        return {table: two_pages(client, name) for table, name in LISTS.items()}


def two_pages(client: Client, name: str) -> tuple[str, str]:
    items = OPERATIONS[name].items or ""
    whole = json.loads(client.fetch_page(name, [("limit", str(2 * ROWS)), ("order", "ASC")]))
    rows, half = whole[items], len(whole[items]) // 2
    return (
        json.dumps({items: rows[:half], "next_page_cursor": "more"}),
        json.dumps({items: rows[half:], "next_page_cursor": ""}),
    )


def record_answers() -> list[dict[str, Any]]:
    """Each operation, what it was asked with, and the body that came back."""
    with (
        fl.sandbox.serve(seed=7, transfers=300, clock="manual") as sandbox,
        sandbox.connect() as client,
    ):
        return [answer(client, name, given) for name, given in asked(sandbox, client)]


def asked(sandbox: Any, client: Client) -> list[tuple[str, dict[str, Any]]]:
    """Arguments for every operation."""
    profile_id = sandbox.profile_ids[0]
    memo = {"profile_id": profile_id, "fiat_network": "WIRE", "routing_number_type": "ABA"}
    instructions = client.create_fiat_deposit_instructions(**memo)  # type: ignore[arg-type]
    account = client.create_fiat_account(fiat_account_owner=OWNER, fiat_network_instructions=BANK)
    sandbox.clock.advance(11)
    transfer = next(client.list_transfers(page_size=1))
    lists: list[tuple[str, dict[str, Any]]] = [(name, {"page_size": 8}) for name in LISTS.values()]
    found = [
        *lists,
        ("create_fiat_deposit_instructions", {**memo, "ref_id": "i-1"}),
        ("get_fiat_deposit_instructions", {"id": instructions.id}),
        (
            "initiate_sandbox_fiat_deposit",
            {"amount": "5.00", "memo_id": instructions.memo_id, "fiat_account_owner": OWNER,
             "fiat_network_instructions": BANK},
        ),
        ("get_transfer", {"id": transfer.id}),
        ("get_profile_balance", {"profile_id": profile_id, "asset": "USD"}),
        (
            "create_fiat_account",
            {"ref_id": "a-1", "fiat_account_owner": OWNER, "fiat_network_instructions": BANK},
        ),
        ("get_fiat_account", {"id": account.id}),
        ("update_fiat_account", {"id": account.id, "metadata": {"a": "b"}}),
        (
            "create_fiat_withdrawal",
            {"ref_id": "w-1", "amount": "1.00", "fiat_account_id": str(account.id),
             "profile_id": profile_id},
        ),
        ("create_deposit_address", {"profile_id": profile_id, "crypto_network": "SOLANA"}),
        (
            "create_orchestration_rule",
            {"ref_id": "r-1", "profile_id": profile_id, "source_asset": "USDC",
             "destination_asset": "USD", "source": {"crypto": {"network": "SOLANA"}}},
        ),
        (
            "create_crypto_withdrawal_fee",
            {"asset": "USDC", "destination_address": "0x" + "ab" * 20, "crypto_network": "ETHEREUM",
             "amount": "20.00"},
        ),
    ]  # fmt: skip
    assert {name for name, _ in found} == set(OPERATIONS)
    return sorted(found, key=lambda call: call[0] == "update_fiat_account")  # which suspends it


def answer(client: Client, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """One call, with the body of the last answer it took."""
    bodies = []
    send = client.transport.send

    def listened(call: Any) -> Any:
        reply = send(call)
        bodies.append(reply.body.decode())
        return reply

    client.transport.send = listened  # type: ignore[method-assign]
    found = getattr(client, name)(**given)
    if name.startswith("list_"):
        list(found)
    client.transport.send = send  # type: ignore[method-assign]
    return {"operation": name, "arguments": given, "body": bodies[-1]}
