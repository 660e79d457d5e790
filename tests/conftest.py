"""What every test starts from, and what every campaign shares: a seed and a line with its figure.

``CAMPAIGN_SEED=11 pytest -m campaign`` replays all campaigns with seed 11. The default suite runs
each at a small part of its size.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from decimal import localcontext

import pytest

DEFAULT_SEED = 7

Figure = Callable[[str], None]


@pytest.fixture(autouse=True)
def _log_levels() -> Iterator[None]:
    """The command line sets the level of its process: a test that calls it must not keep it."""
    ours = logging.getLogger("fundlab")
    level = ours.level
    yield
    ours.setLevel(level)


@pytest.fixture(autouse=True)
def _decimal_context() -> Iterator[None]:
    """A test that calculates in a context of its own leaves none behind."""
    with localcontext():
        yield


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("CAMPAIGN_SEED", str(DEFAULT_SEED)))


@pytest.fixture
def figure(request: pytest.FixtureRequest, seed: int) -> Figure:
    """Say the campaign's figure; it stands at the end of the run, whatever became of the test."""
    return lambda text: request.node.user_properties.append(("figure", f"{text} (seed {seed})"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for found in terminalreporter.stats.values() for r in found if hasattr(r, "when")]
    said = [
        text
        for report in reports
        if report.when == "call"
        for name, text in report.user_properties
        if name == "figure"
    ]
    if said:
        terminalreporter.section("campaigns")
    for line in said:
        terminalreporter.write_line(line)
