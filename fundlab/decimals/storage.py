"""The memory of a decimal column: shared with views and Arrow, read and written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray
from pandas.api.indexers import check_array_indexer

from fundlab.decimals import convert, groups, int128, text
from fundlab.decimals.dtype import DecimalDtype
from fundlab.decimals.int128 import Bools, Units
from fundlab.decimals.scalars import is_missing, to_objects, to_scalar


class _Store:
    """The memory that an array shares with its views, and with Arrow until one is written to."""

    __slots__ = ("missing", "shared", "units")

    def __init__(self, units: Units, missing: Bools, shared: bool) -> None:
        self.units = units
        self.missing = missing
        self.shared = shared


class Stored(ExtensionArray):
    """An extension array over units and a mask of what is missing, both never copied needlessly."""

    _dtype = DecimalDtype()
    _readonly = False

    @classmethod
    def _of(cls, units: Units, missing: Bools) -> Self:
        self = cls.__new__(cls)
        self._hold(units, missing)
        return self

    def _hold(self, units: Units, missing: Bools) -> None:
        self._store = _Store(units, missing, not units.flags.writeable)
        self._rows: slice | None = None

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

    def _as_arrow(self) -> pa.Array:
        """The column as Arrow's decimal128(38, 18), on the same memory where that is contiguous."""
        buffers = [text.validity(self._missing), pa.py_buffer(np.ascontiguousarray(self._units))]
        return pa.Array.from_buffers(text.ARROW_TYPE, len(self), buffers)

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
        if item is None:
            raise IndexError("None is no position: a decimal column has one dimension")
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
        stop = rows.stop if rows.stop >= 0 else None
        out._rows = slice(rows.start, stop, rows.step) if rows else slice(0)
        out._readonly = self._readonly
        return out

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._readonly:
            raise ValueError("Cannot modify read-only array")
        if isinstance(key, tuple):
            key = _only(key)
        if key is None:
            raise IndexError("None is no position: a decimal column has one dimension")
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


def _only(item: tuple[Any, ...]) -> Any:
    """The one index in a tuple that may also hold an ellipsis."""
    parts = [part for part in item if part is not Ellipsis]
    if len(parts) > 1:
        raise IndexError("too many indices for array.")
    return parts[0] if parts else slice(None)
