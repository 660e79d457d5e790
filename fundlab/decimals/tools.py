"""What pandas has no hook for: exact rolling windows, exact summaries, reading the type back."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from fundlab.decimals import wide
from fundlab.decimals.array import DecimalArray
from fundlab.decimals.dtype import DecimalDtype, types_mapper
from fundlab.decimals.int128 import Bools, Ints, Positions
from fundlab.decimals.wide import Wide


def rolling(series: pd.Series[Any], window: Any, min_periods: int | None = None) -> Rolling:
    """Exact rolling sums and means of a decimal column, where pandas' own give floats.

    `window` is a number of rows, or a time offset such as ``"7D"`` over a sorted DatetimeIndex
    (the rows later than `offset` before each row, and the row itself). `min_periods` is the number
    of values that a result needs: by default all rows of the window, or one for an offset.

    >>> rolling(pd.Series(["0.1", "0.2", "0.3"], dtype="decimal"), 2).sum().tolist()
    [<NA>, Decimal('0.3'), Decimal('0.5')]
    """
    if not isinstance(series.dtype, DecimalDtype):
        raise TypeError(f"series has dtype {series.dtype}: expected decimal, see astype('decimal')")
    last = np.arange(1, len(series) + 1)
    if isinstance(window, int | np.integer) and not isinstance(window, bool):
        if window < 1:
            raise ValueError(f"window={window!r}: expected a whole number of rows from 1")
        first = np.maximum(last - int(window), 0)
        needed = int(window)
    else:
        first, needed = _rows_since(series.index, window), 1
    return Rolling(series, first, last, needed if min_periods is None else min_periods)


class Rolling:
    """What `rolling` returns: `sum` and `mean`, each a decimal Series like the one given."""

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


def read_parquet(path: str | PathLike[str], columns: list[str] | None = None) -> pd.DataFrame:
    """A Parquet file, or a folder of them, as a DataFrame, its decimals as the type `decimal`.

    Decimals with more than 20 digits before the point or 18 after it stay as Arrow gives them.
    `columns` reads these only. Raises FileNotFoundError, and pyarrow.ArrowInvalid for a file that
    is no Parquet.

    >>> read_parquet("transfers.parquet")["amount"].dtype  # doctest: +SKIP
    DecimalDtype()
    """
    if Path(path).is_dir():
        table = pq.read_table(path, columns=columns)
    else:
        with pq.ParquetFile(path) as file:
            table = file.read(columns=columns)
    frame: pd.DataFrame = table.to_pandas(types_mapper=types_mapper)
    return frame


def _rows_since(index: pd.Index[Any], window: Any) -> Positions:
    if not isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex) or index.hasnans:
        raise TypeError(
            f"window={window!r}: expected a number of rows, or an offset such as '7D' over a "
            "DatetimeIndex without missing times"
        )
    if not index.is_monotonic_increasing:
        raise ValueError("the index must be sorted for a window given as an offset")
    return np.asarray(index.searchsorted(index - pd.Timedelta(window), side="right"))
