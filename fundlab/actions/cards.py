"""How plans look: a card in a notebook, aligned text in a terminal. The same rows in both.

Colours come from the notebook's theme, so that the card reads in the light and in the dark; only
the band that names the environment has its own.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from jinja2 import Environment as Templates
from jinja2 import StrictUndefined

from fundlab.errors import printable

if TYPE_CHECKING:
    from fundlab.api.client import Client

Weight = Literal["plain", "strong", "faint"]
_WIDTH: Final = 78


@dataclass(frozen=True)
class Environment:
    """A service and credential. ``is_production``: the money is real (see ``Settings``)."""

    base_url: str
    client_id: str
    is_production: bool

    @property
    def name(self) -> str:
        return "PRODUCTION · real money" if self.is_production else "SANDBOX · play money"

    @property
    def colour(self) -> str:
        """Background of the card's band; its text is white."""
        return "#b3261e" if self.is_production else "#1d6b52"


def environment_of(client: Client) -> Environment:
    return Environment(client.base_url, client.client_id, client.settings.is_production)


@dataclass(frozen=True)
class Row:
    """One line of a card; ``detail`` stands beside the value."""

    label: str
    value: str
    weight: Weight = "plain"
    detail: str = ""
    money: bool = False


@dataclass(frozen=True)
class Card:
    title: str
    environment: Environment
    rows: tuple[Row, ...]
    warnings: tuple[str, ...]
    status: str | None
    note: str


def text_of(card: Card) -> str:
    """The card for a terminal."""
    environment = card.environment
    width = max((len(row.label) for row in card.rows), default=0)
    money = max((len(row.value) for row in card.rows if row.money), default=0)
    lines = [
        f"── {environment.name} ── {environment.base_url} ".ljust(_WIDTH, "─"),
        card.title,
        "",
    ]
    for row in card.rows:
        value = row.value.rjust(money) if row.money else row.value
        detail = f"  {row.detail}" if row.detail else ""
        lines.append(f"  {row.label.ljust(width)}  {value}{detail}".rstrip())
    lines += [
        line
        for warning in card.warnings
        for line in textwrap.wrap(
            f"! {warning}", _WIDTH, initial_indent="  ", subsequent_indent="    ",
            break_on_hyphens=False, break_long_words=False,
        )
    ]  # fmt: skip
    lines.append("")
    if card.status:
        lines.append(f"  ✓ {card.status}")
    lines.append(f"  {card.note}")
    lines.append("─" * _WIDTH)
    return "\n".join(map(printable, lines))


def html_of(card: Card) -> str:
    """The card for a notebook."""
    return _CARD.render(card=card, style=STYLE)


STYLE: Final = """
.fl-card { --ink: var(--jp-ui-font-color1, var(--vscode-editor-foreground, currentColor));
  --soft: var(--jp-ui-font-color2, var(--vscode-descriptionForeground, currentColor));
  --line: color-mix(in srgb, var(--ink) 22%, transparent);
  color: var(--ink); border: 1px solid var(--line); border-radius: 8px; overflow: hidden;
  max-width: 46rem; margin: 4px 0; font: 14px/1.45 system-ui, sans-serif; }
.fl-card .fl-band { color: #fff; padding: 7px 14px; display: flex; flex-wrap: wrap;
  gap: 0 14px; justify-content: space-between; }
.fl-card .fl-band b { letter-spacing: .06em; }
.fl-card .fl-band span { overflow-wrap: anywhere; }
.fl-card .fl-title { font-size: 17px; font-weight: 600; padding: 10px 14px 4px;
  overflow-wrap: anywhere; }
.fl-card dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 18px;
  margin: 0; padding: 4px 14px 12px; }
.fl-card dt, .fl-card dd { float: none; width: auto; margin: 0; padding: 0; }
.fl-card dt { color: var(--soft); font-weight: 400; white-space: nowrap; }
.fl-card dd { overflow-wrap: anywhere; }
.fl-card dd.fl-money b { display: inline-block; min-width: 11em; text-align: right;
  font-variant-numeric: tabular-nums; }
.fl-card dd b { font-weight: 400; }
.fl-card dd.fl-strong b { font-weight: 650 !important; }
.fl-card .fl-faint, .fl-card .fl-detail { color: var(--soft); }
.fl-card .fl-detail { padding-left: .7em; font-size: 13px; }
.fl-card .fl-warning { margin: 0 14px 8px; padding: 6px 10px; border-left: 4px solid #d98a00;
  background: color-mix(in srgb, #d98a00 14%, transparent); }
.fl-card .fl-status { margin: 0 14px 8px; padding: 6px 10px; border-left: 4px solid #2a7de1;
  background: color-mix(in srgb, #2a7de1 14%, transparent); font-weight: 600; }
.fl-card .fl-note { border-top: 1px solid var(--line); padding: 8px 14px; color: var(--soft); }
.fl-card table { table-layout: auto; border-collapse: collapse; width: 100%; margin: 0 0 10px;
  font-size: 13px; }
.fl-card th, .fl-card td { text-align: left !important; padding: 4px 10px 4px 14px !important;
  border-bottom: 1px solid var(--line); background: none !important; color: var(--ink);
  white-space: nowrap; }
.fl-card th { color: var(--soft); font-weight: 500; }
.fl-card th.fl-number, .fl-card td.fl-number { text-align: right !important;
  font-variant-numeric: tabular-nums; }
.fl-card.fl-wide { max-width: 64rem; }
.fl-card .fl-more { padding: 0 14px 10px; color: var(--soft); font-size: 13px; }
.fl-card .fl-scroll { overflow-x: auto; }
"""


def _printable(value: object) -> object:
    return printable(value) if type(value) is str else value  # Markup is the template's own


TEMPLATES: Final = Templates(
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_printable,
)
_CARD: Final = TEMPLATES.from_string(
    """\
<div class="fl-card"><style>{{ style|safe }}</style>
<div class="fl-band" style="background: {{ card.environment.colour }}">\
<b>{{ card.environment.name }}</b><span>{{ card.environment.base_url }}</span></div>
<div class="fl-title">{{ card.title }}</div>
<dl>
{% for row in card.rows %}
<dt>{{ row.label }}</dt>
<dd class="fl-{{ row.weight }}{{ ' fl-money' if row.money }}"><b>{{ row.value }}</b>\
{% if row.detail %}<span class="fl-detail">{{ row.detail }}</span>{% endif %}</dd>
{% endfor %}
</dl>
{% for warning in card.warnings %}
<div class="fl-warning">{{ warning }}</div>
{% endfor %}
{% if card.status %}
<div class="fl-status">{{ card.status }}</div>
{% endif %}
<div class="fl-note">{{ card.note }}</div>
</div>
"""
)
