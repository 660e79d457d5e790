"""What a start takes of the processor: a client in Python, and the commands that look around.

Run ``python tests/benchmarks/start.py [RUNS]``. Each is a process of its own, in turns, medians,
Python's start included: ``import fundlab`` and ``fl.connect``, ``fundlab status`` and ``fundlab
balances`` on the tracked sample. Exits with 1 if a bar is missed: 0.25 s for the client, 0.6 s for
each command.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from report import SAMPLE, child_seconds, verdict

RUNS = 7
CONNECT = """
import fundlab as fl
fl.connect(base_url="http://127.0.0.1:1", auth_url="http://127.0.0.1:1", client_id="c",
           client_secret="s")
"""


def main(runs: int) -> bool:
    command = str(Path(sys.executable).with_name("fundlab"))
    with tempfile.TemporaryDirectory() as folder:
        store = shutil.copytree(SAMPLE, Path(folder) / "store")
        starts = {
            "import and connect": (0.25, [sys.executable, "-c", CONNECT]),
            "fundlab status": (0.6, [command, "status", "--offline", "--store", str(store)]),
            "fundlab balances": (0.6, [command, "balances", "--store", str(store)]),
        }
        took = {name: [] for name in starts}
        for _ in range(runs):
            for name, (_, words) in starts.items():
                took[name].append(child_seconds(words, (0, 1)))  # 1: nobody synced the sample
    met = True
    for name, (bar, _) in starts.items():
        middle = statistics.median(took[name])
        print(f"{name:20}{middle:6.2f} s of the processor  bar {bar:g}: {verdict(middle <= bar)}")
        met &= middle <= bar
    return met


if __name__ == "__main__":
    sys.exit(0 if main(int(sys.argv[1]) if sys.argv[1:] else RUNS) else 1)
