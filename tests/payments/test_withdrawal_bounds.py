"""A withdrawal at each of its bounds: limits to the cent, days to the nanosecond, each arm once.

Nobody serves here: plans are made of what the service would have shown.
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from test_plan_bounds import (
    ASKED,
    NOON,
    Book,
    Recording,
    context,
    entry,
    planned,
    refusal,
    service,
    shown,
)

import fundlab as fl
from fundlab.base.errors import InvalidRequest
from fundlab.base.values import Instant
from fundlab.payments import duplicates, withdrawals
from fundlab.payments.duplicates import Candidate, Recent
from fundlab.payments.identity import DAY, SECOND, WITHDRAWAL
from fundlab.payments.plan import BankAccount
from fundlab.payments.withdrawals import WithdrawalPlan
from fundlab.settings.secret import Masked

WIRE = BankAccount("a", "APPROVED", "Ann", "••••1234", "B", "wire", "Ann, B ••••1234")
NOTHING = Recent((), (), (), NOON - DAY)
MIDNIGHT = NOON - DAY // 2
FEES = [shown("x", ref_id="x", fee=fee) for fee in ("3.00", "2.00")]
AS_LAST = "as for the last WIRE_WITHDRAWAL to this account"
UNPAID = {"fee": None, "total": None, "recent": Recent(tuple(FEES), (), (), 0)}


def limits(**more: Any) -> Any:
    none = dict.fromkeys(
        ("withdrawal_limit", "allowed_accounts", "balance_floor", "daily_withdrawal_limit",
         "approval_from", "approval_daily_from")
    )  # fmt: skip
    given = none | {"approvals": 0, "approval_new_account": False, "is_production": True,
                    "lenient_requests": False}  # fmt: skip
    return SimpleNamespace(**given | more)


def a_plan(asked: Any = None, settings: Any = None, book: Any = None, **more: Any) -> Any:
    """Of 5.00 to an account that costs 1.00, from 100.00."""
    arguments = ASKED | {"ref_id": "one"} | (asked or {})
    if "total" in arguments:
        del arguments["amount"]
    where, said = context(service(settings=settings or limits()), book)
    given: dict[str, Any] = {
        "context": where, "body": Masked(json.dumps(arguments)), "profile_id": "p",
        "account": WIRE, "amount": Decimal("5.00"), "total": Decimal("6.00"), "asset": "USD",
        "fee": Decimal("1.00"), "available": Decimal("100.00"), "recent": NOTHING,
    } | more  # fmt: skip
    base = {name: value for name, value in vars(planned()).items() if name not in given}
    made = WithdrawalPlan(**base, **given)
    object.__setattr__(made, "said", said)
    return made


def cents(*texts: str | None) -> Any:
    return tuple(None if text is None else Decimal(text) for text in texts)


# ------------------------------------------------------------------------- what may be paid


@pytest.mark.parametrize(
    ("asked", "settings", "more", "reason", "said"),
    [
        ({}, {}, {}, None, ""),
        ({"total": "1.00"}, {}, {"amount": Decimal(0)}, "amount",
         "total=1.00 does not exceed the fee of 1.00; nothing"),
        ({"total": "1.00"}, {}, {"amount": Decimal(0), "fee": None}, "amount", "fee of 0.00;"),
        ({"total": "1.01"}, {}, {"amount": Decimal("0.01")}, None, ""),
        ({"memo": "x" * 41}, {}, {}, None, ""),
        ({"memo": "x" * 40}, {}, {"account": replace(WIRE, network="CUBIX")}, None, ""),
        ({"memo": "x" * 41}, {}, {"account": replace(WIRE, network="CUBIX")}, "memo",
         "memo has 41 characters, at most 40 go"),
        ({}, {}, {"account": replace(WIRE, status="PENDING")}, "account_not_approved",
         "fiat account a (Ann, B ••••1234) is PENDING, not APPROVED; nothing was sent: wait for"),
        ({}, {}, {"account": replace(WIRE, status="REJECTED")}, "account_not_approved",
         "correct it with plan_account_update"),
        ({}, {}, {"account": replace(WIRE, status="ODD")}, "account_not_approved",
         "nothing was sent: ask the service what that means"),
        ({"identity_id": "i"}, {}, {"account": replace(WIRE, identity_id="i")}, None, ""),
        ({"identity_id": "k"}, {}, {}, None, ""),
        ({}, {}, {"account": replace(WIRE, identity_id="i")}, None, ""),
        ({"identity_id": "k"}, {}, {"account": replace(WIRE, identity_id="i")}, "end_user",
         "belongs to identity i, not to identity_id='k'"),
        ({"account_id": "k"}, {}, {"account": replace(WIRE, account_id="i")}, "end_user",
         "belongs to account i, not to account_id='k'"),
        ({"account_id": "K"}, {}, {"account": replace(WIRE, account_id="k")}, None, ""),
        ({}, {"withdrawal_limit": Decimal("5.00")}, {}, None, ""),
        ({}, {"withdrawal_limit": Decimal("4.99")}, {}, "own_limit",
         "amount=5.00 is 0.01 above your limit of 4.99 for one withdrawal"),
        ({"total": "6.00"}, {"withdrawal_limit": Decimal("5.99")}, {}, "own_limit",
         "total=6.00 is 0.01 above"),
        ({}, {"allowed_accounts": ("b", "a")}, {}, None, ""),
        ({}, {"allowed_accounts": ("b", "A")}, {}, None, ""),
        ({}, {"allowed_accounts": ("b", "c")}, {}, "own_limit",
         "fiat_account_id='a' is not one of your 2 allowed accounts"),
        ({}, {}, {"available": Decimal("6.00")}, None, ""),
        ({}, {}, {"available": Decimal("5.99")}, "insufficient_balance",
         "amount=5.00 with its fee of 1.00 needs 6.00 USD, but profile p has 5.99 available: 0.01"),
        ({}, {}, {"available": Decimal("5.00"), "fee": None}, None, ""),
        ({}, {}, {"available": Decimal("4.99"), "fee": None}, "insufficient_balance",
         "amount=5.00 needs 5.00 USD"),
        ({}, {"balance_floor": {"USD": Decimal("94.00")}}, {}, None, ""),
        ({}, {"balance_floor": {"EUR": Decimal("99.00")}}, {}, None, ""),
        ({}, {"balance_floor": {"USD": Decimal("95.00")}}, {"fee": None, "total": None}, None, ""),
        ({}, {"balance_floor": {"USD": Decimal("95.01")}}, {"fee": None, "total": None},
         "balance_floor", "95.00 USD would be left available in profile p"),
        ({}, {"balance_floor": {"USD": Decimal("92.00")}}, UNPAID, None, ""),
        ({}, {"balance_floor": {"USD": Decimal("92.01")}}, UNPAID, "balance_floor",
         "with 3.00 of fees, as others had of late, 92.00 USD would be left available in "
         "profile p, less than your floor of 92.01 (setting balance_floor); give total= instead "
         "of amount="),
        ({}, {"balance_floor": {"USD": Decimal("94.01")}}, {}, "balance_floor",
         "94.00 USD would be left available in profile p, less than your floor of 94.01"),
        ({}, {}, {"recent": Recent((shown("t-2", ref_id="ONE"),), (), (), 0)}, "ref_id",
         "ref_id='one' differs from 'ONE' of transfer t-2 (PENDING) in its case only"),
        ({}, {}, {"recent": Recent((shown(), shown(ref_id=None), shown(ref_id="two")), (), (), 0)},
         None, ""),
    ],
)  # fmt: skip
def test_what_may_be_paid(
    asked: Any, settings: Any, more: Any, reason: str | None, said: str
) -> None:
    one = a_plan(asked, limits(**settings), **more)
    if reason is None:
        withdrawals.check_payable(one, [])
    else:
        found = refusal(lambda: withdrawals.check_payable(one, []))
        assert (found[0], said in found[1]) == (reason, True), found[1]
    duplicate = Candidate("done", "t", None, "was submitted")
    if reason is None:
        assert refusal(lambda: withdrawals.check_payable(one, [duplicate]))[0] == "duplicate"


@pytest.mark.parametrize(
    ("before", "now", "reason", "said"),
    [
        ({}, {}, None, ""),
        ({}, {"fee": Decimal("1.01")}, "fee_changed", "since the plan, from 1.00 to 1.01 USD;"),
        ({}, {"fee": None}, "fee_changed", "since the plan, from 1.00 to none known USD;"),
        ({"fee": None}, {"fee": Decimal("1.01")}, None, ""),
        ({}, {"available": Decimal("5.99")}, "balance_changed",
         "from 100.00 to 5.99 USD: amount=5.00 with its fee of 1.00 needs 6.00; nothing"),
        ({"available": Decimal("5.99")}, {"available": Decimal("5.99")}, "insufficient_balance",
         "0.01 USD are missing"),
        ({"available": Decimal("5.98")}, {"available": Decimal("5.99")}, "insufficient_balance",
         "0.01 USD are missing"),
        ({}, {"available": Decimal("6.00")}, None, ""),
        ({}, {"account": replace(WIRE, details=Masked('{"id": "b"}'))}, "account_changed", ""),
    ],
)  # fmt: skip
def test_what_may_have_changed_since_the_plan(
    before: Any, now: Any, reason: str | None, said: str
) -> None:
    since, one = a_plan(**before), a_plan(**now)
    if reason is None:
        withdrawals.check_payable(one, [], since=since)
    else:
        found = refusal(lambda: withdrawals.check_payable(one, [], since=since))
        assert (found[0], said in found[1]) == (reason, True), found[1]


# ------------------------------------------------------------------------- limits of a day


class Sent(Book):
    """A journal of ``sent``; the moments since which it is asked for are kept."""

    def __init__(self, *sent: Any) -> None:
        super().__init__()
        self.sent, self.asked = sent, list[int]()

    def sent_since(self, operation: str, since: int) -> list[Any]:
        assert operation == WITHDRAWAL
        self.asked.append(since)
        return [*self.sent]


def paid(ref_id: str, amount: str, **more: Any) -> Any:
    body = json.dumps(ASKED | {"ref_id": ref_id, "amount": amount}).encode()
    return entry(ref_id=ref_id, body=body, **{"state": "done", "status": "PENDING"} | more)


def test_what_was_withdrawn_today_counts_each_payment_once() -> None:
    book = Sent(
        paid("a", "1.00", resource_id="t-a"), paid("b", "2.00", state="unknown"),
        paid("c", "4.00", state="refused"), paid("d", "8.00", status="FAILED"),
        paid("ONE", "16.00"),  # this very plan
        paid("g", "128.00", resource_id="t-g"), paid("h", "256.00", resource_id="t-h"),
    )  # fmt: skip
    today = [
        shown("t-a", ref_id=None, amount="1.00"), shown("x", ref_id="A"), shown("y", ref_id="B"),
        shown("z", ref_id="one"), shown("f", ref_id="f", amount="32.00", status="FAILED"),
        shown("n", ref_id=None, amount="64.00"), shown("m", ref_id="m", amount=None),
        shown("t-g", ref_id="g", status="FAILED"),  # as the service shows by now
    ]  # fmt: skip
    other = a_plan({"ref_id": "two", "total": "7.00"}, ref_id="two")
    one = a_plan(recent=Recent((shown("t-h", ref_id="h", status="FAILED"),), (), (), 0))
    assert withdrawals.withdrawn_today([one, other], book, today) == cents("67.00", "12.00")
    assert book.asked == [MIDNIGHT]


@pytest.mark.parametrize(("limit", "above"), [(None, None), ("8.00", None), ("7.99", "0.01")])
def test_a_daily_limit_to_the_cent(limit: str | None, above: str | None) -> None:
    (daily,) = cents(limit)
    one = a_plan(settings=limits(daily_withdrawal_limit=daily))
    book, today = Sent(paid("a", "1.00")), [shown("t", ref_id="b", amount="2.00")]
    if above is None:
        withdrawals.check_daily_limit([one], book, today)
        return
    reason, said = refusal(lambda: withdrawals.check_daily_limit([one], book, today))
    assert reason == "own_limit"
    assert f"5.00 with the 3.00 already withdrawn today (UTC) is {above} above your daily" in said
    assert said.endswith(
        "; not known to be settled, and counted: ref_id a: 'fundlab resume' (fl.resume()) asks the "
        "service, and what failed counts no more"
    )
    book = Sent(paid("a", "1.00", status="COMPLETED"))
    said = refusal(lambda: withdrawals.check_daily_limit([one], book, today))[1]
    assert said.endswith("or change the setting")
    book = Sent(paid("a", "1.00", resource_id="t-a"), paid("c", "1.00", resource_id="t-c"))
    done = {"ref_id": None, "amount": "1.00", "status": "COMPLETED"}
    one = replace(one, recent=Recent((shown("t-c", **done),), (), (), 0))
    today = [shown("t-a", **done), shown("t", ref_id="b", amount="1.00")]
    said = refusal(lambda: withdrawals.check_daily_limit([one], book, today))[1]
    assert "5.00 with the 3.00 already withdrawn" in said
    assert said.endswith("or change the setting")
    book = Sent(paid("A", "3.00", state="unknown"), paid("c", "1.00", state="unknown"))
    today = [shown("t", ref_id="a", amount="3.00", status="COMPLETED"), shown("u", ref_id="c")]
    said = refusal(lambda: withdrawals.check_daily_limit([one], book, today))[1]
    assert "and counted: ref_id c: 'fundlab resume'" in said  # the other is known by its name
    book = Sent(paid("a", "3.50", state="unknown"))  # by total: asking brings what its fee was
    said = refusal(lambda: withdrawals.check_daily_limit([one], book, today))[1]
    assert "and counted: ref_id a: 'fundlab resume'" in said


# ------------------------------------------------------------------------------- approvals


EACH = "each payment does (setting approvals)"
FROM = "5.00 is 5.00 or more (setting approval_from)"
DAILY = "today's 6.00 are 6.00 or more (setting approval_daily_from)"
NEW = "your journal has no payment to this account (setting approval_new_account)"


@pytest.mark.parametrize(
    ("settings", "known", "rules"),
    [
        ({}, "a", [EACH]),
        ({"approval_from": Decimal("5.00")}, "a", [FROM]),
        ({"approval_from": Decimal("5.01")}, "a", []),
        ({"approval_daily_from": Decimal("6.00")}, "a", [DAILY]),
        ({"approval_daily_from": Decimal("6.01")}, "a", []),
        ({"approval_new_account": True}, "a", []),
        ({"approval_new_account": True}, "b", [NEW]),
        ({"approval_from": Decimal("5.01"), "approval_new_account": True}, "b", [NEW]),
        ({"approval_from": Decimal("5.00"), "approval_daily_from": Decimal("6.00"),
          "approval_new_account": True}, "b", [FROM, DAILY, NEW]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("approvals", [0, 2])
def test_which_rule_asks_for_approvals(
    settings: Any, known: str, rules: list[str], approvals: int
) -> None:
    one = a_plan(settings=limits(approvals=approvals, **settings))
    book = Sent(paid("w", "0.00", facts={"fiat_account_id": "c"}),
                paid("x", "1.00", facts={"fiat_account_id": known}),
                paid("y", "9.00", facts={"fiat_account_id": "a"}, state="refused"))  # fmt: skip
    needed, rule = withdrawals.approvals_needed(one, book, [])
    if approvals:
        assert (needed, rule) == ((2, "; ".join(rules)) if rules else (0, ""))
        assert sorted(book.asked) == [0] * ("approval_new_account" in settings) + [MIDNIGHT] * (
            "approval_daily_from" in settings
        )
    else:
        assert needed == 0
        assert book.asked == []


def test_a_batch_counts_together_for_the_day() -> None:
    one = a_plan(settings=limits(approvals=1, approval_daily_from=Decimal("10.00")))
    other = a_plan({"ref_id": "two"}, ref_id="two")
    assert withdrawals.approvals_needed(one, Sent(), []) == (0, "")
    assert withdrawals.approvals_needed(one, Sent(), [], [one, other])[0] == 1


@pytest.mark.parametrize(("status", "needed"), [("PENDING", 1), ("COMPLETED", 1), ("FAILED", 0)])
def test_what_the_service_shows_as_failed_asks_for_no_approvals(status: str, needed: int) -> None:
    one = a_plan(settings=limits(approvals=1, approval_daily_from=Decimal("6.00")))
    book = Sent(paid("a", "1.00", resource_id="t-a"))
    today = [shown("t-a", ref_id="a", amount="1.00", status=status)]
    assert withdrawals.approvals_needed(one, book, today)[0] == needed


class Approvals(SimpleNamespace):
    """Those ``names`` that hold, and why others do not."""

    def __init__(self, *names: str, problems: tuple[str, ...] = ()) -> None:
        self.times: list[int] = []
        request = SimpleNamespace(command="fundlab approve F", check_time=self.times.append)
        super().__init__(names=names, problems=problems, request=request)


@pytest.mark.parametrize(
    ("needed", "approved", "said"),
    [
        (0, None, None),
        (1, None, f"needs the approval of another person: {EACH}; nothing was sent: plan.request("),
        (2, None, f"needs the approval of 2 other people: {EACH}; nothing was sent: plan.request("),
        (2, ("Bo",), f"2 other people: {EACH}; Bo approved it; late; nothing was sent: others run: "
         "fundlab approve F, then submit("),
        (1, ("Bo",), None),
        (1, (), f"another person: {EACH}; late; nothing was sent: others run: fundlab approve F"),
    ],
)  # fmt: skip
def test_approvals_that_lack(needed: int, approved: Any, said: str | None) -> None:
    approvals = None if approved is None else Approvals(*approved, problems=("late",))
    one = a_plan(settings=limits(approvals=needed), approved=approvals, needs=(needed, EACH))
    if said is None:
        withdrawals.check_approved(one, Sent(), [])
    else:
        reason, text = refusal(lambda: withdrawals.check_approved(one, Sent(), []))
        assert (reason, said in text) == ("approval", True), text
    assert approvals is None or approvals.times == [NOON]
    lacking = needed > len(approved or ())
    by = ", by Bo" if approved else ""
    line = f"Other people must approve it first, {needed} of them: {EACH}."
    if approved is not None:
        line = f"{len(approved)} of {needed} approvals{by}: {EACH}."
    assert one.all_warnings == [line] * lacking
    rows = [row.value for row in one.card().rows if row.label == "Approvals"]
    assert rows == ["approved by Bo"] * (approved == ("Bo",) and needed == 1)


def test_a_request_is_not_made_of_what_is_submitted(tmp_path: Any) -> None:
    done = a_plan(earlier=entry(state="done", status="PENDING"), title="T")
    reason, said = refusal(
        lambda: withdrawals.request_of(
            [a_plan(), done], tmp_path / "r.json", why="", by=None, expires_after=DAY
        )
    )
    assert reason == "approval"
    assert said == "T: already submitted 12:00 UTC, PENDING; nothing to approve"
    assert withdrawals.with_approvals([done], None) == [done]
    assert withdrawals.with_approvals([], "missing.json") == []


# ---------------------------------------------------------------------- what the card shows


def row(transfer_id: str, **more: Any) -> Any:
    return shown(transfer_id, **{"ref_id": transfer_id} | more)


@pytest.mark.parametrize(
    ("asked", "more", "to_be_sent", "sums"),
    [
        ({}, {}, True, {"Amount": ("5.00 USD", ""), "Fee": (
            "1.00 USD", AS_LAST), "Total": ("6.00 USD", ""),
            "Available before": ("100.00 USD", ""), "Available after": ("94.00 USD", "")}),
        ({}, {}, False, {"Amount": ("5.00 USD", ""), "Fee": (
            "1.00 USD", AS_LAST), "Total": ("6.00 USD", ""),
            "Available now": ("100.00 USD", "")}),
        ({}, {"fee": None, "total": None}, True, {"Amount": ("5.00 USD", ""), "Fee": (
            "not known", "the service says it when the withdrawal is made"),
            "Available before": ("100.00 USD", ""),
            "Available after": ("95.00 USD", "less the fee")}),
        ({"total": "6.00"}, {}, False, {"Amount": (
            "5.00 USD", "about: what the fee leaves of the total"), "Fee": (
            "1.00 USD", AS_LAST), "Total": ("6.00 USD", ""),
            "Available now": ("100.00 USD", "")}),
        ({"total": "6.00"}, {"fee": None, "amount": Decimal("6.00")}, False, {"Amount": (
            "6.00 USD", "less the fee"), "Fee": (
            "not known", "the service says it when the withdrawal is made"),
            "Total": ("6.00 USD", ""), "Available now": ("100.00 USD", "")}),
    ],
)  # fmt: skip
def test_the_sums_of_a_card(asked: Any, more: Any, to_be_sent: bool, sums: Any) -> None:
    rows, warned = withdrawals.describe(a_plan(asked, **more), [], to_be_sent=to_be_sent)
    assert {one.label: (one.value, one.detail) for one in rows if one.money} == sums
    assert {one.label for one in rows if one.weight == "strong"} == {"To", "Amount", "Total"} & {
        one.label for one in rows
    }
    assert [(one.label, one.value) for one in rows if not one.money] == [
        ("From", "profile p"), ("To", "Ann"), ("Account", "a"), ("ref_id", "one"),
    ]  # fmt: skip
    assert warned == ()


@pytest.mark.parametrize(
    ("network", "fees", "said"),
    [
        ("wire", ["2", None, "2"], "of late 2 USD; no WIRE_WITHDRAWAL to this account"),
        ("wire", ["3", "2", "4"], "of late 2 to 4 USD; no WIRE_WITHDRAWAL to this account"),
        ("wire", [None], "the service says it when the withdrawal is made"),
        ("CUBIX", ["2"], "of late 9 USD; no CUBIX_WITHDRAWAL to this account"),
    ],
)
def test_the_fees_of_late_are_of_its_kind(network: str, fees: list[Any], said: str) -> None:
    seen = [row(f"t-{n}", fee=fee, total=None) for n, fee in enumerate(fees)]
    seen.append(row("c", type="CUBIX_WITHDRAWAL", fee="9"))
    one = a_plan(
        account=replace(WIRE, network=network), fee=None, total=None,
        recent=Recent((*seen,), (), (), 0),
    )  # fmt: skip
    rows, _ = withdrawals.describe(one, [], to_be_sent=True)
    assert next(each.detail for each in rows if each.label == "Fee") == said


@pytest.mark.parametrize(("available", "warned"), [("8.00", False), ("7.99", True)])
def test_a_usual_fee_that_would_not_be_covered(available: str, warned: bool) -> None:
    recent = Recent((row("t", fee="2"), row("u", fee="3"), row("v", fee="1")), (), (), 0)
    said = "A fee of 3.00 would not be covered: the service may refuse."
    one = a_plan(fee=None, total=None, available=Decimal(available), recent=recent)
    assert withdrawals.describe(one, [], to_be_sent=True)[1] == (said,) * warned
    known = a_plan(available=Decimal(available), recent=recent)
    assert withdrawals.describe(known, [], to_be_sent=True)[1] == ()


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ({"fee": None, "total": None}, True),
        ({"fee": None, "total": None, "recent": UNPAID["recent"]}, False),
        ({"fee": None}, False),
        ({}, False),
    ],
)
def test_a_floor_is_spoken_of_where_no_fee_is_known(more: Any, warned: bool) -> None:
    """A fee of late is counted with, and one that is part of the total is covered."""
    said = (
        "Its fee is not known: less than your floor of 90.00 may be left. With total= instead of "
        "amount= the fee is part of it."
    )
    floor = {"balance_floor": {"USD": Decimal("90.00")}}
    one = a_plan(settings=limits(**floor), **more)
    assert withdrawals.describe(one, [], to_be_sent=True)[1] == (said,) * warned
    bare = a_plan(**more)
    assert withdrawals.describe(bare, [], to_be_sent=True)[1] == ()


@pytest.mark.parametrize(("count", "more"), [(0, None), (3, ""), (4, " and 1 more")])
def test_others_to_the_account_of_the_last_day(count: int, more: str | None) -> None:
    others = [row(f"t-{n}", amount=None if n == 1 else f"{n + 1}.00") for n in range(count)]
    aside = [row("same"), row("else", amount="9.00", fiat_account_id="b")]
    one = a_plan(recent=Recent((), (*aside, *others), (), 0))
    said = "Also to this account in the last 24 hours: 1.00 USD (PENDING), not known (PENDING), "
    assert withdrawals.describe(one, [], to_be_sent=True)[1] == (
        () if more is None else (f"{said}3.00 USD (PENDING){more}.",)
    )


@pytest.mark.parametrize("end", ["identity", "account"])
@pytest.mark.parametrize(
    ("theirs", "given", "said"),
    [
        (None, None, ()),
        ("i", "i", ()),
        ("i", None, ("The account is an end user's ({} i), but the plan names no {}_id.",)),
        (None, "i", ("The plan names {}_id i, but the account does not say it is theirs.",)),
    ],
)  # fmt: skip
def test_whose_account_it_is(end: str, theirs: Any, given: Any, said: Any) -> None:
    account = replace(WIRE, **{f"{end}_id": theirs})
    one = a_plan({f"{end}_id": given} if given else {}, account=account)
    warned = withdrawals.describe(one, [], to_be_sent=True)[1]
    assert warned == tuple(line.replace("{}", end) for line in said)


def test_candidates_are_warned_of_where_they_are_allowed() -> None:
    seen = [Candidate("done", f"t-{n}", "total=6" if n else None, f"was {n}") for n in range(4)]
    assert withdrawals.describe(a_plan(), seen, to_be_sent=True)[1] == (
        "The same amount to this account was 0.", "total=6 to this account was 1.",
        "total=6 to this account was 2.",
    )  # fmt: skip


# --------------------------------------------------------------------- what the service shows


def asking(*rows: Any, available: str = "100.00", **settings: Any) -> tuple[Any, list[str]]:
    """A service whose account, balance and list can be asked for; what was asked for."""
    asked: list[str] = []
    account = fl.models.FiatAccount.model_validate({"id": "a", "status": "APPROVED"})

    def balance(**given: Any) -> Any:
        asked.append(f"balance {given['profile_id']} {given['asset']}")
        return SimpleNamespace(available=available)

    def listed(**given: Any) -> Any:
        asked.append("list")
        return [*rows]

    client = service(
        *rows, get_fiat_account=lambda id_: asked.append(f"account {id_}") or account,
        get_profile_balance=balance, list_transfers=listed, settings=limits(**settings),
        transport=SimpleNamespace(skew_s=0.0, service_ns=lambda ns: ns),
    )  # fmt: skip
    return client, asked


@pytest.mark.parametrize(
    ("asked", "rows", "sums"),  # fee, amount, total
    [
        ({}, [], (None, "5.00", None)),
        ({}, [row("t", fee=None), row("u", fee="2"), row("v", fee="3")], ("2", "5.00", "7.00")),
        ({}, [row("t", fee="2", fiat_account_id="b")], (None, "5.00", None)),
        ({"total": "6.00"}, [], (None, "6.00", "6.00")),
        ({"total": "6.00"}, [row("t", fee="2")], ("2", "4.00", "6.00")),
        # what went there by another rail, at its own fee, says nothing of a wire's
        (
            {},
            [row("t", type="BANK_WITHDRAWAL", fee="0.50"), row("u", fee="2")],
            ("2", "5.00", "7.00"),
        ),
        *(
            (
                {name: "6.00"},
                [row("t", type=f"{rail}_WITHDRAWAL", fee="0.50")],
                (None, "6.00", "6.00" if name == "total" else None),
            )
            for rail in ("BANK", "SEN", "SIGNET", "CBIT", "CUBIX")
            for name in ("amount", "total")
        ),
    ],
)
def test_what_follows_from_the_last_fee(asked: Any, rows: Any, sums: Any) -> None:
    client, questions = asking(*rows)
    answers: dict[Any, Any] = {}
    for _ in range(2):  # the second time all is known
        found = withdrawals.observe(context(client)[0], ASKED | asked, answers)
        assert (found["fee"], found["amount"], found["total"]) == cents(*sums)
        assert questions == ["account a", "balance p USD", "list"]
    assert found["available"] == Decimal("100.00")


def second_look(
    *plans: Any, rows: Any = (), available: str = "100.00", book: Any = None, named: Any = None,
    **settings: Any
) -> tuple[Any, list[str]]:  # fmt: skip
    client, asked = asking(*rows, available=available, **settings)
    where, _ = context(client, book or Looked())
    account = withdrawals.bank_account(client.get_fiat_account("a"))
    asked.clear()
    again = [replace(one, context=where, account=account) for one in plans]
    return withdrawals.check_again(again, named or {}), asked


class Looked(Book):
    """A journal without payments alike."""

    def alike(self, operation: str, arguments: Any, since: int) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("before", "settings", "asked"),
    [
        ("12.00", {}, False),  # twice what it takes
        ("11.99", {}, True),
        ("12.00", {"balance_floor": {"USD": Decimal(1)}}, True),
    ],
)
def test_a_balance_that_covers_it_twice_is_not_asked_for_again(
    before: str, settings: Any, asked: bool
) -> None:
    fee = [row("t", fee="1", amount="3.00")]
    one = a_plan(available=Decimal(before))
    (left,), questions = second_look(one, rows=fee, **settings)
    assert ("balance p USD" in questions) is asked
    assert left.available == Decimal("100.00" if asked else before)
    by_amount = a_plan(available=Decimal(before), total=None, amount=Decimal("6.00"))
    assert ("balance p USD" in second_look(by_amount, rows=fee, **settings)[1]) is asked
    two = a_plan({"ref_id": "two"}, ref_id="two", available=Decimal(before))
    assert "balance p USD" in second_look(one, two, rows=fee, **settings)[1]


@pytest.mark.parametrize(
    ("state", "rows", "left"),
    [
        (None, [], True),
        ("refused", [], True),
        ("absent", [], True),
        ("unknown", [], True),
        ("unknown", [shown()], False),  # settled before it is looked at
        ("done", [shown()], False),
    ],
)
def test_what_is_left_to_be_paid(
    state: Any, rows: Any, left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = None if state is None else entry(state=state, status=None, resource_id="t-1")
    book = Looked(*[known] * bool(known))

    def settle(where: Any, of: Any) -> None:
        book.known["one"] = replace(of, state="done" if rows else "absent")

    monkeypatch.setattr(withdrawals, "settle", settle)
    plans, _ = second_look(a_plan(), rows=[row("t", fee="1", amount="3.00")], book=book)
    assert len(plans) == left
    if known is not None:
        another = a_plan({"amount": "6.00"})
        assert refusal(lambda: second_look(another, book=book))[0] == "ref_id"
    submitted = a_plan(elsewhere=True)
    assert second_look(submitted, book=Looked())[0] == []
    assert second_look(submitted, book=book)[0] == []


def test_a_refusal_of_several_names_the_row() -> None:
    one, named, others = a_plan(), {"one": "row 3"}, [row("t", fee="1", amount="3.00")]
    for more, starts in [
        ({"available": "1.00", "named": None}, "the available balance"),
        ({"available": "1.00", "named": named}, "the available balance"),
        ({"withdrawal_limit": Decimal(1), "named": named}, "row 3: amount=5.00 is 4.00 above"),
        ({"withdrawal_limit": Decimal(1), "named": None}, "amount=5.00 is 4.00 above"),
    ]:
        before = replace(one, available=Decimal("7.00"))
        said = refusal(lambda more=more, b=before: second_look(b, rows=others, **more))[1]
        assert said.startswith(starts)
    alike = [row("t", fee="1")]
    assert refusal(lambda: second_look(one, rows=alike))[0] == "duplicate"
    (left,), _ = second_look(replace(one, allow_duplicate=True), rows=alike)
    assert left.ref_id == "one"


def test_what_could_not_be_checked_is_said_each_time_and_kept_once() -> None:
    one = a_plan()
    unclear = Recent((), (), (), 0, ("clocks",))
    one.note_unchecked(unclear)
    one.note_unchecked(unclear)
    assert (one.said, one.unchecked) == (["not checked: clocks"] * 2, ["clocks"])


# -------------------------------------------------------------------------------- planning


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"amount": "5.01"}, {"amount": "5.01"}),
        ({"amount": Decimal("5.0")}, {"amount": "5.0"}),
        ({"amount": 5}, {"amount": "5"}),
        ({"total": "6.10"}, {"total": "6.10"}),
        ({"amount": "5.001"}, "amount='5.001' has 3 decimals, USD has 2; nothing was sent and"),
        ({"total": Decimal("6.001")}, "total='6.001' has 3 decimals"),
        ({"total": "amount"}, "total"),
    ],
)
def test_an_amount_is_of_whole_cents(given: Any, kept: Any) -> None:
    client, _ = asking()
    where, _ = context(client, Looked())
    rest = {name: value for name, value in ASKED.items() if name != "amount"}

    def make() -> Any:
        return withdrawals.plan_one(
            where, {}, ref_id=None, allow_duplicate=False, more=False, **rest, **given
        )

    if isinstance(kept, dict):
        found = {name: value for name, value in make().arguments.items() if name not in rest}
        assert {name: value for name, value in found.items() if name != "ref_id"} == kept
    elif kept == "total":
        with pytest.raises(InvalidRequest, match=r"total.*'amount'.*nothing was sent"):
            make()
    else:
        reason, said = refusal(make)
        assert (reason, kept in said) == ("amount", True)


@pytest.mark.parametrize(
    ("state", "status", "settled", "sent", "refused"),
    [
        (None, None, False, True, True),
        ("refused", None, False, True, True),
        ("absent", None, True, True, True),
        ("unknown", None, True, False, False),
        ("done", "PENDING", True, False, False),
        ("done", "COMPLETED", False, False, False),
    ],
)
def test_what_is_made_or_may_be_is_shown_and_not_refused(
    state: Any, status: Any, settled: bool, sent: bool, refused: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A limit of 1.00 refuses what is to be sent, and nothing that was sent."""
    known = state and entry(state=state, status=status, resource_id="t")
    calls: list[Any] = []
    monkeypatch.setattr(withdrawals, "settle", lambda *given: calls.append(given[1]))
    for limit in (None, Decimal("1.00")):
        client, _ = asking(withdrawal_limit=limit, approvals=2, is_production=False)
        where, _ = context(client, Looked(*[known] * bool(known)))

        def make(where: Any = where) -> Any:
            return withdrawals.plan_one(
                where, {}, ref_id=known and "one", allow_duplicate=False, more=False, **ASKED
            )

        if limit is not None and refused:
            before = {None: "amount=5.00 is 4.00", "refused": "this withdrawal was sent before",
                      "absent": "this withdrawal may have been sent before"}  # fmt: skip
            assert refusal(make)[1].startswith(before[state])
            continue
        one = make()
        assert one.needs == ((2, EACH) if sent else (0, ""))
        assert ("Available after" in {each.label for each in one.rows}) is sent
        assert (one.planned_at, one.title) == (NOON, "Withdraw 5.00 USD to owner not shown")
        assert one.facts == {
            "account": "owner not shown, bank not shown", "fiat_account_id": "a", "profile_id": "p",
            "amount": "5.00", "asset": "USD", "fee": None, "total": None,
        }  # fmt: skip
    assert calls == [known] * 2 * settled


