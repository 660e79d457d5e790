"""OFX 1 and 2, by ``ofxtools``. A statement has a closing balance only."""

from __future__ import annotations

import io
import re
import warnings
from typing import Final

from fundlab.bank.model import Entry, Page, joined

_LINE: Final = re.compile(rb"<(STMTTRN|STMTRS|CCSTMTRS)>", re.IGNORECASE)


def read_ofx(content: bytes) -> list[Page]:
    from ofxtools.header import OFXHeaderError
    from ofxtools.models import CCSTMTRS, STMTRS
    from ofxtools.models.base import PrivateTagWarning
    from ofxtools.Parser import OFXTree, ParseError
    from ofxtools.Types import OFXTypeWarning

    if re.search(rb"<!(DOCTYPE|ENTITY)", content, re.IGNORECASE):
        raise ValueError("it declares entities, which no bank's file needs")
    tree = OFXTree()
    try:
        tree.parse(io.BytesIO(content))
        for posted in tree.iter("DTPOSTED"):  # the day is that of the bank's own zone
            posted.text = re.sub(r"\[.*\]$", "", posted.text or "")
        with warnings.catch_warnings():
            # What a bank adds for programs of its own, and texts longer than they should be.
            warnings.simplefilter("ignore", PrivateTagWarning)
            warnings.simplefilter("ignore", OFXTypeWarning)
            found = tree.convert().statements
    except OFXHeaderError as error:
        raise ValueError("its header is not one of OFX, such as OFXHEADER:100") from error
    except ParseError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    # Those of investments know their balances in another way.
    statements = [one for one in found if isinstance(one, STMTRS | CCSTMTRS)]
    if not statements:
        raise ValueError("it holds no statement of a bank account or card")
    # The parser gives no places: entries and statements stand in the file's order.
    places: dict[bytes, list[int]] = {b"STMTTRN": [], b"STMTRS": []}
    number, before = 1, 0
    for found in _LINE.finditer(content):
        number, before = number + content.count(b"\n", before, found.start()), found.start()
        places[found[1].upper().removeprefix(b"CC")].append(number)
    lines, heads = iter(places[b"STMTTRN"]), iter(places[b"STMTRS"])
    pages = []
    for statement in statements:
        account = getattr(statement, "account", None)
        listed, ledger = statement.transactions, getattr(statement, "ledgerbal", None)
        page = Page("statement", next(heads, 1), getattr(account, "acctid", None), statement.curdef)
        if ledger is not None:
            page.closing, page.closing_on = ledger.balamt, ledger.dtasof.date()
        available = getattr(statement, "availbal", None)
        page.available = None if available is None else available.balamt
        if listed is not None and listed.dtstart is not None:
            page.opening_on = listed.dtstart.date()
        for position, line in enumerate(listed or (), start=1):
            asset = line.cursym if line.curtype == "CURRENCY" else statement.curdef
            entry = Entry(
                line.dtposted.date(), line.trnamt, asset, line.fitid, joined(line.name, line.memo),
                None if line.dtavail is None else line.dtavail.date(), line.refnum or line.checknum,
                line.name, line.trntype, line.correctaction == "DELETE",
                position=position, line=next(lines, page.line),
            )  # fmt: skip
            page.entries.append(entry)
        pages.append(page)
    return pages
