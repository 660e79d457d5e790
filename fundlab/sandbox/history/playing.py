"""A drafted history played through in time order and mended, so that nobody is ever overdrawn."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from fundlab.sandbox.history.drafting import Draft
from fundlab.sandbox.history.proportions import (
    ASSETS,
    COMPLETED,
    DIRECTIONS,
    FAILED,
    INTERNAL_CREDIT,
    INTERNAL_DEBIT,
    IS_CREDIT,
    KIND_OF,
    KINDS,
    PENDING,
    USD,
)
from fundlab.sandbox.ledger import SCALE, total_of
from fundlab.sandbox.movements import FAILING_CENTS, ONE

USD_RESERVE: Final = 250_000 * SCALE
"""What the history leaves every profile in USD, so that withdrawals can be tried."""
QUANTA: Final = [10 ** (18 - asset.drawn) for asset in ASSETS]
STEPS_AT_ONCE: Final = 100_000
_DEBIT, _CREDIT, _RELEASE = 0, 1, 2


@dataclass
class Balances:
    """Units of 10^-18 per profile and asset, profile by profile: what is there and what is held."""

    available: list[int]
    held: list[int]


def play_history(rng: np.random.Generator, draft: Draft, profiles: int) -> Balances:
    """Take debits when made, credits when settled; what a profile cannot afford is changed.

    Too large a debit is made smaller, or becomes a deposit where too little is there. Returns the
    balances in the end.
    """
    shares = rng.integers(20, 600, len(draft), dtype=np.int64).astype(np.int16)
    return _Play(draft, shares.data, profiles).run()


class _Play:
    def __init__(self, draft: Draft, shares: memoryview[int], profiles: int) -> None:
        self._draft, self._shares = draft, shares
        self._width = len(ASSETS)
        size = profiles * self._width
        self._balances = Balances([0] * size, [0] * size)
        self._late: list[tuple[int, int]] = []  # deposits that were debits, by their time

    def run(self) -> Balances:
        available, late = self._balances.available, self._late
        for at, step, i in _steps(self._draft):
            while late and late[0][0] < at:
                self._credit(heapq.heappop(late)[1])
            if step == _CREDIT:
                self._credit(i)
            elif step == _DEBIT:
                self._debit(i)
            elif not IS_CREDIT[self._draft.kinds[i]]:
                available[self._slot(i)] += self._total(i)
        while late:
            self._credit(heapq.heappop(late)[1])
        return self._balances

    def _slot(self, i: int) -> int:
        return self._draft.profiles[i] * self._width + self._draft.assets[i]

    def _total(self, i: int) -> int:
        draft = self._draft
        return total_of(DIRECTIONS[draft.kinds[i]], draft.amounts[i], draft.fees[i])

    def _credit(self, i: int) -> None:
        draft = self._draft
        if draft.kinds[i] == INTERNAL_CREDIT:
            draft.amounts[i] = draft.amounts[i - 1]
        slot = draft.profiles[i] * self._width + draft.targets[i]
        self._balances.available[slot] += self._total(i)

    def _debit(self, i: int) -> None:
        draft, slot = self._draft, self._slot(i)
        kind, asset, fee = KINDS[draft.kinds[i]], draft.assets[i], draft.fees[i]
        room = self._balances.available[slot] - (USD_RESERVE if asset == USD else 0)
        if draft.amounts[i] + fee > room:
            quantum = QUANTA[asset]
            amount = (room * self._shares[i] // 1000 - fee) // quantum * quantum
            if amount <= 20 * fee or amount < 50 * quantum:
                # too little is there: a deposit instead; of an internal pair, both halves
                if kind.opposite is None:
                    raise ValueError(f"{kind.type} has no opposite")
                if draft.kinds[i] == INTERNAL_DEBIT:
                    draft.kinds[i + 1] = KIND_OF[kind.opposite]
                draft.kinds[i] = KIND_OF[kind.opposite]
                draft.fees[i] = 0
                draft.amounts[i] *= 4
                if draft.statuses[i] != PENDING:
                    draft.statuses[i] = COMPLETED
                    heapq.heappush(self._late, (draft.updated_ns[i], i))
                return
            draft.amounts[i] = amount
        fails = draft.amounts[i] % ONE == FAILING_CENTS and kind.type.endswith("_WITHDRAWAL")
        if fails and draft.statuses[i] == COMPLETED:
            draft.amounts[i] -= QUANTA[asset]
        total = self._total(i)
        self._balances.available[slot] -= total
        if draft.statuses[i] == PENDING:
            self._balances.held[slot] += total


def _steps(draft: Draft) -> Iterator[tuple[int, int, int]]:
    """``(time, step, place)`` in time order; at the same time debits come before credits."""
    credit = np.array(IS_CREDIT)[np.array(draft.kinds)]
    statuses = np.array(draft.statuses)
    created, updated = np.array(draft.created_ns), np.array(draft.updated_ns)
    debits = np.flatnonzero(~credit)
    settled = np.flatnonzero(credit & (statuses == COMPLETED))
    released = np.flatnonzero(~credit & (statuses == FAILED))
    place = np.concatenate([debits, settled, released])
    step = np.repeat([_DEBIT, _CREDIT, _RELEASE], [len(debits), len(settled), len(released)])
    at = np.concatenate([created[debits], updated[settled], updated[released]])
    order = np.lexsort((step, at))
    for start in range(0, len(order), STEPS_AT_ONCE):
        part = order[start : start + STEPS_AT_ONCE]
        yield from zip(at[part].tolist(), step[part].tolist(), place[part].tolist(), strict=True)
