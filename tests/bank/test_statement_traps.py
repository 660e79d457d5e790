"""What a bank's file can hide: amounts cut short, signs in a column, days of another zone."""

from __future__ import annotations

import hashlib
import os
from datetime import date
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest

from fundlab import bank
from fundlab.base.errors import AnalysisError

D = Decimal
CSV = """Date,Description,Amount,Currency,Reference
2026-01-01,wire AAAA1111 0000 received,100.50,USD,R1
2026-01-03,wire out,-75.00,USD,R2
2026-01-03,cccc3333-0000,-41.00,USD,R3
2026-01-09,bank charge,-12.00,USD,R4
"""
MT940 = """:20:STATEMENT
:25:12345678
:28C:1/1
:60F:C260101USD1000,00
:61:2601010101C100,50NTRFAAAA11110000//R1
:86:wire received
:61:2601030103D75,00NTRFNONREF//R2
:86:wire out
:61:2601030103D41,00NTRFCCCC33330000//R3
:86:payment
:61:2601090109D12,00NCHGNONREF//R4
:86:bank charge
:62F:C260131USD972,50
"""


def camt(more: str = "") -> str:
    entries = "".join(
        f"<Ntry>{more}<Amt Ccy='USD'>{amount}</Amt><CdtDbtInd>{side}</CdtDbtInd>"
        f"<BookgDt><Dt>{day}</Dt></BookgDt><AcctSvcrRef>{ref}</AcctSvcrRef>"
        f"<NtryDtls><TxDtls><RmtInf><Ustrd>{memo}</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>"
        for day, memo, amount, side, ref in LINES
    )
    return (
        "<?xml version='1.0'?><Document xmlns='urn:iso:std:iso:20022:tech:xsd:camt.053.001.08'>"
        f"<BkToCstmrStmt><Stmt>{entries}</Stmt></BkToCstmrStmt></Document>"
    )


LINES = [
    ("2026-01-01", "wire AAAA1111 0000 received", "100.50", "CRDT", "R1"),
    ("2026-01-03", "wire out", "75.00", "DBIT", "R2"),
    ("2026-01-03", "cccc3333-0000", "41.00", "DBIT", "R3"),
    ("2026-01-09", "bank charge", "12.00", "DBIT", "R4"),
]


def ofx() -> str:
    entries = "".join(
        f"<STMTTRN><TRNTYPE>{'CREDIT' if side == 'CRDT' else 'DEBIT'}"
        f"<DTPOSTED>{day.replace('-', '')}120000<TRNAMT>{'' if side == 'CRDT' else '-'}{amount}"
        f"<FITID>{ref}<MEMO>{memo}</STMTTRN>"
        for day, memo, amount, side, ref in LINES
    )
    return (
        "OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\nSECURITY:NONE\nENCODING:USASCII\n"
        "CHARSET:1252\nCOMPRESSION:NONE\nOLDFILEUID:NONE\nNEWFILEUID:NONE\n\n"
        "<OFX><SIGNONMSGSRSV1><SONRS><STATUS><CODE>0<SEVERITY>INFO</STATUS>"
        "<DTSERVER>20260131120000<LANGUAGE>ENG</SONRS></SIGNONMSGSRSV1>"
        "<BANKMSGSRSV1><STMTTRNRS><TRNUID>1<STATUS><CODE>0<SEVERITY>INFO</STATUS>"
        "<STMTRS><CURDEF>USD<BANKACCTFROM><BANKID>1<ACCTID>2<ACCTTYPE>CHECKING</BANKACCTFROM>"
        f"<BANKTRANLIST><DTSTART>20260101<DTEND>20260131{entries}</BANKTRANLIST>"
        "<LEDGERBAL><BALAMT>972.50<DTASOF>20260131</LEDGERBAL></STMTRS></STMTTRNRS>"
        "</BANKMSGSRSV1></OFX>"
    )


LARGE = "12345678901234567890.123456789012345678"


def read(text: str, tmp_path: Path, format: str | None = None) -> list[dict[str, Any]]:
    path = tmp_path / "file"
    path.write_bytes(text.encode())
    entries = bank.read(path, format=format, strict=False).entries
    return entries.sort_values("line").to_dict("records")


def mt940(line: str) -> str:
    return f":20:S\n:25:1\n:28C:1/1\n:60F:C260101USD9,00\n{line}\n:62F:C260131USD8,00\n"


# ------------------------------------------------------------------------------------- amounts


