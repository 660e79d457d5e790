"""What could make a difference between a rebuilt balance and a reported one, and how likely.

Everything here is plain integers of 10^-18 over the few rows that matter. A cause applies only if
its amount is exactly the difference; there is no score. The order is that of ``CAUSES``: first
what a row itself gives away, then what its state allows, then what only the amount suggests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from fundlab.analysis.units import moment, plain
from fundlab.models import TransferType

CAUSES: Final = (
    "not_reported",  # the service was not asked about a balance that transfers made
    "observed_earlier",  # transfers made after the balance was looked at
    "duplicate",  # the same transfer twice in the transfers
    "wrong_direction",  # a credit taken for a debit, or the other way round
    "wrong_total",  # total is not amount less or plus fee
    "fee",  # a fee left out, taken twice or taken the wrong way
    "mismatched_half",  # the halves of an internal transfer differ
    "missing_half",  # one half of an internal transfer is not there
    "wrong_asset",  # booked on another asset of the profile
    "wrong_conversion",  # a conversion booked on the asset it came from, or not at all
    "wrong_profile",  # booked on another profile
    "shifted_time",  # booked in another interval than the service's
    "together",  # several of the causes above at once
    "failed_here",  # FAILED in the transfers, counted by the service
    "pending",  # PENDING in the transfers, settled or given back at the service
    "failed_later",  # counted in the transfers, not by the service
    "missing_transfer",  # not in the transfers
    "decimal_shift",  # the amount is off by a power of ten
    "trading",  # the part that is in trading counted twice, or left out
    "changed_amount",  # one of the few transfers of the interval has another amount
)
_RANK: Final = {cause: place for place, cause in enumerate(CAUSES)}
SHOWN: Final = 5
_SHIFTS: Final = (1, 2, 3, 6, 8)
_MAX_EVIDENCE: Final = {2: 200, 3: 24}
"""Of how many causes every two, or three, are tried together."""
_MAX_SUSPECTS: Final = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One transfer, as the transfers have it; amounts in units, times in nanoseconds."""

    id: str
    profile_id: str
    asset: str  # whose balance changes
    sent: str  # the asset of the transfer
    credit: bool
    type: str
    status: str
    amount: int
    fee: int
    total: int
    created: int
    updated: int
    group_id: str | None
    ref_id: str | None
    place: int

    @property
    def signed(self) -> int:
        return self.total if self.credit else -self.total

    @property
    def completed(self) -> bool:
        return self.status.startswith("COMPLETE")

    @property
    def counted(self) -> int:
        """What it adds to available + trading now."""
        held = self.status == "PENDING" and not self.credit
        return self.signed if self.completed or held else 0

    @property
    def moves(self) -> tuple[tuple[int, int], ...]:
        """When it moved available + trading, and by how much, as far as its row tells."""
        if self.credit:
            return ((self.updated, self.total),) if self.completed else ()
        held = (self.created, -self.total)
        return (held, (self.updated, self.total)) if self.status == "FAILED" else (held,)

    @property
    def internal(self) -> bool:
        return self.type.startswith("INTERNAL_TRANSFER_")


@dataclass(frozen=True, slots=True)
class Cause:
    """``amount``: what the service has more than the transfers because of it."""

    cause: str
    amount: int
    detail: str
    transfer_id: str | None = None


@dataclass(frozen=True)
class Break:
    """A difference of one profile and asset, as narrow in time as the assertions allow.

    ``first`` and ``last`` (ns) bound the interval: after the first, up to the last.
    """

    profile_id: str
    asset: str
    difference: int
    first: int | None = None
    last: int | None = None
    observed: int | None = None
    reported: bool = True
    trading: int = 0

    def holds(self, row: Row) -> bool:
        """Whether something happened to the row within the interval."""
        return self._spans(row.created) or self._spans(row.updated)

    def moved(self, row: Row) -> bool:
        """Whether the row moved the balance within the interval."""
        return any(self._spans(at) for at, _ in row.moves)

    def _spans(self, at: int) -> bool:
        return (self.first is None or at > self.first) and (self.last is None or at <= self.last)


