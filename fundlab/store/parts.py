"""One Parquet file of the store: written once, published by one rename, checked on every read.

The file's name ends in the hash of its footer, the footer holds a checksum of all data, and every
page carries its own. So a flipped bit is an error, never another table::

    part-00000007-5f3a….parquet    the rows that were new or changed in the seventh publication
    base-00000007-91cc….parquet    every version up to the seventh, the current ones first

Beside the columns of its table a part says which earlier row each row replaces (``_part``: the
number of the file, ``_row``: the position in it), a base from which publication on (``_from``) and
until which (``_to``, null while current) a version stood.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fundlab.errors import StoreChanged, StoreDamaged, StoreError, first_line
from fundlab.store import disk
from fundlab.store.remote import StorePath
from fundlab.tables.schema import INSTANT_TYPE, SCHEMA_VERSION, Table
from fundlab.values import Instant

REPLACED_PART: Final = "_part"
REPLACED_ROW: Final = "_row"
FROM: Final = "_from"
TO: Final = "_to"
BOOKKEEPING: Final[Mapping[str, Sequence[pa.Field]]] = {
    "part": (pa.field(REPLACED_PART, pa.int32()), pa.field(REPLACED_ROW, pa.int64())),
    "base": (pa.field(FROM, pa.int32()), pa.field(TO, pa.int32())),
}

HEADER: Final = b"fundlab"

THREADS: Final = min(4, os.cpu_count() or 1)  # each holds one row group
_GROUPS_AT_ONCE: Final = 4

_FOOTER: Final = "the footer is not what was written"

Kind = Literal["part", "base"]
T = TypeVar("T")
_NAME: Final = re.compile(r"(part|base)-(\d{8})-([0-9a-f]{16})\.parquet", re.ASCII)
_MAGIC: Final = b"PAR1"
_RESTORE: Final = "restore it from a backup, or sync into a new store"
_TAIL: Final = 8


@dataclass(frozen=True)
class Publication:
    """What was published when, from which query, and up to which moment of the service."""

    seq: int
    published_at: int  # nanoseconds since 1970
    rows: int = 0
    query: Mapping[str, Any] = field(default_factory=dict)
    watermark: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    proved_by: int | None = None  # for balances: the publication of the transfers they belong to

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
    data_sha256: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Raises ``StoreError`` for a file of a later version of fundlab."""
        found = json.loads(text)
        version = found["schema_version"]
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"written by a newer fundlab (version {version} of the format, this one reads up "
                f"to {SCHEMA_VERSION}): update fundlab"
            )
        found["publications"] = tuple(Publication(**entry) for entry in found["publications"])
        found["row_groups"] = tuple(tuple(entry) for entry in found["row_groups"])
        return cls(**found)


@dataclass(frozen=True)
class Part:
    """A published file whose footer was found to be what was written."""

    path: StorePath
    kind: Kind
    seq: int
    header: Header
    metadata: pq.FileMetaData

    @property
    def rows(self) -> int:
        return int(self.metadata.num_rows)

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns of the file."""
        return frozenset(self.metadata.schema.names)

    def groups(self, first: int | None = None, end: int | None = None) -> Iterator[int]:
        """The row groups that may hold a moment from ``first`` up to, not including, ``end``."""
        for number, (_, low, high) in enumerate(self.header.row_groups):
            if low is None or high is None:
                if first is None and end is None:
                    yield number
            elif (first is None or high >= first) and (end is None or low < end):
                yield number

    def replacing(self) -> Mapping[int, int]:
        """The row groups in which rows replace earlier ones, and how many do, as the footer has it:
        all, where it does not say."""
        if self.kind != "part":
            return {}
        column = self.metadata.schema.names.index(REPLACED_PART)
        counts = {}
        for number, (rows, _, _) in enumerate(self.header.row_groups):
            found = self.metadata.row_group(number).column(column).statistics
            known = found is not None and found.has_null_count
            counts[number] = rows - found.null_count if known else rows
        return {number: count for number, count in counts.items() if count}

    @cached_property
    def starts(self) -> Sequence[int]:
        """The position of each row group's first row, and at last the number of rows."""
        return [0, *accumulate(rows for rows, _, _ in self.header.row_groups)]

    @property
    def current_end(self) -> int:
        """The position up to which rows may be current: those replaced before it was written
        stand at the end of a base."""
        live = self.header.live_groups
        return self.starts[-1 if live is None else live]

    def groups_of(self, rows: npt.NDArray[np.int64]) -> list[int]:
        """The row groups that hold the rows at these positions."""
        numbers = np.searchsorted(self.starts, rows, side="right") - 1
        return [int(number) for number in np.unique(numbers)]

    def open(self) -> PartReader:
        return PartReader(self)


class PartReader:
    """Reads row groups of a part; every page's checksum is verified."""

    def __init__(self, part: Part, coded: Sequence[str] = ()) -> None:
        """The columns ``coded`` come dictionary-coded, as they are in the file."""
        self.part = part
        with _reading(part.path):
            self._file = disk.open_parquet(
                part.path, metadata=part.metadata, page_checksum_verification=True,
                read_dictionary=list(coded),
            )  # fmt: skip

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

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def each_row_group(
    wanted: Iterable[tuple[Part, Sequence[int]]], work: Callable[[PartReader, int], T]
) -> Iterator[T]:
    """What ``work`` makes of the row groups with these numbers, in this order; several at once."""

    def done(part: Part, numbers: Sequence[int]) -> list[T]:
        with part.open() as reader:
            return [work(reader, number) for number in numbers]

    tasks = [
        (part, numbers[start : start + _GROUPS_AT_ONCE])
        for part, numbers in wanted
        for start in range(0, len(numbers), _GROUPS_AT_ONCE)
    ]
    with ThreadPoolExecutor(THREADS) as threads:
        for results in threads.map(lambda task: done(*task), tasks):
            yield from results


