"""Whatever happens while a store is written, in the end it is the service's own ledger."""

import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_service import ITEMS, FakeService, moment, transfer, withdrawal

from fundlab import Store
from fundlab.base.errors import NetworkError
from fundlab.store import staging
from fundlab.sync.loaders import load_transfers

WAYS = (
    {"created_at", "updated_at", "ids"},
    {"created_at", "ids"},
    {"created_at"},
    set[str](),
)
pytestmark = pytest.mark.filterwarnings("ignore::fundlab.errors.IgnoredFilterWarning")


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "FILE_ROWS", 40)


class Busy(FakeService):
    """Rows arrive and change between any two pages, and now and then a connection breaks.

    Pages come again under another cursor, and the rows of a page in any order.
    """

    def prepare(
        self, chance: random.Random, faults: float, busyness: float, disorder: float
    ) -> None:
        self.chance, self.faults, self.busyness = chance, faults, busyness
        self.disorder = disorder
        self.now = 40_000
        self.lock = threading.Lock()
        self.hook = self.happen

    def fetch_page(self, operation: str, params: Any) -> bytes:
        body = super().fetch_page(operation, params)
        cursor = dict(params).get("page_cursor")
        with self.lock:
            comes_again = cursor is not None and self.chance.random() < self.disorder
            shuffled = self.chance.random() < self.disorder
            page = json.loads(body)
            if comes_again:
                page["next_page_cursor"] = f"{cursor} "  # of the same place, in another spelling
            if shuffled:
                self.chance.shuffle(page[ITEMS[operation]])
        return json.dumps(page).encode()

    def happen(self, operation: str, params: dict[str, str]) -> None:
        with self.lock:
            self.now += 1
            if self.chance.random() < self.busyness:
                number = len(self.transfers)
                made = self.chance.choice((transfer, withdrawal))
                at = moment(self.now - self.chance.choice((0, 0, 0, 600)))
                updated = {"created_at": at, "updated_at": moment(self.now)}
                self.transfers.append(made(number, **updated))
            if self.chance.random() < self.busyness:
                pending = [row for row in self.transfers if row["status"] == "PENDING"]
                if pending:
                    status = self.chance.choice(("COMPLETED", "FAILED"))
                    row = self.chance.choice(pending)
                    row.update(status=status, updated_at=moment(self.now))
            if self.chance.random() < self.faults:
                raise NetworkError("the connection was lost")


def run_schedule(folder: Path, seed: int) -> int:
    """How many rows there were in the end."""
    chance = random.Random(seed)
    ties = chance.choice((1, 1, 5, 50))
    rows = [
        chance.choice((transfer, transfer, withdrawal))(n, created_at=moment(n // ties * 37))
        for n in range(1, chance.randint(2, 120))
    ]
    rows.append(transfer(0, amount="90000", total="90000"))  # no balance falls below zero
    service = Busy(rows, honours=chance.choice(WAYS), largest_page=chance.choice((5, 20, 100)))
    service.strict = chance.random() < 0.3
    service.prepare(
        chance,
        faults=chance.choice((0, 0.02)),
        busyness=chance.choice((0, 0.1)),
        disorder=chance.choice((0, 0.3)),
    )
    store = Store(folder)
    for _ in range(chance.randint(1, 4)):
        sync_until_done(store, service, chance.choice((1, 3, 8)))
        if chance.random() < 0.2:
            store.compact()
        service.now += 600
    service.hook = lambda operation, params: None
    store.sync(service, workers=chance.choice((1, 3, 8)))  # type: ignore[arg-type]
    check_equal(store, service)
    return len(service.transfers)


def sync_until_done(store: Store, service: Busy, workers: int) -> None:
    for _ in range(10):
        try:
            store.sync(service, workers=workers)  # type: ignore[arg-type]
        except NetworkError:
            continue
        return
    service.faults = 0
    store.sync(service, workers=workers)  # type: ignore[arg-type]


def check_equal(store: Store, service: FakeService) -> None:
    frame = store.read("transfers", columns=["id", "status", "total", "created_at"])
    keys = [(row["created_at"], row["id"]) for row in service.transfers]
    assert list(frame["id"]) == [name for _, name in sorted(keys)]
    status = {row["id"]: row["status"] for row in service.transfers}
    assert dict(zip(frame["id"], frame["status"], strict=True)) == status
    found = store.verify()
    assert found.ok, str(found)


@pytest.mark.parametrize("count", [6, pytest.param(1_000, marks=pytest.mark.campaign)])
def test_schedules(tmp_path: Path, seed: int, figure: Any, count: int) -> None:
    rows = sum(
        run_schedule(tmp_path / str(number), 1_000 * seed + number) for number in range(count)
    )
    figure(f"any paging: {count:,} schedules: {rows:,} rows, every table is the ledger")


@pytest.mark.parametrize(
    "workers", [3, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 8))]
)
class TestOneNanosecond:
    """2,500 rows of one moment, 100 to a page."""

    def service(self, **options: Any) -> FakeService:
        at = moment(5000, 123_456_789)
        rows = [transfer(n, created_at=at) for n in range(2500)]
        rows += [transfer(2500 + n) for n in range(100)]
        return FakeService(rows, largest_page=100, **options)

    def test_into_the_store(self, tmp_path: Path, workers: int) -> None:
        service, store = self.service(), Store(tmp_path / "store")
        store.sync(service, tables=["transfers"], workers=workers)  # type: ignore[arg-type]
        check_equal(store, service)

    @pytest.mark.parametrize("order", ["ASC", "DESC"])
    def test_as_a_frame(self, workers: int, order: str) -> None:
        frame = load_transfers(self.service(), workers=workers, order=order)  # type: ignore[arg-type]
        expected = sorted((row["created_at"], row["id"]) for row in self.service().transfers)
        names = [name for _, name in expected]
        assert list(frame["id"]) == (names if order == "ASC" else names[::-1])
