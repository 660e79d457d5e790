"""Finding rows by id: a hash that is the same for the same text, and never trusted alone."""

import json
import random
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fake_service import FakeService, moment, transfer
from hypothesis import given, settings
from hypothesis import strategies as st

from fundlab import Store
from fundlab.base.errors import StoreError
from fundlab.store import changes, parts
from fundlab.store.changes import find_places, find_rows, hash_texts
from fundlab.store.staging import Stage
from fundlab.tables import TABLES, decode_page


@settings(max_examples=30)
@given(st.lists(st.text(max_size=200), max_size=12), st.text(max_size=200))
def test_a_text_has_one_hash_whatever_stands_beside_it(others: list[str], text: str) -> None:
    alone = hash_texts(pa.array([text]))[0]
    among = pa.array([*others, text, *others])
    assert hash_texts(among)[len(others)] == alone
    assert hash_texts(among.slice(len(others)))[0] == alone
    assert hash_texts(pa.chunked_array([among, among]))[-1 - len(others)] == alone


@given(st.sets(st.text(max_size=20), max_size=200))
def test_different_texts_have_different_ones(texts: set[str]) -> None:
    assert len(set(hash_texts(pa.array(sorted(texts), pa.string())).tolist())) == len(texts)


def flipped(text: bytes, bits: tuple[int, ...]) -> bytes:
    return bytes(
        byte ^ sum(1 << (bit % 8) for bit in bits if bit // 8 == place)
        for place, byte in enumerate(text)
    )


@pytest.mark.seconds
def test_no_pair_has_one_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bit of one word is taken back by those of the next, wherever a hash carries it."""
    texts = [b"id%05d-" % n + b"p-%06d" % n for n in range(20)]
    pairs = [
        (text, flipped(text, (first, *after)))
        for text in texts
        for first in (62, 63)
        for after in combinations(range(64, 128), 2)
    ]
    ids = [pa.array([pair[place] for pair in pairs], pa.binary()) for place in (0, 1)]
    for seed in range(3):
        monkeypatch.setattr(changes, "_SALTS", changes.made_salts(random.Random(seed).getrandbits))
        one, other = map(hash_texts, ids)
        assert not (one == other).any()


def test_a_word_is_multiplied_with_an_odd_number() -> None:
    """Else two words would have one product."""
    made = changes.made_salts(lambda bits: 2**bits - 2)
    assert [int(one) for one in made] == [2**64 - 2, 2**64 - 1, 2**64 - 1]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "store")
    found.sync(FakeService([transfer(n) for n in range(20)]), tables=["transfers"])  # type: ignore[arg-type]
    later = [transfer(n, memo="new", updated_at=moment(90)) for n in (3, 4)]
    found.sync(FakeService(later), tables=["transfers"], full=True)  # type: ignore[arg-type]
    return found


def test_the_newest_version_of_each(store: Store) -> None:
    for _ in range(2):
        found = find_rows(store.snapshot("transfers"), pa.array(["t-000004", "t-000011", "t-9"]))
        rows = {row["id"]: row["memo"] for row in found.to_pylist()}
        assert rows == {"t-000004": "new", "t-000011": None}
        store.compact()


def test_none_are_asked_for(store: Store) -> None:
    assert find_rows(store.snapshot("transfers"), pa.array([], pa.string())).num_rows == 0


class TestTwoIdsWithOneHash:
    """Not seen in practice (one sync in a hundred thousand at ten million rows): told apart."""

    @pytest.fixture(autouse=True)
    def all_alike(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def hashed(texts: pa.ChunkedArray) -> changes.Hashes:
            return original(texts) * 0 + 5

        original = changes.hash_texts
        monkeypatch.setattr(changes, "hash_texts", hashed)

    def test_among_what_is_fetched(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="run the sync again"):
            Store(tmp_path / "s").sync(FakeService([transfer(1), transfer(2)]))  # type: ignore[arg-type]

    def test_between_what_is_fetched_and_what_is_stored(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "s")
        for n in (1, 2, 2):
            store.sync(FakeService([transfer(n)]), tables=["transfers"], full=True)  # type: ignore[arg-type]
        assert list(store.read("transfers")["id"]) == ["t-000001", "t-000002"]
        assert find_rows(store.snapshot("transfers"), pa.array(["t-9"])).num_rows == 0


LENGTHS = (0, 1, 7, 8, 9, 15, 16, 17, 120, 127, 128, 129, 136)


def test_its_hash_is_the_same_beside_texts_of_any_length() -> None:
    """As one of a column of one length, of several, and of one with a text that is too long to be
    hashed with the others."""
    texts = ["ä" * (length // 2) + "x" * (length % 2) for length in LENGTHS]
    alone = [int(hash_texts(pa.array([text]))[0]) for text in texts]
    assert len({*alone}) == len(texts)
    for other in (*texts, "x" * 300):
        for text, expected in zip(texts, alone, strict=True):
            assert hash_texts(pa.array([other, text, text])).tolist()[1:] == [expected] * 2


def test_so_it_is_beyond_the_texts_that_are_hashed_at_once() -> None:
    texts = pa.array(["x"] * 8192 + ["one", "other"])
    assert hash_texts(texts).tolist()[-2:] == hash_texts(texts.slice(8192)).tolist()
    assert hash_texts(pa.chunked_array([], pa.string())).tolist() == []


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [(1, 1, True), (1, 2, False), (1, None, False), (None, 1, False), (None, None, True)],
)
def test_a_value_that_is_missing_equals_one_that_is_missing(
    left: int | None, right: int | None, same: bool
) -> None:
    one, other = (pa.chunked_array([pa.array([value], pa.int64())]) for value in (left, right))
    assert changes.equal_or_null(one, other).tolist() == [same]


def arrived(*rows: dict[str, Any]) -> pa.Table:
    return decode_page("transfers", json.dumps({"items": rows}).encode()).rows


def test_what_differs_is_new_or_of_another_value() -> None:
    before = arrived(transfer(1), transfer(2), transfer(3, memo="a"))
    now = arrived(transfer(4), transfer(3, memo="b"), transfer(2), transfer(1, fee="1"))
    found = changes.differing(now, before)
    assert found.column("id").to_pylist() == ["t-000004", "t-000003", "t-000001"]


class TestWhatIsNew:
    """In the store are 0 to 5, and in a second part 2 and 6, in row groups of two rows."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
        monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 2)
        store = Store(tmp_path / "store")
        store.sync(FakeService([transfer(n) for n in range(5)] + [self.undated()]), ["transfers"])  # type: ignore[arg-type]
        later = [transfer(2, memo="new", updated_at=moment(60)), transfer(6)]
        store.sync(FakeService(later), ["transfers"], full=True)  # type: ignore[arg-type]
        return store

    def undated(self, **members: Any) -> dict[str, Any]:
        return transfer(5, updated_at="0001-01-01T00:00:00Z", **members)  # as good as none

    @pytest.mark.parametrize("at_once", [1, 3, 1_000_000])
    def test_each_row_is_told_from_what_is_there(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
    ) -> None:
        monkeypatch.setattr(changes, "_AT_ONCE", at_once)
        monkeypatch.setattr(changes, "FILE_ROWS", 1)
        stage = Stage(tmp_path / "stage", TABLES["transfers"])
        walks = [
            [transfer(9), transfer(8), transfer(0)],  # new, an older version, unchanged
            [transfer(4, updated_at=moment(61)), transfer(1, memo="same time")],
            [transfer(3, updated_at=moment(2), memo="a replica's")],  # older
            [self.undated(memo="no time"), transfer(6)],
            [transfer(7), transfer(8, memo="newest", updated_at=moment(62))],
        ]
        for walk, rows in enumerate(walks):
            stage.add(arrived(*rows), walk)
        found = changes.Changes(store.snapshot("transfers"), stage)
        groups = [group.to_pydict() for group in found.groups()]
        rows = [
            row for group in groups
            for row in zip(group["id"], group["memo"], group["_part"], group["_row"], strict=True)
        ]  # fmt: skip
        assert rows == [
            ("t-000001", "same time", 1, 1),
            ("t-000004", None, 1, 4),
            ("t-000005", "no time", 1, 5),
            ("t-000007", None, None, None),
            ("t-000008", "newest", None, None),
            ("t-000009", None, None, None),
        ]
        assert (found.new, found.changed, found.unchanged) == (3, 3, 3)
        assert max(len(group["id"]) for group in groups) <= 3

    def test_where_rows_are(self, store: Store) -> None:
        ids = pa.array(["t-000006", "t-000003", "t-9", "t-000002", "t-000000", "t-000005"])
        places = changes.find_places(store.snapshot("transfers"), ids)
        assert places.part.tolist() == [2, 1, 0, 2, 1, 1]
        assert places.row.tolist() == [1, 3, 0, 0, 0, 5]
        found = find_rows(store.snapshot("transfers"), pa.array([*ids.to_pylist(), "t-000006"]))
        assert found.column("id").to_pylist() == [
            "t-000000", "t-000003", "t-000005", "t-000002", "t-000006",
        ]  # fmt: skip

    @pytest.mark.parametrize("wanted", [["t-000001", "t-000003"], ["t-000004"], ["t-000006"]])
    def test_hashes_that_lie_side_by_side_are_told_apart(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, wanted: list[str]
    ) -> None:
        def near(texts: pa.ChunkedArray) -> changes.Hashes:
            return np.array([int(text[-1]) for text in texts.to_pylist()], np.uint64)

        monkeypatch.setattr(changes, "hash_texts", near)
        found = find_rows(store.snapshot("transfers"), pa.array(wanted))
        assert found.column("id").to_pylist() == wanted


