"""The OpenAPI 3.1 document: FastAPI makes it of the operations and their models.

By hand is what FastAPI cannot know or say: what each operation's problems and links are, what the
sandbox always or never answers although the models take more, rules that only the sandbox has, the
name of the signature header, and the form of the token endpoint. And by hand is undone what FastAPI
adds: its own 422 and titles of parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from fastapi.openapi.models import OAuthFlowClientCredentials, OAuthFlows
from fastapi.openapi.utils import get_openapi
from fastapi.security import OAuth2
from pydantic import TypeAdapter
from starlette.routing import BaseRoute

from fundlab.base.exact import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS
from fundlab.models import (
    OPERATIONS,
    SCOPES,
    TOKEN_LIFETIME_S,
    ConversionTarget,
    Operation,
    Problem,
    Resource,
)
from fundlab.models.json_schema import TEXT, Schema, closed, only, with_rules
from fundlab.models.requests import Metadata
from fundlab.sandbox.crypto_fees import COINS, FEE_RULES, STABLECOINS
from fundlab.sandbox.movements import SecondaryStatus
from fundlab.sandbox.orchestration import RULE_RULES
from fundlab.sandbox.refusals import PROBLEM_MEDIA_TYPE, phrase
from fundlab.sandbox.world import ASSETS, END_USER

TITLE: Final = "Fiat transfer, profile funding and request-signing service (sandbox)"
TOKEN_PATH: Final = "/oauth2/token"
PROBLEMS: Final = {
    400: "A field, parameter, cursor or limit is invalid; `meta.field` names it.",
    401: "No, unknown or expired token; missing or bad signature.",
    403: "The token lacks the scope, or the funds do not suffice.",
    404: "No such resource, or one of another customer.",
    409: "The `ref_id` is used already; `meta.existing` is what it made.",
    413: "The body is larger than 1 MiB.",
    415: "The content type is not application/json.",
    429: "Too many requests; see `Retry-After`.",
}
HEADERS: Final[dict[int, dict[str, Schema]]] = {
    401: {"WWW-Authenticate": {"description": "Bearer", "schema": {"type": "string"}}},
    429: {"Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer"}}},
}
OAUTH2: Final = OAuth2(
    scheme_name="oauth2",
    flows=OAuthFlows(
        clientCredentials=OAuthFlowClientCredentials(
            tokenUrl=TOKEN_PATH,
            scopes={
                scope: ", ".join(name for name, op in OPERATIONS.items() if op.scope == scope)
                for scope in SCOPES
            },
        )
    ),
    auto_error=False,  # ``Access`` refuses, before FastAPI reads a body
)

# ---------------------------------------------------------------------------- operations


def described(operation: Operation) -> dict[str, Any]:
    """What the document says of an operation, as arguments for its route."""
    statuses = [400, 401, 403, 429]
    if "{" in operation.path or operation.body is not None:
        statuses.append(404)
    if operation.body is not None:
        statuses += [413, 415]
        if "ref_id" in operation.body.model_fields:
            statuses.append(409)
    links: Schema = {
        f"{operation.name}_to_{target}": {"operationId": target, **given}
        for target, given in LINKS.get(operation.name, {}).items()
    }
    if operation.query is not None:
        links["next_page"] = {
            "operationId": operation.name,
            "description": "The same query again, with the cursor of this page.",
            "parameters": {"page_cursor": "$response.body#/next_page_cursor"},
        }
    return {
        "operation_id": operation.name,
        "summary": operation.name.replace("_", " ").capitalize(),
        "description": f"Interface §{operation.section}. Scope `{operation.scope}`.",
        "response_description": "Done",
        "responses": {status: problem(status) for status in sorted(statuses)},
        "openapi_extra": {"responses": {"200": {"links": links}}} if links else None,
    }


def problem(status: int) -> dict[str, Any]:
    return {
        "description": f"{phrase(status)}. {PROBLEMS[status]}",
        # FastAPI has one media type for all that a route answers, so not its ``model``
        "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        **({"headers": HEADERS[status]} if status in HEADERS else {}),
    }


LINK_BODY: Final = "x-requestBody"
"""What a link names in the body: not ``requestBody``, where the parser of all generators in Java
takes nothing but text, against the specification, and refuses the document."""
_FROM_ID: Final = {"parameters": {"id": "$response.body#/id"}}
_FIRST_ITEM: Final = {"parameters": {"id": "$response.body#/items/0/id"}}


def _balance_of(row: str) -> Schema:
    place = f"$response.body#{row}"
    return {"parameters": {"profile_id": f"{place}/profile_id", "asset": f"{place}/asset"}}


LINKS: Final[Mapping[str, Mapping[str, Schema]]] = {
    "create_fiat_deposit_instructions": {
        "get_fiat_deposit_instructions": _FROM_ID,
        "initiate_sandbox_fiat_deposit": {LINK_BODY: {"memo_id": "$response.body#/memo_id"}},
    },
    "list_fiat_deposit_instructions": {"get_fiat_deposit_instructions": _FIRST_ITEM},
    "create_fiat_account": {
        "get_fiat_account": _FROM_ID,
        "update_fiat_account": _FROM_ID,
        "create_fiat_withdrawal": {LINK_BODY: {"fiat_account_id": "$response.body#/id"}},
    },
    "update_fiat_account": {"get_fiat_account": _FROM_ID},
    "list_fiat_accounts": {"get_fiat_account": _FIRST_ITEM, "update_fiat_account": _FIRST_ITEM},
    "create_fiat_withdrawal": {"get_transfer": _FROM_ID, "get_profile_balance": _balance_of("")},
    "list_transfers": {
        "get_transfer": _FIRST_ITEM, "get_profile_balance": _balance_of("/items/0"),
    },
    "list_crypto_destination_addresses": {
        "create_crypto_withdrawal_fee": {
            LINK_BODY: {
                "destination_address": "$response.body#/addresses/0/address",
                "crypto_network": "$response.body#/addresses/0/crypto_network",
            }
        },
    },
}  # fmt: skip
"""Operation → the calls its answer leads to: a reader learns where an id comes from, and a tool
that follows links reaches what a call made."""

_TEXT_TYPE: Final = {"type": "string"}
_TOKEN_FORM: Final = {
    "type": "object",
    "required": ["grant_type", "client_id", "client_secret"],
    "properties": {
        "grant_type": {**_TEXT_TYPE, "enum": ["client_credentials"]},
        "client_id": _TEXT_TYPE, "client_secret": _TEXT_TYPE, "scope": _TEXT_TYPE,
    },
}  # fmt: skip
_TOKEN_ERROR: Final = {
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {"error": _TEXT_TYPE, "error_description": _TEXT_TYPE},
            }
        }
    }
}
TOKEN_DESCRIBED: Final[dict[str, Any]] = {
    "operation_id": "issue_token",
    "summary": "Issue a token",
    "description": (
        "Interface §5.1: OAuth 2.0 client credentials. A form of the type "
        "application/x-www-form-urlencoded is taken, too."
    ),
    "response_description": "A bearer token",
    "responses": {
        400: {"description": "invalid_request, invalid_scope …", **_TOKEN_ERROR},
        401: {"description": "invalid_client", **_TOKEN_ERROR},
        413: problem(413),
        429: problem(429),
    },
    "openapi_extra": {
        "security": [],
        "requestBody": {
            "required": True,
            # and application/x-www-form-urlencoded; but for a choice of two openapi-python-client
            # makes what cannot be imported
            "content": {"multipart/form-data": {"schema": _TOKEN_FORM}},
        },
    },
}

# ---------------------------------------------------------------------------- answers

_HEX: Final = "[0-9a-f]"
ID: Final[Schema] = {
    "type": "string",
    "format": "uuid",
    "pattern": f"^{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}$",
}
AMOUNT: Final = rf"^[0-9]{{1,{MAX_INTEGER_DIGITS}}}\.[0-9]{{2,{MAX_FRACTION_DIGITS}}}$"
INSTANT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6,9}Z$"
OWN_IDS: Final = ("ref_id", "memo_id")
"""Ids that are not UUIDs: the client's own, and what a wire quotes."""