@dataclass(frozen=True)
class Evidence:
    """Everything causes are looked for in: the rows by profile and asset, and all breaks."""

    rows: Mapping[tuple[str, str], Sequence[Row]]
    orphans: Sequence[Row]
    partners: Mapping[str, Sequence[Row]]
    breaks: Sequence[Break]


def find_causes(found: Break, evidence: Evidence) -> list[Cause]:
    """The causes of ``found``, likeliest first: the best of each kind, then the others."""
    every = evidence.rows.get((found.profile_id, found.asset), ())
    rows = [row for row in every if found.holds(row)]
    given_away = [*_given_away(rows, every, evidence)]
    matching = [cause for cause in given_away if cause.amount == found.difference]
    if not matching:
        matching += _together(given_away, found.difference)
    matching += _elsewhere(found, rows, evidence)
    matching += _of_the_observation(found, every)
    matching += _by_state(found, rows)
    if not matching:
        matching += _together([*given_away, *_undecided(rows)], found.difference)
    matching += _by_amount(found, rows)
    return _ranked(matching)


def _ranked(causes: Iterable[Cause]) -> list[Cause]:
    turns: dict[str, int] = defaultdict(int)
    seen: set[tuple[str, str | None]] = set()
    placed: list[tuple[int, int, int, Cause]] = []
    for cause in causes:
        if (cause.cause, cause.transfer_id) in seen:
            continue
        seen.add((cause.cause, cause.transfer_id))
        turn = turns[cause.cause]
        turns[cause.cause] += 1
        if turn < SHOWN:
            placed.append((turn, _RANK[cause.cause], len(placed), cause))
    return [cause for *_, cause in sorted(placed, key=lambda entry: entry[:3])]


# ------------------------------------------------------------- what a row itself gives away


def _given_away(rows: Sequence[Row], every: Sequence[Row], evidence: Evidence) -> Iterator[Cause]:
    yield from _duplicates(rows, every)
    for row in rows:
        if not row.counted:
            continue
        expected = _type_is_credit(row.type)
        if expected is not None and expected != row.credit:
            amount = row.amount - row.fee if expected else -(row.amount + row.fee)
            for away in {-2 * row.counted, amount - row.counted}:
                yield Cause("wrong_direction", away, f"{row.type} booked the wrong way", row.id)
        yield from _wrong_total(row)
        for partner in evidence.partners.get(row.group_id or "", ()):
            if partner.credit != row.credit and -partner.signed != row.counted:
                away = -partner.signed - row.counted
                detail = f"the other half, {partner.id}, is of {plain(partner.total)}"
                yield Cause("mismatched_half", away, detail, row.id)
    for orphan in evidence.orphans:
        if orphan.counted:
            kind = "debit" if orphan.credit else "credit"
            detail = f"the {kind} half of group {orphan.group_id} is missing; {orphan.id} is there"
            yield Cause("missing_half", -orphan.counted, detail, orphan.id)


def _type_is_credit(kind: str) -> bool | None:
    known = kind in TransferType.__members__
    return TransferType(kind).direction == "CREDIT" if known else None


def _wrong_total(row: Row) -> Iterator[Cause]:
    right = row.amount - row.fee if row.credit else row.amount + row.fee
    away = right - row.total if row.credit else row.total - right
    if away:
        kind = "fee" if row.fee and abs(away) in (row.fee, 2 * row.fee) else "wrong_total"
        detail = (
            f"total is {plain(row.total)}, amount {plain(row.amount)} and fee {plain(row.fee)} "
            f"make {plain(right)}"
        )
        yield Cause(kind, away, detail, row.id)


