"""A :class:`Report` as files: the page, a workbook, and a CSV file for each table.

Workbook and CSV hold what the page shows, and all of it where the page cuts long tables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa

from fundlab.errors import InvalidRequest
from fundlab.exports import Sheet, replacing, write_csv, write_workbook, writing
from fundlab.paths import local_path
from fundlab.reporting.facts import Report
from fundlab.reporting.page import render_html
from fundlab.store.disk import locked
from fundlab.unfinished import sweep

FORMATS: Final = ("html", "xlsx", "csv")
LAST_FILE: Final = {"html": ".html", "xlsx": ".xlsx", "csv": ".report.csv"}
"""What stands in the folder once all of a format is written."""
MAX_WORKBOOK_ROWS: Final = 30_000
_FRAMES: Final = (
    ("Balances", "balances", ""),
    ("Reconciliation", "reconciliation", "of everything known at as_of, not only of the period"),
    ("Causes", "causes", "what could make each difference, likeliest first"),
    ("Balance course", "course",
     "the busiest profiles by name, the others as one; fl.balances.daily has every one"),
    ("Observed balances", "assertions", ""),
    ("Roll-forward", "roll_forward", ""),
    ("Restatements", "restatements", "of closed periods: what leads to what is known now"),
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
)  # fmt: skip


def write_report(
    report: Report, out: str | os.PathLike[str], formats: Sequence[str] = FORMATS
) -> Report:
    """``report`` as files in the folder ``out``: ``report-2026-10.html``, ``.xlsx`` and one
    ``report-2026-10.<table>.csv`` for each table. Each appears complete, replacing an earlier one.
    Returns the report with its ``files``.

    Raises ``OutputError`` where the system refuses, ``StoreLocked`` while another run writes there.
    """
    check_formats(formats)
    folder = local_path(out, "out")
    stem = file_name(report.period)
    files: list[Path] = []
    with one_run_at_a_time(folder):
        with writing(folder):
            sweep(folder, "report.*")
        tables = sheets(report)
        if "csv" in formats:
            for sheet in (*tables[1:], tables[0]):  # the first one last: it stands for them all
                files.append(folder / f"{stem}.{sheet.name.lower().replace(' ', '-')}.csv")
                with replacing(files[-1]) as unfinished:
                    write_csv(sheet.rows, unfinished)
        if "xlsx" in formats:
            files.insert(0, folder / f"{stem}.xlsx")
            with replacing(files[0]) as unfinished:
                write_workbook(for_workbook(tables), unfinished)
        if "html" in formats:  # last: who waits for the page finds the tables beside it
            files.insert(0, folder / f"{stem}.html")
            with replacing(files[0]) as unfinished:
                unfinished.write_text(render_html(report), encoding="utf-8")
    return replace(report, files=tuple(files))


def sheets(report: Report) -> list[Sheet]:
    """The verdict and how to get it again first, then one sheet for each table."""
    facts = {
        "Title": report.title,
        "Verdict": report.verdict.headline,
        "Detail": report.verdict.detail,
        "From": "the beginning" if report.first is None else report.first.isoformat(),
        "Until": report.end.isoformat(),
        **({"Not over": report.remark} if report.remark else {}),
        "As of": report.as_of.isoformat(),
        "Days in": report.tz,
        "Basis": "by when transfers "
        + ("settled" if report.basis == "settled" else "were created"),
        **{figure.label: f"{figure.value} ({figure.note})" for figure in report.key_figures},
        **report.sources,
    }
    found = [Sheet("Report", pa.table({"fact": list(facts), "value": list(facts.values())}))]
    for name, field, note in _FRAMES:
        found.append(Sheet(name, arrow_of(getattr(report, field)), note))
    if report.bank is not None:
        told = f"{report.bank.title}: {report.bank.verdict}"
        for name, frame in (
            ("Bank reconciliation", report.bank.statement),
            ("Bank proof of cash", report.bank.proof),
            ("Bank open items", report.bank.items),
        ):
            found.append(Sheet(name, arrow_of(frame), told))
    return found


def arrow_of(frame: pd.DataFrame) -> pa.Table:
    columns = {}
    for column in map(str, frame.columns):
        values = frame[column]
        if isinstance(values.dtype, pd.CategoricalDtype):
            values = values.astype("str")
        columns[column] = pa.array(values, from_pandas=True)
        if pd.api.types.is_datetime64_dtype(values):  # calendar days
            columns[column] = columns[column].cast(pa.date32())
    return pa.table(columns)


def for_workbook(tables: Sequence[Sheet]) -> list[Sheet]:
    """The same, those of more than :data:`MAX_WORKBOOK_ROWS` rows cut, with a word: cells are slow
    to write and slow to open."""
    found = []
    for table in tables:
        if table.rows.num_rows > MAX_WORKBOOK_ROWS:
            cut = (
                f"the first {MAX_WORKBOOK_ROWS:,} of {table.rows.num_rows:,} rows; the report as "
                "CSV (--format csv) holds them all"
            )
            note = f"{cut}; {table.note}" if table.note else cut
            table = replace(table, rows=table.rows.slice(0, MAX_WORKBOOK_ROWS), note=note)
        found.append(table)
    return found


def file_name(period: str) -> str:
    """``report-2026-10``, ``report``: the beginning of the names of its files."""
    safe = re.sub(r"[^0-9A-Za-z-]+", "_", period)
    return f"report-{safe}" if safe else "report"


def check_formats(formats: Sequence[str]) -> None:
    """Raises ``InvalidRequest`` unless ``formats`` are some of :data:`FORMATS`."""
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats or isinstance(formats, str):
        raise InvalidRequest(f"formats={formats!r}: give some of {', '.join(FORMATS)}")


@contextmanager
def one_run_at_a_time(folder: Path) -> Iterator[None]:
    """The kernel lets go of ``folder`` when the run ends, however it ends."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    try:
        with locked(
            handle, folder, lambda: f"another run writes its report to {folder}; wait for it"
        ):
            yield
    finally:
        os.close(handle)
