"""What people look at: one table and one card, the same in a terminal and a notebook; the report's
page draws its tables with the same cells.

For looking only: no amount is rounded, only what comes of a price; and what would move or repaint
a terminal is replaced by a mark. Colours come from the notebook's theme, so that all reads in the
light and in the dark; only the band that names the environment has its own.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Collection, Mapping, Sequence, Sized
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from markupsafe import Markup, escape

from fundlab.base.errors import InvalidRequest, a_type, number_of, printable, shorten
from fundlab.base.exact import EXACT
from fundlab.base.values import length_text, money_text
from fundlab.settings.labels import name_of

if TYPE_CHECKING:
    from jinja2 import Template

Tone = Literal["good", "bad", "warn", "plain"]
Style = Literal["text", "number", "long", "zero", "short", "id", "time", "good", "bad", "warn"]
"""Numbers stand to the right, long texts are folded, a tone is a chip on the report's page."""

DEFAULT_ROWS: Final = 20
WIDTH: Final = 78
_LAZY: Final = {"_duckdb", "duckdb", "polars", "pyspark"}
"""Whose results have ``limit``, and a length or a count."""
_SIGNS: Final[Mapping[str, str]] = {"good": "✓", "bad": "✗"}
_DECIMALS: Final[Mapping[str, int]] = {"BTC": 8, "BCH": 8, "LTC": 8, "ETH": 6, "SOL": 6}
_BPS: Final = 4
"""Decimals of basis points, which are not money of the row's asset."""
_LONG_ID: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{20,}"
    r"|(?=.*(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])[A-Za-z0-9]{16})[A-Za-z0-9:_-]{28,}", re.ASCII
)  # fmt: skip
"""A UUID, or what has sixteen letters and digits on end, as no words have."""
_LONG_TEXT: Final = 32


