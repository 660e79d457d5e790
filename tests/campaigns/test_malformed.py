"""Malformed input stops loudly: mutated pages and answers are a named error or read to the letter,
and an odd row of a page is set aside as it was sent, beside the others.

Real pages of every table and real answers of every operation, over real HTTP, with things wrong in
their values, structure, text and coding. After an error nothing of the table is stored; some are
followed by a sync from a sound service. Time and memory are those of each trial by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fundlab as fl
from fundlab.cli.demo import BANK, OWNER
from fundlab.client.client import Client
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


MAX_SECONDS, MAX_MB = 5, 512
WORKER = Path(__file__).with_name("mangled.py")


@pytest.mark.parametrize("count", [250, pytest.param(10_000, marks=pytest.mark.campaign)])
def test_mutants(tmp_path: Path, seed: int, figure: Any, count: int) -> None:
    given = {
        "seed": seed, "folder": str(tmp_path / "stores"), "pages": record_pages(),
        "answers": record_answers(),
    }  # fmt: skip
    instructions = tmp_path / "instructions.json"
    instructions.write_text(json.dumps(given))
    trials: list[dict[str, Any]] = []
    while len(trials) < count:
        trials += run_from(instructions, len(trials), count)
    outcomes = Counter(trial["outcome"].partition(":")[0] for trial in trials)
    right = outcomes.pop("right", 0)
    wrong = [trial for trial in trials if not trial["outcome"].isalnum()]
    named = count - right - len(wrong)
    slowest = max(trials, key=lambda trial: trial["cpu"])
    largest = max(trials, key=lambda trial: trial["mb"])
    figure(
        f"malformed input: {count:,} mutated pages and answers: {named:,} named or set aside, "
        f"{right:,} right, {len(wrong)} neither; longest {slowest['cpu']:.2f} s of computing "
        f"({max(trial['seconds'] for trial in trials):.2f} s), most memory {largest['mb']:.0f} MB"
    )
    assert not wrong, wrong[:20]
    assert slowest["cpu"] < MAX_SECONDS, slowest
    assert largest["mb"] < MAX_MB, largest
    assert min(right, named) > count // 20


def run_from(instructions: Path, first: int, count: int) -> list[dict[str, Any]]:
    """The trials up to one that ends the process, which is the last of them."""
    run = subprocess.run(
        [sys.executable, str(WORKER), str(instructions), str(first), str(count)],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    found = [json.loads(line) for line in run.stdout.splitlines()]
    if first + len(found) < count:
        last = {"trial": first + len(found), "outcome": f"died: {run.returncode}"}
        found.append({**last, "cpu": 0.0, "seconds": 0.0, "mb": 0.0})
    return found
