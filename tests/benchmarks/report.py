"""What a month's report takes: of the sample as a command, of a large store beside reading it.

Run ``python tests/benchmarks/report.py [ROWS] [STORE]``. First ``fundlab report`` of the tracked
sample, each time in a process of its own, the page alone and with workbook and CSV: medians of the
processor's seconds, imports included. Then a store of ROWS (1,000,000; 0 leaves it out) transfers
of 200 profiles without any observed balance, so that all 1,400 balances are breaks, or the STORE
given: seconds of the processor, how many times those of reading the transfers once, peak memory
and the size of the page. Exits with 1 if a bar is missed: 2 s and 4 s for the sample, 5 times the
reading, 500 MiB, 3 MB of HTML.
"""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from analysis_store import LARGE, make_store

from fundlab import Store, reports
from fundlab.base.values import moment_ns

ROWS = 1_000_000
TIMES, MEBIBYTES, PAGE_BYTES = 5.0, 500.0, 3_000_000
SAMPLE = Path(__file__).parents[2] / "data" / "sample"
SAMPLE_BARS = {"html": 2.0, "html,xlsx,csv": 4.0}
RUNS = 5
AS_OF = "2027-01-02T00:00:00Z"
PERIOD = "2026-10"


def sample_reports(runs: int) -> bool:
    met = True
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SAMPLE, store := Path(folder) / "store")  # which is told of each report
        for formats, bar in SAMPLE_BARS.items():
            command = [str(Path(sys.executable).with_name("fundlab")), "report", "--period", PERIOD]
            command += ["--store", str(store), "--out", f"{folder}/out", "--format", formats]
            took = statistics.median(child_seconds(command) for _ in range(runs))
            print(f"sample, {formats:14} {took:5.2f} s of the processor  "
                  f"bar {bar:g}: {verdict(took <= bar)}")  # fmt: skip
            met &= took <= bar
    return met


def child_seconds(command: list[str], accepted: Collection[int] = (0,)) -> float:
    """Of the processor; an exit status that is not ``accepted`` is an error."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in accepted:
        raise RuntimeError(f"{command} ended with {done.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(rows: int, path: str | None) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        store = (
            Store(path)
            if path
            else make_store(Path(folder) / "store", rows, published_at=moment_ns(AS_OF, "AS_OF"))
        )
        start = time.process_time()
        report = reports.read_report(store, PERIOD, as_of=AS_OF)
        build = time.process_time() - start
        reports.write_report(report, Path(folder) / "page", ["html"])
        with_page = time.process_time() - start
        page_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        start = time.process_time()
        written = reports.write_report(report, Path(folder) / "out")
        work = build + time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        page = written.files[0].stat().st_size
        start = time.process_time()
        store.read("transfers")
        reading = time.process_time() - start
    print(f"{report.verdict.headline}; {PERIOD}: {report.key_figures[1].value} transfers")
    print(
        f"processor {work:8.1f} s   figures {build:.1f} s of it; with the page alone "
        f"{with_page:.1f} s, {with_page / reading:.1f} times the reading, {page_peak:.0f} MiB"
    )
    print(f"peak      {peak:8.0f} MiB bar {MEBIBYTES:g}: {verdict(peak < MEBIBYTES)}")
    print(f"page      {page / 1e6:8.2f} MB  bar {PAGE_BYTES / 1e6:g}: {verdict(page < PAGE_BYTES)}")
    times = work / reading
    print(f"reading all transfers: {reading:.1f} s, the report {times:.1f} times that, "
          f"bar {TIMES:g}: {verdict(times <= TIMES)}")  # fmt: skip
    return times <= TIMES and peak < MEBIBYTES and page < PAGE_BYTES


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    given = sys.argv[1:]
    rows = int(given[0]) if given else ROWS
    met = sample_reports(1 if 0 < rows < LARGE else RUNS)
    if rows:
        met &= main(rows, given[1] if len(given) > 1 else None)
    sys.exit(0 if met else 1)
