"""What Arrow's columns hold, as NumPy's arrays and in groups."""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from fundlab.base.arrow import frugal_memory, groups, numbers


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 2, 3], pa.int32()), [1, 2, 3]),
        (pa.array([5, 6, 7], pa.int64()).slice(1), [6, 7]),
        (pa.array([True, False, True]).slice(1), [False, True]),
        (pa.array([1, 2], pa.timestamp("ns", "UTC")), [1, 2]),
        (pa.chunked_array([pa.array([1]), pa.array([2, 3])]), [1, 2, 3]),
        (pa.chunked_array([], pa.int64()), []),
        (pa.chunked_array([], pa.bool_()), []),
    ],
)
def test_the_numbers_of_a_column(column: pa.Array, expected: list[int]) -> None:
    assert numbers(column).tolist() == expected


def test_a_missing_value_is_no_number() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*DLPack")  # NumPy 2 asks again, in the way of before
        with pytest.raises(pa.ArrowTypeError, match="no nulls"):
            numbers(pa.array([1, None]))


def test_groups_are_those_of_arrow() -> None:
    rng = np.random.default_rng(7)
    rows = pa.table(
        {
            "profile": pa.array(["a", "b", None, ""]).take(pa.array(rng.integers(0, 4, 500))),
            "month": pa.array([1, None, 3]).take(pa.array(rng.integers(0, 3, 500))),
            "place": pa.array(range(500)),
        }
    )
    rows = pa.concat_tables([rows.slice(0, 200), rows.slice(200)])
    found = {
        key: mine.column("place").to_pylist() for key, mine in groups(rows, ["profile", "month"])
    }
    expected = rows.group_by(["profile", "month"], use_threads=False).aggregate([("place", "list")])
    assert found == {
        (row["profile"], row["month"]): row["place_list"] for row in expected.to_pylist()
    }


@pytest.mark.parametrize("by", [["a"], ["a", "b"]])
def test_of_no_rows_there_are_no_groups(by: list[str]) -> None:
    empty = pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.string())})
    assert list(groups(empty, by)) == []


def test_afterwards_arrow_has_the_memory_pool_that_it_had() -> None:
    usual = pa.default_memory_pool().backend_name
    with suppress(ValueError), frugal_memory():
        assert pa.default_memory_pool().backend_name == "system"
        with frugal_memory():
            pass
        assert pa.default_memory_pool().backend_name == "system"
        raise ValueError("stop")
    assert pa.default_memory_pool().backend_name == usual
