"""Frames to matplotlib figures: the only place where money becomes float.

Each function takes a frame of :mod:`fundlab.analysis` and returns a ``matplotlib.figure.Figure``,
most with one panel for each asset, or only that of ``asset`` in the colours of the whole (one that
the frame has not is an :class:`AnalysisError`); neither pyplot nor the global settings are touched,
nor do those of a notebook change anything. The figure's label, ``figure.get_label()``, is its
alternative text. ``theme`` is :data:`LIGHT` or :data:`DARK`; ``tz`` is the zone that the days of
the frame were made with.

>>> import fundlab as fl
>>> with fl.sandbox.serve(seed=7, transfers=200) as sandbox:
...     transfers = fl.load_transfers(sandbox.connect())
>>> figure = fl.charts.balance_course(fl.balances.daily(transfers))
"""

from typing import TYPE_CHECKING

from fundlab.charts.bars import MAX_BARS, fees_by_type, flow_bars
from fundlab.charts.course import MAX_POINTS, balance_course
from fundlab.charts.diagram import flow_diagram
from fundlab.charts.heat import flows_calendar, transfer_hours
from fundlab.charts.look import MAX_SERIES, humanise, rank_profiles, rank_types
from fundlab.charts.settlement import settlement_times
from fundlab.charts.theme import DARK, LIGHT, PANEL, Theme, compact
from fundlab.charts.waterfall import waterfall
from fundlab.settings.labels import shorten_id

__all__ = [
    "DARK",
    "LIGHT",
    "MAX_BARS",
    "MAX_POINTS",
    "MAX_SERIES",
    "PANEL",
    "Theme",
    "balance_course",
    "compact",
    "fees_by_type",
    "flow_bars",
    "flow_diagram",
    "flows_calendar",
    "humanise",
    "rank_profiles",
    "rank_types",
    "settlement_times",
    "shorten_id",
    "to_svg",
    "transfer_hours",
    "waterfall",
]
__dir__ = __all__.copy  # what completion offers

if TYPE_CHECKING:
    from fundlab.charts.figure import to_svg


def __getattr__(name: str) -> object:
    if name != "to_svg":
        raise AttributeError(f"module 'fundlab.charts' has no attribute {name!r}")
    from fundlab.charts.figure import to_svg  # matplotlib takes longer to import than a page

    return to_svg
