"""A :class:`Report` as one self-contained HTML page, and the page on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from fundlab import charts
from fundlab.charts import humanise
from fundlab.reporting import tables
from fundlab.reporting.facts import Report
from fundlab.reporting.pictures import PAGE_COLOURS, SERIES_MARKS, inline_svg

MAX_CHARTS: Final = 12
_TEMPLATES: Final = Environment(
    loader=PackageLoader("fundlab.reporting", "."),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Gallery:
    """The charts of one section, one for each asset, and what their colours mean."""

    charts: tuple[Markup, ...]
    legend: tuple[tuple[str, str, str], ...]
    hidden: int


def render_html(report: Report) -> str:
    """The page: no script, nothing fetched, readable from 360 pixels up, on paper and in the dark.

    Long tables are cut and say so. The same report gives the same text.
    """
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    page = _TEMPLATES.get_template("report.html.j2").render(
        report=report,
        style=Markup(style),  # noqa: S704 - our own file
        course=_course(report),
        flows=_flows(report),
        fees=_fees(report),
        tables={
            "reconciliation": tables.reconciliation(report),
            "balances": tables.balances(report),
            "flows": tables.flows(report),
            "fees": tables.fees(report),
            "open_items": tables.open_items(report),
            "withdrawals": tables.withdrawals(report),
            "violations": tables.violations(report),
            "events": tables.events(report),
        },
        sources=report.sources,
    )
    return re.sub(r"\n{2,}", "\n", page)


def write(report: Report, path: str | os.PathLike[str]) -> Path:
    """Renders ``report`` to ``path``: under another name beside it first, then by one rename.

    Missing folders are made. Returns the path written.
    """
    target = Path(path)
    text = render_html(report)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def _course(report: Report) -> Gallery:
    names = charts.rank_profiles(report.daily)
    legend = tuple((SERIES_MARKS[place], f"s{place}", name) for place, name in enumerate(names))
    return _gallery(report.daily, charts.balance_course, "course", legend)


def _flows(report: Report) -> Gallery:
    legend = (("■", "inflow", "in"), ("■", "outflow", "out"), ("●", "ink", "net"))
    return _gallery(report.flows, charts.flow_bars, "flows", legend)


def _fees(report: Report) -> Gallery:
    frame = report.fees_over_time
    charged = frame[frame["fee"].astype("float64") != 0]
    types = charts.rank_types(charged)
    legend = tuple(("■", f"s{place}", humanise(kind)) for place, kind in enumerate(types))
    return _gallery(charged, charts.fees_by_type, "fees", legend)


def _gallery(
    frame: pd.DataFrame,
    draw: Callable[..., Figure],
    name: str,
    legend: tuple[tuple[str, str, str], ...],
) -> Gallery:
    """The busiest assets, in order of their names."""
    rows = frame["asset"].astype("str").value_counts(sort=False).sort_index()
    shown = sorted(rows.sort_values(ascending=False, kind="stable").index[:MAX_CHARTS])
    pictures = tuple(
        inline_svg(draw(frame, PAGE_COLOURS, asset=asset, legend=False), f"{name}{number}")
        for number, asset in enumerate(shown)
    )
    return Gallery(pictures, legend if pictures else (), len(rows) - len(shown))
