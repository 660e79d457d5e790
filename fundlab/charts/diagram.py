"""Where money came from and where it went: bands through the profiles (a Sankey diagram)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import pandas as pd

from fundlab.charts import look
from fundlab.charts.look import humanise
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, Layout, Theme, compact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ENDS: Final = 7
_GAP: Final = 0.03
_WIDTH: Final = 0.022
_BAND: Final = "MCCCLCCCz"
_LEAST: Final = 0.062  # between two labels
_MARGINS: Final = (200.0, 330.0, 30.0, 10.0)
_LAYOUT: Final = Layout((1080.0, 290.0), _MARGINS, columns=1)
_LONGEST: Final = 46

Spans = dict[str, tuple[float, float]]


@look.chart
def flow_diagram(
    links: pd.DataFrame,
    theme: Theme = LIGHT,
    *,
    asset: str | None = None,
    order: Sequence[str] = (),
) -> Figure:
    """Bands from sources through profiles to targets, as wide as the amounts they stand for.

    ``links`` has ``stage`` (1 into a profile, 2 out of one), ``source``, ``target``, ``asset`` and
    ``amount``. The profiles of ``order`` have the colours of the theme in that order, as a chart of
    their balances beside this one. At most :data:`MAX_ENDS` names stand on each side, the smaller
    ones as one.

    >>> links = pd.DataFrame(
    ...     {
    ...         "stage": [1, 2],
    ...         "source": ["Wire deposit", "main"],
    ...         "target": ["main", "Acme"],
    ...         "asset": "USD",
    ...         "amount": pd.array(["1000", "225"], dtype="decimal"),
    ...     }
    ... )
    >>> fl.charts.flow_diagram(links).get_label()
    'Flows between the outside, profiles and recipients: USD 1 k into and 225 out of 1
    profiles.'
    """
    look.need(links, "stage", "source", "target", "asset", "amount")
    tables, few, profiles = look.by_asset(links), {}, {}

    def gather(assets: Iterable[str]) -> None:
        for name in assets:
            amounts = tables[name].assign(amount=tables[name]["amount"].astype("float64"))
            moved = amounts[amounts["amount"] > 0]
            if name not in few and len(moved):
                few[name] = rows = _few(moved)
                into = rows["stage"] == 1
                profiles[name] = {*rows.loc[into, "target"], *rows.loc[~into, "source"]}

    gather(name for name in tables if asset is None or name == asset)
    shown = dict(few)
    if not set().union(*profiles.values()) <= {*order}:
        gather(tables)  # colours are those of all assets
    names = dict.fromkeys([*order, *sorted(set().union(*profiles.values()))])
    colors = {name: theme.series[n % len(theme.series)] for n, name in enumerate(names)}
    figure = look.panels(
        shown, lambda axes, rows: _draw(axes, rows, colors, theme), theme,
        "No flows", layout=_LAYOUT,
    )  # fmt: skip
    each = []
    for name, rows in shown.items():
        sums = rows.groupby("stage")["amount"].sum()
        brought, taken = (compact(float(sums.get(stage, 0.0))) for stage in (1, 2))
        each.append(f"{name} {brought} into and {taken} out of {len(profiles[name])} profiles")
    words = "; ".join(each) or "none"
    return look.described(figure, f"Flows between the outside, profiles and recipients: {words}.")


def _draw(axes: Panel, rows: pd.DataFrame, colors: dict[str, str], theme: Theme) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(1, 0)
    into, out = rows[rows["stage"] == 1], rows[rows["stage"] == 2]
    brought = into.groupby("target")["amount"].sum()
    taken = out.groupby("source")["amount"].sum()
    columns = [
        into.groupby("source")["amount"].sum().sort_values(ascending=False, kind="stable"),
        pd.concat([brought, taken], axis=1).max(axis=1).sort_values(ascending=False, kind="stable"),
        out.groupby("target")["amount"].sum().sort_values(ascending=False, kind="stable"),
    ]
    room = min(1 - _GAP * max(len(column) - 1, 0) for column in columns)
    scale = room / max(max(float(column.sum()) for column in columns), 1e-300)
    left, middle, right = (_spans(column, scale) for column in columns)
    _bands(axes, into, "source", "target", left, middle, scale, (0.0, 0.5), colors)
    _bands(axes, out, "target", "source", right, middle, scale, (1.0, 0.5), colors)

    # The nodes and their labels, those of the sources and targets beside the diagram.
    for x, spans, side, sizes in zip(
        (0.0, 0.5, 1.0), (left, middle, right), ("right", "", "left"), columns, strict=True
    ):
        start = x - _WIDTH * x  # the last column ends where the panel does
        # Labels moved apart so that they do not overlap, and back into the panel.
        heights: list[float] = []
        for top, bottom in spans.values():
            middle_of_bar = (top + bottom) / 2
            heights.append(max(middle_of_bar, heights[-1] + _LEAST) if heights else middle_of_bar)
        if heights and heights[-1] > 1:
            limit = 1.0
            for n in reversed(range(len(heights))):
                heights[n] = min(heights[n], limit)
                limit = heights[n] - _LEAST
        for (name, (top, bottom)), height in zip(spans.items(), heights, strict=True):
            color = theme.muted if side else colors.get(name, theme.muted)
            end, low = start + _WIDTH, max(bottom, top + 0.002)
            corners = [(start, top), (end, top), (end, low), (start, low), (start, top)]
            axes.shape("MLLLz", corners, color)
            words = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 2]}…"
            about = f"{name}: {look.spelled(float(sizes[name]))}"
            axes.hover((start, start + _WIDTH, top, bottom), about)
            if not side:
                axes.words(words, (end, height), (6, 0), theme.ink, va="center", halo=theme.paper)
                continue
            shift = -5 if side == "right" else 5
            if abs(height - (top + bottom) / 2) > _LEAST / 4:  # moved: a line leads to its bar
                shift *= 3
                axes.plot([x, x + shift / _LAYOUT.box[0]], [(top + bottom) / 2, height],
                          color=theme.muted, linewidth=0.6, clip_on=False)  # fmt: skip
            amount = compact(float(sizes[name]))
            axes.words(f"{words} · {amount}", (x, height), (shift, 0), theme.ink, ha=side,
                       va="center")  # fmt: skip


def _spans(sizes: pd.Series[float], scale: float) -> Spans:
    """Where each name begins and ends, from the top down, the whole in the middle."""
    used = float(sizes.sum()) * scale + _GAP * max(len(sizes) - 1, 0)
    top = (1 - used) / 2
    spans: Spans = {}
    for name, size in sizes.items():
        spans[str(name)] = (top, top + float(size) * scale)
        top += float(size) * scale + _GAP
    return spans


def _bands(
    axes: Panel,
    rows: pd.DataFrame,
    end: str,
    profile: str,
    ends: Spans,
    profiles: Spans,
    scale: float,
    across: tuple[float, float],
    colors: dict[str, str],
) -> None:
    at_end = {name: top for name, (top, _) in ends.items()}
    at_profile = {name: top for name, (top, _) in profiles.items()}
    order = rows.assign(
        a=rows[end].map(lambda name: ends[name][0]),
        b=rows[profile].map(lambda name: profiles[name][0]),
    ).sort_values(["a", "b"], kind="stable")
    inward = _WIDTH if across[0] < across[1] else -_WIDTH
    x0, x1 = across[0] + max(inward, 0) - max(-inward, 0), across[1] - inward / 2
    for name, owner, amount in zip(order[end], order[profile], order["amount"], strict=True):
        size, y0, y1 = amount * scale, at_end[name], at_profile[owner]
        at_end[name] += size
        at_profile[owner] += size
        half = (x0 + x1) / 2
        points = [(x0, y0), (half, y0), (half, y1), (x1, y1), (x1, y1 + size), (half, y1 + size),
                  (half, y0 + size), (x0, y0 + size), (x0, y0)]  # fmt: skip
        axes.shape(_BAND, points, colors[owner], 0.34)
        ways = (name, owner) if across[0] < across[1] else (owner, name)
        axes.hover((_BAND, points), f"{' → '.join(ways)}: {look.spelled(amount)}")


def _few(rows: pd.DataFrame) -> pd.DataFrame:
    """At most :data:`MAX_ENDS` sources, profiles and targets; each name as it is to be shown."""
    table = pd.DataFrame(
        {
            "stage": rows["stage"].astype("int64"),
            "source": rows["source"].astype(str).map(humanise),
            "target": rows["target"].astype(str).map(humanise),
            "amount": rows["amount"],
        }
    )
    into = table["stage"] == 1
    for end, mine in (("source", into), ("target", ~into)):
        table.loc[mine, end] = _gathered(table.loc[mine, end], table.loc[mine, "amount"])
    profile = _gathered(table["target"].where(into, table["source"]), table["amount"])
    table["target"] = profile.where(into, table["target"])
    table["source"] = table["source"].where(into, profile)
    keys = ["stage", "source", "target"]
    return table.groupby(keys)["amount"].sum().reset_index()


def _gathered(names: pd.Series[str], amounts: pd.Series[float]) -> pd.Series[str]:
    sums = amounts.groupby(names).sum().sort_values(ascending=False, kind="stable")
    if len(sums) <= MAX_ENDS:
        return names
    kept = set(sums.index[: MAX_ENDS - 1])
    return names.where(names.isin(kept), f"{len(sums) - len(kept):,} others")
