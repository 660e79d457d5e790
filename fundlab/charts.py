"""Frames to matplotlib figures: the only place where money becomes float.

Each function takes a frame of :mod:`fundlab.analysis` and returns a ``matplotlib.figure.Figure``
with one panel for each asset, or only that of ``asset`` in the colours of the whole; neither
pyplot nor the global settings are touched. The figure's label, ``figure.get_label()``, is its
alternative text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fundlab.errors import AnalysisError

MAX_SERIES: Final = 6
MAX_POINTS: Final = 400
MAX_BARS: Final = 60
PANEL: Final = (360.0, 200.0)
"""Width and height of one panel in points; text is 10 points high at that size."""

_MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP, _MARGIN_BOTTOM = 50.0, 12.0, 30.0, 26.0
_BOX: Final = (PANEL[0] - _MARGIN_LEFT - _MARGIN_RIGHT, PANEL[1] - _MARGIN_TOP - _MARGIN_BOTTOM)
_LEGEND_ROW: Final = 22.0
_TEXT: Final = 10.0
_FONT: Final = FontProperties(family="DejaVu Sans")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_ACRONYMS: Final = frozenset({"CBIT", "CUBIX", "RTP", "SEN"})
_SVG_LOCK: Final = threading.Lock()


@dataclass(frozen=True)
class Theme:
    """Colours of a figure. ``series`` is safe for colour-blind readers (after Okabe and Ito)."""

    paper: str
    ink: str
    muted: str
    grid: str
    inflow: str
    outflow: str
    series: tuple[str, ...]


LIGHT: Final = Theme(
    "#ffffff", "#1b2330", "#5b6675", "#e3e7ec", "#0067a5", "#c05a00",
    ("#0067a5", "#c05a00", "#00866a", "#a83279", "#7a6a00", "#4b4fa8", "#6b7280"),
)  # fmt: skip
DARK: Final = Theme(
    "#151b23", "#e8edf3", "#9aa6b5", "#2b3541", "#58b4ee", "#f0a04b",
    ("#58b4ee", "#f0a04b", "#3fc7a0", "#e58ac0", "#d9c64a", "#a3a8f5", "#9aa6b5"),
)  # fmt: skip


def balance_course(
    daily: pd.DataFrame, theme: Theme = LIGHT, *, asset: str | None = None, legend: bool = True
) -> Figure:
    """Step lines of the closing balance of each profile (``balances.daily``)."""
    _need(daily, "profile_id", "asset", "date", "balance")
    names = rank_profiles(daily)

    def draw(axes: Axes, closing: pd.DataFrame) -> None:
        lines = _drawn_lines(closing, names)
        for name in lines.columns:
            place = names.index(name)
            axes.plot(
                lines.index.to_numpy(), lines[name].to_numpy(), drawstyle="steps-post",
                color=theme.series[place], linewidth=1.4, marker=_MARKERS[place], markersize=4.5,
                markevery=[-1],
            )  # fmt: skip
        _date_axis(axes, days.min(), days.max() + pd.Timedelta(days=1))
        _panel_note(axes, f"{compact(float(lines.iloc[-1].sum()))} in all", theme)
        axes.set_ylim(*_with_zero(lines.to_numpy()))

    days = daily["date"]
    closing = _closing_by_profile(daily)
    figure = _panels(
        _only(closing, asset), draw, theme, "No balances", rows_below=1 if legend else 0
    )
    if legend and closing:
        handles = [
            Line2D([], [], color=theme.series[place], marker=_MARKERS[place], markersize=4.5)
            for place in range(len(names))
        ]
        _legend_row(figure, handles, [shorten_id(name) for name in names], theme)
    return _described(figure, _describe_course(_rows_of(daily, asset)))


def flow_bars(
    net: pd.DataFrame, theme: Theme = LIGHT, *, asset: str | None = None, legend: bool = True
) -> Figure:
    """Inflow above and outflow below the line for each period, net as a dot (``flows.net``)."""
    _need(net, "period", "asset", "inflow", "outflow", "net")

    bars = _Bars.of(net)

    def draw(axes: Axes, rows: pd.DataFrame) -> None:
        periods = rows["period"].dt.tz_localize(None)
        floats = _floats(rows, "inflow", "outflow", "net").groupby(periods).sum()
        floats = floats[floats.index >= bars.first]
        starts = floats.index.to_numpy()
        axes.bar(starts, floats["inflow"], bars.width, color=theme.inflow)
        axes.bar(starts, -floats["outflow"], bars.width, color=theme.outflow)
        axes.plot(
            starts, floats["net"], linestyle="none", marker="o", markersize=4.6,
            color=theme.ink, markeredgecolor=theme.paper, markeredgewidth=1.1,
        )  # fmt: skip
        axes.axhline(0, color=theme.muted, linewidth=0.8)
        _date_axis(axes, bars.first, bars.last)
        _panel_note(axes, f"net {compact(float(floats['net'].sum()), signed=True)}", theme)

    figure = _panels(
        _only(_by_asset(net), asset), draw, theme, "No flows", rows_below=1 if legend else 0
    )
    if legend and len(net):
        _flow_legend(figure, theme)
    return _described(figure, _describe_flows(_rows_of(net, asset)))


def fees_by_type(
    summary: pd.DataFrame, theme: Theme = LIGHT, *, asset: str | None = None, legend: bool = True
) -> Figure:
    """Bars of the fees paid, stacked by transfer type for each period
    (``fees.summary(…, by=["type", "asset"], freq=…)``)."""
    _need(summary, "type", "asset", "fee", "period")
    charged = summary[_floats(summary, "fee")["fee"] != 0]
    types = rank_types(charged)
    bars = _Bars.of(charged)

    def draw(axes: Axes, rows: pd.DataFrame) -> None:
        fees = _fees_by_period(rows[rows["period"].dt.tz_localize(None) >= bars.first], types)
        starts = fees.index.to_numpy()
        below = np.zeros(len(fees))
        for kind in fees.columns:
            color = theme.series[types.index(kind)]
            axes.bar(starts, fees[kind], bars.width, below, color=color)
            below += fees[kind].to_numpy()
        _date_axis(axes, bars.first, bars.last)
        axes.set_ylim(*_with_zero(below))
        _panel_note(axes, f"{compact(float(below.sum()))} in all", theme)

    figure = _panels(
        _only(_by_asset(charged), asset), draw, theme, "No fees", rows_below=1 if legend else 0
    )
    if legend and len(charged):
        handles = [_square(theme.series[place]) for place in range(len(types))]
        _legend_row(figure, handles, [humanise(kind) for kind in types], theme)
    return _described(figure, _describe_fees(_rows_of(charged, asset)))


def to_svg(figure: Figure) -> str:
    """The figure as SVG text, the same bytes for the same figure; text stays text."""
    out = StringIO()
    with _SVG_LOCK, mpl.rc_context({"svg.hashsalt": "fundlab", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def compact(value: float, *, signed: bool = False) -> str:
    """A short figure for axes and notes: ``1.2 M``, ``950 k``, ``0.005``."""
    plus = "+" if signed and value > 0 else ""
    size = abs(value)
    for limit, suffix in ((1e12, " T"), (1e9, " B"), (1e6, " M"), (1e3, " k")):
        if size >= limit * 0.9995:
            return f"{plus}{value / limit:.3g}{suffix}".replace("-", "−")
    if size != 0 and size < 1e-4:
        return f"{plus}{value:.1e}".replace("-", "−")
    return f"{plus}{value:.3g}".replace("-", "−")


def shorten_id(identifier: str) -> str:
    """A UUID by its first and last characters: ``3f2a…9c1d``."""
    return identifier if len(identifier) <= 12 else f"{identifier[:4]}…{identifier[-4:]}"


def humanise(name: str) -> str:
    """``WIRE_DEPOSIT`` as ``Wire deposit``, ``RTP_DEPOSIT`` as ``RTP deposit``."""
    if not name.isupper():
        return name
    words = [word if word in _ACRONYMS else word.lower() for word in name.split("_")]
    phrase = " ".join(words)
    return phrase[:1].upper() + phrase[1:]


def rank_profiles(daily: pd.DataFrame) -> list[str]:
    """The profiles drawn, sorted; beyond :data:`MAX_SERIES` the rest is one line, ``n others``."""
    return _ranked(daily["profile_id"].astype(str))


def rank_types(summary: pd.DataFrame) -> list[str]:
    """The transfer types drawn, sorted; beyond :data:`MAX_SERIES` the rest is ``n others``."""
    return _ranked(summary["type"].astype(str))


def _ranked(column: pd.Series) -> list[str]:
    counts = column.value_counts(sort=False).sort_index()
    if len(counts) <= MAX_SERIES:
        return [str(name) for name in counts.index]
    kept = counts.sort_values(ascending=False, kind="stable").index[: MAX_SERIES - 1]
    return [*sorted(map(str, kept)), f"{len(counts) - len(kept)} others"]


@dataclass(frozen=True)
class _Bars:
    """The time axis that all panels of a bar chart share: at most :data:`MAX_BARS` periods."""

    first: pd.Timestamp
    last: pd.Timestamp
    width: Any  # a Timedelta: matplotlib takes one beside times, its types do not say so

    @classmethod
    def of(cls, frame: pd.DataFrame) -> _Bars:
        periods = pd.DatetimeIndex(frame["period"].dt.tz_localize(None).unique()).sort_values()
        shown = periods[-MAX_BARS:]
        if shown.empty:
            return cls(pd.Timestamp(0), pd.Timestamp(0), pd.Timedelta(days=1))
        step = shown.to_series().diff().min() if len(shown) > 1 else pd.Timedelta(days=28)
        air = step if len(shown) > 4 else step * 2  # a few bars should not fill the panel
        return cls(shown[0] - air / 2, shown[-1] + air / 2, step * 0.72)


# ------------------------------------------------------------------------------------- drawing


def _panels(
    by_asset: Mapping[str, pd.DataFrame],
    draw: Callable[[Axes, pd.DataFrame], None],
    theme: Theme,
    nothing: str,
    *,
    rows_below: int,
) -> Figure:
    """One panel of fixed size for each asset, in two columns, assets in order of their names."""
    assets = sorted(by_asset)
    count = max(len(assets), 1)
    columns = min(2, count)
    rows = -(-count // columns)
    width, height = columns * PANEL[0], rows * PANEL[1] + rows_below * _LEGEND_ROW
    figure = Figure(figsize=(width / 72, height / 72), dpi=144, facecolor=theme.paper)
    for number in range(count):
        row, column = divmod(number, columns)
        x = column * PANEL[0] + _MARGIN_LEFT
        y = height - (row + 1) * PANEL[1] + _MARGIN_BOTTOM
        axes = figure.add_axes((x / width, y / height, _BOX[0] / width, _BOX[1] / height))
        _style(axes, theme)
        if not assets:
            axes.set_axis_off()
            _words(axes, 0.5, 0.5, nothing, theme.muted, ha="center", size=12)
            continue
        _title(axes, assets[number], theme)
        draw(axes, by_asset[assets[number]])
    return figure


def _style(axes: Axes, theme: Theme) -> None:
    axes.set_facecolor(theme.paper)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(theme.grid)
    axes.grid(axis="y", color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=theme.muted, labelsize=_TEXT - 0.5, length=0, pad=4)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))


def _date_axis(axes: Axes, first: Any, last: Any) -> None:
    locator = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
    formatter = ConciseDateFormatter(locator, show_offset=False)  # type: ignore[no-untyped-call]
    formatter.zero_formats[1] = "%Y"
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)
    air = (last - first) * 0.01
    axes.set_xlim(first - air, last + air)


def _title(axes: Axes, asset: str, theme: Theme) -> None:
    shift = (6.0 - _MARGIN_LEFT) / _BOX[0]
    text = _words(axes, shift, 1.09, asset, theme.ink, size=_TEXT + 1.5, of_axes=True)
    text.set_fontweight("bold")


def _panel_note(axes: Axes, note: str, theme: Theme) -> None:
    _words(axes, 1.0, 1.09, note, theme.muted, ha="right", of_axes=True)


def _words(
    axes: Axes,
    x: float,
    y: float,
    words: str,
    color: str,
    *,
    ha: str = "left",
    va: str = "baseline",
    size: float = _TEXT,
    of_axes: bool = False,
) -> Any:
    """Text as it is: a ``$`` in somebody's name starts no formula, an unknown sign no warning."""
    transform = axes.transAxes if of_axes else axes.transData
    return axes.text(
        x, y, _drawable(words), color=color, ha=ha, va=va, fontsize=size, parse_math=False,
        transform=transform,
    )  # fmt: skip


