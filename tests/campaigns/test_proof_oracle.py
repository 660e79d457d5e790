"""*Proved* is said exactly where an oracle over the service's own records says so.

The oracle is plain dicts and Decimals: what the service answered, byte by byte, in the syncs that
ended, and which files the newest manifest names. It knows nothing of how a store keeps rows.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from amounts import exactly
from fake_service import FakeService, change, moment, newest_manifest, transfer

import fundlab as fl
from fundlab.base.errors import (
    FundlabError,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    StoreDamaged,
)
from fundlab.client.calls import read_answer
from fundlab.client.transport import Reply
from fundlab.models import ProfileBalance

Pair = tuple[str, str]
Row = dict[str, Any]
HOUR, DAY = 3_600 * 10**9, 86_400 * 10**9
BEGIN = 1_772_496_000 * 10**9
"""2026-03-03, after all that the service dates."""
PROFILES = ("p-1", "p-2", "p-3")
ZERO = "0001-01-01T00:00:00Z"


def pairs_of(row: Row) -> set[Pair]:
    return {(row["profile_id"], row["asset"]), balance_of(row)}


def balance_of(row: Row) -> Pair:
    return row["profile_id"], row.get("balance_asset", row["asset"])


def does_count(row: Row) -> bool:
    held = row["status"] == "PENDING" and row["direction"] == "DEBIT"
    return held or row["status"] == "COMPLETED"


def is_readable(row: Row) -> bool:
    return "e" not in row["total"]


@dataclass
class Oracle:
    """What a store can know of the service, and whether that proves every balance of it.

    ``rows`` are the last versions that came and could be read, ``looks`` what was answered of each
    balance after the last change to it that came: an amount, or the status that was there instead.
    An answer that cannot be read takes nothing from what was seen before, as long as no transfer
    came since: ``version`` counts the syncs that brought some, ``versions`` are those of the looks.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    looks: dict[Pair, Decimal | int] = field(default_factory=dict)
    seen: set[Pair] = field(default_factory=set)
    version: int = 0
    versions: dict[Pair, int] = field(default_factory=dict)
    has_moved: bool = False
    aside: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)

    def came(self, row: Row) -> None:
        self.came_back(row["id"])
        text = json.dumps(row)
        if not is_readable(row):
            self.set_aside(row["id"], text)
            return
        self.aside.pop(row["id"], None)
        before = self.rows.get(row["id"])
        if before != row:
            self.has_moved = True
            for pair in pairs_of(row) | (pairs_of(before) if before else set()):
                self.looks.pop(pair, None)
        self.rows[row["id"]] = row

    def set_aside(self, name: str, text: str) -> None:
        if self.aside.get(name) != text:
            self.settled.discard(f"aside {name}")
        self.aside[name] = text

    def came_back(self, id_: str) -> None:
        self.refused.discard(id_)
        self.gone.discard(id_)
        self.settled.discard(id_)

    def answered(self, id_: str, status: int) -> None:
        """To a Get."""
        if status == 200:
            self.came_back(id_)
            return
        now, other = (self.gone, self.refused) if status == 404 else (self.refused, self.gone)
        if id_ not in now:
            self.settled.discard(id_)
        other.discard(id_)
        now.add(id_)

    def looked(self, pair: Pair, found: Decimal | int, text: str) -> None:
        name = " ".join(pair)
        if found != 200 or not isinstance(self.looks.get(pair), Decimal):
            self.looks[pair] = found
            self.versions.pop(pair, None)
        if isinstance(found, Decimal):
            self.seen.add(pair)
            self.left_out.discard(pair[0])
            self.aside.pop(name, None)
        elif found == 200:
            self.set_aside(name, text)

    def synced(self) -> None:
        """A sync has ended."""
        self.version += self.has_moved
        self.has_moved = False
        for pair in self.looks:
            self.versions.setdefault(pair, self.version)

    @property
    def open_aside(self) -> list[str]:
        return [name for name in self.aside if f"aside {name}" not in self.settled]

    def counted(self) -> Iterator[Row]:
        for id_, row in self.rows.items():
            accepted = id_ in self.gone and id_ in self.settled
            if does_count(row) and not accepted:
                yield row

    def why_not(self) -> str:
        """Why not all is proved; empty where it is."""
        if self.open_aside:
            return f"set aside: {self.open_aside}"
        if waiting := self.refused - self.settled:
            return f"refused: {sorted(waiting)}"
        sums: dict[Pair, Decimal] = {}
        with exactly():
            for row in self.counted():
                sums[balance_of(row)] = sums.get(balance_of(row), Decimal(0)) + change(row)
        scope = {pair for row in self.rows.values() for pair in pairs_of(row)} | self.seen
        scope = {pair for pair in scope if pair[0] not in self.left_out}
        if not scope & self.seen:
            return "no balance was ever seen"
        for pair in sorted(scope):
            found = self.looks.get(pair)
            if self.versions.get(pair) != self.version:
                return f"transfers came after the last look at {pair}"
            if found == 404 and pair not in self.seen and pair not in sums:
                continue  # there is no such balance, and nothing made one
            if not isinstance(found, Decimal):
                return f"{pair} was answered with {found}"
            if found != sums.get(pair, Decimal(0)):
                return f"{pair} is {found}, and its transfers make {sums.get(pair, 0)}"
        return ""


