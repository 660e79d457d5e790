"""The sandbox's SQLite database: schema, one connection, one lock, transactions.

Each resource is a row with its rendered JSON (``body``) and the columns that filters need, so that
a page is joined from bytes. ``seq`` grows with insertion and breaks ties between equal times.
A database file holds the sandbox's own secrets in clear and is created with mode 0600.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fundlab.base.errors import SandboxError, reason_of

SCHEMA_VERSION: Final = 1
SQLITE_MAGIC: Final = b"SQLite format 3\0"
JOURNAL_BYTES: Final = slice(18, 20)
"""Of a SQLite file: 1 for the usual journal, 2 for a write-ahead log, to write and to read."""
ACCESS_TABLES: Final = ("credentials", "signing_keys", "tokens")
"""Where the secrets are."""

SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE profiles (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, customer_id TEXT NOT NULL);
CREATE TABLE identities (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, customer_id TEXT NOT NULL,
    status TEXT NOT NULL, account_id TEXT NOT NULL UNIQUE);
CREATE TABLE credentials (
    seq INTEGER PRIMARY KEY, client_id TEXT NOT NULL UNIQUE, customer_id TEXT NOT NULL,
    secret TEXT NOT NULL, scopes TEXT NOT NULL, signing INTEGER NOT NULL);
CREATE TABLE signing_keys (
    kid TEXT PRIMARY KEY, client_id TEXT NOT NULL, alg TEXT NOT NULL, public_key BLOB NOT NULL,
    private_key BLOB);
CREATE TABLE tokens (
    digest BLOB PRIMARY KEY, client_id TEXT NOT NULL, scopes TEXT NOT NULL,
    expires_s REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE ledger_accounts (
    seq INTEGER PRIMARY KEY, owner TEXT NOT NULL, asset TEXT NOT NULL, balance TEXT NOT NULL,
    UNIQUE (owner, asset));
CREATE TABLE ledger_entries (
    seq INTEGER PRIMARY KEY, transfer_id TEXT NOT NULL, account INTEGER NOT NULL,
    amount TEXT NOT NULL);
CREATE TABLE due (
    seq INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL);
CREATE INDEX due_at ON due (at_ns);
CREATE TABLE transfers (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, customer_id TEXT NOT NULL,
    created_at_ns INTEGER NOT NULL, updated_at_ns INTEGER NOT NULL, profile_id TEXT NOT NULL,
    identity_id TEXT, account_id TEXT, ref_id TEXT, group_id TEXT, crypto_tx_hash TEXT,
    type TEXT NOT NULL, status TEXT NOT NULL, secondary TEXT, body BLOB NOT NULL);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, customer_id TEXT NOT NULL,
    created_at_ns INTEGER NOT NULL, type TEXT NOT NULL, is_test INTEGER NOT NULL,
    body BLOB NOT NULL);
CREATE TABLE fiat_accounts (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, customer_id TEXT NOT NULL,
    created_at_ns INTEGER NOT NULL, ref_id TEXT, status TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1, body BLOB NOT NULL, listed BLOB NOT NULL);
CREATE TABLE fiat_deposit_instructions (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, customer_id TEXT NOT NULL,
    created_at_ns INTEGER NOT NULL, ref_id TEXT, memo_id TEXT NOT NULL UNIQUE,
    profile_id TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE deposit_addresses (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, customer_id TEXT NOT NULL,
    created_at_ns INTEGER NOT NULL, ref_id TEXT, address TEXT NOT NULL UNIQUE,
    profile_id TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE destination_addresses (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, customer_id TEXT NOT NULL,
    created_at_ns INTEGER NOT NULL, crypto_network TEXT NOT NULL, address TEXT NOT NULL,
    nickname TEXT, bookmarked INTEGER NOT NULL, identity_id TEXT, body BLOB NOT NULL);
CREATE INDEX destination_addresses_address ON destination_addresses (address);
CREATE TABLE rules (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, customer_id TEXT NOT NULL,
    created_at_ns INTEGER NOT NULL, ref_id TEXT NOT NULL, profile_id TEXT NOT NULL,
    source TEXT NOT NULL, source_asset TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (source, source_asset));
CREATE TABLE quotes (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, customer_id TEXT NOT NULL,
    created_at_ns INTEGER NOT NULL, body BLOB NOT NULL);
"""