def test_a_plan_is_refused_by_the_limit_of_a_day() -> None:
    where, _ = context(asking(daily_withdrawal_limit=Decimal("4.99"))[0], Kept())
    given: dict[str, Any] = {"ref_id": None, "allow_duplicate": False, "more": False, **ASKED}
    said = refusal(lambda: withdrawals.plan_one(where, {}, **given))[1]
    assert "0.01 above your daily limit of 4.99" in said
    client, _ = asking()
    for skew_s, lines in ((300.0, 0), (301.0, 1)):
        client.transport.skew_s = skew_s
        where, _ = context(client, Kept())
        assert len(withdrawals.plan_one(where, {}, **given).unchecked) == lines


def test_what_a_plan_by_total_keeps_of_its_amounts() -> None:
    rest = {name: value for name, value in ASKED.items() if name != "amount"}
    paid_before = row("t", fee="2", amount="3", total="5")
    for rows, amount, fee in [([], None, None), ([paid_before], "4.00", "2")]:
        where, _ = context(asking(*rows)[0], Looked())
        one = withdrawals.plan_one(
            where, {}, ref_id=None, allow_duplicate=False, more=False, **rest, total="6.00"
        )
        assert one.title == "Withdraw 6.00 USD with its fee to owner not shown"
        assert [one.facts[name] for name in ("amount", "fee", "total")] == [amount, fee, "6.00"]


