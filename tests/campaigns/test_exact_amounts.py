"""Exact: an amount is the same digits in every file and engine, or refused by its name.

JSON pages go into a store as those of a service do; from there to Parquet, pandas, DuckDB, Spark,
CSV, JSON, XLSX and HTML, each read by a reader that is not fundlab's; and back into the column.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from decimal import Decimal
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import openpyxl
import pandas as pd
import pyarrow.parquet as pq
import pytest
from amounts import is_held, plain, random_amount
from fake_service import FakeService, moment, transfer, withdrawal

import fundlab as fl
from fundlab import Store, exports, reports, tables
from fundlab.base.errors import DataError
from fundlab.base.values import Amount

PAGE_ROWS = 1_000
REPORT_ROWS = 200
SUMMABLE = Decimal(10**17)
Texts = dict[str, str]


def test_five_thousand_amounts(tmp_path: Path, seed: int, figure: Any) -> None:
    carry(tmp_path, seed, figure, 5_000, WAYS)


@pytest.mark.campaign
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_hundred_thousand_amounts(tmp_path: Path, seed: int, figure: Any) -> None:
    ways = dict(WAYS)
    if find_spec("py4j") is not None and shutil.which("java") is not None:
        ways["Spark"] = by_spark
    carry(tmp_path, seed, figure, 100_000, ways)


def carry(
    folder: Path, seed: int, figure: Any, count: int, ways: dict[str, Callable[..., Texts]]
) -> None:
    chance = Random(seed)
    texts = [random_amount(chance) for _ in range(count)]
    held = [text for text in texts if is_held(text)]
    refused = [text for text in texts if not is_held(text)]
    expected = {f"t-{number:06d}": plain(text) for number, text in enumerate(held)}
    store = stored(folder / "store", held)
    different = {name: unequal(expected, way(store, folder)) for name, way in ways.items()}
    check_refused(refused)
    check_report([text for text in held if Decimal(text) < SUMMABLE][:REPORT_ROWS])
    figure(
        f"exact: {count:,} amounts of up to 38 digits through JSON and {', '.join(ways)}: "
        f"{len(held):,} equal everywhere, {len(refused):,} refused by name, "
        f"{sum(different.values())} different"
    )
    assert not any(different.values()), different
    assert len(refused) > count // 20


def unequal(expected: Texts, found: Texts) -> int:
    return sum(found.get(key) != expected.get(key) for key in expected.keys() | found.keys())


def stored(folder: Path, texts: list[str]) -> Store:
    """A store of transfers with these amounts, from the pages of a service."""
    rows = [
        transfer(number, amount=text, total=text, created_at=moment(number // 4))
        for number, text in enumerate(texts)
    ]
    store = Store(folder)
    store.sync(Prepared(rows), tables=["transfers"])  # type: ignore[arg-type]
    return store


class Prepared(FakeService):
    """All its rows in the order they stand, without sorting them anew for each page."""

    def fetch_page(self, operation: str, params: Any) -> bytes:
        start = int(dict(params).get("page_cursor", "0"))
        end = start + PAGE_ROWS
        cursor = str(end) if end < len(self.transfers) else ""
        page = {"items": self.transfers[start:end], "next_page_cursor": cursor}
        return json.dumps(page).encode()


# ---------------------------------------------------------------------------- there


def by_parquet(store: Store, _: Path) -> Texts:
    """The store's own files, by pyarrow alone."""
    found: Texts = {}
    for path in (store.path / "transfers").glob("*.parquet"):
        table = pq.ParquetFile(path).read(columns=["id", "amount"])
        found |= texts_of(table)
    return found


def by_pandas(store: Store, _: Path) -> Texts:
    frame = store.read("transfers", columns=["id", "amount"])
    assert frame["amount"].dtype == fl.DecimalDtype()
    as_text = dict(zip(frame["id"], frame["amount"].astype("str"), strict=True))
    scalars = {key: f"{value:f}" for key, value in zip(frame["id"], frame["amount"], strict=True)}
    assert scalars == as_text
    return as_text


def by_duckdb(store: Store, _: Path) -> Texts:
    query = store.scan("transfers").select("id, CAST(amount AS VARCHAR)")
    return {key: plain(text) for key, text in query.fetchall()}


def by_csv(store: Store, folder: Path) -> Texts:
    path = written(store, folder, "csv")
    with path.open(encoding="utf-8", newline="") as file:
        found = {row["id"]: row["amount"] for row in csv.DictReader(file)}
    by_sql = duckdb.sql(f"SELECT id, amount FROM read_csv('{path}', all_varchar = true)")
    assert dict(by_sql.fetchall()) == found
    return found


