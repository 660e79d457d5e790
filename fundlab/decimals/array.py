"""The array behind a decimal column, as pandas' extension interface wants it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray
from pandas.api.indexers import check_array_indexer

from fundlab.decimals import convert, groups, int128, text, wide
from fundlab.decimals.dtype import DecimalDtype
from fundlab.decimals.int128 import LIMIT, ONE, SCALE, Bools, Floats, Ints, Positions, Units
from fundlab.decimals.scalars import (
    from_scalar,
    is_missing,
    is_number,
    to_objects,
    to_scalar,
)

_SMALL_POWERS = range(1, 5)  # rounded once, in wide integers; other powers in Decimals

_ARITHMETIC: dict[str, Callable[[Units, Units], Units]] = {
    "add": int128.add,
    "sub": int128.subtract,
    "mul": wide.multiply,
    "truediv": wide.divide,
    "floordiv": wide.floor_divide,
    "mod": wide.remainder,
}


class _Store:
    """The memory that an array shares with its views, and with Arrow until one is written to."""

    __slots__ = ("missing", "shared", "units")

    def __init__(self, units: Units, missing: Bools, shared: bool) -> None:
        self.units = units
        self.missing = missing
        self.shared = shared


class DecimalArray(ExtensionArray):
    """Exact decimals: 16 bytes a value in Arrow's decimal128(38, 18) layout, and a byte for NA.

    Made from Decimals, integers, text such as ``"-1442725.09"``, missing values and Arrow
    decimals; from floats by `from_float` only. ``+``, ``-`` and sums are exact or raise
    OverflowError; ``*`` and ``/`` round half-even at 18 decimals; division by zero raises.

    >>> pd.array(["1.10", None, "0.05"], dtype="decimal") * 3
    <DecimalArray>
    [3.3, <NA>, 0.15]
    Length: 3, dtype: decimal
    """

    __array_priority__ = 1000
    __pandas_priority__ = 1500  # integers of other extension types, Arrow's too, leave `+` to us
    _dtype = DecimalDtype()

    def __init__(self, values: Any, copy: bool = False) -> None:
        units, missing = convert.from_any(values)
        self._hold(units.copy() if copy else units, missing)

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
    def _of(cls, units: Units, missing: Bools) -> Self:
        self = cls.__new__(cls)
        self._hold(units, missing)
        return self

    def _hold(self, units: Units, missing: Bools) -> None:
        self._store = _Store(units, missing, not units.flags.writeable)
        self._rows: slice | None = None

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> Self:
        if isinstance(scalars, cls):
            return scalars.copy() if copy else scalars.view()
        return cls._of(*convert.from_any(scalars))

    @classmethod
    def _from_sequence_of_strings(
        cls, strings: Any, *, dtype: Any = None, copy: bool = False
    ) -> Self:
        return cls._from_sequence(strings, dtype=dtype, copy=copy)

    @classmethod
    def _from_scalars(cls, scalars: Any, *, dtype: Any = None) -> Self:
        """Results of functions: only Decimals that fit stay a decimal column."""
        if not all(isinstance(one, Decimal) or is_missing(one) for one in scalars):
            raise TypeError("not all results are Decimals")
        try:
            return cls._from_sequence(scalars)
        except OverflowError as error:
            raise ValueError(str(error)) from None

    def _cast_pointwise_result(self, values: Any) -> Any:
        """What a function called on each value gave: Decimals stay, truth values may be missing."""
        result = super()._cast_pointwise_result(values)
        if isinstance(result, np.ndarray) and result.dtype == object and len(result):
            kind = _NULLABLE.get(pd.api.types.infer_dtype(result, skipna=True))
            return result if kind is None else pd.array(result, dtype=kind)
        return result

    @classmethod
    def _from_factorized(cls, values: Any, original: Self) -> Self:
        raise NotImplementedError("factorize is overridden")  # pragma: no cover

    # ---- what it holds

    @property
    def _units(self) -> Units:
        units = self._store.units
        return units if self._rows is None else units[self._rows]

    @property
    def _missing(self) -> Bools:
        missing = self._store.missing
        return missing if self._rows is None else missing[self._rows]

    @property
    def _column(self) -> groups.Column:
        return self._units, self._missing

    @property
    def dtype(self) -> DecimalDtype:
        return self._dtype

    @property
    def nbytes(self) -> int:
        return self._units.nbytes + self._missing.nbytes

    def __len__(self) -> int:
        return len(self._missing)

    def isna(self) -> Bools:
        return self._missing.copy()

    def copy(self) -> Self:
        return self._of(self._units.copy(), self._missing.copy())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of, (np.ascontiguousarray(self._units), self._missing.copy())

    # ---- access

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, tuple):
            item = _only(item)
        item = check_array_indexer(self, item)
        if isinstance(item, slice):
            return self._sliced(item)
        if isinstance(item, np.ndarray):
            if item.dtype == bool:
                return self._of(self._units[item], self._missing[item])
            return self._of(int128.take(self._units, item), self._missing[item])
        if self._missing[item]:
            return pd.NA
        return to_scalar(int128.to_ints(self._units[[item]])[0])

    def _sliced(self, item: slice) -> Self:
        """A view: it shares the store, so that writing to one is seen by the other."""
        rows = range(len(self._store.missing))
        if self._rows is not None:
            rows = rows[self._rows]
        rows = rows[item]
        out = type(self).__new__(type(self))
        out._store = self._store
        out._rows = slice(rows.start, rows.stop if rows.stop >= 0 else None, rows.step)
        out._readonly = self._readonly
        return out

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._readonly:
            raise ValueError("Cannot modify read-only array")
        if isinstance(key, tuple):
            key = _only(key)
        key = check_array_indexer(self, key)
        units, missing = self._enter(value)
        if self._store.shared:
            self._store.units = self._store.units.copy()
            self._store.missing = self._store.missing.copy()
            self._store.shared = False
        self._units[key] = units
        self._missing[key] = missing

    def _enter(self, value: Any) -> Any:
        """(units, missing) of what is written into the column: a scalar or one value a place."""
        if isinstance(value, type(self)):
            return value._column
        if pd.api.types.is_list_like(value):
            return convert.from_any(value)
        if is_missing(value):
            return np.uint64(0), True
        units, missing = convert.from_any([value])
        return units[0], missing[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(to_objects(*self._column, pd.NA))

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> Self:
        positions = np.asarray(indices, dtype=np.intp)
        if len(self) == 0 and (positions >= 0).any():
            raise IndexError("cannot do a non-empty take from an empty axes.")
        if not allow_fill:
            return self._of(int128.take(self._units, positions), self._missing.take(positions))
        if (positions < -1).any():
            raise ValueError("indices must be -1 or positions in the array when allow_fill=True")
        filled = positions == -1
        if len(self) == 0:
            out = self._of(np.zeros((len(positions), 2), np.uint64), np.ones(len(positions), bool))
        else:
            positions = np.where(filled, 0, positions) if filled.any() else positions
            if len(positions) and positions.max() >= len(self):
                raise IndexError(
                    f"position {positions.max()} is out of bounds for {len(self)} values"
                )
            out = self._of(int128.take(self._units, positions), self._missing.take(positions))
        if filled.any():
            out[filled] = pd.NA if is_missing(fill_value) else fill_value
        return out

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[Self]) -> Self:
        units = np.concatenate([one._units for one in to_concat])
        return cls._of(units, np.concatenate([one._missing for one in to_concat]))

    # ---- to other types

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:  # noqa: A002 - Arrow's
        """An Arrow decimal128(38, 18) array that shares the values: a later write copies first."""
        units = self._units
        if not units.flags.c_contiguous:
            units = units.copy()
        else:
            self._store.shared = True
        buffers = [text.validity(self._missing), pa.py_buffer(units)]
        array = pa.Array.from_buffers(text.ARROW_TYPE, len(self), buffers)
        return array if type is None or type == text.ARROW_TYPE else array.cast(type)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a decimal column cannot become a NumPy array without a copy")
        return self.to_numpy(dtype)

    def to_numpy(
        self, dtype: Any = None, copy: bool = False, na_value: Any = pd.api.extensions.no_default
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
            return cast("npt.NDArray[Any]", self._units.any(axis=1))
        if kind.kind in "US":
            return np.asarray(text.to_text(*self._column).to_pylist(), dtype=kind)
        raise TypeError(f"cannot make {kind} of a decimal column")

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Exact to text, object, integers and Arrow decimals; the nearest float to floats."""
        dtype = pd.api.types.pandas_dtype(dtype)
        if isinstance(dtype, DecimalDtype):
            return self.copy() if copy else self
        if isinstance(dtype, pd.StringDtype):
            return dtype.construct_array_type()._from_sequence(
                text.to_text(*self._column), dtype=dtype
            )
        if isinstance(dtype, pd.ArrowDtype):
            return dtype.construct_array_type()._from_sequence(
                self._to_arrow(dtype.pyarrow_dtype), dtype=dtype
            )
        if isinstance(dtype, np.dtype):
            return self.to_numpy(dtype)
        kind = getattr(dtype, "numpy_dtype", None)
        if kind is not None and kind.kind in "iuf":
            values = self.to_numpy(kind, na_value=0)
            return dtype.construct_array_type()(values, self._missing.copy())
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

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str]:
        return str

    # ---- arithmetic

    def _operand(self, other: Any) -> groups.Column | None:
        """(units, missing) of the other side, one row for a scalar; None where it is no number."""
        if isinstance(other, np.ndarray) and other.ndim == 0:
            other = other.item()
        if isinstance(other, type(self)):
            column = other._column
        elif pd.api.types.is_list_like(other):
            if getattr(other, "ndim", 1) != 1:
                raise NotImplementedError("decimal columns have one dimension")
            column = convert.from_any(other, strings=False)
        elif is_missing(other):
            return np.zeros((1, 2), np.uint64), np.ones(1, bool)
        elif is_number(other):
            return convert.from_scalar_units(other), np.zeros(1, bool)
        elif isinstance(other, float | np.floating):
            raise TypeError(f"{other!r} is a float; {convert.FLOAT_HINT}")
        else:
            return None
        if len(column[1]) != len(self):
            raise ValueError(f"Lengths must match: {len(self)} and {len(column[1])}")
        return column

    def _calculate(self, other: Any, name: str, reflected: bool = False) -> Any:
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        operand = self._operand(other)
        if operand is None:
            return NotImplemented
        missing = self._missing | operand[1]
        left, right = self._units, operand[0]
        if reflected:
            left, right = right, left
        if name in {"truediv", "floordiv", "mod"}:
            right = _divisors(right, missing)
        return self._of(_zeroed(_ARITHMETIC[name](left, right), missing), missing)

    def _raise_to(self, other: Any, reflected: bool = False) -> Any:
        """Integer powers, rounded half-even once. x ** 0 is 1, also where x is zero or missing.

        Exponents beyond 4 and below -1 make a Python Decimal of each value.
        """
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        operand = self._operand(other)
        if operand is None:
            return NotImplemented
        (base, base_gone), (power, power_gone) = self._column, operand
        if reflected:
            (base, base_gone), (power, power_gone) = (power, power_gone), (base, base_gone)
        base_gone, power_gone = np.broadcast_arrays(base_gone, power_gone)
        base = np.broadcast_to(base, (len(self), 2))
        try:
            exponents = wide.whole_numbers(np.broadcast_to(power, base.shape), np.dtype(np.int64))
        except ValueError:
            raise ValueError("a decimal column can be raised to whole numbers only") from None
        missing = (base_gone & ((exponents != 0) | power_gone)) | (
            power_gone & ~int128.equal(base, int128.from_ints([ONE]))
        )
        out = np.zeros(base.shape, np.uint64)
        for exponent in np.unique(exponents[~missing]).tolist():
            rows = np.flatnonzero((exponents == exponent) & ~missing)
            out[rows] = _power(int128.take(base, rows), exponent)
        return self._of(out, missing)

    def __add__(self, other: Any) -> Any:
        return self._calculate(other, "add")

    def __radd__(self, other: Any) -> Any:
        return self._calculate(other, "add", reflected=True)

    def __sub__(self, other: Any) -> Any:
        return self._calculate(other, "sub")

    def __rsub__(self, other: Any) -> Any:
        return self._calculate(other, "sub", reflected=True)

    def __mul__(self, other: Any) -> Any:
        return self._calculate(other, "mul")

    def __rmul__(self, other: Any) -> Any:
        return self._calculate(other, "mul", reflected=True)

    def __truediv__(self, other: Any) -> Any:
        return self._calculate(other, "truediv")

    def __rtruediv__(self, other: Any) -> Any:
        return self._calculate(other, "truediv", reflected=True)

    def __floordiv__(self, other: Any) -> Any:
        """The integer part of the quotient, towards zero, as Decimal's ``//`` gives."""
        return self._calculate(other, "floordiv")

    def __rfloordiv__(self, other: Any) -> Any:
        return self._calculate(other, "floordiv", reflected=True)

    def __mod__(self, other: Any) -> Any:
        """What ``//`` leaves, with the sign of the dividend, as Decimal's ``%`` gives."""
        return self._calculate(other, "mod")

    def __rmod__(self, other: Any) -> Any:
        return self._calculate(other, "mod", reflected=True)

    def __divmod__(self, other: Any) -> Any:
        quotient = self.__floordiv__(other)
        return NotImplemented if quotient is NotImplemented else (quotient, self.__mod__(other))

    def __rdivmod__(self, other: Any) -> Any:
        quotient = self.__rfloordiv__(other)
        return NotImplemented if quotient is NotImplemented else (quotient, self.__rmod__(other))

    def __pow__(self, other: Any) -> Any:
        return self._raise_to(other)

    def __rpow__(self, other: Any) -> Any:
        return self._raise_to(other, reflected=True)

    def __neg__(self) -> Self:
        return self._of(int128.negative(self._units), self.isna())

    def __pos__(self) -> Self:
        return self.copy()

    def __abs__(self) -> Self:
        return self._of(int128.absolute(self._units), self.isna())

    def round(self, decimals: int = 0, *args: Any, **kwargs: Any) -> Self:
        """Rounded half-even to `decimals` places; negative ones round to tens, hundreds …"""
        return self._of(wide.round_to(self._units, decimals), self.isna())

    # ---- comparison

    def _compare(self, other: Any, op: Callable[[Any, Any], Any]) -> Any:
        """A nullable boolean array; floats are compared by their exact value."""
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        if isinstance(other, np.ndarray) and other.ndim == 0:
            other = other.item()
        if is_missing(other):
            return _boolean(np.zeros(len(self), bool), np.ones(len(self), bool))
        if is_number(other) or isinstance(other, float | np.floating):
            return _boolean(op(_signs_against(self._units, other), 0), self.isna())
        if not pd.api.types.is_list_like(other):
            return self._compare_unlike(op, other)
        if len(other) != len(self):
            raise ValueError(f"Lengths must match: {len(self)} and {len(other)}")
        dtype = getattr(other, "dtype", None)
        if getattr(dtype, "kind", None) == "f":
            floats = np.asarray(
                other.astype(np.float64)
                if isinstance(other, np.ndarray)
                else other.to_numpy(np.float64, na_value=np.nan)
            )
            signs = _signs_against_floats(self._units, floats)
            return _boolean(op(signs, 0), self._missing | np.isnan(floats))
        try:
            units, missing = convert.from_any(other, strings=False)
        except (TypeError, ValueError, OverflowError):
            return self._compare_objects(op, other)
        return _boolean(op(_signs(self._units, units), 0), self._missing | missing)

    def _compare_unlike(self, op: Callable[[Any, Any], Any], other: object) -> Any:
        if op in {operator.eq, operator.ne}:
            return _boolean(np.full(len(self), op is operator.ne), self.isna())
        raise TypeError(f"a decimal column has no order with {type(other).__name__} {other!r}")

    def _compare_objects(self, op: Callable[[Any, Any], Any], other: Any) -> Any:
        """Against values that are no decimals of 18 places, one Python object at a time."""
        theirs = np.empty(len(self), object)
        theirs[:] = list(other)
        missing = self._missing | np.array([is_missing(one) for one in theirs], bool)
        values = np.zeros(len(self), bool)
        for i in np.flatnonzero(~missing):
            values[i] = bool(op(self[i], theirs[i]))
        return _boolean(values, missing)

    def __eq__(self, other: object) -> Any:
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    def __contains__(self, item: object) -> bool:
        if is_missing(item):
            return item is pd.NA and bool(self._missing.any())
        return bool((self == item).any())

    # ---- order and identity

    def argsort(
        self, *, ascending: bool = True, kind: Any = None, na_position: str = "last", **kwargs: Any
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
        self, *, encoding: str, hash_key: str, categorize: bool
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

    def sum(self, *, skipna: bool = True, min_count: int = 0, **kwargs: Any) -> Any:
        """Exact, or OverflowError."""
        units = self._present(skipna)
        if units is None or len(units) < min_count:
            return pd.NA
        return _scalar(int128.total(units))

    def prod(self, *, skipna: bool = True, min_count: int = 0, **kwargs: Any) -> Any:
        """Rounded once, half-even. Makes a Python Decimal of each value."""
        ids = np.zeros(len(self), np.intp)
        return self._one(groups.products(self._column, ids, 1, min_count=min_count, skipna=skipna))

    def mean(self, *, skipna: bool = True, **kwargs: Any) -> Any:
        """Rounded half-even at 18 decimals; exact also where the sum would not fit."""
        units = self._present(skipna)
        if units is None or not len(units):
            return pd.NA
        return _scalar(round(Fraction(int128.total(units), len(units))))

    def min(self, *, skipna: bool = True, **kwargs: Any) -> Any:
        return self._extreme(skipna, np.min)

    def max(self, *, skipna: bool = True, **kwargs: Any) -> Any:
        return self._extreme(skipna, np.max)

    def _extreme(self, skipna: bool, choose: Callable[..., Any]) -> Any:
        units = self._present(skipna)
        if units is None or not len(units):
            return pd.NA
        highs = int128.high(units)
        top = choose(highs)
        return to_scalar((int(top) << 64) | int(choose(int128.low(units)[highs == top])))

    def median(self, *, skipna: bool = True, **kwargs: Any) -> Any:
        """The middle value, or the mean of the two middle ones rounded half-even."""
        if self._present(skipna) is None:
            return pd.NA
        return self._quantile(np.array([0.5]), "linear")[0]

    def var(self, *, skipna: bool = True, ddof: int = 1, **kwargs: Any) -> Any:
        return self._statistic("var", skipna, ddof=ddof)

    def std(self, *, skipna: bool = True, ddof: int = 1, **kwargs: Any) -> Any:
        return self._statistic("std", skipna, ddof=ddof)

    def sem(self, *, skipna: bool = True, ddof: int = 1, **kwargs: Any) -> Any:
        return self._statistic("sem", skipna, ddof=ddof)

    def skew(self, *, skipna: bool = True, **kwargs: Any) -> Any:
        return self._statistic("skew", skipna)

    def kurt(self, *, skipna: bool = True, **kwargs: Any) -> Any:
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

    def any(self, *, skipna: bool = True, **kwargs: Any) -> Any:
        return self._truth("any", skipna)

    def all(self, *, skipna: bool = True, **kwargs: Any) -> Any:
        return self._truth("all", skipna)

    def _truth(self, name: str, skipna: bool) -> Any:
        answer = getattr(_boolean(self._units.any(axis=1), self.isna()), name)(skipna=skipna)
        return answer if answer is pd.NA else bool(answer)

    def count(self) -> int:
        return int((~self._missing).sum())

    def _quantile(self, qs: Floats, interpolation: str) -> Self:
        ids = np.zeros(len(self), np.intp)
        return self._of(*groups.quantiles(self._column, ids, 1, list(qs), interpolation))

    def _accumulate(self, name: str, *, skipna: bool = True, **kwargs: Any) -> Self:
        """cumsum, cummin and cummax; cumprod makes a Python Decimal of each value."""
        ids = np.zeros(len(self), np.intp)
        if name == "cumsum":
            missing = self.isna() if skipna else np.logical_or.accumulate(self._missing)
            units = self._units if skipna else _zeroed(self._units.copy(), missing)
            return self._of(_zeroed(int128.running_total(units), missing), missing)
        if name == "cumprod":
            return self._of(*groups.running_products(self._column, ids, 1, skipna=skipna))
        return self._of(*groups.by_rank(self._column, ids, 1, name, skipna=skipna))

    # ---- groups

    def _groupby_op(
        self,
        *,
        how: str,
        has_dropped_na: bool,
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
            return self._of(_zeroed(units.copy(), gone), gone)
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
        ids: Positions,
        ngroups: int,
        starts: Ints,
        ends: Ints,
    ) -> Self:
        # pandas hands over the rows group by group, but `ids` in their first order
        sorted_ids = np.repeat(np.arange(ngroups), ends - starts)
        return self._of(
            *groups.quantiles(self._column, sorted_ids, ngroups, list(qs), interpolation)
        )


_NULLABLE: dict[str, Any] = {"boolean": "boolean", "integer": "Int64", "floating": "Float64"}
_FLOAT_REDUCTIONS = {"var", "std", "sem", "skew", "kurt"}
_REDUCTIONS = _FLOAT_REDUCTIONS | {
    "sum", "prod", "mean", "median", "min", "max", "any", "all", "count",
}  # fmt: skip


def _only(item: tuple[Any, ...]) -> Any:
    """The one index in a tuple that may also hold an ellipsis."""
    parts = [part for part in item if part is not Ellipsis]
    if len(parts) > 1:
        raise IndexError("too many indices for array.")
    return parts[0] if parts else slice(None)


def _boolean(values: Bools, missing: Bools) -> Any:
    return pd.arrays.BooleanArray(np.where(missing, False, values), missing)


def _scalar(value: int) -> Decimal:
    if abs(value) >= LIMIT:
        raise int128.overflow()
    return to_scalar(value)


def _zeroed(units: Units, missing: Bools) -> Units:
    if missing.any():
        units[missing] = 0
    return units


def _divisors(units: Units, missing: Bools) -> Units:
    """The divisors, with 1 for what is missing anyway; ZeroDivisionError for any other zero."""
    zero = (units[:, 0] | units[:, 1]) == 0
    if not zero.any():
        return units
    if (zero & ~missing).any():
        raise ZeroDivisionError(
            "division of a decimal column by zero: replace the zeros with pd.NA first"
        )
    return np.where(zero[:, None], int128.from_ints([ONE]), units)


def _power(units: Units, exponent: int) -> Units:
    if exponent == 0:
        return np.repeat(int128.from_ints([ONE]), len(units), axis=0)
    if exponent < 0 and not units.any(axis=1).all():
        raise ZeroDivisionError(f"zero cannot be raised to the power {exponent}")
    if exponent == -1:
        return wide.divide(int128.from_ints([ONE]), units)
    return (
        wide.power(units, exponent) if exponent in _SMALL_POWERS else groups.powers(units, exponent)
    )


def _signs(left: Units, right: Units) -> npt.NDArray[np.int8]:
    """-1, 0 or 1 as left is less than, equal to or greater than right."""
    return int128.less(right, left).astype(np.int8) - int128.less(left, right)


def _signs_against(units: Units, number: Any) -> npt.NDArray[np.int8]:
    if isinstance(number, Decimal | float | np.floating) and not np.isfinite(float(number)):
        return np.full(len(units), -1 if number > 0 else 1, np.int8)
    top, bottom = convert.exact_ratio(number)
    whole, part = divmod(top, bottom)
    whole, part = (whole, part) if abs(whole) < LIMIT else (LIMIT if whole > 0 else -LIMIT, 0)
    signs = _signs(units, int128.from_ints([whole]))
    return np.where(signs == 0, np.int8(-1), signs) if part else signs


def _signs_against_floats(units: Units, floats: Floats) -> npt.NDArray[np.int8]:
    """Rounding to float keeps the order, so only values whose float is the other need a closer
    look, in Python integers where they are not whole multiples of 2**-18."""
    nearest = int128.to_floats(units)
    signs = np.sign(nearest - floats)
    signs[np.isnan(signs)] = 0
    for i in np.flatnonzero(nearest == floats):
        signs[i] = _signs_against(units[[i]], floats[i])[0]
    return signs.astype(np.int8)


def _is_exact(value: object) -> bool:
    """Whether a value could equal one of a decimal column."""
    if not is_number(value):
        return False
    try:
        from_scalar(value)
    except (ValueError, OverflowError):
        return False
    return True
