"""What stands between a user and a working client: checked one by one, each named."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from fundlab.base.compiled import slow_path
from fundlab.base.errors import (
    AuthenticationFailed,
    CallError,
    ScopeMissing,
    SettingsError,
    SigningFailed,
    shorten,
)
from fundlab.client.client import Client
from fundlab.client.http import Answer, clock_skew
from fundlab.client.signing import Signer
from fundlab.client.transport import Environment
from fundlab.models import OPERATIONS, SCOPES
from fundlab.settings.settings import Settings

MAX_SKEW_S: Final = 300.0
_NOT_FOUND: Final = 404
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
    # Of what was typed in, only what was checked: a secret may stand in the place of an id.
    kind = "production" if loaded.is_production else "sandbox"
    if loaded.on_loopback and not loaded.sandbox:
        kind = "on this machine, so taken for a sandbox"
    key = "with a signing key" if loaded.signing_key else "no signing key"
    described = f"{loaded.base_url} ({kind}), a client_id and its secret, {key}"
    checks = [Check("settings", True, described)]
    if slower := slow_path():
        advice = (
            "install a C compiler, then fundlab again (pip install --force-reinstall --no-deps)"
        )
        checks.append(Check("speed", True, f"the C part is not in use: {slower}", advice))
    try:
        client = Client(loaded, signer=signer, environment=environment)
    except SettingsError as error:
        advice = "set the key, its file or signing_key_password right, then run this again"
        return [*checks, Check("signing key", False, str(error), advice)]
    with client:
        try:
            answer = client.transport.probe()
        except CallError as error:
            return [*checks, Check("connection", False, _problem(error), error.hint or "")]
        checks.append(connection(client.base_url, answer))
        now = (environment or Environment()).now()
        checks.append(clock(clock_skew(answer.headers.get("Date"), now)))
        if checks[-2].ok:
            found, granted = token_and_scopes(client)
            checks += found
            if granted:
                checks += one_read(client, granted)
    return checks


def connection(base_url: str, answer: Answer) -> Check:
    """What an answer to a read without a token says about ``base_url``."""
    problem = ""
    if answer.status == _NOT_FOUND:
        problem = "answers, but does not know /v2/events"
        advice = "check base_url: it is what comes before /v2"
    elif 300 <= answer.status < 400:
        problem = f"redirects to {shorten(answer.headers.get('Location', 'nowhere'))}"
        advice = "check base_url: no redirect is followed"
    elif answer.status < 300:
        problem = f"answers {answer.status} to a read without a token"
        advice = "check base_url and the network: a sign-in page or a proxy may answer in its place"
    elif answer.status >= 500:
        problem = f"answers {answer.status}: the service, or what is before it, fails"
        advice = "try again later; if it stays, show it to the operator of the service"
    if problem:
        return Check("connection", False, f"{base_url} {problem}", advice)
    return Check("connection", True, f"{base_url} answers")


def clock(skew: float | None) -> Check:
    """Whether signatures and tokens can be valid by this machine's clock."""
    if skew is None:
        return Check("clock", True, "the service does not say what time it is")
    if abs(skew) > MAX_SKEW_S:
        way = "behind" if skew > 0 else "ahead of"
        return Check(
            "clock",
            False,
            f"this machine's clock is {abs(skew):.0f} s {way} the service's",
            "set the clock right: signatures and tokens are valid for a limited time",
        )
    return Check("clock", True, f"within {abs(skew):.0f} s of the service's")


def token_and_scopes(client: Client) -> tuple[list[Check], list[str]]:
    """A check of the token endpoint, one for each scope, and one of what they allow together; and
    the scopes that are granted."""
    granted: list[str] = []
    checks: list[Check] = []
    for scope in SCOPES:
        if "sandbox" in scope and client.settings.is_production:
            continue
        try:
            client.transport.fetch_token(frozenset({scope}), operation="doctor")
        except ScopeMissing as error:
            # What no sync needs may be withheld on purpose: most credentials only read.
            lost, needed = f"not granted, so no {_operations([scope])}", _READING in scope
            lost += ": a sync of all tables needs it" if needed else ""
            advice = error.hint or "" if needed else ""
            checks.append(Check(f"scope {scope}", not needed, lost, advice))
        except CallError as error:
            problem = _problem(error)
            if len(client.client_id) >= _SHORTEST_ID:  # a shorter one may be any word of the text
                itself = rf"(?<!\w){re.escape(client.client_id)}(?!\w)"
                problem = re.sub(itself, "(the client_id)", problem)
            return [Check("token", False, problem, error.hint or "")], []
        else:
            granted.append(scope)
            checks.append(Check(f"scope {scope}", True, "granted"))
    known = f"{client.settings.auth_url} knows this credential, client {client.client_id}"
    checks.insert(0, Check("token", True, known))
    if not granted:
        advice = "ask the administrator to grant this credential scopes"
        return [
            *checks,
            Check("credential", False, "may do nothing: no scope is granted", advice),
        ], granted
    reads = [scope for scope in granted if _READING in scope]
    complete = reads == [scope for scope in SCOPES if _READING in scope]
    read = "everything that a sync fetches" if complete else _operations(reads) or "nothing"
    changes = _operations([scope for scope in granted if _READING not in scope])
    does = f"may read {read}; may carry out {changes or 'nothing that changes anything'}"
    return [*checks, Check("credential", True, does)], granted


def one_read(client: Client, granted: Collection[str]) -> list[Check]:
    """A read of one row that a ``granted`` scope allows, and what it says of signatures."""
    name = next((name for name in _READS if OPERATIONS[name].scope in granted), None)
    if name is None:
        untried = "not tried: no scope to list transfers, events or fiat accounts"
        return [Check("read", True, untried)]
    signer = client.signer
    try:
        next(getattr(client, name)(max_rows=1, page_size=1), None)
    except AuthenticationFailed as error:
        if signer is None:
            problem = f"an unsigned request with a fresh token was refused: {_problem(error)}"
            advice = "this credential may require signatures: set signing_key and signing_key_id"
        else:
            problem = f"a request signed with key {signer.kid} was refused: {_problem(error)}"
            advice = (
                "check that the public key is registered under exactly this signing_key_id, that "
                "signature_header and signature_prefix are the service's, and the clock"
            )
        return [Check("signing", False, problem, advice)]
    except SigningFailed as error:
        return [Check("signing", False, error.problem, "check the signer: nothing was sent")]
    except CallError as error:
        return [Check("read", False, error.problem, error.hint or "")]
    signed = (
        "this credential needs no signatures"
        if signer is None
        else f"a request signed with {signer.alg} key {signer.kid} was accepted"
    )
    return [Check("signing", True, signed), Check("read", True, f"{name} answers")]


def _operations(scopes: Collection[str]) -> str:
    return ", ".join(name for name, one in OPERATIONS.items() if one.scope in scopes)


def _problem(error: CallError) -> str:
    return error.problem.removeprefix("doctor: ")