# ------------------------------------------------------------------------------ duplicates


def candidates(
    asked: Any, *known: Any, recent: Any = NOTHING, now: int = NOON
) -> list[tuple[Any, ...]]:
    book = SimpleNamespace(alike=lambda operation, arguments, since: [
        one for one in known if one.sent_at >= since
    ])  # fmt: skip
    arguments = ASKED | {"ref_id": "one"} | asked
    if "total" in asked:
        del arguments["amount"]
    where, _ = context(now=now)
    return [
        (one.state, one.transfer_id, one.how_much, one.text)
        for one in duplicates.duplicate_candidates(where, arguments, book, recent)
    ]


def other(asked: Any = None, **more: Any) -> Any:
    arguments = ASKED | {"ref_id": "two"} | (asked or {})
    if "total" in arguments:
        del arguments["amount"]
    return entry(ref_id=more.pop("ref_id", "two"), body=json.dumps(arguments).encode(), **more)


@pytest.mark.parametrize(
    ("asked", "theirs", "more", "how_much"),
    [
        ({}, {}, {}, None),
        ({}, {"amount": "5"}, {}, None),
        ({}, {"amount": "5.01"}, {}, False),
        ({}, {"memo": "x", "metadata": {"a": "b"}}, {}, None),
        ({}, {"identity_id": "i"}, {}, False),
        ({}, {}, {"ref_id": "ONE"}, False),
        ({}, {}, {"state": "refused"}, False),
        ({}, {"total": "5.00"}, {}, "total=5.00 USD, maybe the same payment,"),
        ({}, {"total": "4.99"}, {}, False),
        ({}, {"total": "6.00"}, {"fee": "1.00"}, "total=6.00 USD, maybe the same payment,"),
        ({}, {"total": "6.00"}, {"fee": "0.99"}, False),
        ({"total": "5.00"}, {}, {}, "amount=5.00 USD, maybe the same payment,"),
        ({"total": "4.99"}, {}, {}, False),
        ({"total": "6.00"}, {}, {"fee": "1.00"}, "amount=5.00 USD, maybe the same payment,"),
        ({"total": "6.00"}, {"total": "6.00"}, {"fee": "1.00"}, None),
        ({}, {}, {"sent_at": NOON - DAY}, None),
        ({}, {}, {"sent_at": NOON - DAY - 1}, False),
    ],
)  # fmt: skip
def test_which_entries_may_be_the_same_payment(
    asked: Any, theirs: Any, more: Any, how_much: Any
) -> None:
    found = candidates(asked, other(theirs, **more))
    assert [one[2] for one in found] == ([] if how_much is False else [how_much])


