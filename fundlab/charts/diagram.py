"""Where money came from and where it went: bands through the profiles (a Sankey diagram)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Final, NamedTuple

import pandas as pd

from fundlab.charts import look
from fundlab.charts.look import humanise
from fundlab.charts.picture import Panel
from fundlab.charts.theme import LIGHT, Layout, Theme, compact

MAX_ENDS: Final = 7
_GAP: Final = 0.03
_WIDTH: Final = 0.022
_BAND: Final = "MCCCLCCCz"
_LEAST: Final = 0.062  # between two labels
_MARGINS: Final = (200.0, 330.0, 30.0, 10.0)
_LAYOUT: Final = Layout((1080.0, 290.0), _MARGINS, columns=1)
_LONGEST: Final = 46

Spans = dict[str, tuple[float, float]]


class Link(NamedTuple):
    """An amount into a profile (stage 1) or out of one (stage 2)."""

    stage: int
    source: str
    target: str
    amount: float

    @property
    def profile(self) -> str:
        return self.target if self.stage == 1 else self.source

    @property
    def end(self) -> str:
        return self.source if self.stage == 1 else self.target


@look.chart
def flow_diagram(
    links: pd.DataFrame,
    theme: Theme = LIGHT,
    *,
    asset: str | None = None,
    order: Sequence[str] = (),
) -> look.Drawing:
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
    by_asset = {}
    for name, rows in look.by_asset(
        links["asset"], stage=look.numbers(links["stage"]), source=look.texts(links["source"]),
        target=look.texts(links["target"]), amount=look.numbers(links["amount"]),
    ).items():  # fmt: skip
        moved = [Link(int(stage), humanise(source), humanise(target), amount)
                 for stage, source, target, amount
                 in zip(*(column.tolist() for column in rows.values()), strict=True)
                 if amount > 0]  # fmt: skip
        if moved:
            by_asset[name] = _few(moved)
    profiles = {name: {link.profile for link in rows} for name, rows in by_asset.items()}
    names = dict.fromkeys([*order, *sorted(set().union(*profiles.values()))])
    colors = {name: theme.series[n % len(theme.series)] for n, name in enumerate(names)}

    def words(shown: Mapping[str, Sequence[Link]]) -> str:
        each = []
        for name, rows in shown.items():
            brought, taken = (
                compact(fsum(link.amount for link in rows if link.stage == stage))
                for stage in (1, 2)
            )
            each.append(f"{name} {brought} into and {taken} out of {len(profiles[name])} profiles")
        found = "; ".join(each) or "none"
        return f"Flows between the outside, profiles and recipients: {found}."

    return look.Drawing(
        by_asset, lambda axes, rows: _draw(axes, rows, colors, theme), theme, words, "No flows",
        layout=_LAYOUT, asset=asset,
    )  # fmt: skip


def _draw(axes: Panel, rows: Sequence[Link], colors: dict[str, str], theme: Theme) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(1, 0)
    into = [link for link in rows if link.stage == 1]
    out = [link for link in rows if link.stage == 2]
    brought, taken = _sums(into, "profile"), _sums(out, "profile")
    through = {name: max(brought.get(name, 0.0), taken.get(name, 0.0)) for name in brought | taken}
    columns = [_largest_first(sums) for sums in (_sums(into, "end"), through, _sums(out, "end"))]
    room = min(1 - _GAP * max(len(column) - 1, 0) for column in columns)
    scale = room / max(max(fsum(column.values()) for column in columns), 1e-300)
    left, middle, right = (_spans(column, scale) for column in columns)
    _bands(axes, into, left, middle, scale, (0.0, 0.5), colors)
    _bands(axes, out, right, middle, scale, (1.0, 0.5), colors)

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
            about = f"{name}: {look.spelled(sizes[name])}"
            axes.hover((start, start + _WIDTH, top, bottom), about)
            if not side:
                axes.words(words, (end, height), (6, 0), theme.ink, va="center", halo=theme.paper)
                continue
            shift = -5 if side == "right" else 5
            if abs(height - (top + bottom) / 2) > _LEAST / 4:  # moved: a line leads to its bar
                shift *= 3
                axes.plot([x, x + 0.8 * shift / _LAYOUT.box[0]], [(top + bottom) / 2, height],
                          color=theme.muted, linewidth=0.6, clip_on=False)  # fmt: skip
            amount = compact(sizes[name])
            axes.words(f"{words} · {amount}", (x, height), (shift, 0), theme.ink, ha=side,
                       va="center")  # fmt: skip


def _sums(links: Iterable[Link], by: str) -> dict[str, float]:
    """The amounts by ``profile`` or ``end``, in order of the names."""
    amounts: dict[str, list[float]] = {}
    for link in links:
        amounts.setdefault(getattr(link, by), []).append(link.amount)
    return {name: fsum(amounts[name]) for name in sorted(amounts)}


def _largest_first(sums: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(sums.items(), key=lambda one: -one[1]))


def _spans(sizes: Mapping[str, float], scale: float) -> Spans:
    """Where each name begins and ends, from the top down, the whole in the middle."""
    used = fsum(sizes.values()) * scale + _GAP * max(len(sizes) - 1, 0)
    top = (1 - used) / 2
    spans: Spans = {}
    for name, size in sizes.items():
        spans[name] = (top, top + size * scale)
        top += size * scale + _GAP
    return spans


def _bands(
    axes: Panel,
    links: Sequence[Link],
    ends: Spans,
    profiles: Spans,
    scale: float,
    across: tuple[float, float],
    colors: dict[str, str],
) -> None:
    at_end = {name: top for name, (top, _) in ends.items()}
    at_profile = {name: top for name, (top, _) in profiles.items()}
    inward = _WIDTH if across[0] < across[1] else -_WIDTH
    x0, x1 = across[0] + max(inward, 0) - max(-inward, 0), across[1] - inward / 2
    for link in sorted(links, key=lambda one: (ends[one.end][0], profiles[one.profile][0])):
        size, y0, y1 = link.amount * scale, at_end[link.end], at_profile[link.profile]
        at_end[link.end] += size
        at_profile[link.profile] += size
        half = (x0 + x1) / 2
        points = [(x0, y0), (half, y0), (half, y1), (x1, y1), (x1, y1 + size), (half, y1 + size),
                  (half, y0 + size), (x0, y0 + size), (x0, y0)]  # fmt: skip
        axes.shape(_BAND, points, colors[link.profile], 0.34)
        words = f"{link.source} → {link.target}: {look.spelled(link.amount)}"
        axes.hover((_BAND, points), words)


def _few(links: Sequence[Link]) -> list[Link]:
    """At most :data:`MAX_ENDS` sources, profiles and targets."""
    profile = _gathered(links, "profile")
    ends = [_gathered([link for link in links if link.stage == stage], "end") for stage in (1, 2)]
    sums: dict[tuple[int, str, str], list[float]] = {}
    for link in links:
        end, owner = ends[link.stage - 1][link.end], profile[link.profile]
        names = (end, owner) if link.stage == 1 else (owner, end)
        sums.setdefault((link.stage, *names), []).append(link.amount)
    return [Link(*key, fsum(amounts)) for key, amounts in sorted(sums.items())]


def _gathered(links: Sequence[Link], by: str) -> dict[str, str]:
    """What each name is drawn as."""
    names = [*_largest_first(_sums(links, by))]
    kept = len(names) if len(names) <= MAX_ENDS else MAX_ENDS - 1
    others = f"{len(names) - kept:,} others"
    return {name: name if place < kept else others for place, name in enumerate(names)}
