"""The tables of the interface (§§2 to 8) and of the decisions about it, written out by hand.

Nothing here is derived from ``fundlab.models``: that is what it is compared with.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UUID: Final = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
TEXT: Final = r"(?s).+"
ANY_TEXT: Final = r"(?s).*"
AMOUNT: Final = r"[0-9]*\.?[0-9]+"
TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
NANOS: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"

ROUTING_NUMBER_TYPES: Final = ("ABA", "SWIFT")
INSTRUCTIONS_STATUSES: Final = ("VALID", "DEPRECATED")
ACCOUNT_STATUSES: Final = ("PENDING", "APPROVED", "REJECTED")
DIRECTIONS: Final = ("CREDIT", "DEBIT")
TRANSFER_TYPES: Final = (
    "INTERNAL_TRANSFER_DEBIT", "INTERNAL_TRANSFER_CREDIT", "CRYPTO_DEPOSIT", "CRYPTO_WITHDRAWAL",
    "WIRE_DEPOSIT", "WIRE_WITHDRAWAL", "SEN_DEPOSIT", "SEN_WITHDRAWAL", "BANK_DEPOSIT",
    "BANK_WITHDRAWAL", "PAXOS_TRANSFER_DEBIT", "PAXOS_TRANSFER_CREDIT", "SIGNET_DEPOSIT",
    "SIGNET_WITHDRAWAL", "CBIT_WITHDRAWAL", "CBIT_DEPOSIT", "CUBIX_DEPOSIT", "CUBIX_WITHDRAWAL",
    "RTP_DEPOSIT",
)  # fmt: skip
TRANSFER_STATUSES: Final = ("PENDING", "COMPLETED", "FAILED")
RULE_ASSETS: Final = ("USDG", "PYUSD", "USDP", "USDC", "USD")
NETWORKS: Final = (
    "BITCOIN", "ETHEREUM", "BITCOIN_CASH", "LITECOIN", "SOLANA", "POLYGON_POS", "BASE",
    "ARBITRUM_ONE", "STELLAR", "INK", "XLAYER",
)  # fmt: skip
FIAT_NETWORKS: Final = ("WIRE", "CUBIX")
ORDERS: Final = ("DESC", "ASC")

ENUMERATIONS: Final = {
    "2.1 RoutingNumberType": ROUTING_NUMBER_TYPES,
    "2.2 DepositInstructionsStatus": INSTRUCTIONS_STATUSES,
    "2.3 FiatAccountStatus": ACCOUNT_STATUSES,
    "2.4 Direction": DIRECTIONS,
    "2.4 TransferType": TRANSFER_TYPES,
    "2.4 TransferStatus": TRANSFER_STATUSES,
    "2.6 StableAsset": RULE_ASSETS,
    "2.7 CryptoNetwork": NETWORKS,
    "4.1 FiatNetwork": FIAT_NETWORKS,
    "4.5 Order": ORDERS,
}
"""§ and name of the enumeration → its members."""


class Field(NamedTuple):
    """A text's pattern, the members of an enumeration or a type; and whether it must be there."""

    kind: str | tuple[str, ...] | type
    required: bool = False


