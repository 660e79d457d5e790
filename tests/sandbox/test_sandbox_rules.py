"""Orchestration rules (§2.6, §4.14): what arrives is converted, and may be sent on (§2.4)."""

from __future__ import annotations

from typing import Any

import pytest
from sandbox_caller import (
    ADDRESSES,
    MISSING,
    RULES,
    Caller,
    approved_account,
    assert_problem,
    deposit,
    fund,
    instructions,
    with_routing,
)  # fmt: skip  # fmt: skip

from fundlab.sandbox import Sandbox

# ---------------------------------------------------------------------------- §2.6, §4.14


def rule(sandbox: Sandbox, **extra: Any) -> dict[str, Any]:
    profile_id = sandbox.profile_ids[0]
    return {
        "ref_id": "rule", "profile_id": profile_id, "source_asset": "USD",
        "destination_asset": "USDG", "source": {"profile": {"profile_id": profile_id}}, **extra,
    }  # fmt: skip


def test_a_rule_converts_what_arrives_one_to_one(sandbox: Sandbox, caller: Caller) -> None:
    """§4.14."""
    profile_id = sandbox.profile_ids[0]
    made = caller.post(RULES, rule(sandbox, nickname="to USDG")).json()["rule"]
    assert (made["status"], made["nickname"]) == ("ACTIVE", "to USDG")
    fund(caller, sandbox, profile_id, "250.75")
    (done,) = caller.rows("/v2/transfer/transfers")
    assert (done["asset"], done["balance_asset"]) == ("USD", "USDG")
    assert done["auto_conversion"] == {
        "from_transfer_id": done["id"], "to_transfer_id": done["id"],
    }  # fmt: skip
    assert caller.balance(profile_id, "USD")["available"] == "0.00"
    assert caller.balance(profile_id, "USDG")["available"] == "250.75"


def test_a_rule_for_deposit_instructions_leaves_others_alone(
    sandbox: Sandbox, caller: Caller
) -> None:
    profile_id = sandbox.profile_ids[0]
    chosen = instructions(caller, profile_id)
    source = {"fiat": {"deposit_instructions_id": chosen["id"]}}
    made = caller.post(RULES, rule(sandbox, source=source)).json()["rule"]
    assert made["source"]["fiat"] == {
        "deposit_instructions_id": chosen["id"], "network": "WIRE", "account_type": "ABA",
        "memo_id": chosen["memo_id"],
    }  # fmt: skip
    deposit(caller, chosen["memo_id"], "10")
    fund(caller, sandbox, profile_id, "7")
    assert caller.balance(profile_id, "USDG")["available"] == "10.00"
    assert caller.balance(profile_id, "USD")["available"] == "7.00"


