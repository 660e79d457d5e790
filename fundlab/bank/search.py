"""The search for groups of a bank's entries and transfers of equal sums, one step after another.

Each step collects every group that is possible among what is still open; what it then takes, and
what it only lists, is decided in one place, :meth:`Search.step`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any, Final

from fundlab.analysis.bank import EARLY
from fundlab.bank.sums import (
    EXHAUSTIVE,
    Edge,
    by_chance,
    components,
    count_alike,
    only_cover,
    sums_to,
)

_FEW_PARTS: Final = 6
"""So many where even a sum that is the only one would be a coincidence: to list it."""
_STRAY: Final = 0.01
"""What part of the items is taken to belong to nothing on the other side."""
_BY_CHANCE: Final = 0.01
"""How many wrong groups of its kind a group may let expect in a step, and still be taken."""
_FEW: Final = 20
"""Among so few items altogether the only answer is taken: a person would see no other one."""
_ALIKE: Final = 100
"""By one part in so many another amount may differ and still be the same payment."""
_MOST_EDGES: Final = 4_000
_MANY: Final = 12


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


_Pools = Callable[[Item], Iterable[Sequence[Item]]]


class Search:
    """What is open on both sides; each step takes from it what has one answer."""

    def __init__(self, entries: Sequence[Item], transfers: Sequence[Item], window: int) -> None:
        self.items = {item.number: item for item in (*entries, *transfers)}
        self.window = window
        self.open = set(self.items)
        self.held: dict[int, str] = {}
        self.groups: list[tuple[str, list[Item], int]] = []
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
        # The last days of the items of one side, asset and amount, where they are several.
        self.days_of: dict[tuple[bool, str, int], list[int]] = {}
        for side in (entries, transfers):
            ordered = sorted(side, key=lambda item: (item.amount, item.kind, item.last))
            for (amount, kind), same in groupby(ordered, lambda item: (item.amount, item.kind)):
                days = [item.last for item in same]
                if len(days) > 1:
                    self.days_of[side is entries, kind[0], amount] = days

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
        if transfer in entry.mentions or _share_a_name(entry, transfer):
            return True
        # It names another transfer, or another counterparty.
        return not entry.mentions and not (transfer.party and entry.number in self.naming)

    def allowed(self, edge: Collection[int]) -> bool:
        if not self.forbidden:
            return True
        entries = [number for number in edge if number >= 0]
        return not any((e, t) in self.forbidden for e in entries for t in edge if t < 0)

    # ------------------------------------------------------------------ possible groups

    def take_by_hand(
        self, fixed: Collection[tuple[int, int]], forbidden: Collection[tuple[int, int]]
    ) -> None:
        self.forbidden = frozenset(forbidden)
        for component in components([frozenset(pair) for pair in fixed]):
            self._take("fixed", frozenset().union(*component), 0)

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

    def by_amount(self, less: int = 0, *, named: bool = False) -> Iterator[Edge]:
        waiting: dict[tuple[str, int], list[Item]] = defaultdict(list)
        for transfer in self.left(entries=False):
            waiting[transfer.asset, transfer.amount].append(transfer)
        asking: dict[tuple[str, int], list[Item]] = defaultdict(list)
        for entry in self.left(entries=True):
            for total in dict.fromkeys(entry.totals(less)):
                if (entry.asset, total) in waiting:
                    asking[entry.asset, total].append(entry)
        for key, entries in asking.items():
            transfers, edges = waiting[key], 0
            by_day: dict[int, list[Item]] = defaultdict(list)
            for transfer in transfers:
                by_day[transfer.last].append(transfer)
            for entry in entries:
                # Where they are many, only those whose last day may be near.
                reach, close = self.reach(entry), transfers
                if len(transfers) > len(reach):
                    close = [item for day in reach for item in by_day.get(day, ())]
                for transfer in close:
                    if edges == _MOST_EDGES or (named and not _share_a_name(entry, transfer)):
                        continue
                    if self.near(entry, transfer):
                        edges += 1
                        edge = frozenset((entry.number, transfer.number))
                        others = 0 if named else self.alike(entry, transfer)
                        if others:
                            # That one is of nothing and the other, too, and they look the same.
                            self.chance[edge] = _STRAY * _STRAY * others
                            self.tries += 1
                        yield edge
            if edges == _MOST_EDGES:
                silent = [e for e in entries if not (e.number in self.naming or e.mentions)]
                for item in (*silent, *transfers):
                    self.held[item.number] = "too many of one amount"

    def by_counterparty(self) -> Iterator[Edge]:
        """Pairs that a name supports. Where both sides of one belong to other sums of that name as
        well, those are another answer, and are judged with it."""
        pairs = [*self.by_amount(named=True)]
        sums: dict[int, list[Edge]] = defaultdict(list)
        for edge in self.by_sum(self.named_pools):
            for number in edge:
                sums[number].append(edge)
        for pair in pairs:
            yield pair
            rivals = [[edge for edge in sums[number] if not pair <= edge] for number in pair]
            if all(rivals):
                yield from (edge for side in rivals for edge in side)

    def alike(self, entry: Item, transfer: Item) -> int:
        """How many others, matched or not, have the amount of one of them within its window."""
        reach, most = self.window + EARLY + self.longest, 0
        for one, other in ((entry, transfer), (transfer, entry)):
            days = self.days_of.get((other.number >= 0, other.asset, other.amount))
            if days:
                close = bisect_right(days, one.last + reach) - bisect_left(days, one.first - reach)
                most = max(most, close - 1)
        return most

    def by_sum(self, pools: _Pools, less: int = 0) -> Iterator[Edge]:
        """One entry for several transfers, and one transfer for several entries."""
        for of_bank in (True, False):
            if less and not of_bank:
                continue
            # The open items of the other side by day and by name.
            self.by_day: dict[tuple[str, bool, int], list[Item]] = defaultdict(list)
            self.by_name: dict[tuple[str, bool, str], list[Item]] = defaultdict(list)
            self.by_mention: dict[int, list[Item]] = defaultdict(list)
            for item in self.left(entries=not of_bank):
                for transfer in item.mentions:
                    self.by_mention[transfer.number].append(item)
                self.by_day[(*item.kind, item.last)].append(item)
                for name in item.names:
                    self.by_name[*item.kind, name].append(item)
            weight = _STRAY if pools == self.named_pools else 1.0
            ones = self.left(entries=of_bank)
            for one in ones:
                found: set[Edge] = set()
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
                            found.add(edge)
                            before = self.chance.get(edge, 1.0)
                            self.chance[edge] = min(before, weight * chance)
                        if not complete:
                            self.crowded[one.number] = len(pool)
                yield from sorted(found, key=sorted)

    def named_pools(self, one: Item) -> Iterator[Sequence[Item]]:
        """All that ``one`` names, or is named by, and those of each name."""
        near: list[Sequence[Item]] = [one.mentions or self.by_mention.get(one.number, ())]
        near += [self.by_name.get((*one.kind, name), ()) for name in one.names]
        pools = [
            [i for i in pool if i.number in self.open and i.kind == one.kind and self.near(one, i)]
            for pool in near
            if pool
        ]
        if len(pools) > 1:
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
            for item in self.left(entries=not of_bank):
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
        """Several entries for several transfers: all of one name at a time, or a few of a few."""
        named: dict[tuple[str, bool, str], list[Item]] = defaultdict(list)
        kinds: dict[tuple[str, bool], list[Item]] = defaultdict(list)
        for item in (*self.left(entries=True), *self.left(entries=False)):
            kinds[item.kind].append(item)
            for name in item.names:
                named[*item.kind, name].append(item)
        found: set[Edge] = set()
        for items in named.values():
            for cluster in self._clusters(items):
                members = frozenset(item.number for item in cluster)
                several = all(sum((n >= 0) == side for n in members) > 1 for side in (True, False))
                if several and self._balanced(members) and self._all_near(members):
                    found.add(members)
        for items in kinds.values():
            for cluster in self._clusters(items):
                self.tries += 1
                found |= self._few_for_few(cluster)
        yield from sorted(found, key=sorted)

    def _clusters(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Items without a gap of more than the window between their days."""
        cluster: list[Item] = []
        end = 0
        for item in sorted(items, key=lambda item: (item.first, item.number)):
            if cluster and item.first > end + self.window + EARLY:
                yield cluster
                cluster = []
            cluster.append(item)
            end = max(end, item.last) if len(cluster) > 1 else item.last
        if cluster:
            yield cluster

    def _few_for_few(self, items: Sequence[Item]) -> set[Edge]:
        sides = [
            [item for item in items if (item.number >= 0) == of_bank] for of_bank in (True, False)
        ]
        if not all(1 < len(side) <= _MANY for side in sides):
            return set()
        sums: list[dict[int, list[tuple[int, ...]]]] = []
        for side in sides:
            by_total: dict[int, list[tuple[int, ...]]] = defaultdict(list)
            for size in (2, 3):
                for several in combinations(side, size):
                    total = sum(item.gross for item in several)
                    by_total[total].append(tuple(item.number for item in several))
            sums.append(by_total)
        found: set[Edge] = set()
        made = [sorted(total for total, several in side.items() for _ in several) for side in sums]
        for total, entries in sums[0].items():
            for some in entries:
                for others in sums[1].get(total, ()):
                    members = (*some, *others)
                    if self._all_near(members) and self._is_smallest(some, others):
                        edge = frozenset(members)
                        found.add(edge)
                        alike = count_alike(made[0], total) * count_alike(made[1], total)
                        self.chance[edge] = by_chance(alike, total, self.amounts_of(members))
        return found

    def _is_smallest(self, some: Sequence[int], others: Sequence[int]) -> bool:
        """Whether no part of the group would balance by itself."""
        parts = [
            {
                sum(self.amounts_of(part))
                for size in range(1, len(side))
                for part in combinations(side, size)
            }
            for side in (some, others)
        ]
        return parts[0].isdisjoint(parts[1])

    def _all_near(self, members: Collection[int]) -> bool:
        items = [self.items[number] for number in members]
        transfers = [item for item in items if item.number < 0]
        return all(self.near(e, t) for e in items if e.number >= 0 for t in transfers)

    def _balanced(self, members: Collection[int]) -> bool:
        items = [self.items[number] for number in members]
        booked = [item for item in items if item.number >= 0]
        paid = sum(item.amount for item in items if item.number < 0)
        return paid in (sum(item.amount for item in booked), sum(item.gross for item in booked))

    # ------------------------------------------------------------------ the judgement

    def step(self, how: str, edges: Iterable[Edge], less: int = 0) -> None:
        self.chance, self.tries = {}, 0
        possible = [edge for edge in dict.fromkeys(edges) if self.allowed(edge)]
        for component in components(possible):
            members = frozenset().union(*component)
            held = any(number in self.held for number in members)
            answer = None if held else only_cover(members, component)
            if answer is None:
                self.questions.append((how, component))
                for number in members:
                    self.held.setdefault(number, "several answers")
            elif len(self.items) > _FEW and any(
                self.tries * self.chance.get(edge, 0) > _BY_CHANCE for edge in answer
            ):
                # Of one amount they stay together; of a sum, a better answer may come.
                if how == "amount":
                    self.questions.append((how, component))
                    self.held |= dict.fromkeys(members, "an amount that comes often")
                else:
                    self.doubts |= dict.fromkeys(answer, how)
            else:
                for edge in answer:
                    sums = how == "counterparty" and len(edge) > 2
                    self._take("counterparty_sum" if sums else how, edge, less)
        self.open -= self.held.keys()

    def _take(self, how: str, edge: Edge, less: int) -> None:
        self.open -= edge
        self.groups.append((how, [self.items[n] for n in sorted(edge, key=place_of)], less))

    def ask_what_is_in_doubt(self) -> None:
        """Once all steps are done: what chance could have made, and nothing better has taken."""
        for edge, how in self.doubts.items():
            if edge <= self.open:
                self.questions.append((how, [edge]))
                for number in edge:
                    self.held.setdefault(number, "a sum that chance makes, too")


def place_of(number: int) -> tuple[bool, int]:
    """Entries first, each side in its order."""
    return number < 0, abs(number)


def _share_a_name(entry: Item, transfer: Item) -> bool:
    return any(name in transfer.names for name in entry.names)
