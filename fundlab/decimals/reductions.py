"""Sums, means, extremes and the rest: of the whole column, and of each group."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Self

import numpy as np
import pandas as pd

from fundlab.decimals import convert, groups, int128
from fundlab.decimals.int128 import Floats, Ints, Positions, Units
from fundlab.decimals.operations import boolean, zeroed
from fundlab.decimals.order import Ordered
from fundlab.decimals.scalars import checked_scalar, to_scalar

_FLOAT_REDUCTIONS = {"var", "std", "sem", "skew", "kurt"}
_DTYPES = {
    "any": "boolean",
    "all": "boolean",
    "count": "Int64",
    "argmin": "Int64",
    "argmax": "Int64",
}
_DTYPES |= dict.fromkeys(_FLOAT_REDUCTIONS, "Float64")
_REDUCTIONS = {"sum", "prod", "mean", "median", "min", "max", *_DTYPES}


class Reduced(Ordered):
    """Reductions and running results, exact or OverflowError; var, std, sem, skew, kurt floats."""

    def _reduce(
        self, name: str, *, skipna: bool = True, keepdims: bool = False, **kwargs: Any
    ) -> Any:
        method = getattr(self, name, None)
        if name not in _REDUCTIONS or method is None:
            raise TypeError(
                f"'{type(self).__name__}' with dtype decimal does not support operation '{name}'"
            )
        result = method() if name == "count" else method(skipna=skipna, **kwargs)
        if not keepdims:
            return result
        if name not in _DTYPES:
            return self._of(*convert.from_any([result]))
        dtype: Any = _DTYPES[name]
        return pd.array([result], dtype=dtype)

    def _present(self, skipna: bool) -> Units | None:
        """The values that count, or None where a missing one makes the result missing."""
        if not self._missing.any():
            return self._units
        return self._units[~self._missing] if skipna else None

    def _one(self, column: groups.Column) -> Any:
        return self._of(*column)[0]

    def sum(self, *, skipna: bool = True, min_count: int = 0, **_: Any) -> Any:
        """Exact, or OverflowError."""
        units = self._present(skipna)
        if units is None or len(units) < min_count:
            return pd.NA
        return checked_scalar(int128.total(units))

    def prod(self, *, skipna: bool = True, min_count: int = 0, **_: Any) -> Any:
        """Rounded once, half-even. Makes a Python Decimal of each value."""
        ids = np.zeros(len(self), np.intp)
        return self._one(groups.products(self._column, ids, 1, min_count=min_count, skipna=skipna))

    def mean(self, *, skipna: bool = True, **_: Any) -> Any:
        """Rounded half-even at 18 decimals; exact also where the sum would not fit."""
        units = self._present(skipna)
        if units is None or not len(units):
            return pd.NA
        return checked_scalar(round(Fraction(int128.total(units), len(units))))

    def min(self, *, skipna: bool = True, **_: Any) -> Any:
        return self._extreme(skipna, np.min)

    def max(self, *, skipna: bool = True, **_: Any) -> Any:
        return self._extreme(skipna, np.max)

    def _extreme(self, skipna: bool, choose: Callable[..., Any]) -> Any:
        units = self._present(skipna)
        if units is None or not len(units):
            return pd.NA
        highs = int128.high(units)
        top = choose(highs)
        return to_scalar((int(top) << 64) | int(choose(int128.low(units)[highs == top])))

    def median(self, *, skipna: bool = True, **_: Any) -> Any:
        """The middle value, or the mean of the two middle ones rounded half-even."""
        if self._present(skipna) is None:
            return pd.NA
        return self._quantile(np.array([0.5]), "linear")[0]

    def var(self, *, skipna: bool = True, ddof: int = 1, **_: Any) -> Any:
        return self._statistic("var", skipna, ddof=ddof)

    def std(self, *, skipna: bool = True, ddof: int = 1, **_: Any) -> Any:
        return self._statistic("std", skipna, ddof=ddof)

    def sem(self, *, skipna: bool = True, ddof: int = 1, **_: Any) -> Any:
        return self._statistic("sem", skipna, ddof=ddof)

    def skew(self, *, skipna: bool = True, **_: Any) -> Any:
        return self._statistic("skew", skipna)

    def kurt(self, *, skipna: bool = True, **_: Any) -> Any:
        return self._statistic("kurt", skipna)

    def _statistic(self, name: str, skipna: bool, **kwargs: Any) -> Any:
        """A float, of the exact distances from the mean, so that large means cancel nothing."""
        units = self._present(skipna)
        if units is None or not len(units):
            return pd.NA
        centre = round(Fraction(int128.total(units), len(units)))
        floats = pd.Series(groups.distances(units, int128.from_ints([centre])))
        result = getattr(floats, name)(**kwargs)
        return pd.NA if np.isnan(result) else float(result)

    def any(self, *, skipna: bool = True, **_: Any) -> Any:
        return self._truth("any", skipna)

    def all(self, *, skipna: bool = True, **_: Any) -> Any:
        return self._truth("all", skipna)

    def _truth(self, name: str, skipna: bool) -> Any:
        answer = getattr(boolean(int128.nonzero(self._units), self.isna()), name)(skipna=skipna)
        return answer if answer is pd.NA else bool(answer)

    def count(self) -> int:
        return int((~self._missing).sum())

    def _quantile(self, qs: Floats, interpolation: str) -> Self:
        ids = np.zeros(len(self), np.intp)
        return self._of(*groups.quantiles(self._column, ids, 1, list(qs), interpolation))

    def _accumulate(self, name: str, *, skipna: bool = True, **_: Any) -> Self:
        """cumsum, cummin and cummax; cumprod makes a Python Decimal of each value."""
        ids = np.zeros(len(self), np.intp)
        if name == "cumsum":
            missing = self.isna() if skipna else np.logical_or.accumulate(self._missing)
            units = self._units if skipna else zeroed(self._units.copy(), missing)
            return self._of(zeroed(int128.running_total(units), missing), missing)
        if name == "cumprod":
            return self._of(*groups.running_products(self._column, ids, 1, skipna=skipna))
        return self._of(*groups.by_rank(self._column, ids, 1, name, skipna=skipna))

    # ---- groups

    def _groupby_op(
        self,
        *,
        how: str,
        has_dropped_na: bool,  # noqa: ARG002 - `ids` tell it too
        min_count: int,
        ngroups: int,
        ids: Positions,
        **kwargs: Any,
    ) -> Any:
        skipna = kwargs.pop("skipna", True)
        column = self._column
        if how in {"sum", "prod"}:
            kernel = groups.sums if how == "sum" else groups.products
            return self._of(*kernel(column, ids, ngroups, min_count=min_count, skipna=skipna))
        if how == "mean":
            return self._of(*groups.means(column, ids, ngroups, skipna=skipna))
        if how == "median":
            units, gone = groups.quantiles(column, ids, ngroups, [0.5], "linear")
            gone = gone | groups.spoilt(self._missing, ids, ngroups, skipna)
            return self._of(zeroed(units.copy(), gone), gone)
        if how in {"cumsum", "cumprod"}:
            running = groups.running_sums if how == "cumsum" else groups.running_products
            return self._of(*running(column, ids, ngroups, skipna=skipna))
        if how in {"min", "max"}:
            kwargs["min_count"] = min_count
        if how in {"min", "max", "cummin", "cummax"}:
            return self._of(*groups.by_rank(column, ids, ngroups, how, skipna=skipna, **kwargs))
        if how == "rank":
            return groups.by_rank(column, ids, ngroups, how, **kwargs)
        if how in {"idxmin", "idxmax"}:
            return groups.by_rank(column, ids, ngroups, how, skipna=skipna, **kwargs)
        if how in {"first", "last"}:
            rows = groups.ends(self._missing, ids, ngroups, how, min_count=min_count, skipna=skipna)
            return self.take(rows, allow_fill=True)
        if how in _FLOAT_REDUCTIONS:
            return groups.statistics(column, ids, ngroups, how, skipna=skipna, **kwargs)
        if how in {"any", "all"}:
            return groups.truths(column, ids, ngroups, how, skipna=skipna, **kwargs)
        raise NotImplementedError(f"groupby operation {how!r} is not implemented for decimals")

    def _groupby_quantile(
        self,
        *,
        qs: Floats,
        interpolation: str,
        ids: Positions,  # noqa: ARG002 - see below
        ngroups: int,
        starts: Ints,
        ends: Ints,
    ) -> Self:
        # pandas hands over the rows group by group, but `ids` in their first order
        sorted_ids = np.repeat(np.arange(ngroups), ends - starts)
        return self._of(
            *groups.quantiles(self._column, sorted_ids, ngroups, list(qs), interpolation)
        )
