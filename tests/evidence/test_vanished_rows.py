"""What the service lists no more is kept and named; what only a page left out is not."""

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer
from fake_service import FakeService, moment, transfer, withdrawal

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import InvalidRequest, NotFound
from fundlab.cli import run
from fundlab.evidence.vanished_rows import (
    SWEEP_CYCLE_NS,
    SWEEP_EVERY_NS,
    control_changes,
    gone_rows,
    sweep_windows,
)

HOUR = SWEEP_EVERY_NS
DAY = 24 * HOUR


class Clock:
    """Moved by hand, as the store asks for it."""

    def __init__(self) -> None:
        self.ns = 1_790_000_000 * 10**9

    def __call__(self) -> int:
        self.ns += 1
        return self.ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Store:
    return Store(tmp_path / "store", clock=clock)


def many(count: int) -> FakeService:
    return FakeService([transfer(number) for number in range(1, count + 1)], complete=True)


def gone(store: Store) -> list[tuple[str, str]]:
    found = store.gone()
    return list(zip(found["id"], found["state"], strict=True))


class TestFullPass:
    def test_what_disappeared_is_named_and_keeps_its_values(self, store: Store) -> None:
        service = many(300)
        store.sync(service)
        removed = service.transfers.pop(150)
        assert store.verify().ok
        done = store.sync(service, full=True)
        assert done.gone == (("transfers", removed["id"]),)
        assert "transfers: no longer at the service: t-000151" in str(done)
        assert "transfers 2026-03 WIRE_DEPOSIT: 299 rows at the service instead of 300" in str(done)
        (problem,) = [one for one in store.verify().problems if one.rule == "gone"]
        assert problem.where == "t-000151"
        assert len(store.read("transfers")) == 300
        history = store.history("transfers").set_index("id")["gone_at"]
        assert history.notna().sum() == 1
        assert history["t-000151"] == store.gone()["gone_at"][0]
        assert store.sync(service, full=True).gone == ()  # it is known by now

    def test_it_is_accepted_by_a_record(self, store: Store) -> None:
        service = many(5)
        store.sync(service, tables=["transfers"])
        del service.transfers[2:4]
        store.sync(service, tables=["transfers"], full=True)
        with pytest.raises(InvalidRequest, match="t-000001"):
            store.accept_gone("t-000001", by="Ana", reason="?")
        with pytest.raises(InvalidRequest, match="t-000001"):
            store.accept_gone(iter(["t-000001"]), by="Ana", reason="?")
        store.accept_gone("t-000003", by="Ana", reason="test data, ticket 7")
        assert gone(store) == [("t-000003", "accepted"), ("t-000004", "gone")]
        assert not store.verify().ok
        accepted = store.accept_gone(by="Ana", reason="the same")
        assert accepted["id"].tolist() == ["t-000004"]
        assert store.verify().ok

    def test_the_last_acceptance_of_a_row_has_the_last_word(
        self, store: Store, capsys: pytest.CaptureFixture[str]
    ) -> None:
        service = many(5)
        store.sync(service, tables=["transfers"])
        del service.transfers[1:3]
        store.sync(service, tables=["transfers"], full=True)
        said = ["--by", "Ben", "--reason", "a test", "--store", str(store.path)]

        def ids() -> list[str]:
            return sorted(store.read("transfers")["id"])

        run(["accept-gone", *said])
        assert capsys.readouterr().out == (
            "2 rows accepted as gone, in no figure from now on: t-000002, t-000003; to undo that, "
            "give the ids again with --still-counts\n"
        )
        assert ids() == ["t-000001", "t-000004", "t-000005"]
        run(["accept-gone", "--still-counts", *said])  # those that wait for it: none
        said_none = "no row is gone: 'fundlab verify' names those that are\n"
        assert capsys.readouterr().out == said_none
        run(["accept-gone", "t-000002", "--still-counts", *said])
        assert capsys.readouterr().out == "1 row accepted as gone, counted as before: t-000002\n"
        assert ids() == ["t-000001", "t-000002", "t-000004", "t-000005"]
        with pytest.raises(InvalidRequest, match=r"t-000002.*'fundlab verify'"):
            store.accept_gone("t-000002", by="Ben", reason="again", still_counts=True)
        wrong: Any = "no"
        with pytest.raises(InvalidRequest, match="still_counts='no': give True or False"):
            store.accept_gone("t-000002", by="Ana", reason="it is a test", still_counts=wrong)
        store.accept_gone(["T-000002"], by="Ana", reason="it is a test")
        assert ids() == ["t-000001", "t-000004", "t-000005"]
        assert gone(store) == [("t-000002", "accepted"), ("t-000003", "accepted")]
        assert store.gone()["by"].tolist() == ["Ana", "Ben"]

    def test_one_accepted_by_an_earlier_version_counts_as_it_did(self, store: Store) -> None:
        service = many(5)
        store.sync(service, tables=["transfers"])
        del service.transfers[2]
        store.sync(service, tables=["transfers"], full=True)
        (row,) = gone_rows(store.records())
        rows = [["transfers", row.id, str(fl.base.values.Instant.from_ns(row.gone_at))]]
        content = {"by": "Ana", "reason": "a test", "rows": rows}
        with store.lock() as check_held:
            store.record("accept", content, check_held)
        assert gone(store) == [("t-000003", "accepted")]
        assert len(store.read("transfers")) == 5

    @pytest.mark.seconds
    def test_what_is_accepted_as_gone_is_in_no_figure_until_it_is_back(
        self, store: Store, clock: Clock, tmp_path: Path
    ) -> None:
        service = many(6)
        service.events = [
            {"id": f"e-{n}", "type": "a.b", "object_type": "c", "object": {},
             "created_at": moment(n)}
            for n in range(3)
        ]  # fmt: skip
        store.sync(service)
        clock.ns += DAY
        removed = service.transfers.pop(3)
        store.sync(service, full=True)
        before = str(fl.base.values.Instant.from_ns(clock.ns))
        store.pin("before")
        assert fl.reconcile.judge(store).breaks == 1
        store.accept_gone(by="Ana", reason="never executed")

        def figures(**at: Any) -> list[tuple[set[str], Any]]:
            """The ids and the sum of the totals, in every way to read them."""
            ids, totals = store.read("transfers", **at), store.read_arrow("transfers", **at)
            scanned = store.scan("transfers", **at).to_arrow_table()
            found = [(set(ids["id"]), ids["total"].sum())]
            found += [
                (set(rows["id"].to_pylist()), sum(rows["total"].to_pylist()))
                for rows in (totals, scanned)
            ]
            return found

        without, first = figures(), {one["id"] for one in service.transfers}
        assert without == without[:1] * 3
        assert without[0][0] == first
        rest = figures(as_of=before) + figures(pin="before")
        assert rest == [({*first, removed["id"]}, without[0][1] + Decimal(removed["total"]))] * 6
        published = store.publish(tmp_path / "current")["transfers"].path
        assert set(fl.read_parquet(published)["id"]) == first
        fl.balances.write_running(store, tmp_path / "running.parquet")
        assert set(fl.read_parquet(tmp_path / "running.parquet")["id"]) == first
        assert len(store.history("transfers")) == 6
        assert store.verify().ok
        assert fl.reconcile.judge(store).state == "proved"
        assert store.assertions()["difference"].eq(0).all()
        assert "differed" not in fl.reconcile.judge(store).text
        assert fl.reconcile.judge(store, pin="before").breaks == 1
        report = fl.report(store)
        assert (report.tone, report.moved) == ("good", ())
        store.compact()
        assert figures() == without
        assert figures(pin="before") == rest[:3]
        service.transfers.insert(3, removed)
        store.sync(service, full=True)
        assert figures() == rest[:3]
        assert store.verify().ok

    def test_what_is_accepted_before_the_balances_are_read_waits_for_them(
        self, store: Store, clock: Clock
    ) -> None:
        service = many(3)
        store.sync(service)
        clock.ns += DAY
        del service.transfers[1]
        store.sync(service, tables=["transfers"], full=True)
        store.accept_gone(by="Ana", reason="never executed")
        judged = fl.reconcile.judge(store)
        assert (judged.state, judged.breaks) == ("partly_proved", 0)
        assert "1 balance is proved only until" in judged.text
        assert store.known("balances")["moved"]
        store.sync(service)
        judged = fl.reconcile.judge(store)
        assert judged.state == "proved"
        assert store.assertions()["difference"].eq(0).all()

    def test_a_row_that_comes_back_is_named(self, store: Store) -> None:
        service = many(5)
        store.sync(service, tables=["transfers"])
        removed = service.transfers.pop(2)
        store.sync(service, tables=["transfers"], full=True)
        service.transfers.append(removed)
        done = store.sync(service, tables=["transfers"], full=True)
        assert "transfers: at the service again: t-000003" in str(done)
        assert gone(store) == [("t-000003", "back")]
        assert store.verify().ok
        assert store.history("transfers")["gone_at"].isna().all()
        service.transfers.remove(removed)
        store.sync(service, tables=["transfers"], full=True)
        assert gone(store) == [("t-000003", "back"), ("t-000003", "gone")]

    def test_every_table_is_compared(self, store: Store) -> None:
        service = many(1)
        service.events = [
            {
                "id": f"e-{n}",
                "type": "a.b",
                "object_type": "c",
                "object": {},
                "created_at": moment(n),
            }
            for n in range(3)
        ]
        wire = {"fiat_network_instructions": {}, "created_at": moment(1)}
        service.fiat_accounts = [{"id": f"f-{n}", "status": "APPROVED", **wire} for n in range(3)]
        service.deposit_instructions = [
            {"id": f"d-{n}", "profile_id": "p", "status": "VALID", "memo_id": "m", **wire}
            for n in range(3)
        ]
        store.sync(service)
        for rows in (service.events, service.fiat_accounts, service.deposit_instructions):
            del rows[1]
        # the short lists are fetched complete by every sync
        assert set(store.sync(service).gone) == {
            ("fiat_accounts", "f-1"), ("deposit_instructions", "d-1"),
        }  # fmt: skip
        assert store.sync(service, full=True).gone == (("events", "e-1"),)

    def test_open_transfers_that_are_gone_are_not_asked_for_again(self, store: Store) -> None:
        service = FakeService(
            [withdrawal(1), transfer(2)], honours={"created_at", "ids"}, strict=True, complete=True
        )
        store.sync(service, tables=["transfers"])
        del service.transfers[0]
        assert store.sync(service, tables=["transfers"]).gone == (("transfers", "t-000001"),)
        service.calls.clear()
        store.sync(service, tables=["transfers"])
        assert [params.get("ids") for _, params in service.calls] == [None, None]


