from __future__ import annotations

from collections import defaultdict
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transfer_examples import (
    DAY,
    EVERY_KIND,
    KINDS,
    SCHEMA,
    START,
    Row,
    arrow,
    decimal_typed,
    exact_sum,
    key,
    laws,
    pandas,
    records,
    transfer,
    transfers,
)

from fundlab.analysis import checks, fees, flows
from fundlab.base.errors import AnalysisError, MixedAssetsWarning

D = Decimal
HOUR = DAY // 24
DEBIT: Row = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}
ROWS = [
    transfer("a", amount=D("100")),
    transfer("b", **DEBIT, amount=D("10000"), fee=D("25"), created_at=START + 20 * DAY),
    transfer("c", **DEBIT, amount=D("3"), fee=D("1"), created_at=START + 40 * DAY),
    transfer("d", **DEBIT, amount=D("5"), fee=D("25"), status="FAILED"),
    transfer("e", **DEBIT, amount=D("0"), fee=D("2"), status="COMPLETE", asset="USDC"),
    transfer("f", asset="USDG", balance_asset="USD", amount=D("7"), created_at=START + 20 * DAY),
]


OF_ARROW: dict[str, Any] = {
    "pandas": lambda rows: rows.to_pandas(),
    "arrow": lambda rows: rows,
    "polars": pl.from_arrow,
    "duckdb": lambda rows: duckdb.connect().from_arrow(rows),
}


def completed(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["status"] in ("COMPLETED", "COMPLETE")]


def label(moment: int, freq: str) -> str:
    stamp = pd.Timestamp(moment, unit="ns", tz="UTC")
    if freq == "D":
        stamp = stamp.normalize()
    elif freq == "MS":
        stamp = stamp.normalize().replace(day=1)
    elif freq == "ME":
        stamp = stamp.normalize() + pd.offsets.MonthEnd(0)
    elif freq == "W":
        stamp = stamp.normalize() + pd.Timedelta(days=6 - stamp.weekday())
    else:
        stamp = stamp.floor(freq)
    return stamp.as_unit("ns").isoformat()


# ---------------------------------------------------------------------------------------- fees


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_summary_by_literal(kind: str) -> None:
    assert records(fees.summary(KINDS[kind](ROWS))) == [
        {"type": "WIRE_DEPOSIT", "asset": "USD", "count": 2, "amount": D(107), "fee": D(0)},
        {"type": "WIRE_WITHDRAWAL", "asset": "USD", "count": 2, "amount": D(10003), "fee": D(26)},
        {"type": "WIRE_WITHDRAWAL", "asset": "USDC", "count": 1, "amount": D(0), "fee": D(2)},
    ]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_summary_of_a_period_begins_with_its_first_moment_and_ends_before_the_next(
    kind: str,
) -> None:
    first, end = (pd.Timestamp(START + days * DAY, unit="ns", tz="UTC") for days in (20, 40))
    both = [
        {"type": "WIRE_DEPOSIT", "asset": "USD", "count": 1, "amount": D(7), "fee": D(0)},
        {"type": "WIRE_WITHDRAWAL", "asset": "USD", "count": 1, "amount": D(10000), "fee": D(25)},
    ]
    rows = KINDS[kind](ROWS)
    assert records(fees.summary(rows, period=(first, end))) == both
    assert records(fees.summary(rows, period=f"{first:%Y-%m-%d}")) == both
    assert records(fees.summary(rows, period="1999")) == []


def test_a_period_that_is_none_is_refused() -> None:
    with pytest.raises(AnalysisError, match="period='10/2026'"):
        fees.summary(pandas(ROWS), period="10/2026")


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_effective_handles_zero_and_tiny_amounts(kind: str) -> None:
    result = records(fees.effective(KINDS[kind](ROWS), by="asset"))
    assert [(row["asset"], row["bps"]) for row in result] == [
        ("USD", D("25.7171")),  # 26 of 10110
        ("USDC", None),
    ]
    tiny = [transfer("t", **DEBIT, amount=D("1E-18"), fee=D("99999999999999999999"))]
    assert [row["bps"] for row in records(fees.effective(KINDS[kind](tiny)))] == [None]
    for fee, bps in (("1", None), ("0.5", D("5E19")), ("0.999999", D("99999900000000000000"))):
        edge = [transfer("t", **DEBIT, amount=D("1E-16"), fee=D(fee))]
        assert [row["bps"] for row in records(fees.effective(KINDS[kind](edge)))] == [bps]
    small = [transfer("t", **DEBIT, amount=D("1E-18"), fee=D("0.000000000000000003"))]
    assert [row["bps"] for row in records(fees.effective(KINDS[kind](small)))] == [D(30_000)]


