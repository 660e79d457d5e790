"""Fiat accounts: registered and changed like a payment is made, for that is where money will go."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fundlab.base.errors import ActionRefused, shorten
from fundlab.client.arguments import Instructions, Metadata, Owner
from fundlab.client.identity import differences
from fundlab.display import Row
from fundlab.evidence.table_store import TableStore
from fundlab.models import FiatAccount
from fundlab.models.requests import changed_instructions
from fundlab.payments.identity import UPDATE, keyed
from fundlab.payments.plan import (
    BankAccount,
    Plan,
    bank_account,
    check_expiry,
    check_unchanged,
    context_of,
    given_rows,
    new_plan,
)

if TYPE_CHECKING:
    from fundlab.client.client import Client

_LOOKED_AT: Final = 1000
_LINES: Final = ("address1", "city", "province", "zip_code")
_SWIFT: Final = re.compile("[A-Z]{6}[A-Z0-9]{2}([A-Z0-9]{3})?")
"""ISO 9362: bank, country, place, and maybe a branch."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class AccountUpdatePlan(Plan[FiatAccount]):
    """A change of a fiat account that can be confirmed."""

    before: BankAccount
    state: str
    read: Callable[[], FiatAccount]

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
            self.context.say(
                f"already as asked: fiat account {self.before.id}, {self.before.status}"
            )
            return self.read()
        return super().submit(confirm)

    def look_again(self) -> None:
        """Refuses an expired plan, and an account that has changed."""
        check_expiry(self.context, self.planned_at)
        check_unchanged(self.before, bank_account(self.read()))

    def digests(self) -> dict[str, Any]:
        """From which state to which: ``resume`` recognises by them whether it was made."""
        return {"before": self.state, **super().digests()}


