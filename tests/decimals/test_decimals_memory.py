"""How much operations hold at once: at most three times their operands."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fundlab.decimals import DecimalArray, kernels

ROWS = 200_000
VALUE = 17  # bytes
OPERATIONS: dict[str, tuple[Callable[[pd.DataFrame], Any], float]] = {  # and how many operands
    "add": (lambda f: f["a"] + f["b"], 2),
    "multiply": (lambda f: f["b"] * f["b"], 2),
    "divide": (lambda f: f["a"] / f["b"], 2),
    "round": (lambda f: f["a"].round(1), 1),
    "compare": (lambda f: f["a"] > f["b"], 2),
    "sort": (lambda f: f["a"].sort_values(), 1),
    "max": (lambda f: f["a"].max(), 1),
    "sum": (lambda f: f["a"].sum(), 1),
    "cumsum": (lambda f: f["a"].cumsum(), 1),
    "group sum": (lambda f: f.groupby("g")["a"].sum(), 25 / VALUE),
    "group cumsum": (lambda f: f.groupby("g")["a"].cumsum(), 25 / VALUE),
    "isin": (lambda f: f["a"].isin(f["b"]), 2),
    "unique": (lambda f: f["a"].unique(), 1),
    "to text": (lambda f: f["a"].astype(str), 1),
    "from text": (lambda f: f["text"].astype("decimal"), 1),
    "to floats": (lambda f: f["a"].astype("float64"), 1),
    "quantile": (lambda f: f["a"].quantile([0.1, 0.9]), 1),
    "describe": (lambda f: f["a"].describe(), 1),
}


@pytest.mark.thorough
def test_no_operation_holds_more_than_three_times_its_operands(
    compiled: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "library", compiled)  # without it some operations hold more
    monkeypatch.setattr(kernels, "room", np.empty)  # of one memory with all else, to be traced
    rng = np.random.default_rng(20261122)
    a, b = (DecimalArray(rng.integers(1, 10**18, ROWS)) / 10**18 * 2000 + 1 for _ in range(2))
    frame = pd.DataFrame({"a": a, "b": b, "g": rng.integers(0, 1400, ROWS)})
    frame["text"] = frame["a"].astype(str)
    times = {}
    for name, (operation, operands) in OPERATIONS.items():
        operation(frame[:100])  # what is imported and remembered on the way does not count
        arrow = pa.default_memory_pool().bytes_allocated()
        tracemalloc.start()
        result = operation(frame)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        peak += max(pa.default_memory_pool().bytes_allocated() - arrow, 0)
        times[name] = peak / (operands * VALUE * ROWS)
        del result
    times["to text"] -= 0.5  # of 18 decimals: the text alone takes twice what the values do
    assert {name: round(held, 2) for name, held in times.items() if held > 3} == {}
