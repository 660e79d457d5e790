"""What changed between two periods, and which transfers made it: by number, mix, average, price."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final, NamedTuple

import narwhals as nw
import pyarrow as pa

from fundlab.analysis.counting import completed, is_taken, moment_of, span_in, transfer_columns
from fundlab.analysis.engines import MONEY, TEXT, TEXT_TYPE, FrameT, Workbench
from fundlab.base.arrow import AMOUNT_TYPE, exact_table
from fundlab.base.errors import AnalysisError, shorten
from fundlab.base.periods import period_before
from fundlab.base.values import in_units, of_units
from fundlab.tables.transfers import TEXTS, ZERO, Basis, Rows, change, moved_asset

__all__ = ["explain"]
__dir__ = __all__.copy  # what completion offers

Segment = tuple[str, ...]
"""Asset, direction, and what the periods are taken apart by."""

MOST: Final = 20
"""Transfers that one driver names at most."""
DRIVERS: Final = {"count": "how many", "mix": "which types", "average": "how large",
                  "price": "at which price"}  # fmt: skip
"""In words, of transfers."""
_CENT: Final = 10**16
_NUMBERS: Final = ("before", "after", "difference", "explained")


class _Sums(NamedTuple):
    """Of a segment, in units of 10^-18: what ``moved`` is worth, at one price the quantity."""

    number: int
    moved: int
    quantity: int


def explain(
    before: FrameT,
    after: object = None,
    by: str | Sequence[str] = "type",
    value: str | None = None,
    materiality: str | Decimal = "0.05",
    period: str | None = None,
    tz: str = "UTC",
    basis: Basis | None = None,
) -> FrameT:
    """``asset``, ``direction``, the columns ``by``, ``driver``, ``before``, ``after``,
    ``difference``, ``explained`` (decimals, a debit less than nothing), ``transfers`` (ids), by
    asset, the largest first: what completed transfers moved in two periods, split so that the
    differences add up to the last digit. They have as many decimals as the sums.

    Of the transfers of an asset and direction, ``count`` is what their number changed at the mix
    and averages before, ``mix`` what their distribution over ``by`` changed at those averages (all
    of a kind that is new), ``average`` the rest. With ``value``, a column of values in one
    currency that :func:`fundlab.value.of` gave (such as ``total_value``), all assets are taken
    together, and ``price`` is what their prices changed.

    ``before`` and ``after`` are all of that kind in each period; without ``after``, ``before`` has
    those of both, ``period`` (such as ``2026-10`` in the zone ``tz``, by ``basis``) and the one
    before it. A driver of at least the share ``materiality`` of the larger period names transfers,
    which makes its row worth reading first: those that make most of it first, until less than that
    is left or there are 20; ``explained`` is what they make. For an average these
    are transfers far from the average of the other period; for count and mix each has its part by
    its size. Raises :class:`AnalysisError` for missing columns and invalid rows.

    >>> first, second = transfers.head(3), transfers.head(2).assign(id=["u1", "u2"])
    >>> grown = second.assign(total=pd.array(["1500", "225"], dtype="decimal"))
    >>> found = fl.flux.explain(first, grown)
    >>> found[["type", "driver", "before", "after", "difference", "transfers"]]
                          type   driver  before  after  difference transfers
    0             WIRE_DEPOSIT  average    1000   1500         500        u1
    1          WIRE_WITHDRAWAL    count    -225   -225       112.5        t2
    2          WIRE_WITHDRAWAL      mix    -225   -225      -112.5        u2
    3  INTERNAL_TRANSFER_DEBIT    count     -60      0          30      <NA>
    4  INTERNAL_TRANSFER_DEBIT      mix     -60      0          30      <NA>
    """
    keys = ["asset", "direction", *([by] if isinstance(by, str) else by)]
    keys = [*dict.fromkeys(keys)]
    ours = {*TEXTS, *_NUMBERS, "count", "driver", "moved", "quantity", "total", "transfers"}
    if taken := [key for key in keys if is_taken(key, ours, TEXTS)]:
        raise AnalysisError(
            f"by={taken[0]!r}: this analysis has a column of that name; give another, or rename it"
        )
    try:
        share = Fraction(Decimal(materiality)) if isinstance(materiality, str | Decimal) else None
    except (InvalidOperation, ValueError, OverflowError):
        share = None
    if share is None or not 0 < share <= 1:
        raise AnalysisError(f"materiality={shorten(materiality)}: give a share such as '0.05'")
    at = moment_of(basis)
    if (after is None) == (period is None):
        raise AnalysisError(
            "give after=, the transfers of the later period; or period= without it, such as "
            "'2026-10', of the one frame that has both"
        )
    spans: list[tuple[int, int] | None] = [None, None]
    if period is not None:
        after = before
        spans = [span_in(before, name, tz) for name in (period_before(period, tz), period)]
    with Workbench(before) as bench:
        sides = [
            _moves(bench, rows, keys, value, at, span)
            for rows, span in zip((before, after), spans, strict=True)
        ]
        found = [_sums(bench, rows, keys) for rows in sides]

        def whole(segment: Segment) -> Segment:
            """What its mix is of."""
            return segment[1:2] if value else segment[:2]

        def unit(segment: Segment) -> Segment:
            """What its amounts may be added up with."""
            return () if value else segment[:1]

        nothing = _Sums(0, 0, 0)
        numbers: dict[Segment, list[int]] = defaultdict(lambda: [0, 0])
        sizes: dict[Segment, list[int]] = defaultdict(lambda: [0, 0])
        steps: dict[Segment, int] = defaultdict(lambda: _CENT)
        for side, sums in enumerate(found):
            for segment, one in sums.items():
                numbers[whole(segment)][side] += one.number
                sizes[unit(segment)][side] += abs(one.moved)
                while one.moved % steps[unit(segment)]:
                    steps[unit(segment)] //= 10
        drivers = [
            (segment, driver, was, now, difference)
            for segment in {**found[0], **found[1]}
            for was, now in [[sums.get(segment, nothing) for sums in found]]
            for driver, difference in _drivers(
                was, now, numbers[whole(segment)], steps[unit(segment)]
            ).items()
            if difference
        ]
        drivers.sort(key=lambda one: (unit(one[0]), -abs(one[4]), one[:2]))
        limits = {one: share * max(size) for one, size in sizes.items()}
        material = [one for one in drivers if abs(one[4]) >= limits[unit(one[0])]]
        segments = {one[0] for one in material}
        ends = [_extremes(bench, rows, keys, segments) for rows in sides]
        lines = []
        for segment, driver, was, now, difference in drivers:
            makers: tuple[list[str], Fraction] = [], Fraction(0)
            if segment in segments:
                limit = limits[unit(segment)]
                rows_of = [end.get(segment, []) for end in ends]
                makers = _makers(driver, was, now, difference, rows_of, limit)
            made = _nearest(makers[1], steps[unit(segment)])
            amounts = (was.moved, now.moved, difference, made)
            named = " ".join(makers[0]) or None
            lines.append((*segment, driver, *map(of_units, amounts), named))
        types = dict.fromkeys((*keys, "driver"), TEXT_TYPE)
        types |= {**dict.fromkeys(_NUMBERS, AMOUNT_TYPE), "transfers": TEXT_TYPE}
        schema = pa.schema([*types.items()])
        return bench.give(exact_table(schema, lines), schema)


def _moves(
    bench: Workbench[Any], rows: object, keys: Sequence[str], value: str | None, at: str,
    span: tuple[int, int] | None,
) -> Rows:  # fmt: skip
    """The completed rows, of ``span`` by the times ``at``: ``quantity``, their signed change, and
    ``moved``, that or its value."""
    extra = dict.fromkeys(keys, TEXT) | ({value: MONEY} if value else {})
    want = transfer_columns(at, **extra)
    needed = ("id", "total", at, *([value] if value else []))
    moved = completed(bench, rows, want, *needed).with_columns(asset=moved_asset())
    if span is not None:
        moved = moved.filter(nw.col(at) >= span[0], nw.col(at) < span[1])
    return moved.with_columns(
        *(nw.coalesce(nw.col(name), nw.lit("")) for name in keys),
        quantity=change(),
        moved=change(value or "total"),
    )


def _sums(bench: Workbench[Any], rows: Rows, keys: Sequence[str]) -> dict[Segment, _Sums]:
    sums = rows.group_by(*keys).agg(
        count=nw.len().cast(nw.Int64),
        moved=nw.col("moved").sum(),
        quantity=nw.col("quantity").sum(),
    )
    return {
        tuple(row[name] for name in keys): _Sums(
            row["count"], in_units(row["moved"]), in_units(row["quantity"])
        )
        for row in bench.collect(sums).to_pylist()
    }


def _drivers(was: _Sums, now: _Sums, numbers: Sequence[int], step: int) -> dict[str, int]:
    """The parts of what ``now`` is more than ``was``, of ``numbers`` of transfers in all, in
    multiples of ``step``; they add up exactly, whatever was rounded."""
    number, number_now = numbers
    at_old_prices = now.moved
    if was.quantity and now.number:
        at_old_prices = _nearest(Fraction(now.quantity * was.moved, was.quantity), step)
    price = {"price": now.moved - at_old_prices}
    if not was.number:
        return {"mix" if number else "count": at_old_prices}
    count = _nearest(Fraction(was.moved * (number_now - number), number), step)
    at_old_average = _nearest(Fraction(now.number * was.moved, was.number), step)
    mix = at_old_average - was.moved - count
    return {"count": count, "mix": mix, "average": at_old_prices - at_old_average, **price}


def _extremes(
    bench: Workbench[Any], rows: Rows, keys: Sequence[str], segments: Collection[Segment]
) -> dict[Segment, list[tuple[str, int, int]]]:
    """Id, moved and quantity of the largest and the smallest transfers of each of ``segments``."""
    columns = zip(*segments, strict=True) if segments else [[] for _ in keys]
    arrays = [pa.array(column, TEXT_TYPE) for column in columns]
    chosen = rows.join(bench.constant(pa.table(arrays, names=keys)), on=list(keys), how="inner")
    one = nw.col("one").cum_sum()
    ranked = chosen.with_columns(one=nw.lit(1), less=ZERO - nw.col("moved")).with_columns(
        up=one.over(*keys, order_by=["moved", "id"]), down=one.over(*keys, order_by=["less", "id"])
    )
    ends = ranked.filter((nw.col("up") <= MOST) | (nw.col("down") <= MOST))
    extremes: dict[Segment, list[tuple[str, int, int]]] = defaultdict(list)
    for row in bench.collect(ends.select(*keys, "id", "moved", "quantity")).to_pylist():
        amounts = in_units(row["moved"]), in_units(row["quantity"])
        extremes[tuple(row[name] for name in keys)].append((row["id"], *amounts))
    return extremes


def _makers(
    driver: str,
    was: _Sums,
    now: _Sums,
    difference: int,
    ends: Sequence[list[tuple[str, int, int]]],
    limit: Fraction,
) -> tuple[list[str], Fraction]:
    """The transfers that make most of ``difference``, until less than ``limit`` is left of it, and
    how much they make: those of one period, whichever takes fewer of them."""
    before, after = ends
    price = Fraction(was.moved, was.quantity) if was.quantity else Fraction(1)
    ways: list[list[tuple[Fraction, str]]] = []
    if driver == "price":
        ways = [[(moved - quantity * price, id_) for id_, moved, quantity in after]]
    elif driver == "average":
        old, new = Fraction(was.moved, was.number), now.quantity * price / now.number
        ratio = Fraction(now.number, was.number)
        ways = [
            [(quantity * price - old, id_) for id_, _, quantity in after],
            [(ratio * (new - moved), id_) for id_, moved, _ in before],
        ]
    else:
        more = (difference > 0) == ((was.moved or now.moved) > 0)
        side, whole = (after, now.moved) if more else (before, was.moved)
        side, whole = (side, whole) if whole else (before or after, was.moved or now.moved)
        ways = [[(Fraction(difference * moved, whole), id_) for id_, moved, _ in side]]
    sign, outcomes = (1 if difference > 0 else -1), []
    for way in ways:
        named: list[str] = []
        made = Fraction(0)
        for part, id_ in sorted(way, key=lambda one: (-sign * one[0], one[1]))[:MOST]:
            if sign * part <= 0 or abs(difference - made) < limit:
                break
            named, made = [*named, id_], made + part
        left = abs(difference - made)
        rank = (left >= limit, len(named) if left < limit else left)
        outcomes.append((rank, named, made))
    return min(outcomes, key=lambda one: one[0])[1:]


def _nearest(amount: Fraction, step: int) -> int:
    return round(amount / step) * step
