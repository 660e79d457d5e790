"""How long an empty sandbox takes to start and stop, in fresh processes.

Run ``python tests/benchmarks/sandbox_start.py [RUNS]``. Prints the median milliseconds of importing
the package, of ``serve(empty=True)`` until it answers, of both together, and of stopping; and of
the processor that the process has used by then, Python's start included. Exits with 1 if that
misses the bar of 0.5 s, or if anything is left behind.
"""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median

RUNS = 9
BAR_MS = 500

CODE = """
import time
start = time.perf_counter()
import fundlab as fl
serve = fl.sandbox.serve
imported = time.perf_counter()
sandbox = serve(empty=True)
served, processor = time.perf_counter(), time.process_time()
import json, socket, threading, urllib.request
urllib.request.urlopen(sandbox.base_url + "/openapi.json").read()
stopping = time.perf_counter()
sandbox.stop()
stopped = time.perf_counter()
port = int(sandbox.base_url.rpartition(":")[2])
print(json.dumps({
    "import": imported - start, "serve": served - imported, "together": served - start,
    "stop": stopped - stopping, "processor": processor,
    "left": threading.active_count() - 1 + (socket.socket().connect_ex(("127.0.0.1", port)) == 0),
}))
"""


def main(runs: int) -> int:
    measured = [measure() for _ in range(runs)]
    times = {name: 1_000 * median(one[name] for one in measured) for name in measured[0]}
    print(f"{runs} fresh processes, median milliseconds (slowest)")
    for name in ("import", "serve", "together", "stop", "processor"):
        slowest = 1_000 * max(one[name] for one in measured)
        print(f"  {name:10}{times[name]:8.0f} ({slowest:.0f})")
    reached = times["processor"] <= BAR_MS and not times["left"]
    print(f"bar: {BAR_MS} ms of the processor, nothing left: {'MET' if reached else 'MISSED'}")
    return 0 if reached else 1


def measure() -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    times: dict[str, float] = json.loads(done.stdout)
    return times


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))
