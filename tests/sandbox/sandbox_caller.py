"""A caller of the sandbox made from requests and other signing libraries, not of our client."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import requests
from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey
from jwcrypto import jwk as jwcrypto_jwk
from jwcrypto import jws as jwcrypto_jws
from jwt import PyJWS

from fundlab.sandbox import Sandbox

INSTRUCTIONS = "/v2/transfer/fiat-deposit-instructions"
ACCOUNTS = "/v2/transfer/fiat-accounts"
WITHDRAWALS = "/v2/transfer/fiat-withdrawals"
ADDRESSES = "/v2/transfer/deposit-addresses"
RULES = "/v2/orchestration/rules"
QUOTES = "/v2/transfer/fees/crypto-withdrawal"
SWIFT = {
    "wire": {
        "account_number": "DE89370400440532013000",
        "routing_details": {
            "routing_number_type": "SWIFT", "routing_number": "DEUTDEFF", "bank_name": "Bank",
        },
        "intermediary_routing_details": {
            "routing_number_type": "ABA", "routing_number": "021000021", "bank_name": "Between",
        },
    }
}  # fmt: skip
MISSING = "00000000-0000-4000-8000-000000000000"


def with_routing(number: str, place: str = "routing_details", kind: str = "ABA") -> dict[str, Any]:
    """``WIRE`` with another routing number, or of another kind, at ``place``."""
    details = {
        **WIRE["wire"]["routing_details"], "routing_number": number, "routing_number_type": kind,
    }  # fmt: skip
    return {"wire": {**WIRE["wire"], place: details}}


def withdrawal(sandbox: Sandbox, target_id: str, amount: str, **extra: Any) -> dict[str, Any]:
    return {
        "amount": amount, "asset": "USD", "fiat_account_id": target_id,
        "profile_id": sandbox.profile_ids[0], **extra,
    }  # fmt: skip


def assert_problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert problem["title"]
    return problem


REGISTRY = jws.JWSRegistry(algorithms=["ES256", "EdDSA"], strict_check_header=False)

WIRE = {
    "wire": {
        "account_number": "123456789012",
        "fiat_account_owner_address": {
            "country": "USA", "address1": "1 Main Street", "city": "Springfield",
            "province": "IL", "zip_code": "62701",
        },
        "routing_details": {
            "routing_number_type": "ABA", "routing_number": "026009593", "bank_name": "First Bank",
        },
    }
}  # fmt: skip
OWNER = {"institution_details": {"name": "Acme Ltd"}}


def signature_header(kid: str, alg: str, method: str, path: str, at: float | None = None) -> dict:
    return {
        "kid": kid,
        "alg": alg,
        "service/timestamp": str(int(time.time() if at is None else at)),
        "service/request-method": method,
        "service/request-path": path,
    }


def sign_joserfc(header: dict, payload: bytes, pem: bytes) -> str:
    kind = OKPKey if header["alg"] == "EdDSA" else ECKey
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # the name EdDSA is the interface's
        return jws.serialize_compact(header, payload, kind.import_key(pem), registry=REGISTRY)


def sign_jwcrypto(header: dict, payload: bytes, pem: bytes) -> str:
    token = jwcrypto_jws.JWS(payload)
    token.allowed_algs = ["ES256", "EdDSA"]
    key = jwcrypto_jwk.JWK.from_pem(pem)
    token.add_signature(key, None, json.dumps(header), None)
    return token.serialize(compact=True)


def sign_pyjwt(header: dict, payload: bytes, pem: bytes) -> str:
    """With the member ``typ`` that PyJWT adds."""
    return PyJWS().encode(payload, pem, algorithm=header["alg"], headers=header)


@dataclass
class Caller:
    """One credential at one sandbox."""

    base_url: str
    client_id: str
    client_secret: str = field(repr=False)
    kid: str | None = None
    pem: bytes | None = field(default=None, repr=False)
    alg: str = "ES256"

    def __post_init__(self) -> None:
        self.http = requests.Session()
        self._token: str | None = None

    def close(self) -> None:
        self.http.close()

    def ask_token(self, scope: str = "", **changes: str) -> requests.Response:
        form = {
            "grant_type": "client_credentials", "client_id": self.client_id,
            "client_secret": self.client_secret, "scope": scope, **changes,
        }  # fmt: skip
        parts = {name: (None, value) for name, value in form.items()}
        return self.http.post(f"{self.base_url}/oauth2/token", files=parts)

    def token(self) -> str:
        if self._token is None:
            answer = self.ask_token()
            assert answer.status_code == 200, answer.text
            self._token = answer.json()["access_token"]
        return self._token

    def headers(self, method: str, path: str, body: bytes) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.token()}"}
        if self.pem is not None and self.kid is not None:
            header = signature_header(self.kid, self.alg, method, path)
            headers["Service-Signature"] = sign_joserfc(header, body, self.pem)
        return headers

    def call(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> requests.Response:
        data = b"" if body is None else body
        if not isinstance(data, bytes):
            data = json.dumps(data).encode()
        sent = self.headers(method, path, data)
        if body is not None:
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        return self.http.request(method, self.base_url + path, data=data or None, headers=sent)

    def get(self, path: str) -> requests.Response:
        return self.call("GET", path)

    def post(self, path: str, body: object) -> requests.Response:
        return self.call("POST", path, body)

    def put(self, path: str, body: object) -> requests.Response:
        return self.call("PUT", path, body)

    def rows(self, path: str, items: str = "items") -> Iterator[dict[str, Any]]:
        """Every row of a list, page by page."""
        cursor = ""
        joint = "&" if "?" in path else "?"
        while True:
            answer = self.get(path + (f"{joint}page_cursor={cursor}" if cursor else ""))
            assert answer.status_code == 200, answer.text
            page = answer.json()
            yield from page[items]
            cursor = page["next_page_cursor"]
            if not cursor:
                return

    def balance(self, profile_id: str, asset: str = "USD") -> dict[str, str]:
        return self.get(f"/v2/profiles/{profile_id}/balances/{asset}").json()


def caller_of(sandbox: Any, **changes: Any) -> Caller:
    pem = sandbox.signing_key.read_bytes() if sandbox.signing_key is not None else None
    given = {
        "base_url": sandbox.base_url, "client_id": sandbox.client_id,
        "client_secret": sandbox.client_secret, "kid": sandbox.signing_key_id, "pem": pem,
    }  # fmt: skip
    return Caller(**{**given, **changes})


def fund(caller: Caller, sandbox: Any, profile_id: str, amount: str, **extra: Any) -> None:
    """A simulated wire that has arrived."""
    memo_id = instructions(caller, profile_id, **extra)["memo_id"]
    answer = deposit(caller, memo_id, amount)
    assert answer.status_code == 200, answer.text
    sandbox.clock.advance(60)


def instructions(caller: Caller, profile_id: str, **extra: Any) -> dict[str, Any]:
    body = {"profile_id": profile_id, "fiat_network": "WIRE", "routing_number_type": "ABA", **extra}
    answer = caller.post("/v2/transfer/fiat-deposit-instructions", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def deposit(caller: Caller, memo_id: str, amount: str) -> requests.Response:
    body = {
        "amount": amount, "asset": "USD", "memo_id": memo_id,
        "fiat_network_instructions": WIRE, "fiat_account_owner": OWNER,
    }  # fmt: skip
    return caller.post("/v2/sandbox/fiat-deposits", body)


def approved_account(caller: Caller, sandbox: Any, **extra: Any) -> dict[str, Any]:
    body = {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE, **extra}
    answer = caller.post("/v2/transfer/fiat-accounts", body)
    assert answer.status_code == 200, answer.text
    sandbox.clock.advance(10)
    return answer.json()
