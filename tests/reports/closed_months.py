"""Months of a service that changes its mind: what a close must hold still, and find again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
from amounts import exactly
from fake_service import FakeService, transfer

import fundlab as fl
from fundlab.evidence.vanished_rows import gone_lines

D = Decimal
FEBRUARY, MARCH = (pd.Timestamp(f"2026-0{n}-01", tz="UTC").value for n in (2, 3))
DAY = 86_400 * 10**9
CLOSED_AT = MARCH + 2 * DAY
LATER = MARCH + 9 * DAY
DEPOSITS = ("WIRE_DEPOSIT", "CRYPTO_DEPOSIT", "INTERNAL_TRANSFER_CREDIT")
WITHDRAWALS = ("WIRE_WITHDRAWAL", "CUBIX_WITHDRAWAL", "INTERNAL_TRANSFER_DEBIT")


def text(ns: int) -> str:
    return str(fl.base.values.Instant.from_ns(ns))


@dataclass
class Month:
    """A service, its store, and what the store's clock says."""

    service: FakeService
    store: fl.Store
    now: list[int]
    random: random.Random
    count: int = 0
    did: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)

    def sync(self, at: int) -> None:
        self.now[0] = at
        self.store.sync(self.service, ["transfers", "events", "balances"], full=True)  # type: ignore[arg-type]

    @property
    def waiting(self) -> set[str]:
        """What is gone, and nobody has accepted it."""
        return self.gone - self.accepted

    def accept_some(self) -> None:
        """Each of those with a chance of three in four; all of them are named until then."""
        named = "".join(gone_lines(self.store.records()))
        assert all(id_ in named for id_ in self.waiting)
        for id_ in sorted(self.waiting):
            if self.random.random() < 0.75:
                self.store.accept_gone(id_, by="Ana", reason="never executed")
                self.accepted.add(id_)

    def begin(self) -> None:
        """Enough of everything that no balance ever falls below nothing."""
        for number, profile in enumerate(("p-1", "p-2")):
            for asset in ("USD", "USDC", "PYUSD"):
                row = transfer(number, id=f"a-{profile}-{asset}", profile_id=profile, asset=asset)
                row |= {"amount": "1000000", "total": "1000000"}
                row |= dict.fromkeys(("created_at", "updated_at"), text(FEBRUARY - 40 * DAY))
                self.service.transfers.append(row)

    @exactly()
    def add(
        self, created: int, status: str, settled: int | None = None, event: bool = True
    ) -> dict[str, Any]:
        """One more transfer; ``settled`` is when it completed."""
        self.count += 1
        chance = self.random
        credit = chance.random() < 0.7
        amount, fee = D(chance.randrange(1, 10**6)) / 100, D(chance.choice([0, 0, 1, 25]))
        total = amount - fee if credit else amount + fee
        if credit and total < 0:
            amount, total = fee, D(0)
        row = {
            "id": f"t-{self.count:05d}",
            "customer_id": "c",
            "profile_id": chance.choice(["p-1", "p-2"]),
            "amount": f"{amount}", "fee": f"{fee}", "total": f"{total}",
            "asset": chance.choice(["USD", "USDC"]),
            "direction": "CREDIT" if credit else "DEBIT",
            "type": chance.choice(DEPOSITS if credit else WITHDRAWALS),
            "status": status,
            "created_at": text(created),
            "updated_at": text(created if settled is None else settled),
        }  # fmt: skip
        if chance.random() < 0.1:
            row["balance_asset"] = "PYUSD"
            row["auto_conversion"] = {"rule": "x"}
        self.service.transfers.append(row)
        if status == "COMPLETED" and event:
            self.says_completed(row, settled or created)
        return row

    def says_completed(self, row: dict[str, Any], at: int) -> None:
        self.service.events.append({
            "id": f"e-{len(self.service.events):05d}",
            "type": f"transfer.{row['type'].lower()}.completed",
            "object_type": "transfer_status_change",
            "object": {"id": row["id"], "status": "COMPLETED"},
            "created_at": text(at + 17),
        })  # fmt: skip

    def some(self, status: str) -> dict[str, Any] | None:
        rows = [row for row in self.service.transfers[6:] if row["status"] == status]
        return self.random.choice(rows) if rows else None


def made(folder: Path, seed: int) -> Month:
    """A store that knows January and February, as of two days into March; some rows are pending,
    and some completed ones have no event."""
    chance, now = random.Random(seed), [CLOSED_AT]
    service = FakeService(honours={"created_at", "updated_at", "ids"}, complete=True)
    month = Month(service, fl.Store(folder, clock=lambda: now[0]), now, chance)
    month.begin()
    for _ in range(chance.randrange(6, 18)):
        created = FEBRUARY + chance.randrange(-20, 27) * DAY + chance.randrange(DAY)
        if chance.random() < 0.3:
            month.add(created, chance.choice(["PENDING", "FAILED"]))
        else:
            settled = created + chance.choice([0, 1, 40]) * DAY // 24
            month.add(created, "COMPLETED", settled, event=chance.random() < 0.7)
    month.sync(CLOSED_AT)
    return month


def late(month: Month) -> None:
    """A row of February that was not listed when February was closed."""
    created = FEBRUARY + month.random.randrange(0, 25) * DAY
    month.add(created, "COMPLETED", created + DAY, event=month.random.random() < 0.5)


