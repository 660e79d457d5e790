"""No test can hang, however the tests were started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STUCK = """
def test_that_never_ends():
    while True:
        try:
            import time; time.sleep(60)
        except BaseException:
            pass
"""


def test_every_test_has_a_limit(request: pytest.FixtureRequest) -> None:
    limit = float(request.config.getini("timeout"))
    assert 60 <= limit <= 600
    marks = [item.get_closest_marker("timeout") for item in request.session.items]
    assert all(mark is None or mark.args[0] > limit for mark in marks)


@pytest.mark.thorough
def test_a_test_that_ignores_every_signal_is_ended_and_named(tmp_path: Path) -> None:
    test = tmp_path / "test_stuck.py"
    test.write_text(STUCK, encoding="utf-8")
    config = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-o", "timeout=2"]
    command = [sys.executable, "-m", "pytest", *config, "-p", "no:cacheprovider", str(test)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "test_that_never_ends" in done.stdout + done.stderr


@pytest.mark.thorough
def test_children_can_be_interrupted_where_the_tests_run_in_the_background() -> None:
    """A shell starts what runs in the background with SIGINT ignored, which children inherit."""
    test = "tests/base/test_terminal.py::test_an_interrupted_question_is_no_answer"
    line = f"trap '' INT; exec {sys.executable} -m pytest -q -o timeout=120 {test}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stdout