def test_a_rule_sends_what_was_converted_to_another_profile(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§2.4."""
    first, second = sandbox.profile_ids
    destination = {"profile": {"profile_id": second}}
    assert caller.post(RULES, rule(sandbox, destination=destination)).ok
    fund(caller, sandbox, first, "40")
    rows = {row["type"]: row for row in caller.rows("/v2/transfer/transfers")}
    credit = rows["INTERNAL_TRANSFER_CREDIT"]
    assert credit["group_id"] == rows["INTERNAL_TRANSFER_DEBIT"]["group_id"]
    assert rows["WIRE_DEPOSIT"]["auto_conversion"]["to_transfer_id"] == credit["id"]
    assert (credit["profile_id"], credit["asset"], credit["total"]) == (second, "USDG", "40.00")
    assert caller.balance(first, "USDG")["available"] == "0.00"
    assert caller.balance(second, "USDG")["available"] == "40.00"


def test_a_rule_on_chain_makes_an_address_and_pays_out_to_a_bank(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§2.6."""
    account = approved_account(caller, sandbox)
    wanted = rule(
        sandbox, source_asset="USDC", destination_asset="USD",
        source={"crypto": {"network": "SOLANA"}},
        destination={"fiat": {"fiat_account_id": account["id"], "memo": "m"}},
    )  # fmt: skip
    made = caller.post(RULES, wanted).json()["rule"]
    sandbox.control.crypto_deposit(made["source"]["crypto"]["address"], "USDC", "100.00")
    sandbox.clock.advance(60)
    sandbox.clock.advance(5)
    rows = {row["type"]: row for row in caller.rows("/v2/transfer/transfers")}
    paid = rows["WIRE_WITHDRAWAL"]
    assert (paid["amount"], paid["fee"], paid["status"]) == ("75.00", "25.00", "COMPLETED")
    assert (paid["memo"], paid["fiat_account_id"]) == ("m", account["id"])
    assert rows["CRYPTO_DEPOSIT"]["balance_asset"] == "USD"
    assert caller.balance(sandbox.profile_ids[0], "USD")["available"] == "0.00"


def test_a_rule_pays_whole_cents_to_a_bank(sandbox: Sandbox, caller: Caller) -> None:
    """Amounts of fiat have two decimals at most; less than a cent stays with the profile."""
    account = approved_account(caller, sandbox)
    wanted = rule(
        sandbox, source_asset="USDC", destination_asset="USD",
        source={"crypto": {"network": "SOLANA"}},
        destination={"fiat": {"fiat_account_id": account["id"]}},
    )  # fmt: skip
    made = caller.post(RULES, wanted).json()["rule"]
    sandbox.control.crypto_deposit(made["source"]["crypto"]["address"], "USDC", "100.019999")
    sandbox.clock.advance(65)
    rows = {row["type"]: row for row in caller.rows("/v2/transfer/transfers")}
    assert rows["WIRE_WITHDRAWAL"]["amount"] == "75.01"
    assert caller.balance(sandbox.profile_ids[0], "USD")["available"] == "0.009999"


def test_a_rule_sends_what_was_converted_on_chain(sandbox: Sandbox, caller: Caller) -> None:
    """§2.4."""
    destination = {"crypto": {"network": "ETHEREUM", "address": "0x" + "ab" * 20}}
    assert caller.post(RULES, rule(sandbox, destination=destination)).ok
    fund(caller, sandbox, sandbox.profile_ids[0], "100.00")
    sandbox.clock.advance(5)
    rows = {row["type"]: row for row in caller.rows("/v2/transfer/transfers")}
    sent = rows["CRYPTO_WITHDRAWAL"]
    assert (sent["amount"], sent["fee"], sent["total"]) == ("97.00", "3.00", "100.00")
    assert (sent["asset"], sent["status"]) == ("USDG", "COMPLETED")
    assert (sent["destination_address"], sent["crypto_network"]) == ("0x" + "ab" * 20, "ETHEREUM")
    assert sent["notional_value"] == "100.00"
    assert rows["WIRE_DEPOSIT"]["auto_conversion"]["to_transfer_id"] == sent["id"]


def test_more_than_a_profile_can_hold_is_no_harm_to_a_rule(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§3.3: what is on its way out has its room in the balance."""
    to_chain = {"crypto": {"network": "ETHEREUM", "address": "0x" + "ab" * 20}}
    made = caller.post(
        RULES, rule(sandbox, source={"fiat": {"network": "CUBIX"}}, destination=to_chain)
    ).json()["rule"]
    for _ in range(2):
        assert deposit(caller, made["source"]["fiat"]["memo_id"], "99999999999999999999.00").ok
    sandbox.clock.advance(60)
    withdrawal, second, first = caller.rows("/v2/transfer/transfers")
    assert [row["status"] for row in (first, second)] == ["COMPLETED", "FAILED"]
    assert withdrawal["status"] == "PENDING"
    sandbox.clock.advance(5)
    assert caller.get(f"/v2/transfer/transfers/{withdrawal['id']}").json()["status"] == "COMPLETED"


def test_a_destination_without_an_address_leaves_the_money_with_the_profile(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§2.6: a create request may carry crypto with its network alone."""
    destination = {"crypto": {"network": "ETHEREUM"}}
    made = caller.post(RULES, rule(sandbox, destination=destination)).json()["rule"]
    assert made["destination"] == destination
    fund(caller, sandbox, sandbox.profile_ids[0], "100.00")
    assert caller.balance(sandbox.profile_ids[0], "USDG")["available"] == "100.00"


@pytest.mark.parametrize(
    ("destination", "kinds"),
    [
        ({"crypto": {"network": "BASE", "address": "0x" + "ab" * 20}}, {"CRYPTO_WITHDRAWAL"}),
        ({"profile": {}}, {"INTERNAL_TRANSFER_DEBIT", "INTERNAL_TRANSFER_CREDIT"}),
    ],
)
def test_what_an_end_users_rule_sends_on_is_the_end_users(
    sandbox: Sandbox, caller: Caller, destination: dict[str, Any], kinds: set[str]
) -> None:
    """§1: third parties find all of a user's transfers under ``identity_ids``."""
    user = sandbox.control.add_identity()
    who = {name: user[name] for name in ("identity_id", "account_id")}
    if "profile" in destination:
        destination = {"profile": {"profile_id": sandbox.profile_ids[1]}}
    source = {"fiat": {"network": "WIRE", "account_type": "ABA"}}
    made = caller.post(RULES, rule(sandbox, source=source, destination=destination, **who))
    memo_id = made.json()["rule"]["source"]["fiat"]["memo_id"]
    assert deposit(caller, memo_id, "100").ok
    sandbox.clock.advance(60)
    found = list(caller.rows(f"/v2/transfer/transfers?identity_ids={who['identity_id']}"))
    assert {row["type"] for row in found} == {"WIRE_DEPOSIT", *kinds}
    assert {row["account_id"] for row in found} == {who["account_id"]}


def test_rules_do_not_chain(sandbox: Sandbox, caller: Caller) -> None:
    """What one rule converted and sent on is not converted again where it arrives."""
    first, second = sandbox.profile_ids
    onwards = {"profile": {"profile_id": second}}
    assert caller.post(RULES, rule(sandbox, destination=onwards)).ok
    chained = rule(
        sandbox, ref_id="two", profile_id=second, source_asset="USDG", destination_asset="USDC",
        source=onwards,
    )  # fmt: skip
    assert caller.post(RULES, chained).ok
    fund(caller, sandbox, first, "40")
    assert caller.balance(second, "USDG")["available"] == "40.00"
    assert caller.balance(second, "USDC")["available"] == "0.00"


def test_a_second_rule_for_the_same_source_is_409(sandbox: Sandbox, caller: Caller) -> None:
    made = caller.post(RULES, rule(sandbox)).json()["rule"]
    again = caller.post(RULES, rule(sandbox, ref_id="other", destination_asset="USDP"))
    assert assert_problem(again, 409)["meta"]["existing"] == made


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"destination_asset": "USD"}, 400), ({"source_asset": "BTC"}, 400),
        ({"source": {}}, 400), ({"source": {"profile": {}}}, 400),
        ({"source": {"profile": {"profile_id": MISSING}}}, 404), ({"ref_id": None}, 400),
        ({"source": {"crypto": {"network": "SOLANA"}}}, 400),
        ({"source": {"crypto": {"network": "DOGE"}}, "source_asset": "USDC"}, 400),
        ({"source": {"fiat": {"deposit_instructions_id": MISSING}}}, 404),
        ({"source": {"fiat": {}}}, 400),
        ({"destination": {"fiat": {"fiat_account_id": MISSING}}}, 400),
        ({"destination": {"crypto": {"network": "SOLANA", "address": ""}}}, 400),
        ({"destination": {"crypto": {"network": "DOGE", "address": "x"}}}, 400),
        ({"destination": {"profile": {"profile_id": MISSING}}}, 404),
        ({"profile_id": MISSING}, 404),
    ],
)  # fmt: skip
def test_rules_are_validated(
    sandbox: Sandbox, caller: Caller, change: dict[str, Any], status: int
) -> None:
    assert_problem(caller.post(RULES, rule(sandbox) | change), status)
    assert caller.post(RULES, rule(sandbox)).ok


