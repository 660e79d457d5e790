"""What every format has in common: amounts, texts, windows, which file it is, the two frames."""

from __future__ import annotations

import codecs
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fundlab import bank
from fundlab.bank.decisions import decisions_of
from fundlab.bank.model import (
    Page,
    check_digits,
    check_window,
    exact_amount,
    file_text,
    given_amount,
    joined,
    words,
)
from fundlab.bank.statements import READERS
from fundlab.base.errors import AnalysisError, StatementError

D = Decimal


@pytest.mark.parametrize(
    ("text", "amount"),
    [("1", "1"), (" -1234.50 ", "-1234.50"), ("+.5", "0.5"), ("5.", "5"), ("0", "0")],
)
def test_a_plain_amount(text: str, amount: str) -> None:
    assert exact_amount(text) == D(amount)


@pytest.mark.parametrize("text", ["", ".", "1e3", "1,5", "--1", "NaN", "1 2", "١", "1_000"])
def test_what_is_no_plain_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a plain amount such as"):
        exact_amount(text)


@pytest.mark.parametrize(
    ("amount", "fits"),
    [
        ("9" * 20, True), ("9" * 21, False), ("-" + "9" * 20 + "." + "9" * 18, True),
        ("0." + "9" * 18, True), ("0." + "9" * 19, False), ("1e19", True), ("1e20", False),
        ("0e99", True),
    ],
)  # fmt: skip
def test_an_amount_fits_its_column(amount: str, fits: bool) -> None:
    if fits:
        check_digits(D(amount), 7)
        assert given_amount("fee", D(amount)) == D(amount)
        return
    with pytest.raises(ValueError, match=r"line 7: .* has more than 20 integer or 18 fractional"):
        check_digits(D(amount), 7)
    with pytest.raises(AnalysisError, match=r"fee=.* is not an amount such as '100\.50'"):
        given_amount("fee", amount)
    check_digits(None, 7)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), "é"), ("é".encode(), "é"),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be"), "é"), (b"\xef\xbb\xbfx", "x"),
        (b"\x80\xe9", "€é"), (b"\x81\xe9", "\x81é"),
    ],
)  # fmt: skip
def test_the_encoding_of_a_file_is_found(content: bytes, text: str) -> None:
    assert file_text(content) == text


def test_an_encoding_that_is_given_counts() -> None:
    assert file_text("ń".encode("cp1250"), "cp1250") == "ń"
    assert file_text(b"\x81\xe9", "cp1252") == "\x81é"  # where it cannot be, nearly the same
    with pytest.raises(ValueError, match="unknown encoding: klingon; give an encoding"):
        file_text(b"x", "klingon")


@pytest.mark.parametrize(
    ("window", "valid"),
    [(0, True), (3_660, True), (-1, False), (3_661, False), (True, False), (3.0, False)],
)
def test_a_window_is_a_whole_number_of_days(window: Any, valid: bool) -> None:
    if valid:
        check_window(window)
    else:
        with pytest.raises(AnalysisError, match=f"days={window!r}: give a whole number of days"):
            check_window(window, "days")


def test_texts_are_put_together_and_taken_apart() -> None:
    assert (joined("a  b", None, "", " c\nd"), joined(None, "")) == ("a b c d", None)
    assert words("REF-100/a b_c é") == ("ref", "100", "a", "b", "c")


