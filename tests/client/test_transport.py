"""What a client learns of its answers: the service's clock and id, which sandbox it is, what of a
secret may be shown; and when a token is asked for anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest
import scripted
from scripted import answer, problem

from fundlab.base import errors
from fundlab.base.errors import NetworkError
from fundlab.base.threads import caller_gone
from fundlab.base.values import Instant
from fundlab.client.client import Client
from fundlab.client.http import Answer, Failure, Outgoing
from fundlab.client.problems import Attempted
from fundlab.client.transport import (
    Call,
    CallerGone,
    Environment,
    Grant,
    TokenSource,
    Transport,
    read_grant,
    without,
)
from fundlab.settings.secret import Secret

NOON = 1_790_000_000.0  # 2026-09-21T14:13:20Z
INSTANCE = "0123456789abcdef" * 2


@pytest.fixture
def at_noon(make_client: Callable[..., Client]) -> Client:
    return make_client(environment=scripted.skipping(draw=lambda: 0.0, now=lambda: NOON))


@pytest.mark.parametrize(
    ("headers", "skew", "ahead_ns"),
    [
        ({"Date": formatdate(NOON + 90, usegmt=True)}, 90.0, 90 * 10**9),
        ({"Date": formatdate(NOON - 90, usegmt=True)}, -90.0, -90 * 10**9),
        ({"Date": "yesterday"}, 0.0, 0), ({}, 0.0, 0),
        ({"Date": formatdate(NOON, usegmt=True), "Sandbox_Time": "2026-09-21T14:13:21.5Z"},
         0.0, 1_500_000_000),
        ({"Date": formatdate(NOON + 9, usegmt=True), "Sandbox_Time": "soon"}, 9.0, 9 * 10**9),
    ],
)  # fmt: skip
def test_the_clock_of_the_service_is_that_of_its_last_answer(
    headers: dict[str, str], skew: float, ahead_ns: int, server: scripted.Scripted, at_noon: Client
) -> None:
    assert (at_noon.transport.skew_s, at_noon.transport.service_ns(7)) == (0.0, 7)
    server.script(answer({"id": "t"}, **headers))
    at_noon.get_transfer("t")
    now = Instant.parse("2026-09-21T14:13:20Z").ns
    assert at_noon.transport.skew_s == skew
    assert at_noon.transport.service_ns(now) == now + ahead_ns


def test_what_is_sent_and_answered_is_shown_without_its_headers_and_its_body() -> None:
    sent = Outgoing("GET", "https://h/v2", {"Authorization": "secret"}, b"secret")
    assert repr(sent) == "Outgoing(method='GET', url='https://h/v2', rows=1)"
    assert repr(Answer(200, {"Set-Cookie": "secret"}, b"secret")) == "Answer(status=200)"
    call = Call("create_fiat_withdrawal", "POST", "/v2", "s", b"secret")
    assert "secret" not in repr(call)
    assert not call.repeatable, "unless somebody says so"


def test_a_sandbox_says_which_one_it_is(server: scripted.Scripted, client: Client) -> None:
    server.script(answer({}, Sandbox_Instance=INSTANCE), answer({"id": "t"}))
    assert client.transport.instance() == INSTANCE  # asked for, as there was no answer so far
    assert [one.target for one in server.received] == ["/v2/events"]
    client.get_transfer("t")  # the next one says nothing
    assert client.transport.instance() is None
    server.script(answer({"id": "t"}, Sandbox_Instance=INSTANCE[1:]))
    client.get_transfer("t")
    assert client.transport.instance() is None
    server.script(answer({"id": "t"}, Sandbox_Instance=INSTANCE))
    client.get_transfer("t")
    assert client.transport.instance() == INSTANCE
    assert len(server.received) == 4


def test_to_look_whether_the_service_is_there_is_tried_again(client: Client) -> None:
    wire = Wire(BUSY, GOOD)
    assert transport_over(wire, client).probe().status == 200
    assert wire.slept == FIVE[:1]


def test_a_look_whether_the_service_is_there_is_sent_with_the_id_that_the_log_names(
    server: scripted.Scripted, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(*[scripted.problem(503)] * 2, answer({}))
    with caplog.at_level("DEBUG", "fundlab.api"):
        client.transport.probe()
    sent = {one.headers["x-request-id"] for one in server.received}
    assert len(sent) == 1
    assert sent.pop() in caplog.text


@pytest.mark.parametrize(
    ("named", "taken"), [("x" * 128, True), ("x" * 129, False), ("", False), ("a\x01b", False)]
)
def test_the_id_of_a_request_is_that_of_the_service_where_it_can_be_one(
    named: str, taken: bool, server: scripted.Scripted, client: Client
) -> None:
    body = b"not an object"
    server.script(answer(body, X_Request_Id=named))
    with pytest.raises(errors.ProtocolError) as refused:
        client.get_transfer("t")
    own = server.received[0].headers["x-request-id"]
    assert refused.value.request_id == (named if taken else own)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(299, None), (300, errors.ProtocolError), (399, errors.ProtocolError),
     (400, errors.ValidationFailed)],
)  # fmt: skip
def test_a_status_is_an_answer_a_redirect_or_an_error(
    status: int, kind: type[errors.CallError] | None, server: scripted.Scripted, client: Client
) -> None:
    server.script(answer({"id": "t"}, status))
    server.token_answers[:] = [scripted.token()]
    if kind is None:
        assert client.get_transfer("t").id == "t"
        return
    with pytest.raises(kind) as refused:
        client.get_transfer("t")
    assert refused.value.status == status
    assert ("a redirect to" in str(refused.value)) == (status < 400)
    server.token_answers[:] = [answer({"error": "e"}, status)]
    with pytest.raises(kind) as refused:
        client.list_events().__next__()
    assert refused.value.status == status
    assert ("a redirect to" in str(refused.value)) == (status < 400)


def test_what_was_refused_and_what_may_have_been_done_is_said(
    server: scripted.Scripted, client: Client
) -> None:
    def failed(*answers: Any) -> errors.CallError:
        server.script(*answers)
        with pytest.raises(errors.CallError) as error:
            client.create_fiat_withdrawal(amount="1", fiat_account_id="f", profile_id="p")
        return error.value

    refused = failed(problem(400))
    assert (refused.refused, refused.in_doubt, refused.unsent) == (True, False, False)
    page = failed(answer(b"<html>", 400))  # of what stands before the service
    assert (page.refused, page.in_doubt, page.unsent) == (False, True, False)
    lost = failed(scripted.reset, problem(400))
    assert (lost.refused, lost.in_doubt, lost.unsent) == (False, True, False)
    server.token_answers[:] = [answer({"error": "invalid_client"}, 401)]
    client.transport._tokens.reject(Secret(scripted.TOKEN))
    unsent = failed(problem(400))
    assert (unsent.refused, unsent.in_doubt, unsent.unsent) == (False, False, True)


def test_each_attempt_leaves_a_line(
    server: scripted.Scripted, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(answer(b"{}", 503), answer(b"{}", 503, Retry_After="7"), answer({"id": "t"}))
    with caplog.at_level("DEBUG", "fundlab.api"):
        client.get_transfer("t")
    lines = [(record.levelname, record.getMessage().rpartition(", request")[0])
             for record in caplog.records if record.name == "fundlab.api"]  # fmt: skip
    asking = "get_transfer, asking for a token, attempt 1: 200, "
    assert lines[0][1].startswith(asking)
    assert lines[1] == ("DEBUG", "token for transfer:read_transfer: 200")
    assert lines[2:-1] == [
        ("DEBUG", "get_transfer, attempt 1: 503, 2 bytes"),
        ("INFO", "get_transfer, attempt 1: 503, 2 bytes; waiting 0 s before the next"),
        ("DEBUG", "get_transfer, attempt 2: 503, 2 bytes"),
        ("WARNING", "get_transfer, attempt 2: 503, 2 bytes; waiting 7 s before the next"),
        ("DEBUG", "get_transfer, attempt 3: 200, 11 bytes"),
    ]
    assert lines[-1][1].startswith("get_transfer 200 in ")
    one, other = (client.transport.new_ref_id() for _ in "ab")
    assert one != other
    assert one.startswith("fundlab-")


def test_how_long_a_call_took_is_logged_in_milliseconds(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """With the token that it asked for first."""
    wire = Wire(status(200, b'{"access_token": "t"}'), GOOD, GOOD, takes=0.75)
    transport = transport_over(wire, client)
    for spent in (1500, 750):
        caplog.clear()
        with caplog.at_level("INFO", "fundlab.api"):
            transport.send(Call("get_transfer", "GET", "/v2/transfers/t", "read"))
        assert f"get_transfer 200 in {spent} ms, request " in caplog.text


# ------------------------------------------------------------------------------------- secrets


@pytest.mark.parametrize(
    ("status", "secret", "shown"),
    [
        # What was sent is taken out wherever it stands, in a resource where it is 16 signs long.
        (200, "s" * 16, "***"), (200, "s" * 15, "s" * 15), (400, "s" * 15, "***"),
        (400, "s" * 3, "***"), (300, "s" * 3, "***"), (299, "s" * 3, "s" * 3),
    ],
)  # fmt: skip
def test_the_secret_that_was_sent_is_taken_out(status: int, secret: str, shown: str) -> None:
    body = f'{{"a": "<{secret}>"}}'.encode()
    found = without(Answer(status, {}, body), Secret(secret))
    assert found.body == f'{{"a": "<{shown}>"}}'.encode()


@pytest.mark.parametrize(
    ("status", "secret", "shown"),
    [(200, "s" * 16, "***"), (200, "s" * 15, "s" * 15), (400, "s" * 8, "***"),
     (400, "s" * 7, "s" * 7)],
)  # fmt: skip
def test_other_secrets_are_taken_out_where_they_are_long(
    status: int, secret: str, shown: str
) -> None:
    headers = {"Location": f"/{secret}", "X-Request-Id": secret, "X-Other": secret}
    answered = Answer(status, headers, secret.encode())
    found = without(answered, Secret("token-of-another-text"), Secret(secret))
    assert found.body == shown.encode()
    assert (found.headers["Location"], found.headers["X-Request-Id"]) == (f"/{shown}", shown)
    assert found.headers["X-Other"] == secret  # which no message shows


def test_a_secret_in_escapes_is_taken_out() -> None:
    secret = Secret("s3cret-of-the-client")
    spelled = b'{"a": "\\u00733cret-of-the-client"}'
    assert without(Answer(200, {}, spelled), secret).body == b'{"a": "***"}'
    plain = b'{"a":  "\\u0041"}'
    assert without(Answer(200, {}, plain), secret).body == plain  # to the byte
    location = {"Location": "/%733cret-of-the-client"}
    assert without(Answer(302, location, b""), secret).headers["Location"] == "***"


# -------------------------------------------------------------------------------------- tokens


class Endpoint:
    """Grants tokens until 100 s, that expire at 150 s; or says that it is down."""

    def __init__(self) -> None:
        self.now, self.asked = 0.0, list[float]()
        self.down = False
        self.source = TokenSource(self.fetch, lambda: self.now)

    def fetch(self, scopes: frozenset[str], *, operation: str, deadline: float) -> Grant:
        self.asked.append(deadline - self.now)
        if self.down:
            raise errors.NetworkError("down")
        return Grant(Secret(f"token-{len(self.asked)}"), scopes, self.now + 100, self.now + 150)

    def ask(self, seconds: float = 60.0) -> str:
        deadline = self.now + seconds
        return self.source.token("s", operation="op", deadline=deadline).reveal()


def test_a_token_is_asked_for_when_its_time_is_up_and_serves_until_it_expires() -> None:
    endpoint = Endpoint()
    assert endpoint.ask() == "token-1"
    endpoint.now = 99.9
    assert (endpoint.ask(), endpoint.asked) == ("token-1", [60.0])
    endpoint.now, endpoint.down = 100.0, True
    assert endpoint.ask() == "token-1"
    assert endpoint.asked == [60.0, 10.0]  # early: ten seconds at most, of the call's time half
    endpoint.now = 109.9
    endpoint.ask()
    assert len(endpoint.asked) == 2  # not again for ten seconds
    endpoint.now = 110.0
    endpoint.ask(12.0)
    assert endpoint.asked[2:] == [6.0]
    endpoint.now = 149.9
    assert endpoint.ask() == "token-1"
    endpoint.now = 150.0
    with pytest.raises(errors.NetworkError):
        endpoint.ask()
    endpoint.down = False
    assert endpoint.ask() == "token-6"
    endpoint.source.reject(Secret("another"))
    assert endpoint.ask() == "token-6"
    endpoint.source.reject(Secret("token-6"))
    assert endpoint.ask() == "token-7"


def test_a_grant_says_until_when_it_is_used_and_serves() -> None:
    for lifetime, use, ends in ((100, 57.0, 107.0), (120, 67.0, 127.0), (121, 68.0, 128.0)):
        body = f'{{"access_token": "t", "expires_in": {lifetime}}}'.encode()
        grant = read_grant(Answer(200, {}, body), frozenset("s"), 7.0)
        assert isinstance(grant, Grant)
        assert (grant.use_until, grant.expires_at, grant.scopes) == (use, ends, {"s"})
    endpoint = Endpoint()
    with endpoint.source._renewal, pytest.raises(errors.DeadlineExceeded, match="no access token"):
        endpoint.ask(0.0)  # another thread asks, and takes too long


def test_while_another_thread_renews_a_token_that_serves_nobody_waits_for_it() -> None:
    endpoint, waited = Endpoint(), list[float]()
    endpoint.ask()
    renewal: Any = SimpleNamespace(acquire=lambda timeout: waited.append(timeout))
    endpoint.source._renewal = renewal
    endpoint.now = 149.9
    assert (endpoint.ask(), waited) == ("token-1", [0])
    endpoint.now = 150.0
    with pytest.raises(errors.DeadlineExceeded, match="no access token"):
        endpoint.ask(60.0)
    assert waited == [0, 60.0]


# ------------------------------------------------------------------------ attempt by attempt


class Wire:
    """The connection: gives these outcomes, each after so many seconds of a clock of its own."""

    def __init__(self, *outcomes: Any, takes: float = 0.0) -> None:
        self.outcomes, self.takes, self.now = list(outcomes), takes, 0.0
        self.slept, self.limits = list[float](), list[float]()

    def exchange(self, request: Outgoing, timeout: float) -> Any:
        self.limits.append(timeout)
        self.now += self.takes
        return self.outcomes.pop(0)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def transport_over(wire: Wire, client: Client, rate_limit: float | None = None) -> Transport:
    """Pauses are the longest there are: draws are 1."""
    environment = Environment(
        clock=lambda: wire.now, now=lambda: NOON, sleep=wire.sleep, draw=lambda: 1.0
    )
    made = Transport(replace(client.settings, rate_limit=rate_limit), None, environment)
    made._opened = wire  # type: ignore[assignment]
    return made


def settled(
    transport: Transport, *, deadline: float = 600.0, repeatable: bool = True
) -> tuple[Any, Attempted]:
    """The status of the answer, or what was raised; and what is known of the call."""
    tried, request = Attempted("get", "get", "r-1", "s"), Outgoing("GET", "https://h/v2", {})
    try:
        found = transport._until_settled(request, tried, repeatable=repeatable, deadline=deadline)
    except errors.CallError as error:
        return error, tried
    return found.status, tried


def status(number: int, body: bytes = b"", **headers: str) -> Answer:
    return Answer(number, {name.replace("_", "-"): text for name, text in headers.items()}, body)


BUSY, GOOD = status(503), status(200)
UNSENT, SENT = Failure("no connection", sent=False), Failure("it broke", sent=True)
FIVE = [0.25, 0.5, 1.0, 2.0, 4.0]
TOO_MANY = status(429, Retry_After="1")


@pytest.mark.parametrize(
    ("outcomes", "repeatable", "result", "slept"),
    [
        ([BUSY] * 5 + [GOOD], True, 200, FIVE),
        ([BUSY] * 6, True, 503, FIVE),  # six attempts
        ([BUSY], False, 503, []),
        ([UNSENT, UNSENT, GOOD], False, 200, FIVE[:2]),
        ([UNSENT] * 6, True, NetworkError, FIVE),
        ([SENT, GOOD], True, 200, FIVE[:1]),
        ([SENT], False, NetworkError, []),
        ([Failure("bad address", sent=False, final=True)], True, NetworkError, []),
        ([TOO_MANY, GOOD], False, 200, [1.0]),
        # a turn a second from then on: what a pause leaves of it is waited for, too
        ([TOO_MANY, *[BUSY] * 5, GOOD], True, 200, [1.0, 0.25, 0.75, 0.5, 0.5, 1.0, 2.0, 4.0]),
        ([status(503, Retry_After="120"), GOOD], True, 200, [120.0]),
        ([status(503, Retry_After="121")], True, 503, []),
        ([status(429, Retry_After="120"), GOOD], False, 200, [120.0]),
        ([status(429, Retry_After="121")], True, 429, []),
        ([status(418)], True, 418, []), ([GOOD], False, 200, []),
    ],
)  # fmt: skip
def test_how_often_and_after_which_pauses_a_call_is_sent(
    outcomes: list[Any], repeatable: bool, result: Any, slept: list[float], client: Client
) -> None:
    wire = Wire(*outcomes)
    found, _ = settled(transport_over(wire, client), repeatable=repeatable)
    assert found == result if isinstance(result, int) else type(found) is result
    assert wire.slept == slept
    assert wire.outcomes == []
    if len(slept) < len(outcomes):
        assert wire.limits == [600 - sum(slept[:n]) for n in range(len(outcomes))]


def test_refusals_of_the_pace_count_against_the_time_only(client: Client) -> None:
    wire = Wire(*[TOO_MANY] * 9, GOOD)
    assert settled(transport_over(wire, client), repeatable=False)[0] == 200
    assert len(wire.limits) == 10


@pytest.mark.parametrize(
    ("outcome", "deadline", "again"),
    [
        (BUSY, 0.25, False), (BUSY, 0.5, True), (TOO_MANY, 1.0, False), (TOO_MANY, 1.5, True),
        (UNSENT, 0.25, False), (UNSENT, 0.5, True),
    ],
)  # fmt: skip
def test_nothing_is_tried_again_after_the_calls_time(
    outcome: Any, deadline: float, again: bool, client: Client
) -> None:
    wire = Wire(outcome, GOOD)
    found, _ = settled(transport_over(wire, client), deadline=deadline)
    assert (found == 200) is again
    assert len(wire.limits) == 1 + again


@pytest.mark.parametrize(("takes", "late"), [(8.0, True), (7.5, False)])
def test_a_call_whose_time_is_up_says_so(takes: float, late: bool, client: Client) -> None:
    wire = Wire(SENT, takes=takes)
    found, _ = settled(transport_over(wire, client), deadline=8.0, repeatable=False)
    assert type(found) is (errors.DeadlineExceeded if late else NetworkError)


PROBLEM = {"Content_Type": "application/problem+json"}


@pytest.mark.parametrize(
    ("outcomes", "doubt"),
    [
        ([status(400, b'{"title": "T", "status": 400}', **PROBLEM)], False),
        ([status(400, b"<html>")], True), ([GOOD], True), ([status(302)], True), ([BUSY], True),
        ([SENT], True), ([UNSENT], False),
        ([SENT, status(400, b'{"title": "T", "status": 400}', **PROBLEM)], True),
        ([TOO_MANY, status(400, b'{"title": "T", "status": 400}', **PROBLEM)], True),
        ([UNSENT, status(400, b'{"title": "T", "status": 400}', **PROBLEM)], False),
    ],
)  # fmt: skip
def test_whether_it_may_have_been_carried_out(
    outcomes: list[Any], doubt: bool, client: Client
) -> None:
    deadline = 2.0 if len(outcomes) > 1 else 0.1
    _, tried = settled(transport_over(Wire(*outcomes), client), deadline=deadline)
    assert tried.in_doubt is doubt


def test_turns_are_waited_for_within_the_calls_time(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Who gives up leaves its place; a wait of a second or more is in the log."""
    for rate, wait, line in ((1.0, 1.0, True), (2.0, 0.5, False)):
        wire = Wire(GOOD, GOOD, GOOD)
        transport = transport_over(wire, client, rate)
        assert settled(transport)[0] == 200
        found, _ = settled(transport, deadline=wait - 0.25)
        assert isinstance(found, errors.DeadlineExceeded)
        assert "its turn would come in" in str(found)
        assert (transport._pace._line, wire.slept) == ([], [])
        caplog.clear()
        with caplog.at_level("INFO", "fundlab.api"):
            assert settled(transport, deadline=wait)[0] == 200
        assert wire.slept == [wait]
        assert ("get: its turn comes in 1 s, request r-1" in caplog.text) is line
        assert wire.limits[1] == 0


