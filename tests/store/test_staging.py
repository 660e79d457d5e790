"""Rows on their way in: kept through an interruption, never seen, never trusted when damaged."""

import os
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fake_service import FakeService, moment, transfer, withdrawal
from hypothesis import given
from hypothesis import strategies as st

from fundlab import Store
from fundlab.base.errors import NetworkError, StoreError
from fundlab.store import disk, staging
from fundlab.store.staging import Piece, Stage, merged, missing
from fundlab.tables import TABLES, decode_page

TRANSFERS = TABLES["transfers"]
DAY_NS = 1_772_323_200 * 10**9  # 2026-03-01


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def pages_asked(service: FakeService) -> int:
    """Pages of transfers that hold rows, probes left out."""
    return sum(1 for name, one in service.calls if name == "list_transfers" and one["limit"] != "1")


def staged_files(store: Store) -> list[Path]:
    return sorted((store.path / ".staging" / "transfers").glob("*.arrow"))


def interrupt(store: Store, service: FakeService, page: int, workers: int = 1) -> None:
    """A sync whose connection is lost at that page."""
    asked = 0

    def fail(operation: str, params: dict[str, str]) -> None:
        nonlocal asked
        asked += operation == "list_transfers" and params["limit"] != "1"
        if asked == page:
            raise NetworkError("the connection was lost")

    service.hook = fail
    with pytest.raises(NetworkError):
        store.sync(service, tables=["transfers"], workers=workers)  # type: ignore[arg-type]
    service.hook = lambda operation, params: None
    service.calls.clear()


