"""What arrives, read strictly: what FastAPI and the models leave unchecked, and its errors as 400s.

By hand are the JSON that Python's parser lets pass (repeated keys, NaN, NUL, unpaired surrogates,
great depth), and query strings that are not UTF-8, hold a NUL, or repeat a parameter of one value:
FastAPI would take the last one.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from fundlab.models import Operation, Query
from fundlab.models.requests import sentence
from fundlab.sandbox.refusals import Refusal, invalid

MAX_BODY_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 32
MAX_QUERY_PAIRS: Final = 2_000

_FIELD_NAME = re.compile(r"[a-z_]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_JSON_TYPE = re.compile(r"application/json\s*(;.*)?", re.IGNORECASE)


class DuplicateKey(ValueError):
    """A JSON object names one member twice."""


def check_content_type(content_types: Sequence[str]) -> None:
    """Raises the 415 ``Refusal`` for what is not JSON."""
    if len(content_types) != 1 or _JSON_TYPE.fullmatch(content_types[0].strip()) is None:
        raise Refusal(415, "the content type must be application/json")


def read_json_object(body: bytes) -> dict[str, Any]:
    """A JSON object without duplicate keys, non-finite numbers, NUL or unpaired surrogates."""

    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            raise DuplicateKey("an object repeats a key")
        return members

    def finite(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"{text[:20]} is not a JSON number, or too large")
        return value

    try:
        value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=without_duplicates,
            parse_constant=finite,
            parse_float=finite,
        )
    except UnicodeDecodeError:
        detail = "the body is not UTF-8"
    except RecursionError:
        detail = "the body is nested too deeply"
    except ValueError as error:  # DuplicateKey and JSONDecodeError among them
        detail = f"the body is not acceptable JSON: {ascii(str(error))[1:-1][:200]}"
    else:
        if not isinstance(value, dict):
            detail = "the body must be a JSON object"
        elif fault := _unacceptable(value):
            detail = fault
        else:
            return value
    raise Refusal(400, detail, meta={"field": "body"})


def _unacceptable(value: Any) -> str | None:
    """What is wrong with the texts or the depth of ``value``, walked without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for entry in level:
            if isinstance(entry, str):
                if "\0" in entry:
                    return "the body holds a NUL character"
                if _SURROGATE.search(entry):
                    return "the body holds an unpaired surrogate"
            elif isinstance(entry, dict):
                deeper += [*entry, *entry.values()]
            elif isinstance(entry, list):
                deeper += entry
        if not deeper:
            return None
        level = deeper
    return f"the body is nested more than {MAX_DEPTH} levels deep"


def check_query(operation: Operation, query_string: bytes) -> None:
    """Raises a 400 ``Refusal`` for a query string that FastAPI would read as another one, or not at
    all: where an operation takes no parameters."""
    if not query_string:
        return
    if query_string.count(b"&") >= MAX_QUERY_PAIRS:
        raise Refusal(400, f"more than {MAX_QUERY_PAIRS} query parameters")
    try:
        pairs = parse_qsl(query_string.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "the query string is not UTF-8") from None
    if any("\0" in name + value for name, value in pairs):
        raise Refusal(400, "the query string holds a NUL")
    repeated = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    if operation.query is None:
        for name, _ in pairs:
            raise invalid(ascii(name)[1:-1][:80], "unknown parameter; this operation takes none")
    else:
        fields, lists = operation.query.model_fields, operation.query.lists
        known = {field.alias or name: name for name, field in fields.items()}
        for name, _ in pairs:
            if name in fields and name not in known:  # as keywords spell it: created_at_gte
                raise invalid(name, f"unknown parameter; known: {', '.join(known)}")
        for name in repeated:
            if known.get(name) not in lists:
                raise invalid(ascii(name)[1:-1][:80], "given more than once")


def refusal_of(operation: Operation, errors: Sequence[dict[str, Any]]) -> Refusal:
    """What FastAPI found in query and body, as the interface's 400. It repeats nothing given."""
    model = operation.body or operation.query or Query
    fields = model.model_fields
    faults = []
    for error in sorted(errors, key=lambda one: one["type"] != "extra_forbidden"):  # a slip first
        _, *location = error["loc"]
        if operation.query is not None:
            location = location[:1]  # the parameter, not which of its values
        field = ascii(".".join(map(str, location)))[1:-1][:80]
        if operation.query is not None and error["type"] == "extra_forbidden":
            known = (given.alias or name for name, given in fields.items())
            message = f"unknown parameter; known: {', '.join(known)}"
        else:
            message = sentence({**error, "loc": tuple(location)}, model)[:300]
        if not location:
            # a rule between fields is at the first field its message names
            named = (word for word in _FIELD_NAME.findall(message) if word in fields)
            field = next(named, "body")
            message = message.removeprefix(f"{field} ")
        faults.append({"field": field, "message": message})
    return invalid(faults[0]["field"], faults[0]["message"], errors=faults[:20])
