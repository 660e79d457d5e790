"""``store.publish``: other engines find what the store reads, and only changes are written."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import deltalake
import deltalake.exceptions
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
from fundlab.base.errors import InvalidRequest, StoreError
from fundlab.store import compaction, publishing
from fundlab.store.changes import all_new
from fundlab.store.parts import Header, Part, PartReader, Publication, write_part
from fundlab.store.remote import locate
from fundlab.store.snapshot import Snapshot, take_snapshot
from fundlab.tables import TABLES, decode_page
from fundlab.tables.schema import SCHEMA_VERSION

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


@pytest.fixture(scope="module")
def sample_published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    fl.sample().publish(folder)
    return folder


@pytest.mark.parametrize("table", TABLES)
def test_each_table_has_the_rows_and_columns_of_the_store(
    sample_published: Path, table: str
) -> None:
    keys = ["observed_at", "profile_id", "asset"] if table == "balances" else ["created_at", "id"]
    expected = fl.sample().read_arrow(table).sort_by([(key, "ascending") for key in keys])
    published = pq.read_table(sample_published / table).drop_columns(["month"])
    published = published.sort_by([(key, "ascending") for key in [f"{keys[0]}_ns", *keys[1:]]])
    moments = [f.name for f in expected.schema if pa.types.is_timestamp(f.type)]
    names = {*expected.column_names, *(f"{name}_ns" for name in moments)}
    assert set(published.column_names) == names
    assert {str(kind) for kind in published.schema.types} <= {
        "string", "bool", "int64", "decimal128(38, 18)", "timestamp[us, tz=UTC]",
    }  # fmt: skip
    for name in moments:
        exact = published.column(f"{name}_ns").cast(pa.timestamp("ns", "UTC"))
        assert exact.equals(expected.column(name))
        assert published.column(name).equals(pc.floor_temporal(exact, unit="microsecond").cast(
            published.column(name).type))  # fmt: skip
    for name in set(expected.column_names) - set(moments):
        assert published.column(name).equals(expected.column(name))


def test_the_stores_own_files_are_not_to_be_summed(store: Store) -> None:
    """Why there is such a thing: as long as this is so, the documentation says so."""
    store.compact()
    changed = rows("once more")
    changed[1]["updated_at"] = "2026-05-03T00:00:00Z"
    store.sync(FakeService(changed), tables=["transfers"], full=True)  # type: ignore[arg-type]
    everything = store.path / "transfers" / "*.parquet"
    query = f"SELECT sum(total) FROM read_parquet('{everything}', union_by_name = true)"
    ((total,),) = duckdb.sql(query).fetchall()
    assert total > SUM
    with pytest.raises(pl.exceptions.SchemaError):
        pl.read_parquet(everything)


def test_a_merge_in_the_middle_of_it_is_no_matter(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, turns = PartReader.__init__, iter([True])
    monkeypatch.setattr(compaction, "GRACE_S", 0)

    def late(reader: PartReader, part: Part, *coded: Any) -> None:
        if part.header.table == "transfers" and next(turns, False):
            store.compact()
            with store.lock():
                assert not part.path.exists()
        original(reader, part, *coded)

    monkeypatch.setattr(PartReader, "__init__", late)
    store.publish(tmp_path / "open")
    assert next(turns, None) is None
    assert read_by_each(tmp_path / "open", "parquet")["duckdb"][:2] == (4, SUM)


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


def test_a_file_is_replaced_in_one_step(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.publish(tmp_path / "open")
    path = tmp_path / "open" / "transfers" / "month=2026-02" / "rows.parquet"
    before, write = path.read_bytes(), pq.ParquetWriter.write_table
    changed = rows("once more")
    changed[1]["updated_at"] = "2026-05-03T00:00:00Z"
    store.sync(FakeService(changed), tables=["transfers"], full=True)  # type: ignore[arg-type]

    def full(*given: Any) -> None:
        write(*given)
        raise OSError(errno.ENOSPC, "No space left on device")

    with path.open("rb") as reader:
        with monkeypatch.context() as patched:
            patched.setattr(pq.ParquetWriter, "write_table", full)
            with pytest.raises(StoreError, match="No space left"):
                store.publish(tmp_path / "open")
        assert path.read_bytes() == before
        assert [one.name for one in path.parent.iterdir()] == ["rows.parquet"]
        assert store.publish(tmp_path / "open")["transfers"].written == ("2026-02",)
        assert path.read_bytes() != before
        assert reader.read() == before
    assert pq.read_table(path)["memo"].to_pylist() == ["once more", None]


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


@pytest.mark.parametrize(("one", "other"), [("parquet", "delta"), ("delta", "parquet")])
def test_no_row_is_published_twice_in_two_formats(
    store: Store, one: Any, other: Any, tmp_path: Path
) -> None:
    store.publish(tmp_path / "out", one)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequest, match=f"transfers is published as {one}: give another"):
        store.publish(tmp_path / "out", other)
    assert sorted(tmp_path.rglob("*")) == before
    store.publish(tmp_path / "out", one)


@pytest.mark.parametrize("other", ["month=2026-01/note.txt", "mine/rows.parquet"])
def test_what_somebody_else_has_in_the_folder_is_no_publication(
    store: Store, tmp_path: Path, other: str
) -> None:
    path = tmp_path / "out" / "transfers" / other
    path.parent.mkdir(parents=True)
    path.touch()
    store.publish(tmp_path / "out", "delta")
    assert path.exists()


def test_of_two_publications_at_once_one_is_refused(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one writes what this one has looked at, before this one does."""
    store.publish(tmp_path / "out", "delta")
    monkeypatch.setattr(publishing, "_delta_digests", lambda table: {})  # all is to be written
    write = deltalake.write_deltalake

    def beaten(*given: Any, **more: Any) -> None:
        monkeypatch.setattr(deltalake, "write_deltalake", write)
        store.publish(tmp_path / "out", "delta")
        write(*given, **more)

    monkeypatch.setattr(deltalake, "write_deltalake", beaten)
    with pytest.raises(StoreError, match="where another program publishes there, run it again"):
        store.publish(tmp_path / "out", "delta")
    found = deltalake.DeltaTable(tmp_path / "out" / "transfers").to_pyarrow_table().num_rows
    assert found == len(store.read("transfers"))


