"""A :class:`Report` as tables for spreadsheets and CSV: whole, where the page cuts long ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from fundlab.exports import Sheet
from fundlab.reporting.facts import Report

MAX_WORKBOOK_ROWS: Final = 30_000
_COURSE: Final = "the busiest profiles by name, the others as one; fl.balances.daily has every one"
_FRAMES: Final = (
    ("Balances", "balances", ""),
    ("Reconciliation", "reconciliation", "of everything known at as_of, not only of the period"),
    ("Causes", "causes", "what could make each difference, likeliest first"),
    ("Balance course", "course", _COURSE),
    ("Observed balances", "assertions", ""),
    ("Movements", "movements", ""),
    ("Flows", "flows", "transfers between own profiles left out"),
    ("Links", "links", ""),
    ("Fees", "fees", "bps are basis points; drift is against the period before"),
    ("Fees over time", "fees_over_time", ""),
    ("Settlement", "settlement", "seconds from created_at to updated_at"),
    ("Open items", "open_items", "age in seconds"),
    ("Ageing", "ageing", ""),
    ("Withdrawals", "withdrawals", "the latest first"),
    ("Recipients", "recipients", ""),
    ("Row checks", "violations", ""),
    ("Anomalies", "anomalies", ""),
    ("Internal pairs", "pairs", "halves of internal transfers that do not match"),
    ("Events", "events", ""),
    ("Notable events", "notable", "refusals, failures and requests for papers, latest first"),
)


def for_workbook(tables: list[Sheet]) -> list[Sheet]:
    """The same, those of more than :data:`MAX_WORKBOOK_ROWS` rows cut, with a word: cells are slow
    to write and slow to open."""
    return [_cut(table) if table.rows.num_rows > MAX_WORKBOOK_ROWS else table for table in tables]


def sheets(report: Report) -> list[Sheet]:
    """The verdict and how to get it again first, then one sheet for each table."""
    return [Sheet("Report", _facts(report))] + [
        Sheet(name, _arrow(getattr(report, field)), note) for name, field, note in _FRAMES
    ]


def _cut(table: Sheet) -> Sheet:
    words = (
        f"the first {MAX_WORKBOOK_ROWS:,} of {table.rows.num_rows:,} rows; the report as CSV "
        "(--format csv) holds them all"
    )
    note = f"{words}; {table.note}" if table.note else words
    return replace(table, rows=table.rows.slice(0, MAX_WORKBOOK_ROWS), note=note)


def _facts(report: Report) -> pa.Table:
    facts = {
        "Title": report.title,
        "Verdict": report.verdict.headline,
        "Detail": report.verdict.detail,
        "From": "the beginning" if report.first is None else report.first.isoformat(),
        "Until": report.end.isoformat(),
        **({"Not over": report.remark} if report.remark else {}),
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
