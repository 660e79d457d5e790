"""Faults to inject: each does what it says, as often as it says, and is off by default."""

from __future__ import annotations

import time
from typing import Any

import pytest
import requests
from sandbox_caller import Caller, deposit, instructions

from fundlab.errors import SandboxError
from fundlab.sandbox import Sandbox

TRANSFERS = "/v2/transfer/transfers"
EVENTS = "/v2/events"
BROKEN = (requests.ConnectionError, requests.exceptions.ChunkedEncodingError)


def test_any_status_with_any_body(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.faults.add("status", "list_events", count=2, status=503)
    sandbox.faults.add(
        "status", "list_transfers", count=1, status=200, body="<html>",
        headers={"content-type": "text/html"},
    )  # fmt: skip
    answers = [caller.get(EVENTS) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [503, 503, 200]
    assert answers[0].headers["Content-Type"] == "application/problem+json"
    html = caller.get(TRANSFERS)
    assert (html.status_code, html.text) == (200, "<html>")
    assert html.headers["Content-Type"] == "text/html"
    assert sandbox.faults.active() == []


def test_too_many_requests_say_when_to_come_back(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.faults.add("rate_limit", count=1, after=1, seconds=7)
    caller.token()
    answer = caller.get(EVENTS)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
    assert caller.get(EVENTS).status_code == 200


def test_latency(sandbox: Sandbox, caller: Caller) -> None:
    caller.token()
    sandbox.faults.add("latency", "list_events", count=1, seconds=0.3)
    started = time.perf_counter()
    assert caller.get(EVENTS).status_code == 200
    assert time.perf_counter() - started >= 0.3


@pytest.mark.parametrize(("kind", "made"), [("reset", 0), ("lost", 1)])
def test_reset_before_and_lost_after_processing(
    sandbox: Sandbox, caller: Caller, kind: Any, made: int
) -> None:
    memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
    sandbox.faults.add(kind, "initiate_sandbox_fiat_deposit", count=1)
    with pytest.raises(BROKEN):
        deposit(caller, memo_id, "1")
    assert len(list(caller.rows(TRANSFERS))) == made


def test_a_truncated_body(sandbox: Sandbox, caller: Caller) -> None:
    instructions(caller, sandbox.profile_ids[0])
    sandbox.faults.add("truncate", "list_fiat_deposit_instructions", count=1, keep=0.3)
    with pytest.raises(BROKEN):
        caller.get("/v2/transfer/fiat-deposit-instructions")
    assert caller.get("/v2/transfer/fiat-deposit-instructions").status_code == 200


def test_a_token_that_lapses_in_mid_paging(sandbox: Sandbox, caller: Caller) -> None:
    assert caller.get(EVENTS).status_code == 200
    sandbox.faults.add("lapse_token", "list_events", count=1)
    assert caller.get(EVENTS).status_code == 401
    caller._token = None
    assert caller.get(EVENTS).status_code == 200


def deposits(sandbox: Sandbox, caller: Caller, count: int) -> None:
    memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
    for _ in range(count):
        assert deposit(caller, memo_id, "1").ok


def test_a_duplicated_page_repeats_rows_and_loses_none(sandbox: Sandbox, caller: Caller) -> None:
    deposits(sandbox, caller, 9)
    whole = [row["id"] for row in caller.rows(TRANSFERS)]
    sandbox.faults.add("duplicate_page", "list_transfers", count=1)
    seen = [row["id"] for row in caller.rows(f"{TRANSFERS}?limit=3")]
    assert seen == whole[:3] + whole


def test_a_repeated_cursor(sandbox: Sandbox, caller: Caller) -> None:
    deposits(sandbox, caller, 9)
    first = caller.get(f"{TRANSFERS}?limit=3").json()["next_page_cursor"]
    sandbox.faults.add("repeat_cursor", "list_transfers", count=1)
    page = caller.get(f"{TRANSFERS}?limit=3&page_cursor={first}").json()
    assert page["next_page_cursor"] == first
    again = caller.get(f"{TRANSFERS}?limit=3&page_cursor={first}").json()
    assert again["items"] == page["items"]
    assert again["next_page_cursor"] != first


def test_late_rows_appear_behind_the_watermark(sandbox: Sandbox, caller: Caller) -> None:
    memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
    sandbox.faults.add("late", "initiate_sandbox_fiat_deposit", count=1, seconds=100)
    assert deposit(caller, memo_id, "5").ok
    sandbox.clock.advance(1)
    assert deposit(caller, memo_id, "7").ok
    sandbox.clock.advance(150)
    (seen,) = caller.rows(TRANSFERS)
    assert (seen["amount"], seen["status"]) == ("7.00", "COMPLETED")
    sandbox.clock.advance(10)
    _, late = caller.rows(TRANSFERS)
    assert (late["amount"], late["status"]) == ("5.00", "COMPLETED")
    assert late["created_at"] < seen["created_at"]
    assert late["updated_at"] < seen["updated_at"]
    assert caller.balance(sandbox.profile_ids[0])["available"] == "12.00"


def test_probability_is_repeatable(sandbox: Sandbox, caller: Caller) -> None:
    caller.token()
    runs = []
    for _ in range(2):
        number = sandbox.faults.add("status", "list_events", probability=0.4, seed=3, status=500)
        runs.append([caller.get(EVENTS).status_code for _ in range(40)])
        sandbox.faults.remove(number)
    assert runs[0] == runs[1]
    assert 5 < runs[0].count(500) < 30


def test_the_token_endpoint_can_fail_too(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.faults.add("status", "token", count=1, status=502)
    assert caller.ask_token().status_code == 502
    assert caller.ask_token().status_code == 200


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "explode"}, {"operation": "nothing"}, {"count": 0}, {"probability": 0},
        {"probability": 1.5}, {"status": 99}, {"seconds": -1}, {"keep": 1.0}, {"colour": "red"},
    ],
)  # fmt: skip
def test_bad_faults_are_refused(sandbox: Sandbox, options: dict[str, Any]) -> None:
    given = {"kind": "status", "operation": "*", **options}
    with pytest.raises(SandboxError, match=next(iter(options))):
        sandbox.faults.add(**given)
    assert sandbox.faults.active() == []
