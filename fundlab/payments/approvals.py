"""Approvals: a payment goes out once other people than who asked for it have looked and signed.

A *request* is a file with the exact bytes that are to be sent, who asks, why, until when, of which
environment, and what was seen when it was planned; it holds no secret and no account number. An
*approval* is a file beside it: an Ed25519 signature over every byte of the request, who signs, when
and the confirmation code of each payment, which stands for the account as the approver saw it. The
public keys of the people are records of the store. A payment that needs approvals is sent only with
enough that hold: of different people who may approve, not of who asked, before the request expires,
for these very bytes in this environment; and once, as its ``ref_id`` is in the bytes.

What that proves: the owners of the keys signed. Who can read a key without its password, or write
the store's records and this machine's settings, can approve alone.
"""

from __future__ import annotations

import base64
import getpass
import glob
import hashlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from fundlab.base.errors import (
    ActionRefused,
    InvalidRequest,
    OutputError,
    SettingsError,
    printable,
    reason_of,
)
from fundlab.base.values import Instant
from fundlab.client.signing import EdSigner
from fundlab.evidence.table_store import TableStore
from fundlab.models.requests import CreateFiatWithdrawal
from fundlab.payments.identity import DAY, shown_time
from fundlab.store.manifests import canonical
from fundlab.store.records import check_texts

if TYPE_CHECKING:
    from fundlab.payments.plan import Plan

Role = Literal["approver", "maker"]
ROLES: Final = ("approver", "maker")
REQUEST_EXPIRES_AFTER: Final = DAY
_FORMAT: Final = "fundlab payment request 1"
_SIGNED_AS: Final = b"fundlab approval 1"
_LARGEST: Final = 1 << 24  # some 10,000 payments with their cards
_LONGEST: Final = 366 * DAY
_ASKED: Final = {*CreateFiatWithdrawal.model_fields}
"""What a body may hold: what a withdrawal is planned by."""
_MEMBERS: Final = {
    "format": str, "base_url": str, "client_id": str, "bodies": list, "allow_duplicate": bool,
    "by": str, "why": str, "asked_at": str, "expires_at": str, "saw": list,
}  # fmt: skip


def user_name() -> str:
    """Who asks, unless a name is given: the user of the operating system."""
    return getpass.getuser()


@dataclass(frozen=True, repr=False)
class PaymentRequest:
    """What is asked for: ``content`` is every byte of its file, which approvals are signatures of.

    ``bodies`` are the bytes to be sent, one text for each payment; ``saw`` the cards as they were
    planned, lines of text; empty where nothing was looked at.
    """

    content: bytes
    path: Path

    @cached_property
    def said(self) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", json.loads(self.content))

    @property
    def bodies(self) -> list[str]:
        return list(self.said["bodies"])

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """What each payment was planned with."""
        return [dict(json.loads(body)) for body in self.bodies]

    @property
    def by(self) -> str:
        return str(self.said["by"])

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def command(self) -> str:
        """What others run to approve it, as a shell takes it."""
        return shlex.join(["fundlab", "approve", str(self.path)])

    def check_time(self, now: int) -> None:
        """Refuses a request that has expired, or is of a time that is yet to come."""
        asked_at, expires_at = (Instant.parse(self.said[n]).ns for n in ("asked_at", "expires_at"))
        if not asked_at <= now < expires_at:
            raise _refused(
                f"{self.path} holds from {shown_time(asked_at, now)} to "
                f"{shown_time(expires_at, now)}; nothing was sent: plan and request it again"
            )

    def check_environment(self, base_url: str, client_id: str) -> None:
        """Refuses a request of another service or credential."""
        for name, ours in (("base_url", base_url), ("client_id", client_id)):
            if self.said[name] != ours:
                raise _refused(
                    f"{self.path} is for {name}={printable(self.said[name])!r}, not {ours!r}; "
                    "nothing was sent: use the profile of config.toml that it was made with"
                )


