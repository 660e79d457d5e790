"""The journal as a table, and the settling of what an interruption left open."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from fundlab.actions.announce import announce
from fundlab.actions.intents import (
    FOLDER,
    Intent,
    existing_journal,
    journal_files,
    journals_in,
    open_journal,
    read_intents,
    store_name,
)
from fundlab.actions.kinds import KINDS, WITHDRAWAL
from fundlab.actions.limits import amount_of
from fundlab.actions.submission import Sender, arguments_of, outcome_of, told_if_not_noted
from fundlab.decimals import DecimalArray
from fundlab.errors import ActionRefused, Conflict, NotFound, ValidationFailed
from fundlab.models import Transfer
from fundlab.settings import journal_folder, store_folder
from fundlab.store import Store

if TYPE_CHECKING:
    from fundlab.api.client import Client

COLUMNS: Final = (
    "number", "confirmed_at", "action", "state", "status", "amount", "asset", "fee", "total",
    "account", "profile_id", "fiat_account_id", "resource_id", "ref_id", "batch", "noted_at",
    "detail", "service", "store",
)  # fmt: skip
_OF_ONE_INTENT: Final = (ActionRefused, NotFound, Conflict, ValidationFailed)
_MONEY: Final = ("amount", "fee", "total")
_TIMES: Final = ("confirmed_at", "noted_at")


def journal(
    store: Store | str | Path | None = None, *, folder: str | Path | None = None
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
    books = journals_in(journal_folder() if folder is None else Path(folder))
    found = [(intent, book.service["base_url"]) for book in books for intent in book.intents()]
    taken_over = {(intent.origin, intent.ref_id) for intent, _ in found}
    place = store if isinstance(store, Store) else Store(store or store_folder())
    name = store_name(place.path)
    if store is not None:
        found = [(intent, service) for intent, service in found if intent.store == name]
    if isinstance(place.path, Path):  # what an earlier version confirmed there
        for path in journal_files(place.path / FOLDER):
            found += [
                (replace(intent, store=name), service)
                for intent, service in read_intents(path)
                if (intent.origin, intent.ref_id) not in taken_over
            ]
    return _frame([_row(intent, service) for intent, service in found])


def resume(
    client: Client | None = None,
    *,
    store: Store | str | Path | None = None,
    now: Callable[[], int] = time.time_ns,
    say: Callable[[str], object] = announce,
) -> pd.DataFrame:
    """Ask the service about every intent whose outcome is unknown, or that was not final yet,
    whatever store it was confirmed with; what an earlier version kept in ``store`` is taken over.

    Pays nothing: what the service does not know becomes ``absent``, and running its cell again
    sends it. Addresses and rules, for which the service has no list, are asked for by repeating
    their request, of which the service carries out one. Returns the rows of ``journal`` that were
    looked at, as they are now; one that cannot be settled is said, and its ``detail`` is why.
    ``client`` is ``fl.connect()`` by default. Raises ``CallError`` as the client does; what was
    settled until then stays settled.

    >>> fl.resume(client)[["action", "state"]].empty
    True
    """
    if client is None:
        from fundlab.api.client import connect

        with connect() as found:
            return resume(found, store=store, now=now, say=say)
    book = open_journal(client, store, now)
    sender = Sender(client, book, now, say)
    looked_at = [intent for intent in book.intents() if _is_open(intent)]
    problems: dict[str, str] = {}
    for intent in looked_at:
        try:
            sender.settle(KINDS[intent.operation], intent)
        except _OF_ONE_INTENT as error:
            problems[intent.ref_id] = str(error)
            say(f"not settled, {KINDS[intent.operation].noun} {intent.ref_id}: {error}")
    rows = []
    for intent in looked_at:
        after = book.find(intent.ref_id) or intent
        row = _row(after, client.base_url)
        rows.append(row | {"detail": problems.get(intent.ref_id, row["detail"])})
    return _frame(rows)


def note_end(client: Client, resource: Any, store: Store | str | Path | None = None) -> None:
    """Write down how ``resource`` stands, if the journal, or an earlier version's in ``store``,
    knows of it."""
    if resource.ref_id is None:
        return
    noun = "withdrawal" if isinstance(resource, Transfer) else "fiat account"
    with told_if_not_noted(f"{noun} {resource.id} ended {resource.status}", "fl.resume() notes it"):
        book = existing_journal(client) if store is None else open_journal(client, store)
        intent = None if book is None else book.find(resource.ref_id)
        if book is not None and intent is not None and intent.outcome.resource_id == resource.id:
            book.note(intent, outcome_of(resource))


def _is_open(intent: Intent) -> bool:
    outcome = intent.outcome
    return outcome.state in ("unknown", "absent") or outcome.status == "PENDING"


def _row(intent: Intent, service: str) -> dict[str, Any]:
    outcome, facts = intent.outcome, intent.facts
    return {
        "number": intent.number, "confirmed_at": intent.recorded_at,
        "action": KINDS[intent.operation].noun, "state": outcome.state, "status": outcome.status,
        "amount": _amount(intent), "asset": facts.get("asset"),
        "fee": outcome.fee, "total": outcome.total,
        "account": facts.get("account"), "profile_id": facts.get("profile_id"),
        "fiat_account_id": facts.get("fiat_account_id"), "resource_id": outcome.resource_id,
        "ref_id": intent.ref_id, "batch": intent.batch, "noted_at": outcome.at,
        "detail": outcome.detail, "service": service, "store": intent.store,
    }  # fmt: skip


def _amount(intent: Intent) -> str | None:
    """What arrives; of a withdrawal by total, whose amount is only expected, once its fee is
    known."""
    if intent.operation == WITHDRAWAL and "total" in arguments_of(intent):
        has_fee = intent.outcome.fee is not None and intent.outcome.total is not None
        return str(amount_of(intent)) if has_fee else None
    return intent.facts.get("amount")


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        values = [row[name] for row in rows]
        if name in _MONEY:
            columns[name] = DecimalArray._from_sequence(values)
        elif name in _TIMES:
            columns[name] = pd.to_datetime(pd.Series(values, dtype="int64"), unit="ns", utc=True)
        elif name == "number":
            columns[name] = pd.array(values, dtype="int64")
        else:
            columns[name] = pd.array(values, dtype="str")
    return pd.DataFrame(columns)
