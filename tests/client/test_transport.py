"""What a client learns of its answers: the service's clock and id, which sandbox it is, what of a
secret may be shown; and when a token is asked for anew."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest
import scripted
from scripted import answer, problem

from fundlab.base import errors
from fundlab.base.values import Instant
from fundlab.client.client import Client
from fundlab.client.http import Answer
from fundlab.client.transport import Grant, TokenSource, read_grant, without
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