@dataclass(frozen=True)
class Cell:
    """What is shown, in the style of its column unless it has one of its own. ``title`` is the
    complete text where that is shortened; a column of the report's page is sorted by the ``value``
    of its cells, whose order is their ``place``."""

    text: str
    style: Style = "text"
    title: str = ""
    value: Any = None
    place: int | None = None


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of cells under columns with a name and a style, ``totals`` below them; ``hidden`` rows
    are not shown."""

    columns: tuple[tuple[str, Style], ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    note: str = ""
    hidden: int = 0
    totals: tuple[tuple[Cell, ...], ...] = ()

    def lines(self) -> list[str]:
        """The header and the rows as aligned text."""
        padded = []
        for column, (name, style) in enumerate(self.columns):
            every = (*self.rows, *self.totals)
            texts = [printable(name), *(printable(row[column].text) for row in every)]
            if style == "number":  # the points of decimals one below the other
                most = max(len("".join(text.partition(".")[1:])) for text in texts[1:] or texts)
                texts[1:] = [
                    text + " " * (most - len("".join(text.partition(".")[1:]))) * bool(text)
                    for text in texts[1:]
                ]
            width = max(map(len, texts))
            padded.append([t.rjust(width) if style == "number" else t.ljust(width) for t in texts])
        return ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]

    def body(self) -> Markup:
        """``<thead>`` and ``<tbody>``."""
        heads = [f"<th scope=\"col\"{_class(style)}>{escape(printable(name))}</th>"
                 for name, style in self.columns]  # fmt: skip
        styles = [style for _, style in self.columns]
        lines = ["<thead><tr>", "".join(heads), "</tr></thead>"]
        for part, rows in (("tbody", self.rows), ("tfoot", self.totals)):
            if rows or part == "tbody":
                lines.append(f"<{part}>")
                lines += ["".join(map(_cell, row, styles)).join(("<tr>", "</tr>")) for row in rows]
                lines.append(f"</{part}>")
        return Markup("\n".join([*lines, ""]))  # noqa: S704 - each text escaped

    def __repr__(self) -> str:
        return "\n".join([*self.lines(), self.note])

    def _repr_html_(self) -> str:
        return template(_TABLE).render(table=self, style=_TABLE_STYLE)


def _class(style: Style) -> str:
    return "" if style == "text" else f' class="fl-{style}"'


def _cell(cell: Cell, style: Style) -> str:
    """A report has a hundred thousand of them: a template takes ten times as long."""
    start = _class(style if cell.style == "text" else cell.style)
    text: str = escape(printable(cell.text))
    if cell.place is not None:
        start += f' data-k="{cell.place}"'
    if cell.title:
        start += f' title="{escape(printable(cell.title))}"'
    if cell.style in ("good", "bad", "warn"):
        text = f'<span class="chip {cell.style}">{text}</span>'
    return f"<td{start}>{text}</td>"


@dataclass(frozen=True)
class Row:
    """One line of a card; ``detail`` stands beside the value, ``money`` is set to the right;
    ``depth`` is how far the label is set in, below that of what it belongs to."""

    label: str
    value: str
    weight: Literal["plain", "strong", "faint"] = "plain"
    detail: str = ""
    money: bool = False
    depth: int = 0


@dataclass(frozen=True, repr=False)
class Card:
    """A payment, a batch or a report at a glance. Of an action, ``service`` is the name of the
    environment and its address; of a report, ``headline`` and ``detail`` are the verdict."""

    title: str
    rows: tuple[Row, ...] = ()
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()
    status: str | None = None
    notes: tuple[str, ...] = ()
    service: tuple[str, str] | None = None
    real_money: bool = False
    headline: str = ""
    detail: str = ""
    tone: Tone = "plain"

    @property
    def sign(self) -> str:
        return _SIGNS.get(self.tone, "!")

    def __repr__(self) -> str:
        framed = self.service is not None
        labels = ["  " * row.depth + row.label for row in self.rows]
        widest = max(map(len, labels), default=0)
        money = max((len(row.value) for row in self.rows if row.money), default=0)
        lines = [self.title]
        if self.service is not None:
            name, address = self.service
            lines = [f"── {name} ── {address} ".ljust(WIDTH, "─"), self.title, ""]
        if self.headline:
            lines += [self.headline, *textwrap.wrap(printable(self.detail), WIDTH)]
        for label, row in zip(labels, self.rows, strict=True):
            value = row.value.rjust(money) if row.money else row.value
            lines.append(f"  {label.ljust(widest)}  {value}  {row.detail}".rstrip())
        for number, table in enumerate(self.tables):
            lines += [""] * bool(number) + [f"  {line}" for line in table.lines()]
            lines += [table.note] * bool(table.note)
        for warning in self.warnings:
            lines += textwrap.wrap(
                f"! {warning}", WIDTH, initial_indent="  ", subsequent_indent="    ",
                break_on_hyphens=False, break_long_words=False,
            )  # fmt: skip
        lines += [""] * framed
        if self.status:
            lines.append(f"  ✓ {self.status}")
        lines += [f"  {note}" if framed else note for note in self.notes]
        lines += ["─" * WIDTH] * framed
        return "\n".join(map(printable, lines))

    def _repr_html_(self) -> str:
        return template(_CARD).render(card=self, style=CARD_STYLE)


def service_band(base_url: str, *, real_money: bool) -> dict[str, Any]:
    """Of a card, the environment it is about, in a colour that cannot be missed."""
    name = "PRODUCTION · real money" if real_money else "SANDBOX · play money"
    return {"service": (name, base_url), "real_money": real_money}


class Shown:
    """What shows itself as its card: as text in a terminal, drawn in a notebook."""

    def card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        return repr(self.card())

    def _repr_html_(self) -> str:
        return self.card()._repr_html_()


def show(
    frame: Any,
    *,
    tz: str = "UTC",
    rows: int = DEFAULT_ROWS,
    names: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """``frame`` for a human: the first ``rows`` rows, as a :class:`Table`. Also a series, and what
    an analysis of a store, of Arrow or of Polars gives.

    Money (columns of type ``decimal``) has thousands separators and the decimals of its row's
    asset, more where the amount has more; basis points have four. What :func:`fundlab.value.of` and
    ``totals`` made of a price is rounded: ``price`` to twelve digits, values to the cent. Times, as
    heads of columns too, are to the second, in ``tz``, a zone such as ``"Europe/Zurich"``,
    durations in their two largest units. Long ids, as heads too, are called by ``names`` (such as
    ``store.names()``), by the name they have in ``[names]`` of the settings, or shortened; of
    several in a cell their number is shown. All of a cell is on hover, and all is in the frame.

    What has a card of its own, such as a judgement, is given back as it is. Raises
    ``InvalidRequest`` for an unknown zone, and for what is neither.

    >>> fl.show(transfers[["created_at", "type", "total", "asset"]], tz="Europe/Zurich", rows=2)
    created_at           type                total  asset
    2026-10-01 11:00:00  WIRE_DEPOSIT     1,000.00  USD
    2026-10-02 11:00:00  WIRE_WITHDRAWAL    225.00  USD
    5 rows, 3 of them not shown (rows= shows more) · times in Europe/Zurich
    """
    try:
        ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):  # a folder of zones, say
        raise InvalidRequest(
            f"tz={shorten(tz)} is not a time zone; give a name such as 'UTC' or 'Europe/Zurich'"
        ) from None
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
        raise InvalidRequest(f"rows={shorten(rows)} is not accepted; give 0 or more")
    import pandas as pd  # half a second, which a table without a frame needs not wait for

    head, total = _first(frame, rows)
    if not isinstance(head, pd.DataFrame):
        if hasattr(frame, "_repr_html_") and not isinstance(frame, type):
            return frame
        raise InvalidRequest(f"frame is {a_type(frame)}; give a DataFrame")
    levels = [name for name in head.index.names if name is not None]
    if of_groups := [name for name in levels if name not in head.columns]:
        head = head.reset_index(of_groups)
    every = [*head.columns]  # of several of one name the first says of what the amounts are
    place = next((every.index(name) for name in ("balance_asset", "asset") if name in every), None)
    assets = [""] * len(head) if place is None else head.iloc[:, place]
    usual = [_DECIMALS.get(str(asset), 2) for asset in assets]
    labels: Any = head.columns
    dated = [label for label in labels if isinstance(label, pd.Timestamp)]
    times = any(at.tz is not None for at in dated)
    at_head = _times([at if at.tz is None else at.tz_convert(tz) for at in dated])
    named: dict[Any, str] = dict(zip(dated, (cell.text for cell in at_head), strict=True))
    ids = [label for label in labels if isinstance(label, str) and _LONG_ID.fullmatch(label)]
    of_ids = [_text(label, names).text for label in ids]
    named |= {label: text for label, text in zip(ids, of_ids, strict=True)
              if [*of_ids, *labels].count(text) == 1}  # fmt: skip
    heads: list[tuple[str, Style]] = []
    columns: list[tuple[Cell, ...]] = []
    for position, label in enumerate(labels):
        name, values = printable(named.get(label) or str(label)), head.iloc[:, position]
        times |= isinstance(values.dtype, pd.DatetimeTZDtype)
        rounded = _comes_of_a_price(name, labels)
        style, cells = _column(name, values, usual, tz, names, rounded)
        heads.append((name, style))
        columns.append(tuple(cells))
    hidden = total - len(head)
    note = number_of(total, "row")
    note += f", {hidden:,} of them not shown (rows= shows more)" if hidden else ""
    note += f" · times in {tz}" if times else ""
    return Table(tuple(heads), tuple(zip(*columns, strict=True)), note=note, hidden=hidden)


def _first(frame: Any, rows: int) -> tuple[Any, int]:
    """The first ``rows`` as a DataFrame, or what is no frame as it is; and how many there are."""
    import pandas as pd
    import pyarrow as pa

    from fundlab.base.arrow import with_durations
    from fundlab.decimals import types_mapper

    if isinstance(frame, pd.Series):
        frame = frame.to_frame()
    library = type(frame).__module__.partition(".")[0]
    if library == "polars" and hasattr(frame, "collect"):
        total = frame.select(sys.modules["polars"].len()).collect().item()
        return _first(frame.head(rows).collect(), rows)[0], total
    if isinstance(frame, pa.Table) or (library in _LAZY and hasattr(frame, "columns")):
        total = len(frame) if isinstance(frame, Sized) else frame.count()  # as Spark's
        first = frame.slice(0, rows) if isinstance(frame, pa.Table) else frame.limit(rows)
        if hasattr(first, "toArrow"):  # its stream asks Python workers for pyarrow
            first = first.toArrow()
        head = with_durations(pa.table(first)).to_pandas(
            types_mapper=lambda of: (
                types_mapper(of) or (pd.ArrowDtype(of) if pa.types.is_integer(of) else None)
            )  # else floats beside nulls
        )
        return head, total
    return (frame.head(rows), len(frame)) if isinstance(frame, pd.DataFrame) else (frame, 0)


def _comes_of_a_price(name: str, columns: Collection[str]) -> bool:
    """Whether it is a column that ``fl.value`` made, by those that it makes beside it: an amount of
    the same name is exact, and is shown so."""
    if name == "price":
        return "price_from" in columns
    of = name.removesuffix("_value")
    return of != name and ("priced" in columns or {of, "price_from"} <= {*columns})


def _column(
    name: str,
    values: Any,
    usual: Sequence[int],
    tz: str,
    names: Mapping[str, str],
    comes_of_a_price: bool,
) -> tuple[Style, list[Cell]]:
    """How a column is set, and its cells; ``usual`` are the decimals of each row's asset."""
    import pandas as pd

    from fundlab.decimals import DecimalDtype
    from fundlab.decimals.scalars import is_missing

    is_a = pd.api.types
    there = [None if is_missing(value) else value for value in values]
    if isinstance(values.dtype, DecimalDtype) and comes_of_a_price:
        return "number", [Cell("") if one is None else _by_price(name, one) for one in there]
    if isinstance(values.dtype, DecimalDtype):
        digits = [_BPS] * len(there) if name.startswith("bps") else usual
        return "number", [
            Cell("" if value is None else money_text(value, places))
            for value, places in zip(there, digits, strict=True)
        ]
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        return "text", _times([None if at is None else at.tz_convert(tz) for at in there])
    if is_a.is_datetime64_dtype(values.dtype):
        return "text", _times(there)
    if is_a.is_timedelta64_dtype(values.dtype):
        return "number", [
            Cell("") if one is None else Cell(length_text(one.value), title=str(one))
            for one in there
        ]
    if is_a.is_numeric_dtype(values.dtype) and not is_a.is_bool_dtype(values.dtype):
        # a float has as many digits as distinguish it
        return "number", [
            Cell("" if one is None else f"{one:,}".removesuffix(".0")) for one in there
        ]
    if {type(one) for one in there if one is not None} == {Decimal}:  # wider than the type decimal
        return "number", [Cell("" if one is None else f"{one:,f}") for one in there]
    cells = [_text("" if one is None else printable(str(one)), names) for one in there]
    return "long" if any(len(cell.text) > _LONG_TEXT for cell in cells) else "text", cells


