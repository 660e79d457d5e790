"""The operations of §4, each under its own name: a checked request in, a rendered answer out.

FastAPI reads parameters, queries and bodies into the models, and makes the OpenAPI document of
what stands here. Answers are bytes: a page is joined from rows that are kept rendered, in about
1 ms for 1,000 transfers, where FastAPI's response model would validate and write each anew: 26 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field
from pydantic.json_schema import WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from fundlab.models import (
    AMONG,
    CreateCryptoWithdrawalFee,
    CreateDepositAddress,
    CreateFiatAccount,
    CreateFiatDepositInstructions,
    CreateFiatWithdrawal,
    CreateOrchestrationRule,
    CryptoDestinationAddressQuery,
    CryptoNetwork,
    EventQuery,
    FiatAccountQuery,
    FiatDepositInstructionsQuery,
    Filter,
    InitiateSandboxFiatDeposit,
    TransferQuery,
    TransferStatus,
    TransferType,
    UpdateFiatAccount,
)
from fundlab.models.requests import Flag, Part
from fundlab.sandbox import accounts_and_addresses as accounts
from fundlab.sandbox import crypto_fees, listing, movements, orchestration
from fundlab.sandbox.ledger import available, trading, units_text
from fundlab.sandbox.refusals import not_found
from fundlab.sandbox.world import ASSETS, World, to_bytes


@dataclass(frozen=True)
class Call:
    """What an operation needs of a request beside its parameters: it passed all checks of access.
    ``late_s`` is how much later a deposit is to show itself."""

    world: World
    customer_id: str
    late_s: float = 0


async def call_of(request: Request) -> Call:
    call: Call = request.state.call
    return call


Caller = Annotated[Call, Depends(call_of)]
Id = Annotated[str, Path(description="The resource's id.")]
ProfileId = Annotated[str, Path(description="The resource's profile_id.")]
Asset = Annotated[str, Path(description="An asset, such as USD.")]
Endpoint = Callable[..., Coroutine[Any, Any, Response]]

IDS: Final = {
    "profile_id", "identity_id", "account_id", "fiat_account_id", "deposit_instructions_id",
    "address_id",
}  # fmt: skip
BANK_DETAILS: Final = ("fiat_network_instructions", "fiat_account_owner")
P = TypeVar("P", bound=Part)
ENDPOINTS: Final[dict[str, Endpoint]] = {}
"""By the names of ``OPERATIONS``."""


def operation(endpoint: Endpoint) -> Endpoint:
    """Serve ``endpoint`` as the operation of its name."""
    ENDPOINTS[endpoint.__name__] = endpoint
    return endpoint


def with_own_ids(wanted: P) -> P:
    """Ids compare without regard to case, and the sandbox's own are in lower case."""
    changes: dict[str, Any] = {}
    for name, value in wanted:
        if isinstance(value, Part) and name not in BANK_DETAILS:
            changes[name] = with_own_ids(value)
        elif isinstance(value, str) and name in IDS:
            changes[name] = value.lower()
    return wanted.model_copy(update=changes)


def _json(content: bytes | Mapping[str, Any]) -> Response:
    rendered = content if isinstance(content, bytes) else to_bytes(content)
    return Response(rendered, media_type="application/json")


class WithDeleted(BaseModel):
    """A list as the sandbox takes it: with what the live reference has beside the interface."""

    include_deleted: Flag | None = Field(
        None, description="Taken as the live reference has it; nothing is ever deleted here."
    )


class ListedInstructionsQuery(FiatDepositInstructionsQuery, WithDeleted): ...


class ListedAccountQuery(FiatAccountQuery, WithDeleted): ...


class ListedEventQuery(EventQuery, WithDeleted): ...


# ---------------------------------------------------------------------------- fiat deposits


@operation
async def create_fiat_deposit_instructions(
    call: Caller, wanted: CreateFiatDepositInstructions
) -> Response:
    return _json(accounts.create_instructions(call.world, call.customer_id, with_own_ids(wanted)))


@operation
async def get_fiat_deposit_instructions(call: Caller, id: Id) -> Response:
    what = "deposit instructions"
    return _json(call.world.get("fiat_deposit_instructions", what, call.customer_id, id))