class Faulty(FakeService):
    """Pages that lack rows, or end the list, by chance."""

    chance = random.Random(0)
    share = 0.0

    def fetch_page(self, operation: str, params: Any) -> bytes:
        names = {name for name, _ in params}
        every = self.transfers
        if operation == "list_transfers" and self.chance.random() < self.share:
            dropped = self.chance.randrange(3)
            if dropped == 0:  # rows that moved between pages
                self.transfers = [row for row in every if self.chance.random() < 0.8]
            elif dropped == 1:  # a list cut short
                self.transfers = every[: self.chance.randrange(len(every))]
            elif "ids" in names:
                self.transfers = []
        try:
            return super().fetch_page(operation, params)
        finally:
            self.transfers = every


@pytest.mark.seconds
@pytest.mark.parametrize("honours", [{"created_at", "updated_at", "ids"}, {"created_at"}, set()])
def test_paging_faults_are_not_taken_for_disappearances(tmp_path: Path, honours: set[str]) -> None:
    service = Faulty(
        [transfer(number) for number in range(1, 60)],
        honours=honours,
        largest_page=10,
        complete=True,
    )
    store = Store(tmp_path)
    store.sync(service, tables=["transfers"])
    removed = service.transfers.pop(30)
    service.share, service.chance = 0.4, random.Random(7)
    for _ in range(25):
        store.sync(service, tables=["transfers"], full=True)
    assert gone(store) in ([], [(removed["id"], "gone")])
    assert len(store.read("transfers")) == 59


