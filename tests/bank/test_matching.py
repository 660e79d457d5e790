"""Entries of a bank and transfers: one for one, and by exact sums; never by guessing."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable, Mapping
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
    charges: int = 0


@dataclass(frozen=True)
class Paid:
    id: str
    amount: int
    made: int
    settled: int
    ref: str = ""
    name: str = ""
    kind: str = "WIRE_DEPOSIT"
    memo: str = ""
    asset: str = "USD"


def paid(rows: list[Paid]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": row.id, "profile_id": "p", "asset": row.asset, "status": "COMPLETED",
                "direction": "DEBIT" if row.amount < 0 else "CREDIT",
                "type": row.kind if row.amount > 0 else "WIRE_WITHDRAWAL",
                "amount": D(abs(row.amount)), "fee": D(0), "total": D(abs(row.amount)),
                "created_at": START + row.made * DAY, "updated_at": START + row.settled * DAY,
                "ref_id": row.ref or None, "counterparty": row.name or None,
                "memo": row.memo or None,
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
            "charges": pd.array([D(row.charges) for row in rows], "decimal"),
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
        # Booked three days after it settled, and no more; from the day before it was made, and no
        # earlier; the day it was valued counts as well.
        (
            [entry("b", 11, 3), entry("c", 23, 4), entry("d", 37, -1), entry("e", 53, -2)],
            [transfer("t", 11), transfer("u", 23), transfer("v", 37), transfer("w", 53)],
            {("amount", "bt"), ("amount", "dv")},
        ),
        (
            [Bank("b", 11, 9, 3), Bank("c", 23, 4, 9), Bank("d", 37, -9, -1),
             Bank("e", 53, -2, -9)],
            [transfer("t", 11), transfer("u", 23), transfer("v", 37), transfer("w", 53)],
            {("amount", "bt"), ("amount", "dv")},
        ),
        (
            [entry("b", 11, 8), entry("c", 23, 9), entry("d", 37, -1), entry("e", 53, -2)],
            [Paid(name, much, 0, 5) for name, much in zip("tuvw", (11, 23, 37, 53), strict=True)],
            {("amount", "bt"), ("amount", "dv")},
        ),
        # What is booked in time comes first, though another one stands before it.
        ([entry("b", 10, -1), entry("c", 10)], [transfer("t", 10)], {("amount", "ct")}),
        # It names another transfer, or another counterparty; where none is known, it may be.
        (
            [entry("b", 10, 0, "REF-100001")],
            [transfer("t", 10), transfer("u", 99, ref="REF-100001")],
            set(),
        ),
        (
            [entry("b", 10, 0, "globex")],
            [transfer("t", 10, name="acme"), transfer("u", 99, name="globex")],
            set(),
        ),
        (
            [entry("b", 10, 0, "globex")],
            [transfer("t", 10), transfer("u", 99, name="globex")],
            {("amount", "bt")},
        ),
        # A reference or memo is known from six signs on, a counterparty from three; a bank may cut
        # it in parts, of up to 64 signs in all.
        ([entry("b", 9, 40, "R1234")], [transfer("t", 9, ref="R1234")], set()),
        ([entry("b", 9, 40, "R12345")], [transfer("t", 9, ref="R12345")], {("reference", "bt")}),
        ([entry("b", 9, 40, "no r 12/345")], [transfer("t", 9, ref="R12345")],
         {("reference", "bt")}),
        ([entry("b", 9, 40, "no 12345678")], [transfer("12345678", 9)],
         {("reference", ("b", "12345678"))}),
        *(
            ([entry("b", 9, 40, f"{'x' * 32} {'y' * more}")],
             [transfer("t", 9, ref="x" * 32 + "y" * more)], found)
            for more, found in ((32, {("reference", "bt")}), (33, set()))
        ),
        *(
            ([entry("b", 10, 0, word), entry("c", 10)],
             [transfer("t", 10), transfer("u", 10, **{field: word})], found)
            for field, word, found in (
                ("name", "abc", {("counterparty", "bu"), ("amount", "ct")}),
                ("name", "ab", {("amount", "bctu")}),
                ("memo", "abcdef", {("counterparty", "bu"), ("amount", "ct")}),
                ("memo", "abcde", {("amount", "bctu")}),
            )
        ),
        # Another amount: within 1%, the same way, and neither names, or is named by, another one.
        *(
            ([entry("b", much, 9, "REF-100001")], [transfer("t", ours, ref="REF-100001")], found)
            for much, ours, found in (
                (1010, 1000, {("other_amount", "bt")}), (1011, 1000, set()),
                (990, 1000, {("other_amount", "bt")}), (-1010, -1000, {("other_amount", "bt")}),
            )
        ),
        (
            [entry("b", -1000, 9, "REF-100001"), entry("c", 7)],
            [transfer("t", 1000, ref="REF-100001"), transfer("u", 7)],
            {("amount", "cu")},
        ),
        (
            [entry("b", 1001, 9, "REF-100001"), entry("c", 5, 9, "REF-100001")],
            [transfer("t", 1000, ref="REF-100001")],
            set(),
        ),
        (
            [entry("b", 1001, 9, "REF-100001 REF-100002")],
            [transfer("t", 1000, ref="REF-100001"), transfer("u", 2, ref="REF-100002")],
            set(),
        ),
        # All of a day of one type; two that settled one after the other.
        (
            [entry("b", 30)],
            [transfer("t", 10), transfer("u", 5, kind="CUBIX_DEPOSIT"), transfer("v", 20)],
            {("total_of_day", "btv")},
        ),
        ([entry("b", 30)], [transfer("t", 99), transfer("u", 10), transfer("v", 20)],
         {("run_of_day", "buv")}),
        ([entry("b", 30)], [transfer("t", 10), transfer("u", 20), transfer("v", 99)],
         {("run_of_day", "btu")}),
        # Of those that it names, or that name it, some; and of two names together.
        (
            [entry("b", 35, 0, "REF-100001 REF-100002 REF-100003")],
            [transfer(n, a, 0, ref=f"REF-10000{r}") for n, a, r in (
                ("t", 15, 1), ("u", 7, 3), ("v", 20, 2))],
            {("counterparty_sum", "btv")},
        ),
        (
            [entry(name, much, 0, "REF-100001") for name, much in (("b", 10), ("c", 5), ("d", 20))],
            [transfer("t", 30, ref="REF-100001")],
            {("counterparty_sum", "bdt")},
        ),
        (
            [entry("b", 35, 0, "REF-100001 REF-100002")],
            [transfer("t", 15, ref="REF-100001"), transfer("u", 21, ref="REF-100002")],
            set(),
        ),
        (
            [entry("b", 30, 0, "acme, globex")],
            [transfer("t", 10, name="acme"), transfer("u", 20, name="globex")],
            {("counterparty_sum", "btu")},
        ),
        # It may be of a transfer whose counterparty it does not name only where it names none.
        (
            [entry("b", 10, 0, "globex"), entry("c", 10)],
            [transfer("t", 10, name="acme"), transfer("u", 99, name="globex")],
            {("amount", "ct")},
        ),
        # A batch of a counterparty waits for the entry of its sum, which has no other one; one
        # that has does not hold them back.
        (
            [entry("b", 30), entry("c", 10)],
            [transfer("t", 10, name="acme"), transfer("u", 20, name="acme")],
            {("total_of_day", "btu")},
        ),
        (
            [entry("b", 30), entry("c", 10), entry("d", 37)],
            [transfer("t", 10, name="acme"), transfer("u", 20, name="acme"), transfer("v", 30),
             transfer("w", 27)],
            {("amount", "bv"), ("amount", "ct")},
        ),
        (
            [Bank("b", 27, 0, 0, charges=3), entry("c", 10), entry("d", 38)],
            [transfer("t", 10, name="acme"), transfer("u", 17, name="acme"), transfer("v", 30),
             transfer("w", 28)],
            {("amount", "bv"), ("amount", "ct")},
        ),
        (
            [entry("b", 10, 0, "globex")],
            [transfer("t", 10, name="abc"), transfer("u", 99, name="globex")],
            set(),
        ),
        # Either of 10 and either of 20 may be of either of 30: all of them belong together.
        (
            [entry("b", 30, 0, "acme"), entry("c", 30, 0, "acme")],
            [transfer(n, a, name="acme") for n, a in zip("tuvw", (10, 20, 10, 20), strict=True)],
            {("counterparty_sum", "bctuvw")},
        ),
        (
            [entry("b", 30, 0, "globex")],
            [transfer("t", 10), transfer("u", 20, name="acme"),
             transfer("v", 99, 9, name="globex")],
            set(),
        ),
        # No part is too old, or goes the other way.
        (
            [entry("b", 30, 0, "acme")],
            [transfer("t", 10, name="acme"), transfer("u", 20, -9, name="acme")],
            set(),
        ),
        (
            [entry("b", 35, 0, "REF-100001 REF-100002")],
            [transfer("t", 15, ref="REF-100001"), transfer("u", -20, ref="REF-100002")],
            set(),
        ),
        # Several of a counterparty for several, without a gap of more than the window and a day.
        *(
            ([entry("b", 40, 0, "acme"), entry("c", 60, 0, "acme"), entry("d", 5, day, "acme")],
             [transfer("t", 30, name="acme"), transfer("u", 70, name="acme")], found)
            for day, found in ((4, set()), (5, {("many", "bctu")}))
        ),
        # What is left of a block is taken with all of it, again and again.
        (
            [entry("b", 10, 0, "acme"), entry("c", 10), entry("d", 10, -1)],
            [transfer(name, 10, name="acme") for name in "tuv"],
            {("amount", "bcdtuv")},
        ),
        # Some of a day at either end of the window.
        ([entry("b", 30, 3)], [transfer("t", 10), transfer("u", 99), transfer("v", 20)],
         {("sum_of_day", "btv")}),
        ([entry("b", 30, 4)], [transfer("t", 10), transfer("u", 99), transfer("v", 20)], set()),
        (
            [Bank("b", 10, 8, 3), Bank("c", 99, 8, 3), Bank("d", 20, 8, 3)],
            [transfer("t", 30)],
            {("sum_of_day", "bdt")},
        ),
        # What comes to nothing is one of its day, too.
        ([entry("b", 30)], [transfer("t", 10), transfer("u", 20), transfer("v", 0)],
         {("total_of_day", "btuv")}),
        ([entry("b", 10), entry("c", 20), entry("d", 0)], [transfer("t", 30)],
         {("total_of_day", "bcdt")}),
        ([entry("b", 0)], [transfer("t", 0)], {("amount", "bt")}),
        # Of another asset nothing is, not even what is named.
        ([entry("b", 10, 0, "REF-100001")], [transfer("t", 10, ref="REF-100001", asset="EUR")],
         set()),
        (
            [entry("b", 30, 0, "REF-100001 REF-100002")],
            [transfer("t", 10, ref="REF-100001"), transfer("u", 20, ref="REF-100002", asset="EUR")],
            set(),
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


@pytest.mark.parametrize(
    ("entries", "transfers", "options", "said"),
    [
        # How, block, entries and transfers, how many are open; bank, ours, kept, difference.
        ([entry("b", 10)], [transfer("t", 10)], {},
         ("amount", False, 1, 1, 0, 0, 10, 10, 0, 0, "same amount; booked the same day")),
        ([entry("b", -10, 1)], [transfer("t", -10)], {},
         ("amount", False, 1, 1, 0, 0, -10, -10, 0, 0, "same amount; booked 1 day later")),
        ([entry("b", 10, 2)], [transfer("t", 10)], {},
         ("amount", False, 1, 1, 0, 0, 10, 10, 0, 0, "same amount; booked 2 days later")),
        ([entry("b", 10, -1)], [transfer("t", 10)], {},
         ("amount", False, 1, 1, 0, 0, 10, 10, 0, 0, "same amount; booked 1 day earlier")),
        ([entry("b", 10, 7, "REF-1001")], [transfer("t", 10, 9, ref="REF-1001")], {},
         ("reference", False, 1, 1, 0, 0, 10, 10, 0, 0,
          "named by the bank, same amount; booked 2 days earlier")),
        ([entry("b", 10), entry("c", 10)], [transfer("t", 10), transfer("u", 10)], {},
         ("amount", True, 2, 2, 0, 0, 20, 20, 0, 0,
          "same amount; 2 entries for 2 transfers, and nothing tells which with which")),
        ([entry("b", 10)], [transfer("t", 10), transfer("u", 10)], {},
         ("amount", True, 1, 2, 0, 1, 10, 20, 0, -10,
          "same amount; 1 entry for 2 transfers, 1 of them open, and nothing tells which with "
          "which")),
        ([entry("b", 10), entry("c", 10), entry("d", 10)], [transfer("t", 10)], {},
         ("amount", True, 3, 1, 2, 0, 30, 10, 0, 20,
          "same amount; 3 entries for 1 transfer, 2 of them open, and nothing tells which with "
          "which")),
        ([entry("b", 10, 3), entry("c", 10)], [transfer("t", 10)], {},
         ("amount", True, 2, 1, 1, 0, 20, 10, 0, 10,
          "same amount; 2 entries for 1 transfer, 1 of them open, and nothing tells which with "
          "which")),
        ([entry("b", 30, 1)], [transfer("t", 10), transfer("u", 20)], {},
         ("total_of_day", False, 1, 2, 0, 0, 30, 30, 0, 0,
          "the total of a day: 1 entry for 2 transfers; booked 1 day later")),
        ([entry("b", 30, 1)], [transfer("t", 10), transfer("u", 20, 1)], {},
         ("sum", False, 1, 2, 0, 0, 30, 30, 0, 0,
          "same sum: 1 entry for 2 transfers; booked the same day")),
        ([entry("b", 10), entry("c", 20, 1)], [transfer("t", 30)], {},
         ("sum", False, 2, 1, 0, 0, 30, 30, 0, 0,
          "same sum: 2 entries for 1 transfer; booked 1 day later")),
        ([entry("b", 10, 0, "acme"), entry("c", 37)],
         [transfer("t", 10, name="acme"), transfer("u", 10, name="acme"), transfer("v", 27)], {},
         ("total_of_day", True, 2, 3, 0, 0, 47, 47, 0, 0,
          "the total of a day: 2 entries for 3 transfers; 2 entries for 3 transfers, and nothing "
          "tells which with which")),
        ([Bank("b", 97, 0, 0, charges=3)], [transfer("t", 100)], {},
         ("amount", False, 1, 1, 0, 0, 97, 100, 3, 0,
          "same amount; the bank kept 3; booked the same day")),
        ([Bank("b", 57, 0, 0, charges=3), entry("c", 40, 1)], [transfer("t", 100)], {},
         ("sum", False, 2, 1, 0, 0, 97, 100, 3, 0,
          "same sum: 2 entries for 1 transfer; the bank kept 3; booked 1 day later")),
        ([Bank("b", 97, 9, 9, charges=3)], [transfer("t", 100)],
         {"rules": [bank.model.Rule(type="WIRE_DEPOSIT", days=9)]},
         ("rule", False, 1, 1, 0, 0, 97, 100, 3, 0,
          "same amount, by a rule of the profile; the bank kept 3; booked 9 days later")),
        ([entry("b", 985)], [transfer("t", 1000)], {"fees": [15]},
         ("fee", False, 1, 1, 0, 0, 985, 1000, 15, 0,
          "same sum less a known fee: 1 entry for 1 transfer; the bank kept 15; booked the same "
          "day")),
        ([entry("b", 985, 40, "REF-1001")], [transfer("t", 1000, ref="REF-1001")], {"fees": [15]},
         ("fee", False, 1, 1, 0, 0, 985, 1000, 15, 0,
          "same sum less a known fee: 1 entry for 1 transfer; the bank kept 15; booked 40 days "
          "later")),
        ([entry("b", 985, 0, "acme")], [transfer("t", 1000), transfer("u", 1000, name="acme")],
         {"fees": [15]},
         ("fee", False, 1, 1, 0, 0, 985, 1000, 15, 0,
          "same sum less a known fee: 1 entry for 1 transfer; the bank kept 15; booked the same "
          "day")),
        ([entry("b", 985, 0, "acme")], [transfer("t", 400, name="acme"),
                                        transfer("u", 600, 0, name="acme")], {"fees": [15]},
         ("fee", False, 1, 2, 0, 0, 985, 1000, 15, 0,
          "same sum less a known fee: 1 entry for 2 transfers; the bank kept 15; booked the same "
          "day")),
        ([entry("b", 1001, 9, "REF-1001")], [transfer("t", 1000, ref="REF-1001")], {},
         ("other_amount", False, 1, 1, 0, 0, 1001, 1000, 0, 1,
          "named by the bank, but another amount; the bank has 1 more; booked 9 days later")),
        ([entry("b", 999, 9, "REF-1001")], [transfer("t", 1000, ref="REF-1001")], {},
         ("other_amount", False, 1, 1, 0, 0, 999, 1000, 0, -1,
          "named by the bank, but another amount; the bank has 1 less; booked 9 days later")),
    ],
)  # fmt: skip
def test_a_group_says_how_it_agrees(
    entries: list[Bank], transfers: list[Paid], options: dict[str, Any], said: tuple[Any, ...]
) -> None:
    result = bank.match(paid(transfers), booked(entries), **options)
    (group,) = result.groups.to_dict("records")
    assert (group.pop("group"), group.pop("asset")) == (1, "USD")
    assert tuple(group.values()) == said
    left, many = max((said[4], said[2]), (said[5], said[3]))
    rest = result.open[result.open["group"] == 1]
    assert rest["why"].tolist() == [f"{left} of {many} alike, and nothing tells which"] * left
    assert not rest["undecided"].any()
    assert result.members["item_id"].tolist() == sorted(result.members["item_id"])


@pytest.mark.parametrize(
    ("much", "day", "text", "kind", "how"),
    [
        (102, 9, "CARD-settlement 7", "WIRE_DEPOSIT", ["tolerance"]),
        (98, 9, "card settlement", "WIRE_DEPOSIT", ["tolerance"]),
        (101, 9, "card settlement", "WIRE_DEPOSIT", ["tolerance"]),
        (100, 9, "card settlement", "WIRE_DEPOSIT", ["rule"]),
        (103, 9, "card settlement", "WIRE_DEPOSIT", []),
        (97, 9, "card settlement", "WIRE_DEPOSIT", []),
        (102, 10, "card settlement", "WIRE_DEPOSIT", []),
        (102, -1, "card settlement", "WIRE_DEPOSIT", ["tolerance"]),
        (102, -2, "card settlement", "WIRE_DEPOSIT", []),
        (102, 9, "settlement", "WIRE_DEPOSIT", []),
        (102, 9, "card settlement", "CUBIX_DEPOSIT", []),
        (102, 9, "card settlement, REF-100001", "WIRE_DEPOSIT", ["tolerance"]),
        (102, 9, "card settlement, REF-100002", "WIRE_DEPOSIT", []),
    ],
)
def test_a_rule_holds_within_its_words_type_days_and_amount(
    much: int, day: int, text: str, kind: str, how: list[str]
) -> None:
    rows = paid([transfer("s", 900, kind=kind), transfer("t", 100, kind=kind, ref="REF-100001"),
                 transfer("u", 7, kind=kind, ref="REF-100002")])  # fmt: skip
    rule = bank.model.Rule("card settlement", "WIRE_DEPOSIT", 9, D(2))
    entries = booked([entry("b", much, day, text)])
    result = bank.match(rows, entries, rules=[rule])
    assert result.groups["how"].tolist() == how
    exact = bank.model.Rule("card settlement", "WIRE_DEPOSIT", 9)  # of no other amount
    result = bank.match(rows, entries, rules=[exact])
    assert result.groups["how"].tolist() == [one for one in how if one == "rule"]


@pytest.mark.parametrize(("day", "how"), [(3, ["tolerance"]), (4, [])])
def test_a_rule_that_says_nothing_of_days_means_three(day: int, how: list[str]) -> None:
    rule = bank.model.Rule("card settlement", "WIRE_DEPOSIT", amount=D(2))
    entries = booked([entry("b", 102, day, "card settlement")])
    result = bank.match(paid([transfer("t", 100, kind="WIRE_DEPOSIT")]), entries, rules=[rule])
    assert result.groups["how"].tolist() == how


def test_members_candidates_and_what_is_open_have_their_amounts_and_days() -> None:
    transfers = [transfer(name, much, day) for name, much, day in (
        ("s", 90, 1), ("t", 10, 0), ("u", 20, 8), ("v", 20, 11), ("w", 20, 30))]  # fmt: skip
    entries = [entry("a", 90, 1), entry("b", 10, 2), entry("c", 7, 40), entry("d", -3, 41)]
    result = bank.match(paid(transfers), booked(entries))
    shown = ["group", "side", "item_id", "asset", "amount", "on"]
    assert result.members[shown].values.tolist() == [
        [1, "bank", "b", "USD", D(10), FIRST + timedelta(days=2)],
        [1, "service", "t", "USD", D(10), FIRST],
        [2, "bank", "a", "USD", D(90), FIRST + timedelta(days=1)],
        [2, "service", "s", "USD", D(90), FIRST + timedelta(days=1)],
    ]
    assert result.open["item_id"].tolist() == ["c", "d", "u", "v", "w"]
    assert result.open["amount"].tolist() == [7, -3, 20, 20, 20]
    assert result.open["on"].tolist() == [FIRST + timedelta(days=n) for n in (40, 41, 8, 11, 30)]
    assert {*result.open["why"]} == {"no counterpart"}
    assert not result.open["undecided"].any()
    assert result.open["group"].isna().all()
    assert repr(result) == "Matching(2 groups, 5 items open, 0 questions)"
    nothing = bank.match(paid([]), booked([]))
    assert repr(nothing) == "Matching(0 groups, 0 items open, 0 questions)"


def test_a_run_of_a_day_has_up_to_30_and_a_question_shows_up_to_20() -> None:
    day = [transfer(f"t{n:02}", 1_000_003 * n**3 + 7 * n) for n in range(1, 35)]
    for many, hows in ((30, ["run_of_day"]), (31, [])):
        lump = entry("b", sum(each.amount for each in day[:many]))
        assert bank.match(paid(day), booked([lump])).groups["how"].tolist() == hows
    for many in (20, 21):
        alike = [transfer(f"t{n:02}", 1000 + n) for n in range(many)]
        rule = bank.model.Rule(type="WIRE_DEPOSIT", amount=D(50))
        result = bank.match(paid(alike), booked([entry("b", 990, 2)]), rules=[rule])
        assert result.candidates["candidate"].nunique() == 20
        assert {*result.candidates["how"]} == {"tolerance"}
        assert len(result.open) == many + 1


@pytest.mark.parametrize(
    ("entries", "transfers"),
    [
        # Half of the entries match; as many would on the other side.
        ([entry("b", 10), entry("c", -7)],
         [transfer("t", 10), transfer("u", -10), transfer("v", 7)]),
        ([entry("b", 10), entry("c", -7), entry("d", 99)], [transfer("t", 10), transfer("v", 7)]),
    ],
)  # fmt: skip
def test_a_statement_that_is_no_better_of_the_other_side_is_not_asked_about(
    entries: list[Bank], transfers: list[Paid]
) -> None:
    assert groups_of(bank.match(paid(transfers), booked(entries))) == {("amount", frozenset("bt"))}


def test_what_cannot_be_matched_is_named() -> None:
    rows, entries = paid([transfer("t", 10)]), booked([entry("b", 10), entry("c", 7)])
    for options, told in (
        ({"side": "bank"}, "side='bank' is not one of ours, service"),
        ({"window": -1}, "window=-1"), ({"fees": [True]}, "fees=True is not an amount"),
    ):  # fmt: skip
        given: dict[str, Any] = options
        with pytest.raises(AnalysisError, match=told):
            bank.match(rows, entries, **given)
    for column, told in (("booked_on", "booked_on is"), ("amount", "amount or entry_id is"),
                         ("entry_id", "amount or entry_id is")):  # fmt: skip
        broken = entries.copy()
        broken.loc[1, column] = None
        with pytest.raises(AnalysisError, match=f"entries: {told} missing in row 2"):
            bank.match(rows, broken)
    wrong: Any
    for wrong in (entries.drop(columns="booked_on"), entries.to_dict()):
        with pytest.raises(AnalysisError, match="with a column 'booked_on'"):
            bank.match(rows, wrong)
    with pytest.raises(AnalysisError, match="entry_id"):
        bank.match(rows, booked([entry("b", 10), entry("b", 10)]))
    with pytest.raises(AnalysisError, match="transfers"):
        bank.match(paid([transfer("t", 10)] * 2), entries)


def test_several_answers_are_listed_with_their_candidates() -> None:
    entries = [entry("b", 30, 0, "acme")]
    transfers = [transfer(n, a, name="acme") for n, a in (("t", 30), ("u", 10), ("v", 20))]
    result = bank.match(paid(transfers), booked(entries))
    listed = result.candidates.groupby("candidate")["item_id"].apply(set).tolist()
    assert listed == [{"b", "t"}, {"b", "u", "v"}]
    assert result.candidates["question"].tolist() == [1] * 5
    assert result.candidates["candidate"].tolist() == [1, 1, 2, 2, 2]
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
    assert unnamed["group"].tolist() == [1]


@pytest.mark.parametrize(("entries", "asked"), [(11, True), (12, False)])
def test_which_of_two_amounts_is_left_over_is_asked_among_twenty(entries: int, asked: bool) -> None:
    """With nine transfers; more are a block, of which nobody can say it."""
    theirs = [Bank(f"b{n}", 500 - 15 * (n % 2), 1, 1, charges=15 * (n % 2)) for n in range(entries)]
    found = bank.match(paid([transfer(f"t{n}", 500) for n in range(9)]), booked(theirs))
    why = ["several answers"] * 20 if asked else ["3 of 12 alike, and nothing tells which"] * 3
    assert (len(found.groups), found.open["why"].tolist()) == (not asked, why)


def test_of_a_block_that_grew_what_came_last_stands_for_what_is_left_over() -> None:
    transfers = [
        transfer(id_, 500, day, name=name)
        for id_, day, name in (("w", 9, "Acme"), ("t", 7, "Beta"), ("u", 8, "Acme"),
                               ("v", 8, "Beta"))
    ]  # fmt: skip
    entries = [entry("b", 500, 10), entry("c", 500, 10, "Acme"), Bank("d", 485, 9, 9, charges=15)]
    (left,) = bank.match(paid(transfers), booked(entries)).open.to_dict("records")
    assert (left["side"], left["on"], left["why"]) == (
        "service", FIRST + timedelta(days=9), "1 of 4 alike, and nothing tells which",
    )  # fmt: skip


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
    two = [entry("b", 10), entry("c", 10, 1)], [transfer("t", 10), transfer("u", 10, 1)]
    many = bank.match(paid(two[1]), booked(two[0])).open
    assert many["why"].tolist() == ["too many of one amount"] * 4
    assert many["undecided"].all()
    for seed in range(12):
        rng = random.Random(seed)
        entries = [entry(f"e{number}", 10, rng.randrange(6), rng.choice(("acme", "")))
                   for number in range(rng.randint(1, 7))]  # fmt: skip
        transfers = [transfer(f"t{number}", 10, rng.randrange(6), name=rng.choice(("acme", "")))
                     for number in range(rng.randint(1, 7))]  # fmt: skip
        result = bank.match(paid(transfers), booked(entries))
        once = [*result.members["item_id"], *result.open["item_id"].dropna()]
        assert sorted(once) == sorted(item.id for item in (*entries, *transfers))


@pytest.mark.parametrize(("side", "sign", "account"), [
    ("service", -1, "our own bank account"), ("ours", 1, "the service's account"),
])  # fmt: skip
def test_a_statement_of_the_other_side_is_said_to_be_one(
    side: Any, sign: int, account: str
) -> None:
    other = "ours" if side == "service" else "service"
    told = (f"1 of 3 entries match with side='{side}', 2 would with side='{other}': is this a "
            f"statement of {account}")  # fmt: skip
    rows = paid([transfer("t", 1000), transfer("u", 70), transfer("v", 5)])
    entries = booked([entry("b", sign * 1000), entry("c", sign * 70), entry("d", -sign * 5)])
    with pytest.warns(OtherSideWarning, match=told) as warned:
        found = bank.match(rows, entries, side=side)
    assert warned[0].filename == __file__  # whoever called it
    assert groups_of(found) == {("amount", frozenset("dv"))}
    assert found.open["amount"].tolist() == [sign * 1000, sign * 70, -sign * 1000, -sign * 70]


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


@pytest.mark.parametrize("said", ["", "acme", "REF-1001"])
@pytest.mark.parametrize(("entries", "transfers"), [
    ({"b": (97, 3)}, {"t": 97, "u": 100}),
    ({"b": (97, 3), "c": (100, 0)}, {"t": 100}),
    ({"b": (97, 3), "c": (94, 3)}, {"t": 97}),
    ({"b": (97, 3), "c": (97, 0)}, {"t": 97, "u": 100, "v": 100}),
])  # fmt: skip
def test_what_may_be_before_charges_or_after_them_is_asked(
    said: str, entries: Mapping[str, tuple[int, int]], transfers: Mapping[str, int]
) -> None:
    """What stays open is another amount by either answer."""
    ours = [transfer(name, amount, name=said, ref=said) for name, amount in transfers.items()]
    theirs = [Bank(name, amount, 0, 0, said, charges) for name, (amount, charges)
              in entries.items()]  # fmt: skip
    found = bank.match(paid(ours), booked(theirs))
    assert groups_of(found) == set()
    assert {*found.candidates["item_id"]} == {*entries, *transfers}
    assert found.open["why"].eq("several answers").all()


@pytest.mark.parametrize(("charged", "own", "part"), [(97, 97, 100), (97, 100, 97)])
def test_where_the_other_may_be_a_part_of_a_sum_it_is_asked_unless_the_sum_takes_it(
    charged: int, own: int, part: int
) -> None:
    """Before charges or after them: 100 or 97. The other is in a sum of acme's, or may be."""
    theirs = [Bank("b", charged, 0, 0, charges=3), entry("c", part + 50, 0, "acme")]
    acme = [transfer("p", part, name="acme"), transfer("q", 50, name="acme")]
    found = bank.match(paid([transfer("t", own), *acme]), booked(theirs))
    assert groups_of(found) == {("amount", frozenset("bt")), ("counterparty_sum", frozenset("cpq"))}
    ours = [transfer("t", own), *acme, transfer("r", 50, 1, name="acme")]
    found = bank.match(paid(ours), booked([theirs[0], entry("c", part + 50, 1, "acme")]))
    assert groups_of(found) == set()
    asked = found.candidates[found.candidates["how"] == "amount"]
    assert asked.groupby("candidate")["item_id"].agg("".join).tolist() == ["bt", "bp"]
    assert {*found.open.loc[found.open["undecided"], "item_id"]} == {*"bcpqrt"}


