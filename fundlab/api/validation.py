"""Requests checked before they are sent, answers read; both failures in readable sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from fundlab.errors import DataError, InvalidRequest, ProtocolError, shorten
from fundlab.models import FiatNetworkInstructions, Request, Resource
from fundlab.secret import without_numbers

_PRIVATE: Final = {"fiat_account_owner", "fiat_network_instructions", "metadata"}
MODEL_NAMES: Final = {"page_size": "limit"}
"""Keywords that the interface knows under another name."""
_MALFORMED: Final = "the answer breaks the interface: show it to the operator of the service"
_NOT_THE_SERVICE: Final = "check base_url: is this the service, or a proxy or portal before it?"
_PREFIX: Final = "Value error, "
_START: Final = 60
_NUMBER_BEGINS: Final = re.compile(rb'"(?:account_number|account_id|wallet_address|iban)"\s*:')

_MASKED: Final = re.compile(r"(?:X+|•+).{0,4}", re.DOTALL)  # by a service, or as shown here

Given = TypeVar("Given", bound=BaseModel)
Answered = TypeVar("Answered", bound=Resource)


def checked(model: type[Given], operation: str, values: Mapping[str, Any]) -> Given:
    """``values`` (keywords of an operation, those that are not ``None``) as ``model``.

    Raises ``InvalidRequest`` naming what is wrong; it repeats nothing of bank details and metadata.
    """
    names = {MODEL_NAMES.get(name, name): name for name in values}
    given = {
        name: values[keyword] for name, keyword in names.items() if values[keyword] is not None
    }
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problems = [_problem(dict(item), names) for item in error.errors(include_url=False)]
    raise InvalidRequest(f"{operation}: {'; '.join(dict.fromkeys(problems))}; nothing was sent")


def body_bytes(request: Request, operation: str) -> bytes:
    """The JSON of ``request``: compact, UTF-8, the bytes that are signed and sent.

    Raises ``InvalidRequest`` for a request without members, and for an account number as lists and
    reprs show it: sent back, the mask would replace the number.
    """
    if masked := _masked_number(getattr(request, "fiat_network_instructions", None)):
        raise InvalidRequest(
            f"{operation}: fiat_network_instructions.{masked} is masked, as it is shown: it "
            "would replace the real one; give the complete number (an attribute of what "
            "get_fiat_account returns); nothing was sent"
        )
    content = request.to_json()
    if not content:
        raise InvalidRequest(
            f"{operation}: nothing to change is given; give one of "
            f"{', '.join(type(request).model_fields)}; nothing was sent"
        )
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        at = text[max(0, error.start - 20) : error.start]
    raise InvalidRequest(f"{operation}: not valid Unicode after {at!r}; nothing was sent")


def refuse_slips(request: Request, operation: str, values: Mapping[str, Any]) -> None:
    """Raise ``InvalidRequest`` for members of plain dicts in ``values`` that no model knows."""
    unknown = [name for name in values for name in _unknown(name, values[name], request)]
    if unknown:
        raise InvalidRequest(
            f"{operation}: {', '.join(unknown)} is not in the interface: a slip? (to send it "
            "nevertheless, give the object as a model of fundlab.models); nothing was sent"
        )


def _unknown(name: str, given: Any, parent: BaseModel) -> Iterator[str]:
    """The members of the dict ``given`` as ``name`` of ``parent`` that no model knows."""
    parsed = getattr(parent, name, None)
    if not isinstance(given, Mapping) or not isinstance(parsed, Resource):
        return
    known = type(parsed).model_fields
    for member, value in given.items():
        if member not in known:
            yield f"{name}.{member}"
        for nested in _unknown(member, value, parsed):
            yield f"{name}.{nested}"


def _masked_number(instructions: FiatNetworkInstructions | None) -> str | None:
    """Which number of ``instructions`` is all ``X`` but for its end."""
    if instructions is None:
        return None
    wire, cubix = instructions.wire, instructions.cubix
    numbers = {
        "wire.account_number": wire.account_number if wire else None,
        "cubix.account_id": cubix.account_id if cubix else None,
    }
    return next((name for name, text in numbers.items() if _MASKED.fullmatch(text or "")), None)


def read_answer(
    model: type[Answered],
    operation: str,
    body: bytes,
    *,
    page: int | None = None,
    request_id: str | None = None,
    hint: str | None = None,
    status: int | None = 200,
) -> Answered:
    """``body`` as ``model``; ``hint`` is what to do when that fails, where more than a read did.

    Raises ``ProtocolError`` when it is no JSON object of that shape and ``DataError``, naming
    record and field, when one record is malformed.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    location = first["loc"]
    if first["type"] == "json_invalid" or not location:
        kind = "not JSON" if first["type"] == "json_invalid" else "not a JSON object"
        raise ProtocolError(
            f"{operation}: the answer is {kind} ({_start(body)})",
            hint=hint or _NOT_THE_SERVICE,
            operation=operation,
            request_id=request_id,
            status=status,
        )
    raise DataError(
        _sentence(dict(first)),
        table=operation,
        page=page,
        record=_record(body, location),
        field=_path(location) or None,
        value=None
        if first["type"] == "missing"
        else without_numbers(first["input"], _path(location)),
        hint=hint or _MALFORMED,
        operation=operation,
        request_id=request_id,
    )


def _problem(error: dict[str, Any], keywords: Mapping[str, str]) -> str:
    location = error["loc"]
    sentence = _sentence(error)
    if not location:
        return sentence
    value = error["input"]
    showable = location[0] not in _PRIVATE and isinstance(value, str | int | float)
    shown = f" ({shorten(value)} given)" if showable and repr(value) not in sentence else ""
    field = _path(location)
    return f"{keywords.get(field, field)}: {sentence}{shown}"


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
    whole = json.loads(body)
    rows = whole.get(location[0])
    at = location[1] if len(location) > 1 else None
    if isinstance(rows, list) and isinstance(at, int):
        known = rows[at].get("id") if isinstance(rows[at], dict) else None
        return known if isinstance(known, str) else f"number {at + 1}"
    known = whole.get("id")
    return known if isinstance(known, str) else None


def _start(body: bytes) -> str:
    shown = _NUMBER_BEGINS.split(body[:_START])[0]
    return f"it starts {shown!r}" if body else "it is empty"


def unlisted_values(resource: Resource) -> list[tuple[str, str]]:
    """``Model.field`` and value of all in ``resource`` that no enumeration of the interface has."""
    found: list[tuple[str, str]] = []
    for name in _enumerated(type(resource)):
        value = getattr(resource, name)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Resource):
                found += unlisted_values(one)
            elif type(one) is str:  # a listed value is a member of its enumeration
                found.append((f"{type(resource).__name__}.{name}", one))
    return found


@cache
def _enumerated(model: type[Resource]) -> tuple[str, ...]:
    """The fields of ``model`` that are of an enumeration, or hold resources with such fields."""
    return tuple(
        name for name, field in model.model_fields.items() if _names_enum(field.annotation)
    )


def _names_enum(annotation: Any) -> bool:
    if not isinstance(annotation, type):
        return any(map(_names_enum, get_args(annotation)))
    if issubclass(annotation, Resource):
        return bool(_enumerated(annotation))
    return issubclass(annotation, StrEnum)
