"""The journal: what was confirmed, on disk before the first byte of it is sent.

Nothing is paid twice because of what this file guarantees:

- **Written first.** ``Journal.record`` returns once the entry is synced to disk
  (``synchronous=EXTRA``), a half-written one was never there, and no two programs record at once:
  whoever runs the same plan again, after a kill or a power cut at any instant, finds the entry.
- **Only added to.** An *intent* is what was confirmed, an *event* what became of it; triggers
  forbid the rest. The newest event tells the state; once ``done``, always ``done``::

    unknown   recorded, and maybe sent: run the cell again, or ask with resume()
    done      the service has it (resource_id, status)
    refused   the service said no; nothing was made
    absent    the service was asked and does not know it; run the cell again to send it

- **Never begun anew by mistake.** A file that is empty, gone, replaced, cut short, of another
  service, or that may not be looked at is an error: to start in its place would be to forget what
  was paid.
- **Damage is named.** Each row has a hash, for SQLite does not notice a changed bit within a row,
  and it covers that of the row before, so that none is rewritten or moved alone; a row that is
  missing shows in the numbers that were given out, for a page that lost its cells would hide a
  payment from the look for it.
- **One for each user, service and credential** (``Settings.journal``), whichever store a payment is
  made with. Digests and derived ref_ids are keyed with the journal's id.
- **Sandboxes come and go** with their ports: each has a file of its own (``Transport.instance``).
  When a new one is made, those that nobody has confirmed anything with for 30 days are removed:
  their money is play money.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from fundlab.base.errors import ActionRefused, StoreDamaged, StoreError, shorten
from fundlab.models import Transfer
from fundlab.payments.identity import (
    DAY,
    NOT_ALIKE,
    NOUNS,
    UPDATE,
    WITHDRAWAL,
    Entry,
    State,
    keyed,
)
from fundlab.settings.settings import is_loopback
from fundlab.store.disk import make_folder, sync_folder

if TYPE_CHECKING:
    from fundlab.client.client import Client
    from fundlab.evidence.table_store import TableStore

_VERSION: Final = "2"
_INTENT: Final = (
    "ref_id", "name", "operation", "recorded_at", "fingerprint", "likeness", "body", "facts",
    "batch", "store",
)  # fmt: skip
_EVENT: Final = ("intent", "at", "state", "resource_id", "status", "fee", "total", "detail")
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "intents": ("number", *_INTENT, "sha256"), "events": ("number", *_EVENT, "sha256"),
}  # fmt: skip
_SCHEMA: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE intents (
    number INTEGER PRIMARY KEY AUTOINCREMENT, ref_id TEXT NOT NULL,
    name TEXT NOT NULL UNIQUE, operation TEXT NOT NULL, recorded_at INTEGER NOT NULL,
    fingerprint TEXT NOT NULL, likeness TEXT NOT NULL, body BLOB NOT NULL, facts TEXT NOT NULL,
    batch TEXT, store TEXT, sha256 TEXT NOT NULL);
CREATE INDEX intents_alike ON intents (likeness, recorded_at);
CREATE INDEX intents_recorded ON intents (operation, recorded_at);
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, intent INTEGER NOT NULL REFERENCES intents (number),
    at INTEGER NOT NULL, state TEXT NOT NULL, resource_id TEXT, status TEXT, fee TEXT, total TEXT,
    detail TEXT, sha256 TEXT NOT NULL);
CREATE INDEX events_of ON events (intent);
CREATE INDEX events_made ON events (resource_id);
CREATE TRIGGER intents_stay BEFORE UPDATE ON intents BEGIN SELECT RAISE(ABORT, 'only added'); END;
CREATE TRIGGER intents_kept BEFORE DELETE ON intents BEGIN SELECT RAISE(ABORT, 'only added'); END;
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'only added'); END;
CREATE TRIGGER events_kept BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'only added'); END;
"""
FOUND: Final = "the service had it already, made at that time"
_SENT: Final = """i.number IN (SELECT intent FROM events WHERE state = 'unknown' AND (at >= ?2 OR
detail IS NULL) AND number >= (SELECT MIN(number) FROM events WHERE at >= ?2))"""
"""Since a moment (the second parameter): all that was written after it, also by a clock that was
set back; what was only found then, by when it was made."""
_COUNTS: Final = """
SELECT s.seq, (SELECT COUNT(*) FROM intents) FROM sqlite_sequence s WHERE s.name = 'intents'
UNION ALL
SELECT s.seq, (SELECT COUNT(*) FROM events) FROM sqlite_sequence s WHERE s.name = 'events'
"""
_ABOUT: Final = {"id", "schema_version", "base_url", "client_id", "sha256"}
_PAGE_BYTES: Final = 4096
_PATIENCE_S: Final = 60.0
_BEGIN: Final = (
    "SELECT 1 FROM sqlite_master",  # undoes what a crash left half done
    f"PRAGMA page_size = {_PAGE_BYTES}",
    "PRAGMA synchronous = EXTRA",
    "PRAGMA fullfsync = ON",
    "PRAGMA foreign_keys = ON",
)
_ATTEMPTS: Final = """
SELECT COUNT(*) FROM events WHERE intent = :intent AND state = 'unknown' AND number > COALESCE(
(SELECT MAX(number) FROM events WHERE intent = :intent AND state = 'refused'), 0)
"""
"""Those that no refusal has settled."""
_SANDBOX_KEPT_S: Final = 30 * 86_400.0


