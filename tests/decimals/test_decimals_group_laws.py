"""Groups of decimal columns against Python's Decimal at 80 digits: equal, or OverflowError.

The groups are unsorted, and some hold one value or only missing ones.
"""

from __future__ import annotations

import operator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from decimal_laws import (
    EIGHTY,
    LAWS,
    STEP,
    agree,
    columns,
    decimals,
    elementwise,
    frame,
    grouped,
    groups,
    half_even,
    known,
    law,
    mean,
    pairs,
    plain,
    quantile,
    quantiles,
    running,
    scattered,
    series,
    total,
)
from hypothesis import settings
from hypothesis import strategies as st

from fundlab.decimals import rolling

pytestmark = pytest.mark.usefixtures("both_ways")

INTERPOLATIONS = ["linear", "lower", "higher", "nearest", "midpoint"]


# ---- groups


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


@law(grouped)
def test_group_choices(rows: Any) -> None:
    by = frame(rows).groupby("k")["x"]
    each = groups(rows).values()
    agree(lambda: by.agg("max"), [max(known(v), default=None) for v in each])
    agree(lambda: by.agg(lambda s: s.min()), [min(known(v), default=None) for v in each])
    assert plain(by.nth(-1)) == [
        v for i, (k, v) in enumerate(rows) if k not in [key for key, _ in rows[i + 1 :]]
    ]
    agree(lambda: by.shift(-1), scattered(rows, lambda v: [*v[1:], None]))
    agree(lambda: by.shift(1, fill_value=0), scattered(rows, lambda v: [Decimal(0), *v[:-1]]))
    after = scattered(
        rows, lambda v: elementwise(EIGHTY.subtract, list(zip(v, [*v[1:], None], strict=True)))
    )
    agree(lambda: by.diff(-1), after)
    for name, one in (("mean", mean), ("median", lambda v: quantile(v, 0.5))):
        agree(
            lambda name=name: by.transform(name),
            scattered(rows, lambda v, one=one: [one(known(v))] * len(v)),
        )
    for method in ("average", "max", "dense", "first"):
        ranks = scattered(rows, lambda v, method=method: ranked(v, method))
        assert [None if pd.isna(r) else r for r in by.rank(method=method).tolist()] == ranks


def ranked(values: list[Any], method: str) -> list[float | None]:
    out: list[float | None] = []
    for i, value in enumerate(values):
        if value is None:
            out.append(None)
            continue
        less = sum(v < value for v in known(values))
        same = sum(v == value for v in known(values))
        out.append(
            {
                "average": less + (same + 1) / 2,
                "max": less + same,
                "dense": 1 + len({v for v in known(values) if v < value}),
                "first": 1 + less + sum(v == value for v in known(values[:i])),
            }[method]
        )
    return out


@law(grouped)
def test_grouped_products_and_deviations(rows: Any) -> None:
    rows = [
        (k, None if v is None else EIGHTY.quantize(EIGHTY.scaleb(v, -18), STEP)) for k, v in rows
    ]
    by, each = frame(rows).groupby("k")["x"], groups(rows).values()
    expected = []
    for group in each:
        product = Fraction(1)
        for value in known(group):
            product *= Fraction(value)
        expected.append(half_even(product))
    agree(by.prod, expected)
    agree(
        by.cumprod,
        scattered(rows, lambda v: [None if f is None else half_even(f) for f in running(
            [None if a is None else Fraction(a) for a in v], operator.mul)]),
    )  # fmt: skip
    for found, group in zip(by.var().tolist(), each, strict=True):
        exact = [Fraction(v) for v in known(group)]
        if len(exact) < 2:
            assert found is pd.NA
        else:
            centre = sum(exact) / len(exact)
            variance = sum((v - centre) ** 2 for v in exact) / (len(exact) - 1)
            assert found == pytest.approx(float(variance), rel=1e-9, abs=1e-36)


