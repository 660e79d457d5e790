"""The kernels of two words against Python's integers and fractions, at every size of number."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fundlab.decimals import DecimalArray, int128, text
from fundlab.decimals.int128 import LIMIT, ONE
from fundlab.decimals.scalars import format_one, parse_one

pytestmark = pytest.mark.usefixtures("both_ways")

Pairs = list[tuple[int, int]]


def numbers(rng: random.Random, bits: int, count: int) -> list[int]:
    """Of up to so many bits, a third of them round, half below zero."""
    found = []
    for _ in range(count):
        number = min(rng.getrandbits(rng.randint(1, bits)), LIMIT - 1)
        if rng.random() < 0.3:
            step = 10 ** rng.randint(0, len(str(number)))
            number = number // step * step
        found.append(number * rng.choice((1, -1)))
    return found


def array(values: list[int]) -> DecimalArray:
    return DecimalArray._of(int128.from_ints(values), np.zeros(len(values), bool))


def ints(values: DecimalArray) -> list[int]:
    return int128.to_ints(values._units)


@pytest.mark.parametrize("left_bits", [20, 60, 64, 84, 100, 126])
@pytest.mark.parametrize("right_bits", [10, 58, 66, 90, 126])
def test_quotients_products_and_comparisons(left_bits: int, right_bits: int) -> None:
    rng = random.Random(left_bits * 1000 + right_bits)
    left, right = numbers(rng, left_bits, 200), [n or 1 for n in numbers(rng, right_bits, 200)]
    pairs = list(zip(left, right, strict=True))
    divided = [(a, b) for a, b in pairs if abs(Fraction(a * ONE, b)) < LIMIT - 1]
    times = [(a, b) for a, b in pairs if abs(a * b) < (LIMIT - 1) * ONE]
    for chosen, by, exactly in (
        (divided, lambda a, b: a / b, lambda a, b: round(Fraction(a * ONE, b))),
        (times, lambda a, b: a * b, lambda a, b: round(Fraction(a * b, ONE))),
    ):
        a, b = array([a for a, _ in chosen]), array([b for _, b in chosen])
        assert ints(by(a, b)) == [exactly(*pair) for pair in chosen]
        for one in chosen[:3]:  # either side alone
            few = [pair for pair in chosen if abs(exactly(pair[0], one[1])) < LIMIT]
            scalar = Decimal(format_one(one[1]))
            assert ints(by(array([a for a, _ in few]), scalar)) == [
                exactly(a, one[1]) for a, _ in few]  # fmt: skip
    a, b = array(left), array(right)
    assert (a > b).tolist() == [x > y for x, y in pairs]
    assert (a == b).tolist() == [x == y for x, y in pairs]
    for one in (*right[:3], left[0]):
        scalar = Decimal(format_one(one))
        assert (a <= scalar).tolist() == [x <= one for x in left]
        assert (a < scalar).tolist() == [x < one for x in left]
        assert (a == scalar).tolist() == [x == one for x in left]


def test_ties_go_to_the_even_neighbour() -> None:
    rows = [n * ONE // 2 + k for n in range(-50, 50) for k in (-1, 0, 1)]
    column = array(rows)
    for places in range(-3, 18):
        step = 10 ** (18 - places)
        near = [round(Fraction(n, step)) * step for n in rows]
        assert ints(column.round(places)) == near
        halves = array([n * step // 2 for n in range(-99, 99)])
        assert ints(halves.round(places)) == [
            round(Fraction(n, 2)) * step for n in range(-99, 99)]  # fmt: skip
    odd = list(range(-999, 999))
    assert ints(array(odd) * Decimal("0.5")) == [round(Fraction(n, 2)) for n in odd]
    assert ints(array(odd) / 2) == [round(Fraction(n, 2)) for n in odd]


@pytest.mark.parametrize("bits", [1, 30, 33, 64, 70, 84, 100, 126])
def test_order_distinct_values_and_extremes(bits: int) -> None:
    rng = random.Random(bits)
    for rows in (1, 2, 3, 5, 6, 600):
        values = numbers(rng, bits, rows)
        values += values[: rows // 3] + [values[0]] * 9
        column, series = array(values), pd.Series(values, dtype=object)
        assert column.argsort().tolist() == sorted(range(len(values)), key=values.__getitem__)
        assert ints(column.unique()) == series.unique().tolist()
        codes, distinct = column.factorize()
        assert [ints(distinct)[code] for code in codes] == values
        units = column._units
        assert int128.extreme(units, True) == max(values)
        assert int128.extreme(units, False) == min(values)
        among = set(values[::7]) | {12345}
        assert column.isin(array(list(among))).tolist() == [one in among for one in values]
    spread = [*numbers(rng, 40, 3_000), LIMIT - 1]  # one far away, so that the rest share 32 bits
    assert array(spread).argsort().tolist() == sorted(range(len(spread)), key=spread.__getitem__)


@pytest.mark.parametrize("bits", [1, 59, 60, 64, 83, 84, 103, 104, 105, 126])
def test_text_both_ways(bits: int) -> None:
    rng = random.Random(bits)
    values = [*numbers(rng, bits, 1_000), 0, 1, -1]
    values += [n for k in range(38) for n in (10**k - 1, 10**k, -(10**k)) if n < 1 << bits]
    missing = np.array([rng.random() < 0.1 for _ in values])
    expected = [None if no else format_one(n) for n, no in zip(values, missing, strict=True)]
    units = int128.from_ints([0 if no else n for n, no in zip(values, missing, strict=True)])
    assert text.to_text(units, missing).to_pylist() == expected
    written = [
        None
        if one is None
        else rng.choice(("", "+", "0" if bits < 120 else ""))[: not one.startswith("-")] + one
        for one in expected
    ]
    read, gone = text.parse(pa.array([None, *written], pa.large_string())[1:])
    assert (int128.to_ints(read), gone.tolist()) == (int128.to_ints(units), missing.tolist())


@pytest.mark.parametrize(
    "wrong",
    ["", ".", "1.", "-", "--1", "1..2", "1.2.3", "1e5", "1 ", "１", "1.1234567890123456789",
     "1-", "+-1", "123456789012345678901", "12345678.9.1234567", "1\0", "-.", "/1", ":1",
     "0" * 21, "." + "0" * 19],
)  # fmt: skip
def test_text_that_is_no_amount(wrong: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        parse_one(wrong, 0)
    for beside in ([wrong], ["1.5", wrong], [wrong, "123456789012.123456789012345678"]):
        with pytest.raises((ValueError, OverflowError), match="at position"):
            text.parse(pa.array(beside))


@pytest.mark.thorough
def test_random_expressions_agree_with_fractions() -> None:
    """100,000 values of random trees of + - * / round and whole powers, each rounding once."""
    rng = random.Random(20261122)
    checked, rows = 0, 500
    while checked < 100_000:
        bits = rng.choice((40, 60, 75))
        columns = [numbers(rng, bits, rows) for _ in range(3)]
        left, exact = array(columns[0]), [Fraction(n, ONE) for n in columns[0]]
        for _ in range(rng.randint(1, 4)):
            other = rng.choice(columns)
            right, fractions = array(other), [Fraction(n, ONE) for n in other]
            match rng.choice("+-*/rn"):
                case "+":
                    left, exact = (
                        left + right,
                        [a + b for a, b in zip(exact, fractions, strict=True)],
                    )
                case "-":
                    left, exact = (
                        right - left,
                        [b - a for a, b in zip(exact, fractions, strict=True)],
                    )
                case "*":
                    exact = [half_even(a * b) for a, b in zip(exact, fractions, strict=True)]
                    if max(map(abs, exact)) * ONE >= LIMIT:
                        break
                    left = left * right
                case "/":
                    divisors = [n or ONE for n in other]
                    exact = [half_even(a / Fraction(n, ONE))
                             for a, n in zip(exact, divisors, strict=True)]  # fmt: skip
                    if max(map(abs, exact)) * ONE >= LIMIT:
                        break
                    left = left / array(divisors)
                case "r":
                    places = rng.randint(-2, 17)
                    step = Fraction(10) ** -places
                    left, exact = left.round(places), [round(a / step) * step for a in exact]
                case "n":
                    factor = rng.randint(-9, 9)
                    left, exact = left * factor, [a * factor for a in exact]
            if max(map(abs, exact)) * ONE * 10 >= LIMIT:
                break
            assert ints(left) == [a * ONE for a in exact]
            checked += rows


def half_even(value: Fraction) -> Fraction:
    return Fraction(round(value * ONE), ONE)
