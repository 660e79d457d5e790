"""Flows and fees, a bar for each period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from fundlab.charts import look
from fundlab.charts.look import humanise, rank_types
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, Theme, compact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_BARS: Final = 60


@dataclass(frozen=True)
class Bars:
    """The time axis that all panels of a bar chart share: at most :data:`MAX_BARS` periods."""

    first: pd.Timestamp
    last: pd.Timestamp
    width: Any  # a Timedelta: matplotlib takes one beside times, its types do not say so

    @classmethod
    def of(cls, frame: pd.DataFrame, tz: str) -> Bars:
        periods = pd.DatetimeIndex(look.local(frame["period"], tz).unique()).sort_values()
        shown = periods[-MAX_BARS:]
        if shown.empty:
            return cls(pd.Timestamp(0), pd.Timestamp(0), pd.Timedelta(days=1))
        step = shown.to_series().diff().min() if len(shown) > 1 else pd.Timedelta(days=28)
        air = step if len(shown) > 4 else step * 2  # a few bars should not fill the panel
        return cls(shown[0] - air / 2, shown[-1] + air / 2, step * 0.72)


@look.chart
def flow_bars(
    net: pd.DataFrame,
    theme: Theme = LIGHT,
    *,
    tz: str = "UTC",
    asset: str | None = None,
    legend: bool = True,
) -> Figure:
    """Inflow above and outflow below the line for each period, net as a dot (``flows.net``, of the
    same ``tz``).

    >>> fl.charts.flow_bars(fl.flows.net(transfers, freq="D")).get_label()
    'Inflow and outflow over 4 periods: USD in 1.06 k, out 285.'
    """
    look.need(net, "period", "asset", "inflow", "outflow", "net")
    bars = Bars.of(net, tz)

    def draw(axes: Panel, rows: pd.DataFrame) -> None:
        periods = look.local(rows["period"], tz)
        sums = look.floats(rows, "inflow", "outflow", "net").groupby(periods).sum()
        sums = sums[sums.index >= bars.first]
        starts = sums.index.to_numpy()
        axes.bar(starts, sums["inflow"], bars.width, color=theme.inflow)
        axes.bar(starts, -sums["outflow"], bars.width, color=theme.outflow)
        axes.plot(
            starts, sums["net"], linestyle="none", marker="o", markersize=4.6,
            color=theme.ink, markeredgecolor=theme.paper, markeredgewidth=1.1,
        )  # fmt: skip
        for start, row in sums.iterrows():
            words = (f"{start:%Y-%m-%d}\nin {look.spelled(row['inflow'])}\n"
                     f"out {look.spelled(row['outflow'])}\n"
                     f"net {look.spelled(row['net'], signed=True)}")  # fmt: skip
            axes.hover((start - bars.width / 2, start + bars.width / 2), words)
        ends = np.concatenate([sums["inflow"], -sums["outflow"], sums["net"]])
        axes.set_ylim(*look.with_zero(ends, 0.05))
        axes.axhline(0, color=theme.muted, linewidth=0.8)
        axes.date_axis(bars.first, bars.last)
        look.note(axes, f"net {compact(float(sums['net'].sum()), signed=True)}", theme)

    figure = look.panels(
        look.by_asset(net, asset), draw, theme, "No flows", rows_below=1 if legend else 0
    )
    if legend and len(net):
        dot = {"color": theme.ink, "linestyle": "none", "marker": "o", "markersize": 4}
        handles = [look.square(theme.inflow), look.square(theme.outflow), dot]
        look.legend_row(figure, handles, ["in", "out", "net"], theme)
    shown = look.rows_of(net, asset)
    if not len(shown):
        return look.described(figure, "Inflow and outflow: none.")
    sums = look.floats(shown, "inflow", "outflow").groupby(shown["asset"].astype(str)).sum()
    each = "; ".join(
        f"{name} in {compact(row.inflow)}, out {compact(row.outflow)}"
        for name, row in sums.iterrows()
    )
    periods = shown["period"].nunique()
    return look.described(figure, f"Inflow and outflow over {periods} periods: {each}.")


@look.chart
def fees_by_type(
    summary: pd.DataFrame,
    theme: Theme = LIGHT,
    *,
    tz: str = "UTC",
    asset: str | None = None,
    legend: bool = True,
) -> Figure:
    """Bars of the fees paid, stacked by transfer type for each period
    (``fees.summary(…, by=["type", "asset"], freq=…)``, of the same ``tz``).

    >>> paid = fl.fees.summary(transfers, by=["type", "asset"], freq="MS")
    >>> fl.charts.fees_by_type(paid).get_label()
    'Fees by type: Wire withdrawal 25 USD.'
    """
    look.need(summary, "type", "asset", "fee", "period")
    charged = summary[look.floats(summary, "fee")["fee"] != 0]
    bars = Bars.of(charged, tz)
    types = rank_types(charged)
    kinds = charged["type"].astype(str)
    table = pd.DataFrame(
        {
            "asset": charged["asset"].astype(str),
            "type": kinds,
            "drawn": kinds.where(kinds.isin(types), types[-1] if types else ""),  # the others
            "period": look.local(charged["period"], tz),
            "fee": charged["fee"].astype("float64"),
        }
    )

    def draw(axes: Panel, rows: pd.DataFrame) -> None:
        fees = rows[rows["period"] >= bars.first].pivot_table(
            index="period", columns="drawn", values="fee", aggfunc="sum", fill_value=0.0
        )
        starts = fees.index.to_numpy()
        below = np.zeros(len(fees))
        for kind in fees.columns:
            color = theme.series[types.index(kind)]
            axes.bar(starts, fees[kind], bars.width, below, color=color)
            below += fees[kind].to_numpy()
        axes.date_axis(bars.first, bars.last)
        for start, row in fees.iterrows():
            paid = [(humanise(str(kind)), look.spelled(fee)) for kind, fee in row.items() if fee]
            each = [f"{name} {fee}" for name, fee in paid]
            across = start - bars.width / 2, start + bars.width / 2
            axes.hover(across, "\n".join([f"{start:%Y-%m-%d}", *each]))
        axes.set_ylim(*look.with_zero(below))
        look.note(axes, f"{compact(float(below.sum()))} in all", theme)

    panels, shown = look.by_asset(table, asset), look.rows_of(table, asset)
    drawn = set(shown["drawn"])
    places = [place for place, kind in enumerate(types) if kind in drawn]
    labels = [humanise(types[place]) for place in places]
    below = look.legend_rows(labels, len(panels)) if legend else 0
    figure = look.panels(panels, draw, theme, "No fees", rows_below=below)
    if legend and labels:
        handles = [look.square(theme.series[place]) for place in places]
        look.legend_row(figure, handles, labels, theme)
    sums = shown.groupby(["asset", "type"])["fee"].sum().reset_index()
    each = ", ".join(
        f"{humanise(kind)} {compact(float(fee))} {name}" for name, kind, fee in sums.to_numpy()
    )
    return look.described(figure, f"Fees by type: {each or 'none'}.")