class Service(FakeService):
    """Keeps its ledger; answers with the faults it has, and tells ``log`` what it answered."""

    def __init__(self) -> None:
        super().__init__(complete=True, largest_page=4)
        self.now = 100
        self.archived: set[str] = set()
        self.hidden: set[str] = set()  # profiles: 403
        self.absent: set[str] = set()  # profiles: 404, of balances only
        self.garbled: set[str] = set()  # profiles: balances that cannot be read
        self.busy: set[str] = set()  # profiles that move whenever they are looked at
        self.ends_early = self.is_empty = False
        self.log: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.oracle = Oracle()

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes:
        if operation != "list_transfers":
            page = super().fetch_page(operation, params)
            return b"{}" if self.is_empty else page
        every = self.transfers
        self.transfers = [
            row for row in every
            if row["id"] not in self.archived and row["profile_id"] not in self.hidden
        ]  # fmt: skip
        try:
            page = json.loads(super().fetch_page(operation, params))
        finally:
            self.transfers = every
        asked = dict(params)
        if self.ends_early and asked["order"] == "ASC" and "ids" not in asked:
            page["next_page_cursor"], page["items"] = "", page["items"][:2]
        if self.is_empty:
            page = {}
        for row in page.get("items", ()):
            self.log.append((self.oracle.came, (dict(row),)))
        return json.dumps(page).encode()

    def get_transfer(self, transfer_id: str) -> Row:
        row = next((one for one in self.transfers if one["id"] == transfer_id), None)
        known = row or self.oracle.rows.get(transfer_id)
        is_hidden = known is not None and known["profile_id"] in self.hidden
        status = 403 if is_hidden else 404 if row is None else 200
        self.log.append((self.oracle.answered, (transfer_id, status)))
        if row is None or status != 200:
            raise (NotFound(404, "Not Found") if status == 404 else PermissionDenied(403, "No"))
        return row

    def ledger(self, pair: Pair) -> Decimal:
        """What is available, whatever can be read."""
        mine = [row for row in self.transfers if balance_of(row) == pair]
        with exactly():
            return sum((change({**row, "total": row["amount"]}) for row in mine), Decimal(0))

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        amount = self.ledger((profile_id, asset))
        mine = [row for row in self.transfers if balance_of(row) == (profile_id, asset)]
        text = json.dumps({"asset": asset, "available": f"{amount:f}", "trading": "0"})
        found: Decimal | int = amount
        if profile_id in self.hidden:
            found = 403
        elif profile_id in self.absent or not mine:
            found = 404
        elif profile_id in self.garbled:
            found, text = 200, json.dumps({"asset": asset, "available": "abc", "trading": "0"})
        self.log.append((self.oracle.looked, ((profile_id, asset), found, text)))
        if profile_id in self.busy and mine:
            self.now += 1
            mine[0].update(memo=str(self.now), updated_at=moment(self.now))
        if found in (403, 404) and isinstance(found, int):
            raise (NotFound(404, "Not Found") if found == 404 else PermissionDenied(403, "No"))
        return read_answer(ProfileBalance, "get_profile_balance", Reply(text.encode(), "", 200))


