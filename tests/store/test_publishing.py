"""``store.publish``: other engines find what the store reads, and only changes are written."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import deltalake
import duckdb
import fsspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fake_service import FakeService, transfer

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import InvalidRequest

D = Decimal
TOTALS = ["99999999999.123456789012345678", "0.000000000000000001", "12345678901.1", "7"]
SUM = D("112345678907.223456789012345679")
"""By hand; with 30 digits, beyond what a double, or Python's usual 28 digits, hold."""
DAYS = ["2026-01-31T23:59:59.999999999Z", "2026-02-01T00:00:00.000000001Z", "2026-02-14T00:00:00Z",
        "2026-04-01T00:00:00Z"]  # fmt: skip
NANOSECONDS = [1769903999999999999, 1769904000000000001, 1771027200000000000, 1775001600000000000]


def rows(memo: str = "") -> list[Any]:
    found = [
        transfer(n, total=total, amount=total, created_at=day, updated_at=day)
        for n, (total, day) in enumerate(zip(TOTALS, DAYS, strict=True))
    ]
    if memo:
        found[1] |= {"memo": memo, "updated_at": "2026-05-01T00:00:00Z"}
    return found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "store")
    found.sync(FakeService(rows("replaced")), tables=["transfers"])  # type: ignore[arg-type]
    later = rows("later")
    later[1]["updated_at"] = "2026-05-02T00:00:00Z"
    found.sync(FakeService(later), tables=["transfers"], full=True)  # type: ignore[arg-type]
    return found


def read_by_each(folder: Path, format: str) -> dict[str, tuple[int, Decimal, list[int]]]:
    """(rows, exact sum of totals, nanoseconds) of the transfers, by engine."""
    pattern = str(folder / "transfers" / "*" / "*.parquet")
    path = folder / "transfers"
    found: dict[str, tuple[int, Decimal, list[int]]] = {}
    if format == "delta":
        arrow = pa.table(
            deltalake.QueryBuilder()
            .register("t", deltalake.DeltaTable(path))
            .execute("SELECT * FROM t")
            .read_all()
        )
        polars = pl.scan_delta(str(path)).collect()
        files = deltalake.DeltaTable(path).file_uris()
        relation = duckdb.sql(f"SELECT * FROM read_parquet({files!r})")
        frame = pd.concat([fl.read_parquet(file) for file in files])
    else:
        polars = pl.read_parquet(pattern)
        relation = duckdb.sql(f"SELECT * FROM read_parquet('{pattern}')")
        arrow = pq.read_table(path)
        frame = fl.read_parquet(path)
    found["arrow"] = (
        arrow.num_rows,
        pc.sum(arrow["total"]).as_py(),
        arrow["created_at_ns"].to_pylist(),
    )
    found["polars"] = (len(polars), polars["total"].sum(), polars["created_at_ns"].to_list())
    ((count, total, moments),) = relation.aggregate(
        "count(*), sum(total), list(created_at_ns)"
    ).fetchall()
    found["duckdb"] = (count, total, moments)
    found["pandas"] = (len(frame), frame["total"].sum(), frame["created_at_ns"].tolist())
    return found


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_each_engine_reads_what_the_store_reads(store: Store, tmp_path: Path, format: Any) -> None:
    published = store.publish(tmp_path / "open", format)
    assert published["transfers"].written == ("2026-01", "2026-02", "2026-04")
    for engine, (count, total, moments) in read_by_each(tmp_path / "open", format).items():
        assert (engine, count, total, sorted(moments)) == (engine, 4, SUM, NANOSECONDS)
    assert store.read("transfers")["total"].sum() == SUM


