"""Flows and fees, a bar for each period."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from fundlab.charts import look
from fundlab.charts.look import humanise, rank_types
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, Theme, compact

MAX_BARS: Final = 60


@dataclass(frozen=True)
class Bars:
    """The time axis that all panels of a bar chart share: at most :data:`MAX_BARS` periods."""

    first: Any
    last: Any
    width: Any

    @classmethod
    def of(cls, periods: look.Array) -> Bars:
        shown = np.unique(periods)[-MAX_BARS:]
        if not len(shown):
            return cls(np.datetime64(0, "ns"), np.datetime64(0, "ns"), np.timedelta64(1, "D"))
        step = np.diff(shown).min() if len(shown) > 1 else np.timedelta64(28, "D")
        air = step if len(shown) > 4 else step * 2  # a few bars should not fill the panel
        return cls(shown[0] - air / 2, shown[-1] + air / 2, step * 0.72)

    def sums(self, rows: look.Rows, *names: str) -> tuple[look.Array, ...]:
        """The periods that are shown, and in each the sums of these columns."""
        inside = rows["period"] >= self.first
        starts, places = np.unique(rows["period"][inside], return_inverse=True)
        return starts, *(np.bincount(places, rows[name][inside], len(starts)) for name in names)

    def hover(self, axes: Panel, starts: look.Array, words: Iterable[str]) -> None:
        """``words`` below the day of each period."""
        for start, day, said in zip(starts, look.days_of(starts), words, strict=True):
            across = start - self.width / 2, start + self.width / 2
            axes.hover(across, f"{day}\n{said}".rstrip())


@look.chart
def flow_bars(
    net: pd.DataFrame,
    theme: Theme = LIGHT,
    *,
    tz: str = "UTC",
    asset: str | None = None,
    legend: bool = True,
) -> look.Drawing:
    """Inflow above and outflow below the line for each period, net as a dot (``flows.net``, of the
    same ``tz``).

    >>> fl.charts.flow_bars(fl.flows.net(transfers, freq="D")).get_label()
    'Inflow and outflow over 4 periods: USD in 1.06 k, out 285.'
    """
    look.need(net, "period", "asset", "inflow", "outflow", "net")
    names = ("inflow", "outflow", "net")
    periods = look.moments(net["period"], tz)
    amounts = {name: look.numbers(net[name]) for name in names}
    bars = Bars.of(periods)

    def draw(axes: Panel, rows: look.Rows) -> None:
        starts, came, went, more = bars.sums(rows, *names)
        axes.bar(starts, came, bars.width, color=theme.inflow)
        axes.bar(starts, -went, bars.width, color=theme.outflow)
        axes.plot(
            starts, more, linestyle="none", marker="o", markersize=4.6,
            color=theme.ink, markeredgecolor=theme.paper, markeredgewidth=1.1,
        )  # fmt: skip
        each = zip(came.tolist(), went.tolist(), more.tolist(), strict=True)
        bars.hover(axes, starts, (
            f"in {look.spelled(into)}\nout {look.spelled(out)}\n"
            f"net {look.spelled(both, signed=True)}" for into, out, both in each
        ))  # fmt: skip
        axes.set_ylim(*look.with_zero(np.concatenate([came, -went, more]), 0.05))
        axes.axhline(0, color=theme.muted, linewidth=0.8)
        axes.date_axis(bars.first, bars.last)
        look.note(axes, f"net {compact(float(more.sum()), signed=True)}", theme)

    def words(shown: Mapping[str, look.Rows]) -> str:
        if not shown:
            return "Inflow and outflow: none."
        each = "; ".join(
            f"{name} in {compact(rows['inflow'].sum())}, out {compact(rows['outflow'].sum())}"
            for name, rows in shown.items()
        )
        many = len(np.unique(np.concatenate([rows["period"] for rows in shown.values()])))
        return f"Inflow and outflow over {many} periods: {each}."

    dot = {"color": theme.ink, "linestyle": "none", "marker": "o", "markersize": 4}
    handles = [look.square(theme.inflow), look.square(theme.outflow), dot]
    return look.Drawing(
        look.by_asset(net["asset"], period=periods, **amounts), draw, theme, words, "No flows",
        legend=(lambda _: (handles, ["in", "out", "net"])) if legend else None, asset=asset,
    )  # fmt: skip


@look.chart
def fees_by_type(
    summary: pd.DataFrame,
    theme: Theme = LIGHT,
    *,
    tz: str = "UTC",
    asset: str | None = None,
    legend: bool = True,
) -> look.Drawing:
    """Bars of the fees paid, stacked by transfer type for each period
    (``fees.summary(…, by=["type", "asset"], freq=…)``, of the same ``tz``).

    >>> paid = fl.fees.summary(transfers, by=["type", "asset"], freq="MS")
    >>> fl.charts.fees_by_type(paid).get_label()
    'Fees by type: Wire withdrawal 25 USD.'
    """
    look.need(summary, "type", "asset", "fee", "period")
    charged = summary[look.numbers(summary["fee"]) != 0]
    periods = look.moments(charged["period"], tz)
    bars = Bars.of(periods)
    types = rank_types(charged)
    kinds = look.texts(charged["type"])
    place_of = {kind: place for place, kind in enumerate(types)}
    drawn = np.array([place_of.get(kind, len(types) - 1) for kind in kinds], "int64")  # the others

    def draw(axes: Panel, rows: look.Rows) -> None:
        inside = {*rows["drawn"][rows["period"] >= bars.first].tolist()}
        places = sorted(inside, key=types.__getitem__)
        of_each = {f"{place}": np.where(rows["drawn"] == place, rows["fee"], 0) for place in places}
        starts, *fees = bars.sums({**rows, **of_each}, *of_each)
        below = np.zeros(len(starts))
        for place, paid in zip(places, fees, strict=True):
            axes.bar(starts, paid, bars.width, below, color=theme.series[place])
            below = below + paid
        axes.date_axis(bars.first, bars.last)
        names = [humanise(types[place]) for place in places]
        bars.hover(axes, starts, (
            "\n".join(f"{name} {look.spelled(fee)}"
                      for name, fee in zip(names, row.tolist(), strict=True) if fee)
            for row in np.transpose(fees)
        ))  # fmt: skip
        axes.set_ylim(*look.with_zero(below))
        look.note(axes, f"{compact(float(below.sum()))} in all", theme)

    def words(shown: Mapping[str, look.Rows]) -> str:
        each = ", ".join(
            f"{humanise(kind)} {compact(float(rows['fee'][rows['type'] == kind].sum()))} {name}"
            for name, rows in shown.items()
            for kind in sorted({*rows["type"]})
        )
        return f"Fees by type: {each or 'none'}."

    def named(shown: Mapping[str, look.Rows]) -> look.Legend:
        there = sorted({place for rows in shown.values() for place in rows["drawn"].tolist()})
        return ([look.square(theme.series[place]) for place in there],
                [humanise(types[place]) for place in there])  # fmt: skip

    by_asset = look.by_asset(
        charged["asset"], period=periods, type=kinds, drawn=drawn, fee=look.numbers(charged["fee"])
    )
    return look.Drawing(
        by_asset, draw, theme, words, "No fees",
        legend=named if legend else None, asset=asset,
    )  # fmt: skip
