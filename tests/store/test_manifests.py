"""A manifest is what was written, under the number that it has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fundlab.base.errors import StoreDamaged
from fundlab.store.manifests import load_manifest, read_manifest, restore_manifest

SAMPLE = Path(__file__).parents[2] / "data" / "sample"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "store"))


def manifest(store: Path, number: int) -> Path:
    return store / "manifests" / f"{number:08d}.json"


def test_it_names_its_number_and_what_it_was_made_of(store: Path) -> None:
    found = load_manifest(store, 3)
    assert found.number == 3
    assert found.previous == load_manifest(store, 2).hash != found.hash


def test_an_earlier_one_under_a_later_number_is_damage(store: Path) -> None:
    shutil.copy(manifest(store, 2), manifest(store, 3))  # intact by its own hash
    with pytest.raises(StoreDamaged, match=r"manifests/00000003\.json: is not what was written"):
        load_manifest(store, 3)


def test_another_content_under_the_same_number_is_damage(store: Path) -> None:
    written = manifest(store, 3).read_text()
    for before, after in (("2026-11-02T09", "2026-11-02T10"), ('"sha256":"', '"sha256":"0')):
        assert before in written
        manifest(store, 3).write_text(written.replace(before, after))
        with pytest.raises(StoreDamaged, match=r"manifests/00000003\.json: is not what was"):
            load_manifest(store, 3)


def test_one_of_a_backup_is_put_where_none_was(store: Path) -> None:
    written = manifest(store, 3).read_bytes()
    shutil.rmtree(store / "manifests")
    (store / "head").unlink()
    restore_manifest(store, written)
    assert manifest(store, 3).read_bytes() == written
    assert read_manifest(store).number == 3
