"""Service → store: only what changed, whatever the service honours, and all of it or nothing."""

import re
import shutil
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from amounts import exactly
from fake_service import FakeService, change, moment, transfer, withdrawal

from fundlab import Store
from fundlab.base.errors import (
    DataError,
    IgnoredFilterWarning,
    InvalidRequest,
    NetworkError,
    NotFound,
    ProtocolError,
    StoreError,
    StoreLocked,
)
from fundlab.sync import run
from fundlab.sync.run import sync


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def files(store: Store) -> dict[str, bytes]:
    """Every published file and its bytes."""
    return {str(path): path.read_bytes() for path in store.path.rglob("*.parquet")}


def statuses(store: Store) -> dict[str, str]:
    frame = store.read("transfers")
    return dict(zip(frame["id"], frame["status"], strict=True))


def pages_of(service: FakeService, operation: str = "list_transfers") -> int:
    return sum(1 for name, _ in service.calls if name == operation)


def reported(store: Store) -> dict[tuple[str, str], Decimal]:
    """The newest balance of each profile and asset."""
    frame = store.read("balances")
    keys = zip(frame["profile_id"], frame["asset"], strict=True)
    return dict(zip(keys, frame["available"] + frame["trading"], strict=True))


@exactly()
def rebuilt(store: Store) -> dict[tuple[str, str], Decimal]:
    frame = store.read("transfers")
    totals: dict[tuple[str, str], Decimal] = {}
    for row in frame.to_dict("records"):
        key = (row["profile_id"], row["asset"])
        totals[key] = totals.get(key, Decimal(0)) + change(row)
    return totals


class TestFirstSync:
    def test_everything_arrives(self, store: Store) -> None:
        record = {"id": "x", "created_at": moment(1)}
        service = FakeService(
            [transfer(n) for n in range(2500)],
            events=[record],
            addresses=[record],
            fiat_accounts=[record],
            deposit_instructions=[record],
        )
        result = store.sync(service)
        assert result["transfers"].new == 2500
        assert {entry.table: entry.new for entry in result.tables} == {
            "transfers": 2500,
            "events": 1,
            "addresses": 1,
            "fiat_accounts": 1,
            "deposit_instructions": 1,
            "balances": 1,
        }
        assert list(store.read("transfers")["id"]) == [f"t-{n:06d}" for n in range(2500)]
        assert reported(store) == {("p-1", "USD"): Decimal("26250")}

    def test_an_empty_service(self, store: Store) -> None:
        result = store.sync(FakeService())
        assert result.new == 0
        assert files(store) == {}
        assert len(store.read("transfers")) == 0
        store.sync(FakeService([transfer(1)]))
        assert len(store.read("transfers")) == 1

    def test_it_belongs_to_the_service_of_the_files_that_are_there(self, store: Store) -> None:
        store.sync(FakeService([transfer(1)]), tables=["transfers"])
        assert store.service() == {"base_url": FakeService.base_url, "client_id": "client-1"}
        shutil.rmtree(store.path)
        assert store.service() is None
        other = FakeService([transfer(1)])
        other.base_url = "https://other.example.com"
        store.sync(other, tables=["transfers"])
        assert store.service() == {"base_url": other.base_url, "client_id": "client-1"}

    def test_chosen_tables_only(self, store: Store) -> None:
        service = FakeService([transfer(1)], events=[{"id": "e", "created_at": moment(1)}])
        result = store.sync(service, tables=["events"])
        assert [entry.table for entry in result.tables] == ["events"]
        assert pages_of(service) == 0

    def test_balances_bring_the_transfers_that_prove_them(self, store: Store) -> None:
        result = store.sync(FakeService([transfer(1)]), tables=["balances"])
        assert [entry.table for entry in result.tables] == ["transfers", "balances"]

    def test_the_store_keeps_one_time(self, tmp_path: Path) -> None:
        now = pd.Timestamp("2026-11-02T09:00:00Z")
        store = Store(tmp_path / "store", clock=lambda: now.value)
        store.sync(FakeService([transfer(1)]), tables=["balances"])
        assert store.read("balances")["observed_at"].tolist() == [now]
        assert store.history("balances")["published_at"].tolist() == [now]

    def test_unknown_tables_are_refused(self, store: Store) -> None:
        with pytest.raises(InvalidRequest, match="table 'transfer' is unknown"):
            store.sync(FakeService(), tables=["transfer"])
        with pytest.raises(InvalidRequest, match="at least one"):
            store.sync(FakeService(), tables=[])

    def test_result_shows_itself(self, store: Store) -> None:
        result = store.sync(FakeService([transfer(1)]), tables=["transfers"])
        assert "transfers                     1 new          0 changed" in str(result)
        assert repr(result) == str(result)
        assert result.to_json()["tables"][0]["new"] == 1
        assert list(result.to_frame().index) == ["transfers"]


