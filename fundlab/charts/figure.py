"""A chart as a matplotlib figure, neither pyplot nor the global settings touched."""

from __future__ import annotations

import re
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from datetime import UTC
from html import escape
from io import BytesIO, StringIO
from typing import Any, Final, cast

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter, MaxNLocator

import fundlab.charts.quiet_cache  # noqa: F401 - before matplotlib
from fundlab.charts.theme import DARK, LIGHT, TEXT, Theme, compact
from fundlab.display import SCROLL_STYLE

_SMALLEST: Final = 0.7
"""Of its width, below which a chart is not made smaller in a notebook: it scrolls, as its letters
could not be read."""
_CSS_PIXELS_PER_INCH: Final = 96
_LEGEND_GAPS: Final = 3.8 * (TEXT - 1.0)
"""A legend's handle and the gaps around it, beside a name, in points."""
_FONT: Final = FontProperties(family="DejaVu Sans")
_CODES: Final[Mapping[str, Any]] = {
    "M": Path.MOVETO, "L": Path.LINETO, "C": Path.CURVE4, "z": Path.CLOSEPOLY
}  # fmt: skip
_SETTINGS_LOCK: Final = threading.RLock()

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


@contextmanager
def own_settings() -> Iterator[None]:
    """Matplotlib as it is by default, whatever styles and settings a notebook has chosen."""
    ours: Any = ["default", {"svg.hashsalt": "fundlab", "svg.fonttype": "none"}]
    with _SETTINGS_LOCK, matplotlib.style.context(ours):
        yield


class PanelAxes(Axes):
    """Axes with what a :class:`fundlab.charts.picture.Panel` has besides."""

    def set_yticks(self, ticks: Any, labels: Any = None, **more: Any) -> Any:
        given = None if labels is None else [drawable(label) for label in labels]
        made = super().set_yticks(ticks, given, **more)
        for label in self.get_yticklabels():
            label.set_parse_math(False)
        return made

    def shape(self, codes: str, points: Any, color: str, alpha: float = 1.0) -> None:
        path = Path(points, [_CODES[code] for code in codes])
        self.add_patch(PathPatch(path, facecolor=color, alpha=alpha, linewidth=0))

    def hover(self, shape: tuple[Any, ...], words: str) -> None:
        """An image says nothing."""

    def hide_foot(self) -> None:
        self.spines["bottom"].set_visible(False)

    def date_axis(self, first: Any, last: Any) -> None:
        locator = AutoDateLocator(tz=UTC, minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
        formatter = ConciseDateFormatter(locator, tz=UTC, show_offset=False)  # type: ignore[no-untyped-call]
        formatter.zero_formats[1] = "%Y"
        self.xaxis.set_major_locator(locator)
        self.xaxis.set_major_formatter(formatter)
        air = (last - first) * 0.01
        self.set_xlim(first - air, last + air)

    def words(
        self, text: str, at: tuple[Any, Any], shift: tuple[float, float] = (0.0, 0.0),
        color: str = "", *, of_axes: bool = False, ha: str = "left", va: str = "baseline",
        size: float = TEXT, bold: bool = False, halo: str = "",
    ) -> None:  # fmt: skip
        """Text as it is: a ``$`` in somebody's name starts no formula, an unknown sign no
        warning."""
        box = {"boxstyle": "round,pad=0.15", "facecolor": halo, "alpha": 0.75, "linewidth": 0}
        self.annotate(
            drawable(text), at, shift, "axes fraction" if of_axes else "data", "offset points",
            color=color, ha=ha, va=va, fontsize=size, fontweight="bold" if bold else "normal",
            parse_math=False, annotation_clip=False, bbox=box if halo else None,
        )  # fmt: skip

    def scale(self, parts: Sequence[tuple[str, str, float]]) -> None:
        """Below the panel what its shades mean: words and squares in a colour and strength."""
        widths = [_width(text) + 4 for text, _, _ in parts]
        at = -sum(widths) / 2
        for (text, color, strength), width in zip(parts, widths, strict=True):
            self.annotate(
                text, (0.5, 0.0), (at, -36.0), "axes fraction", "offset points", va="baseline",
                color=color, alpha=strength, fontsize=TEXT - 1, parse_math=False,
                annotation_clip=False,
            )  # fmt: skip
            at += width


class Chart(Figure):
    """A figure that a notebook shows without pyplot, a point as large as a point on paper.

    Drawn in :data:`LIGHT` it is shown in :data:`DARK` by a notebook whose theme is dark.
    """

    @classmethod
    def blank(cls, width: float, height: float, theme: Theme) -> Chart:
        """``width`` by ``height`` points, without panels."""
        return cls(figsize=(width / 72, height / 72), dpi=144, facecolor=theme.paper)

    @property
    def size(self) -> tuple[float, float]:
        return self.get_figwidth() * 72, self.get_figheight() * 72

    def panel(self, box: tuple[float, float, float, float], theme: Theme) -> PanelAxes:
        """A panel whose ``box`` is left, top, width, height, in points."""
        left, top, across, down = box
        width, height = self.size
        place = left / width, 1 - (top + down) / height, across / width, down / height
        axes = cast("PanelAxes", self.add_axes(place, axes_class=PanelAxes))
        axes.set_facecolor(theme.paper)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(theme.grid)
        axes.grid(axis="y", color=theme.grid, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(colors=theme.muted, labelsize=TEXT - 0.5, length=0, pad=4)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
        return axes

    def legend_row(
        self, handles: Sequence[Mapping[str, Any]], names: Sequence[str], color: str
    ) -> None:
        lines = [Line2D([], [], **handle) for handle in handles]
        columns = legend_columns(names, self.size[0])
        legend = self.legend(
            lines, [drawable(name) for name in names], loc="lower center", ncols=columns,
            frameon=False, fontsize=TEXT - 1, labelcolor=color, handlelength=1.8,
            columnspacing=1.2, borderaxespad=0.2,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)

    def _repr_html_(self) -> str:
        width = round(self.get_figwidth() * _CSS_PIXELS_PER_INCH)
        # The dark theme's colours for a dark scheme, on the notebook's own paper.
        dark = "".join(f"--c{code[1:]}:{shown};" for code, shown in _COLOURS.items())
        rule = f"<style>@media (prefers-color-scheme: dark){{:root{{{dark}}}}}</style>"
        svg = _STYLE.sub(
            lambda style: _COLOUR.sub(r"var(--c\1, #\1)", style[0]), to_svg(self, transparent=True)
        )
        drawing = b64encode(svg.replace("<defs>", f"<defs>{rule}", 1).encode()).decode()
        least = round(width * _SMALLEST)
        return (
            f'<div class="fl-scroll"><style>{SCROLL_STYLE}{_FOLLOWING}</style>'
            f'<img class="fl-chart" width="{width}" style="min-width: {least}px" '
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


def legend_columns(names: Sequence[str], width: float) -> int:
    widths = [_width(drawable(name)) for name in names if name.strip()]
    fitting = int(width // (max(widths, default=0.0) + _LEGEND_GAPS))
    return max(1, min(fitting, len(names)))


def _width(text: str) -> float:
    return float(TextPath((0, 0), text, TEXT - 1, prop=_FONT).get_extents().width)


def drawable(words: str) -> str:
    """Signs the font lacks become a box; a leading underscore would hide a legend's entry."""
    font = get_font(findfont(_FONT))
    shown = "".join(sign if font.get_char_index(ord(sign)) else "▯" for sign in words)
    return f"\N{NO-BREAK SPACE}{shown}" if shown.startswith("_") else shown