@pytest.mark.parametrize(("more", "asked"), [(9, True), (10, False)])
def test_a_block_in_which_one_may_be_of_another_amount_is_asked_about_up_to_twenty(
    more: int, asked: bool
) -> None:
    """97 or, before charges, the 100 that acme's 150 may be of or not."""
    acme = [transfer("p", 100, name="acme"), transfer("q", 50, name="acme"),
            transfer("r", 50, 1, name="acme")]  # fmt: skip
    ours = [*(transfer(f"t{n}", 97) for n in range(more + 1)), *acme]
    theirs = [Bank("b", 97, 0, 0, charges=3), *(entry(f"b{n}", 97) for n in range(more)),
              entry("c", 150, 1, "acme")]  # fmt: skip
    found = bank.match(paid(ours), booked(theirs))
    assert found.groups["entries"].tolist() == ([] if asked else [more + 1])
    assert ("amount" in set(found.candidates["how"])) is asked


@pytest.mark.parametrize("days", [4, 9])
def test_what_a_reference_brought_together_is_asked_however_far_apart(days: int) -> None:
    """x names both of its reference; b may be one of the two, or p, before its charges."""
    ours = [
        transfer("1", 97, ref="REF-1001"), transfer("2", 97, ref="REF-1001"),
        transfer("p", 100, name="acme"), transfer("q", 50, name="acme"),
        transfer("r", 50, 1, name="acme"),
    ]  # fmt: skip
    theirs = [
        Bank("x", 97, days, days, "REF-1001"), Bank("b", 97, 0, 0, charges=3),
        entry("c", 150, 1, "acme"),
    ]  # fmt: skip
    found = bank.match(paid(ours), booked(theirs))
    assert {*found.members["item_id"]} | {*found.open["item_id"]} == {*"12pqrxbc"}
    assert groups_of(found) == set()
    asked = found.candidates[found.candidates["how"] == "amount"].groupby("candidate")["item_id"]
    assert {*asked.agg("".join)} == {"b1", "b2", "bp", "x1", "x2"}