@pytest.mark.parametrize(
    ("state", "transfer", "counts"),
    [
        ("done", {"status": "FAILED"}, False), ("done", {"status": "PENDING"}, True),
        ("done", {"status": "COMPLETED"}, True), ("done", {"status": "FAILED", "id_": "u"}, True),
        ("unknown", {"status": "FAILED"}, True), ("absent", {"status": "FAILED"}, True),
    ],
)  # fmt: skip
def test_what_the_service_shows_as_failed_holds_up_nothing(
    state: Any, transfer: Any, counts: bool
) -> None:
    """Of a payment in doubt it says nothing; the answer is looked at when planned, looked at again
    and recorded."""
    known = other(state=state, status="PENDING", resource_id="t")
    seen = Recent((shown(**{"id_": "t", "ref_id": "two"} | transfer),), (), (), 0)
    assert [one[0] for one in candidates({}, known, recent=seen)] == [state] * counts
    for one, look in ((ready(plan={"recent": seen})[0], None), (ready()[0], seen)):
        book = Kept(alike=[known])
        if counts:
            said = refusal(lambda one=one, book=book, look=look: one.check_journal(book, look))
            assert said[0] == "duplicate"
        else:
            one.check_journal(book, look)


def test_what_is_said_of_a_candidate_and_which_comes_first() -> None:
    done = other(state="done", status="PENDING", resource_id="t-2", sent_at=NOON - DAY)
    found = candidates(
        {}, other({"total": "6.00"}), other(state="absent"), done,
        recent=Recent((), (row("t-2"), row("t-3", created_at=None), row("t-4")), (), 0),
    )  # fmt: skip
    assert [one[3] for one in found] == [
        "was confirmed 12:00 UTC under ref_id 'two', not sent so far; running its own cell again "
        "sends it",
        "was submitted 2025-11-20 12:00 UTC already (PENDING, transfer t-2, ref_id 'two')",
        "was confirmed 12:00 UTC under ref_id 'two', its outcome is unknown; fl.resume() settles "
        "it",
        "was submitted at a time not shown already (PENDING, transfer t-3, ref_id 't-3')",
        "was submitted 12:00 UTC already (PENDING, transfer t-4, ref_id 't-4')",
    ]
    assert [one[:2] for one in found[3:]] == [("done", "t-3"), ("done", "t-4")]


