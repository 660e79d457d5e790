"""A store to a report on disk: once, for a period, or for every period that has none yet."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import duckdb
import pandas as pd

from fundlab.errors import InvalidRequest, StoreError, StoreLocked
from fundlab.exports import replacing, write_csv, write_workbook
from fundlab.moments import moment_ns
from fundlab.reporting.build import build
from fundlab.reporting.facts import Report, versions
from fundlab.reporting.inputs import moment
from fundlab.reporting.page import render_html
from fundlab.reporting.sheets import sheets
from fundlab.store import Store
from fundlab.tables import TABLES

FORMATS: Final = ("html", "xlsx", "csv")
_MONTH: Final = "%Y-%m"

Moment = str | datetime


@dataclass(frozen=True)
class Written:
    """A report and the files it is in, the page first."""

    report: Report
    files: tuple[Path, ...]

    def to_json(self) -> dict[str, Any]:
        verdict = self.report.verdict
        return {
            "period": self.report.period or None,
            "as_of": self.report.as_of.isoformat(),
            "reconciled": verdict.breaks == 0 and verdict.compared > 0,
            "compared": verdict.compared,
            "breaks": verdict.breaks,
            "verdict": verdict.headline,
            "detail": verdict.detail,
            "open_items": len(self.report.open_items),
            "violations": len(self.report.violations),
            "files": [str(path) for path in self.files],
        }

    def __str__(self) -> str:
        verdict = self.report.verdict
        pages = [str(path) for path in self.files if path.suffix != ".csv"]
        tables = len(self.files) - len(pages)
        if tables:
            pages.append(
                f"{tables} tables in {self.files[-1].parent / file_name(self.report.period)}.*.csv"
            )
        return "\n".join([f"{verdict.headline}. {verdict.detail}", *pages])


def report(
    store: Store,
    period: str | None = None,
    *,
    as_of: Moment | None = None,
    out: str | os.PathLike[str] | None = None,
    formats: Sequence[str] = FORMATS,
    tz: str = "UTC",
) -> Report:
    """The report of ``period`` (``2026``, ``2026-Q4``, ``2026-10``, ``2026-W40``, ``2026-10-31``;
    by default everything) as the store knew it at ``as_of`` (by default its latest publication).

    With ``out`` it is written there, too: ``html``, ``xlsx`` and ``csv``, each under a temporary
    name first. No clock is read, so the same store gives the same bytes. Raises
    ``InvalidRequest`` for a format, period or time that is none, ``StoreError`` for an empty
    store, ``StoreLocked`` while another run writes to ``out``.
    """
    _check_formats(formats)
    found = read_report(store, period, as_of=as_of, tz=tz)
    if out is not None:
        write_report(found, out, formats)
    return found


def read_report(
    store: Store, period: str | None = None, *, as_of: Moment | None = None, tz: str = "UTC",
    **given: Any,
) -> Report:  # fmt: skip
    """The figures of :func:`report`; ``given`` goes to :func:`build`."""
    known_at = last_publication(store) if as_of is None else moment_ns(as_of, "as_of")
    when = moment(known_at)
    one = duckdb.connect()
    assertions = store.assertions(when)
    facts: dict[str, Any] = {
        "title": f"Funding report {period}" if period else "Funding report",
        "as_of": when,
        "events": store.scan("events", as_of=when, connection=one),
        "fiat_accounts": store.read("fiat_accounts", when),
        "addresses": store.read("addresses", when),
        "assertions": assertions,
        "opening": _opening(assertions),
        "sources": sources(store, period, when),
        **given,
    }
    transfers = store.scan("transfers", as_of=when, connection=one)
    return build(transfers, store.read("balances", when), period=period, tz=tz, **facts)


def write_report(
    report: Report, out: str | os.PathLike[str], formats: Sequence[str] = FORMATS
) -> Written:
    """``report`` as files in the folder ``out``: ``report-2026-10.html``, ``.xlsx`` and one
    ``report-2026-10.<table>.csv`` for each table. Each appears whole, replacing an earlier one."""
    _check_formats(formats)
    folder = Path(out)
    name = file_name(report.period)
    files: list[Path] = []
    with _held(folder):
        tables = sheets(report)
        if "csv" in formats:
            for sheet in tables:
                files.append(folder / f"{name}.{sheet.name.lower().replace(' ', '-')}.csv")
                with replacing(files[-1]) as unfinished:
                    write_csv(sheet.rows, unfinished)
        if "xlsx" in formats:
            files.insert(0, folder / f"{name}.xlsx")
            with replacing(files[0]) as unfinished:
                write_workbook(tables, unfinished)
        if "html" in formats:  # last: who waits for the page finds the tables beside it
            files.insert(0, folder / f"{name}.html")
            with replacing(files[0]) as unfinished:
                unfinished.write_text(render_html(report), encoding="utf-8")
    return Written(report, tuple(files))


def missing_months(
    store: Store, out: str | os.PathLike[str], since: str | None = None, tz: str = "UTC"
) -> list[str]:
    """The months that are over and have no page in ``out``, oldest first, from ``since`` (a month)
    or the store's first transfer on."""
    when = moment(last_publication(store))
    first = store.scan("transfers").aggregate("min(epoch_ns(created_at))").fetchall()[0][0]
    if since is None and first is None:
        return []
    if since is not None and not re.fullmatch(r"\d{4}-\d\d", since):
        raise InvalidRequest(f"period {since!r} is no month; with catching up give one: '2026-10'")
    start = since or f"{moment(first).tz_convert(tz):{_MONTH}}"
    last = when.tz_convert(tz).tz_localize(None).to_period("M") - 1
    months = pd.period_range(pd.Period(start, "M"), last, freq="M")
    names = [f"{month:{_MONTH}}" for month in months]
    return [name for name in names if not (Path(out) / f"{file_name(name)}.html").exists()]


