"""The search among many rows against looking at every one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_examples import DAY, START, Row, observed, records, table, tampered, transfer

from fundlab.analysis import explain, reconcile
from fundlab.analysis.causes import MOST_FEES, SHIFTS, Break, Facts
from fundlab.analysis.engines import Workbench
from fundlab.base.values import in_units, of_units


def searched_like_looked_through(seed: int) -> None:
    rows, reported, seen = tampered(seed)
    found = []
    for many in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(explain, "SEARCHED_FROM", many)
            found.append(records(reconcile.explain(table(rows), reported, seen)))
    assert found[0] == found[1]


@pytest.mark.thorough
@given(seed=st.integers(0, 10**9))
@settings(max_examples=4, deadline=None)
def test_the_search_finds_what_looking_at_every_row_finds(seed: int) -> None:
    searched_like_looked_through(seed)


@pytest.mark.slow
@given(seed=st.integers(0, 10**9))
@settings(max_examples=500, deadline=None)
def test_the_search_finds_what_looking_at_every_row_finds_500_times(seed: int) -> None:
    searched_like_looked_through(seed)


D = Decimal
OUT = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}
PLANTED: dict[str, tuple[list[Row], dict[str, str], str, str]] = {
    # profile: its transfers, what the service says, the cause and the transfer that it has
    "copy": ([transfer("k1"), transfer("k2")], {"USD": "10"}, "duplicate", "k2"),
    "way": ([transfer("w", direction="DEBIT")], {"USD": "10"}, "wrong_direction", "w"),
    "total": ([transfer("t", total=D(12))], {"USD": "10"}, "wrong_total", "t"),
    "sent": ([transfer("c", asset="USDC", balance_asset="USD")], {"USD": "0", "USDC": "10"},
             "wrong_conversion", "c"),
    "both": ([transfer("d", asset="USDC", balance_asset="USD")], {"USD": "10", "USDC": "10"},
             "wrong_conversion", "d"),
    "half": ([transfer("h", type="INTERNAL_TRANSFER_DEBIT", direction="DEBIT", group_id="g",
                       amount=D(31))], {"USD": "0"}, "failed_later", "h"),
    "other": ([], {"USD": "31"}, "missing_half", "h"),
    "fee": ([transfer("f", amount=D(90), fee=D(5))], {"USD": "88"}, "fee", "f"),
    "fees": ([transfer("f1", amount=D(91), fee=D(5)), transfer("f2", amount=D(92), fee=D(5))],
             {"USD": "179"}, "fee", "f2"),
    "digits": ([transfer("x", amount=D(12)), transfer("y", amount=D(34))], {"USD": "55"},
               "transposed_digits", "x"),
    "paid": ([transfer("z", amount=D(540), **OUT)], {"USD": "-450"}, "transposed_digits", "z"),
    "shift": ([transfer("s", amount=D(10)), transfer("r", amount=D(7))], {"USD": "1007"},
              "decimal_shift", "s"),
    "waits": ([transfer("p", status="PENDING", amount=D(8))], {"USD": "8"}, "pending", "p"),
    "failed": ([transfer("n", status="FAILED", amount=D(9))], {"USD": "9"}, "failed_here", "n"),
    "twice": ([transfer("v", amount=D(17))], {"USD": "34"}, "counted_twice", "v"),
    "turned": ([transfer("u", amount=D(18))], {"USD": "-18"}, "reversed_sign", "u"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("many", "few", "alike"), [(0, 3, 200), (0, 0, 200), (0, 0, 1), (10**9, 3, 200)]
)
def test_the_search_finds_what_was_planted(
    monkeypatch: pytest.MonkeyPatch, many: int, few: int, alike: int
) -> None:
    """Among fifty transfers that are right, of which most pay a fee of 2; also where a balance of
    few transfers is searched like one of many, and where one row of a reason is looked at."""
    monkeypatch.setattr(explain, "SEARCHED_FROM", many)
    monkeypatch.setattr(explain, "MAX_SUSPECTS", few)
    monkeypatch.setattr(explain, "MAX_TOGETHER", alike)
    rows = [
        transfer(f"ok{n}", profile_id="right", amount=D(1_000 + n), fee=D(2), created_at=START + n)
        for n in range(50)
    ]
    sums = {("right", "USD"): D(50 * 998 + 49 * 25)}
    for profile, (mine, said, _, _) in PLANTED.items():
        rows += [row | {"profile_id": profile} for row in mine]
        sums |= {(profile, asset): D(amount) for asset, amount in said.items()}
    found = records(reconcile.explain(table(rows), observed(sums, START + 99 * DAY)))
    named = {(row["profile_id"], row["cause"], row["transfer_id"]) for row in found}
    expected = {(profile, cause, id_) for profile, (_, _, cause, id_) in PLANTED.items()}
    assert expected - named == set()
    assert not [row for row in found if row["profile_id"] == "right"]


def test_the_search_finds_all_that_pay_an_odd_fee(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that pay 3 more than the only fee of others of their kind."""
    monkeypatch.setattr(explain, "SEARCHED_FROM", 0)
    monkeypatch.setattr(explain, "MAX_SUSPECTS", 0)
    rows = [transfer(f"f{n}", amount=D(90 + n), fee=D(5), profile_id="odd") for n in (1, 2)]
    rows += [transfer(f"ok{n}", amount=D(7), fee=D(2), profile_id="right") for n in range(9)]
    sums = {("right", "USD"): D(45), ("odd", "USD"): D(173 + 6)}
    found = records(reconcile.explain(table(rows), observed(sums, START + 99 * DAY)))
    assert [row["transfer_id"] for row in found if row["cause"] == "fee"] == ["f2"]


