"""One call to the service: its token and signature, its turn, retries within a deadline.

Tokens are asked for by scope, shared by all calls and threads, and renewed in time (§5.1).

Here stands what may be sent again and what may have been done (``may_repeat``, ``in_doubt``), how
long to wait (``pause_before``, ``Pace``), and what becomes an exception. Whether a call can be
repeated at all, because the service knows it by its ``ref_id``, is said by
``Caller._send`` (`fundlab.client.calls`).
"""

from __future__ import annotations

import json
import logging
import os
import random
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote_plus, urlsplit

from fundlab.base.errors import (
    CallError,
    DeadlineExceeded,
    NetworkError,
    ProtocolError,
    RateLimited,
    ScopeMissing,
    SigningFailed,
    Unavailable,
)
from fundlab.base.threads import caller_gone
from fundlab.base.values import Instant
from fundlab.client.http import (
    MASK,
    Answer,
    Failure,
    MaskedBytes,
    MaskedText,
    Outgoing,
    clock_skew,
    retry_after_seconds,
)
from fundlab.client.problems import (
    Attempted,
    no_turn,
    redirected,
    service_error,
    settles,
    token_error,
    unanswered,
    unsigned,
)
from fundlab.settings.secret import Secret
from fundlab.settings.settings import Settings

if TYPE_CHECKING:
    from fundlab.client.connections import Http
    from fundlab.client.signing import Signer

log: Final = logging.getLogger("fundlab.api")
USER_AGENT: Final = "fundlab/0.1"
_HEADERS: Final = {
    "Accept": "application/json, application/problem+json",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": USER_AGENT,
}
_INSTANCE: Final = re.compile(r"[0-9a-f]{32}")
_UNAUTHORIZED: Final = 401
_SHORTEST_IN_RESOURCES: Final = 16
_SHORTEST_UNSENT: Final = 8
_NOTABLE_PAUSE_S: Final = 1.0
_NAP_S: Final = 0.1

MAX_ATTEMPTS: Final = 6
MAX_RETRY_AFTER_S: Final = 120.0
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 10.0
TOO_MANY: Final = 429
RETRYABLE: Final = {408, 425, 500, 502, 503, 504, *range(520, 530)}
"""Statuses of a service, or what is before it, that may answer at the next try."""


