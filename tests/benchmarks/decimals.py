"""How fast the decimal column is, beside float64, columns of Decimal objects, and Polars.

Run ``python tests/benchmarks/decimals.py [ROWS] [--polars]``. For 1,000,000 rows of signed money
with two decimals in 1,400 groups it prints milliseconds (the best of several), what the column
takes as a multiple of float64's time, how many times faster than Decimal objects it is, and whether
it reaches the bars of the project. With ``--polars``, operations on money of 2 decimals and on
amounts of 18 run in turn with those of Polars' decimals on one thread: shown are medians of CPU
time, and each may take at most 1.5 times Polars'. Exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fundlab.decimals import DecimalArray

ROWS = 1_000_000
GROUPS = 1_400


class Bar(NamedTuple):
    times_float: float | None = None  # at most so many times float64's time
    times_faster: float | None = None  # at least so many times as fast as objects


BARS = {
    "a + b": Bar(15, 20),
    "a * b": Bar(None, 1),
    "a / b": Bar(None, 1),
    "sum": Bar(15, 20),
    "cumsum": Bar(15, 20),
    "groupby.sum": Bar(4),
    "groupby.cumsum": Bar(4),
}
BYTES = 17.0


POLARS_BAR = 1.5
RUNS = 7  # of each, in turn


def pace(rows: int, only: list[str]) -> int:
    """Beside Polars; 1 where an operation takes more than its bar."""
    os.environ["POLARS_MAX_THREADS"] = "1"  # read when Polars is imported
    pl = importlib.import_module("polars")
    operations_of_both: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
        "add": (lambda f: f["a"] + f["b"], lambda p: p["a"] + p["b"]),
        "subtract": (lambda f: f["a"] - f["b"], lambda p: p["a"] - p["b"]),
        "multiply": (lambda f: f["b"] * f["b"], lambda p: p["b"] * p["b"]),
        "multiply by 3": (lambda f: f["a"] * 3, lambda p: p["a"] * 3),
        "divide": (lambda f: f["a"] / f["b"], lambda p: p["a"] / p["b"]),
        "round": (lambda f: f["a"].round(1), lambda p: p["a"].round(1)),
        "compare": (lambda f: f["a"] > f["b"], lambda p: p["a"] > p["b"]),
        "compare with 5": (lambda f: f["a"] > 5, lambda p: p["a"] > 5),
        "sort": (lambda f: f["a"].sort_values(), lambda p: p["a"].sort()),
        "max": (lambda f: f["a"].max(), lambda p: p["a"].max()),
        "sum": (lambda f: f["a"].sum(), lambda p: p["a"].sum()),
        "cumsum": (lambda f: f["a"].cumsum(), lambda p: p["a"].cum_sum()),
        "group sum": (
            lambda f: f.groupby("g")["a"].sum(),
            lambda p: p.group_by("g").agg(pl.col("a").sum()),
        ),
        "group cumsum": (
            lambda f: f.groupby("g")["a"].cumsum(),
            lambda p: p.select(pl.col("a").cum_sum().over("g")),
        ),
        "isin": (
            lambda f: f["a"].isin(f["a"][:100]),
            lambda p: p["a"].is_in(p["a"][:100].implode()),
        ),
        "unique": (lambda f: f["a"].unique(), lambda p: p["a"].unique()),
        "to text": (lambda f: f["a"].astype(str), lambda p: p["a"].cast(pl.String)),
        "from text": (
            lambda f: f["text"].astype("decimal"),
            lambda p: p["text"].str.to_decimal(scale=18),
        ),
    }
    if only:
        operations_of_both = {name: operations_of_both[name] for name in only}
    missed = []
    print(f"{rows:,} rows, milliseconds of CPU, one thread, medians of {RUNS} paired runs")
    for kind in ("2 decimals", "18 decimals"):
        rng = np.random.default_rng(20261101)
        if kind == "2 decimals":
            a = DecimalArray(rng.integers(-(10**9), 10**9, rows)) / 100
            b = DecimalArray(rng.integers(1, 10**6, rows)) / 100
        else:  # up to 2,000 before the point
            small, large = (DecimalArray(rng.integers(1, 10**18, rows)) for _ in range(2))
            a = small / 10**18 * 2000 - 1000
            b = large / 10**18 * 2000 + 1
        frame = pd.DataFrame({"a": a, "b": b, "g": rng.integers(0, GROUPS, rows)})
        frame["text"] = frame["a"].astype(str)
        theirs = pl.from_pandas(frame)
        print(f"\n{kind:16}{'ours':>10}{'Polars':>10}{'ratio':>8}")
        for name, (our_run, their_run) in operations_of_both.items():
            pairs = [
                (milliseconds(our_run, frame), milliseconds(their_run, theirs)) for _ in range(RUNS)
            ]
            ours, polars = (statistics.median(times) for times in zip(*pairs, strict=True))
            reached = ours <= POLARS_BAR * polars
            missed += [] if reached else [f"{name} ({kind})"]
            print(
                f"{name:16}{ours:10.2f}{polars:10.2f}{ours / polars:8.2f}"
                f"{'' if reached else '   MISSED'}"
            )
    print(f"\nbars missed: {', '.join(missed)}" if missed else "\nall bars reached")
    return 1 if missed else 0


def main(rows: int) -> int:
    columns = make_columns(rows)
    print(f"{rows:,} rows, milliseconds")
    print(f"{'':16}{'decimal':>10}{'float64':>10}{'objects':>10}{'x float64':>11}{'x faster':>10}")
    missed = [name for name, run in operations().items() if not report(name, run, columns)]
    size = columns["decimal"]["a"].memory_usage(index=False) / rows
    objects = columns["objects"]["a"].memory_usage(index=False, deep=True) / rows
    print(f"\nbytes a value: decimal {size:.1f}, float64 8.0, objects {objects:.1f}")
    if size > BYTES:
        missed.append("memory")
    print(f"bars missed: {', '.join(missed)}" if missed else "all bars reached")
    return 1 if missed else 0


def make_columns(rows: int) -> dict[str, dict[str, Any]]:
    rng = np.random.default_rng(20261101)
    cents, others = rng.integers(-(10**9), 10**9, rows), rng.integers(1, 10**6, rows)
    group = pd.Series(rng.integers(0, GROUPS, rows))
    decimals = {
        name: pd.Series(DecimalArray(values) / 100)
        for name, values in (("a", cents), ("b", others))
    }
    objects = {name: column.astype(object) for name, column in decimals.items()}
    floats = {name: column.astype("float64") for name, column in decimals.items()}
    text = decimals["a"].astype(str)
    return {
        name: {**values, "group": group, "text": text, "kind": name}
        for name, values in (("decimal", decimals), ("float64", floats), ("objects", objects))
    }


def operations() -> dict[str, Callable[[dict[str, Any]], Any]]:
    return {
        "a + b": lambda c: c["a"] + c["b"],
        "a * b": lambda c: c["a"] * c["b"],
        "a / b": lambda c: c["a"] / c["b"],
        "sum": lambda c: c["a"].sum(),
        "cumsum": lambda c: c["a"].cumsum(),
        "groupby.sum": lambda c: c["a"].groupby(c["group"]).sum(),
        "groupby.cumsum": lambda c: c["a"].groupby(c["group"]).cumsum(),
        "sort_values": lambda c: c["a"].sort_values(),
        "string parsing": parse,
        "formatting": lambda c: c["a"].astype(str),
    }


def parse(columns: dict[str, Any]) -> Any:
    text = columns["text"]
    if columns["kind"] == "objects":
        return pd.Series([Decimal(one) for one in text], dtype=object)
    return text.astype(columns["kind"])


def report(name: str, run: Callable[[Any], Any], columns: dict[str, dict[str, Any]]) -> bool:
    decimal, floats = best_of_both(run, columns["decimal"], columns["float64"])
    try:
        objects = min(milliseconds(run, columns["objects"]) for _ in range(3))
    except TypeError:  # pandas cannot, as with groupby.cumsum
        objects = float("nan")
    bar = BARS.get(name, Bar())
    reached = (bar.times_float is None or decimal <= bar.times_float * floats) and (
        bar.times_faster is None or objects >= bar.times_faster * decimal
    )
    ratios = f"{decimal / floats:11.1f}{objects / decimal:10.1f}"
    print(f"{name:16}{decimal:10.2f}{floats:10.2f}{objects:10.1f}{ratios}{described(bar, reached)}")
    return reached


def described(bar: Bar, reached: bool) -> str:
    wanted = [f"<= {bar.times_float:g} x float64"] if bar.times_float else []
    wanted += [f">= {bar.times_faster:g} x faster than objects"] if bar.times_faster else []
    return f"   {'ok' if reached else 'MISSED'}: {', '.join(wanted)}" if wanted else ""


def best_of_both(run: Callable[[Any], Any], one: Any, other: Any) -> tuple[float, float]:
    """The shortest times of both, three runs in turn, so that other work meets both alike."""
    first, second = [], []
    while len(first) < 6 or (len(first) < 99 and sum(first) + sum(second) < 1500):
        first += [milliseconds(run, one) for _ in range(3)]
        second += [milliseconds(run, other) for _ in range(3)]
    return min(first), min(second)


def milliseconds(run: Callable[[Any], Any], columns: dict[str, Any]) -> float:
    start = time.process_time()  # of the processor: waiting for other programs is left out
    run(columns)
    return (time.process_time() - start) * 1000


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", nargs="?", type=int, default=ROWS)
    parser.add_argument("--polars", action="store_true", help="beside Polars on one thread")
    parser.add_argument("--only", nargs="*", default=[], help="these operations beside Polars")
    given = parser.parse_args()
    sys.exit(pace(given.rows, given.only) if given.polars else main(given.rows))
