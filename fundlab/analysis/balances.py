"""Balances rebuilt from transfers: after each one, at any time, at the close of every day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import narwhals as nw
import numpy as np
import pyarrow as pa

from fundlab.analysis import rows as counted
from fundlab.analysis.engines import (
    MONEY_TYPE,
    ROW,
    TIME,
    TIME_TYPE,
    FrameT,
    Workbench,
    columns,
    is_store,
)
from fundlab.analysis.events import completion_times
from fundlab.analysis.periods import DAY, day_number, days_between, local_ns, whole
from fundlab.analysis.rows import KEYS
from fundlab.analysis.statements import holds, statement
from fundlab.analysis.streaming import stream_running, write_stream
from fundlab.analysis.units import units
from fundlab.errors import AnalysisError
from fundlab.moments import moment_ns
from fundlab.store.snapshot import steadily
from fundlab.transfers import Rows, View

if TYPE_CHECKING:
    from fundlab.store import Store

__all__ = ["at", "changes", "daily", "holds", "running", "statement", "write_running"]

COMPLETED_AT: Final = "completed_at"
_BLOCK: Final = 64
_TEXT: Final = pa.string()
_CHANGES: Final = columns(
    transfer_id=_TEXT, profile_id=_TEXT, asset=_TEXT, at=TIME_TYPE, change=MONEY_TYPE
)
_AT: Final = columns(profile_id=_TEXT, asset=_TEXT, balance=MONEY_TYPE)
_DAILY: Final = columns(profile_id=_TEXT, asset=_TEXT, date=pa.date32(), balance=MONEY_TYPE)


def changes(
    transfers: FrameT,
    view: View = "ledger",
    by: str = "created_at",
    events: object = None,
) -> FrameT:
    """``transfer_id``, ``profile_id``, ``asset``, ``at``, ``change``, by ``at``, ties by id: the
    signed change each transfer that counts makes (decimal), to which asset and when.

    ``by`` is a column of times. ``completed_at`` is when the transfer completed: as its event in
    ``events`` says (what ``fl.load_events`` gives), else ``updated_at``; of a pending debit, when
    it was made. Raises :class:`AnalysisError` for missing columns and rows nobody can count.
    Interface §2.4, §2.10.

    >>> fl.balances.changes(transfers)[["transfer_id", "profile_id", "change"]]
      transfer_id profile_id  change
    0          t1       main    1000
    1          t2       main    -225
    2          t3       main     -60
    3          t4      spare      60
    """
    if events is not None and by != COMPLETED_AT:
        raise AnalysisError(f"events are for by={COMPLETED_AT!r}, not by={by!r}")
    with Workbench(transfers) as bench:
        if by == COMPLETED_AT:
            rows = _when_completed(bench, transfers, view, events)
        else:
            rows = counted.changes(bench, transfers, view, by, named=True)
        named = rows.rename({"id": "transfer_id"}).sort("at", "transfer_id")
        result: FrameT = bench.give(named, _CHANGES)
        return result


def running(
    transfers: FrameT, opening: object = None, view: View = "ledger", by: str = "created_at"
) -> FrameT:
    """The transfers that count, in order of ``by`` (ties by ``id``), each with the exact
    ``balance`` of its profile and asset after it.

    Every column of ``transfers`` stays as it was, except ``asset``: it names the asset whose
    balance changes (``balance_asset`` where present). ``opening`` has ``profile_id``, ``asset``,
    ``balance``. Raises :class:`AnalysisError` for missing columns and rows nobody can count,
    ``OverflowError`` for a balance beyond 20 integer digits. Interface §2.4.

    Of a ``Store``, by ``created_at``, the result is a ``pyarrow.RecordBatchReader``: one pass in
    memory that does not grow, which verifies the pages that it reads; :func:`write_running` writes
    it to a file.

    >>> fl.balances.running(transfers)[["id", "profile_id", "total", "balance"]]
       id profile_id  total  balance
    0  t1       main   1000     1000
    1  t2       main    225      775
    2  t3       main     60      715
    3  t4      spare     60       60
    """
    if is_store(transfers) and by == "created_at":
        return cast("FrameT", _stream(cast("Any", transfers), None, opening, view))
    with Workbench(transfers) as bench:
        counting = counted.changes(bench, transfers, view, by, keep=True, named=True)
        _refuse_column(bench, "balance")
        order = ["at", "id"] if bench.lazy else ["at", "id", ROW]
        opened = counted.opening_balances(bench, opening)
        balance = nw.col("change").cum_sum().over(*KEYS, order_by=order)
        result = (
            counting.with_columns(moved=balance)
            .join(opened, on=list(KEYS), how="left")
            .with_columns(balance=nw.coalesce("opened", counted.zero()) + nw.col("moved"))
            .sort(order)
        )
        widened: FrameT = bench.give_rows(result, {"asset": _TEXT, "balance": MONEY_TYPE})
        return widened


def write_running(
    store: Store,
    path: str | Path,
    columns: Sequence[str] | None = ("id", "profile_id", "asset", "created_at"),
    opening: object = None,
    view: View = "ledger",
) -> int:
    """:func:`running` over a whole store into one Parquet file at ``path``: ``columns`` of the
    transfers (``None``: all) and ``balance``. Returns the number of rows.

    Reads, sums and writes side by side, in memory that does not grow with the store. An existing
    file is replaced once all is written, a missing folder made. Raises as :func:`running`, and
    ``OutputError`` where the system refuses to write.

    >>> fl.balances.write_running(store, folder / "running.parquet")
    46
    >>> fl.read_parquet(folder / "running.parquet").columns.tolist()
    ['id', 'profile_id', 'asset', 'created_at', 'balance']
    """
    return steadily(lambda: write_stream(_stream(store, columns, opening, view), path))


def at(
    transfers: FrameT,
    when: str | datetime,
    opening: object = None,
    view: View = "ledger",
    by: str = "created_at",
) -> FrameT:
    """``profile_id``, ``asset``, ``balance`` once everything up to and including ``when`` has
    happened, sorted; one row for each profile and asset that moved until then or was opened.

    ``when`` is ISO text, a datetime or a Timestamp, nanoseconds included; a calendar day stands
    for its first moment.
    Statuses are those of ``transfers``: a transfer pending now counts as pending at ``when``.

    >>> fl.balances.at(transfers, "2026-10-02T12:00:00Z")
      profile_id asset  balance
    0       main   USD      775
    >>> fl.balances.at(transfers, "2026-10-31", view="available")
      profile_id asset  balance
    0       main   USD    614.5
    1      spare   USD       60
    """
    moment = moment_ns(when, "when")
    with Workbench(transfers) as bench:
        counting = counted.changes(bench, transfers, view, by).filter(nw.col("at") <= moment)
        balances = balances_of(counting, counted.opening_balances(bench, opening))
        result: FrameT = bench.give(balances.sort(KEYS), _AT)
        return result


def daily(
    transfers: FrameT,
    tz: str = "UTC",
    until: str | date | datetime | None = None,
    opening: object = None,
    view: View = "ledger",
    by: str = "created_at",
) -> FrameT:
    """Closing balances: ``profile_id``, ``asset``, ``date``, ``balance``, sorted.

    One row for every calendar day in ``tz`` from the first change of that profile and asset to
    its last one, or to ``until`` (that day included); days without movement repeat the balance.
    ``date`` is midnight without zone in pandas, a date elsewhere.

    >>> fl.balances.daily(transfers, until="2026-10-04")
      profile_id asset       date  balance
    0       main   USD 2026-10-01     1000
    1       main   USD 2026-10-02      775
    2       main   USD 2026-10-03      715
    3       main   USD 2026-10-04      715
    4      spare   USD 2026-10-04       60
    """
    end = None if until is None else day_number("until", until)
    with Workbench(transfers) as bench:
        counting, bounds = counted.changes_and_span(bench, transfers, view, by)
        moved = (
            counting.with_columns(day=whole(local_ns(tz, *bounds), DAY))
            .group_by(*KEYS, "day")
            .agg(change=nw.col("change").sum())
        )
        calendar = days_between(bounds[0] // DAY - 1, bounds[1] // DAY + 1 if end is None else end)
        closing = (
            _every_day(bench, _lasting(moved, end), calendar.num_rows)
            .join(bench.constant(calendar), on="day", how="inner")
            .join(counted.opening_balances(bench, opening), on=list(KEYS), how="left")
            .with_columns(balance=nw.coalesce("opened", counted.zero()) + nw.col("moved"))
        )
        result: FrameT = bench.give(closing.sort(*KEYS, "day"), _DAILY)
        return result


def _stream(
    store: Store, columns: Sequence[str] | None, opening: object, view: View
) -> pa.RecordBatchReader:
    opened: dict[tuple[str, str], int] = {}
    if opening is not None:
        with Workbench(opening) as bench:
            rows = bench.collect(counted.opening_balances(bench, opening)).to_pylist()
        opened = {(row["profile_id"], row["asset"]): units(row["opened"]) for row in rows}
    return stream_running(store.snapshot("transfers"), columns, opened, view)


def _when_completed(bench: Workbench, transfers: object, view: View, events: object) -> Rows:
    rows = counted.changes(bench, transfers, view, "updated_at", named=True, created_at=TIME)
    known = bench.constant(completion_times(bench, events))
    pending = nw.when(nw.col("status") == "PENDING").then(nw.col("created_at"))
    completed = nw.coalesce(nw.col("completed"), nw.col("at"))
    joined = rows.join(known, left_on="id", right_on="transfer_id", how="left")
    return joined.with_columns(at=pending.otherwise(completed))


def balances_of(counting: Rows, opened: Rows) -> Rows:
    """Opening plus all changes, for each profile and asset that has either."""
    sums = counting.group_by(*KEYS).agg(moved=nw.col("change").sum())
    both = sums.join(opened, on=list(KEYS), how="full", suffix="_opened")
    return both.select(
        *(nw.coalesce(key, f"{key}_opened").alias(key) for key in KEYS),
        balance=nw.coalesce("opened", counted.zero()) + nw.coalesce("moved", counted.zero()),
    )


def _lasting(moved: Rows, end: int | None) -> Rows:
    """The sum of changes after each ``day`` with some, and for how many days it stays."""
    following = nw.col("day").shift(-1).over(*KEYS, order_by="day")
    sums = moved.with_columns(
        moved=nw.col("change").cum_sum().over(*KEYS, order_by="day"), following=following
    )
    if end is None:
        until = nw.coalesce(nw.col("following"), nw.col("day") + 1)
    else:
        later = nw.coalesce(nw.col("following"), nw.lit(end + 1))
        until = nw.when(later > end + 1).then(nw.lit(end + 1)).otherwise(later)
    lasting = sums.with_columns(days=(until - nw.col("day")).cast(nw.Int64))
    return lasting.filter(nw.col("days") > 0).select(*KEYS, "moved", "day", "days")


def _every_day(bench: Workbench, lasting: Rows, longest: int) -> Rows:
    """Each row once for each day it stays, by equal keys only: engines join ranges slowly."""
    blocks = whole(nw.col("days") + _BLOCK - 1, _BLOCK)
    in_blocks = lasting.with_columns(blocks=blocks).join(
        bench.constant(_counts_up_to(longest // _BLOCK + 1, "blocks", "block")),
        on="blocks",
        how="inner",
    )
    last = nw.col("block") == nw.col("blocks") - 1
    rest = nw.when(last).then(nw.col("days") - nw.col("block") * _BLOCK).otherwise(nw.lit(_BLOCK))
    in_days = in_blocks.with_columns(size=rest.cast(nw.Int64)).join(
        bench.constant(_counts_up_to(_BLOCK, "size", "place")), on="size", how="inner"
    )
    day = nw.col("day") + nw.col("block") * _BLOCK + nw.col("place")
    return in_days.select(*KEYS, "moved", day=day.cast(nw.Int64))


def _counts_up_to(most: int, total: str, place: str) -> pa.Table:
    """For every total up to ``most`` the places 0, 1 … below it."""
    totals = np.repeat(np.arange(1, most + 1), np.arange(1, most + 1))
    places = np.arange(len(totals)) - (totals - 1) * totals // 2
    return pa.table({total: totals, place: places})


def _refuse_column(bench: Workbench, name: str) -> None:
    if name in bench.names():
        raise AnalysisError(f"transfers already has a column {name!r}; drop or rename it first")
