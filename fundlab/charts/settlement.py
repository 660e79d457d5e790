"""How long transfers take to settle, by type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from fundlab.base.values import length_text
from fundlab.charts import look
from fundlab.charts.look import humanise
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, TEXT, Layout, Theme

_ROW: Final = 16.0
_MARGINS: Final = (150.0, 44.0, 18.0, 26.0)
_LEAST: Final = 1e-3
"""Seconds: what is quicker is ``at once``."""
_AT_ONCE: Final = 0.2
"""How far left of the quickest other time ``at once`` is drawn, as a share of it."""
Row = tuple[str, float, float, float, float]
"""A type, and of its times in seconds the half, nine tenths, 99 of 100, and the slowest."""
_PARTS: Final = ("p50", "p90", "p99", "max")
_TICKS: Final = (
    (1e-3, "1 ms"), (1, "1 s"), (60, "1 min"), (3600, "1 h"), (86_400, "1 d"),
    (7 * 86_400, "1 w"), (30 * 86_400, "30 d"), (365 * 86_400, "1 y"),
)  # fmt: skip


@look.chart
def settlement_times(
    settlement: pd.DataFrame, theme: Theme = LIGHT, *, legend: bool = True
) -> look.Drawing:
    """The spread of settlement times for each type, quickest first (``flows.settlement_time``):
    half, nine tenths, 99 of 100, and the slowest, on a scale of powers.

    >>> fl.charts.settlement_times(fl.flows.settlement_time(transfers)).get_label()
    'Settlement times by type: Internal transfer credit half within 30 min, 99 % within 30
    min; Internal transfer debit half within 30 min, 99 % within 30 min; Wire deposit half
    within 30 min, 99 % within 30 min; Wire withdrawal half within 30 min, 99 % within 30
    min.'
    """
    look.need(settlement, "type", "count", *_PARTS)
    seconds = [settlement[name].dt.total_seconds().tolist() for name in _PARTS]
    names = [humanise(name) for name in look.texts(settlement["type"])]
    rows = sorted(
        ((name, *(at if at > _LEAST else 0.0 for at in parts))
         for name, *parts in zip(names, *seconds, strict=True)),
        key=lambda row: (row[1], row[0]),
    )  # fmt: skip

    def words(_: object) -> str:
        each = "; ".join(f"{name} half within {_text(half)}, 99 % within {_text(most)}"
                         for name, half, _, most, _ in rows)  # fmt: skip
        return f"Settlement times{' by type' if each else ''}: {each or 'nothing has settled'}."

    color = theme.series[0]
    handles: list[Mapping[str, Any]] = [
        {"color": color, "linestyle": "none", "marker": "o", "markersize": 6},
        {"color": color, "linewidth": 5, "alpha": 0.45},
        {"color": color, "linewidth": 1.2},
        {"color": color, "linestyle": "none", "marker": "|", "markersize": 8},
    ]
    height = _MARGINS[2] + _MARGINS[3] + max(len(rows), 3) * _ROW
    return look.Drawing(
        {"": rows} if rows else {}, lambda axes, rows: _draw(axes, rows, theme), theme, words,
        "Nothing has settled", layout=Layout((480.0, height), _MARGINS),
        legend=(lambda _: (handles, ["half", "90 %", "99 %", "slowest"])) if legend else None,
    )  # fmt: skip


def _draw(axes: Panel, exact: Sequence[Row], theme: Theme) -> None:
    color, places = theme.series[0], range(len(exact))
    times = [at for row in exact for at in row[1:]]
    quickest = min((at for at in times if at > 0), default=None)
    least = 1.0 if quickest is None else quickest * _AT_ONCE
    half, most, nearly, slowest = (
        [max(at, least) for at in part] for part in zip(*(row[1:] for row in exact), strict=True)
    )  # fmt: skip
    axes.set_xscale("log")
    axes.hlines(places, half, slowest, color=color, linewidth=1.0, alpha=0.45)
    axes.hlines(places, half, nearly, color=color, linewidth=1.4)
    axes.hlines(places, half, most, color=color, linewidth=5, alpha=0.45)
    axes.plot(slowest, places, linestyle="none", marker="|", markersize=7, color=color)
    axes.plot(half, places, linestyle="none", marker="o", markersize=6, color=color)
    for position, (row, at) in enumerate(zip(exact, slowest, strict=True)):
        axes.words(_text(row[-1]), (at, position), (6, 0), theme.muted, va="center",
                   size=TEXT - 1.5)  # fmt: skip
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=theme.grid, linewidth=0.8)
    low, high = min(half) / 1.5, max(slowest) * 1.5
    inside = [(at, name) for at, name in _TICKS if max(low, least * 1.5) <= at <= high]
    if 0.0 in times:
        inside.insert(0, (least, "at once"))
    axes.set_xticks([at for at, _ in inside], [name for _, name in inside])
    axes.minorticks_off()
    axes.set_xlim(low, high)
    look.name_rows(axes, [name for name, *_ in exact])
    for position, (name, *parts) in enumerate(exact):
        p50, p90, p99, longest = map(_text, parts)
        words = f"{name}: half {p50}, 90 % {p90}, 99 % {p99}, slowest {longest}"
        axes.hover((low, high, position - 0.45, position + 0.45), words)


def _text(seconds: float) -> str:
    return length_text(round(seconds * 10**9)) if seconds > _LEAST else "at once"
