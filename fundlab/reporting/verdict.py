"""Reconciled or not, by how much, since when, and why."""

from __future__ import annotations

from typing import Any, Final

import duckdb
import pandas as pd

from fundlab.analysis import reconcile
from fundlab.analysis.engines import to_pandas
from fundlab.reporting.facts import KeyFigure, Tone, Verdict, age_text
from fundlab.reporting.inputs import Relation, count, frame_of
from fundlab.values import money_text

KEYS: Final = ["profile_id", "asset"]
MAX_EXPLAINED_ROWS: Final = 200_000


def compared(
    rows: Relation, reported: pd.DataFrame, opening: pd.DataFrame | None, assertions: pd.DataFrame
) -> pd.DataFrame:
    """``reconcile.compare`` with ``since``, when a difference was first seen."""
    comparison = frame_of(reconcile.compare(rows, reported, opening))
    comparison = comparison.merge(_first_seen(assertions), on=KEYS, how="left")
    comparison.loc[comparison["status"] == "match", "since"] = pd.NaT
    return comparison


def explained(
    rows: Relation, reported: pd.DataFrame, opening: pd.DataFrame | None, comparison: pd.DataFrame
) -> pd.DataFrame:
    """``reconcile.explain`` of what does not match."""
    broken = comparison[comparison["status"] != "match"]
    profiles = sorted(set(broken["profile_id"]))
    theirs = rows.filter(
        duckdb.ColumnExpression("profile_id").isin(
            *(duckdb.ConstantExpression(name) for name in [*profiles, ""])
        )
    )
    few = profiles if count(theirs) <= MAX_EXPLAINED_ROWS else []
    causes = reconcile.explain(
        theirs.to_arrow_table() if few else theirs.limit(0).to_arrow_table(),
        reported[reported["profile_id"].isin(few)],
        opening=None if opening is None else opening[opening["profile_id"].isin(few)],
    )
    return to_pandas(causes)


def judge(comparison: pd.DataFrame, transfers: int, assertions: pd.DataFrame) -> Verdict:
    compared = len(comparison)
    broken = comparison[comparison["status"] != "match"]
    if not compared:
        return Verdict("warn", "Nothing to reconcile", "No balance was rebuilt or reported.", 0, 0)
    if broken.empty:
        last = assertions["observed_at"].max()
        seen = "" if pd.isna(last) else f", as observed until {last:%Y-%m-%d %H:%M} UTC"
        detail = (
            f"All {compared:,} balances rebuilt from {transfers:,} transfers equal what the "
            f"service reports, to the last of 18 decimals{seen}."
        )
        return Verdict("good", "Reconciled: 0 breaks", detail, compared, 0)
    count = len(broken)
    gaps = broken["difference"].abs().groupby(broken["asset"]).sum()
    sums = ", ".join(f"{money_text(gap)} {asset}" for asset, gap in gaps.items())
    noun = "break" if count == 1 else "breaks"
    detail = (
        f"{count:,} of {compared:,} balances differ from what the service reports; "
        f"the differences, regardless of sign, add up to {sums}. {_since_when(broken['since'])}"
    )
    return Verdict("bad", f"Not reconciled: {count:,} {noun}", detail, compared, count)


def key_figures(
    states: dict[str, int],
    comparison: pd.DataFrame,
    open_items: pd.DataFrame,
    fee_sums: pd.DataFrame,
    violations: pd.DataFrame,
) -> tuple[KeyFigure, ...]:
    completed = states.get("COMPLETED", 0) + states.get("COMPLETE", 0)
    matching = int((comparison["status"] == "match").sum())
    dollars: Any = fee_sums.loc[fee_sums["asset"] == "USD", "fee"].sum()
    assets = comparison["asset"].nunique()
    oldest = f"the oldest {age_text(open_items['age'].max())}" if len(open_items) else "none waits"
    return (
        KeyFigure(
            "Balances that match",
            f"{matching:,} of {len(comparison):,}",
            f"{comparison['profile_id'].nunique():,} profiles, {assets:,} assets",
            _tone(len(comparison), matching),
        ),
        KeyFigure(
            "Transfers",
            f"{sum(states.values()):,}",
            f"{completed:,} completed, {states.get('FAILED', 0):,} failed",
        ),
        KeyFigure("Open items", f"{len(open_items):,}", oldest),
        KeyFigure("Fees in USD", money_text(dollars), "completed transfers"),
        KeyFigure(
            "Row checks",
            "all hold" if violations.empty else f"{len(violations):,} violated",
            "totals, fees, states, times, ids",
            "good" if violations.empty else "bad",
        ),
    )


def _first_seen(assertions: pd.DataFrame) -> pd.DataFrame:
    """For each balance the first observation after the last one that agreed."""
    off = assertions[assertions["difference"] != 0]
    agreed = assertions[assertions["difference"] == 0].groupby(KEYS)["observed_at"].max()
    later = off.merge(agreed.rename("agreed").reset_index(), on=KEYS, how="left")
    later = later[later["agreed"].isna() | (later["observed_at"] > later["agreed"])]
    return later.groupby(KEYS)["observed_at"].min().rename("since").reset_index()


def _since_when(since: pd.Series[Any]) -> str:
    known = since.dropna()
    if known.empty:
        return "Since when is not known: no earlier observation agreed."
    return f"First seen at {known.min():%Y-%m-%d %H:%M:%S} UTC."


def _tone(compared: int, matching: int) -> Tone:
    if not compared:
        return "plain"
    return "good" if matching == compared else "bad"
