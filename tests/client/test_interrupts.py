"""Ctrl-C while the service hangs ends everything at once, and nothing is sent afterwards."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
import scripted
from fake_service import FakeService, transfer
from scripted import answer, problem, reset, token

from fundlab.base.errors import DataError
from fundlab.base.threads import gathered
from fundlab.client.client import Client
from fundlab.client.transport import Environment
from fundlab.sync.loaders import load_transfers

LIMIT_S = 2.0
CALLS = [
    ("fl.load_transfers(client)", "all"),
    ("fl.load_transfers(client, workers=4)", "all"),
    ("fl.load_transfers(client, workers=4)", "pages"),
    ("fl.load_balances(client, profile_ids=['p', 'q'], assets=['A', 'B', 'C'], workers=4)", "all"),
    ("list(client.list_transfers())", "all"),
    ("fl.Store(store).sync(client)", "all"),
    ("fl.Store(store).sync(client, workers=4)", "balances"),
    ("doctor(client.settings)", "all"),
]
"""Each with the requests that get no answer."""
HANGS: dict[str, Callable[[str, dict[str, str]], bool]] = {
    "all": lambda path, query: True,
    "pages": lambda path, query: query.get("limit") != "1",
    "balances": lambda path, query: "/balances/" in path,
}
LISTS = {
    "transfers": "list_transfers",
    "events": "list_events",
    "crypto-destination-addresses": "list_crypto_destination_addresses",
    "fiat-accounts": "list_fiat_accounts",
    "fiat-deposit-instructions": "list_fiat_deposit_instructions",
}
PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the parent ignores
import fundlab as fl
from fundlab.client.doctor import doctor
url, store, *calls = sys.argv[1:]
for call in calls:
    client = fl.connect(base_url=url, auth_url=url, client_id="c", client_secret="s")
    input()  # until the parent is ready
    try:
        eval(f"lambda: {call}")()  # interrupted in eval itself, Python would die of SIGINT later
    except KeyboardInterrupt:
        print(time.monotonic(), flush=True)
"""


def fails_beside(client: Client, begun: threading.Event) -> Callable[[str], object]:
    """Work of which one part fails once the service has the request of the other."""

    def work(part: str) -> object:
        if part == "asks":
            return client.get_transfer("t")
        assert begun.wait(10)
        raise ValueError(part)

    return work


def background_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("fundlab-ahead")]


@pytest.mark.thorough
def test_an_interrupt_ends_it_while_the_service_hangs(
    server: scripted.Scripted, tmp_path: Path
) -> None:
    service = FakeService([transfer(n) for n in range(40)], largest_page=5)
    hung, over, kind = threading.Event(), [threading.Event()], ["all"]

    def respond(connection: socket.socket, request: scripted.Received) -> None:
        parts = urlsplit(request.target)
        query = parse_qsl(parts.query)
        if HANGS[kind[0]](parts.path, dict(query)):
            hung.set()
            over[-1].wait(60)
            raise ConnectionAbortedError
        connection.sendall(answer(service.fetch_page(LISTS[parts.path.rpartition("/")[2]], query)))

    server.script(respond)
    took = {}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server.url, tmp_path / "store", *(c for c, _ in CALLS)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stdin is not None
        assert run.stdout is not None
        try:
            for call, kind[0] in CALLS:
                hung.clear()
                print(file=run.stdin, flush=True)
                assert hung.wait(30), call
                time.sleep(0.2)  # until others hang, too
                sent, count = time.monotonic(), len(server.received)
                run.send_signal(signal.SIGINT)
                took[call, kind[0]] = float(run.stdout.readline() or "inf") - sent
                over[-1].set()  # what hung fails now; its next try would come within 0.25 s
                time.sleep(0.4)
                assert len(server.received) == count, call
                over.append(threading.Event())
            ended = time.monotonic()
            assert run.wait(20) == 0
            ended = time.monotonic() - ended
        finally:
            over[-1].set()
            run.kill()
    assert max(took.values()) < LIMIT_S, took
    assert ended < LIMIT_S + 3  # no thread keeps the process; the end takes its time under load


def test_nobody_goes_on_paging_once_a_load_has_failed(
    server: scripted.Scripted, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fundlab.client.transport._FIRST_PAUSE_S", 0.04)
    server.script(answer({"items": [{"id": 5}], "next_page_cursor": "x"}), reset)
    with pytest.raises(DataError):
        load_transfers(client)
    time.sleep(0.1)
    count = len(server.received)
    time.sleep(0.3)  # the next attempts would come after 0.02, 0.04, 0.08 and 0.16 s
    assert len(server.received) == count
    assert background_threads() == []


def test_nothing_is_sent_with_a_token_that_comes_when_nobody_waits_any_more(
    server: scripted.Scripted, client: Client
) -> None:
    asked, failed = threading.Event(), threading.Event()

    def respond(connection: socket.socket, request: scripted.Received) -> None:
        asked.set()
        assert failed.wait(10)
        connection.sendall(token())

    server.token_answers[:] = [respond]
    with pytest.raises(ValueError, match="fails"):
        gathered(fails_beside(client, asked), ["asks", "fails"], 2)
    failed.set()
    for thread in background_threads():
        thread.join(10)
    assert background_threads() == []
    assert (len(server.token_requests), server.received) == (1, [])


def test_no_thread_sleeps_on_until_its_next_try_when_nobody_waits_any_more(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    asked, client = threading.Event(), make_client(environment=Environment())

    def respond(connection: socket.socket, request: scripted.Received) -> None:
        connection.sendall(problem(503, headers={"Retry-After": "60"}))
        asked.set()

    server.script(respond)
    with pytest.raises(ValueError, match="fails"):
        gathered(fails_beside(client, asked), ["asks", "fails"], 2)
    for thread in background_threads():
        thread.join(LIMIT_S)
    assert background_threads() == []
    assert len(server.received) == 1


def test_what_is_gathered_keeps_its_order_and_stops_at_the_first_error() -> None:
    def slow_first(item: int) -> int:
        time.sleep(0.05 * (item == 0))
        return item * item

    assert gathered(slow_first, range(20), 4) == [n * n for n in range(20)]
    assert gathered(slow_first, [], 4) == []
    begun = []

    def fail_at_three(item: int) -> int:
        begun.append(item)
        if item == 3:
            raise ValueError("three")
        time.sleep(0.01)
        return item

    with pytest.raises(ValueError, match="three"):
        gathered(fail_at_three, range(1000), 2)
    assert len(begun) < 20
