"""Habits of banks, written here from the public descriptions of the formats: read right, or refused
with what is missing; and files cut or altered anywhere, which never end in a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_statements import made
from test_readers import BAI, CAMT, ENTRY, balance, camt053

from fundlab import bank
from fundlab.base.errors import AnalysisError, StatementError
from fundlab.sandbox.bank_files import WRITERS

D = Decimal


def read(text: str | bytes, tmp_path: Path, **options: Any) -> bank.Statements:
    path = tmp_path / "file"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return bank.read(path, **options)


def amounts(text: str | bytes, tmp_path: Path, **options: Any) -> list[Decimal]:
    return [D(a) for a in read(text, tmp_path, **options).entries["amount"]]


# ------------------------------------------------------------------------------------------- CSV


@pytest.mark.parametrize(
    "word",
    ["Withdrawal", "out", "Outgoing", "ACH Debit", "Soll", "S", "DEB", "-", "Paid out", "DR.",
     "Lastschrift", "Af", "sent"],
)  # fmt: skip
def test_a_word_turns_an_amount_without_a_sign(word: str, tmp_path: Path) -> None:
    inward = {"Soll": "Haben", "S": "H", "-": "+", "Af": "Bij"}.get(word, "Credit")
    text = f"Date,Amount,Direction\n2026-10-01,12.50,{word}\n2026-10-02,7.00,{inward}\n"
    assert amounts(text, tmp_path) == [D("-12.5"), D(7)]


def test_an_unknown_word_is_refused_with_all_there_are(tmp_path: Path) -> None:
    text = "Date,Amount,D/C\n2026-10-01,12.50,Sortie\n2026-10-02,7.00,Credit\n"
    with pytest.raises(AnalysisError, match=r"'Sortie', which .* holds 'credit', 'sortie'"):
        read(text, tmp_path)


GERMAN = """Kontonummer:;"DE89 3704 0044 0532 0130 00 / Girokonto";
Von:;01.10.2026
Kontostand vom 31.10.2026:;1.187,50 EUR

Buchungstag;Wertstellung;Auftraggeber/Empfänger;Verwendungszweck;Betrag;Währung;Saldo
30.10.2026;31.10.2026;ACME GmbH;Überweisung;-1.312,50;EUR;1.187,50
01.10.2026;01.10.2026;Müller;Rechnung 7;2.000,00;EUR;2.500,00
"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16"])
def test_a_usual_german_file_is_read_without_any_option(encoding: str, tmp_path: Path) -> None:
    found = read(GERMAN.encode(encoding), tmp_path)
    assert found.entries["amount"].tolist() == [D(2000), D("-1312.5")]
    assert found.entries["counterparty"].tolist() == ["Müller", "ACME GmbH"]
    assert found.entries["booked_on"].tolist() == [date(2026, 10, 1), date(2026, 10, 30)]
    assert found.statements["proved"].tolist() == ["balances"]


@pytest.mark.parametrize(
    ("written", "amount"),
    [('"1,234.50"', "1234.5"), ("(12.50)", "-12.5"), ("12.50-", "-12.5"), ("$800.00", "800"),
     ("($300.00)", "-300"), ("\u22127.25", "-7.25"), ("1 234.50", "1234.5"),
     ("1'234.50", "1234.5"), (".50", "0.5")],
)  # fmt: skip
def test_numbers_in_other_styles(written: str, amount: str, tmp_path: Path) -> None:
    text = f"Date,Amount\n2026-10-01,{written}\n2026-10-02,1.25\n"
    assert amounts(text, tmp_path) == [D(amount), D("1.25")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Date;Amount\n2026-10-01;1.234\n", "'1.234' may have decimals or thousands"),
        ("Date,Amount\n03/04/2026,5\n", "'03/04/2026' may begin with the day or the month"),
        ("Date,Amount\n2026-10-01,12..34\n", "is not a plain amount"),
        ("Date,Amount\n2026-10-01,(12.50\n", "is not a plain amount"),
    ],
)
def test_what_may_be_read_in_two_ways_is_refused(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=told.replace(".", r"\.")):
        read(text, tmp_path)


def test_days_are_told_apart_by_those_above_12(tmp_path: Path) -> None:
    us = "Date,Amount\n12/31/2026,5\n01/02/2026,7\n"
    assert read(us, tmp_path).entries["booked_on"].tolist() == [
        date(2026, 1, 2), date(2026, 12, 31)]  # fmt: skip
    uk = us.replace("12/31", "31/12")
    assert date(2026, 2, 1) in read(uk, tmp_path).entries["booked_on"].tolist()


