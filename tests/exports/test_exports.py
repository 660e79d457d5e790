"""Files that other programs open: nothing runs, nothing is rounded, nothing is lost."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amounts import exactly
from hypothesis import given, settings
from hypothesis import strategies as st

from fundlab import Store, exports
from fundlab.base.errors import InvalidRequest, OutputError
from fundlab.exports.sheets import Sheet, sheet_name
from fundlab.exports.workbook import write_workbook
from fundlab.tables import TABLES

D = Decimal
MONEY = pa.decimal128(38, 18)
HOSTILE = [
    "=1+1", "@SUM(A1)", "+1", "-1", "\t=1", " =1", "\r\n=1", "'quoted", "=HYPERLINK(\"x\")",
    "=cmd|' /C calc'!A0", "<r><t>x</t></r>", "<r></r>", "＝1", "\u202e=1", "%0A=1", "plain",
    "", "a;=1", "a,\"b\"\nc", "</t></is></c>", "_x0041_", "😀 日本",
]  # fmt: skip
AMOUNTS = [
    "0", "10", "1.5", "-1.5", "0.1", "0.0001", "0.00001", "0.000000000000000001",
    "123456789012345", "1234567890123456", "99999999999999999999.999999999999999999",
    "9.99999999999999", "1000000000000000", "-0.000000000000000001",
]  # fmt: skip


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def money(*texts: str | None) -> pa.Array:
    return pa.array([None if text is None else D(text) for text in texts], MONEY)


def test_a_column_name_is_no_formula(tmp_path: Path) -> None:
    rows = pd.DataFrame({"=1+1": ["a"], "plain": ["b"]})
    done = exports.write_rows(rows, tmp_path / "t.csv", "csv")
    assert done.path.read_text(encoding="utf-8") == '"\'=1+1","plain"\n"a","b"\n'


@pytest.mark.parametrize(("format", "called"), [("csv", "CSV"), ("json", "JSON"),
                                                ("parquet", "Parquet")])  # fmt: skip
def test_how_far_a_long_export_is_can_be_seen(
    format: str, called: str, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("fundlab.exports.plain.GROUP", 60_000)
    rows = table(number=range(70_000))
    with caplog.at_level("INFO", "fundlab"):
        exports.write_rows(rows.slice(0, 9), tmp_path / "few", format)
        assert not caplog.messages
        exports.write_rows(rows, tmp_path / "many", format)
    (line,) = caplog.messages
    assert line.startswith(f"writing the {called} file: 70,000 rows in ")


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def cells(path: Path, sheet: int = 0) -> list[list[Any]]:
    book = openpyxl.load_workbook(path)
    return [list(row) for row in book.worksheets[sheet].iter_rows()]


def exact(cell: Any) -> Decimal:
    """What a reader of the cell has: text as it is, a number by its shortest digits."""
    return D(cell.value) if isinstance(cell.value, str) else D(repr(cell.value))


def write(rows: pa.Table, folder: Path, format: str, name: str = "rows") -> Path:
    return exports.write_rows(rows, folder / f"x.{format}", format, name=name).path


def test_csv_runs_nothing_and_gives_every_text_back(tmp_path: Path) -> None:
    path = write(table(memo=HOSTILE), tmp_path, "csv")
    found = [row["memo"] for row in read_csv(path)]
    for text in found:
        assert text.lstrip()[:1] not in {"=", "+", "-", "@", "＝"}, text
        assert text[:1] not in {"\t", "\r", "\n"}, text
    assert [text[1:] if text[:1] == "'" else text for text in found] == HOSTILE


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "xlsx"])
def test_no_file_takes_the_place_of_a_pipe_or_a_device(tmp_path: Path, format: str) -> None:
    pipe = tmp_path / f"x.{format}"
    os.mkfifo(pipe)
    with pytest.raises(OutputError, match=r"is a device or a pipe; give the path of a file"):
        write(table(a=["x"]), tmp_path, format)
    assert pipe.is_fifo()


def test_csv_quotes_text_and_leaves_missing_values_bare(tmp_path: Path) -> None:
    path = write(table(a=["", None, "x"], n=money("-5", None, "1.50")), tmp_path, "csv")
    assert path.read_text(encoding="utf-8") == '"a","n"\n"","-5"\n,\n"x","1.5"\n'


def test_in_a_csv_of_one_column_no_row_is_an_empty_line(tmp_path: Path) -> None:
    path = write(table(a=["x", None, "z"]), tmp_path, "csv")
    assert len(pd.read_csv(path)) == 3
    path = write(table(n=money(None, "1.50", None)), tmp_path, "csv")
    assert path.read_text(encoding="utf-8") == '"n"\n""\n"1.5"\n""\n'


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "xlsx"])
def test_of_a_link_the_file_it_leads_to_is_replaced(tmp_path: Path, format: str) -> None:
    (tmp_path / "books").mkdir()
    link, file = tmp_path / f"x.{format}", tmp_path / "books" / f"october.{format}"
    link.symlink_to(file)
    for text in ("earlier", "later"):
        write(table(a=[text]), tmp_path, format)
        assert link.is_symlink()
        assert file.read_bytes() == write(table(a=[text]), tmp_path / "books", format).read_bytes()


def test_amounts_have_every_digit_and_no_exponent(tmp_path: Path) -> None:
    rows = table(amount=money(*AMOUNTS))
    assert [row["amount"] for row in read_csv(write(rows, tmp_path, "csv"))] == AMOUNTS
    found = json.loads(write(rows, tmp_path, "json").read_text())
    assert [row["amount"] for row in found] == AMOUNTS
    back = pq.ParquetFile(write(rows, tmp_path, "parquet")).read()
    assert back.column("amount").to_pylist() == [D(text) for text in AMOUNTS]
    assert back.schema.field("amount").type == MONEY


def test_a_workbook_keeps_every_amount_as_a_number_or_as_text(tmp_path: Path) -> None:
    (_, *rows) = cells(write(table(amount=money(*AMOUNTS)), tmp_path, "xlsx"))
    assert [exact(row[0]) for row in rows] == [D(text) for text in AMOUNTS]
    numbers = [isinstance(row[0].value, int | float) for row in rows]
    assert numbers == [True, True, True, True, True, True, True, True, True, False, False, True,
                       True, True]  # fmt: skip


@exactly()
def test_a_sum_over_small_fees_in_a_workbook_is_their_sum(tmp_path: Path) -> None:
    fees = ["0.00001", "0.0000125", "0.00000001", "0.000000000000000001"]
    rows = table(asset=["BTC"] * 4, fee=money(*fees))
    (_, *found) = cells(write(rows, tmp_path, "xlsx"))
    assert sum(D(repr(row[1].value)) for row in found) == D("0.000022510000000001")
    assert {row[1].number_format for row in found} == {"#,##0." + "0" * 18}


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda units: D(f"{units}e-18"))
        | st.integers(-(10**15), 10**15).map(lambda units: D(f"{units}e-2"))
        | st.integers(-(10**15), 10**15).map(lambda units: D(f"{units}e-8")),
        min_size=1,
        max_size=60,
    )
)
def test_any_amount_comes_back_from_a_workbook(
    tmp_path_factory: pytest.TempPathFactory, amounts: list[Decimal]
) -> None:
    rows = table(amount=pa.array(amounts, MONEY))
    (_, *found) = cells(write(rows, tmp_path_factory.mktemp("x"), "xlsx"))
    assert [exact(row[0]) for row in found] == amounts


def test_a_workbook_has_no_formula_and_every_text(tmp_path: Path) -> None:
    path = write(table(memo=HOSTILE, asset=HOSTILE), tmp_path, "xlsx", name="=1+1[x]:*?/\\y")
    rows = cells(path)
    assert {cell.data_type for row in rows for cell in row} <= {"s", "n"}
    found = [row[0].value or "" for row in rows[1:]]
    expected = [text.replace("_x0041_", "_x005F_x0041_") for text in HOSTILE]
    assert found == [text.replace("\r", "_x000D_") for text in expected]
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            assert b"<f>" not in archive.read(name)
            assert b"<hyperlink" not in archive.read(name)
    assert openpyxl.load_workbook(path).sheetnames == ["1+1 x      y"]


def test_assets_show_the_decimals_they_need(tmp_path: Path) -> None:
    rows = table(asset=["USD", "BTC", "USD"], amount=money("10", "0.00000125", "2.5"))
    (_, *found) = cells(write(rows, tmp_path, "xlsx"))
    assert [row[1].number_format for row in found] == ["#,##0.00", "#,##0.00000000", "#,##0.00"]
    (_, *found) = cells(write(table(asset=["BTC"], amount=money("0.125")), tmp_path, "xlsx"))
    assert found[0][1].number_format == "#,##0.000"


def test_the_header_stays_and_columns_have_widths(tmp_path: Path) -> None:
    path = write(table(memo=["x" * 20]), tmp_path, "xlsx")
    sheet = openpyxl.load_workbook(path).worksheets[0]
    assert sheet.freeze_panes == "A2"
    assert sheet.column_dimensions["A"].width > 20
    assert sheet.auto_filter.ref == "A1:A2"


def test_more_rows_than_a_sheet_holds_go_on_in_the_next_with_a_word(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    notes = write_workbook([Sheet("rows", table(n=list(range(25))))], path, max_rows=11)
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["rows", "rows 2", "rows 3", "Notes"]
    found = [
        row[0] for name in book.sheetnames[:3] for row in book[name].iter_rows(2, values_only=True)
    ]
    assert found == list(range(25))
    assert [sheet["A1"].value for sheet in book.worksheets[:3]] == ["n", "n", "n"]
    assert notes == ("rows has 25 rows, more than one sheet holds; it goes on in rows 2, rows 3",)
    assert book["Notes"]["A1"].value == notes[0]


@pytest.mark.slow
def test_a_real_sheet_is_full_at_1_048_576_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    write_workbook([Sheet("rows", table(n=list(range(1_048_577))))], path)
    book = openpyxl.load_workbook(path, read_only=True)
    assert book.sheetnames == ["rows", "rows 2", "Notes"]
    assert [row[0] for row in book["rows 2"].iter_rows(values_only=True)] == [
        "n",
        1_048_575,
        1_048_576,
    ]


def test_a_text_longer_than_a_cell_is_cut_with_a_word(tmp_path: Path) -> None:
    written = exports.write_rows(table(memo=["x" * 40_000]), tmp_path / "x.xlsx", "xlsx")
    value = cells(written.path)[1][0].value
    assert value.endswith("… (cut: 40,000 characters)")
    assert "cut, each with a word" in written.notes[0]


def test_times_name_their_zone_and_keep_nanoseconds(tmp_path: Path) -> None:
    moments = pa.array([0, 1_000_000_000_000_000_001, 1_500_000_000], pa.timestamp("ns", "UTC"))
    expected = ["1970-01-01T00:00:00Z", "2001-09-09T01:46:40.000000001Z", "1970-01-01T00:00:01.5Z"]
    rows = table(at=moments)
    assert [row["at"] for row in read_csv(write(rows, tmp_path, "csv"))] == expected
    assert [row["at"] for row in json.loads(write(rows, tmp_path, "json").read_text())] == expected
    assert [row[0].value for row in cells(write(rows, tmp_path, "xlsx"))[1:]] == expected
    with pytest.raises(InvalidRequest, match="column 'at' holds times without a zone"):
        write(table(at=moments.cast(pa.timestamp("ns"))), tmp_path, "csv")


def test_durations_are_seconds(tmp_path: Path) -> None:
    rows = table(age=pa.array([183_600_000_000_000, 1, -500_000_000], pa.duration("ns")))
    found = [row["age"] for row in read_csv(write(rows, tmp_path, "csv"))]
    assert found == ["183600", "0.000000001", "-0.5"]


def test_json_keeps_objects_as_they_were_sent(tmp_path: Path) -> None:
    metadata = pa.array(['{"a": 1.10, "=x": "=1+1"}', None, "not json"], pa.string())
    empty = TABLES["transfers"].schema.empty_table()
    columns = [metadata if name == "metadata" else pa.nulls(3, empty.schema.field(name).type)
               for name in empty.schema.names]  # fmt: skip
    rows = pa.Table.from_arrays(columns, schema=empty.schema)
    text = write(rows, tmp_path, "json").read_text()
    assert '"metadata":{"a": 1.10, "=x": "=1+1"},' in text
    assert [row["metadata"] for row in json.loads(text)] == [
        {"a": 1.10, "=x": "=1+1"}, None, "not json",
    ]  # fmt: skip


def test_floats_are_refused_and_so_are_unknown_formats(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="column 'x' holds double, which has no exact text"):
        write(table(x=[0.1]), tmp_path, "csv")
    with pytest.raises(InvalidRequest, match="format 'pdf' is unknown; there are csv, parquet"):
        write(table(x=["a"]), tmp_path, "pdf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", exports.FORMATS)
def test_the_same_rows_give_the_same_bytes_and_none_is_fine(tmp_path: Path, format: str) -> None:
    rows = table(memo=HOSTILE, n=money(*(["1"] * len(HOSTILE))))
    first, second = (write(rows, tmp_path / name, format).read_bytes() for name in "ab")
    assert first == second
    assert write(rows.slice(0, 0), tmp_path / "c", format).stat().st_size > 0


@pytest.mark.parametrize("format", exports.FORMATS)
def test_a_frame_is_written_as_its_arrow_table(tmp_path: Path, format: str) -> None:
    amounts = pd.array([D("0.000000000000000001"), None], dtype="decimal")
    texts = pa.array(["=1+1", "a"], pa.large_string())
    memo = pd.array(texts, dtype=pd.ArrowDtype(texts.type))  # of plain text pandas decides
    frame = pd.DataFrame({"memo": memo, "n": amounts, "rows": [1, 2]}, index=[7, 3])
    same = table(
        memo=texts,
        n=money("0.000000000000000001", None),
        rows=[1, 2],
    )
    exports.write_rows(frame, tmp_path / "frame", format)
    exports.write_rows(same, tmp_path / "table", format)
    assert (tmp_path / "frame").read_bytes() == (tmp_path / "table").read_bytes()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("=1+1", "1+1"),
        ("History", "Sheet"),
        ("", "Sheet"),
        ("'x'", "x"),
        ("x" * 40, "x" * 31),
        ("😀" * 20, "😀" * 15),
        ("a\x00b", "a b"),
    ],
)
def test_sheet_names_are_ones_a_spreadsheet_accepts(text: str, name: str) -> None:
    assert sheet_name(text) == name


def test_sheet_names_differ_whatever_their_case(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    write_workbook([Sheet(name, table(n=[1])) for name in ("Rows", "rows", "ROWS")], path)
    assert openpyxl.load_workbook(path).sheetnames == ["Rows", "rows 2", "ROWS 3"]


def test_a_sheet_for_people_keeps_its_words_on_the_paper(tmp_path: Path) -> None:
    memo, lead = "PAYROLL 4411 " * 18 + "end", "what this sheet shows, and of which account, " * 4
    rows = pa.table({"item": ["a", "b", "c"], "memo": [memo, "short", "word " * 6_000]})
    rows = rows.append_column("ref_id", [["r" * 60] * 3])
    sheet = Sheet("Items", rows, title="Items", lead=lead, unprinted=["ref_id"])
    narrow = Sheet("Narrow", rows.select(["item"]), title="Narrow", lead=lead)
    write_workbook([sheet, narrow], tmp_path / "items.xlsx")
    page, upright = openpyxl.load_workbook(tmp_path / "items.xlsx").worksheets
    orientations = [one.page_setup.orientation for one in (page, upright)]
    assert orientations == ["landscape", "portrait"]
    assert page.print_area.endswith("$A$1:$B$7")
    assert {str(one) for one in page.merged_cells.ranges} == {"A1:B1", "A2:B2"}
    width, tall = page.column_dimensions["B"].width, page.row_dimensions
    assert tall[5].height / 15 * width > len(memo) > width
    assert tall[6].height is None
    assert tall[7].height <= 409  # what a spreadsheet takes
    printed = width + page.column_dimensions["A"].width
    assert tall[2].height / 15 * printed > len(lead) > printed
    assert [page[f"{one}5"].alignment.wrap_text for one in "ABC"] == [True, True, None]


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed here")
def test_libreoffice_finds_no_formula_and_every_amount(tmp_path: Path) -> None:
    amounts = (AMOUNTS * 2)[: len(HOSTILE)]
    path = write(table(memo=HOSTILE, amount=money(*amounts)), tmp_path, "xlsx")
    profile = f"-env:UserInstallation=file://{tmp_path}/office"
    command = ["soffice", profile, "--headless", "--convert-to", "fods", "--outdir", tmp_path, path]
    subprocess.run(command, check=True, capture_output=True, timeout=180)
    sheet = (tmp_path / "x.fods").read_text(encoding="utf-8")
    assert "table:formula" not in sheet
    command[4] = "csv"
    subprocess.run(command, check=True, capture_output=True, timeout=180)
    shown = [row["amount"].replace(",", "") for row in read_csv(tmp_path / "x.csv")]
    assert [D(text) for text in shown] == [D(text) for text in amounts]


NAIVE = pd.DataFrame({"t": [pd.Timestamp("2026-10-25 02:30")]})
FAR = pa.table({"t": pa.array([32_472_144_000_000_000], pa.timestamp("us", "UTC"))})


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "xlsx"])
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (NAIVE, "holds times without a zone"), (pd.DataFrame({"x": [0.1]}), "no exact text"),
        (pl.DataFrame({"x": [1]}), "is a DataFrame of polars; give an Arrow table or a pandas"),
        (pd.Series([1]), "is a Series of pandas; give"),
        (pd.DataFrame({"x": ["\ud800"]}, dtype=object), "a text holds half a character"),
    ],
)  # fmt: skip
def test_every_format_refuses_the_same(rows: Any, said: str, format: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=said):
        exports.write_rows(rows, tmp_path / f"out.{format}", format)
    assert not [*tmp_path.iterdir()]


def test_what_is_no_path_and_no_name_is_refused_as_such(tmp_path: Path) -> None:
    rows = table(a=["x"])
    with pytest.raises(InvalidRequest, match="path is an int; give the path of a file"):
        exports.write_rows(rows, 5, "csv")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="name is an int; give the name of the sheet"):
        exports.write_rows(rows, tmp_path / "x.xlsx", "xlsx", name=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="path is an int; give the path of a file or folder"):
        Store(5)  # type: ignore[arg-type]


def test_a_workbook_of_no_column_is_an_empty_sheet(tmp_path: Path) -> None:
    exports.write_rows(pd.DataFrame(), tmp_path / "x.xlsx", "xlsx")
    assert [*openpyxl.load_workbook(tmp_path / "x.xlsx").active.values] == []


@pytest.mark.parametrize("format", ["csv", "json", "xlsx"])
def test_a_time_that_no_nanoseconds_reach_is_refused_by_name(format: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="column 't' holds timestamp"):
        exports.write_rows(FAR, tmp_path / f"out.{format}", format)


def test_amounts_of_any_width_are_of_one_type_in_parquet(tmp_path: Path) -> None:
    wide = pa.array([Decimal("1.5")], pa.decimal256(60, 30))
    coded = pa.array([Decimal("1.5")], pa.decimal128(9, 2)).dictionary_encode()
    exports.write_rows(pa.table({"a": wide, "b": coded}), tmp_path / "a.parquet", "parquet")
    found = pq.read_table(tmp_path / "a.parquet")
    assert found.schema.types == [pa.decimal128(38, 18)] * 2
    assert found.to_pylist() == [{"a": Decimal("1.5"), "b": Decimal("1.5")}]


def test_a_category_and_a_text_view_are_written_as_what_they_hold(tmp_path: Path) -> None:
    coded = pd.DataFrame({"n": pd.Categorical([1]), "b": pd.Categorical([True])})
    exports.write_rows(coded, tmp_path / "a.json", "json")
    assert json.loads((tmp_path / "a.json").read_text()) == [{"n": 1, "b": True}]
    views = pa.table({"a": pa.array(["x"], pa.string_view())})
    for kind in ("csv", "json", "parquet", "xlsx"):
        exports.write_rows(views, tmp_path / f"v.{kind}", kind)
    assert json.loads((tmp_path / "v.json").read_text()) == [{"a": "x"}]
