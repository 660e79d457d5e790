"""Months of transfers, and what a bank that makes mistakes says of them."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

from fundlab import bank
from fundlab.sandbox.bank_book import FAULTS, book, statement_file

D = Decimal
COLUMNS = ("opening", "receipts", "disbursements", "closing")


def made_books(rng: random.Random, months: int) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    rows, names = [], ("", "", "Acme Ltd", "Globex")
    for n in range(rng.randint(5, 14) * months):
        day = date(2026, 1, 1) + timedelta(days=rng.randrange(30 * months))
        credit = rng.random() < 0.6
        rows.append(
            {"id": f"{rng.randrange(16**8):08x}-{n:04}", "settled_on": day,
             "direction": "CREDIT" if credit else "DEBIT",
             "amount": str(D(rng.randint(500, 9**7)) / 100),
             "counterparty": rng.choice(names), "ref_id": None, "memo": None}
        )  # fmt: skip
    rows.sort(key=lambda row: (row["settled_on"], row["id"]))
    settled = pd.to_datetime([row["settled_on"] for row in rows], utc=True) + pd.Timedelta("9h")
    amounts = pd.array([D(row["amount"]) for row in rows], dtype="decimal")
    types = {"CREDIT": "WIRE_DEPOSIT", "DEBIT": "WIRE_WITHDRAWAL"}
    frame = pd.DataFrame(
        {"id": [row["id"] for row in rows], "asset": "USD", "status": "COMPLETED",
         "direction": [row["direction"] for row in rows],
         "type": [types[row["direction"]] for row in rows], "amount": amounts,
         "created_at": settled, "updated_at": settled,
         "counterparty": [row["counterparty"] or None for row in rows]}
    )  # fmt: skip
    return rows, frame


def made_month(path: Path, rng: random.Random) -> tuple[pd.DataFrame, bank.Statements]:
    """January's transfers, and what a bank that makes mistakes says of them."""
    rows, transfers = made_books(rng, 1)
    lines = book(
        rows, side="service", seed=rng.randrange(99), batch=0.4, late_days=4, netted_fee=D(15),
        references=0.5, errors={fault: rng.choice((0, 1)) for fault in FAULTS},
    )  # fmt: skip
    text, _ = statement_file(
        lines, "2026-01", "camt.053", asset="USD", account="1", opening=D(5000), daily=False,
        page_lines=None,
    )  # fmt: skip
    file = path / "january.xml"
    file.write_text(text)
    return transfers, bank.read(file)
