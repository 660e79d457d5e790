from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import pyarrow as pa
import pytest

from fundlab import reports
from fundlab.base.errors import AnalysisError, InvalidRequest, OutputError
from fundlab.charts.look import pictures
from fundlab.exports import Sheet
from fundlab.reports.inputs import relation
from fundlab.reports.job import CaughtUp
from fundlab.reports.page import Gallery
from fundlab.reports.report_files import for_workbook, sheets
from fundlab.reports.sections import page_tables

D = Decimal
AS_OF = "2026-03-01T00:00:00Z"


def transfers(*rows: dict[str, Any]) -> pd.DataFrame:
    usual = {
        "ref_id": None, "profile_id": "11111111-aaaa-4aaa-8aaa-000000000001", "asset": "USD",
        "balance_asset": None, "direction": "CREDIT", "type": "WIRE_DEPOSIT",
        "status": "COMPLETED", "amount": "0", "fee": "0", "created_at": "2026-01-05T10:00Z",
        "fiat_account_id": None, "destination_address": None,
    }  # fmt: skip
    frame = pd.DataFrame([{**usual, "id": f"t{n}", **row} for n, row in enumerate(rows)])
    if frame.empty:
        frame = pd.DataFrame(columns=["id", *usual])
    for name in ("amount", "fee"):
        frame[name] = pd.array(frame[name].tolist(), dtype="decimal")
    frame["total"] = frame["amount"] + frame["fee"]
    frame["created_at"] = pd.to_datetime(frame["created_at"], utc=True, format="ISO8601").astype(
        "datetime64[ns, UTC]"
    )
    return frame.assign(updated_at=frame["created_at"])


def reported(*rows: tuple[str, str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["profile_id", "asset", "available"])
    frame["available"] = pd.array(frame["available"].tolist(), dtype="decimal")
    frame["trading"] = pd.array(["0"] * len(frame), dtype="decimal")
    return frame.assign(observed_at=pd.Timestamp(AS_OF))


PROFILE = "11111111-aaaa-4aaa-8aaa-000000000001"
WITHDRAWAL = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}
TRANSFERS = transfers(
    {"amount": "1234567.89"},
    {"amount": "1000", "fee": "25", **WITHDRAWAL, "fiat_account_id": "f" * 36, "ref_id": "rent"},
    {"amount": "10", **WITHDRAWAL, "status": "PENDING", "created_at": "2026-02-26T21:00Z"},
    {"amount": "0.000000000000000001", "asset": "ETH", "type": "CRYPTO_DEPOSIT"},
)
REPORTED = reported((PROFILE, "USD", "1233532.89"), (PROFILE, "ETH", "0.000000000000000001"))


def build(rows: pd.DataFrame = TRANSFERS, seen: pd.DataFrame = REPORTED, **given: Any) -> Any:
    facts = {"title": "Report", "as_of": AS_OF, **given}
    return reports.build(rows, seen, **facts)


@cache
def usual() -> Any:
    return build()


@cache
def usual_page() -> str:
    return reports.render_html(usual())


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages come without charts, in a tenth of the time."""
    monkeypatch.setattr(
        "fundlab.reports.page.galleries", lambda *given: defaultdict(lambda: Gallery(()))
    )


class Page(HTMLParser):
    """Elements, attributes and the text of each table cell."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.cells: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag in ("td", "th", "dd"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data.strip()


def test_the_verdict_comes_first() -> None:
    built = usual()
    assert built.verdict.headline == "Reconciled: 0 breaks"
    assert built.verdict.detail.startswith("All 2 balances rebuilt from 4 transfers equal")
    html = usual_page()
    assert html.index("Reconciled: 0 breaks") < html.index('id="balances"')


def test_each_headline_figure_leads_to_the_rows_it_is_made_of() -> None:
    html = usual_page()
    leads = re.findall(r'<dd class="value"><a href="#rows-(\w+)">', html)
    assert leads == ["reconciliation", "transfers", "open_items", "fees", "violations"]
    assert {f"rows-{lead}" for lead in leads} <= set(Page(html).ids)


