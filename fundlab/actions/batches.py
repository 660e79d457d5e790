"""``plan_withdrawals``: a table of payments, planned as a whole, submitted one by one, resumable.

Every row is a payment of its own with its own ``ref_id`` and its own intent in the journal, so an
interrupted batch is resumed by running the same cell again: what was submitted is found, the rest
is sent. Nothing is sent unless every row may be.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from fundlab.actions.bank import BankAccount, bank_account, check_unchanged
from fundlab.actions.batch_card import batch_html, batch_text
from fundlab.actions.batch_rows import RESULT, beside, check_row, check_table, rows_of
from fundlab.actions.clock import shown_time
from fundlab.actions.environment import Environment
from fundlab.actions.identity import confirmation_code
from fundlab.actions.intents import check_same_action, service_key
from fundlab.actions.limits import check_daily_limit
from fundlab.actions.plan import LAPSES_AFTER, Desk, Order, check_code, check_lapse, open_desk
from fundlab.actions.recent import Recent, recent_withdrawals
from fundlab.actions.submission import outcome_of
from fundlab.actions.withdrawals import Situation, WithdrawalPlan, assemble, withdrawal_order
from fundlab.errors import (
    ActionRefused,
    Conflict,
    FundlabError,
    InsufficientFunds,
    InvalidRequest,
    NotFound,
    ValidationFailed,
)
from fundlab.progress import progress_bar
from fundlab.store import Store
from fundlab.values import EXACT, exact_sum

if TYPE_CHECKING:
    from fundlab.api.client import Client

_PROBLEMS_SHOWN: Final = 10
_BEFORE: Final = "already before"
_OF_ONE_ROW: Final = (ActionRefused, ValidationFailed, InsufficientFunds, NotFound, Conflict)


@dataclass(frozen=True)
class Total:
    """What a batch takes from one balance. ``fees`` are those that are known."""

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


@dataclass(frozen=True, repr=False, eq=False)
class BatchPlan:
    """Payments that can be confirmed together. ``plans`` are in the order of ``payments``."""

    desk: Desk = field(repr=False)
    table: pd.DataFrame = field(repr=False)
    plans: tuple[WithdrawalPlan, ...]
    totals: tuple[Total, ...]
    planned_at: int

    @property
    def payments(self) -> pd.DataFrame:
        """The table that was planned; a copy."""
        return self.table.copy()

    @property
    def environment(self) -> Environment:
        return self.desk.environment

    @property
    def lapses_at(self) -> int:
        return self.planned_at + LAPSES_AFTER

    @property
    def open_plans(self) -> list[WithdrawalPlan]:
        """Those no earlier run has carried out."""
        return [plan for plan in self.plans if not plan.is_submitted]

    @property
    def code(self) -> str:
        """The confirmation code: of exactly these payments."""
        codes = {plan.ref_id: plan.code for plan in self.plans}
        service = service_key(self.desk.journal.service)
        return confirmation_code(service, "plan_withdrawals", codes, "")

    def submit(self, confirm: str | None = None, progress: bool | None = None) -> pd.DataFrame:
        """Carry out every payment once, in order; the input with what came of each beside it.

        Adds ``ref_id``, ``state`` (as in ``journal``), ``status``, ``transfer_id``, ``fee`` and
        ``total`` (type ``decimal``) and ``detail``. A row that the service refuses does not stop
        the others; a lost connection does, and running the cell again goes on from there. Raises
        ``ActionRefused`` (nothing was sent) and ``CallError`` as the client does.
        """
        check_code(self, confirm)
        if self.open_plans:
            check_lapse(self)
            self._recheck()
        results = []
        with progress_bar(len(self.plans), "payments", enabled=progress) as bar:
            for number, plan in enumerate(self.plans):
                results.append(self._submitted(plan, number))
                bar.update(1)
        self._announce(results)
        return beside(self.table, results)

    def _submitted(self, plan: WithdrawalPlan, number: int) -> dict[str, Any]:
        """One row's result."""
        said: list[str] = []  # a row's own line would drown the batch's
        sender = replace(self.desk.sender, say=said.append)
        row: dict[str, Any] = dict.fromkeys(RESULT) | {"ref_id": plan.ref_id, _BEFORE: False}
        try:
            transfer = sender.submit(
                plan.order.kind,
                plan.draft(),
                plan.order.arguments,
                recheck=lambda: None,  # the batch was looked at as a whole
                allow=plan.allowed,
                elsewhere=plan.order.own_ref_id,
            )
        except _OF_ONE_ROW as error:
            intent = self.desk.journal.find(plan.ref_id)
            own = intent is not None and intent.asks_the_same_as(plan.draft())
            state = intent.outcome.state if intent is not None and own else "refused"
            return row | {"state": state, "detail": str(error)}
        except FundlabError as error:
            error.add_note(
                f"{number} of {len(self.plans)} payments were gone through; run the same cell "
                "again to go on, none is made twice"
            )
            raise
        outcome = outcome_of(transfer)
        return row | {
            "state": "done",
            _BEFORE: said[0].startswith("already"),
            "status": outcome.status,
            "transfer_id": outcome.resource_id,
            "fee": outcome.fee,
            "total": outcome.total,
        }

    def _recheck(self) -> None:
        """Refuses when an account, a balance or a ref_id is no longer what the plan showed."""
        for plan in self.open_plans:
            intent = self.desk.journal.find(plan.ref_id)
            if intent is not None:
                check_same_action(intent, plan.draft(), self.desk.now())
        reader = Reader(self.desk)
        # before the journal is asked: what another kernel pays in between then counts as paid
        balances = [reader.available(total.profile_id, total.asset) for total in self.totals]
        for plan in self.open_plans:
            check_unchanged(plan.account, reader.account(plan.account.id))
        paid = _paid_since(self)
        for total, now in zip(self.totals, balances, strict=True):
            if now < EXACT.subtract(total.available, paid[total.profile_id, total.asset]):
                raise ActionRefused(
                    "balance_changed",
                    f"the available balance of profile {total.profile_id} has changed since the "
                    f"plan, from {total.available} to {now} {total.asset}; nothing was sent: run "
                    "the cell that plans again, look, and confirm",
                )

    def _announce(self, results: Sequence[Mapping[str, Any]]) -> None:
        states = Counter(result["state"] for result in results)
        before = sum(result[_BEFORE] for result in results)
        refused = f", {states['refused']} refused" if states["refused"] else ""
        refused += f", {states['unknown']} unknown" if states["unknown"] else ""
        earlier = f" ({before} of them already before)" if before else ""
        at = shown_time(self.desk.now(), self.desk.now())
        self.desk.say(
            f"{at}: {states['done']} of {len(results)} payments submitted{earlier}{refused}"
        )

    def __repr__(self) -> str:
        return batch_text(self)

    def _repr_html_(self) -> str:
        return batch_html(self)


