"""What the interface leaves open, set: delays, fees, failures, rate limits, kept events."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import requests
from sandbox_caller import (
    WITHDRAWALS,
    Caller,
    approved_account,
    assert_problem,
    caller_of,
    deposit,
    fund,
    instructions,
    withdrawal,
)

import fundlab as fl
from fundlab.base.errors import SandboxError
from fundlab.sandbox import Sandbox, serve
from fundlab.sandbox.behaviour import Behaviour, Rates, read_behaviour
from fundlab.sandbox.credentials import read_credentials
from fundlab.sandbox.refusals import Refusal

EVERYTHING = """
deposit_seconds = 7
withdrawal_seconds = 3600
review_seconds = 0
wire_fees = { ABA = "1.50" }
network_fees = { ETHEREUM = "7.25" }
event_retention_seconds = 60

[[failures]]
type = "WIRE_WITHDRAWAL"
above = "50.00"
reason = "too much"
"""


def status_of(caller: Caller, transfer: dict[str, Any]) -> str:
    return caller.get(f"/v2/transfer/transfers/{transfer['id']}").json()["status"]


def test_a_file_sets_it_all(tmp_path: Path) -> None:
    path = tmp_path / "behaviour.toml"
    path.write_text(EVERYTHING)
    with serve(empty=True, clock="manual", behaviour=path) as sandbox:
        caller, profile_id = caller_of(sandbox), sandbox.profile_ids[0]
        memo_id = instructions(caller, profile_id)["memo_id"]
        deposit(caller, memo_id, "500.00")
        sandbox.clock.advance(7)
        assert caller.balance(profile_id)["available"] == "500.00"
        account = approved_account(caller, sandbox)
        paid, failing = (
            caller.post(WITHDRAWALS, withdrawal(sandbox, account["id"], amount)).json()
            for amount in ("50.00", "50.01")
        )
        assert paid["fee"] == "1.50"
        sandbox.clock.advance(3599)
        assert {status_of(caller, paid), status_of(caller, failing)} == {"PENDING"}
        sandbox.clock.advance(1)
        assert (status_of(caller, paid), status_of(caller, failing)) == ("COMPLETED", "FAILED")
        found = caller.get(f"/v2/transfer/transfers/{failing['id']}").json()
        assert found["status_details"] == {"reason": "too much"}
        assert caller.balance(profile_id)["available"] == "448.50"
        quote = {
            "asset": "USDC", "amount": "10.00", "crypto_network": "ETHEREUM",
            "destination_address": "0x" + "1" * 40,
        }  # fmt: skip
        assert caller.post("/v2/transfer/fees/crypto-withdrawal", quote).json()["fee"] == "7.25"
        events = caller.get("/v2/events").json()["events"]
        assert {event["type"].rpartition(".")[2] for event in events} == {"completed", "failed"}
        assert set(sandbox.control.ledger()["totals"].values()) == {"0.00"}
        caller.close()


def test_it_is_changed_over_http_saved_and_put_back(sandbox: Sandbox, caller: Caller) -> None:
    def configure(**changes: Any) -> requests.Response:
        return requests.post(f"{sandbox.control_url}/configure", json=changes, timeout=5)

    assert requests.get(f"{sandbox.control_url}/behaviour", timeout=5).json() == Behaviour(
    ).model_dump(mode="json")  # fmt: skip
    sandbox.checkpoint()
    assert configure(deposit_seconds=1).json()["deposit_seconds"] == 1
    assert configure(failures=[{"type": "WIRE_DEPOSIT"}]).json()["deposit_seconds"] == 1
    saved = sandbox.control.save()
    memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
    deposit(caller, memo_id, "5.00")
    sandbox.clock.advance(1)
    (failed,) = caller.get("/v2/transfer/transfers").json()["items"]
    assert failed["status"] == "FAILED"
    sandbox.restore()
    assert sandbox.control.behaviour()["deposit_seconds"] == 60
    sandbox.control.load(saved)
    assert sandbox.control.behaviour()["deposit_seconds"] == 1
    for bad in ({"slow": 1}, {"deposit_seconds": -1}, {"wire_fees": {"ABA": "-1"}},
                {"failures": [{"colour": "red"}]}, {"rate_limits": {"*": 0}}):  # fmt: skip
        assert_problem(configure(**bad), 400)


def test_a_reset_keeps_what_the_start_asked_for() -> None:
    with serve(empty=True, behaviour={"deposit_seconds": 3}) as sandbox:
        sandbox.control.configure(deposit_seconds=9)
        sandbox.control.reset()
        assert sandbox.control.behaviour()["deposit_seconds"] == 3


def test_a_share_of_transfers_fails_the_same_ones_each_time() -> None:
    rule = {"failures": [{"type": "WIRE_DEPOSIT", "probability": 0.5}]}
    seen = []
    for _ in range(2):
        with serve(empty=True, clock="manual", behaviour=rule) as sandbox:
            caller = caller_of(sandbox)
            memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
            for _ in range(30):
                deposit(caller, memo_id, "1.00")
            sandbox.clock.advance(60)
            rows = caller.get("/v2/transfer/transfers").json()["items"]
            seen.append([row["status"] for row in rows])
            caller.close()
    assert seen[0] == seen[1]
    assert 5 < seen[0].count("FAILED") < 25


# ---------------------------------------------------------------------------- rate limits


def test_each_credential_has_its_own_limit(sandbox: Sandbox, caller: Caller) -> None:
    made = sandbox.control.add_credential("other")
    sandbox.control.configure(rate_limits={sandbox.client_id: 0.02, "*": 1000})
    other = caller_of(sandbox, client_id="other", client_secret=made["client_secret"])
    assert caller.get("/v2/events").ok
    refused = caller.get("/v2/events")
    problem = assert_problem(refused, 429)
    assert 45 <= int(refused.headers["Retry-After"]) <= 50
    assert "more than 0.02 requests a second" in problem["detail"]
    assert other.get("/v2/events").ok
    other.close()


def test_tokens_have_a_limit_of_their_own(sandbox: Sandbox, caller: Caller) -> None:
    """A wrong secret counts, and no other credential feels it."""
    made = sandbox.control.add_credential("other")
    sandbox.control.configure(token_rate_limits={"other": 1000, "*": 0.02})
    other = caller_of(sandbox, client_id="other", client_secret=made["client_secret"])
    assert caller.ask_token(client_secret="wrong").status_code == 401
    refused = caller.ask_token()
    assert_problem(refused, 429)
    assert 45 <= int(refused.headers["Retry-After"]) <= 50
    assert sandbox.requests()["problem"].iloc[-1].startswith("more than 0.02 requests a second")
    for _ in range(3):
        assert other.ask_token().ok
        assert caller.ask_token(client_id="unknown").status_code == 401
        assert other.get("/v2/events").ok
    other.close()


@pytest.mark.thorough
def test_our_client_goes_at_the_pace_it_is_given(sandbox: Sandbox) -> None:
    sandbox.control.configure(rate_limits={"*": 4})
    with sandbox.connect() as client:
        for _ in range(5):
            client.get_profile_balance(sandbox.profile_ids[0], "USD")
    assert 429 in sandbox.requests()["status"].tolist()


def test_requests_come_back_with_time() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0])
    for _ in range(4):
        rates.take("a", {"*": 4})
    with pytest.raises(Refusal) as caught:
        rates.take("a", {"*": 4})
    assert caught.value.headers == {"Retry-After": "1"}
    now[0] += 0.5
    rates.take("a", {"*": 4})
    rates.take("a", {"*": 4})
    with pytest.raises(Refusal):
        rates.take("a", {"*": 4})
    now[0] += 1000  # no more than a second's worth is saved up
    for _ in range(4):
        rates.take("a", {"*": 4})
    with pytest.raises(Refusal):
        rates.take("a", {"*": 4})


def test_the_guides_files_are_what_they_say(tmp_path: Path) -> None:
    guide = Path(fl.__file__).parent / "docs/source/guides/the-sandbox-for-a-team.md"
    _, behaviour, credentials = re.findall(r"```toml\n(.*?)```", guide.read_text(), re.DOTALL)
    (tmp_path / "file.toml").write_text(behaviour)
    found = read_behaviour(tmp_path / "file.toml")
    assert (found.withdrawal_seconds, found.failures[0].probability) == (30, 0.5)
    (tmp_path / "file.toml").write_text(credentials)
    desk, another = read_credentials(tmp_path / "file.toml")
    assert (desk.client_id, another.new_customer) == ("desk", True)
    assert another.signing_key == tmp_path / "desk.pem"


# ---------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[", "is not TOML"),
        ("colour = 1", "colour: Extra inputs are not permitted; known: dep"),
        ("deposit_seconds = -1", "deposit_seconds: Input should be greater than or equal to 0"),
        ('wire_fees = { IBAN = "1" }', "wire_fees.IBAN"),
        ('cubix_fee = "1,5"', "cubix_fee: Value error, amount '1,5' must be digits"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text(content)
    with pytest.raises(SandboxError) as caught:
        serve(empty=True, behaviour=path)
    assert said in str(caught.value)
    with pytest.raises(SandboxError, match="cannot be read"):
        serve(empty=True, behaviour=tmp_path / "none")


def test_without_any_it_is_as_it_was(sandbox: Sandbox, caller: Caller) -> None:
    fund(caller, sandbox, sandbox.profile_ids[0], "100.00")
    account = approved_account(caller, sandbox)
    paid = caller.post(WITHDRAWALS, withdrawal(sandbox, account["id"], "10.13")).json()
    assert paid["fee"] == "25.00"
    sandbox.clock.advance(5)
    assert status_of(caller, paid) == "FAILED"
