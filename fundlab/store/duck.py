"""DuckDB connections of our own: a limit to their memory, and a private folder to spill into."""

from __future__ import annotations

import atexit
import os
import shutil
import uuid
from multiprocessing.util import Finalize
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final

from fundlab.base.errors import InvalidRequest

if TYPE_CHECKING:
    import duckdb

_SHARE: Final = 0.5 / 0.8  # DuckDB's own limit is 80 % of what there is


def own_connection(memory_limit: str | None = None) -> duckdb.DuckDBPyConnection:
    """A new connection in memory. ``memory_limit`` is a size such as ``"2GB"``, beyond which it
    spills to disk; by default half of what the machine or container has. Its time zone is UTC. It
    stays open for as long as a relation of it is used.

    Raises ``InvalidRequest`` for a limit that is not a size.
    """
    import duckdb  # here, not above: 27 MB and 40 ms that a sync has no use for

    # A place of its own for each; DuckDB makes it when it is needed, and removes it.
    spill = _private_folder() / uuid.uuid4().hex
    connection = duckdb.connect(config={"temp_directory": str(spill)})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    try:
        size = str(memory_limit)
        if memory_limit is None:
            ((found,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
            number, unit = str(found).split()
            size = f"{float(number) * _SHARE:.1f}{unit}"
        # DuckDB takes -1 for no limit at all; and it refuses what has no unit.
        connection.execute("SET memory_limit = ?", [size if size[:1].isdigit() else ""])
    except duckdb.Error as error:
        connection.close()
        raise InvalidRequest(
            f"memory_limit={memory_limit!r} is not a valid size; give one such as '2GB'"
        ) from error
    return connection


def shared_connection() -> duckdb.DuckDBPyConnection:
    """A connection to the database that all in-memory frames of this process are computed in:
    a hundredth of the time that one of their own takes to start."""
    # One for each process: a fork inherits the memory of a database, but not its threads. And
    # another one where a cleaner of temporary files took the folder that it spills into.
    process, folder = os.getpid(), _private_folder()
    shared = _databases.get((process, folder))
    if shared is None:
        shared = _databases[process, folder] = own_connection()
        atexit.register(lambda made: made.close() if os.getpid() == process else None, shared)
    return shared.cursor()


def _private_folder() -> Path:
    """Nobody else may look into it; removed when its process ends, not when a fork of it does. A
    new one where a cleaner of temporary files took it."""
    process = os.getpid()
    folder = _folders.get(process)
    if folder is None or not folder.is_dir() or folder.stat().st_uid != os.geteuid():
        made = folder = _folders[process] = Path(mkdtemp(prefix="fundlab-"))

        def remove() -> None:
            if os.getpid() == process:
                shutil.rmtree(made, ignore_errors=True)

        Finalize(None, remove, exitpriority=0)  # also where a fork of Python's ends
    return folder


_folders: dict[int, Path] = {}
_databases: dict[tuple[int, Path], duckdb.DuckDBPyConnection] = {}
