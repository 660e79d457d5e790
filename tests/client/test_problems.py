"""Each answer that is no result, and each that never came, by its kind and what it says to do."""

from __future__ import annotations

import json
from email.utils import formatdate
from typing import Any

import pytest

from fundlab.base import errors
from fundlab.client.http import Answer, Failure
from fundlab.client.problems import (
    Attempted,
    no_turn,
    one_line,
    redirected,
    service_error,
    settles,
    token_error,
    unanswered,
    unsigned,
    when_to_try_again,
)

NOW = 1_767_225_600.0  # 2026-01-01 00:00:00 UTC
CHANGE = "change what it names, then call again"
CREDENTIAL = ("the token or the request's signature was not accepted: check the credential, "
              "signing_key and signing_key_id, or run: fundlab doctor")  # fmt: skip
LATER = "try again after 2026-01-01T00:00:07Z, in 7 s"
AGAIN = "look for ref-1 first"
SCOPE = "ask the administrator to grant the scope s:read to this credential"


def answer(status: int, body: Any = b"", **headers: str) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(status, {name.replace("_", "-"): text for name, text in headers.items()}, content)


def tried(**more: Any) -> Attempted:
    given = {"name": "call_it", "operation": "call_it", "request_id": "r1", "scope": "s:read"}
    return Attempted(**given | more)


DOUBT: dict[str, Any] = {"changes": True, "in_doubt": True, "again": AGAIN}
WRITES: dict[str, Any] = {"changes": True, "again": AGAIN}
SERVICE: list[tuple[Answer, dict[str, Any], type[errors.ServiceError], str]] = [
    (answer(400), {}, errors.ValidationFailed, CHANGE),
    (answer(422), {}, errors.ValidationFailed, CHANGE),
    (answer(400), DOUBT, errors.ValidationFailed, AGAIN),
    (answer(400), {"in_doubt": True}, errors.ValidationFailed, CHANGE),
    (answer(400), WRITES, errors.ValidationFailed, CHANGE),
    (answer(401), {}, errors.AuthenticationFailed, CREDENTIAL),
    (answer(401), DOUBT, errors.AuthenticationFailed, f"{CREDENTIAL}; {AGAIN}"),
    (answer(401, b"timestamp"), {}, errors.AuthenticationFailed,
     "check this machine's clock (signatures are valid for 30 minutes): fundlab doctor"),
    *((answer(401, Date=formatdate(NOW + skew, usegmt=True)), {}, errors.AuthenticationFailed, hint)
      for skew, hint in (
          (300, CREDENTIAL), (-300, CREDENTIAL),
          (301, "this machine's clock is 301 s behind the service's: set it right"),
          (-301, "this machine's clock is 301 s ahead of the service's: set it right"))),
    (answer(403), {}, errors.PermissionDenied,
     "ask the administrator what this credential may do"),
    (answer(403, {"type": "urn:insufficient-funds"}), {}, errors.InsufficientFunds,
     "ask for less, or wait for a deposit: see get_profile_balance"),
    (answer(400, {"type": "urn:insufficient-funds"}), {}, errors.ValidationFailed, CHANGE),
    *((answer(403, body), {}, errors.ScopeMissing, SCOPE) for body in (
        {"type": "urn:scope"}, {"title": "Scope missing"}, {"detail": "a SCOPE"},
        {"meta": {"scopes": []}})),
    (answer(403, {"meta": ["scope"]}), {}, errors.PermissionDenied,
     "ask the administrator what this credential may do"),
    (answer(403, {"type": "urn:scope"}), {"scope": ""}, errors.ScopeMissing,
     "ask the administrator to grant the scope that the path needs to this credential"),
    (answer(404), {}, errors.NotFound,
     "check the id, and that base_url and the credential are those it belongs to"),
    (answer(404), {"operation": "list_events"}, errors.NotFound,
     "check base_url: it is what comes before /v2"),
    (answer(404), {"setting": "auth_url", "operation": "list_events"}, errors.NotFound,
     "check auth_url: it is what comes before /oauth2/token"),
    (answer(404), DOUBT | {"operation": "list_it"}, errors.NotFound,
     f"check base_url: it is what comes before /v2; {AGAIN}"),
    (answer(409), {}, errors.Conflict, "look at what there is already before trying again"),
    (answer(418), {}, errors.ServiceError,
     "check base_url; if it is right, show the operator of the service the request_id"),
    (answer(429, Retry_After="7"), {}, errors.RateLimited, LATER),
    (answer(429), DOUBT, errors.RateLimited, f"try again later; {AGAIN}"),
    *((answer(status), {}, errors.Unavailable, "try again later")
      for status in (408, 425, 500, 503, 599)),
    (answer(503, Retry_After="7"), {}, errors.Unavailable, LATER),
    (answer(503), WRITES, errors.Unavailable, AGAIN),
    (answer(503), DOUBT, errors.Unavailable, AGAIN),
    (answer(503, Retry_After="7"), WRITES, errors.Unavailable, f"{AGAIN}; {LATER}"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "call", "kind", "hint"), SERVICE)