@pytest.fixture(scope="module")
def in_small_groups(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """40 rows, four to a row group; some are replaced in a second file, some moved in time."""
    found = Store(tmp_path_factory.mktemp("groups") / "store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "in_row_groups", partial(parts.in_row_groups, size=4))
        found.sync(FakeService([transfer(n) for n in range(40)]), tables=["transfers"])  # type: ignore[arg-type]
        later = [transfer(n, memo="new", updated_at=moment(90)) for n in (3, 4, 17, 38)]
        moved = transfer(20, created_at=moment(80), updated_at=moment(91))
        found.sync(FakeService([*later, moved]), tables=["transfers"], full=True)  # type: ignore[arg-type]
    return found


@pytest.mark.thorough
@settings(max_examples=30)
@given(st.lists(st.integers(0, 45), unique=True), st.lists(st.none() | st.integers(0, 90)))
def test_the_moments_change_where_is_looked_first_and_not_what_is_found(
    in_small_groups: Store, wanted: list[int], minutes: list[int | None]
) -> None:
    """Those of the rows, or any others."""
    snapshot = in_small_groups.snapshot("transfers")
    ids = pa.array([f"t-{n:06d}" for n in wanted], pa.string())
    given = [*minutes, *wanted][: len(wanted)]
    texts = [None if minute is None else moment(minute) for minute in given]
    moments = pa.chunked_array([pa.array(texts, pa.string()).cast(pa.timestamp("ns", "UTC"))])
    near, anywhere = find_places(snapshot, ids, moments), find_places(snapshot, ids)
    assert (near.part == anywhere.part).all()
    assert (near.row == anywhere.row).all()
    assert [place > 0 for place in near.part] == [n < 40 for n in wanted]


def test_rows_that_are_where_their_moment_says_cost_no_look_elsewhere(
    in_small_groups: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(reader: parts.PartReader, group: int, schema: pa.Schema) -> pa.Table:
        looked_at.append((reader.part.seq, group))
        return original(reader, group, schema)

    looked_at: list[tuple[int, int]] = []
    original = parts.PartReader.read
    monkeypatch.setattr(parts.PartReader, "read", read)
    snapshot = in_small_groups.snapshot("transfers")
    at = pa.array([moment(n) for n in (33, 34)]).cast(pa.timestamp("ns", "UTC"))
    find_places(snapshot, pa.array(["t-000033", "t-000034"]), pa.chunked_array([at]))
    assert {seq for seq, _ in looked_at} <= {1, 2}
    assert [group for seq, group in looked_at if seq == 1] == [8]
