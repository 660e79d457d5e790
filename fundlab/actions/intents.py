"""The journal: what was confirmed, written down and synced to disk before the first byte is sent.

One SQLite file (``journal_file``) for each service and credential, in the user's data folder
(``Settings.journal``), whichever store a payment is made with: a committed intent survives a kill
or a power cut at any instant, a half-written one was never there, and any number of kernels may
share it. Rows are only ever added: an *intent* is what was confirmed, an *event* what became of it.
The newest event tells the state; once ``done``, always ``done``::

    unknown   recorded, and maybe sent: run the cell again, or ask with resume()
    done      the service has it (resource_id, status)
    refused   the service said no; nothing was made
    absent    the service was asked and does not know it; run the cell again to send it

Earlier versions kept a journal in each store. What such a journal holds is taken over, row by row
in the order it was written, whenever its store is used: the counts of what came from there tell
what is new. Digests and derived ref_ids are keyed with the id of the journal an intent was
confirmed in (its ``origin``), so they stay as they are and are compared by that id.

Services on loopback come and go with their ports, and a sandbox may begin anew on an old one: each
gets a file of its own (``Transport.instance``). When a new one is made, those of sandboxes are
removed that nobody has confirmed anything with for 30 days: their money is play money.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from fundlab.actions.clock import shown_time
from fundlab.actions.identity import derived_ref_id, fingerprint, likeness
from fundlab.actions.journal_file import (
    SCHEMA_VERSION,
    STORE_SCHEMA_VERSION,
    about_of,
    create,
    is_there,
    keep_private,
    not_seen,
    opened,
    row_hash,
    transaction,
)
from fundlab.errors import ActionRefused, StoreDamaged, StoreError
from fundlab.setting_values import is_loopback
from fundlab.store import Store

if TYPE_CHECKING:
    from fundlab.api.client import Client
    from fundlab.models import Transfer

State = Literal["unknown", "done", "refused", "absent"]
FOLDER: Final = "journal"
_KEPT_S: Final = 30 * 86_400.0
_INTENT: Final = (
    "origin, ref_id, operation, recorded_at, fingerprint, likeness, body, facts, batch, store"
)
_EVENT: Final = "origin, intent, at, state, resource_id, status, fee, total, detail"
_SELECT: Final = """
SELECT i.*, e.*, (
    SELECT MAX(at) FROM events WHERE intent = i.number AND state = 'unknown') AS sent_at
FROM intents i JOIN events e ON e.number = (
    SELECT number FROM events WHERE intent = i.number
    ORDER BY state = 'done' DESC, number DESC LIMIT 1)
"""
_MOST_COMMITTED: Final = """
ORDER BY CASE WHEN e.state = 'done' AND e.status IS NOT 'FAILED' THEN 0 WHEN e.state = 'unknown'
THEN 1 WHEN e.state = 'absent' THEN 2 WHEN e.state = 'done' THEN 3 ELSE 4 END, i.number DESC LIMIT 1
"""
_COUNTS: Final = """
SELECT s.seq, (SELECT COUNT(*) FROM intents) FROM sqlite_sequence s WHERE s.name = 'intents'
UNION ALL
SELECT s.seq, (SELECT COUNT(*) FROM events) FROM sqlite_sequence s WHERE s.name = 'events'
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
    """What is about to be confirmed, with the store ``store``.

    ``facts`` is what may be shown, and ``body`` what is kept: no complete account number.
    """

    ref_id: str
    operation: str
    arguments: Mapping[str, Any] = field(repr=False)
    body: bytes = field(repr=False)
    facts: Mapping[str, str | None]
    batch: str | None = None
    store: str | None = None


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What was confirmed, under its number in the journal, and what became of it.

    ``sent_at`` is when it was last about to be sent; ``recorded_at`` when it was confirmed first,
    in the journal with the id ``origin``.
    """

    number: int
    origin: str
    ref_id: str
    operation: str
    recorded_at: int
    fingerprint: str
    likeness: str
    body: bytes = field(repr=False)
    facts: Mapping[str, str | None]
    batch: str | None
    store: str | None
    sent_at: int
    outcome: Outcome

    @property
    def is_derived(self) -> bool:
        """Whether the ``ref_id`` was derived with a journal's id, so that nobody else has it."""
        return self.ref_id.endswith(f"-{self.fingerprint[:32]}")

    def asks_the_same_as(self, draft: Draft) -> bool:
        """Whether both ask for the same action; else they only share a ``ref_id``."""
        asked = fingerprint(self.origin, draft.operation, draft.arguments)
        return (self.operation, self.fingerprint) == (draft.operation, asked)

    @property
    def is_live(self) -> bool:
        """Whether money moved for it, or still may."""
        return self.outcome.state != "refused" and self.outcome.status != "FAILED"


