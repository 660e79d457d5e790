"""The documentation, built once a run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
BUILD: Final = """import sys; from pathlib import Path; from fundlab.cli import root_command
from fundlab.docs import build; build(root_command(), Path(sys.argv[1]), strict=True)"""


def built(folder: Path) -> None:
    command = [sys.executable, "-c", BUILD, str(folder)]  # Sphinx changes logging and docutils
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)  # of its process
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def site(once_a_run: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """Built without a warning."""
    return once_a_run("site", built)
