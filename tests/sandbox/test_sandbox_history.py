"""The seeded history (§2.4): deterministic, complete, plausible, never overdrawn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import date, timedelta
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sandbox_caller import Caller, caller_of

from fundlab.base.values import Instant
from fundlab.models import CryptoNetwork, Transfer, TransferType
from fundlab.sandbox import Sandbox, serve
from fundlab.sandbox.database import SCHEMA, Database
from fundlab.sandbox.history import HISTORY_START_NS, seed_history
from fundlab.sandbox.ledger import Ledger
from fundlab.sandbox.seed_customers import seed_people

END = Instant.parse("2026-11-01T00:00:00Z").ns
YEAR = 365 * 86_400 * 10**9
EXACT = Context(prec=60)


@pytest.fixture(scope="module")
def history(reader: Caller) -> list[dict[str, Any]]:
    return list(reader.rows("/v2/transfer/transfers?limit=1000&order=ASC"))


def everything(seed: int, clock: str) -> tuple[Any, ...]:
    with serve(transfers=400, seed=seed, clock=clock) as sandbox:  # type: ignore[arg-type]
        caller = caller_of(sandbox)
        lists = (
            list(caller.rows("/v2/transfer/transfers?order=ASC")),
            list(caller.rows("/v2/events", "events")),
            list(caller.rows("/v2/transfer/fiat-accounts")),
            list(caller.rows("/v2/transfer/fiat-deposit-instructions")),
            list(caller.rows("/v2/transfer/crypto-destination-addresses", "addresses")),
            sandbox.profile_ids,
        )
        caller.close()
        return lists


def test_a_seed_gives_the_same_history_under_any_clock() -> None:
    first = everything(7, "manual")
    assert first == everything(7, "real")
    other = everything(8, "manual")
    assert all(one != two for one, two in zip(first, other, strict=True))


FINGERPRINT = """
import hashlib
from fundlab.sandbox.database import SCHEMA, Database
from fundlab.sandbox.history import HISTORY_START_NS, seed_history
from fundlab.sandbox.seed_customers import seed_people
database = Database(None)
with database.transaction():
    database.run_script(SCHEMA)
    people = seed_people(database, 7, 3, HISTORY_START_NS, 6)
    seed_history(database, people, 400, pending_from_ns=0)
bodies = [body for table in ("transfers", "events") for (body,) in
          database.all(f"SELECT body FROM {table} ORDER BY seq")]
