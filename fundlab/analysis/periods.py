"""Days and periods of nanosecond times, in any time zone, by integer arithmetic and one join.

The engine never sees a time zone: the few changes of offset within the data are found here and
handed over as numbers, the calendar as a small table.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from fundlab.analysis.engines import Workbench
from fundlab.errors import AnalysisError, shorten
from fundlab.moments import moment_ns
from fundlab.transfers import Rows

Moment = str | datetime
DAY: Final = 86_400_000_000_000
_HOUR: Final = 3_600_000_000_000
_ISO_DAY: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ]00:00(?::00(?:\.0+)?)?Z?)?", re.ASCII)
_DAY, _STEP = "period:day", "period:step"
"""Columns on the way to a period, named as no column of a caller's is."""


def zone(tz: str) -> ZoneInfo:
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise AnalysisError(
            f"tz={tz!r} is no time zone; give a name such as 'Europe/Paris'"
        ) from error


def span(bench: Workbench, rows: Rows) -> tuple[int, int] | None:
    """First and last ``at`` in nanoseconds; ``None`` without rows."""
    found = bench.collect(rows.select(first=nw.col("at").min(), last=nw.col("at").max()))
    first, last = found.column("first")[0].as_py(), found.column("last")[0].as_py()
    return None if first is None else (first, last)


def local_ns(tz: str, first: int, last: int) -> nw.Expr:
    """``at`` as wall-clock nanoseconds of ``tz``, for times from ``first`` to ``last``."""
    (_, offset), *later = _offsets(zone(tz), first, last)
    shift: nw.Expr = nw.lit(offset)
    for start, offset in later:
        shift = nw.when(nw.col("at") >= start).then(nw.lit(offset)).otherwise(shift)
    return nw.col("at") + shift


