"""One call to the service: token, signature, retries within a deadline, errors as exceptions."""

from __future__ import annotations

import logging
import random
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from fundlab.api.auth import Grant, TokenSource, read_grant, token_form
from fundlab.api.echoes import without
from fundlab.api.http import Answer, Failure, Http, MaskedText, Outgoing, bound_of
from fundlab.api.pace import Pace
from fundlab.api.problems import (
    Attempted,
    clock_skew,
    no_turn,
    redirected,
    service_error,
    token_error,
    unanswered,
    unsigned,
)
from fundlab.api.retries import (
    MAX_ATTEMPTS,
    MAX_RETRY_AFTER_S,
    PASSING,
    TOO_MANY,
    is_passing,
    may_repeat,
    pause_before,
    retry_after_seconds,
)
from fundlab.api.signing import Signer, request_signature
from fundlab.background import caller_gone
from fundlab.errors import CallError, ProtocolError, SigningFailed
from fundlab.secret import Secret
from fundlab.settings import Settings

log: Final = logging.getLogger("fundlab.api")
USER_AGENT: Final = "fundlab/0.1"
_INSTANCE: Final = re.compile(r"[0-9a-f]{32}")
_UNAUTHORIZED: Final = 401
_TIMED_OUT: Final = 408
_REFUSED: Final = range(400, 500)
_NOTABLE_PAUSE_S: Final = 1.0
_NAP_S: Final = 0.1


class CallerGone(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True)
class Call:
    """What one operation sends: ``target`` is the path and query, encoded as they go out.

    ``repeatable``: sending the same bytes twice does no more than sending them once. ``again``:
    what to do when it is unknown whether it was carried out. ``rows``: how many the answer has at
    most, which bounds its size.
    """

    operation: str
    method: str
    target: str
    scope: str
    body: bytes | None = field(default=None, repr=False)
    repeatable: bool = False
    again: str = "trying again is safe"
    rows: int = 1


@dataclass(frozen=True)
class Reply:
    """The body of a successful answer, and the id under which the service knows the request."""

    body: bytes = field(repr=False)
    request_id: str
    status: int


