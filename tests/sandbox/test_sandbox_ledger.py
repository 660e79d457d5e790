"""Money (§3.3): exact, conserved under concurrency, and the sum of the transfers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Context, Decimal
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from sandbox_caller import Caller, approved_account, caller_of, deposit, fund, instructions

from fundlab.base.errors import SandboxError
from fundlab.base.values import Amount
from fundlab.sandbox import Sandbox, serve
from fundlab.sandbox.database import SCHEMA, Database
from fundlab.sandbox.ledger import (
    MAX_UNITS,
    OUTSIDE,
    Ledger,
    Overdrawn,
    available,
    held,
    total_of,
    trading,
    units,
    units_text,
)
from fundlab.sandbox.refusals import Refusal
from fundlab.sandbox.world import World
from fundlab.tables.transfers import right_total_of

EXACT = Context(prec=60)


@given(st.sampled_from(["CREDIT", "DEBIT"]), *[st.integers(0, MAX_UNITS)] * 2)
def test_a_total_is_what_the_checks_of_a_store_expect(
    direction: str, amount: int, fee: int
) -> None:
    """§2.4"""
    assert total_of(direction, amount, fee) == right_total_of(direction, amount, fee)


def rebuilt(rows: list[dict[str, Any]]) -> tuple[dict, dict]:
    """Ledger and held balances by the rules for signed changes, in decimals of 60 digits."""
    ledger: defaultdict = defaultdict(Decimal)
    held: defaultdict = defaultdict(Decimal)
    for row in rows:
        key = row["profile_id"], row.get("balance_asset", row["asset"])
        total = Decimal(row["total"])
        if row["status"] == "COMPLETED":
            change = total if row["direction"] == "CREDIT" else total.copy_negate()
            ledger[key] = EXACT.add(ledger[key], change)
        elif row["status"] == "PENDING" and row["direction"] == "DEBIT":
            held[key] = EXACT.add(held[key], total)
    return ledger, held


def test_balances_are_the_sum_of_all_transfers_to_the_last_decimal(
    seeded: Sandbox, reader: Caller
) -> None:
    rows = list(reader.rows("/v2/transfer/transfers?limit=1000"))
    assert len(rows) == 1_200
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


@pytest.mark.thorough
def test_32_clients_withdraw_300_times_with_funds_for_37(sandbox: Sandbox, caller: Caller) -> None:
    profile_id = sandbox.profile_ids[0]
    account = approved_account(caller, sandbox)
    fund(caller, sandbox, profile_id, "1329.99")
    answers = withdraw_at_once(caller, profile_id, account["id"])
    assert Counter(answer.status_code for answer in answers) == {200: 37, 403: 263}
    for answer in answers:
        if not answer.ok:
            assert answer.json()["type"].endswith("insufficient-funds")
    assert caller.balance(profile_id)["available"] == "34.99"
    sandbox.clock.advance(5)
    assert caller.balance(profile_id)["available"] == "34.99"
    owners = {entry["owner"]: entry["balance"] for entry in sandbox.control.ledger()["accounts"]}
    assert owners["fees"] == "925.00"
    assert owners[f"held/{profile_id}"] == "0.00"
    assert sandbox.control.ledger()["totals"] == {"USD": "0.00"}


def withdraw_at_once(
    caller: Caller,
    profile_id: str,
    fiat_account_id: str,
    answered: Callable[[requests.Response], None] = lambda answer: None,
) -> list[requests.Response]:
    """300 withdrawals of 10.00 + 25.00 by 32 clients at once; those that got an answer."""
    token = caller.token()

    def withdraw(number: int) -> requests.Response | None:
        body = {
            "ref_id": f"w{number}", "amount": "10.00", "asset": "USD",
            "fiat_account_id": fiat_account_id, "profile_id": profile_id,
        }  # fmt: skip
        try:
            answer = requests.post(
                f"{caller.base_url}/v2/transfer/fiat-withdrawals", json=body, timeout=30,
                headers={"Authorization": f"Bearer {token}"},
            )  # fmt: skip
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
            return None  # the server was killed
        answered(answer)
        return answer

    with ThreadPoolExecutor(32) as pool:
        return [answer for answer in pool.map(withdraw, range(300)) if answer is not None]


def test_a_withdrawal_and_its_hold_are_one_transaction(
    sandbox: Sandbox, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What breaks between the hold and the event undoes everything, and can be tried again."""
    profile_id = sandbox.profile_ids[0]
    account = approved_account(caller, sandbox)
    fund(caller, sandbox, profile_id, "100.00")
    body = {
        "ref_id": "once", "amount": "10.00", "asset": "USD", "fiat_account_id": account["id"],
        "profile_id": profile_id,
    }  # fmt: skip
    before = sandbox.control.ledger()

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(World, "emit", broken)
        assert caller.post("/v2/transfer/fiat-withdrawals", body).status_code == 500
    caller.http.close()  # the server hangs up after a failure of its own
    assert sandbox.control.ledger() == before
    assert len(list(caller.rows("/v2/transfer/transfers"))) == 1
    assert caller.post("/v2/transfer/fiat-withdrawals", body).status_code == 200
    assert caller.balance(profile_id)["available"] == "65.00"


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

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(create, range(50)))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 49}
    (made,) = [answer.json() for answer in answers if answer.ok]
    for answer in answers:
        if not answer.ok:
            assert answer.json()["meta"]["existing"] == made
    assert list(caller.rows("/v2/transfer/fiat-deposit-instructions")) == [made]