def _text(text: str, names: Mapping[str, str]) -> Cell:
    """Of several ids how many there are, of one its name or its ends."""
    words = text.split()
    if not words or not all(map(_LONG_ID.fullmatch, words)):
        return Cell(text)
    if len(words) > 1:
        return Cell(number_of(len(words), "id"), title=text)
    called = printable(names.get(text, "")) or name_of(text)
    return Cell(called or f"{text[:8]}…{text[-4:]}", title=text)


def _times(moments: Sequence[Any]) -> list[Cell]:
    """To the second; of midnights alone, such as days and periods, the dates."""
    there = [at for at in moments if at is not None]
    form = "%Y-%m-%d" if all(at == at.normalize() for at in there) else "%Y-%m-%d %H:%M:%S"
    return [
        Cell("") if at is None else Cell(f"{at:{form}}", title=at.isoformat()) for at in moments
    ]


def price_text(price: Decimal) -> str:
    """``0.999987654232``: twelve digits, so that the product of what is shown is right to half a
    cent for values up to a billion."""
    return money_text(EXACT.quantize(price, Decimal((0, (1,), min(-2, price.adjusted() - 11)))))


def value_text(value: Decimal) -> str:
    """``-1,234.50``: what something is worth, to the cent (half even)."""
    return money_text(EXACT.add(EXACT.quantize(value, Decimal("0.01")), 0))


