"""``plan_withdrawal``: everything known about a payment before it is made, frozen and confirmable.

What is wrong is refused while planning, in one sentence that says what to do; what changed between
the plan and its confirmation is refused at submission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fundlab.actions.bank import BankAccount, bank_account, facts_of
from fundlab.actions.cards import Row, Weight, money_text
from fundlab.actions.clock import shown_time
from fundlab.actions.identity import likeness
from fundlab.actions.intents import Intent, Journal, Pages
from fundlab.actions.limits import WITHDRAWAL, check_daily_limit, check_limits
from fundlab.actions.plan import (
    Desk,
    Order,
    Plan,
    check_lapse,
    check_ref_id,
    made_elsewhere,
    open_desk,
    order,
)
from fundlab.actions.recent import WINDOW, Recent, created_ns, recent_withdrawals
from fundlab.errors import ActionRefused, InvalidRequest, shorten
from fundlab.models import FiatAccountStatus, Transfer
from fundlab.store import Store
from fundlab.values import Amount, fraction_digits

if TYPE_CHECKING:
    from fundlab.api.client import Client

DECIMALS: Final = 2
_RECENT_SHOWN: Final = 3


@dataclass(frozen=True)
class Facts:
    """What the service says now about the account, the balance and recent withdrawals."""

    account: BankAccount
    available: Decimal
    recent: Recent


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WithdrawalPlan(Plan[Transfer]):
    """A withdrawal that can be confirmed. Amounts are exact; ``fee`` is ``None`` if not known."""

    profile_id: str
    account: BankAccount
    amount: Amount
    asset: str
    fee: Decimal | None
    available: Decimal
    read: Callable[[], Facts] = field(repr=False)
    allow_duplicate: bool = False

    @property
    def total(self) -> Decimal | None:
        """Amount and fee, where the fee is known."""
        return None if self.fee is None else self.amount + self.fee

    def _recheck(self) -> None:
        check_lapse(self)
        now = self.read()
        self.check_account_unchanged(now.account)
        if now.available < self.available:
            raise ActionRefused(
                "balance_changed",
                f"the available balance has changed since the plan, from {self.available} to "
                f"{now.available} {self.asset}; nothing was sent: run the cell that plans again, "
                "look, and confirm",
            )
        check_facts(self.desk, self.order, now, allow_duplicate=self.allow_duplicate)

    def check_account_unchanged(self, now: BankAccount) -> None:
        """Refuses an account of which anything that matters is no longer as it was shown."""
        if now.evidence != self.account.evidence:
            raise ActionRefused(
                "account_changed",
                f"fiat account {self.account.id} has changed since the plan: it was "
                f"{self.account.label}, it is {now.label}; nothing was sent: ask who "
                "changed it, then run the cell that plans again",
            )

    def allowed(self, pages: Pages) -> None:
        settings, now = self.desk.client.settings, self.desk.now()
        check_daily_limit(settings, pages, [self.amount], [self.ref_id], now)
        if not self.allow_duplicate:
            _refuse_duplicates(self.order, journalled_alike(self.desk, self.order, pages), now)


def plan_withdrawal(
    client: Client,
    *,
    profile_id: str,
    fiat_account_id: str,
    amount: str | Decimal | int,
    asset: str = "USD",
    identity_id: str | None = None,
    account_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
    ref_id: str | None = None,
    allow_duplicate: bool = False,
    store: Store | str | Path | None = None,
    now: Callable[[], int] | None = None,
    say: Callable[[str], object] | None = None,
) -> WithdrawalPlan:
    """Plan a withdrawal of ``amount`` from a profile to an ``APPROVED`` fiat account (§4.12).

    Nothing is sent but questions. ``ref_id`` names the payment; without it the same arguments are
    the same payment, in this ``store`` (by default that of the client's settings), for ever.
    ``allow_duplicate`` permits one more payment like one of the last 24 hours. ``identity_id`` and
    ``account_id`` name the end user of a third-party flow. ``now`` (nanoseconds since 1970) and
    ``say`` (a line of text) replace the clock and the voice.

    Raises ``ActionRefused`` with what to do when the payment may not be made as asked,
    ``InvalidRequest`` for an argument the interface does not accept, ``StoreError`` when the store
    belongs to another service, and ``CallError`` as the client does.
    """
    desk = open_desk(client, store, now, say)
    wanted = withdrawal_order(
        desk, ref_id, more=allow_duplicate, profile_id=profile_id, fiat_account_id=fiat_account_id,
        amount=amount, asset=asset, identity_id=identity_id, account_id=account_id,
        metadata=metadata,
    )  # fmt: skip
    return assemble(desk, wanted, read_facts(desk, wanted), allow_duplicate=allow_duplicate)


def withdrawal_order(
    desk: Desk, ref_id: str | None, *, more: bool, amount: object, asset: str, **given: object
) -> Order:
    """The order for a withdrawal; refuses amounts that cannot be paid to the cent."""
    return order(
        desk, WITHDRAWAL, ref_id, more=more, amount=_to_the_cent(amount, asset), asset=asset,
        **given,
    )  # fmt: skip


def assemble(
    desk: Desk,
    wanted: Order,
    facts: Facts,
    *,
    allow_duplicate: bool,
    batch: str | None = None,
) -> WithdrawalPlan:
    """The plan for ``wanted`` as things stand; they are read again at submission."""
    planned_at = desk.now()
    earlier = _earlier(desk, wanted)
    elsewhere = earlier is None and made_elsewhere(desk, wanted) is not None
    arguments = wanted.arguments
    amount = Amount(arguments["amount"])
    fee = facts.recent.fee(facts.account.id)
    total = None if fee is None else amount + fee
    plan = WithdrawalPlan(
        desk=desk, order=wanted, earlier=earlier, elsewhere=elsewhere,
        planned_at=planned_at, batch=batch,
        title=f"Withdraw {money_text(amount)} {arguments['asset']} to {facts.account.owner}",
        rows=_rows(wanted, facts, fee, settled=elsewhere or bool(earlier and earlier.is_live)),
        warnings=_warnings(desk, wanted, facts, fee),
        evidence=facts.account.evidence,
        facts={
            **facts_of(facts.account), "profile_id": arguments["profile_id"],
            "amount": str(amount), "asset": arguments["asset"],
            "fee": None if fee is None else str(fee),
            "total": None if total is None else str(total),
        },
        profile_id=arguments["profile_id"], account=facts.account, amount=amount,
        asset=arguments["asset"], fee=fee, available=facts.available,
        read=lambda: read_facts(desk, wanted),
        allow_duplicate=allow_duplicate,
    )  # fmt: skip
    check_ref_id(plan)
    if not elsewhere and (earlier is None or earlier.outcome.state == "refused"):
        check_facts(desk, wanted, facts, allow_duplicate=allow_duplicate)
        settings = desk.client.settings
        check_daily_limit(settings, desk.journal, [amount], [wanted.ref_id], planned_at)
    return plan


def read_facts(desk: Desk, wanted: Order) -> Facts:
    """Ask the service."""
    client, arguments = desk.client, wanted.arguments
    profile_id = arguments["profile_id"]
    balance = client.get_profile_balance(profile_id=profile_id, asset=arguments["asset"])
    return Facts(
        bank_account(client.get_fiat_account(arguments["fiat_account_id"])),
        Decimal(balance.available),
        recent_withdrawals(client, profile_id, desk.now()),
    )


def check_facts(desk: Desk, wanted: Order, facts: Facts, *, allow_duplicate: bool) -> None:
    """Refuses what may not be paid as things stand."""
    arguments, account = wanted.arguments, facts.account
    amount = Decimal(arguments["amount"])
    check_account(account, arguments.get("identity_id"))
    check_limits(desk.client.settings, account.id, amount)
    check_balance(arguments["profile_id"], arguments["asset"], facts, amount)
    if not allow_duplicate:
        _refuse_duplicates(wanted, _alike(desk, wanted, facts), desk.now())


def check_account(account: BankAccount, identity_id: str | None) -> None:
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
    if account.identity_id and identity_id and account.identity_id != identity_id:
        raise ActionRefused(
            "end_user",
            f"fiat account {account.id} belongs to identity {account.identity_id}, not to "
            f"identity_id={identity_id!r}; nothing was sent: pay to an account of that end user",
        )


def check_balance(profile_id: str, asset: str, facts: Facts, amount: Decimal) -> None:
    """Refuses what the available balance does not cover, as far as the fee is known."""
    fee = facts.recent.fee(facts.account.id)
    needed = amount + (fee or 0)
    if needed > facts.available:
        with_fee = f" with its fee of {fee}" if fee else ""
        raise ActionRefused(
            "insufficient_balance",
            f"amount={amount}{with_fee} needs {needed} {asset}, but profile {profile_id} has "
            f"{facts.available} available: {needed - facts.available} {asset} are missing; nothing "
            "was sent: pay less, or fund the profile first",
        )


def _to_the_cent(amount: object, asset: str) -> Amount:
    try:
        value = Amount(amount)  # type: ignore[arg-type]
    except ValueError as error:
        raise InvalidRequest(f"amount={shorten(amount)}: {error}; nothing was sent") from None
    if fraction_digits(value) > DECIMALS:
        raise ActionRefused(
            "amount",
            f"amount={value.text!r} has {fraction_digits(value)} decimals, {asset} has {DECIMALS}; "
            "nothing was sent and nothing is rounded here: round it yourself, then plan again",
        )
    return value


def _earlier(desk: Desk, wanted: Order) -> Intent | None:
    """The intent of an earlier run, with its transfer as it stands by now."""
    earlier = desk.journal.find(wanted.ref_id)
    if earlier is None or (earlier.outcome.state, earlier.outcome.status) != ("done", "PENDING"):
        return earlier
    desk.sender.settle(wanted.kind, earlier)
    return desk.journal.find(wanted.ref_id)


# ------------------------------------------------------------------------------- duplicates


@dataclass(frozen=True)
class Alike:
    """An earlier payment like the one that is planned."""

    ref_id: str | None
    at: int
    status: str
    transfer_id: str | None


def _alike(desk: Desk, wanted: Order, facts: Facts) -> list[Alike]:
    arguments = wanted.arguments
    made = facts.recent.alike(
        facts.account.id, Decimal(arguments["amount"]), arguments["asset"], wanted.ref_id
    )
    noted = journalled_alike(desk, wanted, desk.journal)  # these know when it was confirmed
    known = {twin.transfer_id for twin in noted}
    return noted + [
        Alike(t.ref_id, created_ns(t), str(t.status), t.id) for t in made if t.id not in known
    ]


def journalled_alike(desk: Desk, wanted: Order, journal: Journal | Pages) -> list[Alike]:
    """Live intents of the last 24 hours like ``wanted``, as the journal has them."""
    alike = likeness(desk.journal.id, WITHDRAWAL, wanted.arguments)
    intents = journal.alike(alike, desk.now() - WINDOW)
    return [
        Alike(
            intent.ref_id, intent.recorded_at, intent.outcome.status or intent.outcome.state,
            intent.outcome.resource_id,
        )
        for intent in intents
        if intent.is_live and intent.ref_id != wanted.ref_id
    ]  # fmt: skip


def _refuse_duplicates(wanted: Order, alike: list[Alike], now: int) -> None:
    if not alike:
        return
    twin, arguments = alike[0], wanted.arguments
    raise ActionRefused(
        "duplicate",
        f"{arguments['amount']} {arguments['asset']} to this account was submitted "
        f"{shown_time(twin.at, now)} already ({twin.status}, transfer {twin.transfer_id}, ref_id "
        f"{twin.ref_id!r}); nothing was sent: if you mean one more payment, plan it with "
        "allow_duplicate=True (--allow-duplicate)",
    )


# ------------------------------------------------------------------------------- what is shown


def _rows(wanted: Order, facts: Facts, fee: Decimal | None, *, settled: bool) -> tuple[Row, ...]:
    arguments, account = wanted.arguments, facts.account
    asset, amount = arguments["asset"], Amount(arguments["amount"])
    rows = [
        Row("From", f"profile {arguments['profile_id']}"),
        Row("To", account.owner, "strong", f"{account.bank} {account.number}"),
        Row("Account", account.id, "faint", f"{account.network} · {account.status}"),
    ]
    for name, label in (("identity_id", "Identity"), ("account_id", "End user account")):
        if arguments.get(name):
            rows.append(Row(label, arguments[name]))
    rows += [
        Row("Amount", _money(amount, asset), "strong", money=True),
        Row("Fee", *_fee_shown(fee, facts, asset), money=True),
    ]
    if fee is not None:
        rows.append(Row("Total", _money(amount + fee, asset), "strong", money=True))
    if settled:
        rows.append(Row("Available now", _money(facts.available, asset), money=True))
    else:
        left = facts.available - amount - (fee or 0)
        about = "" if fee is not None else "less the fee"
        rows += [
            Row("Available before", _money(facts.available, asset), money=True),
            Row("Available after", _money(left, asset), detail=about, money=True),
        ]
    rows.append(Row("ref_id", wanted.ref_id, "faint"))
    return tuple(rows)


def _fee_shown(fee: Decimal | None, facts: Facts, asset: str) -> tuple[str, Weight, str]:
    if fee is not None:
        return _money(fee, asset), "plain", "as for the last withdrawal to this account"
    usual = _usual_fees(facts)
    if not usual:
        return "not known", "plain", "the service says it when the withdrawal is made"
    span = f"{usual[0]}" if len(usual) == 1 else f"{usual[0]} to {usual[-1]}"
    return "not known", "plain", f"of late {span} {asset}; none to this account yet"


def _usual_fees(facts: Facts) -> list[Decimal]:
    return facts.recent.usual_fees("CUBIX" if facts.account.network == "CUBIX" else "WIRE")


def _warnings(desk: Desk, wanted: Order, facts: Facts, fee: Decimal | None) -> tuple[str, ...]:
    arguments, now = wanted.arguments, desk.now()
    amount, found = Decimal(arguments["amount"]), list[str]()
    for twin in _alike(desk, wanted, facts)[:_RECENT_SHOWN]:
        found.append(
            f"The same amount went to this account {shown_time(twin.at, now)} ({twin.status})."
        )
    others = [t for t in facts.recent.to_account(facts.account.id) if t.amount != amount]
    if others:
        shown = ", ".join(f"{t.amount} ({t.status})" for t in others[:_RECENT_SHOWN])
        more = f" and {len(others) - _RECENT_SHOWN} more" if len(others) > _RECENT_SHOWN else ""
        found.append(f"Also to this account in the last 24 hours: {shown}{more}.")
    if fee is None and _usual_fees(facts):
        most = _usual_fees(facts)[-1]
        if amount + most > facts.available:
            found.append(f"A fee of {most} would not be covered: the service may refuse.")
    if facts.account.identity_id and not arguments.get("identity_id"):
        found.append(
            f"The account is an end user's (identity {facts.account.identity_id}), but the plan "
            "names no identity_id."
        )
    return tuple(found)


def _money(amount: Decimal, asset: str) -> str:
    return f"{money_text(amount)} {asset}"
