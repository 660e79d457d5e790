"""A page's pictures beside matplotlib's figures of the same frames: what they draw stands at the
same places."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from fundlab import charts
from fundlab.charts.look import pictures
from fundlab.charts.picture import date_ticks, ticks
from fundlab.charts.theme import LIGHT, PageTheme
from tests.charts import test_charts, test_charts_more

PAGE = PageTheme(**vars(LIGHT))
Place = tuple[str, float, float]


def drawn_shapes(picture: Any) -> list[Place]:
    """The colour of each filled outline, and its first corner."""
    return sorted(
        (fill, float(x), float(y))
        for path, fill in re.findall(r'<path d="([^"]+)" fill="(#\w+)"', picture.svg())
        for x, y in re.findall(r"M([-\d.]+),([-\d.]+)", path)
    )


def in_points(axes: Any, figure: Any, points: Any) -> Any:
    return np.asarray(points) * 72 / figure.dpi * (1, -1) + (0, figure.get_figheight() * 72)


def figure_shapes(figure: Any) -> list[Place]:
    found = []
    for axes in figure.axes:
        for patch in axes.patches:
            path = patch.get_transform().transform_path(patch.get_path())
            color = "#" + "".join(f"{round(part * 255):02x}" for part in patch.get_facecolor()[:3])
            starts = path.vertices[path.codes == Path.MOVETO]
            found += [(color, x, y) for x, y in in_points(axes, figure, starts)]
    return sorted(found)


def near(one: list[Place], other: list[Place]) -> bool:
    """Each of either within a tenth of a point of one of the other."""
    return len(one) == len(other) and all(
        any(color == name and abs(x - a) < 0.11 and abs(y - b) < 0.11 for name, a, b in other)
        for color, x, y in one
    )


@pytest.mark.parametrize(("draw", "frame"), test_charts_more.EVERY)
def test_a_picture_has_the_size_words_and_shapes_of_the_figure(
    draw: Any, frame: pd.DataFrame
) -> None:
    bare = {"legend": False} if "legend" in draw.__wrapped__.__annotations__ else {}
    picture, figure = draw(frame, PAGE, **bare), draw(frame, **bare)
    assert picture.get_label() == figure.get_label()
    assert picture.size == pytest.approx(figure.size)
    if draw is not charts.balance_course:  # whose marks are shapes of a picture, not of a figure
        assert near(drawn_shapes(picture), figure_shapes(figure))
    text = picture.svg()
    for axes in figure.axes:
        for words in axes.texts:
            assert escaped(words.get_text()) in text


def escaped(words: str) -> str:
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


BY_ASSET = [(draw, frame) for draw, frame in test_charts_more.EVERY if "asset" in frame]


@pytest.mark.parametrize(("draw", "frame"), BY_ASSET)
def test_pictures_of_assets_together_are_those_of_each_alone(
    draw: Any, frame: pd.DataFrame
) -> None:
    frame = pd.concat([frame, frame.assign(asset="ZZZ").head(1)], ignore_index=True)
    assets = ["ZZZ", *{*frame["asset"]} - {"ZZZ"}, "none"]
    together = [one.svg() for one in pictures(draw, frame, PAGE, assets)]
    assert together == [draw(frame, PAGE, asset=asset).svg() for asset in assets]
    assert len({*together}) == len(assets)


@pytest.mark.parametrize(("draw", "frame"), test_charts.ALL[:2])
def test_lines_and_marks_end_where_the_figures_do(draw: Any, frame: pd.DataFrame) -> None:
    picture, figure = draw(frame, PAGE, legend=False), draw(frame, legend=False)
    text = picture.svg()
    dots = {(float(x), float(y)) for x, y in re.findall(r'cx="([-\d.]+)" cy="([-\d.]+)"', text)}
    ends = {(float(x), float(y)) for x, y in re.findall(r"H([-\d.]+)V([-\d.]+)\"", text)}
    for axes in figure.axes:
        for line in axes.lines:
            if line.get_marker() == "o":
                points = line.get_xydata()[-1:] if line.get_markevery() else line.get_xydata()
                for x, y in in_points(axes, figure, axes.transData.transform(points)):
                    assert any(abs(x - a) < 0.11 and abs(y - b) < 0.11 for a, b in dots | ends)


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12).map(lambda wide: round(wide, 6) or 1.0))
def test_the_money_ticks_are_those_of_matplotlib(low: float, wide: float) -> None:
    if abs(low) > wide * 50:
        return  # matplotlib then writes what is above an offset
    found = ticks(low, low + wide)
    assert 1 <= len(found) <= 5
    assert all(low - wide * 1e-6 <= tick <= low + wide * 1.000001 for tick in found)
    # Where a step just fits, matplotlib's rounding takes the next one: so of a hair less, too.
    assert any(
        all(
            any(abs(tick - one) < wide * 1e-6 for one in found)
            for tick in MaxNLocator(4).tick_values(low, low + span)
            if low + wide * 1e-5 < tick < low + wide * 0.99999
        )
        for span in (wide, wide * 0.999999)
    )


@given(
    st.floats(365.0, 84_000.0),
    st.floats(1.0, 40_000.0),
)
def test_dates_are_few_in_order_and_not_twice(low: float, days: float) -> None:
    found = list(date_ticks(low, low + days))
    places = [place for place, _ in found]
    assert 1 <= len(found) <= 12
    assert places == sorted(set(places))
    assert all(low - 1e-6 <= place <= low + days + 1e-6 for place in places)


def test_days_months_and_years_are_named_by_what_is_new_in_them() -> None:
    def names(first: str, last: str) -> list[str]:
        day = (pd.Timestamp(first) - pd.Timestamp(0)) / pd.Timedelta(days=1)
        end = (pd.Timestamp(last) - pd.Timestamp(0)) / pd.Timedelta(days=1)
        return [name for _, name in date_ticks(day, end)]

    assert names("2026-10-01", "2026-11-01") == ["Oct", "08", "15", "22", "Nov"]
    assert names("2025-11-01", "2026-03-01") == ["Nov", "Dec", "2026", "Feb", "Mar"]
    assert names("2022-06-01", "2026-03-01") == ["2023", "2024", "2025", "2026"]
    assert names("2026-10-05", "2026-10-06")[:2] == ["Oct-05", "06:00"]


def test_a_colour_of_the_page_is_one_of_its_style_sheet() -> None:
    from fundlab.reports.page import HERE, PAGE_COLOURS

    sheet = (HERE / "style.css").read_text(encoding="utf-8")
    colours = [value for value in vars(PAGE_COLOURS).values() if isinstance(value, str)]
    for name in [*colours, *PAGE_COLOURS.series]:
        assert f"{name.removeprefix('var(').removesuffix(')')}:" in sheet
