"""The matching of ``fl.bank.match`` again, from its description alone and by trying everything.

Written without its indexes, orders and shortcuts: every step looks at every set of open entries and
transfers there is. Only for a handful of items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any


@dataclass(frozen=True)
class Bank:
    id: str
    amount: int
    booked: int
    valued: int
    text: str = ""


@dataclass(frozen=True)
class Paid:
    id: str
    amount: int
    made: int
    settled: int
    ref: str = ""
    name: str = ""
    kind: str = "WIRE_DEPOSIT"


Group = tuple[frozenset[Bank], frozenset[Paid]]


def subsets(items: Any, least: int = 0) -> Iterator[tuple[Any, ...]]:
    items = list(items)
    return chain.from_iterable(combinations(items, n) for n in range(least, len(items) + 1))


def says(entry: Bank, word: str) -> bool:
    return bool(word) and word in entry.text.split()


def by_force(
    entries: list[Bank], transfers: list[Paid], window: int
) -> tuple[list[tuple[str, Group]], set[str]]:
    """The groups with their step, and the ids of what has several answers."""
    position = {entry: n for n, entry in enumerate(entries)}
    done: list[tuple[str, Group]] = []
    taken: set[Any] = set()
    held: set[Any] = set()

    def left() -> tuple[list[Bank], list[Paid]]:
        gone = taken | held
        return [e for e in entries if e not in gone], [t for t in transfers if t not in gone]

    def total(items: Any) -> int:
        return sum(item.amount for item in items)

    early = [0]

    def near(entry: Bank, paid: Paid) -> bool:
        """Whether any day from booking to value is one on which it may be booked, and it does not
        name others instead."""
        days = range(paid.made - early[0], max(paid.made, paid.settled) + window + 1)
        first, last = sorted((entry.booked, entry.valued))
        if not any(day in days for day in range(first, last + 1)):
            return False
        others_named = any(named(entry, t) for t in transfers)
        parties = any(says(entry, t.name) for t in transfers)
        return linked(entry, paid) or not (others_named or (parties and bool(paid.name)))

    def all_near(some: Any, others: Any) -> bool:
        return all(near(e, t) for e in some for t in others)

    def named(entry: Bank, paid: Paid) -> bool:
        return says(entry, paid.ref)

    def linked(entry: Bank, paid: Paid) -> bool:
        return named(entry, paid) or says(entry, paid.name)

    def pairs(agree: Callable[[Bank, Paid], bool]) -> Iterator[Group]:
        some, others = left()
        for e in some:
            for t in others:
                if e.amount == t.amount and agree(e, t):
                    yield frozenset([e]), frozenset([t])

    def references() -> Iterator[Group]:
        some, others = left()
        edges = [(e, t) for e in some for t in others if named(e, t)]
        for component in components([(frozenset([e]), frozenset([t])) for e, t in edges]):
            es = frozenset().union(*(g[0] for g in component))
            ts = frozenset().union(*(g[1] for g in component))
            if len(es) + len(ts) > 2 and total(es) == total(ts):
                yield es, ts

    def same_way(items: Any) -> bool:
        return len({item.amount < 0 for item in items}) == 1

    def one_to_many(accept: Callable[[Any, Any], bool]) -> Iterator[Group]:
        some, others = left()
        for e in some:
            for ts in subsets(others, 2):
                fits = total(ts) == e.amount and same_way([e, *ts]) and all_near([e], ts)
                if fits and accept([e], ts):
                    yield frozenset([e]), frozenset(ts)
        for t in others:
            for es in subsets(some, 2):
                fits = total(es) == t.amount and same_way([t, *es]) and all_near(es, [t])
                if fits and accept(es, [t]):
                    yield frozenset(es), frozenset([t])

    def last(item: Any) -> int:
        if isinstance(item, Bank):
            return max(item.booked, item.valued)
        return max(item.made, item.settled)

    def of_key(several: Any) -> Iterator[list[Any]]:
        """The lists of open items of one day (and key) that ``several`` may stand in."""
        some, others = left()
        first = several[0]
        pool = [i for i in (some if isinstance(first, Bank) else others)
                if last(i) == last(first) and (i.amount < 0) == (first.amount < 0)]  # fmt: skip
        if isinstance(first, Bank):
            yield sorted(pool, key=lambda e: position[e])
            return
        pool.sort(key=lambda t: (t.settled, t.id))
        yield pool
        for key in ("kind", "name"):
            if getattr(first, key):
                yield [t for t in pool if getattr(t, key) == getattr(first, key)]

    def the_many(es: Any, ts: Any) -> list[Any]:
        return list(es) if len(es) > 1 else list(ts)

    def is_total(es: Any, ts: Any) -> bool:
        several = the_many(es, ts)
        return any(set(pool) == set(several) for pool in of_key(several))

    def is_run(es: Any, ts: Any) -> bool:
        several = the_many(es, ts)
        for pool in of_key(several):
            places = [n for n, item in enumerate(pool) if item in several]
            if len(places) == len(several) and places[-1] - places[0] + 1 == len(places):
                return True
        return False

    def of_one_day(es: Any, ts: Any) -> bool:
        return len({last(item) for item in the_many(es, ts)}) == 1

    def several_for_several() -> Iterator[Group]:
        some, others = left()
        names = {t.name for t in others if t.name}
        for name in names:
            for negative in (False, True):
                es = [e for e in some if says(e, name) and (e.amount < 0) == negative]
                ts = [t for t in others if t.name == name and (t.amount < 0) == negative]
                for cluster in clusters([*es, *ts]):
                    in_e = [e for e in es if e in cluster]
                    in_t = [t for t in ts if t in cluster]
                    several = len(in_e) > 1 and len(in_t) > 1
                    if several and total(in_e) == total(in_t) and all_near(in_e, in_t):
                        yield frozenset(in_e), frozenset(in_t)
        for es in subsets(some, 2):
            for ts in subsets(others, 2):
                if len(es) > 3 or len(ts) > 3 or total(es) != total(ts):
                    continue
                if not same_way([*es, *ts]) or not all_near(es, ts):
                    continue
                parts = [
                    {total(p) for p in subsets(side, 1) if len(p) < len(side)} for side in (es, ts)
                ]
                if not parts[0] & parts[1]:
                    yield frozenset(es), frozenset(ts)

    def clusters(items: list[Any]) -> list[list[Any]]:
        def first(item: Any) -> int:
            return min(item.booked, item.valued) if isinstance(item, Bank) else item.made

        found: list[list[Any]] = []
        for item in sorted(items, key=first):
            if found and first(item) <= max(last(i) for i in found[-1]) + window + 1:
                found[-1].append(item)
            else:
                found.append([item])
        return found

    def other_amounts() -> Iterator[Group]:
        some, others = left()
        for e in some:
            for t in others:
                only = sum(named(e, u) for u in transfers) == 1 == sum(named(f, t) for f in entries)
                alike = 100 * abs(e.amount - t.amount) <= abs(t.amount)
                if named(e, t) and only and alike and same_way([e, t]):
                    yield frozenset([e]), frozenset([t])

    def of_name() -> Iterator[Group]:
        """The pairs, and where both sides of one are in other sums of the name, those sums."""
        one_for_one = list(pairs(lambda e, t: says(e, t.name) and near(e, t)))
        sums = list(one_to_many(lambda es, ts: all(linked(e, t) for e in es for t in ts)))
        yield from one_for_one
        for (e,), (t,) in one_for_one:
            with_e = [g for g in sums if e in g[0] and t not in g[1]]
            with_t = [g for g in sums if t in g[1] and e not in g[0]]
            if with_e and with_t:
                yield from with_e
                yield from with_t

    steps: list[tuple[str, Callable[[], Iterator[Group]]]] = [
        ("counterparty", of_name),
        ("counterparty_sum", lambda: one_to_many(
            lambda es, ts: all(linked(e, t) for e in es for t in ts))),
        ("amount", lambda: pairs(lambda e, t: near(e, t))),
        ("total_of_day", lambda: one_to_many(is_total)),
        ("run_of_day", lambda: one_to_many(is_run)),
        ("sum_of_day", lambda: one_to_many(of_one_day)),
        ("sum", lambda: one_to_many(lambda es, ts: True)),
        ("many", several_for_several),
    ]  # fmt: skip
    by_name = [("reference", lambda: pairs(named), 0), ("references", references, 0)]
    order = [*by_name, *((*step, day) for day in (0, 1) for step in steps)]
    for how, groups, days_before in [*order, ("other_amount", other_amounts, 1)]:
        early[0] = days_before
        possible = list(dict.fromkeys(groups()))
        for component in components(possible):
            members = set().union(*(g[0] | g[1] for g in component))
            covers = [
                chosen
                for chosen in subsets(component, 1)
                if sum(len(g[0]) + len(g[1]) for g in chosen) == len(members)
                and set().union(*(g[0] | g[1] for g in chosen)) == members
            ]
            if len(covers) == 1:
                done += [
                    (
                        "counterparty_sum"
                        if how == "counterparty" and len(g[0] | g[1]) > 2
                        else how,
                        g,
                    )
                    for g in covers[0]
                ]
                taken |= members
            else:
                held |= members
    return done, {item.id for item in held}


def components(groups: list[Group]) -> list[list[Group]]:
    found: list[list[Group]] = []
    for group in groups:
        touching = [
            one for one in found if any((g[0] & group[0]) or (g[1] & group[1]) for g in one)
        ]
        found = [one for one in found if one not in touching]
        found.append([*chain.from_iterable(touching), group])
    return found
