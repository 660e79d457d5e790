"""Downloads of one account that overlap, in any order and format, give each entry once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from amounts import exactly

from fundlab import bank
from fundlab.bank.model import Entry, Page
from fundlab.bank.overlaps import without_overlaps
from fundlab.base.errors import StatementError
from fundlab.sandbox.bank_files import CENT, WRITERS, Line, Statement

D = Decimal
FIRST, DAYS = date(2026, 3, 1), 12
FORMATS = ("csv", "balances only", "references only", "ofx", "mt940", "camt.053", "bai2")


def booked_lines(rng: random.Random) -> list[Line]:
    """Up to three lines a day; of one amount throughout, sometimes."""
    equal, lines = rng.random() < 0.3, []
    for day in (FIRST + timedelta(days=n) for n in range(DAYS)):
        for _ in range(rng.randint(0, 3)):
            cents = rng.choice((-1, 1)) * (10_000 if equal else rng.randint(1, 9_000_000))
            text = rng.choice(("wire", "rent", "fee"))
            name = rng.choice(("", "ACME"))
            lines.append(Line(day, day, cents * CENT, f"B{len(lines):07}", text, name))
    return lines


@exactly()
def download(format: str, lines: list[Line], first: int, last: int) -> str:
    """The days from ``first`` to ``last``, as one statement (OFX, CSV) or one for each day. Some
    formats list a day in another order or have other references."""
    days = [FIRST + timedelta(days=n) for n in range(first, last + 1)]
    listed = [line for line in lines if days[0] <= line.booked_on <= days[-1]]
    if format in ("ofx", "bai2"):
        listed.sort(key=lambda line: (line.booked_on, line.amount))
    opening = D(1000) + sum((x.amount for x in lines if x.booked_on < days[0]), D(0))
    if format in ("csv", "balances only", "references only"):
        rows, balance = ["date,amount,balance,reference,memo,currency,account"], opening
        for line in listed:
            balance += line.amount
            after = "" if format == "references only" else balance
            ref = "" if format == "balances only" else line.bank_ref
            rows.append(f"{line.booked_on},{line.amount},{after},{ref},{line.memo},USD,4000123")
        return "\n".join([*rows, ""])
    if format == "ofx":
        pages = [Statement("4000123", "USD", 1, days[0], days[-1], opening, tuple(listed))]
        return WRITERS["ofx"](pages).replace("<FITID>B", "<FITID>F")
    pages = []
    for number, day in enumerate(days, start=first + 1):
        some = tuple(line for line in listed if line.booked_on == day)
        pages.append(Statement("4000123", "USD", number, day, day, opening, some))
        opening = pages[-1].closing
    return WRITERS[format](pages)


def check_downloads(seed: int, path: Path) -> tuple[int, int]:
    """How many orders of files gave the entries, and how many of them with a finding."""
    rng = random.Random(seed)
    lines = booked_lines(rng)
    since, until = sorted(rng.sample(range(1, DAYS - 1), 2))
    spans = [(0, until), (since, DAYS - 1), (0, DAYS - 1)][: rng.choice((2, 2, 3))]
    formats, files = [rng.choice(FORMATS) for _ in spans], []
    for number, (kind, span) in enumerate(zip(formats, spans, strict=True)):
        files.append(path / f"{number}")
        files[-1].write_text(download(kind, lines, *span))
    wanted = sorted((line.booked_on, line.amount) for line in lines)
    ids, unsure = set(), 0
    for order in itertools.permutations(files):
        found = bank.read(*order, strict=False)
        if len(found.findings):
            # Where one file has references only and another one balances only.
            assert {"balances only", "references only"} & {*formats}, (seed, formats)
            assert set(found.findings["rule"]) == {"overlap"}, (seed, formats)
            unsure += 1
        entries = zip(found.entries["booked_on"], found.entries["amount"], strict=True)
        assert sorted(entries) == wanted, (seed, formats)
        ids.add(frozenset(found.entries["entry_id"]))
    assert len(ids) == 1, (seed, formats)
    return len([*itertools.permutations(files)]), unsure


@pytest.mark.seconds
def test_overlapping_downloads_give_each_entry_once(tmp_path: Path) -> None:
    for seed in range(25):
        check_downloads(seed, tmp_path)


@pytest.mark.campaign
def test_1_500_overlapping_downloads_give_each_entry_once(
    tmp_path: Path, seed: int, figure: Callable[[str], None]
) -> None:
    orders, unsure = map(
        sum, zip(*(check_downloads(seed * 1_500 + n, tmp_path) for n in range(1_500)), strict=True)
    )
    figure(f"{orders:,} orders of overlapping files, each entry once; {unsure:,} with a finding")


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([*lines, ""]))
    return path


def test_a_file_cut_within_a_day_goes_on_in_another(tmp_path: Path) -> None:
    header = "date,amount,balance,reference"
    lines = ["2026-10-01,5,5,R1", "2026-10-02,5,10,R2", "2026-10-02,5,15,R3", "2026-10-03,1,16,R4"]
    files = [write(tmp_path / "a", header, *lines[:2]), write(tmp_path / "b", header, *lines[2:])]
    for order in (files, files[::-1]):
        assert bank.read(*order).entries["bank_ref"].tolist() == ["R1", "R2", "R3", "R4"]


def test_what_may_be_the_same_and_has_no_identity_is_said(tmp_path: Path) -> None:
    header = "date,amount,memo"
    one = write(tmp_path / "a", header, "2026-10-01,5,fee")
    other = write(tmp_path / "b", header, "2026-10-01,5,fee", "2026-10-02,7,x")
    with pytest.raises(StatementError, match="nothing says whether they are the same"):
        bank.read(one, other)
    found = bank.read(one, other, strict=False)
    assert sorted(found.entries["amount"]) == [D(5), D(7)]
    assert found.findings["rule"].tolist() == ["overlap"]


def test_a_batch_in_one_file_and_its_payments_in_another_count_once(tmp_path: Path) -> None:
    """A file lists as one line what another one lists as three, between the same balances."""
    header = "date,amount,balance"
    around = ("2026-10-01,1,1", "2026-10-03,1,32")
    one = write(tmp_path / "a", header, around[0], "2026-10-02,30,31", around[1])
    parts = [f"2026-10-02,10,{1 + 10 * n}" for n in (1, 2, 3)]
    many = write(tmp_path / "b", header, around[0], *parts, around[1])
    with pytest.raises(StatementError, match="are of days with the same balances, but other"):
        bank.read(one, many)
    for order in ((one, many), (many, one)):
        assert sum(bank.read(*order, strict=False).entries["amount"]) == D(32)


# -------------------------------------------------------------------------- each rule by itself


Row = tuple[int, int, str | None, int | None]  # day, amount, reference, balance after it


def listed(
    file: str, *rows: Row, format: str = "csv", days: tuple[int, int] | None = None,
    opening: int | None = None, closing: int | None = None,
) -> Page:  # fmt: skip
    entries = [
        Entry(date(2026, 1, on), D(much), bank_ref=ref, position=n,
              balance=None if balance is None else D(balance))
        for n, (on, much, ref, balance) in enumerate(rows, start=1)
    ]  # fmt: skip
    first, last = days or (rows[0][0], rows[-1][0])
    return Page(
        "statement", 1, "A", "USD", file=file, format=format, entries=entries,
        opening_on=date(2026, 1, first), closing_on=date(2026, 1, last),
        opening=None if opening is None else D(opening),
        closing=None if closing is None else D(closing),
    )  # fmt: skip


REFS: list[Row] = [(2, 7, "R2", None), (3, 1, "R3", None)]
OTHER_REFS: list[Row] = [(2, 7, "F2", None), (3, 1, "F3", None)]
APART = {
    "by reference": ([listed("f", (1, 5, "R1", None), (2, 7, "R2", None)), listed("g", *REFS)],
                     [1, 5, 7], ""),
    "by balance": ([listed("f", (1, 5, None, 5), (2, 7, None, 12)),
                    listed("g", (2, 7, None, 12), (3, 1, None, 13))], [1, 5, 7], ""),
    "by the balances at the ends": (
        [listed("f", (2, 7, None, None), (3, 1, None, None), opening=5),
         listed("g", (2, 7, None, None), (3, 1, None, None), closing=13)], [1, 7], ""),
    "of other references": ([listed("f", (2, 7, "R9", None)), listed("g", *REFS)], [1, 7, 7], ""),
    "of other balances": ([listed("f", (2, 7, None, 99)), listed("g", (2, 7, None, 12))],
                          [7, 7], ""),
    "of another day": ([listed("f", (1, 7, "R2", None)), listed("g", *REFS)], [1, 7, 7], ""),
    "of another amount": ([listed("f", (2, 8, "R2", None)), listed("g", *REFS)], [1, 7, 8], ""),
    "twice in one file": ([listed("f", (2, 7, "R2", None), (2, 7, "R2", None)),
                           listed("g", (4, 1, None, None))], [1, 7, 7], ""),
    "twice in one of them": ([listed("f", (2, 7, "R2", None), (2, 7, "R2", None)),
                              listed("g", (2, 7, "R2", 12))], [7, 7], ""),
    "references only and balances only": (
        [listed("f", (2, 7, "R2", None)), listed("g", (2, 7, None, 12))],
        [7], "1 of its entries have the day and amount"),
    "a reference without a figure": (
        [listed("f", (2, 7, "NONREF", None)), listed("g", (2, 7, "NONREF", None))],
        [7], "1 of its entries have the day and amount"),
    "two formats, within both": (
        [listed("f", *REFS, days=(1, 4)), listed("g", *OTHER_REFS, days=(1, 4), format="ofx")],
        [1, 7], ""),
    "on the last day of one": (
        [listed("f", *REFS, days=(1, 4)), listed("g", *OTHER_REFS, days=(1, 3), format="ofx")],
        [1, 7], "1 of its entries have the day and amount"),
    "on the first day of one": (
        [listed("f", *REFS, days=(2, 4)), listed("g", *OTHER_REFS, days=(1, 4), format="ofx")],
        [1, 7], "1 of its entries have the day and amount"),
    "on the last day, between the same balances": (
        [listed("f", *REFS, days=(1, 4), opening=5),
         listed("g", *OTHER_REFS, days=(1, 3), format="ofx", closing=13)],
        [1, 7], ""),
    "beside another one of the day": (
        [listed("f", (2, 7, "R2", None), (2, 3, "R3", None), days=(1, 4)),
         listed("g", (2, 7, "F2", None), days=(1, 4), format="ofx")],
        [3, 7], "1 of its entries have the day and amount"),
    "other entries between the same balances": (
        [listed("f", (2, 30, None, None), opening=5),
         listed("g", (2, 10, "F1", None), (2, 20, "F2", None), opening=5, format="ofx")],
        [10, 20], "1 of its entries are of days with the same balances, but other entries"),
    "the same beside a file of other days": (
        [listed("f", (2, 30, None, None), opening=5),
         listed("g", (2, 10, "F1", None), (2, 20, "F2", None), opening=5, format="ofx"),
         listed("h", (9, 1, "H1", None))],
        [1, 10, 20], "1 of its entries are of days with the same balances, but other entries"),
    "two formats, within both, and at the ends of a third": (
        [listed("f", *REFS, days=(1, 4), format="ofx"), listed("g", *REFS, format="ofx"),
         listed("h", *OTHER_REFS, days=(1, 4))], [1, 7], ""),
    "nothing, within the days of another and at its balance": (
        [listed("f", (1, 5, None, 5), (2, 7, None, 12), (3, 1, None, 13)),
         listed("g", days=(2, 2), closing=12)], [1, 5, 7], ""),
    "nothing, and the same days": (
        [listed("f", (1, 5, None, 5), (3, 1, None, 6)), listed("g", days=(3, 3), closing=6)],
        [1, 5], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_what_two_files_have_of_a_day_is_the_same_or_not(name: str) -> None:
    pages, amounts, said = APART[name]
    for order in (pages, pages[::-1]):
        kept, findings = without_overlaps(order)
        assert sorted(entry.amount for page in kept for entry in page.entries) == amounts
        assert len(findings) == bool(said)
        assert all(said in finding.detail for finding in findings)


@pytest.mark.parametrize(
    ("of_nothing", "count"),
    [
        ({"days": (2, 2), "closing": 12}, 1), ({"days": (2, 2), "closing": 13}, 2),
        ({"days": (1, 1), "closing": 5}, 1), ({"days": (1, 1), "closing": 0}, 2),
        ({"days": (3, 3), "closing": 12}, 1), ({"days": (4, 4), "closing": 12}, 2),
    ],
)  # fmt: skip
def test_a_statement_of_nothing_stays_unless_another_file_covers_it(
    of_nothing: dict[str, Any], count: int
) -> None:
    pages = [listed("f", (1, 5, None, 5), (2, 7, None, 12), days=(1, 3)), listed("g", **of_nothing)]
    assert len(without_overlaps(pages)[0]) == count


def test_files_that_share_nothing_stay_as_they_are() -> None:
    for pages in ([listed("f", *REFS)], [listed("f", *REFS), listed("g", (5, 1, None, None))]):
        kept, findings = without_overlaps(pages)
        assert kept is pages
        assert findings == []


def test_what_is_left_of_a_file_stands_around_what_another_has() -> None:
    lines = [(2, 5, None, 5), (3, 7, None, 12), (4, 1, None, 13), (5, 2, None, 15)]
    whole, part = listed("g", *lines, days=(1, 9)), listed("f", (3, 7, "R2", 12))
    whole.first, whole.last = False, False
    for order in ([whole, part], [part, whole]):
        kept, findings = without_overlaps(order)
        assert findings == []
        assert [
            (page.file, page.opening, page.closing, page.opening_on, page.closing_on,
             [entry.amount for entry in page.entries])
            for page in kept
        ] == [
            ("g", 0, 5, date(2026, 1, 1), date(2026, 1, 2), [5]),
            ("f", None, None, date(2026, 1, 3), date(2026, 1, 3), [7]),
            ("g", 12, 15, date(2026, 1, 4), date(2026, 1, 9), [1, 2]),
        ]  # fmt: skip
        assert all(page.first and page.last for page in kept)


def test_of_two_files_the_one_that_says_more_is_kept() -> None:
    more = listed("m", (2, 7, "R2", 12), (3, 1, "R3", 13))
    for less in (listed("l", (1, 5, "R1", None), (2, 7, "R2", None)),
                 listed("l", (1, 5, None, 5), (2, 7, None, 12)),
                 listed("l", (2, 7, "R2", 12))):  # fmt: skip
        for order in ([more, less], [less, more]):
            kept, _ = without_overlaps(order)
            (file,) = {page.file for page in kept for entry in page.entries if entry.amount == 7}
            assert file == "m"
            assert more in kept


@pytest.mark.parametrize("opens_on", [date(2026, 1, 2), None])
def test_of_one_day_the_balances_say_which_comes_first(opens_on: date | None) -> None:
    """In whatever order the files are given; two of them have the same."""
    first = listed("a", (1, 5, None, 5), opening=0, closing=5)
    last = listed("b", (2, 3, None, 15), opening=12, closing=15)
    middle = [listed(file, (2, 7, None, 12), opening=5, closing=12) for file in "cd"]
    for page in (last, *middle):
        page.opening_on = opens_on
    for pages in itertools.permutations([first, last, *middle]):
        kept, findings = without_overlaps([*pages])
        assert [page.opening for page in kept] == [0, 5, 12]
        assert findings == []


def test_a_day_that_ends_as_it_began_stays_before_the_next() -> None:
    """Both begin with the balance of the first; the last one's days begin as early."""
    first = listed("a", (1, 5, None, 5), opening=0, closing=5)
    even = listed("b", (2, 3, None, 8), (2, -3, None, 5), opening=5, closing=5)
    last = [listed(file, (3, 7, None, 12), days=(2, 3), opening=5, closing=12) for file in "cd"]
    for pages in itertools.permutations([first, even, *last]):
        kept, _ = without_overlaps([*pages])
        assert [(page.opening, page.closing) for page in kept] == [(0, 5), (5, 5), (5, 12)]


def test_a_file_without_days_of_its_own_covers_those_of_its_entries() -> None:
    for on, count in ((1, 1), (2, 1), (3, 1), (4, 2)):
        whole = listed("f", (1, 5, None, 5), (2, 7, None, 12), (3, 1, None, 13))
        whole.opening_on = whole.closing_on = None
        nothing = listed("g", days=(on, on), closing={1: 5, 2: 12}.get(on, 13))
        assert len(without_overlaps([whole, nothing])[0]) == count
