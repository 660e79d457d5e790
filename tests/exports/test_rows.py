"""Rows written as XML, held to what the library writes of the same cells one by one."""

from __future__ import annotations

import re
import zipfile
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
import xlsxwriter

from fundlab.exports import rows
from fundlab.exports.cells import write_text
from fundlab.exports.rows import Cells, RowSheet
from fundlab.exports.sheets import Pen, Sheet, lines_of, write_sheet

AT = pd.Timestamp("2026-10-31T23:59:59.000123").to_pydatetime()

CELLS: list[list[tuple[Any, str | None]]] = [
    [("Asset", None), ("Total", None), ("On", None)],
    [("USD", None), (0.1, "money"), (date(2026, 10, 31), "day")],
    [("first &<> second", "bold"), (1e15, "money"), ("2026", "bold")],
    [(None, None), (-0.0, None), (None, None)],
    [(None, None), (None, None), (None, None)],
    [("<r>x</r>", "money"), (123_456_789_012_345, "money"), (9.95, "day")],
    *(
        [(text, "bold"), (7, "money"), (None, None)]
        for text in (
            "_x0041_",
            " left",
            "right ",
            "bell \x07",
            "tab \t",
            "line\nnext",
            "",
            "a & b",
            "a > b",
            "\ufffe",
            "\uffff",
            "\u00a0",
            "\x85x",
            "\u3000x",
            "x\x85",
            "x" * 20_000,
            "Ümläut 漢字",
            "snake_case",
            'it\'s "so"',
            "a_xylophone",
        )
    ),
    [("the last", None), (None, None), (None, None)],
    [(None, None), (None, None), (None, None)],
]
TALL = {1: 30, 2: 30, 3: 15, 6: 405, len(CELLS) - 2: 405}
MOMENTS = [
    "2026-10-31T23:59:59.000123",
    "1899-12-30T01:00:00",
    "1900-01-01T00:00:00.999999",
    "1900-02-28T12:00:00",
    "1900-03-01T00:00:00",
    "2262-04-11T23:47:16.854775",
]


def parts_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as parts:
        return {name: parts.read(name) for name in parts.namelist()}


def workbook(path: Path, at_once: int) -> dict[str, bytes]:
    """So many rows at once; 0: as the library writes a cell after another."""
    with xlsxwriter.Workbook(path, {"constant_memory": True, "strings_to_urls": False}) as book:
        book.set_properties({"created": AT})
        styles = {
            None: None,
            "bold": book.add_format({"bold": True}),
            "money": book.add_format({"num_format": "#,##0.00"}),
            "day": book.add_format({"num_format": "yyyy-mm-dd"}),
        }
        page = book.add_worksheet("Rows", RowSheet if at_once else None)
        for row, given in enumerate(CELLS[:1] if at_once else CELLS):  # the headers
            if row in TALL:
                page.set_row(row, TALL[row])
            for column, (value, name) in enumerate(given):
                if isinstance(value, str):
                    write_text(page, row, column, value, styles[name])
                elif isinstance(value, date):
                    page.write_datetime(row, column, value, styles[name])
                elif value is not None:
                    page.write_number(row, column, value, styles[name])
        looks = [(style, number) for style in styles.values() for number in (False, True)]
        for first in range(1, len(CELLS), at_once) if at_once else ():
            columns = []
            for cells in zip(*CELLS[first : first + at_once], strict=True):
                texts = [
                    None if value is None
                    else value if isinstance(value, str)
                    else "46326" if isinstance(value, date)
                    else f"{value:.16G}" for value, _ in cells
                ]  # fmt: skip
                which = [
                    looks.index((styles[name], value is not None and not isinstance(value, str)))
                    for value, name in cells
                ]
                columns.append(Cells(pa.array(texts, pa.string()), looks, np.array(which)))
            high = [TALL.get(first + place, 0) for place in range(len(columns[0].texts))]
            page.write_rows(first, columns, np.array(high))
        page.write_number(len(CELLS), 0, 7, styles["day"])
    return parts_of(path)


@pytest.mark.parametrize("known", [True, False])  # False: a version with other insides
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_rows_are_what_the_library_writes_a_cell_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool, at_once: int
) -> None:
    monkeypatch.setattr(rows, "_KNOWN", known)
    expected = workbook(tmp_path / "each.xlsx", 0)
    assert workbook(tmp_path / "rows.xlsx", at_once) == expected
    page = openpyxl.load_workbook(tmp_path / "rows.xlsx")["Rows"]
    assert [page["A3"].value, page["B3"].value] == ["first &<> second", 10**15]
    assert page.dimensions == f"A1:C{len(CELLS) + 1}"


