"""Sums, running sums, order statistics and the rest for the rows of each group.

Everywhere `ids` holds the group of each row, from 0 to `count` - 1, or -1 for rows of no group,
in any order. Integer kernels are pandas' own, reached through the same hook of its masked arrays
that pandas calls on this column.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, Overflow
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from fundlab.base.exact import EXACT
from fundlab.decimals import int128, kernels, wide
from fundlab.decimals.int128 import (
    ONE,
    SCALE,
    Bools,
    Column,
    Floats,
    Ints,
    Positions,
    Units,
    cleared,
)
from fundlab.decimals.wide import Wide

PANDAS: Final = tuple(map(int, pd.__version__.split(".")[:2]))
_CHUNK = 1 << 22  # rows whose 30-bit limbs sum exactly in the float64 of np.bincount


def sums(column: Column, ids: Positions, count: int, *, min_count: int, skipna: bool) -> Column:
    """Exact sums, or OverflowError; missing below `min_count` values."""
    units, missing = column
    limbs, minus = wide.magnitude(_summed(units, ids, count), count)
    gone = (_counts(~missing, ids, count) < min_count) | _spoilt(missing, ids, count, skipna)
    return wide.join_present(limbs, minus, gone), gone


def means(column: Column, ids: Positions, count: int, *, skipna: bool) -> Column:
    """Means rounded half-even at 18 decimals, exact also where the sum itself would not fit."""
    units, missing = column
    limbs, minus = wide.magnitude(_summed(units, ids, count), count)
    present = _counts(~missing, ids, count)
    quotient = wide.divide_half_even(limbs, [np.maximum(present, 1)])
    gone = (present == 0) | _spoilt(missing, ids, count, skipna)
    return wide.join_present(quotient, minus, gone), gone


def running_sums(column: Column, ids: Positions, count: int, *, skipna: bool) -> Column:
    """Exact running sums, or OverflowError."""
    units, missing = column
    words = np.ascontiguousarray(units[:, 0])
    lows = _pandas(words, missing, "cumsum", ids, count, skipna=skipna)
    sums_low = lows.to_numpy(np.uint64, na_value=0)
    # A low word that came out smaller than what was just added has wrapped around: carry one.
    tops = units[:, 1] + ((sums_low < words) & ~missing)
    highs = _pandas(tops, missing, "cumsum", ids, count, skipna=skipna)
    out = np.stack([sums_low, highs.to_numpy(np.uint64, na_value=0)], axis=1)
    out, gone = cleared(out, np.asarray(lows.isna(), bool) | (ids < 0))
    return int128.checked(out), gone  # no single step can pass over the range unseen


def by_rank(column: Column, ids: Positions, count: int, how: str, **kwargs: Any) -> Any:
    """pandas' own answer for the ranks of the values; how is rank, idxmin, min, cummax …"""
    units, missing = column
    codes, distinct = int128.ranks(units)
    answer = _pandas(codes, missing, how, ids, count, **kwargs)
    if how not in {"min", "max", "cummin", "cummax"}:
        return answer
    gone = np.asarray(answer.isna(), bool)
    if how.startswith("cum"):
        gone |= ids < 0
    if not len(distinct):
        return np.zeros((len(gone), 2), np.uint64), gone
    chosen = int128.take(distinct, answer.to_numpy(np.intp, na_value=0))
    return cleared(chosen, gone)


def ends(
    missing: Bools, ids: Positions, count: int, how: str, *, min_count: int, skipna: bool
) -> Positions:
    """The row of each group's first or last value, -1 for none."""
    rows = np.flatnonzero((ids >= 0) & ~missing) if skipna else np.flatnonzero(ids >= 0)
    out = np.full(count, -1, np.intp)
    if how == "first":
        rows = rows[::-1]
    out[ids[rows]] = rows  # of several rows of a group the last one written stays
    out[_counts(~missing, ids, count) < min_count] = -1
    return out


def quantiles(
    column: Column, ids: Positions, count: int, qs: Floats | list[float], interpolation: str
) -> Column:
    """Each group's quantiles, group by group, rounded half-even at 18 decimals.

    A float of `qs` stands for the decimal it prints as: 0.1 is one tenth.
    """
    units, missing = column
    rows = np.flatnonzero((ids >= 0) & ~missing)
    rows = rows.take(int128.order(units if len(rows) == len(units) else int128.take(units, rows)))
    if count > 1:
        rows = rows[np.argsort(ids[rows], kind="stable")]
    sizes = _counts(~missing, ids, count)
    starts = np.cumsum(sizes) - sizes
    empty = sizes == 0
    ordered = int128.take(units, rows) if len(rows) else np.zeros((1, 2), np.uint64)
    parts = []
    for q in qs:
        top, bottom = Decimal(repr(float(q))).as_integer_ratio()
        if not 0 <= top <= bottom:
            raise ValueError(f"q={q!r}: expected numbers from 0 to 1")
        before, after, weight = _interpolation(sizes, top, bottom, interpolation)
        left = int128.take(ordered, np.where(empty, 0, starts + before))
        right = int128.take(ordered, np.where(empty, 0, starts + after))
        parts.append(_between(left, right, weight, bottom))
    out = np.stack(parts, axis=1).reshape(-1, 2) if parts else np.zeros((0, 2), np.uint64)
    return cleared(out, np.repeat(empty, len(qs)))


