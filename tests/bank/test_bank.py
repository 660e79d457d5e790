"""One story in the four formats of a bank's statement."""

from __future__ import annotations

import re
import tracemalloc
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_examples import DAY, KINDS, SCHEMA, START, Row, arrow, records, transfer

from fundlab.analysis import reconcile
from fundlab.bank.statements import read_statement
from fundlab.base.errors import AnalysisError, OtherSideWarning

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
        ("window", "bbbb2222-0000", 2, D("-75"), D("-75"), "booked 1 day off"),
        ("memo", "cccc3333-0000", 3, D("-40"), D("-41"), "the bank has -41 "
         "instead of -40"),
        ("only_transfers", "dddd4444-0000", None, D("9.99"), None, "not on the statement"),
        ("only_bank", None, 4, None, D("-12"), "no such transfer"),
    ]  # fmt: skip


# ------------------------------------------------------------------------- whose account it is


def turned(kind: str) -> str:
    """The same story on the customer's own account: what came in there went out here."""
    text = FILES[kind]
    if kind == "csv":
        return re.sub(r",(-?)(\d+\.\d\d),", lambda m: f",{'' if m[1] else '-'}{m[2]},", text)
    if kind == "mt940":
        return re.sub(r"(:61:\d{10})([CD])", lambda m: m[1] + "DC"["CD".index(m[2])], text)
    if kind == "ofx":
        return re.sub(r"<TRNAMT>(-?)", lambda m: "<TRNAMT>" + ("" if m[1] else "-"), text)
    return re.sub("CRDT|DBIT", lambda m: "DBIT" if m[0] == "CRDT" else "CRDT", text)


@pytest.mark.parametrize("kind", FILES)
def test_transfers_meet_the_statement_of_our_own_account(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "statement"
    path.write_text(turned(kind))
    found = records(reconcile.bank(arrow(ROWS), path, side="ours"))
    names = ("status", "transfer_id", "entry", "amount", "bank_amount")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("exact", "aaaa1111-0000", 1, D("-100.5"), D("-100.5")),
        ("window", "bbbb2222-0000", 2, D(75), D(75)),
        ("memo", "cccc3333-0000", 3, D(40), D(41)),
        ("only_transfers", "dddd4444-0000", None, D("-9.99"), None),
        ("only_bank", None, 4, None, D(12)),
    ]


@pytest.mark.parametrize(("side", "amount"), [("ours", "-1000"), ("service", "1000")])
def test_a_quoted_ref_id_is_found_on_either_side(side: Any, amount: str, tmp_path: Path) -> None:
    path = tmp_path / "statement.csv"
    path.write_text(f"date,amount,memo\n2026-01-02,{amount},funding RENT-2026-01\n")
    rows = [transfer("t1", amount=D(1000), ref_id="rent-2026-01")]
    found = records(reconcile.bank(pa.Table.from_pylist(rows, schema=NAMED), path, side=side))
    assert [(row["status"], row["transfer_id"], row["amount"]) for row in found] == [
        ("exact", "t1", D(amount))
    ]


@pytest.mark.parametrize(("side", "amount"), [("service", "-1000"), ("ours", "1000")])
def test_a_statement_of_the_other_side_is_said_to_be_one(
    side: Any, amount: str, tmp_path: Path
) -> None:
    path = tmp_path / "statement.csv"
    path.write_text(f"date,amount,memo\n2026-01-02,{amount},funding RENT-2026-01\n")
    rows = pa.Table.from_pylist(
        [transfer("t1", amount=D(1000), ref_id="rent-2026-01")], schema=NAMED
    )
    other = "ours" if side == "service" else "service"
    with pytest.warns(
        OtherSideWarning,
        match=f"0 of 1 entries match with side='{side}', 1 would with side='{other}'",
    ):
        found = records(reconcile.bank(rows, path, side=side))
    assert [row["status"] for row in found] == ["only_transfers", "only_bank"]


def test_a_payment_that_came_back_does_not_turn_the_side(tmp_path: Path) -> None:
    """Warnings are errors here."""
    path = tmp_path / "statement.csv"
    path.write_text('date,amount,memo\n2026-01-01,1000,one\n2026-01-02,-1000,"one, returned"\n')
    found = records(reconcile.bank(arrow([transfer("t1", amount=D(1000))]), path))
    assert [row["status"] for row in found] == ["window", "only_bank"]


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


