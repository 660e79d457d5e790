"""The pandas type `decimal` and its array."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype
from pandas.api.indexers import check_array_indexer

from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.decimals import convert, groups, int128, kernels, operators, text, wide
from fundlab.decimals.groups import PANDAS
from fundlab.decimals.int128 import (
    PRECISION,
    SCALE,
    Bools,
    Column,
    Floats,
    Ints,
    Positions,
    Units,
    cleared,
)
from fundlab.decimals.operators import boolean
from fundlab.decimals.scalars import (
    ExactDecimal,
    format_one,
    from_scalar,
    in_format,
    is_missing,
    is_number,
    parse_one,
    to_scalar,
)


@register_extension_dtype
class DecimalDtype(pd.ArrowDtype):
    """Exact decimals of 38 digits, 18 of them after the point; missing values are ``pd.NA``.

    An Arrow type of pandas, because tools that read frames as Arrow look for one: DuckDB refuses
    any other extension type (`duckdb.sql("select sum(amount) from transfers")` works so).

    >>> pd.Series(["1.10", None], dtype="decimal").sum()
    Decimal('1.1')
    """

    name = "decimal"
    type = Decimal
    kind = "O"
    na_value = pd.NA
    precision = PRECISION
    scale = SCALE
    pyarrow_dtype = AMOUNT_TYPE
    storage = "numpy"
    itemsize = AMOUNT_TYPE.byte_width
    _is_numeric = True
    _is_boolean = False
    _metadata = ()

    def __init__(self) -> None:
        """There is one such type: unlike its parent it takes no Arrow type."""

    @property
    def numpy_dtype(self) -> Any:
        """Itself: pandas looks here for the kind of numbers, and NumPy has no such type."""
        return self

    @classmethod
    def construct_from_string(cls, string: str) -> Self:
        if not isinstance(string, str):
            raise TypeError(f"'construct_from_string' expects a string, got {type(string)}")
        if string != cls.name:
            raise TypeError(f"Cannot construct a '{cls.__name__}' from '{string}'")
        return cls()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DecimalDtype) or other == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def construct_array_type(cls) -> builtins.type[DecimalArray]:
        return DecimalArray

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> DecimalArray:
        """A column of Arrow decimals, integers or text; decimal128(38, 18) without a copy."""
        return DecimalArray._of(*convert.from_arrow(array))

    def to_arrow(self) -> pa.DataType:
        """The Arrow type of the values, where Narwhals asks for it: decimal128(38, 18)."""
        return AMOUNT_TYPE

    def _get_common_dtype(self, dtypes: list[Any]) -> Any:
        """Concatenation keeps the type beside integers and Arrow decimals that fit.

        Floats and decimals have no common type, so that no float becomes money unnoticed: the
        result holds objects. What holds no value has no say, see `fundlab.decimals.gaps`.
        """
        for dtype in dtypes:
            if isinstance(dtype, pd.ArrowDtype):
                kind = dtype.pyarrow_dtype
                joins = pa.types.is_integer(kind) or pa.types.is_null(kind) or types_mapper(kind)
            else:
                joins = isinstance(dtype, np.dtype | ExtensionDtype) and dtype.kind in "iu"
            if not joins:
                return None
        return self

    def __repr__(self) -> str:
        return "DecimalDtype()"


_DECIMAL = DecimalDtype()


def types_mapper(arrow_type: pa.DataType) -> DecimalDtype | None:
    """For ``pyarrow.Table.to_pandas(types_mapper=...)``: Arrow decimals to the type `decimal`.

    Every Arrow decimal maps whose values all fit, with at most 20 digits before the point and 18
    after it; other types are left to Arrow.

    >>> table.to_pandas(types_mapper=fundlab.decimals.types_mapper)  # doctest: +SKIP
    """
    fits = (
        pa.types.is_decimal(arrow_type)
        and 0 <= arrow_type.scale <= SCALE
        and arrow_type.precision - arrow_type.scale <= PRECISION - SCALE
    )
    return _DECIMAL if fits else None


@dataclass(slots=True)
class _Store:
    """The memory that an array shares with its views, and with Arrow until one is written to."""

    units: Units
    missing: Bools
    shared: bool
    written: bool = False  # by who assigned a value; from then on `whole` is not looked at
    whole: bool | None = None  # whether no value is missing, once somebody asked


def _operators(name: str) -> tuple[Any, Any]:
    """The methods of ``column + other`` and of ``other + column``, or of another operation."""

    def method(self: DecimalArray, other: Any) -> Any:
        return self._calculate(name, other, reflected=False)

    def reflected(self: DecimalArray, other: Any) -> Any:
        return self._calculate(name, other, reflected=True)

    return method, reflected


def _comparison(op: Callable[[Any, Any], Any]) -> Any:
    def method(self: DecimalArray, other: Any) -> Any:
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        return operators.compare(self._column, other, op, self._whole)

    return method


# What a reduction gives; those not named here give decimals.
_FLOAT_REDUCTIONS = ("var", "std", "sem", "skew", "kurt")
_REDUCED: dict[str, Any] = {
    "any": "boolean",
    "all": "boolean",
    "count": "Int64",
    "argmin": "Int64",
    "argmax": "Int64",
    **dict.fromkeys(_FLOAT_REDUCTIONS, "Float64"),
}
_REDUCTIONS = {"sum", "prod", "mean", "median", "min", "max", *_REDUCED}


class DecimalArray(ExtensionArray):
    """Exact decimals: 16 bytes a value in Arrow's decimal128(38, 18) layout, and a byte for NA.

    Made from Decimals, integers, text such as ``"-1442725.09"``, missing values and Arrow
    decimals; from floats by `from_float` only. ``+``, ``-`` and sums are exact or raise
    OverflowError; ``*`` and ``/`` round half-even at 18 decimals; division by zero raises.
    Text of an amount may be written into a column (``fillna("0")``) and compared with one
    (``== "1.10"``, ``isin(["1.10"])``). Columns of floats stay objects in a
    concatenation, unless they hold no value.

    >>> pd.array(["1.10", None, "0.05"], dtype="decimal") * 3
    <DecimalArray>
    [3.3, <NA>, 0.15]
    Length: 3, dtype: decimal
    """

    __array_priority__ = 1000
    __pandas_priority__ = 1500  # integers of other extension types, Arrow's too, leave `+` to us

    dtype = _DECIMAL
    _readonly = False

    # ---- making

    def __init__(self, values: Any, copy: bool = False) -> None:
        if isinstance(values, pd.Series | pd.Index):
            values = values.array
        units, missing = convert.from_any(values)
        if copy or isinstance(values, DecimalArray):
            units, missing = units.copy(), missing.copy()
        self._store = _Store(units, missing, shared=not units.flags.writeable)
        self._rows: slice | None = None

    @classmethod
    def _of(cls, units: Units, missing: Bools) -> Self:
        self = cls.__new__(cls)
        self._store = _Store(units, missing, shared=not units.flags.writeable)
        self._rows = None
        return self

    @classmethod
    def from_float(cls, values: Any, decimals: int = SCALE) -> Self:
        """Floats, each the exact binary value rounded half-even at `decimals` places (0 to 18).

        The float 0.1 is 0.1000000000000000055…: ``decimals=2`` makes it 0.1, the default 18 makes
        it 0.100000000000000006. NaN becomes NA. Raises OverflowError beyond 20 digits before the
        point.

        >>> fl.decimals.DecimalArray.from_float([0.1, 2.675], decimals=2).tolist()
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
            nullable: dict[str, Any] = {
                "boolean": "boolean", "integer": "Int64", "floating": "Float64"}  # fmt: skip
            kind = nullable.get(pd.api.types.infer_dtype(result, skipna=True))
            return result if kind is None else pd.array(result, dtype=kind)
        return result

    @classmethod
    def _from_factorized(cls, values: Any, original: Self) -> Self:
        raise NotImplementedError("factorize is overridden")  # pragma: no cover

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[Self]) -> Self:
        units = np.concatenate([one._units for one in to_concat])
        return cls._of(units, np.concatenate([one._missing for one in to_concat]))

    # ---- memory

    @property
    def _units(self) -> Units:
        return self._column[0]

    @property
    def _missing(self) -> Bools:
        return self._column[1]

    @property
    def _column(self) -> Column:
        units, missing = self._store.units, self._store.missing
        return (units, missing) if self._rows is None else (units[self._rows], missing[self._rows])

    @property
    def _whole(self) -> bool:
        """Whether no value is missing: a column that nobody writes to is searched once."""
        store = self._store
        if not store.written:
            if store.whole is None:
                store.whole = not store.missing.any()
            if store.whole:
                return True
        return not self._missing.any()

    @property
    def _pa_array(self) -> pa.ChunkedArray:
        """Where pandas looks for the values of an Arrow type."""
        return pa.chunked_array([self.__arrow_array__()])

    @property
    def nbytes(self) -> int:
        return self._units.nbytes + self._missing.nbytes

    def __len__(self) -> int:
        return len(self._column[1])

    def isna(self) -> Bools:
        return self._missing.copy()

    def copy(self) -> Self:
        return self._of(self._units.copy(), self._missing.copy())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of, (np.ascontiguousarray(self._units), self._missing.copy())

    def __getitem__(self, item: Any) -> Any:
        if type(item) is int and self._rows is None:  # one cell, as often as a row is looked at
            (word, top), gone = self._store.units[item].tolist(), self._store.missing[item]
            signed = top - (1 << 64) if top >> 63 else top
            return pd.NA if gone else ExactDecimal(format_one((signed << 64) | word))
        item = check_array_indexer(self, _one_dimension(item))
        if isinstance(item, slice):
            # A view: it shares the store, so that writing to one is seen by the other.
            rows = range(len(self._store.missing))
            if self._rows is not None:
                rows = rows[self._rows]
            rows = rows[item]
            view = type(self).__new__(type(self))
            view._store, view._readonly = self._store, self._readonly
            stop = rows.stop if rows.stop >= 0 else None
            view._rows = slice(rows.start, stop, rows.step) if rows else slice(0)
            return view
        if isinstance(item, np.ndarray):
            if item.dtype == bool:
                return self._of(self._units[item], self._missing[item])
            return self._of(int128.take(self._units, item), self._missing[item])
        if self._missing[item]:
            return pd.NA
        return to_scalar(int128.to_ints(self._units[[item]])[0])

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._readonly:
            raise ValueError("Cannot modify read-only array")
        key = check_array_indexer(self, _one_dimension(key))
        units: Any
        missing: Any
        if pd.api.types.is_list_like(value):
            units, missing = convert.from_any(value)
        elif is_missing(value):
            units, missing = np.uint64(0), True
        else:
            (units,), (missing,) = convert.from_any([value])
        self._store.written = True  # first: others may be asking whether it is whole
        if self._store.shared:
            self._store.units = self._store.units.copy()
            self._store.missing = self._store.missing.copy()
            self._store.shared = False
        self._units[key] = units
        self._missing[key] = missing

    def __iter__(self) -> Iterator[Any]:
        return iter(text.to_objects(*self._column, pd.NA))

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> Self:
        positions = np.asarray(indices, dtype=np.intp)
        if len(self) == 0 and (positions >= 0).any():
            raise IndexError("cannot do a non-empty take from an empty axes.")
        if not allow_fill:
            return self._of(int128.take(self._units, positions), self._missing.take(positions))
        if (positions < -1).any():
            raise ValueError("indices must be -1 or positions in the array when allow_fill=True")
        if len(positions) and positions.max() >= len(self) > 0:
            raise IndexError(f"position {positions.max()} is out of bounds for {len(self)} values")
        filled = positions == -1
        if len(self) == 0:
            out = self._of(np.zeros((len(positions), 2), np.uint64), np.ones(len(positions), bool))
        else:
            positions = np.where(filled, 0, positions) if filled.any() else positions
            out = self._of(int128.take(self._units, positions), self._missing.take(positions))
        if filled.any():
            out[filled] = pd.NA if is_missing(fill_value) else fill_value
        return out

    # ---- to other types

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        """An Arrow array of `type`, by default decimal128(38, 18).

        That shares the values, and a later write to the column copies them first. Text has no
        padding zeros, floats are the nearest. Raises OverflowError for a decimal type with too
        few digits before the point, pyarrow.ArrowInvalid where decimals would be lost.
        """
        if type is None or type == AMOUNT_TYPE:
            units, missing = self._column
            if units.flags.c_contiguous:
                self._store.shared = True
            return int128.to_arrow(units, missing)
        if convert.is_text(type):
            return text.to_text(*self._column).cast(type)
        if pa.types.is_floating(type):
            return pa.array(self.to_numpy(np.float64), mask=self._missing).cast(type)
        if pa.types.is_boolean(type):
            return pa.array(int128.nonzero(self._units), mask=self._missing)
        array = int128.to_arrow(*self._column)
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
        """An object array of Decimals, or the nearest floats, integers, truth values or text.

        Missing values become `na_value`: by default NaN, as for pandas' own nullable numbers, and
        ``pd.NA`` where `dtype` is object. Other types have none: raises ValueError unless
        `na_value` is given. Integers must be whole and fit, or ValueError and OverflowError are
        raised; TypeError for types that are neither numbers nor text.
        """
        kind = np.dtype(object if dtype is None else dtype)
        if kind.kind not in "fcOiubUS":
            raise TypeError(f"cannot make {kind} of a decimal column")
        given = na_value is not pd.api.extensions.no_default
        units, missing = self._column
        if kind.kind == "O":
            default = np.nan if dtype is None else pd.NA
            return text.to_objects(units, missing, na_value if given else default)
        if kind.kind in "fc":
            floats = int128.to_floats(units)
            floats[missing] = na_value if given and not is_missing(na_value) else np.nan
            return floats.astype(kind, copy=False)
        if missing.any() and not given:
            raise ValueError(f"cannot make {kind} of missing values: fill them, or pass na_value=")
        out: npt.NDArray[Any]
        if kind.kind in "iu":
            out = wide.whole_numbers(units, kind)
        elif kind.kind == "b":
            out = int128.nonzero(units)
        else:
            out = np.asarray(text.to_text(units, missing).to_pylist(), dtype=kind)
        if missing.any():
            out[missing] = na_value
        return out

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Exact to text, object, integers and Arrow decimals; the nearest float to floats.

        Raises ValueError where integers would lose decimals or have to hold a missing value,
        OverflowError where a value does not fit, TypeError for types that are neither numbers nor
        text.
        """
        dtype = pd.api.types.pandas_dtype(dtype)
        if isinstance(dtype, DecimalDtype):
            return self.copy() if copy else self
        if isinstance(dtype, np.dtype):
            if PANDAS < (3, 0) and dtype == np.dtype(
                str
            ):  # its text: objects, of which some are missing
                texts = text.to_text(*self._column).to_pylist()
                return np.array([pd.NA if one is None else one for one in texts], object)
            return self.to_numpy(dtype)
        if isinstance(dtype, pd.BooleanDtype):
            return boolean(int128.nonzero(self._units), self.isna())
        made = dtype.construct_array_type()
        if isinstance(dtype, pd.StringDtype):
            return made._from_sequence(text.to_text(*self._column), dtype=dtype)
        if isinstance(dtype, pd.ArrowDtype):
            return made._from_sequence(self.__arrow_array__(dtype.pyarrow_dtype), dtype=dtype)
        kind = getattr(dtype, "numpy_dtype", None)
        if kind is not None and kind.kind in "iuf":
            return made(self.to_numpy(kind, na_value=0), self.isna())
        return super().astype(dtype, copy=copy)

    def _values_for_json(self) -> npt.NDArray[np.object_]:
        """Text, so that no reader turns the amounts into floats."""
        out = np.asarray(text.to_text(*self._column).to_pylist(), dtype=object)
        return cast("npt.NDArray[np.object_]", out)

    def tolist(self) -> list[Any]:
        return cast("list[Any]", text.to_objects(*self._column, pd.NA).tolist())

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str]:
        """All digits, unless ``display.float_format`` or ``display.precision`` ask for others."""
        shown: Any = pd.get_option("display.float_format") if boxed else None
        precision: Any = pd.get_option("display.precision") if boxed else 6
        if shown is None and precision != 6:  # as pandas has it if nobody asks
            shown = in_format(f".{precision}f")
        if shown is None:
            return str
        return lambda value: shown(value) if isinstance(value, Decimal) else str(value)

    def interpolate(self, *, method: Any, **_: Any) -> Self:
        raise TypeError(
            f"interpolate(method={method!r}) gives no exact decimals: fill with ffill() or "
            "fillna(), or convert the column with astype('float64') first"
        )

    # ---- operators, as Python's Decimal has them, but exact

    def _calculate(self, name: str, other: Any, reflected: bool) -> Any:
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        if name == "pow":
            result = operators.power(self._column, other, reflected)
        else:
            result = operators.calculate(name, self._column, other, reflected)
        return NotImplemented if result is None else self._of(*result)

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("sub")
    __mul__, __rmul__ = _operators("mul")
    __truediv__, __rtruediv__ = _operators("truediv")
    # the integer part of the quotient, towards zero; and what it leaves, with the dividend's sign
    __floordiv__, __rfloordiv__ = _operators("floordiv")
    __mod__, __rmod__ = _operators("mod")
    __pow__, __rpow__ = _operators("pow")

    def __divmod__(self, other: Any) -> Any:
        quotient = self.__floordiv__(other)
        return NotImplemented if quotient is NotImplemented else (quotient, self.__mod__(other))

    def __rdivmod__(self, other: Any) -> Any:
        quotient = self.__rfloordiv__(other)
        return NotImplemented if quotient is NotImplemented else (quotient, self.__rmod__(other))

    def __neg__(self) -> Self:
        return self._of(int128.negative(self._units), self.isna())

    def __pos__(self) -> Self:
        return self.copy()

    def __abs__(self) -> Self:
        return self._of(int128.absolute(self._units), self.isna())

    def round(self, decimals: int = 0, *_: Any, **__: Any) -> Self:
        """Rounded half-even to `decimals` places; negative ones round to tens, hundreds …

        Raises TypeError for `decimals` that are not a whole number.
        """
        return self._of(wide.round_to(self._units, convert.places(decimals)), self.isna())

    def __round__(self, decimals: int = 0) -> Self:
        return self.round(decimals)

    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)
    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)

    def __contains__(self, item: object) -> bool:
        if is_missing(item):
            return item is pd.NA and bool(self._missing.any())
        return bool((self == item).any())

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Exact, or TypeError: NumPy itself would round Decimals at 28 digits, silently."""
        if any(isinstance(one, pd.Series | pd.Index | pd.DataFrame) for one in inputs):
            return NotImplemented
        if method == "__call__" and not kwargs:
            if ufunc in operators.OF_ONE:
                return operators.OF_ONE[ufunc](*inputs)
            if ufunc in operators.OF_TWO:  # the larger of two is the same from either side
                other = inputs[1] if inputs[0] is self else inputs[0]
                result = operators.larger_or_smaller(ufunc, self._column, other)
                return NotImplemented if result is None else self._of(*result)
        if "out" not in kwargs and ufunc not in operators.PANDAS_KNOWS.get(method, set()):
            raise operators.refusal(ufunc, method)
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """``np.dot``, behind ``Series.dot`` and ``@``, exactly; others as if this were not here."""
        if func is not np.dot or len(args) != 2 or kwargs:
            return func._implementation(*args, **kwargs)

        def scalars(units: Any) -> Any:
            if isinstance(units, list):
                return np.array([scalars(one) for one in units], object)
            return pd.NA if units is None else to_scalar(units)

        return scalars(operators.dot(*args))

    # ---- order and identity: missing values sort to an end and equal each other

    def argsort(
        self,
        *,
        ascending: bool = True,
        kind: Any = None,  # noqa: ARG002 - always stable
        na_position: str = "last",
        **_: Any,
    ) -> Positions:
        gone = np.flatnonzero(self._missing)
        if ascending and not len(gone):
            return int128.order(self._units)
        rows = np.flatnonzero(~self._missing)
        if not ascending:
            rows = rows[::-1]
        ordered = rows[int128.order(int128.take(self._units, rows))]
        if not ascending:
            ordered = ordered[::-1]
        return np.concatenate([gone, ordered] if na_position == "first" else [ordered, gone])

    def _values_for_argsort(self) -> Ints:
        return int128.ranks(self._units)[0]

    def _rank(self, *, axis: int = 0, **kwargs: Any) -> Any:  # noqa: ARG002 - there is one
        """pandas 2 would rank what stands in the place of missing values."""
        ranks = pd.Series(self._values_for_argsort()).astype("float64")
        return ranks.mask(self._missing).rank(**kwargs).to_numpy()

    def _values_for_factorize(self) -> tuple[npt.NDArray[np.complex128], Any]:
        """Complex numbers that stand for the values one to one and in order, for joins."""
        keys = int128.sort_keys(self._units)
        keys[self._missing] = complex(np.nan, np.nan)
        return keys, complex(np.nan, np.nan)

    def factorize(self, use_na_sentinel: bool = True) -> tuple[Positions, Self]:
        codes, column = text.distinct(*self._column, kept=not use_na_sentinel)
        return codes, self._of(*column)

    def unique(self) -> Self:
        return self.factorize(use_na_sentinel=False)[1]

    def duplicated(self, keep: Literal["first", "last", False] = "first") -> Bools:
        codes, _ = self.factorize()
        return pd.Series(codes).duplicated(keep=keep).to_numpy()

    def isin(self, values: Any) -> Bools:
        """Which values equal one of `values`, as ``==`` finds them: 3 equals 3.0, 0.1 no float.

        Text of an amount stands for the amount. Looks at one Python object at a time where `values`
        holds floats or anything else than amounts.
        """
        try:
            units, missing = convert.from_any(values, strings=True)
        except (TypeError, ValueError, OverflowError):
            # of any values, those that the column can hold exactly
            exactly: list[int] = []
            for candidate in values:
                exact = (
                    Decimal.from_float(float(candidate))
                    if isinstance(candidate, float | np.floating)
                    else candidate
                )
                written = isinstance(candidate, str)
                if written or (is_number(exact) and not is_missing(exact)):
                    try:
                        exactly.append(parse_one(candidate, 0) if written else from_scalar(exact))
                    except (ValueError, OverflowError):
                        continue
            units, missing = int128.from_ints(exactly), np.zeros(len(exactly), bool)
            some_missing = any(is_missing(candidate) for candidate in values)
        else:
            some_missing = bool(missing.any())
        own, gone = self._column
        if kernels.library and not len(units) >> 32:
            units, inside = units[~missing], np.empty(len(own), bool)
            places = kernels.empty_table(len(units))
            kernels.call("among", own, len(own), units, len(units), *places, inside)
        else:
            values, ours = int128.to_arrow(units, missing), int128.to_arrow(own, gone)
            members = pc.is_in(ours, value_set=values, skip_nulls=True)
            inside = members.to_numpy(zero_copy_only=False).copy()
        inside[gone] = some_missing
        return inside

    def value_counts(self, dropna: bool = True) -> pd.Series[Any]:
        codes, values = self.factorize(use_na_sentinel=dropna)
        counts = np.bincount(codes[codes >= 0], minlength=len(values)).astype(np.int64)
        index = pd.Index(values)
        numbers: Any = "int64[pyarrow]"  # as for pandas' other Arrow types
        return pd.Series(pd.array(counts, numbers), index=index, name="count", copy=False)

    def searchsorted(self, value: Any, side: Any = "left", sorter: Any = None) -> Any:
        if self._missing.any():
            raise ValueError(
                "searchsorted requires array to be sorted, which is impossible with NAs present."
            )
        scalar = not pd.api.types.is_list_like(value)
        units, missing = convert.from_any([value] if scalar else value)
        if missing.any():
            raise ValueError("cannot search for a missing value")
        positions = np.searchsorted(
            int128.sort_keys(self._units), int128.sort_keys(units), side=side, sorter=sorter
        )
        return positions[0] if scalar else positions

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

    # ---- reductions and running results: exact or OverflowError; var, std, sem, skew, kurt floats

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
        if name in _REDUCED:
            return pd.array([result], dtype=_REDUCED[name])
        return self._of(*convert.from_any([result]))

    def _present(self, skipna: bool) -> Units | None:
        """The values that count, or None where a missing one makes the result missing."""
        if self._whole:
            return self._units
        return self._units[~self._missing] if skipna else None

    @property
    def _all_rows(self) -> Positions:
        """All rows as the one group of number 0."""
        return np.zeros(len(self), np.intp)

    def sum(self, *, skipna: bool = True, min_count: int = 0, **_: Any) -> Any:
        """Exact, or OverflowError."""
        units = self._present(skipna)
        if units is None or len(units) < min_count:
            return pd.NA
        return to_scalar(int128.total(units))

    def prod(self, *, skipna: bool = True, min_count: int = 0, **_: Any) -> Any:
        """Rounded once, half-even. Makes a Python Decimal of each value."""
        column = groups.products(
            self._column, self._all_rows, 1, min_count=min_count, skipna=skipna
        )
        return self._of(*column)[0]

    def mean(self, *, skipna: bool = True, **_: Any) -> Any:
        """Rounded half-even at 18 decimals; exact also where the sum would not fit."""
        units = self._present(skipna)
        if units is None or not len(units):
            return pd.NA
        return to_scalar(round(Fraction(int128.total(units), len(units))))

    def min(self, *, skipna: bool = True, **_: Any) -> Any:
        return self._extreme(skipna, largest=False)

    def max(self, *, skipna: bool = True, **_: Any) -> Any:
        return self._extreme(skipna, largest=True)

    def _extreme(self, skipna: bool, largest: bool) -> Any:
        units = self._present(skipna)
        if units is None or not len(units):
            return pd.NA
        return to_scalar(int128.extreme(units, largest))

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
        answer = getattr(self.astype("boolean"), name)(skipna=skipna)
        return answer if answer is pd.NA else bool(answer)

    def count(self) -> int:
        return int((~self._missing).sum())

    def _quantile(self, qs: Floats, interpolation: str) -> Self:
        return self._of(*groups.quantiles(self._column, self._all_rows, 1, qs, interpolation))

    def _accumulate(self, name: str, *, skipna: bool = True, **_: Any) -> Self:
        """cumsum, cummin and cummax; cumprod makes a Python Decimal of each value."""
        if name == "cumsum":
            missing = self.isna() if skipna else np.logical_or.accumulate(self._missing)
            units, _gone = cleared(*self._column) if skipna else cleared(self._units, missing)
            return self._of(*cleared(int128.running_total(units), missing))
        if name == "cumprod":
            return self._of(
                *groups.running_products(self._column, self._all_rows, 1, skipna=skipna)
            )
        return self._of(*groups.by_rank(self._column, self._all_rows, 1, name, skipna=skipna))

    def _groupby_op(
        self,
        *,
        how: str,
        has_dropped_na: bool,  # noqa: ARG002 - `ids` say it too
        min_count: int,
        ngroups: int,
        ids: Positions,
        **kwargs: Any,
    ) -> Any:
        column, count = self._column, ngroups
        skipna = kwargs.setdefault("skipna", True)
        match how:
            case "sum":
                return self._of(
                    *groups.sums(column, ids, count, min_count=min_count, skipna=skipna)
                )
            case "prod":
                return self._of(
                    *groups.products(column, ids, count, min_count=min_count, skipna=skipna)
                )
            case "mean":
                return self._of(*groups.means(column, ids, count, skipna=skipna))
            case "median":
                return self._of(*groups.medians(column, ids, count, skipna=skipna))
            case "cumsum":
                return self._of(*groups.running_sums(column, ids, count, skipna=skipna))
            case "cumprod":
                return self._of(*groups.running_products(column, ids, count, skipna=skipna))
            case "min" | "max":
                return self._of(
                    *groups.by_rank(column, ids, count, how, min_count=min_count, **kwargs)
                )
            case "cummin" | "cummax":
                return self._of(*groups.by_rank(column, ids, count, how, **kwargs))
            case "idxmin" | "idxmax":
                return groups.by_rank(column, ids, count, how, **kwargs)
            case "rank":
                del kwargs["skipna"]
                return groups.by_rank(column, ids, count, how, **kwargs)
            case "first" | "last":
                ends = groups.ends(
                    self._missing, ids, count, how, min_count=min_count, skipna=skipna
                )
                return self.take(ends, allow_fill=True)
            case "any" | "all":
                return groups.truths(column, ids, count, how, **kwargs)
            case _ if how in _FLOAT_REDUCTIONS:
                return groups.statistics(column, ids, count, how, **kwargs)
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
        return self._of(*groups.quantiles(self._column, sorted_ids, ngroups, qs, interpolation))


def _one_dimension(item: Any) -> Any:
    """An index of one dimension: also the one in a tuple that may hold an ellipsis beside it."""
    if isinstance(item, tuple):
        parts = [part for part in item if part is not Ellipsis]
        if len(parts) > 1:
            raise IndexError("too many indices for array.")
        item = parts[0] if parts else slice(None)
    if item is None:
        raise IndexError("None is not a position: a decimal column has one dimension")
    return item
