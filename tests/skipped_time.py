"""A client's time in which no pause takes long: sleeping moves its clock instead."""

from __future__ import annotations

import time
from typing import Any

from fundlab.api.transport import Environment


def skipping(**other: Any) -> Environment:
    """``other`` are members of ``Environment``."""
    skipped = [0.0]

    def sleep(seconds: float) -> None:
        skipped[0] += seconds

    return Environment(clock=lambda: time.monotonic() + skipped[0], sleep=sleep, **other)
