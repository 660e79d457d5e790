"""Rebuilt balances against the ones the service reports."""

from __future__ import annotations

from typing import Final

import narwhals as nw
import pyarrow as pa

from fundlab.analysis import rows as counted
from fundlab.analysis.balances import balances_of
from fundlab.analysis.engines import (
    MONEY,
    MONEY_TYPE,
    TEXT,
    TIME,
    FrameT,
    Workbench,
    columns,
    wanted,
)
from fundlab.analysis.rows import KEYS, Rows

REPORTED: Final = wanted(
    "reported", profile_id=TEXT, asset=TEXT, available=MONEY, trading=MONEY, observed_at=TIME
)
_RESULT: Final = columns(
    profile_id=pa.string(),
    asset=pa.string(),
    rebuilt=MONEY_TYPE,
    reported=MONEY_TYPE,
    difference=MONEY_TYPE,
    status=pa.string(),
)


def compare(transfers: FrameT, reported: object, opening: object = None) -> FrameT:
    """``profile_id``, ``asset``, ``rebuilt``, ``reported``, ``difference``, ``status``, sorted.

    ``rebuilt`` is the ``available`` view of all of ``transfers`` (interface §2.4), ``reported``
    the latest observed ``available + trading`` (§2.5), ``difference`` reported less rebuilt, where
    a missing side counts as zero. ``status`` is ``match`` where the difference is zero, ``break``
    where both sides are there and differ, else ``only_rebuilt`` or ``only_reported``.

    ``transfers`` and ``reported`` should be of one moment: a transfer made after the observation
    shows as a difference. Raises :class:`AnalysisError` for rows nobody can count, for example
    two different observations of one balance at the same instant.

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
    with Workbench(transfers) as bench:
        rows = judged(rebuilt_balances(bench, transfers, opening), latest(bench, reported))
        result: FrameT = bench.give(rows.sort(KEYS), _RESULT)
        return result


def rebuilt_balances(bench: Workbench, transfers: object, opening: object) -> Rows:
    """``profile_id``, ``asset``, ``rebuilt``: opening plus everything that counts."""
    changes = counted.changes(bench, transfers, "available", "created_at")
    balances = balances_of(changes, counted.opening_balances(bench, opening))
    return balances.rename({"balance": "rebuilt"})


def latest(bench: Workbench, reported: object) -> Rows:
    """``profile_id``, ``asset``, ``reported``: the last observation of each."""
    rows = bench.take(reported, REPORTED)
    counted.refuse(bench, rows, *map(counted.gap, REPORTED.columns), label="reported")
    newest = nw.col("observed_at").max().over(*KEYS)
    last = rows.with_columns(newest=newest).filter(nw.col("observed_at") == nw.col("newest"))
    balances = last.select(*KEYS, reported=nw.col("available") + nw.col("trading")).unique()
    counted.unique(bench, balances, "reported (latest observation)")
    return balances


def judged(rebuilt: Rows, reported: Rows) -> Rows:
    """Both sides of each profile and asset, what they differ by, and what to call it."""
    sides = rebuilt.join(reported, on=list(KEYS), how="full", suffix="_reported")
    difference = nw.coalesce("reported", counted.zero()) - nw.coalesce("rebuilt", counted.zero())
    status = (
        nw.when(nw.col("difference") == 0)
        .then(nw.lit("match"))
        .otherwise(
            nw.when(nw.col("reported").is_null())
            .then(nw.lit("only_rebuilt"))
            .otherwise(
                nw.when(nw.col("rebuilt").is_null())
                .then(nw.lit("only_reported"))
                .otherwise(nw.lit("break"))
            )
        )
    )
    keys = [nw.coalesce(key, f"{key}_reported").alias(key) for key in KEYS]
    with_difference = sides.select(*keys, "rebuilt", "reported", difference=difference)
    return with_difference.with_columns(status=status)
