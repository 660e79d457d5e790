"""Open a sandbox over a database: make and seed a new one, pick up an old one, start over."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fundlab.errors import SandboxError
from fundlab.sandbox.access import Access, key_pair_pem, new_private_key
from fundlab.sandbox.clock import AccessClock, BusinessClock, ClockMode
from fundlab.sandbox.database import INDEXES, SCHEMA, SCHEMA_VERSION, Database
from fundlab.sandbox.history import HISTORY_END_NS, HISTORY_START_NS
from fundlab.sandbox.history_rows import seed_history
from fundlab.sandbox.people import seed_people
from fundlab.sandbox.service import Service
from fundlab.sandbox.world import World, seeded_uuid

MAX_TRANSFERS: Final = 10_000_000
MAX_PROFILES: Final = 1_000
MIN_USERS: Final = 6
MAX_USERS: Final = 500
KEPT_ON_RESET: Final = ("credentials", "signing_keys", "tokens")


@dataclass(frozen=True)
class Options:
    db: Path | None
    seed: int
    transfers: int
    profiles: int
    signing: bool
    signing_alg: str
    clock: ClockMode
    empty: bool
    scopes: tuple[str, ...]
    signature_header: str
    signature_prefix: str

    def check(self) -> None:
        if not 0 <= self.transfers <= MAX_TRANSFERS:
            raise SandboxError(f"transfers {self.transfers} must be from 0 to {MAX_TRANSFERS}")
        if not 1 <= self.profiles <= MAX_PROFILES:
            raise SandboxError(f"profiles {self.profiles} must be from 1 to {MAX_PROFILES}")
        if self.signing_alg not in ("ES256", "EdDSA"):
            raise SandboxError(f"signing_alg {self.signing_alg!r} is none of ES256, EdDSA")
        if self.clock not in ("real", "fast", "manual"):
            raise SandboxError(f"clock {self.clock!r} is none of real, fast, manual")


def open_service(database: Database, options: Options) -> Service:
    """The service over a database: made and seeded when new, picked up when not."""
    try:
        if database.is_new:
            with database.transaction():
                _create(database, options)
        version = database.get_meta("schema_version")
    except sqlite3.DatabaseError as error:
        raise SandboxError(f"{options.db} is not a sandbox database: {error}") from None
    if version != str(SCHEMA_VERSION):
        raise SandboxError(f"{options.db} has schema {version}, not {SCHEMA_VERSION}")
    seed = int(database.get_meta("seed") or 0)
    world = World(database, _business_clock(database, options.clock), AccessClock(), seed)
    access = Access(database, world.access_clock, signature_prefix=options.signature_prefix)
    with database.transaction():
        _open_credential(database, access, options, seed)
    key = (database.get_meta("cursor_key") or "").encode()
    return Service(database, world, access, key, options.signature_header)


def _create(database: Database, options: Options) -> None:
    database.run_script(SCHEMA)
    database.set_meta("schema_version", str(SCHEMA_VERSION))
    database.set_meta("seed", str(options.seed))
    database.set_meta("customer_id", seeded_uuid(options.seed, "customers", 1))
    database.set_meta("cursor_key", seeded_uuid(options.seed, "cursor_key", 1))
    start_ns = _start_ns(None, options.clock)
    users = min(MAX_USERS, max(MIN_USERS, options.transfers // 500))
    people = seed_people(database, options.seed, options.profiles, HISTORY_START_NS, users)
    if not options.empty:
        seed_history(database, people, options.transfers, pending_from_ns=start_ns)
    database.run_script(INDEXES)


def _open_credential(database: Database, access: Access, options: Options, seed: int) -> None:
    client_id = database.get_meta("client_id")
    if client_id is None:
        client_id = f"sandbox-{seeded_uuid(seed, 'credentials', 1)[:8]}"
        customer_id = database.get_meta("customer_id") or ""
        access.add_credential(client_id, customer_id, options.scopes, signing=options.signing)
        database.set_meta("client_id", client_id)
    if options.signing:
        access.require_signing(client_id, signing=True)
        kid = f"{client_id}-{options.signing_alg}"
        if not database.one("SELECT 1 FROM signing_keys WHERE kid = ?", kid):
            private, public = key_pair_pem(new_private_key(options.signing_alg))
            access.add_key(client_id, kid, public, private)


def _business_clock(database: Database, mode: ClockMode) -> BusinessClock:
    seen = [int(database.get_meta(name) or 0) for name in ("business_ns", "last_stamp_ns")]
    return BusinessClock(mode, _start_ns(max(seen) or None, mode))


def _start_ns(seen_ns: int | None, mode: ClockMode) -> int:
    """Where business time starts: never before the history's end or what was seen before."""
    start_ns = max(HISTORY_END_NS, seen_ns or 0)
    return start_ns if mode == "manual" else max(start_ns, time.time_ns())
