"""Money on its way in: instructions, what to quote to the bank, whether it has arrived."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fundlab.base.errors import ActionError, ActionRefused, InvalidRequest
from fundlab.client.arguments import Instructions, Metadata, Network, Owner
from fundlab.display import Card, Row, Shown
from fundlab.evidence.table_store import TableStore
from fundlab.models import (
    DepositAddress,
    FiatDepositInstructions,
    FiatNetwork,
    Transfer,
    TransferType,
)
from fundlab.payments.plan import Plan, R, context_of, given_rows, new_plan, service_card
from fundlab.payments.waiting import answers
from fundlab.settings.labels import with_name

if TYPE_CHECKING:
    from fundlab.client.client import Client

_DEPOSITS: Final = tuple(kind for kind in TransferType if kind.endswith("_DEPOSIT"))


def plan_deposit(
    client: Client,
    *,
    profile_id: str,
    fiat_network: str = "WIRE",
    routing_number_type: str | None = None,
    identity_id: str | None = None,
    account_id: str | None = None,
    metadata: Metadata | None = None,
    ref_id: str | None = None,
    store: TableStore | str | Path | None = None,
    now: Callable[[], int] | None = None,
    say: Callable[[str], object] | None = None,
) -> Plan[FiatDepositInstructions]:
    """Plan deposit instructions for a profile (§4.1); ``submit`` asks for them once.

    ``fiat_network`` is ``WIRE`` (``routing_number_type`` ``ABA``, the default, or ``SWIFT``) or
    ``CUBIX``. Show the result with ``deposit_sheet``. Raises as ``plan_withdrawal``.

    >>> plan = fl.plan_deposit(client, profile_id=sandbox.profile_ids[0])
    >>> instructions = plan.submit(confirm=plan.code)
    >>> str(instructions.status)
    'VALID'
    """
    if routing_number_type is None and fiat_network == FiatNetwork.WIRE:
        routing_number_type = "ABA"
    plan: Plan[FiatDepositInstructions] = new_plan(
        context_of(client, store, now, say), "create_fiat_deposit_instructions", ref_id,
        profile_id=profile_id, fiat_network=fiat_network, routing_number_type=routing_number_type,
        identity_id=identity_id, account_id=account_id, metadata=metadata,
    )  # fmt: skip
    network = " ".join(part for part in (routing_number_type, fiat_network.lower()) if part)
    return _crediting(plan, profile_id, f"Deposit instructions for a {network} into the profile")


def plan_deposit_address(
    client: Client,
    *,
    profile_id: str,
    crypto_network: Network,
    identity_id: str | None = None,
    account_id: str | None = None,
    metadata: Metadata | None = None,
    ref_id: str | None = None,
    store: TableStore | str | Path | None = None,
    now: Callable[[], int] | None = None,
    say: Callable[[str], object] | None = None,
) -> Plan[DepositAddress]:
    """Plan a crypto address that credits a profile (§4.13). Raises as ``plan_withdrawal``.

    >>> plan = fl.plan_deposit_address(
    ...     client, profile_id=sandbox.profile_ids[0], crypto_network="ETHEREUM"
    ... )
    >>> str(plan.submit(confirm=plan.code).crypto_network)
    'ETHEREUM'
    """
    plan: Plan[DepositAddress] = new_plan(
        context_of(client, store, now, say), "create_deposit_address", ref_id,
        profile_id=profile_id, crypto_network=crypto_network, identity_id=identity_id,
        account_id=account_id, metadata=metadata,
    )  # fmt: skip
    warning = f"What arrives from another network than {crypto_network} may be lost."
    return _crediting(plan, profile_id, f"Deposit address on {crypto_network}", warning)


def _crediting(plan: Plan[R], profile_id: str, title: str, *warnings: str) -> Plan[R]:
    """``plan`` with what its card shows."""
    rows = (
        Row("Credits", f"profile {with_name(profile_id)}", "strong"), *given_rows(plan.arguments),
    )  # fmt: skip
    facts = MappingProxyType({"profile_id": profile_id})
    return replace(plan, title=title, rows=rows, warnings=warnings, facts=facts)


# ------------------------------------------------------------------------- what to quote


@dataclass(frozen=True, repr=False)
class DepositSheet(Shown):
    """What whoever sends the money must quote; the receiving bank's number is shown unmasked."""

    instructions: FiatDepositInstructions
    client: Client

    def card(self) -> Card:
        instructions = self.instructions
        bank = instructions.fiat_network_instructions
        rows = [Row("Memo", instructions.memo_id or "", "strong", "quote it exactly")]
        if instructions.fiat_account_owner is not None and instructions.fiat_account_owner.name:
            rows.append(Row("Beneficiary", instructions.fiat_account_owner.name))
        wire = bank.wire if bank is not None else None
        if wire is not None:
            routing = wire.routing_details
            rows.append(Row("Account number", wire.account_number or "not shown"))
            if routing is not None:
                kind = f"{routing.routing_number_type} routing number"
                rows += [
                    Row("Bank", routing.bank_name or ""),
                    Row(kind, str(routing.routing_number)),
                ]
        elif bank is not None:
            cubix = bank.cubix.account_id if bank.cubix is not None else bank.wallet_address
            rows.append(Row("CUBIX account", cubix or "not shown"))
        rows.append(Row("Credits", f"profile {with_name(str(instructions.profile_id))}", "faint"))
        warnings: tuple[str, ...] = ()
        if instructions.status != "VALID":
            warnings = (
                f"These instructions are {instructions.status}: do not send money to them.",
            )
        note = "money that arrives without the memo cannot be attributed"
        title = "Send the money with this"
        return service_card(self.client, title, rows, warnings=warnings, notes=(note,))