def test_an_answer_that_fails_is_no_disappearance(store: Store) -> None:
    def refuse(operation: str, params: dict[str, str]) -> None:
        if operation == "get_transfer":
            raise ConnectionError

    service = many(3)
    store.sync(service, tables=["transfers"])
    del service.transfers[0]
    service.hook = refuse
    with pytest.raises(ConnectionError):
        store.sync(service, tables=["transfers"], full=True)
    assert gone(store) == []


class TestSweep:
    def test_everything_is_looked_at_within_a_cycle(self) -> None:
        rng = random.Random(3)
        for _ in range(20):
            now = start = rng.randrange(10**18)
            seen: list[tuple[int, int]] = []
            while now - start < SWEEP_CYCLE_NS:
                last, now = now, now + rng.randrange(HOUR, 6 * DAY)
                seen += sweep_windows(0, 10**6, last, now)
            seen.sort()
            reached = 0
            for begin, end in seen:
                assert begin <= reached + 1
                reached = max(reached, end)
            assert reached >= 10**6 - 1

    def test_an_idle_sync_asks_for_nothing_more(self, store: Store, clock: Clock) -> None:
        service = many(50)
        store.sync(service)
        counts = []
        for _ in range(3):
            service.calls.clear()
            clock.ns += HOUR // 4
            store.sync(service)
            counts.append(len(service.calls))
        clock.ns += HOUR
        service.calls.clear()
        assert "looked at" in str(store.sync(service))
        assert len(set(counts)) == 1
        assert len(service.calls) == counts[0] + 1

    @pytest.mark.seconds
    def test_what_disappeared_is_found_within_a_month(self, store: Store, clock: Clock) -> None:
        service = many(500)
        store.sync(service)
        for number in (499, 250, 1):
            del service.transfers[number]
        changed = service.transfers[100]
        changed["memo"] = "changed without a new updated_at"
        for _ in range(31):
            clock.ns += DAY
            store.sync(service)
        assert sorted(store.gone()["id"]) == ["t-000002", "t-000251", "t-000500"]
        rows = store.read("transfers").set_index("id")
        assert len(rows) == 500
        assert rows["memo"][changed["id"]] == changed["memo"]

    def test_a_service_that_ignores_the_window_is_not_paged_through(
        self, store: Store, clock: Clock
    ) -> None:
        service = many(5_000)
        store.sync(service)
        service.honours, service.largest_page = {"updated_at", "ids"}, 50
        clock.ns += DAY
        service.calls.clear()
        store.sync(service)
        assert len(service.calls) < 75  # some were under way; all are over a hundred pages
        assert gone(store) == []


