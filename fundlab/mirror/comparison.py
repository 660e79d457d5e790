"""Where the sandbox and a deployment part: by what it answered, or by the document it publishes."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fundlab.base.errors import SandboxError
from fundlab.mirror.mutations import taken
from fundlab.models import OPERATIONS
from fundlab.models.json_schema import steps_of
from fundlab.sandbox.app import own_document
from fundlab.sandbox.replay import read_recording

_NAMED: Final = re.compile(r"\{[^}]*\}")
_YAML: Final = re.compile(r"^openapi\s*:", re.MULTILINE)
_LIMITS: Final = ("maxLength", "pattern", "minimum", "maximum", "maxItems", "maxProperties")
_DEPTH: Final = 12
_SHOWN: Final = 60


ACCEPTED: Final = "we accept, they refuse"
ANSWERED: Final = "they answer what we never do"
COSMETIC: Final = "cosmetic"
KINDS: Final = (ACCEPTED, ANSWERED, COSMETIC)
"""The first lets a team go green here and get a 400 there, the second surprises its parser; of the
third the sandbox is the stricter one, or nothing depends on it."""


@dataclass(frozen=True, order=True)
class Difference:
    """One: at which operation, in which ``part`` (``query``, ``request``, ``answer``, a status, or
    ``sent``: a request that was tried) and member; what the sandbox has there, what the other has;
    how often it was met; of which ``kind`` it is, and the schema that the operation shares with
    others."""

    operation: str
    part: str
    field: str
    sandbox: str
    theirs: str
    count: int = 1
    kind: str = dataclasses.field(default=COSMETIC, compare=False)
    schema: str = dataclasses.field(default="", compare=False)

    @property
    def place(self) -> str:
        """As a file of accepted differences names it."""
        return f"{self.operation} {self.part} {self.field}".strip()

    def __str__(self) -> str:
        often = f" ({self.count} times)" if self.count > 1 else ""
        place = f"{self.part} {self.field}".strip()
        return (
            f"{self.operation}: {place}: sandbox {self.sandbox}, recorded or published "
            f"{self.theirs}{often}"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def differences_of(path: Path) -> list[Difference]:
    """Every difference between the sandbox and what a recording, or an OpenAPI document (JSON, or
    YAML where PyYAML is installed), says of a deployment. Of a document, bodies that it refuses are
    sent to a sandbox, too. Raises ``SandboxError`` for a file that
    is neither."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
    except OSError as error:
        raise SandboxError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SandboxError(
            f"{path} is neither a recording nor an OpenAPI document: it is not UTF-8"
        ) from None
    except ValueError:
        # a recording has an object in each line
        content = _of_yaml(path, text) if _YAML.search(text) else None
    own = own_document()
    if isinstance(content, dict) and "openapi" in content:
        differences = [*_of_documents(own, content), *_of_mutations(content)]
    elif text.strip():
        differences = list(_of_recording(own, path))
    else:
        raise SandboxError(f"{path} is empty: give a recording or an OpenAPI document")
    return sorted(replace(one, count=count) for one, count in Counter(differences).items())


def accepted_places(path: Path) -> dict[str, str]:
    """Places that a team knows of, with its reasons: TOML of ``"<operation> <part> <member>" =
    "reason"``, where ``*`` stands for anything. Raises ``SandboxError``."""
    try:
        places = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SandboxError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SandboxError(f"{path} is not TOML in UTF-8: {error}") from None
    for place, reason in places.items():
        if not (isinstance(reason, str) and reason.strip()):
            raise SandboxError(f"{path}: {place!r} needs its reason as text")
    return places


def lines_of(differences: list[Difference]) -> Iterator[str]:
    """What a person reads: by kind, a line for each operation's parts and for each schema that
    several share."""
    for kind in KINDS:
        groups: dict[tuple[str, str], list[Difference]] = {}
        for difference in differences:
            if difference.kind == kind:
                groups.setdefault(
                    (difference.part, difference.schema or difference.operation), []
                ).append(difference)
        if groups:
            yield f"{kind}: {sum(map(len, groups.values()))} differences"
        for (part, where), members in sorted(groups.items()):
            operations = sorted({difference.operation for difference in members})
            among = f" (of {', '.join(operations)})" if operations != [where] else ""
            sides = dict.fromkeys(
                f"{one.field.rpartition('.')[2] if one.schema else one.field} sandbox "
                f"{one.sandbox}, theirs {one.theirs}".strip()
                for one in members
            )
            yield f"  {where}: {part}: {'; '.join(sides)}{among}"