WAYS = {
    "by updated_at": {"created_at", "updated_at", "ids"},
    "by created_at and id": {"created_at", "ids"},
    "by created_at alone": {"created_at"},
    "by nothing": set[str](),
}


@pytest.mark.filterwarnings("ignore::fundlab.errors.IgnoredFilterWarning")
@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("honours", WAYS.values(), ids=WAYS)
class TestNextSync:
    def service(self, honours: set[str], strict: bool) -> FakeService:
        records = [transfer(n, profile_id=f"p-{n % 3}") for n in range(50)]
        records += [withdrawal(n, profile_id="p-1") for n in range(50, 60)]
        return FakeService(records, honours=set(honours), strict=strict, largest_page=20)

    def test_nothing_changed_nothing_written(
        self, store: Store, honours: set[str], strict: bool
    ) -> None:
        service = self.service(honours, strict)
        store.sync(service)
        before = {path for path in files(store) if "balances" not in path}
        result = store.sync(service)
        assert (result["transfers"].new, result["transfers"].changed) == (0, 0)
        assert {path for path in files(store) if "balances" not in path} == before

    def test_new_rows_and_pending_ones_that_completed(
        self, store: Store, honours: set[str], strict: bool
    ) -> None:
        service = self.service(honours, strict)
        store.sync(service)
        first = store.read("transfers")
        for row in service.transfers[50:60]:
            row.update(status="COMPLETED", updated_at=moment(4000))
        service.transfers[52]["status"] = "FAILED"
        service.transfers += [transfer(n) for n in range(5000, 5003)]
        result = store.sync(service)
        assert (result["transfers"].new, result["transfers"].changed) == (3, 10)
        assert set(statuses(store).values()) == {"COMPLETED", "FAILED"}
        assert len(store.read("transfers")) == 63
        assert len(store.history("transfers")) == 73
        assert reported(store) == rebuilt(store)
        made = store.history("transfers")["published_at"].min()
        assert store.read("transfers", as_of=made).equals(first)

    def test_rows_that_appear_late_within_the_overlap(
        self, store: Store, honours: set[str], strict: bool
    ) -> None:
        service = self.service(honours, strict)
        service.transfers.append(transfer(1000))
        store.sync(service)
        service.transfers.append(transfer(200))  # 800 s earlier than the newest known
        assert store.sync(service)["transfers"].new == 1

    def test_full_finds_the_rest(self, store: Store, honours: set[str], strict: bool) -> None:
        service = self.service(honours, strict)
        service.transfers.append(transfer(9000))
        store.sync(service)
        service.transfers.append(transfer(100))
        store.sync(service)
        store.sync(service, full=True)
        assert len(store.read("transfers")) == 62