def test_one_letter_of_several_words_is_no_direction(tmp_path: Path) -> None:
    alone = "Date,Amount,Type\n2026-12-31,5,d\n2026-12-30,7,c\n"
    assert read(alone, tmp_path).entries["amount"].tolist() == [D(7), D(-5)]
    words = alone.replace("d\n", "plan d\n").replace("c\n", "plan c\n")
    assert read(words, tmp_path).entries["amount"].tolist() == [D(7), D(5)]


def test_a_profile_says_what_a_file_does_not(tmp_path: Path) -> None:
    profile = tmp_path / "bank.toml"
    profile.write_text(
        'dates = "%d/%m/%Y"\ndecimal = ","\nencoding = "cp1250"\nasset = "PLN"\n'
        '[columns]\nbooked_on = "Dzień"\namount = "Ile"\ndirection = "Kierunek"\n'
        '[words]\nin = ["wpływ"]\nout = ["wypływ"]\n'
    )
    text = "Dzień;Ile;Kierunek\n03/04/2026;1.234;wpływ\n05/04/2026;2,50;wypływ\n".encode("cp1250")
    found = read(text, tmp_path, profile=profile)
    assert found.entries["amount"].tolist() == [D(1234), D("-2.5")]
    assert found.entries["booked_on"].tolist() == [date(2026, 4, 3), date(2026, 4, 5)]
    assert found.entries["asset"].tolist() == ["PLN", "PLN"]
    assert found.options == {"bank-profile": str(profile)}


@pytest.mark.parametrize(
    ("text", "told"),
    [("[words]\nup = ['x']", "words must be a table of in, out"), ("x = 1", "unknown x"),
     ("dates = 3", "dates must be a text"), ("[[", "is not TOML"),
     ("columns = 'x'", "columns must be a table"), ("encoding = 'klingon'", "unknown encoding")],
)  # fmt: skip
def test_a_profile_that_cannot_be_meant_is_refused(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "bank.toml").write_text(text)
    with pytest.raises(AnalysisError, match=told):
        read("date,amount\n2026-10-01,5\n", tmp_path, profile=tmp_path / "bank.toml")


# ----------------------------------------------------------------------------------------- MT940


def message(number: int, opening: str, lines: str, closing: str, end: str = "-") -> str:
    return (f":20:S{number}\n:25:NL12ABNA0123456789\n:28C:{number}/1\n:60F:C260101EUR{opening}\n"
            f"{lines}:62F:C260131EUR{closing}\n{end}\n")  # fmt: skip


HABITS = {
    "a header between messages": message(1, "10,", ":61:2601020102C5,00N123REF//1\n", "15,",
                                         "-\nABNANL2A\n940\nABNANL2A"),
    "text right after the end": message(1, "10,", ":61:2601020102C5,00N123REF//1\n", "15,",
                                        "-ABNANL2A\n940"),
    "blocks": "{1:F01BANK}{2:I940}{4:\n" + message(
        1, "10,", ":61:2601020102C5,00N123REF//1\n", "15,", "-}"),
    "padded to 16": message(1, "0000000000010,00", ":61:2601020102C0000000000005,00N123REF//1\n",
                            "0000000000015,00"),
    "a blank before the type": message(1, "10,", ":61:2601020102C5,00 NTRFREF//1\n", "15,"),
    "an end of file mark": message(1, "10,", ":61:2601020102C5,00N123REF//1\n", "15,", "\x1a"),
    "line ends as @@": "@@" + message(
        1, "10,", ":61:2601020102C5,00N123REF//1\n", "15,").replace("\n", "@@"),
    "a bank's number and name first": "ABNANL2A\n940\nABNANL2A\n" + message(
        1, "10,", ":61:2601020102C5,00N123REF//1\n", "15,"),
    "funds code and reversal": message(
        1, "10,", ":61:2601020102CR7,00N123REF//1\n:61:260102RC2,00NTRFREF//1b\n", "15,"),
    "a statement's number of ten digits": message(1, "10,", ":61:2601020102C5,00N123R\n", "15,"
                                                  ).replace(":28C:1/1", ":28C:1810118101"),
    "a hyphen in a text": message(1, "10,", ":61:2601020102C5,00N123REF//1\n:86:rent\n-and heat\n",
                                  "15,"),
}  # fmt: skip


