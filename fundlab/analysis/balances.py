"""Balances rebuilt from transfers: after each one, at any time, at the close of every day, and as
the statement of a period; and what pending withdrawals hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from fundlab.analysis.closing import roll_forward
from fundlab.analysis.counting import (
    KEYS,
    SHOWN_ROWS,
    balances_of,
    check_reaches,
    moment_of,
    opening_balances,
    refuse,
    signed_changes,
    span_in,
)
from fundlab.analysis.engines import (
    MONEY,
    ROW,
    TEXT_TYPE,
    TIME_TYPE,
    FrameT,
    Workbench,
    columns,
    is_store,
)
from fundlab.analysis.periods import days_between, local_ns, span_of, whole
from fundlab.analysis.streaming import stream_running, write_stream
from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import AnalysisError
from fundlab.base.periods import DAY, Moment, day_number, moment_or_close
from fundlab.store.snapshot import steadily
from fundlab.tables.transfers import ZERO, Basis, View, has_right_total

if TYPE_CHECKING:
    from fundlab.evidence.table_store import TableStore

__all__ = [
    "at",
    "changes",
    "daily",
    "holds",
    "roll_forward",
    "running",
    "statement",
    "write_running",
]
__dir__ = __all__.copy  # what completion offers

_BLOCK: Final = 64
_PARTS: Final = ("credits", "debits", "fees")
_CHANGES: Final = columns(
    ("transfer_id profile_id asset", TEXT_TYPE), ("at", TIME_TYPE), ("change", AMOUNT_TYPE)
)
_AT: Final = columns(("profile_id asset", TEXT_TYPE), ("balance", AMOUNT_TYPE))
_DAILY: Final = columns(
    ("profile_id asset", TEXT_TYPE), ("date", pa.date32()), ("balance", AMOUNT_TYPE)
)
_STATEMENT: Final = columns(
    ("profile_id asset", TEXT_TYPE),
    *dict.fromkeys(("opening", *_PARTS, "closing"), AMOUNT_TYPE).items(),
)
_HOLDS: Final = columns(
    ("profile_id asset", TEXT_TYPE),
    ("count", pa.int64()),
    ("held", AMOUNT_TYPE),
    ("since", TIME_TYPE),
)


def changes(
    transfers: FrameT,
    view: View = "ledger",
    by: str = "created_at",
    basis: Basis | None = None,
) -> FrameT:
    """``transfer_id``, ``profile_id``, ``asset``, ``at``, ``change``, by ``at``, ties by id: the
    signed change each transfer that counts makes (decimal), to which asset and when.

    ``by`` is a column of times. ``basis="settled"`` means ``by="settled_at"``, the column of
    ``store.read("transfers", settled=True)``; in the view ``available`` a debit then counts from
    when it is made. ``"created"`` is ``created_at``, and so is the default of every analysis; a
    report's is ``settled``. Raises :class:`AnalysisError` for missing columns and rows nobody can
    count.

    >>> fl.balances.changes(transfers)[["transfer_id", "profile_id", "change"]]
      transfer_id profile_id  change
    0          t1       main    1000
    1          t2       main    -225
    2          t3       main     -60
    3          t4      spare      60
    """
    by = moment_of(basis, by)
    with Workbench(transfers, by) as bench:
        rows, _ = signed_changes(bench, transfers, view, by, named=True)
        return bench.give(rows.rename({"id": "transfer_id"}).sort("at", "transfer_id"), _CHANGES)


def running(
    transfers: FrameT,
    opening: object = None,
    view: View = "ledger",
    by: str = "created_at",
    basis: Basis | None = None,
) -> FrameT:
    """The transfers that count, in order of ``by`` (ties by ``id``), each with the exact
    ``balance`` of its profile and asset after it.

    Every column of ``transfers`` stays as it was, except ``asset``: it names the asset whose
    balance changes (``balance_asset`` where present). ``opening`` has ``profile_id``, ``asset``,
    ``balance``. ``basis`` as in :func:`changes`. Raises :class:`AnalysisError` for missing columns
    and invalid rows, ``OverflowError`` for a balance beyond 20 integer digits.

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
    by = moment_of(basis, by)
    if is_store(transfers) and by == "created_at":
        return cast("FrameT", _stream(cast("Any", transfers), None, opening, view))
    with Workbench(transfers, by) as bench:
        counting, _ = signed_changes(bench, transfers, view, by, keep=True, named=True)
        if "balance" in map(str.casefold, bench.names()):
            raise AnalysisError("transfers already has a column 'balance'; drop or rename it first")
        order = ["at", "id"] if bench.lazy else ["at", "id", ROW]
        result = (
            counting.with_columns(moved=nw.col("change").cum_sum().over(*KEYS, order_by=order))
            .join(opening_balances(bench, opening), on=list(KEYS), how="left")
            .with_columns(balance=nw.coalesce("opened", ZERO) + nw.col("moved"))
            .sort(order)
        )
        return bench.give_rows(result, {"asset": TEXT_TYPE, "balance": AMOUNT_TYPE})


