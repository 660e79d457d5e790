"""What each format says, down to the line; files as banks' own manuals and parsers show them."""

from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fundlab.bank import statements
from fundlab.bank.model import Entry, Page
from fundlab.base.errors import AnalysisError, StatementError

D = Decimal

# Two pages, amounts without cents, a reference on a line of its own.
SWISS = """:20:2026040708285927
:25:123456789
:28C:999/1
:60F:C251130CHF0,
:61:2512091209C79,7FMSC01916//NONREF
20251209007602198765432000000012
:86:CREDIT TRANSFER SENDER: JANE DOE
:61:2512091209C149,5FMSC01916//NONREF
20251209007602187654321000000012
:86:CREDIT TRANSFER SENDER: JOHN DOE
:62M:C260407CHF229,2
-
:20:2026040708285928
:25:123456789
:28C:999/2
:60M:C260407CHF229,2
:61:2512161216D79,9FMSC01916//NONREF
:86:DEBIT TRANSFER
:61:2512181218C10,1FMSC01651//NONREF
:86:PAY-IN SLIP
:62F:C260407CHF159,4
-
"""
# Amounts padded with zeros, no number, names in the details, the second follows the first.
DUTCH = """:940:
:20:940S260101
:25:NL71RABO0123456789
:28C:0
:60F:C260101EUR000000001000,00
:61:260101D000000000025,00N102EREF
NL70ABNA0987654321
:86:/EREF/01-01-2026 12:00 003/BENM//NAME/CONTRA ACCOUN
T HOLDER/REMI//ISDT/2026-07-11
:61:260102RD00000000010,00N154NONREF
:86:/BENM//NAME/JOHN DOE/REMI/Reference 202601234
:62F:C260108EUR000000000985,00
:20:940S260108
:25:NL71RABO0123456789
:28C:0
:60F:C260108EUR000000000985,00
:62F:C260115EUR000000000985,00
"""
# Lines around the message, types with blanks, text after the closing balance.
DUTCH_BANK = """0000 01INGBNL2AXXXX00001
940 00
:20:MPBZ
:25:0001234567
:28C:000
:60F:C260722EUR0,00
:61:260722D25,03NOV NONREF
:86: CHARGES OF THE PAYMENT SYSTEM
ACCOUNT 4715589
:61:260723C28,50NVZ NONREF
:86:0123456789 CLIEOP
:62F:C260723EUR3,47
:86:D000001C000001D25,03C28,50
-XXX
"""
POLISH_DAY = """:20:ST260119CYC/0001
:25:PL29114010810000267002001002
:28C:1/1
:34F:PLN0
:13D:2601191815+0100
:61:2601190119CN0,01NTRFNONREF//MB260119012058
911-TRANSACTION
:86:911 TRANSACTION COLLECT; ID: XX000000000001
:61:2601190119CN0,02NTRFNONREF//MB260119012085
:90D:0PLN0,00
:90C:2PLN0,03
-
"""
# As the manual of the standard continues records, and with a message that is not money.
BAI = """01,NWBKGB2L,9876543,260215,1459,2215,,,2/
02,9876543,NWBKGB2L,1,261216,2400,,/
03,88888888 600004,GBP,010,36521,,,015,33845,,,045,33845,,,072,0,,/
88,074,0,,,075,0,,,400,2765,4,,100,89,1,/
16,699,971,,,/
88,LVP XBANKGO24007664SJ, INT 2 USA
16,699,100,Z,REF1,OWN1,TFR XBANKGO24007662
16,699,123,S,100,23,0,REF2,OWN2,TFR/
16,699,1571,V,261218,1200,REF3,,/
88,UTF XBANKGO24007665SJ
88,URGENT TFR
16,399,89,D,2,0,40,1,49,REF4,OWN4,TFR
16,890,,,,,A MESSAGE
49,109919,12/
98,109919,1,14/
99,109919,1,16/
"""
UPPER = "01,121140399,121140399,260214,0754,1,,,2/\n"
SUMMARY = f"""{UPPER}02,121140399,121140399,1,260201,,USD,2/
03,12345,/
49,,2/
03,1234567890,USD,010,34726979,,,015,35217175,,,/
88,040,32742537,,,045,35217175,,,/
49,137903866,3/
98,137903866,2,7/
99,137903866,1,9/
"""


