"""The rows of a list operation, page after page, as they are asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from fundlab.api.paging import follow
from fundlab.errors import ProtocolError, UnheededFilterWarning
from fundlab.models import CryptoDestinationAddress, Query, Resource

Row = TypeVar("Row", bound=Resource)

_MAX_IDLE_PAGES: Final = 1000
_MEMBERSHIP: Final = {
    "ids": "id",
    "ref_ids": "ref_id",
    "profile_ids": "profile_id",
    "identity_ids": "identity_id",
    "account_ids": "account_id",
    "group_ids": "group_id",
    "crypto_tx_hashes": "crypto_tx_hash",
    "crypto_networks": "crypto_network",
    "type": "type",
    "statuses": "status",
}
"""Filters by list of values, and the field each one filters."""
_SPOKEN: Final = {"addresses": "address", "nicknames": "nickname"}
"""Likewise, but a service may take upper and lower case for the same."""
_COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "lt": lambda found, bound: found < bound,
    "lte": lambda found, bound: found <= bound,
    "eq": lambda found, bound: found == bound,
    "gte": lambda found, bound: found >= bound,
    "gt": lambda found, bound: found > bound,
}
_SPELLINGS: Final = {"COMPLETE": "COMPLETED"}


class Rows(Iterator[Row], Generic[Row]):
    """Lazily every row of a list: nothing is sent before the first ``next()``.

    ``repeated`` counts rows that came again on a later page and were dropped, ``unasked`` those
    that did not meet the filters (a service may not honour each of them), ``pages`` the answers.
    Raises ``ProtocolError`` when a cursor comes back, or when 1000 pages bring no new row.
    """

    def __init__(
        self,
        operation: str,
        query: Query,
        fetch: Callable[[str | None, int], tuple[list[Row], str | None]],
        max_rows: int | None,
    ) -> None:
        self.operation, self.pages, self.repeated, self.unasked = operation, 0, 0, 0
        self._fetch, self._query, self._idle = fetch, query, 0
        self._rows = islice(self._walk(), max_rows)

    def __next__(self) -> Row:
        return next(self._rows)

    def __repr__(self) -> str:
        return f"<Rows of {self.operation}: {self.pages} pages so far>"

    def _walk(self) -> Iterator[Row]:
        seen: set[str] = set()
        for rows, _ in follow(self._page, lambda page: page[1], operation=self.operation):
            known = len(seen)
            for row in rows:
                if (id_ := getattr(row, "id")) in seen:  # noqa: B009 - every listed row has one
                    self.repeated += 1
                elif not meets(row, self._query):
                    self._count_unasked()
                else:
                    yield row
                seen.add(id_)
            self._count_idle(len(seen) - known)

    def _page(self, cursor: str | None) -> tuple[list[Row], str | None]:
        page = self._fetch(cursor, self.pages + 1)
        self.pages += 1
        return page

    def _count_idle(self, new_rows: int) -> None:
        self._idle = 0 if new_rows else self._idle + 1
        if self._idle > _MAX_IDLE_PAGES:
            raise ProtocolError(
                f"{self.operation}: {self._idle} pages in succession without a new row, and no end",
                hint="narrow the filters, or show it to the operator of the service",
                operation=self.operation,
            )

    def _count_unasked(self) -> None:
        if not self.unasked:
            warnings.warn(
                f"{self.operation}: the service sent rows that a filter excludes; they are left "
                "out here",
                UnheededFilterWarning,
                stacklevel=4,
            )
        self.unasked += 1


def meets(row: Resource, query: Query) -> bool:
    """Whether ``row`` is what ``query`` asks for, as far as its own fields tell."""
    return all(_meets(row, name, asked) for name, asked in query if asked is not None)


def _meets(row: Resource, name: str, asked: Any) -> bool:
    if name in _MEMBERSHIP:
        found = getattr(row, _MEMBERSHIP[name], None)
        if found is None and name == "identity_ids" and isinstance(row, CryptoDestinationAddress):
            return True  # §2.8 shows no identity
        return _is_one_of(found, asked if isinstance(asked, list) else [asked])
    if name in _SPOKEN:
        spoken = str(getattr(row, _SPOKEN[name], None)).casefold()
        return spoken in {text.casefold() for text in asked}
    if name == "secondary_statuses":
        return (getattr(row, "secondary_status", None) or {}).get("name") in asked
    if name == "bookmarked_status":
        return getattr(row, "bookmarked", None) is asked
    return _is_in_range(row, name, asked)


def _is_one_of(found: Any, wanted: list[Any]) -> bool:
    return found in wanted or _SPELLINGS.get(str(found)) in wanted


def _is_in_range(row: Resource, name: str, asked: Any) -> bool:
    field, _, comparison = name.rpartition("_")
    if comparison not in _COMPARISONS or field not in ("created_at", "updated_at"):
        return True
    found = getattr(row, field, None)
    return found is not None and _COMPARISONS[comparison](found.ns, asked.ns)
