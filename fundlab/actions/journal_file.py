"""The journal's file: made complete, opened only where it is, private, synced at every commit.

One SQLite file with its strictest durability (rollback journal, ``synchronous=EXTRA``). Rows are
only ever added; triggers forbid the rest.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from fundlab.errors import StoreDamaged, StoreError
from fundlab.store.disk import make_folder, sync_folder

SCHEMA_VERSION: Final = 3
STORE_SCHEMA_VERSION: Final = 2
"""Of the journals that earlier versions kept in stores: without ``origin`` and ``store``."""
_PAGE_BYTES: Final = 4096
_PATIENCE_S: Final = 60.0
_GLANCE_MS: Final = 200
_PAUSE_S: Final = 0.01
_ABOUT: Final = frozenset({"id", "schema_version", "base_url", "client_id", "sha256"})
_OTHERS: Final = 0o077
_SCHEMA: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE intents (
    number INTEGER PRIMARY KEY AUTOINCREMENT, origin TEXT NOT NULL, ref_id TEXT NOT NULL,
    operation TEXT NOT NULL, recorded_at INTEGER NOT NULL, fingerprint TEXT NOT NULL,
    likeness TEXT NOT NULL, body BLOB NOT NULL, facts TEXT NOT NULL, batch TEXT, store TEXT,
    sha256 TEXT NOT NULL, UNIQUE (ref_id, origin));
CREATE INDEX intents_of ON intents (origin);
CREATE INDEX intents_alike ON intents (likeness, recorded_at);
CREATE INDEX intents_recorded ON intents (operation, recorded_at);
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, origin TEXT NOT NULL,
    intent INTEGER NOT NULL REFERENCES intents (number),
    at INTEGER NOT NULL, state TEXT NOT NULL, resource_id TEXT, status TEXT, fee TEXT, total TEXT,
    detail TEXT, sha256 TEXT NOT NULL);
CREATE INDEX events_of ON events (intent);
CREATE INDEX events_from ON events (origin);
CREATE INDEX events_made ON events (resource_id);
CREATE TRIGGER intents_stay BEFORE UPDATE ON intents BEGIN SELECT RAISE(ABORT, 'only added'); END;
CREATE TRIGGER intents_kept BEFORE DELETE ON intents BEGIN SELECT RAISE(ABORT, 'only added'); END;
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'only added'); END;
CREATE TRIGGER events_kept BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'only added'); END;
"""


def create(path: Path, service: Mapping[str, str]) -> None:
    """Make the file with its schema under a hidden name and link it into place.

    It is never half there, and never replaces one that another kernel made meanwhile.
    """
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    about = {"id": uuid.uuid4().hex, "schema_version": str(SCHEMA_VERSION), **service}
    about["sha256"] = _hash_of(about)
    try:
        make_folder(path.parent)
        os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with opened(hidden) as database, transaction(database):
            for statement in _statements(_SCHEMA):
                database.execute(statement)
            database.executemany("INSERT INTO about VALUES (?, ?)", about.items())
        with suppress(FileExistsError):  # another kernel was first: its journal stands
            os.link(hidden, path)
        hidden.unlink()
        sync_folder(path.parent)
    except (OSError, StoreError) as error:
        why = error.strerror if isinstance(error, OSError) else error.__context__ or error
        raise StoreError(
            f"the journal {path} cannot be made: {why}; nothing was sent: see that its folder can "
            "be written and has room, or name another (journal=…, FUNDLAB_JOURNAL)"
        ) from None
    finally:
        for left in (hidden, hidden.with_name(f"{hidden.name}-journal")):
            with suppress(OSError):  # the error above says more
                left.unlink(missing_ok=True)


