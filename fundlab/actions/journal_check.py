"""Whether the journals of a store are whole: the files, and every intent in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fundlab.actions.intents import Pages, journal_files
from fundlab.actions.journal_file import about_of, opened
from fundlab.errors import StoreError

_WITHOUT_EVENT: Final = (
    "SELECT number FROM intents WHERE number NOT IN (SELECT intent FROM events) ORDER BY number"
)


def damaged_journals(store: Path) -> Iterator[tuple[Path, str]]:
    """Each journal in the folder ``store`` that is not whole, and the first thing wrong with it."""
    for path in journal_files(store):
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
