"""New key pairs for request signing (interface §5.2)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

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


def new_key(alg: str, out: Path, password: Secret | None = None) -> str:
    """Write a new private key to ``out`` (PEM, mode 0600) and return the public key as PEM.

    ``alg`` is ``ES256`` or ``EdDSA``. Register the public key on the credential; the id it gets
    there is ``signing_key_id``. Raises ``SettingsError`` when ``out`` exists: nothing is ever
    overwritten.
    """
    if alg not in ALGORITHMS:
        raise SettingsError(f"alg={alg!r} is not accepted; give {' or '.join(ALGORITHMS)}")
    encryption: KeySerializationEncryption = NoEncryption()
    if password is not None:
        encryption = BestAvailableEncryption(password.reveal().encode())
    key = (
        ec.generate_private_key(ec.SECP256R1())
        if alg == "ES256"
        else ed25519.Ed25519PrivateKey.generate()
    )
    with _new_private_file(out) as stream:
        stream.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        stream.flush()
        os.fsync(stream.fileno())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return public.decode("ascii")


def _new_private_file(path: Path) -> BinaryIO:
    try:
        return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
    except FileExistsError:
        raise SettingsError(f"{path} exists and is not overwritten; choose another name") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None
