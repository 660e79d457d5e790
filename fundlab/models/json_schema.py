"""Words in which the models state their rules in JSON Schema, beside the code that checks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fundlab.base.exact import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS

Schema = dict[str, Any]

NULL: Final[Schema] = {"type": "null"}
TEXT: Final[Schema] = {"type": "string", "minLength": 1}
OPTIONAL: Final[Schema] = {"type": ["string", "null"]}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, NULL]}


def only(*required: str, **properties: Schema) -> Schema:
    """An object with no other members than ``properties``."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def one_of(**variants: Schema) -> Schema:
    """An object that holds exactly one of its variants; the others are absent or null."""
    return {
        "type": "object",
        "oneOf": [
            {
                "required": [name],
                "properties": dict.fromkeys(variants, NULL) | {name: schema},
                "additionalProperties": False,
            }
            for name, schema in variants.items()
        ],
    }


def any_named(*names: str, **others: Schema) -> Schema:
    """At least one of the texts ``names`` is there; the others may be absent."""
    there = [{"required": [name], "properties": {name: TEXT}} for name in names]
    return {**only(**dict.fromkeys(names, OPTIONAL), **others), "anyOf": there}


def positive(decimals: int) -> Schema:
    """A positive decimal text with at most ``decimals`` decimals that are not zero."""
    fraction = rf"\.[0-9]{{1,{decimals}}}0{{0,{MAX_FRACTION_DIGITS - decimals}}}"
    whole = f"[0-9]{{1,{MAX_INTEGER_DIGITS}}}"
    return {
        "type": "string",
        "format": "decimal",
        "pattern": f"^({whole}({fraction})?|{fraction})$",
        "not": {"pattern": "^[0.]*$"},
        "examples": ["1442725.09"],
    }


def with_rules(schema: Schema, rules: Mapping[str, Any]) -> Schema:
    """``schema`` with ``rules`` under a condition that always holds: generators of clients turn a
    plain ``oneOf`` into a type for each branch, and read past this one."""
    kept: Mapping[str, Any] = schema.get("then", {})
    return {**schema, "if": {"type": "object"}, "then": {**kept, **rules}} if rules else schema


def closed(schema: Any, *, nulls: bool) -> Any:
    """``schema`` with closed enumerations and no unknown members; ``nulls`` keeps ``null``."""
    if isinstance(schema, list):
        return [closed(entry, nulls=nulls) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    made: Schema = {
        name: closed(value, nulls=nulls)
        for name, value in schema.items()
        if not (name == "default" and value is None)
    }
    if "properties" in made:
        made["additionalProperties"] = False
    if "anyOf" in made:
        options = made.pop("anyOf")
        listed = any("$ref" in option or "enum" in option for option in options)
        kept = [
            option
            for option in options
            if (nulls or option != NULL) and not (listed and option == {"type": "string"})
        ]
        made |= kept[0] if len(kept) == 1 else {"anyOf": kept}
    return made
