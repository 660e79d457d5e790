"""What every test starts from."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _log_levels() -> Iterator[None]:
    """The command line sets the level of its process: a test that calls it must not keep it."""
    ours = logging.getLogger("fundlab")
    level = ours.level
    yield
    ours.setLevel(level)
