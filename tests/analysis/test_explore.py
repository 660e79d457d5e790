"""What a difference unfolds to: its candidates, the transfers around each, its versions."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from transfer_examples import START, Row, decimal_typed, observed, transfer

from fundlab.analysis.explore import Candidate, Difference, Exploration, explore
from fundlab.display import Table

D = Decimal
ROWS: list[Row] = [
    *(transfer(f"t{n:02}", amount=D(n + 1), created_at=START + 2 * n) for n in range(14)),
    transfer("waits", status="PENDING", amount=D("7.5"), created_at=START + 13),
    transfer("late", amount=D(1000), created_at=START + 99),
    transfer("moved", asset="USDC", balance_asset="EUR", created_at=START + 13),
    transfer("other", profile_id="p2", created_at=START + 13),
    transfer("half", profile_id="p4", type="INTERNAL_TRANSFER_DEBIT", direction="DEBIT",
             amount=D(31), group_id="g"),
]  # fmt: skip
TOTALS = {
    ("p1", "USD"): D("1112.5"), ("p1", "EUR"): D(10), ("p2", "USD"): D(10), ("p3", "USD"): D(31),
    ("p4", "USD"): D(-31),
}  # fmt: skip


def reported(totals: dict[tuple[str, str], Decimal]) -> pd.DataFrame:
    return observed(totals, START + 500).to_pandas(types_mapper=pd.ArrowDtype)


def column(table: Table | None, name: str) -> list[str]:
    assert table is not None
    place = [title for title, _ in table.columns].index(name)
    return [row[place].text for row in table.rows]


@pytest.fixture
def found() -> Exploration:
    frame = decimal_typed(ROWS[::-1])
    history = frame[frame["id"] != "half"].assign(published_at=pd.Timestamp("2026-02-01", tz="UTC"))
    return explore(frame, reported(TOTALS), history=history)


def test_each_difference_has_its_title_and_its_newest_transfers(found: Exploration) -> None:
    first, second = found.differences
    assert found.headline == "2 differences in 5 balances"
    assert (first.title, first.profile_id) == ("7.50 USD of profile p1", "p1")
    assert (second.title, second.profile_id) == ("31.00 USD of profile p3", "p3")
    assert column(first.sides, "difference") == ["7.50"]
    assert first.sides.note == ""
    assert column(first.newest, "id") == [
        "late", *(f"t{n:02}" for n in range(13, 6, -1)), "waits", "t06"
    ]  # fmt: skip
    assert first.newest.note
    assert column(second.newest, "id") == []


def test_a_candidate_stands_among_those_before_and_after_it(found: Exploration) -> None:
    waits, missing = found.differences[0].candidates
    assert (waits.cause, waits.words) == ("pending", "pending")
    assert waits.said == "The transfer (▸) among those before and after it"
    assert column(waits.around, "id") == [
        "t02", "t03", "t04", "t05", "t06", "waits", "t07", "t08", "t09", "t10", "t11"
    ]  # fmt: skip
    assert column(waits.around, "") == ["", "", "", "", "", "▸", "", "", "", "", ""]
    assert [name for name, _ in waits.around.columns][:4] == ["", "created_at", "id", "type"]
    assert column(waits.versions, "id") == ["waits"]
    assert waits.versions.columns[0][0] == "published_at"
    assert (missing.words, missing.around, missing.versions) == ("missing transfer", None, None)
    (half, *_) = found.differences[1].candidates
    assert (half.cause, half.said) == (
        "missing_half", "The transfer, which is of another balance"
    )  # fmt: skip
    assert column(half.around, "id") == ["half"]
    assert column(half.around, "profile_id") == ["p4"]
    assert half.versions is None, "of which nobody has seen any"


@pytest.mark.parametrize(("place", "ids"), [(0, range(6)), (13, range(8, 14))])
def test_of_the_first_and_the_last_there_are_fewer_around(place: int, ids: range) -> None:
    rows = [dict(row) for row in ROWS[:14]]
    rows[place]["status"] = "PENDING"
    for row in rows:
        row["balance_asset"] = "EUR" if row is rows[place] else None
        row["asset"] = "EUR"
    frame = decimal_typed(rows)
    given = frame if place else frame.drop(columns="balance_asset")
    (difference,) = explore(given, reported({("p1", "EUR"): D(105)})).differences
    assert column(difference.candidates[0].around, "id") == [f"t{n:02}" for n in ids]
    assert difference.candidates[0].versions is None


def test_an_exploration_in_lines(found: Exploration) -> None:
    assert repr(found).splitlines() == [
        "2 differences in 5 balances",
        "7.50 USD of profile p1",
        "  1. pending: PENDING here, completed at the service",
        "  2. missing transfer: a credit of 7.50 USD between the beginning and now",
        "31.00 USD of profile p3",
        *repr(found).splitlines()[5:],
    ]
    none: Any = Table((), ())
    alone = Difference("5 USD of p", "p", none, none, ())
    assert repr(Exploration((alone,), 1)).splitlines() == [
        "1 difference in 1 balance", "5 USD of p", "  no transfer explains it"
    ]  # fmt: skip
    some = Difference("5 USD of p", "p", none, none, (Candidate("a_b", "c", "d", None, None),))
    assert repr(Exploration((some,), 1)).splitlines()[2:] == ["  1. a b: c"]
    assert repr(Exploration((), 3)) == "No differences: 3 balances compared"
    assert "No differences: 3 balances compared" in Exploration((), 3)._repr_html_()
