"""What the store costs at ten million rows, beside one consolidated file and pandas.

Run ``python tests/benchmarks/store.py [--rows N] [--folder DIR]``: makes a store of N transfers,
syncs 1 % changed and 0.1 % new rows into it, and reads. ``--load`` loads N rows page by page
instead and prints the peak memory. Ratios are measured side by side in one run; exits with 1 if a
bar of the project is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from contenders import peak_mb
from load import Bar
from made_pages import transfer_record

from fundlab import Store
from fundlab.base.values import Instant
from fundlab.store import disk
from fundlab.store.changes import all_new, find_rows
from fundlab.store.parts import Header, Publication, write_part
from fundlab.tables import TABLES
from fundlab.tables.schema import SCHEMA_VERSION

BEGIN = Instant.parse("2025-01-01T00:00:00Z").ns
FIVE = ["id", "profile_id", "total", "status", "created_at"]
MADE = """
    SELECT md5(i::VARCHAR) AS id, 'order-' || i AS ref_id, 'customer-1' AS customer_id,
        'profile-' || (i % 40) AS profile_id, cents AS amount, 0 AS fee, cents AS total,
        'USD' AS asset, 'USD' AS balance_asset, 'CREDIT' AS direction, 'WIRE_DEPOSIT' AS "type",
        'COMPLETED' AS status, '{{"desk":"' || (i % 7) || '"}}' AS metadata,
        '{{}}' AS auto_conversion, 'invoice ' || i AS memo, i AS moment
    FROM (SELECT i, (hash(i) % 1000000000)::DECIMAL(18, 0) * 0.01 AS cents FROM range({}, {}) t(i))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--load", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="store-bench-", dir=options.folder))
    try:
        bars = load(folder, options.rows) if options.load else compare(folder, options.rows)
    finally:
        shutil.rmtree(folder)
    print()
    for bar in bars:
        print(bar)
    return 0 if all(bar.reached for bar in bars) else 1


def load(folder: Path, rows: int) -> list[Bar]:
    """A first sync of ``rows`` rows: is memory flat?"""
    source = Replicated(rows)
    seconds = timed(
        lambda: Store(folder / "store").sync(source, tables=["transfers"], progress=False)  # type: ignore[arg-type]
    )
    print(f"loaded {rows:,} rows in {seconds:.0f} s, peak {peak_mb():.0f} MB")
    return [Bar("load: peak memory, MB", peak_mb(), 450, False)]


def compare(folder: Path, rows: int) -> list[Bar]:
    store = Store(folder / "store")
    seconds = timed(lambda: build(store, rows))
    base = size_of(store)
    print(f"{rows:,} rows, {base / 2**20:,.0f} MB on disk, built in {seconds:.0f} s")
    before = store.snapshot("transfers").publications[-1].published_at
    whole = store.snapshot("transfers").files[0].path
    changed, new = rows // 100, rows // 1000
    source = Changed(rows, changed, new)
    synced = synced_copies(store, source, folder)
    store.sync(source, tables=["transfers"], progress=False)  # type: ignore[arg-type]
    written = size_of(store) - base
    rewritten = spent(lambda: rewrite_with_pandas(whole, source, folder / "rewritten.parquet"))
    print(f"sync {synced}, rewriting with pandas {rewritten}")
    bars = [
        Bar("sync: bytes written / bytes of the store, %", 100 * written / base, 3, False),
        Bar("sync: rewriting with pandas / sync", rewritten.wall / synced.wall, 20, True),
        Bar("  the same in processor time", rewritten.processor / synced.processor, 0, True),
    ]
    single = folder / "single.parquet"
    pq.write_table(store.read_arrow("transfers"), single, compression="zstd", compression_level=1)
    bars += reads(store, single, pd.Timestamp(before, tz="UTC"), "with a recent part")
    lookups(store, rows)
    print(f"compaction {spent(store.compact)}")
    return bars + reads(store, single, pd.Timestamp(before, tz="UTC"), "compacted")


