"""Service → store: fetch what may have changed, keep what did, publish it all at the end, and
merge the files of a table where they have become many.

Until everything has been fetched and checked nothing is published, so a service that dies in the
middle leaves the store as it was. All tables then become visible at once, by one manifest.

Transfers are asked for by ``updated_at`` where the service honours it, else by ``created_at``, with
every open transfer again by id; events and addresses by ``created_at``; the short lists complete.
With ``full`` every list is fetched from the beginning, as a store of nothing would; and what the
store has of a list that was fetched so, but the service did not bring, is asked for by its id, and
noted as gone where the service has it no more. An ordinary sync sweeps some old rows so, a share of
them for the time since the last sweep, all in about a month.
Watermarks are the service's own times, never this machine's, and each is stepped back by the
overlap.

Transfers and balances prove each other, so they must belong together although the service moves
on: after the balances are read, the transfers changed meanwhile are fetched, and whatever they
moved is read again, until nothing moves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import frugal_memory, numbers
from fundlab.base.errors import (
    AuthenticationFailed,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    ProtocolError,
    ScopeMissing,
    StoreDamaged,
    StoreError,
    ValidationFailed,
    listed,
    number_of,
    shorten,
)
from fundlab.base.progress import expect, progress_bar
from fundlab.base.threads import gathered
from fundlab.base.values import Instant, start_ns
from fundlab.client.arguments import connected
from fundlab.client.pages import warn_of_filters, whole_number
from fundlab.evidence.quarantine import SetAside, set_aside_rows
from fundlab.evidence.vanished_rows import (
    ANSWERS,
    SWEEP_EVERY_NS,
    Gone,
    control_changes,
    control_known,
    control_lines,
    control_of,
    sweep_windows,
    unlisted,
    unlisted_rows,
)
from fundlab.models import FINAL_STATUSES, OPERATIONS
from fundlab.store import compaction, disk
from fundlab.store.changes import Changes, all_new, differing, find_rows
from fundlab.store.manifests import Manifest
from fundlab.store.parts import Draft, Header, Publication, write_part
from fundlab.store.records import Kind, Record
from fundlab.store.snapshot import Snapshot, read_current
from fundlab.store.staging import STAGING, Span, Stage, missing
from fundlab.sync.loaders import Pair, ask_by_id, observe_balances, pairs_of
from fundlab.sync.table_pages import Fetched, ask_table, contradicted_ids, fetch, first_page
from fundlab.tables.decode import InvalidRow
from fundlab.tables.schema import SCHEMA_VERSION, TABLES, find_table

if TYPE_CHECKING:
    import pandas as pd

    from fundlab.client.client import Client
    from fundlab.evidence.table_store import TableStore

MAX_ROUNDS: Final = 8
OVERLAP_NS: Final = 15 * 60 * 1_000_000_000
ASK_AGAIN_NS: Final = 30 * 86_400 * 10**9
"""What the service said of a row that its list leaves out is asked again after this time,"""
ASKED_AT_MOST: Final = 100
"""so many rows of a table in a sync, however long the archive is."""
_NO_TIME: Final = -(2**63)
SHORT_LISTS: Final = ("fiat_accounts", "deposit_instructions")
CLOCKS_DIFFER_S: Final = 86_400
PAIR_COLUMNS: Final = ("profile_id", "asset", "balance_asset")

Moment = str | datetime
Keep = Callable[[Fetched], None]
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
    ``compacted`` the tables whose files were merged into one, ``gone`` the table and id of each row
    that the service was found to have no more, ``refused`` of each that it was found to refuse,
    ``set_aside`` those that came and cannot be read, ``notes`` what else a pass over old rows
    found, ``unreported`` the balances that were reported before and are not now, ``at`` the time of
    what was published, or would have been."""

    store: str
    tables: tuple[TableSync, ...]
    seconds: float
    unsettled: tuple[Pair, ...] = ()
    compacted: tuple[str, ...] = ()
    gone: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    set_aside: tuple[InvalidRow, ...] = ()
    notes: tuple[str, ...] = ()
    unreported: tuple[Pair, ...] = ()
    at: str = ""

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
        import pandas as pd

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
        lines += self.notes
        return "\n".join([*lines, f"store {self.store}, {self.seconds:.1f} s"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from fundlab.display import Card, show  # which loads pandas

        changed = self.new or self.changed
        said = [
            f"{number_of(self.new, 'new row')}, {self.changed:,} changed" if changed
            else "Nothing new",
            f"{self.seconds:.1f} s",
        ]  # fmt: skip
        left = number_of(len(self.unsettled), "balance")
        return Card(
            f"Sync · {self.store}",
            tables=(replace(show(self.to_frame().drop(columns="part").reset_index()), note=""),),
            warnings=(f"{left} kept moving and will be read by a later sync",)
            * bool(self.unsettled),
            headline=" · ".join(said),
            tone="good",
            notes=('fl.reconcile.judge(store) · store.read("transfers") · fl.report(store)',),
        )._repr_html_()


def sync(
    store: TableStore,
    client: Client,
    tables: Sequence[str] | None,
    since: Moment | None,
    workers: int,
    full: bool,
    progress: bool | None,
    clock: Callable[[], int],
) -> SyncResult:
    """Bring ``tables`` (all if ``None``) of ``store`` up to date with the service of ``client``.

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
    store is then as before. ``StoreDamaged`` where a file is not what was written: if that shows
    only when files are merged, what was fetched is published. While a sync is writing, an
    ``as_of`` of this minute is not settled yet.
    """
    started = time.monotonic()
    connected(client)
    workers = whole_number(workers, "workers", 1)
    given = [tables] if isinstance(tables, str) else TABLES if tables is None else tables
    wanted = {find_table(name).name for name in given}
    if not wanted:
        raise InvalidRequest(f"tables={tables!r}: name at least one of {', '.join(TABLES)}")
    if "balances" in wanted:
        wanted.add("transfers")
    chosen = [name for name in TABLES if name in wanted]
    first = start_ns(since, "since")
    with frugal_memory(), store.lock() as check_held:
        service = {"base_url": client.base_url, "client_id": client.client_id}
        owner = store.service()
        if owner is not None and dict(owner) != service:
            held, asked = (
                f"{one['base_url']} (client {one['client_id']})" if one else "no service it names"
                for one in (owner, service)
            )
            raise StoreError(
                f"{store.path} holds the data of {held}, not of {asked}; use another store (a "
                "sandbox started anew is another service, too)"
            )
        records = store.records()
        aside = [row for row in set_aside_rows(records) if row.state != "read"]
        run = _Run(
            store, client, service, workers, progress, clock, records,
            {name: Unread({row.key: row for row in aside if row.table == name}) for name in TABLES},
            [row for row in unlisted_rows(records) if row.back_at is None],
        )  # fmt: skip
        try:
            for name in chosen:
                if TABLES[name].operation is not None:
                    run.fetch(name, first, full)
            if "balances" in wanted:
                run.sweep()
                run.observe()
            done = run.publish(check_held)
        except BaseException as error:
            # What was written but not published goes; what was fetched stays for the next run.
            for draft in run.drafts:
                draft.discard()
            if isinstance(error, FileNotFoundError):
                check_held()  # what another run, that took the lock away, removed of this one's
                raise StoreError(  # or one that had lost its lock to this one, and went on
                    f"{store.path}: another run removed what this one had fetched: nothing was "
                    "published; run it again"
                ) from error
            for fetched in run.fetches.values():
                fetched.stage.flush()
            raise
        # All is published by now: a disk that takes no more is a matter for the next sync.
        compacted = []
        for name in chosen:
            if not compaction.pays(store.snapshot(name)):
                continue
            try:
                store.merge(name, check_held, progress)
            except StoreDamaged:
                raise
            except StoreError as error:
                log.warning(
                    "%s: the sync is complete, but its files were not merged: %s", name, error
                )
            else:
                compacted.append(name)
    seconds = round(time.monotonic() - started, 3)
    return SyncResult(
        str(store.path), tuple(done), seconds, tuple(run.unsettled), tuple(compacted),
        tuple((name, id_) for name, one in run.fetches.items() for id_ in one.answers["gone"]),
        tuple((name, id_) for name, one in run.fetches.items() for id_ in one.answers["refused"]),
        tuple(row for one in run.unread.values() for row in one.new.values()),
        tuple(run.notes), tuple(run.unreported), str(Instant.from_ns(run.published_at)),
    )  # fmt: skip


@dataclass
class _Run:
    """One sync under way."""

    store: TableStore
    client: Client
    service: Mapping[str, str]
    workers: int
    progress: bool | None
    clock: Callable[[], int]
    records: Sequence[Record]
    unread: Mapping[str, Unread]
    unlisted: Sequence[Gone]
    fetches: dict[str, _Fetch] = field(default_factory=dict)
    drafts: list[Draft] = field(default_factory=list)
    observed: pa.Table | None = None
    unsettled: list[Pair] = field(default_factory=list)
    unanswered: dict[Pair, int] = field(default_factory=dict)
    moving: list[tuple[str, str, int]] = field(default_factory=list)
    """Balances answered, but not kept as they moved, and when each was seen last (ns)."""
    notes: list[str] = field(default_factory=list)
    unreported: list[Pair] = field(default_factory=list)
    swept_at: int | None = None
    published_at: int = 0

    def fetch(self, name: str, since: int | None, full: bool) -> None:
        """Fetch what may have changed, onto the disk; a run that died may have had some of it."""
        snapshot = self.store.snapshot(name)
        last, begins = snapshot.last, snapshot.begins
        short, new = name in SHORT_LISTS, last is None
        wider = since is not None and begins is not None and since < begins
        everything = short or new or wider or full
        since = since if (new or wider) and not short else None
        # What a run that died had counts where later syncs find whatever has changed since.
        resumable = (new or wider) and not (short or full)
        question = {"since": since, "publication": snapshot.limit, **self.service}
        # Rows on their way in, and what a run that died had of them.
        stage = Stage(
            disk.own_folder(self.store.path) / STAGING / name,
            snapshot.table,
            question if resumable else None,
        )
        known = {} if last is None else last.watermark
        one = self.fetches[name] = _Fetch(
            self.client, snapshot, stage, self.workers, self.clock() + OVERLAP_NS, begins,
            {
                name: Watermark(Instant.parse(known[name]["at"]).ns, known[name]["id"])
                for name in ("created", "updated")
                if name in known
            },
            {row.id: row for row in self.unlisted if row.table == name}, self.unread[name],
        )  # fmt: skip
        with progress_bar(desc=name, enabled=self.progress) as bar:

            def keep(page: Fetched) -> None:
                stage.add(page.rows, page.walk, page.covered)
                one.rows += page.rows.num_rows
                expect(bar, page.expected)
                bar.update(page.rows.num_rows)

            bar.update(sum(piece.rows for piece in stage.pieces))
            if not everything:
                one.changes(keep)
            else:
                resumed = bool(stage.covered)
                newest = one.newest(since) if new or wider or full else None
                one.everything(since, keep, resume=True)
                if resumed and one.marks:
                    one.changes(keep)  # what moved since the run that died
                if newest is not None:
                    self.notes += one.look_from_the_other_end(newest, keep)
            if one.passed and one.unlisted:
                for rows in stage.read(["id"]):
                    one.listed(rows.column("id"))
            if one.passed and snapshot.files:
                one.look_for(unlisted(snapshot, stage, one.since), keep)
            one.ask_again(self.clock(), keep)

    def sweep(self) -> None:
        """Compare some old transfers and events with what the service lists of their time: all of
        them within a month, and nothing where the last sweep is less than an hour ago."""
        now, last = self.clock(), self.store.snapshot("balances").last
        swept_at = None if last is None else last.query.get("swept_at")
        self.swept_at = now
        if swept_at is None:
            return  # from here on
        if now - swept_at < SWEEP_EVERY_NS:
            self.swept_at = swept_at
            return
        for name, one in self.fetches.items():
            if name in ("transfers", "events") and not one.passed:
                self._sweep(name, one, swept_at, now)

    def _sweep(self, name: str, one: _Fetch, swept_at: int, now: int) -> None:
        table, span, looked = one.snapshot.table, one.snapshot.span, 0
        if span is None:
            return
        for begin, end in sweep_windows(*span, swept_at, now):
            moments_asked = {
                "created_at_gte": Instant.from_ns(begin), "created_at_lt": Instant.from_ns(end),
            }  # fmt: skip
            came = [table.schema.empty_table()]
            try:
                asked = ask_table(table, moments_asked)
                for page in fetch(self.client, asked, self.workers, set_aside=True):
                    if page.ignored:  # rather than page through everything
                        log.info("%s: old rows are not swept: window ignored", table.name)
                        return
                    one.take_note(page)
                    came.append(page.rows)
            except ValidationFailed as error:
                log.info("%s: old rows are not swept: %s", table.name, error)
                return
            rows = table.distinct(pa.concat_tables(came))
            known = read_current(one.snapshot, first=begin, end=end)
            looked += known.num_rows
            moved = differing(rows, known)
            one.stage.add(moved)
            one.rows += moved.num_rows
            listed = rows.column("id").combine_chunks()
            one.listed(listed)
            one.look_for(
                known.filter(pc.invert(pc.is_in(known.column("id"), value_set=listed))),
                lambda page: one.stage.add(page.rows),
            )
        noun = "old transfer" if name == "transfers" else "old event"
        self.notes.append(f"looked at {number_of(looked, noun)} again")

    def passed(self, after_it: Manifest) -> dict[str, Any]:
        """What the passes over all rows found: what is gone or back, and the counts and control
        totals where they are not those of the pass before; ``after_it`` is to be published."""
        content: dict[str, Any] = {}

        def note(name: str, lists: Mapping[str, Sequence[Any]], said: Mapping[str, Any]) -> None:
            for kind, entries in lists.items():
                if entries:
                    content.setdefault(kind, {})[name] = entries
            for words, ids in said.items():
                if ids:
                    self.notes.append(f"{name}: {words}: {listed(ids)}")

        for name, unread in self.unread.items():
            rows = unread.new.values()
            note(
                name,
                {"invalid": [[row.key, row.id, row.reason, row.raw] for row in rows],
                 "readable": sorted(unread.read)},
                {"set aside, cannot be read": [f"{row.id or row.key} ({row.reason})"
                                               for row in rows],
                 "read now, not set aside any more": [unread.known[key].id or key
                                                      for key in sorted(unread.read)]},
            )  # fmt: skip
        for name, one in self.fetches.items():
            gone, back = one.answers["gone"], sorted(one.back)
            note(
                name,
                {**one.answers, "back": back, "asked": one.asked,
                 "listed": sorted(one.no_longer_unlisted)},
                {"no longer at the service": gone,
                 "at the service again": back,
                 "refused by the service (403), kept as last seen": one.answers["refused"],
                 "sent twice in a page, with other members each time": sorted(one.contradicted)},
            )  # fmt: skip
            counted = (r.number for r in self.records if name in r.content.get("control", ()))
            last = one.snapshot.last
            new = one.published or (last is not None and last.seq > max(counted, default=0))
            if not (gone or one.back or (one.passed and new)):
                continue
            before = control_known(self.records, name)
            without = one.gone_before.union(gone) - one.back
            after = control_of(self.store.snapshot(name, manifest=after_it), without)
            self.notes += control_lines(name, before, after)
            if changed := control_changes(before, after):
                content.setdefault("control", {})[name] = changed
        if "gone" in content:  # the first publication of the balances that was read without them
            content["observed"] = after_it.number + (self.observed is None)
        return content

    def observe(self) -> None:
        """Read the balances until they belong to the transfers, whatever moves meanwhile."""
        transfers = self.fetches["transfers"]
        stage, table = transfers.stage, transfers.snapshot.table
        # Of rows accepted as gone, too: those balances must be seen without them.
        every = replace(transfers.snapshot, accepted_gone={})
        pending = pairs_of(read_current(every, PAIR_COLUMNS))
        for rows in stage.read(PAIR_COLUMNS):
            pending |= pairs_of(rows)
        balances, unread = self.store.snapshot("balances"), self.unread["balances"]
        invalid: dict[str, InvalidRow] = {}
        observed, answered = balances.table.schema.empty_table(), dict[Pair, int]()
        # Under a clock that stands still or runs behind each is later than those before it.
        newest = -1 if balances.span is None else balances.span[1]
        for _ in range(MAX_ROUNDS):
            with progress_bar(len(pending), "balances", "balances", self.progress) as bar:
                looked, unanswered = observe_balances(
                    self.client, sorted(pending), workers=self.workers, step=bar.update,
                    clock=lambda: max(self.clock(), newest + 1), aside=invalid,
                )  # fmt: skip
            for pair in pending:
                self.unanswered.pop(pair, None)
            self.unanswered |= unanswered
            at = looked.column("observed_at").cast(pa.int64()).to_pylist()
            answered |= zip(_balances_in(looked), at, strict=True)
            observed = pa.concat_tables([observed, looked])
            # Whose balances may have moved meanwhile: those of transfers that have changed since
            # the last fetch, as they are now and as they were known: staged, else stored.
            found: list[Fetched] = []
            transfers.latest = self.clock() + OVERLAP_NS
            transfers.changes(found.append)
            came = [table.schema.empty_table(), *(page.rows for page in found)]
            rows = table.distinct(pa.concat_tables(came))
            ids = rows.column("id").combine_chunks()
            staged = stage.versions(ids)
            known = staged.column("id").combine_chunks()
            unstaged = ids.filter(pc.invert(pc.is_in(ids, known)))
            before = [staged]
            if len(unstaged):  # at rest the rows at the watermark come again, staged a moment ago
                before.append(find_rows(transfers.snapshot, unstaged))
            were = pa.concat_tables([one.replace_schema_metadata() for one in before])
            stage.add(rows)
            pending = pairs_of(differing(rows, were)) | pairs_of(differing(were, rows))
            if not pending:
                break
            # What moved is not what was seen: looked at again, or left out in the end.
            rests = [one not in pending for one in _balances_in(observed)]
            observed = observed.filter(pa.array(rests, pa.bool_()))
        self.observed, self.unsettled = observed, sorted(pending)
        kept = {*_balances_in(observed)}
        self.moving = [(*pair, at) for pair, at in sorted(answered.items()) if pair not in kept]
        shown = [" ".join(pair) for pair in answered if pair not in self.unanswered]
        unread.take(
            pa.array(shown, pa.string()), [one for one in invalid.values() if one.id not in shown]
        )
        if self.unanswered:
            known = read_current(balances, [*PAIR_COLUMNS[:2], "observed_at"])
            last = known.group_by(PAIR_COLUMNS[:2]).aggregate([("observed_at", "max")])
            moments = last.column("observed_at_max").cast(pa.int64()).to_pylist()
            seen = dict(zip(_balances_in(last), moments, strict=True))
            earlier = (entry.query.get("moving", ()) for entry in balances.publications)
            for profile, asset, at in (*chain.from_iterable(earlier), *self.moving):
                seen[profile, asset] = max(at, seen.get((profile, asset), at))
            lost: dict[tuple[str, int], list[tuple[int, str]]] = {}
            for (profile, asset), status in sorted(self.unanswered.items()):
                if (profile, asset) in seen and status != 200:
                    at = seen[profile, asset]
                    self.unreported.append((profile, asset))
                    lost.setdefault((profile, status), []).append((at, asset))
            for (profile, status), mine in lost.items():
                assets, verb = ", ".join(asset for _, asset in mine), "are" if mine[1:] else "is"
                self.notes.append(
                    f"balances: {assets} of {profile} {verb} no longer reported (the service "
                    f"answers {status}); last seen {Instant.from_ns(max(mine)[0])}"
                )

    def publish(self, check_held: Callable[[], None]) -> list[TableSync]:
        """Write the parts of every table, then let them appear."""
        skew = self.client.transport.skew_s
        if abs(skew) > CLOCKS_DIFFER_S:  # what is published would carry a wrong time for good
            way = "behind" if skew > 0 else "ahead of"
            raise StoreError(
                f"this machine's clock is {abs(skew) / 3600:,.0f} hours {way} the service's: "
                "nothing was published; set it right, then sync again"
            )
        pa.default_memory_pool().release_unused()  # of the pages, before memory is at its fullest
        self.published_at = published_at = self.store.now()
        done: list[TableSync] = []
        before = self.store.manifest()
        number, files = before.number + 1, dict(before.files)
        for name, one in self.fetches.items():
            if one.gone_before:
                known = one.stage.versions(pa.array(list(one.gone_before), pa.string()))
                one.back.update(known.column("id").to_pylist())
            changes = Changes(one.snapshot, one.stage)
            covered = {"since": None if one.since is None else str(Instant.from_ns(one.since))}
            marks = {
                kind: {"at": str(Instant.from_ns(mark.at)), "id": mark.id}
                for kind, mark in one.marks.items()
            }
            # Where the rows begin, for the first time or earlier than before, is worth saying even
            # if there are none.
            moved = one.snapshot.begins != one.since
            publication = Publication(number, published_at, query=covered, watermark=marks)
            part = self._draft(one.snapshot, changes.groups(), publication, moved)
            one.published = part is not None
            done.append(
                TableSync(
                    name, one.rows, changes.new, changes.changed, changes.unchanged, one.pages, part
                )
            )
        if self.observed is not None:
            snapshot, count = self.store.snapshot("balances"), self.observed.num_rows
            query: dict[str, Any] = {"since": None, "swept_at": self.swept_at}
            if self.unsettled:
                query["unsettled"] = self.unsettled
            if self.moving:
                query["moving"] = self.moving
            if self.unanswered:
                query["unanswered"] = sorted([*pair, at] for pair, at in self.unanswered.items())
            publication = Publication(number, published_at, query=query)
            groups = all_new(snapshot.table, self.observed)
            # That nothing of what was seen before can be seen any more is worth saying, too.
            lost = bool(self.moving or (snapshot.files and (self.unsettled or self.unanswered)))
            part = self._draft(snapshot, groups, publication, lost)
            done.append(TableSync("balances", count, count, 0, 0, 0, part))
        check_held()
        for draft in self.drafts:
            disk.publish(draft.hidden, draft.path)
            table = draft.path.parent.name
            files[table] = (*files.get(table, ()), draft.file)
        found = self.passed(replace(before, number=number, files=files))
        if self.drafts or found:
            records: list[tuple[Kind, dict[str, Any]]] = [("pass", found)] if found else []
            self.store.commit(check_held, published_at, files, records, service=self.service)
        self.drafts.clear()
        for one in self.fetches.values():
            one.stage.discard()
        return done

    def _draft(
        self,
        snapshot: Snapshot,
        groups: Iterable[pa.Table],
        publication: Publication,
        moved: bool,
    ) -> str | None:
        """Write a part that nobody sees yet; none where there is nothing to say."""
        filled = filter(attrgetter("num_rows"), groups)
        first = next(filled, None)
        if first is None and not moved:
            return None  # most tables of most syncs: nothing goes to the disk for them
        groups = chain([] if first is None else [first], filled)
        del first  # may be large, and is written long before the last one
        name = snapshot.table.name
        header = Header(name, SCHEMA_VERSION, self.service, (publication,))
        draft = write_part(self.store.path / name, "part", snapshot.table, header, groups)
        self.drafts.append(draft)
        return str(draft.path)


# ----------------------------------------------------------------------------- one table


def _balances_in(rows: pa.Table) -> list[Pair]:
    """The profile and asset of each."""
    columns = (rows.column(name).to_pylist() for name in PAIR_COLUMNS[:2])
    return list(zip(*columns, strict=True))


class Watermark(NamedTuple):
    """The newest row known when a fetch began: its time (ns) and its id."""

    at: int
    id: str


_AT: Final = attrgetter("at")


class _Ignored(Exception):
    """The service does not honour a filter that this way of asking relies on."""


@dataclass
class Unread:
    """Of one table the rows ``known`` to be set aside, by key; the ``new`` ones; the keys of those
    that were ``read`` again; and the ``ids`` of all that came now and cannot be read."""

    known: Mapping[str, SetAside]
    new: dict[str, InvalidRow] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)

    def take(self, readable: pa.ChunkedArray, invalid: Sequence[InvalidRow]) -> None:
        """Set aside what cannot be read, unless the same bytes are already; what was, and is
        readable now (the ids) or says something else, is not any more."""
        new = [row for row in invalid if row.key not in self.known]
        self.new |= {row.key: row for row in new}
        self.ids |= {row.id for row in invalid if row.id}
        if self.known:
            came = {*readable.to_pylist(), *(row.id for row in new)}
            self.read |= {row.key for row in self.known.values() if row.id and row.id in came}


@dataclass
class _Fetch:
    """One table in the course of a sync: what is known of it, and what is asked for.

    ``latest`` (ns) is the last moment a watermark may name, clocks that differ a little allowed
    for: one row dated years ahead would otherwise hide all that come after it. ``since``: from
    where on rows are known (ns, ``None``: all). ``marks``: up to where, by ``created`` and
    ``updated``. ``seen`` are the newest rows that came, ``undated``: some lack ``updated_at``;
    ``ahead``: some are of the future; ``left_out``: the ids that were shown before all rows were
    asked for, and came only when they were asked for by name.
    ``passed``: all rows were asked for. ``unlisted`` are the rows that its list left out before,
    and what the service said of each, ``unread`` those that could not be read. What is found now:
    ``answers`` for rows that are unlisted, those ``back`` and ``no_longer_unlisted``, those
    ``asked`` again with the same answer; ids ``contradicted`` within a page.
    """

    client: Client
    snapshot: Snapshot
    stage: Stage
    workers: int
    latest: int
    since: int | None
    marks: dict[str, Watermark]
    unlisted: Mapping[str, Gone]
    unread: Unread
    answers: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in ANSWERS})
    asked: list[str] = field(default_factory=list)
    back: set[str] = field(default_factory=set)
    no_longer_unlisted: set[str] = field(default_factory=set)
    contradicted: set[str] = field(default_factory=set)
    passed: bool = False
    published: bool = field(init=False)
    pages: int = 0
    rows: int = 0
    seen: dict[str, Watermark] = field(default_factory=dict)
    undated: bool = False
    left_out: set[str] = field(default_factory=set)
    ahead: bool = False
    ignored: set[str] = field(default_factory=set)
    unchecked: set[str] = field(default_factory=set)

    @cached_property
    def gone_before(self) -> set[str]:
        """The ids that the service had no more, or refused."""
        return {row.id for row in self.unlisted.values() if row.answer != "there"}

    def changes(self, keep: Keep) -> None:
        """The rows that may have changed since the last fetch, in the cheapest way that the
        service honours; all of them where none can be relied on."""
        table, marks = self.snapshot.table, self.marks
        if (mark := marks.get("updated")) is not None:
            # Rows older than the store's first are asked for, too, and left out: the watermark may
            # be of one of them, and it says what had happened before the balances were looked at.
            bound = Instant.from_ns(mark.at - OVERLAP_NS)
            try:
                self._ask({"updated_at_gte": bound}, keep, expect=[mark.id])
            except (_Ignored, ValidationFailed) as error:
                log.info("%s: not by updated_at: %s", table.name, error)
                del marks["updated"]
            else:
                self._done(max(mark, self.seen.get("updated", mark), key=_AT))
                return
        if (mark := marks.get("created")) is not None:
            begin = mark.at - OVERLAP_NS
            bound = Instant.from_ns(begin if self.since is None else max(begin, self.since))
            came = set[str]()
            try:
                self._ask({"created_at_gte": bound}, keep, expect=[mark.id], came=came)
                if table.name == "transfers":  # all that may still change, stored or just fetched
                    columns, final = ["id", "status"], pa.array(FINAL_STATUSES, pa.string())
                    unseen: dict[str, None] = {}
                    for rows in (
                        read_current(self.snapshot, columns), *self.stage.read(columns)
                    ):  # fmt: skip
                        still = pc.invert(pc.is_in(rows.column("status"), value_set=final))
                        unseen |= dict.fromkeys(rows.filter(still).column("id").to_pylist())
                    wanted = [id_ for id_ in unseen if id_ not in came | self.gone_before]
                    self._ask({"ids": wanted}, keep, expect=wanted)
            except (_Ignored, ValidationFailed) as error:
                log.warning("%s: fetching everything again: %s", table.name, error)
            else:
                self._done(None)
                return
        self.everything(self.since, keep)

    def everything(self, since: int | None, keep: Keep, *, resume: bool = False) -> None:
        """All rows created from ``since`` on, everything ever where it is ``None``; to ``resume``
        a run that died, only what it did not come to: its watermark of updates holds."""
        self.since, table, stage = since, self.snapshot.table, self.stage
        self.passed = True
        if resume and stage.covered:
            begun = stage.note.get("newest")
            dated = [n for n in ("created_at", "updated_at") if n in table.schema.names]
            try:
                for rows in stage.read([*dated, "id"]):
                    self._note(rows, self.seen)
                gaps = missing(stage.covered, (since, None), OVERLAP_NS)
                self._ask({}, keep, workers=self.workers, gaps=gaps)
            except ValidationFailed as error:
                log.info("%s: not by created_at, so from the start: %s", table.name, error)
                stage.discard()
            else:
                self._done(begun and Watermark(*begun))
                return
        before: dict[str, Watermark] = {}
        unreadable: set[str] = set()
        if table.name == "transfers":
            # The newest update before anything else is fetched: what changes while all pages are
            # being read must not be behind the watermark.
            newest_first = {"order_by": "UPDATED_AT", "order": "DESC", "limit": 1}
            try:
                page = first_page(self.client, ask_table(table, newest_first))
                unreadable = {row.id for row in page.invalid if row.id is not None}
                self._note(page.rows, before)
            except ValidationFailed as error:
                log.info("%s: not by updated_at: %s", table.name, error)
        updated = before.get("updated")
        if resume:
            stage.note = {"newest": updated}
        filters = {} if since is None else {"created_at_gte": Instant.from_ns(since)}
        ids = set[str]() if unreadable else None
        self._ask(filters, keep, workers=self.workers, came=ids)
        came = self.seen.get("updated")
        # A version that was shown first and did not come: the list ended early, say.
        self.left_out = unreadable - self.unread.ids - (ids or set())
        if updated is not None and (came is None or came.at < updated.at):
            self.left_out.add(updated.id)
        if self.left_out:
            try:
                self._ask({**filters, "ids": [*self.left_out]}, keep)
            except (_Ignored, ValidationFailed) as error:
                log.info("%s: not by ids: %s", table.name, error)
        self._done(updated)

    def look_for(self, missed: pa.Table, keep: Keep) -> None:
        """Ask for rows that a pass did not bring (``missed``: their ids and moments) in another
        way: a page that was left out, a pass that was cut or a row that moved between pages is no
        proof. What neither a list of the ids nor the service, asked for each, has is ``gone``."""
        table, moment = self.snapshot.table, self.snapshot.table.moment
        known = pa.array([*self.unlisted, *self.unread.ids], pa.string())
        missed = missed.filter(pc.invert(pc.is_in(missed.column("id"), value_set=known)))
        if not missed.num_rows:
            return
        wanted: list[str] = missed.column("id").to_pylist()
        way: dict[str, Any] = {"ids": wanted}
        asked = OPERATIONS[table.operation or ""].query
        if asked is not None and "ids" not in asked.model_fields:
            moments = missed.column(moment).cast(pa.int64())
            low, high = pc.min_max(moments).as_py().values()
            way = {} if low is None else {
                f"{moment}_gte": Instant.from_ns(low), f"{moment}_lt": Instant.from_ns(high + 1),
            }  # fmt: skip
        there = 0
        for id_, answer in self.answered(wanted, way, keep).items():
            self.answers[answer].append(id_)
            there += answer == "there"
        if there:
            log.warning(
                "%s: the list left out %s that the service still has",
                table.name, number_of(there, "row"),
            )  # fmt: skip

    def answered(self, wanted: Sequence[str], way: Mapping[str, Any], keep: Keep) -> dict[str, str]:
        """What the service says of each of these rows: ``there``, where a list that is asked for
        them (``way``) brings it, or Get does; ``gone`` or ``refused``, where Get says so."""
        table, came = self.snapshot.table, set[str]()
        try:
            self._ask(way, keep, came=came)
        except (_Ignored, ValidationFailed) as error:
            log.info("%s: not by %s: %s", table.name, ", ".join(way), error)
        get: Callable[[str], object] | None = {
            "transfers": getattr(self.client, "get_transfer", None),
            "fiat_accounts": getattr(self.client, "get_fiat_account", None),
            "deposit_instructions": getattr(self.client, "get_fiat_deposit_instructions", None),
        }.get(table.name)
        unauthorised = False

        def ask(id_: str) -> str:
            nonlocal unauthorised
            if get is None:
                return "gone"  # of these tables there are only lists
            try:
                ask_by_id(get, id_)
            except NotFound:
                return "gone"
            except ScopeMissing:
                raise  # that is not about this row
            except (AuthenticationFailed, PermissionDenied) as error:
                unauthorised = unauthorised or isinstance(error, AuthenticationFailed)
                return "refused"
            except ProtocolError:
                return "there"  # though it cannot be read
            return "there"

        unknown = [id_ for id_ in wanted if id_ not in came and id_ not in self.unread.ids]
        answers = dict.fromkeys(wanted, "there")
        answers |= zip(unknown, gathered(ask, unknown, max(self.workers, 4)), strict=True)
        if unauthorised:  # of these rows, if the token is good: else this raises
            params = ask_table(table, {"limit": 1}).query.to_params()
            self.client.fetch_page(str(table.operation), params)
        return answers

    def ask_again(self, now: int, keep: Keep) -> None:
        """Ask for what was unlisted a month ago, and for what could not be read: a hundred rows of
        each at most, the oldest answers first."""
        due = sorted(
            (row for row in self.unlisted.values()
             if now - row.asked_at > ASK_AGAIN_NS and row.id not in self.no_longer_unlisted),
            key=attrgetter("asked_at", "id"),
        )[:ASKED_AT_MOST]  # fmt: skip
        listing = OPERATIONS[self.snapshot.table.operation or ""].query
        by_id = listing is not None and "ids" in listing.model_fields
        if due and by_id:
            ids = [row.id for row in due]
            for id_, answer in self.answered(ids, {"ids": ids}, keep).items():
                before = self.unlisted[id_].answer
                if answer == before:
                    self.asked.append(id_)
                    continue
                self.answers[answer].append(id_)
                if before != "there":
                    self.back.add(id_)
        waiting = [row.id for row in self.unread.known.values() if row.id][:ASKED_AT_MOST]
        if waiting and by_id:
            try:
                self._ask({"ids": waiting}, keep)
            except (_Ignored, ValidationFailed) as error:
                log.info("%s: not by ids: %s", self.snapshot.table.name, error)

    def newest(self, since: int | None) -> str | None:
        """The id of the newest row there is, asked for before all others are."""
        begin = {} if since is None else {"created_at_gte": Instant.from_ns(since)}
        asked = ask_table(self.snapshot.table, {"order": "DESC", "limit": 1, **begin})
        page = first_page(self.client, asked)
        ids = [*page.rows.column("id").to_pylist(), *(row.id for row in page.invalid)]
        return next(filter(None, ids), None)

    def look_from_the_other_end(self, newest: str, keep: Keep) -> list[str]:
        """Where all rows were asked for, oldest first, and the ``newest`` one did not come, the
        list ended early: go back from its other end until rows come that came before."""
        table, known = self.snapshot.table, self.unread.ids - self.left_out
        if newest in known or (newest not in self.left_out and self.stage.holds(newest)):
            return []
        for rows in self.stage.read(["id"]):
            known.update(rows.column("id").to_pylist())
        known -= self.left_out
        before = len(known)
        begin = {} if self.since is None else {"created_at_gte": Instant.from_ns(self.since)}
        for page in fetch(
            self.client, ask_table(table, {"order": "DESC", **begin}), 1, set_aside=True
        ):
            self.take_note(page)
            keep(replace(page, covered=None))
            self._note(page.rows, self.seen)
            ids = {*page.rows.column("id").to_pylist(), *(row.id for row in page.invalid if row.id)}
            if page.ignored or (ids and ids <= known):
                break
            known |= ids
        self._done(self.marks.get("updated"))
        left_out = number_of(len(known) - before, "row")
        return [f"{table.name}: the list ended early; {left_out} came from its other end"]

    def listed(self, ids: pa.Array) -> None:
        """Take note of rows that the list has again."""
        came = {*self.unlisted}.intersection(ids.to_pylist())
        self.back |= came & self.gone_before
        self.no_longer_unlisted |= came - self.gone_before

    def take_note(self, page: Fetched) -> None:
        """Of what is odd in it."""
        self.unread.take(page.rows.column("id"), page.invalid)
        self.contradicted.update(contradicted_ids(page))

    def _ask(
        self,
        filters: Mapping[str, Any],
        keep: Keep,
        *,
        expect: Iterable[str] = (),
        came: set[str] | None = None,
        workers: int = 1,
        gaps: Sequence[Span] | None = None,
    ) -> None:
        """Keep all pages of one question; ``came`` gets the ids.

        Raises ``_Ignored`` where the answers cannot be relied on: a filter that rows are missed
        with ignored, an id of ``expect`` left out, rows by update that do not say when.
        """
        by_update, missed = "updated_at_gte" in filters, set(expect)
        asked = ask_table(self.snapshot.table, filters)
        for page in fetch(self.client, asked, workers, gaps, set_aside=True):
            rows, self.pages = page.rows, self.pages + 1
            self.take_note(page)
            missed.difference_update(row.id for row in page.invalid if row.id is not None)
            if by_update and self.since is not None:
                created = rows.column("created_at").cast(pa.int64())
                since = pa.scalar(self.since, pa.int64())
                page = replace(page, rows=rows.filter(pc.greater_equal(created, since)))
            keep(page)
            self._note(rows, self.seen)
            if ignored := page.ignored & {"updated_at_gte", "ids"}:
                raise _Ignored(f"the service ignores {', '.join(ignored)}")
            if by_update and rows.column("updated_at").null_count:
                raise _Ignored("rows without updated_at")
            self.ignored |= page.ignored
            self.unchecked |= page.unchecked
            if missed or came is not None:
                ids = rows.column("id").to_pylist()
                missed.difference_update(ids)
                if came is not None:
                    came.update(ids)
        if missed:
            raise _Ignored(f"{shorten(min(missed))} is missing from the answer")

    def _note(self, rows: pa.Table, seen: dict[str, Watermark]) -> None:
        """Keep the newest moments of ``rows`` in ``seen``, unless it has newer ones."""
        for name in ("created", "updated"):
            column = f"{name}_at"
            if column not in rows.schema.names or rows.num_rows == rows.column(column).null_count:
                continue
            moments = numbers(rows.column(column).cast(pa.int64()).fill_null(_NO_TIME))
            place = int(moments.argmax())
            if moments[place] > self.latest:
                log.log(
                    logging.INFO if self.ahead else logging.WARNING,
                    "%s: %s of some rows is %s, in the future by this machine's clock; the next "
                    "sync does not rely on it",
                    self.snapshot.table.name, column, Instant.from_ns(int(moments[place])),
                )  # fmt: skip
                self.ahead = True
                moments = np.where(moments > self.latest, _NO_TIME, moments)
                place = int(moments.argmax())
            at = int(moments[place])
            if at > (seen[name].at if name in seen else _NO_TIME):
                seen[name] = Watermark(at, rows.column("id")[place].as_py())
        if self.snapshot.table.name == "transfers" and rows.column("updated_at").null_count:
            self.undated = True

    def _done(self, updated: Watermark | None) -> None:
        if self.ignored or self.unchecked:
            warn_of_filters(self.snapshot.table.name, self.ignored, self.unchecked)
        found = [marks["created"] for marks in (self.marks, self.seen) if "created" in marks]
        self.marks = {"created": max(found, key=_AT)} if found else {}
        if updated is not None and not self.undated:
            # a service that filters by updated_at never shows what has none
            self.marks["updated"] = updated