def test_what_is_before_charges_or_after_them_and_leaves_nothing_over_is_a_block() -> None:
    entries = [Bank("b", 97, 0, 0, charges=3), entry("c", 97)]
    found = bank.match(paid([transfer("t", 97), transfer("u", 100)]), booked(entries))
    assert groups_of(found) == {("amount", frozenset("bctu"))}
    assert found.groups[["bank_amount", "amount", "charges"]].to_numpy().tolist() == [[194, 197, 3]]
    assert found.open.empty


def test_what_a_question_holds_back_may_be_what_a_line_without_a_name_is_of() -> None:
    """12 is one of acme's that the 19 may be of, or 3 + 9."""
    acme = [transfer(f"t{amount}", amount, 2, name="acme") for amount in (12, 7, 15, 4)]
    ours = [*acme, transfer("u", 3, 2), transfer("v", 9, 2)]
    found = bank.match(paid(ours), booked([entry("b", 19, 2, "acme"), entry("c", 12, 2)]))
    assert groups_of(found) == set()


@pytest.mark.parametrize("more", [0, 1])
def test_one_with_charges_among_many_of_an_amount_stops_none_of_them(more: int) -> None:
    entries = [Bank(f"b{n}", 50, n % 20, n % 20) for n in range(300)]
    entries[7] = Bank("b7", 49, 7, 7, charges=1)
    ours = [transfer(f"t{n}", 50, n % 20) for n in range(300 + more)]
    found = bank.match(paid(ours), booked(entries))
    assert len(found.members) == 600 + more
    assert found.groups["open_transfers"].tolist() == [more]


