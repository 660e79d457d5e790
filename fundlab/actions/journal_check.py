"""Whether journals are intact: the files, and every intent in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fundlab.actions.intents import FOLDER, Pages, journal_files, name_of
from fundlab.actions.journal_file import about_of, opened
from fundlab.errors import StoreError
from fundlab.settings import journal_folder
from fundlab.store import Store

_WITHOUT_EVENT: Final = (
    "SELECT number FROM intents WHERE number NOT IN (SELECT intent FROM events) ORDER BY number"
)


def damaged_journals(store: Store) -> Iterator[tuple[Path, str]]:
    """Each journal with payments of ``store``'s service that is not intact, and why.

    Those that earlier versions kept in the store, and the user's own.
    """
    paths = journal_files(store.path / FOLDER) if isinstance(store.path, Path) else []
    try:
        service = store.service()
    except StoreError:
        service = None  # a damaged store does not say whose it is; verify names that
    if service is not None:
        begin = name_of(service)
        paths += [path for path in journal_files(journal_folder()) if path.name.startswith(begin)]
    for path in paths:
        try:
            wrong = _first_fault(path)
        except StoreError as error:
            wrong = str(error)
        if wrong is not None:
            yield path, wrong


def _first_fault(path: Path) -> str | None:
    with opened(path) as database:
        (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            return str(found)
        about_of(path)
        loose = database.execute("PRAGMA foreign_key_check").fetchone()
        if loose is not None:
            return f"row {loose[1]} of {loose[0]} belongs to no intent"
        without = database.execute(_WITHOUT_EVENT).fetchone()
        if without is not None:
            return f"nothing is noted of intent {without[0]}"
        Pages(database, path).intents()  # checks each against its hash
    return None
