"""A person agrees: ``fundlab withdraw`` and ``approve`` without their terminal.

A plan is shown, its code or a yes is asked for, it is sent or signed. That a payment happens once
is the work of `fundlab.payments.plan` and `fundlab.payments.journal`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fundlab.base.errors import ActionRefused, CardWarning, SettingsError, printable
from fundlab.base.values import Amount, money_text
from fundlab.client.signing import EdSigner, Signer, key_pair, signer_of
from fundlab.evidence.table_store import TableStore
from fundlab.models import Transfer
from fundlab.payments.approvals import PaymentRequest, people, read_request
from fundlab.payments.approvals import approve as write_approval
from fundlab.payments.identity import asked
from fundlab.payments.plan import confirmation_code, same_code
from fundlab.payments.reconciliation import card_differences
from fundlab.payments.waiting import check_timeout, wait_for
from fundlab.payments.withdrawals import (
    WithdrawalPlan,
    check_approved,
    plan_withdrawal,
    with_approvals,
)
from fundlab.settings.secret import Secret, into_keyring, password_of_keyring, read_private

if TYPE_CHECKING:
    from fundlab.client.client import Client

_KEYRING: Final = "fundlab approvals"


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
        total = "not known" if made.total is None else money_text(made.total)
        before = "already submitted, " if self.plan.is_submitted else ""
        ended = f"{made.status}: transfer {made.id}, total {total} {made.asset}"
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
    approved: Path | None = None,
) -> Done:
    """Show ``plan``, have it agreed to, carry it out; what an earlier run did is not asked about.

    The person at the terminal agrees beforehand (``yes``, in production with the amount again), or
    by answering ``ask``, which is ``None`` where nobody can be asked.

    Raises ``ActionRefused`` when nobody agreed as the environment demands, or, before anybody is
    asked, where ``approved`` has not enough approvals that hold, and ``InvalidRequest`` for a
    ``timeout`` that is not one, before anything is sent.
    """
    check_timeout(timeout)
    if not plan.is_submitted:
        (plan,) = with_approvals([plan], approved)
    show(repr(plan))
    if dry_run:
        return Done(plan, None)
    if not plan.is_submitted:  # again when it is sent
        check_approved(plan, plan.context.journal, plan.recent.today)
    try:
        agreed = plan.is_submitted or agreed_to(plan, yes, confirm_amount, ask)
    except KeyboardInterrupt as stop:
        stop.add_note("Nothing was sent.")
        raise
    if not agreed:
        return Done(plan, None, declined=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CardWarning)  # it was said already, on standard error
        transfer = plan.submit(confirm=plan.code, approved=approved)
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
        return typed_code(ask("Type the confirmation code to send it"), plan.code, "sent")
    return ask("Send it? [y/N]").strip().lower() in ("y", "yes")


def typed_code(given: str, code: str, undone: str) -> bool:
    """Whether a person typed ``code``; nothing, or a no, is not it. Refuses another one, after
    which ``undone`` was not done."""
    if given.strip().lower() in ("", "n", "no"):
        return False
    if not same_code(given, code):
        raise ActionRefused(
            "code", f"what was typed is not the code that was shown; nothing was {undone}: run it "
            "again, and type the code of its card"
        )  # fmt: skip
    return True


def approve(
    client: Client,
    file: Path,
    store: TableStore,
    *,
    signer: Callable[[], Signer],
    ask: Callable[[str], str],
    show: Callable[[str], object],
    say: Callable[[str], object],
) -> Path | None:
    """Show the request in ``file`` as it stands at the service now, have it agreed to by its code,
    sign it; the file of the approval, ``None`` after a no.

    The ``signer`` is asked for last, and its key must be that of an approver of ``store``. Raises
    ``ActionRefused`` where the request is not what it was, has expired, is of another environment
    or may not be paid as things stand, and where what was typed is another code.
    """
    request = read_request(file)
    plans = planned_again(client, request, store, say)
    said = request.said
    show(
        printable(
            f"{said['by']} asks, at {said['asked_at'][:19]}Z: {said['why'] or 'no reason given'}"
        )
    )
    for line in said["saw"]:
        show(printable(f"  | {line}"))
    show("As it stands now:")
    for plan in with_approvals(plans, file):
        show(repr(plan))
    codes = {plan.ref_id: plan.code for plan in plans}
    code = plans[0].code
    if len(plans) > 1:
        code = confirmation_code(plans[0].context.journal, "approve", codes, "")
        show(f"confirmation code of all {len(plans)}: {code}")
    if not typed_code(ask("Type the confirmation code to approve it"), code, "signed"):
        return None
    key = signer()
    known = people(store)
    if not isinstance(key, EdSigner):
        raise ActionRefused("approval", "the key is not of Ed25519; nothing was signed")
    mine = key.key.public_key().public_bytes_raw().hex()
    person = next((owner for owner in known.values() if owner.key == mine), None)
    if person is None or person.role != "approver":
        raise ActionRefused(
            "approval", "the key is not of an approver of this store; nothing was signed: 'fundlab "
            "approvers list' shows whose count"
        )  # fmt: skip
    if person.name.casefold() == request.by.casefold():
        raise ActionRefused("approval", f"{person.name} asked for it: another person approves")
    return write_approval(request, plans, person.name, key, plans[0].context.now())


def planned_again(
    client: Client, request: PaymentRequest, store: TableStore, say: Callable[[str], object]
) -> list[WithdrawalPlan]:
    """The payments of ``request`` as they would be planned now. Refuses what is submitted already,
    or would be sent with other bytes."""
    request.check_environment(client.base_url, client.client_id)
    plans = []
    for body, arguments in zip(request.bodies, request.arguments, strict=True):
        plan = plan_withdrawal(
            client, **arguments, allow_duplicate=request.said["allow_duplicate"], store=store,
            say=say,
        )  # fmt: skip
        request.check_time(plan.context.now())
        if plan.is_submitted:
            raise ActionRefused("approval", f"{plan.title}: {plan.status}; nothing to approve")
        if plan.kept()["body"].decode() != body:
            raise ActionRefused(
                "approval", f"{request.path} asks for other bytes than this program would send: "
                f"{printable(body)}; nothing was signed"
            )  # fmt: skip
        plans.append(plan)
    return plans


def own_key(path: Path | None, keyring: str | None, ask: Callable[[str], str]) -> Signer:
    """The key in the file ``path`` that only its owner may read, or in the system ``keyring``;
    its password is asked for where it has one."""
    if keyring is None:
        assert path is not None  # noqa: S101 - for the type checker
        pem, name = Secret(read_private(path, "the key").decode("latin-1")), str(path)
    else:
        found = password_of_keyring(_KEYRING, keyring)
        if found is None:
            raise SettingsError(
                f"the system keyring has no key {keyring!r}; 'fundlab keys new --alg EdDSA "
                f"--keyring {keyring}' makes one"
            )
        pem, name = Secret(found), f"{keyring!r} of the keyring"
    locked = "ENCRYPTED" in pem.reveal()
    password = Secret(ask(f"Password of the key {name}")) if locked else None
    return signer_of(pem.reveal().encode("latin-1"), name, "", password)


def key_into_keyring(name: str, password: Secret | None) -> str:
    """A new key for approvals in the system keyring; its public key as PEM. None is replaced."""
    if password_of_keyring(_KEYRING, name) is not None:
        raise SettingsError(f"the system keyring has a key {name!r}; choose another name")
    content, public = key_pair("EdDSA", password)
    into_keyring(_KEYRING, name, Secret(content.decode()))
    return public
