from __future__ import annotations

import re
import threading
import xml.etree.ElementTree as ET
from base64 import b64decode
from decimal import Decimal
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib.dates import num2date
from matplotlib.figure import Figure

import fundlab as fl
from fundlab import charts
from fundlab.base.errors import AnalysisError
from fundlab.settings.labels import labels

D = Decimal
HOSTILE = "$\\frac{<b>&x _日本"


def daily(*rows: tuple[str, str, str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["profile_id", "asset", "date", "balance"])
    frame["date"] = pd.to_datetime(frame["date"])
    return frame.assign(balance=pd.array(frame["balance"].tolist(), dtype="decimal"))


def net(*rows: tuple[str, str, str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["period", "asset", "inflow", "outflow"])
    frame["period"] = pd.to_datetime(frame["period"], utc=True)
    for name in ("inflow", "outflow"):
        frame[name] = pd.array(frame[name].tolist(), dtype="decimal")
    return frame.assign(net=frame["inflow"] - frame["outflow"], profile_id="p")


def fees(*rows: tuple[str, str, str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["period", "type", "asset", "fee"])
    frame["period"] = pd.to_datetime(frame["period"], utc=True)
    return frame.assign(fee=pd.array(frame["fee"].tolist(), dtype="decimal"))


DAILY = daily(
    ("p1", "USD", "2026-01-01", "10"),
    ("p1", "USD", "2026-01-02", "12.5"),
    ("p2", "USD", "2026-01-01", "3"),
    ("p1", "BTC", "2026-01-03", "0.5"),
)
NET = net(("2026-01-01", "USD", "10", "4"), ("2026-02-01", "USD", "0", "1.5"))
FEES = fees(
    ("2026-01-01", "WIRE_WITHDRAWAL", "USD", "25"),
    ("2026-01-01", "CRYPTO_WITHDRAWAL", "USD", "5"),
    ("2026-02-01", "WIRE_WITHDRAWAL", "USD", "40"),
    ("2026-02-01", "WIRE_DEPOSIT", "USD", "0"),
)
ALL: list[tuple[Any, pd.DataFrame]] = [
    (charts.balance_course, DAILY),
    (charts.flow_bars, NET),
    (charts.fees_by_type, FEES),
]


def words(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_the_course_ends_at_the_last_closings_of_every_profile() -> None:
    figure = charts.balance_course(DAILY)
    bitcoin, dollars = figure.axes
    assert words(figure) == ["BTC", "0.5 in all", "USD", "15.5 in all"]
    assert [list(line.get_ydata())[-1] for line in dollars.lines] == [12.5, 3.0]
    assert list(bitcoin.lines[0].get_ydata())[-2:] == [0.5, 0.5]
    assert bitcoin.get_xlim() == dollars.get_xlim()
    assert figure.get_label() == (
        "Closing balances of 2 profiles from 2026-01-01 to 2026-01-03, at the end in all "
        "0.5 BTC, 15.5 USD."
    )


def test_bars_show_inflow_above_and_outflow_below() -> None:
    (axes,) = charts.flow_bars(NET).axes
    assert [bar.get_height() for bar in axes.patches] == [10, 0, -4, -1.5]
    assert list(axes.lines[0].get_ydata()) == [6, -1.5]
    assert [text.get_text() for text in axes.texts] == ["USD", "net +4.5"]


def test_fees_are_stacked_by_type() -> None:
    figure = charts.fees_by_type(FEES)
    (axes,) = figure.axes
    bars = [(bar.get_y(), bar.get_height()) for bar in axes.patches]
    assert bars == [(0, 5), (0, 0), (5, 25), (0, 40)]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["Crypto withdrawal", "Wire withdrawal"]
    assert "Wire withdrawal 65 USD" in figure.get_label()


@pytest.mark.parametrize(("draw", "frame"), ALL)
def test_an_asset_that_the_frame_has_not_is_refused(draw: Any, frame: pd.DataFrame) -> None:
    known = ", ".join(sorted(set(frame["asset"])))
    for asset in ("usd", "XYZ", ""):
        said = f"^asset='{asset}' is not in the frame, which has {known}$"
        with pytest.raises(AnalysisError, match=said):
            draw(frame, asset=asset)
    assert words(draw(frame.iloc[:0], asset="usd"))[0].startswith("No ")


@pytest.mark.parametrize(("draw", "frame"), ALL)
def test_one_asset_keeps_the_colours_of_the_whole(draw: Any, frame: pd.DataFrame) -> None:
    whole, one = draw(frame), draw(frame, asset="USD", legend=False)
    assert len(one.axes) == 1
    assert not one.legends

    def colours(axes: Any) -> list[Any]:
        drawn = [*axes.lines, *axes.patches]
        return [
            line.get_color() if hasattr(line, "get_color") else line.get_facecolor()
            for line in drawn
        ]

    assert colours(one.axes[0]) == colours(whole.axes[-1])


OF_A_NOTEBOOK: list[dict[str, Any]] = [
    {"timezone": "Pacific/Auckland"},
    {"text.usetex": True},
    {"axes.facecolor": "red", "lines.marker": "x", "path.sketch": (1, 100, 2)},
    {"savefig.bbox": "tight", "axes.formatter.use_locale": True, "axes.grid": True},
]


@pytest.mark.thorough
@pytest.mark.parametrize("settings", OF_A_NOTEBOOK)
@pytest.mark.parametrize(("draw", "frame"), ALL)
def test_the_settings_of_a_notebook_change_nothing(
    draw: Any, frame: pd.DataFrame, settings: dict[str, Any]
) -> None:
    expected = charts.to_svg(draw(frame))
    with mpl.rc_context(settings):
        assert charts.to_svg(draw(frame)) == expected


def middles(figure: Figure) -> list[str]:
    """The moments that the bars stand at."""
    patches: Any = figure.axes[0].patches
    return [f"{num2date(bar.get_x() + bar.get_width() / 2):%m-%d %H:%M}" for bar in patches]


def test_bars_stand_at_the_first_moment_of_a_day_in_its_zone() -> None:
    flows = net(("2026-09-30T11:00Z", "USD", "1", "0"), ("2026-10-01T11:00Z", "USD", "2", "0"))
    figure = charts.flow_bars(flows, tz="Pacific/Auckland")  # 13 hours before UTC, in summer
    assert middles(figure)[:2] == ["10-01 00:00", "10-02 00:00"]
    paid = fees(
        ("2026-09-30T11:00Z", "WIRE", "USD", "1"), ("2026-10-01T11:00Z", "WIRE", "USD", "2")
    )
    assert middles(charts.fees_by_type(paid, tz="Pacific/Auckland")) == middles(figure)[:2]
    assert middles(charts.flow_bars(flows))[:2] == ["09-30 11:00", "10-01 11:00"]


def test_observations_stand_at_their_time_in_the_zone_of_the_days() -> None:
    seen = pd.DataFrame({"profile_id": ["p1"], "asset": ["USD"]}).assign(
        observed_at=pd.to_datetime(["2025-12-31T12:00Z"], utc=True),
        reported=pd.array(["10"], dtype="decimal"),
        difference=pd.array(["0"], dtype="decimal"),
    )
    figure = charts.balance_course(DAILY, assertions=seen, tz="Pacific/Auckland", asset="USD")
    (mark,) = [line for line in figure.axes[0].lines if line.get_linestyle() == "None"]
    assert [str(at)[:16] for at in mark.get_xdata()] == ["2026-01-01T01:00"]


@pytest.mark.thorough
def test_drawing_from_several_threads_at_once() -> None:
    expected = charts.to_svg(charts.balance_course(DAILY))
    found: list[str] = []
    draw = lambda: found.append(charts.to_svg(charts.balance_course(DAILY)))  # noqa: E731
    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_names_from_outside_are_drawn_as_they_are() -> None:
    frames = [
        daily((HOSTILE, HOSTILE, "2026-01-01", "1")),
        net(("2026-01-01", HOSTILE, "1", "0")),
        fees(("2026-01-01", HOSTILE, HOSTILE, "1")),
    ]
    for (draw, _), frame in zip(ALL, frames, strict=True):
        svg = charts.to_svg(draw(frame))
        tree = ET.fromstring(svg)
        texts = ["".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")]
        assert any(text.startswith("$\\frac{<b>&x _▯▯") for text in texts), texts
        assert not list(tree.iter("{http://www.w3.org/2000/svg}b"))


def test_many_profiles_are_gathered_in_one_line() -> None:
    rows = [(f"p{n:02d}", "USD", "2026-01-01", str(n)) for n in range(12)]
    figure = charts.balance_course(daily(*rows))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["p00", "p01", "p02", "p03", "p04", "7 others"]
    ends = sorted(list(line.get_ydata())[-1] for line in figure.axes[0].lines)
    assert ends == [0, 1, 2, 3, 4, 5 + 6 + 7 + 8 + 9 + 10 + 11]


def test_many_days_are_thinned_and_keep_the_last() -> None:
    days = pd.date_range("2016-01-01", periods=4000)
    frame = daily(*[("p", "USD", str(day), str(n)) for n, day in enumerate(days)])
    (line,) = charts.balance_course(frame).axes[0].lines
    assert len(line.get_xdata()) <= charts.MAX_POINTS + 1
    assert list(line.get_ydata())[-2:] == [3999.0, 3999.0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (950, "950"),
        (999.6, "1 k"),
        (1_234_567, "1.23 M"),
        (-2_500, "−2.5 k"),
        (7.5e12, "7.5 T"),
        (0.005, "0.005"),
        (1e-18, "1.0e−18"),
    ],
)
def test_compact(value: float, text: str) -> None:
    assert charts.compact(value) == text


def test_labels_of_ids_differ_whatever_they_are_called() -> None:
    names = {"a" * 36: "Treasury", "b" * 36: "Treasury", "c" * 36: "Payroll"}
    ids = [*names, "dddd-1-dddd-2", "dddd-2-dddd-2", "short"]
    assert labels(ids, names) == {
        "a" * 36: "Treasury (aaaa…aaaa)",
        "b" * 36: "Treasury (bbbb…bbbb)",
        "c" * 36: "Payroll",
        "dddd-1-dddd-2": "dddd-1-dddd-2",
        "dddd-2-dddd-2": "dddd-2-dddd-2",
        "short": "short",
    }


def test_humanise() -> None:
    names = ["WIRE_DEPOSIT", "RTP_DEPOSIT", "CBIT_WITHDRAWAL", "Fresh_type"]
    assert [charts.humanise(name) for name in names] == [
        "Wire deposit",
        "RTP deposit",
        "CBIT withdrawal",
        "Fresh_type",
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(("draw", "frame"), ALL)
def test_a_notebook_shows_a_chart_at_its_size_with_its_words(
    draw: Any, frame: pd.DataFrame
) -> None:
    figure = draw(frame)
    shown, about = DisplayFormatter().format(figure)
    picture = shown["image/png"]
    assert picture.startswith(b"\x89PNG")
    pixels = int.from_bytes(picture[16:20], "big")
    assert pixels == round(figure.get_figwidth() * 144)
    assert about["image/png"] == {"width": pixels * 96 // 144, "alt": figure.get_label()}


@pytest.mark.thorough
@pytest.mark.parametrize(("draw", "frame"), ALL)
def test_a_notebook_has_every_colour_of_a_chart_in_both_themes(
    draw: Any, frame: pd.DataFrame
) -> None:
    page = draw(frame)._repr_html_()
    assert draw(frame)._mime_() == ("text/html", page)  # marimo asks so
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert found is not None
    svg = b64decode(found[1]).decode()
    (rule,) = re.findall(r"<style>@media \(prefers-color-scheme: dark\)(.*?)</style>", svg)
    dark = dict(re.findall(r"(--c[0-9a-f]{6}):(#[0-9a-f]{6});", rule))
    styles = [element.attrib.get("style", "") for element in ET.fromstring(svg).iter()]
    used = re.findall(r"var\((--c[0-9a-f]{6}), #([0-9a-f]{6})\)", " ".join(styles))
    assert {name for name, _ in used} <= dark.keys()
    assert all(name == f"--c{light}" for name, light in used)
    assert dark["--cffffff"] == charts.DARK.paper
    assert "#" not in re.sub(r"var\([^)]*\)|url\([^)]*\)", "", " ".join(styles))


def test_words_cannot_leave_the_alternative_text() -> None:
    page = charts.transfer_hours(
        pd.DataFrame({"created_at": pd.to_datetime(["2026-01-01"], utc=True)})
    )
    page.set_label('"><script>alert(1)</script>')
    assert "<script" not in page._repr_html_()


def test_long_names_stay_within_a_narrow_chart() -> None:
    kinds = ["BANK_WITHDRAWAL", "CRYPTO_WITHDRAWAL", "WIRE_DEPOSIT", "WIRE_WITHDRAWAL"]
    rows = [("2026-01-01", kind, asset, "25") for kind in kinds for asset in ("USD", "USDC")]
    for asset in ("USD", None):
        figure = charts.fees_by_type(fees(*rows), asset=asset)
        page = figure.bbox.bounds
        (legend,) = figure.legends
        box = legend.get_window_extent()
        lowest = min(axes.get_tightbbox().y0 for axes in figure.axes)
        assert 0 <= box.x0 < box.x1 <= page[2]
        assert 0 <= box.y0 < box.y1 <= lowest


def test_a_legend_names_only_what_is_drawn_in_the_colours_of_all() -> None:
    rows = [
        ("2026-01-01", "BANK_WITHDRAWAL", "USD", "25"),
        ("2026-01-01", "CRYPTO_WITHDRAWAL", "USDC", "1"),
        ("2026-01-01", "WIRE_WITHDRAWAL", "USD", "25"),
    ]
    both = charts.fees_by_type(fees(*rows)).legends[0]
    (legend,) = charts.fees_by_type(fees(*rows), asset="USDC").legends
    assert [text.get_text() for text in legend.get_texts()] == ["Crypto withdrawal"]
    colors = [handle.get_color() for handle in legend.legend_handles]
    assert colors == [both.legend_handles[1].get_color()]


def test_a_zone_that_is_none_is_named() -> None:
    daily = fl.balances.daily(fl.sample().read("transfers").head(50))
    with pytest.raises(AnalysisError, match="tz='Mars' is not a valid time zone"):
        fl.charts.balance_course(daily, tz="Mars")
