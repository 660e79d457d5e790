"""A batch that is killed and run again: every payment is made once. The ledger is asked.

These are real processes; kills at every step, among all else that goes wrong, are the simulation's,
and a single payment in a kernel that is killed is ``test_kernels``'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
from benches import approved_account
from payer import Payer, orders, run

import fundlab as fl
from fundlab.sandbox.serve import Sandbox

FEE = 25
PACE_S = 0.05  # of a batch's payments, so that a kill finds some made and some not


@pytest.fixture(scope="module")
def service() -> Iterator[Sandbox]:
    with fl.sandbox.serve(seed=11, transfers=400, profiles=40, clock="manual") as running:
        yield running


def withdrawn(service: Sandbox, account: str) -> list[dict[str, Any]]:
    """The withdrawals to an account as the sandbox's own table has them."""
    with service.connect() as client:
        rows = client.list_transfers(profile_ids=service.profile_ids, page_size=1000)
        return [row.to_json() for row in rows if row.fiat_account_id == account]


def spendable(service: Sandbox) -> Fraction:
    """What all profiles can spend, from the ledger."""
    entries = service.control.ledger()["accounts"]
    mine = (e for e in entries if e["owner"].startswith("available/") and e["asset"] == "USD")
    return sum((Fraction(entry["balance"]) for entry in mine), Fraction(0))


def new_account(service: Sandbox) -> str:
    with service.connect() as client:
        return approved_account(service, client).id


def richest(service: Sandbox) -> list[str]:
    """The profiles, those with most to spend first."""
    entries = {
        entry["owner"].removeprefix("available/"): Decimal(entry["balance"])
        for entry in service.control.ledger()["accounts"]
        if entry["asset"] == "USD" and entry["owner"].startswith("available/")
    }
    return sorted(entries, key=lambda profile_id: -entries[profile_id])


def many(service: Sandbox, count: int, account: str) -> list[dict[str, str]]:
    """``count`` payments that all differ, spread over the profiles that can afford them."""
    profiles = richest(service)[:30]
    return [
        {
            "profile_id": profiles[number % len(profiles)],
            "fiat_account_id": account,
            "amount": f"{1 + number // len(profiles) * 0.01:.2f}",
        }
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("payments", "kills"), [(20, 4), pytest.param(200, 40, marks=pytest.mark.campaign)]
)
def test_an_interrupted_batch_is_resumed(
    service: Sandbox, tmp_path: Path, figure: Any, payments: int, kills: int
) -> None:
    """Killed ``kills`` times at random, then run to its end."""
    chance, hits, account = Random(payments), 0, new_account(service)
    wanted = replace(orders(service, tmp_path, many(service, payments, account)), batch=True)
    before = spendable(service)
    service.faults.add("latency", "create_fiat_withdrawal", seconds=PACE_S)
    for _ in range(kills):
        payer = Payer(wanted)
        payer.start()
        hits += payer.kill_after(chance.uniform(0.0, 1.5 * PACE_S * payments / kills))
    service.faults.clear()
    said = run(wanted)[1]
    assert said[-1].split(": ", 1)[1].startswith(f"{payments} of {payments} payments submitted")
    made = withdrawn(service, account)
    assert len(made) == len({row["ref_id"] for row in made}) == payments
    total = sum(Fraction(p["amount"]) for p in wanted.payments)
    assert before - spendable(service) == total + payments * FEE
    assert set(fl.journal(tmp_path)["state"]) == {"done"}
    figure(
        f"nobody is paid twice: a batch of {payments}, {kills} kills, {hits} at work: "
        f"{payments} transfers"
    )
    assert hits >= kills // 2
