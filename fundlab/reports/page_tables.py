"""Frames to the tables of the page: every cell as text, money exact, outside strings as they are.

Within one column the amounts of an asset show the same number of decimals, at least two, so that
their points line up and no digit is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from fundlab.analysis.closing import CAUSES
from fundlab.analysis.flux import DRIVERS
from fundlab.base.values import length_text, money_text
from fundlab.charts import humanise
from fundlab.display import Cell, Style, Table, price_text, value_text
from fundlab.models import COMPLETED
from fundlab.reports.facts import decimals
from fundlab.settings.labels import UUID, shorten_id

MAX_ROWS: Final = 250
MAX_TEXT: Final = 120
_SPAN: Final = re.compile(r"\b\d+ ?(?:D|h|min|s)\b", re.ASCII)
STATUSES: Final[Mapping[str, Cell]] = {
    "match": Cell("✓ match", "good"),
    "opening_unknown": Cell("opening not proved", "warn"),
    "closing_unknown": Cell("closing not known", "warn"),
    "break": Cell("✗ break", "bad"),
    "only_rebuilt": Cell("✗ not reported", "bad"),
    "only_reported": Cell("✗ not rebuilt", "bad"),
    "unobserved": Cell("not observed", "warn"),
}
_TONES: Final[Mapping[str, Style]] = {**dict.fromkeys(COMPLETED, "good"), "FAILED": "bad"}

Column = tuple[str, Callable[..., Cell], str]
"""A label (``#`` marks numbers, set to the right), what makes a cell of a value, and the name of
the column in the frame."""


def table(
    caption: str,
    frame: pd.DataFrame,
    columns: Sequence[Column],
    limit: int = MAX_ROWS,
    sums: Sequence[str] = (),
) -> Table:
    """The first ``limit`` rows, and of the columns ``sums`` the totals of each asset, of all rows,
    where an asset has several. Cells know their place in order, so that the page sorts exact
    amounts without counting; missing ones come first."""
    shown = frame.head(limit)
    summed = frame.iloc[:0]
    if sums:
        there = [name for name in sums if name in frame]
        several = frame[frame["asset"].duplicated(keep=False)]
        summed = several.groupby(several["asset"].astype(str))[there].sum(min_count=1).reset_index()
    assets = shown["asset"].astype(str) if "asset" in shown.columns else None
    digits: dict[tuple[str, str], int] = {}
    for _, make, name in columns:
        if make in (money, known_money):
            pairs = [*zip(assets, shown[name], strict=True),  # type: ignore[arg-type]
                     *zip(summed["asset"], summed.get(name, ()), strict=False)]  # fmt: skip
            for asset, amount in pairs:
                if not pd.isna(amount):
                    digits[name, asset] = max(digits.get((name, asset), 2), decimals(amount))
    cells_by_column = []
    for _, make, name in columns:
        if make in (money, known_money):
            pairs = [*zip(assets, shown[name], strict=True)]  # type: ignore[arg-type]
            cells = [make(amount, digits.get((name, asset), 2)) for asset, amount in pairs]
        else:
            cells = [make(value) for value in shown[name]]
        values = sorted({cell.value for cell in cells if cell.value is not None})
        places = {value: place for place, value in enumerate(values)}
        if places:
            cells = [replace(cell, place=places.get(cell.value, -1)) for cell in cells]
        cells_by_column.append(cells)
    heads: list[tuple[str, Style]] = [
        (label.lstrip("#"), "number" if label[0] == "#" else "text") for label, _, _ in columns
    ]
    totals = []
    for row in summed.to_dict("records"):
        cells = [
            (Cell(cut(f"Total {row['asset']}")) if place == 0 else
             Cell("") if column not in sums or column not in row else
             make(row[column], digits.get((column, row["asset"]), 2))
             if make in (money, known_money) else make(row[column]))
            for place, (_, make, column) in enumerate(columns)
        ]  # fmt: skip
        totals.append(tuple(cells))
    rows = tuple(zip(*cells_by_column, strict=True))
    return Table(
        tuple(heads), rows, caption, hidden=max(len(frame) - limit, 0), totals=tuple(totals)
    )


# --------------------------------------------------------------------------------------- cells


def text(value: Any) -> Cell:
    return Cell("–" if pd.isna(value) else cut(str(value)))


def words(value: object) -> Cell:
    return Cell(str(value).replace("_", " "))


def cause(value: object) -> Cell:
    return Cell(CAUSES[str(value)])


def driver(value: object) -> Cell:
    return Cell(DRIVERS[str(value)])


def type_name(value: object) -> Cell:
    return Cell(humanise(str(value)))


def transfer_status(value: object) -> Cell:
    return Cell(humanise(str(value)), _TONES.get(str(value), "warn"))


def pair_state(value: object) -> Cell:
    return Cell(str(value).replace("_", " "), "bad")


def profile_cell(value: object, labels: Mapping[str, str]) -> Cell:
    """By its label, the id on hover."""
    label = labels.get(str(value), str(value))
    return Cell(cut(label), "short" if label == shorten_id(str(value)) else "text", cut(str(value)))


def identifier(value: Any) -> Cell:
    return Cell("–" if pd.isna(value) else cut(str(value)), "id")


def short_identifier(value: object) -> Cell:
    """Where there is no room, the whole on hover."""
    return Cell(shorten_id(str(value)), "short", cut(str(value)))


def several_ids(value: Any) -> Cell:
    """The first two of ids with spaces between, all of them on hover."""
    if pd.isna(value):
        return Cell("–", "short")
    ids = str(value).split()
    more = [f"{len(ids) - 2} more"] if len(ids) > 2 else []
    return Cell(", ".join([*map(shorten_id, ids[:2]), *more]), "short", str(value))


def money(amount: Any, digits: int) -> Cell:
    if pd.isna(amount):
        return Cell("–", "number")
    if not amount:
        return Cell("0", "zero", value=amount)
    return Cell(f"{amount:,.{digits}f}", "number", value=amount)


def known_money(amount: Any, digits: int) -> Cell:
    return Cell("unknown", "number") if pd.isna(amount) else money(amount, digits)


def worth(amount: Any, shown: Callable[[Any], str] = value_text) -> Cell:
    """To the cent, all of it on hover: it comes of a price."""
    if pd.isna(amount):
        return Cell("no price", "number")
    return Cell(shown(amount), "number", money_text(amount), amount)


def price(amount: Any) -> Cell:
    return worth(amount, price_text)


def bank_line(category: object) -> Cell:
    from fundlab.bank.proof_of_cash import CATEGORIES

    return Cell(CATEGORIES[str(category)])


def explained(value: object) -> Cell:
    return Cell("explained", "good") if value else Cell("✗ unexplained", "bad")


def number(count: Any) -> Cell:
    return Cell("–", "number") if pd.isna(count) else Cell(f"{count:,}", "number", value=int(count))


def points(bps: Any, spec: str = ",.2f") -> Cell:
    return Cell("–", "number") if pd.isna(bps) else Cell(f"{bps:{spec}}", "number", value=bps)


def signed_points(bps: Any) -> Cell:
    return points(bps, "+,.2f")


def age(length: pd.Timedelta) -> Cell:
    return Cell(length_text(length.value), "number", value=length)


def known_age(length: Any) -> Cell:
    return Cell("–", "number") if pd.isna(length) else age(length)


def age_bracket(name: str) -> Cell:
    """``1h to 1D`` as ``1 h to 1 d``, in order of where it begins."""
    first, _, _ = name.partition(" ")
    return Cell(readable_spans(name), value=pd.Timedelta(0 if first == "under" else first))


def time_cell(at: Any, tz: str) -> Cell:
    if pd.isna(at):
        return Cell("–", "time")
    return Cell(f"{at.tz_convert(tz):%Y-%m-%d %H:%M:%S}", "time", at.isoformat(), at)


def day(value: Any) -> Cell:
    return Cell("–" if pd.isna(value) else str(value), "time")


def period_start(at: pd.Timestamp, freq: str, tz: str) -> Cell:
    local = at.tz_convert(tz)
    return Cell(f"{local:%Y-%m}" if freq == "MS" else f"{local:%Y-%m-%d}", "time", value=at)


def finding(value: Any) -> Cell:
    return text(value if pd.isna(value) else readable_spans(value))


def event_object(value: Any, labels: Mapping[str, str]) -> Cell:
    """A JSON object as words: ``type Wire withdrawal, status Failed, profile Treasury USD``."""
    try:
        found = json.loads(value)
    except (TypeError, ValueError):
        return text(value)
    if not isinstance(found, dict):
        return text(value)
    parts = []
    for name, member in found.items():
        members = [humanise(str(one)) for one in (member if isinstance(member, list) else [member])]
        shown = " and ".join(
            labels.get(one, shorten_id(one) if UUID.fullmatch(one) else one) for one in members
        )
        parts.append(f"{name.removesuffix('_id').replace('_', ' ')} {shown}")
    return text(", ".join(parts))


def readable_spans(words: str) -> str:
    """``8726400 s after`` as ``101 d after``."""
    return _SPAN.sub(lambda span: length_text(pd.Timedelta(span[0]).value), words)


def cut(words: str) -> str:
    return words if len(words) <= MAX_TEXT else f"{words[: MAX_TEXT - 1]}…"
