"""Everything fundlab raises on purpose.

::

    FundlabError
    ├── SettingsError            a setting is missing, malformed or unsafe
    ├── InvalidRequest           refused here, before anything was sent
    ├── NetworkError             no usable answer arrived
    │   └── DeadlineExceeded     the call's time was used up
    ├── ProtocolError            an answer that is not the interface's (not JSON, wrong shape)
    │   └── DataError            one record of it is malformed: table, page, record, field, value
    ├── ServiceError             the service said no (RFC 9457 problem)
    │   ├── ValidationFailed     400
    │   ├── AuthenticationFailed 401, and invalid_client at the token endpoint
    │   ├── PermissionDenied     403
    │   │   ├── ScopeMissing     403 or invalid_scope: ask the administrator
    │   │   └── InsufficientFunds
    │   ├── NotFound             404
    │   ├── Conflict             409: the ref_id stands for something else
    │   ├── RateLimited          429
    │   └── Unavailable          5xx
    ├── StoreError               the store cannot be used as asked
    │   ├── StoreLocked          another run holds it
    │   └── StoreDamaged         a file is not what was written
    ├── AnalysisError            a frame or argument an analysis cannot use as asked
    ├── ActionError              a plan, confirmation or wait that cannot go on
    └── SandboxError             the embedded sandbox could not start, stop or do as told
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class FundlabError(Exception):
    """Root of every error fundlab raises on purpose. ``str()`` says what and what to do."""


class SettingsError(FundlabError):
    """A setting is missing, malformed or unsafe."""


class InvalidRequest(FundlabError):
    """The request breaks the interface's rules; nothing was sent."""


class NetworkError(FundlabError):
    """No usable answer arrived: connection refused, reset, cut short or too slow."""


class DeadlineExceeded(NetworkError):
    """The whole call, retries included, took longer than it may."""


class ProtocolError(FundlabError):
    """An answer arrived that the interface does not describe (not JSON, wrong shape, endless)."""


class DataError(ProtocolError):
    """One record is malformed, so nothing of its page is kept.

    Attributes: ``table``, ``page`` (number from 1 or ``None``), ``record`` (id, or position in the
    page), ``field`` and ``value`` (shortened text).
    """

    def __init__(
        self,
        problem: str,
        *,
        table: str,
        page: int | None = None,
        record: str | None = None,
        field: str | None = None,
        value: object = None,
    ) -> None:
        self.problem, self.table, self.page = problem, table, page
        self.record, self.field, self.value = record, field, value
        where = [table]
        if page is not None:
            where.append(f"page {page}")
        if record is not None:
            where.append(f"record {record}")
        if field is not None:
            where.append(f"field {field!r}")
        shown = f": {shorten(value)}" if value is not None else ""
        super().__init__(f"{', '.join(where)}: {problem}{shown}")


class ServiceError(FundlabError):
    """The service answered with an error (interface §7; body as RFC 9457).

    Attributes: ``status`` (HTTP), ``title``, ``detail`` (or ``None``), ``meta`` (mapping, possibly
    empty), ``type`` (problem URI), ``operation`` (snake case, or ``None``), ``request_id``.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str | None = None,
        meta: Mapping[str, Any] | None = None,
        *,
        type: str = "about:blank",
        operation: str | None = None,
        request_id: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.status, self.title, self.detail = status, title, detail
        self.meta: dict[str, Any] = dict(meta or {})
        self.type, self.operation, self.request_id, self.hint = type, operation, request_id, hint
        text = f"{status} {title}"
        if operation:
            text = f"{operation}: {text}"
        if detail:
            text += f": {detail}"
        if hint:
            text += f" ({hint})"
        super().__init__(text)


class ValidationFailed(ServiceError):
    """400: the service found a field, cursor or limit invalid."""


class AuthenticationFailed(ServiceError):
    """401: token or signature missing, unknown or lapsed; or the client is unknown."""


class PermissionDenied(ServiceError):
    """403."""


class ScopeMissing(PermissionDenied):
    """The credential lacks the scope of the operation."""


class InsufficientFunds(PermissionDenied):
    """403: the available balance does not cover amount plus fee."""


class NotFound(ServiceError):
    """404: no such resource, or one of another customer."""


class Conflict(ServiceError):
    """409: the ``ref_id`` was used before; ``meta["existing"]`` is what it made."""


class RateLimited(ServiceError):
    """429: too many requests."""


class Unavailable(ServiceError):
    """5xx: the service cannot answer now."""


class StoreError(FundlabError):
    """The store cannot be used as asked."""


class StoreLocked(StoreError):
    """Another run holds the store."""


class StoreDamaged(StoreError):
    """A file of the store is not what was written."""


class AnalysisError(FundlabError):
    """A frame or argument an analysis cannot use: a column, value or row it will not guess at."""


class ActionError(FundlabError):
    """A plan, confirmation or wait cannot go on."""


class SandboxError(FundlabError):
    """The embedded sandbox could not start, stop or do as told."""


class UnknownValueWarning(UserWarning):
    """The service sent an enumeration value that the interface does not list; it is kept as is."""


class UnheededFilterWarning(UserWarning):
    """The service sent rows that a filter excludes; they were left out here."""


def shorten(value: object, limit: int = 80) -> str:
    """``repr`` of ``value``, cut to about ``limit`` characters, for messages."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
