"""The journals of a user: whose each is, what they hold, copies, and whether they are intact."""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fundlab.base.errors import StoreError
from fundlab.evidence.table_store import TableStore
from fundlab.payments.identity import NOUNS, WITHDRAWAL, Entry
from fundlab.payments.journal import Journal, check_owner, identity_of, not_seen, row_hash
from fundlab.settings.settings import journal_folder, store_folder
from fundlab.store.disk import make_folder, sync_folder

if TYPE_CHECKING:
    import pandas as pd

    from fundlab.client.client import Client

FOLDER: Final = "journal"
"""Where earlier versions kept it in a store."""
COLUMNS: Final = (
    "number", "confirmed_at", "action", "state", "status", "amount", "asset", "fee", "total",
    "account", "profile_id", "fiat_account_id", "resource_id", "ref_id", "batch", "noted_at",
    "detail", "service", "store",
)  # fmt: skip


def journal_files(folder: Path) -> list[Path]:
    """The file of every journal in ``folder``."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".sqlite")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise not_seen(folder, error) from None


def open_journal(
    client: Client, store: TableStore, clock: Callable[[], int] = time.time_ns
) -> Journal:
    """The journal of ``client``'s service, made if need be, with what one in ``store`` holds.

    Raises ``StoreError`` when the store or its journal belongs to another service or credential.
    """
    path, service = place_of(client)
    owner = store.service()
    if owner is not None:
        check_owner(store.path, owner, service)
    book = Journal(path, service, clock)
    if isinstance(store.path, Path):
        _, name = identity_of(service)
        on_loopback = client.settings.on_loopback
        old = store.path / FOLDER / f"{name if on_loopback else 'service'}.sqlite"
        with suppress(FileNotFoundError):
            other = Journal(old)
            check_owner(old, other.service, service)
            book.take_over(other)
    return book


def existing_journal(client: Client) -> Journal | None:
    """The journal of ``client``'s service, if there is one: none is created."""
    path, service = place_of(client)
    try:
        Journal(path)
    except FileNotFoundError:
        return None
    return Journal(path, service)


def place_of(client: Client) -> tuple[Path, dict[str, str]]:
    """The file of ``client``'s journal, and what tells its service and credential from others."""
    service = {"base_url": client.base_url, "client_id": client.client_id}
    _, name = identity_of(service)
    instance = client.transport.instance() if client.settings.on_loopback else None
    if instance is not None:
        service["instance"] = instance
        name += f"-{instance[:12]}"
    return client.settings.journal / f"{name}.sqlite", service


def journal(
    store: TableStore | str | Path | None = None, *, folder: str | Path | None = None
) -> pd.DataFrame:
    """Everything that this user ever confirmed; with ``store``, what was confirmed with it.

    ``folder`` is where the journals are, by default where the settings say: one for each service
    and credential, its rows the oldest first. One row for each intent: ``number``,
    ``confirmed_at``, ``action``, ``state`` (``done``, ``unknown``, ``refused`` or ``absent``), the
    ``status`` last seen, ``amount``, ``asset``, ``fee``, ``total`` (type ``decimal``), the
    ``account`` (masked), ids, ``ref_id``, ``batch``, ``noted_at``, ``detail``, the ``service`` and
    the ``store``. Empty where nothing was ever confirmed.

    >>> plan = fl.plan_deposit(client, profile_id=sandbox.profile_ids[0], say=lambda line: None)
    >>> instructions = plan.submit(confirm=plan.code)
    >>> fl.journal(client.settings.store)[["action", "state", "status"]]
                     action state status
    0  deposit instructions  done  VALID
    """
    files = journal_files(journal_folder() if folder is None else Path(folder))
    books = [Journal(path) for path in files]
    found = [(entry, book.service["base_url"]) for book in books for entry in book.entries()]
    taken_over = {(entry.origin, entry.ref_id) for entry, _ in found}
    place = store if isinstance(store, TableStore) else TableStore(store or store_folder())
    name = place.name
    if store is not None:
        found = [(entry, service) for entry, service in found if entry.store == name]
    if isinstance(place.path, Path):  # what an earlier version confirmed there
        for path in journal_files(place.path / FOLDER):
            book = Journal(path)
            found += [
                (replace(entry, store=name), book.service["base_url"])
                for entry in book.entries()
                if (entry.origin, entry.ref_id) not in taken_over
            ]
    return journal_frame(found)


