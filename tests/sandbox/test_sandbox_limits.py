"""For every operation: limits (§8), amounts (§2), ref_ids, end users (§1), problems (§7)."""

from __future__ import annotations

from typing import Any

import pytest
from sandbox_caller import (
    ACCOUNTS,
    ADDRESSES,
    INSTRUCTIONS,
    MISSING,
    OWNER,
    QUOTES,
    RULES,
    WIRE,
    WITHDRAWALS,
    Caller,
    approved_account,
    assert_problem,
    caller_of,
    deposit,
    fund,
    instructions,
    withdrawal,
)  # fmt: skip  # fmt: skip

from fundlab.sandbox import Sandbox

# ---------------------------------------------------------------------------- limits


def takers(sandbox: Sandbox, account_id: str, memo_id: str) -> dict[str, dict[str, Any]]:
    """Valid bodies by path."""
    profile = {"profile_id": sandbox.profile_ids[0]}
    bank = {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE}
    quote = {"asset": "USDC", "destination_address": "7" * 40, "crypto_network": "SOLANA"}
    return {
        INSTRUCTIONS: {**profile, "fiat_network": "CUBIX"},
        ACCOUNTS: bank,
        WITHDRAWALS: withdrawal(sandbox, account_id, "1.00"),
        ADDRESSES: {**profile, "crypto_network": "BASE"},
        "/v2/sandbox/fiat-deposits": {
            **bank, "amount": "1.00", "asset": "USD", "memo_id": memo_id,
        },
        QUOTES: {**quote, "amount": "10.00"},
        f"{QUOTES}?": {**quote, "total": "10.00"},
    }  # fmt: skip


def test_metadata_is_limited_wherever_it_is_taken(sandbox: Sandbox, caller: Caller) -> None:
    """§8: at most 6 pairs; keys and values at most 100 characters."""
    fund(caller, sandbox, sandbox.profile_ids[0], "1000")
    account = approved_account(caller, sandbox)
    largest = {str(n) + "k" * 99: "v" * 100 for n in range(6)}
    bodies = takers(sandbox, account["id"], "")
    for path in (INSTRUCTIONS, ACCOUNTS, WITHDRAWALS, ADDRESSES):
        for bad in ({str(n): "x" for n in range(7)}, {"k" * 101: "x"}, {"k": "x" * 101}):
            refused = caller.post(path, {**bodies[path], "metadata": bad})
            field = assert_problem(refused, 400)["meta"]["field"]
            assert field.partition(".")[0] == "metadata"
        assert (
            caller.post(path, {**bodies[path], "metadata": largest}).json()["metadata"] == largest
        )
    update = caller.put(f"{ACCOUNTS}/{account['id']}", {"metadata": {"k": "x" * 101}})
    assert assert_problem(update, 400)["meta"]["field"] == "metadata.k"


@pytest.mark.parametrize(
    "bad",
    [
        "0", "0.00", "-1", "+1", "1e3", "1,000.00", "1.001", "1.", ".", "", " 1", "1 ", "1\n",
        "\n1", "\u0661\u0662", "\uff11", "0x10", "NaN", "1_0", "1" * 21, "0" * 65, "9" * 16_000,
        "1." + "0" * 19, 1, 1.5, True, ["1"], {},
    ],
)  # fmt: skip
def test_amounts_are_checked_wherever_they_are_taken(
    sandbox: Sandbox, caller: Caller, bad: object
) -> None:
    """§2: the pattern in full; 64 characters; 20 and 18 digits; 2 decimals for USD."""
    bodies = takers(sandbox, MISSING, "x")
    for path, body in bodies.items():
        for name in body.keys() & {"amount", "total"}:
            problem = assert_problem(caller.post(path, {**body, name: bad}), 400)
            assert problem["meta"]["field"] == name


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("1", "1.00"), ("1.5", "1.50"), (".25", "0.25"), ("007.10", "7.10"),
        ("99999999999999999999.99", "99999999999999999999.99"),
    ],
)  # fmt: skip
def test_every_amount_that_fits_is_taken_exactly(
    sandbox: Sandbox, caller: Caller, given: str, shown: str
) -> None:
    fund(caller, sandbox, sandbox.profile_ids[0], given)
    assert caller.balance(sandbox.profile_ids[0])["available"] == shown


# ---------------------------------------------------------------------------- idempotence


def test_a_repeated_ref_id_is_409_with_what_it_made(sandbox: Sandbox, caller: Caller) -> None:
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "1000")
    account = approved_account(caller, sandbox)
    bodies = {
        INSTRUCTIONS: {"profile_id": profile_id, "fiat_network": "CUBIX"},
        ACCOUNTS: {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE},
        WITHDRAWALS: withdrawal(sandbox, account["id"], "1"),
        ADDRESSES: {"profile_id": profile_id, "crypto_network": "SOLANA"},
        RULES: {
            "profile_id": profile_id, "source_asset": "USD", "destination_asset": "USDG",
            "source": {"profile": {"profile_id": profile_id}},
        },
    }  # fmt: skip
    for path, body in bodies.items():
        made = caller.post(path, {**body, "ref_id": "same"}).json()
        again = assert_problem(caller.post(path, {**body, "ref_id": "same"}), 409)
        assert again["meta"]["existing"] == made.get("rule", made)


