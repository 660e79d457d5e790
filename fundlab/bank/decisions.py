"""What a person accepts of what the bank and the service have open: who, why, and as what.

There is one way: :func:`accept` records it in the store, as an annotation, and every later
reconciliation, report and close pack goes by the last word on an item.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import pandas as pd

from fundlab.base.errors import AnalysisError
from fundlab.display import Card, Row

Kind = Literal["match", "apart", "explained", "bank_error", "service_error", "open"]
"""Belong together; do not; stands where it is, and is explained; an error of one side, which never
happened; and what was decided of it is taken back."""
_PAIR: Final = re.compile(r"(match|not) (\S+)")
_ENTRY: Final = re.compile(r"bank-[0-9a-f]{20}", re.ASCII)


@dataclass(slots=True)
class Decisions:
    """The last word on each item, and on each pair of an entry and a transfer."""

    of_item: dict[str, str] = field(default_factory=dict)
    together: set[tuple[str, str]] = field(default_factory=set)
    apart: set[tuple[str, str]] = field(default_factory=set)


def decisions_of(
    annotations: pd.DataFrame | None, entries: Collection[str], transfers: Collection[str]
) -> Decisions:
    """What ``annotations`` (``item_id``, ``decision``, oldest first) say of them. Raises
    :class:`AnalysisError` for a frame without these columns."""
    decisions = Decisions()
    if annotations is None:
        return decisions
    if not {"item_id", "decision"}.issubset(annotations.columns):
        raise AnalysisError(
            "decisions: give a frame with the columns item_id and decision, such as "
            "store.annotations()"
        )
    pairs: dict[tuple[str, str], str] = {}
    given = annotations.dropna(subset=["decision"])
    for item_id, decision in zip(given["item_id"], given["decision"].astype(str), strict=True):
        pair = _PAIR.fullmatch(decision)
        if decision == "open":
            decisions.of_item.pop(item_id, None)
            pairs = {both: word for both, word in pairs.items() if item_id not in both}
            continue
        for item, other in ((item_id, pair[2]), (pair[2], item_id)) if pair else ():
            if pair and item in entries and other in transfers:
                pairs[item, other] = pair[1]
        # That an entry is not of a transfer does not say what else it is.
        if not decision.startswith("not "):
            decisions.of_item[item_id] = decision
    decisions.together = {pair for pair, word in pairs.items() if word == "match"}
    decisions.apart = {pair for pair, word in pairs.items() if word == "not"}
    return decisions


def accept(store: Any, *ids: str, by: str, reason: str, kind: Kind | None = None) -> Card:
    """Records in ``store`` what somebody decided of open items of the bank, and shows it.

    ``ids`` are of entries (``bank-…``) and transfers. With both they belong together (``match``),
    whatever their amounts; without, each is explained where it stands (``explained``). Another
    ``kind`` says otherwise: ``apart`` (never together), ``bank_error``, ``service_error`` (it
    never happened), ``open`` (what was decided of it is taken back). ``by`` is who, ``reason`` why.
    Raises ``InvalidRequest`` for an id that the store does not have, :class:`AnalysisError` for a
    kind that does not fit the ids.

    >>> entry, transfer = "bank-0d1cf0ea0d1cf0ea0d1c", store.read("transfers")["id"].iloc[0]
    >>> fl.bank.accept(store, entry, transfer, by="Ana Ito", reason="the bank wrote 1,000 for 100")
    Accepted: belong together
      Entry     bank-0d1cf0ea0d1cf0ea0d1c
      Transfer  ...
      By        Ana Ito
      Reason    the bank wrote 1,000 for 100
    """
    entries = [item for item in ids if _ENTRY.fullmatch(item)]
    transfers = [item for item in ids if not _ENTRY.fullmatch(item)]
    kind = kind or ("match" if entries and transfers else "explained")
    if kind not in get_args(Kind):
        raise AnalysisError(f"kind={kind!r} is not one of {', '.join(get_args(Kind))}")
    if not ids or (kind in ("match", "apart") and not (entries and transfers)):
        needed = "an entry (bank-…) and a transfer" if ids else "an entry (bank-…), a transfer"
        raise AnalysisError(f"{kind}: give the ids of {needed}; 'fundlab bank' lists them")
    for name, value in (("by", by), ("reason", reason)):
        if not isinstance(value, str) or not value.strip():
            raise AnalysisError(f"{name}= must say {'who' if name == 'by' else 'why'}")
    transfers = [store.item(one) for one in transfers]
    each = "accepted" if kind == "explained" else str(kind)
    decided = [(item, each) for item in (*entries, *transfers)]
    if kind == "match":  # of a group each is tied to the first of the other side
        decided = [*((item, f"match {entries[0]}") for item in transfers),
                   *((item, f"match {transfers[0]}") for item in entries[1:])]  # fmt: skip
    elif kind == "apart":
        decided = [(item, f"not {other}") for item in entries for other in transfers]
    for item_id, decision in decided:
        store.annotate(item_id, comment=reason, decision=decision, by=by)
    said = {
        "match": "belong together",
        "apart": "do not belong together",
        "open": "open again",
        "bank_error": "an error of the bank",
        "service_error": "an error of the service",
    }
    rows = [*(("Entry", item) for item in entries), *(("Transfer", item) for item in transfers),
            ("By", by), ("Reason", reason)]  # fmt: skip
    return Card(
        f"Accepted: {said.get(kind, kind)}", tuple(Row(label, value) for label, value in rows)
    )
