"""The current rows in open formats, for engines that know nothing of a store.

Which rows are current is decided in `fundlab.store.snapshot`.

The files of a store hold every version and moments to the nanosecond: a plain sum over them counts
replaced rows, Polars refuses parts beside a base, Spark the moments. Here each row is there once,
and each column is of a type that every reader has. What is published is known by a digest of its
rows, so that a month is written again only where a row of it changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import InvalidRequest, StoreError, first_line, install_command
from fundlab.base.progress import with_progress
from fundlab.store import disk
from fundlab.store.remote import StorePath, locate
from fundlab.store.snapshot import Snapshot, read_current
from fundlab.tables.schema import INSTANT_TYPE, TABLES

FORMATS: Final = ("parquet", "delta")
MONTH: Final = "month"
_DIGEST: Final = "fundlab.digest"
_AFTER: Final = "fundlab.after"
_STATISTICS: Final = "delta.dataSkippingStatsColumns"
_GROUP_ROWS: Final = 1 << 17


@dataclass(frozen=True)
class Published:
    """What became of one table: where it is, months written, left as they were and removed, and
    the bytes of the files written."""

    path: str
    written: tuple[str, ...]
    kept: int
    removed: tuple[str, ...]
    bytes: int


def published_tables(
    store: StorePath, destination: str | os.PathLike[str], format: str
) -> dict[str, StorePath]:
    """The folder of each table in ``destination``, which is found to take files where it is of this
    machine. Raises ``InvalidRequest`` for a format there is not and for a place within the store,
    ``StoreError`` where it takes no files."""
    if format not in FORMATS:
        raise InvalidRequest(f"format={format!r} is unknown; there are {', '.join(FORMATS)}")
    if format == "delta":
        _delta()
    place = locate(destination)
    folders = {table: place / table for table in TABLES}
    for folder in (place, *folders.values()):
        within = folder == store or (
            folder.resolve().is_relative_to(store.resolve())
            if isinstance(folder, Path) and isinstance(store, Path)
            else str(folder).startswith(f"{store}/")
        )
        if within:
            what = f"destination={str(destination)!r}" if folder == place else f"the table {folder}"
            raise InvalidRequest(f"{what} is within the store: give another one")
    for folder in folders.values():
        other = _format_in(folder)
        if other not in (None, format):
            raise InvalidRequest(
                f"{folder} is published as {other}: give another destination for {format}, where "
                "every row would be there twice"
            )
        if isinstance(folder, Path):
            disk.check_replaceable(folder / "rows.parquet")
    return folders


def _format_in(folder: StorePath) -> str | None:
    """How a table is published there; ``None`` where it is not."""
    for path in disk.files_in(folder):
        if path.name == "_delta_log":
            return "delta"
        if path.name.startswith(f"{MONTH}=") and (path / "rows.parquet").exists():
            return "parquet"
    return None


def publish_parquet(snapshot: Snapshot, folder: StorePath) -> Published:
    """``folder/month=2026-10/rows.parquet`` of each month of the table's moment, in UTC.

    Each file is replaced in one step, so that no reader finds a row twice.
    """
    there = {
        path.name.removeprefix(f"{MONTH}="): path / "rows.parquet"
        for path in disk.files_in(folder)
        if path.name.startswith(f"{MONTH}=")
    }
    written, kept, size = [], 0, 0
    for month, rows, digest in _months(snapshot):
        path = folder / f"{MONTH}={month}" / "rows.parquet"
        if month in there and _digest_of(there.pop(month)) == digest:
            kept += 1
            continue
        schema = rows.schema.with_metadata({_DIGEST: digest})
        with disk.replacing(path) as file:
            _write(file, schema, [rows])
            size += file.tell()
        written.append(month)
    for path in there.values():
        disk.remove([path], and_folder=path.parent)
    return Published(str(folder), tuple(written), kept, tuple(sorted(there)), size)


def publish_delta(snapshot: Snapshot, folder: StorePath) -> Published:
    """A Delta table partitioned by ``month``; the months that changed are replaced in one commit,
    whose metadata holds the digests of all, and the version of the table that they follow. Storage
    elsewhere is opened by the environment, as Delta's own library does (``AWS_…``)."""
    library = _delta()
    place = str(folder)
    try:
        exists = library.DeltaTable.is_deltatable(place)
        table = library.DeltaTable(place) if exists else None
        after = -1 if table is None else table.version()
        before = _delta_digests(table)
        months = {month: digest for month, _, digest in _months(snapshot)}
        changed = [month for month, digest in months.items() if before.get(month) != digest]
        removed = sorted(before.keys() - months.keys())
        kept = len(months) - len(changed)
        if table is not None and not changed and not removed:
            return Published(place, (), kept, (), 0)
        empty = portable(snapshot.table.schema.empty_table())
        schema = empty.append_column(MONTH, pa.array([], pa.string())).schema
        batches = (
            batch
            for month, rows, _ in _months(snapshot, changed)
            for batch in rows.append_column(
                pa.field(MONTH, pa.string()), pa.repeat(month, rows.num_rows)
            ).to_batches()
        )
        replaced = ", ".join(f"'{month}'" for month in [*changed, *removed])
        old_files = set() if table is None else set(table.file_uris())
        library.write_deltalake(
            place if table is None else table,
            pa.RecordBatchReader.from_batches(schema.remove_metadata(), batches),
            mode="overwrite",
            partition_by=[MONTH],
            # Of amounts the log would hold the least and the largest as floats: an engine that
            # takes a column's value from there would lose digits.
            configuration={
                _STATISTICS: ",".join(
                    one.name for one in schema if one.name != MONTH and one.type != AMOUNT_TYPE
                )
            },
            predicate=None if not before else f"{MONTH} IN ({replaced})",
            commit_properties=library.CommitProperties(
                custom_metadata={_DIGEST: json.dumps(months), _AFTER: str(after)}
            ),
        )
        table = library.DeltaTable(place)
        if table.version() != after + 1:  # the library lets both commit, where they do not overlap
            raise StoreError(f"{place}: another program wrote into it meanwhile: run it again")
        adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        new = [add for add in adds if not any(old.endswith(add["path"]) for old in old_files)]
    except library.exceptions.DeltaError as error:
        raise StoreError(
            f"{place}: Delta cannot be written: {first_line(error)}; where another program "
            "publishes there, run it again"
        ) from error
    size = sum(add["size_bytes"] for add in new)
    return Published(place, tuple(changed), kept, tuple(removed), size)


