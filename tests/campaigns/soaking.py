"""A program that works at a sandbox for as long as it is told: syncs, payments, deposits.

Run with the path of its instructions (JSON). It prints one JSON object when it has warmed up, and
one with what it did when its time is over and everything that failed was done again in calm.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fundlab as fl
from fundlab.base.errors import CallError

SYNC_EVERY_S, PAY_EVERY_S, DEPOSIT_EVERY_S, COMPACT_EVERY = 15.0, 1.0, 60.0, 20
DEPOSIT = "5000.00"


class Worker:
    """One client and one store, as a scheduled job and a notebook would share them."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.client = fl.connect(**given["connection"], store=given["store"])
        self.store = fl.Store(given["store"])
        self.account = given["fiat_account_id"]
        self.instructions = self.client.get_fiat_deposit_instructions(given["instructions_id"])
        self.done: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.unexpected: list[BaseException] = []
        self.failed: list[int] = []

    def warm_up(self) -> None:
        """Fill what is bounded: page caches by a sync of everything, the log of requests."""
        self.store.sync(self.client)
        for _ in range(self.given["warm_calls"]):
            self.client.get_profile_balance(self.given["profile_ids"][0], "USD")

    def work(self) -> None:
        jobs = (
            (self.sync, SYNC_EVERY_S), (self.pay, PAY_EVERY_S), (self.deposit, DEPOSIT_EVERY_S),
        )  # fmt: skip
        end, pace = time.monotonic() + self.given["seconds"], self.given["pace"]
        threads = [
            threading.Thread(target=self.repeat, args=(job, every / pace, end))
            for job, every in jobs
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def repeat(self, job: Callable[[int], None], every_s: float, end: float) -> None:
        """``job`` at a steady pace; what was late is made up for."""
        number, due = 0, time.monotonic()
        while due < end and not self.unexpected:
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                job(number)
                self.done[job.__name__] += 1
            except CallError as error:
                self.errors[f"{job.__name__}: {type(error).__name__}"] += 1
                if job == self.pay:
                    self.failed.append(number)
            except BaseException as error:  # noqa: BLE001 - kept, and raised in the main thread
                self.unexpected.append(error)
            number, due = number + 1, due + every_s

    def sync(self, number: int) -> None:
        self.store.sync(self.client)
        if number % COMPACT_EVERY == COMPACT_EVERY - 1:
            self.store.compact()

    def pay(self, number: int) -> None:
        """Every payment differs, so that each is an intent of its own."""
        profiles = self.given["profile_ids"]
        plan = fl.plan_withdrawal(
            self.client, profile_id=profiles[number % len(profiles)],
            fiat_account_id=self.account, amount=amount(number), say=lambda _: None,
        )  # fmt: skip
        plan.submit(confirm=plan.code)

    def deposit(self, _: int) -> None:
        fl.simulate_deposit(self.client, self.instructions, DEPOSIT)

    def settle(self) -> None:
        """Once more, what failed."""
        for number in self.failed:
            self.pay(number)


def amount(number: int) -> str:
    return f"{1 + number // 100}.{number % 100:02d}"


def main() -> None:
    warnings.simplefilter("ignore", fl.errors.IgnoredFilterWarning)
    worker = Worker(json.loads(Path(sys.argv[1]).read_text()))
    worker.warm_up()
    say({"warm": True})
    sys.stdin.readline()
    worker.work()
    if worker.unexpected:
        raise worker.unexpected[0]
    say({"done": worker.done, "errors": worker.errors})
    sys.stdin.readline()
    worker.settle()
    say({"settled": len(worker.failed)})


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
