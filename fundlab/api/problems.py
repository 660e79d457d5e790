"""What is no result, as exceptions that say what to do next.

Error answers are RFC 9457 problems, those of the token endpoint RFC 6749 errors; the rest are
redirects and answers that never came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from fundlab.api.http import Answer, Failure
from fundlab.api.retries import http_date, retry_after_seconds
from fundlab.errors import (
    AuthenticationFailed,
    CallError,
    Conflict,
    DeadlineExceeded,
    InsufficientFunds,
    NetworkError,
    NotFound,
    PermissionDenied,
    ProtocolError,
    RateLimited,
    ScopeMissing,
    ServiceError,
    SigningFailed,
    Unavailable,
    ValidationFailed,
    printable,
    shorten,
)

_LONGEST_TEXT: Final = 500
_SKEW_S: Final = 300
_CLIENT_HINT: Final = (
    "check client_id and client_secret, and that they belong to this auth_url; "
    "a rotated credential has a new secret"
)
_CREDENTIAL_HINT: Final = (
    "the token or the request's signature was not accepted: check the credential, "
    "signing_key and signing_key_id, or run: fundlab doctor"
)
_BY_STATUS: Final[Mapping[int, type[ServiceError]]] = {
    400: ValidationFailed,
    401: AuthenticationFailed,
    403: PermissionDenied,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    422: ValidationFailed,
    425: Unavailable,
    429: RateLimited,
}
_HINTS: Final[Mapping[type[ServiceError], str]] = {
    ValidationFailed: "change what it names, then call again",
    PermissionDenied: "ask the administrator what this credential may do",
    InsufficientFunds: "ask for less, or wait for a deposit: see get_profile_balance",
    NotFound: "check the id, and that base_url and the credential are those it belongs to",
    Conflict: "look at what there is already before trying again",
    ServiceError: "check base_url; if it is right, show the operator of the service the request_id",
}


@dataclass
class Attempted:
    """A call as messages name it, or the asking for its token.

    ``again`` says what to do when it is unknown whether the service carried it out; ``changes``:
    it does more than read; ``in_doubt``: an attempt so far may have been carried out.
    """

    operation: str
    request_id: str
    scope: str
    again: str = "trying again is safe"
    changes: bool = False
    step: str = ""
    setting: str = "base_url"
    in_doubt: bool = False

    @property
    def name(self) -> str:
        return self.operation + self.step


def service_error(answer: Answer, tried: Attempted, now: float) -> ServiceError:
    """The error that ``answer`` (status 400 and up) stands for; ``now`` is in UNIX seconds."""
    return _service_error(answer, tried, now, _CREDENTIAL_HINT)


def token_error(answer: Answer, tried: Attempted, now: float) -> ServiceError:
    """The error of the token endpoint that ``answer`` stands for (RFC 6749 §5.2)."""
    members = _members(answer.body)
    code = members.get("error")
    if not isinstance(code, str):
        return _service_error(answer, tried, now, _CLIENT_HINT)
    kinds: dict[str, tuple[type[ServiceError], str]] = {
        "invalid_scope": (ScopeMissing, _scope_hint(tried.scope)),
        "invalid_client": (AuthenticationFailed, _CLIENT_HINT),
        "unauthorized_client": (AuthenticationFailed, _CLIENT_HINT),
    }
    fallback = (
        (Unavailable, "try again later")
        if answer.status >= 500
        else (ValidationFailed, "check auth_url: is this the token endpoint of the service?")
    )
    kind, hint = kinds.get(code, fallback)
    return kind(
        answer.status,
        _text(code) or "error",
        _text(members.get("error_description")),
        operation=tried.operation,
        request_id=tried.request_id,
        hint=hint,
    )


def redirected(answer: Answer, tried: Attempted) -> ProtocolError:
    """The error for an answer of status 3xx: no redirect is followed."""
    place = shorten(answer.headers.get("Location", "nowhere"))
    return ProtocolError(
        f"{tried.name}: the service answered {answer.status}, a redirect to {place}, which is not "
        "followed",
        hint=f"check {tried.setting}" + (f"; {tried.again}" if tried.changes else ""),
        operation=tried.operation,
        request_id=tried.request_id,
        status=answer.status,
    )


def unanswered(
    failure: Failure, tried: Attempted, where: str, *, attempts: int, late: bool
) -> CallError:
    """The error for no usable answer from ``where``; ``late``: the call's time is up."""
    kind: type[CallError] = DeadlineExceeded if late else NetworkError
    if failure.final and not tried.in_doubt:
        kind = NetworkError
        hint = f"nothing was sent; {failure.hint or f'check {tried.setting}'}"
        if "certificate" in failure.problem:
            hint += "; if the certificate is of your own authority, name it in ca_bundle"
    elif failure.final:
        kind = ProtocolError
        hint = "look at what answers there: the service, or a proxy before it?"
        hint += f"; {tried.again}" if tried.changes else ""
    elif tried.in_doubt:
        hint = tried.again
    else:
        hint = f"nothing was sent; check {tried.setting}, the network and the proxy, then try again"
    tries = f" after {attempts} attempts" if attempts > 1 else ""
    return kind(
        f"{tried.name}: {where}: {failure.problem}{tries}",
        hint=hint,
        operation=tried.operation,
        request_id=tried.request_id,
    )


