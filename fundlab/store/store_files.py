"""The files of a store and what is published of them: manifests, records, pins, runs.

What reads and writes tables goes through here: :meth:`StoreFiles.snapshot` says which files hold a
table, :meth:`StoreFiles.commit` publishes others.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from fundlab.base.errors import InvalidRequest, StoreChanged, StoreDamaged, StoreError
from fundlab.base.values import Instant, check_unicode, moment_ns
from fundlab.store import disk
from fundlab.store.compaction import merge_files, remove_superseded
from fundlab.store.lock import LOCK, lock_store
from fundlab.store.manifests import (
    MANIFESTS,
    File,
    Manifest,
    beaten,
    is_newest,
    read_manifest,
    settle_head,
    why_read_only,
    write_manifest,
)
from fundlab.store.parts import Draft, damaged
from fundlab.store.records import (
    RECORDS,
    Kind,
    Record,
    pins_of,
    read_record,
    read_records,
    repair_that_lost,
    write_record,
)
from fundlab.store.remote import RemotePath, StorePath, locate
from fundlab.store.runs import RUNS, Run, read_runs, sweep_notes, write_run
from fundlab.store.snapshot import Snapshot, read_current, steadily, take_snapshot
from fundlab.tables.schema import TABLES, find_table

_PIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_BANK_ENTRY: Final = re.compile("bank-[0-9a-f]{20}", re.ASCII)
_CLOCKS_DIFFER_NS: Final = 86_400 * 10**9
Moment = str | datetime
log = logging.getLogger(__name__)


class StoreFiles:
    """The files at ``path``, a folder or elsewhere. ``clock`` gives nanoseconds since 1970. What
    would write to a ``read_only`` store raises ``StoreError``."""

    def __init__(
        self,
        path: str | StorePath,
        *,
        filesystem: Any = None,
        clock: Callable[[], int] = time.time_ns,
        read_only: bool = False,
    ) -> None:
        self.path = locate(path, filesystem)
        self._read_only = read_only
        self._refusal = (
            "was opened read-only; copy the folder and open the copy with fl.Store to change it"
        )
        why = (
            why_read_only(self.path) if isinstance(self.path, RemotePath) and not read_only else ""
        )
        if why:
            self._read_only, self._refusal = True, f"is open for reading only: {why}"
            log.warning("%s %s", self.path, self._refusal)
        if isinstance(self.path, Path) and self.path.is_file():
            raise InvalidRequest(f"path={str(path)!r} is a file; a store is a folder")
        self.clock = clock
        self._held: Manifest | None = None  # what a run that writes goes on from
        self.name = os.path.realpath(self.path) if isinstance(self.path, Path) else str(self.path)
        """By whatever link it is reached."""

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def manifest(self) -> Manifest:
        """Which files count, as published last. Raises ``StoreDamaged`` where that is lost."""
        # Nobody else publishes while this run holds the lock; what it publishes is held, too.
        return read_manifest(self.path) if self._held is None else self._held

    def service(self) -> Mapping[str, str] | None:
        """The service and credential the store belongs to, ``None`` while it is empty."""
        manifest = self.manifest()
        return manifest.service if any(manifest.files.values()) else None

    def snapshot(
        self,
        table: str,
        as_of: Moment | None = None,
        *,
        pin: str | None = None,
        manifest: Manifest | None = None,
    ) -> Snapshot:
        """The files that hold ``table`` now, as of a time, or at a pin; those of ``manifest``,
        where several tables are to be of one publication. Raises ``InvalidRequest`` for a time
        before the store knew anything, ``StoreError`` where there is no store, ``StoreDamaged`` for
        a file that is lost or not what was written."""
        if as_of is not None and pin is not None:
            raise InvalidRequest("give either as_of or pin, not both")
        found, until = find_table(table), None if as_of is None else moment_ns(as_of, "as_of")
        known = self.manifest() if manifest is None else manifest
        if not known.number:
            self.check_there()
        limit = None if pin is None else self._pinned(pin, table, known)
        folder = self.path / found.name
        try:
            taken = take_snapshot(
                folder, found, known.files.get(found.name, ()), limit=limit, as_of=until
            )
        except StoreChanged as error:
            if not is_newest(self.path, known):
                raise
            lost = [one.name for one in known.files[found.name] if not (folder / one.name).exists()]
            raise damaged(folder / min(lost, default=""), "is missing") from error
        if until is not None and not taken.publications:
            self._check_known(until, known)
        return taken

    def _check_known(self, until: int, manifest: Manifest) -> None:
        """Refuses a time before all that is known: its tables would be empty without a word."""
        published = [
            entry.published_at
            for name, files in manifest.files.items()
            for entry in take_snapshot(self.path / name, find_table(name), files).publications
        ]
        if published and until < min(published):
            at, begin = map(Instant.from_ns, (until, min(published)))
            raise InvalidRequest(f"as_of={at}: the store knew nothing before {begin}")

    def check_there(self) -> None:
        """Raises ``StoreError`` for a folder in which no sync ever began: a mistyped path would
        read as a store without a row."""
        begun = (LOCK, RUNS, MANIFESTS)
        if isinstance(self.path, Path) and not any((self.path / name).exists() for name in begun):
            raise StoreError(
                f"there is no store at {self.path}; check the path, or make one there: 'fundlab "
                "init' writes the settings, 'fundlab sync' (store.sync(client)) fetches the rows"
            )

    def _pinned(self, pin: str, table: str, manifest: Manifest) -> int:
        """The publication that a pin names. Raises ``InvalidRequest`` where there is no such pin,
        ``StoreDamaged`` where a repair found that what ``table`` was then is lost."""
        records = self.records(manifest)
        pins = pins_of(records)
        if pin not in pins:
            raise InvalidRequest(
                f"pin {pin!r} does not exist; there are: {', '.join(pins) or 'none'}"
            )
        made = pins[pin]
        number = made.number
        repair = repair_that_lost(records, table, number)
        if repair is not None:
            again = "" if made.kind == "close" else ", or pin again"  # a close is made but once
            raise StoreDamaged(
                f"the state of {table} that the pin {pin!r} names was lost before the repair of "
                f"{repair.at[:19]}Z: restore it from a backup{again}"
            )
        return number

    def records(
        self, manifest: Manifest | None = None, as_of: Moment | None = None, pin: str | None = None
    ) -> list[Record]:
        """Every record that ``manifest``, by default the newest, knows of, oldest first; those made
        until then. Raises ``StoreDamaged`` unless all are there as written."""
        newest = (self.manifest() if manifest is None else manifest).record
        records = read_records(self.path / RECORDS, newest)
        if as_of is not None:
            until = moment_ns(as_of, "as_of")
            records = [one for one in records if Instant.parse(one.at).ns <= until]
        if pin is not None:
            number = pins_of(records)[pin].number
            records = [one for one in records if one.number <= number]
        return records

    def pin(self, name: str) -> None:
        """Name what is known now; ``read(table, pin=name)`` gives it ever after.

        Raises ``StoreError`` if the name is taken, ``InvalidRequest`` if it is not a plain name.

        >>> store.pin("october")
        >>> len(store.read("transfers", pin="october"))
        50
        """
        if not isinstance(name, str) or not _PIN.fullmatch(name):
            raise InvalidRequest(f"pin {name!r}: give letters, digits, '.', '_' and '-'")
        with self.lock() as check_held:
            if name in pins_of(self.records()):
                raise StoreError(f"the pin {name!r} exists; choose another name")
            self.record("pin", {"pin": name}, check_held)

    def pins(self) -> dict[str, str]:
        """Every pin and when it was made, oldest first.

        >>> store.pin("october")
        >>> list(store.pins())
        ['october']
        """
        return {name: record.at for name, record in pins_of(self.records()).items()}

    def item(self, item_id: str) -> str:
        """Its id as it is written here: of a row of the store, whatever its case, or of a bank's
        entry. Raises ``InvalidRequest`` for what is neither."""
        if _BANK_ENTRY.fullmatch(item_id):
            return item_id
        for name, table in TABLES.items():
            if table.key == ("id",):
                rows = steadily(lambda name=name: read_current(  # type: ignore[misc]
                    self.snapshot(name), ["id"], where={"id": [item_id]}
                ))  # fmt: skip
                if rows.num_rows:
                    return str(rows.column("id")[0].as_py())
        raise InvalidRequest(
            f"item_id={item_id!r} is not in {self.path}: give the id of a transfer or another "
            "row of it, or of a bank's entry (bank-…)"
        )

    def note_run(self, run: Run, content: Mapping[str, Any]) -> None:
        """Note for ``fundlab status`` that a run ended now, and what it found; not in a
        ``read_only`` store."""
        if not self._read_only:
            at = str(Instant.from_ns(self.clock()))
            write_run(self.path / RUNS, run, at, content)

    def runs(self) -> dict[str, dict[str, Any]]:
        """The last ``sync``, ``verify`` and ``report``, as far as they are noted: when each ended
        (``at``, RFC 3339) and what it found."""
        return read_runs(self.path / RUNS)

    @contextmanager
    def lock(self) -> Iterator[Callable[[], None]]:
        """Hold the store for writing. The kernel releases the lock of a run that was killed.

        Gives a check to make before anything is published: it raises ``StoreError`` where the lock
        was taken away meanwhile. Raises ``StoreLocked`` at once while another run holds it.
        """
        if self._read_only:
            raise StoreError(f"{self.path} {self._refusal}")

        def check_held() -> None:
            check_locked()
            if self._held is not None and not is_newest(self.path, self._held):
                raise beaten(self.path)

        with lock_store(self.path) as check_locked:
            # What a run that died left half written goes; what it named is on the disk before
            # anything follows from it.
            for folder in [self.path / name for name in (*TABLES, RECORDS, MANIFESTS)]:
                disk.remove(list(disk.hidden_file(folder, "").parent.glob(".*.tmp")))
                if isinstance(folder, Path) and folder.is_dir():
                    with disk.named(folder):
                        disk.sync_folder(folder)
            with disk.readable(self.path):
                sweep_notes(self.path / RUNS)
                try:
                    self._held = self.manifest()
                except StoreDamaged:  # what reads the store says so, and repair mends it
                    self._held = None
                else:
                    settle_head(self.path, self._held)
                    for table in TABLES:
                        remove_superseded(self.path / table, self._held)
            try:
                yield check_held
            finally:
                self._held = None

    def commit(
        self,
        check_held: Callable[[], None],
        at: int,
        files: Mapping[str, Sequence[File]],
        records: Sequence[tuple[Kind, Mapping[str, Any]]] = (),
        *,
        service: Mapping[str, str] | None = None,
        before: Manifest | None = None,
    ) -> list[Record]:
        """Publish a manifest: from here on the ``files`` of each of these tables are those that
        count, and the ``records`` are there. The caller holds the lock, and has written the files;
        ``before`` is for a repair, where the newest manifest is lost. Raises ``StoreLocked`` where
        another machine has published since the lock was taken."""
        before = self.manifest() if before is None else before
        check_held()
        made: list[Record] = []
        folder, newest = self.path / RECORDS, before.record
        for kind, content in records:
            after = Instant.parse(read_record(folder / newest).at).ns if newest else 0
            said_at = str(Instant.from_ns(max(at, after + 1)))
            made.append(write_record(folder, before.number + 1, kind, said_at, content, newest))
            newest = made[-1].name
        self._held = write_manifest(
            self.path, before, at, before.service if service is None else service,
            {**before.files, **files}, newest,
        )  # fmt: skip
        return made

    def record(
        self, kind: Kind, content: Mapping[str, Any], check_held: Callable[[], None]
    ) -> Record:
        """Publish one more record; the caller holds the lock."""
        (made,) = self.commit(check_held, self.clock(), {}, [(kind, content)])
        return made

    def merge(
        self, table: str, check_held: Callable[[], None], progress: bool | None = None
    ) -> Draft | None:
        """Merge the files of ``table``; the caller holds the lock."""
        before = self.manifest()
        snapshot = self.snapshot(table, manifest=before)
        draft = merge_files(self.path / table, snapshot, progress)
        if draft is None:
            return None
        try:
            check_held()
            disk.publish(draft.hidden, draft.path)
        except BaseException:
            draft.discard()
            raise
        self.commit(check_held, self.clock(), {table: [draft.file]})
        return draft

    def compact(self, tables: Sequence[str] | None = None) -> dict[str, StorePath]:
        """Merge the parts of each table (all by default) into one file; every version stays.

        Reading is the same before, while and after, and ``sync`` does it by itself where it pays.
        The files merged stay for an hour, for who reads them, and go with the next run. Returns the
        new file of each table that had something to merge.

        >>> sorted(store.compact(["events"]))
        ['events']
        """
        done: dict[str, StorePath] = {}
        with self.lock() as check_held:
            for name in TABLES if tables is None else texts(tables, "tables"):
                draft = self.merge(find_table(name).name, check_held)
                if draft is not None:
                    done[name] = draft.path
        return done

    def now(self) -> int:
        """The time of the next publication (ns): the clock's, but never before the last one's.

        Raises ``StoreError`` where that is days ahead: ``as_of`` could tell nothing apart.
        """
        now, manifest = self.clock(), self.manifest()
        published = {
            part.path: part.header.publications[-1].published_at
            for table in TABLES
            for part in self.snapshot(table, manifest=manifest).files
        }
        latest = max(published.values(), default=now - 1)
        if latest <= now + _CLOCKS_DIFFER_NS:
            return max(now, latest + 1)
        wrong = [str(path) for path, at in published.items() if at > now + _CLOCKS_DIFFER_NS]
        raise StoreError(
            f"{self.path} was last written at {Instant.from_ns(latest)}, but this machine's clock "
            f"says {Instant.from_ns(now)}: set the clock right; or, if it was wrong then, move "
            "away what was written by it, and 'fundlab repair' fetches it again: "
            f"{', '.join(wrong)}"
        )


def texts(given: str | Sequence[str], parameter: str) -> list[str]:
    """One text or several, as a list."""
    found = [given] if isinstance(given, str | UUID) else given
    found = list(found) if isinstance(found, Iterable) else None  # an iterator gives them once
    if found is None or not all(isinstance(text, str | UUID) for text in found):
        raise InvalidRequest(f"{parameter}={given!r}: give a text or a list of texts")
    for text in map(str, found):
        check_unicode(text, f"{parameter}={text!r}")
    return [str(text) for text in found]
