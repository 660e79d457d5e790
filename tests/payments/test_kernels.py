"""A payment notebook in real Jupyter kernels: run twice, in two at once, killed and run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from benches import Bench

pytestmark = pytest.mark.thorough

CELLS = (
    "import fundlab as fl\nclient = fl.connect()",
    "plan = fl.plan_withdrawal(\n    client, profile_id={profile!r}, fiat_account_id={account!r},"
    " amount={amount!r}\n)\nplan",
    "transfer = plan.submit(confirm={code!r})\ntransfer.status",
    "transfer = fl.wait_for(client, transfer)\nfl.journal()",
)
PROGRAM = Path(__file__).with_name("kernel_runs.py")


class Notebook:
    """The notebook of one payment, with its code typed in as a person would."""

    def __init__(self, bench: Bench, amount: str) -> None:
        self.bench, self.amount = bench, amount
        values = {
            "profile": bench.profile_id, "account": bench.account.id, "amount": amount,
            "code": bench.plan(amount).code,
        }  # fmt: skip
        self.cells = [text.format(**values) for text in CELLS]
        self.before = bench.available()

    def start(self, *mode: str, cells: int = len(CELLS)) -> subprocess.Popen[str]:
        service = self.bench.sandbox.announcement()
        names = ("base_url", "auth_url", "client_id", "client_secret")
        settings = {f"FUNDLAB_{name.upper()}": service[name] for name in names}
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *mode],
            env=os.environ | settings | {
                "FUNDLAB_STORE": str(self.bench.store),
                "FUNDLAB_JOURNAL": str(self.bench.client.settings.journal),
            },
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(self.cells[:cells]))
        process.stdin.close()
        return process

    def run(self, times: int = 1) -> list[str]:
        """Execute it in that many fresh kernels at once; what their cells said."""
        with moving(self.bench):
            return [finished(process) for process in [self.start("run") for _ in range(times)]]

    def kill(self, seconds: float) -> bool:
        """Kill a kernel that long after the payment's cells were sent; whether it was at work."""
        return finished(self.start("kill", str(seconds), cells=3)) == "killed at work"

    def check(self) -> None:
        """One transfer, in the service's table and in its ledger."""
        assert [t.amount for t in self.bench.made()] == [Decimal(self.amount)]
        assert self.before - self.bench.available() == Decimal(self.amount) + 25
        assert self.bench.journal()["state"].tolist() == ["done"]


def finished(process: subprocess.Popen[str]) -> str:
    with process:
        assert process.stdout is not None
        try:
            said = process.stdout.read()
            assert process.wait(timeout=90) == 0
        finally:
            process.kill()
    return said.strip()


@contextmanager
def moving(bench: Bench) -> Iterator[None]:
    """Business time goes on while the notebooks wait."""
    stop = threading.Event()

    def advance() -> None:
        while not stop.wait(0.2):
            bench.sandbox.clock.advance(1)

    thread = threading.Thread(target=advance)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_run_twice_in_fresh_kernels_and_then_in_two_at_once(bench: Any) -> None:
    notebook = Notebook(bench, "100.00")
    (first,) = notebook.run()
    (second,) = notebook.run()
    assert "submitted " in first
    assert "already submitted" not in first
    for again in (second, *notebook.run(times=2)):
        assert again.count("already submitted") >= 2  # on the plan's card and under submit()
        assert ", COMPLETED: withdrawal " in again
    notebook.check()


def test_run_for_the_first_time_in_two_kernels_at_once(bench: Any) -> None:
    notebook = Notebook(bench, "101.00")
    said = notebook.run(times=2)
    assert len(said) == 2
    assert all("submitted " in cells for cells in said)
    notebook.check()


def test_killed_and_run_again(bench: Any) -> None:
    notebook = Notebook(bench, "102.00")
    notebook.kill(0.1)
    assert "submitted " in notebook.run()[0]
    notebook.check()
