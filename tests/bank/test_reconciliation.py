"""Balance per bank and balance per transfers: every statement foots, every proof cross-foots."""

from __future__ import annotations

import json
import random
import shlex
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import typer
from amounts import exactly
from bank_books import COLUMNS, made_books
from fake_service import FakeService, moment, withdrawal
from random_books import AMOUNTS, FIRST, frames_of, made_world, money
from test_matching import paid, transfer

import fundlab as fl
from fundlab import bank, cli
from fundlab.bank.proof_of_cash import Book
from fundlab.bank.reconciliation import _between, _doubled, _from_ledger, _items_in
from fundlab.base.errors import AnalysisError, OtherSideWarning
from fundlab.sandbox.bank_book import FAULTS, book, statement_file

D = Decimal


def lines_of(found: bank.Reconciliation) -> dict[str, dict[str, Decimal]]:
    return {row["line"]: row for row in found.proof.to_dict("records")}


@exactly()
def check_that_it_foots(found: bank.Reconciliation) -> None:
    lines = lines_of(found)
    for line in lines.values():
        assert line["opening"] + line["receipts"] - line["disbursements"] == line["closing"], line
    bank_side = (
        "per_bank",
        "deposits_in_transit",
        "outstanding_withdrawals",
        "netted",
        "bank_errors",
        "undecided",
    )
    for total, parts in (
        ("adjusted_bank", bank_side),
        ("adjusted_service", ("per_service", "unrecorded", "tolerated", "service_errors")),
    ):
        for name in COLUMNS:
            assert sum(lines[part][name] for part in parts) == lines[total][name]
    assert [lines["difference"][name] for name in COLUMNS] == [0] * 4
    # Each correction of the balance is the sum of the items that it lists.
    signs = {"bank_errors": -1}
    for category in ("deposits_in_transit", "outstanding_withdrawals", "unrecorded", "bank_errors",
                     "undecided"):  # fmt: skip
        rows = found.items[found.items["category"] == category]
        total = sum((D(amount) for amount in rows["amount"]), D(0)) * signs.get(category, 1)
        assert total == lines[category]["closing"], category


def months_foot(path: Path, seed: int, months: int) -> None:
    """Each month from its own statement and what the month before left open; and all at once."""
    rng = random.Random(seed)
    rows, transfers = made_books(rng, months)
    side = rng.choice(("service", "ours"))
    lines = book(
        rows, side=side, seed=seed, batch=rng.choice((0, 0.4)), late_days=rng.choice((0, 4)),
        netted_fee=D(rng.choice(("0", "15"))), references=rng.choice((0, 0.5, 1)),
        errors={fault: rng.choice((0, 0, 1)) for fault in FAULTS},
    )  # fmt: skip
    files, carried, before = [], None, None
    for month in range(1, months + 1):
        period = f"2026-{month:02}"
        text, _ = statement_file(
            lines, period, "camt.053", asset="USD", account="1", opening=D(5000), daily=False,
            page_lines=None,
        )  # fmt: skip
        files.append(path / f"{seed}-{period}.xml")
        files[-1].write_text(text)
        options: dict[str, Any] = {"side": side, "fees": ["15"] if rng.random() < 0.3 else []}
        found = bank.reconcile(transfers, bank.read(files[-1]), period, carried=carried, **options)
        check_that_it_foots(found)
        adjusted = lines_of(found)["adjusted_bank"]
        if before is not None:
            assert adjusted["opening"] == before
        carried, before = found.items, adjusted["closing"]
        ages = found.items["age"].tolist()
        assert ages == [(found.last - on).days for on in found.items["on"]]
    check_that_it_foots(bank.reconcile(transfers, bank.read(*files), period, **options))


@pytest.mark.seconds
def test_seeded_months_foot_and_cross_foot(tmp_path: Path) -> None:
    for seed in range(4):
        months_foot(tmp_path, seed, 3)
    months_foot(tmp_path, 177, 5)  # the bank books twice at a month's end, less its charges


@pytest.mark.filterwarnings(
    "ignore::fundlab.base.errors.OtherSideWarning"
)  # few lines, mostly errors
@pytest.mark.campaign
def test_1_000_seeded_months_foot_and_cross_foot(tmp_path: Path) -> None:
    for seed in range(200):
        months_foot(tmp_path, seed, 5)


