"""The store: a folder of immutable Parquet files that only ever grows, one sub-folder a table.

A sync adds one part with the rows that are new or changed. The newest version of a row wins on
read; every version stays readable (``history``), and what was known at a time (``as_of``) is what
had been published until then. The files are plain Parquet, but hold replaced versions too, and
times to the nanosecond: for other tools there is ``export_current``.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.errors import InvalidRequest, StoreChanged, StoreDamaged, StoreError
from fundlab.base.values import Instant, moment_ns
from fundlab.evidence.anchors import table_lane
from fundlab.evidence.closes import Close, annotations_table, closes_of, closes_table
from fundlab.evidence.observations import Accounts, asserted_balances, moved_since, read_accounts
from fundlab.evidence.quarantine import (
    open_lines,
    set_aside_rows,
    set_aside_table,
    with_evidence,
)
from fundlab.evidence.vanished_rows import (
    Gone,
    accepted_gone,
    gone_lines,
    gone_rows,
    gone_table,
    unlisted_rows,
    unlisted_table,
)
from fundlab.store import disk
from fundlab.store.compaction import merge_files, remove_superseded
from fundlab.store.manifests import (
    MANIFESTS,
    File,
    Manifest,
    beaten,
    is_newest,
    read_manifest,
    settle_head,
    why_read_only,
    write_manifest,
)
from fundlab.store.parts import Draft, damaged
from fundlab.store.publishing import (
    Published,
    export_files,
    publish_delta,
    publish_parquet,
    published_tables,
    write_current,
)
from fundlab.store.records import (
    RECORDS,
    Kind,
    Record,
    check_texts,
    is_pin_name,
    pins_of,
    read_record,
    read_records,
    write_record,
)
from fundlab.store.remote import RemotePath, StorePath, locate
from fundlab.store.runs import RUNS, Run, read_runs, sweep_notes, write_run
from fundlab.store.scan import scan_with_duckdb, scan_with_spark
from fundlab.store.settlement_times import ADDED, settlements, with_settlement
from fundlab.store.snapshot import (
    Snapshot,
    read_current,
    read_history,
    steadily,
    take_snapshot,
)
from fundlab.tables.frames import to_frame
from fundlab.tables.schema import INSTANT_TYPE, TABLES, Table, find_table

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    from pyspark.sql import SparkSession

_BANK_ENTRY: Final = re.compile("bank-[0-9a-f]{20}", re.ASCII)
_CLOCKS_DIFFER_NS: Final = 86_400 * 10**9
log = logging.getLogger(__name__)

Moment = str | datetime


class TableStore:
    """The tables at ``path``, on their own: ``fl.Store`` is this with the service and the journal.

    ``clock`` gives nanoseconds since 1970. What would write to a ``read_only`` store raises
    ``StoreError``.
    """

    def __init__(
        self,
        path: str | StorePath,
        *,
        filesystem: Any = None,
        clock: Callable[[], int] = time.time_ns,
        read_only: bool = False,
    ) -> None:
        self.path = locate(path, filesystem)
        self._read_only = read_only
        self._refusal = (
            "was opened read-only; copy the folder and open the copy with fl.Store to change it"
        )
        why = (
            why_read_only(self.path) if isinstance(self.path, RemotePath) and not read_only else ""
        )
        if why:
            self._read_only, self._refusal = True, f"is open for reading only: {why}"
            log.warning("%s %s", self.path, self._refusal)
        if isinstance(self.path, Path) and self.path.is_file():
            raise InvalidRequest(f"path={str(path)!r} is a file; a store is a folder")
        self.clock = clock
        self._held: Manifest | None = None  # what a run that writes goes on from
        self.name = os.path.realpath(self.path) if isinstance(self.path, Path) else str(self.path)
        """By whatever link it is reached."""

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    # ------------------------------------------------------------------------ reading

    def read(
        self,
        table: str,
        as_of: Moment | None = None,
        columns: Sequence[str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        *,
        pin: str | None = None,
        profile_id: str | Sequence[str] | None = None,
        settled: bool = False,
    ) -> pd.DataFrame:
        """The newest version of each row as a typed DataFrame, by ``created_at``, ties by ``id``.

        ``as_of`` (or ``pin``) gives what was known then. ``since`` includes, ``until`` excludes,
        both on ``created_at`` (of balances: ``observed_at``). Only the ``columns``, row groups and
        profiles asked for are read. A table never synced is empty.

        ``settled``, of transfers: two more columns say when each completed one settled, and from
        where that is known: ``settled_at``, and ``settled_from``: ``event`` (its ``….completed``
        event, of the events synced), ``updated_at`` (of the version first seen completed) or
        ``seen`` (when that version was published).

        The frame knows where its rows begin, and where ``until`` cut any off: ``frame.attrs`` are
        those of :meth:`known`.

        Raises ``InvalidRequest`` for a table, column, time or pin that does not exist,
        ``StoreError`` where there is no store, and ``StoreDamaged`` where a file is not what was
        written.

        >>> store.read("transfers", since="2026-10-01", columns=["id", "total"]).dtypes["total"]
        DecimalDtype()
        """
        found = find_table(table)
        names = _checked_columns(found, columns)
        keys = [name for name in found.order if name not in names]
        first, end = _bound(since, "since"), _bound(until, "until")
        where = _profiles(found, profile_id)

        def look() -> tuple[pa.Table, dict[str, Any]]:
            manifest = self.manifest()
            snapshot = self.current(table, as_of, pin=pin, manifest=manifest)
            rows = read_current(snapshot, [*names, *keys], first=first, end=end, where=where)
            if settled:
                rows = with_settlement(rows, self._settlements(snapshot, as_of, pin, manifest))
            return rows, self._known(snapshot, first, as_of, pin, end, manifest)

        rows, known = steadily(look)
        also = ADDED if settled else ()
        frame = to_frame(found.in_order(rows).select([*names, *also]))
        frame.attrs.update(known)
        return frame

    def read_arrow(
        self,
        table: str,
        as_of: Moment | None = None,
        columns: Sequence[str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        *,
        pin: str | None = None,
        profile_id: str | Sequence[str] | None = None,
        settled: bool = False,
    ) -> pa.Table:
        """The rows of ``read`` as an Arrow table, in the order of the files: faster.

        >>> store.read_arrow("transfers", columns=["total"]).schema.field("total").type
        Decimal128Type(decimal128(38, 18))
        """
        found = find_table(table)
        names = _checked_columns(found, columns)
        first, end = _bound(since, "since"), _bound(until, "until")
        where = _profiles(found, profile_id)

        def look() -> pa.Table:
            manifest = self.manifest()
            snapshot = self.current(table, as_of, pin=pin, manifest=manifest)
            wanted = [*names, *(["id"] if settled and "id" not in names else [])]
            rows = read_current(snapshot, wanted, first=first, end=end, where=where).select(wanted)
            if not settled:
                return rows
            rows = with_settlement(rows, self._settlements(snapshot, as_of, pin, manifest))
            return rows.select([*names, *ADDED])

        return steadily(look)

    def _settlements(
        self, snapshot: Snapshot, as_of: Moment | None, pin: str | None, manifest: Manifest
    ) -> pa.Table:
        """When the transfers of ``snapshot`` settled, as known at the same moment."""
        if snapshot.table.name != "transfers":
            raise InvalidRequest(
                f"settled=True is for transfers; {snapshot.table.name} has no settled_at"
            )
        events = self.snapshot("events", as_of, pin=pin, manifest=manifest)
        return settlements(snapshot, events)

    def history(self, table: str) -> pd.DataFrame:
        """Every version of every row, with ``published_at``: when the store learned of it, and
        ``gone_at``: since when the service does not list the row any more, if so.

        In order of publication, then as ``read``.

        >>> store.history("transfers")["published_at"].nunique()
        1
        """
        found = find_table(table)
        rows = steadily(lambda: read_history(self.snapshot(table)))
        gone = [one for one in self.gone_rows() if one.table == table and one.back_at is None]
        ids, since = [one.id for one in gone], [one.gone_at for one in gone]
        moments = pa.array(since, pa.int64()).cast(INSTANT_TYPE)
        at = pa.nulls(rows.num_rows, INSTANT_TYPE)
        if gone:
            at = moments.take(pc.index_in(rows.column("id"), pa.array(ids, pa.string())))
        return to_frame(rows.append_column("gone_at", at), found)

    def scan(
        self,
        table: str,
        engine: Literal["auto", "duckdb", "spark"] = "auto",
        as_of: Moment | None = None,
        *,
        pin: str | None = None,
        connection: duckdb.DuckDBPyConnection | None = None,
        memory_limit: str | None = None,
        spark: SparkSession | None = None,
        settled: bool = False,
    ) -> Any:
        """The rows of ``read``, lazily: for more rows than memory holds. With ``settled`` its two
        columns, which are found at once and kept in memory, stand beside them.

        ``engine="auto"`` is Spark where a session ``spark`` is given, else DuckDB. Spark gives a
        DataFrame whose moments are integer nanoseconds; DuckDB a relation on ``connection``, by
        default a new one in UTC that spills into a private folder beyond ``memory_limit``, such as
        ``"2GB"`` (by default half of the memory there is). Raises ``InvalidRequest`` for an engine
        that is not there and a limit that is not a size, ``StoreDamaged`` for a file that is not
        what was written.

        Engines verify no checksums. So the call reads every byte of the files and checks it, of
        each file once in a process and again after it changed (a second for about a gigabyte; of a
        store elsewhere the files are fetched for it). What happens to a file between the call and
        a query, or on the disk of another machine of a cluster, is not noticed, or is an error of
        the engine: ``read`` checks the very pages it gives.

        DuckDB shows and compares moments in its connection's time zone: ``SET TimeZone = 'UTC'`` on
        one of your own. ``.to_arrow_table()`` keeps the nanoseconds of moments, which
        ``.fetchall()`` cuts. A relation reads the files there were, which stay for a while
        after a compaction (see ``compact``): scan anew after that.

        >>> store.scan("transfers").aggregate("status, count(*) AS count").order("count").fetchall()
        [('FAILED', 1), ('PENDING', 3), ('COMPLETED', 46)]
        """
        if engine not in ("auto", "duckdb", "spark"):
            raise InvalidRequest(
                f"engine {engine!r} is unknown; there are 'auto', 'duckdb' and 'spark'"
            )
        if engine == "spark" or (engine == "auto" and spark is not None):
            if connection is not None or memory_limit is not None:
                raise InvalidRequest("connection and memory_limit are DuckDB's; Spark has its own")
            if spark is None:
                raise InvalidRequest("engine='spark' needs a session: give spark=session")

        def look() -> Any:
            manifest = self.manifest()
            snapshot = self.current(table, as_of, pin=pin, manifest=manifest)
            known = self._settlements(snapshot, as_of, pin, manifest) if settled else None
            if spark is not None:
                return scan_with_spark(snapshot, spark, known)
            return scan_with_duckdb(snapshot, connection, memory_limit, known)

        return steadily(look)

    def export_current(self, folder: str | os.PathLike[str]) -> dict[str, Path]:
        """The current rows of every table as ``folder/<table>.parquet``, for any tool: DuckDB,
        Polars, Spark, pandas, pyarrow, with nothing to set.

        The columns of ``read``, with two differences: a moment is cut to the microseconds that
        every tool has, and its nanoseconds since 1970 stand beside it as an integer, ``created_at``
        as ``created_at_ns``. Amounts are ``decimal(38, 18)`` and sums of them exact; in pandas read
        them with ``dtype_backend="pyarrow"``, or with ``fl.read_parquet``. Each file is replaced in
        one step; run it after each sync (``fundlab sync --export DIR`` does). Returns the file of
        each table.

        Raises ``InvalidRequest`` for a folder within the store, ``StoreError`` where the folder
        cannot be written, ``StoreDamaged`` where a file of the store is not what was written.

        >>> files = store.export_current(folder / "current")
        >>> current = fl.read_parquet(files["transfers"])
        >>> current["total"].sum() == store.read("transfers")["total"].sum()
        True
        """
        files = export_files(self.path, folder)
        # Balances come last, so that going backwards no transfer they belong to is missing.
        for table, path in reversed(files.items()):
            steadily(lambda table=table, path=path: write_current(self.current(table), path))  # type: ignore[misc]
        return files

    def publish(
        self, destination: str | os.PathLike[str], format: Literal["parquet", "delta"] = "parquet"
    ) -> dict[str, Published]:
        """The current rows of every table in ``destination``, a folder or a URI such as
        ``s3://bucket/funds``, for any engine; of what is there only the months are written again in
        which a row changed.

        The columns are those of ``export_current``. Each table is a folder: of Parquet files
        ``month=2026-10/rows.parquet``, or a Delta table with the column ``month`` (``pip install
        'fundlab[delta]'``), by ``created_at`` in UTC, of balances ``observed_at``. A file is
        replaced in one step, and so are all changed months of a Delta table; Delta keeps what was
        replaced until it is vacuumed. A table without a row has no Parquet file. Returns what
        became of each table.

        Raises ``InvalidRequest`` for a format there is not and a place within the store,
        ``StoreError`` where it cannot be written, ``StoreDamaged`` where a file of the store is not
        what was written.

        >>> first = store.publish(folder / "open")["transfers"]
        >>> again = store.publish(folder / "open")["transfers"]
        >>> len(first.written) == again.kept > 0, again.written, again.bytes
        (True, (), 0)
        """
        folders = published_tables(self.path, destination, format)
        write = publish_delta if format == "delta" else publish_parquet
        return {
            table: steadily(lambda table=table, folder=folder: write(self.current(table), folder))  # type: ignore[misc]
            for table, folder in reversed(folders.items())
        }

    def manifest(self) -> Manifest:
        """Which files count, as published last. Raises ``StoreDamaged`` where that is lost."""
        # Nobody else publishes while this run holds the lock; what it publishes is held, too.
        return read_manifest(self.path) if self._held is None else self._held

    def snapshot(
        self,
        table: str,
        as_of: Moment | None = None,
        *,
        pin: str | None = None,
        manifest: Manifest | None = None,
    ) -> Snapshot:
        """The files that hold ``table`` now, as of a time, or at a pin; those of ``manifest``,
        where several tables are to be of one publication. Raises ``StoreError`` where there is no
        store, ``StoreDamaged`` for a file that is lost or not what was written."""
        if as_of is not None and pin is not None:
            raise InvalidRequest("give either as_of or pin, not both")
        found, until = find_table(table), None if as_of is None else moment_ns(as_of, "as_of")
        known = self.manifest() if manifest is None else manifest
        if not known.number:
            self.check_there()
        limit = None if pin is None else self._pinned(pin, table, known)
        folder = self.path / found.name
        try:
            return take_snapshot(
                folder, found, known.files.get(found.name, ()), limit=limit, as_of=until
            )
        except StoreChanged as error:
            if not is_newest(self.path, known):
                raise
            lost = [one.name for one in known.files[found.name] if not (folder / one.name).exists()]
            raise damaged(folder / min(lost, default=""), "is missing") from error

    def check_there(self) -> None:
        """Raises ``StoreError`` for a folder in which no sync ever began: a mistyped path would
        read as a store without a row."""
        begun = (".lock", RUNS, MANIFESTS)
        if isinstance(self.path, Path) and not any((self.path / name).exists() for name in begun):
            raise StoreError(
                f"there is no store at {self.path}; check the path, or make one there: 'fundlab "
                "init' writes the settings, 'fundlab sync' (store.sync(client)) fetches the rows"
            )

    def current(
        self,
        table: str,
        as_of: Moment | None = None,
        *,
        pin: str | None = None,
        manifest: Manifest | None = None,
    ) -> Snapshot:
        """:meth:`snapshot` without the rows that are accepted as gone: what every figure is made
        of."""
        manifest = self.manifest() if manifest is None else manifest
        found = self.snapshot(table, as_of, pin=pin, manifest=manifest)
        records = self.records(manifest, as_of, pin)
        if not any(record.kind == "accept" for record in records):
            return found
        return replace(found, accepted_gone=accepted_gone(records, table))

    def open_lines(self) -> list[str]:
        """Rows set aside or refused that nobody accepted; a sentence for each table."""
        return open_lines(self.records())

    def set_aside(self) -> pd.DataFrame:
        """Every row that a sync could not read, oldest first: ``table``, ``key`` (of its bytes),
        ``id``, ``reason``, ``raw`` (its JSON), ``found_at``, ``state`` (``open``, ``read``: it came
        again since, ``accepted``), ``ended_at``, ``by``, ``because``.

        >>> store.set_aside().empty
        True
        """
        return to_frame(set_aside_table(set_aside_rows(self.records())))

    def unlisted(self) -> pd.DataFrame:
        """Every row that a list of the service leaves out, and what the service said when it was
        asked for by its id: ``table``, ``id``, ``answer`` (``there``, ``refused``, ``gone``),
        ``since``, ``asked_at``. Each is asked for again after a month, a hundred in a sync.

        >>> store.unlisted().empty
        True
        """
        return to_frame(unlisted_table(unlisted_rows(self.records())))

    def accept_set_aside(
        self, keys: str | Sequence[str] | None = None, *, by: str, reason: str
    ) -> pd.DataFrame:
        """Record that these rows (keys or ids, all that are open by default) need not be read: no
        verdict waits for them any more, and each counts how many were accepted. Gives those rows of
        :meth:`set_aside`. Raises ``InvalidRequest`` for one that is not open, or where ``by`` or
        ``reason`` is empty."""
        needed(by=by, reason=reason)
        with self.lock() as check_held:
            rows = set_aside_rows(self.records())
            there = [one for one in rows if one.state == "open"]
            names = None if keys is None else set(_texts(keys, "keys"))
            mine = [one for one in there if names is None or {one.key, one.id} & names]
            known = {name for one in mine for name in (one.key, one.id)}
            if names is not None and (unknown := names - known):
                raise InvalidRequest(
                    f"keys {sorted(unknown)!r} are not rows set aside; 'fundlab quarantine list' "
                    "(store.set_aside()) shows those in the state 'open'"
                )
            if mine:
                keys_of = [[one.table, one.key, str(Instant.from_ns(one.found_at))] for one in mine]
                accepted = {"rows": [], "invalid": keys_of, "by": by, "reason": reason}
                self.record("accept", accepted, check_held)
        frame = self.set_aside()
        return frame[frame["key"].isin([one.key for one in mine])].reset_index(drop=True)

    def accept_refused(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        profile_id: str | None = None,
        by: str,
        reason: str,
    ) -> pd.DataFrame:
        """Record that it is known why the service refuses to show these rows (all by default): they
        stay as they were last seen. With ``profile_id`` the profile is no longer ours: its refused
        transfers are accepted, and verdicts leave its balances out, by name, until a later sync
        sees one of them reported. Gives those rows of :meth:`gone`. Raises ``InvalidRequest`` for
        an id that is not refused, for a profile of which the service refuses nothing or a balance
        breaks, or where ``by`` or ``reason`` is empty."""
        said = {"by": by, "reason": reason, "counts": True}
        return self._accept("refused", ids, said, profile_id)

    def _accept(
        self,
        state: Literal["gone", "refused"],
        ids: str | Sequence[str] | None,
        said: dict[str, Any],
        profile_id: str | None = None,
    ) -> pd.DataFrame:
        """Record what was ``said`` of the rows in this state, by default all (of a profile)."""
        needed(by=said["by"], reason=said["reason"])
        with self.lock() as check_held:
            there = [one for one in self.gone_rows() if one.state == state]
            known = {one.id for one in there}
            wanted = known if ids is None else set(_texts(ids, "ids"))
            if unknown := wanted - known:
                what = "refused" if state == "refused" else "rows that the service lists no more"
                raise InvalidRequest(
                    f"ids {sorted(unknown)!r} are not {what}; store.gone() shows those in the "
                    f"state {state!r}"
                )
            if profile_id is not None:
                of_it = self.read_arrow("transfers", columns=["id"], profile_id=profile_id)
                mine = set(of_it.column("id").to_pylist())
                self._check_refused(profile_id, not mine.isdisjoint(known))
                wanted, said["profiles"] = wanted & mine, [profile_id]
            said["rows"] = [
                [one.table, one.id, str(Instant.from_ns(one.gone_at))]
                for one in there if one.id in wanted
            ]  # fmt: skip
            if said["rows"] or profile_id is not None:
                self.record("accept", said, check_held)
        return to_frame(gone_table([one for one in self.gone_rows() if one.id in wanted]))

    def _check_refused(self, profile_id: str, has_refused_rows: bool) -> None:
        """Raises ``InvalidRequest`` unless it is the service that keeps a profile from a proof."""
        accounts = self.accounts()
        judged = [*accounts.compared, *accounts.unobserved]
        mine = [one for one in judged if one.profile_id == profile_id]
        wrong = f"profile_id={profile_id!r} cannot be left out"
        if not (has_refused_rows or any(one.unanswered in (403, 404) for one in mine)):
            refused = {one.profile_id for one in judged if one.unanswered in (403, 404)}
            raise InvalidRequest(
                f"{wrong}: the service refused {'nothing of it' if mine else 'no such profile'}; "
                f"it refused to show balances of: {', '.join(sorted(refused)) or 'none'}"
            )
        if broken := [one.asset for one in mine if one.difference]:
            raise InvalidRequest(
                f"{wrong} while its balances do not follow from its transfers: "
                f"{', '.join(broken)}; 'fundlab verify' names the likely causes"
            )

    def _pinned(self, pin: str, table: str, manifest: Manifest) -> int:
        """The publication that a pin names. Raises ``InvalidRequest`` where there is no such pin,
        ``StoreDamaged`` where a repair found that what ``table`` was then is lost."""
        records = self.records(manifest)
        pins = pins_of(records)
        if pin not in pins:
            raise InvalidRequest(
                f"pin {pin!r} does not exist; there are: {', '.join(pins) or 'none'}"
            )
        number = pins[pin].number
        for record in records:
            lost_from = record.content["tables"].get(table) if record.kind == "repair" else None
            if lost_from is not None and lost_from <= number < record.number:
                raise StoreDamaged(
                    f"the state of {table} that the pin {pin!r} names was lost before the repair "
                    f"of {record.at[:19]}Z: restore it from a backup, or pin again"
                )
        return number

    def known(
        self,
        table: str,
        as_of: Moment | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        *,
        pin: str | None = None,
    ) -> dict[str, Any]:
        """What the frames of :meth:`read` know of themselves, as plain JSON.

        ``since``: where the rows begin, RFC 3339, ``None`` where the store has those from the first
        one on. ``until``: where they end; only there where the store has later ones. Of
        ``transfers`` and ``balances`` also ``publication``: the last one that brought transfers;
        and of ``balances`` ``moved``, a list of profile, asset and amount: what the
        transfers learned of after the last observation of a balance add to it, if anything.

        >>> store.known("transfers")
        {'since': None, 'publication': 1}
        """
        first, end = _bound(since, "since"), _bound(until, "until")

        def look() -> dict[str, Any]:
            manifest = self.manifest()
            snapshot = self.snapshot(table, as_of, pin=pin, manifest=manifest)
            return self._known(snapshot, first, as_of, pin, end, manifest)

        return steadily(look)

    def _known(
        self,
        snapshot: Snapshot,
        first: int | None,
        as_of: Moment | None,
        pin: str | None,
        end: int | None,
        manifest: Manifest,
    ) -> dict[str, Any]:
        begins = max((at for at in (snapshot.begins, first) if at is not None), default=None)
        known: dict[str, Any] = {"since": None if begins is None else str(Instant.from_ns(begins))}
        if end is not None and any(snapshot.numbers(part, first=end) for part in snapshot.files):
            known["until"] = str(Instant.from_ns(end))
        if snapshot.table.name == "transfers":
            known["publication"] = snapshot.limit
        if snapshot.table.name == "balances":
            transfers = self.current("transfers", as_of, pin=pin, manifest=manifest)
            known |= {"publication": transfers.limit, "moved": moved_since(transfers, snapshot)}
        return known

    def accounts(self, as_of: Moment | None = None, *, pin: str | None = None) -> Accounts:
        """Every balance observed beside what the transfers make it; `fl.reconcile.judge` judges."""

        def look() -> Accounts:
            manifest = self.manifest()
            balances = self.snapshot("balances", as_of, pin=pin, manifest=manifest)
            transfers = self.current("transfers", as_of, pin=pin, manifest=manifest)
            accounts = read_accounts(transfers, balances)
            return with_evidence(accounts, transfers, self.records(manifest, as_of, pin))

        return steadily(look)

    def assertions(self, as_of: Moment | None = None, *, pin: str | None = None) -> pd.DataFrame:
        """Every balance observed, beside what the transfers known now had moved it by until then.

        ``profile_id``, ``asset``, ``observed_at``, ``reported`` (available and trading),
        ``rebuilt``, ``difference`` (reported less rebuilt), and ``complete``: whether the store has
        every transfer from the first one on. Where it has not, the first difference of a balance is
        its opening. Oldest first.

        >>> bool(store.assertions()["difference"].eq(0).all())
        True
        """
        return to_frame(asserted_balances(self.accounts(as_of, pin=pin)))

    # ------------------------------------------------------------------------ pins

    def pin(self, name: str) -> None:
        """Name what is known now; ``read(table, pin=name)`` gives it ever after.

        Raises ``StoreError`` if the name is taken, ``InvalidRequest`` if it is not a plain name.

        >>> store.pin("october")
        >>> len(store.read("transfers", pin="october"))
        50
        """
        if not is_pin_name(name):
            raise InvalidRequest(f"pin {name!r}: give letters, digits, '.', '_' and '-'")
        with self.lock() as check_held:
            if name in pins_of(self.records()):
                raise StoreError(f"the pin {name!r} exists; choose another name")
            self.record("pin", {"pin": name}, check_held)

    def pins(self) -> dict[str, str]:
        """Every pin and when it was made, oldest first.

        >>> store.pin("october")
        >>> list(store.pins())
        ['october']
        """
        return {name: record.at for name, record in pins_of(self.records()).items()}

    # ------------------------------------------------------------------------ records

    def records(
        self,
        manifest: Manifest | None = None,
        as_of: Moment | None = None,
        pin: str | None = None,
    ) -> list[Record]:
        """Every record that ``manifest``, by default the newest, knows of, oldest first; those made
        until then. Raises ``StoreDamaged`` unless all are there as written."""
        newest = (self.manifest() if manifest is None else manifest).record
        records = read_records(self.path / RECORDS, newest)
        if (until := _bound(as_of, "as_of")) is not None:
            records = [one for one in records if Instant.parse(one.at).ns <= until]
        if pin is not None:
            number = pins_of(records)[pin].number
            records = [one for one in records if one.number <= number]
        return records

    def closes(self) -> pd.DataFrame:
        """``period``, ``basis``, ``closed_at``, ``by``, ``pin``, ``hash`` (of the record),
        ``state`` (``closed``, ``restated``, ``reopened``), ``note``: every close ever made, oldest
        first.

        >>> store.closes().empty
        True
        """
        return closes_table(closes_of(self.records()))

    def reopen(self, period: str, *, by: str, reason: str) -> None:
        """Record that ``period`` is open again, on each basis it was closed on; the close stays
        among :meth:`closes`. Raises ``InvalidRequest`` where it is not closed, or ``by`` or
        ``reason`` is empty."""
        needed(by=by, reason=reason)
        with self.lock() as check_held:
            closes = [one for one in closes_of(self.records()) if one.state == "closed"]
            if period not in [one.period for one in closes]:
                known = ", ".join(map(str, closes)) or "none"
                raise InvalidRequest(f"period {period!r} is not closed; closed are: {known}")
            self.record("reopen", {"period": period, "by": by, "reason": reason}, check_held)

    def annotate(
        self,
        item_id: str,
        owner: str | None = None,
        comment: str | None = None,
        decision: str | None = None,
        by: str | None = None,
    ) -> None:
        """Record who sees to an open item, a comment on it, or what was decided; the last of each
        stands beside the item in every close pack until it clears.

        ``item_id`` is that of a row of the store, such as a transfer, or of a bank's entry
        (``bank-…``, see ``fl.bank.read``). Raises ``InvalidRequest`` for another one, where none of
        the three is given, and for what must be a text.

        >>> item = store.read("transfers")["id"].iloc[0]
        >>> store.annotate(item, owner="Ana", comment="asked the bank", by="Ben")
        >>> store.annotations()[["owner", "comment", "by"]].values.tolist()
        [['Ana', 'asked the bank', 'Ben']]
        """
        needed(item_id=item_id)
        given = {"owner": owner, "comment": comment, "decision": decision}
        if not any(given.values()):
            raise InvalidRequest("give owner, comment or decision: there is nothing to record")
        check_texts(**given, by=by)
        self.check_item(item_id)
        with self.lock() as check_held:
            self.record("annotate", {"item_id": item_id, **given, "by": by}, check_held)

    def check_item(self, item_id: str) -> None:
        """Raises ``InvalidRequest`` for what is neither a row of the store nor a bank's entry."""
        rows = (
            steadily(lambda name=name: read_current(  # type: ignore[misc]
                self.snapshot(name), ["id"], where={"id": [item_id]}
            ).num_rows)
            for name, table in TABLES.items()
            if table.key == ("id",)
        )  # fmt: skip
        if not _BANK_ENTRY.fullmatch(item_id) and not any(rows):
            raise InvalidRequest(
                f"item_id={item_id!r} is not in {self.path}: give the id of a transfer or another "
                "row of it, or of a bank's entry (bank-…)"
            )

    def annotations(self) -> pd.DataFrame:
        """``item_id``, ``owner``, ``comment``, ``decision``, ``by``, ``at``: all, oldest first."""
        return annotations_table(self.records())

    def gone_rows(self, as_of: Moment | None = None) -> list[Gone]:
        """What :meth:`gone` shows, as known at a time."""
        return gone_rows(self.records(as_of=as_of))

    def gone_lines(self, as_of: Moment | None = None) -> list[str]:
        """What the service lists no more and nobody accepted, as known at a time; a line for each
        table."""
        return gone_lines(self.gone_rows(as_of))

    def gone(self) -> pd.DataFrame:
        """Every row that the service ever stopped listing, oldest first; its last values stay
        where they are. ``table``, ``id``, ``gone_at``, ``state`` (``gone``, ``refused``: there, but
        not shown to this credential, ``accepted``, ``back``: listed again), ``back_at``,
        ``accepted_at``, ``by``, ``reason``, ``answer`` (``gone`` or ``refused``).

        ``sync(full=True)`` compares all rows, an ordinary sync those of its sweep; each is asked
        for by its id before it counts as gone.

        >>> store.gone().empty
        True
        """
        return to_frame(gone_table(self.gone_rows()))

    def accept_gone(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        by: str,
        reason: str,
        still_counts: bool = False,
    ) -> pd.DataFrame:
        """Record that it is known why the service lists these rows no more (all that are gone by
        default). From then on they are no current rows: ``read``, balances, reports and ``verify``
        do without them, ``history`` keeps them, and a closed period they were in has moved
        (:meth:`restatements`). Gives those rows of :meth:`gone`.

        ``still_counts``: they stay current rows, as the service's balances still have them, for
        instance where it lists no transfers of years ago. A row that the service lists again later
        counts again.

        Raises ``InvalidRequest`` for an id that is not gone, or where ``by`` or ``reason`` is
        empty.
        """
        return self._accept("gone", ids, {"by": by, "reason": reason, "counts": still_counts})

    def seal(self, content: Mapping[str, Any], check_held: Callable[[], None]) -> Close:
        """Record a close, which is a pin of what is known now, too. The caller holds the lock, and
        made ``content`` of what is known now."""
        manifest = self.manifest()
        limits = {name: self.snapshot(name, manifest=manifest).limit for name in TABLES}
        pin = f"close-{content['period']}-{content['basis']}-{manifest.number + 1}"
        whole = {**content, "pin": pin, "publications": limits}
        return Close(self.record("close", whole, check_held), "closed")

    def record(
        self, kind: Kind, content: Mapping[str, Any], check_held: Callable[[], None]
    ) -> Record:
        """Publish one more record; the caller holds the lock."""
        (made,) = self.commit(check_held, self.clock(), {}, [(kind, content)])
        return made

    def lanes(self) -> dict[str, Sequence[str]]:
        """What an anchor stands for: a hash of each publication of each table, with all of its
        rows, of each record, and of the manifest. Reads every row."""

        def look() -> dict[str, Sequence[str]]:
            manifest = self.manifest()
            found: dict[str, Sequence[str]] = {
                name: table_lane(self.snapshot(name, manifest=manifest)) for name in TABLES
            }
            found[RECORDS] = [record.hash for record in self.records(manifest)]
            return found

        return steadily(look)

    # ------------------------------------------------------------------------ runs

    def note_run(self, run: Run, content: Mapping[str, Any]) -> None:
        """Note for ``fundlab status`` that a run ended now, and what it found; not in a
        ``read_only`` store."""
        if not self._read_only:
            at = str(Instant.from_ns(self.clock()))
            write_run(self.path / RUNS, run, at, content)

    def runs(self) -> dict[str, dict[str, Any]]:
        """The last ``sync``, ``verify`` and ``report``, as far as they are noted: when each ended
        (``at``, RFC 3339) and what it found."""
        return read_runs(self.path / RUNS)

    # ------------------------------------------------------------------------ writing

    @contextmanager
    def lock(self) -> Iterator[Callable[[], None]]:
        """Hold the store for writing. The kernel releases the lock of a run that was killed.

        Gives a check to make before anything is published: it raises ``StoreError`` where the lock
        was taken away meanwhile. Raises ``StoreLocked`` at once while another run holds it.
        """
        if self._read_only:
            raise StoreError(f"{self.path} {self._refusal}")
        place = disk.own_folder(self.path)
        if isinstance(self.path, RemotePath):  # a folder among this user's
            with disk.named(place):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            disk.make_folder(place)
        path = place / ".lock"
        disk.refuse_link(path)

        def holder() -> str:
            file.seek(0)
            found = file.read().strip() or "unknown"
            return f"{self.path} is held by another run (process {found}); wait for it"

        def check_held() -> None:
            if not path.exists() or not os.path.samestat(path.stat(), os.fstat(file.fileno())):
                raise StoreError(
                    f"{path} was taken away while this run held it, and another run may have "
                    "begun: nothing was published; run it again"
                )
            if self._held is not None and not is_newest(self.path, self._held):
                raise beaten(self.path)

        with ExitStack() as stack:
            with disk.named(path):
                file = stack.enter_context(
                    open(path, "a+", encoding="utf-8",
                         opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666))
                )  # fmt: skip
                stack.enter_context(disk.locked(file.fileno(), path, holder))
                file.truncate(0)
                file.write(str(os.getpid()))
                file.flush()
            # What a run that died left half written goes; what it named is on the disk before
            # anything follows from it.
            for folder in [self.path / name for name in (*TABLES, RECORDS, MANIFESTS)]:
                disk.remove(list(disk.hidden_file(folder, "").parent.glob(".*.tmp")))
                if isinstance(folder, Path) and folder.is_dir():
                    with disk.named(folder):
                        disk.sync_folder(folder)
            with disk.readable(self.path):
                sweep_notes(self.path / RUNS)
                try:
                    self._held = self.manifest()
                except StoreDamaged:  # what reads the store says so, and repair mends it
                    self._held = None
                else:
                    settle_head(self.path, self._held)
                    for table in TABLES:
                        remove_superseded(self.path / table, self._held)
            try:
                yield check_held
            finally:
                self._held = None

    def _begun(self) -> Manifest:
        """The manifest that a run which holds the lock goes on from."""
        return self.manifest() if self._held is None else self._held

    def commit(
        self,
        check_held: Callable[[], None],
        at: int,
        files: Mapping[str, Sequence[File]],
        records: Sequence[tuple[Kind, Mapping[str, Any]]] = (),
        *,
        service: Mapping[str, str] | None = None,
        before: Manifest | None = None,
    ) -> list[Record]:
        """Publish a manifest: from here on the ``files`` of each of these tables are those that
        count, and the ``records`` are there. The caller holds the lock, and has written the files;
        ``before`` is for a repair, where the newest manifest is lost. Raises ``StoreLocked`` where
        another machine has published since the lock was taken."""
        before = self._begun() if before is None else before
        check_held()
        made: list[Record] = []
        folder, newest = self.path / RECORDS, before.record
        for kind, content in records:
            after = Instant.parse(read_record(folder / newest).at).ns if newest else 0
            said_at = str(Instant.from_ns(max(at, after + 1)))
            made.append(write_record(folder, before.number + 1, kind, said_at, content, newest))
            newest = made[-1].name
        self._held = write_manifest(
            self.path, before, at, before.service if service is None else service,
            {**before.files, **files}, newest,
        )  # fmt: skip
        return made

    def merge(self, table: str, check_held: Callable[[], None]) -> Draft | None:
        """Merge the files of ``table``; the caller holds the lock."""
        before = self._begun()
        draft = merge_files(self.path / table, self.snapshot(table, manifest=before))
        if draft is None:
            return None
        try:
            check_held()
            disk.publish(draft.hidden, draft.path)
        except BaseException:
            draft.discard()
            raise
        self.commit(check_held, self.clock(), {table: [draft.file]})
        return draft

    def compact(self, tables: Sequence[str] | None = None) -> dict[str, StorePath]:
        """Merge the parts of each table (all by default) into one file; every version stays.

        Reading is the same before, while and after, and ``sync`` does it by itself where it pays.
        The files merged stay for an hour, for who reads them, and go with the next run. Returns the
        new file of each table that had something to merge.

        >>> sorted(store.compact(["events"]))
        ['events']
        """
        done: dict[str, StorePath] = {}
        with self.lock() as check_held:
            for name in TABLES if tables is None else _texts(tables, "tables"):
                draft = self.merge(find_table(name).name, check_held)
                if draft is not None:
                    done[name] = draft.path
        return done

    def now(self) -> int:
        """The time of the next publication (ns): the clock's, but never before the last one's.

        Raises ``StoreError`` where that is days ahead: ``as_of`` could tell nothing apart.
        """
        now, manifest = self.clock(), self.manifest()
        newest = [
            snapshot.files[-1]
            for table in TABLES
            if (snapshot := self.snapshot(table, manifest=manifest)).files
        ]
        moments = [part.header.publications[-1].published_at for part in newest]
        latest = max(moments, default=now - 1)
        if latest <= now + _CLOCKS_DIFFER_NS:
            return max(now, latest + 1)
        wrong = [
            str(part.path)
            for table in TABLES
            for part in self.snapshot(table, manifest=manifest).files
            if part.header.publications[-1].published_at > now + _CLOCKS_DIFFER_NS
        ]
        raise StoreError(
            f"{self.path} was last written at {Instant.from_ns(latest)}, but this machine's clock "
            f"says {Instant.from_ns(now)}: set the clock right; or, if it was wrong then, move "
            "away what was written by it, and 'fundlab repair' fetches it again: "
            f"{', '.join(wrong)}"
        )

    def service(self) -> Mapping[str, str] | None:
        """The service and credential the store belongs to, ``None`` while it is empty."""
        manifest = self.manifest()
        return manifest.service if any(manifest.files.values()) else None