def deposit_sheet(client: Client, instructions: FiatDepositInstructions) -> DepositSheet:
    """What to quote to the bank, as a card.

    >>> instructions = next(iter(client.list_fiat_deposit_instructions()))
    >>> sheet = fl.deposit_sheet(client, instructions)
    >>> instructions.memo_id in repr(sheet)
    True
    """
    return DepositSheet(instructions, client)


# ------------------------------------------------------------------------- has it arrived?


def find_deposits(client: Client, instructions: FiatDepositInstructions) -> list[Transfer]:
    """The deposits that quoted the memo of ``instructions``, newest first.

    >>> instructions = next(iter(client.list_fiat_deposit_instructions()))
    >>> fl.simulate_deposit(client, instructions, "5000.00")
    >>> fl.find_deposits(client, instructions)[0].memo == instructions.memo_id
    True
    """
    if not instructions.memo_id:
        raise InvalidRequest(
            f"instructions {instructions.id} have no memo_id, by which deposits are recognised: "
            "give those that client.list_fiat_deposit_instructions() shows with one"
        )
    known: dict[str, Any] = {}  # what instructions do not show does not narrow the question
    if instructions.profile_id:
        known["profile_ids"] = [instructions.profile_id]
    if instructions.created_at:
        known["created_at_gte"] = str(instructions.created_at)
    rows = client.list_transfers(type=_DEPOSITS, order="DESC", order_by="CREATED_AT", **known)
    return [transfer for transfer in rows if transfer.memo == instructions.memo_id]


def wait_for_deposit(
    client: Client,
    instructions: FiatDepositInstructions,
    *,
    timeout: float = 300.0,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    progress: bool | None = None,
) -> Transfer:
    """Wait until a deposit that quotes the memo is no longer ``PENDING``; the newest one.

    ``timeout`` is in seconds; interrupting loses nothing. Raises ``ActionError`` when the time is
    up, saying whether the memo has been seen.

    >>> instructions = next(iter(client.list_fiat_deposit_instructions()))
    >>> fl.simulate_deposit(client, instructions, "5000.00")
    >>> deposit = fl.wait_for_deposit(client, instructions, sleep=sandbox.clock.advance)
    >>> str(deposit.status)
    'COMPLETED'
    """
    arrived: list[Transfer] = []
    what = f"deposit quoting {instructions.memo_id}"
    for arrived in answers(
        what, lambda: find_deposits(client, instructions), timeout=timeout, sleep=sleep,
        clock=clock, progress=progress,
    ):  # fmt: skip
        if arrived and arrived[0].status != "PENDING":
            return arrived[0]
    state = "has arrived but is still PENDING" if arrived else "has not arrived"
    raise ActionError(
        f"a {what} {state} after {timeout:g} s; nothing is lost: wait again, or ask the sender "
        "whether the memo was quoted"
    )


def simulate_deposit(
    client: Client,
    instructions: FiatDepositInstructions,
    amount: str | Decimal | int,
    *,
    sender: Owner | None = None,
    sending_bank: Instructions | None = None,
) -> None:
    """Let a wire of ``amount`` USD arrive that quotes the memo (§4.4); in a sandbox only.

    Raises ``ActionRefused`` in production, before anything is sent.

    >>> instructions = next(iter(client.list_fiat_deposit_instructions()))
    >>> fl.simulate_deposit(client, instructions, "5000.00")
    >>> fl.find_deposits(client, instructions)[0].amount.text
    '5000.00'
    """
    if client.settings.is_production:
        raise ActionRefused(
            "wrong_environment",
            f"{client.base_url} is production, where deposits cannot be simulated; nothing "
            "was sent: connect to a sandbox (or set sandbox = true in its profile if it is one)",
        )
    if sender is None:
        sender = {"institution_details": {"name": "Example Sender Inc."}}
    if sending_bank is None:
        address = {"country": "USA", "address1": "1 Example Street", "city": "New York",
                   "province": "NY", "zip_code": "10001"}  # fmt: skip
        routing = {"routing_number_type": "ABA", "routing_number": "021000021",
                   "bank_name": "Example Bank", "bank_address": address}  # fmt: skip
        wire = {"account_number": "000000000001", "fiat_account_owner_address": address,
                "routing_details": routing}  # fmt: skip
        sending_bank = {"wire": wire}
    client.initiate_sandbox_fiat_deposit(
        amount=amount, memo_id=instructions.memo_id or "", fiat_account_owner=sender,
        fiat_network_instructions=sending_bank,
    )  # fmt: skip
