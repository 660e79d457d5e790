"""What closing a month of a large store takes, beside its report.

Run ``python tests/benchmarks/close.py [ROWS] [STORE]``. It makes a store of ROWS (1,000,000)
transfers of 200 profiles without any observed balance, or takes a copy of the STORE given. In one
process, in turns: the month's report with all its files, then its close with its pack. Printed are
seconds of the processor of each, their medians, and the peak of the process's memory. Exits with 1
if a close with its pack takes more than 13 s, or the process more than 500 MB.
"""

from __future__ import annotations

import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from analysis_store import LARGE, make_store

from fundlab import Store
from fundlab import reports as reporting
from fundlab.base.values import moment_ns

ROWS, ROUNDS = 1_000_000, 3
SECONDS, MEGABYTES = 13.0, 500.0
PERIOD, AFTER = "2026-10", "2027-01-02T00:00:00Z"


def main(rows: int, path: str | None) -> bool:
    reports, closes, packs = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if path:
            shutil.copytree(path, place / "store")
        else:
            make_store(place / "store", rows, published_at=moment_ns(AFTER, "AFTER"))
        store = Store(place / "store")
        for number in range(ROUNDS if rows >= LARGE else 1):
            begin = time.process_time()
            report = reporting.read_report(store, PERIOD, as_of=AFTER)
            reporting.write_report(report, place / "report")
            reported = time.process_time()
            closed = store.close(PERIOD, with_breaks="no balance was observed", by="Ana")
            sealed = time.process_time()
            files = reporting.write_pack(store, closed, place / f"pack-{number}")
            written = time.process_time()
            store.reopen(PERIOD, by="Ana", reason="once more")
            reports.append(reported - begin)
            closes.append(sealed - reported)
            packs.append(written - sealed)
            size = sum(file.stat().st_size for file in files) / 1e6
            print(
                f"report {reports[-1]:6.1f} s   close {closes[-1]:6.1f} s   "
                f"pack {packs[-1]:6.1f} s, {size:.1f} MB"
            )
    both = statistics.median(close + pack for close, pack in zip(closes, packs, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(f"{rows:,} transfers: a report takes {statistics.median(reports):.1f} s")
    print(f"close and pack {both:5.1f} s   bar {SECONDS:g}: {verdict(both <= SECONDS)}")
    print(f"peak           {peak:5.0f} MB  bar {MEGABYTES:g}: {verdict(peak <= MEGABYTES)}")
    return both <= SECONDS and peak <= MEGABYTES


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    given = sys.argv[1:]
    met = main(int(given[0]) if given else ROWS, given[1] if len(given) > 1 else None)
    sys.exit(0 if met else 1)
