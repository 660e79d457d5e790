"""Rebuilt balances against reported ones; and the judgement
of a store, or of a period of it, which is the verdict of its report: `fundlab.evidence.verdict`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.analysis.compare import compare
from fundlab.analysis.counting import choice
from fundlab.analysis.explain import explain
from fundlab.analysis.explore import explore
from fundlab.base.paths import opened
from fundlab.base.periods import period_bounds
from fundlab.evidence.verdict import Judgement, judge_accounts
from fundlab.tables.transfers import MOMENTS, Basis, placed_at

if TYPE_CHECKING:
    from fundlab.evidence.table_store import TableStore

__all__ = ["compare", "explain", "explore", "judge"]
__dir__ = __all__.copy  # what completion offers


def judge(
    store: TableStore,
    period: str | None = None,
    *,
    as_of: str | datetime | None = None,
    pin: str | None = None,
    tz: str = "UTC",
    basis: Basis = "settled",
) -> Judgement:
    """Whether the balances that the service reports follow from the transfers of ``store``: the
    one judgement, which ``verify``, the report, the demo and their exit statuses repeat.

    ``state`` is ``proved`` (each balance, rebuilt from the first transfer on, equals what was
    reported), ``moves_proved`` (the store begins later, at ``since``: the openings are taken over
    from the service, and every change observed after them is proved), ``breaks``, or
    ``nothing_to_compare`` (no balance was ever fetched). ``balances`` and ``breaks`` are numbers of
    balances, ``text`` the words for a person. ``table``, ``opening`` and ``observations`` are
    frames: see :class:`fundlab.evidence.verdict.Judgement`.

    Each balance is judged by its last observation, against the transfers of the publication that
    belongs to it: no clock is involved. What differed earlier and agrees now is mentioned only.
    With ``period`` the judgement is still of everything known, except that a period without any
    transfer (in days of ``tz``, on ``basis``) says so. Raises ``InvalidRequest`` for what is not
    a store, ``AnalysisError`` for a period that is not one, ``StoreDamaged`` where a file is not
    what was written.

    >>> found = fl.reconcile.judge(store)
    >>> found.state, found.since, found.breaks
    ('proved', None, 0)
    >>> fl.reconcile.judge(store, "1999").headline
    'No transfers in 1999'
    """
    judgement = judge_accounts(opened(store).accounts(as_of, pin=pin))
    if period is None:
        return judgement
    choice("basis", basis, tuple(MOMENTS))
    first, end = period_bounds(period, tz)
    rows = store.read_arrow("transfers", as_of, ["created_at"], pin=pin, settled=basis == "settled")
    placed = nw.from_native(rows, eager_only=True).select(at=placed_at(basis)).to_native()
    at = placed.column("at").cast(pa.int64())
    inside = pc.and_(pc.greater_equal(at, first), pc.less(at, end))
    return judgement.of_period(period, pc.sum(inside, min_count=0).as_py())
