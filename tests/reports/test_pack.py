"""The close pack: its printed cells foot, its bytes are the same anywhere, and what differs is
named."""

from __future__ import annotations

import copy
import csv
import dataclasses
import hashlib
import json
import logging
import os
import pickle
import re
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import closed_months as months
import openpyxl
import pypdf
import pytest
from amounts import exactly
from closed_months import DAY, MARCH, D
from page_tables import PageTables

import fundlab as fl
from fundlab import cli, reports
from fundlab.base.errors import AnalysisError, InvalidRequest, StoreError, install_command
from fundlab.evidence.closes import closes_of
from fundlab.reports import inputs

STEM = "close-2026-02"
SAID = {"Adjusted balance per bank": "adjusted_bank", "Difference": "difference",
        "Adjusted balance per transfers": "adjusted_service"}  # fmt: skip
"""Lines of the workbook, and the codes that the CSV has for them."""
TABLES = ["roll-forward", "lines", "reconciliation", "proof-of-cash", "flux", "open-items",
          "ageing", "restatements", "decisions", "control-totals", "data"]  # fmt: skip
"""Of a pack without the bank's side and without a sample, a CSV file each."""
BESIDE = {"pack.json", *(f"{STEM}.{end}" for end in ("pdf", "xlsx", "json")),
          *(f"{STEM}.{name}.csv" for name in TABLES)}  # fmt: skip
"""The files beside the page."""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[fl.Store, Path]:
    """A store whose February was closed, moved and restated, and the pack of that."""
    folder = tmp_path_factory.mktemp("pack")
    month = months.made(folder / "store", 21)
    waiting = month.add(MARCH - 86_400 * 10**9, "PENDING")
    month.sync(months.CLOSED_AT + 1)
    store = month.store
    store.close("2026-02", by="Ana")
    months.turn(month, 4, (months.late, months.amended))
    store.annotate(waiting["id"], owner="Ben", comment="asked, <b>twice</b>", by="Ana")
    store.annotate(waiting["id"], decision="wait", by="Ana")
    config = folder / "config" / "fundlab" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[names]\n"{waiting["profile_id"]}" = "Treasury"\nanother = "Nobody"\n')
    config.chmod(0o600)
    with pytest.MonkeyPatch.context() as named:  # the names of the close, not those of the pack
        named.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        closed = store.close("2026-02", by="Ana", note="again", restate="two rows came late")
    reports.write_pack(store, closed, folder / "pack")
    return store, folder / "pack"


def of_page(pack: Path) -> dict[str, list[dict[str, str]]]:
    page = PageTables((pack / f"{STEM}.html").read_text(encoding="utf-8"))
    return {
        caption: [dict(zip([h.lower() for h in rows[0]], row, strict=True)) for row in rows[1:]]
        for caption, rows in page.by_caption.items()
    }


