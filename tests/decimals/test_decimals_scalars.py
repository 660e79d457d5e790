"""What is calculated with single values of a decimal column, in Python's own arithmetic."""

from __future__ import annotations

import copy
import operator
import pickle
from decimal import (
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    localcontext,
)
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from decimal_laws import EIGHTY, LAWS, LIMIT, decimals, half_even, law, series
from hypothesis import settings
from hypothesis import strategies as st

D = Decimal
LONG = "12345678901.123456789012345678"


@pytest.fixture
def column() -> pd.Series:
    return pd.Series([LONG, "-2.5", "0.0000001"], dtype="decimal", name="x")


@pytest.mark.parametrize(
    ("calculate", "expected"),
    [
        (lambda v: v + 0, LONG),
        (lambda v: 0 + v, LONG),
        (lambda v: D("0.1") - v, "-12345678901.023456789012345678"),
        (lambda v: np.int64(1) + v, "12345678902.123456789012345678"),
        (lambda v: abs(-v), LONG),
        (lambda v: +v, LONG),
        (lambda v: v * v, "152415787529644883551.605090909559518592527968299765279684"),
        (lambda v: v**2, "152415787529644883551.605090909559518592527968299765279684"),
        (lambda v: v / 3, "4115226300.374485596337448559"),
        (lambda v: 1 / (v - D("12345678901")), "8.100000072900000723"),
        (lambda v: divmod(v, 7)[1], "3.123456789012345678"),
        (lambda v: round(v, 17), "12345678901.12345678901234568"),
        (lambda v: v.quantize(D("1E-17")), "12345678901.12345678901234568"),
        (lambda v: v.normalize(), LONG),
        (lambda v: v.max(1), LONG),
        (lambda v: sum([v, v, v]) - 2 * v, LONG),
        (lambda v: np.sum(np.array([v, -v, v])), LONG),
    ],
)
def test_no_digit_is_lost(column: pd.Series, calculate: Any, expected: str) -> None:
    result = calculate(column.iloc[0])
    assert (str(result), repr(result)) == (expected, f"Decimal('{expected}')")
    assert result == D(expected)


def test_sums_and_functions_of_a_column_are_exact(column: pd.Series) -> None:
    assert str(sum(column)) == str(column.sum()) == "12345678898.623456889012345678"
    assert max(column) == D(LONG)
    for function, expected in ((lambda v: v * 1, column), (lambda v: v / 3, column / 3)):
        mapped = column.map(function)
        assert mapped.dtype == "decimal"
        pd.testing.assert_series_equal(mapped, expected)
    assert column.map(lambda v: v * v).dtype == object  # 36 decimals: not rounded in silence
    assert column.apply(lambda v: v + 1).sum() == column.sum() + 3


def test_a_value_is_the_decimal_that_it_stands_for(column: pd.Series) -> None:
    value = column.iloc[0]
    assert isinstance(value, Decimal)
    assert (value, hash(value)) == (D(LONG), hash(D(LONG)))
    for clone in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert isinstance(clone, Decimal)
        assert (clone, str(clone + 0)) == (value, LONG)
    assert [f"{v}" for v in column] == [str(v) for v in column] == [LONG, "-2.5", "0.0000001"]
    with localcontext(rounding=ROUND_HALF_EVEN):
        assert f"{value:,.10f}" == "12,345,678,901.1234567890"
    assert (int(value), round(value), float(value)) == (12345678901, 12345678901, float(LONG))
    with localcontext(rounding=ROUND_HALF_UP):
        assert str(D(0) + column.iloc[1].quantize(D(1))) == "-3"


def test_what_has_no_exact_result_is_refused(column: pd.Series) -> None:
    value = column.iloc[0]
    with pytest.raises(ArithmeticError, match="no exact result of up to 10000 digits"):
        value + D("1E-20000")
    with pytest.raises(ValueError, match="whole numbers only"):
        value ** D("0.5")
    with pytest.raises(TypeError):
        value + 0.5
    with pytest.raises(DivisionByZero):
        value / 0
    with pytest.raises(InvalidOperation):
        value % 0
    assert value + pd.NA is pd.NA


EXACT_OPERATORS = [operator.add, operator.sub, operator.mul]
terms = st.lists(st.tuples(st.sampled_from(EXACT_OPERATORS), decimals), max_size=6)


@law(decimals, terms, decimals)
def test_expressions_agree_with_fractions(start: Decimal, rest: Any, divisor: Decimal) -> None:
    values = series([start, *[value for _, value in rest], divisor])
    exact, fraction = values.iloc[0], Fraction(start)
    for (operate, expected), value in zip(rest, values.iloc[1:-1], strict=True):
        exact, fraction = operate(exact, value), operate(fraction, Fraction(expected))
    assert Fraction(exact) == fraction
    if divisor:
        quotient = fraction / Fraction(divisor)
        if abs(quotient) < LIMIT:
            assert exact / values.iloc[-1] == half_even(quotient)


@pytest.mark.slow
@pytest.mark.parametrize("check", LAWS[__name__], ids=lambda check: check.__name__)
def test_at_length(check: Any) -> None:
    settings(max_examples=2_000, deadline=None)(check)()


@pytest.mark.slow
def test_a_hundred_thousand_expressions_agree_with_fractions() -> None:
    random = Random(20261122)
    one = 10**18

    def drawn(bits: list[int]) -> list[int]:
        return [random.randint(-(2**b), 2**b) for b in random.choices(bits, k=100_000)]

    def column_of(units: list[int]) -> pd.Series:
        return series(EIGHTY.scaleb(Decimal(unit), -18) for unit in units)

    def units_of(column: pd.Series) -> list[int]:
        return [int(EIGHTY.scaleb(value, 18)) for value in column]

    a, b = drawn([8, 30, 60, 64, 90]), drawn([8, 30, 60, 64, 90])
    c, d = drawn([8, 30, 60, 70]), [unit or 7 for unit in drawn([60, 61, 70, 90])]
    w, x, y, z = map(column_of, (a, b, c, d))
    assert units_of(w + x - y * 2) == [p + q - 2 * r for p, q, r in zip(a, b, c, strict=True)]
    assert units_of(y * y) == [round(Fraction(r * r, one)) for r in c]
    assert units_of(y / z) == [round(Fraction(r * one, t)) for r, t in zip(c, d, strict=True)]
    assert units_of((w - x).round(2)) == [
        round(Fraction(p - q, 10**16)) * 10**16 for p, q in zip(a, b, strict=True)]  # fmt: skip
    assert (w < x).tolist() == [p < q for p, q in zip(a, b, strict=True)]
    for p, q, r in zip(w, x, y, strict=True):
        whole = p * r - sum([q, abs(r)])
        assert Fraction(whole) == Fraction(p) * Fraction(r) - Fraction(q) - abs(Fraction(r))
