"""Books that other programs accept: Beancount and hledger judge what is written here."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import closed_months as months
import pandas as pd
import pytest
from beancount import loader
from beancount.core.data import Transaction

import fundlab as fl
from fundlab.reports.books import write_books

needs_hledger = pytest.mark.skipif(
    shutil.which("hledger") is None, reason="hledger is a program of the system: not installed"
)


def judged(path: Path) -> dict[tuple[str, str], Decimal]:
    """The balances that Beancount computes of ``path``, which it must find nothing wrong with."""
    entries, errors, _ = loader.load_file(str(path))
    assert not errors, errors[:3]
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for entry in entries:
        if isinstance(entry, Transaction):
            for posting in entry.postings:
                sums[posting.account, posting.units.currency] += posting.units.number
    return {key: amount for key, amount in sums.items() if amount}


def funds(sums: dict[tuple[str, str], Decimal]) -> dict[tuple[str, str], Decimal]:
    return {key: amount for key, amount in sums.items() if key[0].startswith("Assets:Funding:")}


def balances(store: fl.Store, when: pd.Timestamp) -> dict[tuple[str, str], Decimal]:
    rows = fl.balances.at(store.read("transfers", settled=True), when, basis="settled")
    return {
        (f"Assets:Funding:Profile-{row.profile_id}", row.asset): row.balance
        for row in rows.itertuples()
        if row.balance
    }


@pytest.mark.parametrize("period", ["2026-10", "2025-11", "2026"])
def test_beancount_accepts_the_books_of_the_sample_and_their_40_assertions(
    tmp_path: Path, period: str
) -> None:
    store, path = fl.sample(), tmp_path / "books.beancount"
    books = write_books(store, period, path, "beancount")
    assert len(books.assertions) == 40
    end = pd.Timestamp(books.last, tz="UTC") + pd.Timedelta(days=1, nanoseconds=-1)
    assert funds(judged(path)) == balances(store, end)
    # The judge is awake: a cent more in one posting is refused, and one in two by an assertion.
    text = path.read_text(encoding="utf-8")
    line = next(one for one in text.splitlines() if one.startswith("  Assets") and " USD" in one)
    for changed in (
        f"{line}0 USD",
        f"{line}\n  {line.split()[0]}  0.01 USD\n  Equity:Conversions  -0.01 USD",
    ):
        other = changed if "\n" in changed else line.replace(line.split()[1], line.split()[1] + "9")
        path.write_text(text.replace(line, other, 1), encoding="utf-8")
        assert loader.load_file(str(path))[1]


@needs_hledger
def test_hledger_accepts_them_too(tmp_path: Path) -> None:
    path = tmp_path / "books.journal"
    write_books(fl.sample(), "2026-10", path, "hledger")
    done = subprocess.run(["hledger", "-f", str(path), "check"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(" = ", " = 1", 1), encoding="utf-8")
    assert subprocess.run(
        ["hledger", "-f", str(path), "check"], capture_output=True, check=False
    ).returncode


def change(month: months.Month, at: int) -> None:
    """The service changes its mind about two rows, and says when."""
    before = {row["id"]: dict(row) for row in month.service.transfers}
    turns = [months.late, months.settles, months.amended, months.fails_after_all]
    for turn in month.random.sample(turns, 2):
        turn(month)
    for row in month.service.transfers:
        if row["id"] in before and row != before[row["id"]]:
            row["updated_at"] = months.text(at)


@pytest.mark.parametrize(
    ("last", "seed"),
    [
        pytest.param("2026-05", 1, marks=pytest.mark.thorough),
        pytest.param("2027-02", 1, marks=pytest.mark.campaign),
        pytest.param("2027-02", 2, marks=pytest.mark.campaign),
    ],
)
def test_closed_months_are_one_ledger_and_no_book_ever_changes(
    tmp_path: Path, last: str, seed: int
) -> None:
    month = months.made(tmp_path / "store", seed)
    store, written, ledger = month.store, {}, tmp_path / "books" / "all.beancount"
    corrections = 0
    for period in pd.period_range("2026-03", last, freq="M"):
        end = period.end_time.tz_localize("UTC").value
        for _ in range(4):
            created = end - month.random.randrange(1, 25) * months.DAY
            done = month.random.random() < 0.7
            month.add(created, "COMPLETED" if done else "PENDING", created + months.DAY // 24)
        change(month, end + months.DAY)
        month.sync(end + 2 * months.DAY)
        for moved in store.restatements()["period"].unique() if written else ():
            store.close(moved, by="Ana", restate="it moved", with_breaks="dates before creation")
        store.close(str(period), by="Ana", with_breaks="dates before creation")
        path = ledger.with_name(f"{period}.beancount")
        books = write_books(store, str(period), path, "beancount")
        first = books.entries.column("date").to_pylist().count(books.first)
        corrections += first if written else 0
        written[path.name] = path.read_bytes()
    assert corrections
    ledger.write_text("".join(f'include "{name}"\n' for name in written), encoding="utf-8")
    assert funds(judged(ledger)) == balances(store, period.end_time.tz_localize("UTC"))
    for name, content in [*written.items()][::3]:
        write_books(store, name.removesuffix(".beancount"), tmp_path / name, "beancount")
        assert (tmp_path / name).read_bytes() == content, name
