"""``export_current``: what other tools find in the files is what the store reads, to the digit."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fake_service import FakeService, moment, transfer

from fundlab import Store, sandbox
from fundlab.base.errors import InvalidRequest, StoreError
from fundlab.store import compaction
from fundlab.tables import TABLES

TOTALS = ["99999999999.123456789012345678", "0.000000000000000001", "12345678901.1", "7"]
SUM = Decimal("112345678907.223456789012345679")
"""By hand; with 30 digits, beyond what a double, or Python's usual 28 digits, hold."""


def filled(folder: Path) -> Store:
    """A base, a part beside it, replaced versions in both, and files that were merged."""
    store = Store(folder / "store")
    rows = [transfer(n, total=total, amount=total) for n, total in enumerate(TOTALS[:3])]
    rows[1].update(status="PENDING", created_at=moment(1, 123_456_789))
    service = FakeService(rows)
    store.sync(service)  # type: ignore[arg-type]
    service.transfers[1].update(status="COMPLETED", updated_at=moment(50))
    store.sync(service)  # type: ignore[arg-type]
    store.compact()
    service.transfers[0].update(memo="later", updated_at=moment(60))
    service.transfers.append(transfer(70, total=TOTALS[3], amount=TOTALS[3]))
    store.sync(service)  # type: ignore[arg-type]
    return store


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("current")
    store = filled(folder)
    return {"store": store, "files": store.export_current(folder / "out")}


def total_with_duckdb(path: Path) -> Any:
    return duckdb.sql(f"SELECT sum(total), count(*) FROM '{path}'").fetchall()[0]


def total_with_polars(path: Path) -> Any:
    return polars.scan_parquet(path).select(polars.sum("total"), polars.len()).collect().row(0)


def total_with_pandas(path: Path) -> Any:
    frame = pd.read_parquet(path, dtype_backend="pyarrow")
    return frame["total"].sum(), len(frame)


def total_with_pyarrow(path: Path) -> Any:
    rows = pq.read_table(path)
    return pc.sum(rows.column("total")).as_py(), rows.num_rows


@pytest.mark.parametrize(
    "total", [total_with_duckdb, total_with_polars, total_with_pandas, total_with_pyarrow]
)
def test_a_plain_sum_is_that_of_the_store(found: dict[str, Any], total: Any) -> None:
    assert total(found["files"]["transfers"]) == (SUM, 4)
    assert found["store"].read("transfers")["total"].sum() == SUM


@pytest.mark.parametrize("table", TABLES)
def test_each_table_has_the_rows_and_columns_of_the_store(
    found: dict[str, Any], table: str
) -> None:
    path, expected = found["files"][table], found["store"].read_arrow(table)
    assert path.name == f"{table}.parquet"
    rows = pq.read_table(path)
    moments = [f.name for f in expected.schema if pa.types.is_timestamp(f.type)]
    names = set(expected.column_names) | {f"{name}_ns" for name in moments}
    assert set(rows.column_names) == names
    assert {str(kind) for kind in rows.schema.types} <= {
        "string", "bool", "int64", "decimal128(38, 18)", "timestamp[us, tz=UTC]",
    }  # fmt: skip
    for name in moments:
        exact = rows.column(f"{name}_ns").cast(pa.timestamp("ns", "UTC"))
        assert exact.equals(expected.column(name))
    for name in set(expected.column_names) - set(moments):
        assert rows.column(name).equals(expected.column(name))