@pytest.mark.thorough
@law(grouped, st.booleans())
def test_shapes_of_sums(rows: Any, sort: bool) -> None:
    table = frame(rows).assign(n=[i % 2 for i in range(len(rows))])
    cells: dict[tuple[str, int], list[Any]] = {}
    for i, (key, value) in enumerate(rows):
        cells.setdefault((key, i % 2), []).append(value)
    keys, numbers = sorted({k for k, _ in cells}), sorted({n for _, n in cells})
    sums = [[total(cells[k, n]) if (k, n) in cells else None for n in numbers] for k in keys]
    flat = [one for row in sums for one in row]
    if not rows:
        return

    def cell_values(wide: pd.DataFrame) -> pd.Series:
        return pd.concat([wide.loc[key] for key in keys])

    by = {"index": "k", "columns": "n", "values": "x", "aggfunc": "sum"}
    agree(lambda: cell_values(table.pivot_table(**by)), flat)
    agree(lambda: cell_values(pd.crosstab(table["k"], table["n"], table["x"], aggfunc="sum")), flat)
    agree(lambda: cell_values(table.groupby(["k", "n"])["x"].sum().unstack()), flat)
    parts = [table[table["k"] == key] for key in keys]
    agree(lambda: pd.concat(parts)["x"], [v for key in keys for v in groups(rows)[key]])
    totals = table.groupby("k", sort=sort, as_index=False)["x"]
    order = keys if sort else list(dict.fromkeys(k for k, _ in rows))
    agree(lambda: totals.sum()["x"], [total(groups(rows)[k]) for k in order])


@law(columns, st.integers(1, 30))
def test_resampling(values: Any, hours: int) -> None:
    times = pd.date_range("2026-10-01", periods=len(values), freq=f"{hours}h", tz="UTC")
    column = series(values).set_axis(times)
    days: dict[Any, list[Any]] = {}
    for time, value in zip(times, values, strict=True):
        days.setdefault(time.date(), []).append(value)
    every = pd.date_range(min(days), max(days)).date if days else []
    each = [known(days.get(day, [])) for day in every]
    daily = column.resample("D")
    agree(daily.sum, [total(v) for v in each])
    agree(daily.mean, [mean(v) for v in each])
    agree(daily.median, [quantile(v, 0.5) for v in each])
    agree(daily.max, [max(v, default=None) for v in each])
    agree(daily.first, [next(iter(v), None) for v in each])
    assert daily.count().tolist() == [len(v) for v in each]
    spans = [
        known(
            [w for u, w in zip(times, values, strict=True) if time - pd.Timedelta("2D") < u <= time]
        )
        for time in times
    ]
    agree(lambda: rolling(column, "2D").sum(), [total(v) if v else None for v in spans])
    agree(lambda: rolling(column, "2D").mean(), [mean(v) for v in spans])


@law(pairs, decimals)
def test_choices_between_columns(rows: Any, bound: Decimal) -> None:
    left, right = [a for a, _ in rows], [b for _, b in rows]
    table = pd.DataFrame({"x": series(left), "y": series(right)})
    above = [a is not None and a > bound for a in left]
    assert table.query("x > @bound").index.tolist() == [i for i, yes in enumerate(above) if yes]
    agree(lambda: table.eval("x + y"), elementwise(EIGHTY.add, rows))
    chosen = [a if yes else b for yes, (a, b) in zip(above, rows, strict=True)]
    agree(lambda: table["x"].where(table["x"] > bound, table["y"]), chosen)
    agree(lambda: table["x"].fillna(table["y"]), [b if a is None else a for a, b in rows])
    agree(lambda: table["x"].combine_first(table["y"]), [b if a is None else a for a, b in rows])
    agree(
        lambda: table[["x", "y"]].sum(axis=1),
        [total(list(row)) for row in rows],
    )
    assert table["x"].equals(table["y"]) == (left == right)
    same = pd.util.hash_pandas_object(table["x"]) == pd.util.hash_pandas_object(table["y"])
    assert same.tolist() == [a == b for a, b in rows]
    integers = pd.Series([None if v is None else int(v) % 1000 for v in right], dtype="Int64")
    agree(
        lambda: pd.concat([table["x"], integers]),
        [*left, *(None if v is None else Decimal(int(v) % 1000) for v in right)],
    )


@law(pairs)
def test_numpy_functions(rows: Any) -> None:
    left, right = series(a for a, _ in rows), series(b for _, b in rows)
    agree(lambda: np.maximum(left, right), elementwise(max, rows))
    agree(lambda: np.fmin(left, right), [min(known(list(r)), default=None) for r in rows])
    single = [(a,) for a, _ in rows]
    floor, ceiling = ROUND_FLOOR, ROUND_CEILING
    agree(lambda: np.floor(left), elementwise(lambda v: v.to_integral(floor, EIGHTY), single))
    agree(lambda: np.ceil(left), elementwise(lambda v: v.to_integral(ceiling, EIGHTY), single))
    agree(lambda: np.sign(left), elementwise(lambda v: Decimal((v > 0) - (v < 0)), single))


@pytest.mark.slow
@pytest.mark.parametrize("check", LAWS[__name__], ids=lambda check: check.__name__)
def test_at_length(check: Any) -> None:
    settings(max_examples=2000, deadline=None)(check)()