@pytest.mark.parametrize(
    "line",
    [
        ":61:2601010101C1234.56NMSCREF",
        ":61:2601010101C1234,56",
        ":61:2601010101C1.234,56NMSCREF\n:61:2601010101C1,00NMSCREF",
        ":61:2601010101C1,00NMSCREF\n:61:2601010101D1'234,56NMSCREF",
    ],
)
def test_an_amount_that_mt940_would_cut_is_refused(line: str, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"no type after 1|'1234567890123456,78' is not"):
        read(mt940(line), tmp_path)


def test_an_indented_line_of_mt940_is_refused_not_dropped(tmp_path: Path) -> None:
    lines = " :61:2601010101C10,00NMSCREF\n:61:2601010101D5,00NMSCX"
    with pytest.raises(AnalysisError, match="of 2 :61: lines 1 can be read"):
        read(mt940(lines), tmp_path)


def test_mt940_with_old_line_ends_is_read(tmp_path: Path) -> None:
    rows = read(MT940.replace("\n", "\r"), tmp_path)
    assert [row["amount"] for row in rows] == [D("100.50"), D(-75), D(-41), D(-12)]


@pytest.mark.parametrize(
    "text",
    [
        f"date,debit,credit\n2026-10-01,{LARGE},\n",
        camt().replace("75.00", LARGE),
        ofx().replace("-75.00", f"-{LARGE}"),
    ],
    ids=["csv", "camt.053", "ofx"],
)
@pytest.mark.parametrize("precision", [5, 28])
def test_no_digit_is_lost(text: str, precision: int, tmp_path: Path) -> None:
    with localcontext(prec=precision):
        rows = read(text, tmp_path)
    assert D(LARGE).copy_negate() in [row["amount"] for row in rows]


def test_mt940_loses_no_digit_to_the_callers_precision(tmp_path: Path) -> None:
    lines = "\n".join(f":61:2601010101{mark}1234567890123,5NMSCREF" for mark in ("D", "C", "RC"))
    with localcontext(prec=5):
        rows = read(mt940(lines), tmp_path)
    much = D("1234567890123.5")
    assert [row["amount"] for row in rows] == [much.copy_negate(), much, much.copy_negate()]


# --------------------------------------------------------------------------------- signs in CSV


@pytest.mark.parametrize(
    "text",
    [
        "Date,Amount,Type\n2026-10-01,-10.00, cr. \n",
        "Date,Amount,Dr/Cr\n2026-10-01,-10.00,DR\n2026-10-01,10.00,DR\n",
    ],
)
def test_a_side_beside_an_amount_of_the_other_sign_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"line [23]: .* says '.*give amounts with their sign"):
        read(text, tmp_path)


def test_signed_amounts_may_stand_beside_their_side(tmp_path: Path) -> None:
    text = "Details,Posting Date,Description,Amount\nDEBIT,2026-10-01,x,-5\nCREDIT,2026-10-01,x,7\n"
    assert [row["amount"] for row in read(text, tmp_path)] == [D(-5), D(7)]


def test_an_amount_agrees_with_its_credit_or_debit(tmp_path: Path) -> None:
    header = "Date,Amount,Credit,Debit\n"
    assert [row["amount"] for row in read(f"{header}2026-10-01,-9,0,9\n", tmp_path)] == [D(-9)]
    with pytest.raises(AnalysisError, match=r"the amount 10 is not the -10 of .* debit"):
        read(f"{header}2026-10-01,10,,10\n", tmp_path)


# ------------------------------------------------------------------------------ days, currencies


@pytest.mark.parametrize(
    "posted",
    ["20261001", "20261001000000[+9:JST]", "20261001000000[1:CET]", "20261001200000.000[-5:EST]"],
)
def test_an_ofx_day_is_the_banks_own(posted: str, tmp_path: Path) -> None:
    text = ofx().replace("20260101120000", posted)
    assert read(text, tmp_path)[0]["booked_on"] == date(2026, 10, 1)


def test_an_ofx_line_may_have_a_currency_of_its_own(tmp_path: Path) -> None:
    own = "<{0}><CURRATE>1.1<CURSYM>EUR</{0}></STMTTRN>"
    text = ofx().replace("</STMTTRN>", own.format("CURRENCY"), 1)
    assert [row["asset"] for row in read(text, tmp_path)] == ["EUR", "USD", "USD", "USD"]
    text = ofx().replace("</STMTTRN>", own.format("ORIGCURRENCY"), 1)
    assert [row["asset"] for row in read(text, tmp_path)] == ["USD"] * 4


