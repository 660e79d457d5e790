"""Whoever holds the other end of a connection: too much, too little, gone, or not who it says."""

from __future__ import annotations

import logging
import socket
import time
from contextlib import closing

import pytest
import requests
from sandbox_caller import Caller

from fundlab.sandbox import Sandbox

EVENTS = "/v2/events"


def connected(sandbox: Sandbox) -> socket.socket:
    host, port = sandbox.base_url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def head(target: str, **headers: object) -> bytes:
    lines = [target, "Host: 127.0.0.1"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


@pytest.mark.parametrize(
    ("target", "size"),
    [
        ("POST /_sandbox/advance HTTP/1.1", 17 * 2**20), ("PUT /_sandbox/state HTTP/1.1", 2**40),
    ],
)  # fmt: skip
def test_what_is_too_large_for_the_control_interface_is_refused_unread(
    target: str, size: int, sandbox: Sandbox
) -> None:
    with closing(connected(sandbox)) as peer:
        peer.sendall(head(target, Content_Type="application/json", Content_Length=size))
        assert peer.recv(12) == b"HTTP/1.1 413"


def test_more_pieces_than_the_control_interface_takes_are_not_kept(sandbox: Sandbox) -> None:
    """After 16 MiB and a byte the answer is there, before their end."""
    with closing(connected(sandbox)) as peer:
        target = "POST /_sandbox/advance HTTP/1.1"
        sent = {"Content_Type": "application/json", "Transfer_Encoding": "chunked"}
        peer.sendall(head(target, **sent))
        for _ in range(16):
            peer.sendall(b"100000\r\n" + b" " * 2**20 + b"\r\n")
        peer.sendall(b"1\r\n \r\n")
        assert peer.recv(12) == b"HTTP/1.1 413"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://evil.example", 403), ("http://127.0.0.1.evil.example", 403), ("null", 403),
        ("http://[", 403), ("http://localhost:8888", 200), ("http://127.0.0.1", 200),
        ("http://[::1]:80", 200),
    ],
)  # fmt: skip
def test_a_page_of_another_origin_does_not_control(
    origin: str, status: int, sandbox: Sandbox
) -> None:
    url = f"{sandbox.control_url}/advance"
    answer = requests.post(url, json={"seconds": 5}, headers={"Origin": origin}, timeout=5)
    assert answer.status_code == status


def test_the_log_keeps_the_start_of_what_is_long(sandbox: Sandbox) -> None:
    for target in (f"GET {EVENTS}?x=", "GET /nothing/", "GET"):
        with closing(connected(sandbox)) as peer:
            method, _, path = (target + "A" * 1_000_000).partition(" ")
            peer.sendall(head(f"{method} {path or EVENTS} HTTP/1.1", Connection="close"))
            while peer.recv(65_536):
                pass
    logged = sandbox.requests()
    assert [path[:10] for path in logged["path"]] == ["/v2/events", "/nothing/A", "/v2/events"]
    for name in ("path", "method", "problem"):
        assert logged[name].str.len().max() <= 8192


def test_a_forwarded_address_is_not_believed(sandbox: Sandbox) -> None:
    """Nobody forwards to a loopback service: the peer is who it is."""
    forged = {"X-Forwarded-For": "192.0.2.7"}
    assert requests.get(f"{sandbox.control_url}/clock", headers=forged, timeout=5).ok
    sandbox.faults.add("reset", "list_events", count=1)
    with pytest.raises(requests.ConnectionError):
        requests.get(sandbox.base_url + EVENTS, headers=forged, timeout=5)


@pytest.mark.parametrize("kind", ["reset", "truncate"])
def test_a_client_that_left_before_its_connection_breaks_is_no_failure(
    kind: str, sandbox: Sandbox, caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.faults.add("latency", "list_events", seconds=0.2, count=1)
    sandbox.faults.add(kind, "list_events", count=1)
    with caplog.at_level(logging.DEBUG):
        with closing(connected(sandbox)) as peer:
            peer.sendall(head(f"GET {EVENTS} HTTP/1.1"))
            time.sleep(0.05)
        time.sleep(0.4)
    assert [record.getMessage() for record in caplog.records if record.levelno >= 30] == []
    assert caller.get(EVENTS).ok