def _delta() -> Any:
    try:
        import deltalake
        import deltalake.exceptions
    except ImportError as error:
        raise InvalidRequest(
            f"format='delta' needs the package deltalake: {install_command('delta')}"
        ) from error
    return deltalake


def _delta_digests(table: Any) -> Mapping[str, str]:
    """Of the months as we last wrote them; of none where another has written since."""
    for commit in table.history(20) if table is not None else ():
        if _DIGEST in commit and commit.get(_AFTER) == str(commit["version"] - 1):
            digests: dict[str, str] = json.loads(commit[_DIGEST])
            return digests
        if commit.get("operation") not in ("OPTIMIZE", "VACUUM START", "VACUUM END"):
            break
    return {}


def _months(
    snapshot: Snapshot, only: Iterable[str] | None = None
) -> Iterator[tuple[str, pa.Table, str]]:
    """Each month, its rows by moment and id as every reader can have them, and their digest. Rows
    without a moment are the month ``unknown``. One month is in memory at a time."""
    table = snapshot.table
    moments = read_current(snapshot, [table.moment]).column(table.moment)
    counted = pc.value_counts(pc.floor_temporal(moments, unit="month"))
    counted = counted.take(pc.sort_indices(counted.field(0)))
    names = pc.strftime(counted.field(0).cast(pa.timestamp("s", "UTC")), format="%Y-%m")
    names = names.fill_null("unknown").to_pylist()
    chosen = set(names if only is None else only)
    wanted = [
        (name, start, count.as_py())
        for name, start, count in zip(names, *counted.flatten(), strict=True)
        if name in chosen
    ]

    def read() -> Iterator[tuple[int, tuple[str, pa.Table, str]]]:
        for name, start, count in wanted:
            if start.is_valid:
                end = pc.add(start, pa.scalar(32 * 86_400 * 10**9, pa.duration("ns")))
                end = pc.floor_temporal(end, unit="month")
                first, last = (one.cast("int64").as_py() for one in (start, end))
                rows = read_current(snapshot, first=first, end=last)
            else:
                rows = read_current(snapshot)
                rows = rows.filter(rows.column(table.moment).is_null())
            yield count, (name, *_known(table.in_order(rows)))

    total = sum(count for *_, count in wanted)
    yield from with_progress(read(), total, f"publishing {table.name}")


def _known(rows: pa.Table) -> tuple[pa.Table, str]:
    plain = portable(rows).combine_chunks().replace_schema_metadata(None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return plain, hashlib.sha256(sink.getvalue()).hexdigest()


def _digest_of(path: StorePath) -> str | None:
    """As written into the file; none of a file that is not ours, or not complete."""
    try:
        with path.open("rb") as file:
            found = pq.read_metadata(file).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return None
    digest = found.get(_DIGEST.encode())
    return None if digest is None else digest.decode()


def _write(file: IO[bytes], schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    with pq.ParquetWriter(
        file, schema, version="2.6", compression="snappy", write_page_checksum=True
    ) as writer:
        for rows in tables:
            writer.write_table(rows.replace_schema_metadata(schema.metadata), _GROUP_ROWS)


def portable(rows: pa.Table) -> pa.Table:
    """Moments cut to microseconds, and beside each its exact nanoseconds since 1970."""
    columns: dict[str, pa.ChunkedArray] = {}
    for name in rows.column_names:
        column = rows.column(name)
        if column.type != INSTANT_TYPE:
            columns[name] = column
            continue
        exact = column.cast(pa.int64())
        floored = pc.floor_temporal(column, unit="microsecond")
        columns[name] = floored.cast(pa.timestamp("us", "UTC"))
        columns[f"{name}_ns"] = exact
    return pa.table(columns)
