"""The store: a folder of immutable Parquet files that only ever grows, one sub-folder a table.

A sync adds one part with the rows that are new or changed. The newest version of a row wins on
read; every version stays readable (``history``), and what was known at a time (``as_of``) is what
had been published until then. The files are plain Parquet, but hold replaced versions too, and
times to the nanosecond: for other tools there is ``publish``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.errors import InvalidRequest
from fundlab.base.values import Instant, span_ns
from fundlab.evidence.acceptance import accept_missing, accept_unreadable
from fundlab.evidence.closes import annotations_table, closes_of, closes_table
from fundlab.evidence.observations import Accounts, asserted_balances, moved_since, read_accounts
from fundlab.evidence.quarantine import set_aside_rows, set_aside_table, with_evidence
from fundlab.evidence.vanished_rows import (
    accepted_gone,
    gone_rows,
    gone_table,
    unlisted_rows,
    unlisted_table,
)
from fundlab.store.manifests import Manifest
from fundlab.store.publishing import (
    Published,
    publish_delta,
    publish_parquet,
    published_tables,
)
from fundlab.store.records import check_texts, needed
from fundlab.store.scan import scan_with_duckdb, scan_with_spark
from fundlab.store.settlement_times import ADDED, settlements, with_settlement
from fundlab.store.snapshot import Snapshot, read_current, read_history, steadily
from fundlab.store.store_files import Moment, StoreFiles, texts
from fundlab.tables.frames import to_frame
from fundlab.tables.schema import INSTANT_TYPE, TABLES, Table, find_table

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    from pyspark.sql import SparkSession


class TableStore(StoreFiles):
    """The tables at ``path``: ``fl.Store`` is this with the service and the journal."""

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

        Raises ``InvalidRequest`` for a table, column, time or pin that does not exist, and a time
        before the store knew anything, ``StoreError`` where there is no store, and ``StoreDamaged``
        where a file is not what was written.

        >>> store.read("transfers", since="2026-10-01", columns=["id", "total"]).dtypes["total"]
        DecimalDtype()
        """
        found = find_table(table)
        names = _checked_columns(found, columns)
        keys = [name for name in found.order if name not in names]
        first, end = span_ns(since, until)
        where = _profiles(found, profile_id)
        enums = [column.name for column in found.of_kind("enum")]

        def look() -> tuple[pa.Table, dict[str, Any]]:
            manifest = self.manifest()
            snapshot = self.current(table, as_of, pin=pin, manifest=manifest)
            rows = read_current(
                snapshot, [*names, *keys], first=first, end=end, where=where, coded=enums
            )
            if settled:
                rows = with_settlement(rows, _settlements(self, snapshot, as_of, pin, manifest))
            return rows, _known(self, snapshot, first, as_of, pin, end, manifest)

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
        first, end = span_ns(since, until)
        where = _profiles(found, profile_id)

        def look() -> pa.Table:
            manifest = self.manifest()
            snapshot = self.current(table, as_of, pin=pin, manifest=manifest)
            wanted = [*names, *(["id"] if settled and "id" not in names else [])]
            rows = read_current(snapshot, wanted, first=first, end=end, where=where).select(wanted)
            if not settled:
                return rows
            rows = with_settlement(rows, _settlements(self, snapshot, as_of, pin, manifest))
            return rows.select([*names, *ADDED])

        return steadily(look)

    def history(self, table: str) -> pd.DataFrame:
        """Every version of every row, with ``published_at``: when the store learned of it, and
        ``gone_at``: since when the service does not list the row any more, if so.

        In order of publication, then as ``read``.

        >>> store.history("transfers")["published_at"].nunique()
        1
        """
        found = find_table(table)
        rows = steadily(lambda: read_history(self.snapshot(table)))
        gone = [row for row in gone_rows(self.records()) if row.table == table and not row.back_at]
        ids, since = [row.id for row in gone], [row.gone_at for row in gone]
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
            known = _settlements(self, snapshot, as_of, pin, manifest) if settled else None
            if spark is not None:
                return scan_with_spark(snapshot, spark, known)
            return scan_with_duckdb(snapshot, connection, memory_limit, known)

        return steadily(look)

    def publish(
        self, destination: str | os.PathLike[str], format: Literal["parquet", "delta"] = "parquet"
    ) -> dict[str, Published]:
        """The current rows of every table in ``destination``, a folder or a URI such as
        ``s3://bucket/funds``, for any engine; of what is there only the months are written again in
        which a row changed.

        The columns are those of ``read``, with two differences: a moment is cut to the microseconds
        that every tool has, and its nanoseconds since 1970 stand beside it as an integer,
        ``created_at`` as ``created_at_ns``. Amounts are ``decimal(38, 18)`` and sums of them exact;
        in pandas read them with ``dtype_backend="pyarrow"``, or with ``fl.read_parquet``.

        Each table is a folder: of Parquet files ``month=2026-10/rows.parquet``, or a Delta table
        with the column ``month`` (``pip install 'fundlab[delta]'``), by ``created_at`` in UTC, of
        balances ``observed_at``. A file is replaced in one step, and so are all changed months of a
        Delta table; Delta keeps what was replaced until it is vacuumed. A table without a row has
        no Parquet file. Returns what became of each table.

        Raises ``InvalidRequest`` for a format there is not and a place within the store,
        ``StoreError`` where there is no store and where nothing can be written, ``StoreDamaged``
        where a file of the store is not what was written.

        >>> first = store.publish(folder / "open")["transfers"]
        >>> again = store.publish(folder / "open")["transfers"]
        >>> len(first.written) == again.kept > 0, again.written, again.bytes
        (True, (), 0)
        """
        self.check_there()  # before a folder is made
        folders = published_tables(self.path, destination, format)
        write = publish_delta if format == "delta" else publish_parquet
        return {
            table: steadily(lambda table=table, folder=folder: write(self.current(table), folder))  # type: ignore[misc]
            for table, folder in reversed(folders.items())
        }

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
        first, end = span_ns(since, until)

        def look() -> dict[str, Any]:
            manifest = self.manifest()
            snapshot = self.snapshot(table, as_of, pin=pin, manifest=manifest)
            return _known(self, snapshot, first, as_of, pin, end, manifest)

        return steadily(look)

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
        return to_frame(gone_table(gone_rows(self.records())))

    def accept_set_aside(
        self, keys: str | Sequence[str] | None = None, *, by: str, reason: str
    ) -> pd.DataFrame:
        """Record that these rows (keys or ids, all that are open by default) need not be read: no
        verdict waits for them any more, and each counts how many were accepted. Gives those rows of
        :meth:`set_aside`. Raises ``InvalidRequest`` for one that is not open, or where ``by`` or
        ``reason`` is empty."""
        accepted = accept_unreadable(self, keys, by=by, reason=reason)
        frame = self.set_aside()
        return frame[frame["key"].isin(accepted)].reset_index(drop=True)

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
        return accept_missing(self, "refused", ids, said, profile_id, self.accounts)

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
        instance where it lists no transfers of years ago. With ``ids`` of rows that were accepted
        the other way it takes that back, and the call without it makes them count no more again. A
        row that the service lists again later counts again.

        Raises ``InvalidRequest`` for an id that is not gone, or where ``by`` or ``reason`` is
        empty.
        """
        if not isinstance(still_counts, bool):
            raise InvalidRequest(f"still_counts={still_counts!r}: give True or False")
        said = {"by": by, "reason": reason, "counts": still_counts}
        return accept_missing(self, "gone", ids, said)

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
        item_id = self.item(item_id)
        with self.lock() as check_held:
            self.record("annotate", {"item_id": item_id, **given, "by": by}, check_held)

    def annotations(self) -> pd.DataFrame:
        """``item_id``, ``owner``, ``comment``, ``decision``, ``by``, ``at``: all, oldest first."""
        return annotations_table(self.records())


def _checked_columns(table: Table, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(table.schema.names)
    names = texts(columns, "columns")
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
    return {"profile_id": texts(given, "profile_id")}


def _settlements(
    store: StoreFiles, snapshot: Snapshot, as_of: Moment | None, pin: str | None, manifest: Manifest
) -> pa.Table:
    """When the transfers of ``snapshot`` settled, as known at the same moment."""
    if snapshot.table.name != "transfers":
        raise InvalidRequest(
            f"settled=True is for transfers; {snapshot.table.name} has no settled_at"
        )
    events = store.snapshot("events", as_of, pin=pin, manifest=manifest)
    return settlements(snapshot, events)


def _known(
    store: TableStore,
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
        transfers = store.current("transfers", as_of, pin=pin, manifest=manifest)
        known |= {"publication": transfers.limit, "moved": moved_since(transfers, snapshot)}
    return known
