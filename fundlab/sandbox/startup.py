"""Open a sandbox over a database: make and seed a new one, pick up an old one, start over."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from fundlab.base.errors import SandboxError
from fundlab.client.signing import key_pair
from fundlab.models import SCOPES
from fundlab.sandbox.access import Access, public_pem
from fundlab.sandbox.behaviour import Behaviour, Rates
from fundlab.sandbox.clock import (
    HISTORY_END_NS,
    HISTORY_START_NS,
    AccessClock,
    BusinessClock,
    ClockMode,
)
from fundlab.sandbox.credentials import Wanted
from fundlab.sandbox.database import ACCESS_TABLES, INDEXES, SCHEMA, SCHEMA_VERSION, Database
from fundlab.sandbox.faults import Faults
from fundlab.sandbox.log import Logged, RequestLog
from fundlab.sandbox.replay import Replay
from fundlab.sandbox.seed_customers import seed_people
from fundlab.sandbox.world import World, seeded_uuid

MAX_TRANSFERS: Final = 10_000_000
MAX_PROFILES: Final = 1_000
MAX_SEED: Final = 2**63 - 1
MIN_USERS: Final = 6
MAX_USERS: Final = 500


@dataclass(frozen=True)
class Service:
    """A sandbox without its HTTP server."""

    database: Database
    world: World
    access: Access
    signature_header: str = "service-signature"
    faults: Faults = field(default_factory=Faults)
    log: RequestLog = field(default_factory=RequestLog)
    rates: Rates = field(default_factory=Rates)
    token_rates: Rates = field(default_factory=Rates)
    replay: Replay | None = None


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
    credentials: tuple[Wanted, ...] = ()
    allow_remote: bool = False
    behaviour: Behaviour | None = None
    replay: Replay | None = None
    control_key: str | None = field(default=None, repr=False)

    def check(self) -> None:
        """Raises ``SandboxError`` naming the argument at fault."""
        check_whole("seed", self.seed, 0, MAX_SEED)
        check_whole("transfers", self.transfers, 0, MAX_TRANSFERS)
        check_whole("profiles", self.profiles, 1, MAX_PROFILES)
        if self.signing_alg not in ("ES256", "EdDSA"):
            raise SandboxError(f"signing_alg {self.signing_alg!r} must be ES256 or EdDSA")
        if self.clock not in ("real", "fast", "manual"):
            raise SandboxError(f"clock {self.clock!r} must be real, fast or manual")


def check_whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SandboxError(f"{name} {value!r} must be a whole number from {least} to {most}")
    if not least <= value <= most:
        raise SandboxError(f"{name} {value} must be from {least} to {most}")


def scope_names(scopes: Sequence[str] | None) -> tuple[str, ...]:
    """All scopes by default; a text is one scope, or several parted by spaces."""
    if scopes is None:
        return SCOPES
    if isinstance(scopes, str):
        return tuple(scopes.split())
    if not isinstance(scopes, Sequence) or not all(isinstance(scope, str) for scope in scopes):
        raise SandboxError(f"scopes {scopes!r} must be a list of scopes: {', '.join(SCOPES)}")
    return tuple(scopes)


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
    database.keep_private()
    database.write_ahead()
    world = World(database, _business_clock(database, options.clock), AccessClock())
    access = Access(database, world.access_clock, signature_prefix=options.signature_prefix)
    with database.transaction():
        if options.behaviour is not None:
            world.behave(options.behaviour)
        for credential in options.credentials:
            _establish(world, access, credential)
        if options.credentials:
            database.set_meta("client_id", options.credentials[0].client_id)
        client_id = database.get_meta("client_id")
        if client_id is None:
            client_id = f"sandbox-{seeded_uuid(world.seed, 'credentials', 1)[:8]}"
        if access.credential(client_id) is None:  # new, or a saved state, which holds no secrets
            access.add_credential(
                client_id, world.customer_id, options.scopes, signing=options.signing
            )
            database.set_meta("client_id", client_id)
        if options.signing and not (options.credentials and options.credentials[0].signing_key):
            access.require_signing(client_id, signing=True)
            kid = f"{client_id}-{options.signing_alg}"
            if not database.one("SELECT 1 FROM signing_keys WHERE kid = ?", kid):
                private, public = key_pair(options.signing_alg)
                access.add_key(client_id, kid, public.encode(), private)
    return Service(database, world, access, options.signature_header, replay=options.replay)


def _establish(world: World, access: Access, wanted: Wanted) -> None:
    """The credential as it is wanted, whether it is new or was there with another secret or key."""
    known = access.credential(wanted.client_id)
    if known is None:
        customer_id = add_customer(world) if wanted.new_customer else world.customer_id
        access.add_credential(
            wanted.client_id, customer_id, wanted.scopes, signing=False, secret=wanted.client_secret
        )
    else:
        access.grant(wanted.client_id, wanted.scopes)
        if wanted.client_secret is not None:
            access.rotate(wanted.client_id, wanted.client_secret)
    if wanted.signing_key is not None:
        try:
            public = public_pem(wanted.signing_key.read_bytes())
        except OSError as error:
            raise SandboxError(
                f"the signing key {wanted.signing_key} cannot be read: {error.strerror}"
            ) from None
        except SandboxError as error:
            raise SandboxError(f"the signing key {wanted.signing_key}: {error}") from None
        access.replace_key(wanted.client_id, wanted.key_id, public)
    access.require_signing(wanted.client_id, signing=wanted.signing_key is not None)


def add_customer(world: World) -> str:
    """A customer more, with a profile of its own; its id. In the caller's transaction."""
    database = world.database
    # credentials outlive a reset, and so do the customers they are of
    known = database.all(
        "SELECT customer_id FROM credentials UNION SELECT customer_id FROM profiles"
    )
    ids = (seeded_uuid(world.seed, "customers", number) for number in itertools.count(2))
    customer_id = next(new for new in ids if (new,) not in known)
    database.insert("profiles", id=world.new_id("profiles"), customer_id=customer_id)
    return customer_id