SPARK: Final = """
import json, sys
from spark_sessions import spark_session
with spark_session("sail") as session:
    rows = session.read.format(sys.argv[1]).load(sys.argv[2])
    (row,) = rows.selectExpr("count(*)", "sum(total)", "max(created_at_ns)").collect()
print(json.dumps([str(value) for value in row]))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_spark_reads_it(store: Store, tmp_path: Path, format: Any) -> None:
    """In a process of its own: the library below Spark Connect hangs in one that has forked."""
    store.publish(tmp_path / "open", format)
    folder = str(tmp_path / "open" / "transfers")
    read = subprocess.run(
        [sys.executable, "-c", SPARK, format, folder],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    found = json.loads(read.stdout.splitlines()[-1])
    assert (int(found[0]), D(found[1]), int(found[2])) == (4, SUM, NANOSECONDS[-1])


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_only_a_month_that_changed_is_written_again(
    store: Store, tmp_path: Path, format: Any
) -> None:
    first = store.publish(tmp_path / "open", format)["transfers"]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "open").rglob("*.parquet")}
    store.compact()  # other files, the same rows
    again = store.publish(tmp_path / "open", format)["transfers"]
    assert (again.written, again.kept, again.bytes) == ((), 3, 0)
    changed = rows("once more")
    changed[1]["updated_at"] = "2026-05-03T00:00:00Z"
    store.sync(FakeService(changed), tables=["transfers"], full=True)  # type: ignore[arg-type]
    second = store.publish(tmp_path / "open", format)["transfers"]
    assert (second.written, second.kept, second.removed) == (("2026-02",), 2, ())
    assert 0 < second.bytes < first.bytes
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "open").rglob("*.parquet")}
    changed_files = {path.parent.name for path in after if before.get(path) != after[path]}
    assert changed_files == {"month=2026-02"}
    for count, total, _ in read_by_each(tmp_path / "open", format).values():
        assert (count, total) == (4, SUM)


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_month_without_rows_goes(store: Store, tmp_path: Path, format: Any) -> None:
    store.publish(tmp_path / "open", format)
    (tmp_path / "open" / "transfers" / "month=2026-04" / "_notes.txt").write_text("not ours")
    left = FakeService(rows()[:3], complete=True)
    store.sync(left, tables=["transfers"], full=True)  # type: ignore[arg-type]
    store.accept_gone(by="Ana", reason="never executed")
    done = store.publish(tmp_path / "open", format)["transfers"]
    assert done.removed == ("2026-04",)
    assert {count for count, _, _ in read_by_each(tmp_path / "open", format).values()} == {3}
    assert (
        tmp_path / "open" / "transfers" / "month=2026-04" / "_notes.txt"
    ).read_text() == "not ours"
    back = store.gone()["id"].tolist()
    store.accept_gone(back, by="Ana", reason="it was executed", still_counts=True)
    done = store.publish(tmp_path / "open", format)["transfers"]
    assert done.written == ("2026-04",)
    assert {count for count, _, _ in read_by_each(tmp_path / "open", format).values()} == {4}


def test_what_another_wrote_into_the_delta_table_is_written_again(
    store: Store, tmp_path: Path
) -> None:
    store.publish(tmp_path / "open", "delta")
    table = deltalake.DeltaTable(tmp_path / "open" / "transfers")
    table.delete("month = '2026-01'")
    done = store.publish(tmp_path / "open", "delta")["transfers"]
    assert done.written == ("2026-01", "2026-02", "2026-04")
    assert read_by_each(tmp_path / "open", "delta")["polars"][:2] == (4, SUM)


def test_to_a_bucket(store: Store) -> None:
    first = store.publish("memory://published/funds")["transfers"]
    second = store.publish("memory://published/funds")["transfers"]
    assert (first.written, second.written) == (("2026-01", "2026-02", "2026-04"), ())
    files = fsspec.filesystem("memory")
    found = files.glob("/published/funds/transfers/*/*.parquet")
    together = pa.concat_tables([pq.read_table(files.open(path)) for path in found])
    assert (together.num_rows, pc.sum(together["total"]).as_py()) == (4, SUM)


@pytest.mark.parametrize("format", ["parquet", "delta"])
@pytest.mark.parametrize("where", ["", "transfers", "new/one"])
def test_not_into_the_store(store: Store, where: str, format: Any) -> None:
    with pytest.raises(InvalidRequest, match="is within the store: give another one"):
        store.publish(store.path / where, format)


def test_what_cannot_be_is_refused_by_name(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        InvalidRequest, match="format='iceberg' is unknown; there are parquet, delta"
    ):
        store.publish(tmp_path / "open", "iceberg")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(InvalidRequest, match=r"install .*\[delta\]'"):
        store.publish(tmp_path / "open", "delta")


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_sync_publishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fundlab: Any, format: str
) -> None:
    from contextlib import nullcontext

    service: Any = FakeService(rows())
    service.settings = SimpleNamespace(store=tmp_path / "store")
    monkeypatch.setattr("fundlab.client.client.connect", lambda: nullcontext(service))
    command = ("sync", "--publish", tmp_path / "open", "--publish-format", format)
    status, out, _ = fundlab(*command, "--json")
    assert status == 0
    done = json.loads(out)["published"]["transfers"]
    assert (done["written"], done["kept"]) == (["2026-01", "2026-02", "2026-04"], 0)
    status, out, _ = fundlab(*command)
    assert status == 0
    assert f"published to {tmp_path / 'open'}: 1 month, 0.0 MB" in out  # balances are observed anew
    (tmp_path / "file").touch()
    before = len(service.calls)
    status, _, err = fundlab("sync", "--publish", tmp_path / "file" / "open")
    assert (status, "cannot be written" in err, len(service.calls)) == (1, True, before)
