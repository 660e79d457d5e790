"""One Parquet file of the store: written once, named by a manifest, checked on every read.

The file's name ends in the hash of its footer, the manifest has its size and the hash of all of it,
and every page carries a checksum. So a flipped bit is an error, never another table::

    part-00000007-5f3a….parquet    the rows that were new or changed in publication 7
    base-00000007-91cc….parquet    every version up to publication 7, the current ones first

Beside the columns of its table a part says which earlier row each row replaces (``_part``: the
number of the file, ``_row``: the position in it), a base from which publication on (``_from``) and
until which (``_to``, null while current) a version stood.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import struct
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from fundlab.base.arrow import numbers
from fundlab.base.errors import StoreChanged, StoreDamaged, StoreError, first_line
from fundlab.base.values import Instant
from fundlab.store import disk
from fundlab.store.manifests import File
from fundlab.store.remote import RemotePath, StorePath
from fundlab.tables.schema import SCHEMA_VERSION, Table

REPLACED_PART: Final = "_part"
REPLACED_ROW: Final = "_row"
FROM: Final = "_from"
TO: Final = "_to"
BOOKKEEPING: Final[Mapping[str, Sequence[pa.Field]]] = {
    "part": (pa.field(REPLACED_PART, pa.int32()), pa.field(REPLACED_ROW, pa.int64())),
    "base": (pa.field(FROM, pa.int32()), pa.field(TO, pa.int32())),
}

_POINTERS: Final = pa.schema(BOOKKEEPING["part"])

HEADER: Final = b"fundlab"
ROW_GROUP_ROWS: Final = 65_536

THREADS: Final = min(4, os.cpu_count() or 1)  # each holds one row group
_KEPT_OPEN: Final = 1_024

Kind = Literal["part", "base"]
T = TypeVar("T")
FILE_NAME: Final = re.compile(r"(part|base)-(\d{8})-([0-9a-f]{16})\.parquet", re.ASCII)
_FOOTER: Final = "the footer is not what was written"
_MAGIC: Final = b"PAR1"
_TAIL: Final = 8
_UNIQUE: Final = frozenset({"id", "ref_id", "crypto_tx_hash", "object"})
_LOCAL: Final = fs.LocalFileSystem()  # named, as pyarrow takes long to find out


@dataclass(frozen=True)
class Publication:
    """What was published when, from which query, and up to which moment of the service. ``seq`` is
    the number of the manifest: what tables have of one publication belongs together."""

    seq: int
    published_at: int  # nanoseconds since 1970
    rows: int = 0
    query: Mapping[str, Any] = field(default_factory=dict)
    watermark: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def begins(self) -> int | None:
        """Where the rows known by then begin (ns, ``None``: with the first there is)."""
        since = self.query.get("since")
        begins = None if since is None else Instant.parse(since).ns
        return begins if begins is not None and begins > 0 else None  # none is older than 1970


@dataclass(frozen=True)
class Header:
    """What a file says about itself, in its own metadata."""

    table: str
    schema_version: int
    service: Mapping[str, str]
    publications: tuple[Publication, ...]  # one for a part, all that it covers for a base
    row_groups: tuple[tuple[int, int | None, int | None], ...] = ()  # rows, first and last moment
    live_groups: int | None = None  # for a base: how many row groups hold current rows


@dataclass(frozen=True)
class Part:
    """A published file whose footer was found to be what was written.

    ``starts`` is the position of each row group's first row, and at last the number of rows. Only
    the first ``live_groups`` row groups hold rows that were current when the file was written.
    ``replacing`` are the row groups in which rows replace earlier ones, and how many do, as the
    footer has it: all, where it does not say.
    """

    path: StorePath
    file: File
    kind: Kind
    seq: int
    header: Header
    footer: bytes
    names: frozenset[str]
    starts: Sequence[int]
    rows: int
    live_groups: int
    replacing: Mapping[int, int]

    @property
    def metadata(self) -> pq.FileMetaData:
        return _parsed(self.footer)

    @cached_property
    def pointers(self) -> Sequence[tuple[npt.NDArray[np.int64], ...]]:
        """Of each row group in which rows replace others the positions of these, and which they
        replace: numbers of files, and positions there. Read once, as long as the file is the same.
        """
        found: list[tuple[npt.NDArray[np.int64], ...]] = []
        if not self.replacing:
            return found
        reader = PartReader(self)
        for number in self.replacing:
            columns = reader.read(number, _POINTERS).columns
            given = numbers(pc.or_(*(column.is_valid() for column in columns)))
            rows = np.flatnonzero(given) + self.starts[number]
            found.append((rows, *(numbers(column.fill_null(-1))[given] for column in columns)))
        return found

    def groups_of(self, rows: npt.NDArray[np.int64]) -> list[int]:
        """The row groups that hold the rows at these positions."""
        numbers = np.searchsorted(self.starts, rows, side="right") - 1
        return list(np.flatnonzero(np.bincount(numbers)).tolist())


class PartReader:
    """Reads row groups of a part; every page's checksum is verified. One thread's own."""

    def __init__(self, part: Part, coded: Sequence[str] = ()) -> None:
        """The columns ``coded`` come dictionary-coded, as they are in the file."""
        self.part, path = part, part.path
        options: dict[str, Any] = {
            "metadata": part.metadata, "page_checksum_verification": True,
            "read_dictionary": [name for name in coded if name in part.names],
        }  # fmt: skip
        with _reading(path):
            if isinstance(path, RemotePath):
                self._file = pq.ParquetFile(
                    path.key, filesystem=path.filesystem, pre_buffer=True, **options
                )
            else:
                self._file = pq.ParquetFile(str(path), filesystem=_LOCAL, **options)

    def read(self, group: int, schema: pa.Schema) -> pa.Table:
        """The columns of ``schema`` in one row group; a column the file lacks is null."""
        there = [name for name in schema.names if name in self.part.names]
        rows = self.part.header.row_groups[group][0]
        with _reading(self.part.path, f"row group {group}"):
            found = self._file.read_row_group(group, columns=there)
            for column in found.columns:
                if pa.types.is_dictionary(column.type):
                    column.validate(full=True)  # how many values there are, no checksum covers
        if found.num_rows != rows and there:
            raise damaged(
                self.part.path, f"row group {group} has {found.num_rows} rows instead of {rows}"
            )
        columns = [
            found.column(column.name) if column.name in there else pa.nulls(rows, column.type)
            for column in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)


def each_row_group(
    wanted: Iterable[tuple[Part, Sequence[int]]],
    work: Callable[[PartReader, int], T],
    coded: Sequence[str] = (),
) -> Iterator[T]:
    """What ``work`` makes of the row groups with these numbers, in this order; several at once.
    Its readers give the columns ``coded`` dictionary-coded."""

    def done(part: Part, number: int) -> T:
        return work(PartReader(part, coded), number)

    tasks = [(part, number) for part, numbers in wanted for number in numbers]
    if len(tasks) <= 1:  # as of most tables: what is at hand needs no threads
        yield from (done(*task) for task in tasks)
        return
    with ThreadPoolExecutor(THREADS) as threads:
        ahead: deque[Future[T]] = deque()
        try:
            for task in tasks:
                ahead.append(threads.submit(done, *task))
                if len(ahead) >= THREADS:  # or all rows were in memory
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for waiting in ahead:
                waiting.cancel()


def repetitive(table: Table) -> list[str]:
    """The texts that repeat, which files hold as the codes of a dictionary. (A dictionary of
    amounts takes twice as long to read as the amounts.)"""
    return [
        column.name
        for column in table.schema
        if pa.types.is_string(column.type) and column.name not in _UNIQUE
    ]


def as_read(fields: Iterable[pa.Field], coded: Collection[str]) -> pa.Schema:
    """The ``fields``, those ``coded`` as columns of codes."""
    return pa.schema(
        [field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in coded else field
         for field in fields]
    )  # fmt: skip


def stored_schema(table: Table, kind: Kind) -> pa.Schema:
    """The schema on disk: the table's columns and the bookkeeping."""
    schema = table.schema
    return pa.schema([*schema, *BOOKKEEPING[kind]], metadata=schema.metadata)