def start_over(service: Service, options: Options) -> None:
    """Make and seed the database anew, as it was made; credentials, keys and tokens stay. What was
    armed or shifted by hand, which no database holds, goes too."""
    database = service.database
    first = made_with(database, options)
    with database.transaction():
        put_back = _access_of(database)
        for (name,) in database.all("SELECT name FROM sqlite_master WHERE type = 'table'"):
            database.run(f"DROP TABLE {name}")
        _create(database, first)
        put_back(database.run)
        _reload(service)
    service.faults.clear()
    service.world.access_clock.shift(0)


def made_with(database: Database, options: Options) -> Options:
    """The options by which the database was made, which a later start does not change."""
    stored = json.loads(database.get_meta("history") or "{}")
    return replace(options, **stored, seed=int(database.get_meta("seed") or options.seed))


def take_over(service: Service, state: bytes) -> None:
    """Replace everything but the credentials, keys and tokens by a saved state, in one step.

    Raises ``sqlite3.DatabaseError`` when it is none.
    """
    with service.database.lock:
        service.database.restore(state, _access_of(service.database))
        _reload(service)


@dataclass
class Checkpoint:
    """A moment to go back to: the database, business time, and what no database holds."""

    copy: sqlite3.Connection
    changes: tuple[int, int]
    now_ns: int
    shift_s: float
    faults: dict[int, Any]
    requests: list[Logged]


def checkpoint(service: Service, last: Checkpoint | None = None) -> Checkpoint:
    """Everything as it is now; the copy of ``last`` serves again where nothing has changed."""
    database, world = service.database, service.world
    with database.lock:
        unchanged = last is not None and last.changes == database.changes
        return Checkpoint(
            last.copy if last is not None and unchanged else database.copied(), database.changes,
            world.clock.now_ns(), world.access_clock.shift_s, service.faults.kept(),
            service.log.entries(),
        )  # fmt: skip


def go_back(service: Service, to: Checkpoint) -> None:
    """Everything as it was: credentials, keys and tokens too. A clock that runs goes on from there,
    but not from before real time."""
    database, world = service.database, service.world
    with database.lock:
        if database.changes != to.changes:
            database.go_back(to.copy)
            to.changes = database.changes
        mode = world.clock.mode
        world.reload(BusinessClock(mode, _start_ns(to.now_ns, mode)))
        world.access_clock.shift(to.shift_s)
        service.faults.put_back(to.faults)
        service.log.keep(to.requests)


def _access_of(database: Database) -> Callable[[Callable[..., object]], None]:
    """The credentials, keys and tokens of ``database`` now, to be put into its next content: by
    ``run(sql, *values)``."""
    before = database.get_meta("customer_id")
    client_id = database.get_meta("client_id")
    kept = {name: database.all(f"SELECT * FROM {name}") for name in ACCESS_TABLES}  # noqa: S608 - our own names

    def put_back(run: Callable[..., object]) -> None:
        for name, rows in kept.items():
            run(f"DELETE FROM {name}")  # noqa: S608 - our own names
            for row in rows:
                marks = ", ".join("?" * len(row))
                run(f"INSERT INTO {name} VALUES ({marks})", *row)  # noqa: S608 - our own names
        run("INSERT OR REPLACE INTO meta (name, value) VALUES ('client_id', ?)", client_id)
        run(
            "UPDATE credentials SET customer_id = (SELECT value FROM meta WHERE name = "
            "'customer_id') WHERE customer_id = ?",
            before,
        )

    return put_back


def _create(database: Database, options: Options) -> None:
    database.run_script(SCHEMA)
    database.set_meta("schema_version", str(SCHEMA_VERSION))
    database.set_meta("seed", str(options.seed))
    database.set_meta("instance", uuid.uuid4().hex)
    history = {name: getattr(options, name) for name in ("transfers", "profiles", "empty")}
    database.set_meta("history", json.dumps(history))
    if options.behaviour is not None:
        database.set_meta("behaviour", options.behaviour.model_dump_json())
    database.set_meta("customer_id", seeded_uuid(options.seed, "customers", 1))
    start_ns = _start_ns(None, options.clock)
    users = min(MAX_USERS, max(MIN_USERS, options.transfers // 500))
    people = seed_people(database, options.seed, options.profiles, HISTORY_START_NS, users)
    if not options.empty:
        from fundlab.sandbox.history import seed_history  # NumPy, which an empty one starts without

        seed_history(database, people, options.transfers, pending_from_ns=start_ns)
    database.run_script(INDEXES)


def _reload(service: Service) -> None:
    world = service.world
    world.reload(_business_clock(service.database, world.clock.mode))


def _business_clock(database: Database, mode: ClockMode) -> BusinessClock:
    seen = [int(database.get_meta(name) or 0) for name in ("business_ns", "last_stamp_ns")]
    return BusinessClock(mode, _start_ns(max(seen) or None, mode))


def _start_ns(seen_ns: int | None, mode: ClockMode) -> int:
    """Where business time starts: never before the history's end or what was seen before."""
    start_ns = max(HISTORY_END_NS, seen_ns or 0)
    return start_ns if mode == "manual" else max(start_ns, time.time_ns())
