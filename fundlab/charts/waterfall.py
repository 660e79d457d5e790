"""From the opening balance to the closing one, a bar for each kind of movement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from fundlab.charts import look
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, PANEL, TEXT, Layout, Theme, compact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_STEPS: Final = 5
FEES: Final = "Fees"
"""The step that is never gathered with others."""
_ROW: Final = 15.0
_CUT: Final = 0.7
_MARGINS: Final = (138.0, 52.0, 30.0, 8.0)


@look.chart
def waterfall(
    movements: pd.DataFrame,
    theme: Theme = LIGHT,
    *,
    asset: str | None = None,
    words: str = "From opening to closing balance",
) -> Figure:
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
    by_asset = {name: _few(rows) for name, rows in look.by_asset(movements, asset).items()}
    layout = Layout((PANEL[0], _MARGINS[2] + _MARGINS[3] + 5 * _ROW), _MARGINS)

    figure = look.panels(
        by_asset, lambda axes, rows: _draw(axes, rows, theme), theme, "No movements",
        layout=layout, tall=lambda rows: len(rows) * _ROW,
    )  # fmt: skip
    ends = "; ".join(
        f"{name} from {compact(float(rows['amount'].iloc[0]))} to "
        f"{compact(float(rows['amount'].iloc[-1]))}"
        for name, rows in look.by_asset(movements, asset).items()
    )
    return look.described(figure, f"{words}: {ends or 'no movements'}.")


def _draw(axes: Panel, rows: pd.DataFrame, theme: Theme) -> None:
    level = 0.0
    edges: list[float] = []
    axes.grid(visible=False)
    axes.hide_foot()
    for position, (kind, amount) in enumerate(zip(rows["kind"], rows["amount"], strict=True)):
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
    for position, (step, kind, amount) in enumerate(
        zip(rows["step"], rows["kind"], rows["amount"], strict=True)
    ):
        words = f"{step}: {look.spelled(amount, signed=kind != 'balance')}"
        axes.hover((low, high + width, position - 0.45, position + 0.45), words)
    if low > 0:  # two slanted lines across a bar: it does not begin at zero
        at = low + width * 5
        for bar in np.flatnonzero(rows["kind"] == "balance"):
            for side, shift in (("left", -width), ("right", width)):
                axes.plot(
                    [at + shift - width, at + shift + width], [bar + 0.44, bar - 0.44],
                    color=theme.paper, linewidth=2.4, solid_capstyle="butt",
                    gid=f"cut-{bar}-{side}",
                )  # fmt: skip
        look.note(axes, f"drawn from {compact(low)} on", theme)
    look.name_rows(axes, list(rows["step"]))
    axes.set_xticks([])


def _few(rows: pd.DataFrame) -> pd.DataFrame:
    """Amounts as floats, the smaller changes of either direction together."""
    table = pd.DataFrame(
        {
            "step": rows["step"].astype(str),
            "kind": rows["kind"].astype(str),
            "amount": rows["amount"].astype("float64"),
        }
    ).reset_index(drop=True)
    changes = table[(table["kind"] == "change") & (table["step"] != FEES)]
    if changes.empty:
        return table
    first, last = table[: changes.index.min()], table[changes.index.max() + 1 :]
    parts = [first]
    for side, name in ((changes["amount"] >= 0, "in"), (changes["amount"] < 0, "out")):
        mine = changes[side]
        mine = mine.loc[mine["amount"].abs().sort_values(ascending=False, kind="stable").index]
        rest = mine[MAX_STEPS - 1 :] if len(mine) > MAX_STEPS else mine[:0]
        parts.append(mine[: len(mine) - len(rest)])
        if len(rest):
            words = f"{len(rest)} others {name}"
            total = rest["amount"].sum()
            parts.append(pd.DataFrame([{"step": words, "kind": "change", "amount": total}]))
    return pd.concat([*parts, last], ignore_index=True)
