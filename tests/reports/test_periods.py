"""A report of any period, of stores that hold much, little or nothing."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import fundlab as fl
from fundlab import reports
from fundlab.reports.report_files import file_name, sheets

FORMATS = ("html", "xlsx", "csv")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fl.Store]:
    folder = tmp_path_factory.mktemp("stores")
    found = {}
    for name, transfers in (("many", 400), ("few", 12), ("none", 0)):
        with fl.sandbox.serve(seed=7, transfers=transfers, clock="manual") as sandbox:
            found[name] = fl.Store(folder / name)
            found[name].sync(sandbox.connect(), progress=False)
    return found


@pytest.fixture(scope="module")
def every(stores: dict[str, fl.Store]) -> Any:
    return reports.read_report(stores["many"])


def kinds(found: Any) -> dict[str, dict[str, str]]:
    return {
        sheet.name: {field.name: str(field.type) for field in sheet.rows.schema}
        for sheet in sheets(found)
    }


def month_with(store: fl.Store, *, deposits: bool, withdrawals: bool) -> str:
    """The last month with completed transfers of just these kinds."""
    rows = store.read("transfers")
    rows = rows[(rows["status"] == "COMPLETED") & ~rows["type"].str.startswith("INTERNAL")]
    months = rows["created_at"].dt.strftime("%Y-%m")
    sides = {month: set(rows.loc[months == month, "direction"]) for month in months.unique()}
    wanted = {"CREDIT"} if deposits else set()
    wanted |= {"DEBIT"} if withdrawals else set()
    return str(max(month for month, found in sides.items() if found == wanted))


@pytest.mark.thorough
@pytest.mark.parametrize("period", [None, "1990-01"])
@pytest.mark.parametrize("name", ["few", "none"])
def test_every_period_is_written_in_every_format(
    stores: dict[str, fl.Store], every: Any, tmp_path: Path, name: str, period: str | None
) -> None:
    found = fl.report(stores[name], period, out=tmp_path, formats=FORMATS)
    expected = kinds(every)
    assert kinds(found) == expected
    stem = file_name(period or "")
    with (tmp_path / f"{stem}.links.csv").open(encoding="utf-8-sig", newline="") as links:
        assert next(csv.reader(links)) == list(expected["Links"])
    assert "Report" in openpyxl.load_workbook(tmp_path / f"{stem}.xlsx").sheetnames
    assert {path.suffix for path in tmp_path.iterdir()} == {".html", ".xlsx", ".csv"}


@pytest.mark.thorough
def test_a_month_of_deposits_only_is_written_in_every_format(
    stores: dict[str, fl.Store], every: Any, tmp_path: Path
) -> None:
    month = month_with(stores["few"], deposits=True, withdrawals=False)
    found = fl.report(stores["few"], month, out=tmp_path, formats=FORMATS)
    assert found.recipients.empty
    assert len(found.links)
    assert kinds(found) == kinds(every)
