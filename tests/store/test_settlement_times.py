"""When a transfer settled, from versions and events made by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_service import FakeService, moment, transfer

from fundlab import Store
from fundlab.store import parts, settlement_times
from fundlab.store.parts import FROM, TO
from fundlab.store.settlement_times import (
    PLACE,
    known_at,
    settled_of,
    settlements,
    versions,
    with_settlement,
)
from fundlab.tables.schema import INSTANT_TYPE

DAY_NS = 1_772_323_200 * 10**9  # 2026-03-01
PUBLISHED = {1: 1_000, 2: 2_000, 3: 3_000}  # ns


def versions_of(*rows: tuple[Any, ...]) -> pa.Table:
    """Of (id, status, updated_at, from, to); the place is the position."""
    columns = [*zip(*rows, strict=True), range(len(rows))] if rows else [[]] * 6
    types = [pa.string(), pa.string(), INSTANT_TYPE, pa.int32(), pa.int32(), pa.int64()]
    names = ["id", "status", "updated_at", FROM, TO, PLACE]
    made = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.table(dict(zip(names, made, strict=True)))


def completed_by(*events: tuple[str, int]) -> pa.Table:
    ids, moments = zip(*events, strict=True) if events else ((), ())
    return pa.table(
        {
            "transfer_id": pa.array(ids, pa.string()), "at": pa.array(moments, pa.int64()),
            FROM: pa.array([1] * len(events), pa.int32()),
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "events", "expected"),
    [
        ([("a", "COMPLETED", 70, 1, None)], [], [("a", 70, "updated_at", 0)]),
        ([("a", "COMPLETED", None, 2, None)], [], [("a", 2_000, "seen", 0)]),
        ([("a", "COMPLETED", 70, 1, None)], [("a", 60)], [("a", 60, "event", 0)]),
        ([("a", "COMPLETED", 70, 1, None)], [("a", 65), ("a", 60), ("b", 1)],
         [("a", 60, "event", 0)]),
        ([("a", "COMPLETED", 70, 1, None)], [("b", 60)], [("a", 70, "updated_at", 0)]),
        ([("a", "PENDING", 70, 1, None), ("b", "FAILED", 9, 1, None)], [("a", 60)], []),
        # the first version in which it is completed says when, and the current one where it is
        ([("a", "COMPLETE", 50, 1, 2), ("a", "COMPLETED", 70, 2, None)], [],
         [("a", 50, "updated_at", 1)]),
        ([("a", "COMPLETED", 70, 2, 3), ("a", "COMPLETED", 50, 1, 2),
          ("a", "COMPLETED", 90, 3, None)], [], [("a", 50, "updated_at", 2)]),
        ([("a", "COMPLETED", None, 1, 2), ("a", "COMPLETED", 70, 2, None)], [],
         [("a", 1_000, "seen", 1)]),
        ([("a", "COMPLETED", 50, 1, 2), ("a", "FAILED", 70, 2, None)], [], []),
        ([("a", "COMPLETED", 50, 1, 2), ("a", "COMPLETED", 70, 2, None),
          ("b", "COMPLETED", 80, 2, None)], [("b", 75)],
         [("b", 75, "event", 2), ("a", 50, "updated_at", 1)]),
        ([], [], []),
    ],
)  # fmt: skip
def test_when_it_settled_and_where_that_is_known_from(
    rows: list[Any], events: list[Any], expected: list[Any]
) -> None:
    publications = [SimpleNamespace(seq=seq, published_at=at) for seq, at in PUBLISHED.items()]
    transfers = SimpleNamespace(limit=3, publications=publications)
    found = settled_of(versions_of(*rows), completed_by(*events), transfers)  # type: ignore[arg-type]
    assert [
        (one, moment, said, place)
        for one, moment, said, place in zip(
            found.column("id").to_pylist(),
            found.column("settled_at").cast(pa.int64()).to_pylist(),
            found.column("settled_from").to_pylist(),
            found.column(PLACE).to_pylist(),
            strict=True,
        )
    ] == expected


@pytest.mark.parametrize(
    ("limit", "known"),
    [
        (0, []), (1, [("a", None)]), (2, [("a", 2), ("b", None)]), (3, [("a", 2), ("b", 3)]),
    ],
)  # fmt: skip
def test_what_is_known_at_a_publication(limit: int, known: list[Any]) -> None:
    """A version that was replaced later still stands."""
    rows = versions_of(("a", "x", 1, 1, 2), ("b", "x", 1, 2, 3))
    found = known_at(rows, limit)
    assert [
        *zip(found.column("id").to_pylist(), found.column(TO).to_pylist(), strict=True)
    ] == known
    assert found.schema.equals(rows.schema)


@pytest.mark.parametrize(
    ("seq", "since", "groups"),
    [(3, 2, [0, 1]), (3, 3, [0]), (3, 4, [0]), (3, 5, []), (2, 2, [])],
)
def test_the_row_groups_that_have_what_is_new(seq: int, since: int, groups: list[int]) -> None:
    """Learned of since, or replaced since: row 0 by publication 5, row 9 by 3."""
    part = SimpleNamespace(
        seq=seq, header=SimpleNamespace(row_groups=[(5, 0, 0), (5, 0, 0)]),
        groups_of=lambda rows: sorted({int(row) // 5 for row in rows}),
    )  # fmt: skip
    replaced = SimpleNamespace(rows=np.array([0, 9]), by=np.array([5, 3]))
    snapshot = SimpleNamespace(replaced={3: replaced})
    assert list(settlement_times._groups_since(snapshot, part, since)) == groups  # type: ignore[arg-type]


ALL = [1, 2, 2, 3, 4, 4, 5]
ASKED: list[tuple[dict[str, Any], list[int]]] = [
    ({}, ALL), ({"ids": ["t-000004", "t-000009"]}, [4, 4]), ({"ids": ["t-000001"]}, [1]),
    ({"ids": []}, []), ({"since": 0}, ALL), ({"since": 2}, []),
    # of the first file the row groups that rows were replaced in: 1 and 2, and 3 and 4
    ({"since": 1}, [1, 2, 2, 3, 4, 4]), ({"since": 1, "ids": ["t-000004"]}, [4, 4]),
]  # fmt: skip


@pytest.mark.parametrize("merged", [False, True])
def test_versions_say_where_they_are(merged: bool, two: Store) -> None:
    """In files of two publications, and in one of both: what that has of others comes, too."""
    if merged:
        two.compact()
    snapshot = two.snapshot("transfers")
    stored = [
        pq.read_table(part.path, columns=["id", "memo"]).to_pylist()  # type: ignore[arg-type]
        for part in snapshot.files
    ]
    for asked, found in ASKED:
        given = asked | ({"ids": pa.array(asked["ids"], pa.string())} if "ids" in asked else {})
        rows = versions(snapshot, ["id", "memo"], **given).to_pylist()
        numbers = sorted(int(row["id"][2:]) for row in rows)
        if merged and "since" in asked:
            assert {*found} <= {*numbers}, asked
        else:
            assert numbers == found, asked
        for row in rows:
            first = row["memo"] == "first"
            old = first and row["id"] in ("t-000002", "t-000004")
            assert (row[FROM], row[TO]) == (1 if first else 2, 2 if old else None)
            file, position = divmod(row[PLACE], 2**40)
            assert stored[file][position] == {"id": row["id"], "memo": row["memo"]}


@pytest.mark.parametrize("merged", [False, True])
def test_settlement_of_a_store(merged: bool, two: Store) -> None:
    if merged:
        two.compact()
    transfers, events = two.snapshot("transfers"), two.snapshot("events")
    found = settlements(transfers, events)
    ids = found.column("id").to_pylist()
    at = found.column("settled_at").cast(pa.int64()).to_pylist()
    kinds = found.column("settled_from").to_pylist()
    assert {i: (kind, ns - DAY_NS) for i, kind, ns in zip(ids, kinds, at, strict=True)} == {
        "t-000001": ("event", 77 * 10**9), "t-000002": ("updated_at", 2 * 10**9),
        "t-000003": ("updated_at", 3 * 10**9), "t-000004": ("updated_at", 4 * 10**9),
    }  # fmt: skip
    places = {}
    for number, part in enumerate(transfers.files):
        rows = pq.read_table(part.path, columns=["id"])  # type: ignore[arg-type]
        for position, id_ in enumerate(rows.column("id").to_pylist()):
            places[number * 2**40 + position] = id_
    assert [places[one] for one in found.column(PLACE).to_pylist()] == ids


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Of two publications; five rows, of which the second replaces two, row groups of two."""
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 2)
    events = [
        {"id": "e-1", "type": "transfer.wire.completed", "created_at": moment(77),
         "object": {"id": "t-000001"}},
        {"id": "e-2", "type": "transfer.wire.failed", "created_at": moment(1),
         "object": {"id": "t-000003"}},
        {"id": "e-3", "type": "transfer.wire.completed", "created_at": moment(1)},
    ]  # fmt: skip
    rows = [transfer(n, memo="first") for n in range(1, 6)]
    rows[4]["status"] = "PENDING"
    store = Store(tmp_path)
    for memo, changed in (("first", []), ("second", [2, 4])):
        for n in changed:
            rows[n - 1] |= {"memo": memo, "updated_at": moment(50 + n)}
        service = FakeService(rows, events=events)
        store.sync(service, tables=["transfers", "events"], full=True)  # type: ignore[arg-type]
    return store


