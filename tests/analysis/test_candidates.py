"""The search among many rows against looking at every one of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_examples import records, table, tampered

from fundlab.analysis import explain, reconcile


def searched_like_looked_through(seed: int) -> None:
    rows, reported, seen = tampered(seed)
    found = []
    for many in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(explain, "SEARCHED_FROM", many)
            found.append(records(reconcile.explain(table(rows), reported, seen)))
    assert found[0] == found[1]


@pytest.mark.thorough
@given(seed=st.integers(0, 10**9))
@settings(max_examples=4, deadline=None)
def test_the_search_finds_what_looking_at_every_row_finds(seed: int) -> None:
    searched_like_looked_through(seed)


@pytest.mark.slow
@given(seed=st.integers(0, 10**9))
@settings(max_examples=500, deadline=None)
def test_the_search_finds_what_looking_at_every_row_finds_500_times(seed: int) -> None:
    searched_like_looked_through(seed)
