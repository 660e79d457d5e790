"""§5.2 on trial: valid signatures of three other libraries pass, mutated ones never do.

Some mutations leave the cryptography intact and lie in a member (signed anew with the right key),
others leave the members intact and spoil the bytes. Everything goes over real HTTP, as written.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from sandbox_caller import (
    Caller,
    caller_of,
    sign_joserfc,
    sign_jwcrypto,
    sign_pyjwt,
    signature_header,
)

from fundlab.sandbox import Sandbox

LIST = "/v2/transfer/transfers"
CREATE = "/v2/transfer/fiat-deposit-instructions"
OTHER_ALG = {"ES256": "EdDSA", "EdDSA": "ES256"}
WRONG_TYPES = (None, 7, True, [], {}, "", "\ud800", "\x00")


@dataclass(frozen=True)
class Key:
    kid: str
    alg: str
    pem: bytes


@dataclass(frozen=True)
class Signed:
    """A request as it goes over the wire, and the key it was signed with."""

    key: Key
    method: str
    path: str
    body: bytes
    signatures: tuple[str, ...]

    @property
    def compact(self) -> str:
        return self.signatures[0]

    @property
    def header(self) -> dict:
        return signature_header(self.key.kid, self.key.alg, self.method, self.path)

    def signed_as(self, sign: Callable[[dict, bytes, bytes], str], **changes: object) -> Signed:
        """The same request with members of the header changed, and signed anew."""
        members = {name.replace("_", "-"): value for name, value in changes.items()}
        header = self.header | {
            name if name in ("kid", "alg", "crit", "b64", "jwk") else f"service/{name}": value
            for name, value in members.items()
        }
        return replace(self, signatures=(sign(header, self.body, self.key.pem),))

    def with_compact(self, compact: str) -> Signed:
        return replace(self, signatures=(compact,))


class Wire:
    """One kept-alive connection that sends paths and headers exactly as they stand."""

    def __init__(self, caller: Caller) -> None:
        self._token = caller.token()
        self._http = HTTPConnection(caller.base_url.removeprefix("http://"), timeout=30)

    def send(self, request: Signed) -> int:
        self._http.putrequest(request.method, request.path)
        self._http.putheader("Authorization", f"Bearer {self._token}")
        self._http.putheader("Content-Type", "application/json")
        self._http.putheader("Content-Length", str(len(request.body)))
        for signature in request.signatures:
            self._http.putheader("Service-Signature", signature)
        self._http.endheaders(request.body)
        answer = self._http.getresponse()
        answer.read()
        return answer.status

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def keys(signed: Sandbox) -> list[Key]:
    """Two keys of the credential, of both kinds."""
    assert signed.signing_key is not None
    assert signed.signing_key_id is not None
    second = signed.control.add_signing_key(signed.client_id, "second", alg="EdDSA")
    return [
        Key(signed.signing_key_id, "ES256", signed.signing_key.read_bytes()),
        Key("second", "EdDSA", second["private_key"].encode()),
    ]


@pytest.fixture
def foreign(signed: Sandbox) -> Key:
    """A key of another credential."""
    signed.control.add_credential("other", signing=True)
    made = signed.control.add_signing_key("other", "foreign", alg="ES256")
    return Key("foreign", "ES256", made["private_key"].encode())


@pytest.fixture
def wire(signed: Sandbox) -> Iterator[Wire]:
    caller = caller_of(signed)
    made = Wire(caller)
    yield made
    made.close()
    caller.close()


@pytest.mark.parametrize("trials", [1_000, pytest.param(20_000, marks=pytest.mark.campaign)])
def test_no_mutated_signature_is_accepted_and_no_valid_one_refused(
    signed: Sandbox,
    wire: Wire,
    keys: list[Key],
    foreign: Key,
    trials: int,
    seed: int,
    figure: Any,
) -> None:
    """§5.2, §7: of both algorithms and of two keys at once; what is signed are the exact bytes."""
    rng = random.Random(seed)
    counts: Counter[tuple[str, int]] = Counter()
    for trial in range(trials):
        good = valid(rng, trial, keys, signed.profile_ids[0])
        counts["valid", wire.send(good)] += 1
        kind = list(MUTATIONS)[trial % len(MUTATIONS)]
        bad = MUTATIONS[kind](rng, good, foreign)
        assert bad != good
        status = wire.send(bad)
        assert status == 401, (kind, bad)
        counts[kind, status] += 1
    refused = trials - counts.pop(("valid", 200), 0)
    figure(
        f"signatures: {trials:,} valid ones of {', '.join(SIGNERS)}: {refused} refused; "
        f"{trials:,} mutants of {len(MUTATIONS)} kinds: "
        f"{sum(n for (_, status), n in counts.items() if status != 401)} accepted"
    )
    assert refused == 0
    assert set(counts) == {(kind, 401) for kind in MUTATIONS}
    assert sum(counts.values()) == trials


def valid(rng: random.Random, trial: int, keys: list[Key], profile_id: str) -> Signed:
    """A read with an awkward query, or a create; by each library and key in turn."""
    key, sign = keys[trial % 2], list(SIGNERS.values())[trial // 2 % len(SIGNERS)]
    if trial // 8 % 2:
        method, path = "POST", CREATE
        payload = {"profile_id": profile_id, "fiat_network": "CUBIX", "ref_id": f"é-{trial}"}
        body = json.dumps(payload, ensure_ascii=bool(trial % 3)).encode()
    else:
        method, body = "GET", b""
        path = f"{LIST}?limit=5&order=ASC&ids=a%2F{rng.randrange(10**9):x}%c3%A9"
    header = signature_header(
        key.kid, key.alg, method, path, time.time() - rng.randrange(-200, 1700)
    )
    return Signed(key, method, path, body, (sign(header, body, key.pem),))


# ---------------------------------------------------------------------------- mutations

Mutation = Callable[[random.Random, Signed, Key], Signed]
MUTATIONS: dict[str, Mutation] = {}


def mutation(function: Mutation) -> Mutation:
    MUTATIONS[function.__name__] = function
    return function


@mutation
def algorithm(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    alg = rng.choice([OTHER_ALG[good.key.alg], "none", "HS256", "ES384", "es256", *WRONG_TYPES])
    return good.signed_as(raw_sign, alg=alg)


@mutation
def hmac_with_the_public_key(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    return good.signed_as(hmac_sign, alg=rng.choice(["HS256", good.key.alg]))


@mutation
def key_id(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    return good.signed_as(raw_sign, kid=rng.choice(["unknown", good.key.kid.upper(), *WRONG_TYPES]))


@mutation
def key_of_another_credential(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    stolen = replace(good, key=replace(foreign, kid=rng.choice([foreign.kid, good.key.kid])))
    return stolen.signed_as(raw_sign)


@mutation
def key_in_the_header(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    own = replace(foreign, kid=good.key.kid)
    public = load_pem_private_key(foreign.pem, None).public_key()
    numbers = public.public_numbers()  # type: ignore[union-attr]
    x, y = (b64(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
    jwk = {"kty": "EC", "crv": "P-256", "x": x, "y": y}
    return replace(good, key=own).signed_as(raw_sign, jwk=jwk)


@mutation
def member_left_out(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    header = good.header
    del header[rng.choice(sorted(header))]
    return good.with_compact(raw_sign(header, good.body, good.key.pem))


@mutation
def critical_member(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    changes = [{"crit": ["service/timestamp"]}, {"crit": []}, {"b64": False, "crit": ["b64"]}]
    return good.signed_as(raw_sign, **rng.choice(changes))


@mutation
def timestamp(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    now = int(time.time())
    return good.signed_as(
        raw_sign,
        timestamp=rng.choice(
            [str(now - rng.randrange(1_805, 10**8)), str(now + rng.randrange(305, 10**8)), now,
             f"+{now}", f"{now}.0", f" {now}", f"{now}\n", "1" * 400, "١٧٩٣٤٩١٢٠٠", *WRONG_TYPES]
        ),
    )  # fmt: skip


@mutation
def method(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    other = {"GET": "POST", "POST": "PUT"}[good.method]
    choices = [other, good.method.lower(), f"{good.method} ", "", *WRONG_TYPES]
    return good.signed_as(raw_sign, request_method=rng.choice(choices))


@mutation
def signed_path(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    choices = [
        good.path + "/", good.path.upper(), "http://127.0.0.1" + good.path, good.path + "?",
        good.path[1:], "/v2/events", *WRONG_TYPES,
    ]  # fmt: skip
    return good.signed_as(raw_sign, request_path=rng.choice(choices))


@mutation
def sent_path(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    suffixes = ["&", "&limit=6", "#x", "%20", "?a=b"] if "?" in good.path else ["?a=b", "?&"]
    return replace(good, path=good.path + rng.choice(suffixes))


@mutation
def query_order(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    base, _, query = good.path.partition("?")
    parts = (query or "order=ASC&limit=5").split("&")
    moved = parts[1:] + parts[:1]
    return replace(good, path=f"{base}?{'&'.join(moved)}")


@mutation
def percent_case(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    if "%" not in good.path:
        return replace(good, path=good.path.replace("fiat", rng.choice(["%66iat", "fi%61t"])))
    swaps = [("%2F", "%2f"), ("%2F", "/"), ("%c3", "%C3"), ("%A9", "%a9"), ("ids", "%69ds")]
    return replace(good, path=good.path.replace(*rng.choice(swaps)))


@mutation
def body_byte(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    if not good.body:
        return replace(good, body=rng.choice([b" ", b"{}", b"\n"]))
    at = rng.randrange(len(good.body))
    other = bytes([good.body[at] ^ 1 << rng.randrange(8)])
    bodies = [
        good.body[:at] + other + good.body[at + 1 :], good.body + b" ", good.body[:-1],
        good.body.replace(b": ", b":", 1), b"",
    ]  # fmt: skip
    return replace(good, body=rng.choice(bodies))


@mutation
def duplicated_header(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    others = [good.compact, good.signed_as(raw_sign, kid="unknown").compact, "", "a.b.c"]
    pair = [good.compact, rng.choice(others)]
    rng.shuffle(pair)
    return replace(good, signatures=rng.choice([tuple(pair), (", ".join(pair),)]))


@mutation
def truncated(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    parts = good.compact.split(".")
    at = rng.choice([n for n, part in enumerate(parts) if part])
    cut = rng.randrange(len(parts[at]))
    kept = [part[:cut] if n == at else part for n, part in enumerate(parts)]
    return good.with_compact(rng.choice([".".join(kept), ".".join(parts[:2]), ".".join(parts[1:])]))


@mutation
def changed_character(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    at = rng.choice([n for n, letter in enumerate(good.compact) if letter != "."])
    other = rng.choice(ALPHABET.replace(good.compact[at], ""))
    return good.with_compact(good.compact[:at] + other + good.compact[at + 1 :])


@mutation
def re_encoded(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    head, payload, tail = good.compact.split(".")
    header = json.loads(base64.urlsafe_b64decode(head + "=="))
    doubled = json.dumps(header)[:-1] + ', "alg": "none"}'
    choices = [
        f"{head}=.{payload}.{tail}", f"{head}.{payload}.{tail}==", f"{head}.{payload}=.{tail}",
        f"{head}.{payload}.{stray_bits(tail)}", f"{head[:9]} {head[9:]}.{payload}.{tail}",
        f"{b64(json.dumps(header, indent=1).encode())}.{payload}.{tail}",
        f"{b64(json.dumps(header).encode('utf-16'))}.{payload}.{tail}",
        f"{b64(doubled.encode())}.{payload}.{tail}",
        json.dumps({"protected": head, "payload": payload, "signature": tail}),
        f"{head}.{payload}.{tail}.", f"{head}.{payload}.{tail}.{tail}", f"{head}..{tail}A",
        good.compact.swapcase(), good.compact.replace(".", "%2E"), f'"{good.compact}"',
    ]  # fmt: skip
    if good.key.alg == "ES256":
        choices.append(f"{head}.{payload}.{der(tail)}")
    return good.with_compact(rng.choice(choices))


@mutation
def absent(rng: random.Random, good: Signed, foreign: Key) -> Signed:
    return replace(good, signatures=rng.choice([(), ("",), (".",), ("..",)]))


# ---------------------------------------------------------------------------- signing by hand

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def raw_sign(header: dict, payload: bytes, pem: bytes) -> str:
    """A true signature of the key, whatever the header says."""
    key = load_pem_private_key(pem, None)
    signed = f"{b64(json.dumps(header).encode())}.{b64(payload)}"
    if isinstance(key, ec.EllipticCurvePrivateKey):
        numbers = key.sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
        return f"{signed}.{b64(raw_numbers(numbers))}"
    return f"{signed}.{b64(key.sign(signed.encode()))}"  # type: ignore[union-attr, call-arg]


def hmac_sign(header: dict, payload: bytes, pem: bytes) -> str:
    """HMAC with the public key as the secret: the old trick on libraries that trust ``alg``."""
    public = load_pem_private_key(pem, None).public_key()
    secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = f"{b64(json.dumps(header).encode())}.{b64(payload)}"
    return f"{signed}.{b64(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def raw_numbers(der_signature: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    return b"".join(number.to_bytes(32, "big") for number in decode_dss_signature(der_signature))


def der(tail: str) -> str:
    raw = base64.urlsafe_b64decode(tail + "==")
    numbers = (int.from_bytes(half, "big") for half in (raw[:32], raw[32:]))
    return b64(encode_dss_signature(*numbers))


def stray_bits(tail: str) -> str:
    """The same bytes to a lenient decoder: the last character's unused bits are set."""
    return tail[:-1] + ALPHABET[ALPHABET.index(tail[-1]) | 1]


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


SIGNERS = {"joserfc": sign_joserfc, "jwcrypto": sign_jwcrypto, "PyJWT": sign_pyjwt,
           "our own hand": raw_sign}  # fmt: skip
"""The last is what most mutants are signed with: so they are refused for their change alone."""


def test_a_query_that_is_there_and_empty_is_not_seen(signed: Sandbox) -> None:
    """§5.2, and the sandbox's limit: ASGI has no place for a lone ``?``."""
    caller = caller_of(signed)
    host, _, port = signed.base_url.removeprefix("http://").partition(":")
    connection = HTTPConnection(host, int(port))
    try:
        for target, path, status in (
            (f"{LIST}?", f"{LIST}?", 401), (LIST, LIST, 200),
            (f"{LIST}?", LIST, 200), (LIST, f"{LIST}?", 401),
        ):  # fmt: skip
            connection.request("GET", target, headers=caller.headers("GET", path, b""))
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status, (target, path)
    finally:
        connection.close()
        caller.close()
    assert "a lone ?, is not seen here" in signed.requests()["problem"].iloc[-1]
