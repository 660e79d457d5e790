"""``plan_withdrawal``: everything known about a payment before it is made, frozen and confirmable.

What is wrong is refused while planning, in one sentence that says what to do; what changed between
the plan and its confirmation is refused at submission.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from fundlab.base.errors import (
    ActionRefused,
    CardWarning,
    InvalidRequest,
    listed,
)
from fundlab.base.exact import EXACT
from fundlab.base.values import Amount, exact_sum, fraction_digits, money_text
from fundlab.display import Card, Row
from fundlab.evidence.table_store import TableStore
from fundlab.models import MAX_CUBIX_MEMO, FiatAccountStatus, Transfer
from fundlab.payments.approvals import (
    Approved,
    PaymentRequest,
    approvals_of,
    make_request,
    read_request,
)
from fundlab.payments.duplicates import (
    MOST_SHOWN,
    Candidate,
    Recent,
    duplicate_candidates,
    failed_in,
    recent_withdrawals,
    refuse_duplicates,
)
from fundlab.payments.identity import (
    DAY,
    WITHDRAWAL,
    Entry,
    asked,
)
from fundlab.payments.journal import Journal
from fundlab.payments.plan import (
    BankAccount,
    Context,
    Plan,
    bank_account,
    check_doubt,
    check_expiry,
    check_unchanged,
    context_of,
    given_rows,
    new_plan,
    settle,
)
from fundlab.payments.reconciliation import card_differences
from fundlab.settings.labels import with_name

if TYPE_CHECKING:
    from fundlab.client.client import Client

DECIMALS: Final = 2
_CHANGE: Final = "nothing was sent: pay less, or change the setting"
_PLAN_AGAIN: Final = "run the cell that plans again, look, and confirm"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WithdrawalPlan(Plan[Transfer]):
    """A withdrawal that can be confirmed. Amounts are exact; ``fee`` is ``None`` if not known.

    ``total`` is what leaves the profile, where it is known or was asked for; ``amount`` what
    arrives: of a withdrawal by ``total`` about what ``fee``, the last one to this account, leaves
    of it, and at most that total where no fee is known. ``account``, ``available``, ``fee`` and
    ``recent`` are as the service shows them at ``planned_at``; ``needs`` how many other people must
    approve it, and by which rule, and ``approved`` who did.
    """

    profile_id: str
    account: BankAccount
    amount: Decimal
    total: Decimal | None
    asset: str
    fee: Decimal | None
    available: Decimal
    recent: Recent
    allow_duplicate: bool = False
    needs: tuple[int, str] = (0, "")
    approved: Approved | None = None

    def request(
        self, out: str | Path, *, why: str = "", by: str | None = None, expires_after: int = DAY
    ) -> PaymentRequest:
        """Write a request for approval to ``out``, which is never overwritten: the exact bytes to
        be sent, who asks (``by``, the user's name by default), ``why``, until when (ns from now)
        and this card. Sends nothing. Others run ``fundlab approve FILE``; then
        ``submit(approved=FILE)`` of the same plan, made again, sends it."""
        return request_of([self], out, why=why, by=by, expires_after=expires_after)

    def submit(self, confirm: str | None = None, approved: str | Path | None = None) -> Transfer:
        """Carry out exactly this plan, once, as ``Plan.submit`` does; ``approved`` is the file of
        its request, beside which the approvals are. Raises ``ActionRefused`` as well where the
        settings ask for approvals, and there are not enough that hold."""
        plan = self
        if not self.is_submitted:
            (plan,) = with_approvals([self], approved)
            check_approved(plan, self.context.journal, self.recent.today)  # again when recorded
        return Plan.submit(plan, confirm)

    @property
    def all_warnings(self) -> list[str]:
        (needed, rule), approved = self.needs, self.approved
        names = () if approved is None else approved.names
        lacking = f"Other people must approve it first, {needed} of them: {rule}."
        if approved is not None:
            by = f", by {', '.join(names)}" if names else ""
            lacking = f"{len(names)} of {needed} approvals{by}: {rule}."
        return [*super().all_warnings, *[lacking] * (len(names) < needed)]

    def card(self) -> Card:
        card, approved = super().card(), self.approved
        if approved is None or len(approved.names) < max(self.needs[0], 1):
            return card
        row = Row("Approvals", f"approved by {', '.join(approved.names)}")
        return replace(card, rows=(*card.rows, row))

    def look_again(self) -> Recent:
        """Refuses what changed for the worse since the plan; what the service shows now."""
        check_expiry(self.context, self.planned_at)
        now = check_again([self])
        recent = now[0].recent if now else self.recent
        self.note_unchecked(recent)
        return recent

    def note_unchecked(self, recent: Recent) -> None:
        """Say what could not be checked now, and keep it."""
        for line in recent.unchecked(self.context.client, self.arguments):
            self.context.say(f"not checked: {line}")
            if line not in self.unchecked:
                self.unchecked.append(line)

    def look_for_duplicates(self) -> Recent:
        """Of a batch, that was looked at again as a whole: has this one got a duplicate since?"""
        recent = recent_withdrawals(self.context, self.profile_id, self.recent)
        if not self.allow_duplicate:
            arguments = self.arguments
            candidates = duplicate_candidates(self.context, arguments, self.context.journal, recent)
            refuse_duplicates(arguments, candidates)
        self.note_unchecked(recent)
        return recent

    def check_journal(self, book: Journal, seen: Recent | None = None) -> None:
        """Refuses, within the journal's transaction, what own limits do not allow, or what another
        kernel has just confirmed."""
        today = () if seen is None else seen.today
        check_daily_limit([self], book, today)
        check_approved(self, book, today)
        if not self.allow_duplicate:
            candidates = duplicate_candidates(
                self.context, self.arguments, book, seen or self.recent, of_the_service=False
            )
            refuse_duplicates(self.arguments, candidates)

    def look_after(self, entry: Entry, made: Transfer) -> None:
        """Warn of what the service made otherwise than the card showed."""
        context, book = self.context, self.context.journal
        if different := card_differences(self.facts, dict(made)):
            unlike = (
                f"withdrawal {made.id} was accepted, and is not as its card showed it: "
                f"{'; '.join(different)}: ask the service why"
            )
            book.note(entry, "done", made, detail=unlike, known=unlike)
            context.say(unlike)
            warnings.warn(unlike, CardWarning, stacklevel=5)  # at submit()


def plan_withdrawal(
    client: Client,
    *,
    profile_id: str,
    fiat_account_id: str,
    amount: str | Decimal | int | None = None,
    total: str | Decimal | int | None = None,
    asset: str = "USD",
    identity_id: str | None = None,
    account_id: str | None = None,
    memo: str | None = None,
    metadata: Mapping[str, str] | None = None,
    ref_id: str | None = None,
    allow_duplicate: bool = False,
    store: TableStore | str | Path | None = None,
    now: Callable[[], int] | None = None,
    say: Callable[[str], object] | None = None,
) -> WithdrawalPlan:
    """Plan a withdrawal of ``amount`` from a profile to an ``APPROVED`` fiat account (§4.12).

    Or one that takes ``total``, its fee included: give exactly one of the two. Nothing is sent but
    questions. ``ref_id`` names the payment; without it the same arguments are the same payment of
    this user, for ever, whatever the ``store`` (by default that of the client's settings), under
    whose name it is found with ``journal``. ``allow_duplicate`` permits one more payment like one
    of the last 24 hours that was not seen to fail. ``identity_id`` and ``account_id`` name the end
    user of a third-party flow; ``memo`` goes to the bank (at most 100 characters by wire, 40 by
    CUBIX). ``now`` (nanoseconds since 1970) and ``say`` (a line of text) replace the clock and what
    is written under the cell. ``submit`` looks for duplicates before it sends; what could not be
    looked for stands on the card, and in ``unchecked``. Of two programs that pay the same at the
    same moment, ``fl.journal`` and ``fundlab status`` show the other's.

    Raises ``ActionRefused`` with what to do when the payment may not be made as asked,
    ``InvalidRequest`` for an argument the interface does not accept, ``StoreError`` when the store
    belongs to another service, and ``CallError`` as the client does.

    >>> own = [one for one in client.list_fiat_accounts() if not one.identity_id]
    >>> account = next(one for one in own if one.status == "APPROVED")
    >>> plan = fl.plan_withdrawal(
    ...     client, profile_id=sandbox.profile_ids[0], fiat_account_id=account.id, amount="100.00"
    ... )
    >>> transfer = plan.submit(confirm=plan.code)
    >>> str(transfer.status)
    'PENDING'
    """
    context = context_of(client, store, now, say)
    with context.journal.opened() as (book, _):
        plan = plan_one(
            replace(context, journal=book), {}, ref_id=ref_id, allow_duplicate=allow_duplicate,
            more=allow_duplicate, profile_id=profile_id, fiat_account_id=fiat_account_id,
            amount=amount, total=total, asset=asset, identity_id=identity_id,
            account_id=account_id, memo=memo, metadata=metadata,
        )  # fmt: skip
    return replace(plan, context=context)


def plan_one(
    context: Context,
    answers: dict[tuple[str, ...], Any],
    *,
    ref_id: str | None,
    allow_duplicate: bool,
    more: bool,
    **given: Any,
) -> WithdrawalPlan:
    """The plan for a withdrawal as things stand; they are looked at again at submission.

    ``answers`` are those of the service, each asked for once for all payments of a batch. ``more``
    names it as the one more payment like another (see ``new_plan``).
    """
    # an amount that cannot be paid to the cent is refused, never rounded
    for name in ("amount", "total"):
        value = given.get(name)
        if value is None:
            continue
        try:
            exact = Amount(int(value) if isinstance(value, np.integer) else value)
        except ValueError as error:
            reason = str(error).replace("amount", name, 1)  # which names the value, too
            raise InvalidRequest(f"{reason}; nothing was sent") from None
        if fraction_digits(exact) > DECIMALS:
            raise ActionRefused(
                "amount",
                f"{name}={exact.text!r} has {fraction_digits(exact)} decimals, {given['asset']} "
                f"has {DECIMALS}; nothing was sent and nothing is rounded here: round it "
                "yourself, then plan again",
            )
        given[name] = value if isinstance(value, str) else Decimal(exact)

    # which payment is it, was it confirmed before, and what does the service show?
    base = new_plan(context, WITHDRAWAL, ref_id, more=more, **given)
    arguments, earlier = base.arguments, base.earlier
    seen = observe(context, arguments, answers)
    planned_at = context.now()
    if earlier is not None and (
        earlier.state in ("unknown", "absent") or earlier.status == "PENDING"
    ):
        settle(context, earlier)
        earlier = context.journal.find(base.ref_id)

    # all that is known of it, frozen; the facts are what the journal will keep
    account, fee, amount, total = (seen[name] for name in ("account", "fee", "amount", "total"))
    name, how_much = asked(arguments)
    with_fee = " with its fee" if name == "total" else ""
    common = vars(base) | {
        "planned_at": planned_at, "earlier": earlier, "evidence": account.evidence,
        "title": f"Withdraw {money_text(how_much)} {arguments['asset']}{with_fee} to "
        f"{account.owner}",
        "facts": MappingProxyType({
            "account": account.label, "fiat_account_id": account.id,
            "profile_id": arguments["profile_id"],
            "amount": None if fee is None and name == "total" else str(amount),
            "asset": arguments["asset"], "fee": None if fee is None else str(fee),
            "total": None if total is None else str(total),
        }),
    }  # fmt: skip
    plan = WithdrawalPlan(
        **common, **seen, profile_id=arguments["profile_id"], asset=arguments["asset"],
        allow_duplicate=allow_duplicate,
    )  # fmt: skip

    # what is made already, or may be, is shown, and not refused for what it took itself
    candidates = duplicate_candidates(context, arguments, context.journal, plan.recent)
    to_be_sent = not base.elsewhere and (earlier is None or earlier.state in ("refused", "absent"))
    if to_be_sent:
        try:
            check_payable(plan, [] if allow_duplicate else candidates)
            check_daily_limit([plan], context.journal, plan.recent.today)
        except ActionRefused as refusal:
            if earlier is not None:
                check_doubt(earlier, refusal)
            raise
        plan.unchecked.extend(plan.recent.unchecked(context.client, arguments))
    shown, warned = describe(plan, candidates, to_be_sent=to_be_sent)
    if to_be_sent:
        plan = replace(plan, needs=approvals_needed(plan, context.journal, plan.recent.today))
    return replace(plan, rows=shown, warnings=warned)


def observe(
    context: Context,
    arguments: Mapping[str, Any],
    answers: dict[tuple[str, ...], Any],
    before: Recent | None = None,
) -> dict[str, Any]:
    """What the service shows now of a withdrawal's account, balance and profile, and what follows
    for its amounts: fields of its plan."""
    client, asset = context.client, arguments["asset"]
    # one profile, however its id is written
    profile_id, account_id = (arguments[n].casefold() for n in ("profile_id", "fiat_account_id"))
    if ("account", account_id) not in answers:
        shown = client.get_fiat_account(arguments["fiat_account_id"])
        answers["account", account_id] = bank_account(shown)
    if ("available", profile_id, asset) not in answers:
        balance = client.get_profile_balance(profile_id=arguments["profile_id"], asset=asset)
        answers["available", profile_id, asset] = Decimal(balance.available)
    if ("recent", profile_id) not in answers:
        recent = recent_withdrawals(context, arguments["profile_id"], before)
        answers["recent", profile_id] = recent
    account: BankAccount = answers["account", account_id]
    recent = answers["recent", profile_id]
    of_kind = (t for t in recent.transfers if t.type == type_to(account))
    fees = (t.fee for t in of_kind if t.fiat_account_id == account.id)
    fee = next((fee for fee in fees if fee is not None), None)  # of the last one to the account
    name, wanted = asked(arguments)
    amount: Decimal = wanted
    total: Decimal | None = wanted
    if name == "total":
        amount = EXACT.subtract(wanted, fee or Decimal(0))
    else:
        total = None if fee is None else EXACT.add(wanted, fee)
    return {
        "account": account, "available": answers["available", profile_id, asset],
        "recent": recent, "fee": fee, "amount": amount, "total": total,
    }  # fmt: skip


def check_again(
    plans: Sequence[WithdrawalPlan], named: Mapping[str, str] = MappingProxyType({})
) -> list[WithdrawalPlan]:
    """Refuses what changed for the worse since the plans were made; those that are left to be
    paid, as things stand now.

    ``named`` says by its ``ref_id`` which of several plans is meant. More money than before is no
    reason to refuse, and what these plans themselves paid meanwhile, in another kernel say, is no
    change.
    """
    context, book = plans[0].context, plans[0].context.journal
    answers: dict[tuple[str, ...], Any] = {}

    left = []
    for plan in plans:
        entry = book.find(plan.ref_id)
        if entry is not None:
            entry.check_asks(WITHDRAWAL, plan.arguments, context.now())
            if entry.state == "unknown":
                settle(context, entry)
                entry = book.find(plan.ref_id)
        if (entry is None or entry.state != "done") and not plan.is_submitted:
            left.append(plan)

    # A balance that covered one payment twice over is not asked for again: the service refuses, at
    # the moment that counts, what it covers no longer.
    if len(left) == 1 and not context.client.settings.balance_floor:
        plan = left[0]
        if plan.available >= EXACT.add(plan.total or plan.amount, plan.total or plan.amount):
            answers["available", plan.profile_id, plan.asset] = plan.available

    # the others, each against what was shown of it
    current = []
    for plan in left:
        now = replace(plan, **observe(context, plan.arguments, answers, plan.recent))
        try:
            candidates = (
                []
                if plan.allow_duplicate
                else duplicate_candidates(context, plan.arguments, book, now.recent)
            )
            check_payable(now, candidates, since=plan)
        except ActionRefused as refusal:
            if plan.ref_id not in named or refusal.reason == "balance_changed":
                raise
            raise ActionRefused(refusal.reason, f"{named[plan.ref_id]}: {refusal}") from None
        current.append(now)
    return current


def check_payable(
    plan: WithdrawalPlan,
    candidates: Sequence[Candidate],
    *,
    since: WithdrawalPlan | None = None,
) -> None:
    """Refuses what may not be paid as things stand; ``candidates`` are not meant.

    ``since`` is what was shown: refused is another account, another fee or less money than there,
    less what this plan and those with it, if it is not ``alone``, ``paid`` themselves.
    """
    if since is not None:
        check_unchanged(since.account, plan.account)
        if since.fee is not None and plan.fee != since.fee:
            now = "none known" if plan.fee is None else money_text(plan.fee)
            raise ActionRefused(
                "fee_changed",
                f"the last fee to this account has changed since the plan, from "
                f"{money_text(since.fee)} to {now} {plan.asset}; nothing was sent now: "
                f"{_PLAN_AGAIN}",
            )
    arguments, account, fee = plan.arguments, plan.account, plan.fee
    settings, memo = plan.context.client.settings, arguments.get("memo", "")
    name, how_much = asked(arguments)
    if plan.amount <= 0:
        raise ActionRefused(
            "amount",
            f"total={arguments['total']} does not exceed the fee of "
            f"{money_text(fee or Decimal(0))}; nothing was sent: withdraw more",
        )
    if account.network == "CUBIX" and len(memo) > MAX_CUBIX_MEMO:
        raise ActionRefused(
            "memo",
            f"memo has {len(memo)} characters, at most {MAX_CUBIX_MEMO} go to a CUBIX account; "
            "nothing was sent: shorten it",
        )
    # the account: approved, and of the end user who is named
    if account.status != FiatAccountStatus.APPROVED:
        todo = {
            "PENDING": "wait for its review ('fundlab accounts' shows its status), then plan again",
            "REJECTED": "correct it with plan_account_update, or register another account",
        }.get(account.status, "ask the service what that means")
        raise ActionRefused(
            "account_not_approved",
            f"fiat account {account.id} ({account.label}) is {account.status}, not APPROVED; "
            f"nothing was sent: {todo}",
        )
    for kind, of in (("identity", account.identity_id), ("account", account.account_id)):
        given = arguments.get(f"{kind}_id")
        if of and given and of.casefold() != given.casefold():
            raise ActionRefused(
                "end_user",
                f"fiat account {account.id} belongs to {kind} {of}, not to {kind}_id={given!r}; "
                "nothing was sent: pay to an account of that end user",
            )
    # own limits; one by total counts with its total: what its fee will leave is not known before
    limit, allowed = settings.withdrawal_limit, settings.allowed_accounts
    if limit is not None and how_much > limit:
        raise ActionRefused(
            "own_limit",
            f"{name}={how_much} is {money_text(EXACT.subtract(how_much, limit))} above your limit "
            f"of {money_text(limit)} for one withdrawal (setting withdrawal_limit); {_CHANGE}",
        )
    to = arguments["fiat_account_id"].casefold()
    if allowed is not None and to not in {one.casefold() for one in allowed}:
        raise ActionRefused(
            "own_limit",
            f"fiat_account_id={arguments['fiat_account_id']!r} is not one of your {len(allowed)} "
            "allowed accounts (setting allowed_accounts); nothing was sent: pay one of those, or "
            "add it there",
        )
    # the balance, as far as the fee is known
    needed = EXACT.add(plan.amount, fee or Decimal(0))
    missing = EXACT.subtract(needed, plan.available)
    with_fee = f" with its fee of {money_text(fee)}" if fee else ""
    if missing > 0 and since is not None and plan.available < since.available:
        raise ActionRefused(
            "balance_changed",
            f"the available balance of profile {plan.profile_id} has changed since the plan, from "
            f"{money_text(since.available)} to {money_text(plan.available)} {plan.asset}: "
            f"amount={plan.amount}{with_fee} needs {money_text(needed)}; nothing was sent now: "
            f"{_PLAN_AGAIN}",
        )
    if missing > 0:
        raise ActionRefused(
            "insufficient_balance",
            f"amount={money_text(plan.amount)}{with_fee} needs {money_text(needed)} {plan.asset}, "
            f"but profile {with_name(plan.profile_id)} has {money_text(plan.available)} available: "
            f"{money_text(missing)} {plan.asset} are missing; nothing was sent: pay less, or fund "
            "the profile first",
        )
    check_floor([plan], EXACT.subtract(plan.available, needed))
    ref_id = arguments["ref_id"]
    for transfer in plan.recent.transfers:
        theirs = transfer.ref_id or ""
        if theirs != ref_id and theirs.casefold() == ref_id.casefold():
            raise ActionRefused(
                "ref_id",
                f"ref_id={ref_id!r} differs from {theirs!r} of transfer {transfer.id} "
                f"({transfer.status}) in its case only; nothing was sent: give it as it is there "
                "if this payment is meant, or choose another ref_id",
            )
    refuse_duplicates(arguments, candidates)


def check_floor(plans: Sequence[WithdrawalPlan], left: Decimal) -> None:
    """Refuses ``plans`` of one balance, of which there is ``left`` but for fees that are not known,
    if that may be less than the own floor of the asset: with a fee as high as any of late."""
    plan = plans[0]
    floor = own_floor(plan)
    of_late = exact_sum(
        fees[-1] for one in plans if one.total is None and (fees := usual_fees(one))
    )
    least = EXACT.subtract(left, of_late)
    if floor is not None and least < floor:
        with_fee, change = "", _CHANGE
        if of_late:
            with_fee = f"with {money_text(of_late)} of fees, as others had of late, "
            change = "give total= instead of amount=, which the fee is part of; nothing was sent"
        raise ActionRefused(
            "balance_floor",
            f"{with_fee}{money_text(least)} {plan.asset} would be left available in profile "
            f"{plan.profile_id}, less than your floor of {money_text(floor)} (setting "
            f"balance_floor); {change}",
        )


def own_floor(plan: WithdrawalPlan) -> Decimal | None:
    """What is to be left available of its asset, by the settings."""
    return (plan.context.client.settings.balance_floor or {}).get(plan.asset)


def type_to(account: BankAccount) -> str:
    """Of a withdrawal to ``account`` (§4.12); others reached it by another rail, at its fee."""
    return "CUBIX_WITHDRAWAL" if account.network == "CUBIX" else "WIRE_WITHDRAWAL"


def usual_fees(plan: WithdrawalPlan) -> list[Decimal]:
    """The fees of late of withdrawals of its kind, from its profile; in order."""
    kind = type_to(plan.account)
    of_kind = (t.fee for t in plan.recent.transfers if t.type == kind)
    return sorted({one for one in of_kind if one is not None})


def check_daily_limit(
    plans: Sequence[WithdrawalPlan], book: Journal, today: Sequence[Transfer]
) -> None:
    """Refuses what would bring the withdrawals sent on this UTC day above the own daily limit.

    ``today`` are those the service shows: which the journal knows, it counts only once.
    """
    context = plans[0].context
    limit = context.client.settings.daily_withdrawal_limit
    if limit is None:
        return
    before, wanted = withdrawn_today(plans, book, today)
    above = EXACT.subtract(EXACT.add(before, wanted), limit)
    if above > 0:
        seen = chain(today, *(plan.recent.transfers for plan in plans))
        completed = [transfer for transfer in seen if transfer.status == "COMPLETED"]
        ids = {transfer.id for transfer in completed}
        sums = {(transfer.ref_id or "").casefold(): transfer.amount for transfer in completed}
        unasked = [
            entry.ref_id for entry in _sent_today(plans, book, today)
            if not entry.is_settled and entry.resource_id not in ids
            and sums.get(entry.ref_id.casefold()) != entry.amount
        ]  # fmt: skip
        may_have_failed = (
            f"; not known to be settled, and counted: ref_id {listed(unasked)}: 'fundlab resume' "
            "(fl.resume()) asks the service, and what failed counts no more"
        ) * bool(unasked)
        raise ActionRefused(
            "own_limit",
            f"{money_text(wanted)} with the {money_text(before)} already withdrawn today (UTC) is "
            f"{money_text(above)} above your daily limit of {money_text(limit)} (setting "
            f"daily_withdrawal_limit); {_CHANGE}{may_have_failed}",
        )


def withdrawn_today(
    plans: Sequence[WithdrawalPlan], book: Journal, today: Sequence[Transfer]
) -> tuple[Decimal, Decimal]:
    """What others than ``plans`` took on this UTC day, by the journal and ``today``, which the
    service shows; and what ``plans`` would."""
    entries = _sent_today(plans, book, today)
    spent = {entry.resource_id or entry.ref_id: entry.amount for entry in entries}
    names = {plan.ref_id.casefold() for plan in plans}
    names |= {entry.ref_id.casefold() for entry in entries}
    for transfer in today:
        counts = transfer.status != "FAILED" and (transfer.ref_id or "").casefold() not in names
        if counts and transfer.id not in spent:
            spent[transfer.id] = transfer.amount or Decimal(0)
    return exact_sum(spent.values()), exact_sum(asked(plan.arguments)[1] for plan in plans)


def _sent_today(
    plans: Sequence[WithdrawalPlan], book: Journal, today: Sequence[Transfer]
) -> list[Entry]:
    """The journal's of this UTC day, others than ``plans``, less what failed: by the journal, or as
    the service showed for the plans or among ``today``."""
    now, names = plans[0].context.now(), {plan.ref_id.casefold() for plan in plans}
    failed = failed_in(today, *(plan.recent.transfers for plan in plans))
    return [
        entry for entry in book.sent_since(WITHDRAWAL, now - now % DAY)
        if entry.is_live(failed) and entry.ref_id.casefold() not in names
    ]  # fmt: skip


# ------------------------------------------------------------------------------ approvals


def approvals_needed(
    plan: WithdrawalPlan,
    book: Journal,
    today: Sequence[Transfer],
    together: Sequence[WithdrawalPlan] = (),
) -> tuple[int, str]:
    """How many other people must approve ``plan``, and by which rule of the settings; it is to be
    paid ``together`` with others of a batch."""
    settings, (_, how_much) = plan.context.client.settings, asked(plan.arguments)
    limit, daily, new = (
        settings.approval_from, settings.approval_daily_from, settings.approval_new_account
    )  # fmt: skip
    rules = []
    if limit is None and daily is None and not new:
        rules.append("each payment does (setting approvals)")
    if limit is not None and how_much >= limit:
        much, least = money_text(how_much), money_text(limit)
        rules.append(f"{much} is {least} or more (setting approval_from)")
    if daily is not None and settings.approvals:
        total = EXACT.add(*withdrawn_today(together or [plan], book, today))
        if total >= daily:
            rules.append(
                f"today's {money_text(total)} are {money_text(daily)} or more (setting "
                "approval_daily_from)"
            )
    if new and settings.approvals:
        paid = (e for e in book.sent_since(WITHDRAWAL, 0) if e.state == "done")
        if not any(plan.account.id == entry.facts.get("fiat_account_id") for entry in paid):
            rules.append(
                "your journal has no payment to this account (setting approval_new_account)"
            )
    return (settings.approvals, "; ".join(rules)) if rules else (0, "")


def check_approved(
    plan: WithdrawalPlan,
    book: Journal,
    today: Sequence[Transfer],
    together: Sequence[WithdrawalPlan] = (),
) -> None:
    """Refuses a payment that lacks approvals, and says why those that are there do not hold."""
    needed, rule = approvals_needed(plan, book, today, together)
    approved = plan.approved
    if approved is not None:
        approved.request.check_time(plan.context.now())
    names, problems = ((), ()) if approved is None else (approved.names, approved.problems)
    asking = "plan.request(FILE, why=…) or --request FILE, then 'fundlab approve FILE'"
    if approved is not None:
        asking = f"others run: {approved.request.command}"
    if len(names) < needed:
        others = "another person" if needed == 1 else f"{needed} other people"
        have = f"; {', '.join(names)} approved it" if names else ""
        raise ActionRefused(
            "approval",
            f"this withdrawal needs the approval of {others}: {rule}{have}"
            f"{''.join(f'; {line}' for line in problems)}; nothing was sent: {asking}, then "
            "submit(approved=FILE) or --approved FILE",
        )


def with_approvals(
    plans: Sequence[WithdrawalPlan], approved: str | Path | None
) -> list[WithdrawalPlan]:
    """``plans`` with the approvals beside the request ``approved``, which the journal keeps."""
    if approved is None or not plans:
        return [*plans]
    context = plans[0].context
    approvals = approvals_of(read_request(Path(approved)), plans, context.store, context.now())
    return [
        replace(plan, approved=approvals, facts=MappingProxyType({**plan.facts, **approvals.facts}))
        for plan in plans
    ]


def request_of(
    plans: Sequence[WithdrawalPlan],
    out: str | Path,
    *,
    why: str,
    by: str | None,
    expires_after: int,
) -> PaymentRequest:
    """Write the request for ``plans``. Refuses what is submitted already."""
    if not plans:
        raise ActionRefused("approval", "every payment is submitted already; nothing to approve")
    context = plans[0].context
    for plan in plans:
        if plan.is_submitted:
            raise ActionRefused("approval", f"{plan.title}: {plan.status}; nothing to approve")
    return make_request(
        Path(out), [plan.kept()["body"].decode() for plan in plans],
        base_url=context.client.base_url, client_id=context.client.client_id, why=why, by=by,
        now=context.now(), saw=[line for plan in plans for line in repr(plan).splitlines()],
        allow_duplicate=any(plan.allow_duplicate for plan in plans), expires_after=expires_after,
    )  # fmt: skip


def describe(
    plan: WithdrawalPlan, candidates: Sequence[Candidate], *, to_be_sent: bool
) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """What the card of ``plan`` shows: its rows, and what to be warned of."""
    arguments, account, asset, fee = plan.arguments, plan.account, plan.asset, plan.fee
    name, wanted = asked(arguments)
    usual = usual_fees(plan)

    about_amount, about_fee = "", f"as for the last {type_to(account)} to this account"
    if name == "total":
        about_amount = "less the fee" if fee is None else "about: what the fee leaves of the total"
    if fee is None and usual:
        span = f"{usual[0]}" if len(usual) == 1 else f"{usual[0]} to {usual[-1]}"
        about_fee = f"of late {span} {asset}; no {type_to(account)} to this account"
    elif fee is None:
        about_fee = "the service says it when the withdrawal is made"

    sums: list[tuple[str, Decimal | None, str]] = [
        ("Amount", plan.amount, about_amount),
        ("Fee", fee, about_fee),
    ]
    if plan.total is not None:
        sums.append(("Total", plan.total, ""))
    if to_be_sent:
        taken = plan.amount if plan.total is None else plan.total
        left = EXACT.subtract(plan.available, taken)
        sums.append(("Available before", plan.available, ""))
        sums.append(("Available after", left, "less the fee" if plan.total is None else ""))
    else:
        sums.append(("Available now", plan.available, ""))
    rows = [
        Row("From", f"profile {with_name(plan.profile_id)}"),
        Row("To", account.owner, "strong", f"{account.bank} {account.number}"),
        Row("Account", account.id, "faint", f"{account.network} · {account.status}"),
    ]
    for label, value, beside in sums:
        text = "not known" if value is None else f"{money_text(value)} {asset}"
        weight: Literal["plain", "strong"] = "strong" if label in ("Amount", "Total") else "plain"
        rows.append(Row(label, text, weight, beside, money=True))

    warned = [
        f"{candidate.how_much or 'The same amount'} to this account {candidate.text}."
        for candidate in candidates[:MOST_SHOWN]
    ]
    others = [
        t
        for t in plan.recent.within_a_day
        if t.fiat_account_id == account.id and getattr(t, name) != wanted
    ]
    if others:
        shown = ", ".join(
            f"{'not known' if t.amount is None else f'{money_text(t.amount)} {asset}'} ({t.status})"
            for t in others[:MOST_SHOWN]
        )
        more = f" and {len(others) - MOST_SHOWN} more" if len(others) > MOST_SHOWN else ""
        warned.append(f"Also to this account in the last 24 hours: {shown}{more}.")
    if plan.total is None and usual and EXACT.add(plan.amount, usual[-1]) > plan.available:
        warned.append(
            f"A fee of {money_text(usual[-1])} would not be covered: the service may refuse."
        )
    floor = own_floor(plan)
    if plan.total is None and not usual and floor is not None:
        warned.append(
            f"Its fee is not known: less than your floor of {money_text(floor)} may be left. "
            "With total= instead of amount= the fee is part of it."
        )
    for end, of in (("identity", account.identity_id), ("account", account.account_id)):
        given = arguments.get(f"{end}_id")
        if of and not given:
            warned.append(
                f"The account is an end user's ({end} {of}), but the plan names no {end}_id."
            )
        elif given and not of:
            warned.append(
                f"The plan names {end}_id {given}, but the account does not say it is theirs."
            )
    return (*rows, *given_rows(arguments)), tuple(warned)
