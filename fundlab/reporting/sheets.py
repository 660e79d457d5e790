"""A :class:`Report` as tables for spreadsheets and CSV: whole, where the page cuts long ones."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import pyarrow as pa

from fundlab.exports import Sheet
from fundlab.reporting.details import MAX_NOTABLE
from fundlab.reporting.facts import Report

_COURSE: Final = "the busiest profiles by name, the others as one; fl.balances.daily has every one"
_FRAMES: Final = (
    ("Balances", "balances", ""),
    ("Reconciliation", "reconciliation", "of everything known at as_of, not only of the period"),
    ("Causes", "causes", "what could make each difference, likeliest first"),
    ("Balance course", "course", _COURSE),
    ("Observed balances", "assertions", ""),
    ("Movements", "movements", ""),
    ("Flows", "flows", ""),
    ("Links", "links", ""),
    ("Fees", "fees", "bps are basis points; drift is against the same span before"),
    ("Fees over time", "fees_over_time", ""),
    ("Settlement", "settlement", "seconds from created_at to updated_at"),
    ("Open items", "open_items", "age in seconds"),
    ("Ageing", "ageing", ""),
    ("Withdrawals", "withdrawals", "the latest; Recipients sums all of the period"),
    ("Recipients", "recipients", ""),
    ("Row checks", "violations", ""),
    ("Anomalies", "anomalies", ""),
    ("Internal pairs", "pairs", "halves of internal transfers that do not match"),
    ("Events", "events", ""),
    ("Notable events", "notable", f"the latest {MAX_NOTABLE} at most"),
)


def sheets(report: Report) -> list[Sheet]:
    """The verdict and how to get it again first, then one sheet for each table."""
    return [Sheet("Report", _facts(report))] + [
        Sheet(name, _arrow(getattr(report, field)), note) for name, field, note in _FRAMES
    ]


def _facts(report: Report) -> pa.Table:
    facts = {
        "Title": report.title,
        "Verdict": report.verdict.headline,
        "Detail": report.verdict.detail,
        "From": "the beginning" if report.first is None else report.first.isoformat(),
        "Until": report.end.isoformat(),
        "As of": report.as_of.isoformat(),
        "Days in": report.tz,
        **{figure.label: f"{figure.value} ({figure.note})" for figure in report.key_figures},
        **report.sources,
    }
    return pa.table({"fact": list(facts), "value": list(facts.values())})


def _arrow(frame: pd.DataFrame) -> pa.Table:
    columns = {str(name): _column(frame[name]) for name in frame.columns}
    return pa.table(columns)


def _column(values: pd.Series[Any]) -> pa.ChunkedArray | pa.Array:
    if pd.api.types.is_datetime64_dtype(values):  # calendar days
        return pa.array(values, from_pandas=True).cast(pa.date32())
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype("str")
    return pa.array(values, from_pandas=True)
