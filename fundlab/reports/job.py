"""A store to its report: once, for a period, or for every month that has none yet."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from fundlab.analysis import checks
from fundlab.analysis.closing import closes_in_force, restatements
from fundlab.analysis.counting import choice, looked_through
from fundlab.analysis.engines import relations_of
from fundlab.analysis.reconcile import judge
from fundlab.analysis.value import MAX_AGE
from fundlab.base.errors import InvalidRequest, StoreDamaged, StoreError, printable, shorten
from fundlab.base.paths import local_path, opened
from fundlab.base.periods import check_month, period_bounds
from fundlab.base.values import Instant, moment_ns
from fundlab.evidence.closes import Close
from fundlab.evidence.table_store import TableStore
from fundlab.evidence.vanished_rows import gone_lines
from fundlab.evidence.verdict import Judgement
from fundlab.payments.journal_files import journal_entries
from fundlab.payments.reconciliation import Reconciliation as Payments
from fundlab.payments.reconciliation import reconciled
from fundlab.reports.build import HELD_ROWS, build
from fundlab.reports.facts import Report, broken_rules, versions
from fundlab.reports.inputs import SHOWN, Span, count, moment, with_failures
from fundlab.reports.report_files import FORMATS, check_formats, is_written, write_report
from fundlab.settings.labels import names_given
from fundlab.store.duck import own_connection
from fundlab.store.scan import hold_in_duckdb, queries
from fundlab.tables import TABLES
from fundlab.tables.transfers import MOMENTS, Basis

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from fundlab.bank.reconciliation import Reconciliation
    from fundlab.bank.statements import Statements

Moment = str | datetime
_NEWS: Final = ("pass", "accept", "close", "reopen", "repair")
"""The kinds of records that change what a report says."""


@dataclass(frozen=True)
class CaughtUp:
    """The reports that were missing, and the judgement of all that the store knows: a break of
    yesterday is shown again today, also where no report was missing."""

    written: tuple[Report, ...]
    verdict: Judgement
    violations: int
    moved: tuple[str, ...] = ()
    """The closed periods that have moved, and what the service lists no more."""
    payments: Payments | None = None
    not_over: str = ""
    """Why there is no report, where no month was over from the one on that was asked for."""

    @property
    def is_alarming(self) -> bool:
        rows = self.verdict.is_alarming or self.violations > 0
        return rows or bool(self.moved) or bool(self.payments and self.payments.differences)

    @property
    def proves_nothing(self) -> bool:
        return self.verdict.state == "nothing_to_compare"

    @property
    def text(self) -> str:
        if self.written:
            return "\n".join(report.text for report in self.written)
        said = "" if self.payments is None else self.payments.headline
        line = " ".join(filter(None, [self.verdict.text, broken_rules(self.violations), said]))
        done = self.not_over or "Every month that is over has its report."
        lines = [line, *self.moved, done]
        return "\n".join(map(printable, lines))

    def to_json(self) -> dict[str, Any]:
        return {
            **self.verdict.to_json(),
            "violations": self.violations,
            "moved": list(self.moved),
            **({} if self.payments is None else self.payments.to_json()),
            "verdict": self.verdict.headline,
            "detail": self.verdict.detail,
            "reports": [report.to_json() for report in self.written],
        }


def report(
    store: TableStore,
    period: str | None = None,
    *,
    as_of: Moment | None = None,
    out: str | os.PathLike[str] | None = None,
    formats: Sequence[str] = FORMATS,
    tz: str = "UTC",
    basis: Basis = "settled",
    bank: Reconciliation | Statements | None = None,
    max_age: str = MAX_AGE,
) -> Report:
    """The report of ``period`` (``2026``, ``2026-Q4``, ``2026-10``, ``2026-W40``, ``2026-10-31``;
    by default everything) as the store knew it at ``as_of`` (by default now: at its last news).
    ``basis``: a transfer belongs to the period in which it ``settled`` or was ``created``.

    ``bank`` adds the bank's side: what ``fl.bank.read`` gave, or where that needs options what
    ``fl.bank.reconcile`` gave for the same period. ``max_age`` is how old a price may be by which
    a balance is worth dollars.

    It shows itself in a notebook. With ``out`` it is written to that folder, too: ``html``,
    ``xlsx`` and ``csv``, each under a temporary name first. Its withdrawals say where they differ
    from the journal of this user. No clock is read, so the same store and journal give the same
    bytes. Raises ``InvalidRequest`` for a format, period or time that is not valid,
    for what is not a store and for an ``out`` elsewhere, ``StoreError`` for an empty store,
    ``StoreLocked`` while another run writes to ``out``.

    >>> found = fl.report(store, "2026-10", out=folder, formats=["html"])
    >>> found.verdict.headline
    'Reconciled: 0 breaks'
    >>> [path.name for path in folder.glob("report*")]
    ['report-2026-10.html']
    """
    check_formats(formats)
    store = opened(store)
    found = read_report(
        store, period, as_of=as_of, tz=tz, basis=basis, bank=bank, max_age=max_age,
        payments=payments_of(store),
    )  # fmt: skip
    if out is None:
        return found
    found = write_report(found, out, formats)
    if as_of is None:
        _note(store, found)
    return found


@queries
def read_report(
    store: TableStore, period: str | None = None, *, as_of: Moment | None = None, tz: str = "UTC",
    basis: Basis = "settled", bank: Reconciliation | Statements | None = None,
    max_age: str = MAX_AGE, **given: Any,
) -> Report:  # fmt: skip
    """The figures of :func:`report`; ``given`` goes to :func:`build`."""
    for name, text, such in (
        ("period", period, "2026-10"), ("tz", tz, "Europe/Paris"), ("max_age", max_age, MAX_AGE),
    ):  # fmt: skip
        if not isinstance(text, str) and (name, text) != ("period", None):
            raise InvalidRequest(f"{name}={shorten(text)}: give a text such as {such!r}")
    known_at = last_news(store)
    if as_of is not None:
        known_at = min(known_at, moment_ns(as_of, "as_of"))
    when = moment(known_at)
    one = own_connection()
    if bank is not None:
        from fundlab.bank.reconciliation import Reconciliation, reconcile
        from fundlab.bank.statements import Statements

        if isinstance(bank, Statements):
            bank = reconcile(store, bank, period, as_of=when)
        if not isinstance(bank, Reconciliation):
            raise InvalidRequest(
                f"bank={shorten(bank)}: give what fl.bank.read or fl.bank.reconcile returns"
            )
    if bank is not None and period is not None:
        first, end = period_bounds(period)
        days = moment(first).date(), moment(end - 1).date()
        if (bank.first, bank.last) != days:
            raise InvalidRequest(
                f"bank: it is reconciled for {bank.first} to {bank.last}, the report is of "
                f"{days[0]} to {days[1]}; reconcile the same period"
            )
    moved, restated, untied = [], None, []
    if "moved" not in given:
        moved = restatements(store, as_of=when)
    if moved and period is not None:
        last = last_close(store, basis, period_bounds(period, tz)[0], tz, when)
        restated = next((one.difference for one in moved if one.close == last), None)
        if last is not None and restated is not None and last.end != _end(last, tz):
            restated = None  # of what moved between the two ends the report has its share
            untied.append(
                f"{last} was closed with days in {last.tz}, and this report's days are in {tz}: "
                "its openings are those known now, without a line that leads from that closing to "
                f"them; a report with --tz {last.tz} (tz={last.tz!r}) has it."
            )
    facts: dict[str, Any] = {
        "title": f"Funding report {period}" if period else "Funding report",
        "as_of": when,
        "known_to": moment(transfers_known_until(store, when)),
        "events": store.scan("events", as_of=when, connection=one),
        "fiat_accounts": store.read("fiat_accounts", when),
        "addresses": store.read("addresses", when),
        "judgement": judge(store, as_of=when),
        "sources": sources(store, period, when, tz, basis, bank, max_age),
        "max_age": max_age,
        "restated": restated,
        "moved": moved,
        "bank": bank,
        "gone": [*gone_lines(store.records(as_of=when)), *untied],
        "names": names_given(),
        **given,
    }
    choice("basis", basis, tuple(MOMENTS))
    transfers = _transfers(store, when, one, basis)
    reported = store.read("balances", when)
    if period is not None and basis == "settled":
        span = Span(*period_bounds(period, tz))
        transfers = with_failures(transfers, span, store.current("transfers", when), one)
    with relations_of(one), looked_through(transfers, basis):
        return build(transfers, reported, period=period, tz=tz, basis=basis, **facts)


def _transfers(
    store: TableStore, when: pd.Timestamp, connection: DuckDBPyConnection, basis: Basis
) -> DuckDBPyRelation:
    """Those known at ``when``: many are read once, as everything asks all of them something."""
    manifest = store.manifest()
    current = store.current("transfers", when, manifest=manifest)
    if sum(part.rows for part in current.files) <= HELD_ROWS:
        settled = basis == "settled"
        rows: DuckDBPyRelation = store.scan(
            "transfers", as_of=when, connection=connection, settled=settled
        )
        return rows
    events = store.snapshot("events", when, manifest=manifest)
    rows = hold_in_duckdb(current, events, SHOWN, connection)
    return rows if basis == "settled" else rows.project(", ".join(SHOWN))


def last_close(
    store: TableStore, basis: Basis, before: int, tz: str, as_of: Moment | None = None
) -> Close | None:
    """The close in force of the last period that, with its days in ``tz``, ended until ``before``
    (ns): it may have been closed in another zone."""
    found = [one for one in closes_in_force(store, as_of)
             if one.basis == basis and _end(one, tz) <= before]  # fmt: skip
    return max(found, key=lambda one: _end(one, tz), default=None)


def _end(close: Close, tz: str) -> int:
    return period_bounds(close.period, tz)[1]


def catch_up(
    store: TableStore,
    out: str | os.PathLike[str],
    formats: Sequence[str] = FORMATS,
    *,
    since: str | None = None,
    tz: str = "UTC",
    basis: Basis = "settled",
    max_age: str = MAX_AGE,
) -> CaughtUp:
    """Writes the report of each of :func:`missing_months`; judges all that is known, anyway."""
    months = missing_months(store, out, since, tz, formats, basis)
    payments = payments_of(store)
    shared: dict[str, Any] = {"tz": tz, "basis": basis, "max_age": max_age, "payments": payments}
    written = tuple(
        write_report(read_report(store, month, **shared), out, formats) for month in months
    )
    moved = (*gone_lines(store.records()), *map(str, restatements(store)))
    not_over, known = "", transfers_known_until(store)
    if since is not None and period_bounds(since, tz)[1] > known:
        not_over = (
            f"No month from {since} on is over: what is known ends at "
            f"{moment(known):%Y-%m-%d %H:%M} UTC."
        )
    found = CaughtUp(written, *_judged_now(store), moved, payments, not_over)
    _note(store, found)
    return found


def payments_of(store: TableStore) -> Payments:
    """In what payments of this user's journal differ from what the store has of them."""
    return reconciled(store, journal_entries(store), only_own=False)