def plan_withdrawals(
    client: Client,
    payments: pd.DataFrame,
    *,
    allow_duplicate: bool = False,
    store: Store | str | Path | None = None,
    now: Callable[[], int] | None = None,
    say: Callable[[str], object] | None = None,
) -> BatchPlan:
    """Plan a table of withdrawals as a whole.

    ``payments`` has the columns ``profile_id``, ``fiat_account_id`` and ``amount`` (text, decimal
    or whole numbers, no floats), and may have ``asset`` (``USD``), ``ref_id``, ``identity_id``,
    ``account_id`` and ``metadata``; other columns are left alone. Rows alike need a ``ref_id`` each
    and ``allow_duplicate``. Balances are checked against the sum of all rows that are still to be
    paid.

    Raises ``ActionRefused`` that names every row at fault, ``InvalidRequest`` for a missing column,
    and as ``plan_withdrawal`` does.

    >>> account = next(one for one in client.list_fiat_accounts() if one.status == "APPROVED")
    >>> payments = pd.DataFrame({"amount": ["310.00", "295.50"]}).assign(
    ...     profile_id=sandbox.profile_ids[0], fiat_account_id=account.id
    ... )
    >>> batch = fl.plan_withdrawals(client, payments)
    >>> batch.submit(confirm=batch.code, progress=False)[["amount", "fee", "total", "state"]]
       amount  fee  total state
    0  310.00   25    335  done
    1  295.50   25  320.5  done
    """
    check_table(payments)
    desk = open_desk(client, store, now, say)
    reader = Reader(desk)
    planned_at = desk.now()
    plans: list[WithdrawalPlan] = []
    problems: list[tuple[Any, str]] = []
    for label, row in zip(payments.index, rows_of(payments), strict=True):
        try:
            plans.append(_planned(desk, reader, row, allow_duplicate=allow_duplicate))
        except (ActionRefused, InvalidRequest, NotFound) as error:
            problems.append((label, str(error)))
    if not problems:
        problems = list(_alike_rows(payments.index, plans, allow_duplicate=allow_duplicate))
    if problems:
        raise _refusal(problems, len(payments))
    batch = BatchPlan(desk, payments.copy(), tuple(plans), _totals(plans, reader), planned_at)
    _check_sums(batch)
    return replace(batch, plans=tuple(replace(plan, batch=batch.code) for plan in plans))


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


