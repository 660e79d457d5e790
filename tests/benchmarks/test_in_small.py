"""Every benchmark runs to its end, at a size that says nothing about its bars."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
SMALL = {
    "analysis": ["20000"],
    "bank": ["300"],
    "calls": [],
    "client": ["200"],
    "close": ["--rows", "2000", "--parts", "5", "--times", "2"],
    "daily": ["--days", "12", "--transfers", "5", "--rounds", "1"],
    "decimals": ["2000"],
    "load": ["--rows", "3000", "--repeats", "1"],
    "publish": ["3000"],
    "report": ["2000"],
    "sandbox_history": ["2000"],
    "sandbox_listing": ["3000"],
    "sandbox_start": ["1"],
    "start": ["1"],
    "store": ["--rows", "30000"],
}
PARTS = {"analysis_store", "contenders", "made_pages", "page_server"}  # of those above


def test_each_is_listed() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {Path(__file__).stem}
    assert scripts == SMALL.keys() | PARTS


@pytest.mark.thorough
@pytest.mark.parametrize("name", SMALL)
def test_it_runs(name: str, tmp_path: Path) -> None:
    """Exits with 0, or 1 for a bar that is missed, which means nothing here."""
    command = [sys.executable, FOLDER / f"{name}.py", *SMALL[name]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.strip()
