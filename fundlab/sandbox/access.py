"""Who may call: credentials and their scopes, tokens (§5.1), request signatures (§5.2)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from fundlab.base.errors import SandboxError
from fundlab.models import SCOPES, SIGNATURE_LIFETIME_S, TOKEN_LIFETIME_S
from fundlab.sandbox.clock import AccessClock
from fundlab.sandbox.database import Database
from fundlab.sandbox.reading import read_json_object
from fundlab.sandbox.refusals import Refusal, TokenRefusal, scope_missing, unauthorized

SIGNING_ALGORITHMS: Final = ("ES256", "EdDSA")
SIGNATURE_AHEAD_S: Final = 5 * 60

_TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


@dataclass(frozen=True)
class Caller:
    """Who a credential or a token stands for."""

    client_id: str
    customer_id: str
    scopes: tuple[str, ...]
    signing: bool


@dataclass(frozen=True)
class Credential(Caller):
    """One API credential. The secret is the sandbox's own and masked in ``repr``."""

    client_secret: str = field(repr=False)


class Access:
    """Credentials, tokens and keys in the database, checked against real time."""

    def __init__(
        self,
        database: Database,
        clock: AccessClock,
        *,
        signature_prefix: str = "service/",
        random_text: Callable[[int], str] = secrets.token_urlsafe,
    ) -> None:
        self._database, self._clock = database, clock
        self._prefix, self._random_text = signature_prefix, random_text

    # ------------------------------------------------------------------ credentials and keys

    def add_credential(
        self,
        client_id: str,
        customer_id: str,
        scopes: Iterable[str],
        *,
        signing: bool = False,
        secret: str | None = None,
    ) -> Credential:
        """A new credential with ``secret`` or a fresh one. Raises ``SandboxError`` for unknown
        scopes."""
        granted = _known_scopes(scopes)
        if self._database.one("SELECT 1 FROM credentials WHERE client_id = ?", client_id):
            raise SandboxError(f"client_id {client_id!r} exists already")
        secret = secret or self._random_text(32)
        self._database.insert(
            "credentials", client_id=client_id, customer_id=customer_id, secret=secret,
            scopes=" ".join(granted), signing=int(signing),
        )  # fmt: skip
        return Credential(client_id, customer_id, granted, signing, secret)

    def credential(self, client_id: str) -> Credential | None:
        row = self._database.one(
            "SELECT customer_id, scopes, signing, secret FROM credentials WHERE client_id = ?",
            client_id,
        )
        if row is None:
            return None
        return Credential(client_id, row[0], tuple(row[1].split()), bool(row[2]), row[3])

    def rotate(self, client_id: str, secret: str | None = None) -> Credential:
        """A new secret, or ``secret``; the client id and the signing keys stay (§5.2.7)."""
        self._must_exist(client_id)
        secret = secret or self._random_text(32)
        self._database.run(
            "UPDATE credentials SET secret = ? WHERE client_id = ?", secret, client_id
        )
        return self._must_exist(client_id)

    def grant(self, client_id: str, scopes: Iterable[str]) -> None:
        """Exactly these scopes from now on."""
        granted = _known_scopes(scopes)
        self._database.run(
            "UPDATE credentials SET scopes = ? WHERE client_id = ?", " ".join(granted), client_id
        )

    def require_signing(self, client_id: str, *, signing: bool) -> None:
        self._must_exist(client_id)
        self._database.run(
            "UPDATE credentials SET signing = ? WHERE client_id = ?", int(signing), client_id
        )

    def add_key(
        self, client_id: str, kid: str, public_pem: bytes, private_pem: bytes | None = None
    ) -> str:
        """Register a public key; returns its algorithm. Usable at once (§5.2.2)."""
        self._must_exist(client_id)
        algorithm, _ = load_public_key(public_pem)
        if self._database.one("SELECT 1 FROM signing_keys WHERE kid = ?", kid):
            raise SandboxError(f"key id {kid!r} exists already")
        self._database.insert(
            "signing_keys", kid=kid, client_id=client_id, alg=algorithm, public_key=public_pem,
            private_key=private_pem,
        )  # fmt: skip
        return algorithm

    def replace_key(self, client_id: str, kid: str, public_pem: bytes) -> None:
        """Register a public key under a key id that the same credential may have used before."""
        self._database.run(
            "DELETE FROM signing_keys WHERE kid = ? AND client_id = ?", kid, client_id
        )
        self.add_key(client_id, kid, public_pem)

    def _must_exist(self, client_id: str) -> Credential:
        credential = self.credential(client_id)
        if credential is None:
            raise SandboxError(f"no credential {client_id!r}")
        return credential

    # ------------------------------------------------------------------ tokens

    def issue_token(self, form: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """The token endpoint. Raises ``TokenRefusal``."""
        fields = {"grant_type": "", "client_id": "", "client_secret": "", "scope": ""}
        seen: set[str] = set()
        for name, value in form:
            if name in seen:
                raise TokenRefusal(400, "invalid_request", "a form field is repeated")
            seen.add(name)
            if name in fields:
                fields[name] = value
        if not fields["grant_type"]:
            raise TokenRefusal(400, "invalid_request", "grant_type is missing")
        if fields["grant_type"] != "client_credentials":
            raise TokenRefusal(
                400, "unsupported_grant_type", "grant_type must be client_credentials"
            )
        for name in ("client_id", "client_secret"):
            if not fields[name]:
                raise TokenRefusal(400, "invalid_request", f"{name} is missing")
        credential = self.credential(fields["client_id"])
        given = fields["client_secret"].encode()
        expected = credential.client_secret if credential else ""
        if credential is None or not hmac.compare_digest(given, expected.encode()):
            raise TokenRefusal(401, "invalid_client", "unknown client_id or wrong client_secret")
        wanted = fields["scope"].split(" ") if fields["scope"] else list(credential.scopes)
        scopes = sorted({scope for scope in wanted if scope})
        if missing := [scope for scope in scopes if scope not in credential.scopes]:
            names = ", ".join(ascii(scope)[1:-1] for scope in missing[:20])
            raise TokenRefusal(400, "invalid_scope", f"not granted to this credential: {names}")
        token = self._random_text(32)
        now = self._clock.now_s()
        with self._database.transaction():
            self._database.run("DELETE FROM tokens WHERE expires_s < ?", now - TOKEN_LIFETIME_S)
            self._database.insert(
                "tokens", digest=_digest(token), client_id=credential.client_id,
                scopes=" ".join(scopes), expires_s=now + TOKEN_LIFETIME_S,
            )  # fmt: skip
        return {
            "access_token": token,
            "expires_in": TOKEN_LIFETIME_S,
            "scope": " ".join(scopes),
            "token_type": "bearer",
        }

    def identify(self, authorization: Sequence[bytes]) -> Caller:
        """The caller behind the ``Authorization`` header(s). Raises a 401 ``Refusal``."""
        if len(authorization) != 1:
            raise unauthorized("exactly one Authorization header is needed: Bearer <token>")
        kind, _, token = authorization[0].decode("latin-1").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise unauthorized("the Authorization header must read: Bearer <token>")
        row = self._database.one(
            "SELECT t.client_id, c.customer_id, t.scopes, c.signing, t.expires_s "
            "FROM tokens t JOIN credentials c USING (client_id) WHERE t.digest = ?",
            _digest(token),
        )
        if row is None:
            raise unauthorized("unknown token")
        client_id, customer_id, scopes, signing, expires_s = row
        if self._clock.now_s() >= expires_s:
            raise unauthorized("the token has expired")
        return Caller(client_id, customer_id, tuple(scopes.split()), bool(signing))

    def revoke_tokens(self) -> None:
        """Let every token expire at once."""
        self._database.run("UPDATE tokens SET expires_s = 0")

    def check_scope(self, caller: Caller, needed: str) -> None:
        if needed not in caller.scopes:
            raise scope_missing(needed, list(caller.scopes))

    # ------------------------------------------------------------------ signatures

    def check_signature(
        self, caller: Caller, signatures: Sequence[bytes], method: str, target: bytes, body: bytes
    ) -> None:
        """Check the signature header(s) of a request, which cover the rest of it exactly as it
        arrived. Raises a 401 ``Refusal``.

        A credential that does not require signing may leave it out; a signature that is there is
        checked all the same once the credential has a key.
        """
        has_keys = self._database.one(
            "SELECT 1 FROM signing_keys WHERE client_id = ?", caller.client_id
        )
        if not caller.signing and (not signatures or not has_keys):
            return
        if not signatures:
            raise unauthorized("the request is not signed, and this credential requires it")
        if len(signatures) > 1:
            raise unauthorized("more than one signature header")
        self._verify(caller.client_id, signatures[0], method, target, body)

    def _verify(
        self, client_id: str, compact: bytes, method: str, target: bytes, body: bytes
    ) -> None:
        from jwt.algorithms import get_default_algorithms  # which loads X.509 and urllib

        header, signed, signature, payload = _split(compact)
        kid, alg = header.get("kid"), header.get("alg")
        if "crit" in header or "b64" in header:
            raise unauthorized("signature: no critical members are understood")
        if not isinstance(kid, str) or alg not in SIGNING_ALGORITHMS:
            raise unauthorized("signature: kid must name a key, alg must be ES256 or EdDSA")
        row = self._database.one(
            "SELECT alg, public_key FROM signing_keys WHERE kid = ? AND client_id = ?",
            kid, client_id,
        )  # fmt: skip
        if row is None:
            raise unauthorized("signature: unknown key id for this credential")
        if row[0] != alg:
            raise unauthorized(f"signature: this key signs {row[0]}, not {alg}")
        named = header.get(f"{self._prefix}request-method")
        path = header.get(f"{self._prefix}request-path")
        timestamp = header.get(f"{self._prefix}timestamp")
        if named != method:
            raise unauthorized(f"signature: {self._prefix}request-method is not {method}")
        if not isinstance(path, str) or path.encode() != target:
            unseen = "; an empty query, a lone ?, is not seen here" * str(path).endswith("?")
            raise unauthorized(
                f"signature: {self._prefix}request-path is not the path as sent{unseen}"
            )
        if not isinstance(timestamp, str) or _TIMESTAMP.fullmatch(timestamp) is None:
            raise unauthorized(f"signature: {self._prefix}timestamp is not UNIX seconds as text")
        age = self._clock.now_s() - int(timestamp)
        if not -SIGNATURE_AHEAD_S <= age <= SIGNATURE_LIFETIME_S:
            raise unauthorized(
                f"signature: its timestamp is {age:.0f} s old; accepted from "
                f"-{SIGNATURE_AHEAD_S} to {SIGNATURE_LIFETIME_S}"
            )
        if not hmac.compare_digest(payload, _encode(body)):
            raise unauthorized("signature: the payload is not the exact bytes of the body")
        _, key = load_public_key(row[1])
        if not get_default_algorithms()[alg].verify(signed, key, signature):
            raise unauthorized("signature: it does not verify")


def load_public_key(pem: bytes) -> tuple[str, PublicKey]:
    """Algorithm and key of a public PEM. Raises ``SandboxError`` for other kinds of keys."""
    key: object = None
    with suppress(ValueError, UnsupportedAlgorithm):
        key = serialization.load_pem_public_key(pem)
    if isinstance(key, ed25519.Ed25519PublicKey):
        return "EdDSA", key
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return "ES256", key
    raise SandboxError(
        "a signing key is one of ES256 (curve prime256v1) or EdDSA (ed25519) in PEM; 'fundlab keys "
        "new' makes one"
    )


def _known_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes in order, each once. Raises ``SandboxError`` for unknown ones."""
    granted = tuple(sorted(set(scopes)))
    if unknown := set(granted) - set(SCOPES):
        raise SandboxError(f"unknown scopes {sorted(unknown)}; known: {', '.join(SCOPES)}")
    return granted


def public_pem(pem: bytes) -> bytes:
    """The public half of a key in PEM, private or public, as PEM. Raises ``SandboxError``."""
    try:
        key = serialization.load_pem_private_key(pem, None)
    except TypeError:
        raise SandboxError("it has a password; give one without") from None
    except (ValueError, UnsupportedAlgorithm):
        load_public_key(pem)
        return pem
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _split(compact: bytes) -> tuple[dict[str, Any], bytes, bytes, bytes]:
    """Header, signed bytes, signature and encoded payload of a compact JWS."""
    if compact.count(b".") != 2:
        raise unauthorized("signature: not a compact JWS of three parts")
    head, payload, tail = compact.split(b".")
    try:
        header = read_json_object(_decode(head))
        signature = _decode(tail)
    except (ValueError, Refusal):
        raise unauthorized("signature: malformed JWS") from None
    return header, head + b"." + payload, signature, payload


def _decode(part: bytes) -> bytes:
    """Base64url without padding and without stray bits; anything else is ``ValueError``."""
    text = part.decode("ascii")
    if _BASE64URL.fullmatch(text) is None:
        raise ValueError("not base64url")
    try:
        decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError("not base64url") from error
    if _encode(decoded) != part:
        raise ValueError("not canonical base64url")
    return decoded


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