def test_very_many_before_charges_or_after_them_are_listed() -> None:
    """With one of them that is 97 either way."""
    entries = [Bank(f"b{number}", 97, 0, 0, charges=3 * bool(number)) for number in range(200)]
    ours = [transfer(f"t{number}", 97 + 3 * (number % 2)) for number in range(260)]
    found = bank.match(paid(ours), booked(entries))
    assert groups_of(found) == set()
    assert found.open["why"].eq("too many of one amount").all()
    assert len(found.open) == 460


def test_a_part_that_another_question_holds_back_stays_possible() -> None:
    """46 are 17 + 12 + 7 + 10, of which 12 and 7 may be in the 44, too: not 10 + 36 for sure."""
    days = {25: 2, 17: 2, 12: 2, 7: 2, 10: 2, 36: 3, 8: 3}
    ours = [transfer(f"t{amount}", amount, day, name="acme") for amount, day in days.items()]
    theirs = [entry(f"b{amount}", amount, day, "acme") for amount, day in
              ((25, 2), (46, 2), (44, 3))]  # fmt: skip
    found = bank.match(paid(ours), booked(theirs))
    assert groups_of(found) == set()
    assert {"b46", "t17", "t12", "t7", "t10"} <= {*found.candidates["item_id"]}


def test_those_that_came_last_stand_for_what_a_block_leaves_over() -> None:
    result = bank.match(paid([transfer("t", 10)]), booked([Bank("b", 10, 3, 0), entry("c", 10, 1)]))
    assert groups_of(result) == {("amount", frozenset("bct"))}
    assert result.open["on"].tolist() == [FIRST + timedelta(days=3)]


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


