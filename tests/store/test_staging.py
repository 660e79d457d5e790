"""Rows on their way in: kept through an interruption, never seen, never trusted when damaged."""

import os
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
from fundlab.store.staging import Stage, merged, missing
from fundlab.tables import TABLES, decode_page

TRANSFERS = TABLES["transfers"]


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
        self, store: Store, workers: int, pages: int
    ) -> None:
        service = self.service()
        interrupt(store, service, 41, workers)
        assert len(store.read("transfers")) == 0
        assert store.verify().ok
        store.sync(service, tables=["transfers"], workers=workers)  # type: ignore[arg-type]
        assert pages_asked(service) <= pages  # with workers some are on their way
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

    def test_what_changed_in_between_is_found(self, store: Store) -> None:
        service = self.service()
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
        now = [0.0]
        stage = Stage(tmp_path / "s", TRANSFERS, {}, clock=lambda: now[0])
        stage.add(self.rows(1), covered=(None, 1))
        assert [piece.path for piece in stage.pieces] == [None]
        now[0] = staging.FLUSH_AFTER_S + 0.1
        stage.add(self.rows(2), covered=(1, 2))
        assert [piece.rows for piece in stage.pieces if piece.path] == [2]
        assert Stage(tmp_path / "s", TRANSFERS, {}).covered == [(None, 2)]

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
