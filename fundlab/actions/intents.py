"""The journal: what was confirmed, written down and synced to disk before the first byte is sent.

One SQLite file in the store's folder, kept with its strictest durability (rollback journal,
``synchronous=EXTRA``): a committed intent survives a kill or a power cut at any instant, a
half-written one was never there, and any number of kernels may share it. Rows are only ever added
(triggers forbid the rest): an *intent* is what was confirmed, an *event* what became of it. The
newest event tells the state; once ``done``, always ``done``::

    unknown   recorded, and maybe sent: run the cell again, or ask with resume()
    done      the service has it (resource_id, status)
    refused   the service said no; nothing was made
    absent    the service was asked and does not know it; run the cell again to send it

A journal belongs to one service and credential, like the store it lies in. Services on loopback
come and go with their ports, so each gets a file of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from fundlab.errors import StoreDamaged, StoreError
from fundlab.settings import is_loopback
from fundlab.store import Store
from fundlab.store.disk import make_folder, sync_folder

if TYPE_CHECKING:
    from fundlab.api.client import Client

State = Literal["unknown", "done", "refused", "absent"]
FOLDER: Final = "journal"
SCHEMA_VERSION: Final = 1
_PATIENCE_S: Final = 60.0
_SCHEMA: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE intents (
    number INTEGER PRIMARY KEY AUTOINCREMENT, ref_id TEXT NOT NULL UNIQUE,
    operation TEXT NOT NULL, recorded_at INTEGER NOT NULL, fingerprint TEXT NOT NULL,
    likeness TEXT NOT NULL, body BLOB NOT NULL, body_sha256 TEXT NOT NULL, facts TEXT NOT NULL,
    batch TEXT);
CREATE INDEX intents_alike ON intents (likeness, recorded_at);
CREATE INDEX intents_recorded ON intents (operation, recorded_at);
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, intent INTEGER NOT NULL REFERENCES intents (number),
    at INTEGER NOT NULL, state TEXT NOT NULL, resource_id TEXT, status TEXT, fee TEXT, total TEXT,
    detail TEXT);
CREATE INDEX events_of ON events (intent);
CREATE TRIGGER intents_stay BEFORE UPDATE ON intents BEGIN SELECT RAISE(ABORT, 'only added'); END;
CREATE TRIGGER intents_kept BEFORE DELETE ON intents BEGIN SELECT RAISE(ABORT, 'only added'); END;
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'only added'); END;
CREATE TRIGGER events_kept BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'only added'); END;
"""
_SELECT: Final = """
SELECT i.number, i.ref_id, i.operation, i.recorded_at, i.fingerprint, i.likeness, i.body,
       i.body_sha256, i.facts, i.batch, e.state, e.at, e.resource_id, e.status, e.fee, e.total,
       e.detail
FROM intents i JOIN events e ON e.number = (
    SELECT number FROM events WHERE intent = i.number
    ORDER BY state = 'done' DESC, number DESC LIMIT 1)
"""