def whole(nanoseconds: nw.Expr, step: int) -> nw.Expr:
    """How many whole ``step`` there are, rounded down, also before 1970.

    Only a multiple is divided: an engine that divides integers as floats stays exact.
    """
    return ((nanoseconds - nanoseconds % step) // step).cast(nw.Int64)


def with_period(bench: Workbench, rows: Rows, freq: str, tz: str = "UTC") -> Rows:
    """``rows`` with the column ``period``: the label that pandas' ``Grouper(freq=freq)`` gives.

    Clock frequencies (``h``, ``15min``) must divide a day evenly and start at midnight UTC.
    """
    offset = _offset(freq)
    bounds = span(bench, rows) or (0, 0)
    if isinstance(offset, pd.tseries.offsets.Tick):
        return _with_clock_period(bench, rows, freq, int(pd.Timedelta(offset).value), tz, bounds)
    rows = rows.with_columns(whole(local_ns(tz, *bounds), DAY).alias(_DAY))
    first, last = (_local_day(moment, tz) for moment in bounds)
    days = pd.date_range(_stamp(first), _stamp(last), freq="D", unit="ns")
    labels = pd.Series(days, index=days).groupby(pd.Grouper(freq=offset)).ngroup()
    starts = pd.DatetimeIndex(pd.Series(days, index=days).resample(offset).size().index)
    period = starts[labels.to_numpy()].tz_localize(
        tz, nonexistent="shift_forward", ambiguous=np.ones(len(days), dtype=bool)
    )
    calendar = pa.table(
        {
            _DAY: pa.array(range(first, last + 1), pa.int64()),
            "period": pa.array(period).cast(pa.timestamp("us", "UTC")),
        }
    )
    return rows.join(bench.constant(calendar), on=_DAY, how="inner").drop(_DAY)


def period_bounds(period: str | tuple[Moment, Moment], tz: str = "UTC") -> tuple[int, int]:
    """First nanosecond of ``period``, and the first after it, in the zone ``tz``.

    ``period`` is a year ``2026``, quarter ``2026-Q1``, month ``2026-03``, ISO week ``2026-W10`` or
    day ``2026-03-08``, or a pair of moments (the second is left out). Raises ``AnalysisError``.
    """
    if isinstance(period, tuple):
        if len(period) != 2:
            raise AnalysisError(f"period={shorten(period)}: give two moments, or text")
        first, end = moment_ns(period[0], "period"), moment_ns(period[1], "period")
    else:
        days = _calendar_days(period)
        try:
            first, end = (_midnight(day, tz) for day in days)
        except pd.errors.OutOfBoundsDatetime as error:
            raise _beyond("period", period) from error
    if first >= end:
        raise AnalysisError(f"period={shorten(period)} ends before it begins")
    return first, end


def _calendar_days(period: str) -> tuple[date, date]:
    for pattern, days in _PERIODS:
        match = pattern.fullmatch(period) if isinstance(period, str) else None
        if match is not None:
            try:
                start, stop = days(*map(int, match.groups()))
            except OverflowError as error:  # the last day there is has no day after it
                raise _beyond("period", period) from error
            except ValueError as error:
                raise AnalysisError(f"period={period!r}: {error}") from error
            return start, stop
    raise AnalysisError(
        f"period={shorten(period)} is no period; give '2026', '2026-Q1', '2026-03', '2026-W10', "
        "'2026-03-08' or a pair of moments"
    )


def _months(year: int, month: int, count: int) -> tuple[date, date]:
    after = year * 12 + month - 1 + count
    return date(year, month, 1), date(after // 12, after % 12 + 1, 1)


def _week(year: int, week: int) -> tuple[date, date]:
    monday = date.fromisocalendar(year, week, 1)
    return monday, monday + timedelta(days=7)


def _day(year: int, month: int, day: int) -> tuple[date, date]:
    found = date(year, month, day)
    return found, found + timedelta(days=1)


_PERIODS: Final = tuple(
    (re.compile(pattern, re.ASCII), days)
    for pattern, days in (
        (r"(\d{4})", lambda year: _months(year, 1, 12)),
        (r"(\d{4})-?Q([1-4])", lambda year, quarter: _months(year, 3 * quarter - 2, 3)),
        (r"(\d{4})-(\d{2})", lambda year, month: _months(year, month, 1)),
        (r"(\d{4})-W(\d{2})", _week),
        (r"(\d{4})-(\d{2})-(\d{2})", _day),
    )
)


def _midnight(day: date, tz: str) -> int:
    """The first moment of the day; where clocks skip midnight, the first that there is."""
    zone(tz)
    stamp = pd.Timestamp(day).tz_localize(tz, nonexistent="shift_forward", ambiguous=True)
    return int(stamp.as_unit("ns").value)


def days_between(first: int, last: int) -> pa.Table:
    """Every day from ``first`` to ``last`` (days since 1970): ``day`` and ``date``."""
    days = pa.array(range(first, last + 1), pa.int64())
    return pa.table({"day": days, "date": days.cast(pa.int32()).cast(pa.date32())})


def day_number(parameter: str, value: str | date | datetime) -> int:
    """Days since 1970 of a calendar day given as ISO text, date or datetime (its own date)."""
    if isinstance(value, date) and pd.isna(value):
        raise AnalysisError(f"{parameter} is missing (NaT); give a day")
    text = f"{value:%Y-%m-%d}" if isinstance(value, date) else value
    match = _ISO_DAY.fullmatch(text) if isinstance(text, str) else None
    try:
        day = None if match is None else date(*map(int, match.groups()))
    except ValueError:
        day = None
    if day is None:
        raise AnalysisError(
            f"{parameter}={shorten(value)} is not a day; give a date or text like '2026-10-31'"
        )
    if not 1678 <= day.year <= 2261:
        raise _beyond(parameter, value)
    return (day - date(1970, 1, 1)).days


def _beyond(parameter: str, value: object) -> AnalysisError:
    return AnalysisError(
        f"{parameter}={shorten(value)} is not within the years 1678 to 2261, which nanoseconds "
        "can count"
    )


def _with_clock_period(
    bench: Workbench, rows: Rows, freq: str, step: int, tz: str, bounds: tuple[int, int]
) -> Rows:
    if 0 < step < 1_000:
        raise AnalysisError(f"freq={freq!r} is below a microsecond; choose a longer one")
    if step <= 0 or DAY % step:
        raise AnalysisError(f"freq={freq!r} does not divide a day evenly")
    if tz != "UTC":
        raise AnalysisError(f"freq={freq!r} within a day needs tz='UTC', not {tz!r}")
    first, last = bounds[0] // step, bounds[1] // step
    if last - first > 10_000_000:
        raise AnalysisError(f"freq={freq!r} makes {last - first} periods; choose a longer one")
    steps = pa.array(range(first, last + 1), pa.int64())
    starts = pd.to_datetime(pd.Series(range(first, last + 1), dtype="int64") * step, utc=True)
    calendar = pa.table(
        {_STEP: steps, "period": pa.array(starts).cast(pa.timestamp("us", "UTC"), safe=False)}
    )
    rows = rows.with_columns(whole(nw.col("at"), step).alias(_STEP))
    return rows.join(bench.constant(calendar), on=_STEP, how="inner").drop(_STEP)


def _offset(freq: str) -> pd.offsets.BaseOffset:
    try:
        offset = pd.tseries.frequencies.to_offset(freq if isinstance(freq, str | None) else "")
    except (ValueError, TypeError) as error:
        raise AnalysisError(f"freq={freq!r} is no pandas offset alias: {error}") from error
    if offset is None:
        raise AnalysisError("freq is None; give a pandas offset alias such as 'D', 'W' or 'MS'")
    if offset.n < 0:
        raise AnalysisError(f"freq={freq!r} runs backwards; give one such as 'D', 'W' or 'MS'")
    return offset


def _offsets(tz: ZoneInfo, first: int, last: int) -> list[tuple[int, int]]:
    """From which nanosecond on which offset from UTC holds, the first before ``first``."""
    found = [(first, _offset_at(tz, first))]
    steps = [*range(first, last, 7 * DAY), last + 1]
    for low, high in pairwise(steps):
        while low < high and _offset_at(tz, high) != found[-1][1]:
            change = _first_change(tz, low, high, found[-1][1])
            found.append((change, _offset_at(tz, change)))
            low = change
    return found


def _first_change(tz: ZoneInfo, low: int, high: int, before: int) -> int:
    """Bisects to the second: offsets change on whole seconds."""
    second = 1_000_000_000
    low, high = low // second, -(-high // second)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(tz, middle * second) == before:
            low = middle
        else:
            high = middle
    return high * second


def _offset_at(tz: ZoneInfo, moment: int) -> int:
    offset = datetime.fromtimestamp(moment // 1_000_000_000, tz).utcoffset()
    return 0 if offset is None else round(offset.total_seconds() * 1_000_000_000)


def _local_day(moment: int, tz: str) -> int:
    return (moment + _offset_at(zone(tz), moment)) // DAY


def _stamp(day: int) -> pd.Timestamp:
    return pd.Timestamp(day * DAY)