class Journal:
    """The journal of ``service`` (its ``base_url``, ``client_id``, and ``instance`` if it has one)
    in the file ``path``."""

    def __init__(
        self, path: Path, service: Mapping[str, str], clock: Callable[[], int] = time.time_ns
    ) -> None:
        self.path, self._clock = path, clock
        names = ("base_url", "client_id", "instance")
        self.service = {name: service[name] for name in names if name in service}
        about = about_of(path)
        if about is None:
            create(path, self.service)
            if "instance" in self.service:
                _prune(path.parent)
            about = about_of(path)
        if about is None or about["schema_version"] != str(SCHEMA_VERSION):
            raise StoreError(f"{path} is not a journal of schema {SCHEMA_VERSION}: update fundlab")
        _check_owner(path, about, self.service)
        keep_private(path)
        self.id = about["id"]

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r})"

    @contextmanager
    def reading(self) -> Iterator[Pages]:
        """Its pages, to look at."""
        with opened(self.path) as database:
            pages = Pages(database, self.path)
            pages.check_complete()
            yield pages

    def find(self, ref_id: str) -> Intent | None:
        """The intent of ``ref_id``, if it was confirmed before."""
        with self.reading() as pages:
            return pages.find(ref_id)

    def ref_id_for(self, operation: str, arguments: Mapping[str, Any], *, more: bool) -> str:
        """The ``ref_id`` of an action that was not given one; see ``identity``.

        That of an earlier intent with these arguments, if there is one, wherever it was confirmed.
        """
        with self.reading() as pages:
            names = [
                derived_ref_id(origin, operation, arguments, more=more)
                for origin in {self.id, *pages.origins()}
            ]
            earlier = pages.find(*names)
        if earlier is not None:
            return earlier.ref_id
        return derived_ref_id(self.id, operation, arguments, more=more)

    def take_over(self, path: Path) -> None:
        """Add what the journal ``path`` in a store holds and this one does not hold yet."""
        about = about_of(path)
        if about is None or path.samefile(self.path):
            return
        with opened(path) as database, self.reading() as pages:
            theirs = Pages(database, path)
            theirs.check_complete()
            if theirs.counts() == pages.counts(about["id"]):
                return
            intents, events = theirs.intents(), theirs.events()
        with self._writing() as pages:
            pages.add_of(about["id"], store_name(path.parents[1]), intents, events)

    def intents(self) -> list[Intent]:
        """Every intent, in the order they were confirmed."""
        with self.reading() as pages:
            pages.check_indexes()
            return pages.intents()

    def record(self, draft: Draft, allow: Callable[[Pages], None], at: int | None = None) -> Intent:
        """Write ``draft`` down, to the disk, unless its ``ref_id`` is there; the intent either way.

        ``allow`` looks at the journal and may raise; no other kernel can record in between. An
        intent that was settled without a transfer becomes ``unknown`` again: it is about to be
        sent. ``at`` (ns) is when it was sent, by default now. Refuses as ``check_same_action``.
        """
        with self._writing() as pages:
            found = pages.find(draft.ref_id)
            if found is not None:
                check_same_action(found, draft, self._clock())
            if found is not None and found.outcome.state in ("done", "unknown"):
                return found
            allow(pages)
            sent_at = self._clock() if at is None else at
            number = found.number if found is not None else pages.add(self.id, draft, sent_at)
            pages.note(self.id, number, Outcome("unknown", sent_at))
            return pages.numbered(number)

    def note(self, intent: Intent, outcome: Outcome) -> None:
        """Write down what became of ``intent``; what was once said of a ``done`` one stays said."""
        if outcome.state == intent.outcome.state == "done":
            outcome = replace(outcome, detail=outcome.detail or intent.outcome.detail)
        with self._writing() as pages:
            pages.note(self.id, intent.number, replace(outcome, at=self._clock()))

    @contextmanager
    def _writing(self) -> Iterator[Pages]:
        with opened(self.path) as database, transaction(database):
            pages = Pages(database, self.path)
            if pages.id != self.id:
                raise StoreDamaged(
                    f"the journal {self.path} has been replaced by another since it was opened: "
                    "bring the first one back, then run again"
                )
            pages.check_complete()
            yield pages


