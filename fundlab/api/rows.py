"""The rows of a list operation, page after page, as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import Any, Generic, TypeVar

from fundlab.api.filters import Asked, warn_of_filters
from fundlab.api.paging import Walk
from fundlab.models import Query, Resource
from fundlab.values import Instant

Row = TypeVar("Row", bound=Resource)
Fetch = Callable[[Query, str | None, int], tuple[list[Row], str | None]]
"""From a query, a cursor and the page's number: its rows, and the cursor of the next one."""


class Rows(Iterator[Row], Generic[Row]):
    """Lazily every row of a list: nothing is sent before the first ``next()``.

    ``repeated`` counts rows that came again on a later page and were dropped, ``unasked`` those
    that did not meet the filters (a service may not honour each of them), ``pages`` the answers.
    Raises ``ProtocolError`` when a cursor comes back, or when pages without a new row do not end.
    """

    def __init__(self, asked: Asked, fetch: Fetch[Row], max_rows: int | None) -> None:
        self.operation, self.pages, self.repeated, self.unasked = asked.label, 0, 0, 0
        self._fetch = fetch
        self._given: set[str] = set()
        self._warned: set[str] = set()
        self._rows = islice(self._in_order(asked.parts()), max_rows)

    def __next__(self) -> Row:
        return next(self._rows)

    def __repr__(self) -> str:
        made = vars(self)
        return f"<Rows of {made.get('operation')}: {made.get('pages', 0)} pages so far>"

    def _in_order(self, parts: list[Asked]) -> Iterator[Row]:
        """The rows of all ``parts``, as one list would give them."""
        if not parts:
            return iter(())
        query = parts[0].query
        time = getattr(query, "order_by", "CREATED_AT").lower()
        return merge(
            *map(self._walk, parts),
            key=lambda row: _shown(row, time) or 0,
            reverse=query.order == "DESC",
        )

    def _walk(self, asked: Asked) -> Iterator[Row]:
        walk, seen = Walk(self.operation), set[str]()
        while not walk.ended:
            rows, cursor = self._fetch(asked.query, walk.cursor, self.pages + 1)
            self.pages += 1
            known = len(seen)
            for row in rows:
                id_: str = getattr(row, "id")  # noqa: B009 - every listed row has one
                if id_ in seen:
                    self.repeated += 1
                elif self._belongs(row, asked) and id_ not in self._given:
                    self._given.add(id_)
                    yield row
                seen.add(id_)
            walk.count(len(rows), new=len(seen) > known)
            walk.follow(cursor)

    def _belongs(self, row: Row, asked: Asked) -> bool:
        verdicts = [(check, check.verdict(_shown(row, check.member))) for check in asked.checks]
        failed = {check.name for check, met in verdicts if met is False}
        if failed:
            self.unasked += 1
            self._warn_once(ignored=failed & asked.sent.keys())
        else:
            self._warn_once(unchecked={c.name for c, met in verdicts if c.shown and met is None})
        return not failed

    def _warn_once(self, **names: set[str]) -> None:
        if any(names.values()) and not names.keys() <= self._warned:
            self._warned |= names.keys()
            warn_of_filters(self.operation, **names, stacklevel=6)  # where next() is called


def _shown(row: Resource, member: str) -> Any:
    """What ``row`` holds, as a ``Check`` takes it."""
    found = getattr(row, member, None)
    if isinstance(found, Instant):
        return found.ns
    if isinstance(found, Mapping):  # a secondary status
        name = found.get("name")
        return name if isinstance(name, str) else None
    return found
