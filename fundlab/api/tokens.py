"""Access tokens: asked for by scope, shared by all calls and threads, renewed in time (§5.1)."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from urllib3.filepost import encode_multipart_formdata

from fundlab.api.http import MaskedBytes
from fundlab.errors import DeadlineExceeded, NetworkError, RateLimited, ScopeMissing, Unavailable
from fundlab.secret import Secret

log: Final = logging.getLogger("fundlab.api")
RENEW_EARLY_S: Final = 60.0
_EARLY_RENEWAL_S: Final = 10.0
"""How long an early renewal may keep a call waiting, and the pause after one that failed."""
_LONGEST_LIFETIME_S: Final = 24 * 3600.0
_LONGEST_STATED_S: Final = 1e9
_UNSTATED_LIFETIME_S: Final = 300.0
_MAX_TOKEN_LENGTH: Final = 16_384
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class Grant:
    """A token, the scopes it was asked for, and until when (on the caller's clock) it is used.

    From ``use_until`` on it is to be renewed; until ``expires_at`` it serves where that fails.
    """

    token: Secret
    scopes: frozenset[str]
    use_until: float
    expires_at: float


class Fetch(Protocol):
    """Asks the token endpoint; raises ``ScopeMissing`` when a scope is not granted."""

    def __call__(self, scopes: frozenset[str], *, operation: str, deadline: float) -> Grant: ...


class TokenSource:
    """One token for the scopes used so far; it grows as operations need more. Thread-safe.

    Scopes that no call needs are never asked for, so a credential without them still works.
    """

    def __init__(self, fetch: Fetch, clock: Callable[[], float]) -> None:
        self._fetch, self._clock = fetch, clock
        self._grant: Grant | None = None
        self._new_locks()

    def token(self, scope: str, *, operation: str, deadline: float) -> Secret:
        """A token good for ``scope``, from memory or fetched."""
        now, held = self._clock(), self._grant
        serves = held is not None and scope in held.scopes
        if held and serves and now < held.use_until:
            return held.token

        # One thread asks for all. Meanwhile a token that has not expired serves the others, which
        # wait only where there is none.
        early = held if held and serves and now < held.expires_at else None
        if self._process != os.getpid():
            self._new_locks()
        renewal, patience = self._renewal, min(max(0.0, deadline - now), threading.TIMEOUT_MAX)
        if not renewal.acquire(timeout=0 if early else patience):
            if early:
                return early.token
            raise DeadlineExceeded(
                f"{operation}: no access token within the call's time",
                hint="the token endpoint is slow: try again, or give a longer call_timeout",
                operation=operation,
            )
        try:
            now, held = self._clock(), self._grant
            if held and scope in held.scopes and now < held.use_until:
                return held.token  # another thread has fetched it
            if early:
                deadline = now + min(_EARLY_RENEWAL_S, (deadline - now) / 2)
            alone = frozenset({scope})
            wanted = alone | held.scopes if held else alone
            try:
                try:
                    grant = self._fetch(wanted, operation=operation, deadline=deadline)
                except ScopeMissing:  # this scope, or one held before that was taken away since
                    if wanted == alone:
                        raise
                    grant = self._fetch(alone, operation=operation, deadline=deadline)
            except (NetworkError, RateLimited, Unavailable) as error:
                if early is None:
                    raise
                log.warning(
                    "%s: the token could not be renewed early (%s); it serves for %.0f s more",
                    operation, type(error).__name__, early.expires_at - self._clock(),
                )  # fmt: skip
                until = min(self._clock() + _EARLY_RENEWAL_S, early.expires_at)
                grant = replace(early, use_until=until)
                with self._swap:
                    if self._grant is early:  # not rejected meanwhile
                        self._grant = grant
                return early.token
            with self._swap:
                self._grant = grant
            return grant.token
        finally:
            renewal.release()

    def reject(self, token: Secret) -> None:
        """Forget ``token``: the service did not accept it."""
        if self._process != os.getpid():
            self._new_locks()
        with self._swap:
            if self._grant is not None and self._grant.token == token:
                past = float("-inf")
                self._grant = replace(self._grant, use_until=past, expires_at=past)

    def _new_locks(self) -> None:
        """Those of this process: a forked one has not the threads that hold its parent's."""
        self._renewal = threading.Lock()
        """Held while the token endpoint is asked."""
        self._swap = threading.Lock()
        """Held for a moment, never while waiting."""
        self._process = os.getpid()


def token_form(client_id: str, client_secret: Secret, scope: str) -> tuple[bytes, str]:
    """The multipart body of a token request and its content type."""
    body, content_type = encode_multipart_formdata(
        {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": client_secret.reveal(),
            "scope": scope,
        }
    )
    return MaskedBytes(body), content_type


def read_grant(body: bytes, scopes: frozenset[str], asked_at: float) -> Grant | str:
    """The grant in an answer of the token endpoint, or what is wrong with it."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(answer, dict):
        return "not a JSON object"
    token, lifetime = answer.get("access_token"), answer.get("expires_in", _UNSTATED_LIFETIME_S)
    if not isinstance(token, str) or not token:
        return "without an access_token"
    if len(token) > _MAX_TOKEN_LENGTH or not _TOKEN.fullmatch(token):
        return "with an access_token that no header can carry"
    if str(answer.get("token_type", "bearer")).lower() != "bearer":
        return "with a token_type other than bearer"
    if isinstance(lifetime, str) and re.fullmatch(r"[0-9]{1,9}", lifetime, re.ASCII):
        lifetime = int(lifetime)
    if isinstance(lifetime, bool) or not isinstance(lifetime, int | float):
        return "with an expires_in that is not a number of seconds"
    if not 0 < lifetime <= _LONGEST_STATED_S:  # compared exactly, also where no float is as large
        return "with an expires_in that is not a number of seconds a token may last"
    lifetime = min(lifetime, _LONGEST_LIFETIME_S)
    early = min(RENEW_EARLY_S, lifetime / 2)  # a short-lived token must not be renewed every call
    return Grant(Secret(token), scopes, asked_at + lifetime - early, asked_at + lifetime)
