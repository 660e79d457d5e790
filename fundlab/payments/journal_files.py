"""The journals of a user: whose each is, what they hold, copies, and whether they are intact."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fundlab.base.errors import StoreDamaged, StoreError
from fundlab.base.values import check_unicode
from fundlab.evidence.table_store import TableStore
from fundlab.payments.identity import NOUNS, WITHDRAWAL, Entry
from fundlab.payments.journal import Journal, identity_of, not_seen, row_hash
from fundlab.payments.reconciliation import reconcile, reconciled
from fundlab.settings.settings import journal_folder, store_folder
from fundlab.store.disk import make_folder, sync_folder

if TYPE_CHECKING:
    import pandas as pd


COLUMNS: Final = (
    "number", "confirmed_at", "action", "state", "status", "amount", "asset", "fee", "total",
    "account", "profile_id", "fiat_account_id", "resource_id", "ref_id", "batch", "noted_at",
    "detail", "service", "store", "difference", "asked_by", "approved_by",
)  # fmt: skip


def journal_files(folder: Path) -> list[Path]:
    """The file of every journal in ``folder``."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".sqlite")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise not_seen(folder, error) from None


def journal(
    store: TableStore | str | Path | None = None, *, folder: str | Path | None = None
) -> pd.DataFrame:
    """Everything that this user ever confirmed; with ``store``, what was confirmed with it.

    ``folder`` is where the journals are, by default where the settings say: one for each service
    and credential, its rows the oldest first. One row for each intent: ``number``,
    ``confirmed_at``, ``action``, ``state`` (``done``, ``unknown``, ``refused`` or ``absent``), the
    ``status`` last seen (of one that was pending then, by ``store``), ``amount``, ``asset``,
    ``fee``, ``total`` (type ``decimal``), the ``account`` (masked), ids, ``ref_id``, ``batch``,
    ``noted_at``, ``detail``, the ``service`` and the ``store``; and the ``difference`` of a payment
    from its card or from what ``store`` (by default that of the settings) has of it; ``asked_by``
    and ``approved_by``, where others approved it. Empty where nothing was ever confirmed. Raises
    ``StoreError`` where nothing was with ``store``, and no store is there.

    >>> plan = fl.plan_deposit(client, profile_id=sandbox.profile_ids[0], say=lambda line: None)
    >>> instructions = plan.submit(confirm=plan.code)
    >>> fl.journal(client.settings.store)[["action", "state", "status"]]
                     action state status
    0  deposit instructions  done  VALID
    """
    check_unicode(str(folder), f"folder={str(folder)!r}")
    files = journal_files(journal_folder() if folder is None else Path(folder))
    books = [Journal(path) for path in files]
    entries = [(entry, book.service["base_url"]) for book in books for entry in book.entries()]
    place = store if isinstance(store, TableStore) else TableStore(store or store_folder())
    if store is not None:
        entries = [(entry, service) for entry, service in entries if entry.store == place.name]
        if not entries:
            place.check_there()  # of a mistyped path it is not known that nothing was paid
    try:
        owner = identity_of(place.service() or {"base_url": "", "client_id": ""})
        own = (book.entries() for book in books if identity_of(book.service) == owner)
        against = reconciled(place, [*chain.from_iterable(own)], only_own=False)
    except StoreError:  # the journal is shown without a store that cannot be read, too
        against = reconcile([entry for entry, _ in entries], None, complete_until=0)
    rows = journal_frame(entries, against.by_ref_id())
    shown = rows["resource_id"].map(against.statuses).astype(rows["status"].dtype)
    rows["status"] = rows["status"].mask(shown.notna() & (rows["status"] == "PENDING"), shown)
    return rows


def journal_entries(store: TableStore) -> list[Entry]:
    """Every entry of this user's journals for the service of ``store``, of those that are intact:
    ``verify`` and ``status`` name the others."""
    entries: list[Entry] = []
    for path in journals_of(store):
        with suppress(StoreDamaged):
            entries += Journal(path).entries()
    return entries


def journal_frame(
    entries: Sequence[tuple[Entry, str]], differences: Mapping[str, str] = MappingProxyType({})
) -> pd.DataFrame:
    """The rows of ``journal``: of each entry with the ``base_url`` of its service, and in what it
    differs, by its ``ref_id``."""
    import pandas as pd

    from fundlab.decimals import DecimalArray

    rows = []
    for entry, service in entries:
        amount = entry.facts.get("amount")
        if entry.operation == WITHDRAWAL and "total" in entry.arguments:
            # the amount was only expected, until the fee is known
            known = entry.fee is not None and entry.total is not None
            amount = str(entry.amount) if known else None
        rows.append({
            **entry.facts, **vars(entry), "confirmed_at": entry.recorded_at, "amount": amount,
            "action": NOUNS[entry.operation], "service": service,
            "difference": differences.get(entry.ref_id),
        })  # fmt: skip
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        values = [row.get(name) for row in rows]
        if name in ("amount", "fee", "total"):
            columns[name] = DecimalArray._from_sequence(values)
        elif name in ("confirmed_at", "noted_at"):
            columns[name] = pd.to_datetime(pd.Series(values, dtype="int64"), unit="ns", utc=True)
        else:
            columns[name] = pd.Series(values, dtype="int64" if name == "number" else "str")
    return pd.DataFrame(columns)


def journals_of(store: TableStore, *, unless_known: bool = False) -> list[Path]:
    """The file of each journal of this user with payments of ``store``'s service; where it names
    none, of all that there are ``unless_known``, else of none."""
    try:
        service = store.service()
    except StoreError:
        service = None  # a damaged store does not say whose it is; verify names that
    if not service:  # what benchmarks and other tools write may name none
        return journal_files(journal_folder()) if unless_known else []
    _, begin = identity_of(service)
    return [path for path in journal_files(journal_folder()) if path.name.startswith(begin)]


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
    book = Journal(copied)
    book.mark_restored(book.restored_from() or at)  # it lacks more if it had come back itself
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


def damaged_journals(store: TableStore) -> Iterator[tuple[Path, str]]:
    """Each of ``journals_of`` that is not intact, and why."""
    for path in journals_of(store):
        try:
            book = Journal(path)
            with book.opened(counted=False) as (_, database):
                (verdict,) = database.execute("PRAGMA integrity_check(1)").fetchone()
                loose = database.execute("PRAGMA foreign_key_check").fetchone()
                bare = database.execute(
                    "SELECT MIN(number) FROM intents "
                    "WHERE number NOT IN (SELECT intent FROM events)"
                ).fetchone()
            if verdict != "ok":
                yield path, str(verdict)
            elif loose is not None:
                yield path, f"row {loose[1]} of {loose[0]} belongs to no intent"
            elif bare[0] is not None:
                yield path, f"nothing is noted of intent {bare[0]}"
            else:
                book.entries()  # checks each against its hash
                book._rows("events")  # and what was noted of it before
        except StoreError as error:
            yield path, str(error)