def _by_price(name: str, value: Decimal) -> Cell:
    """Rounded, with the exact figure on hover where that is another."""
    exact = money_text(value)
    text = price_text(value) if name == "price" else value_text(value)
    return Cell(text, title=exact if text != exact else "")


SCROLL_STYLE: Final = """
.fl-table, .fl-scroll { overflow-x: auto; animation: fl-more linear;
  animation-timeline: scroll(self inline); }
@keyframes fl-more { /* the edge fades while there is more to the right */
  from, 99% { mask-image: linear-gradient(to left, transparent, #000 3em); } }
"""
_TABLE_STYLE: Final = (
    SCROLL_STYLE
    + """
.fl-card, .fl-card *, .fl-table, .fl-table * { box-sizing: border-box; }
.fl-card, .fl-table {
  --ink: var(--jp-ui-font-color1, var(--vscode-editor-foreground, currentColor));
  --soft: var(--jp-ui-font-color2, var(--vscode-descriptionForeground, currentColor));
  --line: color-mix(in srgb, var(--ink) 22%, transparent);
  color: var(--ink); margin: 4px 0; font: 14px/1.45 system-ui, sans-serif; }
.fl-table { font-size: 13px; }
.fl-table table { table-layout: auto; border-collapse: collapse; }
.fl-table th, .fl-table td { padding: 4px 12px !important; text-align: left !important;
  border-bottom: 1px solid var(--line); white-space: pre; background: none !important;
  color: var(--ink); }
.fl-table th { color: var(--soft); font-weight: 500; }
.fl-table th.fl-number, .fl-table td.fl-number { text-align: right !important;
  font-variant-numeric: tabular-nums; }
.fl-table .fl-long { white-space: pre-wrap; min-width: 15em; }
.fl-table td[title] { cursor: help; text-decoration: underline 1px dotted var(--line);
  text-underline-offset: 3px; }
.fl-table p { color: var(--soft); margin: 6px 12px; position: sticky; left: 12px; }
"""
)
CARD_STYLE: Final = (
    _TABLE_STYLE
    + """
.fl-card { border: 1px solid var(--line); border-radius: 8px; overflow: hidden; max-width: 46rem; }
.fl-card.fl-wide { max-width: 64rem; } .fl-card.fl-report { max-width: 56rem; }
.fl-card .fl-band { color: #fff; padding: 7px 14px; display: flex; flex-wrap: wrap;
  gap: 0 14px; justify-content: space-between; }
.fl-card .fl-band b { letter-spacing: .06em; }
.fl-card .fl-band span, .fl-card .fl-title, .fl-card dd, .fl-card .fl-verdict, .fl-card .fl-note {
  overflow-wrap: anywhere; }
.fl-card .fl-title { font-size: 17px; font-weight: 600; padding: 10px 14px 4px; }
.fl-card .fl-good { --tone: #1a8f5f; } .fl-card .fl-bad { --tone: #d0323f; }
.fl-card .fl-warn { --tone: #c07a00; } .fl-card .fl-plain { --tone: var(--line); }
.fl-card .fl-verdict { border-left: 6px solid var(--tone); padding: 10px 14px;
  background: color-mix(in srgb, var(--tone) 13%, transparent); }
.fl-card .fl-verdict b { font-size: 17px; font-weight: 600; }
.fl-card .fl-verdict small { display: block; color: var(--soft); font-size: 13px; }
.fl-card dl { display: grid; grid-template-columns: fit-content(50%) minmax(0, 1fr); gap: 3px 18px;
  margin: 0; padding: 4px 14px 12px; }
.fl-card dl > div { display: contents; }
.fl-card dt, .fl-card dd { float: none; width: auto; margin: 0; padding: 0; }
.fl-card dt { color: var(--soft); font-weight: 400; overflow-wrap: anywhere; }
.fl-card dd.fl-money b { display: inline-block; min-width: min(11em, 100%); text-align: right;
  font-variant-numeric: tabular-nums; }
.fl-card dd b { font-weight: 400; }
.fl-card dd.fl-strong b { font-weight: 650 !important; }
.fl-card .fl-faint, .fl-card .fl-detail { color: var(--soft); }
.fl-card .fl-detail { padding-left: .7em; font-size: 13px; }
.fl-card dl.fl-figures { display: flex; flex-wrap: wrap; gap: 8px 24px; padding: 12px 14px; }
.fl-card .fl-figures > div { display: block; min-width: 6.5em; }
.fl-card .fl-figures dt, .fl-card .fl-figures .fl-detail { font-size: 13px; padding: 0; }
.fl-card .fl-figures dd b { display: block; font-size: 17px; font-weight: 600; text-align: left;
  min-width: 0; }
.fl-card .fl-warning, .fl-card .fl-status { margin: 0 14px 8px; padding: 6px 10px;
  border-left: 4px solid #d98a00; background: color-mix(in srgb, #d98a00 14%, transparent); }
.fl-card .fl-status { border-color: #2a7de1; font-weight: 600;
  background: color-mix(in srgb, #2a7de1 14%, transparent); }
.fl-card .fl-note { border-top: 1px solid var(--line); padding: 8px 14px; color: var(--soft); }
.fl-card .fl-files { font: 12.5px/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.fl-card .fl-more { padding: 0 14px 10px; color: var(--soft); font-size: 13px; }
.fl-card .fl-table table { width: 100%; margin: 0 0 10px; }
"""
)


