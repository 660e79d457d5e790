"""Rows on their way into the store: on disk as they come, unseen by readers, kept if a run dies.

One folder a table, one small Arrow file for every few thousand rows. Each file says which question
it answers and which stretch of time it covers, and its name ends in the hash of its bytes, so
the next run trusts what is intact, drops what is not, and asks only for what is missing.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.store import disk
from fundlab.store.remote import StorePath
from fundlab.tables.order import distinct, moment_column
from fundlab.tables.schema import Table

FILE_ROWS: Final = 16_384
FLUSH_AFTER_S: Final = 1.0
_NAME: Final = re.compile(r"(\d{8})-([0-9a-f]{16})\.arrow", re.ASCII)
_OWN: Final = re.compile(rf"{_NAME.pattern}|\.[0-9a-f]+\.tmp", re.ASCII)
_HEADER: Final = b"fundlab.stage"

Span = tuple[int | None, int | None]
"""From (inclusive) until (exclusive), in ns; ``None`` is open."""


class Piece(Protocol):
    """Some of the staged rows; ``first`` is their oldest moment (ns)."""

    @property
    def rows(self) -> int: ...
    @property
    def first(self) -> int: ...

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows, in the order they came in."""


@dataclass(frozen=True)
class StagedFile:
    """A piece on disk."""

    path: StorePath
    rows: int
    first: int

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        with disk.open_to_read(self.path) as source:
            schema = pa.ipc.open_file(source).schema
            chosen = None if columns is None else [schema.get_field_index(n) for n in columns]
            options = pa.ipc.IpcReadOptions(included_fields=chosen)
            rows = pa.ipc.open_file(source, options=options).read_all()
        return rows.select(columns) if columns is not None else rows.replace_schema_metadata(None)


@dataclass
class Buffered:
    """A piece in memory: the rows of one walk through the pages that are not on disk yet."""

    table: Table
    tables: list[pa.Table] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    rows: int = 0

    @property
    def first(self) -> int:
        return _first(self.read(), self.table)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        rows = pa.concat_tables([self.table.empty(), *self.tables]).replace_schema_metadata(None)
        return rows if columns is None else rows.select(columns)


