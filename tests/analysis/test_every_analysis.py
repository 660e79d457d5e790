"""What holds for every analysis alike: any order, any size, and loud about what it cannot use."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, FloatOperation, Inexact, Rounded, localcontext
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from transfer_examples import (
    DAY,
    KINDS,
    START,
    TIME,
    balances_by_hand,
    make_rows,
    observed,
    records,
    table,
)  # fmt: skip

from fundlab.analysis import balances, checks, fees, flows, flux, reconcile, value
from fundlab.analysis.counting import looked_through
from fundlab.base.errors import AnalysisError

pytestmark = pytest.mark.filterwarnings("ignore:no price in")  # of most assets here

ROWS = make_rows(150, profiles=4)
REPORTED = observed(balances_by_hand(ROWS[:-7]), START + 400 * DAY)
PRICES = pa.table({"asset": ["ETH"], "at": pa.array([START], TIME), "price": [Decimal(2500)]})
ANALYSES: dict[str, Callable[[Any], Any]] = {
    "changes": balances.changes,
    "running": balances.running,
    "at": lambda rows: balances.at(rows, "2026-06-01"),
    "daily": balances.daily,
    "statement": lambda rows: balances.statement(rows, "2026-03"),
    "holds": balances.holds,
    "roll_forward": lambda rows: balances.roll_forward(rows, "2026-03"),
    "compare": lambda rows: reconcile.compare(rows, REPORTED),
    "explain": lambda rows: reconcile.explain(rows, REPORTED),
    "invariants": checks.invariants,
    "anomalies": lambda rows: checks.anomalies(rows, dormant_for="3D"),
    "summary": fees.summary,
    "effective": fees.effective,
    "batching": lambda rows: fees.batching(rows, freq="MS"),
    "net": flows.net,
    "counterparties": flows.counterparties,
    "conversions": flows.conversions,
    "ageing": lambda rows: flows.ageing(rows, "2026-12-31"),
    "internal_pairs": flows.internal_pairs,
    "settlement_time": flows.settlement_time,
    "flux": lambda rows: flux.explain(rows, table([])),
    "value": lambda rows: value.totals(value.of(rows, prices=PRICES), "asset", freq="MS"),
}
every = pytest.mark.parametrize("name", ANALYSES)
DTYPES = {
    "daily": {"profile_id": "string", "asset": "string", "date": "datetime64[ns]",
              "balance": "decimal"},
    "batching": {"period": "datetime64[ns, UTC]",
                 **dict.fromkeys(("profile_id", "type", "asset", "target"), "string"),
                 "count": "int64",
                 **dict.fromkeys(("amount", "fee", "single_fee", "saved"), "decimal")},
    "effective": {"type": "string", "asset": "string", "count": "int64", "amount": "decimal",
                  "fee": "decimal", "bps": "decimal"},
    "conversions": {"profile_id": "string", "direction": "string", "from_asset": "string",
                    "to_asset": "string", "count": "int64", "amount": "decimal",
                    "total": "decimal", "first": "datetime64[ns, UTC]",
                    "last": "datetime64[ns, UTC]"},
    "settlement_time": {"type": "string", "count": "int64",
                        **dict.fromkeys(("p50", "p90", "p99", "max"), "timedelta64[ns]")},
}  # fmt: skip
"""In pandas, of results that hold between them every type there is."""
STRICT = Context(prec=5, Emin=-30, Emax=10, traps=[Inexact, Rounded, FloatOperation])
"""A caller's own context, in which no amount can be calculated with."""


def test_every_analysis_is_here() -> None:
    public = {
        name
        for module in (balances, checks, fees, flows, reconcile)
        for name, function in vars(module).items()
        if getattr(function, "__annotations__", {}).get("return") == "FrameT" and name[0] != "_"
    }
    assert public - ANALYSES.keys() == {"drift"}, "drift is of quotes"


@pytest.mark.thorough
@every
def test_every_kind_of_frame_gives_the_same_and_its_own_kind(name: str) -> None:
    expected = records(ANALYSES[name](KINDS["arrow"](ROWS)))
    assert expected or name in ("invariants", "batching")
    for make in KINDS.values():
        frame = make(ROWS)
        result = ANALYSES[name](frame)
        assert type(result) is type(frame)
        assert rounded(records(result)) == rounded(expected)


def rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """DuckDB's own intervals end at microseconds, and Arrow calls them something else."""
    return [{name: _microseconds(value) for name, value in row.items()} for row in rows]


def _microseconds(value: Any) -> Any:
    if isinstance(value, pa.MonthDayNano):
        value = pd.Timedelta(days=value.days) + pd.Timedelta(value.nanoseconds, "ns")
    return value.floor("us") if isinstance(value, pd.Timedelta) else value


@pytest.mark.thorough
@every
def test_the_order_of_rows_does_not_matter(name: str) -> None:
    shuffled = Random(name).sample(ROWS, len(ROWS))
    result = records(ANALYSES[name](table(shuffled)))
    if name == "running":
        assert [row["balance"] for row in result] == [
            row["balance"] for row in records(ANALYSES[name](table(ROWS)))
        ]
    else:
        assert result == records(ANALYSES[name](table(ROWS)))


