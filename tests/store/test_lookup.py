"""Finding rows by id: a hash that is the same for the same text, and never trusted alone."""

import random
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest
from fake_service import FakeService, moment, transfer
from hypothesis import given
from hypothesis import strategies as st

from fundlab import Store
from fundlab.base.errors import StoreError
from fundlab.store import changes
from fundlab.store.changes import find_rows, hash_texts


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
