"""The pandas type `decimal`."""

from __future__ import annotations

import builtins
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionDtype, register_extension_dtype

from fundlab.decimals.int128 import PRECISION, SCALE
from fundlab.decimals.text import ARROW_TYPE

if TYPE_CHECKING:
    from fundlab.decimals.array import DecimalArray


@register_extension_dtype
class DecimalDtype(ExtensionDtype):
    """Exact decimals of 38 digits, 18 of them after the point; missing values are ``pd.NA``.

    >>> pd.Series(["1.10", None], dtype="decimal").sum()
    Decimal('1.1')
    """

    name = "decimal"
    type = Decimal
    kind = "O"
    na_value = pd.NA
    precision = PRECISION
    scale = SCALE
    _is_numeric = True

    @classmethod
    def construct_array_type(cls) -> builtins.type[DecimalArray]:
        from fundlab.decimals.array import DecimalArray

        return DecimalArray

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> DecimalArray:
        """A column of Arrow decimals, integers or text; decimal128(38, 18) without a copy."""
        from fundlab.decimals.array import DecimalArray

        return DecimalArray.from_arrow(array)

    def to_arrow(self) -> pa.DataType:
        """The Arrow type of the values, where Narwhals asks for it: decimal128(38, 18)."""
        return ARROW_TYPE

    def _get_common_dtype(self, dtypes: list[Any]) -> Any:
        """Concatenation keeps the type beside integers and Arrow decimals that fit.

        Floats and decimals have no common type, so that no float becomes money unnoticed: the
        result holds objects. What holds no value has no say, see `fundlab.decimals.gaps`.
        """
        return self if all(_joins(dtype) for dtype in dtypes) else None

    def __repr__(self) -> str:
        return "DecimalDtype()"


def types_mapper(arrow_type: pa.DataType) -> DecimalDtype | None:
    """For ``pyarrow.Table.to_pandas(types_mapper=...)``: Arrow decimals to the type `decimal`.

    Every Arrow decimal maps whose values all fit, with at most 20 digits before the point and 18
    after it; other types are left to Arrow.

    >>> table.to_pandas(types_mapper=fundlab.decimals.types_mapper)  # doctest: +SKIP
    """
    return DecimalDtype() if _fits(arrow_type) else None


def _fits(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_decimal(arrow_type)
        and 0 <= arrow_type.scale <= SCALE
        and arrow_type.precision - arrow_type.scale <= PRECISION - SCALE
    )


def _joins(dtype: Any) -> bool:
    if isinstance(dtype, DecimalDtype):
        return True
    if isinstance(dtype, pd.ArrowDtype):
        kind = dtype.pyarrow_dtype
        return _fits(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)
    return isinstance(dtype, np.dtype | ExtensionDtype) and dtype.kind in "iu"
