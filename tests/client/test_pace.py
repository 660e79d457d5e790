"""A service that takes few requests a second: every call comes through, at nearly its pace."""

from __future__ import annotations

import heapq
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import pytest
import scripted
from fake_service import FakeService, transfer
from scripted import answer, problem, token

from fundlab.client.client import Client
from fundlab.client.connections import Http
from fundlab.client.http import Answer, Outgoing
from fundlab.client.transport import Environment, Pace
from fundlab.sync.loaders import load_transfers

LATENCY_S = 0.05


class VirtualTime:
    """Threads that sleep here wake one by one, in the order of time, once all of them sleep."""

    def __init__(self) -> None:
        self.now, self._running = 0.0, 1
        self._lock, self._count = threading.Lock(), 0
        self._sleepers: list[tuple[float, int, threading.Event]] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        woken = threading.Event()
        with self._lock:
            self._count += 1
            heapq.heappush(self._sleepers, (self.now + seconds, self._count, woken))
            self._rest()
        woken.wait()

    def side_by_side(self, jobs: list[Callable[[], None]]) -> None:
        def run(job: Callable[[], None]) -> None:
            self.sleep(0)
            job()
            with self._lock:
                self._rest()

        self._running += len(jobs)
        threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        with self._lock:
            self._rest()
        for thread in threads:
            thread.join()
        self._running = 1

    def _rest(self) -> None:
        self._running -= 1
        if self._running == 0 and self._sleepers:
            self.now, _, woken = heapq.heappop(self._sleepers)
            self._running = 1
            woken.set()


@dataclass
class Limit:
    """What a service allows: ``rate`` requests in any second (or in each, or as a bucket fills)."""

    kind: str
    rate: float
    taken: deque[float] = field(default_factory=deque)
    filled: tuple[float, float] | None = None

    def takes(self, now: float) -> bool:
        if self.kind == "bucket":
            full = max(self.rate, 1)
            at, level = self.filled or (now, full)
            level = min(full, level + (now - at) * self.rate)
            self.filled = (now, level - (level >= 1))
            return level >= 1
        begin = now - 1 if self.kind == "any second" else float(int(now))
        while self.taken and self.taken[0] <= begin - (self.kind != "any second") * 1e-9:
            self.taken.popleft()
        if len(self.taken) >= self.rate:
            return False
        self.taken.append(now)
        return True


