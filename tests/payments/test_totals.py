"""Withdrawals by ``total``, with a memo: planned, checked against the same rules, sent once."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from benches import approved_account

import fundlab as fl
from fundlab.base.errors import ActionRefused, Conflict, InvalidRequest
from fundlab.base.exact import EXACT
from fundlab.cli.demo import BANK


def test_a_total_takes_the_fee_with_it(bench: Any) -> None:
    """The first to an account, whose fee nobody knows yet: nothing is said that is not known."""
    before = bench.available()
    plan = bench.plan(None, total="200.00", memo="invoice 7")
    assert (plan.amount, plan.total, plan.fee) == (Decimal(200), Decimal(200), None)
    shown = repr(plan)
    assert "Withdraw 200.00 USD with its fee to" in shown
    assert "less the fee" in shown
    assert "invoice 7" in shown
    assert plan.to_json()["amount"] is None
    made = plan.submit(confirm=plan.code)
    assert (made.amount.text, made.fee.text, made.total.text) == ("175.00", "25.00", "200.00")
    assert made.memo == "invoice 7"
    assert bench.journal()["amount"].tolist() == [175]
    assert EXACT.subtract(before, bench.available()) == 200
    again = bench.plan(None, total="200.00", memo="invoice 7")
    assert ("Available now" in repr(again), "Available before" in repr(again)) == (True, False)
    assert again.submit().id == made.id
    assert len(bench.made()) == 1


def test_a_total_whose_fee_is_known_shows_what_arrives(bench: Any) -> None:
    bench.pay("1.00")
    plan = bench.plan(None, total="200.00")
    assert (plan.amount, plan.total, plan.fee) == (Decimal(175), Decimal(200), Decimal(25))
    assert re.search(r"Amount +175\.00 USD +about: what the fee leaves of the total", repr(plan))
    assert plan.to_json()["amount"] == "175.00"
    assert plan.submit(confirm=plan.code).amount == plan.amount


def test_the_whole_balance_can_be_withdrawn_and_no_more(bench: Any) -> None:
    bench.pay("1.00")
    everything = bench.available()
    with pytest.raises(ActionRefused, match=r"needs .* 0\.01 USD are missing"):
        bench.plan(None, total=str(EXACT.add(everything, Decimal("0.01"))))
    assert bench.plan(None, total=str(everything)).total == everything


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"amount": "75.00"}, {"amount": None, "total": "100.00"}),
        ({"amount": None, "total": "100.00"}, {"amount": "75.00"}),
        ({"amount": "75.00"}, {"amount": "75.00", "memo": "another"}),
    ],
)
def test_the_same_payment_in_other_words_is_a_likely_duplicate(
    bench: Any, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """By the service's transfers, and by the journal alone while an outcome is not known."""
    bench.pay("1.00")  # its fee is known from here on
    plan = bench.plan(**first)
    bench.sandbox.faults.add("reset", "create_fiat_withdrawal")
    with pytest.raises(fl.errors.CallError):
        plan.submit(confirm=plan.code)
    bench.sandbox.faults.clear()
    with pytest.raises(ActionRefused, match=r"outcome is unknown|not sent so far") as refused:
        bench.plan(**second)
    assert refused.value.reason == "duplicate"
    plan.submit(confirm=plan.code)
    with pytest.raises(ActionRefused, match="was submitted") as refused:
        bench.plan(**second)
    assert refused.value.reason == "duplicate"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"amount": "75.00"}, {"amount": None, "total": "100.00"}),
        ({"amount": None, "total": "100.00"}, {"amount": "75.00"}),
        ({"amount": None, "total": "100.00"}, {"amount": None, "total": "100.00"}),
    ],
)
def test_another_users_payment_in_other_words_is_found_at_the_service(
    new_bench: Callable[..., Any], first: dict[str, Any], second: dict[str, Any]
) -> None:
    here, there = new_bench(), new_bench()  # there: a journal that knows nothing of it
    there.account = here.account
    made = here.pay(**first)
    with pytest.raises(ActionRefused, match=rf"was submitted .*transfer {made.id}") as refused:
        there.plan(**second)
    assert refused.value.reason == "duplicate"
    other = {name: value and f"{value[:-1]}1" for name, value in second.items()}
    assert there.plan(**other).arguments["ref_id"]  # another cent is another payment


@pytest.mark.parametrize("is_absent", [False, True])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"amount": None, "total": "200.00"}, {"amount": "175.00"}),
        ({"amount": "175.00"}, {"amount": None, "total": "200.00"}),
    ],
)
def test_a_lost_payment_is_not_paid_again_in_other_words_before_its_fee_is_known(
    bench: Any, first: dict[str, Any], second: dict[str, Any], is_absent: bool
) -> None:
    plan = bench.plan(**first)
    later = bench.plan(**second, ref_id=f"later-{bench.account.id}")  # made before anything is sent
    bench.sandbox.faults.add("reset", "create_fiat_withdrawal")
    with pytest.raises(fl.errors.CallError):
        plan.submit(confirm=plan.code)
    bench.sandbox.faults.clear()
    if is_absent:
        fl.resume(bench.client, say=bench.said.append)
    name, how_much = next((name, value) for name, value in first.items() if value is not None)
    again = rf"^{name}={how_much} USD, maybe the same payment, .*(unknown|not sent so far)"
    for refused in (lambda: bench.plan(**second), lambda: later.submit(confirm=later.code)):
        with pytest.raises(ActionRefused, match=again) as refusal:
            refused()
        assert refusal.value.reason == "duplicate"
    assert f"{name}={how_much} USD, maybe" in repr(bench.plan(**second, allow_duplicate=True))
    assert bench.made() == []
    plan.submit(confirm=plan.code)
    with pytest.raises(ActionRefused, match="was submitted"):
        bench.plan(**second)
    assert len(bench.made()) == 1