class CallerGone(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True)
class Call:
    """What one operation sends: ``target`` is the path and query, encoded as they go out.

    ``repeatable``: sending the same bytes twice does no more than sending them once. ``again``:
    what to do when it is unknown whether it was carried out. ``rows``: how many the answer has at
    most, which bounds its size. ``changes``: it may do more than read.
    """

    operation: str
    method: str
    target: str
    scope: str
    body: bytes | None = field(default=None, repr=False)
    repeatable: bool = False
    again: str = "trying again is safe"
    rows: int = 1
    changes: bool = True


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
        self._pace = Pace(settings.rate_limit, self._env.clock)
        self._tokens = TokenSource(self.fetch_token, self._env.clock)
        self._widest = TokenSource(self.fetch_token, self._env.clock)
        """Of calls that name no scope: asked for with none, a token has all that are granted."""
        self._opening = threading.Lock()
        self._opened: Http | None = None
        self._answered, self._instance = False, ""
        # Of the last answer: when it was by the service, by us, and in a sandbox's business time.
        self._dated: tuple[str, float, str] = "", 0.0, ""

    def send(self, call: Call) -> Reply:
        """Carry out ``call``; the service's answer to it.

        Raises ``ServiceError`` (the service said no), ``NetworkError`` (no usable answer),
        ``ProtocolError`` (an answer that is not the interface's).
        """
        env, settings = self._env, self._settings
        started, request_id = env.clock(), env.new_id()
        deadline = started + settings.call_timeout
        changes = call.changes and call.method != "GET"
        tried = Attempted(
            call.operation, call.operation, request_id, call.scope, call.again, changes=changes
        )
        headers = {**_HEADERS, "X-Request-Id": request_id}
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        url = f"{self._origin}{self._base_path}{call.target}"
        request = Outgoing(call.method, url, headers, call.body, call.rows)
        tokens = self._tokens if call.scope else self._widest
        status, lost = "failed", None
        try:
            for renewed in (False, True):  # a token that is not accepted any more is renewed once
                token = tokens.token(call.scope, operation=call.operation, deadline=deadline)
                bearer = {"Authorization": MaskedText(f"Bearer {token.reveal()}")}
                answer = self._until_settled(
                    replace(request, headers=headers | bearer), tried,
                    repeatable=call.repeatable, deadline=deadline, signer=self._signer,
                )  # fmt: skip
                done_once = call.repeatable or not tried.in_doubt
                if renewed or answer.status != _UNAUTHORIZED or not done_once:
                    break
                tokens.reject(token)
            answer = without(answer, token, settings.client_secret)
            self._note(answer)
            status = str(answer.status)
            named = answer.headers.get("X-Request-Id", "")
            if 0 < len(named) <= 128 and named.isascii() and named.isprintable():
                request_id = named
        except CallError as error:
            if not (tried.in_doubt and changes):
                error.unsent = not tried.in_doubt
                raise
            lost = error
        finally:
            spent = (env.clock() - started) * 1000
            log.info("%s %s in %.0f ms, request %s", call.operation, status, spent, request_id)
        if lost is not None:  # raised here: frames further down hold headers
            raise lost.doubted() from lost.__cause__
        if answer.status < 300:
            return Reply(answer.body, request_id, answer.status)
        tried.request_id = request_id
        refused: CallError = (
            redirected(answer, tried)
            if answer.status < 400
            else service_error(answer, tried, env.now())
        )
        if isinstance(refused, ScopeMissing):  # once it is granted, the next token has it
            tokens.reject(token)
        refused.refused = not tried.in_doubt
        raise refused.doubted() if tried.in_doubt and changes else refused

    def fetch_token(
        self, scopes: frozenset[str], *, operation: str, deadline: float | None = None
    ) -> Grant:
        """Ask the token endpoint for exactly ``scopes`` (§5.1)."""
        env, settings, asked_at = self._env, self._settings, self._env.clock()
        tried = Attempted(
            f"{operation}, asking for a token", operation, env.new_id(), " ".join(sorted(scopes)),
            setting="auth_url",
        )  # fmt: skip
        # Made further down: no frame of a call holds the secret as it is.
        form, content_type = token_form(settings.client_id, settings.client_secret, tried.scope)
        headers = {**_HEADERS, "Content-Type": content_type, "X-Request-Id": tried.request_id}
        answer = self._until_settled(
            Outgoing("POST", f"{settings.auth_url}/oauth2/token", headers, form),
            tried,
            repeatable=True,
            deadline=asked_at + settings.call_timeout if deadline is None else deadline,
        )
        log.debug("token for %s: %d, request %s", tried.scope, answer.status, tried.request_id)
        if answer.status >= 300:
            answer = without(answer, settings.client_secret)
            if answer.status >= 400:
                raise token_error(answer, tried, env.now())
            raise redirected(answer, tried)
        grant = read_grant(answer, scopes, asked_at)
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
        tried = Attempted(operation, operation, self._env.new_id(), scope="")
        headers = {**_HEADERS, "X-Request-Id": tried.request_id}
        return self._until_settled(
            Outgoing("GET", f"{self._origin}{self._base_path}/v2/events", headers),
            tried,
            repeatable=True,
            deadline=self._env.clock() + self._settings.call_timeout,
        )

    def _note(self, answer: Answer) -> None:
        """Who answers, and when it is there."""
        if "Date" in answer.headers:
            business = answer.headers.get("Sandbox-Time", "")
            self._dated = answer.headers["Date"], self._env.now(), business
        self._answered, self._instance = True, answer.headers.get("Sandbox-Instance", "")

    def _ask_once(self) -> None:
        """For an answer, where there was none so far."""
        if not self._answered:
            self._note(self.probe("list_events"))

    def instance(self) -> str | None:
        """Which of the sandboxes that were ever started there answers; ``None``: it does not say.

        By the last answer; asks for one where there was none so far.
        """
        self._ask_once()
        return self._instance if _INSTANCE.fullmatch(self._instance) else None

    @property
    def skew_s(self) -> float:
        """Seconds by which the service's clock is ahead of this one, by its last answer."""
        date, ours, _ = self._dated
        return clock_skew(date, ours) or 0.0

    def service_ns(self, now: int) -> int:
        """``now`` (ns since 1970, by this machine's clock) by that of the service: a sandbox's is
        its business time. By the last answer; asks for one where there was none so far."""
        self._ask_once()
        date, ours, business = self._dated
        if business and not self._settings.is_production:
            with suppress(ValueError):  # not a sandbox of ours
                return now + Instant.parse(business).ns - round(ours * 1e9)
        return now + round((clock_skew(date, ours) or 0.0) * 1e9)

    def new_ref_id(self) -> str:
        """A name that no other request has."""
        return f"fundlab-{self._env.new_id()}"

    def close(self) -> None:
        if self._opened is not None:  # else nothing was sent
            self._opened.close()

    def _until_settled(
        self,
        request: Outgoing,
        tried: Attempted,
        *,
        repeatable: bool,
        deadline: float,
        signer: Signer | None = None,
    ) -> Answer:
        """Send ``request``, signed anew each time, until there is an answer to keep."""
        from fundlab.client.connections import Http  # a third of what a connection takes to make

        env, settings, attempt, refusals = self._env, self._settings, 0, 0
        with self._opening:
            if self._opened is None:
                self._opened = Http(
                    connect_timeout=settings.connect_timeout,
                    read_timeout=settings.read_timeout,
                    ca_bundle=str(settings.ca_bundle) if settings.ca_bundle else None,
                    trust_env=settings.trust_env,
                )
            http = self._opened
        while True:
            attempt += 1

            # Wait for a turn; who gives up leaves its place to others.
            turn, wait = object(), float("inf")
            try:
                while 0 < (wait := self._pace.wait_s(turn)) <= deadline - env.clock():
                    if wait >= _NOTABLE_PAUSE_S:
                        log.info(
                            "%s: its turn comes in %.0f s, request %s",
                            tried.name, wait, tried.request_id,
                        )  # fmt: skip
                    self._sleep(wait)
            finally:
                self._pace.leave(turn)
            if wait > 0:
                raise no_turn(tried, wait)
            gone = caller_gone.get(None)
            if gone is not None and gone():
                raise CallerGone

            # Sign it: a signature says when it was made, so each attempt has its own.
            signed = request
            if signer is not None:
                try:
                    from fundlab.client.signing import request_signature

                    signature = request_signature(
                        signer,
                        method=request.method,
                        target=request.url.removeprefix(self._origin),
                        body=request.body or b"",
                        timestamp=int(env.now()),
                        prefix=settings.signature_prefix,
                    )
                except SigningFailed as error:
                    raise unsigned(error, tried) from error.__cause__
                header = {settings.signature_header: signature}
                signed = replace(request, headers={**request.headers, **header})

            # Send it. Only a refusal of the service itself says that nothing was done.
            sent_at = env.clock()
            outcome = http.exchange(signed, deadline - sent_at)
            if isinstance(outcome, Failure):
                summary = outcome.problem
                tried.in_doubt = tried.in_doubt or outcome.sent
            else:
                summary = f"{outcome.status}, {len(outcome.body)} bytes"
                tried.in_doubt = tried.in_doubt or not settles(outcome)
            log.debug(
                "%s, attempt %d: %s, request %s",
                tried.name, attempt, summary, tried.request_id,
            )  # fmt: skip
            if isinstance(outcome, Answer) and outcome.status not in (TOO_MANY, *RETRYABLE):
                self._pace.accepted(sent_at)
                return outcome

            # No answer to keep yet: try again later, if that is safe and there is time.
            if not may_repeat(outcome, repeatable=repeatable):
                break
            asked = (
                retry_after_seconds(outcome.headers.get("Retry-After"), env.now())
                if isinstance(outcome, Answer)
                else None
            )
            if isinstance(outcome, Answer) and outcome.status == TOO_MANY:
                # All calls of this client slow down together; refusals count against the time only.
                refusals += 1
                if asked is not None and asked > MAX_RETRY_AFTER_S:
                    break
                pause = self._pace.refused(sent_at, asked, env.draw())
                log.log(
                    logging.WARNING if self._pace.is_news("refusals") else logging.INFO,
                    "%s: the service takes no more requests now (429); waiting %.1f s, then going "
                    "on at the pace it accepts, request %s",
                    tried.name, pause, tried.request_id,
                )  # fmt: skip
                if env.clock() + pause >= deadline:
                    break
                continue
            if asked is not None and asked <= MAX_RETRY_AFTER_S:
                self._pace.hold(asked)
            pause = pause_before(attempt - refusals, asked, env.draw())
            too_late = env.clock() + pause >= deadline
            if attempt - refusals >= MAX_ATTEMPTS or pause > MAX_RETRY_AFTER_S or too_late:
                break
            news = pause >= _NOTABLE_PAUSE_S and self._pace.is_news("failures")
            log.log(
                logging.WARNING if news else logging.INFO,
                "%s, attempt %d: %s; waiting %.0f s before the next, request %s",
                tried.name, attempt, summary, pause, tried.request_id,
            )  # fmt: skip
            self._sleep(pause)
        if isinstance(outcome, Answer):
            return outcome
        where, late = urlsplit(request.url).netloc, env.clock() >= deadline
        raise unanswered(outcome, tried, where, attempts=attempt, late=late)

    def _sleep(self, seconds: float) -> None:
        """In naps, where another thread may go away meanwhile for whom this is done."""
        gone = caller_gone.get(None)
        if gone is None:
            self._env.sleep(seconds)
            return
        while seconds > 0:
            if gone():
                raise CallerGone
            self._env.sleep(min(seconds, _NAP_S))
            seconds -= _NAP_S


