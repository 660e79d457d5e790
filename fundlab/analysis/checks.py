"""Rules every transfer keeps, and what looks odd: each a row of the result, with its rule."""

from __future__ import annotations

from typing import Final

from fundlab.analysis.anomalies import anomalies
from fundlab.analysis.compare import begins
from fundlab.analysis.engines import JSON, MONEY, TEXT, TIME, FrameT, Workbench, wanted
from fundlab.transfers import AMOUNTS, LINKS, TEXTS, TIMES, VIOLATION, violations

__all__ = ["anomalies", "invariants"]

_WANTED: Final = wanted(
    "transfers",
    {**dict.fromkeys(LINKS, TEXT), "auto_conversion": JSON},
    **dict.fromkeys(TEXTS, TEXT),
    **dict.fromkeys(AMOUNTS, MONEY),
    **dict.fromkeys(TIMES, TIME),
)


def invariants(transfers: FrameT, complete: bool | None = None) -> FrameT:
    """``transfer_id``, ``rule``, ``expected``, ``found`` (text), sorted; empty when all hold. The
    same rules as in ``Store.verify``.

    Rules (interface §2.4): ``required`` fields are there; ``status`` and ``direction`` are listed
    (others are kept when they are loaded, with a warning, but nobody can count them, so they are
    violations until somebody has looked); ``direction_of_type`` agrees with the type, where that
    is listed; ``total`` is amount less fee for credits, plus fee for debits; ``not_negative``
    holds for amount, fee and total; ``balance_asset`` is another than ``asset`` only where
    ``auto_conversion`` shows a conversion (``{}`` shows none; a frame without that column cannot
    tell), and never empty; ``updated_at`` is not before ``created_at``; ``unique_id`` holds;
    the ``halves`` of an internal transfer do not contradict each other (a row for each
    ``group_id``, under its first id; a half alone contradicts nothing); the other transfers that a
    ``conversion`` names are there, where the frame is ``complete``: ``False`` says that it holds
    only a part of them, such as one month; by default a frame read from a store knows.

    Raises :class:`AnalysisError` for missing columns and columns of another type.

    >>> fl.checks.invariants(transfers).empty
    True
    >>> wrong = transfers.assign(total=transfers["amount"])
    >>> fl.checks.invariants(wrong)
      transfer_id   rule expected found
    0          t2  total      225   200
    1          t5  total    100.5  75.5
    """
    if complete is None:
        complete = begins(transfers) is None
    with Workbench(transfers) as bench:
        found = violations(
            bench.take(transfers, _WANTED),
            collect=bench.collect,
            beside=bench.constant,
            complete=complete,
            shows_conversions="auto_conversion" in bench.names(),
        )
        result: FrameT = bench.give(found.sort(*VIOLATION.names, nulls_last=True), VIOLATION)
        return result
