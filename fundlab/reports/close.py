"""Closing a period: what stands in the way, and what is frozen."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from fundlab.analysis import balances
from fundlab.analysis.closing import Restatement, closes_in_force, restatements
from fundlab.analysis.counting import choice
from fundlab.base.errors import CloseRefused, InvalidRequest, number_of
from fundlab.base.periods import period_bounds
from fundlab.base.values import Instant, plain_text
from fundlab.evidence.closes import Close, closes_of
from fundlab.evidence.table_store import TableStore
from fundlab.evidence.verdict import Judgement
from fundlab.evidence.verify import DAMAGE, Verification
from fundlab.reports import figures
from fundlab.reports.facts import versions
from fundlab.reports.inputs import PLACED, Held, Span, frame_of, moment, placed
from fundlab.reports.job import transfers_known_until
from fundlab.settings.labels import names_given
from fundlab.store.records import check_texts
from fundlab.tables.transfers import MOMENTS, Basis

_SHOWN: Final = 20
OPEN_ITEM: Final = (
    "id", "ref_id", "created_at", "type", "asset", "profile_id", "amount", "fee", "total",
    "cleared_at",
)  # fmt: skip


def freeze(
    store: TableStore,
    found: Verification,
    period: str,
    *,
    basis: Basis = "settled",
    by: str | None = None,
    note: str | None = None,
    with_breaks: str | None = None,
    restate: str | None = None,
    tz: str | None = None,
    rows: Held | None = None,
    moved: list[Restatement] | None = None,
) -> dict[str, Any]:
    """The content of the record that closes ``period``; the caller holds the store's lock.

    ``found`` is what verifying the store found, ``rows`` are its transfers and ``moved`` the closed
    periods that have moved, where somebody read them. Raises ``CloseRefused`` with what stands in
    the way: a period that is not over, a damaged file, an earlier closed period that has moved;
    and, unless ``with_breaks`` is the reason to accept them, every break and row that breaks a
    rule, and that nothing was compared. Raises ``InvalidRequest`` for a period that is closed
    already, unless ``restate`` is the reason to close it anew, as it is known now, with its days
    in the same zone ``tz``. Without ``tz`` they are in that of its last close, reopened or not.
    """
    choice("basis", basis, tuple(MOMENTS))
    if not isinstance(period, str):
        raise InvalidRequest(f"period={period!r}: give a text such as '2026-10'")
    check_texts(by=by, note=note, with_breaks=with_breaks, restate=restate)
    for name, reason in (("with_breaks", with_breaks), ("restate", restate)):
        if reason is not None and not reason.strip():
            raise InvalidRequest(f"{name}={reason!r}: give the reason")
    closed = find_close(store, period, basis)
    if closed is not None and tz not in (None, closed.tz):
        raise InvalidRequest(
            f"tz={tz!r}: {closed} was closed with days in {closed.tz}; leave tz out, or reopen it"
        )
    if tz is None:
        every = closes_of(store.records())
        made = [one.tz for one in every if (one.period, one.basis) == (period, basis)]
        tz = made[-1] if made else "UTC"
    first, end = period_bounds(period, tz)
    known_at = transfers_known_until(store)
    moved = restatements(store) if moved is None else moved
    old = next((one for one in moved if one.close == closed), None)
    if closed is not None and restate is None:
        advice = "it has not moved" if old is None else f"{old}"
        raise InvalidRequest(f"{closed} is closed since {closed.record.at}: {advice}")
    if restate is not None and old is None:
        raise InvalidRequest(
            f"{period} ({basis} basis) cannot be restated: it "
            + ("is not closed" if closed is None else "has not moved since it was closed")
        )
    refused, accepted = _obstacles(found, moved, period, basis, first, end, known_at)
    if refused or (accepted and with_breaks is None):
        advice = "See to it, then close it again."
        if not refused:
            again = "" if restate is None else "--restate "
            advice = (
                f"See to it, or accept it with {again}--with-breaks --reason … "
                "(with_breaks=reason)."
            )
        raise CloseRefused(period, [*refused, *accepted], advice)
    restates = None
    if old is not None:
        restates = {"hash": old.close.hash, "reason": restate, "bridge": _texts(old.bridge)}
    found_ = figures_of(rows or Held(store, basis), found.judgement, period, tz, basis)
    items = (item["profile_id"] for item in found_["open_items"])
    profiles = {str(one).lower() for one in [*items, *(line[0] for line in found_["lines"])]}
    return {
        "period": period,
        "basis": basis,
        "tz": tz,
        "first": str(Instant.from_ns(first)),
        "end": str(Instant.from_ns(end)),
        "known_at": str(Instant.from_ns(known_at)),
        "by": by,
        "note": note,
        **found_,
        "names": {one: name for one, name in names_given().items() if one in profiles},
        "accepted": {"reason": with_breaks, "problems": accepted} if accepted else None,
        "restates": restates,
        "versions": versions(),
    }


def figures_of(
    rows: Held, judgement: Judgement | None, period: str, tz: str, basis: Basis
) -> dict[str, Any]:
    """What a close freezes of ``period``, amounts as text."""
    opening = None if judgement is None else judgement.opening
    first, end = period_bounds(period, tz)
    span = Span(first, end)
    with rows.asked() as transfers:
        if basis == "settled":
            transfers = rows.with_failures(transfers, span)
        made = Span(None, end).of(transfers)
        pending = made.filter("status = 'PENDING'")
        if basis == "settled":
            pending = figures.open_then(made, span)
        items = figures.open_items(pending, moment(end - 1))[list(OPEN_ITEM)].astype("object")
        states = dict(span.of(placed(transfers, basis), PLACED)
                      .aggregate("status, count(*)").fetchall())  # fmt: skip
        lines = frame_of(balances.roll_forward(transfers, period, opening, tz, basis))
    return {
        "lines": _texts(lines),
        "opening": [] if opening is None else _texts(opening[["profile_id", "asset", "balance"]]),
        "open_items": [
            {name: _plain(value) for name, value in zip(OPEN_ITEM, row, strict=True)}
            for row in items.itertuples(index=False)
        ],
        "figures": {
            "verdict": "nothing_to_compare" if judgement is None else judgement.state,
            "text": "No balance was compared." if judgement is None else judgement.text,
            "transfers": {str(status): int(count) for status, count in sorted(states.items())},
        },
    }


def _texts(frame: pd.DataFrame) -> list[list[str | None]]:
    columns = [[_plain(value) for value in frame[name].tolist()] for name in frame.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _plain(value: Any) -> str | None:
    """An amount, a moment or a text, as canonical JSON holds it."""
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, pd.Timestamp):
        return str(Instant.from_ns(value.value))
    return value if isinstance(value, str) else plain_text(value)


def _obstacles(
    found: Verification,
    moved: list[Restatement],
    period: str,
    basis: Basis,
    first: int,
    end: int,
    known_at: int,
) -> tuple[list[str], list[str]]:
    """What nobody may pass over, and what somebody may accept."""
    refused = []
    if end > known_at:
        refused.append(
            f"The store knows nothing of transfers after {moment(known_at):%Y-%m-%d %H:%M} UTC, "
            f"and {period} ends at {moment(end):%Y-%m-%d %H:%M}: sync it then."
        )
    refused += [f"{p}." for p in found.problems if p.rule in DAMAGE]
    refused += [
        f"The earlier period {one}." for one in moved
        if one.close.basis == basis and one.close.end < end
    ]  # fmt: skip
    accepted = [f"{p}." for p in found.problems if p.rule not in DAMAGE]
    more = len(accepted) - _SHOWN + found.unlisted
    if more > 0:
        accepted = [*accepted[:_SHOWN], f"And {number_of(more, 'more problem')}: see verify."]
    judged = found.judgement
    if judged is not None and (lacking := judged.lacks(first, basis)):
        all_of_it = judged.since is not None and judged.since.value >= end
        (refused if all_of_it else accepted).append(lacking)
    if judged is None or judged.state == "nothing_to_compare":
        accepted.append("No balance was compared." if judged is None else judged.text)
    else:
        accepted += judged.shortfalls
    return refused, accepted


def find_close(store: TableStore, period: str, basis: Basis) -> Close | None:
    """The close of ``period`` that is in force."""
    found = [one for one in closes_in_force(store) if (one.period, one.basis) == (period, basis)]
    return found[-1] if found else None