def _listed(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


ALWAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "CryptoDestinationAddress": ("nickname",),
    "CryptoDestinationAddressPage": ("next_page_cursor",),
    "CryptoEnd": ("network",),
    "CryptoWithdrawalFee": ("amount", "total"),
    "CubixInstructions": ("account_id",),
    "DepositAddress": ("customer_id", "conversion_target_asset", "compatible_crypto_networks"),
    "Event": ("undelivered_webhooks",),
    "EventPage": ("next_page_cursor",),
    "FiatAccount": ("updated_at",),
    "FiatAccountPage": ("next_page_cursor",),
    "FiatDepositInstructions": ("customer_id", "fiat_account_owner", "identity_id"),
    "FiatDepositInstructionsPage": ("next_page_cursor",),
    "InstitutionDetails": ("name",),
    "OrchestrationRule": ("status",),
    "Problem": ("type", "title", "status", "detail"),
    "ProfileEnd": ("profile_id",),
    "RoutingDetails": ("routing_number_type", "routing_number"),
    "Token": ("scope", "token_type"),
    "TransferPage": ("next_page_cursor",),
    "WireInstructions": ("account_number", "routing_details"),
}
"""What is there in every answer, although the interface does not require it."""
NEVER: Final = {
    "Event": "is_test", "FiatNetworkInstructions": "wallet_address", "PersonDetails": "name",
}  # fmt: skip
"""What only other deployments answer."""
VARIANTS: Final = ("FiatAccountOwner", "FiatNetworkInstructions", "RuleEnd")
"""Objects that hold exactly one of their members."""
MEMBERS: Final[Mapping[str, Mapping[str, Schema]]] = {
    "CryptoDestinationAddress": {"status": _listed("APPROVED")},
    "CryptoWithdrawalFee": {"asset": _listed(*STABLECOINS, *COINS)},
    "CubixInstructions": {"account_id": TEXT},
    "DepositAddress": {"conversion_target_asset": _listed(*get_args(ConversionTarget))},
    "OrchestrationRule": {"status": _listed("ACTIVE")},
    "Problem": {"status": {"type": "integer", "minimum": 400, "maximum": 599}},
    "ProfileBalance": {"asset": _listed(*ASSETS)},
    "Token": {
        "expires_in": {"type": "integer", "const": TOKEN_LIFETIME_S}, "scope": _TEXT_TYPE,
        "token_type": _listed("bearer"),
    },
    "Transfer": {
        "asset": _listed(*ASSETS),
        "balance_asset": _listed(*ASSETS),
        "secondary_status": only(
            "name", "detail", name=_listed(*get_args(SecondaryStatus)), detail=TEXT
        ),
        "status_details": only("reason", reason=TEXT),
        "auto_conversion": only(from_transfer_id=ID, to_transfer_id=ID),
    },
}  # fmt: skip
"""Members of which more is known than the model says."""


