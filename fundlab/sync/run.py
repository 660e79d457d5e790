"""Service → store: fetch what may have changed, keep what did, publish it all at the end, and
merge the files of a table where they have become many.

Until everything has been fetched and checked nothing is published, so a service that dies in the
middle leaves the store as it was. Each table then becomes visible by one rename.

Transfers and balances prove each other, so they must belong together although the service moves
on: after the balances are read, the transfers changed meanwhile are fetched, and whatever they
moved is read again, until nothing moves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.errors import InvalidRequest, StoreDamaged, StoreError, number_of
from fundlab.load.loaders import Pair, checked_workers, observe_balances, pairs_of
from fundlab.load.pages import Fetched
from fundlab.moments import moment_ns
from fundlab.progress import progress_bar
from fundlab.store import compaction
from fundlab.store.changes import Changes, all_new, differing
from fundlab.store.lookup import find_rows
from fundlab.store.snapshot import Snapshot, read_standing
from fundlab.store.staging import Stage
from fundlab.store.writing import Draft
from fundlab.sync.fetching import OVERLAP_NS, Fetcher, Known, Plan, fetch_table, open_transfers
from fundlab.tables.order import distinct
from fundlab.tables.schema import TABLES, find_table

if TYPE_CHECKING:
    from fundlab.api.client import Client
    from fundlab.store import Store

MAX_ROUNDS: Final = 8
PAIR_COLUMNS: Final = ("profile_id", "asset", "balance_asset")

Moment = str | datetime
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableSync:
    """What a sync did to one table. ``part`` is the file written, ``None`` if nothing changed."""

    table: str
    fetched: int
    new: int
    changed: int
    unchanged: int
    pages: int
    part: str | None


@dataclass(frozen=True, repr=False)
class SyncResult:
    """What a sync did. ``unsettled`` are balances that moved at every look and were left out,
    ``compacted`` the tables whose files were merged into one."""

    store: str
    tables: tuple[TableSync, ...]
    seconds: float
    unsettled: tuple[Pair, ...] = ()
    compacted: tuple[str, ...] = ()

    @property
    def new(self) -> int:
        return sum(entry.new for entry in self.tables)

    @property
    def changed(self) -> int:
        return sum(entry.changed for entry in self.tables)

    def __getitem__(self, table: str) -> TableSync:
        for entry in self.tables:
            if entry.table == table:
                return entry
        raise KeyError(table)

    def to_frame(self) -> pd.DataFrame:
        """By ``table``: ``fetched``, ``new``, ``changed``, ``unchanged``, ``pages``, ``part``."""
        return pd.DataFrame([asdict(entry) for entry in self.tables]).set_index("table")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{entry.table:<21}{entry.new:>10,} new {entry.changed:>10,} changed "
            f"{entry.unchanged:>10,} unchanged"
            for entry in self.tables
        ]
        if self.unsettled:
            lines.append(
                f"{number_of(len(self.unsettled), 'balance')} kept moving and will be read by a "
                "later sync"
            )
        if self.compacted:
            lines.append(f"merged the files of {', '.join(self.compacted)}")
        return "\n".join([*lines, f"store {self.store}, {self.seconds:.1f} s"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return str(self.to_frame().drop(columns="part").to_html())


def sync(
    store: Store,
    client: Client,
    tables: Sequence[str] | None = None,
    since: Moment | None = None,
    workers: int = 1,
    full: bool = False,
    progress: bool | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> SyncResult:
    """Bring ``tables`` (all by default) of ``store`` up to date with the service of ``client``.

    ``balances`` bring ``transfers`` with them; ``addresses`` are the first party's, as the service
    lists an end user's by ``identity_id`` only (`load_addresses`, §4.15). ``since`` is where a
    store that has no history yet begins; later it only ever widens what the store covers. ``full``
    fetches everything, from the first row there is: also what is older than the ``since`` that the
    store began with (with an earlier ``since``, from there on), and rows that appeared late, more
    than the overlap behind the watermark.

    Raises ``StoreLocked`` while another run holds the store, ``StoreError`` if it belongs to
    another service or credential, was last written more than a day ahead of ``clock``, or its lock
    was taken away, ``InvalidRequest`` for unknown tables, ``NetworkError``,
    ``ServiceError``, ``ProtocolError`` and ``DataError`` as the client and the decoder do; the
    store is then as before. Only a disk that fails between two renames leaves some tables new and
    others old, each complete. ``StoreDamaged`` where a file is not what was written: if that shows
    only when files are merged, what was fetched is published. While a sync is writing, an
    ``as_of`` of this minute is not settled yet.
    """
    started = time.monotonic()
    checked_workers(workers)
    chosen = _chosen(tables)
    first = None if since is None else moment_ns(since, "since")
    with store.lock() as check_held:
        service = _bound(store, client)
        run = _Run(store, client, service, workers, full, first, progress, clock, check_held)
        try:
            for table in chosen:
                if TABLES[table].operation is not None:
                    run.fetch(table)
            if "balances" in chosen:
                run.observe()
            done = run.publish()
        except BaseException:
            run.keep()
            raise
        compacted = _compact(store, chosen, check_held)
    seconds = round(time.monotonic() - started, 3)
    return SyncResult(str(store.path), tuple(done), seconds, tuple(run.unsettled), compacted)


def _chosen(tables: Sequence[str] | None) -> list[str]:
    if isinstance(tables, str):
        tables = [tables]
    wanted = {find_table(name).name for name in (TABLES if tables is None else tables)}
    if not wanted:
        raise InvalidRequest(f"tables={tables!r}: name at least one of {', '.join(TABLES)}")
    if "balances" in wanted:
        wanted.add("transfers")
    return [name for name in TABLES if name in wanted]


def _bound(store: Store, client: Client) -> Mapping[str, str]:
    """The service of ``client``, if the store is its or nobody's yet."""
    service = {"base_url": client.base_url, "client_id": client.client_id}
    owner = store.service()
    if owner is not None and dict(owner) != service:
        raise StoreError(
            f"{store.path} holds the data of {owner['base_url']} (client {owner['client_id']}), "
            f"not of {service['base_url']} (client {service['client_id']}); use another "
            "store (a sandbox started anew is another service, too)"
        )
    return service


