"""Lengths of time and the wall clock of a zone, against pandas' own, at every change of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from transfer_examples import DAY, START, table, transfer

import fundlab as fl
from fundlab.analysis.periods import length_ns, local_ns, whole
from fundlab.base.errors import AnalysisError

SECOND = 10**9


@pytest.mark.parametrize(
    ("given", "nanoseconds"),
    [
        ("0s", 0), ("1ns", 1), ("30d", 30 * DAY), ("30 D", 30 * DAY), ("1h", 3_600 * SECOND),
        ("00:00:01", SECOND), ("1 days 2 hours", DAY + 7_200 * SECOND),
        (timedelta(0), 0), (timedelta(seconds=1), SECOND), (np.timedelta64(2, "s"), 2 * SECOND),
        (pd.Timedelta(3, "ns"), 3), (pd.offsets.Hour(1), 3_600 * SECOND),
        ("-1ns", ValueError), ("30", ValueError), ("+30", ValueError), ("1 30D", ValueError),
        ("NaT", ValueError), ("soon", ValueError), (timedelta(microseconds=-1), ValueError),
        (30, TypeError), (np.timedelta64(30), TypeError), (None, TypeError), (1.5, TypeError),
        (pd.NaT, (TypeError, ValueError)), (np.timedelta64("NaT", "s"), ValueError),
    ],
)  # fmt: skip
def test_a_length_has_a_unit_and_is_not_below_zero(given: Any, nanoseconds: Any) -> None:
    if isinstance(nanoseconds, int):
        assert length_ns(given) == nanoseconds
    else:
        with pytest.raises(nanoseconds):
            length_ns(given)


CHANGES = {
    "UTC": ["2026-03-29T01:00"],
    "Europe/Berlin": ["2026-03-29T01:00", "2026-10-25T01:00"],
    "America/New_York": ["2026-03-08T07:00", "2026-11-01T06:00"],
    "Australia/Lord_Howe": ["2026-04-04T15:00", "2026-10-03T15:30"],
    "Asia/Kathmandu": ["1985-12-31T18:30"],
    "America/Sao_Paulo": ["1968-12-31T22:00"],
}


@pytest.mark.parametrize("zone", CHANGES)
def test_the_wall_clock_is_pandas_own_at_each_change(zone: str) -> None:
    for change in CHANGES[zone]:
        at = pd.Timestamp(change, tz="UTC").value
        moments = [at + n * step for step in (1, SECOND, 3_600 * SECOND, DAY, 9 * DAY)
                   for n in (-1, 0, 1)]  # fmt: skip
        spans = [(min(moments), max(moments)), (at, at), (at - 1, at), (at - 1, at - 1),
                 (at, at + 7 * DAY), (at - 7 * DAY, at), (at - 7 * DAY - 1, at + 1)]  # fmt: skip
        for first, last in spans:
            given = pd.DataFrame({"at": [one for one in moments if first <= one <= last]})
            found = nw.from_native(given).select(at=local_ns(zone, first, last)).to_native()["at"]
            walls = pd.to_datetime(given["at"], utc=True).dt.tz_convert(zone).dt.tz_localize(None)
            assert found.tolist() == walls.astype("datetime64[ns]").astype("int64").tolist()


@pytest.mark.parametrize(
    ("number", "steps"), [(0, 0), (9, 0), (10, 1), (19, 1), (-1, -1), (-10, -1), (-11, -2)]
)
def test_whole_steps_are_rounded_down(number: int, steps: int) -> None:
    rows = nw.from_native(pd.DataFrame({"n": [number]}))
    assert rows.select(n=whole(nw.col("n"), 10)).to_native()["n"].tolist() == [steps]


@pytest.mark.parametrize(
    ("freq", "tz", "says"),
    [
        ("0h", "UTC", "has no length"), ("-1D", "UTC", "runs backwards"),
        ("999ns", "UTC", "is below a microsecond"), ("7h", "UTC", "does not divide a day evenly"),
        ("h", "Europe/Berlin", "within a day needs tz='UTC', not 'Europe/Berlin'"),
        (5, "UTC", "not a valid pandas offset"),
        ("month", "UTC", "for each month give 'MS', or 'ME'"),
        ("quarterly", "UTC", "for each quarter give 'QS', or 'QE'"), ("1us", "UTC", None),
        ("o", "UTC", "alias; give one such as 'D', 'W' or 'MS'"), ("min", "UTC", None),
        ("h", "UTC", None), ("24h", "UTC", None), ("W", "Europe/Berlin", None),
    ],
)  # fmt: skip
def test_what_is_no_period_is_named(freq: Any, tz: str, says: str | None) -> None:
    rows = table([transfer("a"), transfer("b", created_at=START + 1_000)])
    if says is None:
        assert fl.flows.net(rows, freq=freq, tz=tz).num_rows >= 1
    else:
        with pytest.raises(AnalysisError, match=says):
            fl.flows.net(rows, freq=freq, tz=tz)


@pytest.mark.parametrize("freq", ["h", "15min", "D", "W", "MS", "ME", "QS"])
@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_a_label_is_that_of_a_grouper(freq: str, offset: int) -> None:
    """Of a moment on the bound of a month and beside it."""
    moments = [START + n * DAY + offset for n in (0, 31, 59)]
    rows = [transfer(str(n), created_at=moment) for n, moment in enumerate(moments)]
    found = fl.flows.net(table(rows), freq=freq).to_pandas()
    series = pd.Series(1, index=pd.to_datetime(moments, utc=True))
    labels = [label for label, count in series.groupby(pd.Grouper(freq=freq)).count().items()
              if count]  # fmt: skip
    assert [*pd.to_datetime(found["period"], utc=True)] == labels
