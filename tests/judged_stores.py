"""Stores of every history, begun anywhere, widened, cut short, and what is true of them.

The service keeps its own books. What the judgement must be follows from them alone: which balances
it last lied about, and where the store begins.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from fake_service import FakeService, moment, transfer

from fundlab.models import ProfileBalance
from fundlab.store import Store
from fundlab.store.writing import Draft

Pair = tuple[str, str]
PROFILES = ("p-1", "p-2", "p-3")
ASSETS = ("USD", "USD", "BTC")
KINDS = (
    ("CREDIT", "WIRE_DEPOSIT", "COMPLETED"),
    ("CREDIT", "WIRE_DEPOSIT", "COMPLETED"),
    ("CREDIT", "WIRE_DEPOSIT", "PENDING"),
    ("DEBIT", "WIRE_WITHDRAWAL", "PENDING"),
    ("DEBIT", "WIRE_WITHDRAWAL", "COMPLETED"),
)


class Cut(BaseException):
    """A run that was killed."""


@dataclass
class Lying(FakeService):
    """Reports a balance ``lies`` more than it is, and remembers the last lie of each."""

    lies: dict[Pair, Decimal] = field(default_factory=dict)
    said: dict[Pair, Decimal] = field(default_factory=dict)

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        found = super().get_profile_balance(profile_id, asset)
        lie = self.said[profile_id, asset] = self.lies.get((profile_id, asset), Decimal(0))
        return ProfileBalance.model_validate(
            {"asset": asset, "available": f"{found.available + lie:f}", "trading": "0"}
        )


class History:
    """One store and its service, moved by chance; ``first`` and ``last`` are the lies that the
    store's first and last observation of each balance rest on."""

    def __init__(self, folder: Path, chance: Random, patch: pytest.MonkeyPatch) -> None:
        self.store, self.chance, self.patch = Store(folder), chance, patch
        self.service = Lying(largest_page=5)
        self.now = 1_000
        self.first: dict[Pair, Decimal] = {}
        self.last: dict[Pair, Decimal] = {}
        self.unseen: dict[str, Pair] = {}
        for profile in PROFILES:
            for asset in ("USD", "BTC"):  # enough for every debit that comes
                self.arrive(profile, asset, KINDS[0], "1000")
        for _ in range(chance.randint(0, 12)):
            self.arrive()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            work = self.chance.choice(
                [self.arrive, self.arrive, self.settle, self.lie, self.sync, self.sync, self.sync,
                 self.cut, self.half, self.compact]
            )  # fmt: skip
            work()

    # ------------------------------------------------------------------ the service moves

    def arrive(
        self, profile: str = "", asset: str = "", kind: tuple[str, ...] = (), amount: str = ""
    ) -> None:
        self.now += self.chance.randint(1, 400)
        direction, name, status = kind or self.chance.choice(KINDS)
        amount = amount or str(self.chance.randint(1, 9))
        self.service.transfers.append(
            transfer(
                self.now,
                profile_id=profile or self.chance.choice(PROFILES),
                type=name,
                asset=asset or self.chance.choice(ASSETS),
                status=status,
                direction=direction,
                amount=amount,
                total=amount,
            )
        )

    def settle(self) -> None:
        pending = [row for row in self.service.transfers if row["status"] == "PENDING"]
        if not pending:
            return
        self.now += 1
        row = self.chance.choice(pending)
        row.update(status=self.chance.choice(["COMPLETED", "FAILED"]), updated_at=moment(self.now))
        begins = self.begins
        if begins is not None and row["created_at"] < begins:  # it begins too late to see this
            self.unseen[row["id"]] = row["profile_id"], row["asset"]

    def lie(self) -> None:
        pair = self.chance.choice(PROFILES), self.chance.choice(ASSETS)
        if self.service.lies.pop(pair, None) is None:
            self.service.lies[pair] = Decimal(self.chance.randint(1, 9)) / 4

    # ------------------------------------------------------------------ the store follows

    @property
    def begins(self) -> str | None:
        last = self.store.snapshot("transfers").last
        since = None if last is None else last.query["since"]
        return None if since is None or since.startswith("1970") else str(since)

    @property
    def looks(self) -> int:
        """How many times the store has looked at balances."""
        return len(self.store.snapshot("balances").publications)

    def sync(self) -> None:
        before = self.looks
        tables = self.chance.choice([None, None, ["transfers"], ["balances"], ["events"]])
        since = self.chance.choice([None, None, moment(self.chance.randint(0, self.now)),
                                    "1970-01-01T00:00:00Z"])  # fmt: skip
        self.service.said.clear()
        try:
            self.store.sync(
                self.service,  # type: ignore[arg-type]
                tables=tables, since=since, full=self.chance.random() < 0.1, progress=False,
            )  # fmt: skip
        finally:
            if self.looks > before:
                for pair, lie in self.service.said.items():
                    self.first.setdefault(pair, lie)
                    self.last[pair] = lie
                if self.begins is None:
                    self.unseen.clear()

    def cut(self) -> None:
        """A sync that is killed while it asks."""
        left = self.chance.randint(0, 12)

        def strike(operation: str, params: dict[str, str]) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Cut

        self.service.hook = strike
        self._ended()
        self.service.hook = lambda operation, params: None

    def half(self) -> None:
        """A sync that is killed between the renames of two tables."""
        left, original = self.chance.randint(0, 2), Draft.publish

        def strike(draft: Draft) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise Cut
            return original(draft)

        self.patch.setattr(Draft, "publish", strike)
        self._ended()
        self.patch.setattr(Draft, "publish", original)

    def _ended(self) -> None:
        with suppress(Cut):
            self.sync()

    def compact(self) -> None:
        self.store.compact()

    # ------------------------------------------------------------------ what is true

    def broken(self) -> set[Pair]:
        """The balances that must break: what the store takes for the opening of one that begins
        late is the first observation, with the lie it was."""
        if self.begins is None:
            return {pair for pair, lie in self.last.items() if lie}
        return {pair for pair, lie in self.last.items() if lie != self.first[pair]}

    def unclear(self) -> set[Pair]:
        """Balances of which the store cannot know all: see :meth:`settle`."""
        return set(self.unseen.values())
