"""The search among many rows against looking at every one of them."""

from __future__ import annotations

from decimal import Decimal

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
    "half": ([transfer("h", type="INTERNAL_TRANSFER_DEBIT", direction="DEBIT", group_id="g",
                       amount=D(31))], {"USD": "0"}, "failed_later", "h"),
    "other": ([], {"USD": "31"}, "missing_half", "h"),
    "fee": ([transfer("f", amount=D(90), fee=D(5))], {"USD": "88"}, "fee", "f"),
    "fees": ([transfer("f1", amount=D(91), fee=D(5)), transfer("f2", amount=D(92), fee=D(5))],
             {"USD": "179"}, "fee", "f2"),
    "digits": ([transfer("x", amount=D(12)), transfer("y", amount=D(34))], {"USD": "55"},
               "transposed_digits", "x"),
    "paid": ([transfer("z", amount=D(540), **OUT)], {"USD": "-450"}, "transposed_digits", "z"),
    "shift": ([transfer("s", amount=D(10)), transfer("r", amount=D(7))], {"USD": "107"},
              "decimal_shift", "s"),
    "waits": ([transfer("p", status="PENDING", amount=D(8))], {"USD": "8"}, "pending", "p"),
    "failed": ([transfer("n", status="FAILED", amount=D(9))], {"USD": "9"}, "failed_here", "n"),
    "twice": ([transfer("v", amount=D(17))], {"USD": "34"}, "counted_twice", "v"),
    "turned": ([transfer("u", amount=D(18))], {"USD": "-18"}, "reversed_sign", "u"),
}  # fmt: skip


@pytest.mark.parametrize(("many", "few"), [(0, 3), (0, 0), (10**9, 3)])
def test_the_search_finds_what_was_planted(
    monkeypatch: pytest.MonkeyPatch, many: int, few: int
) -> None:
    """Among fifty transfers that are right, of which most pay a fee of 2; also where a balance of
    few transfers is searched like one of many."""
    monkeypatch.setattr(explain, "SEARCHED_FROM", many)
    monkeypatch.setattr(explain, "MAX_SUSPECTS", few)
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


# ------------------------------------------------------------------------- its parts, by hand

UNIT = 10**18


@pytest.mark.parametrize("away", [198, -198, 90, 10, -9, 7])
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
    frame = table(rows)
    with Workbench(frame) as bench:
        taken = bench.take(frame, explain._WANTED)
        theirs = bench.collect(explain.search_columns(taken))
        ends = [(-(2**63), 2**63 - 1, 2**63 - 1)] * 3
        ends[0] = (START + 10, START + 20, START + 20)
        differ = pa.Table.from_pylist(
            [
                dict(zip(explain._BREAK.names,
                         (n, one.profile_id, one.asset, of_units(one.difference), *end),
                         strict=True))
                for n, (one, end) in enumerate(zip(breaks, ends, strict=True))
            ],
            schema=explain._BREAK,
        )  # fmt: skip
        none = theirs.slice(0, 0)
        found = explain._Search(bench, theirs, none, none, breaks, differ).facts(opened)
    assert found[0] == Facts(
        counting=5, waiting=1, waiting_sum=32 * UNIT, held=1, held_sum=-64 * UNIT,
        after=2, after_sum=(8 - 512) * UNIT, after_id="d", opened=45 * UNIT,
        begun=START + 5, lowest=(45 - 801) * UNIT, below=START + 20,
    )  # fmt: skip
    assert found[1] == Facts()
    assert found[2] == Facts(
        counting=1, waiting_sum=0, opened=0, begun=START + 11, lowest=2048 * UNIT
    )
