"""A store of tables at its bounds: what it refuses to be asked, which rows and writers it chooses,
and what it records; what is below it is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from test_observation_bounds import snapshot
from test_record_bounds import close
from test_vanished_bounds import accept, record

from fundlab.base.errors import InvalidRequest
from fundlab.base.values import Instant
from fundlab.evidence import table_store
from fundlab.evidence.table_store import TableStore
from fundlab.tables.schema import TABLES

TRANSFERS, ADDRESSES = TABLES["transfers"], TABLES["addresses"]


class Kept(TableStore):
    """A store of the records ``kept``."""

    def __init__(self, folder: Path, *kept: Any) -> None:
        super().__init__(folder)
        self.__dict__.update(kept=[*kept], items=["t-1"])

    def records(self, *of: Any) -> Any:
        return self.__dict__["kept"]

    @contextmanager
    def lock(self, *given: Any, **more: Any) -> Iterator[Any]:
        yield "held"

    def record(self, kind: str, content: Any, check_held: Any) -> Any:
        assert check_held == "held"
        self.__dict__["kept"].append(record(9, kind, **content))

    def item(self, item_id: str) -> str:
        if item_id not in self.__dict__["items"]:
            raise InvalidRequest(f"no item {item_id}")
        return item_id

    def manifest(self) -> Any:
        return "manifest"

    def snapshot(self, table: str, *of: Any, **more: Any) -> Any:
        return snapshot(table=TABLES[table], of=(of, more))


def test_which_columns_and_profiles_may_be_asked_for() -> None:
    columns = table_store._checked_columns
    assert columns(TRANSFERS, None) == TRANSFERS.schema.names
    assert columns(TRANSFERS, ["total", "id"]) == ["total", "id"]
    assert columns(TRANSFERS, []) == []
    with pytest.raises(InvalidRequest, match=r"columns \['none'\]: transfers has id, "):
        columns(TRANSFERS, ["id", "none"])
    with pytest.raises(InvalidRequest, match="name each column once"):
        columns(TRANSFERS, ["id", "total", "id"])
    profiles = table_store._profiles
    assert profiles(TRANSFERS, None) is None
    assert profiles(TRANSFERS, "p") == {"profile_id": ["p"]}
    assert profiles(TRANSFERS, ["p", "q"]) == {"profile_id": ["p", "q"]}
    without = next(table for table in TABLES.values() if table.column("profile_id") is None)
    assert profiles(without, None) is None
    with pytest.raises(InvalidRequest) as told:
        profiles(without, "p")
    assert str(told.value).startswith(f"{without.name} has no profile_id; give it for transfers, ")
    assert f" {without.name}" not in str(told.value).partition("give it for")[2]


def test_only_transfers_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = SimpleNamespace(snapshot=lambda *of, **more: (of, more))
    monkeypatch.setattr(table_store, "settlements", lambda *given: given)
    manifest: Any = "m"
    of_transfers = snapshot(table=TRANSFERS)
    assert table_store._settlements(store, of_transfers, "then", None, manifest) == (
        of_transfers, (("events", "then"), {"pin": None, "manifest": "m"}),
    )  # fmt: skip
    with pytest.raises(InvalidRequest, match="settled=True is for transfers; addresses has no set"):
        table_store._settlements(store, snapshot(table=ADDRESSES), None, None, manifest)


@pytest.mark.parametrize(
    ("begins", "first", "since"),
    [(None, None, None), (5, None, 5), (None, 7, 7), (5, 7, 7), (7, 5, 7)],
)
@pytest.mark.parametrize("later", [False, True])
def test_what_a_frame_knows_of_itself(
    begins: int | None, first: int | None, since: int | None, later: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    store: Any = SimpleNamespace(current=lambda *of, **more: snapshot(limit=8))
    monkeypatch.setattr(table_store, "moved_since", lambda *given: ["moved"])

    def known(table: str, end: int | None) -> dict[str, Any]:
        one = snapshot(
            table=TABLES[table], begins=begins, limit=4, files=["a", "b"],
            numbers=lambda part, first: [1] if later and part == "b" else [],
        )  # fmt: skip
        manifest: Any = "m"
        return table_store._known(store, one, first, None, None, end, manifest)

    base = {"since": None if since is None else str(Instant.from_ns(since))}
    assert known("addresses", None) == base
    cut = {"until": str(Instant.from_ns(9))} if later else {}
    assert known("transfers", 9) == base | cut | {"publication": 4}
    assert known("balances", None) == base | {"publication": 8, "moved": ["moved"]}


def test_which_engine_scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = Kept(tmp_path)
    for given, said in [
        ({"engine": "polars"}, "engine 'polars' is unknown; there are 'auto', 'duckdb' and"),
        ({"engine": "spark"}, "engine='spark' needs a session"),
        ({"engine": "spark", "spark": "s", "connection": "c"}, "are DuckDB's; Spark has its own"),
        ({"spark": "s", "memory_limit": "1GB"}, "are DuckDB's; Spark has its own"),
    ]:
        with pytest.raises(InvalidRequest) as told:
            store.scan("transfers", **given)
        assert said in str(told.value)
    monkeypatch.setattr(table_store, "scan_with_spark", lambda one, *more: ("spark", more))
    monkeypatch.setattr(table_store, "scan_with_duckdb", lambda one, *more: ("duckdb", more))
    monkeypatch.setattr(table_store, "_settlements", lambda *given: "settled")
    assert store.scan("transfers") == ("duckdb", (None, None, None))
    more = {"connection": "c", "memory_limit": "1GB", "settled": True}
    assert store.scan("transfers", **more) == ("duckdb", ("c", "1GB", "settled"))
    assert store.scan("transfers", "auto", spark="s") == ("spark", ("s", None))
    assert store.scan("transfers", "spark", spark="s", settled=True) == ("spark", ("s", "settled"))


def test_which_rows_an_arrow_table_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    table = pa.table({"id": ["a"], "total": [1], "more": [2]})

    def read(one: Any, names: Any, *, first: Any, end: Any, where: Any) -> pa.Table:
        asked.append((names, first, end, where))
        return table

    def settled(rows: pa.Table, known: Any) -> pa.Table:
        for name in table_store.ADDED:
            rows = rows.append_column(name, pa.array([known] * rows.num_rows))
        return rows

    monkeypatch.setattr(table_store, "read_current", read)
    monkeypatch.setattr(table_store, "with_settlement", settled)
    monkeypatch.setattr(table_store, "_settlements", lambda *given: "s")
    store = Kept(tmp_path)
    given: dict[str, Any] = {"since": "2026-01-01", "until": "2026-02-01", "profile_id": "p"}
    assert store.read_arrow("transfers", columns=["total"], **given).column_names == ["total"]
    ((names, first, end, where),) = asked
    assert (names, where) == (["total"], {"profile_id": ["p"]})
    assert [str(Instant.from_ns(ns))[:10] for ns in (first, end)] == ["2026-01-01", "2026-02-01"]
    for columns in (["total"], ["id", "total"]):
        rows = store.read_arrow("transfers", columns=columns, settled=True)
        assert rows.column_names == [*columns, *table_store.ADDED]
        assert sorted(asked[-1][0]) == ["id", "total"]


@pytest.mark.parametrize(("kinds", "gone"), [([], False), (["pass"], False), (["accept"], True)])
def test_which_rows_are_current(
    tmp_path: Path, kinds: list[str], gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_store, "accepted_gone", lambda records, table: {"t": 1})
    monkeypatch.setattr(table_store, "replace", lambda one, **more: (one, more))
    store = Kept(tmp_path, *[record(1, kind, rows=[]) for kind in kinds])
    found: Any = store.current("transfers", "then", pin="p")
    if gone:
        found, more = found
        assert more == {"accepted_gone": {"t": 1}}
    assert found.of == (("then",), {"pin": "p", "manifest": "manifest"})


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_which_writer_publishes(
    tmp_path: Path, format: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Kept(tmp_path)
    (tmp_path / "manifests").mkdir()
    monkeypatch.setattr(
        table_store, "published_tables", lambda *given: {"events": "e", "transfers": "t"}
    )
    for name in ("parquet", "delta"):
        monkeypatch.setattr(
            table_store, f"publish_{name}",
            lambda one, folder, name=name: (name, one.table.name, folder),
        )  # fmt: skip
    assert store.publish(tmp_path, format) == {
        "transfers": (format, "transfers", "t"), "events": (format, "events", "e"),
    }  # fmt: skip
    assert [*store.publish(tmp_path, format)] == ["transfers", "events"]


def test_a_period_is_open_again_where_it_was_closed(tmp_path: Path) -> None:
    store = Kept(tmp_path, close(1), close(2, period="2026-02"), close(3, "reopen"))
    assert store.closes()["state"].tolist() == ["reopened", "closed"]
    for period in ("2026-01", "2026-03"):
        with pytest.raises(InvalidRequest, match=r"is not closed; closed are: 2026-02 \(created"):
            store.reopen(period, by="Ann", reason="r")
    with pytest.raises(InvalidRequest, match="give a text"):
        store.reopen("2026-02", by="", reason="r")
    store.reopen("2026-02", by="Ann", reason="r")
    assert store.closes()["state"].tolist() == ["reopened", "reopened"]
    assert store.records()[-1].content == {"period": "2026-02", "by": "Ann", "reason": "r"}
    with pytest.raises(InvalidRequest, match="closed are: none"):
        store.reopen("2026-02", by="Ann", reason="r")


def test_what_is_noted_of_an_item(tmp_path: Path) -> None:
    store = Kept(tmp_path)
    for given, said in [
        ({"item_id": "t-1"}, "give owner, comment or decision: there is nothing to record"),
        ({"item_id": "", "owner": "A"}, "give a text"),
        ({"item_id": "t-2", "owner": "A"}, "no item t-2"),
        ({"item_id": "t-1", "owner": "A", "by": 7}, "by=7: give a text"),
    ]:
        with pytest.raises(InvalidRequest, match=said):
            store.annotate(**given)
    assert store.records() == []
    store.annotate("t-1", comment="c", by="Ann")
    assert store.annotations()["comment"].tolist() == ["c"]
    assert store.records()[0].content == {
        "item_id": "t-1", "owner": None, "comment": "c", "decision": None, "by": "Ann",
    }  # fmt: skip


def test_what_is_accepted_counts_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_store, "accept_missing", lambda store, *given: given)
    store: Any = Kept(tmp_path)
    who = {"by": "Ann", "reason": "r"}
    assert store.accept_gone("t", **who) == ("gone", "t", who | {"counts": False})
    kept = store.accept_gone(still_counts=True, **who)
    assert kept == ("gone", None, who | {"counts": True})
    refused = store.accept_refused(profile_id="p", **who)
    assert refused[:4] == ("refused", None, who | {"counts": True}, "p")
    monkeypatch.setattr(table_store, "accept_unreadable", lambda *given, **more: ["k"])
    rows = [["k", "t", "why", "{}"], ["l", None, "how", "[]"]]
    aside = Kept(tmp_path, record(1, invalid={"transfers": rows}))
    assert aside.set_aside()["key"].tolist() == ["k", "l"]
    assert aside.accept_set_aside(**who)["key"].tolist() == ["k"]


def test_tables_of_what_a_list_leaves_out(tmp_path: Path) -> None:
    left_out = {"gone": {"transfers": ["a"]}, "there": {"transfers": ["t"]}}
    store = Kept(tmp_path, record(1, **left_out), accept(2, "a"))
    assert store.gone()["state"].tolist() == ["accepted"]
    assert store.unlisted()["id"].tolist() == ["t", "a"]
