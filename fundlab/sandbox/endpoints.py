"""The operations of §4, each under its own name: a checked request in, a rendered answer out.

FastAPI reads parameters, queries and bodies into the models, and makes the OpenAPI document of
what stands here. Lists answer with bytes: a page is joined from rows that are kept rendered, in
about 1 ms for 1,000 transfers, where FastAPI's response model would write each anew: 26 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field
from pydantic.json_schema import WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from fundlab.models import (
    AMONG,
    OPERATIONS,
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
from fundlab.sandbox.scheduled_work import settle
from fundlab.sandbox.world import World, check_asset, own_identity, to_bytes


@dataclass(frozen=True)
class Call:
    """What an operation needs of a request beside its parameters: it passed all checks of access.
    ``late_s`` is how much later a deposit is to show itself."""

    world: World
    customer_id: str
    late_s: float = 0


async def call_of(request: Request) -> Call:
    state = request.state
    return Call(request.app.state.service.world, state.customer_id, state.late_s)


Caller = Annotated[Call, Depends(call_of)]
Id = Annotated[str, Path(description="The resource's id.")]
ProfileId = Annotated[str, Path(description="The resource's profile_id.")]
Asset = Annotated[str, Path(description="An asset, such as USD.")]
Json = Mapping[str, Any]
Step = Callable[..., Json | bytes | None]
Endpoint = Callable[..., Coroutine[Any, Any, Response]]

IDS: Final = {
    "profile_id", "identity_id", "account_id", "fiat_account_id", "deposit_instructions_id",
    "address_id",
}  # fmt: skip
BANK_DETAILS: Final = ("fiat_network_instructions", "fiat_account_owner")
P = TypeVar("P", bound=Part)
ENDPOINTS: Final[dict[str, Endpoint]] = {}
"""By the names of ``OPERATIONS``."""


def operation(step: Step) -> Step:
    """Serve ``step`` as the operation of its name: under the lock at once, and where it writes in
    one transaction, so that it happens as a whole or not at all."""
    writing = OPERATIONS[step.__name__].method != "GET"

    @wraps(step)
    async def endpoint(call: Call, **given: Any) -> Response:
        if "wanted" in given:
            given["wanted"] = wanted = with_own_ids(given["wanted"])
            if getattr(wanted, "identity_id", None) == own_identity(call.customer_id):
                given["wanted"] = wanted.model_copy(update={"identity_id": None})
        database = call.world.database
        with database.lock:
            settle(call.world)
            with database.transaction() if writing else nullcontext():
                answer = step(call, **given)
        content = to_bytes(answer) if isinstance(answer, Mapping) else answer
        return Response(content, media_type="application/json" if content else None)

    ENDPOINTS[step.__name__] = endpoint
    return step


def with_own_ids(wanted: P) -> P:
    """Ids compare without regard to case, and the sandbox's own are in lower case."""
    changes: dict[str, Any] = {}
    for name, value in wanted:
        if isinstance(value, Part) and name not in BANK_DETAILS:
            changes[name] = with_own_ids(value)
        elif isinstance(value, str) and name in IDS:
            changes[name] = value.lower()
    return wanted.model_copy(update=changes)


class WithDeleted(BaseModel):
    """A list as the sandbox takes it: with what the live reference has beside the interface."""

    include_deleted: Flag | None = Field(
        None, description="Taken as the live reference has it; nothing is ever deleted here."
    )


class ListedInstructionsQuery(FiatDepositInstructionsQuery, WithDeleted): ...


class ListedAccountQuery(FiatAccountQuery, WithDeleted): ...


class ListedEventQuery(EventQuery, WithDeleted): ...


def _listed(*values: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(values)})


class ListedTransferQuery(TransferQuery, WithDeleted):
    """Only what the interface lists is filtered by; the client leaves it open for newer servers."""

    type: Filter[Annotated[TransferType, _listed(*TransferType)]] | None = AMONG  # type: ignore[assignment]
    statuses: Filter[Annotated[TransferStatus, _listed(*TransferStatus)]] | None = AMONG  # type: ignore[assignment]


