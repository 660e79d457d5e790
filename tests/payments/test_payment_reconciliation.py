"""The journal against what a ledger that is not ours has: each thing that may differ is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from other_ledger import ACCOUNT, PROFILE, Fault, Ledger, ago
from paying import Machine, World

import fundlab as fl
from fundlab.payments.journal_files import journal_entries
from fundlab.payments.reconciliation import Difference, Reconciliation, reconcile, reconciled

HOUR = 3600 * 10**9
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def machine(world: World, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Its user has paid once, for a fee of 25, so that the next card shows one; and is the user of
    the command line."""
    found = world.machine(world.ledger("plain"))
    for name, value in found.keywords.items():
        monkeypatch.setenv(f"FUNDLAB_{name.upper()}", str(value))
    assert found.pay("plan", ref_id="first").transfer_id is not None
    return found


def synced(machine: Machine) -> fl.Store:
    store = fl.Store(machine.folder / "store")
    with machine.client() as client:
        store.sync(client, tables=["transfers"], progress=False)
    return store


def test_what_agrees_is_no_difference(machine: Machine, fundlab: Command) -> None:
    for number, way in enumerate(("plan", "batch", "command")):
        assert machine.pay(way, ref_id=way, amount=f"{number + 1}.00").transfer_id is not None
    store = synced(machine)
    found = reconciled(store, journal_entries(store))
    assert (found.entries, found.differences, found.others) == (4, (), ())
    code, out, _ = fundlab("status", "--offline", "--expect", "sync")
    assert code == 0, out


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("by", "fee", "said"),
    [
        ({"amount": "200.00"}, 2500, "fee 2,500.00 USD, the card showed 25.00"),
        ({"total": "500.00"}, 499, "amount 1.00 USD, the card showed 475.00"),
    ],
)
def test_another_fee_than_the_card_showed_is_a_line_of_status_and_sync(
    machine: Machine, fundlab: Command, by: dict[str, str], fee: int, said: str
) -> None:
    machine.ledger.fee = Decimal(fee)
    with machine.client() as client:
        plan = fl.plan_withdrawal(
            client, profile_id=PROFILE, fiat_account_id=ACCOUNT, ref_id="dear", **by,
            say=machine.said.append,
        )  # fmt: skip
        with pytest.warns(fl.errors.CardWarning, match=said):
            made = plan.submit(confirm=plan.code)
    assert any(said in line for line in machine.said)
    (row,) = machine.journal().query("ref_id == 'dear'").to_dict("records")
    assert row["state"] == "done"
    assert said in row["detail"]
    store = synced(machine)
    code, out, _ = fundlab("sync", "transfers", "--json")
    (difference,) = json.loads(out)["payment_differences"]
    assert (code, difference["kind"], difference["transfer_id"]) == (3, "card", made.id)
    code, out, _ = fundlab("status", "--offline", "--expect", "sync")
    assert code == 3
    line = out.partition("\n")[0]
    assert said in line
    assert line.endswith("; run 'fundlab accept-payment dear' once you know why")
    (row,) = (
        fl.journal(store, folder=machine.journal_folder)
        .query("ref_id == 'dear'")
        .to_dict("records")
    )
    assert said in row["difference"]
    report = fl.report(store)
    (shown,) = report.withdrawals.query("ref_id == 'dear'")["difference"]
    assert said in shown


