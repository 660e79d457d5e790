"""What is missing from a history that never runs below zero: its beginning, or a deposit."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from transfer_examples import (
    DAY,
    START,
    Row,
    arrow,
    balances_by_hand,
    change,
    exact_sum,
    key,
    make_rows,
    observed,
    records,
    table,
    transfer,
)

from fundlab.analysis import reconcile

NOW = START + 400 * DAY
Pair = tuple[str, str]


def solvent(rows: list[Row]) -> list[Row]:
    """``rows`` without those that no service would have let through: nobody overdraws."""
    balances: dict[Pair, Decimal] = defaultdict(Decimal)
    refused: set[str] = set()
    kept = []
    for row in rows:
        signed = change(row, "available") or Decimal(0)
        after = exact_sum([balances[key(row)], signed])
        group = row["group_id"] or row["id"]
        if after < 0 or group in refused:
            refused.add(group)
            continue
        balances[key(row)] = after
        kept.append(row)
    return kept


@pytest.fixture(scope="module")
def history() -> list[Row]:
    return solvent(make_rows(3_000))


def explained(rows: list[Row], balances: dict[Pair, Decimal]) -> dict[Pair, list[dict[str, Any]]]:
    found: dict[Pair, list[dict[str, Any]]] = defaultdict(list)
    for row in records(reconcile.explain(table(rows), observed(balances, NOW))):
        found[row["profile_id"], row["asset"]].append(row)
    return found


def first(found: dict[Pair, list[dict[str, Any]]], pair: Pair) -> tuple[str, str | None]:
    return found[pair][0]["cause"], found[pair][0]["transfer_id"]


def below_zero(rows: list[Row], pair: Pair) -> int | None:
    """When the balance first was below zero."""
    balance = Decimal(0)
    for row in rows:
        signed = change(row, "available") if key(row) == pair else None
        balance = exact_sum([balance, signed or Decimal(0)])
        if balance < 0:
            return int(row["created_at"])
    return None


def test_a_history_that_begins_late_is_said_to_be_so(history: list[Row]) -> None:
    late = [row for row in history if row["created_at"] >= START + 60 * DAY]
    balances = balances_by_hand(history)
    rebuilt = balances_by_hand(late)
    opened = {pair for pair in rebuilt if balances[pair] != rebuilt[pair]}
    assert len(opened) > len(rebuilt) / 2
    found = explained(late, balances)
    assert {first(found, pair) for pair in opened} == {("missing_history", None)}
    pair = min(opened)
    begun = min(row["created_at"] for row in late if key(row) == pair and change(row, "available"))
    begins = pa.scalar(begun, pa.timestamp("ns", "UTC")).as_py().isoformat(" ")[:19]
    assert begins in found[pair][0]["detail"]


def test_one_balance_whose_first_transfer_takes_what_was_never_there() -> None:
    out = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}
    rows = [
        transfer("w1", amount=Decimal(40), created_at=START, **out),
        transfer("d1", amount=Decimal(500), created_at=START + DAY),
    ]
    found = records(reconcile.explain(arrow(rows), observed({("p1", "USD"): Decimal(560)}, NOW)))
    assert [row["cause"] for row in found] == ["missing_history", "missing_transfer"]
    assert found[0]["detail"] == (
        "a balance of 100.00 USD before the first transfer here, at 2026-01-01 00:00:00 UTC"
    )


def test_an_observation_before_the_first_row_shows_that_earlier_ones_are_missing() -> None:
    rows = [transfer("d1", amount=Decimal(500), created_at=START + 9 * DAY)]
    seen = pa.concat_tables(
        [
            observed({("p1", "USD"): Decimal(70)}, START),
            observed({("p1", "USD"): Decimal(570)}, NOW),
        ]
    )
    found = records(
        reconcile.explain(arrow(rows), observed({("p1", "USD"): Decimal(570)}, NOW), seen)
    )
    assert (found[0]["cause"], found[0]["difference"]) == ("missing_history", Decimal(70))


@pytest.mark.seconds
def test_a_balance_that_ran_below_zero_dates_the_missing_deposit(history: list[Row]) -> None:
    """Of every deposit that some later withdrawal needed, dropped alone."""
    balances = balances_by_hand(history)
    begins = {}
    for row in reversed(history):
        if change(row, "available") is not None:
            begins[key(row)] = row["created_at"]
    tried = 0
    for row in history[:: len(history) // 25]:
        pair = key(row)
        if row["direction"] == "DEBIT" or change(row, "available") is None or row["group_id"]:
            continue
        rows = [one for one in history if one is not row]
        since = below_zero(rows, pair)
        mine = [one["created_at"] for one in rows if key(one) == pair and change(one, "available")]
        if since is None or since == min(mine):
            continue
        tried += 1
        found = explained(rows, balances)
        assert first(found, pair) == ("ran_below_zero", None), row["id"]
        moment = pa.scalar(since, pa.timestamp("ns", "UTC")).as_py().isoformat(" ")[:19]
        assert moment in found[pair][0]["detail"]
        assert set(found) == {pair}
    assert tried >= 3


def test_with_its_opening_nothing_is_missing(history: list[Row]) -> None:
    early = balances_by_hand([row for row in history if row["created_at"] < START + 60 * DAY])
    late = [row for row in history if row["created_at"] >= START + 60 * DAY]
    money = pa.array(list(early.values()), pa.decimal128(38, 18))
    names = [pa.array([pair[place] for pair in early]) for place in (0, 1)]
    opening = pa.table([*names, money], names=["profile_id", "asset", "balance"])
    reported = observed(balances_by_hand(history), NOW)
    assert records(reconcile.explain(table(late), reported, opening=opening)) == []
