from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
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
    day_by_hand,
    decimal_typed,
    exact_sum,
    key,
    laws,
    pandas,
    records,
    relation,
    running_by_hand,
    transfer,
    transfers,
)

import fundlab as fl
from fundlab.analysis import balances
from fundlab.base.errors import AnalysisError
from fundlab.decimals import DecimalDtype

D = Decimal
LATER = START + 10_000 * DAY

ROWS = [
    transfer("a", amount=D("100.5"), created_at=START + 2),
    transfer("b", direction="DEBIT", amount=D("30"), fee=D("25"), created_at=START + DAY),
    transfer("c", direction="DEBIT", status="PENDING", amount=D("5"), created_at=START + 1),
    transfer("d", status="PENDING", amount=D("7"), created_at=START + DAY),
    transfer("e", status="FAILED", amount=D("9"), created_at=START),
    transfer("f", asset="USDG", balance_asset="USD", status="COMPLETE", created_at=START + DAY),
]
FRAME = pandas(ROWS)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_running_by_literal(kind: str) -> None:
    result = records(balances.running(KINDS[kind](ROWS)))
    assert [(row["id"], row["asset"], row["balance"]) for row in result] == [
        ("a", "USD", D("100.5")),
        ("b", "USD", D("45.5")),
        ("f", "USD", D("55.5")),
    ]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_available_counts_pending_debits(kind: str) -> None:
    result = records(balances.running(KINDS[kind](ROWS), view="available"))
    assert [(row["id"], row["balance"]) for row in result] == [
        ("c", D("-5")),
        ("a", D("95.5")),
        ("b", D("40.5")),
        ("f", D("50.5")),
    ]


def test_running_keeps_every_column_and_its_type() -> None:
    frame = decimal_typed(ROWS).assign(metadata=[{"k": 1}, None, "x", 3, [], {}])
    frame.index = pd.Index(list("uvwxyz"))
    before = frame.copy(deep=True)
    result = balances.running(frame)
    assert list(result.columns) == [*frame.columns, "balance"]
    for name in frame.columns:
        assert result[name].dtype == frame[name].dtype, name
    assert result["balance"].dtype == DecimalDtype()
    assert result["metadata"].tolist() == [{"k": 1}, None, {}]
    assert result["created_at"].astype("int64").tolist() == [START + 2, START + DAY, START + DAY]
    assert result.index.tolist() == [0, 1, 2]
    pd.testing.assert_frame_equal(frame, before)


def test_running_widens_a_category_of_assets() -> None:
    frame = pandas(ROWS)
    frame["asset"] = frame["asset"].astype("category")
    frame["balance_asset"] = frame["balance_asset"].replace({"USD": "EURX"})
    assert balances.running(frame)["asset"].tolist() == ["USD", "USD", "EURX"]


def test_running_over_a_relation_is_a_relation_with_nanoseconds() -> None:
    result = balances.running(relation(ROWS))
    assert type(result).__name__ == "DuckDBPyRelation"
    assert result.columns == [*arrow(ROWS).column_names, "balance"]
    assert str(result.types[-1]) == "DECIMAL(38,18)"
    moments = result.project("epoch_ns(created_at)").fetchall()
    assert [moment for (moment,) in moments] == [START + 2, START + DAY, START + DAY]


@given(rows=transfers(), view=st.sampled_from(["ledger", "available"]))
@laws
def test_running_equals_the_loop(rows: list[Row], view: str) -> None:
    result = records(balances.running(pandas(rows), view=view))
    found = [(row["id"], row["asset"], row["balance"]) for row in result]
    assert found == running_by_hand(rows, view)


@given(rows=transfers(), view=st.sampled_from(["ledger", "available"]), days=st.integers(-1, 250))
@laws
def test_at_equals_the_loop(rows: list[Row], view: str, days: int) -> None:
    when = START + days * DAY + 1
    stamp = pd.Timestamp(when, unit="ns", tz="UTC")
    result = records(balances.at(arrow(rows), stamp, view=view))
    found = {(row["profile_id"], row["asset"]): row["balance"] for row in result}
    assert found == at_by_hand(rows, when, view)
    assert list(found) == sorted(found)