def check_that_each_counts_once(path: Path, seed: int, amounts: str, plain: float) -> None:
    """The balance per transfers is added up here, so what is matched, open or undecided makes it
    up to the last cent only where each entry and transfer counts once."""
    world = made_world(seed, 60, amounts, plain=plain)
    transfers, _ = frames_of(world)
    # Of what settled before the statement begins nobody knows whether the bank had booked it.
    balance, rows = 1, ["date,amount,balance,charges,memo", f"{FIRST},0.01,0.01,0,interest"]
    for line in sorted(world.lines, key=lambda line: line.day):
        balance += line.cents
        with exactly():
            figures = [str(money(cents)) for cents in (line.cents, balance, line.charges)]
        rows.append(f"{FIRST + timedelta(days=line.day)},{','.join(figures)},{line.text}")
    path.write_text("\n".join(rows))
    end = max(line.day for line in world.lines)
    for last in (end, end // 2):  # the whole, and a period in its middle
        period = f"{FIRST + timedelta(days=last)}"
        until = [p for p in world.payments if p.day <= last]
        with exactly():
            ours = str(money(sum(payment.cents for payment in until)))
        found = bank.reconcile(transfers, bank.read(path), period, balance=ours)
        lines = lines_of(found)
        assert lines["difference"]["closing"] == 0, (seed, amounts, plain, period)


@pytest.mark.parametrize("amounts", AMOUNTS)
def test_each_entry_and_transfer_of_random_books_counts_once(amounts: str, tmp_path: Path) -> None:
    for seed in range(2):
        check_that_each_counts_once(tmp_path / "b.csv", seed, amounts, 0.4 * seed)


@pytest.mark.campaign
@pytest.mark.parametrize("amounts", AMOUNTS)
def test_each_entry_and_transfer_of_300_books_counts_once(
    amounts: str, seed: int, tmp_path: Path
) -> None:
    for number in range(100):
        plain = (number % 3) / 4
        check_that_each_counts_once(tmp_path / "b.csv", 1_000 * seed + number, amounts, plain)


def read_csv(path: Path, *lines: str) -> bank.Statements:
    file = path / "bank.csv"
    file.write_text("date,amount,balance,reference,memo\n" + "".join(f"{x}\n" for x in lines))
    return bank.read(file, asset="USD")


def test_a_month_with_one_of_each(tmp_path: Path) -> None:
    rows = paid(
        [
            transfer("late", 100, -1), transfer("t", 50, 4), transfer("out", -30, 9),
            transfer("lost", 7, 10), transfer("wrong", 1000, 11, ref="REF-100001"),
            transfer("fresh", 9, 30), transfer("later", -8, 30),
        ]
    )  # fmt: skip
    statement = read_csv(
        tmp_path,
        "2026-01-01,100,1100,r1,late",
        "2026-01-05,50,1150,r2,t",
        "2026-01-10,-30,1120,r3,out",
        "2026-01-12,1001,2121,r4,REF-100001",
        "2026-01-20,-12,2109,r5,charges",
        "2026-02-02,-8,2101,r6,later",
    )
    found = bank.reconcile(rows, statement, "2026-01")
    check_that_it_foots(found)
    amounts = dict(zip(found.statement["line"], found.statement["amount"], strict=True))
    assert amounts == {
        "per_bank": 2109, "deposits_in_transit": 16, "outstanding_withdrawals": -8, "netted": 0,
        "bank_errors": -1, "undecided": 0, "adjusted_bank": 2116, "per_service": 2128,
        "unrecorded": -12, "tolerated": 0, "service_errors": 0, "adjusted_service": 2116,
        "difference": 0,
    }  # fmt: skip
    listed = {row["item_id"]: row for row in found.items.to_dict("records")}
    assert {name: row["age"] for name, row in listed.items() if not name.startswith("bank-")} == {
        "lost": 20, "fresh": 0, "later": 0,
    }  # fmt: skip
    assert listed["later"]["cleared_on"] == date(2026, 2, 2)
    unexplained = {*found.unexplained["category"]}
    assert unexplained == {"deposits_in_transit", "bank_errors", "unrecorded"}
    assert not found.ok
    assert lines_of(found)["deposits_in_transit"]["opening"] == 100
    assert "3 items unexplained" in found.text
    assert found.text == repr(found)
    for shown in (found.text, found._repr_html_()):
        assert "2,109.00" in shown
        assert all(name in shown for name in found.unexplained["item_id"])
    # What somebody decides is explained, and stands where they say.
    decisions = pd.DataFrame({"item_id": [*found.unexplained["item_id"]]})
    decisions["decision"] = decisions["item_id"].map({"lost": "service_error"}).fillna("accepted")
    decided = bank.reconcile(rows, statement, "2026-01", decisions=decisions)
    check_that_it_foots(decided)
    assert decided.ok
    assert lines_of(decided)["service_errors"]["closing"] == -7
    # A balance that is known differently is a difference, and not explained away.
    known = bank.reconcile(rows, statement, "2026-01", decisions=decisions, balance="2127")
    assert (known.ok, known.difference, known.basis) == (False, 1, "given")


def test_a_period_has_what_is_of_its_first_and_last_day(tmp_path: Path) -> None:
    """January, by statements from 27 December to 1 February. No amount is a sum of others."""
    both = [(-5, 1), (-1, 2), (0, 4), (30, 8), (31, 16), (-1, -32), (0, -64), (30, -128),
            (31, -256)]  # fmt: skip
    of_bank = [(-1, 512), (0, 1024), (30, 2048), (31, 4096), (0, -8192), (31, -16384)]
    of_us = [(-1, 2**15), (0, 2**16), (30, 2**17), (31, 2**18), (0, -(2**19)), (27, -(2**20)),
             (26, -(2**21))]  # fmt: skip
    later = [(-1, 0, 2**22), (30, 31, 2**23), (29, 31, -(2**24))]  # settled, booked
    rows = [transfer(f"t{n}", much, day) for n, (day, much) in enumerate(both + of_us)]
    rows += [transfer(f"late{n}", much, day) for n, (day, _, much) in enumerate(later)]
    balance, lines = 1000, []
    for day, much in sorted([*both, *of_bank, *((day, much) for _, day, much in later)]):
        balance += much
        lines.append(f"{date(2026, 1, 1) + timedelta(days=day)},{much},{balance},,")
    found = bank.reconcile(paid(rows), read_csv(tmp_path, *lines), "2026-01")
    check_that_it_foots(found)
    assert (found.first, found.last, found.begins, found.basis) == (
        date(2026, 1, 1), date(2026, 1, 31), date(2025, 12, 27), "derived")  # fmt: skip
    proof = {line: [int(row[name]) for name in COLUMNS] for line, row in lines_of(found).items()}
    assert proof == {
        "per_bank": [1483, 4197388, 8384, 4190487],
        "deposits_in_transit": [4227072, 4390912, 0, 8617984],
        "outstanding_withdrawals": [0, 0, 20447232, -20447232],
        "netted": [0] * 4, "bank_errors": [0] * 4, "undecided": [0] * 4,
        "adjusted_bank": [4228555, 8588300, 20455616, -7638761],
        "per_service": [4228043, 8585228, 20447424, -7634153],
        "unrecorded": [512, 3072, 8192, -4608],
        "tolerated": [0] * 4, "service_errors": [0] * 4,
        "adjusted_service": [4228555, 8588300, 20455616, -7638761],
        "difference": [0] * 4,
    }  # fmt: skip
    listed = [
        (row["side"], int(row["amount"]), row["age"], row["explained"], row["why"],
         None if pd.isna(row["cleared_on"]) else row["cleared_on"])
        for row in found.items.to_dict("records")
    ]  # fmt: skip
    fresh, booked = "not on the statement yet", date(2026, 2, 1)
    assert listed == [
        ("bank", 512, 31, False, "no counterpart", None),
        ("service", 2**15, 31, False, "no counterpart", None),
        ("bank", 1024, 30, False, "no counterpart", None),
        ("bank", -8192, 30, False, "no counterpart", None),
        ("service", 2**16, 30, False, "no counterpart", None),
        ("service", -(2**19), 30, False, "no counterpart", None),
        ("service", -(2**21), 4, False, "no counterpart", None),
        ("service", -(2**20), 3, True, fresh, None),
        ("service", -(2**24), 1, True, "booked later", booked),
        ("bank", 2048, 0, False, "no counterpart", None),
        ("service", 2**23, 0, True, "booked later", booked),
        ("service", 2**17, 0, True, fresh, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "verdict"),
    [("closing", "The adjusted balances differ by 1.00."),
     *((name, "The columns of the proof of cash differ.") for name in COLUMNS[:3])],
)  # fmt: skip
def test_a_proof_whose_columns_differ_is_not_all_explained(
    column: str, verdict: str, tmp_path: Path
) -> None:
    found = bank.reconcile(
        paid([transfer("t", 70, 4)]), read_csv(tmp_path, "2026-01-05,70,70,r1,t"), "2026-01"
    )
    proof = found.proof.copy()
    proof.loc[proof["line"] == "difference", column] = D(1)
    assert (found.ok, replace(found, proof=proof).verdict) == (True, verdict)


@pytest.mark.parametrize("count", [20, 21])
def test_up_to_20_unexplained_items_are_shown(count: int, tmp_path: Path) -> None:
    lines = [f"2026-01-02,-{2**n},{-(2 ** (n + 1)) + 1},r{n},x" for n in range(count)]
    found = bank.reconcile(paid([]), read_csv(tmp_path, *lines), "2026-01")
    check_that_it_foots(found)
    assert found.verdict == f"{count} items unexplained."
    assert ("and 1 more" in found.text) == (count > 20)
    assert "0 groups matched" in found.text
    assert "from the bank's opening balance on" in found.text
    assert "fundlab bank accept ID" in found.text
    body = found.to_json()
    assert (body["ok"], body["unexplained"], body["matched"], body["basis"]) == (
        False, count, 0, "derived"
    )  # fmt: skip
    assert [body[name] for name in ("first", "last", "begins", "difference", "account")] == [
        "2026-01-01", "2026-01-31", "2026-01-02", "0", None
    ]  # fmt: skip
    assert {row["amount"] for row in body["items"]} == {str(-(2**n)) for n in range(count)}
    assert (body["items"][0]["on"], body["items"][0]["cleared_on"]) == ("2026-01-02", None)


def test_items_that_come_to_nothing_are_shown_and_what_has_none_is_not(tmp_path: Path) -> None:
    statement = read_csv(tmp_path, "2026-01-02,5,5,r1,x", "2026-01-03,-5,0,r2,y")
    found = bank.reconcile(paid([]), statement, "2026-01")
    assert "Not recorded by the service (2)" in found.text
    assert "Deposits in transit" not in found.text


def test_what_is_asked_otherwise_than_usual_is_kept(tmp_path: Path) -> None:
    rows, statement = paid([transfer("t", 70, 4)]), read_csv(tmp_path, "2026-01-05,70,70,r1,t")
    usual = bank.reconcile(rows, statement, "2026-01")
    assert (usual.options, usual.verdict, usual.unexplained.empty) == ({}, "All explained.", True)
    assert "to accept:" not in usual.text
    with pytest.warns(OtherSideWarning):
        other = bank.reconcile(
            rows, statement, "2026-01", side="ours", window=4, balance="1.00", fees=["15", 3]
        )
    assert other.options == {"side": "ours", "window": "4", "balance": "1.00", "fees": "15,3"}
    assert "from the bank's opening balance on" not in other.text
    wrong = bank.reconcile(rows, statement, "2026-01", balance="71")
    assert (wrong.ok, wrong.verdict) == (False, "The adjusted balances differ by -1.00.")
    whole = bank.reconcile(rows, statement)
    assert (whole.first, whole.last, whole.title) == (
        date(2026, 1, 5), date(2026, 1, 5), "USD, 2026-01-05 to 2026-01-05")  # fmt: skip
    for given in ({"as_of": "2026-01-01"}, {"pin": "x"}):
        with pytest.raises(AnalysisError, match="as_of and pin are of a store"):
            bank.reconcile(rows, statement, "2026-01", **given)  # type: ignore[arg-type]


def test_what_is_booked_twice_is_an_error_of_the_bank(tmp_path: Path) -> None:
    lines = ["2026-01-05,70,70,r1,t", "2026-01-05,9,79,r2,t", "2026-01-05,8,87,,t",
             "2026-01-25,70,157,r1,t"]  # fmt: skip
    found = bank.reconcile(paid([transfer("t", 70, 4, ref="REF-1001")]),
                           read_csv(tmp_path, *lines), "2026-01")  # fmt: skip
    check_that_it_foots(found)
    assert sorted(zip(found.items["category"], found.items["amount"], found.items["why"],
                      strict=True)) == [
        ("bank_errors", 70, "booked twice"), ("unrecorded", 8, "no counterpart"),
        ("unrecorded", 9, "no counterpart"),
    ]  # fmt: skip


@pytest.mark.parametrize(("answers", "said"), [(3, "t, u, v"), (5, "t, w, x and 2 more")])
def test_up_to_three_answers_are_named(answers: int, said: str, tmp_path: Path) -> None:
    parts = [("t", 30), ("u", 10), ("v", 20), ("w", 12), ("x", 18)][:answers]
    rows = paid([transfer(name, much, name="acme") for name, much in parts])
    (tmp_path / "b.csv").write_text("date,amount,balance,memo\n2026-01-01,30,30,acme\n")
    found = bank.reconcile(rows, bank.read(tmp_path / "b.csv"), "2026-01")
    (why,) = found.items.loc[found.items["side"] == "bank", "why"]
    assert why == f"several answers: {said}"


def test_what_a_decision_says_of_an_item_is_said_once(tmp_path: Path) -> None:
    rows = paid([transfer("t", 70, 4)])
    (tmp_path / "bank.csv").write_text("date,amount,balance\n2026-01-02,-9,991\n")
    statement = bank.read(tmp_path / "bank.csv")
    (entry,) = statement.entries["entry_id"]

    def decided(decision: str, carried: pd.DataFrame | None = None, month: str = "01") -> Any:
        decisions = pd.DataFrame({"item_id": [entry, "t"], "decision": [decision] * 2})
        files = statement
        if carried is not None:
            (tmp_path / "next.csv").write_text("date,amount,balance\n2026-02-02,1,992\n")
            files = bank.read(tmp_path / "next.csv")
        period = f"2026-{month}"
        return bank.reconcile(rows, files, period, decisions=decisions, carried=carried)

    for decision, categories in (
        ("accepted", ["unrecorded", "deposits_in_transit"]),
        ("bank_error", ["bank_errors", "deposits_in_transit"]),
        ("service_error", ["service_errors", "service_errors"]),
    ):
        found = decided(decision)
        check_that_it_foots(found)
        assert found.items["category"].tolist() == categories
        assert found.ok
        assert {*found.items["why"]} == {f"no counterpart; decided: {decision}"}
        again = decided("accepted", found.items, "02")
        check_that_it_foots(again)
        assert "no counterpart; decided: accepted" in {*again.items["why"]}
    unknown = decided("match nowhere")
    assert not unknown.ok
    assert {*unknown.items["why"]} == {
        "no counterpart; decided: match nowhere, which is not among what is matched"
    }


def january(day: int) -> date:
    """32 is the first of February, 0 the last of December."""
    return date(2025, 12, 31) + timedelta(days=day)


@pytest.mark.parametrize(
    ("theirs", "ours", "charges", "difference", "corrections", "items"),
    [
        # In full within the month, and of the month before; each side alone in it.
        ([("b", 5, 100)], [("t", 4, 100)], 0, 0, {}, []),
        ([("b", -1, 100)], [("t", -2, 100)], 0, 0, {}, []),
        ([("b", 32, 100)], [("t", 31, 100)], 0, 0,
         {"deposits_in_transit": [0, 100, 0, 100]}, [("t", 100, 0, "booked later", 32)]),
        ([("b", 31, -100)], [("t", 32, -100)], 0, 0,
         {"outstanding_withdrawals": [0, 0, -100, 100]}, [("b", 100, 0, "booked later", 32)]),
        ([("b", 1, 100)], [("t", 0, 100)], 0, 0, {"deposits_in_transit": [100, -100, 0, 0]}, []),
        # In two parts, of which one is of the next month.
        ([("b", 31, 40), ("c", 32, 60)], [("t", 30, 100)], 0, 0,
         {"deposits_in_transit": [0, 60, 0, 60]},
         [("t", 100, 1, "booked later", 32), ("b", -40, 0, "booked in part", None)]),
        ([("b", 31, 40), ("c", 32, 60)], [("t", 31, 100)], 0, 0,
         {"deposits_in_transit": [0, 60, 0, 60]},
         [("t", 100, 0, "booked later", 32), ("b", -40, 0, "booked in part", None)]),
        # Alike ones cancel out, the earliest first.
        ([("b", 30, 50), ("c", 32, 50)], [("t", 29, 50), ("u", 30, 50)], 0, 0,
         {"deposits_in_transit": [0, 50, 0, 50]}, [("u", 50, 1, "booked later", 32)]),
        # In and out on one line.
        ([("b", 5, 70)], [("t", 4, 100), ("u", 4, -30)], 0, 0, {"netted": [0, 30, 30, 0]}, []),
        # What the bank kept back, in the month, before it and after it.
        ([("b", 31, 97)], [("t", 30, 100)], 3, 0,
         {"unrecorded": [0, 0, 3, -3], "netted": [0, 3, 3, 0]},
         [("b", -3, 0, "kept back by the bank: why", None)]),
        ([("b", 30, 50), ("c", 31, 47)], [("t", 30, 100)], 3, 0,
         {"unrecorded": [0, 0, 3, -3], "netted": [0, 3, 3, 0]},
         [("b", -3, 0, "kept back by the bank: why", None)]),
        ([("b", 0, 97)], [("t", -1, 100)], 3, 0, {"unrecorded": [-3, 0, 0, -3]},
         [("b", -3, 31, "kept back by the bank: why", None)]),
        ([("b", 32, 97)], [("t", 32, 100)], 3, 0, {}, []),
    ],
)  # fmt: skip
def test_a_group_is_in_the_columns_of_its_days(
    theirs: list[tuple[str, int, int]], ours: list[tuple[str, int, int]], charges: int,
    difference: int, corrections: dict[str, list[int]], items: list[Any],
) -> None:  # fmt: skip
    """All in cents."""
    book = Book(january(1), january(31), {})
    flows = {
        side: [(name, january(day), D(much) / 100) for name, day, much in rows]
        for side, rows in (("bank", theirs), ("service", ours))
    }
    book.take_group(flows, D(charges) / 100, D(difference) / 100, "why")
    found = {
        category: [row[name] * 100 for name in COLUMNS]
        for category, row in book.corrections.items()
    }
    assert {category: row for category, row in found.items() if any(row)} == corrections
    listed = [
        (row["item_id"], row["amount"] * 100, row["age"], row["why"],
         row["cleared_on"] and (row["cleared_on"] - january(0)).days)
        for row in book.listed
    ]  # fmt: skip
    assert listed == items


@pytest.mark.parametrize(
    ("much", "category"), [("0.5", "deposits_in_transit"), ("-0.5", "outstanding_withdrawals")]
)
def test_half_a_dollar_that_the_bank_books_later_is_in_transit(much: str, category: str) -> None:
    book = Book(january(1), january(31), {})
    flows = {"bank": [("b", january(32), D(much))], "service": [("t", january(31), D(much))]}
    book.take_group(flows, D(0), D(0), "why")
    assert {name: row["closing"] for name, row in book.corrections.items() if row["closing"]} == {
        category: D(much)
    }


def test_what_is_booked_in_part_is_listed_to_its_last_digit() -> None:
    much = D("12345678901234567890.123456789012345678")
    book = Book(january(1), january(31), {})
    flows = {"bank": [("b", january(32), much)], "service": [("t", january(31), much)]}
    book.take_group(flows, D(0), D(0), "why")
    early = {"bank": [("c", january(31), much)], "service": [("u", january(32), much)]}
    book.take_group(early, D(0), D(0), "why")
    assert [(row["item_id"], row["amount"]) for row in book.listed] == [
        ("t", much), ("c", much.copy_negate())
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tolerated", "decided", "category", "amount", "explained"),
    [
        (False, {}, "bank_errors", -2, False), (True, {}, "tolerated", 2, True),
        (False, {"t": "service_error"}, "service_errors", 2, True),
        (False, {"b": "accepted"}, "bank_errors", -2, True),
    ],
)  # fmt: skip
def test_another_amount_is_whose_error_it_is(
    tolerated: bool, decided: dict[str, str], category: str, amount: int, explained: bool
) -> None:
    book = Book(january(1), january(31), decided)
    flows = {"bank": [("b", january(5), D(102))], "service": [("t", january(4), D(100))]}
    book.take_group(flows, D(0), D(2), "why", tolerated=tolerated)
    assert {name: row["closing"] for name, row in book.corrections.items() if row["closing"]} == {
        category: amount
    }
    (item,) = book.listed
    assert (item["item_id"], item["amount"], item["category"], item["explained"]) == (
        "b", 2, category, explained
    )  # fmt: skip


@pytest.mark.parametrize(
    ("side", "category", "corrections", "booked"),
    [
        ("bank", "bank_errors", {"bank_errors": [-7, 0, 0, -7]}, []),
        ("service", "service_errors", {"service_errors": [-7, 0, 0, -7]}, [(january(0), 7)]),
        ("bank", "unrecorded", {"unrecorded": [7, 0, 0, 7]}, []),
        ("bank", "tolerated", {"tolerated": [7, 0, 0, 7]}, []),
    ],
)  # fmt: skip
def test_what_is_carried_stands_where_it_stood(
    side: str, category: str, corrections: dict[str, list[int]], booked: list[Any]
) -> None:
    for explained in (True, False):
        book = Book(january(1), january(31), {})
        book.take_carried({"side": side, "item_id": "x", "on": str(january(0)), "amount": D(7),
                           "category": category, "why": "old", "explained": explained})  # fmt: skip
        found = {name: [*row.values()] for name, row in book.corrections.items()}
        assert (found, book.booked) == (corrections, booked)
        (item,) = book.listed
        assert (item["item_id"], item["amount"], item["on"], item["age"], item["category"],
                item["why"], item["explained"]) == (
            "x", 7, january(0), 31, category, "old", explained)  # fmt: skip


@pytest.mark.parametrize(
    ("amount", "why", "decided", "category", "correction", "said"),
    [
        (7, "no counterpart", {}, "deposits_in_transit", 7, "not on the statement yet"),
        (0, "no counterpart", {}, "deposits_in_transit", 0, "not on the statement yet"),
        (-7, "no counterpart", {}, "outstanding_withdrawals", -7, "not on the statement yet"),
        (7, "too many", {}, "deposits_in_transit", 7, "too many"),
        (7, "too many", {"t": "service_error"}, "service_errors", -7,
         "too many; decided: service_error"),
    ],
)  # fmt: skip
def test_an_open_transfer_is_in_transit_or_an_error(
    amount: int, why: str, decided: dict[str, str], category: str, correction: int, said: str
) -> None:
    book = Book(january(1), january(31), decided)
    fits = why == "no counterpart"
    book.take_transfer("t", january(30), D(amount), why, 3, decided=fits)
    assert book.corrections[category]["closing"] == correction
    assert book.booked == [(january(30), amount)]
    (item,) = book.listed
    assert (item["side"], item["amount"], item["category"], item["why"], item["explained"]) == (
        "service", amount, category, said, fits or bool(decided)
    )  # fmt: skip


def test_what_the_bank_booked_before_it_settled_is_carried_to_the_month_it_does(
    tmp_path: Path,
) -> None:
    rows = paid([transfer("t", 70, 31), transfer("u", -5, 40)])
    first = read_csv(tmp_path, "2026-01-31,70,70,r1,x")
    january = bank.reconcile(rows, first, "2026-01")
    (item,) = january.items.to_dict("records")
    assert (item["side"], item["amount"], item["cleared_on"]) == ("bank", -70, date(2026, 2, 1))
    second = read_csv(tmp_path, "2026-02-11,-5,65,r2,y")
    february = bank.reconcile(rows, second, "2026-02", carried=january.items)
    check_that_it_foots(february)
    assert (len(february.matching.groups), february.items.empty, february.ok) == (2, True, True)


@pytest.mark.parametrize("carries", [True, False])
def test_what_a_closed_month_booked_is_not_taken_by_what_is_booked_twice(
    carries: bool, tmp_path: Path
) -> None:
    """The last day's 70 once more, on the first of the next month."""
    rows = paid([transfer("t", 70, 30), *[transfer("open", 9, 28)] * carries])
    first = read_csv(tmp_path, "2026-01-31,70,1070,r1,t")
    january = bank.reconcile(rows, first, "2026-01")
    assert january.items["item_id"].tolist() == ["open"] * carries
    second = read_csv(tmp_path, "2026-02-01,70,1140,r2,t", *["2026-02-01,9,1149,r3,open"] * carries)
    february = bank.reconcile(rows, second, "2026-02", carried=january.items)
    check_that_it_foots(february)
    assert len(february.matching.groups) == carries
    (item,) = february.items.to_dict("records")
    assert (item["side"], item["amount"], item["category"]) == ("bank", 70, "unrecorded")


def test_a_statement_that_begins_within_a_closed_month_takes_what_that_booked(
    tmp_path: Path,
) -> None:
    rows = paid([transfer("t", 70, 30)])
    lines = ["2026-01-31,70,1070,r1,t", "2026-02-01,70,1140,r2,t"]
    january = bank.reconcile(rows, read_csv(tmp_path, lines[0]), "2026-01")
    both = bank.reconcile(rows, read_csv(tmp_path, *lines), "2026-02", carried=january.items)
    check_that_it_foots(both)
    assert (len(both.matching.groups), len(both.items)) == (1, 1)


def test_what_settled_on_the_day_after_a_closed_one_is_taken(tmp_path: Path) -> None:
    rows = paid([transfer("t", 70, 29), transfer("open", 9, 27)])
    before = bank.reconcile(rows, read_csv(tmp_path, "2026-01-29,1,1001,r1,interest"))
    assert (before.last, len(before.items)) == (date(2026, 1, 29), 1)
    second = read_csv(tmp_path, "2026-02-01,70,1071,r2,t")
    found = bank.reconcile(rows, second, "2026-02", carried=before.items)
    assert found.matching.members["item_id"].tolist()[-1] == "t"


def test_of_two_alike_within_a_statement_the_later_is_left_over_in_any_period(
    tmp_path: Path,
) -> None:
    """The first settled on the day it begins."""
    rows = paid([transfer("u", 70, 19), transfer("v", 70, 21)])
    lines = ["2026-01-20,1,1,r0,x", "2026-01-22,70,71,r1,y", "2026-02-02,1,72,r2,z"]
    for period in ("2026-01", "2026-02", None):
        found = bank.reconcile(rows, read_csv(tmp_path, *lines), period)
        assert found.items.loc[found.items["side"] == "service", "item_id"].tolist() == ["v"]
    fresh = bank.reconcile(rows, read_csv(tmp_path, *lines[:2])).items.iloc[-1]
    assert (fresh["item_id"], fresh["why"], fresh["explained"]) == (
        "v", "not on the statement yet", True
    )  # fmt: skip


def test_open_items_carry_with_their_age(tmp_path: Path) -> None:
    rows = paid([transfer("old", 70, 5), transfer("new", 9, 40)])
    first = read_csv(tmp_path, "2026-01-02,-12,988,r1,charges")
    january = bank.reconcile(rows, first, "2026-01")
    assert january.items["age"].tolist() == [29, 25]
    second = read_csv(tmp_path, "2026-02-10,9,997,r2,new", "2026-02-20,1,998,r3,interest")
    february = bank.reconcile(rows, second, "2026-02", carried=january.items)
    check_that_it_foots(february)
    assert february.items["age"].tolist() == [57, 53, 8]
    kept = tmp_path / "january.json"
    kept.write_text(json.dumps(january.to_json()))
    of_file = bank.reconcile(rows, second, "2026-02", carried=kept)
    pd.testing.assert_frame_equal(of_file.items, february.items)
    third = read_csv(tmp_path, "2026-03-01,70,1068,r4,old")
    march = bank.reconcile(rows, third, "2026-03", carried=february.items, window=90)
    check_that_it_foots(march)
    assert {*march.items["category"]} == {"unrecorded"}
    with pytest.raises(AnalysisError, match="carried has no column category"):
        bank.reconcile(rows, third, "2026-03", carried=february.items.drop(columns="category"))


def test_of_two_alike_the_one_that_is_known_to_be_open_is_cleared_first(tmp_path: Path) -> None:
    rows = paid([transfer("old", 100, 29), transfer("new", 100, 31)])
    first = read_csv(tmp_path, "2026-01-02,-12,988,r1,charges")
    january = bank.reconcile(rows, first, "2026-01")
    assert january.items["item_id"].tolist()[-1:] == ["old"]
    second = read_csv(tmp_path, "2026-02-01,-1,987,r2,fee", "2026-02-02,100,1087,r3,x")
    february = bank.reconcile(rows, second, "2026-02", carried=january.items)
    check_that_it_foots(february)
    waiting = february.items[february.items["category"] == "deposits_in_transit"]
    assert waiting["item_id"].tolist() == ["new"]


def test_what_was_cleared_in_the_month_before_is_not_taken_again(tmp_path: Path) -> None:
    """The bank books ``paid`` a second time, within the window, in January or in February."""
    rows = paid([transfer("paid", 100, 29), transfer("open", 40, 30)])
    again = "2026-01-31,100,1200,r2,paid"
    for first, second in (
        (("2026-01-30,100,1100,r1,paid", again), ("2026-02-02,40,1240,r3,open",)),
        (("2026-01-30,100,1100,r1,paid",), ("2026-02-01,100,1200,r2,paid",
                                            "2026-02-02,40,1240,r3,open")),
        (("2026-01-30,100,1100,r1,paid", "2026-01-31,40,1140,r3,open"),
         ("2026-02-01,100,1240,r2,paid",)),
    ):  # fmt: skip
        january = bank.reconcile(rows, read_csv(tmp_path, *first), "2026-01")
        statement = read_csv(tmp_path, *second)
        february = bank.reconcile(rows, statement, "2026-02", carried=january.items)
        check_that_it_foots(february)
        before, after = lines_of(january), lines_of(february)
        for line in ("per_bank", "adjusted_bank", "per_service", "adjusted_service"):
            assert after[line]["opening"] == before[line]["closing"], line
        assert after["unrecorded"]["closing"] + after["bank_errors"]["closing"] == 100
        (left,) = february.unexplained.to_dict("records")
        assert (left["side"], left["amount"]) == ("bank", 100)
        # A person may say otherwise.
        by_hand = pd.DataFrame({"item_id": [left["item_id"]], "decision": ["match paid"]})
        accepted = bank.reconcile(
            rows, statement, "2026-02", carried=january.items, decisions=by_hand
        )
        assert accepted.unexplained.empty


def test_an_entry_of_the_last_day_before_has_its_transfer_where_it_is_listed_again(
    tmp_path: Path,
) -> None:
    """As by a statement that begins a day earlier."""
    rows = paid([transfer("paid", 100, 29), transfer("next", 40, 31)])
    line = "2026-01-31,100,1100,r1,paid"
    january = bank.reconcile(rows, read_csv(tmp_path, line), "2026-01")
    statement = read_csv(tmp_path, line, "2026-02-02,40,1140,r3,next")
    february = bank.reconcile(rows, statement, "2026-02", carried=january.items)
    check_that_it_foots(february)
    assert february.unexplained.empty
    assert {*february.matching.members["item_id"]} >= {"paid", "next"}


def test_a_store_says_to_whom_a_withdrawal_goes(tmp_path: Path) -> None:
    """What the bank books later went out first."""
    owners = {"f-a": "Acme Metals", "f-b": "Beta Foods"}
    accounts = [
        {"id": id_, "created_at": moment(1), "fiat_account_owner":
            {"institution_details": {"name": name}}}
        for id_, name in owners.items()
    ]  # fmt: skip
    rows = [
        withdrawal(second, fiat_account_id=id_) | {"status": "COMPLETED"}
        for second, id_ in ((100, "f-a"), (200, "f-b"))
    ]
    store = fl.Store(tmp_path / "store")
    service: Any = FakeService(rows, fiat_accounts=accounts)
    store.sync(service, ["transfers", "fiat_accounts"])
    statement = read_csv(tmp_path, "2026-03-02,-10.50,989.50,r1,to Beta Foods",
                         "2026-03-03,-10.50,979.00,r2,to Acme Metals")  # fmt: skip
    members = bank.reconcile(store, statement, "2026-03").matching.members
    ours = members[members["side"] == "service"].sort_values("group")
    theirs = members[members["side"] == "bank"].sort_values("group")
    on = dict(zip(ours["item_id"], theirs["on"], strict=True))
    assert on == {"t-000100": date(2026, 3, 3), "t-000200": date(2026, 3, 2)}


def test_statements_that_cannot_be_reconciled_are_refused(tmp_path: Path) -> None:
    rows = paid([transfer("t", 70)])
    path = tmp_path / "bank.csv"
    path.write_text("date,amount\n2026-01-01,70\n")
    with pytest.raises(AnalysisError, match="declare no opening balance"):
        bank.reconcile(rows, bank.read(path, asset="USD"))
    with pytest.raises(AnalysisError, match="no statement of account 9 in USD"):
        bank.reconcile(rows, bank.read(path, asset="USD"), account="9")
    other = tmp_path / "other.csv"
    other.write_text("date,amount,account\n2026-01-01,70,A\n")
    with pytest.raises(AnalysisError, match="of 2 accounts; give account="):
        bank.reconcile(rows, bank.read(path, other, asset="USD"))
    path.write_text("date,amount\n")
    with pytest.raises(AnalysisError, match="the statements have neither entries nor days"):
        bank.reconcile(rows, bank.read(path, asset="USD", opening="5"))


@pytest.mark.parametrize(("account", "closing"), [("10006789", 70), ("10001234", 9)])
def test_of_several_accounts_the_one_that_is_given_is_reconciled(
    account: str, closing: int, tmp_path: Path
) -> None:
    for name, much in (("10006789", 70), ("10001234", 9)):
        (tmp_path / name).write_text(
            f"date,amount,balance,account\n2026-01-05,{much},{much},{name}\n"
        )
    statements = bank.read(tmp_path / "10006789", tmp_path / "10001234", asset="USD")
    found = bank.reconcile(paid([transfer("t", closing, 4)]), statements, account=account)
    assert (found.account, found.ok, [Path(file).name for file in found.files]) == (
        account, True, [account]
    )  # fmt: skip
    assert found.title == f"account ••••{account[-4:]}, USD, 2026-01-05 to 2026-01-05"
    assert lines_of(found)["per_bank"]["closing"] == closing


def test_a_period_that_the_statements_are_not_of_is_refused(tmp_path: Path) -> None:
    rows = paid([transfer("t", 70, 4)])
    statement = read_csv(tmp_path, "2026-01-05,70,70,r1,t")
    assert bank.reconcile(rows, statement, "2026-01").ok
    for period in ("2025-12", "2026-02"):
        with pytest.raises(AnalysisError, match=r"which are of 2026-01-05 to 2026-01-05: give its"):
            bank.reconcile(rows, statement, period)


@pytest.mark.parametrize(("days", "left"), [((2, 3), []), ((1, 2, 3), []), ((3, 4), ["u"])])
def test_of_a_block_what_settled_before_the_statements_is_left_over_and_not_open(
    tmp_path: Path, days: tuple[int, ...], left: list[str]
) -> None:
    """One entry for several transfers, of which the bank may have booked the others before."""
    rows = paid([transfer(name, 70, day) for name, day in zip("tuv", days, strict=False)])
    statement = read_csv(tmp_path, "2026-01-04,70,70,r1,x", "2026-01-05,1,71,r2,interest")
    found = bank.reconcile(rows, statement)
    assert len(found.matching.open) == len(days)  # and the interest
    assert found.items.loc[found.items["side"] == "service", "item_id"].tolist() == left


@pytest.mark.parametrize(("day", "found"), [(0, True), (-1, False)])
def test_the_first_entry_may_be_of_a_transfer_of_the_window_before(
    tmp_path: Path, day: int, found: bool
) -> None:
    rows = paid([transfer("t", 70, day), transfer("u", 9, 3)])
    statement = read_csv(tmp_path, "2026-01-04,70,70,r1,x", "2026-01-05,9,79,r2,y")
    members = bank.reconcile(rows, statement).matching.members
    assert {*members.loc[members["side"] == "service", "item_id"]} == (
        {"t", "u"} if found else {"u"}
    )


def test_what_settled_before_the_first_statement_of_a_period_is_open(tmp_path: Path) -> None:
    rows = paid([transfer("before", 30, -9), transfer("cut", 50, 2), transfer("t", 70, 20)])
    statement = read_csv(tmp_path, "2026-01-21,70,70,r1,t")
    found = bank.reconcile(rows, statement, "2026-01")
    assert found.unexplained["item_id"].tolist() == ["cut"]
    # Whether the bank booked it before its statement begins nobody can know.
    assert (found.basis, found.ok, found.difference) == ("unknown", False, None)
    for line in ("per_service", "adjusted_service", "difference"):
        assert lines_of(found)[line]["closing"] is None
    assert lines_of(found)["difference"]["receipts"] == 0
    assert "as the statements begin on 2026-01-21 and transfers settled before" in found.verdict
    assert "Balance per transfers " in found.text
    assert "unknown" in found.text
    assert found.to_json()["difference"] is None
    # It is known where the balance is given, or nothing of the period settled before.
    check_that_it_foots(given := bank.reconcile(rows, statement, "2026-01", balance="120"))
    assert given.basis == "given"
    check_that_it_foots(bank.reconcile(paid([transfer("t", 70, 20)]), statement, "2026-01"))


@pytest.mark.parametrize(
    ("argument", "told"),
    [({"balance": "NaN"}, "balance='NaN' is not an amount"), ({"fees": ["x"]}, "fees='x' is not"),
     ({"window": 10**9}, "window=1000000000: give"), ({"window": "3"}, "window='3': give"),
     ({"decisions": pd.DataFrame({"id": ["a"]})}, "decisions: give .* item_id and decision")],
)  # fmt: skip
def test_an_argument_that_is_wrong_is_named(
    tmp_path: Path, argument: dict[str, Any], told: str
) -> None:
    rows, statement = paid([transfer("t", 70, 4)]), read_csv(tmp_path, "2026-01-05,70,70,r1,t")
    with pytest.raises(AnalysisError, match=told):
        bank.reconcile(rows, statement, "2026-01", **argument)


def test_what_is_no_statement_and_no_amount_is_named(tmp_path: Path) -> None:
    rows, statement = paid([transfer("t", 70, 4)]), read_csv(tmp_path, "2026-01-05,70,70,r1,t")
    given: Any = statement.entries
    with pytest.raises(AnalysisError, match=r"give what fl\.bank\.read gave, not a DataFrame"):
        bank.reconcile(rows, given)
    given = [tmp_path / "bank.csv"]
    with pytest.raises(AnalysisError, match="give each file by itself"):
        bank.read(given)
    for given in ("sNaN", "Infinity", "1e400", True, 1.5):
        with pytest.raises(AnalysisError, match=r"opening=.* is not an amount"):
            bank.read(tmp_path / "bank.csv", asset="USD", opening=given)


@pytest.mark.seconds
def test_the_command_reconciles_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with fl.sandbox.serve(seed=7, transfers=600, clock="manual") as sandbox:
        fl.Store(tmp_path / "books").sync(sandbox.connect(), progress=False)
        right = sandbox.control.bank_statement("2026-10", "mt940", batch=0.5)
        wrong = sandbox.control.bank_statement("2026-10", "bai2", errors={"missing": 1})
    files = []
    for made in (right, wrong):
        files.append(tmp_path / made["name"])
        files[-1].write_text(made["text"])
    command = ["bank", "--period", "2026-10", "--store", str(tmp_path / "books")]
    cli.run([*command, str(files[0])])
    assert "All explained." in capsys.readouterr().out
    with pytest.raises(typer.Exit) as ended:
        cli.run([*command, "--json", str(files[1])])
    assert ended.value.exit_code == 3
    body = json.loads(capsys.readouterr().out)
    assert (body["ok"], body["unexplained"], body["difference"]) == (False, 1, "0")
    assert [row["line"] for row in body["proof"]][-1] == "difference"


def test_a_statement_to_try_it_on_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.run(["bank", "sample", "--out", str(tmp_path / "a folder")])
    command = shlex.split(capsys.readouterr().out.removeprefix("try: fundlab "))
    with pytest.raises(typer.Exit):
        cli.run(command)
    assert "4 items unexplained." in capsys.readouterr().out
    with fl.sandbox.serve(seed=7, transfers=60, clock="manual") as sandbox:
        settings = ("base_url", "auth_url", "client_id", "client_secret")
        for name in settings:
            monkeypatch.setenv(f"FUNDLAB_{name.upper()}", getattr(sandbox, name))
        cli.run(["bank", "sample", "2026-10", "--sandbox", "--format", "csv", "--out",
                 str(tmp_path / "new")])  # fmt: skip
    (file,) = (tmp_path / "new").iterdir()
    assert bank.read(file).statements["proved"].tolist() == ["balances"]


@pytest.mark.seconds
def test_what_is_accepted_stays_decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with fl.sandbox.serve(seed=7, transfers=300, clock="manual") as sandbox:
        store = fl.Store(tmp_path / "books")
        store.sync(sandbox.connect(), progress=False)
        made = sandbox.control.bank_statement("2026-10", "mt940")
    file = tmp_path / made["name"]
    file.write_text(made["text"])
    who = {"by": "Ana Ito", "reason": "asked the bank"}

    def reconciled() -> bank.Reconciliation:
        return bank.reconcile(store, bank.read(file), "2026-10")

    before = reconciled()
    assert before.ok
    entry, transfer_id = before.matching.members["item_id"].tolist()[:2]
    bank.accept(store, entry, transfer_id, kind="apart", **who)
    assert {entry, transfer_id} <= {*reconciled().unexplained["item_id"]}
    bank.accept(store, transfer_id, **who)
    assert transfer_id not in {*reconciled().unexplained["item_id"]}
    command = ["bank", "accept", entry, transfer_id, "--by", "Ben", "--reason", "it is the one"]
    cli.run([*command, "--store", str(tmp_path / "books")])
    assert "Accepted: belong together" in capsys.readouterr().out
    again = reconciled()
    assert again.ok
    assert again.matching.groups["how"].tolist().count("accepted") == 1
    last = store.annotations().iloc[-1]
    assert (last["by"], last["comment"]) == ("Ben", "it is the one")
    bank.accept(store, entry, kind="open", **who)
    assert "accepted" not in {*reconciled().matching.groups["how"]}
    store.annotate(entry, decision="match 0d1cf0ea-mistyped")
    bank.accept(store, entry, transfer_id, kind="apart", **who)
    store.annotate(entry, decision="match 0d1cf0ea-mistyped")
    unexplained = reconciled().unexplained
    (why,) = unexplained.loc[unexplained["item_id"] == entry, "why"]
    assert why.endswith("decided: match 0d1cf0ea-mistyped, which is not among what is matched")


def test_several_entries_are_accepted_for_several_transfers(tmp_path: Path) -> None:
    with fl.sandbox.serve(seed=7, transfers=60, clock="manual") as sandbox:
        store = fl.Store(tmp_path / "books")
        store.sync(sandbox.connect(), progress=False)
    rows = store.read("transfers")
    ours = rows[rows["type"].isin(["WIRE_DEPOSIT", "CUBIX_DEPOSIT"])]["id"].tolist()[:2]
    theirs = [f"bank-{n:020x}" for n in (1, 2, 3)]
    frame = pd.DataFrame({"entry_id": theirs, "booked_on": [date(2026, 1, 1)] * 3})
    frame["amount"] = pd.array([1, 2, 3], dtype="decimal")
    bank.accept(store, *theirs, *ours, by="Ana", reason="one settlement")
    found = bank.match(rows, frame, decisions=store.annotations())
    assert {*found.members["item_id"]} == {*theirs, *ours}
    assert found.groups["how"].tolist() == ["accepted"]
    for ids, more, told in (
        ([], {}, "give the ids of an entry"), (theirs, {"kind": "match"}, "and a transfer"),
        ([*theirs, "x"], {}, "item_id='x' is not in"), (theirs, {"by": " "}, "by= must say who"),
        (theirs, {"kind": "bogus"}, "'bogus' is not one of match, apart"),
    ):  # fmt: skip
        given: dict[str, Any] = {"by": "Ana", "reason": "r", **more}
        with pytest.raises(fl.errors.FundlabError, match=told):
            bank.accept(store, *ids, **given)
    assert len(store.annotations()) == 4


def test_a_rule_of_the_profile_takes_a_payment_within_its_days_and_amount(tmp_path: Path) -> None:
    profile = tmp_path / "bank.toml"
    profile.write_text(
        '[[rules]]\nsays = "card settlement"\ntype = "WIRE_DEPOSIT"\ndays = 9\namount = "0.50"\n'
    )
    rows = paid([transfer("t", 100, 0), transfer("u", 300, 0), transfer("v", 7, 0),
                 transfer("w", 500, 0), transfer("x", 501, 0), transfer("y", -90, 0)])  # fmt: skip
    (tmp_path / "b.csv").write_text(
        "date,amount,balance,memo\n2026-01-01,7.00,7.00,fee of u\n"
        "2026-01-08,99.70,106.70,CARD-SETTLEMENT 17\n2026-01-09,300.00,406.70,card settlement\n"
        "2026-01-09,500.50,907.20,card settlement\n2026-01-09,-90.20,817.00,card settlement\n"
    )
    found = bank.reconcile(rows, bank.read(tmp_path / "b.csv", profile=profile), "2026-01")
    check_that_it_foots(found)
    how = dict(zip(found.matching.groups["how"], found.matching.groups["difference"], strict=True))
    assert how == {"amount": 0, "rule": 0, "tolerance": D("-0.3")}
    assert lines_of(found)["tolerated"]["closing"] == D("-0.3")
    tolerated = found.items[found.items["category"] == "tolerated"]
    assert tolerated["explained"].tolist() == [True]
    assert "less" in tolerated["why"].iloc[0]
    # Two fit the one of 500.50, and a withdrawal is none of the rule's type.
    assert set(found.matching.candidates["item_id"]) > {"w", "x"}
    assert "y" in {*found.matching.open["item_id"]}
    without = bank.reconcile(rows, bank.read(tmp_path / "b.csv"), "2026-01")
    assert set(without.matching.groups["how"]) == {"amount"}


def statement_of(path: Path, *lines: str) -> bank.Statements:
    (path / "january.csv").write_text("\n".join(["date,amount,balance", *lines, ""]))
    return bank.read(path / "january.csv")


def test_equal_amounts_that_agree_leave_nothing_open(tmp_path: Path) -> None:
    """Two deposits of 100 and two entries of 100 on one day: 200 on both sides."""
    rows = paid([transfer("t1", 100), transfer("t2", 100)])
    found = bank.reconcile(rows, statement_of(tmp_path, "2026-01-01,100,100", "2026-01-01,100,200"))
    check_that_it_foots(found)
    assert found.ok
    assert found.items.empty
    assert lines_of(found)["adjusted_bank"]["closing"] == 200
    assert lines_of(found)["per_service"]["closing"] == 200


def test_one_of_two_alike_is_in_transit_and_not_said_which(tmp_path: Path) -> None:
    rows = paid([transfer("t1", 100), transfer("t2", 100)])
    found = bank.reconcile(rows, statement_of(tmp_path, "2026-01-01,100.00,1100.00"), "2026-01")
    check_that_it_foots(found)
    assert found.items["amount"].tolist() == [100]
    assert found.items["why"].tolist() == ["1 of 2 alike, and nothing tells which"]
    assert lines_of(found)["deposits_in_transit"]["closing"] == 100
    assert lines_of(found)["unrecorded"]["closing"] == 0
    assert not found.ok


def test_what_has_several_answers_is_counted_once(tmp_path: Path) -> None:
    """A line of 30 is one transfer of 30, or one of 10 and one of 20 of the same counterparty."""
    rows = paid([transfer("t", 30, name="acme"), transfer("u", 10, name="acme"),
                 transfer("v", 20, name="acme")])  # fmt: skip
    text = "date,amount,balance,memo\n2026-01-01,30,30,acme\n"
    (tmp_path / "january.csv").write_text(text)
    found = bank.reconcile(rows, bank.read(tmp_path / "january.csv"), "2026-01")
    check_that_it_foots(found)
    assert {*found.items["category"]} == {"undecided"}
    closing = {name: line["closing"] for name, line in lines_of(found).items()}
    assert closing["undecided"] == 30
    assert closing["deposits_in_transit"] == closing["unrecorded"] == 0
    assert closing["adjusted_bank"] == closing["adjusted_service"] == 60
    (line,) = found.items.loc[found.items["side"] == "bank", "item_id"]
    why = dict(zip(found.items["item_id"], found.items["why"], strict=True))
    assert why[line] == "several answers: t, u, v"
    assert not found.ok


def test_a_store_leads_from_the_ledger_to_what_passed_through_the_bank() -> None:
    store, files = fl.sample(), [*map(str, bank.statements.sample())]
    found = bank.reconcile(store, bank.read(*files), "2026-10")
    amounts = dict(zip(found.statement["line"], found.statement["amount"], strict=True))
    at = fl.balances.at(store.read("transfers", settled=True), "2026-10-31", basis="settled")
    parts = ["ledger", "in_other_assets", "service_fees", "beside_bank", "opened"]
    with exactly():
        assert amounts["ledger"] == sum(at.loc[at["asset"] == "USD", "balance"], D(0))
        assert sum((amounts[part] for part in parts), D(0)) == amounts["per_service"]
    # Wires of 1,419,295.38 USD came in that PYUSD, USDC, USDG and USDP were credited for.
    assert amounts["in_other_assets"] == D("1419295.38")
    for text in (found.text, found.card()._repr_html_()):
        assert "36,097,293.31" in text
        assert "  Deposits in transit (2)" in text  # set in below what it corrects
        assert "is of those that pass through the bank" in text
    # The ledger leads to it at the service's account alone, and where every transfer is known.
    with pytest.warns(OtherSideWarning):
        ours = bank.reconcile(store, bank.read(*files), "2026-10", side="ours")
    frame = bank.reconcile(store.read("transfers"), bank.read(*files), "2026-10")
    for other in (ours, frame):
        assert not {*parts} & {*other.statement["line"]}
    # What a balance of the user's own leaves over is not called an opening balance.
    given = bank.reconcile(store, bank.read(*files), "2026-10", balance="1.00")
    assert given.statement["line"].tolist().count("not_from_ledger") == 1
    assert "opened" not in set(given.statement["line"])


def test_a_ledger_that_a_row_cannot_be_counted_in_leads_nowhere() -> None:
    transfers = fl.sample().read("transfers", settled=True)
    for column in ("total", "direction"):
        broken = transfers.copy()
        (other,) = broken.index[broken["type"].str.startswith("INTERNAL")][:1]
        broken.loc[other, column] = None
        assert _from_ledger(transfers, "USD", date(2026, 10, 31), None, "derived")
        assert _from_ledger(broken, "USD", date(2026, 10, 31), None, "derived") == []


def test_the_ledger_is_that_at_the_close_of_the_day() -> None:
    close = pd.Timestamp("2026-02-01", tz="UTC")
    rows = pd.DataFrame(
        {
            "status": "COMPLETED", "direction": ["CREDIT", "DEBIT", "CREDIT", "CREDIT"],
            "asset": ["USD", "USD", "USD", "USDC"], "balance_asset": [None, None, None, "USD"],
            "type": ["WIRE_DEPOSIT", "WIRE_WITHDRAWAL", "WIRE_DEPOSIT", "CRYPTO_DEPOSIT"],
            "total": [D(100), D(33), D(7), D(9)], "amount": [D(100), D(30), D(7), D(10)],
            "settled_at": [close - pd.Timedelta(1, "ns")] * 2 + [close] + [close - pd.Timedelta(1)],
        }
    )  # fmt: skip
    lines = {
        basis: {row["line"]: row["amount"] for row in
                _from_ledger(rows, "USD", january(31), per_service, basis)}
        for basis, per_service in (("none", None), ("derived", D(75)), ("given", D(75)))
    }  # fmt: skip
    by_hand = {"ledger": 76, "in_other_assets": 0, "service_fees": 3, "beside_bank": -9}
    assert lines == {
        "none": by_hand,
        "derived": by_hand | {"opened": 5},
        "given": by_hand | {"not_from_ledger": 5},
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "carried='.*items.json': No such file or directory"),
        ("[", "carried='.*items.json' is not what 'fundlab bank --json' prints"),
        ("[]", "is not what 'fundlab bank --json' prints"),
        ("{}", "is not what 'fundlab bank --json' prints"),
        ('{"items": [{"amount": "x"}]}', "is not what 'fundlab bank --json' prints"),
        ('{"items": [{"amount": 5.5}]}', "is not what 'fundlab bank --json' prints"),
        (
            '{"items": [], "account": "77700010001", "asset": "USD"}',
            "is of account ••••0001, not of",
        ),
        ('{"items": [], "account": "12345678", "asset": "EUR"}', "is of asset EUR, not of USD"),
    ],
)
def test_items_that_cannot_be_carried_on_are_refused(
    tmp_path: Path, content: str | None, words: str
) -> None:
    path = tmp_path / "items.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(AnalysisError, match=words):
        _items_in(path, "12345678", "USD")


