"""Error answers as exceptions: RFC 9457 problems, and RFC 6749 errors of the token endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from fundlab.api.http import Answer
from fundlab.api.retries import retry_after_seconds
from fundlab.errors import (
    AuthenticationFailed,
    Conflict,
    InsufficientFunds,
    NotFound,
    PermissionDenied,
    RateLimited,
    ScopeMissing,
    ServiceError,
    Unavailable,
    ValidationFailed,
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
    409: Conflict,
    422: ValidationFailed,
    429: RateLimited,
}


def service_error(
    answer: Answer,
    *,
    operation: str,
    request_id: str,
    scope: str,
    now: float,
    credential_hint: str = _CREDENTIAL_HINT,
) -> ServiceError:
    """The error that ``answer`` (status 400 and up) stands for, with what to do next."""
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
        operation=operation,
        request_id=_text(answer.headers.get("X-Request-Id")) or request_id,
        hint=_hint(error, answer, scope, now, credential_hint),
    )


def token_error(
    answer: Answer, *, operation: str, request_id: str, scope: str, now: float
) -> ServiceError:
    """The error of the token endpoint that ``answer`` stands for (RFC 6749 §5.2)."""
    members = _members(answer.body)
    code = members.get("error")
    if not isinstance(code, str):
        return service_error(
            answer,
            operation=operation,
            request_id=request_id,
            scope=scope,
            now=now,
            credential_hint=_CLIENT_HINT,
        )
    kinds: dict[str, tuple[type[ServiceError], str | None]] = {
        "invalid_scope": (ScopeMissing, _scope_hint(scope)),
        "invalid_client": (AuthenticationFailed, _CLIENT_HINT),
        "unauthorized_client": (AuthenticationFailed, _CLIENT_HINT),
    }
    fallback: type[ServiceError] = Unavailable if answer.status >= 500 else ValidationFailed
    kind, hint = kinds.get(code, (fallback, None))
    return kind(
        answer.status,
        _text(code) or "error",
        _text(members.get("error_description")),
        operation=operation,
        request_id=request_id,
        hint=hint,
    )


def _scope_hint(scope: str) -> str:
    return f"ask the administrator to grant the scope {scope} to this credential"


def _denial(kind: str, meta: Mapping[str, Any], text: str) -> type[ServiceError]:
    if kind.endswith("insufficient-funds"):
        return InsufficientFunds
    named = kind.endswith("scope") or any("scope" in str(key) for key in meta)
    return ScopeMissing if named or "scope" in text.lower() else PermissionDenied


def _hint(
    error: type[ServiceError], answer: Answer, scope: str, now: float, credential_hint: str
) -> str | None:
    if error is ScopeMissing:
        return _scope_hint(scope)
    if error is AuthenticationFailed:
        return _skew_hint(answer.headers.get("Date"), now) or credential_hint
    if error in (RateLimited, Unavailable):
        return _later_hint(answer.headers.get("Retry-After"), now)
    return None


def _skew_hint(date: str | None, now: float) -> str | None:
    skew = clock_skew(date, now)
    if skew is None or abs(skew) <= _SKEW_S:
        return None
    way = "behind" if skew > 0 else "ahead of"
    return f"this machine's clock is {abs(skew):.0f} s {way} the service's: set it right"


def clock_skew(date: str | None, now: float) -> float | None:
    """Seconds by which the service's ``Date`` is ahead of ``now``; ``None`` if unreadable."""
    try:
        return parsedate_to_datetime(date or "").timestamp() - now
    except (ValueError, OverflowError):
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
    return "".join(char if char.isprintable() else " " for char in value[:_LONGEST_TEXT])


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
