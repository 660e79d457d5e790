"""Sums of amounts that agree: which there are, how many chance would make, and which choice of
them leaves nothing over. Amounts are whole numbers of one unit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import gcd
from typing import Final

Edge = frozenset[int]
"""The numbers of the items of a possible group."""
EXHAUSTIVE: Final = 10
"""Of so many items every sum is tried. Of more a sum proves nothing, as chance makes it too."""
_MOST_STEPS: Final = 50_000


def sums_to(
    target: int, amounts: Sequence[int], most: int = EXHAUSTIVE
) -> tuple[list[tuple[list[int], float]], bool]:
    """The places of two or more of ``amounts`` that sum to ``target``, each with how many such
    sums chance would make; and whether all were tried. None is negative."""
    total = sum(amounts)
    if len(amounts) < 2 or total < target:
        return [], True
    if total == target:
        return [([*range(len(amounts))], by_chance(1, target, amounts))], True
    if len(amounts) > most:
        return [], False
    sums = [(0, 0)]
    for place, amount in enumerate(amounts):
        sums += [(s + amount, mask | 1 << place) for s, mask in sums if s + amount <= target]
    found = []
    for hit in (mask for s, mask in sums if s == target):
        chosen = [place for place in range(len(amounts)) if hit >> place & 1]
        step = gcd(*(amounts[place] for place in chosen))
        # Those of other amounts cannot make a round sum.
        odd = sum(1 << place for place, amount in enumerate(amounts) if amount % step)
        alike = sum(1 for s, mask in sums if s * 10 > target * 9 and not mask & odd)
        found.append((chosen, by_chance(2 * alike, target, [step])))
    return found, True


def count_alike(sums: Sequence[int], target: int) -> int:
    """How many of the sorted ``sums`` are within a tenth of ``target``."""
    low, high = sorted((target * 9 // 10, target * 11 // 10))
    return bisect_right(sums, high) - bisect_left(sums, low)


def by_chance(alike: int, target: int, parts: Iterable[int]) -> float:
    """How many of ``alike`` sums within a tenth of ``target`` are it, if they are spread evenly
    over that fifth of it; sums of round amounts are round, and agree more often."""
    return alike * 5 * gcd(*parts) / (abs(target) or 1)


def components(edges: Sequence[Edge]) -> list[list[Edge]]:
    """Groups that are connected by their members, in the order of the first of each."""
    parent: dict[int, int] = {}

    def root(number: int) -> int:
        while (above := parent.setdefault(number, number)) != number:
            parent[number] = parent[above]
            number = above
        return number

    for edge in edges:
        first, *others = edge
        for number in others:
            parent[root(number)] = root(first)
    found: dict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        found[root(next(iter(edge)))].append(edge)
    return list(found.values())


def covers(members: Collection[int], edges: Sequence[Edge]) -> list[list[Edge]]:
    """Up to two choices of groups that leave no member over; none where that takes too long."""
    if len(edges) == 1:
        return [[*edges]]
    of_member: Mapping[int, list[Edge]] = {number: [] for number in members}
    for edge in edges:
        for number in edge:
            of_member[number].append(edge)
    answers: list[list[Edge]] = []
    steps = 0
    # Each state: what is still to be covered, and the groups chosen so far.
    states: list[tuple[frozenset[int], list[Edge]]] = [(frozenset(members), [])]
    while states and len(answers) < 2:
        left, chosen = states.pop()
        forced = True
        while left and forced:
            # A member that only one group can cover decides by itself.
            forced = False
            fewest: list[Edge] | None = None
            for number in sorted(left):
                fits = [edge for edge in of_member[number] if edge <= left]
                steps += len(of_member[number])
                if len(fits) < 2:
                    fewest, forced = fits, True
                    break
                if fewest is None or len(fits) < len(fewest):
                    fewest = fits
            if steps > _MOST_STEPS:
                return []
            if forced and fewest:
                left, chosen = left - fewest[0], [*chosen, fewest[0]]
            elif forced:
                break  # nothing covers it
            elif fewest is not None:
                states += [(left - edge, [*chosen, edge]) for edge in fewest]
        if not left:
            answers.append(chosen)
    return answers