def test_existing_shows_the_resource_as_it_is_now(sandbox: Sandbox, caller: Caller) -> None:
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "30")
    account = approved_account(caller, sandbox)
    body = withdrawal(sandbox, account["id"], "5.00", ref_id="w")
    assert caller.post(WITHDRAWALS, body).ok
    sandbox.clock.advance(5)
    problem = assert_problem(caller.post(WITHDRAWALS, body), 409)
    assert problem["meta"]["existing"]["status"] == "COMPLETED"


# ---------------------------------------------------------------------------- end users


def test_third_parties_act_for_end_users(sandbox: Sandbox, caller: Caller) -> None:
    """§1."""
    profile_id = sandbox.profile_ids[0]
    user = sandbox.control.add_identity()
    who = {"identity_id": user["identity_id"], "account_id": user["account_id"]}
    fund(caller, sandbox, profile_id, "100", **who)
    account = approved_account(caller, sandbox, **who)
    assert account["identity_id"] == who["identity_id"]
    made = caller.post(WITHDRAWALS, withdrawal(sandbox, account["id"], "5", **who)).json()
    assert {name: made[name] for name in who} == who
    listed = list(caller.rows(f"/v2/transfer/transfers?identity_ids={who['identity_id']}"))
    assert [row["type"] for row in listed] == ["WIRE_WITHDRAWAL", "WIRE_DEPOSIT"]
    assert {row["account_id"] for row in listed} == {who["account_id"]}


def test_an_account_belongs_to_its_identity(sandbox: Sandbox, caller: Caller) -> None:
    users = [sandbox.control.add_identity() for _ in range(2)]
    body = {"profile_id": sandbox.profile_ids[0], "fiat_network": "CUBIX"}
    mixed = {"identity_id": users[0]["identity_id"], "account_id": users[1]["account_id"]}
    assert_problem(caller.post(INSTRUCTIONS, body | mixed), 404)
    alone = {"account_id": users[0]["account_id"]}
    assert_problem(caller.post(INSTRUCTIONS, body | alone), 400)


def test_another_customers_resources_are_404(sandbox: Sandbox, caller: Caller) -> None:
    made = sandbox.control.add_credential("other", new_customer=True)
    other = caller_of(sandbox, client_id="other", client_secret=made["client_secret"])
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "10")
    account = approved_account(caller, sandbox, ref_id="shared")
    memo = instructions(caller, profile_id)
    (transfer,) = caller.rows("/v2/transfer/transfers")
    for path in (
        f"{ACCOUNTS}/{account['id']}", f"{INSTRUCTIONS}/{memo['id']}",
        f"/v2/transfer/transfers/{transfer['id']}", f"/v2/profiles/{profile_id}/balances/USD",
    ):  # fmt: skip
        assert_problem(other.get(path), 404)
    assert list(other.rows("/v2/transfer/transfers")) == []
    assert list(other.rows(ACCOUNTS)) == []
    assert list(other.rows("/v2/events", "events")) == []
    assert_problem(deposit(other, memo["memo_id"], "1"), 400)
    own = {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE, "ref_id": "shared"}
    assert other.post(ACCOUNTS, own).ok
    other.close()


# ---------------------------------------------------------------------------- titles

TITLES = {
    "400": ("about:blank", "Bad Request"),
    "401": ("about:blank", "Unauthorized"),
    "403 scope": ("https://problems.fundlab.invalid/insufficient-scope", "Insufficient scope"),
    "403 funds": ("https://problems.fundlab.invalid/insufficient-funds", "Insufficient funds"),
    "404": ("about:blank", "Not Found"),
    "405": ("about:blank", "Method Not Allowed"),
    "409": ("https://problems.fundlab.invalid/conflict", "Conflict"),
    "415": ("about:blank", "Unsupported Media Type"),
    "429": ("about:blank", "Too Many Requests"),
}


def test_every_problem_has_its_type_and_title(sandbox: Sandbox, caller: Caller) -> None:
    """§7."""
    account = approved_account(caller, sandbox)
    repeated = {"profile_id": sandbox.profile_ids[0], "fiat_network": "CUBIX", "ref_id": "r"}
    assert caller.post(INSTRUCTIONS, repeated).ok
    token = caller.ask_token("events:read_event").json()["access_token"]
    narrow = {"Authorization": f"Bearer {token}"}
    answers = {
        "400": caller.get("/v2/events?limit=0"),
        "401": caller.call("GET", "/v2/events", headers={"Authorization": "Bearer x"}),
        "403 scope": caller.call("GET", ACCOUNTS, headers=narrow),
        "403 funds": caller.post(WITHDRAWALS, withdrawal(sandbox, account["id"], "1")),
        "404": caller.get(f"{ACCOUNTS}/{MISSING}"),
        "405": caller.call("DELETE", ACCOUNTS),
        "409": caller.post(INSTRUCTIONS, repeated),
        "415": caller.call("POST", ACCOUNTS, b"{}", {"Content-Type": "text/plain"}),
    }
    sandbox.faults.add("rate_limit", "list_events", count=1)
    answers["429"] = caller.get("/v2/events")
    for name, answer in answers.items():
        problem = assert_problem(answer, int(name[:3]))
        assert (problem["type"], problem["title"]) == TITLES[name], name
        assert problem["detail"]
