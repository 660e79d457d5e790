"""What every chart shares: colours, panels, axes, letters, and the frames they take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, cast

import numpy as np
import pandas as pd

from fundlab.base.errors import AnalysisError
from fundlab.charts.picture import Panel, Picture
from fundlab.charts.theme import LIGHT, TEXT, Layout, PageTheme, Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SERIES: Final = 6
MAX_STRIPS: Final = 62
"""How many days of a chart say what they are when the mouse is over them."""
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_LEGEND_ROW: Final = 22.0
_OTHERS: Final = re.compile(r"[\d,]+ others")
_ACRONYMS: Final = frozenset({"CBIT", "CUBIX", "RTP", "SEN"})
P = ParamSpec("P")


def chart(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """``draw``, whose second argument is a theme, with matplotlib as it is by default, whatever
    styles and settings a notebook has chosen; without it for a page."""

    @wraps(draw)
    def drawn(*given: P.args, **named: P.kwargs) -> Figure:
        theme = named.get("theme", given[1] if len(given) > 1 else LIGHT)
        if isinstance(theme, PageTheme):
            return draw(*given, **named)
        from fundlab.charts.figure import own_settings  # matplotlib takes 0.4 s to import

        with own_settings():
            return draw(*given, **named)

    return drawn


def spelled(value: float, *, signed: bool = False) -> str:
    """``1,234,567.89``, ``0.0123457``: for a hover, where there is room."""
    text = f"{value:,.2f}" if abs(value) >= 100 else f"{value:.6g}"
    plus = "+" if signed and value > 0 else ""
    return f"{plus}{text}".replace("-", "−")


def humanise(name: str) -> str:
    """``WIRE_DEPOSIT`` as ``Wire deposit``, ``RTP_DEPOSIT`` as ``RTP deposit``.

    >>> fl.charts.humanise("WIRE_DEPOSIT"), fl.charts.humanise("RTP_DEPOSIT")
    ('Wire deposit', 'RTP deposit')
    """
    if not name.isupper():
        return name
    words = [word if word in _ACRONYMS else word.lower() for word in name.split("_")]
    phrase = " ".join(words)
    return phrase[:1].upper() + phrase[1:]


def rank_profiles(daily: pd.DataFrame) -> list[str]:
    """The profiles drawn, sorted; beyond :data:`MAX_SERIES` the rest is one line, ``n others``.

    >>> fl.charts.rank_profiles(fl.balances.daily(transfers))
    ['main', 'spare']
    """
    return ranked(daily["profile_id"].astype(str))


def rank_types(summary: pd.DataFrame) -> list[str]:
    """The transfer types drawn, sorted; beyond :data:`MAX_SERIES` the rest is ``n others``.

    >>> fl.charts.rank_types(fl.fees.summary(transfers))
    ['INTERNAL_TRANSFER_CREDIT', 'INTERNAL_TRANSFER_DEBIT', 'WIRE_DEPOSIT',
    'WIRE_WITHDRAWAL']
    """
    return ranked(summary["type"].astype(str))


def ranked(column: pd.Series) -> list[str]:
    counts = column.value_counts(sort=False).sort_index()
    if len(counts) <= MAX_SERIES:
        names = [str(name) for name in counts.index]
        return sorted(names, key=lambda name: (_OTHERS.fullmatch(name) is not None, name))
    kept = counts.sort_values(ascending=False, kind="stable").index[: MAX_SERIES - 1]
    return [*sorted(map(str, kept)), f"{len(counts) - len(kept)} others"]


def panels(
    by_asset: Mapping[str, Any],
    draw: Callable[[Panel, Any], None],
    theme: Theme,
    nothing: str,
    *,
    rows_below: int = 0,
    layout: Layout = Layout(),  # noqa: B008 - frozen
    tall: Callable[[Any], float] | None = None,
) -> Figure:
    """One panel of fixed size for each asset, in columns, assets in order of their names. Where
    ``tall`` says how high the box of a panel is, a row is as high as its highest one."""
    assets = sorted(by_asset)
    count = max(len(assets), 1)
    columns = min(layout.columns, count)
    boxes = [layout.box[1] if tall is None else tall(by_asset[name]) for name in assets]
    boxes = boxes or [layout.box[1]]
    highest = [max(boxes[at : at + columns]) for at in range(0, count, columns)]
    over = layout.size[1] - layout.box[1]
    width = columns * layout.size[0]
    height = sum(highest) + len(highest) * over + rows_below * _LEGEND_ROW
    figure = blank(width, height, theme)
    for number in range(count):
        row, column = divmod(number, columns)
        x = column * layout.size[0] + layout.margins[0]
        y = sum(highest[:row]) + row * over + layout.margins[2]
        axes = figure.panel((x, y, layout.box[0], boxes[number]), theme)
        if not assets:
            axes.set_axis_off()
            middle = figure.size[0] / 2 - x - layout.box[0] / 2
            axes.words(nothing, (0.5, 0.5), (middle, 0.0), theme.muted, of_axes=True,
                       ha="center", size=12)  # fmt: skip
            continue
        axes.words(assets[number], (0.0, 1.0), (6 - layout.margins[0], 13.0), theme.ink,
                   of_axes=True, size=TEXT + 1.5, bold=True)  # fmt: skip
        draw(axes, by_asset[assets[number]])
    return cast("Figure", figure)


def blank(width: float, height: float, theme: Theme) -> Picture:
    """A picture for a page, else a figure, which has the same methods."""
    if isinstance(theme, PageTheme):
        return Picture(width, height)
    from fundlab.charts.figure import Chart

    return cast("Picture", Chart.blank(width, height, theme))


def note(axes: Panel, text: str, theme: Theme) -> None:
    """What the panel comes to, above it on the right."""
    axes.words(text, (1.0, 1.0), (0.0, 13.0), theme.muted, of_axes=True, ha="right")


def name_rows(axes: Panel, names: Sequence[str]) -> None:
    """Row labels left of a panel whose rows run down from 0."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def square(color: str) -> dict[str, Any]:
    return {"color": color, "linestyle": "none", "marker": "s", "markersize": 8}


