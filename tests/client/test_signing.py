from __future__ import annotations

import json
import os
import subprocess
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from joserfc import jws as joserfc_jws
from joserfc.jwk import import_key
from jwcrypto import jwk
from jwcrypto import jws as jwcrypto_jws

from fundlab.base.errors import SettingsError, SigningFailed
from fundlab.client.signing import (
    EcSigner,
    EdSigner,
    is_signed,
    key_pair,
    load_signer,
    new_key,
    raw_signature,
    request_signature,
    signer_of,
)
from fundlab.settings.secret import Secret


def decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def number(part: str) -> int:
    return int.from_bytes(decoded(part), "big")


def private_pem(key: Any, password: bytes | None = None, form: Any = PrivateFormat.PKCS8) -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    pem: bytes = key.private_bytes(Encoding.PEM, form, encryption)
    return pem


def written(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


# --------------------------------------------------------------------------- published vectors


def test_rfc_7515_a3_es256_signature_and_ours_verify_with_the_published_key() -> None:
    x = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
    y = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
    d = "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"
    signing_input = (
        b"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGF"
        b"tcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    )
    published = decoded(
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    )
    key = ec.EllipticCurvePrivateNumbers(
        number(d), ec.EllipticCurvePublicNumbers(number(x), number(y), ec.SECP256R1())
    ).private_key()
    r, s = int.from_bytes(published[:32], "big"), int.from_bytes(published[32:], "big")
    der = encode_dss_signature(r, s)
    key.public_key().verify(der, signing_input, ec.ECDSA(SHA256()))
    assert raw_signature(der) == published

    ours = EcSigner("k", key).sign(signing_input)
    assert len(ours) == 64
    again = encode_dss_signature(int.from_bytes(ours[:32], "big"), int.from_bytes(ours[32:], "big"))
    key.public_key().verify(again, signing_input, ec.ECDSA(SHA256()))


def test_rfc_8037_a4_ed25519_signature_to_the_byte() -> None:
    key = ed25519.Ed25519PrivateKey.from_private_bytes(
        decoded("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
    )
    signing_input = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
    assert EdSigner("k", key).sign(signing_input) == decoded(
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    )


def test_a_short_r_is_padded_to_32_bytes() -> None:
    assert raw_signature(encode_dss_signature(1, 2)) == b"\0" * 31 + b"\1" + b"\0" * 31 + b"\2"


# --------------------------------------------------------------------------- the request's JWS


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # the interface names it so
@pytest.mark.parametrize("alg", ["ES256", "EdDSA"])
def test_header_and_payload_are_the_interfaces(alg: str, tmp_path: Path) -> None:
    public = new_key(alg, tmp_path / "key.pem")
    signer = load_signer(tmp_path / "key.pem", "key-1")
    signed = request_signature(
        signer,
        method="POST",
        target="/v2/x?a=%2F",
        body='{"é":1}'.encode(),
        timestamp=1760000000,
        prefix="service/",
    )
    header, payload, _ = signed.split(".")
    assert json.loads(decoded(header)) == {
        "alg": alg,
        "kid": "key-1",
        "service/timestamp": "1760000000",
        "service/request-method": "POST",
        "service/request-path": "/v2/x?a=%2F",
    }
    assert decoded(payload) == '{"é":1}'.encode()
    assert "=" not in signed
    registry = joserfc_jws.JWSRegistry(
        header_registry={}, algorithms=[alg], strict_check_header=False
    )
    kind = "EC" if alg == "ES256" else "OKP"
    joserfc_jws.deserialize_compact(signed, import_key(public, kind), registry=registry)
    token = jwcrypto_jws.JWS()
    token.allowed_algs = [alg]
    token.deserialize(signed)
    token.verify(jwk.JWK.from_pem(public.encode()))
    assert token.payload == '{"é":1}'.encode()


def test_a_request_without_a_body_signs_the_empty_payload(tmp_path: Path) -> None:
    new_key("EdDSA", tmp_path / "key.pem")
    signed = request_signature(
        load_signer(tmp_path / "key.pem", "k"),
        method="GET", target="/", body=b"", timestamp=1, prefix="brand-",
    )  # fmt: skip
    header, payload, _ = signed.split(".")
    assert payload == ""
    assert set(json.loads(decoded(header))) >= {"brand-timestamp", "brand-request-path"}


@pytest.mark.parametrize("part", [0, 1])
def test_one_changed_byte_breaks_the_signature(part: int, tmp_path: Path) -> None:
    public = new_key("ES256", tmp_path / "key.pem")
    signed = request_signature(
        load_signer(tmp_path / "key.pem", "k"),
        method="POST", target="/v2/x", body=b"{}", timestamp=1, prefix="service/",
    )  # fmt: skip
    parts = signed.split(".")
    content = bytearray(decoded(parts[part]))
    content[-2] ^= 1
    parts[part] = urlsafe_b64encode(bytes(content)).decode().rstrip("=")
    raw = decoded(parts[2])
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key: Any = jwk.JWK.from_pem(public.encode()).get_op_key("verify")
    with pytest.raises(InvalidSignature):
        key.verify(der, ".".join(parts[:2]).encode(), ec.ECDSA(SHA256()))


# --------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    "form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL], ids=["pkcs8", "sec1"]
)
@pytest.mark.parametrize("password", [None, "öffne dich"])
def test_ec_keys_in_every_pem_form(tmp_path: Path, form: Any, password: str | None) -> None:
    pem = private_pem(
        ec.generate_private_key(ec.SECP256R1()), password.encode() if password else None, form
    )
    signer = load_signer(
        written(tmp_path / "k", pem), "kid", Secret(password) if password else None
    )
    assert (signer.kid, signer.alg) == ("kid", "ES256")


def test_keys_made_by_openssl_are_read(tmp_path: Path) -> None:
    for name, how in (
        ("ES256", ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1"]),
        ("EdDSA", ["genpkey", "-algorithm", "ed25519"]),
    ):
        path = tmp_path / name
        subprocess.run(["openssl", *how, "-out", str(path)], check=True, capture_output=True)
        path.chmod(0o600)
        assert load_signer(path, "k").alg == name


@pytest.mark.parametrize(
    ("content", "password", "message"),
    [
        (private_pem(ec.generate_private_key(ec.SECP384R1())), None, "is not a PEM private key of"),
        (private_pem(rsa.generate_private_key(65537, 2048)), None, "is not a PEM private key of"),
        (b"nonsense", None, "is not a PEM private key of"),
        (private_pem(ed25519.Ed25519PrivateKey.generate(), b"pw"), None, "is encrypted; give sig"),
        (private_pem(ed25519.Ed25519PrivateKey.generate(), b"pw"), "no", "the password is wrong"),
        (private_pem(ed25519.Ed25519PrivateKey.generate()), "pw", "has no password; leave"),
    ],
    ids=["another curve", "RSA", "nonsense", "encrypted", "wrong password", "needless password"],
)
def test_a_key_that_cannot_sign_is_refused_with_what_to_do(
    tmp_path: Path, content: bytes, password: str | None, message: str
) -> None:
    path = written(tmp_path / "key.pem", content)
    with pytest.raises(SettingsError, match=message) as caught:
        load_signer(path, "k", Secret(password) if password else None)
    assert caught.value.__context__ is None


def test_a_key_others_can_read_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "k", private_pem(ed25519.Ed25519PrivateKey.generate()), 0o640)
    with pytest.raises(SettingsError, match=r"mode 640\); run: chmod 600"):
        load_signer(path, "k")


@pytest.mark.parametrize("alg", ["ES256", "EdDSA"])
def test_new_keys_are_private_and_never_overwrite(tmp_path: Path, alg: str) -> None:
    path = tmp_path / "key.pem"
    public = new_key(alg, path)
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="exists and is not overwritten"):
        new_key(alg, path)
    assert path.read_bytes() == before
    signer: Any = load_signer(path, "k")
    of_file = signer.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert public == of_file.decode()


def test_new_keys_follow_no_link_and_know_two_algorithms(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(SettingsError, match="exists"):
        new_key("ES256", tmp_path / "link")
    assert not (tmp_path / "target").exists()
    with pytest.raises(SettingsError, match="alg='RS256' is not accepted; give ES256 or EdDSA"):
        new_key("RS256", tmp_path / "rsa.pem")
    assert not (tmp_path / "rsa.pem").exists()


def test_new_keys_can_be_encrypted(tmp_path: Path) -> None:
    new_key("EdDSA", tmp_path / "k", Secret("pw"))
    assert b"ENCRYPTED" in (tmp_path / "k").read_bytes()
    assert load_signer(tmp_path / "k", "k", Secret("pw")).alg == "EdDSA"


# ------------------------------------------------------------------------ signers of other places


class Device:
    """A signer elsewhere, which gives ``given`` or raises it."""

    kid, alg = "key-1", "ES256"

    def __init__(self, given: Any) -> None:
        self.given = given

    def sign(self, message: bytes) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (b"x" * 64, None), (b"x" * 63, "gave 63 bytes, not the 64 of an ES256 signature"),
        (b"x" * 65, "gave 65 bytes, not the 64"), ("x" * 64, "gave str, not bytes"),
        (OSError("gone"), "the signer of key key-1 raised OSError$"),
    ],
)  # fmt: skip
def test_what_a_device_gives_is_a_signature_or_named(given: Any, told: str | None) -> None:
    asked: dict[str, Any] = {"method": "GET", "target": "/", "body": b"", "timestamp": 1}
    if told is None:
        signed = request_signature(Device(given), **asked, prefix="")
        assert decoded(signed.split(".")[2]) == given
        return
    with pytest.raises(SigningFailed, match=told) as refused:
        request_signature(Device(given), **asked, prefix="")
    assert isinstance(refused.value.__cause__, OSError) == isinstance(given, OSError)