def test_a_moment_is_cut_to_microseconds_and_whole_beside_it(found: dict[str, Any]) -> None:
    (row,) = duckdb.sql(
        "SELECT epoch_us(created_at), created_at_ns "
        f"FROM '{found['files']['transfers']}' WHERE id = 't-000001'"
    ).fetchall()
    exact = pd.Timestamp("2026-03-01T00:00:01.123456789Z").value
    assert row == (exact // 1000, exact)


def test_the_stores_own_files_are_not_to_be_summed(found: dict[str, Any]) -> None:
    """Why there is such a thing: as long as this is so, the documentation says so."""
    everything = found["store"].path / "transfers" / "*.parquet"
    query = f"SELECT sum(total) FROM read_parquet('{everything}', union_by_name = true)"
    ((total,),) = duckdb.sql(query).fetchall()
    assert total > SUM
    with pytest.raises(polars.exceptions.SchemaError):
        polars.read_parquet(everything)


def test_files_are_replaced_in_one_step_and_an_earlier_one_stays_where_that_fails(
    tmp_path: Path,
) -> None:
    store, out = filled(tmp_path), tmp_path / "out"
    before = {table: path.stat().st_ino for table, path in store.export_current(out).items()}
    with (out / "transfers.parquet").open("rb") as reader:
        store.export_current(str(out))
        assert pq.read_table(pa.BufferReader(reader.read())).num_rows == 4
    assert (out / "transfers.parquet").stat().st_ino != before["transfers"]
    assert sorted(path.name for path in out.iterdir()) == sorted(f"{t}.parquet" for t in TABLES)
    with pytest.raises(StoreError, match="cannot be written"):
        store.export_current(out / "transfers.parquet")
    assert total_with_duckdb(out / "transfers.parquet") == (SUM, 4)


@pytest.mark.parametrize("where", ["", "transfers", "new/one"])
def test_not_into_the_store_itself(tmp_path: Path, where: str) -> None:
    store = filled(tmp_path)
    with pytest.raises(InvalidRequest, match="is within the store: give another one"):
        store.export_current(store.path / where)


def test_a_merge_in_the_middle_of_it_is_no_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fundlab.store.parts import Part, PartReader

    store, original, turns = filled(tmp_path), PartReader.__init__, iter([True])
    monkeypatch.setattr(compaction, "GRACE_S", 0)

    def late(reader: PartReader, part: Part) -> None:
        if part.header.table == "transfers" and next(turns, False):
            store.compact()
            with store.lock():
                assert not part.path.exists()
        original(reader, part)

    monkeypatch.setattr(PartReader, "__init__", late)
    assert total_with_duckdb(store.export_current(tmp_path / "out")["transfers"]) == (SUM, 4)
    assert next(turns, None) is None


class TestCommand:
    @pytest.fixture
    def service(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        service: Any = FakeService([transfer(1)])
        service.settings = SimpleNamespace(store=tmp_path / "store")
        monkeypatch.setattr("fundlab.client.client.connect", lambda: nullcontext(service))
        return service

    @pytest.mark.parametrize(
        ("where", "reason"),
        [
            ("file/current", "file cannot be written: File exists; give another folder, or see"),
            ("file", "file cannot be written: File exists; give another folder, or see"),
            ("nowhere", "nowhere cannot be written: File exists"),
            ("taken", "transfers.parquet cannot be written: Is a directory; give another"),
            ("store/current", "is within the store"),
        ],
    )
    def test_a_folder_that_takes_no_files_is_refused_before_the_sync(
        self, service: Any, tmp_path: Path, fundlab: Any, where: str, reason: str
    ) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
        (tmp_path / "taken" / "transfers.parquet").mkdir(parents=True)
        status, _, err = fundlab("sync", "--export", tmp_path / where)
        assert (status, err.count("\n"), reason in err) == (1, 1, True)
        assert service.calls == []
        assert not (tmp_path / "store").exists()

    @pytest.mark.parametrize("as_json", [False, True])
    def test_what_was_synced_is_shown_where_the_export_fails(
        self, service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        fundlab: Any, as_json: bool,
    ) -> None:  # fmt: skip
        def full(*_: Any) -> None:
            raise StoreError("out cannot be written: No space left on device")

        monkeypatch.setattr("fundlab.evidence.table_store.write_current", full)
        status, out, err = fundlab("sync", "--export", tmp_path / "out", *["--json"] * as_json)
        assert status == 1
        message = "the sync is done, but not the export: out cannot be written: No space left"
        if as_json:
            found = json.loads(out)
            assert found["tables"][0]["new"] == 1
            assert found["error"]["message"].startswith(message)
        else:
            assert "1 new" in out
            assert message in err


@pytest.mark.thorough
def test_a_sync_keeps_the_files_current(tmp_path: Path) -> None:
    with sandbox.serve(seed=7, transfers=60) as service:
        settings = {
            "FUNDLAB_BASE_URL": service.base_url, "FUNDLAB_AUTH_URL": service.auth_url,
            "FUNDLAB_CLIENT_ID": service.client_id, "FUNDLAB_CLIENT_SECRET": service.client_secret,
            "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2]),
        }  # fmt: skip
        command = [sys.executable, "-m", "fundlab", "sync", "--export", "out", "--json"]
        done = subprocess.run(command, env=settings, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    exported = json.loads(done.stdout)["exported"]
    assert set(exported) == set(TABLES)
    frame = Store(tmp_path / "data" / "store").read("transfers")
    found = total_with_duckdb(Path(exported["transfers"]))
    assert found == (frame["total"].sum(), len(frame))