# ---------------------------------------------------------------------------- opening


def damaged(path: StorePath, problem: str) -> StoreDamaged:
    """The error for what was found at ``path``, a file or the folder of a table."""
    hint = "restore it from a backup, or let 'fundlab repair' say what is lost and fetch it again"
    return StoreDamaged(problem, path=path, hint=hint)


_opened: dict[tuple[str, str], tuple[disk.State, Part]] = {}
"""The files of this machine that were opened last, and their state then."""


def open_part(folder: StorePath, file: File, table: Table) -> Part:
    """The part ``file`` of ``folder``. Raises ``StoreDamaged`` unless its size and its footer are
    what was written, and it is of this table and number; ``StoreChanged`` where it is not there.

    A file of this machine that has not changed since this process opened it is not read again.
    """
    path = folder / file.name
    if not isinstance(path, Path):
        return _read_part(path, file, table)
    key = str(path), table.name
    with _reading(path):
        state = disk.state_of(path)  # first: what changes from here on shows next time
    found = _opened.get(key)
    if found is not None and found[0] == state and found[1].file == file:
        return found[1]
    part = _read_part(path, file, table)
    if disk.has_settled(state):
        _opened[key] = state, part
        if len(_opened) > _KEPT_OPEN:
            _opened.pop(next(iter(_opened)), None)
    return part