def _note(store: TableStore, found: CaughtUp | Report) -> None:
    """For ``fundlab status``. What the report of a period found stands until another one of that
    period, or a look at all rows: by the report of all of them, or a verification."""
    if isinstance(found, CaughtUp):
        problems = {"": found.violations}
    else:
        problems = {found.period: len(found.violations)}
    if isinstance(found, Report) and found.period:
        with suppress(StoreDamaged, KeyError):  # nothing was noted, or nothing that can be read
            runs = store.runs()
            noted = runs["report"]
            if noted["at"] > runs.get("verify", {}).get("at", ""):
                problems = noted.get("of_periods", {"": noted["problems"]}) | problems
    note: dict[str, Any] = {"problems": max(problems.values())}
    if note["problems"]:
        note["of_periods"] = {period: count for period, count in problems.items() if count}
    store.note_run("report", note)


@queries
def _judged_now(store: TableStore) -> tuple[Judgement, int]:
    """The judgement of all that the store knows, and how many rows break a rule."""
    when = moment(last_news(store))
    rows = store.scan("transfers", as_of=when)
    judgement = judge(store, as_of=when)
    return judgement, count(checks.invariants(rows, complete=judgement.since is None))


@queries
def missing_months(
    store: TableStore,
    out: str | os.PathLike[str],
    since: str | None = None,
    tz: str = "UTC",
    formats: Sequence[str] = FORMATS,
    basis: Basis = "settled",
) -> list[str]:
    """The months that are over and of which ``out`` has no report in all of ``formats`` that was
    made then, with days in ``tz`` and on this ``basis``, oldest first, from ``since`` (a month) or
    the store's first transfer on."""
    check_formats(formats)
    folder = local_path(out, "out")
    when = moment(transfers_known_until(store))
    first = store.scan("transfers").aggregate("min(epoch_ns(created_at))").fetchall()[0][0]
    if since is not None:
        check_month(since, tz)
    elif first is None:
        return []
    start = since or f"{moment(first).tz_convert(tz):%Y-%m}"
    last = when.tz_convert(tz).tz_localize(None).to_period("M") - 1
    months = map(str, pd.period_range(pd.Period(start, "M"), last, freq="M"))
    return [month for month in months if not is_written(folder, month, formats, basis, tz)]