def test_a_balance_of_more_than_20_digits_is_refused_not_wrapped(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§3.3."""
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "99999999999999999999.99")
    assert caller.balance(profile_id)["available"] == "99999999999999999999.99"
    fund(caller, sandbox, profile_id, "0.01")
    newest, _ = caller.rows("/v2/transfer/transfers")
    assert newest["status"] == "FAILED"
    assert newest["status_details"] == {"reason": "the balance would exceed 20 integer digits"}
    assert caller.balance(profile_id)["available"] == "99999999999999999999.99"


def test_money_on_hold_keeps_its_room_in_the_balance(sandbox: Sandbox, caller: Caller) -> None:
    """§3.3: what is given back fits, whatever arrived meanwhile."""
    profile_id = sandbox.profile_ids[0]
    account = approved_account(caller, sandbox)
    memo_id = instructions(caller, profile_id)["memo_id"]
    fund(caller, sandbox, profile_id, "1000.00")
    assert deposit(caller, memo_id, "99999999999999999000.00").ok
    sandbox.clock.advance(57)
    wanted = {
        "amount": "500.13", "asset": "USD", "fiat_account_id": account["id"],
        "profile_id": profile_id,
    }  # fmt: skip
    assert caller.post("/v2/transfer/fiat-withdrawals", wanted).ok
    sandbox.clock.advance(10)
    deposited = caller.get("/v2/transfer/transfers?type=WIRE_DEPOSIT").json()["items"]
    assert [row["status"] for row in deposited] == ["FAILED", "COMPLETED"]
    assert caller.balance(profile_id)["available"] == "1000.00"


# With 31 more on their way at most 36 are accepted when the fifth answer comes, fewer than 37.
@pytest.mark.thorough
@pytest.mark.parametrize("accepted_before", [1, 5])
def test_a_killed_server_keeps_what_it_accepted(tmp_path: Path, accepted_before: int) -> None:
    """The same, killed in the middle and started again on its file: 37 in all, and no cent lost."""
    command = [
        sys.executable, "-c",
        "import sys; from fundlab.sandbox import run; "
        "run(db=sys.argv[1], empty=True, clock='manual')",
        str(tmp_path / "sandbox.db"),
    ]  # fmt: skip
    first, info = start(command)
    accepted: list[str] = []

    def kill_in_the_middle(answer: requests.Response) -> None:
        accepted.append(answer.json()["ref_id"])
        if len(accepted) == accepted_before:
            os.kill(first.pid, signal.SIGKILL)

    try:
        caller = Caller(info["base_url"], info["client_id"], info["client_secret"])
        operator = SimpleNamespace(clock=ClockOverHttp(info["control_url"]))
        account = approved_account(caller, operator)
        profile_id = info["profile_ids"][0]
        fund(caller, operator, profile_id, "1295.00")
        withdraw_at_once(caller, profile_id, account["id"], kill_in_the_middle)
        caller.close()
    finally:
        first.kill()
        first.communicate()
    assert first.returncode == -signal.SIGKILL
    assert accepted_before <= len(accepted) < 37
    second, info = start(command)
    try:
        caller = Caller(info["base_url"], info["client_id"], info["client_secret"])
        kept = {row["ref_id"] for row in caller.rows("/v2/transfer/transfers?type=WIRE_WITHDRAWAL")}
        assert set(accepted) <= kept
        left = Decimal("1295.00") - Decimal("35.00") * len(kept)
        assert Decimal(caller.balance(profile_id)["available"]) == left
        again = Counter(
            answer.status_code for answer in withdraw_at_once(caller, profile_id, account["id"])
        )
        assert again == {200: 37 - len(kept), 409: len(kept), 403: 263}
        assert caller.balance(profile_id)["available"] == "0.00"
        ledger = requests.get(f"{info['control_url']}/ledger", timeout=30).json()
        assert ledger["totals"] == {"USD": "0.00"}
        owners = {entry["owner"]: entry["balance"] for entry in ledger["accounts"]}
        assert owners[f"held/{profile_id}"] == "1295.00"
        caller.close()
    finally:
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=30)
    assert second.returncode == 0


class ClockOverHttp:
    def __init__(self, control_url: str) -> None:
        self._control_url = control_url

    def advance(self, seconds: float) -> None:
        answer = requests.post(
            f"{self._control_url}/advance", json={"seconds": seconds}, timeout=30
        )
        assert answer.ok


def start(command: list[str]) -> tuple[subprocess.Popen, dict[str, Any]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


# ---------------------------------------------------------------------------- laws


CENTS = st.one_of(st.integers(1, 20_000), st.sampled_from([13, 1013, 10**21]))
OPERATIONS = st.one_of(
    st.tuples(st.just("deposit"), CENTS),
    st.tuples(st.just("withdraw"), CENTS),
    st.tuples(st.just("advance"), st.sampled_from([1, 5, 60, 3_600])),
    st.tuples(st.just("convert"), st.sampled_from(["USDG", "PYUSD", "USDP", "USDC"])),
    st.tuples(st.just("trade"), CENTS),
)


@pytest.fixture(scope="module")
def reused() -> Iterator[tuple[Sandbox, Caller]]:
    with serve(empty=True, clock="manual", profiles=2) as sandbox:
        caller = caller_of(sandbox)
        yield sandbox, caller
        caller.close()


@pytest.mark.thorough
@settings(max_examples=25, deadline=None)
@given(st.lists(OPERATIONS, min_size=4, max_size=15))
def test_no_order_of_operations_makes_or_loses_money(
    reused: tuple[Sandbox, Caller], operations: list[tuple[str, Any]]
) -> None:
    sandbox, caller = reused
    sandbox.control.reset()
    profile_id, other = sandbox.profile_ids
    account = approved_account(caller, sandbox)
    memo_id = instructions(caller, profile_id)["memo_id"]
    fund(caller, sandbox, profile_id, "500.00")
    for number, (operation, value) in enumerate(operations):
        amount = f"{value // 100}.{value % 100:02d}" if isinstance(value, int) else ""
        if operation == "deposit":
            assert deposit(caller, memo_id, amount).status_code in (200, 400)
        elif operation == "withdraw":
            body = {
                "amount": amount, "asset": "USD", "fiat_account_id": account["id"],
                "profile_id": profile_id,
            }  # fmt: skip
            answer = caller.post("/v2/transfer/fiat-withdrawals", body)
            assert answer.status_code in (200, 400, 403)
        elif operation == "advance":
            sandbox.clock.advance(value)
        elif operation == "convert":
            rule = {
                "ref_id": f"rule-{number}", "profile_id": profile_id, "source_asset": "USD",
                "destination_asset": value, "source": {"profile": {"profile_id": profile_id}},
                "destination": {"profile": {"profile_id": other}},
            }  # fmt: skip
            answer = caller.post("/v2/orchestration/rules", rule)
            assert answer.status_code in (200, 409)
        else:
            with suppress(Refusal):
                sandbox.control.set_trading(profile_id, "USD", amount)
    assert_nothing_made_or_lost(sandbox, caller)
    sandbox.clock.advance(3_600)
    assert_nothing_made_or_lost(sandbox, caller)


def assert_nothing_made_or_lost(sandbox: Sandbox, caller: Caller) -> None:
    audit = sandbox.control.ledger()
    assert set(audit["totals"].values()) <= {"0.00"}
    booked = {(row["owner"], row["asset"]): Decimal(row["balance"]) for row in audit["accounts"]}
    assert all(balance >= 0 for (owner, _), balance in booked.items() if "/" in owner)
    ledger, held = rebuilt(list(caller.rows("/v2/transfer/transfers?limit=1000")))
    for profile_id in sandbox.profile_ids:
        for asset in ("USD", "USDG", "PYUSD", "USDP", "USDC"):
            key = profile_id, asset
            own = [booked.get((f"{kind}/{profile_id}", asset), 0) for kind in ("available", "held")]
            own.append(booked.get((f"trading/{profile_id}", asset), 0))
            assert reduce(EXACT.add, own) == ledger[key]
            assert own[1] == held[key]


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
        everything = [(available("p"), "USD", -5), (held("p"), "USD", 3), (trading("p"), "USD", 2)]
        ledger.post("t", everything)
        rest = MAX_UNITS - 5
        with pytest.raises(Overdrawn, match=r"p would have 10{20}\.00 USD in all"):
            ledger.post("t", [(OUTSIDE, "USD", -rest - 1), (available("p"), "USD", rest + 1)])
        ledger.post("t", [(OUTSIDE, "USD", -rest), (available("p"), "USD", rest)])
        ledger.post("t", [(owner, asset, -change) for owner, asset, change in everything])
    database.close()