def camt053(body: str, head: str = "") -> str:
    return (
        "<?xml version='1.0'?><Document xmlns='urn:iso:std:iso:20022:tech:xsd:camt.053.001.02'>"
        f"<BkToCstmrStmt>{head}<Stmt><Id>253</Id><ElctrncSeqNb>12312</ElctrncSeqNb>"
        f"<Acct><Id><IBAN>NL26VAYB8060476890</IBAN></Id></Acct>\n{body}</Stmt></BkToCstmrStmt>"
        "</Document>"
    )


def balance(code: str, amount: str, side: str = "CRDT", day: str = "2026-12-30") -> str:
    return (
        f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp><Amt Ccy='EUR'>{amount}</Amt>"
        f"<CdtDbtInd>{side}</CdtDbtInd><Dt><Dt>{day}</Dt></Dt></Bal>\n"
    )


ENTRY = (
    "<Ntry><Amt Ccy='EUR'>8.85</Amt><CdtDbtInd>CRDT</CdtDbtInd><RvslInd>true</RvslInd>"
    "<Sts>BOOK</Sts><BookgDt><DtTm>2026-12-31T13:15:00+01:00</DtTm></BookgDt>"
    "<ValDt><Dt>2027-01-02</Dt></ValDt><AcctSvcrRef>AAAASESS</AcctSvcrRef>"
    "<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>RCDT</Cd><SubFmlyCd>BOOK</SubFmlyCd></Fmly></Domn>"
    "</BkTxCd><Chrgs><Rcrd><Amt Ccy='EUR'>1.15</Amt></Rcrd></Chrgs><NtryDtls><TxDtls><Refs>"
    "<EndToEndId>MUELL/FINP</EndToEndId></Refs><RltdPties><Dbtr><Nm>NAME NAME</Nm></Dbtr>"
    "<Cdtr><Nm>Company</Nm></Cdtr></RltdPties><RmtInf><Ustrd>Invoice 7</Ustrd></RmtInf>"
    "</TxDtls></NtryDtls></Ntry>\n"
)
CAMT = camt053(balance("OPBD", "18.15") + balance("CLBD", "27.00") + ENTRY)
BOMB = "<!DOCTYPE d [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;'>]>"
HONEST = {
    "swiss": SWISS, "dutch": DUTCH, "dutch bank": DUTCH_BANK, "polish": POLISH_DAY, "bai": BAI,
    "summary": SUMMARY, "camt": CAMT,
    "previous closing": camt053(balance("PRCD", "18.15") + balance("CLBD", "27.00") + ENTRY),
    "overdrawn": camt053(balance("OPBD", "8.85", "DBIT") + balance("CLBD", "0") + ENTRY),
}  # fmt: skip


def read(text: str, tmp_path: Path, **options: Any) -> statements.Statements:
    path = tmp_path / "file"
    path.write_bytes(text.encode())
    return statements.read(path, **options)


@pytest.mark.parametrize("name", HONEST)
def test_what_banks_write_is_accepted(name: str, tmp_path: Path) -> None:
    assert len(read(HONEST[name], tmp_path).statements)


@pytest.mark.parametrize(
    ("name", "end"),
    [(name, end) for name in HONEST for end in ("\r\n", "\r")]
    + [("bai", "  \r\n"), ("summary", "\r\n\r\n")],
)
def test_a_file_is_known_whatever_its_lines_end_with(name: str, end: str, tmp_path: Path) -> None:
    found, plain = (
        read(text, tmp_path) for text in (HONEST[name].replace("\n", end), HONEST[name])
    )
    others = [column for column in plain.entries if column not in ("line", "file")]
    assert found.entries[others].equals(plain.entries[others])
    same = ["format", "account", "opening", "closing", "proved"]
    assert found.statements[same].equals(plain.statements[same])


def test_the_frames_of_an_mt940_with_two_pages(tmp_path: Path) -> None:
    found = read(SWISS, tmp_path)
    assert found.statements["page"].tolist() == [1, 2]
    assert found.statements["last_page"].tolist() == [False, True]
    assert found.statements["closing"].tolist() == [D("229.2"), D("159.4")]
    assert found.statements["line"].tolist() == [1, 13]
    assert set(found.statements["proved"]) == {"balances"}
    entry = found.entries.iloc[2]
    assert (entry["amount"], entry["line"], entry["statement"]) == (D("-79.9"), 17, 2)
    assert (entry["booked_on"], entry["valued_on"]) == (date(2025, 12, 16), date(2025, 12, 16))
    assert found.entries["entry_id"].is_unique
    assert str(found.entries["amount"].dtype) == "decimal"


