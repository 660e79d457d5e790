"""Rules that the models state once, in the words of JSON Schema: documented and checked by them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import getitem
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


def fits(
    schema: Mapping[str, Any] | bool, value: Any, root: Mapping[str, Any] | None = None
) -> bool:
    """Whether ``value`` (as JSON has it) is what ``schema`` says, in the words that requests are
    described by; references are looked up in ``root``. Like a validator of JSON Schema, a word
    about another type says nothing."""
    if isinstance(schema, bool):
        return schema
    whole = schema if root is None else root
    return all(
        _WORDS[word](wanted, value, schema, whole)
        for word, wanted in schema.items()
        if word in _WORDS
    )


def _has_type(wanted: Any, value: Any, schema: Any, _: Any) -> bool:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    if value is None and schema.get("nullable") is True:  # as OpenAPI 3.0 says it
        return True
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        return True
    return any(isinstance(value, _TYPES[kind]) for kind in kinds)


def _has_no_others(wanted: Any, value: Any, schema: Any, root: Any) -> bool:
    if wanted is True or not isinstance(value, Mapping):
        return True
    others = value.keys() - schema.get("properties", {}).keys()
    return all(wanted and fits(wanted, value[name], root) for name in others)


_TYPES: Final[Mapping[str, Any]] = {
    "object": Mapping, "array": list, "string": str, "number": int | float, "integer": int,
    "boolean": bool, "null": type(None),
}  # fmt: skip
_WORDS: Final[Mapping[str, Callable[[Any, Any, Any, Any], bool]]] = {
    "const": lambda wanted, value, *_: bool(value == wanted),
    "enum": lambda wanted, value, *_: value in wanted,
    "type": _has_type,
    # As ECMA's: ``$`` is the end, not a line break before it.
    "pattern": lambda wanted, value, *_: (
        not isinstance(value, str) or bool(re.search(re.sub(r"\$$", r"\\Z", wanted), value))
    ),
    "minLength": lambda least, value, *_: not isinstance(value, str) or len(value) >= least,
    "maxLength": lambda most, value, *_: not isinstance(value, str) or len(value) <= most,
    "minProperties": lambda least, value, *_: not isinstance(value, Mapping) or len(value) >= least,
    "maxProperties": lambda most, value, *_: not isinstance(value, Mapping) or len(value) <= most,
    "required": lambda names, value, *_: not isinstance(value, Mapping) or {*names} <= value.keys(),
    "properties": lambda wanted, value, _, root: (
        not isinstance(value, Mapping)
        or all(fits(wanted[name], value[name], root) for name in wanted.keys() & value.keys())
    ),
    "additionalProperties": _has_no_others,
    "propertyNames": lambda wanted, value, _, root: (
        not isinstance(value, Mapping) or all(fits(wanted, name, root) for name in value)
    ),
    "items": lambda wanted, value, _, root: (
        not isinstance(value, list) or all(fits(wanted, one, root) for one in value)
    ),
    "not": lambda other, value, _, root: not fits(other, value, root),
    "allOf": lambda parts, value, _, root: all(fits(part, value, root) for part in parts),
    "anyOf": lambda parts, value, _, root: any(fits(part, value, root) for part in parts),
    "oneOf": lambda parts, value, _, root: sum(fits(part, value, root) for part in parts) == 1,
    "then": lambda then, value, schema, root: (
        not fits(schema["if"], value, root) or fits(then, value, root)
    ),
    "else": lambda otherwise, value, schema, root: (
        fits(schema["if"], value, root) or fits(otherwise, value, root)
    ),
    "$ref": lambda wanted, value, _, root: fits(
        reduce(getitem, steps_of(wanted), root), value, root
    ),
}


def steps_of(reference: str) -> list[str]:
    """Where in its document a ``$ref`` points to."""
    steps = reference.removeprefix("#/").split("/")
    return [step.replace("~1", "/").replace("~0", "~") for step in steps]


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
