"""The seeded history: a year of transfers that ends on a fixed day and adds up.

The same seed gives the same ids, amounts and times on any day. Every transfer posts to the ledger,
so that the sum of the transfers is the balance; there is no opening balance. Debits are checked
against what was there when they were made: one that exceeds it is made smaller or becomes a
deposit, so that no balance is ever below zero.

========================  =====  =====================  ============  =========================
type                      share  assets                 median USD    fee
========================  =====  =====================  ============  =========================
CRYPTO_DEPOSIT            20 %   stablecoins, crypto    4 000         0
CRYPTO_WITHDRAWAL         16 %   stablecoins, crypto    2 500         schedule by network
WIRE_DEPOSIT              14 %   USD                    25 000        0; 15.00 for one in ten
WIRE_WITHDRAWAL           11 %   USD                    15 000        25.00 ABA, 40.00 SWIFT
INTERNAL_TRANSFER_*       10 %   any                    5 000         0
PAXOS_TRANSFER_CREDIT      4 %   any                    6 000         0
PAXOS_TRANSFER_DEBIT       4 %   any                    5 000         0
CUBIX_DEPOSIT              4 %   USD                    12 000        0
CUBIX_WITHDRAWAL           3 %   USD                    9 000         0
BANK_DEPOSIT               4 %   USD                    1 800         0
BANK_WITHDRAWAL            3 %   USD                    1 500         0.50
RTP_DEPOSIT                3 %   USD                    900           0
SEN_, SIGNET_, CBIT_*      4 %   USD                    30 000        0
========================  =====  =====================  ============  =========================

Amounts are lognormal with a heavy tail. Weekends carry a fifth of a weekday, the last three days of
a month twice a day, the year's end half as much again as its start. Of the rest: 2.5 % ``FAILED``;
``PENDING`` what had not settled when the history ends; 6 % of wire and stablecoin deposits are
converted into another stablecoin; 15 % belong to end users; 1 % share their time with the transfer
before them.

``proportions`` has the tables, ``drafting`` draws a history as columns, ``playing`` goes through it
in time order so that nobody is overdrawn, ``rendering`` and ``postings`` make rows of it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fundlab.sandbox.clock import HISTORY_END_NS, HISTORY_START_NS
from fundlab.sandbox.database import Database
from fundlab.sandbox.history.drafting import draw_history
from fundlab.sandbox.history.playing import play_history
from fundlab.sandbox.history.postings import Postings
from fundlab.sandbox.history.rendering import (
    History,
    TransferRows,
    due_rows,
    event_rows,
    timeline,
    uuid_texts,
)
from fundlab.sandbox.seed_customers import People, seed_places

__all__ = ["HISTORY_END_NS", "HISTORY_START_NS", "seed_history"]

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