def test_a_reversal_of_mt940_turns_the_sign_and_names_are_found(tmp_path: Path) -> None:
    entries = read(DUTCH, tmp_path).entries
    assert entries["amount"].tolist() == [D(-25), D(10)]
    assert entries["reversal"].tolist() == [False, True]
    assert entries["counterparty"].tolist() == ["CONTRA ACCOUNT HOLDER", "JOHN DOE"]


def test_bai2_signs_references_dates_and_continuations(tmp_path: Path) -> None:
    found = read(BAI, tmp_path)
    entries = found.entries
    assert entries["amount"].tolist() == [D(x) for x in ("-9.71", "-1", "-1.23", "-15.71", ".89")]
    assert entries["bank_ref"].tolist()[1:] == ["REF1", "REF2", "REF3", "REF4"]
    assert entries["memo"].tolist()[0] == "LVP XBANKGO24007664SJ, INT 2 USA"
    assert entries["memo"].tolist()[3] == "UTF XBANKGO24007665SJ URGENT TFR"
    assert entries["valued_on"].tolist()[3] == date(2026, 12, 18)
    assert set(entries["booked_on"]) == {date(2026, 12, 16)}
    (one,) = found.statements.to_dict("records")
    ends = (one["opening"], one["closing"], one["available"])
    assert ends == (D("365.21"), D("338.45"), D("338.45"))


def test_bai2_may_have_several_records_on_a_line(tmp_path: Path) -> None:
    one = read(BAI, tmp_path)
    # The text of an entry without a slash at its end goes on to the end of the line.
    joined = "".join(line if line.endswith("/") else f"{line}\n" for line in BAI.split("\n"))
    assert joined.count("\n") < BAI.count("\n") / 2
    again = read(joined, tmp_path)
    columns = ["amount", "bank_ref", "own_ref", "memo", "valued_on"]
    assert again.entries[columns].to_dict("records") == one.entries[columns].to_dict("records")
    assert again.statements["closing"].tolist() == one.statements["closing"].tolist()
    # What only looks like a record within a text is text.
    text = BAI.replace("OWN4,TFR", "OWN4,INV 12/02,2026 of 3/88, A/16,20")
    assert read(text, tmp_path).entries["memo"].tolist()[-1] == (
        "OWN4 INV 12/02,2026 of 3/88, A/16,20"
    )
    with pytest.raises(StatementError, match="the control total of the account"):
        read(joined.replace("16,699,100,Z,REF1,OWN1,TFR XBANKGO24007662", ""), tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{BOMB}<Document xmlns='camt.053'/>", "it declares a DTD or entities"),
        ("<Document xmlns='camt.053'><Stmt>", "it is not XML: no element found: line 1, column"),
    ],
)
def test_what_is_not_xml_is_said_in_plain_words(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=told) as refused:
        read(text, tmp_path, format="camt.053")
    assert "ParseError" not in str(refused.value)
    assert "Forbidden" not in str(refused.value)


def test_camt_entries_keep_all_they_say(tmp_path: Path) -> None:
    (entry,) = read(CAMT, tmp_path).entries.to_dict("records")
    named = ("amount", "charges", "reversal", "code", "bank_ref", "own_ref", "counterparty", "line")
    assert [entry[name] for name in named] == [
        D("8.85"), D("1.15"), True, "PMNT/RCDT/BOOK", "AAAASESS", "MUELL/FINP", "NAME NAME", 4,
    ]  # fmt: skip
    assert (entry["booked_on"], entry["valued_on"]) == (date(2026, 12, 31), date(2027, 1, 2))


