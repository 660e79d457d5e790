"""What a sync asks for: the rows of a table that may have changed since the last one.

Transfers by ``updated_at`` where the service honours it, else by ``created_at``, with every open
transfer again by id; events and addresses by ``created_at``; the short lists in full. Watermarks
are the service's own times, never this machine's, and each is stepped back by the overlap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.errors import ValidationFailed
from fundlab.load.loaders import fetch
from fundlab.load.stream import Asked, PageSource, warn_unheeded
from fundlab.models import MAX_FILTER_ENTRIES
from fundlab.store.parts import Publication
from fundlab.tables.decode import decode_page
from fundlab.tables.schema import Table
from fundlab.values import Instant

OVERLAP_NS: Final = 15 * 60 * 1_000_000_000
FINAL_STATUSES: Final = ("COMPLETED", "COMPLETE", "FAILED")  # the second: §2.4, the note
SHORT_LISTS: Final = ("fiat_accounts", "deposit_instructions")

log = logging.getLogger(__name__)

Step = Callable[[int], object]


@dataclass(frozen=True)
class Watermark:
    """The newest row known when a fetch began: its time (ns) and its id."""

    at: int
    id: str

    @property
    def bound(self) -> Instant:
        return Instant.from_ns(self.at - OVERLAP_NS)

    def to_json(self) -> dict[str, str]:
        return {"at": str(Instant.from_ns(self.at)), "id": self.id}

    @classmethod
    def from_json(cls, found: Mapping[str, str]) -> Self:
        return cls(Instant.parse(found["at"]).ns, found["id"])


@dataclass(frozen=True)
class Known:
    """How far a table is known: since when rows are covered (ns, ``None``: all) and up to where."""

    covered: bool = False
    since: int | None = None
    created: Watermark | None = None
    updated: Watermark | None = None

    @classmethod
    def of(cls, publication: Publication | None) -> Self:
        if publication is None:
            return cls()
        found, since = publication.watermark, publication.query.get("since")
        return cls(
            True,
            None if since is None else Instant.parse(since).ns,
            *(
                Watermark.from_json(found[n]) if n in found else None
                for n in ("created", "updated")
            ),
        )

    def watermarks(self) -> dict[str, dict[str, str]]:
        pairs = (("created", self.created), ("updated", self.updated))
        return {name: mark.to_json() for name, mark in pairs if mark is not None}

    def query(self) -> dict[str, Any]:
        return {"since": None if self.since is None else str(Instant.from_ns(self.since))}


@dataclass(frozen=True)
class Fetch:
    """``rows`` as they came, repeats included, the number of pages, and what is known with them."""

    rows: pa.Table
    pages: int
    known: Known


class _Unheeded(Exception):
    """The service does not honour a filter that this way of asking relies on."""


@dataclass
class Fetcher:
    """Asks one service for one table. ``open_ids`` are the transfers known to be unfinished."""

    source: PageSource
    table: Table
    step: Step = lambda _: None
    workers: int = 1
    found: list[pa.Table] = field(default_factory=list)
    pages: int = 0
    unheeded: set[str] = field(default_factory=set)

    def everything(self, known: Known, since: int | None) -> Fetch:
        """All rows created from ``since`` on; everything ever where it is ``None``."""
        updated = self._newest_update()
        filters = {} if since is None else {"created_at_gte": Instant.from_ns(since)}
        rows = self._ask(filters, workers=self.workers)
        created = newest(rows, "created_at", known.created)
        return self._done(Known(True, since, created, updated))

    def changes(self, known: Known, open_ids: Callable[[], Sequence[str]]) -> Fetch:
        """The rows that may have changed since ``known``; needs a watermark."""
        if known.updated is not None:
            try:
                return self._by_update(known, known.updated)
            except (_Unheeded, ValidationFailed) as error:
                log.info("%s: not by updated_at: %s", self.table.name, error)
                known = replace(known, updated=None)
        if known.created is None:
            return self.everything(known, known.since)
        try:
            return self._by_creation(known, known.created, open_ids)
        except (_Unheeded, ValidationFailed) as error:
            log.warning("%s: fetching everything again: %s", self.table.name, error)
            return self.everything(known, known.since)

    def _by_update(self, known: Known, mark: Watermark) -> Fetch:
        filters = {"updated_at_gte": mark.bound, **_since(known)}
        rows = self._ask(filters, rely_on=("updated_at_gte",), expect=mark)
        if rows.column("updated_at").null_count:
            raise _Unheeded("rows without updated_at")
        updated = newest(rows, "updated_at", mark)
        return self._done(
            replace(known, created=newest(rows, "created_at", known.created), updated=updated)
        )

    def _by_creation(
        self, known: Known, mark: Watermark, open_ids: Callable[[], Sequence[str]]
    ) -> Fetch:
        bound = mark.bound if known.since is None else max(mark.bound, Instant.from_ns(known.since))
        rows = self._ask({"created_at_gte": bound}, expect=mark)
        if self.table.column("status") is not None and self.table.name == "transfers":
            seen = set(rows.column("id").to_pylist())
            unseen = [name for name in open_ids() if name not in seen]
            for start in range(0, len(unseen), MAX_FILTER_ENTRIES):
                ids = unseen[start : start + MAX_FILTER_ENTRIES]
                self._ask({"ids": ids}, rely_on=("ids",), complete=ids)
        return self._done(replace(known, created=newest(rows, "created_at", mark)))

    def _ask(
        self,
        filters: Mapping[str, Any],
        *,
        rely_on: Sequence[str] = (),
        expect: Watermark | None = None,
        complete: Sequence[str] = (),
        workers: int = 1,
    ) -> pa.Table:
        """All pages of one question; what was found only counts if it can be relied on."""
        found = [self.table.empty()]
        for page in fetch(self.source, Asked(self.table, filters), workers):
            self.pages += 1
            ignored = set(page.unheeded) & set(rely_on)
            if ignored:
                raise _Unheeded(f"{', '.join(ignored)} is not heeded")
            self.unheeded.update(page.unheeded)
            found.append(page.rows)
            self.step(page.rows.num_rows)
        rows = pa.concat_tables(found)
        required = set(complete) | ({expect.id} if expect is not None else set())
        missing = required - set(rows.column("id").to_pylist())
        if missing:
            raise _Unheeded(f"{min(missing)} is missing from the answer")
        self.found.append(rows)
        return rows

    def _newest_update(self) -> Watermark | None:
        """The newest ``updated_at`` before anything else is fetched.

        What changes while all pages are being read must not be behind the watermark.
        """
        if self.table.name != "transfers":
            return None
        params = Asked(self.table, {"order_by": "UPDATED_AT", "order": "DESC", "limit": 1}).params()
        try:
            body = self.source.fetch_page(str(self.table.operation), params)
        except ValidationFailed:
            return None
        return newest(decode_page(self.table, body).rows, "updated_at", None)

    def _done(self, known: Known) -> Fetch:
        warn_unheeded(self.table, self.unheeded)
        return Fetch(pa.concat_tables([self.table.empty(), *self.found]), self.pages, known)


def fetch_table(
    fetcher: Fetcher,
    known: Known,
    open_ids: Callable[[], Sequence[str]],
    *,
    since: int | None,
    full: bool,
) -> Fetch:
    """What the next sync of a table needs; see the top of this module."""
    if fetcher.table.name in SHORT_LISTS:
        return fetcher.everything(known, None)
    if not known.covered:
        return fetcher.everything(known, since)
    wider = since is not None and known.since is not None and since < known.since
    if full or wider:
        return fetcher.everything(known, since if wider else known.since)
    return fetcher.changes(known, open_ids)


def open_transfers(rows: pa.Table) -> list[str]:
    """The ids of the transfers that may still change."""
    final = pc.is_in(rows.column("status"), value_set=pa.array(FINAL_STATUSES))
    ids: list[str] = rows.filter(pc.invert(final)).column("id").to_pylist()
    return ids


def newest(rows: pa.Table, column: str, before: Watermark | None) -> Watermark | None:
    """The watermark after ``rows``: their newest moment, unless ``before`` is newer."""
    if column not in rows.schema.names or rows.num_rows == rows.column(column).null_count:
        return before
    moments = rows.column(column).cast(pa.int64())
    at = pc.max(moments).as_py()
    if before is not None and before.at >= at:
        return before
    return Watermark(at, rows.column("id")[pc.index(moments, at).as_py()].as_py())


def _since(known: Known) -> dict[str, Any]:
    return {} if known.since is None else {"created_at_gte": Instant.from_ns(known.since)}
