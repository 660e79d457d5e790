"""What several files of one account have in common, once, in whatever order they are given.

A booking is the same in two files by the bank's reference or by the balance after it. Formats have
references and an order of their own, so of two formats, or where one file has references and the
other balances, its day and amount say so: for sure where both files list the same amounts of the
day, and the day lies within both or begins and ends with the same balances. What stays open counts
once, and is a finding.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from fundlab.bank.model import Entry, Finding, Page, finding
from fundlab.base.exact import EXACT
from fundlab.base.values import exact_sum

_MOST_SAID_FIRST: Final = ("camt", "mt94", "bai2", "ofx", "csv")
"""Formats, from the one that says most of an entry."""


@dataclass(slots=True, eq=False)
class _Booking:
    """An entry, or the payments of a batch, with the balances around it and the files it is in."""

    entries: list[Entry]
    day: date
    amount: Decimal
    format: str
    references: set[str]
    before: Decimal | None
    after: Decimal | None
    files: set[str]

    def is_same(self, other: _Booking) -> bool:
        same_balance = self.after is not None and self.after == other.after
        return same_balance or not self.references.isdisjoint(other.references)

    def may_be_same(self, other: _Booking) -> bool:
        """Unless two files of one format give it another reference or another balance."""
        has_both = (self.references and other.references) or None not in (self.after, other.after)
        return self.format != other.format or not has_both


@dataclass(slots=True)
class _Day:
    """What a file has of a day: amounts, the balances around them, and whether days of it come
    before and after."""

    amounts: Counter[Decimal] = field(default_factory=Counter)
    before: Decimal | None = None
    after: Decimal | None = None
    within: bool = False

    def has_ends_of(self, other: _Day) -> bool:
        return (self.before, self.after) == (other.before, other.after) and None not in (
            self.before, self.after)  # fmt: skip

    def agrees(self, other: _Day) -> bool:
        return self.amounts == other.amounts and (
            (self.within and other.within) or self.has_ends_of(other)
        )


def without_overlaps(pages: list[Page]) -> tuple[list[Page], list[Finding]]:
    """The pages of an account without what another file has, and what could not be decided. The
    list itself where nothing is there twice."""
    booked = [(page, _bookings(page)) for page in pages]
    days = _days_by_file(booked)
    if len(days) < 2:
        return pages, []
    known: dict[tuple[date, Decimal], list[_Booking]] = defaultdict(list)
    placed: set[tuple[str, date]] = set()
    kept: list[Page] = []
    findings: list[Finding] = []
    for page, bookings in sorted(booked, key=_what_is_said):
        own, taken, unsure = days[page.file], set[_Booking](), 0
        for test in (_Booking.is_same, _Booking.may_be_same):
            for booking in (booking for booking in bookings if booking not in taken):
                alike = known[booking.day, booking.amount]
                fits = (x for x in alike if page.file not in x.files and test(booking, x))
                same = next(fits, None)
                if same is not None:
                    agreed = (
                        own[booking.day].agrees(days[file][booking.day]) for file in same.files
                    )
                    unsure += test is _Booking.may_be_same and not any(agreed)
                    same.files.add(page.file)
                    same.references |= booking.references
                    taken.add(booking)
        # A day between the same balances in another file, there in other parts.
        parts = {booking for booking in bookings if booking not in taken and any(
            (file, booking.day) in placed and own[booking.day].has_ends_of(of_file[booking.day])
            for file, of_file in days.items() if file != page.file)}  # fmt: skip
        if unsure or parts:
            what = (f"{unsure} of its entries have the day and amount of entries" if unsure else
                    f"{len(parts)} of its entries are of days with the same balances, but other "
                    "entries,")  # fmt: skip
            findings.append(
                finding(page, "overlap", "a reference or balance", "none",
                        f"{what} in another file, and nothing says whether they are the same: they "
                        "count once")
            )  # fmt: skip
        taken |= parts
        for booking in bookings:
            placed.add((page.file, booking.day))
            if booking not in taken:
                known[booking.day, booking.amount].append(booking)
        if taken:
            kept += _rest(page, bookings, taken)
        elif bookings or not _is_covered(page, booked):
            kept.append(page)
    if len(kept) == len(pages) and {*map(id, kept)} == {*map(id, pages)}:
        return pages, findings
    kept.sort(key=lambda page: page.place)
    for place in range(1, len(kept)):
        # Days do not say which of two comes first, where their balances do.
        before = kept[place - 1]
        end = kept[place].closing_on
        after = next((n for n, page in enumerate(kept) if n >= place and page.opening is not None
                      and page.opening == before.closing and end is not None
                      and (page.opening_on or end) <= end), place)  # fmt: skip
        kept.insert(place, kept.pop(after))
    return kept, findings


def _bookings(page: Page) -> list[_Booking]:
    balance = None if page.summary_only else page.opening
    if balance is None and page.closing is not None and not page.summary_only:
        balance = EXACT.subtract(page.closing, exact_sum(entry.amount for entry in page.entries))
    bookings = []
    for _, several in groupby(page.entries, key=lambda entry: entry.position):
        entries = [*several]
        amount = exact_sum(entry.amount for entry in entries).normalize(EXACT)
        after = entries[-1].balance
        if after is None and balance is not None:
            after = EXACT.add(balance, amount)
        before = balance if after is None else EXACT.subtract(after, amount)
        names = {entry.bank_ref for entry in entries if re.search(r"\d", entry.bank_ref or "")}
        bookings.append(
            _Booking(entries, entries[0].booked_on, amount, page.format,
                     {name for name in names if name}, before, after, {page.file})
        )  # fmt: skip
        balance = after
    return bookings


def _days_by_file(
    booked: Sequence[tuple[Page, Sequence[_Booking]]],
) -> dict[str, dict[date, _Day]]:
    days: dict[str, dict[date, _Day]] = {page.file: {} for page, _ in booked}
    spans: dict[str, list[date]] = defaultdict(list)
    for page, bookings in booked:
        spans[page.file] += [day for day in (page.opening_on, page.closing_on) if day]
        for booking in bookings:
            spans[page.file].append(booking.day)
            of_day = days[page.file].setdefault(booking.day, _Day(before=booking.before))
            of_day.amounts[booking.amount] += 1
            of_day.after = booking.after
    for file, of_file in days.items():
        for day, found in of_file.items():
            found.within = min(spans[file]) < day < max(spans[file])
    return days


def _what_is_said(booked: tuple[Page, Sequence[_Booking]]) -> tuple[Any, ...]:
    """Pages that say most of their entries come first, and no order of files changes that."""
    page, bookings = booked
    says = sum(bool(booking.references) + (booking.after is not None) for booking in bookings)
    rank = _MOST_SAID_FIRST.index(page.format[:4])
    return rank, -says / max(len(bookings), 1), -len(bookings), page.sha256, page.line


def _rest(page: Page, bookings: Sequence[_Booking], taken: Collection[_Booking]) -> Iterator[Page]:
    """A page of each run of bookings that are left."""
    for is_taken, several in groupby(bookings, key=lambda one: one in taken):
        run = [*several]
        if not is_taken:
            yield replace(
                page, first=True, last=True, opening=run[0].before, closing=run[-1].after,
                opening_on=page.opening_on if run[0] is bookings[0] else run[0].day,
                closing_on=page.closing_on if run[-1] is bookings[-1] else run[-1].day,
                entries=[entry for one in run for entry in one.entries],
            )  # fmt: skip


def _is_covered(page: Page, booked: Sequence[tuple[Page, Sequence[_Booking]]]) -> bool:
    """Whether the days of a page without entries lie within one of another file, at its balance."""
    day = page.closing_on
    for other, bookings in booked:
        if other.file == page.file or not bookings or day is None:
            continue
        begin, end = other.opening_on or bookings[0].day, other.closing_on or bookings[-1].day
        balances = [bookings[0].before, *(one.after for one in bookings if one.day <= day)]
        if begin <= day <= end and balances[-1] in (None, page.closing):
            return True
    return False
