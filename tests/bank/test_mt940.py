"""MT940 down to each field: what it says, and where it is refused."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from fundlab.bank.model import Page
from fundlab.bank.mt940 import read_mt940

D = Decimal


def page_of(*fields: str) -> Page:
    (page,) = read_mt940("\n".join([":20:S", *fields, ""]).encode())
    return page


OPENS, CLOSES = ":60F:C260101USD9,00", ":62F:D260131USD8,50"


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ((":25:12345678\nEUR", OPENS), {"account": "12345678", "asset": "USD"}),
        ((":25P:12345678", OPENS), {"account": "12345678"}),
        ((":25:", OPENS), {"account": None}),
        ((":28C:5/2", OPENS), {"sequence": 5, "page": 2}),
        ((":28:5", OPENS), {"sequence": 5, "page": None}),
        ((":28C:0/0", OPENS), {"sequence": None, "page": None}),
        ((":28C:5/", OPENS), {"sequence": 5, "page": None}),
        ((f":28C:{'9' * 18}/{'9' * 9}", OPENS), {"sequence": 10**18 - 1, "page": 10**9 - 1}),
        ((OPENS, CLOSES), {"kind": "statement", "opening": 9, "closing": D("-8.5"), "first": True,
                           "last": True, "opening_on": date(2026, 1, 1),
                           "closing_on": date(2026, 1, 31), "available": None}),
        ((":60M:C260102USD9,00",), {"opening": 9, "first": False, "last": True}),
        ((OPENS, ":62M:C260131USD8,"), {"closing": 8, "first": True, "last": False}),
        ((OPENS, ":64:C260131USD7,"), {"closing": None, "available": 7}),
        ((":60F:C260101USD9,00-\nABNANL2A",), {"opening": 9}),
        ((":34F:PLN0", ":90C:2PLN3,50", ":90D:1PLN4,"),
         {"kind": "interim", "asset": "PLN", "opening": None, "declared": {
             "credits": 2, "credit_sum": D("3.5"), "debits": 1, "debit_sum": 4}}),
        ((":90C:2PLN3,",), {"asset": "PLN"}),
        ((":34F:PLN0", ":61:2601010101C10,00NMSCREF"), {"asset": "PLN"}),
        ((":34F:", ":61:2601010101C10,00NMSCREF"), {"asset": None}),
    ],
)  # fmt: skip
def test_a_page_has_what_its_fields_say(fields: tuple[str, ...], found: dict[str, Any]) -> None:
    page = page_of(*fields)
    assert {name: getattr(page, name) for name in found} == found
    assert page.contradictions == []
    assert page.line == 1


def test_a_balance_in_another_currency_contradicts_the_others() -> None:
    page = page_of(OPENS, ":62F:C260131EUR8,50")
    said = ":62F: is in EUR, the others in USD"
    assert page.contradictions == [("currency", "USD", "EUR", said)]
    assert page.asset == "USD"


@pytest.mark.parametrize(
    ("line", "booked", "amount", "more"),
    [
        ("2601020103C5,00NTRFOWN//BANK\nmore of it", date(2026, 1, 3), "5.00",
         {"valued_on": date(2026, 1, 2), "bank_ref": "BANK", "own_ref": "OWN", "code": "NTRF",
          "memo": "OWN more of it", "reversal": False, "asset": "USD"}),
        ("260102D5,NTRFNONREF", date(2026, 1, 2), "-5",
         {"bank_ref": "NONREF", "own_ref": "NONREF", "memo": "NONREF"}),
        ("260102C5,NTRF//BANK", date(2026, 1, 2), "5", {"bank_ref": "BANK", "own_ref": None}),
        ("260102C5,NTRF", date(2026, 1, 2), "5", {"bank_ref": None, "memo": None}),
        ("260102    C5,NTRFX", date(2026, 1, 2), "5", {"valued_on": date(2026, 1, 2)}),
        # The entry date has no year: it is the one that is nearest to the value date.
        ("2512310102C5,NTRFX", date(2026, 1, 2), "5", {"valued_on": date(2025, 12, 31)}),
        ("2601021231C5,NTRFX", date(2025, 12, 31), "5", {"valued_on": date(2026, 1, 2)}),
        ("2601020229C5,NTRFX", date(2026, 2, 28), "5", {}),
        ("2402280229C5,NTRFX", date(2024, 2, 29), "5", {}),
        ("791231C5,NTRFX", date(2079, 12, 31), "5", {}),
        ("800101C5,NTRFX", date(1980, 1, 1), "5", {}),
        ("260102RC5,NTRFX", date(2026, 1, 2), "-5", {"reversal": True}),
        ("260102RD5,NTRFX", date(2026, 1, 2), "5", {"reversal": True}),
        ("260102DR5, NTRF X", date(2026, 1, 2), "-5", {"own_ref": "X", "reversal": False}),
        (f"260102C{'0' * 21}5,50NTRFX", date(2026, 1, 2), "5.50", {}),
    ],
)  # fmt: skip
def test_an_entry_has_what_its_line_says(
    line: str, booked: date, amount: str, more: dict[str, Any]
) -> None:
    page = page_of(OPENS, f":61:{line}", ":61:260105C1,NTRFY")
    first, second = page.entries
    assert (first.booked_on, str(first.amount), first.position, first.line) == (
        booked, amount, 1, 3
    )  # fmt: skip
    assert {name: getattr(first, name) for name in more} == more
    assert second.position == 2


@pytest.mark.parametrize(
    ("fields", "memo", "name"),
    [
        ((":86:rent\nMay",), "X rent May", None),
        ((":86:/EREF/1/NAME/ACME B\nV/REMI/7",), "X /EREF/1/NAME/ACME B V/REMI/7", "ACME BV"),
        ((":86:166?00GUT?20one?32ACME?33 LTD?21two",), "X GUT one ACME LTD two", "ACME LTD"),
        # A subfield of 27 signs goes on in the next, one of 26 does not.
        ((f":86:166?20{'a' * 27}?21b",), f"X {'a' * 27}b", None),
        ((f":86:166?20{'a' * 26}?21b",), f"X {'a' * 26} b", None),
        ((":86:one", ":86:two /NAME/ACME/"), "X one two /NAME/ACME/", "ACME"),
        # After the closing balance or the totals it is of the statement.
        ((CLOSES, ":86:thanks"), "X", None),
        ((":90D:0USD0,", ":86:thanks"), "X", None),
        ((":90C:0USD0,", ":86:thanks"), "X", None),
    ],
)  # fmt: skip
def test_details_belong_to_the_entry_before_them(
    fields: tuple[str, ...], memo: str, name: str | None
) -> None:
    (entry,) = page_of(OPENS, ":61:260102C5,NTRFX", *fields).entries
    assert (entry.memo, entry.counterparty) == (memo, name)


def test_what_stands_between_messages_is_passed_over() -> None:
    for end in ("-", "-}", " -}x", f"-{'x' * 40}", "\x1a"):
        first, second = read_mt940(
            f"junk\n:20:A\n{OPENS}\n:61:260102C5,NTRFX\n{CLOSES}\n{end}\nbetween\n:20:B\n{OPENS}\n"
            .encode()
        )  # fmt: skip
        assert (len(first.entries), first.closing, second.line) == (1, D("-8.5"), 8)
    totals, more = read_mt940(f":20:A\n:90D:0USD0,\n-\nbetween\n:20:B\n{OPENS}\n".encode())
    assert (totals.declared, more.opening, totals.id, more.id) == (
        {"debits": 0, "debit_sum": 0}, 9, "A", "B"
    )  # fmt: skip
    assert len(read_mt940(f":20:A\n:25:1\n:20:B\n{OPENS}\n".encode())) == 2
    # In the middle of a message it is of the text, unless it begins with a hyphen.
    page = page_of(OPENS, ":61:260102C5,NTRFX", ":86:rent", "-and", "{1:F01}", "heat\x1a", CLOSES)
    assert page.entries[0].memo == "X rent heat"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f":25:1\n{OPENS}", "line 1: :25:'1': it stands before :20:, which begins a statement"),
        (":20:S\n:25:1\n", "no :61: line and no balance"),
        (f":20:S\n:28C:x\n{OPENS}", "line 2: :28C:'x': a statement number such as 235/1 is needed"),
        (f":20:S\n:28C:{'9' * 19}\n{OPENS}", "a statement number such as"),
        (":20:S\n:60F:USD9,00", "line 2: .* a balance such as C261031USD1000,00 is needed"),
        (":20:S\n:60F:C261301USD9,00", "month must be in 1..12"),
        (":20:S\n:90C:USD9,00", "a count and sum such as 3USD1000,00 are needed"),
        (":20:S\n:61:2601021331C5,NTRFX", "1331 is not a day of a month"),
        (":20:S\n:61:260102C5,00", "it has no type after 5,00, as in NTRF"),
        (":20:S\n:61:260102X", "'260102X' is not a field of MT940"),
        (f":20:S\n:61:260102C{'0' * 22}5,50NTRFX", "decimals, 25 signs"),
        (":20:S\n:61:260102C5NTRFX", "'5' is not an amount of MT940"),
        (":20:S\n:61:260102C5,0,0NTRFX", "'5,0,0' is not an amount of MT940"),
        (
            ":20:S\n :61:260102C5,NTRFX\n:61:260102C5,NTRFX\n :61:260102C5,NTRFX",
            "line 2 is indented: of 3 :61: lines 1 can be read",
        ),
    ],
)
def test_a_field_that_cannot_be_read_is_named_by_its_line(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_mt940(text.encode())
