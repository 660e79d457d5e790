from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from transfer_examples import (
    DAY,
    EVERY_KIND,
    KINDS,
    MONEY,
    START,
    TIME,
    Row,
    arrow,
    at_by_hand,
    exact_sum,
    laws,
    records,
    transfer,
    transfers,
)

from fundlab.analysis import reconcile
from fundlab.base.errors import AnalysisError

D = Decimal
ROWS = [
    transfer("a", amount=D("100")),
    transfer("b", direction="DEBIT", status="PENDING", amount=D("5"), fee=D("1")),
    transfer("c", asset="ETH", amount=D("0.000000000000000001")),
    transfer("d", asset="SOL", amount=D("3")),
    transfer("e", asset="BTC", amount=D("2")),
    transfer("f", asset="BTC", amount=D("2"), direction="DEBIT"),
]


def reported(*rows: tuple[str, str, str, str, int]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], [], [], []]
    return pa.table(
        {
            "profile_id": pa.array(columns[0], pa.string()),
            "asset": pa.array(columns[1], pa.string()),
            "available": pa.array([D(text) for text in columns[2]], MONEY),
            "trading": pa.array([D(text) for text in columns[3]], MONEY),
            "observed_at": pa.array(columns[4], pa.int64()).cast(TIME),
        }
    )


OBSERVED = reported(
    ("p1", "USD", "94", "0", START + 9),
    ("p1", "USD", "70", "0", START + 8),
    ("p1", "ETH", "0", "0", START),
    ("p1", "PYUSD", "1.5", "0.5", START),
    ("p1", "USDP", "0", "0", START),
)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_compare_by_literal(kind: str) -> None:
    result = records(reconcile.compare(KINDS[kind](ROWS), OBSERVED))
    names = ("asset", "rebuilt", "reported", "difference", "status")
    assert [tuple(row[name] for name in names) for row in result] == [
        ("BTC", D(0), None, D(0), "match"),
        ("ETH", D("1E-18"), D(0), D("-1E-18"), "break"),
        ("PYUSD", None, D(2), D(2), "only_reported"),
        ("SOL", D(3), None, D(-3), "only_rebuilt"),
        ("USD", D(94), D(94), D(0), "match"),
        ("USDP", None, D(0), D(0), "match"),
    ]


def test_reported_may_be_of_another_kind() -> None:
    frames = [OBSERVED, OBSERVED.to_pandas()]
    results = [
        records(reconcile.compare(KINDS[kind](ROWS), frame))
        for kind in ("decimal", "duckdb")
        for frame in frames
    ]
    assert all(result == results[0] for result in results)


@given(rows=transfers())
@laws
def test_what_was_rebuilt_by_hand_matches_and_a_shift_of_the_last_digit_does_not(
    rows: list[Row],
) -> None:
    rebuilt = at_by_hand(rows, START + 1000 * DAY, "available")
    fits = [(*name, str(balance), "0", START) for name, balance in rebuilt.items()]
    result = records(reconcile.compare(arrow(rows), reported(*fits)))
    assert [row["status"] for row in result] == ["match"] * len(rebuilt)
    off = [
        (profile, asset, str(exact_sum([D(balance), D("1E-18")])), "0", START)
        for profile, asset, balance, _, _ in fits
    ]
    result = records(reconcile.compare(arrow(rows), reported(*off)))
    assert {row["difference"] for row in result} <= {D("1E-18")}
    assert [row["status"] for row in result] == ["break"] * len(rebuilt)


def test_opening_balances_count() -> None:
    opening: Any = pa.table(
        {"profile_id": ["p1"], "asset": ["USDC"], "balance": pa.array([D(4)], MONEY)}
    )
    result = records(
        reconcile.compare(arrow([]), reported(("p1", "USDC", "3", "1", START)), opening)
    )
    assert [row["status"] for row in result] == ["match"]


def test_no_rows_give_no_rows() -> None:
    assert records(reconcile.compare(arrow([]), reported())) == []


def test_two_answers_at_the_same_instant_are_not_guessed_at() -> None:
    twice = reported(("p1", "USD", "1", "0", START), ("p1", "USD", "2", "0", START))
    with pytest.raises(
        AnalysisError, match=r"reported .*: more than one row of profile_id and asset p1 USD"
    ):
        reconcile.compare(arrow(ROWS), twice)
    same = reported(("p1", "USD", "94", "0", START), ("p1", "USD", "93", "1", START))
    assert records(reconcile.compare(arrow(ROWS[:2]), same))[0]["status"] == "match"


def test_a_missing_amount_or_column_is_named() -> None:
    gap = OBSERVED.set_column(3, "trading", pa.array([None] * 5, MONEY))
    with pytest.raises(AnalysisError, match=r"reported: trading is missing \(profile_id p1"):
        reconcile.compare(arrow(ROWS), gap)
    with pytest.raises(AnalysisError, match="reported has no column 'observed_at'"):
        reconcile.compare(arrow(ROWS), OBSERVED.drop_columns(["observed_at"]))


def test_a_judgement_says_how_many_transfers_a_period_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three made on the first day or the next; one of them settled on each, one never."""
    created = pa.array([START, START + DAY - 1, START + DAY], pa.int64()).cast(TIME)
    settled = pa.array([START + DAY, None, START], pa.int64()).cast(TIME)
    rows = pa.table({"created_at": created, "settled_at": settled})

    class Kept:
        def accounts(self, as_of: Any, *, pin: Any) -> Any:
            return as_of, pin

        def read_arrow(
            self, table: str, as_of: Any, columns: Any, *, pin: Any, settled: bool
        ) -> Any:
            assert (table, as_of, columns, pin) == ("transfers", "then", ["created_at"], "p")
            return rows if settled else rows.select(["created_at"])

    of_period = SimpleNamespace(of_period=lambda period, count: (period, count))
    monkeypatch.setattr(reconcile, "opened", lambda store: store)
    monkeypatch.setattr(reconcile, "judge_accounts", lambda known: of_period)
    store: Any = Kept()
    asked = {"as_of": "then", "pin": "p"}
    assert reconcile.judge(store, **asked) is of_period
    for period, basis, tz, count in (
        ("2026-01-01", "created", "UTC", 2), ("2026-01-02", "created", "UTC", 1),
        ("2026-01-01", "settled", "UTC", 2), ("2026-01-02", "settled", "UTC", 1),
        ("2025-12-31", "created", "America/New_York", 1), ("1999", "created", "UTC", 0),
    ):  # fmt: skip
        found: Any = reconcile.judge(store, period, tz=tz, basis=basis, **asked)  # type: ignore[arg-type]
        assert found == (period, count), basis
    rows = rows.slice(0, 0)
    assert reconcile.judge(store, "2026-01-01", **asked) == ("2026-01-01", 0)
    with pytest.raises(AnalysisError, match="basis='booked' is not one of settled, created"):
        reconcile.judge(store, "2026-01-01", basis="booked", **asked)  # type: ignore[arg-type]
