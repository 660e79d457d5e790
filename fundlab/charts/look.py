"""What every chart shares: colours, panels, axes, letters, and the frames they take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, ParamSpec, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from fundlab.base.errors import AnalysisError, shorten
from fundlab.base.periods import zone_of
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
Array = npt.NDArray[Any]
Rows = Mapping[str, Array]
"""Columns of an asset, all as long."""
Legend = tuple[Sequence[Mapping[str, Any]], Sequence[str]]


@dataclass(frozen=True)
class Drawing:
    """A frame made ready, the rows of each asset apart, so that many figures can be drawn of it:
    ``words`` is their alternative text, ``legend`` its handles and names, of the assets drawn.

    Where ``tall`` says how high the box of a panel is, a row is as high as its highest one."""

    by_asset: Mapping[str, Any]
    draw: Callable[[Panel, Any], None]
    theme: Theme
    words: Callable[[Mapping[str, Any]], str]
    nothing: str
    legend: Callable[[Mapping[str, Any]], Legend] | None = None
    layout: Layout = Layout()  # noqa: RUF009 - frozen
    tall: Callable[[Any], float] | None = None
    asset: str | None = None

    def figure(self, asset: str | None = None) -> Figure:
        """One panel of fixed size for each asset, in columns, assets in order of their names; or
        only that of ``asset``."""
        only, layout, theme = asset or self.asset, self.layout, self.theme
        shown = {name: rows for name, rows in sorted(self.by_asset.items())
                 if only is None or name == only}  # fmt: skip
        count = max(len(shown), 1)
        columns = min(layout.columns, count)
        boxes = [layout.box[1] if self.tall is None else self.tall(one) for one in shown.values()]
        boxes = boxes or [layout.box[1]]
        highest = [max(boxes[at : at + columns]) for at in range(0, count, columns)]
        over = layout.size[1] - layout.box[1]
        handles, names = self.legend(shown) if shown and self.legend else ((), ())
        lines = min(len(names), 1)
        if names and not isinstance(theme, PageTheme):
            from fundlab.charts.figure import legend_columns

            lines = -(-len(names) // legend_columns(names, Layout().size[0] * columns))
        below = lines * _LEGEND_ROW
        width = columns * layout.size[0]
        figure = _blank(width, sum(highest) + len(highest) * over + below, theme)
        for number, box in enumerate(boxes):
            row, column = divmod(number, columns)
            x = column * layout.size[0] + layout.margins[0]
            y = sum(highest[:row]) + row * over + layout.margins[2]
            axes = figure.panel((x, y, layout.box[0], box), theme)
            if not shown:
                axes.set_axis_off()
                middle = width / 2 - x - layout.box[0] / 2
                axes.words(self.nothing, (0.5, 0.5), (middle, 0.0), theme.muted, of_axes=True,
                           ha="center", size=12)  # fmt: skip
                continue
            name = [*shown][number]
            axes.words(name, (0.0, 1.0), (6 - layout.margins[0], 13.0), theme.ink,
                       of_axes=True, size=TEXT + 1.5, bold=True)  # fmt: skip
            self.draw(axes, shown[name])
        if names:
            figure.legend_row(handles, names, theme.muted)
        figure.set_label(self.words(shown))
        return cast("Figure", figure)


def chart(prepare: Callable[P, Drawing]) -> Callable[P, Figure]:
    """The figure of what ``prepare``, of a frame and a theme, makes ready, with matplotlib as it
    is by default, whatever styles and settings a notebook has chosen; without it for a page. An
    ``asset`` of which the frame has no row is refused."""
    usual = signature(prepare)

    @wraps(prepare)
    def drawn(*given: P.args, **named: P.kwargs) -> Figure:
        theme = named.get("theme", given[1] if len(given) > 1 else LIGHT)
        if isinstance(theme, PageTheme):
            return prepare(*given, **named).figure()
        from fundlab.charts.figure import own_settings  # matplotlib takes 0.4 s to import

        with own_settings():
            drawing = prepare(*given, **named)
            if drawing.asset is not None:
                _of_the_frame(drawing.asset, next(iter(usual.bind(*given, **named).args)))
            return drawing.figure()

    # what help() says
    drawn.__signature__ = usual.replace(return_annotation="Figure")  # type: ignore[attr-defined]
    return drawn


def _of_the_frame(asset: str, frame: pd.DataFrame) -> None:
    """Of no rows at all there is nothing to draw of any asset."""
    known = sorted(set(texts(frame["asset"])))
    if known and asset not in known:
        raise AnalysisError(
            f"asset={shorten(asset)} is not in the frame, which has {', '.join(known)}"
        )


def pictures(
    draw: Callable[..., object], frame: pd.DataFrame, theme: PageTheme, assets: Iterable[str],
    **given: Any,
) -> Iterator[Any]:  # fmt: skip
    """A picture of each of ``assets``, in the colours of the whole ``frame``, which is looked
    through once."""
    drawing: Drawing = draw.__wrapped__(frame, theme, **given)  # type: ignore[attr-defined]
    return (drawing.figure(asset) for asset in assets)


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


def _blank(width: float, height: float, theme: Theme) -> Picture:
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


def need(frame: pd.DataFrame, *names: str) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        gaps = ", ".join(map(repr, missing))
        raise AnalysisError(f"the frame has no column {gaps}; needed are {', '.join(names)}")


def by_asset(assets: pd.Series[Any], **columns: Array) -> dict[str, dict[str, Array]]:
    """The rows of each asset, in their order."""
    codes, names = pd.factorize(assets.astype(str), sort=True)
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], range(len(names) + 1))
    sorted_ = {key: values[order] for key, values in columns.items()}
    return {
        str(name): {key: values[first:end] for key, values in sorted_.items()}
        for name, first, end in zip(names, edges, edges[1:], strict=False)
    }


def numbers(column: pd.Series[Any]) -> Array:
    return column.astype("float64").to_numpy()


def texts(column: pd.Series[Any]) -> Array:
    return column.astype(str).to_numpy(dtype=object)


def moments(column: pd.Series[Any], tz: str) -> Array:
    """As a clock in the zone ``tz`` shows them; those without a zone stand as they are."""
    zone = zone_of(tz)
    zoned = column if column.dt.tz is None else column.dt.tz_convert(zone).dt.tz_localize(None)
    return zoned.to_numpy("datetime64[ns]")


def days_of(moments: Array) -> list[str]:
    return [str(day) for day in moments.astype("datetime64[D]")]


def with_zero(values: Any, share: float = 0.08) -> tuple[float, float]:
    """Limits that include zero and leave a ``share`` of air above."""
    low = min(0.0, float(np.nanmin(values, initial=0.0)))
    high = max(0.0, float(np.nanmax(values, initial=0.0)))
    air = (high - low) * share or 1.0
    return (low - air if low < 0 else 0.0, high + air)
