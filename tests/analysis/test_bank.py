"""One story in the four formats of a bank's statement."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from transfer_examples import DAY, KINDS, START, Row, arrow, records, transfer

from fundlab.analysis import reconcile
from fundlab.analysis.statement_files import read_statement
from fundlab.errors import AnalysisError

D = Decimal
OUT: Row = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL", "fee": D("25")}
ROWS = [
    transfer("aaaa1111-0000", amount=D("100.50")),
    transfer("bbbb2222-0000", amount=D("75"), created_at=START + DAY, **OUT),
    transfer("cccc3333-0000", amount=D("40"), created_at=START + 2 * DAY, **OUT),
    transfer("dddd4444-0000", amount=D("9.99"), created_at=START + 3 * DAY),
    transfer("eeee5555-0000", amount=D("1"), status="PENDING"),
    transfer("ffff6666-0000", amount=D("1"), type="CRYPTO_DEPOSIT", asset="ETH"),
]
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


def camt() -> str:
    entries = "".join(
        f"<Ntry><Amt Ccy='USD'>{amount}</Amt><CdtDbtInd>{side}</CdtDbtInd>"
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


FILES = {"csv": CSV, "mt940": MT940, "camt.053": camt(), "ofx": ofx()}


@pytest.fixture(params=FILES)
def statement(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "statement"
    path.write_text(FILES[request.param])
    return path


def test_every_format_is_read_exactly(statement: Path) -> None:
    rows = records(read_statement(statement))
    assert [(row["entry"], row["booked_on"], row["amount"], row["asset"]) for row in rows] == [
        (1, "2026-01-01", D("100.50"), "USD"),
        (2, "2026-01-03", D("-75"), "USD"),
        (3, "2026-01-03", D("-41"), "USD"),
        (4, "2026-01-09", D("-12"), "USD"),
    ]
    assert [row["bank_ref"] for row in rows] == ["R1", "R2", "R3", "R4"]


def test_transfers_meet_the_bank(statement: Path) -> None:
    result = records(reconcile.bank(arrow(ROWS), statement))
    names = ("status", "transfer_id", "entry", "amount", "bank_amount", "detail")
    assert [tuple(row[name] for name in names) for row in result] == [
        ("exact", "aaaa1111-0000", 1, D("100.5"), D("100.5"), "named by the bank"),
        ("window", "bbbb2222-0000", 2, D("-75"), D("-75"), "booked 1 days off"),
        ("memo", "cccc3333-0000", 3, D("-40"), D("-41"), "the bank has -41 "
         "instead of -40"),
        ("only_transfers", "dddd4444-0000", None, D("9.99"), None, "not on the statement"),
        ("only_bank", None, 4, None, D("-12"), "no such transfer"),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_results_come_back_in_kind(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "statement.csv"
    path.write_text(CSV)
    frame = KINDS[kind](ROWS)
    result = reconcile.bank(frame, path)
    assert type(result) is type(frame)
    assert len(records(result)) == 5
    assert [row["status"] for row in records(reconcile.bank(KINDS[kind]([]), path))] == [
        "only_bank"
    ] * 4


def test_each_entry_is_taken_once_and_the_nearest_first(tmp_path: Path) -> None:
    path = tmp_path / "statement.csv"
    path.write_text("Date,Amount\n2026-01-02,10\n2026-01-01,10\n2026-01-08,10\n")
    rows = [transfer("one"), transfer("two", created_at=START + DAY), transfer("three")]
    result = records(reconcile.bank(arrow(rows), path))
    pairs = {row["transfer_id"]: row["entry"] for row in result}
    assert pairs == {"one": 2, "two": 1, "three": None, None: 3}
    wide = records(reconcile.bank(arrow(rows), path, window=7))
    assert {row["transfer_id"]: row["entry"] for row in wide}["three"] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Date,Amount\n2026-01-02,1.5e3\n", "line 2: .*no plain amount"),
        ("Date,Amount\n02/01/2026,10\n", "line 2: .*isoformat"),
        ("Date,Credit,Debit\n2026-01-02,10,10\n", "line 2: .*either a credit or a debit"),
        ("When,What\n1,2\n", "needed are a date and an amount column, found are When, What"),
        ("<Document xmlns='camt.053'><Stmt>", "not XML"),
        ("<OFX><nonsense>", "no ofx statement"),
        (":20:X\n:61:nonsense\n", "no mt940 statement"),
    ],
)
def test_what_cannot_be_read_exactly_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "statement"
    path.write_text(text)
    with pytest.raises(AnalysisError, match=message):
        reconcile.bank(arrow(ROWS), path)


def test_arguments_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "statement.csv"
    with pytest.raises(AnalysisError, match="No such file"):
        reconcile.bank(arrow(ROWS), path)
    path.write_text(CSV)
    window: Any
    for window in (-1, 1.5, True, "3"):
        with pytest.raises(AnalysisError, match="window="):
            reconcile.bank(arrow(ROWS), path, window=window)
    with pytest.raises(AnalysisError, match="format='pdf' is not one of csv"):
        reconcile.bank(arrow(ROWS), path, format="pdf")
    with pytest.raises(AnalysisError, match="more than one row of id aaaa1111-0000"):
        reconcile.bank(arrow([ROWS[0], ROWS[0]]), path)