def back_dated(month: Month) -> None:
    """A row made in March under a date of February."""
    created = FEBRUARY + month.random.randrange(0, 25) * DAY
    row = month.add(created, "COMPLETED", created, event=month.random.random() < 0.5)
    row["updated_at"] = text(MARCH + 5 * DAY)


def settles(month: Month) -> None:
    """A pending row settles in March."""
    if (row := month.some("PENDING")) is not None:
        row |= {"status": "COMPLETED", "updated_at": text(MARCH + 4 * DAY)}
        if month.random.random() < 0.5:
            month.says_completed(row, MARCH + 4 * DAY)


def fails(month: Month) -> None:
    if (row := month.some("PENDING")) is not None:
        row |= {"status": "FAILED", "updated_at": text(MARCH + 4 * DAY)}


def fails_after_all(month: Month) -> None:
    """A completed row fails."""
    if (row := month.some("COMPLETED")) is not None:
        row |= {"status": "FAILED", "updated_at": text(MARCH + 4 * DAY)}


@exactly()
def amended(month: Month) -> None:
    """The amount of a completed row is another one."""
    if (row := month.some("COMPLETED")) is not None:
        row["amount"] = f"{D(row['amount']) + D('0.01')}"
        row["total"] = f"{D(row['total']) + D('0.01')}"
        row["updated_at"] = text(MARCH + 4 * DAY)


def touched(month: Month) -> None:
    """A completed row changes in a member that no balance depends on."""
    if (row := month.some("COMPLETED")) is not None:
        row |= {"memo": "seen", "updated_at": text(MARCH + 4 * DAY)}


def told_late(month: Month) -> None:
    """The event of a row that completed without one comes later; it may say another day."""
    if (row := month.some("COMPLETED")) is not None:
        at = pd.Timestamp(row["created_at"]).value + month.random.choice([0, 30]) * DAY
        month.says_completed(row, at)


def new(month: Month) -> None:
    """A row of March, as there always are."""
    created = MARCH + 3 * DAY + month.random.randrange(DAY)
    month.add(created, month.random.choice(["COMPLETED", "PENDING"]))


def vanishes(month: Month) -> None:
    """The service lists a row no longer; its balance follows."""
    known = set(month.store.read("transfers", columns=["id"])["id"])
    if rows := [row for row in month.service.transfers[6:] if row["id"] in known]:
        row = month.random.choice(rows)
        month.service.transfers.remove(row)
        month.gone.add(row["id"])


TURNS = (
    late, back_dated, settles, fails, fails_after_all, amended, touched, told_late, vanishes, new,
    new,
)  # fmt: skip


def turn(month: Month, times: int, turns: tuple[Any, ...] = TURNS) -> None:
    """Some of ``turns``, and a sync that sees them."""
    for one in month.random.choices(turns, k=times):
        one(month)
        month.did.append(one.__name__)
    month.sync(LATER)


def settled(rows: pd.DataFrame, events: pd.DataFrame) -> dict[str, pd.Timestamp]:
    """When each transfer settled, from ``store.history``, row by row."""
    said: dict[str, pd.Timestamp] = {}
    for event in events.itertuples():
        if event.type.endswith(".completed"):
            name = event.object.split('"id":')[1].split('"')[1]
            said[name] = min(event.created_at, said.get(name, event.created_at))
    found: dict[str, pd.Timestamp] = {}
    for version in rows.itertuples():
        if version.status == "COMPLETED":
            found.setdefault(version.id, said.get(version.id, version.updated_at))
    return found


@exactly()
def lines(month: Month, basis: str, pin: str | None = None) -> dict[tuple[str, ...], Decimal]:
    """The roll-forward of February, row by row: none of the code under test but ``read``."""
    store = month.store
    rows, history = store.read("transfers", pin=pin), store.history("transfers")
    if pin is None:
        assert {*rows["id"]} == {*history["id"]} - month.accepted
    events = store.read("events", pin=pin)
    if pin is not None:
        history = history[history["published_at"] <= pd.Timestamp(CLOSED_AT, tz="UTC")]
    when = settled(history, events)
    sums: dict[tuple[str, ...], Decimal] = {}

    def book(*key: str, amount: Decimal) -> None:
        sums[key] = sums.get(key, D(0)) + amount

    for row in rows.itertuples():
        at = row.created_at if basis == "created" else when.get(row.id, pd.NaT)
        if row.status != "COMPLETED" or at.value >= MARCH:
            continue
        converted = not pd.isna(row.balance_asset)
        place = row.profile_id, row.balance_asset if converted else row.asset
        sign = 1 if row.direction == "CREDIT" else -1
        book(*place, "closing", "", amount=sign * row.total)
        if at.value < FEBRUARY:
            book(*place, "opening", "", amount=sign * row.total)
            continue
        name = "conversion" if converted else "internal" if "INTERNAL" in row.type else (
            "receipt" if sign > 0 else "disbursement"
        )  # fmt: skip
        book(*place, name, row.type, amount=sign * row.amount)
        book(*place, "fee", "", amount=-row.fee)
    return {key: amount for key, amount in sums.items() if amount}