class Journal:
    """The journal in the file ``path``, which is made for ``service`` (its ``base_url``,
    ``client_id``, and ``instance`` if it has one) where it is not there yet.

    Without a ``service`` it must be there, and is only read. Each method has a connection of its
    own; within ``opened`` they share one.
    """

    def __init__(
        self,
        path: Path,
        service: Mapping[str, str] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.path, self._clock, self._owner = path, clock, service
        self._database: sqlite3.Connection | None = None
        self._about: Mapping[str, str] = {}
        self._file: tuple[int, int] | None = None
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            if path.is_symlink():
                raise StoreError(
                    f"the journal {path} is a link to {path.readlink()}, which is not there; bring "
                    "it back, or remove the link if nothing was ever confirmed with it"
                ) from None
            if service is None:
                raise
            create_journal(path, service)
        except OSError as error:  # not to be seen is not absent
            raise not_seen(path, error) from None

    @property
    def id(self) -> str:
        """Random, as the file says."""
        return self._said()["id"]

    @property
    def service(self) -> dict[str, str]:
        """Whose journal it is, as the file says; as was given, where it was."""
        said = self._said() if self._owner is None else self._owner
        names = ("base_url", "client_id", "instance")
        return {name: said[name] for name in names if name in said}

    def _said(self) -> Mapping[str, str]:
        if not self._about:
            with self.opened() as (book, _):
                return book._about
        return self._about

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r})"

    # ------------------------------------------------------------------------------ reading

    def find(self, ref_id: str) -> Entry | None:
        """The entry of this name, in whatever case it is given: to the service it may be one."""
        entries = self._entries("WHERE i.name = ?", ref_id.casefold())
        return entries[0] if entries else None

    def entries(self) -> list[Entry]:
        """Every entry, in the order they were confirmed.

        Raises ``StoreDamaged`` also where an index would hide one.
        """
        with self.opened() as (book, database):
            (verdict,) = database.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict != "ok":
                raise self._damaged(f"the file ({verdict})")
            return book._entries("ORDER BY i.number")

    def sent_since(self, operation: str, since: int) -> list[Entry]:
        """Entries of ``operation`` sent since ``since`` (ns), again or for the first time."""
        return self._entries(
            f"WHERE i.operation = ?1 AND {_SENT} ORDER BY i.number", operation, since
        )

    def alike(self, operation: str, arguments: Mapping[str, Any], since: int) -> list[Entry]:
        """Entries sent since ``since`` (ns) to the same fiat account that ask for the same,
        metadata and memo aside, or by total where an amount is asked for, or the reverse."""
        other = "amount" if "total" in arguments else "total"
        account = json.dumps(arguments["fiat_account_id"].lower(), ensure_ascii=False)
        return self._entries(
            f"WHERE i.operation = ?1 AND {_SENT} AND (i.likeness = ? OR "
            "(instr(lower(CAST(i.body AS TEXT)), ?) AND instr(CAST(i.body AS TEXT), ?))) "
            "ORDER BY i.number",
            operation, since, keyed(self.id, operation, arguments, NOT_ALIKE), account,
            f'"{other}":',
        )  # fmt: skip

    def made_for(self, resource_id: str, operation: str, ref_id: str) -> str | None:
        """Another ``ref_id`` than this that the resource was made for."""
        if operation == UPDATE:
            return None
        rows = self._select(
            "SELECT i.ref_id FROM events e JOIN intents i ON i.number = e.intent "
            "WHERE e.resource_id = ? AND i.name != ? AND i.operation = ?",
            resource_id, ref_id.casefold(), operation,
        )  # fmt: skip
        return str(rows[0][0]) if rows else None

    def knows(self, transfer: Transfer) -> bool:
        """Whether it was made by an entry of this journal."""
        rows = self._select(
            "SELECT 1 FROM events WHERE resource_id = ? UNION ALL "
            "SELECT 1 FROM intents WHERE name = ?",
            transfer.id, (transfer.ref_id or "").casefold(),
        )  # fmt: skip
        return bool(rows)

    # ------------------------------------------------------------------------------ writing

    def record(
        self,
        ref_id: str,
        operation: str,
        arguments: Mapping[str, Any],
        body: bytes,
        facts: Mapping[str, str | None],
        *,
        batch: str | None = None,
        store: str | None = None,
        allow: Callable[[Journal], object] | None = None,
        at: int | None = None,
    ) -> Entry:
        """Write down, to the disk, what is about to be sent, as an attempt of its own; its entry.

        One that is there under this ``ref_id`` and ``done`` is left as it is. ``allow`` looks at
        the journal and may raise; no other program can record in between. ``at`` (ns) is when the
        service had it, by default it is about to be sent now. Refuses as ``Entry.check_asks``.
        """
        with self.opened(write=True) as (book, _):
            known = book.find(ref_id)
            if (restored := book.restored_from()) is not None:
                raise ActionRefused(
                    "restored_journal",
                    f"the journal {self.path} was restored from a backup of {restored[:19]}Z, and "
                    "what was paid since is not in it; nothing was sent: run fl.resume() first, "
                    "which asks the service about everything since",
                )
            if known is not None:
                known.check_asks(operation, arguments, self._clock())
                if known.state == "done":
                    return known
            if allow is not None:
                allow(book)
            sent_at = self._clock() if at is None else at
            number = known.number if known is not None else book._add(
                "intents", ref_id, ref_id.casefold(), operation, sent_at,
                keyed(book.id, operation, arguments),
                keyed(book.id, operation, arguments, NOT_ALIKE), body, json.dumps(dict(facts)),
                batch, store,
            )  # fmt: skip
            return book._attempted(number, sent_at, None if at is None else FOUND)

    def attempt(self, entry: Entry) -> Entry:
        """``entry`` with one more attempt, about to be sent."""
        with self.opened(write=True) as (book, _):
            return book._attempted(entry.number, self._clock())

    def _attempted(self, number: int, at: int, detail: str | None = None) -> Entry:
        self._add("events", number, at, "unknown", *[None] * 4, detail)
        (entry,) = self._entries("WHERE i.number = ?", number)
        return entry

    def note_attempt(
        self, entry: Entry, state_of: Callable[[bool], State], made: Any, detail: str
    ) -> State:
        """Write down what ``state_of`` says became of an attempt, told whether it was the only one
        that is not settled; that state. A ``done`` entry stays so. Of a payment it is not, until
        a day after somebody asked about what a restored journal lacks: what the lost one sent may
        still be on its way."""
        with self.opened(write=True) as (book, database):
            (attempts,) = database.execute(_ATTEMPTS, {"intent": entry.number}).fetchone()
            asked_ns = int(book._about.get("asked_ns", -DAY))
            knows_all = "restored" not in book._about and self._clock() >= asked_ns + DAY
            state = state_of(attempts == 1 and (knows_all or entry.operation != WITHDRAWAL))
            if state == "done":
                book.note(entry, state, made)
            else:
                book.note(entry, state, detail=detail)
            return state

    def note(
        self,
        entry: Entry,
        state: State,
        made: Any = None,
        detail: str | None = None,
        *,
        known: str = "",
        otherwise: str = "running the same cell again finds it",
    ) -> None:
        """Write down what became of ``entry``: the resource that was ``made``, or why there is
        none; what was once said of a ``done`` one stays said.

        What is ``known`` leads the message where it cannot be written: without it, that something
        was made.
        """
        if state == entry.state == "done":
            detail = detail or entry.detail
        values = [getattr(made, name, None) for name in ("id", "status", "fee", "total")]
        shown = [None if value is None else str(value) for value in values]
        try:
            with self.opened(write=True) as (book, _):
                book._add("events", entry.number, self._clock(), state, *shown, detail)
        except StoreError as error:
            if made is None:
                raise
            noun, status = NOUNS[entry.operation], getattr(made, "status", None) or "done"
            known = known or f"{noun} {made.id} was accepted by the service ({status})"
            raise not_noted(error, known, otherwise) from error

    def restored_from(self) -> str | None:
        """The time (RFC 3339) of the backup that it was restored from, while nobody has asked the
        service about what came after it."""
        rows = self._select("SELECT value FROM about WHERE name = 'restored'")
        return str(rows[0][0]) if rows else None

    def mark_restored(self, at: str | None) -> None:
        """Note that it was restored from a backup made ``at`` (RFC 3339), or, with ``None``, that
        the service has been asked about everything since."""
        with self.opened(write=True) as (_, database):
            about = dict(database.execute("SELECT name, value FROM about")) | {"restored": at}
            about |= {"asked_ns": None if at else str(self._clock())}
            kept = {name: text for name, text in about.items() if text is not None}
            del kept["sha256"]
            kept["sha256"] = row_hash(*chain.from_iterable(sorted(kept.items())))
            database.execute("DELETE FROM about")
            database.executemany("INSERT INTO about VALUES (?, ?)", kept.items())

    @contextmanager
    def opened(
        self, *, write: bool = False, counted: bool = True
    ) -> Iterator[tuple[Journal, sqlite3.Connection]]:
        """The journal with one connection for all that is asked of it within the block; to
        ``write``, a transaction: all of the block is written and synced, or nothing of it, and
        nobody writes meanwhile.

        Raises ``StoreDamaged`` for a file that is not a journal, an empty one too, and, unless they
        are not to be ``counted``, where rows are missing; ``StoreError`` where it cannot be used.
        """
        try:
            with ExitStack() as stack:
                book, database = self, self._database
                if database is None:
                    database = stack.enter_context(closing(self._connect()))
                    book = copy.copy(self)
                    book._database, book._file = database, book._there()
                    book._about = self._about = book._check(database, counted)
                begun = database.in_transaction
                if begun or not write:
                    yield book, database
                    return
                if book._there() != book._file:
                    raise book._replaced()
                database.execute("PRAGMA busy_timeout = 200")  # SQLite's own wait cannot be ended
                patiently(database, "BEGIN IMMEDIATE")
                try:
                    yield book, database
                    database.execute("COMMIT")
                finally:
                    if database.in_transaction:
                        database.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if not self.path.exists():
                advice = "it is gone; bring it back, from a backup if need be"
            elif self.path.stat().st_size == 0:
                advice = "it is empty; restore it from a backup"
            elif "locked" in str(error):
                advice = "another program has held it for a minute; wait for it or end it"
            else:
                advice = "see that its folder can be written and has room"
            raise StoreError(
                f"the journal {self.path} cannot be used ({error}): {advice}, then run again"
            ) from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # its words may be damaged too
            raise StoreDamaged(
                f"the journal {self.path} is not what was written ({error}): restore it from a "
                "backup, then run again"
            ) from None

    def _connect(self) -> sqlite3.Connection:
        """To the file that is there: none is made in its place."""
        database = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None
        )
        try:
            database.execute("PRAGMA busy_timeout = 200")
            for statement in _BEGIN:
                patiently(database, statement)
            database.execute(f"PRAGMA busy_timeout = {round(_PATIENCE_S * 1000)}")
        except BaseException:
            database.close()
            raise
        return database

    def _there(self) -> tuple[int, int]:
        """Which file has the name now."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return 0, 0
        return stat.st_dev, stat.st_ino

    def _check(self, database: sqlite3.Connection, counted: bool) -> dict[str, str]:
        """Is it intact, complete, the one that it was, and of the service it was opened for? What
        it says of itself."""
        path, about = self.path, dict[str, str]()
        size = path.stat().st_size
        if size % _PAGE_BYTES:
            # what is missing of the last page SQLite would take for zeros
            raise sqlite3.DatabaseError("it is cut short")
        tables = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'")
        if self._about or tables.fetchone() is not None:
            about = dict(database.execute("SELECT name, value FROM about"))
        if not _ABOUT.issubset(about):
            what = "is empty" if size == 0 else "does not say whose it is"
            raise StoreDamaged(
                f"the journal {path} {what}: restore it from a backup, then run again "
                "(delete it only if nothing was ever confirmed with it)"
            )
        sha256 = about.pop("sha256")
        if sha256 != row_hash(*chain.from_iterable(sorted(about.items()))):
            raise StoreDamaged(
                f"the journal {path} does not say whose it is as it was written: restore it from a "
                "backup, then run again"
            )
        if self._about and about["id"] != self._about["id"]:
            raise self._replaced()
        if about["schema_version"] != _VERSION:
            raise StoreError(
                f"{path} is a journal of schema {shorten(about['schema_version'])}, this version "
                f"of fundlab reads {_VERSION}: use the version that made it"
            )
        for given, there in database.execute(_COUNTS) if counted else ():
            if given != there:
                raise self._damaged(f"{there} of {given} rows are there: it")
        if self._owner is not None:
            check_owner(path, about, self._owner)
            stat = path.stat()
            if stat.st_mode & 0o077 and stat.st_uid == os.getuid():  # a copy, or restored
                with suppress(OSError):  # a disk that cannot be written can still be read from
                    path.chmod(stat.st_mode & 0o700)
        return about

    def _replaced(self) -> StoreDamaged:
        return StoreDamaged(
            f"the journal {self.path} has been replaced by another since it was opened: bring the "
            "first one back, then run again"
        )

    # ------------------------------------------------------------------------------ rows

    def _select(self, query: str, *values: object) -> list[Any]:
        if self._database is None:
            with self.opened() as (book, _):
                return book._select(query, *values)
        return self._database.execute(query, values).fetchall()

    def _entries(self, where: str, *values: object) -> list[Entry]:
        intent, event = _COLUMNS["intents"], _COLUMNS["events"]
        query = (
            f"SELECT {', '.join(f'i.{name}' for name in intent)}, "  # noqa: S608 - our own
            "(SELECT sha256 FROM intents WHERE number = i.number - 1), "
            f"{', '.join(f'e.{name}' for name in event)}, "
            "(SELECT sha256 FROM events WHERE number = e.number - 1), (SELECT MAX(at) FROM events "
            "WHERE intent = i.number AND state = 'unknown') AS sent_at "
            "FROM intents i JOIN events e ON e.number = (SELECT number FROM events "
            "WHERE intent = i.number ORDER BY state = 'done' DESC, number DESC LIMIT 1) "
        )
        entries = []
        for row in self._select(query + where, *values):
            confirmed = self._checked("intents", row[: len(intent) + 1])
            noted = self._checked("events", row[len(intent) + 1 : -1])
            del confirmed["name"], confirmed["likeness"], noted["intent"], noted["number"]
            confirmed["facts"] = json.loads(confirmed["facts"])
            noted_at = noted.pop("at")
            entries.append(
                Entry(**confirmed, **noted, origin=self.id, noted_at=noted_at, sent_at=row[-1])
            )
        return entries

    def _rows(self, table: str) -> list[dict[str, Any]]:
        """Every row of ``table``, in the order they were written."""
        rows = self._select(
            f"SELECT {', '.join(_COLUMNS[table])}, "  # noqa: S608 - our own
            f"(SELECT b.sha256 FROM {table} b WHERE b.number = {table}.number - 1) "
            f"FROM {table} ORDER BY number"
        )
        return [self._checked(table, row) for row in rows]

    def _checked(self, table: str, row: Sequence[Any]) -> dict[str, Any]:
        """The values of a row by their names, as they were written; at its end is the hash of the
        row before it."""
        number, *values, sha256, before = row
        found = dict(zip(_COLUMNS[table][1:], values, strict=False))
        if row_hash(*values, before or "") != sha256:
            what = f"intent {number} ({found.get('ref_id')})"
            raise self._damaged(
                what if table == "intents" else f"what is noted of intent {found['intent']}"
            )
        return {"number": number, **found}

    def _add(self, table: str, *values: str | int | bytes | None) -> int:
        """Add a row, within a transaction; its number."""
        names = ", ".join(_INTENT if table == "intents" else _EVENT)
        last = self._select(
            f"SELECT sha256 FROM {table} ORDER BY number DESC LIMIT 1"  # noqa: S608 - our own
        )
        row = (*values, row_hash(*values, last[0][0] if last else ""))
        self._select(
            f"INSERT INTO {table} ({names}, sha256) "  # noqa: S608 - our own
            f"VALUES ({'?, ' * len(values)}?)",
            *row,
        )
        return int(self._select("SELECT last_insert_rowid()")[0][0])

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{self.path}: {what} is not what was written: restore the file from a backup, then "
            "run again"
        )


# ----------------------------------------------------------------------------- of whose service


def open_journal(
    client: Client, store: TableStore, clock: Callable[[], int] = time.time_ns
) -> Journal:
    """The journal of ``client``'s service, made if need be.

    Raises ``StoreError`` when the store or the journal belongs to another service or credential.
    """
    path, service = place_of(client)
    owner = store.service()
    if owner is not None:
        check_owner(store.path, owner, service)
    return Journal(path, service, clock)


def existing_journal(client: Client) -> Journal | None:
    """The journal of ``client``'s service, if there is one: none is created."""
    path, service = place_of(client)
    with suppress(FileNotFoundError):
        Journal(path)
        return Journal(path, service)
    return None


