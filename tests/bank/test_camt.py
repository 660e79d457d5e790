"""camt down to each element: where it is looked for, what stands in for it, what is refused."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fundlab import bank
from fundlab.bank.camt import read_camt
from fundlab.bank.model import Page
from fundlab.base.errors import AnalysisError

D = Decimal


def page_of(body: str, tag: str = "Stmt", head: str = "") -> Page:
    (page,) = read_camt(
        f"<Document xmlns='camt.053'><Msg>{head}<{tag}>{body}</{tag}></Msg></Document>".encode()
    )
    return page


def balance(code: str, amount: str, day: str = "<Dt><Dt>2026-01-31</Dt></Dt>") -> str:
    return (f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp><Amt Ccy='EUR'>{amount}</Amt>"
            f"<CdtDbtInd>CRDT</CdtDbtInd>{day}</Bal>")  # fmt: skip


def entry(details: str = "", amount: str = "9", side: str = "CRDT", more: str = "") -> str:
    return (f"<Ntry><Amt Ccy='EUR'>{amount}</Amt><CdtDbtInd>{side}</CdtDbtInd>"
            f"<BookgDt><Dt>2026-01-05</Dt></BookgDt>{more}<NtryDtls>{details}</NtryDtls></Ntry>"
            )  # fmt: skip


def payment(amount: str, more: str = "", currency: str = "EUR") -> str:
    return f"<TxDtls><Amt Ccy='{currency}'>{amount}</Amt>{more}</TxDtls>"


@pytest.mark.parametrize(
    ("body", "head", "found"),
    [
        ("<Acct><Id><IBAN>NL1</IBAN><Othr><Id>7</Id></Othr></Id></Acct>", "", {"account": "NL1"}),
        ("<Acct><Id><Othr><Id>7</Id></Othr></Id><Ccy>USD</Ccy></Acct>", "",
         {"account": "7", "asset": "USD"}),
        ("<Id>S1</Id><ElctrncSeqNb>12</ElctrncSeqNb><LglSeqNb>3</LglSeqNb>", "",
         {"id": "S1", "sequence": 12}),
        ("<LglSeqNb>3</LglSeqNb>", "", {"sequence": 3}),
        (f"<LglSeqNb>{'9' * 18}</LglSeqNb>", "", {"sequence": 10**18 - 1}),
        (f"<LglSeqNb>{'9' * 19}</LglSeqNb>", "", {"sequence": None}),
        ("<LglSeqNb>3a</LglSeqNb>", "", {"sequence": None}),
        ("", "", {"page": None, "first": True, "last": True, "sequence": None}),
        ("<StmtPgntn><PgNb>1</PgNb><LastPgInd>true</LastPgInd></StmtPgntn>", "",
         {"page": None, "first": True, "last": True}),
        ("<StmtPgntn><PgNb>1</PgNb><LastPgInd>false</LastPgInd></StmtPgntn>", "",
         {"page": 1, "first": True, "last": False}),
        ("<StmtPgntn><PgNb>2</PgNb></StmtPgntn>", "", {"page": 2, "first": False, "last": True}),
        ("<StmtPgntn><LastPgInd>0</LastPgInd></StmtPgntn>", "",
         {"page": 1, "first": True, "last": False}),
        ("", "<GrpHdr><MsgPgntn><PgNb>3</PgNb><LastPgInd>1</LastPgInd></MsgPgntn></GrpHdr>",
         {"page": 3, "first": False, "last": True}),
        ("<StmtPgntn><PgNb>2</PgNb></StmtPgntn>",
         "<GrpHdr><MsgPgntn><PgNb>3</PgNb></MsgPgntn></GrpHdr>", {"page": 2}),
        (balance("CLAV", "4") + balance("CLAV", "5"), "", {"available": D(4), "asset": "EUR"}),
        ("<FrToDt><ToDtTm>2026-01-30T23:59:59</ToDtTm><ToDt>2026-01-29</ToDt></FrToDt>", "",
         {"closing_on": date(2026, 1, 30)}),
        ("<FrToDt><ToDt>2026-01-29</ToDt></FrToDt>", "", {"closing_on": date(2026, 1, 29)}),
        ("<FrToDt><ToDt>2026-01-29</ToDt></FrToDt>" + balance("CLBD", "1"), "",
         {"closing_on": date(2026, 1, 31)}),
        (balance("CLBD", "1", "<Dt>2026-01-28</Dt>"), "", {"closing_on": date(2026, 1, 28)}),
        (balance("CLBD", "1", "<Dt><DtTm>2026-01-27T01:00:00+02:00</DtTm></Dt>"), "",
         {"closing_on": date(2026, 1, 27)}),
    ],
)  # fmt: skip
def test_a_statement_has_what_its_elements_say(body: str, head: str, found: dict[str, Any]) -> None:
    page = page_of(body, head=head)
    assert {name: getattr(page, name) for name in found} == found


@pytest.mark.parametrize(
    ("codes", "tag", "opening", "closing"),
    [
        ("OPBD CLBD", "Stmt", 1, 2), ("PRCD CLBD", "Stmt", 1, 2), ("PRCD OPBD CLBD", "Stmt", 2, 3),
        ("OPBD OPBD CLBD CLBD", "Stmt", 1, 3),
        # Of one page among several an interim balance takes the place of the other.
        ("ITBD", "Stmt", 1, None), ("ITBD ITBD", "Stmt", 1, 2), ("OPBD ITBD", "Stmt", 1, 2),
        ("PRCD ITBD", "Stmt", 1, 2), ("ITBD CLBD", "Stmt", 1, 2),
        ("OPBD ITBD CLBD", "Stmt", 1, 3), ("ITBD ITBD CLBD", "Stmt", 1, 3),
        ("ITBD ITBD ITBD", "Stmt", 1, 3), ("ITBD ITBD", "Rpt", None, None),
        ("OPBD ITBD", "Rpt", 1, None), ("XXXX", "Stmt", None, None),
    ],
)  # fmt: skip
def test_which_balance_opens_and_which_closes(
    codes: str, tag: str, opening: int | None, closing: int | None
) -> None:
    bodies = [balance(code, str(n)) for n, code in enumerate(codes.split(), start=1)]
    page = page_of("".join(bodies), tag)
    assert (page.opening, page.closing) == (opening, closing)


def test_totals_are_what_is_declared() -> None:
    def total(name: str, count: int, much: int, more: str = "") -> str:
        return f"<{name}><NbOfNtries>{count}</NbOfNtries><Sum>{much}</Sum>{more}</{name}>"

    net = "<TtlNetNtry><Amt>3</Amt><CdtDbtInd>DBIT</CdtDbtInd></TtlNetNtry>"
    parts = total("TtlNtries", 9, 7, net) + total("TtlCdtNtries", 4, 2)
    page = page_of(f"<TxsSummry>{parts}{total('TtlDbtNtries', 5, 5)}</TxsSummry>")
    assert page.declared == {
        "entries": 9, "sum": 7, "net": -3, "credits": 4, "credit_sum": 2, "debits": 5,
        "debit_sum": 5,
    }  # fmt: skip
    net = "<TtlNetNtryAmt>3</TtlNetNtryAmt><CdtDbtInd>CRDT</CdtDbtInd>"
    page = page_of(f"<TxsSummry><TtlNtries>{net}</TtlNtries></TxsSummry>")
    assert page.declared == {"net": 3}
    net = "<TtlNetNtryAmt>3</TtlNetNtryAmt>"
    assert page_of(f"<TxsSummry><TtlNtries>{net}</TtlNtries></TxsSummry>").declared == {}


@pytest.mark.parametrize(
    ("details", "parts"),
    [
        (payment("4") + payment("5"), ["4", "5"]),
        # Not each says what it came to in the entry's currency, or not all of it: it stays one.
        (payment("9"), ["9"]),
        (payment("4") + payment("4"), ["9"]),
        (payment("4") + payment("5", currency="USD"), ["9"]),
        (payment("4") + "<TxDtls></TxDtls>" + payment("5"), ["9"]),
        (payment("4") + "<TxDtls><AmtDtls><TxAmt><Amt Ccy='EUR'>5</Amt></TxAmt></AmtDtls></TxDtls>",
         ["4", "5"]),
        (payment("10") + payment("1", "<CdtDbtInd>DBIT</CdtDbtInd>"), ["10", "-1"]),
        (payment("4", "<CdtDbtInd>CRDT</CdtDbtInd>") + payment("5"), ["4", "5"]),
    ],
)  # fmt: skip
def test_a_batch_is_its_payments_where_they_make_it_up(details: str, parts: list[str]) -> None:
    page = page_of(entry(details) + entry())
    assert [str(each.amount) for each in page.entries] == [*parts, "9"]
    assert [each.position for each in page.entries] == [1] * len(parts) + [2]
    paid_out = page_of(entry(payment("4") + payment("5"), side="DBIT"))
    assert [each.amount for each in paid_out.entries] == [-4, -5]


@pytest.mark.parametrize(
    ("batch", "payments", "contradictions"),
    [
        ("<NbOfTxs>2</NbOfTxs><TtlAmt>9</TtlAmt>", 2, []),
        ("<NbOfTxs>3</NbOfTxs>", 2, [("batch_count", "3", 2)]),
        ("<NbOfTxs>1</NbOfTxs>", 2, [("batch_count", "1", 2)]),
        ("<NbOfTxs>3</NbOfTxs>", 0, []),  # without their details
        ("<TtlAmt>9.01</TtlAmt>", 2, [("batch_sum", "9.01", "9")]),
        ("<TtlAmt>8.99</TtlAmt>", 0, [("batch_sum", "8.99", "9")]),
    ],
)
def test_a_batch_is_what_it_declares(
    batch: str, payments: int, contradictions: list[tuple[Any, ...]]
) -> None:
    for side in ("CRDT", "DBIT"):
        page = page_of(entry(f"<Btch>{batch}</Btch>" + payment("4.5") * payments, side=side))
        assert [one[:3] for one in page.contradictions] == contradictions


REFERENCE = "<Refs><AcctSvcrRef>P1</AcctSvcrRef></Refs>"
PARTIES = ("<RltdPties><Dbtr><Nm>PAYER</Nm></Dbtr><Cdtr><Pty><Nm>PAYEE</Nm></Pty></Cdtr>"
           "</RltdPties>")  # fmt: skip
DOMAIN = ("<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>RCDT</Cd></Fmly></Domn>"
          "<Prtry><Cd>OWN</Cd></Prtry></BkTxCd>")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (entry(more="<AcctSvcrRef>A1</AcctSvcrRef><NtryRef>N1</NtryRef>"), {"bank_ref": "A1"}),
        (entry(more="<NtryRef>N1</NtryRef>"), {"bank_ref": "N1"}),
        (entry(payment("4", REFERENCE) + payment("5"), more="<NtryRef>N1</NtryRef>"),
         {"bank_ref": "P1"}),
        (entry(), {"bank_ref": None, "memo": None, "charges": None, "reversal": False,
                   "counterparty": None, "code": None, "valued_on": None, "asset": "EUR"}),
        (entry(more=DOMAIN), {"code": "PMNT/RCDT"}),
        (entry(more="<BkTxCd><Prtry><Cd> OWN  CODE </Cd></Prtry></BkTxCd>"),
         {"code": "OWN CODE"}),
        (entry(f"<TxDtls>{PARTIES}</TxDtls>"), {"counterparty": "PAYER"}),
        (entry(f"<TxDtls>{PARTIES}</TxDtls>", side="DBIT"), {"counterparty": "PAYEE"}),
        (entry(f"<TxDtls>{PARTIES}</TxDtls>", "0.00"), {"counterparty": "PAYER"}),
        (entry(f"<TxDtls>{PARTIES}</TxDtls>", "0.00", side="DBIT"), {"counterparty": "PAYEE"}),
        (entry(f"<TxDtls>{PARTIES}</TxDtls>", "0.50"), {"counterparty": "PAYER"}),
        (entry("<TxDtls><Refs><InstrId>I1</InstrId><EndToEndId>E1</EndToEndId></Refs><RmtInf>"
               "<Ustrd>INV 7</Ustrd><Strd><CdtrRefInf><Ref>RF1</Ref></CdtrRefInf></Strd></RmtInf>"
               "</TxDtls>", more="<AddtlNtryInf>note</AddtlNtryInf>"),
         {"memo": "INV 7 E1 I1 RF1 note", "own_ref": "E1"}),
        (entry(more="<Chrgs><Rcrd><Amt Ccy='EUR'>1.15</Amt></Rcrd><Rcrd><Amt Ccy='EUR'>2</Amt>"
               "</Rcrd><Rcrd><Amt Ccy='USD'>5</Amt></Rcrd></Chrgs>"), {"charges": D("3.15")}),
        (entry(more="<RvslInd>1</RvslInd><ValDt><Dt>2026-01-07</Dt></ValDt>"),
         {"reversal": True, "booked_on": date(2026, 1, 5), "valued_on": date(2026, 1, 7)}),
        (entry(more="<RvslInd/>"), {"reversal": False}),
        (entry().replace("BookgDt", "ValDt"),
         {"booked_on": date(2026, 1, 5), "valued_on": date(2026, 1, 5)}),
        (entry(amount="0", side="DBIT"), {"amount": D(0)}),
    ],
)  # fmt: skip
def test_an_entry_has_what_its_elements_say(text: str, found: dict[str, Any]) -> None:
    each = page_of(text).entries[0]
    assert {name: getattr(each, name) for name in found} == found


def test_only_what_is_booked_is_an_entry() -> None:
    for status in ("PDNG", "INFO", "FUTR"):
        page = page_of(entry() + entry(amount="4", side="DBIT", more=f"<Sts>{status}</Sts>"))
        assert [each.amount for each in page.entries] == [9]
        assert page.unbooked == [-4]


def test_entries_of_another_currency_contradict_their_account() -> None:
    of_eur = "<Acct><Ccy>EUR</Ccy></Acct>"
    dollars = entry().replace("EUR", "USD")
    for body, tag, asset, rules in (
        (of_eur + entry(), "Stmt", "EUR", []), (of_eur + dollars, "Stmt", "EUR", ["currency"]),
        (of_eur + dollars, "Ntfctn", "EUR", []), (dollars, "Stmt", "USD", []),
        (entry() + dollars, "Stmt", None, ["currency"]),
    ):  # fmt: skip
        page = page_of(body, tag)
        assert (page.asset, [one[0] for one in page.contradictions]) == (asset, rules)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("<Bal><CdtDbtInd>CRDT</CdtDbtInd></Bal>", "line 2: a balance has no amount"),
        (balance("OPBD", "1").replace("CRDT", "CRED"), "CdtDbtInd is CRED; CRDT or DBIT"),
        (entry().replace("<CdtDbtInd>CRDT</CdtDbtInd>", ""), "line 2: .*CdtDbtInd is None"),
        ("<Ntry><CdtDbtInd>CRDT</CdtDbtInd></Ntry>", "line 2: an entry has no amount"),
        (entry().replace("BookgDt", "Dt"), "line 2: an entry has no booking date"),
        (entry(more="<Sts>REJT</Sts>"), "status 'REJT'; booked is BOOK, .* PDNG, INFO, FUTR"),
        (entry(more="<RvslInd>yes</RvslInd>"), "'yes' is not one of true, false, 1, 0"),
    ],
)
def test_what_an_element_lacks_is_named_by_its_line(body: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(f"<Document xmlns='camt.053'><Msg><Stmt>\n{body}</Stmt></Msg></Document>")
    with pytest.raises(AnalysisError, match=told):
        bank.read(path)
    path.write_text("<Document xmlns='camt.053'><Msg></Msg></Document>")
    with pytest.raises(AnalysisError, match="no Stmt, Rpt or Ntfctn"):
        bank.read(path)
    with pytest.raises(AnalysisError, match=r"no Stmt; it is another message than camt\.053"):
        bank.read(path, format="camt.053")