def of_csv(pack: Path, name: str) -> list[dict[str, str]]:
    with (pack / f"{STEM}.{name}.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def of_workbook(pack: Path, name: str) -> list[dict[str, str]]:
    """Below a title, a line and a gap; columns by their headers, written as in a CSV."""
    sheet = openpyxl.load_workbook(pack / f"{STEM}.xlsx")[name]
    rows = [["" if cell is None else str(cell) for cell in row] for row in sheet.values][3:]
    names = [head.lower().replace(" ", "_") for head in rows[0]]
    return [dict(zip(names, row, strict=True)) for row in rows[1:]]


def of_pdf(pack: Path) -> dict[str, list[list[str]]]:
    """The cells of each line below a caption; columns stand at least two spaces apart."""
    found: dict[str, list[list[str]]] = {}
    captions, caption = of_page(pack), ""
    for page in pypdf.PdfReader(pack / f"{STEM}.pdf").pages:
        for line in page.extract_text(extraction_mode="layout").splitlines():
            words = line.strip().replace("\u200b", "")
            caption = words if words in captions else caption
            found.setdefault(caption, []).append([*filter(None, words.split("  "))])
    return found


def amount(text: str) -> Decimal:
    return D(0) if text in ("", "–") else D(text.replace(",", ""))


def check_foots(rows: list[dict[str, str]], profile: str) -> None:
    """Across to the closing, and down to the sum of each asset."""
    sides = [name for name in rows[0] if name not in ("asset", "profile", "profile_id")]
    below: dict[tuple[str, str], Decimal] = {}
    for row in rows:
        across = sum((amount(row[name]) for name in sides if name != "closing"), D(0))
        assert across == amount(row["closing"]), row
        for name in sides:
            key = row["asset"], name
            if row[profile] == "All profiles":
                assert below[key] == amount(row[name]), key
            below[key] = below.get(key, D(0)) + amount(row[name])
    assert len(rows) > 4


def of_paper(pack: Path, caption: str) -> list[dict[str, str]]:
    """The rows of a table of the PDF in which no cell is empty, as the page heads their columns."""
    cells = ([each.strip() for each in row if each.strip()] for row in of_pdf(pack)[caption])
    heads, *printed = (row for row in cells if len(row) > 1)
    names = [head.lower() for head in heads]
    return [dict(zip(names, row, strict=True)) for row in printed if len(row) == len(names)]


@pytest.mark.seconds
@exactly()
def test_every_printed_roll_forward_foots(packed: tuple[fl.Store, Path]) -> None:
    pack = packed[1]
    page = of_page(pack)
    check_foots(page["Roll-forward by asset and profile"], "profile")
    check_foots(of_csv(pack, "roll-forward"), "profile_id")
    check_foots(of_workbook(pack, "Roll forward"), "profile_id")
    caption = "Roll-forward by asset and profile"
    assert of_paper(pack, caption) == page[caption]
    lines = [page["Receipts and disbursements by type"], of_csv(pack, "lines")]
    for rows, profile in zip([*lines, of_workbook(pack, "Lines")],
                             ("profile", "profile_id", "profile_id"), strict=True):  # fmt: skip
        sums: dict[tuple[str, str], Decimal] = {}
        for row in rows:
            sign = -1 if row["line"] == "closing" else 1
            key = row["asset"], row[profile]
            sums[key] = sums.get(key, D(0)) + sign * amount(row["amount"])
        assert set(sums.values()) == {D(0)}


@pytest.mark.thorough
def test_a_long_table_has_its_first_500_rows_on_paper_and_says_where_all_are(
    tmp_path: Path,
) -> None:
    month = months.made(tmp_path / "store", 21)
    for place in range(520):
        month.add(MARCH - (place + 1) * 10**9, "PENDING")
    month.sync(months.CLOSED_AT + 1)
    reports.write_pack(month.store, month.store.close("2026-02", by="Ana"), tmp_path / "pack")
    caption, pack = "Open items at the period's end, oldest first", tmp_path / "pack"
    ids = [row["id"] for row in of_csv(pack, "open-items")]
    assert len(ids) > 520
    for rows, name in ((of_page(pack)[caption], "item"), (of_workbook(pack, "Open items"), "id")):
        assert [row[name] for row in rows] == ids
    printed = " ".join(cell for line in of_pdf(pack)[caption] for cell in line)
    assert re.findall(r"\bt-\d{5}\b", printed) == ids[:500]
    assert (
        f"The first 500 of {len(ids)} rows; the page, the workbook and the CSV of this table have "
        "them all."
    ) in printed


@pytest.mark.thorough
def test_a_profile_has_the_name_it_had_when_the_period_was_closed(
    packed: tuple[fl.Store, Path],
) -> None:
    store, pack = packed
    assert {*closes_of(store.records())[-1].names.values()} == {"Treasury"}
    rows = of_page(pack)["Roll-forward by asset and profile"]
    assert "Treasury" in {row["profile"] for row in rows}
    page = (pack / f"{STEM}.html").read_text(encoding="utf-8")
    (whole,) = {*re.findall(r'title="([^"]+)">Treasury<', page)}
    assert f"Treasury ({whole})" in page


@pytest.mark.seconds
@exactly()
def test_the_other_tables_foot_as_printed(packed: tuple[fl.Store, Path]) -> None:
    pack = packed[1]
    page = of_page(pack)
    caption, printed = "From the closing to what the service reports", "learned since"
    named = ("closing", "moved_after", "held", "learned_since")
    shown = ("closing", "settled after", "held by pending", printed)
    for rows, parts in (
        (page[caption], shown),
        (of_paper(pack, caption), shown),
        (of_csv(pack, "reconciliation"), named),
        (of_workbook(pack, "Reconciliation"), ("held_by_pending", *named[:2], named[3])),
    ):
        assert rows
        for row in rows:
            assert sum((amount(row[name]) for name in parts), D(0)) == amount(row["rebuilt"])
            assert amount(row["reported"]) - amount(row["rebuilt"]) == amount(row["difference"])
    parts = ("opening", "receipts", "disbursements")
    for rows in (
        page["Proof of cash"],
        of_paper(pack, "Proof of cash"),
        of_csv(pack, "proof-of-cash"),
        of_workbook(pack, "Proof of cash"),
    ):
        books = [row for row in rows if row["side"] == "books"]
        assert books
        for row in books:
            assert sum((amount(row[name]) for name in parts), D(0)) == amount(row["closing"])
    items = page["Open items at the period's end, oldest first"]
    for ages, ones in (
        (page["Open items at the period's end, by age"], items),
        (of_csv(pack, "ageing"), of_csv(pack, "open-items")),
        (of_workbook(pack, "Ageing"), of_workbook(pack, "Open items")),
    ):
        totals = [sum((amount(row["total"]) for row in rows), D(0)) for rows in (ages, ones)]
        assert totals[0] == totals[1]
    assert (
        of_paper(pack, "Open items at the period's end, by age")
        == page["Open items at the period's end, by age"]
    )
    noted = [row for row in items if row["owner"] == "Ben"]
    assert [row["comment"] for row in noted] == ["asked, <b>twice</b>"]
    records = [one for one in packed[0].records() if one.kind == "close"]
    first, second = (records[place].content["lines"] for place in (0, -1))
    closings = [
        {tuple(row[:2]): D(row[-1]) for row in lines if row[2] == "closing"}
        for lines in (first, second)
    ]
    for rows, then in (
        (page["What was restated, transfer by transfer"], "closed"),
        (of_csv(pack, "restatements"), "then"),
        (of_workbook(pack, "Restatements"), "then"),
    ):
        for row in rows:
            assert amount(row["now"]) - amount(row[then]) == amount(row["difference"])
    restated = sum(
        (amount(row["difference"]) for row in page["What was restated, transfer by transfer"]), D(0)
    )
    assert restated == sum(closings[1].values()) - sum(closings[0].values())
    assert restated


@pytest.mark.thorough
def test_the_same_bytes_in_another_process_context_zone_locale_and_hash_seed(
    packed: tuple[fl.Store, Path], tmp_path: Path
) -> None:
    store = packed[0]
    script = (
        "import decimal, sys, fundlab as fl\nfrom fundlab import reports\n"
        "decimal.setcontext(decimal.Context(prec=5, rounding=decimal.ROUND_UP))\n"
        "store = fl.Store(sys.argv[1])\n"
        "close = reports.find_close(store, '2026-02', 'settled')\n"
        "reports.write_pack(store, close, sys.argv[2], sys.argv[3:], window=5)"
    )
    bank = statement_of(store, tmp_path / "february.csv", ("2026-02-03", "-12.00"))
    close = reports.find_close(store, "2026-02", "settled")
    assert close is not None
    reports.write_pack(store, close, tmp_path / "pack", [bank], window=5)
    given = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "5"}
    paths = map(str, (store.path, tmp_path / "again", bank))
    arguments = [sys.executable, "-c", script, *paths]
    subprocess.run(arguments, check=True, env={**os.environ, **given})
    digests = [
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        for folder in (tmp_path / "pack", tmp_path / "again")
    ]
    assert digests[0] == digests[1]
    bank_side = ("1-february.csv", "reconciliation.csv", "proof-of-cash.csv", "items.csv")
    bank_files = {f"{STEM}.bank-{name}" for name in bank_side} | {f"{STEM}.bank.json"}
    assert {*digests[0]} == {f"{STEM}.html", *BESIDE, *bank_files}


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed here")
def test_each_sheet_of_the_workbook_prints_as_wide_as_its_paper(
    packed: tuple[fl.Store, Path], tmp_path: Path
) -> None:
    profile, book = f"-env:UserInstallation=file://{tmp_path}/office", packed[1] / f"{STEM}.xlsx"
    command = ["soffice", profile, "--headless", "--convert-to", "pdf", "--outdir", tmp_path, book]
    subprocess.run(command, check=True, capture_output=True, timeout=180)
    pages = [page.extract_text() for page in pypdf.PdfReader(tmp_path / f"{STEM}.pdf").pages]
    assert "Close of 2026-02" in pages[0]
    assert "Verdict" in pages[0]
    sheets = [name for name in openpyxl.load_workbook(book).sheetnames if name != "Notes"]
    for sheet in sheets:  # one page each, as none of them is longer than a page
        footer = "Close of 2026-02" if sheet == "Close" else f"{sheet} · Close of 2026-02"
        mine = [text for text in pages if text.count(footer) >= 2]  # as title and as footer
        assert len(mine) == 1 or sheet in ("Lines", "Close"), sheet