def place_of(client: Client) -> tuple[Path, dict[str, str]]:
    """The file of ``client``'s journal, and what tells its service and credential from others."""
    service = {"base_url": client.base_url, "client_id": client.client_id}
    _, name = identity_of(service)
    instance = client.transport.instance() if client.settings.on_loopback else None
    if instance is not None:
        service["instance"] = instance
        name += f"-{instance[:12]}"
    return client.settings.journal / f"{name}.sqlite", service


# ----------------------------------------------------------------------------------- the file


def not_seen(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be looked at: {error.strerror}; nothing was sent: see that its folder is "
        "yours to read and write, or name another (journal=…, FUNDLAB_JOURNAL)"
    )


def create_journal(path: Path, service: Mapping[str, str]) -> None:
    """Made under a hidden name and linked into place: it is never half there, and never replaces
    one that another kernel made meanwhile. Raises ``StoreError`` where it cannot be made."""
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    about = {"id": uuid.uuid4().hex, "schema_version": _VERSION, **service}
    about["sha256"] = row_hash(*chain.from_iterable(sorted(about.items())))
    try:
        make_folder(path.parent)
        os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(hidden, isolation_level=None)) as database:
            for statement in (*_BEGIN, "BEGIN IMMEDIATE"):
                database.execute(statement)
            for statement in _SCHEMA.split(";\n"):
                database.execute(statement)
            database.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            database.execute("COMMIT")
        with suppress(FileExistsError):  # another kernel was first: its journal stands
            os.link(hidden, path)
        hidden.unlink()
        sync_folder(path.parent)
    except (OSError, StoreError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) else error.__context__ or error
        raise StoreError(
            f"the journal {path} cannot be made: {why}; nothing was sent: see that its folder can "
            "be written and has room, or name another (journal=…, FUNDLAB_JOURNAL)"
        ) from None
    finally:
        for left in (hidden, hidden.with_name(f"{hidden.name}-journal")):
            with suppress(OSError):  # gone already, or the error above says more
                left.unlink()
    if "instance" not in service:
        return
    for old in path.parent.glob("*.sqlite"):  # of sandboxes that are long gone, by the disk's clock
        try:
            is_old = path.stat().st_mtime - old.stat().st_mtime > _SANDBOX_KEPT_S
            theirs = Journal(old).service if is_old else {}
        except (OSError, StoreError):  # gone meanwhile; or damaged, which verify names
            continue
        if "instance" in theirs and is_loopback(urlsplit(theirs["base_url"]).hostname):
            old.unlink(missing_ok=True)


