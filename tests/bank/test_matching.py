"""Entries of a bank and transfers: one for one, and by exact sums; never by guessing."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from random_books import AMOUNTS, Judged, frames_of, judge, made_world
from transfer_examples import DAY, SCHEMA, START

from fundlab import bank
from fundlab.bank.sums import by_chance, components, count_alike, covers, sums_to
from fundlab.base.errors import AnalysisError, OtherSideWarning

D = Decimal
FIRST = date(2026, 1, 1)
ROWS = pa.schema(
    [*SCHEMA, ("ref_id", pa.string()), ("memo", pa.string()), ("counterparty", pa.string())]
)


@dataclass(frozen=True)
class Bank:
    id: str
    amount: int
    booked: int
    valued: int
    text: str = ""


@dataclass(frozen=True)
class Paid:
    id: str
    amount: int
    made: int
    settled: int
    ref: str = ""
    name: str = ""
    kind: str = "WIRE_DEPOSIT"


def paid(rows: list[Paid]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": row.id, "profile_id": "p", "asset": "USD", "status": "COMPLETED",
                "direction": "DEBIT" if row.amount < 0 else "CREDIT",
                "type": row.kind if row.amount > 0 else "WIRE_WITHDRAWAL",
                "amount": D(abs(row.amount)), "fee": D(0), "total": D(abs(row.amount)),
                "created_at": START + row.made * DAY, "updated_at": START + row.settled * DAY,
                "ref_id": row.ref or None, "counterparty": row.name or None,
            }
            for row in rows
        ],
        schema=ROWS,
    )  # fmt: skip


def booked(rows: list[Bank], **more: Any) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "entry_id": [row.id for row in rows],
            "booked_on": [FIRST + timedelta(days=row.booked) for row in rows],
            "valued_on": [FIRST + timedelta(days=row.valued) for row in rows],
            "memo": [row.text for row in rows],
            **more,
        }
    )
    frame["amount"] = pd.array([D(row.amount) for row in rows], dtype="decimal")
    return frame


def groups_of(found: bank.Matching) -> set[tuple[str, frozenset[str]]]:
    how = dict(zip(found.groups["group"], found.groups["how"], strict=True))
    ids = found.members.groupby("group")["item_id"]
    return {(how[group], frozenset(items)) for group, items in ids}


def entry(id: str, amount: int, day: int = 0, text: str = "") -> Bank:
    return Bank(id, amount, day, day, text)


def transfer(id: str, amount: int, day: int = 0, **more: str) -> Paid:
    return Paid(id, amount, day, day, **more)


@pytest.mark.parametrize(
    ("entries", "transfers", "found"),
    [
        # Two deposits of a day on one line of the bank, and a withdrawal paid in two parts.
        ([entry("b", 30)], [transfer("t", 10), transfer("u", 20)], {("total_of_day", "btu")}),
        ([entry("b", -10), entry("c", -20)], [transfer("t", -30)], {("total_of_day", "bct")}),
        # A reference is stronger than the day.
        (
            [entry("b", 10, 40, "paid REF-100001")],
            [transfer("t", 10), transfer("u", 10, 40, ref="REF-100001")],
            {("reference", "bu")},
        ),
        # All that one line names; and lines that name one transfer, one of them a reversal.
        (
            [entry("b", 35, 9, "REF-100001 REF-100002")],
            [transfer("t", 15, ref="REF-100001"), transfer("u", 20, ref="REF-100002")],
            {("references", "btu")},
        ),
        (
            [entry(name, much, 0, "REF-1001") for name, much in (("b", 9), ("c", -4), ("d", 3))],
            [transfer("t", 8, ref="REF-1001")],
            {("references", "bcdt")},
        ),
        # The counterparty chooses among equal amounts.
        (
            [entry("b", 10, 0, "ACME LTD"), entry("c", 10, 0, "wire")],
            [transfer("t", 10), transfer("u", 10, name="acme ltd")],
            {("counterparty", "bu"), ("amount", "ct")},
        ),
        # One of a batch is as much as a part of another one: the whole batches say which it is.
        (
            [entry("b", 9, 0, "acme"), entry("c", 5, 0, "acme"), entry("d", 3, 0, "acme")],
            [transfer(n, a, name="acme") for n, a in (("t", 5), ("u", 4), ("v", 8))],
            {("counterparty_sum", "btu"), ("counterparty_sum", "cdv")},
        ),
        # Two of an amount for two are a block.
        (
            [entry("b", 10), entry("c", 10)],
            [transfer("t", 10), transfer("u", 10)],
            {("amount", "bctu")},
        ),
        # Dates leave one answer: only the second may be booked on the ninth.
        (
            [entry("b", 10, 1), entry("c", 10, 9)],
            [transfer("t", 10, 0), transfer("u", 10, 8)],
            {("amount", "bt"), ("amount", "cu")},
        ),
        # Some of a day, some of the window; of two such choices none.
        (
            [entry("b", 30, 1), entry("c", 7, 1)],
            [transfer("t", 10), transfer("u", 2), transfer("v", 20), transfer("w", 99)],
            {("sum_of_day", "btv")},
        ),
        ([entry("b", 30, 1)], [transfer("t", 10), transfer("v", 20, 1)], {("sum", "btv")}),
        (
            [entry("b", 30, 1)],
            [transfer("t", 10), transfer("u", 20, 1), transfer("v", 20, -1)],
            set(),
        ),
        # Two lines for two transfers of other amounts, of one counterparty.
        (
            [entry("b", 40, 0, "acme"), entry("c", 60, 0, "acme")],
            [transfer("t", 30, name="acme"), transfer("u", 70, name="acme")],
            {("many", "bctu")},
        ),
        ([entry("b", 40), entry("c", 60)], [transfer("t", 30), transfer("u", 70)], set()),
        # Another amount, but named, and nearly the same.
        ([entry("b", 1001, 9, "REF-100001")], [transfer("t", 1000, ref="REF-100001")],
         {("other_amount", "bt")}),
        ([entry("b", 2000, 0, "REF-100001")], [transfer("t", 1000, ref="REF-100001")], set()),
        # Money in never meets money out.
        (
            [entry("b", 10), entry("c", 7)],
            [transfer("t", -10), transfer("u", 7)],
            {("amount", "cu")},
        ),
    ],
)  # fmt: skip
def test_what_has_one_answer_is_matched(
    entries: list[Bank], transfers: list[Paid], found: set[tuple[str, str]]
) -> None:
    result = bank.match(paid(transfers), booked(entries))
    assert groups_of(result) == {(how, frozenset(ids)) for how, ids in found}
    left = {*(e.id for e in entries), *(t.id for t in transfers)} - set(result.members["item_id"])
    assert set(result.open["item_id"]) == left
    assert (result.groups["how"] != "other_amount").all() == (
        result.groups["difference"] == 0
    ).all()


def test_several_answers_are_listed_with_their_candidates() -> None:
    entries = [entry("b", 30, 0, "acme")]
    transfers = [transfer(n, a, name="acme") for n, a in (("t", 30), ("u", 10), ("v", 20))]
    result = bank.match(paid(transfers), booked(entries))
    listed = result.candidates.groupby("candidate")["item_id"].apply(set).tolist()
    assert listed == [{"b", "t"}, {"b", "u", "v"}]
    assert set(result.open["why"]) == {"several answers"}
    assert result.open["undecided"].all()


def test_of_unequal_counts_as_many_match_as_can_and_which_is_not_said() -> None:
    entries = [entry("b", 10), entry("c", 10, 1)]
    transfers = [transfer("t", 10), transfer("u", 10), transfer("v", 10, 1), transfer("w", 10, 20)]
    result = bank.match(paid(transfers), booked(entries))
    assert groups_of(result) == {("amount", frozenset("bctuv"))}
    (group,) = result.groups.to_dict("records")
    assert (group["block"], group["open_entries"], group["open_transfers"]) == (True, 0, 1)
    assert group["difference"] == -10
    named, unnamed = (result.open[result.open["item_id"].isna() == flag] for flag in (False, True))
    assert named["item_id"].tolist() == ["w"]
    assert unnamed["amount"].tolist() == [10]
    assert unnamed["why"].tolist() == ["1 of 3 alike, and nothing tells which"]


def test_what_a_question_holds_back_is_one_more_that_is_alike() -> None:
    """Of 30 of acme nobody knows whether it is t or u and v; so c may be of u, too, and not of w
    alone."""
    entries = [entry("b", 30, 0, "acme"), entry("c", 10)]
    transfers = [transfer(n, a, name="acme") for n, a in (("t", 30), ("u", 10), ("v", 20))]
    result = bank.match(paid([*transfers, transfer("w", 10, name="globex")]), booked(entries))
    assert groups_of(result) == {("amount", frozenset("cuw"))}
    assert result.groups["open_transfers"].tolist() == [1]
    assert {*result.open["item_id"].dropna()} == {"b", "t", "v"}


def test_a_pair_that_a_question_holds_back_is_one_more_that_is_alike() -> None:
    """b is of t, or with c and d of u; so e may be of t, too, and not of w alone."""
    names = [entry(n, a, 0, "acme") for n, a in (("b", 40), ("c", 34), ("d", 36))]
    transfers = [transfer("t", 40, name="acme"), transfer("u", 110, name="acme"),
                 transfer("w", 40, name="globex")]  # fmt: skip
    result = bank.match(paid(transfers), booked([*names, entry("e", 40)]))
    assert groups_of(result) == {("amount", frozenset("etw"))}
    assert result.groups["open_transfers"].tolist() == [1]


def test_what_is_left_of_a_block_may_have_a_weaker_match() -> None:
    """One of two payments of a counterparty is named by the bank, the other one is not."""
    entries = [entry("b", 10, 0, "acme"), entry("c", 10)]
    transfers = [transfer("t", 10, name="acme"), transfer("u", 10, name="acme")]
    result = bank.match(paid(transfers), booked(entries))
    assert groups_of(result) == {("amount", frozenset("bctu"))}  # no more than the weaker says
    assert result.open.empty


def test_any_of_a_block_may_be_what_it_leaves_over() -> None:
    """Of three payments the bank names two, and any may be the third: it is as well the silent
    entry of day 3 as that of day 4, for which the first payment is too old."""
    entries = [entry("b", 10, 1, "acme"), entry("c", 10, 3, "acme"), entry("d", 10, 3),
               entry("e", 10, 4)]  # fmt: skip
    transfers = [
        transfer(name, 10, day, name="acme") for name, day in zip("tuv", (0, 1, 3), strict=True)
    ]
    result = bank.match(paid(transfers), booked(entries))
    assert groups_of(result) == {("amount", frozenset("bcdetuv"))}
    assert result.groups["open_entries"].tolist() == [1]
    assert {*result.open["item_id"].isna()} == {True}


def test_each_item_is_in_a_group_or_open_where_too_many_have_one_amount(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then they are left open; a block that some of them wait for stays what it is."""
    monkeypatch.setattr("fundlab.bank.search._MOST_EDGES", 1)
    for seed in range(12):
        rng = random.Random(seed)
        entries = [entry(f"e{number}", 10, rng.randrange(6), rng.choice(("acme", "")))
                   for number in range(rng.randint(1, 7))]  # fmt: skip
        transfers = [transfer(f"t{number}", 10, rng.randrange(6), name=rng.choice(("acme", "")))
                     for number in range(rng.randint(1, 7))]  # fmt: skip
        result = bank.match(paid(transfers), booked(entries))
        once = [*result.members["item_id"], *result.open["item_id"].dropna()]
        assert sorted(once) == sorted(item.id for item in (*entries, *transfers))


