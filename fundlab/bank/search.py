"""The search for groups of a bank's entries and transfers of equal sums, one step after another.

Each step collects every group that is possible among what is still open; what it then takes, and
what it only lists, is decided in one place, :meth:`Search.step`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

from fundlab.bank.blocks import blocks
from fundlab.bank.sums import (
    EXHAUSTIVE,
    Edge,
    by_chance,
    components,
    count_alike,
    covers,
    sums_to,
)

EARLY: Final = 1
"""How many days before it was made a transfer may be booked: west of Greenwich days end later."""
_FEW_PARTS: Final = 6
"""So many where even a sum that is the only one would be a coincidence: to list it."""
_STRAY: Final = 0.01
"""What part of the items is taken to belong to nothing on the other side."""
_BY_CHANCE: Final = 0.01
"""How many wrong groups of its kind a group may let expect in a step, and still be taken."""
_BY_CHANCE_TOO: Final = "a sum that chance makes, too"
_FEW: Final = 20
"""Among so few items altogether the only answer is taken: a person would see no other one."""
_ALIKE: Final = 100
"""By one part in so many another amount may differ and still be the same payment."""
_MOST_EDGES: Final = 50_000


@dataclass(eq=False, slots=True)
class Item:
    """A transfer as the bank would see it, signed and without our fee, or a bank's entry."""

    number: int
    """From 0 for entries, from -1 down for transfers."""
    id: str
    kind: tuple[str, bool]
    """The asset, and whether it is paid out."""
    amount: int
    """In units of the search, and so are ``charges``."""
    first: int
    last: int
    """Days since 1970: of an entry when it was booked and valued, of a transfer when it was made
    and settled."""
    charges: int = 0
    names: tuple[str, ...] = ()
    """Of counterparty or memo: a transfer's own, or those of any transfer that an entry says."""
    party: str = ""
    keys: tuple[tuple[str, str], ...] = ()
    """What a bank may lump a day's transfers by."""
    mentions: tuple[Item, ...] = ()
    """The transfers that an entry names by id or ``ref_id``."""
    rules: tuple[int, ...] = ()
    """Those of the user's own that may be about it."""

    @property
    def gross(self) -> int:
        """What came, or went, before the bank kept its charges back."""
        return self.amount + self.charges

    @property
    def asset(self) -> str:
        return self.kind[0]

    def totals(self, less: int = 0) -> tuple[int, ...]:
        """What its counterpart may come to."""
        if self.number < 0:
            return (self.amount,)
        if less:
            return (self.amount + less,)
        return (self.amount, self.gross) if self.charges else (self.amount,)


@dataclass(eq=False, slots=True)
class Group:
    """What belongs together. In a block nothing tells which with which; so many of its members as
    ``rest`` has have no counterpart, and nothing tells which: those in it stand for them."""

    how: str
    members: set[int]
    less: int = 0
    block: bool = False
    rest: set[int] = field(default_factory=set)
    early: int = 0


_Pools = Callable[[Item], Iterable[Sequence[Item]]]


