"""Commands that ask a package registry, which now and then cannot be reached for a moment."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from typing import Any


def run_at_registry(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """What became of ``command``; run again, twice at most, where it could not connect."""
    for pause_s in (5, 20):
        done = subprocess.run(command, capture_output=True, text=True, **options)
        if done.returncode == 0 or "client error (Connect)" not in done.stderr:
            return done
        time.sleep(pause_s)
    return subprocess.run(command, capture_output=True, text=True, **options)
