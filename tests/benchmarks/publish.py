"""What is published beside a store of a million transfers: is it the same to each engine, and what
does a second publication write after one in a hundred changed?

Run ``python tests/benchmarks/publish.py [ROWS]``: the store's transfers are a year's. The newest
1 % change, then 1 % all over the year, which no partition by month can spare. Exits with 1 if an
engine's sums are not those of ``store.read``, or if after the first change more than a tenth of
the bytes is written again.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

import deltalake
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from analysis_store import START, YEAR_NS, make_store
from load import Bar
from store import Changed, spent

import fundlab as fl
from fundlab import Store
from fundlab.base.values import Instant

FORMATS: tuple[Literal["parquet", "delta"], ...] = ("parquet", "delta")


class Corrected(Changed):
    """Answers with ``rows``, each with another memo, changed later than the ``earlier`` ones."""

    def __init__(self, rows: pa.Table, earlier: int) -> None:
        self.rows, self.numbers = rows, list(range(earlier, earlier + rows.num_rows))
        self.bodies = list(self._pages())


def main(rows: int) -> int:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from spark_sessions import spark_session

    bars = []
    with tempfile.TemporaryDirectory() as folder, spark_session("sail") as spark:
        mark = {"at": str(Instant.from_ns(START + YEAR_NS)), "id": f"{rows - 1:032x}"}
        service = {"base_url": Changed.base_url, "client_id": Changed.client_id}
        watermark = {"created": mark, "updated": mark}
        store = make_store(Path(folder) / "store", rows, service, watermark)
        places = {name: Path(folder) / name for name in FORMATS}
        first = {name: store.publish(places[name], name)["transfers"].bytes for name in FORMATS}
        every = store.read_arrow("transfers")
        newest = every.sort_by("created_at").slice(rows - rows // 100)
        spread = every.take(pa.array(range(99, rows, 100)))  # the newest among them, as it must be
        for turn, (what, changed) in enumerate(
            (("newest", newest), ("spread over the year", spread))
        ):
            corrected = Corrected(changed, turn * rows)
            store.sync(corrected, tables=["transfers"], progress=False)  # type: ignore[arg-type]
            expected = sums(store)
            for name, place in places.items():
                written = 0

                def publish(place: Path = place, name: Any = name) -> None:
                    nonlocal written
                    written = store.publish(place, name)["transfers"].bytes

                took, share = spent(publish), written / first[name]
                print(
                    f"{name}, 1 % changed, {what}: {written / 2**20:.1f} of "
                    f"{first[name] / 2**20:.1f} MB written in {took}"
                )
                label = f"{name}, {what}: written again / first"
                bars.append(Bar(label, share, 0.1 if what == "newest" else 1.01, False))
                found = read_by_each(place / "transfers", name, spark)
                for engine, seen in found.items():
                    bars.append(Bar(f"{name}: equal by {engine}", seen == expected, 1, True))
    for bar in bars:
        print(bar)
    return 0 if all(bar.reached for bar in bars) else 1


def sums(store: Store) -> tuple[int, str, int]:
    """Rows, the exact total, and the sum of all nanoseconds modulo 2**31."""
    read = store.read_arrow("transfers", columns=["total", "created_at"])
    moments = read["created_at"].cast(pa.int64()).to_pylist()
    return len(read), f"{pc.sum(read['total']).as_py():.2f}", sum(moments) % 2**31


def read_by_each(path: Path, format: str, spark: Any) -> dict[str, tuple[int, str, int]]:
    delta = format == "delta"
    files = (
        deltalake.DeltaTable(path).file_uris() if delta else [*map(str, path.rglob("*.parquet"))]
    )
    query = "SELECT count(*), sum(total), sum(created_at_ns::HUGEINT) FROM read_parquet(?)"
    found: dict[str, Any] = {"DuckDB": duckdb.execute(query, [files]).fetchall()[0]}
    frame = pl.scan_delta(str(path)) if delta else pl.scan_parquet(files)
    read = frame.select("total", "created_at_ns").collect()
    found["Polars"] = (len(read), read["total"].sum(), sum(read["created_at_ns"].to_list()))
    pandas = [fl.read_parquet(file)[["total", "created_at_ns"]] for file in files]
    found["pandas"] = (
        sum(map(len, pandas)), sum(one["total"].sum() for one in pandas),
        sum(sum(one["created_at_ns"].tolist()) for one in pandas),
    )  # fmt: skip
    lazy = spark.read.format(format).load(str(path))
    moments = "sum(CAST(created_at_ns AS DECIMAL(38, 0)))"
    found["Sail"] = tuple(lazy.selectExpr("count(*)", "sum(total)", moments).collect()[0])
    return {
        engine: (count, f"{total:.2f}", int(moments) % 2**31)
        for engine, (count, total, moments) in found.items()
    }


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
