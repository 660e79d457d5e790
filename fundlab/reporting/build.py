"""Transfers, balances and events to a frozen :class:`Report` of a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import pandas as pd

from fundlab.analysis import balances, checks, fees, flows
from fundlab.analysis.compare import begins as begin_of
from fundlab.analysis.compare import compare_knowing
from fundlab.analysis.periods import Moment, period_bounds
from fundlab.charts import MAX_SERIES
from fundlab.decimals import DecimalDtype
from fundlab.errors import AnalysisError
from fundlab.moments import moment_ns
from fundlab.reporting import details, verdict
from fundlab.reporting.facts import Report
from fundlab.reporting.inputs import (
    INTERNAL,
    Relation,
    Span,
    count,
    frame_of,
    moment,
    named,
    relation,
)
from fundlab.store.judgement import Judgement, pronounce
from fundlab.tables import TABLES, to_frame
from fundlab.transfers import VIOLATION

KEYS: Final = ["profile_id", "asset"]
CALENDAR_DAYS: Final = 371
_DAY: Final = 86_400_000_000_000
_FREQUENCIES: Final = ((45, "D"), (180, "W"), (1900, "MS"), (10**9, "QS"))


def build(
    transfers: object,
    reported: pd.DataFrame,
    *,
    title: str,
    as_of: str | datetime,
    period: str | tuple[Moment, Moment] | None = None,
    events: object = None,
    fiat_accounts: pd.DataFrame | None = None,
    addresses: pd.DataFrame | None = None,
    assertions: pd.DataFrame | None = None,
    opening: pd.DataFrame | None = None,
    judgement: Judgement | None = None,
    withdrawals: Sequence[str] | None = None,
    sources: Mapping[str, str] | None = None,
    tz: str = "UTC",
) -> Report:
    """The report of ``period`` (by default everything) from ``transfers`` and the ``reported``
    balances (``fl.load_balances``), as known at ``as_of``.

    ``transfers`` and ``events`` are DataFrames, Arrow tables or DuckDB relations
    (``store.scan``), which are queried piece by piece. ``judgement`` is that of their store
    (``fl.reconcile.judge``), with its observations and openings; without it the frames are
    compared, with the ``assertions`` (balances observed, which tell since when one is off) and the
    ``opening`` given. ``withdrawals`` are the ids of transfers made on this
    occasion; without it the latest are shown. ``sources`` tells how to get the same figures again.
    No clock is read. Raises what the analyses raise, and ``AnalysisError`` for a period that has
    not begun by ``as_of``.
    """
    known_at = moment_ns(as_of, "as_of")
    every = relation(transfers, "transfers")
    rows = Span(None, known_at + 1).of(every)
    span, ends = _span(period, tz, known_at)
    inside, until = span.of(rows), Span(None, span.end).of(rows)
    outer = inside.filter(f"NOT {INTERNAL}")
    seen = to_frame(TABLES["balances"].empty()) if reported is None else reported
    if judgement is None:
        comparison = frame_of(compare_knowing(rows, seen, opening, knowing=transfers))
        asserted = _no_assertions() if assertions is None else assertions
        begins = begin_of(transfers)
        judgement = pronounce(
            comparison,
            asserted,
            opening,
            begins=None if begins is None else moment_ns(begins, "since"),
            transfers=count(rows),
        )
    elif len(judgement.opening):
        opening = judgement.opening
    first, last = _changes(inside)
    freq = _frequency(span, first, last)
    profiles = _Profiles(until, opening)
    drawn = named(until, profiles.kept, profiles.others)
    opened = None if opening is None else profiles.summed(opening)
    table = _balances(until, inside, span, opening, tz)
    fee_sums = _fees(rows, span, _span_before(period, span, tz))
    recipients = details.Recipients(fiat_accounts, addresses)
    open_items = details.open_items(until, moment(known_at))
    violations = frame_of(
        _violations(until, inside, complete=opening is None and judgement.since is None)
    )
    if period is not None:
        judgement = judgement.of_period(_period_name(period), count(inside))
    return Report(
        title=title,
        period=_period_name(period),
        first=None if span.first is None else moment(span.first),
        end=moment(span.end),
        ends=None if ends <= span.end else moment(ends),
        as_of=moment(known_at),
        first_change=first,
        last_change=last,
        tz=tz,
        freq=freq,
        verdict=judgement,
        key_figures=verdict.key_figures(
            details.states(inside),
            judgement,
            open_items,
            fee_sums,
            violations,
            later=count(every) - count(rows),
        ),
        balances=table,
        course=_course(drawn, span, opened, tz),
        assertions=judgement.observations,
        movements=details.movements(inside, table),
        flows=_flows(outer, freq, tz),
        daily_flows=_flows(Span(span.end - CALENDAR_DAYS * _DAY, span.end).of(outer), "D", tz),
        links=details.links(span.of(drawn), recipients),
        fees=fee_sums,
        fees_over_time=frame_of(fees.summary(inside, freq=freq, tz=tz)),
        settlement=frame_of(flows.settlement_time(inside)),
        hours=details.hours(inside),
        reconciliation=judgement.table,
        causes=verdict.explained(rows, seen, opening, judgement.broken),
        open_items=open_items,
        ageing=_oldest_first(frame_of(flows.ageing(until, moment(known_at)))),
        withdrawals=details.withdrawals(inside, recipients, withdrawals),
        recipients=details.recipient_sums(inside, recipients),
        violations=violations,
        anomalies=details.anomalies(until, span, fiat_accounts),
        pairs=frame_of(flows.internal_pairs(until).filter("status <> 'paired'")),
        events=details.event_counts(events, span),
        notable=details.notable_events(events, span),
        made_here=withdrawals is not None,
        sources=dict(sources or {}),
    )


# --------------------------------------------------------------------------------- its parts


def _violations(known: Relation, inside: Relation, complete: bool) -> Relation:
    """Of the transfers ``inside`` the period, seen among all that are known: the other half of a
    transfer, or what a conversion names, may be of another month. An ``opening`` means that what
    came before is not there."""
    ids = inside.project("id").distinct().set_alias("inside")
    found = checks.invariants(known, complete).set_alias("found")
    mine = found.join(ids, "found.transfer_id IS NOT DISTINCT FROM inside.id", "semi")
    return mine.order(", ".join(VIOLATION.names))


def _span(period: str | tuple[Moment, Moment] | None, tz: str, known_at: int) -> tuple[Span, int]:
    """What is known of ``period``, and when the whole of it ends."""
    if period is None:
        return Span(None, known_at + 1), known_at + 1
    first, end = period_bounds(period, tz)
    if first > known_at:
        raise AnalysisError(
            f"period={_period_name(period)!r} has not begun: it starts at "
            f"{moment(first).isoformat()}, and what is known ends at "
            f"{moment(known_at).isoformat()}; give an earlier period, or sync the store first"
        )
    return Span(first, min(end, known_at + 1)), end


def _span_before(period: str | tuple[Moment, Moment] | None, span: Span, tz: str) -> Span | None:
    """The month before a month, the week before a week; before two moments a span as long."""
    if span.first is None or not isinstance(period, str):
        return span.before
    day = moment(span.first - 1).tz_convert(tz)
    if "W" in period:
        year, week, _ = day.isocalendar()
        name = f"{year}-W{week:02d}"
    elif "Q" in period:
        name = f"{day.year}-Q{day.quarter}"
    else:
        name = f"{day:%Y-%m-%d}"[: len(period)]
    return Span(*period_bounds(name, tz))


def _period_name(period: str | tuple[Moment, Moment] | None) -> str:
    if isinstance(period, tuple):
        return " to ".join(map(str, period))
    return period or ""


def _no_assertions() -> pd.DataFrame:
    empty = to_frame(TABLES["balances"].empty())
    amounts = dict.fromkeys(("reported", "rebuilt", "difference"), empty["available"])
    known = empty[["profile_id", "asset", "observed_at"]].assign(**amounts)
    return known.assign(complete=pd.Series(dtype="boolean"))


def _changes(rows: Relation) -> tuple[pd.Timestamp | None, pd.Timestamp | None]:
    bounds = rows.aggregate("min(epoch_ns(created_at)), max(epoch_ns(created_at))")
    first, last = bounds.fetchall()[0]
    return (None, None) if first is None else (moment(first), moment(last))


def _frequency(span: Span, first: pd.Timestamp | None, last: pd.Timestamp | None) -> str:
    if span.first is not None:
        days = (span.end - span.first) // _DAY
    else:
        days = 0 if first is None or last is None else (last - first).days
    return next(freq for limit, freq in _FREQUENCIES if days <= limit)


class _Profiles:
    """The busiest profiles, drawn by name; the others are one."""

    def __init__(self, rows: Relation, opening: pd.DataFrame | None) -> None:
        counts = rows.aggregate("profile_id, count(*) AS rows").order("rows DESC, profile_id")
        names = [str(name) for name, _ in counts.fetchall()]
        if opening is not None:
            names += sorted({*opening["profile_id"].astype(str)} - {*names})
        self.kept = names if len(names) <= MAX_SERIES else names[: MAX_SERIES - 1]
        self.others = f"{len(names) - len(self.kept):,} others"

    def summed(self, opening: pd.DataFrame) -> pd.DataFrame:
        names = opening["profile_id"].where(opening["profile_id"].isin(self.kept), self.others)
        sums = opening.assign(profile_id=names).groupby(KEYS, as_index=False)["balance"].sum()
        return pd.DataFrame(sums)


def _balances(
    until: Relation, inside: Relation, span: Span, opening: pd.DataFrame | None, tz: str
) -> pd.DataFrame:
    """Opening, flows, closing, held and available of every profile and asset."""
    end = moment(span.end - 1)
    sides = {
        "closing": frame_of(balances.at(until, end, opening)),
        "available": frame_of(balances.at(until, end, opening, "available")),
    }
    if span.first is not None:
        sides["opening"] = frame_of(balances.at(until, moment(span.first - 1), opening))
    elif opening is not None:
        sides["opening"] = opening[[*KEYS, "balance"]]
    nothing = sides["closing"].iloc[:0]
    table = nothing[KEYS]
    for name in ("opening", "closing", "available"):
        side = sides.get(name, nothing).rename(columns={"balance": name})
        table = table.merge(side, on=KEYS, how="outer")
    moved = frame_of(flows.net(inside, "QS", tz))
    sums = moved.groupby(KEYS, as_index=False)[["inflow", "outflow"]].sum()
    table = table.merge(sums, on=KEYS, how="left")
    for name in ("opening", "closing", "available", "inflow", "outflow"):
        table[name] = table[name].astype(DecimalDtype()).fillna(0)
    table["held"] = table["closing"] - table["available"]
    order = [*KEYS, "opening", "inflow", "outflow", "closing", "held", "available"]
    return table[order].sort_values(["asset", "profile_id"], kind="stable", ignore_index=True)


def _oldest_first(ageing: pd.DataFrame) -> pd.DataFrame:
    """By age: whatever is in an older bracket is older than all of a younger one."""
    return ageing.sort_values("oldest", kind="stable", ignore_index=True)


def _course(drawn: Relation, span: Span, opening: pd.DataFrame | None, tz: str) -> pd.DataFrame:
    last = moment(span.end - 1).tz_convert(tz)
    course = frame_of(balances.daily(drawn, tz, last.date(), opening))
    if span.first is not None:
        first_day = moment(span.first).tz_convert(tz).tz_localize(None).normalize()
        inside = course["date"] >= first_day - pd.Timedelta(days=1)
        course = course[inside].reset_index(drop=True)
    if opening is not None:
        course = _with_idle(course, opening, last.tz_localize(None).normalize())
    return course


def _with_idle(course: pd.DataFrame, opening: pd.DataFrame, last: pd.Timestamp) -> pd.DataFrame:
    """``course`` with the opening balances that never moved, over its days up to ``last``."""
    moved = pd.MultiIndex.from_frame(course[KEYS])
    idle = opening[(opening["balance"] != 0) & ~pd.MultiIndex.from_frame(opening[KEYS]).isin(moved)]
    first = course["date"].min() if len(course) else last
    days = pd.DataFrame({"date": pd.date_range(first, last, freq="D", unit="ns")})
    flat = idle[[*KEYS, "balance"]].merge(days, how="cross").astype(course.dtypes.to_dict())
    both = pd.concat([course, flat[course.columns]], ignore_index=True)
    return both.sort_values([*KEYS, "date"], kind="stable", ignore_index=True)


def _flows(outer: Relation, freq: str, tz: str) -> pd.DataFrame:
    """All profiles together: what came from outside and went there."""
    by_profile = frame_of(flows.net(outer, freq, tz))
    sums = by_profile.groupby(["period", "asset"], as_index=False)
    return pd.DataFrame(sums[["inflow", "outflow", "net"]].sum())


def _fees(rows: Relation, span: Span, before: Span | None) -> pd.DataFrame:
    """Effective fees, and how they moved against the period before."""
    now = frame_of(fees.effective(span.of(rows)))
    by = ["type", "asset"]
    earlier = frame_of(fees.effective((before or Span(0, 0)).of(rows)))[[*by, "bps"]]
    both = now.merge(earlier.rename(columns={"bps": "bps_before"}), on=by, how="left")
    both["bps_before"] = both["bps_before"].astype(DecimalDtype())
    return both.assign(drift=both["bps"] - both["bps_before"])
