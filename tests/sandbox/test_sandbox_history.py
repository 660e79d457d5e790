"""The seeded history: deterministic, complete, plausible, never overdrawn."""

from __future__ import annotations

from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

import pytest
from sandbox_caller import Caller, caller_of

from fundlab.models import CryptoNetwork, Transfer, TransferType
from fundlab.sandbox import Sandbox, serve
from fundlab.values import Instant

END = Instant.parse("2026-11-01T00:00:00Z").ns
YEAR = 365 * 86_400 * 10**9


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
    for row in history:
        Transfer.model_validate(row)
        amount, fee, total = (Decimal(row[name]) for name in ("amount", "fee", "total"))
        credit = row["direction"] == "CREDIT"
        assert total == (amount - fee if credit else amount + fee)
        assert min(amount, total) > 0
        assert fee >= 0
        assert credit == row["type"].endswith(("_DEPOSIT", "_CREDIT"))
        assert row["created_at"] <= row["updated_at"]
        assert END - YEAR < Instant.parse(row["created_at"]).ns < END
        if row["status"] == "PENDING":
            assert row["created_at"] > "2026-10-2"
        if row.get("balance_asset", row["asset"]) != row["asset"]:
            assert row["auto_conversion"].keys() == {"from_transfer_id", "to_transfer_id"}


def test_no_balance_is_ever_below_zero_in_any_view(history: list[dict[str, Any]]) -> None:
    """Debits count when made; credits when settled, or when made: both must hold."""
    for credit_time in ("created_at", "updated_at"):
        steps = []
        for row in history:
            key = row["profile_id"], row.get("balance_asset", row["asset"])
            total = Decimal(row["total"])
            if row["direction"] == "DEBIT":
                steps.append((row["created_at"], 0, key, -total))
                if row["status"] == "FAILED":
                    steps.append((row["updated_at"], 1, key, total))
            elif row["status"] == "COMPLETED":
                steps.append((row[credit_time], 1, key, total))
        balances: defaultdict = defaultdict(Decimal)
        for _, _, key, change in sorted(steps):
            balances[key] += change
            assert balances[key] >= 0


def test_internal_transfers_come_in_halves(history: list[dict[str, Any]]) -> None:
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


def test_weekends_are_quiet_and_month_ends_busy(history: list[dict[str, Any]]) -> None:
    days = Counter(Instant.parse(row["created_at"]).weekday() for row in history)
    assert max(days[5], days[6]) < 0.5 * min(days[day] for day in range(5))


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
        assert {row["secondary_status"]["name"] for row in after} == {"UNDER_REVIEW"}
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


@pytest.mark.slow
def test_a_million_transfers_within_three_minutes_and_four_gibibytes() -> None:
    import subprocess
    import sys

    code = (
        "import resource, time; t = time.perf_counter()\n"
        "from fundlab.sandbox import serve\n"
        "with serve(transfers=1_000_000, clock='manual'):\n"
        "    print(time.perf_counter() - t)\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, kibibytes = (float(line) for line in done.stdout.split())
    assert seconds < 180
    assert kibibytes < 4 * 1024**2
