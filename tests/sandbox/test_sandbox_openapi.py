"""The served OpenAPI document describes every operation of §4 and resolves in itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from fundlab.models import OPERATIONS
from fundlab.sandbox import Sandbox


@pytest.fixture
def document(sandbox: Sandbox) -> dict[str, Any]:
    answer = requests.get(f"{sandbox.base_url}/openapi.json", timeout=5)
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()
    return document


def test_every_operation_is_there_with_its_scope(document: dict[str, Any]) -> None:
    described = {
        operation["operationId"]: (method.upper(), path, operation["security"])
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    assert described.pop("issue_token")[:2] == ("POST", "/oauth2/token")
    assert described == {
        name: (operation.method, operation.path, [{"oauth2": [operation.scope]}])
        for name, operation in OPERATIONS.items()
    }
    flow = document["components"]["securitySchemes"]["oauth2"]["flows"]["clientCredentials"]
    assert len(flow["scopes"]) == 13


def test_all_references_resolve(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    found = set(references(document))
    assert found
    assert {reference.rpartition("/")[2] for reference in found} <= set(schemas)


def test_parameters_bodies_and_problems(document: dict[str, Any]) -> None:
    listing = document["paths"]["/v2/transfer/transfers"]["get"]
    parameters = {entry["name"]: entry["schema"] for entry in listing["parameters"]}
    assert parameters["limit"] == {
        "type": "integer", "minimum": 1, "maximum": 1000, "default": 100,
    }  # fmt: skip
    assert parameters["type"]["items"]["enum"][0] == "INTERNAL_TRANSFER_DEBIT"
    assert parameters["created_at.gte"] == {"type": "string", "format": "date-time"}
    create = document["paths"]["/v2/transfer/fiat-withdrawals"]["post"]
    assert set(create["responses"]) == {
        "200", "400", "401", "403", "404", "409", "413", "415", "429",
    }  # fmt: skip
    assert list(create["responses"]["409"]["content"]) == ["application/problem+json"]
    body = create["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    schema = document["components"]["schemas"][body.rpartition("/")[2]]
    assert set(schema["required"]) == {"amount", "asset", "fiat_account_id", "profile_id"}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for member in value:
            yield from references(member)