def legend_rows(names: Sequence[str], panels: int) -> int:
    """How many rows :func:`legend_row` needs below so many panels."""
    from fundlab.charts.figure import legend_columns

    width = Layout().size[0] * min(max(panels, 1), Layout.columns)
    return -(-len(names) // legend_columns(names, width))


def legend_row(
    figure: Figure, handles: Sequence[Mapping[str, Any]], names: Sequence[str], theme: Theme
) -> None:
    cast("Picture", figure).legend_row(handles, names, theme.muted)


def need(frame: pd.DataFrame, *names: str) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        gaps = ", ".join(map(repr, missing))
        raise AnalysisError(f"the frame has no column {gaps}; needed are {', '.join(names)}")


def by_asset(frame: pd.DataFrame, asset: str | None = None) -> dict[str, pd.DataFrame]:
    """The rows of each asset, or only those of ``asset``."""
    if asset is not None:
        rows = rows_of(frame, asset)
        return {asset: rows} if len(rows) else {}
    return {str(name): rows for name, rows in frame.groupby(frame["asset"].astype(str))}


def local(moments: pd.Series[Any], tz: str) -> pd.Series[Any]:
    """Moments as a clock in the zone ``tz`` shows them; those without a zone stand as they are."""
    zoned = moments if moments.dt.tz is None else moments.dt.tz_convert(tz).dt.tz_localize(None)
    shown: pd.Series[Any] = zoned
    return shown


def rows_of(frame: pd.DataFrame, asset: str | None) -> pd.DataFrame:
    return frame if asset is None else frame[frame["asset"].astype(str) == asset]


def floats(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    return pd.DataFrame({name: frame[name].astype("float64") for name in names}, frame.index)


def with_zero(values: Any, share: float = 0.08) -> tuple[float, float]:
    """Limits that include zero and leave a ``share`` of air above."""
    low = min(0.0, float(np.nanmin(values, initial=0.0)))
    high = max(0.0, float(np.nanmax(values, initial=0.0)))
    air = (high - low) * share or 1.0
    return (low - air if low < 0 else 0.0, high + air)


def described(figure: Figure, words: str) -> Figure:
    figure.set_label(words)
    return figure