# ------------------------------------------------------------------------------ access tokens


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
            until = now + min(_EARLY_RENEWAL_S, (deadline - now) / 2) if early else deadline
            alone = frozenset({scope})
            wanted = alone | held.scopes if held else alone
            try:
                try:
                    grant = self._fetch(wanted, operation=operation, deadline=until)
                except ScopeMissing:  # this scope, or one held before that was taken away since
                    if wanted == alone:
                        raise
                    grant = self._fetch(alone, operation=operation, deadline=until)
            except (NetworkError, RateLimited, Unavailable) as error:
                if early is None:
                    raise
                now = self._clock()
                if now < early.expires_at:
                    log.warning(
                        "%s: the token could not be renewed early (%s); it serves for %.0f s more",
                        operation, type(error).__name__, early.expires_at - now,
                    )  # fmt: skip
                    until = min(now + _EARLY_RENEWAL_S, early.expires_at)
                    with self._swap:
                        if self._grant is early:  # not rejected meanwhile
                            self._grant = replace(early, use_until=until)
                    return early.token
            else:
                with self._swap:
                    self._grant = grant
                return grant.token
        finally:
            renewal.release()
        return self.token(scope, operation=operation, deadline=deadline)  # it has ended meanwhile

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
    from urllib3.filepost import encode_multipart_formdata

    body, content_type = encode_multipart_formdata(
        {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": client_secret.reveal(),
            **({"scope": scope} if scope else {}),
        }
    )
    return MaskedBytes(body), content_type


