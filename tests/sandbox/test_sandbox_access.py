"""§5.1, §5.2, §7, §8: tokens, scopes and signatures, these made by other libraries."""

from __future__ import annotations

import time
from http.client import HTTPConnection, HTTPResponse

import pytest
import requests
from interface_tables import OPERATIONS
from sandbox_caller import (
    Caller,
    caller_of,
    sign_joserfc,
    signature_header,
)

from fundlab.sandbox import Sandbox, serve

LIST = "/v2/transfer/transfers?limit=5&order=ASC"
CREATE = "/v2/transfer/fiat-deposit-instructions"

# ---------------------------------------------------------------------------- tokens


def test_a_token_lasts_3599_seconds_and_names_its_scopes(caller: Caller) -> None:
    """§5.1, §8."""
    answer = caller.ask_token("events:read_event transfer:read_transfer")
    token = answer.json()
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert token.keys() == {"access_token", "expires_in", "scope", "token_type"}
    assert (token["expires_in"], token["token_type"]) == (3599, "bearer")
    assert token["scope"] == "events:read_event transfer:read_transfer"


def test_without_a_scope_all_those_of_the_credential_are_granted(caller: Caller) -> None:
    """§5.1."""
    assert set(caller.ask_token().json()["scope"].split()) == {
        operation.scope for operation in OPERATIONS.values()
    }


def test_an_urlencoded_form_is_understood_too(caller: Caller) -> None:
    form = {
        "grant_type": "client_credentials", "client_id": caller.client_id,
        "client_secret": caller.client_secret, "scope": "events:read_event",
    }  # fmt: skip
    answer = caller.http.post(f"{caller.base_url}/oauth2/token", data=form)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"scope": "transfer:everything"}, 400, "invalid_scope"),
        ({"client_secret": "wrong"}, 401, "invalid_client"),
        ({"client_id": "nobody"}, 401, "invalid_client"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"grant_type": ""}, 400, "invalid_request"),
        ({"client_id": ""}, 400, "invalid_request"),
    ],
)
def test_the_token_endpoint_refuses_as_rfc_6749(
    caller: Caller, changes: dict[str, str], status: int, error: str
) -> None:
    """§7."""
    answer = caller.ask_token(**changes)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.json()["error_description"]


def test_a_credential_gets_only_the_scopes_it_was_given() -> None:
    """§7."""
    with serve(empty=True, scopes=["events:read_event"]) as sandbox:
        caller = caller_of(sandbox)
        assert caller.ask_token().json()["scope"] == "events:read_event"
        refused = caller.ask_token("transfer:read_transfer")
        assert refused.json()["error"] == "invalid_scope"
        caller.close()


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Bearer unknown", "Basic abc", "Bearer \xff"]
)
def test_no_or_an_unknown_token_is_401(caller: Caller, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    answer = requests.get(caller.base_url + LIST, headers=headers, timeout=30)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_token_lapses_in_real_time_and_not_in_business_time(
    sandbox: Sandbox, caller: Caller
) -> None:
    """§8."""
    assert caller.get(LIST).status_code == 200
    sandbox.clock.advance(10 * 3600)
    assert caller.get(LIST).status_code == 200
    sandbox.clock.shift_access(3595)
    assert caller.get(LIST).status_code == 200
    sandbox.clock.shift_access(3600)
    assert caller.get(LIST).status_code == 401


def test_401_comes_before_403_and_403_before_400_and_404(caller: Caller) -> None:
    path = "/v2/transfer/transfers/none?limit=bad"
    assert requests.get(caller.base_url + path, timeout=30).status_code == 401
    caller._token = caller.ask_token("events:read_event").json()["access_token"]
    assert caller.get(path).status_code == 403
    assert caller.get(LIST.replace("5", "x")).status_code == 403
    assert caller.call("POST", CREATE, b"no json").status_code == 403


def test_rotation_keeps_client_id_tokens_and_keys(signed: Sandbox) -> None:
    """§5.2."""
    caller = caller_of(signed)
    assert caller.get(LIST).status_code == 200
    fresh = signed.control.rotate_secret(signed.client_id)["client_secret"]
    assert fresh != caller.client_secret
    assert caller.ask_token().json()["error"] == "invalid_client"
    again = caller_of(signed)
    assert again.client_secret == fresh
    assert again.get(LIST).status_code == 200
    assert caller.get(LIST).status_code == 200
    caller.close()
    again.close()


# ---------------------------------------------------------------------------- signatures


def test_unsigned_requests_are_refused_when_signing_is_required(signed: Sandbox) -> None:
    """§7."""
    caller = caller_of(signed, pem=None)
    answer = caller.get(LIST)
    assert answer.status_code == 401
    assert "not signed" in answer.json()["detail"]
    caller.close()


@pytest.mark.parametrize(
    ("age", "status"),
    [(0, 200), (1795, 200), (1810, 401), (-290, 200), (-320, 401)],
)
def test_a_timestamp_counts_for_30_minutes_and_5_ahead(
    signed: Sandbox, age: int, status: int
) -> None:
    """§8."""
    caller = caller_of(signed)
    header = signature_header(signed.signing_key_id, "ES256", "GET", LIST, time.time() - age)
    compact = sign_joserfc(header, b"", caller.pem)
    assert send(caller, "GET", LIST, b"", compact).status == status
    caller.close()


def test_a_key_counts_for_its_own_credential_only(signed: Sandbox) -> None:
    made = signed.control.add_credential("other", signing=True)
    other = caller_of(signed, client_id="other", client_secret=made["client_secret"])
    assert other.get(LIST).status_code == 401
    other.close()


def test_where_signing_is_optional_a_bad_signature_is_refused_all_the_same(
    signed: Sandbox,
) -> None:
    signed.control.require_signing(signed.client_id, False)
    unsigned = caller_of(signed, pem=None)
    assert unsigned.get(LIST).status_code == 200
    assert send(unsigned, "GET", LIST, b"", "a.b.c").status == 401
    unsigned.close()


# ---------------------------------------------------------------------------- helpers


def send(caller: Caller, method: str, path: str, body: bytes, *signatures: str) -> HTTPResponse:
    """Send the path and these very signatures as they stand, past all normalising."""
    connection = HTTPConnection(caller.base_url.removeprefix("http://"), timeout=30)
    connection.putrequest(method, path)
    connection.putheader("Authorization", f"Bearer {caller.token()}")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    for signature in signatures:
        connection.putheader("Service-Signature", signature)
    connection.endheaders(body)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer
