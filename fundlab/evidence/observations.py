"""Balances observed against balances rebuilt, by the rows known now.

An observation belongs to the transfers of the publication it came with, so no clock is involved:
what the transfers had moved a balance by until then is the sum of the versions that stood at that
publication, and of the transfers that a sync which widened the store brought later: they were there
before, although their publication is not. Counted is the available balance: completed transfers,
and pending debits as holds. A transfer without a total, a direction or a state counts nothing.

A transfer that is accepted as gone counts until the first observation made without it, and no more
from then on.

A store that begins at its first transfer has no opening. In one that begins later the opening of a
balance is taken over from the service: what was observed first, less what had moved it by then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, reduce
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import AMOUNT_TYPE, exact_table
from fundlab.base.errors import printable
from fundlab.base.exact import EXACT
from fundlab.base.pandas_hook import without_pandas
from fundlab.base.progress import with_progress
from fundlab.base.values import Instant, plain_text
from fundlab.store.parts import FROM, ROW_GROUP_ROWS, TO
from fundlab.store.snapshot import Snapshot, read_versions
from fundlab.tables.schema import INSTANT_TYPE

MAX_EXPLAINED: Final = 20
"""Breaks whose cause is looked for, in one pass over the transfers for all of them."""

_WIDE: Final = pa.decimal256(60, 18)
_NOTHING: Final = Decimal(0)
_NO_MONEY: Final = pa.scalar(_NOTHING, _WIDE)
_ALWAYS: Final = np.iinfo(np.int64).min
_STEP: Final = ["profile_id", "asset", "seq", "change"]
COLUMNS: Final = (
    "id", "profile_id", "asset", "balance_asset", "direction", "status", "total", "created_at",
    "updated_at",
)  # fmt: skip

ASSERTED: Final = pa.schema(
    [
        ("profile_id", pa.string()),
        ("asset", pa.string()),
        ("observed_at", INSTANT_TYPE),
        *((name, AMOUNT_TYPE) for name in ("reported", "rebuilt", "difference")),
        ("complete", pa.bool_()),
    ]
)

Pair = tuple[str, str]
Sums = tuple[dict[Pair, list[tuple[int, Decimal]]], dict[Pair, int], Counter[Pair], int]
Proof = Literal["now", "until", "no_longer_reported", "never_reported"]


@dataclass(frozen=True)
class Problem:
    """One thing that is not as it must be. ``where`` is a file, the id of a row or an interval;
    ``rule`` is ``file``, ``schema``, ``balance`` or one of ``checks.invariants``."""

    table: str
    rule: str
    where: str
    expected: str
    found: str
    cause: str = ""

    def __str__(self) -> str:
        because = f"; {self.cause}" if self.cause else ""
        return printable(
            f"{self.table}: {self.rule}: {self.where}: {self.found}, not {self.expected}{because}"
        )


def plain(value: Decimal | None) -> str:
    """``10.500000000000000000`` as ``10.5``, and never an exponent."""
    return "nothing" if value is None else plain_text(value)


@dataclass(frozen=True)
class Observation:
    """A balance as reported, and what the transfers of publication ``seq`` had moved it by."""

    at: int  # nanoseconds since 1970
    seq: int
    reported: Decimal
    moved: Decimal

    @property
    def difference(self) -> Decimal:
        return EXACT.subtract(self.reported, self.moved)


@dataclass(frozen=True)
class Account:
    """One balance: its opening, every observation of it, oldest first, and what the transfers
    had moved it by when the balances were last read (``due``) and now (``None``: nothing counts).
    ``newest`` is the newest publication of the transfers; ``answered``: the last one of balances in
    which the service said an amount, although it moved and was not kept (0: none); ``unanswered``:
    with which status it refused to, when the balances were last read (404: it has no such balance,
    200: its answer cannot be read). ``expected``: current transfers count, nobody could look, or
    the service has said an amount.
    """

    profile_id: str
    asset: str
    opening: Decimal
    observations: Sequence[Observation]
    due: Decimal
    now: Decimal | None
    newest: int
    answered: int
    unanswered: int | None
    expected: bool

    @property
    def proof(self) -> Proof:
        """How far what was reported goes: only an observation that belongs to the newest transfers
        says anything of now."""
        if self.answered and self.unanswered in (403, 404):
            return "no_longer_reported"
        if not self.observations:
            return "never_reported"
        belongs = self.observations[-1].seq >= self.newest and not self.moved_since
        return "now" if belongs else "until"

    @property
    def proved_until(self) -> int | None:
        """The last observation that agreed (ns)."""
        agreed = (one.at for one in reversed(self.observations) if not self.off(one))
        return next(agreed, None)

    def off(self, observation: Observation) -> Decimal:
        """Reported less rebuilt."""
        return EXACT.subtract(observation.difference, self.opening)

    @property
    def difference(self) -> Decimal:
        """As last observed; of a balance that the service does not have, less all of it."""
        if self.observations:
            return self.off(self.observations[-1])
        return EXACT.minus(self.due)

    @property
    def moved_since(self) -> Decimal:
        """By how much the transfers learned of after the last observation move it."""
        then = self.observations[-1].moved if self.observations else self.due
        return EXACT.subtract(self.now or _NOTHING, then)

    @property
    def broken(self) -> list[tuple[Observation | None, Observation]]:
        """The observations, since the last one that agreed, at which the difference changed,
        each with the one before it; none where the last one agrees."""
        found: list[tuple[Observation | None, Observation]] = []
        before, was = None, _NOTHING
        for now in self.observations:
            off = self.off(now)
            if not off:
                found.clear()
            elif off != was:
                found.append((before, now))
            before, was = now, off
        return found


@dataclass(frozen=True)
class Accounts:
    """Every balance observed or rebuilt, by profile and asset.

    ``begins`` is where the store's transfers begin (ns, ``None``: at the first one there is).
    ``shortfalls`` are sentences on rows that are not in it, ``accepted`` on what somebody accepted.
    ``no_longer_ours`` are those of profiles that were accepted as such: no verdict looks at them.
    """

    every: tuple[Account, ...]
    begins: int | None
    transfers: int
    shortfalls: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    no_longer_ours: tuple[Account, ...] = ()

    @property
    def compared(self) -> list[Account]:
        """Those the service was asked for, and has, or should have."""
        return [account for account in self.every if account.observations or account.due]

    @property
    def unobserved(self) -> list[Account]:
        """Those that the service should have, but has not shown yet."""
        return [a for a in self.every if a.expected and not (a.observations or a.due)]

    @property
    def intervals(self) -> int:
        """How many observations are proved by the transfers: in a store that begins late the
        first one of each balance is not."""
        count = sum(len(account.observations) for account in self.every)
        if self.begins is None:
            return count
        return count - sum(bool(account.observations) for account in self.every)


def read_accounts(transfers: Snapshot, balances: Snapshot) -> Accounts:
    """One pass over the transfers and one over the balances, both of one manifest."""
    with without_pandas():
        return accounts_of(transfers, balances, Moves(transfers).sums(looks_of(balances)))


def looks_of(balances: Snapshot) -> list[int]:
    """The publications in which balances were observed."""
    return [entry.seq for entry in balances.publications]


def accounts_of(transfers: Snapshot, balances: Snapshot, moved: Sums) -> Accounts:
    """The accounts where the transfers had ``moved`` so much; a pass over the balances."""
    sums, learned, standing, count = moved
    gone = _gone_changes(transfers)
    count -= len(transfers.accepted_gone)
    seen = _observations(balances, sums, gone)
    asked = balances.last
    last, query = (-1, {}) if asked is None else (asked.seq, asked.query)
    unsettled = {(profile, asset) for profile, asset in query.get("unsettled", ())}
    unanswered = {
        (profile, asset): status for profile, asset, status in query.get("unanswered", ())
    }
    unseen = unsettled.union(pair for pair, status in unanswered.items() if status != 404)
    answered = {pair: observations[-1].seq for pair, observations in seen.items()}
    for entry in balances.publications:
        for profile, asset, _ in entry.query.get("moving", ()):
            answered[profile, asset] = max(entry.seq, answered.get((profile, asset), 0))
    begins = transfers.begins
    every = []
    for pair in sorted({*sums, *answered, *unseen}):
        mine, observations = sums.get(pair, []), seen.get(pair, [])
        opening = observations[0].difference if observations and begins is not None else _NOTHING
        asked_for = pair in learned and learned[pair] <= last
        asked_for = asked_for and pair not in unseen  # what is not shown may be there
        due = _at(mine, last) if asked_for else _NOTHING
        now = mine[-1][1] if mine else None
        for first, moved_by in gone.get(pair, ()):
            if asked_for and first <= last:
                due = EXACT.subtract(due, moved_by)
            now = EXACT.subtract(now or _NOTHING, moved_by)
        counted = standing[pair] > len(gone.get(pair, ()))
        expected = counted or pair in unseen or pair in answered
        every.append(
            Account(*pair, opening, observations, due, now, transfers.limit, answered.get(pair, 0),
                    unanswered.get(pair), expected)
        )  # fmt: skip
    return Accounts(tuple(every), begins, count)


def _gone_changes(transfers: Snapshot) -> dict[Pair, list[tuple[int, Decimal]]]:
    """Of each balance the changes by transfers that are accepted as gone, and the first publication
    of the balances that was read without each."""
    found: dict[Pair, list[tuple[int, Decimal]]] = {}
    for rows in Moves(transfers) if transfers.accepted_gone else ():
        stand = pc.and_(pc.is_null(rows.column(TO)), rows.column("counts"))
        stand = pc.and_(stand, pc.is_in(rows.column("id"), value_set=transfers.gone_ids))
        for row in rows.filter(stand).to_pylist():
            pair = row["profile_id"], row["asset"]
            first = transfers.accepted_gone[row["id"]]
            found.setdefault(pair, []).append((first, row["change"]))
    return found


def moved_since(transfers: Snapshot, balances: Snapshot) -> list[list[str]]:
    """Profile, asset and amount: what the transfers published after the last observation of each
    balance add to it. A pass over the transfers only where the last look at the balances does not
    belong to the newest ones, or left some out."""
    last = balances.last
    if last is None:
        return []
    unproved = max(transfers.accepted_gone.values(), default=0) > last.seq
    all_seen = not {"unsettled", "unanswered"} & {*last.query}
    if last.seq >= transfers.limit and all_seen and not unproved:
        return []
    return [
        [account.profile_id, account.asset, plain(account.moved_since)]
        for account in read_accounts(transfers, balances).compared
        if account.moved_since
    ]


def broken_changes(
    accounts: Accounts, transfers: Snapshot, most: int
) -> tuple[list[Problem], int, int]:
    """The first ``most`` changes of balances that the transfers do not make, the first one of each
    balance before the others; how many of them are explained, at most :data:`MAX_EXPLAINED`; and
    how many there are."""
    first: list[_Break] = []
    later: list[_Break] = []
    for account in accounts.compared:
        mine = [_Break(account, before, now) for before, now in account.broken]
        if not account.observations and account.due:
            mine = [_Break(account, None, None)]
        first += mine[:1]
        later += mine[1:]
    every = first + later
    explained, others = every[:MAX_EXPLAINED], every[MAX_EXPLAINED:most]
    if explained:
        _look_for_causes(explained, Moves(transfers))
    problems = [one.problem(explained=True) for one in explained]
    problems += [one.problem(explained=False) for one in others]
    return problems, len(explained), len(every)


def asserted_balances(accounts: Accounts, *, opened: bool = False) -> pa.Table:
    """Every observation, oldest first: ``profile_id``, ``asset``, ``observed_at``, ``reported``,
    ``rebuilt`` (with the opening if ``opened``), ``difference``, and ``complete``: whether the
    store has all transfers before it."""
    found = []
    for account in accounts.every:
        opening = account.opening if opened else _NOTHING
        for entry in account.observations:
            rebuilt = EXACT.add(opening, entry.moved)
            off = EXACT.subtract(entry.reported, rebuilt)
            found.append((account.profile_id, account.asset, entry.at, entry.reported, rebuilt, off,
                          accounts.begins is None))  # fmt: skip
    found.sort(key=lambda entry: (entry[2], *entry[:2]))
    return exact_table(ASSERTED, found)


# ---------------------------------------------------------------------- what the transfers moved


@dataclass(frozen=True)
class Moves:
    """What every version of every transfer does to a balance, and between which publications."""

    transfers: Snapshot

    def sums(self, looks: Sequence[int], versions: Iterable[pa.Table] | None = None) -> Sums:
        """For each profile and asset what had moved it by each publication of ``looks`` until
        which something did, and by the last one; the publication in which it was learned of; how
        many current transfers count for it; and the number of all current ones. ``versions`` are
        all there are, in the order of the files, where somebody reads them anyway."""
        steps, count, ends = [], 0, np.array(sorted({*looks, self.transfers.limit}))
        learned: dict[Pair, int] = {}
        standing: Counter[Pair] = Counter()
        for rows in self._shown() if versions is None else self.of(versions):
            count += rows.column(TO).null_count
            rows = rows.filter(rows.column("counts"))
            by_pair = rows.group_by(["profile_id", "asset"])
            for profile, asset, seq, every, ended in zip(
                *by_pair.aggregate([("learned", "min"), ([], "count_all"), (TO, "count")])
                .to_pydict().values(), strict=True,
            ):  # fmt: skip
                learned[profile, asset] = min(seq, learned.get((profile, asset), seq))
                standing[profile, asset] += every - ended
            steps.append(_step(rows, FROM, rows.column("change"), ends))
            gone = rows.filter(pc.is_valid(rows.column(TO)))
            steps.append(_step(gone, TO, pc.negate(gone.column("change")), ends))
        found: dict[Pair, list[tuple[int, Decimal]]] = {}
        if not steps:
            return found, learned, standing, count
        every = _summed(pa.concat_tables(steps)).sort_by("seq")
        for profile, asset, seq, moved in zip(*every.to_pydict().values(), strict=True):
            balances = found.setdefault((profile, asset), [])
            last = balances[-1][1] if balances else _NOTHING
            balances.append((seq, EXACT.add(last, moved)))
        return found, learned, standing, count

    def _shown(self) -> Iterator[pa.Table]:
        total = sum(part.rows for part in self.transfers.files)
        return with_progress(
            ((rows.num_rows, rows) for rows in self), total, "adding up the transfers"
        )

    def __iter__(self) -> Iterator[pa.Table]:
        """Read from the files: see :meth:`of`."""
        columns = pa.schema([self.transfers.table.schema.field(name) for name in COLUMNS])
        return self.of(
            rows
            for part in self.transfers.files
            for rows in read_versions(part, self.transfers.replaced, columns)
        )

    def of(self, versions: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """``id``, ``profile_id``, ``asset`` (the one that changes), ``status``, ``counts``, the
        signed ``change``, in which publication it was ``learned``, and from and until which one it
        stood."""
        limit = self.transfers.limit
        # By publication: where the transfers known then began, and the newest moment of the
        # service's own clock.
        begun, seen = np.full(limit + 1, _ALWAYS), np.full(limit + 1, _ALWAYS)
        for entry in self.transfers.publications:  # those in between are of other tables
            begun[entry.seq :] = _ALWAYS if entry.begins is None else entry.begins
            marks = (Instant.parse(mark["at"]).ns for mark in entry.watermark.values())
            seen[entry.seq] = max(marks, default=_ALWAYS)
        seen = np.maximum.accumulate(seen)
        for rows in _together(versions):
            known = rows.filter(pc.less_equal(rows.column(FROM), limit))
            yield from _brought(_changes(known, limit), begun, seen)


def _together(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of many small ``tables`` in a few: what is computed of each costs more than its
    rows."""
    held: list[pa.Table] = []
    for rows in tables:
        held.append(rows)
        if sum(map(len, held)) >= ROW_GROUP_ROWS:
            yield pa.concat_tables(held).combine_chunks()
            held.clear()
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _brought(
    rows: pa.Table, begun: npt.NDArray[np.int64], seen: npt.NDArray[np.int64]
) -> Iterator[pa.Table]:
    """``rows``, those that a wider sync brought from the publication on that they were there:
    the beginning, and as a pending one until the last change to them was known."""
    since = rows.column(FROM).to_numpy()
    created = rows.column("created").fill_null(np.iinfo(np.int64).max).to_numpy()
    early = (created < begun[since - 1]) & (created >= begun[since])
    if not early.any():
        yield rows
        return
    yield rows.filter(pa.array(~early))
    old = rows.filter(pa.array(early))
    updated = old.column("updated").fill_null(_ALWAYS).to_numpy()
    changed = np.minimum(np.searchsorted(seen, updated), since[early])
    changed = pa.array(changed.astype(np.int32))
    zero = pa.scalar(0, pa.int32())
    place = old.schema.get_field_index
    yield old.set_column(place(FROM), FROM, changed)
    pending = {
        "status": pa.repeat(pa.scalar("PENDING"), old.num_rows),
        "counts": pc.and_(pc.invert(old.column("credit")), old.column("countable")),
        "change": pc.negate(old.column("amount")),
        FROM: pa.repeat(zero, old.num_rows),
        TO: changed,
    }
    for name, values in pending.items():
        old = old.set_column(place(name), name, values)
    yield old.filter(pc.greater(changed, zero))


def _changes(rows: pa.Table, limit: int) -> pa.Table:
    # not above: a sync that observes nothing has no use for them
    import narwhals as nw

    from fundlab.tables.transfers import change, counts, moved_asset

    until = rows.column(TO)  # null where it is replaced later than the moment asked for
    profile, direction = rows.column("profile_id"), rows.column("direction")
    total = rows.column("total").cast(_WIDE)
    rows = rows.set_column(rows.column_names.index("total"), "total", total)
    meant = nw.from_native(rows, eager_only=True).select(
        asset=moved_asset(), counts=counts("available"), change=change()
    )
    asset, counted, signed = meant.to_native().columns
    known = [pc.is_valid(column) for column in (profile, asset, total, direction)]
    countable = reduce(pc.and_, known)
    counted = pc.fill_null(pc.and_(counted, countable), False)
    credit = pc.equal(direction, "CREDIT")
    return pa.table(
        {
            "id": rows.column("id"),
            "profile_id": profile,
            "asset": asset,
            "status": rows.column("status"),
            "credit": credit,
            "amount": pc.fill_null(total, _NO_MONEY),
            "countable": countable,
            "counts": counted,
            "change": pc.if_else(counted, signed.cast(_WIDE), _NO_MONEY),
            "created": rows.column("created_at").cast(pa.int64()),
            "updated": rows.column("updated_at").cast(pa.int64()),
            "learned": rows.column(FROM),
            FROM: rows.column(FROM),
            TO: pc.if_else(pc.less_equal(until, limit), until, pa.scalar(None, pa.int32())),
        }
    )


def _step(
    moves: pa.Table, seq: str, change: pa.ChunkedArray, ends: npt.NDArray[np.int64]
) -> pa.Table:
    """What each balance was moved by between two of ``ends``, by the later one."""
    by = ends[np.searchsorted(ends, moves.column(seq).to_numpy())]
    columns = [moves.column("profile_id"), moves.column("asset"), pa.array(by), change]
    return _summed(pa.table(columns, names=_STEP))


def _summed(steps: pa.Table) -> pa.Table:
    sums = steps.group_by(_STEP[:3]).aggregate([(_STEP[3], "sum")])
    return sums.select([*_STEP[:3], f"{_STEP[3]}_sum"]).rename_columns(_STEP)


def _at(balances: Sequence[tuple[int, Decimal]], seq: int) -> Decimal:
    place = bisect_right(balances, seq, key=lambda entry: entry[0])
    return balances[place - 1][1] if place else _NOTHING


# ------------------------------------------------------------------------- what was observed


def _observations(
    balances: Snapshot,
    sums: Mapping[Pair, Sequence[tuple[int, Decimal]]],
    gone: Mapping[Pair, Sequence[tuple[int, Decimal]]],
) -> dict[Pair, list[Observation]]:
    """By profile and asset, oldest first."""
    rows = [
        row
        for part in balances.files
        for versions in read_versions(part, {}, balances.table.schema)
        for row in _reported(versions).to_pylist()
    ]
    rows.sort(key=lambda row: (row[FROM], row["at"]))
    found: dict[Pair, list[Observation]] = {}
    for row in rows:
        seq = row[FROM]
        if seq > balances.limit:  # published later than the moment asked for
            continue
        pair = row["profile_id"], row["asset"]
        moved = _at(sums.get(pair, ()), seq)
        for first, moved_by in gone.get(pair, ()):
            if first <= row[FROM]:
                moved = EXACT.subtract(moved, moved_by)
        found.setdefault(pair, []).append(Observation(row["at"], seq, row["reported"], moved))
    return found


