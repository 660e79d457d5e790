"""XLSX: one sheet for each table, and what a reader should know at the end.

Rows are streamed to disk, so memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fundlab.base.errors import InvalidRequest
from fundlab.base.progress import progress_bar
from fundlab.exports.cells import write_text
from fundlab.exports.cover import Cover, write_cover, write_drawn
from fundlab.exports.sheets import Pen, Sheet, for_paper, write_sheet

MAX_SHEET_ROWS: Final = 1_048_576
"""The most rows a sheet can have, the header among them."""
MAX_COLUMNS: Final = 16_384
NOTES: Final = "Notes"
_EPOCH: Final = datetime(2000, 1, 1)  # noqa: DTZ001 - workbooks know no zone; fixed, for equal bytes


def write_workbook(
    sheets: Sequence[Sheet],
    path: Path,
    *,
    max_rows: int = MAX_SHEET_ROWS,
    cover: Cover | None = None,
) -> tuple[str, ...]:
    """Writes ``sheets`` and, where there is something to know, a sheet of notes at the end.

    A table longer than ``max_rows`` goes on in further sheets; ``cover`` comes before them all.
    Returns the notes. The same tables
    give the same bytes. Raises ``InvalidRequest`` for more columns than a sheet has.

    >>> rows = store.read_arrow("transfers", columns=["id", "asset", "total"])
    >>> fl.exports.write_workbook([fl.exports.Sheet("October", rows)], folder / "october.xlsx")
    ('October: 4 amounts have more digits than a spreadsheet number keeps and are text; sums
    leave them out',)
    """
    import xlsxwriter  # type: ignore[import-untyped]
    from xlsxwriter.exceptions import FileCreateError  # type: ignore[import-untyped]

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
            pen = Pen(book)
            if cover is not None:
                write_cover(book, pen, cover)
            rows = sum(sheet.rows.num_rows for sheet in sheets)
            with progress_bar(rows, desc="writing the workbook") as bar:
                for sheet in sheets:
                    notes += write_sheet(book, pen, sheet, max_rows, bar)
            if cover is not None:
                write_drawn(book, pen, cover)
            if notes:
                page = book.add_worksheet(pen.name(NOTES))
                page.set_column(0, 0, 110)
                for_paper(page, NOTES)
                for row, note in enumerate(notes):
                    write_text(page, row, 0, note, pen.of(text_wrap=True))
    except FileCreateError as error:
        raise OSError(str(error)) from error
    return tuple(notes)
