"""§5.1, §5.2, §7, §8: tokens, scopes and signatures, these made by other libraries."""

from __future__ import annotations

import base64
import json
import time
from http.client import HTTPConnection, HTTPResponse

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from interface_tables import OPERATIONS
from sandbox_caller import (
    Caller,
    caller_of,
    sign_joserfc,
    sign_jwcrypto,
    signature_header,
)

from fundlab.sandbox import Sandbox, serve

SIGNERS = {"joserfc": sign_joserfc, "jwcrypto": sign_jwcrypto}
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


@pytest.mark.parametrize("alg", ["ES256", "EdDSA"])
@pytest.mark.parametrize("library", SIGNERS)
def test_signatures_of_two_libraries_are_accepted(alg: str, library: str) -> None:
    """§5.2."""
    with serve(empty=True, signing=True, signing_alg=alg) as sandbox:  # type: ignore[arg-type]
        caller = caller_of(sandbox, alg=alg)
        body = json.dumps({"profile_id": sandbox.profile_ids[0], "fiat_network": "CUBIX"}).encode()
        for method, path, payload in (("GET", LIST, b""), ("POST", CREATE, body)):
            header = signature_header(sandbox.signing_key_id, alg, method, path)
            compact = SIGNERS[library](header, payload, caller.pem)
            assert send(caller, method, path, payload, compact).status == 200
        caller.close()


def test_unsigned_requests_are_refused_when_signing_is_required(signed: Sandbox) -> None:
    """§7."""
    caller = caller_of(signed, pem=None)
    answer = caller.get(LIST)
    assert answer.status_code == 401
    assert "not signed" in answer.json()["detail"]
    caller.close()


def test_another_keys_signature_is_refused(signed: Sandbox) -> None:
    stranger = new_pem(ec.generate_private_key(ec.SECP256R1()))
    caller = caller_of(signed, pem=stranger)
    assert caller.get(LIST).status_code == 401
    caller.close()


def test_a_changed_byte_of_the_body_is_refused(signed: Sandbox) -> None:
    """§5.2."""
    caller = caller_of(signed)
    body = json.dumps({"profile_id": signed.profile_ids[0], "fiat_network": "CUBIX"}).encode()
    header = signature_header(signed.signing_key_id, "ES256", "POST", CREATE)
    compact = sign_joserfc(header, body, caller.pem)
    assert send(caller, "POST", CREATE, body.replace(b": ", b":", 1), compact).status == 401
    assert send(caller, "POST", CREATE, body + b" ", compact).status == 401
    assert send(caller, "POST", CREATE, body, compact).status == 200
    caller.close()


HEADER_CHANGES = {
    "another method": {"service/request-method": "POST"},
    "lower-case method": {"service/request-method": "get"},
    "another path": {"service/request-path": "/v2/events"},
    "query left out": {"service/request-path": LIST.partition("?")[0]},
    "query reordered": {"service/request-path": "/v2/transfer/transfers?order=ASC&limit=5"},
    "percent-encoded": {"service/request-path": LIST.replace("A", "%41")},
    "timestamp a number": {"service/timestamp": int(time.time())},
    "timestamp of arabic digits": {"service/timestamp": "١٧٠٠٠٠٠٠٠٠"},
    "timestamp with a newline": {"service/timestamp": f"{int(time.time())}\n"},
    "timestamp with a sign": {"service/timestamp": f"+{int(time.time())}"},
    "timestamp with a point": {"service/timestamp": f"{time.time():.3f}"},
    "timestamp absent": {"service/timestamp": None},
    "unknown key": {"kid": "other"},
    "key id a number": {"kid": 7},
    "critical member": {"crit": ["service/timestamp"]},
    "unencoded payload": {"b64": False, "crit": ["b64"]},
}


@pytest.mark.parametrize("change", HEADER_CHANGES)
def test_a_header_that_does_not_fit_the_request_is_refused(signed: Sandbox, change: str) -> None:
    """§5.2."""
    caller = caller_of(signed)
    header = signature_header(signed.signing_key_id, "ES256", "GET", LIST)
    header = {k: v for k, v in (header | HEADER_CHANGES[change]).items() if v is not None}
    compact = handmade(header, b"", caller.pem)
    assert send(caller, "GET", LIST, b"", compact).status == 401
    caller.close()