def _square(color: str) -> Line2D:
    return Line2D([], [], color=color, linestyle="none", marker="s", markersize=8)


def _flow_legend(figure: Figure, theme: Theme) -> None:
    dot = Line2D([], [], color=theme.ink, linestyle="none", marker="o", markersize=4)
    handles = [_square(theme.inflow), _square(theme.outflow), dot]
    _legend_row(figure, handles, ["in", "out", "net"], theme)


def _legend_row(figure: Figure, handles: list[Line2D], names: Sequence[str], theme: Theme) -> None:
    labels = [_drawable(name) for name in names]
    legend = figure.legend(
        handles, labels, loc="lower center", ncols=len(labels), frameon=False,
        fontsize=_TEXT - 1, labelcolor=theme.muted, handlelength=1.8, columnspacing=1.2,
        borderaxespad=0.2,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)


# ----------------------------------------------------------------------------------- the frames


def _need(frame: pd.DataFrame, *names: str) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        gaps = ", ".join(map(repr, missing))
        raise AnalysisError(f"the frame has no column {gaps}; needed are {', '.join(names)}")


def _by_asset(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(asset): rows for asset, rows in frame.groupby(frame["asset"].astype(str))}


def _only(by_asset: dict[str, pd.DataFrame], asset: str | None) -> dict[str, pd.DataFrame]:
    if asset is None:
        return by_asset
    return {name: rows for name, rows in by_asset.items() if name == asset}


