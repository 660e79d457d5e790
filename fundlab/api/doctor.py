"""What stands between a user and a working client: checked one by one, each named."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from fundlab.api.client import Client
from fundlab.api.http import Answer, clock_skew
from fundlab.api.signing import Signer
from fundlab.api.transport import Environment
from fundlab.errors import (
    AuthenticationFailed,
    CallError,
    ScopeMissing,
    SettingsError,
    SigningFailed,
    shorten,
)
from fundlab.models import OPERATIONS, SCOPES
from fundlab.settings import Settings

MAX_SKEW_S: Final = 300.0
_NOT_FOUND: Final = 404
_KEY_ADVICE: Final = "set the key, its file or signing_key_password right, then run this again"
_READS: Final = ("list_transfers", "list_events", "list_fiat_accounts")
_READING: Final = ":read_"
_SHORTEST_ID: Final = 8


@dataclass(frozen=True)
class Check:
    """One finding. ``advice`` is empty when there is nothing to do."""

    name: str
    ok: bool
    detail: str
    advice: str = ""


def doctor(
    settings: Settings | None = None,
    *,
    signer: Signer | None = None,
    environment: Environment | None = None,
) -> list[Check]:
    """Check settings, signing key, clock, token, each scope, one read and its signature, in order.

    ``settings`` are those of the environment when left out. Nothing is changed at the service. What
    could not be tried because of an earlier finding is left out; raises nothing that a check names.
    """
    try:
        loaded = settings or Settings.load()
    except SettingsError as error:
        return [Check("settings", False, str(error), "set them right, then run this again")]
    checks = [Check("settings", True, _described(loaded))]
    try:
        client = Client(loaded, signer=signer, environment=environment)
    except SettingsError as error:
        return [*checks, Check("signing key", False, str(error), _KEY_ADVICE)]
    with client:
        checks += _examined(client, environment or Environment())
    return checks


def _described(settings: Settings) -> str:
    """Of what was typed in, only what was checked: a secret may stand in the place of an id."""
    kind = "production" if settings.is_production else "sandbox"
    key = "with a signing key" if settings.signing_key else "no signing key"
    return f"{settings.base_url} ({kind}), a client_id and its secret, {key}"


def _examined(client: Client, environment: Environment) -> Iterator[Check]:
    try:
        answer = client.transport.probe()
    except CallError as error:
        yield Check("connection", False, _said(error), error.hint or "")
        return
    connection = _connection(client, answer)
    yield connection
    yield _clock(clock_skew(answer.headers.get("Date"), environment.now()))
    if not connection.ok:
        return
    granted: list[str] = []
    yield from _token_and_scopes(client, granted)
    if granted:
        yield from _one_read(client, granted)


def _connection(client: Client, answer: Answer) -> Check:
    """What an answer to a read without a token says about ``base_url``."""
    if answer.status == _NOT_FOUND:
        return Check(
            "connection",
            False,
            f"{client.base_url} answers, but does not know /v2/events",
            "check base_url: it is what comes before /v2",
        )
    if 300 <= answer.status < 400:
        place = shorten(answer.headers.get("Location", "nowhere"))
        return Check(
            "connection",
            False,
            f"{client.base_url} redirects to {place}",
            "check base_url: no redirect is followed",
        )
    if answer.status < 300:
        return Check(
            "connection",
            False,
            f"{client.base_url} answers {answer.status} to a read without a token",
            "check base_url and the network: a sign-in page or a proxy may answer in its place",
        )
    if answer.status >= 500:
        return Check(
            "connection",
            False,
            f"{client.base_url} answers {answer.status}: the service, or what is before it, fails",
            "try again later; if it stays, show it to the operator of the service",
        )
    return Check("connection", True, f"{client.base_url} answers")


def _clock(skew: float | None) -> Check:
    if skew is None:
        return Check("clock", True, "the service does not tell its time")
    if abs(skew) > MAX_SKEW_S:
        way = "behind" if skew > 0 else "ahead of"
        return Check(
            "clock",
            False,
            f"this machine's clock is {abs(skew):.0f} s {way} the service's",
            "set the clock right: signatures and tokens are valid for a limited time",
        )
    return Check("clock", True, f"within {abs(skew):.0f} s of the service's")


def _token_and_scopes(client: Client, granted: list[str]) -> Iterator[Check]:
    """A check of the token endpoint, then one for each scope; ``granted`` collects those held."""
    scopes = [s for s in SCOPES if "sandbox" not in s or not client.settings.is_production]
    findings: list[Check] = []
    for scope in scopes:
        try:
            client.transport.fetch_token(frozenset({scope}), operation="doctor")
        except ScopeMissing as error:
            findings.append(_lacking(scope, error))
        except CallError as error:
            said = _said(error)
            if len(client.client_id) >= _SHORTEST_ID:  # a shorter one may be any word of the text
                itself = rf"(?<!\w){re.escape(client.client_id)}(?!\w)"
                said = re.sub(itself, "(the client_id)", said)
            yield Check("token", False, said, error.hint or "")
            return
        else:
            granted.append(scope)
            findings.append(Check(f"scope {scope}", True, "granted"))
    known = f"{client.settings.auth_url} knows this credential, client {client.client_id}"
    yield Check("token", True, known)
    yield from findings
    yield _allowed(granted)


def _lacking(scope: str, error: ScopeMissing) -> Check:
    """A scope that no sync needs may be withheld on purpose: most credentials only read."""
    lost = f"not granted, so no {_operations([scope])}"
    if _READING not in scope:
        return Check(f"scope {scope}", True, lost)
    needed = f"{lost}: a sync of all tables needs it"
    return Check(f"scope {scope}", False, needed, error.hint or "")


def _allowed(granted: list[str]) -> Check:
    """What the credential may do, by its scopes."""
    if not granted:
        advice = "ask the administrator to grant this credential scopes"
        return Check("credential", False, "may do nothing: no scope is granted", advice)
    reads = [scope for scope in granted if _READING in scope]
    complete = reads == [scope for scope in SCOPES if _READING in scope]
    read = "everything that a sync fetches" if complete else _operations(reads) or "nothing"
    changes = _operations([scope for scope in granted if _READING not in scope])
    does = changes or "nothing that changes anything"
    return Check("credential", True, f"may read {read}; may carry out {does}")


def _operations(scopes: Collection[str]) -> str:
    return ", ".join(name for name, one in OPERATIONS.items() if one.scope in scopes)


def _one_read(client: Client, granted: list[str]) -> Iterator[Check]:
    name = next((name for name in _READS if OPERATIONS[name].scope in granted), None)
    if name is None:
        yield Check("read", True, "not tried: no scope to list transfers, events or fiat accounts")
        return
    try:
        next(getattr(client, name)(max_rows=1, page_size=1), None)
    except AuthenticationFailed as error:
        yield _signing_refused(client, error)
    except SigningFailed as error:
        yield Check("signing", False, error.problem, "check the signer: nothing was sent")
    except CallError as error:
        yield Check("read", False, error.problem, error.hint or "")
    else:
        if client.signer is None:
            yield Check("signing", True, "this credential needs no signatures")
        else:
            key = f"{client.signer.alg} key {client.signer.kid}"
            yield Check("signing", True, f"a request signed with {key} was accepted")
        yield Check("read", True, f"{name} answers")


def _signing_refused(client: Client, error: AuthenticationFailed) -> Check:
    if client.signer is None:
        return Check(
            "signing",
            False,
            f"an unsigned request with a fresh token was refused: {_said(error)}",
            "this credential may require signatures: set signing_key and signing_key_id",
        )
    return Check(
        "signing",
        False,
        f"a request signed with key {client.signer.kid} was refused: {_said(error)}",
        "check that the public key is registered under exactly this signing_key_id, that "
        "signature_header and signature_prefix are the service's, and the clock",
    )


def _said(error: CallError) -> str:
    return error.problem.removeprefix("doctor: ")