@pytest.mark.parametrize(("side", "amount"), [("service", -1000), ("ours", 1000)])
def test_a_statement_of_the_other_side_is_said_to_be_one(side: Any, amount: int) -> None:
    other = "ours" if side == "service" else "service"
    told = f"0 of 1 entries match with side='{side}', 1 would with side='{other}'"
    with pytest.warns(OtherSideWarning, match=told):
        found = bank.match(paid([transfer("t", 1000)]), booked([entry("b", amount)]), side=side)
    assert found.groups.empty
    assert found.open["amount"].tolist() == [amount, 1000 if side == "service" else -1000]


def test_a_match_can_be_accepted_forbidden_and_taken_back() -> None:
    rows = paid([transfer("t", 10), transfer("u", 10)])
    entries = booked([entry("b", 10), entry("c", 9)])

    def matched(*decisions: tuple[str, str]) -> bank.Matching:
        frame = pd.DataFrame([*decisions], columns=["item_id", "decision"])
        return bank.match(rows, entries, decisions=frame)

    assert groups_of(matched(("b", "match u"))) == {("accepted", frozenset("bu"))}
    assert groups_of(matched(("u", "match b"))) == {("accepted", frozenset("bu"))}
    assert groups_of(matched(("b", "not u"))) == {("amount", frozenset("bt"))}
    assert matched(("c", "match u")).groups["difference"].tolist() == [0, -1]
    assert groups_of(matched(("b", "match t"), ("c", "match t"))) == {
        ("accepted", frozenset("bct"))}  # fmt: skip
    # The last word counts, and what is of other months changes nothing.
    assert groups_of(matched(("b", "match u"), ("b", "not u"))) == {("amount", frozenset("bt"))}
    for taken_back in ("b", "u"):
        again = matched(("b", "match u"), (taken_back, "open"))
        assert groups_of(again) == {("amount", frozenset("btu"))}
    assert groups_of(matched(("b", "match x"))) == {("amount", frozenset("btu"))}
    with pytest.raises(AnalysisError, match="decisions: give a frame with the columns item_id and"):
        bank.match(rows, entries, decisions=pd.DataFrame({"id": ["a"]}))


