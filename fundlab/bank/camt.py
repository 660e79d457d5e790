"""camt.053 (statements), camt.052 (reports of a day) and camt.054 (notifications), of any version.

Read as plain XML: a file that declares entities or a DTD is refused, as ``defusedxml`` does it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from xml.etree import ElementTree as Plain

from fundlab.bank.model import Entry, Kind, Page, exact_amount, in_one_currency, joined
from fundlab.base.exact import EXACT
from fundlab.base.values import exact_sum, plain_text

_KINDS: Final[dict[str, Kind]] = {"Stmt": "statement", "Rpt": "interim", "Ntfctn": "notice"}
_SIGNS: Final = {"CRDT": 1, "DBIT": -1}
_NOT_YET_BOOKED: Final = ("PDNG", "INFO", "FUTR")
_PLACE: Final = "line"
"""The attribute in which the builder keeps an element's line; camt has no attribute of it."""


def read_camt(content: bytes, wanted: str | None = None) -> list[Page]:
    """``wanted`` is ``camt.052``, ``camt.053`` or ``camt.054``, where only that will do."""
    from defusedxml import DefusedXmlException, ElementTree

    class Builder(Plain.TreeBuilder):
        def start(self, tag: Any, attrs: Any) -> Any:
            return super().start(tag, {**attrs, _PLACE: str(parser.parser.CurrentLineNumber)})

    parser: Any = ElementTree.XMLParser(target=Builder(), forbid_dtd=True)
    try:
        root: Any = ElementTree.parse(io.BytesIO(content), parser=parser).getroot()
    except DefusedXmlException as error:
        raise ValueError("it declares a DTD or entities, which no bank's file needs") from error
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ValueError(f"it is not XML: {error}; the file was cut or edited") from error
    statements = [each for each in root.iter() if _name(each) in _KINDS]
    kinds = {"camt.053": "Stmt", "camt.052": "Rpt", "camt.054": "Ntfctn"}
    if wanted is not None and not any(_name(each) == kinds[wanted] for each in statements):
        raise ValueError(f"no {kinds[wanted]}; it is another message than {wanted}")
    if not statements:
        raise ValueError("no Stmt, Rpt or Ntfctn; it is another message than camt.052, 053, 054")
    return [_page(root, each) for each in statements]


def _page(root: Any, statement: Any) -> Page:
    page = Page(_KINDS[_name(statement)], _line(statement), id=_text(statement, "{*}Id"))
    page.account = _text(statement, "{*}Acct/{*}Id/{*}IBAN") or _text(
        statement, "{*}Acct/{*}Id/{*}Othr/{*}Id"
    )
    page.asset = _text(statement, "{*}Acct/{*}Ccy")
    number = _text(statement, "{*}ElctrncSeqNb") or _text(statement, "{*}LglSeqNb")
    page.sequence = int(number) if number and re.fullmatch(r"\d{1,18}", number, re.ASCII) else None
    pagination = next(
        (each for each in statement if _name(each) in ("StmtPgntn", "RptPgntn", "NtfctnPgntn")),
        None,
    )
    if pagination is None:
        pagination = root.find(".//{*}GrpHdr/{*}MsgPgntn")
    if pagination is not None:
        page.page = int((_text(pagination, "{*}PgNb") or "1")[:9])
        page.first, page.last = (
            page.page == 1,
            _is_true(_text(pagination, "{*}LastPgInd") or "true"),
        )
        if page.first and page.last:
            page.page = None
    _take_balances(page, statement)
    _take_totals(page, statement)
    for number_of_entry, entry in enumerate(statement.iterfind("{*}Ntry"), start=1):
        try:
            page.entries += _entries(page, entry, number_of_entry)
        except (ValueError, LookupError) as error:
            raise ValueError(f"line {_line(entry)}: {error}") from error
    one = page.asset is None and len({entry.asset for entry in page.entries}) == 1
    if page.kind == "statement" or one:  # a notice may be of several
        in_one_currency(page)
    return page


