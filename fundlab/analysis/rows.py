"""What every analysis of transfers begins with: the columns it needs, the rows that count and
their signed change, and a refusal that names the rows where one cannot be counted.

What counts, for which asset and by how much is said in :mod:`fundlab.transfers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import narwhals as nw
import pyarrow as pa

from fundlab.analysis.engines import (
    MONEY,
    MONEY_TYPE,
    TEXT,
    TIME,
    Kind,
    Wanted,
    Workbench,
    columns,
    wanted,
)
from fundlab.errors import AnalysisError, shorten
from fundlab.models import COMPLETED, DIRECTIONS, STATUSES
from fundlab.transfers import Rows, View, change, counts, does_count, moved_asset

KEYS: Final = ("profile_id", "asset")
OPENING: Final = wanted("opening", profile_id=TEXT, asset=TEXT, balance=MONEY)
SHOWN_ROWS: Final = 5


def transfer_columns(by: str, /, **extra: Kind) -> Wanted:
    """The columns that decide whether, when and how a transfer changes a balance, and ``extra``."""
    if not isinstance(by, str):
        raise AnalysisError(f"by={by!r}: give the name of a column of times, such as 'created_at'")
    base = {
        "id": TEXT, "profile_id": TEXT, "asset": TEXT, "direction": TEXT, "status": TEXT,
        "total": MONEY, by: TIME,
    }  # fmt: skip
    optional = {name: TEXT for name in ("balance_asset",) if name not in extra}
    return wanted("transfers", optional, **{**base, **extra})


def zero() -> nw.Expr:
    return nw.lit(0).cast(nw.Decimal(38, 18))


@dataclass(frozen=True)
class Fault:
    """A reason to refuse a frame: the column at fault, in which rows, what is wrong with it."""

    column: str
    where: nw.Expr
    problem: str


def gap(column: str, among: nw.Expr | None = None) -> Fault:
    """A missing value, among the rows that matter."""
    missing = nw.col(column).is_null()
    return Fault(column, missing if among is None else missing & among, "is missing")


def unknown(column: str, accepted: tuple[str, ...]) -> Fault:
    """A missing value, or one that is not ``accepted``."""
    known = nw.col(column).is_in(accepted)
    return Fault(column, nw.col(column).is_null() | ~known, f"is not one of {accepted}")


STATES: Final = (
    unknown("status", STATUSES),
    unknown("direction", DIRECTIONS),
    *(Fault(name, nw.col(name) == "", "is empty") for name in ("balance_asset", "asset")),
)
"""What no analysis that counts transfers will guess at."""


def changes(
    bench: Workbench,
    transfers: object,
    view: View,
    by: str,
    *,
    keep: bool = False,
    named: bool = False,
    **also: Kind,
) -> Rows:
    """The rows that count in ``view``: ``id`` (never missing with ``named``), ``profile_id``,
    ``asset`` (the one that changes), ``at`` (``by`` in ns) and the signed ``change``; ``also`` are
    more columns, kept as they are."""
    rows = bench.take(transfers, transfer_columns(by, **also), keep=keep)
    return _counting(bench, rows, view, by, named=named)[0]


def changes_and_span(
    bench: Workbench, transfers: object, view: View, by: str
) -> tuple[Rows, tuple[int, int]]:
    """:func:`changes`, and their first and last ``at`` (0 without any), by one look at the rows."""
    rows = bench.take(transfers, transfer_columns(by))
    counting, (first, last) = _counting(bench, rows, view, by, named=False)
    return counting, (first or 0, last or 0)


def _counting(
    bench: Workbench, rows: Rows, view: View, by: str, *, named: bool
) -> tuple[Rows, tuple[int | None, int | None]]:
    choice("view", view, get_args(View))
    counted = counts(view)
    needed = (*(("id",) if named else ()), "profile_id", "asset", "total", by)
    states = bench.collect(_by_state(rows, needed, by)).to_pylist()
    if not all(_sound(state, needed, view) for state in states):
        refuse(bench, rows, *STATES, *(gap(name, counted) for name in needed))
    counting = [state for state in states if _state_counts(state, view)]
    first = min((state["first"] for state in counting), default=None)
    last = max((state["last"] for state in counting), default=None)
    return with_change(rows.filter(counted)).with_columns(at=nw.col(by)), (first, last)


def _by_state(rows: Rows, needed: Sequence[str], by: str) -> Rows:
    """What there is of each status and direction: one cheap look finds whatever is wrong."""
    return rows.group_by("status", "direction").agg(
        rows=nw.len(),
        first=nw.col(by).min(),
        last=nw.col(by).max(),
        unnamed=((nw.col("balance_asset") == "") | (nw.col("asset") == "")).any(),
        **{f"{name} there": nw.col(name).count() for name in needed},
    )


def _sound(state: Mapping[str, Any], needed: Sequence[str], view: View) -> bool:
    known = state["status"] in STATUSES and state["direction"] in DIRECTIONS
    known = known and not state["unnamed"]
    whole = all(state[f"{name} there"] == state["rows"] for name in needed)
    return known and (whole or not _state_counts(state, view))


def _state_counts(state: Mapping[str, Any], view: View) -> bool:
    return does_count(state["status"], state["direction"], view)


def with_change(rows: Rows) -> Rows:
    """The signed ``change`` of each row, and ``asset``, the one that changes."""
    return rows.with_columns(asset=moved_asset(), change=change())


def completed(bench: Workbench, rows: Rows, *needed: str) -> Rows:
    """The completed rows, sure to have ``needed``; every status and direction is known."""
    done = nw.col("status").is_in(COMPLETED)
    refuse(bench, rows, *STATES, *(gap(name, done) for name in needed))
    return rows.filter(done)


def opening_balances(bench: Workbench, opening: object) -> Rows:
    """``profile_id``, ``asset``, ``opened``; none where ``opening`` is ``None``. Unique keys."""
    if opening is None:
        nothing = columns(profile_id=pa.string(), asset=pa.string(), opened=MONEY_TYPE)
        return bench.constant(nothing.empty_table())
    rows = bench.take(opening, OPENING)
    refuse(bench, rows, *map(gap, OPENING.columns), label="opening")
    unique(bench, rows, "opening")
    return rows.select(*KEYS, opened=nw.col("balance"))


def unique(bench: Workbench, rows: Rows, label: str) -> None:
    """Refuses a second row for a profile and asset."""
    counts = rows.group_by(*KEYS).agg(count=nw.len()).filter(nw.col("count") > 1)
    doubled = bench.collect(counts.sort(*KEYS).head(SHOWN_ROWS)).to_pylist()
    if doubled:
        shown = "; ".join(f"{row['profile_id']} {row['asset']}" for row in doubled)
        raise AnalysisError(f"{label} has more than one row for: {shown}")


def unique_ids(bench: Workbench, rows: Rows, label: str) -> None:
    """Refuses a second row of an ``id``."""
    counts = rows.group_by("id").agg(count=nw.len()).filter(nw.col("count") > 1)
    doubled = bench.collect(counts.sort("id").head(SHOWN_ROWS)).column("id").to_pylist()
    if doubled:
        raise AnalysisError(f"{label}: more than one row of id {', '.join(doubled)}")


def refuse(bench: Workbench, rows: Rows, *faults: Fault, label: str = "transfers") -> None:
    """Raises :class:`AnalysisError` naming the first rows of the first fault there is."""
    there = bench.collect(
        rows.select(**{str(number): fault.where.any() for number, fault in enumerate(faults)})
    )
    for column, fault in zip(there.columns, faults, strict=True):
        if column[0].as_py():
            raise AnalysisError(_named_rows(bench, rows, fault, label))


def _named_rows(bench: Workbench, rows: Rows, fault: Fault, label: str) -> str:
    named = "id" if label in ("transfers", "events", "quotes") else "profile_id"
    bad = rows.filter(fault.where).select(row=nw.col(named), value=nw.col(fault.column))
    first = bench.collect(bad.sort("row", "value").head(SHOWN_ROWS + 1)).to_pylist()
    value = first[0]["value"]
    what = "is missing" if value is None else f"{shorten(value)} {fault.problem}"
    shown = ", ".join(str(row["row"]) for row in first[:SHOWN_ROWS])
    more = " and more" if len(first) > SHOWN_ROWS else ""
    return f"{label}: {fault.column} {what} ({named} {shown}{more})"


def choice(parameter: str, value: object, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise AnalysisError(f"{parameter}={value!r} is not one of {', '.join(accepted)}")
