"""A store to a report on disk: once, for a period, or for every period that has none yet."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pandas as pd

from fundlab.analysis import checks
from fundlab.analysis.periods import period_bounds
from fundlab.analysis.reconcile import judge
from fundlab.errors import InvalidRequest, StoreError, printable
from fundlab.exports import Sheet, replacing, write_csv, write_workbook, writing
from fundlab.moments import moment_ns
from fundlab.paths import local_path, opened
from fundlab.reporting.build import build
from fundlab.reporting.facts import Report, versions
from fundlab.reporting.inputs import count, moment
from fundlab.reporting.page import render_html
from fundlab.reporting.sheets import for_workbook, sheets
from fundlab.store import Store
from fundlab.store.disk import locked
from fundlab.store.duck import own_connection
from fundlab.store.judgement import Judgement
from fundlab.store.scan import queries
from fundlab.tables import TABLES
from fundlab.unfinished import sweep

FORMATS: Final = ("html", "xlsx", "csv")
_MONTH: Final = "%Y-%m"
_LAST_FILE: Final = {"html": ".html", "xlsx": ".xlsx", "csv": ".report.csv"}
"""What stands in the folder once all of a format is written."""

Moment = str | datetime


@dataclass(frozen=True)
class Written:
    """A report that was written, as the command line tells of it."""

    report: Report

    @property
    def is_alarming(self) -> bool:
        return self.report.is_alarming

    @property
    def proves_nothing(self) -> bool:
        return self.report.verdict.state == "nothing_to_compare"

    def to_json(self) -> dict[str, Any]:
        verdict = self.report.verdict
        return {
            "period": self.report.period or None,
            "over": self.report.ends is None,
            "as_of": self.report.as_of.isoformat(),
            "reconciled": verdict.state == "proved",
            "compared": verdict.balances,
            **verdict.to_json(),
            "verdict": verdict.headline,
            "detail": verdict.detail,
            "open_items": len(self.report.open_items),
            "violations": len(self.report.violations),
            "files": [str(path) for path in self.report.files],
        }

    def __str__(self) -> str:
        verdict = self.report.verdict
        told = [verdict.text, self.report.remark, _broken_rules(len(self.report.violations))]
        lines = [" ".join(filter(None, told)), *self.report.places]
        return "\n".join(map(printable, lines))


@dataclass(frozen=True)
class CaughtUp:
    """The reports that were missing, and how all that the store knows stands now: a break of
    yesterday is told again today, also where no report was missing."""

    written: tuple[Written, ...]
    verdict: Judgement
    violations: int

    @property
    def is_alarming(self) -> bool:
        return self.verdict.breaks > 0 or self.violations > 0

    @property
    def proves_nothing(self) -> bool:
        return self.verdict.state == "nothing_to_compare"

    def to_json(self) -> dict[str, Any]:
        return {
            **self.verdict.to_json(),
            "violations": self.violations,
            "verdict": self.verdict.headline,
            "detail": self.verdict.detail,
            "reports": [one.to_json() for one in self.written],
        }

    def __str__(self) -> str:
        if self.written:
            return "\n".join(map(str, self.written))
        line = printable(
            " ".join(filter(None, [self.verdict.text, _broken_rules(self.violations)]))
        )
        return f"{line}\nEvery month that is over has its report."


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

    It shows itself in a notebook. With ``out`` it is written to that folder, too: ``html``,
    ``xlsx`` and ``csv``, each under a temporary name first. No clock is read, so the same store
    gives the same bytes. Raises ``InvalidRequest`` for a format, period or time that is not valid,
    for what is not a store and for an ``out`` elsewhere, ``StoreError`` for an empty store,
    ``StoreLocked`` while another run writes to ``out``.

    >>> found = fl.report(store, "2026-10", out=folder, formats=["html"])
    >>> found.verdict.headline
    'Reconciled: 0 breaks'
    >>> [path.name for path in folder.glob("report*")]
    ['report-2026-10.html']
    """
    _check_formats(formats)
    found = read_report(opened(store), period, as_of=as_of, tz=tz)
    return found if out is None else write_report(found, out, formats).report


@queries
def read_report(
    store: Store, period: str | None = None, *, as_of: Moment | None = None, tz: str = "UTC",
    **given: Any,
) -> Report:  # fmt: skip
    """The figures of :func:`report`; ``given`` goes to :func:`build`."""
    known_at = last_publication(store) if as_of is None else moment_ns(as_of, "as_of")
    when = moment(known_at)
    one = own_connection()
    facts: dict[str, Any] = {
        "title": f"Funding report {period}" if period else "Funding report",
        "as_of": when,
        "events": store.scan("events", as_of=when, connection=one),
        "fiat_accounts": store.read("fiat_accounts", when),
        "addresses": store.read("addresses", when),
        "judgement": judge(store, as_of=when),
        "sources": sources(store, period, when, tz),
        **given,
    }
    transfers = store.scan("transfers", as_of=when, connection=one)
    return build(transfers, store.read("balances", when), period=period, tz=tz, **facts)