class Stage:
    """The staged rows of one table.

    ``question`` is what is being asked; files that answer another are dropped. ``note`` is whatever
    the run that began with the question wanted the run that ends it to know.
    """

    def __init__(
        self,
        folder: StorePath,
        table: Table,
        question: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder, self.table = folder, table
        self.covered: list[Span] = []
        self.note: Mapping[str, Any] = {}
        self._question = None if question is None else json.dumps(question, sort_keys=True)
        self._files: list[StagedFile] = []
        self._walks: dict[int, Buffered] = {}
        self._writer = ThreadPoolExecutor(1, "fundlab-stage")
        self._writing: Future[None] | None = None
        self._clock, self._flushed_at = clock, clock()
        disk.refuse_link(folder)
        self._take_over()

    @property
    def files(self) -> list[StagedFile]:
        """What is on disk. Raises whatever kept the last file from getting there."""
        self._settle()
        return self._files

    @property
    def pieces(self) -> list[Piece]:
        """All staged rows, those on disk first."""
        return [*self.files, *self._walks.values()]

    def add(self, rows: pa.Table, walk: int = 0, covered: Span | None = None) -> None:
        """Take in one page; ``walk`` says which pages follow each other in time.

        Files are written in the background, one at a time, while the next pages come in.
        """
        buffer = self._walks.setdefault(walk, Buffered(self.table))
        buffer.tables.append(rows)
        buffer.rows += rows.num_rows
        if covered is not None:
            buffer.spans.append(covered)
        if buffer.rows >= FILE_ROWS:
            self._send(walk)
        elif self._clock() - self._flushed_at > FLUSH_AFTER_S:
            self._send_all()

    def flush(self) -> None:
        """Bring everything down to the disk."""
        self._send_all()
        self._settle()

    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of all rows, repeats included, piece by piece."""
        for piece in self.pieces:
            yield piece.read(columns)

    def versions(self, ids: pa.Array) -> pa.Table:
        """The rows with these ids, each in its newest version."""
        found = [self.table.schema.remove_metadata().empty_table()]
        for piece in self.pieces:
            there = pc.is_in(piece.read(["id"]).column("id"), value_set=ids)
            if pc.any(there, min_count=0).as_py():
                found.append(piece.read().filter(there))
        return distinct(pa.concat_tables(found), self.table)

    def discard(self) -> None:
        """Forget everything."""
        self._settle()
        self._walks.clear()
        self._files.clear()
        self.covered.clear()
        disk.remove_folder(self.folder, self._own_files())

    # ------------------------------------------------------------------------ files

    def _send_all(self) -> None:
        while self._walks:
            self._send(next(iter(self._walks)))
        self._flushed_at = self._clock()

    def _send(self, walk: int) -> None:
        """Have the rows of one walk written, once those before them are."""
        self._settle()
        self._writing = self._writer.submit(self._write, self._walks.pop(walk))

    def _settle(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, walk: Buffered) -> None:
        rows = walk.read()
        if not rows.num_rows:
            return
        spans = merged(walk.spans)
        header = {"question": self._question, "note": self.note, "covered": spans}
        rows = rows.replace_schema_metadata({_HEADER: json.dumps(header)}).combine_chunks()
        buffer = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(buffer, rows.schema, options=options) as writer:
            writer.write_table(rows)
        content = buffer.getvalue()
        hidden = disk.hidden_file(self.folder, uuid.uuid4().hex)
        with disk.new_file(hidden) as file:
            file.write(content)
        name = f"{len(self._files) + 1:08d}-{_hash(content)}.arrow"
        path = self.folder / name
        disk.publish(hidden, path)
        self._files.append(StagedFile(path, rows.num_rows, _first(rows, self.table)))
        self.covered = merged([*self.covered, *spans])

    def _take_over(self) -> None:
        """Go on with what a run before left, as far as it is intact and answers the question."""
        found = self._own_files()
        for number, path in enumerate((p for p in found if _NAME.fullmatch(p.name)), start=1):
            header = self._checked(path, number)
            if header is None:
                break
            rows = StagedFile(path, 0, 0).read([moment_column(self.table)])
            self._files.append(StagedFile(path, rows.num_rows, _first(rows, self.table)))
            spans = [(span[0], span[1]) for span in header["covered"]]
            self.covered, self.note = merged([*self.covered, *spans]), header["note"]
        kept = {file.path for file in self._files}
        disk.remove([path for path in found if path not in kept])

    def _own_files(self) -> list[StorePath]:
        """The files of this and earlier runs; what others put beside them is theirs."""
        return [path for path in disk.files_in(self.folder) if _OWN.fullmatch(path.name)]

    def _checked(self, path: StorePath, number: int) -> dict[str, Any] | None:
        match = _NAME.fullmatch(path.name)
        content = path.read_bytes()
        if self._question is None or match is None or int(match[1]) != number:
            return None
        if _hash(content) != match[2]:
            return None
        schema = pa.ipc.open_file(pa.BufferReader(content)).schema
        header: dict[str, Any] = json.loads(schema.metadata[_HEADER])
        current = schema.remove_metadata().equals(self.table.schema.remove_metadata())
        return header if current and header["question"] == self._question else None


def merged(spans: Sequence[Span]) -> list[Span]:
    """The same stretches of time, those that touch joined, in order."""
    done: list[Span] = []
    for begin, end in sorted(spans, key=lambda span: (span[0] is not None, span[0] or 0)):
        last = done[-1][1] if done else None
        if done and (last is None or begin is None or begin <= last):
            later = None if last is None or end is None else max(last, end)
            done[-1] = (done[-1][0], later)
        else:
            done.append((begin, end))
    return done


def missing(covered: Sequence[Span], asked: Span, overlap: int) -> list[Span]:
    """What of ``asked`` is not covered, each piece begun ``overlap`` earlier than it must be."""
    begin, end = asked
    gaps: list[Span] = []
    for first, last in covered:
        if first is not None and (begin is None or begin < first):
            gaps.append((begin, first))
        if last is None or (end is not None and last >= end):
            return gaps
        stepped = last - overlap
        begin = stepped if first is None or stepped > first else first
    return [*gaps, (begin, end)]


def _first(rows: pa.Table, table: Table) -> int:
    found = pc.min(rows.column(moment_column(table)).cast(pa.int64())).as_py()
    return -(2**63) if found is None else int(found)


def _hash(content: pa.Buffer | bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