@pytest.mark.parametrize("day", ["2026-01-09Z", "2026-01-09+02:00"])
def test_a_camt_day_may_name_its_zone(day: str, tmp_path: Path) -> None:
    rows = read(camt().replace("2026-01-09", day), tmp_path)
    assert rows[3]["booked_on"] == date(2026, 1, 9)


# ----------------------------------------------------------------------------------- other files


def test_files_without_a_statement_are_refused(tmp_path: Path) -> None:
    report = camt().replace("camt.053", "camt.052").replace("Stmt>", "Rpt>")
    with pytest.raises(AnalysisError, match="no Stmt"):
        read(report, tmp_path, "camt.053")
    head, _, tail = ofx().partition("<BANKMSGSRSV1>")
    with pytest.raises(AnalysisError, match="no statement"):
        read(head + tail.partition("</BANKMSGSRSV1>")[2], tmp_path)


@pytest.mark.parametrize(("text", "encoding"), [
    (CSV, "utf-16"), (MT940.replace("wire out", "Gebühr"), "cp1252"),
    (MT940.replace("wire out", "Gebühr"), "latin-1"),
    (CSV.replace("wire out", "5 €"), "cp1252"),
])  # fmt: skip
def test_other_encodings_are_read_and_the_evidence_is_of_the_bytes(
    text: str, encoding: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(text.encode(encoding))
    found = bank.read(path, strict=False)
    assert len(found.entries) == 4
    assert any(word in " ".join(found.entries["memo"].dropna())
               for word in ("Gebühr", "5 €", "wire out"))  # fmt: skip
    assert {*found.statements["sha256"]} == {hashlib.sha256(path.read_bytes()).hexdigest()}


@pytest.mark.parametrize(
    ("declared", "memo"),
    [("1252", "Ã©"), ("ISO-8859-1", "Ã©"), (" ISO-8859-1", "Ã©"), ("NONE", "é")],
)
def test_an_ofx_file_is_read_in_the_encoding_that_it_names(
    declared: str, memo: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.ofx"
    text = ofx().replace("CHARSET:1252", f"CHARSET:{declared}").replace(LINES[0][1], "MEMO", 1)
    path.write_bytes(text.encode("ascii").replace(b"MEMO>MEMO", b"MEMO>\xc3\xa9"))
    assert bank.read(path).entries["memo"].iloc[0] == memo


def test_long_details_stay_whole_and_a_bad_line_stays_off_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    details = "\n".join(f"{n:02} {'x' * 60}" for n in range(14))
    (row,) = read(mt940(f":61:2601010101C10,00NMSCREF\n:86:{details}"), tmp_path)
    assert row["memo"].endswith(f"13 {'x' * 60}")
    with pytest.raises(AnalysisError, match="'GARBAGE' is not a field of MT940"):
        read(mt940(":61:GARBAGE"), tmp_path)
    assert capfd.readouterr().err == ""


def test_what_is_no_file_or_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, large, largest = (tmp_path / name for name in ("pipe", "large", "largest"))
    os.mkfifo(pipe)
    for path, size in ((large, 268_435_457), (largest, 268_435_456)):
        with path.open("wb") as file:
            file.truncate(size)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(AnalysisError, match="is not a file"):
            bank.read(path)
    with pytest.raises(AnalysisError, match="more than 256 MiB"):
        bank.read(large)
    monkeypatch.setattr(Path, "read_bytes", lambda path: path.name.encode())
    with pytest.raises(AnalysisError, match="largest is not a valid csv statement"):
        bank.read(largest)


GERMAN = """:20:STARTUMSE
:25:10010010/1111111111
:28C:00000/001
:60F:C260118EUR0,00
:61:2601200120CR100,00N062NONREF
:86:166?00GUTSCHRIFT?109319?20EREF+12345?21SVWZ+Invoice 4711 of the ye?22ar 2026?32ACME GMBH
:62F:C260120EUR100,00
-
"""


def test_a_structured_memo_of_mt940_is_kept_without_its_marks(tmp_path: Path) -> None:
    (row,) = read(GERMAN, tmp_path, "mt940")
    assert row["bank_ref"] == "NONREF"
    assert row["memo"] == (
        "NONREF GUTSCHRIFT 9319 EREF+12345 SVWZ+Invoice 4711 of the year 2026 ACME GMBH"
    )


def test_a_report_of_the_day_is_read_as_one(tmp_path: Path) -> None:
    report = camt().replace("camt.053", "camt.052").replace("Stmt>", "Rpt>")
    assert len(read(report, tmp_path)) == 4
