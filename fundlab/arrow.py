"""What every room shares of Arrow: the type of amounts, and columns as NumPy's arrays.

Arrow imports pandas where it is given a value of Python's without a type, groups a table, or makes
a column an array of NumPy's: half a second and 60 MB of which a sync has no use. So what a sync
does names the type of each value (``pa.scalar(0, pa.int64())``) and takes :func:`numbers`. See
`fundlab.arrival` for Arrow's other question about pandas.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from fundlab.exact import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS

AMOUNT_TYPE: Final = pa.decimal128(MAX_INTEGER_DIGITS + MAX_FRACTION_DIGITS, MAX_FRACTION_DIGITS)


def numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """The integers, moments (nanoseconds) or flags of a column without nulls. Not to be written
    to: they may be those of the column."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pa.types.is_boolean(column.type):
        return np.from_dlpack(column.cast(pa.uint8())).view(bool)
    return np.from_dlpack(column.view(pa.int64()) if pa.types.is_temporal(column.type) else column)
