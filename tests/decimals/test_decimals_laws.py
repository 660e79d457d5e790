"""Decimal columns against Python's Decimal at 80 digits: equal, or OverflowError.

Each law draws columns at all sizes, 38 digits and 18 decimals included, with missing values, empty
and single ones. The expected side never touches a column.
"""

from __future__ import annotations

import io
import operator
import pickle
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from decimal_laws import (
    EIGHTY,
    LAWS,
    LIMIT,
    agree,
    columns,
    decimals,
    elementwise,
    half_even,
    known,
    law,
    mean,
    pairs,
    plain,
    quantile,
    quantiles,
    rounded,
    running,
    series,
)
from hypothesis import settings
from hypothesis import strategies as st

from fundlab.decimals import DecimalArray, rolling, types_mapper

pytestmark = pytest.mark.usefixtures("both_ways")

# ---- arithmetic


@law(pairs)
def test_addition_and_subtraction(rows: Any) -> None:
    left, right = [a for a, _ in rows], [b for _, b in rows]
    agree(lambda: series(left) + series(right), elementwise(EIGHTY.add, rows))
    agree(lambda: series(left) - series(right), elementwise(EIGHTY.subtract, rows))


@law(pairs)
def test_multiplication(rows: Any) -> None:
    expected = elementwise(lambda a, b: rounded(EIGHTY.multiply(a, b)), rows)
    agree(lambda: series(a for a, _ in rows) * series(b for _, b in rows), expected)


@law(columns, st.integers(-(2**31) - 1, 2**31 + 1))
def test_products_of_whole_numbers(values: Any, factor: int) -> None:
    expected = [None if v is None else EIGHTY.multiply(v, Decimal(factor)) for v in values]
    agree(lambda: series(values) * factor, expected)
    agree(lambda: series(values) * 3, [v if v is None else EIGHTY.multiply(v, 3) for v in values])


def _quotient(a: Decimal, b: Decimal) -> Decimal:
    return rounded(EIGHTY.divide(a, b))


def _whole(a: Decimal, b: Decimal) -> Decimal:
    return EIGHTY.divide_int(a, b)


DIVISIONS = [
    (operator.truediv, _quotient),
    (operator.floordiv, _whole),
    (operator.mod, EIGHTY.remainder),
]


@law(pairs)
def test_division(rows: Any) -> None:
    rows = [(a, b) for a, b in rows if b != 0]
    for op, expected in DIVISIONS:
        agree(
            lambda op=op: op(series(a for a, _ in rows), series(b for _, b in rows)),
            elementwise(expected, rows),
        )


@law(columns, decimals, st.integers(-(10**20) + 1, 10**20 - 1))
def test_scalars_on_either_side(values: Any, scalar: Any, number: Any) -> None:
    column = series(values)
    for other in (scalar, number):
        as_decimal = Decimal(other)
        for op, expected in [
            (operator.add, EIGHTY.add),
            (operator.sub, EIGHTY.subtract),
            (operator.mul, lambda a, b: rounded(EIGHTY.multiply(a, b))),
        ]:
            agree(
                lambda op=op, other=other: op(column, other),
                elementwise(expected, [(v, as_decimal) for v in values]),
            )
            agree(
                lambda op=op, other=other: op(other, column),
                elementwise(expected, [(as_decimal, v) for v in values]),
            )
        for op, expected in DIVISIONS:
            if other:
                agree(
                    lambda op=op, other=other: op(column, other),
                    elementwise(expected, [(v, as_decimal) for v in values]),
                )
            if 0 not in values:
                agree(
                    lambda op=op, other=other: op(other, column),
                    elementwise(expected, [(as_decimal, v) for v in values]),
                )


finer = st.builds(
    lambda digits, places: EIGHTY.scaleb(Decimal(digits), -places),
    st.integers(-(10**30), 10**30),
    st.integers(19, 45),
)


@law(columns, finer)
def test_products_and_quotients_of_finer_scalars(values: Any, rate: Decimal) -> None:
    column = series(values)

    def each(op: Callable[[Fraction, Fraction], Fraction], *, swapped: bool = False) -> list[Any]:
        rows = [None if v is None else (Fraction(v), Fraction(rate)) for v in values]
        return [None if r is None else half_even(op(*(r[::-1] if swapped else r))) for r in rows]

    agree(lambda: column * rate, each(operator.mul))
    agree(lambda: rate * column, each(operator.mul))
    if rate:
        agree(lambda: column / rate, each(operator.truediv))
    if 0 not in values:
        agree(lambda: rate / column, each(operator.truediv, swapped=True))