@pytest.mark.parametrize(
    ("states", "said", "advice"),
    [
        ([], None, ""),
        (["done"], "5.00 USD to this account 0;", "if you mean one more payment, plan it"),
        (["done", "unknown"], "5.00 USD to this account 1;", "settle that first, then plan again"),
    ],
)
def test_a_candidate_refuses(states: list[Any], said: str | None, advice: str) -> None:
    seen = [Candidate(state, None, None, str(n)) for n, state in enumerate(states)]
    if said is None:
        duplicates.refuse_duplicates(ASKED, seen)
        return
    reason, text = refusal(lambda: duplicates.refuse_duplicates(ASKED, seen))
    assert reason == "duplicate"
    assert text.startswith(said)
    assert f"nothing was sent: {advice}" in text


def test_which_recent_ones_ask_for_the_same() -> None:
    arguments = ASKED | {"ref_id": "one"}
    rows = [
        row("own", ref_id="ONE"), row("same"), row("none", ref_id=None), row("dear", amount="5.01"),
        row("unclear", direction=None), row("else", fiat_account_id="b"),
        row("added", identity_id="i"),
    ]  # fmt: skip
    recent = Recent((), (*rows,), (), 0)
    assert [one.id for one in recent.alike(arguments)] == ["same", "none", "added"]
    assert [one.id for one in recent.alike(arguments, "unknown")] == ["unclear"]
    by_total = {"total": "6.00", **{k: v for k, v in arguments.items() if k != "amount"}}
    assert duplicates.alike(by_total, row("t")) == "yes"
    assert duplicates.alike(by_total, row("t", total="6.01")) == "no"


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5])
@pytest.mark.parametrize("hidden", [False, True])
def test_of_a_few_that_are_unclear_each_is_asked_for(count: int, hidden: bool) -> None:
    rows = [row(f"t-{n}", direction=None) for n in range(count)]
    asked: list[str] = []

    def get(id_: str) -> Any:
        asked.append(id_)
        return row(id_, direction=None) if hidden else row(id_, amount="7.00")

    recent = Recent((), (*rows,), (), 0, ("clocks",))
    lines = recent.unchecked(service(get_transfer=get), ASKED | {"ref_id": "one"})
    named = [f"t-{n}" for n in range(count)][:4] if hidden else [f"t-{n}" for n in range(3, count)]
    assert lines[0] == "clocks"
    assert [line.split()[2] for line in lines[1:]] == named[: 4 if hidden else 1]
    assert asked == [f"t-{n}" for n in range(min(count, 3))]