def _checked_columns(table: Table, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(table.schema.names)
    names = _texts(columns, "columns")
    unknown = [name for name in names if table.column(name) is None]
    if unknown:
        raise InvalidRequest(
            f"columns {unknown!r}: {table.name} has {', '.join(table.schema.names)}"
        )
    if len(set(names)) < len(names):
        raise InvalidRequest(f"columns={names!r}: name each column once")
    return names


def _profiles(table: Table, given: str | Sequence[str] | None) -> dict[str, list[str]] | None:
    if given is None:
        return None
    if table.column("profile_id") is None:
        having = ", ".join(n for n, one in TABLES.items() if one.column("profile_id") is not None)
        raise InvalidRequest(f"{table.name} has no profile_id; give it for {having}")
    return {"profile_id": _texts(given, "profile_id")}


def _texts(given: str | Sequence[str], parameter: str) -> list[str]:
    """One text or several, as a list."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Iterable) or not all(isinstance(text, str) for text in texts):
        raise InvalidRequest(f"{parameter}={given!r}: give a text or a list of texts")
    return list(texts)


def needed(**given: str) -> None:
    """Refuses an empty text, or what is not one."""
    for name, text in given.items():
        if not isinstance(text, str) or not text.strip():
            raise InvalidRequest(f"{name}={text!r}: give a text")
    check_texts(**given)


def _bound(value: Moment | None, parameter: str) -> int | None:
    return None if value is None else moment_ns(value, parameter)