class Search:
    """What is open on both sides; each step takes from it what has one answer."""

    def __init__(self, entries: Sequence[Item], transfers: Sequence[Item], window: int) -> None:
        self.items = {item.number: item for item in (*entries, *transfers)}
        self.window = window
        self.open = set(self.items)
        self.held: dict[int, str] = {}
        self.groups: dict[Group, None] = {}
        # Of what is left over of a block the block, and so each of its members.
        self.block_of: dict[int, Group] = {}
        self.questions: list[tuple[str, list[Edge]]] = []
        self.forbidden: frozenset[tuple[int, int]] = frozenset()
        parties = {transfer.party for transfer in transfers if transfer.party}
        self.naming = {entry.number for entry in entries if not parties.isdisjoint(entry.names)}
        self.early = 0
        self.longest = max((item.last - item.first for item in self.items.values()), default=0)
        self.crowded: dict[int, int] = {}
        # Of the step's groups, how many chance would make in place of each; and of how many tries.
        self.chance: dict[Edge, float] = {}
        self.tries = 0
        self.doubts: dict[Edge, str] = {}

    @property
    def matched_entries(self) -> int:
        members = (n for group in self.groups for n in group.members - group.rest)
        return sum(number >= 0 for number in members)

    # ------------------------------------------------------------------ what is open

    def left(self, *, entries: bool) -> list[Item]:
        """In their order."""
        numbers = sorted((n for n in self.open if (n >= 0) == entries), key=abs)
        return [self.items[number] for number in numbers]

    def near(self, one: Item, other: Item) -> bool:
        """Whether an entry may be of a transfer: by its days, and by whom it names."""
        entry, transfer = (one, other) if one.number >= 0 else (other, one)
        earliest, latest = transfer.first - self.early, transfer.last + self.window
        if entry.first > latest or entry.last < earliest:
            return False
        if transfer in entry.mentions or any(name in transfer.names for name in entry.names):
            return True
        # It names another transfer, or another counterparty.
        return not entry.mentions and not (transfer.party and entry.number in self.naming)

    def allowed(self, edge: Collection[int]) -> bool:
        if not self.forbidden:
            return True
        entries = [number for number in edge if number >= 0]
        return not any((e, t) in self.forbidden for e in entries for t in edge if t < 0)

    def possible_ones(self, *, entries: bool) -> list[Item]:
        """Those of nothing yet, though a question may hold them back, in their order."""
        numbers = (n for n in self.open | self.held.keys() if (n >= 0) == entries)
        return [self.items[number] for number in sorted(numbers, key=abs)]

    # ------------------------------------------------------------------ possible groups

    def take_by_hand(
        self, fixed: Collection[tuple[int, int]], forbidden: Collection[tuple[int, int]]
    ) -> None:
        self.forbidden = frozenset(forbidden)
        for component in components([frozenset(pair) for pair in fixed]):
            self._take(Group("accepted", set().union(*component)))

    def by_reference(self, less: int | None = 0) -> Iterator[Edge]:
        """Pairs of an entry and a transfer that it names; ``None``: of any amount the same way."""
        entries = self.left(entries=True)
        if less is None:
            every = (item for item in self.items.values() if item.number >= 0)
            mentioned = Counter(t.number for entry in every for t in entry.mentions)
        for entry in entries:
            for transfer in entry.mentions:
                if transfer.number not in self.open or transfer.asset != entry.asset:
                    continue
                if less is None:
                    # Nearly the same amount, and neither names another one.
                    more = abs(entry.amount - transfer.amount)
                    alike = more * _ALIKE <= abs(transfer.amount)
                    alone = len(entry.mentions) == 1 == mentioned[transfer.number]
                    agrees = transfer.kind == entry.kind and alike and alone
                else:
                    agrees = transfer.amount in entry.totals(less)
                if agrees:
                    yield frozenset((entry.number, transfer.number))

    def by_references(self) -> Iterator[Edge]:
        named = [
            frozenset((entry.number, transfer.number))
            for entry in self.left(entries=True)
            for transfer in entry.mentions
            if transfer.number in self.open and transfer.asset == entry.asset
        ]
        for component in components(named):
            members = frozenset().union(*component)
            if len(members) > 2 and self._balanced(members):
                yield members

    def by_name(self, less: int = 0) -> Iterator[Edge]:
        """Pairs of one amount that a name supports."""
        waiting: dict[tuple[str, int, str], list[Item]] = defaultdict(list)
        for transfer in self.left(entries=False):
            for name in transfer.names:
                waiting[transfer.asset, transfer.amount, name].append(transfer)
        for entry in self.left(entries=True):
            for total in dict.fromkeys(entry.totals(less)):
                for name in entry.names:
                    for transfer in waiting.get((entry.asset, total, name), ()):
                        if self.near(entry, transfer):
                            yield frozenset((entry.number, transfer.number))

    def _of_one_amount(self, less: int) -> Iterator[tuple[tuple[str, int], list[Item], list[Item]]]:
        waiting: dict[tuple[str, int], list[Item]] = defaultdict(list)
        for transfer in self.left(entries=False):
            waiting[transfer.asset, transfer.amount].append(transfer)
        asking: dict[tuple[str, int], list[Item]] = defaultdict(list)
        for entry in self.left(entries=True):
            for total in dict.fromkeys(entry.totals(less)):
                if (entry.asset, total) in waiting:
                    asking[entry.asset, total].append(entry)
        for key, entries in asking.items():
            yield key, entries, waiting[key]

    def _of_two_amounts(self, parts: set[int]) -> Iterator[Edge]:
        """Pairs of one amount where an entry may also be of another amount's transfer, one being
        what it was before charges; and all that hang together with these."""
        asked: list[tuple[list[Item], dict[int, list[Item]]]] = []
        for _, entries, transfers in self._of_one_amount(0):
            by_day: dict[int, list[Item]] = defaultdict(list)
            for transfer in transfers:
                by_day[transfer.last].append(transfer)
            asked.append((entries, by_day))

        def may_be(entry: Item, by_day: Mapping[int, list[Item]]) -> list[Item]:
            of_days = (by_day.get(day, ()) for day in self.reach(entry))
            return [one for some in of_days for one in some if self.near(entry, one)]

        amounts = Counter(entry.number for entries, _ in asked for entry in entries)
        keys = Counter(
            entry.number
            for entries, by_day in asked
            for entry in entries
            if amounts[entry.number] > 1 and may_be(entry, by_day)
        )
        near: list[Edge] = []
        for entries, by_day in asked:
            if all(keys[entry.number] < 2 for entry in entries):
                continue
            for entry in entries:
                near += [
                    frozenset((entry.number, transfer.number))
                    for transfer in may_be(entry, by_day)
                    if parts.isdisjoint((entry.number, transfer.number))
                ]
                if len(near) > _MOST_EDGES:
                    several = {
                        item.number for some, of_days in asked
                        if any(keys[one.number] > 1 for one in some)
                        for item in (*some, *chain.from_iterable(of_days.values()))
                    }  # fmt: skip
                    self._hold(several - parts, "too many of one amount")
                    return
        for component in components(near):
            members = frozenset().union(*component)
            if not self._alike(members, members):
                yield from component

    def _alike(self, members: Collection[int], of: Collection[int]) -> bool:
        """Whether on each side that ``of`` has some of the ``members`` are of one amount."""
        sides = {number >= 0 for number in of}
        amounts = {(n >= 0, self.items[n].amount) for n in members if (n >= 0) in sides}
        return len(amounts) == len(sides)

    def pair_amounts(self, how: str, less: int = 0) -> None:
        """Entries and transfers of one amount, as far as their days and names go.

        What may be a part of something larger is held back."""
        parts = self._parts_of_others() | self._spoken_for() if how == "amount" else set()
        if not less:
            self.step(how, self._of_two_amounts(parts))
        others: dict[tuple[str, int], list[Item]] = defaultdict(list)
        for item in (self.items[number] for number in sorted(self.held.keys() | parts)):
            for total in item.totals(less):
                others[item.asset, total].append(item)
        for key, entries, transfers in [*self._of_one_amount(less)]:
            # Each is in one group; an entry with charges may have been asked for twice.
            entries, transfers = (
                [item for item in items if item.number in self.open and item.number not in parts]
                for items in (entries, transfers)
            )
            if not less:
                entries, transfers = self._with_their_blocks(
                    key[1], entries, transfers, parts | self.held.keys()
                )
            plain = not self.forbidden and not any(e.names or e.mentions for e in entries)
            sides: tuple[dict[Any, list[Item]], dict[Any, list[Item]]] = {}, {}
            for items, classes in zip((entries, transfers), sides, strict=True):
                for item in items:
                    own = () if plain else (item.names, item.mentions, item.party) if (
                        not self.forbidden) else item.number  # fmt: skip
                    stands_for = item.number in self.block_of
                    classes.setdefault((item.last, item.first, own, stands_for), []).append(item)
            theirs, ours = ([of[key] for key in sorted(of, key=_by_days)] for of in sides)
            by_day: dict[int, list[int]] = defaultdict(list)
            for number, alike in enumerate(ours):
                by_day[alike[0].last].append(number)
            edges: list[tuple[int, int]] = []
            for number, alike in enumerate(theirs):
                entry = alike[0]
                edges += [
                    (number, ~other)
                    for day in self.reach(entry)
                    for other in by_day.get(day, ())
                    if self.near(entry, ours[other][0])
                    and self.allowed((entry.number, ours[other][0].number))
                ]
                if len(edges) > _MOST_EDGES:
                    break
            if len(edges) > _MOST_EDGES:
                several = {item.number for item in (*entries, *transfers)} & self.open
                self._hold(several, "too many of one amount")
                continue
            booked = {n: len(alike) for n, alike in enumerate(theirs)}
            paid = {~n: len(alike) for n, alike in enumerate(ours)}
            for block in blocks(booked, paid, edges):
                members = {i.number for n in block.entries for i in theirs[n]}
                members |= {i.number for n in block.transfers for i in ours[~n]}
                # Which of them are left over nobody knows; those that came last stand for them.
                rest = {
                    item.number
                    for n, count in block.rest.items()
                    for item in (theirs[n] if n >= 0 else ours[~n])[-count:]
                }
                # What is left over may be of either amount: of few a person can say which.
                if len(members) <= _FEW and not self._alike(members, rest):
                    self._ask(how, [
                        frozenset((entry.number, transfer.number))
                        for n, other in edges if n in block.entries
                        for entry in theirs[n] for transfer in ours[~other]
                    ])  # fmt: skip
                    continue
                # What may be a part of something larger is one more that is alike.
                more = {
                    item.number for item in others[key]
                    if any((n >= 0) != (item.number >= 0) and self.near(item, self.items[n])
                           for n in members)
                } - self.block_of.keys()  # fmt: skip
                members, rest = members | more, rest | more
                self._take(Group(how, members, less, len(members) > 2, rest))
        self.open -= self.held.keys()

    def _with_their_blocks(
        self, amount: int, entries: list[Item], transfers: list[Item], held_back: set[int]
    ) -> tuple[list[Item], list[Item]]:
        """And all of a block of this amount where some stand for what it leaves over: any of it may
        be what is left, and each has days and names of its own."""
        numbers = {item.number for item in (*entries, *transfers)}
        for block in {self.block_of[number] for number in numbers & self.block_of.keys()}:
            members = [self.items[number] for number in block.members]
            if all(item.totals() == (amount,) and not item.mentions for item in members):
                numbers |= block.members - held_back
        every = [self.items[number] for number in sorted(numbers, key=place_of)]
        return [i for i in every if i.number >= 0], [i for i in every if i.number < 0]

    def _spoken_for(self) -> set[int]:
        """Transfers that may be a part of an entry which names their counterparty and has no group,
        with others that are held back or not."""
        matched = {n for group in self.groups for n in group.members - group.rest}
        parties: dict[tuple[str, bool, str], list[Item]] = defaultdict(list)
        for transfer in (self.items[n] for n in sorted(self.open | self.held.keys()) if n < 0):
            for name in transfer.names:
                parties[*transfer.kind, name].append(transfer)
        spoken: set[int] = set()
        for number in self.naming - matched:
            entry = self.items[number]
            for name in entry.names:
                some = [t for t in parties[*entry.kind, name] if self.near(entry, t)
                        and abs(t.amount) < abs(entry.gross)]  # fmt: skip
                sums, complete = sums_to(abs(entry.gross), [abs(t.amount) for t in some])
                every = {*range(len(some))} if not complete else set()
                spoken |= {some[n].number for n in every.union(*(places for places, _ in sums))}
        return spoken

    def _parts_of_others(self) -> set[int]:
        """Transfers of one day and counterparty that sum to an entry which has none of its own
        amount: though it does not name them, they may be its batch."""
        amounts = {(t.asset, t.amount) for t in self.left(entries=False)}
        batches: dict[tuple[Any, ...], list[Item]] = defaultdict(list)
        for transfer in self.left(entries=False):
            if transfer.party:
                batches[(*transfer.kind, transfer.last, transfer.party)].append(transfer)
        of_day: dict[tuple[Any, ...], list[list[Item]]] = defaultdict(list)
        for (asset, out, day, _), batch in batches.items():
            if len(batch) > 1:
                of_day[asset, out, day].append(batch)
        members: set[int] = set()
        for entry in self.left(entries=True):
            if any((entry.asset, total) in amounts for total in entry.totals()):
                continue
            for day in self.reach(entry):
                for batch in of_day.get((*entry.kind, day), ()):
                    near = [item for item in batch if self.near(entry, item)]
                    for total in entry.totals():
                        sums, _ = sums_to(abs(total), [abs(item.amount) for item in near])
                        members |= {near[n].number for places, _ in sums for n in places}
        return members

    def by_counterparty(self) -> Iterator[Edge]:
        """Pairs that a name supports. Where one of either side belongs to a sum of that name as
        well, that is another answer, and is judged with it."""
        pairs = [*self.by_name()]
        sums: dict[int, list[Edge]] = defaultdict(list)
        for edge in self.by_sum(self.named_pools):
            for number in edge:
                sums[number].append(edge)
        for pair in pairs:
            yield pair
            for number in pair:
                yield from (edge for edge in sums[number] if not pair <= edge)

    def by_rule(self, rule: int, days: int, within: int) -> Iterator[Edge]:
        """Pairs that a rule of the user's own allows, of amounts ``within`` so much."""
        waiting: dict[tuple[str, bool], list[Item]] = defaultdict(list)
        for transfer in self.left(entries=False):
            if rule in transfer.rules:
                waiting[transfer.kind].append(transfer)
        for transfers in waiting.values():
            transfers.sort(key=lambda item: item.amount)
        for entry in (item for item in self.left(entries=True) if rule in item.rules):
            transfers = waiting[entry.kind]
            low = bisect_left(transfers, entry.gross - within, key=lambda item: item.amount)
            for transfer in islice(transfers, low, None):
                if transfer.amount > entry.gross + within:
                    break
                early, late = transfer.first - EARLY, transfer.last + days
                named = not entry.mentions or transfer in entry.mentions
                if named and early <= entry.last and entry.first <= late:
                    yield frozenset((entry.number, transfer.number))

    def by_sum(self, pools: _Pools, less: int = 0) -> Iterator[Edge]:
        """One entry for several transfers, and one transfer for several entries."""
        for of_bank in (True, False):
            if less and not of_bank:
                continue
            # The open items of the other side by day and by name.
            self.by_day: dict[tuple[str, bool, int], list[Item]] = defaultdict(list)
            self.of_name: dict[tuple[str, bool, str], list[Item]] = defaultdict(list)
            self.by_mention: dict[int, list[Item]] = defaultdict(list)
            for item in self.possible_ones(entries=not of_bank):
                for transfer in item.mentions:
                    self.by_mention[transfer.number].append(item)
                self.by_day[(*item.kind, item.last)].append(item)
                for name in item.names:
                    self.of_name[*item.kind, name].append(item)
            weight = _STRAY if pools == self.named_pools else 1.0
            ones = self.left(entries=of_bank)
            for one in ones:
                edges: set[Edge] = set()
                # Among many, the sums of a small amount are too dense to say anything.
                best = weight * by_chance(1, one.amount, [1])
                most = EXHAUSTIVE if best * len(ones) <= _BY_CHANCE else _FEW_PARTS
                every = [*pools(one)]
                self.tries += bool(every)
                for pool in every:
                    for total in dict.fromkeys(one.totals(less)):
                        fits = [item for item in pool if abs(item.gross) < abs(total)]
                        amounts = [abs(item.gross) for item in fits]
                        sums, complete = sums_to(abs(total), amounts, most)
                        for places, chance in sums:
                            edge = frozenset((one.number, *(fits[n].number for n in places)))
                            edges.add(edge)
                            before = self.chance.get(edge, 1.0)
                            self.chance[edge] = min(before, weight * chance)
                        if not complete:
                            self.crowded[one.number] = len(pool)
                yield from sorted(edges, key=sorted)

    def named_pools(self, one: Item) -> Iterator[Sequence[Item]]:
        """All that ``one`` names, or is named by, and those of each name."""
        near: list[Sequence[Item]] = [one.mentions or self.by_mention.get(one.number, ())]
        near += [self.of_name.get((*one.kind, name), ()) for name in one.names]
        pools = [
            [i for i in pool if i.kind == one.kind and self.near(one, i)
             and (i.number in self.open or i.number in self.held)]
            for pool in near
            if pool
        ]  # fmt: skip
        pools.append([*dict.fromkeys(item for pool in pools for item in pool)])
        for pool in dict.fromkeys(
            tuple(sorted(pool, key=lambda item: place_of(item.number))) for pool in pools
        ):
            if len(pool) > 1:
                yield pool

    def day_pools(self, one: Item) -> Iterator[Sequence[Item]]:
        """Those of each day, as far as they may belong to ``one``."""
        yield from (pool for pool in self._by_days(one) if len(pool) > 1)

    def window_pools(self, one: Item) -> Iterator[Sequence[Item]]:
        near = [item for pool in self._by_days(one) for item in pool]
        if len(near) > 1:
            yield near

    def amounts_of(self, members: Iterable[int]) -> list[int]:
        return [self.items[number].gross for number in members]

    def reach(self, one: Item) -> range:
        """The last days of what may be near it, with those of its window."""
        end = one.last + self.window + EARLY + self.longest + 1
        return range(one.first - self.window - EARLY, end)

    def _by_days(self, one: Item) -> Iterator[list[Item]]:
        for day in self.reach(one):
            yield [i for i in self.by_day.get((*one.kind, day), ()) if self.near(one, i)]

    def by_total(self, longest: int | None = None) -> Iterator[Edge]:
        """One entry for all transfers of a day, or of it and one of their keys; and the reverse.
        With ``longest`` for up to so many of a day that settled one after the other."""
        for of_bank in (True, False):
            days: dict[tuple[Any, ...], list[Item]] = defaultdict(list)
            for item in self.possible_ones(entries=not of_bank):
                for key in (("", ""), *item.keys):
                    days[*item.kind, item.last, *key].append(item)
            totals: dict[tuple[str, int], set[Edge]] = defaultdict(set)
            made: dict[tuple[str, int], dict[Edge, int]] = defaultdict(dict)
            for (asset, _, day, *_), items in days.items():
                starts = range(len(items) - 1) if longest else range(1)
                for start in starts:
                    end = start + longest if longest else len(items)
                    total, several = 0, []
                    for item in items[start:end]:
                        total += item.amount
                        several.append(item.number)
                        if len(several) > 1 and (longest or len(several) == len(items)):
                            edge = frozenset(several)
                            totals[asset, total].add(edge)
                            made[asset, day][edge] = total
            sums = {key: sorted(of_day.values()) for key, of_day in made.items()}
            for one in self.left(entries=of_bank):
                self.tries += 1
                for total in dict.fromkeys(one.totals()):
                    for found in sorted(totals.get((one.asset, total), ()), key=sorted):
                        if all(self.near(one, self.items[number]) for number in found):
                            alike = sum(
                                count_alike(sums.get((one.asset, day), []), total)
                                for day in self.reach(one)
                            )
                            edge = found | {one.number}
                            # A bank that lumps a day lumps all of it: that is no arbitrary sum.
                            weight = 1.0 if longest else _STRAY
                            parts = self.amounts_of(found)
                            self.chance[edge] = weight * by_chance(alike, total, parts)
                            yield edge

    def by_many(self) -> Iterator[Edge]:
        """Several entries for several transfers: all of one name at a time."""
        named: dict[tuple[str, bool, str], list[Item]] = defaultdict(list)
        for item in (*self.left(entries=True), *self.left(entries=False)):
            for name in item.names:
                named[*item.kind, name].append(item)
        edges: set[Edge] = set()
        for items in named.values():
            for cluster in self._clusters(items):
                members = frozenset(item.number for item in cluster)
                several = all(sum((n >= 0) == side for n in members) > 1 for side in (True, False))
                if several and self._balanced(members) and all(
                    self.near(one, other) for one in cluster for other in cluster
                    if other.number < 0 <= one.number
                ):  # fmt: skip
                    edges.add(members)
        yield from sorted(edges, key=sorted)

    def _clusters(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Items without a gap of more than the window between their days."""
        cluster: list[Item] = []
        end = 0
        for item in sorted(items, key=lambda item: (item.first, item.number)):
            if cluster and item.first > end + self.window + EARLY:
                yield cluster
                cluster = []
            cluster.append(item)
            end = max(end, item.last)
        if cluster:
            yield cluster

    def _balanced(self, members: Collection[int]) -> bool:
        items = [self.items[number] for number in members]
        booked = [item for item in items if item.number >= 0]
        paid = sum(item.amount for item in items if item.number < 0)
        return paid in (sum(item.amount for item in booked), sum(item.gross for item in booked))

    # ------------------------------------------------------------------ the judgement

    def step(self, how: str, edges: Iterable[Edge], less: int = 0) -> None:
        self.chance, self.tries = {}, 0
        waiting: dict[tuple[str, int], list[Item]] = defaultdict(list)
        for number in self.held:
            item = self.items[number]
            for total in item.totals():
                waiting[item.asset, total].append(item)
        possible = [edge for edge in dict.fromkeys(edges) if self.allowed(edge)]
        for component in components(possible):
            members = frozenset().union(*component)
            held = not members.isdisjoint(self.held) or any(
                len(edge) > 2 and len(side) == 1 and self._has_another(side[0], waiting)
                for edge in component
                for side in ([n for n in edge if n >= 0], [n for n in edge if n < 0])
            )
            if held or (how == "tolerance" and len(component) > 1):
                self._ask(how, component)
                continue
            if all(len(edge) == 2 for edge in component):
                items = [self.items[number] for number in members]
                items.sort(key=lambda item: (item.last, place_of(item.number)))
                booked = {item.number: 1 for item in items if item.number >= 0}
                paid = {item.number: 1 for item in items if item.number < 0}
                for block in blocks(booked, paid, sorted((max(e), min(e)) for e in component)):
                    pair = {*block.entries, *block.transfers}
                    if self._alike(pair, block.rest):
                        self._take(Group(how, pair, less, len(pair) > 2, {*block.rest}))
                    else:
                        self._ask(how, [edge for edge in component if edge <= pair])
                continue
            answers = covers(members, component)
            if not answers:
                self._ask(how, component)
            elif len(self.items) > _FEW and any(
                self.tries * self.chance.get(edge, 0) > _BY_CHANCE for edge in answers[0]
            ):
                # A better answer may come, but not for what the bank itself names.
                if how.startswith("counterparty"):
                    self._ask(how, component, _BY_CHANCE_TOO)
                else:
                    self.doubts |= dict.fromkeys(answers[0], how)
            elif len(answers) > 1:
                self._take(Group(how, {*members}, less, block=True))
            else:
                for edge in answers[0]:
                    sums = how == "counterparty" and len(edge) > 2
                    self._take(Group("counterparty_sum" if sums else how, {*edge}, less))
        self.open -= self.held.keys()

    def _ask(self, how: str, component: list[Edge], why: str = "several answers") -> None:
        self.questions.append((how, component))
        self._hold(frozenset().union(*component), why)

    def _hold(self, members: Iterable[int], why: str) -> None:
        for number in members:
            self.held.setdefault(number, why)

    def _has_another(self, number: int, waiting: dict[tuple[str, int], list[Item]]) -> bool:
        """Whether one of ``waiting`` is of its amount, and near it."""
        one = self.items[number]
        return any(
            (item.number < 0) != (number < 0) and self.near(one, item)
            for total in one.totals()
            for item in waiting.get((one.asset, total), ())
        )

    def _take(self, group: Group) -> None:
        """What takes one that stands for the rest of a block takes the block, whose evidence is
        then no stronger than this step's."""
        group.early = self.early
        for block in {self.block_of[n] for n in group.members if n in self.block_of}:
            group.rest |= block.rest - group.members
            group.members |= block.members
            group.block = True
            del self.groups[block]
        self.groups[group] = None
        self.open -= group.members
        self.open |= group.rest
        for number in group.members:
            self.block_of.pop(number, None)
        self.block_of |= dict.fromkeys(group.rest, group)

    def ask_of_two_amounts(self) -> None:
        """Once all steps are done: entries with charges that took a transfer of one of their
        amounts, where one of the other was held back and is of nothing after all."""
        groups = [
            group for group in self.groups
            if group.how == "amount" and len(group.members) <= _FEW
            and any(self.items[number].charges for number in group.members)
        ]  # fmt: skip
        while True:  # what one has no more may be another's
            waiting: dict[tuple[str, int], list[Item]] = defaultdict(list)
            for transfer in self.possible_ones(entries=False):
                waiting[transfer.asset, transfer.amount].append(transfer)
            edges_of = [(group, self._of_either_amount(group, waiting)) for group in groups]
            asked = [one for one in edges_of if not all(edge <= one[0].members for edge in one[1])]
            if not asked:
                break
            for group, edges in asked:
                groups.remove(group)
                del self.groups[group]
                self.open |= group.members
                for number in group.members:
                    self.block_of.pop(number, None)
                self._ask(group.how, edges)
        self.open -= self.held.keys()

    def _of_either_amount(
        self, group: Group, waiting: Mapping[tuple[str, int], list[Item]]
    ) -> list[Edge]:
        """Pairs of its members, and of its entries with what waits of another amount than its."""
        self.early = group.early
        items = [self.items[number] for number in sorted(group.members, key=place_of)]
        own = {item.amount for item in items if item.number < 0}
        totals = dict.fromkeys((item.asset, total) for item in items for total in item.totals())
        more = (waiting.get(key, ()) for key in totals if key[1] not in own)
        transfers = [item for item in chain(items, *more) if item.number < 0]
        near = {
            frozenset((entry.number, transfer.number)): self.near(entry, transfer)
            for entry in items if entry.number >= 0 for transfer in transfers
            if transfer.amount in entry.totals()
        }  # fmt: skip
        edges = [edge for edge in near if near[edge]]
        # What a reference had brought together may be any number of days apart.
        apart = group.members.difference(*edges)
        edges += [edge for edge in near if edge <= group.members and not edge.isdisjoint(apart)]
        return [edge for edge in edges if self.allowed(edge)]

    def ask_what_is_in_doubt(self) -> None:
        """Once all steps are done: what chance could have made, and nothing better has taken."""
        for edge, how in self.doubts.items():
            if edge <= self.open:
                self._ask(how, [edge], _BY_CHANCE_TOO)


def place_of(number: int) -> tuple[bool, int]:
    """Entries first, each side in its order."""
    return number < 0, abs(number)


def _by_days(key: tuple[int, int, Any, int]) -> tuple[int, int, int]:
    return key[0], key[1], key[3]
