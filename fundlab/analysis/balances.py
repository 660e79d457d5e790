"""Balances rebuilt from transfers: after each one, at any time, at the close of every day."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

import narwhals as nw
import pyarrow as pa

from fundlab.analysis import rows as counted
from fundlab.analysis.engines import (
    MONEY_TYPE,
    ROW,
    FrameT,
    Workbench,
    column_names,
    columns,
)
from fundlab.analysis.periods import DAY, day_number, days_between, local_ns, span
from fundlab.analysis.rows import KEYS, Rows, View
from fundlab.errors import AnalysisError
from fundlab.moments import moment_ns

_TEXT: Final = pa.string()
_AT: Final = columns(profile_id=_TEXT, asset=_TEXT, balance=MONEY_TYPE)
_DAILY: Final = columns(profile_id=_TEXT, asset=_TEXT, date=pa.date32(), balance=MONEY_TYPE)


def running(
    transfers: FrameT, opening: object = None, view: View = "ledger", by: str = "created_at"
) -> FrameT:
    """The transfers that count, in order of ``by`` (ties by ``id``), each with the exact
    ``balance`` of its profile and asset after it.

    Every column of ``transfers`` stays as it was, except ``asset``: it names the asset whose
    balance changes (``balance_asset`` where present). ``opening`` has ``profile_id``, ``asset``,
    ``balance``. Raises :class:`AnalysisError` for missing columns and rows nobody can count,
    ``OverflowError`` for a balance beyond 20 integer digits. Interface §2.4.
    """
    with Workbench(transfers) as bench:
        changes = counted.changes(bench, transfers, view, by, keep=True)
        _refuse_column(transfers, "balance")
        order = ["at", "id"] if bench.lazy else ["at", "id", ROW]
        opened = counted.opening_balances(bench, opening)
        balance = nw.col("change").cum_sum().over(*KEYS, order_by=order)
        result = (
            changes.with_columns(moved=balance)
            .join(opened, on=list(KEYS), how="left")
            .with_columns(balance=nw.coalesce("opened", counted.zero()) + nw.col("moved"))
            .sort(order)
        )
        widened: FrameT = bench.give_rows(result, {"asset": _TEXT, "balance": MONEY_TYPE})
        return widened


def at(
    transfers: FrameT,
    when: str | datetime,
    opening: object = None,
    view: View = "ledger",
    by: str = "created_at",
) -> FrameT:
    """``profile_id``, ``asset``, ``balance`` once everything up to and including ``when`` has
    happened, sorted; one row for each profile and asset that moved until then or was opened.

    ``when`` is ISO text, a datetime or a Timestamp, nanoseconds included; a calendar day stands
    for its first moment.
    Statuses are those of ``transfers``: a transfer pending now counts as pending at ``when``.
    """
    moment = moment_ns(when, "when")
    with Workbench(transfers) as bench:
        changes = counted.changes(bench, transfers, view, by).filter(nw.col("at") <= moment)
        balances = balances_of(changes, counted.opening_balances(bench, opening))
        result: FrameT = bench.give(balances.sort(KEYS), _AT)
        return result


def daily(
    transfers: FrameT,
    tz: str = "UTC",
    until: str | date | datetime | None = None,
    opening: object = None,
    view: View = "ledger",
    by: str = "created_at",
) -> FrameT:
    """Closing balances: ``profile_id``, ``asset``, ``date``, ``balance``, sorted.

    One row for every calendar day in ``tz`` from the first change of that profile and asset to
    its last one, or to ``until`` (that day included); days without movement repeat the balance.
    ``date`` is midnight without zone in pandas, a date elsewhere.
    """
    end = None if until is None else day_number("until", until)
    with Workbench(transfers) as bench:
        changes = counted.changes(bench, transfers, view, by)
        bounds = span(bench, changes) or (0, 0)
        moved = (
            changes.with_columns(day=local_ns(tz, *bounds) // DAY)
            .group_by(*KEYS, "day")
            .agg(change=nw.col("change").sum())
        )
        calendar = bench.constant(days_between(bounds[0] // DAY - 1, _last_day(bounds[1], end)))
        closing = (
            _every_day(moved, calendar, end)
            .join(moved, on=[*KEYS, "day"], how="left")
            .with_columns(change=nw.coalesce("change", counted.zero()))
            .with_columns(moved=nw.col("change").cum_sum().over(*KEYS, order_by="day"))
            .join(counted.opening_balances(bench, opening), on=list(KEYS), how="left")
            .with_columns(balance=nw.coalesce("opened", counted.zero()) + nw.col("moved"))
        )
        result: FrameT = bench.give(closing.sort(*KEYS, "day"), _DAILY)
        return result


def balances_of(changes: Rows, opened: Rows) -> Rows:
    """Opening plus all changes, for each profile and asset that has either."""
    sums = changes.group_by(*KEYS).agg(moved=nw.col("change").sum())
    both = sums.join(opened, on=list(KEYS), how="full", suffix="_opened")
    return both.select(
        *(nw.coalesce(key, f"{key}_opened").alias(key) for key in KEYS),
        balance=nw.coalesce("opened", counted.zero()) + nw.coalesce("moved", counted.zero()),
    )


def _every_day(moved: Rows, calendar: Rows, end: int | None) -> Rows:
    bounds = moved.group_by(*KEYS).agg(first=nw.col("day").min(), last=nw.col("day").max())
    last = nw.col("last") if end is None else nw.lit(end)
    days = bounds.join(calendar, how="cross")
    return days.filter(nw.col("day") >= nw.col("first"), nw.col("day") <= last)


def _last_day(last: int, end: int | None) -> int:
    return last // DAY + 1 if end is None else end


def _refuse_column(transfers: object, name: str) -> None:
    if name in column_names(transfers):
        raise AnalysisError(f"transfers already has a column {name!r}; drop or rename it first")
