"""How a table looks in a notebook: money by its asset, times in a zone, ids short but whole.

For looking only: the frame itself is left as it is, and nothing shown is rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pandas as pd
from jinja2 import Environment, StrictUndefined

from fundlab.decimals import DecimalDtype
from fundlab.decimals.scalars import is_missing
from fundlab.errors import InvalidRequest, printable, shorten
from fundlab.values import money_text

DEFAULT_ROWS: Final = 20
_DECIMALS: Final[Mapping[str, int]] = {"BTC": 8, "BCH": 8, "LTC": 8, "ETH": 6, "SOL": 6}
_FEWEST: Final = 2
_BPS: Final = 4
"""Decimals of basis points, which are no money of the row's asset."""
_ASSET_COLUMNS: Final = ("balance_asset", "asset")
_LONG_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{20,}|[A-Za-z0-9_-]{28,}", re.ASCII)
_ID_START, _ID_END = 8, 4
_LONG_TEXT: Final = 32


@dataclass(frozen=True)
class Cell:
    """What is shown, and the whole of it where it is shortened."""

    text: str
    whole: str = ""


@dataclass(frozen=True)
class Column:
    name: str
    number: bool
    cells: tuple[Cell, ...]
    times: bool = False

    @cached_property
    def kind(self) -> str:
        """The class of its cells: numbers stand to the right, long texts are folded."""
        if self.number:
            return "fl-number"
        return "fl-long" if any(len(cell.text) > _LONG_TEXT for cell in self.cells) else ""


@dataclass(frozen=True, repr=False)
class Shown:
    """A frame ready to be looked at."""

    columns: tuple[Column, ...]
    rows: int
    hidden: int
    zone: str

    def _repr_html_(self) -> str:
        return _TABLE.render(
            style=_STYLE, columns=self.columns, shown=self.rows - self.hidden, note=self.note
        )

    def __repr__(self) -> str:
        lines = [[column.name, *(cell.text for cell in column.cells)] for column in self.columns]
        padded = [
            [_padded(text, max(map(len, texts)), column.number) for text in texts]
            for texts, column in zip(lines, self.columns, strict=True)
        ]
        return "\n".join(
            ["  ".join(row).rstrip() for row in zip(*padded, strict=True)] + [self.note]
        )

    @property
    def note(self) -> str:
        """How many rows there are, and whose clock the times follow, if there are any."""
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        more = f", {self.hidden:,} of them not shown" if self.hidden else ""
        times = f" · times in {self.zone}" if any(one.times for one in self.columns) else ""
        return f"{rows}{more}{times}"


def show(frame: pd.DataFrame, *, tz: str = "UTC", rows: int = DEFAULT_ROWS) -> Shown:
    """``frame`` for a human: the first ``rows`` rows.

    Money (columns of type ``decimal``) has thousands separators and the decimals of its row's
    asset, more where the amount has more; basis points have four; times are in ``tz``, a zone
    such as ``"Europe/Zurich"``; long ids are shortened, the whole shows on hover. Raises
    ``InvalidRequest`` for an unknown zone, and for what is no frame.

    >>> fl.show(transfers[["created_at", "type", "total", "asset"]], tz="Europe/Zurich", rows=2)
    created_at           type                total  asset
    2026-10-01 11:00:00  WIRE_DEPOSIT     1,000.00  USD
    2026-10-02 11:00:00  WIRE_WITHDRAWAL    225.00  USD
    5 rows, 3 of them not shown · times in Europe/Zurich
    """
    if not isinstance(frame, pd.DataFrame):
        raise InvalidRequest(f"frame is a {type(frame).__name__}; give a pandas DataFrame")
    try:
        ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):  # a folder of zones, say
        raise InvalidRequest(
            f"tz={shorten(tz)} is not a time zone; give a name such as 'UTC' or 'Europe/Zurich'"
        ) from None
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
        raise InvalidRequest(f"rows={shorten(rows)} is not accepted; give 0 or more")
    head = frame.head(rows)
    assets = next((head[name] for name in _ASSET_COLUMNS if name in head.columns), None)
    columns = tuple(
        _column(str(head.columns[position]), head.iloc[:, position], assets, tz)
        for position in range(head.shape[1])
    )
    return Shown(columns, len(frame), len(frame) - len(head), tz)