def recent_of(
    newest: Any, since: Any = (), today: Any = (), *, before: Any = None, skew_s: float = 0.0,
    now: int = NOON, **settings: Any
) -> tuple[Recent, list[dict[str, Any]]]:  # fmt: skip
    questions: list[dict[str, Any]] = []

    def listed(**given: Any) -> Any:
        questions.append(given)
        if given["profile_ids"] is None:
            return [*today]
        return [*(since if "created_at_gte" in given else newest)]

    ahead = round(skew_s * SECOND)
    client = service(
        list_transfers=listed, settings=limits(**settings),
        transport=SimpleNamespace(skew_s=skew_s, service_ns=lambda ns: ns + ahead),
    )  # fmt: skip
    found = duplicates.recent_withdrawals(context(client, now=now)[0], "p", before)
    return found, questions


def at(ns: int, **more: Any) -> Any:
    return row(f"t-{ns}", created_at=str(Instant.from_ns(ns)), **more)


def test_which_are_of_the_last_24_hours() -> None:
    since = NOON - DAY
    rows = [at(NOON), at(since + 1, status="FAILED"), at(since), at(since - 1),
            row("none", created_at=None)]  # fmt: skip
    found, questions = recent_of(rows)
    assert [one.id for one in found.within_a_day] == [rows[0].id, rows[2].id, "none"]
    assert (found.since, found.transfers, found.today, len(questions)) == (since, (*rows,), (), 1)
    assert questions[0]["page_size"] == questions[0]["max_rows"] == 25
    kinds = {*questions[0]["type"]}
    assert kinds > {"CUBIX_WITHDRAWAL", "WIRE_WITHDRAWAL"}
    assert not {"CRYPTO_WITHDRAWAL", "WIRE_DEPOSIT", "INTERNAL_TRANSFER_DEBIT"} & kinds
    for skew_s, bound in [(-300.0, since - 300 * SECOND), (300.0, since)]:
        found, _ = recent_of([], skew_s=skew_s)
        assert (found.since, found.trouble) == (bound, ())
    for skew_s in (300.5, -300.5):
        found, _ = recent_of([], skew_s=skew_s)
        assert found.trouble == (
            "duplicates and limits by one clock: this machine's and the service's are 300 s apart",
        )


