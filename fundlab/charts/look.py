"""What every chart shares: colours, panels, axes, letters, and the frames they take."""

from __future__ import annotations

import re
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC
from html import escape
from io import BytesIO, StringIO
from typing import Any, Final

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import Affine2D

from fundlab.base.errors import AnalysisError
from fundlab.display import SCROLL_STYLE

MAX_SERIES: Final = 6
PANEL: Final = (360.0, 200.0)
"""Width and height of one panel in points; text is 10 points high at that size."""

MARGINS: Final = (50.0, 12.0, 30.0, 26.0)
"""Left, right, top and bottom of a panel, in points."""
TEXT: Final = 10.0
MAX_STRIPS: Final = 62
"""How many days of a chart say what they are when the mouse is over them."""
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
SMALLEST: Final = 0.7
"""Of its width, below which a chart is not made smaller in a notebook: it scrolls, as its letters
could not be read."""
_CSS_PIXELS_PER_INCH: Final = 96
_LEGEND_ROW: Final = 22.0
_LEGEND_GAPS: Final = 3.8 * (TEXT - 1.0)
"""A legend's handle and the gaps around it, beside a name, in points."""
_FONT: Final = FontProperties(family="DejaVu Sans")
_OTHERS: Final = re.compile(r"[\d,]+ others")
_ACRONYMS: Final = frozenset({"CBIT", "CUBIX", "RTP", "SEN"})
_SETTINGS_LOCK: Final = threading.RLock()


@dataclass(frozen=True)
class Theme:
    """Colours of a figure. ``series`` is safe for colour-blind readers (after Okabe and Ito).

    >>> fl.charts.DARK.paper
    '#151b23'
    >>> figure = fl.charts.transfer_hours(transfers, fl.charts.DARK)
    """

    paper: str
    ink: str
    muted: str
    grid: str
    inflow: str
    outflow: str
    alarm: str
    series: tuple[str, ...]


LIGHT: Final = Theme(
    "#ffffff", "#1b2330", "#5b6675", "#e3e7ec", "#0067a5", "#c05a00", "#b01f2e",
    ("#0067a5", "#c05a00", "#00866a", "#a83279", "#7a6a00", "#4b4fa8", "#6b7280"),
)  # fmt: skip
DARK: Final = Theme(
    "#151b23", "#e8edf3", "#9aa6b5", "#2b3541", "#58b4ee", "#f0a04b", "#ff8f94",
    ("#58b4ee", "#f0a04b", "#3fc7a0", "#e58ac0", "#d9c64a", "#a3a8f5", "#9aa6b5"),
)  # fmt: skip


_COLOURS: Final[Mapping[str, str]] = dict(
    zip((*astuple(LIGHT)[:-1], *LIGHT.series), (*astuple(DARK)[:-1], *DARK.series), strict=True)
)
"""What each colour of the light theme is in the dark one."""
_COLOUR: Final = re.compile(r"#([0-9a-f]{6})")
_STYLE: Final = re.compile(r' style="[^"]*"')

_FOLLOWING: Final = """
.fl-chart { color-scheme: light; display: block; max-width: 100%; }
[data-jp-theme-light="false"] .fl-chart, .vscode-dark .fl-chart, .vscode-high-contrast .fl-chart,
[theme="dark"] .fl-chart, [data-theme="dark"] .fl-chart, body.dark .fl-chart { color-scheme: dark; }
@media (prefers-color-scheme: dark) { [data-theme="auto"] .fl-chart { color-scheme: dark; } }
"""
"""Dark where JupyterLab (and its HTML exports), VS Code, Colab, marimo or the documentation says
that it is: an image follows the scheme of the element that shows it, and where that has none, the
system's, in which a light notebook may be shown."""


Shape = Path | tuple[Any, ...]
"""A path, or left and right, top and bottom in the units of the axes."""
_SVG_CODES: Final = {int(Path.MOVETO): "M", int(Path.LINETO): "L", int(Path.CURVE4): "C",
                     int(Path.CLOSEPOLY): "z"}  # fmt: skip


@contextmanager
def own_settings() -> Iterator[None]:
    """Matplotlib as it is by default, whatever styles and settings a notebook has chosen."""
    ours: Any = ["default", {"svg.hashsalt": "fundlab", "svg.fonttype": "none"}]
    with _SETTINGS_LOCK, matplotlib.style.context(ours):
        yield


