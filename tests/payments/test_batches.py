"""Tables of payments: validated as a whole, paid one by one, the result beside the input."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pytest
from amounts import exactly

import fundlab as fl
from fundlab.base.errors import ActionRefused, CallError, InvalidRequest
from fundlab.base.values import Amount


def table(bench: Any, *amounts: Any, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "profile_id": bench.profile_id,
            "fiat_account_id": bench.account.id,
            "amount": pd.Series(amounts, dtype=columns.pop("dtype", "object")),
            **columns,
        }
    )


def batch(bench: Any, frame: pd.DataFrame, **given: Any) -> Any:
    return fl.plan_withdrawals(bench.client, frame, **({"say": bench.said.append} | given))


def test_every_row_is_paid_and_the_result_stands_beside_it(bench: Any) -> None:
    frame = table(bench, "1.00", "2.50", 3, invoice=["a", "b", "c"])
    plan = batch(bench, frame)
    result = plan.submit(confirm=plan.code)
    assert result[["invoice", "state", "status"]].values.tolist() == [
        ["a", "done", "PENDING"], ["b", "done", "PENDING"], ["c", "done", "PENDING"],
    ]  # fmt: skip
    assert result["total"].tolist() == [Decimal("26.00"), Decimal("27.50"), Decimal("28.00")]
    assert result["total"].sum() == Decimal("81.50")
    assert {t.id for t in bench.made()} == set(result["transfer_id"])
    assert bench.said[-1].endswith("3 of 3 payments submitted")
    assert list(frame.columns) == ["profile_id", "fiat_account_id", "amount", "invoice"]


def test_profiles_have_their_names_on_the_card(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table(bench, "1.00", "2.00")
    names = {frame["profile_id"].iloc[0].lower(): "Payouts EU"}
    monkeypatch.setattr("fundlab.payments.batches.names_given", lambda: names)
    lines = repr(batch(bench, frame)).splitlines()
    assert len([line for line in lines if "Payouts EU" in line]) == 3  # the sum, and each payment


def test_a_memo_is_shown_confirmed_and_sent(bench: Any) -> None:
    frame = table(bench, "1.00", "2.00", "3.00", memo=["INV-1", None, "m" * 100])
    plan = batch(bench, frame)
    assert "INV-1" in repr(plan)
    assert f"{'m' * 35}…mmmm" in repr(plan)
    assert "INV-1" in plan._repr_html_()
    assert plan.code != batch(bench, frame.replace("INV-1", "INV-2")).code
    ids = plan.submit(confirm=plan.code)["transfer_id"]
    assert [bench.client.get_transfer(id_).memo for id_ in ids] == ["INV-1", None, "m" * 100]
    with pytest.raises(ActionRefused, match=r"row 0: .*memo"):
        batch(bench, table(bench, "4.00", memo=["m" * 101]))


@pytest.mark.parametrize("name", ["total", "allow_duplicate"])
def test_a_column_that_only_one_payment_takes_is_refused(bench: Any, name: str) -> None:
    for frame in (table(bench, "1.00"), table(bench, "1.00").drop(columns="amount")):
        with pytest.raises(InvalidRequest, match=rf"has the column {name}, .*plan_withdrawal\("):
            batch(bench, frame.assign(**{name: "1.00"}))


@pytest.mark.parametrize("dtype", ["decimal", "int64", "str"])
def test_amount_columns_of_every_exact_kind(bench: Any, dtype: str) -> None:
    frame = table(bench, 7, 8)
    frame["amount"] = pd.Series(["7", "8"]).astype(dtype)
    assert [plan.amount for plan in batch(bench, frame).plans] == [Decimal(7), Decimal(8)]


def test_running_it_again_pays_nothing(bench: Any) -> None:
    frame = table(bench, "1.00", "2.00")
    first = batch(bench, frame).submit()
    again = batch(bench, frame)
    assert "2 of 2 are already submitted" in repr(again)
    second = again.submit(confirm=again.code)
    assert first["transfer_id"].tolist() == second["transfer_id"].tolist()
    assert len(bench.made()) == 2
    assert bench.said[-1].endswith("2 of 2 payments submitted (2 of them already before)")
    assert bench.journal()["batch"].nunique() == 1


def test_totals_count_what_is_still_to_be_paid(bench: Any) -> None:
    bench.pay("1.00")
    plan = batch(bench, table(bench, "1.00", "2.00", "4.00"))
    (total,) = plan.totals
    assert (total.payments, total.amount, total.fees) == (2, Decimal(6), Decimal(50))
    with exactly():
        assert total.after == bench.available() - 56
    assert "Withdraw 7.00 USD in 3 payments" in repr(plan)


def test_every_row_at_fault_is_named_and_nothing_is_sent(bench: Any) -> None:
    frame = table(bench, "1.00", "2.005", 3.5)
    faults = r"2 of 3 .* row 1: .*3 decimals.* row 2: amount 3\.5 is a float"
    with pytest.raises(ActionRefused, match=faults):
        batch(bench, frame)
    frame["fiat_account_id"] = ["no-such", bench.account.id, bench.account.id]
    with pytest.raises(ActionRefused, match=r"3 of 3 .*correct the table, then plan again.* row 0"):
        batch(bench, frame)
    assert bench.made() == []


def test_the_sum_is_checked_against_the_balance(bench: Any) -> None:
    with exactly():
        rest = str(bench.available() - 100 + Decimal("0.02"))
    frame = table(bench, "100.00", rest, ref_id=["one", "two"])
    with pytest.raises(ActionRefused, match=r"0\.02 USD are missing.*leave some out") as refusal:
        batch(bench, frame, allow_duplicate=True)
    assert refusal.value.reason == "insufficient_balance"
    assert bench.made() == []


def test_the_sums_of_a_refusal_have_their_separators(bench: Any) -> None:
    with exactly():
        rest = str(bench.available() - 1)
    sums = r"[0-9]{1,3}(,[0-9]{3})+\.[0-9]{2}"
    gap = f"2 payments of {sums} need {sums} USD, .* has {sums} available"
    with pytest.raises(ActionRefused, match=rf"{gap}: 100,000\.00 USD are missing"):
        batch(bench, table(bench, "100001.00", rest, ref_id=["one", "two"]), allow_duplicate=True)


def test_the_sum_is_checked_against_the_daily_limit(new_bench: Callable[..., Any]) -> None:
    limited = new_bench(daily_withdrawal_limit="10")
    with pytest.raises(ActionRefused, match=r"0\.01 above your daily limit of 10"):
        batch(limited, table(limited, "4.00", "6.01"))
    assert len(batch(limited, table(limited, "4.00", "6.00")).submit()) == 2


def test_rows_alike_must_be_meant(bench: Any) -> None:
    with pytest.raises(ActionRefused, match=r"row 1: the same payment as row 0: give each a ref"):
        batch(bench, table(bench, "1.00", "1.00"))
    frame = table(bench, "1.00", "1.00", ref_id=[f"{n}-{bench.account.id}" for n in "ab"])
    with pytest.raises(ActionRefused, match=r"row 1: like row 0.*pass allow_duplicate=True"):
        batch(bench, frame)
    assert batch(bench, frame, allow_duplicate=True).submit()["state"].tolist() == ["done"] * 2
    assert len(bench.made()) == 2


def test_a_refusal_names_the_row_and_its_ref_id(bench: Any) -> None:
    names = [f"{letter}-{bench.account.id}" for letter in "abc"]
    frame = table(bench, "1.00", "2.00", "3.00", ref_id=names).set_axis([7, 8, 9])
    plan = batch(bench, frame)
    fund(bench, "500.00")
    bench.pay("2.00", ref_id=f"rent-{bench.account.id}")
    named = (
        rf"^row 8 \(ref_id '{names[1]}'\): 2.00 USD to this account was submitted .* nothing was"
    )
    with pytest.raises(ActionRefused, match=named) as refusal:
        plan.submit(confirm=plan.code)
    assert refusal.value.reason == "duplicate"
    with pytest.raises(ActionRefused, match=rf"row 8 \(ref_id '{names[1]}'\): 2.00 USD to this"):
        batch(bench, frame)
    bench.client.update_fiat_account(bench.account.id, metadata={"owner": "new"})
    with pytest.raises(
        ActionRefused, match=rf"^row 7 \(ref_id '{names[0]}'\): fiat account .* is PE"
    ):
        plan.submit(confirm=plan.code)
    assert len(bench.made()) == 1


def test_a_row_the_service_refuses_does_not_stop_the_others(bench: Any) -> None:
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", status=400, after=1, count=1)
    result = batch(bench, table(bench, "1.00", "2.00", "3.00")).submit()
    assert result["state"].tolist() == ["done", "refused", "done"]
    assert result["detail"].tolist()[1].startswith("create_fiat_withdrawal: 400")
    assert bench.said[-1].endswith("2 of 3 payments submitted, 1 refused")
    assert batch(bench, table(bench, "1.00", "2.00", "3.00")).submit()["state"].eq("done").all()
    assert len(bench.made()) == 3


def test_a_lost_connection_stops_it_and_a_rerun_goes_on(bench: Any) -> None:
    bench.sandbox.faults.add("reset", "create_fiat_withdrawal", after=1)
    frame = table(bench, "1.00", "2.00", "3.00")
    with pytest.raises(CallError) as failure:
        batch(bench, frame).submit()
    assert any("1 of 3 payments were gone through" in note for note in failure.value.__notes__)
    bench.sandbox.faults.clear()
    assert batch(bench, frame).submit()["state"].tolist() == ["done"] * 3
    assert len(bench.made()) == 3


def test_a_batch_is_checked_again_and_confirmed_like_a_plan(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = batch(bench, table(bench, "1.00", "2.00"))
    with pytest.raises(ActionRefused, match="not the code of this plan"):
        plan.submit(confirm="AAAA-AAAA")
    ask = bench.client.get_profile_balance
    with monkeypatch.context() as patched:
        patched.setattr(
            bench.client, "get_profile_balance",
            lambda **given: ask(**given).model_copy(update={"available": Amount("1.99")}),
        )  # fmt: skip
        with pytest.raises(ActionRefused, match=r"available balance of profile .* has changed"):
            plan.submit(confirm=plan.code)
    monkeypatch.setattr("fundlab.settings.settings.Settings.is_production", True)
    with pytest.raises(ActionRefused, match="is production"):
        batch(bench, table(bench, "1.00", "2.00")).submit()
    assert bench.made() == []


def test_a_batch_expires_like_a_plan(bench: Any) -> None:
    times = [1_800_000_000 * 10**9]  # 08:00 UTC
    plan = batch(bench, table(bench, "1.00"), now=lambda: times[0])
    times[0] += 15 * 60 * 10**9
    assert plan.expires_at == times[0]
    with pytest.raises(ActionRefused, match="expired at 08:15 UTC; nothing was sent"):
        plan.submit(confirm=plan.code)
    times[0] -= 1
    assert plan.submit(confirm=plan.code)["state"].tolist() == ["done"]


def test_missing_values_are_left_out_and_end_users_are_passed_on(bench: Any) -> None:
    person = bench.sandbox.control.add_identity()
    frame = table(
        bench, "1.00", "2.00",
        identity_id=[None, person["identity_id"]], account_id=[None, person["account_id"]],
    )  # fmt: skip
    assert batch(bench, frame).submit()["state"].tolist() == ["done", "done"]
    assert {(t.amount, t.identity_id) for t in bench.made()} == {
        (Decimal(1), None), (Decimal(2), person["identity_id"]),
    }  # fmt: skip


@pytest.mark.parametrize("column", ["profile_id", "fiat_account_id", "amount"])
@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_what_a_payment_needs_is_missed_by_row(bench: Any, column: str, missing: Any) -> None:
    frame = table(bench, "1.00", "2.00").astype("object")
    frame.loc[1, column] = missing
    with pytest.raises(ActionRefused, match=rf"1 of 2 .* row 1: {column} is missing"):
        batch(bench, frame)


def test_what_is_no_table_of_payments_is_refused(bench: Any) -> None:
    frame = table(bench, "1.00")
    refusals: list[tuple[Any, str]] = [
        ([{"amount": "1.00"}], "payments is a list; give a pandas DataFrame"),
        (None, "payments is a NoneType"),
        (pl.from_pandas(frame), r"payments is a polars DataFrame; .*its to_pandas\(\)"),
        (frame.drop(columns="amount"), "lacks amount"),
        (pd.concat([frame, frame["amount"]], axis=1), "has 2 columns amount: leave one"),
        (frame.assign(Identity_ID="i"), "Identity_ID: did you mean identity_id"),
        (frame.assign(refid="i"), "refid: did you mean ref_id"),
        (frame.assign(fee="1", status="paid"), "has fee, status, where the result puts"),
        (frame.head(0), "is empty"),
    ]
    for given, match in refusals:
        with pytest.raises(InvalidRequest, match=match):
            batch(bench, given)
    own = frame.assign(account="Harbor", fiat_account="main", profile="ops", invoice=7)
    assert len(batch(bench, own).plans) == 1


def test_a_bad_ref_id_is_named_by_row(bench: Any) -> None:
    frame = table(bench, "1.00", "2.00", ref_id=["fine", ""])
    with pytest.raises(ActionRefused, match=r"row 1 \(ref_id ''\): ref_id='' is not accepted"):
        batch(bench, frame)


@exactly()
def tight(bench: Any) -> pd.DataFrame:
    """Two payments and their fees that leave ten on a profile no other test pays from."""
    bench.profile_id = bench.sandbox.profile_ids[1]
    bench.pay("1.00")
    rest = bench.available() - 25 - 25 - 10 - 10
    return table(bench, "10.00", str(rest))


def test_a_last_row_lost_on_a_tight_balance_is_found_by_the_same_cell(
    bench: Any, lagging: Any
) -> None:
    frame = tight(bench)
    bench.sandbox.faults.add("lost", "create_fiat_withdrawal", after=1)
    with pytest.raises(CallError):
        batch(bench, frame).submit()
    lagging.undo()
    bench.sandbox.faults.clear()
    again = batch(bench, frame)
    assert again.open_plans == []
    assert again.submit()["state"].tolist() == ["done", "done"]
    assert bench.said[-1].endswith("2 of 2 payments submitted (2 of them already before)")
    assert len(bench.made()) == 3


@pytest.mark.parametrize("fee_known", [True, False])
def test_the_same_batch_goes_on_after_an_interruption(
    bench: Any, fee_known: bool, lagging: Any
) -> None:
    if fee_known:
        bench.pay("1.00")
    plan = batch(bench, table(bench, "2.00", "3.00", "4.00"))
    bench.sandbox.faults.add("lost", "create_fiat_withdrawal", after=1)
    with pytest.raises(CallError):
        plan.submit()
    lagging.undo()
    bench.sandbox.faults.clear()
    assert plan.submit()["state"].tolist() == ["done"] * 3
    assert bench.said[-1].endswith("3 of 3 payments submitted (2 of them already before)")
    assert len(bench.made()) == 3 + fee_known


def test_what_another_kernel_pays_during_the_check_is_no_changed_balance(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It pays after this batch looked at the journal or the balance, whichever comes first."""
    frame = table(bench, "2.00", "3.00")
    plan, other = batch(bench, frame), batch(bench, frame)
    ask = bench.client.get_profile_balance

    def paid_meanwhile(**given: Any) -> Any:
        monkeypatch.undo()
        other.submit()
        return ask(**given)

    monkeypatch.setattr(bench.client, "get_profile_balance", paid_meanwhile)
    assert plan.submit()["state"].tolist() == ["done", "done"]
    assert bench.said[-1].endswith("(2 of them already before)")
    assert len(bench.made()) == 2