@pytest.mark.seconds
def test_a_difference_that_somebody_accepted_is_counted_and_holds_nothing_back(
    machine: Machine, fundlab: Command
) -> None:
    machine.ledger.fee = Decimal(2500)
    with pytest.warns(fl.errors.CardWarning):
        made = machine.pay("plan", ref_id="dear", amount="200.00")
    why = ("--by", "ann", "--reason", "a rush fee")
    store, look = synced(machine), ("status", "--offline", "--expect", "sync")
    assert [fundlab("sync", "transfers")[0], fundlab(*look)[0]] == [3, 3]
    report = fl.report(store)
    assert (report.payments_differ, report.is_alarming) == (True, True)
    said = "1 payment difference between journal and service ('fundlab journal' shows each)."
    assert said in report.text
    assert said in fl.reports.catch_up(store, machine.folder / "out").text
    code, _, err = fundlab("accept-payment", "cheap", *why)
    assert (code, "['cheap'] are not payments that differ" in err) == (1, True)
    code, _, err = fundlab("accept-payment", "--by", " ", "--reason", "none")
    assert (code, "by=' ': give a text" in err) == (1, True)

    code, out, _ = fundlab("accept-payment", str(made.transfer_id), *why)
    assert (code, out.partition("\n")[0]) == (0, "1 difference accepted")
    code, out, _ = fundlab("sync", "transfers", "--json")
    found = json.loads(out)
    (accepted,) = found["accepted_differences"]
    assert (code, found["payment_differences"], accepted["ref_id"]) == (0, [], "dear")
    assert accepted["accepted"].startswith("accepted by ann on 20")
    code, out, _ = fundlab(*look)
    assert (code, "1 payment difference accepted" in out) == (0, True)
    report = fl.report(store)
    assert (report.payments_differ, report.payments_line) == (
        False, "1 payment difference accepted.",
    )  # fmt: skip
    (shown,) = report.withdrawals.query("ref_id == 'dear'")["difference"]
    assert shown.endswith("because: a rush fee)")
    assert store.accept_payments(by="ann", reason="none is left") == []

    # otherwise it differs anew
    next(row for row in machine.ledger.transfers if row["id"] == made.transfer_id)["fee"] = "2501"
    assert fundlab("sync", "transfers", "--full")[0] == 3


def test_the_journal_and_what_is_open_of_it_by_the_command_line(
    machine: Machine, fundlab: Command
) -> None:
    code, out, _ = fundlab("resume")
    assert code == 0
    heads, row = out.splitlines()[:2]
    assert heads.split()[:6] == ["confirmed_at", "state", "status", "action", "amount", "asset"]
    assert row.split()[2:7] == ["done", "PENDING", "withdrawal", "100.00", "USD"]
    first = Fault(answer_at=0.0, how="rst", effect=False, late=True)
    machine.ledger.faults = [first, *[replace(first, late=False)] * 5]
    assert machine.pay("plan", ref_id="lost", amount="7.00").transfer_id is None
    code, out, _ = fundlab("journal", "--json")
    rows = {row["ref_id"]: row for row in json.loads(out)["rows"]}
    assert (code, {ref_id: row["state"] for ref_id, row in rows.items()}) == (
        0, {"first": "done", "lost": "unknown"},
    )  # fmt: skip
    assert rows["first"]["amount"] == "100"
    machine.ledger.hides = frozenset(["amount"])
    machine.ledger.deliver()
    code, out, err = fundlab("resume")
    assert (code, "not settled, withdrawal lost" in err) == (3, True)
    machine.ledger.calm()
    code, out, _ = fundlab("resume", "--json")
    assert (code, [row["state"] for row in json.loads(out)["rows"]]) == (0, ["done", "done"])
    code, out, _ = fundlab("journal")
    assert "  done   PENDING  withdrawal  100.00  USD    Supplier Ltd, First Harbor Bank" in out

    # nobody asked again, and the store has seen how it ended
    machine.ledger.transfers[0] |= {"status": "COMPLETED"}
    assert fundlab("sync", "transfers", "--full")[0] == 0
    code, out, _ = fundlab("journal")
    assert [line.split()[3] for line in out.splitlines()[1:] if "withdrawal" in line] == [
        "COMPLETED", "PENDING",
    ]  # fmt: skip


def test_a_journal_asked_for_with_another_store_does_not_say_that_nothing_was_paid(
    machine: Machine, fundlab: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistyped, other = machine.folder / "mistyped", machine.folder / "other"
    code, out, err = fundlab("journal", "--store", mistyped)
    assert (code, out) == (1, "")
    assert err.startswith(f"fundlab: there is no store at {mistyped}; check the path")
    code, out, err = fundlab("journal", "--store", "memory://mistyped")
    assert (code, out) == (1, "")
    assert "there is no store at memory://mistyped" in err
    with fl.Store(other).lock():
        pass  # as a sync begins: it is there
    assert fundlab("journal", "--store", other)[:2] == (
        0,
        f"nothing was confirmed with {other}; 'fundlab journal' without --store shows what was "
        "with others: 1 row\n",
    )
    code, out, _ = fundlab("journal", "--store", other, "--json")
    assert (code, json.loads(out)["rows"]) == (0, [])
    code, out, _ = fundlab("journal", "--store", machine.folder / "store")  # never synced, and paid
    assert (code, len(out.splitlines())) == (0, 2)
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(machine.folder / "none"))
    assert fundlab("journal", "--store", other)[:2] == (0, "nothing was ever confirmed here\n")
    assert fundlab("journal")[:2] == (0, "nothing was ever confirmed here\n")