class Trial:
    """One store and its service, moved by chance."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.chance, self.service, self.folder = Random(seed), Service(), folder
        self.clock, self.is_frozen = BEGIN, self.chance.random() < 0.2
        self.store = fl.Store(folder / "store", clock=lambda: self.clock)
        self.done: list[str] = []
        self.earlier: Path | None = None

    @property
    def oracle(self) -> Oracle:
        return self.service.oracle

    # ------------------------------------------------------------------ the service moves

    def arrive(self) -> None:
        chance, service = self.chance, self.service
        for _ in range(chance.randint(1, 4)):
            service.now += chance.randint(1, 300)
            amount = chance.choice(["5", "5", "7", "0.000000000000000001"])
            row = transfer(
                service.now, profile_id=chance.choice(PROFILES), amount=amount, total=amount,
                asset=chance.choice(["USD", "USD", "BTC"]),
                status=chance.choice(["COMPLETED", "COMPLETED", "PENDING", "FAILED"]),
            )  # fmt: skip
            if chance.random() < 0.1:
                row |= {"asset": "USDC", "balance_asset": "USD",
                        "auto_conversion": {"from_transfer_id": row["id"]}}  # fmt: skip
            if service.ledger(balance_of(row)) >= Decimal(amount) and chance.random() < 0.7:
                row |= {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}
            if chance.random() < 0.1:
                row["updated_at"] = ZERO
            service.transfers.append(row)

    def settle(self) -> None:
        for row in self.service.transfers:
            if row["status"] == "PENDING" and self.chance.random() < 0.5:
                self.service.now += 1
                row["status"] = self.chance.choice(["COMPLETED", "FAILED"])
                if row["updated_at"] != ZERO:
                    row["updated_at"] = moment(self.service.now)

    def spoil(self) -> None:
        """A row whose total nobody can read, or one that can be read again."""
        rows = self.service.transfers
        if rows:
            row = self.chance.choice(rows)
            self.service.now += 1
            row["total"] = row["amount"] if not is_readable(row) else "1e5"
            row["updated_at"] = moment(self.service.now)

    def archive(self) -> None:
        ids = {row["id"] for row in self.service.transfers}
        self.service.archived ^= set(self.chance.sample(sorted(ids), min(2, len(ids))))

    def delete(self) -> None:
        rows = self.service.transfers
        row = self.chance.choice(rows or [{}])
        if row and self.service.ledger(balance_of(row)) >= change({**row, "total": row["amount"]}):
            rows.remove(row)

    def toggle(self) -> None:
        """A fault of the service begins or ends."""
        of_profiles = ["hidden", "absent", "garbled", "busy"] * 2
        what = self.chance.choice([*of_profiles, "early", "empty"])
        if what in ("early", "empty"):
            name = {"early": "ends_early", "empty": "is_empty"}[what]
            setattr(self.service, name, not getattr(self.service, name))
        else:
            getattr(self.service, what).symmetric_difference_update({self.chance.choice(PROFILES)})
        self.done[-1] += f" {what}"

    def heal(self) -> None:
        service = self.service
        for faults in (service.hidden, service.absent, service.garbled, service.busy):
            faults.clear()
        service.ends_early = service.is_empty = False
        for row in service.transfers:
            if not is_readable(row):
                service.now += 1
                row.update(total=row["amount"], updated_at=moment(service.now))

    # ------------------------------------------------------------------ the store follows

    def sync(self) -> None:
        if not self.is_frozen:
            self.clock += self.chance.choice([HOUR // 4, HOUR * 2, 9 * DAY, 40 * DAY])
        tables = self.chance.choice([None, None, None, ["balances"], ["transfers"], ["events"]])
        full = self.chance.random() < 0.25
        self.done[-1] += f" {tables} {'full' if full else ''}"
        self.service.log.clear()
        self.store.sync(self.service, tables, full=full, progress=False)  # type: ignore[arg-type]
        for tell, said in self.service.log:
            tell(*said)
        self.oracle.synced()

    def accept(self) -> None:
        oracle, who = self.oracle, {"by": "Ana", "reason": "a test"}
        kind = self.chance.choice(["gone", "refused", "profile", "aside"])
        self.done[-1] += f" {kind}"
        if kind == "gone" and oracle.gone - oracle.settled:
            self.store.accept_gone(**who)  # type: ignore[arg-type]
            oracle.settled |= oracle.gone
        elif kind == "refused" and oracle.refused - oracle.settled:
            self.store.accept_refused(**who)
            oracle.settled |= oracle.refused
        elif kind == "profile" and self.service.hidden:
            profile = min(self.service.hidden)
            mine = {id_ for id_ in oracle.refused if oracle.rows[id_]["profile_id"] == profile}
            try:
                self.store.accept_refused(profile_id=profile, **who)
            except InvalidRequest:
                return  # it breaks, or no sync has met the refusal yet
            found = {found for pair, found in oracle.looks.items() if pair[0] == profile}
            assert mine or found & {403, 404}, f"{profile} is left out, and was never refused"
            oracle.left_out.add(profile)
            oracle.settled |= mine
        elif kind == "aside" and oracle.open_aside:
            self.store.accept_set_aside(**who)
            oracle.settled |= {f"aside {name}" for name in oracle.aside}

    def compact(self) -> None:
        self.store.compact()

    def remember(self) -> None:
        """The files as they are now, for a later day."""
        if self.earlier is None and (self.store.path / "head").exists():
            self.earlier = self.folder / "earlier"
            shutil.copytree(self.store.path, self.earlier)

    # ------------------------------------------------------------------ what is said

    def run(self, verdicts: Counter[str]) -> None:
        steps = [self.arrive, self.arrive, self.settle, self.spoil, self.archive, self.delete,
                 *[self.toggle] * 4, self.heal, self.accept, self.accept, self.compact,
                 self.remember, *[self.sync] * 9]  # fmt: skip
        begun = [self.toggle] * self.chance.randint(0, 2)
        chosen = self.chance.choices(steps, k=12)
        for step in [self.arrive, *begun, self.sync, *chosen, self.sync]:
            self.done.append(step.__name__)
            step()
            if step.__name__ in ("sync", "accept", "compact"):
                self.judge(verdicts)
        for _ in range(3 if (self.store.path / "head").exists() else 0):
            with self.damaged() as how:
                if how:
                    self.judge(verdicts, how)

    def judge(self, verdicts: Counter[str], damage: str = "") -> None:
        why_not = damage or self.oracle.why_not()
        try:
            judgement = fl.reconcile.judge(self.store)
        except StoreDamaged:
            assert damage, "an intact store is called damaged"
            verdicts["damage named"] += 1
            return
        proved = judgement.state == "proved"
        verdicts["proved" if proved else "not proved"] += 1
        verdicts["false"] += proved and bool(why_not)
        verdicts["missed"] += not proved and not why_not
        assert proved == (not why_not), (
            f"{'false' if proved else 'missed'}: {why_not or judgement.text} after {self.done}"
        )

    @contextmanager
    def damaged(self) -> Iterator[str]:
        """A file that judging reads is lost, swapped or older; or a whole folder is."""
        store, saved = self.store.path, self.folder / "saved"
        newest = newest_manifest(store)
        named = json.loads(newest.read_bytes())["manifest"]["files"]
        files = [store / table / name for table in ("transfers", "balances")
                 for name, *_ in named.get(table, ())]  # fmt: skip
        files += [newest, *sorted((store / "records").glob("*.json"))]
        were = {path: path.read_bytes() for path in files}
        shutil.copytree(store, saved)
        path, kind = self.chance.choice(files), self.chance.choice(["lost", "swapped", "older"])
        folder = path.parent.name
        if kind == "lost":
            path.unlink()
        elif kind == "swapped":
            other = self.chance.choice(files)
            path.write_bytes(were[other])
            other.write_bytes(were[path])
        elif self.earlier is not None and (self.earlier / folder).exists():
            if self.chance.random() < 0.5:
                shutil.rmtree(store / folder)
                shutil.copytree(self.earlier / folder, store / folder)
                path = path.parent
            else:
                path.write_bytes(max((self.earlier / folder).glob("*.*")).read_bytes())
        same = all(one.exists() and one.read_bytes() == text for one, text in were.items())
        try:
            yield "" if same else f"{path.name} {kind}"
        finally:
            shutil.rmtree(store)
            saved.rename(store)


@pytest.mark.filterwarnings("ignore::fundlab.base.errors.EmptyListWarning")
@pytest.mark.filterwarnings("ignore::fundlab.base.errors.ContradictionWarning")
@pytest.mark.parametrize(
    ("part", "count"),
    [
        pytest.param(0, 25, marks=pytest.mark.thorough),
        *(pytest.param(part, 100, marks=pytest.mark.campaign) for part in range(20)),
    ],
)
def test_proved_is_said_exactly_where_the_oracle_says_so(
    tmp_path: Path, seed: int, figure: Any, part: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)  # no power cut: a fifth of the time
    verdicts: Counter[str] = Counter()
    wrong, began = [], time.monotonic()
    for number in range(part * count, (part + 1) * count):
        trial = Trial(tmp_path / str(number), f"{seed} {number}")
        try:
            trial.run(verdicts)
        except (AssertionError, FundlabError) as error:
            wrong.append(f"#{number}: {type(error).__name__}: {error}")
            print(wrong[-1], flush=True)
        shutil.rmtree(trial.folder)
        if number % 25 == 24:
            print(f"{number + 1} stores: {dict(verdicts)}, {len(wrong)} wrong", flush=True)
    figure(
        f"{count} stores against the oracle (part {part}, {time.monotonic() - began:.0f} s): "
        f"{dict(verdicts)}, {len(wrong)} wrong"
    )
    assert not wrong, wrong