def medians(column: Column, ids: Positions, count: int, *, skipna: bool) -> Column:
    units, gone = quantiles(column, ids, count, [0.5], "linear")
    return cleared(units, gone | _spoilt(column[1], ids, count, skipna))


def statistics(column: Column, ids: Positions, count: int, how: str, **kwargs: Any) -> Any:
    """Float64 var, std, sem, skew or kurt, of the exact distances from each group's mean."""
    units, missing = column
    centres, _ = means(column, ids, count, skipna=True)
    floats = distances(units, int128.take(centres, np.maximum(ids, 0)) if count else units)
    values = pd.arrays.FloatingArray(floats, missing.copy())
    return _hook(values, how, ids, count, **kwargs)


def distances(units: Units, centre: Units) -> Floats:
    """units - centre as floats; where a distance does not fit, the floats of the values."""
    try:
        return int128.to_floats(int128.subtract(units, centre))
    except OverflowError:
        return int128.to_floats(units)


def products(column: Column, ids: Positions, count: int, *, min_count: int, skipna: bool) -> Column:
    """Products rounded once, half-even, at 18 decimals. Makes a Python Decimal of each value."""
    units, missing = column
    out = [Decimal(1)] * count
    for group, value, gone in zip(ids.tolist(), _decimals(units), missing.tolist(), strict=True):
        if group >= 0 and not gone:
            out[group] = EXACT.multiply(out[group], value)
    gone = _counts(~missing, ids, count) < min_count
    gone |= _spoilt(missing, ids, count, skipna)
    known = [Decimal(1) if lost else one for one, lost in zip(out, gone.tolist(), strict=True)]
    return cleared(_rounded(known), gone)


def powers(units: Units, exponent: int) -> Units:
    """Powers rounded half-even at 18 decimals. Makes a Python Decimal of each value."""
    try:
        return _rounded([EXACT.power(value, exponent) for value in _decimals(units)])
    except Overflow:
        raise int128.overflow() from None


def running_products(column: Column, ids: Positions, count: int, *, skipna: bool) -> Column:
    """Running products, each rounded half-even at 18 decimals but carried on in full.

    Makes a Python Decimal of each value.
    """
    units, missing = column
    state = [Decimal(1)] * count
    spoilt = [False] * count
    out, lost = [], []
    for group, value, gone in zip(ids.tolist(), _decimals(units), missing.tolist(), strict=True):
        if group >= 0 and gone and not skipna:
            spoilt[group] = True
        if group < 0 or gone or spoilt[group]:
            out.append(Decimal(0))
            lost.append(True)
            continue
        state[group] = EXACT.multiply(state[group], value)
        out.append(state[group])
        lost.append(False)
    return _rounded(out), np.array(lost, bool)


def truths(column: Column, ids: Positions, count: int, how: str, **kwargs: Any) -> Any:
    """`any` and `all` of the values being other than zero."""
    units, missing = column
    values = pd.arrays.BooleanArray(int128.nonzero(units), missing.copy())
    return _hook(values, how, ids, count, **kwargs)


def _summed(units: Units, ids: Positions, count: int) -> Wide:
    """Signed limbs of the sum of each group, none of them rounded."""
    if kernels.library:
        words = np.zeros((count, 3), np.uint64)
        kernels.call("group_totals", units, ids, len(units), words)
        second, third = words[:, 1].view(np.int64), words[:, 2].view(np.int64)
        beyond = (third + (second < 0)) << 8  # of 2**120: the split takes `second` with its sign
        return wide.plus(wide.signed_split(words), [np.zeros(1, np.int64)] * 4 + [beyond])
    sums = [np.zeros(count + 1, np.int64) for _ in range(5)]
    rows_at_once = min(max(int128.BLOCK, 4 * count), _CHUNK)
    for start in range(0, len(units), rows_at_once):
        rows = slice(start, start + rows_at_once)
        inside = ids[rows] + 1  # rows of no group go to a group of their own, which is dropped
        for i, limb in enumerate(wide.signed_split(units[rows])):
            sums[i] += np.bincount(inside, limb, count + 1).astype(np.int64)
    return [one[1:] for one in sums]