def sources(
    store: TableStore,
    period: str | None,
    when: pd.Timestamp,
    tz: str = "UTC",
    basis: Basis = "settled",
    bank: Reconciliation | None = None,
    max_age: str = MAX_AGE,
) -> dict[str, str]:
    """How to get the same figures again: the store, its parts' hash, the command, the versions."""
    parts = [
        f"{table}/{part.path.name}"
        for table in TABLES
        for part in store.snapshot(table, as_of=when).files
    ]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    place = str(store.path)  # as seen from here: a reader needs not know what is above
    if isinstance(store.path, Path):
        with suppress(ValueError, FileNotFoundError):  # it is elsewhere, or we are nowhere
            place = str(store.path.relative_to(Path.cwd()))
    command = ["fundlab", "report", "--store", place, "--as-of", when.isoformat()]
    command += ["--period", period] if period else []
    command += ["--tz", tz] if tz != "UTC" else []
    command += ["--basis", basis] if basis != "settled" else []
    command += ["--max-age", max_age] if max_age != MAX_AGE else []
    statements = {} if bank is None else bank.files
    if bank is not None:
        options = [("bank", file) for file in statements] + [*bank.options.items()]
        command += [word for name, value in options for word in (f"--{name}", value)]
    return {
        "Store": place,
        "Parts": f"{len(parts):,}, SHA-256 of their names {digest}",
        "Command": shlex.join(command),
        **{f"Statement {file}": f"SHA-256 {digest}" for file, digest in statements.items()},
        **versions(),
    }


