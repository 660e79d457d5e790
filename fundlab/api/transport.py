"""One call to the service: token, signature, retries within a deadline, errors as exceptions."""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from fundlab.api.auth import Grant, TokenSource, read_grant, token_form
from fundlab.api.http import Answer, Failure, Http, MaskedText, Outgoing
from fundlab.api.pace import Pace
from fundlab.api.problems import service_error, token_error
from fundlab.api.retries import (
    MAX_ATTEMPTS,
    MAX_RETRY_AFTER_S,
    is_passing,
    may_repeat,
    pause_before,
    retry_after_seconds,
)
from fundlab.api.signing import Signer, request_signature
from fundlab.errors import DeadlineExceeded, NetworkError, ProtocolError, shorten
from fundlab.settings import Secret, Settings

log: Final = logging.getLogger("fundlab.api")
USER_AGENT: Final = "fundlab/0.1"
_UNAUTHORIZED: Final = 401


@dataclass(frozen=True)
class Call:
    """What one operation sends: ``target`` is the path and query, encoded as they go out.

    ``repeatable``: sending the same bytes twice does no more than sending them once.
    """

    operation: str
    method: str
    target: str
    scope: str
    body: bytes | None = field(default=None, repr=False)
    repeatable: bool = False


@dataclass(frozen=True)
class Environment:
    """Time and chance, as a client sees them; tests put their own here."""

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], object] = time.sleep
    draw: Callable[[], float] = random.random
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex


class Transport:
    """Sends calls to one service with one credential. Thread-safe."""

    def __init__(
        self, settings: Settings, signer: Signer | None, environment: Environment | None = None
    ) -> None:
        self._settings, self._signer = settings, signer
        self._env = environment or Environment()
        base = urlsplit(settings.base_url)
        self._origin, self._base_path = f"{base.scheme}://{base.netloc}", base.path
        self._http = Http(
            connect_timeout=settings.connect_timeout,
            read_timeout=settings.read_timeout,
            ca_bundle=str(settings.ca_bundle) if settings.ca_bundle else None,
            trust_env=settings.trust_env,
        )
        self._pace = Pace(settings.rate_limit, self._env.clock)
        self._tokens = TokenSource(self.fetch_token, self._env.clock)

    def send(self, call: Call) -> bytes:
        """Carry out ``call``; the body of the service's answer.

        Raises ``ServiceError`` (the service said no), ``NetworkError`` (no usable answer),
        ``ProtocolError`` (an answer that is not the interface's).
        """
        started, request_id = self._env.clock(), self._env.new_id()
        status = "failed"
        try:
            answer = self._authorized(call, request_id, started + self._settings.call_timeout)
            status = str(answer.status)
            request_id = _named(answer) or request_id
        finally:
            spent = (self._env.clock() - started) * 1000
            log.info("%s %s in %.0f ms, request %s", call.operation, status, spent, request_id)
        if answer.status < 300:
            return answer.body
        raise self._refusal(answer, call, request_id)

    def fetch_token(
        self, scopes: frozenset[str], *, operation: str, deadline: float | None = None
    ) -> Grant:
        """Ask the token endpoint for exactly ``scopes`` (§5.1)."""
        env, request_id = self._env, self._env.new_id()
        asked_at = env.clock()
        answer = self._until_settled(
            lambda: self._token_request(scopes, request_id),
            operation=f"{operation}, asking for a token",
            repeatable=True,
            deadline=asked_at + self._settings.call_timeout if deadline is None else deadline,
        )
        log.debug("token for %s: %d", " ".join(sorted(scopes)), answer.status)
        if answer.status < 300:
            grant = read_grant(answer.body, scopes, asked_at)
            if isinstance(grant, Grant):
                return grant
            problem = f"the token endpoint answered {answer.status} {grant}"
        elif answer.status < 400:
            problem = _redirected(answer)
        else:
            raise token_error(
                _without(answer, self._settings.client_secret),
                operation=operation,
                request_id=request_id,
                scope=" ".join(sorted(scopes)),
                now=env.now(),
            )
        raise ProtocolError(f"{operation}: {problem}; check auth_url")

    def service_date(self) -> str | None:
        """The ``Date`` header of the service's answer to a request without a token."""
        answer = self._until_settled(
            lambda: Outgoing("GET", f"{self._origin}{self._base_path}/v2/events", self._common()),
            operation="asking the service for its time",
            repeatable=True,
            deadline=self._env.clock() + self._settings.call_timeout,
        )
        return answer.headers.get("Date")

    def close(self) -> None:
        self._http.close()

    # ------------------------------------------------------------------------------ one call

    def _authorized(self, call: Call, request_id: str, deadline: float) -> Answer:
        """The answer to ``call``; a token that is no longer accepted is renewed once."""
        answer, token = self._once(call, request_id, deadline)
        if answer.status == _UNAUTHORIZED:
            self._tokens.reject(token)
            answer, token = self._once(call, request_id, deadline)
        return _without(answer, token)

    def _once(self, call: Call, request_id: str, deadline: float) -> tuple[Answer, Secret]:
        token = self._tokens.token(call.scope, operation=call.operation, deadline=deadline)
        answer = self._until_settled(
            lambda: self._request(call, token, request_id),
            operation=call.operation,
            repeatable=call.repeatable,
            deadline=deadline,
        )
        return answer, token

    def _request(self, call: Call, token: Secret, request_id: str) -> Outgoing:
        target = f"{self._base_path}{call.target}"
        headers = self._common() | {
            "Authorization": MaskedText(f"Bearer {token.reveal()}"),
            "X-Request-Id": request_id,
        }
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        if self._signer is not None:
            headers[self._settings.signature_header] = request_signature(
                self._signer,
                method=call.method,
                target=target,
                body=call.body or b"",
                timestamp=int(self._env.now()),
                prefix=self._settings.signature_prefix,
            )
        return Outgoing(call.method, f"{self._origin}{target}", headers, call.body)

    def _token_request(self, scopes: frozenset[str], request_id: str) -> Outgoing:
        settings = self._settings
        body, content_type = token_form(settings.client_id, settings.client_secret, scopes)
        headers = {"Content-Type": content_type, "X-Request-Id": request_id}
        return Outgoing("POST", f"{settings.auth_url}/oauth2/token", self._common() | headers, body)

    def _common(self) -> dict[str, str]:
        return {
            "Accept": "application/json, application/problem+json",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": USER_AGENT,
        }

    def _refusal(self, answer: Answer, call: Call, request_id: str) -> Exception:
        if answer.status < 400:
            return ProtocolError(f"{call.operation}: {_redirected(answer)}; check base_url")
        return service_error(
            answer,
            operation=call.operation,
            request_id=request_id,
            scope=call.scope,
            now=self._env.now(),
        )

    # ------------------------------------------------------------------------------ retries

    def _until_settled(
        self, make: Callable[[], Outgoing], *, operation: str, repeatable: bool, deadline: float
    ) -> Answer:
        """Exchange what ``make`` gives (the same body each time) until the answer stands."""
        env, attempt = self._env, 0
        while True:
            attempt += 1
            self._sleep_until_turn(operation, deadline)
            outcome = self._http.exchange(make(), deadline - env.clock())
            log.debug("%s, attempt %d: %s", operation, attempt, _summary(outcome))
            pause = self._pause(outcome, attempt, repeatable, deadline)
            if pause is None:
                break
            env.sleep(pause)
        if isinstance(outcome, Answer):
            return outcome
        where = urlsplit(make().url).netloc
        raise _network_error(
            outcome, operation, where, attempt, repeatable, env.clock() >= deadline
        )

    def _pause(
        self, outcome: Answer | Failure, attempt: int, repeatable: bool, deadline: float
    ) -> float | None:
        """Seconds until the next attempt, or ``None`` when there shall be none."""
        if not is_passing(outcome) or not may_repeat(outcome, repeatable=repeatable):
            return None
        asked = None
        if isinstance(outcome, Answer):
            asked = retry_after_seconds(outcome.headers.get("Retry-After"), self._env.now())
        if asked is not None and asked <= MAX_RETRY_AFTER_S:
            self._pace.hold(asked)
        pause = pause_before(attempt, asked, self._env.draw())
        too_late = self._env.clock() + pause >= deadline
        if attempt >= MAX_ATTEMPTS or pause > MAX_RETRY_AFTER_S or too_late:
            return None
        return pause

    def _sleep_until_turn(self, operation: str, deadline: float) -> None:
        wait = self._pace.wait_s()
        if self._env.clock() + wait > deadline:
            raise DeadlineExceeded(
                f"{operation}: its turn would come in {wait:.0f} s, after the call's time; nothing "
                "was sent; try again later, or with fewer workers"
            )
        if wait > 0:
            self._env.sleep(wait)


