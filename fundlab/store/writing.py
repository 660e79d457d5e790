"""Writing one file of the store: hidden until it is down on the disk, then published at once."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fundlab.store import disk
from fundlab.store.parts import HEADER, TO, Header, Kind, footer_hash, read_footer, stored_schema
from fundlab.store.remote import StorePath
from fundlab.tables.order import moment_column
from fundlab.tables.schema import Table

ROW_GROUP_ROWS: Final = 65_536


@dataclass(frozen=True)
class Draft:
    """A part on disk that nobody sees yet."""

    hidden: Path
    path: StorePath
    size: int
    rows: int

    def publish(self) -> StorePath:
        """Make it visible, at once and complete."""
        disk.publish(self.hidden, self.path)
        return self.path

    def discard(self) -> None:
        self.hidden.unlink(missing_ok=True)


def write_part(
    folder: StorePath, kind: Kind, table: Table, header: Header, groups: Iterable[pa.Table]
) -> Draft:
    """Write ``groups``, one row group each, to a hidden file in ``folder``, down to the disk.

    ``header`` lacks ``row_groups``, ``live_groups``, ``data_sha256`` and the rows of its last
    publication where it is a part: found while writing.
    """
    hidden = disk.hidden_file(folder, f"{kind}-{uuid.uuid4().hex}")
    with disk.new_file(hidden) as file:
        rows = _write(file, kind, table, header, groups)
    footer = read_footer(hidden)
    name = f"{kind}-{header.publications[-1].seq:08d}-{footer_hash(footer)}.parquet"
    return Draft(hidden, folder / name, hidden.stat().st_size, rows)


def _write(
    file: IO[bytes], kind: Kind, table: Table, header: Header, groups: Iterable[pa.Table]
) -> int:
    """Returns the number of rows."""
    sink = _HashingSink(file)
    schema = stored_schema(table, kind)
    row_groups: list[tuple[int, int | None, int | None]] = []
    live_groups = 0
    with pq.ParquetWriter(
        sink, schema, compression="zstd", compression_level=1, write_page_checksum=True,
        use_dictionary=_repetitive_columns(table), column_encoding=_counting_columns(schema),
        version="2.6",
    ) as writer:  # fmt: skip
        for group in groups:
            if group.num_rows:
                writer.write_table(group, row_group_size=group.num_rows)
                row_groups.append((group.num_rows, *_moments_of(group, table)))
                if kind == "base":
                    live_groups += group.column(TO).null_count == group.num_rows
        rows = sum(count for count, _, _ in row_groups)
        *known, last = header.publications
        done = replace(
            header,
            publications=(*known, replace(last, rows=rows) if kind == "part" else last),
            row_groups=tuple(row_groups),
            live_groups=live_groups if kind == "base" else None,
            data_sha256=sink.hexdigest(),
        )
        writer.add_key_value_metadata({HEADER: done.to_json()})
    return rows


class _HashingSink:
    """A file that hashes what is written to it; what Arrow needs of a Python file, no more."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()
        self.closed = False

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._file.write(data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True  # the file itself is closed by who opened it, after fsync

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _repetitive_columns(table: Table) -> list[str]:
    """Texts that repeat; a dictionary of amounts takes twice as long to read as the amounts."""
    unique = {"id", "ref_id", "crypto_tx_hash", "object"}
    return [
        field.name
        for field in table.schema
        if pa.types.is_string(field.type) and field.name not in unique
    ]


def _counting_columns(schema: pa.Schema) -> dict[str, str]:
    """Numbers that mostly rise are kept as their steps: half the size, twice as fast."""
    kinds = (pa.types.is_timestamp, pa.types.is_integer)
    return {
        field.name: "DELTA_BINARY_PACKED"
        for field in schema
        if any(is_(field.type) for is_ in kinds)
    }


def _moments_of(group: pa.Table, table: Table) -> tuple[int | None, int | None]:
    column = group.column(moment_column(table))
    if column.null_count:
        return None, None  # such a group is never passed over
    found = pc.min_max(column.cast(pa.int64()))
    return found["min"].as_py(), found["max"].as_py()


def in_row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in the same order, in row groups of the usual size."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= ROW_GROUP_ROWS:
            rows = pa.concat_tables(waiting)
            yield rows.slice(0, ROW_GROUP_ROWS)
            waiting, count = [rows.slice(ROW_GROUP_ROWS)], count - ROW_GROUP_ROWS
    if count:
        yield pa.concat_tables(waiting)
