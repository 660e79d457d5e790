"""Balances observed against balances rebuilt, from one publication of the transfers to the next.

Each observation says which publication of the transfers it belongs to, so no clock is involved:
between two of them the reported balance must change by what the transfers learned of in between
change it. Counted is the available balance: completed transfers, and pending debits as holds. A
transfer without a total, a direction or a state counts nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.store.parts import FROM, TO
from fundlab.store.problems import Problem, plain
from fundlab.store.snapshot import Snapshot
from fundlab.store.versions import find_ends, read_versions
from fundlab.tables.schema import AMOUNT_TYPE, INSTANT_TYPE
from fundlab.values import EXACT

COMPLETED: Final = ("COMPLETED", "COMPLETE")  # the second: interface §2.4, the note
_WIDE: Final = pa.decimal256(60, 18)

_COLUMNS: Final = ("id", "profile_id", "asset", "balance_asset", "direction", "status", "total")

ASSERTED: Final = pa.schema(
    [
        ("profile_id", pa.string()),
        ("asset", pa.string()),
        ("observed_at", INSTANT_TYPE),
        *((name, AMOUNT_TYPE) for name in ("reported", "rebuilt", "difference")),
        ("complete", pa.bool_()),
    ]
)

_STEP: Final = ["profile_id", "asset", "seq", "change"]

Pair = tuple[str, str]


@dataclass(frozen=True)
class Observation:
    """A balance as reported and as the transfers of publication ``seq`` make it.

    ``since`` is where the transfers of the store begin, ``None`` if it has them all.
    """

    at: str
    seq: int
    since: str | None
    reported: Decimal
    rebuilt: Decimal


@dataclass(frozen=True)
class Move:
    """What a version of a transfer does to a balance, and the publications it stood between."""

    id: str
    status: str
    change: Decimal
    since: int
    until: int | None

    def stands_at(self, seq: int) -> bool:
        return self.since <= seq and (self.until is None or self.until > seq)


def broken_intervals(transfers: Snapshot, balances: Snapshot) -> tuple[list[Problem], int]:
    """Every interval in which the two disagree, and how many intervals there are.

    The first observation is compared with nothing before it where the store has all transfers.
    """
    problems, count = [], 0
    for pair, observations in _observations(transfers, balances).items():
        before: Observation | None = None
        for now in observations:
            if before is not None and before.since != now.since:
                before = None
            if before is not None or now.since is None:
                count += 1
                surplus = _surplus(before, now)
                if surplus:
                    problems.append(_break(transfers, pair, before, now, surplus))
            before = now
    return problems, count


def asserted_balances(transfers: Snapshot, balances: Snapshot) -> pa.Table:
    """Every observation, oldest first: ``profile_id``, ``asset``, ``observed_at``, ``reported``,
    ``rebuilt``, ``difference``, and ``complete``: whether the store has all transfers before it.
    """
    found = [
        (*pair, pd.Timestamp(entry.at), entry.reported, entry.rebuilt,
         EXACT.subtract(entry.reported, entry.rebuilt), entry.since is None)
        for pair, observations in _observations(transfers, balances).items()
        for entry in observations
    ]  # fmt: skip
    found.sort(key=lambda entry: (entry[2], *entry[:2]))
    columns = zip(*found, strict=True) if found else [()] * len(ASSERTED)
    arrays = [pa.array(c, kind) for c, kind in zip(columns, ASSERTED.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ASSERTED)


def _observations(transfers: Snapshot, balances: Snapshot) -> Mapping[Pair, list[Observation]]:
    proved_by = {entry.seq: entry.proved_by for entry in balances.publications}
    begins = {entry.seq: entry.query.get("since") for entry in transfers.publications}
    rebuilt = _balances_by_publication(transfers)
    rows = [
        row
        for part in balances.files
        for _, found in read_versions(part, {}, balances.table.schema)
        for row in found.drop_columns([TO]).to_pylist()
    ]
    rows.sort(key=lambda row: (row[FROM], row["observed_at"]))
    found: dict[Pair, list[Observation]] = {}
    for row in rows:
        seq = proved_by.get(row[FROM])
        if seq is None or seq > transfers.limit:
            continue  # proves nothing, or was published after the moment asked for
        pair = row["profile_id"], row["asset"]
        reported = EXACT.add(row["available"], row["trading"])
        at = row["observed_at"].isoformat()
        balance = _at(rebuilt.get(pair, ()), seq)
        found.setdefault(pair, []).append(Observation(at, seq, begins.get(seq), reported, balance))
    return found


def _balances_by_publication(transfers: Snapshot) -> Mapping[Pair, list[tuple[int, Decimal]]]:
    """For each profile and asset: the balance from each publication that changed it on."""
    steps = []
    for moves in _moves(transfers):
        steps.append(_step(moves, FROM, moves.column("change")))
        gone = moves.filter(pc.is_valid(moves.column(TO)))
        steps.append(_step(gone, TO, pc.negate(gone.column("change"))))
    if not steps:
        return {}
    sums = _summed(pa.concat_tables(steps)).sort_by("seq")
    found: dict[Pair, list[tuple[int, Decimal]]] = {}
    for row in sums.to_pylist():
        balances = found.setdefault((row["profile_id"], row["asset"]), [])
        last = balances[-1][1] if balances else Decimal(0)
        balances.append((row["seq"], EXACT.add(last, row["change"])))
    return found


def _step(moves: pa.Table, seq: str, change: pa.ChunkedArray) -> pa.Table:
    columns = [moves.column(name) for name in ("profile_id", "asset", seq)]
    return _summed(pa.table([*columns, change], names=_STEP))


def _summed(steps: pa.Table) -> pa.Table:
    sums = steps.group_by(_STEP[:3]).aggregate([(_STEP[3], "sum")])
    return sums.select([*_STEP[:3], f"{_STEP[3]}_sum"]).rename_columns(_STEP)


def _at(balances: Sequence[tuple[int, Decimal]], seq: int) -> Decimal:
    place = bisect_right(balances, seq, key=lambda entry: entry[0])
    return balances[place - 1][1] if place else Decimal(0)


def _moves(transfers: Snapshot) -> Iterator[pa.Table]:
    """Every version: ``id``, ``profile_id``, ``asset`` (the one that changes), ``status``, the
    signed ``change``, and between which publications it stood."""
    columns = pa.schema([transfers.table.schema.field(name) for name in _COLUMNS])
    ends = find_ends(transfers)
    for part in transfers.files:
        for _, rows in read_versions(part, ends, columns):
            status, total = rows.column("status"), rows.column("total").cast(_WIDE)
            credit = pc.equal(rows.column("direction"), "CREDIT")
            done = pc.is_in(status, value_set=pa.array(COMPLETED))
            counts = pc.if_else(credit, done, pc.invert(pc.equal(status, "FAILED")))
            signed = pc.if_else(credit, total, pc.negate(total))
            nothing = pa.scalar(Decimal(0), _WIDE)
            change = pc.fill_null(pc.if_else(counts, signed, nothing), nothing)
            yield pa.table(
                {
                    "id": rows.column("id"),
                    "profile_id": rows.column("profile_id"),
                    "asset": pc.coalesce(rows.column("balance_asset"), rows.column("asset")),
                    "status": status,
                    "change": change,
                    FROM: rows.column(FROM),
                    TO: rows.column(TO),
                }
            )


def _surplus(before: Observation | None, now: Observation) -> Decimal:
    """By how much more the service's balance changed than the transfers say."""
    surplus = EXACT.subtract(now.reported, now.rebuilt)
    if before is None:
        return surplus
    return EXACT.subtract(surplus, EXACT.subtract(before.reported, before.rebuilt))


