"""The bank's side in a report: the same figures as ``fundlab bank``, on page and in files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from bank_books import COLUMNS, made_month
from test_report import build, transfers, undrawn

import fundlab as fl
from fundlab import bank
from fundlab.base.errors import InvalidRequest
from fundlab.reports.job import sources
from fundlab.reports.page import render_html
from fundlab.reports.report_files import for_people, sheets
from fundlab.reports.sections import bank_tables

__all__ = ["undrawn"]

Command = Callable[..., tuple[int, str, str]]
D = Decimal
AMOUNTS = {"statement": ["amount"], "proof": [*COLUMNS], "items": ["amount"]}
SHEETS = {"statement": "Bank reconciliation", "proof": "Bank proof of cash",
          "items": "Bank open items"}  # fmt: skip


def shown(cell: str) -> Decimal | None:
    return None if cell == "unknown" else D(cell.replace(",", ""))


def exact(amount: Any) -> Decimal | None:
    return None if amount is None else D(amount)


@pytest.fixture(scope="module")
def empty_report() -> Any:
    return build(transfers(), None)


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.seconds) for n in (0, *range(2, 12)))]
)
def test_page_sheets_json_and_text_say_the_same(
    seed: int, empty_report: Any, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    rows, read = made_month(tmp_path, rng)
    cut = (
        rng.random() < 0.3
    )  # the head of the statement is not there: what is not known is not said
    if cut:
        read = replace(read, statements=read.statements.assign(opening_on=None))
        entries = read.entries.iloc[len(read.entries) // 2 :]
        read = replace(read, entries=entries.reset_index(drop=True))
    found = bank.reconcile(rows, read, "2026-01", balance=rng.choice((None, "10000")))
    body = found.to_json()
    report = replace(empty_report, bank=found)
    assert report.to_json()["bank"] == body
    assert json.loads(json.dumps(body)) == body
    assert report.is_alarming == (not body["ok"])
    assert body["verdict"] in report.text
    assert (f"{body['unexplained']} item" in body["verdict"]) == (body["unexplained"] > 0)

    tables, books = bank_tables(found), {sheet.name: sheet.rows for sheet in sheets(report)}
    seen = {sheet.name: sheet.rows for sheet in for_people(report, sheets(report))}
    assert seen[SHEETS["statement"]]["items"].to_pylist() == [
        row["items"] for row in body["statement"]
    ]
    assert pa.types.is_integer(seen[SHEETS["statement"]]["items"].type)  # a float has no exact text
    for name, columns in AMOUNTS.items():
        table, told = tables[f"bank_{name}"], body[name]
        sheet = books[SHEETS[name]].to_pylist()
        assert len(told) == len(sheet)
        for column in columns:
            place = next(
                at for at, (label, _) in enumerate(table.columns)
                if label.lower() == column
            )  # fmt: skip
            said = [exact(row[column]) for row in told]
            assert [shown(row[place].text) for row in table.rows] == said[: len(table.rows)]
            assert [row[column] for row in sheet] == said
    figures = [text.split() for text in found.text.split("\n\n")[0].split("\n")]
    for row in body["statement"]:
        amount = "unknown" if row["amount"] is None else f"{D(row['amount']):,.2f}"
        label, items = row["label"].split(), [f"({row['items']})"] * (row["items"] is not None)
        lines = [words for words in figures if words[: len(label)] == label]
        if items == ["(0)"]:  # a kind without items is not in the figures
            assert (amount, lines) == ("0.00", [])
        else:
            assert lines == [[*label, *items, amount]]
    ages = [row["age"] for row in body["items"]]
    assert ages == sorted(ages, reverse=True)


@pytest.fixture(scope="module")
def october(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("october")
    with fl.sandbox.serve(seed=7, transfers=600, clock="manual") as sandbox:
        fl.Store(folder / "books").sync(sandbox.connect(), progress=False)
        wrong = {"netted_fee": "15", "errors": {"missing": 1, "charge": 1}}
        for name, options in (("right", {}), ("wrong", wrong)):
            made = sandbox.control.bank_statement("2026-10", "mt940", batch=0.4, **options)
            (folder / f"{name}.sta").write_text(made["text"])
    return folder


@pytest.mark.thorough
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("name", "status"), [("right", 0), ("wrong", 3)])
def test_the_report_and_the_command_never_disagree(
    name: str, status: int, october: Path, tmp_path: Path, fundlab: Command
) -> None:
    given = ["--period", "2026-10", "--store", october / "books"]
    file = october / f"{name}.sta"
    ended, alone, _ = fundlab("bank", *given, file, "--json")
    again, within, _ = fundlab("report", *given, "--bank", file, "--out", tmp_path, "--json")
    assert (ended, again) == (status, status)
    alone, within = json.loads(alone), json.loads(within)
    assert within["bank"] == alone
    page = (tmp_path / "report-2026-10.html").read_text()
    assert alone["verdict"] in page
    assert alone["account"] not in page.replace(str(october), "")
    assert alone["files"][str(file)] in page
    book = openpyxl.load_workbook(tmp_path / "report-2026-10.xlsx", data_only=True)
    proof = [[cell.value for cell in row] for row in book[SHEETS["proof"]].iter_rows()]
    (closing,) = [row for row in proof if row[0] == "Adjusted balance per transfers"]
    (told,) = [row for row in alone["proof"] if row["line"] == "adjusted_service"]
    assert [D(str(cell)) for cell in closing[1:]] == [D(told[column]) for column in COLUMNS]
    listed = pa.csv.read_csv(tmp_path / "report-2026-10.bank-open-items.csv").to_pylist()
    assert [row["item_id"] for row in listed] == [row["item_id"] for row in alone["items"]]


@pytest.mark.thorough
@pytest.mark.usefixtures("undrawn")
def test_a_report_takes_what_was_read_or_reconciled(october: Path) -> None:
    store, read = fl.Store(october / "books"), bank.read(october / "wrong.sta")
    report = fl.report(store, "2026-10", bank=read)
    assert report.bank is not None
    assert report.tone == "warn"
    assert report.bank.unexplained["item_id"].tolist()
    assert f"--bank {october / 'wrong.sta'}" in report.sources["Command"]
    assert "The bank's side" in render_html(report)
    ours = bank.reconcile(store, read, "2026-10", window=5, fees=["15"])
    assert "--window 5 --fees 15" in sources(store, "2026-10", report.as_of, bank=ours)["Command"]
    without = replace(report, bank=None)
    assert "The bank's side" not in render_html(without)
    assert not {*SHEETS.values()} & {sheet.name for sheet in sheets(without)}
    assert without.tone == "good"
    with pytest.raises(InvalidRequest, match="reconciled for 2026-10-01 to 2026-10-31, the report"):
        fl.report(store, "2026-09", bank=ours)


def test_as_of_is_what_was_known_then(october: Path) -> None:
    store, read = fl.Store(october / "books"), bank.read(october / "right.sta")
    assert bank.reconcile(store, read, "2026-10", as_of="2100-01-01").ok
    with pytest.raises(fl.errors.InvalidRequest, match="the store knew nothing before"):
        bank.reconcile(store, read, "2026-10", as_of="2026-10-01")
    store.pin("now")
    assert bank.reconcile(store, read, "2026-10", pin="now").ok


@pytest.mark.thorough
@pytest.mark.usefixtures("undrawn")
def test_open_items_of_a_month_carry_into_the_next_by_the_command(
    tmp_path: Path, fundlab: Command
) -> None:
    folder = tmp_path
    with fl.sandbox.serve(seed=7, transfers=600, clock="manual") as sandbox:
        fl.Store(folder / "books").sync(sandbox.connect(), progress=False)
        for period in ("2026-09", "2026-10"):
            made = sandbox.control.bank_statement(
                period, "camt.053", late_days=2, errors={"missing": 1, "charge": 1}
            )
            (folder / f"{period}.xml").write_text(made["text"])
    books = ["--store", folder / "books"]
    ended, september, _ = fundlab(
        "bank", folder / "2026-09.xml", "--period", "2026-09", *books, "--json"
    )
    (folder / "september.json").write_text(september)
    given = ["--period", "2026-10", *books, "--carried", folder / "september.json"]
    again, october, _ = fundlab("bank", folder / "2026-10.xml", *given, "--json")
    assert (ended, again) == (3, 3)
    september, october = json.loads(september), json.loads(october)
    before = {row["item_id"]: row["age"] for row in september["items"] if not row["explained"]}
    after = {row["item_id"]: row["age"] for row in october["items"]}
    assert before
    assert {name: after[name] for name in before} == {n: age + 31 for n, age in before.items()}
    lines = [{row["line"]: row for row in month["proof"]} for month in (september, october)]
    assert lines[1]["adjusted_bank"]["opening"] == lines[0]["adjusted_bank"]["closing"]
    files = ["--bank", folder / "2026-10.xml", "--out", folder / "reports"]
    _, printed, _ = fundlab("report", *given, *files, "--json")
    assert json.loads(printed)["bank"] == october
    (folder / "september.json").write_text("{}")
    status, _, told = fundlab("bank", folder / "2026-10.xml", *given)
    assert status == 1
    assert "is not what 'fundlab bank --json' prints" in told


def test_what_a_csv_file_leaves_open_is_given_by_options(
    october: Path, tmp_path: Path, fundlab: Command
) -> None:
    """The balance that it begins with, and a fee that the bank keeps back; the command in the
    report gives both again."""
    store, file = october / "books", tmp_path / "oktober.csv"
    rows = fl.Store(store).read("transfers", settled=True)
    wires = rows[rows["type"].str.startswith("WIRE") & rows["status"].eq("COMPLETED")]
    wires = wires[wires["settled_at"].dt.strftime("%Y-%m") == "2026-10"]
    deposits = wires[wires["direction"] == "CREDIT"].head(3)
    lines = [
        f"{day:%d.%m.%Y};{str(amount - 15).replace('.', ',')};{name}"
        for day, amount, name in zip(
            deposits["settled_at"], deposits["amount"], deposits["id"], strict=True)
    ]  # fmt: skip
    assert lines
    file.write_text("\n".join(["Buchungstag;Betrag;Text", *lines]))
    words = ["--opening", "0", "--fees", "10,15"]
    _, printed, _ = fundlab("bank", file, "--period", "2026-10", "--store", store, *words, "--json")
    found = json.loads(printed)
    assert found["matched"] == len(lines)
    kept = [row for row in found["items"] if row["why"].startswith("kept back by the bank")]
    assert [row["amount"] for row in kept] == ["-15"] * len(lines)
    given = {
        name.removeprefix("--"): text for name, text in zip(words[::2], words[1::2], strict=True)
    }
    assert found["options"] == given
    status, _, said = fundlab("bank", file, "--store", store)
    assert status == 1
    assert "the statements declare no opening balance" in said


def test_wrong_usage_ends_with_2(october: Path, fundlab: Command) -> None:
    for wrong, told in (
        (["report", "--side", "ours"], "give the statements that it is of with --bank"),
        (["report", "--catch-up", "--bank", "x"], "give either --catch-up or --bank"),
        (["bank", "x", "--period", "xx"], "period='xx'"),
        (["report", "--fees", "15"], "give the statements that it is of with --bank"),
    ):
        status, _, said = fundlab(*wrong, "--store", october / "books")
        assert status == 2
        assert told in said


def test_what_a_frame_of_transfers_knows_has_no_as_of(tmp_path: Path) -> None:
    rows, read = made_month(tmp_path, random.Random(1))
    with pytest.raises(fl.errors.AnalysisError, match="as_of and pin are of a store"):
        bank.reconcile(rows, read, "2026-01", as_of=pd.Timestamp("2026-02-01", tz="UTC"))