INDEXES: Final = """
CREATE UNIQUE INDEX transfers_id ON transfers (id);
CREATE INDEX transfers_created ON transfers (created_at_ns);
CREATE INDEX transfers_updated ON transfers (updated_at_ns);
CREATE INDEX transfers_profile ON transfers (profile_id, created_at_ns);
CREATE INDEX transfers_type ON transfers (type, created_at_ns);
CREATE INDEX transfers_status ON transfers (status, created_at_ns);
CREATE UNIQUE INDEX transfers_ref ON transfers (ref_id, customer_id) WHERE ref_id IS NOT NULL;
CREATE INDEX transfers_group ON transfers (group_id) WHERE group_id IS NOT NULL;
CREATE INDEX transfers_tx ON transfers (crypto_tx_hash) WHERE crypto_tx_hash IS NOT NULL;
CREATE INDEX transfers_identity ON transfers (identity_id, created_at_ns)
    WHERE identity_id IS NOT NULL;
CREATE INDEX transfers_account ON transfers (account_id, created_at_ns)
    WHERE account_id IS NOT NULL;
CREATE INDEX transfers_secondary ON transfers (secondary, created_at_ns)
    WHERE secondary IS NOT NULL;
CREATE INDEX events_created ON events (created_at_ns);
CREATE INDEX events_type ON events (type, created_at_ns);
"""
"""Made after the history is in, because filling them row by row costs several times as much."""