class TestResuming:
    def service(self, **options: Any) -> FakeService:
        # an hour apart, so that the overlap is no page
        rows = [transfer(n, created_at=moment(n * 60)) for n in range(1000)]
        return FakeService(rows, largest_page=20, **options)

    @pytest.mark.parametrize(("workers", "pages"), [(1, 20), (3, 40)])
    def test_only_what_is_missing_is_asked_for(
        self, store: Store, workers: int, pages: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = self.service()
        interrupt(store, service, 41, workers)
        assert len(store.read("transfers")) == 0
        assert store.verify().ok
        with caplog.at_level("INFO", "fundlab"):
            store.sync(service, tables=["transfers"], workers=workers)  # type: ignore[arg-type]
        assert pages_asked(service) <= pages  # with workers some are on their way
        (said,) = re.findall(r"transfers: ([\d,]+) rows in", caplog.text)
        assert int(said.replace(",", "")) >= 1_000, "what was there already counts, too"
        assert list(store.read("transfers")["id"]) == [f"t-{n:06d}" for n in range(1000)]
        assert not (store.path / ".staging" / "transfers").exists()

    def test_rows_that_somebody_removed_meanwhile_end_the_run_with_a_store_error(
        self, store: Store
    ) -> None:
        service = self.service()
        interrupt(store, service, 41)

        def removed(operation: str, params: dict[str, str]) -> None:
            for path in staged_files(store):
                path.unlink()

        service.hook = removed
        with pytest.raises(StoreError, match=r"removed what this one had fetched"):
            store.sync(service, tables=["transfers"])  # type: ignore[arg-type]
        assert len(store.read("transfers")) == 0

    def test_a_service_that_ignores_the_window_is_read_again(self, store: Store) -> None:
        service = self.service(honours=set())
        interrupt(store, service, 41)
        with pytest.warns(UserWarning, match="created_at_gte"):
            store.sync(service, tables=["transfers"])  # type: ignore[arg-type]
        assert list(store.read("transfers")["id"]) == [f"t-{n:06d}" for n in range(1000)]

    def test_a_service_that_refuses_the_window_is_read_again(self, store: Store) -> None:
        service = self.service(honours=set(), strict=True)
        interrupt(store, service, 41)
        store.sync(service, tables=["transfers"])  # type: ignore[arg-type]
        assert list(store.read("transfers")["id"]) == [f"t-{n:06d}" for n in range(1000)]

    @pytest.mark.parametrize("options", [{}, {"honours": {"created_at"}, "strict": True}])
    def test_what_changed_in_between_is_found(self, store: Store, options: Any) -> None:
        """Also where only asking for everything again shows it."""
        service = self.service(**options)
        service.transfers[5] = withdrawal(5, created_at=moment(300))
        interrupt(store, service, 41)
        service.transfers[5].update(status="COMPLETED", updated_at=moment(70_000))
        service.transfers[6].update(memo="corrected", updated_at=moment(70_001))
        store.sync(service, tables=["transfers"])  # type: ignore[arg-type]
        frame = store.read("transfers").set_index("id")
        assert frame.loc["t-000005", "status"] == "COMPLETED"
        assert frame.loc["t-000006", "memo"] == "corrected"

    def test_rows_that_appear_behind_the_point_of_interruption(self, store: Store) -> None:
        service = self.service()
        interrupt(store, service, 41)
        service.transfers.append(transfer(5000, created_at=moment(799 * 60 - 600)))
        store.sync(service, tables=["transfers"])  # type: ignore[arg-type]
        assert "t-005000" in set(store.read("transfers")["id"])

    def test_another_question_starts_anew(self, store: Store) -> None:
        service = self.service()
        interrupt(store, service, 41)
        store.sync(service, tables=["transfers"], since=moment(500 * 60))  # type: ignore[arg-type]
        assert len(store.read("transfers")) == 500

    def test_full_trusts_nothing_but_the_service(self, store: Store) -> None:
        service = self.service()
        interrupt(store, service, 41)
        store.sync(service, tables=["transfers"], full=True)  # type: ignore[arg-type]
        assert pages_asked(service) == 50

    @pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
    def test_a_damaged_file_is_fetched_again(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, damage: str
    ) -> None:
        monkeypatch.setattr(staging, "FILE_ROWS", 100)
        service = self.service()
        interrupt(store, service, 41)
        path = staged_files(store)[3]
        content = bytearray(path.read_bytes())
        if damage == "flipped":
            content[len(content) // 2] ^= 1
        path.write_bytes(content[:-1] if damage == "cut" else content)
        if damage == "gone":
            path.unlink()
        store.sync(service, tables=["transfers"])  # type: ignore[arg-type]
        assert list(store.read("transfers")["id"]) == [f"t-{n:06d}" for n in range(1000)]

    def test_a_run_that_only_held_a_few_pages_leaves_them_too(self, store: Store) -> None:
        interrupt(store, self.service(), 3)
        assert sum(file.rows for file in Stage(
            store.path / ".staging" / "transfers", TRANSFERS,
            {"since": None, "publication": 0, "base_url": "http://127.0.0.1:1",
             "client_id": "client-1"},
        ).pieces) == 40  # fmt: skip


class TestStage:
    def rows(self, *numbers: int) -> pa.Table:
        body = b",".join(
            b'{"id":"t-%d","created_at":"2026-03-01T00:00:%02dZ"}' % (n, n) for n in numbers
        )
        return decode_page("transfers", b'{"items":[' + body + b"]}").rows

    def test_time_alone_brings_pages_down(self, tmp_path: Path) -> None:
        """Those of all walks, once a second has passed since it was done last."""
        now = [0.0]
        stage = Stage(tmp_path / "s", TRANSFERS, {}, clock=lambda: now[0])
        for number, (moment_s, in_memory) in enumerate(
            [(0.5, 1), (1.0, 2), (1.1, 0), (2.1, 1), (2.2, 0)]
        ):
            now[0] = moment_s
            stage.add(self.rows(number), walk=number, covered=(number, number + 1))
            assert sum(piece.path is None for piece in stage.pieces) == in_memory
        assert [piece.rows for piece in stage.pieces if piece.path] == [1] * 5
        assert Stage(tmp_path / "s", TRANSFERS, {}).covered == [(0, 5)]

    def test_so_do_enough_rows_and_a_flush(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(staging, "FILE_ROWS", 3)
        write_new = disk.write_new

        def slowly(*given: Any) -> None:
            time.sleep(0.02)
            write_new(*given)

        monkeypatch.setattr(disk, "write_new", slowly)
        stage = Stage(tmp_path / "s", TRANSFERS)
        for numbers, on_disk in (((5, 6), []), ((4,), [3]), ((2,), [3]), ((9, 8, 7), [3, 4])):
            stage.add(self.rows(*numbers))
            assert [piece.rows for piece in stage.pieces if piece.path] == on_disk
        stage.add(self.rows(1))
        stage.add(self.rows(), walk=1)
        stage.flush()
        assert len(list((tmp_path / "s").iterdir())) == 3
        assert [piece.rows for piece in stage.pieces] == [3, 4, 1]
        assert [(piece.first - DAY_NS) / 10**9 for piece in stage.pieces] == [4, 2, 1]
        ids = [rows.column("id").to_pylist() for rows in stage.read(["id"])]
        assert ids == [["t-5", "t-6", "t-4"], ["t-2", "t-9", "t-8", "t-7"], ["t-1"]]
        assert [rows.schema.names for rows in stage.read(["status", "id"])] == [
            ["status", "id"]
        ] * 3

    @pytest.mark.parametrize(
        ("question", "damaged", "kept", "covered"),
        [
            ({"a": 1}, None, 3, [(1, 4), (5, None)]),
            ({"a": 1}, 2, 2, [(1, 4)]),
            ({"a": 1}, 0, 0, []),
            ({"a": 2}, None, 0, []),
            (None, None, 0, []),
        ],
    )
    def test_what_a_run_before_left_counts_as_far_as_it_is_intact(
        self, tmp_path: Path, question: Any, damaged: int | None, kept: int, covered: list[Any]
    ) -> None:
        before = Stage(tmp_path / "s", TRANSFERS, {"a": 1})
        before.note = {"asked": "often"}
        for number, span in ((3, (1, 2)), (2, (2, 4)), (1, (5, None))):
            before.add(self.rows(number), covered=span)
            before.flush()
        paths = [piece.path for piece in before.pieces if piece.path]
        if damaged is not None:
            paths[damaged].write_bytes(paths[damaged].read_bytes()[:-1])
        (tmp_path / "s" / "notes.txt").touch()
        after = Stage(tmp_path / "s", TRANSFERS, question)
        assert [(piece.path, piece.rows) for piece in after.pieces] == [
            (p, 1) for p in paths[:kept]
        ]
        assert [(one.first - DAY_NS) / 10**9 for one in after.pieces] == [3, 2, 1][:kept]
        assert (after.covered, after.note) == (covered, {"asked": "often"} if kept else {})
        assert {*(tmp_path / "s").iterdir()} == {*paths[:kept], tmp_path / "s" / "notes.txt"}
        after.add(self.rows(9))
        after.flush()
        assert [int(one.path.name[:8]) for one in after.pieces if one.path] == [*range(1, kept + 2)]
        after.add(self.rows(7))  # not on the disk yet
        after.discard()
        assert (after.pieces, after.covered) == ([], [])
        assert [path.name for path in (tmp_path / "s").iterdir()] == ["notes.txt"]
        (tmp_path / "s" / "notes.txt").unlink()
        after.discard()
        assert not (tmp_path / "s").exists()

    def test_a_row_without_a_moment_comes_first(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path / "s", TRANSFERS)
        undated = self.rows(5)
        place = undated.schema.get_field_index("created_at")
        field = undated.schema.field(place)
        stage.add(undated.set_column(place, field, pa.nulls(1, field.type)))
        assert [piece.first for piece in stage.pieces] == [-(2**63)]
        assert Piece(TRANSFERS).first == 2**63 - 1

    def test_what_kept_a_file_from_the_disk_is_raised(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*given: Any) -> None:
            raise StoreError("no space")

        monkeypatch.setattr(disk, "write_new", full)

        def send_more(stage: Stage) -> None:
            stage.add(self.rows(2))
            stage._send(0)

        for ask in (Stage.flush, Stage.discard, lambda stage: stage.pieces, send_more):
            stage = Stage(tmp_path / "s", TRANSFERS)
            stage.add(self.rows(1))
            stage._send(0)
            with pytest.raises(StoreError, match="no space"):
                ask(stage)

    def test_the_newest_version_of_a_row(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path / "s", TRANSFERS)
        stage.add(self.rows(1, 2))
        stage.flush()
        stage.add(self.rows(2, 3))
        found = stage.versions(pa.array(["t-2", "t-3", "t-9"]))
        assert sorted(found.column("id").to_pylist()) == ["t-2", "t-3"]
        assert found.schema.names == TRANSFERS.schema.names

    def test_bytes_first_then_the_name_then_the_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "s").mkdir()
        (tmp_path / "s" / "other").touch()  # an empty folder may be new, and is synced, too
        done: list[str] = []
        sync, rename = os.fsync, Path.rename

        def synced(handle: int) -> None:
            done.append("folder" if Path(f"/proc/self/fd/{handle}").is_dir() else "file")
            sync(handle)

        def renamed(path: Path, target: Path) -> Path:
            done.append("rename")
            return rename(path, target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "rename", renamed)
        with disk.new_file(tmp_path / "s" / ".a") as file:
            file.write(b"x")
        disk.publish(tmp_path / "s" / ".a", tmp_path / "s" / "a")
        assert done == ["file", "rename", "folder"]

    def test_a_full_disk_says_so_and_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(handle: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with (
            pytest.raises(StoreError, match="cannot be written: No space left on device"),
            disk.new_file(tmp_path / ".a") as file,
        ):
            file.write(b"x")
        assert list(tmp_path.iterdir()) == []


spans = st.lists(
    st.tuples(st.none() | st.integers(0, 30), st.none() | st.integers(0, 30)).filter(
        lambda span: None in span or span[0] < span[1]  # type: ignore[operator]
    ),
    max_size=6,
)


def points(span: tuple[int | None, int | None]) -> set[int]:
    """The moments from -40 to 40 inside."""
    low, high = span
    return {n for n in range(-40, 41) if (low is None or n >= low) and (high is None or n < high)}


@pytest.mark.parametrize(
    ("covered", "together"),
    [
        ([], []),
        ([(1, 2), (2, 3)], [(1, 3)]),
        ([(3, 4), (1, 2)], [(1, 2), (3, 4)]),
        ([(2, 3), (1, 5)], [(1, 5)]),
        ([(1, 5), (None, 2)], [(None, 5)]),
        ([(3, None), (1, 3)], [(1, None)]),
        ([(1, None), (2, 3)], [(1, None)]),
        ([(0, 1), (None, 0)], [(None, 1)]),
        ([(-1, 0), (0, 1)], [(-1, 1)]),
    ],
)
def test_what_touches_is_joined(covered: list[Any], together: list[Any]) -> None:
    assert merged(covered) == together


def test_a_stretch_that_begins_with_1970_comes_before_later_ones() -> None:
    assert merged([(1, 2), (0, 5)]) == [(0, 5)]


@pytest.mark.parametrize(
    ("covered", "asked", "overlap", "gaps"),
    [
        ([], (1, 9), 2, [(1, 9)]),
        ([(1, 5)], (1, 9), 2, [(3, 9)]),
        ([(4, 5)], (1, 9), 2, [(1, 4), (4, 9)]),
        ([(1, 9)], (1, 9), 2, []),
        ([(1, 8)], (1, 9), 0, [(8, 9)]),
        ([(None, 5)], (None, None), 1, [(4, None)]),
        ([(2, None)], (None, None), 1, [(None, 2)]),
        ([(2, None)], (2, None), 1, []),
        ([(1, 3), (5, 7)], (1, None), 0, [(3, 5), (7, None)]),
    ],
)
def test_what_is_missing_is_asked_for(
    covered: list[Any], asked: Any, overlap: int, gaps: list[Any]
) -> None:
    assert missing(covered, asked, overlap) == gaps


@given(covered=spans, begin=st.none() | st.integers(0, 30), overlap=st.integers(0, 5))
def test_what_is_missing_and_what_is_covered_make_the_whole(
    covered: list[tuple[int | None, int | None]], begin: int | None, overlap: int
) -> None:
    together = merged(covered)
    there = set().union(*map(points, covered))
    assert set().union(*map(points, together)) == there
    gaps = missing(together, (begin, None), overlap)
    asked = set().union(*map(points, gaps))
    assert points((begin, None)) <= there | asked
    ends = {end for _, end in together if end is not None}
    for n in asked & there:  # only just before a gap
        assert any(end - overlap <= n < end for end in ends)
