"""``fundlab withdraw`` without its terminal: plan, show, ask, send, wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fundlab.actions.identity import same_code
from fundlab.actions.waiting import check_timeout, wait_for
from fundlab.actions.withdrawals import WithdrawalPlan
from fundlab.errors import ActionRefused, printable
from fundlab.models import Transfer
from fundlab.values import Amount


@dataclass(frozen=True)
class Consent:
    """How the person at the terminal agrees: beforehand, or by answering ``ask``.

    ``ask`` is ``None`` where nobody can be asked.
    """

    yes: bool = False
    confirm_amount: str | None = None
    ask: Callable[[str], str] | None = None


@dataclass(frozen=True)
class Done:
    """What came of it: ``transfer`` is ``None`` after a dry run or a no."""

    plan: WithdrawalPlan
    transfer: Transfer | None
    declined: bool = False

    @property
    def failed(self) -> bool:
        return self.declined or (self.transfer is not None and self.transfer.status == "FAILED")

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.plan.to_json(),
            "already_submitted": self.plan.is_submitted,
            "transfer": None if self.transfer is None else self.transfer.to_json(),
        }

    def __str__(self) -> str:
        if self.declined:
            return "not sent: the answer was no"
        if self.transfer is None:
            before = f"; {self.plan.status}" if self.plan.is_submitted else ""
            return f"not sent: this was a dry run{before}"
        made = self.transfer
        before = "already submitted, " if self.plan.is_submitted else ""
        ended = f"{made.status}: transfer {made.id}, total {made.total} {made.asset}"
        return printable(f"{before}{ended}")


def withdraw(
    plan: WithdrawalPlan,
    consent: Consent,
    *,
    dry_run: bool,
    wait: bool,
    timeout: float,
    show: Callable[[str], object],
) -> Done:
    """Show ``plan``, have it agreed to, carry it out; what an earlier run did is not asked about.

    Raises ``ActionRefused`` when nobody agreed as the environment demands, and ``InvalidRequest``
    for a ``timeout`` that is not one, before anything is sent.
    """
    check_timeout(timeout)
    show(repr(plan))
    if dry_run:
        return Done(plan, None)
    try:
        agreed = plan.is_submitted or _agreed(plan, consent)
    except KeyboardInterrupt as stop:
        stop.add_note("Nothing was sent.")
        raise
    if not agreed:
        return Done(plan, None, declined=True)
    transfer = plan.submit(confirm=plan.code)
    if wait:
        transfer = _waited(plan, transfer, timeout)
    return Done(plan, transfer)


def _waited(plan: WithdrawalPlan, transfer: Transfer, timeout: float) -> Transfer:
    try:
        return wait_for(plan.desk.client, transfer, timeout=timeout)
    except KeyboardInterrupt as stop:
        stop.add_note(f"Transfer {transfer.id} was sent: only the waiting ended.")
        raise


def _agreed(plan: WithdrawalPlan, consent: Consent) -> bool:
    production = plan.environment.is_production
    if consent.confirm_amount is not None or (consent.yes and production):
        _check_amount(plan, consent.confirm_amount)
    if consent.yes:
        return True
    if consent.ask is None:
        raise ActionRefused(
            "code", "nobody can be asked here; nothing was sent: give --yes to agree beforehand"
        )
    if production:
        return same_code(consent.ask("Type the confirmation code to send it"), plan.code)
    return consent.ask("Send it? [y/N]").strip().lower() in ("y", "yes")


def _check_amount(plan: WithdrawalPlan, given: str | None) -> None:
    try:
        same = given is not None and Amount(given) == plan.amount
    except ValueError:
        same = False
    if not same and given is not None:
        raise ActionRefused(
            "code",
            f"--confirm-amount {given} is not the amount of the plan; nothing was sent: look at "
            f"it, and give --confirm-amount {plan.amount} if that is meant",
        )
    if not same:
        raise ActionRefused(
            "code",
            f"{plan.environment.base_url} is production: --yes needs the amount repeated, "
            f"--confirm-amount {plan.amount}; nothing was sent",
        )
