"""The loops of ``kernels.c``, where it was compiled; where it was not, ``library`` is None.

Each function that calls one computes the same in NumPy without it, which is right but slower.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fundlab.base.compiled import load

SOURCE: Final = Path(__file__).with_name("kernels.c")
library = load(SOURCE)

ADD, SUBTRACT, MULTIPLY, DIVIDE = map(ctypes.c_int64, range(4))  # in the order of kernels.c
LONGEST: Final = 40  # characters of a value


def call(name: str, *arguments: Any) -> int:
    """What the function of that name gives for arrays, integers and None; below zero means that a
    result does not fit. Other threads run meanwhile."""
    function = getattr(library, name)
    function.restype = ctypes.c_int64
    arrays: list[Any] = []
    given: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            flags = argument.flags
            if not (flags.c_contiguous and flags.aligned):
                argument = np.require(argument, requirements=["C", "A"])
            arrays.append(argument)  # a copy must outlive the call
            given.append(ctypes.c_void_p(argument.__array_interface__["data"][0]))
        else:
            given.append(ctypes.c_int64(argument) if isinstance(argument, int) else argument)
    answer: int = function(*given)
    return answer


def of_two(name: str, left: Any, right: Any, out: Any, *before: Any) -> int:
    """`call` for each two rows; a side of one row stands beside each row of the other."""
    sides = (left, 0 if len(left) == 1 else 2, right, 0 if len(right) == 1 else 2)
    return call(name, *before, *sides, out, len(out))


def room(rows: int, kind: Any) -> Any:
    """An array to be filled, of Arrow's memory: that keeps what is freed, where large arrays of
    NumPy's come from the system each time, which must clear them first."""
    return np.frombuffer(pa.allocate_buffer(rows * np.dtype(kind).itemsize), kind)


def empty_table(count: int) -> tuple[Any, int]:
    """(places of a hash table for so many values, the logarithm of how many places there are)."""
    bits = max((count * 3 // 2).bit_length(), 12)  # of few values few collide
    return np.zeros(1 << bits, np.uint64), bits
