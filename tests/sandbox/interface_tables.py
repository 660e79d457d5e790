"""The tables of the interface (§§1 to 8) and of the decisions about it, written out by hand, and
the tests that check each of their rows.

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
        "first_name": Field(TEXT), "last_name": Field(TEXT),
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
    "2.1 PersonDetails": {"name"},
    "2.1 FiatNetworkInstructions": {"wallet_address"},
    "2.10 Event": {"is_test"},
}
"""What other deployments may answer and the sandbox does not: requests have no ``name`` of a person
(§2.1), CUBIX accounts come back as ``cubix`` (decisions), and ``is_test`` is a filter (§6)."""


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
        "fiat_account_owner": False,
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

# ---------------------------------------------------------------------------- tests of each row

Rows = dict[str, tuple[str, ...]]

FIELD_ROWS: Rows = {
    f"{resource}.{field}": ("test_a_field_is_shown",)
    for resource, fields in RESOURCES.items()
    for field in fields
}
ENUMERATION_TESTS: Rows = {
    "2.1 RoutingNumberType": ("test_every_routing_number_type_has_instructions",),
    "2.2 DepositInstructionsStatus": (
        "test_wire_instructions_are_valid_with_a_memo_of_their_own",
        "test_deprecated_instructions_take_no_deposits",
    ),
    "2.3 FiatAccountStatus": (
        "test_a_fiat_account_is_approved_after_ten_seconds",
        "test_some_routing_numbers_are_rejected",
    ),
    "2.4 Direction": ("test_every_transfer_type_is_listed_alone",),
    "2.4 TransferType": ("test_every_transfer_type_is_listed_alone",),
    "2.4 TransferStatus": ("test_every_transfer_status_is_listed_alone",),
    "2.6 StableAsset": ("test_every_pair_of_rule_assets",),
    "2.7 CryptoNetwork": (
        "test_every_network_has_saved_addresses_fees_and_deposit_addresses",
        "test_deposit_addresses_on_every_network",
    ),
    "4.1 FiatNetwork": (
        "test_wire_instructions_are_valid_with_a_memo_of_their_own",
        "test_cubix_instructions_carry_an_account_id",
    ),
    "4.5 Order": ("test_pages_follow_each_other_in_both_orders",),
}
ENUMERATION_ROWS: Rows = {
    f"{name}.{member}": ENUMERATION_TESTS[name]
    for name, members in ENUMERATIONS.items()
    for member in members
}
OPERATION_ROWS: Rows = {
    f"{operation.section} {name}": ("test_an_operation_needs_a_token_and_its_scope",)
    for name, operation in OPERATIONS.items()
}
BODY_ROWS: Rows = {
    f"{OPERATIONS[name].section} {name}.{field}": (
        "test_a_body_field_is_checked",
        "test_a_full_body_is_accepted_and_shown",
    )
    for name, fields in REQUESTS.items()
    for field in fields
}
PARAMETER_ROWS: Rows = {
    f"{OPERATIONS[name].section} {name}?{parameter}": (
        "test_a_parameter_is_checked",
        "test_a_parameter_selects_its_rows",
    )
    for name, parameters in QUERIES.items()
    for parameter in parameters
}

# ---------------------------------------------------------------------------- by hand

ANSWERS: Rows = {
    "4.1 answers VALID instructions with memo_id and the receiving bank": (
        "test_wire_instructions_are_valid_with_a_memo_of_their_own",
    ),
    "4.1 routing_number_type goes with WIRE and not with CUBIX": (
        "test_instructions_are_validated",
    ),
    "4.2 answers the instructions": (
        "test_wire_instructions_are_valid_with_a_memo_of_their_own",
    ),
    "4.3 answers items and next_page_cursor": (
        "test_pages_follow_each_other_in_both_orders", "test_a_parameter_selects_its_rows",
    ),
    "4.4 answers 200 with an empty body": (
        "test_a_simulated_wire_completes_after_a_minute_and_copies_the_metadata",
    ),
    "4.5 filters": ("test_a_parameter_selects_its_rows", "test_filters_combine"),
    "4.6 answers the transfer": (
        "test_a_simulated_wire_completes_after_a_minute_and_copies_the_metadata",
    ),
    "4.7 answers the balance": ("test_balances_of_every_asset_and_of_nothing_else",),
    "4.8 answers PENDING": ("test_a_fiat_account_is_approved_after_ten_seconds",),
    "4.9 answers the fiat account": (
        "test_a_fiat_account_is_approved_after_ten_seconds",
    ),
    "4.10 updates what is given and leaves the rest": (
        "test_an_update_is_reviewed_again_and_a_stale_review_does_not_count",
    ),
    "4.11 masks the number and leaves the owner out": (
        "test_the_list_masks_the_number_and_leaves_the_owner_out",
    ),
    "4.12 answers a PENDING DEBIT with fee and total": (
        "test_a_withdrawal_holds_at_once_and_completes_after_five_seconds",
    ),
    "4.13 answers the deposit address": ("test_deposit_addresses_on_every_network",),
    "4.14 answers one field, rule": ("test_a_rule_converts_what_arrives_one_to_one",),
    "4.15 without identity_id only first-party addresses": (
        "test_destination_addresses_without_identity_are_first_party",
        "test_a_parameter_selects_its_rows",
    ),
    "4.16 answers a quote": ("test_a_fee_quote_is_guaranteed_for_five_minutes",),
    "4.16 identity_id resolves the saved address": (
        "test_an_end_users_quote_needs_a_saved_address",
    ),
    "4.17 answers events oldest first": (
        "test_the_default_order", "test_a_parameter_selects_its_rows",
    ),
    "6 identity.approved": ("test_identities_emit_the_interfaces_events",),
    "6 identity.documents_required": ("test_identities_emit_the_interfaces_events",),
    "6 next_page_cursor empty at the end": ("test_the_end_of_a_list_is_an_empty_cursor",),
}  # fmt: skip
KINDS: Rows = {
    "1 corporate customers act without an identity": (
        "test_a_withdrawal_holds_at_once_and_completes_after_five_seconds",
    ),
    "1 third parties act for end users": (
        "test_third_parties_act_for_end_users",
        "test_what_an_end_users_rule_sends_on_is_the_end_users",
    ),
    "2.1 metadata is copied from deposit instructions": (
        "test_a_simulated_wire_completes_after_a_minute_and_copies_the_metadata",
    ),
    "2.1 metadata is copied from the deposit address": (
        "test_what_arrives_at_a_deposit_address_carries_its_metadata",
    ),
    "2.1 the owner is an institution or a person": ("test_fiat_accounts_are_validated",),
    "2.2 memo_id is unique per request": (
        "test_wire_instructions_are_valid_with_a_memo_of_their_own",
    ),
    "2.4 total is amount less fee for deposits, amount plus fee for withdrawals": (
        "test_a_withdrawal_holds_at_once_and_completes_after_five_seconds",
        "test_rows_keep_the_interfaces_arithmetic",
    ),
    "2.4 group_id links the halves of an internal transfer": (
        "test_a_rule_sends_what_was_converted_to_another_profile",
        "test_internal_transfers_come_in_halves",
    ),
    "2.4 what is sent to CUBIX instructions is a CUBIX_DEPOSIT": (
        "test_what_is_sent_to_cubix_instructions_is_a_cubix_deposit",
    ),
    "2.4 notional_value is the USD value of a crypto transfer": (
        "test_what_arrives_at_a_deposit_address_carries_its_metadata",
        "test_a_rule_sends_what_was_converted_on_chain",
    ),
    "2.6 a source has no field that is not true of it": (
        "test_what_a_source_is_said_to_be_must_be_true",
    ),
    "2.6 the fields of a source are not those of a destination": (
        "test_what_a_source_is_said_to_be_must_be_true",
        "test_a_destination_has_none_of_the_fields_of_a_source",
    ),
    "2.6 a fiat destination carries its memo": (
        "test_a_rule_on_chain_makes_an_address_and_pays_out_to_a_bank",
    ),
    "2.6 a crypto end carries its network": (
        "test_a_destination_without_an_address_leaves_the_money_with_the_profile",
        "test_a_rule_on_chain_makes_an_address_and_pays_out_to_a_bank",
    ),
}
TRANSITIONS: Rows = {
    "3.1 (none) → PENDING": ("test_a_fiat_account_is_approved_after_ten_seconds",),
    "3.1 PENDING → APPROVED": ("test_a_fiat_account_is_approved_after_ten_seconds",),
    "3.1 PENDING → REJECTED": ("test_some_routing_numbers_are_rejected",),
    "3.1 APPROVED or REJECTED → PENDING by an update": (
        "test_an_update_is_reviewed_again_and_a_stale_review_does_not_count",
    ),
    "3.1 only an APPROVED account takes withdrawals": (
        "test_a_pending_account_cannot_be_withdrawn_to",
        "test_some_routing_numbers_are_rejected",
    ),
    "3.2 (none) → VALID": ("test_wire_instructions_are_valid_with_a_memo_of_their_own",),
    "3.2 VALID → DEPRECATED": ("test_deprecated_instructions_take_no_deposits",),
    "3.3 (none) → PENDING, a withdrawal": (
        "test_a_withdrawal_holds_at_once_and_completes_after_five_seconds",
    ),
    "3.3 (none) → PENDING → COMPLETED, a deposit": (
        "test_a_simulated_wire_completes_after_a_minute_and_copies_the_metadata",
    ),
    "3.3 PENDING → COMPLETED, a withdrawal": (
        "test_a_withdrawal_holds_at_once_and_completes_after_five_seconds",
    ),
    "3.3 PENDING → FAILED, a withdrawal": (
        "test_an_amount_ending_in_13_cents_fails_and_the_hold_is_given_back",
    ),
    "3.3 PENDING → FAILED, a deposit": (
        "test_a_balance_of_more_than_20_digits_is_refused_not_wrapped",
    ),
}
LIMITS: Rows = {
    "8 access token lifetime": (
        "test_a_token_lasts_3599_seconds_and_names_its_scopes",
        "test_a_token_lapses_in_real_time_and_not_in_business_time",
    ),
    "8 signature validity": ("test_a_timestamp_counts_for_30_minutes_and_5_ahead",),
    "8 metadata of deposit instructions": (
        "test_instructions_are_validated",
        "test_metadata_is_limited_wherever_it_is_taken",
    ),
    "8 metadata of fiat accounts": ("test_metadata_is_limited_wherever_it_is_taken",),
    "8 metadata of transfers": ("test_metadata_is_limited_wherever_it_is_taken",),
    "8 filter list size: ids": ("test_a_parameter_is_checked",),
    "8 filter list size: crypto_networks": ("test_a_parameter_is_checked",),
    "8 filter list size: addresses": ("test_a_parameter_is_checked",),
    "8 filter list size: nicknames": ("test_a_parameter_is_checked",),
    "8 page size of crypto destination addresses": (
        "test_limits", "test_without_a_limit_a_page_has_100_rows",
    ),
    "8 page size of events": (
        "test_limits", "test_without_a_limit_a_page_has_100_rows",
    ),
    "8 sandbox deposit processing": (
        "test_a_simulated_wire_completes_after_a_minute_and_copies_the_metadata",
    ),
}  # fmt: skip
ERRORS: Rows = {
    "7 a scope not available is invalid_scope": (
        "test_the_token_endpoint_refuses_as_rfc_6749",
        "test_a_credential_gets_only_the_scopes_it_was_given",
    ),
    "7 unsigned where signing is required": (
        "test_unsigned_requests_are_refused_when_signing_is_required",
    ),
    "7 both or neither of amount and total": ("test_fee_quotes_are_validated",),
    "7 problems have type, title, status and detail": (
        "test_every_problem_has_its_type_and_title",
    ),
    "7 successful calls are 200": ("test_a_full_body_is_accepted_and_shown",),
    "400 validation": ("test_a_body_field_is_checked",),
    "400 bad cursor": ("test_a_cursor_that_was_not_given_is_400",),
    "400 bad limit": ("test_limits",),
    "400 fiat account not APPROVED": ("test_a_pending_account_cannot_be_withdrawn_to",),
    "400 too many decimals": (
        "test_simulated_deposits_are_validated",
        "test_amounts_are_checked_wherever_they_are_taken",
    ),
    "401 no, unknown or lapsed token": (
        "test_no_or_an_unknown_token_is_401",
        "test_a_token_lapses_in_real_time_and_not_in_business_time",
    ),
    "401 missing or bad signature": (
        "test_unsigned_requests_are_refused_when_signing_is_required",
        "test_no_mutated_signature_is_accepted_and_no_valid_one_refused",
    ),
    "403 insufficient scope": ("test_an_operation_needs_a_token_and_its_scope",),
    "403 insufficient funds": ("test_without_funds_it_is_403_and_says_what_there_is",),
    "404 no such resource": (
        "test_what_a_path_names_must_exist",
        "test_what_a_body_names_must_exist",
    ),
    "404 another customer's": ("test_another_customers_resources_are_404",),
    "409 ref_id used already": (
        "test_a_repeated_ref_id_is_409_with_what_it_made",
        "test_existing_shows_the_resource_as_it_is_now",
    ),
    "413": ("test_10_megabytes_to_every_path_are_413",),
    "415": ("test_another_content_type_is_415",),
    "429 too many requests": ("test_too_many_requests_say_when_to_come_back",),
    "token: invalid_client, unsupported_grant_type, invalid_request": (
        "test_the_token_endpoint_refuses_as_rfc_6749",
    ),
    "404 and 405 of the framework": ("test_the_frameworks_own_refusals_are_problems",),
    "order of refusals": ("test_401_comes_before_403_and_403_before_400_and_404",),
}
ACCESS: Rows = {
    "5.1 multipart form": ("test_a_token_lasts_3599_seconds_and_names_its_scopes",),
    "5.1 without scope all of the credential's": (
        "test_without_a_scope_all_those_of_the_credential_are_granted",
    ),
    "5.2 ES256 and EdDSA": ("test_no_mutated_signature_is_accepted_and_no_valid_one_refused",),
    "5.2 several keys at once": ("test_no_mutated_signature_is_accepted_and_no_valid_one_refused",),
    "5.2 header members": ("test_no_mutated_signature_is_accepted_and_no_valid_one_refused",),
    "5.2 the payload is the exact bytes of the body": (
        "test_no_mutated_signature_is_accepted_and_no_valid_one_refused",
    ),
    "5.2 rotation keeps client id and keys": ("test_rotation_keeps_client_id_tokens_and_keys",),
}
DECISIONS: Rows = {
    "lists: transfers by updated_at": (
        "test_order_by_updated_at_goes_with_its_filter",
        "test_a_pass_by_updated_at_sees_every_change_after_its_cursor",
    ),
    "lists: secondary_statuses": ("test_a_parameter_selects_its_rows",),
    "lists: limits of 1000 and of 100 events": ("test_limits",),
    "lists: time filters": ("test_a_parameter_selects_its_rows",),
    "lists: cursors are stable while rows are inserted": (
        "test_an_ascending_pass_misses_and_repeats_nothing_while_rows_are_inserted",
    ),
    "idempotence of every create that takes a ref_id": (
        "test_a_repeated_ref_id_is_409_with_what_it_made",
    ),
    "money: the pattern in full, 64 characters, 20 and 18 digits": (
        "test_amounts_are_checked_wherever_they_are_taken",
    ),
    "money: available, trading and holds": (
        "test_a_withdrawal_holds_at_once_and_completes_after_five_seconds",
        "test_trading_is_part_of_the_ledger_balance",
        "test_balances_are_the_sum_of_all_transfers_to_the_last_decimal",
    ),
    "clock: real, fast, manual": (
        "test_the_fast_clock_runs_sixty_times_as_fast",
        "test_the_real_clock_is_not_before_the_history",
        "test_the_clock_over_http",
    ),
    "deposits: an unknown memo_id is 400": ("test_simulated_deposits_are_validated",),
    "withdrawals: fees of ABA, SWIFT and CUBIX": (
        "test_a_withdrawal_holds_at_once_and_completes_after_five_seconds",
    ),
    "withdrawals: .13 fails": (
        "test_an_amount_ending_in_13_cents_fails_and_the_hold_is_given_back",
    ),
    "accounts: the owner's kind cannot change": ("test_the_owners_kind_cannot_change",),
    "cubix: both layouts in, the first out": (
        "test_both_layouts_of_a_cubix_account_come_back_as_the_first",
    ),
    "addresses: identity_ids beside identity_id": ("test_a_parameter_selects_its_rows",),
    "quotes: total is amount plus fee": ("test_a_fee_quote_is_guaranteed_for_five_minutes",),
    "rules: assets must differ": ("test_rules_are_validated",),
    "rules: profile, deposit address, deposit instructions": (
        "test_a_rule_converts_what_arrives_one_to_one",
        "test_a_rule_for_deposit_instructions_leaves_others_alone",
        "test_a_rule_on_chain_makes_an_address_and_pays_out_to_a_bank",
    ),
    "rules: a second one for the same source is 409": (
        "test_a_second_rule_for_the_same_source_is_409",
    ),
    "rules do not chain": ("test_rules_do_not_chain",),
    "rules: to another profile or address": (
        "test_a_rule_sends_what_was_converted_to_another_profile",
        "test_a_rule_sends_what_was_converted_on_chain",
    ),
    "events: every change of a transfer": ("test_every_change_of_a_transfer_is_an_event",),
    "events: rules and fiat accounts have their own": (
        "test_every_change_of_a_transfer_is_an_event",
        "test_rules_and_fiat_accounts_have_events_of_their_own",
    ),
    "duplicate keys in JSON are 400": ("test_hostile_bodies_to_every_path",),
    "deposits are listed while PENDING": (
        "test_a_simulated_wire_completes_after_a_minute_and_copies_the_metadata",
    ),
    "quotes may name an address that is not saved": (
        "test_a_fee_quote_is_guaranteed_for_five_minutes",
    ),
    "history: end users, addresses with and without identity, both identity events": (
        "test_end_users_transfer_after_their_approval",
        "test_events_tell_of_every_transfer_and_identity",
    ),
    "a database started again goes on": ("test_a_later_start_picks_the_file_up",),
}
FAULTS: Rows = {
    "fault status": (
        "test_any_status_with_any_body", "test_every_status_can_be_had",
    ),
    "fault rate_limit": ("test_too_many_requests_say_when_to_come_back",),
    "fault latency": ("test_latency",),
    "fault reset": ("test_reset_before_and_lost_after_processing",),
    "fault lost": ("test_reset_before_and_lost_after_processing",),
    "fault truncate": (
        "test_a_truncated_body",
        "test_what_gives_no_answer_leaves_nothing_to_truncate",
    ),
    "fault lapse_token": ("test_a_token_that_lapses_in_mid_paging",),
    "fault duplicate_page": ("test_a_duplicated_page_repeats_rows_and_loses_none",),
    "fault repeat_cursor": ("test_a_repeated_cursor",),
    "fault late": ("test_late_rows_appear_behind_the_watermark",),
}  # fmt: skip
TABLES = (
    FIELD_ROWS, ENUMERATION_ROWS, OPERATION_ROWS, BODY_ROWS, PARAMETER_ROWS, ANSWERS, KINDS,
    TRANSITIONS, LIMITS, ERRORS, ACCESS, DECISIONS, FAULTS,
)  # fmt: skip
ROWS: Rows = {row: tests for table in TABLES for row, tests in table.items()}