@pytest.mark.seconds
def test_a_name_stands_for_an_id_on_the_page_with_the_id_on_hover() -> None:
    names = {PROFILE: "Treasury <USD>", "f" * 36: "Landlord"}
    built = build(names=names)
    assert built.labels[PROFILE] == "Treasury <USD>"
    assert {"Treasury <USD>"} <= {*built.links["source"], *built.links["target"]}
    html = reports.render_html(built)
    assert html.count(f'title="{PROFILE}">Treasury &lt;USD&gt;<') >= 3
    assert "1111…0001" not in html
    assert "Landlord · ffff…ffff" in html


@pytest.mark.seconds
def test_only_a_long_table_scrolls_by_itself(undrawn: None) -> None:
    waiting = [{"amount": "1", "status": "PENDING"}] * 60
    html = reports.render_html(build(transfers(*waiting)))
    boxes = re.findall(r'<div class="(scroll[^"]*)".*?<tbody>(.*?)</tbody>', html, re.DOTALL)
    rows = {(box, body.count("<tr>") > 50) for box, body in boxes}
    assert rows == {("scroll", False), ("scroll long", True)}


def test_a_report_shows_its_verdict_and_key_figures() -> None:
    lines = repr(usual()).splitlines()
    assert lines[:2] == ["Report", "Reconciled: 0 breaks"]
    assert lines[-5].split() == ["Balances", "proved", "2", "of", "2",
                                 "1", "profile,", "2", "assets"]  # fmt: skip
    assert max(map(len, lines)) <= 88


@pytest.mark.thorough
def test_transfers_dated_later_than_the_report_are_counted_apart() -> None:
    at = TRANSFERS["created_at"].sort_values().iloc[-2]
    _, figure, *_ = build(as_of=at.isoformat()).key_figures
    assert figure.value == f"{len(TRANSFERS) - 1:,}"
    assert figure.note.endswith("; 1 dated later than this report left out")


@pytest.mark.thorough
def test_breaks_are_counted_summed_and_shown_first(undrawn: None) -> None:
    seen = reported((PROFILE, "USD", "1233532.88"), (PROFILE, "ETH", "0.000000000000000001"),
                    ("p9", "BTC", "2"))  # fmt: skip
    built = build(seen=seen)
    assert (built.verdict.breaks, built.verdict.balances, built.tone) == (2, 3, "bad")
    assert "add up to 2.00 BTC, 0.01 USD." in built.verdict.detail
    assert built.breaks["status"].tolist() == ["break", "only_reported"]
    html = reports.render_html(built)
    section = html[html.index('id="reconciliation"') :]
    assert section.index("✗ not rebuilt") < section.index("✗ break") < section.index("✓ match")


@pytest.mark.seconds
def test_a_break_of_an_asset_at_rest_is_written_as_a_workbook(tmp_path: Path) -> None:
    built = build(seen=reported(("p9", "BTC", "2")), period="2020-01")
    assert built.busiest[0] == "BTC"
    assert reports.write_report(built, tmp_path, ["xlsx"]).files[0].stat().st_size > 0


