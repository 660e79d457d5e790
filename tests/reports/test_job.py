"""From a store to files on disk: what stands in them, twice the same, one run at a time."""

from __future__ import annotations

import csv
import dataclasses
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pypdf
import pytest
from amounts import exactly
from fake_service import FakeService, transfer
from test_sections import WRITTEN

import fundlab as fl
from fundlab import reports
from fundlab.base.errors import AnalysisError, InvalidRequest, OutputError, StoreError, StoreLocked
from fundlab.reports.job import sources
from fundlab.reports.report_files import FORMATS, LAST_FILE, file_name
from fundlab.reports.sections import SECTIONS, page_tables

D = Decimal


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[fl.Store, fl.Store]:
    """A store that reconciles, and one to which the service then told a wrong balance."""
    folder = tmp_path_factory.mktemp("stores")
    with fl.sandbox.serve(seed=5, transfers=400, profiles=2, clock="manual") as sandbox:
        client = sandbox.connect()
        good = fl.Store(folder / "good")
        good.sync(client)
        shutil.copytree(folder / "good", folder / "bad")
        bad = fl.Store(folder / "bad")
        asked_first = good.assertions()["asset"].iloc[0]
        wrong = json.dumps({"asset": asked_first, "available": "1.25", "trading": "0"})
        sandbox.faults.add("status", "get_profile_balance", status=200, body=wrong, count=1)
        bad.sync(client, tables=["balances"])
    return good, bad


@pytest.fixture(scope="module")
def good(stores: tuple[fl.Store, fl.Store]) -> fl.Store:
    return stores[0]


@pytest.fixture(scope="module")
def bad(stores: tuple[fl.Store, fl.Store]) -> fl.Store:
    return stores[1]