@pytest.mark.parametrize(
    ("text", "rule", "declared", "found"),
    [
        (CAMT.replace("27.00", "99999"), "balance", "99999", "27"),
        (SWISS.replace("CHF159,4", "CHF160,"), "balance", "160", "159.4"),
        (SWISS[: SWISS.index(":20:2026040708285928")], "page", "a page after it", "none"),
        (SWISS[SWISS.index(":20:2026040708285928") :], "page", "a page before it", "none"),
        (SWISS[: SWISS.index(":62F:")], "incomplete", "a closing balance", "none"),
        (DUTCH.replace(":60F:C260108EUR000000000985", ":60F:C260108EUR1"), "balance", "985", "1"),
        (POLISH_DAY.replace("2PLN0,03", "3PLN0,03"), "credits", "3", "2"),
        (BAI.replace("49,109919", "49,109918"), "control_total", "1099.18", "1099.19"),
        (BAI.replace("98,109919,1,14", "98,109919,1,13"), "records", "13", "14"),
        (BAI.replace("\n98,109919,1", "\n98,109919,2"), "accounts", "2", "1"),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused_by_name(
    text: str, rule: str, declared: str, found: str, tmp_path: Path
) -> None:
    with pytest.raises(StatementError, match="get it again from the bank") as refused:
        read(text, tmp_path)
    error = refused.value
    assert (error.rule, error.declared, error.found) == (rule, declared, found)
    assert error.file == str(tmp_path / "file")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    lenient = read(text, tmp_path, strict=False)
    assert lenient.findings["rule"].tolist()[0] == rule
    assert len(lenient.findings) == len(error.findings)


def test_entries_declared_and_one_present(tmp_path: Path) -> None:
    summary = "<TxsSummry><TtlNtries><NbOfNtries>5</NbOfNtries></TtlNtries></TxsSummry>"
    with pytest.raises(StatementError, match=r"statement 12312 .*entries: 5 declared, 1 found"):
        read(CAMT.replace("<Ntry>", f"{summary}<Ntry>"), tmp_path)


def files(tmp_path: Path, *texts: str) -> list[Path]:
    paths = [tmp_path / f"file{n}" for n, _ in enumerate(texts)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def numbered(number: int, opening: str, closing: str, amount: str) -> str:
    return (
        f":20:S\n:25:1\n:28C:{number}/1\n:60F:C26010{number}USD{opening}\n"
        f":61:26010{number}010{number}C{amount}NTRFNONREF//B{number}\n:62F:C26010{number}USD{closing}\n"
    )


def test_statements_follow_on_each_other(tmp_path: Path) -> None:
    one, two, three = (
        numbered(1, "0,", "5,", "5,"),
        numbered(2, "5,", "7,", "2,"),
        numbered(3, "7,", "8,", "1,"),
    )
    read = statements.read(*files(tmp_path, three, one, two))
    assert read.statements["sequence"].tolist() == [1, 2, 3]
    with pytest.raises(StatementError, match=r"statement 2 is missing \(and 1 more\)"):
        statements.read(*files(tmp_path, one, three))
    with pytest.raises(StatementError, match=r"it opens with 6, but statement 1 .* closes with 5"):
        statements.read(*files(tmp_path, one, numbered(2, "6,", "8,", "2,")))
    with pytest.raises(StatementError, match="twice, with other content"):
        statements.read(*files(tmp_path, one, numbered(1, "0,", "6,", "6,")))
    with pytest.raises(StatementError, match="stands after statement 2"):
        statements.read(*files(tmp_path, two + one))


def test_the_same_statement_twice_is_one(tmp_path: Path) -> None:
    one = numbered(1, "0,", "5,", "5,")
    for paths in (files(tmp_path, one, one), files(tmp_path, one + one)):
        read = statements.read(*paths)
        assert (len(read.entries), len(read.statements)) == (1, 1)
    again = statements.read(*files(tmp_path, one, numbered(2, "5,", "7,", "2,")))
    assert again.entries["entry_id"].tolist()[0] == read.entries["entry_id"].tolist()[0]


def test_a_report_of_the_day_beside_its_statement_is_refused(tmp_path: Path) -> None:
    report = CAMT.replace("camt.053", "camt.052").replace("Stmt>", "Rpt>")
    with pytest.raises(StatementError, match="read them apart"):
        statements.read(*files(tmp_path, CAMT, report))


# ----------------------------------------------------------------------------------------- CSV

GERMAN = """Buchungstag;Valuta;Betrag;Saldo;Empfänger
31.10.2026;01.11.2026;-12,50;1.487,50;ACME
30.10.2026;30.10.2026;1.000,00;1.500,00;Globex
"""
COLUMNS = {"booked_on": "Buchungstag", "valued_on": "Valuta", "amount": "Betrag",
           "balance": "Saldo", "counterparty": "Empfänger"}  # fmt: skip


def german(
    text: str, tmp_path: Path, columns: dict[str, str] = COLUMNS, **options: Any
) -> statements.Statements:
    lines = ['format = "csv"', 'dates = "%d.%m.%Y"', 'decimal = ","', "[columns]"]
    lines += [f'{field} = "{column}"' for field, column in columns.items()]
    (tmp_path / "bank.toml").write_text("\n".join(lines))
    return read(text, tmp_path, profile=tmp_path / "bank.toml", **options)


def test_a_csv_of_any_columns_newest_first(tmp_path: Path) -> None:
    found = german(GERMAN, tmp_path, account="DE1", asset="EUR")
    assert found.entries["amount"].tolist() == [D(1000), D("-12.5")]
    assert found.entries["line"].tolist() == [3, 2]
    (one,) = found.statements.to_dict("records")
    assert (one["opening"], one["closing"], one["account"]) == (D(500), D("1487.5"), "DE1")
    with pytest.raises(StatementError, match=r"line 2: the running balance is declared as 1487\.4"):
        german(GERMAN.replace("1.487,50", "1.487,40"), tmp_path)
    with pytest.raises(StatementError, match=r"closing= gives 1, the file declares 1487\.5"):
        german(GERMAN, tmp_path, closing=1)
    with pytest.raises(AnalysisError, match="it has no column 'Konto'"):
        german(GERMAN, tmp_path, columns={**COLUMNS, "account": "Konto"})
    with pytest.raises(AnalysisError, match=r"unknown balence \(did you mean balance\?\)"):
        german(GERMAN, tmp_path, columns={"balence": "Saldo"})


@pytest.mark.parametrize("text", ["1,000,00", "1.000,0x", "1,0,0"])
def test_an_amount_with_other_signs_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="not a plain amount"):
        german(GERMAN.replace("1.000,00", text), tmp_path)


def test_without_balances_the_ends_can_be_given(tmp_path: Path) -> None:
    text = "Date,Amount\n2026-10-01,5\n2026-10-02,-2\n"
    assert read(text, tmp_path).statements["proved"].tolist() == ["no"]
    given = read(text, tmp_path, opening="10", closing="13")
    assert given.statements["proved"].tolist() == ["balances"]
    with pytest.raises(StatementError, match="declared as 14"):
        read(text, tmp_path, opening="10", closing="14")


# -------------------------------------------------------------------------------- hostile files


@pytest.mark.parametrize(
    "text",
    [
        CAMT.replace("<Document", f"{BOMB}<Document").replace("Invoice 7", "&b;"),
        CAMT.replace("<Document", "<!DOCTYPE d SYSTEM 'file:///etc/passwd'><Document"),
        CAMT[: len(CAMT) // 2],
        CAMT.replace("<Ntry>", "<a>" * 100_000 + "<Ntry>", 1),
        "<OFX><!DOCTYPE x><SIGNONMSGSRSV1>",
        ":20:X\n:25:1\n:61:2613010101C1,NMSCREF\n",
        ":25:1\n:20:X\n",
        UPPER,
        f"{UPPER}02,A,B,1,260201,,USD,2/\n03,1,USD/\n16,195,100,,R,,x\n99,100,1,4/\n",
        f"{UPPER}02,A,B,1,260201,,USD,2/\n16,195,100,,R,,x\n49,100,2/\n98,100,1,4/\n99,100,1,6/\n",
        BAI.replace("16,699,100,Z", "16,699,100,699,100,Z"),
        f"{UPPER}free text\n99,0,0,2/\n",
        "Date,Amount\n2026-10-01," + "9" * 60 + "\n",
    ],
)
def test_hostile_or_broken_files_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=str(tmp_path)):
        read(text, tmp_path)


def test_what_continues_no_record_of_bai2_is_refused_by_its_line(tmp_path: Path) -> None:
    for before, line in (("01,", 1), ("03,", 3)):
        text = BAI.replace(before, f"88,FEES/\n{before}", 1)
        with pytest.raises(AnalysisError, match=f"line {line}: there is nothing that 88 continues"):
            read(text, tmp_path, format="bai2")


def test_a_trailer_of_bai2_closes_what_was_opened_last(tmp_path: Path) -> None:
    account = "49,109919,12/\n"
    for text in (BAI.replace(account, ""), BAI.replace(account, account * 2)):
        with pytest.raises(AnalysisError, match="it does not close what was opened last"):
            read(text, tmp_path)


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("20261216", date(2026, 12, 16)),
        ("261216", date(2026, 12, 16)),
        ("791231", date(2079, 12, 31)),
        ("800101", date(1980, 1, 1)),
    ],
)
def test_a_day_of_bai2_has_its_century(written: str, day: date, tmp_path: Path) -> None:
    found = read(BAI.replace(",261216,2400", f",{written},2400"), tmp_path)
    assert str(found.statements["closing_on"].iloc[0])[:10] == str(day)