@pytest.mark.parametrize(
    ("count", "oldest", "order", "asks"),
    [
        (24, NOON - 24, "DESC", 1),  # all there are
        (25, NOON - 25, "DESC", 2),
        (25, NOON - DAY, "DESC", 2),  # one more may be of the same instant
        (25, NOON - DAY - 1, "DESC", 1),
        (25, NOON - DAY - 1, "ASC", 2),
        (25, None, "DESC", 2),
        (25, NOON - DAY - 1, "HIDDEN", 2),  # what one does not show may be of today
        (24, None, "DESC", 1),
    ],
)
def test_more_is_asked_for_unless_the_newest_reach_beyond_a_day(
    count: int, oldest: int | None, order: str, asks: int
) -> None:
    newest = [at(NOON - n) for n in range(count - 1)]
    newest.append(row("last", created_at=None) if oldest is None else at(oldest))
    if order == "ASC":
        newest.reverse()
    if order == "HIDDEN":
        newest[1] = row("hidden", created_at=None)
    changed = at(NOON, status="COMPLETED")
    found, questions = recent_of(newest, [changed, at(NOON + 1)])
    assert len(questions) == asks
    if asks == 2:
        assert questions[1]["created_at_gte"] == str(Instant.from_ns(NOON - DAY))
        assert questions[1]["page_size"] == 1000  # the most that the interface gives
        ids = [one.id for one in found.transfers]
        assert ids[:2] == [changed.id, f"t-{NOON + 1}"]
        assert len(ids) == len(set(ids)) == count + 1
        assert found.transfers[0].status == "COMPLETED"


def test_a_second_look_asks_for_the_last_day_alone() -> None:
    before = Recent((row("old"),), (), (), 0)
    found, questions = recent_of([row("not asked for")], [row("new")], before=before)
    assert [one.id for one in found.transfers] == ["new", "old"]
    assert ["created_at_gte" in question for question in questions] == [True]


@pytest.mark.parametrize(
    ("settings", "now", "asked_since"),
    [
        ({"daily_withdrawal_limit": Decimal(1)}, NOON, MIDNIGHT),
        ({"approval_daily_from": Decimal(1)}, NOON, MIDNIGHT),
        ({"daily_withdrawal_limit": Decimal(1)}, MIDNIGHT, MIDNIGHT),
        ({"daily_withdrawal_limit": Decimal(1)}, MIDNIGHT - 1, MIDNIGHT - DAY),
        ({"daily_withdrawal_limit": Decimal(1), "is_production": False}, NOON, None),
        ({}, NOON, None),
    ],
)
def test_a_days_withdrawals_are_listed_where_a_limit_is_to_be_kept(
    settings: Any, now: int, asked_since: int | None
) -> None:
    found, questions = recent_of([], today=[row("t")], now=now, **settings)
    of_all = [one for one in questions if one["profile_ids"] is None]
    assert [one["created_at_gte"] for one in of_all] == [
        str(Instant.from_ns(asked_since or 0))
    ] * bool(of_all)
    assert len(of_all) == len(found.today) == (asked_since is not None)


def test_a_day_of_a_service_that_is_ahead_begins_no_later_than_this_machines_now() -> None:
    """Its day has begun, this one's has not: asked for from now on, which is before."""
    _, questions = recent_of(
        [], now=MIDNIGHT - SECOND, skew_s=2.0, daily_withdrawal_limit=Decimal(1)
    )
    assert questions[-1]["created_at_gte"] == str(Instant.from_ns(MIDNIGHT - SECOND))