def _duplicates(rows: Sequence[Row], every: Sequence[Row]) -> Iterator[Cause]:
    inside = {row.place for row in rows}
    copies: dict[int, tuple[Row, Row]] = {}
    for same in _looks():
        first: dict[object, Row] = {}
        for row in sorted(every, key=lambda row: (row.created, row.place)):
            look = same(row)
            if look is None or not row.counted:
                continue
            if look in first and (row.place in inside or first[look].place in inside):
                copies.setdefault(row.place, (row, first[look]))
            first.setdefault(look, row)
    for row, original in copies.values():
        what = "its id" if row.id == original.id else f"as {original.id}"
        yield Cause("duplicate", -row.counted, f"there twice, {what}", row.id)
    if len(copies) > 1:
        ids = ", ".join(row.id for row, _ in [*copies.values()][:SHOWN])
        total = -sum(row.counted for row, _ in copies.values())
        yield Cause("duplicate", total, f"{len(copies)} transfers are there twice: {ids}")


def _looks() -> Sequence[Callable[[Row], object]]:
    """What two rows have in common if they are one transfer."""
    return (
        lambda row: ("id", row.id),
        lambda row: row.ref_id and ("ref_id", row.ref_id, row.credit),
        lambda row: row.group_id and ("group_id", row.group_id, row.type),
        lambda row: ("all", row.type, row.total, row.created, row.sent, row.group_id),
    )


def _together(given_away: Sequence[Cause], difference: int) -> Iterator[Cause]:
    """Two or three that make the difference between them; of many, the first few."""
    distinct = [*{(c.transfer_id, c.amount): c for c in given_away if c.amount}.values()]
    for count, most in _MAX_EVIDENCE.items():
        for several in combinations(distinct[:most], count):
            different = len({cause.transfer_id for cause in several}) == count
            if different and sum(cause.amount for cause in several) == difference:
                texts = "; ".join(f"{c.cause} {c.transfer_id}: {plain(c.amount)}" for c in several)
                yield Cause("together", difference, texts, several[0].transfer_id)
                return


# ------------------------------------------------------------------------- seen elsewhere too


def _elsewhere(found: Break, rows: Sequence[Row], evidence: Evidence) -> Iterator[Cause]:
    """The same amount missing here and too much there, and the row that would explain both."""
    for other in evidence.breaks:
        if other is found:
            continue
        same_profile = other.profile_id == found.profile_id
        same_asset = other.asset == found.asset
        theirs = evidence.rows.get((other.profile_id, other.asset), ())
        if same_profile and same_asset:
            if other.difference == -found.difference:
                yield from _shifted(found, other, theirs)
        elif same_profile or same_asset:
            kind = "wrong_asset" if same_profile else "wrong_profile"
            yield from _moved(found, other, theirs, rows, kind)
    for row in evidence.rows.get((found.profile_id, ""), ()):
        sent_in_it = row.sent == found.asset != row.asset
        if sent_in_it and row.counted and row.counted == found.difference:
            detail = f"sent in {row.sent}, booked on {row.asset}"
            yield Cause("wrong_conversion", row.counted, detail, row.id)


def _moved(
    found: Break, other: Break, theirs: Sequence[Row], ours: Sequence[Row], kind: str
) -> Iterator[Cause]:
    for row in theirs:
        if row.counted == found.difference and row.counted == -other.difference:
            place = other.asset if kind == "wrong_asset" else other.profile_id
            name = "wrong_conversion" if _converts(row, kind) else kind
            yield Cause(name, row.counted, f"booked on {place}, where it is too much", row.id)
    for row in ours:
        if -row.counted == found.difference and row.counted == other.difference:
            place = other.asset if kind == "wrong_asset" else other.profile_id
            name = "wrong_conversion" if _converts(row, kind) else kind
            yield Cause(name, -row.counted, f"booked here, missing on {place}", row.id)


def _converts(row: Row, kind: str) -> bool:
    return kind == "wrong_asset" and row.sent != row.asset