def check_same_action(found: Intent, draft: Draft, now: int) -> None:
    """Refuses a ``ref_id`` of the caller's that the journal knows for something else."""
    if not found.asks_the_same_as(draft):
        was = ", ".join(str(value) for value in found.facts.values() if value)
        raise ActionRefused(
            "ref_id",
            f"ref_id={draft.ref_id!r} stands for another action, confirmed "
            f"{shown_time(found.recorded_at, now)} ({was}); nothing was sent: choose another "
            "ref_id for this one",
        )


class Pages:
    """The journal within one connection or transaction; also one of an earlier version's."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self._path = database, path
        about = dict(database.execute("SELECT name, value FROM about"))
        self.id = about.get("id")
        self._is_current = about.get("schema_version") == str(SCHEMA_VERSION)
        if not self._is_current and about.get("schema_version") != str(STORE_SCHEMA_VERSION):
            raise StoreError(f"{path} is not a journal of schema {SCHEMA_VERSION}: update fundlab")

    def check_complete(self) -> None:
        """Raises ``StoreDamaged`` where a row is gone: they are numbered, and none is removed."""
        for given, there in self._database.execute(_COUNTS):
            if given != there:
                raise self._damaged(f"{there} of {given} rows are there: it")

    def check_indexes(self) -> None:
        """Raises ``StoreDamaged`` where an index would hide a row."""
        (found,) = self._database.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise self._damaged(f"the file ({found})")

    def find(self, *ref_ids: str) -> Intent | None:
        """The intent of these names that is nearest to having been paid."""
        marks = ", ".join("?" * len(ref_ids))
        found = self._select(f"WHERE i.ref_id IN ({marks}){_MOST_COMMITTED}", *ref_ids)
        return found[0] if found else None

    def numbered(self, number: int) -> Intent:
        return self._select("WHERE i.number = ?", number)[0]

    def intents(self) -> list[Intent]:
        return self._select("ORDER BY i.number")

    def origins(self) -> list[str]:
        """The ids of the journals that intents were confirmed in."""
        return [row[0] for row in self._database.execute("SELECT DISTINCT origin FROM intents")]

    def alike(self, operation: str, arguments: Mapping[str, Any], since: int) -> list[Intent]:
        """Intents sent since ``since`` (ns) that ask for the same, metadata aside."""
        likenesses = [likeness(origin, operation, arguments) for origin in self.origins()]
        marks = ", ".join("?" * len(likenesses))
        return self._select(f"WHERE i.likeness IN ({marks}) AND sent_at >= ?", *likenesses, since)

    def to_account(self, operation: str, fiat_account_id: str, since: int) -> list[Intent]:
        """Intents of ``operation`` to a fiat account, sent since ``since`` (ns)."""
        return self._select(
            "WHERE i.number IN (SELECT number FROM intents WHERE operation = ? AND "
            "instr(facts, ?)) AND sent_at >= ?",
            operation, json.dumps(fiat_account_id), since,
        )  # fmt: skip

    def sent_since(self, operation: str, since: int) -> list[Intent]:
        """Intents of ``operation`` sent since ``since`` (ns), again or for the first time."""
        return self._select(
            "WHERE i.operation = ? AND i.number IN "
            "(SELECT intent FROM events WHERE state = 'unknown' AND at >= ?)", operation, since,
        )  # fmt: skip

    def knows(self, transfer: Transfer) -> bool:
        """Whether it was made by an intent of this journal."""
        found = self._database.execute(
            "SELECT 1 FROM events WHERE resource_id = ? UNION ALL "
            "SELECT 1 FROM intents WHERE ref_id = ?", (transfer.id, transfer.ref_id),
        )  # fmt: skip
        return found.fetchone() is not None

    def add(self, origin: str, draft: Draft, at: int) -> int:
        """Add an intent; its number."""
        return self._insert(
            "intents", _INTENT,
            origin, draft.ref_id, draft.operation, at,
            fingerprint(origin, draft.operation, draft.arguments),
            likeness(origin, draft.operation, draft.arguments),
            draft.body, json.dumps(dict(draft.facts)), draft.batch, draft.store,
        )  # fmt: skip

    def note(self, origin: str, number: int, outcome: Outcome) -> None:
        """Add an event of the intent ``number``."""
        self._insert(
            "events", _EVENT,
            origin, number, outcome.at, outcome.state, outcome.resource_id, outcome.status,
            outcome.fee, outcome.total, outcome.detail,
        )  # fmt: skip

    # ------------------------------------------------------------------------ taking over

    def events(self) -> list[tuple[int, Outcome]]:
        """Every event with the number of its intent, in the order they were noted."""
        rows = self._database.execute("SELECT * FROM events ORDER BY number")
        return [self._event(row) for row in rows]

    def counts(self, origin: str | None = None) -> tuple[int, int]:
        """How many intents and events there are, or of them those written in ``origin``."""
        where, values = ("", ()) if origin is None else (" WHERE origin = ?1", (origin,))
        found: tuple[int, int] = self._database.execute(
            f"SELECT (SELECT COUNT(*) FROM intents{where}), "  # noqa: S608 - our own
            f"(SELECT COUNT(*) FROM events{where})",
            values,
        ).fetchone()
        return found

    def add_of(
        self, origin: str, store: str, intents: list[Intent], events: list[tuple[int, Outcome]]
    ) -> None:
        """Add of all the rows of the journal ``origin`` those that are not there yet."""
        held = self._database.execute(
            "SELECT ref_id, number FROM intents WHERE origin = ?", (origin,)
        )
        numbers: dict[str, int] = dict(held.fetchall())
        for intent in intents:
            if intent.ref_id not in numbers:
                numbers[intent.ref_id] = self._insert(
                    "intents", _INTENT, origin, intent.ref_id, intent.operation,
                    intent.recorded_at, intent.fingerprint, intent.likeness, intent.body,
                    json.dumps(dict(intent.facts)), intent.batch, store,
                )  # fmt: skip
        names = {intent.number: numbers[intent.ref_id] for intent in intents}
        noted = self._database.execute("SELECT * FROM events WHERE origin = ?", (origin,))
        known = {self._event(row) for row in noted}
        for number, outcome in events:
            if (names[number], outcome) not in known:
                self.note(origin, names[number], outcome)

    # ------------------------------------------------------------------------ rows

    def _insert(self, table: str, columns: str, *values: str | int | bytes | None) -> int:
        marks = "?, " * len(values)
        cursor = self._database.execute(
            f"INSERT INTO {table} ({columns}, sha256) VALUES ({marks}?)",  # noqa: S608 - our own
            (*values, row_hash(*values)),
        )
        return int(cursor.lastrowid or 0)

    def _select(self, where: str, *values: object) -> list[Intent]:
        return [self._intent(row) for row in self._database.execute(_SELECT + where, values)]

    def _intent(self, row: tuple[Any, ...]) -> Intent:
        """From the columns of an intent, of its newest event, and ``sent_at``."""
        width = len(_INTENT.split(", ")) + 2 if self._is_current else 10
        number, *confirmed, sha256 = row[:width]
        if row_hash(*confirmed) != sha256:
            raise self._damaged(f"intent {number} ({row[2]})")
        if not self._is_current:
            confirmed = [self.id, *confirmed, None]
        origin, ref_id, operation, at, digest, alike, body, facts, batch, store = confirmed
        return Intent(
            number=number, origin=origin, ref_id=ref_id, operation=operation, recorded_at=at,
            fingerprint=digest, likeness=alike, body=body, facts=json.loads(facts), batch=batch,
            store=store, sent_at=row[-1], outcome=self._event(row[width:-1])[1],
        )  # fmt: skip

    def _event(self, row: tuple[Any, ...]) -> tuple[int, Outcome]:
        """The number of its intent, and the outcome it notes."""
        _, *noted, sha256 = row
        intent, at, state, resource_id, status, fee, total, detail = noted[-8:]
        if row_hash(*noted) != sha256:
            raise self._damaged(f"what is noted of intent {intent}")
        return intent, Outcome(state, at, resource_id, status, fee, total, detail)

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{self._path}: {what} is not what was written: restore the file from a backup, then "
            "run again"
        )


def open_journal(
    client: Client, store: Store | str | Path | None, clock: Callable[[], int] = time.time_ns
) -> Journal:
    """The journal of ``client``'s service, with what one in ``store`` holds (by default the one of
    the client's settings).

    Raises ``StoreError`` when the store or its journal belongs to another service or credential.
    """
    place = store if isinstance(store, Store) else Store(store or client.settings.store)
    service = service_of(client)
    owner = place.service()
    if owner is not None:
        _check_owner(place.path, owner, service)
    book = Journal(_path(client.settings.journal, service), service, clock)
    if isinstance(place.path, Path):
        old = place.path / FOLDER / _name_in_store(service)
        about = about_of(old)
        if about is not None:
            _check_owner(old, about, service)
            book.take_over(old)
    return book


def existing_journal(client: Client) -> Journal | None:
    """The journal of ``client``'s service, if there is one: none is created."""
    service = service_of(client)
    path = _path(client.settings.journal, service)
    return Journal(path, service) if is_there(path) else None


