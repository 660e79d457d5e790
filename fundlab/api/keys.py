"""New key pairs for request signing (interface §5.2)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from fundlab.api.signing import ALGORITHMS
from fundlab.errors import SettingsError
from fundlab.secret import Secret

_LONGEST_PASSWORD: Final = 1023
"""In bytes, as OpenSSL accepts it."""


def new_key(alg: str, out: Path, password: Secret | None = None) -> str:
    """Write a new private key to ``out`` (PEM, mode 0600) and return the public key as PEM.

    ``alg`` is ``ES256`` or ``EdDSA``. Register the public key on the credential; the id it gets
    there is ``signing_key_id``. Raises ``SettingsError`` when ``out`` exists: nothing is ever
    overwritten, and where it cannot be written nothing is left behind.
    """
    if alg not in ALGORITHMS:
        raise SettingsError(f"alg={alg!r} is not accepted; give {' or '.join(ALGORITHMS)}")
    encryption: KeySerializationEncryption = NoEncryption()
    if password is not None:
        encryption = BestAvailableEncryption(_password_bytes(password))
    key = (
        ec.generate_private_key(ec.SECP256R1())
        if alg == "ES256"
        else ed25519.Ed25519PrivateKey.generate()
    )
    _write_private(out, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return public.decode("ascii")


def _password_bytes(password: Secret) -> bytes:
    """Raises no error of the codec's: that would quote the password."""
    text = password.reveal()
    usable = not any("\ud800" <= char <= "\udfff" for char in text)  # not text in UTF-8
    if usable and 0 < len(text.encode()) <= _LONGEST_PASSWORD:
        return text.encode()
    raise SettingsError(
        f"the password cannot be used: give up to {_LONGEST_PASSWORD} bytes of text in UTF-8"
    )


def _write_private(path: Path, content: bytes) -> None:
    try:
        stream = os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
    except FileExistsError:
        raise SettingsError(f"{path} exists and is not overwritten; choose another name") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None
    try:
        with stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException as error:
        path.unlink()
        if isinstance(error, OSError):
            raise SettingsError(f"{path} cannot be written: {error.strerror}") from None
        raise
