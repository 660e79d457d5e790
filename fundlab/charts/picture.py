"""A chart as SVG within a page, in a hundredth of the time that a matplotlib canvas takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from math import floor, isnan, log10
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from fundlab.base.errors import printable
from fundlab.charts.theme import TEXT, Theme, compact

_DAY: Final = 86_400_000_000_000
_NICE: Final = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_MOST_DATES: Final = 6
_LETTER: Final = 0.56
"""The width of a letter as a share of its height, about: for the gaps of a legend."""
_MARKS: Final[Mapping[str, Sequence[tuple[float, float]]]] = {
    "s": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "^": [(0, -1), (1, 1), (-1, 1)],
    "v": [(0, 1), (1, -1), (-1, -1)],
    "D": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    "P": [(-0.35, -1), (0.35, -1), (0.35, -0.35), (1, -0.35), (1, 0.35), (0.35, 0.35),
          (0.35, 1), (-0.35, 1), (-0.35, 0.35), (-1, 0.35), (-1, -0.35), (-0.35, -0.35)],
    "X": [(-1, -0.5), (-0.5, -1), (0, -0.5), (0.5, -1), (1, -0.5), (0.5, 0),
          (1, 0.5), (0.5, 1), (0, 0.5), (-0.5, 1), (-1, 0.5), (-0.5, 0)],
}  # fmt: skip
_STROKES: Final = {"x": "M-1,-1L1,1M-1,1L1,-1", "|": "M0,-1L0,1"}
_ANCHORS: Final = {"left": "", "center": ' text-anchor="middle"', "right": ' text-anchor="end"'}

Numbers = npt.NDArray[np.float64]


class Picture:
    """Panels of charts, ``width`` by ``height`` points, and the words that stand for them."""

    def __init__(self, width: float, height: float) -> None:
        self.size = width, height
        self.panels: list[Panel] = []
        self._label = ""
        self._legend = ""

    def set_label(self, label: str) -> None:
        self._label = label

    def get_label(self) -> str:
        return self._label

    def panel(self, box: tuple[float, float, float, float], theme: Theme) -> Panel:
        """A panel whose ``box`` is left, top, width, height."""
        self.panels.append(Panel(box, theme))
        return self.panels[-1]

    def legend_row(
        self, handles: Sequence[Mapping[str, Any]], names: Sequence[str], color: str
    ) -> None:
        """One row at the foot, each of ``handles`` styled as a line of :meth:`Panel.plot`."""
        size = TEXT - 1
        widths = [24 + len(name) * size * _LETTER + 12 for name in names]
        x, y = (self.size[0] - sum(widths)) / 2, self.size[1] - 10
        for handle, name, width in zip(handles, names, widths, strict=True):
            at = [x + 9.0] if handle.get("linestyle") == "none" else [x, x + 18]
            self._legend += _line(at, [y] * len(at), **handle)
            self._legend += _words(x + 24, y, name, size, color, va="center")
            x += width

    def svg(self) -> str:
        width, height = map(_short, self.size)
        drawn = "".join(panel.svg() for panel in self.panels) + self._legend
        label = escape(printable(self._label))
        hovers = "".join(
            f'<path class="h" d="{path}"><title>{escape(words)}</title></path>'
            for panel in self.panels
            for path, words in panel.hover_paths()
        )
        return (f'<svg class="chart" role="img" aria-label="{label}" '
                f'viewBox="0 0 {width} {height}">{drawn}{hovers}</svg>')  # fmt: skip


class Panel:
    """A box of a picture that is drawn in as in an ``Axes`` of matplotlib: what our charts use of
    one, by the same names. Its axes are the limits set, times in days."""

    def __init__(self, box: tuple[float, float, float, float], theme: Theme) -> None:
        self.box, self.theme = box, theme
        self._limits: dict[str, tuple[float, float]] = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
        self._log = False
        self._axis = self._foot = True
        self._grid: dict[str, bool] = {"x": False, "y": True}
        self._ticks: dict[str, list[tuple[float, str]]] = {}
        self._layers: dict[str, list[Callable[[], str]]] = {"shape": [], "line": [], "words": []}
        self._hovers: list[tuple[Callable[[], str], str]] = []

    # ------------------------------------------------------------------ axes

    def set_xlim(self, low: Any, high: Any) -> None:
        self._limits["x"] = _number(low), _number(high)

    def set_ylim(self, low: float, high: float) -> None:
        self._limits["y"] = float(low), float(high)

    def set_xscale(self, _: Literal["log"]) -> None:
        self._log = True

    def set_xticks(self, places: Sequence[float], names: Sequence[str] = ()) -> None:
        self._ticks["x"] = list(zip(map(float, places), names, strict=True))

    def set_yticks(self, places: Sequence[float], names: Sequence[str]) -> None:
        self._ticks["y"] = list(zip(map(float, places), names, strict=True))

    def date_axis(self, first: Any, last: Any) -> None:
        """Days from ``first`` to ``last`` with a little air."""
        air = (last - first) * 0.01
        self.set_xlim(first - air, last + air)
        self._ticks["x"] = [*date_ticks(*self._limits["x"])]

    def set_axis_off(self) -> None:
        self._axis = False

    def hide_foot(self) -> None:
        self._foot = False

    def minorticks_off(self) -> None:
        """There are none."""

    def grid(self, *, visible: bool = True, axis: str = "both", **_: object) -> None:
        self._grid.update(dict.fromkeys("xy" if axis == "both" else axis, visible))

    def _x(self, value: Any) -> float:
        low, high = self._limits["x"]
        place = _number(value)
        if self._log:
            low, high, place = log10(low), log10(high), log10(place)
        return self.box[0] + (place - low) / ((high - low) or 1.0) * self.box[2]

    def _y(self, value: Any) -> float:
        low, high = self._limits["y"]
        return self.box[1] + (high - float(value)) / ((high - low) or 1.0) * self.box[3]

    # ---------------------------------------------------------------- shapes

    def bar(self, x: Any, height: Any, width: Any, bottom: Any = 0.0, *, color: str) -> None:
        middles, half, base = _numbers(x), _number(width) / 2, _numbers(bottom)
        base = np.broadcast_to(base, middles.shape)
        tops = base + _numbers(height)
        self._rectangles(middles - half, middles + half, base, tops, color)

    def barh(self, y: float, width: float, height: float, left: float, **style: Any) -> None:
        sides = _numbers([left]), _numbers([left + width])
        self._rectangles(*sides, _numbers([y - height / 2]), _numbers([y + height / 2]),
                         style["color"])  # fmt: skip

    def _rectangles(
        self, left: Numbers, right: Numbers, low: Numbers, high: Numbers, color: str
    ) -> None:
        def path() -> str:
            x0, y0, width, height = self.box
            parts = []
            for one in zip(left, right, low, high, strict=True):
                a, b = (min(max(self._x(side), x0), x0 + width) for side in one[:2])
                c, d = (min(max(self._y(side), y0), y0 + height) for side in one[2:])
                parts.append(f"M{_short(a)},{_short(c)}H{_short(b)}V{_short(d)}H{_short(a)}z")
            return f'<path d="{"".join(parts)}" fill="{color}"/>' if parts else ""

        self._layers["shape"].append(path)

    def shape(self, codes: str, points: Any, color: str, alpha: float = 1.0) -> None:
        """Outlines of ``M``, ``L``, ``C`` and ``z``, one for each of ``points``, filled."""
        self._layers["shape"].append(
            lambda: f'<path d="{self._path(codes, points)}" fill="{color}"{_alpha(alpha)}/>'
        )

    def _path(self, codes: str, points: Any) -> str:
        parts, before = [], ""
        for code, (x, y) in zip(codes, points, strict=True):
            start = " " if code == before else code
            parts.append(code if code == "z"
                         else f"{start}{_short(self._x(x))},{_short(self._y(y))}")  # fmt: skip
            before = code
        return "".join(parts)

    def hover(self, shape: tuple[Any, ...], words: str) -> None:
        """``words`` over left and right, top and bottom, or over codes and points."""

        def path() -> str:
            if isinstance(shape[0], str):
                return self._path(*shape)
            left, right = shape[:2]
            top, bottom = shape[2:] or self._limits["y"]
            a, b, c, d = self._x(left), self._x(right), self._y(top), self._y(bottom)
            return f"M{a:.0f},{c:.0f}H{b:.0f}V{d:.0f}H{a:.0f}z"

        self._hovers.append((path, printable_lines(words)))

    def hover_paths(self) -> Iterator[tuple[str, str]]:
        """The shapes of :meth:`hover` in points, and their words."""
        return ((path(), words) for path, words in self._hovers)

    # ----------------------------------------------------------------- lines

    def plot(self, xs: Any, ys: Any, **style: Any) -> None:
        places, heights = _numbers(xs), _numbers(ys)
        self._layers["line"].append(
            lambda: _line([self._x(x) for x in places], [self._y(y) for y in heights], **style)
        )

    def hlines(self, ys: Any, left: Any, right: Any, **style: Any) -> None:
        for y, one, other in zip(_numbers(ys), _numbers(left), _numbers(right), strict=True):
            self.plot([one, other], [y, y], **style)

    def axhline(self, y: float, *, color: str, linewidth: float) -> None:
        self._layers["line"].append(lambda: self._across(y, color, linewidth))

    def _across(self, y: float, color: str, width: float) -> str:
        left, _, long, _ = self.box
        return (f'<path d="M{_short(left)},{_short(self._y(y))}h{_short(long)}" stroke="{color}" '
                f'stroke-width="{width}"/>')  # fmt: skip

    # ----------------------------------------------------------------- words

    def words(
        self, text: str, at: tuple[Any, Any], shift: tuple[float, float] = (0.0, 0.0),
        color: str = "", *, of_axes: bool = False, ha: str = "left", va: str = "baseline",
        size: float = TEXT, bold: bool = False, halo: str = "",
    ) -> None:  # fmt: skip
        """``text`` so many points beside a place in the units of the axes, or ``of_axes`` as
        shares of the box; ``halo`` is a colour around it."""

        def drawn() -> str:
            x, y = at
            left, top, width, height = self.box
            x = left + x * width if of_axes else self._x(x)
            y = top + (1 - y) * height if of_axes else self._y(y)
            return _words(x + shift[0], y - shift[1], text, size, color, ha, va, bold, halo)

        self._layers["words"].append(drawn)

    def scale(self, parts: Sequence[tuple[str, str, float]]) -> None:
        """Below the panel, in one line, words in a colour and strength."""
        left, top, width, height = self.box
        spans = "\N{NO-BREAK SPACE}".join(
            f'<tspan fill="{color}"{_alpha(strength)}>{escape(printable(text))}</tspan>'
            for text, color, strength in parts
        )
        self._layers["words"].append(
            lambda: f'<text x="{_short(left + width / 2)}" y="{_short(top + height + 36)}" '
                    f'font-size="{TEXT - 1}" text-anchor="middle">{spans}</text>'
        )  # fmt: skip

    # --------------------------------------------------------------- drawing

    def svg(self) -> str:
        left, top, width, height = self.box
        muted, size = self.theme.muted, TEXT - 0.5
        under: list[str] = []
        beside: list[str] = []
        if self._axis:
            low, high = sorted(self._limits["y"])
            for y, name in self._ticks.get("y") or [(y, compact(y)) for y in ticks(low, high)]:
                if self._grid["y"]:
                    under.append(self._across(y, self.theme.grid, 0.8))
                beside.append(_words(left - 4, self._y(y), name, size, muted, "right", "center"))
            for at, name in self._ticks.get("x", []):
                x = self._x(at)
                if self._grid["x"]:
                    under.append(f'<path d="M{_short(x)},{_short(top)}v{_short(height)}" '
                                 f'stroke="{self.theme.grid}" stroke-width="0.8"/>')  # fmt: skip
                beside.append(_words(x, top + height + 14, name, size, muted, "center"))
            if self._foot:
                under.append(f'<path d="M{_short(left)},{_short(top + height)}h{_short(width)}" '
                             f'stroke="{self.theme.grid}" stroke-width="0.8"/>')  # fmt: skip
        drawn = [draw() for layer in self._layers.values() for draw in layer]
        return "".join([*under, *beside, *drawn])


def ticks(low: float, high: float) -> list[float]:
    """At most five round numbers from ``low`` to ``high``."""
    if not high > low:
        return [low]
    size = 10.0 ** floor(log10((high - low) / 4))
    step = next(nice * size for nice in _NICE if nice * size * 4 >= (high - low) * (1 - 1e-9))
    first, last = -floor(1e-9 - low / step), floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def date_ticks(low: float, high: float) -> Iterator[tuple[float, str]]:
    """At most about six round moments from ``low`` to ``high`` (days since 1970), each named by
    what is new in it: an hour, a day, a month, a year."""
    start = datetime(1970, 1, 1, tzinfo=UTC)
    first, last = start + timedelta(days=low), start + timedelta(days=high)
    days = high - low
    months = (last.year - first.year) * 12 + last.month - first.month

    def every(steps: Sequence[int], many: float) -> int:
        return next((step for step in steps if many <= step * (_MOST_DATES - 1)), steps[-1])

    at = first.replace(minute=0, second=0, microsecond=0)
    if days < 2:
        step = every((1, 2, 3, 4, 6, 12), days * 24)
        at = at.replace(hour=at.hour - at.hour % step)
        moments = [at + timedelta(hours=step * number) for number in range(60 // step)]
        moments = [one for one in moments if first <= one <= last]
        names = [f"{one:%b-%d}" if one.hour == 0 else f"{one:%H:%M}" for one in moments]
    elif months < 2 or days < 60:
        step = every((1, 2, 3, 7, 14, 21), days)
        every_day = [at.replace(hour=0) + timedelta(days=number) for number in range(int(days) + 2)]
        # Every so many days of a month, never next to the first of the next one.
        moments = [one for one in every_day if first <= one <= last and one.day <= 31 - step // 2
                   and (one.day - 1) % step == 0]  # fmt: skip
        names = [f"{one:%b}" if one.day == 1 else f"{one:%d}" for one in moments]
    elif months < 24:
        step = every((1, 2, 3, 4, 6), months)
        numbers = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
        firsts = [datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC) for number in numbers
                  if number % step == 0]  # fmt: skip
        moments = [one for one in firsts if first <= one <= last]
        names = [f"{one:%Y}" if one.month == 1 else f"{one:%b}" for one in moments]
    else:
        step = every((1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), last.year - first.year)
        years = [datetime(year, 1, 1, tzinfo=UTC) for year in range(first.year, last.year + 1)
                 if year % step == 0]  # fmt: skip
        moments = [one for one in years if first <= one <= last]
        names = [f"{one:%Y}" for one in moments]
    for moment, name in zip(moments, names, strict=True):
        yield (moment - start) / timedelta(days=1), name


def printable_lines(words: str) -> str:
    return "\n".join(map(printable, words.split("\n")))


def _numbers(values: Any) -> Numbers:
    """As numbers, times and durations in days."""
    array = np.asarray(values)
    if array.dtype.kind in "mM":
        array = array.astype(f"{array.dtype.kind}8[ns]").astype("int64") / _DAY
    return np.atleast_1d(array.astype("float64"))


def _number(value: Any) -> float:
    if isinstance(value, pd.Timestamp):
        value = value.to_datetime64()
    elif isinstance(value, pd.Timedelta):
        value = value.to_timedelta64()
    return value if isinstance(value, float) else float(_numbers(value)[0])


def _short(value: float) -> str:
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def _alpha(strength: float) -> str:
    return "" if strength == 1.0 else f' opacity="{strength}"'


def _words(
    x: float,
    y: float,
    text: str,
    size: float,
    color: str,
    ha: str = "left",
    va: str = "baseline",
    bold: bool = False,
    halo: str = "",
) -> str:
    y += size * 0.35 if va == "center" else 0.0
    more = ' font-weight="bold"' if bold else ""
    if halo:
        more += f' paint-order="stroke" stroke="{halo}" stroke-opacity="0.75" stroke-width="4"'
    return (f'<text x="{_short(x)}" y="{_short(y)}" font-size="{size:g}" fill="{color}"'
            f'{_ANCHORS[ha]}{more}>{escape(printable(text))}</text>')  # fmt: skip


def _line(
    xs: Sequence[float],
    ys: Sequence[float],
    *,
    color: str = "",
    linestyle: str = "-",
    linewidth: float = 1.5,
    drawstyle: str = "",
    marker: str = "",
    markersize: float = 6.0,
    markevery: Sequence[int] | None = None,
    markerfacecolor: str = "",
    markeredgecolor: str = "",
    markeredgewidth: float = 0.0,
    alpha: float = 1.0,
    **_: object,
) -> str:
    """A line through places in points, or marks at them; gaps are left out."""
    drawn = ""
    if linestyle != "none":
        parts, before = [], None
        for x, y in zip(xs, ys, strict=True):
            if isnan(y):
                before = None
                continue
            if before is None:
                parts.append(f"M{_short(x)},{_short(y)}")
            elif drawstyle == "steps-post":
                parts.append(f"H{_short(x)}" + (f"V{_short(y)}" if y != before else ""))
            else:
                parts.append(f"L{_short(x)},{_short(y)}")
            before = y
        drawn = (f'<path d="{"".join(parts)}" fill="none" stroke="{color}" '
                 f'stroke-width="{linewidth:g}"{_alpha(alpha)}/>')  # fmt: skip
    if not marker:
        return drawn
    places = [*zip(xs, ys, strict=True)]
    radius = markersize / 2 + (0.0 if markeredgecolor or marker in _STROKES else 0.5)
    fill, edge = markerfacecolor or color, markeredgecolor
    rim = f' stroke="{edge}" stroke-width="{markeredgewidth:g}"' if edge else ""
    for x, y in places if markevery is None else [places[n] for n in markevery]:
        if isnan(y):
            continue
        if marker == "o":
            drawn += (f'<circle cx="{_short(x)}" cy="{_short(y)}" r="{radius:g}" '
                      f'fill="{fill}"{rim}/>')  # fmt: skip
        elif marker in _STROKES:
            drawn += (f'<path transform="translate({_short(x)},{_short(y)}) scale({radius:g})" '
                      f'd="{_STROKES[marker]}" fill="none" stroke="{edge or color}" '
                      f'stroke-width="{(markeredgewidth or 1.2) / radius:.2g}"/>')  # fmt: skip
        else:
            corners = "L".join(f"{_short(x + dx * radius)},{_short(y + dy * radius)}"
                               for dx, dy in _MARKS[marker])  # fmt: skip
            drawn += f'<path d="M{corners}z" fill="{fill}"{rim}/>'
    return drawn