def read_grant(given: Answer, scopes: frozenset[str], asked_at: float) -> Grant | str:
    """The grant in an answer of the token endpoint, or what is wrong with it."""
    try:
        answer = json.loads(given.body)  # which no frame above shows
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


# ------------------------------------------------------------------------------ when to send again


def may_repeat(outcome: Answer | Failure, *, repeatable: bool) -> bool:
    """Whether the same bytes may be sent again after ``outcome``, and might then succeed.

    What was never sent, or refused with 429, may always; the rest only when ``repeatable`` (a read,
    or a create whose ``ref_id`` stops a second one).
    """
    if isinstance(outcome, Failure):
        return not outcome.final and (repeatable or not outcome.sent)
    return outcome.status == TOO_MANY or (repeatable and outcome.status in RETRYABLE)


def pause_before(attempt: int, retry_after: float | None, draw: float) -> float:
    """Seconds to wait before the retry after ``attempt`` (from 1); ``draw`` is in [0, 1).

    At least ``retry_after``, and never less than without it: a service that says 0 is not pressed.
    """
    own = min(_FIRST_PAUSE_S * 2.0 ** (attempt - 1), _LONGEST_PAUSE_S) * (0.5 + draw / 2)
    return own if retry_after is None else max(retry_after, own)


# ------------------------------------------------------------------------------ when to send at all