def _reported(rows: pa.Table) -> pa.Table:
    sides = [rows.column(name).cast(_WIDE) for name in ("available", "trading")]
    return rows.select(["profile_id", "asset", FROM]).append_column(
        "at", rows.column("observed_at").cast(pa.int64())
    ).append_column("reported", pc.add(*sides))  # fmt: skip


# ---------------------------------------------------------------------------------- breaks


@dataclass
class _Break:
    """A change that the transfers do not make, from one observation (``None``: the beginning) to
    the next; without ``now`` a balance that the service does not have."""

    account: Account
    before: Observation | None
    now: Observation | None
    causes: dict[str, str] = field(default_factory=dict)
    """By kind: the first transfer that could be to blame."""

    @cached_property
    def surplus(self) -> Decimal:
        """By how much more the service's balance changed than the transfers say."""
        off = self.account.difference if self.now is None else self.account.off(self.now)
        return off if self.before is None else EXACT.subtract(off, self.account.off(self.before))

    def consider(self, move: Mapping[str, Any]) -> None:
        """Whether the version ``move`` of a transfer could be the cause."""
        if self.now is None:
            return
        seq, since, until = self.now.seq, move[FROM], move[TO]
        stands = since <= seq and (until is None or until > seq)
        if move["change"] == self.surplus:
            if since > seq:
                self.causes.setdefault("late", move["id"])
        elif EXACT.minus(move["change"]) == self.surplus and stands:
            if move["status"] == "PENDING":
                self.causes.setdefault("held", move["id"])
            if since > (0 if self.before is None else self.before.seq):
                self.causes.setdefault("absent", move["id"])

    def problem(self, *, explained: bool) -> Problem:
        account, before, now = self.account, self.before, self.now
        balance = f"profile {account.profile_id}, {account.asset}"
        if now is None:
            made = f"a balance of {plain(account.due)}, as the transfers say"
            return Problem("balances", "balance", balance, made, "no balance at the service")
        cause = ""
        if explained:  # the likeliest reason
            cause = f"a transfer of {plain(self.surplus)} {account.asset} is missing here"
            if "held" in self.causes:
                cause = f"the service does not hold the pending transfer {self.causes['held']}"
            elif "late" in self.causes:
                late = self.causes["late"]
                cause = f"transfer {late} belongs here, but was learned of only later"
            elif "absent" in self.causes:
                cause = f"transfer {self.causes['absent']} is not in the service's balance"
        begin = "the beginning" if before is None else str(Instant.from_ns(before.at))
        reported = now.reported if before is None else EXACT.subtract(now.reported, before.reported)
        moved = now.moved if before is None else EXACT.subtract(now.moved, before.moved)
        return Problem(
            "balances",
            "balance",
            f"{balance}, from {begin} to {Instant.from_ns(now.at)}",
            f"a change of {plain(moved)}, as the transfers say",
            f"a change of {plain(reported)}",
            cause,
        )


def _look_for_causes(breaks: Sequence[_Break], moves: Moves) -> None:
    """One pass over the transfers for all of ``breaks``."""
    by_pair: dict[Pair, list[_Break]] = {}
    for one in breaks:
        by_pair.setdefault((one.account.profile_id, one.account.asset), []).append(one)
    amounts = {amount for one in breaks for amount in (one.surplus, EXACT.minus(one.surplus))}
    wanted = {
        "profile_id": pa.array({pair[0] for pair in by_pair}, pa.string()),
        "asset": pa.array({pair[1] for pair in by_pair}, pa.string()),
        "change": pa.array(amounts, _WIDE),
    }
    for rows in moves:
        for name, values in wanted.items():
            rows = rows.filter(pc.is_in(rows.column(name), value_set=values))
        for move in rows.to_pylist():
            for one in by_pair.get((move["profile_id"], move["asset"]), ()):
                one.consider(move)