@pytest.mark.seconds
def test_reperform_names_a_changed_byte_a_changed_row_and_a_removed_part(
    packed: tuple[fl.Store, Path], tmp_path: Path
) -> None:
    store, pack = packed
    assert reports.reperform(store, pack) == []
    other = shutil.copytree(pack, tmp_path / "pack")
    names = [f"{STEM}.html", f"{STEM}.json", f"{STEM}.pdf", f"{STEM}.roll-forward.csv"]
    for name in names:
        text = bytearray((other / name).read_bytes())
        text[len(text) // 2] ^= 1
        (other / name).write_bytes(bytes(text))
    path = other / f"{STEM}.lines.csv"
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([*rows[:2], rows[2].replace('"', "'"), *rows[3:]]), encoding="utf-8")
    (other / f"{STEM}.xlsx").unlink()
    found = reports.reperform(store, other)
    for name in names:
        assert any(re.match(rf"{name} differs (at|from) byte ", line) for line in found), name
    (row,) = [line for line in found if line.startswith(f"{STEM}.lines.csv differs")]
    assert "line 3: " in row
    assert f"{STEM}.xlsx is missing" in found
    assert len(found) == 2 * len(names) + 3
    (other / "pack.json").write_text("{}")
    assert reports.reperform(store, other) == ["pack.json is not what was written"]
    with pytest.raises(InvalidRequest, match=r"holds no close pack: there is no pack\.json"):
        reports.reperform(store, tmp_path)
    without = fl.Store(shutil.copytree(str(store.path), tmp_path / "store"))
    part = sorted((tmp_path / "store" / "transfers").glob("*.parquet"))[0]
    part.unlink()
    assert any("transfers" in line and "missing" in line
               for line in reports.reperform(without, pack))  # fmt: skip
    with pytest.raises(StoreError, match="has no close"):
        reports.reperform(fl.Store(tmp_path / "empty"), pack)