fingerprint = f"{len(bodies)} {hashlib.sha256(b''.join(bodies)).hexdigest()}"
database.close()
"""


@pytest.mark.thorough
def test_a_seed_gives_the_same_history_in_every_process() -> None:
    here: dict[str, Any] = {}
    exec(FINGERPRINT, here)
    done = subprocess.run(
        [sys.executable, "-c", FINGERPRINT + "print(fingerprint)"], text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": "4711"}, capture_output=True,
    )  # fmt: skip
    assert done.stdout.strip() == here["fingerprint"]
    assert int(done.stdout.split()[0]) > 1_000


def test_every_type_network_status_and_asset_occurs(history: list[dict[str, Any]]) -> None:
    assert {row["type"] for row in history} == set(TransferType)
    assert {row["crypto_network"] for row in history if "crypto_network" in row} == set(
        CryptoNetwork
    )
    statuses = Counter(row["status"] for row in history)
    assert statuses["COMPLETED"] > 0.95 * len(history)
    assert statuses["FAILED"] > 0.01 * len(history)
    assert statuses["PENDING"] >= 4
    assert {row["asset"] for row in history} >= {
        "USD", "USDG", "PYUSD", "USDP", "USDC", "BTC", "ETH", "SOL",
    }  # fmt: skip


def test_rows_keep_the_interfaces_arithmetic(history: list[dict[str, Any]]) -> None:
    """§2.4."""
    for row in history:
        Transfer.model_validate(row)
        amount, fee, total = (Decimal(row[name]) for name in ("amount", "fee", "total"))
        credit = row["direction"] == "CREDIT"
        assert total == (EXACT.subtract if credit else EXACT.add)(amount, fee)
        assert min(amount, total) > 0
        assert fee >= 0
        assert credit == row["type"].endswith(("_DEPOSIT", "_CREDIT"))
        assert row["created_at"] <= row["updated_at"]
        assert END - YEAR < Instant.parse(row["created_at"]).ns < END
        if row["status"] == "PENDING":
            assert row["created_at"] > "2026-10-2"
        if row.get("balance_asset", row["asset"]) != row["asset"]:
            assert row["auto_conversion"].keys() == {"from_transfer_id", "to_transfer_id"}


def test_withdrawals_that_end_in_13_cents_do_not_complete(history: list[dict[str, Any]]) -> None:
    ending: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for row in history:
        if EXACT.remainder(Decimal(row["amount"]), 1) == Decimal("0.13"):
            ending[row["type"].endswith("_WITHDRAWAL")][row["status"]] += 1
    assert ending[True]["COMPLETED"] == 0
    assert ending[False]["COMPLETED"] > 0


@pytest.mark.parametrize("credit_time", ["created_at", "updated_at"])
def test_no_balance_is_ever_below_zero_in_any_view(
    history: list[dict[str, Any]], credit_time: str
) -> None:
    assert replayed(history, credit_time)


def replayed(rows: list[dict[str, Any]], credit_time: str) -> dict[tuple[str, str], Decimal]:
    """What is available in the end, having been below zero at no time on the way.

    Debits count when made, and come first at any one time; credits count at ``credit_time``.
    """
    steps = []
    for row in rows:
        key = row["profile_id"], row.get("balance_asset", row["asset"])
        total = Decimal(row["total"])
        if row["direction"] == "DEBIT":
            steps.append((row["created_at"], 0, key, total.copy_negate()))
            if row["status"] == "FAILED":
                steps.append((row["updated_at"], 1, key, total))
        elif row["status"] == "COMPLETED":
            steps.append((row[credit_time], 1, key, total))
    balances: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for _, _, key, change in sorted(steps):
        balances[key] = EXACT.add(balances[key], change)
        assert balances[key] >= 0
    return balances


def test_internal_transfers_come_in_halves(history: list[dict[str, Any]]) -> None:
    """§2.4."""
    groups = defaultdict(list)
    for row in history:
        if "group_id" in row:
            groups[row["group_id"]].append(row)
    assert groups
    for halves in groups.values():
        debit, credit = sorted(halves, key=lambda row: row["direction"], reverse=True)
        assert (debit["type"], credit["type"]) == (
            "INTERNAL_TRANSFER_DEBIT", "INTERNAL_TRANSFER_CREDIT",
        )  # fmt: skip
        same = ("asset", "amount", "created_at", "status")
        assert [debit[name] for name in same] == [credit[name] for name in same]
        assert debit["profile_id"] != credit["profile_id"]


def test_what_it_names_exists(
    seeded: Sandbox, reader: Caller, history: list[dict[str, Any]]
) -> None:
    accounts = {row["id"]: row for row in reader.rows("/v2/transfer/fiat-accounts")}
    memos = {row["memo_id"]: row for row in reader.rows("/v2/transfer/fiat-deposit-instructions")}
    saved = {
        row["address"]
        for row in reader.rows("/v2/transfer/crypto-destination-addresses", "addresses")
    }
    for row in history:
        if "fiat_account_id" in row:
            account = accounts[row["fiat_account_id"]]
            assert account["status"] == "APPROVED"
            assert account["created_at"] < row["created_at"]
        if row["type"] == "WIRE_WITHDRAWAL":
            wire = accounts[row["fiat_account_id"]]["fiat_network_instructions"]["wire"]
            kind = wire["routing_details"]["routing_number_type"]
            assert row["fee"] == {"ABA": "25.00", "SWIFT": "40.00"}[kind]
        if row["type"] in ("WIRE_DEPOSIT", "CUBIX_DEPOSIT"):
            assert memos[row["memo"]]["profile_id"] == row["profile_id"]
            assert memos[row["memo"]]["metadata"] == row["metadata"]
        if "destination_address" in row:
            assert row["destination_address"] in saved
    statuses = Counter(account["status"] for account in accounts.values())
    assert statuses["PENDING"] == statuses["REJECTED"] == 1


def test_events_tell_of_every_transfer_and_identity(
    reader: Caller, history: list[dict[str, Any]]
) -> None:
    events = list(reader.rows("/v2/events", "events"))
    final = {
        event["object"]["id"]: event["object"]["status"]
        for event in events
        if event["object_type"] == "transfer_status_change"
    }
    assert final == {row["id"]: row["status"] for row in history}
    kinds = {event["type"]: event for event in events}
    approved = kinds["identity.approved"]["object"]
    assert approved.keys() == {"id", "identity_id", "new_summary_status", "old_summary_status"}
    asked = kinds["identity.documents_required"]["object"]
    assert asked.keys() == {"id", "identity_id", "required_documents"}


def test_end_users_transfer_after_their_approval(
    reader: Caller, history: list[dict[str, Any]]
) -> None:
    approved = {
        event["object"]["identity_id"]: event["created_at"]
        for event in reader.rows("/v2/events?type=identity.approved", "events")
    }
    own = [row for row in history if "identity_id" in row]
    assert 0.08 * len(history) < len(own) < 0.2 * len(history)
    assert all(row["created_at"] > approved[row["identity_id"]] for row in own)
    assert all("account_id" in row for row in own)


def test_every_profile_ends_with_usd_to_try_withdrawals(seeded: Sandbox, reader: Caller) -> None:
    for profile_id in seeded.profile_ids:
        assert Decimal(reader.balance(profile_id)["available"]) >= 250_000


def test_some_pending_transfers_finish_later_and_some_stay() -> None:
    with serve(transfers=3_000, seed=11, clock="manual") as sandbox:
        caller = caller_of(sandbox)
        before = list(caller.rows("/v2/transfer/transfers?statuses=PENDING"))
        sandbox.clock.advance(3 * 86_400)
        after = list(caller.rows("/v2/transfer/transfers?statuses=PENDING"))
        assert 0 < len(after) < len(before)
        names = {row["secondary_status"]["name"] for row in after}
        assert names <= {"PENDING_CUSTOMER_APPROVAL", "TRAVEL_RULE_INFO_REQUESTED"}
        assert set(sandbox.control.ledger()["totals"].values()) == {"0.00"}
        caller.close()


@pytest.mark.parametrize(("transfers", "profiles"), [(0, 1), (1, 1), (2, 3), (7, 5), (300, 1)])
def test_small_histories_add_up(transfers: int, profiles: int) -> None:
    with serve(transfers=transfers, profiles=profiles, clock="manual") as sandbox:
        caller = caller_of(sandbox)
        rows = list(caller.rows("/v2/transfer/transfers"))
        assert len(rows) == transfers
        assert set(sandbox.control.ledger()["totals"].values()) <= {"0.00"}
        caller.close()


# ---------------------------------------------------------------------------- plausible


def test_weekends_are_quiet_and_month_ends_are_busy(history: list[dict[str, Any]]) -> None:
    per_day = Counter(date.fromisoformat(row["created_at"][:10]) for row in history)
    days = [date(2025, 11, 3) + timedelta(n) for n in range(363)]

    def mean(chosen: list[date]) -> float:
        return sum(per_day[day] for day in chosen) / len(chosen)

    weekdays = [day for day in days if day.weekday() < 5]
    last = [day for day in weekdays if (day + timedelta(3)).month != day.month]
    others = [day for day in weekdays if (day + timedelta(3)).month == day.month]
    assert 0.1 < mean([day for day in days if day.weekday() >= 5]) / mean(others) < 0.4
    assert 1.5 < mean(last) / mean(others) < 2.6
    assert 1.1 < mean(others[-100:]) / mean(others[:100]) < 1.9
    assert len({row["created_at"] for row in history}) < len(history) - 20


def test_amounts_have_a_heavy_tail(history: list[dict[str, Any]]) -> None:
    wires = sorted(Decimal(row["amount"]) for row in history if row["type"] == "WIRE_DEPOSIT")
    middle = wires[len(wires) // 2]
    assert 10_000 < middle < 80_000
    assert wires[-1] > 60 * middle
    assert sum(wires[-len(wires) // 20 :]) > sum(wires) / 4


def test_statuses_change_later_and_conversions_and_metadata_occur(
    history: list[dict[str, Any]],
) -> None:
    settled = [row for row in history if row["status"] != "PENDING"]
    assert sum(row["updated_at"] > row["created_at"] for row in settled) > 0.8 * len(settled)
    converted = [row for row in history if row.get("balance_asset", row["asset"]) != row["asset"]]
    assert {row["type"] for row in converted} == {"WIRE_DEPOSIT", "CRYPTO_DEPOSIT"}
    assert sum("metadata" in row for row in history) > 0.2 * len(history)
    assert {row["type"] for row in history if "notional_value" in row} == {
        "CRYPTO_DEPOSIT", "CRYPTO_WITHDRAWAL",
    }  # fmt: skip


# ---------------------------------------------------------------------------- laws


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**63), transfers=st.integers(0, 250), profiles=st.integers(1, 6))
def test_any_seed_and_size_adds_up_and_overdraws_nobody(
    seed: int, transfers: int, profiles: int
) -> None:
    database = Database(None)
    with database.transaction():
        database.run_script(SCHEMA)
        people = seed_people(database, seed, profiles, HISTORY_START_NS, 6)
        seed_history(database, people, transfers, pending_from_ns=END)
    rows = [json.loads(body) for (body,) in database.all("SELECT body FROM transfers")]
    assert len({row["id"] for row in rows}) == len(rows) == transfers
    ledger = Ledger(database)
    assert set(ledger.audit().values()) <= {0}
    booked = {
        key: units for key, units in ledger.balances().items() if key[0].startswith("available/")
    }
    balances = replayed(rows, "updated_at")
    assert {
        (f"available/{profile_id}", asset): int(balance.scaleb(18, EXACT))
        for (profile_id, asset), balance in balances.items()
        if balance
    } == booked
    database.close()
