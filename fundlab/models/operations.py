"""Every operation of the interface (§4): where it is, its scope, what goes in, what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from fundlab.models.requests import (
    CreateCryptoWithdrawalFee,
    CreateDepositAddress,
    CreateFiatAccount,
    CreateFiatDepositInstructions,
    CreateFiatWithdrawal,
    CreateOrchestrationRule,
    CryptoDestinationAddressQuery,
    EventQuery,
    FiatAccountQuery,
    FiatDepositInstructionsQuery,
    InitiateSandboxFiatDeposit,
    Query,
    Request,
    TransferQuery,
    UpdateFiatAccount,
)
from fundlab.models.resources import (
    CryptoDestinationAddressPage,
    CryptoWithdrawalFee,
    DepositAddress,
    EventPage,
    FiatAccount,
    FiatAccountPage,
    FiatDepositInstructions,
    FiatDepositInstructionsPage,
    OrchestrationRuleAnswer,
    ProfileBalance,
    Resource,
    Transfer,
    TransferPage,
)

__all__ = [
    "OPERATIONS", "SCOPES", "SIGNATURE_LIFETIME_S", "TOKEN_LIFETIME_S", "Operation",
]  # fmt: skip

TOKEN_LIFETIME_S: Final = 3599
SIGNATURE_LIFETIME_S: Final = 30 * 60


@dataclass(frozen=True)
class Operation:
    """One row of §4: where it is, which scope it needs, what goes in and what comes out."""

    name: str
    section: str
    method: Literal["GET", "POST", "PUT"]
    path: str
    scope: str
    answer: type[Resource] | None
    body: type[Request] | None = None
    query: type[Query] | None = None

    items: str | None = field(init=False)
    """The member of a page that holds its rows; ``None`` where nothing is paged."""

    def __post_init__(self) -> None:
        paged = self.answer if self.query else None
        object.__setattr__(self, "items", next(iter(paged.model_fields)) if paged else None)

    @property
    def changes(self) -> bool:
        """Whether it may do more than read: a quote moves nothing, and no list shows it."""
        return self.method != "GET" and self.answer is not CryptoWithdrawalFee


_TRANSFER = "/v2/transfer"
OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.name: operation
    for operation in (
        Operation(
            "create_fiat_deposit_instructions", "4.1", "POST",
            f"{_TRANSFER}/fiat-deposit-instructions",
            "transfer:write_fiat_deposit_instructions", FiatDepositInstructions,
            body=CreateFiatDepositInstructions,
        ),
        Operation(
            "get_fiat_deposit_instructions", "4.2", "GET",
            f"{_TRANSFER}/fiat-deposit-instructions/{{id}}",
            "transfer:read_fiat_deposit_instructions", FiatDepositInstructions,
        ),
        Operation(
            "list_fiat_deposit_instructions", "4.3", "GET",
            f"{_TRANSFER}/fiat-deposit-instructions",
            "transfer:read_fiat_deposit_instructions", FiatDepositInstructionsPage,
            query=FiatDepositInstructionsQuery,
        ),
        Operation(
            "initiate_sandbox_fiat_deposit", "4.4", "POST", "/v2/sandbox/fiat-deposits",
            "transfer:write_sandbox_fiat_deposit", None, body=InitiateSandboxFiatDeposit,
        ),
        Operation(
            "list_transfers", "4.5", "GET", f"{_TRANSFER}/transfers",
            "transfer:read_transfer", TransferPage, query=TransferQuery,
        ),
        Operation(
            "get_transfer", "4.6", "GET", f"{_TRANSFER}/transfers/{{id}}",
            "transfer:read_transfer", Transfer,
        ),
        Operation(
            "get_profile_balance", "4.7", "GET", "/v2/profiles/{profile_id}/balances/{asset}",
            "funding:read_profile", ProfileBalance,
        ),
        Operation(
            "create_fiat_account", "4.8", "POST", f"{_TRANSFER}/fiat-accounts",
            "transfer:write_fiat_account", FiatAccount, body=CreateFiatAccount,
        ),
        Operation(
            "get_fiat_account", "4.9", "GET", f"{_TRANSFER}/fiat-accounts/{{id}}",
            "transfer:read_fiat_account", FiatAccount,
        ),
        Operation(
            "update_fiat_account", "4.10", "PUT", f"{_TRANSFER}/fiat-accounts/{{id}}",
            "transfer:write_fiat_account", FiatAccount, body=UpdateFiatAccount,
        ),
        Operation(
            "list_fiat_accounts", "4.11", "GET", f"{_TRANSFER}/fiat-accounts",
            "transfer:read_fiat_account", FiatAccountPage, query=FiatAccountQuery,
        ),
        Operation(
            "create_fiat_withdrawal", "4.12", "POST", f"{_TRANSFER}/fiat-withdrawals",
            "transfer:write_fiat_withdrawal", Transfer, body=CreateFiatWithdrawal,
        ),
        Operation(
            "create_deposit_address", "4.13", "POST", f"{_TRANSFER}/deposit-addresses",
            "transfer:write_deposit_address", DepositAddress, body=CreateDepositAddress,
        ),
        Operation(
            "create_orchestration_rule", "4.14", "POST", "/v2/orchestration/rules",
            "orchestration:write_orchestration_rule", OrchestrationRuleAnswer,
            body=CreateOrchestrationRule,
        ),
        Operation(
            "list_crypto_destination_addresses", "4.15", "GET",
            f"{_TRANSFER}/crypto-destination-addresses",
            "transfer:read_crypto_destination_address", CryptoDestinationAddressPage,
            query=CryptoDestinationAddressQuery,
        ),
        Operation(
            "create_crypto_withdrawal_fee", "4.16", "POST",
            f"{_TRANSFER}/fees/crypto-withdrawal",
            "fee:write_crypto_withdrawal_fee", CryptoWithdrawalFee,
            body=CreateCryptoWithdrawalFee,
        ),
        Operation(
            "list_events", "4.17", "GET", "/v2/events",
            "events:read_event", EventPage, query=EventQuery,
        ),
    )
}  # fmt: skip
"""Every operation of §4 by its name in snake case."""

SCOPES: Final[tuple[str, ...]] = tuple(sorted({op.scope for op in OPERATIONS.values()}))
"""Every scope of §5.1."""
