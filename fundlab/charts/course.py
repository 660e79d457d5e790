"""The course of balances, day by day, with what was observed marked on it."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fundlab.charts import look
from fundlab.charts.look import (
    LIGHT,
    Theme,
    compact,
    rank_profiles,
    shorten_id,
)

MAX_POINTS: Final = 400
MAX_MARKS: Final = 40


@look.own_settings()
def balance_course(
    daily: pd.DataFrame,
    theme: Theme = LIGHT,
    *,
    assertions: pd.DataFrame | None = None,
    tz: str = "UTC",
    asset: str | None = None,
    legend: bool = True,
) -> Figure:
    """Step lines of the closing balance of each profile (``balances.daily``, of the same ``tz``).

    ``assertions`` (``store.assertions()``) are marked where they were observed: a ring where the
    reported balance agrees with the transfers, a cross where it does not.

    >>> figure = fl.charts.balance_course(fl.balances.daily(transfers))
    >>> figure.get_label()
    'Closing balances of 2 profiles from 2026-10-01 to 2026-10-04, at the end in all 775
    USD.'
    """
    look.need(daily, "profile_id", "asset", "date", "balance")
    marks = _marks(daily, assertions, tz)
    names = rank_profiles(daily)

    def draw(axes: Axes, closing: pd.DataFrame) -> None:
        lines = _drawn_lines(closing, names)
        for name in lines.columns:
            place = names.index(name)
            axes.plot(
                lines.index.to_numpy(), lines[name].to_numpy(), drawstyle="steps-post",
                color=theme.series[place], linewidth=1.4, marker=look.MARKERS[place],
                markersize=4.5, markevery=[-1],
            )  # fmt: skip
        mine = marks[marks["asset"] == closing.columns.name]
        _mark(axes, mine, names, theme)
        look.date_axis(axes, days.min(), days.max() + pd.Timedelta(days=1))
        look.note(axes, f"{compact(float(lines.iloc[-1].sum()))} in all", theme)
        axes.set_ylim(*look.with_zero(np.append(lines.to_numpy().ravel(), mine["reported"])))

    days = daily["date"]
    closing = look.only(_closing_by_profile(daily), asset)
    labels = [shorten_id(name) for name in names] + (["agrees", "differs"] if len(marks) else [])
    below = look.legend_rows(labels, len(closing)) if legend else 0
    figure = look.panels(closing, draw, theme, "No balances", rows_below=below)
    if legend and closing:
        handles = [
            Line2D([], [], color=theme.series[place], marker=look.MARKERS[place], markersize=4.5)
            for place in range(len(names))
        ]
        if len(marks):
            handles += [_handle("o", theme.ink), _handle("x", theme.alarm)]
        look.legend_row(figure, handles, labels, theme)
    return look.described(figure, _describe_course(look.rows_of(daily, asset)))


def _marks(daily: pd.DataFrame, assertions: pd.DataFrame | None, tz: str) -> pd.DataFrame:
    """Observations of what is drawn, thinned; where a difference begins and ends stays."""
    if assertions is None or not len(daily) or not len(assertions):
        kinds = {"profile_id": "str", "asset": "str", "reported": "float64", "agrees": "bool"}
        nothing = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})
        return nothing.assign(at=pd.Series(dtype="datetime64[ns]"))
    look.need(assertions, "profile_id", "asset", "observed_at", "reported", "difference")
    marks = pd.DataFrame(
        {
            "profile_id": assertions["profile_id"].astype(str),
            "asset": assertions["asset"].astype(str),
            "at": look.local(assertions["observed_at"], tz),
            "reported": assertions["reported"].astype("float64"),
            "agrees": (assertions["difference"] == 0).astype(bool),
        }
    )
    first, end = daily["date"].min(), daily["date"].max() + pd.Timedelta(days=1)
    drawn = marks["profile_id"].isin(set(daily["profile_id"].astype(str)))
    marks = marks[drawn & (marks["at"] >= first) & (marks["at"] <= end)]
    return _thinned(marks)


def _thinned(marks: pd.DataFrame) -> pd.DataFrame:
    """About :data:`MAX_MARKS` of each balance, and as many first and last of differing ones."""
    marks = marks.sort_values(["profile_id", "asset", "at"], kind="stable")
    balance = [marks["profile_id"], marks["asset"]]
    agrees = marks.groupby(balance)["agrees"]
    turns = (marks["agrees"] != agrees.shift()) | (marks["agrees"] != agrees.shift(-1))
    edges = turns & ~marks["agrees"]
    shown: pd.DataFrame = marks[_evenly(~edges, balance) | _evenly(edges, balance)]
    return shown


def _evenly(chosen: pd.Series[bool], balance: list[pd.Series[str]]) -> pd.Series[bool]:
    """Of the ``chosen`` rows of each balance at most :data:`MAX_MARKS`, evenly, the first and last
    among them."""
    place = chosen.groupby(balance).cumsum() - 1
    last = (chosen.groupby(balance).transform("sum") - 1).clip(lower=1)
    most = MAX_MARKS - 1
    slot = place * most // last
    starts = slot != (place - 1) * most // last
    return chosen & ((last <= most) | starts | (place == 0))


def _mark(axes: Axes, marks: pd.DataFrame, names: list[str], theme: Theme) -> None:
    for name, mine in marks[marks["agrees"]].groupby("profile_id"):
        axes.plot(
            mine["at"].to_numpy(), mine["reported"].to_numpy(), linestyle="none", marker="o",
            markersize=4.2, markerfacecolor=theme.paper, markeredgewidth=1.1,
            markeredgecolor=theme.series[names.index(str(name))],
        )  # fmt: skip
    wrong = marks[~marks["agrees"]]
    if len(wrong):
        axes.plot(
            wrong["at"].to_numpy(), wrong["reported"].to_numpy(), linestyle="none", marker="x",
            markersize=6.5, markeredgewidth=1.8, markeredgecolor=theme.alarm, zorder=5,
        )  # fmt: skip


def _handle(marker: str, color: str) -> Line2D:
    return Line2D(
        [], [], color=color, linestyle="none", marker=marker, markersize=5, markerfacecolor="none"
    )


def _closing_by_profile(daily: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """For each asset a table of days by profiles, all over the same days, gaps carried forward."""
    rows = pd.DataFrame(
        {
            "asset": daily["asset"].astype(str),
            "name": daily["profile_id"].astype(str),
            "date": daily["date"],
            "balance": daily["balance"].astype("float64"),
        }
    )
    if rows.empty:
        return {}
    days = pd.date_range(rows["date"].min(), rows["date"].max(), freq="D")
    return {
        str(asset): group.pivot(index="date", columns="name", values="balance")
        .reindex(days)
        .ffill()
        .rename_axis(columns=str(asset))
        for asset, group in rows.groupby("asset")
    }


def _drawn_lines(closing: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """At most :data:`MAX_POINTS` closings, one column for each drawn name; the last day is drawn
    to its end."""
    drawn = closing.columns.where(closing.columns.isin(names), names[-1])
    lines = closing.T.groupby(drawn).sum(min_count=1).T
    step = -(-len(lines) // MAX_POINTS)
    lines = lines.iloc[::-1].iloc[::step].iloc[::-1]
    end = lines.iloc[[-1]].set_axis(lines.index[[-1]] + pd.Timedelta(days=1))
    return pd.concat([lines, end])


def _describe_course(daily: pd.DataFrame) -> str:
    if not len(daily):
        return "Balance course: no balances."
    latest = daily.sort_values("date").groupby(["asset", "profile_id"], observed=True).tail(1)
    totals = look.floats(latest, "balance")["balance"].groupby(latest["asset"].astype(str)).sum()
    ends = ", ".join(f"{compact(total)} {asset}" for asset, total in totals.items())
    first, last = daily["date"].min(), daily["date"].max()
    return (
        f"Closing balances of {daily['profile_id'].nunique()} profiles from {first:%Y-%m-%d} to "
        f"{last:%Y-%m-%d}, at the end in all {ends}."
    )