class Database:
    """One SQLite connection shared by all threads under ``lock``.

    A statement waits for the lock, too: what another thread changes is not seen half done.
    """

    def __init__(self, path: Path | None) -> None:
        self.lock = threading.RLock()
        self.path = path
        self._replaced = 0  # how often all was, which SQLite does not count as changes
        if path is not None:
            _create_private(path)
        self._opened: sqlite3.Connection | None = sqlite3.connect(
            str(path.absolute()) if path is not None else ":memory:",
            isolation_level=None, check_same_thread=False, cached_statements=256, timeout=1.0,
        )  # fmt: skip
        try:
            if path is not None:
                self.run("PRAGMA locking_mode = EXCLUSIVE")
                self.run("PRAGMA synchronous = NORMAL")
            else:
                self.run("PRAGMA journal_mode = MEMORY")
            self.run("PRAGMA temp_store = MEMORY")
            self.run("PRAGMA cache_size = -65536")
            self.run("BEGIN EXCLUSIVE")
            self.run("COMMIT")
        except sqlite3.Error as error:
            self.close()
            hint = "another sandbox may be using it" if "locked" in str(error) else str(error)
            raise SandboxError(f"the database {path} cannot be opened: {hint}") from None

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            raise SandboxError("the sandbox is stopped")
        return self._opened

    def keep_private(self) -> None:
        """Let only the owner of the file read it: for one that is a sandbox's."""
        if self.path is not None:
            try:
                self.path.chmod(0o600)
            except OSError as error:
                raise SandboxError(f"{self.path} cannot be made private: {error}") from None

    def write_ahead(self) -> None:
        """Use a write-ahead log from now on, so that small transactions are cheap.

        Not while a new file is filled: the usual journal has nothing to keep of an empty file, so
        that a history is written once and not twice, and a killed start leaves the file empty.
        """
        if self.path is not None:
            self.run("PRAGMA journal_mode = WAL")

    @property
    def is_new(self) -> bool:
        return self.one("SELECT 1 FROM sqlite_master LIMIT 1") is None

    def run(self, sql: str, *values: Any) -> None:
        with self.lock:
            self._connection.execute(sql, values)

    def insert(self, table: str, **columns: Any) -> None:
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        self.run(f"INSERT INTO {table} ({names}) VALUES ({marks})", *columns.values())  # noqa: S608 - our own names

    def run_many(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._connection.executemany(sql, rows)

    def run_script(self, sql: str) -> None:
        """Several statements inside the open transaction (``executescript`` would commit it)."""
        for statement in sql.split(";"):
            if statement.strip():
                self._connection.execute(statement)

    def one(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        with self.lock:
            row: tuple[Any, ...] | None = self._connection.execute(sql, values).fetchone()
        return row

    def all(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.lock:
            return self._connection.execute(sql, values).fetchall()

    def each(self, sql: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Row by row, for those who hold the lock."""
        yield from self._connection.execute(sql, values)

    def next_seq(self, table: str) -> int:
        row = self.one(f"SELECT coalesce(max(seq), 0) + 1 FROM {table}")  # noqa: S608 - our own names
        return int(row[0]) if row else 1

    def get_meta(self, name: str) -> str | None:
        row = self.one("SELECT value FROM meta WHERE name = ?", name)
        return str(row[0]) if row else None

    def set_meta(self, name: str, value: str) -> None:
        self.run("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", name, value)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside happens, or nothing. Nested use joins the outer transaction."""
        with self.lock:
            if self._connection.in_transaction:
                yield
                return
            self.run("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self.run("ROLLBACK")
                raise
            self.run("COMMIT")

    @property
    def changes(self) -> tuple[int, int]:
        """Another value after every change."""
        return self._replaced, self._connection.total_changes

    def copied(self) -> sqlite3.Connection:
        """All there is now, secrets too, for ``go_back``."""
        copy = sqlite3.connect(":memory:", check_same_thread=False)
        with self.lock:
            self._connection.backup(copy)
        return copy

    def go_back(self, copy: sqlite3.Connection) -> None:
        """Replace everything by what ``copied`` gave. It takes about 1 ms for each MB."""
        with self.lock:
            copy.backup(self._connection)
            self._replaced += 1

    def dump(self) -> bytes:
        """The whole database, without its secrets, as the bytes of a SQLite file."""
        copy = sqlite3.connect(":memory:", isolation_level=None)
        try:
            with self.lock:
                self._connection.backup(copy)
            copy.execute("PRAGMA secure_delete = ON")
            for table in ACCESS_TABLES:
                copy.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
            return _without_log(copy.serialize())
        finally:
            copy.close()

    def restore(self, state: bytes, put_in: Callable[[Callable[..., object]], None]) -> None:
        """Replace everything by what ``dump`` gave and what ``put_in`` adds to it by
        ``run(sql, *values)``: in one step, so that a kill leaves the one or the other.

        Raises ``sqlite3.DatabaseError``.
        """
        source = sqlite3.connect(":memory:")
        try:
            if not state.startswith(SQLITE_MAGIC):
                raise sqlite3.DatabaseError("it is not a SQLite file")
            source.deserialize(_without_log(state))
            if source.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
                raise sqlite3.DatabaseError("it is damaged")
            version = source.execute("SELECT value FROM meta WHERE name = 'schema_version'")
            if version.fetchone() != (str(SCHEMA_VERSION),):
                raise sqlite3.DatabaseError(f"its schema is not version {SCHEMA_VERSION}")
            with self.lock:
                if other := _columns(source) ^ _columns(self._connection):
                    tables = ", ".join(sorted({table for table, _ in other}))
                    raise sqlite3.DatabaseError(f"its tables are not a sandbox's: {tables}")
                put_in(lambda sql, *values: source.execute(sql, values))
                source.commit()
                source.backup(self._connection)
                self._replaced += 1
        finally:
            source.close()

    def close(self) -> None:
        with self.lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None


def _columns(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Table and name of every column."""
    return set(
        connection.execute(
            "SELECT t.name, c.name FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c "
            "WHERE t.type = 'table'"
        )
    )


def _without_log(state: bytes) -> bytes:
    """A whole database as the bytes of a file that has no log: only those open in memory."""
    plain = bytearray(state)
    plain[JOURNAL_BYTES] = b"\1\1"
    return bytes(plain)


def _create_private(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is not a regular file")
            if not status.st_size:  # what is in another file may not be ours
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise SandboxError(f"the database {path} cannot be opened: {reason_of(error)}") from None