@dataclass(frozen=True)
class Outcome:
    """What became of an intent, as far as is known, and when that was noted (ns)."""

    state: State
    at: int = 0
    resource_id: str | None = None
    status: str | None = None
    fee: str | None = None
    total: str | None = None
    detail: str | None = None


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What is about to be confirmed. ``facts`` is what may be shown: no whole account number."""

    ref_id: str
    operation: str
    fingerprint: str
    likeness: str
    body: bytes = field(repr=False)
    facts: Mapping[str, str | None]
    batch: str | None = None


@dataclass(frozen=True, kw_only=True)
class Intent(Draft):
    """What was confirmed, under its number in the journal, and what became of it."""

    number: int
    recorded_at: int
    outcome: Outcome

    @property
    def is_live(self) -> bool:
        """Whether money moved for it, or still may."""
        return self.outcome.state != "refused" and self.outcome.status != "FAILED"


class Journal:
    """The journal of ``service`` (its ``base_url`` and ``client_id``) in the file ``path``."""

    def __init__(
        self, path: Path, service: Mapping[str, str], clock: Callable[[], int] = time.time_ns
    ) -> None:
        self.path, self._clock = path, clock
        self.service = {name: service[name] for name in ("base_url", "client_id")}
        about = _about(path)
        if about is None:
            _create(path, self.service)
            about = _about(path)
        if about is None or about.get("schema_version") != str(SCHEMA_VERSION):
            raise StoreError(f"{path} is no journal of schema {SCHEMA_VERSION}: update fundlab")
        _check_owner(path, about, self.service)
        self.id = about["id"]

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r})"

    def find(self, ref_id: str) -> Intent | None:
        """The intent of ``ref_id``, if it was confirmed before."""
        with _opened(self.path) as database:
            return Pages(database, self.path).find(ref_id)

    def intents(self) -> list[Intent]:
        """Every intent, in the order they were confirmed."""
        with _opened(self.path) as database:
            return Pages(database, self.path).intents()

    def alike(self, likeness: str, since: int) -> list[Intent]:
        """Intents recorded since ``since`` (ns) that ask for the same, metadata aside."""
        with _opened(self.path) as database:
            return Pages(database, self.path).alike(likeness, since)

    def recorded_since(self, operation: str, since: int) -> list[Intent]:
        """Intents of ``operation`` recorded since ``since`` (ns)."""
        with _opened(self.path) as database:
            return Pages(database, self.path).recorded_since(operation, since)

    def record(self, draft: Draft, allow: Callable[[Pages], None]) -> Intent:
        """Write ``draft`` down, to the disk, unless its ``ref_id`` is there; the intent either way.

        ``allow`` looks at the journal and may raise; no other kernel can record in between. An
        intent that was settled without a transfer becomes ``unknown`` again: it is about to be
        sent.
        """
        with _opened(self.path) as database, _transaction(database):
            pages = Pages(database, self.path)
            found = pages.find(draft.ref_id)
            if found is not None and found.outcome.state in ("done", "unknown"):
                return found
            allow(pages)
            now = self._clock()
            number = found.number if found is not None else pages.add(draft, now)
            pages.note(number, Outcome("unknown", now))
            return Intent(
                **vars(draft),
                number=number,
                recorded_at=now if found is None else found.recorded_at,
                outcome=Outcome("unknown", now),
            )

    def note(self, intent: Intent, outcome: Outcome) -> None:
        """Write down what became of ``intent``."""
        with _opened(self.path) as database, _transaction(database):
            at = self._clock()
            Pages(database, self.path).note(intent.number, outcome, at)


class Pages:
    """The journal within one connection or transaction."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self._path = database, path

    def find(self, ref_id: str) -> Intent | None:
        found = self._select("WHERE i.ref_id = ?", ref_id)
        return found[0] if found else None

    def intents(self) -> list[Intent]:
        return self._select("ORDER BY i.number")

    def alike(self, likeness: str, since: int) -> list[Intent]:
        return self._select("WHERE i.likeness = ? AND i.recorded_at >= ?", likeness, since)

    def recorded_since(self, operation: str, since: int) -> list[Intent]:
        return self._select("WHERE i.operation = ? AND i.recorded_at >= ?", operation, since)

    def add(self, draft: Draft, at: int) -> int:
        cursor = self._database.execute(
            "INSERT INTO intents (ref_id, operation, recorded_at, fingerprint, likeness, body, "
            "body_sha256, facts, batch) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                draft.ref_id, draft.operation, at, draft.fingerprint, draft.likeness, draft.body,
                hashlib.sha256(draft.body).hexdigest(), json.dumps(dict(draft.facts)), draft.batch,
            ),
        )  # fmt: skip
        return int(cursor.lastrowid or 0)

    def note(self, number: int, outcome: Outcome, at: int | None = None) -> None:
        self._database.execute(
            "INSERT INTO events (intent, at, state, resource_id, status, fee, total, detail) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                number, outcome.at if at is None else at, outcome.state, outcome.resource_id,
                outcome.status, outcome.fee, outcome.total, outcome.detail,
            ),
        )  # fmt: skip

    def _select(self, where: str, *values: object) -> list[Intent]:
        return [self._intent(row) for row in self._database.execute(_SELECT + where, values)]

    def _intent(self, row: tuple[Any, ...]) -> Intent:
        body = bytes(row[6])
        if hashlib.sha256(body).hexdigest() != row[7]:
            raise StoreDamaged(
                f"{self._path}: the body of intent {row[0]} ({row[1]}) is not what was written; "
                "nothing was sent: restore the file from a backup"
            )
        return Intent(
            number=row[0], ref_id=row[1], operation=row[2], recorded_at=row[3], fingerprint=row[4],
            likeness=row[5], body=body, facts=json.loads(row[8]), batch=row[9],
            outcome=Outcome(
                state=row[10], at=row[11], resource_id=row[12], status=row[13], fee=row[14],
                total=row[15], detail=row[16],
            ),
        )  # fmt: skip