@given(rows=transfers(), opened=st.decimals("0", "1000000", places=18))
@laws
def test_opening_and_changes_make_the_closing(rows: list[Row], opened: Decimal) -> None:
    opening = pa.table(
        {
            "profile_id": ["p1", "p9"],
            "asset": ["USD", "USD"],
            "balance": pa.array([opened, opened], pa.decimal128(38, 18)),
        }
    )
    closing = records(balances.at(arrow(rows), "2030-01-01", opening))
    expected = {("p1", "USD"): opened, ("p9", "USD"): opened}
    for row in rows:
        signed = change(row, "ledger")
        if signed is not None:
            expected[key(row)] = exact_sum([expected.get(key(row), D(0)), signed])
    found = {(row["profile_id"], row["asset"]): row["balance"] for row in closing}
    assert found == expected
    last = {}
    for row in records(balances.running(arrow(rows), opening)):
        last[row["profile_id"], row["asset"]] = row["balance"]
    assert last == {name: expected[name] for name in last}


@pytest.mark.parametrize("when", ["2026-13-01", "2026-02-30", "9999-12-31"])
def test_a_date_that_is_not_one_is_refused_under_the_name_that_the_caller_gave_it(
    when: str,
) -> None:
    with pytest.raises(AnalysisError, match=f"^when='{when}' is not "):
        balances.at(pandas(ROWS), when)


def test_at_includes_its_own_nanosecond_and_not_the_next() -> None:
    frame = pandas(ROWS)
    assert records(balances.at(frame, "2026-01-01T00:00:00.000000001Z")) == []
    assert records(balances.at(frame, "2026-01-01T00:00:00.000000002Z")) == [
        {"profile_id": "p1", "asset": "USD", "balance": D("100.5")}
    ]


@pytest.mark.parametrize("when", ["2026-01-02", date(2026, 1, 2)], ids=["text", "date"])
def test_at_a_bare_date_is_its_close_as_daily_and_statement_have_it(when: Any) -> None:
    second = START + DAY  # 2026-01-02T00:00Z; in Zurich that day ends at 23:00Z
    rows = [
        transfer("early", amount=D("100"), created_at=second - 1),
        transfer("in", amount=D("20"), created_at=second + DAY // 2),
        transfer("late", amount=D("3"), created_at=second + DAY - DAY // 48),
        transfer("after", amount=D("1"), created_at=second + DAY),
    ]
    for tz, close in (("UTC", D("123")), ("Europe/Zurich", D("120"))):
        assert records(balances.at(pandas(rows), when, tz=tz))[0]["balance"] == close
        daily = records(balances.daily(pandas(rows), tz=tz, until=when))
        assert daily[-1]["balance"] == close
        statement = balances.statement(pandas(rows), "2026-01-02", tz=tz)
        assert records(statement)[0]["closing"] == close
    midnight = pd.Timestamp("2026-01-02", tz="UTC")  # a moment, though it is a day's first
    assert records(balances.at(pandas(rows), midnight))[0]["balance"] == D("100")


@given(
    rows=transfers(),
    tz=st.sampled_from(["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Auckland"]),
)
@laws
def test_daily_equals_the_loop(rows: list[Row], tz: str) -> None:
    zone = ZoneInfo(tz)
    result = records(balances.daily(pandas(rows), tz=tz))
    expected = []
    for profile, asset in sorted({key(row) for row in rows if change(row, "ledger") is not None}):
        counting = [
            (day_by_hand(row["created_at"], zone), change(row, "ledger"))
            for row in rows
            if key(row) == (profile, asset) and change(row, "ledger") is not None
        ]
        days = pd.date_range(min(counting)[0], max(counting)[0])
        expected += [
            {
                "profile_id": profile,
                "asset": asset,
                "date": f"{day:%Y-%m-%d}",
                "balance": exact_sum(c for d, c in counting if d <= f"{day:%Y-%m-%d}"),
            }
            for day in days
        ]
    assert result == expected


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_daily_fills_days_until_the_one_given(kind: str) -> None:
    rows = [transfer("a", created_at=START), transfer("b", created_at=START + 2 * DAY)]
    result = records(balances.daily(KINDS[kind](rows), until="2026-01-05"))
    assert [(row["date"], row["balance"]) for row in result] == [
        ("2026-01-01", D(10)),
        ("2026-01-02", D(10)),
        ("2026-01-03", D(20)),
        ("2026-01-04", D(20)),
        ("2026-01-05", D(20)),
    ]
    early = records(balances.daily(KINDS[kind](rows), until="2026-01-02"))
    assert [row["date"] for row in early] == ["2026-01-01", "2026-01-02"]
    assert records(balances.daily(KINDS[kind](rows), until="2025-12-31")) == []


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("2026-01-03", [10, 10, 10]),  # the day before a change,
        ("2026-01-04", [10, 10, 10, 15]),  # that of it, the one after
        ("2026-01-05", [10, 10, 10, 15, 15]),
        ("2026-01-09", [10, 10, 10, 15, 15, 15, 15, 15, 16]),
        ("2026-03-08", [10] * 3 + [15] * 5 + [16] * 59),  # more than 64 days of no change
        ("2026-04-30", [10] * 3 + [15] * 5 + [16] * 112),
        (None, [10, 10, 10, 15, 15, 15, 15, 15, 16]),
    ],
)
def test_daily_until_a_day_among_changes(until: str | None, expected: list[int]) -> None:
    days = {0: 10, 3: 5, 8: 1}
    rows = [transfer(f"t{day}", created_at=START + day * DAY, amount=D(amount))
            for day, amount in days.items()]  # fmt: skip
    found = records(balances.daily(pandas(rows), until=until))
    assert [row["balance"] for row in found] == expected
    first = date(2026, 1, 1).toordinal()
    assert [row["date"] for row in found] == [
        date.fromordinal(first + place).isoformat() for place in range(len(expected))
    ]


