"""Blocks of what may belong together against every way of pairing it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from fundlab.bank.blocks import Block, blocks

Counts = Mapping[int, int]


def most_pairs(entries: Counts, transfers: Counts, edges: list[tuple[int, int]]) -> int:
    """By trying for each edge every number of pairs."""
    if not edges:
        return 0
    (entry, transfer), *others = edges
    return max(
        number + most_pairs({**entries, entry: entries[entry] - number},
                            {**transfers, transfer: transfers[transfer] - number}, others)
        for number in range(min(entries[entry], transfers[transfer]) + 1)
    )  # fmt: skip


def test_blocks_leave_over_what_no_pairing_can_take() -> None:
    for seed in range(150):
        random = Random(seed)
        entries = {n: random.randint(1, 3) for n in range(random.randint(1, 4))}
        transfers = {-1 - n: random.randint(1, 3) for n in range(random.randint(1, 4))}
        every = [(entry, transfer) for entry in entries for transfer in transfers]
        edges = [edge for edge in every if random.random() < 0.45]
        made = blocks(entries, transfers, edges)
        pairs = most_pairs(entries, transfers, edges)
        touched = {n for edge in edges for n in edge}
        assert {n for block in made for n in (*block.entries, *block.transfers)} == touched
        for side, counts in (("entries", entries), ("transfers", transfers)):
            members = [n for block in made for n in getattr(block, side)]
            left = {n: count for block in made for n, count in block.rest.items() if n in counts}
            assert len(members) == len({*members})
            assert sum(counts[n] for n in members) - sum(left.values()) == pairs, seed
            assert all(0 < count <= counts[n] for n, count in left.items())


@pytest.mark.parametrize(
    ("entries", "transfers", "edges", "expected"),
    [
        ({0: 1}, {-1: 1}, [(0, -1)], [Block((0,), (-1,), {})]),
        ({0: 1}, {-1: 1}, [], []),
        ({0: 2, 1: 1}, {-1: 1, -2: 3}, [(0, -1), (1, -2)],
         [Block((0,), (-1,), {0: 1}), Block((1,), (-2,), {-2: 2})]),
        # The second entry can only have what the first was paired with.
        ({0: 1, 1: 1}, {-1: 1, -2: 1}, [(0, -1), (0, -2), (1, -1)],
         [Block((0, 1), (-2, -1), {})]),
        ({0: 1, 1: 1}, {-1: 1, -2: 2}, [(0, -1), (0, -2), (1, -1)],
         [Block((0, 1), (-2, -1), {-2: 1})]),
        ({0: 1, 1: 2}, {-1: 1}, [(0, -1), (1, -1)], [Block((0, 1), (-1,), {1: 2})]),
        # The last entry can only have what the first has, and that what the second has.
        ({0: 1, 1: 1, 2: 1}, {-1: 1, -2: 1, -3: 1},
         [(0, -1), (0, -2), (1, -2), (1, -3), (2, -1)], [Block((0, 1, 2), (-1, -2, -3), {})]),
    ],
)  # fmt: skip
def test_a_block_is_what_is_connected(
    entries: Counts, transfers: Counts, edges: list[tuple[int, int]], expected: list[Block]
) -> None:
    found = blocks(entries, transfers, edges)
    assert [(block.entries, {*block.transfers}, block.rest) for block in found] == [
        (block.entries, {*block.transfers}, block.rest) for block in expected
    ]
