"""The fewest happenings that still fail: halves, quarters and so on are left out, faults first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulation.happenings import Happening


def shrunk(
    happenings: Sequence[Happening], fails: Callable[[list[Happening]], bool]
) -> list[Happening]:
    """Some of ``happenings``, of which none can be left out without ``fails`` turning false."""
    kept = list(happenings)
    for is_fault in (True, False):
        size = len(kept)
        while size:
            size = (size + 1) // 2 if size > 1 else 0
            at = 0
            chosen = [one for one in kept if one.is_fault == is_fault]
            while size and at < len(chosen):
                gone = {one.number for one in chosen[at : at + size]}
                rest = [one for one in kept if one.number not in gone]
                if fails(rest):
                    kept = rest
                    chosen = [one for one in kept if one.is_fault == is_fault]
                else:
                    at += size
    return kept