def _answered(name: str, schema: Schema) -> Schema:
    """The schema of the answer (or part of one) ``name`` with all that is known of it."""
    members: Schema = {}
    for member, own in schema["properties"].items():
        if member == NEVER.get(name):
            continue
        known = MEMBERS.get(name, {}).get(member)
        if known is None and member == "metadata":
            known = METADATA
        elif known is None and own.get("type") == "string" and member != "next_page_cursor":
            known = {**own, **TEXT}
            if member == "id" or (member.endswith("_id") and member not in OWN_IDS):
                known = {**own, **ID}
            elif pattern := {"decimal": AMOUNT, "date-time": INSTANT}.get(own.get("format", "")):
                known = {**own, "pattern": pattern}
        members[member] = known or own
    required = dict.fromkeys((*schema.get("required", ()), *ALWAYS.get(name, ())))
    exactly_one = {"minProperties": 1, "maxProperties": 1} if name in VARIANTS else {}
    return {**schema, "properties": members, "required": list(required), **exactly_one}


# ---------------------------------------------------------------------------- the document


def _all_kinds(kind: type[Resource]) -> Iterator[type[Resource]]:
    for own in kind.__subclasses__():
        yield own
        yield from _all_kinds(own)


OWN_RULES: Final[Mapping[str, list[Schema]]] = {
    "CreateCryptoWithdrawalFee": FEE_RULES, "CreateOrchestrationRule": RULE_RULES,
}  # fmt: skip
"""Body → rules that only the sandbox has, beside its model's own."""
METADATA: Final = TypeAdapter(Metadata).json_schema()


def document(routes: Sequence[BaseRoute], signature_header: str) -> dict[str, Any]:
    """The document; ``signature_header`` is the name under which signatures are expected."""
    made = get_openapi(
        title=TITLE, version="2", routes=routes,
        description="Decimal strings; money is never a JSON number.",
    )  # fmt: skip
    signature = {
        "name": signature_header,
        "in": "header",
        "required": False,
        "description": "Compact JWS over the exact body (§5.2), where the credential requires it.",
        "schema": {"type": "string"},
    }
    for path in made["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            if operation["operationId"] in OPERATIONS:
                operation.setdefault("parameters", []).append(signature)
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = closed(parameter["schema"])
                for name in ("title", "description"):
                    parameter["schema"].pop(name, None)
    bodies = {op.body.__name__ for op in OPERATIONS.values() if op.body is not None}
    schemas = made["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    answers = {kind.__name__ for kind in _all_kinds(Resource)}
    schemas["Problem"] = Problem.model_json_schema(mode="serialization")
    for name, schema in schemas.items():
        if name in bodies:
            end_user = [END_USER] if "account_id" in schema["properties"] else []
            schemas[name] = with_rules(schema, [*OWN_RULES.get(name, ()), *end_user])
        elif "properties" in schema and name in answers:
            schemas[name] = _answered(name, schema)
    for name, schema in schemas.items():
        schema["title"] = name  # generators of clients name their classes after it
    return made