def test_what_the_bank_kept_back_is_made_up() -> None:
    rows = paid([transfer("t", 1000), transfer("u", 500, 20), transfer("v", 70, 20)])
    entries = booked([entry("b", 985), entry("c", 555, 20)])
    assert bank.match(rows, entries).groups.empty
    told = booked(
        [entry("b", 985), entry("c", 555, 20)], charges=pd.array([D(15), D(15)], "decimal")
    )
    by_bank = bank.match(rows, told)
    assert groups_of(by_bank) == {("amount", frozenset("bt")), ("total_of_day", frozenset("cuv"))}
    assert by_bank.groups["charges"].tolist() == [15, 15]
    assert by_bank.groups["difference"].tolist() == [0, 0]
    known = bank.match(rows, entries, fees=["15"])
    assert groups_of(known) == {("fee", frozenset("bt"))}


def test_thousands_of_one_amount_are_one_block() -> None:
    count = 3_000
    rows = paid([transfer(f"t{n:05}", 10, n % 7) for n in range(count)])
    entries = booked([entry(f"b{n:05}", 10, n % 7) for n in range(count)])
    result = bank.match(rows, entries)
    assert result.groups["entries"].tolist() == result.groups["transfers"].tolist() == [count]
    assert result.open.empty


def test_a_sum_of_any_of_many_proves_nothing() -> None:
    rng = random.Random(3)
    rows = [transfer(f"t{n:02}", rng.randint(1_000, 9_999), n % 3) for n in range(60)]
    target = rows[3].amount + rows[9].amount + rows[21].amount
    result = bank.match(paid(rows), booked([entry("b", target, 2)]))
    assert result.groups.empty
    (why,) = result.open.loc[result.open["item_id"] == "b", "why"]
    assert why.startswith("too many combinations of")


