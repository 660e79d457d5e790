"""Service → store: fetch what may have changed, keep what did, publish it all at the end.

Until everything has been fetched and checked nothing is published, so a service that dies in the
middle leaves the store as it was. Each table then becomes visible by one rename.

Transfers and balances prove each other, so they must belong together although the service moves
on: after the balances are read, the transfers changed meanwhile are fetched, and whatever they
moved is read again, until nothing moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa

from fundlab.errors import InvalidRequest, StoreError
from fundlab.load.loaders import Pair, observe_balances, pairs_of
from fundlab.moments import moment_ns
from fundlab.progress import progress_bar
from fundlab.store.changes import Changes, find_changes, update_changes
from fundlab.store.parts import Draft
from fundlab.store.snapshot import Snapshot, read_standing
from fundlab.sync.fetching import Fetcher, Known, fetch_table, open_transfers
from fundlab.tables.order import distinct
from fundlab.tables.schema import TABLES, find_table

if TYPE_CHECKING:
    from fundlab.api.client import Client
    from fundlab.store import Store

MAX_ROUNDS: Final = 8
PAIR_COLUMNS: Final = ("profile_id", "asset", "balance_asset")

Moment = str | datetime


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


@dataclass(frozen=True)
class SyncResult:
    """What a sync did. ``unsettled`` are balances that moved at every look and were left out."""

    store: str
    tables: tuple[TableSync, ...]
    seconds: float
    unsettled: tuple[Pair, ...] = ()

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
            lines.append(f"{len(self.unsettled)} balances kept moving; read them with a later sync")
        return "\n".join([*lines, f"store {self.store}, {self.seconds:.1f} s"])

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

    ``balances`` bring ``transfers`` with them. ``since`` is where a store that has no history yet
    begins; later it only ever widens what the store covers. ``full`` fetches everything again,
    which also finds rows that appeared late, more than the overlap behind the watermark.

    Raises ``StoreLocked`` while another run holds the store, ``StoreError`` if it belongs to
    another service or credential, ``InvalidRequest`` for unknown tables, ``NetworkError``,
    ``ServiceError``, ``ProtocolError`` and ``DataError`` as the client and the decoder do; the
    store is then as before.
    """
    started = time.monotonic()
    if workers < 1:
        raise InvalidRequest(f"workers={workers}: at least 1")
    chosen = _chosen(tables)
    first = None if since is None else moment_ns(since, "since")
    with store.lock():
        run = _Run(store, client, _bound(store, client), workers, full, first, progress, clock)
        try:
            for table in chosen:
                if TABLES[table].operation is not None:
                    run.fetch(table)
            if "balances" in chosen:
                run.observe()
            done = run.publish()
        finally:
            run.discard()
    seconds = round(time.monotonic() - started, 3)
    return SyncResult(str(store.path), tuple(done), seconds, tuple(run.unsettled))


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
            f"not of {service['base_url']} (client {service['client_id']}); use another store"
        )
    return service


@dataclass
class _Work:
    """What is known about one table in the course of a sync."""

    snapshot: Snapshot
    known: Known
    rows: pa.Table
    changes: Changes
    pages: int = 0


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
    work: dict[str, _Work] = field(default_factory=dict)
    drafts: list[Draft] = field(default_factory=list)
    unsettled: list[Pair] = field(default_factory=list)

    def fetch(self, name: str) -> None:
        """Fetch what may have changed and find what did."""
        table = TABLES[name]
        snapshot = self.store.snapshot(name)

        def open_ids() -> list[str]:
            return open_transfers(read_standing(snapshot, ["id", "status"]))

        with progress_bar(desc=name, enabled=self.progress) as bar:
            fetcher = Fetcher(self.client, table, bar.update, self.workers)
            known = Known.of(snapshot.last)
            fetched = fetch_table(fetcher, known, open_ids, since=self.since, full=self.full)
        rows = distinct(fetched.rows, table)
        changes = find_changes(snapshot, rows)
        self.work[name] = _Work(snapshot, fetched.known, rows, changes, fetched.pages)

    def observe(self) -> None:
        """Read the balances until they belong to the transfers, whatever moves meanwhile."""
        transfers, table = self.work["transfers"], TABLES["balances"]
        pending = pairs_of(read_standing(transfers.snapshot, PAIR_COLUMNS))
        pending |= pairs_of(transfers.rows)
        observed = table.empty()
        for _ in range(MAX_ROUNDS):
            observed = pa.concat_tables([_without(observed, pending), self._look_at(pending)])
            pending = pairs_of(self._moved_meanwhile(transfers))
            if not pending:
                break
        snapshot = self.store.snapshot("balances")
        rows = _without(observed, pending)
        self.unsettled = sorted(pending)
        self.work["balances"] = _Work(snapshot, Known(), rows, find_changes(snapshot, rows))

    def _look_at(self, pairs: set[Pair]) -> pa.Table:
        with progress_bar(len(pairs), "balances", "balances", self.progress) as bar:
            return observe_balances(
                self.client, sorted(pairs), workers=self.workers, clock=self.clock, step=bar.update
            )

    def _moved_meanwhile(self, transfers: _Work) -> pa.Table:
        """Fetch what has changed since the last fetch; the rows that did, old and new versions."""
        snapshot = transfers.snapshot

        def open_ids() -> list[str]:
            stored = open_transfers(read_standing(snapshot, ["id", "status"]))
            return [*stored, *open_transfers(transfers.rows)]

        again = fetch_table(
            Fetcher(self.client, snapshot.table), transfers.known, open_ids,
            since=None, full=not transfers.known.watermarks(),
        )  # fmt: skip
        rows = distinct(again.rows, snapshot.table)
        transfers.rows = distinct(pa.concat_tables([transfers.rows, rows]), snapshot.table)
        changes, moved = update_changes(transfers.changes, find_changes(snapshot, rows), rows)
        unchanged = transfers.rows.num_rows - changes.rows.num_rows
        transfers.changes = replace(changes, unchanged=unchanged)
        transfers.known, transfers.pages = again.known, transfers.pages + again.pages
        return moved

    def publish(self) -> list[TableSync]:
        """Write the parts of every table, then let them appear."""
        published_at = self.store.now()
        done = []
        for name, work in self.work.items():
            part = None
            if work.changes.rows.num_rows:
                draft = self._draft(name, work, published_at)
                self.drafts.append(draft)
                part = str(draft.path)
            changes = work.changes
            fetched = work.rows.num_rows
            done.append(
                TableSync(
                    name, fetched, changes.new, changes.changed, changes.unchanged, work.pages, part
                )
            )
        for draft in self.drafts:
            draft.publish()
        self.drafts.clear()
        return done

    def _draft(self, name: str, work: _Work, published_at: int) -> Draft:
        proved_by = None
        if name == "balances":
            transfers = self.work["transfers"]
            proved_by = transfers.snapshot.limit + bool(transfers.changes.rows.num_rows)
        return self.store.draft(
            work.snapshot, work.changes.rows, published_at=published_at, service=self.service,
            query=work.known.query(), watermark=work.known.watermarks(), proved_by=proved_by,
        )  # fmt: skip

    def discard(self) -> None:
        """Remove what was written but not published."""
        for draft in self.drafts:
            draft.discard()


def _without(balances: pa.Table, pairs: set[Pair]) -> pa.Table:
    names = zip(
        balances.column("profile_id").to_pylist(), balances.column("asset").to_pylist(), strict=True
    )
    return balances.filter(pa.array([pair not in pairs for pair in names], pa.bool_()))