def _read_part(path: StorePath, file: File, table: Table) -> Part:
    match = FILE_NAME.fullmatch(path.name)
    if match is None:
        raise damaged(path, "is not a file of the store")
    with _reading(path):
        footer, digest, size = read_footer(path)
    if size != file.size:
        raise damaged(path, f"has {size:,} bytes instead of {file.size:,}")
    if digest != match[3]:
        raise damaged(path, _FOOTER)
    try:
        metadata = _parsed(footer)
        found = json.loads(metadata.metadata[HEADER])
        if found["schema_version"] > SCHEMA_VERSION:
            raise StoreError(
                f"{path}: written by a newer fundlab (version {found['schema_version']} of the "
                f"format, this one reads up to {SCHEMA_VERSION}): update fundlab"
            )
        found["publications"] = tuple(Publication(**entry) for entry in found["publications"])
        found["row_groups"] = tuple(tuple(entry) for entry in found["row_groups"])
        header = Header(**found)
        seq, last = int(match[2]), header.publications[-1].seq
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise damaged(path, f"is not one of this store's files ({first_line(error)})") from error
    counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    live = len(counts) if header.live_groups is None else header.live_groups
    if counts != [count for count, _, _ in header.row_groups] or not 0 <= live <= len(counts):
        raise damaged(path, "its row groups are not those that its header names")
    if header.table != table.name:
        raise damaged(path, f"holds {header.table}, not {table.name}")
    kind: Kind = "base" if match[1] == "base" else "part"
    if last != seq:
        raise damaged(path, f"holds publication {last}, not {seq}")
    replacing: dict[int, int] = {}
    if kind == "part":
        try:
            column = metadata.schema.names.index(REPLACED_PART)
        except ValueError as error:
            raise damaged(path, f"has no column {REPLACED_PART}") from error
        for number, count in enumerate(counts):
            known = metadata.row_group(number).column(column).statistics
            if known is not None and known.has_null_count:
                count -= known.null_count
            if count:
                replacing[number] = count
    names, starts = frozenset(metadata.schema.names), [0, *accumulate(counts)]
    rows = starts[-1]
    return Part(path, file, kind, seq, header, footer, names, starts, rows, live, replacing)


@lru_cache(maxsize=16)
def _parsed(footer: bytes) -> pq.FileMetaData:
    """What a footer says is ten times as large as its bytes, so it is kept of the last 16 files
    alone; to parse it takes 0.1 ms for each row group."""
    return pq.read_metadata(pa.BufferReader(_MAGIC + footer))


def read_footer(path: StorePath) -> tuple[bytes, str, int]:
    """The bytes from the Parquet footer to the end of the file, their hash as in its name, and how
    many bytes the file has."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(size - _TAIL, 0))
        tail = file.read()
        if len(tail) < _TAIL or tail[4:] != _MAGIC:
            raise damaged(path, "cut short, or not a Parquet file")
        (length,) = struct.unpack("<I", tail[:4])
        if length + _TAIL > size:
            raise damaged(path, "the footer's length is not what was written")
        file.seek(size - _TAIL - length)
        footer = bytes(file.read())
    return footer, hashlib.sha256(footer).hexdigest()[:16], size


def file_of(path: StorePath) -> File:
    """The file at ``path`` as it is. Reads every byte. Raises ``StoreChanged`` where there is
    none."""
    found, size = hashlib.sha256(), 0
    with _reading(path), path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
            size += len(block)
    return File(path.name, size, found.hexdigest())


def check_data(part: Part) -> None:
    """Raises ``StoreDamaged`` unless all bytes of the file are those that were written."""
    found = file_of(part.path)
    if found.size != part.file.size:
        raise damaged(part.path, f"has {found.size:,} bytes instead of {part.file.size:,}")
    if found != part.file:
        raise damaged(part.path, "is not what was written")


_intact: dict[tuple[str, int], tuple[StorePath, disk.State]] = {}
"""The files found to be what was written, and their state then. The path is kept for its
filesystem, whose id would be given again."""


def check_files(parts: Sequence[Part]) -> None:
    """Raises ``StoreDamaged`` unless all bytes of these files are those that were written: for
    engines that verify no checksums. A file that has not changed since this process last read it
    is not read again.

    What changes between this and the reading of an engine is not noticed.
    """

    def check(part: Part) -> None:
        key = str(part.path), id(getattr(part.path, "filesystem", None))
        with _reading(part.path):
            state = disk.state_of(part.path)  # first: what changes from here on shows next time
        if key not in _intact or _intact[key][1] != state:
            check_data(part)
            if disk.has_settled(state):
                _intact[key] = part.path, state

    with ThreadPoolExecutor(THREADS) as threads:
        for _ in threads.map(check, parts):
            pass


@contextmanager
def _reading(path: StorePath, where: str = "the file") -> Iterator[None]:
    """What the disk or Arrow says of a file that cannot be read, as an error of the store."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        with disk.readable(path):
            is_there = path.exists()
        if not is_there:  # a compaction took it, so the reader looks again
            raise StoreChanged(
                f"{path} is gone: a compaction took it away while it was read; read again"
            ) from error
        if isinstance(error, OSError) and error.errno is not None:
            raise disk.unreadable(path, error) from error
        raise damaged(path, f"{where} is not what was written ({first_line(error)})") from error


