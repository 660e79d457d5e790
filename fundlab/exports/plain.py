"""CSV, JSON and Parquet, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.progress import progress_bar
from fundlab.exports.cells import as_text, exactly, harmless, is_text
from fundlab.tables import TABLES

BLOCK: Final = 65_536
GROUP: Final = 2**20
"""The rows of a row group in Parquet."""
_TABLE_NAME: Final = b"fundlab.table"


def write_csv(rows: pa.Table, path: Path) -> None:
    """UTF-8, comma, ``\\n``; text is always quoted, missing values are empty and unquoted, or, in
    the only column, where a row would be an empty line that readers skip, quoted.

    Text that a spreadsheet would run has an apostrophe before it (see ``cells.harmless``).

    >>> rows = store.read_arrow("transfers", columns=["status", "total"])
    >>> fl.exports.write_csv(rows, folder / "totals.csv")
    >>> (folder / "totals.csv").read_text(encoding="utf-8").splitlines()[0]
    '"status","total"'
    """
    # Neither a name nor a text is run by a spreadsheet.
    names = harmless(pa.chunked_array([rows.column_names], pa.string())).to_pylist()
    schema = pa.schema([pa.field(name, pa.string()) for name in names])
    options = pa.csv.WriteOptions(quoting_style="needed")
    with pa.csv.CSVWriter(path, schema, write_options=options) as file:
        for block in blocks(rows, "writing the CSV file"):
            columns = []
            for name, column in zip(block.column_names, block.columns, strict=True):
                texts = as_text(column, name)
                if is_text(_held(column.type)):
                    texts = harmless(texts)
                columns.append(texts if len(names) > 1 else texts.fill_null(""))
            file.write_table(pa.Table.from_arrays(columns, schema=schema))


def write_json(rows: pa.Table, path: Path) -> None:
    """One array of objects, one to a line. Amounts and times are text, missing values null.

    Objects of the interface (metadata and the like) stand as they were sent.
    """
    table = TABLES.get((rows.schema.metadata or {}).get(_TABLE_NAME, b"").decode())
    objects = set() if table is None else {column.name for column in table.of_kind("json")}
    encoder = msgspec.json.Encoder()
    first = True
    with path.open("wb") as file:
        file.write(b"[")
        for block in blocks(rows, "writing the JSON file"):
            columns: list[list[Any]] = []
            for name, column in zip(block.column_names, block.columns, strict=True):
                kind = _held(column.type)
                if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
                    columns.append(column.to_pylist())
                    continue
                texts = as_text(column, name).to_pylist()
                columns.append(list(map(verbatim, texts)) if name in objects else texts)
            for row in zip(*columns, strict=True):
                file.write(b"\n" if first else b",\n")
                file.write(encoder.encode(dict(zip(block.column_names, row, strict=True))))
                first = False
        file.write(b"\n]\n" if not first else b"]\n")


def verbatim(text: str | None) -> msgspec.Raw | str | None:
    """JSON as it stands, without a number in it becoming a float; text that is none, or nested
    deeper than can be looked into, stays text."""
    if text is None:
        return None
    raw = text.encode()
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return text
    return msgspec.Raw(raw)


def write_parquet(rows: pa.Table, path: Path) -> None:
    """Plain Arrow types, amounts as ``decimal128(38, 18)``; pages carry checksums."""
    for position, field in enumerate(rows.schema):
        column = rows.column(position)
        as_text(column.slice(0, 0), field.name)  # refuses what has no exact text
        if pa.types.is_decimal(_held(field.type)):
            exact = exactly(column, field.name, AMOUNT_TYPE)
            rows = rows.set_column(position, field.with_type(AMOUNT_TYPE), exact)
    options: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
    with pq.ParquetWriter(path, rows.schema, **options) as file:
        for block in blocks(rows, "writing the Parquet file", GROUP):
            file.write_table(block)


def _held(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, as categories or not."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def blocks(rows: pa.Table, doing: str, size: int = BLOCK) -> Iterator[pa.Table]:
    """``rows`` so many at a time, with a progress bar where that is more than once."""
    starts = range(0, rows.num_rows, size) or [0]
    with progress_bar(rows.num_rows, desc=doing) if len(starts) > 1 else nullcontext() as bar:
        for start in starts:
            block = rows.slice(start, size)
            yield block
            if bar is not None:
                bar.update(block.num_rows)
