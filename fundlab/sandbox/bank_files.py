"""A bank's statement in each format a bank writes, byte for byte the same each time."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Final
from xml.sax.saxutils import escape

from fundlab.base.exact import EXACT
from fundlab.base.values import exact_sum

CENT: Final = Decimal("0.01")
_BIC: Final = "FHARUS33"


@dataclass(frozen=True)
class Line:
    """One entry; what came in is positive. ``parts`` are the transfers it stands for: id, amount,
    and what the payer wrote. ``kept`` is what the bank kept back of them."""

    booked_on: date
    valued_on: date
    amount: Decimal
    bank_ref: str
    memo: str
    name: str = ""
    parts: tuple[tuple[str, Decimal, str], ...] = ()
    kept: Decimal = Decimal(0)
    kind: str = "transfer"


@dataclass(frozen=True)
class Statement:
    """One statement, or a page of one."""

    account: str
    asset: str
    sequence: int
    first: date
    last: date
    opening: Decimal
    lines: tuple[Line, ...]
    page: int = 1
    last_page: bool = True

    @property
    def closing(self) -> Decimal:
        return exact_sum([self.opening, *(line.amount for line in self.lines)])

    def pages(self, size: int | None) -> list[Statement]:
        """Pages of at most ``size`` lines."""
        size = size or max(len(self.lines), 1)
        starts = range(0, max(len(self.lines), 1), size)
        pages: list[Statement] = []
        for number, start in enumerate(starts, start=1):
            opening = pages[-1].closing if pages else self.opening
            pages.append(
                replace(self, opening=opening, lines=self.lines[start : start + size], page=number,
                        last_page=number == len(starts))
            )  # fmt: skip
        return pages


def camt(statements: Sequence[Statement], message: str, *, details: bool = False) -> str:
    element, root = {
        "camt.053": ("Stmt", "BkToCstmrStmt"),
        "camt.052": ("Rpt", "BkToCstmrAcctRpt"),
        "camt.054": ("Ntfctn", "BkToCstmrDbtCdtNtfctn"),
    }[message]
    made = f"{statements[0].last}T23:00:00Z"
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:{message}.001.08">',
        f"<{root}>",
        f"<GrpHdr><MsgId>{statements[0].sequence}</MsgId><CreDtTm>{made}</CreDtTm></GrpHdr>",
    ]
    for statement in statements:
        page = (
            f"<{element}Pgntn><PgNb>{statement.page}</PgNb>"
            f"<LastPgInd>{str(statement.last_page).lower()}</LastPgInd></{element}Pgntn>"
        )
        out += [
            f"<{element}>",
            f"<Id>{statement.account}-{statement.sequence}</Id>",
            page,
            f"<ElctrncSeqNb>{statement.sequence}</ElctrncSeqNb>",
            f"<CreDtTm>{statement.last}T23:00:00Z</CreDtTm>",
            f"<Acct><Id><Othr><Id>{statement.account}</Id></Othr></Id><Ccy>{statement.asset}</Ccy></Acct>",
        ]
        if message == "camt.053":
            ends = (
                "OPBD" if statement.page == 1 else "ITBD",
                "CLBD" if statement.last_page else "ITBD",
            )
            days = (statement.first, statement.last)
            for code, day, amount in zip(
                ends, days, (statement.opening, statement.closing), strict=True
            ):
                out.append(
                    f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp>"
                    f"{_money(statement, amount)}<Dt><Dt>{day}</Dt></Dt></Bal>"
                )
        credit = [line.amount for line in statement.lines if line.amount > 0]
        debit = [line.amount.copy_negate() for line in statement.lines if line.amount < 0]
        total = exact_sum(credit), exact_sum(debit)
        out.append(
            f"<TxsSummry><TtlNtries><NbOfNtries>{len(statement.lines)}</NbOfNtries>"
            f"<Sum>{exact_sum(total)}</Sum><TtlNetNtry>"
            f"<Amt>{EXACT.subtract(*total).copy_abs()}</Amt><CdtDbtInd>"
            f"{'CRDT' if total[0] >= total[1] else 'DBIT'}</CdtDbtInd></TtlNetNtry></TtlNtries>"
            f"<TtlCdtNtries><NbOfNtries>{len(credit)}</NbOfNtries><Sum>{total[0]}</Sum>"
            f"</TtlCdtNtries><TtlDbtNtries><NbOfNtries>{len(debit)}</NbOfNtries>"
            f"<Sum>{total[1]}</Sum></TtlDbtNtries></TxsSummry>"
        )
        for line in statement.lines:
            out += [
                "<Ntry>",
                f"{_money(statement, line.amount)}<Sts><Cd>BOOK</Cd></Sts>",
                f"<BookgDt><Dt>{line.booked_on}</Dt></BookgDt>"
                f"<ValDt><Dt>{line.valued_on}</Dt></ValDt>",
                f"<AcctSvcrRef>{line.bank_ref}</AcctSvcrRef>",
                "<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>ICDT</Cd></Fmly></Domn></BkTxCd>",
                _details(statement, line, details=details),
                "</Ntry>",
            ]
        out.append(f"</{element}>")
    return "\n".join([*out, f"</{root}>", "</Document>", ""])


def _details(statement: Statement, line: Line, *, details: bool) -> str:
    kept = f'<Chrgs><Rcrd><Amt Ccy="{statement.asset}">{line.kept}</Amt></Rcrd></Chrgs>' * bool(
        line.kept
    )
    party = "Dbtr" if line.amount > 0 else "Cdtr"
    name = f"<RltdPties><{party}><Pty><Nm>{escape(line.name)}</Nm></Pty></{party}></RltdPties>"
    name = name if line.name else ""
    if details and len(line.parts) > 1 and not line.kept:
        batch = f"<Btch><NbOfTxs>{len(line.parts)}</NbOfTxs></Btch>"
        payments = "".join(
            f"<TxDtls><Refs><EndToEndId>{escape(wrote)}</EndToEndId></Refs>"
            f"{_money(statement, amount)}{name}</TxDtls>"
            for _, amount, wrote in line.parts
        )
        return f"<NtryDtls>{batch}{payments}</NtryDtls>"
    memo = f"<RmtInf><Ustrd>{escape(line.memo)}</Ustrd></RmtInf>" if line.memo else ""
    return f"{kept}<NtryDtls><TxDtls>{name}{memo}</TxDtls></NtryDtls>"


def _money(statement: Statement, amount: Decimal) -> str:
    side = "DBIT" if amount < 0 else "CRDT"
    return f'<Amt Ccy="{statement.asset}">{amount.copy_abs()}</Amt><CdtDbtInd>{side}</CdtDbtInd>'


def mt940(statements: Sequence[Statement], *, interim: bool = False) -> str:
    out = []
    for statement in statements:
        out += ["{1:F01" + _BIC + "AXXX0000000000}{4:"]
        out += [f":20:{statement.sequence:05}{statement.page:03}", f":25:{statement.account}"]
        out += [f":28C:{statement.sequence}/{statement.page}"]
        if interim:
            out += [f":34F:{statement.asset}0,", f":13D:{statement.last:%y%m%d}2300+0000"]
        else:
            opening = _balance(statement, statement.first, statement.opening)
            out += [f":60{'F' if statement.page == 1 else 'M'}:{opening}"]
        for line in statement.lines:
            mark = "D" if line.amount < 0 else "C"
            out.append(
                f":61:{line.valued_on:%y%m%d}{line.booked_on:%m%d}{mark}{_comma(line.amount)}"
                f"NTRFNONREF//{line.bank_ref[:16]}"
            )
            text = f"/NAME/{line.name}/REMI/{line.memo}" if line.name else line.memo
            text = text.replace("\n", " ")
            rows = [text[n : n + 65] for n in range(0, len(text), 65)][:6]
            # A row that began with a colon or dash would be taken for a field, or the end.
            out.append(":86:" + "\n".join(f" {row}" if row[0] in ":-" else row for row in rows))
        if interim:
            for tag, sign in (("90D", -1), ("90C", 1)):
                amounts = [
                    line.amount for line in statement.lines if line.amount.compare(0) == sign
                ]
                summed = _comma(exact_sum(amounts))
                out.append(f":{tag}:{len(amounts)}{statement.asset}{summed}")
        else:
            ends = _balance(statement, statement.last, statement.closing)
            out.append(f":62{'F' if statement.last_page else 'M'}:{ends}")
            out += [f":64:{ends}"] if statement.last_page else []
        out.append("-}")
    return "\r\n".join([*out, ""])


def _balance(statement: Statement, day: date, amount: Decimal) -> str:
    return f"{'D' if amount < 0 else 'C'}{day:%y%m%d}{statement.asset}{_comma(amount)}"


def _comma(amount: Decimal) -> str:
    return str(amount.copy_abs()).replace(".", ",") + ("" if "." in str(amount) else ",")


def ofx(statements: Sequence[Statement]) -> str:
    out = [
        "OFXHEADER:100", "DATA:OFXSGML", "VERSION:102", "SECURITY:NONE", "ENCODING:UTF-8",
        "CHARSET:NONE", "COMPRESSION:NONE", "OLDFILEUID:NONE", "NEWFILEUID:NONE", "",
        "<OFX><SIGNONMSGSRSV1><SONRS><STATUS><CODE>0<SEVERITY>INFO</STATUS>"
        f"<DTSERVER>{statements[-1].last:%Y%m%d}230000<LANGUAGE>ENG</SONRS></SIGNONMSGSRSV1>",
        "<BANKMSGSRSV1>",
    ]  # fmt: skip
    for statement in statements:
        out += [
            f"<STMTTRNRS><TRNUID>{statement.sequence}<STATUS><CODE>0<SEVERITY>INFO</STATUS>",
            f"<STMTRS><CURDEF>{statement.asset}<BANKACCTFROM><BANKID>021000021<ACCTID>{statement.account}"
            "<ACCTTYPE>CHECKING</BANKACCTFROM>",
            f"<BANKTRANLIST><DTSTART>{statement.first:%Y%m%d}<DTEND>{statement.last:%Y%m%d}",
        ]
        for line in statement.lines:
            kind = "DEBIT" if line.amount < 0 else "CREDIT"
            name = f"<NAME>{escape(line.name[:32])}" if line.name else ""
            memo = f"<MEMO>{escape(line.memo[:255])}" if line.memo else ""
            out.append(
                f"<STMTTRN><TRNTYPE>{kind}<DTPOSTED>{line.booked_on:%Y%m%d}120000"
                f"<DTAVAIL>{line.valued_on:%Y%m%d}<TRNAMT>{line.amount}<FITID>{line.bank_ref}"
                f"{name}{memo}</STMTTRN>"
            )
        out.append(
            f"</BANKTRANLIST><LEDGERBAL><BALAMT>{statement.closing}<DTASOF>{statement.last:%Y%m%d}"
            "</LEDGERBAL></STMTRS></STMTTRNRS>"
        )
    return "\n".join([*out, "</BANKMSGSRSV1></OFX>", ""])


def bai2(statements: Sequence[Statement]) -> str:
    """A group for each statement, as of its last day."""
    out = [f"01,{_BIC},FUNDLAB,{statements[-1].last:%y%m%d},2300,1,,,2/"]
    whole = 0
    for statement in statements:
        credit = [line.amount for line in statement.lines if line.amount > 0]
        debit = [line.amount.copy_negate() for line in statement.lines if line.amount < 0]
        amounts = [_cents(statement.opening), _cents(statement.closing), _cents(statement.closing)]
        amounts += [_cents(exact_sum(side)) for side in (credit, debit)]
        opening, closing, usable, received, paid = amounts
        account = [
            f"03,{statement.account},{statement.asset},010,{opening},,,015,{closing},,/",
            f"88,045,{usable},,,100,{received},{len(credit)},,400,{paid},{len(debit)},/",
        ]
        for line in statement.lines:
            code = "195" if line.amount > 0 else "495"
            code = "698" if line.kind == "charge" else code
            account.append(
                f"16,{code},{abs(_cents(line.amount))},V,{line.valued_on:%y%m%d},,"
                f"{line.bank_ref},,{line.name}"
            )
            text = line.memo
            account += [f"88,{text[n : n + 70]}" for n in range(0, len(text), 70)]
        control = sum(amounts) + sum(abs(_cents(line.amount)) for line in statement.lines)
        account.append(f"49,{control},{len(account) + 1}/")
        out.append(f"02,FUNDLAB,{_BIC},1,{statement.last:%y%m%d},2359,{statement.asset},2/")
        out += [*account, f"98,{control},1,{len(account) + 2}/"]
        whole += control
    return "\n".join([*out, f"99,{whole},{len(statements)},{len(out) + 1}/", ""])


def _cents(amount: Decimal) -> int:
    cents = int(EXACT.divide(amount, CENT))
    if EXACT.multiply(CENT, cents) != amount:
        raise ValueError(f"BAI2 holds whole cents, not {amount}")
    return cents


def plain_csv(statements: Sequence[Statement]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["Date", "Value date", "Amount", "Balance", "Currency", "Account", "Counterparty",
         "Reference", "Description"]
    )  # fmt: skip
    for statement in statements:
        balance = statement.opening
        for line in statement.lines:
            balance = EXACT.add(balance, line.amount)
            writer.writerow(
                [line.booked_on, line.valued_on, line.amount, balance, statement.asset,
                 statement.account, line.name, line.bank_ref, line.memo]
            )  # fmt: skip
    return out.getvalue()


WRITERS: Final[dict[str, Callable[[Sequence[Statement]], str]]] = {
    "camt.053": lambda statements: camt(statements, "camt.053"),
    "camt.052": lambda statements: camt(statements, "camt.052"),
    "camt.054": lambda statements: camt(statements, "camt.054"),
    "mt940": mt940,
    "mt942": lambda statements: mt940(statements, interim=True),
    "ofx": ofx,
    "bai2": bai2,
    "csv": plain_csv,
}
PAGED: Final = ("camt.053", "mt940")
