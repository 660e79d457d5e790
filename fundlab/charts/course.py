"""The course of balances, day by day, with what was observed marked on it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any, Final

import numpy as np
import pandas as pd

from fundlab.charts import look
from fundlab.charts.look import rank_profiles
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, Theme, compact
from fundlab.settings.labels import labels, names_given

MAX_POINTS: Final = 400
MAX_MARKS: Final = 40
_DAY: Final = np.timedelta64(1, "D")


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
) -> look.Drawing:
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
    place_of = {name: place for place, name in enumerate(drawn_names)}
    others = len(drawn_names) - 1  # the last, where there are too many
    dates = look.moments(daily["date"], tz)
    first, last = (dates.min(), dates.max()) if len(dates) else (np.datetime64(0, "ns"),) * 2
    observations = {
        "name": look.texts(marks["profile_id"]), "at": marks["at"].to_numpy(),
        "reported": look.numbers(marks["reported"]), "agrees": marks["agrees"].to_numpy(),
    }  # fmt: skip
    seen = look.by_asset(marks["asset"], **observations)
    unseen = {name: column[:0] for name, column in observations.items()}

    # All over the same days, at most MAX_POINTS of them, the last drawn to its end.
    span = int((last - first) // _DAY) + 1
    step = -(-span // MAX_POINTS)
    kept = np.arange(span)[::-step][::-1]
    moments = first + np.append(kept, span) * _DAY
    strips = slice(0, len(kept), -(-len(moments) // look.MAX_STRIPS))
    strip_days = look.days_of(moments[strips])

    def draw(axes: Panel, course: tuple[look.Rows, look.Rows]) -> None:
        rows, observed = course
        closings = {
            place: np.append(line[kept], line[-1])
            for place, line in _lines(rows, span, place_of, others).items()
        }
        places = sorted(closings, key=drawn_names.__getitem__)
        lines = np.transpose([closings[place] for place in places])
        for place in places:
            axes.plot(
                moments, closings[place], drawstyle="steps-post", color=theme.series[place],
                linewidth=1.4, marker=look.MARKERS[place], markersize=4.5, markevery=[-1],
            )  # fmt: skip
        for day, said, values in zip(
            moments[strips], strip_days, lines[strips].tolist(), strict=True
        ):
            each = [f"{called[drawn_names[place]]}: {look.spelled(value)}"
                    for place, value in zip(places, values, strict=True)
                    if not isnan(value)]  # fmt: skip
            axes.hover((day, day + step * strips.step * _DAY), "\n".join([said, *each]))
        right = observed["agrees"]
        for name in sorted({*observed["name"][right]}):
            mine = right & (observed["name"] == name)
            axes.plot(
                observed["at"][mine], observed["reported"][mine], linestyle="none", marker="o",
                markersize=4.2, markerfacecolor=theme.paper, markeredgewidth=1.1,
                markeredgecolor=theme.series[place_of.get(name, others)],
            )  # fmt: skip
        if not right.all():
            axes.plot(
                observed["at"][~right], observed["reported"][~right], linestyle="none", marker="x",
                markersize=6.5, markeredgewidth=1.8, markeredgecolor=theme.alarm, zorder=5,
            )  # fmt: skip
        axes.date_axis(first, last + _DAY)
        look.note(axes, f"{compact(float(np.nansum(lines[-1])))} in all", theme)
        axes.set_ylim(*look.with_zero(np.append(lines.ravel(), observed["reported"])))

    def words(shown: Mapping[str, tuple[look.Rows, look.Rows]]) -> str:
        if not shown:
            return "Balance course: no balances."
        ends = []
        for asset, (rows, _) in shown.items():
            order = np.argsort(rows["day"], kind="stable")
            latest = dict(zip(rows["name"][order], rows["balance"][order].tolist(), strict=True))
            ends.append(f"{compact(sum(latest.values()))} {asset}")
        days = np.concatenate([rows["day"] for rows, _ in shown.values()])
        start, end = look.days_of(first + np.array([days.min(), days.max()]) * _DAY)
        profiles = set().union(*(rows["name"] for rows, _ in shown.values()))
        return (f"Closing balances of {len(profiles)} profiles from {start} to {end}, at the end "
                f"in all {', '.join(ends)}.")  # fmt: skip

    handles: list[Mapping[str, Any]] = [
        {"color": theme.series[place], "marker": look.MARKERS[place], "markersize": 4.5}
        for place in range(len(drawn_names))
    ]
    named = [called[name] for name in drawn_names]
    if len(marks):
        named += ["agrees", "differs"]
        handles += [
            {"color": color, "linestyle": "none", "marker": marker, "markersize": 5,
             "markerfacecolor": "none"}
            for marker, color in (("o", theme.ink), ("x", theme.alarm))
        ]  # fmt: skip
    by_asset = look.by_asset(
        daily["asset"], name=look.texts(daily["profile_id"]), day=(dates - first) // _DAY,
        balance=look.numbers(daily["balance"]),
    )  # fmt: skip
    return look.Drawing(
        {name: (rows, seen.get(name, unseen)) for name, rows in by_asset.items()}, draw, theme,
        words, "No balances", legend=(lambda _: (handles, named)) if legend else None, asset=asset,
    )  # fmt: skip


def _lines(
    rows: look.Rows, span: int, place_of: Mapping[str, int], others: int
) -> dict[int, look.Array]:
    """The closing of each of a ``span`` of days, gaps carried forward, by the place of the name it
    is drawn as."""
    names, column = np.unique(rows["name"], return_inverse=True)
    closing = np.full((span, len(names)), np.nan)
    closing[rows["day"], column] = rows["balance"]
    latest = np.where(np.isnan(closing), 0, np.arange(span)[:, None])
    closing = np.take_along_axis(closing, np.maximum.accumulate(latest), axis=0)
    lines: dict[int, look.Array] = {}
    for name, values in zip(names, closing.T, strict=True):
        place = place_of.get(name, others)
        before = lines.get(place, np.full(span, np.nan))
        lines[place] = np.where(np.isnan(before), values, before + np.nan_to_num(values))
    return lines


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
            "at": look.moments(assertions["observed_at"], tz),
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
