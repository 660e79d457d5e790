"""What goes wrong at night is told in the morning, and nothing else is."""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nights import night

import fundlab as fl
from fundlab import sandbox
from fundlab.base.values import Instant
from fundlab.operate.status import status

HOUR = 3600 * 10**9
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["nights", "fundlab.reports", "fundlab.operate.store"])

Night = Callable[..., int | None]


@pytest.fixture(scope="module")
def service() -> Iterator[sandbox.Sandbox]:
    with sandbox.serve(seed=7, transfers=30) as serving:
        yield serving


@pytest.fixture
def run(service: sandbox.Sandbox) -> Night:
    names = ("base_url", "auth_url", "client_id", "client_secret")
    settings = {name: service.announcement()[name] for name in names}

    def one(
        folder: Path, now: int, die_at: int | None = None, largest_file: int | None = None
    ) -> int | None:
        process = PROCESSES.Process(
            target=night, args=(settings, folder, now, die_at, largest_file)
        )
        process.start()
        process.join(120)
        return process.exitcode

    return one


@pytest.fixture
def after_a_good_night(run: Night, tmp_path: Path) -> tuple[Path, int]:
    folder = tmp_path / "good"
    folder.mkdir()
    now = Instant.parse("2026-11-20T06:00:00Z").ns
    assert run(folder, now) == 0
    return folder, now


def morning(folder: Path, now: int) -> str:
    """What status says, three hours after the run at ``now`` was due; nothing while all is well."""
    found = status(fl.Store(folder / "books"), now=now + 3 * HOUR)
    return "" if found.ok else str(found)


def left_by(folder: Path) -> dict[str, bytes]:
    """Each file that a night left behind, but who held the lock, the heartbeat and the count."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in (".lock", "beat.json", "count")
    }


@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.campaign)])
def test_a_run_that_was_killed_is_told_in_the_morning(
    run: Night, after_a_good_night: tuple[Path, int], tmp_path: Path, seed: int, kills: int,
    figure: Callable[[str], None],
) -> None:  # fmt: skip
    good, first = after_a_good_night
    now = first + 24 * HOUR
    counted = shutil.copytree(good, tmp_path / "counted")
    assert run(counted, now) == 0
    assert morning(counted, now) == ""
    calls = int((counted / "count").read_text())
    chance, told, over = random.Random(seed), 0, 0
    # The last of them comes after the last word to the heartbeat.
    for number, at in enumerate([*sorted(chance.sample(range(1, calls), kills - 1)), calls]):
        folder = shutil.copytree(good, tmp_path / f"killed-{at}")
        assert run(folder, now, die_at=at) == -9
        # Told in the morning: status says whatever is missing in the books, and the heartbeat began
        # and did not end, or did not begin. Else the night had done all that an undisturbed one
        # does, file by file.
        beat, before = (json.loads((one / "beat.json").read_text()) for one in (folder, good))
        said = morning(folder, now)
        assert said or left_by(folder / "books") == left_by(counted / "books"), at
        heard = bool(said) or beat["ended"] is None or beat == before
        if not heard:
            assert left_by(folder) == left_by(counted), at
            assert (beat["command"], beat["status"]) == ("report", 0), at
        told += heard
        over += not heard
        if number % 4 == 0:  # one more night, and nothing is said
            assert run(folder, now + 24 * HOUR) == 0
            assert morning(folder, now + 24 * HOUR) == ""
        shutil.rmtree(folder)
        if number % 20 == 19:  # of a run that is cut, too
            print(f"{number + 1} killed, {told} told", flush=True)
    figure(f"{kills} nightly runs killed: {told} told by status or heartbeat, {over} with nothing "
           "left undone; later nights silent")  # fmt: skip
    assert told + over == kills


@pytest.mark.thorough
def test_a_dead_timer_a_full_disk_and_a_clock_that_jumps(
    run: Night, after_a_good_night: tuple[Path, int], tmp_path: Path
) -> None:
    good, first = after_a_good_night
    now = first + 24 * HOUR
    assert "the last was 1 d 3 h ago" in morning(good, now)
    full = shutil.copytree(good, tmp_path / "full")
    assert run(full, now, largest_file=64) == 1
    assert "the last was 1 d 3 h ago" in morning(full, now)
    ahead = shutil.copytree(good, tmp_path / "ahead")
    run(ahead, now + 12 * HOUR)
    assert "which is yet to come: set the clock right" in morning(ahead, now)
    behind = shutil.copytree(good, tmp_path / "behind")
    run(behind, now - 40 * 24 * HOUR)
    assert "see whether the timer runs" in morning(behind, now)
