"""A nightly run in a process of its own, which can be made to die."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import fundlab as fl
from fundlab import reports
from fundlab.operate.notifications import beating

PACKAGE = str(Path(fl.__file__).parent)


def night(
    settings: dict[str, str], folder: Path, now: int, die_at: int | None, largest_file: int | None
) -> None:
    """What the script of ``fundlab schedule`` does, when a clock says ``now``; killed as it enters
    its ``die_at``-th function, or on a disk that takes no larger file. How many functions there
    were is in the file ``count``."""
    count = 0

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            count += 1
            if count == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    given: dict[str, Any] = settings
    sys.setprofile(watch)
    with beating("report", str(folder / "beat.json"), None) as outcome:
        outcome.status = 1
        with fl.connect(**given) as client:
            store = fl.Store(folder / "books", clock=lambda: now)
            store.sync(client)
        reports.catch_up(store, folder / "reports", ["csv"], since="2099-01")
        outcome.status = 0
    sys.setprofile(None)
    (folder / "count").write_text(str(count))
