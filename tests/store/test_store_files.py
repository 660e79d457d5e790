"""What is published of a store's files: when, by whom, what is refused before, what goes away."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from fake_service import FakeService, transfer

from fundlab import Store
from fundlab.base.errors import InvalidRequest, StoreDamaged, StoreError, StoreLocked
from fundlab.store import manifests
from fundlab.store.manifests import (
    File,
    Manifest,
    load_manifest,
    read_manifest,
    restore_manifest,
    settle_head,
    store_around,
    write_head,
    write_manifest,
)
from fundlab.store.records import Record
from fundlab.store.runs import write_run
from fundlab.store.store_files import StoreFiles, texts

NOW = 1_800_000_000 * 10**9
DAY_NS = 86_400 * 10**9
TRANSFERS, EVENTS = ["transfers"], ["events"]


def synced(path: Path, *numbers: int, at: int = NOW, tables: list[str] = TRANSFERS) -> StoreFiles:
    events = [{"id": f"e-{n}", "created_at": "2026-03-01T00:00:00Z"} for n in numbers]
    service: Any = FakeService([transfer(n) for n in numbers], events=events)
    Store(path, clock=lambda: at).sync(service, tables, full=True)
    return at_time(path, at)


def at_time(path: Path, at: int, **options: Any) -> StoreFiles:
    return StoreFiles(path, clock=lambda: at, **options)


def nothing() -> None:
    """A lock that is still held."""


def lost() -> None:
    raise StoreLocked("the lock was taken away")


class TestTheTimeOfAPublication:
    def test_is_after_the_last_and_no_more_than_a_day(self, tmp_path: Path) -> None:
        files = at_time(tmp_path, NOW)
        with files.lock():
            assert files.now() == NOW
        synced(tmp_path, 1)
        first = read_manifest(tmp_path).files["transfers"][-1].name
        synced(tmp_path, 2, at=NOW + 10, tables=EVENTS)
        second = read_manifest(tmp_path).files["events"][-1].name
        for ahead, expected in (
            (-DAY_NS + 10, NOW + 11), (9, NOW + 11), (10, NOW + 11), (11, NOW + 11),
            (12, NOW + 12), (DAY_NS, NOW + DAY_NS),
        ):  # fmt: skip
            assert at_time(tmp_path, NOW + ahead).now() == expected
        for ahead, named in ((9, {second}), (0, {second}), (-1, {first, second})):
            with pytest.raises(StoreError, match="set the clock right") as caught:
                at_time(tmp_path, NOW - DAY_NS + ahead).now()
            assert {name for name in (first, second) if name in str(caught.value)} == named

    def test_a_time_before_all_that_is_known_is_refused(self, tmp_path: Path) -> None:
        synced(tmp_path, 1)
        files = synced(tmp_path, 1, at=NOW + 10, tables=EVENTS)
        for at, known in ((9, 0), (10, 1)):
            moment = f"2027-01-15T08:00:00.{at:09d}Z"
            assert files.snapshot("events", as_of=moment).count == known
            assert files.snapshot("transfers", as_of=moment).count == 1
        assert files.snapshot("events", as_of="2027-01-15T08:00:00Z").count == 0
        before = "2027-01-15T07:59:59.999999999Z"
        for table in ("events", "transfers", "balances"):
            with pytest.raises(InvalidRequest, match=r"before 2027-01-15T08:00:00\.0+Z"):
                files.snapshot(table, as_of=before)

    def test_each_record_is_later_than_the_one_before(self, tmp_path: Path) -> None:
        files = synced(tmp_path, 1)
        for at in (5, 5, 4, 7):
            with files.lock() as held:
                (made,) = files.commit(held, NOW + at, {}, [("annotate", {"text": str(at)})])
            assert made == files.records()[-1]
        times = [record.at for record in files.records()[1:]]
        assert times == [f"2027-01-15T08:00:00.{at:09d}Z" for at in (5, 6, 7, 8)]
        for as_of, count in (("000000006Z", 3), ("000000005Z", 2), ("000000004Z", 1)):
            assert len(files.records(as_of=f"2027-01-15T08:00:00.{as_of}")) == count
        with files.lock() as held:
            files.record("pin", {"pin": "a"}, held)
            files.record("annotate", {"text": "later"}, held)
        assert [one.kind for one in files.records(pin="a")] == [
            "pass",
            *["annotate"] * 4,
            "pin",
        ]


class TestPins:
    @pytest.mark.parametrize(
        ("table", "lost_from", "pinned", "is_lost"),
        [
            ("transfers", 2, 3, True),
            ("transfers", 3, 3, True),
            ("transfers", 4, 3, False),
            ("transfers", 2, 5, False),
            ("transfers", 2, 4, True),
            ("events", 2, 3, False),
            ("transfers", None, 3, False),
        ],
    )
    def test_what_a_repair_found_lost_is_not_shown(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        table: str, lost_from: int | None, pinned: int, is_lost: bool,
    ) -> None:  # fmt: skip
        """A repair of publication 5 says from which on a table is lost."""
        files = synced(tmp_path, 1)
        at = "2027-01-15T08:00:00Z"
        gone = {} if lost_from is None else {table: lost_from}
        records = [
            Record(1, "annotate", at, "", {"tables": {"transfers": 0}}, ""),
            Record(pinned, "pin", at, "", {"pin": "a"}, ""),
            Record(5, "repair", at, "", {"tables": gone}, ""),
        ]
        monkeypatch.setattr(files, "records", lambda manifest: records)
        if is_lost:
            for kind, advice in (("pin", ", or pin again"), ("close", "")):
                records[1] = Record(pinned, kind, at, "", {"pin": "a"}, "")
                with pytest.raises(StoreDamaged) as lost:
                    files.snapshot("transfers", pin="a")
                assert str(lost.value).endswith(
                    "that the pin 'a' names was lost before the repair of 2027-01-15T08:00:00Z: "
                    f"restore it from a backup{advice}"
                )
        else:
            assert files.snapshot("transfers", pin="a").count == 1

    def test_none_is_made_without_the_lock(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = synced(tmp_path, 1)
        before = read_manifest(tmp_path)
        for work in (
            lambda: files.commit(lost, NOW, {}, [("annotate", {})]),
            lambda: files.record("annotate", {}, lost),
            lambda: files.merge("transfers", lost),
        ):
            with pytest.raises(StoreLocked, match="taken away"):
                work()
        assert read_manifest(tmp_path) == before
        assert list(tmp_path.rglob(".*.tmp")) == []
        assert files.pins() == {}


class TestItems:
    @pytest.mark.parametrize(
        ("item", "there"),
        [("t-000001", True), ("T-000001", True), ("e-1", True), ("t-9", False), ("", False),
         ("bank-" + "0a" * 10, True), ("bank-" + "0a" * 9 + "0", False),
         ("bank-" + "0A" * 10, False), ("bank-" + "0a" * 10 + "0", False)],
    )  # fmt: skip
    def test_what_can_be_annotated(self, tmp_path: Path, item: str, there: bool) -> None:
        files = synced(tmp_path, 1, tables=[*TRANSFERS, *EVENTS])
        if there:
            assert files.item(item) == item.replace("T-", "t-")  # as it is written there
        else:
            with pytest.raises(InvalidRequest, match=f"item_id={item!r} is not in"):
                files.item(item)

    def test_a_text_or_several(self) -> None:
        for given, found in (
            ("a", ["a"]),
            (["a", "b"], ["a", "b"]),
            ([], []),
            (iter("ab"), ["a", "b"]),
        ):
            assert texts(given, "x") == found  # type: ignore[arg-type]
        for wrong in (5, None, ["a", 5]):
            with pytest.raises(InvalidRequest, match=r"x=.*: give a text or a list of texts"):
                texts(wrong, "x")  # type: ignore[arg-type]


class TestRuns:
    def test_what_ended_is_noted(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        files = at_time(tmp_path, NOW)
        files.note_run("verify", {"ok": True})
        at_time(tmp_path, NOW, read_only=True).note_run("verify", {"ok": False})
        assert files.runs() == {"verify": {"at": "2027-01-15T08:00:00.000000000Z", "ok": True}}
        noted = tmp_path / "runs" / "verify.json"
        whole = noted.read_bytes()
        for changed in (b"{", b"[]", b"{}", whole.replace(b"true", b"false"), b"null"):
            noted.write_bytes(changed)
            with pytest.raises(StoreDamaged, match=r"verify\.json: is not what was written"):
                files.runs()
        (tmp_path / "file").touch()
        with caplog.at_level(logging.WARNING, "fundlab"):
            write_run(tmp_path / "file", "sync", "", {})
        assert "this sync is not noted for 'fundlab status'" in caplog.text


class TestLock:
    def test_what_a_run_that_died_left_is_settled(self, tmp_path: Path) -> None:
        files = synced(tmp_path, 1)
        write_head(tmp_path, Manifest(0, hash="x"))
        left = [
            tmp_path / "transfers" / ".part-x.tmp",
            tmp_path / "records" / ".x.tmp",
            tmp_path / "manifests" / ".x.tmp",
            tmp_path / "runs" / f".sync.json.{'0a' * 16}.tmp",
            tmp_path / "transfers" / "part-00000001-0123456789abcdef.parquet",
        ]
        for path in left:
            path.parent.mkdir(exist_ok=True)
            path.touch()
            os.utime(path, (0, 0))
        for path in (tmp_path / "transfers").iterdir():
            os.utime(path, (0, 0))
        with files.lock():
            newest = read_manifest(tmp_path)
            assert manifests.read_head(tmp_path) == (newest.number, newest.hash)
        assert [path.name for path in left if path.exists()] == []

    def test_another_machine_that_publishes_is_told_from_a_lock_that_is_held(
        self, tmp_path: Path
    ) -> None:
        files = synced(tmp_path, 1)
        with files.lock() as held:
            held()
            before = files.manifest()
            write_manifest(tmp_path, before, NOW, before.service, before.files, "")
            with pytest.raises(StoreLocked, match="another run, on another machine or of another"):
                held()
        with files.lock() as held:
            held()

    def test_not_of_what_was_opened_to_be_read(self, tmp_path: Path) -> None:
        synced(tmp_path, 1)
        files = at_time(tmp_path, NOW, read_only=True)
        with pytest.raises(StoreError, match="was opened read-only; copy the folder"), files.lock():
            pass
        assert repr(files) == f"Store({str(tmp_path)!r})"

    def test_whose_store_it_is(self, tmp_path: Path) -> None:
        files = at_time(tmp_path, NOW)
        assert files.service() is None
        with files.lock() as held:
            files.commit(held, NOW, {}, [("annotate", {})], service={"client_id": "a"})
        assert files.service() is None
        assert files.manifest().service == {"client_id": "a"}
        synced(tmp_path / "other", 1)
        assert at_time(tmp_path / "other", NOW).service() == {
            "base_url": "http://127.0.0.1:1", "client_id": "client-1",
        }  # fmt: skip


class TestManifests:
    def test_only_the_last_two_are_kept(self, tmp_path: Path) -> None:
        made = [Manifest()]
        for number in range(1, 5):
            files = {"transfers": [File("a", number, "b")], "events": []}
            made.append(write_manifest(tmp_path, made[-1], NOW, {"x": "y"}, files, "r"))
            kept = sorted(path.name for path in (tmp_path / "manifests").iterdir())
            assert kept == [f"{n:08d}.json" for n in (number - 1, number) if n]
            assert read_manifest(tmp_path) == made[-1]
            assert manifests.is_newest(tmp_path, made[-1])
            assert not manifests.is_newest(tmp_path, made[-2])
        newest = made[-1]
        assert (newest.number, newest.at, newest.previous) == (4, NOW, made[-2].hash)
        assert newest.files == {"transfers": (File("a", 4, "b"),)}
        assert (newest.record, newest.service, newest.run) == ("r", {"x": "y"}, "")

    @pytest.mark.parametrize(
        ("head", "present", "problem"),
        [
            ((0, ""), [], None),
            (None, [], None),
            (None, [1], None),
            (None, [2], "head: is missing, and 2 manifests were published"),
            ((1, "of 1"), [1], None),
            ((1, "of 1"), [1, 2], None),
            ((1, "other"), [1, 2], "00000002.json: is not the one that was published"),
            ((2, "of 2"), [1, 2], None),
            ((2, "other"), [1, 2], "00000002.json: is not the one that was published"),
            ((3, "of 3"), [1, 2], "00000003.json: is missing: it was the newest"),
            ((1, "of 1"), [2, 3], "head: names manifest 1, and the newest is 3"),
            ((2, "of 2"), [2, 4], "head: names manifest 2, and the newest is 4"),
            ("{", [1], "head: is not what was written"),
            ("[1]", [1], "head: is not what was written"),
            ("5", [1], "head: is not what was written"),
        ],
    )
    def test_the_head_is_the_newest_or_the_one_before(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        head: Any, present: list[int], problem: str | None,
    ) -> None:  # fmt: skip
        monkeypatch.setattr(manifests, "_PAUSE_S", 0)
        made, hashes = Manifest(), {0: ""}
        written: dict[int, bytes] = {}
        for number in range(1, 5):
            made = write_manifest(tmp_path, made, NOW, {}, {}, "")
            hashes[number], written[number] = made.hash, made.to_bytes()
        for path in (tmp_path / "manifests").iterdir():
            path.unlink()
        for number in present:
            (tmp_path / "manifests" / f"{number:08d}.json").write_bytes(written[number])
        (tmp_path / "manifests" / "notes.json").touch()
        if head is None:
            (tmp_path / "head").unlink()
        elif isinstance(head, str):
            (tmp_path / "head").write_text(head)
        else:
            number, text = head
            digest = hashes[number] if text.startswith("of") else text
            (tmp_path / "head").write_text(json.dumps([number, digest]))
        if problem is None:
            assert read_manifest(tmp_path).number == max(present, default=0)
        else:
            with pytest.raises(StoreDamaged, match=problem):
                read_manifest(tmp_path)

    def test_what_is_published_while_it_is_read_is_read_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fifty times, with a pause between."""
        made = [write_manifest(tmp_path, Manifest(), NOW, {}, {}, "")]
        looks, pauses, load = [0], [0.0], manifests.load_manifest
        monkeypatch.setattr(manifests.time, "sleep", pauses.append)

        def late(store: Path, number: int) -> Manifest:
            looks[0] += 1
            if looks[0] <= last:
                for _ in range(2):
                    made.append(write_manifest(tmp_path, made[-1], NOW, {}, {}, ""))
            return load(store, number)

        monkeypatch.setattr(manifests, "load_manifest", late)
        for times in (1, 49):
            looks[0], last = 0, times
            assert read_manifest(tmp_path) == made[-1]
        looks[0], last = 0, 50
        with pytest.raises(StoreDamaged, match="the store changes too fast to be read"):
            read_manifest(tmp_path)
        assert len(pauses) == 1 + 1 + 49 + 50

    def test_a_head_that_is_behind_is_made_up_for(self, tmp_path: Path) -> None:
        settle_head(tmp_path, Manifest())
        assert not (tmp_path / "head").exists()
        made = write_manifest(tmp_path, Manifest(), NOW, {}, {}, "")
        for head in ('[0,""]', '[1,"x"]'):
            (tmp_path / "head").write_text(head)
            settle_head(tmp_path, made)
            assert json.loads((tmp_path / "head").read_text()) == [1, made.hash]
        head = (tmp_path / "head").stat().st_ino
        settle_head(tmp_path, made)
        assert (tmp_path / "head").stat().st_ino == head

    def test_one_of_a_store_without_a_publication_is_none(self, tmp_path: Path) -> None:
        restore_manifest(tmp_path, Manifest().to_bytes())
        assert list(tmp_path.iterdir()) == []

    def test_the_store_around_a_place(self, tmp_path: Path) -> None:
        write_manifest(tmp_path / "a", Manifest(), NOW, {}, {}, "")
        for place, store in (("a", "a"), ("a/b/c", "a"), ("", None), ("ab", None)):
            found = store_around(tmp_path / place)
            assert found == (None if store is None else tmp_path / store)

    @pytest.mark.parametrize("change", ["number", "sha256", "manifest", "files"])
    def test_one_that_was_changed(self, tmp_path: Path, change: str) -> None:
        write_manifest(tmp_path, Manifest(), NOW, {}, {}, "")
        path = tmp_path / "manifests" / "00000001.json"
        content = json.loads(path.read_bytes())
        if change == "number":
            content["manifest"]["number"] = 2
        else:
            content.pop(change, None) if change != "files" else content["manifest"].pop(change)
        path.write_text(json.dumps(content))
        with pytest.raises(StoreDamaged, match="is not what was written"):
            load_manifest(tmp_path, 1)
