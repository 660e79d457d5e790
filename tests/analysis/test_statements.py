from __future__ import annotations

from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transfer_examples import (
    DAY,
    EVERY_KIND,
    KINDS,
    START,
    Row,
    arrow,
    at_by_hand,
    change,
    exact_sum,
    key,
    laws,
    pandas,
    records,
    transfer,
    transfers,
)

from fundlab.analysis import balances
from fundlab.base.errors import AnalysisError
from fundlab.base.periods import period_bounds

D = Decimal
HOUR = DAY // 24
MARCH = START + 59 * DAY
ROWS = [
    transfer("before", amount=D("100.5")),
    transfer("in", amount=D("50"), fee=D("1"), created_at=MARCH),
    transfer("out", direction="DEBIT", amount=D("30"), fee=D("25"), created_at=MARCH + 5 * DAY),
    transfer("held", direction="DEBIT", status="PENDING", amount=D("5"), created_at=MARCH + DAY),
    transfer("after", amount=D("7"), created_at=MARCH + 31 * DAY),
    transfer("other", profile_id="p2", asset="ETH", amount=D("1E-18"), created_at=MARCH + 1),
]


def told(result: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in records(result)]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_statement_by_literal(kind: str) -> None:
    result = balances.statement(KINDS[kind](ROWS), "2026-03")
    assert told(result) == [
        ("p1", "USD", D("100.5"), D("50"), D("30"), D("26"), D("94.5")),
        ("p2", "ETH", D("0"), D("1E-18"), D("0"), D("0"), D("1E-18")),
    ]
    opening = pa.table(
        {
            "profile_id": ["p1", "p9"],
            "asset": ["USD", "BTC"],
            "balance": pa.array([D(1), D(2)], pa.decimal128(38, 18)),
        }
    )
    result = balances.statement(KINDS[kind](ROWS), "2026-03", opening, view="available")
    assert told(result) == [
        ("p1", "USD", D("101.5"), D("50"), D("35"), D("26"), D("90.5")),
        ("p2", "ETH", D("0"), D("1E-18"), D("0"), D("0"), D("1E-18")),
        ("p9", "BTC", D("2"), D("0"), D("0"), D("0"), D("2")),
    ]


@given(rows=transfers(), first=st.integers(0, 200), days=st.integers(1, 100))
@laws
def test_the_closing_is_the_opening_and_the_parts_and_the_balance_at_the_end(
    rows: list[Row], first: int, days: int
) -> None:
    for row in rows:
        sign = -1 if row["direction"] == "CREDIT" else 1
        row["total"] = exact_sum([row["amount"], sign * row["fee"]])
    start, end = START + first * DAY, START + (first + days) * DAY
    bounds = (
        f"{pd.Timestamp(start, tz='UTC'):%Y-%m-%d}",
        f"{pd.Timestamp(end, tz='UTC'):%Y-%m-%d}",
    )
    result = records(balances.statement(arrow(rows), bounds))
    closing, opening = at_by_hand(rows, end - 1, "ledger"), at_by_hand(rows, start - 1, "ledger")
    assert {(row["profile_id"], row["asset"]): row["closing"] for row in result} == closing
    for row in result:
        name = (row["profile_id"], row["asset"])
        assert row["opening"] == opening.get(name, D(0))
        parts = [row["opening"], row["credits"], -row["debits"], -row["fees"]]
        assert exact_sum(parts) == row["closing"]


def test_a_closing_that_cannot_prove_itself_is_refused() -> None:
    rows = [transfer("a"), transfer("b", total=D("10.01")), transfer("c", total=D("9"))]
    with pytest.raises(AnalysisError, match=r"does not prove itself.*\(id b, c\)"):
        balances.statement(pandas(rows), "2026")
    assert len(balances.statement(pandas(rows), "2027")) == 1
    many = [transfer(f"t{number}", total=D("9")) for number in range(6)]
    for shown, words in ((many[:5], r"\(id t0, t1, t2, t3, t4\)"), (many, r"t3, t4 and more\)")):
        with pytest.raises(AnalysisError, match=words):
            balances.statement(pandas(shown), "2026")
    unknown = [transfer("a"), transfer("b") | {"fee": None}]
    with pytest.raises(AnalysisError, match=r"fee.*\(id b\)|\(id b\).*fee"):
        balances.statement(pandas(unknown), "2026")


