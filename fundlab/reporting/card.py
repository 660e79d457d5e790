"""A :class:`Report` at a glance: the card that a notebook shows, in the colours of its theme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jinja2 import Environment, StrictUndefined

from fundlab.errors import printable

if TYPE_CHECKING:
    from fundlab.reporting.facts import Report

_SIGNS: Final = {"good": "✓", "bad": "✗"}


def render_card(report: Report) -> str:
    """The verdict, the key figures, and where the report was written."""
    return _CARD.render(
        report=report, style=_STYLE, sign=_SIGNS.get(report.tone, "!"), say=printable
    )


_STYLE: Final = """
.fl-report { --ink: var(--jp-ui-font-color1, var(--vscode-editor-foreground, currentColor));
  --soft: var(--jp-ui-font-color2, var(--vscode-descriptionForeground, currentColor));
  --line: color-mix(in srgb, var(--ink) 22%, transparent);
  color: var(--ink); border: 1px solid var(--line); border-radius: 8px; overflow: hidden;
  max-width: 56rem; margin: 4px 0; font: 14px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
.fl-report .fl-good { --tone: #1a8f5f; } .fl-report .fl-bad { --tone: #d0323f; }
.fl-report .fl-warn { --tone: #c07a00; } .fl-report .fl-plain { --tone: var(--line); }
.fl-report .fl-verdict { border-left: 6px solid var(--tone); padding: 10px 14px;
  background: color-mix(in srgb, var(--tone) 13%, transparent); }
.fl-report .fl-verdict b { font-size: 17px; font-weight: 600; }
.fl-report .fl-verdict div { margin-top: 2px; }
.fl-report .fl-title { color: var(--soft); font-size: 13px; margin: 0 0 2px; }
.fl-report dl { display: flex; flex-wrap: wrap; gap: 8px 24px; margin: 0; padding: 12px 14px; }
.fl-report dl div { min-width: 6.5em; }
.fl-report dt, .fl-report dd { float: none; width: auto; margin: 0; padding: 0; font-weight: 400;
  color: var(--soft); font-size: 13px; }
.fl-report dd b { display: block; color: var(--ink); font-size: 17px; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.fl-report .fl-files { border-top: 1px solid var(--line); padding: 8px 14px;
  font: 12.5px/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
"""
_CARD: Final = Environment(
    autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
).from_string(
    """\
<div class="fl-report"><style>{{ style|safe }}</style>
<div class="fl-verdict fl-{{ report.tone }}">
<div class="fl-title">{{ say(report.title) }}</div>
<b>{{ sign }} {{ say(report.verdict.headline) }}</b>
<div>{{ say(report.verdict.detail) }}{% if report.remark %} <strong>{{ report.remark }}</strong>\
{% endif %}</div>
</div>
<dl>
{% for figure in report.key_figures %}
<div><dt>{{ figure.label }}</dt><dd><b>{{ figure.value }}</b>{{ say(figure.note) }}</dd></div>
{% endfor %}
</dl>
{% if report.places %}
<div class="fl-files">
{% for place in report.places %}
<div>{{ say(place) }}</div>
{% endfor %}
</div>
{% endif %}
</div>
"""
)