RESOURCES: Final[dict[str, dict[str, Field]]] = {
    "2.1 Address": {
        "country": Field(TEXT), "address1": Field(TEXT), "address2": Field(TEXT),
        "city": Field(TEXT), "province": Field(TEXT), "zip_code": Field(TEXT),
    },
    "2.1 RoutingDetails": {
        "routing_number_type": Field(ROUTING_NUMBER_TYPES), "routing_number": Field(TEXT),
        "bank_name": Field(TEXT), "bank_address": Field(dict),
    },
    "2.1 WireInstructions": {
        "account_number": Field(TEXT), "fiat_account_owner_address": Field(dict),
        "routing_details": Field(dict), "intermediary_routing_details": Field(dict),
    },
    "2.1 CubixInstructions": {"account_id": Field(TEXT)},
    "2.1 InstitutionDetails": {"name": Field(TEXT)},
    "2.1 PersonDetails": {
        "first_name": Field(TEXT), "last_name": Field(TEXT), "name": Field(TEXT),
    },
    "2.1 FiatAccountOwner": {"institution_details": Field(dict), "person_details": Field(dict)},
    "2.1 FiatNetworkInstructions": {"wire": Field(dict), "cubix": Field(dict)},
    "2.2 FiatDepositInstructions": {
        "id": Field(UUID, True), "profile_id": Field(UUID, True), "identity_id": Field(UUID, True),
        "account_id": Field(UUID), "customer_id": Field(UUID), "ref_id": Field(TEXT),
        "status": Field(INSTRUCTIONS_STATUSES, True), "memo_id": Field(TEXT, True),
        "fiat_network_instructions": Field(dict, True), "fiat_account_owner": Field(dict),
        "metadata": Field(dict), "created_at": Field(TIME, True),
    },
    "2.3 FiatAccount": {
        "id": Field(UUID, True), "ref_id": Field(TEXT), "identity_id": Field(UUID),
        "account_id": Field(UUID), "fiat_account_owner": Field(dict),
        "fiat_network_instructions": Field(dict, True), "status": Field(ACCOUNT_STATUSES, True),
        "metadata": Field(dict), "created_at": Field(TIME, True), "updated_at": Field(TIME),
    },
    "2.4 Transfer": {
        "id": Field(UUID, True), "ref_id": Field(TEXT), "customer_id": Field(UUID, True),
        "profile_id": Field(UUID, True), "identity_id": Field(UUID), "account_id": Field(UUID),
        "amount": Field(AMOUNT, True), "fee": Field(AMOUNT, True), "total": Field(AMOUNT, True),
        "asset": Field(TEXT, True), "balance_asset": Field(TEXT),
        "direction": Field(DIRECTIONS, True), "type": Field(TRANSFER_TYPES, True),
        "status": Field(TRANSFER_STATUSES, True), "secondary_status": Field(dict),
        "status_details": Field(dict), "metadata": Field(dict), "created_at": Field(TIME, True),
        "updated_at": Field(TIME, True), "auto_conversion": Field(dict), "group_id": Field(UUID),
        "fiat_account_id": Field(UUID), "memo": Field(TEXT), "crypto_network": Field(NETWORKS),
        "crypto_tx_hash": Field(TEXT), "crypto_tx_index": Field(TEXT),
        "destination_address": Field(TEXT), "notional_value": Field(AMOUNT),
    },
    "2.5 ProfileBalance": {
        "asset": Field(TEXT, True), "available": Field(AMOUNT, True),
        "trading": Field(AMOUNT, True),
    },
    "2.6 OrchestrationRule": {
        "id": Field(UUID, True), "ref_id": Field(TEXT, True), "nickname": Field(TEXT),
        "profile_id": Field(UUID, True), "identity_id": Field(UUID), "account_id": Field(UUID),
        "source_asset": Field(RULE_ASSETS, True), "destination_asset": Field(RULE_ASSETS, True),
        "source": Field(dict, True), "destination": Field(dict), "created_at": Field(TIME, True),
        "status": Field(("ACTIVE",), True),
    },
    "2.6 RuleEnd": {"crypto": Field(dict), "fiat": Field(dict), "profile": Field(dict)},
    "2.6 CryptoEnd": {
        "address_id": Field(UUID), "address": Field(TEXT), "network": Field(NETWORKS, True),
    },
    "2.6 FiatEnd": {
        "deposit_instructions_id": Field(UUID), "network": Field(FIAT_NETWORKS),
        "account_type": Field(ROUTING_NUMBER_TYPES), "memo_id": Field(TEXT),
        "fiat_account_id": Field(UUID), "memo": Field(TEXT),
    },
    "2.6 ProfileEnd": {"profile_id": Field(UUID, True)},
    "4.14 OrchestrationRuleAnswer": {"rule": Field(dict, True)},
    "2.8 CryptoDestinationAddress": {
        "id": Field(UUID, True), "crypto_network": Field(NETWORKS, True),
        "address": Field(TEXT, True), "nickname": Field(TEXT), "status": Field(("APPROVED",), True),
        "created_at": Field(TIME, True), "bookmarked": Field(bool, True),
        "identity_id": Field(UUID),
    },
    "2.9 CryptoWithdrawalFee": {
        "id": Field(UUID, True), "fee": Field(AMOUNT, True), "asset": Field(TEXT, True),
        "amount": Field(AMOUNT), "total": Field(AMOUNT), "expires_at": Field(TIME, True),
        "destination_address": Field(TEXT, True), "crypto_network": Field(NETWORKS, True),
    },
    "2.10 Event": {
        "id": Field(UUID, True), "type": Field(TEXT, True), "object_type": Field(TEXT, True),
        "object": Field(dict, True), "created_at": Field(NANOS, True),
        "undelivered_webhooks": Field(int),
    },
    "4.13 DepositAddress": {
        "id": Field(UUID, True), "profile_id": Field(UUID, True), "customer_id": Field(UUID, True),
        "ref_id": Field(TEXT), "identity_id": Field(UUID), "account_id": Field(UUID),
        "crypto_network": Field(NETWORKS, True), "address": Field(TEXT, True),
        "conversion_target_asset": Field(("NO_CONVERSION", "USD"), True),
        "compatible_crypto_networks": Field(list, True), "metadata": Field(dict),
        "created_at": Field(TIME, True),
    },
    "4.3 FiatDepositInstructionsPage": {
        "items": Field(list, True), "next_page_cursor": Field(ANY_TEXT, True),
    },
    "4.5 TransferPage": {"items": Field(list, True), "next_page_cursor": Field(ANY_TEXT, True)},
    "4.11 FiatAccountPage": {"items": Field(list, True), "next_page_cursor": Field(ANY_TEXT, True)},
    "4.15 CryptoDestinationAddressPage": {
        "addresses": Field(list, True), "next_page_cursor": Field(ANY_TEXT, True),
    },
    "6 EventPage": {"events": Field(list, True), "next_page_cursor": Field(ANY_TEXT, True)},
    "5.1 Token": {
        "access_token": Field(TEXT, True), "expires_in": Field(int, True),
        "scope": Field(TEXT, True), "token_type": Field(("bearer",), True),
    },
    "7 Problem": {
        "type": Field(TEXT, True), "title": Field(TEXT, True), "status": Field(int, True),
        "detail": Field(TEXT), "meta": Field(dict),
    },
}  # fmt: skip
"""§ and name of the resource → its fields."""

