"""How a batch looks: totals by profile and asset, then the payments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fundlab.actions.cards import STYLE, TEMPLATES
from fundlab.actions.identity import shown_time
from fundlab.errors import printable
from fundlab.values import exact_sum, money_text

if TYPE_CHECKING:
    from fundlab.actions.batches import BatchPlan
    from fundlab.actions.withdrawals import WithdrawalPlan

_TAKEN: Final = (
    "profile_id", "fiat_account_id", "amount", "asset", "ref_id", "identity_id", "account_id",
    "memo", "metadata",
)  # fmt: skip
_ROWS_SHOWN: Final = 12
_LONGEST: Final = 20
_ID_SHOWN: Final = 13
_MEMO_SHOWN: Final = 40
_TOTAL_HEADS: Final = ("profile", "payments", "amount", "known fees", "available", "after")
_ROW_HEADS: Final = ("from", "to", "account", "amount", "fee")
_OWN_SHOWN: Final = 2
_NUMBERS: Final = frozenset(_TOTAL_HEADS[1:]) | {"fee"}


def batch_text(batch: BatchPlan) -> str:
    """The card for a terminal."""
    environment = batch.environment
    parts = [
        f"── {environment.name} ── {environment.base_url} ".ljust(78, "─"),
        _title(batch),
        "",
        *_lines(_TOTAL_HEADS, _totals(batch)),
        "",
        *_lines(_row_heads(batch), _rows(batch)),
        *_more(batch),
        *(f"  ! {warning}" for warning in _warnings(batch)),
        "",
        f"  {_note(batch)}",
        "─" * 78,
    ]
    return "\n".join(map(printable, parts))


def batch_html(batch: BatchPlan) -> str:
    """The card for a notebook."""
    return _CARD.render(
        style=STYLE,
        environment=batch.environment,
        title=_title(batch),
        numbers=_NUMBERS,
        tables=((_TOTAL_HEADS, _totals(batch)), (_row_heads(batch), _rows(batch))),
        more=_more(batch),
        warnings=_warnings(batch),
        note=_note(batch),
    )


def _title(batch: BatchPlan) -> str:
    amounts: dict[str, list[WithdrawalPlan]] = {}
    for plan in batch.plans:
        amounts.setdefault(plan.asset, []).append(plan)
    sums = ", ".join(
        f"{money_text(exact_sum(plan.amount for plan in plans))} {asset}"
        for asset, plans in amounts.items()
    )
    return f"Withdraw {sums} in {len(batch.plans)} payments"


def _totals(batch: BatchPlan) -> list[tuple[str, ...]]:
    return [
        (
            _short(total.profile_id, _ID_SHOWN),
            str(total.payments),
            f"{money_text(total.amount)} {total.asset}",
            money_text(total.fees)
            + (f" + {total.fees_unknown} unknown" * bool(total.fees_unknown)),
            money_text(total.available),
            money_text(total.after) + " less those fees" * bool(total.fees_unknown),
        )
        for total in batch.totals
    ]


def _own_columns(batch: BatchPlan) -> list[str]:
    """The first columns that are the caller's own, such as an invoice, and its ref_ids."""
    names = [name for name in batch.table.columns if name not in _TAKEN]
    return names[:_OWN_SHOWN] + ["ref_id"] * ("ref_id" in batch.table.columns)


def _row_heads(batch: BatchPlan) -> tuple[str, ...]:
    memo = ["memo"] * _has_memo(batch)
    return ("row", *map(str, _own_columns(batch)), *_ROW_HEADS, *memo, "so far")


def _has_memo(batch: BatchPlan) -> bool:
    return "memo" in batch.table.columns


def _rows(batch: BatchPlan) -> list[tuple[str, ...]]:
    shown = batch.table.head(_ROWS_SHOWN)
    ref_ids = [plan.ref_id for plan in batch.plans[:_ROWS_SHOWN]]
    own = [
        ref_ids if name == "ref_id" else [str(value) for value in shown[name]]
        for name in _own_columns(batch)
    ]
    return [
        (
            str(label),
            *(_short(texts[number]) for texts in own),
            _short(plan.profile_id, _ID_SHOWN),
            plan.account.owner,
            f"{plan.account.bank} {plan.account.number}",
            f"{money_text(plan.amount)} {plan.asset}",
            "not known" if plan.fee is None else money_text(plan.fee),
            *[_short(plan.arguments.get("memo", ""), _MEMO_SHOWN)] * _has_memo(batch),
            plan.status or "new",
        )
        for number, (label, plan) in enumerate(zip(shown.index, batch.plans, strict=False))
    ]


def _short(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 5]}…{text[-4:]}"


def _more(batch: BatchPlan) -> list[str]:
    more = len(batch.plans) - _ROWS_SHOWN
    return [f"and {more:,} more payments, in batch.payments"] if more > 0 else []


def _warnings(batch: BatchPlan) -> list[str]:
    found = []
    done = len(batch.plans) - len(batch.open_plans)
    if done:
        found.append(f"{done} of {len(batch.plans)} are already submitted; the rest will be sent.")
    warned = sum(bool(plan.warnings) for plan in batch.open_plans)
    if warned:
        first = next(plan for plan in batch.open_plans if plan.warnings)
        found.append(f"{warned} payments have warnings, the first: {first.warnings[0]}")
    return found


def _note(batch: BatchPlan) -> str:
    until = shown_time(batch.lapses_at, batch.context.now())
    return f"confirmation code {batch.code} · expires {until}"


def _lines(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    table = [heads, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    return [
        "  "
        + "  ".join(
            value.rjust(width) if head in _NUMBERS else value.ljust(width)
            for value, width, head in zip(row, widths, heads, strict=True)
        ).rstrip()
        for row in table
    ]


_CARD: Final = TEMPLATES.from_string(
    """\
<div class="fl-card fl-wide"><style>{{ style|safe }}</style>
<div class="fl-band" style="background: {{ environment.colour }}">\
<b>{{ environment.name }}</b><span>{{ environment.base_url }}</span></div>
<div class="fl-title">{{ title }}</div>
{% for heads, rows in tables %}
{% if rows %}
<div class="fl-scroll"><table><thead><tr>
{% for head in heads %}<th{{ ' class="fl-number"'|safe if head in numbers }}>\
{{ head }}</th>{% endfor %}
</tr></thead><tbody>
{% for row in rows %}<tr>\
{% for value in row %}<td{{ ' class="fl-number"'|safe if heads[loop.index0] in numbers }}>\
{{ value }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endif %}
{% endfor %}
{% for line in more %}
<div class="fl-more">{{ line }}</div>
{% endfor %}
{% for warning in warnings %}
<div class="fl-warning">{{ warning }}</div>
{% endfor %}
<div class="fl-note">{{ note }}</div>
</div>
"""
)