@law(pairs)
def test_dot(rows: Any) -> None:
    left, right = series(a for a, _ in rows), series(b for _, b in rows)
    products = [None if None in row else Fraction(row[0]) * Fraction(row[1]) for row in rows]
    exact = None if None in products else half_even(sum(products, Fraction(0)))
    agree(lambda: left.dot(right), exact)
    agree(lambda: left @ right, exact)
    frame = pd.DataFrame({"a": left, "b": right})
    weights = pd.Series([3, -2], index=["a", "b"], dtype="decimal")
    expected = elementwise(lambda a, b: 3 * Fraction(a) - 2 * Fraction(b), rows)
    agree(lambda: frame.dot(weights), [None if v is None else half_even(v) for v in expected])


@law(pairs, decimals)
def test_division_by_zero_raises(rows: Any, dividend: Decimal) -> None:
    rows = [*rows, (dividend, Decimal(0))]
    for op, _ in DIVISIONS:
        with pytest.raises(ZeroDivisionError):
            op(series(a for a, _ in rows), series(b for _, b in rows))


@law(
    st.lists(
        st.none() | st.integers(-(2**80), 2**80).map(lambda n: EIGHTY.scaleb(Decimal(n), -18)),
        max_size=8,
    ),
    st.integers(-9, 12),
)
def test_powers(values: Any, exponent: int) -> None:
    def power(value: Decimal) -> Decimal:
        if value == 0 and exponent == 0:
            return Decimal(1)
        ratio = Fraction(value) ** exponent
        return half_even(ratio) if abs(ratio) < 10**21 else LIMIT

    if exponent < 0:
        values = [value for value in values if value != 0]
    expected = [
        power(Decimal(0)) if v is None and exponent == 0 else None if v is None else power(v)
        for v in values
    ]
    agree(lambda: series(values) ** exponent, expected)


@law(columns, st.integers(-22, 20))
def test_unary_and_rounding(values: Any, places: int) -> None:
    agree(lambda: -series(values), elementwise(EIGHTY.minus, [(v,) for v in values]))
    agree(lambda: abs(series(values)), elementwise(EIGHTY.abs, [(v,) for v in values]))
    unit = Decimal((0, (1,), -places))
    expected = elementwise(lambda v: v.quantize(unit, context=EIGHTY), [(v,) for v in values])
    agree(lambda: series(values).round(places), expected)


COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
numbers = st.one_of(
    decimals,
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=25),
)


@law(pairs, numbers)
def test_comparison(rows: Any, number: Any) -> None:
    left, right = [a for a, _ in rows], [b for _, b in rows]
    floats = np.array([np.nan if b is None else float(b) for b in right], float)
    for op in COMPARISONS:
        assert plain(op(series(left), series(right))) == elementwise(op, rows)
        assert plain(op(series(left), number)) == elementwise(op, [(a, number) for a in left])
        exact = [(a, None if b is None else float(b)) for a, b in rows]
        assert plain(op(series(left), pd.Series(floats))) == elementwise(op, exact)


# ---- reductions


@law(columns, st.integers(0, 4), st.booleans())
def test_sums_and_products(values: Any, min_count: int, skipna: bool) -> None:
    known = [v for v in values if v is not None]
    gone = len(known) < min_count or (not skipna and len(known) < len(values))
    with localcontext(EIGHTY):
        total = sum(known, Decimal(0))
    agree(lambda: series(values).sum(skipna=skipna, min_count=min_count), None if gone else total)
    product = Fraction(1)
    for value in known:
        product *= Fraction(value)
    product_rounded = half_even(product) if abs(product) < 10**21 else LIMIT
    agree(
        lambda: series(values).prod(skipna=skipna, min_count=min_count),
        None if gone else product_rounded,
    )


INTERPOLATIONS = ["linear", "lower", "higher", "nearest", "midpoint"]


@law(columns, quantiles, st.sampled_from(INTERPOLATIONS))
def test_mean_and_order_statistics(values: Any, q: float, interpolation: str) -> None:
    known = [v for v in values if v is not None]
    column = series(values)
    agree(column.mean, mean(known))
    agree(column.median, quantile(known, 0.5))
    agree(lambda: column.quantile(q, interpolation), quantile(known, q, interpolation))
    agree(column.min, min(known, default=None))
    agree(column.max, max(known, default=None))
    if known:
        assert column.dropna().iloc[column.dropna().argmax()] == max(known)


@law(columns)
def test_summaries(values: Any) -> None:
    column, present = series(values), [v for v in values if v is not None]
    deviation = column.std()
    parts = [min, lambda v, **_: quantile(v, 0.25), lambda v, **_: quantile(v, 0.5),
             lambda v, **_: quantile(v, 0.75), max]  # fmt: skip
    expected = [part(present, default=None) if present else None for part in parts]
    summary = column.describe()
    if deviation is not pd.NA and deviation >= 1e20:
        assert summary["std"] is pd.NA
    assert plain(summary.drop("std")) == [
        len(present),
        mean(present) if present else None,
        *expected,
    ]
    assert summary.dtype == "decimal"


