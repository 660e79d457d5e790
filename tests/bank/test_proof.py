"""A statement that was cut or edited is refused by name; an honest one is not."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from made_statements import MUTATIONS, made_file

from fundlab.bank import statements
from fundlab.bank.model import Entry, Page
from fundlab.bank.proof import prove
from fundlab.base.errors import AnalysisError, StatementError

D = Decimal


def refuse_mutants(path: Path, format: str, count: int) -> None:
    for number in range(count):
        for name, mutate in MUTATIONS.items():
            rng = random.Random(f"{format} {name} {number}")
            one = made_file(rng, format)
            text = mutate(rng, one)
            assert text != one.text
            try:
                one.read(path, text)
            except AnalysisError as error:
                refused = error
            else:
                pytest.fail(f"{format}, {name}, {number}: accepted\n{text}")
            assert str(path) in str(refused)
            if isinstance(refused, StatementError):
                assert refused.file == str(path)
                assert refused.statement
                assert refused.declared != refused.found


def accept_honest(path: Path, format: str, count: int) -> None:
    for number in range(count):
        one = made_file(random.Random(f"honest {format} {number}"), format)
        read = one.read(path)
        assert read.findings.empty
        assert set(read.statements["proved"]) <= {"balances", "counts", "follows"}


@pytest.mark.parametrize("format", statements.FORMATS)
def test_mutated_statements_are_refused(format: str, tmp_path: Path) -> None:
    refuse_mutants(tmp_path / "statement", format, 3)


@pytest.mark.parametrize("format", statements.FORMATS)
def test_honest_statements_are_accepted(format: str, tmp_path: Path) -> None:
    accept_honest(tmp_path / "statement", format, 4)


@pytest.mark.campaign
@pytest.mark.parametrize("format", statements.FORMATS)
def test_a_thousand_mutated_statements_are_refused(format: str, tmp_path: Path) -> None:
    refuse_mutants(tmp_path / "statement", format, 20)  # 20 × 7 kinds × 8 formats: 1,120


@pytest.mark.campaign
@pytest.mark.parametrize("format", statements.FORMATS)
def test_two_hundred_honest_statements_are_accepted(format: str, tmp_path: Path) -> None:
    accept_honest(tmp_path / "statement", format, 200)


# ------------------------------------------------------------------------- each rule at its bound


def page(
    number: int | None, opening: int | None, closing: int | None, *amounts: int,
    on: date = date(2026, 1, 1), **more: Any,
) -> Page:  # fmt: skip
    """Of MT940 and a file of its own, unless ``more`` says otherwise."""
    entries = [Entry(on, D(amount), position=n) for n, amount in enumerate(amounts, start=1)]
    given = {"format": "mt940", "entries": entries, "opening_on": on, "closing_on": on, **more}
    opens, closes = (None if x is None else D(x) for x in (opening, closing))
    return Page("statement", 1, "A", "USD", sequence=number, opening=opens, closing=closes, **given)


def day(number: int) -> date:
    return date(2026, 1, number)


def counted(name: str, count: int, *amounts: int, **more: Any) -> list[Page]:
    return [page(1, None, None, *amounts, declared={name: D(count)}, **more)]


def running(*balances: int | None) -> list[Page]:
    entries = [
        Entry(day(1), D(5), balance=None if balance is None else D(balance), position=n)
        for n, balance in enumerate(balances)
    ]
    return [page(1, None, None, entries=entries)]


FIRST, SECOND = {"page": 1, "last": False}, {"page": 2, "first": False}
RULES: dict[str, tuple[list[Page], list[tuple[str, str, str, int]]]] = {
    "one after the other": ([page(1, 0, 5, 5), page(2, 5, 7, 2)], []),
    "a number left out": ([page(5, 0, 5, 5), page(7, 5, 7, 2)], [("sequence", "6", "7", 2)]),
    "the year's first": (
        [page(52, 0, 5, 5, on=date(2025, 12, 31)), page(1, 5, 7, 2, on=day(1))], []),
    "the year's second": (
        [page(52, 0, 5, 5, on=date(2025, 12, 31)), page(2, 5, 7, 2, on=day(1))],
        [("sequence", "53", "2", 2)]),
    "the same number in two years": (
        [page(1, 0, 5, 5, on=date(2025, 3, 1)), page(1, 5, 7, 2, on=date(2026, 3, 1))], []),
    "the same number in a year": (
        [page(1, 0, 5, 5), page(1, 5, 7, 2, on=day(2))],
        [("repeated", "one statement", "two", 2)]),
    "reports are numbered anew each day": (
        [replace(page(number, None, None, on=day(n)), kind="report")
         for n, number in enumerate((9, 1, None), start=1)], []),
    "another opening": ([page(1, 0, 5, 5), page(2, 6, 8, 2)], [("follows", "5", "6", 2)]),
    "an unknown closing before": (
        [page(1, 0, None, 5, format="bai2"), page(2, 6, 8, 2, format="bai2")], []),
    "another closing": ([page(1, 0, 6, 5)], [("balance", "6", "5", 1)]),
    "no opening": ([page(1, None, 5, 5)], [("incomplete", "an opening balance", "none", 1)]),
    "no closing": ([page(1, 0, None, 5)], [("incomplete", "a closing balance", "none", 1)]),
    "no closing of camt": (
        [page(1, 0, None, 5, format="camt.053")],
        [("incomplete", "a closing balance", "none", 1)]),
    "neither": ([page(1, None, None, 5)], []),
    "no opening of bai2": ([page(1, None, 5, 5, format="bai2")], []),
    "two pages": ([page(1, 0, 5, 5, **FIRST), page(1, 5, 7, 2, **SECOND)], []),
    "two pages, the second first": (
        [page(1, 5, 7, 2, **SECOND), page(1, 0, 5, 5, **FIRST)], []),
    "numbers of two formats": (
        [page(9, 0, 5, 5), page(1, 5, 7, 2, format="camt.053", on=day(2))], []),
    "two pages without a number in one file, the second first": (
        [page(None, 5, 7, 2, file="f", **SECOND), page(None, 0, 5, 5, file="f", **FIRST)], []),
    "pages from the number nothing on": (
        [page(1, 0, 5, 5, last=False), page(1, 5, 7, 2, **SECOND | {"page": 1})], []),
    "the second page after the number nothing": (
        [page(1, 0, 5, 5, last=False), page(1, 5, 7, 2, **SECOND)],
        [("page", "a page before it", "none", 2)]),
    "a page left out": (
        [page(1, 0, 5, 5, **FIRST), page(1, 5, 7, 2, **SECOND | {"page": 3})],
        [("page", "a page before it", "none", 2)]),
    "no first page": ([page(1, 5, 7, 2, **SECOND)], [("page", "a page before it", "none", 1)]),
    "no last page": ([page(1, 0, 5, 5, **FIRST)], [("page", "a page after it", "none", 1)]),
    "a page after the last": (
        [page(1, 0, 5, 5, page=1), page(1, 5, 7, 2, **SECOND)],
        [("page", "a page before it", "none", 2)]),
    "a statement before the last page": (
        [page(1, 0, 5, 5, **FIRST), page(2, 5, 7, 2)], [("page", "a page after it", "none", 1)]),
    "out of order in one file": (
        [page(2, 5, 7, 2, file="f"), page(1, 0, 5, 5, file="f")],
        [("order", "after statement 2 of account A", "before it", 2)]),
    "out of order from the number nothing on": (
        [page(1, 5, 7, 2, file="f"), page(0, 0, 5, 5, file="f")],
        [("order", "after statement 1 of account A", "before it", 2)]),
    "out of order in two": ([page(2, 5, 7, 2, file="f"), page(1, 0, 5, 5, file="g")], []),
    "out of order by days": (
        [page(None, 5, 7, 2, file="f", on=day(2)), page(None, 0, 5, 5, file="f")],
        [("order", "after the statement of account A", "before it", 2)]),
    "days of one with a number": (
        [page(9, 0, 5, 5, file="f"), page(None, 5, 7, 2, file="f", on=day(2))], []),
    **{
        f"{name} {count}": (
            counted(name, count, 5, -2, 0), [(name, str(count), str(right), 1)] * (count != right)
        )
        for name, right in (("entries", 3), ("credits", 1), ("debits", 1), ("credit_sum", 5),
                            ("debit_sum", 2), ("sum", 7), ("net", 3))
        for count in (right - 1, right, right + 1)
    },
    "pending ones may count": (counted("entries", 2, 5, unbooked=[D(3)]), []),
    "and may not": (counted("entries", 1, 5, unbooked=[D(3)]), []),
    "nothing else may": (counted("entries", 3, 5, unbooked=[D(3)]), [("entries", "3", "1", 1)]),
    "a batch counts once": (
        counted("entries", 1, entries=[Entry(day(1), D(2), position=1)] * 2), []),
    "a summary has no entries": (counted("entries", 3, summary_only=True), []),
    "running balances": (running(5, 10, 15), []),
    "a running balance": (running(5, 11), [("running_balance", "11", "10", 1)]),
    "after a balance of nothing": (running(0, 6), [("running_balance", "6", "5", 1)]),
    "one of three": (running(5, None, 16), []),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_broken_beyond_its_bound_and_not_on_it(name: str) -> None:
    pages, broken = RULES[name]
    for number, each in enumerate(pages, start=1):
        each.line = number
        each.file = each.file or f"file {number}"
    _, findings = prove(pages)
    assert [(one.rule, one.declared, one.found, one.line) for one in findings] == broken


@pytest.mark.parametrize(
    ("pages", "proved"),
    [
        ([page(1, 0, 5, 5)], ["balances"]),
        ([page(1, 0, None, 5)], ["no"]),
        ([page(1, 0, 5, summary_only=True)], ["no"]),
        (counted("entries", 1, 5), ["counts"]),
        (counted("entries", 1, 5, summary_only=True), ["no"]),
        ([page(1, 0, 5, 5, declared={"entries": D(1)})], ["balances"]),
        # OFX declares no opening balance: the one before is it.
        ([page(None, None, 5, 5, format="ofx"), page(None, None, 7, 2, format="ofx", on=day(2))],
         ["no", "follows"]),
        ([page(None, None, 5, 5, format="ofx"),
          page(None, None, 7, format="ofx", on=day(2), summary_only=True)], ["no", "no"]),
        ([page(None, None, 5, 5, format="ofx"), page(None, None, None, 2, format="ofx", on=day(2))],
         ["no", "no"]),
    ],
)  # fmt: skip
def test_a_statement_says_what_it_is_proved_by(pages: list[Page], proved: list[str]) -> None:
    kept, _ = prove(pages)
    assert [each.proved for each in kept] == proved


def test_a_statement_that_follows_has_the_balance_before_it() -> None:
    first = page(None, None, 5, 5, format="ofx")
    second = page(None, None, 8, 2, format="ofx", on=day(2))
    _, (finding,) = prove([first, second])
    assert (finding.rule, finding.declared, finding.found) == ("balance", "8", "7")
    assert second.opening == 5
    assert "the opening 5 and 1 entry of 2 in all give 7" in finding.detail


def test_what_is_there_twice_is_one_and_what_has_no_id_is_not() -> None:
    assert len(prove([page(1, 0, 5, 5), page(1, 0, 5, 5)])[0]) == 1
    for given, count in (("N1", 1), (None, 2)):
        notices = [page(None, None, None, 5, id=given, format="camt.054", file="f") for _ in "ab"]
        for notice in notices:
            notice.kind = "notice"
        assert len(prove(notices)[0]) == count
    for ref, count in (("F1", 1), (None, 2)):
        entries = [Entry(day(1), D(5), bank_ref=ref, line=n, position=n) for n in (1, 2)]
        (kept,), findings = prove([page(None, None, None, format="ofx", entries=entries)])
        assert (len(kept.entries), len(findings)) == (count, 2 - count)
        assert [entry.line for entry in kept.entries] == [1, 2][:count]
    kept_as_it_is = [Entry(day(1), D(5), bank_ref="R", line=n, position=n) for n in (1, 2)]
    (csv,), findings = prove([page(None, None, None, format="csv", entries=kept_as_it_is)])
    assert (len(csv.entries), findings) == (2, [])


def test_findings_stand_in_the_order_of_files_and_lines() -> None:
    pages = [page(1, 0, 6, 5, file="g"), page(2, 6, 9, 2, file="f")]
    pages[0].line, pages[1].line = 1, 7
    more = page(3, 9, 9, 1, file="f")
    more.line = 3
    _, findings = prove([*pages, more])
    assert [(one.file, one.line) for one in findings] == [("f", 3), ("f", 7), ("g", 1)]


def test_two_kinds_of_one_account_are_said_of_the_last() -> None:
    pages = [page(None, 0, 5, 5, file="a"), page(None, 5, 7, 2, file="b", on=day(2))]
    pages[1].kind = "report"
    _, findings = prove(pages)
    assert [(one.rule, one.file) for one in findings] == [("kinds", "b")]
