"""What the sandbox answers, strictly: no ``null``, no other value of an enumeration, no empty text.

The models read other deployments too, and so take more than the sandbox gives.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from fundlab.models import TOKEN_LIFETIME_S, ConversionTarget
from fundlab.sandbox.openapi_bodies import COINS, METADATA, NULL, STABLECOINS, TEXT, only
from fundlab.sandbox.transfers import SecondaryStatus
from fundlab.sandbox.world import ASSETS
from fundlab.values import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS

Json = dict[str, Any]

HEX: Final = "[0-9a-f]"
ID: Final[Json] = {
    "type": "string",
    "format": "uuid",
    "pattern": f"^{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}$",
}
AMOUNT: Final = rf"^[0-9]{{1,{MAX_INTEGER_DIGITS}}}\.[0-9]{{2,{MAX_FRACTION_DIGITS}}}$"
INSTANT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6,9}Z$"
OWN_IDS: Final = ("ref_id", "memo_id")
"""Ids that are not UUIDs: the client's own, and what a wire quotes."""


def _one_of(*values: str) -> Json:
    return {"type": "string", "enum": list(values)}


ALWAYS: Final[dict[str, tuple[str, ...]]] = {
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
NEVER: Final = {"Event": "is_test", "FiatNetworkInstructions": "wallet_address"}
"""What only other deployments answer."""
VARIANTS: Final = ("FiatAccountOwner", "FiatNetworkInstructions", "RuleEnd")
"""Objects that hold exactly one of their members."""
MEMBERS: Final[dict[str, dict[str, Json]]] = {
    "CryptoDestinationAddress": {"status": _one_of("APPROVED")},
    "CryptoWithdrawalFee": {"asset": _one_of(*STABLECOINS, *COINS)},
    "CubixInstructions": {"account_id": TEXT},
    "DepositAddress": {"conversion_target_asset": _one_of(*get_args(ConversionTarget))},
    "OrchestrationRule": {"status": _one_of("ACTIVE")},
    "Problem": {"status": {"type": "integer", "minimum": 400, "maximum": 599}},
    "ProfileBalance": {"asset": _one_of(*ASSETS)},
    "Token": {
        "expires_in": {"type": "integer", "const": TOKEN_LIFETIME_S}, "scope": {"type": "string"},
        "token_type": _one_of("bearer"),
    },
    "Transfer": {
        "asset": _one_of(*ASSETS),
        "balance_asset": _one_of(*ASSETS),
        "secondary_status": only(
            "name", "detail", name=_one_of(*get_args(SecondaryStatus)), detail=TEXT
        ),
        "status_details": only("reason", reason=TEXT),
        "auto_conversion": only(from_transfer_id=ID, to_transfer_id=ID),
    },
}  # fmt: skip
"""Members of which more is known than the model says."""


def answered(name: str, schema: Json) -> Json:
    """The ``closed`` schema of the answer (or part of one) ``name``, with all that is known."""
    if "properties" not in schema:
        return schema
    told = {
        member: MEMBERS.get(name, {}).get(member) or _text(member, own)
        for member, own in schema["properties"].items()
        if member != NEVER.get(name)
    }
    required = dict.fromkeys((*schema.get("required", ()), *ALWAYS.get(name, ())))
    one = {"minProperties": 1, "maxProperties": 1} if name in VARIANTS else {}
    return {**schema, "properties": told, "required": list(required), **one}


def _text(name: str, schema: Json) -> Json:
    if name == "metadata":
        return METADATA
    if name == "next_page_cursor" or schema.get("type") != "string":
        return schema
    if name == "id" or (name.endswith("_id") and name not in OWN_IDS):
        return {**schema, **ID}
    known = {"decimal": AMOUNT, "date-time": INSTANT}.get(schema.get("format", ""))
    return {**schema, "pattern": known} if known else {**schema, **TEXT}


def closed(schema: Any, *, nulls: bool) -> Any:
    """``schema`` with closed enumerations and no unknown members; ``nulls`` keeps ``null``."""
    if isinstance(schema, list):
        return [closed(entry, nulls=nulls) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    told: Json = {
        name: closed(value, nulls=nulls)
        for name, value in schema.items()
        if not (name == "default" and value is None)
    }
    if "properties" in told:
        told["additionalProperties"] = False
    if "anyOf" in told:
        options = told.pop("anyOf")
        listed = any("$ref" in option for option in options)
        kept = [
            option
            for option in options
            if (nulls or option != NULL) and not (listed and option == {"type": "string"})
        ]
        told |= kept[0] if len(kept) == 1 else {"anyOf": kept}
    return told
