"""What the page for the next engineer says how to change is changed so, in a copy."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fundlab import docs

PAGE = docs.SOURCE / "guides" / "maintaining.md"
DIFFS = re.findall(r"```diff\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
SECTION, FORMAT, ANALYSIS, TYPE = DIFFS
READS = """
from pathlib import Path
import fundlab as fl
Path("lines.txt").write_text("LINES\\n2026-10-01;12.50;rent back\\n2026-10-02;-2.25;fee\\n")
found = fl.bank.read("lines.txt", asset="USD", account="a", opening="1", closing="11.25")
print(found.entries["amount"].tolist(), found.statements["proved"].tolist())
"""
HISTORY = """
import fundlab as fl
with fl.sandbox.serve(seed=7, transfers=500, clock="manual") as sandbox:
    for row in sandbox.connect().list_transfers(order="ASC"):
        print(row.id, row.created_at, row.profile_id, row.asset, row.direction, row.type)
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    root = docs.PACKAGE.parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(docs.PACKAGE, tmp_path / "fundlab", ignore=ignored)
    shutil.copytree(root / "data" / "sample", tmp_path / "data" / "sample")
    shutil.copytree(root / "tests", tmp_path / "tests", ignore=ignored)
    shutil.copy(root / "pyproject.toml", tmp_path)
    return tmp_path


def changed(
    copy: Path, diff: str, command: list[str], part: str = "*"
) -> subprocess.CompletedProcess[str]:
    """What a command says once the diff is applied, or what it says of files below ``part``."""
    applied = subprocess.run(
        ["git", "apply", "--recount", f"--include={part}", "-"],
        input=diff, text=True, cwd=copy, capture_output=True,
    )  # fmt: skip
    assert applied.stderr == ""
    return ran(copy, command)


def ran(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(folder), "HOME": str(folder), "PATH": ""}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, text=True, capture_output=True
    )


def places(diff: str) -> int:
    return len(re.findall(r"^\+\+\+ ", diff, re.MULTILINE))


@pytest.mark.seconds
def test_a_format_of_statements_is_two_places(copy: Path) -> None:
    done = changed(copy, FORMAT, ["-c", READS])
    assert done.stderr == ""
    assert done.stdout == "[Decimal('12.5'), Decimal('-2.25')] ['balances']\n"
    assert places(FORMAT) == 2


@pytest.mark.thorough
def test_a_table_of_the_report_is_one_place_and_a_test_names_what_it_lacks(copy: Path) -> None:
    tests = "tests/reports/test_sections.py"
    done = changed(copy, SECTION, ["-m", "pytest", "-q", "-k", "largest or pairs", tests])
    assert places(SECTION) == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "COLUMNS of this test does not say what largest holds" in done.stdout
    assert "the docstring of Report does not describe ``largest``" in done.stdout


@pytest.mark.thorough
def test_an_analysis_is_named_until_it_is_tried(copy: Path) -> None:
    tests = ["-m", "pytest", "-q", "-m", "", "-k", "is_here or largest"]
    tests.append("tests/analysis/test_every_analysis.py")
    alone = changed(copy, ANALYSIS, tests, "fundlab/*")
    assert "1 failed" in alone.stdout
    assert "'largest'" in alone.stdout
    done = changed(copy, ANALYSIS, tests, "tests/*")
    assert done.returncode == 0, done.stdout


@pytest.mark.thorough
def test_a_type_of_transfer_is_six_places_and_moves_no_other(copy: Path) -> None:
    assert places(TYPE) == 6
    tests = ["-m", "pytest", "-q", "-m", "", "-k", "pix or PIX or missing or Transfer or direction"]
    tests += ["tests/models", "tests/sandbox/test_sandbox_coverage.py"]
    tests.append("tests/sandbox/test_sandbox_fields.py")
    before = ran(docs.PACKAGE.parent, ["-c", HISTORY])
    alone = changed(copy, TYPE, tests, "fundlab/*")
    assert "'PIX_DEPOSIT'" in alone.stdout
    assert "'pix_key'" in alone.stdout
    done = changed(copy, TYPE, tests, "tests/*")
    assert done.returncode == 0, done.stdout
    after = ran(copy, ["-c", HISTORY])
    rows = [
        (was.split(), now.split())
        for was, now in zip(before.stdout.splitlines(), after.stdout.splitlines(), strict=True)
    ]
    assert all(was[:-2] == now[:-2] or now[-1] == "PIX_DEPOSIT" for was, now in rows)
    added = sum(now[-1] == "PIX_DEPOSIT" for _, now in rows)
    assert 10 <= added <= 40
    assert 0 <= sum(was != now for was, now in rows) - added <= 5
