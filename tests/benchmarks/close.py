"""What judging, verifying and closing a large store take, and whether more rows take more.

Run ``python tests/benchmarks/close.py [--rows N] [--parts N] [--times N]``. It makes a store of N
(1,000,000) transfers of 200 profiles in as many parts (700), and judges it, verifies it, and closes
a month of it with its pack; each in processes of its own, three in turns. Printed are the medians
of what the processor took of a whole process, and its memory at most. With ``--times`` another
store has so many times the rows, in as many parts, and must take no more than that times the
seconds. Exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from analysis_store import LARGE, make_store
from contenders import peak_mb

from fundlab import Store, reconcile
from fundlab import reports as reporting
from fundlab.base.values import moment_ns

ROWS, PARTS, ROUNDS = 1_000_000, 700, 3
SECONDS = {"judge": 3.5, "verify": 9.0, "close": 13.0}
MEGABYTES = 500.0
PERIOD, AFTER = "2026-10", "2027-01-02T00:00:00Z"


def main(rows: int, parts: int, times: int | None) -> bool:
    met = True
    with tempfile.TemporaryDirectory() as folder:
        took = {}
        for size in (rows, rows * times) if times else (rows,):
            store = Path(folder) / f"{size}"
            make_store(store, size, published_at=moment_ns(AFTER, "AFTER"), parts=parts)
            rounds = [
                {work: measured(work, store, Path(folder)) for work in SECONDS}
                for _ in range(ROUNDS if size >= LARGE else 1)
            ]
            for work, most in SECONDS.items():
                seconds, peak = (
                    statistics.median(one[work][name] for one in rounds) for name in ("s", "MB")
                )
                took[size, work] = seconds
                print(f"{size:,} rows in {parts:,} parts: {work:7}{seconds:6.2f} s  {peak:5.0f} MB")
                if size == rows:
                    met &= bar(f"  {work}, seconds", seconds, most)
                    met &= bar(f"  {work}, MB", peak, MEGABYTES)
                else:
                    ratio = seconds / took[rows, work]
                    met &= bar(f"  {work}, times that of {rows:,}", ratio, size / rows)
    return met


def bar(name: str, found: float, most: float) -> bool:
    print(f"{name:40}{found:8.2f}  bar {most:g}: {'MET' if found <= most else 'MISSED'}")
    return found <= most


def measured(work: str, store: Path, folder: Path) -> dict[str, float]:
    """What a process of its own took, on a fresh copy of the store."""
    copy = Path(shutil.copytree(store, folder / "copy"))
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--do", work, copy], capture_output=True, text=True,
            check=True,
        )  # fmt: skip
    finally:
        shutil.rmtree(copy)
    return dict(json.loads(done.stdout))


def do(work: str, path: Path) -> None:
    store = Store(path)
    if work == "judge":
        assert reconcile.judge(store).breaks == 0
    elif work == "verify":
        assert not store.verify().problems
    else:
        closed = store.close(PERIOD, with_breaks="no balance was observed", by="Ana")
        with tempfile.TemporaryDirectory(dir=path.parent) as pack:
            reporting.write_pack(store, closed, pack)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"s": used.ru_utime + used.ru_stime, "MB": peak_mb() * 1024**2 / 1e6}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--parts", type=int, default=PARTS)
    parser.add_argument("--times", type=int)
    parser.add_argument("--do", nargs=2, metavar=("WORK", "STORE"), help="in a process of its own")
    given = parser.parse_args()
    if given.do:
        do(given.do[0], Path(given.do[1]))
        sys.exit(0)
    sys.exit(0 if main(given.rows, given.parts, given.times) else 1)