def _take_balances(page: Page, statement: Any) -> None:
    interim: list[tuple[Decimal, date | None]] = []
    balances: dict[str, tuple[Decimal, date | None]] = {}
    for balance in statement.iterfind("{*}Bal"):
        code = _text(balance, "{*}Tp/{*}CdOrPrtry/{*}Cd") or _text(balance, "{*}Tp/{*}Cd") or ""
        amount = balance.find("{*}Amt")
        if amount is None:
            raise ValueError(f"line {_line(balance)}: a balance has no amount")
        value = _signed(exact_amount(amount.text or ""), _text(balance, "{*}CdtDbtInd"))
        day = _day(balance, "Dt")
        page.asset = page.asset or amount.get("Ccy")
        if code == "ITBD":
            interim.append((value, day))
        balances.setdefault(code, (value, day))
    # Of the pages of a statement the first begins with OPBD and the last ends with CLBD; where
    # another page stands before or after, an interim balance takes its place.
    opening = balances.get("OPBD") or balances.get("PRCD")
    closing = balances.get("CLBD")
    if page.kind == "statement" and interim:
        opening = opening or interim[0]
        if closing is None and (len(interim) > 1 or "OPBD" in balances or "PRCD" in balances):
            closing = interim[-1]
    if opening is not None:
        page.opening, page.opening_on = opening
    if closing is not None:
        page.closing, page.closing_on = closing
    if "CLAV" in balances:
        page.available = balances["CLAV"][0]
    if page.closing_on is None:
        page.closing_on = _day(statement, "FrToDt", "{*}ToDtTm") or _day(
            statement, "FrToDt", "{*}ToDt"
        )


def _take_totals(page: Page, statement: Any) -> None:
    for element, prefix in (
        ("TtlNtries", ""),
        ("TtlCdtNtries", "credit"),
        ("TtlDbtNtries", "debit"),
    ):
        total = statement.find(f"{{*}}TxsSummry/{{*}}{element}")
        if total is None:
            continue
        count, summed = _text(total, "{*}NbOfNtries"), _text(total, "{*}Sum")
        if count is not None:
            page.declared[f"{prefix}s" if prefix else "entries"] = Decimal(int(count))
        if summed is not None:
            page.declared[f"{prefix}_sum" if prefix else "sum"] = exact_amount(summed)
        net = _text(total, "{*}TtlNetNtry/{*}Amt") or _text(total, "{*}TtlNetNtryAmt")
        mark = _text(total, "{*}TtlNetNtry/{*}CdtDbtInd") or _text(total, "{*}CdtDbtInd")
        if net is not None and mark is not None:
            page.declared["net"] = _signed(exact_amount(net), mark)