def test_handmade_signatures_are_accepted_unchanged(signed: Sandbox) -> None:
    """So that the refusals above are due to the change alone."""
    caller = caller_of(signed)
    header = signature_header(signed.signing_key_id, "ES256", "GET", LIST)
    assert send(caller, "GET", LIST, b"", handmade(header, b"", caller.pem)).status == 200
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


def test_the_algorithm_must_be_the_keys_own_and_allowed(signed: Sandbox) -> None:
    caller = caller_of(signed)
    okp = new_pem(ed25519.Ed25519PrivateKey.generate())
    header = signature_header(signed.signing_key_id, "EdDSA", "GET", LIST)
    assert send(caller, "GET", LIST, b"", sign_joserfc(header, b"", okp)).status == 401
    for alg in ("none", "HS256", "ES384", "es256", None):
        header = signature_header(signed.signing_key_id, "ES256", "GET", LIST) | {"alg": alg}
        compact = handmade(header, b"", caller.pem)
        assert send(caller, "GET", LIST, b"", compact).status == 401
    caller.close()


def test_a_key_in_the_header_is_not_trusted(signed: Sandbox) -> None:
    caller = caller_of(signed)
    stranger = ec.generate_private_key(ec.SECP256R1())
    numbers = stranger.public_key().public_numbers()
    jwk = {
        "kty": "EC", "crv": "P-256", "x": b64(numbers.x.to_bytes(32, "big")).decode(),
        "y": b64(numbers.y.to_bytes(32, "big")).decode(),
    }  # fmt: skip
    header = signature_header(signed.signing_key_id, "ES256", "GET", LIST) | {"jwk": jwk}
    compact = handmade(header, b"", new_pem(stranger))
    assert send(caller, "GET", LIST, b"", compact).status == 401
    caller.close()


def test_only_one_canonical_signature_header_counts(signed: Sandbox) -> None:
    caller = caller_of(signed)
    header = signature_header(signed.signing_key_id, "ES256", "GET", LIST)
    good = sign_joserfc(header, b"", caller.pem)
    head, payload, tail = good.split(".")
    repeated = json.dumps(header).replace('"alg"', '"alg": "none", "alg"').encode()
    spoiled = {
        "padded": f"{head}==.{payload}.{tail}",
        "padded signature": f"{good}==",
        "stray bits": good[:-1] + chr(ord(good[-1]) + 1),
        "truncated": good[:-4],
        "detached": f"{head}..{tail}x",
        "two parts": f"{head}.{tail}",
        "json": json.dumps({"payload": payload, "signature": tail}),
        "repeated member": f"{b64(repeated).decode()}.{payload}.{tail}",
        "empty": "",
    }
    for name, compact in spoiled.items():
        assert send(caller, "GET", LIST, b"", compact).status == 401, name
    assert send(caller, "GET", LIST, b"", good, good).status == 401
    assert send(caller, "GET", LIST, b"", good).status == 200
    caller.close()


def test_several_keys_are_usable_at_once_and_at_once(signed: Sandbox) -> None:
    """§5.2."""
    made = signed.control.add_signing_key(signed.client_id, "second", alg="EdDSA")
    second = caller_of(signed, kid="second", pem=made["private_key"].encode(), alg="EdDSA")
    first = caller_of(signed)
    assert second.get(LIST).status_code == 200
    assert first.get(LIST).status_code == 200
    second.close()
    first.close()


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


def handmade(header: dict, payload: bytes, pem: bytes) -> str:
    """ES256 by hand, whatever the header says."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    signed = b64(json.dumps(header).encode()) + b"." + b64(payload)
    r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(hashes.SHA256())))
    return (signed + b"." + b64(r.to_bytes(32, "big") + s.to_bytes(32, "big"))).decode()


def b64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def new_pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
