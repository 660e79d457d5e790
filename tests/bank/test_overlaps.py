"""Downloads of one account that overlap, in any order and format, give each entry once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from amounts import exactly

from fundlab import bank
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
