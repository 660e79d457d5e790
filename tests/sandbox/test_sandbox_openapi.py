"""The served OpenAPI document describes every operation of §4 and resolves in itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from extra_packages import needs
from jsonschema import Draft202012Validator
from sandbox_caller import WIRE, Gallery, with_routing

from fundlab.models import OPERATIONS
from fundlab.sandbox import Sandbox
from fundlab.sandbox.openapi import LINK_BODY

ON_BASE = {"network": "BASE", "address": "0x" + "ab" * 20}
RULES: list[tuple[str, dict[str, Any]]] = [
    ("CreateFiatDepositInstructions", {"routing_number_type": None}),
    ("CreateFiatDepositInstructions", {"fiat_network": "CUBIX"}),
    ("CreateFiatDepositInstructions", {"identity_id": None}),
    ("CreateFiatDepositInstructions", {"metadata": {str(n): "x" for n in range(7)}}),
    ("CreateFiatDepositInstructions", {"metadata": {"k": "x" * 101}}),
    ("InitiateSandboxFiatDeposit", {"amount": "1.001"}),
    ("InitiateSandboxFiatDeposit", {"amount": "0.00"}),
    ("CreateFiatWithdrawal", {"amount": "1.001"}),
    ("CreateFiatAccount", {"fiat_account_owner": {}}),
    ("CreateFiatAccount", {"fiat_network_instructions": {"wire": {"account_number": "1"}}}),
    ("UpdateFiatAccount", {"fiat_network_instructions": {"cubix": {}}}),
    ("CreateOrchestrationRule", {"destination_asset": "USDC"}),
    ("CreateOrchestrationRule", {"source": {}}),
    ("CreateOrchestrationRule", {"source": {"fiat": {"network": "CUBIX"}}}),
    ("CreateOrchestrationRule", {"destination": {"crypto": {"network": "BASE"}}}),
    (
        "CreateOrchestrationRule",
        {
            "destination": {"crypto": {**ON_BASE, "address_id": "zz"}},
            "destination_asset": "USDG",
        },
    ),
    ("CreateFiatWithdrawal", {"amount": None}),
    ("CreateFiatWithdrawal", {"total": "100.00"}),
    ("CreateFiatWithdrawal", {"memo": "x" * 101}),
    ("CreateFiatWithdrawal", {"refId": "slip"}),
    ("CreateDepositAddress", {"conversion_target_asset": "USDC"}),
    ("CreateFiatAccount", {"fiat_account_owner": {"person_details": {"firstName": "Ada"}}}),
    ("CreateFiatAccount", {"fiat_network_instructions": with_routing("1", kind="IBAN")}),
    ("CreateFiatAccount", {"fiat_network_instructions": {**WIRE, "rtp": {}}}),
    (
        "CreateFiatAccount",
        {"fiat_network_instructions": with_routing("1", "intermediary_routing_details", "IBAN")},
    ),
    ("UpdateFiatAccount", {"ref_id": "slip"}),
    ("UpdateFiatAccount", {"fiat_network_instructions": {**WIRE, "rtp": {}}}),
    ("CreateOrchestrationRule", {"source": {"crypto": {"network": "BASE", "slip": "x"}}}),
    (
        "CreateOrchestrationRule",
        {"destination": {"crypto": {**ON_BASE, "network": "SOLANA"}}, "destination_asset": "USDG"},
    ),
    ("CreateCryptoWithdrawalFee", {"destination_address": "bc1" + "q" * 39}),
    ("CreateCryptoWithdrawalFee", {"total": "10.00"}),
    ("CreateCryptoWithdrawalFee", {"amount": None}),
    ("CreateCryptoWithdrawalFee", {"amount": "1.001"}),
    ("CreateCryptoWithdrawalFee", {"asset": "USD"}),
]
"""Bodies with one change that their schema and the sandbox must both refuse."""


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
    assert flow["scopes"]["transfer:read_transfer"] == "list_transfers, get_transfer"


def test_everything_is_described(document: dict[str, Any]) -> None:
    for item in document["paths"].values():
        for operation in item.values():
            assert operation["summary"]
            assert "§" in operation["description"]
            for part in (*operation.get("parameters", ()), *operation["responses"].values()):
                assert part["description"]


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
    gte = parameters["created_at.gte"]
    assert (gte["type"], gte["format"]) == ("string", "date-time")
    for fits in ("2026-11-01T00:00:00Z", "1970-01-01t00:00:00.123456789-05:30"):
        assert re.fullmatch(gte["pattern"], fits)
    for beyond in (
        "2026-11-01",
        "2026-11-01T00:00:00",
        "1600-01-01T00:00:00Z",
        "9999-01-01T00:00:00Z",
    ):
        assert not re.fullmatch(gte["pattern"], beyond)
    create = document["paths"]["/v2/transfer/fiat-withdrawals"]["post"]
    assert set(create["responses"]) == {
        "200", "400", "401", "403", "404", "409", "413", "415", "429",
    }  # fmt: skip
    assert list(create["responses"]["409"]["content"]) == ["application/problem+json"]
    body = create["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    schema = document["components"]["schemas"][body.rpartition("/")[2]]
    assert set(schema["required"]) == {"asset", "fiat_account_id", "profile_id"}


def test_no_two_schemas_have_one_title(document: dict[str, Any]) -> None:
    """Generators of clients name classes after them, and drop the second and what refers to it."""
    for name, schema in document["components"]["schemas"].items():
        assert schema["title"] == name


@pytest.mark.thorough
def test_it_is_valid_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    needs("openapi_spec_validator").validate(document)


def test_every_problem_of_an_operation_is_told(document: dict[str, Any]) -> None:
    """§7: 404 where something is named, 409 where a ref_id is taken or a rule has its source."""
    for path, item in document["paths"].items():
        for operation in item.values():
            if operation["operationId"] == "issue_token":
                continue
            statuses = set(operation["responses"])
            assert {"200", "400", "401", "403", "429"} <= statuses
            assert ("404" in statuses) == ("{" in path or "requestBody" in operation)
            assert ({"413", "415"} <= statuses) == ("requestBody" in operation)
            for status in statuses - {"200"}:
                assert list(operation["responses"][status]["content"]) == [
                    "application/problem+json"
                ]


def test_bodies_tell_the_rules_between_their_fields(
    document: dict[str, Any], gallery: Gallery
) -> None:
    """What fits the document is accepted and what does not is refused, for rules of both kinds."""
    for name, change in RULES:
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        operation = next(o for o, op in OPERATIONS.items() if op.body and op.body.__name__ == name)
        body = gallery.body(operation)
        assert Draft202012Validator(schema).is_valid(body), name
        body = {key: value for key, value in (body | change).items() if value is not None}
        assert not Draft202012Validator(schema).is_valid(body), (name, change)
        target = OPERATIONS[operation]
        path = target.path.replace("{id}", gallery.known["fiat_account_id"])
        assert gallery.caller.call(target.method, path, body).status_code == 400


def test_every_link_leads_to_a_call_that_succeeds(
    document: dict[str, Any], gallery: Gallery
) -> None:
    followed = set()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for link in operation["responses"]["200"].get("links", {}).values():
                answer = call(gallery, method, path, operation["operationId"], {})
                assert answer.status_code == 200, answer.text
                gallery.sandbox.clock.advance(10)  # what was made is approved by now
                assert follow(document, gallery, link, answer.json()).status_code == 200, link
                followed.add((operation["operationId"], link["operationId"]))
    assert len(followed) == 19


def follow(document: dict[str, Any], gallery: Gallery, link: dict[str, Any], source: Any) -> Any:
    path, method = next(
        (path, method)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if operation["operationId"] == link["operationId"]
    )
    given = {name: look_up(source, text) for name, text in link.get("parameters", {}).items()}
    body = {name: look_up(source, text) for name, text in link.get(LINK_BODY, {}).items()}
    return call(gallery, method, path, link["operationId"], given, body)


def call(
    gallery: Gallery, method: str, path: str, name: str, given: dict[str, str],
    body: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """The operation with the parameters and members ``given``, or with what there is."""
    for part in re.findall(r"{(.*?)}", path):
        default = {"id": gallery.known["fiat_account_id"], "asset": "USD"}
        value = given.pop(part, None) or gallery.known.get(part) or default[part]
        path = path.replace(f"{{{part}}}", value)
    query = "&".join(f"{key}={value}" for key, value in given.items())
    sent = None if method == "get" else {**gallery.body(name), **(body or {})}
    if name == "create_crypto_withdrawal_fee":
        del sent["identity_id"]
    return gallery.caller.call(method.upper(), f"{path}?{query}" if query else path, sent)


def look_up(body: Any, expression: str) -> Any:
    """A runtime expression of OpenAPI, of the only kind that the document has."""
    assert expression.startswith("$response.body#/")
    for part in expression.removeprefix("$response.body#/").split("/"):
        body = body[int(part)] if isinstance(body, list) else body[part]
    return body


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for member in value:
            yield from references(member)
