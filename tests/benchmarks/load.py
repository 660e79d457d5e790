"""How fast a load into the store is, beside bare download, dlt, json_normalize and pydantic.

Run ``python tests/benchmarks/load.py [--rows N] [--repeats N] [--dlt PYTHON]``. Every contender is
a process of its own, timed from its start to its end against one page server, in turns, and the
median counts; the ratios are the result. dlt comes with the extra ``bench``; ``--dlt`` names
another Python that has it. ``--idle N`` compares only ``fundlab sync`` of a store of N transfers to
which nothing happened with ``fundlab --help``, ``--read N`` only reading such a store with Arrow's
reading of one file, ``--slope N`` what each further row and the rest take of N and of a fifth of
them, ``--frames N`` the loaders of transfers and of events (100 a page) with their download. Exits
with 1 if a bar of the project is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).parent
LATENCY_S = 0.05


class Measured(NamedTuple):
    seconds: float
    cpu_s: float
    peak_mb: float


class Bar(NamedTuple):
    """``ratio`` must be at least (or at most) ``limit``."""

    name: str
    ratio: float
    limit: float
    at_least: bool

    @property
    def reached(self) -> bool:
        return self.ratio >= self.limit if self.at_least else self.ratio <= self.limit

    def __str__(self) -> str:
        sign = "at least" if self.at_least else "at most"
        return (
            f"{self.name:58}{self.ratio:8.2f}   {'ok' if self.reached else 'MISSED'}: "
            f"{sign} {self.limit:g}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dlt", default=sys.executable)
    parser.add_argument("--idle", type=int)
    parser.add_argument("--read", type=int)
    parser.add_argument("--slope", type=int)
    parser.add_argument("--frames", type=int)
    options = parser.parse_args()
    if options.idle:
        bars = idle(options.idle, options.repeats)
    elif options.read:
        bars = reading(options.read, options.repeats)
    elif options.slope:
        bars = slope(options.slope, options.repeats)
    elif options.frames:
        bars = frames(options.frames, options.repeats)
    else:
        bars = decoding(min(options.rows, 50_000))
        with page_server(options.rows, 0) as url:
            bars += without_latency(url, options.repeats, options.dlt)
        with page_server(options.rows, LATENCY_S) as url:
            bars += with_latency(url, options.repeats, options.dlt)
    print()
    for bar in bars:
        print(bar)
    return 0 if all(bar.reached for bar in bars) else 1


# ---------------------------------------------------------------------------- what is compared


def decoding(rows: int) -> list[Bar]:
    """Page bytes → checked Arrow tables against page bytes → dictionaries."""
    import pyarrow as pa
    from made_pages import page_bodies

    from fundlab.tables import decode_page

    pa.set_cpu_count(1)
    bodies = list(page_bodies(rows))
    decode_page("transfers", bodies[0])
    rounds = []
    for _ in range(5):
        gc.collect()
        dictionaries = cpu_of(lambda: [json.loads(body) for body in bodies])
        gc.collect()
        each = cpu_of(lambda: [None for body in bodies if json.loads(body) is None])
        gc.collect()
        tables = cpu_of(lambda: [decode_page("transfers", body) for body in bodies])
        gc.collect()
        passing = cpu_of(lambda: [None for b in bodies if decode_page("transfers", b) is None])
        gc.collect()
        with ThreadPoolExecutor(2) as threads:
            started = time.perf_counter()
            for _ in threads.map(decode_halves, (bodies[::2], bodies[1::2])):
                pass
            on_two = time.perf_counter() - started
        started = time.perf_counter()
        for body in bodies:
            json.loads(body)
        on_one = time.perf_counter() - started
        rounds.append((tables, dictionaries, passing, each, on_one / on_two))
    tables, dictionaries, passing, each, two = (
        median(column) for column in zip(*rounds, strict=True)
    )
    print(f"decoding {rows:,} records, checked, to Arrow: {rows / tables:,.0f} a second if kept,")
    print(f"  {rows / passing:,.0f} if thrown away page by page;")
    print(f"  json.loads to dictionaries: {rows / dictionaries:,.0f} and {rows / each:,.0f}")
    return [
        Bar("decoding: records a second / json.loads, kept", dictionaries / tables, 2, True),
        Bar("decoding: the same, thrown away page by page", each / passing, 2, True),
        Bar("decoding: by two threads / json.loads, on the clock", two, 3.5, True),
    ]


def decode_halves(bodies: list[bytes]) -> None:
    from fundlab.tables import decode_page

    for body in bodies:
        decode_page("transfers", body)


def without_latency(url: str, repeats: int, dlt: str) -> list[Bar]:
    found = contest("no latency", url, repeats, dlt, ["1"])
    ours = found["fundlab"]
    bars = [
        Bar(
            "no latency: fundlab / download with requests",
            ours.seconds / found["requests"].seconds,
            2.5,
            False,
        ),
        Bar(
            "no latency: json_normalize / fundlab",
            found["normalize"].seconds / ours.seconds,
            3,
            True,
        ),
        Bar("no latency: peak memory, MB", ours.peak_mb, 300, False),
    ]
    if "dlt" in found:
        bars.append(Bar("no latency: dlt / fundlab", found["dlt"].seconds / ours.seconds, 10, True))
    return bars


def with_latency(url: str, repeats: int, dlt: str) -> list[Bar]:
    found = contest("50 ms a page", url, repeats, dlt, ["8"], names=("download", "fundlab", "dlt"))
    ours = found["fundlab"].seconds
    bars = [
        Bar(
            "50 ms: download one after another / fundlab", found["download"].seconds / ours, 4, True
        )
    ]
    if "dlt" in found:
        bars.append(Bar("50 ms: dlt / fundlab", found["dlt"].seconds / ours, 14, True))
    return bars


def slope(rows: int, repeats: int) -> list[Bar]:
    """What a further row takes beside a download of it, and what any number of rows does."""
    names, few = ("requests", "fundlab"), rows // 5
    sizes = []
    for size in (few, rows):
        with page_server(size, 0) as url:
            sizes.append(contest(f"{size:,} rows", url, repeats, "", ["1"], names))
    steps = {}
    for name in names:
        small, large = (found[name] for found in sizes)
        steps[name] = [(large[part] - small[part]) / (rows - few) for part in (0, 1)]
        fixed = [small[part] - steps[name][part] * few for part in (0, 1)]
        each, rest = ([f"{value * scale:.2f}" for value in both]
                      for both, scale in ((steps[name], 1e6), (fixed, 1)))  # fmt: skip
        print(f"  {name}: {each[0]} us a row ({each[1]} of the processor), "
              f"{rest[0]} s besides ({rest[1]})")  # fmt: skip
    return [
        Bar("a further row: fundlab / requests", steps["fundlab"][0] / steps["requests"][0],
            1.5, False),
        Bar("what no row takes, seconds", fixed[0], 0.7, False),
    ]  # fmt: skip


def frames(rows: int, repeats: int) -> list[Bar]:
    """The loaders into frames beside the download alone."""
    pairs = {"load_transfers": "requests", "load_events": "requests_events"}
    with page_server(rows, 0, rows) as url:
        found = contest("into frames", url, repeats, "", ["1"], (*pairs, *pairs.values()))
    return [
        Bar(f"{ours} / download with requests", found[ours].seconds / found[alone].seconds,
            2.5, False)
        for ours, alone in pairs.items()
    ]  # fmt: skip


def contest(
    title: str,
    url: str,
    repeats: int,
    dlt: str,
    workers: list[str],
    names: tuple[str, ...] = ("download", "requests", "fundlab", "normalize", "pydantic", "dlt"),
) -> dict[str, Measured]:
    print(f"\n{title}: seconds of the whole process (median of {repeats}), peak memory")
    if "dlt" in names and not has_dlt(dlt):
        print("  dlt        not installed: give --dlt PYTHON")
        names = tuple(name for name in names if name != "dlt")
    runs: dict[str, list[Measured]] = {name: [] for name in names}
    for _ in range(repeats):  # in turns: what else the machine does hits all of them
        for name in names:
            python = dlt if name == "dlt" else sys.executable
            runs[name].append(run(python, name, url, *workers))
    found: dict[str, Measured] = {}
    for name in names:
        one = found[name] = Measured(*(median(column) for column in zip(*runs[name], strict=True)))
        print(
            f"  {name:10}{one.seconds:8.2f} s{one.cpu_s:8.2f} s CPU{one.peak_mb:8.0f} MB",
            flush=True,
        )
    return found


def idle(rows: int, repeats: int) -> list[Bar]:
    """A sync to which nothing happened, less the time its requests take, and the start of the
    command line; by the processors' time, too."""
    from analysis_store import make_store
    from made_pages import transfer_record

    newest = transfer_record(1999)
    marks = {
        kind: {"at": newest[f"{kind}_at"], "id": newest["id"]} for kind in ("created", "updated")
    }
    with page_server(2000, 0) as url, tempfile.TemporaryDirectory() as folder:
        make_store(Path(folder) / "store", rows, {"base_url": url, "client_id": "c"}, marks)
        again = [sys.executable, str(HERE / "contenders.py"), "again", folder, url, "1"]
        timed(again)  # the rows at the watermark come again each time, and are known from now on
        ratios = []
        for _ in range(repeats):
            _, help_ = timed([sys.executable, "-m", "fundlab", "--help"])
            printed, sync = timed(again)
            requests = float(printed.split()[0])
            ratios.append((sync.seconds / (help_.seconds + requests), sync.cpu_s / help_.cpu_s))
            print(f"  idle {sync.seconds:.2f} s, {sync.cpu_s:.2f} s CPU; requests {requests:.2f} s")
            print(f"  --help {help_.seconds:.2f} s, {help_.cpu_s:.2f} s CPU", flush=True)
    wall, cpu = (median(column) for column in zip(*ratios, strict=True))
    print(f"idle sync / --help by the processors' time: {cpu:.2f}")
    return [Bar("idle sync / (--help and its requests)", wall, 2, False)]