def opened(*rows: tuple[str, str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["profile_id", "asset", "balance"])
    return frame.assign(balance=pd.array(frame["balance"].tolist(), dtype="decimal"))


@pytest.mark.thorough
@pytest.mark.parametrize("period", [None, "2026-02"])
def test_an_opening_balance_that_never_moves_is_drawn(period: str | None) -> None:
    opening = opened(("idle", "USD", "5000"), ("idle", "BTC", "0"), (PROFILE, "EUR", "7"))
    course = build(opening=opening, period=period).course
    ends = course.groupby(["profile_id", "asset"]).tail(1)
    assert set(zip(ends["profile_id"], ends["asset"], ends["balance"], strict=True)) == {
        ("idle", "USD", D(5000)),
        (PROFILE, "EUR", D(7)),
        (PROFILE, "USD", D("1233542.89")),
        (PROFILE, "ETH", D("1E-18")),
    }
    assert set(ends["date"]) == {course["date"].max()}
    days = course.groupby(["profile_id", "asset"])["date"]
    assert days.min().nunique() == 1
    assert course.dtypes.astype(str).to_dict() == usual().course.dtypes.astype(str).to_dict()


@pytest.mark.thorough
def test_opening_balances_alone_make_a_course() -> None:
    course = build(transfers(), seen=None, opening=opened(("idle", "USD", "5"))).course
    assert course[["profile_id", "asset", "balance"]].to_numpy().tolist() == [["idle", "USD", D(5)]]


@pytest.mark.thorough
def test_outside_text_paints_no_terminal() -> None:
    hostile = "USD\x1b[2J\nReconciled: 0 breaks"
    rows, seen = transfers({"amount": "5", "asset": hostile}), reported((PROFILE, hostile, "6"))
    built = build(rows, seen, title="Re\x1b[31mport")
    verdict_ = replace(built.verdict, headline="odd\r")
    told = [replace(built, files=(Path("a\x1b.html"),)).text, repr(built)]
    told.append(CaughtUp((), verdict_, 0).text)
    for text in told:
        assert all(line.isprintable() for line in text.splitlines())
        assert "Reconciled: 0 breaks" not in text.splitlines()
    assert len(told[0].splitlines()) == 2


def test_amounts_show_every_digit() -> None:
    cells = Page(usual_page()).cells
    assert "1,233,542.89" in cells
    assert "1,233,532.89" in cells
    assert cells.count("0.000000000000000001") >= 4
    assert "10.00" in cells


@pytest.mark.thorough
def test_open_items_have_their_age() -> None:
    built = usual()
    assert built.open_items["id"].tolist() == ["t2"]
    assert built.open_items["age"].tolist() == [pd.Timedelta("2 days 3 hours")]
    assert "2 d 3 h" in Page(usual_page()).cells


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("as_of", "lines"),
    [
        ("2026-03-02T06:30:00Z", []),
        (
            "2026-04-01T06:30:00Z",
            ["1 transfer pending now for more than 3 days"],
        ),
    ],
)
def test_what_was_young_when_the_month_ended_and_waits_now_needs_a_person(
    as_of: str, lines: list[str]
) -> None:
    waits = {"amount": "1", **WITHDRAWAL, "status": "PENDING", "created_at": "2026-02-28T00:00Z"}
    rows = transfers(waits, waits | {"status": "COMPLETED"})
    settled = pd.Series([None, "2026-03-02T05:00:00Z"], dtype="datetime64[ns, UTC]")
    rows = rows.assign(settled_at=settled)
    built = build(rows, reported(), period="2026-02", basis="settled", as_of=as_of)
    assert len(built.open_items) == 2
    said = [line for line, place in built.needs_a_person if place == "open"]
    assert said == lines


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("known_to", "lines"),
    [
        ("2026-03-01T00:00:00Z", []),
        ("2026-03-04T00:00:00Z", ["1 transfer pending at 2026-03-04 00:00 UTC, the last time known,"
                                  " for more than 3 days"]),
        ("2026-04-01T06:30:00Z", ["1 transfer pending now for more than 3 days"]),
    ],
)  # fmt: skip
def test_what_waits_is_of_the_time_until_which_transfers_are_known(
    known_to: str, lines: list[str]
) -> None:
    """Made on 28 February; another table was synced on 1 April."""
    waits = {"amount": "1", **WITHDRAWAL, "status": "PENDING", "created_at": "2026-02-28T00:00Z"}
    rows = transfers(waits).assign(settled_at=pd.Series([pd.NaT], dtype="datetime64[ns, UTC]"))
    given: dict[str, Any] = {"as_of": "2026-04-01T06:30:00Z", "known_to": known_to}
    for basis in ("settled", "created"):
        built = build(rows, reported(), period="2026-02", basis=basis, **given)
        said = [line for line, place in built.needs_a_person if place == "open"]
        assert [line for line in said if "pending" in line] == (lines if basis == "settled" else [])
    every = build(rows, reported(), **given).dates
    only = f" · transfers known until {known_to[:10]} {known_to[11:19]} UTC"
    assert (only in every) == (known_to < given["as_of"])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("basis", "at", "age"),
    [
        ("settled", "2026-02-28 23:59 UTC", "27 d 23 h"),
        ("created", "2026-04-01 06:30 UTC", "59 d 6 h"),
    ],
)
def test_the_page_says_of_when_its_ages_are(basis: str, at: str, age: str) -> None:
    """By settlement what was pending at the period's end, by creation what is pending now."""
    rows = transfers({"amount": "1", **WITHDRAWAL, "status": "PENDING",
                      "created_at": "2026-02-01T00:00Z"})  # fmt: skip
    rows = rows.assign(settled_at=pd.Series([pd.NaT], dtype="datetime64[ns, UTC]"))
    built = build(rows, reported(), period="2026-02", basis=basis, as_of="2026-04-01T06:30:00Z")
    text = reports.render_html(built)
    assert f"pending at {at}; the oldest then {age}" in text
    assert f"Pending at {at}, by age then" in text
    assert f"1 open item older than 3 days at {at}" in text
    assert age in Page(text).cells