@pytest.mark.parametrize("headers", [{"Retry-After": "1"}, {}], ids=["told", "not told"])
@pytest.mark.parametrize("kind", ["each second", "any second", "bucket"])
@pytest.mark.parametrize(("rate", "workers"), [(2, 8), (3, 16)])
def test_every_call_comes_through_at_nearly_the_services_pace(
    rate: float, workers: int, kind: str, headers: dict[str, str],
    make_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    virtual, limit = VirtualTime(), Limit(kind, rate)
    client = make_client(environment=Environment(clock=virtual.clock, sleep=virtual.sleep))
    refused = [0]

    def exchange(http: Http, request: Outgoing, timeout: float) -> Answer:
        if request.method == "POST":
            return Answer(200, {}, b'{"access_token": "t", "expires_in": 86400}')
        virtual.sleep(LATENCY_S / 2)
        taken = limit.takes(virtual.now)
        virtual.sleep(LATENCY_S / 2)
        refused[0] += not taken
        return Answer(200, {}, b'{"id": "t"}') if taken else Answer(429, headers, b"")

    monkeypatch.setattr(Http, "exchange", exchange)
    client.get_transfer("t")
    count = int(150 * rate)
    calls, longest = deque(range(count)), [0.0]

    def work() -> None:
        while calls:
            calls.popleft()
            started = virtual.now
            client.get_transfer("t")
            longest[0] = max(longest[0], virtual.now - started)

    virtual.side_by_side([work] * workers)
    assert not calls
    assert virtual.now < 1.25 * 150
    assert longest[0] < 30
    assert refused[0] < count / 8
    (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "the service takes no more requests now (429)" in warning.getMessage()


@pytest.mark.thorough
def test_a_load_with_many_workers_ends_at_a_limited_service(
    server: scripted.Scripted, make_client: Callable[..., Client],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    service = FakeService([transfer(n) for n in range(60)], largest_page=1)
    client = make_client(environment=Environment())
    limit, lock, refused = Limit("bucket", 40), threading.Lock(), [0]

    def respond(connection: socket.socket, request: scripted.Received) -> None:
        with lock:
            taken = limit.takes(time.monotonic())
            refused[0] += not taken
            page = service.fetch_page("list_transfers", parse_qsl(urlsplit(request.target).query))
        refusal = problem(429, headers={"Retry-After": "0"})
        connection.sendall(answer(page) if taken else refusal)

    server.script(respond)
    started = time.monotonic()
    assert len(load_transfers(client, workers=16)) == 60
    assert refused[0] > 0
    assert time.monotonic() - started < 15
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


def took_turn(pace: Pace) -> bool:
    turn = object()
    taken = pace.wait_s(turn) == 0
    pace.leave(turn)
    return taken


def test_refused_calls_do_not_wake_together() -> None:
    now = [0.0]
    pace = Pace(None, lambda: now[0])
    turns = [object() for _ in range(6)]
    assert [pace.wait_s(turn) for turn in turns] == [0.0] * 6
    now[0] = 0.1
    pace.accepted(0.0)
    for _ in range(4):
        assert pace.refused(0.0, 2.0, 0.5) == 2.0
    pace.accepted(0.0)  # the answer that was longest under way
    gap = 2.1 / 2
    waiting = [object() for _ in range(4)]
    assert [pace.wait_s(turn) for turn in waiting] == pytest.approx(
        [2.0, 2.0 + gap, 2.0 + 2 * gap, 2.0 + 3 * gap]
    )
    pace.leave(waiting[0])  # who gives up leaves no gap
    assert pace.wait_s(waiting[1]) == pytest.approx(2.0)


def test_the_pace_recovers_within_minutes_and_no_further_than_the_own_limit() -> None:
    now = [0.0]
    pace = Pace(50.0, lambda: now[0])
    took_turn(pace)
    pace.refused(0.0, 60.0, 0.5)
    now[0], sent = 60.0, 0
    while now[0] < 360:
        if took_turn(pace):
            pace.accepted(now[0])
            sent = sent + 1 if now[0] > 300 else 0
        now[0] += 0.005
    assert 0.8 * 50 * 60 < sent <= 50 * 60 + 1


@pytest.mark.parametrize("slow", ["the answer", "the token"])
def test_an_answer_that_took_longer_than_the_pace_remembers_arrives(
    slow: str, server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    now = [0.0]

    def eleven_seconds_later(content: bytes) -> scripted.Answer:
        def respond(connection: socket.socket, request: scripted.Received) -> None:
            now[0] += 11
            connection.sendall(content)

        return respond

    made = answer({"id": "t"})
    server.script(eleven_seconds_later(made) if slow == "the answer" else made)
    server.token_answers[:] = [eleven_seconds_later(token()) if slow == "the token" else token()]
    client = make_client(environment=Environment(clock=lambda: now[0]))
    paid = client.create_fiat_withdrawal(amount="10", fiat_account_id="f", profile_id="p")
    assert (paid.id, now[0], len(server.received)) == ("t", 11.0, 1)


def test_late_answers_of_a_refused_burst_count_with_it() -> None:
    now = [1.0]
    pace = Pace(None, lambda: now[0])
    pace.refused(0.0, 29.0, 0.5)
    now[0] = 13.0
    for _ in range(60):
        pace.accepted(0.0)
    now[0] = 30.0
    assert took_turn(pace)
    assert pace.wait_s(object()) == pytest.approx(30 / 60)


def test_one_refusal_after_an_idle_time_hardly_slows_the_client_down() -> None:
    now = [0.0]
    pace = Pace(None, lambda: now[0])

    def send() -> float:
        turn = object()
        while (wait := pace.wait_s(turn)) > 0:
            now[0] += wait
        now[0] += 0.05
        return now[0] - 0.05

    pace.accepted(send())
    now[0] += 300
    pace.refused(send(), None, 0.5)
    started = now[0]
    for _ in range(50):
        pace.accepted(send())
    assert now[0] - started < 11  # at the pause's pace for 10 s; without the refusal 2.5


def test_only_what_was_accepted_shortly_before_a_refusal_says_how_fast_to_go_on() -> None:
    now = [0.0]
    pace = Pace(None, lambda: now[0])
    while now[0] < 300:  # 20 a second for minutes, then one a second
        assert took_turn(pace)
        pace.accepted(now[0])
        now[0] += 0.05 if now[0] < 280 else 1.0
    pace.refused(now[0], 1.0, 0.5)
    now[0] += 1.0
    assert took_turn(pace)
    assert pace.wait_s(object()) == pytest.approx(1.1, abs=0.05)


def test_a_client_that_is_never_refused_does_not_grow() -> None:
    now = [0.0]
    pace = Pace(None, lambda: now[0])
    for _ in range(20_000):
        now[0] += 1.0
        pace.accepted(now[0])
    assert sum(sys.getsizeof(value) for value in vars(pace).values()) < 10_000


def gap_of(pace: Pace, now: list[float]) -> float:
    """How far apart turns come: the first is taken as soon as it may be."""
    first, second = object(), object()
    if wait := pace.wait_s(first):
        now[0] += wait
        assert pace.wait_s(first) == 0
    wait = pace.wait_s(second)
    pace.leave(second)
    return wait


@pytest.mark.parametrize(
    ("limit", "accepted", "asked", "gap"),
    [
        (None, [0, 1, 2], 2, 5 / 3), (None, [], 1, 1), (None, [], 30, 2), (None, [3] * 4, 2, 0.5),
        # Of the ten seconds before the refusal, and no faster than the own limit.
        (None, [-7] * 10, 2, 1.2), (None, [-8] + [-7] * 10, 2, 1.2), (0.4, [], 1, 2.5),
        (0.5, [3] * 4, 1, 2),
    ],
)  # fmt: skip
def test_turns_come_as_far_apart_as_what_was_accepted(
    limit: float | None, accepted: list[float], asked: float, gap: float
) -> None:
    now = [0.0]
    pace = Pace(limit, lambda: now[0])
    for now[0] in accepted:
        pace.accepted(now[0])
    now[0] = 3.0
    assert pace.refused(3.0, asked, 0.0) == asked
    assert gap_of(pace, now) == pytest.approx(gap)


def refused_once() -> tuple[Pace, list[float]]:
    """At 3 s, so that turns come a second apart."""
    now = [3.0]
    pace = Pace(None, lambda: now[0])
    pace.refused(3.0, 1.0, 0.0)
    return pace, now


@pytest.mark.parametrize(("sent_at", "gap"), [(2.9, 0.5), (3.0, 1.0)])
def test_what_was_sent_once_a_refusal_was_known_is_not_of_its_burst(
    sent_at: float, gap: float
) -> None:
    pace, now = refused_once()
    now[0] = 3.5
    for _ in range(2):
        pace.accepted(sent_at)
    assert gap_of(pace, now) == pytest.approx(gap, abs=0.1)


def test_a_refusal_more_slows_down_by_a_third_up_to_two_seconds() -> None:
    pace, now = refused_once()
    now[0] = 4.0
    assert pace.refused(2.9, None, 0.0) == 0.125  # sent before the first was known
    assert gap_of(pace, now) == 1.0
    gaps = []
    for asked in (None, None, None):
        pace.refused(now[0], asked, 0.0)
        gaps.append(gap_of(pace, now))
    assert gaps == pytest.approx([1.3, 1.69, 2.0])


@pytest.mark.parametrize(
    ("count", "at", "gap"),
    [(10, 13.0, 1 / 1.15), (9, 13.0, 1.0), (10, 12.9, 1.0), (11, 13.0, 1 / 1.15)],
)
def test_ten_accepted_in_ten_seconds_speed_up(count: int, at: float, gap: float) -> None:
    pace, now = refused_once()
    now[0] = at
    for _ in range(count):
        pace.accepted(at)
    assert gap_of(pace, now) == pytest.approx(gap)


def test_steps_grow_and_a_refusal_goes_back_to_what_was_good() -> None:
    pace, now = refused_once()
    gaps = []
    for at in (13.0, 23.0, 33.0):
        before, now[0] = gap_of(pace, now), at
        for _ in range(9):
            pace.accepted(at)
        assert gap_of(pace, now) == before
        now[0] = at
        pace.accepted(at)
        gaps.append(gap_of(pace, now))
    assert gaps == pytest.approx([1 / 1.15, 1 / 1.15 / 1.3, 1 / 1.15 / 1.3 / 1.6])
    now[0] = 40.0
    pace.refused(40.0, None, 0.0)
    assert gap_of(pace, now) == pytest.approx(1 / 1.15 / 1.3)
    # What it was good at is slower than that from then on, and steps begin anew.
    pace.refused(now[0], None, 0.0)
    assert gap_of(pace, now) == pytest.approx(1.3 / 1.15 / 1.3)
    now[0] += 10.0
    for _ in range(10):
        pace.accepted(now[0])
    assert gap_of(pace, now) == pytest.approx(1.3 / 1.15 / 1.3 / 1.15)


def test_a_refusal_after_twenty_accepted_and_pauses_slows_nobody_down() -> None:
    for count, later, gap in ((20, 2.5, 1.0), (19, 2.5, 1.3), (20, 2.4, 1.3)):
        pace, now = refused_once()
        now[0] = 3.0 + later
        for _ in range(count):
            pace.accepted(3.5)
        pace.refused(now[0], None, 0.0)  # for 0.125 s
        assert gap_of(pace, now) == pytest.approx(gap)


def test_turns_stand_in_line_a_gap_apart() -> None:
    now = [10.0]
    pace = Pace(4.0, lambda: now[0])
    assert took_turn(pace)
    turns = [object() for _ in range(3)]
    assert [pace.wait_s(turn) for turn in turns] == [0.25, 0.5, 0.75]
    assert [pace.wait_s(turn) for turn in turns] == [0.25, 0.5, 0.75]
    pace.leave(turns[0])
    pace.leave(object())
    assert [pace.wait_s(turn) for turn in turns[1:]] == [0.25, 0.5]
    pace.hold(0.1)
    assert pace.wait_s(turns[1]) == 0.25
    pace.hold(2.0)
    assert pace.wait_s(turns[1]) == 2.0
    now[0] = 12.0
    assert [pace.wait_s(turn) for turn in turns[1:]] == [0.0, 0.25]


def test_one_line_an_episode() -> None:
    now = [0.0]
    pace = Pace(None, lambda: now[0])
    found = []
    for now[0] in (0.0, 30.0, 80.0, 150.0):
        found.append((pace.is_news("refusals"), pace.is_news("failures")))
    assert found == [(True, True), (False, False), (False, False), (True, True)]


def test_a_forked_process_has_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = Pace(1.0, lambda: 0.0)
    assert took_turn(pace)
    assert pace.wait_s(object()) == 1.0  # a thread of the parent waits
    child = os.fork()
    if child == 0:
        os._exit(int(pace.wait_s(object())))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    monkeypatch.setattr(os, "getpid", lambda: child)
    assert pace.wait_s(object()) == 1.0


LOADS: Final = """
import sys
from fundlab.client.client import connect
client = connect(base_url=sys.argv[1], auth_url=sys.argv[1], client_id="c", client_secret="s")
assert client.get_transfer("t").id == client.get_transfer("t").id == "t"
"""


@pytest.mark.thorough
def test_standard_error_gets_one_line_where_no_logging_is_set_up(server: scripted.Scripted) -> None:
    refusal = problem(429, headers={"Retry-After": "0"})
    server.script(refusal, refusal, answer({"id": "t"}), refusal, answer({"id": "t"}))
    run = subprocess.run(
        [sys.executable, "-c", LOADS, server.url], capture_output=True, text=True, check=True
    )
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert line.startswith("get_transfer: the service takes no more requests now (429); waiting 0.")


def test_a_trouble_is_news_again_after_more_than_a_minute_without_it() -> None:
    now = [1000.0]
    pace = Pace(None, lambda: now[0])
    assert pace.is_news("refusals")
    assert pace.is_news("failures"), "of each kind for itself"
    for later, news in ((60.0, False), (60.0, False), (60.5, True), (0.0, False)):
        now[0] += later
        assert pace.is_news("refusals") is news
