"""Faults to inject: each does what it says, as often as it says, and is off by default."""

from __future__ import annotations

import time
from typing import Any

import pytest
import requests
from sandbox_caller import Caller, deposit, instructions

from fundlab.base.errors import SandboxError
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
    sandbox.faults.add("rate_limit", count=1, after=1, seconds=6.5)
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


def test_what_gives_no_answer_leaves_nothing_to_truncate(sandbox: Sandbox, caller: Caller) -> None:
    instructions(caller, sandbox.profile_ids[0])
    sandbox.control.clear_requests()
    for kind in ("reset", "lost"):
        for first, second in ((kind, "truncate"), ("truncate", kind)):
            sandbox.faults.add(first, "list_events", count=1)
            sandbox.faults.add(second, "list_events", count=1)
            with pytest.raises(BROKEN):
                caller.get(EVENTS)
    assert list(sandbox.requests()["status"]) == [0, 0, 200, 200]
    assert caller.get(EVENTS).status_code == 200


def test_a_refusal_can_be_truncated_too(sandbox: Sandbox, caller: Caller) -> None:
    caller.token()
    sandbox.faults.add("truncate", "get_transfer", count=1)
    with pytest.raises(BROKEN):
        caller.get(f"{TRANSFERS}/nothing")


def test_a_late_row_waits_for_a_deposit(sandbox: Sandbox, caller: Caller) -> None:
    """A fault of every operation is not spent on one it means nothing to."""
    memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
    sandbox.faults.add("late", count=1, seconds=5)
    assert caller.get(EVENTS).status_code == 200
    assert deposit(caller, memo_id, "5").ok
    assert list(caller.rows(TRANSFERS)) == []
    assert sandbox.faults.active() == []
    sandbox.clock.advance(65)
    assert [row["amount"] for row in caller.rows(TRANSFERS)] == ["5.00"]


def test_a_token_that_lapses_in_mid_paging(sandbox: Sandbox, caller: Caller) -> None:
    deposits(sandbox, caller, 5)
    sandbox.faults.add("lapse_token", "list_transfers", count=1, after=1)
    first = caller.get(f"{TRANSFERS}?limit=3").json()
    second = f"{TRANSFERS}?limit=3&page_cursor={first['next_page_cursor']}"
    assert caller.get(second).status_code == 401
    caller._token = None
    assert [row["id"] for row in first["items"] + caller.get(second).json()["items"]] == [
        row["id"] for row in caller.rows(TRANSFERS)
    ]


def deposits(sandbox: Sandbox, caller: Caller, count: int) -> None:
    memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
    for _ in range(count):
        assert deposit(caller, memo_id, "1").ok


def test_a_duplicated_page_repeats_rows_and_loses_none(sandbox: Sandbox, caller: Caller) -> None:
    deposits(sandbox, caller, 9)
    whole = [row["id"] for row in caller.rows(TRANSFERS)]
    sandbox.faults.add("duplicate_page", "list_transfers", count=1)
    seen = [row["id"] for row in caller.rows(f"{TRANSFERS}?limit=3")]
    assert seen == whole[:6] + whole[3:]
    sandbox.faults.add("duplicate_page", "list_transfers", count=2)
    seen = [row["id"] for row in caller.rows(f"{TRANSFERS}?limit=3")]
    assert seen == whole[:6] + whole[3:6] + whole[3:]


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


def test_without_faults_nothing_is_broken(sandbox: Sandbox, caller: Caller) -> None:
    """Each is off by default: 60 calls, each answered as it should be."""
    assert sandbox.faults.active() == []
    deposits(sandbox, caller, 20)
    for _ in range(20):
        page = caller.get(f"{TRANSFERS}?limit=3").json()
        following = caller.get(f"{TRANSFERS}?limit=3&page_cursor={page['next_page_cursor']}").json()
        assert not {row["id"] for row in page["items"]} & {row["id"] for row in following["items"]}
    frame = sandbox.requests()
    assert set(frame["status"]) == {200}
    assert set(frame["faults"]) == {""}


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "explode"}, {"operation": "nothing"}, {"count": 0}, {"probability": 0},
        {"probability": 1.5}, {"status": 99}, {"seconds": -1}, {"keep": 1.0}, {"colour": "red"},
        {"body": "\ud83d is half a character"},
    ],
)  # fmt: skip
def test_bad_faults_are_refused(sandbox: Sandbox, options: dict[str, Any]) -> None:
    given = {"kind": "status", "operation": "*", **options}
    with pytest.raises(SandboxError, match=next(iter(options))):
        sandbox.faults.add(**given)
    assert sandbox.faults.active() == []


@pytest.mark.parametrize(
    "options",
    [
        {"count": "x"}, {"seconds": float("nan")}, {"seconds": float("inf")},
        {"headers": {"a": "b\r\nc: d"}}, {"headers": {"a b": "c"}}, {"status": 204, "body": "x"},
        {"probability": float("nan")}, {"keep": None},
    ],
)  # fmt: skip
def test_faults_no_server_could_do_are_refused(sandbox: Sandbox, options: dict[str, Any]) -> None:
    with pytest.raises(SandboxError):
        sandbox.faults.add("status", "*", **options)
    assert sandbox.faults.active() == []


@pytest.mark.parametrize("status", [200, 201, 204, 304, 400, 418, 499, 500, 503, 599])
def test_every_status_can_be_had(sandbox: Sandbox, caller: Caller, status: int) -> None:
    sandbox.faults.add("status", "list_events", count=1, status=status)
    answer = caller.get(EVENTS)
    assert answer.status_code == status
    assert bool(answer.content) is (status not in (204, 304))
    assert caller.get(EVENTS).status_code == 200