ONLY_READ: Final = {
    "2.1 FiatNetworkInstructions": {"wallet_address"},
    "2.10 Event": {"is_test"},
}
"""What other deployments may answer and the sandbox does not: CUBIX accounts come back as ``cubix``
(decisions), and ``is_test`` is a filter (§6)."""


class Operation(NamedTuple):
    """A row of §4, with its scope from §5.1."""

    section: str
    method: str
    path: str
    scope: str


OPERATIONS: Final = {
    "create_fiat_deposit_instructions": Operation(
        "4.1", "POST", "/v2/transfer/fiat-deposit-instructions",
        "transfer:write_fiat_deposit_instructions",
    ),
    "get_fiat_deposit_instructions": Operation(
        "4.2", "GET", "/v2/transfer/fiat-deposit-instructions/{id}",
        "transfer:read_fiat_deposit_instructions",
    ),
    "list_fiat_deposit_instructions": Operation(
        "4.3", "GET", "/v2/transfer/fiat-deposit-instructions",
        "transfer:read_fiat_deposit_instructions",
    ),
    "initiate_sandbox_fiat_deposit": Operation(
        "4.4", "POST", "/v2/sandbox/fiat-deposits", "transfer:write_sandbox_fiat_deposit"
    ),
    "list_transfers": Operation("4.5", "GET", "/v2/transfer/transfers", "transfer:read_transfer"),
    "get_transfer": Operation(
        "4.6", "GET", "/v2/transfer/transfers/{id}", "transfer:read_transfer"
    ),
    "get_profile_balance": Operation(
        "4.7", "GET", "/v2/profiles/{profile_id}/balances/{asset}", "funding:read_profile"
    ),
    "create_fiat_account": Operation(
        "4.8", "POST", "/v2/transfer/fiat-accounts", "transfer:write_fiat_account"
    ),
    "get_fiat_account": Operation(
        "4.9", "GET", "/v2/transfer/fiat-accounts/{id}", "transfer:read_fiat_account"
    ),
    "update_fiat_account": Operation(
        "4.10", "PUT", "/v2/transfer/fiat-accounts/{id}", "transfer:write_fiat_account"
    ),
    "list_fiat_accounts": Operation(
        "4.11", "GET", "/v2/transfer/fiat-accounts", "transfer:read_fiat_account"
    ),
    "create_fiat_withdrawal": Operation(
        "4.12", "POST", "/v2/transfer/fiat-withdrawals", "transfer:write_fiat_withdrawal"
    ),
    "create_deposit_address": Operation(
        "4.13", "POST", "/v2/transfer/deposit-addresses", "transfer:write_deposit_address"
    ),
    "create_orchestration_rule": Operation(
        "4.14", "POST", "/v2/orchestration/rules", "orchestration:write_orchestration_rule"
    ),
    "list_crypto_destination_addresses": Operation(
        "4.15", "GET", "/v2/transfer/crypto-destination-addresses",
        "transfer:read_crypto_destination_address",
    ),
    "create_crypto_withdrawal_fee": Operation(
        "4.16", "POST", "/v2/transfer/fees/crypto-withdrawal", "fee:write_crypto_withdrawal_fee"
    ),
    "list_events": Operation("4.17", "GET", "/v2/events", "events:read_event"),
}  # fmt: skip