@pytest.mark.parametrize("many", [0, 10**9])
def test_what_failed_says_nothing_of_fees_and_hides_no_odd_one(
    monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """One that pays 3 more than others; more of its kind that pay as much failed, and later."""
    monkeypatch.setattr(explain, "SEARCHED_FROM", many)
    monkeypatch.setattr(explain, "MAX_SUSPECTS", 0)
    rows = [transfer("odd", amount=D(91), fee=D(5))]
    rows += [transfer(f"ok{n}", amount=D(70), fee=D(2)) for n in range(9)]
    rows += [
        transfer(f"x{n}", amount=D(80), fee=D(5), status="FAILED", created_at=START + n)
        for n in range(1, 99)
    ]
    seen = observed({(rows[0]["profile_id"], "USD"): D(86 + 9 * 68 + 3)}, START + 99 * DAY)
    found = records(reconcile.explain(table(rows), seen))
    assert [row["transfer_id"] for row in found if row["cause"] == "fee"] == ["odd"]


# ------------------------------------------------------------------------- its parts, by hand

UNIT = 10**18


@pytest.mark.parametrize("away", [198, -198, 90, 60, 10, -9, 7])
def test_which_values_would_explain_a_difference(away: int) -> None:
    """Each that fits, of all there are: that it counts, or not, or the other way; its point
    elsewhere; half of it is an amount; a fee, paid by up to so many."""
    found = explain._targets([Break("p", "A", 5), Break("p", "USD", away)])
    signed = {away, -away} | {x for x in range(-250, 250) if -2 * x == away}
    signed |= {
        x for x in range(-250, 250) for shift in SHIFTS
        if x * 10**shift - x == away or (x % 10**shift == 0 and x // 10**shift - x == away)
    }  # fmt: skip
    expected = {
        "signed": signed,
        "amount": {x for x in range(250) if 2 * x == abs(away)},
        "fee": {x for x in range(250) if any(n * x == abs(away) for n in range(1, MOST_FEES + 1))},
    }
    assert {*found} == {*expected}
    for column, values in expected.items():
        rows = found[column].filter(pa.compute.equal(found[column].column("number"), 1))
        assert {in_units(value) for value in rows.column(column).to_pylist()} == values


def test_no_value_beyond_what_a_column_holds_is_looked_for() -> None:
    for away, values in (
        (10**38 - 1, {10**38 - 1, 1 - 10**38, (10**38 - 1) // 9, (10**38 - 1) // 99}),
        (10**38, {-(10**38) // 2}),
    ):
        found = explain._targets([Break("p", "USD", away)])["signed"].column("signed")
        assert {in_units(value) for value in found.to_pylist()} == values


@pytest.mark.parametrize(
    ("most", "kept"), [(1, ["b", "x"]), (2, ["a", "b", "x", "y"]), (3, ["a", "b", "c", "x", "y"])]
)
def test_the_latest_of_each_are_kept_ties_by_id(most: int, kept: list[str]) -> None:
    rows = pa.table(
        {
            "id": ["c", "b", "a", "y", "x"],
            "of": ["1", "1", "1", "2", "2"],
            "created": [1, 9, 5, 7, 7],
        }
    )
    with Workbench(rows) as bench:
        found = bench.collect(explain._latest(bench.constant(rows), most, "of"))
    assert sorted(found.column("id").to_pylist()) == kept


@contextmanager
def searching(
    rows: list[Row], breaks: list[Break], halves: list[tuple[Row, bool]] | None = None
) -> Iterator[explain._Search]:
    """``halves`` of internal transfers, and whether each is alone."""
    with Workbench(table([])) as bench:
        theirs, others = (
            bench.collect(explain.search_columns(bench.take(table(some), explain._WANTED)))
            for some in (rows, [row for row, _ in halves or ()])
        )
        alone = pa.array([alone for _, alone in halves or ()], pa.bool_())
        last = 2**63 - 1
        differ = pa.Table.from_pylist(
            [
                {"number": n, "profile_id": one.profile_id, "asset": one.asset,
                 "difference": of_units(one.difference),
                 "first": -last - 1 if one.first is None else one.first,
                 "last": one.last or last, "observed": one.observed or last}
                for n, one in enumerate(breaks)
            ],
            schema=explain._BREAK,
        )  # fmt: skip
        halved = others.append_column("alone", alone)
        yield explain._Search(bench, theirs, halved, others.slice(0, 0), breaks, differ)


def ids(search: explain._Search, found: Any) -> list[str]:
    return ["".join(sorted(search.bench.collect(rows).column("id").to_pylist())) for rows in found]


def test_copies_and_halves_that_may_make_a_difference() -> None:
    """Two copies are enough; a half that is alone where it takes what is missing, and others."""
    one: Row = {"amount": D(10), "ref_id": None}
    rows = [
        transfer("a", **one), transfer("b", **one), transfer("c", amount=D(11)),
        transfer("d", **one, status="FAILED"), transfer("e", amount=D(12), ref_id="r"),
        transfer("f", amount=D(13), ref_id="r"),
        transfer("g", amount=D(14), ref_id="r", direction="DEBIT"),
        transfer("h", amount=D(15), group_id="g"), transfer("i", profile_id="p2", **one),
    ]  # fmt: skip
    debit: Row = {"type": "INTERNAL_TRANSFER_DEBIT", "direction": "DEBIT", "group_id": "x"}
    halves = [
        (transfer("k", amount=D(31), **debit), True), (transfer("l", amount=D(32), **debit), True),
        (transfer("m", amount=D(31)), True), (transfer("n", asset="EUR", **debit), True),
        (transfer("o", **debit | {"group_id": "g"}), False), (transfer("p", **debit), False),
        (transfer("q", amount=D(31), status="FAILED", **debit), True),
    ]  # fmt: skip
    with searching(rows, [Break("p1", "USD", 31 * UNIT)], halves) as search:
        assert ids(search, search.copies()) == ["", "ef", "", "ab"]
        assert ids(search, search.of_groups()) == ["o", "k", "lm"]


def test_the_facts_of_a_difference_are_of_its_interval() -> None:
    """After its first moment, up to its last, when it was observed; amounts are powers of 2."""
    out = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}
    rows = [
        transfer(id_, amount=D(amount), created_at=START + created, updated_at=START + updated,
                 **given)
        for id_, amount, created, updated, given in (
            ("a", 1, 10, 10, {}), ("b", 2, 11, 11, {}), ("c", 4, 20, 20, {}), ("d", 8, 21, 21, {}),
            ("e", 16, 5, 15, {}), ("f", 32, 12, 12, {"status": "PENDING"}),
            ("g", 64, 13, 13, {"status": "PENDING", **out}),
            ("h", 128, 14, 14, {"status": "FAILED", **out}), ("i", 256, 20, 30, out),
            ("j", 512, 25, 30, out), ("k", 1024, 30, 30, {"status": "PENDING"}),
            ("l", 2048, 11, 11, {"profile_id": "p2"}),
        )
    ]  # fmt: skip
    breaks = [
        Break("p1", "USD", 5, START + 10, START + 20, START + 20),
        Break("p1", "EUR", 5),
        Break("p2", "USD", 5),
    ]
    opened = pa.table({"profile_id": ["p1"], "asset": ["USD"],
                       "opened": pa.array([D(45)], pa.decimal128(38, 18))})  # fmt: skip
    with searching(rows, breaks) as search:
        found = search.facts(opened)
    assert found[0] == Facts(
        counting=5, waiting=1, waiting_sum=32 * UNIT, held=1, held_sum=-64 * UNIT,
        after=2, after_sum=(8 - 512) * UNIT, after_id="d", opened=45 * UNIT,
        begun=START + 5, lowest=(45 - 801) * UNIT, below=START + 20,
    )  # fmt: skip
    assert found[1] == Facts()
    assert found[2] == Facts(
        counting=1, waiting_sum=0, opened=0, begun=START + 11, lowest=2048 * UNIT
    )