def test_a_table_given_back_does_not_change_the_batch(bench: Any) -> None:
    plan = batch(bench, table(bench, "1.00"))
    given = plan.payments
    given.loc[0, "amount"] = "999.00"
    assert plan.submit()["amount"].tolist() == ["1.00"]


def test_the_card_shows_twelve_rows_and_twenty_letters_of_each_text(bench: Any) -> None:
    frame = table(bench, *(f"{n}.00" for n in range(1, 14)), invoice=[*"abcdefghijklm"])
    frame.loc[0, "invoice"], frame.loc[1, "invoice"] = "a" * 16 + "bcde", "a" * 16 + "bcdef"
    shown = repr(batch(bench, frame))
    assert "a" * 16 + "bcde" in shown
    assert "a" * 15 + "…cdef" in shown
    assert ("12.00" in shown, "13.00" in shown) == (True, False)


def test_the_card_shows_who_pays_and_what_the_rows_are_called(bench: Any) -> None:
    frame = table(bench, "1.00", "2.00", invoice=["INV-7", "INV-8"])
    frame.index = pd.Index(["rent", "wages"])
    plan = batch(bench, frame)
    for shown in (repr(plan), plan._repr_html_()):
        for text in ("rent", "INV-8", "Treasury", "less those fees"):
            assert text in shown


