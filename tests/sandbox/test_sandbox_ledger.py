"""Money: exact, conserved under concurrency, and the sum of the transfers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from decimal import Context, Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from sandbox_caller import Caller, approved_account, fund

from fundlab.errors import SandboxError
from fundlab.sandbox import Sandbox
from fundlab.sandbox.database import SCHEMA, Database
from fundlab.sandbox.ledger import OUTSIDE, Ledger, Overdrawn, available, units, units_text
from fundlab.values import Amount

EXACT = Context(prec=60)


def rebuilt(rows: list[dict[str, Any]]) -> tuple[dict, dict]:
    """Ledger and held balances by the rules for signed changes, in decimals of 60 digits."""
    ledger: defaultdict = defaultdict(Decimal)
    held: defaultdict = defaultdict(Decimal)
    for row in rows:
        key = row["profile_id"], row.get("balance_asset", row["asset"])
        total = Decimal(row["total"])
        if row["status"] == "COMPLETED":
            change = total if row["direction"] == "CREDIT" else -total
            ledger[key] = EXACT.add(ledger[key], change)
        elif row["status"] == "PENDING" and row["direction"] == "DEBIT":
            held[key] = EXACT.add(held[key], total)
    return ledger, held


def test_balances_are_the_sum_of_all_transfers_to_the_last_decimal(
    seeded: Sandbox, reader: Caller
) -> None:
    rows = list(reader.rows("/v2/transfer/transfers?limit=1000"))
    assert len(rows) == 3_000
    ledger, held = rebuilt(rows)
    assert held
    deepest = 0
    for profile_id in seeded.profile_ids:
        for asset in ("USD", "USDG", "PYUSD", "USDP", "USDC", "BTC", "ETH", "SOL", "LTC", "BCH"):
            reported = reader.balance(profile_id, asset)
            sum_ = EXACT.add(Decimal(reported["available"]), Decimal(reported["trading"]))
            key = profile_id, asset
            assert sum_ == EXACT.subtract(ledger[key], held[key]), key
            assert Decimal(reported["available"]) >= 0
            deepest = max(deepest, len(reported["available"].partition(".")[2]))
    assert deepest == 18


def test_the_ledger_holds_per_asset(seeded: Sandbox) -> None:
    audit = seeded.control.ledger()
    assert set(audit["totals"].values()) == {"0.00"}
    assert len(audit["totals"]) == 10


@pytest.mark.parametrize(
    ("clients", "tries", "covered"),
    [(8, 40, 11), pytest.param(32, 300, 37, marks=pytest.mark.slow)],
)
def test_concurrent_withdrawals_never_exceed_the_funds(
    sandbox: Sandbox, caller: Caller, clients: int, tries: int, covered: int
) -> None:
    profile_id = sandbox.profile_ids[0]
    account = approved_account(caller, sandbox)
    fund(caller, sandbox, profile_id, str(Decimal("35.00") * covered + Decimal("34.99")))
    token = caller.token()

    def withdraw(number: int) -> int:
        body = {
            "ref_id": f"w{number}", "amount": "10.00", "asset": "USD",
            "fiat_account_id": account["id"], "profile_id": profile_id,
        }  # fmt: skip
        return requests.post(
            f"{caller.base_url}/v2/transfer/fiat-withdrawals", json=body, timeout=30,
            headers={"Authorization": f"Bearer {token}"},
        ).status_code  # fmt: skip

    with ThreadPoolExecutor(clients) as pool:
        statuses = Counter(pool.map(withdraw, range(tries)))
    assert statuses == {200: covered, 403: tries - covered}
    assert caller.balance(profile_id)["available"] == "34.99"
    sandbox.clock.advance(5)
    assert caller.balance(profile_id)["available"] == "34.99"
    owners = {entry["owner"]: entry["balance"] for entry in sandbox.control.ledger()["accounts"]}
    assert owners["fees"] == f"{25 * covered}.00"
    assert owners[f"held/{profile_id}"] == "0.00"
    assert sandbox.control.ledger()["totals"] == {"USD": "0.00"}


def test_simultaneous_creates_with_one_ref_id_make_one_resource(
    sandbox: Sandbox, caller: Caller
) -> None:
    body = {"profile_id": sandbox.profile_ids[0], "fiat_network": "CUBIX", "ref_id": "one"}
    token = caller.token()

    def create(_: int) -> requests.Response:
        return requests.post(
            f"{caller.base_url}/v2/transfer/fiat-deposit-instructions", json=body, timeout=30,
            headers={"Authorization": f"Bearer {token}"},
        )  # fmt: skip

    with ThreadPoolExecutor(25) as pool:
        answers = list(pool.map(create, range(50)))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 49}
    ids = {
        answer.json()["id"] if answer.ok else answer.json()["meta"]["existing"]["id"]
        for answer in answers
    }
    assert len(ids) == 1


def test_a_balance_of_more_than_20_digits_is_refused_not_wrapped(
    sandbox: Sandbox, caller: Caller
) -> None:
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "99999999999999999999.99")
    assert caller.balance(profile_id)["available"] == "99999999999999999999.99"
    fund(caller, sandbox, profile_id, "0.01")
    newest, _ = caller.rows("/v2/transfer/transfers")
    assert newest["status"] == "FAILED"
    assert newest["secondary_status"]["name"] == "BALANCE_LIMIT"
    assert caller.balance(profile_id)["available"] == "99999999999999999999.99"


@pytest.mark.slow
def test_a_killed_server_keeps_what_it_accepted(tmp_path: Path) -> None:
    """32 clients with funds for 37 of 300, killed in the middle, started again on its file."""
    command = [
        sys.executable, "-c",
        "import sys; from fundlab.sandbox import run; "
        "run(db=sys.argv[1], empty=True, clock='manual')",
        str(tmp_path / "sandbox.db"),
    ]  # fmt: skip
    first, info = start(command)
    try:
        caller = Caller(info["base_url"], info["client_id"], info["client_secret"])
        clock = SimpleNamespace(
            advance=lambda seconds: requests.post(
                f"{info['control_url']}/advance", json={"seconds": seconds}, timeout=5
            )
        )
        account = approved_account(caller, SimpleNamespace(clock=clock))
        profile_id = info["profile_ids"][0]
        fund(caller, SimpleNamespace(clock=clock), profile_id, "1295.00")
        token = caller.token()
        accepted: list[str] = []

        def withdraw(number: int) -> None:
            body = {
                "ref_id": f"w{number}", "amount": "10.00", "asset": "USD",
                "fiat_account_id": account["id"], "profile_id": profile_id,
            }  # fmt: skip
            if number == 20:
                os.kill(first.pid, signal.SIGKILL)
            try:
                answer = requests.post(
                    f"{info['base_url']}/v2/transfer/fiat-withdrawals", json=body, timeout=30,
                    headers={"Authorization": f"Bearer {token}"},
                )  # fmt: skip
            except requests.ConnectionError:
                return
            if answer.ok:
                accepted.append(body["ref_id"])

        with ThreadPoolExecutor(32) as pool:
            list(pool.map(withdraw, range(300)))
        caller.close()
    finally:
        first.kill()
        first.communicate()
    assert 0 < len(accepted) < 37
    second, info = start(command)
    try:
        caller = Caller(info["base_url"], info["client_id"], info["client_secret"])
        rows = list(caller.rows("/v2/transfer/transfers?type=WIRE_WITHDRAWAL"))
        assert set(accepted) <= {row["ref_id"] for row in rows}
        left = Decimal("1295.00") - Decimal("35.00") * len(rows)
        assert Decimal(caller.balance(profile_id)["available"]) == left
        totals = requests.get(f"{info['control_url']}/ledger", timeout=5).json()["totals"]
        assert totals == {"USD": "0.00"}
        caller.close()
    finally:
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=10)
    assert second.returncode == 0


def start(command: list[str]) -> tuple[subprocess.Popen, dict[str, Any]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


# ---------------------------------------------------------------------------- laws


@given(st.integers(-(10**40), 10**40))
def test_units_survive_their_text(value: int) -> None:
    assert units(Decimal(units_text(value))) == value


@given(st.integers(0, 10**20 - 1), st.integers(0, 10**18 - 1))
def test_amounts_become_units_exactly(whole: int, fraction: int) -> None:
    assert units(Amount(f"{whole}.{fraction:018d}")) == whole * 10**18 + fraction


def test_a_posting_must_balance_and_may_not_overdraw(tmp_path: Path) -> None:
    database = Database(None)
    with database.transaction():
        database.run_script(SCHEMA)
        ledger = Ledger(database)
        with pytest.raises(SandboxError, match="does not sum to zero"):
            ledger.post("t", [(OUTSIDE, "USD", -5), (available("p"), "USD", 4)])
        with pytest.raises(SandboxError, match="does not sum to zero"):
            ledger.post("t", [(OUTSIDE, "USD", -5), (available("p"), "USDC", 5)])
        with pytest.raises(Overdrawn):
            ledger.post("t", [(OUTSIDE, "USD", 5), (available("p"), "USD", -5)])
        assert ledger.balances() == {}
        ledger.post("t", [(OUTSIDE, "USD", -5), (available("p"), "USD", 5)])
        assert ledger.audit() == {"USD": 0}
    database.close()