REQUESTS: Final[dict[str, dict[str, bool]]] = {
    "create_fiat_deposit_instructions": {
        "profile_id": True, "fiat_network": True, "routing_number_type": True,
        "identity_id": False, "account_id": False, "ref_id": False, "metadata": False,
    },
    "initiate_sandbox_fiat_deposit": {
        "amount": True, "asset": True, "memo_id": True, "fiat_network_instructions": True,
        "fiat_account_owner": True,
    },
    "create_fiat_account": {
        "ref_id": False, "identity_id": False, "account_id": False, "fiat_account_owner": True,
        "fiat_network_instructions": True, "metadata": False,
    },
    "update_fiat_account": {
        "fiat_account_owner": False, "fiat_network_instructions": False, "metadata": False,
    },
    "create_fiat_withdrawal": {
        "ref_id": False, "amount": True, "asset": True, "fiat_account_id": True,
        "profile_id": True, "identity_id": False, "account_id": False, "metadata": False,
        "memo": False, "total": False,
    },
    "create_deposit_address": {
        "profile_id": True, "crypto_network": True, "ref_id": False, "identity_id": False,
        "account_id": False, "metadata": False, "conversion_target_asset": False,
    },
    "create_orchestration_rule": {
        "ref_id": True, "profile_id": True, "source_asset": True, "destination_asset": True,
        "source": True, "nickname": False, "identity_id": False, "account_id": False,
        "destination": False,
    },
    "create_crypto_withdrawal_fee": {
        "asset": True, "destination_address": True, "crypto_network": True, "amount": True,
        "total": False, "identity_id": False,
    },
}  # fmt: skip
"""Operation → its body's fields, and whether one may not be missing (``routing_number_type`` for
``WIRE``; ``amount`` where there is no ``total``)."""

TIMES: Final = ("lt", "lte", "eq", "gte", "gt")
_PAGED: Final = {
    "limit": "0", "order": "UP", "page_cursor": "x",
    **{f"created_at.{name}": "yesterday" for name in TIMES},
}  # fmt: skip
TOO_MANY: Final = "*101"
"""Stands for 101 entries."""
TWICE: Final = "*2"
"""Stands for the parameter given twice."""
QUERIES: Final[dict[str, dict[str, str]]] = {
    "list_fiat_deposit_instructions": {
        **_PAGED, "order_by": "AMOUNT", "ids": TOO_MANY, "ref_ids": TOO_MANY,
    },
    "list_transfers": {
        **_PAGED, "order_by": "AMOUNT", "ids": TOO_MANY, "ref_ids": TOO_MANY,
        "profile_ids": TOO_MANY, "identity_ids": TOO_MANY, "account_ids": TOO_MANY,
        "group_ids": TOO_MANY, "crypto_tx_hashes": TOO_MANY, "type": "ACH", "statuses": "COMPLETE",
        "secondary_statuses": TOO_MANY, **{f"updated_at.{name}": "yesterday" for name in TIMES},
    },
    "list_fiat_accounts": {
        **_PAGED, "order_by": "AMOUNT", "ids": TOO_MANY, "ref_ids": TOO_MANY,
    },
    "list_crypto_destination_addresses": {
        **_PAGED, "order_by": "AMOUNT", "ids": TOO_MANY, "crypto_networks": TOO_MANY,
        "addresses": TOO_MANY, "nicknames": TOO_MANY, "bookmarked_status": "yes",
        "identity_id": TWICE, "identity_ids": TOO_MANY,
    },
    "list_events": {**_PAGED, "type": TWICE, "is_test": "1"},
}  # fmt: skip
"""Operation → its parameters, each with a value that is a 400."""