_MEMORY_S: Final = 10.0
"""What was accepted before says nothing about how fast the service takes requests now."""
_LONGEST_GAP_S: Final = 2.0
"""A slower service names its pauses itself, or is asked ever more rarely."""
_SHORTEST_GAP_S: Final = 0.001
_FASTER: Final = 0.15
_SLOWER: Final = 1.3
_CLEAN_S: Final = 10.0
_CLEAN_COUNT: Final = 10
_FORGIVEN_AFTER: Final = 20
"""Accepted requests, and pauses' lengths of time, after which a refusal more slows nobody down."""
_EPISODE_S: Final = 60.0


class Pace:
    """Whose turn it is to send. Thread-safe.

    Calls line up, and turns come ``1 / rate_limit`` seconds apart. Where the service refuses
    requests as too many (429), all wait for as long as it asks, and turns come as far apart from
    then on as those it accepted. Further refusals slow down, clean stretches speed up, each by
    steps that grow as long as they go the same way. What was learned stays with the client.
    """

    def __init__(self, rate_limit: float | None, clock: Callable[[], float]) -> None:
        self._own_gap = self._gap = 1 / rate_limit if rate_limit else 0.0
        self._clock = clock
        self._next = float("-inf")
        self._accepted: deque[float] = deque()
        self._changed_at = float("-inf")
        self._faster = self._refusals = self._clean = 0
        self._learning = False
        self._good_gap = 0.0  # that a clean stretch was sent at; 0 where none is known
        self._troubles: dict[str, float] = {}
        self._begin()

    def leave(self, turn: object) -> None:
        """Nothing, where it was taken."""
        with self._lock:
            if turn in self._line:
                self._line.remove(turn)

    def wait_s(self, turn: object) -> float:
        """Seconds until ``turn`` comes, as far as is known now; 0 takes it.

        A turn that is new stands at the end of the line, until it is taken or left.
        """
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            if turn not in self._line:
                self._line.append(turn)
            now = self._clock()
            moment = self._next + (self._line.index(turn) * self._gap if self._gap else 0)
            if moment > now:
                return moment - now
            self._line.remove(turn)
            self._next = max(now, self._next) + self._gap
            return 0.0

    def hold(self, seconds: float) -> None:
        """Nobody sends for ``seconds``: the service asked for a pause."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)

    def accepted(self, sent_at: float) -> None:
        """A request sent at ``sent_at`` was not too many."""
        with self._lock:
            now = self._clock()
            self._accepted.append(sent_at)
            if sent_at < self._changed_at:
                if self._learning and now < self._next:  # of the burst that was refused
                    self._gap = self._measured()
                return
            while self._accepted and self._accepted[0] < now - _MEMORY_S:
                self._accepted.popleft()
            self._clean, self._refusals = self._clean + 1, 0
            clean_s = now - self._changed_at
            if self._gap > self._own_gap and self._clean >= _CLEAN_COUNT and clean_s >= _CLEAN_S:
                self._good_gap = self._gap
                self._gap = max(self._gap / (1 + _FASTER * 2.0**self._faster), self._own_gap)
                if self._gap < _SHORTEST_GAP_S:
                    self._gap = self._own_gap
                self._faster += 1
                self._changed_at, self._clean = now, 0

    def refused(self, sent_at: float, asked: float | None, draw: float) -> float:
        """A request sent at ``sent_at`` was one too many: the seconds that nobody sends now.

        ``asked`` is what the service names, ``draw`` in [0, 1) the chance in what it does not.
        """
        with self._lock:
            now = self._clock()
            changed_at, news = self._changed_at, sent_at >= self._changed_at
            self._refusals += news
            pause = pause_before(max(self._refusals, 1), asked, draw)
            self._next = max(self._next, now + pause)
            if not news:
                return pause
            self._changed_at, self._learning = now, self._gap <= self._own_gap
            if self._learning:
                self._gap = self._measured()
            elif self._gap < self._good_gap:
                self._gap = self._good_gap
            elif self._clean < _FORGIVEN_AFTER or now - changed_at < _FORGIVEN_AFTER * pause:
                self._gap = min(self._gap * _SLOWER, max(_LONGEST_GAP_S, self._own_gap))
                self._good_gap = 0.0
            self._faster = self._clean = 0
            return pause

    def is_news(self, trouble: str) -> bool:
        """Whether ``trouble`` of this kind begins now: not met in the last minute."""
        with self._lock:
            now = self._clock()
            before = self._troubles.get(trouble, float("-inf"))
            self._troubles[trouble] = now
            return now - before > _EPISODE_S

    def _begin(self) -> None:
        """The line of this process: a forked one has not the threads that wait in its parent's."""
        self._process, self._lock = os.getpid(), threading.Lock()
        self._line: list[object] = []

    def _measured(self) -> float:
        """The seconds between two requests that the service accepted, its pause among them: of
        those sent shortly before it refused one, however late their answers come.
        """
        burst = [at for at in self._accepted if at >= self._changed_at - _MEMORY_S]
        measured = (self._next - min(burst, default=self._changed_at)) / max(len(burst), 1)
        return max(min(measured, _LONGEST_GAP_S), self._own_gap)