# ------------------------------------------------------------------------------ checked again


@pytest.fixture
def machines(new_bench: Callable[..., Any]) -> tuple[Any, Any]:
    """Two that share nothing but the service, and pay to the same account."""
    here, there = new_bench(), new_bench()
    there.account = here.account
    return here, there


def test_a_batch_looks_for_duplicates_at_the_service_again_as_a_plan_does(
    machines: tuple[Any, Any],
) -> None:
    """Planned, paid from elsewhere, and funded again so that the balance tells nothing."""
    here, there = machines
    single, rows = here.plan("31.00"), batch(here, table(here, "31.00", "32.00"))
    there.pay("31.00")
    there.pay("32.00")
    fund(here, "113.00")
    with pytest.raises(ActionRefused) as refused_plan:
        single.submit(confirm=single.code)
    with pytest.raises(ActionRefused) as refused_batch:
        rows.submit(confirm=rows.code, progress=False)
    assert refused_plan.value.reason == refused_batch.value.reason == "duplicate"
    row = f"row 0 (ref_id {rows.plans[0].ref_id!r}): "
    assert str(refused_batch.value) == f"{row}{refused_plan.value}"
    assert len(here.made()) == 2


def fund(bench: Any, amount: str) -> None:
    instructions = bench.client.create_fiat_deposit_instructions(
        profile_id=bench.profile_id, fiat_network="WIRE", routing_number_type="ABA"
    )
    fl.simulate_deposit(bench.client, instructions, amount)
    bench.sandbox.clock.advance(61)


