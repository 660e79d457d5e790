from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import scripted
from scripted import answer, problem, token

from fundlab.base import errors
from fundlab.client.client import Client
from fundlab.client.http import Answer
from fundlab.client.transport import Environment, Grant, TokenSource, read_grant
from fundlab.settings.secret import Secret

READ, WRITE, EVENTS = (
    "transfer:read_transfer",
    "transfer:write_fiat_withdrawal",
    "events:read_event",
)


def scopes_of(request: scripted.Received) -> str:
    _, _, rest = request.body.decode().partition('name="scope"\r\n\r\n')
    return rest.partition("\r\n")[0]


class Endpoint:
    """Grants the scopes it is told to, for 100 s of a clock moved by hand."""

    def __init__(self, *granted: str) -> None:
        self.granted = set(granted)
        self.asked: list[set[str]] = []
        self.now = 0.0

    def fetch(self, scopes: frozenset[str], *, operation: str, deadline: float) -> Grant:
        self.asked.append(set(scopes))
        if not scopes <= self.granted:
            raise errors.ScopeMissing(400, "invalid_scope")
        return Grant(Secret(f"token-{len(self.asked)}"), scopes, self.now + 100, self.now + 150)

    def source(self) -> TokenSource:
        return TokenSource(self.fetch, lambda: self.now)


def ask(source: TokenSource, scope: str) -> str:
    return source.token(scope, operation="op", deadline=float("inf")).reveal()


def test_only_needed_scopes_are_asked_for_and_tokens_are_reused() -> None:
    endpoint = Endpoint("a", "b", "c")
    source = endpoint.source()
    assert [ask(source, scope) for scope in "aabab"] == [
        "token-1", "token-1", "token-2", "token-2", "token-2",
    ]  # fmt: skip
    assert endpoint.asked == [{"a"}, {"a", "b"}]


def test_a_token_is_renewed_when_its_time_is_up() -> None:
    endpoint = Endpoint("a")
    source = endpoint.source()
    ask(source, "a")
    endpoint.now = 99.9
    assert ask(source, "a") == "token-1"
    endpoint.now = 100.0
    assert ask(source, "a") == "token-2"


def test_in_a_forked_process_its_parents_locks_are_not_waited_for() -> None:
    source = Endpoint("a").source()
    source._process, source._renewal = -1, None  # type: ignore[assignment]
    assert ask(source, "a") == "token-1"
    source._process, source._swap = -1, None  # type: ignore[assignment]
    source.reject(Secret("token-1"))
    assert ask(source, "a") == "token-2"


def test_a_scope_the_credential_lacks_does_not_spoil_the_others() -> None:
    endpoint = Endpoint("a")
    source = endpoint.source()
    ask(source, "a")
    with pytest.raises(errors.ScopeMissing):
        ask(source, "x")
    assert ask(source, "a") == "token-1"
    assert endpoint.asked == [{"a"}, {"a", "x"}, {"x"}]


def test_a_scope_taken_away_since_does_not_stop_another() -> None:
    endpoint = Endpoint("a", "b")
    source = endpoint.source()
    ask(source, "a")
    endpoint.granted = {"b"}
    assert ask(source, "b") == "token-3"
    assert endpoint.asked == [{"a"}, {"a", "b"}, {"b"}]


def test_a_rejected_token_is_not_used_again_but_a_newer_one_is() -> None:
    endpoint = Endpoint("a")
    source = endpoint.source()
    first = source.token("a", operation="op", deadline=float("inf"))
    source.reject(first)
    assert ask(source, "a") == "token-2"
    source.reject(first)  # late news from another thread
    assert ask(source, "a") == "token-2"


class Faltering(Endpoint):
    """Grants once, then is down."""

    def fetch(self, scopes: frozenset[str], *, operation: str, deadline: float) -> Grant:
        self.deadline = deadline
        if self.asked:
            self.asked.append(set(scopes))
            raise errors.Unavailable(503, "Down")
        return super().fetch(scopes, operation=operation, deadline=deadline)