def about_of(path: Path) -> dict[str, str] | None:
    """What the journal says about itself; ``None`` where there is none.

    Raises ``StoreDamaged`` for a file that is not a journal, an empty one too: to start anew in its
    place would be to forget what was paid.
    """
    if not is_there(path):
        return None
    with opened(path) as database:
        found = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone()
        rows = database.execute("SELECT name, value FROM about").fetchall() if found else []
    about = dict(rows)
    if not about.keys() >= _ABOUT:
        what = "is empty" if path.stat().st_size == 0 else "does not say whose it is"
        raise StoreDamaged(
            f"the journal {path} {what}: restore it from a backup, then run again (delete it only "
            "if nothing was ever confirmed with it)"
        )
    if about.pop("sha256") != _hash_of(about):
        raise StoreDamaged(
            f"the journal {path} does not say whose it is as it was written: restore it from a "
            "backup, then run again"
        )
    return about


def is_there(path: Path) -> bool:
    """Whether there is a journal; one that cannot be looked at is an error, not an absent one."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise StoreError(
                f"the journal {path} is a link to {path.readlink()}, which is not there; bring it "
                "back, or remove the link if nothing was ever confirmed with it"
            ) from None
        return False
    except OSError as error:
        raise not_seen(path, error) from None
    return True


def not_seen(path: Path, error: OSError) -> StoreError:
    """The error for a place of journals that this user may not look into."""
    return StoreError(
        f"{path} cannot be looked at: {error.strerror}; nothing was sent: see that its folder is "
        "yours to read and write, or name another (journal=…, FUNDLAB_JOURNAL)"
    )


def row_hash(*values: str | int | bytes | None) -> str:
    """Of a row, each value as Python writes it."""
    return hashlib.sha256(b"".join(b"%a" % (value,) for value in values)).hexdigest()


def _hash_of(about: Mapping[str, str]) -> str:
    return row_hash(*(text for name in sorted(about) for text in (name, about[name])))


def keep_private(path: Path) -> None:
    """Take away what others may do with the file, where it is one's own (a copy, a restore)."""
    found = path.stat()
    if found.st_mode & _OTHERS and found.st_uid == os.getuid():
        with suppress(OSError):  # a disk that cannot be written can still be read from
            path.chmod(found.st_mode & 0o700)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the file, which is not made if it is gone."""
    try:
        database = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None
        )
        try:
            # undoes what a crash left half done
            _patiently(database, "SELECT 1 FROM sqlite_master")
            if path.stat().st_size % _PAGE_BYTES:
                # what is missing of the last page SQLite would take for zeros
                raise sqlite3.DatabaseError("it is cut short")
            database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            database.execute("PRAGMA synchronous = EXTRA")
            database.execute("PRAGMA fullfsync = ON")
            database.execute("PRAGMA foreign_keys = ON")
            yield database
        finally:
            database.close()
    except sqlite3.OperationalError as error:
        raise StoreError(
            f"the journal {path} cannot be used ({error}): {_advice(path, error)}, then run again"
        ) from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # its words may be damaged too
        raise StoreDamaged(
            f"the journal {path} is not what was written ({error}): restore it from a backup, then "
            "run again"
        ) from None


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All of the block is written, synced, or nothing of it; nobody writes meanwhile."""
    _patiently(database, "BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _patiently(database: sqlite3.Connection, statement: str) -> None:
    """Run it once no other program is in the way; SQLite's own wait could not be interrupted."""
    database.execute(f"PRAGMA busy_timeout = {_GLANCE_MS}")
    given_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            database.execute(statement)
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= given_up:
                raise
            time.sleep(_PAUSE_S)  # SQLite does not always wait by itself
    database.execute(f"PRAGMA busy_timeout = {round(_PATIENCE_S * 1000)}")


def _advice(path: Path, error: sqlite3.OperationalError) -> str:
    if not path.exists():
        return "it is gone; bring it back, from a backup if need be"
    if path.stat().st_size == 0:
        return "it is empty; restore it from a backup"
    if "locked" in str(error):
        return "another program has held it for a minute; wait for it or end it"
    return "see that its folder can be written and has room"


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
