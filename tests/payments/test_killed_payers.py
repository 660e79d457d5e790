"""Killed at any instant, run again: every confirmed payment is made once. The ledger is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
from benches import approved_account
from payer import Orders, Payer, orders, run

import fundlab as fl
from fundlab.sandbox.serve import Sandbox

FEE = 25
WAYS = ("notebook", "command")
PACE_S = 0.05  # of a batch's payments, so that a kill finds some made and some not
LONGEST_S = 0.12  # what one plan and its submission take here, and some more


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


def one_payment(service: Sandbox, store: Path, amount: str = "10.00") -> Orders:
    rich = richest(service)[0]
    payment = {"profile_id": rich, "fiat_account_id": new_account(service), "amount": amount}
    return orders(service, store, [payment])


def richest(service: Sandbox) -> list[str]:
    """The profiles, those with most to spend first."""
    entries = {
        entry["owner"].removeprefix("available/"): Decimal(entry["balance"])
        for entry in service.control.ledger()["accounts"]
        if entry["asset"] == "USD" and entry["owner"].startswith("available/")
    }
    return sorted(entries, key=lambda profile_id: -entries[profile_id])


def check_one(service: Sandbox, wanted: Orders, before: Fraction) -> None:
    made = withdrawn(service, wanted.payments[0]["fiat_account_id"])
    assert [row["amount"] for row in made] == ["10.00"]
    assert before - spendable(service) == 10 + FEE
    assert fl.journal(wanted.store)["state"].tolist() == ["done"]


def kill_and_run_again(service: Sandbox, store: Path, seconds: float) -> bool:
    wanted = one_payment(service, store)
    before = spendable(service)
    payer = Payer(wanted)
    payer.start()
    at_work = payer.kill_after(seconds)
    left = fl.journal(store)
    failed, said = run(wanted)
    assert failed == 0
    paid_before = len(left) == 1 and said[0].startswith("already submitted")
    assert paid_before or said[0].startswith("submitted")
    check_one(service, wanted, before)
    return at_work


@pytest.mark.seconds
def test_killed_and_run_again_pays_once(service: Sandbox, tmp_path: Path) -> None:
    kill_and_run_again(service, tmp_path, LONGEST_S / 2)


@pytest.mark.campaign
def test_killed_at_a_hundred_random_instants(
    service: Sandbox, tmp_path: Path, seed: int, figure: Any
) -> None:
    chance = Random(seed)
    at_work = [
        kill_and_run_again(service, tmp_path / str(trial), chance.uniform(0, LONGEST_S))
        for trial in range(100)
    ]
    figure(f"nobody is paid twice: 100 kills, {sum(at_work)} of them at work: 100 transfers")
    assert sum(at_work) > 50


@pytest.mark.thorough
def test_two_processes_at_once_pay_once(service: Sandbox, tmp_path: Path) -> None:
    for trial in range(2):
        wanted = one_payment(service, tmp_path / str(trial))
        before = spendable(service)
        payers = [Payer(wanted) for _ in range(3)]
        for payer in payers:
            payer.start()
        results = [payer.result() for payer in payers]
        assert [failed for failed, _ in results] == [0, 0, 0]
        assert all(len(said) == 1 for _, said in results)
        check_one(service, wanted, before)


def arm(service: Sandbox, seed: int) -> None:
    """Everything a network does to a request and its answer, at random."""
    faults = service.faults
    for kind, share in (("lost", 0.06), ("reset", 0.04), ("truncate", 0.04)):
        faults.add(kind, "create_fiat_withdrawal", probability=share, seed=seed)  # type: ignore[arg-type]
        faults.add(kind, probability=share / 4, seed=seed + 1)  # type: ignore[arg-type]
    for status, share in ((500, 0.03), (503, 0.03)):
        faults.add(
            "status", "create_fiat_withdrawal", status=status, probability=share, seed=seed + status
        )
    faults.add("latency", "create_fiat_withdrawal", seconds=0.05, probability=0.05, seed=seed)


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


def pay_through_faults_and_kills(service: Sandbox, store: Path, count: int, seed: int) -> int:
    """Pay ``count`` times while everything goes wrong; how often the payer was killed.

    From a notebook and by the command line: killed in one, a payment may be finished by the other.
    """
    chance, kills, account = Random(seed), 0, new_account(service)
    payments, before = many(service, count, account), spendable(service)
    confirmed = Counter((p["profile_id"], Decimal(p["amount"])) for p in payments)
    left = payments
    arm(service, seed)
    while left:
        batch, left = left[:25], left[25:]
        told = replace(
            orders(service, store, batch),
            twice=0.05, by=chance.choice(WAYS), seed=chance.getrandbits(32),
        )  # fmt: skip
        payer = Payer(told)
        payer.start()
        if chance.random() < 0.5:
            payer.result()
        elif payer.kill_after(chance.uniform(0.0, 0.5)):
            kills += 1
            left = left + batch if chance.random() < 0.5 else batch + left
    service.faults.clear()
    for by in WAYS:  # the whole notebook and every command once more, in calm
        failed, _ = run(replace(orders(service, store, payments), by=by))
        assert failed == 0
    made = withdrawn(service, account)
    assert Counter((row["profile_id"], Decimal(row["amount"])) for row in made) == confirmed
    assert len({row["ref_id"] for row in made}) == count
    total = sum(Fraction(p["amount"]) for p in payments)
    assert before - spendable(service) == total + count * FEE
    rows = fl.journal(store)
    assert (len(rows), set(rows["state"])) == (count, {"done"})
    assert rows["amount"].sum() == total
    return kills


@pytest.mark.parametrize(
    ("parts", "count"), [(1, 50), pytest.param(10, 1_000, marks=pytest.mark.campaign)]
)
def test_plans_under_faults_and_kills(
    tmp_path: Path, seed: int, figure: Any, parts: int, count: int
) -> None:
    kills = 0
    for part in range(parts):
        with fl.sandbox.serve(seed=part, transfers=2_000, profiles=60, clock="manual") as service:
            store = tmp_path / str(part)
            kills += pay_through_faults_and_kills(service, store, count, seed=100 * seed + part)
    figure(
        f"nobody is paid twice: {parts * count:,} withdrawals from the notebook and the command "
        f"line, {kills} kills: {parts * count:,} transfers, one of each intent"
    )
    assert kills > parts * count // 100


@pytest.mark.parametrize(
    ("payments", "kills"), [(20, 4), pytest.param(200, 40, marks=pytest.mark.campaign)]
)
def test_an_interrupted_batch_is_resumed(
    service: Sandbox, tmp_path: Path, figure: Any, payments: int, kills: int
) -> None:
    """Killed ``kills`` times at random, then run to its end."""
    chance, hits, account = Random(payments), 0, new_account(service)
    wanted = replace(orders(service, tmp_path, many(service, payments, account)), by="batch")
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