def _compact(
    store: Store, tables: Sequence[str], check_held: Callable[[], None]
) -> tuple[str, ...]:
    """Merge the files of the tables where it pays; which they are.

    Everything is published by now, so a disk that takes no more is a matter for the next sync.
    """
    done = []
    for table in tables:
        snapshot = store.snapshot(table)
        if not compaction.pays(snapshot):
            continue
        try:
            compaction.compact_table(store.path / table, snapshot, check_held)
        except StoreDamaged:
            raise
        except StoreError as error:
            log.warning("%s: the sync is complete, but its files were not merged: %s", table, error)
        else:
            done.append(table)
    return tuple(done)


@dataclass
class _Work:
    """What is known about one table in the course of a sync."""

    snapshot: Snapshot
    known: Known
    stage: Stage
    pages: int = 0
    fetched: int = 0


@dataclass
class _Run:
    """One sync under way."""

    store: Store
    client: Client
    service: Mapping[str, str]
    workers: int
    full: bool
    since: int | None
    progress: bool | None
    clock: Callable[[], int]
    check_held: Callable[[], None]
    work: dict[str, _Work] = field(default_factory=dict)
    drafts: list[Draft] = field(default_factory=list)
    observed: pa.Table | None = None
    unsettled: list[Pair] = field(default_factory=list)

    def fetch(self, name: str) -> None:
        """Fetch what may have changed, onto the disk; a run that died may have had some of it."""
        table, snapshot = TABLES[name], self.store.snapshot(name)
        known = Known.of(snapshot.last)
        plan = Plan.of(table, known, since=self.since, full=self.full)
        question = {"since": plan.since, "publication": snapshot.limit, **self.service}
        stage = self.store.stage(table, question if plan.resumable else None)
        work = self.work[name] = _Work(snapshot, known, stage)
        with progress_bar(desc=name, enabled=self.progress) as bar:

            def keep(page: Fetched) -> None:
                stage.add(page.rows, page.walk, page.covered)
                bar.update(page.rows.num_rows)

            bar.update(sum(piece.rows for piece in stage.pieces))
            fetcher = Fetcher(self.client, table, keep, self.workers, self._latest())
            work.known = fetch_table(fetcher, known, lambda: _open_ids(work), plan, stage)
        work.pages, work.fetched = fetcher.pages, fetcher.rows

    def _latest(self) -> int:
        """The last moment that a row can truly be of, clocks that differ a little allowed for."""
        return self.clock() + OVERLAP_NS

    def observe(self) -> None:
        """Read the balances until they belong to the transfers, whatever moves meanwhile."""
        transfers = self.work["transfers"]
        pending = pairs_of(read_standing(transfers.snapshot, PAIR_COLUMNS))
        for rows in transfers.stage.read(PAIR_COLUMNS):
            pending |= pairs_of(rows)
        observed = TABLES["balances"].empty()
        for _ in range(MAX_ROUNDS):
            observed = pa.concat_tables([_without(observed, pending), self._look_at(pending)])
            pending = self._moved_meanwhile(transfers)
            if not pending:
                break
        self.observed = _without(observed, pending)
        self.unsettled = sorted(pending)

    def _look_at(self, pairs: set[Pair]) -> pa.Table:
        with progress_bar(len(pairs), "balances", "balances", self.progress) as bar:
            return observe_balances(
                self.client, sorted(pairs), workers=self.workers, clock=self.clock, step=bar.update
            )

    def _moved_meanwhile(self, transfers: _Work) -> set[Pair]:
        """Fetch what has changed since the last fetch; whose balances it may have moved."""
        table = transfers.snapshot.table
        found = [table.empty()]
        fetcher = Fetcher(
            self.client, table, lambda page: found.append(page.rows), latest=self._latest()
        )
        plan = Plan(everything=not transfers.known.watermarks(), since=transfers.known.since)
        known = fetch_table(fetcher, transfers.known, lambda: _open_ids(transfers), plan)
        rows = distinct(pa.concat_tables(found), table)
        before = _versions(transfers, rows.column("id").combine_chunks())
        transfers.stage.add(rows)
        transfers.known, transfers.pages = known, transfers.pages + fetcher.pages
        return pairs_of(differing(rows, before)) | pairs_of(differing(before, rows))

    def publish(self) -> list[TableSync]:
        """Write the parts of every table, then let them appear."""
        published_at = self.store.now()
        done = [self._write(name, work, published_at) for name, work in self.work.items()]
        if self.observed is not None:
            done.append(self._write_balances(self.observed, published_at))
        self.check_held()
        for draft in self.drafts:
            draft.publish()
        self.drafts.clear()
        for work in self.work.values():
            work.stage.discard()
        return done

    def _write(self, name: str, work: _Work, published_at: int) -> TableSync:
        changes = Changes(work.snapshot, work.stage)
        part = self._draft(work.snapshot, changes.groups(), published_at, work.known)
        return TableSync(
            name, work.fetched, changes.new, changes.changed, changes.unchanged, work.pages, part
        )

    def _write_balances(self, observed: pa.Table, published_at: int) -> TableSync:
        snapshot, transfers = self.store.snapshot("balances"), self.work["transfers"]
        proved_by = transfers.snapshot.limit + ("transfers" in self._drafted())
        groups = all_new(snapshot.table, observed)
        unsettled = {"unsettled": self.unsettled} if self.unsettled else {}
        part = self._draft(snapshot, groups, published_at, Known(), proved_by, unsettled)
        count = observed.num_rows
        return TableSync("balances", count, count, 0, 0, 0, part)

    def _draft(
        self,
        snapshot: Snapshot,
        groups: Iterable[pa.Table],
        published_at: int,
        known: Known,
        proved_by: int | None = None,
        also: Mapping[str, Any] | None = None,
    ) -> str | None:
        """Write a part that nobody sees yet; none where there is nothing to say. Where the rows
        begin, for the first time or earlier than before, is worth saying even if there are none."""
        query = {**known.query(), **(also or {})}
        draft = self.store.draft(
            snapshot, groups, published_at=published_at, service=self.service,
            query=query, watermark=known.watermarks(), proved_by=proved_by,
        )  # fmt: skip
        self.drafts.append(draft)
        moved = snapshot.begins != known.since
        if draft.rows or moved:
            return str(draft.path)
        self.drafts.pop().discard()
        return None

    def _drafted(self) -> set[str]:
        return {draft.path.parent.name for draft in self.drafts}

    def keep(self) -> None:
        """Remove what was written but not published; what was fetched stays for the next run."""
        for draft in self.drafts:
            draft.discard()
        for work in self.work.values():
            work.stage.flush()


def _open_ids(transfers: _Work) -> list[str]:
    """The transfers, stored or just fetched, that may still change."""
    stored = open_transfers(read_standing(transfers.snapshot, ["id", "status"]))
    staged = (open_transfers(rows) for rows in transfers.stage.read(["id", "status"]))
    return [*dict.fromkeys(chain(stored, *staged))]


def _versions(transfers: _Work, ids: pa.Array) -> pa.Table:
    """The transfers with these ids as they are known: staged, else stored."""
    staged = transfers.stage.versions(ids)
    others = ids.filter(pc.invert(pc.is_in(ids, value_set=staged.column("id").combine_chunks())))
    stored = find_rows(transfers.snapshot, others)
    return pa.concat_tables([table.replace_schema_metadata(None) for table in (staged, stored)])


def _without(balances: pa.Table, pairs: set[Pair]) -> pa.Table:
    names = zip(
        balances.column("profile_id").to_pylist(), balances.column("asset").to_pylist(), strict=True
    )
    return balances.filter(pa.array([pair not in pairs for pair in names], pa.bool_()))
