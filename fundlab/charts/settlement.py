"""How long transfers take to settle, by type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from fundlab.base.values import length_text
from fundlab.charts import look
from fundlab.charts.look import humanise
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, TEXT, Layout, Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW: Final = 16.0
_MARGINS: Final = (150.0, 44.0, 18.0, 26.0)
_LEAST: Final = 1e-3
"""Seconds: what is quicker is ``at once``."""
_AT_ONCE: Final = 0.2
"""How far left of the quickest other time ``at once`` is drawn, as a share of it."""
_PARTS: Final = ("p50", "p90", "p99", "max")
_TICKS: Final = (
    (1e-3, "1 ms"), (1, "1 s"), (60, "1 min"), (3600, "1 h"), (86_400, "1 d"),
    (7 * 86_400, "1 w"), (30 * 86_400, "30 d"), (365 * 86_400, "1 y"),
)  # fmt: skip


@look.chart
def settlement_times(
    settlement: pd.DataFrame, theme: Theme = LIGHT, *, legend: bool = True
) -> Figure:
    """The spread of settlement times for each type, quickest first (``flows.settlement_time``):
    half, nine tenths, 99 of 100, and the slowest, on a scale of powers.

    >>> fl.charts.settlement_times(fl.flows.settlement_time(transfers)).get_label()
    'Settlement times by type: Internal transfer credit half within 30 min, 99 % within 30
    min; Internal transfer debit half within 30 min, 99 % within 30 min; Wire deposit half
    within 30 min, 99 % within 30 min; Wire withdrawal half within 30 min, 99 % within 30
    min.'
    """
    look.need(settlement, "type", "count", *_PARTS)
    seconds = pd.DataFrame({name: settlement[name].dt.total_seconds() for name in _PARTS})
    rows = seconds.where(seconds > _LEAST, 0.0).assign(
        name=settlement["type"].astype(str).map(humanise)
    )
    rows = rows.sort_values(["p50", "name"], kind="stable")
    height = _MARGINS[2] + _MARGINS[3] + max(len(rows), 3) * _ROW
    layout = Layout((480.0, height), _MARGINS)

    figure = look.panels(
        {"": rows} if len(rows) else {}, lambda axes, rows: _draw(axes, rows, theme), theme,
        "Nothing has settled", rows_below=1 if legend else 0, layout=layout,
    )  # fmt: skip
    if legend and len(rows):
        color = theme.series[0]
        handles = [
            {"color": color, "linestyle": "none", "marker": "o", "markersize": 6},
            {"color": color, "linewidth": 5, "alpha": 0.45},
            {"color": color, "linewidth": 1.2},
            {"color": color, "linestyle": "none", "marker": "|", "markersize": 8},
        ]
        look.legend_row(figure, handles, ["half", "90 %", "99 %", "slowest"], theme)
    each = "; ".join(
        f"{name} half within {_text(half)}, 99 % within {_text(most)}"
        for name, half, most in zip(rows["name"], rows["p50"], rows["p99"], strict=True)
    )
    if not each:
        return look.described(figure, "Settlement times: nothing has settled.")
    return look.described(figure, f"Settlement times by type: {each}.")


def _draw(axes: Panel, exact: pd.DataFrame, theme: Theme) -> None:
    color, places = theme.series[0], range(len(exact))
    times = exact[list(_PARTS)]
    quickest = float(times[times > 0].min().min())
    least = 1.0 if np.isnan(quickest) else quickest * _AT_ONCE
    rows = times.clip(lower=least)
    axes.set_xscale("log")
    axes.hlines(places, rows["p50"], rows["max"], color=color, linewidth=1.0, alpha=0.45)
    axes.hlines(places, rows["p50"], rows["p99"], color=color, linewidth=1.4)
    axes.hlines(places, rows["p50"], rows["p90"], color=color, linewidth=5, alpha=0.45)
    axes.plot(rows["max"], places, linestyle="none", marker="|", markersize=7, color=color)
    axes.plot(rows["p50"], places, linestyle="none", marker="o", markersize=6, color=color)
    for position, slowest, at in zip(places, exact["max"], rows["max"], strict=True):
        axes.words(_text(slowest), (at, position), (6, 0), theme.muted, va="center",
                   size=TEXT - 1.5)  # fmt: skip
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=theme.grid, linewidth=0.8)
    low, high = rows["p50"].min() / 1.5, rows["max"].max() * 1.5
    inside = [(at, name) for at, name in _TICKS if max(low, least * 1.5) <= at <= high]
    if (times == 0).any(axis=None):
        inside.insert(0, (least, "at once"))
    axes.set_xticks([at for at, _ in inside], [name for _, name in inside])
    axes.minorticks_off()
    axes.set_xlim(low, high)
    look.name_rows(axes, list(exact["name"]))
    for position, (name, *parts) in enumerate(zip(exact["name"], *(exact[p] for p in _PARTS),
                                               strict=True)):  # fmt: skip
        half, most, nearly, slowest = map(_text, parts)
        words = f"{name}: half {half}, 90 % {most}, 99 % {nearly}, slowest {slowest}"
        axes.hover((low, high, position - 0.45, position + 0.45), words)


def _text(seconds: float) -> str:
    return length_text(round(seconds * 10**9)) if seconds > _LEAST else "at once"
