"""Colours and sizes of every chart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PANEL: Final = (360.0, 200.0)
"""Width and height of one panel in points; text is 10 points high at that size."""
MARGINS: Final = (50.0, 12.0, 30.0, 26.0)
"""Left, right, top and bottom of a panel, in points."""
TEXT: Final = 10.0


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


class PageTheme(Theme):
    """Colours that a page's style sheet names: a chart is then a ``Picture`` of
    :mod:`fundlab.charts.picture` instead of a figure, drawn without matplotlib."""


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
