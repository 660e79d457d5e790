"""Charts as inline SVG that takes its colours and letters from the page around it."""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup, escape
from matplotlib.figure import Figure

from fundlab.charts import Theme, to_svg

SERIES_MARKS: Final = ("●", "■", "▲", "◆", "▼", "✚", "✖")
"""The marks that charts.balance_course puts at the end of each line."""

_NAMES: Final = (
    "card", "ink", "muted", "line", "inflow", "outflow", "bad",
    "s0", "s1", "s2", "s3", "s4", "s5", "s6",
)  # fmt: skip
_STAND_INS: Final = tuple(f"#fe01{number:02x}" for number in range(len(_NAMES)))
PAGE_COLOURS: Final = Theme(
    paper=_STAND_INS[0], ink=_STAND_INS[1], muted=_STAND_INS[2], grid=_STAND_INS[3],
    inflow=_STAND_INS[4], outflow=_STAND_INS[5], alarm=_STAND_INS[6], series=_STAND_INS[7:],
)  # fmt: skip
"""Stand-ins that :func:`inline_svg` turns into the page's CSS variables."""

_NUMBER = re.compile(r"-?\d+\.\d{2,}")


def inline_svg(figure: Figure, name: str) -> Markup:
    """``figure``, drawn with :data:`PAGE_COLOURS`, as an ``<svg>`` element for an HTML page.

    ``name`` makes its ids unique in the page; the figure's label becomes the alternative text.
    """
    svg = to_svg(figure)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]*)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\1{name}-", svg)
    svg = re.sub(r"#fe01([0-9a-f]{2})", lambda code: f"var(--{_NAMES[int(code[1], 16)]})", svg)
    svg = re.sub(r"(font: [^;\"']*?)'[^;\"]*", r"\1var(--letters)", svg)
    svg = re.sub(r' (?:d|x|y|transform)="[^"]*"', _rounded, svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    head = f'<svg class="chart" role="img" aria-label="{escape(figure.get_label())}" '
    view = re.search(r'viewBox="[^"]*"', svg)
    box = view[0] if view else ""
    body = svg[svg.index(">") + 1 :]
    return Markup(  # noqa: S704 - matplotlib escapes what it draws, the label is escaped above
        f'{head}{box} xmlns:xlink="http://www.w3.org/1999/xlink">{body}'
    )


def _rounded(attribute: re.Match[str]) -> str:
    return _NUMBER.sub(lambda number: f"{float(number[0]):.1f}", attribute[0])
