"""A journal as an earlier version kept it, in a store (2) or in the user's folder (3): its file is
made here, by hand, and owes nothing to the code that reads it."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fundlab.client.client import Client

_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE intents (
    number INTEGER PRIMARY KEY AUTOINCREMENT, ref_id TEXT NOT NULL UNIQUE,
    operation TEXT NOT NULL, recorded_at INTEGER NOT NULL, fingerprint TEXT NOT NULL,
    likeness TEXT NOT NULL, body BLOB NOT NULL, facts TEXT NOT NULL, batch TEXT,
    sha256 TEXT NOT NULL);
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, intent INTEGER NOT NULL REFERENCES intents (number),
    at INTEGER NOT NULL, state TEXT NOT NULL, resource_id TEXT, status TEXT, fee TEXT, total TEXT,
    detail TEXT, sha256 TEXT NOT NULL);
"""
_SCHEMA_3 = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE intents (
    number INTEGER PRIMARY KEY AUTOINCREMENT, origin TEXT NOT NULL, ref_id TEXT NOT NULL,
    operation TEXT NOT NULL, recorded_at INTEGER NOT NULL, fingerprint TEXT NOT NULL,
    likeness TEXT NOT NULL, body BLOB NOT NULL, facts TEXT NOT NULL, batch TEXT, store TEXT,
    sha256 TEXT NOT NULL, UNIQUE (ref_id, origin));
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, origin TEXT NOT NULL,
    intent INTEGER NOT NULL REFERENCES intents (number),
    at INTEGER NOT NULL, state TEXT NOT NULL, resource_id TEXT, status TEXT, fee TEXT, total TEXT,
    detail TEXT, sha256 TEXT NOT NULL);
"""
OPERATION = "create_fiat_withdrawal"


@dataclass(frozen=True)
class StoreJournal:
    """The journal with the random id ``id`` in the folder ``store``, or of version 3 the one that
    was made with the store."""

    store: Path
    client: Client
    id: str
    version: int = 2

    @property
    def path(self) -> Path:
        port = urlsplit(self.client.base_url).port
        key = f"loopback:{port} {self.client.client_id}"
        name = f"loopback-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
        if self.version == 2:
            return self.store / "journal" / f"{name}.sqlite"
        return self.client.settings.journal / f"{name}-{self._instance()[:12]}.sqlite"

    def _instance(self) -> str:
        return str(self.client.transport.instance())

    def create(self) -> StoreJournal:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        about = {
            "id": self.id, "schema_version": str(self.version),
            "base_url": self.client.base_url, "client_id": self.client.client_id,
        }  # fmt: skip
        if self.version == 3:
            about["instance"] = self._instance()
        about["sha256"] = _hash(*(text for name in sorted(about) for text in (name, about[name])))
        with closing(sqlite3.connect(self.path)) as database:
            database.executescript(_SCHEMA if self.version == 2 else _SCHEMA_3)
            database.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            database.commit()
        return self

    def ref_id(self, payment: Mapping[str, str]) -> str:
        return f"fundlab-{_digest(self.id, {'asset': 'USD', **payment})[:32]}"

    def confirm(self, payment: Mapping[str, str], at: int, ref_id: str | None = None) -> str:
        """Write down an intent and that it is about to be sent; its ``ref_id``."""
        body = {"asset": "USD", **payment}
        name = ref_id or self.ref_id(payment)
        self._add(
            "intents", ref_id=name, operation=OPERATION, recorded_at=at,
            fingerprint=_digest(self.id, body), likeness=_digest(self.id, body),
            body=json.dumps(body | {"ref_id": name}).encode(), facts=json.dumps({**body}),
            batch=None, **{"store": str(self.store)} if self.version == 3 else {},
        )  # fmt: skip
        self.note(name, "unknown", at)
        return name

    def note(self, ref_id: str, state: str, at: int, made: Any = None) -> None:
        """Write down what became of it; ``made`` is the transfer."""
        with closing(sqlite3.connect(self.path)) as database:
            (number,) = database.execute(
                "SELECT number FROM intents WHERE ref_id = ?", (ref_id,)
            ).fetchone()
        shown = {
            name: None if made is None else str(getattr(made, name))
            for name in ("id", "status", "fee", "total")
        }
        self._add(
            "events", intent=number, at=at, state=state, resource_id=shown.pop("id"), **shown,
            detail=None,
        )  # fmt: skip

    def _add(self, table: str, **values: Any) -> None:
        if self.version == 3:
            values = {"origin": self.id, **values}
        with closing(sqlite3.connect(self.path)) as database:
            database.execute(
                f"INSERT INTO {table} ({', '.join(values)}, sha256) "
                f"VALUES ({'?, ' * len(values)}?)",
                (*values.values(), _hash(*values.values())),
            )
            database.commit()

    def pay(self, payment: Mapping[str, str], at: int) -> Any:
        """Pay as an earlier version did; the transfer."""
        name = self.confirm(payment, at)
        made = self.client.create_fiat_withdrawal(**payment, ref_id=name)
        self.note(name, "done", at + 1, made)
        return made


def _digest(journal_id: str, asked: Mapping[str, str]) -> str:
    """What was asked for, without metadata and memo, as every version wrote it."""
    same = {**asked, "amount": f"{Decimal(asked['amount']).normalize():f}"}
    text = f"{OPERATION}\n{json.dumps(same, sort_keys=True, separators=(',', ':'))}"
    return hmac.new(journal_id.encode(), text.encode(), hashlib.sha256).hexdigest()


def _hash(*values: Any) -> str:
    return hashlib.sha256(b"".join(b"%a" % (value,) for value in values)).hexdigest()