def write_running(
    store: TableStore,
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


def _stream(
    store: TableStore, columns: Sequence[str] | None, opening: object, view: View
) -> pa.RecordBatchReader:
    opened: pa.Table | None = None
    if opening is not None:
        with Workbench(opening) as bench:
            opened = bench.collect(opening_balances(bench, opening))
    return stream_running(store.current("transfers"), columns, opened, view)


def at(
    transfers: FrameT,
    when: Moment | date,
    opening: object = None,
    view: View = "ledger",
    by: str = "created_at",
    basis: Basis | None = None,
    tz: str = "UTC",
) -> FrameT:
    """``profile_id``, ``asset``, ``balance`` once everything up to and including ``when`` has
    happened, sorted; one row for each profile and asset that moved until then or was opened.

    ``when`` is ISO text, a datetime or a Timestamp, nanoseconds included; a calendar day stands
    for its close in the zone ``tz``, as in :func:`daily` and :func:`statement`. ``basis`` as in
    :func:`changes`.
    Statuses are those of ``transfers``: a transfer pending now counts as pending at ``when``.
    Of a store it is a DuckDB relation, which ``fl.show`` shows for people. After the newest of the
    transfers it is the balance that this one left: what came later is not known. A frame that was
    read with an earlier ``until`` is an :class:`AnalysisError` where that cut off rows, here and
    wherever a period or a day is asked for.

    >>> fl.balances.at(transfers, "2026-10-02T12:00:00Z")
      profile_id asset  balance
    0       main   USD      775
    >>> fl.balances.at(transfers, "2026-10-31", view="available")
      profile_id asset  balance
    0       main   USD    614.5
    1      spare   USD       60
    """
    moment, by = moment_or_close(when, "when", tz), moment_of(basis, by)
    check_reaches(transfers, f"when={when}", lambda: moment)
    with Workbench(transfers, by) as bench:
        counting, _ = signed_changes(bench, transfers, view, by)
        balances = balances_of(
            counting.filter(nw.col("at") <= moment), opening_balances(bench, opening)
        )
        return bench.give(balances.sort(KEYS), _AT)


def daily(
    transfers: FrameT,
    tz: str = "UTC",
    until: str | date | datetime | None = None,
    opening: object = None,
    view: View = "ledger",
    by: str = "created_at",
    basis: Basis | None = None,
) -> FrameT:
    """Closing balances: ``profile_id``, ``asset``, ``date``, ``balance``, sorted.

    One row for every calendar day in ``tz`` from the first change of that profile and asset to
    its last one, or to ``until`` (that day included); days without movement repeat the balance.
    ``date`` is midnight without zone in pandas, a date elsewhere. ``basis`` as in :func:`changes`.

    >>> fl.balances.daily(transfers, until="2026-10-04")
      profile_id asset       date  balance
    0       main   USD 2026-10-01     1000
    1       main   USD 2026-10-02      775
    2       main   USD 2026-10-03      715
    3       main   USD 2026-10-04      715
    4      spare   USD 2026-10-04       60
    """
    end, by = None if until is None else day_number("until", until), moment_of(basis, by)
    with Workbench(transfers, by) as bench:
        counting, span = signed_changes(bench, transfers, view, by)
        bounds = span or span_of(bench, counting)
        # The sum of changes after each day with some, and for how many days it stays.
        moved = (
            counting.with_columns(day=whole(local_ns(tz, *bounds), DAY))
            .group_by(*KEYS, "day")
            .agg(change=nw.col("change").sum())
            .with_columns(
                moved=nw.col("change").cum_sum().over(*KEYS, order_by="day"),
                following=nw.col("day").shift(-1).over(*KEYS, order_by="day"),
            )
        )
        if end is None:
            last = f"{pd.Timestamp(bounds[1], tz='UTC').tz_convert(tz):%Y-%m-%d}"
            stays = nw.coalesce(nw.col("following"), nw.col("day") + 1)
        else:
            last = str(np.datetime64(end, "D"))
            stays = nw.min_horizontal("following", nw.lit(end + 1))
        check_reaches(transfers, f"until={last}", lambda: moment_or_close(last, "until", tz))
        lasting = moved.select(*KEYS, "moved", "day", days=(stays - nw.col("day")).cast(nw.Int64))
        calendar = days_between(bounds[0] // DAY - 1, bounds[1] // DAY + 1 if end is None else end)
        # Each row once for each day it stays, in blocks of days and by equal keys only: engines
        # join ranges slowly. What does not stay a day has no block.
        blocks = bench.constant(_counts_up_to(calendar.num_rows // _BLOCK + 1, "blocks", "block"))
        places = bench.constant(_counts_up_to(_BLOCK, "size", "place"))
        in_blocks = lasting.with_columns(blocks=whole(nw.col("days") + _BLOCK - 1, _BLOCK)).join(
            blocks, on="blocks", how="inner"
        )
        rest = nw.when(nw.col("block") == nw.col("blocks") - 1).then(
            nw.col("days") - nw.col("block") * _BLOCK
        )
        size = rest.otherwise(nw.lit(_BLOCK)).cast(nw.Int64)
        in_days = in_blocks.with_columns(size=size).join(places, on="size", how="inner")
        day = nw.col("day") + nw.col("block") * _BLOCK + nw.col("place")
        closing = (
            in_days.select(*KEYS, "moved", day=day.cast(nw.Int64))
            .join(bench.constant(calendar), on="day", how="inner")
            .join(opening_balances(bench, opening), on=list(KEYS), how="left")
            .with_columns(balance=nw.coalesce("opened", ZERO) + nw.col("moved"))
        )
        return bench.give(closing.sort(*KEYS, "day"), _DAILY)


def _counts_up_to(most: int, total: str, place: str) -> pa.Table:
    """For every total up to ``most`` the places 0, 1 … below it."""
    totals = np.repeat(np.arange(1, most + 1), np.arange(1, most + 1))
    places = np.arange(len(totals)) - (totals - 1) * totals // 2
    return pa.table({total: totals, place: places})


def statement(
    transfers: FrameT,
    period: str | tuple[Moment, Moment],
    opening: object = None,
    view: View = "ledger",
    by: str = "created_at",
    tz: str = "UTC",
    basis: Basis | None = None,
) -> FrameT:
    """``profile_id``, ``asset``, ``opening``, ``credits``, ``debits``, ``fees``, ``closing``
    (decimals, all but opening and closing unsigned), sorted: each profile and asset that moved
    until the period's end or was opened.

    ``period`` is ``2026``, ``2026-Q4``, ``2026-10``, ``2026-W40`` or ``2026-10-31`` in the zone
    ``tz``, or a pair of moments, the second left out; ``basis`` as in :func:`changes`, and what
    :func:`roll_forward` shows line by line. ``opening`` holds balances before the first
    of ``transfers``. The closing is summed from ``total`` alone and proves itself: it must equal
    opening + credits - debits - fees, summed from ``amount`` and ``fee``. Raises
    :class:`AnalysisError` naming the transfers where it does not, and for invalid rows;
    ``OverflowError`` beyond 20 integer digits.

    >>> fl.balances.statement(transfers, "2026-10-02").drop(columns="asset")
      profile_id  opening  credits  debits  fees  closing
    0       main     1000        0     200    25      775
    """
    (first, end), by = span_in(transfers, period, tz), moment_of(basis, by)
    with Workbench(transfers, by) as bench:
        counting, _ = signed_changes(bench, transfers, view, by, amount=MONEY, fee=MONEY)
        rows, inside = counting.filter(nw.col("at") < end), nw.col("at") >= first
        # A total that is not amount and fee would leave the closing unexplained.
        period_rows = rows.filter(inside)
        refuse(bench, period_rows, ("amount", "fee"))
        wrong = period_rows.filter(~has_right_total()).select("id").sort("id")
        ids = bench.collect(wrong.head(SHOWN_ROWS + 1)).column("id").to_pylist()
        if ids:
            shown = ", ".join(ids[:SHOWN_ROWS]) + (" and more" if len(ids) > SHOWN_ROWS else "")
            raise AnalysisError(
                f"transfers: the closing does not prove itself: total is not amount less fee "
                f"(credits) or plus fee (debits) (id {shown}); see checks.invariants"
            )
        # What moved before the period, and what in it: by total, and by its parts.
        credit = nw.col("direction") == "CREDIT"
        moves = {
            "before": (~inside, "change"),
            "within": (inside, "change"),
            "credits": (inside & credit, "amount"),
            "debits": (inside & ~credit, "amount"),
            "fees": (inside, "fee"),
        }
        sums = (
            rows.with_columns(
                **{
                    name: nw.when(those).then(nw.col(column)).otherwise(ZERO)
                    for name, (those, column) in moves.items()
                }
            )
            .group_by(*KEYS)
            .agg(**{name: nw.col(name).sum() for name in moves})
            .join(opening_balances(bench, opening), on=list(KEYS), how="full", suffix="_opened")
            .select(
                *(nw.coalesce(key, f"{key}_opened").alias(key) for key in KEYS),
                *(nw.coalesce(name, ZERO).alias(name) for name in (*moves, "opened")),
            )
            .with_columns(opening=nw.col("opened") + nw.col("before"))
            .with_columns(closing=nw.col("opening") + nw.col("within"))
        )
        return bench.give(sums.sort(KEYS), _STATEMENT)


def holds(transfers: FrameT) -> FrameT:
    """``profile_id``, ``asset``, ``count`` (int64), ``held`` (decimal), ``since`` (the oldest
    ``created_at``), sorted: what pending withdrawals and other debits keep from being available.

    Raises :class:`AnalysisError` for invalid rows.

    >>> fl.balances.holds(transfers)[["profile_id", "asset", "count", "held"]]
      profile_id asset  count   held
    0       main   USD      1  100.5
    """
    with Workbench(transfers) as bench:
        counting, _ = signed_changes(bench, transfers, "available", "created_at")
        held = (
            counting.filter(nw.col("status") == "PENDING")
            .group_by(*KEYS)
            .agg(
                count=nw.len().cast(nw.Int64), held=nw.col("total").sum(), since=nw.col("at").min()
            )
        )
        return bench.give(held.sort(KEYS), _HOLDS)
