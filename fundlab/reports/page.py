"""A :class:`Report` as one self-contained HTML page, its charts as inline SVG that takes its
colours and letters from the page."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fundlab import charts
from fundlab.base.progress import progress_bar
from fundlab.charts import humanise
from fundlab.charts.look import pictures
from fundlab.charts.theme import PageTheme
from fundlab.evidence.verdict import KEYS
from fundlab.exports import replacing
from fundlab.reports.facts import Report
from fundlab.reports.figures import flux_steps
from fundlab.reports.sections import EMPTY, SECTIONS, page_tables

MAX_CHARTS: Final = 12
MAX_FALLS: Final = 6
MAX_WIDE_CHARTS: Final = 4
SERIES_MARKS: Final = ("●", "■", "▲", "◆", "▼", "✚", "✖")
"""The marks that charts.balance_course puts at the end of each line."""

HERE: Final = Path(__file__).parent
TEMPLATES: Final = Environment(
    loader=PackageLoader("fundlab.reports", "."),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
PAGE_COLOURS: Final = PageTheme(
    "var(--card)", "var(--ink)", "var(--muted)", "var(--line)", "var(--inflow)", "var(--outflow)",
    "var(--bad)", tuple(f"var(--s{place})" for place in range(7)),
)  # fmt: skip
"""The page's CSS variables."""

Legend = tuple[tuple[str, str, str, str], ...]
"""Mark, colour, words, and what they stand for in full."""


@dataclass(frozen=True)
class Gallery:
    """The charts of one section, most one for each asset, and what their marks and colours mean.
    ``assets`` is how many there are to draw."""

    charts: tuple[Markup, ...]
    legend: Legend = ()
    assets: int = 0


def render_html(report: Report) -> str:
    """The page: nothing is fetched, one script of ours sorts tables, readable from 360 pixels up,
    on paper and in the dark.

    Long tables are cut and say so. The same report gives the same text.
    """
    script = (HERE / "sort.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    with progress_bar(unit="charts", desc="drawing the report") as bar:
        pictures = galleries(report, bar.update)
    parts: dict[str, list[str]] = defaultdict(list)
    for section in SECTIONS:
        parts[section.part].append(section.name)
    page = TEMPLATES.get_template("report.html.j2").render(
        report=report,
        style=Markup((HERE / "style.css").read_text(encoding="utf-8")),  # noqa: S704 - our own
        script=Markup(script),  # noqa: S704 - our own
        script_hash=digest,
        pictures=pictures,
        tables=page_tables(report),
        empty=EMPTY,
        parts=parts,
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


def galleries(report: Report, drawn: Callable[[], object] = bool) -> Mapping[str, Gallery]:
    """The charts of each section, in the order of ``report.busiest``, so in the same in each; where
    not every asset is drawn, those are. ``drawn`` is called after each."""
    busiest = report.busiest

    def picture(made: Any) -> Markup:
        drawn()
        return Markup(made.svg())  # noqa: S704 - escaped there

    def each(
        frame: Any,
        draw: Callable[..., object],
        marks: Legend = (),
        most: int = MAX_CHARTS,
        **given: Any,
    ) -> Gallery:
        there = sorted({str(asset) for asset in frame["asset"]})
        busy = [asset for asset in busiest if asset in there]
        shown = [*busy, *(asset for asset in there if asset not in busy)][:most]
        drawn_ones = tuple(map(picture, pictures(draw, frame, PAGE_COLOURS, shown, **given)))
        return Gallery(drawn_ones, marks if drawn_ones else (), len(there))

    def one(frame: Any, draw: Callable[..., object], **given: Any) -> Gallery:
        if frame.empty:
            return Gallery(())
        return Gallery((picture(draw(frame, PAGE_COLOURS, **given)),))

    observed = report.assertions
    if report.verdict.since is not None:  # each opening was taken over from the first of them
        observed = observed[observed.groupby(KEYS)["observed_at"].rank(method="first") > 1]
    observed = observed[observed["observed_at"] < report.end]
    if report.first is not None:
        observed = observed[observed["observed_at"] >= report.first]
    profiles: Legend = tuple(
        (SERIES_MARKS[place], f"s{place}", report.labels.get(name, name), name)
        for place, name in enumerate(charts.rank_profiles(report.course))
    )
    if len(observed):
        profiles += (("○", "ink", "observed, agrees", ""), ("✕", "bad", "observed, differs", ""))
    charged = report.fees_over_time[report.fees_over_time["fee"].astype("float64") != 0]
    types: Legend = tuple(
        ("■", f"s{place}", humanise(kind), "")
        for place, kind in enumerate(charts.rank_types(charged))
    )
    return {
        "course": each(
            report.course, charts.balance_course, profiles,
            assertions=observed, tz=report.tz, legend=False, names=report.labels,
        ),
        "waterfall": each(report.movements, charts.waterfall, most=MAX_FALLS),
        "flux": each(
            flux_steps(report.flux, report.flows), charts.waterfall, most=MAX_FALLS,
            words=f"Net flow, {report.before or 'before'} and now",
        ),
        "flows": each(
            report.flows, charts.flow_bars,
            (("■", "inflow", "in", ""), ("■", "outflow", "out", ""), ("●", "ink", "net", "")),
            tz=report.tz, legend=False,
        ),
        "calendar": each(
            report.daily_flows, charts.flows_calendar,
            (("■", "inflow", "more in", ""), ("■", "outflow", "more out", "")),
            MAX_WIDE_CHARTS, tz=report.tz, legend=False,
        ),
        "links": each(
            report.links, charts.flow_diagram, most=MAX_WIDE_CHARTS,
            order=[label for _, _, label, _ in profiles],
        ),
        "fees": each(charged, charts.fees_by_type, types, tz=report.tz, legend=False),
        "timing": Gallery(
            one(report.hours, charts.transfer_hours, tz=report.tz).charts
            + one(report.settlement, charts.settlement_times).charts
        ),
    }  # fmt: skip
