"""The compiled loops give what NumPy gives without them: every result, and every error's text."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from decimal_laws import columns, decimals, units
from hypothesis import given, settings
from hypothesis import strategies as st

from fundlab.base.compiled import compile_source, load
from fundlab.decimals import DecimalArray, int128, kernels
from fundlab.decimals.scalars import format_one

OF_TWO = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
OF_ONE: list[Callable[[Any], Any]] = [
    operator.neg, abs, pd.Series.min, pd.Series.max, pd.Series.sum, pd.Series.mean, pd.Series.std,
    pd.Series.cumsum, pd.Series.unique, pd.Series.duplicated, pd.Series.value_counts,
    pd.Series.tolist, pd.Series.rank, pd.Series.median,
    lambda s: s.sort_values(), lambda s: s.sort_values(ascending=False, na_position="first"),
    lambda s: s.factorize(), lambda s: s.factorize(use_na_sentinel=False), lambda s: s.astype(str),
    lambda s: s.astype("float64"), lambda s: s.sum(skipna=False), lambda s: s.cumsum(skipna=False),
    lambda s: s.groupby([i % 3 for i in range(len(s))]).sum(),
    lambda s: s.groupby([[None, "a", "b"][i % 3] for i in range(len(s))]).mean(),
    *(lambda s, n=n: s.round(n) for n in (-21, -20, -19, -1, 0, 1, 2, 17, 18)),
]  # fmt: skip

texts = st.one_of(
    units.map(format_one),
    st.from_regex(r"[+-]?[0-9]{0,22}(\.[0-9]{0,20})?", fullmatch=True),
    st.text("0123456789.+-e \x00é", max_size=24),
)


def outcome(calculate: Callable[[], Any]) -> object:
    """The result, to be compared, or the error."""
    try:
        result = calculate()
    except (ArithmeticError, ValueError, TypeError) as error:
        return type(error), str(error)
    parts = result if isinstance(result, tuple) else (result,)
    return [repr(getattr(part, "dtype", None)) + repr(list(part)) if hasattr(part, "__len__")
            else repr(part) for part in parts]  # fmt: skip


@pytest.fixture(scope="module")
def same(compiled: Any) -> Callable[[Callable[[], Any]], None]:
    def check(calculate: Callable[[], Any]) -> None:
        outcomes = []
        for library in (compiled, None):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(kernels, "library", library)
                outcomes.append(outcome(calculate))
        assert outcomes[0] == outcomes[1]

    return check


def arrived(values: list[Any], before: int, chunk: int | None) -> pd.Series[Any]:
    """A column from Arrow memory that begins before it, in one chunk or two."""
    whole = DecimalArray([*[7] * before, *values]).__arrow_array__()[before:]
    pieces = [whole] if chunk is None else [whole[:chunk], whole[chunk:]]
    return pd.Series(DecimalArray.from_arrow(pa.chunked_array(pieces, whole.type)))


few = st.lists(st.none() | st.sampled_from([0, 1, -1, 3]), max_size=60)
arrivals = st.builds(arrived, columns | few, st.integers(0, 3), st.none() | st.integers(0, 3))


@pytest.mark.seconds
@settings(max_examples=30, deadline=None)
@given(arrivals, decimals, st.data())
def test_columns(same: Any, series: pd.Series[Any], scalar: Decimal, data: st.DataObject) -> None:
    size = len(series)
    drawn = data.draw(st.lists(st.none() | decimals, min_size=size, max_size=size))
    other = arrived(drawn, 1, None)
    for op in OF_TWO:
        for a, b in ((series, other), (series, scalar), (scalar, series), (series[::-2], scalar)):
            same(lambda op=op, a=a, b=b: op(a, b))
    for op in OF_ONE:
        same(lambda op=op: op(series))
    same(lambda: series.isin(other))
    same(lambda: series.isin([scalar, None]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | texts, max_size=6))
def test_texts(same: Any, written: list[str | None]) -> None:
    same(lambda: DecimalArray(pa.array(written, pa.string())))
    same(lambda: DecimalArray(pa.array(["5", *written], pa.large_string())[1:]))


@pytest.mark.thorough
def test_many_rows(same: Any) -> None:
    """Sorting by digits, and tables of many places."""
    rng = np.random.default_rng(20261122)
    for bits in (1, 20, 50, 63):
        drawn = DecimalArray(rng.integers(-(2**bits), 2**bits, 1_500)) / 100
        drawn[rng.integers(0, 1_500, 50)] = None
        series = pd.Series(drawn)
        for scaled in (series, series / 7, pd.concat([series, series / 1_000_003])):
            for op in OF_ONE:
                same(lambda op=op, scaled=scaled: op(scaled))


def test_processors_that_compare_fewer_at_once_find_the_same(tmp_path: Path, compiled: Any) -> None:
    """What a processor without wide registers runs, as this machine may have them."""
    path = tmp_path / "libkernels.so"
    assert compile_source(kernels.SOURCE, path, "-DSEVERAL_AT_ONCE=")
    plain, rng = load(kernels.SOURCE, path), random.Random(37)
    for count in (1, 15, 16, 17, 100):
        for words in (3, 2**64):  # mostly the same, and hardly ever
            rows = np.array(
                [[rng.randrange(words) for _ in (0, 1)] for _ in range(count)], np.uint64
            )
            found = []
            for library in (compiled, plain):
                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr(kernels, "library", library)
                    found.append(
                        [int128.extreme(rows, True), int128.extreme(rows, False)]
                        + [int128.less(rows, one).tolist() for one in (rows[::-1], rows[:1])]
                        + [int128.less(rows[-1:], rows).tolist()]
                    )
            assert found[0] == found[1]
            assert found[0][:2] == [choose(int128.to_ints(rows)) for choose in (max, min)]