measure = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "bank.py"))["measure"]


def nothing_is_wrong(count: int, seed: int) -> dict[str, Any]:
    month: dict[str, Any] = measure(count, seed)
    assert month["wrong"] == 0, month
    assert float(month["of the rest"].rstrip("%")) >= 99, month
    assert month["several answers"] <= 0.02 * month["lines"], month
    return month


@pytest.mark.thorough
def test_a_month_with_batches_is_matched_and_nothing_wrongly() -> None:
    nothing_is_wrong(3_000, 3)


@pytest.mark.campaign
def test_months_of_10_000_and_100_000_are_matched_and_nothing_wrongly(
    seed: int, figure: Callable[[str], None]
) -> None:
    months = [nothing_is_wrong(10_000, seed + n) for n in range(20)]
    months += [nothing_is_wrong(100_000, seed + n) for n in range(2)]
    right = sum(month["right"] for month in months)
    lines, listed = (sum(month[name] for month in months) for name in ("lines", "several answers"))
    figure(f"{right:,} of {lines:,} lines of the bank matched, {listed:,} listed, 0 wrong")


def referred(count: int, amount: int) -> tuple[list[Bank], list[Paid]]:
    """So many entries that name their transfers."""
    refs = [f"REF-{number:06}" for number in range(count)]
    return (
        [entry(f"r{ref}", amount, 0, ref) for ref in refs],
        [transfer(f"s{ref}", amount, ref=ref) for ref in refs],
    )


