"""Whether statements are what they declare: each by itself, and one after the other."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from fundlab.bank.csv_file import breaks
from fundlab.bank.model import Entry, Finding, Page
from fundlab.base.errors import number_of
from fundlab.base.exact import EXACT
from fundlab.base.values import exact_sum, plain_text

_COUNTED: Final = {
    "entries": "entries",
    "credits": "credits",
    "debits": "debits",
    "credit_sum": "the sum of the credits",
    "debit_sum": "the sum of the debits",
    "sum": "the sum of the entries",
    "net": "the net of the entries",
}


def prove(pages: Sequence[Page]) -> tuple[list[Page], list[Finding]]:
    """The pages without those that are there twice, oldest first for each account; and what
    contradicts itself. ``Page.proved`` then says by what a page is proved."""
    kept, findings = _once(pages)
    for page in kept:
        findings += _of_itself(page)
        findings += _repeated_ids(page)
    by_account: dict[tuple[Any, ...], list[Page]] = defaultdict(list)
    for page in kept:
        by_account[page.account, page.asset].append(page)
    ordered: list[Page] = []
    for account in by_account.values():
        kinds = {page.kind for page in account}
        if len(kinds) > 1:
            findings.append(
                finding(account[-1], "kinds", ", ".join(sorted(kinds)), "more than one",
                        f"{' and '.join(sorted(kinds))} of one account: their entries are the "
                        "same ones twice; read them apart")
            )  # fmt: skip
        for before, page in pairwise(account):
            # A bank writes a file in order: statements and pages that are not were moved.
            key = _place if None in (before.sequence, page.sequence) else _number
            if before.file == page.file and key(page)[:3] < key(before)[:3]:
                findings.append(
                    finding(page, "order", f"after {before.name}", "before it",
                            f"it stands after {before.name}, which it precedes")
                )  # fmt: skip
        numbered = all(page.sequence is not None for page in account)
        account.sort(key=_number if numbered else _place)
        findings += _without_overlaps(account)
        findings += _follows(account)
        ordered += account
    findings.sort(key=lambda one: (one.file, one.line))
    return ordered, findings


def _repeated_ids(page: Page) -> Iterator[Finding]:
    """An id that the bank gives once for each entry, again: it is one entry."""
    if page.format != "ofx":
        return
    seen: dict[str, Entry] = {}
    for entry in [*page.entries]:
        other = seen.setdefault(entry.bank_ref or f"line {entry.line}", entry)
        if other is not entry:
            page.entries.remove(entry)
            yield finding(page, "repeated", "one entry", "two",
                          f"line {entry.line}: FITID {entry.bank_ref} is there twice, also in line "
                          f"{other.line}")  # fmt: skip


def _without_overlaps(account: list[Page]) -> Iterator[Finding]:
    """Takes out what an earlier file of the account has already: the same booking, by the balance
    after it, by the bank's reference, or where neither is there by day, amount and text."""
    seen: dict[str, Counter[tuple[Any, ...]]] = {}
    kept: list[Page] = []
    for page in account:
        before = Counter[tuple[Any, ...]]()
        for file, keys in seen.items():
            if file != page.file:
                before |= keys
        names_of = [[*_identities(entry, balance)] for entry, balance in _running(page)]
        left, unsure = [], 0
        for entry, names in zip(page.entries, names_of, strict=True):
            known = next((name for name in names if before[name]), None)
            if known is None:
                left.append(entry)
                continue
            before[known] -= 1
            unsure += known[0] == "text"
        own = seen.setdefault(page.file, Counter())
        own.update(name for names in names_of for name in names)
        place = len(kept)
        if len(left) < len(page.entries):
            page.overlaps = True
            rest = exact_sum(entry.amount for entry in left)
            if left and left == page.entries[: len(left)] and page.opening is not None:
                # Its first ones are left: it stands before the other, whose opening they reach.
                page.closing = EXACT.add(page.opening, rest)
                place = next((n for n, other in enumerate(kept) if other.opening == page.closing),
                             place)  # fmt: skip
            elif page.closing is not None:
                page.opening = EXACT.subtract(page.closing, rest)
            page.entries = left
        if left or not page.overlaps:
            kept.insert(place, page)
        if unsure:
            yield finding(page, "overlap", "a reference or balance", "none",
                          f"{unsure} of its entries have the day, amount and text of entries in "
                          "another file, and nothing says whether they are the same: they count "
                          "once")  # fmt: skip
    account[:] = kept


