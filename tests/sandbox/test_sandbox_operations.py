"""What each operation answers, in which states, and what it refuses, over real HTTP.

Resources: §2.1, §2.2, §2.3, §2.4; states: §3.1, §3.2, §3.3; operations: §4.1, §4.2, §4.4, §4.6,
§4.8, §4.9, §4.10, §4.11, §4.12; kinds of customers: §1; errors: §7; limits: §8; events: §6.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from sandbox_caller import (
    ACCOUNTS,
    INSTRUCTIONS,
    MISSING,
    OWNER,
    SWIFT,
    WIRE,
    WITHDRAWALS,
    Caller,
    approved_account,
    assert_problem,
    deposit,
    fund,
    instructions,
    with_routing,
    withdrawal,
)  # fmt: skip  # fmt: skip

from fundlab.sandbox import Sandbox

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


# ---------------------------------------------------------------------------- §2.2, §4.1, §4.2


def test_wire_instructions_are_valid_with_a_memo_of_their_own(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§2.2, §3.2, §4.1, §4.2."""
    profile_id = sandbox.profile_ids[0]
    made = instructions(caller, profile_id, ref_id="a", metadata={"desk": "7"})
    assert UUID.fullmatch(made["id"])
    assert (made["status"], made["profile_id"], made["ref_id"]) == ("VALID", profile_id, "a")
    assert made["metadata"] == {"desk": "7"}
    routing = made["fiat_network_instructions"]["wire"]["routing_details"]
    assert routing["routing_number_type"] == "ABA"
    assert made["created_at"] == "2026-11-01T00:00:00.000000Z"
    assert instructions(caller, profile_id)["memo_id"] != made["memo_id"]
    assert caller.get(f"{INSTRUCTIONS}/{made['id']}").json() == made


def test_cubix_instructions_carry_an_account_id(sandbox: Sandbox, caller: Caller) -> None:
    """§4.1."""
    body = {"profile_id": sandbox.profile_ids[0], "fiat_network": "CUBIX"}
    made = caller.post(INSTRUCTIONS, body).json()
    assert made["fiat_network_instructions"].keys() == {"cubix"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"fiat_network": "ACH"}, "fiat_network"),
        ({"routing_number_type": None}, "routing_number_type"),
        ({"fiat_network": "CUBIX"}, "routing_number_type"),
        ({"routing_number_type": "IBAN"}, "routing_number_type"),
        ({"profile_id": 7}, "profile_id"),
        ({"profile_id": ""}, "profile_id"),
        ({"metadata": {"k" * 101: "x"}}, f"metadata.{'k' * 71}"),
        ({"metadata": {"k": 1}}, "metadata.k"),
        ({"metadata": []}, "metadata"),
    ],
)
def test_instructions_are_validated(
    sandbox: Sandbox, caller: Caller, change: dict[str, Any], field: str
) -> None:
    """§4.1, §8."""
    body = {
        "profile_id": sandbox.profile_ids[0], "fiat_network": "WIRE", "routing_number_type": "ABA",
    }  # fmt: skip
    answer = caller.post(INSTRUCTIONS, body | change)
    assert assert_problem(answer, 400)["meta"]["field"] == field


# ---------------------------------------------------------------------------- §4.4, §3.3


