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

``kinds`` has the tables, ``drafting`` draws a history as columns, ``playing`` goes through it in
time order so that nobody is overdrawn, ``rows`` and ``postings`` render it for the database, and
``seeding`` writes it there.
"""

from fundlab.sandbox.history.kinds import HISTORY_END_NS, HISTORY_START_NS
from fundlab.sandbox.history.seeding import seed_history

__all__ = ["HISTORY_END_NS", "HISTORY_START_NS", "seed_history"]
