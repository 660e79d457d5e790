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
SECTION, FORMAT = DIFFS
READS = """
from pathlib import Path
import fundlab as fl
Path("lines.txt").write_text("LINES\\n2026-10-01;12.50;rent back\\n2026-10-02;-2.25;fee\\n")
found = fl.bank.read("lines.txt", asset="USD", account="a", opening="1", closing="11.25")
print(found.entries["amount"].tolist(), found.statements["proved"].tolist())
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    root = docs.PACKAGE.parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(docs.PACKAGE, tmp_path / "fundlab", ignore=ignored)
    shutil.copytree(root / "data" / "sample", tmp_path / "data" / "sample")
    shutil.copytree(root / "tests" / "reports", tmp_path / "tests" / "reports", ignore=ignored)
    return tmp_path


def changed(copy: Path, diff: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    """What a command says once the diff is applied."""
    applied = subprocess.run(
        ["git", "apply", "--recount", "-"], input=diff, text=True, cwd=copy, capture_output=True
    )
    assert applied.stderr == ""
    environment = {"PYTHONPATH": str(copy), "HOME": str(copy), "PATH": ""}
    return subprocess.run(
        [sys.executable, *command], cwd=copy, env=environment, text=True, capture_output=True
    )


def test_a_format_of_statements_is_two_places(copy: Path) -> None:
    done = changed(copy, FORMAT, ["-c", READS])
    assert done.stderr == ""
    assert done.stdout == "[Decimal('12.5'), Decimal('-2.25')] ['balances']\n"
    assert len(re.findall(r"^\+\+\+ ", FORMAT, re.MULTILINE)) == 2


@pytest.mark.thorough
def test_a_table_of_the_report_is_one_place_and_a_test_names_what_it_lacks(copy: Path) -> None:
    tests = "tests/reports/test_sections.py"
    done = changed(copy, SECTION, ["-m", "pytest", "-q", "-k", "largest or pairs", tests])
    assert len(re.findall(r"^\+\+\+ ", SECTION, re.MULTILINE)) == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "COLUMNS of this test does not say what largest holds" in done.stdout
    assert "the docstring of Report does not describe ``largest``" in done.stdout