def synced_copies(store: Store, source: Changed, folder: Path) -> Spent:
    """The median of syncs of copies, since a sync happens to a store once."""
    found = []
    for number in range(3):
        copy = Store(shutil.copytree(store.path, folder / f"copy-{number}"))
        found.append(spent(lambda copy=copy: copy.sync(source, ["transfers"], progress=False)))  # type: ignore[misc]
        shutil.rmtree(copy.path)
    return middle(found)


def reads(store: Store, single: Path, as_of: pd.Timestamp, state: str) -> list[Bar]:
    """Scanning one file, the newest rows and those of ``as_of``, in turns."""
    bars = []
    for names, limit in ((FIVE, 1.5), (["total"], 2.0), (["status"], 2.0)):
        works = {
            "one file": lambda names=names: pq.read_table(single, columns=names),
            "newest": lambda names=names: store.read_arrow("transfers", columns=names),
            "as_of": lambda names=names: store.read_arrow("transfers", as_of, columns=names),
        }
        rounds = [{name: spent(work) for name, work in works.items()} for _ in range(5)]
        took = {name: middle([one[name] for one in rounds]) for name in works}
        what = names[0] if len(names) == 1 else f"{len(names)} columns"
        for name in ("newest", "as_of"):
            ratio = took[name].wall / took["one file"].wall
            bars.append(Bar(f"{state}: {name}, {what} / one file", ratio, limit, False))
        print(f"{state}, {what}: " + ", ".join(f"{name} {took[name]}" for name in works))
    return bars


