"""OFX down to each element: what stands in for what, and where it is refused."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from fundlab.bank.model import Page
from fundlab.bank.ofx import read_ofx

D = Decimal
ENDS = "<LEDGERBAL><BALAMT>5.00<DTASOF>20260131</LEDGERBAL>"


def file_of(body: str, head: str = "", tag: str = "STMTRS") -> bytes:
    account = "<BANKACCTFROM><ACCTID>7</BANKACCTFROM>"
    return (
        f"OFXHEADER:100\n{head}\n<OFX>\n<{tag}><CURDEF>USD{account}\n{body}\n</{tag}></OFX>\n"
    ).encode()


def line(more: str = "", posted: str = "20260105", amount: str = "-5.00") -> str:
    return f"<STMTTRN><DTPOSTED>{posted}<TRNAMT>{amount}{more}</STMTTRN>"


def page_of(*lines: str, **more: Any) -> Page:
    body = f"<BANKTRANLIST><DTSTART>20260101\n{''.join(lines)}</BANKTRANLIST>{ENDS}"
    (page,) = read_ofx(file_of(body, **more))
    return page


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("<FITID>F1<NAME>ACME<MEMO>rent<TRNTYPE>DEBIT<REFNUM>R1<CHECKNUM>8<DTAVAIL>20260107",
         {"bank_ref": "F1", "counterparty": "ACME", "memo": "ACME rent", "code": "DEBIT",
          "own_ref": "R1", "valued_on": date(2026, 1, 7), "asset": "USD", "reversal": False,
          "booked_on": date(2026, 1, 5), "amount": D(-5)}),
        ("<CHECKNUM>8", {"own_ref": "8", "bank_ref": None, "memo": None, "valued_on": None}),
        ("<PAYEE><NAME>Globex</PAYEE>", {"counterparty": "Globex"}),
        ("<CORRECTACTION>DELETE", {"reversal": True}),
        ("<CORRECTACTION>REPLACE", {"reversal": False}),
        ("<CURRENCY><CURSYM>EUR</CURRENCY>", {"asset": "EUR"}),
        ("<memo>lower &lt;case&gt;", {"memo": "lower <case>"}),
        ("<NAME></NAME><MEMO/>", {"counterparty": None, "memo": None}),
        ("<!-- <MEMO>no -->\n<MEMO>yes", {"memo": "yes"}),
        ("<DTAVAIL>0", {"valued_on": None}), ("<DTAVAIL>00000000", {"valued_on": None}),
    ],
)  # fmt: skip
def test_a_line_has_what_its_elements_say(more: str, found: dict[str, Any]) -> None:
    first, second = page_of(line(more), line(amount="1,50")).entries
    assert {name: getattr(first, name) for name in found} == found
    assert (first.position, second.position, second.amount) == (1, 2, D("1.5"))
    assert first.line == 6


def test_a_line_in_another_currency_contradicts_its_account() -> None:
    page = page_of(line(), line("<CURRENCY><CURSYM>EUR</CURRENCY>"))
    (found,) = page.contradictions
    assert found == ("currency", "USD", "EUR", "entries are in EUR, its account in USD")
    assert page_of(line(), line()).contradictions == []


def test_a_statement_has_what_its_elements_say() -> None:
    page = page_of(line())
    assert (page.account, page.asset, page.line, page.closing, page.available) == (
        "7", "USD", 4, 5, None
    )  # fmt: skip
    assert (page.opening_on, page.closing_on) == (date(2026, 1, 1), date(2026, 1, 31))
    body = f"{ENDS}<AVAILBAL><BALAMT>4.00</AVAILBAL>"
    (card,) = read_ofx(file_of(body, tag="CCSTMTRS").replace(b"BANKACCT", b"CCACCT"))
    assert (card.account, card.closing, card.available, card.opening_on) == ("7", 5, 4, None)
    (bare,) = read_ofx(b"<OFX><STMTRS><STATUS></STATUS></STMTRS></OFX>")
    assert (bare.account, bare.closing, bare.closing_on, bare.entries) == (None, None, None, [])
    # Of accounts and cards in the order in which they stand.
    both = b"<OFX><CCSTMTRS><CURDEF>EUR</CCSTMTRS>\n<STMTRS><CURDEF>USD</STMTRS></OFX>"
    assert [page.asset for page in read_ofx(both)] == ["EUR", "USD"]


@pytest.mark.parametrize(
    ("posted", "day"),
    [
        ("20260105", date(2026, 1, 5)), ("20260105120000", date(2026, 1, 5)),
        ("20260105.000", date(2026, 1, 5)), ("20260105[-5:EST]", date(2026, 1, 5)),
        ("20260105 12", date(2026, 1, 5)), ("2026010512", date(2026, 1, 5)),
    ],
)  # fmt: skip
def test_a_day_is_its_first_eight_figures(posted: str, day: date) -> None:
    assert page_of(line(posted=posted)).entries[0].booked_on == day


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (file_of(line(posted="0"), "").replace(b"<STMTTRN>", b"<BANKTRANLIST><STMTTRN>").replace(
            b"</STMTTRN>", b"</STMTTRN></BANKTRANLIST>"), "line 5: a transaction has no DTPOSTED"),
        (b"<OFX><STMTRS><BANKTRANLIST>\n<STMTTRN><DTPOSTED>20260105</STMTTRN></BANKTRANLIST>"
         b"</STMTRS></OFX>", "line 2: a transaction has no DTPOSTED or no TRNAMT"),
        (b"<OFX><STMTRS><LEDGERBAL><BALAMT>x</LEDGERBAL></STMTRS></OFX>", "line 1: 'x' is not a p"),
        (b"<OFX><STMTRS><LEDGERBAL><BALAMT>1,2,3</LEDGERBAL></STMTRS></OFX>", "not a plain amount"),
        (b"<OFX><STMTRS><LEDGERBAL><BALAMT>1<DTASOF>20261301</LEDGERBAL></STMTRS></OFX>",
         "line 1: '20261301': month must be in 1..12"),
        (b"<OFX><STMTRS><LEDGERBAL><BALAMT>1<DTASOF>2026-01-05</LEDGERBAL></STMTRS></OFX>",
         "'2026-01-05' is not a day such as 20261031"),
        (b"<OFX><STMTRS><LEDGERBAL><BALAMT>1<DTASOF>202601051</LEDGERBAL></STMTRS></OFX>",
         "'202601051' is not a day such as 20261031"),
        (b"<STMTRS></STMTRS>", "there is no <OFX>, with which it begins"),
        (b"<OFX><SIGNONMSGSRSV1></SIGNONMSGSRSV1></OFX>", "it holds no statement of a bank"),
        (b"<OFX>\n<STMTRS></OTHER></STMTRS></OFX>", "line 2: </OTHER> ends what was not begun"),
        (b"<OFX>\n<STMTRS>\n</OFX>", "line 3: </OFX> stands where <STMTRS> is open"),
        (b"<OFX>\n<STMTRS>", "<STMTRS> of line 2 has no end; it was cut"),
        (b"<!ENTITY x><OFX></OFX>", "it declares entities"),
        (b"<OFX>" + b"<A>" * 100, "line 1: more than 100 elements in one another"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_by_its_line(text: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_ofx(text)


def test_a_hundred_elements_may_stand_in_one_another() -> None:
    inner = "<A>" * 98 + "</A>" * 98
    with pytest.raises(ValueError, match="it holds no statement"):
        read_ofx(f"<OFX><B>{inner}</B></OFX>".encode())


@pytest.mark.parametrize(
    ("head", "memo"),
    [("CHARSET:1252", "Ã©"), ("CHARSET: ISO-8859-1", "Ã©"), ("charset:1252", "Ã©"), ("", "é")],
)
def test_the_encoding_is_that_of_the_header(head: str, memo: str) -> None:
    assert page_of(line("<MEMO>é"), head=head).entries[0].memo == memo
