"""The decimal column against Python's Decimal at 80 digits: equal, or OverflowError.

Each law draws columns at all sizes, 38 digits and 18 decimals included, with missing values, empty
and single ones, and unsorted groups. The expected side never touches a column.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fundlab.decimals import DecimalArray, rolling

EIGHTY = Context(prec=80, rounding=ROUND_HALF_EVEN, Emax=10**6, Emin=-(10**6))
STEP = Decimal("1e-18")
LIMIT = Decimal(10) ** 20
LARGEST = 10**38 - 1

LAWS: list[Callable[..., None]] = []


def law(*strategies: Any) -> Callable[[Any], Any]:
    def register(check: Any) -> Any:
        held = given(*strategies)(check)
        LAWS.append(held)
        return settings(max_examples=60, deadline=None)(given(*strategies)(check))

    return register


# ---- drawing


def _units(bits: int) -> Any:
    edge = min(2**bits, LARGEST)
    return st.integers(-edge, edge)


units = st.one_of(
    st.sampled_from(
        [0, 1, -1, 10**18, -(10**18), 5 * 10**17, LARGEST, -LARGEST, 2**63, -(2**64), 2**64 - 1]
    ),
    st.integers(-(10**6), 10**6).map(lambda n: n * 10**16),  # cents
    st.sampled_from([8, 60, 64, 90, 118, 127]).flatmap(_units),
)
decimals = units.map(lambda n: EIGHTY.scaleb(Decimal(n), -18))
columns = st.lists(st.none() | decimals, max_size=12)
pairs = st.lists(st.tuples(st.none() | decimals, st.none() | decimals), max_size=12)
grouped = st.lists(st.tuples(st.sampled_from("cab"), st.none() | decimals), max_size=14)
quantiles = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 0.999, 1.0])


# ---- comparing


def series(values: Any) -> pd.Series:
    return pd.Series(DecimalArray(list(values)), dtype="decimal")


def rounded(value: Decimal) -> Decimal:
    return value.quantize(STEP, context=EIGHTY)


def half_even(value: Fraction) -> Decimal:
    return EIGHTY.scaleb(Decimal(round(value * 10**18)), -18)


def plain(result: Any) -> Any:
    """A result as Decimals and None."""
    if isinstance(result, pd.Series):
        return [plain(one) for one in result.tolist()]
    assert result is pd.NA or isinstance(result, Decimal | float | int)
    return None if result is pd.NA else result


def agree(calculate: Callable[[], Any], expected: Any) -> None:
    """The result equals what is expected, or raises OverflowError where that does not fit."""
    every = expected if isinstance(expected, list) else [expected]
    if any(isinstance(one, Decimal) and one.copy_abs() >= LIMIT for one in every):
        with pytest.raises(OverflowError):
            calculate()
    else:
        result = calculate()
        if isinstance(result, pd.Series) and any(isinstance(one, Decimal) for one in every):
            assert result.dtype == "decimal"
        assert plain(result) == expected


def elementwise(op: Callable[..., Decimal], rows: Any) -> list[Decimal | None]:
    return [None if None in row else op(*row) for row in rows]


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


def mean(values: list[Decimal]) -> Decimal | None:
    return half_even(sum(map(Fraction, values), Fraction(0)) / len(values)) if values else None


def quantile(values: list[Decimal], q: float, interpolation: str = "linear") -> Decimal | None:
    if not values:
        return None
    ordered = sorted(map(Fraction, values))
    place = Fraction(repr(q)) * (len(ordered) - 1)
    below = place.numerator // place.denominator
    part = place - below
    above = min(below + 1, len(ordered) - 1)
    if interpolation == "nearest":
        return half_even(ordered[round(place)])
    share = {
        "linear": part,
        "lower": 0,
        "higher": part > 0,
        "midpoint": Fraction(1, 2) * (part > 0),
    }
    return half_even(ordered[below] + (ordered[above] - ordered[below]) * share[interpolation])


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


def running(values: list[Any], op: Callable[[Any, Any], Any], skipna: bool = True) -> list[Any]:
    out, state, spoilt = [], None, False
    for value in values:
        spoilt |= value is None and not skipna
        if value is None or spoilt:
            out.append(None)
            continue
        state = value if state is None else op(state, value)
        out.append(state)
    return out


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
    needed = window if min_periods is None else min_periods
    spans = [values[max(0, i + 1 - window) : i + 1] for i in range(len(values))]
    known = [[v for v in span if v is not None] for span in spans]
    with localcontext(EIGHTY):
        sums = [sum(k, Decimal(0)) if len(k) >= needed else None for k in known]
    agree(lambda: rolling(series(values), window, min_periods).sum(), sums)
    means = [mean(k) if len(k) >= needed else None for k in known]
    agree(lambda: rolling(series(values), window, min_periods).mean(), means)


# ---- groups


def frame(rows: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {"k": pd.Series([k for k, _ in rows], dtype=object), "x": series(v for _, v in rows)}
    )


def groups(rows: Any) -> dict[str, list[Any]]:
    return {key: [v for k, v in rows if k == key] for key in sorted({k for k, _ in rows})}


def known(values: list[Any]) -> list[Decimal]:
    return [v for v in values if v is not None]


def total(values: list[Any]) -> Decimal:
    with localcontext(EIGHTY):
        return sum(known(values), Decimal(0))


@law(grouped, st.integers(0, 2))
def test_group_reductions(rows: Any, min_count: int) -> None:
    by = frame(rows).groupby("k")["x"]
    each = groups(rows).values()
    agree(
        lambda: by.sum(min_count=min_count),
        [total(v) if len(known(v)) >= min_count else None for v in each],
    )
    agree(by.mean, [mean(known(v)) for v in each])
    agree(by.median, [quantile(known(v), 0.5) for v in each])
    agree(by.min, [min(known(v), default=None) for v in each])
    agree(by.max, [max(known(v), default=None) for v in each])
    agree(by.first, [next(iter(known(v)), None) for v in each])
    agree(by.last, [next(iter(known(v)[::-1]), None) for v in each])
    agree(by.count, [len(known(v)) for v in each])
    agree(by.nunique, [len(set(known(v))) for v in each])
    if rows:
        agree(lambda: by.agg(["sum", "max"])["sum"], [total(v) for v in each])
        agree(lambda: by.agg(lambda s: s.sum()), [total(v) for v in each])


@law(grouped, quantiles, st.sampled_from(INTERPOLATIONS))
def test_group_quantiles(rows: Any, q: float, interpolation: str) -> None:
    by = frame(rows).groupby("k")["x"]
    expected = [quantile(known(v), q, interpolation) for v in groups(rows).values()]
    agree(lambda: by.quantile(q, interpolation), expected)
    two = [quantile(known(v), p, interpolation) for v in groups(rows).values() for p in (q, 0.5)]
    agree(lambda: by.quantile([q, 0.5], interpolation), two)


def scattered(rows: Any, transform: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """A result for each row, from one for each group's rows in order."""
    queues = {key: iter(transform(values)) for key, values in groups(rows).items()}
    return [next(queues[key]) for key, _ in rows]


