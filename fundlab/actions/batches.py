"""``plan_withdrawals``: a table of payments, planned together, submitted one by one, resumable.

Every row is a payment of its own with its own ``ref_id`` and its own intent in the journal, so an
interrupted batch is resumed by running the same cell again: what was submitted is found, the rest
is sent. Nothing is sent unless every row may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from fundlab.actions.batch_card import batch_html, batch_text
from fundlab.actions.batch_rows import RESULT, beside, check_row, check_table, rows_of
from fundlab.actions.clock import shown_time
from fundlab.actions.environment import Environment
from fundlab.actions.identity import confirmation_code, likeness
from fundlab.actions.intents import service_key
from fundlab.actions.kinds import WITHDRAWAL
from fundlab.actions.plan import LAPSES_AFTER, Desk, check_code, check_lapse, open_desk
from fundlab.actions.submission import outcome_of
from fundlab.actions.withdrawals import (
    Reader,
    Total,
    WithdrawalPlan,
    assemble,
    check_again,
    check_sums,
    totals,
    withdrawal_order,
)
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

if TYPE_CHECKING:
    from fundlab.api.client import Client

_PROBLEMS_SHOWN: Final = 10
_BEFORE: Final = "already before"
_OF_ONE_ROW: Final = (ActionRefused, ValidationFailed, InsufficientFunds, NotFound, Conflict)


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
            check_again(self.plans, self._named())
        results = []
        with progress_bar(len(self.plans), "payments", enabled=progress) as bar:
            for number, plan in enumerate(self.plans):
                results.append(self._submitted(plan, number))
                bar.update(1)
        self._announce(results)
        return beside(self.table, results)

    def _named(self) -> dict[str, str]:
        """How a message names each payment, by its ``ref_id``."""
        rows = zip(self.table.index, self.plans, strict=True)
        return {plan.ref_id: f"row {label} (ref_id {plan.ref_id!r})" for label, plan in rows}

    def _submitted(self, plan: WithdrawalPlan, number: int) -> dict[str, Any]:
        """One row's result. All of the batch was checked before the first was sent; that it
        has got no duplicate since is seen for each."""
        said: list[str] = []  # a row's own line would drown the batch's
        sender = replace(self.desk.sender, say=said.append)
        row: dict[str, Any] = dict.fromkeys(RESULT) | {"ref_id": plan.ref_id, _BEFORE: False}
        try:
            transfer = sender.submit(
                plan.order.kind,
                plan.draft(),
                plan.order.arguments,
                recheck=plan.look_again,
                allow=plan.allowed,
                after=plan.noticed,
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
        outcome, intent = outcome_of(transfer), self.desk.journal.find(plan.ref_id)
        return row | {
            "state": "done",
            "detail": None if intent is None else intent.outcome.detail,
            _BEFORE: said[0].startswith("already"),
            "status": outcome.status,
            "transfer_id": outcome.resource_id,
            "fee": outcome.fee,
            "total": outcome.total,
        }

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
    """Plan a table of withdrawals together.

    ``payments`` has the columns ``profile_id``, ``fiat_account_id`` and ``amount`` (text, decimals
    or integers, no floats), and may have ``asset`` (``USD``), ``ref_id``, ``identity_id``,
    ``account_id``, ``memo`` (goes to the bank) and ``metadata``; other columns are left alone.
    Rows alike need a ``ref_id`` each and ``allow_duplicate``. Balances are checked against the sum
    of all rows that are still to be paid.

    Raises ``ActionRefused`` that names every row at fault, ``InvalidRequest`` for a missing column,
    and as ``plan_withdrawal`` does.

    >>> own = [one for one in client.list_fiat_accounts() if not one.identity_id]
    >>> account = next(one for one in own if one.status == "APPROVED")
    >>> payments = pd.DataFrame({"amount": ["310.00", "295.50"]}).assign(
    ...     profile_id=sandbox.profile_ids[0], fiat_account_id=account.id
    ... )
    >>> batch = fl.plan_withdrawals(client, payments)
    >>> batch.submit(confirm=batch.code, progress=False)[["amount", "fee", "total", "state"]]
       amount  fee  total state
    0  310.00    0    310  done
    1  295.50    0  295.5  done
    """
    check_table(payments)
    desk = open_desk(client, store, now, say)
    reader = Reader(desk)
    planned_at = desk.now()
    plans: list[WithdrawalPlan] = []
    problems: list[tuple[Any, str]] = []
    for label, row in zip(payments.index, rows_of(payments), strict=True):
        try:
            check_row(row)
            given = {"asset": "USD"} | dict(row)
            wanted = withdrawal_order(desk, given.pop("ref_id", None), more=False, **given)
            plans.append(assemble(desk, wanted, reader, allow_duplicate=allow_duplicate))
        except (ActionRefused, InvalidRequest, NotFound) as error:
            named = f" (ref_id {row['ref_id']!r})" if "ref_id" in row else ""
            problems.append((f"{label}{named}", str(error)))
    if not problems:
        problems = list(_alike_rows(payments.index, plans, allow_duplicate=allow_duplicate))
    if problems:
        raise _refusal(problems, len(payments))
    to_be_paid = [plan for plan in plans if not plan.is_submitted]
    check_sums(to_be_paid, reader)
    batch = BatchPlan(desk, payments.copy(), tuple(plans), totals(to_be_paid, reader), planned_at)
    return replace(batch, plans=tuple(replace(plan, batch=batch.code) for plan in plans))


def _alike_rows(
    labels: Iterable[Any], plans: Sequence[WithdrawalPlan], *, allow_duplicate: bool
) -> Iterable[tuple[Any, str]]:
    """Rows that are the same payment, or look like it."""
    by_ref_id: dict[str, Any] = {}
    by_likeness: dict[str, Any] = {}
    for label, plan in zip(labels, plans, strict=True):
        alike = likeness("", WITHDRAWAL, plan.order.arguments)
        if plan.ref_id in by_ref_id:
            yield (
                label,
                (
                    f"the same payment as row {by_ref_id[plan.ref_id]}: give each a ref_id of its "
                    "own and pass allow_duplicate=True, or leave one out"
                ),
            )
        elif alike in by_likeness and not allow_duplicate:
            yield (
                label,
                (
                    f"like row {by_likeness[alike]} under another ref_id ({plan.ref_id!r}): pass "
                    "allow_duplicate=True if both are meant"
                ),
            )
        by_ref_id.setdefault(plan.ref_id, label)
        by_likeness.setdefault(alike, label)


def _refusal(problems: Sequence[tuple[Any, str]], rows: int) -> ActionRefused:
    shown = "; ".join(f"row {label}: {problem}" for label, problem in problems[:_PROBLEMS_SHOWN])
    more = len(problems) - _PROBLEMS_SHOWN
    rest = f"; and {more} more" if more > 0 else ""
    return ActionRefused(
        "batch",
        f"{len(problems)} of {rows} payments cannot be made as asked; nothing was sent: correct "
        f"the table, then plan again. {shown}{rest}",
    )
