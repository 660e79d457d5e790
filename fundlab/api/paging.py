"""Walking the pages of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from fundlab.errors import ProtocolError, shorten

Page = TypeVar("Page")


def follow(
    fetch: Callable[[str | None], Page],
    cursor_of: Callable[[Page], str | None],
    *,
    operation: str,
) -> Iterator[Page]:
    """Every page from the first (cursor ``None``) to the one whose cursor is empty or absent.

    A page without rows but with a cursor goes on. Raises ``ProtocolError`` when a cursor comes
    back: the walk would be endless, and rows may be missing.
    """
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        page = fetch(cursor)
        yield page
        cursor = cursor_of(page)
        if not cursor:
            return
        if cursor in seen:
            raise ProtocolError(
                f"{operation}: page {len(seen) + 1} repeats the cursor {shorten(cursor)} of an "
                "earlier page; stopped rather than going in circles",
                hint="rows may be missing: ask again with another page_size, or from page_cursor; "
                "if it stays, show it to the operator of the service",
                operation=operation,
            )
        seen.add(cursor)
