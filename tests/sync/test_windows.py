"""Several workers, one list: the same rows as one worker reads, however they lie in time."""

import threading
import time
from typing import Any

import pytest
from fake_service import FakeService, moment, transfer
from hypothesis import given, settings
from hypothesis import strategies as st

from fundlab.base.errors import DataError, NetworkError
from fundlab.sync.loaders import load_events, load_transfers
from fundlab.sync.windows import Board, Window


def service_of(seconds: list[int], largest_page: int = 100, **options: Any) -> FakeService:
    records = [transfer(n, created_at=moment(at)) for n, at in enumerate(seconds)]
    return FakeService(records, largest_page=largest_page, **options)


class TestSameRows:
    @pytest.mark.parametrize(
        "workers", [3, *(pytest.param(count, marks=pytest.mark.thorough) for count in (2, 8))]
    )
    @pytest.mark.parametrize(
        "seconds",
        [
            [],
            [5],
            [5, 6],
            list(range(2000)),
            [7] * 2500,
            [1, *[40_000] * 1500, *range(40_001, 40_900), 80_000],
        ],
        ids=["none", "one", "two", "even", "one moment", "dense in the middle"],
    )
    def test_as_one_worker(self, workers: int, seconds: list[int]) -> None:
        alone = load_transfers(service_of(seconds))
        assert len(alone) == len(seconds)
        assert load_transfers(service_of(seconds), workers=workers).equals(alone)

    def test_within_since_and_until(self) -> None:
        seconds = list(range(1000))
        window = {"since": moment(300), "until": moment(700)}
        found = load_transfers(service_of(seconds, 10), workers=4, **window)
        assert found.equals(load_transfers(service_of(seconds, 10), **window))
        assert len(found) == 400

    def test_turned_round(self) -> None:
        found = load_transfers(service_of(list(range(500))), workers=3, order="DESC")
        assert found["id"].tolist() == [f"t-{n:06d}" for n in range(499, -1, -1)]

    @settings(max_examples=25, deadline=None)
    @given(
        seconds=st.lists(st.integers(0, 60) | st.integers(0, 80_000), max_size=120),
        workers=st.integers(2, 5),
        largest_page=st.integers(1, 7),
    )
    def test_whatever_the_distribution(
        self, seconds: list[int], workers: int, largest_page: int
    ) -> None:
        found = load_transfers(service_of(seconds, largest_page), workers=workers)
        assert sorted(found["id"]) == [f"t-{n:06d}" for n in range(len(seconds))]

    def test_while_rows_are_inserted(self) -> None:
        service = service_of(list(range(0, 3000, 2)), 50)
        lock = threading.Lock()
        numbers = iter(range(3000, 3100))

        def insert(operation: str, params: dict[str, str]) -> None:
            with lock:
                number = next(numbers, None)
                if number is not None:
                    service.transfers.append(transfer(number, created_at=moment(number)))

        service.hook = insert
        found = set(load_transfers(service, workers=4)["id"])
        assert {f"t-{n:06d}" for n in range(1500)} <= found


class TestSideBySide:
    def test_the_work_is_shared_out(self) -> None:
        service = service_of(list(range(4000)), 50)
        lock, inside, most = threading.Lock(), 0, 0

        def count(operation: str, params: dict[str, str]) -> None:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.01)
            with lock:
                inside -= 1

        service.hook = count
        load_transfers(service, workers=4)
        assert most == 4

    def test_a_service_that_ignores_the_windows_is_read_by_one(self) -> None:
        service = service_of(list(range(500)), honours=set())
        assert len(load_transfers(service, workers=4)) == 500
        assert sum(params["limit"] == "1000" for _, params in service.calls) == 5

    def test_one_that_refuses_them_too(self) -> None:
        service = service_of(list(range(500)), honours=set(), strict=True)
        assert len(load_transfers(service, workers=4)) == 500

    def test_the_first_error_stops_all(self) -> None:
        service = service_of(list(range(2000)), 50)

        def fail(operation: str, params: dict[str, str]) -> None:
            if len(service.calls) > 20:
                raise NetworkError("gone")

        service.hook = fail
        with pytest.raises(NetworkError, match="gone"):
            load_transfers(service, workers=4)
        assert len(service.calls) < 40

    def test_a_malformed_record_is_found_by_whoever_reads_it(self) -> None:
        service = service_of(list(range(2000)), 50)
        service.transfers[1500]["total"] = "lots"
        with pytest.raises(DataError, match="record t-001500, field 'total'"):
            load_transfers(service, workers=4)

    def test_events_too(self) -> None:
        records = [{"id": f"e-{n:04d}", "created_at": moment(n)} for n in range(900)]
        assert len(load_events(FakeService(events=records), workers=3)) == 900


class Coarse(FakeService):
    """Compares times only to a number of digits after the second."""

    digits = 0

    def _filtered(self, rows: Any, params: Any) -> Any:
        cut = len("2026-03-01T00:00:00.") + self.digits
        return super()._filtered(
            rows,
            [
                (
                    name,
                    f"{value.rstrip('Z')[:cut]:0<29}Z" if name.startswith("created_at.") else value,
                )
                for name, value in params
            ],
        )


@pytest.mark.parametrize("digits", [0, 3, 6])
def test_a_service_that_cuts_times_loses_nothing(digits: int) -> None:
    """Eight windows of 8,004 units begin at 1,000.5, where rows lie between 1,000 and there."""
    unit = 10 ** (9 - digits)
    places = [*range(0, 8_000, 10), *(1_000 + n / 10 for n in range(1, 5)), 8_004]
    times = [divmod(int(place * unit), 10**9) for place in places]
    service = Coarse([transfer(n, created_at=moment(*at)) for n, at in enumerate(times)])
    service.digits = digits
    assert len(load_transfers(service, workers=8)) == len(places)


def board() -> Board:
    return Board(newest=100, waiting=[], idle=1)


def test_the_later_half_of_what_is_left_is_given_away() -> None:
    shared = board()
    assert shared.split(Window(10, 50), reached=20) == Window(20, 35)
    assert shared.waiting == [Window(35, 50)]
    shared = board()
    assert shared.split(Window(10, None), reached=20) == Window(20, 60)
    assert shared.waiting == [Window(60, None)], "the newest row is at 100"


def test_of_what_was_not_reached_nothing_is_given_away() -> None:
    for window in (Window(10, 50), Window(None, 50)):
        assert board().split(window, reached=None) is None
    assert board().split(Window(10, 50), reached=10) is None, "a page of rows of one moment"
    assert board().split(Window(10, 50), reached=11) == Window(11, 30)
    assert board().split(Window(10, 12), reached=11) is None, "too narrow for halves"


def test_who_waits_for_none_gets_none() -> None:
    for idle, waiting in ((0, []), (1, [Window(1, 2)])):
        shared = Board(newest=100, waiting=waiting, idle=idle)
        assert shared.split(Window(10, 50), reached=20) is None
        assert len(shared.waiting) == len(waiting)
