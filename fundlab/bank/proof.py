"""Whether statements are what they declare: each by itself, and one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from fundlab.bank.csv_file import breaks
from fundlab.bank.model import Entry, Finding, Page, finding
from fundlab.bank.overlaps import without_overlaps
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
        # An id that the bank gives once for each entry, again: it is one entry.
        seen: dict[str, Entry] = {}
        for entry in [*page.entries] if page.format == "ofx" else ():
            other = seen.setdefault(entry.bank_ref or f"line {entry.line}", entry)
            if other is not entry:
                page.entries.remove(entry)
                findings.append(
                    finding(page, "repeated", "one entry", "two",
                            f"line {entry.line}: FITID {entry.bank_ref} is there twice, also in "
                            f"line {other.line}")
                )  # fmt: skip
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
            numbers = None not in (before.sequence, page.sequence)
            days = [_number(p) if numbers else p.place[:3] for p in (page, before)]
            if before.file == page.file and days[0] < days[1]:
                findings.append(
                    finding(page, "order", f"after {before.name}", "before it",
                            f"it stands after {before.name}, which it precedes")
                )  # fmt: skip
        formats = {page.format for page in account}
        numbered = len(formats) == 1 and all(page.sequence is not None for page in account)
        account.sort(key=_number if numbered else lambda page: page.place)
        left, overlaps = without_overlaps(account)
        findings += overlaps
        findings += _complete(account)
        findings += _chained(left)
        ordered += left
    findings.sort(key=lambda one: (one.file, one.line))
    return ordered, findings


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
        named = (page.account, page.asset, page.format, page.sequence, page.page, year)
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
    for line, declared, expected in breaks(page.entries):
        yield finding(page, "running_balance", declared, expected,
                      f"line {line}: the running balance is declared as {plain_text(declared)}, "
                      f"the one before and the amount give {plain_text(expected)}")  # fmt: skip
    if page.opening is not None and page.closing is not None and not page.summary_only:
        yield from _balance(page, page.opening, total, len(entries))
        page.proved = "balances"


def _balance(page: Page, opening: Decimal, total: Decimal, count: int) -> Iterator[Finding]:
    reached = EXACT.add(opening, total)
    if page.closing is not None and reached != page.closing:
        counted = number_of(count, "entry")
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


def _complete(pages: Sequence[Page]) -> Iterator[Finding]:
    """Whether all pages and numbers are there."""
    for page in pages[:1]:
        if not page.first:
            yield _missing_page(page, "before")
    for page in pages[-1:]:
        if not page.last:
            yield _missing_page(page, "after")
    for before, page in pairwise(pages):
        same = before.sequence == page.sequence and before.sequence is not None
        if before.format != page.format:
            continue
        if before.last != page.first:
            yield _missing_page(page, "before") if before.last else _missing_page(before, "after")
        elif not before.last and same and page.page is not None:
            if page.page != (before.page or 0) + 1:
                yield _missing_page(page, "before")
        elif before.sequence is not None and page.sequence is not None and not same:
            # Statements are numbered by the year, reports of a day by the day too.
            reports = page.kind != "statement"
            begins = [p.place if reports else _number(p) for p in (before, page)]
            restarted = page.sequence == 1 and begins[0][0] < begins[1][0]
            if page.sequence != before.sequence + 1 and not restarted:
                yield finding(page, "sequence", before.sequence + 1, page.sequence,
                              f"it follows statement {before.sequence}: statement "
                              f"{before.sequence + 1} is missing")  # fmt: skip


def _chained(pages: Sequence[Page]) -> Iterator[Finding]:
    """Whether each begins with the balance with which the one before ends."""
    for before, page in pairwise(pages):
        if before.closing is None:
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
