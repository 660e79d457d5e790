"""A :class:`Report` as files: the page, a workbook, and a CSV file for each table.

Workbook and CSV hold what the page shows, and all of it where the page cuts long tables.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa

from fundlab.base.atomic_files import sweep
from fundlab.base.errors import InvalidRequest
from fundlab.base.paths import local_path
from fundlab.base.periods import period_bounds
from fundlab.base.progress import progress_bar
from fundlab.charts import humanise
from fundlab.decimals import types_mapper
from fundlab.exports import Sheet, replacing, write_csv, write_workbook, writing
from fundlab.exports.cover import Cover, Drawing
from fundlab.reports.facts import BY_WHEN, Report, span_text
from fundlab.reports.inputs import moment
from fundlab.reports.page import render_html
from fundlab.reports.page_tables import readable_spans
from fundlab.reports.sections import SECTIONS
from fundlab.store.lock import locked
from fundlab.store.manifests import store_around
from fundlab.tables.transfers import Basis

FORMATS: Final = ("html", "xlsx", "csv")
LAST_FILE: Final = {"html": ".html", "xlsx": ".xlsx", "csv": ".report.csv"}
"""What stands in the folder once all of a format is written."""
MAX_WORKBOOK_ROWS: Final = 30_000
MAX_PRINTED_ROWS: Final = 60
"""On the one page that a sheet is on paper."""


LABELS: Final = {
    "profile_id": "Profile id", "inflow": "In", "outflow": "Out", "held": "Held by pending",
    "bps": "Basis points", "bps_before": "Basis points before",
    "p50": "Half (h:mm:ss)", "p90": "90 % (h:mm:ss)", "p99": "99 % (h:mm:ss)",
    "max": "Slowest (h:mm:ss)", "age": "Age", "id": "Id", "ref_id": "Reference",
    "transfer_id": "Transfer", "debit_id": "Debit", "credit_id": "Credit", "group_id": "Group",
    "cleared_at": "Cleared", "created_at": "Created", "observed_at": "Observed",
    "since": "First seen", "label": "Line", "on": "Day",
}  # fmt: skip
"""Headers of the workbook; the other columns by their names."""
_IDS: Final[tuple[str, ...]] = ("id", "ref_id", "profile_id")
"""Columns that come last in the workbook; a long reference makes paper too small to read."""


_OF_BANK: Final = ("Bank reconciliation", "Bank proof of cash", "Bank open items")
"""Tables that a report has where a bank's statement was given."""


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
            with progress_bar(len(tables), "tables", "writing the CSV files") as bar:
                for sheet in (*tables[1:], tables[0]):  # the first one last: it stands for them all
                    files.append(_table_file(folder, stem, sheet.name))
                    with replacing(files[-1]) as unfinished:
                        write_csv(sheet.rows, unfinished)
                    bar.update()
            for name in _OF_BANK:  # an earlier run's, which had a bank's statement
                if (old := _table_file(folder, stem, name)) not in files:
                    old.unlink(missing_ok=True)
        if "xlsx" in formats:
            files.insert(0, folder / f"{stem}.xlsx")
            shown = for_people(report, tables)
            with replacing(files[0]) as unfinished:
                write_workbook(shown, unfinished, cover=cover(report, shown))
        if "html" in formats:  # last: who waits for the page finds the tables beside it
            files.insert(0, folder / f"{stem}.html")
            with replacing(files[0]) as unfinished:
                beside = replace(report, files=tuple(files))  # the page says where they are
                unfinished.write_text(render_html(beside), encoding="utf-8")
    return replace(report, files=tuple(files))


def is_written(folder: Path, period: str, formats: Sequence[str], basis: Basis, tz: str) -> bool:
    """Whether the report of ``period`` is in ``folder`` in all of ``formats``, and each says that
    it is on this ``basis``, with its days in ``tz``, and goes to the period's end: one that was
    made before that does not."""
    first, end = map(moment, period_bounds(period, tz))
    days = [span_text(first, end, tz), BY_WHEN[basis]]
    facts = {"Until": end.isoformat(), "Days in": tz, "Basis": BY_WHEN[basis]}
    said = dict.fromkeys(FORMATS, days) | {"csv": [f'"{k}","{v}"' for k, v in facts.items()]}
    stem = file_name(period)
    for kind in formats:
        text = _text_of(folder / f"{stem}{LAST_FILE[kind]}")
        if not all(one in text for one in said[kind]):
            return False
    return True