def test_sums_of_eight_small_amounts_say_nothing() -> None:
    parts = (11, 19, 23, 29, 31, 37, 41, 43)
    for large, hows in ((0, []), (1_000_000, ["sum"])):
        rows = [transfer(f"t{n}", (n + 1) * large + part, n % 2) for n, part in enumerate(parts)]
        lump = entry("b", rows[6].amount + rows[7].amount, 1)
        result = bank.match(paid(rows), booked([lump]))
        assert result.groups["how"].tolist() == hows
        if not hows:
            assert result.open["why"].iloc[0] == "too many combinations of 8 items"


@pytest.mark.parametrize(
    ("cents", "found", "others", "beside"),
    [
        (0, False, 20, True), (0, False, 20, False), (37, True, 20, True),
        # Of 20 items altogether a person sees all, of 21 not.
        (0, True, 8, True), (0, False, 9, False),
    ],
)  # fmt: skip
def test_a_sum_that_chance_could_have_made_is_listed(
    cents: int, found: bool, others: int, beside: bool
) -> None:
    """Round amounts make many sums; of amounts to the cent one that agrees is no coincidence."""
    entries, transfers = referred(others, 77_777)
    parts = [transfer("t", 4_000_000 + cents, 0), transfer("u", 2_500_000 + 2 * cents, 1),
             transfer("v", 9_900_000, 1)][: 2 + beside]  # fmt: skip
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


def test_a_sum_of_a_name_that_chance_could_have_made_is_listed() -> None:
    entries, transfers = referred(20, 77_777)
    transfers += [transfer(n, a, name="acme") for n, a in (("t", 30), ("u", 70), ("v", 91))]
    for lumps, matched in (([("b", 100)], True), ([("b", 100), ("c", 50)], False)):
        named = [entry(name, much, 0, "acme") for name, much in lumps]
        result = bank.match(paid(transfers), booked([*entries, *named]))
        assert ("counterparty_sum" in {*result.groups["how"]}) == matched
        if not matched:
            assert {*result.candidates["how"]} == {"counterparty_sum"}
            why = dict(zip(result.open["item_id"], result.open["why"], strict=True))
            assert {why[item] for item in "btu"} == {"a sum that chance makes, too"}
    # Nor is one that settled one after the other of a day any better.
    transfers = transfers[:-3] + [transfer(n, a) for n, a in (("t", 30), ("u", 70), ("v", 91))]
    result = bank.match(paid(transfers), booked([*entries, entry("b", 100)]))
    assert {*result.groups["how"]} == {"reference"}


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
