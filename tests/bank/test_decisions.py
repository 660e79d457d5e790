"""What a person decided of items: what is recorded, and which word on each is the last."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from fundlab.bank.decisions import Decisions, accept, decisions_of
from fundlab.base.errors import AnalysisError, InvalidRequest

E1, E2, E3 = (f"bank-{n:020x}" for n in (1, 2, 3))
Pairs = set[tuple[str, str]]


@pytest.mark.parametrize(
    ("said", "of_item", "together", "apart"),
    [
        ([], {}, set(), set()),
        ([("e", "accepted")], {"e": "accepted"}, set(), set()),
        ([("e", "accepted"), ("e", "bank_error")], {"e": "bank_error"}, set(), set()),
        ([("e", "accepted"), ("e", None)], {"e": "accepted"}, set(), set()),
        ([("e", "accepted"), ("e", "open")], {}, set(), set()),
        ([("e", "open")], {}, set(), set()),
        ([("e", "open"), ("e", "accepted")], {"e": "accepted"}, set(), set()),
        ([("t", "match e")], {"t": "match e"}, {("e", "t")}, set()),
        ([("e", "match t")], {"e": "match t"}, {("e", "t")}, set()),
        ([("e", "not t")], {}, set(), {("e", "t")}),
        ([("t", "not e")], {}, set(), {("e", "t")}),
        ([("e", "not t"), ("t", "match e")], {"t": "match e"}, {("e", "t")}, set()),
        ([("t", "match e"), ("e", "not t")], {"t": "match e"}, set(), {("e", "t")}),
        ([("e", "accepted"), ("e", "not t")], {"e": "accepted"}, set(), {("e", "t")}),
        ([("e", "match t"), ("f", "not t"), ("t", "open")], {"e": "match t"}, set(), set()),
        ([("e", "match t"), ("f", "not u"), ("e", "open")], {}, set(), {("f", "u")}),
        ([("e", "match f")], {"e": "match f"}, set(), set()),
        ([("t", "match u")], {"t": "match u"}, set(), set()),
        ([("x", "match t")], {"x": "match t"}, set(), set()),
        ([("e", "match y")], {"e": "match y"}, set(), set()),
        ([("e", "match t u")], {"e": "match t u"}, set(), set()),
    ],
)
def test_the_last_word_on_an_item_and_on_a_pair_counts(
    said: list[tuple[str, str | None]], of_item: dict[str, str], together: Pairs, apart: Pairs
) -> None:
    frame = pd.DataFrame(said, columns=["item_id", "decision"])
    for given in (frame, frame.assign(by="Ana")):
        found = decisions_of(given, {"e", "f"}, {"t", "u"})
        assert found == Decisions(of_item, together, apart)


def test_without_annotations_nothing_is_decided() -> None:
    assert decisions_of(None, {"e"}, {"t"}) == Decisions()
    with pytest.raises(AnalysisError, match="decisions: give a frame with the columns item_id"):
        decisions_of(pd.DataFrame({"item_id": ["e"], "comment": ["x"]}), {"e"}, {"t"})


class Recorded:
    """What would be recorded in a store, which knows every item but ``unknown``."""

    def __init__(self) -> None:
        self.decided: list[tuple[str, str]] = []

    def item(self, item: str) -> str:
        if item == "unknown":
            raise InvalidRequest("there is no item unknown")
        return item

    def annotate(self, item: str, *, comment: str, decision: str, by: str) -> None:
        assert (comment, by) == ("why", "Ana")
        self.decided.append((item, decision))


@pytest.mark.parametrize(
    ("ids", "kind", "decided", "said"),
    [
        ([E1, "t1"], None, [("t1", f"match {E1}")], "belong together"),
        (["t1", E1], None, [("t1", f"match {E1}")], "belong together"),
        ([E1, E2, "t1", E3, "t2"], "match",
         [("t1", f"match {E1}"), ("t2", f"match {E1}"), (E2, "match t1"), (E3, "match t1")],
         "belong together"),
        ([E1, "t1", E2, "t2"], "apart",
         [(E1, "not t1"), (E1, "not t2"), (E2, "not t1"), (E2, "not t2")],
         "do not belong together"),
        ([E1], None, [(E1, "accepted")], "explained"),
        (["t1", "t2"], None, [("t1", "accepted"), ("t2", "accepted")], "explained"),
        (["t1", E1], "explained", [(E1, "accepted"), ("t1", "accepted")], "explained"),
        ([E1], "open", [(E1, "open")], "open again"),
        ([E1, E2], "bank_error", [(E1, "bank_error"), (E2, "bank_error")], "an error of the bank"),
        (["t1", E1], "service_error", [(E1, "service_error"), ("t1", "service_error")],
         "an error of the service"),
        (["bank-1"], None, [("bank-1", "accepted")], "explained"),
    ],
)  # fmt: skip
def test_what_is_decided_is_recorded_and_shown(
    ids: list[str], kind: Any, decided: list[tuple[str, str]], said: str
) -> None:
    store = Recorded()
    card = accept(store, *ids, by="Ana", reason="why", kind=kind)
    assert store.decided == decided
    assert card.title == f"Accepted: {said}"
    entries = [one for one in ids if one in (E1, E2, E3)]
    assert [(row.label, row.value) for row in card.rows] == [
        *(("Entry", one) for one in entries),
        *(("Transfer", one) for one in ids if one not in entries),
        ("By", "Ana"), ("Reason", "why"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ids", "given", "words"),
    [
        (
            [],
            {},
            r"explained: give the ids of an entry \(bank-…\), a transfer; 'fundlab bank' lists",
        ),
        ([], {"kind": "match"}, r"match: give the ids of an entry \(bank-…\), a transfer; "),
        ([E1], {"kind": "match"}, r"match: give the ids of an entry \(bank-…\) and a transfer; "),
        (["t1"], {"kind": "match"}, "match: give the ids of an entry"),
        ([E1, E2], {"kind": "apart"}, "apart: give the ids of an entry"),
        ([E1], {"kind": "lost"}, "kind='lost' is not one of match, apart, explained"),
        ([E1], {"by": " "}, "by= must say who"),
        ([E1], {"by": None}, "by= must say who"),
        ([E1], {"reason": ""}, "reason= must say why"),
        ([E1], {"reason": 5}, "reason= must say why"),
        ([E1, "unknown"], {}, "there is no item unknown"),
    ],
)
def test_what_cannot_be_decided_is_refused_and_nothing_recorded(
    ids: list[str], given: dict[str, Any], words: str
) -> None:
    store = Recorded()
    with pytest.raises((AnalysisError, InvalidRequest), match=words):
        accept(store, *ids, **{"by": "Ana", "reason": "why"} | given)
    assert not store.decided