def _running(page: Page) -> Iterator[tuple[Entry, Decimal | None]]:
    """Each entry with the balance after it, as far as the page says."""
    balance = page.opening
    if balance is None and page.closing is not None:
        balance = EXACT.subtract(page.closing, exact_sum(entry.amount for entry in page.entries))
    for entry in page.entries:
        balance = None if balance is None else EXACT.add(balance, entry.amount)
        yield entry, entry.balance if entry.balance is not None else balance


def _identities(entry: Entry, balance: Decimal | None) -> Iterator[tuple[Any, ...]]:
    own = (entry.booked_on, entry.amount.normalize(EXACT))
    if entry.bank_ref and re.search(r"\d", entry.bank_ref):
        yield ("reference", *own, entry.bank_ref)
    elif balance is None:
        yield ("text", *own, entry.memo)
    if balance is not None:
        yield ("balance", *own, balance.normalize(EXACT))


def finding(page: Page, rule: str, declared: Any, found: Any, detail: str) -> Finding:
    said, there = (
        plain_text(value) if isinstance(value, Decimal) else str(value)
        for value in (declared, found)
    )
    return Finding(page.file, page.line, page.name, rule, said, there, detail)


def _once(pages: Sequence[Page]) -> tuple[list[Page], list[Finding]]:
    """The same statement twice is one; two that only name themselves alike contradict."""
    kept: list[Page] = []
    contents: set[tuple[Any, ...]] = set()
    known: dict[tuple[Any, ...], Page] = {}
    findings = []
    for page in pages:
        content = page.content()
        if content in contents and (page.kind != "notice" or page.id):
            continue
        contents.add(content)
        year = (page.closing_on or page.opening_on or date.min).year
        named = (page.account, page.asset, page.kind, page.sequence, page.page, year)
        if page.sequence is not None:
            other = known.setdefault(named, page)
            if other is not page:
                findings.append(
                    finding(page, "repeated", "one statement", "two",
                            f"it is there twice, with other content: also in {other.file}, line "
                            f"{other.line}")
                )  # fmt: skip
        kept.append(page)
    return kept, findings


def _place(page: Page) -> tuple[int, ...]:
    """By the end of a statement: banks begin one on the day of the one before, or the next."""
    opening, closing = page.opening_on, page.closing_on or page.opening_on
    days = [(day or date.min).toordinal() for day in (closing, opening)]
    return (*days, page.sequence or 0, page.page or 0)


def _number(page: Page) -> tuple[int, ...]:
    year = (page.closing_on or page.opening_on or date.min).year
    return year, page.sequence or 0, page.page or 0


def _of_itself(page: Page) -> Iterator[Finding]:
    for rule, declared, found, detail in page.contradictions:
        yield finding(page, rule, declared, found, detail)
    ends = {"opening": page.opening, "closing": page.closing}
    absent = [name for name, balance in ends.items() if balance is None]
    if page.format in ("mt940", "camt.053") and page.kind == "statement" and len(absent) == 1:
        yield finding(page, "incomplete", f"an {absent[0]} balance".replace("an c", "a c"), "none",
                      f"it has no {absent[0]} balance")  # fmt: skip
    entries = {entry.position for entry in page.entries}
    # A booked batch counts once.
    booked: dict[int, Decimal] = defaultdict(Decimal)
    for entry in page.entries:
        booked[entry.position] = EXACT.add(booked[entry.position], entry.amount)
    total = exact_sum(booked.values())
    if page.declared and not page.summary_only:
        # Some banks count what is pending too.
        counts = [_counts([*booked.values()]), _counts([*booked.values(), *page.unbooked])]
        for name, declared in page.declared.items():
            if declared not in [found[name] for found in counts]:
                found, what = counts[0][name], _COUNTED[name]
                yield finding(page, name, declared, found,
                              f"{what}: {plain_text(declared)} declared, {plain_text(found)} "
                              "found")  # fmt: skip
        page.proved = "counts"
    for before, entry in breaks(page.entries):
        expected = EXACT.add(before.balance or Decimal(0), entry.amount)
        yield finding(page, "running_balance", entry.balance, expected,
                      f"line {entry.line}: the running balance is declared as "
                      f"{plain_text(entry.balance or Decimal(0))}, the one before and the amount "
                      f"give {plain_text(expected)}")  # fmt: skip
    if page.opening is not None and page.closing is not None and not page.summary_only:
        yield from _balance(page, page.opening, total, len(entries))
        page.proved = "balances"


