"""A journal as earlier versions kept it in a store: its file is made here, by hand."""

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

from fundlab.api.client import Client

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
OPERATION = "create_fiat_withdrawal"


@dataclass(frozen=True)
class StoreJournal:
    """The journal with the random id ``id`` in the folder ``store``."""

    store: Path
    client: Client
    id: str

    @property
    def path(self) -> Path:
        port = urlsplit(self.client.base_url).port
        key = f"loopback:{port} {self.client.client_id}"
        name = f"loopback-{hashlib.sha256(key.encode()).hexdigest()[:12]}.sqlite"
        return self.store / "journal" / name

    def create(self) -> StoreJournal:
        self.path.parent.mkdir(parents=True)
        about = {
            "id": self.id, "schema_version": "2", "base_url": self.client.base_url,
            "client_id": self.client.client_id,
        }  # fmt: skip
        about["sha256"] = _hash(*(text for name in sorted(about) for text in (name, about[name])))
        with closing(sqlite3.connect(self.path)) as database:
            database.executescript(_SCHEMA)
            database.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            database.commit()
        return self

    def ref_id(self, payment: Mapping[str, str]) -> str:
        return f"fundlab-{_digest(self.id, {'asset': 'USD', **payment})[:32]}"

    def confirm(self, payment: Mapping[str, str], at: int, ref_id: str | None = None) -> str:
        """Write down an intent and that it is about to be sent; its ``ref_id``."""
        body = {"asset": "USD", **payment}
        name = ref_id or self.ref_id(payment)
        values = (
            name, OPERATION, at, _digest(self.id, body), _digest(self.id, body),
            json.dumps(body | {"ref_id": name}).encode(), json.dumps({**body}), None,
        )  # fmt: skip
        with closing(sqlite3.connect(self.path)) as database:
            database.execute(
                "INSERT INTO intents (ref_id, operation, recorded_at, fingerprint, likeness, body, "
                "facts, batch, sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, _hash(*values)),
            )  # fmt: skip
            database.commit()
        self.note(name, "unknown", at)
        return name

    def note(self, ref_id: str, state: str, at: int, made: Any = None) -> None:
        """Write down what became of it; ``made`` is the transfer."""
        with closing(sqlite3.connect(self.path)) as database:
            (number,) = database.execute(
                "SELECT number FROM intents WHERE ref_id = ?", (ref_id,)
            ).fetchone()
            shown = ("id", "status", "fee", "total")
            values = (
                number, at, state,
                *(None if made is None else str(getattr(made, name)) for name in shown), None,
            )  # fmt: skip
            database.execute(
                "INSERT INTO events (intent, at, state, resource_id, status, fee, total, detail, "
                "sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*values, _hash(*values)),
            )  # fmt: skip
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
