"""Entries of a bank and transfers: one for one, and by exact sums; never by guessing."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_by_force import Bank, Paid, by_force
from transfer_examples import DAY, SCHEMA, START

from fundlab import bank, reconcile
from fundlab.base.errors import AnalysisError

D = Decimal
FIRST = date(2026, 1, 1)
ROWS = pa.schema(
    [*SCHEMA, ("ref_id", pa.string()), ("memo", pa.string()), ("counterparty", pa.string())]
)


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
        # Two of an amount for two have two answers; two for one as well.
        ([entry("b", 10), entry("c", 10)], [transfer("t", 10), transfer("u", 10)], set()),
        ([entry("b", 10)], [transfer("t", 10), transfer("u", 10)], set()),
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
        # Two lines for two transfers of other amounts.
        (
            [entry("b", 40), entry("c", 60)],
            [transfer("t", 30), transfer("u", 70)],
            {("many", "bctu")},
        ),
        # Another amount, but named, and nearly the same.
        ([entry("b", 1001, 9, "REF-100001")], [transfer("t", 1000, ref="REF-100001")],
         {("other_amount", "bt")}),
        ([entry("b", 2000, 0, "REF-100001")], [transfer("t", 1000, ref="REF-100001")], set()),
        # Money in never meets money out.
        ([entry("b", 10)], [transfer("t", -10)], set()),
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
    entries = [entry("b", 10)]
    result = bank.match(paid([transfer("t", 10), transfer("u", 10)]), booked(entries))
    listed = result.candidates.groupby("candidate")["item_id"].apply(set).tolist()
    assert listed == [{"b", "t"}, {"b", "u"}]
    assert set(result.open["why"]) == {"several answers"}


def test_a_match_can_be_fixed_or_forbidden() -> None:
    rows = paid([transfer("t", 10), transfer("u", 10)])
    entries = booked([entry("b", 10), entry("c", 9)])

    def pair(bank_id: str, transfer_id: str) -> pd.DataFrame:
        return pd.DataFrame({"entry_id": [bank_id], "transfer_id": [transfer_id]})

    fixed = bank.match(rows, entries, fixed=pair("b", "u"))
    assert groups_of(fixed) == {("fixed", frozenset("bu"))}
    forbidden = bank.match(rows, entries, forbidden=pair("b", "u"))
    assert groups_of(forbidden) == {("amount", frozenset("bt"))}
    unequal = bank.match(rows, entries, fixed=pair("c", "u")).groups
    assert unequal["difference"].tolist() == [0, -1]
    both = pd.concat([pair("b", "t"), pair("c", "t")])
    assert groups_of(bank.match(rows, entries, fixed=both)) == {("fixed", frozenset("bct"))}
    with pytest.raises(AnalysisError, match="fixed: transfer_id='x' is not among"):
        bank.match(rows, entries, fixed=pair("b", "x"))
    with pytest.raises(AnalysisError, match="both fixed and forbidden"):
        bank.match(rows, entries, fixed=pair("b", "t"), forbidden=pair("b", "t"))


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


@pytest.mark.parametrize("count", [40, 1500])
def test_many_of_one_amount_are_listed_in_bounded_work(count: int) -> None:
    rows = paid([transfer(f"t{n:05}", 10, n % 7) for n in range(count)])
    entries = booked([entry(f"b{n:05}", 10, n % 7) for n in range(count)])
    result = bank.match(rows, entries)
    assert result.groups.empty
    assert len(result.open) == 2 * count
    assert not result.candidates.empty


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


def test_an_amount_that_comes_often_proves_nothing() -> None:
    for count, why in ((20, set()), (150, {"an amount that comes often"})):
        entries, transfers = referred(count, 900)
        rows = paid([*transfers, transfer("t", 900)])
        found = bank.match(rows, booked([*entries, entry("b", 900)]))
        assert len(found.groups) == count + (not why)
        assert {*found.open["why"]} == why
        assert {*found.candidates["item_id"]} == ({"b", "t"} if why else set())
        # Somebody who knows can say so.
        pair = pd.DataFrame({"entry_id": ["b"], "transfer_id": ["t"]})
        fixed = bank.match(rows, booked([*entries, entry("b", 900)]), fixed=pair)
        assert fixed.open.empty


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


def test_the_order_of_rows_changes_nothing() -> None:
    rng = random.Random(1)
    for _ in range(4):
        entries, transfers = small_case(rng)
        one = bank.match(paid(transfers), booked(entries))
        rng.shuffle(transfers)
        other = bank.match(paid(transfers), booked(entries))
        assert groups_of(one) == groups_of(other)


# ------------------------------------------------------------------------------- by brute force


def small_case(rng: random.Random) -> tuple[list[Bank], list[Paid]]:
    """A few items, of few amounts and days, so that much is possible."""
    names = ["", "", "acme", "globex"]
    refs = ["", "", "", "REF0001", "REF0002", "REF0003"]
    rng.shuffle(refs)
    transfers, days = [], rng.choice((1, 3, 6))
    for n in range(rng.randint(0, 5)):
        made = rng.randrange(days)
        settled = made + rng.choice((0, 0, 1))
        amount = rng.choice((-1, 1, 1, 1)) * rng.choice((1, 2, 2, 3, 4, 5, 7, 150, 151))
        kind = rng.choice(("WIRE_DEPOSIT", "CUBIX_DEPOSIT")) if amount > 0 else "WIRE_WITHDRAWAL"
        transfers.append(Paid(f"t{n}", amount, made, settled, refs[n], rng.choice(names), kind))
    entries = []
    for n in range(rng.randint(0, 5)):
        amount = rng.choice((-1, 1, 1)) * rng.choice((1, 2, 3, 5, 7, 150))
        day = rng.randrange(days + 2)
        texts = [rng.choice(names)]
        if transfers and rng.random() < 0.7:  # a line of one or some of the transfers
            some = rng.sample(transfers, rng.randint(1, min(3, len(transfers))))
            amount = sum(t.amount for t in some) or amount
            day = max(t.settled for t in some) + rng.choice((0, 0, 1, 2))
            texts += [t.ref for t in some if rng.random() < 0.4]
        entries.append(Bank(f"b{n}", amount, day, day + rng.choice((0, 0, 1)), " ".join(texts)))
    return entries, transfers


def agree_with_force(first: int, last: int) -> int:
    matched = 0
    for number in range(first, last):
        rng = random.Random(number)
        entries, transfers = small_case(rng)
        window = rng.choice((0, 1, 3))
        found = bank.match(paid(transfers), booked(entries), window=window)
        groups, held = by_force(entries, transfers, window)
        expected = {(how, frozenset(i.id for i in (*g[0], *g[1]))) for how, g in groups}
        assert groups_of(found) == expected, (number, entries, transfers, window)
        several = found.open["why"] == "several answers"
        assert set(found.open.loc[several, "item_id"]) == held, (number, entries, transfers)
        matched += len(groups)
    return matched


def test_the_same_answers_as_by_brute_force() -> None:
    assert agree_with_force(0, 25) > 12


@pytest.mark.campaign
def test_the_same_answers_as_by_brute_force_in_2000_cases() -> None:
    assert agree_with_force(0, 2000) > 800


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_one_for_one_the_pairs_are_those_of_reconcile_bank(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Where no two amounts are alike, there is nothing to choose: both find the same pairs."""
    amounts = data.draw(st.lists(st.integers(1, 10**6), max_size=6, unique=True))
    transfers, entries = [], []
    for number, amount in enumerate(amounts):
        signed = data.draw(st.sampled_from([amount, -amount]))
        one = transfer(f"t{number}", signed, data.draw(st.integers(0, 9)), ref=f"REF-10000{number}")
        text = data.draw(st.sampled_from(["", "wire", f"paid REF-10000{number}"]))
        transfers.append(one)
        if data.draw(st.booleans()):
            late = data.draw(st.integers(0, 6))
            entries.append(entry(f"b{number}", signed, one.settled + late, text))
    lines = [f"{FIRST + timedelta(days=b.booked)},{b.amount},{b.text}" for b in entries]
    path = tmp_path_factory.mktemp("bank") / "bank.csv"
    path.write_text("\n".join(["date,amount,memo", *lines]) + "\n")

    earlier = reconcile.bank(paid(transfers), path).to_pylist()
    pairs = {
        frozenset((row["transfer_id"], entries[row["entry"] - 1].id))
        for row in earlier
        if row["status"] in ("exact", "window")
    }
    single = ("reference", "counterparty", "amount")
    found = groups_of(bank.match(paid(transfers), booked(entries)))
    assert pairs == {ids for how, ids in found if how in single}