def test_not_found_is_what_the_client_raises() -> None:
    with pytest.raises(NotFound):
        FakeService(complete=True).get_transfer("t-1")


@pytest.mark.thorough
def test_over_http_a_removed_transfer_is_named_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fl.sandbox.serve(seed=7, transfers=300) as sandbox, sandbox.connect() as client:
        store = Store(tmp_path / "store")
        store.sync(client)
        removed = store.read("transfers")["id"][100]
        sandbox.control.remove_transfer(removed)
        assert store.sync(client, full=True).gone == (("transfers", removed),)
    found = fl.report(store)
    assert found.is_alarming
    assert removed in found.text
    arguments = ["--store", str(store.path), "--json"]
    with pytest.raises(typer.Exit, match="3"):
        run(["verify", *arguments])
    assert "gone" in {one["rule"] for one in json.loads(capsys.readouterr().out)["problems"]}
    said = ["--by", "Ana", "--reason", "its balance is as it was"]
    run(["accept-gone", removed, *said, "--still-counts", *arguments])
    assert json.loads(capsys.readouterr().out)["accepted"] == [removed]
    run(["verify", *arguments])


def paging_run(folder: Path, seed: int) -> None:
    """One store through five full passes over a faulty list: nothing is named that is there."""
    chance = random.Random(seed)
    count = chance.randrange(3, 120)
    rows = [transfer(number) for number in range(1, count)]
    honours = set(chance.sample(["created_at", "updated_at", "ids"], chance.randrange(4)))
    service = Faulty(rows, honours=honours, largest_page=chance.randrange(1, 30), complete=True)
    store = Store(folder)
    store.sync(service, tables=["transfers"])
    removed = {service.transfers.pop(chance.randrange(len(service.transfers)))["id"]}
    service.share, service.chance = chance.random() * 0.6, chance
    for _ in range(5):
        store.sync(service, tables=["transfers"], full=True)
    assert {id_ for id_, _ in gone(store)} <= removed, seed
    assert len(store.read("transfers", columns=["id"])) == count - 1, seed


@pytest.mark.parametrize("count", [20, pytest.param(1_000, marks=pytest.mark.campaign)])
def test_runs_over_faulty_pages(tmp_path: Path, seed: int, figure: Any, count: int) -> None:
    for number in range(count):
        paging_run(tmp_path / str(number), seed * 1_000 + number)
        if number % 100 == 99:
            print(f"{number + 1} runs over faulty pages, none named falsely", flush=True)
    figure(f"faulty pages: {count} runs of five full passes, none named falsely")


@pytest.mark.parametrize(
    ("rows", "deleted"),
    [(5_000, 60), pytest.param(1_000_000, 1_000, marks=pytest.mark.campaign)],
)
def test_deletions_among_many(
    tmp_path: Path, seed: int, figure: Any, rows: int, deleted: int
) -> None:
    with fl.sandbox.serve(seed=seed, transfers=rows) as sandbox, sandbox.connect() as client:
        store = Store(tmp_path / "store")
        store.sync(client)
        before = store.read_arrow("transfers")
        wanted = random.Random(seed).sample(before["id"].to_pylist(), deleted)
        for id_ in wanted:
            sandbox.control.remove_transfer(id_)
        gone = store.sync(client, full=True).gone
        assert sorted(gone) == sorted(("transfers", id_) for id_ in wanted)
        assert store.read_arrow("transfers").equals(before)
    figure(f"deletions: {deleted:,} of {rows:,} transfers, all named, no other, values kept")


def test_a_control_that_begins_or_ends_is_a_change_and_an_equal_one_is_none() -> None:
    key, month = ("2026-10", "WIRE_DEPOSIT", "USD"), ["2026-10", "WIRE_DEPOSIT", "USD"]
    for before, after, changed in (
        ({}, {key: (1, Decimal(0))}, [[*month, 1, "0"]]),
        ({key: (1, Decimal(0))}, {}, [[*month, 0, "0"]]),
        ({key: (2, Decimal(5))}, {key: (2, Decimal("5.00"))}, []),
        ({key: (2, Decimal(5))}, {key: (2, Decimal("5.01"))}, [[*month, 2, "5.01"]]),
    ):
        assert control_changes(before, after) == changed
