"""Every fault of a hostile or broken service, and what the client makes of it, in limited time."""

from __future__ import annotations

import gzip
import json
import pickle
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import scripted
from scripted import answer, cut, drip, flood, hang, problem, reset, token

from fundlab.base import errors
from fundlab.client.client import Client
from fundlab.client.connections import Http
from fundlab.client.http import Answer, Failure, Outgoing
from fundlab.client.problems import one_line
from fundlab.client.transport import Environment, Grant, read_grant
from fundlab.sync.loaders import load_transfers

TRANSFER = {"id": "t-1", "amount": "1.00"}
GOOD = answer(TRANSFER)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
LIMIT_S = 8.0
CALL_TIMEOUT_S = 6.0
SHORT_CALL_TIMEOUT_S = 0.3
CAP_MIB = 4
BOMB = 2 * CAP_MIB * 2**20


def zipped(content: bytes) -> bytes:
    return answer(gzip.compress(content), Content_Encoding="gzip")


WITHDRAWAL = {"amount": "1.00", "fiat_account_id": "f", "profile_id": "p"}
CALLS: dict[str, Callable[[Client], Any]] = {
    "read": lambda client: client.get_transfer("t-1").to_json(),
    "list": lambda client: [row.id for row in client.list_transfers()],
    "create": lambda client: client.create_fiat_withdrawal(ref_id="r", **WITHDRAWAL).to_json(),
    "update": lambda client: client.update_fiat_account("f", metadata={"a": "b"}).to_json(),
}
OPERATION = {
    "read": "get_transfer", "list": "list_transfers", "create": "create_fiat_withdrawal",
    "update": "update_fiat_account",
}  # fmt: skip
MADE = {"id": "t-1", "ref_id": "r", "amount": "1.00", "asset": "USD", "fiat_account_id": "f",
        "profile_id": "p", "type": "WIRE_WITHDRAWAL", "direction": "DEBIT"}  # fmt: skip
UNKNOWN = "it may have been carried out; .*look for it before trying again"
DONE = "trying again with the same ref_id is safe"


@dataclass(frozen=True)
class Fault:
    """What the service does to a call; the error expected, or ``None`` for the right result."""

    name: str
    answers: list[scripted.Answer]
    error: type[errors.CallError] | None = None
    message: str = ""
    requests: int = 1
    call: str = "read"
    result: Any = None
    tokens: list[scripted.Answer] | None = None


def rows(*ids: str, cursor: str | None = None) -> bytes:
    return answer({"items": [{"id": id_} for id_ in ids], "next_page_cursor": cursor})


def made_before(existing: Any) -> bytes:
    return problem(409, "Conflict", meta={"existing": existing})


