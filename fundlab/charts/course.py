"""The course of balances, day by day, with what was observed marked on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from fundlab.charts import look
from fundlab.charts.look import rank_profiles
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, Theme, compact
from fundlab.settings.labels import labels, names_given

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_POINTS: Final = 400
MAX_MARKS: Final = 40


@look.chart
def balance_course(
    daily: pd.DataFrame,
    theme: Theme = LIGHT,
    *,
    assertions: pd.DataFrame | None = None,
    tz: str = "UTC",
    asset: str | None = None,
    legend: bool = True,
    names: Mapping[str, str] | None = None,
) -> Figure:
    """Step lines of the closing balance of each profile (``balances.daily``, of the same ``tz``),
    by the ``names`` given for their ids, by default those of ``[names]`` in the settings.

    ``assertions`` (``store.assertions()``) are marked where they were observed: a ring where the
    reported balance agrees with the transfers, a cross where it does not.

    >>> figure = fl.charts.balance_course(fl.balances.daily(transfers))
    >>> figure.get_label()
    'Closing balances of 2 profiles from 2026-10-01 to 2026-10-04, at the end in all 775
    USD.'
    """
    look.need(daily, "profile_id", "asset", "date", "balance")
    marks = marks_to_draw(daily, assertions, tz)
    drawn_names = rank_profiles(daily)
    called = {**labels(drawn_names, names_given() if names is None else {}), **(names or {})}
    rows = pd.DataFrame(
        {
            "asset": daily["asset"].astype(str),
            "name": daily["profile_id"].astype(str),
            "date": daily["date"],
            "balance": daily["balance"].astype("float64"),
        }
    )
    first, last = daily["date"].min(), daily["date"].max()

    def draw(axes: Panel, mine: pd.DataFrame) -> None:
        # All over the same days, gaps carried forward, one column for each drawn name; at most
        # MAX_POINTS of them, the last drawn to its end.
        days = pd.date_range(first, last, freq="D")
        closing = mine.pivot(index="date", columns="name", values="balance").reindex(days).ffill()
        drawn = closing.columns.where(closing.columns.isin(drawn_names), drawn_names[-1])
        lines = closing.T.groupby(drawn).sum(min_count=1).T
        step = -(-len(lines) // MAX_POINTS)
        lines = lines.iloc[::-step].iloc[::-1]
        end = lines.iloc[[-1]].set_axis(lines.index[[-1]] + pd.Timedelta(days=1))
        lines = pd.concat([lines, end])
        for name in lines.columns:
            series = drawn_names.index(name)
            axes.plot(
                lines.index.to_numpy(), lines[name].to_numpy(), drawstyle="steps-post",
                color=theme.series[series], linewidth=1.4, marker=look.MARKERS[series],
                markersize=4.5, markevery=[-1],
            )  # fmt: skip
        stride = -(-len(lines) // look.MAX_STRIPS)
        for day, (_, closings) in zip(
            lines.index[:-1:stride], lines.iloc[:-1:stride].iterrows(), strict=True
        ):
            each = [f"{called[str(name)]}: {look.spelled(value)}"
                    for name, value in closings.items() if not np.isnan(value)]  # fmt: skip
            width = pd.Timedelta(days=step * stride)
            axes.hover((day, day + width), "\n".join([f"{day:%Y-%m-%d}", *each]))
        observed = marks[marks["asset"] == mine["asset"].iloc[0]]
        for name, right in observed[observed["agrees"]].groupby("profile_id"):
            axes.plot(
                right["at"].to_numpy(), right["reported"].to_numpy(), linestyle="none", marker="o",
                markersize=4.2, markerfacecolor=theme.paper, markeredgewidth=1.1,
                markeredgecolor=theme.series[drawn_names.index(str(name))],
            )  # fmt: skip
        wrong = observed[~observed["agrees"]]
        if len(wrong):
            axes.plot(
                wrong["at"].to_numpy(), wrong["reported"].to_numpy(), linestyle="none", marker="x",
                markersize=6.5, markeredgewidth=1.8, markeredgecolor=theme.alarm, zorder=5,
            )  # fmt: skip
        axes.date_axis(first, last + pd.Timedelta(days=1))
        look.note(axes, f"{compact(float(lines.iloc[-1].sum()))} in all", theme)
        axes.set_ylim(*look.with_zero(np.append(lines.to_numpy().ravel(), observed["reported"])))

    panels = look.by_asset(rows, asset)
    words = [called[name] for name in drawn_names] + ["agrees", "differs"] * (len(marks) > 0)
    below = look.legend_rows(words, len(panels)) if legend else 0
    figure = look.panels(panels, draw, theme, "No balances", rows_below=below)
    if legend and panels:
        handles = [
            {"color": theme.series[place], "marker": look.MARKERS[place], "markersize": 4.5}
            for place in range(len(drawn_names))
        ]
        for marker, color in (("o", theme.ink), ("x", theme.alarm)) if len(marks) else ():
            handles.append(
                {"color": color, "linestyle": "none", "marker": marker, "markersize": 5,
                 "markerfacecolor": "none"}
            )  # fmt: skip
        look.legend_row(figure, handles, words, theme)
    shown = look.rows_of(rows, asset)
    if not len(shown):
        return look.described(figure, "Balance course: no balances.")
    latest = shown.sort_values("date").groupby(["asset", "name"]).tail(1)
    totals = latest.groupby("asset")["balance"].sum()
    ends = ", ".join(f"{compact(total)} {name}" for name, total in totals.items())
    return look.described(
        figure,
        f"Closing balances of {shown['name'].nunique()} profiles from "
        f"{shown['date'].min():%Y-%m-%d} to {shown['date'].max():%Y-%m-%d}, at the end in all "
        f"{ends}.",
    )


def marks_to_draw(daily: pd.DataFrame, assertions: pd.DataFrame | None, tz: str) -> pd.DataFrame:
    """Observations of what is drawn: about :data:`MAX_MARKS` of each balance, and as many of those
    where a difference begins or ends."""
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
    position = chosen.groupby(balance).cumsum() - 1
    last = (chosen.groupby(balance).transform("sum") - 1).clip(lower=1)
    most = MAX_MARKS - 1
    slot = position * most // last
    starts = slot != (position - 1) * most // last
    return chosen & ((last <= most) | starts | (position == 0))
