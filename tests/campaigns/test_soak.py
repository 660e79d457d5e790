"""It keeps going: an hour of syncs and payments under faults takes no more and more of anything.

The sandbox and its client are processes of their own, looked at from outside once a second: memory
(RSS), open handles and threads. Flat means that the hour's last sixth has at most 5% more than its
second sixth, of memory in the median, of handles and threads at rest, which is the least of them:
what a sync in progress holds comes and goes. The first sixth is for warming up.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest
from served import Served
from soaking import amount

import fundlab as fl
from fundlab.demo import BANK, OWNER

FLAT = 0.05
FAULTS: tuple[dict[str, Any], ...] = (
    {"kind": "reset", "probability": 0.01},
    {"kind": "lost", "probability": 0.01},
    {"kind": "truncate", "probability": 0.01},
    {"kind": "status", "status": 500, "probability": 0.005},
    {"kind": "status", "status": 503, "probability": 0.01},
    {"kind": "latency", "seconds": 0.2, "probability": 0.02},
    {"kind": "rate_limit", "seconds": 1, "probability": 0.002},
    {"kind": "lapse_token", "probability": 0.002},
    {"kind": "duplicate_page", "operation": "list_transfers", "probability": 0.05},
    {"kind": "late", "seconds": 30, "probability": 0.3},
)


@dataclass
class Watch:
    """What two processes hold, second by second."""

    processes: dict[str, psutil.Process]
    seen: list[dict[str, int]] = field(default_factory=list)

    def look(self) -> None:
        found = {}
        for name, process in self.processes.items():
            with process.oneshot():
                found[f"{name} memory"] = process.memory_info().rss
                found[f"{name} handles"] = process.num_fds()
                found[f"{name} threads"] = process.num_threads()
        self.seen.append(found)

    def levels(self) -> dict[str, tuple[float, float]]:
        """Of each quantity: what was held in the second sixth of the time, and in the last."""
        sixth = len(self.seen) // 6
        early, late = self.seen[sixth : 2 * sixth], self.seen[-sixth:]
        return {name: (level(early, name), level(late, name)) for name in self.seen[0]}


def level(seen: list[dict[str, int]], name: str) -> float:
    of_all = statistics.median if name.endswith("memory") else min
    return float(of_all(found[name] for found in seen))


def test_three_minutes_work(tmp_path: Path, seed: int, figure: Any) -> None:
    """Too short to tell whether memory grows: here handles and threads, and that all is right."""
    growth = soak(tmp_path, seed, figure, seconds=10, transfers=300, warm_calls=0, pace=9)
    for name in ("sandbox handles", "sandbox threads", "client handles", "client threads"):
        assert growth[name] < 2, growth


@pytest.mark.campaign
def test_an_hour(tmp_path: Path, seed: int, figure: Any) -> None:
    growth = soak(tmp_path, seed, figure, seconds=3600, transfers=50_000, warm_calls=10_000)
    assert max(growth.values()) <= FLAT, growth


def soak(
    folder: Path,
    seed: int,
    figure: Any,
    *,
    seconds: int,
    transfers: int,
    warm_calls: int,
    pace: float = 1,
) -> dict[str, float]:
    """Of each quantity, by how much it grew; ``pace`` is how many times as fast as said above."""
    options = ("--transfers", str(transfers), "--seed", str(seed))
    with Served(folder / "sandbox.db", options) as server:
        server.stop()
        server.start()  # without what making the history has left in its memory
        given = instructions_for(server, folder)
        given |= {"seconds": seconds, "warm_calls": warm_calls, "pace": pace}
        with started(given, folder) as worker:
            assert answered(worker) == {"warm": True}
            for number, fault in enumerate(FAULTS):
                server.act("add_fault", **fault, seed=seed + number)
            watch = Watch(
                {
                    "sandbox": psutil.Process(server.process.pid),
                    "client": psutil.Process(worker.pid),
                }
            )
            end = time.monotonic() + seconds
            go_on(worker)
            while time.monotonic() < end and worker.poll() is None:
                watch.look()
                time.sleep(1)
            report = answered(worker)
            struck = sum(fault["struck"] for fault in server.view("faults"))
            server.act("clear_faults")
            server.act("advance", seconds=120)
            go_on(worker)
            settled = answered(worker)["settled"]
            assert worker.wait(60) == 0
        (folder / "seen.json").write_text(json.dumps(watch.seen))
        done, levels = report["done"], watch.levels()
        growth = {name: late / early - 1 for name, (early, late) in levels.items()}
        shown = ", ".join(
            f"{name} {early:,.0f} → {late:,.0f} ({growth[name]:+.1%})"
            for name, (early, late) in levels.items()
        )
        errors = ", ".join(f"{count} {kind}" for kind, count in report["errors"].items())
        figure(
            f"it keeps going: {seconds} s, {done.get('sync', 0)} syncs, {done['pay']} withdrawals "
            f"and {settled} at the second try, {struck} faults ({errors or 'none felt'}): {shown}"
        )
        server.act("advance", seconds=120)
        check_everything_is_right(server, given, done["pay"] + settled)
        server.stop()
    return growth


def instructions_for(server: Served, folder: Path) -> dict[str, Any]:
    """An approved account, profiles with money, and what else the worker must know."""
    profile_ids = server.about["profile_ids"]
    with fl.connect(**server.connection) as client:
        account = client.create_fiat_account(
            fiat_account_owner=OWNER, fiat_network_instructions=BANK
        )
        memos = [
            client.create_fiat_deposit_instructions(
                profile_id=profile_id, fiat_network="WIRE", routing_number_type="ABA"
            )
            for profile_id in profile_ids
        ]
        for memo in memos:
            fl.simulate_deposit(client, memo, "1000000.00")
    server.act("advance", seconds=61)
    return {
        "connection": server.connection, "store": str(folder / "store"),
        "profile_ids": profile_ids, "fiat_account_id": account.id, "instructions_id": memos[0].id,
    }  # fmt: skip


def started(given: dict[str, Any], folder: Path) -> subprocess.Popen[str]:
    path = folder / "instructions.json"
    path.write_text(json.dumps(given))
    program = Path(__file__).with_name("soaking.py")
    return subprocess.Popen(
        [sys.executable, str(program), str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def answered(worker: subprocess.Popen[str]) -> Any:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    assert line, "the worker has died; its traceback stands above"
    return json.loads(line)


def go_on(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    worker.stdin.write("\n")
    worker.stdin.flush()


def check_everything_is_right(server: Served, given: dict[str, Any], payments: int) -> None:
    """As many transfers as intents, a store equal to the ledger, and books that balance."""
    wanted = Counter(Decimal(amount(number)) for number in range(payments))
    store = fl.Store(given["store"])
    with fl.connect(**given["connection"], store=given["store"]) as client:
        store.sync(client, progress=False)
        rows = list(client.list_transfers(page_size=1000))
        journal = fl.journal(given["store"])
    paid = [row for row in rows if row.fiat_account_id == given["fiat_account_id"]]
    assert Counter(row.amount for row in paid) == wanted
    assert len(journal) == payments
    frame = store.read("transfers", columns=["id", "status"])
    assert dict(zip(frame["id"], frame["status"], strict=True)) == {
        row.id: row.status for row in rows
    }
    found = store.verify()
    assert found.ok, str(found)
    assert set(server.view("ledger")["totals"].values()) == {"0.00"}
