"""Tables as files that other programs open safely: CSV, XLSX, Parquet and JSON.

No amount is rounded or written with an exponent, every time names its zone, and no text from
outside can become a formula. A file is written under another name first, then renamed.

``export_table`` takes one table of a store, ``write_rows`` any frame; ``workbook.py`` writes
the workbook of :class:`Sheet`, ``cells.py`` says how each kind of column becomes text.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pandas as pd
import pyarrow as pa

from fundlab.base.arrow import without_views
from fundlab.base.errors import InvalidRequest, a_type
from fundlab.base.paths import local_path, opened
from fundlab.exports.files import replacing, writing
from fundlab.exports.plain import write_csv, write_json, write_parquet
from fundlab.exports.sheets import Sheet
from fundlab.exports.workbook import MAX_SHEET_ROWS, write_workbook
from fundlab.tables import find_table

if TYPE_CHECKING:
    from fundlab.evidence.table_store import TableStore

__all__ = [
    "FORMATS",
    "MAX_SHEET_ROWS",
    "Export",
    "Sheet",
    "export_table",
    "names_another",
    "replacing",
    "write_csv",
    "write_rows",
    "write_workbook",
    "writing",
]
__dir__ = __all__.copy  # what completion offers

Format = Literal["csv", "xlsx", "parquet", "json"]
Writer = Callable[[pa.Table, Path], None]
Moment = str | datetime

_PLAIN: Final[Mapping[str, Writer]] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "json": write_json,
}
FORMATS: Final = (*_PLAIN, "xlsx")


@dataclass(frozen=True)
class Export:
    """What was written. ``notes`` are what a reader of the file should know, if anything.

    >>> fl.exports.write_rows(transfers[["id"]], folder / "ids.json", "json").rows
    5
    """

    path: Path
    format: str
    rows: int
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "format": self.format,
            "rows": self.rows,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join([f"{self.rows:,} rows in {self.path}", *self.notes])


def export_table(
    store: TableStore,
    table: str,
    path: str | os.PathLike[str],
    format: str,
    *,
    as_of: Moment | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> Export:
    """One table of a store as a file, in the order of ``store.read``, with all its columns.

    ``as_of``, ``since`` (included) and ``until`` (excluded) as there. The same rows give the same
    bytes; an earlier file is replaced in one step. Raises ``InvalidRequest`` for a table or format
    that does not exist, and for what is not a store.

    >>> done = fl.exports.export_table(store, "transfers", folder / "transfers.xlsx", "xlsx")
    >>> done.rows, done.path.name
    (50, 'transfers.xlsx')
    """
    described = find_table(table)
    _checked(format)
    rows = described.in_order(opened(store).read_arrow(table, as_of, since=since, until=until))
    return write_rows(rows, path, format, name=described.name)


def write_rows(
    rows: pa.Table | pd.DataFrame,
    path: str | os.PathLike[str],
    format: str,
    *,
    name: str = "rows",
) -> Export:
    """``rows`` as a file of ``format``: ``csv``, ``xlsx``, ``parquet`` or ``json``.

    An Arrow table, or a DataFrame without its index. Columns of text, exact decimals, times with a
    zone, days, durations, flags and whole numbers; any other kind, a name that two columns have,
    and a path that ends like another format, are refused with ``InvalidRequest``. In a workbook
    ``name`` becomes the sheet's.

    >>> done = fl.exports.write_rows(transfers[["id", "total"]], folder / "october.csv", "csv")
    >>> done.path.read_text(encoding="utf-8").splitlines()[:3]
    ['"id","total"', '"t1","1000"', '"t2","225"']
    """
    target = local_path(path)
    if not isinstance(rows, pd.DataFrame | pa.Table):
        library = type(rows).__module__.partition(".")[0]
        raise InvalidRequest(
            f"rows is {a_type(rows)} of {library}; give an Arrow table or a pandas DataFrame"
        )
    if not isinstance(name, str):
        raise InvalidRequest(f"name is {a_type(name)}; give the name of the sheet as text")
    names = rows.columns if isinstance(rows, pd.DataFrame) else rows.column_names
    for column, times in Counter(map(str, names)).most_common(1):
        if times > 1:
            raise InvalidRequest(f"column {column!r} is there {times} times: name each column once")
    if isinstance(rows, pd.DataFrame):
        try:
            rows = pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata()
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise InvalidRequest(f"rows: {'; '.join(map(str, error.args))}") from None
        except UnicodeEncodeError:
            raise InvalidRequest("rows: a text holds half a character, which no file can") from None
    rows = without_views(rows)
    if names_another(target, _checked(format)):
        raise InvalidRequest(
            f"path={str(path)!r} names another format than {format!r}: change one of the two"
        )
    notes: tuple[str, ...] = ()
    with replacing(target) as unfinished:
        if format == "xlsx":
            notes = write_workbook([Sheet(name, rows)], unfinished)
        else:
            _PLAIN[format](rows, unfinished)
    return Export(target, format, rows.num_rows, notes)


def names_another(path: Path, format: str) -> bool:
    """Whether ``path`` ends like a file of another format than ``format``.

    >>> fl.exports.names_another(folder / "october.xlsx", "csv")
    True
    """
    return path.suffix.lower() in {f".{name}" for name in FORMATS if name != format}


def _checked(format: str) -> str:
    if format not in FORMATS:
        raise InvalidRequest(f"format {format!r} is unknown; there are {', '.join(FORMATS)}")
    return format