def patiently(database: sqlite3.Connection, statement: str) -> None:
    """Execute ``statement``, though another program may be in the way: SQLite does not always wait
    by itself, and its own wait could not be interrupted."""
    given_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            database.execute(statement)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= given_up:
                raise
            time.sleep(0.01)
        else:
            return


def not_noted(error: StoreError, known: str, otherwise: str) -> StoreError:
    """What is ``known`` leads the message of a journal that cannot be written, or found."""
    return type(error)(
        f"{known}, but this could not be written down; {otherwise}, once the journal is well: "
        f"{error}"
    )


def row_hash(*values: str | int | bytes | None) -> str:
    """Of a row, each value as Python writes it."""
    return hashlib.sha256(b"".join(b"%a" % (value,) for value in values)).hexdigest()


def identity_of(service: Mapping[str, str]) -> tuple[str, str]:
    """A service and credential, however its address is spelt; and how the names of its journals
    begin."""
    parts = urlsplit(service["base_url"])
    place, host = (
        (f"loopback:{parts.port}{parts.path}", "loopback")
        if is_loopback(parts.hostname)
        else (f"{parts.scheme}://{parts.hostname}:{parts.port or 443}{parts.path}", parts.hostname)
    )
    key = f"{place} {service['client_id']}"
    return key, f"{host}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def check_owner(path: object, owner: Mapping[str, str], service: Mapping[str, str]) -> None:
    """Refuses a store or journal of another service or credential."""
    if not owner:  # benchmarks and other tools write such stores
        raise StoreError(
            f"{path} names no service that it belongs to; nothing was sent: use a store of its own "
            "(store=…, FUNDLAB_STORE)"
        )
    if identity_of(owner) != identity_of(service):
        raise StoreError(
            f"{path} belongs to {owner['base_url']} (client {owner['client_id']}), not to "
            f"{service['base_url']} (client {service['client_id']}); nothing was sent: connect to "
            "the service you mean, or use a store of its own (store=…, FUNDLAB_STORE)"
        )