@pytest.mark.parametrize(("cents", "found"), [(0, False), (37, True)])
def test_a_sum_that_chance_could_have_made_is_listed(cents: int, found: bool) -> None:
    """Round amounts make many sums; of amounts to the cent one that agrees is no coincidence."""
    entries, transfers = referred(20, 77_777)
    parts = [transfer("t", 4_000_000 + cents, 0), transfer("u", 2_500_000 + 2 * cents, 1),
             transfer("v", 9_900_000, 1)]  # fmt: skip
    lump = entry("b", 6_500_000 + 3 * cents, 1)
    result = bank.match(paid([*transfers, *parts]), booked([*entries, lump]))
    matched = {"b", "t", "u"} <= {*result.members["item_id"]}
    assert matched == found
    if not found:
        assert {*result.candidates["item_id"]} == {"b", "t", "u"}
        why = dict(zip(result.open["item_id"], result.open["why"], strict=True))
        assert why["b"] == "a sum that chance makes, too"
    # Among a handful a person sees that nothing else can be meant.
    few = bank.match(paid(parts), booked([lump]))
    assert groups_of(few) == {("sum", frozenset("btu"))}


# ------------------------------------------------------------------ judged by who knows the truth


def judged_books(first: int, books: int, amounts: str, *, plain: float = 0.0) -> Judged:
    total = Judged()
    for seed in range(first, first + books):
        world = made_world(seed, 200, amounts, plain=plain)
        transfers, entries = frames_of(world)
        found = bank.match(transfers, entries)
        total.add(judge(world, found.members, found.groups))
    assert total.wrong == []
    assert total.one_answer_found >= D("0.97") * total.one_answer
    assert total.exchangeable_found >= D("0.95") * total.exchangeable
    return total


@pytest.mark.parametrize("amounts", AMOUNTS)
def test_random_books_are_matched_and_nothing_wrongly(amounts: str) -> None:
    assert judged_books(0, 3, amounts).groups > 200


@pytest.mark.campaign
@pytest.mark.parametrize("amounts", AMOUNTS)
def test_50_000_groups_of_random_books_are_never_wrong(
    amounts: str, seed: int, figure: Callable[[str], None]
) -> None:
    total = judged_books(1_000 * seed, 135, amounts)
    figure(
        f"{amounts}: {total.groups:,} groups, 0 wrong, {total.coincidences} coincidences; found "
        f"{total.one_answer_found:,} of {total.one_answer:,} with one answer, "
        f"{total.exchangeable_found:,} of {total.exchangeable:,} exchangeable"
    )