def no_turn(tried: Attempted, wait_s: float) -> DeadlineExceeded:
    """The error for a call whose turn comes after its time, by the client's own rate limit."""
    return DeadlineExceeded(
        f"{tried.name}: its turn would come in {wait_s:.0f} s, after the call's time",
        hint=tried.again
        if tried.in_doubt
        else "nothing was sent; try again later, or with fewer workers",
        operation=tried.operation,
        request_id=tried.request_id,
    )


def unsigned(error: SigningFailed, tried: Attempted) -> SigningFailed:
    """``error`` as that of a call: its signer gave no signature."""
    return SigningFailed(
        f"{tried.name}: {error.problem}",
        hint=f"this attempt was not sent, but an earlier one was: {tried.again}"
        if tried.in_doubt
        else "nothing was sent; check the signer, then try again",
        operation=tried.operation,
        request_id=tried.request_id,
    )


def clock_skew(date: str | None, now: float) -> float | None:
    """Seconds by which the service's ``Date`` is ahead of ``now``; ``None`` if unreadable."""
    moment = http_date(date or "")
    return None if moment is None else moment.timestamp() - now


def _service_error(
    answer: Answer, tried: Attempted, now: float, credential_hint: str
) -> ServiceError:
    problem = _members(answer.body)
    meta = problem.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    kind = str(problem.get("type") or "about:blank")
    detail = _text(problem.get("detail"))
    error = _BY_STATUS.get(answer.status, Unavailable if answer.status >= 500 else ServiceError)
    if error is PermissionDenied:
        error = _denial(kind, meta, f"{problem.get('title')} {detail}")
    return error(
        answer.status,
        _text(problem.get("title")) or _phrase(answer.status),
        detail,
        meta,
        type=kind,
        operation=tried.operation,
        request_id=_text(answer.headers.get("X-Request-Id")) or tried.request_id,
        hint=_hint(error, answer, tried, now, credential_hint),
    )


def _scope_hint(scope: str) -> str:
    return f"ask the administrator to grant the scope {scope} to this credential"


def _denial(kind: str, meta: Mapping[str, Any], text: str) -> type[ServiceError]:
    if kind.endswith("insufficient-funds"):
        return InsufficientFunds
    named = kind.endswith("scope") or any("scope" in str(key) for key in meta)
    return ScopeMissing if named or "scope" in text.lower() else PermissionDenied


def _hint(
    error: type[ServiceError], answer: Answer, tried: Attempted, now: float, credential_hint: str
) -> str:
    if error is ScopeMissing:
        hint = _scope_hint(tried.scope)
    elif error is AuthenticationFailed:
        hint = _skew_hint(answer, now) or credential_hint
    elif error is RateLimited:
        hint = _later_hint(answer.headers.get("Retry-After"), now)
    elif error is Unavailable:
        later = answer.headers.get("Retry-After")
        hints = [tried.again] if tried.changes else []
        if later is not None or not tried.changes:
            hints.append(_later_hint(later, now))
        return "; ".join(hints)
    elif error is NotFound and tried.setting == "auth_url":
        hint = "check auth_url: it is what comes before /oauth2/token"
    elif error is NotFound and tried.operation.startswith("list_"):
        hint = "check base_url: it is what comes before /v2"
    elif tried.in_doubt and tried.changes:
        return tried.again  # what this answer refuses may be what an earlier attempt has made
    else:
        return _HINTS[error]
    return f"{hint}; {tried.again}" if tried.in_doubt and tried.changes else hint


def _skew_hint(answer: Answer, now: float) -> str | None:
    skew = clock_skew(answer.headers.get("Date"), now)
    if skew is not None and abs(skew) > _SKEW_S:
        way = "behind" if skew > 0 else "ahead of"
        return f"this machine's clock is {abs(skew):.0f} s {way} the service's: set it right"
    if b"timestamp" in answer.body:
        return "check this machine's clock (signatures are valid for 30 minutes): fundlab doctor"
    return None


def _later_hint(retry_after: str | None, now: float) -> str:
    seconds = retry_after_seconds(retry_after, now)
    if seconds is None:
        return "try again later"
    try:
        moment = datetime.fromtimestamp(now, UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return f"try again in {seconds:.0f} s"
    return f"try again after {moment:%Y-%m-%dT%H:%M:%SZ}, in {seconds:.0f} s"


def _members(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _text(value: object) -> str | None:
    """Text of the service as a message may show it: one line, printable, not endless."""
    if not isinstance(value, str) or not value:
        return None
    return printable(" ".join(value.split())[:_LONGEST_TEXT])


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
