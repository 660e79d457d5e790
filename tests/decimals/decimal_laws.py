"""Drawing decimal columns at their edges, and Python's Decimal at 80 digits to compare them with.

`law` makes a Hypothesis test of a check; ``LAWS`` keeps them by module, to be run at length too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fundlab.decimals import DecimalArray

EIGHTY = Context(prec=80, rounding=ROUND_HALF_EVEN, Emax=10**6, Emin=-(10**6))
STEP = Decimal("1e-18")
LIMIT = Decimal(10) ** 20
LARGEST = 10**38 - 1

LAWS: dict[str, list[Callable[..., None]]] = defaultdict(list)


def law(*strategies: Any) -> Callable[[Any], Any]:
    def register(check: Any) -> Any:
        held = given(*strategies)(check)
        LAWS[check.__module__].append(held)
        return settings(max_examples=30, deadline=None)(given(*strategies)(check))

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


# ---- expecting


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


def scattered(rows: Any, transform: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """A result for each row, from one for each group's rows in order."""
    queues = {key: iter(transform(values)) for key, values in groups(rows).items()}
    return [next(queues[key]) for key, _ in rows]
