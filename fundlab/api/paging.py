"""Walking the pages of a list to its end, whatever represents a page."""

from __future__ import annotations

from typing import Final

from fundlab.errors import ProtocolError, shorten

MAX_EMPTY_PAGES: Final = 1000
"""In succession, each with a cursor: a service that filters late may send many."""
MAX_REPEATED_PAGES: Final = 20
"""In succession, of rows that came before: a page may come twice, but not for ever."""
_HINT: Final = (
    "rows may be missing: ask again with another page size or narrower filters; if it stays, show "
    "it to the operator of the service"
)


class Walk:
    """How far the walk over one list has come: ``cursor`` is the next page's, ``None`` the first.

    ``follow`` is called with the cursor in each page, ``count`` with what its rows are: they may be
    read in different threads. Both raise ``ProtocolError`` where the walk would not end.
    """

    def __init__(self, label: str) -> None:
        self.cursor: str | None = None
        self.ended = False
        self._label = label
        self._cursors: set[str] = set()
        self._empty = self._repeated = 0

    def follow(self, cursor: str | None) -> None:
        """Go on to the page of ``cursor``; the end of the list is an empty one or none."""
        if cursor and cursor in self._cursors:
            raise self._endless(
                f"page {len(self._cursors) + 1} repeats the cursor {shorten(cursor)} of an earlier "
                "page; stopped rather than going in circles"
            )
        self.cursor, self.ended = cursor, not cursor
        self._cursors.add(cursor or "")

    def count(self, rows: int, *, new: bool) -> None:
        """Note a page of so many ``rows``, and whether one of them had not come before."""
        if new:
            self._empty = self._repeated = 0
        elif rows:
            self._repeated += 1
        else:
            self._empty += 1
        if self._repeated > MAX_REPEATED_PAGES:
            raise self._endless(
                f"{self._repeated} pages in succession without a new row, and no end: the service "
                "seems to ignore page_cursor"
            )
        if self._empty > MAX_EMPTY_PAGES:
            raise self._endless(f"{self._empty} pages in succession without rows, and no end")

    def _endless(self, problem: str) -> ProtocolError:
        return ProtocolError(f"{self._label}: {problem}", hint=_HINT, operation=self._label)
