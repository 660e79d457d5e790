"""Request signatures: a compact JWS over the exact bytes sent, and the keys for it (§5.2).

``request_signature`` signs the body that ``models.requests.body_bytes`` made and the target that
``calls.encoded_target`` made, as they are sent. A signer is three members, so that a key in an HSM
or a cloud KMS can sign as well as a PEM file.
"""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from fundlab.base.errors import SettingsError, SigningFailed
from fundlab.settings.secret import Secret, read_private

ALGORITHMS: Final = ("ES256", "EdDSA")
_COORDINATE_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_ES256 = ec.ECDSA(SHA256())
_LONGEST_PASSWORD: Final = 1023
"""In bytes, as OpenSSL accepts it."""


class Signer(Protocol):
    """Something that signs with a registered key.

    ``kid`` is the id under which the public key is registered, ``alg`` is ``ES256`` or ``EdDSA``.
    ``sign`` returns the 64 bytes of a JWS signature; devices that answer in DER: ``raw_signature``.
    """

    @property
    def kid(self) -> str: ...

    @property
    def alg(self) -> str: ...

    def sign(self, message: bytes) -> bytes: ...


def load_signer(path: Path, kid: str, password: Secret | None = None) -> Signer:
    """The signer of a PEM private key: EC on prime256v1 (ES256) or Ed25519 (EdDSA).

    Raises ``SettingsError`` when the file can be read by others, holds no such key, or needs
    another password.
    """
    return signer_of(read_private(path, "the signing key"), str(path), kid, password)


def signer_of(pem: bytes, name: str, kid: str, password: Secret | None = None) -> Signer:
    """The signer of a private key that is here as PEM; ``name`` is what errors call it. Raises as
    ``load_signer``."""
    secret = password.reveal().encode() if password else None
    problem = "is not a PEM private key of ES256 (prime256v1) or EdDSA (ed25519)"
    try:
        key = load_pem_private_key(pem, secret)
    except TypeError:
        problem = (
            "has no password; leave signing_key_password out"
            if password
            else "is encrypted; give signing_key_password (FUNDLAB_SIGNING_KEY_PASSWORD)"
        )
    except (ValueError, UnsupportedAlgorithm):
        if password:
            problem = "cannot be opened: the password is wrong, or it is not a PEM private key"
    else:
        if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
            return EcSigner(kid, key)
        if isinstance(key, ed25519.Ed25519PrivateKey):
            return EdSigner(kid, key)
    del pem, secret
    raise SettingsError(f"the signing key {name} {problem}")


@dataclass(frozen=True)
class EcSigner:
    """ES256 with a key in memory."""

    kid: str
    key: ec.EllipticCurvePrivateKey
    alg: str = "ES256"

    def sign(self, message: bytes) -> bytes:
        return raw_signature(self.key.sign(message, _ES256))


@dataclass(frozen=True)
class EdSigner:
    """EdDSA with an Ed25519 key in memory."""

    kid: str
    key: ed25519.Ed25519PrivateKey
    alg: str = "EdDSA"

    def sign(self, message: bytes) -> bytes:
        return self.key.sign(message)


def is_signed(signer: Signer, message: bytes, signature: bytes) -> bool:
    """Whether ``signer``, whose key is in memory, made this ``signature`` of ``message``."""
    if not isinstance(signer, EcSigner | EdSigner):
        raise SettingsError(f"the public key of {signer.kid!r} is not here to check with")
    try:
        if isinstance(signer, EdSigner):
            signer.key.public_key().verify(signature, message)
        else:
            r, s = (int.from_bytes(signature[n : n + _COORDINATE_BYTES], "big") for n in (0, 32))
            signer.key.public_key().verify(encode_dss_signature(r, s), message, _ES256)
    except InvalidSignature:
        return False
    return True


def raw_signature(der: bytes) -> bytes:
    """An ECDSA P-256 signature in DER as the 64 bytes that a JWS carries (RFC 7518 §3.4)."""
    r, s = decode_dss_signature(der)
    return r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")


def request_signature(
    signer: Signer, *, method: str, target: str, body: bytes, timestamp: int, prefix: str
) -> str:
    """The compact JWS of one request: ``target`` is the path and query as sent, ``body`` the bytes.

    A request without a body signs the empty payload. ``timestamp`` is in UNIX seconds.
    Raises ``SigningFailed`` when the signer gives no JWS signature.
    """
    header = {
        "alg": signer.alg,
        "kid": signer.kid,
        f"{prefix}timestamp": str(timestamp),
        f"{prefix}request-method": method,
        f"{prefix}request-path": target,
    }
    parts = [json.dumps(header, separators=(",", ":")).encode(), body]
    signing_input = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    try:
        signature: object = signer.sign(signing_input)
    except Exception as error:  # a device or a cloud service, with errors of its own
        raise SigningFailed(
            f"the signer of key {signer.kid} raised {type(error).__name__}"
        ) from error
    if not isinstance(signature, bytes):
        raise SigningFailed(
            f"the signer of key {signer.kid} gave {type(signature).__name__}, not bytes"
        )
    if len(signature) != _SIGNATURE_BYTES:
        raise SigningFailed(
            f"the signer of key {signer.kid} gave {len(signature)} bytes, not the "
            f"{_SIGNATURE_BYTES} of an {signer.alg} signature in a JWS; devices that answer in DER "
            "need fundlab.client.signing.raw_signature"
        )
    parts.append(signature)
    # Base64url without padding (RFC 7515 §2).
    return b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts).decode("ascii")


def new_key(alg: str, out: Path, password: Secret | None = None) -> str:
    """Write a new private key to ``out`` (PEM, mode 0600) and return the public key as PEM.

    ``alg`` is ``ES256`` or ``EdDSA``. Register the public key on the credential; the id it gets
    there is ``signing_key_id``. Raises ``SettingsError`` when ``out`` exists: nothing is ever
    overwritten, and where it cannot be written nothing is left behind.
    """
    content, public = key_pair(alg, password)
    try:
        stream = os.fdopen(os.open(out, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
    except FileExistsError:
        raise SettingsError(f"{out} exists and is not overwritten; choose another name") from None
    except OSError as error:
        raise SettingsError(f"{out} cannot be written: {error.strerror}") from None
    try:
        with stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException as error:
        out.unlink()
        if isinstance(error, OSError):
            raise SettingsError(f"{out} cannot be written: {error.strerror}") from None
        raise
    return public


def key_pair(alg: str, password: Secret | None = None) -> tuple[bytes, str]:
    """A new private key as PEM, encrypted where there is a ``password``, and its public key as
    PEM."""
    if alg not in ALGORITHMS:
        raise SettingsError(f"alg={alg!r} is not accepted; give {' or '.join(ALGORITHMS)}")
    encryption: KeySerializationEncryption = NoEncryption()
    if password is not None:
        # An error of the codec's would quote the password: surrogates are not text in UTF-8.
        usable = not any("\ud800" <= char <= "\udfff" for char in password.reveal())
        if not usable or not 0 < len(password.reveal().encode()) <= _LONGEST_PASSWORD:
            raise SettingsError(
                f"the password cannot be used: give up to {_LONGEST_PASSWORD} bytes of text in "
                "UTF-8"
            )
        encryption = BestAvailableEncryption(password.reveal().encode())
    key = (
        ec.generate_private_key(ec.SECP256R1())
        if alg == "ES256"
        else ed25519.Ed25519PrivateKey.generate()
    )
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption), public.decode("ascii")