def test_a_command_and_a_batch_say_it_at_once(machine: Machine, fundlab: Command) -> None:
    machine.ledger.fee = Decimal(2500)
    asked = ("--profile", PROFILE, "--fiat-account", ACCOUNT, "--amount", "7.00", "--yes", "--json")
    code, out, err = fundlab("withdraw", *asked, "--ref-id", "dear")
    assert (code, err.count("is not as its card showed it")) == (3, 1)
    assert json.loads(out)["differences"] == [
        "fee 2,500.00 USD, the card showed 25.00",
        "total 2,507.00 USD, the card showed 32.00",
    ]
    code, again, _ = fundlab("withdraw", *asked, "--ref-id", "dear")  # its new card would agree
    assert (code, json.loads(again)["differences"]) == (3, json.loads(out)["differences"])
    code, text, _ = fundlab("withdraw", *asked[:-1], "--ref-id", "dear")
    assert (code, "fee 2,500.00 USD, the card showed 25.00" in text) == (3, True)
    machine.ledger.fee = Decimal(25)  # the card shows the last: 2,500
    row = pd.DataFrame([{"profile_id": PROFILE, "fiat_account_id": ACCOUNT, "amount": "8.00"}])
    with machine.client() as client:
        batch = fl.plan_withdrawals(client, row, say=machine.said.append)
        with pytest.warns(fl.errors.CardWarning):
            (result,) = batch.submit(confirm=batch.code, progress=False).to_dict("records")
    assert result["state"] == "done"
    assert "fee 25.00 USD, the card showed 2,500.00" in result["detail"]


def test_a_fee_that_rose_since_the_plan_is_named_with_separators(machine: Machine) -> None:
    with machine.client() as client:
        plan = fl.plan_withdrawal(
            client, profile_id=PROFILE, fiat_account_id=ACCOUNT, amount="7.00", ref_id="next",
            say=machine.said.append,
        )  # fmt: skip
        machine.ledger.add(
            ref_id="theirs", fiat_account_id=ACCOUNT, amount="3.00", fee="2500", status="COMPLETED",
            created_at=ago(hours=0),
        )  # fmt: skip
        refusal = r"has changed since the plan, from 25\.00 to 2,500\.00 USD; nothing was sent"
        with pytest.raises(fl.errors.ActionRefused, match=refusal):
            plan.submit(confirm=plan.code)


def changed(rows: pd.DataFrame, ref_id: str, **members: Any) -> pd.DataFrame:
    changed = rows.copy()
    for name, value in members.items():
        changed[name] = changed[name].astype(object)
        changed.loc[changed["ref_id"] == ref_id, name] = value
    return changed


