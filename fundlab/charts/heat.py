"""Heat maps: what each day brought or took, and at which hours transfers are made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from fundlab.charts import look
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, Layout, Theme, compact

MAX_WEEKS: Final = 53
_FEW_WEEKS: Final = 12
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_STRENGTHS: Final = (0.28, 0.48, 0.72, 1.0)
_FULL: Final = 0.95
"""Of all days the share below full strength: one huge day does not make the others faint."""
_CALENDAR: Final = Layout((360.0, 174.0), (38.0, 12.0, 30.0, 42.0))
_HOURS: Final = Layout((480.0, 208.0), (38.0, 12.0, 30.0, 42.0))
_SQUARE: Final = "■"

Places = npt.NDArray[np.int64]


@look.chart
def flows_calendar(
    net: pd.DataFrame,
    theme: Theme = LIGHT,
    *,
    tz: str = "UTC",
    asset: str | None = None,
    legend: bool = True,
) -> look.Drawing:
    """A square for each day, weeks from left to right, coloured by the day's net flow
    (``flows.net(…, freq="D")``); at most the last :data:`MAX_WEEKS` weeks.

    >>> fl.charts.flows_calendar(fl.flows.net(transfers, freq="D")).get_label()
    'Net flow of each day: USD +775 in all, days from −225 to +1 k.'
    """
    look.need(net, "period", "asset", "net")
    days = look.moments(net["period"], tz).astype("datetime64[D]")
    monday = days - _weekday(days)
    last = monday.max() if len(net) else np.datetime64(0, "D")
    start = max(monday.min(), last - 7 * (MAX_WEEKS - 1)) if len(net) else last
    inside = days >= start
    weeks = int((last - start).astype("int64")) // 7 + 1

    # Few weeks by their Mondays, many by their months, not too near to each other.
    mondays = [(start + 7 * week).astype(datetime) for week in range(weeks)]
    if weeks <= _FEW_WEEKS:
        named = [*range(0, weeks, 1 if weeks <= _FEW_WEEKS // 2 else 2)]
        names = [f"{mondays[n]:%d %b}" for n in named]
    else:
        named = [n for n in range(weeks) if not n or mondays[n].month != mondays[n - 1].month]
        named = named[:: -(-len(named) // 6)]
        if len(named) > 1 and named[1] - named[0] < weeks / 9:
            named = named[1:]
        names = [f"{mondays[n]:{'%Y' if mondays[n].month == 1 else '%b'}}" for n in named]

    def draw(axes: Panel, rows: look.Rows) -> None:
        places, inverse = np.unique(rows["day"], return_inverse=True)
        sums = np.bincount(inverse, rows["net"], len(places))
        size = np.abs(sums)
        top = float(size.max()) or 1.0
        full = float(np.quantile(size[size > 0], _FULL)) if (size > 0).any() else 1.0
        squares = np.stack(np.divmod(places, 7), axis=1)
        _blank(axes, weeks, theme)
        for color, mine in ((theme.inflow, sums > 0), (theme.outflow, sums < 0)):
            _squares(axes, squares[mine], (size / full)[mine], color)
        strong = compact(full * (1 - 1 / len(_STRENGTHS)) ** 2)
        axes.scale([
            (f"{strong} or more out", theme.muted, 1.0),
            *((_SQUARE, theme.outflow, strength) for strength in reversed(_STRENGTHS)),
            *((_SQUARE, theme.inflow, strength) for strength in _STRENGTHS),
            (f"{strong} or more in", theme.muted, 1.0),
        ])  # fmt: skip
        for (week, day), date, more in zip(
            squares.tolist(), look.days_of(start + places), sums.tolist(), strict=True
        ):
            axes.hover((week - 0.5, week + 0.5, day - 0.5, day + 0.5),
                       f"{WEEKDAYS[day]} {date}: {look.spelled(more, signed=True)}")  # fmt: skip
        axes.set_xticks(named, names)
        look.note(axes, f"up to {compact(top)} a day", theme)

    def words(shown: Mapping[str, look.Rows]) -> str:
        each = "; ".join(
            f"{name} {compact(rows['net'].sum(), signed=True)} in all, days from "
            f"{compact(rows['net'].min(), signed=True)} to "
            f"{compact(rows['net'].max(), signed=True)}"
            for name, rows in shown.items()
        )
        return f"Net flow of each day: {each or 'none'}."

    handles = [look.square(color) for color in (theme.inflow, theme.outflow)]
    by_asset = look.by_asset(
        net["asset"][inside], day=(days - start)[inside].astype("int64"),
        net=look.numbers(net["net"])[inside],
    )  # fmt: skip
    return look.Drawing(
        by_asset, draw, theme, words, "No flows", layout=_CALENDAR, asset=asset,
        legend=(lambda _: (handles, ["more in", "more out"])) if legend else None,
    )  # fmt: skip


@look.chart
def transfer_hours(
    transfers: pd.DataFrame, theme: Theme = LIGHT, *, tz: str = "UTC"
) -> look.Drawing:
    """How many transfers are made at each hour of each weekday, in the zone ``tz``.

    ``transfers`` has ``created_at`` and, where its rows stand for several, ``count``.

    >>> fl.charts.transfer_hours(transfers).get_label()
    '5 transfers by hour and weekday (UTC); most on Mon at 09: 1.'
    """
    look.need(transfers, "created_at")
    moments = look.moments(transfers["created_at"], tz)
    hour = moments.astype("datetime64[h]").astype("int64") % 24
    weight = transfers["count"] if "count" in transfers.columns else pd.Series(1, transfers.index)
    places, inverse = np.unique(_weekday(moments) * 24 + hour, return_inverse=True)
    counts = np.bincount(inverse, look.numbers(weight), len(places))

    def draw(axes: Panel, counts: look.Array) -> None:
        top = float(counts.max())
        squares = np.stack(np.divmod(places, 24)[::-1], axis=1)
        _blank(axes, 24, theme)
        _squares(axes, squares, counts / top, theme.inflow)
        axes.set_xticks(range(0, 24, 3), [f"{hour:02d}" for hour in range(0, 24, 3)])
        bounds = [max(1, math.ceil(top * (n / len(_STRENGTHS)) ** 2))
                  for n in range(len(_STRENGTHS))]  # fmt: skip
        parts: list[tuple[str, str, float]] = [(f"hour of the day ({tz}) · ", theme.muted, 1.0)]
        for least, strength in dict(zip(bounds, _STRENGTHS, strict=True)).items():
            parts += [(_SQUARE, theme.inflow, strength), (f"from {least:,}", theme.muted, 1.0)]
        axes.scale(parts)
        for (hour, day), many in zip(squares.tolist(), counts.tolist(), strict=True):
            axes.hover((hour - 0.5, hour + 0.5, day - 0.5, day + 0.5),
                       f"{WEEKDAYS[day]} {hour:02d}:00: {many:,.0f}")  # fmt: skip
        look.note(axes, f"up to {top:,.0f} in an hour of the week", theme)

    def words(_: object) -> str:
        if not len(counts):
            return "Transfers by hour and weekday: none."
        day, hour = divmod(int(places[counts.argmax()]), 24)
        return (f"{counts.sum():,.0f} transfers by hour and weekday ({tz}); most on "
                f"{WEEKDAYS[day]} at {hour:02d}: {counts.max():,.0f}.")  # fmt: skip

    shown = {"Transfers": counts} if len(counts) else {}
    return look.Drawing(shown, draw, theme, words, "No transfers", layout=_HOURS)


def _weekday(moments: look.Array) -> look.Array:
    """Monday is 0, as the first day of 1970 was a Thursday."""
    days: look.Array = (moments.astype("datetime64[D]").astype("int64") + 3) % 7
    return days


def _blank(axes: Panel, columns: int, theme: Theme) -> None:
    """A faint square for each hour or week of each weekday."""
    axes.grid(visible=False)
    axes.hide_foot()
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(len(WEEKDAYS) - 0.5, -0.5)
    axes.set_yticks(range(len(WEEKDAYS)), WEEKDAYS)
    every = np.array([(x, y) for x in range(columns) for y in range(len(WEEKDAYS))], np.int64)
    _fill(axes, every, theme.grid, 0.45)


def _squares(axes: Panel, places: Places, share: look.Array, color: str) -> None:
    """One shape for each strength: hundreds of squares stay small in a page."""
    level = np.minimum((np.sqrt(share) * len(_STRENGTHS)).astype(int), 3)
    for number, strength in enumerate(_STRENGTHS):
        if (level == number).any():
            _fill(axes, places[level == number], color, strength)


def _fill(axes: Panel, places: Places, color: str, strength: float) -> None:
    corner = np.array([(-0.44, -0.44), (0.44, -0.44), (0.44, 0.44), (-0.44, 0.44), (-0.44, -0.44)])
    points = (places[:, None, :] + corner[None]).reshape(-1, 2)
    axes.shape("MLLLz" * len(places), points, color, strength)
