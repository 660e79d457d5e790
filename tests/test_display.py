from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import fundlab as fl
from fundlab.display import Card, Cell, Table
from fundlab.errors import InvalidRequest

ID = "37f447e2-2d7d-4635-ace9-061b9ec79d6b"


@pytest.fixture
def frame() -> pd.DataFrame:
    moments = ["2026-11-21T14:02:31.5Z", None]
    return pd.DataFrame(
        {
            "id": [ID, "short"],
            "amount": pd.Series(["1442725.5", "0.000000001"], dtype="decimal"),
            "asset": ["USD", "BTC"],
            "created_at": pd.to_datetime(pd.Series(moments), utc=True),
            "note": ["<b>bold</b>", None],
            "count": [1200, 7],
        }
    )


def test_money_times_and_ids_are_shown_for_people(frame: pd.DataFrame) -> None:
    lines = repr(fl.show(frame, tz="Europe/Zurich")).splitlines()
    assert lines[1].split() == [
        "37f447e2…9d6b", "1,442,725.50", "USD", "2026-11-21", "15:02:31", "<b>bold</b>", "1,200",
    ]  # fmt: skip
    assert lines[2].split() == ["short", "0.000000001", "BTC", "7"]
    assert lines[3] == "2 rows · times in Europe/Zurich"


def test_the_whole_shows_on_hover_and_text_is_escaped(frame: pd.DataFrame) -> None:
    page = fl.show(frame)._repr_html_()
    assert f'title="{ID}">37f447e2…9d6b</td>' in page
    assert 'title="2026-11-21T14:02:31.500000+00:00"' in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>" not in page


def test_numbers_stand_to_the_right_under_their_heads(frame: pd.DataFrame) -> None:
    page = fl.show(frame)._repr_html_()
    assert '<th scope="col" class="fl-number">amount</th>' in page
    assert '<td class="fl-number">1,442,725.50</td>' in page
    card = Card("A batch", tables=(Table((("fee", "number"),), ((Cell("40.00"),),)),))
    assert '<td class="fl-number">40.00</td>' in card._repr_html_()
    assert repr(card).splitlines()[1:] == ["    fee", "  40.00"]


@pytest.mark.parametrize(
    ("amount", "asset", "shown"),
    [
        ("1", "USD", "1.00"),
        ("1.005", "USD", "1.005"),
        ("0.1", "BTC", "0.10000000"),
        ("-1234.5", "ETH", "-1,234.500000"),
        ("0.000000000000000001", "ETH", "0.000000000000000001"),
        ("12", None, "12.00"),
    ],
)
def test_decimals_follow_the_asset_and_nothing_is_rounded(
    amount: str, asset: Any, shown: str
) -> None:
    frame = pd.DataFrame({"amount": pd.Series([amount], dtype="decimal"), "asset": [asset]})
    assert repr(fl.show(frame)).splitlines()[1].split()[0] == shown


def test_long_frames_are_cut_and_say_so(frame: pd.DataFrame) -> None:
    assert repr(fl.show(pd.concat([frame] * 30))).endswith(
        "60 rows, 40 of them not shown · times in UTC"
    )
    assert fl.show(frame, rows=0).hidden == 2


def test_bad_arguments(frame: pd.DataFrame) -> None:
    with pytest.raises(InvalidRequest, match="tz='Mars' is not a time zone; give a name such as"):
        fl.show(frame, tz="Mars")
    with pytest.raises(InvalidRequest, match="rows=-1"):
        fl.show(frame, rows=-1)


def test_the_zone_is_named_only_where_there_are_times() -> None:
    assert repr(fl.show(pd.DataFrame({"count": [7]}))).endswith("\n1 row")


def test_basis_points_are_no_money_of_the_asset() -> None:
    frame = pd.DataFrame(
        {"asset": ["BTC"], "bps": pd.Series(["3.63"], dtype="decimal"), "count": [1]}
    )
    assert repr(fl.show(frame)).splitlines()[1].split() == ["BTC", "3.6300", "1"]


@pytest.mark.parametrize("tz", ["", "America", "../x", "UTC\0", "x" * 300, None, 5])
def test_what_is_no_zone_is_refused(tz: Any) -> None:
    with pytest.raises(InvalidRequest, match="is not a time zone; give a name such as"):
        fl.show(pd.DataFrame({"a": [1]}), tz=tz)


@pytest.mark.parametrize(("frame", "rows"), [([1], 5), (None, 5), (pd.DataFrame(), "5")])
def test_what_cannot_be_shown_is_refused(frame: Any, rows: Any) -> None:
    with pytest.raises(InvalidRequest, match="give"):
        fl.show(frame, rows=rows)


def test_what_would_forge_a_row_or_repaint_the_terminal_is_marked() -> None:
    frame = pd.DataFrame({"no\nte": ["two\nlines\x1b[2J", "\u202eturned"]})
    lines = repr(fl.show(frame)).splitlines()
    assert lines == ["no�te", "two�lines�[2J", "�turned", "2 rows"]
    assert "\u202e" not in fl.show(frame)._repr_html_()


@pytest.mark.parametrize(
    ("value", "dtype", "shown"),
    [
        (1234567.89, "float64", "1,234,567.89"),
        (0.1, "float64", "0.1"),
        (1200.0, "float64", "1,200"),
        (1e22, "float64", "1e+22"),
        (2.5, "Float64", "2.5"),
        (float("inf"), "float64", "inf"),
    ],
)
def test_numbers_are_not_rounded_either(value: float, dtype: str, shown: str) -> None:
    frame = pd.DataFrame({"a": pd.Series([value], dtype=dtype)})
    assert repr(fl.show(frame)).splitlines()[1].strip() == shown
