"""Waterfall, calendar, hours, settlement, diagram, and assertions on the course of balances."""

from __future__ import annotations

import re
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest
import test_charts
from matplotlib.figure import Figure
from matplotlib.path import Path
from test_charts import words

from fundlab import charts
from fundlab.base.errors import AnalysisError
from fundlab.charts.waterfall import FEES
from fundlab.reports.page import PAGE_COLOURS

HOSTILE = "$\\frac{<b>&x _日本"


def decimals(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    return frame.assign(**{name: pd.array(frame[name].tolist(), dtype="decimal") for name in names})


def movements(*rows: tuple[str, str, str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["asset", "step", "kind", "amount"])
    return decimals(frame, "amount")


def net(*rows: tuple[str, str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["period", "asset", "net"])
    return decimals(frame.assign(period=pd.to_datetime(frame["period"], utc=True)), "net")


def links(*rows: tuple[int, str, str, str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["stage", "source", "target", "asset", "amount"])
    return decimals(frame, "amount")


def settlement(*rows: tuple[str, str, str, str, str]) -> pd.DataFrame:
    names = ["p50", "p90", "p99", "max"]
    frame = pd.DataFrame(rows, columns=["type", *names]).assign(count=1)
    return frame.assign(**{name: pd.to_timedelta(frame[name]) for name in names})


MOVEMENTS = movements(
    ("USD", "Opening", "balance", "100"),
    ("USD", "Wire deposit", "change", "50"),
    ("USD", "Wire withdrawal", "change", "-120"),
    ("USD", FEES, "change", "-1"),
    ("USD", "Closing", "balance", "29"),
)
NET = net(("2026-10-05", "USD", "5"), ("2026-10-06", "USD", "-20"), ("2026-10-25", "USD", "0"))
LINKS = links(
    (1, "WIRE_DEPOSIT", "p1", "USD", "60"),
    (1, "WIRE_DEPOSIT", "p2", "USD", "40"),
    (2, "p1", "••••1234 Bank", "USD", "30"),
)
SETTLED = settlement(
    ("WIRE_DEPOSIT", "1h", "2h", "3h", "4h"), ("RTP_DEPOSIT", "0s", "10s", "20s", "30s")
)
HOURS = pd.DataFrame(
    {
        "created_at": pd.to_datetime(["2026-10-05T23:30Z", "2026-10-06T04:00Z"], utc=True),
        "count": [3, 1],
    }
)
ALL: list[tuple[Any, pd.DataFrame]] = [
    (charts.waterfall, MOVEMENTS),
    (charts.flows_calendar, NET),
    (charts.flow_diagram, LINKS),
    (charts.settlement_times, SETTLED),
    (charts.transfer_hours, HOURS),
]
EVERY = [*test_charts.ALL, *ALL]


def test_a_waterfall_steps_from_opening_to_closing() -> None:
    figure = charts.waterfall(MOVEMENTS)
    (axes,) = figure.axes
    bars = [(bar.get_x(), bar.get_width()) for bar in axes.patches]
    assert bars == [(0, 100), (100, 50), (150, -120), (30, -1), (0, 29)]
    assert words(figure) == ["USD", "100", "+50", "−120", "−1", "29"]
    assert figure.get_label() == "From opening to closing balance: USD from 100 to 29."


def test_a_waterfall_around_a_large_balance_says_where_it_is_cut() -> None:
    rows = movements(
        ("USD", "Opening", "balance", "1000000"),
        ("USD", "Wire deposit", "change", "100"),
        ("USD", "Closing", "balance", "1000100"),
    )
    figure = charts.waterfall(rows)
    low, high = figure.axes[0].get_xlim()
    assert (low, round(high)) == (999_950, 1_000_103)
    assert words(figure)[-1] == "drawn from 1 M on"


def test_a_row_of_waterfalls_is_as_high_as_its_highest() -> None:
    steps = {"BTC": 2, "ETH": 5, "SOL": 3, "USD": 2}
    rows = [
        (asset, f"step {n}", "change", "1") for asset, count in steps.items() for n in range(count)
    ]
    figure = charts.waterfall(movements(*rows))
    height = figure.get_figheight() * 72
    boxes = [axes.get_position() for axes in figure.axes]
    tops, sizes = [box.y1 * height for box in boxes], [box.height * height for box in boxes]
    per_step = {round(size / count, 6) for size, count in zip(sizes, steps.values(), strict=True)}
    assert len(per_step) == 1
    assert tops[0] == pytest.approx(tops[1])
    assert tops[2] == pytest.approx(tops[3])
    between = sizes[1] + (height - tops[0])  # five steps and the margin above; 8 below
    assert tops[0] - tops[2] == pytest.approx(between + 8)


def test_many_steps_of_a_waterfall_are_gathered_but_fees_stay() -> None:
    steps = [("USD", f"Type {n}", "change", str(n)) for n in range(1, 9)]
    rows = [("USD", "Opening", "balance", "0"), *steps, ("USD", FEES, "change", "-6"),
            ("USD", "Closing", "balance", "30")]  # fmt: skip
    (axes,) = charts.waterfall(movements(*rows)).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["Opening", "Type 8", "Type 7", "Type 6", "Type 5", "4 others in", "Fees",
                     "Closing"]  # fmt: skip
    assert axes.patches[5].get_width() == 1 + 2 + 3 + 4


def test_a_calendar_puts_days_in_weeks() -> None:
    figure = charts.flows_calendar(NET)
    (axes,) = figure.axes
    blank, more_in, more_out = axes.patches
    assert len(blank.get_path().vertices) == 3 * 7 * 5
    assert more_in.get_path().vertices.mean(axis=0).round().tolist() == [0, 0]
    assert more_out.get_path().vertices[:4].mean(axis=0).round().tolist() == [0, 1]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["05 Oct", "12 Oct", "19 Oct"]
    assert "up to 20 a day" in words(figure)
    assert "USD −15 in all" in figure.get_label()


def test_a_calendar_shows_at_most_a_year() -> None:
    days = pd.date_range("2024-01-01", "2026-10-31", freq="D")
    frame = net(*[(str(day), "USD", "1") for day in days])
    (axes,) = charts.flows_calendar(frame).axes
    assert len(axes.patches[0].get_path().vertices) == 53 * 7 * 5


def test_hours_are_those_of_the_zone() -> None:
    assert "most on Mon at 23: 3" in charts.transfer_hours(HOURS).get_label()
    label = charts.transfer_hours(HOURS, tz="Europe/Paris").get_label()
    assert label.startswith("4 transfers by hour and weekday (Europe/Paris); most on Tue at 01: 3")
    one_each = charts.transfer_hours(HOURS.drop(columns="count"))
    assert one_each.get_label().startswith("2 transfers")


def test_settlement_is_sorted_and_labelled_with_the_slowest() -> None:
    figure = charts.settlement_times(SETTLED)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["RTP deposit", "Wire deposit"]
    assert words(figure) == ["", "30 s", "4 h"]
    assert figure.get_label() == (
        "Settlement times by type: RTP deposit half within at once, 99 % within 20 s; "
        "Wire deposit half within 1 h, 99 % within 3 h."
    )


def test_a_diagram_shows_amounts_in_and_out() -> None:
    figure = charts.flow_diagram(LINKS)
    assert words(figure) == ["USD", "Wire deposit · 100", "p1", "p2", "••••1234 Bank · 30"]
    shapes = [patch.get_path() for patch in figure.axes[0].patches]
    nodes = [shape.get_extents().height for shape in shapes if Path.CURVE4 not in shape.codes]
    source, first, second, target = nodes
    assert first + second == pytest.approx(source)
    assert (first / source, target / source) == pytest.approx((0.6, 0.3))
    assert figure.get_label().endswith("USD 100 into and 30 out of 2 profiles.")


def test_many_ends_of_a_diagram_are_gathered() -> None:
    rows = [(2, "p", f"t{n:02d}", "USD", str(n + 1)) for n in range(12)]
    shown = words(charts.flow_diagram(links(*rows)))
    assert "6 others · 21" in shown
    assert "t11 · 12" in shown


def test_assertions_stand_where_they_were_observed() -> None:
    daily = pd.DataFrame(
        {"profile_id": "p", "asset": "USD", "date": pd.to_datetime(["2026-10-01", "2026-10-02"]),
         "balance": ["10", "12"]}
    )  # fmt: skip
    seen = pd.DataFrame(
        {"profile_id": ["p", "p", "elsewhere"], "asset": "USD",
         "observed_at": pd.to_datetime(["2026-10-01T12:00Z", "2026-10-02T12:00Z"] * 2)[:3],
         "reported": ["10", "14", "1"], "difference": ["0", "2", "0"]}
    )  # fmt: skip
    figure = charts.balance_course(
        decimals(daily, "balance"), assertions=decimals(seen, "reported", "difference")
    )
    course, ring, cross = figure.axes[0].lines
    assert (ring.get_marker(), list(ring.get_ydata())) == ("o", [10.0])
    assert (cross.get_marker(), list(cross.get_ydata())) == ("x", [14.0])
    assert cross.get_markeredgecolor() == charts.LIGHT.alarm
    assert figure.axes[0].get_ylim()[1] > 14
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["p", "agrees", "differs"]
    assert len(course.get_xdata()) == 3


def test_an_observation_of_a_profile_among_the_others_has_their_colour() -> None:
    rows = [(f"p{n}", "USD", "2026-01-01", "1") for n in range(9)]
    seen = pd.DataFrame({"profile_id": ["p0", "p8"], "asset": "USD"}).assign(
        observed_at=pd.to_datetime(["2026-01-01T12:00Z"] * 2), reported="1", difference="0"
    )
    figure = charts.balance_course(
        test_charts.daily(*rows), assertions=decimals(seen, "reported", "difference")
    )
    rings = [line for line in figure.axes[0].lines if line.get_linestyle() == "None"]
    ends = [charts.LIGHT.series[0], charts.LIGHT.series[5]]
    assert [ring.get_markeredgecolor() for ring in rings] == ends


@pytest.mark.thorough
@pytest.mark.parametrize(("draw", "frame"), EVERY)
@pytest.mark.parametrize("theme", [charts.LIGHT, charts.DARK])
def test_few_and_none_are_drawn_the_same_each_time(
    draw: Any, frame: pd.DataFrame, theme: Any
) -> None:
    before = dict(mpl.rcParams)
    first = charts.to_svg(draw(frame, theme))
    assert charts.to_svg(draw(frame, theme)) == first
    assert dict(mpl.rcParams) == before
    assert "<dc:date>" not in first
    assert draw(frame).get_label()
    (text,) = words(draw(frame.head(0), theme))
    assert text.startswith(("No ", "Nothing "))


def test_names_from_outside_are_drawn_as_they_are() -> None:
    figures = [
        charts.waterfall(movements((HOSTILE, "Opening", "balance", "1"),
                                   (HOSTILE, HOSTILE, "change", "1"),
                                   (HOSTILE, "Closing", "balance", "2"))),
        charts.flows_calendar(net(("2026-10-05", HOSTILE, "5"))),
        charts.flow_diagram(links((1, HOSTILE, HOSTILE, HOSTILE, "1"))),
        charts.settlement_times(settlement((HOSTILE, "1s", "1s", "1s", "1s"))),
    ]  # fmt: skip
    for figure in figures:
        assert "$\\frac{&lt;b&gt;&amp;x _▯▯" in charts.to_svg(figure)


@pytest.mark.parametrize(("draw", "frame"), EVERY)
def test_a_frame_of_another_kind_is_refused(draw: Any, frame: pd.DataFrame) -> None:
    with pytest.raises(AnalysisError, match="the frame has no column"):
        draw(frame.rename(columns=lambda name: f"{name}_"))


def test_a_cut_baseline_is_marked_on_both_balances() -> None:
    steps = [("Opening", "balance", "1000"), ("Deposit", "change", "10"),
             ("Closing", "balance", "1010")]  # fmt: skip
    marked = charts.waterfall(moves(*steps))
    assert cut_bars(marked) == {0, 2}
    assert any(text.get_text().startswith("drawn from") for text in marked.axes[0].texts)
    steps[0], steps[2] = ("Opening", "balance", "0"), ("Closing", "balance", "10")
    assert cut_bars(charts.waterfall(moves(*steps))) == set()


def moves(*steps: tuple[str, str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(steps, columns=["step", "kind", "amount"])
    return frame.assign(asset="USD", amount=pd.array(frame["amount"].tolist(), dtype="decimal"))


def cut_bars(figure: Figure) -> set[int]:
    marks = [str(line.get_gid()) for line in figure.axes[0].lines]
    return {int(mark.split("-")[1]) for mark in marks if mark.startswith("cut-")}


def test_a_lasting_difference_keeps_its_first_and_last_mark() -> None:
    at = pd.date_range("2026-01-01", periods=1000, freq="15min", tz="UTC").as_unit("ns")
    gap = [0] * 100 + [1] * 800 + [0] * 100
    seen = pd.DataFrame({"profile_id": "p", "asset": "USD", "observed_at": at})
    for name in ("reported", "difference"):
        seen[name] = pd.array([str(one) for one in gap], dtype="decimal")
    days = pd.date_range("2026-01-01", periods=12, freq="D")
    daily = pd.DataFrame({"profile_id": "p", "asset": "USD", "date": days})
    daily["balance"] = pd.array(["1"] * len(daily), dtype="decimal")
    figure = charts.balance_course(daily, assertions=seen, legend=False)
    (wrong,) = (line for line in figure.axes[0].lines if line.get_marker() == "x")
    drawn = pd.DatetimeIndex(wrong.get_xdata())
    naive = at.tz_localize(None)
    assert (drawn.min(), drawn.max()) == (naive[100], naive[899])
    assert len(drawn) <= 42


def test_one_huge_day_does_not_make_the_others_faint() -> None:
    days = pd.date_range("2026-01-01", periods=100, freq="D", tz="UTC").as_unit("ns")
    nets = ["1000000"] + ["10"] * 99
    net = pd.DataFrame({"period": days, "asset": "USD", "profile_id": "p"})
    for name in ("inflow", "net"):
        net[name] = pd.array(nets, dtype="decimal")
    net["outflow"] = pd.array(["0"] * 100, dtype="decimal")
    figure = charts.flows_calendar(net, legend=False)
    assert {patch.get_alpha() for patch in figure.axes[0].patches[1:]} == {1.0}


def test_what_settles_at_once_takes_little_of_the_axis() -> None:
    times = pd.DataFrame({"type": ["INTERNAL_TRANSFER_DEBIT", "WIRE_DEPOSIT"], "count": [3, 3]})
    for name in ("p50", "p90", "p99", "max"):
        times[name] = pd.to_timedelta([0, 3600], unit="s")
    (axes,) = charts.settlement_times(times, legend=False).axes
    low, high = axes.get_xlim()
    assert high / low < 30
    assert [text.get_text() for text in axes.get_xticklabels()] == ["at once", "1 h"]
    assert "at once" in [text.get_text() for text in axes.texts]


@pytest.mark.parametrize(("draw", "frame"), ALL)
def test_a_page_can_say_what_is_under_the_mouse(draw: Any, frame: pd.DataFrame) -> None:
    picture: Any = draw(frame, PAGE_COLOURS)
    found = [path for panel in picture.panels for path in panel.hover_paths()]
    assert found
    for path, said in found:
        assert path.startswith("M")
        assert all(-1 <= float(at) <= max(picture.size) + 1 for at in re.findall(r"-?[\d.]+", path))
        assert said.split("\n")[0]


def test_the_letters_of_the_diagram_are_as_large_as_those_of_a_panel() -> None:
    links = pd.DataFrame(
        {"stage": [1], "source": ["Wire deposit"], "target": ["main"], "asset": ["USD"],
         "amount": pd.array(["1"], dtype="decimal")}
    )  # fmt: skip
    (axes,) = charts.flow_diagram(links).axes
    assert min(text.get_fontsize() for text in axes.texts) >= 10


def test_flows_of_several_assets_are_drawn_a_panel_each() -> None:
    rows = [(1, "Wire deposit", "main", "USD", 8), (1, "Crypto deposit", "other", "ETH", 3)]
    frame = pd.DataFrame(rows, columns=["stage", "source", "target", "asset", "amount"])
    figure = charts.flow_diagram(decimals(frame, "amount"))
    assert figure.get_label().endswith(
        "ETH 3 into and 0 out of 1 profiles; USD 8 into and 0 out of 1 profiles."
    )
    assert len(figure.axes) == 2
