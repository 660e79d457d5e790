"""What is signed is what a socket receives: method, path, query and body, to the byte."""

from __future__ import annotations

import json
import random
from base64 import urlsafe_b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
import scripted
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc import jws as joserfc_jws
from joserfc.jwk import import_key
from jwcrypto import jwk
from jwcrypto import jws as jwcrypto_jws

from fundlab.base.errors import InvalidRequest, SigningFailed
from fundlab.client.calls import encoded_target
from fundlab.client.client import Client
from fundlab.client.signing import new_key, raw_signature

HOSTILE = [
    "2026-10-01T00:00:00+00:00", "a b", "a&b=c", "é", "%2f", "/", "?", "#", "a+b", "\x00", "\r\n",
    "..a", "a;b", "'\"<>", "日本", "😀", "%", "%zz", "\\", "~-._", "a//b", "=", "[]{}|^`",
]  # fmt: skip
NO_ID = {"/", "?", "#", "\x00", "\r\n", "..a", "a//b"}
"""What is refused within a path, and sent in a query or a body."""


def verified_header(request: scripted.Received, alg: str, public: str) -> dict[str, str]:
    """The protected header, after both libraries have verified it over the received body."""
    signed = request.headers["service-signature"]
    registry = joserfc_jws.JWSRegistry(
        header_registry={}, algorithms=[alg], strict_check_header=False
    )
    key = import_key(public, "EC" if alg == "ES256" else "OKP")
    found = joserfc_jws.deserialize_compact(signed, key, registry=registry)
    assert found.payload == request.body
    token = jwcrypto_jws.JWS()
    token.allowed_algs = [alg]
    token.deserialize(signed, jwk.JWK.from_pem(public.encode()))
    assert token.payload == request.body
    padded = signed.split(".")[0] + "==="
    header: dict[str, str] = json.loads(urlsafe_b64decode(padded))
    return header


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("alg", ["ES256", "EdDSA"])
def test_250_hostile_requests_verify_on_the_received_bytes(
    alg: str, server: scripted.Scripted, make_client: Callable[..., Client], tmp_path: Path
) -> None:
    public = new_key(alg, tmp_path / "key.pem")
    client = make_client(
        base_url=f"{server.url}/prefix", signing_key=tmp_path / "key.pem", signing_key_id="key-1"
    )
    draw = random.Random(7)
    sent: list[tuple[str, list[str]]] = []
    for number in range(250):
        values = draw.sample([text for text in HOSTILE if number % 3 or text not in NO_ID], 2)
        if number % 3 == 0:
            server.script(scripted.answer({"asset": values[1], "available": "1", "trading": "0"}))
            client.get_profile_balance(*values)
        elif number % 3 == 1:
            server.script(scripted.answer({"items": []}))
            list(client.list_transfers(ref_ids=values))
        else:
            server.script(scripted.answer({"id": "t"}))
            client.create_fiat_withdrawal(
                amount="1.50", fiat_account_id=values[0], profile_id=values[1]
            )
        sent.append((["balance", "list", "create"][number % 3], values))
    assert len(server.received) == 250
    for request, (kind, values) in zip(server.received, sent, strict=True):
        header = verified_header(request, alg, public)
        assert header["service/request-path"] == request.target
        assert header["service/request-method"] == request.method
        assert (header["kid"], header["alg"]) == ("key-1", alg)
        assert request.target.startswith("/prefix/v2/")
        parts = urlsplit(request.target)
        if kind == "balance":
            assert [unquote(part) for part in parts.path.split("/")[4::2]] == values
        elif kind == "list":
            pairs = parse_qsl(parts.query, strict_parsing=True)
            assert [value for name, value in pairs if name == "ref_ids"] == values
        else:
            assert [request.json()[name] for name in ("fiat_account_id", "profile_id")] == values


