"""The sample store: what its recipe makes, proved, small, and never written to."""

from __future__ import annotations

import runpy
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fundlab as fl
from fundlab.bank import statements
from fundlab.base.errors import AnalysisError, InvalidRequest, StoreError
from fundlab.operate import store as home
from fundlab.tables import TABLES

ROOT = Path(__file__).parents[2]


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.mark.seconds
def test_the_recipe_makes_it(tmp_path: Path) -> None:
    make = runpy.run_path(str(ROOT / "data" / "make_sample.py"))["make"]
    made, kept = make(tmp_path / "made", tmp_path / "statements"), fl.sample()
    for path in fl.bank.sample():
        assert (tmp_path / "statements" / path.name).read_bytes() == path.read_bytes()
    for table in TABLES:
        pd.testing.assert_frame_equal(kept.history(table), made.history(table))
    assert kept.pins() == made.pins()


def test_its_statements_are_in_the_package_or_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As installed, and as in a checkout."""
    package = tmp_path / "fundlab"
    monkeypatch.setattr(statements, "__file__", str(package / "bank" / "statements.py"))
    with pytest.raises(AnalysisError, match="the sample's statements are not there; install fund"):
        statements.sample()
    for root in (tmp_path, package):  # those that are installed count first
        folder = root / "data" / "statements"
        folder.mkdir(parents=True)
        for name in ("b.xml", "a.xml", "more.txt"):
            (folder / name).touch()
        assert statements.sample() == [folder / "a.xml", folder / "b.xml"]


def test_it_is_a_year_that_reconciles_and_small() -> None:
    store = fl.sample()
    transfers = store.read("transfers")
    days = transfers["created_at"]
    assert len(transfers) == 3_000
    assert days.max() - days.min() > pd.Timedelta(days=360)
    assert store.verify().ok
    assert fl.reconcile.judge(store).state == "proved"
    assert len(store.read("transfers", pin="october")) == 3_000
    assert sum(len(data) for data, _ in content(Path(str(store.path))).values()) < 2_000_000


def test_nothing_is_written_to_it() -> None:
    folder = Path(str(fl.sample().path))
    before = content(folder)
    store = fl.sample()
    store.read("transfers")
    store.scan("transfers").aggregate("count(*)").fetchall()
    fl.reconcile.judge(store)
    for write in (
        lambda: store.pin("mine"),
        store.compact,
        lambda: store.publish(folder / "current"),
    ):
        with pytest.raises(fl.errors.FundlabError, match=r"read-only; copy the folder|within"):
            write()
    assert content(folder) == before


@pytest.mark.thorough
def test_no_command_writes_to_it_either(tmp_path: Path, fundlab: Any) -> None:
    folder = Path(str(fl.sample().path))
    before = content(folder)
    (tmp_path / "link").symlink_to(folder)
    asked = ("2026-10", "--store", tmp_path / "link", "--out", tmp_path / "out")
    assert fundlab("report", *asked, "--format", "csv")[0] == 0
    assert fundlab("close", *asked)[0] == 1
    for within in (folder, folder / "transfers", folder / "new" / "2026"):
        status, _, told = fundlab("report", "--store", folder, "--out", within, "--format", "csv")
        refused = f"out='{within}' is within the store {folder}: give a folder beside it"
        assert (status, refused in told) == (1, True)
    assert content(folder) == before


@pytest.mark.thorough
def test_nor_to_that_of_a_clone_that_is_installed_elsewhere(tmp_path: Path, fundlab: Any) -> None:
    sample = tmp_path / "data" / "sample"
    shutil.copytree(str(fl.sample().path), sample)
    shutil.copy(ROOT / "data" / "make_sample.py", sample.parent)
    before = content(sample)
    asked = ("2026-10", "--store", sample, "--out", tmp_path / "out", "--format", "csv")
    assert fundlab("report", *asked)[0] == 0
    assert content(sample) == before


def test_the_root_of_a_disk_is_a_folder_without_a_store() -> None:
    with pytest.raises(StoreError, match="there is no store at /;"):
        fl.Store("/").read("transfers")


def test_a_copy_can_be_written_to(tmp_path: Path) -> None:
    shutil.copytree(str(fl.sample().path), tmp_path / "mine")
    mine = fl.Store(tmp_path / "mine")
    mine.pin("mine")
    assert list(mine.pins()) == ["october", "mine"]


def test_what_is_written_from_it_goes_to_no_folder_named_s3(
    tmp_path: Path, fundlab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line has made ``s3:/b/x`` of it before anything looks at it."""
    shutil.copytree(str(fl.sample().path), tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    for command, to in (
        (("report", "2026-10"), "s3://b/x"),
        (("close", "2026-10"), "s3://b/x"),
        (("export", "transfers"), "s3://b/x.csv"),
        (("books", "2026-10"), "s3://b/x.csv"),
        (("anchor",), "gs://b/x.json"),
    ):
        status, out, err = fundlab(*command, "--store", "mine", "--out", to)
        assert (status, out) == (1, ""), command
        assert f"='{to}': give a file or folder of this machine" in err
    mine = fl.Store("mine")
    with pytest.raises(InvalidRequest, match=r"path='s3://b/x\.parquet': give a file or folder"):
        fl.balances.write_running(mine, "s3://b/x.parquet")
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]
    assert mine.closes().empty


def test_a_wheel_holds_it_where_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    included = targets["build"]["targets"]["wheel"]["force-include"]
    assert included["data/sample"] == "fundlab/data/sample"
    assert home._SAMPLES == (
        ROOT / "fundlab" / "data" / "sample",
        ROOT / "data" / "sample",
    )
    monkeypatch.setattr(home, "_SAMPLES", (tmp_path / "no", tmp_path / "where"))
    with pytest.raises(StoreError, match="the sample store is not at"):
        fl.sample()