def _network_error(
    failure: Failure, operation: str, where: str, attempts: int, repeatable: bool, late: bool
) -> NetworkError | ProtocolError:
    kind: type[NetworkError | ProtocolError] = DeadlineExceeded if late else NetworkError
    if failure.final:
        kind = ProtocolError if failure.sent else NetworkError
        advice = "look at what answers there, and at ca_bundle and the proxy settings"
    elif not failure.sent:
        advice = "nothing was sent; check the URL and the network, then try again"
    elif repeatable:
        advice = "trying again is safe"
    else:
        advice = (
            "it may or may not have been carried out: look for it before trying again, "
            "and give a ref_id, with which trying again is safe"
        )
    tries = f" after {attempts} attempts" if attempts > 1 else ""
    return kind(f"{operation}: {where}: {failure.problem}{tries}; {advice}")


def _redirected(answer: Answer) -> str:
    return (
        f"the service answered {answer.status}, a redirect to "
        f"{shorten(answer.headers.get('Location', 'nowhere'))}, which is not followed"
    )


def _without(answer: Answer, secret: Secret) -> Answer:
    """``answer`` without ``secret``, should the service echo what was sent."""
    body = answer.body.replace(secret.reveal().encode(), b"***")
    return Answer(answer.status, answer.headers, body)


def _named(answer: Answer) -> str | None:
    name = answer.headers.get("X-Request-Id", "")
    return name if 0 < len(name) <= 128 and name.isascii() and name.isprintable() else None


def _summary(outcome: Answer | Failure) -> str:
    if isinstance(outcome, Failure):
        return outcome.problem
    return f"{outcome.status}, {len(outcome.body)} bytes"