def reading(rows: int, repeats: int) -> list[Bar]:
    """A store of one part, as it is and as of a moment, against the reading of that file by Arrow
    and by DuckDB; the frame's own types included."""
    import duckdb
    import pyarrow.parquet as pq
    from analysis_store import make_store

    from fundlab.tables import TABLES, to_frame

    with tempfile.TemporaryDirectory() as folder:
        store = make_store(Path(folder) / "store", rows)
        (path,) = (Path(folder) / "store").rglob("part-*.parquet")
        schema, engine = TABLES["transfers"].schema, duckdb.connect()
        engine.execute("SET TimeZone = 'UTC'")
        names = ", ".join(f'"{name}"' for name in schema.names)
        query = f"SELECT {names} FROM read_parquet('{path}')"
        ways = {
            "read_table": lambda: pq.read_table(path),
            "and a frame": lambda: to_frame(pq.read_table(path), "transfers"),
            "DuckDB, a frame": lambda: to_frame(
                engine.sql(query).to_arrow_table().cast(schema), "transfers"
            ),
            "store.read": lambda: store.read("transfers"),
            "as_of": lambda: store.read("transfers", as_of="2030-01-01T00:00:00Z"),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(repeats):
            for name, way in ways.items():
                way()  # what came before leaves memory that need not be asked for again
                gc.collect()
                taken[name].append(process_cpu_of(way))
        took = {name: median(each) for name, each in taken.items()}
        print(f"reading {rows:,} rows, seconds of the processors: ", end="")
        print(", ".join(f"{name} {seconds:.2f}" for name, seconds in took.items()))
    arrow, duck = took["and a frame"], took["DuckDB, a frame"]
    return [
        Bar("store.read / read_table, made a frame", took["store.read"] / arrow, 1.5, False),
        Bar("store.read / DuckDB's, made a frame", took["store.read"] / duck, 1.1, False),
        Bar("store.read(as_of=) / DuckDB's", took["as_of"] / duck, 1.1, False),
    ]


def timed(command: list[str]) -> tuple[str, Measured]:
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stderr[-2000:]}")
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, Measured(seconds, cpu_s, 0)


def process_cpu_of(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def run(python: str, name: str, *arguments: str) -> Measured:
    folder = tempfile.mkdtemp(prefix="load-bench-")
    try:
        command = [python, str(HERE / "contenders.py"), name, folder, *arguments]
        printed, found = timed(command)
        return found._replace(peak_mb=float(printed.split()[-1]))
    finally:
        shutil.rmtree(folder)


def has_dlt(python: str) -> bool:
    found = subprocess.run([python, "-c", "import dlt"], capture_output=True, check=False)
    return found.returncode == 0


@contextmanager
def page_server(rows: int, latency_s: float, events: int = 0) -> Iterator[str]:
    command = [sys.executable, str(HERE / "page_server.py"), *map(str, (rows, latency_s, events))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def cpu_of(work: Callable[[], object]) -> float:
    """Seconds of this thread on a processor: what else the machine does hardly matters."""
    started = time.thread_time()
    work()
    return time.thread_time() - started


if __name__ == "__main__":
    sys.exit(main())
