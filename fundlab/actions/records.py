"""The journal as a table, and the settling of what an interruption left open."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from fundlab.actions.announce import announce
from fundlab.actions.intents import Intent, existing_journal, journals_of, open_journal
from fundlab.actions.kinds import KINDS
from fundlab.actions.submission import Sender, outcome_of, told_if_not_noted
from fundlab.decimals import DecimalArray
from fundlab.errors import ActionRefused, Conflict, NotFound, ValidationFailed
from fundlab.models import Transfer
from fundlab.settings import store_folder
from fundlab.store import Store

if TYPE_CHECKING:
    from fundlab.api.client import Client

COLUMNS: Final = (
    "number", "confirmed_at", "action", "state", "status", "amount", "asset", "fee", "total",
    "account", "profile_id", "fiat_account_id", "resource_id", "ref_id", "batch", "noted_at",
    "detail", "service",
)  # fmt: skip
_OF_ONE_INTENT: Final = (ActionRefused, NotFound, Conflict, ValidationFailed)
_MONEY: Final = ("amount", "fee", "total")
_TIMES: Final = ("confirmed_at", "noted_at")


def journal(store: Store | str | Path | None = None) -> pd.DataFrame:
    """Everything ever confirmed in ``store`` (by default the one the settings name), oldest first.

    One row for each intent: ``number``, ``confirmed_at``, ``action``, ``state`` (``done``,
    ``unknown``, ``refused`` or ``absent``), the ``status`` last seen, ``amount``, ``asset``,
    ``fee``, ``total`` (type ``decimal``), the ``account`` (masked), ids, ``ref_id``, ``batch``,
    ``noted_at``, ``detail`` and the ``service``. Empty where nothing was ever confirmed.

    >>> plan = fl.plan_deposit(client, profile_id=sandbox.profile_ids[0], say=lambda line: None)
    >>> instructions = plan.submit(confirm=plan.code)
    >>> fl.journal(client.settings.store)[["action", "state", "status"]]
                     action state status
    0  deposit instructions  done  VALID
    """
    folder = store_folder() if store is None else store
    rows = [
        _row(intent, found.service["base_url"])
        for found in journals_of(folder)
        for intent in found.intents()
    ]
    return _frame(rows)


def resume(
    client: Client | None = None,
    *,
    store: Store | str | Path | None = None,
    now: Callable[[], int] = time.time_ns,
    say: Callable[[str], object] = announce,
) -> pd.DataFrame:
    """Ask the service about every intent whose outcome is unknown, or that was not final yet.

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


def note_end(client: Client, store: Store | str | Path | None, resource: Any) -> None:
    """Write down how ``resource`` stands, in the journal that knows of it, if one does."""
    if resource.ref_id is None:
        return
    noun = "withdrawal" if isinstance(resource, Transfer) else "fiat account"
    with told_if_not_noted(f"{noun} {resource.id} ended {resource.status}", "fl.resume() notes it"):
        book = existing_journal(client, store)
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
        "amount": facts.get("amount"), "asset": facts.get("asset"),
        "fee": outcome.fee, "total": outcome.total,
        "account": facts.get("account"), "profile_id": facts.get("profile_id"),
        "fiat_account_id": facts.get("fiat_account_id"), "resource_id": outcome.resource_id,
        "ref_id": intent.ref_id, "batch": intent.batch, "noted_at": outcome.at,
        "detail": outcome.detail, "service": service,
    }  # fmt: skip


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