@operation
async def list_fiat_deposit_instructions(
    call: Caller, query: Annotated[ListedInstructionsQuery, Query()]
) -> Response:
    return _json(listing.page(call.world, call.customer_id, query))


@operation
async def initiate_sandbox_fiat_deposit(
    call: Caller, wanted: InitiateSandboxFiatDeposit
) -> Response:
    movements.initiate_deposit(
        call.world, call.customer_id, with_own_ids(wanted), late_s=call.late_s
    )
    return Response()


# ---------------------------------------------------------------------------- transfers, balances


def _listed(*values: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(values)})


class ListedTransferQuery(TransferQuery, WithDeleted):
    """Only what the interface lists is filtered by; the client leaves it open for newer servers."""

    type: Filter[Annotated[TransferType, _listed(*TransferType)]] | None = AMONG  # type: ignore[assignment]
    statuses: Filter[Annotated[TransferStatus, _listed(*TransferStatus)]] | None = AMONG  # type: ignore[assignment]


@operation
async def list_transfers(call: Caller, query: Annotated[ListedTransferQuery, Query()]) -> Response:
    return _json(listing.page(call.world, call.customer_id, query))


@operation
async def get_transfer(call: Caller, id: Id) -> Response:
    return _json(call.world.get("transfers", "transfer", call.customer_id, id))


@operation
async def get_profile_balance(call: Caller, profile_id: ProfileId, asset: Asset) -> Response:
    ledger, profile_id = call.world.ledger, profile_id.lower()
    call.world.check_profile(call.customer_id, profile_id)
    if asset not in ASSETS:
        raise not_found("asset", "asset", asset)
    balance = {
        "asset": asset,
        "available": units_text(ledger.balance(available(profile_id), asset)),
        "trading": units_text(ledger.balance(trading(profile_id), asset)),
    }
    return _json(balance)


# ---------------------------------------------------------------------------- fiat accounts


@operation
async def create_fiat_account(call: Caller, wanted: CreateFiatAccount) -> Response:
    return _json(accounts.create_fiat_account(call.world, call.customer_id, with_own_ids(wanted)))


@operation
async def get_fiat_account(call: Caller, id: Id) -> Response:
    return _json(call.world.get("fiat_accounts", "fiat account", call.customer_id, id))


@operation
async def update_fiat_account(call: Caller, id: Id, wanted: UpdateFiatAccount) -> Response:
    return _json(
        accounts.update_fiat_account(call.world, call.customer_id, id.lower(), with_own_ids(wanted))
    )


@operation
async def list_fiat_accounts(
    call: Caller, query: Annotated[ListedAccountQuery, Query()]
) -> Response:
    return _json(listing.page(call.world, call.customer_id, query))


@operation
async def create_fiat_withdrawal(call: Caller, wanted: CreateFiatWithdrawal) -> Response:
    return _json(movements.create_withdrawal(call.world, call.customer_id, with_own_ids(wanted)))


# ---------------------------------------------------------------------------- crypto


@operation
async def create_deposit_address(call: Caller, wanted: CreateDepositAddress) -> Response:
    return _json(
        accounts.create_deposit_address(call.world, call.customer_id, with_own_ids(wanted))
    )


@operation
async def create_orchestration_rule(call: Caller, wanted: CreateOrchestrationRule) -> Response:
    return _json(
        {"rule": orchestration.create_rule(call.world, call.customer_id, with_own_ids(wanted))}
    )


class ListedAddressQuery(CryptoDestinationAddressQuery, WithDeleted):
    """As ``ListedTransferQuery``."""

    crypto_networks: Filter[Annotated[CryptoNetwork, _listed(*CryptoNetwork)]] | None = AMONG  # type: ignore[assignment]


@operation
async def list_crypto_destination_addresses(
    call: Caller, query: Annotated[ListedAddressQuery, Query()]
) -> Response:
    return _json(listing.page(call.world, call.customer_id, query))


@operation
async def create_crypto_withdrawal_fee(call: Caller, wanted: CreateCryptoWithdrawalFee) -> Response:
    return _json(crypto_fees.create_fee_quote(call.world, call.customer_id, with_own_ids(wanted)))


# ---------------------------------------------------------------------------- events


@operation
async def list_events(call: Caller, query: Annotated[ListedEventQuery, Query()]) -> Response:
    return _json(listing.page(call.world, call.customer_id, query))