def test_an_error_of_the_service_says_what_to_do(
    given: Answer, call: dict[str, Any], kind: type[errors.ServiceError], hint: str
) -> None:
    error = service_error(given, tried(**call), NOW)
    assert (type(error), error.hint) == (kind, hint)
    assert (error.status, error.request_id) == (given.status, "r1")


def test_an_error_of_the_service_has_what_its_problem_says() -> None:
    problem = {"type": "urn:x", "title": " a\n title ", "detail": "why", "meta": {"a": 1}}
    error = service_error(answer(400, problem, X_Request_Id="theirs"), tried(), NOW)
    assert (error.type, error.title, error.detail, error.meta, error.request_id) == (
        "urn:x", "a title", "why", {"a": 1}, "theirs"
    )  # fmt: skip
    for status, title in ((400, "Bad Request"), (499, "Error"), (503, "Service Unavailable")):
        error = service_error(answer(status, b"<html>"), tried(), NOW)
        assert (error.type, error.title, error.detail, error.meta) == (
            "about:blank", title, None, {}
        )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body", "kind", "hint"),
    [
        (400, {"error": "invalid_scope"}, errors.ScopeMissing, SCOPE),
        (400, {"error": "invalid_client"}, errors.AuthenticationFailed, "check client_id and"),
        (401, {"error": "unauthorized_client"}, errors.AuthenticationFailed, "check client_id and"),
        (400, {"error": "other"}, errors.ValidationFailed, "check auth_url: is this the token"),
        (499, {"error": "other"}, errors.ValidationFailed, "check auth_url: is this the token"),
        (500, {"error": "other"}, errors.Unavailable, "try again later"),
        (401, {"error": 1}, errors.AuthenticationFailed, "check client_id and client_secret"),
        (401, b"", errors.AuthenticationFailed, "check client_id and client_secret"),
    ],
)
def test_an_error_of_the_token_endpoint_says_what_to_do(
    status: int, body: Any, kind: type[errors.ServiceError], hint: str
) -> None:
    error = token_error(answer(status, body), tried(), NOW)
    assert type(error) is kind
    assert error.hint is not None
    assert error.hint.startswith(hint)
    assert (error.status, error.request_id, error.operation) == (status, "r1", "call_it")
    known = token_error(answer(400, {"error": "e", "error_description": "why"}), tried(), NOW)
    assert (known.title, known.detail) == ("e", "why")


PROBLEM, JSON = "application/problem+json; charset=utf-8", "application/json"


@pytest.mark.parametrize(
    ("status", "kind", "body", "settled"),
    [
        (400, PROBLEM, {"title": "t"}, True), (400, PROBLEM, {"status": 400}, True),
        (400, PROBLEM, {"title": "t", "status": 400}, True), (400, PROBLEM, {}, False),
        (400, PROBLEM, {"title": "t", "status": 401}, False), (400, PROBLEM, {"title": 1}, False),
        (400, JSON, {"title": "t", "status": 400}, True), (400, JSON, {"title": "t"}, False),
        (400, JSON, {"status": 400}, False), (400, JSON, {"title": "t", "status": 404}, False),
        (400, "text/html", {"title": "t", "status": 400}, False), (400, PROBLEM, b"x", False),
        (399, PROBLEM, {"title": "t"}, False), (499, PROBLEM, {"title": "t"}, True),
        (500, PROBLEM, {"title": "t"}, False), (408, PROBLEM, {"title": "t"}, False),
        (425, PROBLEM, {"title": "t"}, False), (429, PROBLEM, {"title": "t"}, True),
        (404, " APPLICATION/PROBLEM+JSON", {"title": "t"}, True),
    ],
)  # fmt: skip
def test_only_a_refusal_of_the_service_itself_settles(
    status: int, kind: str, body: Any, settled: bool
) -> None:
    assert settles(answer(status, body, Content_Type=kind)) is settled