class TestHowMuchIsFetched:
    def test_only_the_last_quarter_of_an_hour_by_updates(self, store: Store) -> None:
        service = FakeService([transfer(n * 60) for n in range(600)], largest_page=10)
        store.sync(service)
        service.calls.clear()
        result = store.sync(service)
        assert result["transfers"].fetched == 16
        assert pages_of(service) == 4  # twice two: before and after the balances

    def test_a_service_whose_answers_lack_known_rows_is_not_trusted(self, store: Store) -> None:
        """It takes updated_at for something else and answers with nothing."""

        class Forgetful(FakeService):
            def fetch_page(self, operation: str, params: Any) -> bytes:
                if any(name == "updated_at.gte" for name, _ in params):
                    return b'{"items":[]}'
                return super().fetch_page(operation, params)

        service = Forgetful([transfer(1), withdrawal(2)])
        store.sync(service)
        service.transfers[1]["status"] = "COMPLETED"
        service.transfers.append(transfer(3))
        store.sync(service)
        assert statuses(store) == dict.fromkeys(["t-000001", "t-000002", "t-000003"], "COMPLETED")

    def test_events_and_addresses_by_creation_lists_in_full(self, store: Store) -> None:
        records = [{"id": f"{n}", "created_at": moment(n * 600)} for n in range(100)]
        service = FakeService(
            events=records, addresses=records, fiat_accounts=records, deposit_instructions=records
        )
        store.sync(service)
        result = store.sync(service)
        assert {entry.table: entry.fetched for entry in result.tables} == {
            "transfers": 0,
            "events": 2,
            "addresses": 2,
            "fiat_accounts": 100,
            "deposit_instructions": 100,
            "balances": 0,
        }

    def test_what_changes_while_the_first_pages_are_read_is_not_lost(self, store: Store) -> None:
        """A long first load: a row of page one changes long before the last page is read."""
        service = FakeService([withdrawal(1), *[transfer(n) for n in range(2, 30)]])
        service.transfers.append(transfer(20_000))
        service.largest_page = 10

        def settle(operation: str, params: dict[str, str]) -> None:
            if operation == "list_transfers" and "page_cursor" in params:
                service.transfers[0].update(status="COMPLETED", updated_at=moment(20_001))
                service.transfers[-1].update(updated_at=moment(80_000))

        service.hook = settle
        store.sync(service, tables=["transfers"])
        service.hook = lambda operation, params: None
        store.sync(service, tables=["transfers"])
        assert statuses(store)["t-000001"] == "COMPLETED"

    def test_since_begins_a_store_and_later_only_widens_it(self, store: Store) -> None:
        service = FakeService([transfer(n * 3600) for n in range(10)])
        store.sync(service, since=moment(5 * 3600))
        assert len(store.read("transfers")) == 5
        service.transfers[1].update(updated_at=moment(80_000))
        assert store.sync(service)["transfers"].new == 0
        store.sync(service, since=moment(8 * 3600))
        assert len(store.read("transfers")) == 5
        store.sync(service, since=moment(2 * 3600))
        assert len(store.read("transfers")) == 8