# ------------------------------------------------------------- answers that repeat what was sent


def without(answer: Answer, sent: Secret, *others: Secret) -> Answer:
    """``answer`` without the secret that was ``sent``, nor ``others`` that the service knows.

    A text so short that it may stand in a resource by chance is left there; so are short
    ``others`` everywhere.
    """
    refused = answer.status >= 300
    shortest = _SHORTEST_UNSENT if refused else _SHORTEST_IN_RESOURCES
    secrets = [secret for secret in (sent, *others) if len(secret.reveal()) >= shortest]
    if refused and sent not in secrets:
        secrets.append(sent)
    body, headers = answer.body, answer.headers
    for secret in secrets:
        spellings = secret.spellings()
        for spelling in spellings:
            body = body.replace(spelling, MASK.encode())
        if refused or b"\\" in body:  # escapes spell one text in many ways: compare what they say
            try:
                plain = json.dumps(json.loads(body))
            except (ValueError, RecursionError):
                plain = ""
            masked = plain.replace(json.dumps(secret.reveal())[1:-1], MASK)
            body = body if masked == plain else masked.encode()
        for name in ("Location", "X-Request-Id"):  # messages show them
            if name not in headers:
                continue
            raw = headers[name].encode("latin-1", "replace")  # as http.client reads headers
            for spelling in spellings:
                raw = raw.replace(spelling, MASK.encode())
            read = {unquote_plus(raw.decode(coding, "replace")) for coding in ("utf-8", "latin-1")}
            shown = raw.decode("latin-1")
            if any(secret.reveal() in text for text in read):
                shown = MASK
            if shown != headers[name]:
                from urllib3 import HTTPHeaderDict  # as the answer's own are, loaded by then

                headers = HTTPHeaderDict(headers)
                headers[name] = shown
    return replace(answer, body=body, headers=headers)