def test_summary_by_other_columns_keeps_missing_values_as_a_group() -> None:
    frame = decimal_typed([{**row, "asset": "USD"} for row in ROWS])
    frame = frame.assign(crypto_network=["SOLANA", None, None, None, "BASE", None])
    result = records(fees.summary(frame, by=["crypto_network"]))
    assert [(row["crypto_network"], row["count"]) for row in result] == [
        ("BASE", 1),
        ("SOLANA", 1),
        (None, 3),
    ]


@given(rows=transfers(), freq=st.sampled_from([None, "D", "W", "MS", "ME", "h", "6h"]))
@laws
def test_summary_equals_the_loop(rows: list[Row], freq: str | None) -> None:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in completed(rows):
        period = () if freq is None else (label(row["created_at"], freq),)
        groups[row["type"], key(row)[1], *period].append(row)
    expected = [
        (*name, len(group), *(exact_sum(row[sum_] for row in group) for sum_ in ("amount", "fee")))
        for name, group in sorted(groups.items())
    ]  # fmt: skip
    found = records(fees.summary(pandas(rows), freq=freq))
    assert [tuple(row.values()) for row in found] == expected


@given(rows=transfers())
@laws
def test_basis_points_equal_the_quotient(rows: list[Row]) -> None:
    exact = Context(prec=100, rounding=ROUND_HALF_EVEN)
    found = [row for row in rows if row["amount"] > 1]
    for row in records(fees.effective(arrow(found), by=["asset"])):
        right = exact.divide(exact.multiply(row["fee"], D(10_000)), row["amount"])
        assert row["bps"] == right.quantize(D("0.0001"), context=exact)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_that_amounts_of_two_assets_are_added_up_is_said(kind: str) -> None:
    two = [transfer("a", amount=D(1), asset="BTC"), transfer("b", amount=D(5))]
    for function in (fees.summary, fees.effective):
        for by in ("type", ["profile_id"]):
            said = r"by=.* adds up amounts of several assets, BTC and USD among them: put 'asset'"
            with pytest.warns(MixedAssetsWarning, match=said) as warned:
                found = function(KINDS[kind](two), by=by)
            assert warned[0].filename == __file__
            assert [row["count"] for row in records(found)] == [2]
        assert [row["amount"] for row in records(function(KINDS[kind](two[1:]), by="type"))] == [5]
        assert len(records(function(KINDS[kind](two), by=["asset", "type"]))) == 2
    undone = [{**two[0], "status": "FAILED"}, two[1]]
    assert [row["amount"] for row in records(fees.summary(KINDS[kind](undone), by="type"))] == [5]


@pytest.mark.parametrize(
    "by", [[], ["type", "type"], ["fee"], [7], None, 5, ["total"], "created_at"]
)
def test_by_must_name_different_text_columns(by: Any) -> None:
    with pytest.raises(
        AnalysisError, match=r"give different text columns, .* months are freq='MS'"
    ):
        fees.summary(pandas(ROWS), by=by)


def test_period_may_stand_anywhere_among_by() -> None:
    found = records(fees.summary(pandas(ROWS), by=["period", "asset"], freq="MS"))
    assert [tuple(row.values()) for row in found] == [
        ("2026-01-01T00:00:00+00:00", "USD", 3, D(10107), D(25)),
        ("2026-01-01T00:00:00+00:00", "USDC", 1, D(0), D(2)),
        ("2026-02-01T00:00:00+00:00", "USD", 1, D(3), D(1)),
    ]
    dollars = [row for row in ROWS if row["asset"] != "USDC"]
    alone = records(fees.summary(pandas(dollars), by="period", freq="YS"))
    assert [(row["count"], row["fee"]) for row in alone] == [(4, D(26))]
    with pytest.raises(AnalysisError, match="by='period' needs freq"):
        fees.summary(pandas(ROWS), by="period")


BY = ["type", "asset", "crypto_network", "profile_id", "status", "direction", "id",
      "balance_asset", "group_id", "fiat_account_id", "day", "step", "change"]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("kind", OF_ARROW)
