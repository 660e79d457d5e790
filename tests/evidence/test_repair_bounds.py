"""Which files are set aside and which are left, by names alone; and what is moved where."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fundlab.base.errors import StoreDamaged, StoreError, StoreLocked
from fundlab.evidence import repair
from fundlab.evidence.repair import Repair, set_aside
from fundlab.store.manifests import File, Manifest
from fundlab.tables.schema import TABLES

TRANSFERS = TABLES["transfers"]


def named(kind: str, seq: int) -> File:
    return File(f"{kind}-{seq:08d}-{'0' * 16}.parquet", 1, "0" * 64)


@pytest.mark.parametrize(
    ("wrong", "error", "left", "table", "lost", "said"),
    [
        (None, None, 3, None, False, ""),
        (0, StoreDamaged("is cut"), 0, 1, False,
         "is cut: the versions of rows up to publication 4 and later are lost, what is"),
        (0, FileNotFoundError(), 0, 1, True, "is missing: the versions of rows up to publication"),
        (1, StoreError("no"), 1, 5, False,
         "no: the versions of rows from publication 5 are lost, what is current is fetched again"),
        (2, OSError("broken"), 2, 6, False, "broken: the versions of rows from publication 6 are"),
        (2, FileNotFoundError(), 2, 6, True, "is missing: the versions of rows from publication 6"),
    ],
)  # fmt: skip
def test_all_from_the_first_damaged_file_on_is_set_aside(
    tmp_path: Path, wrong: int | None, error: Any, left: int, table: int | None, lost: bool,
    said: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    files = (named("base", 4), named("part", 5), named("part", 6))
    for file in files:
        (tmp_path / file.name).write_bytes(b"")
    if lost and wrong is not None:
        (tmp_path / files[wrong].name).unlink()

    def check(file: File) -> None:
        if wrong is not None and file == files[wrong]:
            raise error

    monkeypatch.setattr(repair, "open_part", lambda folder, file, of: file)
    monkeypatch.setattr(repair, "check_data", check)
    found = Repair(manifest=Manifest(files={"transfers": files}))
    assert repair._look_at_table(tmp_path, TRANSFERS, found) == files[:left]
    assert found.tables == ({} if table is None else {"transfers": table})
    aside = [] if wrong is None else [file.name for file in files[wrong + lost :]]
    assert [path.name for path in found.aside] == aside
    name = "" if wrong is None else f"transfers/{files[wrong].name}"
    assert found.lost == [name] * lost
    if wrong is None:
        assert (found.lines, str(found)) == ([], "nothing is damaged or missing")
    else:
        (line,) = found.lines
        assert line.startswith(f"{name}: {said}")
        assert found.to_json()["fetch"] == ["transfers"]


def test_a_manifest_is_made_again_of_the_newest_base_and_what_came_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Manifest(files={"transfers": (named("base", 4), named("part", 5), named("part", 9))})
    there = {
        name: SimpleNamespace(kind=name[:4], seq=int(name[5:13]), file=f"file {name[5:13]}",
                              header=SimpleNamespace(service={"base_url": name}))
        for name in (named(kind, seq).name for kind, seq in (
            ("base", 2), ("part", 3), ("base", 4), ("part", 4), ("part", 5), ("part", 7)))
    }  # fmt: skip
    monkeypatch.setattr(repair, "numbers_of", lambda store: [3, 6, 5])
    asked: list[int] = []

    def load(store: Any, number: int) -> Manifest:
        asked.append(number)
        if number == 6:
            raise StoreDamaged("lost")
        return known

    monkeypatch.setattr(repair, "load_manifest", load)
    head: list[Any] = []
    monkeypatch.setattr(repair, "read_head", lambda store: head)
    monkeypatch.setattr(
        repair.disk, "files_in",
        lambda folder: [folder / name for name in there] if folder.name == "transfers" else [],
    )  # fmt: skip
    monkeypatch.setattr(repair, "_intact", lambda path, table: there[path.name])
    records = [SimpleNamespace(name="b"), SimpleNamespace(name="c"), SimpleNamespace(name="a")]
    monkeypatch.setattr(repair, "intact_records", lambda folder: records)
    for number, reached in ((8, 8), (2, 7)):
        head[:] = [number, ""]
        made = repair._made_again(tmp_path)
        assert made.files["transfers"] == (
            "file 00000004", named("part", 5), "file 00000007", named("part", 9),
        )  # fmt: skip
        assert made.files["events"] == ()
        assert (made.number, made.record) == (reached, "c")
        assert made.service["base_url"].startswith("part-00000007")
    assert asked == [6, 5] * 2


@pytest.mark.parametrize("held", [True, False])
def test_what_is_set_aside_is_moved_while_the_lock_is_held(
    tmp_path: Path, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "transfers"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(b"a")
    committed: list[Any] = []
    synced: list[tuple[Path, bool]] = []
    monkeypatch.setattr(
        repair.disk, "sync_folder",
        lambda one: synced.append((one, (folder / "a.parquet").exists())),
    )  # fmt: skip
    store: Any = SimpleNamespace(
        path=tmp_path, clock=lambda: 7,
        commit=lambda *given, **more: committed.append((given[1:], more)),
    )  # fmt: skip
    manifest = Manifest(files={"transfers": ()})
    found = Repair(["line"], [folder / "a.parquet"], ["b"], {"transfers": 5}, manifest)

    def check() -> None:
        if not held:
            raise StoreLocked("another run holds it")

    if not held:
        with pytest.raises(StoreLocked):
            set_aside(store, found, check)
        assert (folder / "a.parquet").exists()
        assert committed == []
        return
    set_aside(store, found, check)
    target = tmp_path / "set-aside" / "transfers" / "a.parquet"
    assert target.read_bytes() == b"a"
    # On disk, and there before it is gone here.
    assert synced[-2:] == [(target.parent, False), (folder, False)]
    content = {"lost": ["b"], "tables": {"transfers": 5}, "found": ["line"]}
    assert committed == [((7, manifest.files, [("repair", content)]), {"before": manifest})]
    found.aside, found.records = [], ["r"]
    set_aside(store, found, check)
    assert committed[1][0][2] == [("repair", content | {"records": ["r"]})]


def test_what_is_no_file_of_a_table_is_not_read(tmp_path: Path) -> None:
    for name in ("note.txt", f"{named('part', 1).name}.tmp", named("part", 1).name):
        (tmp_path / name).write_bytes(b"none")
        assert repair._intact(tmp_path / name, TRANSFERS) is None
