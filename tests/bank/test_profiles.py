"""Banks' habits: CSV of ten banks by the profiles that are shipped, and profiles that are proposed.

The files are written here from what the banks describe, or their customers see, of their downloads.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer

import fundlab as fl
from fundlab import bank, cli
from fundlab.bank.model import Rule
from fundlab.bank.profiles import _fields, proposed, read_profile, shipped
from fundlab.base.errors import AnalysisError, InvalidRequest

D = Decimal
FILES = {
    "bank-of-america": """Description,,Summary Amt.
Beginning balance as of 10/01/2026,,"1,000.00"
Total credits,,"2,500.00"
Total debits,,"-12.50"
Ending balance as of 10/31/2026,,"3,487.50"

Date,Description,Amount,Running Bal.
10/01/2026,Beginning balance as of 10/01/2026,,"1,000.00"
10/05/2026,"WIRE TYPE:WIRE IN ACME","2,500.00","3,500.00"
10/06/2026,"Monthly fee","-12.50","3,487.50"
""",
    "chase": """Details,Posting Date,Description,Amount,Type,Balance,Check or Slip #
DEBIT,10/06/2026,"MONTHLY SERVICE FEE",-12.50,FEE_TRANSACTION,3487.50,,
CREDIT,10/05/2026,"FEDWIRE CREDIT ACME",2500.00,WIRE_INCOMING,3500.00,,
""",
    "citi": """Status,Date,Description,Debit,Credit
Pending,10/07/2026,"CARD PURCHASE",99.00,
Cleared,10/06/2026,"MONTHLY FEE",12.50,
Cleared,10/05/2026,"WIRE FROM ACME",,"2,500.00"
""",
    "dkb": """"Girokonto";"DE12120300001000000000"
"Kontostand vom 31.10.2026:";"3.487,50 €"
""
"Buchungsdatum";"Wertstellung";"Status";"Zahlungspflichtige*r";"Zahlungsempfänger*in";\
"Verwendungszweck";"Umsatztyp";"IBAN";"Betrag (€)";"Gläubiger-ID";"Mandatsreferenz";\
"Kundenreferenz"
"07.10.26";"";"Vorgemerkt";"Wir";"Laden";"Karte";"Ausgang";"";"-99,00";"";"";""
"06.10.26";"06.10.26";"Gebucht";"Wir";"DKB";"Gebühr";"Ausgang";"DE1";"-12,5";"";"";""
"05.10.26";"05.10.26";"Gebucht";"ACME";"Wir";"Rechnung 7";"Eingang";"DE2";"2.500,00";"";"";"R7"
""",
    "hsbc-uk": """Date,Type,Description,Paid out,Paid in,Balance
05 Oct 2026,CR,ACME LTD,,"2,500.00","3,500.00"
06 Oct 2026,DD,FEE,12.50,,"3,487.50"
""",
    "ing-nl": """"Datum";"Naam / Omschrijving";"Rekening";"Tegenrekening";"Code";"Af Bij";\
"Bedrag (EUR)";"Mutatiesoort";"Mededelingen";"Saldo na mutatie";"Tag"
"20261006";"ING";"NL20INGB0001234567";"";"DV";"Af";"12,50";"Diversen";"Kosten";"3487,50";""
"20261005";"ACME BV";"NL20INGB0001234567";"NL1";"OV";"Bij";"2500,00";"Over";"Factuur";"3500,00";""
""",
    "rabobank": """"IBAN/BBAN","Munt","BIC","Volgnr","Datum","Rentedatum","Bedrag","Saldo na trn",\
"Tegenrekening IBAN/BBAN","Naam tegenpartij","Omschrijving-1"
"NL77RABO0311467415","EUR","RABONL2U","000000000000009565","2026-10-05","2026-10-05","+2500,00",\
"+3500,00","NL1","ACME BV","Factuur 7"
"NL77RABO0311467415","EUR","RABONL2U","000000000000009566","2026-10-06","2026-10-06","-12,50",\
"+3487,50","","",""
""",
    "sparkasse": """"Auftragskonto";"Buchungstag";"Valutadatum";"Buchungstext";"Verwendungszweck";\
