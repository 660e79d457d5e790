"""The journal: what was confirmed, written down and synced to disk before the first byte is sent.

One SQLite file in the store's folder (``journal_file``): a committed intent survives a kill or a
power cut at any instant, a half-written one was never there, and any number of kernels may share
it. Rows are only ever added: an *intent* is what was confirmed, an *event* what became of it. The
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
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from fundlab.actions.clock import shown_time
from fundlab.actions.journal_file import (
    SCHEMA_VERSION,
    about_of,
    create,
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

State = Literal["unknown", "done", "refused", "absent"]
FOLDER: Final = "journal"
_SELECT: Final = """
SELECT i.number, i.ref_id, i.operation, i.recorded_at, i.fingerprint, i.likeness, i.body,
       i.sha256, i.facts, i.batch, e.state, e.at, e.resource_id, e.status, e.fee, e.total,
       e.detail, (
           SELECT MAX(at) FROM events WHERE intent = i.number AND state = 'unknown') AS sent_at,
       e.sha256
FROM intents i JOIN events e ON e.number = (
    SELECT number FROM events WHERE intent = i.number
    ORDER BY state = 'done' DESC, number DESC LIMIT 1)
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
    """What is about to be confirmed. ``facts`` is what may be shown: no whole account number."""

    ref_id: str
    operation: str
    fingerprint: str
    likeness: str
    body: bytes = field(repr=False)
    facts: Mapping[str, str | None]
    batch: str | None = None

    @property
    def is_derived(self) -> bool:
        """Whether the ``ref_id`` was derived with this journal's id, so that nobody else has it."""
        return self.ref_id.endswith(f"-{self.fingerprint[:32]}")

    def asks_the_same_as(self, other: Draft) -> bool:
        """Whether both ask for the same action; else they only share a ``ref_id``."""
        return (self.operation, self.fingerprint) == (other.operation, other.fingerprint)


@dataclass(frozen=True, kw_only=True)
class Intent(Draft):
    """What was confirmed, under its number in the journal, and what became of it.

    ``sent_at`` is when it was last about to be sent; ``recorded_at`` when it was confirmed first.
    """

    number: int
    recorded_at: int
    sent_at: int
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
        about = about_of(path)
        if about is None:
            create(path, self.service)
            about = about_of(path)
        if about is None or about["schema_version"] != str(SCHEMA_VERSION):
            raise StoreError(f"{path} is no journal of schema {SCHEMA_VERSION}: update fundlab")
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
            number = found.number if found is not None else pages.add(draft, sent_at)
            pages.note(number, Outcome("unknown"), sent_at)
            return Intent(
                **vars(draft),
                number=number,
                recorded_at=sent_at if found is None else found.recorded_at,
                sent_at=sent_at,
                outcome=Outcome("unknown", sent_at),
            )

    def note(self, intent: Intent, outcome: Outcome) -> None:
        """Write down what became of ``intent``."""
        with self._writing() as pages:
            pages.note(intent.number, outcome, self._clock())

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
    """The journal within one connection or transaction."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self._path = database, path

    @property
    def id(self) -> str | None:
        """The journal's random id."""
        row = self._database.execute("SELECT value FROM about WHERE name = 'id'").fetchone()
        return row[0] if row else None

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

    def find(self, ref_id: str) -> Intent | None:
        found = self._select("WHERE i.ref_id = ?", ref_id)
        return found[0] if found else None

    def intents(self) -> list[Intent]:
        return self._select("ORDER BY i.number")

    def alike(self, likeness: str, since: int) -> list[Intent]:
        """Intents sent since ``since`` (ns) that ask for the same, metadata aside."""
        return self._select("WHERE i.likeness = ? AND sent_at >= ?", likeness, since)

    def sent_since(self, operation: str, since: int) -> list[Intent]:
        """Intents of ``operation`` sent since ``since`` (ns), again or for the first time."""
        return self._select(
            "WHERE i.operation = ? AND i.number IN "
            "(SELECT intent FROM events WHERE state = 'unknown' AND at >= ?)", operation, since,
        )  # fmt: skip

    def add(self, draft: Draft, at: int) -> int:
        values = (
            draft.ref_id, draft.operation, at, draft.fingerprint, draft.likeness, draft.body,
            json.dumps(dict(draft.facts)), draft.batch,
        )  # fmt: skip
        cursor = self._database.execute(
            "INSERT INTO intents (ref_id, operation, recorded_at, fingerprint, likeness, body, "
            "facts, batch, sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, row_hash(*values)),
        )
        return int(cursor.lastrowid or 0)

    def note(self, number: int, outcome: Outcome, at: int) -> None:
        values = (
            number, at, outcome.state, outcome.resource_id, outcome.status, outcome.fee,
            outcome.total, outcome.detail,
        )  # fmt: skip
        self._database.execute(
            "INSERT INTO events (intent, at, state, resource_id, status, fee, total, detail, "
            "sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, row_hash(*values)),
        )

    def _select(self, where: str, *values: object) -> list[Intent]:
        return [self._intent(row) for row in self._database.execute(_SELECT + where, values)]

    def _intent(self, row: tuple[Any, ...]) -> Intent:
        confirmed, noted = (*row[1:7], *row[8:10]), (row[0], row[11], row[10], *row[12:17])
        if row_hash(*confirmed) != row[7] or row_hash(*noted) != row[18]:
            raise self._damaged(f"intent {row[0]} ({row[1]})")
        body, facts = row[6], json.loads(row[8])
        return Intent(
            number=row[0], ref_id=row[1], operation=row[2], recorded_at=row[3], fingerprint=row[4],
            likeness=row[5], body=body, facts=facts, batch=row[9], sent_at=row[17],
            outcome=Outcome(
                state=row[10], at=row[11], resource_id=row[12], status=row[13], fee=row[14],
                total=row[15], detail=row[16],
            ),
        )  # fmt: skip

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{self._path}: {what} is not what was written: restore the file from a backup, then "
            "run again"
        )