def test_a_column_of_one_look_is_as_one_that_names_it(tmp_path: Path) -> None:
    texts = pa.array([None, "a", None, "b & c"])
    found = []
    for which in (None, np.zeros(4, np.int64)):
        with xlsxwriter.Workbook(tmp_path / "one.xlsx", {"constant_memory": True}) as book:
            book.set_properties({"created": AT})
            page = book.add_worksheet("Rows", RowSheet)
            looks = [(book.add_format({"bold": True}), False)]
            page.write_string(0, 0, "first")
            page.write_rows(1, [Cells(texts, looks, which)], np.zeros(4, np.int64))
        found.append(parts_of(tmp_path / "one.xlsx"))
    assert found[0] == found[1]
    page = openpyxl.load_workbook(tmp_path / "one.xlsx")["Rows"]
    assert [cell.value for cell in page["A"]] == ["first", None, "a", None, "b & c"]
    assert page["A3"].font.b


@pytest.mark.parametrize("days_only", [False, True])
def test_moments_and_lengths_for_people_are_the_numbers_of_the_library(
    tmp_path: Path, days_only: bool
) -> None:
    naive = [datetime.fromisoformat(text) for text in MOMENTS]
    given: list[Any] = [*naive, None]
    kind = pa.timestamp("us", "UTC")
    if days_only:
        given, kind = [at.date() for at in naive] + [None], pa.date32()
    lasted = [timedelta(microseconds=n * 999_999_937) for n in range(len(naive))] + [None]
    table = pa.table({"at": pa.array(given, kind), "took": pa.array(lasted, pa.duration("us"))})
    if not days_only:
        assert table["at"].to_pylist()[0].replace(tzinfo=None) == naive[0]
    styles = ("yyyy-mm-dd" + " hh:mm:ss" * (not days_only), "[h]:mm:ss")

    class Bar:
        def update(self, rows: int) -> None:
            assert rows == table.num_rows

    with xlsxwriter.Workbook(tmp_path / "ours.xlsx", {"constant_memory": True}) as book:
        list(write_sheet(book, Pen(book), Sheet("Times", table, title="Times"), 100, Bar()))
    with xlsxwriter.Workbook(tmp_path / "each.xlsx", {"constant_memory": True}) as book:
        page = book.add_worksheet("Times")
        left = {"valign": "top", "align": "left", "indent": 1}
        formats = [book.add_format({"num_format": styles[0]} | left),
                   book.add_format({"num_format": styles[1], "valign": "top"})]  # fmt: skip
        for row, (at, length) in enumerate(zip(given, lasted, strict=True), 4):
            if at is not None:
                page.write_datetime(row, 0, at, formats[0])
                page.write_number(row, 1, length / timedelta(days=1), formats[1])
    ours, each = (
        [
            (cell.value, cell.number_format)
            for row in openpyxl.load_workbook(tmp_path / name)["Times"]["A5:B10"]
            for cell in row
        ]
        for name in ("ours.xlsx", "each.xlsx")
    )
    assert ours == each
    in_files = [
        re.findall(rb'<c r="[AB]\d+" s="\d+"><v>([^<]*)', parts["xl/worksheets/sheet1.xml"])
        for parts in map(parts_of, (tmp_path / "ours.xlsx", tmp_path / "each.xlsx"))
    ]
    assert in_files[0] == in_files[1]


def test_amounts_and_counts_are_the_numbers_of_the_library(tmp_path: Path) -> None:
    amounts = ["9.95", "0", "-0.000000000000000001", "12345678901234.5", "1234567890123456", None]
    counts = [7, -999_999_999_999_999, 10**15, -(10**15), 0, None]
    table = pa.table(
        {
            "asset": ["USD", "ETH", "ETH", None, "USD", "USD"],
            "total": pa.array([one and Decimal(one) for one in amounts], pa.decimal128(38, 18)),
            "count": pa.array(counts, pa.int64()),
        }
    )

    class Bar:
        def update(self, rows: int) -> None:
            assert rows == table.num_rows

    with xlsxwriter.Workbook(tmp_path / "ours.xlsx", {"constant_memory": True}) as book:
        notes = list(write_sheet(book, Pen(book), Sheet("Sums", table), 100, Bar()))
    page = openpyxl.load_workbook(tmp_path / "ours.xlsx")["Sums"]
    shown = [[cell.value for cell in page[letter]][1:] for letter in "BC"]
    assert shown == [
        [9.95, 0, -1e-18, 12345678901234.5, "1234567890123456", None],
        [7, -999_999_999_999_999, str(10**15), str(-(10**15)), 0, None],
    ]
    assert [cell.number_format for cell in page["B"]][1:6] == [
        "#,##0.00", "#,##0.000000000000000000", "#,##0.000000000000000000", "#,##0.00", "@",
    ]  # fmt: skip
    assert notes == [
        "Sums: 1 amounts have more digits than a spreadsheet number keeps and are text; sums "
        "leave them out"
    ]


@pytest.mark.parametrize("text", ["a" * 27, "a" * 28, "a" * 29, "9" * 57, "a-b " * 20, "ä" * 40])
def test_the_lines_of_a_text_are_those_it_is_folded_in(text: str) -> None:
    assert lines_of(text, 28) == len(wrap(text, 28))
