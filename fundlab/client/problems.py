"""Whatever is not a result, as an exception that says what to do next.

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

from fundlab.base.errors import (
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
from fundlab.client.http import Answer, Failure, clock_skew, retry_after_seconds

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
_SCOPE_HINT: Final = "ask the administrator to grant the scope {} to this credential"


@dataclass
class Attempted:
    """A call as messages ``name`` it, or the asking for its token.

    ``again`` says what to do when it is unknown whether the service carried it out; ``changes``:
    it does more than read; ``in_doubt``: an attempt so far may have been carried out.
    """

    name: str
    operation: str
    request_id: str
    scope: str
    again: str = "trying again is safe"
    changes: bool = False
    setting: str = "base_url"
    in_doubt: bool = False


def settles(answer: Answer) -> bool:
    """Whether ``answer`` is a refusal of the service itself, so that nothing was carried out: a
    problem body (RFC 9457) of a status that says so. Pages and answers of what stands before the
    service say nothing of it, nor does a failure, a time-out (408, 425) or a redirect."""
    if not 400 <= answer.status < 500 or _BY_STATUS.get(answer.status) is Unavailable:
        return False
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    problem = json_members(answer.body)
    given = isinstance(problem.get("title"), str), problem.get("status") == answer.status
    if kind == "application/problem+json":  # each member may be absent
        return any(given) and problem.get("status", answer.status) == answer.status
    return kind == "application/json" and all(given)


def token_error(answer: Answer, tried: Attempted, now: float) -> ServiceError:
    """The error of the token endpoint that ``answer`` stands for (RFC 6749 §5.2)."""
    members = json_members(answer.body)
    code = members.get("error")
    if not isinstance(code, str):
        return service_error(answer, tried, now, _CLIENT_HINT)
    kinds: dict[str, tuple[type[ServiceError], str]] = {
        "invalid_scope": (ScopeMissing, _SCOPE_HINT.format(tried.scope)),
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
        one_line(code) or "error",
        one_line(members.get("error_description")),
        operation=tried.operation,
        request_id=tried.request_id,
        hint=hint,
    )


def service_error(
    answer: Answer, tried: Attempted, now: float, credential_hint: str = _CREDENTIAL_HINT
) -> ServiceError:
    """The error that ``answer`` (status 400 and up) stands for; ``now`` is in UNIX seconds."""
    problem = json_members(answer.body)
    meta = problem.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    kind = str(problem.get("type") or "about:blank")
    title, detail = one_line(problem.get("title")), one_line(problem.get("detail"))
    error = _BY_STATUS.get(answer.status, Unavailable if answer.status >= 500 else ServiceError)
    if error is PermissionDenied:
        words = f"{problem.get('title')} {detail}".lower()
        if kind.endswith("insufficient-funds"):
            error = InsufficientFunds
        elif kind.endswith("scope") or "scope" in words or any("scope" in str(k) for k in meta):
            error = ScopeMissing
    if title is None:
        known = answer.status in set(HTTPStatus)
        title = HTTPStatus(answer.status).phrase if known else "Error"

    retry_after = answer.headers.get("Retry-After")
    in_doubt = tried.again if tried.in_doubt and tried.changes else ""
    if error is ScopeMissing:
        hint = _SCOPE_HINT.format(tried.scope or "that the path needs")
    elif error is AuthenticationFailed:
        hint = credential_hint
        skew = clock_skew(answer.headers.get("Date"), now)
        if skew is not None and abs(skew) > _SKEW_S:
            way = "behind" if skew > 0 else "ahead of"
            hint = f"this machine's clock is {abs(skew):.0f} s {way} the service's: set it right"
        elif b"timestamp" in answer.body:
            hint = "check this machine's clock (signatures are valid for 30 minutes)"
            hint += ": fundlab doctor"
    elif error is RateLimited:
        hint = when_to_try_again(retry_after, now)
    elif error is Unavailable:
        hint, in_doubt = (tried.again if tried.changes else ""), ""
        if retry_after is not None or not tried.changes:
            hint += "; " * bool(hint) + when_to_try_again(retry_after, now)
    elif error is NotFound and tried.setting == "auth_url":
        hint = "check auth_url: it is what comes before /oauth2/token"
    elif error is NotFound and tried.operation.startswith("list_"):
        hint = "check base_url: it is what comes before /v2"
    elif in_doubt:  # what this answer refuses may be what an earlier attempt has made
        hint, in_doubt = in_doubt, ""
    else:
        hint = _HINTS[error]
    return error(
        answer.status,
        title,
        detail,
        meta,
        type=kind,
        operation=tried.operation,
        request_id=one_line(answer.headers.get("X-Request-Id")) or tried.request_id,
        hint=f"{hint}; {in_doubt}" if in_doubt else hint,
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


def when_to_try_again(retry_after: str | None, now: float) -> str:
    seconds = retry_after_seconds(retry_after, now)
    if seconds is None:
        return "try again later"
    try:
        moment = datetime.fromtimestamp(now, UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return f"try again in {seconds:.0f} s"
    return f"try again after {moment:%Y-%m-%dT%H:%M:%SZ}, in {seconds:.0f} s"


def json_members(body: bytes) -> dict[str, Any]:
    """The members of an object; of anything else none."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def one_line(value: object) -> str | None:
    """Text of the service as a message may show it: one line, printable, not endless."""
    if not isinstance(value, str) or not value:
        return None
    return printable(" ".join(value.split())[:_LONGEST_TEXT])