def test_a_simulated_wire_completes_after_a_minute_and_copies_the_metadata(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§2.1, §3.3, §4.4, §4.6, §8."""
    profile_id = sandbox.profile_ids[0]
    made = instructions(caller, profile_id, metadata={"desk": "7"})
    answer = deposit(caller, made["memo_id"], "1000.10")
    assert (answer.status_code, answer.content) == (200, b"")
    (pending,) = caller.rows("/v2/transfer/transfers")
    assert (pending["status"], pending["direction"]) == ("PENDING", "CREDIT")
    assert (pending["type"], pending["metadata"]) == ("WIRE_DEPOSIT", {"desk": "7"})
    sandbox.clock.advance(59)
    assert caller.balance(profile_id)["available"] == "0.00"
    sandbox.clock.advance(1)
    (done,) = caller.rows("/v2/transfer/transfers?type=WIRE_DEPOSIT")
    assert (done["status"], done["amount"], done["fee"], done["total"]) == (
        "COMPLETED", "1000.10", "0.00", "1000.10",
    )  # fmt: skip
    assert done["updated_at"] == "2026-11-01T00:01:00.000000Z"
    assert done["created_at"] == pending["created_at"]
    assert caller.balance(profile_id) == {
        "asset": "USD", "available": "1000.10", "trading": "0.00",
    }  # fmt: skip
    assert caller.get(f"/v2/transfer/transfers/{done['id']}").json() == done


def test_what_is_sent_to_cubix_instructions_is_a_cubix_deposit(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§2.4, §4.4: the type follows the instructions that the memo names."""
    body = {"profile_id": sandbox.profile_ids[0], "fiat_network": "CUBIX"}
    memo_id = caller.post(INSTRUCTIONS, body).json()["memo_id"]
    assert deposit(caller, memo_id, "12.50").ok
    sandbox.clock.advance(60)
    (done,) = caller.rows("/v2/transfer/transfers")
    assert (done["type"], done["status"], done["memo"]) == ("CUBIX_DEPOSIT", "COMPLETED", memo_id)
    assert caller.balance(sandbox.profile_ids[0])["available"] == "12.50"


@pytest.mark.parametrize(
    "change",
    [
        {"memo_id": "UNKNOWN"}, {"amount": "1.234"}, {"asset": "USDC"}, {"fiat_account_owner": {}},
        {"fiat_network_instructions": {}}, {"fiat_network_instructions": {"wire": {}}},
    ],
)  # fmt: skip
def test_simulated_deposits_are_validated(
    sandbox: Sandbox, caller: Caller, change: dict[str, Any]
) -> None:
    memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
    body = {
        "amount": "10.00", "asset": "USD", "memo_id": memo_id,
        "fiat_network_instructions": WIRE, "fiat_account_owner": OWNER,
    }  # fmt: skip
    assert_problem(caller.post("/v2/sandbox/fiat-deposits", body | change), 400)
    assert list(caller.rows("/v2/transfer/transfers")) == []


def test_deprecated_instructions_take_no_deposits(sandbox: Sandbox, caller: Caller) -> None:
    """§2.2, §3.2."""
    made = instructions(caller, sandbox.profile_ids[0])
    sandbox.control.deprecate_instructions(made["id"])
    assert caller.get(f"{INSTRUCTIONS}/{made['id']}").json()["status"] == "DEPRECATED"
    assert_problem(deposit(caller, made["memo_id"], "1"), 400)


# ---------------------------------------------------------------------------- §2.3, §3.1, §4.8-10


def test_a_fiat_account_is_approved_after_ten_seconds(sandbox: Sandbox, caller: Caller) -> None:
    """§2.3, §3.1, §4.8, §4.9."""
    body = {
        "ref_id": "acc", "fiat_account_owner": OWNER, "fiat_network_instructions": WIRE,
        "metadata": {"a": "b"},
    }  # fmt: skip
    made = caller.post(ACCOUNTS, body).json()
    assert made["status"] == "PENDING"
    assert {name: made[name] for name in body} == body
    sandbox.clock.advance(9)
    assert caller.get(f"{ACCOUNTS}/{made['id']}").json()["status"] == "PENDING"
    sandbox.clock.advance(1)
    assert caller.get(f"{ACCOUNTS}/{made['id']}").json()["status"] == "APPROVED"


@pytest.mark.parametrize("number", ["000000000", "XXXXXXXX"])
def test_some_routing_numbers_are_rejected(sandbox: Sandbox, caller: Caller, number: str) -> None:
    """§2.3, §3.1."""
    made = approved_account(caller, sandbox, fiat_network_instructions=with_routing(number))
    assert caller.get(f"{ACCOUNTS}/{made['id']}").json()["status"] == "REJECTED"
    refused = caller.post(WITHDRAWALS, withdrawal(sandbox, made["id"], "1"))
    assert assert_problem(refused, 400)["meta"]["field"] == "fiat_account_id"


def test_both_layouts_of_a_cubix_account_come_back_as_the_first(
    sandbox: Sandbox, caller: Caller
) -> None:
    for given in ({"cubix": {"account_id": "C1"}}, {"wallet_address": "C1"}):
        made = approved_account(caller, sandbox, fiat_network_instructions=given)
        assert made["fiat_network_instructions"] == {"cubix": {"account_id": "C1"}}


def test_an_update_is_reviewed_again_and_a_stale_review_does_not_count(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§3.1, §4.10."""
    body = {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE}
    made = caller.post(ACCOUNTS, body).json()
    sandbox.clock.advance(6)
    changed = caller.put(
        f"{ACCOUNTS}/{made['id']}", {"fiat_network_instructions": with_routing("000000000")}
    ).json()
    assert changed["status"] == "PENDING"
    assert changed["fiat_account_owner"] == OWNER
    sandbox.clock.advance(5)
    assert caller.get(f"{ACCOUNTS}/{made['id']}").json()["status"] == "PENDING"
    sandbox.clock.advance(5)
    assert caller.get(f"{ACCOUNTS}/{made['id']}").json()["status"] == "REJECTED"
    caller.put(f"{ACCOUNTS}/{made['id']}", {"fiat_network_instructions": WIRE})
    sandbox.clock.advance(10)
    assert caller.get(f"{ACCOUNTS}/{made['id']}").json()["status"] == "APPROVED"


def test_an_update_changes_only_what_it_gives(sandbox: Sandbox, caller: Caller) -> None:
    """§4.10: all of its body is optional."""
    made = approved_account(caller, sandbox)
    path = f"{ACCOUNTS}/{made['id']}"
    bank = {"routing_details": {"bank_name": "Renamed Bank", "bank_address": {"country": "USA"}}}
    changed = caller.put(path, {"fiat_network_instructions": {"wire": bank}}).json()
    wire, before = (one["fiat_network_instructions"]["wire"] for one in (changed, made))
    assert wire["routing_details"]["bank_name"] == "Renamed Bank"
    assert wire["routing_details"]["bank_address"]["country"] == "USA"
    for name in ("routing_number", "routing_number_type"):
        assert wire["routing_details"][name] == before["routing_details"][name]
    assert wire["account_number"] == before["account_number"]
    sandbox.clock.advance(10)
    assert caller.get(path).json()["status"] == "APPROVED"
    # an account must be complete afterwards
    for kind in ("intermediary_routing_details", "routing_details"):
        given = {kind: {"bank_name": "B"}}
        if kind == "routing_details":
            cubix = {"fiat_network_instructions": {"cubix": {"account_id": "C1"}}}
            assert caller.put(path, cubix).json()["fiat_network_instructions"] == {
                "cubix": {"account_id": "C1"}
            }
        body = {"fiat_network_instructions": {"wire": given}}
        problem = assert_problem(caller.put(path, body), 400)
        assert problem["detail"].endswith(" is missing, and the account has none")


def test_an_update_leaves_what_was_taken_under_laxer_rules_as_it_is(
    sandbox: Sandbox, caller: Caller
) -> None:
    sandbox.control.configure(lenient_requests=True)
    long_line = {"country": "USA", "address1": "Ü" * 40}
    bank = {"wire": WIRE["wire"] | {"fiat_account_owner_address": long_line}}
    body = {"fiat_account_owner": OWNER, "fiat_network_instructions": bank}
    path = f"{ACCOUNTS}/{caller.post(ACCOUNTS, body).json()['id']}"
    sandbox.control.configure(lenient_requests=False)
    change = {"fiat_network_instructions": {"wire": {"account_number": "99999"}}}
    wire = caller.put(path, change).json()["fiat_network_instructions"]["wire"]
    assert wire["account_number"] == "99999"
    assert wire["fiat_account_owner_address"] == long_line
    given = {"wire": {"fiat_account_owner_address": long_line}}
    assert_problem(caller.put(path, {"fiat_network_instructions": given}), 400)


def test_the_owners_kind_cannot_change(sandbox: Sandbox, caller: Caller) -> None:
    made = approved_account(caller, sandbox)
    person = {"person_details": {"first_name": "Ada", "last_name": "Okafor"}}
    refused = caller.put(f"{ACCOUNTS}/{made['id']}", {"fiat_account_owner": person})
    assert assert_problem(refused, 400)["meta"]["field"] == "fiat_account_owner"
    renamed = {"institution_details": {"name": "Acme & Co"}}
    changed = caller.put(f"{ACCOUNTS}/{made['id']}", {"fiat_account_owner": renamed}).json()
    assert changed["fiat_account_owner"] == renamed
    assert_problem(caller.put(f"{ACCOUNTS}/{MISSING}", {}), 404)


def test_the_list_masks_the_number_and_leaves_the_owner_out(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§4.11."""
    approved_account(caller, sandbox, ref_id="r")
    (listed,) = caller.rows(f"{ACCOUNTS}?ref_ids=r")
    wire = listed["fiat_network_instructions"]["wire"]
    assert wire["account_number"] == "XXXXXXXX9012"
    assert "fiat_account_owner" not in listed
    assert wire["fiat_account_owner_address"] == {"country": "USA"}
    assert listed["status"] == "APPROVED"


@pytest.mark.parametrize(
    "change",
    [
        {"fiat_account_owner": {**OWNER, "person_details": {"name": "Ada"}}},
        {"fiat_account_owner": {"institution_details": {"name": ""}}},
        {"fiat_account_owner": None},
        {"fiat_network_instructions": {**WIRE, "cubix": {"account_id": "C"}}},
        {"fiat_network_instructions": {"cubix": {}}},
        {"fiat_network_instructions": {"wire": {"account_number": "1"}}},
        {"fiat_network_instructions": with_routing("")},
    ],
)
def test_fiat_accounts_are_validated(caller: Caller, change: dict[str, Any]) -> None:
    """§2.1, §4.8."""
    body = {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE}
    problem = assert_problem(caller.post(ACCOUNTS, body | change), 400)
    assert problem["meta"]["field"].partition(".")[0] in change


# ---------------------------------------------------------------------------- §4.12


@pytest.mark.parametrize(
    ("network", "kind", "fee", "total"),
    [
        (WIRE, "WIRE_WITHDRAWAL", "25.00", "125.50"),
        (SWIFT, "WIRE_WITHDRAWAL", "40.00", "140.50"),
        ({"cubix": {"account_id": "C"}}, "CUBIX_WITHDRAWAL", "0.00", "100.50"),
    ],
)
def test_a_withdrawal_holds_at_once_and_completes_after_five_seconds(
    sandbox: Sandbox, caller: Caller, network: dict[str, Any], kind: str, fee: str, total: str
) -> None:
    """§1, §2.4, §3.3, §4.12."""
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "1000.00")
    account = approved_account(caller, sandbox, fiat_network_instructions=network)
    body = withdrawal(sandbox, account["id"], "100.50", ref_id="w", metadata={"k": "v"})
    made = caller.post(WITHDRAWALS, body).json()
    assert {name: made[name] for name in ("status", "direction", "type", "fee", "total")} == {
        "status": "PENDING", "direction": "DEBIT", "type": kind, "fee": fee, "total": total,
    }  # fmt: skip
    assert (made["ref_id"], made["metadata"]) == ("w", {"k": "v"})
    assert made["fiat_account_id"] == account["id"]
    left = str(Decimal("1000.00") - Decimal(total))
    assert caller.balance(profile_id)["available"] == left
    sandbox.clock.advance(4)
    assert caller.get(f"/v2/transfer/transfers/{made['id']}").json()["status"] == "PENDING"
    sandbox.clock.advance(1)
    done = caller.get(f"/v2/transfer/transfers/{made['id']}").json()
    assert done["status"] == "COMPLETED"
    assert done["updated_at"] > made["updated_at"]
    assert caller.balance(profile_id)["available"] == left


def test_an_amount_ending_in_13_cents_fails_and_the_hold_is_given_back(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§3.3."""
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "500")
    account = approved_account(caller, sandbox)
    made = caller.post(WITHDRAWALS, withdrawal(sandbox, account["id"], "10.13")).json()
    assert caller.balance(profile_id)["available"] == "464.87"
    sandbox.clock.advance(5)
    failed = caller.get(f"/v2/transfer/transfers/{made['id']}").json()
    assert failed["status"] == "FAILED"
    assert failed["secondary_status"]["name"] == "CUSTOMER_REJECTED"
    assert caller.balance(profile_id)["available"] == "500.00"
    (found,) = caller.rows("/v2/transfer/transfers?secondary_statuses=CUSTOMER_REJECTED")
    assert found["id"] == made["id"]


def test_without_funds_it_is_403_and_says_what_there_is(sandbox: Sandbox, caller: Caller) -> None:
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "124.99")
    account = approved_account(caller, sandbox)
    problem = assert_problem(
        caller.post(WITHDRAWALS, withdrawal(sandbox, account["id"], "100.00")), 403
    )
    assert problem["type"].endswith("insufficient-funds")
    assert problem["meta"] == {
        "profile_id": profile_id, "asset": "USD", "available": "124.99", "needed": "125.00",
    }  # fmt: skip
    assert caller.balance(profile_id)["available"] == "124.99"
    assert caller.post(WITHDRAWALS, withdrawal(sandbox, account["id"], "99.99")).ok


def test_a_pending_account_cannot_be_withdrawn_to(sandbox: Sandbox, caller: Caller) -> None:
    """§3.1."""
    body = {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE}
    account = caller.post(ACCOUNTS, body).json()
    answer = caller.post(WITHDRAWALS, withdrawal(sandbox, account["id"], "1"))
    assert assert_problem(answer, 400)["meta"]["field"] == "fiat_account_id"


def test_what_a_body_names_must_exist(sandbox: Sandbox, caller: Caller) -> None:
    account = approved_account(caller, sandbox)
    for name in ("fiat_account_id", "profile_id", "identity_id"):
        body = withdrawal(sandbox, account["id"], "1") | {name: MISSING}
        assert assert_problem(caller.post(WITHDRAWALS, body), 404)["meta"]["field"] == name


def test_what_a_path_names_must_exist(caller: Caller) -> None:
    """§7: 404 for what is not there."""
    for path in (ACCOUNTS, INSTRUCTIONS, "/v2/transfer/transfers"):
        problem = assert_problem(caller.get(f"{path}/{MISSING}"), 404)
        assert problem["meta"] == {"field": "id"}
        assert MISSING in problem["detail"]
    body = {"fiat_account_owner": OWNER}
    assert_problem(caller.put(f"{ACCOUNTS}/{MISSING}", body), 404)


# ---------------------------------------------------------------------------- §6


def test_every_change_of_a_transfer_is_an_event(sandbox: Sandbox, caller: Caller) -> None:
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "100")
    account = approved_account(caller, sandbox)
    made = caller.post(WITHDRAWALS, withdrawal(sandbox, account["id"], "1", ref_id="w")).json()
    sandbox.clock.advance(5)
    events = list(caller.rows("/v2/events", "events"))
    assert [event["type"] for event in events] == [
        "transfer.wire_deposit.pending", "transfer.wire_deposit.completed",
        "fiat_account.pending", "fiat_account.approved",
        "transfer.wire_withdrawal.pending", "transfer.wire_withdrawal.completed",
    ]  # fmt: skip
    last = events[-1]
    assert last["object_type"] == "transfer_status_change"
    assert last["object"] == {
        "id": made["id"], "type": "WIRE_WITHDRAWAL", "status": "COMPLETED",
        "profile_id": profile_id, "ref_id": "w",
    }  # fmt: skip
    assert re.fullmatch(r"2026-11-01T00:01:15\.\d{9}Z", last["created_at"])
    assert last["undelivered_webhooks"] == 0
    times = [event["created_at"] for event in events]
    assert times == sorted(set(times))


# ---------------------------------------------------------------------------- strictness


@pytest.mark.parametrize(
    ("path", "change", "member"),
    [
        (WITHDRAWALS, {"refId": "r"}, "refId"),
        (INSTRUCTIONS, {"ref_Id": "r"}, "ref_Id"),
        (ACCOUNTS, {"fiat_account_owner": {**OWNER, "nick": "x"}}, "fiat_account_owner.nick"),
        (
            ACCOUNTS,
            {"fiat_network_instructions": {"wire": {**WIRE["wire"], "iban": "DE"}}},
            "fiat_network_instructions.wire.iban",
        ),
        (
            "/v2/orchestration/rules",
            {"source": {"crypto": {"network": "BASE", "memo": "x"}}},
            "source.crypto.memo",
        ),
    ],
)
def test_an_unknown_member_of_a_body_is_400_at_every_depth(
    sandbox: Sandbox, caller: Caller, path: str, change: dict[str, Any], member: str
) -> None:
    """A slip in ``ref_id`` would silently lose idempotence."""
    bank = {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE}
    body = {ACCOUNTS: bank, WITHDRAWALS: withdrawal(sandbox, MISSING, "1.00")}.get(path, {})
    problem = assert_problem(caller.post(path, {**body, **change}), 400)
    assert problem["meta"]["field"] == member
    assert problem["detail"].startswith(f"{member}: unknown member; known: ")


def test_an_update_takes_nothing_that_it_cannot_change(sandbox: Sandbox, caller: Caller) -> None:
    """§4.10."""
    account = approved_account(caller, sandbox)
    problem = assert_problem(caller.put(f"{ACCOUNTS}/{account['id']}", {"ref_id": "new"}), 400)
    assert problem["meta"]["field"] == "ref_id"


def test_a_fiat_network_that_the_interface_does_not_describe_is_named(caller: Caller) -> None:
    body = {"fiat_account_owner": OWNER, "fiat_network_instructions": {"rtp": {}}}
    assert assert_problem(caller.post(ACCOUNTS, body), 400)["detail"] == (
        "fiat_network_instructions.rtp: unknown network; known: wire, cubix, wallet_address"
    )


@pytest.mark.parametrize("place", ["routing_details", "intermediary_routing_details"])
def test_every_routing_number_has_a_known_type(caller: Caller, place: str) -> None:
    """§2.1."""
    bank = with_routing("026009593", place, "IBAN")
    body = {"fiat_account_owner": OWNER, "fiat_network_instructions": bank}
    detail = assert_problem(caller.post(ACCOUNTS, body), 400)["detail"]
    assert f"wire.{place}.routing_number_type: Input should be 'ABA' or 'SWIFT'" in detail


def test_an_empty_second_line_is_as_good_as_absent(sandbox: Sandbox, caller: Caller) -> None:
    """§2.1: ``address2`` may be empty; it is left out then, as an absent line is."""
    address = {"country": "USA", "address1": "1 Main St", "address2": ""}
    wire = {**WIRE["wire"], "fiat_account_owner_address": address}
    body = {"fiat_account_owner": OWNER, "fiat_network_instructions": {"wire": wire}}
    made = caller.post(ACCOUNTS, {**body, "metadata": {"empty": ""}}).json()
    assert made["metadata"] == {"empty": ""}  # the client's own
    told = caller.get(f"{ACCOUNTS}/{made['id']}").json()["fiat_network_instructions"]["wire"]
    assert told["fiat_account_owner_address"] == {"country": "USA", "address1": "1 Main St"}


# ---------------------------------------------------------------------------- optional members


def test_a_withdrawal_by_total_sends_what_is_left_of_it_after_the_fee(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§4.12: exactly one of ``amount`` and ``total``."""
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "200.00")
    account = approved_account(caller, sandbox)
    body = {**withdrawal(sandbox, account["id"], "1.00", memo="invoice 7"), "total": "200.00"}
    assert assert_problem(caller.post(WITHDRAWALS, body), 400)["meta"]["field"] == "amount"
    del body["amount"]
    made = caller.post(WITHDRAWALS, body).json()
    assert (made["amount"], made["fee"], made["total"]) == ("175.00", "25.00", "200.00")
    assert made["memo"] == "invoice 7"
    assert caller.balance(profile_id)["available"] == "0.00"
    for bad in ("25.00", "0.00", "30.001"):
        refused = caller.post(WITHDRAWALS, {**body, "total": bad})
        assert assert_problem(refused, 400)["meta"]["field"] == "total"


@pytest.mark.parametrize(("bank", "most"), [(WIRE, 100), ({"wallet_address": "C-1"}, 40)])
def test_a_memo_is_as_long_as_its_network_takes(
    sandbox: Sandbox, caller: Caller, bank: dict[str, Any], most: int
) -> None:
    """§4.12."""
    fund(caller, sandbox, sandbox.profile_ids[0], "200.00")
    account = approved_account(caller, sandbox, fiat_network_instructions=bank)
    body = withdrawal(sandbox, account["id"], "1.00")
    assert caller.post(WITHDRAWALS, {**body, "memo": "m" * most}).json()["memo"] == "m" * most
    refused = caller.post(WITHDRAWALS, {**body, "memo": "m" * (most + 1)})
    assert assert_problem(refused, 400)["meta"]["field"] == "memo"


@pytest.mark.parametrize(
    ("wanted", "asset", "credited"),
    [("USD", "PYUSD", "USD"), ("USD", "BTC", None), ("NO_CONVERSION", "PYUSD", None)],
)
def test_a_deposit_address_credits_stablecoins_as_usd_where_that_is_asked_for(
    sandbox: Sandbox, caller: Caller, wanted: str, asset: str, credited: str | None
) -> None:
    """§4.13."""
    body = {"profile_id": sandbox.profile_ids[0], "crypto_network": "ETHEREUM"}
    made = caller.post(
        "/v2/transfer/deposit-addresses", {**body, "conversion_target_asset": wanted}
    ).json()
    assert made["conversion_target_asset"] == wanted
    sandbox.control.crypto_deposit(made["address"], asset, "5.00")
    sandbox.clock.advance(60)
    (arrived,) = caller.rows("/v2/transfer/transfers")
    assert (arrived["asset"], arrived.get("balance_asset")) == (asset, credited)
    assert caller.balance(sandbox.profile_ids[0], credited or asset)["available"] == "5.00"


# ---------------------------------------------------------------------------- end users


def test_an_end_users_account_is_refused_for_another_end_users_withdrawal(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§1: their own, and the customer's, are taken."""
    fund(caller, sandbox, sandbox.profile_ids[0], "1000.00")
    first, second = (
        {name: user[name] for name in ("identity_id", "account_id")}
        for user in (sandbox.control.add_identity(), sandbox.control.add_identity())
    )
    account = approved_account(caller, sandbox, **first)["id"]
    corporate = approved_account(caller, sandbox)["id"]
    refused = caller.post(WITHDRAWALS, withdrawal(sandbox, account, "1.00", **second))
    assert assert_problem(refused, 400)["meta"]["field"] == "fiat_account_id"
    rule = {
        "ref_id": "r", "profile_id": sandbox.profile_ids[0], "source_asset": "USDC", **second,
        "destination_asset": "USD", "source": {"crypto": {"network": "BASE"}},
        "destination": {"fiat": {"fiat_account_id": account}},
    }  # fmt: skip
    assert_problem(caller.post("/v2/orchestration/rules", rule), 400)
    for taken, user in ((account, first), (corporate, second), (account, {})):
        assert caller.post(WITHDRAWALS, withdrawal(sandbox, taken, "1.00", **user)).ok


@pytest.mark.parametrize("status", ["DENIED", "DISABLED"])
def test_nothing_is_made_for_an_identity_that_may_not_act(
    sandbox: Sandbox, caller: Caller, status: str
) -> None:
    """§1: no deposit instructions, and no address, account or rule either."""
    user = sandbox.control.add_identity(status)
    who = {name: user[name] for name in ("identity_id", "account_id")}
    profile = {"profile_id": sandbox.profile_ids[0]}
    for path, body in (
        (INSTRUCTIONS, {**profile, "fiat_network": "CUBIX"}),
        ("/v2/transfer/deposit-addresses", {**profile, "crypto_network": "BASE"}),
        (ACCOUNTS, {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE}),
    ):
        problem = assert_problem(caller.post(path, {**body, **who}), 400)
        assert problem["meta"]["field"] == "identity_id"
        assert f"the identity is {status}" in problem["detail"]
        assert caller.post(path, body).ok
    pending = sandbox.control.add_identity("PENDING")["identity_id"]
    body = {**profile, "fiat_network": "CUBIX", "identity_id": pending}
    assert caller.post(INSTRUCTIONS, body).json()["identity_id"] == pending


def test_instructions_always_name_an_identity_and_deposits_only_an_end_user(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§2.2: required in the answer, optional in the corporate request."""
    made = instructions(caller, sandbox.profile_ids[0])
    assert made["identity_id"] == instructions(caller, sandbox.profile_ids[1])["identity_id"]
    assert deposit(caller, made["memo_id"], "5.00").ok
    (arrived,) = caller.rows("/v2/transfer/transfers")
    assert "identity_id" not in arrived


def test_the_customers_own_identity_is_taken_and_names_no_end_user(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§1: a corporate customer's identity is optional; instructions show it, so it may be given."""
    profile = {"profile_id": sandbox.profile_ids[0]}
    made = instructions(caller, sandbox.profile_ids[0])
    assert deposit(caller, made["memo_id"], "100.00").ok
    own = {"identity_id": made["identity_id"].upper()}
    network = {"fiat_network": "CUBIX"}
    again = caller.post(INSTRUCTIONS, {**profile, **network, **own}).json()
    assert again["identity_id"] == made["identity_id"]
    bank = {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE}
    account = caller.post(ACCOUNTS, {**bank, **own}).json()
    sandbox.clock.advance(61)
    rule = {
        "ref_id": "r", **profile, "source_asset": "USDC", "destination_asset": "USD",
        "source": {"crypto": {"network": "BASE"}},
    }  # fmt: skip
    quote = {
        "asset": "USDC", "destination_address": "0x" + "ab" * 20, "crypto_network": "BASE",
        "amount": "5.00",
    }  # fmt: skip
    for path, body in (
        (WITHDRAWALS, withdrawal(sandbox, account["id"], "1.00")),
        ("/v2/transfer/deposit-addresses", {**profile, "crypto_network": "BASE"}),
        ("/v2/orchestration/rules", rule),
        ("/v2/transfer/fees/crypto-withdrawal", quote),
    ):
        answer = caller.post(path, {**body, **own})
        assert answer.ok, answer.text
        assert "identity_id" not in answer.json()
    another = {**network, **own, "account_id": sandbox.control.add_identity()["account_id"]}
    assert_problem(caller.post(INSTRUCTIONS, {**profile, **another}), 400)


def test_the_customers_own_identity_selects_what_names_no_end_user(
    sandbox: Sandbox, caller: Caller
) -> None:
    user = sandbox.control.add_identity()
    theirs = {name: user[name] for name in ("identity_id", "account_id")}
    ours = instructions(caller, sandbox.profile_ids[0])
    body = {"profile_id": sandbox.profile_ids[0], "fiat_network": "CUBIX", **theirs}
    memos = ours["memo_id"], caller.post(INSTRUCTIONS, body).json()["memo_id"]
    for memo_id, amount in zip(memos, ("100.00", "7.00"), strict=True):
        assert deposit(caller, memo_id, amount).ok

    def amounts(*identities: str) -> set[str]:
        asked = "&".join(f"identity_ids={identity}" for identity in identities)
        return {row["amount"] for row in caller.rows(f"/v2/transfer/transfers?{asked}")}

    own = ours["identity_id"].upper()
    assert amounts(own) == {"100.00"}
    assert amounts(user["identity_id"]) == {"7.00"}
    assert amounts(own, user["identity_id"]) == {"100.00", "7.00"}
    first_party = sandbox.control.add_destination_address("BASE")["id"]
    sandbox.control.add_destination_address("BASE", identity_id=user["identity_id"])
    path = f"/v2/transfer/crypto-destination-addresses?identity_id={own}"
    for asked in (path, path.partition("=")[0] + "="):  # an empty one counts as not given
        assert [row["id"] for row in caller.rows(asked, "addresses")] == [first_party]