@pytest.mark.parametrize("apart", [1, 63, 64, 65, 128])
def test_daily_has_each_day_once_however_long_nothing_moved(apart: int) -> None:
    rows = [transfer(f"t{day}", created_at=START + day * DAY) for day in (0, apart)]
    for until in (None, date(2026, 1, 1) + timedelta(days=apart)):
        found = records(balances.daily(pandas(rows), until=until))
        assert [row["balance"] for row in found] == [10] * apart + [20]
        assert len({row["date"] for row in found}) == apart + 1


def test_a_change_without_an_id_is_refused() -> None:
    with pytest.raises(AnalysisError, match="transfers: id is missing"):
        balances.changes(pandas([transfer("a") | {"id": None}]))


def test_daily_at_the_moment_when_midnight_comes_twice() -> None:
    """On 2026-10-25 in Beirut, as the day begins, clocks go back to 23:00 of the day before."""
    midnight = int(pd.Timestamp("2026-10-24T21:00Z").value)
    rows = [
        transfer(name, created_at=midnight + after)
        for name, after in (("before", -1), ("at", 0), ("again", DAY // 24))
    ]
    found = records(balances.daily(pandas(rows), tz="Asia/Beirut"))
    assert [(row["date"], row["balance"]) for row in found] == [
        ("2026-10-24", D(20)),
        ("2026-10-25", D(30)),
    ]


def test_daily_over_a_clock_change_in_new_york() -> None:
    """On 2026-03-08 clocks go from 02:00 to 03:00: the day has 23 hours."""
    hour = DAY // 24
    midnight = START + 66 * DAY + 5 * hour  # 2026-03-08T05:00Z
    rows = [
        transfer("before", created_at=midnight - 1),
        transfer("first", created_at=midnight),
        transfer("last", created_at=midnight + 23 * hour - 1),
        transfer("next", created_at=midnight + 23 * hour),
    ]
    result = records(balances.daily(pandas(rows), tz="America/New_York"))
    assert [(row["date"], row["balance"]) for row in result] == [
        ("2026-03-07", D(10)),
        ("2026-03-08", D(30)),
        ("2026-03-09", D(40)),
    ]


def test_no_transfers_give_typed_empty_frames() -> None:
    nothing = pandas([])
    daily = balances.daily(nothing)
    assert balances.running(nothing)["balance"].dtype == DecimalDtype()
    assert daily.merge(daily, on=["profile_id", "asset"]).empty


def test_any_column_of_times_can_order() -> None:
    rows = [
        transfer("a", created_at=START, updated_at=START + 2),
        transfer("b", created_at=START + 1, updated_at=START + 1),
    ]
    assert balances.running(pandas(rows), by="updated_at")["id"].tolist() == ["b", "a"]


def test_too_large_a_sum_is_an_error_never_a_wrong_number() -> None:
    huge = D("60000000000000000000")
    rows = [transfer("a", amount=huge), transfer("b", amount=huge)]
    for kind in ("decimal", "arrow"):
        with pytest.raises(OverflowError, match="20 integer digits"):
            balances.at(KINDS[kind](rows), "2030-01-01")
        with pytest.raises(OverflowError, match="20 integer digits"):
            balances.running(KINDS[kind](rows))
    rows[1]["direction"] = "DEBIT"
    assert records(balances.at(arrow(rows), "2030-01-01"))[0]["balance"] == 0


def test_the_largest_and_smallest_amounts_are_exact() -> None:
    large, small = D("99999999999999999999.999999999999999999"), D("0.000000000000000001")
    rows = [
        transfer("a", amount=large),
        transfer("b", amount=small, direction="DEBIT", created_at=START + 1),
    ]
    result = records(balances.running(decimal_typed(rows)))
    assert [row["balance"] for row in result] == [large, exact_sum([large, -small])]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ({"status": "SETTLED"}, r"status 'SETTLED' is not one of .*\(id bad\)"),
        ({"direction": "SIDEWAYS"}, r"direction 'SIDEWAYS' is not one of .*\(id bad\)"),
        ({"status": None}, r"status is missing \(id bad\)"),
        ({"total": None}, r"total is missing \(id bad\)"),
        ({"profile_id": None}, r"profile_id is missing \(id bad\)"),
        ({"created_at": None}, r"created_at is missing \(id bad\)"),
    ],
)
@pytest.mark.parametrize("kind", ["objects", "arrow", "duckdb"])
def test_rows_nobody_can_count_are_named(kind: str, spoil: Row, message: str) -> None:
    rows = [transfer("good"), {**transfer("bad"), **spoil}]
    with pytest.raises(AnalysisError, match=message):
        balances.running(KINDS[kind](rows))


