"""Calls of paths that the interface does not describe: signed, retried and paged as its own are.

A path is one of the same service, below ``base_url``. What is sent and read is plain JSON here:
nothing is known of it, so nothing is checked but that it can be sent and read without losing a
digit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from fundlab.base.errors import InvalidRequest, ProtocolError, a_type, shorten
from fundlab.base.values import Instant, check_unicode
from fundlab.client.calls import encoded_target, how_to_repeat
from fundlab.client.transport import Call, Reply
from fundlab.models import OPERATIONS

_PATH: Final = re.compile(r"(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)+", re.ASCII)
_COMPARED: Final = re.compile(r"_(lt|lte|eq|gte|gt)\Z")
_ROWS: Final = 1000
_UNSENT: Final = "; nothing was sent"
_OPERATIONS: Final = {
    (op.method, re.compile(re.sub(r"\{\w+\}", "[^/]+", op.path))): op for op in OPERATIONS.values()
}


def call_of(
    method: str, path: str, scope: str | None, params: Mapping[str, Any], body: object = None,
    new_ref_id: Callable[[], str] = lambda: "",
) -> Call:  # fmt: skip
    """What to send. Raises ``InvalidRequest`` for what cannot be, before anything leaves.

    A create of the interface is sent with a ``ref_id``, a new one where ``body`` has none. Of a
    path that the interface describes its scope is known; of another one all scopes that the
    credential has are asked for, unless ``scope`` names one.
    """
    label = f"{method} {shorten(path)}"
    steps = path.split("/") if isinstance(path, str) else []
    if not steps or not _PATH.fullmatch(path) or {".", ".."} & set(steps):
        raise InvalidRequest(
            f"path={shorten(path)} is not accepted; give a path of this service such as "
            "/v2/profiles, percent-encoded, and its query as keywords; nothing was sent"
        )
    pairs = [
        (_COMPARED.sub(r".\1", name), text)
        for name, value in params.items()
        for text in _texts(value, f"{label}: {name}")
    ]
    if scope is not None:
        check_unicode(scope, f"scope={shorten(scope)}", _UNSENT)
    known = next(
        (op for (of, at), op in _OPERATIONS.items() if of == method and at.fullmatch(path)), None
    )
    changes = known.changes if known else method != "GET"
    content, repeatable, again = None, True, "trying again is safe"
    if method != "GET":
        plain = _plain(body, "body")
        # by a ref_id the service knows a second one: of a path that takes one, as far as is known
        takes = known is not None and known.body is not None and "ref_id" in known.body.model_fields
        repeatable = takes and isinstance(plain, dict)
        if repeatable:
            plain["ref_id"] = plain.get("ref_id") or new_ref_id()
        again = how_to_repeat(plain["ref_id"] if repeatable else None) if changes else again
        content = json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()
    limit = dict(pairs).get("limit", "")
    return Call(
        f"{method} {path}", method, encoded_target(path, params=pairs),
        scope if scope is not None else known.scope if known else "", content, repeatable, again,
        rows=int(limit) if limit.isascii() and limit.isdecimal() else _ROWS, changes=changes,
    )  # fmt: skip


def read_json(call: Call, reply: Reply) -> Any:
    """What an answer says; numbers with a point are ``Decimal``, and no answer is ``None``.

    Raises ``ProtocolError`` where it is not JSON.
    """
    if not reply.body.strip():
        return None
    try:
        return json.loads(reply.body, parse_float=Decimal)
    except (ValueError, RecursionError):
        pass  # its context would show the answer
    raise ProtocolError(
        f"{call.operation}: the answer is not JSON",
        hint="check the path: is it of the service's interface?" if not call.changes
        else "it was probably carried out: look for it before trying again",
        operation=call.operation,
        request_id=reply.request_id,
        status=reply.status,
    )  # fmt: skip


def _texts(value: Any, what: str) -> list[str]:
    """A value of a query as the texts that are sent: none for ``None``, one for each of a list."""
    if value is None:
        return []
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, str | int | UUID):
        return [str(value)]
    if isinstance(value, Decimal) and value.is_finite():
        return [f"{value:f}"]
    if isinstance(value, Instant | datetime | date):
        return [_time(value, what)]
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        return [text for one in value for text in _texts(one, what)]
    raise InvalidRequest(
        f"{what} is {a_type(value)}; give text, a whole number, a Decimal, a time, a flag "
        "or a list of such; nothing was sent"
    )


def _time(value: Instant | date, what: str) -> str:
    try:
        return str(Instant.parse(value))
    except ValueError as error:
        raise InvalidRequest(f"{what}: {error}; nothing was sent") from None


def _plain(value: Any, place: str) -> Any:
    """``value`` as JSON has it: amounts and times as text, and no number that has lost digits."""
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(mode="json", exclude_none=True), place)
    if isinstance(value, str):
        check_unicode(value, place, _UNSENT)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}"
    if isinstance(value, Instant | datetime):
        return _time(value, place)
    if isinstance(value, UUID | date):
        return str(value)
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        for name in value:
            check_unicode(name, f"a name in {place}, {shorten(name)},", _UNSENT)
        return {name: _plain(member, f"{place}.{name}") for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member, f"{place}.{number}") for number, member in enumerate(value)]
    raise InvalidRequest(
        f"{place} is {a_type(value)}; give text, a whole number, a Decimal, a time, a "
        "flag, a list or a mapping of names; nothing was sent"
    )