def test_a_time_with_an_offset_arrives_as_it_was_given(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(scripted.answer({"items": []}))
    list(client.list_transfers(created_at_gte="2026-10-01T00:00:00.000000001+00:00"))
    assert server.received[0].target == (
        "/v2/transfer/transfers?limit=100&order=DESC"
        "&created_at.gte=2026-10-01T00%3A00%3A00.000000001%2B00%3A00&order_by=CREATED_AT"
    )


def test_the_path_keeps_one_encoding() -> None:
    assert encoded_target("/a/{id}", {"id": "x:%2f é"}, [("b.c", "d e&+")]) == (
        "/a/x%3A%252f%20%C3%A9?b.c=d%20e%26%2B"
    )


@pytest.mark.parametrize("value", ["", ".", "..", None, 5, "\ud800", *sorted(NO_ID)])
def test_an_id_that_no_path_can_carry_is_refused(value: str, client: Client) -> None:
    with pytest.raises(InvalidRequest, match="id="):
        client.get_transfer(value)


def test_a_body_is_compact_utf8_and_the_same_at_every_attempt(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(scripted.problem(503), scripted.reset, scripted.answer({"id": "t"}))
    client.create_fiat_withdrawal(
        ref_id="é", amount="1.50", fiat_account_id="f", profile_id="p", metadata={"a": "ü"}
    )
    expected = (
        '{"ref_id":"é","amount":"1.50","asset":"USD","fiat_account_id":"f","profile_id":"p",'
        '"metadata":{"a":"ü"}}'
    ).encode()
    assert [request.body for request in server.received] == [expected] * 3
    assert {request.headers["content-type"] for request in server.received} == {"application/json"}


def test_a_key_in_a_device_signs_as_well(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())

    class Device:
        """Stands for an HSM or a KMS: it answers in DER and never gives the key away."""

        kid, alg = "hsm-7", "ES256"

        def sign(self, message: bytes) -> bytes:
            return raw_signature(key.sign(message, ec.ECDSA(SHA256())))

    client = make_client(
        signer=Device(), signature_header="Brand-Signature", signature_prefix="brand/"
    )
    assert "requests are signed with your signer" in client._repr_html_()
    assert "requests are not signed" in make_client()._repr_html_()
    server.script(scripted.answer({"id": "t"}))
    client.get_transfer("t")
    signed = server.received[0].headers["brand-signature"]
    token = jwcrypto_jws.JWS()
    token.deserialize(signed, jwk.JWK.from_pyca(key.public_key()))
    header = json.loads(urlsafe_b64decode(signed.split(".")[0] + "==="))
    assert (header["kid"], header["brand/request-path"]) == ("hsm-7", "/v2/transfer/transfers/t")
    assert token.payload == b""


def test_a_device_that_signs_in_der_is_told_so(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())

    class Device:
        kid, alg = "hsm-7", "ES256"

        def sign(self, message: bytes) -> bytes:
            return key.sign(message, ec.ECDSA(SHA256()))

    with pytest.raises(
        SigningFailed, match=r"key hsm-7 gave \d\d bytes, not the 64.*raw_signature"
    ):
        make_client(signer=Device()).get_transfer("t")
    assert server.received == []


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (None, "key hsm-7 gave NoneType, not bytes; nothing was sent"),
        ("x" * 64, "key hsm-7 gave str, not bytes; nothing was sent"),
        (RuntimeError("pin 4711"), "key hsm-7 raised RuntimeError; nothing was sent"),
    ],
)
def test_a_signer_that_fails_is_an_error_of_the_call(
    gives: Any, message: str, server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    class Device:
        kid, alg = "hsm-7", "ES256"

        def sign(self, message: bytes) -> bytes:
            if isinstance(gives, Exception):
                raise gives
            signature: bytes = gives
            return signature

    with pytest.raises(SigningFailed, match=message) as caught:
        make_client(signer=Device()).get_transfer("t")
    assert caught.value.__cause__ is (gives if isinstance(gives, Exception) else None)
    assert "4711" not in str(caught.value)
    assert caught.value.operation == "get_transfer"
    assert server.received == []


def test_a_signer_that_fails_later_does_not_say_that_nothing_was_sent(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    class Device:
        kid, alg, calls = "hsm-7", "ES256", 0

        def sign(self, message: bytes) -> bytes:
            self.calls += 1
            return bytes(64) if self.calls == 1 else b""

    server.script(scripted.reset)
    with pytest.raises(
        SigningFailed, match="an earlier one was: trying again with the same ref_id"
    ):
        make_client(signer=Device()).create_fiat_withdrawal(
            amount="1", fiat_account_id="f", profile_id="p", ref_id="r"
        )
    assert len(server.received) == 1