def _text_of(path: Path) -> str:
    """What is written there; nothing of what is not there, or was cut by a power failure."""
    try:
        if path.suffix != ".xlsx":
            return path.read_text(encoding="utf-8")
        with zipfile.ZipFile(path) as book:
            return book.read("xl/worksheets/sheet1.xml").decode()  # the cover
    except (OSError, UnicodeDecodeError, KeyError, zipfile.BadZipFile):
        return ""


def _table_file(folder: Path, stem: str, table: str) -> Path:
    return folder / f"{stem}.{table.lower().replace(' ', '-')}.csv"


def sheets(report: Report) -> list[Sheet]:
    """The verdict and how to get it again first, then one sheet for each table."""
    facts = {
        "Title": report.title,
        "Verdict": report.verdict.headline,
        "Detail": report.verdict.detail,
        "From": "the beginning" if report.first is None else report.first.isoformat(),
        "Until": report.end.isoformat(),
        **({"Period": report.remark} if report.remark else {}),
        **({"Payments": report.payments_line} if report.payments_line else {}),
        "As of": report.as_of.isoformat(),
        "Days in": report.tz,
        "Basis": BY_WHEN[report.basis],
        **{
            figure.label: f"{figure.value} ({figure.note})"
            + (f"; {report.before}: {figure.before}" if figure.before else "")
            + (f", {figure.change}" if figure.change else "")
            for figure in report.key_figures
        },
        **report.sources,
    }
    found = [Sheet("Report", pa.table({"fact": list(facts), "value": list(facts.values())}))]
    for section in SECTIONS:
        if section.sheet:
            rows = arrow_of(report.frames[section.name])
            note = section.note(report) if callable(section.note) else section.note
            found.append(Sheet(section.sheet, rows, note))
    if report.bank is not None:
        told = f"{report.bank.title}: {report.bank.verdict}"
        frames = (report.bank.statement, report.bank.proof, report.bank.items)
        for name, frame in zip(_OF_BANK, frames, strict=True):
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


def for_people(report: Report, tables: Sequence[Sheet]) -> list[Sheet]:
    """``tables`` as the workbook shows them, each one page on paper: those with rows that are not
    only data, how to get it all again last."""
    about, *others = for_workbook(tables)
    totals = {section.sheet: section.totals for section in SECTIONS}
    only_data = {section.sheet for section in SECTIONS if section.only_data}
    shown = []
    for table in (*others, replace(about, name="About")):
        if table.rows.num_rows and table.name not in only_data:
            sheet = sheet_for_people(
                table.name, table.rows, f"{table.name} · {report.title}", table.note,
                labels=report.labels, tz=report.tz, totals=totals.get(table.name, ()),
            )  # fmt: skip
            below = sheet.rows.num_rows + (len(sheet.runs()) if sheet.totals else 0)
            if below > MAX_PRINTED_ROWS:
                cut = f"The first {MAX_PRINTED_ROWS} of {below:,} lines are printed"
                sheet = replace(sheet, lead=". ".join(filter(None, (sheet.lead, cut))))
            shown.append(replace(sheet, most_printed=MAX_PRINTED_ROWS))
    return shown


