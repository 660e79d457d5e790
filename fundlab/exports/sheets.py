"""A table as a sheet of a workbook: frozen header, live numbers, ready to print.

A sheet is data, with the column's own names, exact times as text and never a formula; or it is for
people, where it has a ``title``: headers in words, times as the spreadsheet's own, sums by asset as
formulas. An amount is a number where a spreadsheet keeps it exactly (15 significant digits), else
text that shows every digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import numbers
from fundlab.base.values import exact_sum, plain_text
from fundlab.exports.cells import as_text, is_money, is_text, starts_a_formula, write_text
from fundlab.exports.plain import BLOCK

if TYPE_CHECKING:  # a page or a CSV file has no use for it
    import xlsxwriter  # type: ignore[import-untyped]
    from xlsxwriter.format import Format  # type: ignore[import-untyped]
    from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]

    from fundlab.exports.rows import Cells

MAX_TEXT: Final = 32_767
_AT_ONCE: Final = 8_192
"""Rows that are written together, whose cells are in memory."""
HEAD: Final = {"bold": True, "bottom": 1, "bg_color": "#EEF2F5"}
SOFT: Final = {"font_color": "#56616F"}
_SIGNIFICANT: Final = 15
_DAY: Final = 86_400_000_000_000
_WIDEST, _NARROWEST, _SAMPLE = 44, 8, 1_000
_FOLDED, _UPRIGHT, _ACROSS = 28, 100, 140
"""In letters: what a text of a sheet for people is folded at, where paper has none to spare; and
what paper takes, upright and across."""
_LINE, _TALLEST = 15, 405
"""The height of a row and the most a row may have, in points."""
_ESCAPED_IN_NAME: Final = str.maketrans(dict.fromkeys("[]:*?/\\", " "))


@dataclass(frozen=True)
class Sheet:
    """A table and the name it has in the workbook. In ``rows``, a column ``asset`` decides how
    many decimals the amounts beside it show.

    With a ``title`` it is for people: ``lead`` says below it what the sheet shows, ``labels`` are
    the headers of its columns, times stand in the zone ``tz``, durations in hours, and of the
    columns ``totals`` each run of rows of one asset has a sum below the table. The columns
    ``unprinted``, the last ones, stay off the paper; with ``most_printed`` it is one page, of as
    many rows at most.

    >>> sheet = fl.exports.Sheet("October", store.read_arrow("transfers"))
    >>> sheet.name, sheet.rows.num_rows
    ('October', 50)
    """

    name: str
    rows: pa.Table
    note: str = ""
    title: str = ""
    lead: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    tz: str = "UTC"
    totals: Sequence[str] = ()
    unprinted: Sequence[str] = ()
    most_printed: int | None = None

    @property
    def top(self) -> int:
        """The row of the headers, counted from 0."""
        return 3 if self.title else 0

    def runs(self) -> list[tuple[str, int, int]]:
        """Of the rows that follow each other with one asset: the asset, where they begin and end
        (excluded)."""
        runs: list[tuple[str, int, int]] = []
        for row, asset in enumerate(_assets(self.rows).to_pylist()):
            if runs and runs[-1][0] == asset:
                runs[-1] = (asset, runs[-1][1], row + 1)
            else:
                runs.append((asset, row, row + 1))
        return runs


def sheet_name(text: str) -> str:
    """``text`` as a name a spreadsheet accepts: 31 characters, no ``[]:*?/\\``, nothing that a
    formula could begin with."""
    kept = "".join(sign if sign.isprintable() else " " for sign in text.translate(_ESCAPED_IN_NAME))
    kept = kept.lstrip(" '=+-@|%＝＋－＠")
    while len(kept.encode("utf-16-le")) // 2 > 31:
        kept = kept[:-1]
    kept = kept.rstrip(" '")
    return "Sheet" if not kept or kept.lower() == "history" else kept


class Pen:
    """The formats of a workbook and the names of its sheets, each made once; and how many amounts
    and texts of a sheet could not be written as they are."""

    def __init__(self, book: xlsxwriter.Workbook) -> None:
        self._book = book
        self._formats: dict[tuple[Any, ...], Format] = {}
        self._names: set[str] = set()
        self.digits = self.of(align="right", num_format="@")
        self.as_text = self.cut = 0

    def of(self, **properties: Any) -> Format:
        key = tuple(sorted(properties.items()))
        if key not in self._formats:
            beside = {"align": "left"} if "indent" in properties else {}
            usual = {"valign": "top"} | beside
            self._formats[key] = self._book.add_format(usual | properties)
        return self._formats[key]

    def amount(self, decimals: int, **properties: Any) -> Format:
        digits = "#,##0" + ("." + "0" * decimals if decimals else "")
        return self.of(num_format=digits, **properties)

    def name(self, wanted: str) -> str:
        """A sheet's name that no other has, whatever its case."""
        name, number = sheet_name(wanted), 1
        while name.lower() in self._names:
            number += 1
            name = f"{sheet_name(wanted)[:24]} {number}"
        self._names.add(name.lower())
        return name