def make_request(
    path: Path,
    bodies: Sequence[str],
    *,
    base_url: str,
    client_id: str,
    why: str | None,
    now: int,
    by: str | None = None,
    saw: Sequence[str] = (),
    allow_duplicate: bool = False,
    expires_after: int = REQUEST_EXPIRES_AFTER,
) -> PaymentRequest:
    """Write the request to ``path``, which is never overwritten; times in ns. Raises
    ``OutputError`` where it cannot be written, ``InvalidRequest`` for what ``read_request`` would
    not take."""
    check_texts(why=why, by=by)
    whole = isinstance(expires_after, int) and not isinstance(expires_after, bool)
    if not whole or not 0 < expires_after <= _LONGEST:
        raise InvalidRequest(
            f"expires_after={expires_after!r} is not accepted; give nanoseconds, above 0 and at "
            f"most {_LONGEST:,}, which is a year; nothing was written"
        )
    asked_at, expires_at = (str(Instant.from_ns(ns)) for ns in (now, now + expires_after))
    content = canonical({
        "format": _FORMAT, "base_url": base_url, "client_id": client_id, "bodies": list(bodies),
        "allow_duplicate": allow_duplicate, "by": by or user_name(), "why": why or "",
        "asked_at": asked_at, "expires_at": expires_at,
        "saw": list(saw),
    })  # fmt: skip
    if len(content) > _LARGEST:
        raise InvalidRequest(
            f"the request has {len(content):,} bytes, at most {_LARGEST:,} can be approved; "
            "nothing was written: make smaller batches"
        )
    _write_new(path, content)
    return PaymentRequest(content, path)


def read_request(path: Path) -> PaymentRequest:
    """The request in the file ``path``. Raises ``ActionRefused`` for what is not one, byte for byte
    as it was written."""
    content = _read(path)
    try:
        said = json.loads(content)
        sound = (
            canonical(said) == content  # no member twice, nothing that a reader would not see
            and {name: type(value) for name, value in said.items()} == _MEMBERS
            and said["format"] == _FORMAT
            and said["bodies"]
            and all(
                isinstance(body, dict) and body.keys() <= _ASKED
                for body in map(json.loads, said["bodies"])
            )
            and all(isinstance(line, str) for line in said["saw"])
        )
        for name in ("asked_at", "expires_at"):
            Instant.parse(said[name])
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        sound = False
    if not sound:
        raise _refused(
            f"{path} is not a request for a payment as it was written; nothing was sent: ask for "
            "the file again"
        )
    return PaymentRequest(content, path)


# ------------------------------------------------------------------------------ people


@dataclass(frozen=True)
class Person:
    """Somebody with a key: ``role`` is ``approver``, or ``maker`` who may only ask. ``key`` is the
    public key, 64 hexadecimal digits."""

    name: str
    role: Role
    key: str
    at: str
    by: str | None


def people(store: TableStore) -> dict[str, Person]:
    """Who has a key in the records of ``store``, by name in small letters; those removed are
    left out."""
    known: dict[str, Person] = {}
    for record in store.records():
        if record.kind == "person":
            said = record.content
            if said["key"] is None:
                known.pop(said["name"].casefold(), None)
            else:
                known[said["name"].casefold()] = Person(
                    said["name"], said["role"], said["key"], record.at, said["by"]
                )
    return known


def add_person(
    store: TableStore, name: str, public_key: Path, role: Role = "approver", by: str | None = None
) -> Person:
    """Record that ``name`` signs with the key whose public half (PEM, Ed25519) is in
    ``public_key``. Raises ``InvalidRequest`` for another kind of key, a name that is there, or a
    key of somebody else's."""
    if not (name.strip() and name.isprintable() and len(name) <= 100):
        raise InvalidRequest(f"{name!r} is not a valid name; give 1 to 100 printable characters")
    check_texts(by=by)
    if role not in ROLES:
        raise InvalidRequest(f"role={role!r} is not accepted; give {' or '.join(ROLES)}")
    try:
        key = load_pem_public_key(_read(public_key, "recorded"))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidRequest(
            f"{public_key} is not a public key of Ed25519 in PEM; 'fundlab keys new --alg EdDSA' "
            "prints one"
        )
    shown = key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    with store.lock() as check_held:
        known = people(store)
        if name.casefold() in known:
            raise InvalidRequest(f"{name!r} has a key; 'fundlab approvers remove' takes it away")
        owner = next((person.name for person in known.values() if person.key == shown), None)
        if owner is not None:
            raise InvalidRequest(f"this is the key of {owner!r}: each person needs an own one")
        said = {"name": name, "role": role, "key": shown, "by": by or user_name()}
        made = store.record("person", said, check_held)
    return Person(name, role, shown, made.at, said["by"])


def remove_person(store: TableStore, name: str, by: str | None = None) -> None:
    """Record that what ``name`` signs does not count from now on, or was signed before."""
    check_texts(by=by)
    with store.lock() as check_held:
        if name.casefold() not in people(store):
            raise InvalidRequest(f"{name!r} has no key here; 'fundlab approvers list' says who has")
        said = {"name": name, "role": None, "key": None, "by": by or user_name()}
        store.record("person", said, check_held)


# ------------------------------------------------------------------------------ signing