def journals_in(folder: Path) -> list[Journal]:
    """Every journal in ``folder``, which is one of ``Settings.journal``."""
    paths = journal_files(folder)
    return [Journal(path, about) for path in paths if (about := about_of(path)) is not None]


def _prune(folder: Path) -> None:
    """Remove the journals of sandboxes (``Transport.instance``) that have long not been written."""
    for path in journal_files(folder):
        try:
            is_old = time.time() - path.stat().st_mtime > _KEPT_S
            about = about_of(path) if is_old else None
        except (OSError, StoreError):  # gone meanwhile; or damaged, which verify names
            continue
        if about is not None and "instance" in about and is_loopback(about["base_url"]):
            path.unlink(missing_ok=True)


def journal_files(folder: Path) -> list[Path]:
    """The file of every journal in ``folder``."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".sqlite")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise not_seen(folder, error) from None


def read_intents(path: Path) -> list[tuple[Intent, str]]:
    """Every intent of a journal, an earlier version's too, with the ``base_url`` of its service."""
    about = about_of(path)
    if about is None:
        return []
    with opened(path) as database:
        pages = Pages(database, path)
        pages.check_complete()
        pages.check_indexes()
        return [(intent, about["base_url"]) for intent in pages.intents()]


def store_name(path: object) -> str:
    """A store as the journal names it, by whatever link it is reached."""
    return os.path.realpath(path) if isinstance(path, Path) else str(path)


