"""How fast balances are rebuilt, beside DuckDB by hand and beside only reading and writing.

Run ``python tests/benchmarks/analysis.py [ROWS] [FOLDER]`` (10,000,000 rows by default; the store
is made in FOLDER, or taken from there). Every measurement runs in a process of its own, in turns,
and prints its best time and largest memory; then the ratios, and whether they reach the bars of
the project. Exits with 1 if one is missed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from analysis_store import LARGE, make_store
from contenders import peak_mb

from fundlab import Store
from fundlab.analysis import balances
from fundlab.base.threads import produced

ROWS = 10_000_000
TURNS = 3
IN_MEMORY_ROWS = 2_000_000
COLUMNS = ["id", "profile_id", "asset", "created_at"]
READ = [*COLUMNS, "balance_asset", "direction", "status", "total"]
CODED = ["profile_id", "asset", "balance_asset", "direction", "status"]
CHANGE = "CASE direction WHEN 'CREDIT' THEN total ELSE -total END"
ASSET = "coalesce(balance_asset, asset)"
WINDOW = f"""
    SELECT id, profile_id, {ASSET} AS asset, created_at,
        sum({CHANGE}) OVER (PARTITION BY profile_id, {ASSET} ORDER BY created_at, id
            ROWS UNBOUNDED PRECEDING)::DECIMAL(38, 18) AS balance
    FROM transfers WHERE status = 'COMPLETED' ORDER BY created_at, id"""
DAILY = f"""
    WITH moved AS (
        SELECT profile_id, {ASSET} AS asset, (DATE '1970-01-01'
                + (epoch_ns(created_at) // 86400000000000)::INTEGER) AS date,
            sum({CHANGE}) AS change
        FROM transfers WHERE status = 'COMPLETED' GROUP BY ALL),
    bounds AS (SELECT profile_id, asset, min(date) AS first, max(date) AS last
        FROM moved GROUP BY ALL),
    days AS (SELECT profile_id, asset, unnest(generate_series(first, last, INTERVAL 1 DAY))::DATE
        AS date FROM bounds)
    SELECT profile_id, asset, date, sum(coalesce(change, 0)) OVER (
        PARTITION BY profile_id, asset ORDER BY date)::DECIMAL(38, 18) AS balance
    FROM days LEFT JOIN moved USING (profile_id, asset, date) ORDER BY ALL"""


# ------------------------------------------------------------------------- what is measured


def copy_only(store: Store, out: Path) -> int:
    """The columns read and written as the pass does, nothing computed."""
    (part,) = store.snapshot("transfers").files
    file = pq.ParquetFile(part.path, read_dictionary=CODED, page_checksum_verification=True)
    groups = (file.read_row_group(n, columns=READ) for n in range(file.num_row_groups))
    chosen = (rows.select([*COLUMNS, "total"]) for rows in produced([groups], 1))
    first = next(chosen)
    rows = 0
    with pq.ParquetWriter(
        out, first.schema, compression="zstd", compression_level=1, use_dictionary=CODED
    ) as writer:
        for table in _chain(first, chosen):
            writer.write_table(table, row_group_size=len(table))
            rows += len(table)
    return rows


def _chain(first: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from others


def streamed(store: Store, out: Path) -> int:
    return balances.write_running(store, out, COLUMNS)


def windowed(store: Store, out: Path) -> int:
    connection = duckdb.connect()
    _view(connection, store)
    connection.execute(
        f"COPY ({WINDOW}) TO '{out}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
    )
    return len(pq.ParquetFile(out).metadata.schema.names)


def daily_by_hand(store: Store, out: Path) -> int:
    connection = duckdb.connect()
    _view(connection, store)
    return connection.sql(DAILY).to_arrow_table().num_rows


def daily(store: Store, out: Path) -> int:
    return balances.daily(store).to_arrow_table().num_rows


def _view(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    (part,) = store.snapshot("transfers").files
    connection.execute(f"CREATE VIEW transfers AS SELECT * FROM read_parquet('{part.path}')")


_WANTED = ["id", "profile_id", "asset", "balance_asset", "direction", "status", "total",
           "created_at"]  # fmt: skip


def running_in_memory(store: Store, out: Path) -> int:
    return _in_turns(store, balances.running)


def running_in_memory_by_hand(store: Store, out: Path) -> int:
    query = WINDOW.replace("SELECT id,", "SELECT id, balance_asset, direction, status, total,")

    def by_hand(transfers: pa.Table) -> pa.Table:
        with duckdb.connect() as connection:
            connection.register("transfers", transfers)
            return connection.sql(query).to_arrow_table()

    return _in_turns(store, by_hand)


def _in_turns(store: Store, run: Callable[[pa.Table], pa.Table]) -> int:
    global _started
    (part,) = store.snapshot("transfers").files
    file = pq.ParquetFile(part.path)
    groups = [file.read_row_group(n, columns=_WANTED) for n in range(file.num_row_groups)]
    rows = pa.concat_tables(groups).slice(0, IN_MEMORY_ROWS).combine_chunks()
    _started = time.perf_counter()
    return run(rows).num_rows


_started = 0.0
MEASURES: dict[str, Callable[[Store, Path], int]] = {
    function.__name__: function
    for function in (
        copy_only, streamed, windowed, daily_by_hand, daily, running_in_memory,
        running_in_memory_by_hand,
    )
}  # fmt: skip

# ------------------------------------------------------------------------------------ report


def bars(rows: int) -> list[tuple[str, str, str, float]]:
    """What is compared to what, and the most its share of the time may be."""
    times = 4 if rows >= 50_000_000 else 3
    return [
        ("streamed", "copy_only", "reading and writing", 1.5),
        ("streamed", "windowed", "DuckDB's window by hand", 1 / times),
        ("daily", "daily_by_hand", "DuckDB by hand", 1.3),
        ("running_in_memory", "running_in_memory_by_hand", "DuckDB by hand", 1.0),
    ]


def main(rows: int, folder: Path) -> int:
    store = folder / str(rows)
    if not store.exists():
        make_store(store, rows)
    best: dict[str, dict[str, Any]] = {}
    names = [name for name in MEASURES if rows < 100_000_000 or name in ("copy_only", "streamed")]
    for _ in range(TURNS if LARGE <= rows <= ROWS else 1):
        for name in names:
            found = measure(name, store)
            if name not in best or found["seconds"] < best[name]["seconds"]:
                best[name] = found
    print(f"{rows:,} rows")
    for name, found in best.items():
        speed = rows / found["seconds"] / 1e6
        print(f"{name:28}{found['seconds']:8.2f} s{found['mb']:8.0f} MB{speed:8.2f} M rows/s")
    missed = [bar for bar in bars(rows) if not report(best, *bar)]
    if best["streamed"]["mb"] > 600:
        print("MISSED: more than 600 MB")
        return 1
    return 1 if missed else 0


def measure(name: str, store: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", name, str(store)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


def run_one(name: str, store: Path) -> None:
    global _started
    with tempfile.TemporaryDirectory(dir=store.parent) as folder:
        _started = time.perf_counter()
        MEASURES[name](Store(store), Path(folder) / "out.parquet")
        seconds = time.perf_counter() - _started
    print(json.dumps({"seconds": seconds, "mb": peak_mb()}))


def report(best: dict[str, dict[str, Any]], ours: str, theirs: str, what: str, bar: float) -> bool:
    if ours not in best or theirs not in best:
        return True
    ratio = best[ours]["seconds"] / best[theirs]["seconds"]
    verdict = "ok" if ratio <= bar else "MISSED"
    print(f"{verdict}: {ours} takes {ratio:.2f} x {what} (at most {bar:.2f})")
    return ratio <= bar


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        run_one(sys.argv[2], Path(sys.argv[3]))
    else:
        size = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
        if len(sys.argv) > 2:
            sys.exit(main(size, Path(sys.argv[2])))
        with tempfile.TemporaryDirectory() as made:
            sys.exit(main(size, Path(made)))
