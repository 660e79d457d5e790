"""The OpenAPI 3.1 document, made from the operations and their models.

It describes what the sandbox enforces and gives: every operation, parameter, scope, answer and
problem.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from fundlab.models import OPERATIONS, SCOPES, Operation, Problem, Query, Token
from fundlab.sandbox.openapi_answers import answered, closed
from fundlab.sandbox.openapi_bodies import INSTANT_PATTERN, with_rules
from fundlab.sandbox.openapi_links import links
from fundlab.sandbox.problems import PROBLEM_MEDIA_TYPE, phrase
from fundlab.sandbox.reading import LISTED_VALUES

Json = dict[str, Any]

COMPONENTS: Final = "#/components/schemas/"
AMOUNT_NOTE: Final = "Decimal strings; money is never a JSON number."
PROBLEMS: Final = {
    400: "A field, parameter, cursor or limit is invalid; `meta.field` names it.",
    401: "No, unknown or lapsed token; missing or bad signature.",
    403: "The token lacks the scope, or the funds do not suffice.",
    404: "No such resource, or one of another customer.",
    409: "The `ref_id` is used already; `meta.existing` is what it made.",
    413: "The body is larger than 1 MiB.",
    415: "The content type is not application/json.",
    429: "Too many requests; see `Retry-After`.",
}

COMPARISON_WORDS: Final = {
    "lt": "before", "lte": "at or before", "eq": "exactly", "gte": "at or after", "gt": "after",
}  # fmt: skip
PARAMETERS: Final = {
    "limit": "Rows on a page.",
    "order": "`ASC` (oldest first) or `DESC`; by `UPDATED_AT` the default is `ASC`.",
    "order_by": "The time to go by; it must match the time filter where there is one.",
    "page_cursor": "`next_page_cursor` of the page before, of the same query in the same order.",
    "bookmarked_status": "Only bookmarked addresses, or only others.",
    "identity_id": "Only addresses of this identity; without it, those of no identity.",
    "identity_ids": "Only rows of one of these identities: repeat the parameter.",
    "type": "Only rows of this type; a list that takes several repeats the parameter.",
    "is_test": "Test events, or real ones (the default).",
}


@cache
def document(signature_header: str) -> Json:
    """The document; ``signature_header`` is the name under which signatures are expected."""
    paths: Json = {"/oauth2/token": {"post": _token_operation()}}
    for operation in OPERATIONS.values():
        item = paths.setdefault(operation.path, {})
        item[operation.method.lower()] = _operation(operation, signature_header)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fiat transfer, profile funding and request-signing service (sandbox)",
            "version": "2",
            "description": AMOUNT_NOTE,
        },
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": _security()},
    }


def _operation(operation: Operation, signature_header: str) -> Json:
    described: Json = {
        "operationId": operation.name,
        "summary": operation.name.replace("_", " ").capitalize(),
        "description": f"Interface §{operation.section}. Scope `{operation.scope}`.",
        "security": [{"oauth2": [operation.scope]}],
        "parameters": [
            *_path_parameters(operation.path),
            *_query_parameters(operation.query),
            _signature_parameter(signature_header),
        ],
        "responses": _responses(operation),
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(operation.body)}},
        }
    return described


def _path_parameters(path: str) -> list[Json]:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": "An asset, such as USD."
            if name == "asset"
            else f"The resource's {name}.",
            "schema": {"type": "string"},
        }
        for name in names
    ]


def _query_parameters(query: type[Query] | None) -> list[Json]:
    if query is None:
        return []
    properties = query.model_json_schema(ref_template=f"{COMPONENTS}{{model}}")["properties"]
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": _parameter_note(name),
            "schema": _parameter_schema(name, schema),
        }
        for name, schema in properties.items()
    ]


def _parameter_note(name: str) -> str:
    field, _, comparison = name.partition(".")
    if comparison:
        return f"Only rows whose {field} is {COMPARISON_WORDS[comparison]} this RFC 3339 time."
    return PARAMETERS.get(name, f"Only rows with one of these {name}: repeat the parameter.")


def _parameter_schema(name: str, schema: Json) -> Json:
    """The schema of a parameter that is simply left out where the model says ``None``."""
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    plain = dict(options[0]) if len(options) == 1 else dict(schema)
    plain.pop("title", None)
    if schema.get("default") is not None:
        plain["default"] = schema["default"]
    if plain.get("format") == "date-time":
        plain["pattern"] = INSTANT_PATTERN
    listed = LISTED_VALUES.get(name)
    if listed is not None and plain.get("type") == "array":
        plain["items"] = {"type": "string", "enum": list(listed)}
    return plain


def _signature_parameter(name: str) -> Json:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": "Compact JWS over the exact body (§5.2), where the credential requires it.",
        "schema": {"type": "string"},
    }


def _responses(operation: Operation) -> Json:
    done: Json = {"description": "Done"}
    if operation.answer is not None:
        done["content"] = {"application/json": {"schema": _ref(operation.answer)}}
    if found := links(operation):
        done["links"] = found
    statuses = {400, 401, 403, 429}
    if "{" in operation.path or operation.body is not None:
        statuses.add(404)
    if operation.body is not None:
        statuses |= {413, 415}
        if "ref_id" in operation.body.model_fields:
            statuses.add(409)
    return {"200": done, **{str(status): _problem(status) for status in sorted(statuses)}}


def _problem(status: int) -> Json:
    answer: Json = {
        "description": f"{phrase(status)}. {PROBLEMS[status]}",
        "content": {PROBLEM_MEDIA_TYPE: {"schema": _ref(Problem)}},
    }
    if status == 401:
        challenge = {"description": "Bearer", "schema": {"type": "string"}}
        answer["headers"] = {"WWW-Authenticate": challenge}
    if status == 429:
        seconds = {"description": "Seconds to wait", "schema": {"type": "integer"}}
        answer["headers"] = {"Retry-After": seconds}
    return answer


def _token_operation() -> Json:
    names = ("grant_type", "client_id", "client_secret", "scope")
    form: Json = {
        "type": "object",
        "required": list(names[:3]),
        "properties": {name: {"type": "string"} for name in names},
    }
    form["properties"]["grant_type"]["enum"] = ["client_credentials"]
    error = {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"type": "string"}, "error_description": {"type": "string"}},
    }
    content = {"application/json": {"schema": error}}
    return {
        "operationId": "issue_token",
        "summary": "Issue a token",
        "description": "Interface §5.1: OAuth 2.0 client credentials.",
        "security": [],
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": form},
                "application/x-www-form-urlencoded": {"schema": form},
            },
        },
        "responses": {
            "200": {
                "description": "A bearer token",
                "content": {"application/json": {"schema": _ref(Token)}},
            },
            "400": {"description": "invalid_request, invalid_scope …", "content": content},
            "401": {"description": "invalid_client", "content": content},
            "413": _problem(413),
            "429": _problem(429),
        },
    }


def _schemas() -> Json:
    operations = OPERATIONS.values()
    answers = _definitions([Problem, Token, *(op.answer for op in operations)])
    bodies = _definitions([op.body for op in operations])
    queries = _definitions([op.query for op in operations])
    answers = {
        name: answered(name, closed(schema, nulls=False)) for name, schema in answers.items()
    }
    names = {op.body.__name__ for op in operations if op.body is not None}
    given = {name: closed(schema, nulls=True) for name, schema in bodies.items()}
    given = {
        name: with_rules(name, schema) if name in names else schema
        for name, schema in given.items()
    }
    # a part of both, such as an address, may be sent as null or empty, and is not answered so
    parts = [name for name, schema in given.items() if name in answers and "properties" in schema]
    given = {f"{name}Input" if name in parts else name: schema for name, schema in given.items()}
    text = json.dumps({name: {**schema, "title": name} for name, schema in given.items()})
    for name in parts:
        text = text.replace(f'"{COMPONENTS}{name}"', f'"{COMPONENTS}{name}Input"')
    given = json.loads(text)
    enumerations = {name: schema for name, schema in queries.items() if "enum" in schema}
    return {**enumerations, **given, **answers}


def _definitions(models: Iterable[type[BaseModel] | None]) -> Json:
    """The models and their parts, as pydantic describes them."""
    wanted = dict.fromkeys(model for model in models if model is not None)
    _, schema = models_json_schema(
        [(model, "validation") for model in wanted], ref_template=f"{COMPONENTS}{{model}}"
    )
    definitions: Json = schema["$defs"]
    return definitions


def _security() -> Json:
    used = {
        scope: ", ".join(name for name, op in OPERATIONS.items() if op.scope == scope)
        for scope in SCOPES
    }
    flow = {"tokenUrl": "/oauth2/token", "scopes": used}
    return {"oauth2": {"type": "oauth2", "flows": {"clientCredentials": flow}}}


def _ref(model: type[BaseModel]) -> Json:
    return {"$ref": f"{COMPONENTS}{model.__name__}"}