def lookups(store: Store, rows: int) -> None:
    """Printed only: a thousand ids, and one day of an even year."""
    chance = np.random.default_rng(7)
    wanted = [row[0] for row in duckdb.sql(
        f"SELECT md5(i::VARCHAR) FROM unnest({chance.integers(0, rows, 1000).tolist()}) t(i)"
    ).fetchall()]  # fmt: skip
    snapshot = store.snapshot("transfers")
    print(f"1,000 ids: {spent(lambda: find_rows(snapshot, pa.array(wanted)))}")
    print(f"5 ids: {spent(lambda: find_rows(snapshot, pa.array(wanted[:5])))}")
    first = pd.Timestamp(BEGIN, tz="UTC") + pd.Timedelta(rows // 2, "s")
    day = timed(lambda: store.read("transfers", since=first, until=first + pd.Timedelta(1, "D")))
    print(f"one day ({86_400:,} rows) as a frame: {day:.2f} s")


# ---------------------------------------------------------------------------- made-up services


class Changed:
    """Answers with the rows changed since: one in a hundred, and new ones."""

    base_url, client_id = "http://127.0.0.1:1", "bench"
    transport = SimpleNamespace(skew_s=0.0)

    def __init__(self, rows: int, changed: int, new: int) -> None:
        every = rows // changed
        self.numbers = [*range(every - 1, rows, every), *range(rows, rows + new)]
        if rows - 1 not in self.numbers:
            self.numbers.append(rows - 1)
        self.rows = made_rows(self.numbers)
        self.bodies = list(self._pages())

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes:
        return self.bodies[int(dict(params).get("page_cursor", "0"))]

    def _pages(self) -> Iterator[bytes]:
        moments = self.rows.column("created_at").cast(pa.int64()).to_pylist()
        plain = self.rows.drop_columns(["created_at", "updated_at"]).to_pylist()
        records = []
        for row, moment, number in zip(plain, moments, self.numbers, strict=True):
            sent = {name: value for name, value in row.items() if value is not None}
            for name in ("amount", "fee", "total"):
                sent[name] = f"{sent[name]:f}"
            for name in sent.keys() & {"metadata", "auto_conversion"}:
                sent[name] = json.loads(sent[name])
            at = str(Instant.from_ns(moment))
            later = str(Instant.from_ns(BEGIN + 10**17 + number))
            memo = f"corrected {number}"
            records.append({**sent, "memo": memo, "created_at": at, "updated_at": later})
        for start in range(0, len(records), 1000):
            cursor = str(start // 1000 + 1) if start + 1000 < len(records) else ""
            page = {"items": records[start : start + 1000], "next_page_cursor": cursor}
            yield json.dumps(page).encode()


class Replicated:
    """The same page of 1,000 records again and again, with other ids and moments."""

    base_url, client_id = "http://127.0.0.1:1", "bench"
    transport = SimpleNamespace(skew_s=0.0)

    def __init__(self, rows: int) -> None:
        self.pages = rows // 1000
        records = []
        for number in range(1000):
            record = transfer_record(number)
            at = f"2025-01-01T00:00:00.@@@@@@{number:03d}Z"
            record.update(id=f"{record['id'][:-6]}@@@@@@", created_at=at, updated_at=at)
            records.append(record)
        self.template = json.dumps({"items": records}).encode()[:-1]

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes:
        one = dict(params)
        if one.get("order_by") == "UPDATED_AT":
            return b'{"items":[]}'
        page = int(one.get("page_cursor", "0"))
        cursor = str(page + 1) if page + 1 < self.pages else ""
        body = self.template.replace(b"@@@@@@", b"%06d" % page)
        return body + f',"next_page_cursor":"{cursor}"}}'.encode()


# ---------------------------------------------------------------------------- the work


def build(store: Store, rows: int) -> None:
    """One part of ``rows`` transfers, one created every second."""
    table = TABLES["transfers"]
    size = 131_072

    def groups() -> Iterator[pa.Table]:
        for start in range(0, rows, size):
            yield from all_new(table, made_rows(range(start, min(start + size, rows))))

    last = made_rows([rows - 1])
    mark = {"at": str(Instant.from_ns(BEGIN + (rows - 1) * 10**9)), "id": last["id"][0].as_py()}
    service = {"base_url": "http://127.0.0.1:1", "client_id": "bench"}
    marks = {"created": mark, "updated": mark}
    with store.lock() as check_held:
        first = Publication(1, store.now(), 0, {"since": None}, marks)
        header = Header(table.name, SCHEMA_VERSION, service, (first,))
        draft = write_part(store.path / table.name, "part", table, header, groups())
        disk.publish(draft.hidden, draft.path)
        store.commit(check_held, store.now(), {table.name: [draft.file]}, service=service)


def made_rows(numbers: Sequence[int]) -> pa.Table:
    schema = TABLES["transfers"].schema
    picked = pa.table({"i": pa.array(numbers, pa.int64())})
    first, end = min(numbers), max(numbers) + 1
    query = MADE.format(first, end)
    if len(numbers) != end - first:
        query += " WHERE i IN (SELECT i FROM picked)"
    made = duckdb.sql(query + " ORDER BY moment").to_arrow_table()
    assert picked.num_rows == made.num_rows
    seconds = made.column("moment").to_numpy()
    moments = pa.array(BEGIN + seconds * 10**9).cast(pa.timestamp("ns", "UTC"))
    columns = []
    for field in schema:
        if field.name in ("created_at", "updated_at"):
            columns.append(moments)
        elif field.name in made.column_names:
            columns.append(made.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(made.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def rewrite_with_pandas(whole: Path, source: Changed, path: Path) -> None:
    """What is done without a store: read all, replace what changed, write all."""
    names = TABLES["transfers"].schema.names
    old = pq.read_table(whole, columns=names).to_pandas(types_mapper=pd.ArrowDtype)
    fresh = source.rows.to_pandas(types_mapper=pd.ArrowDtype)
    both = pd.concat([old, fresh]).drop_duplicates("id", keep="last")
    both.to_parquet(path, compression="zstd")


def size_of(store: Store) -> int:
    return sum(path.stat().st_size for path in store.path.rglob("*.parquet"))


class Spent(NamedTuple):
    """Seconds of one piece of work, on the clock and of the processors."""

    wall: float
    processor: float

    def __str__(self) -> str:
        return f"{self.wall:.3f} s ({self.processor:.3f} s of processors)"


def spent(work: Callable[[], object]) -> Spent:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return Spent(time.perf_counter() - wall, time.process_time() - processor)


def middle(found: Sequence[Spent]) -> Spent:
    return Spent(median(one.wall for one in found), median(one.processor for one in found))


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    sys.exit(main())
