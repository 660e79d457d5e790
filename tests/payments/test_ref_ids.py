"""A ``ref_id`` that came to stand for another action after the plan was made: nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from benches import Bench

from fundlab.base.errors import ActionRefused, CallError
from fundlab.payments.actions import WithdrawalPlan
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
