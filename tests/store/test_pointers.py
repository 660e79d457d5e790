"""What a row of a part says it replaces is checked: by every read as far as it goes, and by
``verify`` down to the ids. The files here bear the right hashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_service import FakeService, moment, rewrite, transfer

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import StoreDamaged
from fundlab.store import compaction, parts
from fundlab.store.parts import FROM, REPLACED_PART, REPLACED_ROW, TO

FIRST, SECOND = "part-00000002", "part-00000003"


def synced(store: Store, *numbers: int, turn: int) -> None:
    rows = [transfer(n, updated_at=moment(100 * turn + n)) for n in numbers]
    store.sync(FakeService(rows), tables=["transfers"], full=True)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """In the first part 1 to 5; the second replaces 2 and 3 by its own first two rows."""
    found = Store(tmp_path / "books")
    synced(found, 1, 2, 3, 4, 5, turn=0)
    synced(found, 2, 3, 6, turn=1)
    synced(found, 4, 7, turn=2)
    assert found.verify().ok
    return found


def with_columns(store: Store, name: str, **columns: list[int | None]) -> Path:
    """The part of this name, with other values in its bookkeeping."""
    (path,) = (store.path / "transfers").glob(f"{name}*")
    rows = pq.read_table(path)
    for column, values in columns.items():
        place = rows.schema.get_field_index(column)
        field = rows.schema.field(place)
        rows = rows.set_column(place, field, pa.array(values, field.type))
    return rewrite(path, rows)


WAYS = {
    "read": lambda store: store.read("transfers"),
    "scan": lambda store: store.scan("transfers").fetchall(),
    "running": lambda store: fl.balances.running(store).read_all(),
    "assertions": lambda store: store.assertions(),
    "compact": lambda store: store.compact(),
    "sync": lambda store: synced(store, 1, 2, 3, turn=3),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("parts", "rows", "named"),
    [
        pytest.param([9, 1, None], [1, 2, None], "row 0 replaces row 1 of file 9", id="no file"),
        pytest.param([2, 1, None], [2, 2, None], "row 0 replaces row 2 of file 2", id="itself"),
        pytest.param([3, 1, None], [1, 2, None], "row 0 replaces row 1 of file 3", id="later"),
        pytest.param([0, 1, None], [1, 2, None], "row 0 replaces row 1 of file 0", id="zero"),
        pytest.param([-1, 1, None], [1, 2, None], "row 0 replaces row 1 of file -1", id="below"),
        pytest.param([1, 1, None], [1, 5, None], "row 1 replaces row 5 of file 1", id="no row"),
        pytest.param([1, 1, None], [1, 2**62, None], "row 1 replaces row 46", id="far away"),
        pytest.param([1, 1, None], [-1, 2, None], "row 0 replaces row -1 of file 1", id="negative"),
        pytest.param([1, 1, None], [1, None, None], "row 1 replaces row -1 of file 1", id="half"),
        pytest.param([1, None, None], [1, 2, None], "row 1 replaces row 2 of file", id="left over"),
    ],
)  # fmt: skip
def test_a_pointer_to_nowhere_is_damage(
    store: Store, parts: list[Any], rows: list[Any], named: str
) -> None:
    path = with_columns(store, FIRST, **{REPLACED_PART: parts, REPLACED_ROW: rows})
    (problem,) = (entry for entry in store.verify().problems if entry.rule == "pointer")
    assert problem.table == "transfers"
    assert (problem.where, problem.found[: len(named)]) == (path.name, named)
    for way in WAYS.values():
        with pytest.raises(StoreDamaged, match=f"{path.name}: row"):
            way(store)


def test_a_row_is_replaced_once(store: Store) -> None:
    oldest = next((store.path / "transfers").glob("part-00000001*"))
    with_columns(store, FIRST, **{REPLACED_PART: [1, 1, None], REPLACED_ROW: [3, 2, None]})
    (problem,) = (entry for entry in store.verify().problems if entry.rule == "pointer")
    assert "row 3 is replaced twice, by publications 2 and 3" in problem.found
    for way in WAYS.values():
        with pytest.raises(StoreDamaged, match=f"{oldest.name}: row 3 is replaced twice"):
            way(store)


def test_a_row_replaces_one_of_its_id(store: Store) -> None:
    path = with_columns(store, FIRST, **{REPLACED_PART: [1, 1, None], REPLACED_ROW: [2, 1, None]})
    found = [entry for entry in store.verify().problems if entry.rule == "pointer"]
    assert [entry.where for entry in found] == [f"{path.name}, row {n}" for n in (0, 1)]
    assert str(found[0]).startswith(f"transfers: pointer: {path.name}, row 0: row 2 of ")
    assert found[0].found.endswith("t-000003")
    assert found[0].expected == "an earlier version of t-000002"


def test_nothing_replaces_what_was_replaced_before_a_base(store: Store) -> None:
    store.compact()
    synced(store, 5, turn=3)
    assert store.verify().ok
    path = with_columns(store, "part-00000005", **{REPLACED_PART: [3], REPLACED_ROW: [7]})
    with pytest.raises(StoreDamaged, match=f"{path.name}: row 0 replaces row 7 of file 3.*has 7 "):
        store.read("transfers")
    assert [entry.rule for entry in store.verify().problems] == ["pointer"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("column", "place", "value"),
    [
        (FROM, 0, 4),
        (FROM, 0, 0),
        (FROM, 0, None),
        (TO, 0, 2),
        (TO, 8, None),
        (TO, 8, 4),
        (TO, 8, 1),
    ],
)
def test_a_version_stood_between_publications_of_its_base(
    store: Store, column: str, place: int, value: int | None
) -> None:
    store.compact()
    (path,) = (store.path / "transfers").glob("base-*")
    values = pq.read_table(path).column(column).to_pylist()
    values[place] = value
    with_columns(store, path.stem, **{column: values})
    found = store.verify().problems
    assert [entry.rule for entry in found] == ["pointer"]
    assert "row group" in found[0].where


@pytest.mark.seconds
def test_verify_opens_a_file_as_often_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "pays", lambda snapshot: False)
    opened: list[str] = []
    original = parts.PartReader.__init__

    def counting(reader: Any, part: Any, *others: Any) -> None:
        opened.append(part.path.name)
        original(reader, part, *others)

    store = Store(tmp_path)
    counts = []
    for turn in range(12):
        synced(store, turn, turn + 1, turn=turn)
        if turn in (3, 11):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(parts.PartReader, "__init__", counting)
                opened.clear()
                assert store.verify().ok
            counts.append(len(opened) / (turn + 1))
    assert np.isclose(counts[0], counts[1], rtol=0.2), counts