@pytest.mark.parametrize(
    ("more", "name", "place"),
    [
        ({}, "the statement", (1, 1, 0, 0)), ({"id": "S1"}, "statement S1", (1, 1, 0, 0)),
        ({"id": "S1", "sequence": 7}, "statement 7", (1, 1, 7, 0)),
        ({"sequence": 7, "page": 2}, "statement 7 page 2", (1, 1, 7, 2)),
        ({"account": "A"}, "the statement of account A", (1, 1, 0, 0)),
        ({"opening_on": date(1, 1, 3)}, "the statement", (3, 3, 0, 0)),
        ({"closing_on": date(1, 1, 4)}, "the statement", (4, 1, 0, 0)),
        ({"opening_on": date(1, 1, 3), "closing_on": date(1, 1, 4)}, "the statement", (4, 3, 0, 0)),
    ],
)  # fmt: skip
def test_a_page_has_a_name_and_a_place(
    more: dict[str, Any], name: str, place: tuple[int, ...]
) -> None:
    page = Page("statement", 1, **more)
    assert (page.name, page.place) == (name, place)


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        ("OFXHEADER:100", "ofx"), ("<?xml?>\n<ofx>", "ofx"), ("<Document xmlns='camt.052.001'>",
                                                              "camt.052"),
        ("<Document><Ntfctn>", "camt.054"), ("<Document><ns:Rpt>", "camt.052"),
        ("<Document><Stmt>", "camt.053"), ("<x>", "camt.053"), ("x <Stmt>", "csv"),
        ("01,A,B/\n02,A", "bai2"), ("01,A,B/ 02,A", "bai2"), ("01,A,B", "csv"),
        ("x01,A/\n02,", "csv"), (":13D:26", "csv"),
        (":20:S\n:25:1", "mt940"), ("{1:F01}{4:\n:20:S", "mt940"), ("@@:20:S", "mt940"),
        (":60F:C", "mt940"), (":61:26", "mt940"), (":28C:1\n:34F:USD0", "mt942"),
        (":25P:1\n:13D:26", "mt942"), (":86:text", "csv"), ("Date,Amount", "csv"),
    ],
)  # fmt: skip
def test_the_look_of_a_file_says_which_format_it_is(start: str, kind: str) -> None:
    looks = (reader.looks_like(start) for reader in READERS)
    assert next(look for look in looks if look) == kind


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["date,amount,memo", *lines, ""]))
    return path


def test_entries_and_statements_are_counted_from_one(tmp_path: Path) -> None:
    one = written(tmp_path / "one", "2026-10-01,5,x", "2026-10-01,5,x", "2026-10-02,-2,y",
                  "2026-10-02,0,z")  # fmt: skip
    two = written(tmp_path / "two", "2026-10-07,5,x")
    found = bank.read(one, two, account="A", asset="USD", opening="1", closing="13")
    entries, pages = found.entries, found.statements
    assert entries["entry"].tolist() == [1, 2, 3, 4, 5]
    assert entries["statement"].tolist() == [1, 1, 1, 1, 2]
    assert entries["entry_id"].is_unique
    assert (entries["account"] + entries["asset"]).tolist() == ["AUSD"] * 5
    figures = ["statement", "entries", "credits", "credit_sum", "debits", "debit_sum"]
    assert pages[figures].values.tolist() == [[1, 4, 2, 10, 1, 2], [2, 1, 1, 5, 0, 0]]
    assert (pages["opening"].iloc[0], pages["closing"].iloc[1]) == (1, 13)
    assert pages["opening"].isna().tolist() == [False, True]
    assert found.options == {"opening": "1"}
    assert repr(found) == "Statements(5 entries, 2 statements, 0 findings)"


