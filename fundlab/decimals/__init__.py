"""An exact decimal column for pandas: money as a number column, without a rounding error.

``import fundlab`` (or this module) registers the type under the name ``decimal``:

>>> import pandas as pd
>>> import fundlab
>>> amounts = pd.Series(["1442725.09", "0.15", None], dtype="decimal")
>>> amounts.sum()
Decimal('1442725.24')

Values have 38 digits, 18 of them after the point, and are stored as an Arrow
``decimal128(38, 18)``. Sums and differences are exact or raise ``OverflowError``; products and
quotients round half-even at 18 decimals. Scalars are ``decimal.Decimal``, missing values ``pd.NA``.

Where pandas keeps an answer to its own types (``describe``, ``nlargest``, plots, Excel), importing
this module adds the one for decimal columns, or warns that this pandas has no such place: see
`fundlab.decimals.gaps`.
"""

from functools import partial

from fundlab.base import pandas_hook
from fundlab.decimals import gaps
from fundlab.decimals.array import DecimalArray, DecimalDtype, types_mapper
from fundlab.decimals.moving_windows import Rolling, rolling
from fundlab.decimals.parquet import read_parquet

__all__ = [
    "DecimalArray",
    "DecimalDtype",
    "Rolling",
    "read_parquet",
    "rolling",
    "types_mapper",
]
__dir__ = __all__.copy  # what completion offers

gaps.close(gaps.GAPS)
for module, later in gaps.ON_IMPORT.items():
    pandas_hook.when_imported(module, partial(gaps.close, later))