class Chart(Figure):
    """A figure that a notebook shows without pyplot, a point as large as a point on paper.

    Drawn in :data:`LIGHT` it is shown in :data:`DARK` by a notebook whose theme is dark.
    """

    hovers: tuple[tuple[Axes, Shape, str], ...] = ()

    def hover_paths(self) -> Iterator[tuple[str, str]]:
        """The shapes of :func:`hover` as SVG paths, in points, and their words."""
        height = self.get_figheight() * 72
        for axes, shape, text in self.hovers:
            if isinstance(shape, Path):
                path = shape
            else:
                axis: Any = axes.xaxis
                left, right = (float(axis.convert_units(side)) for side in shape[:2])
                top, bottom = shape[2:] or axes.get_ylim()
                corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
                path = Path(corners, closed=True)
            drawn = path.transformed(axes.transData + Affine2D().scale(72 / self.dpi))
            parts = []
            for points, code in drawn.iter_segments(simplify=False):
                parts.append(_SVG_CODES[int(code)])
                if code != Path.CLOSEPOLY:
                    pairs = np.asarray(points).reshape(-1, 2)
                    parts.append(" ".join(f"{x:.0f},{height - y:.0f}" for x, y in pairs))
            yield "".join(parts), text

    def _repr_html_(self) -> str:
        width = round(self.get_figwidth() * _CSS_PIXELS_PER_INCH)
        # The dark theme's colours for a dark scheme, on the notebook's own paper.
        dark = "".join(f"--c{code[1:]}:{shown};" for code, shown in _COLOURS.items())
        rule = f"<style>@media (prefers-color-scheme: dark){{:root{{{dark}}}}}</style>"
        svg = _STYLE.sub(
            lambda style: _COLOUR.sub(r"var(--c\1, #\1)", style[0]), to_svg(self, transparent=True)
        )
        drawing = b64encode(svg.replace("<defs>", f"<defs>{rule}", 1).encode()).decode()
        return (
            f'<div class="fl-scroll"><style>{SCROLL_STYLE}{_FOLLOWING}</style>'
            f'<img class="fl-chart" width="{width}" style="min-width: {round(width * SMALLEST)}px" '
            f'alt="{escape(str(self.get_label()))}" '
            f'src="data:image/svg+xml;base64,{drawing}"></div>'
        )

    def _mime_(self) -> tuple[str, str]:
        """For marimo, which draws other figures itself, on white."""
        return "text/html", self._repr_html_()

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        out = BytesIO()
        with own_settings():
            self.savefig(out, format="png")
        width = round(self.get_figwidth() * _CSS_PIXELS_PER_INCH)
        return out.getvalue(), {"width": width, "alt": self.get_label()}


def to_svg(figure: Figure, *, transparent: bool = False) -> str:
    """The figure as SVG text, the same bytes for the same figure; text stays text. On its own
    paper, or ``transparent``.

    >>> figure = fl.charts.transfer_hours(transfers)
    >>> fl.charts.to_svg(figure)[:5]
    '<?xml'
    """
    out = StringIO()
    with own_settings():
        metadata = {"Date": None, "Creator": None}
        figure.savefig(out, format="svg", metadata=metadata, transparent=transparent)
    return out.getvalue()


def hover(axes: Axes, shape: Shape, text: str) -> None:
    """A page that shows the figure says ``text`` over ``shape``; without top and bottom it is as
    high as the panel."""
    figure = axes.get_figure()
    if isinstance(figure, Chart):
        figure.hovers = (*figure.hovers, (axes, shape, text))


def spelled(value: float, *, signed: bool = False) -> str:
    """``1,234,567.89``, ``0.0123457``: for a hover, where there is room."""
    text = f"{value:,.2f}" if abs(value) >= 100 else f"{value:.6g}"
    plus = "+" if signed and value > 0 else ""
    return f"{plus}{text}".replace("-", "−")


def scale(axes: Axes, parts: Sequence[tuple[str, str, float]]) -> None:
    """Below the panel what its shades mean: words and squares in a colour and strength."""
    widths = [TextPath((0, 0), text, TEXT - 1, prop=_FONT).get_extents().width + 4
              for text, _, _ in parts]  # fmt: skip
    at = -sum(widths) / 2
    for (text, color, strength), width in zip(parts, widths, strict=True):
        axes.annotate(
            text, (0.5, 0.0), (at, -36.0), "axes fraction", "offset points", va="baseline",
            color=color, alpha=strength, fontsize=TEXT - 1, parse_math=False,
            annotation_clip=False,
        )  # fmt: skip
        at += width


def compact(value: float, *, signed: bool = False) -> str:
    """A short figure for axes and notes: ``1.2 M``, ``950 k``, ``0.005``.

    >>> fl.charts.compact(1_234_567), fl.charts.compact(950, signed=True)
    ('1.23 M', '+950')
    """
    plus = "+" if signed and value > 0 else ""
    size = abs(value)
    for limit, suffix in ((1e12, " T"), (1e9, " B"), (1e6, " M"), (1e3, " k")):
        if size >= limit * 0.9995:
            return f"{plus}{value / limit:.3g}{suffix}".replace("-", "−")
    if 1e-9 <= size < 1e-4:
        return f"{plus}{float(f'{value:.2g}'):.12f}".rstrip("0").replace("-", "−")
    if size != 0 and size < 1e-4:
        return f"{plus}{value:.1e}".replace("-", "−")
    return f"{plus}{value:.3g}".replace("-", "−")