@law(
    st.lists(st.integers(-(10**12), 10**12).map(lambda n: Decimal(n) / 100), min_size=4, max_size=9)
)
def test_variance_survives_a_large_mean(values: Any) -> None:
    exact = [Fraction(v) + 10**15 for v in values]
    centre = sum(exact) / len(exact)
    variance = float(sum((v - centre) ** 2 for v in exact) / (len(exact) - 1))
    column = series(values) + 10**15
    assert column.var() == pytest.approx(variance, rel=1e-12)
    assert column.std() == pytest.approx(variance**0.5, rel=1e-12)
    assert column.groupby([0] * len(values)).var().iloc[0] == pytest.approx(variance, rel=1e-12)


@law(columns, st.booleans(), st.integers(-3, 3))
def test_running_and_differences(values: Any, skipna: bool, periods: int) -> None:
    agree(lambda: series(values).cumsum(skipna=skipna), running(values, EIGHTY.add, skipna))
    agree(lambda: series(values).cummin(skipna=skipna), running(values, min, skipna))
    agree(lambda: series(values).cummax(skipna=skipna), running(values, max, skipna))
    before = [
        values[i - periods] if 0 <= i - periods < len(values) else None for i in range(len(values))
    ]
    expected = elementwise(EIGHTY.subtract, list(zip(values, before, strict=True)))
    agree(lambda: series(values).diff(periods), expected)


@law(st.lists(st.none() | st.integers(-3000, 3000).map(lambda n: Decimal(n) / 1000), max_size=8))
def test_running_product(values: Any) -> None:
    exact = running([None if v is None else Fraction(v) for v in values], operator.mul)
    agree(series(values).cumprod, [None if v is None else half_even(v) for v in exact])


@law(columns, st.integers(1, 5), st.sampled_from([None, 0, 1, 2]))
def test_rolling(values: Any, window: int, min_periods: int | None) -> None:
    min_periods = None if min_periods is None else min(min_periods, window)
    needed = window if min_periods is None else min_periods
    spans = [values[max(0, i + 1 - window) : i + 1] for i in range(len(values))]
    known = [[v for v in span if v is not None] for span in spans]
    with localcontext(EIGHTY):
        sums = [sum(k, Decimal(0)) if len(k) >= needed else None for k in known]
    agree(lambda: rolling(series(values), window, min_periods).sum(), sums)
    means = [mean(k) if len(k) >= needed else None for k in known]
    agree(lambda: rolling(series(values), window, min_periods).mean(), means)


# ---- order, identity, text


@law(columns, decimals, decimals)
def test_order_and_identity(values: Any, low: Decimal, high: Decimal) -> None:
    column = series(values)
    known_values = known(values)
    assert plain(column.sort_values()) == sorted(known_values) + [None] * values.count(None)
    assert plain(column.sort_values(ascending=False, na_position="first")) == (
        [None] * values.count(None) + sorted(known_values, reverse=True)
    )
    assert [None if pd.isna(r) else r for r in column.rank(method="min").tolist()] == [
        None if v is None else 1 + sum(w < v for w in known_values) for v in values
    ]
    assert plain(pd.Series(column.unique())) == list(dict.fromkeys(values))
    assert column.value_counts().to_dict() == {v: values.count(v) for v in known_values}
    codes, uniques = pd.factorize(column)
    assert [None if c < 0 else uniques[c] for c in codes] == values
    assert column.isin([low, *values[:2]]).tolist() == [v in [low, *values[:2]] for v in values]
    assert column.duplicated().tolist() == [v in values[:i] for i, v in enumerate(values)]
    assert plain(column.between(low, high)) == [
        None if v is None else low <= v <= high for v in values
    ]
    floor, ceiling = min(low, high), max(low, high)
    assert plain(column.clip(floor, ceiling)) == [
        None if v is None else min(max(v, floor), ceiling) for v in values
    ]
    assert plain(column.fillna(low)) == [low if v is None else v for v in values]
    ordered = series(sorted(known_values))
    assert ordered.searchsorted(low) == sum(v < low for v in known_values)
    assert ordered.searchsorted(low, side="right") == sum(v <= low for v in known_values)
    assert column.sort_values().dropna().is_monotonic_increasing