# ---------------------------------------------------------------------------- writing


@dataclass(frozen=True)
class Draft:
    """A part on disk that nobody sees yet."""

    hidden: Path
    path: StorePath
    file: File
    rows: int

    def discard(self) -> None:
        self.hidden.unlink(missing_ok=True)


def write_part(
    folder: StorePath, kind: Kind, table: Table, header: Header, *rows: Iterable[pa.Table]
) -> Draft:
    """Write ``rows``, each series of tables in row groups of its own, to a hidden file in
    ``folder``, down to the disk.

    ``header`` lacks ``row_groups``, ``live_groups`` and the rows of its last publication where it
    is a part: found while writing.
    """
    schema, moment = stored_schema(table, kind), table.moment
    # Numbers that mostly rise are kept as their steps: half the size, twice as fast.
    steps = {
        column.name: "DELTA_BINARY_PACKED"
        for column in schema
        if pa.types.is_timestamp(column.type) or pa.types.is_integer(column.type)
    }
    row_groups: list[tuple[int, int | None, int | None]] = []
    live_groups = 0
    hidden = disk.hidden_file(folder, f"{kind}-{uuid.uuid4().hex}")
    with disk.new_file(hidden) as file:
        sink = _HashingSink(file)
        with pq.ParquetWriter(
            sink, schema, compression="zstd", compression_level=1, write_page_checksum=True,
            use_dictionary=repetitive(table), column_encoding=steps, version="2.6",
        ) as writer:  # fmt: skip
            for series in rows:
                for group in in_row_groups(series):
                    writer.write_table(group, row_group_size=group.num_rows)
                    moments, first, last = group.column(moment), None, None
                    if not moments.null_count:  # such a group is never passed over
                        first, last = pc.min_max(moments.cast(pa.int64())).as_py().values()
                    row_groups.append((group.num_rows, first, last))
                    if kind == "base":
                        live_groups += group.column(TO).null_count == group.num_rows
                    del group, moments
            count = sum(number for number, _, _ in row_groups)
            *known, newest = header.publications
            done = replace(
                header,
                publications=(*known, replace(newest, rows=count) if kind == "part" else newest),
                row_groups=tuple(row_groups),
                live_groups=live_groups if kind == "base" else None,
            )
            text = json.dumps(asdict(done), separators=(",", ":"), sort_keys=True)
            writer.add_key_value_metadata({HEADER: text})
    _, digest, size = read_footer(hidden)
    name = f"{kind}-{header.publications[-1].seq:08d}-{digest}.parquet"
    return Draft(hidden, folder / name, File(name, size, sink.hash.hexdigest()), count)


def in_row_groups(tables: Iterable[pa.Table], size: int | None = None) -> Iterator[pa.Table]:
    """The same rows in the same order, in row groups of one ``size``, by default the usual one."""
    size = ROW_GROUP_ROWS if size is None else size
    waiting: list[pa.Table] = []
    count = 0
    for rows in tables:
        waiting.append(rows)
        count += rows.num_rows
        del rows  # they are large: who asks for a group is alone in holding it
        while count >= size:
            joined = pa.concat_tables(waiting)
            waiting, count = [joined.slice(0, size), joined.slice(size)], count - size
            del joined
            yield waiting.pop(0)
    if count:
        yield pa.concat_tables(waiting)


class _HashingSink:
    """A file that hashes what is written to it; what Arrow needs of a Python file, no more."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.hash = file, hashlib.sha256()
        self.tell, self.flush = file.tell, file.flush
        self.closed = False

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return self._file.write(data)

    def close(self) -> None:
        self.closed = True  # the file itself is closed by who opened it, after fsync
