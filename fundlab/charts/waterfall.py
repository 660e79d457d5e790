"""From the opening balance to the closing one, a bar for each kind of movement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum
from typing import Final

import pandas as pd

from fundlab.charts import look
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, PANEL, TEXT, Layout, Theme, compact

MAX_STEPS: Final = 5
FEES: Final = "Fees"
"""The step that is never gathered with others."""
_ROW: Final = 15.0
_CUT: Final = 0.7
Step = tuple[str, str, float]
"""A name, ``balance`` or ``change``, and how much."""
_MARGINS: Final = (138.0, 52.0, 30.0, 8.0)


@look.chart
def waterfall(
    movements: pd.DataFrame,
    theme: Theme = LIGHT,
    *,
    asset: str | None = None,
    words: str = "From opening to closing balance",
) -> look.Drawing:
    """How each asset went from its opening to its closing balance, or what ``words`` say.

    ``movements`` has ``asset``, ``step`` (a name), ``kind`` (``balance`` or ``change``) and
    ``amount``, in order: the opening, the changes, the closing. The smallest of more than
    :data:`MAX_STEPS` changes in either direction are drawn as one.

    >>> movements = pd.DataFrame(
    ...     {
    ...         "asset": "USD",
    ...         "step": ["Opening", "Deposits", "Closing"],
    ...         "kind": ["balance", "change", "balance"],
    ...         "amount": pd.array(["0", "1000", "1000"], dtype="decimal"),
    ...     }
    ... )
    >>> fl.charts.waterfall(movements).get_label()
    'From opening to closing balance: USD from 0 to 1 k.'
    """
    look.need(movements, "asset", "step", "kind", "amount")
    amounts = look.by_asset(
        movements["asset"], step=look.texts(movements["step"]),
        kind=look.texts(movements["kind"]), amount=look.numbers(movements["amount"]),
    )  # fmt: skip
    few = {name: _few([*zip(*rows.values(), strict=True)]) for name, rows in amounts.items()}

    def named(shown: Iterable[str]) -> str:
        ends = ((name, *amounts[name]["amount"][[0, -1]]) for name in shown)
        each = "; ".join(f"{name} from {compact(first)} to {compact(last)}"
                         for name, first, last in ends)  # fmt: skip
        return f"{words}: {each or 'no movements'}."

    return look.Drawing(
        few, lambda axes, rows: _draw(axes, rows, theme), theme, named, "No movements",
        layout=Layout((PANEL[0], _MARGINS[2] + _MARGINS[3] + 5 * _ROW), _MARGINS),
        tall=lambda rows: len(rows) * _ROW, asset=asset,
    )  # fmt: skip


def _draw(axes: Panel, rows: Sequence[Step], theme: Theme) -> None:
    level = 0.0
    edges: list[float] = []
    axes.grid(visible=False)
    axes.hide_foot()
    for position, (_, kind, amount) in enumerate(rows):
        balance = kind == "balance"
        start = 0.0 if balance else level
        level = amount if balance else level + amount
        color = theme.muted if balance else theme.inflow if amount >= 0 else theme.outflow
        axes.barh(position, level - start, 0.66, start, color=color, edgecolor=color, linewidth=0.8)
        if position + 1 < len(rows):
            axes.plot(
                [level, level], [position - 0.33, position + 1.33], color=theme.muted, linewidth=0.7
            )
        axes.words(compact(amount, signed=not balance), (max(start, level), position), (4, 0),
                   theme.ink, va="center", size=TEXT - 1)  # fmt: skip
        edges.append(level)
    # From zero; but where the changes would be slivers beside the balance, only around them.
    low, high = min(edges), max(edges)
    if low > _CUT * high and high > low:
        low -= (high - low) * 0.5
    else:
        air = (max(high, 0) - min(low, 0)) * 0.02 or 1.0
        low, high = (low - air if low < 0 else 0.0), max(high, 0.0) or 1.0
    width = (high - low) * 0.02
    axes.set_xlim(low, high + width)
    for position, (step, kind, amount) in enumerate(rows):
        words = f"{step}: {look.spelled(amount, signed=kind != 'balance')}"
        axes.hover((low, high + width, position - 0.45, position + 0.45), words)
    if low > 0:  # two slanted lines across a bar: it does not begin at zero
        at = low + width * 5
        for bar in (n for n, (_, kind, _) in enumerate(rows) if kind == "balance"):
            for side, shift in (("left", -width), ("right", width)):
                axes.plot(
                    [at + shift - width, at + shift + width], [bar + 0.44, bar - 0.44],
                    color=theme.paper, linewidth=2.4, solid_capstyle="butt",
                    gid=f"cut-{bar}-{side}",
                )  # fmt: skip
        look.note(axes, f"drawn from {compact(low)} on", theme)
    look.name_rows(axes, [step for step, _, _ in rows])
    axes.set_xticks([])


def _few(rows: Sequence[Step]) -> list[Step]:
    """The smaller changes of either direction together."""
    places = [n for n, (step, kind, _) in enumerate(rows) if kind == "change" and step != FEES]
    if not places:
        return [*rows]
    changes = [rows[n] for n in places]
    few = [*rows[: places[0]]]
    for mine, name in (([one for one in changes if one[2] >= 0], "in"),
                       ([one for one in changes if one[2] < 0], "out")):  # fmt: skip
        mine.sort(key=lambda one: -abs(one[2]))
        rest = mine[MAX_STEPS - 1 :] if len(mine) > MAX_STEPS else []
        few += mine[: len(mine) - len(rest)]
        if rest:
            total = fsum(amount for _, _, amount in rest)
            few.append((f"{len(rest)} others {name}", "change", total))
    return [*few, *rows[places[-1] + 1 :]]
