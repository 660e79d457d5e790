"""What a sync asks the service, from which moment on, what it relies on, and what it says after."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from fake_service import FakeService, moment, transfer, withdrawal

from fundlab import Store
from fundlab.base.errors import InvalidRequest, NotFound, PermissionDenied, StoreError
from fundlab.evidence.vanished_rows import unlisted_rows
from fundlab.sync.run import SyncResult, TableSync

DAY_NS = 1_772_323_200 * 10**9  # 2026-03-01
HOUR_NS = 3_600 * 10**9
LATER = 20 * HOUR_NS


def at(second: float) -> int:
    return DAY_NS + int(second) * 10**9


def sync(
    path: Path, service: Any, tables: Any = ("transfers",), clock: int = 0, **given: Any
) -> Any:
    store = Store(path, clock=lambda: clock or DAY_NS + LATER)
    return store.sync(service, tables, **given)


def asked(service: FakeService, operation: str = "list_transfers") -> list[dict[str, str]]:
    """The questions, without what is the same in each."""
    usual = ("limit", "order", "order_by")
    found = [
        {name: text for name, text in params.items() if name not in usual}
        for one, params in service.calls
        if one == operation and params["limit"] != "1"
    ]
    service.calls.clear()
    return found


class TestFromWhichMomentOn:
    def test_a_quarter_of_an_hour_before_the_newest(self, tmp_path: Path) -> None:
        events = [{"id": "e-1", "created_at": moment(10_000)}]
        service = FakeService([transfer(9_000, updated_at=moment(20_000))], events=events)
        for since, bound in ((None, moment(9_100)), (moment(9_500), moment(9_500))):
            path = tmp_path / str(since is None)
            sync(path, service, ["transfers", "events"], since=since and moment(8_000))
            if since:
                path = tmp_path / "later"
                sync(path, service, ["transfers", "events"], since=since)
            service.calls.clear()
            sync(path, service, ["transfers", "events"])
            events_asked = [p for name, p in service.calls if name == "list_events"]
            assert [one["created_at.gte"] for one in events_asked] == [bound]
            assert asked(service) == [{"updated_at.gte": moment(19_100)}]

    def test_without_updates_what_may_still_change_is_asked_for_by_its_id(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Of those that did not come with the newest."""
        service = FakeService(
            [withdrawal(100), transfer(200), withdrawal(10_000), withdrawal(10_001)],
            honours={"created_at", "ids"},
        )
        sync(tmp_path, service)
        asked(service)
        service.transfers[0].update(status="COMPLETED")
        service.transfers.append(withdrawal(10_002))
        with caplog.at_level(logging.INFO, "fundlab"):
            result = sync(tmp_path, service)
        assert [one.get("ids", one.get("created_at.gte")) for one in asked(service)] == [
            None, moment(9_101), "t-000100",
        ]  # fmt: skip
        assert (result.new, result.changed) == (1, 1)
        assert "transfers: not by updated_at: the service ignores updated_at_gte" in caplog.text
        for row in service.transfers:
            row["status"] = "COMPLETED"
        sync(tmp_path, service)
        asked(service)
        sync(tmp_path, service)  # nothing may still change
        assert [{*one} & {"ids", "created_at.gte"} for one in asked(service)] == [
            {"created_at.gte"}
        ]

    def test_all_again_where_nothing_can_be_relied_on(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = FakeService([withdrawal(100), transfer(10_000)], honours=set(), strict=True)
        sync(tmp_path, service)
        asked(service)
        with caplog.at_level(logging.INFO, "fundlab"):
            sync(tmp_path, service)
        assert asked(service)[-1] == {}
        assert "transfers: fetching everything again: " in caplog.text
        gone = FakeService([transfer(9_000)], honours={"created_at", "ids"})
        with caplog.at_level(logging.WARNING, "fundlab"):
            sync(tmp_path, gone)
        assert "is missing from the answer" in caplog.text

    @pytest.mark.parametrize(
        ("second", "since", "full", "begins"),
        [
            (None, None, False, 500), (None, 500, False, 500), (None, 501, False, 500),
            (None, 499, False, 499), (None, None, True, None), (None, 600, True, None),
            (None, 499, True, 499),
        ],
    )  # fmt: skip
    def test_where_its_rows_begin_only_ever_widens(
        self, tmp_path: Path, second: Any, since: int | None, full: bool, begins: int | None
    ) -> None:
        service = FakeService([transfer(n) for n in (100, 499, 500, 501, 900)])
        first = sync(tmp_path, service, since=moment(500))
        assert (first.new, Store(tmp_path).snapshot("transfers").begins) == (3, at(500))
        sync(tmp_path, service, since=None if since is None else moment(since), full=full)
        snapshot = Store(tmp_path).snapshot("transfers")
        assert snapshot.begins == (None if begins is None else at(begins))
        assert snapshot.count == sum(n >= (begins or 0) for n in (100, 499, 500, 501, 900))

    @pytest.mark.parametrize(("ahead_ns", "named"), [(0, 2), (1, 1)])
    def test_a_row_of_the_future_is_no_mark(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, ahead_ns: int, named: int
    ) -> None:
        """Clocks may differ by a quarter of an hour."""
        far = moment(1_900, ahead_ns)
        service = FakeService([transfer(1), transfer(2, created_at=far, updated_at=far)])
        with caplog.at_level(logging.INFO, "fundlab"):
            sync(tmp_path, service, clock=at(1_000))
        last = Store(tmp_path).snapshot("transfers").last
        assert last is not None
        assert {mark["id"] for mark in last.watermark.values()} == {f"t-{named:06d}"}
        said = [one.levelname for one in caplog.records if "in the future" in one.message]
        assert said[:2] == (["WARNING", "INFO"] if ahead_ns else [])

    def test_rows_that_lack_a_time_of_update_leave_no_mark_of_updates(self, tmp_path: Path) -> None:
        undated = transfer(2, updated_at="0001-01-01T00:00:00Z")
        for row, kinds in ((transfer(2), {"created", "updated"}), (undated, {"created"})):
            path = tmp_path / str(len(kinds))
            sync(path, FakeService([transfer(1), row]))
            last = Store(path).snapshot("transfers").last
            assert last is not None
            assert set(last.watermark) == kinds


class TestSweep:
    """A part of the old rows is compared with the service's list, an hour after the last time."""

    def test_an_hour_later(self, tmp_path: Path) -> None:
        service = FakeService([transfer(n) for n in range(10)])
        service.events = [{"id": "e-1", "created_at": moment(1)}]
        for after, notes in ((0, 0), (HOUR_NS - 1, 0), (HOUR_NS, 2), (HOUR_NS + 9, 0),
                             (2 * HOUR_NS - 1, 0), (2 * HOUR_NS, 2)):  # fmt: skip
            result = sync(tmp_path, service, None, clock=DAY_NS + LATER + after)
            found = [note for note in result.notes if note.startswith("looked at")]
            assert len(found) == notes, after
        assert found[0].endswith("old transfers again")
        assert found[1].endswith("old events again") or found[1].endswith("old event again")

    @pytest.mark.parametrize(
        "honours", [{"created_at", "updated_at", "ids"}, {"updated_at", "ids"}]
    )
    def test_finds_what_changed_without_a_word_and_what_is_gone(
        self, tmp_path: Path, honours: set[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        service = FakeService([transfer(n) for n in range(0, 10_000, 999)], complete=True)
        sync(tmp_path, service, None)
        service.honours = honours
        service.transfers[3]["memo"] = "changed"
        gone = service.transfers.pop(5)
        changed, lost, looked = 0, [], 0
        for turn in range(1, 9):  # all of them within a month, a third at most at once
            clock = DAY_NS + LATER + turn * 10 * 24 * HOUR_NS
            with caplog.at_level(logging.INFO, "fundlab"):
                result = sync(tmp_path, service, None, clock=clock)
            changed += result.changed
            lost += result.gone
            looked += sum(int(n.split()[2]) for n in result.notes if n.startswith("looked at"))
        if "created_at" in honours:
            assert (changed, lost) == (1, [("transfers", gone["id"])])
            assert looked >= 2 * 10
        else:
            assert (changed, lost, looked) == (0, [], 0)
            assert "transfers: old rows are not swept: window ignored" in caplog.text


class TestWhatIsLeftOut:
    def service(self) -> FakeService:
        return FakeService([transfer(n) for n in range(1, 6)], complete=True)

    @pytest.mark.parametrize(
        ("answer", "found"), [("there", None), ("gone", "gone"), ("refused", "refused")]
    )
    def test_is_asked_for_by_itself(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: str, found: str | None
    ) -> None:
        service = self.service()
        sync(tmp_path, service)
        row = service.transfers.pop(2)

        def get(transfer_id: str) -> Any:
            if answer == "gone":
                raise NotFound(404, "Not Found")
            if answer == "refused":
                raise PermissionDenied(403, "Forbidden")
            return row

        service.get_transfer = get  # type: ignore[method-assign]
        with caplog.at_level(logging.WARNING, "fundlab"):
            result = sync(tmp_path, service, full=True)
        assert (result.gone, result.refused) == (
            (("transfers", row["id"]),) * (found == "gone"),
            (("transfers", row["id"]),) * (found == "refused"),
        )
        says = "transfers: the list left out 1 row that the service still has"
        assert (says in caplog.text) is (found is None)
        month = 30 * 24 * HOUR_NS
        (entry,) = unlisted_rows(Store(tmp_path).records())
        assert entry.answer == answer
        for after, asks in ((month, 0), (month + 1, 1)):
            asked(service)
            clock = entry.asked_at + after
            sync(tmp_path, service, clock=clock)
            ids = [one for one in asked(service) if "ids" in one]
            assert len(ids) == asks
        asked(service)
        sync(tmp_path, service, clock=clock + month)
        assert [one for one in asked(service) if "ids" in one] == []
        service.transfers.append(row)
        again = sync(tmp_path, service, full=True)
        note = f"transfers: at the service again: {row['id']}"
        assert (note in again.notes) is (found is not None)


class TestResult:
    def result(self, **given: Any) -> SyncResult:
        tables = (
            TableSync("transfers", 5, 2, 0, 3, 1, "a"),
            TableSync("events", 1, 0, 1, 0, 1, None),
        )
        return SyncResult("books", **{"tables": tables, "seconds": 1.25} | given)

    def test_by_table(self) -> None:
        found = self.result()
        assert (found["events"].changed, found.new, found.changed) == (1, 2, 1)
        with pytest.raises(KeyError, match="balances"):
            found["balances"]
        assert found.to_frame().loc["transfers"].tolist() == [5, 2, 0, 3, 1, "a"]

    def test_as_text(self) -> None:
        pairs = (("p-1", "USD"), ("p-2", "USD"))
        assert str(self.result()).splitlines() == [
            "transfers                     2 new          0 changed          3 unchanged",
            "events                        0 new          1 changed          0 unchanged",
            "store books, 1.2 s",
        ]
        text = str(self.result(unsettled=pairs, compacted=("transfers", "events"), notes=("n",)))
        assert text.splitlines()[2:5] == [
            "2 balances kept moving and will be read by a later sync",
            "merged the files of transfers, events",
            "n",
        ]

    @pytest.mark.parametrize(
        ("rows", "says"),
        [((2, 1), "2 new rows, 1 changed"), ((1, 0), "1 new row, 0 changed"),
         ((0, 1), "0 new rows, 1 changed"), ((0, 0), "Nothing new")],
    )  # fmt: skip
    def test_as_a_card(self, rows: tuple[int, int], says: str) -> None:
        tables = (TableSync("transfers", 5, *rows, 3, 1, "a"),)
        card = self.result(tables=tables)._repr_html_()
        assert f"{says} · 1.2 s" in card
        assert "kept moving" not in card
        moving = self.result(unsettled=(("p-1", "USD"),))._repr_html_()
        assert "1 balance kept moving and will be read by a later sync" in moving

    def test_how_long_it_took(self, tmp_path: Path) -> None:
        assert 0 < sync(tmp_path, FakeService([transfer(1)]), "transfers").seconds < 60


@pytest.mark.parametrize(
    ("skew_s", "says"),
    [(86_400.0, None), (-86_400.0, None), (86_401.0, "24 hours behind the service's"),
     (-86_401.0, "24 hours ahead of the service's"), (7_200_000.0, "2,000 hours behind")],
)  # fmt: skip
def test_a_clock_may_be_a_day_off(tmp_path: Path, skew_s: float, says: str | None) -> None:
    service = FakeService([transfer(1)])
    service.transport.skew_s = skew_s
    if says is None:
        assert sync(tmp_path, service).new == 1
        return
    with pytest.raises(StoreError, match=f"clock is {says}"):
        sync(tmp_path, service)
    assert Store(tmp_path).manifest().number == 0


def test_at_least_one_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"tables=\[\]: name at least one of"):
        Store(tmp_path).sync(FakeService(), [])
    for workers in (0, -1, "2"):
        with pytest.raises(InvalidRequest, match="workers"):
            Store(tmp_path).sync(FakeService(), workers=workers)
    assert [one.table for one in sync(tmp_path, FakeService(), "balances").tables] == [
        "transfers", "balances",
    ]  # fmt: skip
