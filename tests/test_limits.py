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
    assert 0 < float(request.config.getini("faulthandler_timeout")) <= 600
    assert request.config.getini("faulthandler_exit_on_timeout")


def _after_two_seconds(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    path = folder / "test_it.py"
    path.write_text(test, encoding="utf-8")
    command = [
        sys.executable, "-m", "pytest", "-p", "tests.conftest", "-m", "", "-p", "no:cacheprovider",
        "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder),
        "-o", "faulthandler_timeout=2", str(path),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)


@pytest.mark.thorough
def test_a_test_that_ignores_every_signal_is_ended_and_named(tmp_path: Path) -> None:
    done = _after_two_seconds(tmp_path, STUCK)
    assert done.returncode == 1
    assert "test_that_never_ends" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("mark", ["campaign", "slow"])
def test_a_campaign_may_take_longer(mark: str, tmp_path: Path) -> None:
    slept = f"import time, pytest\n@pytest.mark.{mark}\ndef test_it():\n    time.sleep(3)\n"
    done = _after_two_seconds(tmp_path, slept)
    assert done.returncode == 0, done.stdout


@pytest.mark.thorough
def test_children_can_be_interrupted_where_the_tests_run_in_the_background() -> None:
    """A shell starts what runs in the background with SIGINT ignored, which children inherit."""
    test = "tests/base/test_terminal.py::test_an_interrupted_question_is_no_answer"
    line = f"trap '' INT; exec {sys.executable} -m pytest -q -o faulthandler_timeout=120 {test}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stdout