def _counts(which: Bools, ids: Positions, count: int) -> Ints:
    return np.bincount(ids[which] + 1, minlength=count + 1)[1:].astype(np.int64)


def _spoilt(missing: Bools, ids: Positions, count: int, skipna: bool) -> Bools:
    """Groups that are missing because one of their values is, unless `skipna`."""
    if skipna or not missing.any():
        return np.zeros(count, bool)
    return _counts(missing, ids, count) > 0


def _interpolation(
    sizes: Ints, top: int, bottom: int, interpolation: str
) -> tuple[Ints, Ints, list[int]]:
    """For groups of these sizes: the ranks on both sides of the quantile top / bottom, and how
    far the second weighs, in parts of `bottom`."""
    before, after, weight = np.zeros_like(sizes), np.zeros_like(sizes), [0] * len(sizes)
    distinct, where = np.unique(sizes, return_inverse=True)
    steps = [divmod(top * max(int(size) - 1, 0), bottom) for size in distinct]
    chosen = [_chosen(rank, part, bottom, interpolation) for rank, part in steps]
    if chosen:
        before = np.array([c[0] for c in chosen], np.int64)[where]
        after = np.array([c[1] for c in chosen], np.int64)[where]
        weight = [chosen[i][2] for i in where.tolist()]
    return before, after, weight


def _chosen(rank: int, part: int, bottom: int, interpolation: str) -> tuple[int, int, int]:
    if part == 0 or interpolation == "lower":
        return rank, rank, 0
    if interpolation == "linear":
        return rank, rank + 1, part
    if interpolation == "higher":
        return rank + 1, rank + 1, 0
    if interpolation == "nearest":
        up = 2 * part > bottom or (2 * part == bottom and rank % 2 == 1)
        return rank + up, rank + up, 0
    if interpolation == "midpoint":
        return rank, rank + 1, -1  # half, whatever `bottom` is
    raise ValueError(
        f"interpolation={interpolation!r}: expected linear, lower, higher, nearest or midpoint"
    )


def _between(left: Units, right: Units, weight: list[int], bottom: int) -> Units:
    """left + (right - left) * weight / bottom, rounded half-even."""
    halves = [2 * w if w >= 0 else bottom for w in weight]
    far = _limbs(halves)
    near = _limbs([2 * bottom - w for w in halves])
    limbs: Wide = []
    for units, share in ((left, near), (right, far)):
        size, minus = wide.split(units)
        signed = [np.where(minus, -limb, limb) for limb in wide.times(size, share)]
        limbs = wide.plus(limbs, signed)
    size, minus = wide.magnitude(limbs, len(left))
    return wide.join(wide.divide_half_even(size, wide.constant(2 * bottom)), minus)


def _limbs(values: list[int]) -> Wide:
    """Python integers, not negative, as limbs; there are few different ones."""
    distinct = sorted(set(values))
    place = {value: i for i, value in enumerate(distinct)}
    where = np.array([place[value] for value in values], np.intp)
    width = max((value.bit_length() for value in distinct), default=0) // 30 + 1
    mask = (1 << 30) - 1
    return [
        np.array([(value >> (30 * k)) & mask for value in distinct], np.int64)[where]
        for k in range(width)
    ]


def _pandas(
    values: npt.NDArray[Any], missing: Bools, how: str, ids: Positions, count: int, **kwargs: Any
) -> Any:
    return _hook(pd.arrays.IntegerArray(values, missing.copy()), how, ids, count, **kwargs)


def _hook(values: Any, how: str, ids: Positions, count: int, **kwargs: Any) -> Any:
    kwargs = {"has_dropped_na": False, "min_count": -1, **kwargs}
    if PANDAS < (3, 0) and not how.startswith("cum"):  # which skips always
        kwargs.pop("skipna", None)
    return values._groupby_op(how=how, ngroups=count, ids=ids, **kwargs)


def _decimals(units: Units) -> list[Decimal]:
    scale = Decimal((0, (1,), -SCALE))
    return [EXACT.multiply(Decimal(value), scale) for value in int128.to_ints(units)]


def _rounded(values: Iterable[Decimal]) -> Units:
    """Decimals rounded half-even at 18 places, or OverflowError."""
    out = []
    for value in values:
        if value and value.adjusted() > SCALE + 1:  # 10**20 and more
            raise int128.overflow()
        out.append(int(EXACT.to_integral_value(EXACT.multiply(value, Decimal(ONE)))))
    return int128.checked(int128.from_ints(out))
