"""The simulation runs in processes of its own, whose time and chance come from the seed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

import fundlab as fl
from tests.simulation.bugs import BUGS
from tests.simulation.happenings import Happening, drawn
from tests.simulation.reading import rows_of_folder, unsound
from tests.simulation.shrink import shrunk
from tests.simulation.sometimes import REACHED, STATES, never, sometimes

ROOT = Path(__file__).parents[2]
FRESH: Final = (
    int(os.environ.get("CAMPAIGN_SEED", os.environ.get("GITHUB_RUN_NUMBER", "7"))) * 100_000
)
"""The first of those that nobody has tried."""


def simulated(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0", **environment}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


@pytest.mark.thorough
def test_every_planted_fault_has_its_place_in_the_program() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) == 77
    for bug in BUGS:
        compile(bug.planted(), bug.file, "exec")


def test_what_happens_comes_from_the_seed() -> None:
    assert drawn(5, 2) == drawn(5, 2) != drawn(6, 2)


def test_shrinking_leaves_what_is_needed() -> None:
    happenings = [
        Happening(number, number, "payer", what)
        for number, what in enumerate(["pay", "kill", "sync", "message", "pay", "kill", "close"])
    ]

    def fails(some: list[Happening]) -> bool:
        return {2, 5} <= {one.number for one in some}

    assert [one.number for one in shrunk(happenings, fails)] == [2, 5]


def test_each_rare_state_stands_at_one_place_or_more() -> None:
    source = "".join(
        path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py")
        if path.name not in ("sometimes.py", Path(__file__).name)
    )  # fmt: skip
    assert {*re.findall(r'sometimes\(\s*"([^"]+)"', source)} == {*STATES}


def test_what_no_seed_has_reached_is_named() -> None:
    first, second = STATES[:2]
    try:
        sometimes(first, condition=[])
        assert never() == [*STATES]
        sometimes(first)
        assert never() == [*STATES[1:]]
        with pytest.raises(KeyError):
            sometimes(f"not {second}")
    finally:
        REACHED.clear()


def test_the_files_alone_give_what_the_store_reads() -> None:
    columns = ("status", "total", "updated_at")
    files = rows_of_folder(ROOT / "data" / "sample", columns)
    frame = fl.sample().read("transfers", columns=["id", *columns])
    frame["updated_at"] = frame["updated_at"].astype("int64")
    assert len(files) > 100
    assert files == {
        id_: dict(zip(columns, values, strict=True))
        for id_, *values in frame.itertuples(index=False)
    }


def test_files_that_do_not_agree_are_named(tmp_path: Path) -> None:
    assert unsound(ROOT / "data" / "sample") == []
    store = tmp_path / "store"
    shutil.copytree(ROOT / "data" / "sample", store)
    part = sorted((store / "events").glob("part-*"))[-1]
    rows, header = pq.read_table(part).slice(1), pq.read_metadata(part).metadata[b"fundlab"]
    with pq.ParquetWriter(part, rows.schema, compression="zstd") as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({"fundlab": header})
    wrong = unsound(store)
    for said in ("bytes, not", "is not what was written", "its footer", "says [", ": [4, "):
        assert any(said in one and part.name in one for one in wrong), (said, wrong)


@pytest.mark.thorough
def test_the_same_seed_makes_the_same_trace(tmp_path: Path) -> None:
    """Byte for byte: after another run in its process, and in another process, order of hashing,
    time zone, language and folder of temporary files."""
    once = simulated("--seed", "6", "--twice")
    assert once.returncode == 0, once.stdout
    lines = [re.sub(r" [0-9.]+ s: ", " ", line) for line in once.stdout.splitlines()]
    assert len(lines) == 2
    assert len(set(lines)) == 1
    elsewhere = {"PYTHONHASHSEED": "2", "TZ": "Pacific/Auckland", "LC_ALL": "C"}
    found = simulated("--seed", "6", TMPDIR=str(tmp_path), **elsewhere)
    assert re.sub(r" [0-9.]+ s: ", " ", found.stdout) == f"{lines[0]}\n"


@pytest.mark.thorough
def test_fresh_seeds() -> None:
    found = simulated("--seed", str(FRESH), "--seeds", "200", "--seconds", "75")
    assert found.returncode == 0, found.stdout


@pytest.mark.thorough
def test_a_planted_fault_is_found() -> None:
    bug = "a file is not synced before it gets its name"
    found = simulated("--seeds", "10", "--stop", "--bug", bug)
    assert found.returncode == 1
    assert "replay: python -m tests.simulation --seed" in found.stdout


@pytest.mark.campaign
def test_nearly_every_planted_fault_is_found() -> None:
    seeds = os.environ.get("SIMULATION_SEEDS", "200")
    found = simulated("--bugs", "--seeds", seeds)
    assert found.returncode == 0, found.stdout


@pytest.mark.campaign
def test_every_rare_state_is_reached() -> None:
    found = simulated("--seed", str(FRESH), "--seeds", "200", "--states")
    assert found.returncode == 0, found.stdout[-5000:]


@pytest.mark.campaign
def test_four_in_five_generated_faults_are_found() -> None:
    drawn_by = str(FRESH // 100_000)
    found = simulated("--bugs", "--mutants", drawn_by, "--count", "50", "--seeds", "30")
    assert found.returncode == 0, found.stdout[-5000:]


@pytest.mark.campaign
def test_many_seeds() -> None:
    count = os.environ.get("SIMULATION_SEEDS", "10000")
    found = simulated("--seed", str(FRESH), "--seeds", count, "--stop")
    assert found.returncode == 0, found.stdout[-5000:]
