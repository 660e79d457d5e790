"""Days and periods of nanosecond times, in any time zone, by integer arithmetic and one join.

The engine never sees a time zone: the few changes of offset within the data are found here and
handed over as numbers, the calendar as a small table.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from fundlab.analysis.engines import Workbench
from fundlab.base.errors import AnalysisError, shorten
from fundlab.base.values import moment_ns
from fundlab.tables.transfers import Rows

Moment = str | datetime
DAY: Final = 86_400_000_000_000
_SECOND: Final = 1_000_000_000
_ISO_DAY: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ]00:00(?::00(?:\.0+)?)?Z?)?", re.ASCII)
_STEP: Final = "period:step"
"""A column on the way to a period, named as no column of a caller's is."""
_PERIOD: Final = re.compile(
    r"(?P<year>\d{4})(?:-?Q(?P<quarter>[1-4])|-W(?P<week>\d\d)"
    r"|-(?P<month>\d\d)(?:-(?P<day>\d\d))?)?",
    re.ASCII,
)


def local_ns(tz: str, first: int, last: int) -> nw.Expr:
    """``at`` as wall-clock nanoseconds of ``tz``, for times from ``first`` to ``last``."""
    zone = _zone(tz)
    before = _offset_from_utc(zone, first)
    shift: nw.Expr = nw.lit(before)
    # In steps of a week: no zone changes its offset there and back within one.
    for low, high in pairwise([*range(first, last, 7 * DAY), last + 1]):
        while low < high and _offset_from_utc(zone, high) != before:
            # Bisected to the second: offsets change on whole seconds.
            same, other = low // _SECOND, -(-high // _SECOND)
            while other - same > 1:
                middle = (same + other) // 2
                if _offset_from_utc(zone, middle * _SECOND) == before:
                    same = middle
                else:
                    other = middle
            low = other * _SECOND
            before = _offset_from_utc(zone, low)
            shift = nw.when(nw.col("at") >= low).then(nw.lit(before)).otherwise(shift)
    return nw.col("at") + shift


def _zone(tz: str) -> ZoneInfo:
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise AnalysisError(
            f"tz={tz!r} is not a valid time zone; give a name such as 'Europe/Paris'"
        ) from error


