"""A manifest is what was written, under the number that it has."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from fundlab.base.errors import StoreDamaged, StoreError, StoreLocked
from fundlab.store import manifests
from fundlab.store.manifests import (
    Manifest,
    load_manifest,
    read_manifest,
    restore_manifest,
    why_read_only,
    write_manifest,
)
from fundlab.store.remote import RemotePath, locate

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


def test_one_that_goes_while_it_is_read_is_looked_for_again(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest, turns, pauses = read_manifest(store), iter([FileNotFoundError()]), list[float]()
    load = manifests.load_manifest

    def late(folder: Any, number: int) -> Manifest:
        if error := next(turns, None):
            raise error
        return load(folder, number)

    monkeypatch.setattr(manifests, "load_manifest", late)
    monkeypatch.setattr("time.sleep", pauses.append)
    assert read_manifest(store) == newest
    assert pauses == [manifests._PAUSE_S]


# ------------------------------------------------------------------------ elsewhere


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemotePath:
    monkeypatch.setenv("HOME", str(tmp_path))
    memory = MemoryFileSystem()
    memory.store.clear()
    found = locate("books/july", filesystem=memory)
    assert isinstance(found, RemotePath)
    return found


@pytest.mark.parametrize(
    ("wrote", "raised", "told"),
    [
        (True, None, None),
        (True, FileExistsError(errno.EEXIST, "File exists"), None),  # by the very request
        (True, OSError(errno.EIO, "connection closed"), None),
        (False, OSError(errno.EIO, "connection closed"), "cannot be written: connection closed"),
        (None, FileExistsError(errno.EEXIST, "File exists"), StoreLocked),  # by another run
    ],
)
def test_whose_manifest_is_there(
    wrote: bool | None, raised: OSError | None, told: Any, elsewhere: RemotePath,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    create = RemotePath.create

    def answered(path: RemotePath, content: bytes) -> None:
        if wrote is not False:
            create(path, content if wrote else b"another run's")
        if raised is not None:
            raise raised

    monkeypatch.setattr(RemotePath, "create", answered)

    def write() -> Manifest:
        return write_manifest(elsewhere, Manifest(), 1, {}, {"transfers": [], "events": []}, "")

    if told is None:
        made = write()
        assert (made.number, made.files, made.previous) == (1, {}, "")
        assert len(made.run) == 32
        assert read_manifest(elsewhere) == made
    elif told is StoreLocked:
        with pytest.raises(StoreLocked, match="another run, on another machine"):
            write()
    else:
        with pytest.raises(StoreError, match=told) as caught:
            write()
        assert caught.value.__cause__ is raised


@pytest.mark.parametrize(
    ("answers", "says", "writes"),
    [
        ([FileExistsError()], "", 1), ([None, FileExistsError()], "", 2),
        ([None, None], "lets a write happen where the name is taken", 2),
        ([PermissionError(errno.EACCES, "Permission denied")],
         "it may not be written to (Permission denied)", 1),
        ([PermissionError("not you")], "it may not be written to (not you)", 1),
    ],
)  # fmt: skip
def test_why_nothing_may_be_published(
    answers: list[Any], says: str, writes: int, elsewhere: RemotePath,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked: list[str] = []

    def create(path: RemotePath, content: bytes) -> None:
        asked.append(path.key)
        if error := answers[len(asked) - 1]:
            raise error

    monkeypatch.setattr(RemotePath, "create", create)
    found = why_read_only(elsewhere)
    assert found == says if not says or "(" in says else says in found
    assert [key.rpartition("july/")[2] for key in asked] == ["manifests/probe"] * writes


@pytest.mark.parametrize(
    ("error", "says"),
    [(OSError(errno.EIO, "no network"), "no network"), (OSError("no network"), "no network")],
)
def test_a_place_that_does_not_answer(
    error: OSError, says: str, elsewhere: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(path: RemotePath, content: bytes) -> None:
        raise error

    monkeypatch.setattr(RemotePath, "create", create)
    with pytest.raises(StoreError, match=f"books/july cannot be opened: {says}$"):
        why_read_only(elsewhere)
