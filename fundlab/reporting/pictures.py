"""Charts as inline SVG that takes its colours and letters from the page around it."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree

from markupsafe import Markup
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

_STAND_IN: Final = re.compile(r"#fe01([0-9a-f]{2})")
_NUMBER: Final = re.compile(r"-?\d+\.\d{2,}")
_LETTERS: Final = re.compile(r"(font: [^;\"']*?)'[^;\"]*")


def inline_svg(figure: Figure, name: str) -> Markup:
    """``figure``, drawn with :data:`PAGE_COLOURS`, as an ``<svg>`` element for an HTML page.

    ``name`` makes its ids unique in the page; the figure's label becomes the alternative text.
    Only attributes are changed: words drawn in the figure may look like anything.
    """
    drawn = ElementTree.fromstring(to_svg(figure))  # noqa: S314 - matplotlib's, no entities
    box = drawn.attrib["viewBox"]
    for parent in drawn.iter():
        parent.tag = _bare(parent.tag)
        parent.attrib = {
            _bare(key): _for_the_page(_bare(key), value, name)
            for key, value in parent.attrib.items()
        }
        for child in list(parent):
            if _bare(child.tag) in ("metadata", "style"):
                parent.remove(child)
    drawn.attrib = {
        "class": "chart", "role": "img", "aria-label": str(figure.get_label()), "viewBox": box,
    }  # fmt: skip
    for element in drawn.iter():
        if element.tag != "text":
            element.text = None if not (element.text or "").strip() else element.text
        element.tail = None if not (element.tail or "").strip() else element.tail
    return Markup(ElementTree.tostring(drawn, encoding="unicode"))  # noqa: S704 - escaped there


def _bare(name: str) -> str:
    """Without its namespace: within HTML neither ``svg`` nor ``xlink`` need one."""
    return name.rpartition("}")[2]


def _for_the_page(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return value.replace("#", f"#{name}-", 1)
    if key in ("d", "x", "y", "transform"):
        return _NUMBER.sub(lambda number: f"{float(number[0]):.1f}", value)
    value = value.replace("url(#", f"url(#{name}-")
    value = _STAND_IN.sub(lambda code: f"var(--{_NAMES[int(code[1], 16)]})", value)
    return _LETTERS.sub(r"\1var(--letters)", value)
