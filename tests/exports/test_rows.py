"""Rows written as XML, held to what the library writes of the same cells one by one."""

from __future__ import annotations

import zipfile
from datetime import date
from pathlib import Path
from textwrap import wrap
from typing import Any

import openpyxl
import pandas as pd
import pytest
import xlsxwriter

from fundlab.exports import rows
from fundlab.exports.cells import write_text
from fundlab.exports.rows import RowSheet
from fundlab.exports.sheets import lines_of

AT = pd.Timestamp("2026-10-31T23:59:59.000123").to_pydatetime()

CELLS: list[list[tuple[Any, str | None]]] = [
    [("Asset", "bold"), ("Total", "bold"), ("On", None)],
    [("USD", None), (0.1, "money"), (date(2026, 10, 31), "day")],
    [
        ("first &<> second", "bold"),
        (1e15, "money"),
        (AT, "day"),
    ],
    [(None, None), (-0.0, None), (None, None)],
    [(None, None), (None, None), (None, None)],
    [("<r>x</r>", "money"), (123_456_789_012_345, "money"), (date(1900, 1, 1), "day")],
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
            "x" * 20_000,
            "Ümläut 漢字",
            "snake_case",
            'it\'s "so"',
            "a_xylophone",
        )
    ),
]


def workbook(path: Path, row_sheet: bool) -> dict[str, bytes]:
    with xlsxwriter.Workbook(path, {"constant_memory": True, "strings_to_urls": False}) as book:
        book.set_properties({"created": AT})
        styles = {
            None: None,
            "bold": book.add_format({"bold": True}),
            "money": book.add_format({"num_format": "#,##0.00"}),
            "day": book.add_format({"num_format": "yyyy-mm-dd"}),
        }
        page = book.add_worksheet("Rows", RowSheet if row_sheet else None)
        for row, given in enumerate(CELLS):
            cells = [(value, styles[style]) for value, style in given]
            if row == 2:
                page.set_row(row, 30)
            if row_sheet and row:  # the first in the library's way, as the headers are
                page.write_cells(row, cells)
                continue
            for column, (value, style) in enumerate(cells):
                if isinstance(value, str):
                    write_text(page, row, column, value, style)
                elif isinstance(value, date):
                    page.write_datetime(row, column, value, style)
                elif value is not None:
                    page.write_number(row, column, value, style)
        page.write_number(len(CELLS), 0, 7, styles["day"])
    with zipfile.ZipFile(path) as parts:
        return {name: parts.read(name) for name in parts.namelist()}


@pytest.mark.parametrize("known", [True, False])  # False: a version with other insides
def test_rows_are_what_the_library_writes_a_cell_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    monkeypatch.setattr(rows, "_KNOWN", known)
    expected = workbook(tmp_path / "each.xlsx", row_sheet=False)
    assert workbook(tmp_path / "rows.xlsx", row_sheet=True) == expected
    page = openpyxl.load_workbook(tmp_path / "rows.xlsx")["Rows"]
    assert [page["A3"].value, page["B3"].value] == ["first &<> second", 10**15]
    assert page.dimensions == f"A1:C{len(CELLS) + 1}"


@pytest.mark.parametrize("text", ["a" * 27, "a" * 28, "a" * 29, "9" * 57, "a-b " * 20, "ä" * 40])
def test_the_lines_of_a_text_are_those_it_is_folded_in(text: str) -> None:
    assert lines_of(text, 28) == len(wrap(text, 28))