def open_journal(
    client: Client, store: Store | str | Path | None, clock: Callable[[], int] = time.time_ns
) -> Journal:
    """The journal of ``client``'s service in ``store`` (by default the one of its settings).

    Raises ``StoreError`` when the store or its journal belongs to another service or credential.
    """
    folder = store if isinstance(store, Store) else Store(store or client.settings.store)
    service = {"base_url": client.base_url, "client_id": client.client_id}
    owner = folder.service()
    if owner is not None:
        _check_owner(folder.path, owner, service)
    name = "service.sqlite"
    if is_loopback(client.base_url):
        name = f"loopback-{hashlib.sha256(_service_key(service).encode()).hexdigest()[:12]}.sqlite"
    return Journal(folder.path / FOLDER / name, service, clock)


def journals_of(store: Store | str | Path) -> list[Journal]:
    """Every journal in ``store``; none is created."""
    folder = store.path if isinstance(store, Store) else Path(store)
    paths = sorted((folder / FOLDER).glob("*.sqlite"))
    return [Journal(path, about) for path in paths if (about := _about(path)) is not None]


def _check_owner(path: Path, owner: Mapping[str, str], service: Mapping[str, str]) -> None:
    if _service_key(owner) != _service_key(service):
        raise StoreError(
            f"{path} belongs to {owner['base_url']} (client {owner['client_id']}), not to "
            f"{service['base_url']} (client {service['client_id']}); nothing was sent: connect to "
            "the service you mean, or use a store of its own (store=…, FUNDLAB_STORE)"
        )


def _service_key(service: Mapping[str, str]) -> str:
    url = service["base_url"]
    parts = urlsplit(url)
    place = f"loopback:{parts.port}{parts.path}" if is_loopback(url) else url
    return f"{place} {service['client_id']}"


def _create(path: Path, service: Mapping[str, str]) -> None:
    """The file and its schema, in one transaction; two kernels may try at once."""
    make_folder(path.parent)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreError(
            f"the journal {path} cannot be made: {error.strerror}; nothing was sent: see that the "
            "store's folder can be written, or name another (store=…, FUNDLAB_STORE)"
        ) from None
    about = {"id": uuid.uuid4().hex, "schema_version": str(SCHEMA_VERSION), **service}
    with _opened(path) as database, _transaction(database):
        if _is_made(database):
            return
        for statement in _statements(_SCHEMA):
            database.execute(statement)
        database.executemany("INSERT INTO about VALUES (?, ?)", about.items())
    sync_folder(path.parent)


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _about(path: Path) -> dict[str, str] | None:
    """What the journal says about itself; ``None`` before it has a schema."""
    if not path.exists():
        return None
    with _opened(path) as database:
        if not _is_made(database):
            return None
        return dict(database.execute("SELECT name, value FROM about").fetchall())


def _is_made(database: sqlite3.Connection) -> bool:
    found = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone()
    return found is not None


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        database = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = EXTRA")
            database.execute("PRAGMA fullfsync = ON")
            database.execute("PRAGMA foreign_keys = ON")
            yield database
        finally:
            database.close()
    except sqlite3.OperationalError as error:
        raise StoreError(
            f"the journal {path} cannot be used: {error}; nothing more was sent: see that the "
            "folder can be written and has room, then run again"
        ) from None
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(
            f"the journal {path} is not what was written: {error}; nothing was sent: restore it "
            "from a backup"
        ) from None


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