def _rows_of(frame: pd.DataFrame, asset: str | None) -> pd.DataFrame:
    return frame if asset is None else frame[frame["asset"].astype(str) == asset]


def _floats(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    return pd.DataFrame({name: frame[name].astype("float64") for name in names}, frame.index)


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


def _fees_by_period(rows: pd.DataFrame, types: list[str]) -> pd.DataFrame:
    kinds = rows["type"].astype(str)
    table = pd.DataFrame(
        {
            "kind": kinds.where(kinds.isin(types), types[-1]),
            "period": rows["period"].dt.tz_localize(None),
            "fee": rows["fee"].astype("float64"),
        }
    )
    return table.pivot_table(
        index="period", columns="kind", values="fee", aggfunc="sum", fill_value=0.0
    )


def _with_zero(values: Any) -> tuple[float, float]:
    """Limits that include zero and leave air above."""
    low = min(0.0, float(np.nanmin(values, initial=0.0)))
    high = max(0.0, float(np.nanmax(values, initial=0.0)))
    air = (high - low) * 0.08 or 1.0
    return (low - air if low < 0 else 0.0, high + air)


def _drawable(words: str) -> str:
    """Signs the font lacks become a box; a leading underscore would hide a legend's entry."""
    font = get_font(findfont(_FONT))
    shown = "".join(sign if font.get_char_index(ord(sign)) else "▯" for sign in words)
    return f"\N{NO-BREAK SPACE}{shown}" if shown.startswith("_") else shown


# --------------------------------------------------------------------------- alternative texts


def _described(figure: Figure, words: str) -> Figure:
    figure.set_label(words)
    return figure


def _describe_course(daily: pd.DataFrame) -> str:
    if not len(daily):
        return "Balance course: no balances."
    latest = daily.sort_values("date").groupby(["asset", "profile_id"], observed=True).tail(1)
    totals = _floats(latest, "balance")["balance"].groupby(latest["asset"].astype(str)).sum()
    ends = ", ".join(f"{compact(total)} {asset}" for asset, total in totals.items())
    first, last = daily["date"].min(), daily["date"].max()
    return (
        f"Closing balances of {daily['profile_id'].nunique()} profiles from {first:%Y-%m-%d} to "
        f"{last:%Y-%m-%d}, at the end in all {ends}."
    )


def _describe_flows(net: pd.DataFrame) -> str:
    if not len(net):
        return "Inflow and outflow: none."
    sums = _floats(net, "inflow", "outflow").groupby(net["asset"].astype(str)).sum()
    each = "; ".join(
        f"{asset} in {compact(row.inflow)}, out {compact(row.outflow)}"
        for asset, row in sums.iterrows()
    )
    return f"Inflow and outflow over {net['period'].nunique()} periods: {each}."


def _describe_fees(charged: pd.DataFrame) -> str:
    if not len(charged):
        return "Fees by type: none."
    fees = _floats(charged, "fee")["fee"]
    sums = fees.groupby([charged["asset"].astype(str), charged["type"].astype(str)]).sum()
    each = ", ".join(
        f"{humanise(str(kind))} {compact(float(fee))} {asset}"
        for asset, kind, fee in sums.reset_index().to_numpy()
    )
    return f"Fees by type: {each}."