def test_a_csv_of_two_currencies_is_no_account_of_either(tmp_path: Path) -> None:
    path = tmp_path / "bank.csv"
    path.write_text("Date,Amount,Balance,Currency\n2026-10-01,5,105,USD\n2026-10-02,7,112,EUR\n")
    with pytest.raises(StatementError, match="entries are in USD and in EUR; give a file for each"):
        statements.read(path)
    assert statements.read(path, strict=False).findings["rule"].tolist() == ["currency"]


def test_a_statement_that_is_nested_too_deep_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(content: bytes, habits: Any) -> list[Any]:
        raise RecursionError

    path = tmp_path / "deep"
    path.write_text("x")
    reader = SimpleNamespace(names=("deep",), looks_like=lambda start: "deep", read=read)
    monkeypatch.setattr(statements, "READERS", [reader])
    with pytest.raises(AnalysisError, match="deep is not a valid deep statement: too deep"):
        statements.read_pages(path, {})


def test_an_entry_keeps_its_id_for_ever() -> None:
    """What was decided of it is kept under it: of equal ones the number is part of it."""
    equal = [Entry(date(2026, 1, 2), Decimal("5.00"), bank_ref="R", memo="m") for _ in "abc"]
    other = Entry(date(2026, 1, 2), Decimal(5), asset="EUR", line=9)
    found = statements._entries([Page("statement", 1, "A", "USD", entries=[*equal, other])])
    assert found.column("entry_id").to_pylist() == [
        "bank-b6ce7c8955e2b8609a43", "bank-48b141a2272a063aaa28", "bank-dc452cdebb67faf52b8b",
        "bank-79c21f3866e0ffa36df0",
    ]  # fmt: skip
    assert found.column("entry").to_pylist() == [1, 2, 3, 4]
    assert found.column("line").to_pylist() == [0, 0, 0, 9]
    sums = [Page("statement", 1, "A", "USD", entries=some) for some in (equal, [other], [])]
    said = statements._statements(sums)
    assert said.column("statement").to_pylist() == [1, 2, 3]
    assert said.column("credit_sum").to_pylist() == [15, 5, 0]


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"opening_on": 2, "closing_on": 5, "sequence": 3, "page": 4}, (5, 2, 3, 4)),
        ({"closing_on": 5, "page": 4}, (5, 0, 0, 4)), ({"opening_on": 2}, (2, 2, 0, 0)),
        ({"sequence": 3}, (0, 0, 3, 0)), ({}, (0, 0, 0, 0)),
    ],
)  # fmt: skip
def test_a_statement_stands_by_its_end(given: dict[str, int], place: tuple[int, ...]) -> None:
    first = date.min.toordinal()
    days = {name: date.fromordinal(n + first) for name, n in given.items() if name.endswith("_on")}
    found = Page("statement", 1, **given | days).place
    assert found == (place[0] + first, place[1] + first, *place[2:])


def test_a_statement_must_be_given() -> None:
    with pytest.raises(AnalysisError, match="no statement file is given; give one path or more"):
        statements.read()


def test_a_sum_that_no_column_holds_is_refused_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    path.write_text(f"date,amount\n2026-10-01,{'9' * 20}\n2026-10-02,{'9' * 20}\n")
    with pytest.raises(AnalysisError, match=r"large\.csv is not a valid csv statement: .* integer"):
        statements.read(path)
