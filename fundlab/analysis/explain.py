"""Differences between rebuilt and reported balances, and the transfers that could make them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from fundlab.analysis import rows as counted
from fundlab.analysis.candidates import evidence, narrowed, rebuilt_at
from fundlab.analysis.causes import FEW_BALANCES, Break, Cause, Pair, find_causes
from fundlab.analysis.compare import REPORTED, judged, latest, rebuilt_balances
from fundlab.analysis.engines import (
    MONEY,
    MONEY_TYPE,
    TEXT,
    TIME,
    FrameT,
    Wanted,
    Workbench,
    column_names,
    columns,
    wanted,
)
from fundlab.analysis.units import decimal, units

_RESULT: Final = columns(
    profile_id=pa.string(),
    asset=pa.string(),
    difference=MONEY_TYPE,
    rank=pa.int64(),
    cause=pa.string(),
    transfer_id=pa.string(),
    amount=MONEY_TYPE,
    detail=pa.string(),
)
_MOMENT: Final = columns(profile_id=pa.string(), asset=pa.string(), at=pa.int64())
_WANTED: Final = wanted(
    "transfers",
    {"balance_asset": TEXT, "group_id": TEXT, "ref_id": TEXT, "crypto_network": TEXT},
    id=TEXT,
    profile_id=TEXT,
    asset=TEXT,
    direction=TEXT,
    type=TEXT,
    status=TEXT,
    amount=MONEY,
    fee=MONEY,
    total=MONEY,
    created_at=TIME,
    updated_at=TIME,
)
_ASSERTIONS: Final = Wanted("assertions", REPORTED.columns, REPORTED.optional)
_DIFFERENCES: Final = wanted(
    "assertions", profile_id=TEXT, asset=TEXT, difference=MONEY, observed_at=TIME
)


def explain(
    transfers: FrameT, reported: object, assertions: object = None, opening: object = None
) -> FrameT:
    """``profile_id``, ``asset``, ``difference``, ``rank`` (int64, 1 the likeliest), ``cause``,
    ``transfer_id``, ``amount``, ``detail``, sorted: what could make each difference that
    :func:`compare` finds; empty when everything matches.

    ``assertions`` are balances observed over time: ``store.read("balances")`` (the columns of
    ``reported``), or ``store.assertions()`` of a store that has every transfer, which knows what
    each differed by. With them each difference is narrowed to the interval between the last
    observation that agreed and the first that did not, several in one balance are told apart
    (``difference`` is then that of the interval), and one that came and went is found too. Of
    plain observations, past balances are rebuilt from when transfers were made, completed or
    failed (``updated_at``). For ``transfers`` that are not the store's own rows (a copy of them,
    altered or older) give the plain observations: ``store.assertions()`` knows only how the store's
    own rows differed, and would narrow to where those agreed.

    A cause is listed only if its ``amount`` (reported less rebuilt) is exactly the difference.
    Causes stand in the order of :data:`fundlab.analysis.causes.CAUSES`, the best of each first;
    ``missing_transfer`` always is one of them. ``transfer_id`` is missing where no transfer is to
    blame, or too many look alike. Give all transfers, not only those of the profiles that differ:
    the other half of an internal transfer and the fees that others pay may be in sound profiles.
    The rows of the balances that differ are held in memory, as Arrow columns. Raises
    :class:`AnalysisError` as :func:`compare` does. Interface §2.4, §2.5.

    >>> reported = pd.DataFrame(
    ...     {
    ...         "profile_id": ["main", "spare"],
    ...         "asset": "USD",
    ...         "available": pd.array(["614.50", "60"], dtype="decimal"),
    ...         "trading": pd.array(["0", "0"], dtype="decimal"),
    ...         "observed_at": pd.Timestamp("2026-10-31", tz="UTC"),
    ...     }
    ... )
    >>> known = transfers[transfers["id"] != "t3"]
    >>> causes = fl.reconcile.explain(known, reported)
    >>> causes[["profile_id", "difference", "cause", "amount"]].head(1)
      profile_id  difference         cause  amount
    0       main         -60  missing_half     -60
    >>> print(causes["detail"].iloc[0])
    the debit half of group g1 is missing; t4 is there
    """
    with Workbench(transfers) as bench:
        rebuilt = rebuilt_balances(bench, transfers, opening)
        observed = _observations(bench, reported, assertions)
        opened = bench.collect(counted.opening_balances(bench, opening))
        compared = bench.collect(judged(rebuilt, latest(bench, reported))).to_pylist()
        rows = narrowed(bench.take(transfers, _WANTED))
        past = rebuilt_at(bench, rows, _moments(observed))
        breaks = [*_breaks(compared, observed, _opened(opened), past)]
        found = evidence(bench, rows, breaks, opened, begins_late=_begins_late(compared))
        causes = [(one, find_causes(one, place, found)) for place, one in enumerate(breaks)]
        result: FrameT = bench.give_table(_table(causes))
        return result


def _observations(
    bench: Workbench, reported: object, assertions: object
) -> Mapping[Pair, list[dict[str, Any]]]:
    """Every observed balance by profile and asset, oldest first."""
    found: dict[Pair, list[dict[str, Any]]] = defaultdict(list)
    asserted = _ASSERTIONS
    if assertions is not None and "difference" in column_names(assertions):
        asserted = _DIFFERENCES
    for frame, want in ((assertions, asserted), (reported, REPORTED)):
        if frame is None or (want is REPORTED and asserted is _DIFFERENCES):
            continue
        rows = bench.take(frame, want)
        counted.refuse(bench, rows, *map(counted.gap, want.columns), label=want.frame)
        for row in bench.collect(rows).to_pylist():
            trading = units(row.get("trading", Decimal(0)))
            total = units(row["available"]) + trading if "available" in row else None
            entry = {"at": row["observed_at"], "total": total, "trading": trading}
            if total is None:
                entry["difference"] = units(row["difference"])
            if entry not in found[row["profile_id"], row["asset"]]:
                found[row["profile_id"], row["asset"]].append(entry)
    for entries in found.values():
        entries.sort(key=lambda entry: entry["at"])
    return found


def _moments(observed: Mapping[Pair, Sequence[dict[str, Any]]]) -> pa.Table:
    """The moments of which the difference is not known yet, where there are several."""
    lines = [
        (*pair, entry["at"])
        for pair, entries in observed.items()
        if len(entries) > 1
        for entry in entries
        if "difference" not in entry
    ]
    columns = zip(*lines, strict=True) if lines else [()] * len(_MOMENT)
    arrays = [
        pa.array(list(values), field.type) for values, field in zip(columns, _MOMENT, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=_MOMENT)


def _opened(rows: pa.Table) -> Mapping[Pair, int]:
    return {(row["profile_id"], row["asset"]): units(row["opened"]) for row in rows.to_pylist()}


# ------------------------------------------------------------------- which interval, how much


def _breaks(
    compared: Sequence[Mapping[str, Any]],
    observed: Mapping[Pair, Sequence[dict[str, Any]]],
    opened: Mapping[Pair, int],
    past: Mapping[tuple[str, str, int], int],
) -> Iterator[Break]:
    for line in sorted(compared, key=lambda line: (line["profile_id"], line["asset"])):
        pair = line["profile_id"], line["asset"]
        entries = observed.get(pair, ())
        total = units(line["difference"])
        if len(entries) > 1:
            yield from _jumps(pair, entries, opened.get(pair, 0), past, total)
        elif total:
            last = entries[-1] if entries else None
            yield Break(
                *pair,
                total,
                observed=None if last is None else last["at"],
                reported=line["reported"] is not None,
                trading=0 if last is None else last["trading"],
            )


def _jumps(
    pair: Pair,
    entries: Sequence[dict[str, Any]],
    opened: int,
    past: Mapping[tuple[str, str, int], int],
    total: int,
) -> Iterator[Break]:
    """Each interval over which the difference changes."""
    before, first = 0, None
    for entry in entries:
        now = entry.get("difference")
        if now is None:
            now = entry["total"] - opened - past[*pair, entry["at"]]
        if now != before:
            yield Break(
                *pair, now - before, first, entry["at"], entry["at"], trading=entry["trading"]
            )
        before, first = now, entry["at"]
    if total != before:
        yield Break(*pair, total - before, first, None, first, trading=entries[-1]["trading"])


def _begins_late(compared: Sequence[Mapping[str, Any]]) -> bool:
    """Most balances are higher at the service, as where earlier transfers are not there."""
    known = [line for line in compared if line["rebuilt"] is not None]
    higher = [line for line in known if line["difference"] > 0]
    return len(known) >= FEW_BALANCES and 2 * len(higher) > len(known)


def _table(causes: Sequence[tuple[Break, Sequence[Cause]]]) -> pa.Table:
    lines = [
        (*(found.profile_id, found.asset), decimal(found.difference), rank, cause.cause,
         cause.transfer_id, decimal(cause.amount), cause.detail)
        for found, every in causes
        for rank, cause in enumerate(every, start=1)
    ]  # fmt: skip
    values = zip(*lines, strict=True) if lines else [()] * len(_RESULT)
    arrays = [
        pa.array(list(column), field.type) for column, field in zip(values, _RESULT, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=_RESULT)
