"""Explaining differences: what the result looks like, and where in time a break is found."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from transfer_examples import (
    DAY,
    EVERY_KIND,
    KINDS,
    START,
    Row,
    arrow,
    exact_sum,
    observed,
    records,
    transfer,
)

from fundlab.analysis import causes, explain, reconcile
from fundlab.analysis.engines import Workbench
from fundlab.base.errors import AnalysisError
from fundlab.base.values import of_units

D = Decimal
ROWS = [
    transfer(f"t{n}", amount=D(n + 1), created_at=START + n * DAY, updated_at=START + n * DAY + 5)
    for n in range(10)
]
USD = ("p1", "USD")
NOW = START + 99 * DAY


def reported(total: Any, at: int = NOW) -> pa.Table:
    return observed({USD: D(total)}, at)


def told(rows: list[Row], *more: Any) -> list[tuple[Any, ...]]:
    names = ("difference", "rank", "cause", "transfer_id", "amount")
    return [
        tuple(row[name] for name in names) for row in records(reconcile.explain(arrow(rows), *more))
    ]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_explain_by_literal(kind: str) -> None:
    rows = [*ROWS, transfer("waits", status="PENDING", amount=D("7.5"))]
    result = records(reconcile.explain(KINDS[kind](rows), reported("62.5")))
    assert result == [
        {
            "profile_id": "p1", "asset": "USD", "difference": D("7.5"), "rank": 1,
            "cause": "pending", "transfer_id": "waits", "amount": D("7.5"),
            "detail": "PENDING here, completed at the service",
        },
        {
            "profile_id": "p1", "asset": "USD", "difference": D("7.5"), "rank": 2,
            "cause": "missing_transfer", "transfer_id": None, "amount": D("7.5"),
            "detail": "a credit of 7.50 USD between the beginning and now",
        },
    ]  # fmt: skip


def test_what_matches_needs_no_explanation() -> None:
    assert told(ROWS, reported(55)) == []
    assert told([], observed({}, NOW)) == []


def test_a_difference_is_narrowed_to_the_interval_of_the_observations() -> None:
    missing = [row for row in ROWS if row["id"] != "t4"]
    course = [exact_sum(D(n + 1) for n in range(days)) for days in range(11)]
    seen = pa.concat_tables(
        [reported(total, START + days * DAY - 1) for days, total in enumerate(course)]
    )
    result = records(reconcile.explain(arrow(missing), reported(55), seen))
    assert [(row["cause"], row["difference"]) for row in result] == [("missing_transfer", D(5))]
    assert result[0]["detail"] == (
        "a credit of 5.00 USD between 2026-01-04 23:59:59 UTC and 2026-01-05 23:59:59 UTC"
    )


def test_a_difference_is_not_explained_where_rows_were_cut_off() -> None:
    for place in (0, 1):
        frames = [arrow(ROWS).to_pandas(types_mapper=pd.ArrowDtype),
                  reported(57).to_pandas(types_mapper=pd.ArrowDtype)]  # fmt: skip
        assert len(reconcile.explain(*frames))
        frames[place].attrs["until"] = "2026-02-01"
        assert not len(reconcile.explain(*frames))


def test_what_was_observed_is_put_in_order_and_counted_once() -> None:
    seen = [observed({USD: D(total)}, START + at, D(total - 1)) for total, at in ((7, 9), (5, 3))]
    last = observed({USD: D(9), ("p2", "USD"): D(1)}, START + 20)
    with Workbench(last) as bench:
        both = explain._observations(bench, last, pa.concat_tables([*seen, seen[1], last]))
        alone = explain._observations(bench, last, None)
        differences = pa.table({"profile_id": ["p1"], "asset": ["USD"],
                                "difference": pa.array([D(4)], pa.decimal128(38, 18)),
                                "observed_at": last.column("observed_at")[:1]})  # fmt: skip
        known = explain._observations(bench, last, differences)
    unit = 10**18
    newest = {"at": START + 20, "trading": 0, "total": 9 * unit}
    assert both == {
        USD: [{"at": START + 3, "trading": 4 * unit, "total": 5 * unit},
              {"at": START + 9, "trading": 6 * unit, "total": 7 * unit}, newest],
        ("p2", "USD"): [newest | {"total": unit}],
    }  # fmt: skip
    assert alone == {USD: [newest], ("p2", "USD"): [newest | {"total": unit}]}
    assert known == {USD: [{"at": START + 20, "trading": 0, "difference": 4 * unit}]}


def seen_at(*entries: tuple[int, int, int]) -> list[dict[str, Any]]:
    return [{"at": at, "total": total, "trading": trading} for at, total, trading in entries]


@pytest.mark.parametrize(
    ("difference", "entries", "breaks"),
    [
        (0, [], []),
        (5, [], [causes.Break("p1", "USD", 5)]),
        (0, seen_at((3, 10, 2)), []),
        (5, seen_at((3, 10, 2)), [causes.Break("p1", "USD", 5, observed=3, trading=2)]),
        # 7 were there at first, and 1 and 3 had moved at the moments 3 and 9
        (0, seen_at((3, 8, 1), (9, 10, 2)), []),
        (0, seen_at((3, 8, 1), (9, 12, 2)),
         [causes.Break("p1", "USD", 2, 3, 9, 9, trading=2),
          causes.Break("p1", "USD", -2, 9, None, 9, trading=2)]),
        (4, seen_at((3, 9, 1), (9, 12, 2)),
         [causes.Break("p1", "USD", 1, None, 3, 3, trading=1),
          causes.Break("p1", "USD", 1, 3, 9, 9, trading=2),
          causes.Break("p1", "USD", 2, 9, None, 9, trading=2)]),
        (6, [{"at": 3, "difference": 6, "trading": 0}, {"at": 9, "difference": 6, "trading": 5}],
         [causes.Break("p1", "USD", 6, None, 3, 3)]),
    ],
)  # fmt: skip
def test_each_interval_over_which_a_difference_changes_is_one(
    difference: int, entries: list[dict[str, Any]], breaks: list[causes.Break]
) -> None:
    side = {"profile_id": "p1", "asset": "USD", "difference": of_units(difference), "reported": 1}
    opened = pa.table({"profile_id": ["p1"], "asset": ["USD"],
                       "opened": pa.array([of_units(7)], pa.decimal128(38, 18))})  # fmt: skip
    past = {(*USD, 3): 1, (*USD, 9): 3}
    found = explain.find_breaks([side], {USD: entries} if entries else {}, opened, past)
    assert [*found] == breaks
    if len(entries) < 2 and difference:
        (one,) = explain.find_breaks([side | {"reported": None}], {}, opened, past)
        assert one == causes.Break("p1", "USD", difference, reported=False)


def test_two_differences_in_one_balance_are_told_apart() -> None:
    missing = [row for row in ROWS if row["id"] not in ("t2", "t7")]
    course = [exact_sum(D(n + 1) for n in range(days)) for days in range(11)]
    seen = pa.concat_tables(
        [reported(total, START + days * DAY - 1) for days, total in enumerate(course)]
    )
    found = told(missing, reported(55), seen)
    assert [row[0] for row in found] == [D(3), D(8)]
    assert told(missing, reported(55))[0][0] == D(11)


def test_the_stores_own_differences_are_taken_as_they_are() -> None:
    asserted = pa.table(
        {
            "profile_id": ["p1"] * 3,
            "asset": ["USD"] * 3,
            "difference": pa.array([D(0), D(5), D(5)], pa.decimal128(38, 18)),
            "observed_at": pa.array([START + n * 3 * DAY for n in (1, 2, 3)], pa.int64()).cast(
                pa.timestamp("ns", "UTC")
            ),
        }
    )
    result = records(reconcile.explain(arrow(ROWS), reported(60), asserted))
    assert {row["difference"] for row in result} == {D(5)}
    assert "between 2026-01-04 00:00:00 UTC and 2026-01-07" in result[-1]["detail"]


def test_a_break_that_came_and_went_is_found() -> None:
    seen = pa.concat_tables([reported(1, START + DAY - 1), reported(9, START + 2 * DAY - 1)])
    found = told(ROWS, reported(55), seen)
    assert [row[0] for row in found if row[1] == 1] == [D(6), D(-6)]


def test_the_best_of_each_cause_comes_first() -> None:
    rows = [*ROWS, *(transfer(f"w{n}", status="PENDING", amount=D("7.5")) for n in range(9))]
    found = told(rows, reported("62.5"))
    assert [row[2] for row in found] == ["pending", "missing_transfer"] + ["pending"] * 4
    assert [row[1] for row in found] == [1, 2, 3, 4, 5, 6]


def test_opening_balances_count() -> None:
    opening = pa.table(
        {"profile_id": ["p1"], "asset": ["USD"], "balance": pa.array([5], pa.decimal128(38, 18))}
    )
    assert records(reconcile.explain(arrow(ROWS), reported(60), None, opening)) == []


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(AnalysisError, match="assertions has no column 'available'"):
        told(ROWS, reported(55), reported(55).drop_columns(["available"]))
    nothing = reported(55).set_column(
        reported(55).column_names.index("available"), "available",
        [pa.nulls(1, reported(55).schema.field("available").type)],
    )  # fmt: skip
    with pytest.raises(AnalysisError, match=r"assertions: available is missing \(profile_id p1\)"):
        told(ROWS, reported(55), nothing)
    with pytest.raises(AnalysisError, match=r"transfers: total is missing \(id t0\)"):
        told([{**ROWS[0], "total": None}], reported(55))


# ------------------------------------------------------------------ time shifts, and two at once

WIRE: Row = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}


@pytest.mark.parametrize("away", [-7 * DAY, 7 * DAY])
def test_a_debit_moved_in_time_is_named_though_its_end_stayed(away: int) -> None:
    """A debit is held from when it was made; when it was settled moves nothing."""
    made, settled = START + 15 * DAY, START + 15 * DAY + 9
    rows = [
        *(transfer(f"d{n:02}", amount=D(100 + n), created_at=START + n * DAY) for n in range(30)),
        transfer("moved", amount=D(7), created_at=made, updated_at=settled, **WIRE),
    ]
    course = [exact_sum(D(100 + n) for n in range(days)) for days in range(31)]
    seen = pa.concat_tables(
        [
            reported(total - (7 if days > 15 else 0), START + days * DAY - 1)
            for days, total in enumerate(course)
        ]
    )
    now = reported(course[30] - 7)
    assert told(rows, now, seen) == []
    rows[-1]["created_at"] = made + away
    found = records(reconcile.explain(arrow(rows), now, seen))
    assert [(row["difference"], row["cause"], row["transfer_id"]) for row in found
            if row["rank"] == 1] == [
        (D(7) if away < 0 else D(-7), "shifted_time", "moved"),
        (D(-7) if away < 0 else D(7), "shifted_time", "moved"),
    ]  # fmt: skip


def test_two_states_that_differ_in_one_balance_are_named_together() -> None:
    rows = [dict(row) for row in ROWS]
    rows[3]["status"], rows[6]["status"] = "FAILED", "FAILED"
    first, *others = told(rows, reported(55))
    assert first == (D(11), 1, "together", "t6", D(11))
    assert [row[2] for row in others] == ["missing_transfer"]
    detail = records(reconcile.explain(arrow(rows), reported(55)))[0]["detail"]
    assert detail == "failed_here t6: 7.00; failed_here t3: 4.00"


def test_three_causes_of_different_kinds_are_named_together() -> None:
    rows = [dict(row) for row in ROWS]
    rows[3]["status"] = "FAILED"
    rows[7]["status"] = "PENDING"
    rows.append(transfer("held", amount=D("0.3"), status="PENDING", **WIRE))
    first, *_ = told(rows, reported(55))
    assert first == (D("12.3"), 1, "together", "t7", D("12.3"))


def test_a_single_cause_is_not_spread_over_several() -> None:
    rows = [dict(row) for row in ROWS]
    for place in (1, 2, 4):  # 2, 3 and 5: the last alone makes what the first two would
        rows[place]["status"] = "FAILED"
    found = told(rows, reported(50))
    assert [row[2:4] for row in found][:2] == [("failed_here", "t4"), ("missing_transfer", None)]


def test_a_row_with_its_point_elsewhere_is_named_with_what_it_would_be() -> None:
    for reported_as, shown in (("1000", "1,000.00"), ("0.01", "0.01")):
        found = records(reconcile.explain(arrow([transfer("a")]), reported(reported_as)))
        (shifted,) = (row for row in found if row["cause"] == "decimal_shift")
        assert shifted["transfer_id"] == "a"
        assert shifted["detail"] == f"would be {shown} at the service"


def test_a_failed_withdrawal_moves_a_balance_when_it_is_made_and_when_it_fails() -> None:
    def moved(first: int, last: int) -> bool:
        return causes.Break("p1", "USD", 1, first, last).moved(failed)

    failed = causes.Row(
        id="a", profile_id="p1", asset="USD", sent="USD", direction="DEBIT", type="WIRE_WITHDRAWAL",
        network="", status="FAILED", amount=1, fee=0, total=1, signed=-1, counted=0, created=10,
        updated=20, group_id="", ref_id="", place=0,
    )  # fmt: skip
    assert moved(9, 10)
    assert moved(19, 20)
    assert moved(0, 30)
    assert not moved(10, 19), "after the first, up to the last"
    assert not moved(20, 30)


def test_a_reversed_row_may_have_its_fee_on_the_other_side() -> None:
    cases = (("DEBIT", -11, 9), ("CREDIT", 9, -11), ("DEBIT", -11, 11), ("CREDIT", 9, -9))
    for direction, here, there in cases:
        total = D(abs(here))
        rows = [transfer("a", direction=direction, type="", amount=D(10), fee=D(1), total=total)]
        assert (D(there - here), "reversed_sign", "a") in {
            (difference, cause, id_) for difference, _, cause, id_, _ in told(rows, reported(there))
        }


def test_two_neighbouring_digits_change_places() -> None:
    for low in range(10):
        for high in range(10):
            written, meant = int(f"{low}{high}"), int(f"{high}{low}")
            for power in (0, 3):
                place, digits = causes.transposed((meant - written) * 10**power)
                assert (f"{low}{high}" in digits and place == power) == (low != high)
    assert causes.transposed(10) == (0, ()), "which no exchange of digits makes"


def test_intervals_that_only_touch_do_not_overlap() -> None:
    def interval(first: int | None, last: int | None) -> causes.Break:
        return causes.Break("p1", "USD", 1, first, last)

    for one, other, together in (
        (interval(1, 5), interval(5, 9), False),
        (interval(1, 5), interval(4, 9), True),
        (interval(None, 5), interval(5, None), False),
        (interval(None, 5), interval(4, None), True),
        (interval(None, None), interval(4, 5), True),
        (interval(None, 3), interval(None, 9), True),
        (interval(3, None), interval(9, None), True),
    ):
        assert one.overlaps(other) == other.overlaps(one) == together


@pytest.mark.parametrize(
    ("totals", "breaks"),
    [
        ([(70, 2), (100, 4), (103, 6)], [(3, 4, 6)]),
        ([(70, 1), (100, 3), (103, 6)], [(3, 3, 6)]),
        ([(100, 0), (103, 6)], [(3, 0, 6)]),
        ([(73, 2), (103, 4)], [(3, None, 2)]),
        ([(73, 2), (100, 4)], [(3, None, 2), (-3, 2, 4)]),
        ([(70, 2), (71, 2), (100, 4)], [(1, 2, 2), (-1, 2, 4)]),
        ([(70, 1), (100, 3)], []),
        ([(70, 1), (70, 2), (99, 3)], [(-1, 2, 3)]),
    ],
)
def test_an_interval_ends_when_a_balance_was_seen(
    totals: list[tuple[int, int]], breaks: list[tuple[int, int | None, int]]
) -> None:
    """Of 100, and 30 that were held from the first day until they failed on the third."""
    rows = [
        transfer("a", amount=D(100)),
        transfer("b", amount=D(30), status="FAILED", direction="DEBIT", type="WIRE_WITHDRAWAL",
                 created_at=START + DAY, updated_at=START + 3 * DAY),
    ]  # fmt: skip
    seen = [observed({USD: D(total)}, START + day * DAY) for total, day in totals]
    found = records(reconcile.explain(arrow(rows), seen[-1], pa.concat_tables(seen)))
    missing = [
        (row["difference"], row["detail"].partition(" USD ")[2])
        for row in found if row["cause"] == "missing_transfer"
    ]  # fmt: skip

    def words(day: int | None) -> str:
        return "the beginning" if day is None else f"2026-01-{day + 1:02} 00:00:00 UTC"

    assert missing == [
        (amount, f"between {words(first)} and {words(last)}") for amount, first, last in breaks
    ]


@pytest.mark.parametrize(
    ("balances", "higher", "late"),
    [(2, 2, False), (3, 2, True), (3, 3, True), (4, 2, False), (5, 3, True), (5, 2, False)],
)
def test_most_of_three_balances_or_more_say_that_earlier_transfers_are_missing(
    balances: int, higher: int, late: bool
) -> None:
    assets = [f"A{n}" for n in range(balances)]
    rows = [transfer(name, asset=name) for name in assets]
    sums = {("p1", name): D("10.01" if n < higher else 10) for n, name in enumerate(assets)}
    sums["p1", "ELSE"] = D(7)  # reported only: that says nothing of the others
    found = records(reconcile.explain(arrow(rows), observed(sums, NOW)))
    said = {row["asset"] for row in found if row["cause"] == "missing_history"}
    assert said == ({*assets[:higher]} if late else set())
