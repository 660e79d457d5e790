"""What a sync asks the service, from which moment on, what it relies on, and what it says after."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from fake_service import FakeService, moment, transfer, withdrawal

from fundlab import Store
from fundlab.base.errors import (
    AuthenticationFailed,
    IgnoredFilterWarning,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    ProtocolError,
    ScopeMissing,
    StoreError,
    ValidationFailed,
)
from fundlab.evidence.quarantine import SetAside
from fundlab.evidence.vanished_rows import Gone, unlisted_rows
from fundlab.store import staging
from fundlab.sync import run
from fundlab.sync.run import SyncResult, TableSync, Unread, Watermark, _Fetch
from fundlab.sync.table_pages import Fetched
from fundlab.tables.decode import InvalidRow, decode_page
from fundlab.tables.schema import TABLES

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
        service.transfers[0].update(updated_at=moment(30_000))
        for bound in (19_100, 29_100):
            sync(tmp_path / "True", service)
            assert asked(service) == [{"updated_at.gte": moment(bound)}]

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
        gone = FakeService([transfer(9_000), transfer(9_900)], honours={"created_at", "ids"})
        with caplog.at_level(logging.WARNING, "fundlab"):
            sync(tmp_path, gone)
        assert "is missing from the answer" in caplog.text
        assert {} in asked(gone), "what came of the last question does not count"

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
            sync(tmp_path, service, None, clock=at(1_000))
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
        service.addresses = [{"id": "a-1", "created_at": moment(n)} for n in (1, 9_000)]
        for after, notes in ((0, 0), (HOUR_NS - 1, 0), (HOUR_NS, 2), (HOUR_NS + 9, 0),
                             (2 * HOUR_NS - 1, 0), (2 * HOUR_NS, 2)):  # fmt: skip
            result = sync(tmp_path, service, None, clock=DAY_NS + LATER + after)
            found = [note for note in result.notes if note.startswith("looked at")]
            assert len(found) == notes, after
        assert found[0].endswith("old transfers again")
        assert found[1].endswith("old events again") or found[1].endswith("old event again")
        whole = sync(tmp_path, service, None, full=True, clock=DAY_NS + LATER + 3 * HOUR_NS)
        assert not any("looked at" in note for note in whole.notes), "all rows were asked for"

    def test_what_it_cannot_read_is_set_aside(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(run, "sweep_windows", lambda first, last, *_: [(first, last + 1)])
        service = FakeService([transfer(n) for n in (1, 9_000)])
        sync(tmp_path, service, None)
        service.transfers[0]["amount"] = "x"
        service.transfers.append(transfer(2, amount="x"))  # not seen until now
        found = sync(tmp_path, service, None, clock=DAY_NS + LATER + HOUR_NS)
        assert sorted(str(row.id) for row in found.set_aside) == ["t-000001", "t-000002"]

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

    def test_a_service_that_refuses_the_window_is_not_swept(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = FakeService([transfer(n) for n in range(9)])
        sync(tmp_path, service, None)
        service.honours, service.strict = {"updated_at", "ids"}, True
        with caplog.at_level(logging.INFO, "fundlab"):
            sync(tmp_path, service, None, clock=DAY_NS + LATER + 240 * HOUR_NS)
        assert "transfers: old rows are not swept: " in caplog.text


def test_a_row_that_changed_without_a_word_is_another_version(tmp_path: Path) -> None:
    """Whatever its time of update says; one that is older by it is none."""
    service = FakeService([transfer(n, updated_at=moment(50)) for n in (1, 2, 3)])
    sync(tmp_path, service)
    service.transfers[1]["memo"] = "changed"
    service.transfers[2] |= {"memo": "stale", "updated_at": moment(49)}
    found = sync(tmp_path, service, full=True)["transfers"]
    assert (found.new, found.changed, found.unchanged) == (0, 1, 2)


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


# ------------------------------------------------------------------------ one table, by itself


class Staged:
    """Rows on their way into a store, in memory."""

    def __init__(self, *records: dict[str, Any]) -> None:
        self.tables = [rows_of(*records)] if records else []
        self.covered: list[Any] = []
        self.note: dict[str, Any] = {}
        self.discarded = False

    def read(self, columns: Iterable[str]) -> Any:
        return (rows.select(columns) for rows in self.tables)

    def holds(self, id_: str) -> bool:
        return any(id_ in rows.column("id").to_pylist() for rows in self.tables)

    def discard(self) -> None:
        self.discarded = True


def rows_of(*records: dict[str, Any], table: str = "transfers") -> pa.Table:
    item = "items" if table == "transfers" else "events"
    return decode_page(TABLES[table], json.dumps({item: records}).encode()).rows


def known_row(id_: str | None, key: str = "k") -> SetAside:
    return SetAside("transfers", key, id_, "odd", "{}", 0)


def fetching(
    service: Any, table: str = "transfers", staged: Staged | None = None, **given: Any
) -> tuple[_Fetch, list[Fetched]]:
    """What is under way of one table, and the pages that were kept."""
    usual: dict[str, Any] = {
        "workers": 1, "latest": at(1_000), "since": None, "marks": {}, "unlisted": {},
        "unread": Unread({}),
    }  # fmt: skip
    snapshot = SimpleNamespace(table=TABLES[table])
    return _Fetch(service, snapshot, staged or Staged(), **(usual | given)), []  # type: ignore[arg-type]


def ids_of(pages: Iterable[Fetched]) -> list[str]:
    return [id_ for page in pages for id_ in page.rows.column("id").to_pylist()]


class TestOneTable:
    @pytest.mark.parametrize(
        ("known", "readable", "invalid", "read", "new", "ids"),
        [
            ({"a": "x"}, ["x"], [], {"a"}, [], set()),
            ({"a": "x"}, ["y"], [], set(), [], set()),
            ({"a": None}, ["x"], [], set(), [], set()),
            ({"a": None}, [None], [], set(), [], set()),
            ({}, [], ["x"], set(), ["x"], {"x"}),
            ({}, [], [None], set(), [None], set()),
            ({"a": "x"}, [], ["x"], {"a"}, ["x"], {"x"}),  # it says something else
            ({"same": "x"}, [], ["x"], set(), [], {"x"}),
        ],
    )
    def test_what_is_set_aside(
        self, known: dict[str, str | None], readable: list[Any], invalid: list[Any], read: set[str],
        new: list[Any], ids: set[str],
    ) -> None:  # fmt: skip
        came = [InvalidRow("transfers", id_, "{}", "odd") for id_ in invalid]
        keys = {one: came[0].key if one == "same" else one for one in known}
        unread = Unread({keys[one]: known_row(id_, keys[one]) for one, id_ in known.items()})
        unread.take(pa.chunked_array([readable], pa.string()), came)
        assert (unread.read, unread.ids) == (read, ids)
        assert [row.id for row in unread.new.values()] == new
        assert all(row.key == key for key, row in unread.new.items())

    @pytest.mark.parametrize(
        ("seen", "rows", "mark"),
        [
            (None, [(5, 7), (6, 6)], ((6, "t-000001"), (7, "t-000000"))),
            ((6, "old"), [(6, 6)], ((6, "old"), (6, "old"))),  # not newer
            ((6, "old"), [(7, 6)], ((7, "t-000000"), (6, "old"))),
            (None, [(1_000, 1_000), (1_001, 1_001)], ((1_000, "t-000000"), (1_000, "t-000000"))),
            (None, [(1_001, 1_001)], (None, None)),
            (None, [(3, None), (2, 4)], ((3, "t-000000"), (4, "t-000001"))),
            (None, [(3, None)], ((3, "t-000000"), None)),
        ],
    )
    def test_the_newest_moments(
        self, seen: Any, rows: list[tuple[int, int | None]], mark: tuple[Any, Any]
    ) -> None:
        """Of those that are not of the future; ``latest`` is not."""
        one, _ = fetching(FakeService())
        made = rows_of(*(
            transfer(n, created_at=moment(a),
                     updated_at="0001-01-01T00:00:00Z" if b is None else moment(b))
            for n, (a, b) in enumerate(rows)
        ))  # fmt: skip
        old = {} if seen is None else dict.fromkeys(
            ("created", "updated"), Watermark(at(seen[0]), seen[1])
        )  # fmt: skip
        one._note(made, old)
        for name, expected in zip(("created", "updated"), mark, strict=True):
            wanted = None if expected is None else Watermark(at(expected[0]), expected[1])
            assert old.get(name) == wanted, name
        assert one.undated is any(b is None for _, b in rows)
        assert one.ahead is any(max(a, b or 0) > 1_000 for a, b in rows)

    def test_events_have_no_time_of_update(self) -> None:
        one, _ = fetching(FakeService(), "events")
        seen: dict[str, Watermark] = {}
        one._note(rows_of({"id": "e", "created_at": moment(3)}, table="events"), seen)
        assert (seen, one.undated) == ({"created": Watermark(at(3), "e")}, False)

    @pytest.mark.parametrize(
        ("marks", "seen", "updated", "undated", "left"),
        [
            ({}, {}, None, False, {}),
            ({"created": 3}, {"created": 2}, None, False, {"created": 3}),
            ({"created": 2}, {"created": 3}, 4, False, {"created": 3, "updated": 4}),
            ({}, {"created": 3}, 4, True, {"created": 3}),
            ({"created": 2, "updated": 9}, {}, None, False, {"created": 2}),
        ],
    )
    def test_the_marks_in_the_end(
        self, marks: dict[str, int], seen: dict[str, int], updated: int | None, undated: bool,
        left: dict[str, int],
    ) -> None:  # fmt: skip
        one, _ = fetching(FakeService(), marks={k: Watermark(v, "m") for k, v in marks.items()})
        one.seen, one.undated = {k: Watermark(v, "s") for k, v in seen.items()}, undated
        one._done(None if updated is None else Watermark(updated, "u"))
        assert {name: mark.at for name, mark in one.marks.items()} == left

    @pytest.mark.parametrize("name", ["ignored", "unchecked"])
    def test_what_became_of_filters_is_said(self, name: str) -> None:
        one, _ = fetching(FakeService())
        getattr(one, name).add("statuses")
        with pytest.warns(IgnoredFilterWarning, match="transfers: .*statuses"):
            one._done(None)

    def test_one_question(self) -> None:
        """Its pages are counted and kept, and what is expected of it has come."""
        odd = transfer(4, amount="x")
        service = FakeService([transfer(n) for n in range(4)] + [odd], largest_page=2)
        one, kept = fetching(service)
        came: set[str] = set()
        one._ask({}, kept.append, expect=["t-000003", "t-000004"], came=came)
        assert ids_of(kept) == [f"t-{n:06d}" for n in range(4)]
        assert came == {*ids_of(kept)}
        assert (one.pages, one.unread.ids) == (3, {"t-000004"})
        assert one.seen["created"] == Watermark(at(3), "t-000003")
        with pytest.raises(run._Ignored, match="'t-000008' is missing from the answer"):
            one._ask({}, kept.append, expect=["t-000009", "t-000008", "t-000001"])
        one._ask({}, kept.append, expect=["t-000001"])

    @pytest.mark.parametrize(
        ("since", "updated", "kept_ids"),
        [
            (None, 20, ["t-000001", "t-000003"]),
            (3, 20, ["t-000003"]),
            (4, 20, []),
        ],
    )
    def test_rows_by_update(self, since: int | None, updated: int, kept_ids: list[str]) -> None:
        """Those from before the store's first are left out, but say how far updates are known."""
        rows = [transfer(n, updated_at=moment(20 + n)) for n in (1, 3)]
        one, kept = fetching(FakeService(rows), since=None if since is None else at(since))
        one._ask({"updated_at_gte": moment(updated)}, kept.append)
        assert ids_of(kept) == kept_ids
        assert one.seen["updated"] == Watermark(at(23), "t-000003")
        one._ask({}, kept.append)  # another question
        assert ids_of(kept) == [*kept_ids, "t-000001", "t-000003"]

    def test_rows_by_update_that_do_not_say_when(self) -> None:
        class Undated(FakeService):
            def fetch_page(self, operation: str, params: Any) -> bytes:
                body = {"items": [transfer(1, updated_at="0001-01-01T00:00:00Z")]}
                return json.dumps(body).encode()

        one, kept = fetching(Undated())
        with pytest.raises(run._Ignored, match=r"^rows without updated_at$"):
            one._ask({"updated_at_gte": moment(0)}, kept.append)
        one._ask({}, kept.append)

    @pytest.mark.parametrize(
        ("said", "answer"),
        [
            (None, "there"),
            (NotFound(404, "Not Found"), "gone"),
            (PermissionDenied(403, "Forbidden"), "refused"),
            (AuthenticationFailed(401, "Unauthorized"), "refused"),
            (ProtocolError("odd"), "there"),
            (ScopeMissing(403, "Forbidden"), None),
        ],
    )
    def test_what_the_service_says_of_each(
        self, said: Exception | None, answer: str | None
    ) -> None:
        """Only those are asked for that came neither readable nor otherwise."""
        service = FakeService([transfer(1), transfer(2, amount="x")])

        def get(transfer_id: str) -> None:
            service.calls.append(("get_transfer", {"id": transfer_id}))
            if said is not None:
                raise said

        service.get_transfer = get  # type: ignore[method-assign,assignment]
        one, kept = fetching(service)
        wanted = ["t-000001", "t-000002", "t-000003"]
        if answer is None:
            with pytest.raises(ScopeMissing):
                one.answered(wanted, {"ids": wanted}, kept.append)
            return
        assert one.answered(wanted, {"ids": wanted}, kept.append) == {
            "t-000001": "there", "t-000002": "there", "t-000003": answer,
        }  # fmt: skip
        assert ids_of(kept) == ["t-000001"]
        gets = [params["id"] for name, params in service.calls if name == "get_transfer"]
        assert gets == ["t-000003"]
        lists = [params for name, params in service.calls if name == "list_transfers"]
        checks = [p for p in lists if p["limit"] == "1"]  # whether the token is good
        assert len(checks) == isinstance(said, AuthenticationFailed)

    def test_a_token_that_is_good_for_nothing_is_no_answer(self) -> None:
        def refuse(operation: str, params: dict[str, str]) -> None:
            if operation == "get_transfer" or params["limit"] == "1":
                raise AuthenticationFailed(401, "Unauthorized")

        one, kept = fetching(FakeService([], hook=refuse))
        with pytest.raises(AuthenticationFailed):
            one.answered(["t-1"], {"ids": ["t-1"]}, kept.append)

    def test_of_tables_that_are_only_lists(self) -> None:
        service = FakeService(events=[{"id": "e-1", "created_at": moment(1)}])
        one, kept = fetching(service, "events")
        assert one.answered(["e-1", "e-2"], {}, kept.append) == {"e-1": "there", "e-2": "gone"}

    def test_a_way_that_is_not_honoured(self, caplog: pytest.LogCaptureFixture) -> None:
        service = FakeService([], honours=set(), strict=True, complete=True)
        one, kept = fetching(service)
        with caplog.at_level(logging.INFO, "fundlab"):
            assert one.answered(["t-1"], {"ids": ["t-1"]}, kept.append) == {"t-1": "gone"}
        assert "transfers: not by ids: " in caplog.text

    @pytest.mark.parametrize(
        ("before", "now", "asked", "back"),
        [
            ("gone", "gone", ["t-000001"], set()), ("there", "there", ["t-000001"], set()),
            ("gone", "there", [], {"t-000001"}), ("refused", "gone", [], {"t-000001"}),
            ("there", "gone", [], set()),
        ],
    )  # fmt: skip
    def test_an_answer_that_changed(
        self, before: str, now: str, asked: list[str], back: set[str]
    ) -> None:
        row = Gone("transfers", "t-000001", 0, answer=before)
        service = FakeService([transfer(1)] if now == "there" else [], complete=True)
        one, kept = fetching(service, unlisted={row.id: row})
        one.ask_again(run.ASK_AGAIN_NS + 1, kept.append)
        assert (one.asked, one.back) == (asked, back)
        assert one.answers[now] == ([] if asked else ["t-000001"])
        assert sum(map(len, one.answers.values())) == (not asked)

    def test_who_is_asked_for_again(self, caplog: pytest.LogCaptureFixture) -> None:
        """After more than 30 days, the oldest answers first; a hundred of each kind at most."""
        month = 30 * 86_400 * 10**9
        rows = [
            Gone("transfers", f"u-{n:03d}", 0, answer="there", asked_at=200 - n) for n in range(105)
        ]
        known = {f"k-{n:03d}": known_row(f"k-{n:03d}" if n else None) for n in range(103)}
        service = FakeService([], complete=True)
        one, kept = fetching(service, unlisted={row.id: row for row in rows}, unread=Unread(known))
        one.no_longer_unlisted = {"u-104"}
        one.ask_again(month + 200, kept.append)
        lists = Counter(name for name, _ in service.calls)
        assert lists == {"list_transfers": 2, "get_transfer": 100}
        assert one.answers["gone"] == [f"u-{n:03d}" for n in range(103, 3, -1)]
        first, second = (dict(p) for name, p in service.calls if name == "list_transfers")
        assert (first["ids"], second["ids"]) == ("u-004", "k-100")  # the last of each

        one, kept = fetching(service, unlisted={row.id: row for row in rows})
        service.calls.clear()
        one.ask_again(month + 96, kept.append)  # the oldest was asked 30 days ago, to the instant
        assert service.calls == []
        one.ask_again(month + 97, kept.append)
        assert [params["id"] for name, params in service.calls if name == "get_transfer"] == [
            "u-104"
        ]

        one, kept = fetching(
            FakeService([], honours=set(), strict=True), unread=Unread({"k": known_row("k")})
        )
        with caplog.at_level(logging.INFO, "fundlab"):
            one.ask_again(0, kept.append)
        assert "transfers: not by ids: " in caplog.text
        events, kept = fetching(
            FakeService(), "events", unread=Unread({"k": known_row("k")}),
            unlisted={"e": Gone("events", "e", 0)},
        )  # fmt: skip
        events.ask_again(2 * month, kept.append)
        assert events.client.calls == []

    def test_what_a_pass_did_not_bring(self, caplog: pytest.LogCaptureFixture) -> None:
        service = FakeService([transfer(1)], complete=True)
        one, kept = fetching(
            service, unlisted={"t-000003": Gone("transfers", "t-000003", 0)},
            unread=Unread({}, ids={"t-000004"}),
        )  # fmt: skip
        with caplog.at_level(logging.WARNING, "fundlab"):
            one.look_for(rows_of(*(transfer(n) for n in (1, 2, 3, 4))), kept.append)
            assert one.answers == {"there": ["t-000001"], "gone": ["t-000002"], "refused": []}
            assert "the list left out 1 row that the service still has" in caplog.text
            assert "ids" in service.calls[0][1]
            caplog.clear()
            service.calls.clear()
            one.look_for(rows_of(transfer(3), transfer(4)), kept.append)
            assert service.calls == []
            one.look_for(rows_of(transfer(5)), kept.append)
            assert caplog.text == ""

    def test_of_a_list_that_takes_no_ids_the_time_between_is_asked_for(self) -> None:
        rows = [{"id": f"e-{n}", "created_at": moment(n)} for n in (1, 2, 3, 4)]
        service = FakeService(events=[rows[0], rows[3]])
        one, kept = fetching(service, "events")
        one.look_for(rows_of(*rows[1:3], table="events"), kept.append)
        assert asked(service, "list_events") == [
            {"created_at.gte": moment(2), "created_at.lt": moment(3, 1)}
        ]
        assert one.answers["gone"] == ["e-2", "e-3"]
        undated = {"id": "e-9", "created_at": "0001-01-01T00:00:00Z"}
        one.look_for(rows_of(undated, table="events"), kept.append)
        assert asked(service, "list_events") == [{}]
        assert one.answers["gone"] == ["e-2", "e-3", "e-9"]

    @pytest.mark.parametrize(
        ("records", "since", "newest"),
        [
            ([1, 2], None, "t-000002"), ([1, 2], 2, "t-000002"), ([1, 2], 3, None),
            ([], None, None), ([1, -2], None, "t-000002"),
        ],
    )  # fmt: skip
    def test_the_newest_row(
        self, records: list[int], since: int | None, newest: str | None
    ) -> None:
        rows = [transfer(n) if n > 0 else transfer(-n, amount="x") for n in records]
        service = FakeService(rows)
        one, _ = fetching(service)
        assert one.newest(None if since is None else at(since)) == newest
        assert [params["limit"] for _, params in service.calls] == ["1"]

    @pytest.mark.parametrize(
        ("staged", "unread", "left_out", "pages", "note"),
        [
            ([1, 2, 3, 9], set(), set(), 0, None),  # it came
            ([1, 2, 3], {"t-000009"}, set(), 0, None),
            ([1, 2, 3], set(), set(), 4, "6 rows"),  # 9 8, 7 6, 5 4, and 3 2: those came
            ([1], set(), set(), 5, "8 rows"),
            ([1, 2, 3, 9], set(), {"t-000009"}, 4, "6 rows"),  # it came by its name only
            ([1, 2, 3], {"t-000009"}, {"t-000009"}, 4, "6 rows"),
        ],
    )
    def test_a_list_that_ends_early_is_read_from_its_other_end(
        self, staged: list[int], unread: set[str], left_out: set[str], pages: int, note: str | None
    ) -> None:
        service = FakeService([transfer(n) for n in range(1, 10)], largest_page=2)
        one, kept = fetching(
            service, staged=Staged(*map(transfer, staged)), unread=Unread({}, ids={*unread}),
            marks={"updated": Watermark(1, "u")},
        )  # fmt: skip
        one.left_out = left_out
        said = one.look_from_the_other_end("t-000009", kept.append)
        assert len(kept) == pages
        assert all(page.covered is None for page in kept)
        assert said == (
            [] if note is None
            else [f"transfers: the list ended early; {note} came from its other end"]
        )  # fmt: skip
        if note:
            assert one.marks == {
                "created": Watermark(at(9), "t-000009"), "updated": Watermark(1, "u"),
            }  # fmt: skip

    def test_it_goes_back_no_further_than_the_store_does(self) -> None:
        service = FakeService([transfer(n) for n in range(1, 10)])
        one, kept = fetching(service, since=at(5))
        one.look_from_the_other_end("t-000009", kept.append)
        assert asked(service) == [{"created_at.gte": moment(5)}]
        odd, kept = fetching(FakeService([transfer(1, amount="x")]))
        assert odd.look_from_the_other_end("t-000001", kept.append) == [
            "transfers: the list ended early; 1 row came from its other end"
        ]
        assert odd.unread.ids == {"t-000001"}
        ignoring = FakeService([transfer(n) for n in range(9)], honours=set(), largest_page=2)
        one, kept = fetching(ignoring, since=at(5))
        one.look_from_the_other_end("t-000008", kept.append)
        assert len(kept) == 3  # until it shows

    @pytest.mark.parametrize(
        ("strict", "honours", "asks", "left_out", "says"),
        [
            (False, {"updated_at", "ids"}, ["t-000009"], {"t-000009"}, ""),
            (True, {"updated_at"}, ["t-000009"], {"t-000009"}, "transfers: not by ids: "),
            (True, {"ids"}, [], set(), "transfers: not by updated_at: "),
        ],
    )
    def test_a_version_that_was_shown_first_and_did_not_come_is_asked_for(
        self, strict: bool, honours: set[str], asks: list[str], left_out: set[str], says: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        """By its id; what came by its name only is known for that."""

        class Early(FakeService):
            def fetch_page(self, operation: str, params: Any) -> bytes:
                one = dict(params)
                if strict and one["order_by"] == "UPDATED_AT" and "updated_at" not in self.honours:
                    raise ValidationFailed(400, "Bad Request", "no such order")
                body = json.loads(super().fetch_page(operation, params))
                if "ids" not in one and one["order_by"] == "CREATED_AT":
                    body["items"] = [row for row in body["items"] if row["id"] != "t-000009"]
                return json.dumps(body).encode()

        service = Early([transfer(n) for n in (1, 2, 9)], honours=honours, strict=strict)
        one, kept = fetching(service)
        with caplog.at_level(logging.INFO, "fundlab"):
            one.everything(None, kept.append)
        assert one.passed
        assert [params["ids"] for _, params in service.calls if "ids" in params] == asks
        assert one.left_out == left_out
        assert says in caplog.text
        assert ("t-000009" in ids_of(kept)) is (asks != [] and not says)
        mark = Watermark(at(9), "t-000009") if "updated_at" in honours else None
        assert one.marks.get("updated") == mark

    def test_rows_that_the_list_has_again(self) -> None:
        rows = [Gone("transfers", f"t-{n}", 0, answer=a)
                for n, a in enumerate(("gone", "refused", "there", "there"))]  # fmt: skip
        one, _ = fetching(FakeService(), unlisted={row.id: row for row in rows})
        assert one.gone_before == {"t-0", "t-1"}
        one.listed(pa.array(["t-0", "t-2", "t-8"]))
        assert (one.back, one.no_longer_unlisted) == ({"t-0"}, {"t-2"})


class TestOneRun:
    @pytest.mark.parametrize(
        ("table", "first", "given", "question"),
        [
            ("transfers", None, {}, (None, 0)),
            ("transfers", None, {"since": 5}, (5, 0)),
            ("transfers", None, {"full": True}, None),
            ("fiat_accounts", None, {"since": 5}, None),
            ("fiat_accounts", None, {}, None),
            ("transfers", {}, {}, None),
            ("transfers", {}, {"since": 5}, None),
            ("transfers", {"since": 9}, {"since": 5}, (5, 1)),
            ("transfers", {"since": 9}, {"since": 9}, None),
            ("transfers", {"since": 9}, {"since": 5, "full": True}, None),
        ],
    )
    def test_what_a_run_that_dies_leaves_counts_for_the_same_question(
        self, table: str, first: Any, given: dict[str, Any], question: Any, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        """Where it reads all rows from somewhere on, for the first time or further back."""
        service, asked = FakeService([transfer(10)]), list[Any]()

        def dated(given: dict[str, Any]) -> dict[str, Any]:
            return {**given, "since": moment(given["since"])} if "since" in given else given

        class Noted(run.Stage):
            def __init__(self, folder: Path, table: Any, question: Any) -> None:
                asked.append(question)
                super().__init__(folder, table, question)

        if first is not None:
            sync(tmp_path, service, [table], **dated(first))
        monkeypatch.setattr(run, "Stage", Noted)
        sync(tmp_path, service, [table], **dated(given))
        since = None if question is None or question[0] is None else at(question[0])
        assert asked == [
            None if question is None else {
                "since": since, "publication": question[1], "base_url": service.base_url,
                "client_id": service.client_id,
            }
        ]  # fmt: skip

    @staticmethod
    def dies(folder: Path, service: FakeService) -> None:
        """A sync of pages of one row, before the page that follows the second."""

        def die(operation: str, params: dict[str, str]) -> None:
            if moment(5_000) in params.get("page_cursor", ""):
                raise ProtocolError("broken")

        service.hook = die
        with pytest.raises(ProtocolError):
            sync(folder, service)
        service.hook = lambda operation, params: None

    @pytest.mark.parametrize("honours", [{"created_at", "updated_at", "ids"}, set[str]()])
    def test_what_a_run_that_died_had_counts_where_the_rest_can_be_asked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, honours: set[str],
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        """Else all comes again, without a row that is not there any more."""
        rows = [transfer(1), transfer(5_000), transfer(9_000)]
        service = FakeService(rows, honours=honours, strict=True, largest_page=1)
        monkeypatch.setattr(staging, "FLUSH_AFTER_S", -1)
        self.dies(tmp_path, service)
        del rows[0]
        with caplog.at_level(logging.INFO, "fundlab"):
            sync(tmp_path, service)
        said = "transfers: not by created_at, so from the start: "
        assert (said in caplog.text) is not bool(honours)
        kept = ["t-000001"] if honours else []
        assert Store(tmp_path).read("transfers")["id"].tolist() == [*kept, "t-005000", "t-009000"]

    def test_what_a_run_that_died_had_is_asked_for_again_where_changes_cannot_be(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of a service that refuses to list by updates and by ids."""
        rows = [withdrawal(1), transfer(5_000), transfer(9_000)]
        service = FakeService(rows, honours={"created_at"}, strict=True, largest_page=1)
        monkeypatch.setattr(staging, "FLUSH_AFTER_S", -1)
        self.dies(tmp_path, service)
        rows[0] |= {"status": "COMPLETED", "updated_at": moment(9_500)}
        service.largest_page = 1_000
        sync(tmp_path, service)
        assert Store(tmp_path).read("transfers")["status"].tolist() == ["COMPLETED"] * 3

    @pytest.mark.parametrize(
        ("began", "given"), [(None, {}), (5, {"since": moment(2)}), (5, {"full": True})]
    )
    def test_a_list_that_ended_early_is_seen_wherever_all_is_asked_for(
        self, tmp_path: Path, began: int | None, given: dict[str, Any]
    ) -> None:
        """For the first time, further back, or whole."""

        class Early(FakeService):
            def fetch_page(self, operation: str, params: Any) -> bytes:
                body = json.loads(super().fetch_page(operation, params))
                if operation == "list_transfers" and dict(params)["order"] == "ASC":
                    body = {"items": body["items"][:3]}
                return json.dumps(body).encode()

        rows = [transfer(n) for n in range(1, 10)]
        if began is not None:
            sync(tmp_path, FakeService(rows), since=moment(began))
        early = Early(rows, honours={"created_at", "ids"})
        notes = sync(tmp_path, early, **given).notes
        assert any("the list ended early" in note for note in notes)

    def test_a_row_that_is_gone_is_back_however_it_comes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By a sweep, or with an update."""
        monkeypatch.setattr(run, "sweep_windows", lambda first, last, *_: [(first, last + 1)])
        for swept in (True, False):
            service = FakeService([transfer(n) for n in (1, 2, 9_000)], complete=True)
            path, note = tmp_path / str(swept), "transfers: at the service again: t-000001"
            sync(path, service, None)
            row = service.transfers.pop(0)
            assert sync(path, service, None, full=True).gone == (("transfers", "t-000001"),)
            service.transfers.append(row if swept else row | {"updated_at": moment(9_500)})
            later = sync(path, service, None, clock=DAY_NS + LATER + HOUR_NS * swept)
            assert (note in later.notes) is True, swept
            assert [one.answer for one in unlisted_rows(Store(path).records())] == ["gone"]

    @pytest.mark.parametrize(("tables", "after"), [(["transfers"], 1), (None, 0)])
    def test_from_which_publication_on_balances_are_without_what_is_gone(
        self, tmp_path: Path, tables: Any, after: int
    ) -> None:
        """From that of the same sync, or the next one if it read none."""
        service = FakeService([transfer(n) for n in (1, 2)], complete=True)
        sync(tmp_path, service, None)
        service.transfers.pop(0)
        sync(tmp_path, service, tables, full=True)
        (found,) = [one for one in Store(tmp_path).records() if "gone" in one.content]
        assert found.content["observed"] == found.number + after

    def test_of_balances_that_are_reported_no_more_the_last_look_is_named(
        self, tmp_path: Path
    ) -> None:
        """Of all that one profile had."""
        rows = [transfer(1), transfer(2, asset="BTC")]
        service, refused = FakeService(rows), set[str]()

        def refuse(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance" and params["asset"] in refused:
                raise NotFound(404, "Not Found")

        service.hook = refuse
        for more, hours in (("", 1), ("BTC", 2), ("USD", 3)):
            refused |= {more}
            notes = sync(tmp_path, service, None, clock=DAY_NS + hours * HOUR_NS).notes
        assert (
            "balances: BTC, USD of p-1 are no longer reported (the service answers 404); "
            "last seen 2026-03-01T02:00:00.000000000Z"
        ) in notes

    @pytest.mark.parametrize("moving_at", [1, 2])
    def test_a_look_at_a_balance_that_moved_is_a_look(self, tmp_path: Path, moving_at: int) -> None:
        """Whether the latest look is one that was kept or one that was not."""
        service, hour = FakeService([transfer(1)]), 0

        def answer(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance" and hour == 3:
                raise NotFound(404, "Not Found")
            if operation == "get_profile_balance" and hour == moving_at:
                later = moment(100 * hour + len(service.calls))
                service.transfers[0].update(memo=later, updated_at=later)

        service.hook = answer
        for hour in (1, 2, 3):
            done = sync(tmp_path, service, None, clock=DAY_NS + hour * HOUR_NS)
            assert bool(done.unsettled) is (hour == moving_at)
        assert "last seen 2026-03-01T02:00:00.000000000Z" in "".join(done.notes)

    def test_what_the_list_left_out_is_listed_again_once_the_list_has_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a sweep or a pass over all; that it changed says nothing of the list."""
        monkeypatch.setattr(run, "sweep_windows", lambda first, last, *_: [(first, last + 1)])
        for swept in (True, False):
            service, path = FakeService([transfer(n) for n in (1, 9_000)]), tmp_path / str(swept)
            sync(path, service, None)
            row = service.transfers.pop(0)
            sync(path, service, None, full=True)
            service.transfers.append(row | {"updated_at": moment(9_500)})
            for asked, listed in (({}, 0), ({"clock": DAY_NS + LATER + HOUR_NS} if swept
                                            else {"full": True}, 1)):  # fmt: skip
                sync(path, service, None, **asked)
                found = [one.content["listed"] for one in Store(path).records()
                         if "listed" in one.content]  # fmt: skip
                assert found == [{"transfers": [row["id"]]}] * listed, (swept, asked)

    def test_what_cannot_be_read_is_noted_by_its_id_or_key(self, tmp_path: Path) -> None:
        named, nameless = transfer(2, amount="x"), transfer(3, id=7)
        result = sync(tmp_path, FakeService([transfer(1), named, nameless]))
        (note,) = [one for one in result.notes if "set aside" in one]
        (key,) = [row.key for row in result.set_aside if row.id is None]
        assert note.startswith("transfers: set aside, cannot be read: t-000002 (amount: ")
        assert f", {key} (" in note
        named["amount"] = "10.50"
        again = sync(tmp_path, FakeService([transfer(1), named]), full=True)
        assert "transfers: read now, not set aside any more: t-000002" in again.notes

    def test_a_row_that_came_twice_with_other_members_is_noted(self, tmp_path: Path) -> None:
        result = sync(tmp_path, FakeService([transfer(1), transfer(1, memo="other"), transfer(2)]))
        note = "transfers: sent twice in a page, with other members each time: t-000001"
        assert note in result.notes

    def test_the_counts_are_recorded_where_a_pass_brings_others(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Others than the pass before, whichever sync brought the rows."""
        service, looks = FakeService([transfer(1)]), list[Any]()
        count = run.control_of

        def counted(*given: Any) -> Any:
            looks.append(given)
            return count(*given)

        monkeypatch.setattr(run, "control_of", counted)
        for rows, full, counts in (
            (0, True, []), (1, True, [1]), (1, True, [1]), (2, True, [1, 2]),
            (3, False, [1, 2]), (3, True, [1, 2, 3]), (3, True, [1, 2, 3]),
        ):  # fmt: skip
            service.transfers = [transfer(n) for n in range(rows)]
            sync(tmp_path, service, full=full)
            assert len(looks) == len(counts), "what is as it was is not counted again"
            found = [one.content["control"] for one in Store(tmp_path).records()
                     if "control" in one.content]  # fmt: skip
            assert [row[3] for one in found for row in one["transfers"]] == counts

    def test_of_balances_there_are_no_versions(self, tmp_path: Path) -> None:
        done = sync(tmp_path, FakeService([transfer(1)]), None)["balances"]
        assert (done.fetched, done.new, done.changed, done.unchanged, done.pages) == (1, 1, 0, 0, 0)


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

    def test_how_many_rows_came_is_logged_and_how_many_will_is_shown(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bars = list[Any]()

        def expected(bar: Any, total: int | None) -> None:
            bars.append((bar.n, total))

        monkeypatch.setattr(run, "expect", expected)
        with caplog.at_level(logging.INFO, "fundlab"):
            sync(tmp_path, FakeService([transfer(n) for n in range(3)], largest_page=2))
        assert "transfers: 3 rows in " in caplog.text
        assert [n for n, _ in bars] == [0, 2]
        assert all(total is not None and total > 3 for _, total in bars), "until now"

    def test_how_long_it_took(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """To the millisecond."""
        clock = SimpleNamespace(monotonic=iter([5.0, 6.23456]).__next__)
        monkeypatch.setattr(run, "time", clock)
        assert sync(tmp_path, FakeService([transfer(1)]), "transfers").seconds == 1.235


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
    with pytest.raises(InvalidRequest, match="client is a str"):
        Store(tmp_path).sync("https://funding.example")
    assert [one.table for one in sync(tmp_path, FakeService(), "balances").tables] == [
        "transfers", "balances",
    ]  # fmt: skip