@pytest.mark.thorough
@law(columns)
def test_joins(values: Any) -> None:
    left = pd.DataFrame({"x": series(values), "row": range(len(values))})
    right = pd.DataFrame({"x": series(values[::2])}).drop_duplicates()
    for sort in (False, True):
        merged = left.merge(right, on="x", sort=sort)
        expected = [v for v in values if v in values[::2]]
        key = [(v is None, 0 if v is None else v) for v in expected]
        if sort:
            expected = [v for _, v in sorted(zip(key, expected, strict=True), key=lambda p: p[0])]
        assert plain(merged["x"]) == expected


def text_of(value: Decimal) -> str:
    digits = f"{value:f}"
    return (
        (digits.rstrip("0").rstrip(".") if "." in digits else digits).replace("-0", "0")
        if value == 0
        else (digits.rstrip("0").rstrip(".") if "." in digits else digits)
    )


@law(columns)
def test_text(values: Any) -> None:
    texts = [None if v is None else text_of(v) for v in values]
    column = series(values)
    assert [None if pd.isna(t) else t for t in column.astype(str).tolist()] == texts
    assert [None if v is pd.NA else str(v) for v in column.tolist()] == texts
    assert plain(pd.Series(pd.array(texts, dtype="decimal"))) == values
    assert plain(pd.Series(texts, dtype="str").astype("decimal")) == values
    lines = column.to_csv(index=False, header=False, na_rep="-").splitlines()
    assert lines == ["-" if t is None else t for t in texts]


@pytest.mark.thorough
@law(columns)
def test_there_and_back(values: Any) -> None:
    column = series(values)
    table = column.to_frame("x")
    arrow = pd.ArrowDtype(pa.decimal128(38, 18))
    text = io.StringIO(table.to_csv())
    for back in (
        pickle.loads(pickle.dumps(column)),
        column.astype(object).astype("decimal"),
        column.astype("str").astype("decimal"),
        column.astype(arrow).astype("decimal"),
        pa.table(table).to_pandas(types_mapper=types_mapper)["x"],
        pd.read_csv(text, index_col=0, dtype={"x": "decimal"})["x"],
        pd.read_json(io.StringIO(table.to_json(orient="table")), orient="table")["x"],
    ):
        assert back.dtype == "decimal"
        assert plain(back) == values
    whole = [None if v is None else v.to_integral(ROUND_DOWN, EIGHTY) for v in values]
    if all(v is None or -(2**63) <= v < 2**63 for v in whole):
        integers = series(whole).astype("Int64").tolist()
        assert [None if i is pd.NA else i for i in integers] == whole
    else:
        with pytest.raises(OverflowError):
            series(whole).astype("Int64")


@law(columns, columns)
def test_index(values: Any, wanted: Any) -> None:
    there = list(dict.fromkeys(known(values)))
    index = pd.Index(series(there))
    sought = known(wanted) + there[:3]
    places = [there.index(v) if v in there else -1 for v in sought]
    assert index.get_indexer(series(sought)).tolist() == places
    rows = pd.Series(range(len(there)), index=index)
    assert [rows[v] for v in there] == list(range(len(there)))
    ordered = rows.sort_index()
    assert ordered.index.tolist() == sorted(there)
    if sought:
        low, high = min(sought), max(sought)
        assert ordered.loc[low:high].index.tolist() == [
            v for v in sorted(there) if low <= v <= high
        ]
    both = index.union(pd.Index(series(dict.fromkeys(known(wanted)))))
    assert sorted(both.tolist()) == sorted({*there, *known(wanted)})


@law(columns)
def test_floats(values: Any) -> None:
    floats = series(values).astype("float64").tolist()
    assert [None if np.isnan(f) else f for f in floats] == [
        None if v is None else float(v) for v in values
    ]


@law(
    st.lists(st.floats(-1e20, 1e20, exclude_min=True, exclude_max=True), max_size=8),
    st.integers(0, 18),
)
def test_from_float(values: Any, places: int) -> None:
    expected = [
        Decimal(f).quantize(
            Decimal((0, (1,), -places)), rounding=ROUND_HALF_EVEN, context=Context(prec=2000)
        )
        for f in values
    ]
    agree(lambda: pd.Series(DecimalArray.from_float(values, decimals=places)), expected)


@law(columns)
def test_arrow(values: Any) -> None:
    array = pa.array(series(values))
    assert array.type == pa.decimal128(38, 18)
    array.validate(full=True)
    assert array.to_pylist() == values
    assert plain(pd.Series(DecimalArray.from_arrow(array))) == values


@pytest.mark.slow
@pytest.mark.parametrize("check", LAWS[__name__], ids=lambda check: check.__name__)
def test_at_length(check: Any) -> None:
    settings(max_examples=2000, deadline=None)(check)()
