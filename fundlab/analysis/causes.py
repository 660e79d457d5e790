"""What could make a difference between a rebuilt balance and a reported one, and how likely.

Everything here is plain integers of 10^-18 over the few rows that :mod:`explain` found. A cause
applies only if its amount is exactly the difference; there is no score. The order is that of
``CAUSES``: first what a row itself gives away, then what two balances say of each other, then what
the state of a row or the course of the balance allows. ``missing_transfer`` always applies, so it
says least; after it comes what an amount only looks like.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from fundlab.base.values import Instant, money_text, of_units
from fundlab.models import INTERNAL_TYPES
from fundlab.tables.transfers import change_of, direction_of_type, right_total_of

CAUSES: Final = (
    "not_reported",  # the service was not asked about a balance that transfers made
    "observed_earlier",  # transfers made after the balance was looked at
    "duplicate",  # the same transfer twice in the transfers
    "wrong_direction",  # a credit taken for a debit, or the other way round
    "wrong_total",  # total is not amount less or plus fee
    "fee",  # a fee left out, doubled, taken the wrong way, or unlike that of its peers
    "mismatched_half",  # the halves of an internal transfer differ
    "missing_half",  # one half of an internal transfer is not there
    "wrong_asset",  # booked on another asset of the profile
    "wrong_conversion",  # a conversion booked on the asset it came from, or not at all
    "wrong_profile",  # booked on another profile
    "missing_both_halves",  # another profile lacks the opposite: two balances bear it out, no row
    "shifted_time",  # booked in another interval than the service's
    "together",  # several causes at once
    "failed_here",  # FAILED in the transfers, counted by the service
    "pending",  # PENDING in the transfers, settled or given back at the service
    "missing_history",  # the transfers begin later than the balance: its course bears it out
    "ran_below_zero",  # a credit is missing from before the balance ran below zero
    "failed_later",  # counted in the transfers, not by the service: any row of that amount
    "counted_twice",  # counted once in the transfers, by the service twice: any row of that amount
    "reversed_sign",  # a credit at the service, a debit here: any row of half that amount
    "missing_transfer",  # not in the transfers; what follows is a likeness of amounts only
    "decimal_shift",  # the amount is off by a power of ten
    "trading",  # the part that is in trading counted twice, or left out
    "transposed_digits",  # two neighbouring digits changed places
    "several_fees",  # a few times a fee that many transfers pay
    "changed_amount",  # one of the few transfers of the interval has another amount
)
_RANK: Final = {cause: place for place, cause in enumerate(CAUSES)}
SHOWN: Final = 5
SHIFTS: Final = (1, 2, 3, 6, 8)
MOST_FEES: Final = 20
"""Of how many rows one fee may be wrong to be recognised by the amount."""
MAX_TOGETHER: Final = 200
"""Of how many causes every two are tried together."""
_MAX_IN_THREES: Final = 24
MAX_SUSPECTS: Final = 3
"""Of more rows that only an amount suggests, none is blamed."""
FEW_BALANCES: Final = 3
"""Fewer balances say nothing about all of them."""


Pair = tuple[str, str]
Kind = tuple[str, str, str]
"""Transfers that pay the same fee: type, asset and network."""


LOOKS: Final = (
    ("id",),
    ("ref_id", "direction"),
    ("group_id", "type"),
    ("type", "total", "created", "sent", "group_id"),
)
"""What two rows share if they are one transfer; the first of each must be there."""


def _money(amount: int) -> str:
    """``10500000000000000000`` units as ``10.50``."""
    return money_text(of_units(amount))


def _second(ns: int) -> str:
    return f"{Instant.from_ns(ns):%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class Row:
    """One transfer, as the transfers have it; amounts in units, times in nanoseconds; texts that
    are missing are empty."""

    id: str | None
    profile_id: str
    asset: str  # whose balance changes
    sent: str  # the asset of the transfer
    direction: str
    type: str
    network: str
    status: str
    amount: int
    fee: int
    total: int
    signed: int  # what it would add if it counted
    counted: int  # what it adds to available + trading now
    created: int
    updated: int
    group_id: str
    ref_id: str
    place: int

    @property
    def credit(self) -> bool:
        return self.direction == "CREDIT"

    @property
    def kind(self) -> Kind:
        return self.type, self.sent, self.network

    @property
    def moves(self) -> tuple[int, ...]:
        """When it moved available + trading, as far as its row says."""
        if self.credit:
            return (self.updated,) if self.counted else ()
        return (self.created, self.updated) if self.status == "FAILED" else (self.created,)


@dataclass(frozen=True, slots=True)
class Cause:
    """``amount``: what the service has more than the transfers because of it. ``certain``: the row
    breaks a rule of every transfer, so it is wrong whatever the difference."""

    cause: str
    amount: int
    detail: str
    transfer_id: str | None = None
    certain: bool = False


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
        return any(self._spans(at) for at in row.moves)

    def overlaps(self, other: Break) -> bool:
        return (self.last is None or other.first is None or other.first < self.last) and (
            other.last is None or self.first is None or self.first < other.last
        )

    def _spans(self, at: int) -> bool:
        return (self.first is None or at > self.first) and (self.last is None or at <= self.last)


@dataclass(frozen=True)
class Facts:
    """What is true of all rows of a break, few or many."""

    counting: int = 0  # how many count within the interval
    waiting: int = 0  # pending credits within it, and their sum
    waiting_sum: int = 0
    held: int = 0  # pending debits
    held_sum: int = 0
    after: int = 0  # what moved the balance after it was observed
    after_sum: int = 0
    after_id: str | None = None
    opened: int = 0
    begun: int | None = None  # when the balance first moved
    below: int | None = None  # when it first was below zero
    lowest: int = 0


class Evidence:
    """Everything causes are looked for in: the candidates among the rows, all breaks, and which
    internal transfers (their ``group_id``) have one half only."""

    def __init__(
        self,
        rows: Sequence[Row],
        breaks: Sequence[Break],
        facts: Sequence[Facts],
        usual: Mapping[Kind, Mapping[int, int]],
        alone: Collection[str],
        begins_late: bool,
    ) -> None:
        self.facts = facts
        """Of each break, in their order."""
        self.usual = usual
        """Of each kind the fees that many pay, and how many do."""
        self.begins_late = begins_late
        """Whether the balances together look as if earlier transfers were not there."""
        self.rows: dict[Pair, list[Row]] = defaultdict(list)
        self.sent: dict[Pair, list[Row]] = defaultdict(list)
        self.groups: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            self.rows[row.profile_id, row.asset].append(row)
            if row.sent != row.asset:
                self.sent[row.profile_id, row.sent].append(row)
            if row.group_id and row.type in INTERNAL_TYPES:
                self.groups[row.group_id].append(row)
        self.orphans: dict[str, list[Row]] = defaultdict(list)
        for group in alone:
            for half in self.groups[group][:1]:
                self.orphans[half.asset].append(half)
        self.opposite: dict[int, list[Break]] = defaultdict(list)
        for broken in breaks:
            self.opposite[-broken.difference].append(broken)


def find_causes(found: Break, place: int, evidence: Evidence) -> list[Cause]:
    """The causes of ``found``, the break at ``place``, likeliest first: the best of each kind, then
    the others."""
    difference, facts = found.difference, evidence.facts[place]
    every = evidence.rows[found.profile_id, found.asset]
    rows = [row for row in every if found.holds(row)]
    latest_first = sorted(rows, key=lambda row: (-row.created, row.id or ""))
    given_away = [*row_errors(rows, every, evidence)]
    certain = [*{cause.transfer_id: cause for cause in given_away if cause.certain}.values()]
    orphaned = []
    for half in evidence.orphans[found.asset]:
        if half.counted and found.holds(half):
            kind = "debit" if half.credit else "credit"
            detail = f"the {kind} half of group {half.group_id} is missing; {half.id} is there"
            orphaned.append(Cause("missing_half", -half.counted, detail, half.id))
    # All that is wrong in one way: a page read twice, a fee doubled on several rows.
    kinds: dict[str, dict[str | None, Cause]] = defaultdict(dict)
    for cause in given_away:
        kinds[cause.cause].setdefault(cause.transfer_id, cause)
    several = [
        Cause(kind, sum(cause.amount for cause in causes.values()),
              f"{len(causes)} transfers: {_ids(causes)}", [*causes][-1])
        for kind, causes in kinds.items()
        if len(causes) > 1
    ]  # fmt: skip
    # What each row that is not completed would make if the service saw it otherwise.
    undecided = []
    for row in latest_first:
        if row.status == "FAILED":
            detail = "FAILED here, counted by the service"
            undecided.append(Cause("failed_here", row.signed, detail, row.id))
        elif row.status == "PENDING" and row.credit:
            detail = "PENDING here, completed at the service"
            undecided.append(Cause("pending", row.signed, detail, row.id))
        elif row.status == "PENDING":
            detail = "held here, not held by the service"
            undecided.append(Cause("pending", -row.signed, detail, row.id))

    candidates = [*given_away, *several, *orphaned]
    matching = [cause for cause in candidates if cause.amount == difference]
    matching += odd_fees(found, rows, evidence)
    if not matching:
        matching += _together([*given_away, *orphaned], difference)
    matching += seen_elsewhere(found, rows, evidence)
    if not found.reported:
        detail = "the service reported no such balance"
        matching.append(Cause("not_reported", difference, detail))
    if found.observed is not None and facts.after and -facts.after_sum == difference:
        looked_at = _second(found.observed)
        detail = f"{facts.after} made after {looked_at}, when it was looked at"
        matching.append(Cause("observed_earlier", difference, detail, facts.after_id))
    if found.trading and abs(difference) == found.trading:
        detail = "the difference is the balance in trading"
        matching.append(Cause("trading", difference, detail))
    matching += [cause for cause in undecided if cause.amount == difference]
    matching += by_state(found, latest_first, facts)
    if not matching:
        matching += _together([*given_away, *orphaned, *undecided], difference)
    rest = difference - sum(cause.amount for cause in certain)
    if not matching and certain and rest:  # what is certainly wrong is a part: the rest is missing
        detail = f"{_listed(certain)}; missing_transfer: {_money(rest)}"
        matching.append(Cause("together", difference, detail, certain[0].transfer_id))
    matching += by_course(found, facts, evidence.begins_late)
    matching += by_amount(found, latest_first, facts)

    turns: dict[str, int] = defaultdict(int)
    placed: dict[tuple[str, str | None], tuple[int, int, int, Cause]] = {}
    for cause in matching:
        key = cause.cause, cause.transfer_id
        if key not in placed:
            placed[key] = turns[cause.cause], _RANK[cause.cause], len(placed), cause
            turns[cause.cause] += 1
    ranked = sorted(placed.values(), key=lambda entry: entry[:3])
    return [cause for turn, *_, cause in ranked if turn < SHOWN]


# ------------------------------------------------------------- what a row itself gives away


def row_errors(rows: Sequence[Row], every: Sequence[Row], evidence: Evidence) -> Iterator[Cause]:
    """What is wrong with rows whatever the difference: a copy, the direction, the total, or that
    the other half says otherwise."""
    inside = {row.place for row in rows}
    copies: dict[int, tuple[Row, Row]] = {}
    for look in LOOKS:
        first: dict[object, Row] = {}
        for row in every:
            shared = tuple(getattr(row, name) for name in look)
            if not row.counted or not shared[0]:
                continue
            original = first.setdefault(shared, row)
            if original is not row and (row.place in inside or original.place in inside):
                copies.setdefault(row.place, (row, original))
    for row, original in copies.values():
        same_id = row.id == original.id
        detail = f"there twice, {'its id' if same_id else f'as {original.id}'}"
        yield Cause("duplicate", -row.counted, detail, row.id, certain=same_id)

    for row in rows:
        if not row.counted:
            continue
        expected = direction_of_type(row.type)
        if expected is not None and expected != row.direction:
            other_way = change_of(expected, right_total_of(expected, row.amount, row.fee))
            detail = f"{row.type} booked the wrong way"
            for away in dict.fromkeys((-2 * row.counted, other_way - row.counted)):
                yield Cause("wrong_direction", away, detail, row.id, certain=True)
        right = right_total_of(row.direction, row.amount, row.fee)
        away = change_of(row.direction, right - row.total)
        if away:
            kind = "fee" if row.fee and abs(away) in (row.fee, 2 * row.fee) else "wrong_total"
            detail = (
                f"total is {_money(row.total)}, amount {_money(row.amount)} and fee "
                f"{_money(row.fee)} make {_money(right)}"
            )
            yield Cause(kind, away, detail, row.id, certain=True)
        for partner in evidence.groups.get(row.group_id, ()):
            if partner.credit != row.credit and -partner.signed != row.counted:
                away = -partner.signed - row.counted
                detail = f"the other half, {partner.id}, is of {_money(partner.total)}"
                yield Cause("mismatched_half", away, detail, row.id)


def _ids(names: Iterable[str | None]) -> str:
    every = [str(name) for name in names]
    return ", ".join(every[:SHOWN]) + (", …" if len(every) > SHOWN else "")


def odd_fees(found: Break, rows: Sequence[Row], evidence: Evidence) -> Iterator[Cause]:
    """Rows with a fee that fewer of their kind pay than the one which would make the difference:
    one of a few, or all of them."""
    same: dict[tuple[Kind, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row.counted:
            same[row.kind, row.fee].append(row)
    for (kind, fee), odd in same.items():
        usual = evidence.usual.get(kind, {})
        for other, times in usual.items():
            if usual.get(fee, 0) >= times:
                continue
            pays = f"{times:,} of its kind pay {_money(other)}"
            detail = f"the fee is {_money(fee)}; {pays}"
            if fee - other == found.difference:
                several = f"{_money(fee)} is the fee of several; {pays}"
                yield from _suspects(
                    "fee", found.difference, [(row, detail) for row in odd], several
                )
            elif len(odd) <= MOST_FEES and (fee - other) * len(odd) == found.difference:
                text = f"{detail}; {len(odd)} transfers: {_ids(row.id for row in odd)}"
                yield Cause("fee", found.difference, text, odd[-1].id)


def _together(given_away: Sequence[Cause], difference: int) -> Iterator[Cause]:
    """Two or three that make the difference between them, of many the first few; or all of those
    that are certain."""
    distinct = [*{(c.transfer_id, c.amount): c for c in given_away if c.amount}.values()]
    certain = [*{c.transfer_id: c for c in distinct if c.certain}.values()]
    few = distinct[:_MAX_IN_THREES]
    pairs = _pairs(distinct[:MAX_TOGETHER], difference)
    triples = (
        (few[place], *pair)
        for place in range(len(few))
        for pair in _pairs(few[place + 1 :], difference - few[place].amount)
    )
    everything = [certain] if sum(cause.amount for cause in certain) == difference else []
    for several in chain(pairs, triples, everything):
        if len({cause.transfer_id for cause in several}) == len(several) > 1:
            yield Cause("together", difference, _listed(several), several[0].transfer_id)
            return


def _pairs(causes: Sequence[Cause], difference: int) -> Iterator[tuple[Cause, Cause]]:
    before: dict[int, list[Cause]] = defaultdict(list)
    for cause in causes:
        yield from ((other, cause) for other in before[difference - cause.amount])
        before[cause.amount].append(cause)


def _listed(causes: Sequence[Cause]) -> str:
    texts = [f"{cause.cause} {cause.transfer_id}: {_money(cause.amount)}" for cause in causes]
    return "; ".join(texts[:SHOWN]) + ("; …" if len(texts) > SHOWN else "")


# ------------------------------------------------------------------------- seen elsewhere too


def seen_elsewhere(found: Break, rows: Sequence[Row], evidence: Evidence) -> Iterator[Cause]:
    """The same amount missing here and too much there, and the row that would explain both."""
    difference = found.difference
    for other in evidence.opposite[difference]:
        same_profile = other.profile_id == found.profile_id
        same_asset = other.asset == found.asset
        theirs = [row for row in evidence.rows[other.profile_id, other.asset] if other.holds(row)]
        if same_profile and same_asset:  # counted in one interval, by the service in another
            for row in theirs:
                for here, there in ((found, other), (other, found)):
                    late = there.moved(row) and not here.moved(row)
                    if late and row.counted == -there.difference:
                        detail = f"counted {_interval(there)}, by the service {_interval(here)}"
                        yield Cause("shifted_time", difference, detail, row.id)
        elif same_profile or same_asset:
            elsewhere = other.asset if same_profile else other.profile_id
            for sign, side, detail in (
                (1, theirs, f"booked on {elsewhere}, where it is too much"),
                (-1, rows, f"booked here, missing on {elsewhere}"),
            ):
                for row in side:
                    if sign * row.counted == difference:
                        kind = "wrong_asset" if same_profile else "wrong_profile"
                        if same_profile and row.sent != row.asset:
                            kind = "wrong_conversion"
                        yield Cause(kind, difference, detail, row.id)
        if same_asset and not same_profile and found.overlaps(other):
            sides = (other.profile_id, found.profile_id)
            source, target = sides if difference > 0 else reversed(sides)
            detail = (
                f"an internal transfer of {_money(abs(difference))} {found.asset} "
                f"from {source} to {target}"
            )
            yield Cause("missing_both_halves", difference, detail)
    for row in evidence.sent[found.profile_id, found.asset]:
        if row.counted and row.counted == difference:
            detail = f"sent in {row.sent}, booked on {row.asset}"
            yield Cause("wrong_conversion", row.counted, detail, row.id)


def _interval(found: Break) -> str:
    first = "the beginning" if found.first is None else _second(found.first)
    return f"between {first} and {'now' if found.last is None else _second(found.last)}"


# ------------------------------------------------------- by state, by course, and by amount


def by_state(found: Break, latest_first: Sequence[Row], facts: Facts) -> Iterator[Cause]:
    difference = found.difference
    for row in latest_first:
        if row.status != "PENDING" and -row.counted == difference:
            yield Cause("failed_later", difference, "counted here, not by the service", row.id)
        if row.counted and row.counted == difference:
            told = "the service counted this transfer twice"
            yield Cause("counted_twice", difference, told, row.id)
        # The other way round: the same total, or the amount with the fee taken on the other side.
        reverse = (-2 * row.counted, -2 * row.amount if row.credit else 2 * row.amount)
        right_way = direction_of_type(row.type) in (None, row.direction)  # else wrong_direction
        if row.counted and right_way and difference in reverse:
            side = "debit" if row.credit else "credit"
            yield Cause("reversed_sign", difference, f"would be a {side} at the service", row.id)
    for number, away, credit in (
        (facts.waiting, facts.waiting_sum, True),
        (facts.held, -facts.held_sum, False),
    ):
        if number > 1 and away == difference:
            ids = _ids(
                row.id
                for row in sorted(latest_first, key=lambda row: row.place)
                if row.status == "PENDING" and row.credit == credit
            )
            yield Cause("pending", difference, f"{number} pending transfers: {ids}")


def by_course(found: Break, facts: Facts, begins_late: bool) -> Iterator[Cause]:
    """What is missing at the beginning, or from before the balance ran below zero; nowhere else
    can a credit be that mends the course, for no balance is ever below zero."""
    if found.difference <= 0 or found.first is not None or facts.begun is None:
        return
    if min(facts.lowest, 0) + found.difference < 0:
        return
    amount, begun = f"{_money(found.difference)} {found.asset}", _second(facts.begun)
    seen_before = found.last is not None and found.last < facts.begun
    if not facts.opened and (seen_before or facts.below == facts.begun or begins_late):
        detail = f"a balance of {amount} before the first transfer here, at {begun}"
        yield Cause("missing_history", found.difference, detail)
    elif facts.below is not None:
        below = _second(facts.below)
        detail = f"a credit of {amount} before {below}, when it ran below zero"
        yield Cause("ran_below_zero", found.difference, detail)


def by_amount(found: Break, latest_first: Sequence[Row], facts: Facts) -> Iterator[Cause]:
    difference = found.difference
    if found.reported:
        kind = "credit" if difference > 0 else "debit"
        detail = f"a {kind} of {_money(abs(difference))} {found.asset} {_interval(found)}"
        yield Cause("missing_transfer", difference, detail)
    counting = [row for row in latest_first if row.counted]
    # The fee of one row, of none in particular where many pay it, or of several.
    fees: dict[int, list[Row]] = defaultdict(list)
    for row in counting:
        if row.fee and abs(difference) % row.fee == 0:
            fees[row.fee].append(row)
    for fee, rows in fees.items():
        times = abs(difference) // fee
        if times <= 2:
            texts = [(row, f"its fee is {_money(fee)}") for row in rows]
            several = f"{_money(fee)} is the fee of several transfers"
            yield from _suspects("fee", difference, texts, several)
        elif times <= min(len(rows), MOST_FEES):
            detail = f"{times} times {_money(fee)}, the fee of as many transfers or more"
            yield Cause("several_fees", difference, detail)
    # Another amount of one row, the likeliest mistakes first.
    corrected = [(row, row.counted + difference) for row in counting]
    for row, right in corrected:
        if any(right == row.counted * 10**n or row.counted == right * 10**n for n in SHIFTS):
            yield Cause("decimal_shift", difference, _would_be(right), row.id)
    swapped = []
    for row, right in corrected:
        place, digits = transposed(difference if row.credit else -difference)
        if any(f"{amount // 10**place % 100:02}" in digits for amount in (row.amount, row.total)):
            swapped.append((row, _would_be(right)))
    several = "two neighbouring digits of one of several transfers"
    yield from _suspects("transposed_digits", difference, swapped, several)
    few = facts.counting <= MAX_SUSPECTS
    if few and (found.first is not None or len(counting) == 1):
        for row, right in corrected:
            yield Cause("changed_amount", difference, _would_be(right), row.id)


def _would_be(right: int) -> str:
    return f"would be {_money(abs(right))} at the service"


def _suspects(
    cause: str, difference: int, rows: Sequence[tuple[Row, str]], several: str
) -> Iterator[Cause]:
    """Each of a few rows; of many none is blamed."""
    if len(rows) > MAX_SUSPECTS:
        yield Cause(cause, difference, several)
    else:
        yield from (Cause(cause, difference, detail, row.id) for row, detail in rows)


def transposed(away: int) -> tuple[int, tuple[str, ...]]:
    """Which two neighbouring digits, at which power of ten, make an amount larger by ``away`` when
    they change places: ``ab`` to ``ba`` adds 9 times (b - a). None for most amounts."""
    steps, place = away // 9, 0
    if away % 9 or not away:
        return 0, ()
    while steps % 10 == 0:
        steps, place = steps // 10, place + 1
    return place, tuple(f"{n}{n + steps}" for n in range(10) if 0 <= n + steps <= 9)