@pytest.mark.parametrize(
    ("period", "hours"),
    [
        ("2026-03-08", 23),
        ("2026-W10", 7 * 24 - 1),
        ("2026-03", 31 * 24 - 1),
        ("2026-Q1", 90 * 24 - 1),
        ("2026-11-01", 25),
        ("2026-W44", 7 * 24 + 1),
        ("2026-11", 30 * 24 + 1),
        ("2026-Q4", 92 * 24 + 1),
        ("2026", 365 * 24),
        ("2025-12", 31 * 24),
    ],
)
def test_periods_in_new_york_have_the_right_hours(period: str, hours: int) -> None:
    first, end = period_bounds(period, "America/New_York")
    assert end - first == hours * HOUR
    local = pd.Timestamp(first, tz="UTC").tz_convert(ZoneInfo("America/New_York"))
    assert (local.hour, local.minute) == (0, 0)


def test_a_statement_ends_where_new_yorks_march_ends() -> None:
    edge = MARCH + 31 * DAY + 4 * HOUR  # 2026-04-01T00:00 in New York
    rows = [transfer("in", created_at=edge - 1), transfer("not", created_at=edge)]
    result = balances.statement(arrow(rows), "2026-03", tz="America/New_York")
    assert [row["closing"] for row in records(result)] == [D(10)]


@pytest.mark.parametrize(
    "period",
    [
        "2026-13",
        "2026-W54",
        "2026Q3",
        "2026W40",
        "2026-02-30",
        "March",
        "",
        None,
        "1500",
        "2400",
        "9999",
        "9999-12",
        "9999-12-31",
        "9999-W52",
        "0000",
        ("2026-02-01", "2026-01-01"),
    ],
)
def test_what_is_no_period_is_refused(period: Any) -> None:
    with pytest.raises(AnalysisError, match="period="):
        balances.statement(arrow(ROWS), period)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_holds_by_literal(kind: str) -> None:
    rows = [*ROWS, transfer("h2", direction="DEBIT", status="PENDING", fee=D("25"), asset="ETH")]
    rows.append(transfer("coming", status="PENDING"))
    assert told(balances.holds(KINDS[kind](rows))) == [
        ("p1", "ETH", 1, D("35"), "2026-01-01T00:00:00+00:00"),
        ("p1", "USD", 1, D("5"), "2026-03-02T00:00:00+00:00"),
    ]


@pytest.mark.thorough
@given(rows=transfers())
@laws
def test_holds_are_ledger_less_available(rows: list[Row]) -> None:
    held = {
        (row["profile_id"], row["asset"]): row["held"]
        for row in records(balances.holds(arrow(rows)))
    }
    views = [
        {(row["profile_id"], row["asset"]): row["balance"]
         for row in records(balances.at(arrow(rows), "2030-01-01", view=view))}
        for view in ("ledger", "available")
    ]  # fmt: skip
    for name in {*views[0], *views[1]}:
        less = exact_sum([views[0].get(name, D(0)), -views[1].get(name, D(0))])
        assert less == held.get(name, D(0))


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_changes_by_literal(kind: str) -> None:
    result = balances.changes(KINDS[kind](ROWS), view="available")
    assert [(row["transfer_id"], row["asset"], row["change"]) for row in records(result)] == [
        ("before", "USD", D("100.5")),
        ("in", "USD", D("49")),
        ("other", "ETH", D("1E-18")),
        ("held", "USD", D("-5")),
        ("out", "USD", D("-55")),
        ("after", "USD", D("7")),
    ]


@given(rows=transfers(), view=st.sampled_from(["ledger", "available"]))
@laws
def test_changes_equal_the_loop_and_make_the_closing(rows: list[Row], view: str) -> None:
    result = records(balances.changes(pandas(rows), view=view))  # type: ignore[arg-type]
    counting = [row for row in rows if change(row, view) is not None]
    counting.sort(key=lambda row: (row["created_at"], row["id"]))
    assert [(row["transfer_id"], row["change"]) for row in result] == [
        (row["id"], change(row, view)) for row in counting
    ]
    sums: dict[Any, D] = {}
    for row in result:
        name = (row["profile_id"], row["asset"])
        sums[name] = exact_sum([sums.get(name, D(0)), row["change"]])
    assert sums == at_by_hand(rows, START + 10_000 * DAY, view)
    assert {key(row) for row in counting} == set(sums)


def test_days_are_filled_over_years_and_before_1970() -> None:
    day = -5_000
    rows = [transfer("a", created_at=day * DAY - 1), transfer("b", created_at=START)]
    result = records(balances.daily(arrow(rows)))
    assert len(result) == START // DAY - day + 2
    assert (result[0]["date"], result[0]["balance"]) == ("1956-04-23", D(10))
    assert {row["balance"] for row in result[:-1]} == {D(10)}
    assert (result[-1]["date"], result[-1]["balance"]) == ("2026-01-01", D(20))