def _break(
    transfers: Snapshot, pair: Pair, before: Observation | None, now: Observation, surplus: Decimal
) -> Problem:
    profile_id, asset = pair
    begin = "the beginning" if before is None else before.at
    reported = now.reported if before is None else EXACT.subtract(now.reported, before.reported)
    rebuilt = now.rebuilt if before is None else EXACT.subtract(now.rebuilt, before.rebuilt)
    moves = _moves_of(transfers, pair)
    return Problem(
        "balances",
        "balance",
        f"profile {profile_id}, {asset}, from {begin} to {now.at}",
        f"a change of {plain(rebuilt)}, as the transfers say",
        f"a change of {plain(reported)}",
        _cause(moves, 0 if before is None else before.seq, now.seq, surplus, asset),
    )


def _moves_of(transfers: Snapshot, pair: Pair) -> list[Move]:
    found = []
    for moves in _moves(transfers):
        mine = pc.and_(
            pc.equal(moves.column("profile_id"), pair[0]), pc.equal(moves.column("asset"), pair[1])
        )
        found += [
            Move(row["id"], row["status"] or "", row["change"] or Decimal(0), row[FROM], row[TO])
            for row in moves.filter(mine).to_pylist()
        ]
    return found


def _cause(moves: list[Move], after: int, seq: int, surplus: Decimal, asset: str) -> str:
    """The likeliest reason for the service's balance having changed by ``surplus`` more."""
    for move in moves:
        if (
            move.status == "PENDING"
            and move.change == surplus.copy_negate()
            and move.stands_at(seq)
        ):
            return f"the service does not hold the pending transfer {move.id}"
    for move in moves:
        if move.change == surplus and move.since > seq:
            return f"transfer {move.id} belongs here, but was learned of only later"
    for move in moves:
        if move.change == surplus.copy_negate() and after < move.since and move.stands_at(seq):
            return f"transfer {move.id} is not in the service's balance"
    return f"a transfer of {plain(surplus)} {asset} is missing here"
