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
            names = _Names()
            pen = _Pen(book)
            for sheet in sheets:
                notes += _write_sheets(book, pen, names, sheet, max_rows)
            if notes:
                _write_notes(book, pen, names.take(NOTES), notes)
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


class _Names:
    """Sheet names, each only once, whatever their case."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str) -> str:
        name, number = sheet_name(wanted), 1
        while name.lower() in self._taken:
            number += 1
            name = f"{sheet_name(wanted)[:24]} {number}"
        self._taken.add(name.lower())
        return name


class _Pen:
    """The formats of a workbook, each made once."""

    def __init__(self, book: xlsxwriter.Workbook) -> None:
        self._book = book
        self._by_decimals: dict[int, Format] = {}
        self.head = book.add_format({"bold": True, "bottom": 1, "bg_color": "#EEF2F5"})
        self.plain = book.add_format({"quote_prefix": True})
        self.digits = book.add_format({"align": "right", "num_format": "@"})
        self.wrapped = book.add_format({"text_wrap": True, "valign": "top"})

    def amount(self, decimals: int) -> Format:
        if decimals not in self._by_decimals:
            digits = "#,##0" + ("." + "0" * decimals if decimals else "")
            self._by_decimals[decimals] = self._book.add_format({"num_format": digits})
        return self._by_decimals[decimals]


def _write_sheets(
    book: xlsxwriter.Workbook, pen: _Pen, names: _Names, sheet: Sheet, max_rows: int
) -> Iterator[str]:
    """The sheet, and those it goes on in. Yields what a reader should know."""
    body = max_rows - 1
    decimals = _decimals(sheet.rows)
    written: list[str] = []
    told = _Told()
    for start in range(0, max(sheet.rows.num_rows, 1), body):
        rows = sheet.rows.slice(start, body)
        written.append(names.take(sheet.name if not start else f"{sheet.name} {len(written) + 1}"))
        page = book.add_worksheet(written[-1])
        _lay_out(page, pen, rows)
        for first in range(0, rows.num_rows, BLOCK):
            _write_block(page, pen, rows.slice(first, BLOCK), first + 1, decimals, told)
    if sheet.note:
        yield f"{written[0]}: {sheet.note}"
    if len(written) > 1:
        yield (
            f"{sheet.name} has {sheet.rows.num_rows:,} rows, more than one sheet holds; it goes on "
            f"in {', '.join(written[1:])}"
        )
    yield from told.notes(written[0])


@dataclass
class _Told:
    """What could not be written as it is."""

    as_text: int = 0
    cut: int = 0

    def notes(self, name: str) -> Iterator[str]:
        if self.as_text:
            yield (
                f"{name}: {self.as_text:,} amounts have more digits than a spreadsheet number "
                "keeps and are text; sums leave them out"
            )
        if self.cut:
            yield (
                f"{name}: {self.cut:,} texts are longer than a cell holds and are cut, each with a "
                "word; CSV, JSON and Parquet hold them whole"
            )


def _lay_out(page: Worksheet, pen: _Pen, rows: pa.Table) -> None:
    sample = rows.slice(0, _SAMPLE)
    page.freeze_panes(1, 0)
    for place, name in enumerate(rows.column_names):
        _write_text(page, 0, place, name, pen.head)
        lengths = pc.utf8_length(as_text(sample.column(name), name))
        longest = pc.max(lengths).as_py() or 0
        width = min(max(longest, len(name)) + 3, _WIDEST)
        page.set_column(place, place, max(width, _NARROWEST))
    if rows.column_names:
        page.autofilter(0, 0, rows.num_rows, len(rows.column_names) - 1)
        page.ignore_errors({"number_stored_as_text": "A1:XFD1048576"})


def _write_block(
    page: Worksheet, pen: _Pen, block: pa.Table, first: int, decimals: Decimals, told: _Told
) -> None:
    columns = [_cells(block, name, pen, decimals, told) for name in block.column_names]
    for row in range(block.num_rows):
        for place, cells in enumerate(columns):
            value, style = cells[row]
            if value is None:
                continue
            if isinstance(value, str):
                _write_text(page, first + row, place, value, style)
            else:
                page.write_number(first + row, place, value, style)


def _write_text(page: Worksheet, row: int, place: int, text: str, style: Format | None) -> None:
    if text.startswith("<r>") and text.endswith("</r>"):  # the writer would take it for markup
        pieces = (text[:1], text[1:2], text[2:])
        page.write_rich_string(row, place, *pieces, *([style] if style else []))
    else:
        page.write_string(row, place, text, style)


Cells = Sequence[tuple[Any, Format | None]]
Decimals = dict[str, dict[str | None, int]]


def _cells(block: pa.Table, name: str, pen: _Pen, decimals: Decimals, told: _Told) -> Cells:
    column = block.column(name)
    texts = as_text(column, name)
    if is_money(column.type):
        return _amounts(block, texts, pen, decimals[name], told)
    if pa.types.is_integer(column.type):
        whole = pen.amount(0)
        return [(value, whole) if _fits(value) else (str(value), pen.digits)
                for value in column.to_pylist()]  # fmt: skip
    if not is_text(column.type) and not pa.types.is_dictionary(column.type):
        return [(text, None) for text in texts.to_pylist()]
    risky = starts_a_formula(texts).to_pylist()
    return [
        (_within_a_cell(text, told), pen.plain if quoted else None)
        for text, quoted in zip(texts.to_pylist(), risky, strict=True)
    ]


def _fits(value: int | None) -> bool:
    return value is None or abs(value) < 10**_SIGNIFICANT


def _amounts(
    block: pa.Table, texts: pa.ChunkedArray, pen: _Pen, decimals: dict[str | None, int], told: _Told
) -> Cells:
    exact = _kept_exactly(texts).to_pylist()
    assets = _assets(block).to_pylist()
    cells: list[tuple[Any, Format | None]] = []
    for text, keeps, asset in zip(texts.to_pylist(), exact, assets, strict=True):
        if text is None:
            cells.append((None, None))
        elif keeps:
            cells.append((float(text), pen.amount(decimals[asset])))
        else:
            told.as_text += 1
            cells.append((text, pen.digits))
    return cells


def _kept_exactly(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Where up to 15 significant digits will do: no two such decimals share a double."""
    digits = pc.replace_substring_regex(texts, r"[-.]", "")
    return pc.less_equal(pc.utf8_length(pc.utf8_trim(digits, "0")), _SIGNIFICANT)


def _within_a_cell(text: str | None, told: _Told) -> str | None:
    if text is None or len(text.encode("utf-16-le")) <= 2 * MAX_TEXT:
        return text
    told.cut += 1
    return f"{text[: MAX_TEXT // 2]}… (cut: {len(text):,} characters)"


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


def _write_notes(book: xlsxwriter.Workbook, pen: _Pen, name: str, notes: Sequence[str]) -> None:
    page = book.add_worksheet(name)
    page.set_column(0, 0, 110)
    for row, note in enumerate(notes):
        _write_text(page, row, 0, note, pen.wrapped)
