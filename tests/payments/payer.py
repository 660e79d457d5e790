"""A process that pays, to be killed: it shares nothing with the test but the store on disk."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pandas as pd

import fundlab as fl
from fundlab.base.errors import CallError
from fundlab.client.client import Client
from fundlab.client.transport import Environment
from fundlab.sandbox.serve import Sandbox

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["pytest", "fundlab.payments.actions", "fundlab.cli"])


@dataclass(frozen=True)
class Orders:
    """What to pay with which credential, one by one or as a ``batch``."""

    connection: Mapping[str, str]
    store: Path
    journal: Path
    payments: Sequence[Mapping[str, str]]
    batch: bool = False

    def client(self) -> Client:
        settings = fl.connect(**self.connection, store=self.store, journal=self.journal).settings
        return Client(settings, environment=Environment(sleep=lambda seconds: None))


def orders(sandbox: Sandbox, store: Path, payments: Sequence[Mapping[str, str]]) -> Orders:
    names = ("base_url", "auth_url", "client_id", "client_secret")
    connection = {name: getattr(sandbox, name) for name in names}
    return Orders(connection, store, Path(os.environ["FUNDLAB_JOURNAL"]), payments)


def pay(wanted: Orders, said: list[str]) -> int:
    """Pay everything; how many payments could not be finished."""
    client, failed = wanted.client(), 0
    if wanted.batch:
        fl.plan_withdrawals(client, pd.DataFrame(wanted.payments), say=said.append).submit()
        return 0
    for payment in wanted.payments:
        try:
            plan = fl.plan_withdrawal(client, say=said.append, **payment)
            plan.submit(confirm=plan.code)
        except CallError:
            failed += 1
    return failed


def _main(wanted: Orders, channel: Connection) -> None:
    said: list[str] = []
    channel.send("ready")
    channel.recv()
    channel.send((pay(wanted, said), said))


@dataclass
class Payer:
    """A process about to pay."""

    wanted: Orders
    process: ForkServerProcess = field(init=False)
    channel: Connection = field(init=False)

    def __post_init__(self) -> None:
        self.channel, theirs = _PROCESSES.Pipe()
        self.process = _PROCESSES.Process(target=_main, args=(self.wanted, theirs))
        self.process.start()
        theirs.close()
        assert self.channel.recv() == "ready"

    def start(self) -> None:
        self.channel.send("go")

    def result(self) -> tuple[int, list[str]]:
        """How many payments could not be finished, and what was said."""
        found: tuple[int, list[str]] = self.channel.recv()
        self.close()
        return found

    def kill_after(self, seconds: float) -> bool:
        """Kill it that much later, as a power cut would; whether it was still at work."""
        at_work = not self.channel.poll(seconds)
        self.process.kill()
        self.close()
        return at_work

    def close(self) -> None:
        self.channel.close()
        self.process.join()
        self.process.close()


def run(wanted: Orders) -> tuple[int, list[str]]:
    payer = Payer(wanted)
    payer.start()
    return payer.result()
