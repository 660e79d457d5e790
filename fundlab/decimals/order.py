"""Sorting, searching, hashing, and which values are equal."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from fundlab.decimals import convert, int128
from fundlab.decimals.int128 import Bools, Ints, Positions
from fundlab.decimals.operations import Operated
from fundlab.decimals.scalars import from_scalar, is_missing, is_number


class Ordered(Operated):
    """Order and identity of the values. Missing ones sort to an end and equal each other."""

    def argsort(
        self,
        *,
        ascending: bool = True,
        kind: Any = None,  # noqa: ARG002 - always stable
        na_position: str = "last",
        **_: Any,
    ) -> Positions:
        rows = np.flatnonzero(~self._missing)
        if not ascending:
            rows = rows[::-1]
        ordered = rows[int128.order(int128.take(self._units, rows))]
        if not ascending:
            ordered = ordered[::-1]
        gone = np.flatnonzero(self._missing)
        return np.concatenate([gone, ordered] if na_position == "first" else [ordered, gone])

    def _values_for_argsort(self) -> Ints:
        return int128.ranks(self._units)[0]

    def _values_for_factorize(self) -> tuple[npt.NDArray[np.complex128], Any]:
        """Complex numbers that stand for the values one to one and in order, for joins."""
        keys = int128.sort_keys(self._units)
        keys[self._missing] = complex(np.nan, np.nan)
        return keys, complex(np.nan, np.nan)

    def factorize(self, use_na_sentinel: bool = True) -> tuple[Positions, Self]:
        encoded = self._as_arrow().dictionary_encode(
            null_encoding="mask" if use_na_sentinel else "encode"
        )
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
        return codes, self._of(*convert.from_arrow(encoded.dictionary))

    def unique(self) -> Self:
        return self.factorize(use_na_sentinel=False)[1]

    def duplicated(self, keep: Literal["first", "last", False] = "first") -> Bools:
        codes, _ = self.factorize()
        return pd.Series(codes).duplicated(keep=keep).to_numpy()

    def isin(self, values: Any) -> Bools:
        """Which values equal one of `values`, as ``==`` finds them: 3 equals 3.0, 0.1 no float.

        Text equals none, also where it reads as a number: convert it with ``Decimal`` first.

        Looks at one Python object at a time where `values` holds floats or anything else than
        decimals and integers.
        """
        try:
            units, missing = convert.from_any(values, strings=False)
        except (TypeError, ValueError, OverflowError):
            units, missing = convert.from_any(_equal_to_some(values))
        both = np.concatenate([int128.sort_keys(units[~missing]), int128.sort_keys(self._units)])
        codes, _ = pd.factorize(both)
        known = len(codes) - len(self)
        inside = codes[known:] < (codes[:known].max() + 1 if known else 0)
        return np.where(self._missing, bool(missing.any()), inside)

    def value_counts(self, dropna: bool = True) -> pd.Series[Any]:
        codes, values = self.factorize(use_na_sentinel=dropna)
        counts = np.bincount(codes[codes >= 0], minlength=len(values)).astype(np.int64)
        index = pd.Index(values)
        return pd.Series(pd.array(counts, dtype="Int64"), index=index, name="count", copy=False)

    def searchsorted(self, value: Any, side: Any = "left", sorter: Any = None) -> Any:
        if self._missing.any():
            raise ValueError(
                "searchsorted requires array to be sorted, which is impossible with NAs present."
            )
        scalar = not pd.api.types.is_list_like(value)
        units, missing = convert.from_any([value] if scalar else value)
        if missing.any():
            raise ValueError("cannot search for a missing value")
        found = np.searchsorted(
            int128.sort_keys(self._units), int128.sort_keys(units), side=side, sorter=sorter
        )
        return found[0] if scalar else found

    def _hash_pandas_object(
        self,
        *,
        encoding: str,  # noqa: ARG002 - text only
        hash_key: str,  # noqa: ARG002
        categorize: bool,  # noqa: ARG002
    ) -> npt.NDArray[np.uint64]:
        lows, highs = (pd.util.hash_array(np.ascontiguousarray(self._units[:, i])) for i in (0, 1))
        hashes = lows * np.uint64(1000003) ^ highs
        hashes[self._missing] = np.uint64(0xFFFFFFFFFFFFFFFF)
        return hashes


def _equal_to_some(values: Any) -> list[Any]:
    """Of any values, those that a decimal column can hold exactly; floats as what they are."""
    out: list[Any] = []
    for one in values:
        if is_missing(one):
            out.append(None)
        elif is_number(one) or isinstance(one, float | np.floating):
            exact = Decimal.from_float(float(one)) if isinstance(one, float | np.floating) else one
            try:
                from_scalar(exact)
            except (ValueError, OverflowError):
                continue
            out.append(exact)
    return out
