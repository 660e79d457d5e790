"""Exports where a file, a name or a value is not as one would wish."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
import xlsxwriter.workbook

from fundlab import exports
from fundlab.base.errors import InvalidRequest, OutputError
from fundlab.exports import FORMATS

ROWS = pa.table({"a": ["secret"]})


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("format", FORMATS)
class TestRights:
    def test_of_a_new_file(self, tmp_path: Path, format: str) -> None:
        assert mode(exports.write_rows(ROWS, tmp_path / "o", format).path) == 0o640

    @pytest.mark.parametrize("before", [0o600, 0o444, 0o666])
    def test_of_one_that_was_there_stay(self, tmp_path: Path, format: str, before: int) -> None:
        target = tmp_path / "o"
        target.touch()
        target.chmod(before)
        assert mode(exports.write_rows(ROWS, target, format).path) == before

    def test_until_it_is_there_too(
        self, tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def replace(path: Path, target: Path) -> Path:
            seen.append(mode(path))
            return original(path, target)

        original, seen = Path.replace, []  # type: ignore[var-annotated]
        target = tmp_path / "o"
        target.touch()
        target.chmod(0o600)
        monkeypatch.setattr(Path, "replace", replace)
        exports.write_rows(ROWS, target, format)
        assert seen == [0o600]


class TestWorkbooks:
    def test_a_sheet_of_any_size(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100_000)  # really 2 GiB
        rows = pa.table({"a": [f"x{n}" * 5 for n in range(5_000)]})
        done = exports.write_rows(rows, tmp_path / "o.xlsx", "xlsx")
        monkeypatch.undo()
        assert openpyxl.load_workbook(done.path).worksheets[0].max_row == 5_001

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
    def test_nothing_is_left_of_one_that_was_not_finished(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
    ) -> None:
        def interrupted(*_: object) -> None:
            raise error

        (tmp_path / "tmp").mkdir()
        (tmp_path / "out").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
        monkeypatch.setattr(xlsxwriter.workbook.Workbook, "_store_workbook", interrupted)
        with pytest.raises((KeyboardInterrupt, OutputError)):
            exports.write_rows(ROWS, tmp_path / "out" / "o.xlsx", "xlsx")
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
        assert list((tmp_path / "out").iterdir()) == []

    def test_more_columns_than_a_sheet_has(self, tmp_path: Path) -> None:
        rows = pa.table({f"c{n}": ["v"] for n in range(16_385)})
        with pytest.raises(InvalidRequest, match="16,385 columns, and a sheet has 16,384"):
            exports.write_rows(rows, tmp_path / "o.xlsx", "xlsx")
        assert list(tmp_path.iterdir()) == []

    def test_a_column_name_is_no_markup(self, tmp_path: Path) -> None:
        rows = pa.table({"<r>x</r>": ["1"]})
        done = exports.write_rows(rows, tmp_path / "o.xlsx", "xlsx")
        assert openpyxl.load_workbook(done.path).worksheets[0]["A1"].value == "<r>x</r>"
        with zipfile.ZipFile(done.path) as book:
            assert b"<r>x</r>" not in book.read("xl/worksheets/sheet1.xml")


class TestArguments:
    @pytest.mark.parametrize("target", ["", ".", "/", "a\0b.csv", os.fsdecode(b"\xff.csv")])
    @pytest.mark.parametrize("format", FORMATS)
    def test_a_target_that_names_no_file(self, target: str, format: str) -> None:
        with pytest.raises(InvalidRequest, match="path="):
            exports.write_rows(ROWS, target, format)

    @pytest.mark.parametrize("format", FORMATS)
    def test_a_column_twice(self, tmp_path: Path, format: str) -> None:
        twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
        for rows in (twice, pd.DataFrame([[1, 2]], columns=["a", "a"])):
            with pytest.raises(InvalidRequest, match=r"'a'.*once"):
                exports.write_rows(rows, tmp_path / "o", format)

    @pytest.mark.parametrize("format", ["csv", "xlsx", "json"])
    @pytest.mark.parametrize(
        "values",
        [
            pd.Series([1, "x"], dtype=object),
            pd.Series([Decimal("0.1234567890123456789")]),
            pa.array([Decimal("1" * 30)], pa.decimal256(60, 18)),
        ],
        ids=["mixed", "19 decimals", "wide"],
    )
    def test_values_that_have_no_place(self, tmp_path: Path, format: str, values: Any) -> None:
        rows = (
            pd.DataFrame({"a": values})
            if isinstance(values, pd.Series)
            else pa.table([values], ["a"])
        )
        with pytest.raises(InvalidRequest, match=r"column '?a'?"):
            exports.write_rows(rows, tmp_path / "o", format)
        assert list(tmp_path.iterdir()) == []

    def test_an_object_nested_deep(self, tmp_path: Path) -> None:
        deep = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"
        rows = pa.table({"metadata": [deep]}).replace_schema_metadata(
            {"fundlab.table": "transfers"}
        )
        done = exports.write_rows(rows, tmp_path / "o.json", "json")
        assert json.loads(done.path.read_text())[0]["metadata"] == deep
