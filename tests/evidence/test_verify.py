"""``Store.verify``: the tables of a store agree with each other, or the break is named."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_service import (
    FakeService,
    forge_manifest,
    moment,
    newest_manifest,
    transfer,
    withdrawal,
)

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import StoreDamaged
from fundlab.evidence import verify as proof
from fundlab.models import ProfileBalance
from fundlab.payments.journal import Journal, identity_of
from fundlab.settings.settings import journal_folder
from fundlab.store import compaction, parts, snapshot
from fundlab.store.parts import Part
from fundlab.store.snapshot import Snapshot


def files(store: Store, table: str) -> list[Path]:
    return sorted((store.path / table).glob("*.parquet"))


class Lying(FakeService):
    """Reports balances that are off by ``lie``."""

    lie = Decimal(0)

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        found = super().get_profile_balance(profile_id, asset)
        return found.model_validate(
            {"asset": asset, "available": f"{found.available + self.lie:f}", "trading": "0"}
        )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


class TestBalances:
    def test_a_moving_service_is_proved_interval_by_interval(self, store: Store) -> None:
        service = FakeService([transfer(1), withdrawal(2, amount="3", total="3")])
        store.sync(service)
        service.transfers[1].update(status="FAILED", updated_at=moment(50))
        service.transfers.append(transfer(60))
        store.sync(service)
        store.compact()
        service.transfers.append(transfer(70, status="PENDING"))
        store.sync(service)
        found = store.verify()
        assert (found.ok, found.intervals) == (True, 3)
        looked, judged = str(found).splitlines()
        assert looked.endswith("3 balance observations compared: no problems")
        assert judged.startswith("Reconciled: 0 breaks. The one balance rebuilt from 4 transfers")

    def test_a_break_is_named_once_with_its_interval(self, store: Store) -> None:
        service = Lying([transfer(1)])
        store.sync(service)
        service.lie = Decimal("0.01")
        store.sync(service)
        store.sync(service)
        (problem,) = store.verify().problems
        assert problem.rule == "balance"
        assert problem.where.startswith("profile p-1, USD, from 2026-")
        assert problem.found == "a change of 0.01"
        assert problem.expected == "a change of 0, as the transfers say"
        assert problem.cause == "a transfer of 0.01 USD is missing here"

    def test_from_the_beginning_only_where_all_transfers_are_known(self, tmp_path: Path) -> None:
        service = FakeService([transfer(1), transfer(5000)])
        whole, partial = Store(tmp_path / "whole"), Store(tmp_path / "partial")
        whole.sync(service)
        partial.sync(service, since=moment(2000))
        partial.sync(service)
        assert whole.verify().intervals == 1
        assert (partial.verify().ok, partial.verify().intervals) == (True, 1)

    def test_a_pending_hold_the_service_does_not_count(self, store: Store) -> None:
        service = Lying([transfer(1), withdrawal(2, amount="3", total="3")])
        service.lie = Decimal(3)
        store.sync(service)
        (problem,) = store.verify().problems
        assert problem.cause == "the service does not hold the pending transfer t-000002"

    def test_a_transfer_learned_of_too_late(self, store: Store) -> None:
        service = Lying([transfer(1)])
        service.lie = Decimal("10.5")
        store.sync(service)
        service.transfers.append(transfer(2))
        store.sync(service, tables=["transfers"])
        (problem,) = store.verify().problems
        assert problem.cause == "transfer t-000002 belongs here, but was learned of only later"
        service.lie = Decimal(0)
        store.sync(service)
        assert store.verify().ok
        assert "1 earlier observation differed, and later ones agree" in str(store.verify())

    def test_a_transfer_the_service_does_not_count(self, store: Store) -> None:
        service = Lying([transfer(1)])
        store.sync(service)
        service.transfers.append(transfer(2, total="7", amount="7"))
        service.lie = Decimal(-7)
        store.sync(service)
        (problem,) = store.verify().problems
        assert problem.cause == "transfer t-000002 is not in the service's balance"


def halves(group: int, kinds: str, statuses: tuple[str, ...]) -> list[dict[str, Any]]:
    """Halves of internal transfers of one group; each of ``kinds`` is ``D``ebit or ``C``redit."""
    names = {"D": "DEBIT", "C": "CREDIT"}
    return [
        transfer(
            10 * group + number, group_id=f"g{group}", status=status, direction=names[kind],
            type=f"INTERNAL_TRANSFER_{names[kind]}",
        )
        for number, (status, kind) in enumerate(zip(statuses, kinds, strict=True), start=1)
    ]  # fmt: skip


class TestFiles:
    """Bytes that are whole, and yet not the store that was written."""

    @pytest.fixture
    def service(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> FakeService:
        monkeypatch.setattr(snapshot, "_PAUSE_S", 0)
        service = FakeService([transfer(1)], events=[{"id": "e", "created_at": moment(1)}])
        store.sync(service)
        return service

    def test_a_newest_file_taken_away(self, store: Store, service: FakeService) -> None:
        service.transfers.append(transfer(2))
        service.events.append({"id": "f", "created_at": moment(2)})
        store.sync(service)
        for table in ("transfers", "events", "balances"):
            lost = files(store, table)[-1]
            content = lost.read_bytes()
            lost.unlink()
            found = store.verify()
            problem = found.problems[0]
            assert (problem.table, problem.where, problem.found) == (table, lost.name, "is missing")
            assert table == "events" or found.intervals == 0  # nothing is proved without them
            lost.write_bytes(content)
        assert store.verify().ok

    def test_manifests_of_an_earlier_day(self, store: Store, service: FakeService) -> None:
        """Only they and the note of the newest are put back: files of later ones are there."""
        kept = {path: path.read_bytes() for path in (store.path / "manifests").iterdir()}
        head = (store.path / "head").read_bytes()
        for number in range(2):
            service.transfers.append(transfer(10 + number))
            store.sync(service)
        shutil.rmtree(store.path / "manifests")
        (store.path / "manifests").mkdir()
        for path, content in kept.items():
            path.write_bytes(content)
        with pytest.raises(StoreDamaged, match=r"manifests/00000003.json: is missing"):
            store.read("transfers")
        assert store.verify().problems[0].where == "00000003.json"
        (store.path / "head").write_bytes(head)
        wheres = [one.where for one in store.verify().problems]
        assert files(store, "transfers")[-1].name in wheres
        assert files(store, "balances")[-1].name in wheres

    def test_the_table_of_another_store(
        self, store: Store, service: FakeService, tmp_path: Path
    ) -> None:
        other = Store(tmp_path / "other")
        other.sync(FakeService([transfer(2)], client_id="client-2"), tables=["transfers"])
        theirs = files(other, "transfers")[0]
        entry = json.loads(newest_manifest(other.path).read_bytes())["manifest"]["files"]
        theirs.rename(store.path / "transfers" / theirs.name)

        def exchanged(content: dict[str, Any]) -> None:
            content["files"]["transfers"] = entry["transfers"]

        forge_manifest(store.path, exchanged)
        (problem,) = [p for p in store.verify().problems if p.rule == "file"]
        assert (problem.table, problem.where) == ("transfers", theirs.name)
        assert "client-1" in problem.expected
        assert "client-2" in problem.found

    def test_a_table_that_cannot_be_read_to_its_end_says_nothing_of_the_others(
        self, store: Store, service: FakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service.transfers += [transfer(2), transfer(3)]
        store.sync(service)
        whole = store.verify()
        original = proof._wrong_pointers

        def failing(snapshot: Snapshot, hashes: Any) -> Any:
            if snapshot.table.name == "events":
                raise OSError("the disk answers no more")
            return original(snapshot, hashes)

        monkeypatch.setattr(proof, "_wrong_pointers", failing)
        found = store.verify()
        (problem,) = found.problems
        assert (problem.table, problem.rule) == ("events", "file")
        assert "answers no more" in problem.found
        assert found.files == whole.files
        assert str(found.judgement) == str(whole.judgement)


class TestMeanwhile:
    """A store that others write to while it is verified is not accused of anything."""

    @pytest.fixture
    def service(self, store: Store) -> FakeService:
        service = FakeService([transfer(1)], events=[{"id": "e", "created_at": moment(1)}])
        store.sync(service)
        service.transfers.append(transfer(2))
        store.sync(service)
        return service

    @pytest.mark.thorough
    @pytest.mark.parametrize("place", ["check_data", "_inspect", "_wrong_pointers", "accounts_of"])
    @pytest.mark.parametrize("what", ["sync", "compact", "pin"])
    def test_nothing_is_wrong(
        self, store: Store, service: FakeService, monkeypatch: pytest.MonkeyPatch,
        place: str, what: str,
    ) -> None:  # fmt: skip
        original, turns = getattr(proof, place), iter([True])
        monkeypatch.setattr(compaction, "GRACE_S", 0)

        def meddling(*given: object) -> object:
            if next(turns, False):
                service.transfers.append(transfer(100, type="WIRE_DEPOSIT"))
                if what != "compact":
                    Store(store.path).sync(service)
                if what == "pin":
                    Store(store.path).pin("now")
                if what == "compact":
                    assert Store(store.path).compact()
                    with Store(store.path).lock():
                        assert len(files(store, "transfers")) == 1
            return original(*given)

        monkeypatch.setattr(proof, place, meddling)
        assert store.verify().problems == ()
        assert next(turns, None) is None

    def test_a_file_that_stays_away_is_missing(
        self, store: Store, service: FakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(snapshot, "_PAUSE_S", 0)
        original, first = proof.check_data, files(store, "transfers")[0]

        def losing(part: Part) -> None:
            if part.path == first:
                first.unlink()
            original(part)

        monkeypatch.setattr(proof, "check_data", losing)
        (problem,) = store.verify().problems
        assert (problem.where, problem.found) == (first.name, "is missing")

    def test_assertions_during_a_sync(
        self, store: Store, service: FakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original, turns = Store.snapshot, iter([True])

        def syncing(self: Store, *given: Any, **named: Any) -> Snapshot:
            found = original(self, *given, **named)
            if self is store and next(turns, False):
                service.transfers.append(transfer(100))
                Store(store.path).sync(service)
            return found

        monkeypatch.setattr(Store, "snapshot", syncing)
        assert store.assertions()["difference"].eq(0).all()
        assert len(store.assertions()) == 3


class TestRows:
    def test_invariants(self, store: Store) -> None:
        debit = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}
        rows = [
            transfer(1),
            transfer(2, fee="0.1"),
            transfer(3, **debit, fee="1"),
            transfer(4, type="WIRE_WITHDRAWAL"),
        ]
        store.sync(FakeService(rows), tables=["transfers"])
        found = {(p.where, p.rule, p.expected, p.found) for p in store.verify().problems}
        assert found >= {
            ("t-000002", "total", "10.4", "10.5"),
            ("t-000003", "total", "11.5", "10.5"),
            ("t-000004", "direction_of_type", "DEBIT", "CREDIT"),
        }
        assert "t-000001" not in {where for where, *_ in found}

    def test_halves_of_an_internal_transfer(self, store: Store) -> None:
        pair = [
            transfer(1, type="INTERNAL_TRANSFER_CREDIT", group_id="g"),
            transfer(2, type="INTERNAL_TRANSFER_DEBIT", direction="DEBIT", group_id="g"),
            transfer(3, type="INTERNAL_TRANSFER_CREDIT", group_id="elsewhere"),
        ]
        store.sync(FakeService(pair), tables=["transfers"])
        assert store.verify().ok
        pair[1].update(amount="9", total="9", updated_at=moment(30))
        store.sync(FakeService(pair), tables=["transfers"])
        (problem,) = store.verify().problems
        assert (problem.rule, problem.where) == ("halves", "t-000001")
        assert problem.expected == "equal amounts in group g"
        assert problem.found == "debit 9 USD, credit 10.5 USD"

    def test_halves_that_contradict_each_other_and_halves_that_do_not(self, store: Store) -> None:
        either, one_of_each = "both completed or both failed", "one debit and one credit"
        contradict = [
            ("DC", ("COMPLETED", "FAILED"), either, "the debit completed, the credit failed"),
            ("DC", ("FAILED", "COMPLETED"), either, "the credit completed, the debit failed"),
            ("DD", ("COMPLETED",) * 2, one_of_each, "2 and 0 that did not fail"),
            ("DCC", ("COMPLETED",) * 3, one_of_each, "1 and 2 that did not fail"),
            ("CCD", ("PENDING",) * 3, one_of_each, "1 and 2 that did not fail"),
        ]
        agree = [
            ("D", ("COMPLETED",)),  # the other one may belong to a profile that is not ours to see
            ("DC", ("COMPLETED", "PENDING")),
            ("DC", ("PENDING", "FAILED")),
            ("DC", ("FAILED", "FAILED")),
            ("DCDC", ("FAILED", "FAILED", "COMPLETED", "COMPLETED")),  # tried again
        ]
        rows = [
            half
            for group, (kinds, statuses, *_) in enumerate([*contradict, *agree])
            for half in halves(group, kinds, statuses)
        ]
        store.sync(FakeService(rows), tables=["transfers"])
        found = {p.where: (p.rule, p.expected, p.found) for p in store.verify().problems}
        assert found == {
            halves(group, kinds, statuses)[0]["id"]: (
                "halves",
                f"{expected} in group g{group}",
                told,
            )
            for group, (kinds, statuses, expected, told) in enumerate(contradict)
        }

    def test_a_value_that_is_not_there_counts_nothing_and_is_named(self, store: Store) -> None:
        names = ["profile_id", "direction", "total", "fee", "status", "type"]
        service = FakeService([transfer(1), *(transfer(2 + n) for n in range(len(names)))])
        store.sync(service)
        service.transfers[1:] = [
            transfer(2 + n, updated_at=moment(60 + n), **{name: None})
            for n, name in enumerate(names)
        ]
        store.sync(service, tables=["transfers"])
        found = {(p.where, p.rule, p.expected) for p in store.verify().problems}
        assert found >= {
            (f"t-{2 + n:06d}", "required", f"a value in {name}") for n, name in enumerate(names)
        }
        assert len(store.assertions()) == 1

    def test_a_time_of_update_that_is_not_set_is_no_problem(self, store: Store) -> None:
        unset = transfer(2, updated_at="0001-01-01T00:00:00Z")
        absent = {name: value for name, value in transfer(3).items() if name != "updated_at"}
        store.sync(FakeService([transfer(1), unset, absent], honours={"created_at", "ids"}))
        assert store.read("transfers")["updated_at"].isna().tolist() == [False, True, True]
        assert store.verify().ok

    def test_balances_beside_a_transfer_without_a_total(self, store: Store) -> None:
        service = FakeService([transfer(1)])
        store.sync(service)
        store.sync(FakeService([transfer(2, total=None)]), tables=["transfers"], full=True)
        store.sync(service)
        assert store.assertions()["difference"].eq(0).all()
        assert [problem.rule for problem in store.verify().problems] == ["required"]

    def test_a_conversion_of_another_shape(self, store: Store) -> None:
        links = [["from_transfer_id"], "to_transfer_id", {"x": "to_transfer_id"}, 5, None]
        rows = [transfer(n, auto_conversion=link) for n, link in enumerate(links)]
        store.sync(FakeService(rows), tables=["transfers"])
        assert store.verify().ok

    def test_a_conversion_beside_a_number_without_end(self, store: Store) -> None:
        class Endless(FakeService):
            def fetch_page(self, *asked: Any) -> bytes:
                return super().fetch_page(*asked).replace(b'"@@"', b"9" * 5_000)

        link = {"from_transfer_id": "t-9", "n": "@@"}
        store.sync(Endless([transfer(1, auto_conversion=link)]), tables=["transfers"])
        (problem,) = store.verify().problems
        assert (problem.rule, problem.found) == ("conversion", "t-9")

    def test_the_ends_of_a_conversion(self, tmp_path: Path) -> None:
        rows = [
            transfer(1, auto_conversion={"from_transfer_id": "t-000001", "to_transfer_id": "t-9"}),
            transfer(2, auto_conversion={}),
            transfer(3, auto_conversion={"from_transfer_id": "t-000003", "rate": 1.5}),
        ]
        whole, partial = Store(tmp_path / "whole"), Store(tmp_path / "partial")
        whole.sync(FakeService(rows), tables=["transfers"])
        (problem,) = whole.verify().problems
        assert (problem.rule, problem.where) == ("conversion", "t-000001")
        assert problem.expected == "a transfer that is there in to_transfer_id"
        assert problem.found == "t-9"
        partial.sync(FakeService(rows), tables=["transfers"], since=moment(0))
        assert partial.verify().ok

    def test_both_ends_of_a_conversion(self, store: Store) -> None:
        links = ({"to_transfer_id": "t-000002"}, {"from_transfer_id": "t-000001"})
        rows = [transfer(n, auto_conversion=link) for n, link in enumerate(links, start=1)]
        store.sync(FakeService(rows), tables=["transfers"])
        assert store.verify().ok


def test_a_verification_says_how_far_it_is(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.sync(FakeService([transfer(1), withdrawal(2, amount="3", total="3")]))
    with caplog.at_level("INFO", logger="fundlab.base.progress"):
        found = store.verify()
    lines = [line for line in caplog.messages if "verifying" in line]
    assert sum(int(re.findall(r": ([\d,]+) rows", line)[0].replace(",", "")) for line in lines) == (
        found.rows
    )


@pytest.mark.parametrize("compacted", [False, True])
def test_rows_are_held_to_their_rules_some_at_a_time_as_all_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, compacted: bool
) -> None:
    half = {"type": "INTERNAL_TRANSFER_CREDIT", "group_id": "g"}
    other = {"type": "INTERNAL_TRANSFER_DEBIT", "direction": "DEBIT", "group_id": "g"}
    service = FakeService([
        transfer(1, amount="7", total="7", **half),
        transfer(2, auto_conversion={"to_transfer_id": "t-000009"}),
        transfer(3, auto_conversion={"to_transfer_id": "t-none"}),
        transfer(4, total="4"), transfer(5), transfer(6, balance_asset="EUR"), transfer(7),
    ])  # fmt: skip
    store.sync(service)
    service.transfers += [transfer(8, **other), transfer(9), transfer(10, total="4")]
    service.transfers[4].update(total="6", updated_at=moment(50))
    store.sync(service)
    service.transfers[4].update(total="3", updated_at=moment(60))
    store.sync(service)
    if compacted:
        store.compact()
    expected = fl.checks.invariants(store.read("transfers"))
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 2)
    found = [
        (p.where, p.rule, p.expected, p.found) for p in store.verify().problems
        if p.table == "transfers"
    ]  # fmt: skip
    assert len(found) >= 5
    assert found == [*expected.itertuples(index=False, name=None)]


def test_the_result_shows_itself(store: Store) -> None:
    store.sync(FakeService([transfer(1, fee="1")]))
    found = store.verify()
    assert found.to_frame()["rule"].tolist() == ["total"]
    assert found.to_json()["ok"] is False
    assert "transfers: total: t-000001: 10.5, not 9.5" in str(found)
    (store.path / "none" / "manifests").mkdir(parents=True)
    assert Store(store.path / "none").verify().ok


def test_the_result_repaints_no_terminal(store: Store) -> None:
    told = transfer(1, fee="1", id="\x1b]0;pwned\x07\x1b[2J\nall is well")
    store.sync(FakeService([told]), tables=["transfers"])
    found = str(store.verify())
    assert len(found.splitlines()) == 3
    assert found.replace("\n", "").isprintable()


class TestAssertions:
    """``Store.assertions``: what was reported beside what the transfers make it."""

    def test_each_observation_beside_the_transfers_known_then(self, store: Store) -> None:
        service = Lying([transfer(1), withdrawal(2, amount="3", total="3")])
        store.sync(service)
        before = store.snapshot("balances").publications[-1].published_at
        service.transfers[1].update(status="FAILED", updated_at=moment(50))
        service.lie = Decimal("0.25")
        store.sync(service)
        store.compact()
        frame = store.assertions()
        assert frame["observed_at"].is_monotonic_increasing
        names = ["profile_id", "asset", "reported", "rebuilt", "difference", "complete"]
        rows = [
            ["p-1", "USD", Decimal("7.5"), Decimal("7.5"), Decimal(0), True],
            ["p-1", "USD", Decimal("10.75"), Decimal("10.5"), Decimal("0.25"), True],
        ]
        assert frame[names].values.tolist() == rows
        earlier = store.assertions(as_of=pd.Timestamp(before, tz="UTC"))
        assert earlier[names].values.tolist() == rows[:1]

    def test_a_store_that_begins_later_says_so(self, store: Store) -> None:
        service = FakeService([transfer(1), transfer(5000)])
        store.sync(service, since=moment(3000))
        (row,) = store.assertions()[["reported", "rebuilt", "complete"]].values.tolist()
        assert row == [Decimal(21), Decimal("10.5"), False]

    def test_nothing_observed_has_the_same_types(self, store: Store) -> None:
        store.sync(FakeService())
        empty = store.assertions()
        store.sync(FakeService([transfer(1)]))
        assert len(empty) == 0
        assert empty.dtypes.equals(store.assertions().dtypes)


class TestJournals:
    """What was confirmed is in the user's journal of the store's service, and checked with it."""

    @pytest.fixture
    def journal(self, store: Store) -> Path:
        client = FakeService([transfer(1)])
        store.sync(client)
        service = {"base_url": client.base_url, "client_id": client.client_id}
        found = Journal(journal_folder() / f"{identity_of(service)[1]}.sqlite", service)
        for number in range(40):
            text = f"{number:03d}" * 60
            entry = found.record(
                f"r-{number}", "CreateWithdrawal", {"text": text}, text.encode(), {"amount": "1"}
            )
            found.note(entry, "done")
        return found.path

    def test_whole_ones_are_nothing_to_speak_of(self, store: Store, journal: Path) -> None:
        assert journal.stat().st_size > 20_000
        assert store.verify().ok

    @pytest.mark.parametrize(
        ("statement", "found"),
        [
            ("UPDATE intents SET body = x'00' WHERE number = 7", "intent 7 .* is not what was"),
            ("DELETE FROM events WHERE intent = 7", "nothing is noted of intent 7"),
            ("DELETE FROM intents WHERE number = 7", "row 13 of events belongs to no intent"),
            ("DELETE FROM about", "does not say whose it is"),
        ],
    )
    def test_what_was_changed_behind_our_back(
        self, store: Store, journal: Path, statement: str, found: str
    ) -> None:
        with closing(sqlite3.connect(journal, isolation_level=None)) as database:
            for trigger in ("intents_stay", "intents_kept", "events_kept"):
                database.execute(f"DROP TRIGGER {trigger}")
            database.execute(statement)
        (problem,) = store.verify().problems
        assert (problem.table, problem.where) == ("journal", journal.name)
        assert re.search(found, problem.found)

    def test_a_file_that_is_none(self, store: Store, journal: Path) -> None:
        for content in (b"", b"SQLite format 3\0 but no more", b"nothing" * 999):
            journal.write_bytes(content)
            (problem,) = store.verify().problems
            assert (problem.rule, problem.where) == ("file", journal.name)

    @pytest.mark.thorough
    def test_pages_overwritten(self, store: Store, journal: Path) -> None:
        whole = journal.read_bytes()
        for page in range(1, len(whole) // 4096, 3):
            broken = whole[: page * 4096] + b"\xff" * 4096 + whole[(page + 1) * 4096 :]
            journal.write_bytes(broken)
            assert not store.verify().ok, page
