"""Verification at its bounds: publications that a base can know, columns of another type, files of
a later publication, and what is added up of it."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fake_service import FakeService, forge_manifest, transfer
from test_observation_bounds import account, seen

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import StoreChanged, StoreDamaged, StoreError
from fundlab.display import DEFAULT_ROWS
from fundlab.evidence import verify
from fundlab.evidence.observations import Accounts, Problem
from fundlab.evidence.verify import Verification, _RowsChecked
from fundlab.store import parts
from fundlab.store.parts import FROM, TO
from fundlab.store.snapshot import Snapshot
from fundlab.tables.schema import TABLES


def part(kind: str = "base", **more: Any) -> Any:
    return SimpleNamespace(kind=kind, seq=5, live_groups=1, path=Path("base-5.parquet"), **more)


@pytest.mark.parametrize(
    ("group", "since", "until", "right"),
    [
        (0, 1, None, True), (0, 5, None, True), (0, 0, None, False), (0, 6, None, False),
        (0, None, None, False), (0, 1, 3, False), (1, 1, 2, True), (1, 4, 5, True),
        (1, 1, 6, False), (1, 2, 2, False), (1, 1, None, False), (1, 0, 2, False),
    ],
)  # fmt: skip
def test_which_publications_a_base_can_know(
    group: int, since: int | None, until: int | None, right: bool
) -> None:
    rows = pa.table({FROM: pa.array([since], pa.int32()), TO: pa.array([until], pa.int32())})
    reader: Any = SimpleNamespace(part=part(), read=lambda number, schema: rows)
    same, problems = verify._inspect(reader, group, TABLES["transfers"])
    assert same is rows
    wrong = Problem("transfers", "pointer", f"base-5.parquet, row group {group}",
                    "publications 1 to 5", f"publications {since} to {until}")  # fmt: skip
    assert problems == [wrong] * (not right)
    reader.part = part("part")
    assert verify._inspect(reader, group, TABLES["transfers"]) == (rows, [])


def test_no_more_than_a_thousand_rows_are_named_of_a_group() -> None:
    count = verify.MAX_PROBLEMS + 1
    rows = pa.table({FROM: pa.array([9] * count, pa.int32()), TO: pa.nulls(count, pa.int32())})
    reader: Any = SimpleNamespace(part=part(), read=lambda number, schema: rows)
    assert len(verify._inspect(reader, 0, TABLES["transfers"])[1]) == 1_000


def test_a_column_of_another_type_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("id", pa.string()), ("amount", pa.float64()), ("more", pa.int8())])
    metadata = SimpleNamespace(schema=SimpleNamespace(to_arrow_schema=lambda: schema))
    one = part("part", header=SimpleNamespace(table="transfers"), metadata=metadata)
    monkeypatch.setattr(verify, "check_data", lambda part: None)
    assert verify._check_file(one) == [
        Problem("transfers", "schema", "base-5.parquet, column amount", "decimal128(38, 18)",
                "double")
    ]  # fmt: skip
    for error, where, said in [
        (StoreError("no\nmore"), "base-5.parquet", "no"),
        (OSError("broken"), "base-5.parquet", "broken"),
        (StoreDamaged("is cut", path="a/b.parquet"), "b.parquet", "is cut"),
        (StoreDamaged("is cut"), "base-5.parquet", "is cut"),
    ]:

        def fail(part: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(verify, "check_data", fail)
        assert verify._check_file(one) == [Problem("transfers", "file", where, "intact", said)]

    def gone(part: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(verify, "check_data", gone)
    with pytest.raises(FileNotFoundError):
        verify._check_file(one)


def test_a_row_group_that_cannot_be_read_is_damage_and_one_that_went_away_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a file is missing only a fresh listing can say whether it was merged."""
    snapshot = fl.sample().snapshot("balances")
    monkeypatch.setattr(verify, "_check_file", lambda part: [])
    for error, said in ((StoreDamaged("is cut", path="a/b.parquet"), "is cut"),
                        (OSError("broken"), "broken")):  # fmt: skip

        def fail(*given: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(verify, "_inspect", fail)
        found = verify._check_table(snapshot)
        assert {(one.table, one.rule, one.found) for one in found} == {("balances", "file", said)}
        assert len(found) == sum(len(part.header.row_groups) for part in snapshot.files)

    def gone(*given: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(verify, "_inspect", gone)
    with pytest.raises(FileNotFoundError):
        verify._check_table(snapshot)


def test_ids_of_equal_hashes_are_counted_by_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = fl.sample().snapshot("fiat_accounts")
    assert verify._check_table(snapshot) == []

    def equal(keys: pa.Table) -> Any:
        return np.zeros(keys.num_rows, np.uint64)

    monkeypatch.setattr(verify, "_hashes_of", equal)
    monkeypatch.setattr(verify, "_wrong_pointers", lambda *given: [])
    for ids, found in ((["a", "b"], []), (["a", "b", "a", "c", "b", "b"], ["a 2", "b 3"])):
        rows = pa.table({"id": ids})
        monkeypatch.setattr(verify, "read_current", lambda *given, rows=rows: rows)
        problems = verify._check_table(snapshot)
        assert sorted(f"{one.where} {one.found[0]}" for one in problems) == found
        assert {(one.rule, one.expected) for one in problems} <= {("unique_id", "1 row")}
    monkeypatch.setattr(verify, "MAX_PROBLEMS", 1)
    assert len(verify._check_table(snapshot)) == 1


def test_the_key_of_a_row_is_read_from_its_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(number: int, schema: pa.Schema) -> pa.Table:
        assert (number, schema.names) == (1, ["id"])
        return pa.table({"id": ["x", "y", "z"]})

    monkeypatch.setattr(verify, "PartReader", lambda part: SimpleNamespace(read=read))
    one: Any = SimpleNamespace(groups_of=lambda rows: np.array([1]), starts=[0, 5, 8])
    for row, key in ((5, "x"), (6, "y"), (7, "z")):
        assert verify._key_at(one, row, TABLES["transfers"]) == {"id": key}


def test_a_key_of_several_columns_is_hashed_by_each() -> None:
    keys = pa.table({
        "profile_id": ["p", "p", "q", "p"], "asset": ["A", "A", "A", "B"],
        "observed_at": pa.array([1, 2, 1, 1], pa.timestamp("ns", "UTC")),
    })  # fmt: skip
    found = verify._hashes_of(keys)
    assert len({*found.tolist()}) == 4
    assert (verify._hashes_of(keys) == found).all()
    assert verify._hashes_of(keys.rename_columns(["a", "b", "c"]).slice(0, 1))[0] == found[0]
    swapped = pa.table(
        {"profile_id": ["A"], "asset": ["p"], "observed_at": keys["observed_at"][:1]}
    )
    assert verify._hashes_of(swapped)[0] != found[0]
    assert verify._key_text({"a": "p", "b": 7}) == "p 7"


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_file_of_a_later_publication(tmp_path: Path, ahead: int) -> None:
    """The next one may be under way; one after that has lost its manifest."""
    store = Store(tmp_path / "store")
    store.sync(FakeService([transfer(1)]), tables=["transfers"])
    newest = store.manifest().number
    (file,) = (store.path / "transfers").glob("*.parquet")
    later = f"part-{newest + ahead:08d}-{'0' * 16}.parquet"
    shutil.copy(file, store.path / "transfers" / later)
    named = [
        (one.where, one.expected) for one in store.verify().problems if "rolled back" in one.found
    ]
    assert named == [(later, f"a publication up to {newest}")] * (ahead == 2)


def test_what_another_service_said_proves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(FakeService([transfer(1)]))
    right = store.verify()
    assert (right.ok, right.rows, right.intervals) == (True, 2, 1)
    forge_manifest(tmp_path, lambda content: content["service"].update(client_id="client-2"))
    found = Store(tmp_path).verify()
    assert [(one.table, one.rule, one.expected, one.found) for one in found.problems] == [
        (name, "file", "of http://127.0.0.1:1 client-2", "of http://127.0.0.1:1 client-1")
        for name in ("transfers", "balances")
    ]
    assert (found.rows, found.intervals, found.judgement) == (0, 0, None)


def test_broken_rows_are_named_in_the_order_of_the_engine() -> None:
    def said(id_: str | None, rule: str) -> dict[str, Any]:
        return {"transfer_id": id_, "rule": rule, "expected": "e", "found": None}

    checked = _RowsChecked.__new__(_RowsChecked)
    checked._broken = [said("b", "x"), said("a", "y"), said(None, "z"), said("a", "x")]
    assert [(one.where, one.rule) for one in checked.problems()] == [
        (None, "z"), ("a", "x"), ("a", "y"), ("b", "x"),
    ]  # fmt: skip
    first = checked.problems()[0]
    assert (first.table, first.expected, first.found) == ("transfers", "e", None)
    checked._broken = [said("a", "x")] * 1_001
    assert len(checked.problems()) == 1_000


@pytest.mark.parametrize("balances", [None, "balances"])
def test_what_rows_and_balances_break_is_added_up(
    balances: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = Problem("t", "r", "w", "a", "b"), Problem("b", "balance", "w", "a", "b")
    checked: Any = SimpleNamespace(problems=lambda: [mine], transfers="transfers", moved="moved")
    every = Accounts((account(seen("1", "1"), now="1"),), None, 3)
    monkeypatch.setattr(verify, "accounts_of", lambda *given: given)
    monkeypatch.setattr(
        verify, "with_evidence", lambda given, transfers, records: every
        if (given, transfers, records) == (("transfers", "balances", "moved"), "transfers", [])
        else None,
    )  # fmt: skip
    monkeypatch.setattr(verify, "broken_changes", lambda *given: ([theirs], 4, 9))
    base = Verification("s", 2, 3, 0, ())
    found = verify._check_rows(checked, balances, [], base)
    if balances is None:
        assert (found.problems, found.judgement) == ((mine,), None)
        return
    assert (found.problems, found.intervals) == ((mine, theirs), 1)
    assert (found.unlisted, found.unexplained) == (8, 5)
    assert found.judgement is not None
    assert found.judgement.state == "proved"

    def too_much(accounts: Accounts) -> Any:
        raise OverflowError("beyond")

    monkeypatch.setattr(verify, "judge_accounts", too_much)
    beyond = verify._check_rows(checked, balances, [], base)
    assert beyond.problems == (
        mine, Problem("balances", "balance", "s", "sums that fit", "beyond"),
    )  # fmt: skip
    assert (beyond.judgement, beyond.intervals) == (None, 0)


def test_what_a_page_shows_of_more_problems_than_fit() -> None:
    many = tuple(Problem("t", "r", f"w{n}", "a", str(Decimal(n))) for n in range(400))
    note = "all of them: store.verify().to_frame()"
    for count, hides in ((3, False), (DEFAULT_ROWS, False), (DEFAULT_ROWS + 1, True), (400, True)):
        page = Verification("s", 1, 1, 0, many[:count])._repr_html_()
        assert (note in page, "not shown" in page) == (hides, hides), count


@pytest.mark.parametrize("what", ["replaced", "_check_rows"])
def test_what_a_compaction_took_away_meanwhile_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Whether it went with the rows or with which of them are replaced."""
    store = Store(tmp_path / "store")
    store.sync(FakeService([transfer(1)]))  # type: ignore[arg-type]
    place: Any = verify if what == "_check_rows" else Snapshot
    real, whole, times, looks = getattr(place, what), verify._verify, iter((True,)), list[Any]()
    look = real if what == "_check_rows" else real.func

    def gone_at_first(*given: Any) -> Any:
        if next(times, False):
            raise StoreChanged("a compaction took it away while it was read")
        return look(*given)

    def counted(*given: Any) -> Verification:
        looks.append(given)
        return whole(*given)

    new: Any = gone_at_first if what == "_check_rows" else property(gone_at_first)
    monkeypatch.setattr(place, what, new)
    monkeypatch.setattr(verify, "_verify", counted)
    found = store.verify()
    assert (found.ok, len(looks), found.rows) == (True, 2, 2)


def test_without_a_manifest_nothing_was_looked_at(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store.sync(FakeService([transfer(1)]))  # type: ignore[arg-type]
    for path in (tmp_path / "store" / "manifests").iterdir():
        path.write_bytes(b"{}")
    found = Store(tmp_path / "store").verify()
    assert (found.files, found.rows, found.intervals, len(found.problems)) == (0, 0, 0, 1)


def test_rows_judged_one_by_one_break_the_same_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [transfer(n, total="3.00" if n % 2 else "10.50") for n in range(4)]
    Store(tmp_path).sync(FakeService(rows), tables=["transfers"])
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 1)
    judge, judged = verify.broken_rows, list[object]()
    monkeypatch.setattr(verify, "broken_rows", lambda *of: judged.append(of) or judge(*of))
    for at_once, times in ((1, 4), (2, 2), (100, 1)):
        judged.clear()
        monkeypatch.setattr(verify, "_JUDGED_AT_ONCE", at_once)
        found = Store(tmp_path).verify().problems
        assert len(judged) == times
        assert [(one.rule, one.where, one.expected, one.found) for one in found] == [
            ("total", "t-000001", "10.5", "3"), ("total", "t-000003", "10.5", "3"),
        ]  # fmt: skip


def test_rows_that_were_judged_are_judged_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []
    monkeypatch.setattr(verify, "_lazy", lambda connection, rows: judged.append(rows.num_rows))
    monkeypatch.setattr(verify, "broken_rows", lambda *given: [])
    checked = verify._RowsChecked(SimpleNamespace(), [])  # type: ignore[arg-type]
    for count in (2, 3):
        checked._waiting += [pa.table({"id": ["x"]})] * count
        checked._judge(None)  # type: ignore[arg-type]
    assert judged == [2, 3]