@pytest.fixture(scope="module")
def october(good: fl.Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    out = tmp_path_factory.mktemp("out")
    return fl.report(good, "2026-10", out=out), out


@pytest.mark.thorough
@exactly()
def test_movements_lead_from_opening_to_closing(october: tuple[Any, Path]) -> None:
    for _, rows in october[0].movements.groupby("asset"):
        amounts = list(rows["amount"])
        assert sum(amounts[:-1], D(0)) == amounts[-1]
        assert "Unexplained" not in set(rows["step"])


@pytest.mark.seconds
def test_flows_fees_and_recipients_are_of_the_period(
    october: tuple[Any, Path], good: fl.Store
) -> None:
    found, _ = october
    transfers = good.read("transfers", settled=True)
    placed = transfers["settled_at"].fillna(transfers["created_at"])
    transfers = transfers[(placed >= "2026-10-01") & (placed < "2026-11-01")]
    done = transfers[transfers["status"] == "COMPLETED"]
    outer = done[~done["type"].str.startswith("INTERNAL")]
    assert len(outer) < len(done)
    assert found.fees["fee"].sum() == done["fee"].sum()
    for side, direction in (("inflow", "CREDIT"), ("outflow", "DEBIT")):
        expected = outer.loc[outer["direction"] == direction, "total"].sum()
        assert found.flows[side].sum() == expected
        assert found.daily_flows[side].sum() == expected
    paid = done[(done["direction"] == "DEBIT") & ~done["type"].str.startswith("INTERNAL")]
    assert found.recipients["amount"].sum() == paid["amount"].sum()
    debits = transfers[transfers["direction"] == "DEBIT"]
    debits = debits[~debits["type"].str.startswith("INTERNAL")]
    assert sorted(found.withdrawals["id"]) == sorted(debits["id"])
    assert found.hours["count"].sum() == len(transfers)
    assert found.links.loc[found.links["stage"] == 2, "amount"].sum() == (
        done.loc[done["direction"] == "DEBIT", "total"].sum()
    )


@pytest.mark.seconds
def test_no_account_number_or_address_is_whole(october: tuple[Any, Path], good: fl.Store) -> None:
    _, out = october
    text = "".join(path.read_text(encoding="utf-8") for path in out.iterdir()
                   if path.suffix in {".html", ".csv"})  # fmt: skip
    for address in good.read("addresses")["address"]:
        assert address not in text
    for account in good.read("fiat_accounts")["id"]:
        assert account not in text


@pytest.mark.seconds
def test_every_amount_of_the_files_equals_the_report(october: tuple[Any, Path]) -> None:
    found, out = october
    book = openpyxl.load_workbook(out / "report-2026-10.xlsx", data_only=True)
    page = page_tables(found)["balances"]
    for name, label in (("opening", "Opening"), ("inflow", "In"), ("outflow", "Out"),
                        ("closing", "Closing"), ("held", "Held by pending"),
                        ("available", "Available")):  # fmt: skip
        expected = list(found.balances[name])
        header, *rows = book["Balances"].iter_rows(4, values_only=True)
        cells = [D(str(row[header.index(label)])) for row in rows]
        assert cells[: len(expected)] == expected
        sums = found.balances.groupby("asset")[name].sum()
        assert cells[len(expected) :] == list(sums)
        assert [row[0] for row in rows[len(expected) :]] == [f"Total {one}" for one in sums.index]
        place = [head for head, _ in page.columns].index(label)
        said = {row[0].text: D(row[place].text.replace(",", "")) for row in page.totals}
        assert said.items() <= {f"Total {one}": total for one, total in sums.items()}.items()
        assert len(said) > 5  # those of assets that have several rows
        with (out / "report-2026-10.balances.csv").open(encoding="utf-8", newline="") as file:
            assert [D(row[name]) for row in csv.DictReader(file)] == expected


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:Unable to read chart")
@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed here")
def test_libreoffice_sums_what_the_workbook_says_and_prints_the_first_sheet_on_one_page(
    october: tuple[Any, Path], tmp_path: Path
) -> None:
    """Without the values that stand beside them, formulas are computed anew."""
    written = october[1] / "report-2026-10.xlsx"
    with zipfile.ZipFile(written) as given, zipfile.ZipFile(tmp_path / "bare.xlsx", "w") as bare:
        for name in given.namelist():
            kept = re.sub(rb"(</f>)<v>[^<]*</v>", rb"\1", given.read(name))
            bare.writestr(name, kept)
    office = ["soffice", f"-env:UserInstallation=file://{tmp_path}/office", "--headless"]
    for kind, name in (("xlsx:Calc MS Excel 2007 XML", "bare.xlsx"), ("pdf", str(written))):
        command = [*office, "--convert-to", kind, "--outdir", tmp_path / "again", name]
        subprocess.run(command, check=True, capture_output=True, timeout=180, cwd=tmp_path)
    said, formulas, summed = (
        openpyxl.load_workbook(path, data_only=values)
        for path, values in (
            (written, True), (written, False), (tmp_path / "again" / "bare.xlsx", True),
        )
    )  # fmt: skip
    seen: dict[str, int] = {}
    for sheet in formulas.worksheets:
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    told = said[sheet.title][cell.coordinate].value
                    found = summed[sheet.title][cell.coordinate].value
                    assert found == told, (sheet.title, cell.coordinate, cell.value)
                    seen[sheet.title] = seen.get(sheet.title, 0) + 1
    summed = {section.sheet for section in SECTIONS if section.totals}
    assert {*seen} == {"Report", *summed} & {*formulas.sheetnames}
    assert sum(seen.values()) > 60
    paper = pypdf.PdfReader(tmp_path / "again" / "report-2026-10.pdf")
    first, second = (paper.pages[number].extract_text() for number in (0, 1))
    assert "Fees in USD" in first
    assert october[0].verdict.headline in first
    assert "Balances · Funding report 2026-10" in second


@pytest.mark.seconds
def test_the_figures_of_two_periods_are_the_same_wherever_they_stand(
    october: tuple[Any, Path], good: fl.Store
) -> None:
    """What a report says of the month before is what that month's own report says."""
    found, out = october
    september = reports.read_report(good, "2026-09")
    transfers, waiting, fees, rules = found.key_figures[1:]
    assert (transfers.before, waiting.before, fees.before) == tuple(
        figure.value for figure in september.key_figures[1:4]
    )
    assert rules.before == september.key_figures[4].value
    now, was = (int(text.replace(",", "")) for text in (transfers.value, transfers.before))
    assert transfers.change.split(" ")[0] == f"{now - was:+,}".replace("-", "−")
    assert int(found.transfers["count"].sum()) == now
    charged = found.fees[found.fees["asset"] == "USD"]["fee"].sum()
    assert D(fees.value.replace(",", "")) == charged

    assert found.to_json()["before"] == "2026-09"
    cover = openpyxl.load_workbook(out / "report-2026-10.xlsx", data_only=True)["Report"]
    lines = [tuple(one or None for one in row) for row in cover.iter_rows(values_only=True)]
    page = (out / "report-2026-10.html").read_text(encoding="utf-8")
    for figure, told in zip(found.key_figures, found.to_json()["figures"], strict=True):
        line = (figure.label, figure.value, figure.before or None, figure.change or None)
        assert tuple(told.values()) == line
        assert (*line, figure.note) in lines
        assert f">{figure.value}</a>" in page
        assert (f"{figure.change} against " if figure.change else "") + figure.before in page
        assert f"{figure.label}" in repr(found)
        assert figure.value in repr(found)
    closing = found.balances.groupby("asset")["closing"].sum()
    summed = {row[0]: D(str(row[4])) for row in lines if row[0] in {*closing.index}}
    assert summed == dict(closing)


@pytest.mark.thorough
def test_the_same_store_gives_the_same_bytes_and_leaves_nothing_half_done(
    october: tuple[Any, Path], good: fl.Store, tmp_path: Path
) -> None:
    _, out = october
    reports.write_report(reports.read_report(good, "2026-10"), tmp_path)
    names = sorted(path.name for path in out.iterdir())
    assert names == sorted(path.name for path in tmp_path.iterdir())
    assert not [name for name in names if name.startswith(".")]
    for name in names:
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes(), name


@pytest.mark.thorough
@pytest.mark.parametrize("held", [350, 1])
def test_a_report_that_holds_only_its_period_or_nothing_has_the_same_figures(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample has some 300 transfers a month; more than are held are read once, compressed."""
    whole = reports.read_report(fl.sample(), "2026-10")
    for module in ("build", "job"):
        monkeypatch.setattr(sys.modules[f"fundlab.reports.{module}"], "HELD_ROWS", held)
    parts = reports.read_report(fl.sample(), "2026-10")
    assert whole.frames.keys() == parts.frames.keys()
    for name, frame in whole.frames.items():
        pd.testing.assert_frame_equal(parts.frames[name], frame, obj=name)
    assert parts.key_figures == whole.key_figures


@pytest.mark.thorough
def test_sources_tell_how_to_get_it_again(october: tuple[Any, Path], good: fl.Store) -> None:
    sources = october[0].sources
    assert sources["Command"].startswith(f"fundlab report --store {good.path} --as-of ")
    assert sources["Command"].endswith("--period 2026-10")
    assert len(sources["Parts"].split()[-1]) == 64
    again = reports.read_report(good, "2026-10", as_of=sources["Command"].split()[5])
    assert again.sources == sources
    elsewhere = reports.read_report(good, "2026-10", tz="Asia/Tokyo")
    assert elsewhere.sources["Command"].endswith("--period 2026-10 --tz Asia/Tokyo")


@pytest.mark.seconds
def test_a_report_as_of_a_time_before_the_first_sync_is_refused(tmp_path: Path) -> None:
    store = fl.Store(tmp_path / "store")
    before = datetime.now(UTC)
    store.sync(FakeService([transfer(1)]))
    with pytest.raises(InvalidRequest, match=r"as_of=.*: the store knew nothing") as refused:
        reports.read_report(store, as_of=before)
    first = str(refused.value).rsplit(" ", 1)[1]
    assert before.isoformat() < first < datetime.now(UTC).isoformat()
    assert reports.read_report(store, as_of=first)
    assert (
        reports.read_report(store, as_of=datetime.now(UTC)).verdict.headline
        == "Reconciled: 0 breaks"
    )


@pytest.mark.thorough
def test_breaks_say_by_how_much_since_when_and_why(bad: fl.Store) -> None:
    found = reports.read_report(bad)
    assert found.tone == "bad"
    compared = fl.reconcile.compare(bad.read("transfers"), bad.read("balances"))
    assert found.verdict.breaks == (compared["status"] != "match").sum() == 1
    last = bad.assertions()["observed_at"].max()
    assert f"First seen at {last:%Y-%m-%d}" in found.verdict.detail
    assert found.breaks["since"].notna().all()
    assert set(found.causes["profile_id"]) == set(found.breaks["profile_id"])


@pytest.mark.thorough
def test_a_store_that_begins_late_opens_with_the_first_observation(tmp_path: Path) -> None:
    with fl.sandbox.serve(seed=5, transfers=300, clock="manual") as sandbox:
        store = fl.Store(tmp_path / "late")
        store.sync(sandbox.connect(), since="2026-06-01")
        found = reports.read_report(store)
        assert "observed, agrees" not in reports.render_html(found)  # the opening agrees anyhow
        sandbox.clock.advance(3600)
        store.sync(sandbox.connect())
    assert "observed, agrees" in reports.render_html(reports.read_report(store))
    assert found.verdict.state == "moves_proved"
    assert not found.to_json()["reconciled"]
    assert found.key_figures[0].label == "Movements proved"
    assert found.key_figures[0].value.startswith("0 of ")
    assert found.balances["opening"].sum() != 0


def test_one_run_at_a_time(october: tuple[Any, Path], tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(StoreLocked, match="another run writes its report"):
            reports.write_report(october[0], tmp_path, ["csv"])
    finally:
        os.close(handle)
    reports.write_report(october[0], tmp_path, ["csv"])
    assert len(list(tmp_path.iterdir())) == WRITTEN


def test_no_table_of_an_earlier_run_stays_beside_those_of_this_one(
    october: tuple[Any, Path], tmp_path: Path
) -> None:
    for name in ("bank-open-items", "bank-reconciliation", "own"):
        (tmp_path / f"report-2026-10.{name}.csv").touch()
    (tmp_path / "report-2026-09.bank-open-items.csv").touch()
    made = reports.write_report(october[0], tmp_path, ["csv"])
    others = {path.name for path in tmp_path.iterdir()} - {path.name for path in made.files}
    assert others == {"report-2026-10.own.csv", "report-2026-09.bank-open-items.csv"}


def test_what_killed_runs_left_of_any_report_is_swept_and_nothing_else(
    october: tuple[Any, Path], tmp_path: Path
) -> None:
    left = f".report-2026-09.xlsx.{'0' * 32}.tmp"
    for name in (left, f".report-2026-10.csv.{'0' * 32}.tmp", "note.tmp"):
        (tmp_path / name).touch()
    (tmp_path / f"{left}-parts.tmp").mkdir()
    (tmp_path / f"{left}-parts.tmp" / "sheet").touch()
    reports.write_report(october[0], tmp_path, ["csv"])
    names = {path.name for path in tmp_path.iterdir() if path.suffix != ".csv"}
    assert names == {"note.tmp"}


@pytest.mark.parametrize("store", ["nowhere", None, Path("data/store")])
def test_what_is_not_a_store_is_named(store: Any, tmp_path: Path) -> None:
    for use in (
        lambda: fl.report(store),
        lambda: fl.reconcile.judge(store),
        lambda: fl.exports.export_table(store, "transfers", tmp_path / "a.csv", "csv"),
    ):
        with pytest.raises(InvalidRequest, match=r"must be a store: give (fl.Store|what fl.Store)"):
            use()


def test_a_report_is_written_on_this_machine(october: tuple[Any, Path]) -> None:
    with pytest.raises(
        InvalidRequest, match="out='s3://bucket/x': give a file or folder of this machine"
    ):
        reports.write_report(october[0], "s3://bucket/x")


def test_a_written_report_shows_its_verdict_and_files_as_a_card(october: tuple[Any, Path]) -> None:
    report, out = october
    for text in (report._repr_html_(), repr(report)):
        assert report.verdict.headline in text
        assert str(out / "report-2026-10.html") in text
        assert f"{WRITTEN} tables in {out / 'report-2026-10'}.*.csv" in text
    assert 'class="fl-verdict fl-good"' in report._repr_html_()
    assert 'class="fl-files"' not in dataclasses.replace(report, files=())._repr_html_()
    hostile = dataclasses.replace(report, title="<b>x</b>", files=(Path("<i>.html"),))
    assert not {"<b>x", "<i>."} & {*re.findall(r"<[bi]>.", hostile._repr_html_())}


@pytest.mark.parametrize("format", FORMATS)
def test_missed_months_are_caught_up(
    good: fl.Store, october: tuple[Any, Path], tmp_path: Path, format: str
) -> None:
    first = good.read("transfers")["created_at"].min()
    last = pd.Timestamp(reports.job.transfers_known_until(good)).to_period("M") - 1
    every = [str(month) for month in pd.period_range(first.tz_localize(None), last, freq="M")]
    assert reports.missing_months(good, tmp_path) == every
    late = [month for month in every if month >= "2026-08"]
    others = [month for month in late if month != "2026-10"]

    def write(**given: Any) -> None:
        reports.write_report(dataclasses.replace(october[0], **given), tmp_path, [format])

    def missing(*more: str, **given: Any) -> list[str]:
        return reports.missing_months(good, tmp_path, "2026-08", formats=[format, *more], **given)

    path = tmp_path / f"report-2026-10{LAST_FILE[format]}"
    for text in ("", "a file of that name"):
        path.write_text(text)
        assert missing() == late
    tokyo = {"first": october[0].first - pd.Timedelta(hours=9),
             "end": october[0].end - pd.Timedelta(hours=9), "tz": "Asia/Tokyo"}  # fmt: skip
    for given in ({"end": october[0].end - pd.Timedelta(hours=5)}, {"basis": "created"}, tokyo):
        write(**given)
        assert missing() == late
    assert missing(tz="Asia/Tokyo") == others
    write()
    assert missing() == others
    assert missing(basis="created") == missing(tz="Asia/Tokyo") == late
    for more in {*FORMATS} - {format}:
        assert missing(more) == late
    path.write_bytes(path.read_bytes()[:200])
    assert missing() == late


def test_what_is_no_month_is_not_caught_up(good: fl.Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="'2026' is not a month"):
        reports.missing_months(good, tmp_path, "2026")
    with pytest.raises(AnalysisError, match=r"period='2026-13': month must be in 1\.\.12"):
        reports.missing_months(good, tmp_path, "2026-13")


@pytest.mark.parametrize("place", ["/dev/null/reports", "a-file"])
def test_a_folder_that_cannot_be_one_is_told(
    october: tuple[Any, Path], tmp_path: Path, place: str
) -> None:
    (tmp_path / "a-file").touch()
    out = tmp_path / place
    with pytest.raises(OutputError, match=f"{out} cannot be written .*; give another place"):
        reports.write_report(october[0], out)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"period": 5}, "period=5: give a text such as '2026-10'"),
        ({"period": ("2026-10-01", "2026-11-01")}, "period=.*: give a text such as '2026-10'"),
        ({"tz": 5}, "tz=5: give a text such as 'Europe/Paris'"),
        ({"max_age": 5}, "max_age=5: give a text such as '7D'"),
        ({"bank": "october.xml"}, "bank='october.xml': give what fl.bank.read"),
        ({"formats": None}, "formats=None: give some of html, xlsx, csv"),
        ({"formats": 5}, "formats=5: give some of html, xlsx, csv"),
    ],
)
def test_an_argument_of_another_type_is_named(
    good: fl.Store, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        fl.report(good, **given)


def test_what_cannot_be_reported_says_so(good: fl.Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="give some of html, xlsx, csv"):
        fl.report(good, formats=["pdf"])
    with pytest.raises(StoreError, match="there is no store at"):
        fl.report(fl.Store(tmp_path))
    (tmp_path / "transfers").mkdir()
    with pytest.raises(StoreError, match=r"there is no store at .* make one there: 'fundlab"):
        fl.report(fl.Store(tmp_path))
    assert file_name("2026-10-01 to ../x") == "report-2026-10-01_to_x"


# --------------------------------------------------------------------------- the command line


@pytest.mark.thorough
def test_report_prints_where_and_exits_with_3_on_breaks(
    good: fl.Store, bad: fl.Store, tmp_path: Path, fundlab: Any
) -> None:
    usual = ("report", "--format", "csv", "--out", tmp_path, "--store")
    status, out, _ = fundlab(*usual, good.path, "--json")
    printed = json.loads(out)
    assert (status, printed["reconciled"], printed["breaks"]) == (0, True, 0)
    assert len(printed["files"]) == WRITTEN
    assert fundlab(*usual, good.path, "--quiet")[:2] == (0, "")
    status, out, _ = fundlab(*usual, bad.path, "--quiet")
    assert (status, out.startswith("Not reconciled: ")) == (3, True)
    status, _, err = fundlab(*usual, tmp_path / "none")
    assert (status, "there is no store at" in err) == (1, True)
    assert fundlab(*usual, good.path, "--catch-up", "--as-of", "2026-10-01")[0] == 2


@pytest.mark.thorough
def test_a_quiet_report_says_nothing_where_there_is_no_home_to_write_to(
    good: fl.Store, tmp_path: Path
) -> None:
    (tmp_path / "a-file").touch()
    told = {"HOME": str(tmp_path / "a-file"), "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}
    settings = {name: text for name, text in os.environ.items() if name != "MPLCONFIGDIR"} | told
    command = ["report", "--store", good.path, "--out", tmp_path, "--format", "html", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "fundlab", *map(str, command)],
        env=settings, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout + done.stderr == ""


@pytest.mark.thorough
def test_catching_up_is_idempotent_and_says_again_what_breaks(
    good: fl.Store, bad: fl.Store, tmp_path: Path, fundlab: Any
) -> None:
    def caught_up(store: fl.Store, *options: str) -> tuple[int, str, str]:
        usual = ("--out", tmp_path / store.path.name, "--format", "csv", "--period", "2026-10")
        found: tuple[int, str, str] = fundlab(
            "report", "--catch-up", "--store", store.path, *usual, *options
        )
        return found

    for store, status, breaks in ((good, 0, 0), (bad, 3, 1)):
        for months in (1, 0):
            ended, out, _ = caught_up(store, "--json")
            found = json.loads(out)
            assert (ended, found["breaks"], found["violations"]) == (status, breaks, 0)
            assert [report["period"] for report in found["reports"]] == ["2026-10"] * months
        assert found["verdict"].startswith("Not reconciled: " if breaks else "Reconciled: 0 breaks")
    status, out, _ = caught_up(bad, "--quiet")
    assert (status, out.startswith("Not reconciled: ")) == (3, True)


@pytest.mark.thorough
def test_rows_that_break_a_rule_are_told(
    october: tuple[Any, Path], good: fl.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    fundlab: Any,
) -> None:  # fmt: skip
    row = {"transfer_id": "t1", "rule": "total", "expected": "2", "found": "1"}
    frames = {**october[0].frames, "violations": pd.DataFrame([row])}
    broken = dataclasses.replace(october[0], frames=frames)
    monkeypatch.setattr(reports.job, "read_report", lambda *_, **__: broken)
    usual = ("report", "--store", good.path, "--out", tmp_path, "--format", "csv", "--quiet")
    status, out, _ = fundlab(*usual)
    assert (status, "1 row check is violated." in out) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        pytest.param(
            ["--out", "/dev/null/x"], 1, "/dev/null/x cannot be written (Not a directory)",
            marks=pytest.mark.thorough,
        ),
        (["--period", "2099-01"], 1, "period='2099-01' has not begun"),
        (["--format", "pdf"], 2, "'pdf': give some of html,xlsx,csv"),
        (["--format", ","], 2, "give some of html,xlsx,csv"),
        (["--period", "2026-13"], 2, "month must be in 1..12"),
        (["--catch-up", "--period", "2026-13"], 2, "month must be in 1..12"),
        (["--tz", "Mars"], 2, "tz='Mars' is not a valid time zone"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_and_wrong_usage_exits_with_2(
    good: fl.Store, fundlab: Any, arguments: list[str], status: int, words: str
) -> None:
    ended, _, err = fundlab("report", "--store", good.path, *arguments)
    assert ended == status
    assert words in " ".join(err.split())
    assert status == 2 or err.count("\n") == 1


def test_verify_finds_a_flipped_bit(
    good: fl.Store, bad: fl.Store, tmp_path: Path, fundlab: Any
) -> None:
    status, out, _ = fundlab("verify", "--store", good.path)
    assert (status, "no problems" in out) == (0, True)
    status, out, _ = fundlab("verify", "--store", bad.path, "--json")
    assert status == 3
    assert {problem["rule"] for problem in json.loads(out)["problems"]} == {"balance"}
    shutil.copytree(good.path, tmp_path / "flipped")
    (part,) = (tmp_path / "flipped" / "transfers").glob("part-*.parquet")
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    assert fundlab("verify", "--store", tmp_path / "flipped")[0] == 3
    assert fundlab("verify", "--store", tmp_path / "none")[0] == 1


@pytest.mark.parametrize("format", ["csv", "json"])
def test_export_writes_what_read_gives(
    good: fl.Store, tmp_path: Path, fundlab: Any, format: str
) -> None:
    path = tmp_path / f"t.{format}"
    arguments = ("--format", format, "--out", path, "--store", good.path, "--since", "2026-09-01")
    assert fundlab("export", "transfers", *arguments)[0] == 0
    if format == "csv":
        with path.open(encoding="utf-8", newline="") as file:
            rows: list[dict[str, Any]] = list(csv.DictReader(file))
    else:
        rows = json.loads(path.read_text(encoding="utf-8"))
    expected = good.read("transfers", since="2026-09-01")
    assert [row["id"] for row in rows] == expected["id"].tolist()
    for name in ("amount", "fee", "total"):
        assert [row[name] for row in rows] == expected[name].astype("string").tolist()
    moments = [pd.Timestamp(row["created_at"]) for row in rows]
    assert moments == expected["created_at"].tolist()
    assert all(row["created_at"].endswith("Z") for row in rows)
    assert fundlab("export", "moons", *arguments)[0] == 2


def test_a_report_names_its_store_as_seen_from_the_current_folder(
    good: fl.Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    when = pd.Timestamp("2100-01-01", tz="UTC")
    monkeypatch.chdir(good.path.parent)
    found = sources(good, None, when)
    assert (found["Store"], "--store good " in found["Command"]) == ("good", True)
    monkeypatch.chdir(Path(good.path.anchor) / "usr")
    assert sources(good, None, when)["Store"] == str(good.path)
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert sources(good, None, when)["Store"] == str(good.path)
