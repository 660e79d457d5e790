"""What Schemathesis cannot read from the OpenAPI document, because only the state knows it.

``before_load_schema`` names ids that exist, so that calls get past 404. ``filter_failure`` lets a
refusal of data that fit the document pass for the reasons in ``STATE`` and for no other one: each
is a 400 of the interface or of the decisions about it, and JSON Schema has no words for it.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData

KNOWN = "SANDBOX_KNOWN_VALUES"
"""Environment variable: a JSON object, name of a field or parameter → values that exist."""

STATE = {
    "page_cursor": r"cannot be read.*",
    "memo_id": r"no deposit instructions carry this memo_id|the deposit instructions are .*",
    "fiat_account_id": r"the fiat account is ((PENDING|REJECTED), not APPROVED|of another \w+_id)",
    "fiat_account_owner": r"a person cannot become an institution or vice versa",
    "fiat_network_instructions": r"wire\..*, and the account has none",
    "source": r"belongs to another profile",
    "source.fiat.memo_id": r"does not fit the source, whose is .*",
    "source.fiat.network": r"does not fit the source, whose is .*",
    "source.fiat.account_type": r"does not fit the source, whose is .*",
    "source.crypto.address": r"does not fit the source, whose is .*",
    "source.crypto.network": r"does not fit the source, whose is .*",
    "source.profile.profile_id": r"must be the rule's own profile_id",
    "amount": r"amount and fee together exceed 20 integer digits",
    "total": r"does not exceed the fee of .*",
    "memo": r"has \d+ characters; at most 40 for a CUBIX_WITHDRAWAL",
    "destination.fiat.memo": r"has \d+ characters; at most 40 for a CUBIX_WITHDRAWAL",
    "identity_id": r"the identity is (DENIED|DISABLED): nothing is done for it",
    "order_by": r"[A-Z_]+ does not match the filter on (created_at|updated_at)",
}
"""By ``meta.field``: what the detail says."""


@schemathesis.hook
def before_load_schema(_context: Any, raw_schema: dict[str, Any]) -> None:
    """Say the same in words that data are quickly made from, and name what is known."""
    schemas = raw_schema["components"]["schemas"]
    schemas.update({name: _unconditional(schema) for name, schema in schemas.items()})
    known: dict[str, list[str]] = json.loads(os.environ[KNOWN])
    _name_in_bodies(raw_schema["components"]["schemas"], known)
    for item in raw_schema["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path" and parameter["name"] in known:
                    parameter["schema"] = _or_known(parameter["schema"], known[parameter["name"]])
            for link in operation["responses"]["200"].get("links", {}).values():
                if "x-requestBody" in link:
                    link["requestBody"] = link.pop("x-requestBody")


def _unconditional(schema: dict[str, Any]) -> dict[str, Any]:
    """Rules under the condition that always holds, without it."""
    if schema.get("if") != {"type": "object"}:
        return schema
    plain = {name: value for name, value in schema.items() if name not in ("if", "then")}
    rules = schema["then"]
    plain["properties"] = {**schema["properties"], **rules.get("properties", {})}
    for rule in rules.get("allOf", ()):
        if plain.keys().isdisjoint(rule):
            plain |= rule
        else:
            plain.setdefault("allOf", []).append(rule)
    return plain


def _name_in_bodies(schema: Any, known: dict[str, list[str]]) -> None:
    """Wherever a schema has a property of a known name."""
    if isinstance(schema, list):
        for entry in schema:
            _name_in_bodies(entry, known)
    if not isinstance(schema, dict):
        return
    for entry in list(schema.values()):
        _name_in_bodies(entry, known)
    properties = schema.get("properties", {})
    for name in properties.keys() & known.keys():
        kind = properties[name]
        if not {"const", "enum", "not"} & kind.keys() and kind.get("type") != "null":
            properties[name] = _or_known(kind, known[name])


def _or_known(schema: dict[str, Any], values: list[str]) -> dict[str, Any]:
    """Whatever fits, known values among it first."""
    return {"anyOf": [{"type": "string", "enum": values}, schema], "examples": values}


@schemathesis.hook
def filter_failure(_context: Any, failure: Any, _case: Any, response: Any) -> bool:
    """Whether ``failure`` counts."""
    if not isinstance(failure, RejectedPositiveData) or response.status_code != 400:
        return True
    problem = response.json()
    field = problem.get("meta", {}).get("field")
    reason = STATE.get(field)
    return reason is None or re.fullmatch(f"{field}: ({reason})", problem["detail"]) is None