def last_news(store: TableStore) -> int:
    """When what a report says changed last, in nanoseconds: by a publication, or by what a sync
    noted of rows, what somebody accepted, a close, or its end. Raises ``StoreError`` if never."""
    noted = [Instant.parse(one.at).ns for one in store.records() if one.kind in _NEWS]
    return max([transfers_known_until(store), *_published(store, TABLES), *noted])


def transfers_known_until(store: TableStore, as_of: Moment | None = None) -> int:
    """Until when the store knows the transfers, in nanoseconds: the last publication of them, or of
    balances, which are read together with them, or a later sync of transfers that found nothing
    new. Another table may be synced alone, and says nothing of transfers; it counts only as long as
    there never were any. Raises ``StoreError`` where nothing was ever published."""
    tables = ("transfers", "balances")
    moments = _published(store, tables, as_of) or _published(store, TABLES, as_of)
    if not moments:
        raise StoreError(
            f"{store.path} holds nothing yet; run 'fundlab sync' first, or again once the service "
            "has transfers"
        )
    last, asked = max(moments), 0
    if last == max(_published(store, tables), default=0):  # else the last sync was of later rows
        with suppress(StoreDamaged, KeyError):  # none was noted, or none that can be read
            asked = Instant.parse(store.runs()["sync"]["tables"]["transfers"]).ns
    return max(last, asked if as_of is None else min(asked, moment_ns(as_of, "as_of")))


def _published(store: TableStore, tables: Iterable[str], as_of: Moment | None = None) -> list[int]:
    entries = (store.snapshot(table, as_of).last for table in tables)
    return [entry.published_at for entry in entries if entry is not None]
