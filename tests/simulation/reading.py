"""A store's rows and records as its files have them: by the newest manifest, with pyarrow alone.

Nothing of the program is asked, so that what it reads can be held against this.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

_MANIFEST: Final = re.compile(r"manifests/(\d{8})\.json$")
Row = dict[str, Any]


def rows_of_folder(folder: Path, columns: Iterable[str]) -> dict[str, Row]:
    """Of a store on this machine; none where nothing was published."""
    names = [f"manifests/{path.name}" for path in folder.glob("manifests/*.json")]
    return rows(names, lambda name: (folder / name).read_bytes(), columns)


def records_of_folder(folder: Path) -> list[Row]:
    """The records of a store on this machine, oldest first; none where nothing was published.
    Raises ``ValueError`` where one is not what was written, ``FileNotFoundError`` where it is
    not there."""
    manifests = sorted(folder.glob("manifests/????????.json"))
    name = json.loads(manifests[-1].read_bytes())["manifest"]["record"] if manifests else ""
    found: list[Row] = []
    while name:
        written = (folder / "records" / name).read_bytes()
        if hashlib.sha256(written).hexdigest()[:16] != name[9:25]:
            raise ValueError(f"{name} is not what was written")
        found.insert(0, json.loads(written))
        name = found[0]["previous"]
    return found


def rows(
    names: Iterable[str], read: Callable[[str], bytes], columns: Iterable[str]
) -> dict[str, Row]:
    """The newest version of each transfer, by its id: ``columns`` of it, times in ns. ``names`` are
    the files of a store, from its folder on, and ``read`` gives the bytes of one."""
    manifests = {int(found[1]): name for name in names if (found := _MANIFEST.search(name))}
    if not manifests:
        return {}
    manifest = json.loads(read(manifests[max(manifests)]))["manifest"]
    newest: dict[str, Row] = {}
    wanted = ["id", "updated_at", *columns]
    for name, *_ in manifest["files"].get("transfers", ()):
        table = pq.read_table(pa.BufferReader(read(f"transfers/{name}")))
        for row in _in_ns(table.select(list(dict.fromkeys(wanted)))).to_pylist():
            id_ = row.pop("id")
            before = newest.get(id_)
            # parts stand in the order in which they came, a base has the current version first
            if before is None or (
                row["updated_at"] >= before["updated_at"]
                if name.startswith("part-")
                else row["updated_at"] > before["updated_at"]
            ):
                newest[id_] = row
    return newest


def _in_ns(table: pa.Table) -> pa.Table:
    at = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    for name in at:
        number = table.column_names.index(name)
        table = table.set_column(number, name, table[name].cast(pa.int64()))
    return table
