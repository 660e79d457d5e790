"""Write a seeded history into a new database, in bulk."""

from __future__ import annotations

from typing import Final

import numpy as np

from fundlab.sandbox.database import Database
from fundlab.sandbox.history.drafting import draw_history
from fundlab.sandbox.history.kinds import HISTORY_END_NS, HISTORY_START_NS
from fundlab.sandbox.history.playing import play_history
from fundlab.sandbox.history.postings import Postings
from fundlab.sandbox.history.rows import (
    History,
    TransferRows,
    due_rows,
    event_rows,
    timeline,
    uuid_texts,
)
from fundlab.sandbox.people import People, seed_places

MAX_PLACES: Final = 300
TRANSFERS_PER_PLACE: Final = 200

_INSERT_TRANSFER = (
    "INSERT INTO transfers (id, customer_id, created_at_ns, updated_at_ns, profile_id, "
    "identity_id, account_id, ref_id, group_id, crypto_tx_hash, type, status, secondary, body) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_EVENT = (
    "INSERT INTO events (id, customer_id, created_at_ns, type, is_test, body) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
_INSERT_ENTRY = "INSERT INTO ledger_entries (transfer_id, account, amount) VALUES (?, ?, ?)"
_INSERT_ACCOUNT = "INSERT INTO ledger_accounts (seq, owner, asset, balance) VALUES (?, ?, ?, ?)"
_INSERT_DUE = "INSERT INTO due (at_ns, kind, subject) VALUES (?, ?, ?)"


def seed_history(
    database: Database, people: People, transfers: int, *, pending_from_ns: int
) -> None:
    """Write the history of ``transfers`` transfers in the caller's transaction.

    Half of the ``PENDING`` ones finish within two days of ``pending_from_ns``; the others wait for
    a review that never comes.
    """
    places = min(MAX_PLACES, transfers // TRANSFERS_PER_PLACE)
    seed_places(database, people, HISTORY_START_NS, HISTORY_END_NS, places)
    rng = np.random.default_rng(people.seed)
    draft = draw_history(rng, people, transfers)
    balances = play_history(rng, draft, len(people.profile_ids))
    id_rng = np.random.default_rng([people.seed, 1])
    history = History(people, draft, uuid_texts(id_rng, transfers))
    when = timeline(history)
    postings = Postings(draft, people.profile_ids)
    database.run_many(_INSERT_TRANSFER, TransferRows(history))
    database.run_many(_INSERT_EVENT, event_rows(history, when, id_rng))
    database.run_many(_INSERT_ENTRY, postings.entries(history.ids))
    database.run_many(_INSERT_ACCOUNT, postings.accounts(balances))
    database.run_many(_INSERT_DUE, due_rows(history, pending_from_ns))
    last_ns = max(max(draft.created_ns, default=0), max(draft.updated_ns, default=0))
    database.set_meta("last_stamp_ns", str(last_ns))
    database.set_meta("last_event_ns", str(when.last_ns))