def sources(store: Store, period: str | None, when: pd.Timestamp) -> dict[str, str]:
    """How to get the same figures again: the store, its parts' hash, the command, the versions."""
    parts = [
        f"{table}/{part.path.name}"
        for table in TABLES
        for part in store.snapshot(table, as_of=when).files
    ]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    command = ["fundlab", "report", "--store", str(store.path), "--as-of", when.isoformat()]
    command += ["--period", period] if period else []
    return {
        "Store": str(store.path),
        "Parts": f"{len(parts):,}, SHA-256 of their names {digest}",
        "Command": shlex.join(command),
        **versions(),
    }


def last_publication(store: Store) -> int:
    """When the store learned last of anything, in nanoseconds. Raises ``StoreError`` if never."""
    entries = (store.snapshot(table).last for table in TABLES)
    moments = [entry.published_at for entry in entries if entry is not None]
    if not moments:
        raise StoreError(f"{store.path} holds nothing yet; run 'fundlab sync' first")
    return max(moments)


def file_name(period: str) -> str:
    safe = re.sub(r"[^0-9A-Za-z-]+", "_", period)
    return f"report-{safe}" if safe else "report"


def _opening(assertions: pd.DataFrame) -> pd.DataFrame | None:
    """What was there before the first transfer of a store that does not begin at the beginning:
    the first balance observed less what its transfers make."""
    late = assertions[~assertions["complete"].astype(bool)]
    if late.empty:
        return None
    first = late.groupby(["profile_id", "asset"])["difference"].first()
    return first.rename("balance").reset_index()


def _check_formats(formats: Sequence[str]) -> None:
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats or isinstance(formats, str):
        raise InvalidRequest(f"formats={formats!r}: give some of {', '.join(FORMATS)}")


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """One run at a time in ``folder``; the kernel lets go when the run ends, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreLocked(f"another run writes its report to {folder}; wait for it") from None
        yield
    finally:
        os.close(handle)
