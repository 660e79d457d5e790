"""CSV down to each rule: where its table stands, its days and amounts, which way the money went."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from fundlab.bank.csv_file import date_form, decimal_sign, read_csv
from fundlab.bank.model import Page
from fundlab.base.errors import AnalysisError

D = Decimal


def page_of(*lines: str, **habits: Any) -> Page:
    (page,) = read_csv("\n".join([*lines, ""]).encode(), habits)
    return page


def amounts(page: Page) -> list[Decimal]:
    return [entry.amount for entry in page.entries]


@pytest.mark.parametrize(
    ("days", "form"),
    [
        (["2026-10-31"], "iso"), (["2026-10-31T23:00:00"], "iso"), (["20261031"], "%Y%m%d"),
        (["1.2.2026"], "%d.%m.%Y"), (["01.02.26"], "%d.%m.%y"), (["13.13.2026"], "%d.%m.%Y"),
        (["13/12/2026"], "%d/%m/%Y"), (["12/13/2026"], "%m/%d/%Y"), (["13-12-26"], "%d-%m-%y"),
        (["01/02/2026", "31/01/2026"], "%d/%m/%Y"), (["01/02/2026", "01/31/2026"], "%m/%d/%Y"),
        (["05 Oct 2026"], "%d %b %Y"), (["05-Oct-2026"], "%d-%b-%Y"), (["05 Oct 26"], "%d %b %y"),
        (["05-Oct-26"], "%d-%b-%y"), (["Oct 05, 2026"], "%b %d, %Y"),
        (["05 October 2026"], "%d %B %Y"), (["05 May 2026", "05 October 2026"], "%d %B %Y"),
        (["31/10/2026", "x"], "iso"), (["x"], "iso"), (["2026-10-31", "31.10.2026"], "iso"),
        (["20261031", "31.10.2026"], "iso"),
    ],
)  # fmt: skip
def test_all_days_of_a_file_have_one_form(days: list[str], form: str) -> None:
    assert date_form(days) == form


@pytest.mark.parametrize("days", [["12/12/2026"], ["13/13/2026"], ["1/2/26", "12/11/26"]])
def test_days_that_may_begin_with_either_are_refused(days: list[str]) -> None:
    with pytest.raises(ValueError, match=f"'{days[0]}' may begin with the day or the month"):
        date_form(days)


@pytest.mark.parametrize(
    ("texts", "sign"),
    [
        (["12"], "."), (["1,234.50"], "."), (["1.234,50"], ","), (["12,5"], ","), (["12.5"], "."),
        (["1,234", "5.00"], "."), (["1.234", "5,00"], ","), (["1,23.4"], "."), ([], "."),
        (["1.234.567"], ","), (["1,234,567"], "."), ([",50"], ","), (["1234.567"], "."),
    ],
)  # fmt: skip
def test_all_amounts_of_a_file_have_one_sign(texts: list[str], sign: str) -> None:
    assert decimal_sign(texts) == sign


@pytest.mark.parametrize("text", ["1.234", "1,234", "-999.999", "+12,345"])
def test_an_amount_that_may_have_decimals_or_thousands_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="may have decimals or thousands"):
        decimal_sign([text, "12"])


@pytest.mark.parametrize(
    ("lines", "booked"),
    [
        (["Date,Amount", "2026-10-01,5", "", " , ", "2026-10-02,7"], [5, 7]),
        (["Date;Amount", "2026-10-01;5,5"], [D("5.5")]),
        (["Date\tAmount", "2026-10-01\t5"], [5]), (["Date|Amount", "2026-10-01|5"], [5]),
        # A text may hold more semicolons, with quotes as no table of semicolons has them.
        (["Date,Amount,Memo", '2026-10-01,5,"a;""b"";c;d;e;f"'], [5]),
        (["Date,Amount", "2026-10-01,5,,"], [5]), (["Date,Amount,", "2026-10-01,5"], [5]),
        (["Date,Amount,", "2026-10-01,5,"], [5]),
        (["x,y"] * 39 + ["Date,Amount", "2026-10-01,5"], [5]),
        (["Date,Amount"], []),
        # Which way it went: by sign, by column, by word; nothing is neither.
        (["Date,Credit,Debit", "2026-10-01,5,", "2026-10-01,,7", "2026-10-01,0,-7"], [5, -7, -7]),
        (["Date,Credit,Debit", "2026-10-01,0,0"], [0]),
        (["Date,Amount,Credit", "2026-10-01,5,5"], [5]),
        (["Date,Amount,Type", "2026-10-01,5,CR", "2026-10-01,7,DR", "2026-10-01,0,DR"],
         [5, -7, 0]),
        (["Date,Amount,Memo", "2026-10-01,5,card payment in", "2026-10-01,7,card payment out"],
         [5, -7]),
        (["Date,Amount,Memo", "2026-10-01,5,in and out", "2026-10-01,7,out"], [5, 7]),
        (["Date,Amount,Memo", "2026-10-01,5,c d", "2026-10-01,7,s x"], [5, 7]),
        (["Date,Amount,Type", "2026-10-01,-5,DR", "2026-10-01,7,bonus", "2026-10-01,0,DR",
          "2026-10-01,0.5,CR"], [-5, 7, 0, D("0.5")]),
        # Balances that run neither way say nothing of the order.
        (["Date,Amount,Balance", "2026-10-01,5,5", "2026-10-01,7,99"], [5, 7]),
        (["Date,Amount,Balance", "2026-10-01,7,12", "2026-10-01,5,5"], [5, 7]),
        # The text of a line goes on in one that has nothing else.
        (["Date,Amount,Memo", "2026-10-01,5,one", ",,two", "2026-10-02,7,x"], [5, 7]),
    ],
)  # fmt: skip
def test_a_table_is_read_line_by_line(lines: list[str], booked: list[Any]) -> None:
    page = page_of(*lines)
    assert amounts(page) == booked
    assert [entry.position for entry in page.entries] == [*range(1, len(booked) + 1)]
    if ",,two" in lines:
        assert [entry.memo for entry in page.entries] == ["one two", "x"]


def test_what_a_memo_holds_is_not_taken_for_the_files_delimiter() -> None:
    """Commas are more here than semicolons, and with them the file could not be read."""
    page = page_of(
        "Date;Amount;Memo, if any", "2026-10-01;5;a, b, c, d, e", '2026-10-02;7;x,"y"z,"'
    )
    assert amounts(page) == [5, 7]


def test_a_table_without_a_header_is_of_what_can_be_read_to_its_end() -> None:
    columns = {"booked_on": "1", "amount": "2", "memo": "3"}
    text = 'Konto 123\n2026-10-01;5,00;a, b\n2026-10-02;7,00;x,"y"z,"\n'
    (page,) = read_csv(text.encode(), {"columns": columns, "skip": 1})
    assert amounts(page) == [5, 7]
    text = '2026-10-01 x,5,"a"b;7\n2026-10-02 x,5,c;8\n'
    with pytest.raises(ValueError, match="line 1: ',' expected after"):
        read_csv(text.encode(), {"columns": {"booked_on": "1", "amount": "2"}})


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "it is empty"), ([",", " , "], "a date and an amount column are needed|it is empty"),
        ([",", "when,,much", "x,y,z"], "the columns are 'when, , much'"),
        (["when;much", 'x,"y"z;5'], "the columns are 'when, much'"),
        (["x,y"] * 40 + ["Date,Amount", "2026-10-01,5"], "a date and an amount column are needed"),
        # What cannot be read to its end is not read up to there.
        (["Account 1", "Date,Amount,Memo", "2026-10-01,5,x", '2026-10-02,7,"a"b'],
         "line 4: ',' expected after '\"'"),
        (["Account 1", 'Day,Sum,"Me"mo', "2026-10-01,5,x"], "line 2: ',' expected after '\"'"),
        (["Date,Amount", "2026-10-01,5,x"], "line 2: .*3 values for 2 columns"),
        (["Date,Amount,x", "2026-10-01,5"], "line 2: .*2 values for 3 columns"),
        (["Date,Amount", '2026-10-01,"5'], "line 2: "), (["Date,Amount\0", "x,5"], "no text has"),
        (["Date,Amount,Amount", "2026-10-01,5,6"], "more than one column 'amount'"),
        (["Date,Amount,Currency", "2026-10-01,EUR 5,USD"], "in EUR, and its line says USD"),
        (["Date,Amount,Balance", "2026-10-01,EUR 5,USD 7"], "the amount is in EUR and USD"),
        (["Date,Amount", "2026-10-01,10 20.00"], "'10 20.00' is not a plain amount"),
        (["Date,Amount (USD),Amount (EUR)", "2026-10-01,5,6"], "more than one column 'amount'"),
        (["Date,Amount,Account", "2026-10-01,5,A", "2026-10-01,7,B"], "line 3: more than one acc"),
        (["Date,Credit,Debit", "2026-10-01,5,7"], "line 2: .*give either a credit or a debit"),
        (["Date,Credit,Debit", "2026-10-01,,"], "line 2: .*give either a credit or a debit"),
        (["Date,Amount,Credit", "2026-10-01,5,6"], "the amount 5 is not the 6 of the credit"),
        (["Date,Amount", ",5"], "line 2: .*it has no day"),
        (["Date,Amount", "2026-13-01,5"], "the form of days other than 2026-10-31 is given"),
        (["Date,Amount,Balance", "2026-10-01,1,1", "2026-10-02,,5", "2026-10-03,1,2"],
         "line 3: .*give either a credit or a debit"),
        (["Date,Amount,Type", "2026-10-01,-5,CR"], "line 2: 'Type' says 'CR' of the amount -5"),
        (["Date,Amount,Type", "2026-10-01,5,DR", "2026-10-02,-5,DR"], "line 2: 'Type' says 'DR'"),
        (["Date,Amount,Type", "2026-10-01,5,CR", "2026-10-01,5,bonus"],
         "line 3: 'Type' says 'bonus', which .* holds 'bonus', 'cr'"),
        (["Date,Amount,Type", "2026-10-01,5,CR", *(f"2026-10-01,5,w{n}" for n in range(9))],
         "holds 'cr', 'w0', 'w1', 'w2', 'w3', 'w4', 'w5', 'w6': say which is which"),
        (["Date,Amount,Status", "2026-10-01,5,booked", "2026-10-02,5,maybe"],
         "line 3: the status 'maybe' is not known"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_is_named_by_its_line(lines: list[str], told: str) -> None:
    with pytest.raises((ValueError, AnalysisError), match=told):
        page_of(*lines)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["Date,Amount (SGD)", "2026-10-01,5"], {"asset": "SGD"}),
        (["Date,Amount EUR,Balance [USD]", "2026-10-01,5,5"], {"asset": "EUR"}),
        (["Date,Amount,Balance [USD]", "2026-10-01,5,5"], {"asset": "USD"}),
        (["Date,Amount (SGD),Currency", "2026-10-01,5,EUR"], {"asset": "EUR"}),
        (["Date,Amount", "2026-10-01,EUR 5", "2026-10-02,7", "2026-10-03,8 €"], {"asset": "EUR"}),
        (["Date,Amount", "2026-10-01,£5"], {"asset": "GBP"}),
        (["Date,Amount", "2026-10-01,$5"], {"asset": None}),  # of which country it does not say
        (["Date,Memo,Amount,Balance", "2026-10-01,Opening,,9", "2026-10-31,Closing,,8"],
         {"opening": 9, "closing": 8, "entries": []}),
        (["Date,Amount", "2026-10-01,5"], {"asset": None, "account": None, "opening": None,
                                           "closing": None}),
        # An IBAN in each line is the account's own, several are those of others.
        (["Date,Amount,IBAN", "2026-10-01,5,DE1", "2026-10-01,5,DE1"], {"account": "DE1"}),
        (["Date,Amount,IBAN", "2026-10-01,5,DE1", "2026-10-01,5,DE2"], {"account": None}),
        (["Date,Amount,Balance", "2026-10-01,5,15", "2026-10-03,2,17"],
         {"opening": 10, "closing": 17, "opening_on": date(2026, 10, 1),
          "closing_on": date(2026, 10, 3)}),
        # Newest first: by the days, or by the balances where they are of one day.
        (["Date,Amount,Balance", "2026-10-03,2,17", "2026-10-01,5,15"],
         {"opening": 10, "closing": 17, "opening_on": date(2026, 10, 1)}),
        (["Date,Amount,Balance", "2026-10-01,2,17", "2026-10-01,5,15"],
         {"opening": 10, "closing": 17}),
        (["Date,Amount,Balance", "2026-10-01,5,15", "2026-10-01,2,17"],
         {"opening": 10, "closing": 17}),
        # Lines of their own say with which balance it begins and ends.
        (["Date,Amount,Balance", "2026-10-01,,10", "2026-10-01,5,", "2026-10-03,,15"],
         {"opening": 10, "closing": 15, "contradictions": []}),
        (["Date,Amount,Balance", "2026-10-03,,17", "2026-10-03,2,", "2026-10-01,5,",
          "2026-10-01,,10"], {"opening": 10, "closing": 17, "contradictions": []}),
        (["Date,Amount,Balance", "2026-10-01,5,15", "2026-10-03,,15"],
         {"opening": 10, "closing": 15, "contradictions": []}),
        (["Date,Amount,Status", "2026-10-01,5,booked", "2026-10-02,7,pending"], {"unbooked": [7]}),
        (["Date,Amount,Status", "2026-10-01,5,a", "2026-10-02,7,b"], {"unbooked": []}),
    ],
)  # fmt: skip
def test_a_file_says_what_it_is_of(lines: list[str], found: dict[str, Any]) -> None:
    page = page_of(*lines)
    assert {name: getattr(page, name) for name in found} == found


def test_an_entry_has_what_its_columns_say() -> None:
    header = "Date,Value Date,Amount,Reference,Customer Reference,Payee,Memo,Charges,Balance,Ccy"
    page = page_of(header, "2026-10-01,2026-10-02,5,R1,C1,ACME,rent,1.5,15,EUR",
                   "2026-10-01,,0,,,,,,15,EUR")  # fmt: skip
    first, last = page.entries
    assert (first.booked_on, first.valued_on) == (date(2026, 10, 1), date(2026, 10, 2))
    assert (first.bank_ref, first.own_ref, first.memo, first.asset) == ("R1", "C1", "rent", "EUR")
    assert (first.charges, first.balance, first.line, page.line) == (D("1.5"), 15, 2, 1)
    assert (last.bank_ref, last.own_ref, last.memo, last.valued_on, last.charges) == (None,) * 5
    assert (first.reversal, last.reversal) == (False, False)


def test_a_balance_on_a_line_of_its_own_that_is_another_contradicts() -> None:
    page = page_of("Date,Amount,Balance", "2026-10-01,,9", "2026-10-01,5,15", "2026-10-03,,16")
    assert [one[:3] for one in page.contradictions] == [("opening", 9, 10), ("closing", 16, 15)]


@pytest.mark.parametrize(
    ("columns", "lines", "booked"),
    [
        ({"booked_on": "1", "amount": "3"}, ["2026-10-01,x,5", "2026-10-02,y,7"], [5, 7]),
        ({"booked_on": "1", "amount": "3"}, ["2026-10-01,x,5,more"], [5]),
        ({"booked_on": " When ", "amount": "MUCH"}, ["when,much", "2026-10-01,5"], [5]),
        ({"booked_on": "1", "amount": "much"}, ["x,much,1", "y,5,2026-10-01"], [5]),
        ({"amount": "net"}, ["date,amount,net", "2026-10-01,5,4"], [4]),
        ({"credit": "plus"}, ["date,plus", "2026-10-01,5"], [5]),
    ],
)
def test_columns_are_given_by_name_or_number(
    columns: dict[str, str], lines: list[str], booked: list[int]
) -> None:
    assert amounts(page_of(*lines, columns=columns)) == booked


def test_habits_that_cannot_be_meant_are_named() -> None:
    lines = ["date,amount", "2026-10-01,5"]
    for habits, told in (
        ({"decimal": ";"}, r"decimal=';' is not one of '\.', ','"),
        ({"columns": {"much": "amount"}}, "unknown much"),
        ({"columns": {"memo": "text"}}, "it has no column 'text'; the columns are date, amount"),
        ({"columns": {"booked_on": "1", "amount": "3"}}, "it has no column '1'; the col"),
    ):  # fmt: skip
        with pytest.raises((ValueError, AnalysisError), match=told):
            page_of(*lines, **habits)
    assert amounts(page_of("x", "y", *lines, skip=2)) == [5]
    with pytest.raises(ValueError, match="a date and an amount column are needed"):
        page_of("x", "y", *lines, "2026-10-02,7", skip=3)
    with pytest.raises(ValueError, match="the columns are 'x, y'"):
        page_of("our bank", "account 1", "x,y", "2026-10-01,5", skip=2)
    assert amounts(page_of(*lines, decimal=",")) == [5]
    assert page_of("date,amount", "01.02.2026,5", dates="%m.%d.%Y").entries[0].booked_on == date(
        2026, 1, 2
    )  # fmt: skip
    words = {"in": ["ja"], "out": ["Nee"], "booked": ["ok"], "pending": ["later"]}
    page = page_of("date,amount,d/c,status", "2026-10-01,5,JA,OK", "2026-10-01,6,nee,ok",
                   "2026-10-01,7,ja,Later", words=words)  # fmt: skip
    assert (amounts(page), page.unbooked) == ([5, -6], [7])
