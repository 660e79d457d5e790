"""Any paging gives the truth, over HTTP: stores that grow while the service does its worst.

Tokens lapse in mid-list, pages come twice, answers are lost or cut, and deposits show themselves
under times long gone. In the end each store is what the service lists. (Insertions between any two
pages, equal times, reordered rows and filters that are not honoured: ``tests/test_schedules.py``.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import fundlab as fl
from fundlab.base.errors import CallError
from fundlab.cli.demo import BANK, OWNER
from fundlab.client.client import Client
from fundlab.client.transport import Environment
from fundlab.sandbox import Sandbox

ROWS = 2_300  # three pages
FAULTS: tuple[dict[str, Any], ...] = (
    {"kind": "lapse_token", "probability": 0.03},  # twice in one call is a refusal
    {"kind": "duplicate_page", "probability": 0.4},
    {"kind": "reset", "probability": 0.05},
    {"kind": "lost", "probability": 0.05},
    {"kind": "truncate", "probability": 0.05},
    {"kind": "status", "status": 503, "probability": 0.05},
    {"kind": "late", "seconds": 840, "probability": 0.5},
)


class Bench:
    """A sandbox with a history, an account to pay, instructions to be paid by."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        ready = sandbox.connect()
        self.client = Client(ready.settings, environment=Environment(sleep=lambda seconds: None))
        self.profile_id = sandbox.profile_ids[0]
        self.memo = self.client.create_fiat_deposit_instructions(
            profile_id=self.profile_id, fiat_network="WIRE", routing_number_type="ABA"
        )
        self.account = self.client.create_fiat_account(
            fiat_account_owner=OWNER, fiat_network_instructions=BANK
        )
        self.receive("100000.00")
        sandbox.clock.advance(1_000)

    def receive(self, amount: str) -> None:
        fl.simulate_deposit(self.client, self.memo, amount)

    def pay(self, amount: str) -> None:
        self.client.create_fiat_withdrawal(
            amount=amount, asset="USD", profile_id=self.profile_id,
            fiat_account_id=str(self.account.id),
        )  # fmt: skip


@pytest.fixture
def bench(seed: int) -> Iterator[Bench]:
    with fl.sandbox.serve(seed=seed, transfers=ROWS, clock="manual") as sandbox:
        found = Bench(sandbox)
        yield found
        found.client.close()


@pytest.mark.parametrize("count", [2, pytest.param(40, marks=pytest.mark.campaign)])
def test_schedules(bench: Bench, tmp_path: Path, seed: int, figure: Any, count: int) -> None:
    struck: Counter[str] = Counter()
    rows = 0
    for number in range(count):
        chance = Random(f"{seed} {number}")
        store = fl.Store(tmp_path / str(number))
        for fault in FAULTS:
            bench.sandbox.faults.add(**fault, seed=chance.getrandbits(32))
        for _ in range(chance.randint(1, 4)):
            happen(bench, chance)
            sync_until_done(store, bench.client, chance)
            if chance.random() < 0.2:
                store.compact()
        struck += Counter({f["kind"]: f["struck"] for f in bench.sandbox.faults.active()})
        bench.sandbox.faults.clear()
        store.sync(bench.client, workers=chance.choice((1, 3)))
        rows += check_equal(store, bench)
    times = ", ".join(f"{times} {kind}" for kind, times in sorted(struck.items()))
    figure(f"any paging: {count} schedules over HTTP, {times}: {rows:,} rows equal the ledger's")
    assert set(struck) == {fault["kind"] for fault in FAULTS}


def happen(bench: Bench, chance: Random) -> None:
    """Deposits, some of them late, payments, and time that passes."""
    for _ in range(chance.randint(0, 6)):
        act = chance.choice((bench.receive, bench.pay))
        try:
            act(f"{chance.randint(1, 90)}.{chance.choice(('00', '13', '50'))}")
        except CallError:
            continue  # whether it was carried out: the ledger knows
        bench.sandbox.clock.advance(chance.choice((0, 5, 61, 700)))


def sync_until_done(store: fl.Store, client: Client, chance: Random) -> None:
    for _ in range(30):
        try:
            store.sync(client, workers=chance.choice((1, 3, 8)))
        except CallError:
            continue
        return
    pytest.fail("thirty syncs in a row have failed")


def check_equal(store: fl.Store, bench: Bench) -> int:
    """The tables are what the service lists; the balances follow from the transfers."""
    listed = {row.id: (row.status, row.total) for row in bench.client.list_transfers(page_size=999)}
    frame = store.read("transfers", columns=["id", "status", "total"])
    found = zip(frame["id"], frame["status"], frame["total"], strict=True)
    assert {key: (status, total) for key, status, total in found} == listed
    assert len(frame) == len(listed)
    assert set(store.read("events")["id"]) == {row.id for row in bench.client.list_events()}
    verified = store.verify()
    assert verified.ok, str(verified)
    return len(frame)
