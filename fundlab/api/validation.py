"""Requests checked before they are sent, answers read; both failures in readable sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from fundlab.errors import DataError, InvalidRequest, ProtocolError, shorten
from fundlab.models import Request, Resource

_PRIVATE: Final = {"fiat_account_owner", "fiat_network_instructions", "metadata"}
_PREFIX: Final = "Value error, "
_START: Final = 60

Given = TypeVar("Given", bound=BaseModel)
Answered = TypeVar("Answered", bound=Resource)


def checked(model: type[Given], operation: str, values: Mapping[str, Any]) -> Given:
    """``values`` (those that are not ``None``) as ``model``.

    Raises ``InvalidRequest`` naming what is wrong; it repeats nothing of bank details and metadata.
    """
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problems = [_problem(dict(item)) for item in error.errors(include_url=False)]
    raise InvalidRequest(f"{operation}: {'; '.join(dict.fromkeys(problems))}; nothing was sent")


def body_bytes(request: Request, operation: str) -> bytes:
    """The JSON of ``request``: compact, UTF-8, the bytes that are signed and sent."""
    text = json.dumps(request.to_json(), separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        at = text[max(0, error.start - 20) : error.start]
    raise InvalidRequest(f"{operation}: not valid Unicode after {at!r}; nothing was sent")


def read_answer(
    model: type[Answered], operation: str, body: bytes, page: int | None = None
) -> Answered:
    """``body`` as ``model``.

    Raises ``ProtocolError`` when it is no JSON object of that shape and ``DataError``, naming
    record and field, when one record is malformed.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        raise ProtocolError(
            f"{operation}: the answer is not JSON ({_start(body)}); check base_url: is this the "
            "service, or a proxy or portal before it?"
        )
    location = first["loc"]
    if not location:
        raise ProtocolError(f"{operation}: the answer is not a JSON object ({_start(body)})")
    raise DataError(
        _sentence(dict(first)),
        table=operation,
        page=page,
        record=_record(body, location),
        field=_path(location) or None,
        value=None if first["type"] == "missing" else first["input"],
    )


def _problem(error: dict[str, Any]) -> str:
    location = error["loc"]
    sentence = _sentence(error)
    if not location:
        return sentence
    value = error["input"]
    showable = location[0] not in _PRIVATE and isinstance(value, str | int | float)
    shown = f" ({shorten(value)} given)" if showable and repr(value) not in sentence else ""
    return f"{_path(location)}: {sentence}{shown}"


def _sentence(error: dict[str, Any]) -> str:
    if error["type"] == "missing":
        return "is missing"
    text = str(error["msg"])
    return text.removeprefix(_PREFIX)


def _path(location: tuple[int | str, ...]) -> str:
    """The field's name within its record, without the alternatives that pydantic tried."""
    inner = location
    for depth, part in enumerate(location[:-1]):
        if isinstance(part, int):
            inner = location[depth + 1 :]
            break
    return ".".join(part for part in inner if isinstance(part, str) and part.isidentifier())


def _record(body: bytes, location: tuple[int | str, ...]) -> str | None:
    """The id of the record that ``location`` lies in, or its position in the page."""
    node = json.loads(body)
    for depth, part in enumerate(location):
        if isinstance(part, int) and isinstance(node, list):
            row = node[part]
            known = row.get("id") if isinstance(row, dict) else None
            return known if isinstance(known, str) else f"number {part + 1}"
        node = node.get(part) if isinstance(node, dict) and depth == 0 else None
    whole = json.loads(body)
    known = whole.get("id")
    return known if isinstance(known, str) else None


def _start(body: bytes) -> str:
    return f"it starts {body[:_START]!r}" if body else "it is empty"


def unlisted_values(resource: Resource) -> list[tuple[str, str]]:
    """The fields of ``resource`` whose value is in no enumeration of the interface, with it."""
    return [
        (name, value)
        for name in _enumerated(type(resource))
        if type(value := getattr(resource, name)) is str
    ]


@cache
def _enumerated(model: type[Resource]) -> tuple[str, ...]:
    return tuple(
        name for name, field in model.model_fields.items() if _names_enum(field.annotation)
    )


def _names_enum(annotation: Any) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, StrEnum)
    return get_origin(annotation) is not list and any(map(_names_enum, get_args(annotation)))
