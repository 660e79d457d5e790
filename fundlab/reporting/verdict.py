"""The key figures beside the verdict, and why balances break."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fundlab.analysis import reconcile
from fundlab.display import Tone
from fundlab.errors import number_of
from fundlab.models import COMPLETED
from fundlab.reporting.facts import KeyFigure, age_text
from fundlab.reporting.inputs import Relation, frame_of
from fundlab.store.judgement import KEYS, SOUND, Judgement
from fundlab.values import money_text


def explained(
    rows: Relation, reported: pd.DataFrame, opening: pd.DataFrame | None, broken: pd.DataFrame
) -> pd.DataFrame:
    """``reconcile.explain`` of the ``broken`` balances, among all rows: the other half of an
    internal transfer may be in a profile that matches."""
    if broken.empty:
        rows, reported = rows.limit(0), reported.iloc[:0]
    causes = frame_of(reconcile.explain(rows, reported, opening=None if broken.empty else opening))
    ours = pd.MultiIndex.from_frame(causes[KEYS]).isin(pd.MultiIndex.from_frame(broken[KEYS]))
    return causes[ours].reset_index(drop=True)


def key_figures(
    states: dict[str, int],
    judgement: Judgement,
    open_items: pd.DataFrame,
    fee_sums: pd.DataFrame,
    violations: pd.DataFrame,
    later: int,
) -> tuple[KeyFigure, ...]:
    completed = sum(states.get(status, 0) for status in COMPLETED)
    comparison = judgement.table
    dollars: Any = fee_sums.loc[fee_sums["asset"] == "USD", "fee"].sum()
    matching = judgement.balances - judgement.breaks
    tone: Tone
    label, tone = "Balances that match", "good" if judgement.balances else "plain"
    if judgement.since is not None:
        label, matching = "Movements that match", _with_later_observation(judgement)
        tone = "good" if matching == judgement.balances else "plain"
    oldest = f"the oldest {age_text(open_items['age'].max())}" if len(open_items) else "none waits"
    return (
        KeyFigure(
            label,
            f"{matching:,} of {judgement.balances:,}",
            f"{number_of(comparison['profile_id'].nunique(), 'profile')}, "
            f"{number_of(comparison['asset'].nunique(), 'asset')}",
            "bad" if judgement.breaks else tone,
        ),
        KeyFigure(
            "Transfers",
            f"{sum(states.values()):,}",
            f"{completed:,} completed, {states.get('FAILED', 0):,} failed"
            + (f"; {later:,} dated later than this report left out" if later else ""),
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


def _with_later_observation(judgement: Judgement) -> int:
    """How many balances that do not break were observed after their opening was taken over."""
    counts = judgement.observations.groupby(KEYS).size()
    sound = judgement.table.loc[judgement.table["status"].isin(SOUND), KEYS]
    return int((counts.reindex(pd.MultiIndex.from_frame(sound)) > 1).sum())
