"""DuckDB connections of our own: a limit to their memory, and a private folder to spill into."""

from __future__ import annotations

import uuid
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb

from fundlab.errors import InvalidRequest

_SHARE: Final = 0.5 / 0.8  # DuckDB's own limit is 80 % of what there is


def own_connection(memory_limit: str | None = None) -> duckdb.DuckDBPyConnection:
    """A new connection in memory. ``memory_limit`` is a size such as ``"2GB"``, beyond which it
    spills to disk; by default half of what the machine or container has.

    Raises ``InvalidRequest`` for a limit that is no size.
    """
    connection = duckdb.connect(config={"temp_directory": str(_spill_folder())})
    try:
        connection.execute("SET memory_limit = ?", [_size(connection, memory_limit)])
    except (ValueError, duckdb.Error) as error:
        connection.close()
        raise InvalidRequest(
            f"memory_limit={memory_limit!r} is no size; give one such as '2GB'"
        ) from error
    return connection


def _size(connection: duckdb.DuckDBPyConnection, memory_limit: str | None) -> str:
    if memory_limit is None:
        ((found,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
        number, unit = str(found).split()
        return f"{float(number) * _SHARE:.1f}{unit}"
    if not str(memory_limit)[:1].isdigit():  # DuckDB takes -1 for no limit at all
        raise ValueError(memory_limit)
    return str(memory_limit)


def _spill_folder() -> Path:
    """A place of its own for one connection; DuckDB makes it when it is needed, and removes it."""
    return Path(_process_folder().name) / uuid.uuid4().hex


@cache
def _process_folder() -> TemporaryDirectory[str]:
    """Nobody else may look into it; removed when the process ends."""
    return TemporaryDirectory(prefix="fundlab-")
