"""Killed at any line, a close, a reopening or an annotation was made or was not, never half."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from killed_records import Runner, work

import fundlab as fl


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    started = Runner()
    yield started
    started.close()


@pytest.mark.parametrize("each", [10, pytest.param(67, marks=pytest.mark.campaign)])
def test_killed_anywhere_a_record_is_there_or_not(
    tmp_path: Path, runner: Runner, seed: int, figure: Any, each: int
) -> None:
    before = tmp_path / "before"
    for what in ("annotate", "close", "annotate"):
        work(fl.Store(before), what)
    known = [record.hash for record in fl.Store(before).records()]
    points = made = 0
    for what in ("close", "reopen", "annotate"):
        if what == "close":
            work(fl.Store(before), "reopen")  # so that it is open, and can be closed
            known.append(fl.Store(before).records()[-1].hash)
        elif what == "reopen":
            work(fl.Store(before), "close")
            known.append(fl.Store(before).records()[-1].hash)
        count = runner.run(shutil.copytree(before, tmp_path / "counted"), what)
        shutil.rmtree(tmp_path / "counted")
        assert count > each
        for number in range(each):
            folder = shutil.copytree(before, tmp_path / "store")
            assert runner.run(folder, what, 1 + number * (count - 1) // (each - 1)) == 0
            store = fl.Store(folder)
            found = [record.hash for record in store.records()]
            assert found[: len(known)] == known
            assert len(found) - len(known) in (0, 1)
            assert points % 20 or store.verify().ok  # which looks at pins and records, too
            frame = store.closes()
            assert set(frame["pin"]) <= set(store.pins())
            made += len(found) > len(known)
            points += 1
            # What was reopened cannot be again; whatever is written next removes what is left.
            again = "close" if what == "reopen" and len(found) > len(known) else what
            work(store, again)
            assert [r.hash for r in store.records()][: len(found)] == found
            assert store.records()[-1].kind == again
            assert not list(Path(folder).rglob("*.tmp"))
            shutil.rmtree(folder)
    figure(f"{points} kills of close, reopen and annotate: {made} made, none half")
    assert made
