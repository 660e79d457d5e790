"""pandas' own conformance suite for extension types, run on the decimal column."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pandas as pd
import pandas._testing as tm
import pytest
from pandas.tests.extension import base
from pandas.tests.extension.conftest import *  # noqa: F403 - the fixtures that the suite needs

from fundlab.decimals import DecimalArray, DecimalDtype


def column(*values: Any) -> DecimalArray:
    return DecimalArray([None if value is None else Decimal(value) for value in values])


@pytest.fixture
def dtype():
    return DecimalDtype()


@pytest.fixture
def data():
    # Quotients of these end within 18 decimals, as Python's own 28 digits must be able to follow.
    return column("2", "0.5", "-4", "1", None, "0.0000001", "12500", "8", None, "-0.25")


@pytest.fixture
def data_for_twos():
    return column(*["2"] * 10)


@pytest.fixture
def data_missing():
    return column(None, "1.5")


@pytest.fixture
def data_for_sorting():
    return column("1.10", "12", "-3")


@pytest.fixture
def data_missing_for_sorting():
    return column("1.10", None, "-3")


@pytest.fixture
def data_for_grouping():
    return column("0.2", "0.2", None, None, "-7", "-7", "0.2", "3")


class TestDecimalArray(base.ExtensionTests):
    _combine_le_expected_dtype = "boolean"
    series_scalar_exc = frame_scalar_exc = series_array_exc = divmod_exc = None

    def _get_expected_exception(self, op_name: str, obj: Any, other: Any) -> Any:
        # The exponents -0.25 and 0.5 are no whole numbers.
        return ValueError if op_name == "__rpow__" else None

    def _supports_reduction(self, ser: pd.Series, op_name: str) -> bool:
        return True

    def check_reduce(self, ser: pd.Series, op_name: str, skipna: bool) -> None:
        # Against float64, but with pd.NA where a value is missing, as pandas' nullable types do.
        kwargs = {} if op_name == "count" else {"skipna": skipna}
        result = getattr(ser, op_name)(**kwargs)
        if op_name in {"any", "all"}:
            unknown = op_name == "all" and not skipna and ser.isna().any()
            assert result is (pd.NA if unknown else True)
        elif op_name != "count" and not skipna and ser.isna().any():
            assert result is pd.NA
        else:
            expected = getattr(ser.dropna().astype("float64"), op_name)()
            tm.assert_almost_equal(float(result), float(expected))

    def _get_expected_reduction_dtype(self, arr: Any, op_name: str, skipna: bool) -> Any:
        return "Float64" if op_name in {"var", "std", "sem", "skew", "kurt"} else arr.dtype

    def _supports_accumulation(self, ser: pd.Series, op_name: str) -> bool:
        return True

    def check_accumulate(self, ser: pd.Series, op_name: str, skipna: bool) -> None:
        result = getattr(ser, op_name)(skipna=skipna)
        assert result.dtype == ser.dtype
        expected = getattr(ser.astype("Float64"), op_name)(skipna=skipna)
        tm.assert_series_equal(result.astype("Float64"), expected)