"Kundenreferenz (End-to-End)";"Beguenstigter/Zahlungspflichtiger";"Betrag";"Waehrung";"Info"
"DE1";"07.10.26";"07.10.26";"KARTE";"Laden";"";"Laden";"-99,00";"EUR";"Umsatz vorgemerkt"
"DE1";"06.10.26";"06.10.26";"ENTGELT";"Gebühr";"";"";"-12,50";"EUR";"Umsatz gebucht"
"DE1";"05.10.26";"05.10.26";"GUTSCHR";"Rechnung 7";"R7";"ACME";"2.500,00";"EUR";"Umsatz gebucht"
""",
    "wells-fargo": """"10/06/2026","-12.50","*","","MONTHLY SERVICE FEE"
"10/05/2026","2500.00","*","","WT FED ACME"
""",
    "wise": """"TransferWise ID",Date,Amount,Currency,Description,"Payment Reference",\
"Running Balance"
TRANSFER-2,06-10-2026,-12.50,USD,"Fee","",3487.50
TRANSFER-1,05-10-2026,2500.00,USD,"Received from ACME","INV 7",3500.00
""",
}
BALANCES = {"bank-of-america", "chase", "hsbc-uk", "rabobank", "wise"}


@pytest.mark.parametrize("name", FILES)
def test_a_shipped_profile_reads_its_banks_file(name: str, tmp_path: Path) -> None:
    assert name in shipped()
    file = tmp_path / "bank.csv"
    file.write_text(FILES[name], encoding="cp1252")
    found = bank.read(file, profile=name)
    assert found.entries["amount"].tolist() == [D(2500), D("-12.5")]
    assert found.entries["booked_on"].tolist() == [date(2026, 10, 5), date(2026, 10, 6)]
    asset = {"dkb", "ing-nl", "rabobank", "sparkasse"}
    expected = "EUR" if name in asset else "GBP" if name == "hsbc-uk" else "USD"
    assert set(found.entries["asset"]) == {expected}
    if name in BALANCES:
        assert found.statements[["opening", "closing"]].values.tolist() == [[D(1000), D("3487.5")]]
        assert found.statements["proved"].tolist() == ["balances"]


def test_every_shipped_profile_has_its_file() -> None:
    assert set(shipped()) == FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_a_proposal_reads_what_the_shipped_profile_reads(name: str, tmp_path: Path) -> None:
    file, profile = tmp_path / "bank.csv", tmp_path / "bank.toml"
    file.write_text(FILES[name], encoding="cp1252")
    # Whether the day or the month comes first only a person can say.
    profile.write_text(proposed(file).replace('"%d/%m/%Y"', '"%m/%d/%Y"'))
    found = bank.read(file, profile=profile)
    assert found.entries["amount"].tolist() == [D(2500), D("-12.5")]
    assert found.entries["booked_on"].tolist() == [date(2026, 10, 5), date(2026, 10, 6)]


def test_the_command_proposes_a_profile_and_shows_what_it_would_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "bank.csv", tmp_path / "bank.toml"
    rows = ["Dzień;Kierunek;Ile;Opis", "13/04/2026;wpływ;1234,00;ACME", "14/04/2026;wypływ;2,50;x"]
    file.write_bytes("\n".join([*rows, "15/04/2026;wypływ;1,00;y", ""]).encode("cp1250"))
    cli.run(["bank", "profile", "new", str(file), "--out", str(out)])
    shown = capsys.readouterr().out
    assert "# a guess: it is not UTF-8; cp1250 is Central Europe" in shown
    assert "which is not known to mean in or out" in shown
    text = out.read_text().replace("cp1252", "cp1250")
    for was, now in (("Dzieñ", "Dzień"), ("wp³yw", "wpływ"), ("wyp³yw", "wypływ")):
        text = text.replace(was, now)
    assert '[words]   # sort these: "wpływ", "wypływ"\nin = []\nout = []' in text
    out.write_text(text.replace("in = []\nout = []", 'in = ["wpływ"]\nout = ["wypływ"]'))
    found = bank.read(file, profile=out)
    assert found.entries["amount"].tolist() == [D(1234), D("-2.5"), D(-1)]
    with pytest.raises(InvalidRequest, match="is there already"):
        cli.run(["bank", "profile", "new", str(file), "--out", str(out)])
    file.write_text("nothing of a bank")
    with pytest.raises(AnalysisError, match="no line has a day and an amount"):
        proposed(file)
    cli.run(["bank", "profile", "list"])
    assert capsys.readouterr().out.split() == shipped()


def test_an_unknown_status_is_refused_with_all_there_are(tmp_path: Path) -> None:
    file = tmp_path / "bank.csv"
    lines = ["date,amount,status", "2026-10-01,5,Posted", "2026-10-02,7,Maybe"]
    file.write_text("\n".join(lines))
    with pytest.raises(AnalysisError, match=r"'Maybe' is not known .* holds 'Maybe', 'Posted'"):
        bank.read(file)
    (tmp_path / "b.toml").write_text('[words]\npending = ["Maybe"]\n')
    assert bank.read(file, profile=tmp_path / "b.toml").entries["amount"].tolist() == [D(5)]


def test_other_keys_of_a_profile(tmp_path: Path) -> None:
    """Lines to skip, the look of a reference, and a file that lists a part of what it sums up."""
    file, profile = tmp_path / "bank.csv", tmp_path / "b.toml"
    file.write_text("2026-01-01,9\nx,y\n2026-10-01,5,xxPAY-0000123yy,100\n")
    for look, own in (("PAY-(\\d{7})", "0000123"), ("PAY-\\d{7}", "PAY-0000123")):
        profile.write_text(
            f"skip = 2\nreference = '{look}'\npartial = true\n"
            '[columns]\nbooked_on = "1"\namount = "2"\nmemo = "3"\nbalance = "4"\n'
        )
        found = bank.read(file, profile=profile)
        assert found.entries["own_ref"].tolist() == [own]
        assert found.statements["proved"].tolist() == ["no"]
    for text, told in (
        ("bogus = 1", "unknown bogus"), ("days = 9", "give says or type"),
        ("says = '--'", "give says or type"), ("type = 'CRYPTO_DEPOSIT'", "is not one of WIRE"),
        ("says = 'x'\ndays = -1", "rules: days=-1: give"), ("says = 1", "says must be a text"),
        ("says = 'x'\namount = 0.5", "amount=0.5 is not an amount"),
        ("says = 'x'\namount = '-1'", "is negative"), ("type = 1", "type must be a text"),
        ("saus = 'x'", r"unknown saus \(did you mean says\?\)"),
    ):  # fmt: skip
        profile.write_text(f"[[rules]]\n{text}\n")
        with pytest.raises(AnalysisError, match=told):
            bank.read(file, profile=profile)
    for text in ("skip = -1", "skip = true", "reference = '('", "reference = '(a)(b)'",
                 "partial = 1", "rules = ['x']", "columns = {memo = 1}", "words = {in = 'x'}",
                 "words = {in = [1]}", "words = {bogus = ['x']}"):  # fmt: skip
        profile.write_text(text)
        with pytest.raises(AnalysisError, match=f"{text.partition(' ')[0]} must be"):
            bank.read(file, profile=profile)
    with pytest.raises(AnalysisError, match="give a file, or one of bank-of-america, chase"):
        bank.read(file, profile="chaise")


def test_a_file_of_a_shipped_name_is_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_profile("chase")["format"] != "ofx"
    (tmp_path / "chase").write_text('format = "ofx"\n')
    assert read_profile("chase")["format"] == "ofx"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        # What the look says is given, what it leaves open is a guess or a comment.
        ("Date,Amount\n2026-10-01,-5.00\n",
         ['decimal = "."', '# asset = "USD"', "[columns]", 'booked_on = "Date"',
          'amount = "Amount"']),
        ("Date;Amount (EUR)\n31.10.2026;-5,00\n",
         ['dates = "%d.%m.%Y"', 'decimal = ","', 'asset = "EUR"', "[columns]",
          'booked_on = "Date"', 'amount = "Amount (EUR)"']),
        ("Date,Amount,Currency\n03/04/2026,(5.00),USD\n",
         ['dates = "%d/%m/%Y"   # a guess: \'03/04/2026\' may begin with the day or the month, and '
          "no other line says which", 'decimal = "."', "[columns]", 'booked_on = "Date"',
          'amount = "Amount"', 'asset = "Currency"']),
        ("Date;Amount\n03-04-26;-1.234\n",
         ['dates = "%d-%m-%y"   # a guess: \'03-04-26\' may begin with the day or the month, and '
          "no other line says which", "decimal = \".\"   # a guess: '-1.234' may have decimals or "
          'thousands', '# asset = "USD"', "[columns]", 'booked_on = "Date"', 'amount = "Amount"']),
        ("Date,Amount\n2026-10-01,5.00\n",
         ['decimal = "."', '# asset = "USD"', "[columns]", 'booked_on = "Date"',
          'amount = "Amount"',
          "# no amount has a sign: give the column that says in or out (direction)"]),
        ("Date,Amount,Type\n2026-10-01,5.00,in\n2026-10-02,5.00,Rein\n",
         ['decimal = "."', '# asset = "USD"', "[columns]", 'booked_on = "Date"',
          'amount = "Amount"', 'direction = "Type"', '[words]   # sort these: "Rein"', "in = []",
          "out = []"]),
        ("Date,Credit,Debit\n2026-10-01,5.00,\n",
         ['decimal = "."', '# asset = "USD"', "[columns]", 'booked_on = "Date"',
          'credit = "Credit"', 'debit = "Debit"']),
        # Columns of no known name by what they hold: days, money with cents, few words, most text.
        ("Wann,Wert,Nr,Wie,Kurz,Lang\n2026-10-01,2026-10-02,100,5.00,ja,a long text\n"
         "2026-10-02,2026-10-03,101,7.00,nein,another one\n"
         "2026-10-03,2026-10-04,102,7.50,nein,and more\n",
         ['decimal = "."', '# asset = "USD"', "[columns]", 'booked_on = "Wann"',
          'valued_on = "Wert"', 'amount = "Wie"', 'direction = "Kurz"', 'memo = "Lang"',
          '[words]   # sort these: "ja", "nein"', "in = []", "out = []"]),
        # Two lines are too few to call a column of two words the direction; a sign says it.
        ("Wann,Wie,Kurz\n2026-10-01,5.00,ja\n2026-10-02,7.00,nein\n",
         ['decimal = "."', '# asset = "USD"', "[columns]", 'booked_on = "Wann"', 'amount = "Wie"',
          'memo = "Kurz"',
          "# no amount has a sign: give the column that says in or out (direction)"]),
        ("Wann,Wie,Kurz\n2026-10-01,-5.00,ja\n2026-10-02,7.00,nein\n2026-10-02,7.00,nein\n",
         ['decimal = "."', '# asset = "USD"', "[columns]", 'booked_on = "Wann"', 'amount = "Wie"',
          'memo = "Kurz"']),
        # What says the direction is no memo, however long it is.
        ("Wann,Wie,Kurz,Was\n2026-10-01,5.00,eingegangen,a\n2026-10-02,7.00,ausgegangen,b\n"
         "2026-10-03,7.50,ausgegangen,c\n",
         ['decimal = "."', '# asset = "USD"', "[columns]", 'booked_on = "Wann"', 'amount = "Wie"',
          'direction = "Kurz"', 'memo = "Was"',
          '[words]   # sort these: "ausgegangen", "eingegangen"', "in = []", "out = []"]),
        # Without a header columns have numbers; what stands above is not of the table.
        ("junk\n2026-10-01,-5.00,x\n", ['decimal = "."', '# asset = "USD"', "[columns]",
                                         'booked_on = "1"', 'amount = "2"', 'memo = "3"']),
        ("2026-09-30,carried,x\n2026-10-01,-5.00,y\n", [
            'decimal = "."', '# asset = "USD"', "[columns]", 'booked_on = "1"', 'amount = "2"',
            'memo = "3"']),
        # Not each line need have an amount.
        ("Wann,Aus,Stand\n2026-10-01,-5.00,95.00\n2026-10-02,,95.00\n",
         ['decimal = "."', '# asset = "USD"', "[columns]", 'booked_on = "Wann"', 'amount = "Aus"']),
        # Of two that would do, columns end where there are more of them.
        ("Wann|Wie|Wo|An|Was\n2026-10-01|-5.00|x|y|of,2026-09-01,7.00\n",
         ['decimal = "."', '# asset = "USD"', "[columns]", 'booked_on = "Wann"', 'amount = "Wie"',
          'memo = "Was"']),
        ("2026-10-01,-5,x\n2026-10-02,7,y\n", ['decimal = "."', '# asset = "USD"', "[columns]",
                                              'booked_on = "1"', 'amount = "2"', 'memo = "3"']),
        # By commas, of which there are more, it could not be read.
        ('2026-10-01;-5,00;a, b, c\n2026-10-02;7,00;x,"y"z\n', [
            'decimal = ","', '# asset = "USD"', "[columns]", 'booked_on = "1"', 'amount = "2"',
            'memo = "3"']),
    ],
)  # fmt: skip
def test_a_proposal_says_what_the_look_says(text: str, lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "bank.csv").write_text(text)
    assert proposed(tmp_path / "bank.csv").splitlines() == ['format = "csv"', *lines]


def test_a_balance_on_a_line_of_its_own_must_agree(tmp_path: Path) -> None:
    file = tmp_path / "bank.csv"
    file.write_text("date,amount,balance\n2026-10-01,,100\n2026-10-02,5,106\n")
    with pytest.raises(AnalysisError, match="the opening balance 100, the others give 101"):
        bank.read(file)
    file.write_text("date,amount,balance\n2026-10-02,5,105\n2026-10-03,,\n")
    with pytest.raises(AnalysisError, match="give either a credit or a debit"):
        bank.read(file)


def test_a_banks_profile_is_not_taken_for_one_of_the_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chase.csv").write_text(FILES["chase"])
    found = bank.read(tmp_path / "chase.csv", profile="chase")
    assert found.options == {"bank-profile": "chase"}  # as a report's command gives it again
    for command in ("bank reconcile", "report", "close"):
        with pytest.raises(typer.Exit):
            cli.run([*command.split(), "--help"])
        text = " ".join(capsys.readouterr().out.split())
        assert "--bank-profile FILE|NAME A TOML file with the bank's habits" in text
        assert "--profile NAME The profile of config.toml to use" in text


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("skip = 0", {"skip": 0}), ("skip = -1", None),
        ("reference = '(a)b'", {"reference": "(a)b"}),
        ("words = {in = ['C'], out = ['D'], booked = ['B'], pending = ['P']}",
         {"words": {"in": ["C"], "out": ["D"], "booked": ["B"], "pending": ["P"]}}),
        ("words = {in = ['C', 1]}", None), ("words = {in = ['C'], out = 'D'}", None),
        ("columns = {amount = 'Betrag', memo = 1}", None),
        ("rules = [{says = 'x'}, 1]", None),
        ("rules = [{says = 'x', days = 0, amount = '0'}]",
         {"rules": (Rule("x", days=0, amount=D(0)),)}),
    ],
)  # fmt: skip
def test_a_key_of_a_profile_fits_or_is_named(
    tmp_path: Path, text: str, known: dict[str, Any] | None
) -> None:
    path = tmp_path / "bank.toml"
    path.write_text(text, encoding="utf-8")
    if known is None:
        with pytest.raises(AnalysisError, match=f": {text.partition(' ')[0]} must be "):
            read_profile(path)
    else:
        assert read_profile(path) == {"rules": ()} | known


def test_amounts_are_the_numbers_of_which_some_have_cents() -> None:
    rows = [["2026-01-02", "101", "5", "rent"], ["2026-01-03", "102", "7.50", "more rent"]]
    assert dict(_fields(["day", "check", "sum", "text"], rows)) == {
        "booked_on": "day", "amount": "sum", "memo": "text"
    }  # fmt: skip
    half = [[*rows[0][:3], ""], rows[1]]
    assert dict(_fields(["day", "check", "sum", "text"], half))["memo"] == "text"
    says = [[*rows[0][:3], "7.50"], rows[1]]
    assert dict(_fields(["day", "check", "sum", "text"], says))["memo"] == "text"
    whole = [[*row[:2], row[2].partition(".")[0], row[3]] for row in rows]
    assert dict(_fields(["day", "check", "sum", "text"], whole))["amount"] == "check"


@pytest.mark.parametrize(
    "table",
    ["transfers", "events", "addresses", "fiat_accounts", "deposit_instructions", "balances"],
)
def test_an_export_of_ours_is_not_taken_for_a_statement(table: str, tmp_path: Path) -> None:
    file = fl.exports.export_table(fl.sample(), table, tmp_path / "ours.csv", "csv").path
    says = (
        rf"ours\.csv is not a .*statement: it has the columns of a store's table {table}, as 'fund"
    )
    header, _, lines = file.read_bytes().partition(b"\n")
    for first in (header, header.replace(b'"', b"")):  # as a spreadsheet may save it
        file.write_bytes(first + b"\n" + lines)
        for take in (bank.read, proposed):
            with pytest.raises(AnalysisError, match=says):
                take(file)