def by_json(store: Store, folder: Path) -> Texts:
    rows = json.loads(written(store, folder, "json").read_text(encoding="utf-8"))
    return {row["id"]: row["amount"] for row in rows}


def by_exported_parquet(store: Store, folder: Path) -> Texts:
    path = written(store, folder, "parquet")
    by_sql = duckdb.sql(f"SELECT id, CAST(amount AS VARCHAR) FROM '{path}'").fetchall()
    found = texts_of(pq.ParquetFile(path).read(columns=["id", "amount"]))
    assert {key: plain(text) for key, text in by_sql} == found
    return found


def by_xlsx(store: Store, folder: Path) -> Texts:
    book = openpyxl.load_workbook(written(store, folder, "xlsx"), read_only=True)
    head, *rows = book.worksheets[0].iter_rows(values_only=True)
    assert head == ("id", "amount")
    book.close()
    return {str(key): text_of_cell(value) for key, value in rows}


def text_of_cell(value: Any) -> str:
    """A number in a sheet is a double: its shortest text."""
    return value if isinstance(value, str) else f"{Decimal(repr(value)):f}".removesuffix(".0")


def by_html(store: Store, _: Path) -> Texts:
    """What a notebook shows, as a browser would read it."""
    frame = store.read("transfers", columns=["id", "amount"])
    cells = Cells(fl.show(frame, rows=len(frame))._repr_html_()).found
    return {key: plain(text) for key, text in zip(cells[::2], cells[1::2], strict=True)}


class Cells(HTMLParser):
    """The texts of all cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag == "td":
            self.found.append("")
        self._inside = tag == "td" or (self._inside and tag == "abbr")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found[-1] += data


def back_again(store: Store, folder: Path) -> Texts:
    """From each file into a column of money, whose text is asked once more."""
    frame = fl.read_parquet(written(store, folder, "parquet"))
    table = pd.read_csv(written(store, folder, "csv"), dtype={"id": "str", "amount": "str"})
    again = pd.array(table["amount"], dtype="decimal")
    assert (again == frame["amount"].array).all()
    return dict(zip(frame["id"], again.astype("str"), strict=True))


def by_spark(store: Store, _: Path) -> Texts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        for name in ("host", "bindAddress"):
            builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
        session = builder.config("spark.pyspark.python", sys.executable).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        try:
            rows = store.scan("transfers", engine="spark", spark=session)
            return texts_of(rows.select("id", "amount").toArrow())
        finally:
            session.stop()


def texts_of(table: Any) -> Texts:
    pairs = zip(table.column("id").to_pylist(), table.column("amount").to_pylist(), strict=True)
    return {key: plain(f"{value:f}") for key, value in pairs}


def written(store: Store, folder: Path, format: str) -> Path:
    rows = store.read_arrow("transfers", columns=["id", "amount"])
    return exports.write_rows(rows, folder / f"amounts.{format}", format).path


WAYS: dict[str, Callable[..., Texts]] = {
    "Parquet": by_parquet,
    "pandas": by_pandas,
    "DuckDB": by_duckdb,
    "CSV": by_csv,
    "JSON again": by_json,
    "exported Parquet": by_exported_parquet,
    "XLSX": by_xlsx,
    "HTML": by_html,
    "and back": back_again,
}


# ---------------------------------------------------------------------------- refused


def check_refused(texts: list[str]) -> None:
    """Each stops its page, named: never rounded, never cut."""
    for text in texts:
        body = json.dumps({"items": [transfer(1), transfer(2, amount=text)]}).encode()
        with pytest.raises(DataError) as caught:
            tables.decode_page("transfers", body)
        assert (caught.value.field, caught.value.record) == ("amount", "t-000002")
        assert caught.value.value == text
        with pytest.raises(ValueError, match="digits"):
            Amount(text)


def check_report(texts: list[str]) -> None:
    """The page of a report shows every digit of what is still open."""
    rows = [withdrawal(n, amount=text, total=text, fee="0") for n, text in enumerate(texts)]
    page = tables.decode_page("transfers", json.dumps({"items": rows}).encode()).rows
    frame = tables.to_frame(page)
    none = tables.to_frame(tables.TABLES["balances"].schema.empty_table())
    built = reports.build(frame, none, title="Open", as_of="2026-04-01T00:00:00Z")
    cells = {plain(text) for text in Cells(reports.render_html(built)).found}
    assert {plain(text) for text in texts} <= cells