FAULTS = [
    # what passes is tried again
    Fault("reset once", [reset, GOOD], requests=2),
    Fault("closed without an answer", [cut(b""), GOOD], requests=2),
    Fault("cut in the status line", [cut(b"HTTP/1."), GOOD], requests=2),
    Fault("cut in the headers", [cut(b"HTTP/1.1 200 OK\r\nContent-"), GOOD], requests=2),
    Fault("cut in the body", [cut(HEAD + b'{"id"'), GOOD], requests=2),
    Fault("502 once", [answer(b"<html>", 502), GOOD], requests=2),
    Fault("503 twice", [problem(503), problem(503), GOOD], requests=3),
    Fault("504 once", [problem(504), GOOD], requests=2),
    *(Fault(f"{status} once", [answer(b"", status), GOOD], requests=2)
      for status in (408, 425, 500, 520, 522, 529)),
    Fault("429, no Retry-After", [problem(429), GOOD], requests=2),
    # what does not pass is told
    Fault("reset for ever", [reset], errors.NetworkError, r"broke.*after 3 att.*again is safe", 3),
    Fault("silent", [hang(30)], errors.DeadlineExceeded, "took too long"),
    Fault("a byte a moment in the body", [drip(b"x" * 1000, 0.02, HEAD)],
          errors.DeadlineExceeded, "took too long"),
    Fault("a byte a moment in the headers", [drip(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000, 0.02)],
          errors.DeadlineExceeded, "took too long"),
    Fault("a byte a moment, chunked",
          [drip(b"1\r\nx\r\n" * 500, 0.02, CHUNKED)],
          errors.DeadlineExceeded, "took too long"),
    Fault("endless headers", [drip(b"", 0, b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000)],
          errors.NetworkError, "the connection broke", 3),
    Fault("429, 99999999", [problem(429, headers={"Retry-After": "99999999"})],
          errors.RateLimited, r"try again after 20\d\d-.*in 99999999 s"),
    Fault("429, a far date",
          [problem(429, headers={"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"})],
          errors.RateLimited, r"try again after 9999-12-31T23:59:5"),
    Fault("429, beyond any number", [problem(429, headers={"Retry-After": "9" * 400})],
          errors.RateLimited, "try again in 999999999999 s"),
    Fault("429, beyond the call's time", [problem(429, headers={"Retry-After": "100"})],
          errors.RateLimited, "in 100 s"),
    Fault("503 for ever", [problem(503, "Down")], errors.Unavailable, "503 Down; try again lat", 3),
    Fault("500 for ever", [problem(500, "Bug")], errors.Unavailable, "500 Bug; try again later", 3),
    Fault("408 for ever", [problem(408)], errors.Unavailable, "408 Refused; try again later", 3),
    Fault("501", [problem(501)], errors.Unavailable, "501"),
    # refusals
    Fault("400", [problem(400, "Bad", detail="limit")], errors.ValidationFailed, "400 Bad: limit"),
    Fault("401 for ever", [problem(401)], errors.AuthenticationFailed, "fundlab doctor", 2),
    Fault("401 once", [problem(401), GOOD], requests=2),
    Fault("403", [problem(403)], errors.PermissionDenied, "403 Refused"),
    Fault("403, a scope", [problem(403, meta={"scope_needed": "x"})],
          errors.ScopeMissing, "ask the administrator to grant the scope transfer:read_transfer"),
    Fault("403, funds", [problem(403, type="https://x/problems/insufficient-funds")],
          errors.InsufficientFunds, "403"),
    Fault("404", [problem(404)], errors.NotFound, "get_transfer: 404 Refused"),
    Fault("409", [problem(409)], errors.Conflict, "409"),
    Fault("418", [problem(418)], errors.ServiceError, "418"),
    Fault("no problem body", [answer(b"", 404)], errors.NotFound, "404 Not Found"),
    Fault("a problem in HTML", [answer(b"<h1>\x1b[31mNo</h1>", 403)],
          errors.PermissionDenied, "403 Forbidden"),
    Fault("a problem that is a list", [answer([1], 400)], errors.ValidationFailed, "400 Bad Req"),
    Fault("a problem of numbers", [answer({"title": 5, "detail": {}, "meta": 7, "type": []}, 400)],
          errors.ValidationFailed, "400 Bad Request"),
    Fault("a problem with control codes", [problem(400, "a\x1b[2Jb\r\nc")],
          errors.ValidationFailed, "400 a\ufffd\\[2Jb c; change"),
    Fault("an unknown status", [answer(b"", 799)], errors.Unavailable, "799 Error"),
    # answers that are not the interface's
    Fault("a redirect", [answer(b"", 302, Location="http://127.0.0.1:1/evil")],
          errors.ProtocolError, "302, a redirect to 'http://127.0.0.1:1/evil', which is not foll"),
    Fault("a permanent redirect", [answer(b"", 308, Location="/elsewhere")],
          errors.ProtocolError, "308, a redirect"),
    Fault("an HTML page", [answer(b"<html>Sign in</html>")], errors.ProtocolError, "is not JSON"),
    Fault("an empty body", [answer(b"")], errors.ProtocolError, "it is empty"),
    Fault("a list", [answer([])], errors.ProtocolError, "not a JSON object"),
    Fault("half a JSON", [answer(b'{"id": "t-1"')], errors.ProtocolError, "is not JSON"),
    Fault("not UTF-8", [answer(b'{"id": "\xff"}')], errors.ProtocolError, "is not JSON"),
    Fault("no id", [answer({"amount": "1.00"})], errors.DataError, "field 'id': is missing"),
    Fault("a bad amount", [answer(TRANSFER | {"amount": "1,00"})],
          errors.DataError, "record t-1, field 'amount'.*'1,00'"),
    Fault("an amount as number", [answer(TRANSFER | {"amount": 1.5})],
          errors.DataError, "field 'amount': Input should be a valid string: 1.5"),
    Fault("a bad time", [answer(TRANSFER | {"created_at": "now"})], errors.DataError, "created_at"),
    Fault("a deep nest", [answer(b'{"id":"t","x":' + b"[" * 60_000)],
          errors.ProtocolError, "is not JSON"),
    Fault("not gzip", [answer(b"plain", Content_Encoding="gzip")],
          errors.ProtocolError, "not coded as its header says"),
    Fault("gzip", [zipped(b'{"id": "t-1", "amount": "1.00"}')]),
    Fault("a gzip bomb", [lambda connection, _: connection.sendall(zipped(b" " * BOMB))],
          errors.ProtocolError, "larger than 4 MiB"),
    Fault("two lengths", [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\n{}"],
          errors.NetworkError, "the connection broke", 3),
    Fault("not HTTP", [b"SSH-2.0-OpenSSH_9.2\r\n"], errors.NetworkError, "the connection broke", 3),
    Fault("a bomb within a bomb",
          [lambda connection, _: connection.sendall(
              answer(gzip.compress(gzip.compress(b" " * BOMB)), Content_Encoding="gzip, gzip")
          )], errors.ProtocolError, "larger than 4 MiB"),
    Fault("a body without end", [flood(b"HTTP/1.1 200 OK\r\n\r\n", b" " * 2**16)],
          errors.ProtocolError, "larger than 4 MiB"),
    Fault("a length that never comes",
          [drip(b"", 0, b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}")],
          errors.DeadlineExceeded, "took too long"),
    Fault("100 Continue without end", [flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n")],
          errors.DeadlineExceeded, "took too long"),
    Fault("interim answers before the answer", [HINTS + answer(b"", 199) + GOOD]),
    Fault("interim answers without end", [flood(b"", HINTS)],
          errors.DeadlineExceeded, "took too long"),
    Fault("an interim answer, then the end", [cut(HINTS), GOOD], requests=2),
    Fault("another protocol", [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"],
          errors.ProtocolError, "not in HTTP/1.1; look at what answers there"),
    Fault("HTTP/2", [b"HTTP/2.0 200 OK\r\n\r\n"], errors.ProtocolError, "not in HTTP/1.1"),
    Fault("another transfer", [answer({"id": "x"})], errors.ProtocolError,
          "something else: id is 'x', not 't-1'; show it"),
    # lists
    Fault("a repeated cursor", [rows("a", cursor="x"), rows("b", cursor="x")],
          errors.ProtocolError, "list_transfers: page 2 repeats the cursor 'x'.*may be missing", 2,
          "list"),
    Fault("its own cursor at once", [rows("a", cursor="x"), rows("b", cursor="y"),
                                     rows("c", cursor="y"), rows("d")],
          errors.ProtocolError, "page 3 repeats", 3, "list"),
    Fault("empty pages in between", [rows(cursor="x"), rows("a", cursor="y"), rows(cursor="z"),
                                     rows("b")], None, "", 4, "list", ["a", "b"]),
    Fault("a page lost on the way", [rows("a", cursor="x"), reset, rows("b")], None, "", 3,
          "list", ["a", "b"]),
    Fault("a page that is no page", [answer({"items": {"id": "a"}})], errors.DataError,
          "list_transfers.*field 'items'", 1, "list"),
    Fault("a row without id", [answer({"items": [{"id": "a"}, {}]})], errors.DataError,
          "page 1, record number 2, field 'id': is missing", 1, "list"),
    # tokens
    Fault("a token with CR and LF", [GOOD], errors.ProtocolError,
          "an access_token that no header can carry; check auth_url", 0,
          tokens=[answer({"access_token": "a\r\nX-Evil: 1"})]),
    Fault("no token in it", [GOOD], errors.ProtocolError, "without an access_token", 0,
          tokens=[answer({})]),
    Fault("a token page in HTML", [GOOD], errors.ProtocolError, "answered 200 not JSON", 0,
          tokens=[answer(b"<html>")]),
    Fault("a token endpoint that redirects", [GOOD], errors.ProtocolError,
          "302, a redirect.*check auth_url", 0, tokens=[answer(b"", 302, Location="/login")]),
    Fault("a token endpoint that has several places", [GOOD], errors.ProtocolError,
          "300, a redirect.*check auth_url", 0, tokens=[answer(b"", 300, Location="/login")]),
    Fault("a token endpoint that is elsewhere", [GOOD], errors.NotFound,
          "check auth_url: it is what comes before /oauth2/token", 0, tokens=[answer(b"", 404)]),
    Fault("a token endpoint that drips", [GOOD], errors.DeadlineExceeded,
          "asking for a token.*took too long", 0, tokens=[drip(b"x" * 1000, 0.02, HEAD)]),
    Fault("a token endpoint that fails once", [GOOD], tokens=[problem(503), reset, token()],
          requests=1),
    Fault("invalid_scope", [GOOD], errors.ScopeMissing,
          "get_transfer.*ask the administrator to grant the scope transfer:read_transfer", 0,
          tokens=[answer({"error": "invalid_scope"}, 400)]),
    Fault("invalid_client", [GOOD], errors.AuthenticationFailed, "check client_id and client_s", 0,
          tokens=[answer({"error": "invalid_client"}, 401)]),
    Fault("a token that lapses in mid-paging", [rows("a", cursor="x"), problem(401), rows("b")],
          None, "", 3, "list", ["a", "b"]),
    # what changes something
    Fault("create: answer lost", [reset, made_before(MADE), answer(MADE)], None, "", 3, "create",
          MADE),
    Fault("create: answer late", [cut(HEAD), answer(MADE)], None, "", 2, "create", MADE),
    Fault("create: lost, then refused", [reset, problem(400, "No")], errors.ValidationFailed,
          "it may have been carried out; 400 No; trying again with the same ref_id is safe", 2,
          "create"),
    Fault("create: 503 for ever", [problem(503)], errors.Unavailable,
          "trying again with the same ref_id is safe", 3, "create"),
    Fault("create: 503, back tomorrow", [problem(503, headers={"Retry-After": "86400"})],
          errors.Unavailable, r"is safe .ref_id='r'.; try again after 20.*in 86400 s",
          1, "create"),
    Fault("create: not JSON", [answer(b"<html>")], errors.ProtocolError,
          "it may have been carried out; the answer is not JSON.*" + DONE, 1, "create"),
    Fault("create: another's", [answer(MADE | {"ref_id": "s", "amount": "999"})],
          errors.ProtocolError, "ref_id is 's', not 'r'; amount is '999', not '1.00'; " + DONE, 1,
          "create"),
    Fault("create: the amount in other digits", [answer(MADE | {"amount": "1"})], None, "", 1,
          "create", MADE | {"amount": "1"}),
    Fault("create: a bad amount in the answer", [answer(MADE | {"amount": "1,00"})],
          errors.DataError, DONE, 1, "create"),
    Fault("create: not gzip", [answer(b"plain", Content_Encoding="gzip")],
          errors.ProtocolError, "not coded as .*with the same ref_id is safe", 1, "create"),
    Fault("create: a redirect", [answer(b"", 303, Location="/x")], errors.ProtocolError,
          "check base_url; trying again with the same ref_id is safe", 1, "create"),
    *(Fault(f"update: {name}", [given, answer({"id": "f"})], error, UNKNOWN, 1, "update")
      for name, given, error in (
          ("reset", reset, errors.NetworkError), ("cut", cut(HEAD), errors.NetworkError),
          ("silent", hang(30), errors.DeadlineExceeded),
          *((str(status), problem(status), errors.Unavailable) for status in (408, 500, 503)),
          ("401 of a page", answer(b"<html>", 401), errors.AuthenticationFailed),
      )),
    Fault("update: 429", [problem(429), answer({"id": "f"})], None, "", 2, "update", {"id": "f"}),
    Fault("update: 401", [problem(401), answer({"id": "f"})], None, "", 2, "update", {"id": "f"}),
    Fault("update: not JSON", [answer(b"")], errors.ProtocolError, UNKNOWN, 1, "update"),
    Fault("update: another account", [answer({"id": "g"})], errors.ProtocolError, UNKNOWN,
          1, "update"),
    Fault("update: no id", [answer({})], errors.DataError, UNKNOWN, 1, "update"),
]  # fmt: skip


@pytest.fixture
def make_quick(
    make_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> Callable[[float], Client]:
    monkeypatch.setattr("fundlab.client.transport.MAX_ATTEMPTS", 3)
    monkeypatch.setattr("fundlab.client.transport._FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr("fundlab.client.connections.SMALLEST_BOUND", CAP_MIB * 2**20)
    return lambda call_timeout: make_client(call_timeout=call_timeout)


@pytest.fixture
def quick(make_quick: Callable[[float], Client]) -> Client:
    return make_quick(CALL_TIMEOUT_S)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_faults(
    fault: Fault, server: scripted.Scripted, make_quick: Callable[[float], Client],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    quick = make_quick(CALL_TIMEOUT_S)
    if fault.error is errors.DeadlineExceeded:
        if fault.tokens is None:  # a token takes none of the short time, nor does connecting
            server.script(answer(TRANSFER | {"id": "t-1" if fault.call == "read" else "f"}))
            CALLS[fault.call](quick)
            server.received.clear()
        short = replace(quick.settings, call_timeout=SHORT_CALL_TIMEOUT_S)
        monkeypatch.setattr(quick.transport, "_settings", short)
    server.script(*fault.answers)
    server.token_answers[:] = fault.tokens or server.token_answers
    started = time.monotonic()
    if fault.error is None:
        assert CALLS[fault.call](quick) == (fault.result or TRANSFER)
    else:
        with pytest.raises(fault.error, match=fault.message) as caught:
            CALLS[fault.call](quick)
        error = caught.value
        assert type(error) is fault.error
        assert error.__context__ is None, "the frames below would show headers"
        assert error.operation == OPERATION[fault.call]
        assert str(error).startswith(OPERATION[fault.call])
        assert error.hint is not None
        assert "repeats" in str(error) or error.request_id
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert time.monotonic() - started < LIMIT_S
    while len(server.received) < fault.requests and time.monotonic() - started < LIMIT_S:
        time.sleep(0.01)  # what was sent is read later than it was given up, under load
    assert len(server.received) == fault.requests


def test_the_service_error_has_every_part_of_the_problem(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(
        problem(
            403,
            "Insufficient funds",
            type="https://example.com/problems/insufficient-funds",
            detail="available 1.00, needed 26.00",
            meta={"profile_id": "p", "asset": "USD", "available": "1.00", "needed": "26.00"},
            headers={"X-Request-Id": "req-77"},
        )
    )
    with pytest.raises(errors.InsufficientFunds) as caught:
        client.create_fiat_withdrawal(amount="1.00", fiat_account_id="f", profile_id="p")
    error = caught.value
    assert (error.status, error.title) == (403, "Insufficient funds")
    assert error.detail == "available 1.00, needed 26.00"
    assert error.meta["needed"] == "26.00"
    assert (error.operation, error.request_id) == ("create_fiat_withdrawal", "req-77")
    assert error.type.endswith("/insufficient-funds")


def test_a_refused_connection_says_that_nothing_was_sent(
    make_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fundlab.client.transport._FIRST_PAUSE_S", 0.001)
    client = make_client(auth_url="http://127.0.0.1:1")
    with pytest.raises(errors.NetworkError, match=r"127\.0\.0\.1:1: no connection .*refused.*noth"):
        client.get_transfer("t")


def test_a_certificate_that_nobody_signed_is_refused_at_once(
    make_client: Callable[..., Client], tls_url: str
) -> None:
    started = time.monotonic()
    with pytest.raises(errors.NetworkError, match="certificate could not be verified"):
        make_client(auth_url=tls_url).get_transfer("t")
    assert time.monotonic() - started < LIMIT_S


def test_tls_to_a_plain_port_is_named_and_not_tried_again(
    make_client: Callable[..., Client],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        client = make_client(auth_url=f"https://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(errors.NetworkError, match="no TLS connection: it speaks") as caught:
            client.get_transfer("t")
        thread.join()
    assert "check auth_url" in str(caught.value)
    assert "attempts" not in str(caught.value)
    assert "ca_bundle" not in str(caught.value)


@pytest.mark.parametrize("status", [201, 204, 206])
def test_the_status_of_an_unreadable_answer_is_told(
    status: int, server: scripted.Scripted, client: Client
) -> None:
    server.script(answer(b"", status))
    with pytest.raises(errors.ProtocolError, match="not JSON") as caught:
        client.get_transfer("t")
    assert caught.value.status == status


def test_a_ca_bundle_makes_it_trusted(
    make_client: Callable[..., Client], tls_url: str, tls_certificate: Any
) -> None:
    client = make_client(auth_url=tls_url, ca_bundle=tls_certificate)
    with pytest.raises(errors.ProtocolError, match="without an access_token; check auth_url"):
        client.get_transfer("t")


# ------------------------------------------------------------------- what may be sent twice


@pytest.mark.parametrize("fault", [reset, cut(HEAD), problem(503), problem(429)])
def test_a_create_with_a_ref_id_is_sent_again_with_the_same_bytes(
    fault: scripted.Answer, server: scripted.Scripted, quick: Client
) -> None:
    server.script(fault, GOOD)
    assert quick.create_fiat_withdrawal(ref_id="r", **WITHDRAWAL).id == "t-1"
    first, second = server.received
    assert first.body == second.body != b""


def test_an_idle_connection_that_the_service_closed_is_replaced(
    server: scripted.Scripted, quick: Client
) -> None:
    def answer_and_close(connection: Any, request: Any) -> None:
        connection.sendall(GOOD)
        connection.close()

    server.script(answer_and_close, GOOD)
    quick.get_transfer("t-1")
    time.sleep(0.05)
    quick.create_fiat_withdrawal(**WITHDRAWAL)  # not repeatable: it must not meet the dead one
    assert len(server.received) == 2


def test_connections_are_reused(server: scripted.Scripted, client: Client) -> None:
    server.script(GOOD)
    for _ in range(20):
        client.get_transfer("t-1")
    assert (len(server.received), server.connections) == (20, 1)


def test_a_rest_of_one_answer_is_not_read_as_the_next(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(GOOD + answer({"id": "smuggled"}), answer({"id": "t-2"}))
    assert client.get_transfer("t-1").id == "t-1"
    time.sleep(0.05)
    assert client.get_transfer("t-2").id == "t-2"


def test_an_answer_after_an_interim_one_is_not_read_as_the_next(
    server: scripted.Scripted, client: Client
) -> None:
    def hints_first(connection: Any, request: Any) -> None:
        connection.sendall(HINTS)
        time.sleep(0.05)
        connection.sendall(answer({"id": request.target.rpartition("/")[2]}))

    server.script(hints_first)
    assert [client.get_transfer(id_).id for id_ in ("t-1", "t-2", "t-2")] == ["t-1", "t-2", "t-2"]
    assert server.connections == 1


# ------------------------------------------------------------------- surroundings


def test_proxies_and_netrc_of_the_surroundings_are_ignored(
    server: scripted.Scripted, client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login evil password evil\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    server.script(GOOD)
    assert client.get_transfer("t-1").id == "t-1"
    assert server.received[0].headers["authorization"] == f"Bearer {scripted.TOKEN}"


def test_a_proxy_is_obeyed_when_settings_say_so(
    server: scripted.Scripted, make_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    client = make_client(trust_env=True, auth_url="https://auth.example.com", call_timeout=1)
    server.script(answer(b"", 407))
    with pytest.raises(errors.NetworkError, match=r"https_proxy cannot be used \(407 Whatever\)"):
        client.get_transfer("t-1")
    assert [request.target for request in server.received] == ["auth.example.com:443"]
    server.script(answer(b"", 502))  # it could not reach the service: perhaps it will
    monkeypatch.setattr("fundlab.client.transport._FIRST_PAUSE_S", 0.01)
    with pytest.raises(errors.NetworkError, match=r"used \(502 Whatever\) after 6 attempts"):
        client.get_transfer("t-1")


@pytest.mark.parametrize(
    ("proxy", "problem"),
    [
        ("socks5://127.0.0.1:1080", "SOCKS proxy, for which the package PySocks is missing; noth"
         r".*pip install 'requests\[socks\]'"),
        ("http://", "the proxy's address is not one of the form http://host:port"),
        ("socks://127.0.0.1:1080", "the proxy's address is not one of the form http://host:port"),
        ("ftp://127.0.0.1:21", "the proxy's address is not one of the form"),
        ("http://user:canary-5f0c2d@127.0.0.1:port", "the proxy's address is not one of the form"),
        ("http://user:canary-5f0c2d@127.0.0.1:1", r"cannot be used \(Connection refused\); nothing"
         " was sent; check the variables http_proxy"),
        ("http://nowhere.invalid:80", "the proxy of http_proxy or https_proxy cannot be used"),
    ],
)  # fmt: skip
def test_a_wrong_proxy_is_named_at_once(
    proxy: str, problem: str, make_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fundlab.client.connections.find_spec", lambda _: None)  # PySocks or not
    monkeypatch.setenv("https_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    slept: list[float] = []
    client = make_client(
        trust_env=True, auth_url="https://auth.example.com",
        environment=Environment(sleep=slept.append),
    )  # fmt: skip
    with pytest.raises(errors.NetworkError, match=problem) as caught:
        client.get_transfer("t-1")
    assert slept == []
    assert "attempts" not in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "content", "told"),
    [
        (0, GOOD, Answer(200, {}, b"")),
        (0, b"", Failure("the connection broke (RemoteDisconnected)", sent=True)),
        (5, b"", Failure("the proxy of http_proxy or https_proxy cannot be used (0x05: Connection"
                         " refused)", sent=False)),
        (None, b"", Failure("the proxy of http_proxy or https_proxy cannot be used (Connection"
                            " refused)", sent=False, final=True)),
    ],
)  # fmt: skip
def test_a_socks_proxy_is_gone_through_and_what_was_sent_is_known(
    reply: int | None, content: bytes, told: Answer | Failure, monkeypatch: pytest.MonkeyPatch,
    tls_certificate_of: Callable[[str], Path],
) -> None:  # fmt: skip
    pytest.importorskip("socks", reason="PySocks is not installed")
    certificate = tls_certificate_of("service.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    asked: list[bytes] = []

    def serve(listener: socket.socket) -> None:  # RFC 1928 and 1929, then the service itself
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(4)[0] == 5
            connection.sendall(b"\5\2")
            asked.append(connection.recv(100))
            connection.sendall(b"\1\0")
            asked.append(connection.recv(100))
            connection.sendall(bytes([5, reply or 0, 0, 1, 0, 0, 0, 0, 0, 0]))
            if not reply:
                with context.wrap_socket(connection, server_side=True) as secured:
                    asked.append(secured.recv(1000))
                    secured.sendall(content)

    monkeypatch.setenv("no_proxy", "")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("ALL_PROXY", f"socks5h://user:canary-5f0c2d@{place}")
        if reply is None:
            listener.close()
        else:
            thread = threading.Thread(target=serve, args=(listener,))
            thread.start()
        http = Http(connect_timeout=5, read_timeout=5, ca_bundle=str(certificate), trust_env=True)
        found = http.exchange(Outgoing("GET", "https://service.example/t", {}), 5)
        http.close()
    if reply is not None:
        thread.join()
        assert asked[0] == b"\1\4user\x0dcanary-5f0c2d"
        assert asked[1] == b"\5\1\0\3\x0fservice.example\x01\xbb"  # the proxy resolves the name
        assert [line.split(b"\r\n")[0] for line in asked[2:]] == [b"GET /t HTTP/1.1"] * (not reply)
    if isinstance(told, Failure):
        assert isinstance(found, Failure)
        assert (found.problem, found.sent, found.final) == (told.problem, told.sent, told.final)
    else:
        assert isinstance(found, Answer)
        assert found.status == told.status


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_certificates_of_the_environment_count_where_it_is_trusted(
    variable: str, make_client: Callable[..., Client], tls_url: str, tls_certificate: Any,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any,
) -> None:  # fmt: skip
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tls_certificate))
    with pytest.raises(errors.NetworkError, match="certificate could not be verified"):
        make_client(auth_url=tls_url).get_transfer("t")
    with pytest.raises(errors.ProtocolError, match="without an access_token"):
        make_client(auth_url=tls_url, trust_env=True).get_transfer("t")
    (tmp_path / "bad.pem").write_text("not a certificate")
    monkeypatch.setenv(variable, str(tmp_path / "bad.pem"))
    with pytest.raises(errors.ProtocolError, match="without an access_token"):
        make_client(auth_url=tls_url, trust_env=True, ca_bundle=tls_certificate).get_transfer("t")
    with pytest.raises(errors.SettingsError, match=f"{variable} holds no certificates in PEM"):
        make_client(trust_env=True)
    monkeypatch.setenv(variable, str(tmp_path / "none.pem"))
    with pytest.raises(errors.SettingsError, match=rf"{variable} names no file \(no such file"):
        make_client(trust_env=True)


def test_a_bundle_without_certificates_is_named_at_once(
    make_client: Callable[..., Client], tls_url: str, tls_certificate: Any, tmp_path: Any
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("canary-5f0c2d")
    with pytest.raises(errors.SettingsError, match="ca_bundle holds no certificates in") as caught:
        make_client(ca_bundle=bundle)
    assert "canary" not in str(caught.value)
    bundle.write_bytes(tls_certificate.read_bytes())
    client = make_client(auth_url=tls_url, ca_bundle=bundle)
    bundle.unlink()
    with pytest.raises(errors.NetworkError, match="certificates of ca_bundle cannot be read; noth"):
        client.get_transfer("t")


def test_a_half_made_client_shows_itself() -> None:
    assert repr(Client.__new__(Client)) == "Client()"


def test_a_service_on_this_machine_is_not_asked_through_a_proxy(
    server: scripted.Scripted, make_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # it would see the secret in clear
    monkeypatch.setenv("no_proxy", "")
    server.script(GOOD)
    assert make_client(trust_env=True, call_timeout=1).get_transfer("t-1").id == "t-1"


def test_cookies_are_not_kept(server: scripted.Scripted, client: Client) -> None:
    server.script(answer({"id": "t"}, Set_Cookie="session=1; Path=/"))
    client.get_transfer("t")
    client.get_transfer("t")
    assert "cookie" not in server.received[1].headers


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("limit", "mib", "enough"),
    [(1, 8, 7), (100, 8, 7), (1000, 63, 61)],  # 64 KiB a row
)
def test_a_page_is_bound_by_its_limit(
    limit: int, mib: int, enough: int, server: scripted.Scripted, client: Client
) -> None:
    start, end = b'{"items": [', b'{"id": "t-1"}]}'
    server.script(zipped(start + b" " * (mib * 2**20) + end), zipped(start + end))
    with pytest.raises(errors.ProtocolError, match="the answer is larger than"):
        list(client.list_transfers(page_size=limit))
    server.script(zipped(start + b" " * (enough * 2**20) + end))
    assert [row.id for row in client.list_transfers(page_size=limit)] == ["t-1"]


def test_an_answer_that_says_how_long_it_is_is_in_memory_once(
    server: scripted.Scripted, client: Client
) -> None:
    body = b'{"items": [' + b" " * (6 * 2**20) + b"]}"
    server.script(answer(b"{}"), answer(body))
    client.fetch_page("list_transfers", [])
    tracemalloc.start()
    try:
        assert client.fetch_page("list_transfers", []) == body
        assert tracemalloc.get_traced_memory()[1] < 1.2 * len(body)  # in parts put together, 2 or 3
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("values", [b'{"id":"a"},', b"null,", b"[],", b"1,"])
def test_a_page_of_very_many_values_is_refused_before_it_is_parsed(
    values: bytes, server: scripted.Scripted, client: Client
) -> None:
    server.script(zipped(b'{"items": [' + values * (6 * 2**20 // len(values)) + b"1]}"))
    tracemalloc.start()
    try:
        with pytest.raises(errors.ProtocolError, match="holds more than 131,072 values"):
            list(client.list_transfers())
        with pytest.raises(errors.ProtocolError, match="holds more than 131,072 values"):
            load_transfers(client, limit=9)
        assert tracemalloc.get_traced_memory()[1] < 40 * 2**20  # parsed, 200 to 2,000 MiB
    finally:
        tracemalloc.stop()


def test_a_grant_is_taken_up_to_its_bounds() -> None:
    def read(**given: Any) -> Grant | str:
        body = json.dumps({"access_token": "t"} | given).encode()
        return read_grant(Answer(200, {}, body), frozenset(), 100.0)

    def until(**given: Any) -> float | str:
        found = read(**given)
        return found if isinstance(found, str) else found.expires_at

    assert until(access_token="t" * 16_384) == 400, "300 s where no lifetime is stated"
    assert read(access_token="t" * 16_385) == "with an access_token that no header can carry"
    assert until(expires_in=1) == 101
    assert until(expires_in="600") == 700
    assert until(expires_in=10**9) == 100 + 24 * 3600, "a day at most"
    for wrong in (0, -1, 10**9 + 1, True, None, "1e3", "6000000000", float("nan")):
        assert "expires_in" in str(until(expires_in=wrong)), wrong


def test_a_text_of_the_service_is_shown_in_one_line_of_500_characters_at_most() -> None:
    assert one_line("a" * 500) == "a" * 500
    assert one_line(f"{'a' * 500}b") == "a" * 500
    assert one_line("two\n lines\x1b[0m") == "two lines\N{REPLACEMENT CHARACTER}[0m"
    assert one_line("") is one_line(None) is one_line({"detail": "x"}) is None