def test_each_entry_is_taken_once_and_whose_window_ends_first_is_served_first(
    tmp_path: Path,
) -> None:
    path = tmp_path / "statement.csv"
    path.write_text("Date,Amount\n2026-01-02,10\n2026-01-01,10\n2026-01-08,10\n")
    rows = [transfer("one"), transfer("two", created_at=START + DAY), transfer("three")]
    result = records(reconcile.bank(arrow(rows), path))
    pairs = {row["transfer_id"]: row["entry"] for row in result}
    assert pairs == {"one": 2, "three": 1, "two": None, None: 3}
    wide = records(reconcile.bank(arrow(rows), path, window=7))
    assert {row["transfer_id"]: row["entry"] for row in wide} == {"one": 2, "three": 1, "two": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Date,Amount\n2026-01-02,1.5e3\n", "line 2: .*not a plain amount"),
        ("Date,Amount\n02/01/2026,10\n", "line 2: .*isoformat.* --dates, such as %d.%m.%Y"),
        ("Date,Credit,Debit\n2026-01-02,10,10\n", "line 2: .*either a credit or a debit"),
        (
            "When,What\n1,2\n",
            "needed are a date and an amount column, found are When, What; "
            ".*--columns booked_on=…,amount=…; .* as one of mt940,.* bai2",
        ),
        ("", "it is empty; get it again"),
        ("Date,Amount,amount\n2026-01-02,1,2\n", "more than one column 'amount'"),
        ("Date,Amount\n\n2026-01-02,1\n\n2026-01-02,x\n", "line 5: .*not a plain amount"),
        ("Date,Amount\n2026-01-02,1,2\n", "line 2: .*3 values for 2 columns"),
        (camt("<Sts>ODD</Sts>"), "status 'ODD'"),
        (camt().replace("<CdtDbtInd>CRDT</CdtDbtInd>", ""), "CdtDbtInd is None"),
        ("<Document xmlns='camt.053'><Stmt>", "not XML"),
        ("<OFX><nonsense>", "is not a valid ofx statement"),
        (":20:X\n:61:nonsense\n", "is not a valid mt940 statement"),
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
    side: Any = "theirs"
    with pytest.raises(AnalysisError, match="side='theirs' is not one of ours, service"):
        reconcile.bank(arrow(ROWS), path, side=side)
    with pytest.raises(AnalysisError, match="format='pdf' is not one of csv"):
        reconcile.bank(arrow(ROWS), path, format="pdf")
    with pytest.raises(AnalysisError, match="more than one row of id aaaa1111-0000"):
        reconcile.bank(arrow([ROWS[0], ROWS[0]]), path)


# ----------------------------------------------------------------------- what the formats mean


def read(text: str, tmp_path: Path) -> list[tuple[Any, ...]]:
    path = tmp_path / "file"
    path.write_text(text)
    return [(row["amount"], row["bank_ref"]) for row in records(read_statement(path))]


def test_mt940_reversals_turn_the_direction(tmp_path: Path) -> None:
    lines = [
        f":61:26010{n}010{n}{mark}{n},00NTRFREF{n}//BANK{n}"
        for n, mark in enumerate(("C", "D", "RC", "RD"), start=1)
    ]
    text = ":20:S\n:25:1\n:28C:1/1\n:60F:C260101USD9,00\n" + "\n".join(lines)
    assert read(f"{text}\n:62F:C260131USD8,00\n", tmp_path) == [
        (D(1), "BANK1"),
        (D(-2), "BANK2"),
        (D(-3), "BANK3"),
        (D(4), "BANK4"),
    ]


@pytest.mark.parametrize(
    ("status", "entries"),
    [
        ("<Sts>BOOK</Sts>", 4),
        ("<Sts><Cd>BOOK</Cd></Sts>", 4),
        ("", 4),
        ("<Sts>PDNG</Sts>", 0),
        ("<Sts><Cd>INFO</Cd></Sts>", 0),
        ("<Sts><Cd>FUTR</Cd></Sts>", 0),
    ],
)
def test_camt_entries_count_once_booked(status: str, entries: int, tmp_path: Path) -> None:
    assert len(read(camt(status), tmp_path)) == entries


def batch(first: str, second: str) -> str:
    details = "".join(
        f"<TxDtls><Refs><EndToEndId>{name}</EndToEndId></Refs>{amount}</TxDtls>"
        for name, amount in (("aaaaaaa1", first), ("bbbbbbb2", second))
    )
    entry = (
        "<Ntry><Amt Ccy='USD'>30.00</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts>BOOK</Sts>"
        "<BookgDt><Dt>2026-01-01</Dt></BookgDt><AcctSvcrRef>R</AcctSvcrRef>"
        f"<NtryDtls>{details}</NtryDtls></Ntry>"
    )
    return camt().replace("<Stmt>", f"<Stmt>{entry}")


AMT = "<Amt Ccy='USD'>{}</Amt>"
OLD_AMT = "<AmtDtls><TxAmt><Amt Ccy='USD'>{}</Amt></TxAmt></AmtDtls>"


@pytest.mark.parametrize("amount", [AMT, OLD_AMT], ids=["amount", "details"])
def test_a_camt_batch_is_its_payments(amount: str, tmp_path: Path) -> None:
    path = tmp_path / "statement"
    path.write_text(batch(amount.format("10.00"), amount.format("20.00")))
    rows = records(read_statement(path))[:2]
    assert [(row["amount"], row["memo"], row["bank_ref"]) for row in rows] == [
        (D(-10), "aaaaaaa1", "R"),
        (D(-20), "bbbbbbb2", "R"),
    ]


@pytest.mark.parametrize("second", ["", AMT.format("19.99"), "<Amt Ccy='EUR'>20.00</Amt>"])
def test_a_camt_batch_that_does_not_add_up_stays_whole(second: str, tmp_path: Path) -> None:
    assert read(batch(AMT.format("10.00"), second), tmp_path)[0] == (D(-30), "R")


def test_csv_with_columns_for_credit_and_debit(tmp_path: Path) -> None:
    text = "Date,Credit,Debit,Ref\n2026-01-02,5,,a\n2026-01-02,0.00,7,b\n2026-01-02,0,,c\n"
    assert read(text, tmp_path) == [(D(5), "a"), (D(-7), "b"), (D(0), "c")]
    assert read("Date,Debit,Id\n2026-01-02,6.50,NA\n", tmp_path) == [(D("-6.50"), "NA")]
    quoted = '"Date";"Amount";"Ref"\n"2026-01-02";"1";"a; b"\n'
    assert read(quoted, tmp_path) == [(D(1), "a; b")]


# --------------------------------------------------------------------------- names and dates

NAMED = pa.schema([*SCHEMA, ("ref_id", pa.string()), ("memo", pa.string())])


def matched(
    lines: list[tuple[str, str, str]], rows: list[Row], path: Path, window: int = 3
) -> dict[str | None, tuple[str, int | None]]:
    text = "".join(f"{day},{amount},{memo}\n" for day, amount, memo in lines)
    path.write_text(f"date,amount,memo\n{text}")
    found = reconcile.bank(pa.Table.from_pylist(rows, schema=NAMED), path, window=window)
    return {row["transfer_id"]: (row["status"], row["entry"]) for row in records(found)}


HUNDRED = D("100.00")


def test_a_name_is_not_found_inside_a_longer_one(tmp_path: Path) -> None:
    lines = [("2026-01-01", "100", "REF-1000012"), ("2026-01-01", "90", "REF-100001")]
    rows = [transfer("REF-100001", amount=HUNDRED), transfer("REF-1000012", amount=HUNDRED)]
    assert matched(lines, rows, tmp_path / "a.csv") == {
        "REF-1000012": ("exact", 1),
        "REF-100001": ("memo", 2),
    }


def test_the_longest_name_is_served_first(tmp_path: Path) -> None:
    lines = [("2026-01-01", "100", "paid REF-100001-2"), ("2026-01-02", "100", "paid")]
    rows = [transfer("REF-100001", amount=HUNDRED), transfer("REF-1000012", amount=HUNDRED)]
    assert matched(lines, rows, tmp_path / "a.csv") == {
        "REF-1000012": ("exact", 1),
        "REF-100001": ("window", 2),
    }


def test_a_common_memo_is_no_name(tmp_path: Path) -> None:
    rows = [transfer("t1xxxxxx", amount=HUNDRED, memo="Payroll")]
    june = [("2026-06-01", "100", "Payroll June")]
    assert matched(june, rows, tmp_path / "a.csv")["t1xxxxxx"] == ("only_transfers", None)
    other = [("2026-06-01", "77.31", "Payroll June")]
    assert matched(other, rows, tmp_path / "a.csv")["t1xxxxxx"] == ("only_transfers", None)
    near = [("2026-01-02", "77.31", "Payroll January")]
    assert matched(near, rows, tmp_path / "a.csv")["t1xxxxxx"] == ("memo", 1)


def test_a_memo_chooses_among_equal_amounts(tmp_path: Path) -> None:
    rows = [
        transfer("t1xxxxxx", amount=HUNDRED),
        transfer("t2xxxxxx", amount=HUNDRED, memo="invoice 4711"),
    ]
    lines = [("2026-01-01", "100", "INVOICE-4711"), ("2026-01-02", "100", "x")]
    assert matched(lines, rows, tmp_path / "a.csv") == {
        "t1xxxxxx": ("window", 2),
        "t2xxxxxx": ("window", 1),
    }


def test_money_in_never_meets_money_out(tmp_path: Path) -> None:
    rows = [transfer("REF-1000012", amount=HUNDRED)]
    lines = [("2026-01-01", "-77.31", "card fee REF-1000012")]
    assert matched(lines, rows, tmp_path / "a.csv") == {
        "REF-1000012": ("only_transfers", None),
        None: ("only_bank", 1),
    }


def test_as_many_pairs_as_can_be(tmp_path: Path) -> None:
    rows = [
        transfer("one", amount=HUNDRED),
        transfer("two", amount=HUNDRED, created_at=START + 2 * DAY),
    ]
    for days in (("2026-01-03", "2026-01-05"), ("2026-01-03", "2026-01-06")):
        lines = [(day, "100", "x") for day in days]
        assert matched(lines, rows, tmp_path / "a.csv") == {
            "one": ("window", 1),
            "two": ("window", 2),
        }


@given(
    made=st.lists(st.tuples(st.integers(0, 5), st.just("1")), max_size=5),
    booked=st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["1", "1", "2"])), max_size=5),
    window=st.integers(0, 4),
)
@settings(max_examples=25, deadline=None)
def test_no_other_pairing_by_date_has_more_pairs(
    made: list[tuple[int, str]],
    booked: list[tuple[int, str]],
    window: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Against every pairing there is, tried one after the other."""

    def most(left: list[tuple[int, str]], free: list[tuple[int, str]]) -> int:
        if not left:
            return 0
        (day, amount), *others = left
        fits = [
            place
            for place, (on, much) in enumerate(free)
            if much == amount and day + 1 <= on <= day + 1 + window
        ]
        taken = [1 + most(others, free[:place] + free[place + 1 :]) for place in fits]
        return max([most(others, free), *taken])

    rows = [
        transfer(f"t{n}", amount=D(amount), created_at=START + day * DAY)
        for n, (day, amount) in enumerate(made)
    ]
    lines = [(f"2026-01-{day:02}", amount, "x") for day, amount in booked]
    path = tmp_path_factory.mktemp("bank") / "statement.csv"
    found = matched(lines, rows, path, window)
    pairs = {
        name: (made[int(name[1:])], booked[entry - 1])
        for name, (status, entry) in found.items()
        if status == "window" and entry is not None and name is not None
    }
    early = [name for name, ((day, _), (on, _)) in pairs.items() if on == day]
    assert len(pairs) - len(early) == most(made, booked)
    for (day, amount), (on, much) in pairs.values():
        assert amount == much
        assert day <= on <= day + 1 + window


def test_an_entry_may_be_booked_on_the_evening_before_in_utc(tmp_path: Path) -> None:
    rows = [transfer("one", amount=HUNDRED, created_at=START + DAY + DAY // 24)]
    lines = [("2026-01-01", "100", "x")]
    assert matched(lines, rows, tmp_path / "a.csv") == {"one": ("window", 1)}
    lines = [("2025-12-31", "100", "x")]
    assert matched(lines, rows, tmp_path / "a.csv")["one"] == ("only_transfers", None)


def test_an_entry_of_the_same_day_is_better_than_one_of_the_day_before(tmp_path: Path) -> None:
    rows = [transfer("one", amount=HUNDRED, created_at=START + DAY)]
    lines = [("2026-01-01", "100", "x"), ("2026-01-02", "100", "x")]
    assert matched(lines, rows, tmp_path / "a.csv") == {
        "one": ("window", 2),
        None: ("only_bank", 1),
    }


def test_a_memo_that_all_share_takes_no_more_memory_than_its_rows(tmp_path: Path) -> None:
    count = 600
    rows = [
        transfer(f"t{n:08}", amount=D(n + 1), created_at=START + n * DAY, memo="RENTMEMO")
        for n in range(count)
    ]
    days = [date(2026, 1, 1) + timedelta(days=n) for n in range(count)]
    lines = [(f"{day}", f"{n + 1}", "RENTMEMO") for n, day in enumerate(days)]
    tracemalloc.start()
    found = matched(lines, rows, tmp_path / "a.csv")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {status for status, _ in found.values()} == {"window"}
    assert peak < 10 * 1024**2