def test_an_amount_that_is_a_number_of_json_is_not_carried_on(tmp_path: Path) -> None:
    """A float would round it: 123456789012345.123456789 is 123456789012345.12 then."""
    found = bank.reconcile(paid([]), statement_of(tmp_path, "2026-01-01,100,100")).to_json()
    path = tmp_path / "items.json"
    path.write_text(json.dumps(found))
    assert _items_in(path, None, "USD")["amount"].tolist() == [100]
    for number in ("123456789012345.123456789", "100"):
        as_number = json.dumps(found).replace('"amount": "100"', f'"amount": {number}')
        assert number in as_number
        path.write_text(as_number)
        with pytest.raises(AnalysisError, match="is not what 'fundlab bank --json' prints"):
            _items_in(path, None, "USD")


def test_items_of_another_asset_are_not_carried_on(tmp_path: Path) -> None:
    entries = statement_of(tmp_path, "2026-01-01,100,100")
    found = bank.reconcile(paid([]), entries).items
    assert found["side"].tolist() == ["bank"]
    with pytest.raises(AnalysisError, match="carried has items in EUR, and USD is reconciled"):
        bank.reconcile(paid([]), entries, carried=found.assign(asset="EUR"))


PARTS = [
    # of a sum nothing is listed, a part, all
    ("03,9,USD,010,0,,,015,3000,,,100,3000,2,/", [], "30.00", "0.00"),
    ("03,9,USD,010,0,,,015,3000,,,100,3000,2,/", ["16,195,1000,,R1,,x"], "30.00", "10.00"),
    ("03,9,USD,010,0,,,015,1000,,,100,1000,1,/", ["16,195,1000,,R1,,x"], None, None),
]


