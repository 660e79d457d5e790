"""A sheet of a workbook that takes its rows as XML, in a tenth of the time of a cell after another.

``xlsxwriter`` calls a dozen functions for each cell. What it writes of a number and a plain text is
put together here, a column at a time; a row with anything else (markup, control characters, a text
at the limit) goes through its own methods, whose rules those are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from xlsxwriter.format import Format  # type: ignore[import-untyped]
from xlsxwriter.utility import xl_col_to_name  # type: ignore[import-untyped]
from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]

from fundlab.base.arrow import numbers
from fundlab.exports.cells import write_text

_ODD: Final = r"[&<>\x00-\x1f\x{fffe}\x{ffff}]|_x|\A[\p{Z}\x{85}]|[\p{Z}\x{85}]\z"
"""What does not stand in the file as it is."""
_LONG: Final = 10_000
_KNOWN: Final = hasattr(Format, "_get_xf_index") and all(
    hasattr(Worksheet(), name)
    for name in ("_write_single_row", "_check_dimensions", "fh", "previous_row")
)
"""A version of ``xlsxwriter`` without one of these writes each cell by itself."""


class Cells(NamedTuple):
    """A column of some rows: the ``texts`` of its cells (missing: no cell), and of each ``which``
    of the ``looks`` it has (by default the first): its format, and whether it is a number."""

    texts: pa.Array
    looks: Sequence[tuple[Format | None, bool]]
    which: npt.NDArray[np.int64] | None = None

    def first_uses(self) -> list[tuple[int, int]]:
        """The looks that are used, and the first row of each."""
        there = np.flatnonzero(numbers(self.texts.is_valid()))
        if self.which is None:
            return [(0, int(there[0]))] if len(there) else []
        codes, first = np.unique(self.which[there], return_index=True)
        return list(zip(codes.tolist(), there[first].tolist(), strict=True))


class RowSheet(Worksheet):  # type: ignore[misc]
    """For a workbook with ``constant_memory``."""

    def write_rows(
        self, first: int, columns: Sequence[Cells], heights: npt.NDArray[np.int64]
    ) -> None:
        """Rows from ``first`` on, below all that are written. The ``heights`` are in points, 15
        a line, 0 (or 15) of a usual row."""
        if not _KNOWN or not columns:
            for place in range(len(heights)):
                self._write_each(first, place, columns, heights)
            return
        self._write_single_row(first)  # the one before, whose formats are numbered first
        uses = [(row, column, look) for column, cells in enumerate(columns)
                for look, row in cells.first_uses()]  # fmt: skip
        styles: dict[tuple[int, int], str] = {}
        for _, column, look in sorted(uses):  # as they are numbered, a cell after another
            style = columns[column].looks[look][0]
            styles[column, look] = "" if style is None else f' s="{style._get_xf_index()}"'
        numbered = pa.array(range(first + 1, first + 1 + len(heights))).cast(pa.string())
        pieces = [_xml(cells, column, numbered, styles) for column, cells in enumerate(columns)]
        cells = _joined(*pieces)
        tall, sized = np.unique(heights, return_inverse=True)
        sizes = ['">' if height in (0, 15) else f'" ht="{height}" customHeight="1">'
                 for height in tall.tolist()]  # fmt: skip
        rows = _joined('<row r="', numbered, pa.array(sizes).take(pa.array(sized)), cells, "</row>")
        there = numbers(pc.greater(pc.binary_length(cells), 0))
        texts = pc.if_else(pa.array(there), rows, "").to_pylist()
        for row in np.flatnonzero(there)[[0, -1]].tolist() if there.any() else ():
            self._check_dimensions(first + row, max(column for _, column, _ in uses))
        odd, done = np.logical_or.reduce([_odd(one.texts) for one in columns]), 0
        for row in [*np.flatnonzero(odd).tolist(), len(texts)]:
            self.fh.write("".join(texts[done:row]))
            self.previous_row, done = first + row, row + 1
            if row < len(texts):
                self._write_each(first, row, columns, heights)
                self._write_single_row(first + done)

    def _write_each(
        self, first: int, place: int, columns: Sequence[Cells], heights: npt.NDArray[np.int64]
    ) -> None:
        row = first + place
        if heights[place]:
            self.set_row(row, int(heights[place]))
        for column, (texts, looks, which) in enumerate(columns):
            text = texts[place].as_py()
            style, number = looks[0 if which is None else which[place]]
            if text is not None and number:
                self.write_number(row, column, float(text), style)
            elif text is not None:
                write_text(self, row, column, text, style)


def _xml(
    cells: Cells, column: int, numbered: pa.Array, styles: dict[tuple[int, int], str]
) -> pa.Array:
    """What stands in the file of each cell; missing where there is none."""
    begins, ends = [], []
    for look, (_, number) in enumerate(cells.looks):
        style = styles.get((column, look), "")
        begins.append(f'"{style}><v>' if number else f'"{style} t="inlineStr"><is><t>')
        ends.append("</v></c>" if number else "</t></is></c>")
    begin, end = begins[0], ends[0]
    if cells.which is not None:
        begin, end = (pa.array(one).take(pa.array(cells.which)) for one in (begins, ends))
    where = f'<c r="{xl_col_to_name(column)}'
    return pc.binary_join_element_wise(where, numbered, begin, cells.texts, end, "")


def _joined(*pieces: Any) -> pa.Array:
    options = {"null_handling": "replace", "null_replacement": ""}
    return pc.binary_join_element_wise(*pieces, "", **options)


def _odd(texts: pa.Array) -> npt.NDArray[np.bool_]:
    long = pc.greater(pc.binary_length(texts), _LONG)
    return numbers(pc.fill_null(pc.or_(pc.match_substring_regex(texts, _ODD), long), False))