def _of_yaml(path: Path, text: str) -> Any:
    """An OpenAPI document as its publisher wrote it by hand."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise SandboxError(
            f"{path} is in YAML: pip install pyyaml to read it, or give the document in JSON"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        raise SandboxError(f"{path} is not valid YAML{line}") from None


# ---------------------------------------------------------------------------- a recording


def _of_recording(own: Mapping[str, Any], path: Path) -> Iterator[Difference]:
    for exchange in read_recording(path):
        name = next(
            (name for name, operation in OPERATIONS.items()
             if operation.method == exchange.method
             and re.fullmatch(re.sub(r"{\w+}", "[^/]*", operation.path), exchange.path)),
            None,
        )  # fmt: skip
        if name is None:
            label = f"{exchange.method} {exchange.path}"
            yield Difference(
                label, "path", "", "absent", f"answered {exchange.status}", kind=ANSWERED
            )
            continue
        described = _operations(own)[_place(exchange.method, OPERATIONS[name].path)]
        answers, status = described["responses"], str(exchange.status)
        if status not in answers:
            known = ", ".join(sorted(answers))
            yield Difference(name, "status", "", known, status, kind=ANSWERED)
        for part, value, within in (
            ("request", exchange.request, described.get("requestBody", {})),
            ("answer", exchange.answer, answers.get(status, {})),
        ):
            schema = _schema(within)
            if schema is not None and value is not None:
                for field, ours, theirs in _unlike(own, schema, value, ""):
                    kind = ANSWERED if part == "answer" else COSMETIC
                    yield Difference(name, part, field, ours, theirs, kind=kind)


def _unlike(
    root: Mapping[str, Any], schema: Mapping[str, Any], value: Any, field: str
) -> Iterator[tuple[str, str, str]]:
    """Where ``value`` is not what ``schema`` allows: field, what it allows, what is there."""
    kinds = _variants(root, schema)
    types = sorted({one["type"] for one in kinds if "type" in one})
    kind_of_value = _type(value)
    if (
        types
        and kind_of_value not in types
        and not (kind_of_value == "integer" and "number" in types)
    ):
        yield field, " or ".join(types), kind_of_value
        return
    listed = [one for kind in kinds for one in kind.get("enum", ())]
    if listed and isinstance(value, str) and value not in listed:
        yield field, f"one of {len(listed)} values", repr(value[:_SHOWN])
    if isinstance(value, dict):
        members, required = _members(root, schema)
        for name in sorted(required - value.keys()):
            yield f"{field}.{name}".strip("."), "always", "absent"
        for name, member in value.items():
            path = f"{field}.{name}".strip(".")
            if name in members:
                yield from _unlike(root, members[name], member, path)
            elif members:
                yield path, "absent", _type(member)
    elif isinstance(value, list):
        items: Mapping[str, Any] = next((kind["items"] for kind in kinds if "items" in kind), {})
        for one in value:
            yield from _unlike(root, items, one, f"{field}[]")


def _type(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}
    return names.get(type(value), "null" if value is None else "number")


# ---------------------------------------------------------------------------- a document


def _of_documents(own: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    ours, theirs = _operations(own), _operations(other)
    for place, described in ours.items():
        name, published = described["operationId"], theirs.get(place)
        if name not in OPERATIONS:
            continue
        if published is None:
            yield Difference(name, "path", "", place, "absent", kind=ACCEPTED)
            continue
        sides = [_facts(own, described), _facts(other, published)]
        alone: list[str] = []
        for part, field in sorted(sides[0].keys() | sides[1].keys()):
            first, second = (side.get((part, field)) for side in sides)
            known = first or second or {}
            schema = known["within"]
            if first is None or second is None:
                # what is inside of a member that one side lacks is no difference of its own
                if not f"{part} {field}".startswith(tuple(alone)):
                    shown = [_shown(side) if side else "absent" for side in (first, second)]
                    if part == "answer":
                        dangerous = first is None
                    else:  # they do not know it, or need what we do without
                        dangerous = second is None or second["required"]
                    kind = (ANSWERED if part == "answer" else ACCEPTED) if dangerous else COSMETIC
                    yield Difference(
                        name, part, field, shown[0], shown[1], kind=kind, schema=schema
                    )
                alone += [f"{part} {field}{end}" for end in (".", "[]")] if field else [f"{part} "]
                continue
            for fact in sorted((first.keys() & second.keys()) - {"within"}):
                one, two = first[fact], second[fact]
                # of limits those of the sandbox alone are left out: they keep nobody from anything
                if one == two or (fact == "limits" and not two - one):
                    continue
                # of a request it matters what they refuse, of an answer what only they give
                if fact == "required":
                    dangerous = one if part == "answer" else two
                    one, two = ("required" if side else "optional" for side in (one, two))
                else:  # only what the other lacks
                    dangerous = bool(
                        two - one if part == "answer" or fact == "limits" else one - two
                    )
                    only = (", ".join(sorted(map(str, it))) for it in (one - two, two - one))
                    one, two = (f"{fact} {it}" if it else f"no other {fact}" for it in only)
                kind = (ANSWERED if part == "answer" else ACCEPTED) if dangerous else COSMETIC
                yield Difference(name, part, field, one, two, kind=kind, schema=schema)
    for place in theirs.keys() - ours.keys():
        yield Difference(place, "path", "", "absent", "published")


def _of_mutations(other: Mapping[str, Any]) -> Iterator[Difference]:
    """What a sandbox takes of requests that the document refuses."""
    theirs = _operations(other)
    published = {
        name: theirs[place]
        for name, operation in OPERATIONS.items()
        if (place := _place(operation.method, operation.path)) in theirs
    }
    bodies = {
        name: schema
        for name, described in published.items()
        if (schema := _schema(_resolved(other, described.get("requestBody", {}))))
    }
    facts = {name: _facts(other, published[name]) for name in bodies}
    for name, member, kind in taken(bodies, other):
        schema = facts[name].get(("request", member), {}).get("within", "")
        what = f"refuse {kind}" if kind else "refuse a body that is valid here"
        yield Difference(name, "sent", member, "takes it", what, kind=ACCEPTED, schema=schema)


def _facts(
    root: Mapping[str, Any], described: Mapping[str, Any]
) -> dict[tuple[str, str], dict[str, Any]]:
    """What a document says of each parameter and member of an operation."""
    facts: dict[tuple[str, str], dict[str, Any]] = {}
    for parameter in described.get("parameters", ()):
        resolved = _resolved(root, parameter)
        if resolved.get("in") == "query":
            required = bool(resolved.get("required"))
            _flatten(root, resolved.get("schema", {}), resolved["name"], required, "query", facts)
    body = _schema(_resolved(root, described.get("requestBody", {})))
    answers = described.get("responses", {})
    success = _schema(_resolved(root, answers.get("200", answers.get(200, {}))))
    for part, schema in (("request", body), ("answer", success)):
        if schema:
            _flatten(root, schema, "", False, part, facts)
    return facts


def _flatten(
    root: Mapping[str, Any], schema: Any, field: str, required: bool, part: str,
    found: dict[tuple[str, str], dict[str, Any]], depth: int = 0, within: str = "",
) -> None:  # fmt: skip
    schema = schema if isinstance(schema, Mapping) else {}  # true and false say nothing of a type
    kinds = _variants(root, schema)
    if field or not depth:  # a body, too, may be what one side lacks
        types = frozenset(one["type"] for one in kinds if one.get("type", "null") != "null")
        facts: dict[str, Any] = {"required": required, "within": within}
        if types:
            facts["type"] = types
        values = frozenset(
            json.dumps(v) if isinstance(v, list | dict) else v
            for one in kinds for v in one.get("enum", ()) if v is not None
        )  # fmt: skip
        if values:
            facts["values"] = values
        if part != "answer":  # what a deployment refuses
            facts["limits"] = frozenset(
                f"{limit} {one[limit]}" for one in kinds for limit in _LIMITS if limit in one
            )
        found[part, field] = facts
    if depth >= _DEPTH:
        return
    members, needed = _members(root, schema)
    inner = str(schema.get("$ref", "")).rpartition("/")[2] or within
    for name, member in members.items():
        path = f"{field}.{name}".strip(".")
        _flatten(root, member, path, name in needed, part, found, depth + 1, inner)
    for items in (one["items"] for one in kinds if isinstance(one.get("items"), Mapping)):
        _flatten(root, items, f"{field}[]", False, part, found, depth + 1, inner)


def _shown(facts: Mapping[str, Any]) -> str:
    kind = " or ".join(sorted(facts.get("type", {"present"})))
    return f"{kind}, required" if facts["required"] else kind


# ---------------------------------------------------------------------------- schemas


def _operations(root: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    # paths begin where the document's own server ends, as in https://api.example.com/v2
    servers = root.get("servers") or [{}]
    base = urlsplit(servers[0].get("url", "")).path.rstrip("/")
    return {
        _place(method.upper(), base + path): described
        for path, methods in (root.get("paths") or {}).items()
        for method, described in methods.items()
        if method in ("get", "post", "put", "patch", "delete")
    }


def _place(method: str, path: str) -> str:
    """Method and path, whatever its parts are called."""
    return f"{method} {_NAMED.sub('{}', path)}"


def _schema(within: Mapping[str, Any]) -> Mapping[str, Any] | None:
    content: Mapping[str, Any] = within.get("content", {})
    for media, described in content.items():
        if "json" in media:
            schema: Mapping[str, Any] | None = described.get("schema")
            return schema
    return None


def _resolved(root: Mapping[str, Any], schema: Any) -> Mapping[str, Any]:
    for _ in range(_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        if "$ref" not in schema:
            break
        target: Any = root
        for step in steps_of(str(schema["$ref"])):
            target = target.get(step, {}) if isinstance(target, Mapping) else {}
        schema = target
    return schema if isinstance(schema, Mapping) else {}


def _variants(
    root: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 0
) -> list[Mapping[str, Any]]:
    """A schema and what it is made of, each with one type at most."""
    whole = _resolved(root, schema)
    types = whole.get("type")
    made: list[Mapping[str, Any]] = [whole]
    if isinstance(types, list):
        made = [{**whole, "type": one} for one in types]
    if whole.get("nullable"):
        made.append({"type": "null"})
    parts = [*whole.get("anyOf", ()), *whole.get("oneOf", ()), *_all_of(whole)]
    for part in parts if depth < _DEPTH else ():
        made += _variants(root, part, depth + 1)
    return made


def _members(
    root: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 0
) -> tuple[dict[str, Any], set[str]]:
    """The members of an object's schema, and those that it always has."""
    whole = _resolved(root, schema)
    if depth >= _DEPTH or whole.get("type") == "null":
        return {}, set()
    said = {name: [member] for name, member in whole.get("properties", {}).items()}
    needed = set(whole.get("required", ()))
    alternatives = [
        [one for one in whole.get(name, ()) if _resolved(root, one).get("type") != "null"]
        for name in ("anyOf", "oneOf")
    ]
    for parts in ([one] for one in _all_of(whole)), alternatives:
        for part in parts:
            each = [_members(root, one, depth + 1) for one in part]
            for name in dict.fromkeys(name for members, _ in each for name in members):
                kinds = [members[name] for members, _ in each if name in members]
                said.setdefault(name, []).append(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
            needed |= set.intersection(*(always for _, always in each)) if each else set()
    return {name: one[0] if len(one) == 1 else {"allOf": one} for name, one in said.items()}, needed


def _all_of(whole: Mapping[str, Any]) -> list[Any]:
    """What holds beside a schema's own words: the sandbox's rules for its bodies are a ``then``."""
    rules = [whole["then"]] if whole.get("if") == {"type": "object"} and "then" in whole else []
    return [*whole.get("allOf", ()), *rules]
