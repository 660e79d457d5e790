"""A caller of the sandbox made from requests and other signing libraries, not of our client; and a
sandbox in which everything of the interface has been made once, as its answers show it."""

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
BANK_ADDRESS = {
    "country": "USA", "address1": "1 Bank Plaza", "city": "New York", "province": "NY",
    "zip_code": "10006",
}  # fmt: skip
SWIFT = {
    "wire": {
        "account_number": "DE89370400440532013000",
        "fiat_account_owner_address": {"country": "Germany"},
        "routing_details": {
            "routing_number_type": "SWIFT", "routing_number": "DEUTDEFF", "bank_name": "Bank",
            "bank_address": {"country": "Germany"},
        },
        "intermediary_routing_details": {
            "routing_number_type": "ABA", "routing_number": "021000021", "bank_name": "Between",
            "bank_address": BANK_ADDRESS,
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
            "bank_address": BANK_ADDRESS,
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


# ---------------------------------------------------------------------------- made once

Json = dict[str, Any]
Samples = dict[str, list[Json]]

ADDRESS = {
    "country": "Germany", "address1": "1 Zeil", "address2": "Floor 3", "city": "Frankfurt",
    "province": "HE", "zip_code": "60313",
}  # fmt: skip
BANK = {
    "routing_number_type": "SWIFT", "routing_number": "DEUTDEFF", "bank_name": "Bank",
    "bank_address": ADDRESS,
}  # fmt: skip
FULL_WIRE = {
    "wire": {
        "account_number": "DE89370400440532013000", "fiat_account_owner_address": ADDRESS,
        "routing_details": BANK, "intermediary_routing_details": BANK,
    }
}  # fmt: skip
CUBIX = {"wallet_address": "C-1"}
PERSON = {"person_details": {"first_name": "Ada", "last_name": "Okafor"}}
METADATA = {"desk": "7"}


@dataclass
class Gallery:
    """What there is, and the ids that requests name."""

    sandbox: Sandbox
    caller: Caller
    samples: Samples = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    _made: int = 0

    def ref_id(self) -> str:
        self._made += 1
        return f"ref-{self._made}"

    def body(self, operation: str) -> Json:
        """A valid body with every field of §4's table, under a fresh ``ref_id``."""
        profile = {"profile_id": self.known["profile_id"]}
        user = {name: self.known[name] for name in ("identity_id", "account_id")}
        named = {"ref_id": self.ref_id(), **user, "metadata": METADATA}
        bank = {"fiat_account_owner": PERSON, "fiat_network_instructions": FULL_WIRE}
        bodies: dict[str, Json] = {
            "create_fiat_deposit_instructions": {
                **profile, **named, "fiat_network": "WIRE", "routing_number_type": "SWIFT",
            },
            "initiate_sandbox_fiat_deposit": {
                **bank, "amount": "10.00", "asset": "USD", "memo_id": self.known["memo_id"],
            },
            "create_fiat_account": {**named, **bank},
            "update_fiat_account": {**bank, "metadata": METADATA},
            "create_fiat_withdrawal": {
                **profile, **named, "amount": "1.00", "asset": "USD", "memo": "invoice 7",
                "fiat_account_id": self.known["fiat_account_id"],
            },
            "create_deposit_address": {
                **profile, **named, "crypto_network": "BASE", "conversion_target_asset": "USD",
            },
            "create_orchestration_rule": {
                **profile, **user, "ref_id": named["ref_id"], "nickname": "n",
                "source_asset": "USDC", "destination_asset": "USD",
                "source": {"crypto": {"network": "SOLANA"}},
                "destination": {"profile": {"profile_id": self.known["other_profile_id"]}},
            },
            "create_crypto_withdrawal_fee": {
                "asset": "USDC", "destination_address": self.known["address"],
                "crypto_network": "BASE", "amount": "10.00",
                "identity_id": self.known["identity_id"],
            },
        }  # fmt: skip
        return bodies[operation]


def make_gallery(sandbox: Sandbox, caller: Caller) -> Gallery:
    """Everything, by the resource's name."""
    gallery = Gallery(sandbox, caller)
    user = sandbox.control.add_identity()
    first, second = sandbox.profile_ids
    who = {name: user[name] for name in ("identity_id", "account_id")}
    sandbox.control.add_destination_address("SOLANA")
    saved = sandbox.control.add_destination_address("BASE", identity_id=who["identity_id"])
    account = approved_account(
        caller, sandbox, **who, ref_id="account", fiat_network_instructions=FULL_WIRE,
        fiat_account_owner=PERSON, metadata=METADATA,
    )  # fmt: skip
    wire = instructions(caller, first, **who, ref_id="wire", metadata=METADATA)
    gallery.known = {
        "profile_id": first, "other_profile_id": second, **who, "memo_id": wire["memo_id"],
        "fiat_account_id": account["id"], "address": saved["address"],
    }  # fmt: skip
    _move_money(gallery)
    gallery.samples = _samples(gallery)
    return gallery


def _move_money(gallery: Gallery) -> None:
    """Deposits, conversions, internal and crypto transfers, withdrawals that succeed and fail."""
    sandbox, caller, known = gallery.sandbox, gallery.caller, gallery.known
    assert deposit(caller, known["memo_id"], "1000000.00").ok
    sandbox.clock.advance(60)
    rules = [
        _rule(gallery, {"crypto": {"network": "SOLANA"}}, {"profile": _profile(known, "other_")}),
        _rule(gallery, {"crypto": {"network": "BASE"}}, {"fiat": _fiat(known)}),
        _rule(gallery, {"fiat": {"network": "WIRE", "account_type": "ABA"}}, _chain(), "USD"),
        _rule(gallery, {"profile": _profile(known, "other_")}, None, "USD", "other_"),
    ]
    for rule in rules[:2]:
        sandbox.control.crypto_deposit(rule["source"]["crypto"]["address"], "USDC", "500.00")
    assert deposit(caller, rules[2]["source"]["fiat"]["memo_id"], "500.00").ok
    sandbox.clock.advance(60)
    for amount in ("10.00", "20.13", "30.00"):
        body = {**gallery.body("create_fiat_withdrawal"), "amount": amount}
        assert caller.post("/v2/transfer/fiat-withdrawals", body).ok
        sandbox.clock.advance(4)
    gallery.samples["OrchestrationRule"] = rules


def _profile(known: dict[str, str], other: str = "") -> Json:
    return {"profile_id": known[f"{other}profile_id"]}


def _fiat(known: dict[str, str]) -> Json:
    return {"fiat_account_id": known["fiat_account_id"], "memo": "m"}


def _chain() -> Json:
    return {"crypto": {"network": "ETHEREUM", "address": "0x" + "ab" * 20}}


def _rule(
    gallery: Gallery, source: Json, destination: Json | None, asset: str = "USDC", other: str = ""
) -> Json:
    body = {
        **gallery.body("create_orchestration_rule"), "source": source, "destination": destination,
        "source_asset": asset, "destination_asset": "USDG" if asset == "USD" else "USD",
        **_profile(gallery.known, other),
    }  # fmt: skip
    if destination is None:
        del body["destination"]
    answer = gallery.caller.post("/v2/orchestration/rules", body)
    assert answer.status_code == 200, answer.text
    gallery.samples["OrchestrationRuleAnswer"] = [answer.json()]
    made: Json = answer.json()["rule"]
    return made


def _samples(gallery: Gallery) -> Samples:
    caller, known, samples = gallery.caller, gallery.known, gallery.samples

    def post(path: str, body: Json) -> Json:
        answer = caller.post(path, body)
        assert answer.status_code == 200, answer.text
        made: Json = answer.json()
        return made

    def get(path: str) -> Json:
        found: Json = caller.get(path).json()
        return found

    accounts, places = "/v2/transfer/fiat-accounts", "/v2/transfer/fiat-deposit-instructions"
    base = gallery.body("create_fiat_account")
    body = {**base, "fiat_network_instructions": CUBIX, "fiat_account_owner": OWNER}
    post(accounts, {**body, "ref_id": gallery.ref_id()})
    listed = get(accounts)
    samples["FiatAccount"] = [get(f"{accounts}/{row['id']}") for row in listed["items"]]
    samples["FiatAccountPage"] = [listed]
    samples["FiatDepositInstructionsPage"] = [get(places)]
    samples["FiatDepositInstructions"] = get(places)["items"]
    samples["TransferPage"] = [get("/v2/transfer/transfers")]
    samples["Transfer"] = samples["TransferPage"][0]["items"]
    samples["ProfileBalance"] = [get(f"/v2/profiles/{known['profile_id']}/balances/USD")]
    samples["CryptoDestinationAddressPage"] = [
        get(f"/v2/transfer/crypto-destination-addresses?identity_id={known['identity_id']}")
    ]
    samples["CryptoDestinationAddress"] = samples["CryptoDestinationAddressPage"][0]["addresses"]
    quote = gallery.body("create_crypto_withdrawal_fee")
    samples["CryptoWithdrawalFee"] = [post("/v2/transfer/fees/crypto-withdrawal", quote)]
    address = gallery.body("create_deposit_address")
    samples["DepositAddress"] = [post("/v2/transfer/deposit-addresses", address)]
    samples["EventPage"] = [get("/v2/events")]
    samples["Event"] = samples["EventPage"][0]["events"]
    samples["Token"] = [caller.ask_token().json()]
    samples["Problem"] = [get("/v2/events?limit=0"), get(f"{accounts}/nothing")]
    return samples | _parts(samples)


def _parts(samples: Samples) -> Samples:
    """The sub-objects of §2.1 and §2.6, wherever they stand."""
    banks = list(_members(samples["FiatAccount"], "fiat_network_instructions"))
    wires = list(_members(banks, "wire"))
    routes = [*_members(wires, "routing_details"), *_members(wires, "intermediary_routing_details")]
    owners = list(_members(samples["FiatAccount"], "fiat_account_owner"))
    rules = samples["OrchestrationRule"]
    ends = [*_members(rules, "source"), *_members(rules, "destination")]
    addresses = [*_members(wires, "fiat_account_owner_address"), *_members(routes, "bank_address")]
    return {
        "FiatNetworkInstructions": banks, "WireInstructions": wires, "RoutingDetails": routes,
        "Address": addresses, "CubixInstructions": list(_members(banks, "cubix")),
        "FiatAccountOwner": owners,
        "InstitutionDetails": list(_members(owners, "institution_details")),
        "PersonDetails": list(_members(owners, "person_details")), "RuleEnd": ends,
        "CryptoEnd": list(_members(ends, "crypto")), "FiatEnd": list(_members(ends, "fiat")),
        "ProfileEnd": list(_members(ends, "profile")),
    }  # fmt: skip


def _members(values: list[Json], name: str) -> Iterator[Json]:
    for value in values:
        if name in value:
            yield value[name]
