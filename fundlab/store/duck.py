"""DuckDB connections of our own: a limit to their memory, and a private folder to spill into."""

from __future__ import annotations

import atexit
import os
import shutil
import uuid
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import duckdb

from fundlab.errors import InvalidRequest

_SHARE: Final = 0.5 / 0.8  # DuckDB's own limit is 80 % of what there is


def own_connection(memory_limit: str | None = None) -> duckdb.DuckDBPyConnection:
    """A new connection in memory. ``memory_limit`` is a size such as ``"2GB"``, beyond which it
    spills to disk; by default half of what the machine or container has. Its time zone is UTC.

    Raises ``InvalidRequest`` for a limit that is not a size.
    """
    connection = duckdb.connect(config={"temp_directory": str(_spill_folder())})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    try:
        connection.execute("SET memory_limit = ?", [_size(connection, memory_limit)])
    except (ValueError, duckdb.Error) as error:
        connection.close()
        raise InvalidRequest(
            f"memory_limit={memory_limit!r} is not a valid size; give one such as '2GB'"
        ) from error
    return connection


def shared_connection() -> duckdb.DuckDBPyConnection:
    """A connection to the database that all in-memory frames of this process are computed in:
    a hundredth of the time that one of their own takes to start."""
    return _database(os.getpid(), _private_folder()).cursor()


@cache
def _database(process: int, _: Path) -> duckdb.DuckDBPyConnection:
    """One for each process: a fork inherits the memory of a database, but not its threads. And
    another one where a cleaner of temporary files took the folder that it spills into."""
    connection = own_connection()
    atexit.register(_close, connection, process)
    return connection


def _close(connection: duckdb.DuckDBPyConnection, process: int) -> None:
    if os.getpid() == process:
        connection.close()


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
    return _private_folder() / uuid.uuid4().hex


def _private_folder() -> Path:
    folder = _process_folder(os.getpid())
    if not folder.is_dir() or folder.stat().st_uid != os.geteuid():  # a cleaner took it
        _process_folder.cache_clear()
        folder = _process_folder(os.getpid())
    return folder


@cache
def _process_folder(process: int) -> Path:
    """Nobody else may look into it; removed when its process ends, not when a fork of it does."""
    folder = Path(mkdtemp(prefix="fundlab-"))
    Finalize(None, _remove, (folder, process), exitpriority=0)  # also where a fork of Python's ends
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