@law(grouped)
def test_group_transforms(rows: Any) -> None:
    by = frame(rows).groupby("k")["x"]
    agree(by.cumsum, scattered(rows, lambda v: running(v, EIGHTY.add)))
    agree(by.cummin, scattered(rows, lambda v: running(v, min)))
    agree(by.cummax, scattered(rows, lambda v: running(v, max)))
    agree(by.shift, scattered(rows, lambda v: [None, *v[:-1]]))
    agree(
        by.diff,
        scattered(
            rows, lambda v: elementwise(EIGHTY.subtract, list(zip(v, [None, *v[:-1]], strict=True)))
        ),
    )
    agree(lambda: by.transform("sum"), scattered(rows, lambda v: [total(v)] * len(v)))
    agree(lambda: by.transform("cumsum"), scattered(rows, lambda v: running(v, EIGHTY.add)))
    ranks = scattered(
        rows, lambda v: [None if a is None else 1 + sum(b < a for b in known(v)) for a in v]
    )
    assert [None if pd.isna(r) else r for r in by.rank(method="min").tolist()] == ranks
    keys = [k for k, _ in rows]
    second = [v for i, (k, v) in enumerate(rows) if keys[:i].count(k) == 1]
    assert plain(by.nth(1)) == second


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
@pytest.mark.parametrize("check", LAWS, ids=lambda check: check.__name__)
def test_at_length(check: Any) -> None:
    settings(max_examples=2000, deadline=None)(check)()