def service_of(client: Client) -> dict[str, str]:
    """What tells the service and credential of ``client`` from all others."""
    service = {"base_url": client.base_url, "client_id": client.client_id}
    instance = client.transport.instance() if is_loopback(client.base_url) else None
    return service if instance is None else service | {"instance": instance}


def _path(folder: Path, service: Mapping[str, str]) -> Path:
    instance = service.get("instance", "")[:12]
    return folder / f"{name_of(service)}{'-' * bool(instance)}{instance}.sqlite"


def name_of(service: Mapping[str, str]) -> str:
    """How the names of a service's journals begin."""
    url = service["base_url"]
    place = "loopback" if is_loopback(url) else urlsplit(url).hostname
    return f"{place}-{_digest(service)}"


def _name_in_store(service: Mapping[str, str]) -> str:
    """Where earlier versions kept it, in the folder ``FOLDER`` of a store."""
    on_loopback = is_loopback(service["base_url"])
    return f"loopback-{_digest(service)}.sqlite" if on_loopback else "service.sqlite"


def _digest(service: Mapping[str, str]) -> str:
    return hashlib.sha256(service_key(service).encode()).hexdigest()[:12]


def _check_owner(path: object, owner: Mapping[str, str], service: Mapping[str, str]) -> None:
    if service_key(owner) != service_key(service):
        raise StoreError(
            f"{path} belongs to {owner['base_url']} (client {owner['client_id']}), not to "
            f"{service['base_url']} (client {service['client_id']}); nothing was sent: connect to "
            "the service you mean, or use a store of its own (store=…, FUNDLAB_STORE)"
        )


def service_key(service: Mapping[str, str]) -> str:
    """A service and credential, however the loopback address is spelt."""
    url = service["base_url"]
    parts = urlsplit(url)
    place = f"loopback:{parts.port}{parts.path}" if is_loopback(url) else url
    return f"{place} {service['client_id']}"