def register_fiat_account(
    client: Client,
    *,
    fiat_account_owner: Owner,
    fiat_network_instructions: Instructions,
    identity_id: str | None = None,
    account_id: str | None = None,
    metadata: Metadata | None = None,
    ref_id: str | None = None,
    store: TableStore | str | Path | None = None,
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
    plan: Plan[FiatAccount] = new_plan(
        context_of(client, store, now, say), "create_fiat_account", ref_id,
        fiat_account_owner=fiat_account_owner, fiat_network_instructions=fiat_network_instructions,
        identity_id=identity_id, account_id=account_id, metadata=metadata,
    )  # fmt: skip
    shown = bank_account(FiatAccount.model_validate({"id": "new", **plan.arguments}))
    is_new = plan.earlier is None and not plan.elsewhere
    return replace(
        plan,
        title=f"Register a bank account of {shown.owner}",
        rows=(
            Row("Owner", shown.owner, "strong"),
            Row("Bank", shown.bank, detail=shown.network),
            Row("Number", shown.number),
            *given_rows(plan.arguments),
        ),
        warnings=(*doubts(plan.arguments), *(look_alikes(client, shown) if is_new else ())),
        facts=MappingProxyType({"account": shown.label}),
    )


def plan_account_update(
    client: Client,
    fiat_account_id: str,
    *,
    fiat_account_owner: Owner | None = None,
    fiat_network_instructions: Instructions | None = None,
    metadata: Metadata | None = None,
    store: TableStore | str | Path | None = None,
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
    context = context_of(client, store, now, say)
    current = client.get_fiat_account(fiat_account_id)
    before, shown = bank_account(current), current.model_dump(mode="json", exclude_none=True)
    # a change is one *from* a state: changing there and back again is three changes
    state = keyed(context.journal.id, "state", shown, without=())
    earlier_changes = sum(
        entry.state == "done" and entry.facts.get("fiat_account_id") == fiat_account_id
        for entry in context.journal.sent_since(UPDATE, 0)
    )
    base = new_plan(
        context, UPDATE, None, known_by={"from": state, "changes before": earlier_changes},
        id=fiat_account_id, fiat_account_owner=fiat_account_owner,
        fiat_network_instructions=fiat_network_instructions, metadata=metadata,
    )  # fmt: skip
    change = {n: v for n, v in base.arguments.items() if n not in ("id", "ref_id")}
    if not change:
        raise ActionRefused(
            "account_changed", f"nothing is given to change of fiat account {fiat_account_id}; "
            "nothing was sent: give fiat_account_owner, fiat_network_instructions or metadata",
        )  # fmt: skip
    is_so = not differences(change, shown, complete=True)
    became = current.to_json() | change
    if "fiat_network_instructions" in change:
        became["fiat_network_instructions"] = changed_instructions(
            shown.get("fiat_network_instructions", {}), change["fiat_network_instructions"]
        )
    after = bank_account(FiatAccount.model_validate(became))
    common = vars(base) | {
        "elsewhere": is_so,
        "title": f"Change the bank account of {before.owner}",
        "rows": (
            Row("Account", before.id, "faint", before.status),
            Row("Now", before.label, detail=before.network),
            Row("Then", after.label, "strong", after.network),
            *(Row(f"Metadata {key}", value) for key, value in change.get("metadata", {}).items()),
        ),
        "warnings": ()
        if is_so
        else ("It goes back to PENDING: no payments until it is reviewed.", *doubts(became)),
        "facts": MappingProxyType({"account": after.label, "fiat_account_id": before.id}),
        "evidence": before.evidence,
    }
    return AccountUpdatePlan(
        **common, before=before, state=state, read=lambda: client.get_fiat_account(fiat_account_id)
    )


def doubts(account: Mapping[str, Any]) -> tuple[str, ...]:
    """Warnings of what the service takes but is surely wrong: a routing number that no bank has,
    letters in a domestic account number, addresses of which only the country is there."""
    wire = (account.get("fiat_network_instructions") or {}).get("wire")
    if not wire:
        return ()
    found = []
    addresses = [("The owner's address", wire.get("fiat_account_owner_address"))]
    for bank, part in (
        ("The bank", "routing_details"), ("The bank between", "intermediary_routing_details"),
    ):  # fmt: skip
        routing = wire.get(part)
        if not routing:
            continue
        number, kind = routing.get("routing_number") or "", routing.get("routing_number_type")
        if kind == "ABA" and not is_aba_number(number):
            found.append(
                f"{bank}'s ABA number {shorten(number)} is not one: nine digits with a checksum."
            )
        if kind == "SWIFT" and _SWIFT.fullmatch(number) is None:
            found.append(
                f"{bank}'s SWIFT code {shorten(number)} is not one: 8 or 11 characters, such as "
                "DEUTDEFF."
            )
        addresses.append((f"{bank}'s address", routing.get("bank_address")))
    domestic = (wire.get("routing_details") or {}).get("routing_number_type") == "ABA"
    if domestic and re.fullmatch("[0-9]+", wire.get("account_number") or "") is None:
        found.append("The account number is not digits only, as those of US banks are.")
    for name, address in addresses:
        lacking = [line for line in _LINES if not (address or {}).get(line)]
        if lacking:
            found.append(f"{name} has no {', '.join(lacking)}.")
    return tuple(found)


def is_aba_number(text: str) -> bool:
    """Nine digits whose weighted sum (3, 7, 1, …) ends in 0."""
    if re.fullmatch("[0-9]{9}", text) is None:
        return False
    weighted = zip(text, (3, 7, 1) * 3, strict=True)
    return sum(int(digit) * weight for digit, weight in weighted) % 10 == 0


def look_alikes(client: Client, shown: BankAccount) -> tuple[str, ...]:
    """A warning of an account that looks like the one that is ``shown`` and is registered
    already."""
    for account in client.list_fiat_accounts(page_size=_LOOKED_AT, max_rows=_LOOKED_AT):
        known = bank_account(account)
        ending = known.number.lstrip("•")
        if (known.number, known.network) == (shown.number, shown.network) and ending:
            return (
                f"An account at this bank that ends in {ending} is registered already: "
                f"{known.id} ({known.status}).",
            )
    return ()
