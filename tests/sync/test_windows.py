"""Several workers, one list: the same rows as one worker reads, however they lie in time."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from fake_service import FakeService, moment, transfer
from hypothesis import given, settings
from hypothesis import strategies as st

from fundlab.base.errors import DataError, InvalidRequest, NetworkError
from fundlab.base.values import Instant
from fundlab.sync import table_pages
from fundlab.sync.loaders import load_events, load_transfers
from fundlab.sync.table_pages import Fetched, ask_table, fetch
from fundlab.sync.windows import Board, Window
from fundlab.tables import TABLES, decode_page


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


def test_who_waits_is_woken_by_what_is_given_away() -> None:
    shared = Board(newest=100, waiting=[], busy=1)
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(shared.take)
        while not shared.hungry:
            time.sleep(0.001)
        try:
            shared.split(Window(10, 50), reached=20)
            assert taken.result(timeout=5) == Window(35, 50)
        finally:
            shared.stop()


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


def test_two_of_what_waits_is_enough_for_two() -> None:
    """Who waits for a window gives none away while there is one for each who waits."""
    shared = Board(newest=100, waiting=[Window(1, 2)], idle=2)
    assert shared.hungry
    assert not Board(newest=100, waiting=[Window(1, 2)], idle=1).hungry
    assert shared.split(Window(10, 12), reached=10) is None
    assert shared.split(Window(None, 13), reached=11) == Window(11, 12)


@pytest.mark.parametrize(
    ("window", "count", "span", "edges"),
    [
        ((0, 100), 4, (0, 1000), [0, 25, 50, 75, 100]),
        ((0, 100), 1, (0, 1000), [0, 100]),
        ((None, None), 2, (10, 20), [None, 15, None]),
        ((50, 60), 2, (0, 55), [50, 52, 60]),
        ((0, 60), 2, (40, 90), [0, 50, 60]),
        ((60, 70), 2, (0, 50), [60, 70]),
        ((60, 70), 2, (0, 60), [60, 70]),
        ((60, 70), 2, (80, 90), [60, 70]),
        ((0, 2), 4, (0, 9), [0, 1, 2]),
        ((None, 5), 3, (2, 9), [None, 3, 4, 5]),
    ],
)
def test_a_window_is_cut_where_rows_may_be(
    window: Any, count: int, span: tuple[int, int], edges: list[int | None]
) -> None:
    found = list(Window(*window).parts(count, span))
    assert found == [Window(*pair) for pair in pairwise(edges)]


class TestBoard:
    def test_it_ends_once_nobody_can_give_anything(self) -> None:
        shared = Board(newest=100, waiting=[Window(1, 2), Window(3, 4)])
        assert (shared.take(), shared.busy, shared.idle) == (Window(3, 4), 1, 0)
        assert (shared.take(), shared.busy, shared.idle) == (Window(1, 2), 2, 0)
        shared.finished()
        shared.finished()
        assert (shared.take(), shared.busy, shared.idle) == (None, 0, 0)

    def test_nothing_is_taken_once_it_stopped(self) -> None:
        shared = Board(newest=100, waiting=[Window(1, 2)])
        shared.stop()
        assert shared.take() is None

    @pytest.mark.parametrize(
        ("change", "then"),
        [
            (lambda shared: shared.split(Window(10, 50), reached=20), [None, Window(35, 50)]),
            (lambda shared: shared.finished(), [None, None]),
            (lambda shared: shared.stop(), [None, None]),
        ],
    )
    def test_who_waits_is_woken(self, change: Any, then: list[Any]) -> None:
        """Two wait; the third, which reads a window, gives half away, ends, or stops all."""
        shared = Board(newest=100, waiting=[Window(1, 2)])
        shared.take()
        with ThreadPoolExecutor(2) as waiting:
            found = [waiting.submit(shared.take) for _ in range(2)]
            deadline = time.monotonic() + 5
            while shared.idle < 2 and time.monotonic() < deadline:
                time.sleep(0.001)
            change(shared)
            if then[1] is not None:  # one has it; the other goes on waiting until both are done
                while shared.busy < 2 and time.monotonic() < deadline:
                    time.sleep(0.001)
                shared.finished()
                shared.finished()
            done = [one.result(timeout=5) for one in found]
        assert sorted(done, key=str) == sorted(then, key=str)


NOW_S = 20


def pages_of(
    seconds: list[int | None], monkeypatch: pytest.MonkeyPatch, page: int = 2, **given: Any
) -> list[Fetched]:
    """What one worker reads of rows of these seconds, at the twentieth."""
    monkeypatch.setattr(table_pages.time, "time_ns", lambda: at(NOW_S))
    rows = [
        transfer(n, created_at="0001-01-01T00:00:00Z" if one is None else moment(one))
        for n, one in enumerate(seconds)
    ]
    set_aside = given.pop("set_aside", False)
    if set_aside:
        rows[0]["total"] = "lots"
    service = FakeService(rows, largest_page=page)
    asked = ask_table(TABLES["transfers"], given)
    return list(fetch(service, asked, 1, set_aside=set_aside))


def at(second: float) -> int:
    return (1_772_323_200 + int(second)) * 10**9


class TestCovered:
    """Complete with a page is what lies before its newest row, as far as all came in order."""

    def test_and_how_many_rows_there_will_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pages = pages_of([10, 11, 12, 13, 14, 15], monkeypatch)
        assert [page.covered for page in pages] == [
            (None, at(11)), (at(11), at(13)), (at(13), at(15)),
        ]  # fmt: skip
        # Two rows in one second make 20 in the ten there are; four in three, 13; six in five, 12.
        assert [page.expected for page in pages] == [20, 13, 12]
        assert len({page.walk for page in pages}) == 1

    def test_within_bounds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bounds = {
            "created_at_gte": Instant.from_ns(at(10)),
            "created_at_lt": Instant.from_ns(at(16)),
        }
        pages = pages_of([9, 11, 12, 13, 16], monkeypatch, **bounds)
        assert [page.rows.num_rows for page in pages] == [2, 1]
        assert [page.covered for page in pages] == [(at(10), at(12)), (at(12), at(16))]
        assert [page.expected for page in pages] == [10, 5]

    @pytest.mark.parametrize(
        ("seconds", "given", "covered"),
        [
            ([10, 11, 12], {"order": "DESC"}, [None, None]),
            ([10, 11, 12], {"order": "ASC", "type": "WIRE_DEPOSIT"}, [None, None]),
            ([10, 11, 12], {"set_aside": True}, [None, None]),
            ([None, 11, 12], {}, [None, None]),
            ([10, 10, 10], {}, [(None, at(10)), (at(10), at(10))]),
            ([], {}, [None]),
        ],
    )
    def test_not_where_rows_may_be_missing(
        self, monkeypatch: pytest.MonkeyPatch, seconds: Any, given: Any, covered: list[Any]
    ) -> None:
        assert [page.covered for page in pages_of(seconds, monkeypatch, **given)] == covered

    def test_nor_from_where_the_order_breaks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        service = FakeService([transfer(n) for n in (10, 11, 12, 13)], largest_page=2)
        bodies = [
            {"items": [transfer(11), transfer(12)], "next_page_cursor": "a"},
            {"items": [transfer(10), transfer(13)], "next_page_cursor": "b"},
            {"items": [transfer(14)]},
        ]
        monkeypatch.setattr(
            service, "fetch_page", lambda *_: json.dumps(bodies.pop(0)).encode(), raising=False
        )
        found = list(fetch(service, ask_table(TABLES["transfers"], {}), 1))
        assert [page.covered for page in found] == [(None, at(12)), None, None]
        assert [len(page.rows) for page in found] == [2, 2, 1]


@pytest.mark.parametrize(
    ("rows", "twice"),
    [
        ([], []),
        ([(1, "a"), (2, "a")], []),
        ([(1, "a"), (1, "a"), (2, "b")], []),
        ([(2, "a"), (2, "b"), (1, "a"), (1, "b"), (3, "c")], ["t-000001", "t-000002"]),
        ([(1, "a"), (1, "b"), (1, "a")], ["t-000001"]),
    ],
)
def test_a_page_that_contradicts_itself(rows: list[tuple[int, str]], twice: list[str]) -> None:
    service = FakeService([transfer(number, memo=memo) for number, memo in rows])
    (page,) = fetch(service, ask_table(TABLES["transfers"], {}), 1)
    assert table_pages.contradicted_ids(page) == twice


@pytest.mark.parametrize(
    ("seconds", "honours", "given", "span"),
    [
        ([3, 5, 9], {"created_at"}, {}, (3, 9)),
        ([3, 5, 9], set(), {}, None),
        ([], {"created_at"}, {}, None),
        ([3], {"created_at"}, {}, None),
        ([3, None], {"created_at"}, {}, None),
        ([3, 5, 9], {"created_at"}, {"order_by": "CREATED_AT"}, None),
        ([3, 5, 9], {"created_at", "updated_at"}, {"updated_at_gte": moment(4)}, None),
        ([3, 5, 9], {"created_at"}, {"created_at_gte": moment(4)}, (5, 9)),
        ([3, 5, 9], {"created_at"}, {"type": "WIRE_DEPOSIT"}, (3, 9)),
    ],
)
def test_the_oldest_and_the_newest_show_whether_windows_are_honoured(
    seconds: list[int | None], honours: set[str], given: dict[str, Any], span: Any
) -> None:
    rows = [
        transfer(n, created_at="0001-01-01T00:00:00Z" if one is None else moment(one))
        for n, one in enumerate(seconds)
    ]
    for strict in (False, True) if not honours else (False,):
        service = FakeService(rows, honours=honours, strict=strict)
        found = table_pages._probed_span(service, ask_table(TABLES["transfers"], given))
        assert found == (span and tuple(map(at, span)))
        assert {params["limit"] for _, params in service.calls} <= {"1"}, "no page is asked for"


@pytest.mark.parametrize(("apart_ns", "shared"), [(1, False), (2, True)])
def test_there_is_something_to_share_from_two_nanoseconds_on(apart_ns: int, shared: bool) -> None:
    times = [moment(3), moment(3, apart_ns)]
    service = FakeService([transfer(n, created_at=one) for n, one in enumerate(times)])
    found = table_pages._probed_span(service, ask_table(TABLES["transfers"], {}))
    assert found == ((at(3), at(3) + apart_ns) if shared else None)


@pytest.mark.parametrize(
    ("ended", "hungry", "shares"),
    [(False, True, True), (True, True, False), (False, False, False), (True, False, False)],
)
def test_a_window_is_shared_while_pages_of_it_are_left_and_somebody_waits(
    ended: bool, hungry: bool, shares: bool
) -> None:
    windows, split, walked = [Window(at(1), at(9)), None], list[Any](), list[Any]()
    body = json.dumps({"items": [transfer(3), transfer(5), transfer(4)]}).encode()
    page = SimpleNamespace(result=lambda: decode_page("transfers", body))

    class Board:
        def take(self) -> Window | None:
            return windows.pop(0)

        @property
        def hungry(self) -> bool:
            return hungry and not split

        def split(self, window: Window, reached: int) -> Window:
            split.append((window, reached))
            return Window(reached, at(7))

        def finished(self) -> None:
            walked.append("finished")

    def walk(asked: Any) -> Any:
        walked.append((asked.sent["created_at_gte"].ns, asked.sent["created_at_lt"].ns))
        one = SimpleNamespace(ended=ended)
        one.downloads = lambda: iter([(one, page, False), (one, page, True)])
        return one

    asked = ask_table(TABLES["transfers"], {})
    found = [*table_pages._side_by_side(walk, asked, Board())]  # type: ignore[arg-type]
    assert split == [(Window(at(1), at(9)), at(5))] * shares
    assert walked == [(at(1), at(9)), *[(at(5), at(7))] * shares, "finished"]
    assert len(found) == 2 + shares


def test_who_fails_stops_the_others() -> None:
    stopped: list[bool] = []
    board = SimpleNamespace(take=lambda: Window(1, 2), stop=lambda: stopped.append(True))

    def walk(asked: Any) -> Any:
        raise NetworkError("gone")

    with pytest.raises(NetworkError):
        next(table_pages._side_by_side(walk, ask_table(TABLES["events"], {}), board))  # type: ignore[arg-type]
    assert stopped == [True]


def test_a_table_that_no_operation_lists() -> None:
    with pytest.raises(InvalidRequest, match="balances do not come in pages"):
        ask_table(TABLES["balances"], {})
