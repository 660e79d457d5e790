"""``plan_withdrawals``: a table of payments, planned together, submitted one by one, resumable.

Every row is a payment of its own with its own ``ref_id`` and its own intent in the journal, so an
interrupted batch is resumed by running the same cell again: what was submitted is found, the rest
is sent. Nothing is sent unless every row may be.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from fundlab.base.errors import (
    ActionRefused,
    Conflict,
    FundlabError,
    InsufficientFunds,
    InvalidRequest,
    NotFound,
    ValidationFailed,
    a_type,
    shorten,
)
from fundlab.base.exact import EXACT
from fundlab.base.progress import progress_bar
from fundlab.base.values import exact_sum, money_text
from fundlab.decimals import DecimalArray
from fundlab.decimals.scalars import is_missing
from fundlab.display import Card, Cell, Shown, Style, Table
from fundlab.evidence.table_store import TableStore
from fundlab.payments.approvals import PaymentRequest
from fundlab.payments.identity import DAY, NOT_ALIKE, canonical, shown_time
from fundlab.payments.plan import (
    EXPIRES_AFTER,
    Context,
    check_code,
    check_expiry,
    confirmation_code,
    context_of,
    service_card,
)
from fundlab.payments.withdrawals import (
    WithdrawalPlan,
    check_again,
    check_approved,
    check_daily_limit,
    check_floor,
    plan_one,
    request_of,
    with_approvals,
)
from fundlab.settings.labels import labels, names_given

if TYPE_CHECKING:
    from fundlab.client.client import Client

NEEDED: Final = ("profile_id", "fiat_account_id", "amount")
OPTIONAL: Final = ("asset", "ref_id", "identity_id", "account_id", "memo", "metadata")
_OF_ONE: Final = ("total", "allow_duplicate")
"""What ``plan_withdrawal`` takes for one payment and a table does not for each row."""
_RESULT: Final = ("ref_id", "state", "status", "transfer_id", "fee", "total", "detail")
_PROBLEMS_SHOWN: Final = 10
_ROWS_SHOWN: Final = 12


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
    after: Decimal


@dataclass(frozen=True, repr=False, eq=False)
class BatchPlan(Shown):
    """Payments that can be confirmed together. ``plans`` are in the order of ``payments``."""

    context: Context
    table: pd.DataFrame
    plans: tuple[WithdrawalPlan, ...]
    totals: tuple[Total, ...]
    planned_at: int

    @property
    def payments(self) -> pd.DataFrame:
        """The table that was planned; a copy."""
        return self.table.copy()

    @property
    def expires_at(self) -> int:
        return self.planned_at + EXPIRES_AFTER

    @property
    def open_plans(self) -> list[WithdrawalPlan]:
        """Those no earlier run has carried out."""
        return [plan for plan in self.plans if not plan.is_submitted]

    @property
    def code(self) -> str:
        """The confirmation code: of exactly these payments."""
        codes = {plan.ref_id: plan.code for plan in self.plans}
        return confirmation_code(self.context.journal, "plan_withdrawals", codes, "")

    def request(
        self, out: str | Path, *, why: str = "", by: str | None = None, expires_after: int = DAY
    ) -> PaymentRequest:
        """Write one request for the approval of all that is still to be paid, as
        ``WithdrawalPlan.request`` does."""
        return request_of(self.open_plans, out, why=why, by=by, expires_after=expires_after)

    def submit(
        self,
        confirm: str | None = None,
        progress: bool | None = None,
        approved: str | Path | None = None,
    ) -> pd.DataFrame:
        """Carry out every payment once, in order; the input with what came of each beside it.

        Adds ``ref_id``, ``state`` (as in ``journal``), ``status``, ``transfer_id``, ``fee`` and
        ``total`` (type ``decimal``) and ``detail``. A row that the service refuses does not stop
        the others; a lost connection does, and running the cell again goes on from there.
        ``approved`` is the file of the request that others approved. Raises
        ``ActionRefused`` (nothing was sent) and ``CallError`` as the client does.
        """
        context = self.context
        check_code(context, self.code, confirm)
        if self.open_plans:
            check_expiry(context, self.planned_at)
            rows = zip(self.table.index, self.plans, strict=True)
            named = {plan.ref_id: f"row {label} (ref_id {plan.ref_id!r})" for label, plan in rows}
            check_sums(check_again(self.plans, named))
        approvals = {plan.ref_id: plan for plan in with_approvals(self.open_plans, approved)}
        plans = [approvals.get(plan.ref_id, plan) for plan in self.plans]
        for plan in approvals.values():
            check_approved(plan, context.journal, plan.recent.today, self.open_plans)
        results = []
        with progress_bar(len(self.plans), "payments", enabled=progress) as bar:
            for plan in plans:
                try:
                    results.append(submitted(plan))
                except FundlabError as error:
                    error.add_note(
                        f"{len(results)} of {len(self.plans)} payments were gone through; run the "
                        "same cell again to go on, none is made twice"
                    )
                    raise
                bar.update(1)
        states = Counter(result["state"] for result in results)
        before = sum(result["before"] for result in results)
        earlier = f" ({before} of them already before)" if before else ""
        failed = [f", {states[state]} {state}" for state in ("refused", "unknown") if states[state]]
        at = shown_time(context.now(), context.now())
        context.say(
            f"{at}: {states['done']} of {len(results)} payments submitted{earlier}{''.join(failed)}"
        )
        unchecked = [result for result in results if "not checked: " in (result["detail"] or "")]
        if unchecked:
            context.say(f"{len(unchecked)} of them {unchecked[0]['detail']}")
        frame = self.table.copy()
        for name in _RESULT:
            values = [result[name] for result in results]
            if name in ("fee", "total"):
                frame[name] = DecimalArray._from_sequence(values)
            else:
                frame[name] = pd.array(values, dtype="str")
        return frame

    def card(self) -> Card:
        """Totals by profile and asset, then the payments."""
        numbers = ("payments", "amount", "known fees", "available", "after", "fee")

        def table(heads: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> Table:
            columns: list[tuple[str, Style]] = [
                (head, "number" if head in numbers else "text") for head in heads
            ]
            return Table(tuple(columns), tuple(tuple(map(Cell, row)) for row in rows), note=note)

        sums: dict[str, list[Decimal]] = defaultdict(list)
        for plan in self.plans:
            sums[plan.asset].append(plan.amount)
        taken = ", ".join(f"{money_text(exact_sum(sums[asset]))} {asset}" for asset in sums)
        called = labels((plan.profile_id for plan in self.plans), names_given())
        by_balance = [
            (
                called[total.profile_id],
                str(total.payments),
                f"{money_text(total.amount)} {total.asset}",
                f"{money_text(total.fees)} {total.asset}"
                + f" + {total.fees_unknown} unknown" * bool(total.fees_unknown),
                f"{money_text(total.available)} {total.asset}",
                f"{money_text(total.after)} {total.asset}"
                + " less those fees" * bool(total.fees_unknown),
            )
            for total in self.totals
        ]
        # the first columns that are the caller's own, such as an invoice, and its ref_ids
        frame = self.table.head(_ROWS_SHOWN)
        own = [name for name in frame.columns if name not in (*NEEDED, *OPTIONAL)][:2]
        named = [name for name in ("ref_id", "memo") if name in frame.columns]
        payments = []
        for number, (label, plan) in enumerate(zip(frame.index, self.plans, strict=False)):
            payments.append((
                str(label),
                *(_short(str(frame[name].iloc[number])) for name in own),
                *[_short(plan.ref_id)] * ("ref_id" in named),
                called[plan.profile_id],
                plan.account.owner,
                f"{plan.account.bank} {plan.account.number}",
                f"{money_text(plan.amount)} {plan.asset}",
                "not known" if plan.fee is None else f"{money_text(plan.fee)} {plan.asset}",
                *[_short(plan.arguments.get("memo", ""), 40)] * ("memo" in named),
                plan.status or "new",
            ))  # fmt: skip
        heads = (
            "row", *map(str, own), *named[:1] * ("ref_id" in named), "from", "to", "account",
            "amount", "fee", *["memo"] * ("memo" in named), "so far",
        )  # fmt: skip
        more = len(self.plans) - _ROWS_SHOWN
        note = f"and {more:,} more payments, in batch.payments" if more > 0 else ""
        warnings, done = [], len(self.plans) - len(self.open_plans)
        if done:
            warnings.append(
                f"{done} of {len(self.plans)} are already submitted; the rest will be sent."
            )
        warned = [found[0] for plan in self.open_plans if (found := plan.all_warnings)]
        if warned:
            warnings.append(f"{len(warned)} payments have warnings, the first: {warned[0]}")
        until = shown_time(self.expires_at, self.context.now())
        return service_card(
            self.context.client,
            f"Withdraw {taken} in {len(self.plans)} payments",
            tables=(
                table(
                    ("profile", "payments", "amount", "known fees", "available", "after"),
                    by_balance,
                ),
                table(heads, payments, note),
            ),
            warnings=tuple(warnings),
            notes=(f"confirmation code {self.code} · expires {until}",),
        )


def _short(text: str, longest: int = 20) -> str:
    return text if len(text) <= longest else f"{text[: longest - 5]}…{text[-4:]}"


def plan_withdrawals(
    client: Client,
    payments: pd.DataFrame,
    *,
    allow_duplicate: bool = False,
    store: TableStore | str | Path | None = None,
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
    context = context_of(client, store, now, say)
    answers: dict[tuple[str, ...], Any] = {}
    planned_at = context.now()
    plans: list[WithdrawalPlan] = []
    problems: list[tuple[Any, str]] = []
    columns = [name for name in (*NEEDED, *OPTIONAL) if name in payments.columns]
    rows = zip(*(payments[name] for name in columns), strict=True)
    for label, values in zip(payments.index, rows, strict=True):
        row = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in zip(columns, values, strict=True)
            if name in NEEDED or not is_missing(value)
        }
        try:
            check_row(row)
            given = {"asset": "USD", "ref_id": None} | row
            plans.append(
                plan_one(context, answers, allow_duplicate=allow_duplicate, more=False, **given)
            )
        except (ActionRefused, InvalidRequest, NotFound) as error:
            named = f" (ref_id {row['ref_id']!r})" if "ref_id" in row else ""
            problems.append((f"{label}{named}", str(error)))
    if not problems:
        problems = rows_alike(payments.index, plans, allow_duplicate=allow_duplicate)
    if problems:
        shown = "; ".join(f"row {label}: {text}" for label, text in problems[:_PROBLEMS_SHOWN])
        more = len(problems) - _PROBLEMS_SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        raise ActionRefused(
            "batch",
            f"{len(problems)} of {len(payments)} payments cannot be made as asked; nothing was "
            f"sent now: correct the table, then plan again. {shown}{rest}",
        )
    to_be_paid = [plan for plan in plans if not plan.is_submitted]
    check_sums(to_be_paid)
    batch = BatchPlan(context, payments.copy(), tuple(plans), totals(to_be_paid), planned_at)
    return replace(batch, plans=tuple(replace(plan, batch=batch.code) for plan in plans))


def check_row(row: Mapping[str, Any]) -> None:
    """Refuses a row without what a payment needs."""
    for name in NEEDED:
        if is_missing(row[name]):
            raise InvalidRequest(f"{name} is missing")
        if name != "amount" and not isinstance(row[name], str):
            raise InvalidRequest(f"{name}={shorten(row[name])} is not a valid id; give text")


def submitted(plan: WithdrawalPlan) -> dict[str, Any]:
    """What came of one row. All of the batch was checked before the first was sent; that it has
    got no duplicate since is seen for each."""
    said: list[str] = []  # a row's own line would drown the batch's
    quiet = replace(plan, context=replace(plan.context, say=said.append))
    row: dict[str, Any] = dict.fromkeys(_RESULT) | {"ref_id": plan.ref_id, "before": False}
    book = plan.context.journal
    problem, unrecorded = None, "refused"
    try:
        quiet.carry_out(quiet.look_for_duplicates)
    except ActionRefused as error:
        problem = str(error)
        if error.reason == "in_doubt":  # another machine may have made it
            unrecorded = "unknown"
    except (ValidationFailed, InsufficientFunds, NotFound, Conflict) as error:
        if book.find(plan.ref_id) is None:
            raise  # a look ended so, and nothing of the payment was sent: that refuses no payment
        problem = str(error)
    entry = book.find(plan.ref_id)
    if entry is None or not entry.asks(plan.operation, plan.arguments):
        return row | {"state": unrecorded, "detail": problem}
    unchecked = "; ".join(f"not checked: {line}" for line in plan.unchecked)
    return row | {
        "state": entry.state, "status": entry.status, "transfer_id": entry.resource_id,
        "fee": entry.fee, "total": entry.total,
        "detail": problem or entry.detail or unchecked or None,
        "before": any(line.startswith("already") for line in said),
    }  # fmt: skip


def totals(plans: Sequence[WithdrawalPlan]) -> tuple[Total, ...]:
    """What ``plans`` take from each balance."""
    grouped: dict[tuple[str, str], list[WithdrawalPlan]] = defaultdict(list)
    for plan in plans:  # one profile, however its id is written
        grouped[plan.profile_id.casefold(), plan.asset].append(plan)
    sums = []
    for (_, asset), group in grouped.items():
        amount = exact_sum(plan.amount for plan in group)
        fees = exact_sum(plan.fee or Decimal(0) for plan in group)
        available = group[0].available
        sums.append(
            Total(
                group[0].profile_id, asset, payments=len(group), amount=amount, fees=fees,
                fees_unknown=sum(plan.fee is None for plan in group), available=available,
                after=EXACT.subtract(available, EXACT.add(amount, fees)),
            )
        )  # fmt: skip
    return tuple(sums)


def check_sums(plans: Sequence[WithdrawalPlan]) -> None:
    """Refuses plans that are one by one in order, but together more than there is or may be."""
    if not plans:
        return
    for total in totals(plans):
        if total.after < 0:
            with_fees = f" with {money_text(total.fees)} of fees" if total.fees else ""
            raise ActionRefused(
                "insufficient_balance",
                f"{total.payments} payments of {money_text(total.amount)}{with_fees} need "
                f"{money_text(EXACT.add(total.amount, total.fees))} {total.asset}, but profile "
                f"{total.profile_id} has {money_text(total.available)} available: "
                f"{money_text(total.after.copy_negate())} {total.asset} are missing; nothing was "
                "sent now: "
                "leave some out, or fund the profile first",
            )
        balance = (total.profile_id.casefold(), total.asset)
        of_it = [p for p in plans if (p.profile_id.casefold(), p.asset) == balance]
        check_floor(of_it, total.after)
    check_daily_limit(plans, plans[0].context.journal, plans[0].recent.today)


def rows_alike(
    labels: pd.Index[Any], plans: Sequence[WithdrawalPlan], *, allow_duplicate: bool
) -> list[tuple[Any, str]]:
    """Rows that are the same payment, or look like it, and what to do."""
    by_ref_id: dict[str, Any] = {}
    by_arguments: dict[str, Any] = {}
    problems = []
    for label, plan in zip(labels, plans, strict=True):
        wanted = {n: v for n, v in plan.arguments.items() if n not in NOT_ALIKE}
        alike = canonical(wanted)
        name = plan.ref_id.casefold()
        if name in by_ref_id:
            text = (
                f"the same payment as row {by_ref_id[name]}: give each a ref_id of its own "
                "and pass allow_duplicate=True, or leave one out"
            )
            problems.append((label, text))
        elif alike in by_arguments and not allow_duplicate:
            text = (
                f"like row {by_arguments[alike]} under another ref_id ({plan.ref_id!r}): pass "
                "allow_duplicate=True if both are meant"
            )
            problems.append((label, text))
        by_ref_id.setdefault(name, label)
        by_arguments.setdefault(alike, label)
    return problems


def check_table(payments: object) -> None:
    """Refuses what is not a table of payments, naming the column that is missing, or a slip."""
    if not isinstance(payments, pd.DataFrame):
        of = type(payments).__module__.partition(".")[0].removeprefix("builtins")
        raise InvalidRequest(
            f"payments is {a_type(payments, of)}; give a pandas DataFrame with "
            f"{', '.join(NEEDED)} (of another kind of table: its to_pandas())"
        )
    names = [*map(str, payments.columns)]
    for name in _OF_ONE:
        if name in names:
            raise InvalidRequest(
                f"payments has the column {name}, which a table does not take for each row: rename "
                f"or drop it, or pay with plan_withdrawal({name}=…) one by one; nothing was sent"
            )
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise InvalidRequest(
            f"payments lacks {', '.join(missing)}; it has {', '.join(names)}. "
            f"Give {', '.join(NEEDED)}, and {', '.join(OPTIONAL)} if needed"
        )
    for name in (*NEEDED, *OPTIONAL):
        if names.count(name) > 1:
            raise InvalidRequest(
                f"payments has {names.count(name)} columns {name}: leave one; nothing was sent"
            )
    taken = [name for name in names if name in _RESULT and name not in OPTIONAL]
    if taken:
        raise InvalidRequest(
            f"payments has {', '.join(taken)}, where the result puts what came of each payment: "
            "rename or drop them; nothing was sent"
        )
    letters = ["".join(char for char in name.lower() if char.isalpha()) for name in names]
    known = {name.replace("_", ""): name for name in (*NEEDED, *OPTIONAL)}
    for name, spelt in zip(names, letters, strict=True):
        close = get_close_matches(spelt, known, n=1, cutoff=0.92)
        if close and name not in known.values():
            raise InvalidRequest(
                f"payments has the column {name}: did you mean {known[close[0]]}? rename or drop "
                "it; nothing was sent"
            )
    if payments.empty:
        raise InvalidRequest("payments is empty; give one row for each payment")
