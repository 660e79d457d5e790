"""A client made from an OpenAPI document and nothing else: what the document does not say, it does
not know, and it refuses every answer that the document does not allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import jsonschema
from sandbox_caller import Caller

Json = dict[str, Any]


class Undescribed(AssertionError):
    """An answer, a status or a parameter that the document does not describe."""


@dataclass
class DescribedClient:
    """Calls the operations of ``document`` by their ids."""

    document: Json
    caller: Caller

    def __post_init__(self) -> None:
        self.prefix = self.document.get("servers", [{"url": ""}])[0]["url"]
        self.operations: dict[str, tuple[str, str, Json]] = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, item in self.document["paths"].items()
            for method, operation in item.items()
        }
        self._validators: dict[str, Any] = {}

    def call(self, name: str, body: Any = None, **given: Any) -> Any:
        """The answer of an operation, checked; ``given`` are parameters of path and query."""
        method, path, operation = self.operations[name]
        parameters = {entry["name"]: entry for entry in operation["parameters"]}
        pairs = []
        for key, value in given.items():
            if key not in parameters:
                raise Undescribed(f"{name} has no parameter {key}")
            self.check(value, parameters[key]["schema"], f"{name}?{key}")
            if parameters[key]["in"] == "path":
                path = path.replace(f"{{{key}}}", quote(value))
            else:
                values = value if isinstance(value, list) else [value]
                pairs += [f"{key}={quote(str(entry), safe='')}" for entry in values]
        if body is not None:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            self.check(body, schema, f"{name} body")
        target = self.prefix + path + ("?" + "&".join(pairs) if pairs else "")
        return self.read(name, self.caller.call(method, target, body))

    def read(self, name: str, answer: Any) -> Any:
        """The body of an answer of the operation ``name``, once the document allows it."""
        described = self.operations[name][2]["responses"].get(str(answer.status_code))
        if described is None:
            raise Undescribed(f"{name} answered {answer.status_code}: {answer.text[:300]}")
        if "content" not in described:
            if answer.content:
                raise Undescribed(f"{name} answered a body")
            return None
        kind = answer.headers["Content-Type"]
        if kind not in described["content"]:
            raise Undescribed(f"{name} answered {kind}")
        value = answer.json()
        self.check(value, described["content"][kind]["schema"], f"{name} {answer.status_code}")
        return value

    def pages(self, name: str, **given: Any) -> Iterator[Json]:
        """Every page of a list, by the cursor that the document has for it."""
        cursor: dict[str, str] = {}
        while True:
            page = self.call(name, **given, **cursor)
            yield page
            if not page.get("next_page_cursor"):
                return
            cursor = {"page_cursor": page["next_page_cursor"]}

    def check(self, value: Any, schema: Json, what: str) -> None:
        validator = self._validators.get(what)
        if validator is None:
            whole = {**schema, "components": self.document["components"]}
            checks = jsonschema.Draft202012Validator.FORMAT_CHECKER
            validator = jsonschema.Draft202012Validator(whole, format_checker=checks)
            self._validators[what] = validator
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        if error is not None:
            raise Undescribed(f"{what}: {error.json_path}: {error.message[:300]}")
