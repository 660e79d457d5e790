"""``fundlab withdraw`` without its terminal: plan, show, ask, send, wait.

That a payment happens once is the work of `fundlab.payments.plan` and `fundlab.payments.journal`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fundlab.base.errors import ActionRefused, printable
from fundlab.base.values import Amount
from fundlab.models import Transfer
from fundlab.payments.identity import asked
from fundlab.payments.plan import same_code
from fundlab.payments.reconciliation import card_differences
from fundlab.payments.waiting import check_timeout, wait_for
from fundlab.payments.withdrawals import WithdrawalPlan


@dataclass(frozen=True)
class Done:
    """What came of it: ``transfer`` is ``None`` after a dry run or a no."""

    plan: WithdrawalPlan
    transfer: Transfer | None
    declined: bool = False

    @property
    def differences(self) -> list[str]:
        """What the service made otherwise than the card showed with which it was sent."""
        entry = self.plan.context.journal.find(self.plan.ref_id)
        card = self.plan.facts if entry is None else entry.facts
        return card_differences(card, dict(self.transfer or ()))

    @property
    def failed(self) -> bool:
        return self.declined or (self.transfer is not None and self.transfer.status == "FAILED")

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.plan.to_json(),
            "already_submitted": self.plan.is_submitted,
            "transfer": None if self.transfer is None else self.transfer.to_json(),
            "differences": self.differences,
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
        return printable("\n".join([f"{before}{ended}", *self.differences]))


def withdraw(
    plan: WithdrawalPlan,
    *,
    yes: bool,
    confirm_amount: str | None,
    ask: Callable[[str], str] | None,
    dry_run: bool,
    wait: bool,
    timeout: float,
    show: Callable[[str], object],
) -> Done:
    """Show ``plan``, have it agreed to, carry it out; what an earlier run did is not asked about.

    The person at the terminal agrees beforehand (``yes``, in production with the amount again), or
    by answering ``ask``, which is ``None`` where nobody can be asked.

    Raises ``ActionRefused`` when nobody agreed as the environment demands, and ``InvalidRequest``
    for a ``timeout`` that is not one, before anything is sent.
    """
    check_timeout(timeout)
    show(repr(plan))
    if dry_run:
        return Done(plan, None)
    try:
        agreed = plan.is_submitted or agreed_to(plan, yes, confirm_amount, ask)
    except KeyboardInterrupt as stop:
        stop.add_note("Nothing was sent.")
        raise
    if not agreed:
        return Done(plan, None, declined=True)
    transfer = plan.submit(confirm=plan.code)
    if wait:
        try:
            transfer = wait_for(plan.context.client, transfer, timeout=timeout)
        except KeyboardInterrupt as stop:
            stop.add_note(f"Transfer {transfer.id} was sent: only the waiting ended.")
            raise
    return Done(plan, transfer)


def agreed_to(
    plan: WithdrawalPlan, yes: bool, given: str | None, ask: Callable[[str], str] | None
) -> bool:
    """Whether the person agrees, as the environment demands; raises as ``withdraw``."""
    client, production = plan.context.client, plan.context.client.settings.is_production
    wanted = asked(plan.arguments)[1]
    if given is not None or (yes and production):
        try:
            same = given is not None and Amount(given) == wanted
        except ValueError:
            same = False
        if not same and given is not None:
            raise ActionRefused(
                "code",
                f"--confirm-amount {given} is not the amount of the plan; nothing was sent: look "
                f"at it, and give --confirm-amount {wanted} if that is meant",
            )
        if not same:
            raise ActionRefused(
                "code",
                f"{client.base_url} is production: --yes needs the amount repeated, "
                f"--confirm-amount {wanted}; nothing was sent",
            )
    if yes:
        return True
    if ask is None:
        raise ActionRefused(
            "code", "nobody can be asked here; nothing was sent: give --yes to agree beforehand"
        )
    if production:
        return same_code(ask("Type the confirmation code to send it"), plan.code)
    return ask("Send it? [y/N]").strip().lower() in ("y", "yes")
