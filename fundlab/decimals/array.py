"""The pandas array of a decimal column: making it, and turning it into other types."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from fundlab.decimals import convert, int128, text, wide
from fundlab.decimals.dtype import DecimalDtype
from fundlab.decimals.int128 import SCALE
from fundlab.decimals.operations import boolean
from fundlab.decimals.reductions import Reduced
from fundlab.decimals.scalars import is_missing, to_objects
from fundlab.decimals.storage import Stored

_NULLABLE: dict[str, Any] = {"boolean": "boolean", "integer": "Int64", "floating": "Float64"}


class DecimalArray(Reduced):
    """Exact decimals: 16 bytes a value in Arrow's decimal128(38, 18) layout, and a byte for NA.

    Made from Decimals, integers, text such as ``"-1442725.09"``, missing values and Arrow
    decimals; from floats by `from_float` only. ``+``, ``-`` and sums are exact or raise
    OverflowError; ``*`` and ``/`` round half-even at 18 decimals; division by zero raises.
    Text may be written into a column (``fillna("0")``), but equals no value (``== "1.1"`` and
    ``isin(["1.1"])`` are False), as it equals no Decimal. Columns of floats stay objects in a
    concatenation, unless they hold no value.

    >>> pd.array(["1.10", None, "0.05"], dtype="decimal") * 3
    <DecimalArray>
    [3.3, <NA>, 0.15]
    Length: 3, dtype: decimal
    """

    def __init__(self, values: Any, copy: bool = False) -> None:
        if isinstance(values, pd.Series | pd.Index):
            values = values.array
        units, missing = convert.from_any(values)
        if copy or isinstance(values, Stored):
            units, missing = units.copy(), missing.copy()
        self._hold(units, missing)

    # ---- making

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
            kind = _NULLABLE.get(pd.api.types.infer_dtype(result, skipna=True))
            return result if kind is None else pd.array(result, dtype=kind)
        return result

    @classmethod
    def _from_factorized(cls, values: Any, original: Self) -> Self:
        raise NotImplementedError("factorize is overridden")  # pragma: no cover

    # ---- to other types

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        """An Arrow array of `type`, by default decimal128(38, 18).

        That shares the values, and a later write to the column copies them first. Text has no
        padding zeros, floats are the nearest. Raises OverflowError for a decimal type with too
        few digits before the point, pyarrow.ArrowInvalid where decimals would be lost.
        """
        if type is None or type == text.ARROW_TYPE:
            if self._units.flags.c_contiguous:
                self._store.shared = True
            return self._as_arrow()
        if (
            pa.types.is_string(type)
            or pa.types.is_large_string(type)
            or pa.types.is_string_view(type)
        ):
            return text.to_text(*self._column).cast(type)
        if pa.types.is_floating(type):
            return pa.array(self.to_numpy(np.float64), mask=self._missing).cast(type)
        if pa.types.is_boolean(type):
            return pa.array(int128.nonzero(self._units), mask=self._missing)
        array = self._as_arrow()
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
        raised; TypeError for types that are no numbers or text.
        """
        kind = np.dtype(object if dtype is None else dtype)
        if kind.kind not in "fcOiubUS":
            raise TypeError(f"cannot make {kind} of a decimal column")
        given = na_value is not pd.api.extensions.no_default
        missing = self._missing
        if kind.kind == "O":
            default = np.nan if dtype is None else pd.NA
            return to_objects(*self._column, na_value if given else default)
        if kind.kind in "fc":
            out = int128.to_floats(self._units)
            out[missing] = na_value if given and not is_missing(na_value) else np.nan
            return out.astype(kind, copy=False)
        if missing.any() and not given:
            raise ValueError(f"cannot make {kind} of missing values: fill them, or pass na_value=")
        out = self._without_missing(kind)
        if missing.any():
            out[missing] = na_value
        return out

    def _without_missing(self, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        if kind.kind in "iu":
            return wide.whole_numbers(self._units, kind)
        if kind.kind == "b":
            return cast("npt.NDArray[Any]", int128.nonzero(self._units))
        return np.asarray(text.to_text(*self._column).to_pylist(), dtype=kind)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Exact to text, object, integers and Arrow decimals; the nearest float to floats.

        Raises ValueError where integers would lose decimals or have to hold a missing value,
        OverflowError where a value does not fit, TypeError for types that are no numbers or text.
        """
        dtype = pd.api.types.pandas_dtype(dtype)
        if isinstance(dtype, DecimalDtype):
            return self.copy() if copy else self
        if isinstance(dtype, np.dtype):
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
        return cast("list[Any]", to_objects(*self._column, pd.NA).tolist())

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str]:  # noqa: ARG002 - pandas' signature
        return str