def test_equal_assets_are_refused_in_a_whole_sentence(sandbox: Sandbox, caller: Caller) -> None:
    same = {"destination_asset": rule(sandbox)["source_asset"]}
    refused = assert_problem(caller.post(RULES, rule(sandbox) | same), 400)
    assert refused["detail"] == "source_asset: must differ from destination_asset"
    assert refused["meta"]["field"] == "source_asset"


@pytest.mark.parametrize(
    ("named", "change", "field"),
    [
        ("instructions", {"memo_id": "WRONG"}, "memo_id"),
        ("instructions", {"network": "CUBIX"}, "network"),
        ("instructions", {"account_type": "SWIFT"}, "account_type"),
        ("instructions", {"fiat_account_id": MISSING}, "fiat_account_id"),
        ("instructions", {"memo": "m"}, "memo"),
        ("address", {"network": "SOLANA"}, "network"),
        ("address", {"address": "0x" + "ab" * 20}, "address"),
    ],
)
def test_what_a_source_is_said_to_be_must_be_true(
    sandbox: Sandbox, caller: Caller, named: str, change: dict[str, str], field: str
) -> None:
    """§2.6: no field of a source is left unread."""
    profile_id = sandbox.profile_ids[0]
    if named == "instructions":
        made = instructions(caller, profile_id)
        variant, asset = "fiat", "USD"
        full = {
            "deposit_instructions_id": made["id"], "memo_id": made["memo_id"], "network": "WIRE",
            "account_type": "ABA",
        }  # fmt: skip
    else:
        body = {"profile_id": profile_id, "crypto_network": "BASE"}
        made = caller.post(ADDRESSES, body).json()
        variant, asset = "crypto", "USDC"
        full = {"address_id": made["id"], "address": made["address"], "network": "BASE"}
    wanted = rule(sandbox, source_asset=asset)
    refused = caller.post(RULES, {**wanted, "source": {variant: {**full, **change}}})
    assert assert_problem(refused, 400)["meta"]["field"] == f"source.{variant}.{field}"
    accepted = caller.post(RULES, {**wanted, "source": {variant: full}})
    assert accepted.json()["rule"]["source"] == {variant: full}


