"""Refusals: RFC 9457 problems for the interface (§7), RFC 6749 errors for the token endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from fundlab.base.errors import SandboxError

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
PROBLEM_TYPES: Final = "https://problems.fundlab.invalid/"


class Refusal(SandboxError):
    """A request the sandbox refuses; ``body()`` is what it answers."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str | None = None,
        title: str | None = None,
        meta: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.type = PROBLEM_TYPES + kind if kind else "about:blank"
        self.title = title or phrase(status)
        self.meta, self.headers = dict(meta or {}), dict(headers or {})

    def body(self) -> bytes:
        problem = {
            "type": self.type,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "meta": self.meta,
        }
        return json.dumps({name: value for name, value in problem.items() if value != {}}).encode()


class TokenRefusal(SandboxError):
    """The token endpoint's own kind of error (RFC 6749 §5.2)."""

    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(description)
        self.status, self.error, self.description = status, error, description

    def body(self) -> bytes:
        return json.dumps({"error": self.error, "error_description": self.description}).encode()


def phrase(status: int) -> str:
    """The standard title of an HTTP status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def invalid(field: str, message: str, **meta: Any) -> Refusal:
    """400: ``field`` is at fault."""
    return Refusal(400, f"{field}: {message}", meta={"field": field, **meta})


def first_fault(error: ValidationError, model: type[BaseModel] | None = None) -> tuple[str, str]:
    """Member and message of what is wrong first, no value quoted; an unknown member is told those
    of ``model``."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    known = ""
    if model is not None and first["type"] == "extra_forbidden":
        known = f"; known: {', '.join(model.model_fields)}"
    return ".".join(map(str, first["loc"])), f"{first['msg']}{known}"


def unauthorized(detail: str) -> Refusal:
    """401, with the challenge that HTTP asks for."""
    return Refusal(401, detail, headers={"WWW-Authenticate": "Bearer"})


def scope_missing(needed: str, found: list[str]) -> Refusal:
    """403: the token lacks the operation's scope."""
    detail = f"the token lacks the scope {needed}"
    meta = {"needed": needed, "found": found}
    return Refusal(403, detail, kind="insufficient-scope", title="Insufficient scope", meta=meta)


def insufficient_funds(profile_id: str, asset: str, available: str, needed: str) -> Refusal:
    """403: the available balance does not cover ``needed``."""
    return Refusal(
        403,
        f"{needed} {asset} needed, {available} available",
        kind="insufficient-funds",
        title="Insufficient funds",
        meta={
            "profile_id": profile_id,
            "asset": asset,
            "available": available,
            "needed": needed,
        },
    )


def not_found(what: str, field: str, value: str) -> Refusal:
    """404: no such resource, or another customer's."""
    return Refusal(404, f"no {what} {value[:128]!r}", meta={"field": field})


def conflict(detail: str, existing: Mapping[str, Any]) -> Refusal:
    """409: what the ``ref_id`` (or the rule's source) stands for already."""
    return Refusal(409, detail, kind="conflict", meta={"existing": dict(existing)})
