"""A ``ref_id`` that came to stand for another action after the plan was made: nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from benches import Bench

from fundlab.base.errors import ActionRefused, CallError, Conflict
from fundlab.client.client import Client
from fundlab.payments.actions import WithdrawalPlan
from fundlab.payments.outcome import observed_of
from fundlab.payments.withdrawals import check_again

TAKEN = r"ref_id='.*' stands for another action, confirmed .*choose another ref_id"


def two_plans(bench: Bench) -> tuple[WithdrawalPlan, WithdrawalPlan]:
    name = f"rent-{bench.account.id}"
    return bench.plan("100.00", ref_id=name), bench.plan("200.00", ref_id=name)


def test_another_plan_was_submitted_first(bench: Any) -> None:
    first, second = two_plans(bench)
    paid = first.submit(confirm=first.code)
    with pytest.raises(ActionRefused, match=TAKEN) as refusal:
        second.submit(confirm=second.code)
    assert refusal.value.reason == "ref_id"
    assert [t.id for t in bench.made()] == [paid.id]


@pytest.mark.parametrize("state", ["absent", "unknown", "refused"])
def test_the_row_of_another_plan_is_not_written_on(bench: Any, state: Any) -> None:
    first, second = two_plans(bench)
    book = first.context.journal
    book.note(book.record(**first.kept(), allow=first.check_journal), state)
    with pytest.raises(ActionRefused, match=TAKEN):
        second.submit(confirm=second.code)
    assert bench.made() == []
    assert bench.journal()[["amount", "state"]].astype(str).values.tolist() == [["100", state]]
    assert first.submit(confirm=first.code).amount == 100


def test_another_plan_was_recorded_at_the_last_moment(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two_plans(bench)
    check = WithdrawalPlan.look_again

    def slow(plan: WithdrawalPlan) -> Any:
        found = check(plan)
        if plan.code == second.code:
            first.submit(confirm=first.code)
        return found

    monkeypatch.setattr(WithdrawalPlan, "look_again", slow)
    with pytest.raises(ActionRefused, match=TAKEN):
        second.submit(confirm=second.code)
    assert [t.amount for t in bench.made()] == [100]


def test_a_refused_plan_does_not_open_the_daily_limit(new_bench: Callable[..., Any]) -> None:
    bench = new_bench(daily_withdrawal_limit="300")
    name = f"w1-{bench.account.id}"
    first, second = (bench.plan(amount, ref_id=name) for amount in ("1.00", "299.00"))
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", status=400, count=1)
    with pytest.raises(CallError):
        first.submit(confirm=first.code)
    with pytest.raises(ActionRefused, match=TAKEN):
        second.submit(confirm=second.code)
    assert bench.made() == []


def test_a_corrected_table_after_the_first_was_paid_sends_nothing(bench: Any) -> None:
    import fundlab as fl

    table = pd.DataFrame(
        {
            "profile_id": [bench.profile_id] * 2,
            "fiat_account_id": [bench.account.id] * 2,
            "amount": ["40.00", "45.00"],
            "ref_id": [f"inv-{n}-{bench.account.id}" for n in (1, 2)],
        }
    )
    corrected = table.assign(amount=["40.00", "50.00"])
    first, second = (
        fl.plan_withdrawals(bench.client, payments, say=bench.said.append)
        for payments in (table, corrected)
    )
    first.plans[1].submit(confirm=first.plans[1].code)
    with pytest.raises(ActionRefused, match=TAKEN):
        second.submit(confirm=second.code, progress=False)
    assert [t.amount for t in bench.made()] == [45]


def test_a_row_that_another_plan_overtakes_is_told_as_refused(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fundlab as fl

    name = f"inv-{bench.account.id}"
    table = pd.DataFrame(
        {
            "profile_id": [bench.profile_id],
            "fiat_account_id": [bench.account.id],
            "amount": ["50.00"],
            "ref_id": [name],
        }
    )
    batch = fl.plan_withdrawals(bench.client, table, say=bench.said.append)
    other = bench.plan("40.00", ref_id=name)

    def slow(*given: Any) -> Any:
        found = check_again(*given)
        monkeypatch.undo()
        other.submit(confirm=other.code)
        return found

    monkeypatch.setattr("fundlab.payments.batches.check_again", slow)
    row = batch.submit(confirm=batch.code, progress=False).iloc[0]
    assert (row["state"], bool(pd.isna(row["total"]))) == ("refused", True)
    assert "stands for another action" in row["detail"]
    assert [t.amount for t in bench.made()] == [40]


@pytest.mark.parametrize("allow_duplicate", [False, True])
def test_a_ref_id_in_another_case_is_the_same_payment(bench: Any, allow_duplicate: bool) -> None:
    name = f"rent-{bench.account.id}"
    paid = bench.pay("100.00", ref_id=name)
    again = bench.plan("100.00", ref_id=name.upper(), allow_duplicate=allow_duplicate)
    assert (again.is_submitted, again.submit(confirm=again.code).id) == (True, paid.id)
    with pytest.raises(ActionRefused, match=f"ref_id='{name}' stands for another action"):
        bench.plan("200.00", ref_id=name.title(), allow_duplicate=allow_duplicate)
    assert [t.id for t in bench.made()] == [paid.id]
    assert list(bench.journal()["ref_id"]) == [name]


def test_what_was_refused_is_sent_again_under_the_ref_id_as_it_was_written(bench: Any) -> None:
    name = f"rent-{bench.account.id}"
    first = bench.plan("100.00", ref_id=name)
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", status=400, count=1)
    with pytest.raises(CallError):
        first.submit(confirm=first.code)
    assert bench.pay("100.00", ref_id=name.upper()).ref_id == name


def test_two_plans_whose_ref_ids_differ_in_case_pay_once(bench: Any) -> None:
    name = f"rent-{bench.account.id}"
    first, second = (bench.plan("100.00", ref_id=one) for one in (name, name.upper()))
    assert first.submit().id == second.submit().id
    assert len(bench.made()) == 1


def test_a_ref_id_in_another_case_is_found_without_this_journal(
    new_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = new_bench()
    names = [f"{kind}-{first.account.id}" for kind in ("rent", "Wage")]
    paid = [first.pay("100.00", ref_id=name, allow_duplicate=True) for name in names]
    other = new_bench()
    known = other.plan("100.00", ref_id=names[0].upper(), fiat_account_id=first.account.id)
    assert (known.is_submitted, known.submit().id) == (True, paid[0].id)
    for allowed in (False, True):  # which the list shows only among the newest
        with pytest.raises(ActionRefused, match=rf"'{names[1]}' of transfer .* in its case only"):
            other.plan("100.00", ref_id=names[1].upper(), fiat_account_id=first.account.id,
                       allow_duplicate=allowed)  # fmt: skip
    assert len(first.made()) == 2


@pytest.mark.parametrize("shown", [True, False])
def test_what_a_conflict_names_is_looked_at_where_the_list_does_not_show_it_yet(
    new_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, shown: bool
) -> None:
    first, second = new_bench(), new_bench()
    name, listed = f"rent-{first.account.id}", Client.list_transfers
    plan = second.plan("200.00", ref_id=name, fiat_account_id=first.account.id)
    first.pay("100.00", ref_id=name)
    monkeypatch.setattr(
        Client, "list_transfers",
        lambda client, **asked: iter(()) if "ref_ids" in asked else listed(client, **asked),
    )  # fmt: skip
    if not shown:
        monkeypatch.setattr(Client, "get_transfer", lambda *_: second.client.get_fiat_account("x"))
    with pytest.raises(Conflict if shown else CallError):
        plan.submit(confirm=plan.code)
    assert second.journal()["state"].tolist() == ["refused" if shown else "unknown"]
    assert len(first.made()) == 1


def test_rows_of_a_table_whose_ref_ids_differ_in_case_are_one_payment(bench: Any) -> None:
    import fundlab as fl

    name = f"inv-{bench.account.id}"
    table = pd.DataFrame({"amount": ["40.00", "45.00"], "ref_id": [name, name.upper()]}).assign(
        profile_id=bench.profile_id, fiat_account_id=bench.account.id
    )
    with pytest.raises(ActionRefused, match="row 1: the same payment as row 0"):
        fl.plan_withdrawals(bench.client, table, allow_duplicate=True)


def test_a_conflict_that_names_the_ref_id_in_another_case_is_about_it() -> None:
    said = Conflict(409, "Conflict", meta={"existing": {"id": "t-1", "ref_id": "RENT-1"}})
    said.refused = True
    assert observed_of(said, "rent-1") == "used"
    assert observed_of(said, "rent-2") == "refused"
