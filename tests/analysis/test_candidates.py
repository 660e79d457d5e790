"""The search among many rows against looking at every one of them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_examples import DAY, START, Row, observed, records, table, tampered, transfer

from fundlab.analysis import explain, reconcile


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


@pytest.mark.parametrize("many", [0, 10**9])
def test_the_search_finds_what_was_planted(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """Among fifty transfers that are right, of which most pay a fee of 2."""
    monkeypatch.setattr(explain, "SEARCHED_FROM", many)
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
