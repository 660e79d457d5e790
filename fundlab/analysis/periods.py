"""The days and periods of rows, in any time zone, by integer arithmetic and one join.

The engine never sees a time zone: the few changes of offset within the data are found here and
handed over as numbers, the calendar as a small table.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from fundlab.analysis.engines import Workbench
from fundlab.base.errors import AnalysisError, shorten
from fundlab.base.periods import DAY, zone_of
from fundlab.tables.transfers import Rows

_SECOND: Final = 1_000_000_000
_STEP: Final = "period:step"
"""A column on the way to a period, named as no column of a caller's is."""


def length_ns(length: Any) -> int:
    """A length of time of 0 or more, as pandas takes one, in nanoseconds; but a number needs its
    unit, which pandas would take for nanoseconds. Raises ``ValueError`` or ``TypeError``."""
    if isinstance(length, str):
        # pandas takes "+30" for nanoseconds, and "1 30D" for 130 days
        if not re.search("[A-Za-z:]", length) or re.search(r"\d\s+\d", length):
            raise ValueError("no unit")
        # as the command line takes days; pandas will not
        length = re.sub(r"(?<=\d)(\s*)d(?![a-z])", r"\1D", length)
    elif not isinstance(length, timedelta | np.timedelta64 | pd.offsets.Tick | pd.offsets.Day) or (
        isinstance(length, np.timedelta64) and np.datetime_data(length)[0] == "generic"
    ):
        raise TypeError("no unit")
    found = pd.Timedelta(length)
    if pd.isna(found) or found < pd.Timedelta(0):
        raise ValueError("not a length of 0 or more")
    return int(found.as_unit("ns").value)


def local_ns(tz: str, first: int, last: int) -> nw.Expr:
    """``at`` as wall-clock nanoseconds of ``tz``, for times from ``first`` to ``last``."""
    zone = zone_of(tz)
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


def _offset_from_utc(zone: ZoneInfo, moment: int) -> int:
    offset = datetime.fromtimestamp(moment // _SECOND, zone).utcoffset() or timedelta()
    return round(offset.total_seconds() * _SECOND)


def whole(nanoseconds: nw.Expr, step: int) -> nw.Expr:
    """How many whole ``step`` there are, rounded down, also before 1970.

    Only a multiple is divided: an engine that divides integers as floats stays exact.
    """
    return ((nanoseconds - nanoseconds % step) // step).cast(nw.Int64)


def span_of(bench: Workbench[Any], rows: Rows) -> tuple[int, int]:
    """Their first and last ``at``; 0 without any."""
    at = nw.col("at")
    ends = bench.collect(rows.select(first=at.min(), last=at.max())).to_pylist()[0]
    return ends["first"] or 0, ends["last"] or 0


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
        offset = pd.tseries.frequencies.to_offset(freq if isinstance(freq, str) else "")
    except (ValueError, TypeError):
        hint = "give one such as 'D', 'W' or 'MS'"
        for word in ("month", "quarter", "year"):
            if str(freq).lower() in (word[0], word, f"{word}ly"):
                letter = word[0].upper()
                hint = f"for each {word} give '{letter}S', or '{letter}E' for the label of its end"
        raise AnalysisError(
            f"freq={shorten(freq)} is not a valid pandas offset alias; {hint}"
        ) from None
    if offset.n < 1:
        wrong = "runs backwards" if offset.n else "has no length"
        raise AnalysisError(f"freq={freq!r} {wrong}; give one such as 'D', 'W' or 'MS'")
    earliest, latest = span or span_of(bench, rows)
    offsets = pd.tseries.offsets
    if isinstance(offset, offsets.Tick) and not isinstance(offset, offsets.Day):  # 24 h in pandas 2
        length = int(pd.Timedelta(offset).value)
        if length < 1_000:
            raise AnalysisError(f"freq={freq!r} is below a microsecond; choose a longer one")
        if DAY % length:
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
        zone = zone_of(tz)
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
            "period": pa.array(period).cast(pa.timestamp("us", "UTC")),
        }
    )
    rows = rows.with_columns(step.alias(_STEP))
    return rows.join(bench.constant(calendar), on=_STEP, how="inner").drop(_STEP)


def days_between(first: int, last: int) -> pa.Table:
    """Every day from ``first`` to ``last`` (days since 1970): ``day`` and ``date``."""
    days = pa.array(range(first, last + 1), pa.int64())
    return pa.table({"day": days, "date": days.cast(pa.int32()).cast(pa.date32())})
