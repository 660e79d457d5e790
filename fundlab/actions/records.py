"""The journal as a table, and the settling of what an interruption left open."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from fundlab.actions.announce import announce
from fundlab.actions.intents import Intent, journals_of, open_journal
from fundlab.actions.kinds import KINDS
from fundlab.actions.submission import Sender
from fundlab.decimals import DecimalArray
from fundlab.settings import store_folder
from fundlab.store import Store

if TYPE_CHECKING:
    from fundlab.api.client import Client

COLUMNS: Final = (
    "number", "confirmed_at", "action", "state", "status", "amount", "asset", "fee", "total",
    "account", "profile_id", "fiat_account_id", "resource_id", "ref_id", "batch", "noted_at",
    "detail", "service",
)  # fmt: skip
_MONEY: Final = ("amount", "fee", "total")
_TIMES: Final = ("confirmed_at", "noted_at")


def journal(store: Store | str | Path | None = None) -> pd.DataFrame:
    """Everything ever confirmed in ``store`` (by default the one the settings name), oldest first.

    One row for each intent: ``number``, ``confirmed_at``, ``action``, ``state`` (``done``,
    ``unknown``, ``refused`` or ``absent``), the ``status`` last seen, ``amount``, ``asset``,
    ``fee``, ``total`` (type ``decimal``), the ``account`` (masked), ids, ``ref_id``, ``batch``,
    ``noted_at``, ``detail`` and the ``service``. Empty where nothing was ever confirmed.
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
    looked at, as they are now. ``client`` is ``fl.connect()`` by default. Raises ``CallError`` as
    the client does; what was settled until then stays settled.
    """
    if client is None:
        from fundlab.api.client import connect

        with connect() as found:
            return resume(found, store=store, now=now, say=say)
    book = open_journal(client, store, now)
    sender = Sender(client, book, now, say)
    looked_at = [intent for intent in book.intents() if _is_open(intent)]
    for intent in looked_at:
        sender.settle(KINDS[intent.operation], intent)
    after = [book.find(intent.ref_id) for intent in looked_at]
    return _frame([_row(intent, client.base_url) for intent in after if intent is not None])


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