def _entries(page: Page, entry: Any, position: int) -> Iterator[Entry]:
    # The status stands in Sts, since version 8 in Sts/Cd; samples leave it out.
    status = (_text(entry, "{*}Sts/{*}Cd") or _text(entry, "{*}Sts/{*}Prtry")
              or _text(entry, "{*}Sts") or "BOOK")  # fmt: skip
    found, side = entry.find("{*}Amt"), _text(entry, "{*}CdtDbtInd")
    if found is None:
        raise ValueError("an entry has no amount")
    amount, currency = _signed(exact_amount(found.text or ""), side), found.get("Ccy")
    if status in _NOT_YET_BOOKED:
        page.unbooked.append(amount)
        return
    if status != "BOOK":
        raise ValueError(
            f"an entry has the status {status!r}; booked is BOOK, not yet booked are "
            f"{', '.join(_NOT_YET_BOOKED)}"
        )
    valued = _day(entry, "ValDt")
    booked = _day(entry, "BookgDt") or valued
    if booked is None:
        raise ValueError("an entry has no booking date")
    # A batch is its payments, where each says what it came to in the entry's currency.
    payments, amounts = entry.findall("{*}NtryDtls/{*}TxDtls"), []
    for payment in payments:
        part = payment.find("{*}Amt")
        part = payment.find("{*}AmtDtls/{*}TxAmt/{*}Amt") if part is None else part
        if part is not None and part.get("Ccy") == currency:
            own = _text(payment, "{*}CdtDbtInd")
            mark = own if own in _SIGNS else side
            amounts.append(_signed(exact_amount(part.text or ""), mark))
    for batch in entry.iterfind("{*}NtryDtls/{*}Btch"):
        _check_batch(page, batch, payments, amount)
    if len(payments) < 2 or len(amounts) < len(payments) or exact_sum(amounts) != amount:
        payments, amounts = [entry], [amount]
    reference = _text(entry, "{*}AcctSvcrRef") or _text(entry, "{*}NtryRef")
    domain = [_text(entry, f"{{*}}BkTxCd/{{*}}Domn/{path}") for path in (
        "{*}Cd", "{*}Fmly/{*}Cd", "{*}Fmly/{*}SubFmlyCd")]  # fmt: skip
    own_code = _text(entry, "{*}BkTxCd/{*}Prtry/{*}Cd")
    code = "/".join(part for part in domain if part) or joined(own_code)
    for payment, each in zip(payments, amounts, strict=True):
        ids = _texts(payment, ".//{*}EndToEndId")
        memo = [*_texts(payment, ".//{*}Ustrd"), *ids, *_texts(payment, ".//{*}InstrId")]
        memo += _texts(payment, ".//{*}RmtInf/{*}Strd/{*}CdtrRefInf/{*}Ref")
        memo += _texts(entry, "{*}AddtlNtryInf")
        # Who paid, or was paid: the party on the other side of the account.
        party = "Dbtr" if each > 0 or (not each and side == "CRDT") else "Cdtr"
        names = [f".//{{*}}RltdPties/{{*}}{party}/{{*}}Nm",
                 f".//{{*}}RltdPties/{{*}}{party}/{{*}}Pty/{{*}}Nm"]  # fmt: skip
        name = next((text for path in names for text in _texts(payment, path)), None)
        kept = [
            exact_amount(charge.text or "")
            for charge in payment.iterfind("{*}Chrgs//{*}Amt")
            if charge.get("Ccy") == currency
        ]
        yield Entry(
            booked, each, currency, _text(payment, "{*}Refs/{*}AcctSvcrRef") or reference,
            " ".join(memo) or None, valued, next(iter(ids), None), name,
            code, _is_true(_text(entry, "{*}RvslInd")),
            exact_sum(kept) if kept else None, position=position, line=_line(payment),
        )  # fmt: skip


def _check_batch(page: Page, batch: Any, payments: list[Any], amount: Decimal) -> None:
    count, total = _text(batch, "{*}NbOfTxs"), batch.find("{*}TtlAmt")
    if count is not None and payments and len(payments) != int(count):
        page.contradictions.append(
            ("batch_count", count, len(payments),
             f"the batch at line {_line(batch)} declares {count} payments, {len(payments)} are "
             "there")
        )  # fmt: skip
    if total is not None and exact_amount(total.text or "") != amount.copy_abs():
        page.contradictions.append(
            ("batch_sum", total.text, plain_text(amount.copy_abs()),
             f"the batch at line {_line(batch)} declares {total.text}, its entry is over "
             f"{plain_text(amount.copy_abs())}")
        )  # fmt: skip


def _signed(amount: Decimal, mark: str | None) -> Decimal:
    if mark not in _SIGNS:
        raise ValueError(f"an entry's or balance's CdtDbtInd is {mark}; CRDT or DBIT is needed")
    return EXACT.multiply(amount, _SIGNS[mark]) if amount else amount


def _day(element: Any, name: str, *within: str) -> date | None:
    paths = within or ("{*}Dt", "{*}DtTm", "{*}Dt/{*}Dt", "{*}Dt/{*}DtTm")
    texts = (_text(element, f"{{*}}{name}/{path}") for path in paths)
    text = next((text for text in texts if text), None) or (
        None if within else _text(element, f"{{*}}{name}")
    )
    if not text:
        return None
    return datetime.fromisoformat(re.sub(r"(Z|[+-]\d\d:\d\d)$", "", text)).date()


def _is_true(text: str | None) -> bool:
    if text not in (None, "", "true", "false", "1", "0"):
        raise ValueError(f"{text!r} is not one of true, false, 1, 0")
    return text in ("true", "1")


def _line(element: Any) -> int:
    return int(element.get(_PLACE, 0))


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _text(element: Any, path: str) -> str | None:
    child = element.find(path)
    return None if child is None or child.text is None else str(child.text).strip()


def _texts(element: Any, path: str) -> list[str]:
    return [child.text.strip() for child in element.iterfind(path) if child.text]
