"""It keeps going: a day of business time with a hundred clients takes no more and more of anything.

The sandbox and its clients are processes of their own, looked at from outside after each hour:
memory (RSS), open handles and threads. Flat means that the last quarter has at most 5% more than
the second, of memory in the median, of handles and threads at rest, which is the least of them. The
first quarter is for warming up.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from crowd import FUNDS
from served import Served

import fundlab as fl
from fundlab.cli.demo import BANK, OWNER

FLAT, FLAT_TIME = 0.05, 0.2


@dataclass
class Watch:
    """What two processes hold, hour by hour."""

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

    def levels(self, parts: int) -> dict[str, list[float]]:
        """Of each quantity: what was held in each of so many parts of the time."""
        length = len(self.seen) // parts
        each = [self.seen[part * length :][:length] for part in range(parts)]
        return {name: [level(part, name) for part in each] for name in self.seen[0]}


def level(seen: list[dict[str, int]], name: str) -> float:
    of_all = statistics.median if name.endswith("memory") else min
    return float(of_all(found[name] for found in seen))


def started(program: str, given: dict[str, Any], folder: Path) -> subprocess.Popen[str]:
    path = folder / "instructions.json"
    path.write_text(json.dumps(given))
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(program)), str(path)],
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


def test_four_hours_of_ten_clients(tmp_path: Path, seed: int, figure: Any) -> None:
    """Too short to tell whether memory grows: here handles and threads, and that all is right."""
    growth = crowd(tmp_path, seed, figure, hours=4, clients=10, transfers=300, warm=0)
    for name in ("sandbox handles", "sandbox threads", "clients handles", "clients threads"):
        assert growth[name] <= 0, growth


@pytest.mark.campaign
def test_a_day_of_a_hundred_clients(tmp_path: Path, seed: int, figure: Any) -> None:
    growth = crowd(
        tmp_path, seed, figure, hours=24, clients=100, transfers=50_000, warm=10_000
    )  # fmt: skip
    assert growth.pop("sandbox ms of processor a request") <= FLAT_TIME, growth
    assert max(growth.values()) <= FLAT, growth


def crowd(
    folder: Path, seed: int, figure: Any, *, hours: int, clients: int, transfers: int, warm: int
) -> dict[str, float]:
    """Business ``hours`` in which ``clients`` work at once: the fast clock is moved on when all are
    done, and the access clock with it, so that tokens expire each hour. Of each quantity, after
    each hour, by how much it grew from the second quarter to the last."""
    options = ("--transfers", str(transfers), "--seed", str(seed), "--clock", "fast")
    with Served(folder / "sandbox.db", options) as server:
        server.stop()
        server.start()  # without what making the history has left in its memory
        customers = []
        for number in range(clients):
            made = server.act("add_credential", client_id=f"client-{number}", new_customer=True)
            server.act("deposit", profile_id=made["profile_ids"][0], amount=FUNDS)
            own = {name: made[name] for name in ("client_id", "client_secret")}
            customers.append(
                {"connection": server.connection | own, "profile_id": made["profile_ids"][0]}
            )
        account = {"fiat_account_owner": OWNER, "fiat_network_instructions": BANK}
        given = {"customers": customers, "account": account}
        with started("crowd.py", given, folder) as worker, requests.Session() as operator:
            assert answered(worker) == {"ready": clients}
            # what is bounded is full before the first look: the log of requests, and the pages that
            # the database keeps in memory
            for _ in range(warm):
                operator.get(f"{server.about['base_url']}/nothing", timeout=60)
            with fl.connect(**server.connection) as reader:
                assert len(list(reader.list_transfers(page_size=1000))) == transfers
            sandbox = psutil.Process(server.process.pid)
            watch = Watch({"sandbox": sandbox, "clients": psutil.Process(worker.pid)})
            took_ms: list[list[float]] = []
            cost_ms: list[float] = []
            for hour in range(hours):
                server.act("advance", seconds=3600)
                server.act("shift_access", seconds=3600 * (hour + 1))
                busy_s = sum(sandbox.cpu_times()[:2])
                go_on(worker)
                took_ms.append(answered(worker))
                cost_ms.append((sum(sandbox.cpu_times()[:2]) - busy_s) * 1e3 / len(took_ms[-1]))
                watch.look()
            assert worker.stdin is not None
            worker.stdin.close()
            assert worker.wait(60) == 0
        assert set(server.view("ledger")["totals"].values()) == {"0.00"}
        server.stop()
    quarters = [slice(number * hours // 4, (number + 1) * hours // 4) for number in range(4)]
    levels = watch.levels(4)
    levels["sandbox ms of processor a request"] = [statistics.median(cost_ms[q]) for q in quarters]
    growth = {name: level[-1] / level[1] - 1 for name, level in levels.items()}
    took = [sorted(one for hour in took_ms[quarter] for one in hour) for quarter in quarters]
    levels["latency ms, median"] = [one[len(one) // 2] for one in took]
    levels["latency ms, 95 of 100"] = [one[len(one) * 95 // 100] for one in took]
    shown = "; ".join(
        f"{name} {' → '.join(f'{one:,.0f}' if one > 1e3 else f'{one:.3g}' for one in level)}"
        for name, level in levels.items()
    )
    figure(
        f"it keeps going: {hours} hours of business time, {clients} clients at once, "
        f"{sum(map(len, took)):,} calls, by quarter: {shown}"
    )
    return growth