def test_the_order_of_rows_changes_nothing() -> None:
    for amounts in AMOUNTS:
        transfers, entries = frames_of(made_world(1, 80, amounts))
        one = bank.match(transfers, entries)
        other = bank.match(transfers.sample(frac=1, random_state=2), entries)
        assert groups_of(one) == groups_of(other)


def test_of_many_choices_that_leave_none_over_two_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = [frozenset(pair) for pair in ((1, 2), (3, 4), (1, 3), (2, 4), (1, 4), (2, 3))]
    found = covers({1, 2, 3, 4}, pairs)  # of three
    assert len(found) == 2
    assert all(sorted(number for pair in one for number in pair) == [1, 2, 3, 4] for one in found)
    assert covers({1, 2, 3, 4}, [pairs[0], pairs[2]]) == []
    assert covers({1, 2}, pairs[:1]) == [pairs[:1]]
    both = {frozenset(one) for one in covers({1, 2, 3, 4}, pairs[:4])}  # no member has one alone
    assert both == {frozenset(pairs[:2]), frozenset(pairs[2:4])}
    monkeypatch.setattr("fundlab.bank.sums._MOST_STEPS", 3)
    assert covers({1, 2, 3, 4}, pairs) == []  # which takes too long


def test_sums_are_those_that_trying_each_choice_finds() -> None:
    rng = random.Random(3)
    for _ in range(400):
        amounts = [rng.choice((rng.randint(1, 9), 10 * rng.randint(1, 9)))
                   for _ in range(rng.randint(0, 6))]  # fmt: skip
        total = sum(amounts)
        target = rng.choice((total, total + 1, sum(amounts[:2]), sum(amounts[1:4]), 91))
        if target in amounts:
            continue  # one alone is no sum
        choices = [[*range(len(amounts))]] if target == total else [
            [*places] for count in range(2, len(amounts)) for places in combinations(
                range(len(amounts)), count) if sum(amounts[place] for place in places) == target
        ]  # fmt: skip
        choices = choices if len(amounts) > 1 else []
        found, all_tried = sums_to(target, amounts)
        assert (sorted(places for places, _ in found), all_tried) == (sorted(choices), True)
    for many, tried in ((10, True), (11, False)):
        found, all_tried = sums_to(3, [*range(2, 2 + 2 * many, 2)])  # of even ones none is odd
        assert (found, all_tried) == ([], tried)
        assert sums_to(1000, [1] * many) == ([], True)  # all of them are less


def test_how_many_sums_chance_would_make() -> None:
    # Two sums of whole units lie in the tenth below 100, of forty in the fifth around it.
    assert sums_to(100, [33, 67, 91])[0] == [([0, 1], 0.2)]
    assert sums_to(100, [33, 67, 90])[0] == [([0, 1], 0.1)]  # 90 is a tenth away
    assert sums_to(100, [30, 70, 91])[0] == [([0, 1], 1.0)]  # and 91 is in no sum of tens
    assert sums_to(100, [30, 70])[0] == [([0, 1], 0.5)]
    assert count_alike([89, 90, 100, 110, 111], 100) == 3
    assert count_alike([-111, -110, -100, -90, -89], -100) == 3
    assert by_chance(3, -200, [20, 30]) == 0.75
    assert by_chance(1, 0, [7]) == 35.0


def test_groups_are_connected_by_their_members() -> None:
    edges = [frozenset(one) for one in ({1, 2}, {3, 4}, {5, 2}, {6, 4}, {7, 8}, {5, 9})]
    assert components(edges) == [
        [edges[0], edges[2], edges[5]], [edges[1], edges[3]], [edges[4]]
    ]  # fmt: skip