@pytest.mark.thorough
def test_withdrawals_made_here_or_the_latest() -> None:
    made = build(withdrawals=["t1"])
    assert made.withdrawals["id"].tolist() == ["t1"]
    assert made.made_here
    assert "Withdrawals and their recipients" in usual_page()
    assert "ffff…ffff" in usual_page()
    assert "f" * 36 not in usual_page()
    assert usual().withdrawals["id"].tolist() == ["t2", "t1"]
    with pytest.raises(AnalysisError, match=r"not there: \['t9'\]"):
        build(withdrawals=["t9"])


@pytest.mark.thorough
def test_balances_are_those_of_as_of() -> None:
    early = build(as_of="2026-02-01")
    row = early.balances.set_index("asset").loc["USD"]
    assert (row["closing"], row["available"]) == (D("1233542.89"), D("1233542.89"))
    assert early.course["date"].max() == pd.Timestamp("2026-02-01")


@pytest.mark.thorough
def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    sources = {"Store": "data/store", **reports.versions()}
    first = reports.write(build(sources=sources), tmp_path / "new" / "a.html")
    shuffled = TRANSFERS.sample(frac=1, random_state=3)
    second = reports.write(build(shuffled, sources=sources), tmp_path / "b.html")
    assert first.read_bytes() == second.read_bytes()
    assert {path.name for path in tmp_path.rglob("*")} == {"new", "a.html", "b.html"}


@pytest.mark.thorough
def test_an_unfinished_page_never_stands_under_the_final_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: None
) -> None:
    target = reports.write(usual(), tmp_path / "report.html")
    before = target.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OutputError, match="disk full"):
        reports.write(replace(usual(), title="Another"), target)
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.thorough
def test_a_page_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: None
) -> None:
    synced: list[list[Path]] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append([*tmp_path.iterdir()]))
    reports.write(usual(), tmp_path / "page.html")
    assert synced
    assert tmp_path / "page.html" not in synced[0]


def test_frames_are_queried_where_files_may_be_spilled_to_a_folder_of_our_own() -> None:
    rows = relation(TRANSFERS, "transfers")
    (folder,) = rows.query("t", "SELECT current_setting('temp_directory')").fetchall()[0]
    assert "fundlab-" in folder


@pytest.mark.thorough
def test_nothing_at_all_makes_a_page() -> None:
    built = build(transfers(), reported())
    assert built.verdict.headline == "Nothing to compare"
    html = reports.render_html(built)
    assert "No transfer has changed a balance yet." in html
    assert "<table" not in html