def test_a_pause_that_is_asked_for_holds_for_others(client: Client) -> None:
    for asked, outcome in ((120, BUSY), (121, BUSY), (120, TOO_MANY)):
        wire = Wire(status(outcome.status, Retry_After=str(asked)), GOOD)
        transport = transport_over(wire, client)
        settled(transport, deadline=120.0)  # within which it cannot be tried again
        waits = transport._pace.wait_s(object())
        assert waits == (120 if asked == 120 else 0)


def test_what_is_worth_a_warning(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """The first pause of a second or more, and the first refusal; not each after it."""
    wire = Wire(BUSY, BUSY, BUSY, BUSY, TOO_MANY, TOO_MANY, GOOD)
    with caplog.at_level("INFO", "fundlab.api"):
        settled(transport_over(wire, client))
    said = [
        (one.levelname, "(429)" in one.getMessage())
        for one in caplog.records
        if "its turn" not in one.getMessage()
    ]
    assert said == [
        ("INFO", False), ("INFO", False), ("WARNING", False), ("INFO", False),
        ("WARNING", True), ("INFO", True),
    ]  # fmt: skip


def test_nothing_is_sent_for_who_has_gone(client: Client) -> None:
    gone: list[bool] = []

    def asks() -> bool:
        gone.append(len(gone) >= 4)
        return gone[-1]

    token = caller_gone.set(asks)
    try:
        wire = Wire(BUSY, BUSY, GOOD)
        with pytest.raises(CallerGone):
            settled(transport_over(wire, client))
        assert wire.slept == pytest.approx([0.1, 0.1, 0.05])  # in naps
        assert len(wire.limits) == 1
        with pytest.raises(CallerGone):
            settled(transport_over(wire, client))
        assert len(wire.limits) == 1
    finally:
        caller_gone.reset(token)


def test_one_pool_of_connections_is_made_of_the_settings(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []

    class Http(Wire):
        def __init__(self, **given: Any) -> None:
            super().__init__(GOOD, GOOD)
            made.append(given)
            self.closed = False

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr("fundlab.client.connections.Http", Http)
    settings = replace(client.settings, connect_timeout=3.0, read_timeout=7.0, ca_bundle=None)
    transport = Transport(settings, None)
    transport.close()  # nothing was sent
    assert [settled(transport, deadline=1e12)[0] for _ in range(2)] == [200, 200]
    transport.close()
    assert transport._opened.closed  # type: ignore[union-attr]
    assert made == [
        {"connect_timeout": 3.0, "read_timeout": 7.0, "ca_bundle": None, "trust_env": False}
    ]
