"""A table of the report stands in one place; what a new one lacks is named here."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import openpyxl
import pandas as pd
import pytest

import fundlab as fl
from fundlab import reports
from fundlab.reports import page, report_files, sections
from fundlab.reports.facts import Report
from fundlab.reports.page_tables import number, text
from fundlab.reports.sections import SECTIONS, Columns, Section

TEMPLATE = Path(page.__file__).with_name("report.html.j2").read_text(encoding="utf-8")
PLACED = {*re.findall(r'\{\{ table\("(\w+)"\) \}\}', TEMPLATE)}
PARTS = {*re.findall(r"for name in parts\.(\w+) ", TEMPLATE)}
COLUMNS = {
    "ageing": "type asset age count total oldest",
    "anomalies": "rule transfer_id profile_id created_at expected found related_id",
    "assertions": "profile_id asset observed_at reported rebuilt difference complete",
    "balances": "profile_id asset opening inflow outflow closing held available",
    "by_profile": "asset 28968992-3e75-45cb-84f7-1777cf1ead4b 791c8f1d-5482-41d0-b515-66fbef21d92a "
    "8d0df1a2-a964-4283-b477-6aaf6c7cd2ed b3481fea-1560-43f4-80a4-8d12556bed80 closing opening "
    "change",
    "causes": "profile_id asset difference rank cause transfer_id amount detail",
    "course": "profile_id asset date balance",
    "daily_flows": "period asset inflow outflow net",
    "events": "type count",
    "exposure": "profile_id asset closing price price_from price_age closing_value",
    "fees": "type asset count amount fee bps bps_before drift",
    "fees_over_time": "type asset period count amount fee",
    "flows": "period asset inflow outflow net",
    "flux": "asset direction type driver before after difference explained transfers",
    "hours": "created_at count",
    "links": "stage asset source target amount",
    "movements": "asset step kind amount",
    "notable": "created_at type object id",
    "open_items": "id ref_id created_at type asset balance_asset amount fee total profile_id "
    "cleared_at age",
    "pairs": "group_id debit_id credit_id asset amount status",
    "recipients": "recipient type asset count amount fee last",
    "reconciliation": "profile_id asset rebuilt reported difference status proof proved_until "
    "since",
    "restatements": "period basis profile_id asset line type cause transfer_id then now difference",
    "roll_forward": "profile_id asset line type amount",
    "settlement": "type count p50 p90 p99 max",
    "transfers": "type asset status count amount",
    "violations": "transfer_id rule expected found",
    "worth": "period asset count priced inflow_value outflow_value fee_value",
    "withdrawals": "created_at type asset amount fee total status recipient ref_id profile_id id "
    "approved_by difference",
}
"""What the sections' frames of the sample hold, written by hand."""
ONLY_SHOWN = {"by_profile", "daily_flows", "hours"}
"""Sections that no file has."""
WRITTEN = len({*COLUMNS} - ONLY_SHOWN) + 1
"""CSV files of a report: its facts are one more."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return reports.report(fl.sample(), out=tmp_path_factory.mktemp("report"), formats=["csv"])


@pytest.mark.thorough
def test_an_older_price_is_taken_where_max_age_allows_it(
    fundlab: Any, tmp_path: Path, built: Report
) -> None:
    assert (built.exposure["closing_value"].isna().sum(), len(built.exposure)) == (4, 40)
    asked = ("--max-age", "30D", "--store", fl.sample().path)
    assert fundlab("report", *asked, "--out", tmp_path, "--format", "html")[0] == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    (told,) = {*re.findall(r"Closing balances in USD: ([\d,.]+) for 40 of 40", page)}
    assert "--max-age 30D" in page  # in what gives the same figures again
    line = fundlab("balances", "--in", "USD", *asked)[1].splitlines()[-1]
    at, transfers = "2026-11-02T09:00:00Z", fl.sample().read("transfers")
    views: tuple[Literal["ledger", "available"], ...] = ("ledger", "available")
    held = {view: fl.balances.at(transfers, at, view=view) for view in views}
    dollars = {
        view: fl.value.of(rows, prices=fl.sample(), at=at, max_age="30D")
        for view, rows in held.items()
    }
    total, free = (fl.show(fl.value.totals(dollars[v], by=())).rows[0][-1].text for v in views)
    assert (total, free) == (told, line.split(" priced: ")[1].split()[0])


@pytest.mark.thorough
def test_what_changed_is_said_in_words() -> None:
    found = fl.report(fl.sample(), "2026-10")
    view = next(one for one in SECTIONS if one.name == "flux").table(found)
    place = [name for name, _ in view.columns].index("Driver")
    assert {row[place].text for row in view.rows} == {"how many", "which types", "how large"}
    assert {*found.flux["driver"]} == {"count", "mix", "average"}  # the codes of fl.flux.explain
    assert "In: how many" in page.render_html(found)  # of the chart beside it


def lacks(section: Section, report: Report) -> Iterator[str]:
    """What is missing of a section, in words."""
    frame = report.frames[section.name]
    if [*frame.columns] != COLUMNS.get(section.name, "").split():
        yield f"COLUMNS of this test does not say what {section.name} holds: {[*frame.columns]}"
    if not {*section.totals} <= {*frame.columns, "restated"}:
        yield f"totals: the frame has no {section.totals}"
    if f"``{section.name}``" not in (Report.__doc__ or ""):
        yield f"the docstring of Report does not describe ``{section.name}``"
    if section.columns is None:
        return
    if not section.caption:
        yield "caption: a table of the page needs one"
    if section.name not in PLACED and section.part not in PARTS:
        yield f"part: none of {sorted(PARTS)}"
    if section.part and not section.empty:
        yield "empty: what the page says where there is no row"
    shown = frame if section.rows is None else section.rows(report)
    absent = {name for *_, name in section.columns(Columns(report))} - {*shown.columns}
    if absent:
        yield f"columns: its frame has no {sorted(absent)}"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_a_section_lacks_nothing(section: Section, built: Report) -> None:
    missing = [*lacks(section, built)]
    assert not missing, "; ".join(missing)


@pytest.mark.seconds
def test_the_summary_says_what_the_balances_say_and_what_needs_a_person(tmp_path: Path) -> None:
    found = reports.report(fl.sample(), "2026-10", out=tmp_path, formats=["html"])
    for row in found.by_profile.to_dict("records"):
        mine = found.balances[found.balances["asset"] == row["asset"]].set_index("profile_id")
        assert {name: row[name] for name in mine.index} == mine["closing"].to_dict()
        assert row["closing"] == mine["closing"].sum()
        assert row["change"] == mine["inflow"].sum() - mine["outflow"].sum()
    assert len(found.by_profile) == 10
    assert found.needs_a_person == [("8 events of note", "events")]
    text = found.files[0].read_text(encoding="utf-8")
    start = text.index('id="summary"')
    summary = text[start : text.index("<nav", start)]
    named = re.compile(r"(?:Treasury|Operations|Payouts|Reserve)\b")
    head, legend = (
        named.findall(re.sub("<[^>]*>", " ", part.partition(end)[0])) for part, end in (
            (summary[summary.index("<thead") :], "</thead>"),
            (text[text.index('<ul class="legend"') :], "</ul>"),
        )
    )  # fmt: skip
    assert head == legend == ["Operations", "Payouts", "Treasury", "Reserve"]
    for name in ("Treasury", "Operations", "Payouts", "Reserve", "36,097,293.31", "2,213,370.35"):
        assert name in summary
    assert '<a href="#events">8 events of note</a>' in summary
    assert "CSV files beside" not in text  # there are none
    assert "fundlab report 2026-10 --format csv writes them all" in text
    assert "4 pending now" in text
    assert "pending at 2026-10-31 23:59 UTC; the oldest then 1 d 13 h" in text


@pytest.mark.seconds
def test_the_workbook_prints_on_fifteen_pages(tmp_path: Path) -> None:
    found = reports.report(fl.sample(), "2026-10", out=tmp_path, formats=["xlsx"])
    book = openpyxl.load_workbook(found.files[0])
    printed = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    assert len(printed) <= 15
    for sheet in printed[:-1]:  # a page each; the last are notes
        assert sheet.sheet_properties.pageSetUpPr.fitToPage
        assert (sheet.page_setup.fitToWidth or 1, sheet.page_setup.fitToHeight) in (
            (1, None),
            (1, 1),
        )
        assert sheet.print_area is not None
    assert printed[-1].title == "Notes"
    assert printed[-1].max_row < 40
    long = book["Roll-forward"]
    assert long.max_row > 200  # all of it is there, the first 60 lines on paper
    assert long.print_area.endswith("$64")
    assert "The first 60 of 222 lines are printed" in long["A2"].value


def test_what_a_section_lacks_is_named(built: Report) -> None:
    frames = {**built.frames, "bare": pd.DataFrame({"asset": ["USD"]})}
    report = Report(**{**vars(built), "frames": frames})
    bare = Section("bare", lambda made: made.balances, columns=lambda _: [("Id", text, "id")],
                   totals=("amount",), part="nowhere")  # fmt: skip
    assert [words.partition(":")[0] for words in lacks(bare, report)] == [
        "COLUMNS of this test does not say what bare holds",
        "totals", "the docstring of Report does not describe ``bare``", "caption", "part",
        "empty", "columns",
    ]  # fmt: skip


@pytest.mark.seconds
def test_a_section_that_is_added_is_on_the_page_in_the_workbook_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def days(made: sections.Material) -> pd.DataFrame:
        return pd.DataFrame({"asset": ["USD"], "days": [made.span.end // sections.DAY]})

    added = Section(
        "long_ago", days, "Long ago", "counted from 1970", caption="Days since 1970",
        columns=lambda c: [c.asset, ("#Days", number, "days")], empty="None.", part="checks",
    )  # fmt: skip
    building = sys.modules[reports.build.__module__]  # of which the package shows the function
    for module in (building, page, report_files, sections):
        monkeypatch.setattr(module, "SECTIONS", (*SECTIONS, added))
    monkeypatch.setattr(page, "EMPTY", {**sections.EMPTY, "long_ago": "None."})
    monkeypatch.setattr(page, "galleries", lambda *_: defaultdict(lambda: page.Gallery(())))
    found = reports.report(fl.sample(), "2026-10", out=tmp_path)
    assert found.long_ago["days"].tolist() == [20_758]  # to the end of October 2026
    text = found.files[0].read_text(encoding="utf-8")
    assert re.search(r'id="rows-long_ago">.*Days since 1970.*20,758', text, re.DOTALL)
    assert text.index("rows-pairs") < text.index("rows-long_ago") < text.index('id="events"')
    book = openpyxl.load_workbook(found.files[1])
    assert "Long ago" in book.sheetnames
    rows = (tmp_path / "report-2026-10.long-ago.csv").read_text(encoding="utf-8")
    assert rows.splitlines()[1] == '"USD","20758"'