def journal_frame(entries: Sequence[tuple[Entry, str]]) -> pd.DataFrame:
    """The rows of ``journal``: of each entry with the ``base_url`` of its service."""
    import pandas as pd

    from fundlab.decimals import DecimalArray

    rows = []
    for entry, service in entries:
        facts, amount = entry.facts, entry.facts.get("amount")
        if entry.operation == WITHDRAWAL and "total" in entry.arguments:
            # the amount was only expected, until the fee is known
            known = entry.fee is not None and entry.total is not None
            amount = str(entry.amount) if known else None
        rows.append({
            "number": entry.number, "confirmed_at": entry.recorded_at,
            "action": NOUNS[entry.operation], "state": entry.state, "status": entry.status,
            "amount": amount, "asset": facts.get("asset"), "fee": entry.fee, "total": entry.total,
            "account": facts.get("account"), "profile_id": facts.get("profile_id"),
            "fiat_account_id": facts.get("fiat_account_id"), "resource_id": entry.resource_id,
            "ref_id": entry.ref_id, "batch": entry.batch, "noted_at": entry.noted_at,
            "detail": entry.detail, "service": service, "store": entry.store,
        })  # fmt: skip
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        values = [row[name] for row in rows]
        if name in ("amount", "fee", "total"):
            columns[name] = DecimalArray._from_sequence(values)
        elif name in ("confirmed_at", "noted_at"):
            columns[name] = pd.to_datetime(pd.Series(values, dtype="int64"), unit="ns", utc=True)
        else:
            columns[name] = pd.Series(values, dtype="int64" if name == "number" else "str")
    return pd.DataFrame(columns)


def journals_of(store: TableStore) -> list[Path]:
    """The file of each journal with payments of ``store``'s service: those that earlier versions
    kept in the store, and the user's own."""
    paths = journal_files(store.path / FOLDER) if isinstance(store.path, Path) else []
    try:
        service = store.service()
    except StoreError:
        service = None  # a damaged store does not say whose it is; verify names that
    if service:  # what benchmarks and other tools write may name none
        _, begin = identity_of(service)
        paths += [path for path in journal_files(journal_folder()) if path.name.startswith(begin)]
    return paths


def copy_journal(path: Path, target: Path) -> None:
    """A consistent copy of a journal that may be in use."""
    with Journal(path).opened() as (_, database), closing(sqlite3.connect(target)) as copied:
        database.backup(copied)


def put_back(copied: Path, at: str) -> str:
    """Put a restored journal where this user's are, unless one of its name is there; what was
    done, in words. It refuses to pay until ``fl.resume`` has asked about what came after ``at``."""
    target = journal_folder() / copied.name
    if target.exists():
        return f"journal {copied.name}: one is here already and stays; the backup keeps its own"
    Journal(copied).mark_restored(at)
    make_folder(target.parent)
    hidden = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    with hidden.open("wb") as file:
        file.write(copied.read_bytes())
        file.flush()
        os.fsync(file.fileno())
    hidden.chmod(0o600)
    os.link(hidden, target)
    hidden.unlink()
    sync_folder(target.parent)
    return f"journal {copied.name}: restored; it pays nothing before fl.resume() has run"


def journal_lanes(store: TableStore) -> dict[str, list[str]]:
    """What an anchor stands for of the journals of ``store``'s service: a hash of each row.

    Raises ``StoreDamaged`` for a row that is not what was written."""
    lanes = {}
    for path in journals_of(store):
        with Journal(path).opened() as (book, _):
            for table in ("intents", "events"):
                lanes[f"journal-{book.id[:12]}-{table}"] = [
                    row_hash(*row.values()) for row in book._rows(table)
                ]
    return lanes


def unlinked_journals(store: TableStore) -> list[str]:
    """Of those of ``journals_of`` that an earlier version began, from where on each row carries the
    hash of the one before it, in words."""
    lines = []
    for path in journals_of(store):
        with suppress(StoreError), Journal(path).opened() as (book, _):  # damage is named elsewhere
            if book._unlinked is None:
                lines.append(
                    f"The journal {path.name} is not linked yet: its next row begins that."
                )
            elif first := max(book._unlinked.values()):
                lines.append(
                    f"The rows of the journal {path.name} are linked from row {first + 1} on: "
                    "an earlier version wrote those before."
                )
    return lines


def damaged_journals(store: TableStore) -> Iterator[tuple[Path, str]]:
    """Each of ``journals_of`` that is not intact, and why."""
    for path in journals_of(store):
        try:
            book = Journal(path)
            with book.opened(counted=False) as (_, database):
                (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
                loose = database.execute("PRAGMA foreign_key_check").fetchone()
                bare = database.execute(
                    "SELECT MIN(number) FROM intents "
                    "WHERE number NOT IN (SELECT intent FROM events)"
                ).fetchone()
            if found != "ok":
                yield path, str(found)
            elif loose is not None:
                yield path, f"row {loose[1]} of {loose[0]} belongs to no intent"
            elif bare[0] is not None:
                yield path, f"nothing is noted of intent {bare[0]}"
            else:
                book.entries()  # checks each against its hash
                book._rows("events")  # and what was noted of it before
        except StoreError as error:
            yield path, str(error)
