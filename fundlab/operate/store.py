"""``fl.Store``: the store with the service it is synced from and the payments that its user made.

The one place that knows them all: the store itself (:mod:`fundlab.store`) knows files and rows, no
client and no journal. And ``fl.sample()``, the store that comes with fundlab.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fundlab.base.errors import FundlabError, StoreDamaged, StoreError
from fundlab.base.paths import local_path
from fundlab.base.values import minute_text
from fundlab.evidence.closes import Close, closes_of, seal
from fundlab.evidence.observations import Problem
from fundlab.evidence.table_store import TableStore
from fundlab.payments.journal_files import (
    copy_journal,
    damaged_journals,
    journal_entries,
    journal_lanes,
    journals_of,
    put_back,
)
from fundlab.payments.reconciliation import Difference, accept_payments
from fundlab.settings.labels import names_given
from fundlab.settings.settings import store_folder
from fundlab.store.remote import StorePath, locate
from fundlab.store.snapshot import steadily
from fundlab.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

    from fundlab.analysis.closing import Restatement
    from fundlab.client.client import Client  # which takes long to load: reading does without it
    from fundlab.display import Card
    from fundlab.evidence.anchors import Anchor
    from fundlab.evidence.backup import Backup
    from fundlab.evidence.repair import Repair
    from fundlab.evidence.verify import Verification
    from fundlab.sync.run import SyncResult
    from fundlab.tables.transfers import Basis

log = logging.getLogger(__name__)
_PACKAGE: Final = Path(__file__).parents[1]
_SAMPLES: Final = (_PACKAGE / "data" / "sample", _PACKAGE.parent / "data" / "sample")
"""In an installed package, and in a clone of the project."""


class Store(TableStore):
    """A store at ``path``, created by the first sync; without one, the store of the settings.

    Times given as ``as_of``, ``since`` and ``until`` are ISO text, ``datetime`` or ``Timestamp``,
    with a zone or in UTC. ``clock`` gives nanoseconds since 1970. A ``read_only`` store, as
    the sample is, is opened for reading: what would change it, raises ``StoreError``.

    ``path`` is a folder (``~`` is the home, and it stays the same place where the process changes
    its folder), or anywhere else: a URI (``s3://bucket/books``, ``gs://…``, ``memory://…``) or a
    key in ``filesystem``, one of ``pyarrow.fs`` or of ``fsspec`` (``pip install
    'fundlab[remote]'``). Elsewhere each publication is a write that succeeds only where nothing has
    its name: of two machines that publish at once one does, and the other gets ``StoreLocked``.
    Storage that cannot promise that is found out at opening, by a write, and is for reading only: a
    warning says why. Journals of payments are always files of this machine.

    The files are Parquet, yet not for reading with other tools as they are: a sum over them counts
    replaced versions, Polars refuses parts beside a base, and Spark the nanoseconds
    (``spark.sql.legacy.parquet.nanosAsLong``). ``publish`` writes files for any tool.

    >>> store = fl.Store(folder / "books")
    >>> done = store.sync(client)
    >>> done["transfers"].new
    50
    >>> store.pin("october")
    >>> len(store.read("transfers", pin="october", columns=["id", "total"]))
    50
    >>> store.verify().ok
    True
    """

    def __init__(
        self,
        path: str | StorePath | None = None,
        *,
        filesystem: Any = None,
        clock: Callable[[], int] = time.time_ns,
        read_only: bool = False,
    ) -> None:
        path = store_folder() if path is None else path
        super().__init__(path, filesystem=filesystem, clock=clock, read_only=read_only)
        recipe = Path(self.name).parent / "make_sample.py"  # as a clone has, installed or not
        installed = self.name in map(os.path.realpath, _SAMPLES)
        self._read_only |= installed or (recipe.exists() and Path(self.name).name == "sample")

    def sync(
        self,
        client: Client,
        tables: Sequence[str] | None = None,
        since: str | datetime | None = None,
        workers: int = 1,
        full: bool = False,
        progress: bool | None = None,
    ) -> SyncResult:
        """Bring the store up to date with the service; see ``fundlab.sync``.

        >>> done = store.sync(client)
        >>> done["transfers"].new, done["transfers"].unchanged
        (0, 1)
        """
        from fundlab.sync.run import sync

        done = sync(
            self, client, tables=tables, since=since, workers=workers, full=full, progress=progress,
            clock=self.clock,
        )  # fmt: skip
        try:
            before = self.runs().get("sync", {}).get("tables", {})
        except StoreDamaged as error:
            log.warning("%s", error)
            before = {}
        self.note_run("sync", {"tables": before | {one.table: done.at for one in done.tables}})
        return done

    def accept_payments(
        self, ids: str | Sequence[str] | None = None, *, by: str, reason: str
    ) -> list[Difference]:
        """Record that it is known why these payments (a ``ref_id`` or the id of a transfer each;
        all by default) are not at the service as the journal has them. What is accepted makes no
        sync or status end otherwise and alarms no report; they count it, and `fundlab.journal`
        says who and why. A payment that comes to differ otherwise differs anew. Gives what was
        accepted. Raises ``InvalidRequest`` for a payment that does not differ, or where ``by`` or
        ``reason`` is empty.

        >>> store.accept_payments(by="ann", reason="the bank's fee rose on 1 October")
        []
        """
        return accept_payments(self, journal_entries(self), ids, by=by, reason=reason)

    def retry_set_aside(self, client: Client) -> int:
        """Ask the service again for the rows that are set aside, with a sync of their tables, and
        of the balances where transfers are; how many stay so that nobody accepted. Raises what
        ``sync`` raises.

        >>> store.retry_set_aside(client)
        0
        """
        rows = self.set_aside()
        tables = set(rows.loc[rows["state"] == "open", "table"])
        if tables:
            more = {"balances"} if "transfers" in tables else set()
            self.sync(client, sorted(tables | more))
        return int((self.set_aside()["state"] == "open").sum())

    def backup(self, destination: str | StorePath) -> Backup:
        """Copy to ``destination`` (a folder or a URI) what it lacks of this store and of the
        journals of its service, each file read back; of a store that does not say whose it is yet,
        after a first sync that failed say, all journals of this user. Nothing there is ever
        removed, and a sync meanwhile does no harm. Raises ``StoreError`` for a place
        within a store.

        >>> store.backup(folder / "copy").copied > 0
        True
        >>> store.backup(folder / "copy").copied
        0
        """
        from fundlab.evidence.backup import back_up

        with tempfile.TemporaryDirectory(prefix="fundlab-") as folder:
            copies = {}
            for number, path in enumerate(journals_of(self, unless_known=True)):
                copies[path.name] = Path(folder) / f"{number}.sqlite"
                copy_journal(path, copies[path.name])
            return back_up(self.path, locate(destination), copies, self.clock())

    def repair(self, client: Client | None = None) -> Repair:
        """Say of each damaged or missing file what is lost, set aside what cannot be read (in
        ``set-aside``; nothing is removed), record it, and fetch it again from the service of
        ``client``; without one the next ``sync(full=True)`` does.

        Records, pins and journals come back from a backup only. Raises what ``sync`` raises.

        >>> str(store.repair())
        'nothing is damaged or missing'
        """
        from fundlab.evidence.repair import look_for_damage, set_aside

        with self.lock() as check_held:
            damage = look_for_damage(self)
            if damage.aside or damage.lost:
                set_aside(self, damage, check_held)
        damage.lines += [
            f"the journal {path.name}: {what}" for path, what in damaged_journals(self)
        ]
        if damage.tables and client is not None:
            self.sync(client, sorted(damage.tables), full=True)
        return damage

    def anchor(self) -> Anchor:
        """One line (``.line``) that stands for everything there is: every version of every row,
        closes, annotations, passes, and the journals of payments to its service. Keep it elsewhere;
        ``verify(anchor=…)`` proves with it that all of this is still there, as it was. Reads every
        row.

        >>> line = store.anchor().line
        >>> store.verify(anchor=line).ok
        True
        """
        from fundlab.evidence.anchors import make_anchor, table_lanes

        manifest = self.manifest()
        return make_anchor(
            {**table_lanes(self), **journal_lanes(self)}, manifest.number, manifest.hash
        )

    def verify(self, anchor: str | os.PathLike[str] | None = None) -> Verification:
        """Read every byte and check it: files, pages, schemas, ids, the invariants of transfers,
        the change between any two balances observed against the transfers in between, pins, and
        this user's journals of payments to its service.

        With ``anchor`` (a line, or the file of one: :meth:`anchor`) also that what was anchored is
        still there: what was removed, rolled back, rewritten, reordered or cut is named. Finds and
        names problems rather than raising; ``.ok`` is true when there are none. Raises
        ``InvalidRequest`` for what is not an anchor, ``StoreError`` where there is no store.

        >>> store.verify().ok
        True
        """
        return self._verified(anchor)[0]

    def _verified(
        self, anchor: str | os.PathLike[str] | None = None
    ) -> tuple[Verification, list[Restatement] | None]:
        """And the closed periods that have moved, where no file is damaged."""
        from fundlab.evidence.anchors import check_anchor, read_anchor
        from fundlab.evidence.verify import verify_store  # a sync has no use for its engines

        wanted = None if anchor is None else read_anchor(anchor)
        if wanted is None:
            self.check_there()  # of a store that is not there nothing is wrong
        verification = verify_store(self)
        wrong = [
            Problem("journal", "file", path.name, "intact", what)
            for path, what in damaged_journals(self)
        ]
        if wanted is not None:
            try:
                wrong += check_anchor(wanted, self.anchor())
            except (StoreError, OSError) as error:
                said = f"not to be read ({error})"
                wrong.append(Problem("anchor", "anchor", "what was anchored", "as it was", said))
        moved = None if verification.is_damaged else moved_periods(self)
        verification = replace(
            verification,
            problems=(*verification.problems, *wrong),
            moved=tuple(map(str, moved or ())),
        )
        self.note_run("verify", {"problems": verification.count})
        return verification, moved

    def close(
        self,
        period: str,
        basis: Basis = "settled",
        by: str | None = None,
        note: str | None = None,
        *,
        with_breaks: str | None = None,
        restate: str | None = None,
        tz: str | None = None,
    ) -> Close:
        """Close ``period`` (``2026-10``, ``2026-Q4``, …) and keep it: the store is verified, then
        a pin, the roll-forward of every balance, the open items and the figures of the report are
        frozen in a record that nothing rewrites. Later reports begin with its closing.

        ``basis``: a transfer belongs to the period in which it ``settled`` or was ``created``.
        ``tz`` is the zone of the period's days, by default the one it was last closed in, else UTC.
        Raises ``CloseRefused`` with what stands in the way (its ``obstacles``); ``with_breaks`` is
        the reason to close in spite of breaks, which the record keeps. A closed period that has
        moved is accepted as it is known now with ``restate``, the reason. Raises
        ``InvalidRequest`` for a period that is closed already and has not moved, or in another
        zone.

        >>> store.close("2026-10", by="Ana").period
        '2026-10'
        >>> store.closes()[["period", "basis", "by", "state"]].values.tolist()
        [['2026-10', 'settled', 'Ana', 'closed']]
        """
        from fundlab.reports import freeze
        from fundlab.reports.inputs import Held, Seen

        with self.lock() as check_held:
            (found, moved), rows = self._verified(), Held(self, basis)
            content = freeze(
                self, found, period, basis=basis, by=by, note=note,
                with_breaks=with_breaks, restate=restate, tz=tz, rows=rows, moved=moved,
            )  # fmt: skip
            seen = None if found.judgement is None else Seen(found.judgement, rows)
            closed = seal(self, content, check_held, seen)
            rows.keep_to(closed.pin)
            return closed

    def card(self) -> Card:
        """The store at a glance: its service, last sync, pins and closes, and of each table how
        many rows are current and from when to when they are. Read from the files' footers."""
        from fundlab.display import Card, Cell, Row, Table  # which loads pandas

        place = f"Store at {self.path}" + " · read-only" * self._read_only
        try:
            service = self.service()
            if service is None:
                return Card(place, notes=("empty; fill it: store.sync(fl.connect())",))
            found = {name: steadily(lambda name=name: self.snapshot(name)) for name in TABLES}  # type: ignore[misc]
            pins, closes = list(self.pins()), self.closes()
        except (FundlabError, OSError) as error:
            return Card(place, warnings=(str(error),), notes=("store.verify() says all of it",))
        published = [one.last.published_at for one in found.values() if one.last is not None]
        begins = found["transfers"].begins
        rows = [
            Row(
                "service",
                service.get("base_url", "not named"),
                detail=f"as {service['client_id']}" if service else "",
            ),
            Row("last new rows", minute_text(max(published, default=None))),
        ]
        if begins is not None:
            rows.append(Row("begins", minute_text(begins), detail="openings are the service's"))
        rows += [Row("pins", ", ".join(pins))] * bool(pins)
        if len(closes):
            closed = sorted(closes.loc[closes["state"] == "closed", "period"].unique())
            rows.append(Row("closed", ", ".join(closed)))
        lines = []
        for name, snapshot in found.items():
            if snapshot.last is None:
                continue
            parts = snapshot.files
            first, last = snapshot.span or (None, None)
            current = sum(part.starts[part.live_groups] for part in parts)
            current -= sum(sum(part.replacing.values()) for part in parts)
            lines.append((
                Cell(name), Cell(f"{current:,}"), Cell(minute_text(first)), Cell(minute_text(last)),
                Cell(minute_text(snapshot.last.published_at)),
            ))  # fmt: skip
        table = Table(
            (("table", "text"), ("current rows", "number"), ("from", "time"), ("to", "time"),
             ("last new rows", "time")),
            tuple(lines),
        )  # fmt: skip
        follows = 'store.read("transfers") · fl.reconcile.judge(store) · fl.report(store)'
        return Card(place, tuple(rows), tables=(table,), notes=(follows,))

    def __repr__(self) -> str:
        return repr(self.card())

    def _repr_html_(self) -> str:
        return self.card()._repr_html_()

    def names(self) -> dict[str, str]:
        """What accounts (by their ids: bank and last digits), addresses (their ends, nickname) and
        deposit instructions (by their ids: the memo) are called, with the user's own names, those
        of profiles too: for ``fl.show(…, names=store.names())`` and ``frame["profile_id"].map``.
        Nothing that it calls them can be paid to. ``fl.id_of`` is the way back.

        >>> names = fl.sample().names()
        >>> names["37f447e2-2d7d-4635-ace9-061b9ec79d6b"], names[fl.id_of("Treasury")]
        ('••••9840 First Example Bank', 'Treasury')
        """
        from fundlab.reports.figures import Recipients

        given = names_given()
        memos = self.read("deposit_instructions", columns=["id", "memo_id"]).dropna()
        said = {id_: given.get(id_, f"memo {memo}") for id_, memo in memos.itertuples(index=False)}
        recipients = Recipients(self.read("fiat_accounts"), self.read("addresses"), given)
        return {**given, **said, **recipients.by_id()}

    def restatements(self) -> pd.DataFrame:
        """What leads from each closed period that has moved to what is known of it now, transfer
        by transfer: ``period``, ``basis``, ``profile_id``, ``asset``, ``line``, ``type``,
        ``cause`` (``late``, ``back_dated``, ``status``, ``amount``, ``row``, ``disappeared``,
        ``opening``), ``transfer_id``, ``then``, ``now``, ``difference``. Empty while none moved.

        >>> store.restatements().empty
        True
        """
        from fundlab.reports.figures import restatements

        return restatements(moved_periods(self))


def moved_periods(store: TableStore) -> list[Restatement]:
    """The closed periods that have moved since. Where none is closed nothing is loaded for it:
    pandas and DuckDB take half a second."""
    if all(one.state != "closed" for one in closes_of(store.records())):
        return []
    from fundlab.analysis.closing import restatements

    return restatements(store)


def restored(source: str | StorePath, target: str | Path) -> tuple[Store, list[str]]:
    """The store of the newest backup at ``source``, in the new folder ``target``, each file
    checked; and what became of its journals, in words. A journal comes back only where there is
    none, and pays nothing before ``fl.resume`` has asked the service about what came after.

    Raises ``StoreError`` where ``target`` holds anything or there is no backup, ``StoreDamaged``
    where a file of the backup is not what was written.
    """
    from fundlab.evidence.backup import restore

    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="fundlab-") as folder:
        done = restore(
            source, local_path(target, "store"), Path(folder),
            lambda path, at: said.append(put_back(path, at)),
        )  # fmt: skip
    return Store(target), [str(done), *said]


def sample() -> Store:
    """The sample store, read-only: 3,000 transfers of four profiles in ten assets, with events,
    balances, accounts and addresses, from November 2025 to 2 November 2026; the pin ``october``
    is the state before the last weekend. ``data/make_sample.py`` makes it from the sandbox's seed.

    Raises ``StoreError`` where it was not installed.

    >>> sample = fl.sample()
    >>> len(sample.read("transfers"))
    3000
    >>> sample.verify().ok
    True
    """
    for path in _SAMPLES:
        if path.is_dir():
            return Store(path)
    raise StoreError(f"the sample store is not at {_SAMPLES[0]}; install fundlab again")
