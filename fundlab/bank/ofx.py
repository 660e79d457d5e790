"""OFX 1 (SGML, whose elements need no end) and OFX 2 (XML). A statement has a closing balance only.

Read here: the parser there was for Python refuses a bank's code of ten digits, an empty element and
a header without blank lines, and gives no lines.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Final

from fundlab.bank.model import Entry, Page, exact_amount, file_text, in_one_currency, joined

_TAG: Final = re.compile(r"<(/?)([A-Za-z][\w.]*)\s*(/?)>([^<]*)", re.ASCII)
_STATEMENTS: Final = ("STMTRS", "CCSTMTRS")
_DEEPEST: Final = 100


@dataclass(slots=True)
class _Element:
    name: str
    line: int
    text: str = ""
    members: list[_Element] = field(default_factory=list)

    def all(self, name: str) -> Iterator[_Element]:
        for member in self.members:
            if member.name == name:
                yield member
            yield from member.all(name)

    def get(self, *path: str) -> str | None:
        at: _Element | None = self
        for name in path:
            at = next((m for m in at.members if m.name == name), None) if at else None
        return None if at is None else at.text or None


def read_ofx(content: bytes) -> list[Page]:
    head = content[:1024].decode("latin-1").upper().replace(" ", "")
    named = {"CHARSET:1252": "cp1252", "CHARSET:ISO-8859-1": "latin-1"}  # others are UTF-8
    coding = next((named[one] for one in named if one in head), None)
    text = re.sub(r"\r\n?", "\n", file_text(content, coding))
    if re.search(r"<!(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise ValueError("it declares entities, which no bank's file needs")
    root = _tree(text)
    statements = [one for name in _STATEMENTS for one in root.all(name)]
    if not statements:
        raise ValueError("it holds no statement of a bank account or card")
    return [_page(one) for one in sorted(statements, key=lambda one: one.line)]


def _tree(text: str) -> _Element:
    begin = text.upper().find("<OFX>")
    if begin < 0:
        raise ValueError("there is no <OFX>, with which it begins")
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    begin = text.upper().find("<OFX>")
    root = _Element("", 1)
    open_: list[_Element] = [root]
    line, before = 1, 0
    for tag in _TAG.finditer(text, begin):
        line, before = line + text.count("\n", before, tag.start()), tag.start()
        closes, name, empty, value = tag[1], tag[2].upper(), tag[3], tag[4].strip()
        if closes:
            # What was open and has no end of its own was an element without members.
            names = [element.name for element in open_]
            if name not in names:
                if open_[-1].members and open_[-1].members[-1].name == name:
                    continue  # the end of an element that held a text
                raise ValueError(f"line {line}: </{name}> ends what was not begun")
            while open_.pop().name != name:
                raise ValueError(f"line {line}: </{name}> stands where <{names[-1]}> is open")
        else:
            element = _Element(name, line, html.unescape(value))
            open_[-1].members.append(element)
            if len(open_) > _DEEPEST:
                raise ValueError(f"line {line}: more than {_DEEPEST} elements in one another")
            # Without a text it may have members, or be empty.
            rest = text[tag.end() : tag.end() + 40].upper()
            is_empty = empty or (not value and not rest.startswith(f"</{name}>")
                                 and name in _LEAVES)  # fmt: skip
            if not value and not is_empty:
                open_.append(element)
    if len(open_) > 1:
        raise ValueError(f"<{open_[-1].name}> of line {open_[-1].line} has no end; it was cut")
    return root


_LEAVES: Final = frozenset(
    re.findall(
        r"\w+",
        "TRNTYPE DTPOSTED DTUSER DTAVAIL TRNAMT FITID CHECKNUM REFNUM SIC PAYEEID NAME MEMO "
        "BALAMT DTASOF CURDEF BANKID BRANCHID ACCTID ACCTTYPE ACCTKEY DTSTART DTEND DTSERVER "
        "LANGUAGE CODE SEVERITY MESSAGE TRNUID ORG FID DTPROFUP DTACCTUP CURRATE CURSYM "
        "MKTGINFO NAME1 CLTCOOKIE CORRECTFITID CORRECTACTION SRVRTID ",
    )
)
"""Elements with a text, which banks write without one as well."""


def _page(statement: _Element) -> Page:
    accounts = (one for name in ("BANKACCTFROM", "CCACCTFROM") for one in statement.all(name))
    account = next(accounts, _Element("", 0))
    page = Page("statement", statement.line, account.get("ACCTID"), statement.get("CURDEF"))
    if balance := statement.get("LEDGERBAL", "BALAMT"):
        page.closing = _amount(balance, statement.line)
        page.closing_on = _day(statement.get("LEDGERBAL", "DTASOF"), statement.line)
    if available := statement.get("AVAILBAL", "BALAMT"):
        page.available = _amount(available, statement.line)
    page.opening_on = _day(statement.get("BANKTRANLIST", "DTSTART"), statement.line)
    for listed in statement.all("BANKTRANLIST"):
        for line in listed.all("STMTTRN"):
            booked = _day(line.get("DTPOSTED"), line.line)
            amount = line.get("TRNAMT")
            if booked is None or amount is None:
                raise ValueError(f"line {line.line}: a transaction has no DTPOSTED or no TRNAMT")
            name = line.get("NAME") or line.get("PAYEE", "NAME")
            page.entries.append(
                Entry(
                    booked, _amount(amount, line.line),
                    line.get("CURRENCY", "CURSYM") or page.asset, line.get("FITID"),
                    joined(name, line.get("MEMO")), _day(line.get("DTAVAIL"), line.line),
                    line.get("REFNUM") or line.get("CHECKNUM"), name, line.get("TRNTYPE"),
                    line.get("CORRECTACTION") == "DELETE",
                    position=len(page.entries) + 1, line=line.line,
                )
            )  # fmt: skip
    in_one_currency(page)
    return page


def _amount(text: str, line: int) -> Decimal:
    try:
        # The standard allows either decimal sign, and no other.
        return exact_amount(text if "." in text else text.replace(",", ".", 1))
    except ValueError as error:
        raise ValueError(f"line {line}: {error}") from error


def _day(text: str | None, line: int) -> date | None:
    """The day is that of the bank's own zone."""
    if text is None or not text.strip("0"):
        return None
    match = re.match(r"(\d{4})(\d\d)(\d\d)(?=$|\d{2,6}|[.\[\s])", text)
    try:
        if match:
            return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError as error:
        raise ValueError(f"line {line}: {text!r}: {error}") from error
    raise ValueError(f"line {line}: {text!r} is not a day such as 20261031")
