"""A played history's side of the ledger: each transfer's entries, and the accounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fundlab.base.errors import SandboxError
from fundlab.sandbox.history.drafting import Draft
from fundlab.sandbox.history.playing import Balances
from fundlab.sandbox.history.proportions import (
    ASSETS,
    DIRECTIONS,
    FAILED,
    INTERNAL,
    IS_CREDIT,
    PENDING,
)
from fundlab.sandbox.ledger import CONVERSION, FEES, OUTSIDE, TRANSIT, available, held, total_of

SERVICE_OWNERS: Final = (OUTSIDE, FEES, CONVERSION, TRANSIT)


class Postings:
    """Accounts are numbered owner by owner: what is available, what is held, the service's own."""

    def __init__(self, draft: Draft, profile_ids: list[str]) -> None:
        self._draft, self._profile_ids = draft, profile_ids
        self._width = len(ASSETS)
        self._held = len(profile_ids) * self._width
        outside = 2 * self._held
        self._outside, self._fees, self._conversion, self._transit = range(
            outside, outside + len(SERVICE_OWNERS) * self._width, self._width
        )
        self._totals = [0] * (self._transit + self._width)

    def entries(self, ids: list[str]) -> Iterator[tuple[str, int, str]]:
        """``(transfer, account, change)``, in order of the transfers ``ids``; those of one sum to
        zero per asset."""
        draft, totals = self._draft, self._totals
        for i, transfer_id in enumerate(ids):
            kind, status, asset = draft.kinds[i], draft.statuses[i], draft.assets[i]
            credit = IS_CREDIT[kind]
            if status == FAILED or (credit and status == PENDING):
                continue
            amount, fee = draft.amounts[i], draft.fees[i]
            total = total_of(DIRECTIONS[kind], amount, fee)
            own = draft.profiles[i] * self._width
            beyond = (self._transit if kind in INTERNAL else self._outside) + asset
            service_fee = [(self._fees + asset, fee)] if fee else []
            if credit:
                target = draft.targets[i]
                posting = [(beyond, -amount), *service_fee, (own + target, total)]
                if target != asset:
                    posting.append((self._conversion + asset, total))
                    posting.append((self._conversion + target, -total))
            elif status == PENDING:
                posting = [(own + asset, -total), (self._held + own + asset, total)]
            else:
                posting = [(own + asset, -total), (beyond, amount), *service_fee]
            for account, change in posting:
                totals[account] += change
                yield transfer_id, account + 1, str(change)

    def accounts(self, expected: Balances) -> Iterator[tuple[int, str, str, str]]:
        """The accounts after ``entries``: number, owner, asset, balance.

        Raises ``SandboxError`` unless the profiles' are what playing the history left them.
        """
        balances = expected.available + expected.held
        if self._totals[: len(balances)] != balances or min(balances) < 0:
            raise SandboxError("the seeded history does not add up")
        owners = [available(profile_id) for profile_id in self._profile_ids]
        owners += [held(profile_id) for profile_id in self._profile_ids]
        owners += SERVICE_OWNERS
        for number, total in enumerate(self._totals):
            if total:
                owner, asset = owners[number // self._width], ASSETS[number % self._width].name
                yield number + 1, owner, asset, str(total)
