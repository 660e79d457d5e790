"""The pandas array of a decimal column: making it, its order, reductions and groups."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from fundlab.decimals import convert, groups, int128, text, wide
from fundlab.decimals.dtype import DecimalDtype
from fundlab.decimals.int128 import LIMIT, SCALE, Bools, Floats, Ints, Positions, Units
from fundlab.decimals.operations import Operated, boolean, zeroed
from fundlab.decimals.scalars import from_scalar, is_missing, is_number, to_objects, to_scalar

_NULLABLE: dict[str, Any] = {"boolean": "boolean", "integer": "Int64", "floating": "Float64"}
_FLOAT_REDUCTIONS = {"var", "std", "sem", "skew", "kurt"}
_REDUCTIONS = _FLOAT_REDUCTIONS | {
    "sum", "prod", "mean", "median", "min", "max", "any", "all", "count",
}  # fmt: skip


class DecimalArray(Operated):
    """Exact decimals: 16 bytes a value in Arrow's decimal128(38, 18) layout, and a byte for NA.

    Made from Decimals, integers, text such as ``"-1442725.09"``, missing values and Arrow
    decimals; from floats by `from_float` only. ``+``, ``-`` and sums are exact or raise
    OverflowError; ``*`` and ``/`` round half-even at 18 decimals; division by zero raises.

    >>> pd.array(["1.10", None, "0.05"], dtype="decimal") * 3
    <DecimalArray>
    [3.3, <NA>, 0.15]
    Length: 3, dtype: decimal
    """

    def __init__(self, values: Any, copy: bool = False) -> None:
        if isinstance(values, pd.Series | pd.Index):
            values = values.array
        units, missing = convert.from_any(values)
        if copy or isinstance(values, Operated):
            units, missing = units.copy(), missing.copy()
        self._hold(units, missing)

    # ---- making

    @classmethod
    def from_float(cls, values: Any, decimals: int = SCALE) -> Self:
        """Floats, each the exact binary value rounded half-even at `decimals` places (0 to 18).

        The float 0.1 is 0.1000000000000000055…: ``decimals=2`` makes it 0.1, the default 18 makes
        it 0.100000000000000006. NaN becomes NA. Raises OverflowError beyond 20 digits before the
        point.

        >>> DecimalArray.from_float([0.1, 2.675], decimals=2).tolist()
        [Decimal('0.1'), Decimal('2.67')]
        """
        return cls._of(*convert.from_float(values, decimals))

    @classmethod
    def from_arrow(cls, array: pa.Array | pa.ChunkedArray) -> Self:
        """Arrow decimals, integers or text; one chunk of decimal128(38, 18) is not copied.

        Raises OverflowError or ValueError for values that do not fit, TypeError for floats.
        """
        return cls._of(*convert.from_arrow(array))

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> Self:  # noqa: ARG003 - pandas' signature
        if isinstance(scalars, pd.Series | pd.Index):
            scalars = scalars.array
        if isinstance(scalars, cls):
            return scalars.copy() if copy else scalars.view()
        return cls._of(*convert.from_any(scalars))

    @classmethod
    def _from_sequence_of_strings(
        cls, strings: Any, *, dtype: Any = None, copy: bool = False
    ) -> Self:
        return cls._from_sequence(strings, dtype=dtype, copy=copy)

    @classmethod
    def _from_scalars(cls, scalars: Any, *, dtype: Any = None) -> Self:  # noqa: ARG003 - pandas' signature
        """Results of functions: only Decimals that fit stay a decimal column."""
        if not all(isinstance(one, Decimal) or is_missing(one) for one in scalars):
            raise TypeError("not all results are Decimals")
        try:
            return cls._from_sequence(scalars)
        except OverflowError as error:
            raise ValueError(str(error)) from None

    def _cast_pointwise_result(self, values: Any) -> Any:
        """What a function called on each value gave: Decimals stay, truth values may be missing."""
        result = super()._cast_pointwise_result(values)  # type: ignore[misc] # not in the stubs
        if isinstance(result, np.ndarray) and result.dtype == object and len(result):
            kind = _NULLABLE.get(pd.api.types.infer_dtype(result, skipna=True))
            return result if kind is None else pd.array(result, dtype=kind)
        return result

    @classmethod
    def _from_factorized(cls, values: Any, original: Self) -> Self:
        raise NotImplementedError("factorize is overridden")  # pragma: no cover

    # ---- to other types

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        """An Arrow decimal128(38, 18) array that shares the values: a later write copies first."""
        units = self._units
        if not units.flags.c_contiguous:
            units = units.copy()
        else:
            self._store.shared = True
        buffers = [text.validity(self._missing), pa.py_buffer(units)]
        array = pa.Array.from_buffers(text.ARROW_TYPE, len(self), buffers)
        if type is None or type == text.ARROW_TYPE:
            return array
        if pa.types.is_decimal(type):
            convert.check_range(array, type.precision - type.scale)
        return array.cast(type)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a decimal column cannot become a NumPy array without a copy")
        return self.to_numpy(dtype)

    def to_numpy(
        self,
        dtype: Any = None,
        copy: bool = False,  # noqa: ARG002 - always one
        na_value: Any = pd.api.extensions.no_default,
    ) -> npt.NDArray[Any]:
        """An object array of Decimals by default; floats (NaN where missing) or integers if asked.

        Integers must be whole and fit, or ValueError and OverflowError are raised.
        """
        kind = np.dtype(object if dtype is None else dtype)
        given = na_value is not pd.api.extensions.no_default
        missing = self._missing
        if kind.kind in "fc":
            out = int128.to_floats(self._units)
            out[missing] = na_value if given and not is_missing(na_value) else np.nan
            return out.astype(kind, copy=False)
        if kind.kind == "O":
            return to_objects(*self._column, na_value if given else pd.NA)
        if missing.any() and not given:
            raise ValueError(f"cannot make {kind} of missing values: fill them, or pass na_value=")
        out = wide.whole_numbers(self._units, kind) if kind.kind in "iu" else self._other(kind)
        if given and missing.any():
            out[missing] = na_value
        return out

    def _other(self, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        if kind.kind == "b":
            return cast("npt.NDArray[Any]", int128.nonzero(self._units))
        if kind.kind in "US":
            return np.asarray(text.to_text(*self._column).to_pylist(), dtype=kind)
        raise TypeError(f"cannot make {kind} of a decimal column")

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Exact to text, object, integers and Arrow decimals; the nearest float to floats."""
        dtype = pd.api.types.pandas_dtype(dtype)
        if isinstance(dtype, DecimalDtype):
            return self.copy() if copy else self
        if isinstance(dtype, pd.StringDtype):
            return _array_type(dtype)._from_sequence(text.to_text(*self._column), dtype=dtype)
        if isinstance(dtype, pd.ArrowDtype):
            return _array_type(dtype)._from_sequence(
                self._to_arrow(dtype.pyarrow_dtype), dtype=dtype
            )
        if isinstance(dtype, np.dtype):
            return self.to_numpy(dtype)
        kind = getattr(dtype, "numpy_dtype", None)
        if kind is not None and kind.kind in "iuf":
            values = self.to_numpy(kind, na_value=0)
            return _array_type(dtype)(values, self._missing.copy())
        return super().astype(dtype, copy=copy)

    def _to_arrow(self, kind: pa.DataType) -> pa.Array:
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return text.to_text(*self._column).cast(kind)
        if pa.types.is_floating(kind):
            return pa.array(self.to_numpy(np.float64), mask=self._missing).cast(kind)
        return self.__arrow_array__(kind)

    def _values_for_json(self) -> npt.NDArray[np.object_]:
        """Text, so that no reader turns the amounts into floats."""
        out = np.asarray(text.to_text(*self._column).to_pylist(), dtype=object)
        return cast("npt.NDArray[np.object_]", out)

    def tolist(self) -> list[Any]:
        return cast("list[Any]", to_objects(*self._column, pd.NA).tolist())

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str]:  # noqa: ARG002 - pandas' signature
        return str

    # ---- order and identity

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
        encoded = self._arrow_copy().dictionary_encode(
            null_encoding="mask" if use_na_sentinel else "encode"
        )
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
        return codes, self.from_arrow(encoded.dictionary).copy()

    def _arrow_copy(self) -> pa.Array:
        """The column as Arrow for the length of one call, not counted as sharing."""
        units = np.ascontiguousarray(self._units)
        buffers = [text.validity(self._missing), pa.py_buffer(units)]
        return pa.Array.from_buffers(text.ARROW_TYPE, len(self), buffers)

    def unique(self) -> Self:
        return self.factorize(use_na_sentinel=False)[1]

    def duplicated(self, keep: Literal["first", "last", False] = "first") -> Bools:
        codes, _ = self.factorize()
        return pd.Series(codes).duplicated(keep=keep).to_numpy()

    def isin(self, values: Any) -> Bools:
        """Membership of values equal to one of `values`; those that are no decimals match none."""
        try:
            units, missing = convert.from_any(values, strings=False)
        except (TypeError, ValueError, OverflowError):
            cells = [one for one in values if is_missing(one) or _is_exact(one)]
            units, missing = convert.from_any(cells)
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

    # ---- reductions

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
        if name in _FLOAT_REDUCTIONS:
            return pd.array([result], dtype="Float64")
        if name in {"any", "all"}:
            return pd.array([result], dtype="boolean")
        return (
            pd.array([result], dtype="Int64")
            if name == "count"
            else self._of(*convert.from_any([result]))
        )

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
        return _scalar(int128.total(units))

    def prod(self, *, skipna: bool = True, min_count: int = 0, **_: Any) -> Any:
        """Rounded once, half-even. Makes a Python Decimal of each value."""
        ids = np.zeros(len(self), np.intp)
        return self._one(groups.products(self._column, ids, 1, min_count=min_count, skipna=skipna))

    def mean(self, *, skipna: bool = True, **_: Any) -> Any:
        """Rounded half-even at 18 decimals; exact also where the sum would not fit."""
        units = self._present(skipna)
        if units is None or not len(units):
            return pd.NA
        return _scalar(round(Fraction(int128.total(units), len(units))))

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


def _array_type(dtype: Any) -> Any:
    return dtype.construct_array_type()


def _scalar(value: int) -> Decimal:
    if abs(value) >= LIMIT:
        raise int128.overflow()
    return to_scalar(value)


def _is_exact(value: object) -> bool:
    """Whether a value could equal one of a decimal column."""
    if not is_number(value):
        return False
    try:
        from_scalar(value)
    except (ValueError, OverflowError):
        return False
    return True
