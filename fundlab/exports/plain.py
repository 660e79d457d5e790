"""CSV, JSON and Parquet, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from fundlab.exports.cells import as_text, harmless, is_text
from fundlab.tables import TABLES

BLOCK: Final = 65_536
_TABLE_NAME: Final = b"fundlab.table"


def write_csv(rows: pa.Table, path: Path) -> None:
    """UTF-8, comma, ``\\n``; text is always quoted, missing values are empty and unquoted.

    Text that a spreadsheet would run has an apostrophe before it (see ``cells.harmless``).

    >>> rows = store.read_arrow("transfers", columns=["status", "total"])
    >>> fl.exports.write_csv(rows, folder / "totals.csv")
    >>> (folder / "totals.csv").read_text(encoding="utf-8").splitlines()[0]
    '"status","total"'
    """
    schema = pa.schema([pa.field(name, pa.string()) for name in rows.column_names])
    options = pa.csv.WriteOptions(quoting_style="needed")
    with pa.csv.CSVWriter(path, _headed(schema), write_options=options) as file:
        for block in _blocks(rows):
            columns = [_csv_column(block, name) for name in block.column_names]
            file.write_table(pa.Table.from_arrays(columns, schema=_headed(schema)))


def write_json(rows: pa.Table, path: Path) -> None:
    """One array of objects, one to a line. Amounts and times are text, missing values null.

    Objects of the interface (metadata and the like) stand as they were sent.
    """
    objects = _object_columns(rows.schema)
    encoder = msgspec.json.Encoder()
    first = True
    with path.open("wb") as file:
        file.write(b"[")
        for block in _blocks(rows):
            values = [_json_values(block, name, name in objects) for name in block.column_names]
            for row in zip(*values, strict=True):
                file.write(b"\n" if first else b",\n")
                file.write(encoder.encode(dict(zip(block.column_names, row, strict=True))))
                first = False
        file.write(b"\n]\n" if not first else b"]\n")


def write_parquet(rows: pa.Table, path: Path) -> None:
    """Plain Arrow types, amounts as ``decimal128(38, 18)``; pages carry checksums."""
    pq.write_table(rows, path, compression="zstd", write_page_checksum=True)


def _headed(schema: pa.Schema) -> pa.Schema:
    """``schema`` under names that a spreadsheet does not run."""
    names = harmless(pa.chunked_array([schema.names], pa.string())).to_pylist()
    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])


def _blocks(rows: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, rows.num_rows, BLOCK):
        yield rows.slice(start, BLOCK)


def _csv_column(block: pa.Table, name: str) -> pa.ChunkedArray:
    column = block.column(name)
    texts = as_text(column, name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return harmless(texts) if is_text(kind) else texts


def _json_values(block: pa.Table, name: str, is_object: bool) -> list[Any]:
    column = block.column(name)
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        values: list[Any] = column.to_pylist()
        return values
    texts: list[Any] = as_text(column, name).to_pylist()
    return [None if text is None else _verbatim(text) for text in texts] if is_object else texts


def _verbatim(text: str) -> msgspec.Raw | str:
    """JSON as it stands, without a number in it becoming a float; text that is none, or nested
    deeper than can be looked into, stays text."""
    raw = text.encode()
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return text
    return msgspec.Raw(raw)


def _object_columns(schema: pa.Schema) -> frozenset[str]:
    name = (schema.metadata or {}).get(_TABLE_NAME, b"").decode()
    table = TABLES.get(name)
    return frozenset() if table is None else frozenset(c.name for c in table.of_kind("json"))
