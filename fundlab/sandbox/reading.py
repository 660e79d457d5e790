"""What arrives, read strictly: JSON bodies and query strings become checked models, or a 400."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, Final, TypeVar, get_args
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ValidationError

from fundlab.models import (
    CryptoNetwork,
    FiatNetworkInstructions,
    Query,
    Request,
    TransferStatus,
    TransferType,
)
from fundlab.sandbox.problems import Refusal, invalid

MAX_BODY_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 32
MAX_QUERY_PAIRS: Final = 2_000

AMOUNT_FIELDS: Final = ("amount", "total")
LISTED_VALUES: Final[dict[str, type[StrEnum]]] = {
    "type": TransferType,
    "statuses": TransferStatus,
    "crypto_networks": CryptoNetwork,
}
"""Filters whose values the interface enumerates; the models leave them open for newer servers."""

_INTEGER = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_NAME = re.compile(r"[a-z_]+")
_JSON_TYPE = re.compile(r"application/json\s*(;.*)?", re.IGNORECASE)

RequestT = TypeVar("RequestT", bound=Request)
QueryT = TypeVar("QueryT", bound=Query)
ModelT = TypeVar("ModelT", bound=BaseModel)


class DuplicateKey(ValueError):
    """A JSON object names one member twice."""


def read_body(model: type[RequestT], body: bytes, content_types: Iterable[str]) -> RequestT:
    """The request's body as ``model``. Raises a 400 or 415 ``Refusal``."""
    declared = list(content_types)
    if len(declared) != 1 or _JSON_TYPE.fullmatch(declared[0].strip()) is None:
        raise Refusal(415, "the content type must be application/json")
    raw = read_json_object(body)
    for name in AMOUNT_FIELDS:
        if name in model.model_fields and not isinstance(raw.get(name, ""), str | None):
            raise invalid(name, "must be a decimal string such as '100.00'")
    _refuse_unknown(model, raw)
    return _validated(model, raw)


def _refuse_unknown(model: type[BaseModel], given: dict[str, Any], within: str = "") -> None:
    """Members that ``model`` does not have, at every depth: a slip in one must not lose it."""
    for name, value in given.items():
        field = model.model_fields.get(name)
        if field is None:
            known = ", ".join(model.model_fields)
            kind = "network" if model is FiatNetworkInstructions else "member"
            raise invalid(f"{within}{ascii(name)[1:-1][:80]}", f"unknown {kind}; known: {known}")
        if isinstance(value, dict):
            for part in _models_in(field.annotation):
                _refuse_unknown(part, value, f"{within}{name}.")


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def read_json_object(body: bytes) -> dict[str, Any]:
    """A JSON object without duplicate keys, non-finite numbers, NUL or unpaired surrogates."""
    try:
        value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except UnicodeDecodeError:
        raise Refusal(400, "the body is not UTF-8", meta={"field": "body"}) from None
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply", meta={"field": "body"}) from None
    except ValueError as error:  # DuplicateKey and JSONDecodeError among them
        detail = f"the body is not acceptable JSON: {ascii(str(error))[1:-1][:200]}"
        raise Refusal(400, detail, meta={"field": "body"}) from None
    if not isinstance(value, dict):
        raise Refusal(400, "the body must be a JSON object", meta={"field": "body"})
    _check_texts(value)
    return value


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """``object_pairs_hook`` that refuses a repeated key."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise DuplicateKey("an object repeats a key")
    return members


def read_query(model: type[QueryT], query_string: bytes) -> QueryT:
    """The query string as ``model``: arrays repeat the key. Raises a 400 ``Refusal``."""
    grouped: dict[str, list[str]] = {}
    for name, value in _pairs(query_string):
        grouped.setdefault(name, []).append(value)
    given: dict[str, Any] = {}
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for name, values in grouped.items():
        field = fields.get(name)
        if field is None:
            raise invalid(ascii(name)[1:-1][:80], f"unknown parameter; known: {', '.join(fields)}")
        if "list[" in str(field.annotation).lower():
            given[name] = values
        elif len(values) > 1:
            raise invalid(name, "given more than once")
        else:
            given[name] = _scalar(name, values[0], field.annotation)
    _check_listed(given)
    return _validated(model, {name: value for name, value in given.items() if value is not None})


def _pairs(query_string: bytes) -> list[tuple[str, str]]:
    chunks = [chunk for chunk in query_string.split(b"&") if chunk]
    if len(chunks) > MAX_QUERY_PAIRS:
        raise Refusal(400, f"more than {MAX_QUERY_PAIRS} query parameters")
    pairs = []
    for chunk in chunks:
        name, _, value = chunk.partition(b"=")
        try:
            pair = (_unquote(name), _unquote(value))
        except UnicodeDecodeError:
            raise Refusal(400, "the query string is not UTF-8") from None
        if "\0" in pair[0] + pair[1]:
            raise Refusal(400, "the query string holds a NUL")
        pairs.append(pair)
    return pairs


def _unquote(text: bytes) -> str:
    return unquote_to_bytes(text.replace(b"+", b" ")).decode("utf-8")


def _scalar(name: str, text: str, annotation: Any) -> Any:
    if name == "page_cursor" and not text:
        return None
    if annotation is int:
        if _INTEGER.fullmatch(text) is None:
            raise invalid(name, f"{text[:40]!a} is not a whole number")
        return int(text)
    if annotation == bool | None:
        if text not in ("true", "false"):
            raise invalid(name, f"{text[:40]!a} is neither true nor false")
        return text == "true"
    return text


def _check_listed(given: dict[str, Any]) -> None:
    for name, values in given.items():
        kind = LISTED_VALUES.get(name)
        if kind is None or not isinstance(values, list):
            continue
        if unknown := [value for value in values if value not in set(kind)]:
            listed = ", ".join(kind)
            raise invalid(name, f"{unknown[0][:40]!a} is none of {listed}")


def _validated(model: type[ModelT], given: dict[str, Any]) -> ModelT:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = [
            _fault(model, entry["loc"], entry["msg"].removeprefix("Value error, ")[:300])
            for entry in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        first = found[0]
        raise invalid(first["field"], first["message"], errors=found[:20]) from None


def _fault(model: type[BaseModel], place: tuple[int | str, ...], message: str) -> dict[str, str]:
    """What is wrong where. A rule between fields is at the first field its message names."""
    field = ".".join(str(part) for part in place)
    if not field:
        named = (word for word in _NAME.findall(message) if word in model.model_fields)
        field = next(named, "body")
        message = message.removeprefix(f"{field} ")
    return {"field": field, "message": message}


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _check_texts(value: Any) -> None:
    """Walk without recursion: depth, NUL and surrogates."""
    level = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for entry in level:
            if isinstance(entry, str):
                _check_text(entry)
            elif isinstance(entry, dict):
                for key in entry:
                    _check_text(key)
                deeper += entry.values()
            elif isinstance(entry, list):
                deeper += entry
        if not deeper:
            return
        level = deeper
    detail = f"the body is nested more than {MAX_DEPTH} levels deep"
    raise Refusal(400, detail, meta={"field": "body"})


def _check_text(text: str) -> None:
    if "\0" in text:
        raise Refusal(400, "the body holds a NUL character", meta={"field": "body"})
    try:
        text.encode()
    except UnicodeEncodeError:
        detail = "the body holds an unpaired surrogate"
        raise Refusal(400, detail, meta={"field": "body"}) from None