def test_another_fee_than_the_last_does_not_hide_a_lost_payment(bench: Any) -> None:
    """The last withdrawal to the account cost 25.00; the lost one need not."""
    bench.pay("1.00")
    plan = bench.plan(None, total="200.00")
    bench.sandbox.faults.add("reset", "create_fiat_withdrawal")
    with pytest.raises(fl.errors.CallError):
        plan.submit(confirm=plan.code)
    bench.sandbox.faults.clear()
    with pytest.raises(ActionRefused, match="maybe the same payment"):
        bench.plan("160.00")
    assert bench.plan("200.01").amount == Decimal("200.01")  # more than that total
    plan.submit(confirm=plan.code)
    assert bench.plan("160.00").amount == 160  # its fee is known by now


def test_own_limits_count_a_total(new_bench: Callable[..., Any]) -> None:
    bench = new_bench(withdrawal_limit="500.00", daily_withdrawal_limit="600.00")
    with pytest.raises(ActionRefused, match="above your limit of 500"):
        bench.plan(None, total="500.01")  # its fee is not known: it may all arrive
    plan = bench.plan(None, total="500.00")
    plan.submit(confirm=plan.code)
    with pytest.raises(ActionRefused, match="daily limit of 600"):
        bench.plan("125.01")
    assert bench.plan(None, total="125.00", ref_id="known-now").amount == Decimal(100)


def test_own_limits_and_the_journal_do_not_rely_on_the_last_fee(
    new_bench: Callable[..., Any],
) -> None:
    """The account had a SWIFT number (40.00) and got an ABA number (25.00) since it was paid."""
    bench = new_bench(withdrawal_limit="500.00", daily_withdrawal_limit="1000.00")
    wire = BANK["wire"]
    swift = wire["routing_details"] | {
        "routing_number_type": "SWIFT", "routing_number": "DEUTDEFF",
    }  # fmt: skip
    bench.account = approved_account(
        bench.sandbox, bench.client,
        fiat_network_instructions={
            "wire": {**wire, "routing_details": {**wire["routing_details"], **swift}}
        },
    )  # fmt: skip
    assert bench.pay("1.00").fee == 40
    bench.client.update_fiat_account(bench.account.id, fiat_network_instructions=BANK)
    bench.sandbox.clock.advance(11)
    with pytest.raises(ActionRefused, match=r"total=540\.00 is 40\.00 above your limit of 500"):
        bench.plan(None, total="540.00")
    plan, later = bench.plan(None, total="500.00"), bench.plan("10.00")
    assert plan.fee == 40
    with pytest.warns(fl.errors.CardWarning, match="fee 25.00 USD, the card showed 40.00"):
        made = plan.submit(confirm=plan.code)
    assert made.amount == 475
    assert bench.journal()["amount"].tolist() == [1, 475]
    with pytest.raises(ActionRefused, match=r"from 40\.00 to 25\.00 USD; nothing was sent"):
        later.submit(confirm=later.code)
    bench.pay("475.00", allow_duplicate=True)  # 951 by now
    with pytest.raises(ActionRefused, match=r"with the 951\S* already .* 0\.01 above your daily"):
        bench.plan(None, total="49.01")
    assert bench.plan(None, total="49.00").total == 49


def test_a_ref_id_with_another_memo_is_another_payment(bench: Any) -> None:
    """Paid by another program, with a memo."""
    ref_id = f"memo-{bench.account.id}"
    given = {
        "profile_id": bench.profile_id, "fiat_account_id": bench.account.id, "ref_id": ref_id,
        "amount": "12.00", "asset": "USD",
    }  # fmt: skip
    made = bench.client.create_fiat_withdrawal(**given, memo="AAA")
    assert bench.client.create_fiat_withdrawal(**given, memo="AAA").id == made.id
    with pytest.raises(Conflict, match="memo is 'AAA', not left out"):
        bench.client.create_fiat_withdrawal(**given)
    with pytest.raises(ActionRefused, match="memo is 'AAA', not left out"):
        bench.plan("12.00", ref_id=ref_id)
    with pytest.raises(ActionRefused, match=r"memo is 'AAA', not 'BBB'.*choose another ref_id"):
        bench.plan("12.00", ref_id=ref_id, memo="BBB")
    assert bench.pay("12.00", ref_id=ref_id, memo="AAA").id == made.id


def test_what_cannot_be_sent_is_refused_while_planning(bench: Any) -> None:
    with pytest.raises(InvalidRequest, match="exactly one of amount and total"):
        bench.plan("1.00", total="2.00")
    with pytest.raises(InvalidRequest, match="exactly one of amount and total"):
        bench.plan(None)
    with pytest.raises(ActionRefused, match=r"total='1\.001' has 3 decimals"):
        bench.plan(None, total="1.001")
    bench.pay("1.00")
    with pytest.raises(ActionRefused, match=r"total=25\.00 does not exceed the fee of 25\.00"):
        bench.plan(None, total="25.00")
    assert bench.plan(None, total="25.01").amount == Decimal("0.01")
    cubix = approved_account(
        bench.sandbox, bench.client, fiat_network_instructions={"wallet_address": "C-1"}
    )
    with pytest.raises(ActionRefused, match="memo has 41 characters, at most 40"):
        bench.plan(fiat_account_id=cubix.id, memo="m" * 41)
