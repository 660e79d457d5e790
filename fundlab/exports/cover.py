"""The first sheet of a workbook, on one page, with native charts; and what the charts show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from fundlab.exports.cells import write_text
from fundlab.exports.sheets import (
    HEAD,
    SOFT,
    Pen,
    Sheet,
    Total,
    decimals_of,
    for_paper,
    totals,
)

if TYPE_CHECKING:
    import xlsxwriter  # type: ignore[import-untyped]

DRAWN: Final = "Chart data"
_COLUMNS, _ASSETS = 5, 12
_SERIES: Final = ("#0067A5", "#C05A00", "#00866A", "#A83279", "#7A6A00", "#4B4FA8", "#6B7280")


@dataclass(frozen=True)
class Drawing:
    """A native chart: lines of balances, or columns of what came above what went. ``days`` run
    across, each of ``series`` has a number for each of them, or a gap."""

    title: str
    days: Sequence[date]
    series: Mapping[str, Sequence[float | None]]
    columns: bool = False


@dataclass(frozen=True)
class Cover:
    """The first sheet, on one page: the verdict, the figures with those of the period before, the
    sums of ``of`` by asset (``sums`` are its columns), and charts."""

    title: str
    lead: str
    headline: str
    detail: str
    good: bool
    figures: Sequence[tuple[str, str, str, str, str]]
    before: str
    of: Sheet | None
    sums: Sequence[str]
    drawings: Sequence[Drawing]


def write_cover(book: xlsxwriter.Workbook, pen: Pen, cover: Cover) -> None:
    """The first sheet, whose charts show what :func:`write_drawn` writes on the last."""
    from xlsxwriter.utility import xl_rowcol_to_cell  # type: ignore[import-untyped]

    page, soft = book.add_worksheet(pen.name("Report")), pen.of(**SOFT)
    page.set_column(0, 0, 24)
    page.set_column(1, _COLUMNS - 2, 25)
    page.set_column(_COLUMNS - 1, _COLUMNS - 1, 38)
    page.hide_gridlines(2)
    page.set_row(0, 26)
    write_text(page, 0, 0, cover.title, pen.of(bold=True, font_size=18))
    write_text(page, 1, 0, cover.lead, soft)
    colour, paper = ("#0A6B48", "#E3F5EC") if cover.good else ("#B01F2E", "#FDECEC")
    band = {"font_color": colour, "bg_color": paper, "text_wrap": True, "valign": "vcenter"}
    for row, text, height, more in (
        (3, cover.headline, 26, {"bold": True, "font_size": 16}), (4, cover.detail, 34, {}),
    ):  # fmt: skip
        page.set_row(row, height)
        style = pen.of(**band, **more)
        page.merge_range(row, 0, row, _COLUMNS - 1, "", style)
        write_text(page, row, 0, text, style)

    row, apart = 6, pen.of(**SOFT, indent=1)
    right, left = pen.of(**HEAD, align="right"), pen.of(**HEAD)
    heads = ("Figure", "Value", cover.before or "Before", "Change", "")
    for column, head in enumerate(heads):
        write_text(page, row, column, head, right if column in (1, 2, 3) else left)
    for figure in cover.figures:
        row += 1
        for column, text in enumerate(figure):
            write_text(page, row, column, text, pen.of(align="right", bold=column == 1)
                        if column in (1, 2, 3) else apart if column == 4 else None)  # fmt: skip

    if cover.of is not None:
        row += 2
        by_asset: dict[str, dict[str, Total]] = {}
        for asset, name, total in totals(cover.of):
            by_asset.setdefault(asset, {})[name] = total
        for column, head in enumerate(("All profiles", *(cover.of.labels[n] for n in cover.sums))):
            write_text(page, row, column, head, right if column else left)
        decimals = decimals_of(cover.of.rows)
        for asset, sums in [*by_asset.items()][:_ASSETS]:
            row += 1
            write_text(page, row, 0, asset, None)
            for column, name in enumerate(cover.sums, 1):
                total = sums[name]
                style = pen.amount(decimals[name].get(asset, 2), align="right")
                cell = f"='{cover.of.name}'!{xl_rowcol_to_cell(total.row, total.column)}"
                value = total.text if total.formula is None else total.value
                page.write_formula(row, column, cell, style, value)
        if len(by_asset) > _ASSETS:
            row += 1
            words = f"{len(by_asset) - _ASSETS} more assets on the sheet {cover.of.name}"
            write_text(page, row, 0, words, soft)

    row += 2
    below = 2  # where the data of each drawing begins
    for number, drawing in enumerate(cover.drawings):
        kind = {"type": "column", "subtype": "stacked"} if drawing.columns else {"type": "line"}
        chart, last = book.add_chart(kind), below + len(drawing.days)
        for column in range(1, len(drawing.series) + 1):
            colour = _SERIES[(column - 1) % len(_SERIES)]
            chart.add_series({
                "name": [DRAWN, below, column],
                "categories": [DRAWN, below + 1, 0, last, 0],
                "values": [DRAWN, below + 1, column, last, column],
                "line": {"color": colour, "width": 1.5} if not drawing.columns else {"none": True},
                "fill": {"color": colour}, "gap": 40,
            })  # fmt: skip
        chart.set_title({"name": drawing.title, "name_font": {"size": 11}, "overlay": False})
        chart.set_x_axis({
            "date_axis": True, "num_format": "d mmm", "label_position": "low",
            "num_font": {"size": 8}, "line": {"color": "#9AA6B5"},
        })  # fmt: skip
        chart.set_y_axis({
            "num_format": "#,##0.######", "num_font": {"size": 8}, "line": {"none": True},
            "major_gridlines": {"visible": True, "line": {"color": "#E3E7EC"}},
        })  # fmt: skip
        chart.set_legend({"position": "bottom", "font": {"size": 8}})
        chart.set_size({"width": 484, "height": 260})
        page.insert_chart(row + 14 * (number // 2), 0, chart, {
            "x_offset": 4 + 492 * (number % 2), "description": drawing.title, "object_position": 3,
        })  # fmt: skip
        below = last + 3
    row += 14 * -(-len(cover.drawings) // 2)
    page.print_area(0, 0, row, _COLUMNS - 1)
    for_paper(page, cover.title)
    page.set_portrait()
    page.fit_to_pages(1, 1)


def write_drawn(book: xlsxwriter.Workbook, pen: Pen, cover: Cover) -> None:
    """What the charts of the cover show, one below the other."""
    page, soft = book.add_worksheet(DRAWN), pen.of(**SOFT)
    page.hide()  # its charts draw all the same
    write_text(page, 0, 0, "What the charts show, rounded; the other sheets are exact", soft)
    page.set_column(0, 0, 34)
    page.set_column(1, max((len(one.series) for one in cover.drawings), default=1), 22)
    row = 2
    for drawing in cover.drawings:
        write_text(page, row, 0, drawing.title, pen.of(**HEAD))
        right = pen.of(**HEAD, align="right")
        for column, name in enumerate(drawing.series, 1):
            write_text(page, row, column, name, right)
        for number, day in enumerate(drawing.days):
            row += 1
            style = pen.of(num_format="yyyy-mm-dd", align="left")
            page.write_datetime(row, 0, day, style)
            for column, values in enumerate(drawing.series.values(), 1):
                if values[number] is not None:
                    page.write_number(
                        row, column, values[number], pen.of(num_format="#,##0.######")
                    )
        row += 3
    for_paper(page, "What the charts show")
