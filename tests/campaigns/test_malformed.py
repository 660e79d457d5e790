"""Malformed input stops loudly: mutated pages and answers are a named error or read to the letter.

Real pages of every table and real answers of every operation, over real HTTP, with things wrong in
their values, structure, text and coding. After an error nothing of the table is stored; some are
followed by a sync from a sound service. Time and memory are those of each trial by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sandbox_answers import record_answers, record_pages

MAX_SECONDS, MAX_MB = 5, 512
WORKER = Path(__file__).with_name("mangled.py")


def test_five_hundred_mutants(tmp_path: Path, seed: int, figure: Any) -> None:
    mangle(tmp_path, seed, figure, 500)


@pytest.mark.campaign
def test_ten_thousand_mutants(tmp_path: Path, seed: int, figure: Any) -> None:
    mangle(tmp_path, seed, figure, 10_000)


def mangle(folder: Path, seed: int, figure: Any, count: int) -> None:
    given = {
        "seed": seed, "folder": str(folder / "stores"), "pages": record_pages(),
        "answers": record_answers(),
    }  # fmt: skip
    instructions = folder / "instructions.json"
    instructions.write_text(json.dumps(given))
    trials: list[dict[str, Any]] = []
    while len(trials) < count:
        trials += run_from(instructions, len(trials), count)
    outcomes = Counter(trial["outcome"].partition(":")[0] for trial in trials)
    right = outcomes.pop("right", 0)
    wrong = [trial for trial in trials if not trial["outcome"].isalnum()]
    named = count - right - len(wrong)
    slowest = max(trials, key=lambda trial: trial["cpu"])
    largest = max(trials, key=lambda trial: trial["mb"])
    figure(
        f"malformed input: {count:,} mutated pages and answers: {named:,} named errors, {right:,} "
        f"right, {len(wrong)} neither; longest {slowest['cpu']:.2f} s of computing "
        f"({max(trial['seconds'] for trial in trials):.2f} s), most memory {largest['mb']:.0f} MB"
    )
    assert not wrong, wrong[:20]
    assert slowest["cpu"] < MAX_SECONDS, slowest
    assert largest["mb"] < MAX_MB, largest
    assert min(right, named) > count // 20


def run_from(instructions: Path, first: int, count: int) -> list[dict[str, Any]]:
    """The trials up to one that ends the process, which is the last of them."""
    run = subprocess.run(
        [sys.executable, str(WORKER), str(instructions), str(first), str(count)],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    found = [json.loads(line) for line in run.stdout.splitlines()]
    if first + len(found) < count:
        last = {"trial": first + len(found), "outcome": f"died: {run.returncode}"}
        found.append({**last, "cpu": 0.0, "seconds": 0.0, "mb": 0.0})
    return found