@pytest.mark.thorough
@every
def test_nothing_and_one_row(name: str) -> None:
    for make in KINDS.values():
        few = [ANALYSES[name](make(rows)) for rows in ([], ROWS[:1])]
        assert len({tuple(columns_of(result)) for result in few}) == 1
        if name not in ("compare", "explain"):
            assert records(few[0]) == []


def columns_of(frame: Any) -> list[str]:
    if isinstance(frame, pl.LazyFrame):
        return frame.collect_schema().names()
    return list(frame.column_names if isinstance(frame, pa.Table) else frame.columns)


@pytest.mark.thorough
@every
def test_the_types_are_the_same_for_no_rows_as_for_many(name: str) -> None:
    if name == "running":
        pytest.skip("keeps the types of the caller's own columns, which pandas guesses when empty")
    many, none = (ANALYSES[name](table(rows).to_pandas()) for rows in (ROWS, []))
    dtypes = many.dtypes.astype(str).to_dict()
    assert dtypes == none.dtypes.astype(str).to_dict() == DTYPES.get(name, dtypes)


@pytest.mark.thorough
@every
@pytest.mark.parametrize("column", ["status", "created_at"])
def test_a_column_without_values_is_refused(name: str, column: str) -> None:
    frame = table(ROWS).set_column(
        table([]).column_names.index(column), column,
        pa.nulls(len(ROWS), table([]).schema.field(column).type),
    )  # fmt: skip
    if name == "invariants":
        assert len(records(checks.invariants(frame))) >= len(ROWS)
    elif column == "created_at" and name in ("internal_pairs",):
        assert records(ANALYSES[name](frame))
    else:
        with pytest.raises(AnalysisError, match=f"{column} is missing"):
            ANALYSES[name](frame)


@every
def test_rows_that_were_looked_through_once_give_the_same(name: str) -> None:
    frame = KINDS["arrow"](ROWS)
    expected = records(ANALYSES[name](frame))
    with looked_through(frame, "created"):
        assert records(ANALYSES[name](frame)) == expected


@pytest.mark.parametrize(
    ("column", "value", "analysis"),
    [
        ("total", None, "at"),
        ("status", "SOMEHOW", "net"),
        ("fee", None, "summary"),
        ("created_at", None, "daily"),
        ("balance_asset", "", "roll_forward"),
        ("id", None, "running"),
    ],
)
def test_what_is_wrong_in_rows_looked_through_is_refused_by_the_analysis(
    column: str, value: str | None, analysis: str
) -> None:
    rows = [*ROWS[:-1], {**ROWS[-1], "status": "COMPLETED", column: value}]
    frame = KINDS["arrow"](rows)
    with looked_through(frame, "created"), pytest.raises(AnalysisError, match=f": {column} "):
        ANALYSES[analysis](frame)


@pytest.mark.parametrize("column", ["profile_id", "asset", "balance"])
def test_an_opening_is_held_to_its_own_rules_where_rows_were_looked_through(column: str) -> None:
    frame = KINDS["arrow"](ROWS)
    opening = pd.DataFrame({"profile_id": ["p1"], "asset": ["USD"], "balance": [Decimal(0)]})
    opening.loc[0, column] = None
    with (
        looked_through(frame, "created"),
        pytest.raises(AnalysisError, match=f"^opening: {column} "),
    ):
        balances.at(frame, "2027-01-01", opening=opening)


@every
def test_a_time_without_a_zone_is_refused(name: str) -> None:
    frame = table(ROWS).to_pandas()
    frame["created_at"] = frame["created_at"].dt.tz_localize(None)
    with pytest.raises(AnalysisError, match=r"'created_at' holds .* with a time zone are needed"):
        ANALYSES[name](frame)


@every
def test_floats_are_no_money(name: str) -> None:
    frame = table(ROWS).to_pandas().astype({"total": "float64", "amount": "float64"})
    with pytest.raises(AnalysisError, match="holds double; exact decimals are needed"):
        ANALYSES[name](frame)


@pytest.mark.thorough
@every
def test_the_callers_decimal_context_does_not_matter(name: str) -> None:
    frame = table(ROWS).to_pandas()
    with localcontext(STRICT):
        result = ANALYSES[name](frame)
    assert records(result) == records(ANALYSES[name](frame))


def test_the_largest_amounts_of_wide_columns_stand_in_any_context() -> None:
    most = Decimal("99999999999999999999.999999999999999999")
    wide = pa.array([most], pa.decimal256(50, 18))
    rows = table(ROWS[:1])
    rows = rows.set_column(rows.column_names.index("total"), "total", wide)
    with localcontext(prec=5):
        result = balances.at(rows, "2027-01-01")
    assert [row["balance"].copy_abs() for row in records(result)] == [most]


@pytest.mark.thorough
@every
def test_the_frame_is_left_untouched(name: str) -> None:
    frame = table(ROWS).to_pandas()
    before = frame.copy(deep=True)
    ANALYSES[name](frame)
    pd.testing.assert_frame_equal(frame, before)
