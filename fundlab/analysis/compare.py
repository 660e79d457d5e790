"""Rebuilt balances against the ones the service reports."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, cast

import narwhals as nw
import pandas as pd
import pyarrow as pa

from fundlab.analysis.counting import (
    KEYS,
    balances_of,
    opening_balances,
    refuse,
    refuse_repeated,
    signed_changes,
)
from fundlab.analysis.engines import (
    MONEY,
    TEXT,
    TEXT_TYPE,
    TIME,
    FrameT,
    Wanted,
    Workbench,
    columns,
    is_store,
)
from fundlab.base.arrow import AMOUNT_TYPE, exact_table
from fundlab.tables.transfers import ZERO, Rows

REPORTED: Final = Wanted(
    "reported",
    {"profile_id": TEXT, "asset": TEXT, "available": MONEY, "trading": MONEY, "observed_at": TIME},
)
_RESULT: Final = columns(
    ("profile_id asset", TEXT_TYPE),
    ("rebuilt reported difference", AMOUNT_TYPE),
    ("status", TEXT_TYPE),
)
_MOVED: Final = columns(("profile_id asset", TEXT_TYPE), ("moved", AMOUNT_TYPE))
_UNKNOWN: Final = (
    nw.when(nw.col("status") == "only_rebuilt").then("status").otherwise(nw.lit("opening_unknown"))
)


def compare(
    transfers: FrameT, reported: object, opening: object = None, *, knowing: object = None
) -> FrameT:
    """``profile_id``, ``asset``, ``rebuilt``, ``reported``, ``difference``, ``status``, sorted.

    ``rebuilt`` is the ``available`` view of all of ``transfers``, ``reported``
    the latest observed ``available + trading``, ``difference`` reported less rebuilt, where
    a missing side counts as zero. ``status`` is ``match`` where the difference is zero, ``break``
    where both sides are there and differ, else ``only_rebuilt`` or ``only_reported``.

    ``transfers`` and ``reported`` should be of one moment: a transfer made after the observation
    shows as a difference. Frames read from a store know more (``frame.attrs``): what the transfers
    learned of after the last observation add is left out of ``rebuilt``; and where the rows begin
    later than the first transfer and no ``opening`` is given, ``status`` is ``opening_unknown``
    instead of ``match``, ``break`` and ``only_reported``: the difference is then the opening, and
    proves nothing. Where ``until=`` cut off rows of either, every ``status`` is
    ``closing_unknown``: balances and transfers are then of different moments, and a difference
    proves nothing. ``knowing`` is such a frame that ``transfers`` were taken from, where they no
    longer say so themselves. :func:`judge` judges a store. Raises :class:`AnalysisError` for rows
    nobody can count, for example two different observations of one balance at the same instant.

    >>> reported = pd.DataFrame(
    ...     {
    ...         "profile_id": ["main", "spare"],
    ...         "asset": "USD",
    ...         "available": pd.array(["614.50", "50"], dtype="decimal"),
    ...         "trading": pd.array(["0", "0"], dtype="decimal"),
    ...         "observed_at": pd.Timestamp("2026-10-31", tz="UTC"),
    ...     }
    ... )
    >>> fl.reconcile.compare(transfers, reported).drop(columns="asset")
      profile_id  rebuilt  reported  difference status
    0       main    614.5     614.5           0  match
    1      spare       60        50         -10  break
    """
    known = known_of(transfers if knowing is None else knowing, "transfers")
    seen = known_of(reported, "balances")
    with Workbench(transfers) as bench:
        rows = compared(bench, transfers, reported, opening, moved_since(known, seen))
        status = unknown_status(known, seen, opening)
        if status is not None:
            rows = rows.with_columns(status=status)
        return bench.give(rows.sort(KEYS), _RESULT)


def moved_since(known: Mapping[str, Any], seen: Mapping[str, Any]) -> pa.Table | None:
    """What moved since the balances were observed, by what their frame (``seen``) and that of the
    transfers (``known``) know; only of the same publication it is all there."""
    moved = seen.get("moved", ()) if known.get("publication") == seen.get("publication") else ()
    since = [(profile, asset, Decimal(amount)) for profile, asset, amount in moved]
    return exact_table(_MOVED, since) if since else None


def unknown_status(
    known: Mapping[str, Any], seen: Mapping[str, Any], opening: object
) -> nw.Expr | None:
    """What a balance is called whose beginning or end was cut off by how the frames were read."""
    if known.get("until") or seen.get("until"):
        return nw.lit("closing_unknown")
    if opening is None and isinstance(known.get("since"), str):
        return _UNKNOWN
    return None


def known_of(frame: object, table: str) -> Mapping[str, Any]:
    """What a frame that was read from a store knows of its rows (``Store.known``); a store, too.
    Of other frames nothing is known."""
    if is_store(frame):
        known: Mapping[str, Any] = cast("Any", frame).known(table)
        return known
    return cast("Any", frame).attrs if isinstance(frame, pd.DataFrame) else {}


def compared(
    bench: Workbench[Any],
    transfers: object,
    reported: object,
    opening: object,
    moved: pa.Table | None = None,
) -> Rows:
    """Both sides of each profile and asset, what they differ by, and what to call it; ``moved``
    since it was observed is left out."""
    changes, _ = signed_changes(bench, transfers, "available", "created_at")
    rebuilt = balances_of(changes, opening_balances(bench, opening))
    observations = bench.take(reported, REPORTED)
    refuse(bench, observations, REPORTED.columns, "reported")
    newest = nw.col("observed_at").max().over(*KEYS)
    last = (
        observations.with_columns(newest=newest)
        .filter(nw.col("observed_at") == nw.col("newest"))
        .select(*KEYS, reported=nw.col("available") + nw.col("trading"))
        .unique()
    )
    refuse_repeated(bench, last, "reported (latest observation)")
    sides = rebuilt.join(last, on=list(KEYS), how="full", suffix="_reported").select(
        *(nw.coalesce(key, f"{key}_reported").alias(key) for key in KEYS),
        nw.col("reported"),
        rebuilt=nw.col("balance"),
    )
    if moved is not None:
        then = nw.coalesce("rebuilt", ZERO) - nw.col("moved")
        sides = sides.join(bench.constant(moved), on=list(KEYS), how="left")
        sides = sides.with_columns(rebuilt=nw.coalesce(then, nw.col("rebuilt")))
    difference = nw.coalesce("reported", ZERO) - nw.coalesce("rebuilt", ZERO)
    one_side = nw.when(nw.col("reported").is_null()).then(nw.lit("only_rebuilt"))
    other_side = nw.when(nw.col("rebuilt").is_null()).then(nw.lit("only_reported"))
    matching = nw.when(nw.col("difference") == 0).then(nw.lit("match"))
    status = matching.otherwise(one_side.otherwise(other_side.otherwise(nw.lit("break"))))
    differences = sides.select(*KEYS, "rebuilt", "reported", difference=difference)
    return differences.with_columns(status=status)