@pytest.mark.thorough
def test_packs_of_several_closes_in_one_folder_are_all_performed_again(
    packed: tuple[fl.Store, Path], tmp_path: Path
) -> None:
    store = fl.Store(shutil.copytree(str(packed[0].path), tmp_path / "store"))
    folder = shutil.copytree(packed[1], tmp_path / "pack")
    reports.write_pack(store, store.close("2026-01", by="Ana"), folder)
    assert reports.reperform(store, folder) == []
    page = folder / f"{STEM}.html"
    intact = page.read_text(encoding="utf-8")
    page.write_text(intact.replace("Ana", "Eve"), encoding="utf-8")
    found = reports.reperform(store, folder)
    assert found[0] == f"{STEM}.html is not what pack.json names"
    assert found[1].startswith(f"{STEM}.html differs at byte ")
    page.write_text(intact, encoding="utf-8")
    manifest = json.loads((folder / "pack.json").read_text(encoding="utf-8"))
    del manifest[STEM]
    (folder / "pack.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert f"{STEM}.html is of no pack that pack.json names" in reports.reperform(store, folder)
    (folder / "pack.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"pack\.json is not what was written"):
        reports.write_pack(store, closes_of(store.records())[0], folder)


@pytest.mark.seconds
def test_how_far_a_pack_is_can_be_seen_and_the_rows_of_its_workbook(
    packed: tuple[fl.Store, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, folder = packed
    with caplog.at_level(logging.INFO, "fundlab"):
        reports.write_pack(store, closes_of(store.records())[-1], tmp_path)
    tables = {path.name for path in folder.glob("*.csv")}
    assert tables == {path.name for path in tmp_path.glob("*.csv")}
    assert any(re.match("the pack of 2026-02: 5 steps in ", line) for line in caplog.messages)
    rows = next(m[1] for line in caplog.messages if (m := re.match(
        r"writing the workbook: ([\d,]+) rows in ", line)))  # fmt: skip
    book = openpyxl.load_workbook(tmp_path / f"{STEM}.xlsx")
    filtered = [sheet.auto_filter.ref for sheet in book if sheet.auto_filter.ref]
    ends = [re.findall(r"\d+", place) for place in filtered]
    assert int(rows.replace(",", "")) == sum(int(last) - int(first) for first, last in ends)


@pytest.fixture(scope="module")
def closed_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[fl.Store, Path]:
    """A store that is closed by when transfers were created, and its pack."""
    folder = tmp_path_factory.mktemp("once")
    store = months.made(folder / "store", 3).store
    reports.write_pack(store, store.close("2026-02", "created", by="Ana"), folder / "pack")
    return store, folder / "pack"


@pytest.mark.parametrize("when", ["from the start", "once its rows are read"])
def test_what_is_beyond_the_memory_is_said_in_one_line(
    closed_once: tuple[fl.Store, Path], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    store, pack = closed_once
    hold = inputs.hold_in_duckdb

    def little(*given: Any) -> Any:
        connection = given[-1]
        if when == "from the start":
            connection.execute("SET temp_directory = ''; SET memory_limit = '2MB'")
            return hold(*given)
        rows = hold(*given)
        connection.execute("SET temp_directory = ''; SET memory_limit = '2MB'")
        return rows

    monkeypatch.setattr(inputs, "hold_in_duckdb", little)
    with pytest.raises(AnalysisError, match="Out of Memory") as told:
        store.close("2026-02", by="Ana")
    assert "\n" not in str(told.value)
    assert len(store.closes()) == 1
    (line,) = reports.reperform(store, pack)
    assert "Out of Memory" in line
    assert "\n" not in line


@pytest.mark.seconds
def test_the_commands_write_the_pack_and_perform_it_again(
    packed: tuple[fl.Store, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--store", str(packed[0].path)]
    cli.run(["close", "2026-02", "--out", str(tmp_path / "pack"), *where])
    assert f"the pack is {tmp_path / 'pack' / STEM}.html and {len(BESIDE)} files beside it" in (
        capsys.readouterr().out
    )
    assert {path.name for path in (tmp_path / "pack").iterdir()} == {f"{STEM}.html", *BESIDE}
    cli.run(["reperform", str(tmp_path / "pack"), *where])
    assert capsys.readouterr().out.startswith("every figure and file of ")
    (tmp_path / "pack" / f"{STEM}.html").write_text("signed")
    with pytest.raises(cli.typer.Exit) as end:
        cli.run(["reperform", str(tmp_path / "pack"), *where])
    assert end.value.exit_code == 3


@pytest.mark.seconds
def test_a_pack_says_of_which_records_and_with_what_it_was_made(
    packed: tuple[fl.Store, Path], tmp_path: Path
) -> None:
    store, pack = packed
    other = shutil.copytree(pack, tmp_path / "pack")
    path = other / "pack.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    (first,) = manifest.values()
    page = of_page(pack)
    assert first["last_record"] == store.records()[first["records"] - 1].hash
    first["records"] -= 1
    path.write_text(json.dumps(manifest), encoding="utf-8")
    said = f"pack.json says that {STEM} was made when there were {first['records']} records"
    found = reports.reperform(store, other)
    assert found[0].startswith(said)
    assert found[0].endswith(f"which is record {first['records'] + 1}")
    assert [line.split()[0] for line in found] == ["pack.json", "pack.json"]
    first["last_record"] = "0" * 64
    first["versions"]["typst"] = "0.1"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    found = reports.reperform(store, other)
    assert found[0].endswith("which the store does not have")
    assert f"{STEM} was made with typst 0.1, and here is " in found[-1]
    store = fl.Store(shutil.copytree(str(store.path), tmp_path / "store"))
    store.close("2026-01", by="Ana")  # is no part of what February says
    reports.write_pack(store, closes_of(store.records())[1], other)
    assert of_page(other) == page
    assert (other / "pack.json").read_bytes() == (pack / "pack.json").read_bytes()


@pytest.mark.seconds
def test_without_typst_the_pack_has_no_pdf_and_says_how_to_get_one(
    packed: tuple[fl.Store, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = ["--store", str(packed[0].path)]
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(InvalidRequest, match=rf"{STEM}\.pdf cannot be made again: there is no PDF"):
        reports.reperform(*packed)
    cli.run(["close", "2026-02", "--out", str(tmp_path / "pack"), *where])
    out = capsys.readouterr().out
    assert f"html and {len(BESIDE) - 1} files beside it" in out
    assert f"there is no PDF: it needs typst, {install_command('pdf')}" in out
    assert not [*(tmp_path / "pack").glob("*.pdf")]
    assert reports.reperform(packed[0], tmp_path / "pack") == []


@exactly()
def statement_of(
    store: fl.Store,
    path: Path,
    *more: tuple[str, str],
    month: str = "2026-02",
    balance: Decimal = Decimal(10**6),
) -> Path:
    """A bank's statement of a month: what settled then on our accounts there, and ``more``."""
    rows = store.read("transfers", settled=True)
    at_bank = rows["type"].isin(["WIRE_DEPOSIT", "WIRE_WITHDRAWAL", "CUBIX_WITHDRAWAL"])
    rows = rows[at_bank & (rows["asset"] == "USD") & rows["settled_at"].notna()]
    moved = [
        (
            row.settled_at.date().isoformat(),
            row.amount if row.direction == "CREDIT" else -row.amount,
        )
        for row in rows.itertuples()
    ]
    lines = ["date,amount,balance"]
    for day, change in sorted([*moved, *((day, D(text)) for day, text in more)]):
        if day.startswith(month):
            balance += change
            lines.append(f"{day},{change},{balance}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.thorough
def test_the_banks_side_is_in_the_pack_and_performed_again(
    packed: tuple[fl.Store, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = fl.Store(shutil.copytree(str(packed[0].path), tmp_path / "store"))
    whole = statement_of(store, tmp_path / "february.csv", ("2026-02-03", "-12.00"))
    folder = tmp_path / "pack"
    command = ["close", "2026-02", "--store", str(store.path), "--out", str(folder)]
    with pytest.raises(cli.typer.BadParameter, match="give the pack's folder with --out"):
        cli.run([*command[:4], "--bank", str(whole)])
    with pytest.raises(cli.typer.Exit) as end:
        cli.run([*command, "--bank", str(whole), "--window", "5"])
    assert end.value.exit_code == 3
    assert "\nBank: 1 item unexplained" in capsys.readouterr().out
    assert reports.reperform(store, folder) == []

    page = of_page(folder)
    said = json.loads((folder / f"{STEM}.bank.json").read_text(encoding="utf-8"))
    proofs = [page["Proof of cash"], of_csv(folder, "bank-proof-of-cash"),
              of_workbook(folder, "Bank proof of cash")]  # fmt: skip
    proof = [{k: "" if v is None else v for k, v in row.items()} for row in said["proof"]]
    captions = list(of_pdf(folder))
    assert "Bank reconciliation" in captions
    (item,) = page["Open items at the bank, oldest first"]
    assert (item["amount"], item["state"]) == ("-12.00", "✗ unexplained")
    for rows in (*proofs[1:], proof):
        lines = {SAID.get(row["line"], row["line"]): row for row in rows}
        for row in rows:
            parts = [amount(row[name]) for name in ("opening", "receipts", "disbursements")]
            assert parts[0] + parts[1] - parts[2] == amount(row["closing"]), row
        for name in ("opening", "closing"):
            adjusted = [amount(lines[f"adjusted_{side}"][name]) for side in ("bank", "service")]
            assert adjusted[0] - adjusted[1] == amount(lines["difference"][name])
    assert amount(of_workbook(folder, "Bank items")[0]["amount"]) == D(-12)

    entry = of_csv(folder, "bank-items")[0]["item_id"]
    store.annotate(entry, decision="accepted", owner="Ben", comment="a fee", by="Ana")
    assert reports.reperform(store, folder) == []  # of the records that were there
    cli.run(command)  # the statements that were given stay
    assert "\nBank: All explained." in capsys.readouterr().out
    assert reports.reperform(store, folder) == []
    (item,) = of_page(folder)["Open items at the bank, oldest first"]
    assert (item["owner"], item["comment"], item["state"]) == ("Ben", "a fee", "explained")

    copy = folder / f"{STEM}.bank-1-february.csv"
    assert copy.read_bytes() == whole.read_bytes()
    copy.write_text(copy.read_text("utf-8").replace("-12.00", "-12.01"), encoding="utf-8")
    found = reports.reperform(store, folder)
    assert f"{copy.name} is not what pack.json names" in found
    assert any(line.startswith(f"{STEM}.bank-proof-of-cash.csv differs") for line in found)
    with pytest.raises(cli.typer.Exit) as end:
        cli.run(command)
    assert end.value.exit_code == 1
    assert "names: give the statements" in capsys.readouterr().err
    copy.unlink()
    (folder / f"{STEM}.bank-2-february.sta").touch()
    assert reports.reperform(store, folder)[:3] == [
        f"{STEM}.bank-2-february.sta is of no pack that pack.json names",
        f"{copy.name} is missing",
        f"{STEM} was not made again: a file of the bank is missing",
    ]
    manifest = folder / "pack.json"
    manifest.write_text(
        manifest.read_text("utf-8").replace(copy.name, "../x.csv"), encoding="utf-8"
    )
    assert reports.reperform(store, folder) == [
        "pack.json is not what was written: it names '../x.csv'"
    ]


@pytest.mark.seconds
def test_a_pack_stays_as_it_is_where_another_one_cannot_be_made_in_its_place(
    packed: tuple[fl.Store, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fundlab: Any
) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)  # the PDF is another test's matter
    folder, broken = tmp_path / "pack", tmp_path / "broken.xml"
    good = statement_of(packed[0], tmp_path / "february.csv")
    broken.write_text("<x>no statement</x>", encoding="utf-8")
    asked = ("close", "2026-02", "--store", packed[0].path, "--out", folder)

    def held() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    status, _, _ = fundlab(*asked, "--bank", good, "--window", 5)
    before = held()
    assert (status, before[f"{STEM}.bank-1-february.csv"]) == (0, good.read_bytes())
    status, _, err = fundlab(*asked, "--bank", broken)
    assert (status, f"{broken} is not" in err, held() == before) == (1, True, True)
    closed = next(one for one in closes_of(packed[0].records()) if one.state == "closed")
    with pytest.raises(AnalysisError, match=f"^{re.escape(str(broken))} is not a valid camt.053"):
        reports.write_pack(packed[0], closed, folder, [broken])

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    other = statement_of(packed[0], tmp_path / "february.csv", ("2026-02-03", "-12.00"))
    with monkeypatch.context() as late:  # the statements and the page are written by then
        late.setattr(reports.pack_files, "write_csv", full)
        status, _, err = fundlab(*asked, "--bank", other)
    assert (status, "No space left on device" in err, held() == before) == (1, True, True)
    taken = folder / f"{STEM}.lines.csv"
    del before[taken.name]
    taken.unlink()
    taken.mkdir()  # all other files could take their places
    status, _, err = fundlab(*asked, "--bank", other)
    said = f"{taken} cannot be written (Is a directory)" in err
    assert (status, said, held() == before) == (1, True, True)
    taken.rmdir()
    third = other.rename(tmp_path / "other.csv")
    assert fundlab(*asked, "--bank", third)[0] == 3
    assert {name for name in held() if "bank-1" in name} == {f"{STEM}.bank-1-other.csv"}
    assert reports.reperform(packed[0], folder) == []


@pytest.mark.thorough
def test_what_is_open_is_carried_with_its_notes_until_it_clears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)  # the PDF is another test's matter
    month, april, may = months.made(tmp_path / "store", 21), MARCH + 31 * DAY, MARCH + 61 * DAY
    store = month.store
    waiting = month.add(MARCH - DAY, "PENDING")
    month.sync(months.CLOSED_AT + 1)
    store.annotate(waiting["id"], owner="Ben", comment="asked", by="Ana")
    file, balance = tmp_path / "bank.csv", D(10**6)

    def packed_month(period: str, *more: tuple[str, str], carried: Path | None = None) -> Path:
        nonlocal balance
        statement_of(store, file, *more, month=period, balance=balance)
        balance = D(file.read_text("utf-8").split()[-1].rpartition(",")[2])
        folder = tmp_path / period
        options = {} if carried is None else {"carried": str(carried)}
        close = store.close(period, by="Ana", with_breaks="of a test")
        reports.write_pack(store, close, folder, [file], window=5, **options)
        return folder

    def items(folder: Path, name: str) -> dict[str, dict[str, str]]:
        with (folder / f"close-{folder.name}.{name}.csv").open(encoding="utf-8-sig") as text:
            return {row.get("id") or row["item_id"]: row for row in csv.DictReader(text)}

    february = packed_month("2026-02", ("2026-02-03", "-12.00"))
    (entry,) = (
        name for name, row in items(february, "bank-items").items() if D(row["amount"]) == -12
    )
    store.annotate(entry, owner="Eve", comment="asked the bank", by="Ana")
    row = month.add(MARCH + 3 * DAY, "COMPLETED", MARCH + 3 * DAY)
    row |= {"type": "WIRE_DEPOSIT", "direction": "CREDIT", "asset": "USD", "fee": "0",
            "total": row["amount"]}  # fmt: skip
    row.pop("balance_asset", None)
    month.sync(april + 2 * DAY)
    march = packed_month("2026-03", carried=february / "close-2026-02.bank.json")
    kept = items(march, "bank-items")[entry]
    assert (D(kept["amount"]), kept["owner"], kept["comment"]) == (-12, "Eve", "asked the bank")
    assert int(kept["age"]) > int(items(february, "bank-items")[entry]["age"])
    opened = items(march, "open-items")[waiting["id"]]
    assert (opened["owner"], opened["comment"], opened["age"]) == ("Ben", "asked", "31–60 days")
    assert reports.reperform(store, march) == []
    store.annotate(entry, decision="accepted", comment="a fee", by="Ana")
    waiting |= {"status": "COMPLETED", "updated_at": months.text(april + 4 * DAY)}
    month.says_completed(waiting, april + 4 * DAY)
    month.sync(may + 2 * DAY)
    last = march / "close-2026-03.bank.json"
    later = packed_month("2026-04", ("2026-04-20", "-1"), carried=last)
    assert waiting["id"] not in items(later, "open-items")
    assert entry not in items(later, "bank-items") or items(later, "bank-items")[entry]["explained"]


@pytest.mark.seconds
def test_an_audit_sample_is_in_the_pack_when_asked_for_and_drawn_again(
    packed: tuple[fl.Store, Path], tmp_path: Path, fundlab: Any
) -> None:
    store, pack = packed
    asked = ("close", "2026-02", "--store", store.path, "--out", tmp_path, "--json")
    status, out, _ = fundlab(*asked, "--sample", 3, "--seed", 5, "--sample-asset", "USDC")
    assert (status, json.loads(out)["changed"]) == (0, False)
    close = reports.find_close(store, "2026-02", "settled")
    assert close is not None
    drawn = fl.audit.sample(
        "2026-02", store, size=3, seed=5, asset="USDC", basis="settled", pin=close.pin
    )
    with (tmp_path / f"{STEM}.audit-sample.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [row["transfer_id"] for row in rows] == drawn.rows["transfer_id"].tolist() != []
    page = (tmp_path / f"{STEM}.html").read_text(encoding="utf-8")
    for said in (*drawn.facts.values(), "The sample, to be filled in"):
        assert said in page
    assert reports.reperform(store, tmp_path) == []
    fundlab(*asked)  # what is there stays
    assert (tmp_path / f"{STEM}.audit-sample.csv").exists()
    assert reports.reperform(store, tmp_path) == []
    assert not [*pack.glob("*audit*")]
    assert fundlab(*asked[:4], "--sample", 3)[0] == 2


def test_a_month_whose_pack_cannot_be_written_is_said_to_be_closed(
    tmp_path: Path, fundlab: Any
) -> None:
    month, place = months.made(tmp_path / "store", 3), tmp_path / "a file"
    place.touch()
    asked = ("close", "2026-02", "--store", month.store.path, "--out", place)
    status, out, err = fundlab(*asked)
    assert (status, err.count("\n")) == (1, 1)
    said = f"2026-02 (settled basis) is closed, but its pack is not written: {place}"
    assert said in err
    assert "closed at" in out
    assert len(month.store.closes()) == 1
    status, out, _ = fundlab(*asked, "--json")
    body = json.loads(out)
    assert (status, body["closed"], body["changed"]) == (1, True, False)
    assert body["error"]["type"] == "NotADirectoryError"
    assert body["error"]["message"].startswith(said)


def test_a_sample_of_another_asset_is_refused_before_anything_is_closed(
    tmp_path: Path, fundlab: Any
) -> None:
    month = months.made(tmp_path / "store", 1)
    asked = ("close", "2026-02", "--store", month.store.path, "--out", tmp_path / "pack",
             "--with-breaks", "--reason", "dates before creation")  # fmt: skip
    status, _, err = fundlab(*asked, "--sample", 5, "--sample-asset", "usd")
    assert (status, "asset='usd': no completed transfer moved it" in err) == (1, True)
    assert month.store.closes().empty
    assert not (tmp_path / "pack").exists()


@pytest.mark.seconds
def test_what_changed_against_the_month_before_adds_up(packed: tuple[fl.Store, Path]) -> None:
    store, pack = packed
    close = reports.find_close(store, "2026-02", "settled")
    assert close is not None
    rows = store.read("transfers", settled=True, pin=close.pin)
    rows = rows[(rows["status"] == "COMPLETED") & ~rows["type"].astype(str).str.startswith("INT")]
    rows = rows.assign(asset=rows["balance_asset"].fillna(rows["asset"]))
    net: dict[str, Decimal] = {}
    said: dict[str, Decimal] = {}
    with exactly():
        for row in rows.itertuples():
            sides = {"2026-01": -1, "2026-02": 1, "DEBIT": -1, "CREDIT": 1}
            sign = sides.get(f"{row.settled_at:%Y-%m}", 0) * sides[row.direction]
            net[row.asset] = net.get(row.asset, D(0)) + sign * row.total
        for line in of_csv(pack, "flux"):
            said[line["asset"]] = said.get(line["asset"], D(0)) + D(line["difference"])
    assert said == {asset: amount for asset, amount in net.items() if amount}


@pytest.mark.thorough
def test_the_file_that_names_the_others_takes_its_place_last(
    packed: tuple[fl.Store, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the power fails between two of them it is not the one that vouches for new bytes."""
    order: list[str] = []
    rename = Path.replace

    def noted(self: Path, target: Path) -> Path:
        order.append(Path(target).name)
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", noted)
    store, _ = packed
    (closed,) = [one for one in closes_of(store.records()) if one.state == "closed"]
    files = reports.write_pack(store, closed, tmp_path)
    assert order[-1] == "pack.json"
    assert sorted(order) == sorted(path.name for path in files)


def test_a_close_that_was_just_made_can_be_copied(tmp_path: Path) -> None:
    store = fl.Store(months.made(tmp_path / "store", 3).store.path)
    made = store.close("2026-02", by="Ana")
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    assert dataclasses.asdict(made)["record"]["content"] == made.content
    held = "_rows"
    assert held in vars(made.seen.rows)
    for name, close in (("made", made), ("copied", copy.deepcopy(made)), ("again", made)):
        reports.write_pack(store, close, tmp_path / name)
        assert held not in vars(close.seen.rows)  # they are read again where they are asked for
    csvs = sorted(path.name for path in (tmp_path / "made").glob("*.csv"))
    assert csvs
    for name in csvs:
        content = (tmp_path / "made" / name).read_bytes()
        assert all((tmp_path / one / name).read_bytes() == content for one in ("copied", "again"))
