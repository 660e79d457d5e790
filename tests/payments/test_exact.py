"""No digit of an amount depends on the decimal context of whoever runs the cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal, getcontext, localcontext
from typing import Any

import pandas as pd
import pytest

import fundlab as fl
from fundlab.base.errors import ActionRefused
from fundlab.base.exact import EXACT
from fundlab.base.values import exact_sum, money_text, plain_text

LONG = "12345678901.123456789012345678"


@pytest.fixture(autouse=True)
def three_digits() -> Iterator[None]:
    with localcontext() as context:
        context.prec = 3
        yield


def test_payments_that_differ_in_the_last_digit_are_two(bench: Any) -> None:
    first, second = bench.pay("12345.67"), bench.pay("12345.71")
    assert first.id != second.id
    assert sorted(t.amount for t in bench.made()) == [Decimal("12345.67"), Decimal("12345.71")]


def test_a_card_shows_every_digit(bench: Any) -> None:
    bench.pay("1.00")
    available = bench.available()
    shown = repr(bench.plan("23456.78"))
    assert "23,456.78 USD" in shown
    assert "23,481.78 USD" in shown
    with localcontext() as context:
        context.prec = 50
        left = f"{available - Decimal('23481.78'):,.2f} USD"
    assert left in shown
    assert bench.plan("23456.78").to_json()["total"] == "23481.78"


def test_a_daily_limit_holds_to_the_cent(new_bench: Callable[..., Any]) -> None:
    bench = new_bench(daily_withdrawal_limit="10000")
    bench.pay("9999.99")
    assert bench.plan("0.01").amount == Decimal("0.01")
    with pytest.raises(ActionRefused, match=r"is 0\.01 above your daily limit of 10,000"):
        bench.plan("0.02")


def test_the_gap_of_a_balance_is_exact(bench: Any) -> None:
    with localcontext() as context:
        context.prec = 50
        wanted = bench.available() + Decimal("10.51")
    with pytest.raises(ActionRefused, match=r": 10\.51 USD are missing"):
        bench.plan(wanted)


def test_a_batch_adds_to_the_cent(bench: Any) -> None:
    frame = pd.DataFrame(
        {
            "profile_id": bench.profile_id,
            "fiat_account_id": bench.account.id,
            "amount": ["10000.01", "10000.02"],
        }
    )
    bench.pay("1.00")
    before = bench.available()
    plan = fl.plan_withdrawals(bench.client, frame, say=bench.said.append)
    (total,) = plan.totals
    assert (str(total.amount), str(total.fees)) == ("20000.03", "50.00")
    assert EXACT.subtract(before, total.after) == Decimal("20050.03")
    assert "Withdraw 20,000.03 USD in 2 payments" in repr(plan)
    assert plan.submit()["state"].tolist() == ["done", "done"]


@pytest.mark.parametrize(
    ("amount", "plain", "money"),
    [
        (LONG, LONG, "12,345,678,901.123456789012345678"),
        ("-1234567.10", "-1234567.1", "-1,234,567.10"),
        ("-0.5", "-0.5", "-0.50"),
        ("1E+3", "1000", "1,000.00"),
        ("0E-7", "0", "0.00"),
        ("0.125", "0.125", "0.125"),
    ],
)
def test_amounts_as_text_keep_every_digit(amount: str, plain: str, money: str) -> None:
    assert (plain_text(Decimal(amount)), money_text(Decimal(amount))) == (plain, money)
    assert getcontext().prec == 3


def test_a_table_shows_every_digit() -> None:
    shown = fl.show(pd.DataFrame({"total": pd.array([LONG], dtype="decimal"), "asset": ["ETH"]}))
    assert "12,345,678,901.123456789012345678" in repr(shown)


def test_sums_are_exact_in_any_order() -> None:
    amounts = [Decimal(LONG), Decimal("0.000000000000000001"), Decimal("99999999999999999999")]
    assert exact_sum(amounts) == exact_sum(reversed(amounts))
    assert str(exact_sum(amounts)) == "100000000012345678900.123456789012345679"
    assert exact_sum([]) == 0