def _planned(
    desk: Desk, reader: Reader, row: Mapping[str, Any], *, allow_duplicate: bool
) -> WithdrawalPlan:
    check_row(row)
    given = {"asset": "USD"} | dict(row)
    wanted = withdrawal_order(desk, given.pop("ref_id", None), more=False, **given)
    return assemble(desk, wanted, reader.situation(wanted), allow_duplicate=allow_duplicate)


def _alike_rows(
    labels: Iterable[Any], plans: Sequence[WithdrawalPlan], *, allow_duplicate: bool
) -> Iterable[tuple[Any, str]]:
    """Rows that are the same payment, or look like it."""
    by_ref_id: dict[str, Any] = {}
    by_likeness: dict[str, Any] = {}
    for label, plan in zip(labels, plans, strict=True):
        likeness = plan.draft().likeness
        if plan.ref_id in by_ref_id:
            yield (
                label,
                (
                    f"the same payment as row {by_ref_id[plan.ref_id]}: give each a ref_id of its "
                    "own and pass allow_duplicate=True, or leave one out"
                ),
            )
        elif likeness in by_likeness and not allow_duplicate:
            yield (
                label,
                (
                    f"like row {by_likeness[likeness]} under another ref_id: pass "
                    "allow_duplicate=True if both are meant"
                ),
            )
        by_ref_id.setdefault(plan.ref_id, label)
        by_likeness.setdefault(likeness, label)


def _refusal(problems: Sequence[tuple[Any, str]], rows: int) -> ActionRefused:
    shown = "; ".join(f"row {label}: {problem}" for label, problem in problems[:_PROBLEMS_SHOWN])
    more = len(problems) - _PROBLEMS_SHOWN
    rest = f"; and {more} more" if more > 0 else ""
    return ActionRefused(
        "batch",
        f"{len(problems)} of {rows} payments cannot be made as asked; nothing was sent: mend the "
        f"table, then plan again. {shown}{rest}",
    )


def _totals(plans: Sequence[WithdrawalPlan], reader: Reader) -> tuple[Total, ...]:
    grouped: dict[tuple[str, str], list[WithdrawalPlan]] = defaultdict(list)
    for plan in plans:
        if not plan.is_submitted:
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


def _check_sums(batch: BatchPlan) -> None:
    for total in batch.totals:
        if total.after < 0:
            with_fees = f" with {total.fees} of fees" if total.fees else ""
            needed = EXACT.add(total.amount, total.fees)
            missing = total.after.copy_negate()
            raise ActionRefused(
                "insufficient_balance",
                f"{total.payments} payments of {total.amount}{with_fees} need {needed} "
                f"{total.asset}, but profile {total.profile_id} has {total.available} available: "
                f"{missing} {total.asset} are missing; nothing was sent: leave some out, or fund "
                "the profile first",
            )
    wanted = batch.open_plans
    with batch.desk.journal.reading() as pages:
        check_daily_limit(
            batch.desk.client.settings,
            pages,
            [plan.amount for plan in wanted],
            [plan.ref_id for plan in wanted],
            batch.planned_at,
        )


def _paid_since(batch: BatchPlan) -> dict[tuple[str, str], Decimal]:
    """What this batch's own payments took since the plan, by another kernel or an earlier try."""
    paid: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    desk = batch.desk
    for plan in batch.plans:
        intent = desk.journal.find(plan.ref_id)
        if intent is not None and intent.outcome.state == "unknown":
            desk.sender.settle(plan.order.kind, intent)  # its total holds the fee
            intent = desk.journal.find(plan.ref_id)
        if intent is None or not intent.is_live or intent.outcome.total is None:
            continue
        if not plan.is_submitted or intent.sent_at >= batch.planned_at:
            key = plan.profile_id, plan.asset
            paid[key] = EXACT.add(paid[key], Decimal(intent.outcome.total))
    return paid
