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

    From ``use_until`` on it is to be renewed; until ``lapses`` it serves where that fails.
    """

    token: Secret
    scopes: frozenset[str]
    use_until: float
    lapses: float


class Fetch(Protocol):
    """Asks the token endpoint; raises ``ScopeMissing`` when a scope is not granted."""

    def __call__(self, scopes: frozenset[str], *, operation: str, deadline: float) -> Grant: ...


class _Locks:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.renewal = threading.Lock()
        """Held while the token endpoint is asked."""
        self.swap = threading.Lock()
        """Held for a moment, never while waiting."""


class TokenSource:
    """One token for the scopes used so far; it grows as operations need more. Thread-safe.

    Scopes that no call needs are never asked for, so a credential without them still works.
    """

    def __init__(self, fetch: Fetch, clock: Callable[[], float]) -> None:
        self._fetch, self._clock = fetch, clock
        self._kept_locks = _Locks()
        self._grant: Grant | None = None

    def token(self, scope: str, *, operation: str, deadline: float) -> Secret:
        """A token good for ``scope``, from memory or fetched."""
        if grant := self._usable(scope):
            return grant.token
        if live := self._live(scope):
            return self._renewed_early(live, scope, operation, deadline).token
        left, renewal = max(0.0, deadline - self._clock()), self._locks().renewal
        if not renewal.acquire(timeout=min(left, threading.TIMEOUT_MAX)):
            raise DeadlineExceeded(
                f"{operation}: no access token within the call's time",
                hint="the token endpoint is slow: try again, or give a longer call_timeout",
                operation=operation,
            )
        try:
            grant = self._usable(scope)  # another thread may have fetched it meanwhile
            if grant is None:
                grant = self._keep(self._renewed(scope, operation, deadline))
            return grant.token
        finally:
            renewal.release()

    def reject(self, token: Secret) -> None:
        """Forget ``token``: the service did not accept it."""
        with self._locks().swap:
            if self._grant is not None and self._grant.token == token:
                past = float("-inf")
                self._grant = replace(self._grant, use_until=past, lapses=past)

    def _locks(self) -> _Locks:
        """Those of this process: a forked one has not the threads that hold its parent's."""
        if self._kept_locks.process != os.getpid():
            self._kept_locks = _Locks()
        return self._kept_locks

    def _usable(self, scope: str) -> Grant | None:
        grant = self._grant
        if grant and scope in grant.scopes and self._clock() < grant.use_until:
            return grant
        return None

    def _live(self, scope: str) -> Grant | None:
        grant = self._grant
        if grant and scope in grant.scopes and self._clock() < grant.lapses:
            return grant
        return None

    def _keep(self, grant: Grant) -> Grant:
        with self._locks().swap:
            self._grant = grant
        return grant

    def _renewed_early(self, live: Grant, scope: str, operation: str, deadline: float) -> Grant:
        """A new grant, or ``live`` where another thread is at it or the endpoint falters."""
        renewal = self._locks().renewal
        if not renewal.acquire(blocking=False):
            return live
        try:
            if grant := self._usable(scope):
                return grant
            now = self._clock()
            patience = min(_EARLY_RENEWAL_S, (deadline - now) / 2)
            try:
                return self._keep(self._renewed(scope, operation, now + patience))
            except (NetworkError, RateLimited, Unavailable) as error:
                log.warning(
                    "%s: the token could not be renewed early (%s); it serves for %.0f s more",
                    operation, type(error).__name__, live.lapses - self._clock(),
                )  # fmt: skip
            return self._postponed(live)
        finally:
            renewal.release()

    def _postponed(self, live: Grant) -> Grant:
        with self._locks().swap:
            if self._grant is live:  # not rejected meanwhile
                until = min(self._clock() + _EARLY_RENEWAL_S, live.lapses)
                self._grant = replace(live, use_until=until)
        return live

    def _renewed(self, scope: str, operation: str, deadline: float) -> Grant:
        held = self._grant.scopes if self._grant else frozenset[str]()
        alone = frozenset({scope})
        if held <= alone:
            return self._fetch(alone, operation=operation, deadline=deadline)
        try:
            return self._fetch(held | alone, operation=operation, deadline=deadline)
        except ScopeMissing:  # this scope, or one held before that was taken away since
            return self._fetch(alone, operation=operation, deadline=deadline)


def token_form(client_id: str, client_secret: Secret, scopes: frozenset[str]) -> tuple[bytes, str]:
    """The multipart body of a token request and its content type."""
    body, content_type = encode_multipart_formdata(
        {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": client_secret.reveal(),
            "scope": " ".join(sorted(scopes)),
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
        return "with an expires_in that is no number of seconds"
    if not 0 < lifetime <= _LONGEST_STATED_S:  # compared exactly, also where no float is as large
        return "with an expires_in that is no number of seconds a token may last"
    lifetime = min(lifetime, _LONGEST_LIFETIME_S)
    early = min(RENEW_EARLY_S, lifetime / 2)  # a short-lived token must not be renewed every call
    return Grant(Secret(token), scopes, asked_at + lifetime - early, asked_at + lifetime)
