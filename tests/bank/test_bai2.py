"""BAI2 down to each field: signs, decimals, control totals and where a record is refused."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from fundlab.bank.bai2 import read_bai2
from fundlab.bank.model import Page

D = Decimal


def file_of(
    *records: str, account: str = "03,123,USD,010,1000,,,015,1000,,/", group: str = "USD",
    total: int | None = None, day: str = "260215",
) -> bytes:  # fmt: skip
    """A file of one account, whose trailers have the right totals unless ``total`` is given."""
    amounts = [int(r.split(",")[2] or 0) for r in records if r.startswith("16,")]
    summed = sum(int(x) for x in account.rstrip("/").split(",")[4::4] if x.strip("+-").isdigit())
    total = summed + sum(amounts) if total is None else total
    count = len(records) + 2
    return "\n".join([
        f"01,A,B,{day},1459,1,,,2/", f"02,B,A,1,{day},2400,{group},2/", account, *records,
        f"49,{total},{count}/", f"98,{total},1,{count + 2}/", f"99,{total},1,{count + 4}/", "",
    ]).encode()  # fmt: skip


def page_of(*records: str, **more: Any) -> Page:
    (page,) = read_bai2(file_of(*records, **more))
    return page


@pytest.mark.parametrize(
    ("code", "sign"),
    [(100, 1), (399, 1), (400, -1), (699, -1), (920, 1), (959, 1), (960, -1), (999, -1)],
)
def test_a_type_says_which_way_the_money_went(code: int, sign: int) -> None:
    (entry,) = page_of(f"16,{code},1250,,R1,,x").entries
    assert (entry.amount, entry.code) == (sign * D("12.5"), str(code))


@pytest.mark.parametrize("code", [99, 700, 889, 891, 919, 1000])
def test_a_type_that_says_no_way_is_refused(code: int) -> None:
    with pytest.raises(ValueError, match=f"line 4: 16,.*type {code:03} says neither"):
        page_of(f"16,{code:03},1250,,R1,,x")


@pytest.mark.parametrize(
    ("currency", "amount"),
    [("USD", "12.50"), ("JPY", "1250"), ("KWD", "1.250"), ("XPF", "1250"), ("TND", "1.250")],
)
def test_the_last_digits_are_the_currencys_decimals(currency: str, amount: str) -> None:
    for account, group in ((f"03,123,{currency},,,,/", "USD"), ("03,123,,,,,/", currency)):
        page = page_of("16,100,1250,,R1,,x", account=account, group=group)
        assert (str(page.entries[0].amount), page.asset) == (amount, currency)
    assert page_of("16,100,1250,,R1,,x", account="03,123,,,,,/", group="").asset == "USD"


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ("16,195,1500,,BANK,OWN,rent May", {"bank_ref": "BANK", "own_ref": "OWN",
                                            "memo": "OWN rent May", "valued_on": None, "line": 4}),
        ("16,195,1500,,,OWN,x", {"bank_ref": "OWN", "own_ref": "OWN"}),
        ("16,195,1500,,,,", {"bank_ref": None, "own_ref": None, "memo": None}),
        ("16,195,1500,Z,BANK,OWN,x", {"bank_ref": "BANK"}),
        ("16,195,1500,0,BANK,OWN,x", {"bank_ref": "BANK"}),
        ("16,195,1500,1,BANK,OWN,x", {"bank_ref": "BANK"}),
        ("16,195,1500,2,BANK,OWN,x", {"bank_ref": "BANK"}),
        ("16,195,1500,S,1,2,3,BANK,OWN,x", {"bank_ref": "BANK"}),
        ("16,195,1500,V,260218,1200,BANK,OWN,x", {"bank_ref": "BANK",
                                                  "valued_on": date(2026, 2, 18)}),
        ("16,195,1500,V,,,BANK,OWN,x", {"bank_ref": "BANK", "valued_on": None}),
        ("16,195,1500,V,,1200,BANK,OWN,x", {"bank_ref": "BANK", "valued_on": None}),
        ("16,195,1500,D,1,0,1500,BANK,OWN,x", {"bank_ref": "BANK"}),
        ("16,195,1500,D,2,0,700,1,800,BANK,OWN,x", {"bank_ref": "BANK"}),
        ("16,195,1500,,BANK,OWN,a,b/", {"memo": "OWN a,b"}),
        ("16,195,1500,,BANK,,REVERSAL of 7", {"reversal": True}),
        ("16,195,1500,,BANK,,of 7", {"reversal": False}),
        ("16,195,,,BANK,,x", {"amount": D(0)}),
    ],
)  # fmt: skip
def test_an_entry_has_what_its_record_says(record: str, found: dict[str, Any]) -> None:
    first, second = page_of(record, "16,195,1,,R2,,y").entries
    assert {name: getattr(first, name) for name in found} == found
    assert (first.position, second.position) == (1, 2)
    assert (first.booked_on, second.bank_ref) == (date(2026, 2, 15), "R2")


def test_an_account_has_its_balances_and_totals() -> None:
    account = ("03, 123 ,USD,010,1000,,,015,-900,,,045,800,,,100,500,2,,400,-300,1,,"
               "410,7,3,/")  # fmt: skip
    page = page_of(
        "16,195,500,,R1,,x", account=account, total=1000 - 900 + 800 + 500 - 300 + 7 + 500
    )
    assert page.contradictions == []
    assert (page.account, page.asset, page.line) == ("123", "USD", 3)
    assert (page.opening, page.closing, page.available) == (10, -9, 8)
    assert page.declared == {"credit_sum": 5, "credits": 2, "debit_sum": 3, "debits": 1}
    assert (page.opening_on, page.closing_on) == (date(2026, 2, 15), date(2026, 2, 15))
    # What a bank leaves out at the end may be left out with its commas.
    for left in ("", ",", ",,"):
        page = page_of("16,195,500,,R1,,x", account=f"03,123,USD,010,1000{left}/", total=1500)
        assert (page.opening, page.contradictions) == (10, [])
    # Without counts and amounts nothing is declared.
    page = page_of("16,195,500,,R1,,x", account="03,123,USD,100,,2,,400,300,,/", total=800)
    assert page.declared == {"debit_sum": 3}


@pytest.mark.parametrize(
    ("declared", "listed", "partial", "summary"),
    [
        ("100,500,,", ["16,195,500,,R1,,x"], False, False),
        ("100,501,,", ["16,195,500,,R1,,x"], True, True),
        ("100,499,,", ["16,195,500,,R1,,x"], False, False),
        ("100,50,,", ["16,195,50,,R1,,x"], False, False),
        ("400,50,,", ["16,475,50,,R1,,x"], False, False),
        ("400,501,,", ["16,475,500,,R1,,x"], True, True),
        ("100,501,,,400,2,,", ["16,195,500,,R1,,x", "16,475,3,,R2,,y"], False, False),
        ("100,501,,,400,3,,", ["16,195,500,,R1,,x", "16,475,3,,R2,,y"], True, True),
        ("100,500,,", [], False, True),
    ],
)  # fmt: skip
def test_a_report_may_list_a_part_of_what_it_sums_up(
    declared: str, listed: list[str], partial: bool, summary: bool
) -> None:
    sums = sum(int(x) for x in declared.split(",")[1::4])
    total = sums + sum(int(record.split(",")[2]) for record in listed)
    page = page_of(*listed, account=f"03,123,USD,{declared}/", total=total)
    assert (page.partial, page.summary_only, page.contradictions) == (partial, summary, [])


@pytest.mark.parametrize(
    ("was", "becomes", "found"),
    [
        ("49,3500,3", "49,3499,3", ("control_total", D("34.99"), D("35.00"))),
        ("49,3500,3", "49,3500,4", ("records", "4", 3)),
        ("98,3500,1,5", "98,3501,1,5", ("control_total", D("35.01"), D("35.00"))),
        ("98,3500,1,5", "98,3500,2,5", ("accounts", "2", 1)),
        ("98,3500,1,5", "98,3500,1,6", ("records", "6", 5)),
        ("99,3500,1,7", "99,3499,1,7", ("control_total", D("34.99"), D("35.00"))),
        ("99,3500,1,7", "99,3500,2,7", ("groups", "2", 1)),
        ("99,3500,1,7", "99,3500,1,8", ("records", "8", 7)),
    ],
)  # fmt: skip
def test_a_trailer_that_counts_otherwise_contradicts(
    was: str, becomes: str, found: tuple[Any, ...]
) -> None:
    text = file_of("16,195,1500,,R1,,x").decode()
    assert was in text
    (page,) = read_bai2(text.replace(was, becomes).encode())
    above = [one[:3] for one in page.contradictions]
    assert found in above
    told = [f"is declared as {said}, found is {counted}" for _, said, counted in above]
    assert all(words in one[3] for words, one in zip(told, page.contradictions, strict=True))
    # A total that is declared wrong is wrong in the one above, too.
    assert len(above) == (2 if found[0] == "control_total" and not was.startswith("99") else 1)


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ("03,123", "05,123", "line 3: '05,123.* is not a record of BAI2"),
        ("03,123,USD", "03 123", "line 3: .* is not a record of BAI2"),
        ("01,A", "02,A", "does not begin with a record 01 and end with 99"),
        ("99,3500,1,7/\n", "", "does not begin with a record 01 and end with 99"),
        ("98,3500,1,5/\n", "", "line 6: 99,.*: it does not close what was opened last"),
        (
            "03,123,USD,010,1000,,,015,1000,,/\n16,195,1500,,R1,,x\n49,3500,3/\n",
            "",
            "it holds no account",
        ),
        ("49,3500,3/\n", "", "line 5: 98,.*: it does not close what was opened last"),
        ("98,3500,1,5/", "03,9,USD,,,,/\n98,3500,1,5/", "line 7: 98,.*: it does not close"),
        ("49,3500,3/", "03,9,USD,,,,/", "line 5: 03,.*: the trailer of what stands before it is"),
        ("98,3500,1,5/", "02,B,A,1,260215,2400,USD,2/", "line 6: 02,.*: the trailer of what"),
        ("16,195,1500", "49,2000,2/\n16,195,1500", "line 5: 16,.*: it stands outside of an acc"),
        ("16,195,1500,,", "16,195,1500,X,", "line 4: .* funds type 'X' is not one of 0, 1, 2, D"),
        ("260215,2400", "2602,2400", "line 3: .*'2602' is not a day such as 261031"),
        ("260215,2400", "261315,2400", "line 3: .*month must be in 1..12"),
        ("16,195,1500", "16,195,1500.00", "line 4: 16,.*'1500.00' is not a number of digits alone"),
        ("16,195,1500", "16,195,1e5", "line 4: .*'1e5' is not a number of digits alone"),
        ("16,195,1500", "16,195,1_500", "line 4: .*digits alone"),
        ("16,195,1500", "16,195,NaN", "line 4: .*digits alone"),
        ("010,1000,", "010,10.00,", "line 3: 03,.*'10.00' is not a number of digits alone"),
        ("49,3500", "49,35.00", "line 5: 49,.*'35.00' is not a number of digits alone"),
        ("02,B,A,1,", "02,B,A,4,", "line 2: 02,.*the group is for testing only: take it out"),
        ("02,B,A,1,", "02,B,A,2,", "line 2: 02,.*the group is a deletion of what was sent before"),
    ],
)
def test_a_record_that_cannot_be_read_is_named_by_its_line(
    was: str, becomes: str, told: str
) -> None:
    text = file_of("16,195,1500,,R1,,x").decode()
    assert was in text
    with pytest.raises(ValueError, match=told):
        read_bai2(text.replace(was, becomes).encode())


@pytest.mark.parametrize(
    ("modifier", "kind"),
    [("", "statement"), ("1", "interim"), ("2", "statement"), ("3", "interim"), ("4", "statement")],
)
def test_what_is_interim_is_no_statement(modifier: str, kind: str) -> None:
    assert page_of("16,195,1500,,R1,,x", group=f"USD,{modifier}").kind == kind


def test_two_accounts_and_two_groups_have_totals_of_their_own() -> None:
    account = "03,{},USD,010,100,,/\n16,195,50,,R1,,x\n49,150,3/\n"
    group = (
        "02,B,A,1,260215,2400,USD,2/\n" + account.format(1) + account.format(2) + "98,300,2,8/\n"
    )
    text = f"01,A,B,260215,1459,1,,,2/\n{group}{group}99,600,2,18/\n"
    pages = read_bai2(text.encode())
    assert [page.account for page in pages] == ["1", "2"] * 2
    assert [page.contradictions for page in pages] == [[]] * 4
    wrong = text.replace("99,600,2,18", "99,601,1,17")
    parts = [one[0] for page in read_bai2(wrong.encode()) for one in page.contradictions]
    assert parts == ["control_total", "records", "groups"]


def test_a_record_goes_on_in_the_next() -> None:
    # Of an account a field is cut or ended, of an entry the text has lines.
    account = "03,123,USD,010,10\n88,00,,,015/\n88,1000,,/"
    text = file_of("16,195,1500,,R1,,one/\n88,two/\n88,three", account=account, total=3500).decode()
    text = (
        text.replace("49,3500,3", "49,3500,7").replace(",1,5/", ",1,9/").replace(",1,7/", ",1,11/")
    )
    (page,) = read_bai2(text.encode())
    assert (page.opening, page.closing, page.contradictions) == (10, 10, [])
    assert page.entries[0].memo == "one two three"
    assert page.entries[0].line == 6
