"""A :class:`Report` as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from fundlab import charts
from fundlab.charts import humanise
from fundlab.exports import replacing
from fundlab.reporting import tables
from fundlab.reporting.facts import Report
from fundlab.reporting.pictures import PAGE_COLOURS, SERIES_MARKS, inline_svg

MAX_CHARTS: Final = 12
MAX_FALLS: Final = 6
MAX_WIDE_CHARTS: Final = 4
_HERE: Final = Path(__file__).parent
_TEMPLATES: Final = Environment(
    loader=PackageLoader("fundlab.reporting", "."),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
Legend = tuple[tuple[str, str, str], ...]
_IN_AND_OUT: Final = (("■", "inflow", "more in"), ("■", "outflow", "more out"))


@dataclass(frozen=True)
class Gallery:
    """The charts of one section, most one for each asset, and what their colours mean."""

    charts: tuple[Markup, ...]
    legend: Legend = ()
    hidden: int = 0


def render_html(report: Report) -> str:
    """The page: nothing is fetched, one script of ours sorts tables, readable from 360 pixels up,
    on paper and in the dark.

    Long tables are cut and say so. The same report gives the same text.
    """
    script = (_HERE / "sort.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = _TEMPLATES.get_template("report.html.j2").render(
        report=report,
        style=Markup((_HERE / "style.css").read_text(encoding="utf-8")),  # noqa: S704 - our own
        script=Markup(script),  # noqa: S704 - our own
        script_hash=digest,
        pictures=_pictures(report),
        tables={name: view(report) for name, view in tables.VIEWS.items()},
        sources=report.sources,
    )
    return re.sub(r"\n{2,}", "\n", page)


def write(report: Report, path: str | Path) -> Path:
    """Renders ``report`` to ``path``, under another name first. Returns the path written."""
    target = Path(path)
    text = render_html(report)
    with replacing(target) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return target


def _pictures(report: Report) -> Mapping[str, Gallery]:
    draw = _Galleries(_busiest_first(report.fees))
    return {
        "course": _course(report, draw),
        "waterfall": draw.by_asset(report.movements, charts.waterfall, "fall", most=MAX_FALLS),
        "flows": draw.by_asset(
            report.flows, charts.flow_bars, "flows",
            (("■", "inflow", "in"), ("■", "outflow", "out"), ("●", "ink", "net")), tz=report.tz,
            legend=False,
        ),
        "calendar": draw.by_asset(
            report.daily_flows, charts.flows_calendar, "days", _IN_AND_OUT,
            most=MAX_WIDE_CHARTS, tz=report.tz, legend=False,
        ),
        "links": draw.by_asset(report.links, charts.flow_diagram, "links", most=MAX_WIDE_CHARTS),
        "fees": _fees(report, draw),
        "settlement": _one(report.settlement, charts.settlement_times, "settled"),
        "hours": _one(report.hours, charts.transfer_hours, "hours", tz=report.tz),
    }  # fmt: skip


def _busiest_first(fees: pd.DataFrame) -> list[str]:
    """The assets by their completed transfers, ties by name."""
    counts = fees.groupby("asset", observed=True)["count"].sum().sort_index()
    return [str(asset) for asset in counts.sort_values(ascending=False, kind="stable").index]


@dataclass(frozen=True)
class _Galleries:
    """Charts by asset: the busiest, the same for every gallery, in order of their names."""

    busiest: Sequence[str]

    def by_asset(
        self,
        frame: pd.DataFrame,
        draw: Callable[..., Figure],
        name: str,
        words: Legend = (),
        *,
        most: int = MAX_CHARTS,
        **given: Any,
    ) -> Gallery:
        there = sorted({str(asset) for asset in frame["asset"]})
        busy = [asset for asset in self.busiest if asset in there]
        shown = sorted([*busy, *(asset for asset in there if asset not in busy)][:most])
        pictures = tuple(
            inline_svg(draw(frame, PAGE_COLOURS, asset=asset, **given), f"{name}{number}")
            for number, asset in enumerate(shown)
        )
        return Gallery(pictures, words if pictures else (), len(there) - len(shown))


def _course(report: Report, draw: _Galleries) -> Gallery:
    names = charts.rank_profiles(report.course)
    legend: Legend = tuple(
        (SERIES_MARKS[place], f"s{place}", name) for place, name in enumerate(names)
    )
    inside = report.assertions["observed_at"] < report.end
    if report.first is not None:
        inside &= report.assertions["observed_at"] >= report.first
    observed = report.assertions[inside]
    if len(observed):
        legend += (("○", "ink", "observed, agrees"), ("✕", "bad", "observed, differs"))
    return draw.by_asset(
        report.course, charts.balance_course, "course", legend,
        assertions=observed, tz=report.tz, legend=False,
    )  # fmt: skip


def _fees(report: Report, draw: _Galleries) -> Gallery:
    frame = report.fees_over_time
    charged = frame[frame["fee"].astype("float64") != 0]
    types = charts.rank_types(charged)
    legend = tuple(("■", f"s{place}", humanise(kind)) for place, kind in enumerate(types))
    return draw.by_asset(charged, charts.fees_by_type, "fees", legend, tz=report.tz, legend=False)


def _one(frame: pd.DataFrame, draw: Callable[..., Figure], name: str, **given: Any) -> Gallery:
    if frame.empty:
        return Gallery(())
    return Gallery((inline_svg(draw(frame, PAGE_COLOURS, **given), name),))
