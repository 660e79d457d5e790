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

from fundlab.api.pages import warn_of_filters
from fundlab.errors import ValidationFailed, shorten
from fundlab.load.pages import Fetched, PageSource, ask_table, fetch
from fundlab.load.windows import Span
from fundlab.models import FINAL_STATUSES
from fundlab.store.parts import Publication
from fundlab.store.staging import Stage, missing
from fundlab.tables.decode import decode_page
from fundlab.tables.schema import Table
from fundlab.values import Instant

OVERLAP_NS: Final = 15 * 60 * 1_000_000_000
SHORT_LISTS: Final = ("fiat_accounts", "deposit_instructions")

log = logging.getLogger(__name__)


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
        found = publication.watermark
        return cls(
            True,
            publication.begins,
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


class _Ignored(Exception):
    """The service does not honour a filter that this way of asking relies on."""


@dataclass
class Fetcher:
    """Asks one service for one table and hands every page to ``sink``.

    ``latest`` (ns) is the last moment a watermark may name: one row dated years ahead would
    otherwise hide all that come after it. ``undated``: rows without ``updated_at`` were seen.
    """

    source: PageSource
    table: Table
    sink: Callable[[Fetched], None]
    workers: int = 1
    latest: int = 2**63 - 1
    undated: bool = False
    pages: int = 0
    rows: int = 0
    created: Watermark | None = None
    updated: Watermark | None = None
    ignored: set[str] = field(default_factory=set)
    unchecked: set[str] = field(default_factory=set)

    def everything(self, known: Known, since: int | None, stage: Stage | None = None) -> Known:
        """All rows created from ``since`` on, everything ever where it is ``None``: those that
        ``stage`` does not have yet."""
        if stage is not None and stage.covered:
            try:
                return self._rest(known, since, stage)
            except ValidationFailed as error:
                log.info("%s: not by created_at, so from the start: %s", self.table.name, error)
                stage.discard()
        updated = self._newest_update()
        if stage is not None:
            stage.note = {"updated": None if updated is None else updated.to_json()}
        filters = {} if since is None else {"created_at_gte": Instant.from_ns(since)}
        self._ask(filters, workers=self.workers)
        return self._done(Known(True, since, _later(known.created, self.created), updated))

    def _rest(self, known: Known, since: int | None, stage: Stage) -> Known:
        """What a run that died did not come to; its watermark of updates holds."""
        begun = stage.note.get("updated")
        updated = None if begun is None else Watermark.from_json(begun)
        for rows in stage.read([*_watermarked(self.table), "id"]):
            self._note_newest(rows)
        gaps = missing(stage.covered, (since, None), OVERLAP_NS)
        self._ask({}, workers=self.workers, gaps=gaps)
        return self._done(Known(True, since, _later(known.created, self.created), updated))

    def changes(self, known: Known, open_ids: Callable[[], Sequence[str]]) -> Known:
        """The rows that may have changed since ``known``; needs a watermark."""
        if known.updated is not None:
            try:
                return self._by_update(known, known.updated)
            except (_Ignored, ValidationFailed) as error:
                log.info("%s: not by updated_at: %s", self.table.name, error)
                known = replace(known, updated=None)
        if known.created is None:
            return self.everything(known, known.since)
        try:
            return self._by_creation(known, known.created, open_ids)
        except (_Ignored, ValidationFailed) as error:
            log.warning("%s: fetching everything again: %s", self.table.name, error)
            return self.everything(known, known.since)

    def _by_update(self, known: Known, mark: Watermark) -> Known:
        # Rows older than the store's first are asked for, too, and left out: the watermark may be
        # of one of them, and it says what had happened before the balances were looked at.
        filters = {"updated_at_gte": mark.bound}
        self._ask(
            filters, rely_on=("updated_at_gte",), expect=mark, complete="updated_at",
            since=known.since,
        )  # fmt: skip
        return self._done(
            replace(
                known,
                created=_later(known.created, self.created),
                updated=_later(mark, self.updated),
            )
        )

    def _by_creation(
        self, known: Known, mark: Watermark, open_ids: Callable[[], Sequence[str]]
    ) -> Known:
        bound = mark.bound if known.since is None else max(mark.bound, Instant.from_ns(known.since))
        seen = self._ask({"created_at_gte": bound}, expect=mark, remember=True)
        if self.table.name == "transfers":
            unseen = [name for name in open_ids() if name not in seen]
            missed = set(unseen) - self._ask({"ids": unseen}, rely_on=("ids",), remember=True)
            if missed:
                raise _Ignored(f"{shorten(min(missed))} is missing from the answer")
        return self._done(replace(known, created=_later(mark, self.created)))

    def _ask(
        self,
        filters: Mapping[str, Any],
        *,
        rely_on: Sequence[str] = (),
        expect: Watermark | None = None,
        complete: str | None = None,
        workers: int = 1,
        gaps: Sequence[Span] | None = None,
        remember: bool = False,
        since: int | None = None,
    ) -> set[str]:
        """Hand over all pages of one question, of each the rows created from ``since`` on; with
        ``remember`` the ids that came.

        Raises ``_Ignored`` where the answers cannot be relied on: a filter of ``rely_on`` ignored,
        the row of ``expect`` left out, the column ``complete`` not there.
        """
        ids: set[str] = set()
        for page in fetch(self.source, ask_table(self.table, filters), workers, gaps):
            self.pages += 1
            self.rows += page.rows.num_rows
            self.sink(page if since is None else replace(page, rows=_from(page.rows, since)))
            self._note_newest(page.rows)
            ignored = set(page.ignored) & set(rely_on)
            if ignored:
                raise _Ignored(f"the service ignores {', '.join(ignored)}")
            if complete is not None and page.rows.column(complete).null_count:
                raise _Ignored(f"rows without {complete}")
            self.ignored.update(page.ignored)
            self.unchecked.update(page.unchecked)
            if remember:
                ids.update(page.rows.column("id").to_pylist())
            if expect is not None and pc.index(page.rows.column("id"), expect.id).as_py() >= 0:
                expect = None
        if expect is not None:
            raise _Ignored(f"{shorten(expect.id)} is missing from the answer")
        return ids

    def _note_newest(self, rows: pa.Table) -> None:
        self.created = newest(rows, "created_at", self.created, self.latest)
        self.updated = newest(rows, "updated_at", self.updated, self.latest)
        if self.table.name == "transfers" and rows.column("updated_at").null_count:
            self.undated = True

    def _newest_update(self) -> Watermark | None:
        """The newest ``updated_at`` before anything else is fetched.

        What changes while all pages are being read must not be behind the watermark.
        """
        if self.table.name != "transfers":
            return None
        newest_first = {"order_by": "UPDATED_AT", "order": "DESC", "limit": 1}
        params = ask_table(self.table, newest_first).query().to_params()
        try:
            body = self.source.fetch_page(str(self.table.operation), params)
        except ValidationFailed:
            return None
        return newest(decode_page(self.table, body).rows, "updated_at", None, self.latest)

    def _done(self, known: Known) -> Known:
        warn_of_filters(self.table.name, self.ignored, self.unchecked)
        # a service that filters by updated_at never shows what has none
        return replace(known, updated=None) if self.undated else known


def fetch_table(
    fetcher: Fetcher,
    known: Known,
    open_ids: Callable[[], Sequence[str]],
    plan: Plan,
    stage: Stage | None = None,
) -> Known:
    """Fetch what the next sync of a table needs; see the top of this module."""
    if not plan.everything:
        return fetcher.changes(known, open_ids)
    resumed = stage is not None and bool(stage.covered)
    known = fetcher.everything(known, plan.since, stage)
    if resumed and known.watermarks():
        return fetcher.changes(known, open_ids)  # what moved since the run that died
    return known


@dataclass(frozen=True)
class Plan:
    """Whether all of a table is fetched, and from when (ns, ``None``: the beginning).

    ``resumable``: what a run that died had of it still counts, because later syncs find whatever
    has changed since.
    """

    everything: bool
    since: int | None = None
    resumable: bool = False

    @classmethod
    def of(cls, table: Table, known: Known, *, since: int | None, full: bool) -> Self:
        if table.name in SHORT_LISTS:
            return cls(True)
        if not known.covered:
            return cls(True, since, resumable=not full)
        wider = since is not None and known.since is not None and since < known.since
        if full:
            return cls(True, since if wider else None)
        return cls(True, since, resumable=True) if wider else cls(False)


def open_transfers(rows: pa.Table) -> list[str]:
    """The ids of the transfers that may still change."""
    final = pc.is_in(rows.column("status"), value_set=pa.array(FINAL_STATUSES))
    ids: list[str] = rows.filter(pc.invert(final)).column("id").to_pylist()
    return ids


def newest(rows: pa.Table, column: str, before: Watermark | None, latest: int) -> Watermark | None:
    """The watermark after ``rows``: their newest moment up to ``latest``, unless ``before`` is."""
    if column not in rows.schema.names or rows.num_rows == rows.column(column).null_count:
        return before
    moments = rows.column(column).cast(pa.int64())
    at = pc.max(moments).as_py()
    if at > latest:
        log.warning(
            "%s: rows dated %s, in the future; the next sync does not rely on their time",
            column, Instant.from_ns(at),
        )  # fmt: skip
        at = pc.max(moments.filter(pc.less_equal(moments, latest))).as_py()
        if at is None:
            return before
    if before is not None and before.at >= at:
        return before
    return Watermark(at, rows.column("id")[pc.index(moments, at).as_py()].as_py())


def _later(one: Watermark | None, other: Watermark | None) -> Watermark | None:
    if one is None or other is None:
        return one or other
    return other if other.at > one.at else one


def _watermarked(table: Table) -> list[str]:
    return [name for name in ("created_at", "updated_at") if name in table.schema.names]


def _from(rows: pa.Table, since: int) -> pa.Table:
    return rows.filter(pc.greater_equal(rows.column("created_at").cast(pa.int64()), since))
