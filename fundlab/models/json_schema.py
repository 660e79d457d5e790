"""Rules that the models state once, in the words of JSON Schema: documented and checked by them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from fundlab.base.exact import MAX_INTEGER_DIGITS

Schema = dict[str, Any]

NULL: Final[Schema] = {"type": "null"}
ABSENT: Final[Schema] = {"not": {}}
"""Of a member that must not be there."""
TEXT: Final[Schema] = {"type": "string", "minLength": 1}


def only(*required: str, **properties: Schema) -> Schema:
    """An object with no other members than ``properties``."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def positive(decimals: int) -> Schema:
    """A positive decimal text with at most ``decimals`` decimals, zeros too."""
    fraction = rf"\.[0-9]{{1,{decimals}}}"
    whole = f"[0-9]{{1,{MAX_INTEGER_DIGITS}}}"
    return {
        "type": "string",
        "format": "decimal",
        "pattern": f"^({whole}({fraction})?|{fraction})$",
        "not": {"pattern": "^[0.]*$"},
        "examples": ["1442725.09"],
    }


def exactly_one(*names: str) -> Schema:
    return {"oneOf": [{"required": [name]} for name in names]}


def when(name: str, values: list[str], then: Schema) -> Schema:
    """``then`` holds where the member ``name`` has one of ``values``."""
    return {"if": {"required": [name], "properties": {name: {"enum": values}}}, "then": then}


@dataclass(frozen=True, eq=False)
class Constraint:
    """What ``schema`` says of a value, and the sentence for one of which it is not true.

    As an annotation it holds for a field, in ``Part.constraints`` between the members of an object.
    """

    schema: Schema
    message: str

    def check(self, value: Any) -> Any:
        """``value``, if the rule holds. Raises ``ValueError``."""
        if not fits(self.schema, getattr(value, "text", value)):  # an amount is its text
            raise ValueError(self.message)
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), **self.schema}


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether ``value`` (as JSON has it) is what ``schema`` says, in the words that the rules use:
    like a validator of JSON Schema, a word about another type says nothing."""
    members = value if isinstance(value, Mapping) else {}
    checks: Mapping[str, Callable[[Any], bool]] = {
        "const": lambda wanted: value == wanted,
        "enum": lambda wanted: value in wanted,
        "pattern": lambda wanted: not isinstance(value, str) or _matches(wanted, value),
        "minProperties": lambda least: not isinstance(value, Mapping) or len(members) >= least,
        "maxProperties": lambda most: len(members) <= most,
        "required": lambda names: not isinstance(value, Mapping) or set(names) <= members.keys(),
        "properties": lambda properties: all(
            fits(own, members[name]) for name, own in properties.items() if name in members
        ),
        "not": lambda other: not fits(other, value),
        "allOf": lambda parts: all(fits(part, value) for part in parts),
        "anyOf": lambda parts: any(fits(part, value) for part in parts),
        "oneOf": lambda parts: sum(fits(part, value) for part in parts) == 1,
        "then": lambda then: not fits(schema["if"], value) or fits(then, value),
        "else": lambda otherwise: fits(schema["if"], value) or fits(otherwise, value),
    }
    return all(check(schema[word]) for word, check in checks.items() if word in schema)


def _matches(pattern: str, text: str) -> bool:
    """As ECMA's: ``$`` is the end, not a line break before it."""
    return re.search(re.sub(r"\$$", r"\\Z", pattern), text) is not None


def with_rules(schema: Schema, rules: list[Schema]) -> Schema:
    """``schema`` with ``rules`` under a condition that always holds: generators of clients turn a
    plain ``oneOf`` into a type for each branch, and read past this one."""
    if not rules:
        return schema
    known = schema.get("then", {}).get("allOf", [])
    return {**schema, "if": {"type": "object"}, "then": {"allOf": [*known, *rules]}}


def closed(schema: Any) -> Any:
    """``schema`` with closed enumerations, no unknown members and no ``null``."""
    if isinstance(schema, list):
        return [closed(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    made: Schema = {
        name: closed(value)
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
            if option != NULL and not (listed and option == {"type": "string"})
        ]
        made |= kept[0] if len(kept) == 1 else {"anyOf": kept}
    return made