def test_at_most_five_rows_are_named() -> None:
    rows = [transfer(f"t{number}", status="ODD") for number in range(9)]
    with pytest.raises(AnalysisError, match=r"id t0, t1, t2, t3, t4 and more\)"):
        balances.running(pandas(rows))


def test_a_gap_in_a_row_that_does_not_count_is_no_error() -> None:
    rows = [transfer("a"), {**transfer("b", status="FAILED"), "total": None}]
    assert len(balances.running(pandas(rows))) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FRAME.drop(columns=["total", "id"]), r"no column 'id', 'total'; needed are"),
        (lambda: arrow(ROWS).drop_columns(["status"]), r"no column 'status'"),
        (lambda: relation(ROWS).project("* EXCLUDE (asset)"), r"no column 'asset'"),
        (lambda: FRAME.astype({"total": "float64"}), r"'total' holds double; exact decimals"),
        (lambda: FRAME.assign(total=1.5), r"'total' holds double"),
        (
            lambda: FRAME.assign(total=pd.array(["1.5"] * 6, "string")),
            r"'total' holds .*string; exact decimals",
        ),
        (lambda: FRAME.assign(total=[D("NaN")] * 6), r"total is missing"),
        (lambda: FRAME.assign(total=[D("1E-19")] * 6), r"'total' does not hold exact decimals"),
        (lambda: FRAME.assign(created_at=pd.Timestamp("2026-01-01")), r"with a time zone"),
        (lambda: FRAME.assign(balance=1), r"already has a column 'balance'"),
        (lambda: relation(ROWS).project("* REPLACE (1.5::DOUBLE AS total)"), r"holds DOUBLE"),
    ],
)
def test_frames_that_cannot_be_used_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        balances.running(make())


@pytest.mark.parametrize("frame", [None, 7, "transfers.csv", [{"id": "a"}], np.zeros(3)])
def test_what_is_no_frame_is_refused(frame: object) -> None:
    with pytest.raises(AnalysisError, match="not a frame that an analysis takes"):
        balances.running(frame)


def test_arguments_that_make_no_sense_are_refused() -> None:
    frame = pandas(ROWS)
    with pytest.raises(AnalysisError, match="view='net' is not one of ledger, available"):
        balances.running(frame, view="net")  # type: ignore[arg-type]
    with pytest.raises(AnalysisError, match="tz='Mars/Olympus' is not a valid time zone"):
        balances.daily(frame, tz="Mars/Olympus")
    until: Any
    for until in ("soon", 5, 1.5, True, "03/04/2026", "2026-10", "2026-02-30", "", " 2026-10-01"):
        with pytest.raises(AnalysisError, match=f"until={until!r} is not a day"):
            balances.daily(frame, until=until)
    for until in ("9999-12-31", "3000-01-01", "1677-12-31", date(9999, 12, 31)):
        with pytest.raises(AnalysisError, match="is not within the years 1678 to 2261"):
            balances.daily(frame, until=until)
    with pytest.raises(AnalysisError, match="until is missing"):
        balances.daily(frame, until=pd.NaT)  # type: ignore[arg-type]
    doubled = pd.DataFrame({"profile_id": ["p"] * 2, "asset": ["USD"] * 2, "balance": [1, 2]})
    with pytest.raises(
        AnalysisError, match="opening: more than one row of profile_id and asset p USD"
    ):
        balances.at(frame, "2026-01-01", doubled)
    unknown = pd.DataFrame({"profile_id": ["p", "q"], "asset": ["USD", None], "balance": [1, 2]})
    with pytest.raises(AnalysisError, match=r"opening: asset is missing \(profile_id q\)"):
        balances.at(frame, "2026-01-01", unknown)