def stored_schema(table: Table, kind: Kind) -> pa.Schema:
    """The schema on disk: the table's columns and the bookkeeping."""
    schema = table.schema
    return pa.schema([*schema, *BOOKKEEPING[kind]], metadata=schema.metadata)


# ---------------------------------------------------------------------------- opening


def damaged(path: StorePath, problem: str) -> StoreDamaged:
    """The error for what was found at ``path``, a file or the folder of a table."""
    return StoreDamaged(problem, path=path, hint=_RESTORE)


def find_parts(folder: StorePath) -> dict[tuple[Kind, int], StorePath]:
    """The published files of ``folder`` by kind and number."""
    found: dict[tuple[Kind, int], StorePath] = {}
    for path in disk.files_in(folder):
        match = _NAME.fullmatch(path.name)
        if match is not None:
            kind: Kind = "base" if match[1] == "base" else "part"
            if (kind, int(match[2])) in found:
                raise damaged(path, "there are two files of this number")
            found[kind, int(match[2])] = path
    return found


def open_part(path: StorePath, table: Table) -> Part:
    """The part at ``path``. Raises ``StoreDamaged`` unless its footer is what was written, and
    that of this table and number."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise damaged(path, "is not a file of the store")
    with _reading(path):
        footer = read_footer(path)
    if footer_hash(footer) != match[3]:
        raise damaged(path, _FOOTER)
    metadata, header = _understood(path, footer)
    if header.table != table.name:
        raise damaged(path, f"holds {header.table}, not {table.name}")
    kind: Kind = "base" if match[1] == "base" else "part"
    seq = int(match[2])
    if header.publications[-1].seq != seq:
        raise damaged(path, f"holds publication {header.publications[-1].seq}, not {seq}")
    return Part(path, kind, seq, header, metadata)


def _understood(path: StorePath, footer: bytes) -> tuple[pq.FileMetaData, Header]:
    try:
        metadata = pq.read_metadata(pa.BufferReader(_MAGIC + footer))
        header = Header.from_json(metadata.metadata[HEADER])
    except StoreError as error:
        raise StoreError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise damaged(path, f"is not one of this store's files ({first_line(error)})") from error
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    if rows != [count for count, _, _ in header.row_groups] or (
        not 0 <= (header.live_groups or 0) <= len(rows)
    ):
        raise damaged(path, "its row groups are not those that its header names")
    return metadata, header


def read_footer(path: StorePath) -> bytes:
    """The bytes from the Parquet footer to the end of the file."""
    size = disk.size_of(path)
    with path.open("rb") as file:
        file.seek(max(size - _TAIL, 0))
        tail = file.read()
        if len(tail) < _TAIL or tail[4:] != _MAGIC:
            raise damaged(path, "cut short, or not a Parquet file")
        (length,) = struct.unpack("<I", tail[:4])
        if length + _TAIL > size:
            raise damaged(path, "the footer's length is not what was written")
        file.seek(size - _TAIL - length)
        return file.read()


def footer_hash(footer: bytes) -> str:
    return hashlib.sha256(footer).hexdigest()[:16]


def check_data(part: Part) -> None:
    """Raises ``StoreDamaged`` unless all bytes of the file are those that were written."""
    digest = hashlib.sha256()
    with _reading(part.path):
        footer = read_footer(part.path)
        remaining = disk.size_of(part.path) - len(footer)
        with part.path.open("rb") as file:
            while block := file.read(min(remaining, 1 << 20)):
                digest.update(block)
                remaining -= len(block)
    if not part.path.stem.endswith(footer_hash(footer)):
        raise damaged(part.path, _FOOTER)
    if digest.hexdigest() != part.header.data_sha256:
        raise damaged(part.path, "the data are not what was written")


def check_files(parts: Sequence[Part]) -> None:
    """Raises ``StoreDamaged`` unless all bytes of these files are those that were written: for
    engines that verify no checksums. A file that has not changed since this process last read it
    is not read again.

    What changes between this and the reading of an engine is not noticed.
    """
    with ThreadPoolExecutor(THREADS) as threads:
        for _ in threads.map(_check_once, parts):
            pass


_intact: dict[tuple[str, int], tuple[StorePath, disk.State]] = {}
"""The files found to be what was written, and their state then. The path is kept for its
filesystem, whose id would be given again."""


def _check_once(part: Part) -> None:
    key = str(part.path), id(getattr(part.path, "filesystem", None))
    with _reading(part.path):
        state = disk.state_of(part.path)  # first: what changes from here on shows next time
    if key in _intact and _intact[key][1] == state:
        return
    check_data(part)
    if disk.has_settled(state):
        _intact[key] = part.path, state


@contextmanager
def _reading(path: StorePath, where: str = "the file") -> Iterator[None]:
    """What the disk or Arrow says of a file that cannot be read, as an error of the store."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if not path.exists():  # a compaction took it, so the reader looks again
            raise StoreChanged(
                f"{path} is gone: a compaction took it away while it was read; read again"
            ) from error
        if isinstance(error, OSError) and error.errno is not None:
            raise StoreError(
                f"{path} cannot be read: {error.strerror}: see to the disk and to who may read "
                "it, then run it again"
            ) from error
        raise damaged(path, f"{where} is not what was written ({first_line(error)})") from error


def moment_scalar(ns: int) -> pa.Scalar:
    return pa.scalar(ns, INSTANT_TYPE)