@dataclass(frozen=True)
class Environment:
    """Time and chance, as a client sees them; tests put their own here."""

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], object] = time.sleep
    draw: Callable[[], float] = random.SystemRandom().random  # never moves the caller's seed
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
        self.skew_s: float = 0.0
        """Seconds by which the service's clock is ahead of this one, by its last answer."""
        self._answered, self._instance = False, ""

    def send(self, call: Call) -> Reply:
        """Carry out ``call``; the service's answer to it.

        Raises ``ServiceError`` (the service said no), ``NetworkError`` (no usable answer),
        ``ProtocolError`` (an answer that is not the interface's).
        """
        started, request_id = self._env.clock(), self._env.new_id()
        tried = Attempted(
            call.operation, request_id, call.scope, call.again, changes=call.method != "GET"
        )
        status, lost = "failed", None
        try:
            answer = self._authorized(call, tried, started + self._settings.call_timeout)
            skew_s = clock_skew(answer.headers.get("Date"), self._env.now())
            self.skew_s = self.skew_s if skew_s is None else skew_s
            self._answered, self._instance = True, answer.headers.get("Sandbox-Instance", "")
            status = str(answer.status)
            request_id = _named(answer) or request_id
        except CallError as error:
            if not (tried.in_doubt and tried.changes):
                raise
            lost = error
        finally:
            spent = (self._env.clock() - started) * 1000
            log.info("%s %s in %.0f ms, request %s", call.operation, status, spent, request_id)
        if lost is not None:  # raised here: frames further down hold headers
            raise lost.doubted() from lost.__cause__
        if answer.status < 300:
            return Reply(answer.body, request_id, answer.status)
        tried.request_id = request_id
        refused: CallError = (
            redirected(answer, tried)
            if answer.status < 400
            else service_error(answer, tried, self._env.now())
        )
        raise refused.doubted() if tried.in_doubt and tried.changes else refused

    def fetch_token(
        self, scopes: frozenset[str], *, operation: str, deadline: float | None = None
    ) -> Grant:
        """Ask the token endpoint for exactly ``scopes`` (§5.1)."""
        env, asked_at = self._env, self._env.clock()
        tried = Attempted(
            operation, env.new_id(), " ".join(sorted(scopes)), step=", asking for a token",
            setting="auth_url",
        )  # fmt: skip
        answer = self._until_settled(
            lambda: self._token_request(scopes, tried.request_id),
            tried,
            repeatable=True,
            deadline=asked_at + self._settings.call_timeout if deadline is None else deadline,
        )
        log.debug("token for %s: %d, request %s", tried.scope, answer.status, tried.request_id)
        if answer.status >= 400:
            answer = without(answer, self._settings.client_secret)
            raise token_error(answer, tried, env.now())
        if answer.status >= 300:
            answer = without(answer, self._settings.client_secret)
            raise redirected(answer, tried)
        grant = read_grant(answer.body, scopes, asked_at)
        if isinstance(grant, Grant):
            return grant
        raise ProtocolError(
            f"{operation}: the token endpoint answered {answer.status} {grant}",
            hint="check auth_url: is this the token endpoint of the service?",
            operation=operation,
            request_id=tried.request_id,
            status=answer.status,
        )

    def probe(self, operation: str = "doctor") -> Answer:
        """The service's answer to a read without a token."""
        return self._until_settled(
            lambda: Outgoing("GET", f"{self._origin}{self._base_path}/v2/events", self._common()),
            Attempted(operation, self._env.new_id(), scope=""),
            repeatable=True,
            deadline=self._env.clock() + self._settings.call_timeout,
        )

    def instance(self) -> str | None:
        """Which of the sandboxes that were ever started there answers; ``None``: it does not say.

        By the last answer; asks for one where there was none so far.
        """
        found = self._instance
        if not self._answered:
            found = self.probe("list_events").headers.get("Sandbox-Instance", "")
        return found if _INSTANCE.fullmatch(found) else None

    def close(self) -> None:
        self._http.close()

    # ------------------------------------------------------------------------------ one call

    def _authorized(self, call: Call, tried: Attempted, deadline: float) -> Answer:
        """The answer to ``call``; a token that is no longer accepted is renewed once."""
        answer, token = self._once(call, tried, deadline)
        if answer.status == _UNAUTHORIZED:
            self._tokens.reject(token)
            answer, token = self._once(call, tried, deadline)
        return without(answer, token, self._settings.client_secret)

    def _once(self, call: Call, tried: Attempted, deadline: float) -> tuple[Answer, Secret]:
        token = self._tokens.token(call.scope, operation=call.operation, deadline=deadline)
        answer = self._until_settled(
            lambda: self._request(call, token, tried.request_id),
            tried,
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
        url, bound = f"{self._origin}{target}", bound_of(call.rows)
        return Outgoing(call.method, url, headers, call.body, bound)

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

    # ------------------------------------------------------------------------------ retries

    def _until_settled(
        self,
        make: Callable[[], Outgoing],
        tried: Attempted,
        *,
        repeatable: bool,
        deadline: float,
    ) -> Answer:
        """Exchange what ``make`` gives (the same body each time) until the answer stands."""
        env, attempt, refusals = self._env, 0, 0
        while True:
            attempt += 1
            self._await_turn(tried, deadline)
            request, sent_at = _made(make, tried), env.clock()
            outcome = self._http.exchange(request, deadline - sent_at)
            log.debug(
                "%s, attempt %d: %s, request %s",
                tried.name, attempt, _summary(outcome), tried.request_id,
            )  # fmt: skip
            tried.in_doubt = tried.in_doubt or _may_have_been_done(outcome)
            if isinstance(outcome, Answer) and outcome.status == TOO_MANY:
                refusals += 1  # they count against the deadline only
                if not self._may_line_up_again(outcome, sent_at, tried, deadline):
                    break
                continue
            if isinstance(outcome, Answer) and outcome.status not in PASSING:
                self._pace.accepted(sent_at)
            pause = self._pause(outcome, attempt - refusals, repeatable, deadline)
            if pause is None:
                break
            news = pause >= _NOTABLE_PAUSE_S and self._pace.is_news("failures")
            log.log(
                logging.WARNING if news else logging.INFO,
                "%s, attempt %d: %s; waiting %.0f s before the next, request %s",
                tried.name, attempt, _summary(outcome), pause, tried.request_id,
            )  # fmt: skip
            self._sleep(pause)
        if isinstance(outcome, Answer):
            return outcome
        raise unanswered(
            outcome,
            tried,
            urlsplit(request.url).netloc,
            attempts=attempt,
            late=env.clock() >= deadline,
        )

    def _pause(
        self, outcome: Answer | Failure, attempt: int, repeatable: bool, deadline: float
    ) -> float | None:
        """Seconds until the next attempt, or ``None`` when there shall be none."""
        if not is_passing(outcome) or not may_repeat(outcome, repeatable=repeatable):
            return None
        asked = self._asked_pause(outcome) if isinstance(outcome, Answer) else None
        if asked is not None and asked <= MAX_RETRY_AFTER_S:
            self._pace.hold(asked)
        pause = pause_before(attempt, asked, self._env.draw())
        too_late = self._env.clock() + pause >= deadline
        if attempt >= MAX_ATTEMPTS or pause > MAX_RETRY_AFTER_S or too_late:
            return None
        return pause

    def _may_line_up_again(
        self, refusal: Answer, sent_at: float, tried: Attempted, deadline: float
    ) -> bool:
        """Slow down, all calls of this client together; whether this one's time allows for it."""
        asked = self._asked_pause(refusal)
        if asked is not None and asked > MAX_RETRY_AFTER_S:
            return False
        pause = self._pace.refused(sent_at, asked, self._env.draw())
        log.log(
            logging.WARNING if self._pace.is_news("refusals") else logging.INFO,
            "%s: the service takes no more requests now (429); waiting %.1f s, then going on at "
            "the pace it accepts, request %s",
            tried.name, pause, tried.request_id,
        )  # fmt: skip
        return self._env.clock() + pause < deadline

    def _asked_pause(self, answer: Answer) -> float | None:
        return retry_after_seconds(answer.headers.get("Retry-After"), self._env.now())

    def _await_turn(self, tried: Attempted, deadline: float) -> None:
        turn = self._pace.line_up()
        try:
            while (wait := self._pace.wait_s(turn)) > 0:
                if wait > deadline - self._env.clock():
                    raise no_turn(tried, wait)
                if wait >= _NOTABLE_PAUSE_S:
                    log.info(
                        "%s: its turn comes in %.0f s, request %s",
                        tried.name, wait, tried.request_id,
                    )  # fmt: skip
                self._sleep(wait)
        finally:
            self._pace.leave(turn)
        if caller_gone.get(_never)():
            raise CallerGone

    def _sleep(self, seconds: float) -> None:
        gone = caller_gone.get(None)
        if gone is None:
            self._env.sleep(seconds)
            return
        while seconds > 0:
            if gone():
                raise CallerGone
            self._env.sleep(min(seconds, _NAP_S))
            seconds -= _NAP_S


def _never() -> bool:
    return False


def _made(make: Callable[[], Outgoing], tried: Attempted) -> Outgoing:
    try:
        return make()
    except SigningFailed as error:
        raise unsigned(error, tried) from error.__cause__


def _may_have_been_done(outcome: Answer | Failure) -> bool:
    if isinstance(outcome, Failure):
        return outcome.sent
    return outcome.status not in _REFUSED or outcome.status == _TIMED_OUT


def _named(answer: Answer) -> str | None:
    name = answer.headers.get("X-Request-Id", "")
    return name if 0 < len(name) <= 128 and name.isascii() and name.isprintable() else None


def _summary(outcome: Answer | Failure) -> str:
    if isinstance(outcome, Failure):
        return outcome.problem
    return f"{outcome.status}, {len(outcome.body)} bytes"