@pytest.mark.parametrize(("account", "records", "declared", "listed"), PARTS)
def test_a_closing_balance_that_the_entries_do_not_come_to_is_not_explained(
    account: str, records: list[str], declared: str | None, listed: str | None,
    tmp_path: Path,
) -> None:  # fmt: skip
    sums = sum(int(one.split(",")[2]) for one in records)
    total = sum(int(one) for one in account.rstrip("/").split(",")[4::4] if one.isdigit()) + sums
    count = len(records) + 2
    path = tmp_path / "part.bai"
    path.write_text("\n".join([
        "01,S,R,260131,1200,1,,,2/", "02,R,S,1,260131,,USD,/", account, *records,
        f"49,{total},{count}/", f"98,{total},1,{count + 2}/", f"99,{total},1,{count + 4}/", "",
    ]))  # fmt: skip
    rows = paid([transfer("t1", 10, 30)] if records else [])
    found = bank.reconcile(rows, bank.read(path))
    assert found.ok == (declared is None)
    assert (found.declared is None) == (declared is None)
    said = (
        f"The bank declares {declared} on 2026-01-31, the entries that it lists come to {listed}."
    )
    assert (said in found.verdict) == (declared is not None)
    assert (found.to_json()["declared"] is None) == found.ok


def test_transfers_are_those_since_a_day_and_those_that_were_open() -> None:
    rows = pd.DataFrame({"id": [*"abcde"], "asset": ["USD"] * 4 + ["EUR"]})
    settled = {"a": january(1), "b": january(5), "c": january(6), "d": january(9), "e": january(9)}
    for old, done, found in (
        (set(), set(), ["c", "d"]), ({"a"}, set(), ["a", "c", "d"]), ({"a"}, {"a", "c"}, ["d"]),
        ({"e"}, set(), ["c", "d", "e"]),
    ):  # fmt: skip
        chosen = _between(rows, "USD", settled, january(6), old, done)
        assert chosen["id"].tolist() == found
    with pytest.raises(AnalysisError, match="carried: transfer x is not among the transfers"):
        _between(rows, "USD", settled, january(6), {"z", "x"}, set())


