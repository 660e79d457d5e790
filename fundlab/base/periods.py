"""What a period or a day is called, and when it begins and ends, in any time zone."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd

from fundlab.base.errors import AnalysisError, InvalidRequest, shorten
from fundlab.base.values import moment_ns

Moment = str | datetime
DAY: Final = 86_400_000_000_000
"""In nanoseconds."""
_ISO_DAY: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ]00:00(?::00(?:\.0+)?)?Z?)?", re.ASCII)
_PERIOD: Final = re.compile(
    r"(?P<year>\d{4})(?:-Q(?P<quarter>[1-4])|-W(?P<week>\d\d)"
    r"|-(?P<month>\d\d)(?:-(?P<day>\d\d))?)?",
    re.ASCII,
)


def period_bounds(period: str | tuple[Moment, Moment], tz: str = "UTC") -> tuple[int, int]:
    """First nanosecond of ``period``, and the first after it, in the zone ``tz``.

    ``period`` is a year ``2026``, quarter ``2026-Q1``, month ``2026-03``, ISO week ``2026-W10`` or
    day ``2026-03-08``, or a pair of moments (the second is left out). Raises ``AnalysisError``.
    """
    if isinstance(period, tuple):
        if len(period) != 2:
            raise AnalysisError(f"period={shorten(period)}: give two moments, or text")
        first, end = (_moment_or_start(one, tz) for one in period)
    else:
        days = _calendar_days(period)
        zone_of(tz)
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


def check_month(period: str, tz: str = "UTC") -> None:
    """Raises ``InvalidRequest`` for another period than a month, else as :func:`period_bounds`."""
    match = _PERIOD.fullmatch(period) if isinstance(period, str) else None
    if match is None or match["month"] is None or match["day"] is not None:
        raise InvalidRequest(f"period={shorten(period)} is not a month; give one such as '2026-10'")
    period_bounds(period, tz)


def moment_or_close(value: Moment | date, parameter: str, tz: str) -> int:
    """Nanoseconds since 1970 of a moment; of a calendar day its last one, in the zone ``tz``."""
    day = _day_of(value, parameter)
    return moment_ns(value, parameter) if day is None else period_bounds(day, tz)[1] - 1


def _moment_or_start(value: Moment | date, tz: str) -> int:
    day = _day_of(value, "period")
    return moment_ns(value, "period") if day is None else period_bounds(day, tz)[0]


def _day_of(value: Any, parameter: str) -> str | None:
    """A calendar day as text; ``None`` of a moment. Raises ``AnalysisError`` for a day that there
    is not, under the name that the caller gave it."""
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] == "D":
        value = str(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, str) and _PERIOD.fullmatch(value) and value.count("-") == 2:
        day_number(parameter, value)
        return value
    return None


def period_before(period: str, tz: str = "UTC") -> str:
    """The month before a month, the week before a week: what ends where ``period`` begins."""
    if not isinstance(period, str):  # a pair of moments has none before it
        raise AnalysisError(f"period={shorten(period)}: give a text such as '2026-10'")
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
        moments = "" if isinstance(period, str) else ", or a pair of moments"
        raise AnalysisError(
            f"period={shorten(period)} is not a valid period; give '2026', '2026-Q1', '2026-03', "
            f"'2026-W10' or '2026-03-08'{moments}"
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


def zone_of(tz: str) -> ZoneInfo:
    """Raises ``AnalysisError`` for what is no time zone."""
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise AnalysisError(
            f"tz={tz!r} is not a valid time zone; give a name such as 'Europe/Paris'"
        ) from error


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