def write_report(
    report: Report, out: str | os.PathLike[str], formats: Sequence[str] = FORMATS
) -> Written:
    """``report`` as files in the folder ``out``: ``report-2026-10.html``, ``.xlsx`` and one
    ``report-2026-10.<table>.csv`` for each table. Each appears whole, replacing an earlier one.

    Raises ``OutputError`` where the system refuses, ``StoreLocked`` while another run writes there.
    """
    _check_formats(formats)
    folder = local_path(out, "out")
    name = file_name(report.period)
    files: list[Path] = []
    with _held(folder):
        with writing(folder):
            sweep(folder, "report.*")
        tables = sheets(report)
        if "csv" in formats:
            for sheet in (*tables[1:], tables[0]):  # the first one last: it stands for them all
                files.append(folder / _csv_name(name, sheet))
                with replacing(files[-1]) as unfinished:
                    write_csv(sheet.rows, unfinished)
        if "xlsx" in formats:
            files.insert(0, folder / f"{name}.xlsx")
            with replacing(files[0]) as unfinished:
                write_workbook(for_workbook(tables), unfinished)
        if "html" in formats:  # last: who waits for the page finds the tables beside it
            files.insert(0, folder / f"{name}.html")
            with replacing(files[0]) as unfinished:
                unfinished.write_text(render_html(report), encoding="utf-8")
    return Written(replace(report, files=tuple(files)))


def catch_up(
    store: Store,
    out: str | os.PathLike[str],
    formats: Sequence[str] = FORMATS,
    *,
    since: str | None = None,
    tz: str = "UTC",
) -> CaughtUp:
    """Writes the report of each of :func:`missing_months`; judges all that is known, anyway."""
    months = missing_months(store, out, since, tz, formats)
    written = tuple(
        write_report(read_report(store, month, tz=tz), out, formats) for month in months
    )
    return CaughtUp(written, *_standing(store))


@queries
def missing_months(
    store: Store,
    out: str | os.PathLike[str],
    since: str | None = None,
    tz: str = "UTC",
    formats: Sequence[str] = FORMATS,
) -> list[str]:
    """The months that are over and not in ``out`` in all of ``formats``, oldest first, from
    ``since`` (a month) or the store's first transfer on."""
    _check_formats(formats)
    when = moment(last_publication(store))
    first = store.scan("transfers").aggregate("min(epoch_ns(created_at))").fetchall()[0][0]
    if since is None and first is None:
        return []
    if since is not None:
        if not re.fullmatch(r"\d{4}-\d\d", since, re.ASCII):
            raise InvalidRequest(
                f"period {since!r} is no month; with catching up give one: '2026-10'"
            )
        period_bounds(since, tz)
    start = since or f"{moment(first).tz_convert(tz):{_MONTH}}"
    last = when.tz_convert(tz).tz_localize(None).to_period("M") - 1
    months = pd.period_range(pd.Period(start, "M"), last, freq="M")
    names = [f"{month:{_MONTH}}" for month in months]
    ends = [_LAST_FILE[kind] for kind in formats]
    stems = {name: local_path(out, "out") / file_name(name) for name in names}
    return [
        name for name, stem in stems.items()
        if not all(_is_written(stem.with_name(stem.name + end)) for end in ends)
    ]  # fmt: skip


def _is_written(path: Path) -> bool:
    """Not so where a power cut left a name without its bytes."""
    return path.exists() and path.stat().st_size > 0


def sources(
    store: Store, period: str | None, when: pd.Timestamp, tz: str = "UTC"
) -> dict[str, str]:
    """How to get the same figures again: the store, its parts' hash, the command, the versions."""
    parts = [
        f"{table}/{part.path.name}"
        for table in TABLES
        for part in store.snapshot(table, as_of=when).files
    ]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    command = ["fundlab", "report", "--store", _place(store), "--as-of", when.isoformat()]
    command += ["--period", period] if period else []
    command += ["--tz", tz] if tz != "UTC" else []
    return {
        "Store": _place(store),
        "Parts": f"{len(parts):,}, SHA-256 of their names {digest}",
        "Command": shlex.join(command),
        **versions(),
    }


def _place(store: Store) -> str:
    """As seen from the current folder: whoever reads the report needs not know what is above."""
    if isinstance(store.path, Path):
        with suppress(ValueError, FileNotFoundError):  # it is elsewhere, or we are nowhere
            return str(store.path.relative_to(Path.cwd()))
    return str(store.path)


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


@queries
def _standing(store: Store) -> tuple[Judgement, int]:
    """How all that the store knows stands: the verdict, and how many rows break a rule."""
    when = moment(last_publication(store))
    rows = store.scan("transfers", as_of=when)
    judgement = judge(store, as_of=when)
    return judgement, count(checks.invariants(rows, complete=judgement.since is None))


def _broken_rules(violations: int) -> str:
    if not violations:
        return ""
    verb = "check is" if violations == 1 else "checks are"
    return f"{violations:,} row {verb} violated."


def _csv_name(stem: str, sheet: Sheet) -> str:
    return f"{stem}.{sheet.name.lower().replace(' ', '-')}.csv"


def _check_formats(formats: Sequence[str]) -> None:
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats or isinstance(formats, str):
        raise InvalidRequest(f"formats={formats!r}: give some of {', '.join(FORMATS)}")


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """One run at a time in ``folder``; the kernel lets go when the run ends, however it ends."""
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
