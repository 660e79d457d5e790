"""Fiat accounts: registered and changed like a payment is made, for that is where money will go."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fundlab.actions.bank import BankAccount, bank_account, check_unchanged, shown_bank
from fundlab.actions.cards import Row
from fundlab.actions.identity import derived_ref_id, keyed, traces
from fundlab.actions.plan import (
    Desk,
    Order,
    Plan,
    check_lapse,
    check_ref_id,
    given_rows,
    made_elsewhere,
    open_desk,
    order,
)
from fundlab.api.arguments import Instructions, Metadata, Owner
from fundlab.api.idempotence import differences
from fundlab.errors import ActionRefused
from fundlab.models import FiatAccount, FiatAccountOwner, FiatNetworkInstructions
from fundlab.store import Store

if TYPE_CHECKING:
    from fundlab.api.client import Client

_LOOKED_AT: Final = 1000


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class AccountUpdatePlan(Plan[FiatAccount]):
    """A change of a fiat account that can be confirmed."""

    before: BankAccount
    state: str
    read: Callable[[], FiatAccount] = field(repr=False)

    @property
    def is_submitted(self) -> bool:
        """Whether the account is as asked now; that it was once, long ago, does not count."""
        return self.elsewhere

    @property
    def status(self) -> str | None:
        """What there is to do, in one sentence; ``None`` for a new plan."""
        return "the account is as asked already" if self.elsewhere else super().status

    def submit(self, confirm: str | None = None) -> FiatAccount:
        """Change the account, unless it is as asked already; see ``Plan.submit``."""
        if self.is_submitted:
            self.desk.say(f"already as asked: fiat account {self.before.id}, {self.before.status}")
            return self.read()
        return super().submit(confirm)

    def _recheck(self) -> None:
        check_lapse(self)
        check_unchanged(self.before, bank_account(self.read()))

    def _traced(self) -> dict[str, Any]:
        asked = _asked(self.order)
        return {"before": self.state, "asked": traces(self.desk.journal.id, asked)}

    def _sent(self) -> dict[str, Any]:
        return {name: value for name, value in self.order.arguments.items() if name != "ref_id"}


def register_fiat_account(
    client: Client,
    *,
    fiat_account_owner: Owner,
    fiat_network_instructions: Instructions,
    identity_id: str | None = None,
    account_id: str | None = None,
    metadata: Metadata | None = None,
    ref_id: str | None = None,
    store: Store | str | Path | None = None,
    now: Callable[[], int] | None = None,
    say: Callable[[str], object] | None = None,
) -> Plan[FiatAccount]:
    """Plan the registration of an external bank account (§4.8); ``submit`` sends it once.

    The account is then ``PENDING``: ``fl.wait_for(client, account)`` waits for its review. The
    journal keeps nothing of the bank details. Arguments, ``store``, ``now``, ``say`` and errors as
    ``plan_withdrawal``.

    >>> plan = fl.register_fiat_account(
    ...     client,
    ...     fiat_account_owner={"institution_details": {"name": "Harbor Trading LLC"}},
    ...     fiat_network_instructions={"wallet_address": "CUBIX-9BDC4AEA9A4C"},
    ... )
    >>> str(plan.submit(confirm=plan.code).status)
    'PENDING'
    """
    desk = open_desk(client, store, now, say)
    wanted = order(
        desk, "create_fiat_account", ref_id, fiat_account_owner=fiat_account_owner,
        fiat_network_instructions=fiat_network_instructions, identity_id=identity_id,
        account_id=account_id, metadata=metadata,
    )  # fmt: skip
    shown = _shown(wanted.arguments)
    earlier = desk.journal.find(wanted.ref_id)
    elsewhere = earlier is None and made_elsewhere(desk, wanted) is not None
    plan: Plan[FiatAccount] = Plan(
        desk=desk, order=wanted, earlier=earlier, elsewhere=elsewhere, planned_at=desk.now(),
        title=f"Register a bank account of {shown['owner']}",
        rows=(*_bank_rows(shown), *given_rows(wanted.arguments)),
        warnings=() if earlier or elsewhere else _warnings(client, shown),
        facts={"account": _label(shown)},
    )  # fmt: skip
    check_ref_id(plan)
    return plan


def plan_account_update(
    client: Client,
    fiat_account_id: str,
    *,
    fiat_account_owner: Owner | None = None,
    fiat_network_instructions: Instructions | None = None,
    metadata: Metadata | None = None,
    store: Store | str | Path | None = None,
    now: Callable[[], int] | None = None,
    say: Callable[[str], object] | None = None,
) -> AccountUpdatePlan:
    """Plan a change of a fiat account (§4.10), shown beside what it is now.

    A changed account is reviewed again and cannot be paid until it is ``APPROVED``; one that is as
    asked already is left alone. Raises as ``plan_withdrawal``.

    >>> own = [one for one in client.list_fiat_accounts() if not one.identity_id]
    >>> account = next(one for one in own if one.status == "APPROVED")
    >>> plan = fl.plan_account_update(client, account.id, metadata={"department": "payroll"})
    >>> plan.submit(confirm=plan.code).metadata
    {'department': 'payroll'}
    """
    desk = open_desk(client, store, now, say)
    current = client.get_fiat_account(fiat_account_id)
    before = bank_account(current)
    wanted = order(
        desk, "update_fiat_account", None, id=fiat_account_id,
        fiat_account_owner=fiat_account_owner, fiat_network_instructions=fiat_network_instructions,
        metadata=metadata,
    )  # fmt: skip
    asked = _asked(wanted)
    if not asked:
        raise ActionRefused(
            "account_changed", f"nothing is given to change of fiat account {fiat_account_id}; "
            "nothing was sent: give fiat_account_owner, fiat_network_instructions or metadata",
        )  # fmt: skip
    shown = current.model_dump(mode="json", exclude_none=True)
    is_so = not differences(asked, shown, complete=True)
    state = keyed(desk.journal.id, "state", shown)
    wanted = _from_state(desk, wanted, state)
    after = _shown(current.to_json() | asked)
    return AccountUpdatePlan(
        desk=desk, order=wanted, earlier=desk.journal.find(wanted.ref_id), elsewhere=is_so,
        planned_at=desk.now(), title=f"Change the bank account of {before.owner}",
        rows=(
            Row("Account", before.id, "faint", before.status),
            Row("Now", before.label, detail=before.network),
            Row("Then", _label(after), "strong", after["network"]),
            *(Row(f"Metadata {key}", value) for key, value in asked.get("metadata", {}).items()),
        ),
        warnings=() if is_so else ("It goes back to PENDING: no payments until it is reviewed.",),
        facts={"account": _label(after), "fiat_account_id": before.id},
        evidence=before.evidence,
        before=before,
        state=state,
        read=lambda: client.get_fiat_account(fiat_account_id),
    )  # fmt: skip


def _asked(wanted: Order) -> dict[str, Any]:
    return {n: v for n, v in wanted.arguments.items() if n not in ("id", "ref_id")}


def _from_state(desk: Desk, wanted: Order, state: str) -> Order:
    """The order of a change *from* a state: changing there and back again is three changes."""
    arguments, operation = wanted.arguments, wanted.kind.operation
    with desk.journal.reading() as pages:
        made = sum(
            intent.outcome.state == "done"
            and intent.facts.get("fiat_account_id") == arguments["id"]
            for intent in pages.sent_since(operation, 0)
        )
    known = {**arguments, "from": state, "changes before": made}
    ref_id = derived_ref_id(desk.journal.id, operation, known, more=False)
    return Order(wanted.kind, json.dumps({**arguments, "ref_id": ref_id}), ref_id, own_ref_id=False)


def _shown(arguments: Mapping[str, Any]) -> dict[str, str]:
    owner = arguments.get("fiat_account_owner")
    instructions = arguments.get("fiat_network_instructions")
    return shown_bank(
        FiatAccountOwner.model_validate(owner) if owner else None,
        FiatNetworkInstructions.model_validate(instructions) if instructions else None,
    )


def _label(shown: Mapping[str, str]) -> str:
    return f"{shown['owner']}, {shown['bank']} {shown['number']}".strip()


def _bank_rows(shown: Mapping[str, str]) -> tuple[Row, ...]:
    return (
        Row("Owner", shown["owner"], "strong"),
        Row("Bank", shown["bank"], detail=shown["network"]),
        Row("Number", shown["number"]),
    )


def _warnings(client: Client, shown: Mapping[str, str]) -> tuple[str, ...]:
    """Accounts that look like this one are registered already."""
    for account in client.list_fiat_accounts(page_size=_LOOKED_AT, max_rows=_LOOKED_AT):
        known = shown_bank(None, account.fiat_network_instructions)
        ending = known["number"].lstrip("•")
        if (known["number"], known["network"]) == (shown["number"], shown["network"]) and ending:
            return (
                f"An account at this bank that ends in {ending} is registered already: "
                f"{account.id} ({account.status}).",
            )
    return ()
