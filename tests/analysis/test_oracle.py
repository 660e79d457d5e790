"""Other people's bookkeeping programs close every month with the same balances, digit for digit.

hledger (a Debian package) and beancount (on PyPI) read the transfers as a journal each; where one
is not installed, its test is skipped.
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from transfer_examples import DAY, Row, make_rows, records, table

from fundlab.analysis import balances

MONTHS = pd.date_range("2026-02-01", "2026-11-01", freq="MS", tz="UTC")
Closing = dict[tuple[str, str, str], str]


def closings(rows: list[Row]) -> Closing:
    """Month, profile and asset to the balance at its end, as text."""
    frame = table(rows)
    found: Closing = {}
    for month in MONTHS:
        last = month - pd.Timedelta(1, "ns")
        for row in records(balances.at(frame, last)):
            name = (f"{last:%Y-%m}", row["profile_id"], row["asset"])
            found[name] = plain(row["balance"])
    return found


def plain(amount: Decimal) -> str:
    text = f"{amount:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def postings(rows: list[Row]) -> Iterator[tuple[str, str, str, str, str]]:
    """Day, id, account, amount and commodity of every completed transfer."""
    for row in sorted(rows, key=lambda row: row["created_at"]):
        if row["status"] != "COMPLETED":
            continue
        day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=row["created_at"] // DAY)
        sign = "" if row["direction"] == "CREDIT" else "-"
        account = f"Assets:{row['profile_id'].title()}"
        yield (
            f"{day:%Y-%m-%d}", row["id"], account, f"{sign}{row['total']:f}",
            row["balance_asset"] or row["asset"],
        )  # fmt: skip


def hledger_journal(rows: list[Row]) -> str:
    style = "".join(f"commodity 1000.000000000000000000 {name}\n" for name in
                    ("USD", "USDC", "ETH", "BTC"))  # fmt: skip
    return style + "".join(
        f"{day} {name}\n    {account}  {amount} {asset}\n    Equity:World\n\n"
        for day, name, account, amount, asset in postings(rows)
    )


def beancount_journal(rows: list[Row]) -> str:
    accounts = sorted({account for _, _, account, _, _ in postings(rows)})
    opened = "".join(f"2025-01-01 open {name}\n" for name in [*accounts, "Equity:World"])
    return opened + "".join(
        f'{day} * "{name}"\n  {account}  {amount} {asset}\n  Equity:World\n\n'
        for day, name, account, amount, asset in postings(rows)
    )


def by_hledger(rows: list[Row], folder: Path) -> Closing:
    journal = folder / "transfers.journal"
    journal.write_text(hledger_journal(rows))
    command = ["hledger", "-f", str(journal), "balance", "Assets", "--historical", "--monthly",
               "--flat", "--empty", "-O", "csv", "--layout", "bare", "--no-total",
               "--end", "2026-11-01"]  # fmt: skip
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    lines = list(csv.DictReader(io.StringIO(told.stdout)))
    found: Closing = {}
    for line in lines:
        profile = line["account"].removeprefix("Assets:").lower()
        for month in MONTHS:
            name = f"{month - pd.Timedelta(1, 'ns'):%Y-%m}"
            column = next(key for key in line if key.startswith(name))
            found[name, profile, line["commodity"]] = plain(Decimal(line[column]))
    return found


def by_beancount(rows: list[Row], folder: Path) -> Closing:
    from beancount import loader
    from beancount.core import realization

    journal = folder / "transfers.beancount"
    journal.write_text(beancount_journal(rows))
    entries, errors, _ = loader.load_file(str(journal))
    assert errors == []
    found: Closing = {}
    for month in MONTHS:
        name = f"{month - pd.Timedelta(1, 'ns'):%Y-%m}"
        until = [entry for entry in entries if entry.date < month.date()]
        for account in realization.iter_children(realization.realize(until), leaf_only=True):
            if account.account.startswith("Assets:"):
                profile = account.account.removeprefix("Assets:").lower()
                for position in account.balance:
                    units = position.units
                    found[name, profile, units.currency] = plain(units.number)
    return found


def agree(rows: list[Row], theirs: Closing) -> int:
    """Every balance of ours is theirs; theirs has no other that is not zero."""
    ours = closings(rows)
    assert {name: theirs.get(name, "0") for name in ours} == ours
    assert {name for name, amount in theirs.items() if amount != "0"} <= set(ours)
    return len(ours)


hledger_there = pytest.mark.skipif(
    shutil.which("hledger") is None, reason="hledger is not installed (apt-get install hledger)"
)


@hledger_there
def test_hledger_agrees(tmp_path: Path) -> None:
    rows = make_rows(1_000, profiles=10)
    assert agree(rows, by_hledger(rows, tmp_path)) > 200


def test_beancount_agrees(tmp_path: Path) -> None:
    pytest.importorskip("beancount", reason="beancount is not installed")
    rows = make_rows(1_000, profiles=10)
    assert agree(rows, by_beancount(rows, tmp_path)) > 200


@pytest.mark.slow
@hledger_there
def test_hledger_agrees_on_twenty_thousand(tmp_path: Path) -> None:
    rows = make_rows(20_000)
    assert agree(rows, by_hledger(rows, tmp_path)) > 2_000


@pytest.mark.slow
def test_beancount_agrees_on_twenty_thousand(tmp_path: Path) -> None:
    pytest.importorskip("beancount", reason="beancount is not installed")
    rows = make_rows(20_000)
    assert agree(rows, by_beancount(rows, tmp_path)) > 2_000
