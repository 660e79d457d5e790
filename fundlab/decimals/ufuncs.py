"""What NumPy's functions give for decimal columns: exact results, or a refusal that says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from fundlab.decimals import int128

PANDAS_KNOWS: dict[str, set[np.ufunc]] = {
    "__call__": {
        np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.divmod,
        np.power, np.negative, np.positive, np.absolute, np.matmul,
        np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
        np.bitwise_and, np.bitwise_or, np.bitwise_xor,
    },
    "reduce": {np.add, np.multiply, np.maximum, np.minimum},
}  # fmt: skip
"""What pandas sends to operators and to reductions of the array, by the method that is called."""


def exact(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """The exact result of a function that is no operator; NotImplemented where there is none."""
    if ufunc in _OF_ONE:
        return _OF_ONE[ufunc](*inputs)
    if ufunc in _OF_TWO:
        left, right = inputs
        if not hasattr(left, "_operand"):  # the larger of two is the same from either side
            left, right = right, left
        return _chosen(left, right, *_OF_TWO[ufunc])
    return NotImplemented


def refusal(ufunc: np.ufunc, method: str) -> TypeError:
    name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    return TypeError(
        f"{name} gives no exact decimals: for floats, convert the column with astype('float64')"
    )


def _sign(column: Any) -> Any:
    signs = (column > 0).astype("Int64") - (column < 0).astype("Int64")
    return type(column)._from_sequence(signs)


def _floor(column: Any) -> Any:
    whole = column // 1
    return whole - (column < whole).astype("Int64")


def _ceil(column: Any) -> Any:
    whole = column // 1
    return whole + (column > whole).astype("Int64")


def _known(answer: bool) -> Callable[[Any], Any]:
    """The same answer for every value, missing where the value is."""
    return lambda column: pd.arrays.BooleanArray(np.full(len(column), answer), column.isna())


def _chosen(column: Any, other: Any, larger: bool, ignores_missing: bool) -> Any:
    """The larger or smaller of each two values; one that is missing wins, or is ignored."""
    operand = column._operand(other)
    if operand is None:
        return NotImplemented
    (mine, mine_gone), (theirs, theirs_gone) = column._column, operand
    second = int128.less(mine, theirs) if larger else int128.less(theirs, mine)
    gone = mine_gone | theirs_gone
    if ignores_missing:
        second = (second & ~theirs_gone) | mine_gone
        gone = mine_gone & theirs_gone
    units = np.where(second[:, None], theirs, mine)
    units[gone] = 0
    return column._of(units, gone)


_OF_ONE: dict[np.ufunc, Callable[[Any], Any]] = {
    np.sign: _sign,
    np.fabs: abs,
    np.floor: _floor,
    np.ceil: _ceil,
    np.trunc: lambda column: column // 1,
    np.rint: lambda column: column.round(),
    np.square: lambda column: column * column,
    np.reciprocal: lambda column: 1 / column,
    np.isnan: _known(False),
    np.isinf: _known(False),
    np.isfinite: _known(True),
}
_OF_TWO = {  # whether the larger, whether a missing value is ignored
    np.maximum: (True, False),
    np.minimum: (False, False),
    np.fmax: (True, True),
    np.fmin: (False, True),
}