def _column(name: str, values: pd.Series, assets: pd.Series | None, tz: str) -> Column:
    name, dtype = printable(name), values.dtype
    if isinstance(dtype, DecimalDtype):
        usual = [_FEWEST] * len(values)
        if name.startswith("bps"):
            usual = [_BPS] * len(values)
        elif assets is not None:
            usual = [_DECIMALS.get(str(asset), _FEWEST) for asset in assets]
        pairs = zip(values, usual, strict=True)
        cells = tuple(Cell("" if pd.isna(v) else money_text(v, digits)) for v, digits in pairs)
        return Column(name, number=True, cells=cells)
    if isinstance(dtype, pd.DatetimeTZDtype):
        moments = _cells(values, lambda value: _time(value, tz))
        return Column(name, number=False, cells=moments, times=True)
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype):
        return Column(name, number=True, cells=_cells(values, _number))
    return Column(name, number=False, cells=_cells(values, _text))


def _cells(values: pd.Series, shown: Callable[[Any], Cell]) -> tuple[Cell, ...]:
    return tuple(Cell("") if is_missing(value) else shown(value) for value in values)


def _time(value: pd.Timestamp, tz: str) -> Cell:
    local = value.tz_convert(tz)
    return Cell(local.strftime("%Y-%m-%d %H:%M:%S"), local.isoformat())


def _number(value: Any) -> Cell:
    return Cell(f"{value:,}".removesuffix(".0"))  # a float has as many digits as tell it apart


def _text(value: object) -> Cell:
    text = printable(str(value))
    if _LONG_ID.fullmatch(text):
        return Cell(f"{text[:_ID_START]}…{text[-_ID_END:]}", text)
    return Cell(text)


def _padded(text: str, width: int, number: bool) -> str:
    return text.rjust(width) if number else text.ljust(width)


_STYLE: Final = """
.fl-table { --ink: var(--jp-ui-font-color1, var(--vscode-editor-foreground, currentColor));
  --soft: var(--jp-ui-font-color2, var(--vscode-descriptionForeground, currentColor));
  --line: color-mix(in srgb, var(--ink) 20%, transparent);
  color: var(--ink); font: 13px/1.4 system-ui, sans-serif; overflow-x: auto; margin: 4px 0; }
.fl-table table { table-layout: auto; border-collapse: collapse; }
.fl-table th, .fl-table td { padding: 4px 12px !important; text-align: left !important;
  border-bottom: 1px solid var(--line); white-space: nowrap; background: none !important;
  color: var(--ink); }
.fl-table th { color: var(--soft); font-weight: 500; }
.fl-table .fl-number { text-align: right !important; font-variant-numeric: tabular-nums; }
.fl-table .fl-long { white-space: normal; min-width: 15em; }
.fl-table [title] { cursor: help; }
.fl-table abbr { text-decoration: none; border-bottom: 1px dotted var(--line); }
.fl-table p { color: var(--soft); margin: 6px 12px; }
"""
_TABLE: Final = Environment(
    autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
).from_string(
    """\
<div class="fl-table"><style>{{ style|safe }}</style>
<table><thead><tr>
{% for column in columns %}<th class="{{ column.kind }}">{{ column.name }}\
</th>{% endfor %}
</tr></thead><tbody>
{% for row in range(shown) %}<tr>
{% for column in columns %}
{% set cell = column.cells[row] %}
<td class="{{ column.kind }}">\
{% if cell.whole %}<abbr title="{{ cell.whole }}">{{ cell.text }}</abbr>\
{% else %}{{ cell.text }}{% endif %}</td>
{% endfor %}
</tr>
{% endfor %}
</tbody></table>
<p>{{ note }}</p></div>
"""
)
