"""Heat maps: what each day brought or took, and at which hours transfers are made."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from fundlab.charts import look
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, Layout, Theme, compact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
) -> Figure:
    """A square for each day, weeks from left to right, coloured by the day's net flow
    (``flows.net(…, freq="D")``); at most the last :data:`MAX_WEEKS` weeks.

    >>> fl.charts.flows_calendar(fl.flows.net(transfers, freq="D")).get_label()
    'Net flow of each day: USD +775 in all, days from −225 to +1 k.'
    """
    look.need(net, "period", "asset", "net")
    days = look.local(net["period"], tz).dt.normalize()
    monday = days - pd.to_timedelta(days.dt.day_of_week, unit="D")
    last = monday.max()
    start = max(monday.min(), last - pd.Timedelta(weeks=MAX_WEEKS - 1)) if len(net) else last
    rows = pd.DataFrame(
        {
            "asset": net["asset"].astype(str),
            "week": (monday - start).dt.days // 7,
            "day": days.dt.day_of_week,
            "net": net["net"].astype("float64"),
        }
    )
    rows = rows[rows["week"] >= 0]
    weeks = int(rows["week"].max()) + 1 if len(rows) else 1

    def draw(axes: Panel, rows: pd.DataFrame) -> None:
        sums = rows.groupby(["week", "day"])["net"].sum().reset_index()
        size = sums["net"].abs()
        top = float(size.max()) or 1.0
        full = float(size[size > 0].quantile(_FULL)) if top > 0 and (size > 0).any() else 1.0
        _blank(axes, weeks, theme)
        for color, mine in ((theme.inflow, sums["net"] > 0), (theme.outflow, sums["net"] < 0)):
            _squares(axes, sums[mine], "week", "day", (size / full)[mine], color)
        strong = compact(full * (1 - 1 / len(_STRENGTHS)) ** 2)
        axes.scale([
            (f"{strong} or more out", theme.muted, 1.0),
            *((_SQUARE, theme.outflow, strength) for strength in reversed(_STRENGTHS)),
            *((_SQUARE, theme.inflow, strength) for strength in _STRENGTHS),
            (f"{strong} or more in", theme.muted, 1.0),
        ])  # fmt: skip
        for week, day, net in sums[["week", "day", "net"]].itertuples(index=False):
            at = start + pd.Timedelta(days=7 * int(week) + int(day))
            axes.hover((week - 0.5, week + 0.5, day - 0.5, day + 0.5),
                       f"{at:%a %Y-%m-%d}: {look.spelled(net, signed=True)}")  # fmt: skip
        # Few weeks by their Mondays, many by their months, not too near to each other.
        mondays = [start + pd.Timedelta(weeks=week) for week in range(weeks)]
        if weeks <= _FEW_WEEKS:
            named = [*range(0, weeks, 1 if weeks <= _FEW_WEEKS // 2 else 2)]
            names = [f"{mondays[n]:%d %b}" for n in named]
        else:
            named = [n for n in range(weeks) if not n or mondays[n].month != mondays[n - 1].month]
            named = named[:: -(-len(named) // 6)]
            if len(named) > 1 and named[1] - named[0] < weeks / 9:
                named = named[1:]
            names = [f"{mondays[n]:{'%Y' if mondays[n].month == 1 else '%b'}}" for n in named]
        axes.set_xticks(named, names)
        look.note(axes, f"up to {compact(top)} a day", theme)

    figure = look.panels(
        look.by_asset(rows, asset), draw, theme, "No flows",
        rows_below=1 if legend else 0, layout=_CALENDAR,
    )  # fmt: skip
    if legend and len(net):
        handles = [look.square(color) for color in (theme.inflow, theme.outflow)]
        look.legend_row(figure, handles, ["more in", "more out"], theme)
    sums = look.rows_of(rows, asset).groupby("asset")["net"].agg(["sum", "min", "max"])
    each = "; ".join(
        f"{name} {compact(row['sum'], signed=True)} in all, days from "
        f"{compact(row['min'], signed=True)} to {compact(row['max'], signed=True)}"
        for name, row in sums.iterrows()
    )
    return look.described(figure, f"Net flow of each day: {each or 'none'}.")


@look.chart
def transfer_hours(transfers: pd.DataFrame, theme: Theme = LIGHT, *, tz: str = "UTC") -> Figure:
    """How many transfers are made at each hour of each weekday, in the zone ``tz``.

    ``transfers`` has ``created_at`` and, where its rows stand for several, ``count``.

    >>> fl.charts.transfer_hours(transfers).get_label()
    '5 transfers by hour and weekday (UTC); most on Mon at 09: 1.'
    """
    look.need(transfers, "created_at")
    local = transfers["created_at"].dt.tz_convert(tz)
    weight = transfers["count"] if "count" in transfers.columns else pd.Series(1, transfers.index)
    rows = pd.DataFrame({"hour": local.dt.hour, "day": local.dt.day_of_week, "count": weight})
    sums = rows.groupby(["day", "hour"])["count"].sum().astype("float64").reset_index()

    def draw(axes: Panel, sums: pd.DataFrame) -> None:
        top = float(sums["count"].max())
        _blank(axes, 24, theme)
        _squares(axes, sums, "hour", "day", sums["count"] / top, theme.inflow)
        axes.set_xticks(range(0, 24, 3), [f"{hour:02d}" for hour in range(0, 24, 3)])
        bounds = [max(1, math.ceil(top * (n / len(_STRENGTHS)) ** 2))
                  for n in range(len(_STRENGTHS))]  # fmt: skip
        parts: list[tuple[str, str, float]] = [(f"hour of the day ({tz}) · ", theme.muted, 1.0)]
        for least, strength in dict(zip(bounds, _STRENGTHS, strict=True)).items():
            parts += [(_SQUARE, theme.inflow, strength), (f"from {least:,}", theme.muted, 1.0)]
        axes.scale(parts)
        for day, hour, many in sums[["day", "hour", "count"]].itertuples(index=False):
            axes.hover((hour - 0.5, hour + 0.5, day - 0.5, day + 0.5),
                       f"{WEEKDAYS[int(day)]} {int(hour):02d}:00: {many:,.0f}")  # fmt: skip
        look.note(axes, f"up to {top:,.0f} in an hour of the week", theme)

    shown = {"Transfers": sums} if len(sums) else {}
    figure = look.panels(shown, draw, theme, "No transfers", layout=_HOURS)
    if not len(sums):
        return look.described(figure, "Transfers by hour and weekday: none.")
    most = sums.sort_values("count", ascending=False, kind="stable").iloc[0]
    return look.described(
        figure,
        f"{sums['count'].sum():,.0f} transfers by hour and weekday ({tz}); most on "
        f"{WEEKDAYS[int(most['day'])]} at {int(most['hour']):02d}: {most['count']:,.0f}.",
    )


def _blank(axes: Panel, columns: int, theme: Theme) -> None:
    """A faint square for each hour or week of each weekday."""
    axes.grid(visible=False)
    axes.hide_foot()
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(len(WEEKDAYS) - 0.5, -0.5)
    axes.set_yticks(range(len(WEEKDAYS)), WEEKDAYS)
    every = np.array([(x, y) for x in range(columns) for y in range(len(WEEKDAYS))], np.int64)
    _fill(axes, every, theme.grid, 0.45)


def _squares(
    axes: Panel, rows: pd.DataFrame, x: str, y: str, share: pd.Series[Any], color: str
) -> None:
    """One shape for each strength: hundreds of squares stay small in a page."""
    places = rows[[x, y]].to_numpy(dtype=np.int64)
    level = np.minimum((np.sqrt(share.to_numpy()) * len(_STRENGTHS)).astype(int), 3)
    for number, strength in enumerate(_STRENGTHS):
        if (level == number).any():
            _fill(axes, places[level == number], color, strength)


def _fill(axes: Panel, places: Places, color: str, strength: float) -> None:
    corner = np.array([(-0.44, -0.44), (0.44, -0.44), (0.44, 0.44), (-0.44, 0.44), (-0.44, -0.44)])
    points = (places[:, None, :] + corner[None]).reshape(-1, 2)
    axes.shape("MLLLz" * len(places), points, color, strength)
