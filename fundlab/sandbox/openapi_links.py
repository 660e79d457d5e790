"""Which answer leads to which call: the links of the OpenAPI document.

A reader learns where an id comes from, and a tool that follows links reaches what a call made.
"""

from __future__ import annotations

from typing import Any, Final

from fundlab.models import Operation

Json = dict[str, Any]

FROM_ID: Final[Json] = {"parameters": {"id": "$response.body#/id"}}
FIRST_ITEM: Final[Json] = {"parameters": {"id": "$response.body#/items/0/id"}}

LINKS: Final[dict[str, dict[str, Json]]] = {
    "create_fiat_deposit_instructions": {
        "get_fiat_deposit_instructions": FROM_ID,
        "initiate_sandbox_fiat_deposit": {"requestBody": {"memo_id": "$response.body#/memo_id"}},
    },
    "list_fiat_deposit_instructions": {"get_fiat_deposit_instructions": FIRST_ITEM},
    "create_fiat_account": {
        "get_fiat_account": FROM_ID,
        "update_fiat_account": FROM_ID,
        "create_fiat_withdrawal": {"requestBody": {"fiat_account_id": "$response.body#/id"}},
    },
    "update_fiat_account": {"get_fiat_account": FROM_ID},
    "list_fiat_accounts": {"get_fiat_account": FIRST_ITEM, "update_fiat_account": FIRST_ITEM},
    "create_fiat_withdrawal": {
        "get_transfer": FROM_ID,
        "get_profile_balance": {
            "parameters": {
                "profile_id": "$response.body#/profile_id",
                "asset": "$response.body#/asset",
            }
        },
    },
    "list_transfers": {
        "get_transfer": FIRST_ITEM,
        "get_profile_balance": {
            "parameters": {
                "profile_id": "$response.body#/items/0/profile_id",
                "asset": "$response.body#/items/0/asset",
            }
        },
    },
    "list_crypto_destination_addresses": {
        "create_crypto_withdrawal_fee": {
            "requestBody": {
                "destination_address": "$response.body#/addresses/0/address",
                "crypto_network": "$response.body#/addresses/0/crypto_network",
            }
        },
    },
}


def links(operation: Operation) -> Json:
    """The links of an operation's 200, by their names."""
    found = {
        f"{operation.name}_to_{target}": {"operationId": target, **given}
        for target, given in LINKS.get(operation.name, {}).items()
    }
    if operation.query is not None:
        found["next_page"] = {
            "operationId": operation.name,
            "description": "The same query again, with the cursor of this page.",
            "parameters": {"page_cursor": "$response.body#/next_page_cursor"},
        }
    return found
