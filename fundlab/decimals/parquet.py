"""Reading the type back from Parquet, whose files hold plain Arrow decimals."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fundlab.decimals.array import types_mapper


def read_parquet(
    path: str | PathLike[str] | IO[bytes], columns: list[str] | None = None
) -> pd.DataFrame:
    """A Parquet file, or a folder of them, as a DataFrame, its decimals as the type `decimal`.

    `path` may be an open binary file too. Decimals with more than 20 digits before the point or 18
    after it stay as Arrow gives them. `columns` reads these only, beside the index that pandas
    stored. Raises FileNotFoundError, ValueError for a column that is not there, and
    pyarrow.ArrowInvalid for a file that is not Parquet.

    >>> read_parquet("transfers.parquet")["amount"].dtype  # doctest: +SKIP
    DecimalDtype()
    """
    if isinstance(columns, str):
        raise TypeError(f"columns={columns!r}: expected a list of names, such as [{columns!r}]")
    if isinstance(path, str | PathLike) and Path(path).is_dir():
        dataset = pq.ParquetDataset(path)
        table = _read(dataset, dataset.schema, columns)
    else:
        try:
            file = pq.ParquetFile(path)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(
                f"{path} cannot be read as Parquet: {error} A CSV file is read by "
                "pd.read_csv(path, dtype={'amount': 'decimal'})."
            ) from None
        with file:
            table = _read(file, file.schema_arrow, columns)
    frame: pd.DataFrame = table.to_pandas(types_mapper=types_mapper)
    return frame


def _read(source: Any, schema: pa.Schema, columns: list[str] | None) -> pa.Table:
    columns = None if columns is None else [*columns]
    for name in columns or []:
        if name not in schema.names:
            raise ValueError(f"columns: {name!r} is not in the file, which has {schema.names}")
    return source.read(columns=columns, use_pandas_metadata=True)
