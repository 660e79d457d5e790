"""Running balances over the store in one pass: the same as in memory, whatever the parts."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_service import FakeService
from transfer_examples import START, Row, arrow, make_rows, records, transfer

from fundlab import Store
from fundlab.analysis import balances, streaming
from fundlab.base.errors import AnalysisError, OutputError
from fundlab.base.values import Instant

TIME = pa.timestamp("ns", "UTC")


def as_told(row: Row) -> dict[str, Any]:
    """A row as the service would send it."""
    told = {name: value for name, value in row.items() if value is not None}
    for name in ("amount", "fee", "total"):
        told[name] = f"{row[name]:f}"
    for name in ("created_at", "updated_at"):
        told[name] = str(Instant.from_ns(row[name]))
    return {**told, "customer_id": "customer"}


def sync(store: Store, rows: list[Row]) -> None:
    service = FakeService([as_told(row) for row in rows])
    store.sync(service, tables=["transfers"], full=True)


ROWS = make_rows(600, profiles=7)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Parts that overlap in time, and rows that changed since: pending ones are settled last."""
    found = Store(tmp_path_factory.mktemp("streamed") / "store")
    rows = [{**row, "created_at": START + 10**9 * (n // 2)} for n, row in enumerate(ROWS)]
    for row in rows:
        row["updated_at"] = row["created_at"]
    shuffled = Random(5).sample(rows, len(rows))
    sync(found, shuffled[:300])
    sync(found, rows)
    settled = [
        {**row, "status": "COMPLETED", "updated_at": row["updated_at"] + 5}
        if row["status"] == "PENDING" and n % 2
        else row
        for n, row in enumerate(rows)
    ]
    sync(found, settled)
    return found


def expected(store: Store, **how: Any) -> list[tuple[Any, ...]]:
    rows = records(balances.running(store.read_arrow("transfers"), **how))
    return [(row["id"], row["profile_id"], row["asset"], row["balance"]) for row in rows]


def streamed(reader: pa.RecordBatchReader) -> list[tuple[Any, ...]]:
    rows = records(reader.read_all())
    return [(row["id"], row["profile_id"], row["asset"], row["balance"]) for row in rows]


@pytest.mark.parametrize("view", ["ledger", "available"])
def test_the_pass_gives_what_memory_gives(store: Store, view: Any) -> None:
    found = streamed(balances.running(store, view=view))  # type: ignore[arg-type]
    assert len(found) > 500
    assert found == expected(store, view=view)


def test_opening_balances_count(store: Store) -> None:
    opening = pa.table(
        {
            "profile_id": ["profile-001", "profile-nobody"],
            "asset": ["USD", "USD"],
            "balance": pa.array([7, 1], pa.decimal128(38, 18)),
        }
    )
    found = streamed(balances.running(store, opening))  # type: ignore[arg-type]
    assert found == expected(store, opening=opening)
    assert found != expected(store)


def test_every_column_is_there_and_the_others_are_as_they_were(store: Store) -> None:
    reader: Any = balances.running(store)
    names = store.read_arrow("transfers").column_names
    assert reader.schema.names == [*names, "balance"]
    rows = reader.read_all()
    memory = balances.running(store.read_arrow("transfers"))
    coded = {name for name in names if pa.types.is_dictionary(rows.schema.field(name).type)}
    assert {"profile_id", "asset", "type", "status"} <= coded
    assert not coded & {"id", "ref_id", "group_id", "memo", "metadata", "created_at", "total"}
    for name in names:
        column = rows.column(name)
        text = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        assert text.to_pylist() == memory.column(name).to_pylist(), name


def test_the_file_holds_the_columns_asked_for(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "running.parquet"
    assert balances.write_running(store, path) == len(expected(store))
    found = pq.read_table(path)
    assert found.column_names == ["id", "profile_id", "asset", "created_at", "balance"]
    assert found.schema.field("created_at").type == TIME
    assert streamed(found.to_reader()) == expected(store)
    assert [file.name for file in tmp_path.iterdir()] == ["running.parquet"]
    with pytest.raises(AnalysisError, match="transfers has no 'colour'"):
        balances.write_running(store, path, ["id", "colour"])


def test_the_file_is_written_under_a_name_nobody_can_foresee(store: Store, tmp_path: Path) -> None:
    precious, path = tmp_path / "precious.txt", tmp_path / "new" / "running.parquet"
    precious.write_text("precious")
    path.parent.mkdir()
    (path.parent / ".running.parquet.tmp").symlink_to(precious)
    balances.write_running(store, path)
    assert precious.read_text() == "precious"
    assert not path.is_symlink()


def test_several_may_write_one_file_at_once(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "folders" / "running.parquet"
    with ThreadPoolExecutor(4) as pool:
        rows = [*pool.map(lambda _: balances.write_running(store, path), range(8))]
    assert rows == [len(expected(store))] * 8
    assert streamed(pq.read_table(path).to_reader()) == expected(store)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"running.parquet cannot be written"):
        balances.write_running(store, tmp_path / "file" / "running.parquet")


def test_a_compacted_store_and_a_past_one_give_the_same(store: Store, tmp_path: Path) -> None:
    copy = Store(tmp_path / "copy")
    sync(copy, ROWS[300:])  # whose file is before that of the older rows
    sync(copy, ROWS)
    before = streamed(balances.running(copy))  # type: ignore[arg-type]
    copy.compact()
    assert streamed(balances.running(copy)) == before  # type: ignore[arg-type]
    assert before == expected(copy)


@pytest.mark.thorough
def test_other_analyses_take_a_store_too(store: Store) -> None:
    rows = store.read_arrow("transfers")
    for analyse in (balances.daily, balances.holds, balances.changes):
        assert records(analyse(store)) == records(analyse(rows))  # type: ignore[operator]
    by_update = records(balances.running(store, by="updated_at"))  # type: ignore[arg-type]
    assert len(by_update) == len(expected(store))
    moments = [row["updated_at"] for row in by_update]
    assert moments == sorted(moments) != [row["updated_at"] for row in records(rows)]


def test_an_empty_store_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "nothing" / "runs").mkdir(parents=True)
    reader: Any = balances.running(Store(tmp_path / "nothing"))  # type: ignore[arg-type]
    assert reader.read_all().num_rows == 0
    path = tmp_path / "out.parquet"
    assert balances.write_running(Store(tmp_path / "nothing"), path) == 0
    assert pq.read_table(path).num_rows == 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ({"status": "SETTLED"}, r"status 'SETTLED' is not one of .*\(id transfer-0000003\)"),
        ({"asset": None, "balance_asset": "USDC"}, r"asset is missing \(id transfer-0000003\)"),
    ],
)
@pytest.mark.filterwarnings("ignore::fundlab.errors.UnknownValueWarning")
def test_rows_nobody_can_count_are_named(spoil: Row, message: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    sync(store, [*ROWS[:3], {**ROWS[3], **spoil}])
    path = tmp_path / "out.parquet"
    with pytest.raises(AnalysisError, match=message):
        balances.write_running(store, path)
    assert not path.exists()
    assert [file.name for file in tmp_path.iterdir()] == ["store"]


def test_overflow_is_an_error(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    half = {"total": 6 * 10**19, "amount": 6 * 10**19, "fee": 0, "asset": "USD"}
    place = {"profile_id": "p", "balance_asset": None}
    state = {"direction": "CREDIT", "status": "COMPLETED"}
    sync(store, [{**row, **half, **place, **state} for row in ROWS[:2]])
    with pytest.raises(OverflowError, match="20 before the point"):
        streamed(balances.running(store))  # type: ignore[arg-type]


def test_a_reader_left_early_leaves_no_thread(store: Store) -> None:
    reader: Any = balances.running(store)
    reader.read_next_batch()
    del reader
    gc.collect()
    deadline = time.monotonic() + 5
    while names := [one for one in threading.enumerate() if one.name.startswith("fundlab-ahead")]:
        assert time.monotonic() < deadline, names
        time.sleep(0.01)


def stamped(*rows: tuple[int, str]) -> pa.Table:
    moments = pa.array([moment for moment, _ in rows], pa.int64()).cast(TIME)
    return pa.table({"created_at": moments, "id": [id_ for _, id_ in rows]})


@pytest.mark.parametrize(
    ("groups", "sizes"),
    [
        ([[(1, "a"), (2, "b")], [(3, "c")], [(4, "d"), (5, "e")]], [2, 1, 2]),
        ([[(1, "a"), (3, "b")], [(3, "a"), (4, "d")]], [1, 3]),
        ([[(1, "a"), (9, "b")], [(2, "c"), (3, "d")], [(4, "e")], [(10, "f")]], [1, 2, 2, 1]),
        ([[(1, "b"), (1, "a")]], [2]),
        ([[(1, "z"), (2, "c"), (2, "b")]], [3]),
        ([[(2, "a"), (2, "b"), (1, "c")]], [3]),
        ([[(1, "a"), (9, "b")], [(5, "c"), (12, "d")], [(11, "e")], [(13, "f")]], [1, 2, 2, 1]),
        ([], []),
    ],
)
def test_rows_go_on_once_none_that_comes_can_be_before_them(
    groups: list[list[tuple[int, str]]], sizes: list[int]
) -> None:
    given = [(min(group)[0], max(group)[0], stamped(*group)) for group in groups]
    found = list(streaming._in_time_order(given))
    assert [len(rows) for rows in found] == sizes
    together = [
        one for rows in found
        for one in zip(rows["created_at"].cast(pa.int64()).to_pylist(), rows["id"].to_pylist(),
                       strict=True)
    ]  # fmt: skip
    assert together == sorted(row for group in groups for row in group)


def test_every_profile_and_asset_has_a_number_as_it_is_met() -> None:
    keys = streaming._Keys()
    for pairs, numbers in (
        (["pU"], [0]), (["pU", "pE"], [0, 1]), (["qE", "pU", "qE"], [2, 0, 2]),
        (["rU", "sB", "pB", "tC"], [3, 4, 5, 6]), (["qE", "tC", "rU", "sU"], [2, 6, 3, 7]),
    ):  # fmt: skip
        columns = (pa.chunked_array([[pair[place] for pair in pairs]]) for place in (0, 1))
        assert keys.of(*columns).tolist() == numbers
    assert keys.count == 8


def test_an_amount_is_read_wherever_it_lies_in_memory() -> None:
    amounts = pa.array([Decimal(n) for n in (1, -2, 3, 4)], pa.decimal128(38, 18))
    for column in (pa.chunked_array([amounts]), pa.chunked_array([amounts[:1], amounts[1:]])):
        for start, end in ((0, 4), (1, 3), (3, 4), (2, 2)):
            units = streaming._units(column.slice(start, end - start))
            back = streaming._money(units)
            assert back.to_pylist() == amounts.slice(start, end - start).to_pylist()


def held_in(*files: list[tuple[tuple[int | None, int | None], list[Row]]]) -> Any:
    """A snapshot of files that hold row groups, of which the first and the last moment is known."""
    parts = [
        SimpleNamespace(
            seq=seq, groups=[arrow(rows) for _, rows in groups],
            header=SimpleNamespace(row_groups=[(len(rows), *ends) for ends, rows in groups]),
        )
        for seq, groups in enumerate(files)
    ]  # fmt: skip
    return SimpleNamespace(
        files=parts, numbers=lambda part: range(len(part.groups)),
        table=SimpleNamespace(name="transfers", schema=arrow([]).schema),
        group=lambda reader, number: SimpleNamespace(current=None),
    )  # fmt: skip


READ: list[tuple[int, int]] = []


class Reader:
    def __init__(self, part: Any, coded: list[str]) -> None:
        assert "id" not in coded
        assert "asset" in coded
        self.seq, self.groups = part.seq, part.groups

    def read(self, number: int, schema: pa.Schema) -> pa.Table:
        READ.append((self.seq, number))
        return self.groups[number].select(schema.names).cast(schema)


def test_row_groups_come_by_their_first_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with a row that has none, and does not count, may have any and comes first."""
    monkeypatch.setattr(streaming, "PartReader", Reader)

    def row(moment: int | None, amount: int, **given: Any) -> Row:
        at = None if moment is None else START + moment
        return transfer(f"t{amount}", amount=Decimal(amount), created_at=at, **given)

    whole = held_in(
        [((START + 50, START + 60), [row(50, 16), row(60, 32)])],
        [((START + 10, START + 20), [row(10, 1), row(20, 2)]),
         ((None, None), [row(None, 99, status="FAILED"), row(55, 64), row(5, 128)])],
        [((START + 15, START + 55), [row(15, 4), row(55, 8)])],
    )  # fmt: skip
    READ.clear()
    found = streaming.stream_running(whole, ["id"]).read_all()
    assert READ == [(1, 1), (1, 0), (2, 0), (0, 0)]
    assert found.column("id").to_pylist() == [
        f"t{amount}" for amount in (128, 1, 4, 2, 16, 64, 8, 32)
    ]
    assert [*map(int, found.column("balance").to_pylist())] == [
        128, 129, 133, 135, 151, 215, 223, 255
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": None}, "status is missing"),
        ({"status": "SETTLED"}, "status 'SETTLED' is not one of"),
        ({"direction": "BOTH"}, "direction 'BOTH' is not one of"),
        ({"balance_asset": ""}, "balance_asset '' is empty"),
        ({"asset": ""}, "asset '' is empty"),
        ({"asset": None, "balance_asset": "USD"}, "asset is missing"),
        ({"asset": None}, "asset is missing"),
        ({"profile_id": None}, "profile_id is missing"),
        ({"created_at": None}, "created_at is missing"),
        ({"total": None}, "total is missing"),
    ],
)
def test_the_first_row_that_cannot_be_counted_is_named(change: Row, words: str) -> None:
    rows = [transfer("a"), transfer("b") | change, transfer("c") | change]
    sums = streaming._Sums(None, "ledger", ["id"])
    with pytest.raises(AnalysisError, match=rf"^transfers: {words}.* \(id b\)$"):
        sums.counting(arrow(rows))
    if change.keys() & {"total", "created_at", "profile_id"}:  # of no matter where it failed
        failed = [row | {"status": "FAILED"} for row in rows[1:]]
        assert sums.counting(arrow([rows[0], *failed])).num_rows == 1


def test_a_view_is_one_of_two() -> None:
    with pytest.raises(AnalysisError, match="view='gross' is not one of ledger, available"):
        streaming.stream_running(held_in(), view="gross")  # type: ignore[arg-type]


def test_balances_go_on_from_what_was_there() -> None:
    none = arrow([]).select(["profile_id", "asset"]).append_column(
        "opened", pa.array([], pa.decimal128(38, 18))
    )  # fmt: skip
    opened = none.schema.empty_table().from_pydict(
        {"profile_id": ["p2", "p1"], "asset": ["USD"] * 2, "opened": [Decimal(5), Decimal(-7)]},
        schema=none.schema,
    )
    rows = [transfer(f"{n}", profile_id=name) for n, name in enumerate(("p1", "p3", "p2", "p1"))]
    for given, expected in ((opened, [3, 10, 15, 13]), (none, [10, 10, 10, 20])):
        sums = streaming._Sums(given, "ledger", ["id"])
        first, second = (sums.counting(arrow(some)) for some in (rows[:2], rows[2:]))
        found = [sums.after(some).column("balance").to_pylist() for some in (first, second)]
        assert [int(one) for column in found for one in column] == expected
