"""XLSX: one sheet for each table, frozen header, live numbers, and never a formula.

An amount is a number where a spreadsheet keeps it exactly (15 significant digits), else text that
shows every digit. Rows are streamed to disk, so memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xlsxwriter  # type: ignore[import-untyped]
from xlsxwriter.exceptions import FileCreateError  # type: ignore[import-untyped]
from xlsxwriter.format import Format  # type: ignore[import-untyped]
from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]

from fundlab.errors import InvalidRequest
from fundlab.exports.cells import as_text, is_money, is_text, starts_a_formula
from fundlab.exports.plain import BLOCK

MAX_SHEET_ROWS: Final = 1_048_576
"""The most rows a sheet can have, the header among them."""
MAX_COLUMNS: Final = 16_384
MAX_TEXT: Final = 32_767
NOTES: Final = "Notes"

_SIGNIFICANT: Final = 15
_WIDEST, _NARROWEST, _SAMPLE = 44, 8, 1_000
_EPOCH: Final = datetime(2000, 1, 1)  # noqa: DTZ001 - workbooks know no zone; fixed, for equal bytes
_ESCAPED_IN_NAME: Final = str.maketrans(dict.fromkeys("[]:*?/\\", " "))

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Sheet:
    """A table and the name it has in the workbook. In ``rows``, a column ``asset`` decides how
    many decimals the amounts beside it show.

    >>> sheet = fl.exports.Sheet("October", store.read_arrow("transfers"))
    >>> sheet.name, sheet.rows.num_rows
    ('October', 50)
    """

    name: str
    rows: pa.Table
    note: str = ""


def write_workbook(
    sheets: Sequence[Sheet], path: Path, *, max_rows: int = MAX_SHEET_ROWS
) -> tuple[str, ...]:
    """Writes ``sheets`` and, where there is something to know, a sheet of notes at the end.

    A table longer than ``max_rows`` goes on in further sheets. Returns the notes. The same tables
    give the same bytes. Raises ``InvalidRequest`` for more columns than a sheet has.

    >>> rows = store.read_arrow("transfers", columns=["id", "asset", "total"])
    >>> fl.exports.write_workbook([fl.exports.Sheet("October", rows)], folder / "october.xlsx")
    ('October: 4 amounts have more digits than a spreadsheet number keeps and are text; sums
    leave them out',)
    """
    for sheet in sheets:
        if sheet.rows.num_columns > MAX_COLUMNS:
            raise InvalidRequest(
                f"{sheet.name} has {sheet.rows.num_columns:,} columns, and a sheet has "
                f"{MAX_COLUMNS:,}: leave some out, or write another format"
            )
    options = {
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
    }
    notes: list[str] = []
    try:
        with (
            TemporaryDirectory(prefix=f"{path.name}-", suffix=".tmp", dir=path.parent) as parts,
            xlsxwriter.Workbook(path, options | {"tmpdir": parts}) as book,
        ):
            book.use_zip64()  # sheets beyond 2 GiB
            book.set_properties({"created": _EPOCH})
            pen = _Pen(book)
            for sheet in sheets:
                notes += _write_sheet(book, pen, sheet, max_rows)
            if notes:
                page = book.add_worksheet(pen.name(NOTES))
                page.set_column(0, 0, 110)
                for row, note in enumerate(notes):
                    _write_text(page, row, 0, note, pen.wrapped)
    except FileCreateError as error:
        raise OSError(str(error)) from error
    return tuple(notes)


def sheet_name(text: str) -> str:
    """``text`` as a name a spreadsheet accepts: 31 characters, no ``[]:*?/\\``, nothing that a
    formula could begin with."""
    kept = "".join(sign if sign.isprintable() else " " for sign in text.translate(_ESCAPED_IN_NAME))
    kept = kept.lstrip(" '=+-@|%＝＋－＠")
    while len(kept.encode("utf-16-le")) // 2 > 31:
        kept = kept[:-1]
    kept = kept.rstrip(" '")
    return "Sheet" if not kept or kept.lower() == "history" else kept


class _Pen:
    """The formats of a workbook and the names of its sheets, each made once; and how many amounts
    and texts of a sheet could not be written as they are."""

    def __init__(self, book: xlsxwriter.Workbook) -> None:
        self._book = book
        self._by_decimals: dict[int, Format] = {}
        self._names: set[str] = set()
        self.head = book.add_format({"bold": True, "bottom": 1, "bg_color": "#EEF2F5"})
        self.plain = book.add_format({"quote_prefix": True})
        self.digits = book.add_format({"align": "right", "num_format": "@"})
        self.wrapped = book.add_format({"text_wrap": True, "valign": "top"})
        self.as_text = self.cut = 0

    def amount(self, decimals: int) -> Format:
        if decimals not in self._by_decimals:
            digits = "#,##0" + ("." + "0" * decimals if decimals else "")
            self._by_decimals[decimals] = self._book.add_format({"num_format": digits})
        return self._by_decimals[decimals]

    def name(self, wanted: str) -> str:
        """A sheet's name that no other has, whatever its case."""
        name, number = sheet_name(wanted), 1
        while name.lower() in self._names:
            number += 1
            name = f"{sheet_name(wanted)[:24]} {number}"
        self._names.add(name.lower())
        return name


def _write_sheet(
    book: xlsxwriter.Workbook, pen: _Pen, sheet: Sheet, max_rows: int
) -> Iterator[str]:
    """The sheet, and those it goes on in. Yields what a reader should know."""
    decimals = _decimals(sheet.rows)
    written: list[str] = []
    pen.as_text = pen.cut = 0
    for start in range(0, max(sheet.rows.num_rows, 1), max_rows - 1):
        rows = sheet.rows.slice(start, max_rows - 1)
        written.append(pen.name(sheet.name if not start else f"{sheet.name} {len(written) + 1}"))
        page = book.add_worksheet(written[-1])
        page.freeze_panes(1, 0)
        for place, name in enumerate(rows.column_names):
            _write_text(page, 0, place, name, pen.head)
            lengths = pc.utf8_length(as_text(rows.slice(0, _SAMPLE).column(name), name))
            width = min(max(pc.max(lengths).as_py() or 0, len(name)) + 3, _WIDEST)
            page.set_column(place, place, max(width, _NARROWEST))
        if rows.column_names:
            page.autofilter(0, 0, rows.num_rows, len(rows.column_names) - 1)
            page.ignore_errors({"number_stored_as_text": "A1:XFD1048576"})
        for first in range(0, rows.num_rows, BLOCK):
            block = rows.slice(first, BLOCK)
            columns = [_cells(block, name, pen, decimals) for name in block.column_names]
            for row, cells in enumerate(zip(*columns, strict=True), first + 1):
                for place, (value, style) in enumerate(cells):
                    if isinstance(value, str):
                        _write_text(page, row, place, value, style)
                    elif value is not None:
                        page.write_number(row, place, value, style)
    if sheet.note:
        yield f"{written[0]}: {sheet.note}"
    if len(written) > 1:
        yield (
            f"{sheet.name} has {sheet.rows.num_rows:,} rows, more than one sheet holds; it goes on "
            f"in {', '.join(written[1:])}"
        )
    if pen.as_text:
        yield (
            f"{written[0]}: {pen.as_text:,} amounts have more digits than a spreadsheet number "
            "keeps and are text; sums leave them out"
        )
    if pen.cut:
        yield (
            f"{written[0]}: {pen.cut:,} texts are longer than a cell holds and are cut, each with "
            "a word; CSV, JSON and Parquet hold them complete"
        )


def _write_text(page: Worksheet, row: int, place: int, text: str, style: Format | None) -> None:
    if text.startswith("<r>") and text.endswith("</r>"):  # the writer would take it for markup
        pieces = (text[:1], text[1:2], text[2:])
        page.write_rich_string(row, place, *pieces, *([style] if style else []))
    else:
        page.write_string(row, place, text, style)


Decimals = dict[str, dict[str | None, int]]


def _cells(
    block: pa.Table, name: str, pen: _Pen, decimals: Decimals
) -> list[tuple[Any, Format | None]]:
    """Each value of a column as it is written, with its format."""
    column = block.column(name)
    texts = as_text(column, name)
    cells: list[tuple[Any, Format | None]] = []
    if is_money(column.type):
        # Up to 15 significant digits will do: no two such decimals share a double.
        digits = pc.replace_substring_regex(texts, r"[-.]", "")
        exact = pc.less_equal(pc.utf8_length(pc.utf8_trim(digits, "0")), _SIGNIFICANT)
        for text, keeps, asset in zip(
            texts.to_pylist(), exact.to_pylist(), _assets(block).to_pylist(), strict=True
        ):
            if text is None:
                cells.append((None, None))
            elif keeps:
                cells.append((float(text), pen.amount(decimals[name][asset])))
            else:
                pen.as_text += 1
                cells.append((text, pen.digits))
    elif pa.types.is_integer(column.type):
        for number in column.to_pylist():
            fits = number is None or abs(number) < 10**_SIGNIFICANT
            cells.append((number, pen.amount(0)) if fits else (str(number), pen.digits))
    elif not is_text(column.type) and not pa.types.is_dictionary(column.type):
        cells = [(text, None) for text in texts.to_pylist()]
    else:
        risky = starts_a_formula(texts).to_pylist()
        for text, quoted in zip(texts.to_pylist(), risky, strict=True):
            shown = text
            if text is not None and len(text.encode("utf-16-le")) > 2 * MAX_TEXT:
                pen.cut += 1
                shown = f"{text[: MAX_TEXT // 2]}… (cut: {len(text):,} characters)"
            cells.append((shown, pen.plain if quoted else None))
    return cells


def _decimals(rows: pa.Table) -> Decimals:
    """For each column of amounts, how many decimals each asset shows: what it needs, at least 2."""
    assets = _assets(rows)
    found: Decimals = {}
    for name in rows.column_names:
        kind = rows.schema.field(name).type
        if not is_money(kind):
            continue
        needed: dict[str | None, int] = {}
        for start in range(0, rows.num_rows, BLOCK):
            texts = as_text(rows.column(name).slice(start, BLOCK), name)
            fractions = pc.replace_substring_regex(texts, r"\A[^.]*\.?", "")
            table = pa.table(
                {"asset": assets.slice(start, BLOCK), "digits": pc.utf8_length(fractions)}
            )
            for row in table.group_by("asset").aggregate([("digits", "max")]).to_pylist():
                digits = max(row["digits_max"] or 0, 0 if pa.types.is_duration(kind) else 2)
                needed[row["asset"]] = max(needed.get(row["asset"], 0), digits)
        found[name] = needed
    return found


def _assets(rows: pa.Table) -> pa.ChunkedArray:
    if "asset" in rows.column_names:
        return rows.column("asset").cast(pa.string())
    return pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])