class ListedAddressQuery(CryptoDestinationAddressQuery, WithDeleted):
    """As ``ListedTransferQuery``."""

    crypto_networks: Filter[Annotated[CryptoNetwork, _listed(*CryptoNetwork)]] | None = AMONG  # type: ignore[assignment]


# ---------------------------------------------------------------------------- fiat deposits


@operation
def create_fiat_deposit_instructions(call: Caller, wanted: CreateFiatDepositInstructions) -> Json:
    return accounts.create_instructions(call.world, call.customer_id, wanted)


@operation
def get_fiat_deposit_instructions(call: Caller, id: Id) -> bytes:
    what = "deposit instructions"
    return call.world.get("fiat_deposit_instructions", what, call.customer_id, id)


@operation
def list_fiat_deposit_instructions(
    call: Caller, query: Annotated[ListedInstructionsQuery, Query()]
) -> bytes:
    return listing.page(call.world, call.customer_id, query)


@operation
def initiate_sandbox_fiat_deposit(call: Caller, wanted: InitiateSandboxFiatDeposit) -> None:
    movements.initiate_deposit(call.world, call.customer_id, wanted, late_s=call.late_s)


# ---------------------------------------------------------------------------- transfers, balances


@operation
def list_transfers(call: Caller, query: Annotated[ListedTransferQuery, Query()]) -> bytes:
    return listing.page(call.world, call.customer_id, query)


@operation
def get_transfer(call: Caller, id: Id) -> bytes:
    return call.world.get("transfers", "transfer", call.customer_id, id)


@operation
def get_profile_balance(call: Caller, profile_id: ProfileId, asset: Asset) -> Json:
    ledger, profile_id = call.world.ledger, profile_id.lower()
    call.world.check_profile(call.customer_id, profile_id)
    check_asset(asset)
    return {
        "asset": asset,
        "available": units_text(ledger.balance(available(profile_id), asset)),
        "trading": units_text(ledger.balance(trading(profile_id), asset)),
    }


@operation
def create_fiat_withdrawal(call: Caller, wanted: CreateFiatWithdrawal) -> Json:
    return movements.create_withdrawal(call.world, call.customer_id, wanted)


# ---------------------------------------------------------------------------- fiat accounts


@operation
def create_fiat_account(call: Caller, wanted: CreateFiatAccount) -> Json:
    return accounts.create_fiat_account(call.world, call.customer_id, wanted)


@operation
def get_fiat_account(call: Caller, id: Id) -> bytes:
    return call.world.get("fiat_accounts", "fiat account", call.customer_id, id)


@operation
def update_fiat_account(call: Caller, id: Id, wanted: UpdateFiatAccount) -> Json:
    return accounts.update_fiat_account(call.world, call.customer_id, id.lower(), wanted)


@operation
def list_fiat_accounts(call: Caller, query: Annotated[ListedAccountQuery, Query()]) -> bytes:
    return listing.page(call.world, call.customer_id, query)


# ---------------------------------------------------------------------------- crypto


@operation
def create_deposit_address(call: Caller, wanted: CreateDepositAddress) -> Json:
    return accounts.create_deposit_address(call.world, call.customer_id, wanted)


@operation
def create_orchestration_rule(call: Caller, wanted: CreateOrchestrationRule) -> Json:
    return {"rule": orchestration.create_rule(call.world, call.customer_id, wanted)}


@operation
def list_crypto_destination_addresses(
    call: Caller, query: Annotated[ListedAddressQuery, Query()]
) -> bytes:
    return listing.page(call.world, call.customer_id, query)


@operation
def create_crypto_withdrawal_fee(call: Caller, wanted: CreateCryptoWithdrawalFee) -> Json:
    return crypto_fees.create_fee_quote(call.world, call.customer_id, wanted)


# ---------------------------------------------------------------------------- events


@operation
def list_events(call: Caller, query: Annotated[ListedEventQuery, Query()]) -> bytes:
    return listing.page(call.world, call.customer_id, query)