# ---------------------------------------------------------------------------- at submission


class Kept(Looked, Recording, Sent):
    """A journal with no payment alike, that records, and knows what was ``sent``."""

    def __init__(self, *sent: Any, alike: Any = ()) -> None:
        Recording.__init__(self)
        self.sent, self.asked, self.same = sent, list[int](), alike

    def alike(self, operation: str, arguments: Any, since: int) -> list[Any]:
        return [*self.same]


def ready(
    *rows: Any, book: Any = None, now: int = NOON, skew_s: float = 0.0, plan: Any = None,
    **more: Any,
) -> tuple[Any, list[str]]:  # fmt: skip
    """A plan to an account that the service shows, and what it says; ``more`` are settings."""
    client, _ = asking(*rows, **more)
    client.transport.skew_s = skew_s
    client.create_fiat_withdrawal = lambda **given: shown()
    where, said = context(client, book or Kept(), now)
    account = withdrawals.bank_account(client.get_fiat_account("a"))
    seen = {"fee": None, "total": None} if not rows else {}
    return a_plan(**{"context": where, "account": account} | seen | (plan or {})), said


PAID = row("t", fee="1", amount="3.00")


def test_a_second_look_is_in_time_and_says_what_could_not_be_checked() -> None:
    one, said = ready(PAID, skew_s=301.0)
    assert one.look_again().transfers == (PAID,)
    clocks = "duplicates and limits by one clock: this machine's and the service's are 301 s apart"
    assert (said, one.unchecked) == ([f"not checked: {clocks}"], [clocks])
    late, _ = ready(PAID, now=NOON + 900 * SECOND)
    assert refusal(late.look_again)[0] == "expired"
    made, _ = ready(PAID, plan={"elsewhere": True})
    assert made.look_again() is NOTHING


def test_each_of_a_batch_is_looked_at_for_a_duplicate_since() -> None:
    one, said = ready(PAID, skew_s=301.0)
    assert one.look_for_duplicates().transfers == (PAID,)
    assert len(said) == len(one.unchecked) == 1
    for allowed in (False, True):
        again, _ = ready(row("t"), plan={"allow_duplicate": allowed})
        if allowed:
            assert again.look_for_duplicates().within_a_day == (row("t"),)
        else:
            assert refusal(again.look_for_duplicates)[0] == "duplicate"


def test_what_the_journal_does_not_allow() -> None:
    other_one = [other()]
    for settings, book, more, reason in [
        ({}, Kept(), {}, None),
        ({"daily_withdrawal_limit": Decimal("5.00")}, Kept(), {}, None),
        ({"daily_withdrawal_limit": Decimal("4.99")}, Kept(), {}, "own_limit"),
        ({"approvals": 1}, Kept(), {}, "approval"),
        ({}, Kept(alike=other_one), {}, "duplicate"),
        ({}, Kept(alike=other_one), {"allow_duplicate": True}, None),
    ]:
        one, _ = ready(plan=more, **settings)
        if reason is None:
            one.check_journal(book)
        else:
            assert refusal(lambda one=one, book=book: one.check_journal(book))[0] == reason
    limited, _ = ready(daily_withdrawal_limit=Decimal("5.00"))
    seen = Recent((), (), (row("today", amount="0.01"),), 0)
    assert refusal(lambda: limited.check_journal(Kept(), seen))[0] == "own_limit"
    needs, _ = ready(approvals=1, approval_daily_from=Decimal("5.01"))
    needs.check_journal(Kept())
    assert refusal(lambda: needs.check_journal(Kept(), seen))[0] == "approval"


def test_a_withdrawal_is_submitted_with_its_approvals(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = ready()
    assert one.submit(one.code).id == "t-1"
    needs, _ = ready(approvals=1)
    assert refusal(lambda: needs.submit(needs.code))[0] == "approval"
    late, _ = ready(approvals=1, now=NOON + 900 * SECOND)
    assert refusal(lambda: late.submit(late.code))[0] == "approval"  # before it is looked at again

    approved = Approvals("Bo")
    approved.facts = {"approved_by": "Bo"}
    seen: list[Any] = []
    monkeypatch.setattr(withdrawals, "read_request", lambda path: ("read", path.name))
    monkeypatch.setattr(
        withdrawals, "approvals_of", lambda *given: seen.append(given) or approved
    )  # fmt: skip
    needs, _ = ready(approvals=1)
    assert needs.submit(needs.code, approved="r.json").id == "t-1"
    assert seen == [(("read", "r.json"), [needs], needs.context.store, NOON)]
    assert needs.context.journal.kept["facts"] == {"approved_by": "Bo"}
    done, _ = ready(shown(), approvals=1, plan={"elsewhere": True, "own_ref_id": True})
    assert done.submit(done.code).id == "t-1"  # nobody is asked about what was sent


def test_a_request_is_of_the_bytes_and_the_card(tmp_path: Any) -> None:
    allowed = ready(plan={"allow_duplicate": True})[0]
    for plans, more, duplicate in [
        ([ready()[0]], {}, False),
        ([ready()[0], allowed], {"expires_after": 60 * SECOND}, True),
    ]:
        path = tmp_path / f"{len(plans)}.json"
        given: dict[str, Any] = {"why": "rent", "by": "Ann"} | more
        if len(plans) == 1:
            request = plans[0].request(path, **given)
        else:
            request = withdrawals.request_of(plans, path, **given)
        said = request.said
        assert json.loads(path.read_bytes()) == said
        assert [json.loads(body) for body in said["bodies"]] == [ASKED | {"ref_id": "one"}] * len(
            plans
        )
        assert (said["by"], said["why"], said["allow_duplicate"]) == ("Ann", "rent", duplicate)
        assert said["asked_at"] == str(Instant.from_ns(NOON))
        ends = NOON + (60 * SECOND if more else DAY)
        assert said["expires_at"] == str(Instant.from_ns(ends))
        assert said["saw"] == [line for plan in plans for line in repr(plan).splitlines()]


def test_what_was_made_otherwise_is_noted_said_and_warned_of() -> None:
    book = Book()
    facts = {"amount": "5.00", "asset": "USD", "fee": "1", "total": "6.00"}
    one = a_plan(book=book, facts=facts)
    one.look_after(entry(), shown())
    assert (book.noted, one.said) == ([], [])
    notes: list[Any] = []
    object.__setattr__(one.context.journal, "note", lambda *given, **more: notes.append(more))
    with pytest.warns(fl.errors.CardWarning, match="withdrawal t-1 was accepted, and is not as"):
        one.look_after(entry(), shown(amount="4.00"))
    (note,) = notes
    assert note["detail"] == note["known"] == one.said[0]
    assert one.said[0].endswith(": ask the service why")


def test_the_warning_names_the_line_that_submits() -> None:
    one, _ = ready(plan={"facts": {"amount": "6.00", "asset": "USD"}})
    with pytest.warns(fl.errors.CardWarning) as warned:
        one.submit(one.code)
    assert [one.filename for one in warned] == [__file__]
