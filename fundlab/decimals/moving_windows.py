"""Exact rolling windows, for which pandas has no hook: its own turn every type into floats."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.typing import SeriesGroupBy

from fundlab.decimals import wide
from fundlab.decimals.array import DecimalArray, DecimalDtype
from fundlab.decimals.int128 import Bools, Ints, Positions
from fundlab.decimals.scalars import is_whole
from fundlab.decimals.wide import Wide


def rolling(
    series: pd.Series[Any] | SeriesGroupBy[Any, Any], window: Any, min_periods: int | None = None
) -> Rolling:
    """Exact rolling sums and means of a decimal column, where pandas' own give floats.

    `series` may be grouped, as ``rolling(frame.groupby("asset")["amount"], 7)``: no window then
    reaches beyond its group, and results are sorted and labelled as pandas' own are. `window` is a
    number of rows, or a time offset such as ``"7D"`` over a sorted DatetimeIndex (the rows later
    than `offset` before each row, and the row itself). `min_periods` is the number of values that a
    result needs: by default all rows of the window, or one for an offset. Raises ValueError for a
    window of no length and for more `min_periods` than rows, TypeError for a `series` or `window`
    of another type.

    >>> fl.decimals.rolling(pd.Series(["0.1", "0.2", "0.3"], dtype="decimal"), 2).sum().tolist()
    [<NA>, Decimal('0.3'), Decimal('0.5')]
    """
    groups = None
    if isinstance(series, SeriesGroupBy):
        groups, series = series, series.obj
    if not isinstance(series, pd.Series) or not isinstance(series.dtype, DecimalDtype):
        given = f"dtype {series.dtype}" if isinstance(series, pd.Series) else type(series).__name__
        raise TypeError(
            f"series is of {given}: expected a decimal Series or groups of one, see "
            "astype('decimal')"
        )
    index = series.index
    rows: list[Any] = [np.arange(len(series))]  # of each group
    if groups is not None:
        rows = list(groups.indices.values()) or rows
        taken = np.concatenate(rows)
        series = series.take(taken).set_axis(groups.rolling(1, min_periods=0).count().index)
    sizes = [len(part) for part in rows]
    start = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)  # of each row's group
    last = np.arange(1, len(series) + 1)
    most: int | None
    if is_whole(window):
        if window < 1:
            raise ValueError(f"window={window!r}: expected a whole number of rows from 1")
        most = needed = int(window)
        first = np.maximum(last - most, start)
    else:
        offset = _offset(window)
        if not isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex) or index.hasnans:
            raise TypeError(
                f"window={window!r}: expected a number of rows, or an offset such as '7D' over a "
                "DatetimeIndex without missing times"
            )
        since = []
        for part in rows:
            times = index[part]
            if not times.is_monotonic_increasing:
                raise ValueError("the index must be sorted for a window given as an offset")
            since.append(times.searchsorted(times - offset, side="right"))
        first = start + np.concatenate(since)
        most, needed = None, 1
    if min_periods is not None:
        if not is_whole(min_periods) or min_periods < 0:
            raise ValueError(f"min_periods={min_periods!r}: expected a whole number from 0")
        needed = int(min_periods)
        if most is not None and needed > most:
            raise ValueError(f"min_periods={min_periods} is more than window={window}")
    return Rolling(series, first, last, needed)


class Rolling:
    """What `rolling` returns: `sum` and `mean`, each a decimal Series like the one given.

    >>> sums = fl.decimals.rolling(transfers["total"], 2)
    >>> sums.mean().tolist()[1:]
    [Decimal('612.5'), Decimal('142.5'), Decimal('60'), Decimal('80.25')]
    """

    def __init__(
        self, series: pd.Series[Any], first: Positions, last: Positions, min_periods: int
    ) -> None:
        self._series = series
        self._array: DecimalArray = series.array
        self._first = first
        self._last = last
        self._counts = self._between((~self._array.isna()).astype(np.int64))
        self._missing: Bools = self._counts < max(min_periods, 0)

    def sum(self) -> pd.Series[Any]:
        """Exact sums; OverflowError where one does not fit."""
        return self._series_of(*self._sums(), self._missing)

    def mean(self) -> pd.Series[Any]:
        """Means rounded half-even at 18 decimals."""
        limbs, minus = self._sums()
        quotient = wide.divide_half_even(limbs, [np.maximum(self._counts, 1)])
        return self._series_of(quotient, minus, self._missing | (self._counts == 0))

    def _sums(self) -> tuple[Wide, Bools]:
        limbs = [self._between(limb) for limb in wide.signed_split(self._array._units)]
        return wide.magnitude(limbs, len(self._series))

    def _between(self, values: Ints) -> Ints:
        totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
        answer: Ints = totals[self._last] - totals[self._first]
        return answer

    def _series_of(self, limbs: Wide, minus: Bools, missing: Bools) -> pd.Series[Any]:
        array = DecimalArray._of(wide.join_present(limbs, minus, missing), missing.copy())
        return pd.Series(array, index=self._series.index, name=self._series.name)


def _offset(window: Any) -> pd.Timedelta:
    """The time of a window, which is more than none."""
    expected = f"window={window!r}: expected a whole number of rows, or a time such as '7D'"
    numeric = isinstance(window, str) and window.strip().lstrip("-").isdigit()
    if numeric or not isinstance(window, str | timedelta | np.timedelta64 | pd.offsets.BaseOffset):
        raise TypeError(expected)
    times: Any = pd.Timedelta  # which takes more than its annotations say
    try:
        offset = times(window)
    except ValueError as error:
        raise ValueError(f"{expected} ({error})") from None
    if pd.isna(offset) or offset <= pd.Timedelta(0):
        raise ValueError(f"{expected}, more than none")
    answer: pd.Timedelta = offset
    return answer