@pytest.mark.parametrize(
    ("failure", "call", "late", "kind", "hint"),
    [
        (Failure("refused", sent=False), {}, False, errors.NetworkError,
         "nothing was sent; check base_url, the network and the proxy, then try again"),
        (Failure("refused", sent=False), {}, True, errors.DeadlineExceeded,
         "nothing was sent; check base_url, the network and the proxy, then try again"),
        (Failure("cut", sent=True), DOUBT, False, errors.NetworkError, AGAIN),
        (Failure("bad certificate", sent=False, final=True), {}, True, errors.NetworkError,
         "nothing was sent; check base_url; if the certificate is of your own authority, name it "
         "in ca_bundle"),
        (Failure("bad proxy", sent=False, final=True, hint="check the proxy"), {}, False,
         errors.NetworkError, "nothing was sent; check the proxy"),
        (Failure("too long", sent=True, final=True), {"in_doubt": True}, True,
         errors.ProtocolError, "look at what answers there: the service, or a proxy before it?"),
        (Failure("too long", sent=True, final=True), DOUBT, False, errors.ProtocolError,
         f"look at what answers there: the service, or a proxy before it?; {AGAIN}"),
    ],
)  # fmt: skip
def test_no_answer_says_what_was_sent_and_what_to_do(
    failure: Failure, call: dict[str, Any], late: bool, kind: type[errors.CallError], hint: str
) -> None:
    error = unanswered(failure, tried(**call), "host", attempts=1, late=late)
    assert (type(error), error.hint) == (kind, hint)
    assert str(error).startswith(f"call_it: host: {failure.problem}; ")
    again = unanswered(failure, tried(**call), "host", attempts=2, late=late)
    assert f"{failure.problem} after 2 attempts;" in str(again)


def test_what_was_not_sent_at_all_says_so_unless_an_attempt_before_it_was() -> None:
    late, signer = errors.DeadlineExceeded, errors.SigningFailed
    for call, turn, signed in (
        ({}, "nothing was sent; try again later, or with fewer workers",
         "nothing was sent; check the signer, then try again"),
        (DOUBT, AGAIN, f"this attempt was not sent, but an earlier one was: {AGAIN}"),
    ):  # fmt: skip
        error: errors.CallError = no_turn(tried(**call), 7.4)
        assert (type(error), error.hint) == (late, turn)
        assert "its turn would come in 7 s, after the call's time" in str(error)
        error = unsigned(signer("it broke"), tried(**call))
        assert (type(error), error.hint, error.request_id) == (signer, signed, "r1")
        assert str(error).startswith("call_it: it broke; ")


def test_a_redirect_is_not_followed() -> None:
    for call, hint in (({}, "check base_url"), (WRITES, f"check base_url; {AGAIN}")):
        error = redirected(answer(302, Location="https://x"), tried(**call))
        assert (error.hint, error.status, error.request_id) == (hint, 302, "r1")
        assert "answered 302, a redirect to 'https://x', which is not followed" in str(error)
    assert "a redirect to 'nowhere'" in str(redirected(answer(302), tried()))


@pytest.mark.parametrize(
    ("given", "said"),
    [(None, "try again later"), ("x", "try again later"), ("7", LATER),
     (formatdate(NOW + 7, usegmt=True), LATER), ("9" * 12, "try again in 999999999999 s"),
     (formatdate(NOW - 7, usegmt=True), "try again after 2026-01-01T00:00:00Z, in 0 s")],
)  # fmt: skip
def test_when_to_try_again(given: str | None, said: str) -> None:
    assert when_to_try_again(given, NOW) == said


@pytest.mark.parametrize("value", [None, "", 7, ["x"]])
def test_what_is_no_text_is_not_shown(value: object) -> None:
    assert one_line(value) is None
