"""Transfers, balances and events to a frozen :class:`Report` of a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pandas as pd

from fundlab.analysis import balances as analysis
from fundlab.analysis.closing import Restatement
from fundlab.analysis.compare import compare, known_of
from fundlab.analysis.engines import held
from fundlab.analysis.value import MAX_AGE
from fundlab.base.periods import Moment, period_before, period_bounds
from fundlab.base.progress import progress_bar
from fundlab.base.values import moment_ns
from fundlab.charts import MAX_SERIES
from fundlab.evidence.verdict import KEYS, Judgement, pronounce
from fundlab.payments.reconciliation import Reconciliation as Payments
from fundlab.reports import figures
from fundlab.reports.facts import Report
from fundlab.reports.inputs import (
    DAY,
    INTERNAL,
    PLACED,
    Span,
    check_begun,
    count,
    frame_of,
    moment,
    named,
    placed,
    relation,
)
from fundlab.reports.sections import SECTIONS, Material
from fundlab.settings.labels import labels
from fundlab.tables import TABLES, to_frame
from fundlab.tables.transfers import SETTLED_AT, Basis

if TYPE_CHECKING:
    from fundlab.bank.reconciliation import Reconciliation

HELD_ROWS: Final = 100_000
"""Transfers that a report reads into memory, some 60 MB; more of a store are compressed there."""
_FREQUENCIES: Final = ((45, "D"), (180, "W"), (1900, "MS"), (10**9, "QS"))


def build(
    transfers: object,
    reported: pd.DataFrame,
    *,
    title: str,
    as_of: str | datetime,
    known_to: str | datetime | None = None,
    period: str | tuple[Moment, Moment] | None = None,
    events: object = None,
    fiat_accounts: pd.DataFrame | None = None,
    addresses: pd.DataFrame | None = None,
    assertions: pd.DataFrame | None = None,
    opening: pd.DataFrame | None = None,
    judgement: Judgement | None = None,
    withdrawals: Sequence[str] | None = None,
    payments: Payments | None = None,
    sources: Mapping[str, str] | None = None,
    tz: str = "UTC",
    basis: Basis | None = None,
    restated: pd.DataFrame | None = None,
    moved: Sequence[Restatement] = (),
    bank: Reconciliation | None = None,
    gone: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    max_age: str = MAX_AGE,
) -> Report:
    """The report of ``period`` (by default everything) from ``transfers`` and the ``reported``
    balances (``fl.load_balances``), as known at ``as_of``. ``known_to`` is until when the transfers
    are known, where that is earlier: they were not asked for since.

    ``transfers`` and ``events`` are DataFrames, Arrow tables or DuckDB relations
    (``store.scan``), which are queried piece by piece. ``judgement`` is that of their store
    (``fl.reconcile.judge``), with its observations and openings; without it the frames are
    compared, with the ``assertions`` (balances observed, which say since when one is off) and the
    ``opening`` given. ``withdrawals`` are the ids of transfers made on this
    occasion; without it the latest are shown. ``payments`` says in what they differ from the
    journal they were confirmed in. ``sources`` says how to get the same
    figures again.
    ``basis`` is by what a transfer belongs to the period: ``settled`` (the default where the
    transfers have ``settled_at``, as ``store.scan("transfers", settled=True)`` gives it; what has
    not settled belongs to when it was created) or ``created``. ``restated`` (``profile_id``,
    ``asset``, ``amount``) is what leads from the closing of the last close to what is known now of
    the opening: a line of its own. ``moved`` are the closed periods that have moved, ``bank`` is
    the reconciliation of the same days with the bank. ``gone`` are lines beside those of
    ``moved``: on what the service lists no more, or a close that it does not go on from.
    ``names`` are what profiles, accounts and addresses are called, by their ids in small letters.
    ``max_age`` is that of the prices by which balances are worth dollars
    (:func:`fundlab.value.of`).
    No clock is read. Raises what the analyses raise, and ``AnalysisError`` for a period that has
    not begun by then.
    """
    known_at = moment_ns(as_of, "as_of")
    known_until = known_at if known_to is None else min(known_at, moment_ns(known_to, "known_to"))
    every = relation(transfers, "transfers")
    if basis is None:
        basis = "settled" if SETTLED_AT in every.columns else "created"
    every = placed(every, basis)
    if few := count(every) <= HELD_ROWS:
        every = held(every, "every")
    known = Span(None, known_until + 1)
    rows = known.of(every, PLACED)

    # What is known of the period, and the period before it to compare with: the month before a
    # month, the week before a week; before two moments as long a time.
    name = " to ".join(map(str, period)) if isinstance(period, tuple) else period or ""
    first, ends = (None, known.end) if period is None else period_bounds(period, tz)
    if first is not None:
        check_begun(name, first, known_until)
    span = Span(first, min(ends, known.end))
    before, before_name = None, ""
    if first is not None:
        before, before_name = Span(2 * first - span.end, first), "the time before"
    if first is not None and isinstance(period, str):
        before_name = period_before(period, tz)
        before = Span(*period_bounds(before_name, tz))
    until = Span(None, span.end).of(rows, PLACED)
    inside = span.of(rows, PLACED)
    outer = inside.filter(f"NOT {INTERNAL}")

    seen = to_frame(TABLES["balances"].schema.empty_table()) if reported is None else reported
    if judgement is None:
        begins = known_of(transfers, "transfers").get("since")
        judgement = pronounce(
            frame_of(compare(rows, seen, opening, knowing=transfers)),
            figures.no_observations() if assertions is None else assertions,
            opening,
            begins=moment_ns(begins, "since") if isinstance(begins, str) else None,
            transfers=count(rows),
        )
    elif len(judgement.opening):
        opening = judgement.opening
    complete = opening is None and judgement.since is None
    if before is not None and judgement.lacks_moves(before.first or 0, basis):
        before, before_name = None, ""
    if period is not None:
        judgement = judgement.of_period(name, count(inside))

    oldest = rows.aggregate("min(epoch_ns(created_at))").fetchall()[0][0]
    bounds = inside.aggregate(f"min(epoch_ns({PLACED})), max(epoch_ns({PLACED}))").fetchall()[0]
    first_change, last_change = (None if ns is None else moment(ns) for ns in bounds)
    start, stop = bounds if first is None else (first, span.end)
    days = 0 if start is None else (stop - start) // DAY
    freq = next(freq for limit, freq in _FREQUENCIES if days <= limit)

    # The busiest profiles are drawn by name, the others as one.
    counts = until.aggregate("profile_id, count(*) AS rows").order("rows DESC, profile_id")
    profiles = [str(profile) for profile, _ in counts.fetchall()]
    if opening is not None:
        profiles += sorted({*opening["profile_id"].astype(str)} - {*profiles})
    kept = profiles if len(profiles) <= MAX_SERIES else profiles[: MAX_SERIES - 1]
    others = f"{len(profiles) - len(kept):,} others"
    drawn = named(until, kept, others)
    opened = None
    if opening is not None:
        shown = opening["profile_id"].where(opening["profile_id"].isin(kept), others)
        sums = opening.assign(profile_id=shown).groupby(KEYS, as_index=False)["balance"].sum()
        opened = pd.DataFrame(sums)

    recipients = figures.Recipients(fiat_accounts, addresses, names or {})
    made = known.of(every)
    balances = figures.balance_table(made, span, opening, basis)
    rolled = (moment(0 if first is None else first), moment(span.end))
    roll_forward = frame_of(analysis.roll_forward(made, rolled, opening, basis=basis))
    if restated is not None and len(restated):
        balances, roll_forward = figures.tied(balances, roll_forward, restated)
    known_ids = map(str, [*judgement.table["profile_id"], *balances["profile_id"]])
    called = labels([*profiles, *known_ids], names or {})
    open_rows, open_at = until.filter("status = 'PENDING'"), known_until
    if basis == "settled":
        open_rows, open_at = figures.open_then(Span(None, span.end).of(every), span), span.end - 1
    if not few:
        open_rows = held(open_rows, "open_rows")
    aged_at = f"{moment(open_at).tz_convert(tz):%Y-%m-%d %H:%M} {tz}"
    broken = figures.violations(until, span, before, complete)
    violations = broken[broken["now"]].drop(columns="now").reset_index(drop=True)
    past = None
    if before is not None:
        violated = len(broken) - len(violations)
        past = figures.figures_before(rows, every, before, judgement, basis, violated)
    material = Material(
        rows=rows, inside=inside, until=until, outer=outer, drawn=drawn, pending=open_rows,
        open_at=moment(open_at), before=(before or Span(0, 0)).of(rows, PLACED), span=span,
        has_before=before is not None,
        busy=sorted(kept), balances=balances, roll_forward=roll_forward, violations=violations,
        judgement=judgement,
        reported=seen, opening=opening, opened=opened, moved=moved, events=events,
        fiat_accounts=fiat_accounts, recipients=recipients, made_here=withdrawals,
        differences={} if payments is None else payments.by_ref_id(),
        approved_by={} if payments is None else payments.approved_by, labels=called,
        freq=freq, tz=tz, basis=basis, max_age=max_age,
    )  # fmt: skip
    frames = {}
    with progress_bar(len(SECTIONS), "tables", "computing the report") as bar:
        for section in SECTIONS:
            frames[section.name] = section.make(material)
            bar.update()
    return Report(
        title=title,
        period=name,
        first=None if first is None else moment(first),
        end=moment(span.end),
        ends=None if ends <= span.end else moment(ends),
        known_from=None if oldest is None or oldest < span.end else moment(oldest),
        as_of=moment(known_at),
        known_until=moment(known_until),
        first_change=first_change,
        last_change=last_change,
        tz=tz,
        freq=freq,
        basis=basis,
        verdict=judgement,
        key_figures=figures.key_figures(
            inside,
            judgement,
            frames["open_items"],
            aged_at,
            frames["fees"],
            violations,
            count(every) - count(rows),
            past,
        ),
        frames=frames,
        aged_at=aged_at,
        moved=(*gone, *map(str, moved)),
        made_here=withdrawals is not None,
        bank=bank,
        payments=payments,
        labels=called,
        before=before_name,
        max_age=max_age,
        sources=dict(sources or {}),
    )
