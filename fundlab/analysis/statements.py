"""The statement of a period, whose closing proves itself, and what pending withdrawals hold."""

from __future__ import annotations

from typing import Final

import narwhals as nw
import pyarrow as pa

from fundlab.analysis import rows as counted
from fundlab.analysis.engines import (
    MONEY,
    MONEY_TYPE,
    TIME_TYPE,
    FrameT,
    Workbench,
    columns,
)
from fundlab.analysis.periods import Moment, period_bounds
from fundlab.analysis.rows import KEYS
from fundlab.errors import AnalysisError
from fundlab.transfers import Rows, View, has_right_total

_TEXT: Final = pa.string()
_PARTS: Final = ("credits", "debits", "fees")
_STATEMENT: Final = columns(
    profile_id=_TEXT,
    asset=_TEXT,
    opening=MONEY_TYPE,
    **dict.fromkeys(_PARTS, MONEY_TYPE),
    closing=MONEY_TYPE,
)
_HOLDS: Final = columns(
    profile_id=_TEXT, asset=_TEXT, count=pa.int64(), held=MONEY_TYPE, since=TIME_TYPE
)


def statement(
    transfers: FrameT,
    period: str | tuple[Moment, Moment],
    opening: object = None,
    view: View = "ledger",
    by: str = "created_at",
    tz: str = "UTC",
) -> FrameT:
    """``profile_id``, ``asset``, ``opening``, ``credits``, ``debits``, ``fees``, ``closing``
    (decimals, all but opening and closing unsigned), sorted: each profile and asset that moved
    until the period's end or was opened.

    ``period`` is ``2026``, ``2026-Q4``, ``2026-10``, ``2026-W40`` or ``2026-10-31`` in the zone
    ``tz``, or a pair of moments, the second left out. ``opening`` holds balances before the first
    of ``transfers``. The closing is summed from ``total`` alone and proves itself: it must equal
    opening + credits - debits - fees, summed from ``amount`` and ``fee``. Raises
    :class:`AnalysisError` naming the transfers where it does not, and for rows nobody can count;
    ``OverflowError`` beyond 20 integer digits. Interface §2.4.

    >>> fl.balances.statement(transfers, "2026-10-02").drop(columns="asset")
      profile_id  opening  credits  debits  fees  closing
    0       main     1000        0     200    25      775
    """
    first, end = period_bounds(period, tz)
    with Workbench(transfers) as bench:
        counting = counted.changes(bench, transfers, view, by, amount=MONEY, fee=MONEY)
        rows = counting.filter(nw.col("at") < end)
        _refuse_unproved(bench, rows.filter(nw.col("at") >= first))
        opened = counted.opening_balances(bench, opening)
        sides = _summed(rows, first).join(opened, on=list(KEYS), how="full", suffix="_opened")
        result: FrameT = bench.give(_closed(sides).sort(KEYS), _STATEMENT)
        return result


def holds(transfers: FrameT) -> FrameT:
    """``profile_id``, ``asset``, ``count`` (int64), ``held`` (decimal), ``since`` (the oldest
    ``created_at``), sorted: what pending withdrawals and other debits keep from being available.

    Raises :class:`AnalysisError` for rows nobody can count. Interface §2.4, §3.3.

    >>> fl.balances.holds(transfers)[["profile_id", "asset", "count", "held"]]
      profile_id asset  count   held
    0       main   USD      1  100.5
    """
    with Workbench(transfers) as bench:
        pending = counted.changes(bench, transfers, "available", "created_at").filter(
            nw.col("status") == "PENDING"
        )
        kept = pending.group_by(*KEYS).agg(
            count=nw.len().cast(nw.Int64), held=nw.col("total").sum(), since=nw.col("at").min()
        )
        result: FrameT = bench.give(kept.sort(KEYS), _HOLDS)
        return result


def _summed(rows: Rows, first: int) -> Rows:
    """What moved before ``first``, and what since: by ``total`` and by its parts."""
    inside, credit = nw.col("at") >= first, nw.col("direction") == "CREDIT"
    parts = {
        "before": _where(~inside, "change"),
        "within": _where(inside, "change"),
        "credits": _where(inside & credit, "amount"),
        "debits": _where(inside & ~credit, "amount"),
        "fees": _where(inside, "fee"),
    }
    shown = rows.with_columns(**parts)
    return shown.group_by(*KEYS).agg(**{name: nw.col(name).sum() for name in parts})


def _where(condition: nw.Expr, column: str) -> nw.Expr:
    return nw.when(condition).then(nw.col(column)).otherwise(counted.zero())


def _closed(sides: Rows) -> Rows:
    moved = sides.select(
        *(nw.coalesce(key, f"{key}_opened").alias(key) for key in KEYS),
        *(nw.coalesce(name, counted.zero()).alias(name) for name in ("before", "within", *_PARTS)),
        opened=nw.coalesce("opened", counted.zero()),
    )
    return moved.with_columns(opening=nw.col("opened") + nw.col("before")).with_columns(
        closing=nw.col("opening") + nw.col("within")
    )


def _refuse_unproved(bench: Workbench, rows: Rows) -> None:
    """A total that is not amount less fee, or plus fee, would leave the closing unexplained."""
    counted.refuse(bench, rows, counted.gap("amount"), counted.gap("fee"))
    wrong = rows.filter(~has_right_total()).select("id").sort("id")
    found = bench.collect(wrong.head(counted.SHOWN_ROWS + 1)).column("id").to_pylist()
    if found:
        shown = ", ".join(found[: counted.SHOWN_ROWS])
        more = " and more" if len(found) > counted.SHOWN_ROWS else ""
        raise AnalysisError(
            f"transfers: the closing does not prove itself: total is not amount less fee (credits) "
            f"or plus fee (debits) (id {shown}{more}); see checks.invariants"
        )