@pytest.mark.parametrize(
    ("variant", "field"),
    [
        ("crypto", "address_id"), ("fiat", "deposit_instructions_id"), ("fiat", "network"),
        ("fiat", "account_type"), ("fiat", "memo_id"),
    ],
)  # fmt: skip
def test_a_destination_has_none_of_the_fields_of_a_source(
    sandbox: Sandbox, caller: Caller, variant: str, field: str
) -> None:
    """§2.6."""
    account = approved_account(caller, sandbox)
    destination, asset = {
        "crypto": ({"network": "BASE", "address": "0x" + "ab" * 20}, "USDG"),
        "fiat": ({"fiat_account_id": account["id"], "memo": "m"}, "USD"),
    }[variant]
    source = {"crypto": {"network": "BASE"}}
    wanted = rule(sandbox, source=source, source_asset="USDC", destination_asset=asset)
    bad = {variant: {**destination, field: "zz"}}
    refused = caller.post(RULES, {**wanted, "destination": bad})
    assert assert_problem(refused, 400)["meta"]["field"] == f"destination.{variant}.{field}"
    accepted = caller.post(RULES, {**wanted, "destination": {variant: destination}})
    assert accepted.json()["rule"]["destination"] == {variant: destination}


def test_rules_and_fiat_accounts_have_events_of_their_own(sandbox: Sandbox, caller: Caller) -> None:
    made = caller.post(RULES, rule(sandbox)).json()["rule"]
    account = approved_account(
        caller, sandbox, ref_id="a", fiat_network_instructions=with_routing("000000000")
    )
    events = list(caller.rows("/v2/events", "events"))
    assert [(event["type"], event["object_type"], event["object"]) for event in events] == [
        (
            "orchestration_rule.active", "orchestration_rule",
            {"id": made["id"], "ref_id": "rule", "status": "ACTIVE"},
        ),
        (
            "fiat_account.pending", "fiat_account_status_change",
            {"id": account["id"], "status": "PENDING", "ref_id": "a"},
        ),
        (
            "fiat_account.rejected", "fiat_account_status_change",
            {"id": account["id"], "status": "REJECTED", "ref_id": "a"},
        ),
    ]  # fmt: skip
