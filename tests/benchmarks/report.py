"""What a month's report of a large store takes: time, memory, and the size of the page.

Run ``python tests/benchmarks/report.py [ROWS] [STORE]``. It makes a store of ROWS (1,000,000)
transfers of 200 profiles without any observed balance, so that all 1,400 balances are breaks, or
takes the STORE given. Printed are seconds (of the processor, too: other work on the machine does
not count there), peak memory, and how many times the time it takes to read the transfers once.
Exits with 1 if a bar is missed: 20 s, 1 GiB, 3 MB of HTML.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from analysis_store import make_store

from fundlab import Store, reports

ROWS = 1_000_000
SECONDS, MEBIBYTES, PAGE_BYTES = 20.0, 1024.0, 3_000_000
AS_OF = "2027-01-02T00:00:00Z"
PERIOD = "2026-10"


def main(rows: int, path: str | None) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(path) if path else make_store(Path(folder) / "store", rows)
        wall, work = time.perf_counter(), time.process_time()
        report = reports.read_report(store, PERIOD, as_of=AS_OF)
        built = time.perf_counter()
        written = reports.write_report(report, Path(folder) / "out")
        wall, work, build = (
            time.perf_counter() - wall, time.process_time() - work, built - wall,
        )  # fmt: skip
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        page = written.files[0].stat().st_size
        start = time.perf_counter()
        store.read("transfers")
        reading = time.perf_counter() - start
    print(f"{report.verdict.headline}; {PERIOD}: {report.key_figures[1].value} transfers")
    print(f"wall      {wall:8.1f} s   bar {SECONDS:g}, figures {build:.1f} s of it")
    print(f"processor {work:8.1f} s")
    print(f"peak      {peak:8.0f} MiB bar {MEBIBYTES:g}")
    print(f"page      {page / 1e6:8.2f} MB  bar {PAGE_BYTES / 1e6:g}")
    print(f"reading all transfers: {reading:.1f} s, the report {wall / reading:.1f} times that")
    return wall < SECONDS and peak < MEBIBYTES and page < PAGE_BYTES


if __name__ == "__main__":
    given = sys.argv[1:]
    met = main(int(given[0]) if given else ROWS, given[1] if len(given) > 1 else None)
    sys.exit(0 if met else 1)