def test_settlement_stands_beside_the_rows_that_have_one() -> None:
    settled = pa.table(
        {
            "id": pa.chunked_array([["b"], ["a"]]),
            "settled_at": pa.array([2, 1], INSTANT_TYPE),
            "settled_from": ["event", "seen"],
        }
    )
    found = with_settlement(pa.table({"id": ["a", "x", "b", None]}), settled)
    assert found.column("settled_at").cast(pa.int64()).to_pylist() == [1, None, 2, None]
    assert found.column("settled_from").to_pylist() == ["seen", None, "event", None]


@pytest.mark.parametrize(
    ("wanted", "places"),
    [([], []), ([1], []), ([2], [0]), ([4], [1, 2]), ([9, 4, 2], [0, 1, 2, 3]), ([9], [3])],
)
def test_where_hashes_are_as_often_as_they_are_there(wanted: list[int], places: list[int]) -> None:
    hashes = np.array([2, 4, 4, 9], np.uint64)
    found = settlement_times._places_of(np.array(wanted, np.uint64), hashes)
    assert found.tolist() == places


@pytest.mark.parametrize("merged", [False, True])
def test_a_transfer_that_failed_was_pending_until_it_was_first_seen_otherwise(
    merged: bool, tmp_path: Path
) -> None:
    rows = [transfer(n, status="FAILED", updated_at=moment(10 * n)) for n in range(1, 7)]
    rows[1]["status"] = rows[2]["status"] = "PENDING"
    rows[5]["status"] = "COMPLETED"
    rows[3]["updated_at"] = None
    now = [DAY_NS]
    store = Store(tmp_path, clock=lambda: now[0])

    def sync(at: int, *changed: dict[str, Any]) -> None:
        now[0] = DAY_NS + at * 10**9
        for change in changed:
            rows[change.pop("n") - 1].update(change)
        service = FakeService(rows, honours={"created_at", "ids"})
        store.sync(service, ["transfers"], full=True)  # type: ignore[arg-type]

    sync(100)
    sync(200, {"n": 2, "status": "FAILED", "updated_at": moment(150)},
         {"n": 3, "status": "FAILED", "updated_at": None},
         {"n": 6, "status": "FAILED", "updated_at": moment(170)})  # fmt: skip
    sync(300, *({"n": n, "memo": "again", "updated_at": moment(250)} for n in range(1, 7)))
    rows.append(transfer(7))
    sync(400)
    if merged:
        store.compact()
    found = settlement_times.failures(
        store.snapshot("transfers"), pa.array([f"t-{n:06d}" for n in range(1, 8)])
    )
    at = found.column("failed_at").cast(pa.int64()).to_pylist()
    assert {
        id_: None if ns is None else (ns - DAY_NS) / 10**9
        for id_, ns in zip(found.column("id").to_pylist(), at, strict=True)
    } == {
        "t-000001": 10, "t-000002": 150, "t-000003": 200, "t-000004": None, "t-000005": 50,
        "t-000006": 60,  # it was completed until it failed, and never pending
    }  # fmt: skip