def test_entries_without_references_are_none_again() -> None:
    matching: Any = SimpleNamespace(
        members=pd.DataFrame({"item_id": ["a", "c"]}), open=pd.DataFrame({"item_id": ["b", "d"]})
    )
    entries = pd.DataFrame({"entry_id": [*"abcd"], "bank_ref": ["r", "r", None, None],
                            "amount": [5, 5, 5, 5], "memo": ["m"] * 4})  # fmt: skip
    assert _doubled(matching, entries) == {"b"}
    assert _doubled(matching, entries.drop(columns="memo")) == set()
    assert _doubled(matching, entries.assign(amount=[5, 6, 5, 5])) == set()


def test_what_the_bank_kept_back_is_listed_and_explained(tmp_path: Path) -> None:
    file = tmp_path / "charged.csv"
    file.write_text("date,amount,balance,charges,memo\n2026-01-06,97,1097,3,t\n", encoding="utf-8")
    found = bank.reconcile(paid([transfer("t", 100, 5)]), bank.read(file), "2026-01")
    check_that_it_foots(found)
    (item,) = found.items.to_dict("records")
    assert (item["category"], item["amount"], item["explained"]) == ("unrecorded", -3, True)
    assert item["why"].startswith("kept back by the bank")


def test_of_two_alike_only_the_one_booked_after_the_month_is_in_transit(tmp_path: Path) -> None:
    rows = paid([transfer("a", 100, 29), transfer("b", 100, 30)])
    lines = read_csv(tmp_path, "2026-01-31,100,1100,r1,x", "2026-02-02,100,1200,r2,x")
    found = bank.reconcile(rows, lines, "2026-01")
    check_that_it_foots(found)
    (item,) = found.items.to_dict("records")
    assert (item["category"], item["amount"], item["cleared_on"]) == (
        "deposits_in_transit", 100, date(2026, 2, 2)
    )  # fmt: skip