@pytest.mark.parametrize("alg", ["ES256", "EdDSA"])
def test_a_signature_is_checked_against_its_message_and_its_key(alg: str) -> None:
    signer, other = (signer_of(key_pair(alg)[0], "key", "k") for _ in "ab")
    signature = signer.sign(b"message")
    assert is_signed(signer, b"message", signature)
    assert not is_signed(signer, b"messagf", signature)
    assert not is_signed(other, b"message", signature)
    # Each half of it counts.
    for place in (0, 31, 32, 63):
        changed = bytearray(signature)
        changed[place] ^= 1
        assert not is_signed(signer, b"message", bytes(changed))
    with pytest.raises(SettingsError, match="the public key of 'key-1' is not here to check with"):
        is_signed(Device(b""), b"message", signature)


@pytest.mark.parametrize(
    ("password", "accepted"),
    [("p" * 1023, True), ("p" * 1024, False), ("é" * 512, False), ("p", True), ("", False),
     ("\ud800p", False), ("p\udfff", False), ("\ud7ff\ue000", True)],
)  # fmt: skip
def test_a_password_is_one_that_openssl_takes(password: str, accepted: bool) -> None:
    secret = Secret(password)
    if accepted:
        pem, _ = key_pair("EdDSA", secret)
        assert signer_of(pem, "key", "k", secret).alg == "EdDSA"
        return
    with pytest.raises(SettingsError, match="cannot be used: give up to 1023 bytes of text") as no:
        key_pair("EdDSA", secret)
    assert no.value.__context__ is None


def test_a_new_key_is_on_the_disk_or_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, sizes = tmp_path / "key.pem", []
    monkeypatch.setattr("os.fsync", lambda handle: sizes.append(os.fstat(handle).st_size))
    new_key("EdDSA", out)
    assert sizes == [out.stat().st_size]
    with pytest.raises(SettingsError, match="cannot be written: No such file or directory"):
        new_key("EdDSA", tmp_path / "none" / "key.pem")
    for error, kind, told in (
        (OSError(28, "No space left on device"), SettingsError, "cannot be written: No space left"),
        (KeyboardInterrupt("now"), KeyboardInterrupt, "now"),
    ):  # fmt: skip
        monkeypatch.setattr("os.fsync", lambda handle, error=error: (_ for _ in ()).throw(error))
        with pytest.raises(kind, match=told):
            new_key("EdDSA", tmp_path / "other.pem")
        assert not (tmp_path / "other.pem").exists()
