"""Books and bank statements made together, so that it is known what belongs to what; and a judge of
a matching that knows nothing of how it was found.

A world is a list of payments. Each becomes a transfer, and lines of the bank: one of its own, one
shared with others of its day, several parts, less a fee, later, never. Lines of no transfer are put
among them. What an entry says is the reference, the counterparty or nothing.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pandas as pd
from amounts import exactly

FIRST: Final = date(2026, 3, 1)
AMOUNTS: Final = ("unique", "round", "equal")
WINDOW: Final = 3


@dataclass(frozen=True)
class Payment:
    id: str
    cents: int
    day: int
    party: str
    ref: str


@dataclass(frozen=True)
class Line:
    id: str
    cents: int
    day: int
    says: str
    text: str
    charges: int = 0


@dataclass
class World:
    """``about``: which payments a line is of; empty for one of nothing."""

    payments: list[Payment] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    about: dict[str, frozenset[str]] = field(default_factory=dict)

    def add_payment(self, rng: random.Random, cents: int, day: int, party: str) -> Payment:
        number = len(self.payments)
        made = Payment(f"{rng.randrange(16**8):08x}-{number:06}", cents, day, party,
                       f"PAY{number:07}")  # fmt: skip
        self.payments.append(made)
        return made

    def add_line(
        self, cents: int, day: int, of: list[Payment], says: str, charges: int = 0
    ) -> None:
        text = {"nothing": "", "name": of[0].party if of else "",
                "reference": " ".join(payment.ref for payment in of)}[says]  # fmt: skip
        line = Line(f"b{len(self.lines):06}", cents, day, says, text, charges)
        self.lines.append(line)
        self.about[line.id] = frozenset(payment.id for payment in of)


@exactly()
def made_world(seed: int, count: int, amounts: str, *, plain: float = 0.0) -> World:
    """``count`` payments of a month; ``plain`` of the lines beyond the usual third say nothing."""
    rng, world = random.Random(f"{seed} {count} {amounts}"), World()
    parties = [f"{rng.choice('BCDFGKLMNPRST')}{n:03}ombre Ltd" for n in range(max(4, count // 12))]

    def cents() -> int:
        if amounts == "unique":
            return rng.randint(10_000, 99_999_999)
        return 10_000 * rng.randint(1, 40) if amounts == "round" else 50_000

    def says(*kinds: str) -> str:
        return "nothing" if rng.random() < plain else rng.choice(kinds)

    while len(world.payments) < count:
        day, party = rng.randrange(28), rng.choice(parties)
        sign, kind = rng.choice((1, 1, -1)), rng.random()
        late = rng.choice((0, 0, 0, 1, 2))
        if kind < 0.02:  # interest, a charge, a line of somebody else
            world.add_line(sign * cents(), day, [], "nothing")
        elif kind < 0.04:  # never reaches the bank
            world.add_payment(rng, sign * cents(), day, party)
        elif kind < 0.14 and amounts != "equal":  # a batch on one line
            size = rng.randint(2, 5)
            batch = [world.add_payment(rng, sign * cents(), day, party) for _ in range(size)]
            told = says("reference", "name", "name")
            world.add_line(sum(p.cents for p in batch), day + late, batch, told)
        elif kind < 0.18 and amounts != "equal":  # in parts
            parts = [sign * cents() for _ in range(rng.randint(2, 3))]
            payment = world.add_payment(rng, sum(parts), day, party)
            told = rng.choice(("reference", "name"))
            for part in parts:
                world.add_line(part, day + late, [payment], told)
        elif kind < 0.22 and sign > 0:  # the bank keeps a fee back and declares it
            payment = world.add_payment(rng, cents(), day, party)
            world.add_line(payment.cents - 1_500, day + late, [payment], says("reference", "name"),
                           1_500)  # fmt: skip
        elif kind < 0.25:  # later than the window
            payment = world.add_payment(rng, sign * cents(), day, party)
            world.add_line(payment.cents, day + rng.randint(5, 9), [payment],
                           rng.choice(("reference", "nothing")))  # fmt: skip
        elif kind < 0.27 and amounts != "equal":  # of nothing, and as much as two others together
            others = [world.add_payment(rng, sign * cents(), day, party) for _ in range(2)]
            for payment in others:
                world.add_line(payment.cents, day + late, [payment], "reference")
            world.add_line(sum(p.cents for p in others), day, [], "nothing")
        else:
            payment = world.add_payment(rng, sign * cents(), day, party)
            told = says("reference", "name", "nothing")
            world.add_line(payment.cents, day + late, [payment], told)
    return world


@exactly()
def frames_of(world: World) -> tuple[pd.DataFrame, pd.DataFrame]:
    start = datetime(FIRST.year, FIRST.month, FIRST.day, 9, tzinfo=UTC)
    moments = [start + timedelta(days=p.day) for p in world.payments]
    transfers = pd.DataFrame(
        {
            "id": [p.id for p in world.payments],
            "asset": "USD",
            "status": "COMPLETED",
            "direction": ["CREDIT" if p.cents > 0 else "DEBIT" for p in world.payments],
            "type": ["WIRE_DEPOSIT" if p.cents > 0 else "WIRE_WITHDRAWAL" for p in world.payments],
            "amount": pd.array([money(abs(p.cents)) for p in world.payments], dtype="decimal"),
            "created_at": pd.to_datetime(moments).astype("datetime64[ns, UTC]"),
            "updated_at": pd.to_datetime(moments).astype("datetime64[ns, UTC]"),
            "counterparty": [p.party for p in world.payments],
            "ref_id": [p.ref for p in world.payments],
        }
    )
    entries = pd.DataFrame(
        {
            "entry_id": [line.id for line in world.lines],
            "amount": pd.array([money(line.cents) for line in world.lines], dtype="decimal"),
            "charges": pd.array([money(line.charges) for line in world.lines], dtype="decimal"),
            "booked_on": [FIRST + timedelta(days=line.day) for line in world.lines],
            "memo": [line.text for line in world.lines],
        }
    )
    return transfers, entries


def money(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)


# ------------------------------------------------------------------------------------- the judge


@dataclass
class Judged:
    """Counts of groups, and of lines of the bank that are of a payment, by what can be known."""

    groups: int = 0
    wrong: list[str] = field(default_factory=list)
    coincidences: int = 0
    one_answer: int = 0
    one_answer_found: int = 0
    exchangeable: int = 0
    exchangeable_found: int = 0

    def add(self, other: Judged) -> None:
        for name in ("groups", "coincidences", "one_answer", "one_answer_found", "exchangeable",
                     "exchangeable_found"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wrong += other.wrong


@exactly()
def judge(world: World, members: pd.DataFrame, claims: pd.DataFrame) -> Judged:
    """A group is right if it holds just what belongs together, or alike items in each other's
    place: lines of one amount and text, or payments of one amount and party. Of a block so many may
    be of something else as its group says are open. That a line of nothing meets a payment that
    never came, of its amount and near it, is a coincidence that nobody could know of."""
    lines = {line.id: line for line in world.lines}
    payments = {payment.id: payment for payment in world.payments}
    lines_of: dict[str, set[str]] = defaultdict(set)
    for name, ids in world.about.items():
        for payment_id in ids:
            lines_of[payment_id].add(name)
    # What is booked after the window and says nothing belongs to nothing, as far as can be known.
    late = {
        payment_id
        for name, ids in world.about.items()
        for payment_id in ids
        if lines[name].says == "nothing" and lines[name].day - payments[payment_id].day > WINDOW
    }
    found, result = set(), Judged()
    groups: dict[int, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for group, side, item in zip(*(members[c] for c in ("group", "side", "item_id")), strict=True):
        groups[group][side == "service"].add(item)
    open_of = {
        number: (lines_open, payments_open)
        for number, lines_open, payments_open in zip(
            *(claims[c] for c in ("group", "open_entries", "open_transfers")), strict=True)
    }  # fmt: skip
    for number, (some, others) in groups.items():
        result.groups += 1
        # What is wholly inside is right. Of what is not, one side may stay open.
        right = {n for n in some if world.about[n] and world.about[n] <= others
                 and all(lines_of[p] <= some for p in world.about[n])}  # fmt: skip
        known = set().union(*(world.about[n] for n in right))
        extra_lines, extra = [lines[n] for n in some - right], [payments[n] for n in others - known]
        # Alike items in each other's place: what stands in for what is outside of the group.
        outside = Counter(_alike_payment(payments[p]) for x in extra_lines
                          for p in world.about[x.id] if len(world.about[x.id]) == 1)  # fmt: skip
        swapped = [
            p
            for p in extra
            if outside[_alike_payment(p)]
            and {_alike(lines[n]) for n in lines_of[p.id]} <= {*map(_alike, extra_lines)}
        ]
        if swapped:
            extra = [p for p in extra if p not in swapped]
            taken = [x for x in extra_lines if world.about[x.id]][: len(swapped)]
            right |= {x.id for x in taken}
            extra_lines = [x for x in extra_lines if x not in taken]
        strays = [x for x in extra_lines if not (world.about[x.id] - late)]
        lost = [p for p in extra if p.id in late or not lines_of[p.id]]
        over = len(extra_lines) > open_of[number][0] or len(extra) > open_of[number][1]
        if over and strays and lost and {x.cents for x in strays} == {p.cents for p in lost}:
            both = min(len(strays), len(lost))
            result.coincidences += both
            extra_lines = [x for x in extra_lines if x not in strays[:both]]
            extra = [p for p in extra if p not in lost[:both]]
        open_lines, open_payments = open_of[number]
        if len(extra_lines) > open_lines or len(extra) > open_payments:
            result.wrong.append(f"group {number}: {sorted(some)[:6]} {sorted(others)[:6]}")
        else:
            found |= right
    # How much of what can be known was found.
    near: dict[int, list[Line]] = defaultdict(list)
    for line in world.lines:
        near[line.cents + line.charges].append(line)
    paid: dict[int, list[Payment]] = defaultdict(list)
    for payment in world.payments:
        paid[payment.cents].append(payment)
    for line in world.lines:
        ids = world.about[line.id]
        if not ids:
            continue
        (of, *more) = (payments[name] for name in ids)
        alone = not more and len(lines_of[of.id]) == 1
        reach = 2 * WINDOW + 2
        alike = [x for x in near[line.cents + line.charges] if abs(x.day - line.day) <= reach]
        like = [x for x in paid[of.cents] if abs(x.day - line.day) <= reach]
        in_time = 0 <= line.day - of.day <= WINDOW
        if line.says == "reference" or (
            alone and in_time and len(alike) == len(like) == 1
        ):  # fmt: skip
            result.one_answer += 1
            result.one_answer_found += line.id in found
        elif alone and in_time:
            result.exchangeable += 1
            result.exchangeable_found += line.id in found
    return result


def _alike(line: Line) -> tuple[Any, ...]:
    return line.cents, line.charges, line.text


def _alike_payment(payment: Payment) -> tuple[Any, ...]:
    return payment.cents, payment.party
