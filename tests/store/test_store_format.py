"""The page on the store's format: its examples read a store as the store itself does."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from fake_service import FakeService, transfer
from fake_service import moment as minute

import fundlab as fl
from fundlab import Store
from fundlab.sandbox import serve
from fundlab.store import compaction
from fundlab.store.snapshot import Snapshot
from fundlab.tables import TABLES

pytestmark = pytest.mark.seconds

PAGE = Path(__file__).parents[2] / "notebooks" / "store-format.md"
TEXT = PAGE.read_text(encoding="utf-8")
DAY = 86_400


SHAPES = {"parts": {"part"}, "base": {"base"}, "base and part": {"base", "part"}}


@pytest.fixture(scope="module", params=SHAPES)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store where the page looks for it: three publications or more, the second
    and the last of which replace rows."""
    folder = tmp_path_factory.mktemp("books")
    store = Store(folder / "data" / "store")
    with (
        serve(seed=7, transfers=400, clock="manual") as sandbox,
        sandbox.connect() as client,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(compaction, "pays", lambda snapshot: False)
        store.sync(client, progress=False)
        store.pin("october")
        sandbox.clock.advance(3 * DAY)
        store.sync(client, progress=False)
        instructions = next(iter(client.list_fiat_deposit_instructions()))
        fl.simulate_deposit(client, instructions, "5.00")
        store.sync(client, progress=False)
        if request.param != "parts":
            store.compact()
        if request.param != "base":
            sandbox.clock.advance(DAY)
            store.sync(client, progress=False)
    assert {part.kind for part in store.snapshot("transfers").files} == SHAPES[request.param]
    return folder


@pytest.fixture(scope="module")
def with_gone_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of a base, parts and pins between them, in which rows went: one is
    accepted and counts no more, one accepted that still counts, one came back after it was
    accepted, one is gone and nobody said why; and one is refused. Of two rows something came that
    cannot be read: of one the first version, which is accepted, of the other a later one."""
    folder = tmp_path_factory.mktemp("gone")
    store, service = (
        Store(folder / "data" / "store"),
        FakeService([*(transfer(n) for n in range(9)), transfer(30)], complete=True),
    )

    def refuse(operation: str, params: dict[str, str]) -> None:
        if params.get("id") == "t-000030":
            raise fl.errors.PermissionDenied(403, "Forbidden")

    service.hook = refuse
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "pays", lambda snapshot: False)
        store.sync(service)
        store.pin("october")
        service.transfers[7].update(memo="x", updated_at=minute(50))
        store.sync(service)
        store.compact()
        kept = service.transfers.pop(4)
        del service.transfers[1:4], service.transfers[-1]
        service.transfers.append(transfer(31, amount="1e5"))
        store.sync(service, full=True)
        store.accept_set_aside("t-000031", by="Ana", reason="test data")
        store.accept_refused("t-000030", by="Ana", reason="moved")
        service.transfers[2].update(amount="a lot", updated_at=minute(55))
        store.accept_gone(["t-000001", "t-000004"], by="Ana", reason="test data")
        store.accept_gone("t-000002", by="Ana", reason="not listed", still_counts=True)
        store.pin("accepted")
        service.transfers.insert(1, kept)
        service.transfers.append(transfer(60))
        store.sync(service, full=True)
    states = ["accepted", "accepted", "gone", "back", "accepted"]
    assert store.gone()["state"].tolist() == states
    assert store.set_aside()["state"].tolist() == ["accepted", "open"]
    assert len(store.read("transfers")) == 10
    return folder


@pytest.mark.parametrize("which", [{}, {"pin": "accepted"}, {"pin": "october"}])
def test_rows_accepted_as_gone_are_left_out_and_rows_set_aside_are_none(
    with_gone_rows: Path, monkeypatch: pytest.MonkeyPatch, which: dict[str, str]
) -> None:
    monkeypatch.chdir(with_gone_rows)
    store, names = Store("data/store"), page()
    for table in ("transfers", "balances"):
        found = names["pinned"](table, which["pin"]) if which else names["rows_at"](table, 10**6)
        pd.testing.assert_frame_equal(frame(found, table), expected(store, table, **which))
    if not which:
        test_sql_gives_the_same(store)
    assert names["newest_is_as_written"]()


@pytest.fixture
def store(kept: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(kept)
    return Store("data/store")


def page() -> dict[str, Any]:
    """What the page's Python examples define, run one after another where the store is."""
    names: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(compile(example, str(PAGE), "exec"), names)
    return names


def frame(rows: pa.Table, table: str) -> pd.DataFrame:
    keys = ["created_at", "id"] if "id" in rows.column_names else list(TABLES[table].key)
    rows = rows.select(TABLES[table].schema.names).sort_by([(key, "ascending") for key in keys])
    return rows.replace_schema_metadata(None).to_pandas(types_mapper=pd.ArrowDtype)


def expected(store: Store, table: str, **which: Any) -> pd.DataFrame:
    return frame(store.read_arrow(table, **which), table)


@pytest.mark.parametrize("table", ["transfers", "events", "balances"])
def test_the_newest_rows_are_those_of_the_store(store: Store, table: str) -> None:
    names = page()
    found = names["rows_at"](table, names["manifest"]()["number"])
    pd.testing.assert_frame_equal(frame(found, table), expected(store, table))


def test_a_row_was_replaced_so_that_newest_means_something(store: Store) -> None:
    versions = page()["versions"]("transfers")
    assert versions.num_rows > versions["until"].null_count == len(store.read("transfers"))


def test_sql_gives_the_same(store: Store) -> None:
    (query,) = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    found = duckdb.sql(query).to_arrow_table()
    found = found.cast(TABLES["transfers"].schema)
    pd.testing.assert_frame_equal(frame(found, "transfers"), expected(store, "transfers"))


def test_what_was_known_at_a_time_and_at_a_pin(store: Store) -> None:
    names = page()
    moments = names["published"]("transfers")
    assert len(moments) >= 3
    for moment in moments.values():
        when = pd.Timestamp(moment, tz="UTC")
        pd.testing.assert_frame_equal(
            frame(names["as_of"]("transfers", moment), "transfers"),
            expected(store, "transfers", as_of=when),
        )
    assert names["as_of"]("transfers", min(moments.values()) - 1).num_rows == 0
    pd.testing.assert_frame_equal(
        frame(names["pinned"]("transfers", "october"), "transfers"),
        expected(store, "transfers", pin="october"),
    )


def test_a_flipped_bit_is_found_and_nothing_else(store: Store) -> None:
    names = page()
    assert names["damaged"] == []
    path = next(iter(names["files_of"]("transfers").values()))
    data = path.read_bytes()
    for place in (100, len(data) - 40):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert not names["is_as_written"](path)
    path.write_bytes(data)
    assert names["is_as_written"](path)
    assert names["newest_is_as_written"]()


def test_row_groups_are_read_up_to_both_bounds_of_a_filter() -> None:
    groups = ((10, 1, 5), (10, 5, 9), (10, None, None), (10, 20, 30))
    part = SimpleNamespace(live_groups=3, header=SimpleNamespace(row_groups=groups))

    def read(first: int | None = None, end: int | None = None, base: bool = False) -> list[int]:
        within: Any = SimpleNamespace(inside_base=base)
        return Snapshot.numbers(within, part, first, end)  # type: ignore[arg-type]

    assert read() == [0, 1, 2]
    assert read(base=True) == [0, 1, 2, 3]
    assert read(first=5) == [0, 1, 2], "its last row may be of that moment"
    assert read(first=6) == [1, 2], "of one whose moments are not known any may be"
    assert read(end=5) == [0, 2], "the end is not included"
    assert read(end=6) == [0, 1, 2]
    assert read(first=9, end=20, base=True) == [1, 2]
    assert read(first=9, end=21, base=True) == [1, 2, 3]


def test_of_rows_that_come_twice_in_one_pass_the_newest_version_of_each_is_kept(
    tmp_path: Path,
) -> None:
    rows = [transfer(n, status="PENDING", updated_at=minute(n)) for n in range(1, 7)]
    rows += [transfer(n, updated_at=minute(100 + n)) for n in (2, 3, 5)]  # they changed meanwhile
    store = Store(tmp_path / "books")
    store.sync(FakeService(rows), tables=["transfers"], full=True)  # type: ignore[arg-type]
    found = store.read("transfers", columns=["id", "status"])
    assert found["id"].tolist() == [f"t-{n:06d}" for n in range(1, 7)]
    completed = found[found["status"] == "COMPLETED"]["id"].tolist()
    assert completed == ["t-000002", "t-000003", "t-000005"]
