"""The causes in a report are those that ``reconcile.explain`` gives."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_examples import DAY, START, Row, observed, records, table, tampered, transfer

from fundlab import reports
from fundlab.analysis import reconcile

NOW = START + 500 * DAY


def both(rows: list[Row], reported: pa.Table) -> tuple[list[Any], list[Any]]:
    """Of the report, and of the analysis on the same frames."""
    report = reports.build(
        table(rows), frame(reported), title="Report", as_of=pd.Timestamp(NOW, tz="UTC")
    )
    return records(report.causes), records(reconcile.explain(table(rows), reported))


def frame(reported: pa.Table) -> pd.DataFrame:
    made: pd.DataFrame = reported.to_pandas()
    for name in ("available", "trading"):
        made[name] = pd.array(made[name].tolist(), dtype="decimal")
    return made


@pytest.mark.thorough
@given(seed=st.integers(0, 10**9))
@settings(max_examples=2, deadline=None)
def test_report_and_analysis_name_the_same_causes(seed: int) -> None:
    rows, reported, _ = tampered(seed)
    in_report, in_analysis = both(rows, reported)
    assert in_report == in_analysis


@pytest.mark.thorough
def test_a_half_in_a_profile_that_matches_is_not_missing() -> None:
    halves = {"amount": Decimal(60), "group_id": "g1", "created_at": START + DAY}
    rows = [
        transfer("t1", amount=Decimal(100)),
        transfer("t2", direction="DEBIT", type="INTERNAL_TRANSFER_DEBIT", **halves),
        transfer("t3", profile_id="p2", type="INTERNAL_TRANSFER_CREDIT", **halves),
    ]
    balances = {("p1", "USD"): Decimal(100), ("p2", "USD"): Decimal(60)}
    in_report, in_analysis = both(rows, observed(balances, NOW - DAY))
    assert [row["cause"] for row in in_report] == ["failed_later", "missing_transfer"]
    assert in_report == in_analysis