class TestBalancesBelongToTransfers:
    """The service moves while it is being read, and still nothing disagrees."""

    def test_a_deposit_between_transfers_and_balances(self, store: Store) -> None:
        service = FakeService([transfer(1), transfer(2, profile_id="p-2")])
        moved = iter([transfer(3), transfer(4, profile_id="p-3")])

        def move(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance":
                service.transfers += [row for row in [next(moved, None)] if row]

        service.hook = move
        result = store.sync(service)
        assert result.unsettled == ()
        assert len(store.read("transfers")) == 4
        assert reported(store) == rebuilt(store)

    def test_a_withdrawal_that_fails_meanwhile(self, store: Store) -> None:
        service = FakeService([transfer(1), withdrawal(2, total="1")])
        looks: list[str] = []

        def fail(operation: str, params: dict[str, str]) -> None:
            looks.append(operation)
            if looks.count("get_profile_balance") == 1:
                service.transfers[1].update(status="FAILED", updated_at=moment(50))

        service.hook = fail
        store.sync(service)
        assert reported(store) == rebuilt(store) == {("p-1", "USD"): Decimal("10.5")}
        assert len(store.history("transfers")) == 2  # the version seen first was never published

    def test_what_never_rests_is_left_out_and_named(self, store: Store) -> None:
        service = FakeService([transfer(1), transfer(2, profile_id="p-2")])
        numbers = iter(range(10, 1000))

        def deposit(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance" and params["profile_id"] == "p-1":
                service.transfers.append(transfer(next(numbers)))

        service.hook = deposit
        result = store.sync(service)
        assert result.unsettled == (("p-1", "USD"),)
        assert next(numbers) == 10 + 8, "it was looked at eight times"
        assert reported(store) == {("p-2", "USD"): Decimal("10.5")}

    def test_that_nothing_rests_is_published_too(self, tmp_path: Path) -> None:
        """And when each was seen last; of what was never answered there is nothing to say."""
        service, store = FakeService([transfer(1)]), Store(tmp_path, clock=lambda: 10**18)

        def move(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance":
                service.transfers[0]["memo"] = f"at look {len(service.calls)}"
                service.transfers[0]["updated_at"] = moment(len(service.calls))

        service.hook = move
        assert store.sync(service)["balances"].fetched == 0
        last = store.snapshot("balances").last
        assert last is not None
        assert last.query["moving"] == [["p-1", "USD", 10**18]]
        assert last.query["unsettled"] == [["p-1", "USD"]]

        def refuse(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance":
                raise NotFound(404, "Not Found")

        other = Store(tmp_path / "other")
        service.hook = refuse
        assert other.sync(service)["balances"].part is None

    def test_an_answer_that_cannot_be_read_takes_the_place_of_one_that_could(
        self, store: Store
    ) -> None:
        """The balance moved between the two; what is readable later is not set aside any more."""
        service = FakeService([transfer(1), transfer(2, profile_id="p-2")])
        answers: dict[int, Exception] = {
            2: DataError("odd", table="balances", field="available", raw="{}"),
            4: NotFound(404, "Not Found"),
        }
        looks: list[str] = []

        def move(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance" and params["profile_id"] == "p-1":
                looks.append(operation)
                if len(looks) == 1:
                    service.transfers.append(transfer(3))
                if len(looks) in answers:
                    raise answers[len(looks)]

        service.hook = move
        assert [row.id for row in store.sync(service).set_aside] == ["p-1 USD"]
        note = "balances: read now, not set aside any more: p-1 USD"
        assert note in store.sync(service).notes
        del service.transfers[1]
        lost = store.sync(service)
        assert (lost["balances"].fetched, lost["balances"].part is None) == (0, False)

    def test_an_answer_takes_the_place_of_none(self, store: Store) -> None:
        service, looks = FakeService([transfer(1)]), list[str]()

        def move(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance":
                looks.append(operation)
                if len(looks) == 1:
                    service.transfers.append(transfer(3))
                    raise NotFound(404, "Not Found")

        service.hook = move
        assert store.sync(service)["balances"].fetched == 1
        last = store.snapshot("balances").last
        assert last is not None
        assert "unanswered" not in last.query

    def test_the_balance_that_a_transfer_leaves_is_read_again_too(self, store: Store) -> None:
        """Of one that was stored long ago, and changes while balances are read."""
        service, looks = FakeService([transfer(1), transfer(9_000)]), list[str]()
        store.sync(service)

        def move(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance":
                looks.append(params["profile_id"])
                if len(looks) == 1:
                    service.transfers[0] |= {"profile_id": "p-2", "updated_at": moment(9_500)}

        service.hook = move
        store.sync(service)
        assert looks == ["p-1", "p-1", "p-2"]

    def test_every_observation_is_kept(self, store: Store) -> None:
        service = FakeService([transfer(1)])
        for _ in range(3):
            store.sync(service)
        assert len(store.read("balances")) == 3


class TestWhenItGoesWrong:
    def failing(self, operation: str, page: int) -> FakeService:
        service = FakeService(
            [transfer(n) for n in range(50)],
            events=[{"id": f"{n}", "created_at": moment(n)} for n in range(50)],
            largest_page=10,
        )
        seen: list[str] = []

        def fail(name: str, params: dict[str, str]) -> None:
            seen.append(name)
            if seen.count(operation) == page:
                raise NetworkError("the connection was refused")

        service.hook = fail
        return service

    @pytest.mark.parametrize(
        ("operation", "page"),
        [("list_transfers", 3), ("list_events", 4), ("get_profile_balance", 1)],
    )
    def test_a_service_that_dies_leaves_the_store_as_it_was(
        self, store: Store, operation: str, page: int
    ) -> None:
        store.sync(FakeService([transfer(1)]))
        before = files(store)
        with pytest.raises(NetworkError, match="refused"):
            store.sync(self.failing(operation, page))
        assert files(store) == before
        assert list(store.path.rglob("*.tmp")) == []
        store.sync(FakeService([transfer(n) for n in range(50)]))
        assert len(store.read("transfers")) == 50

    def test_what_is_not_json_stores_nothing(self, store: Store) -> None:
        service = FakeService([transfer(1)])
        service.fetch_page = lambda operation, params: b"<html>"
        with pytest.raises(ProtocolError, match="not JSON"):
            store.sync(service)
        assert files(store) == {}

    def test_one_run_at_a_time(self, store: Store) -> None:
        busy, done = threading.Event(), threading.Event()

        def wait(operation: str, params: dict[str, str]) -> None:
            busy.set()
            done.wait(10)

        service = FakeService([transfer(1)], hook=wait)
        worker = threading.Thread(target=store.sync, args=(service,))
        worker.start()
        busy.wait(10)
        with pytest.raises(StoreLocked, match="held by another run"):
            Store(store.path).sync(FakeService())
        done.set()
        worker.join()
        assert len(store.read("transfers")) == 1

    def test_a_store_belongs_to_one_service(self, store: Store) -> None:
        store.sync(FakeService([transfer(1)]))
        with pytest.raises(StoreError, match="use another store"):
            store.sync(FakeService([transfer(1)], client_id="client-2"))
        with pytest.raises(StoreError, match="use another store"):
            store.sync(FakeService([transfer(1)], base_url="https://elsewhere.example"))

    def test_a_service_that_ignores_every_filter_is_named(self, store: Store) -> None:
        service = FakeService([transfer(n * 600) for n in range(20)], honours=set())
        store.sync(service, tables=["transfers"])
        with pytest.warns(IgnoredFilterWarning, match="created_at_gte"):
            store.sync(service, tables=["transfers"])


def test_an_id_is_no_line_of_the_log(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    service = FakeService([transfer(1, id="t-1\nCRITICAL all funds sent\x1b[2J")])
    store.sync(service, tables=["transfers"])  # type: ignore[arg-type]
    service.transfers[:] = [transfer(2)]
    with caplog.at_level("INFO"):
        store.sync(service, tables=["transfers"])  # type: ignore[arg-type]
    lines = [line for record in caplog.records for line in record.getMessage().splitlines()]
    assert [line for line in lines if line.startswith("CRITICAL") or "\x1b" in line] == []
    assert any("is missing from the answer" in line for line in lines)


class Dated(FakeService):
    """Filters by ``updated_at`` and never shows what has none."""

    def fetch_page(self, operation: str, params: Any) -> bytes:
        every = self.transfers
        if dict(params).get("order_by") == "UPDATED_AT":
            self.transfers = [row for row in every if row["updated_at"]]
        try:
            return super().fetch_page(operation, params)
        finally:
            self.transfers = every


class Respelling(FakeService):
    """Writes the UUIDs of its lists in the letters that ``spell`` makes of them."""

    spell = staticmethod(bytes.lower)

    def fetch_page(self, operation: str, params: Any) -> bytes:
        uuids = rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
        return re.sub(uuids, lambda m: self.spell(m[0]), super().fetch_page(operation, params))


@pytest.mark.parametrize("full", [False, True])
def test_a_row_whose_ids_come_in_other_letters_is_the_same_row(store: Store, full: bool) -> None:
    ids = [f"{n:08x}-aaaa-4bbb-8ccc-ddddeeeeffff" for n in range(20)]
    of = {"profile_id": ids[18], "customer_id": ids[19]}
    paid = {"type": "transfer.wire_deposit.completed", "source": "s"}
    service = Respelling(
        [transfer(n, id=ids[n], **of) for n in range(5)],
        events=[
            {**paid, "id": ids[10 + n], "object": {"id": ids[n]}, "created_at": moment(50 + n)}
            for n in range(5)
        ],
    )
    store.sync(service)
    before = store.read("transfers", settled=True)
    assert before["settled_from"].tolist() == ["event"] * 5
    service.spell = bytes.upper
    again = store.sync(service, full=full)
    assert (again["transfers"].new, again["transfers"].changed) == (0, 0)
    assert again["events"].new == 0  # their object is kept as it came, and is another text now
    assert store.read("transfers", settled=True).equals(before)
    assert set(store.read("balances")["profile_id"]) == {ids[18]}
    service.transfers.append(transfer(5, id=ids[5], **of))
    service.events.append(
        {**paid, "id": ids[15], "object": {"id": ids[5]}, "created_at": moment(55)}
    )
    store.sync(service, full=full)
    assert store.read("transfers", settled=True)["settled_from"].tolist() == ["event"] * 6
    assert store.verify().ok


class Hiding(FakeService):
    """Its lists leave out the transfer ``hidden``, which it has."""

    hidden = ""

    def fetch_page(self, operation: str, params: Any) -> bytes:
        every = self.transfers
        self.transfers = [row for row in every if row["id"] != self.hidden]
        try:
            return super().fetch_page(operation, params)
        finally:
            self.transfers = every


def test_a_service_that_knows_its_ids_in_capitals_only_is_asked_so(store: Store) -> None:
    """Tables hold them in small letters."""
    ids = [f"{n:08x}-aaaa-4bbb-8ccc-ddddeeeeffff" for n in range(4)]
    service = Hiding(
        [transfer(n, id=ids[n].upper(), profile_id=ids[3].upper()) for n in range(3)],
        complete=True,
    )
    store.sync(service, ["transfers", "balances"])
    seen = store.read("balances")
    assert seen["profile_id"].tolist() == [ids[3]]
    assert seen["available"].tolist() == [Decimal("31.5")]
    service.hidden = ids[1].upper()
    store.sync(service, ["transfers", "balances"], full=True)
    assert store.unlisted()[["id", "answer"]].to_numpy().tolist() == [[ids[1], "there"]]
    assert store.verify().ok


def test_rows_without_a_time_of_update_are_found(store: Store) -> None:
    service = Dated([transfer(n, updated_at=None if n % 2 else moment(n)) for n in range(20)])
    store.sync(service, tables=["transfers"])
    service.transfers += [transfer(5_000, updated_at=None), transfer(5_001)]
    assert store.sync(service, tables=["transfers"]).new == 2
    assert len(store.read("transfers")) == 22


def test_a_row_of_the_far_future_hides_no_other(store: Store) -> None:
    ahead = {"created_at": "2099-01-01T00:00:00Z", "updated_at": "2099-01-01T00:00:00Z"}
    event = {
        "id": "e-1", "type": "transfer.completed", "source": "s", "object": {},
        "created_at": ahead["created_at"],
    }  # fmt: skip
    service = FakeService([transfer(1), transfer(2, **ahead)], events=[event])
    store.sync(service)
    service.transfers.append(transfer(3))
    service.events.append({**event, "id": "e-2", "created_at": moment(3)})
    store.sync(service)
    assert len(store.read("transfers")) == 3
    assert len(store.read("events")) == 2


def test_what_is_written_and_not_published_does_not_stay(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transfers are written when the disk refuses the balances."""
    service = FakeService([transfer(1)])
    store.sync(service)
    service.transfers.append(transfer(2))

    def there() -> set[Path]:
        return {path for path in (store.path / "transfers").rglob("*") if path.is_file()}

    before, written = there(), set[Path]()
    write = run.write_part

    def refused(folder: Path, *given: Any) -> Any:
        if folder.name == "balances":
            written.update(there() - before)
            raise OSError("no space left")
        return write(folder, *given)

    with monkeypatch.context() as patched:
        patched.setattr(run, "write_part", refused)
        with pytest.raises(OSError, match="no space left"):
            store.sync(service)
    assert len(written) == 1
    assert there() == before
    assert store.sync(service)["transfers"].new == 1


def test_the_function_behind_the_method(store: Store) -> None:
    service = FakeService([transfer(1)])
    result = sync(
        store, service, tables=None, since=None, workers=1, full=False, progress=None,
        clock=lambda: 5,
    )  # fmt: skip
    assert result.new == 2
    assert store.read("balances")["observed_at"].tolist() == [pd.Timestamp(5, tz="UTC")]


def test_two_syncs_under_a_clock_that_stands_still_observe_twice(tmp_path: Path) -> None:
    """No two observations of a balance have one key, so each stands."""
    service, store = FakeService([transfer(1)]), Store(tmp_path, clock=lambda: 10**18)
    for _ in range(3):
        store.sync(service)  # type: ignore[arg-type]
    seen = store.read("balances")
    assert len(seen) == 3
    assert not seen.duplicated(["profile_id", "asset", "observed_at"]).any()
    assert seen["observed_at"].is_monotonic_increasing
    assert store.verify().ok


@pytest.mark.parametrize(("hours", "way"), [(25, "behind"), (-25, "ahead of")])
def test_a_machine_whose_clock_is_a_day_off_publishes_nothing(
    tmp_path: Path, hours: int, way: str
) -> None:
    service, store = FakeService([transfer(1)]), Store(tmp_path)
    service.transport.skew_s = hours * 3600.0
    with pytest.raises(StoreError, match=f"clock is 25 hours {way} the service's: nothing was"):
        store.sync(service)  # type: ignore[arg-type]
    assert store.read("transfers").empty
    service.transport.skew_s = hours * 3000.0
    assert store.sync(service)["transfers"].new == 1  # type: ignore[arg-type]