def humanise(name: str) -> str:
    """``WIRE_DEPOSIT`` as ``Wire deposit``, ``RTP_DEPOSIT`` as ``RTP deposit``.

    >>> fl.charts.humanise("WIRE_DEPOSIT"), fl.charts.humanise("RTP_DEPOSIT")
    ('Wire deposit', 'RTP deposit')
    """
    if not name.isupper():
        return name
    words = [word if word in _ACRONYMS else word.lower() for word in name.split("_")]
    phrase = " ".join(words)
    return phrase[:1].upper() + phrase[1:]


def rank_profiles(daily: pd.DataFrame) -> list[str]:
    """The profiles drawn, sorted; beyond :data:`MAX_SERIES` the rest is one line, ``n others``.

    >>> fl.charts.rank_profiles(fl.balances.daily(transfers))
    ['main', 'spare']
    """
    return ranked(daily["profile_id"].astype(str))


def rank_types(summary: pd.DataFrame) -> list[str]:
    """The transfer types drawn, sorted; beyond :data:`MAX_SERIES` the rest is ``n others``.

    >>> fl.charts.rank_types(fl.fees.summary(transfers))
    ['INTERNAL_TRANSFER_CREDIT', 'INTERNAL_TRANSFER_DEBIT', 'WIRE_DEPOSIT',
    'WIRE_WITHDRAWAL']
    """
    return ranked(summary["type"].astype(str))


def ranked(column: pd.Series) -> list[str]:
    counts = column.value_counts(sort=False).sort_index()
    if len(counts) <= MAX_SERIES:
        names = [str(name) for name in counts.index]
        return sorted(names, key=lambda name: (_OTHERS.fullmatch(name) is not None, name))
    kept = counts.sort_values(ascending=False, kind="stable").index[: MAX_SERIES - 1]
    return [*sorted(map(str, kept)), f"{len(counts) - len(kept)} others"]


@dataclass(frozen=True)
class Layout:
    """A panel's size and its margins (left, right, top, bottom), in points."""

    size: tuple[float, float] = PANEL
    margins: tuple[float, float, float, float] = MARGINS
    columns: int = 2

    @property
    def box(self) -> tuple[float, float]:
        left, right, top, bottom = self.margins
        return self.size[0] - left - right, self.size[1] - top - bottom


def panels(
    by_asset: Mapping[str, Any],
    draw: Callable[[Axes, Any], None],
    theme: Theme,
    nothing: str,
    *,
    rows_below: int = 0,
    layout: Layout = Layout(),
    tall: Callable[[Any], float] | None = None,
) -> Figure:
    """One panel of fixed size for each asset, in columns, assets in order of their names. Where
    ``tall`` says how high the box of a panel is, a row is as high as its highest one."""
    assets = sorted(by_asset)
    count = max(len(assets), 1)
    columns = min(layout.columns, count)
    boxes = [layout.box[1] if tall is None else tall(by_asset[name]) for name in assets]
    boxes = boxes or [layout.box[1]]
    highest = [max(boxes[at : at + columns]) for at in range(0, count, columns)]
    over = layout.size[1] - layout.box[1]
    width = columns * layout.size[0]
    height = sum(highest) + len(highest) * over + rows_below * _LEGEND_ROW
    figure = Chart(figsize=(width / 72, height / 72), dpi=144, facecolor=theme.paper)
    for number in range(count):
        row, column = divmod(number, columns)
        x = column * layout.size[0] + layout.margins[0]
        y = height - sum(highest[:row]) - row * over - layout.margins[2] - boxes[number]
        size = layout.box[0] / width, boxes[number] / height
        axes = figure.add_axes((x / width, y / height, *size))
        style(axes, theme)
        if not assets:
            axes.set_axis_off()
            empty = write(axes, 0.5, 0.5, nothing, theme.muted, ha="center", size=12)
            empty.set_transform(figure.transFigure)
            continue
        title = _above(axes, 0.0, 6 - layout.margins[0], assets[number], theme.ink, "left")
        title.set_fontsize(TEXT + 1.5)
        title.set_fontweight("bold")
        draw(axes, by_asset[assets[number]])
    return figure


def style(axes: Axes, theme: Theme) -> None:
    axes.set_facecolor(theme.paper)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(theme.grid)
    axes.grid(axis="y", color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=theme.muted, labelsize=TEXT - 0.5, length=0, pad=4)
    money_axis(axes.yaxis)


def money_axis(axis: Any) -> None:
    axis.set_major_locator(MaxNLocator(4))
    axis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))


