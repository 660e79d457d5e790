"""A fiat account as plans show it: owner, bank, the last four characters of its number."""

from __future__ import annotations

from dataclasses import dataclass, field

from fundlab.actions.identity import evidence_of
from fundlab.errors import ActionRefused
from fundlab.models import (
    FiatAccount,
    FiatAccountOwner,
    FiatNetworkInstructions,
    WireInstructions,
)
from fundlab.secret import mask_number


@dataclass(frozen=True)
class BankAccount:
    """What may be shown of an account, and a digest of all that must not change unseen."""

    id: str
    status: str
    owner: str
    number: str
    bank: str
    network: str
    identity_id: str | None = None
    account_id: str | None = None
    evidence: str = field(default="", repr=False)

    @property
    def label(self) -> str:
        """``Harbor Trading LLC, First Harbor Bank ••••6789``."""
        return ", ".join(
            part for part in (self.owner, f"{self.bank} {self.number}".strip()) if part
        )

    @property
    def facts(self) -> dict[str, str | None]:
        """What the journal keeps of it."""
        return {"account": self.label, "fiat_account_id": self.id}


def bank_account(account: FiatAccount) -> BankAccount:
    """``account`` as it may be shown."""
    return BankAccount(
        id=account.id,
        status=str(account.status),
        identity_id=account.identity_id,
        account_id=account.account_id,
        evidence=_evidence(account),
        **shown_bank(account.fiat_account_owner, account.fiat_network_instructions),
    )


def check_unchanged(before: BankAccount, now: BankAccount) -> None:
    """Refuses an account of which anything that matters is no longer as it was shown."""
    if now.evidence != before.evidence:
        raise ActionRefused(
            "account_changed",
            f"fiat account {before.id} has changed since the plan: it was {before.label}, it is "
            f"{now.label}; nothing was sent: ask who changed it, then run the cell that plans "
            "again",
        )


def shown_bank(
    owner: FiatAccountOwner | None, instructions: FiatNetworkInstructions | None
) -> dict[str, str]:
    """``owner``, ``number`` (masked), ``bank`` and ``network`` in words."""
    wire = instructions.wire if instructions is not None else None
    name = (owner.name if owner is not None else None) or "owner not shown"
    if wire is not None:
        return {
            "owner": name, "number": mask_number(wire.account_number), "bank": _bank_name(wire),
            "network": _wire_network(wire),
        }  # fmt: skip
    cubix = instructions.cubix if instructions is not None else None
    number = cubix.account_id if cubix is not None else None
    if number is None and instructions is not None:
        number = instructions.wallet_address
    return {"owner": name, "number": mask_number(number), "bank": "CUBIX", "network": "CUBIX"}


def _bank_name(wire: WireInstructions) -> str:
    routing = wire.routing_details
    return (routing.bank_name if routing is not None else None) or "bank not shown"


def _wire_network(wire: WireInstructions) -> str:
    routing = wire.routing_details
    if routing is None:
        return "wire"
    return f"{routing.routing_number_type or ''} wire, routing {routing.routing_number}".strip()


def _evidence(account: FiatAccount) -> str:
    details = account.model_dump(
        mode="json",
        exclude_none=True,
        include={"id", "fiat_account_owner", "fiat_network_instructions", "identity_id"},
    )
    return evidence_of(details)