def test_each_row_is_looked_at_again_just_before_it_is_sent(
    machines: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine pays the second row while the first is being sent."""
    here, there = machines
    send = here.client.create_fiat_withdrawal

    def slow(**given: Any) -> Any:
        if given["amount"] == "33.00":
            there.pay("34.00")
        return send(**given)

    monkeypatch.setattr(here.client, "create_fiat_withdrawal", slow)
    result = batch(here, table(here, "33.00", "34.00", "35.00")).submit(progress=False)
    assert result["state"].tolist() == ["done", "refused", "done"]
    assert "submitted" in result["detail"].tolist()[1]
    assert sorted(t.amount for t in here.made()) == [Decimal(33), Decimal(34), Decimal(35)]


def test_an_account_that_may_no_longer_be_paid_stops_plan_and_batch_alike(bench: Any) -> None:
    single, rows = bench.plan("36.00"), batch(bench, table(bench, "37.00", "38.00"))
    wire = bench.account.fiat_network_instructions.model_dump(exclude_none=True)
    bench.client.update_fiat_account(bench.account.id, fiat_network_instructions=wire)
    for plan in (single, rows):
        with pytest.raises(ActionRefused) as refusal:
            plan.submit(confirm=plan.code)
        assert refusal.value.reason == "account_not_approved"
    assert bench.made() == []


def test_limits_used_up_since_the_plan_stop_a_batch_before_its_first_row(
    new_bench: Callable[..., Any],
) -> None:
    bench = new_bench(daily_withdrawal_limit="100")
    rows = batch(bench, table(bench, "40.00", "41.00"))
    bench.pay("39.00")
    fund(bench, "64.00")
    with pytest.raises(ActionRefused, match=r"39\.00 already withdrawn today .* 20\.00 above"):
        rows.submit(progress=False)
    assert len(bench.made()) == 1