def _offset_from_utc(zone: ZoneInfo, moment: int) -> int:
    offset = datetime.fromtimestamp(moment // _SECOND, zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds() * _SECOND)


def whole(nanoseconds: nw.Expr, step: int) -> nw.Expr:
    """How many whole ``step`` there are, rounded down, also before 1970.

    Only a multiple is divided: an engine that divides integers as floats stays exact.
    """
    return ((nanoseconds - nanoseconds % step) // step).cast(nw.Int64)


def with_period(
    bench: Workbench[Any],
    rows: Rows,
    freq: str,
    tz: str = "UTC",
    span: tuple[int, int] | None = None,
) -> Rows:
    """``rows`` with the column ``period``: the label that pandas' ``Grouper(freq=freq)`` gives.
    ``span`` is their first and last ``at``, where it is known.

    Clock frequencies (``h``, ``15min``) must divide a day evenly and start at midnight UTC.
    """
    try:
        offset = pd.tseries.frequencies.to_offset(freq if isinstance(freq, str | None) else "")
    except (ValueError, TypeError):
        hint = "give one such as 'D', 'W' or 'MS'"
        for word in ("month", "quarter", "year"):
            if str(freq).lower() in (word[0], word, f"{word}ly"):
                letter = word[0].upper()
                hint = f"for each {word} give '{letter}S', or '{letter}E' for the label of its end"
        raise AnalysisError(
            f"freq={shorten(freq)} is not a valid pandas offset alias; {hint}"
        ) from None
    if offset is None:
        raise AnalysisError("freq is None; give a pandas offset alias such as 'D', 'W' or 'MS'")
    if offset.n == 0:
        raise AnalysisError(f"freq={freq!r} has no length; give one such as 'D', 'W' or 'MS'")
    if offset.n < 0:
        raise AnalysisError(f"freq={freq!r} runs backwards; give one such as 'D', 'W' or 'MS'")
    if span is None:
        at = nw.col("at")
        ends = bench.collect(rows.select(first=at.min(), last=at.max())).to_pylist()[0]
        span = ends["first"] or 0, ends["last"] or 0
    earliest, latest = span
    offsets = pd.tseries.offsets
    if isinstance(offset, offsets.Tick) and not isinstance(offset, offsets.Day):  # 24 h in pandas 2
        length = int(pd.Timedelta(offset).value)
        if 0 < length < 1_000:
            raise AnalysisError(f"freq={freq!r} is below a microsecond; choose a longer one")
        if length <= 0 or DAY % length:
            raise AnalysisError(f"freq={freq!r} does not divide a day evenly")
        if tz != "UTC":
            raise AnalysisError(f"freq={freq!r} within a day needs tz='UTC', not {tz!r}")
        first, last = earliest // length, latest // length
        if last - first > 10_000_000:
            raise AnalysisError(f"freq={freq!r} makes {last - first} periods; choose a longer one")
        step = whole(nw.col("at"), length)
        numbers = pd.Series(range(first, last + 1), dtype="int64")
        period = pd.DatetimeIndex(pd.to_datetime(numbers * length, utc=True))
    else:
        zone = _zone(tz)
        first, last = (
            (moment + _offset_from_utc(zone, moment)) // DAY for moment in (earliest, latest)
        )
        step = whole(local_ns(tz, earliest, latest), DAY)
        days = pd.date_range(
            pd.Timestamp(first * DAY), pd.Timestamp(last * DAY), freq="D", unit="ns"
        )
        labels = pd.Series(days, index=days).groupby(pd.Grouper(freq=offset)).ngroup()
        starts = pd.DatetimeIndex(pd.Series(days, index=days).resample(offset).size().index)
        period = starts[labels.to_numpy()].tz_localize(
            tz, nonexistent="shift_forward", ambiguous=np.ones(len(days), dtype=bool)
        )
    calendar = pa.table(
        {
            _STEP: pa.array(range(first, last + 1), pa.int64()),
            "period": pa.array(period).cast(pa.timestamp("us", "UTC"), safe=False),
        }
    )
    rows = rows.with_columns(step.alias(_STEP))
    return rows.join(bench.constant(calendar), on=_STEP, how="inner").drop(_STEP)


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
        _zone(tz)
        try:
            # Where clocks skip midnight, the first moment that there is.
            first, end = (
                int(
                    pd.Timestamp(day)
                    .tz_localize(tz, nonexistent="shift_forward", ambiguous=True)
                    .as_unit("ns")
                    .value
                )
                for day in days
            )
        except pd.errors.OutOfBoundsDatetime as error:
            raise _beyond("period", period) from error
    if first >= end:
        raise AnalysisError(f"period={shorten(period)} ends before it begins")
    return first, end


def moment_or_close(value: Moment | date, parameter: str, tz: str) -> int:
    """Nanoseconds since 1970 of a moment; of a calendar day its last one, in the zone ``tz``."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, str) and _PERIOD.fullmatch(value) and value.count("-") == 2:
        day_number(parameter, value)  # refused under the name that the caller gave it
        return period_bounds(value, tz)[1] - 1
    return moment_ns(value, parameter)


def period_before(period: str, tz: str = "UTC") -> str:
    """The month before a month, the week before a week: what ends where ``period`` begins."""
    first, _ = period_bounds(period, tz)
    day = pd.Timestamp(first - 1, unit="ns", tz="UTC").tz_convert(tz)
    year, week, _ = day.isocalendar()
    if "W" in period:
        return f"{year}-W{week:02d}"
    if "Q" in period:
        return f"{day.year}-Q{day.quarter}"
    return f"{day:%Y-%m-%d}"[: len(period)]


def _calendar_days(period: str) -> tuple[date, date]:
    """The first day of ``period``, and the first after it."""
    match = _PERIOD.fullmatch(period) if isinstance(period, str) else None
    if match is None:
        raise AnalysisError(
            f"period={shorten(period)} is not a valid period; give '2026', '2026-Q1', '2026-03', "
            "'2026-W10', '2026-03-08' or a pair of moments"
        )
    number = {name: int(text) for name, text in match.groupdict().items() if text}
    year, month, count = number["year"], number.get("month", 1), 1 if "month" in number else 12
    if "quarter" in number:
        month, count = 3 * number["quarter"] - 2, 3
    try:
        if "week" in number:
            first = date.fromisocalendar(year, number["week"], 1)
            return first, first + timedelta(days=7)
        if "day" in number:
            first = date(year, month, number["day"])
            return first, first + timedelta(days=1)
        after = year * 12 + month - 1 + count
        return date(year, month, 1), date(after // 12, after % 12 + 1, 1)
    except OverflowError as error:  # the last day there is has no day after it
        raise _beyond("period", period) from error
    except ValueError as error:
        raise AnalysisError(f"period={period!r}: {error}") from error


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