def date_axis(axes: Axes, first: Any, last: Any) -> None:
    locator = AutoDateLocator(tz=UTC, minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
    formatter = ConciseDateFormatter(locator, tz=UTC, show_offset=False)  # type: ignore[no-untyped-call]
    formatter.zero_formats[1] = "%Y"
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)
    air = (last - first) * 0.01
    axes.set_xlim(first - air, last + air)


def note(axes: Axes, text: str, theme: Theme) -> None:
    """What the panel comes to, above it on the right."""
    _above(axes, 1.0, 0.0, text, theme.muted, "right")


def _above(axes: Axes, x: float, shift: float, text: str, color: str, ha: str) -> Any:
    return axes.annotate(
        drawable(text), (x, 1.0), (shift, 13.0), "axes fraction", "offset points", color=color,
        ha=ha, va="baseline", fontsize=TEXT, parse_math=False, annotation_clip=False,
    )  # fmt: skip


def write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    color: str,
    *,
    ha: str = "left",
    va: str = "baseline",
    size: float = TEXT,
    of_axes: bool = False,
) -> Any:
    """Text as it is: a ``$`` in somebody's name starts no formula, an unknown sign no warning."""
    transform = axes.transAxes if of_axes else axes.transData
    return axes.text(
        x, y, drawable(text), color=color, ha=ha, va=va, fontsize=size, parse_math=False,
        transform=transform,
    )  # fmt: skip


def name_rows(axes: Axes, names: Sequence[str], theme: Theme) -> None:
    """Row labels left of a panel whose rows run down from 0."""
    axes.set_yticks(range(len(names)), [drawable(name) for name in names], color=theme.muted)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.set_ylim(len(names) - 0.4, -0.6)


def square(color: str) -> Line2D:
    return Line2D([], [], color=color, linestyle="none", marker="s", markersize=8)


def legend_rows(names: Sequence[str], panels: int) -> int:
    """How many rows :func:`legend_row` needs below so many panels."""
    width = PANEL[0] * min(max(panels, 1), Layout.columns)
    return -(-len(names) // _legend_columns(names, width))


def legend_row(figure: Figure, handles: list[Line2D], names: Sequence[str], theme: Theme) -> None:
    labels = [drawable(name) for name in names]
    columns = _legend_columns(names, figure.get_figwidth() * 72)
    legend = figure.legend(
        handles, labels, loc="lower center", ncols=columns, frameon=False,
        fontsize=TEXT - 1, labelcolor=theme.muted, handlelength=1.8, columnspacing=1.2,
        borderaxespad=0.2,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)


def _legend_columns(names: Sequence[str], width: float) -> int:
    widths = [TextPath((0, 0), drawable(name), TEXT - 1, prop=_FONT).get_extents().width
              for name in names if name.strip()]  # fmt: skip
    fitting = int(width // (max(widths, default=0.0) + _LEGEND_GAPS))
    return max(1, min(fitting, len(names)))


def need(frame: pd.DataFrame, *names: str) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        gaps = ", ".join(map(repr, missing))
        raise AnalysisError(f"the frame has no column {gaps}; needed are {', '.join(names)}")


def by_asset(frame: pd.DataFrame, asset: str | None = None) -> dict[str, pd.DataFrame]:
    """The rows of each asset, or only those of ``asset``."""
    groups = frame.groupby(frame["asset"].astype(str))
    return {str(name): rows for name, rows in groups if asset is None or name == asset}


def local(moments: pd.Series[Any], tz: str) -> pd.Series[Any]:
    """Moments as a clock in the zone ``tz`` shows them; those without a zone stand as they are."""
    zoned = moments if moments.dt.tz is None else moments.dt.tz_convert(tz).dt.tz_localize(None)
    shown: pd.Series[Any] = zoned
    return shown


def rows_of(frame: pd.DataFrame, asset: str | None) -> pd.DataFrame:
    return frame if asset is None else frame[frame["asset"].astype(str) == asset]


def floats(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    return pd.DataFrame({name: frame[name].astype("float64") for name in names}, frame.index)


def with_zero(values: Any) -> tuple[float, float]:
    """Limits that include zero and leave air above."""
    low = min(0.0, float(np.nanmin(values, initial=0.0)))
    high = max(0.0, float(np.nanmax(values, initial=0.0)))
    air = (high - low) * 0.08 or 1.0
    return (low - air if low < 0 else 0.0, high + air)


def drawable(words: str) -> str:
    """Signs the font lacks become a box; a leading underscore would hide a legend's entry."""
    font = get_font(findfont(_FONT))
    shown = "".join(sign if font.get_char_index(ord(sign)) else "▯" for sign in words)
    return f"\N{NO-BREAK SPACE}{shown}" if shown.startswith("_") else shown


def described(figure: Figure, words: str) -> Figure:
    figure.set_label(words)
    return figure