def test_naive_integers_are_exact_money() -> None:
    frame = pandas(ROWS).assign(total=[3, 2, 1, 1, 1, 1])
    assert balances.running(frame)["balance"].tolist() == [D(3), D(1), D(2)]


OF_A_PERIOD: list[Callable[..., Any]] = [
    balances.statement,
    balances.roll_forward,
    lambda rows, period, tz: fl.books.entries(rows, period=period, tz=tz),
    lambda rows, period, tz: fl.fees.summary(rows, ["type", "asset"], period=period, tz=tz),
    lambda rows, period, tz: fl.flux.explain(rows, period=period, tz=tz),
    lambda rows, period, tz: fl.audit.sample(period, rows, size=5, seed=1, tz=tz).rows,
]


@pytest.mark.parametrize(
    ("until", "tz"), [("2026-09-01", "UTC"), ("2026-08-31T22:00:00Z", "Europe/Zurich")]
)
def test_rows_that_were_cut_off_are_not_taken_for_none(until: str, tz: str) -> None:
    """Up to the cut the figures are those of all rows; later ones are refused."""
    store = fl.sample()
    every, cut = store.read("transfers"), store.read("transfers", until=until)
    end = pd.Timestamp("2026-09-01", tz=tz)
    last = end - pd.Timedelta(1, "ns")
    asked: list[tuple[str, Any, Any, Any]] = [
        ("when", lambda rows, day: balances.at(rows, day, tz=tz), "2026-08-31", "2026-09-01"),
        ("when", balances.at, last, end),
        ("until", lambda rows, day: balances.daily(rows, tz, day), "2026-08-31", "2026-09-01"),
        ("as_of", fl.flows.ageing, last, end),
        *(("period", partial(ask, tz=tz), "2026-08", "2026-Q3") for ask in OF_A_PERIOD),
    ]
    says = "the transfers were read with until=2026-"
    for name, ask, there, beyond in asked:
        pd.testing.assert_frame_equal(ask(cut, there), ask(every, there))
        with pytest.raises(AnalysisError, match=f"^{name}={re.escape(str(beyond))}: {says}"):
            ask(cut, beyond)
    assert len(balances.at(every, "2030-01-01")) == len(balances.at(every, "2026-10-31"))


def test_a_day_that_was_cut_off_has_no_close() -> None:
    cut = fl.sample().read("transfers", until="2026-10-15T12:00:00Z")
    with pytest.raises(AnalysisError, match=r"^until=2026-10-15: the transfers"):
        balances.daily(cut)
    assert str(balances.daily(cut, until="2026-10-14")["date"].max())[:10] == "2026-10-14"


def test_a_pair_of_bare_dates_is_of_the_zone_as_the_month_is() -> None:
    late = int(pd.Timestamp("2026-04-30T23:00:00Z").value)  # which is May in Paris
    rows = decimal_typed([transfer("a", created_at=late, updated_at=late)])
    month = fl.balances.roll_forward(rows, "2026-05", tz="Europe/Paris")
    pair = fl.balances.roll_forward(rows, ("2026-05-01", "2026-06-01"), tz="Europe/Paris")
    assert records(pair) == records(month)
    assert records(month) != records(fl.balances.roll_forward(rows, "2026-05"))


def test_numpys_day_is_a_day() -> None:
    at = int(pd.Timestamp("2026-05-29T12:00:00Z").value)
    rows = decimal_typed([transfer("a", created_at=at, updated_at=at)])
    wanted = records(fl.balances.at(rows, "2026-05-29"))
    assert records(fl.balances.at(rows, np.datetime64("2026-05-29"))) == wanted != []
