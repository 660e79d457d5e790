"""pandas' own conformance suite for extension types, run on the decimal column."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pandas._testing as tm
import pytest
from pandas.conftest import (  # noqa: F401 - fixtures, which pandas 2 has only there
    all_arithmetic_operators,
    all_boolean_reductions,
    all_numeric_accumulations,
    all_numeric_reductions,
    comparison_op,
    nullable_string_dtype,
    sort_by_key,
    string_dtype,
    using_infer_string,
)
from pandas.tests.extension import base
from pandas.tests.extension.conftest import *  # noqa: F403 - the fixtures that the suite needs

from fundlab.decimals import DecimalArray, DecimalDtype
from fundlab.decimals.groups import PANDAS

TENS = 1 if PANDAS >= (3, 0) else 10  # the suite knows how long its data are


def column(*values: Any) -> DecimalArray:
    return DecimalArray([None if value is None else Decimal(value) for value in values])


@pytest.fixture
def dtype():
    return DecimalDtype()


@pytest.fixture
def data():
    # Quotients of these end within 18 decimals, as Python's own 28 digits must be able to follow.
    return column(*["2", "0.5", "-4", "1", "8", "0.0000001", "12500", None, None, "-0.25"] * TENS)


@pytest.fixture
def data_for_twos():
    return column(*["2"] * (10 * TENS))


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


@pytest.mark.filterwarnings("ignore:matching against an empty string")  # the suite of pandas 2 does
class TestDecimalArray(base.ExtensionTests):
    _combine_le_expected_dtype = object if PANDAS < (3, 0) else "boolean"
    series_scalar_exc = frame_scalar_exc = series_array_exc = divmod_exc = None

    if PANDAS < (3, 0):  # whose test, unlike that of 3, does not know that an error is an answer

        def test_array_interface_copy(self, data: DecimalArray) -> None:
            assert not np.may_share_memory(np.array(data, copy=True), np.array(data, copy=True))

        def _cast_pointwise_result(self, op_name: str, obj: Any, other: Any, result: Any) -> Any:
            comparison = op_name in {"eq", "ne", "lt", "le", "gt", "ge"}
            return result.astype("boolean") if comparison else result

    if PANDAS < (3, 1):  # whose test takes what is missing for NaN

        @pytest.mark.parametrize("na_action", [None, "ignore"])
        def test_map(self, data_missing: DecimalArray, na_action: Any) -> None:
            result = data_missing.map(lambda value: value, na_action=na_action)
            tm.assert_numpy_array_equal(result, data_missing.to_numpy(object))

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
