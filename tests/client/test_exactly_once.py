"""Payments under every fault at once, kills of the client among them: each made exactly once."""

from __future__ import annotations

import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from killed_payer import amount
from scripted import Received, read_request

from fundlab import sandbox
from fundlab.client.client import Client

LATE_S = 0.05


class FlakyNetwork:
    """Carries requests to ``target``; ``faults`` counts what it did to them."""

    def __init__(self, target: str, seed: int) -> None:
        self._host = urlsplit(target).netloc
        self._draw = random.Random(seed)
        self._lock = threading.Lock()
        self.faults: Counter[str] = Counter()

    def carry(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                while (request := read_request(stream)) is not None:
                    fault = self._fault()
                    answer = self._forward(request)
                    if fault == "request doubled":
                        answer = self._forward(request)
                    elif fault == "answer late":
                        time.sleep(LATE_S)
                    elif fault == "answer lost":
                        return
                    connection.sendall(answer * 2 if fault == "answer doubled" else answer)
        except (OSError, http.client.HTTPException, ValueError):
            return  # one side hung up, or the service cut its answer: so does the network

    def _fault(self) -> str | None:
        with self._lock:
            kinds = ["request doubled", "answer late", "answer lost", "answer doubled"]
            fault = self._draw.choice(kinds) if self._draw.random() < 0.12 else None
            self.faults[str(fault)] += 1
            return fault

    def _forward(self, request: Received) -> bytes:
        upstream = http.client.HTTPConnection(self._host, timeout=30)
        try:
            upstream.request(
                request.method, request.target, request.body or None, dict(request.headers)
            )
            answer = upstream.getresponse()
            body = answer.read()
        finally:
            upstream.close()
        kept = [(k, v) for k, v in answer.getheaders() if k.lower() != "connection"]
        head = "".join(f"{name}: {value}\r\n" for name, value in kept)
        return f"HTTP/1.1 {answer.status} Whatever\r\n{head}\r\n".encode("latin-1") + body


@contextmanager
def flaky_network(target: str, seed: int) -> Iterator[tuple[str, FlakyNetwork]]:
    """The address under which ``target`` is reached over it, and the network."""
    network = FlakyNetwork(target, seed)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=network.carry, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", network
        finally:
            listener.shutdown(socket.SHUT_RDWR)


PAYER = Path(__file__).parent / "killed_payer.py"
OWNER = {"institution_details": {"name": "Harbor Trading LLC"}}
PLENTY = "999999999.00"
WIRE = {
    "wire": {
        "account_number": "000123456789",
        "fiat_account_owner_address": {"country": "US"},
        "routing_details": {
            "routing_number_type": "ABA",
            "routing_number": "021000021",
            "bank_name": "First Bank",
            "bank_address": {"country": "US"},
        },
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


@pytest.mark.thorough
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