def test_the_page_fetches_and_runs_nothing() -> None:
    html = usual_page()
    page = Page(html)
    assert not {"link", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert page.tags.count("script") == 1
    script = html[html.index("<script>") + 8 : html.index("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in html
    assert not {name for name in page.attributes if name.startswith("on")}
    assert not re.search(r"url\((?!#)|@import", html)
    assert re.findall(r'(?:src|href)="(?!#)([^"]*)"', html) == []
    assert "default-src 'none'" in html
    assert len(page.ids) == len(set(page.ids))


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</style><script>alert(1)</script>",
    "</title><b>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;i&gt;&#60;u&#62;",
    "]]><b>",
    "<!--",
    "javascript:alert(1)",
    "$\\alpha_{x}$",
    '=HYPERLINK("x")\u202e\x00',
    "#fe01ff #fe0103",
    'id="x" url(#x) href="#x" font: \'y',
]


def report_of(texts: list[str]) -> Any:
    """A report in which each text stands in every field that comes from outside."""
    names = ("ref_id", "profile_id", "type", "destination_address", "group_id")
    status = ["COMPLETED", "PENDING", "COMPLETED"]
    rows = [
        {**dict.fromkeys(names, text), "id": f"{text}{n}", "direction": "DEBIT",
         "asset": "".join(texts),
         "amount": "5", "fee": "1", "status": status[n],
         "type": "INTERNAL_TRANSFER_DEBIT" if n == 2 else text}
        for text in texts
        for n in range(3)
    ]  # fmt: skip
    addresses = pd.DataFrame({"address": texts, "nickname": texts})
    accounts = pd.DataFrame({"id": texts, "fiat_network_instructions": [
        json.dumps({"wire": {"account_number": text, "routing_details": {"bank_name": text}}})
        for text in texts
    ]})  # fmt: skip
    seen_events = pd.DataFrame(
        {"id": texts, "type": [f"{text}.failed" for text in texts], "object": texts}
    ).assign(object_type="x", created_at=pd.Timestamp("2026-02-01", tz="UTC").as_unit("ns"))
    return build(
        transfers(*rows),
        reported(*[(text, "".join(texts), "1") for text in texts]),
        title="".join(texts),
        events=seen_events,
        addresses=addresses,
        fiat_accounts=accounts,
        sources=dict.fromkeys(texts, "".join(texts)),
    )


def page_of(texts: list[str]) -> Page:
    return Page(reports.render_html(report_of(texts)))


@pytest.mark.thorough
def test_outside_text_stays_text() -> None:
    hostile, harmless = page_of(HOSTILE), page_of([f"text {n}" for n in range(len(HOSTILE))])
    drawn = {"path", "g", "defs", "use", "clippath", "rect", "text", "figure", "svg"}
    for tag in set(hostile.tags) | set(harmless.tags):
        if tag not in drawn:
            assert hostile.tags.count(tag) == harmless.tags.count(tag), tag
    assert set(hostile.tags) == set(harmless.tags)
    assert hostile.attributes == harmless.attributes
    assert not [name for name in hostile.ids + harmless.ids if "#" in name]


@pytest.mark.thorough
def test_words_in_a_chart_stand_as_they_are() -> None:
    html = reports.render_html(report_of(["#fe01ff #fe0103 url"]))
    section = html[html.index('id="flows"') : html.index('id="fees"')]
    drawn = {re.sub(r"<[^>]*>", "", text) for text in re.findall(r"<text.*?</text>", section)}
    assert "#fe01ff #fe0103" in {text[:15] for text in drawn}
    assert "var(--card)" not in "".join(drawn)


@pytest.mark.thorough
def test_times_and_the_days_of_charts_are_of_the_reports_zone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zones = dict.fromkeys(("balance_course", "flow_bars", "fees_by_type"), "")

    def drawn(draw: Any, *given: Any, **named: Any) -> Any:
        zones.update({draw.__name__: named["tz"]} if draw.__name__ in zones else {})
        return pictures(draw, *given, **named)

    monkeypatch.setattr("fundlab.reports.page.pictures", drawn)
    cells = Page(reports.render_html(build(tz="Asia/Tokyo"))).cells
    assert set(zones.values()) == {"Asia/Tokyo"}
    assert "2026-02-27 06:00:00" in cells  # 2026-02-26T21:00Z
    assert "2026-02-26 21:00:00" not in cells
    assert "Created (Asia/Tokyo)" in cells
    assert "Created (UTC)" in Page(usual_page()).cells


@pytest.mark.thorough
def test_the_settings_of_a_notebook_change_nothing() -> None:
    with mpl.rc_context({"axes.facecolor": "red", "timezone": "Asia/Tokyo", "text.usetex": True}):
        assert reports.render_html(build()) == usual_page()


def test_what_a_report_has_not_is_answered_with_what_it_has() -> None:
    with pytest.raises(
        AttributeError, match=r"no 'worth_in_usd'; its .* exposure, .* worth, "
    ) as e:
        usual().worth_in_usd  # noqa: B018 - it raises
    assert str(e.value).partition("its frames are ")[2].split(", ") == [*usual().frames]
    with pytest.raises(AttributeError, match=r"'balanses' \(did you mean balances\?\); its frames"):
        usual().balanses  # noqa: B018 - it raises
    assert not hasattr(usual(), "__array__")


@pytest.mark.thorough
def test_the_closing_balances_are_headed_by_what_is_shown_beside_them(undrawn: None) -> None:
    changes = "and what the period changed"
    page = usual_page()
    assert ("<span>Closing balances</span>" in page, changes in page) == (True, False)
    page = reports.render_html(build(period="2026-02"))
    assert f"<span>Closing balances, {changes}</span>" in page


@pytest.mark.seconds
def test_a_price_has_the_digits_that_its_value_comes_of(undrawn: None) -> None:
    """23,489.54 / 23,489.83 is 0.99998765423164: as 1.00 the product would be 29 cents off."""
    worth = pd.array(["23489.54"], dtype="decimal")
    rows = transfers({"amount": "23489.83", "asset": "USDP", "created_at": "2026-02-27T00:00Z"})
    page = reports.render_html(build(rows.assign(notional_value=worth), reported()))
    cells = Page(page).cells
    place = cells.index("0.999987654232")
    assert cells[place - 1] == "23,489.83"
    assert cells[place + 3].startswith("23,489.54")  # the last cell of its table


@pytest.mark.thorough
def test_a_period_that_has_not_begun_is_refused(undrawn: None) -> None:
    said = "it starts at 2026-04-01T00:00:00Z, and what is known ends at 2026-03-01T11:08:42Z; give"
    with pytest.raises(AnalysisError, match=f"period='2026-04' has not begun: {said}"):
        build(period="2026-04", as_of="2026-03-01T11:08:42.297063565Z")
    begun = build(period="2026-03")
    assert begun.remark == "The period is not over: it ends at 2026-04-01 00:00 UTC."
    assert begun.remark in reports.render_html(begun)
    assert begun.remark in " ".join(repr(begun).split())
    early = build(period="2025-12")
    assert early.remark == (
        "The period ends before the first transfer that is known, of 2026-01-05 10:00 UTC."
    )
    assert early.remark in reports.render_html(early)
    assert early.remark in " ".join(repr(early).split())
    over = build(period="2026-02")
    assert (over.remark, over.end) == ("", pd.Timestamp("2026-03-01", tz="UTC"))


@pytest.mark.thorough
def test_the_flows_leave_own_transfers_out() -> None:
    halves = [
        {"amount": "7", "type": f"INTERNAL_TRANSFER_{side}", "direction": side, "group_id": "g"}
        for side in ("DEBIT", "CREDIT")
    ]
    rows = transfers({"amount": "100"}, {"amount": "30", **WITHDRAWAL}, *halves)
    built = build(rows, reported((PROFILE, "USD", "70")))
    for flows in (built.flows, built.daily_flows):
        assert (flows["inflow"].tolist(), flows["outflow"].tolist()) == ([D(100)], [D(30)])


@pytest.mark.thorough
def test_the_files_hold_every_withdrawal_and_event_of_note() -> None:
    rows = transfers(*({"amount": "1", **WITHDRAWAL} for _ in range(30)))
    names = [f"e{n}" for n in range(600)]
    seen_events = pd.DataFrame({"id": names, "type": "transfer.failed", "object": "{}"}).assign(
        object_type="x", created_at=pd.Timestamp("2026-02-01", tz="UTC").as_unit("ns")
    )
    built = build(rows, reported(), events=seen_events)
    held = {sheet.name: sheet.rows.num_rows for sheet in sheets(built)}
    assert (held["Withdrawals"], held["Notable events"]) == (30, 600)
    shown = [page_tables(built)[name] for name in ("withdrawals", "notable")]
    assert [(len(view.rows), view.hidden) for view in shown] == [(25, 5), (25, 575)]


def test_a_long_table_is_cut_in_the_workbook_with_a_word() -> None:
    many = pa.table({"id": [str(n) for n in range(30_001)]})
    long, short = for_workbook([Sheet("Long", many, "of all"), Sheet("Short", many[:2])])
    assert (long.rows.num_rows, short.rows.num_rows, short.note) == (30_000, 2, "")
    assert long.note == (
        "the first 30,000 of 30,001 rows; the report as CSV (--format csv) holds them all; of all"
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("period", "before"),
    [("2026", "2025-12-31"), ("2026-Q1", "2025-10-01"), ("2026-01", "2025-12-01"),
     ("2026-W01", "2025-12-22"), ("2026-01-01", "2025-12-31")],
)  # fmt: skip
def test_drift_is_against_the_period_before(period: str, before: str) -> None:
    rows = transfers(
        {"amount": "1000", "fee": "1", **WITHDRAWAL, "created_at": f"{before}T00:00Z"},
        {"amount": "1000", "fee": "3", **WITHDRAWAL, "created_at": "2026-01-01T00:00Z"},
    )
    (fee,) = build(rows, reported(), period=period).fees.itertuples()
    assert (fee.bps_before, fee.bps, fee.drift) == (D(10), D(30), D(20))


@pytest.mark.thorough
def test_no_account_number_is_whole_however_short() -> None:
    shown = {"123456789": "••••6789", "1234567": "••••", "1": "••••"}
    accounts = pd.DataFrame({"id": [*shown], "fiat_network_instructions": [
        json.dumps({"wire": {"account_number": number}}) for number in shown
    ]})  # fmt: skip
    rows = transfers(*({"amount": "1", **WITHDRAWAL, "fiat_account_id": id_} for id_ in shown))
    found = build(rows, reported(), fiat_accounts=accounts)
    assert sorted(found.withdrawals["recipient"]) == sorted(shown.values())


@pytest.mark.thorough
def test_an_address_is_named_by_its_network() -> None:
    known = pd.DataFrame(
        {
            "crypto_network": ["ETHEREUM", "POLYGON"],
            "address": ["0x" + "a" * 40] * 2,
            "nickname": ["main", "other"],
        }
    )
    sent = {"type": "CRYPTO_WITHDRAWAL", "direction": "DEBIT", "amount": "1",
            "destination_address": "0x" + "a" * 40}  # fmt: skip
    rows = transfers({**sent, "crypto_network": "POLYGON"}, {**sent, "crypto_network": "ETHEREUM"})
    found = build(rows, reported(), addresses=known)
    assert found.withdrawals["recipient"].tolist() == ["0xaa…aaaa (other)", "0xaa…aaaa (main)"]
    assert sorted(found.recipients["recipient"]) == ["0xaa…aaaa (main)", "0xaa…aaaa (other)"]


@pytest.mark.thorough
def test_open_items_are_shown_by_age_the_oldest_first_in_plain_words() -> None:
    ages = ["2026-02-28T23:30Z", "2026-02-28T12:00Z", "2026-02-27T12:00Z", "2026-01-01T00:00Z"]
    kinds = ["WIRE_WITHDRAWAL", "BANK_WITHDRAWAL"]
    rows = transfers(*({"amount": "1", **WITHDRAWAL, "status": "PENDING", "created_at": age,
                        "type": kind} for age in ages for kind in kinds))  # fmt: skip
    view = page_tables(build(rows, reported()))["ageing"]
    assert [(row[0].text, row[0].place) for row in view.rows[::2]] == [
        ("30 d on", 3), ("1 d to 3 d", 2), ("1 h to 1 d", 1), ("under 1 h", 0),
    ]  # fmt: skip
    assert [row[0].text for row in view.rows[::2]] == [row[0].text for row in view.rows[1::2]]


@pytest.mark.thorough
def test_an_event_is_shown_in_words() -> None:
    shown = {
        '{"id":"cf15a0e4-7f02-419a-aa89-077fbe8273d5","type":"WIRE_DEPOSIT","status":"FAILED"}':
            "id cf15…73d5, type Wire deposit, status Failed",
        '{"identity_id":"i7","required_documents":["TAX_IDENTIFICATION","PASSPORT"]}':
            "identity i7, required documents Tax identification and Passport",
        "{broken": "{broken",
        "[1]": "[1]",
    }  # fmt: skip
    seen = pd.DataFrame({"id": [*"abcd"], "type": "x.failed", "object": [*shown]}).assign(
        object_type="x", created_at=pd.Timestamp("2026-02-01", tz="UTC").as_unit("ns")
    )
    built = build(events=seen)
    found = [row[2].text for row in page_tables(built)["notable"].rows]
    assert dict(zip(built.notable["object"], found, strict=True)) == shown


@pytest.mark.thorough
def test_an_anomaly_is_shown_in_words() -> None:
    made = pd.DataFrame({"id": ["a"], "status": ["APPROVED"]}).assign(
        created_at=pd.Timestamp("2026-01-01T00:00Z"), updated_at=pd.Timestamp("2026-01-01T00:00Z"),
        fiat_network_instructions="{}",
    )  # fmt: skip
    rows = transfers({"amount": "1", **WITHDRAWAL, "fiat_account_id": "a",
                      "created_at": "2026-01-01T00:31Z"})  # fmt: skip
    (row,) = page_tables(build(rows, reported(), fiat_accounts=made))["anomalies"].rows
    assert [cell.text for cell in row[2:4]] == [
        "an account approved at least 1 hour before", "31 min after",
    ]  # fmt: skip


@pytest.mark.thorough
def test_the_page_stays_small_whatever_the_data() -> None:
    rows = [
        {
            "amount": f"{n}.{'1' * 18}", "profile_id": f"{n % 60:036d}", "asset": f"A{n % 16}",
            "status": ("COMPLETED", "PENDING")[n % 3 == 0], **WITHDRAWAL,
            "created_at": f"202{4 + n % 2}-0{1 + n % 9}-11T00:00Z",
        }
        for n in range(4000)
    ]  # fmt: skip
    html = reports.render_html(build(transfers(*rows), reported()))
    assert 500_000 < len(html.encode()) < 3_000_000
    assert "more rows are not shown here" in html
    assert "Drawn are 12 of 16 assets: those with breaks, then" in html


@pytest.mark.thorough
def test_every_gallery_draws_the_assets_with_the_most_transfers() -> None:
    """Many transfers on one day are more than few on many days."""
    many = [{"amount": "1", "asset": "BTC", "type": "CRYPTO_DEPOSIT"}] * 40
    few = [
        {"amount": "1", "asset": asset, "type": kind, "created_at": f"2026-02-{day:02d}T08:00Z"}
        for asset in ("BCH", "DOGE", "ETH", "LTC", "SOL", "USDC")
        for day in range(1, 7)
        for kind in ("CRYPTO_DEPOSIT", "SEN_DEPOSIT", "BANK_DEPOSIT")
    ]
    page = reports.render_html(build(transfers(*many, *few)))
    drawn = re.findall(r'role="img" aria-label="([^"]*)"', page)
    assert sum("BTC" in label for label in drawn) == 5  # course, waterfall, flows, calendar, links
    assert "BTC" in drawn[0]  # the busiest first, not by name


def test_times_must_be_times() -> None:
    with pytest.raises(
        InvalidRequest, match="as_of='soon' is not a date: write '2026-10-01', or a time"
    ):
        build(as_of="soon")


@pytest.mark.thorough
@pytest.mark.parametrize(("days", "freq"), [(10, "D"), (100, "W"), (400, "MS"), (3000, "QS")])
def test_the_period_of_bars_follows_the_span(days: int, freq: str) -> None:
    end = pd.Timestamp("2017-01-01T00:00Z") + pd.Timedelta(days=days)
    rows = transfers({"amount": "1", "created_at": "2017-01-01T00:00Z"},
                     {"amount": "1", "created_at": end.isoformat()})  # fmt: skip
    built = build(rows, reported((PROFILE, "USD", "2")))
    assert built.freq == freq
    assert built.tone == "good"
