"""A batch at its bounds: sums to the cent, rows by their order, each line of its card."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_plan_bounds import NOON, context, entry, refusal, shown
from test_withdrawal_bounds import PAID, Approvals, Kept, a_plan, asking, limits, ready

import fundlab as fl
from fundlab.base.errors import (
    ActionRefused,
    CallError,
    Conflict,
    InsufficientFunds,
    InvalidRequest,
    NotFound,
    ValidationFailed,
)
from fundlab.payments import batches, withdrawals
from fundlab.payments.batches import BatchPlan
from fundlab.payments.identity import DAY, SECOND, WITHDRAWAL, keyed

ROW = {"profile_id": "p", "fiat_account_id": "a", "amount": "5.00"}


def table(*rows: Any) -> pd.DataFrame:
    return pd.DataFrame([ROW | one for one in rows or ({},)])


# ------------------------------------------------------------------------------- the table


@pytest.mark.parametrize(
    ("payments", "said"),
    [
        (table(), None),
        (table({"memo": "m", "asset": "USD", "invoice": "7", "metadata": {}}), None),
        ([], "payments is a list; give a pandas DataFrame with profile_id, fiat_account_id, am"),
        (SimpleNamespace(), "payments is a types SimpleNamespace; give"),
        (table({"total": "5"}), "has the column total, which a table does not take"),
        (table({"allow_duplicate": True}), r"pay with plan_withdrawal(allow_duplicate=…) one by"),
        (table().drop(columns=["amount", "profile_id"]),
         "payments lacks profile_id, amount; it has fiat_account_id. Give profile_id, fiat"),
        (pd.concat([table(), table()["amount"]], axis=1), "has 2 columns amount: leave one"),
        (table({"state": 1, "fee": 2}), "payments has state, fee, where the result puts"),
        (table({"Memo": "m"}), "has the column Memo: did you mean memo?"),
        (table({"account id": "m"}), "has the column account id: did you mean account_id?"),
        (table({"identity_ids": "m"}), "did you mean identity_id?"),
        (table({"memorial": "m"}), None),
        (table().iloc[:0], "payments is empty; give one row for each"),
    ],
)  # fmt: skip
def test_what_is_a_table_of_payments(payments: Any, said: str | None) -> None:
    if said is None:
        batches.check_table(payments)
        return
    with pytest.raises(InvalidRequest) as told:
        batches.check_table(payments)
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, None),
        ({"amount": Decimal(5)}, None),
        ({"amount": None}, "amount is missing"),
        ({"profile_id": float("nan")}, "profile_id is missing"),
        ({"fiat_account_id": 7}, "fiat_account_id=7 is not a valid id; give text"),
    ],
)
def test_a_row_has_what_a_payment_needs(row: Any, said: str | None) -> None:
    if said is None:
        batches.check_row(ROW | row)
    else:
        with pytest.raises(InvalidRequest, match=said):
            batches.check_row(ROW | row)


@pytest.mark.parametrize("allow", [False, True])
def test_which_rows_are_alike(allow: bool) -> None:
    plans = [
        a_plan({"ref_id": name} | more, ref_id=name)
        for name, more in [
            ("a", {}), ("A", {"amount": "9"}), ("b", {"amount": "5", "memo": "x"}),
            ("c", {"amount": "6.00"}), ("d", {"profile_id": "P"}),
        ]
    ]  # fmt: skip
    found = batches.rows_alike(pd.Index([*"vwxyz"]), plans, allow_duplicate=allow)
    same = ("w", "the same payment as row v: give each a ref_id of its own and pass "
            "allow_duplicate=True, or leave one out")  # fmt: skip
    alike = [
        (label, f"like row v under another ref_id ('{name}'): pass allow_duplicate=True if both "
         "are meant")
        for label, name in (("x", "b"), ("z", "d"))
    ]  # fmt: skip
    assert found == [same, *alike * (not allow)]


# -------------------------------------------------------------------------------- its sums


def test_what_each_balance_is_asked_for() -> None:
    plans = [
        a_plan(), a_plan(fee=None, amount=Decimal("7.00")), a_plan(profile_id="q", fee=Decimal(2)),
        a_plan(asset="EUR", available=Decimal("9.00")),
    ]  # fmt: skip
    found = [
        (one.profile_id, one.asset, one.payments, one.fees_unknown,
         *map(str, (one.amount, one.fees, one.available, one.after)))
        for one in batches.totals(plans)
    ]  # fmt: skip
    assert found == [
        ("p", "USD", 2, 1, "12.00", "1.00", "100.00", "87.00"),
        ("q", "USD", 1, 0, "5.00", "2", "100.00", "93.00"),
        ("p", "EUR", 1, 0, "5.00", "1.00", "9.00", "3.00"),
    ]
    assert batches.totals([]) == ()


@pytest.mark.parametrize(
    ("plans", "settings", "reason", "said"),
    [
        ([("11.99", {})] * 2, {}, "insufficient_balance",
         "2 payments of 10.00 with 2.00 of fees need 12.00 USD, but profile p has 11.99 available: "
         "0.01 USD are missing; nothing"),
        ([("12.00", {})] * 2, {}, None, ""),
        ([("9.99", {"fee": None})] * 2, {}, "insufficient_balance",
         "2 payments of 10.00 need 10.00 USD"),
        ([("12.00", {})] * 2, {"balance_floor": {"USD": Decimal("0.01")}}, "balance_floor",
         "0.00 USD would be left"),
        ([("12.00", {}), ("12.00", {"asset": "EUR"})],
         {"balance_floor": {"EUR": Decimal("6.01")}}, "balance_floor",
         "6.00 EUR would be left available in profile p, less than your floor of 6.01"),
        ([("9.00", {}), ("9.00", {"profile_id": "P"})], {}, "insufficient_balance",
         "2 payments of 10.00 with 2.00 of fees need 12.00 USD, but profile p has 9.00 available"),
        ([("12.00", {}), ("12.00", {"profile_id": "P"})],
         {"balance_floor": {"USD": Decimal("0.01")}}, "balance_floor", "0.00 USD would be left"),
        ([("12.00", {}), ("12.00", {"profile_id": "q"})],
         {"balance_floor": {"USD": Decimal("6.00")}}, None, ""),
        ([("12.00", {})] * 2, {"daily_withdrawal_limit": Decimal("9.99")}, "own_limit",
         "10.00 with the 0.00 already withdrawn today (UTC) is 0.01 above"),
        ([("12.00", {})] * 2, {"daily_withdrawal_limit": Decimal("10.00")}, None, ""),
    ],
)  # fmt: skip
def test_what_may_be_paid_together(plans: Any, settings: Any, reason: Any, said: str) -> None:
    made = [
        a_plan({"ref_id": f"r{n}"}, limits(**settings), ref_id=f"r{n}", book=Kept(),
               available=Decimal(available), **more)
        for n, (available, more) in enumerate(plans)
    ]  # fmt: skip
    if reason is None:
        batches.check_sums(made)
    else:
        found = refusal(lambda: batches.check_sums(made))
        assert (found[0], said in found[1]) == (reason, True), found[1]
    batches.check_sums([])
    batches.check_sums([a_plan(book=Kept())])


# ------------------------------------------------------------------------------- planning


def plan_of(
    payments: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, *rows: Any, book: Any = None,
    allow_duplicate: bool = False, now: int = NOON, **settings: Any,
) -> tuple[BatchPlan, list[str]]:  # fmt: skip
    client, _ = asking(*rows, **settings)
    client.create_fiat_withdrawal = lambda **given: shown(
        f"made-{given['ref_id']}", ref_id=given["ref_id"], amount=given["amount"]
    )
    where, said = context(client, book or Kept(), now)
    monkeypatch.setattr(batches, "context_of", lambda *_: where)
    more = {"allow_duplicate": True} if allow_duplicate else {}
    return batches.plan_withdrawals(client, payments, **more), said


def test_a_table_is_planned_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    payments = table(
        {"amount": Decimal("1.00"), "ref_id": "a", "memo": None},
        {"amount": np.int64(2), "ref_id": None, "memo": "m"},
    )
    payments["asset"] = ["USD", None]
    payments.index = pd.Index([7, 9])
    batch, _ = plan_of(payments, monkeypatch, PAID)
    first, second = batch.plans
    assert first.arguments == ROW | {"amount": "1.00", "asset": "USD", "ref_id": "a"}
    assert second.arguments == ROW | {
        "amount": "2", "asset": "USD", "memo": "m", "ref_id": second.ref_id,
    }  # fmt: skip
    assert not second.ref_id.startswith("fundlab-more-")
    assert {one.batch for one in batch.plans} == {batch.code}
    assert batch.planned_at == NOON
    assert batch.expires_at == NOON + 900 * SECOND
    assert [str(one.after) for one in batch.totals] == ["95.00"]
    assert batch.payments.equals(payments)
    payments["amount"] = "9"
    assert batch.payments["amount"].tolist() == [Decimal("1.00"), 2]


@pytest.mark.parametrize("count", [1, 10, 11])
def test_every_row_at_fault_is_named(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"amount": None, "ref_id": f"r{n}"} for n in range(count)]
    payments = table({"amount": "1.00"}, *rows)
    reason, said = refusal(lambda: plan_of(payments, monkeypatch))
    assert reason == "batch"
    assert said.startswith(f"{count} of {count + 1} payments cannot be made as asked; nothing was")
    assert "again. row 1 (ref_id 'r0'): amount is missing" in said
    assert said.count("amount is missing") == min(count, 10)
    assert said.partition("; and ")[2] == ("1 more" if count == 11 else "")


def test_what_names_a_row_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for rows, more, said in [
        ([{}, {"memo": "x"}], {}, "row 1: like row 0 under another ref_id"),
        ([{"ref_id": "a"}, {"ref_id": "A"}], {"allow_duplicate": True},
         "row 1: the same payment as row 0"),
        ([{"amount": "5.001"}], {}, "row 0: amount='5.001' has 3 decimals"),
        ([{"amount": "5.00"}], {"withdrawal_limit": Decimal(1)}, "row 0: amount=5.00 is 4.00"),
    ]:  # fmt: skip
        payments = table(*rows)
        told = refusal(lambda payments=payments, more=more: plan_of(
            payments, monkeypatch, **more))  # fmt: skip
        assert told[0] == "batch"
        assert said in told[1]
    with pytest.raises(InvalidRequest, match="payments is empty"):
        plan_of(table().iloc[:0], monkeypatch)
    both = table({"ref_id": "a"}, {"ref_id": "b"})
    assert len(plan_of(both, monkeypatch, allow_duplicate=True)[0].plans) == 2
    reason, _ = refusal(
        lambda: plan_of(both, monkeypatch, allow_duplicate=True, withdrawal_limit=None,
                        daily_withdrawal_limit=Decimal("9.99"))
    )  # fmt: skip
    assert reason == "own_limit"  # of all together


# ------------------------------------------------------------------------------ submitting


@pytest.mark.parametrize(
    ("error", "known", "outcome"),
    [
        (ActionRefused("own_limit", "no"), None, ("refused", "no")),
        (ActionRefused("in_doubt", "no"), None, ("unknown", "no")),
        (ActionRefused("own_limit", "no"), "absent", ("absent", "no")),
        (ActionRefused("ref_id", "no"), "another", ("refused", "no")),
        (ValidationFailed(400, "No"), "refused", ("refused", "400 No")),
        (InsufficientFunds(403, "No"), "refused", ("refused", "403 No")),
        (NotFound(404, "No"), "refused", ("refused", "404 No")),
        (Conflict(409, "No"), "unknown", ("unknown", "409 No")),
        (Conflict(409, "No"), None, None),
        (CallError("lost"), "unknown", None),
        (None, "done", ("done", None)),
        (None, "noted", ("done", "unlike")),
        (None, "unchecked", ("done", "not checked: a; not checked: b")),
    ],
)
def test_what_came_of_a_row(error: Any, known: Any, outcome: Any) -> None:
    book = Kept()
    one = a_plan(book=book, unchecked=["a", "b"] if known == "unchecked" else [])
    if known is not None:
        state = known if known in ("absent", "refused", "unknown") else "done"
        more = {"resource_id": "t", "status": "PENDING", "fee": "1", "total": "6",
                "detail": "unlike" if known == "noted" else None}  # fmt: skip
        book.known["one"] = entry(state=state, **more)
        if known == "another":
            book.known["one"] = entry(state="done", fingerprint="f" * 64)

    def carried(of: Any, look_again: Any) -> None:
        assert look_again.__name__ == "look_for_duplicates"
        of.context.say("not checked: x")
        of.context.say("already submitted 12:00 UTC" if known == "done" else "submitted")
        if error is not None:
            raise error

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(withdrawals.WithdrawalPlan, "carry_out", carried)
        if outcome is None:
            with pytest.raises(type(error)):
                batches.submitted(one)
            return
        found = batches.submitted(one)
    assert (found["state"], found["detail"]) == outcome
    assert found["before"] is (known == "done")
    assert found["ref_id"] == "one"
    if known not in (None, "another"):
        made = [found[name] for name in ("status", "transfer_id", "fee", "total")]
        assert made == ["PENDING", "t", "1", "6"]
    assert one.said == []


def submitted_frame(batch: BatchPlan, **more: Any) -> list[dict[str, Any]]:
    frame = batch.submit(batch.code, progress=False, **more)
    found: list[dict[str, Any]] = frame.to_dict("records")
    return found


def test_a_batch_is_submitted_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    payments = table({"amount": "1.00", "ref_id": "a"}, {"amount": "2.00", "ref_id": "b"})
    batch, said = plan_of(payments, monkeypatch, PAID)
    outcomes = {"a": "done", "b": "refused"}

    def one_of(plan: Any) -> dict[str, Any]:
        return {"ref_id": plan.ref_id, "state": outcomes[plan.ref_id], "status": None, "fee": "1",
                "transfer_id": "t", "total": None, "detail": None, "before": False}  # fmt: skip

    done: list[int] = []

    @contextmanager
    def progress_bar(total: int, unit: str, *, enabled: bool) -> Iterator[Any]:
        assert (total, unit, enabled) == (2, "payments", False)
        yield SimpleNamespace(update=done.append)

    monkeypatch.setattr(batches, "progress_bar", progress_bar)
    monkeypatch.setattr(batches, "submitted", one_of)
    assert refusal(lambda: batch.submit("K7QF-2M9D"))[0] == "code"
    first, second = submitted_frame(batch)
    assert done == [1, 1]
    assert (first["amount"], first["state"], first["fee"]) == ("1.00", "done", Decimal(1))
    assert (second["ref_id"], second["state"], pd.isna(second["total"])) == ("b", "refused", True)
    assert said == ["12:00 UTC: 1 of 2 payments submitted, 1 refused"]
    outcomes["b"] = "unknown"
    submitted_frame(batch)
    assert said[1:] == ["12:00 UTC: 1 of 2 payments submitted, 1 unknown"]

    def half(plan: Any) -> dict[str, Any]:
        if plan.ref_id == "b":
            raise CallError("lost")
        return one_of(plan) | {"before": True, "detail": "not checked: x"}

    monkeypatch.setattr(batches, "submitted", half)
    with pytest.raises(CallError) as lost:
        batch.submit(batch.code, progress=False)
    assert lost.value.__notes__ == [
        "1 of 2 payments were gone through; run the same cell again to go on, none is made twice"
    ]
    outcomes.update({"a": "done", "b": "done"})
    monkeypatch.setattr(
        batches, "submitted", lambda plan: one_of(plan) | {
            "before": plan.ref_id == "a", "detail": "not checked: x" if plan.ref_id == "b" else "y",
        },
    )  # fmt: skip
    submitted_frame(batch)
    assert said[2:] == [
        "12:00 UTC: 2 of 2 payments submitted (1 of them already before)",
        "1 of them not checked: x",
    ]  # fmt: skip


def test_a_batch_is_looked_at_as_a_whole_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    payments = table({"amount": "1.00", "ref_id": "a"}, {"amount": "2.00", "ref_id": "b"})
    late, _ = plan_of(payments, monkeypatch, PAID)
    object.__setattr__(late, "planned_at", NOON - 900 * SECOND)
    assert refusal(lambda: submitted_frame(late))[0] == "expired"

    poor, _ = plan_of(payments, monkeypatch, PAID)
    poor.context.client.get_profile_balance = lambda **given: SimpleNamespace(available="4.99")
    reason, said = refusal(lambda: submitted_frame(poor))
    assert (reason, "2 payments of 3.00 with 2.00 of fees" in said) == (
        "insufficient_balance",
        True,
    )

    limited, _ = plan_of(payments, monkeypatch, PAID)
    limited.context.client.settings.withdrawal_limit = Decimal("1.99")
    said = refusal(lambda: submitted_frame(limited))[1]
    assert said.startswith("row 1 (ref_id 'b'): amount=2.00 is 0.01 above")

    needs, _ = plan_of(payments, monkeypatch, approvals=1,
                       approval_daily_from=Decimal("3.00"))  # fmt: skip
    assert [one.needs[0] for one in needs.plans] == [0, 0]
    assert refusal(lambda: submitted_frame(needs))[0] == "approval"  # of the day, all together
    approved = Approvals("Bo")
    approved.facts = {"approved_by": "Bo"}
    monkeypatch.setattr(withdrawals, "read_request", lambda path: path)
    monkeypatch.setattr(withdrawals, "approvals_of", lambda *given: approved)
    kept = []
    monkeypatch.setattr(
        batches, "submitted", lambda plan: kept.append(plan.facts) or {
            "ref_id": plan.ref_id, "state": "done", "status": None, "fee": None, "total": None,
            "transfer_id": "t", "detail": None, "before": False,
        },
    )  # fmt: skip
    submitted_frame(needs, approved="F")
    assert [facts["approved_by"] for facts in kept] == ["Bo", "Bo"]


def test_a_batch_that_is_submitted_is_gone_through_though_it_expired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = ROW | {"amount": "1.00", "asset": "USD"}
    done = entry(ref_id="a", state="done", status="COMPLETED", resource_id="t-a",
                 fingerprint=keyed("j", WITHDRAWAL, asked))  # fmt: skip
    book = Kept()
    book.known["a"] = done
    made = shown("t-a", ref_id="a", amount="1.00", status="COMPLETED")
    batch, said = plan_of(table(asked | {"ref_id": "a"}), monkeypatch, made, PAID, book=book)
    assert batch.open_plans == []
    object.__setattr__(batch, "planned_at", NOON - DAY)
    (row,) = submitted_frame(batch)
    assert (row["state"], row["transfer_id"]) == ("done", "t-a")
    assert said == ["12:00 UTC: 1 of 1 payments submitted (1 of them already before)"]


def test_a_request_of_a_batch_is_of_what_is_left(tmp_path: Any) -> None:
    where = ready()[0].context
    left = ready(plan={"context": where})[0]
    done = a_plan(earlier=entry(state="done", status="PENDING"))
    batch = BatchPlan(where, table(), (done, left), (), NOON)
    made = batch.request(tmp_path / "r.json", why="w", by="Ann", expires_after=SECOND)
    assert len(made.bodies) == 1
    assert (made.said["why"], made.by) == ("w", "Ann")
    assert made.said["expires_at"] == str(fl.base.values.Instant.from_ns(NOON + SECOND))


# -------------------------------------------------------------------------------- its card


@pytest.mark.parametrize(
    ("text", "longest", "short"),
    [
        ("x" * 20, 20, "x" * 20),
        ("abcdefghijklmnopqrstu", 20, "abcdefghijklmno…rstu"),
        ("abcdefgh", 7, "ab…efgh"),
        ("", 20, ""),
    ],
)
def test_what_is_long_keeps_its_end(text: str, longest: int, short: str) -> None:
    assert batches._short(text, longest) == short
    assert batches._short("y" * 21) == "y" * 15 + "…yyyy"


def cells(one: Any) -> list[list[str]]:
    return [[cell.text for cell in row] for row in one.rows]


@pytest.mark.parametrize("count", [2, 12, 13])
def test_the_card_of_a_batch(count: int) -> None:
    plans = [
        a_plan({"ref_id": f"r{n}", "memo": "m" * 41}, ref_id=f"r{n}",
               fee=None if n == 1 else Decimal("1.00"),
               earlier=entry(state="done", status="PENDING") if n == 0 else None,
               warnings=("dear",) if n == 1 else ())
        for n in range(count)
    ]  # fmt: skip
    rows = [{"invoice": f"i{n}", "more": "x", "third": "y", "ref_id": f"r{n}", "memo": "m" * 41}
            for n in range(count)]  # fmt: skip
    where, _ = context()
    batch = BatchPlan(where, table(*rows), (*plans,), batches.totals(plans[1:]), NOON)
    card = batch.card()
    sums = f"{5 * count}.00 USD"
    assert card.title == f"Withdraw {sums} in {count} payments"
    balances, payments = card.tables
    left = 5 * (count - 1)
    fees = count - 2
    assert cells(balances) == [[
        "p", str(count - 1), f"{left}.00 USD", f"{fees}.00 USD + 1 unknown", "100.00 USD",
        f"{100 - left - fees}.00 USD less those fees",
    ]]  # fmt: skip
    assert [head for head, _ in payments.columns] == [
        "row", "invoice", "more", "ref_id", "from", "to", "account", "amount", "fee", "memo",
        "so far",
    ]  # fmt: skip
    assert [style for _, style in payments.columns] == ["text"] * 7 + ["number"] * 2 + ["text"] * 2
    assert [style for _, style in balances.columns] == ["text"] + ["number"] * 5
    shown_rows = cells(payments)
    assert len(shown_rows) == min(count, 12)
    memo = "m" * 35 + "…mmmm"
    assert shown_rows[0] == [
        "0", "i0", "x", "r0", "p", "Ann", "B ••••1234", "5.00 USD", "1.00 USD", memo,
        "already submitted 12:00 UTC, PENDING",
    ]  # fmt: skip
    assert shown_rows[1][8:] == ["not known", memo, "new"]
    more = "and 1 more payments, in batch.payments" if count == 13 else ""
    assert payments.note == more
    assert card.warnings == (
        f"1 of {count} are already submitted; the rest will be sent.",
        "1 payments have warnings, the first: dear",
    )
    assert card.notes == (f"confirmation code {batch.code} · expires 12:15 UTC",)
    bare = BatchPlan(where, table(), (replace(plans[1], warnings=()),), (), NOON)
    assert bare.card().warnings == ()
    assert [head for head, _ in bare.card().tables[1].columns] == [
        "row", "from", "to", "account", "amount", "fee", "so far",
    ]  # fmt: skip
    known = BatchPlan(where, table(), (plans[0],), batches.totals(plans[:1]), NOON)
    assert cells(known.card().tables[0]) == [
        ["p", "1", "5.00 USD", "1.00 USD", "100.00 USD", "94.00 USD"]
    ]


def test_the_code_of_a_batch_is_of_each_payment() -> None:
    where, _ = context()
    one, two = a_plan(), a_plan({"ref_id": "two"}, ref_id="two")

    def code(*plans: Any) -> str:
        return BatchPlan(where, table(), plans, (), NOON).code

    assert code(one, two) == code(two, one)
    assert len({code(one), code(two), code(one, two), code(replace(one, evidence="x"), two)}) == 4