def test_a_balance_that_is_given_is_of_the_first_day_or_the_last(tmp_path: Path) -> None:
    """Of no file without entries, and so without a day, unless there is no other."""
    one, two = (written(tmp_path / f"{n}", f"2026-10-0{n},5,x") for n in (1, 7))
    none, nothing = (written(tmp_path / name) for name in ("none", "nothing"))
    nothing.write_text(f"{nothing.read_text()}\n")
    for files, opens, closes in (
        ((one, two, none), one, two), ((none, two, one), one, two), ((none, one), one, one),
        ((none,), none, none), ((none, nothing), none, nothing),
    ):  # fmt: skip
        found = bank.read(*files, account="A", asset="USD", opening="1", closing="13", strict=False)
        pages = found.statements.set_index("file")
        given = {name: [*pages[name].dropna().items()] for name in ("opening", "closing")}
        assert given == {"opening": [(str(opens), 1)], "closing": [(str(closes), 13)]}
    assert bank.read(
        one, two, none, account="A", asset="USD", opening="1", closing="11"
    ).findings.empty


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    one = written(tmp_path / "one", "2026-10-01,5,x")
    header = "date,amount,balance,account"
    two = tmp_path / "two"
    two.write_text(f"{header}\n2026-10-01,5,15,B\n")
    for files, options, told in (
        ([], {}, "no statement file is given"), ([7], {}, "7 is not a path"),
        ([one, two], {"opening": 1}, "opening= belongs to one account; the files are of 2"),
        ([tmp_path / "none"], {}, "No such file or directory; give the path of a statement"),
        ([one], {"format": "xls"}, "format='xls' is not one of csv, mt940"),
        ([one], {"opening": "x"}, "opening='x' is not an amount"),
        ([two], {"opening": 11}, "opening= gives 11, the file declares 10"),
    ):  # fmt: skip
        given: Any = files
        more: dict[str, Any] = options
        with pytest.raises((AnalysisError, StatementError), match=told):
            bank.read(*given, **more)
    assert bank.read(two, opening=10).statements["opening"].tolist() == [10]
    two.write_text(f"{header}\n2026-10-01,{'9' * 21},,B\n")
    with pytest.raises(AnalysisError, match=r"valid csv statement: line 2: .* has more than"):
        bank.read(two)
    two.write_text(f"{header}\n2026-10-01,5,{'9' * 21},B\n")
    with pytest.raises(AnalysisError, match=r"valid csv statement: line 2: .* has more than"):
        bank.read(two)


@pytest.mark.parametrize("sign", ["", "-"])
def test_what_entries_of_one_way_come_to_fits_its_column(sign: str, tmp_path: Path) -> None:
    """The largest amount and 0.5; and 1, which is one digit more."""
    largest, column = f"{sign}{'9' * 20}", "credit_sum" if not sign else "debit_sum"
    file = written(tmp_path / "file", f"2026-10-01,{largest},x", f"2026-10-01,{sign}0.5,y")
    assert bank.read(file, account="A", asset="USD").statements[column].tolist() == [
        D("9" * 20 + ".5")
    ]
    written(file, f"2026-10-01,{largest},x", f"2026-10-01,{sign}1,y")
    with pytest.raises(AnalysisError, match=r"line 1: .* has more than 20 integer"):
        bank.read(file, account="A", asset="USD")


def test_the_last_word_of_a_person_counts() -> None:
    import pandas as pd

    def words_of(*rows: tuple[str, str | None]) -> tuple[Any, ...]:
        frame = pd.DataFrame(rows, columns=["item_id", "decision"])
        found = decisions_of(frame, {"b", "c"}, {"t", "u"})
        return found.of_item, found.together, found.apart

    assert words_of(("b", "match t")) == ({"b": "match t"}, {("b", "t")}, set())
    assert words_of(("t", "match b")) == ({"t": "match b"}, {("b", "t")}, set())
    assert words_of(("b", "not t")) == ({}, set(), {("b", "t")})
    assert words_of(("b", "match t"), ("b", "not t")) == ({"b": "match t"}, set(), {("b", "t")})
    assert words_of(("b", "not t"), ("t", "match b")) == ({"t": "match b"}, {("b", "t")}, set())
    assert words_of(("b", "match t"), ("b", "open")) == ({}, set(), set())
    assert words_of(("b", "match t"), ("t", "open")) == ({"b": "match t"}, set(), set())
    assert words_of(("b", "match t"), ("c", "open")) == ({"b": "match t"}, {("b", "t")}, set())
    assert words_of(("b", "match c"), ("b", "accepted"), ("c", None)) == (
        {"b": "accepted"}, set(), set()
    )  # fmt: skip
    assert words_of(("b", "match t u")) == ({"b": "match t u"}, set(), set())
    nothing = decisions_of(None, {"b"}, {"t"})
    assert (nothing.of_item, nothing.together, nothing.apart) == ({}, set(), set())
