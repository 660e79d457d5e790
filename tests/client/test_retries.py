from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import scripted
from hypothesis import given
from hypothesis import strategies as st
from scripted import answer, problem

from fundlab.base import errors
from fundlab.client.client import Client
from fundlab.client.http import Answer, Failure, retry_after_seconds
from fundlab.client.transport import Environment, Pace, may_repeat, pause_before

NOON = 1_790_000_000.0  # 2026-09-21T14:13:20Z


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("99999999", 99_999_999.0),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("", None),
        ("later", None),
        ("Mon, 21 Sep 2026 14:14:20 GMT", 60.0),
        ("Mon, 21 Sep 2026 14:14:20 +0200", 0.0),
        ("Mon, 21 Sep 2026 14:14:20", 60.0),
        ("Mon, 99 Sep 2026 14:14:20 GMT", None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(value, NOON) == seconds


@given(st.text(max_size=40))
def test_no_retry_after_breaks_the_client(value: str) -> None:
    seconds = retry_after_seconds(value, NOON)
    assert seconds is None or seconds >= 0


def test_pauses_double_up_to_ten_seconds_with_jitter() -> None:
    assert [pause_before(n, None, 1.0) for n in range(1, 8)] == [0.25, 0.5, 1, 2, 4, 8, 10]
    assert [pause_before(n, None, 0.0) for n in range(1, 8)] == [0.125, 0.25, 0.5, 1, 2, 4, 5]
    assert pause_before(1, 30.0, 0.5) == 30.0


def test_what_may_be_sent_again() -> None:
    def reply(status: int) -> Answer:
        return Answer(status, {}, b"")

    unsent, lost = Failure("x", sent=False), Failure("x", sent=True)
    final = Failure("x", sent=True, final=True)
    always = [unsent, reply(429)]
    repeatable = [lost, *map(reply, (408, 425, 500, 502, 503, 504, *range(520, 530)))]
    never = [final, *map(reply, (200, 302, 400, 409, 501, 519, 530))]
    for outcome in always + repeatable + never:
        assert may_repeat(outcome, repeatable=True) is (outcome not in never)
        assert may_repeat(outcome, repeatable=False) is (outcome in always)


def time_of(now: list[float], slept: list[float]) -> Environment:
    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    return Environment(clock=lambda: now[0], sleep=sleep, draw=lambda: 1.0, now=lambda: NOON)


def test_retry_after_is_obeyed_up_to_120_s(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    slept: list[float] = []
    client = make_client(environment=time_of([0.0], slept), call_timeout=500)
    server.script(
        problem(429, headers={"Retry-After": "120"}),
        problem(503, headers={"Retry-After": "Mon, 21 Sep 2026 14:13:30 GMT"}),
        answer({"id": "t"}),
    )
    assert client.get_transfer("t").id == "t"
    assert slept == [120.0, 10.0]
    server.script(problem(429, headers={"Retry-After": "121"}), answer({"id": "t"}))
    with pytest.raises(errors.RateLimited, match="try again after 2026-09-21T14:15:21Z, in 121 s"):
        client.get_transfer("t")
    assert slept[2:] == [2.0]  # the pace of before


def test_a_call_gives_up_before_its_120_s_are_over(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    slept: list[float] = []
    now = [0.0]
    client = make_client(environment=time_of(now, slept))
    server.script(problem(503, headers={"Retry-After": "50"}))
    with pytest.raises(errors.Unavailable, match="503"):
        client.get_transfer("t")
    assert slept == [50.0, 50.0]
    assert now[0] < 120


def test_the_number_of_attempts_is_limited(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    slept: list[float] = []
    client = make_client(environment=time_of([0.0], slept))
    server.script(problem(502))
    with pytest.raises(errors.Unavailable):
        client.get_transfer("t")
    assert slept == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert len(server.received) == 6


def test_the_rate_limit_spaces_requests(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    slept: list[float] = []
    client = make_client(environment=time_of([0.0], slept), rate_limit=4)
    server.script(answer({"id": "t"}))
    for _ in range(4):
        client.get_transfer("t")
    assert slept == [0.25] * 4  # the token request took the first turn


def test_a_turn_that_comes_too_late_is_an_error_and_nothing_is_sent(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    client = make_client(environment=time_of([0.0], []), rate_limit=0.005)
    with pytest.raises(errors.DeadlineExceeded, match="its turn would come in 200 s"):
        client.get_transfer("t")
    assert server.received == []


def test_a_turn_that_nobody_waits_for_is_left_to_others() -> None:
    pace = Pace(1.0, lambda: 0.0)
    assert pace.wait_s(object()) == 0.0
    for _ in range(100):
        turn = object()
        assert pace.wait_s(turn) == 1.0
        pace.leave(turn)


@pytest.mark.parametrize("value", ["0", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_retry_after_of_nothing_does_not_press_the_service(
    value: str, server: scripted.Scripted, make_client: Callable[..., Client],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    slept: list[float] = []
    client = make_client(environment=time_of([0.0], slept))
    server.script(problem(429, headers={"Retry-After": value}))
    with pytest.raises(errors.RateLimited):
        client.get_transfer("t")
    assert slept[:7] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0]
    assert 110 < sum(slept) < 120  # no number of refusals ends a call, only its time does
    pauses = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert [text.partition(", request")[0] for text in pauses] == [
        "get_transfer: the service takes no more requests now (429); waiting 0.2 s, then going on "
        "at the pace it accepts"
    ]


def test_a_pause_that_the_service_asks_for_holds_for_all() -> None:
    now = [10.0]
    pace = Pace(None, lambda: now[0])
    pace.hold(5.0)
    turns = [object(), object()]
    assert [pace.wait_s(turn) for turn in turns] == [5.0, 5.0]
    now[0] = 15.0
    assert [pace.wait_s(turn) for turn in turns] == [0.0, 0.0]


def test_the_jitter_never_moves_the_callers_seeded_random() -> None:
    state = random.getstate()
    Environment().draw()
    assert random.getstate() == state