@pytest.mark.parametrize("by", BY)
def test_summary_by_any_text_column(by: str, kind: str) -> None:
    """Also by the columns every analysis uses, and by names of our own steps on the way."""
    extra = {name: name for name in BY if name not in transfer("a")}
    rows = [{**row, **extra} for row in ROWS if by == "asset" or row["asset"] != "USDC"]
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in completed(rows):
        groups[key(row)[1] if by == "asset" else row[by]].append(row)
    order = sorted(groups, key=lambda name: (name is None, name))
    texts = [(name, pa.string()) for name in extra]
    frame = pa.Table.from_pylist(rows, schema=pa.schema([*SCHEMA, *texts]))
    found = records(fees.summary(OF_ARROW[kind](frame), by=by))
    assert [tuple(row.values()) for row in found] == [
        (name, len(groups[name]), exact_sum(row["amount"] for row in groups[name]),
         exact_sum(row["fee"] for row in groups[name]))
        for name in order
    ]  # fmt: skip
    for freq in ("D", "6h"):
        periods = records(fees.effective(OF_ARROW[kind](frame), by=by, freq=freq))
        assert sum(row["count"] for row in periods) == len(completed(rows))


@pytest.mark.parametrize(
    ("freq", "message"),
    [
        ("XX", "^freq='XX' is not a valid pandas offset alias; give one such as 'D', 'W' or 'MS'$"),
        ("7h", "freq='7h' does not divide a day evenly"),
        ("1ns", "freq='1ns' is below a microsecond; choose a longer one"),
        ("us", r"^freq='us' makes \d+ periods; choose a longer one"),
        ("-1D", "freq='-1D' runs backwards"),
        ("-1h", "freq='-1h' runs backwards"),
        ("0h", "freq='0h' has no length"),
        ("0D", "freq='0D' has no length"),
        (5, "freq=5 is not a valid pandas offset alias"),
        ("quarterly", "alias; for each quarter give 'QS', or 'QE' for the label of its end$"),
    ],
)
def test_frequencies_that_cannot_be_used_are_refused(freq: Any, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        fees.summary(pandas(ROWS), freq=freq)


def test_clock_frequencies_are_of_utc_and_say_how_many_periods_would_be() -> None:
    with pytest.raises(AnalysisError, match="freq='h' within a day needs tz='UTC', not 'Asia/Tok"):
        fees.summary(pandas(ROWS), freq="h", tz="Asia/Tokyo")
    rows = [transfer("a", created_at=START), transfer("b", created_at=START + 12 * 10**9)]
    with pytest.raises(AnalysisError, match="freq='us' makes 12000000 periods; choose a longer"):
        fees.summary(pandas(rows), freq="us")


# --------------------------------------------------------------------------------------- flows


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_net_by_literal(kind: str) -> None:
    found = records(flows.net(KINDS[kind](ROWS), "MS"))
    assert [tuple(row.values()) for row in found] == [
        ("2026-01-01T00:00:00+00:00", "p1", "USD", D(107), D(10025), D(-9918)),
        ("2026-01-01T00:00:00+00:00", "p1", "USDC", D(0), D(2), D(-2)),
        ("2026-02-01T00:00:00+00:00", "p1", "USD", D(0), D(4), D(-4)),
    ]


@given(rows=transfers(), freq=st.sampled_from(["D", "W", "MS", "ME", "h", "15min"]))
@laws
def test_net_equals_the_loop(rows: list[Row], freq: str) -> None:
    sums: dict[tuple[Any, ...], dict[str, list[Decimal]]] = {}
    for row in completed(rows):
        name = (label(row["created_at"], freq), *key(row))
        sides = sums.setdefault(name, {"CREDIT": [], "DEBIT": []})
        sides[row["direction"]].append(row["total"])
    expected = [
        (*name, exact_sum(sides["CREDIT"]), exact_sum(sides["DEBIT"]),
         exact_sum([*sides["CREDIT"], *(-total for total in sides["DEBIT"])]))
        for name, sides in sorted(sums.items())
    ]  # fmt: skip
    found = records(flows.net(pandas(rows), freq))
    assert [tuple(row.values()) for row in found] == expected


@given(
    rows=transfers(),
    freq=st.sampled_from(["D", "W", "W-WED", "MS", "ME", "QS", "QE", "YS", "2D", "3W", "B", "SMS"]),
    tz=st.sampled_from(["UTC", "America/New_York", "Asia/Beirut"]),
)
@laws
def test_periods_are_those_of_pandas_grouper(rows: list[Row], freq: str, tz: str) -> None:
    done = completed(rows)
    found = flows.net(pandas(done), freq, tz)["period"].drop_duplicates()
    local = pd.DatetimeIndex([row["created_at"] for row in done], tz="UTC").tz_convert(tz)
    days = pd.Series(1, index=local.tz_localize(None))
    sizes = days.groupby(pd.Grouper(freq=freq)).size()
    labels = sizes[sizes > 0].index.tz_localize(tz, nonexistent="shift_forward", ambiguous=True)
    assert found.tolist() == labels.tz_convert("UTC").tolist()


def test_a_week_over_a_clock_change_in_new_york() -> None:
    """The week to Sunday 2026-03-08 has 167 hours: from 03-02T05:00Z to 03-09T04:00Z."""
    first, last = START + 60 * DAY + 5 * HOUR, START + 67 * DAY + 4 * HOUR - 1
    rows = [
        transfer(str(moment), created_at=moment) for moment in (first - 1, first, last, last + 1)
    ]
    found = flows.net(pandas(rows), "W", "America/New_York")
    assert [f"{stamp:%Y-%m-%d %H:%M}" for stamp in found["period"]] == [
        "2026-03-01 05:00",
        "2026-03-08 05:00",
        "2026-03-15 04:00",
    ]
    assert found["inflow"].tolist() == [D(10), D(20), D(10)]


HALF_DEBIT: Row = {"direction": "DEBIT", "type": "INTERNAL_TRANSFER_DEBIT"}
HALF_CREDIT: Row = {"direction": "CREDIT", "type": "INTERNAL_TRANSFER_CREDIT"}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_internal_pairs_by_literal(kind: str) -> None:
    rows = [
        transfer("d1", **HALF_DEBIT, group_id="g1"),
        transfer("c1", **HALF_CREDIT, group_id="g1", status="COMPLETE"),
        transfer("d2", **HALF_DEBIT, group_id="g2"),
        transfer("c2", **HALF_CREDIT, group_id="g2", amount=D("9.99")),
        transfer("d3", **HALF_DEBIT, group_id="g3"),
        transfer("c4", **HALF_CREDIT, group_id="g4"),
        transfer("c5", **HALF_CREDIT),
        transfer("d6", **HALF_DEBIT, group_id="g6"),
        transfer("c6", **HALF_CREDIT, group_id="g6", created_at=START + 5),
        transfer("c7", **HALF_CREDIT, group_id="g6", created_at=START + 6),
        transfer("d8", **HALF_DEBIT, group_id="g8"),
        transfer("c8", **HALF_CREDIT, group_id="g8", status="FAILED"),
        transfer("x", group_id="g1"),
    ]
    found = records(flows.internal_pairs(KINDS[kind](rows)))
    assert [tuple(row.values()) for row in found] == [
        ("g1", "d1", "c1", "USD", D(10), "paired"),
        ("g2", "d2", "c2", "USD", D(10), "mismatch"),
        ("g3", "d3", None, "USD", D(10), "orphan_debit"),
        ("g4", None, "c4", "USD", D(10), "orphan_credit"),
        ("g6", "d6", "c6", "USD", D(10), "paired"),
        ("g6", None, "c7", "USD", D(10), "orphan_credit"),
        ("g8", "d8", "c8", "USD", D(10), "mismatch"),
        (None, None, "c5", "USD", D(10), "orphan_credit"),
    ]


@given(rows=transfers())
@laws
def test_every_half_is_in_exactly_one_pair(rows: list[Row]) -> None:
    found = records(flows.internal_pairs(arrow(rows)))
    for column, kind in (("debit_id", HALF_DEBIT), ("credit_id", HALF_CREDIT)):
        halves = sorted(row["id"] for row in rows if row["type"] == kind["type"])
        assert sorted(row[column] for row in found if row[column]) == halves
    groups = {row["group_id"] for row in rows if "INTERNAL" in row["type"]} - {None}
    for group in groups:
        mine = [row for row in rows if row["group_id"] == group and "INTERNAL" in row["type"]]
        debits = sum(row["direction"] == "DEBIT" for row in mine)
        matched = [r for r in found if r["group_id"] == group and r["debit_id"] and r["credit_id"]]
        assert len(matched) == min(debits, len(mine) - debits)


@pytest.mark.parametrize("kind", EVERY_KIND[:-1])
def test_settlement_time_by_literal(kind: str) -> None:
    rows = [
        transfer(str(n), updated_at=START + n * 60_000_000_000 + 1, status=status)
        for n, status in enumerate(["COMPLETED"] * 10 + ["COMPLETE", "FAILED", "PENDING"])
    ]
    (found,) = records(flows.settlement_time(KINDS[kind](rows)))
    assert found == {
        "type": "WIRE_DEPOSIT",
        "count": 11,
        "p50": pd.Timedelta("5min 1ns"),
        "p90": pd.Timedelta("9min 1ns"),
        "p99": pd.Timedelta("9min 54s 1ns"),
        "max": pd.Timedelta("10min 1ns"),
    }


def test_settlement_time_is_to_settled_at_where_it_is_and_whole_in_duckdb() -> None:
    late = START + 19 * DAY  # a later change of the row, which is no settlement
    settled = pa.array([START + 300_000_000_600], pa.int64()).cast(pa.timestamp("ns", "UTC"))
    rows = arrow([transfer("a", updated_at=late)]).append_column("settled_at", settled)
    assert records(flows.settlement_time(rows))[0]["max"] == pd.Timedelta("5min 600ns")
    relation = duckdb.connect().from_arrow(rows)
    assert flows.settlement_time(relation).df()["max"][0] == pd.Timedelta("5min 1us")


# -------------------------------------------------------------------------------------- checks


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_invariants_name_each_violation(kind: str) -> None:
    rows = [
        *ROWS,
        {**transfer("t1"), "total": D("9.5")},
        {**transfer("t2", **DEBIT, fee=D("1.25")), "total": D("11.250000000000000001")},
        transfer("t3", direction="DEBIT"),
        transfer("t4", created_at=START + 5, updated_at=START + 3),
        transfer("t5"),
        transfer("t5"),
        {**transfer("t6"), "fee": None},
        transfer("t7", status="ODD"),
        transfer("t8", amount=D("-1"), fee=D("0")),
    ]
    rows += [{**transfer("t9"), "id": None}, {**transfer("t9"), "id": None}]
    found = records(checks.invariants(KINDS[kind](rows)))
    assert [tuple(row.values()) for row in found] == [
        ("t1", "total", "10", "9.5"),
        ("t2", "total", "11.25", "11.250000000000000001"),
        ("t3", "direction_of_type", "CREDIT", "DEBIT"),
        ("t4", "updated_at", "created_at or later", "2 ns before created_at"),
        ("t5", "unique_id", "1 row", "2 rows"),
        ("t6", "required", "a value in fee", "nothing"),
        ("t7", "status", "PENDING or COMPLETED or FAILED or COMPLETE", "ODD"),
        ("t8", "not_negative", "amount of 0 or more", "-1"),
        ("t8", "not_negative", "total of 0 or more", "-1"),
        (None, "required", "a value in id", "nothing"),
        (None, "required", "a value in id", "nothing"),
    ]


@pytest.mark.parametrize(
    ("complete", "since", "broken"),
    [(None, None, True), (None, "2026-01-01", False), (False, None, False),
     (True, "2026-01-01", True)],
)  # fmt: skip
def test_the_other_end_of_a_conversion_is_looked_for_among_all_transfers(
    complete: bool | None, since: str | None, broken: bool
) -> None:
    rows = arrow([transfer("a")]).append_column(
        "auto_conversion", pa.array(['{"from_transfer_id": "b"}'])
    )
    frame = rows.to_pandas(types_mapper=pd.ArrowDtype)
    frame.attrs["since"] = since
    found = records(checks.invariants(frame, complete))
    assert [row["rule"] for row in found] == ["conversion"] * broken


def test_invariants_are_silent_when_all_hold() -> None:
    empty = checks.invariants(decimal_typed(ROWS))
    assert list(empty.columns) == ["transfer_id", "rule", "expected", "found"]
    assert empty.empty


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_an_empty_text_is_as_one_that_is_missing(kind: str) -> None:
    """Two payments to nobody are not two to one account; two halves of no group are no pair."""

    def rows(nothing: str | None) -> Any:
        none = {"fiat_account_id": nothing, "destination_address": nothing, "group_id": nothing}
        return KINDS[kind]([
            transfer("a", direction="DEBIT", type="WIRE_WITHDRAWAL", fee=D(5), **none),
            transfer("b", direction="DEBIT", type="WIRE_WITHDRAWAL", fee=D(5), **none),
            transfer("c", direction="DEBIT", type="INTERNAL_TRANSFER_DEBIT", **none),
            transfer("d", direction="CREDIT", type="INTERNAL_TRANSFER_CREDIT", profile_id="p2",
                     **none),
        ])  # fmt: skip

    for made in (
        lambda frame: fees.batching(frame, freq="MS"), checks.anomalies, flows.counterparties,
        flows.internal_pairs,
    ):  # fmt: skip
        assert records(made(rows(""))) == records(made(rows(None)))
    assert records(fees.batching(rows(""), freq="MS")) == []
    states = [row["status"] for row in records(flows.internal_pairs(rows("")))]
    assert sorted(states) == ["orphan_credit", "orphan_debit"]