OTHERWISE: dict[str, tuple[str, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "it is not there": ("missing", lambda rows: rows[rows["ref_id"] != "b"]),
    "it is there twice": ("several", lambda rows: pd.concat([rows, changed(rows, "b", id="t-2")[
        rows["ref_id"] == "b"]])),
    "another amount": ("card", lambda rows: changed(rows, "b", amount=Decimal("99.99"))),
    "another fee": ("card", lambda rows: changed(rows, "b", fee=Decimal("25.01"))),
    "another total": ("card", lambda rows: changed(rows, "b", total=Decimal("125.01"))),
    "another account": ("card", lambda rows: changed(rows, "b", fiat_account_id="other")),
    "another profile": ("card", lambda rows: changed(rows, "b", profile_id="other")),
    "another asset": ("card", lambda rows: changed(rows, "b", asset="USDC")),
    "a credit": ("card", lambda rows: changed(rows, "b", direction="CREDIT")),
    "a deposit": ("card", lambda rows: changed(rows, "b", type="WIRE_DEPOSIT")),
    "an internal one": ("card", lambda rows: changed(rows, "b", type="INTERNAL_TRANSFER_DEBIT")),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERWISE)
def test_whatever_differs_is_named_alone(machine: Machine, what: str) -> None:
    for ref_id in "abc":
        machine.pay("plan", ref_id=ref_id, metadata={"n": ref_id}, allow_duplicate=True)
    store = synced(machine)
    rows, entries = store.read("transfers"), journal_entries(store)
    until = max(entry.noted_at for entry in entries) + HOUR
    assert reconcile(entries, rows, complete_until=until).differences == ()
    kind, change = OTHERWISE[what]
    (found,) = reconcile(entries, change(rows), complete_until=until).differences
    assert (found.kind, found.ref_id) == (kind, "b")
    assert "b" in found.text


def test_ids_in_another_case_and_members_not_shown_are_no_difference(machine: Machine) -> None:
    store = synced(machine)
    rows, entries = store.read("transfers"), journal_entries(store)
    until = max(entry.noted_at for entry in entries) + HOUR
    for members in (
        {"id": rows["id"].str.upper().iloc[0], "fiat_account_id": ACCOUNT.upper()},
        {"fiat_account_id": None},
        {"status": "FAILED"},
    ):
        there = changed(rows, "first", **members)
        assert reconcile(entries, there, complete_until=until).differences == ()


def test_a_transfer_is_missing_only_of_what_was_fetched_long_enough_after_it(
    machine: Machine,
) -> None:
    store = synced(machine)
    entries = journal_entries(store)
    (entry,) = entries
    none = store.read("transfers").iloc[:0]
    for minutes, wanted in ((0, 0), (15, 0), (16, 1)):
        until = entry.noted_at + minutes * HOUR // 60
        assert len(reconcile(entries, none, complete_until=until).differences) == wanted


@pytest.mark.parametrize("spelt", [str.lower, str.upper, str.title])
def test_a_payment_is_found_whatever_the_services_clock_says(
    machine: Machine, fundlab: Command, spelt: Callable[[str], str]
) -> None:
    for number, row in enumerate(machine.ledger.transfers):
        row |= {"id": spelt(row["id"]), "created_at": ago(hours=1000 + number)}
    theirs = machine.ledger.add(ref_id="theirs", amount="40.00", created_at=ago(hours=999))
    store = synced(machine)
    (entry,) = journal_entries(store)
    later = replace(entry, noted_at=entry.noted_at - HOUR)
    found = reconciled(store, [later])
    assert (found.differences, [one.transfer_id for one in found.others]) == ((), [theirs["id"]])
    wrong = replace(later, state="refused", resource_id=None)
    (moved,) = reconciled(store, [wrong]).differences
    assert moved.kind == "moved"
    (missing,) = reconciled(store, [replace(later, resource_id="t-0", ref_id="0")]).differences
    assert missing.kind == "missing"


@pytest.mark.parametrize("state", ["refused", "absent"])
def test_what_moved_is_named_where_the_journal_says_that_it_did_not(
    machine: Machine, state: str
) -> None:
    store = synced(machine)
    rows, (entry,) = store.read("transfers"), journal_entries(store)
    wrong = replace(entry, state=state, resource_id=None)  # type: ignore[arg-type]
    (found,) = reconcile([wrong], rows, complete_until=entry.noted_at).differences
    assert (found.kind, found.transfer_id) == ("moved", entry.resource_id)
    failed = changed(rows, "first", status="FAILED")
    assert reconcile([wrong], failed, complete_until=entry.noted_at).differences == ()


def test_what_somebody_else_made_under_the_ref_id_is_another_debit(machine: Machine) -> None:
    """It is not this payment: nothing of the journal is wrong, and fl.resume() could not help."""
    theirs = machine.ledger.add(
        ref_id="FIRST", amount="77.00", fiat_account_id=ACCOUNT, total="77.00"
    )
    store = synced(machine)
    rows, (entry,) = store.read("transfers"), journal_entries(store)
    refused = replace(entry, state="refused", resource_id=None)
    for kept in (entry, refused):
        of = rows if kept is entry else rows[rows["id"] == theirs["id"]]
        found = reconcile([kept], of, complete_until=entry.noted_at)
        assert (found.differences, [one.transfer_id for one in found.others]) == (
            (),
            [theirs["id"]],
        )
    same = changed(rows, "FIRST", amount=Decimal("100.00"))
    (several,) = reconcile([entry], same, complete_until=entry.noted_at).differences
    (moved,) = reconcile([refused], same[1:], complete_until=entry.noted_at).differences
    assert (several.kind, moved.kind) == ("several", "moved")


def test_one_transfer_stands_for_one_payment(machine: Machine) -> None:
    store = synced(machine)
    rows, (entry,) = store.read("transfers"), journal_entries(store)
    many = [entry, replace(entry, number=2, ref_id="2nd"), replace(entry, number=3, ref_id="3rd")]
    for count in (2, 3):
        (found,) = reconcile(many[:count], rows, complete_until=entry.noted_at).differences
        assert (found.kind, found.ref_id) == ("shared", many[count - 1].ref_id)


@pytest.mark.parametrize(
    ("differences", "accepted", "said"),
    [
        (0, 0, ""),
        (0, 2, "2 payment differences accepted."),
        (1, 0, "1 payment difference between journal and service ('fundlab journal' shows each)."),
        (2, 1, "2 payment differences between journal and service ('fundlab journal' shows each), "
               "1 more accepted."),
    ],
)  # fmt: skip
def test_the_headline_counts_what_differs_and_what_was_accepted(
    differences: int, accepted: int, said: str
) -> None:
    (one,) = [Difference("card", "b", "t-1", "its fee")]
    found = Reconciliation(3, (one,) * differences, (), (one,) * accepted)
    assert found.headline == said
    assert str(replace(one, accepted="by ann")) == "its fee (by ann)"


def test_three_debits_of_others_are_named_and_more_are_counted() -> None:
    debits = tuple(Difference("other", None, f"t-{n}", f"debit {n}") for n in range(5))
    for number, more in ((3, ""), (4, "\nand 1 more debit like that")):
        found = Reconciliation(0, (), debits[:number])
        assert str(found) == f"debit 0\ndebit 1\ndebit 2{more}"


@pytest.mark.parametrize("only_own", [False, True])
def test_debits_of_others_are_information_unless_there_may_be_none(
    machine: Machine, fundlab: Command, monkeypatch: pytest.MonkeyPatch, only_own: bool
) -> None:
    monkeypatch.setenv("FUNDLAB_ONLY_OWN_PAYMENTS", str(only_own))
    ledger: Ledger = machine.ledger
    theirs = ledger.add(ref_id="theirs", amount="40.00", fee="25")
    ledger.add(ref_id="failed", status="FAILED")
    ledger.add(type="WIRE_DEPOSIT", direction="CREDIT", status="COMPLETED")
    code, out, _ = fundlab("sync", "transfers", "--json")
    found = json.loads(out)
    lists = {True: "payment_differences", False: "other_debits"}
    assert [one["transfer_id"] for one in found[lists[only_own]]] == [theirs["id"]]
    assert found[lists[not only_own]] == []
    assert code == (3 if only_own else 0)
    code, out, _ = fundlab("status", "--offline", "--expect", "sync")
    assert code == (3 if only_own else 0)
    said = f"WIRE_WITHDRAWAL {theirs['id']} of 65.00 USD" if only_own else "1 debit that no journal"
    assert said in out


def test_a_sync_names_a_journal_that_is_not_intact(machine: Machine, fundlab: Command) -> None:
    assert fundlab("sync", "transfers")[0] == 0
    (path,) = machine.journal_folder.glob("*.sqlite")
    path.write_bytes(path.read_bytes()[:-100])
    code, out, _ = fundlab("sync", "transfers", "--json")
    assert (code, json.loads(out)["damaged_journals"]) == (
        3, [f"{path} is not intact; see fundlab verify"],
    )  # fmt: skip
