"""Entries and transfers of one amount, matched as far as it goes without choosing by order.

What may belong together forms a graph of two sides. Each of its connected parts is a block: how
many of it can be paired is known, which with which only where the block is a single pair. To pair
further by elimination would be to trust that nothing is missing on either side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """The classes of both sides that are connected, and how many of which a pairing of as many as
    possible leaves over."""

    entries: tuple[int, ...]
    transfers: tuple[int, ...]
    rest: Mapping[int, int]


def blocks(
    entries: Mapping[int, int], transfers: Mapping[int, int], edges: Iterable[tuple[int, int]]
) -> list[Block]:
    """``entries`` and ``transfers`` say how many items each class has, in the order in which they
    are paired; keys differ between the sides. ``edges`` are the classes that may be paired."""
    theirs: dict[int, list[int]] = defaultdict(list)
    ours: dict[int, list[int]] = defaultdict(list)
    for entry, transfer in edges:
        theirs[entry].append(transfer)
        ours[transfer].append(entry)
    left = {**entries, **transfers}
    # By transfer how many of each entry are paired with it.
    paired: dict[int, dict[int, int]] = {transfer: {} for transfer in ours}
    for entry in entries:
        while left[entry] and (path := _augmenting(entry, theirs, paired, left)):
            # Along the path what was not paired now is, and what was paired is not.
            back = [*zip(path[1::2], path[2::2], strict=False)]
            most = min(left[entry], left[path[-1]], *(paired[t][e] for t, e in back))
            for e, t in zip(path[::2], path[1::2], strict=True):
                paired[t][e] = paired[t].get(e, 0) + most
            for t, e in back:
                paired[t][e] -= most
                if not paired[t][e]:
                    del paired[t][e]
            left[entry] -= most
            left[path[-1]] -= most
    made: list[Block] = []
    done: set[int] = set()
    for start in entries:
        if start in done or start not in theirs:
            continue
        part, waiting = {start}, [start]
        while waiting:
            node = waiting.pop()
            new = {*(theirs[node] if node in theirs else ours[node])} - part
            part |= new
            waiting += new
        done |= part
        made.append(
            Block(tuple(e for e in entries if e in part), tuple(t for t in transfers if t in part),
                  {n: left[n] for n in sorted(part) if left[n]})
        )  # fmt: skip
    return made


def _augmenting(
    start: int, theirs: Mapping[int, Sequence[int]], paired: Mapping[int, Mapping[int, int]],
    left: Mapping[int, int],
) -> list[int] | None:  # fmt: skip
    """A shortest path from an entry over what is not paired and what is, in turn, to a transfer
    of which some are left."""
    before: dict[int, int] = {start: start}
    waiting = [start]
    while waiting:
        after: list[int] = []
        for entry in waiting:
            for transfer in theirs.get(entry, ()):
                if transfer in before:
                    continue
                before[transfer] = entry
                if left[transfer]:
                    path = [transfer]
                    while path[-1] != start:
                        path.append(before[path[-1]])
                    return path[::-1]
                for other in paired[transfer]:
                    if other not in before:
                        before[other] = transfer
                        after.append(other)
        waiting = after
    return None
