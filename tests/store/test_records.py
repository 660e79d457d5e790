"""A record is read as it was written, however often, and never as it was damaged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import fundlab as fl
from fundlab.base.errors import InvalidRequest, StoreDamaged
from fundlab.store.records import check_texts, intact_records, needed, read_record

SAMPLE = Path(__file__).parents[2] / "data" / "sample"


def test_one_that_somebody_holds_is_not_parsed_again_but_its_file_is_checked(
    tmp_path: Path,
) -> None:
    store = fl.Store(shutil.copytree(SAMPLE, tmp_path / "store"))
    held, again = store.records(), store.records()
    assert held
    assert all(one is other for one, other in zip(held, again, strict=True))
    path = tmp_path / "store" / "records" / held[-1].name
    path.write_bytes(path.read_bytes().replace(b'"kind"', b'"kinD"', 1))
    with pytest.raises(StoreDamaged, match="is not what was written"):
        store.records()


@pytest.mark.parametrize(
    ("text", "kept", "refused"),
    [
        ("Ana", True, ""), ("", True, "give a text"), (" \n", True, "give a text"),
        (None, True, "give a text"), (7, False, "give a text"), (b"x", False, "give a text"),
        ("\ud83d", False, "is not valid Unicode: it holds half a character"),
    ],
)  # fmt: skip
def test_a_text_that_no_table_could_hold_is_refused(text: Any, kept: bool, refused: str) -> None:
    """One that is needed says something, too."""
    for check, says in ((check_texts, "" if kept else refused), (needed, refused)):
        if not says:
            check(by="Ben", reason=text)
            continue
        with pytest.raises(InvalidRequest, match=f"reason=.*{says}"):
            check(by="Ben", reason=text)


def test_those_that_are_what_was_written(tmp_path: Path) -> None:
    store = fl.Store(shutil.copytree(SAMPLE, tmp_path / "store"))
    folder = tmp_path / "store" / "records"
    held = store.records()
    (folder / "notes.txt").write_text("of somebody")
    broken = folder / held[0].name
    broken.write_bytes(broken.read_bytes() + b" ")
    assert intact_records(folder) == held[1:]
    with pytest.raises(StoreDamaged, match="is missing"):
        read_record(folder / "00000099-0123456789abcdef.json")
