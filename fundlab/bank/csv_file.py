"""CSV with a header: common column names are known, any other is named by a mapping."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import InvalidOperation
from itertools import pairwise
from typing import Final

from fundlab.bank.model import FORMATS, Entry, Page, exact_amount, file_text
from fundlab.base.errors import AnalysisError, shorten, with_likely
from fundlab.base.exact import EXACT

CSV_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "booked_on": ("date", "booking date", "booked on", "posted", "posting date", "value date"),
    "amount": ("amount", "value"),
    "credit": ("credit", "paid in", "deposit", "deposits"),
    "debit": ("debit", "paid out", "withdrawal", "withdrawals"),
    "asset": ("currency", "asset", "ccy"),
    "bank_ref": ("reference", "bank reference", "transaction id", "id", "ref"),
    "memo": ("memo", "description", "details", "narrative", "text", "payee"),
    "valued_on": ("value date", "valued on"),
    "balance": ("balance", "running balance", "balance after"),
    "counterparty": ("counterparty", "payee", "beneficiary"),
    "own_ref": ("customer reference", "own reference"),
    "charges": ("charges",),
    "account": ("account", "account number", "iban"),
}
"""What a column can be, and the names it is known by."""
_INWARD: Final = {
    **dict.fromkeys(("c", "cr", "credit", "crdt"), True),
    **dict.fromkeys(("d", "dr", "debit", "dbit"), False),
}


def read_csv(
    content: bytes,
    columns: Mapping[str, str] | None = None,
    dates: str | None = None,
    decimal: str = ".",
) -> list[Page]:
    if decimal not in (".", ","):
        raise AnalysisError(f"decimal={decimal!r} is not one of '.', ','")
    text = file_text(content)
    commonest = max(",;\t", key=text.split("\n", 1)[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=commonest, strict=True)
    try:
        lines = [(reader.line_num, values) for values in reader]
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error
    header = [name.strip() for name in lines[0][1]] if lines else []
    names = [name.lower() for name in header]
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise ValueError(f"the header has more than one column {twice[0]!r}")
    for given, column in (columns or {}).items():
        if given not in CSV_COLUMNS:
            raise AnalysisError(
                f"columns: unknown {with_likely(given, CSV_COLUMNS)}; known are "
                f"{', '.join(CSV_COLUMNS)}"
            )
        if column.strip().lower() not in names:
            raise ValueError(f"there is no column {column!r}, found are {', '.join(header)}")
    chosen = {
        field: next((name for name in common if name in names), None)
        for field, common in CSV_COLUMNS.items()
    }
    chosen |= {field: name.strip().lower() for field, name in (columns or {}).items()}
    sums = (chosen["amount"], chosen["credit"], chosen["debit"])
    if chosen["booked_on"] is None or not any(sums):
        if not header:
            raise ValueError("it is empty; get it again from the bank")
        raise ValueError(
            f"needed are a date and an amount column, found are {', '.join(header)}; columns of "
            "other names are given as columns={'booked_on': …, 'amount': …} or "
            "--columns booked_on=…,amount=…; where it is not CSV, get it as one of "
            f"{', '.join(FORMATS[1:])}"
        )
    page = Page("statement", 1)
    for number, values in lines[1:]:
        if values:
            try:
                if len(values) != len(names):
                    told = f"{len(values)} values for {len(names)} columns"
                    raise ValueError(told)  # noqa: TRY301
                row = dict(zip(names, (value.strip() for value in values), strict=True))
                entry, account = _entry(row, chosen, number, dates, decimal)
            except (ValueError, InvalidOperation) as error:
                raise ValueError(f"line {number}: {shorten(values)}: {error}") from error
            if page.entries and account != page.account:
                raise ValueError(f"line {number}: more than one account; give a file for each")
            page.account = account
            page.entries.append(entry)
    return [_with_balances(page)]


def _entry(
    row: Mapping[str, str],
    chosen: Mapping[str, str | None],
    number: int,
    dates: str | None,
    decimal: str,
) -> tuple[Entry, str | None]:
    found = {field: row[name] for field, name in chosen.items() if name is not None}
    money = ("amount", "credit", "debit", "balance", "charges")
    if decimal != ".":
        for name in money:
            # Points then group the thousands, three digits each.
            grouped = re.fullmatch(
                rf"[+-]?\d{{1,3}}(\.\d{{3}})*({decimal}\d+)?", found.get(name, "")
            )
            text = found[name].replace(".", "") if grouped else found.get(name, "")
            found[name] = text.replace(decimal, ".")
    amount, credit, debit = (exact_amount(found.get(name) or "0") for name in money[:3])
    if (credit and debit) or not any(found.get(name) for name in money[:3]):
        raise ValueError("give either a credit or a debit")
    side = debit.copy_abs().copy_negate() if debit else credit
    if side and found.get("amount") and side != amount:
        raise ValueError(
            f"the amount {amount} is not the {side} of the credit or debit column; give amounts "
            "with their sign, or leave that column out"
        )
    amount = side or amount
    if amount and found.get("amount"):
        # Amounts without a sign, beside a column that says which way they went?
        for name, value in row.items():
            inward = _INWARD.get(value.rstrip(".").lower())
            if inward is not None and inward == amount.is_signed():
                raise ValueError(
                    f"{name!r} says {value!r} of the amount {amount}; give amounts with "
                    "their sign, or a credit and a debit column"
                )
    balance, charges = (exact_amount(found[n]) if found.get(n) else None for n in money[3:])
    booked, valued = (
        _day(found[name], dates) if found.get(name) else None for name in ("booked_on", "valued_on")
    )
    entry = Entry(
        booked or _day(found["booked_on"], dates), amount, found.get("asset") or None,
        found.get("bank_ref") or None, found.get("memo") or None, valued,
        found.get("own_ref") or None, found.get("counterparty") or None,
        charges=charges, balance=balance, line=number,
    )  # fmt: skip
    return entry, found.get("account") or None


def _day(text: str, dates: str | None) -> date:
    try:
        if dates is None:
            return date.fromisoformat(text)
        return datetime.strptime(text, dates).date()  # noqa: DTZ007 - a day has no zone
    except ValueError as error:
        form = "2026-10-31" if dates is None else dates
        raise ValueError(f"{error}; the form of days other than {form} is given with dates= or "
                         "--dates, such as %d.%m.%Y") from error  # fmt: skip


def _with_balances(page: Page) -> Page:
    """Oldest first, with the balances at both ends where each line has one."""
    entries = page.entries
    if not entries:
        return page
    page.asset = entries[0].asset
    others = sorted({str(entry.asset) for entry in entries} - {str(page.asset)})
    if others:
        told = ", ".join(others)
        page.contradictions.append(
            ("currency", page.asset, told, f"entries are in {page.asset} and in {told}; give a "
             "file for each")
        )  # fmt: skip
    backwards = entries[0].booked_on > entries[-1].booked_on
    if entries[0].booked_on == entries[-1].booked_on:
        # Dates do not say which way the file runs: the balances do, where they run one way only.
        steps = [sum(1 for _ in breaks(order)) for order in (entries, entries[::-1])]
        backwards = steps[0] > steps[1]
    if backwards:
        entries.reverse()
    page.entries = [replace(entry, position=place) for place, entry in enumerate(entries, start=1)]
    first, last = page.entries[0], page.entries[-1]
    if first.balance is not None:
        page.opening = EXACT.subtract(first.balance, first.amount)
    page.closing, page.opening_on, page.closing_on = last.balance, first.booked_on, last.booked_on
    return page


def breaks(entries: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Each entry whose balance is not the one before it and its amount."""
    for before, entry in pairwise(entries):
        if before.balance is None or entry.balance is None:
            continue
        if EXACT.add(before.balance, entry.amount) != entry.balance:
            yield before, entry
