"""``plan_withdrawal``: everything known about a payment before it is made, frozen and confirmable.

What is wrong is refused while planning, in one sentence that says what to do; what changed between
the plan and its confirmation is refused at submission.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fundlab.actions.bank import BankAccount, bank_account, check_unchanged
from fundlab.actions.cards import Card, Row, Weight
from fundlab.actions.duplicates import (
    Candidate,
    find_candidates,
    journalled_candidates,
    new_duplicates,
    refuse_duplicates,
)
from fundlab.actions.intents import Intent, Pages, State, check_same_action
from fundlab.actions.kinds import WITHDRAWAL
from fundlab.actions.limits import check_daily_limit, check_limits
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
from fundlab.actions.recent import Recent, asked, recent_withdrawals
from fundlab.errors import ActionRefused, InvalidRequest, shorten
from fundlab.models import MAX_CUBIX_MEMO, FiatAccountStatus, Transfer
from fundlab.store import Store
from fundlab.values import EXACT, Amount, exact_sum, fraction_digits, money_text

if TYPE_CHECKING:
    from fundlab.api.client import Client

DECIMALS: Final = 2
Sums = tuple[Decimal, Decimal | None]
_RECENT_SHOWN: Final = 3
_NOT_MADE: Final[tuple[State, ...]] = ("refused", "absent")


@dataclass(frozen=True)
class Situation:
    """What the service says now about the account, the balance and recent withdrawals."""

    account: BankAccount
    available: Decimal
    recent: Recent

    @property
    def fee(self) -> Decimal | None:
        """What a withdrawal to the account costs, as far as is known."""
        return self.recent.fee(self.account.id)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WithdrawalPlan(Plan[Transfer]):
    """A withdrawal that can be confirmed. Amounts are exact; ``fee`` is ``None`` if not known.

    ``total`` is what leaves the profile, where it is known or was asked for; ``amount`` what
    arrives: of a withdrawal by ``total`` about what ``fee``, the last one to this account, leaves
    of it, and at most that total where no fee is known.
    """

    profile_id: str
    account: BankAccount
    amount: Decimal
    total: Decimal | None
    asset: str
    fee: Decimal | None
    available: Decimal
    allow_duplicate: bool = False

    @property
    def limited(self) -> Decimal:
        """What own limits count of it: the amount, or the total where that is asked for."""
        return asked(self.order.arguments)[1]

    def card(self) -> Card:
        """How it looks; of a payment that is made already, also how to make another."""
        card = super().card()
        if not self.is_submitted:
            return card
        return replace(card, note=f"{card.note} · for one more like it, plan with another ref_id")

    def _recheck(self) -> Recent:
        check_lapse(self)
        return check_again([self]).recent(self.profile_id)

    def look_again(self) -> Recent:
        """What the service shows by now; refuses a payment that has got duplicates meanwhile."""
        recent = recent_withdrawals(self.desk.client, self.profile_id, self.desk.now())
        if not self.allow_duplicate:
            refuse_duplicates(
                self.order, find_candidates(self.desk, self.order, recent), self.desk.now()
            )
        return recent

    def allowed(self, pages: Pages, seen: Recent | None = None) -> None:
        settings, now = self.desk.client.settings, self.desk.now()
        shown = () if seen is None else seen.today
        check_daily_limit(settings, pages, [self.limited], [self.ref_id], now, shown)
        if not self.allow_duplicate:
            refuse_duplicates(self.order, journalled_candidates(self.desk, self.order, pages), now)

    def noticed(self, made: Transfer, seen: Recent) -> str | None:
        after = recent_withdrawals(self.desk.client, self.profile_id, self.desk.now())
        return new_duplicates(self.desk, self.order, made, seen, after)


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
    store: Store | str | Path | None = None,
    now: Callable[[], int] | None = None,
    say: Callable[[str], object] | None = None,
) -> WithdrawalPlan:
    """Plan a withdrawal of ``amount`` from a profile to an ``APPROVED`` fiat account (§4.12).

    Or one that takes ``total``, its fee included: give exactly one of the two. Nothing is sent but
    questions. ``ref_id`` names the payment; without it the same arguments are the same payment of
    this user, for ever, whatever the ``store`` (by default that of the client's settings), under
    whose name it is found with ``journal``. ``allow_duplicate`` permits one more payment like one
    of the last 24 hours. ``identity_id`` and ``account_id`` name the end user of a third-party
    flow; ``memo`` goes to the bank (at most 100 characters by wire, 40 by CUBIX). ``now``
    (nanoseconds since 1970) and ``say`` (a line of text) replace the clock and what is written
    under the cell. ``submit`` looks for duplicates before and after it sends: a payment alike that
    another program made at the same time is a ``DuplicateWarning``, and noted.

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
    desk = open_desk(client, store, now, say)
    wanted = withdrawal_order(
        desk, ref_id, more=allow_duplicate, profile_id=profile_id, fiat_account_id=fiat_account_id,
        amount=amount, total=total, asset=asset, identity_id=identity_id, account_id=account_id,
        memo=memo, metadata=metadata,
    )  # fmt: skip
    return assemble(desk, wanted, Reader(desk), allow_duplicate=allow_duplicate)


def withdrawal_order(
    desk: Desk, ref_id: str | None, *, more: bool, asset: str, amount: object = None,
    total: object = None, **given: object,
) -> Order:  # fmt: skip
    """The order for a withdrawal; refuses amounts that cannot be paid to the cent."""
    how_much = {
        name: _to_the_cent(name, value, asset)
        for name, value in (("amount", amount), ("total", total))
        if value is not None
    }
    return order(desk, WITHDRAWAL, ref_id, more=more, asset=asset, **how_much, **given)


def _amount_and_total(arguments: Mapping[str, Any], fee: Decimal | None) -> Sums:
    """What arrives and what leaves, as far as the fee is known: see ``WithdrawalPlan``."""
    name, wanted = asked(arguments)
    if name == "total":
        return EXACT.subtract(wanted, fee or Decimal(0)), wanted
    return wanted, None if fee is None else EXACT.add(wanted, fee)


def assemble(desk: Desk, wanted: Order, reader: Reader, *, allow_duplicate: bool) -> WithdrawalPlan:
    """The plan for ``wanted`` as things stand; they are read again at submission."""
    situation, planned_at = reader.situation(wanted), desk.now()
    earlier = _earlier(desk, wanted)
    elsewhere = earlier is None and made_elsewhere(desk, wanted) is not None
    to_be_sent = not elsewhere and (earlier is None or earlier.outcome.state in _NOT_MADE)
    arguments, account, fee = wanted.arguments, situation.account, situation.fee
    amount, total = _amount_and_total(arguments, fee)
    candidates = find_candidates(desk, wanted, situation.recent)
    plan = WithdrawalPlan(
        desk=desk, order=wanted, earlier=earlier, elsewhere=elsewhere,
        planned_at=planned_at,
        title=f"Withdraw {_how_much(wanted)} to {account.owner}",
        rows=_rows(wanted, situation, settled=not to_be_sent),
        warnings=_warnings(desk, wanted, situation, candidates),
        evidence=account.evidence,
        facts={
            **account.facts, "profile_id": arguments["profile_id"],
            "amount": None if fee is None and "total" in arguments else str(amount),
            "asset": arguments["asset"], "fee": None if fee is None else str(fee),
            "total": None if total is None else str(total),
        },
        profile_id=arguments["profile_id"], account=account, amount=amount, total=total,
        asset=arguments["asset"], fee=fee, available=situation.available,
        allow_duplicate=allow_duplicate,
    )  # fmt: skip
    check_ref_id(plan)
    if to_be_sent:
        check_situation(desk, wanted, situation, [] if allow_duplicate else candidates)
        with desk.journal.reading() as pages:
            settings, shown = desk.client.settings, situation.recent.today
            check_daily_limit(settings, pages, [plan.limited], [plan.ref_id], planned_at, shown)
    return plan


class Reader:
    """The service's answers, each asked for once."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._accounts: dict[str, BankAccount] = {}
        self._balances: dict[tuple[str, str], Decimal] = {}
        self._recent: dict[str, Recent] = {}

    def situation(self, wanted: Order) -> Situation:
        arguments = wanted.arguments
        return Situation(
            self.account(arguments["fiat_account_id"]),
            self.available(arguments["profile_id"], arguments["asset"]),
            self.recent(arguments["profile_id"]),
        )

    def account(self, account_id: str) -> BankAccount:
        if account_id not in self._accounts:
            self._accounts[account_id] = bank_account(
                self._desk.client.get_fiat_account(account_id)
            )
        return self._accounts[account_id]

    def available(self, profile_id: str, asset: str) -> Decimal:
        key = profile_id, asset
        if key not in self._balances:
            found = self._desk.client.get_profile_balance(profile_id=profile_id, asset=asset)
            self._balances[key] = Decimal(found.available)
        return self._balances[key]

    def recent(self, profile_id: str) -> Recent:
        if profile_id not in self._recent:
            self._recent[profile_id] = recent_withdrawals(
                self._desk.client, profile_id, self._desk.now()
            )
        return self._recent[profile_id]


def check_again(
    plans: Sequence[WithdrawalPlan], named: Mapping[str, str] = MappingProxyType({})
) -> Reader:
    """Refuses what changed for the worse since the plans were made; what the service shows now.

    ``named`` says by its ``ref_id`` which of several plans is meant.

    More money than before is no reason to, and what these plans themselves paid meanwhile, in
    another kernel say, is no change.
    """
    desk = plans[0].desk
    reader = Reader(desk)
    # balances before the journal: what another kernel pays in between then counts as paid
    available = {
        key: reader.available(*key) for key in {(plan.profile_id, plan.asset) for plan in plans}
    }
    paid, left = _paid_since(plans)
    for plan in left:
        key = plan.profile_id, plan.asset
        now = reader.situation(plan.order)
        with _naming(named.get(plan.ref_id)):
            check_unchanged(plan.account, now.account)
            if plan.fee is not None and now.fee != plan.fee:
                raise ActionRefused(
                    "fee_changed",
                    f"the last fee to this account has changed since the plan, from {plan.fee} to "
                    f"{now.fee} {plan.asset}; nothing was sent now: run the cell that plans again, "
                    "look, and confirm",
                )
        if available[key] < EXACT.subtract(plan.available, paid[key]):
            which = f" of profile {plan.profile_id}" if len(plans) > 1 else ""
            raise ActionRefused(
                "balance_changed",
                f"the available balance{which} has changed since the plan, from {plan.available} "
                f"to {available[key]} {plan.asset}; nothing was sent now: run the cell that plans "
                "again, look, and confirm",
            )
        with _naming(named.get(plan.ref_id)):
            candidates = (
                [] if plan.allow_duplicate else find_candidates(desk, plan.order, now.recent)
            )
            check_situation(desk, plan.order, now, candidates)
    check_sums(left, reader)
    return reader


@contextmanager
def _naming(which: str | None) -> Iterator[None]:
    """A refusal within the block says first which of several payments it is about."""
    try:
        yield
    except ActionRefused as refusal:
        if which is None:
            raise
        raise ActionRefused(refusal.reason, f"{which}: {refusal}") from None


def _paid_since(
    plans: Sequence[WithdrawalPlan],
) -> tuple[dict[tuple[str, str], Decimal], list[WithdrawalPlan]]:
    """What the plans' own payments took since they were made, and the plans that are left."""
    paid: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    left = []
    for plan in plans:
        desk = plan.desk
        intent = desk.journal.find(plan.ref_id)
        if intent is not None:
            check_same_action(intent, plan.draft(), desk.now())
            if intent.outcome.state == "unknown":
                desk.sender.settle(plan.order.kind, intent)  # its total holds the fee
                intent = desk.journal.find(plan.ref_id)
        if intent is None or intent.outcome.state != "done":
            if not plan.is_submitted:
                left.append(plan)
            continue
        is_new = not plan.is_submitted or intent.sent_at >= plan.planned_at
        if is_new and intent.is_live and intent.outcome.total is not None:
            key = plan.profile_id, plan.asset
            paid[key] = EXACT.add(paid[key], Decimal(intent.outcome.total))
    return paid, left


@dataclass(frozen=True)
class Total:
    """What payments take from one balance together. ``fees`` are those that are known."""

    profile_id: str
    asset: str
    payments: int
    amount: Decimal
    fees: Decimal
    fees_unknown: int
    available: Decimal

    @property
    def after(self) -> Decimal:
        return EXACT.subtract(self.available, EXACT.add(self.amount, self.fees))


def totals(plans: Sequence[WithdrawalPlan], reader: Reader) -> tuple[Total, ...]:
    """What ``plans`` take from each balance."""
    grouped: dict[tuple[str, str], list[WithdrawalPlan]] = defaultdict(list)
    for plan in plans:
        grouped[plan.profile_id, plan.asset].append(plan)
    return tuple(
        Total(
            profile_id,
            asset,
            payments=len(group),
            amount=exact_sum(plan.amount for plan in group),
            fees=exact_sum(plan.fee or Decimal(0) for plan in group),
            fees_unknown=sum(plan.fee is None for plan in group),
            available=reader.available(profile_id, asset),
        )
        for (profile_id, asset), group in grouped.items()
    )


def check_sums(plans: Sequence[WithdrawalPlan], reader: Reader) -> None:
    """Refuses plans that are one by one in order, but together more than there is or may be."""
    if not plans:
        return
    for total in totals(plans, reader):
        if total.after < 0:
            with_fees = f" with {total.fees} of fees" if total.fees else ""
            needed = EXACT.add(total.amount, total.fees)
            missing = total.after.copy_negate()
            raise ActionRefused(
                "insufficient_balance",
                f"{total.payments} payments of {total.amount}{with_fees} need {needed} "
                f"{total.asset}, but profile {total.profile_id} has {total.available} available: "
                f"{missing} {total.asset} are missing; nothing was sent now: leave some out, or "
                "fund the profile first",
            )
    desk = plans[0].desk
    amounts, ref_ids = [plan.limited for plan in plans], [plan.ref_id for plan in plans]
    shown = reader.recent(plans[0].profile_id).today
    with desk.journal.reading() as pages:
        settings = desk.client.settings
        check_daily_limit(settings, pages, amounts, ref_ids, desk.now(), shown)


def check_situation(
    desk: Desk, wanted: Order, situation: Situation, candidates: Sequence[Candidate]
) -> None:
    """Refuses what may not be paid as things stand; ``candidates`` are not meant."""
    arguments, account = wanted.arguments, situation.account
    amount, _ = _amount_and_total(arguments, situation.fee)
    if amount <= 0:
        raise ActionRefused(
            "amount",
            f"total={arguments['total']} does not exceed the fee of {situation.fee}; nothing was "
            "sent: withdraw more",
        )
    memo = arguments.get("memo", "")
    if account.network == "CUBIX" and len(memo) > MAX_CUBIX_MEMO:
        raise ActionRefused(
            "memo",
            f"memo has {len(memo)} characters, at most {MAX_CUBIX_MEMO} go to a CUBIX account; "
            "nothing was sent: shorten it",
        )
    check_account(account, arguments.get("identity_id"), arguments.get("account_id"))
    check_limits(desk.client.settings, arguments)
    check_balance(arguments["profile_id"], arguments["asset"], situation, amount)
    refuse_duplicates(wanted, candidates, desk.now())


def check_account(account: BankAccount, identity_id: str | None, account_id: str | None) -> None:
    """Refuses an account that is not ``APPROVED``, or that is another end user's."""
    if account.status != FiatAccountStatus.APPROVED:
        todo = {
            "PENDING": "wait for its review with fl.wait_for(client, account), then plan again",
            "REJECTED": "correct it with plan_account_update, or register another account",
        }.get(account.status, "ask the service what that means")
        raise ActionRefused(
            "account_not_approved",
            f"fiat account {account.id} ({account.label}) is {account.status}, not APPROVED; "
            f"nothing was sent: {todo}",
        )
    for name, of, given in (
        ("identity", account.identity_id, identity_id),
        ("account", account.account_id, account_id),
    ):
        if of and given and of != given:
            raise ActionRefused(
                "end_user",
                f"fiat account {account.id} belongs to {name} {of}, not to {name}_id={given!r}; "
                "nothing was sent: pay to an account of that end user",
            )


def check_balance(profile_id: str, asset: str, situation: Situation, amount: Decimal) -> None:
    """Refuses what the available balance does not cover, as far as the fee is known."""
    fee = situation.fee
    needed = EXACT.add(amount, fee or Decimal(0))
    missing = EXACT.subtract(needed, situation.available)
    if missing > 0:
        with_fee = f" with its fee of {fee}" if fee else ""
        raise ActionRefused(
            "insufficient_balance",
            f"amount={amount}{with_fee} needs {needed} {asset}, but profile {profile_id} has "
            f"{situation.available} available: {missing} {asset} are missing; nothing was sent: "
            "pay less, or fund the profile first",
        )


def _to_the_cent(name: str, amount: object, asset: str) -> Amount:
    if isinstance(amount, np.integer):
        amount = int(amount)
    try:
        value = Amount(amount)  # type: ignore[arg-type]
    except ValueError as error:
        raise InvalidRequest(f"{name}={shorten(amount)}: {error}; nothing was sent") from None
    if fraction_digits(value) > DECIMALS:
        raise ActionRefused(
            "amount",
            f"{name}={value.text!r} has {fraction_digits(value)} decimals, {asset} has {DECIMALS}; "
            "nothing was sent and nothing is rounded here: round it yourself, then plan again",
        )
    return value


def _earlier(desk: Desk, wanted: Order) -> Intent | None:
    """The intent of an earlier run, as the service says by now that it stands."""
    earlier = desk.journal.find(wanted.ref_id)
    if earlier is None:
        return None
    outcome = earlier.outcome
    if outcome.state in ("unknown", "absent") or outcome.status == "PENDING":
        desk.sender.settle(wanted.kind, earlier)
        return desk.journal.find(wanted.ref_id)
    return earlier


# ------------------------------------------------------------------------------- what is shown


def _rows(wanted: Order, situation: Situation, *, settled: bool) -> tuple[Row, ...]:
    arguments, account, fee = wanted.arguments, situation.account, situation.fee
    asset, (amount, total) = arguments["asset"], _amount_and_total(arguments, fee)
    of_amount = ""
    if "total" in arguments:
        of_amount = "less the fee" if fee is None else "about: what the fee leaves of the total"
    rows = [
        Row("From", f"profile {arguments['profile_id']}"),
        Row("To", account.owner, "strong", f"{account.bank} {account.number}"),
        Row("Account", account.id, "faint", f"{account.network} · {account.status}"),
        Row("Amount", _money(amount, asset), "strong", of_amount, money=True),
        Row("Fee", *_fee_shown(situation, asset), money=True),
    ]
    if total is not None:
        rows.append(Row("Total", _money(total, asset), "strong", money=True))
    if settled:
        rows.append(Row("Available now", _money(situation.available, asset), money=True))
    else:
        left = EXACT.subtract(situation.available, amount if total is None else total)
        about = "less the fee" if total is None else ""
        rows += [
            Row("Available before", _money(situation.available, asset), money=True),
            Row("Available after", _money(left, asset), detail=about, money=True),
        ]
    return (*rows, *given_rows(arguments))


def _fee_shown(situation: Situation, asset: str) -> tuple[str, Weight, str]:
    if situation.fee is not None:
        return _money(situation.fee, asset), "plain", "as for the last withdrawal to this account"
    usual = _usual_fees(situation)
    if not usual:
        return "not known", "plain", "the service says it when the withdrawal is made"
    span = f"{usual[0]}" if len(usual) == 1 else f"{usual[0]} to {usual[-1]}"
    return "not known", "plain", f"of late {span} {asset}; none to this account yet"


def _usual_fees(situation: Situation) -> list[Decimal]:
    network = "CUBIX" if situation.account.network == "CUBIX" else "WIRE"
    return situation.recent.usual_fees(network)


def _warnings(
    desk: Desk, wanted: Order, situation: Situation, candidates: Sequence[Candidate]
) -> tuple[str, ...]:
    arguments, account, now = wanted.arguments, situation.account, desk.now()
    amount, total = _amount_and_total(arguments, situation.fee)
    found = [
        f"{candidate.how_much or 'The same amount'} to this account {candidate.described(now)}."
        for candidate in candidates[:_RECENT_SHOWN]
    ]
    name, wanted_sum = asked(arguments)
    others = [t for t in situation.recent.to_account(account.id) if getattr(t, name) != wanted_sum]
    if others:
        shown = ", ".join(f"{t.amount} ({t.status})" for t in others[:_RECENT_SHOWN])
        more = f" and {len(others) - _RECENT_SHOWN} more" if len(others) > _RECENT_SHOWN else ""
        found.append(f"Also to this account in the last 24 hours: {shown}{more}.")
    usual = _usual_fees(situation) if total is None else []
    if usual and EXACT.add(amount, usual[-1]) > situation.available:
        found.append(f"A fee of {usual[-1]} would not be covered: the service may refuse.")
    return (*found, *_about_end_users(arguments, account))


def _about_end_users(arguments: Mapping[str, Any], account: BankAccount) -> Iterator[str]:
    """Warnings where the plan and the account do not name the same end user."""
    for name, of in (("identity", account.identity_id), ("account", account.account_id)):
        given = arguments.get(f"{name}_id")
        if of and not given:
            yield (f"The account is an end user's ({name} {of}), but the plan names no {name}_id.")
        elif given and not of:
            yield f"The plan names {name}_id {given}, but the account does not say it is theirs."


def _how_much(wanted: Order) -> str:
    name, how_much = asked(wanted.arguments)
    with_fee = " with its fee" if name == "total" else ""
    return f"{_money(how_much, wanted.arguments['asset'])}{with_fee}"


def _money(amount: Decimal, asset: str) -> str:
    return f"{money_text(amount)} {asset}"
