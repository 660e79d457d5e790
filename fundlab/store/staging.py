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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import numbers
from fundlab.store import disk
from fundlab.tables.schema import Table

STAGING: Final = ".staging"
FILE_ROWS: Final = 8_192
FLUSH_AFTER_S: Final = 1.0
_NAME: Final = re.compile(r"(\d{8})-([0-9a-f]{16})\.arrow", re.ASCII)
_OWN: Final = re.compile(rf"{_NAME.pattern}|\.[0-9a-f]+\.tmp", re.ASCII)
_HEADER: Final = b"fundlab.stage"
_ALWAYS: Final = -(2**63)

Span = tuple[int | None, int | None]
"""From (inclusive) until (exclusive), in ns; ``None`` is open."""


@dataclass
class Piece:
    """Some of the staged rows, in the order they came in: in a file, or not on disk yet. ``rows``
    is how many there are, ``first`` their oldest moment (ns)."""

    table: Table
    path: Path | None = None
    rows: int = 0
    first: int = 2**63 - 1
    tables: list[pa.Table] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        if self.path is None:
            rows = pa.concat_tables([self.table.schema.empty_table(), *self.tables])
        else:
            with pa.memory_map(str(self.path)) as source:
                schema = pa.ipc.open_file(source).schema
                chosen = None if columns is None else [schema.get_field_index(n) for n in columns]
                options = pa.ipc.IpcReadOptions(included_fields=chosen)
                rows = pa.ipc.open_file(source, options=options).read_all()
        return rows.replace_schema_metadata(None) if columns is None else rows.select(columns)

    def holds(self, rows: pa.Table) -> None:
        """Take note of more rows in it."""
        self.rows += rows.num_rows
        if rows.num_rows:
            moments = numbers(rows.column(self.table.moment).drop_null())
            self.first = min(self.first, int(moments.min()) if len(moments) else _ALWAYS)


class Stage:
    """The staged rows of one table.

    ``question`` is what is being asked; files that answer another are dropped. ``note`` is whatever
    the run that began with the question wanted the run that ends it to know.
    """

    def __init__(
        self,
        folder: Path,
        table: Table,
        question: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder, self.table = folder, table
        self.covered: list[Span] = []
        self.note: Mapping[str, Any] = {}
        self._question = None if question is None else json.dumps(question, sort_keys=True)
        self._files: list[Piece] = []
        self._walks: dict[int, Piece] = {}
        self._writer = ThreadPoolExecutor(1, "fundlab-stage")
        self._writing: Future[None] | None = None
        self._clock, self._flushed_at = clock, clock()
        disk.refuse_link(folder)
        # Go on with what a run before left, as far as it is intact and answers the question.
        found = self._own_files()
        for path in (path for path in found if _NAME.fullmatch(path.name)):
            if self._question is None or not self._take_over(path):
                break
        kept = {piece.path for piece in self._files}
        disk.remove([path for path in found if path not in kept])

    @property
    def pieces(self) -> list[Piece]:
        """All staged rows, those on disk first. Raises whatever kept the last file from there."""
        self._settle()
        return [*self._files, *self._walks.values()]

    def add(self, rows: pa.Table, walk: int = 0, covered: Span | None = None) -> None:
        """Take in one page; ``walk`` says which pages follow each other in time.

        Files are written in the background, one at a time, while the next pages come in.
        """
        piece = self._walks.setdefault(walk, Piece(self.table))
        piece.tables.append(rows)
        piece.holds(rows)
        if covered is not None:
            piece.spans.append(covered)
        if piece.rows >= FILE_ROWS:
            self._send(walk)
        elif self._clock() - self._flushed_at > FLUSH_AFTER_S:
            self._send(*self._walks)
            self._flushed_at = self._clock()

    def flush(self) -> None:
        """Bring everything down to the disk."""
        self._send(*self._walks)
        self._settle()

    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of all rows, repeats included, piece by piece."""
        for piece in self.pieces:
            yield piece.read(columns)

    def holds(self, id_: str) -> bool:
        """Whether a row with this id is among them: looked for among the last ones first."""
        wanted = pa.scalar(id_, pa.string())
        ids = (piece.read(["id"]).column("id") for piece in reversed(self.pieces))
        return any(pc.any(pc.equal(column, wanted)).as_py() for column in ids)

    def versions(self, ids: pa.Array) -> pa.Table:
        """The rows with these ids, each in its newest version."""
        found = [self.table.schema.remove_metadata().empty_table()]
        for piece in self.pieces:
            there = pc.is_in(piece.read(["id"]).column("id"), value_set=ids)
            if pc.any(there).as_py():
                found.append(piece.read().filter(there))
        return self.table.distinct(pa.concat_tables(found))

    def discard(self) -> None:
        """Forget everything."""
        self._settle()
        self._walks.clear()
        self._files.clear()
        self.covered.clear()
        disk.remove(self._own_files(), and_folder=self.folder)

    # ------------------------------------------------------------------------ files

    def _send(self, *walks: int) -> None:
        """Have the rows of these walks written, each once those before them are."""
        for walk in walks:
            self._settle()
            self._writing = self._writer.submit(self._write, self._walks.pop(walk))

    def _settle(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, piece: Piece) -> None:
        if not piece.rows:
            return
        spans = merged(piece.spans)
        header = {"question": self._question, "note": self.note, "covered": spans}
        rows = piece.read().replace_schema_metadata({_HEADER: json.dumps(header)}).combine_chunks()
        buffer = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(buffer, rows.schema, options=options) as writer:
            writer.write_table(rows)
        content = buffer.getvalue()
        path = self.folder / f"{len(self._files) + 1:08d}-{_hash(content)}.arrow"
        disk.write_new(path, content)
        self._files.append(Piece(self.table, path, piece.rows, piece.first))
        self.covered = merged([*self.covered, *spans])

    def _take_over(self, path: Path) -> bool:
        """Whether the file is the next one, intact, and answers the question: then it counts."""
        content = path.read_bytes()
        if path.name != f"{len(self._files) + 1:08d}-{_hash(content)}.arrow":
            return False
        schema = pa.ipc.open_file(pa.BufferReader(content)).schema
        header: dict[str, Any] = json.loads(schema.metadata[_HEADER])
        current = schema.remove_metadata().equals(self.table.schema.remove_metadata())
        if not current or header["question"] != self._question:
            return False
        piece = Piece(self.table, path)
        piece.holds(piece.read([self.table.moment]))
        self._files.append(piece)
        spans = [(span[0], span[1]) for span in header["covered"]]
        self.covered, self.note = merged([*self.covered, *spans]), header["note"]
        return True

    def _own_files(self) -> list[Path]:
        """The files of this and earlier runs; what others put beside them is theirs."""
        return [
            path
            for path in disk.files_in(self.folder)
            if isinstance(path, Path) and _OWN.fullmatch(path.name)
        ]


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


def _hash(content: pa.Buffer | bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