@pytest.mark.parametrize("first", [True, False])
def test_what_another_appends_meanwhile_refuses_the_publication(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """Before or after what this publication writes, which is another month. Delta lets both in."""
    store.publish(tmp_path / "out", "delta")
    changed = rows("changed")
    changed[1]["updated_at"] = "2026-05-03T00:00:00Z"
    store.sync(FakeService(changed), tables=["transfers"], full=True)  # type: ignore[arg-type]
    write, place = deltalake.write_deltalake, str(tmp_path / "out" / "transfers")

    def append() -> None:
        write(place, pl.read_delta(place).filter(pl.col("month") == "2026-04"), mode="append")

    def with_another(*given: Any, **more: Any) -> None:
        if first:
            append()
        write(*given, **more)
        if not first:
            append()

    monkeypatch.setattr(deltalake, "write_deltalake", with_another)
    with pytest.raises(StoreError, match="another program wrote into it meanwhile: run it again"):
        store.publish(tmp_path / "out", "delta")
    monkeypatch.undo()
    assert read_by_each(tmp_path / "out", "delta")["polars"][0] == 5
    done = store.publish(tmp_path / "out", "delta")["transfers"]
    assert done.written == ("2026-01", "2026-02", "2026-04")
    assert read_by_each(tmp_path / "out", "delta")["polars"][:2] == (4, SUM)


def test_of_no_store_nothing_is_published(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store at"):
        Store(tmp_path / "mistyped").publish(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["parquet", "delta"])
@pytest.mark.parametrize("where", ["", "transfers", "new/one"])
def test_not_into_the_store(store: Store, where: str, format: Any) -> None:
    with pytest.raises(InvalidRequest, match="is within the store: give another one"):
        store.publish(store.path / where, format)


@pytest.mark.parametrize(
    ("store", "place", "within"),
    [
        ("/a/store", "/a/store", True),
        ("/a/store", "/a/store/b/c", True),
        ("/a/store", "/a/b/../store/b", True),
        ("/a/store", "/a/store2", False),
        ("/a/store", "/a", False),
        ("/a/transfers", "/a", True),  # where its own table would be
        ("memory://a/events", "memory://a", True),
        ("memory://a/store", "memory://a/store", True),
        ("memory://a/store", "memory://a/store/b", True),
        ("memory://a/store", "memory://a/store2", False),
        ("memory://a/store", "/a/store/b", False),
        ("/a/store", "memory://a/store/b", False),
    ],
)
def test_what_is_within_the_store(
    monkeypatch: pytest.MonkeyPatch, store: str, place: str, within: bool
) -> None:
    checked: list[Path] = []
    monkeypatch.setattr(publishing.disk, "check_replaceable", checked.append)
    if within:
        with pytest.raises(InvalidRequest, match="is within the store: give another one"):
            publishing.published_tables(locate(store), place, "parquet")
    else:
        folders = publishing.published_tables(locate(store), place, "parquet")
        assert [str(folder) for folder in folders.values()] == [
            f"{place}/{name}" for name in TABLES
        ]
        assert len(checked) == (len(TABLES) if place.startswith("/") else 0)


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_rows_without_a_moment_are_a_month_of_their_own(tmp_path: Path, format: str) -> None:
    publish = {"parquet": publishing.publish_parquet, "delta": publishing.publish_delta}[format]
    march, april = (transfer(n, created_at=f"2026-0{n}-30T00:00:00Z") for n in (3, 4))
    undated = [transfer(n, created_at="0001-01-01T00:00:00Z") for n in (1, 2)]
    known: list[Any] = [march]
    for added, written, kept in (
        (april, ("2026-03", "2026-04"), 0),
        (undated[0], ("unknown",), 2),
        (transfer(5, created_at="2026-04-01T00:00:00Z"), ("2026-04",), 2),
        (undated[1], ("unknown",), 2),
        (undated[1], (), 3),
    ):
        known.append(added)
        body = json.dumps({"items": [*{one["id"]: one for one in known}.values()]}).encode()
        snapshot = a_part(tmp_path / "store", decode_page("transfers", body).rows)
        done = publish(snapshot, tmp_path / "open")
        assert (done.written, done.kept, done.removed) == (written, kept, ())
        assert (done.bytes > 0) is bool(written)
        assert done.path == str(tmp_path / "open")
        files = [str(path) for path in (tmp_path / "open").rglob("*.parquet")]
        if format == "delta":
            files = deltalake.DeltaTable(tmp_path / "open").file_uris()
            changed = {f"month={month}" for month in written}
            new = {file for file in files if Path(file).parent.name in changed}
            assert done.bytes == sum(Path(file).stat().st_size for file in new)
        found = [id_ for file in files for id_ in pq.ParquetFile(file).read()["id"].to_pylist()]
        assert sorted(found) == sorted({one["id"] for one in known})


def a_part(folder: Path, rows: pa.Table) -> Snapshot:
    header = Header("transfers", SCHEMA_VERSION, {}, (Publication(1, 7),))
    table = TABLES["transfers"]
    draft = write_part(folder / "transfers", "part", table, header, all_new(table, rows))
    publishing.disk.publish(draft.hidden, draft.path)
    return take_snapshot(folder / "transfers", table, [draft.file])


def test_no_engine_finds_the_least_amount_in_the_log(store: Store, tmp_path: Path) -> None:
    """There it would be a double; of other columns it is there, and months are passed over."""
    store.publish(tmp_path / "open", "delta")
    adds = pa.table(
        deltalake.DeltaTable(tmp_path / "open" / "transfers").get_add_actions(flatten=True)
    )
    for add in adds.to_pylist():
        assert add["min.created_at"]
        assert add["max.id"]
        assert {
            add.get(f"{end}.{name}") for end in ("min", "max") for name in ("total", "fee")
        } == {None}


def test_what_only_tidies_a_delta_table_changes_no_month(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.publish(tmp_path / "open", "delta")
    table = deltalake.DeltaTable(tmp_path / "open" / "transfers")
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert store.publish(tmp_path / "open", "delta")["transfers"].written == ()

    def fails(*given: Any, **options: Any) -> None:
        raise deltalake.exceptions.DeltaError("no space")

    monkeypatch.setattr(deltalake, "write_deltalake", fails)
    changed = FakeService([transfer(9)])
    store.sync(changed, tables=["transfers"], full=True)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match=r"transfers: Delta cannot be written: no space"):
        store.publish(tmp_path / "open", "delta")


def test_a_file_that_is_none_of_ours_is_replaced(store: Store, tmp_path: Path) -> None:
    store.publish(tmp_path / "open")
    folder = tmp_path / "open" / "transfers"
    (folder / "month=2026-01" / "rows.parquet").write_bytes(b"PAR1")
    path = folder / "month=2026-02" / "rows.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    (folder / "month=2026-03").mkdir()
    (folder / "month=2026-03" / "rows.parquet").touch()
    done = store.publish(tmp_path / "open")["transfers"]
    assert (done.written, done.kept, done.removed) == (("2026-01", "2026-02"), 1, ("2026-03",))
    assert not (folder / "month=2026-03").exists()


def test_what_cannot_be_is_refused_by_name(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        InvalidRequest, match="format='iceberg' is unknown; there are parquet, delta"
    ):
        store.publish(tmp_path / "open", "iceberg")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "deltalake", None)
    for publish in (
        lambda: store.publish(tmp_path / "open", "delta"),
        lambda: publishing.published_tables(tmp_path / "store", tmp_path / "open", "delta"),
    ):
        with pytest.raises(InvalidRequest, match=r"install .*\[delta\]'"):
            publish()
    assert not (tmp_path / "open").exists()


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    service: Any = FakeService(rows())
    service.settings = SimpleNamespace(store=tmp_path / "store")
    monkeypatch.setattr("fundlab.client.client.connect", lambda: nullcontext(service))
    return service


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_sync_publishes(tmp_path: Path, service: Any, fundlab: Any, format: str) -> None:
    command = ("sync", "--publish", tmp_path / "open", "--publish-format", format)
    status, out, _ = fundlab(*command, "--json")
    assert status == 0
    done = json.loads(out)["published"]["transfers"]
    assert (done["written"], done["kept"]) == (["2026-01", "2026-02", "2026-04"], 0)
    status, out, _ = fundlab(*command)
    assert status == 0
    assert f"published to {tmp_path / 'open'}: 1 month, 0.0 MB" in out  # balances are observed anew


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("file/open", "file is not a folder: give another\n"),
        ("nowhere", "nowhere is not a folder: give another\n"),
        ("store/open", "is within the store"),
    ],
)
def test_a_place_that_takes_no_files_is_refused_before_the_sync(
    service: Any, tmp_path: Path, fundlab: Any, where: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    status, _, err = fundlab("sync", "--publish", tmp_path / where)
    assert (status, err.count("\n"), reason in err) == (1, 1, True)
    assert service.calls == []
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("as_json", [False, True])
def test_what_was_synced_is_shown_where_it_cannot_be_published(
    service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fundlab: Any, as_json: bool
) -> None:
    def full(*_: Any) -> None:
        raise StoreError("open cannot be written: No space left on device")

    monkeypatch.setattr("fundlab.evidence.table_store.publish_parquet", full)
    status, out, err = fundlab("sync", "--publish", tmp_path / "open", *["--json"] * as_json)
    assert status == 1
    message = "the sync is done, but not the publication: open cannot be written: No space left"
    if as_json:
        found = json.loads(out)
        assert found["tables"][0]["new"] == 4
        assert found["error"]["message"].startswith(message)
    else:
        assert "4 new" in out
        assert message in err


def test_of_which_months_rows_are_wanted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(FakeService(rows()), tables=["transfers"])  # type: ignore[arg-type]
    snapshot = store.snapshot("transfers")
    for only, found in (
        (None, ["2026-01", "2026-02", "2026-04"]), (["2026-04", "2025-01"], ["2026-04"]), ([], []),
    ):  # fmt: skip
        assert [month for month, *_ in publishing._months(snapshot, only)] == found


_AT_ONCE = """
import sys, time, fundlab as fl
from fundlab.base.errors import StoreError
store = fl.Store(sys.argv[1])
while time.time() < float(sys.argv[3]):
    pass
try:
    store.publish(sys.argv[2], "delta")
except StoreError as error:
    assert "run it again" in str(error), error
"""


@pytest.mark.thorough
def test_of_two_first_publications_at_once_every_row_is_there_once(
    store: Store, tmp_path: Path
) -> None:
    for number in range(3):
        place, begin = tmp_path / str(number), time.time() + 3  # once both are loaded
        given = [sys.executable, "-c", _AT_ONCE, str(store.path), str(place), str(begin)]
        both = [subprocess.Popen(given) for _ in range(2)]
        assert [one.wait(120) for one in both] == [0, 0]
        store.publish(place, "delta")
        rows = deltalake.DeltaTable(place / "transfers").to_pyarrow_table().column("id").to_pylist()
        assert sorted(rows) == sorted(store.read("transfers")["id"])
