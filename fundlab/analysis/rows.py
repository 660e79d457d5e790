"""What every analysis of transfers agrees on: which rows count, for which asset, how much.

Decisions on money: ``CREDIT`` adds ``total``, ``DEBIT`` takes it, on ``balance_asset`` where
present; ``FAILED`` counts nothing; ``PENDING`` counts only for ``DEBIT``, only in ``available``.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import narwhals as nw
import pyarrow as pa

from fundlab.analysis.engines import (
    MONEY,
    MONEY_TYPE,
    TEXT,
    TIME,
    Wanted,
    Workbench,
    columns,
    wanted,
)
from fundlab.errors import AnalysisError, shorten
from fundlab.models import Direction, TransferStatus

View = Literal["ledger", "available"]

COMPLETED: Final = (TransferStatus.COMPLETED.value, "COMPLETE")  # the second: interface §2.4, note
STATUSES: Final = (*(status.value for status in TransferStatus), "COMPLETE")
DIRECTIONS: Final = tuple(direction.value for direction in Direction)
KEYS: Final = ("profile_id", "asset")
OPENING: Final = wanted("opening", profile_id=TEXT, asset=TEXT, balance=MONEY)
SHOWN_ROWS: Final = 5

Rows = nw.LazyFrame[Any]


def transfer_columns(by: str, **extra: Any) -> Wanted:
    """The columns that decide whether, when and how a transfer changes a balance."""
    return wanted(
        "transfers",
        {"balance_asset": TEXT},
        **{
            "id": TEXT, "profile_id": TEXT, "asset": TEXT, "direction": TEXT, "status": TEXT,
            "total": MONEY, by: TIME,
        },
        **extra,
    )  # fmt: skip


def zero() -> nw.Expr:
    return nw.lit(0).cast(nw.Decimal(38, 18))


def moved_asset() -> nw.Expr:
    """The asset whose balance changes (contract, 'In results')."""
    return nw.coalesce(nw.col("balance_asset"), nw.col("asset"))


def known_rows(bench: Workbench, rows: Rows) -> Rows:
    """``rows``, once it is sure that every status and direction is known.

    Raises :class:`AnalysisError` naming the first rows otherwise.
    """
    refuse(bench, rows, "status", ~nw.col("status").is_in(STATUSES), f"is not one of {STATUSES}")
    refuse(
        bench, rows, "direction", ~nw.col("direction").is_in(DIRECTIONS),
        f"is not one of {DIRECTIONS}",
    )  # fmt: skip
    return rows


def changes(
    bench: Workbench, transfers: object, view: View, by: str, *, keep: bool = False
) -> Rows:
    """The rows that count in ``view``: ``id``, ``profile_id``, ``asset`` (the one that changes),
    ``at`` (``by`` in ns) and the signed ``change``."""
    choice("view", view, get_args(View))
    rows = known_rows(bench, bench.take(transfers, transfer_columns(by), keep=keep))
    counting = rows.filter(_counts(view))
    for name in ("id", "profile_id", "asset", "total", by):
        refuse(bench, counting, name, nw.lit(False), "is missing")
    signed = nw.when(nw.col("direction") == "CREDIT").then(nw.col("total"))
    return counting.with_columns(
        asset=moved_asset(), at=nw.col(by), change=signed.otherwise(zero() - nw.col("total"))
    )


def opening_balances(bench: Workbench, opening: object) -> Rows:
    """``profile_id``, ``asset``, ``opened``; none where ``opening`` is ``None``. Unique keys."""
    if opening is None:
        nothing = columns(profile_id=pa.string(), asset=pa.string(), opened=MONEY_TYPE)
        return bench.constant(nothing.empty_table())
    rows = bench.take(opening, OPENING)
    for name in OPENING.columns:
        refuse(bench, rows, name, nw.lit(False), "is missing", label="opening")
    unique(bench, rows, "opening")
    return rows.select(*KEYS, opened=nw.col("balance"))


def unique(bench: Workbench, rows: Rows, label: str) -> None:
    """Refuses a second row for a profile and asset."""
    counts = rows.group_by(*KEYS).agg(count=nw.len()).filter(nw.col("count") > 1)
    doubled = bench.collect(counts.sort(*KEYS).head(SHOWN_ROWS)).to_pylist()
    if doubled:
        shown = "; ".join(f"{row['profile_id']} {row['asset']}" for row in doubled)
        raise AnalysisError(f"{label} has more than one row for: {shown}")


def refuse(
    bench: Workbench, rows: Rows, name: str, wrong: nw.Expr, problem: str, label: str = "transfers"
) -> None:
    """Raises :class:`AnalysisError` naming rows where ``wrong`` holds or ``name`` is missing."""
    named = "id" if label == "transfers" else "profile_id"
    bad = rows.filter(nw.col(name).is_null() | wrong).select(row=nw.col(named), value=nw.col(name))
    first = bench.collect(bad.sort("row", "value").head(SHOWN_ROWS + 1)).to_pylist()
    if not first:
        return
    values = {row["value"] for row in first}
    what = "is missing" if values == {None} else f"{shorten(first[0]['value'])} {problem}"
    shown = ", ".join(str(row["row"]) for row in first[:SHOWN_ROWS])
    more = " and more" if len(first) > SHOWN_ROWS else ""
    raise AnalysisError(f"{label}: {name} {what} ({named} {shown}{more})")


def choice(parameter: str, value: object, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise AnalysisError(f"{parameter}={value!r} is not one of {', '.join(accepted)}")


def _counts(view: View) -> nw.Expr:
    completed = nw.col("status").is_in(COMPLETED)
    if view == "ledger":
        return completed
    return completed | ((nw.col("status") == "PENDING") & (nw.col("direction") == "DEBIT"))