def _balance(page: Page, opening: Decimal, total: Decimal, count: int) -> Iterator[Finding]:
    reached = EXACT.add(opening, total)
    if page.closing is not None and reached != page.closing:
        counted = number_of(count, "entry").replace("entrys", "entries")
        yield finding(page, "balance", page.closing, reached,
                      f"the closing balance is declared as {plain_text(page.closing)}; the opening "
                      f"{plain_text(opening)} and {counted} of {plain_text(total)} in all give "
                      f"{plain_text(reached)}")  # fmt: skip


def _counts(amounts: list[Decimal]) -> dict[str, Decimal]:
    credit = [amount for amount in amounts if amount > 0]
    debit = [amount.copy_abs() for amount in amounts if amount < 0]
    sums = exact_sum(credit), exact_sum(debit)
    return {
        "entries": Decimal(len(amounts)),
        "credits": Decimal(len(credit)),
        "debits": Decimal(len(debit)),
        "credit_sum": sums[0],
        "debit_sum": sums[1],
        "sum": EXACT.add(*sums),
        "net": EXACT.subtract(*sums),
    }


def _follows(pages: Sequence[Page]) -> Iterator[Finding]:
    for page in pages[:1]:
        if not page.first:
            yield _missing_page(page, "before")
    for page in pages[-1:]:
        if not page.last:
            yield _missing_page(page, "after")
    for before, page in pairwise(pages):
        same = before.sequence == page.sequence and before.sequence is not None
        if before.last != page.first:
            yield _missing_page(page, "before") if before.last else _missing_page(before, "after")
        elif not before.last and same and page.page is not None:
            if page.page != (before.page or 0) + 1:
                yield _missing_page(page, "before")
        elif before.sequence is not None and page.sequence is not None and not same:
            # Statements are numbered by the year, reports of a day by the day too.
            span = _number if page.kind == "statement" else _place
            restarted = page.sequence == 1 and span(before)[0] < span(page)[0]
            if page.sequence != before.sequence + 1 and not restarted:
                yield finding(page, "sequence", before.sequence + 1, page.sequence,
                              f"it follows statement {before.sequence}: statement "
                              f"{before.sequence + 1} is missing")  # fmt: skip
        if before.closing is None:
            continue
        if page.overlaps and page.closing is None:
            continue
        if page.opening is None:
            # Where a format declares no opening balance, the one before is it.
            if page.closing is not None and not page.summary_only:
                total = exact_sum(entry.amount for entry in page.entries)
                yield from _balance(page, before.closing, total, len(page.entries))
                page.opening, page.proved = before.closing, "follows"
        elif before.closing != page.opening:
            yield finding(page, "follows", before.closing, page.opening,
                          f"it opens with {plain_text(page.opening)}, but {before.name} before it "
                          f"({before.file}, line {before.line}) closes with "
                          f"{plain_text(before.closing)}: one in between is missing, or one was "
                          "changed")  # fmt: skip


def _missing_page(page: Page, where: str) -> Finding:
    return finding(page, "page", f"a page {where} it", "none",
                   f"the page {where} it is missing")  # fmt: skip
