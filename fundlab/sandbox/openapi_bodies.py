"""What the models check in code, said in JSON Schema: amounts, variants, fields that go together.

Without it a client generated from the document could send bodies that fit and are refused.
"""

from __future__ import annotations

from typing import Any, Final

from fundlab.models import (
    MAX_METADATA_LENGTH,
    MAX_METADATA_PAIRS,
    MAX_WIRE_MEMO,
    CryptoNetwork,
    FiatNetwork,
    RoutingNumberType,
    StableAsset,
)
from fundlab.models.requests import ROUTING_NUMBER
from fundlab.sandbox.accounts import ADDRESS_PATTERNS
from fundlab.sandbox.rules import OTHER_END_ONLY
from fundlab.sandbox.world import ASSETS
from fundlab.values import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS

Json = dict[str, Any]

NULL: Final[Json] = {"type": "null"}
TEXT: Final[Json] = {"type": "string", "minLength": 1}
OPTIONAL: Final[Json] = {"type": ["string", "null"]}
INSTANT_PATTERN: Final = (
    r"^(1679|16[89][0-9]|1[789][0-9]{2}|2[01][0-9]{2}|22[0-5][0-9]|2260)-[0-9]{2}-[0-9]{2}[Tt]"
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""Years well inside what 64-bit nanoseconds can hold."""


def positive(decimals: int) -> Json:
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


CENTS: Final = positive(2)
GIVEN_AND_OTHER: Final = (("amount", "total"), ("total", "amount"))
STABLECOINS: Final = [str(asset) for asset in StableAsset if asset != "USD"]
COINS: Final = [asset for asset in ASSETS if asset not in set(StableAsset)]

METADATA: Final[Json] = {
    "type": "object",
    "maxProperties": MAX_METADATA_PAIRS,
    "propertyNames": {"maxLength": MAX_METADATA_LENGTH},
    "additionalProperties": {"type": "string", "maxLength": MAX_METADATA_LENGTH},
}


def only(*required: str, **properties: Json) -> Json:
    """An object with no other members than ``properties``."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _named(*names: str) -> Json:
    """At least one of the texts ``names``; the others may be absent."""
    return {
        **only(**dict.fromkeys(names, OPTIONAL)),
        "anyOf": [{"required": [name], "properties": {name: TEXT}} for name in names],
    }


def _one_of(**variants: Json) -> Json:
    """An object that holds exactly one of its variants; the others are absent or null."""
    return {
        "type": "object",
        "oneOf": [
            {
                "required": [name],
                "properties": dict.fromkeys(variants, NULL) | {name: variants[name]},
                "additionalProperties": False,
            }
            for name in variants
        ],
    }


OWNER: Final = _one_of(
    institution_details=_named("name"),
    person_details=_named("first_name", "last_name", "name"),
)
ADDRESS: Final[Json] = {"anyOf": [{"$ref": "#/components/schemas/Address"}, NULL]}
ROUTING: Final = only(
    "routing_number_type",
    "routing_number",
    routing_number_type={"enum": list(RoutingNumberType)},
    routing_number={"type": "string", "pattern": f"^{ROUTING_NUMBER.pattern}$"},
    bank_name=OPTIONAL,
    bank_address=ADDRESS,
)
WIRE: Final = only(
    "account_number",
    "routing_details",
    account_number=TEXT,
    fiat_account_owner_address=ADDRESS,
    routing_details=ROUTING,
    intermediary_routing_details={"anyOf": [ROUTING, NULL]},
)
CUBIX: Final = only("account_id", account_id=TEXT)
INSTRUCTIONS: Final[Json] = {
    "type": "object",
    "oneOf": [
        only("wire", wire=WIRE, cubix=NULL, wallet_address=NULL),
        {
            **only(
                wire=NULL,
                cubix={"anyOf": [only(account_id=OPTIONAL), NULL]},
                wallet_address=OPTIONAL,
            ),
            "anyOf": [
                {"required": ["cubix"], "properties": {"cubix": CUBIX}},
                {"required": ["wallet_address"], "properties": {"wallet_address": TEXT}},
            ],
        },
    ],
}
NETWORK: Final[Json] = {"enum": list(CryptoNetwork)}
PATTERNS: Final = {
    pattern: [str(network) for network in CryptoNetwork if ADDRESS_PATTERNS[network] == pattern]
    for pattern in dict.fromkeys(ADDRESS_PATTERNS.values())
}
"""How addresses are spelled → the networks on which they are."""
ON_NETWORKS: Final[list[tuple[Json, Json]]] = [
    ({"enum": networks}, {"type": "string", "pattern": f"^({pattern})$"})
    for pattern, networks in PATTERNS.items()
]
"""Networks and the addresses on them."""
FIAT_SOURCE: Final[Json] = {
    "anyOf": [
        {"required": ["deposit_instructions_id"], "properties": {"deposit_instructions_id": TEXT}},
        {"required": ["memo_id"], "properties": {"memo_id": TEXT}},
        {
            "required": ["network", "account_type"],
            "properties": {
                "network": {"const": str(FiatNetwork.WIRE)},
                "account_type": {"enum": list(RoutingNumberType)},
            },
        },
        {
            "required": ["network"],
            "properties": {"network": {"const": str(FiatNetwork.CUBIX)}, "account_type": NULL},
        },
    ],
    **only(
        **dict.fromkeys(
            ("deposit_instructions_id", "memo_id", "network", "account_type"), OPTIONAL
        ),
        **dict.fromkeys(OTHER_END_ONLY["source"]["fiat"], NULL),
    ),
}
PROFILE: Final = only("profile_id", profile_id=TEXT)
SOURCE: Final = _one_of(
    crypto=only("network", network=NETWORK, address_id=OPTIONAL, address=OPTIONAL),
    fiat=FIAT_SOURCE,
    profile=PROFILE,
)
DESTINATION: Final = _one_of(
    crypto={
        "oneOf": [
            only(
                "network",
                network=networks,
                address={"anyOf": [address, NULL]},
                **dict.fromkeys(OTHER_END_ONLY["destination"]["crypto"], NULL),
            )
            for networks, address in ON_NETWORKS
        ]
    },
    fiat=only(
        "fiat_account_id",
        fiat_account_id=TEXT,
        memo={**OPTIONAL, "maxLength": MAX_WIRE_MEMO},
        **dict.fromkeys(OTHER_END_ONLY["destination"]["fiat"], NULL),
    ),
    profile=PROFILE,
)

FIELDS: Final[dict[str, dict[str, Json]]] = {
    "InitiateSandboxFiatDeposit": {
        "amount": CENTS,
        "fiat_network_instructions": INSTRUCTIONS,
        "fiat_account_owner": OWNER,
    },
    "CreateFiatAccount": {"fiat_network_instructions": INSTRUCTIONS, "fiat_account_owner": OWNER},
    "UpdateFiatAccount": {
        "fiat_network_instructions": {"anyOf": [INSTRUCTIONS, NULL]},
        "fiat_account_owner": {"anyOf": [OWNER, NULL]},
    },
    "CreateOrchestrationRule": {
        "source": SOURCE,
        "destination": {"anyOf": [DESTINATION, NULL]},
    },
}
"""Fields whose own rules the models check in code."""

TOGETHER: Final[dict[str, Json]] = {
    "CreateFiatDepositInstructions": {
        "oneOf": [
            {
                "required": ["routing_number_type"],
                "properties": {
                    "fiat_network": {"const": "WIRE"},
                    "routing_number_type": {"enum": list(RoutingNumberType)},
                },
            },
            {"properties": {"fiat_network": {"const": "CUBIX"}, "routing_number_type": NULL}},
        ]
    },
    "CreateOrchestrationRule": {
        "oneOf": [
            {
                "properties": {
                    "source_asset": {"const": str(asset)},
                    "destination_asset": {"enum": [str(a) for a in StableAsset if a != asset]},
                }
            }
            for asset in StableAsset
        ]
    },
    "CreateCryptoWithdrawalFee": {
        "oneOf": [
            {
                "required": [given],
                "properties": {
                    "asset": {"enum": assets},
                    given: amount,
                    other: NULL,
                    "crypto_network": networks,
                    "destination_address": address,
                },
            }
            for given, other in GIVEN_AND_OTHER
            for assets, amount in ((STABLECOINS, CENTS), (COINS, positive(MAX_FRACTION_DIGITS)))
            for networks, address in ON_NETWORKS
        ]
    },
    "CreateFiatWithdrawal": {
        "oneOf": [
            {"required": [given], "properties": {given: CENTS, other: NULL}}
            for given, other in GIVEN_AND_OTHER
        ]
    },
}
"""Rules between the fields of one body."""

END_USER: Final[Json] = {
    "anyOf": [
        {"properties": {"account_id": NULL}},
        {"required": ["identity_id"], "properties": {"identity_id": TEXT}},
    ]
}
"""An ``account_id`` comes with the ``identity_id`` it belongs to."""


def _end_asset(end: str, variant: str, asset: Json) -> Json:
    """What a rule converts from or to, where its ``end`` is of the ``variant``."""
    named = {"required": [variant], "properties": {variant: {"type": "object"}}}
    return {
        "if": {"required": [end], "properties": {end: named}},
        "then": {"properties": {f"{end}_asset": asset}},
    }


END_ASSETS: Final = [
    _end_asset(end, variant, {"enum": assets})
    for end in ("source", "destination")
    for variant, assets in (("fiat", ["USD"]), ("crypto", STABLECOINS))
]
"""USD arrives and leaves by bank, the stablecoins on chain."""


def with_rules(name: str, schema: Json) -> Json:
    """The schema of the request ``name`` with the rules that its model checks in code.

    They stand under a condition that always holds, because generators of clients turn a plain
    ``oneOf`` into a type for each branch, and read past this one.
    """
    properties: Json = dict(schema["properties"])
    if "metadata" in properties:
        properties["metadata"] = {"anyOf": [METADATA, NULL]}
    together = [TOGETHER[name]] if name in TOGETHER else []
    if "account_id" in properties:
        together.append(END_USER)
    if name == "CreateOrchestrationRule":
        together += END_ASSETS
    rules: Json = {}
    if name in FIELDS:
        rules["properties"] = FIELDS[name]
    if together:
        rules["allOf"] = together
    told = {**schema, "properties": properties}
    return {**told, "if": {"type": "object"}, "then": rules} if rules else told