def test_a_live_token_serves_while_the_endpoint_is_down(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = Faltering("a")
    source = endpoint.source()
    ask(source, "a")
    endpoint.now = 100.0  # to be renewed; it lapses at 150
    assert [ask(source, "a") for _ in range(5)] == ["token-1"] * 5
    assert len(endpoint.asked) == 2
    assert endpoint.deadline == 110.0
    assert [one.getMessage() for one in caplog.records] == [
        "op: the token could not be renewed early (Unavailable); it serves for 50 s more"
    ]
    endpoint.now = 110.0
    assert ask(source, "a") == "token-1"
    assert len(endpoint.asked) == 3
    endpoint.now = 150.0
    with pytest.raises(errors.Unavailable):
        ask(source, "a")


def test_an_early_renewal_leaves_half_of_the_calls_time() -> None:
    endpoint = Faltering("a")
    source = endpoint.source()
    ask(source, "a")
    endpoint.now = 100.0
    assert source.token("a", operation="op", deadline=108.0).reveal() == "token-1"
    assert endpoint.deadline == 104.0


def test_a_token_that_ends_while_it_is_renewed_early_is_asked_for_again() -> None:
    class Slow(Endpoint):
        """Its second answer takes 20 s, and is none."""

        def fetch(self, scopes: frozenset[str], *, operation: str, deadline: float) -> Grant:
            deadlines.append(deadline)
            if len(deadlines) == 2:
                self.now += 20
                raise errors.Unavailable(503, "Down")
            return super().fetch(scopes, operation=operation, deadline=deadline)

    for now, wanted, asked in ((129.0, "token-1", 2), (130.0, "token-2", 3)):  # it ends at 150
        deadlines: list[float] = []
        endpoint = Slow("a")
        source = endpoint.source()
        ask(source, "a")
        endpoint.now = now
        assert source.token("a", operation="op", deadline=300.0).reveal() == wanted
        assert deadlines == [float("inf"), now + 10, 300.0][:asked]


def test_a_process_forked_in_a_renewal_does_not_wait_for_its_parents_thread() -> None:
    endpoint = Endpoint("a")
    source, fetch, parent = endpoint.source(), endpoint.fetch, os.getpid()
    asked, go_on = threading.Event(), threading.Event()

    def slow(scopes: frozenset[str], *, operation: str, deadline: float) -> Grant:
        if os.getpid() == parent:
            asked.set()
            go_on.wait(10)
        return fetch(scopes, operation=operation, deadline=deadline)

    source._fetch = slow
    with ThreadPoolExecutor(1) as pool:
        renewing = pool.submit(ask, source, "a")
        assert asked.wait(10)
        child = os.fork()
        if not child:
            try:
                source.reject(source.token("a", operation="op", deadline=1.0))
            except errors.DeadlineExceeded:
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        go_on.set()
        assert renewing.result(5) == "token-1"


def test_nobody_waits_for_an_early_renewal_or_to_reject_a_token() -> None:
    endpoint = Endpoint("a")
    source = endpoint.source()
    first = source.token("a", operation="op", deadline=float("inf"))
    asked, go_on = threading.Event(), threading.Event()
    fetch = endpoint.fetch

    def slow(scopes: frozenset[str], *, operation: str, deadline: float) -> Grant:
        asked.set()
        go_on.wait(10)
        return fetch(scopes, operation=operation, deadline=deadline)

    source._fetch = slow
    endpoint.now = 100.0
    with ThreadPoolExecutor(3) as pool:
        renewing = pool.submit(ask, source, "a")
        assert asked.wait(10)
        try:
            assert pool.submit(ask, source, "a").result(5) == "token-1"
            pool.submit(source.reject, first).result(5)
        finally:
            go_on.set()
        assert renewing.result(5) == "token-2"
    assert ask(source, "a") == "token-2"


@pytest.mark.parametrize(
    ("members", "use_until"),
    [
        ({"expires_in": 3599}, 1000 + 3599 - 60),
        ({"expires_in": 120}, 1000 + 60),
        ({"expires_in": 30}, 1000 + 15),
        ({"expires_in": "3599"}, 1000 + 3599 - 60),
        ({"token_type": "Bearer", "expires_in": 3599.5}, 1000 + 3599.5 - 60),
        ({}, 1000 + 300 - 60),
        ({"expires_in": 10**9}, 1000 + 86_400 - 60),
    ],
)
def test_a_grant_is_used_until_60_s_before_it_lapses(
    members: dict[str, Any], use_until: float
) -> None:
    content = scripted.json.dumps({"access_token": "t"} | members).encode()
    grant = read_grant(Answer(200, {}, content), frozenset({"a"}), 1000.0)
    assert isinstance(grant, Grant)
    assert (grant.token.reveal(), grant.use_until) == ("t", use_until)


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"<html>", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "without an access_token"),
        (b'{"access_token": ""}', "without an access_token"),
        (b'{"access_token": 5}', "without an access_token"),
        (b'{"access_token": "a\\r\\nX-Evil: 1"}', "that no header can carry"),
        (b'{"access_token": "a b"}', "that no header can carry"),
        ('{"access_token": "é"}'.encode(), "that no header can carry"),
        (b'{"access_token": "' + b"a" * 20_000 + b'"}', "that no header can carry"),
        (b'{"access_token": "a", "token_type": "mac"}', "other than bearer"),
        (b'{"access_token": "a", "expires_in": -1}', "expires_in"),
        (b'{"access_token": "a", "expires_in": 0}', "expires_in"),
        (b'{"access_token": "a", "expires_in": true}', "expires_in"),
        (b'{"access_token": "a", "expires_in": NaN}', "expires_in"),
        (b'{"access_token": "a", "expires_in": null}', "expires_in"),
        (b'{"access_token": "a", "expires_in": 1e999}', "expires_in"),
        (b'{"access_token": "a", "expires_in": 1' + b"0" * 400 + b"}", "expires_in"),
    ],
)
def test_an_answer_that_is_no_grant_is_refused(
    content: bytes, wrong: str, server: scripted.Scripted, client: Client
) -> None:
    server.token_answers[:] = [answer(content)]
    with pytest.raises(errors.ProtocolError, match=f"{wrong}.*check auth_url"):
        client.get_transfer("t")
    assert server.received == []


