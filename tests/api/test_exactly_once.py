"""Payments under every fault at once, kills of the client among them: each made exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from flaky_network import flaky_network
from killed_payer import amount

from fundlab import sandbox
from fundlab.api.client import Client

PAYER = Path(__file__).parent / "killed_payer.py"
OWNER = {"institution_details": {"name": "Harbor Trading LLC"}}
PLENTY = "999999999.00"
WIRE = {
    "wire": {
        "account_number": "000123456789",
        "routing_details": {"routing_number_type": "ABA", "routing_number": "021000021"},
    }
}
FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("lost", {"probability": 0.06}),
    ("reset", {"probability": 0.04}),
    ("truncate", {"probability": 0.04}),
    ("latency", {"probability": 0.02, "seconds": 0.05}),
    ("rate_limit", {"probability": 0.02, "seconds": 0}),
    ("status", {"probability": 0.03, "status": 503}),
    ("status", {"probability": 0.02, "status": 500}),
    ("lapse_token", {"probability": 0.01}),
]


def funded(service: sandbox.Sandbox, client: Client) -> dict[str, str]:
    """A profile with plenty of money and an account to pay to: the arguments of a withdrawal."""
    profile = service.profile_ids[0]
    instructions = client.create_fiat_deposit_instructions(
        profile_id=profile, fiat_network="WIRE", routing_number_type="ABA"
    )
    client.initiate_sandbox_fiat_deposit(
        amount=PLENTY,
        memo_id=instructions.memo_id or "",
        fiat_network_instructions=WIRE,
        fiat_account_owner=OWNER,
    )
    account = client.create_fiat_account(
        fiat_account_owner=OWNER, fiat_network_instructions={"cubix": {"account_id": "cx-1"}}
    )
    service.clock.advance(61)
    return {"profile_id": profile, "fiat_account_id": account.id}


def pay_under_faults(folder: Path, count: int, deadliness: float, timeout: float) -> Counter[str]:
    """Returns how often the client was killed, by place, and what the network did."""
    journal, instructions = folder / "journal", folder / "instructions.json"
    with (
        sandbox.serve(seed=3, transfers=1, signing=True, clock="manual") as service,
        service.connect() as plain,
        flaky_network(service.base_url, seed=5) as (url, network),
    ):
        arguments = funded(service, plain)
        before = plain.get_profile_balance(arguments["profile_id"], "USD").available
        for seed, (kind, options) in enumerate(FAULTS):
            for operation in ("create_fiat_withdrawal", "token"):
                if operation == "token" and kind in ("lapse_token", "latency"):
                    continue
                service.faults.add(kind, operation=operation, seed=seed, **options)  # type: ignore[arg-type]
        settings = {
            "base_url": url,
            "auth_url": url,
            "client_id": service.client_id,
            "client_secret": service.client_secret,
            "signing_key": str(service.signing_key),
            "signing_key_id": service.signing_key_id,
        }
        instructions.write_text(
            json.dumps(
                {
                    "seed": 11,
                    "count": count,
                    "deadliness": deadliness,
                    "journal": str(journal),
                    "settings": settings,
                    "arguments": arguments,
                }
            )
        )
        payer = subprocess.run(
            [sys.executable, str(PAYER), str(instructions)],
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        assert payer.returncode == 0, payer.stderr[-3000:]
        service.faults.clear()
        lines = [line.split(maxsplit=2) for line in journal.read_text().splitlines()]
        made = {int(line[1]): line[2] for line in lines if line[0] == "made"}
        paid = {
            row.ref_id: row
            for row in plain.list_transfers(type="CUBIX_WITHDRAWAL", page_size=1000)
            if str(row.ref_id).startswith("intent-")
        }
        rows = [
            row
            for row in plain.list_transfers(page_size=1000)
            if row.fiat_account_id == arguments["fiat_account_id"]
        ]
        after = plain.get_profile_balance(arguments["profile_id"], "USD").available
    assert sorted(made) == list(range(count))
    assert len(rows) == count, "resources created = intents"
    assert {ref_id: row.id for ref_id, row in paid.items()} == {
        f"intent-{number}": id_ for number, id_ in made.items()
    }
    spent = sum((Decimal(amount(number)) for number in range(count)), Decimal(0))
    assert before - after == spent
    killed = Counter(" ".join(line[1:]) for line in lines if line[0] == "killed")
    return killed + network.faults


def test_payments_under_faults_and_kills_are_made_once(tmp_path: Path) -> None:
    happened = pay_under_faults(tmp_path, count=500, deadliness=0.02, timeout=200)
    print(dict(happened))
    for place in ("before sending", "before reading the answer", "before noting the answer"):
        assert happened[place] >= 1, happened
    for fault in ("request doubled", "answer late", "answer lost", "answer doubled"):
        assert happened[fault] >= 5, happened


@pytest.mark.slow
def test_ten_thousand_payments_under_faults_and_kills_are_made_once(tmp_path: Path) -> None:
    happened = pay_under_faults(tmp_path, count=10_000, deadliness=0.004, timeout=3000)
    print(dict(happened))
    assert happened["before sending"] + happened["before reading the answer"] >= 50, happened
