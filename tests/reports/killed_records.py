"""Closes, reopenings and annotations, each killed at a chosen line of the store's own code.

Run as a script it reads a JSON object a line, forks, and answers how the run ended: a process that
has imported everything forks in no time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import fundlab as fl
from fundlab.evidence.closes import seal
from fundlab.store import disk

HERE = str(Path(disk.__file__).parent)
CONTENT: dict[str, Any] = {
    "period": "2026-02", "basis": "settled", "tz": "UTC", "by": "Ana", "note": None,
    "first": "2026-02-01T00:00:00Z", "end": "2026-03-01T00:00:00Z",
    "known_at": "2026-03-02T00:00:00Z", "lines": [["p", "USD", "closing", "", "1.5"]],
    "opening": [], "open_items": [], "figures": {}, "accepted": None, "restates": None,
    "versions": {},
}  # fmt: skip


def work(store: fl.Store, what: str) -> None:
    if what == "close":
        with store.lock() as check_held:
            seal(store, CONTENT, check_held)
    elif what == "reopen":
        store.reopen("2026-02", by="Ben", reason="a fee was wrong")
    else:
        store.annotate("bank-0123456789abcdef0123", comment="the bank was asked", by="Ben")


class Killer:
    """Counts the lines of the store's code that are run, and kills the process before one."""

    def __init__(self, line: int) -> None:
        self.line, self.count = line, 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        if event == "line":
            self.count += 1
            if self.count == self.line:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


class Runner:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, folder: Path, what: str, line: int = 0) -> int:
        """How many lines were run, 0 where it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), what, line]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


def main() -> None:
    for line in sys.stdin:
        folder, what, number = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            killer = Killer(number)
            store = fl.Store(folder)
            sys.settrace(killer)
            work(store, what)
            sys.settrace(None)
            os.write(write, str(killer.count).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            counted = answer.read()
        os.waitpid(child, 0)
        print(counted or 0, flush=True)


if __name__ == "__main__":
    main()