# ------------------------------------------------------------------------------ over HTTP


def test_the_request_is_the_multipart_form_of_the_interface(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(answer({"id": "t"}))
    client.get_transfer("t")
    (request,) = server.token_requests
    assert (request.method, request.target) == ("POST", "/oauth2/token")
    kind, _, boundary = request.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/form-data"
    parts = request.body.decode().split(f"--{boundary}")
    assert [part.strip("\r\n").split("\r\n\r\n") for part in parts[1:-1]] == [
        ['Content-Disposition: form-data; name="grant_type"', "client_credentials"],
        ['Content-Disposition: form-data; name="client_id"', "client-1"],
        ['Content-Disposition: form-data; name="client_secret"', "canary-5f0c2d"],
        ['Content-Disposition: form-data; name="scope"', READ],
    ]
    assert "service-signature" not in request.headers
    assert server.received[0].headers["authorization"] == f"Bearer {scripted.TOKEN}"


def test_32_threads_share_one_renewal(server: scripted.Scripted, client: Client) -> None:
    server.token_answers[:] = [scripted.late(0.2, token())]
    server.script(answer({"id": "t"}))
    start = threading.Barrier(32)

    def read(_: int) -> str:
        start.wait()
        return client.get_transfer("t").id

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(read, range(32))) == ["t"] * 32
    assert len(server.token_requests) == 1
    assert len(server.received) == 32


def test_a_lapse_in_mid_paging_does_not_show(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    now = [0.0]
    client = make_client(environment=Environment(clock=lambda: now[0]))
    server.token_answers[:] = [token("first"), token("second"), token("third")]
    pages = [
        answer({"items": [{"id": f"t{n}"}], "next_page_cursor": f"c{n}" if n < 4 else ""})
        for n in range(5)
    ]
    server.script(*pages[:3], problem(401), *pages[3:])
    found = []
    for transfer in client.list_transfers():
        found.append(transfer.id)
        if transfer.id == "t1":
            now[0] += 3540  # 59 s before the lapse
    assert found == ["t0", "t1", "t2", "t3", "t4"]
    used = [request.headers["authorization"].split()[1] for request in server.received]
    assert used == ["first", "first", "second", "second", "third", "third"]


@pytest.mark.parametrize("status", [400, 401])
def test_invalid_scope_names_scope_operation_and_what_to_ask(
    status: int, server: scripted.Scripted, client: Client
) -> None:
    refusal = {"error": "invalid_scope", "error_description": "not enabled"}
    server.token_answers[:] = [answer(refusal, status)]
    with pytest.raises(errors.ScopeMissing) as caught:
        client.create_fiat_withdrawal(amount="1", fiat_account_id="f", profile_id="p")
    message = str(caught.value)
    assert "create_fiat_withdrawal" in message
    assert f"ask the administrator to grant the scope {WRITE} to this credential" in message
    assert server.received == []


@pytest.mark.parametrize("scope", [EVENTS, "", READ, None])
def test_a_scope_that_is_granted_meanwhile_needs_no_new_client(
    scope: str | None, server: scripted.Scripted, client: Client
) -> None:
    """Whatever the token endpoint said was granted (§5.1): the service knows what is missing."""
    server.token_answers[:] = [token("t-1", scope=scope), token("t-2", scope=READ)]
    server.script(problem(403, meta={"needed": READ}, type="urn:insufficient-scope"))
    with pytest.raises(errors.ScopeMissing, match=f"grant the scope {READ}"):
        client.get_transfer("t")
    server.script(answer({"id": "t"}))
    for _ in range(2):
        assert client.get_transfer("t").id == "t"
    bearers = [request.headers["authorization"] for request in server.received]
    assert bearers == ["Bearer t-1", "Bearer t-2", "Bearer t-2"]
    assert len(server.token_requests) == 2


def test_each_operation_asks_for_its_own_scope(server: scripted.Scripted, client: Client) -> None:
    server.script(answer({"id": "t", "events": []}))
    client.get_transfer("t")
    list(client.list_events())
    assert [scopes_of(request) for request in server.token_requests] == [READ, f"{EVENTS} {READ}"]


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        (answer({"error": "unauthorized_client"}, 400), errors.AuthenticationFailed, "check clien"),
        (problem(401), errors.AuthenticationFailed, "check client_id and client_secret"),
        (answer({"error": "unsupported_grant_type"}, 400), errors.ValidationFailed, "unsupported"),
    ],
)
def test_what_else_the_token_endpoint_may_say(
    reply: bytes, error: type[Exception], message: str, server: scripted.Scripted, client: Client
) -> None:
    server.token_answers[:] = [reply]
    with pytest.raises(error, match=message) as caught:
        client.get_transfer("t")
    assert type(caught.value) is error
    assert len(server.token_requests) == 1


def test_a_clock_that_is_wrong_is_named(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    behind = time.time() - 3600
    client = make_client(environment=Environment(now=lambda: behind))
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    server.script(problem(401, headers={"Date": date}))
    with pytest.raises(errors.AuthenticationFailed, match=r"clock is 3(599|600|601) s behind"):
        client.get_transfer("t")