@pytest.mark.parametrize("habit", HABITS)
def test_habits_of_mt940(habit: str, tmp_path: Path) -> None:
    text = HABITS[habit] + message(2, "15,", ":61:2601030103D1,50N123REF//2\n", "13,50")
    if "ten digits" in habit:
        text = text.replace(":28C:2/1", ":28C:1810118102")
    found = read(text.replace("\n", "\r\n"), tmp_path)
    booked = [D(7), D(-2)] if "reversal" in habit else [D(5)]
    assert found.entries["amount"].tolist() == [*booked, D("-1.5")]
    assert set(found.statements["proved"]) == {"balances"}


def test_a_month_of_interest_has_30_days(tmp_path: Path) -> None:
    text = message(1, "10,", ":61:1602300301C5,00N024NONREF\n", "15,")
    assert read(text, tmp_path).entries["valued_on"].tolist() == [date(2016, 2, 29)]
    with pytest.raises(AnalysisError, match="day is out of range"):
        read(text.replace("160230", "160231"), tmp_path)


# ------------------------------------------------------------------------------------------ camt


@pytest.mark.parametrize("version", range(2, 9))
@pytest.mark.parametrize(
    ("format", "tag"), [("camt.053", "Stmt"), ("camt.052", "Rpt"), ("camt.054", "Ntfctn")]
)
def test_versions_and_booleans_of_camt(version: int, format: str, tag: str, tmp_path: Path) -> None:
    status = "<Sts><Cd>BOOK</Cd></Sts>" if version > 7 else "<Sts>BOOK</Sts>"
    text = CAMT.replace("camt.053.001.02", f"{format}.001.{version:02}")
    text = text.replace("Stmt>", f"{tag}>").replace("<Sts>BOOK</Sts>", status)
    found = read(text.replace(">true<", ">1<"), tmp_path)
    assert found.entries["reversal"].tolist() == [True]
    assert found.entries["amount"].tolist() == [D("8.85")]
    assert found.statements["format"].tolist() == [format]
    assert not read(text.replace(">true<", ">0<"), tmp_path).entries["reversal"].any()
    with pytest.raises(AnalysisError, match="'2' is not one of true, false, 1, 0"):
        read(text.replace(">true<", ">2<"), tmp_path)


@pytest.mark.parametrize(("second", "asset"), [("EUR", "EUR"), ("CHF", None)])
def test_a_notice_without_a_currency_is_in_that_of_its_entries(
    second: str, asset: str | None, tmp_path: Path
) -> None:
    """Where they have one; a notice may be of several, a statement may not."""
    other = ENTRY.replace("AAAASESS", "BBBB").replace(
        "<Ntry><Amt Ccy='EUR'>", f"<Ntry><Amt Ccy='{second}'>"
    )
    text = camt053(ENTRY + other).replace("camt.053", "camt.054").replace("Stmt>", "Ntfctn>")
    found = read(text, tmp_path)
    assert [None if pd.isna(one) else one for one in found.statements["asset"]] == [asset]
    assert found.entries["asset"].tolist() == ["EUR", second]


def test_more_dialects_of_camt(tmp_path: Path) -> None:
    plain = CAMT.replace(" xmlns='urn:iso:std:iso:20022:tech:xsd:camt.053.001.02'", "")
    assert amounts(plain, tmp_path) == [D("8.85")]
    pages = "<StmtPgntn><PgNb>1</PgNb><LastPgInd>0</LastPgInd></StmtPgntn>"
    body = balance("OPBD", "18.15") + balance("CLBD", "27.00") + ENTRY
    with pytest.raises(StatementError, match="the page after it is missing"):
        read(camt053(pages + body), tmp_path)
    with pytest.raises(AnalysisError, match="an entry has the status 'VORM'; booked is BOOK"):
        read(CAMT.replace("<Sts>BOOK</Sts>", "<Sts><Prtry>VORM</Prtry></Sts>"), tmp_path)


# ------------------------------------------------------------------------------------ BAI2 and OFX


def test_bai2_may_detail_a_part_of_what_its_totals_prove(tmp_path: Path) -> None:
    text = """01,A,B,260215,1459,1,,,2/
02,B,A,1,260215,2400,USD,2/
03,123,USD,010,100000,,,015,103000,,,100,5000,3,,400,2000,1,/
16,195,1500,0,R1,,first of three/
49,211500,3/
98,211500,1,5/
99,211500,1,7/
"""
    found = read(text, tmp_path)
    assert found.entries["amount"].tolist() == [D(15)]
    assert found.statements["closing"].tolist() == [D(1030)]
    assert found.statements["proved"].tolist() == ["no"]
    with pytest.raises(StatementError, match="control total"):
        read(text.replace("16,195,1500", "16,195,1400"), tmp_path)