@cache
def template(text: str) -> Template:
    """Compiled where it is used: at a terminal none is."""
    from jinja2 import Environment, StrictUndefined

    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # no Markup
    ).from_string(text)


_TABLE: Final = """\
<div class="fl-table"><style>{{ style|safe }}</style>
<table>{{ table.body() }}</table>
<p>{{ table.note }}</p></div>
"""
_CARD: Final = """\
<div class="fl-card{{ ' fl-wide' if card.tables }}{{ ' fl-report' if card.headline }}">\
<style>{{ style|safe }}</style>
{% if card.service %}
<div class="fl-band" style="background: {{ '#b3261e' if card.real_money else '#1d6b52' }}">\
<b>{{ card.service[0] }}</b><span>{{ card.service[1] }}</span></div>
{% endif %}
{% if card.headline %}
<div class="fl-verdict fl-{{ card.tone }}"><small>{{ card.title }}</small>
<b>{{ card.sign }} {{ card.headline }}</b>
<div>{{ card.detail }}</div></div>
{% else %}
<div class="fl-title">{{ card.title }}</div>
{% endif %}
{% if card.rows %}
<dl{{ ' class="fl-figures"'|safe if card.headline }}>
{% for row in card.rows %}
<div><dt\
{% if row.depth %} style="padding-left: {{ row.depth }}em"{% endif %}>{{ row.label }}</dt>
<dd class="fl-{{ row.weight }}{{ ' fl-money' if row.money }}"><b>{{ row.value }}</b>\
{% if row.detail %}<span class="fl-detail">{{ row.detail }}</span>{% endif %}</dd></div>
{% endfor %}
</dl>
{% endif %}
{% for table in card.tables if table.rows %}
<div class="fl-table"><table>{{ table.body() }}</table></div>
{% if table.note %}
<div class="fl-more">{{ table.note }}</div>
{% endif %}
{% endfor %}
{% for warning in card.warnings %}
<div class="fl-warning">{{ warning }}</div>
{% endfor %}
{% if card.status %}
<div class="fl-status">{{ card.status }}</div>
{% endif %}
{% for note in card.notes %}
<div class="fl-note{{ ' fl-files' if card.headline }}">{{ note }}</div>
{% endfor %}
</div>
"""