def _shifted(found: Break, other: Break, rows: Sequence[Row]) -> Iterator[Cause]:
    for row in rows:
        for here, there in ((found, other), (other, found)):
            if row.counted == there.difference * -1 and there.moved(row) and not here.moved(row):
                detail = f"counted {_interval(there)}, by the service {_interval(here)}"
                yield Cause("shifted_time", found.difference, detail, row.id)


def _interval(found: Break) -> str:
    first = "the beginning" if found.first is None else moment(found.first)
    return f"between {first} and {'now' if found.last is None else moment(found.last)}"


def _of_the_observation(found: Break, every: Sequence[Row]) -> Iterator[Cause]:
    if not found.reported:
        yield Cause("not_reported", found.difference, "the service reported no such balance")
    if found.observed is not None:
        seen = found.observed
        later = [
            row
            for row in every
            if row.counted and (row.updated if row.credit else row.created) > seen
        ]
        if later and -sum(row.counted for row in later) == found.difference:
            detail = f"{len(later)} made after {moment(found.observed)}, when it was looked at"
            yield Cause("observed_earlier", found.difference, detail, later[0].id)
    if found.trading and abs(found.difference) == found.trading:
        detail = "the difference is the balance in trading"
        yield Cause("trading", found.difference, detail)


# ------------------------------------------------------------------- by state, and by amount


def _undecided(rows: Sequence[Row]) -> Iterator[Cause]:
    """What each row that is not completed would make if the service saw it otherwise."""
    for row in _latest_first(rows):
        if row.status == "FAILED":
            yield Cause("failed_here", row.signed, "FAILED here, counted by the service", row.id)
        elif row.status == "PENDING" and row.credit:
            yield Cause("pending", row.signed, "PENDING here, completed at the service", row.id)
        elif row.status == "PENDING":
            yield Cause("pending", -row.signed, "held here, not held by the service", row.id)


def _by_state(found: Break, rows: Sequence[Row]) -> Iterator[Cause]:
    difference = found.difference
    yield from (cause for cause in _undecided(rows) if cause.amount == difference)
    for row in _latest_first(rows):
        if row.completed and -row.counted == difference:
            yield Cause("failed_later", difference, "counted here, not by the service", row.id)
    pending = [row for row in rows if row.status == "PENDING"]
    for credit in (True, False):
        several = [row for row in pending if row.credit == credit]
        away = sum(row.signed if credit else -row.signed for row in several)
        if len(several) > 1 and away == difference:
            ids = ", ".join(row.id for row in several[:SHOWN])
            yield Cause("pending", difference, f"{len(several)} pending transfers: {ids}")


def _by_amount(found: Break, rows: Sequence[Row]) -> Iterator[Cause]:
    difference = found.difference
    if found.reported:
        kind = "credit" if difference > 0 else "debit"
        detail = f"a {kind} of {plain(abs(difference))} {found.asset} {_interval(found)}"
        yield Cause("missing_transfer", difference, detail)
    counting = [row for row in _latest_first(rows) if row.counted]
    for row in counting:
        if row.fee and abs(difference) in (row.fee, 2 * row.fee):
            yield Cause("fee", difference, f"its fee is {plain(row.fee)}", row.id)
        if _is_shifted(row.counted, row.counted + difference):
            right = plain(abs(row.counted + difference))
            yield Cause("decimal_shift", difference, f"would be {right} at the service", row.id)
    if (found.first is not None or len(counting) == 1) and len(counting) <= _MAX_SUSPECTS:
        for row in counting:
            right = plain(abs(row.counted + difference))
            yield Cause("changed_amount", difference, f"would be {right} at the service", row.id)


def _is_shifted(here: int, there: int) -> bool:
    return any(there == here * 10**shift or here == there * 10**shift for shift in _SHIFTS)


def _latest_first(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (-row.created, row.id))