OFX = """OFXHEADER:100
DATA:OFXSGML
ENCODING:USASCII
CHARSET:1252

<OFX><BANKMSGSRSV1><STMTTRNRS><STMTRS><CURDEF>USD
<BANKACCTFROM><BANKID>5472369148<ACCTID>42<ACCTTYPE>CHECKING</BANKACCTFROM>
<BANKTRANLIST><DTSTART>20261001<DTEND>20261031
<STMTTRN><TRNTYPE>CREDIT<DTPOSTED>20261002120000[-5:EST]<TRNAMT>5.00<FITID>a1<NAME>R&amp;D</STMTTRN>
<STMTTRN><TRNTYPE>DEBIT<DTPOSTED>20261003<TRNAMT>-1,50<FITID>a2<NAME><MEMO>tea</STMTTRN>
</BANKTRANLIST>
<LEDGERBAL><BALAMT>3.50<DTASOF>20261031</LEDGERBAL></STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>
"""


def test_ofx_one_and_two_with_habits(tmp_path: Path) -> None:
    assert amounts(OFX, tmp_path) == [D(5), D("-1.5")]
    found = read(OFX, tmp_path, opening=0)
    assert found.statements["proved"].tolist() == ["balances"]
    assert found.entries["counterparty"].tolist()[0] == "R&D"
    two = "<?xml version='1.0'?><?OFX OFXHEADER='200'?>" + OFX[OFX.index("<OFX>") :]
    for tag in ("CURDEF", "BANKID", "ACCTID", "ACCTTYPE", "TRNTYPE", "DTPOSTED", "TRNAMT", "FITID",
                "NAME", "MEMO", "DTSTART", "DTEND", "BALAMT", "DTASOF"):  # fmt: skip
        parts = two.split(f"<{tag}>")
        ended = (part.replace("<", f"</{tag}><", 1) for part in parts[1:])
        two = f"<{tag}>".join([parts[0], *ended])
    assert amounts(two, tmp_path) == [D(5), D("-1.5")]


def test_a_fitid_twice_is_one_entry(tmp_path: Path) -> None:
    line = OFX[OFX.index("<STMTTRN>") : OFX.index("</STMTTRN>")] + "</STMTTRN>\n"
    twice = OFX.replace("</BANKTRANLIST>", f"{line}</BANKTRANLIST>")
    with pytest.raises(StatementError, match="FITID a1 is there twice"):
        read(twice, tmp_path)
    found = read(twice, tmp_path, strict=False)
    assert found.entries["amount"].tolist() == [D(5), D("-1.5")]
    assert found.findings["rule"].tolist() == ["repeated"]


# ----------------------------------------------------------------------- nothing ends in a trace


def mutants(seed: int, count: int, path: Path) -> int:
    """Bytes cut out, doubled, altered and inserted, of a file of each format."""
    rng = random.Random(seed)
    sources = [WRITERS[f](made(rng, f)).encode() for f in WRITERS] + [
        OFX.encode(), BAI.encode(), CAMT.encode(), GERMAN.encode("cp1252"),
        HABITS["blocks"].encode(),
    ]  # fmt: skip
    refused = 0
    for _ in range(count):
        text = bytearray(rng.choice(sources))
        for _ in range(rng.choice((1, 1, 2, 5))):
            at, size = rng.randrange(len(text)), rng.choice((1, 1, 3, 40, 400))
            kind = rng.randrange(4)
            if kind == 0:
                del text[at : at + size]
            elif kind == 1:
                text[at:at] = text[at : at + size]
            elif kind == 2:
                text[at] = rng.randrange(256)
            else:
                text[at:at] = rng.choice(
                    (b"9" * size, b"<", b">", b"\0", b"\xff\xfe", b":28C:" + b"9" * 5000, b"&#0;",
                     b"\n", b"-", b",", b"<a>" * size)
                )  # fmt: skip
            if not text:
                break
        path.write_bytes(bytes(text))
        for strict in (True, False):
            try:
                bank.read(path, strict=strict)
            except AnalysisError:
                refused += strict
    return refused


@pytest.mark.seconds
def test_mutated_files_never_end_in_a_traceback(tmp_path: Path) -> None:
    assert mutants(1, 120, tmp_path / "file") > 30


@pytest.mark.campaign
def test_20_000_mutated_files_never_end_in_a_traceback(
    tmp_path: Path, seed: int, figure: Callable[[str], None]
) -> None:
    figure(f"20,000 mutants, {mutants(seed, 20_000, tmp_path / 'file'):,} refused, no traceback")