def open_journal(
    client: Client, store: Store | str | Path | None, clock: Callable[[], int] = time.time_ns
) -> Journal:
    """The journal of ``client``'s service in ``store`` (by default the one of its settings).

    Raises ``StoreError`` when the store or its journal belongs to another service or credential.
    """
    place = store if isinstance(store, Store) else Store(store or client.settings.store)
    service = _service_of(client)
    owner = place.service()
    if owner is not None:
        _check_owner(place.folder, owner, service)
    return Journal(_path(place.folder, service), service, clock)


def existing_journal(client: Client, store: Store | str | Path | None) -> Journal | None:
    """The journal that ``open_journal`` finds; none is created, and another's is none."""
    place = store if isinstance(store, Store) else Store(store or client.settings.store)
    if not isinstance(place.path, Path):
        return None  # elsewhere there are no journals
    service = _service_of(client)
    path = _path(place.folder, service)
    about = about_of(path)
    ours = about is not None and service_key(about) == service_key(service)
    return Journal(path, service) if ours else None


def journals_of(store: Store | str | Path) -> list[Journal]:
    """Every journal in ``store``; none is created."""
    folder = (store if isinstance(store, Store) else Store(store)).folder
    paths = journal_files(folder)
    return [Journal(path, about) for path in paths if (about := about_of(path)) is not None]


def journal_files(store: Path) -> list[Path]:
    """The file of every journal in the folder ``store``."""
    try:
        return sorted(path for path in (store / FOLDER).iterdir() if path.suffix == ".sqlite")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise not_seen(store / FOLDER, error) from None


def _service_of(client: Client) -> dict[str, str]:
    return {"base_url": client.base_url, "client_id": client.client_id}


def _path(folder: Path, service: Mapping[str, str]) -> Path:
    name = "service.sqlite"
    if is_loopback(service["base_url"]):
        name = f"loopback-{hashlib.sha256(service_key(service).encode()).hexdigest()[:12]}.sqlite"
    return (folder / FOLDER / name).absolute()


def _check_owner(path: Path, owner: Mapping[str, str], service: Mapping[str, str]) -> None:
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
