"""A record is read as it was written, however often, and never as it was damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import fundlab as fl
from fundlab.base.errors import StoreDamaged

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