def sheet_for_people(
    name: str,
    table: pa.Table,
    title: str,
    lead: str,
    *,
    labels: Mapping[str, str],
    tz: str,
    totals: Sequence[str] = (),
) -> Sheet:
    """``table`` with the names of profiles before their ids, headers and codes in words; ``lead``
    is followed by what its times and amounts are. Ids come last, and not all of them on paper."""
    whole = pd.Int64Dtype()  # counts stay whole where some are missing
    frame = table.to_pandas(
        types_mapper=lambda kind: whole if kind == pa.int64() else types_mapper(kind)
    )
    columns = [*map(str, frame.columns)]
    sums = [one for one in totals if one in columns]
    if sums and "asset" in columns:  # the rows of an asset beside each other, as it is summed
        frame = frame.sort_values("asset", kind="stable")
        columns = ["asset", *(one for one in columns if one != "asset")]
    if "profile_id" in columns:
        frame["profile"] = frame["profile_id"].map(lambda one: labels.get(one, one))
        columns.insert(columns.index("profile_id"), "profile")
    ids = [one for one in _IDS if one in columns]
    unprinted = [one for one in ids if one != "id"]
    said = {*ids, "balance_asset", *(["line"] if "label" in columns else [])}
    columns = [one for one in columns if one not in said] + ids
    for one in {"type", "status", "line", "rule", "age"} & {*columns}:
        if pd.api.types.is_string_dtype(frame[one].dtype):
            in_words = cache(lambda code: readable_spans(humanise(code)))  # of many rows, few codes
            frame[one] = frame[one].map(in_words, "ignore")
    for one in {"status", "line", "rule", "category", "cause", "why"} & {*columns}:
        frame[one] = frame[one].map(lambda code: code.replace("_", " "), "ignore")
    if "period" in columns and isinstance(frame["period"].dtype, pd.DatetimeTZDtype):
        days = frame["period"].dt.tz_convert(tz).dt.tz_localize(None).dt.normalize()
        frame["period"] = days
    rows = arrow_of(frame[columns])
    leads = [lead] if lead else []
    leads += [f"Times are of {tz}"] * any(map(pa.types.is_timestamp, rows.schema.types))
    units = "asset" in columns and any(map(pa.types.is_decimal, rows.schema.types))
    leads += ["Amounts in units of the asset"] * units
    return Sheet(
        name, rows, "", title, ". ".join(text[:1].upper() + text[1:] for text in leads),
        labels={one: LABELS.get(one, one.replace("_", " ").capitalize()) for one in columns},
        tz=tz, totals=sums, unprinted=unprinted,
    )  # fmt: skip


def cover(report: Report, found: Sequence[Sheet]) -> Cover:
    """The verdict, the figures, and charts of the first assets; ``found`` are the sheets below."""
    drawings = []
    for asset in report.busiest[:3]:
        course, moved = (
            frame[frame["asset"].astype(str) == asset] for frame in (report.course, report.flows)
        )
        closing = course.assign(balance=course["balance"].astype("float64")).pivot(
            index="date", columns="profile_id", values="balance"
        )
        lines = {
            report.labels.get(str(name), str(name)): [
                None if pd.isna(one) else one for one in closing[name].ffill()
            ]
            for name in closing.columns
        }
        if days := [day.date() for day in closing.index]:  # a break may be of an asset at rest
            drawings.append(Drawing(f"{asset}: closing balance of each day", days, lines))
        bars = {"In": [*moved["inflow"].astype("float64")],
                "Out": [*-moved["outflow"].astype("float64")]}  # fmt: skip
        if days := [*moved["period"].dt.tz_convert(report.tz).dt.date]:
            drawings.append(Drawing(f"{asset}: in and out", days, bars, columns=True))
    said = [report.verdict.detail, report.remark, report.payments_line, *report.moved]
    return Cover(
        title=report.title,
        lead=report.dates,
        headline=report.verdict.headline,
        detail=" ".join(filter(None, said)),
        good=report.tone == "good",
        figures=[
            (one.label, one.value, one.before, one.change, one.note) for one in report.key_figures
        ],
        before=report.before,
        of=next((sheet for sheet in found if sheet.name == "Balances"), None),
        sums=("opening", "inflow", "outflow", "closing"),
        drawings=drawings,
    )


def file_name(period: str) -> str:
    """``report-2026-10``, ``report``: the beginning of the names of its files."""
    safe = re.sub(r"[^0-9A-Za-z-]+", "_", period)
    return f"report-{safe}" if safe else "report"


def check_formats(formats: Sequence[str]) -> None:
    """Raises ``InvalidRequest`` unless ``formats`` are some of :data:`FORMATS`."""
    several = isinstance(formats, Collection) and not isinstance(formats, str)
    if not several or not formats or any(name not in FORMATS for name in formats):
        raise InvalidRequest(f"formats={formats!r}: give some of {', '.join(FORMATS)}")


@contextmanager
def one_run_at_a_time(folder: Path) -> Iterator[None]:
    """The kernel lets go of ``folder`` when the run ends, however it ends. Raises
    ``InvalidRequest`` where it is within a store."""
    if around := store_around(folder):
        raise InvalidRequest(
            f"out={str(folder)!r} is within the store {around}: give a folder beside it"
        )
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