def write_sheet(
    book: xlsxwriter.Workbook, pen: Pen, sheet: Sheet, max_rows: int, bar: Any
) -> Iterator[str]:
    """The sheet, and those it goes on in, with the progress of its rows. Yields what a reader
    should know."""
    from fundlab.exports.rows import RowSheet  # loads the writer of workbooks

    decimals = decimals_of(sheet.rows)
    written: list[str] = []
    pen.as_text = pen.cut = 0
    for start in range(0, max(sheet.rows.num_rows, 1), max_rows - 1):
        rows = sheet.rows.slice(start, max_rows - 1)
        written.append(pen.name(sheet.name if not start else f"{sheet.name} {len(written) + 1}"))
        page = book.add_worksheet(written[-1], RowSheet)
        top, last = sheet.top, max(len(rows.column_names) - 1, 0)
        wanted: list[int] = []
        widths: list[int] = []
        for name in rows.column_names:
            kind, label = rows.schema.field(name).type, sheet.labels.get(name, name)
            lengths = pc.utf8_length(as_text(rows.slice(0, _SAMPLE).column(name), name))
            longest, most = pc.max(lengths).as_py() or 0, _WIDEST
            if sheet.title and pa.types.is_timestamp(kind):
                longest = min(longest, len("2026-10-01 09:30:00"))
            elif sheet.title and pa.types.is_duration(kind):
                longest = min(longest, len("9999:59:59"))
            elif sheet.title and is_money(kind):  # separators of thousands, and the sum below
                longest += 3
            elif last < 2:  # a list of facts, whose values need the paper
                most = 3 * _WIDEST
            elif sheet.title and name not in sheet.unprinted:
                most = max(_FOLDED, len(label)) + 3
            wanted.append(max(longest, len(label)) + 3)
            widths.append(max(min(wanted[-1], most), _NARROWEST))
        paper = len(widths) - len(sheet.unprinted)
        for column in range(paper if sheet.title else 0):  # what paper has to spare
            spare = max(_ACROSS - sum(widths[:paper]), 0)
            widths[column] += min(max(wanted[column] - widths[column], 0), spare)
        printed = max(sum(widths[:paper]), _NARROWEST)
        for column, width in enumerate(widths):
            page.set_column(column, column, width)
        if sheet.title:  # as wide as what is printed below
            lines = (
                (sheet.title, 1.5, pen.of(bold=True, font_size=14, text_wrap=True)),
                (sheet.lead, 1, pen.of(text_wrap=True, **SOFT)),
            )
            for row, (text, size, style) in enumerate(lines):
                page.set_row(row, _LINE * size * max(-(-int(len(text) * size) // printed), 1))
                page.merge_range(row, 0, row, max(last - len(sheet.unprinted), 1), "", style)
                write_text(page, row, 0, text, style)
        page.freeze_panes(top + 1, 0)
        for column, name in enumerate(rows.column_names):
            kind = rows.schema.field(name).type
            stands_right = sheet.title and (is_money(kind) or pa.types.is_integer(kind))
            # A text beside a number stands a little apart from it.
            side = {"align": "right"} if stands_right else {"indent": 1} if sheet.title else {}
            write_text(page, top, column, sheet.labels.get(name, name), pen.of(**HEAD, **side))
        if rows.column_names:
            page.autofilter(top, 0, top + rows.num_rows, last)
            page.ignore_errors({"number_stored_as_text": "A1:XFD1048576"})
        page.repeat_rows(top)
        sums = len(sheet.runs()) if sheet.totals else 0
        for_paper(page, sheet.title or sheet.name)
        if sheet.title:  # of a table that is data, all is printed
            on_paper = min(rows.num_rows + sums, sheet.most_printed or rows.num_rows + sums)
            page.print_area(0, 0, top + on_paper, last - len(sheet.unprinted))
        if sheet.most_printed is not None:
            page.fit_to_pages(1, 1)
        if sheet.title and printed < _UPRIGHT:
            page.set_portrait()
        for first in range(0, rows.num_rows, _AT_ONCE):
            block = rows.slice(first, _AT_ONCE)
            columns = [_cells(block, name, pen, decimals, sheet) for name in block.column_names]
            folded = np.zeros(block.num_rows, np.int64)
            for cells, width in zip(columns, widths, strict=True):
                if (style := cells.looks[0][0]) is not None and style.text_wrap:
                    long = pc.greater(pc.utf8_length(cells.texts), width - 3)
                    for row in np.flatnonzero(numbers(pc.fill_null(long, False))).tolist():
                        taken = lines_of(cells.texts[row].as_py(), width - 3)
                        folded[row] = max(folded[row], taken)
            page.write_rows(top + first + 1, columns, np.minimum(_LINE * folded, _TALLEST))
            bar.update(block.num_rows)
        if sheet.totals:
            for asset, name, total in totals(sheet):
                style = {"bold": True, "top": 1 if total.first else 0}
                write_text(page, total.row, 0, f"Total {asset}", pen.of(indent=1, **style))
                if total.formula is None:
                    write_text(page, total.row, total.column, total.text,
                                pen.of(align="right", num_format="@", **style))  # fmt: skip
                else:
                    number = pen.amount(decimals.get(name, {}).get(asset, 0), **style)
                    page.write_formula(total.row, total.column, total.formula, number, total.value)
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


@lru_cache(10_000)
def lines_of(text: str, width: int) -> int:
    """How many lines of ``width`` letters ``text`` takes."""
    if text.isalnum():  # an id, of which there is one for each row: nowhere to break it
        return -(-len(text) // width)
    return len(wrap(text, width))


Decimals = dict[str, dict[str | None, int]]


def _cells(block: pa.Table, name: str, pen: Pen, decimals: Decimals, sheet: Sheet) -> Cells:
    """A column as it is written."""
    from fundlab.exports.rows import Cells  # loads the writer of workbooks

    column = block.column(name)
    kind = column.type
    if sheet.title and pa.types.is_timestamp(kind):
        # A spreadsheet knows no zone: the clock of the report's, which the lead names.
        moments = column.cast(pa.timestamp("us", "UTC"), safe=False).to_pandas()
        local = moments.dt.tz_convert(sheet.tz).dt.tz_localize(None).to_numpy("datetime64[us]")
        style = pen.of(num_format="yyyy-mm-dd hh:mm:ss", align="left", indent=1)
        return Cells(_figures(_serials(local), column), [(style, True)])
    if sheet.title and pa.types.is_date(kind):
        days = column.cast(pa.date32()).cast(pa.int32()).fill_null(0).to_numpy()
        style = pen.of(num_format="yyyy-mm-dd", align="left", indent=1)
        return Cells(_figures(_serials(days.astype("datetime64[D]")), column), [(style, True)])
    if sheet.title and pa.types.is_duration(kind):
        ns = column.cast(pa.duration("ns")).cast(pa.int64()).fill_null(0).to_pylist()
        style = pen.of(num_format="[h]:mm:ss")
        return Cells(_figures([one / _DAY for one in ns], column), [(style, True)])
    if sheet.title and pa.types.is_boolean(kind):
        said = pc.if_else(column, "yes", "no")
        return Cells(said.combine_chunks(), [(pen.of(indent=1), False)])
    texts = as_text(column, name).combine_chunks()
    if is_money(kind):
        keeps = numbers(pc.fill_null(keeps_exactly(texts), True))
        places = decimals[name]
        looks = [(pen.amount(most), True) for most in places.values()] + [(pen.digits, False)]
        assets = pc.index_in(_assets(block), pa.array([*places], pa.string()))
        which = np.where(keeps, assets.to_numpy(), len(places))
        pen.as_text += int((~keeps).sum())
        shown = [text if text is None or not kept else f"{float(text):.16G}"
                 for text, kept in zip(texts.to_pylist(), keeps.tolist(), strict=True)]  # fmt: skip
        return Cells(pa.array(shown, pa.string()), looks, which)
    if pa.types.is_integer(kind):
        digits = pc.utf8_length(pc.utf8_ltrim(texts, "-"))
        large = numbers(pc.fill_null(pc.greater(digits, _SIGNIFICANT), False))
        looks = [(pen.amount(0), True), (pen.digits, False)]
        return Cells(texts, looks, large.astype(np.int64))
    if not is_text(kind) and not pa.types.is_dictionary(kind):
        return Cells(texts, [(None, False)])
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > MAX_TEXT:
        shown = texts.to_pylist()
        for row, text in enumerate(shown):
            if text is not None and len(text.encode("utf-16-le")) > 2 * MAX_TEXT:
                pen.cut += 1
                shown[row] = f"{text[: MAX_TEXT // 2]}… (cut: {len(text):,} characters)"
        texts = pa.array(shown, pa.string())
    risky = numbers(pc.fill_null(starts_a_formula(texts), False))
    look = {"indent": 1, "text_wrap": name not in sheet.unprinted} if sheet.title else {}
    usual, quote = pen.of(**look) if look else None, pen.of(**look, quote_prefix=True)
    return Cells(texts, [(usual, False), (quote, False)], risky.astype(np.int64))


def _serials(moments: npt.NDArray[np.datetime64]) -> npt.NDArray[np.float64]:
    """The spreadsheet's own count of days since 1900, in which that year has a February 29."""
    us = (moments - np.datetime64("1899-12-31", "us")).astype(np.int64)
    days, rest = np.divmod(us, 86_400_000_000)
    seconds, left = np.divmod(rest, 1_000_000)
    serials = days + (seconds + left / 1e6) / 86_400
    serials -= (days == 1) & (moments.dtype != "datetime64[D]")  # there a time without a day
    return serials + (serials > 59)


def _figures(values: Iterable[float], column: pa.ChunkedArray) -> pa.Array:
    """Numbers as a sheet has them, as missing as ``column``."""
    there = numbers(column.is_valid()).tolist()
    shown = [f"{value:.16G}" if known else None
             for value, known in zip(values, there, strict=True)]  # fmt: skip
    return pa.array(shown, pa.string())


def keeps_exactly(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which amounts a spreadsheet keeps as numbers: up to 15 significant digits, for no two such
    decimals share a double."""
    digits = pc.replace_substring_regex(texts, r"[-.]", "")
    return pc.less_equal(pc.utf8_length(pc.utf8_trim(digits, "0")), _SIGNIFICANT)


@dataclass(frozen=True)
class Total:
    """The sum of one column over a run of rows, and where it stands: a formula with its ``value``,
    or ``text`` where a spreadsheet's numbers do not keep it."""

    row: int
    column: int
    first: bool
    text: str
    formula: str | None
    value: float


def totals(sheet: Sheet) -> Iterator[tuple[str, str, Total]]:
    """Asset, column and total, for each of ``sheet.totals``, in the order of the rows."""
    from xlsxwriter.utility import xl_range  # type: ignore[import-untyped]

    columns = {name: sheet.rows.column(name) for name in sheet.totals}
    texts = {name: as_text(column, name) for name, column in columns.items()}
    exact = {name: keeps_exactly(text) for name, text in texts.items()}
    for number, (asset, first, end) in enumerate(sheet.runs()):
        row = sheet.top + 1 + sheet.rows.num_rows + number
        for name, amounts in texts.items():
            mine = [text for text in amounts.slice(first, end - first).to_pylist() if text]
            total = plain_text(exact_sum(map(Decimal, mine)))
            column = sheet.rows.column_names.index(name)
            places = max((len(text.partition(".")[2]) for text in mine), default=0)
            numbers = pc.all(exact[name].slice(first, end - first)).as_py() is not False
            own = keeps_exactly(pa.chunked_array([[total]])).to_pylist()[0]
            top, bottom = sheet.top + 1 + first, sheet.top + end
            cells = xl_range(top, column, bottom, column)
            yield asset, name, Total(
                row, column, number == 0, total,
                f"=ROUND(SUM({cells}),{places})" if numbers and own else None, float(total),
            )  # fmt: skip


def for_paper(page: Worksheet, title: str) -> None:
    """A4 across, as wide as the paper, each page with its title and number."""
    page.set_landscape()
    page.set_paper(9)
    page.fit_to_pages(1, 0)
    page.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.6)
    page.set_footer(f"&L{title.replace('&', '&&')}&RPage &P of &N")


def decimals_of(rows: pa.Table) -> Decimals:
    """For each column of amounts, how many decimals each asset shows: what it needs, at least 2."""
    assets = _assets(rows)
    decimals: Decimals = {}
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
        decimals[name] = needed
    return decimals


def _assets(rows: pa.Table) -> pa.ChunkedArray:
    if "asset" in rows.column_names:
        return rows.column("asset").cast(pa.string())
    return pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])
