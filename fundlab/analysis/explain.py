"""Differences between rebuilt and reported balances, and the transfers that could make them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any, Final

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.analysis import rows as counted
from fundlab.analysis.causes import Break, Evidence, Row, find_causes
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

Pair = tuple[str, str]
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
_WANTED: Final = wanted(
    "transfers",
    {"balance_asset": TEXT, "group_id": TEXT, "ref_id": TEXT},
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
    blame. The rows of profiles with differences are held in memory. Raises
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
        compared = bench.collect(judged(rebuilt, latest(bench, reported)))
        suspects = _suspected(compared, observed)
        rows = _rows_of(bench, transfers, suspects)
        opened = _opened(bench, opening)
        breaks = [*_breaks(compared, observed, rows, opened)]
        evidence = _evidence(rows, breaks)
        result: FrameT = bench.give_table(_table(breaks, evidence))
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


def _suspected(compared: pa.Table, observed: Mapping[Pair, Sequence[Any]]) -> list[str]:
    """Profiles with a difference, or with a past to look into."""
    broken = compared.filter(pc.not_equal(compared.column("status"), "match"))
    watched = {pair[0] for pair, entries in observed.items() if len(entries) > 1}
    return sorted({*broken.column("profile_id").to_pylist(), *watched})


def _rows_of(bench: Workbench, transfers: object, profiles: Sequence[str]) -> list[Row]:
    """Every row of the profiles, the other halves of their internal transfers, and the halves
    that are alone anywhere."""
    taken = bench.take(transfers, _WANTED)
    chosen = bench.constant(pa.table({"profile_id": pa.array(profiles, pa.string())}))
    theirs = taken.join(chosen, on="profile_id", how="semi")
    internal = taken.filter(
        nw.col("type").is_in(["INTERNAL_TRANSFER_DEBIT", "INTERNAL_TRANSFER_CREDIT"]),
        ~nw.col("group_id").is_null(),
    )
    sides = internal.group_by("group_id").agg(first=nw.col("type").min(), last=nw.col("type").max())
    alone = sides.filter(nw.col("first") == nw.col("last")).select("group_id")
    groups = nw.concat([alone, theirs.select("group_id")]).unique()
    halves = internal.join(groups, on="group_id", how="semi")
    found = bench.collect(theirs.sort("created_at", "id")).to_pylist()
    known = {row["id"] for row in found}
    others = bench.collect(halves.sort("created_at", "id")).to_pylist()
    rows = [*found, *(row for row in others if row["id"] not in known)]
    return [_row(place, row) for place, row in enumerate(rows)]


def _row(place: int, row: dict[str, Any]) -> Row:
    amounts = {name: units(row[name] or Decimal(0)) for name in ("amount", "fee", "total")}
    return Row(
        id=row["id"],
        profile_id=row["profile_id"],
        asset=row["balance_asset"] or row["asset"],
        sent=row["asset"],
        credit=row["direction"] == "CREDIT",
        type=row["type"] or "",
        status=row["status"],
        created=row["created_at"] or 0,
        updated=row["updated_at"] or row["created_at"] or 0,
        group_id=row["group_id"],
        ref_id=row["ref_id"],
        place=place,
        **amounts,
    )


def _opened(bench: Workbench, opening: object) -> Mapping[Pair, int]:
    rows = bench.collect(counted.opening_balances(bench, opening)).to_pylist()
    return {(row["profile_id"], row["asset"]): units(row["opened"]) for row in rows}


# ------------------------------------------------------------------- which interval, how much


def _breaks(
    compared: pa.Table,
    observed: Mapping[Pair, Sequence[dict[str, Any]]],
    rows: Sequence[Row],
    opened: Mapping[Pair, int],
) -> Iterator[Break]:
    by_pair: dict[Pair, list[Row]] = defaultdict(list)
    for row in rows:
        by_pair[row.profile_id, row.asset].append(row)
    for line in sorted(compared.to_pylist(), key=lambda line: (line["profile_id"], line["asset"])):
        pair = line["profile_id"], line["asset"]
        entries = observed.get(pair, ())
        total = units(line["difference"])
        if len(entries) > 1:
            yield from _jumps(pair, entries, by_pair[pair], opened.get(pair, 0), total)
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
    pair: Pair, entries: Sequence[dict[str, Any]], rows: Sequence[Row], opened: int, total: int
) -> Iterator[Break]:
    """Each interval over which the difference changes. The balance at an observation is found by
    bisection among the running sums of everything that ever moved it."""
    moves = sorted(move for row in rows for move in row.moves)
    moments = [at for at, _ in moves]
    sums = [*accumulate((amount for _, amount in moves), initial=opened)]
    before, first = 0, None
    for entry in entries:
        now = entry.get("difference")
        if now is None:
            now = entry["total"] - sums[bisect_right(moments, entry["at"])]
        if now != before:
            yield Break(
                *pair, now - before, first, entry["at"], entry["at"], trading=entry["trading"]
            )
        before, first = now, entry["at"]
    if total != before:
        yield Break(*pair, total - before, first, None, first, trading=entries[-1]["trading"])


def _evidence(rows: Sequence[Row], breaks: Sequence[Break]) -> Evidence:
    by_place: dict[Pair, list[Row]] = defaultdict(list)
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_place[row.profile_id, row.asset].append(row)
        by_place[row.profile_id, ""].append(row)
        if row.internal and row.group_id:
            groups[row.group_id].append(row)
    orphans = [half[0] for half in groups.values() if len({row.type for row in half}) == 1]
    return Evidence(by_place, orphans, groups, breaks)


def _table(breaks: Sequence[Break], evidence: Evidence) -> pa.Table:
    lines = [
        (*(found.profile_id, found.asset), decimal(found.difference), rank, cause.cause,
         cause.transfer_id, decimal(cause.amount), cause.detail)
        for found in breaks
        for rank, cause in enumerate(find_causes(found, evidence), start=1)
    ]  # fmt: skip
    values = zip(*lines, strict=True) if lines else [()] * len(_RESULT)
    arrays = [
        pa.array(list(column), field.type) for column, field in zip(values, _RESULT, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=_RESULT)