def approve(
    request: PaymentRequest, plans: Sequence[Plan[Any]], name: str, signer: EdSigner, now: int
) -> Path:
    """Sign ``request`` as ``name``, who saw ``plans``; the file of the approval, beside it."""
    said = {
        "by": name, "at": str(Instant.from_ns(now)),
        "codes": {plan.ref_id: plan.code for plan in plans},
    }  # fmt: skip
    signature = base64.b64encode(signer.sign(_message(request, said))).decode()
    content = canonical({"said": said, "signature": signature})
    path = request.path.with_name(
        f"{request.path.stem}.approved-{hashlib.sha256(content).hexdigest()[:12]}.json"
    )
    _write_new(path, content)
    return path


@dataclass(frozen=True)
class Approved:
    """Whose approvals hold for a request, and why each of the ``problems`` does not."""

    request: PaymentRequest
    names: tuple[str, ...]
    problems: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, str | None]:
        """For the journal."""
        return {"asked_by": self.request.by, "approved_by": ", ".join(self.names),
                "request": self.request.sha256}  # fmt: skip


def approvals_of(
    request: PaymentRequest, plans: Sequence[Plan[Any]], store: TableStore, now: int
) -> Approved:
    """Whose approvals beside ``request`` hold for ``plans``, and why each other does not.

    Refuses where the request is not for these payments: altered, of another environment, expired.
    """
    client = plans[0].context.client
    request.check_environment(client.base_url, client.client_id)
    request.check_time(now)
    asked_for = {*request.bodies}
    for plan in plans:
        body = plan.kept()["body"].decode()
        if body not in asked_for:
            raise _refused(
                f"{request.path} does not ask for this payment: {body} is none of what it has; "
                "nothing was sent: request it as it is planned now"
            )
    known, holding, problems = people(store), dict[str, str](), []
    beside = f"{glob.escape(request.path.stem)}.approved-*.json"
    for path in sorted(request.path.parent.glob(beside)):
        try:
            person = _checked(_read(path), request, plans, known)
        except ActionRefused as refusal:
            problems.append(f"{path.name}: {refusal}")
        else:
            if person.key in holding:
                problems.append(f"{path.name}: a second approval of {person.name!r}")
            holding[person.key] = person.name
    return Approved(request, tuple(sorted(holding.values())), tuple(problems))


def _checked(
    content: bytes, request: PaymentRequest, plans: Sequence[Plan[Any]],
    known: Mapping[str, Person],
) -> Person:  # fmt: skip
    """Who signed; refuses an approval that does not hold, and says why."""
    try:
        whole = json.loads(content)
        said, signature = whole["said"], base64.b64decode(whole["signature"])
        name, codes, at = str(said["by"]), dict(said["codes"]), Instant.parse(said["at"]).ns
        message = _message(request, said)
        again = canonical({"said": said, "signature": base64.b64encode(signature).decode()})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        again = None
    if again != content:  # byte for byte: base64 may have other bits at its end, or in between
        raise _refused("it is not an approval as it was written")
    person = known.get(name.casefold())
    if person is None or person.role != "approver":
        raise _refused(f"{printable(name)!r} is not an approver of this store")
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(person.key)).verify(signature, message)
    except InvalidSignature:
        raise _refused(
            f"the signature is not of {person.name!r} for these bytes: request or approval were "
            "changed, or another key signed"
        ) from None
    maker = known.get(request.by.casefold())
    if name.casefold() == request.by.casefold() or (maker is not None and maker.key == person.key):
        raise _refused(f"{person.name!r} asked for it, and cannot approve it")
    first, end = (Instant.parse(request.said[one]).ns for one in ("asked_at", "expires_at"))
    if not first <= at < end:
        raise _refused(f"it was signed at {said['at']}, when the request did not hold")
    other = [plan.ref_id for plan in plans if codes.get(plan.ref_id) != plan.code]
    if other:
        raise _refused(
            f"the account of {other[0]} is not as {person.name!r} saw it: it has changed since"
        )
    return person


def _message(request: PaymentRequest, said: Mapping[str, Any]) -> bytes:
    return b"\n".join([_SIGNED_AS, canonical(said), request.content])


def _refused(message: str) -> ActionRefused:
    return ActionRefused("approval", message)


def _read(path: Path, undone: str = "sent") -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:  # the latter of a name that no file can have
        raise SettingsError(
            f"{path} cannot be read: {reason_of(error)}; nothing was {undone}"
        ) from None
    if len(content) > _LARGEST:
        raise SettingsError(f"{path} has more than {_LARGEST:,} bytes: it is no file of ours")
    return content


def _write_new(path: Path, content: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise OutputError(f"{path} exists and is not overwritten; choose another name") from None
    except (OSError, ValueError) as error:
        raise OutputError(
            f"{path} cannot be written: {reason_of(error)}; nothing was sent"
        ) from None
