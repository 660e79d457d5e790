"""On the very bound: what a change of one character in the program would move."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from other_ledger import ACCOUNT, PROFILE, Fault, Ledger, Request, account
from paying import WAYS, Machine, World

import fundlab as fl
from fundlab.base.errors import ActionRefused, CallError, ProtocolError
from fundlab.client.identity import Identity
from fundlab.payments.journal import Journal, identity_of
from fundlab.payments.outcome import Seen, state_after

Command = Any


@pytest.fixture
def ledger(world: World) -> Ledger:
    return world.ledger("plain")


@pytest.fixture
def machine(world: World, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Its user is that of the command line, too."""
    found = world.machine(ledger)
    for name, value in found.keywords.items():
        monkeypatch.setenv(f"FUNDLAB_{name.upper()}", str(value))
    return found


@pytest.fixture
def client(machine: Machine) -> Iterator[fl.Client]:
    with machine.client() as found:
        yield found


def planned(client: fl.Client, machine: Machine, **more: Any) -> Any:
    asked = {"profile_id": PROFILE, "fiat_account_id": ACCOUNT, "amount": "1.00"} | more
    return fl.plan_withdrawal(client, **asked, say=machine.said.append)


# ------------------------------------------------------------------------------ the code


@pytest.mark.parametrize("cut", ["", " ", "-", "first", "last", "half", "twice"])
def test_an_empty_or_cut_code_confirms_nothing(
    client: fl.Client, machine: Machine, ledger: Ledger, cut: str
) -> None:
    plan = planned(client, machine)
    code = plan.code
    given = {"first": code[0], "last": code[1:], "half": code[:4], "twice": code * 2}.get(cut, cut)
    with pytest.raises(ActionRefused, match="is not the code of this plan"):
        plan.submit(confirm=given)
    assert not any(request.is_payment for request in ledger.log)


@pytest.mark.parametrize("member", ["identity_id", "account_id"])
def test_the_code_is_of_the_end_user_of_the_account(
    client: fl.Client, machine: Machine, ledger: Ledger, member: str
) -> None:
    """Whose account it is stands in its code; one that says nothing of it has another."""
    codes = set()
    for value in ("first", "second", None):
        end_user = {"identity_id": "i", "account_id": "a"} | {member: value}
        shown = {name: text for name, text in end_user.items() if text}
        ledger.accounts[ACCOUNT] = account(ACCOUNT, **shown)
        codes.add(planned(client, machine, ref_id="one").code)
    assert len(codes) == 3


def test_an_account_of_another_end_user_is_told_by_what_changed(
    client: fl.Client, machine: Machine, ledger: Ledger
) -> None:
    """The owner, the bank and the number are shown alike before and after."""
    ledger.accounts[ACCOUNT] = account(ACCOUNT, identity_id="i", account_id="first")
    plan = planned(client, machine)
    ledger.accounts[ACCOUNT] = account(ACCOUNT, identity_id="i", account_id="second")
    with pytest.raises(ActionRefused, match="plan: account_id is another than it was;") as caught:
        plan.submit(confirm=plan.code)
    assert "it was" not in str(caught.value).replace("than it was", "")
    assert ledger.payments() == []


# ------------------------------------------------------------------ unknown before absent


@pytest.mark.parametrize("failed", [False, True])
def test_absent_is_said_only_where_the_service_was_asked_and_shows_nothing(failed: bool) -> None:
    """What could not be asked for, or not be told, is unknown: before it is taken for absent."""
    unclear = Seen(object(), Identity((), ("amount",)))
    for seen in [unclear, *[Seen(failed=True)] * failed]:
        assert state_after("asked", seen, only_attempt=True) == "unknown"
        assert state_after("doubt", seen, only_attempt=True) == "unknown"
    assert state_after("asked", Seen(), only_attempt=True) == "absent"
    assert state_after("unsent", Seen(), only_attempt=True) == "absent"
    assert state_after("unsent", Seen(), only_attempt=False) == "unknown"


def test_what_contradicts_is_no_even_where_something_is_not_shown() -> None:
    assert Identity(("amount 1 is 2",), ("asset",)).answer == "no"
    assert Identity((), ("asset",)).answer == "unknown"
    assert Identity((), ()).answer == "yes"


# ------------------------------------------------------------- the hour before a backup


def test_a_restored_journal_asks_from_the_hour_before_its_backup_on(
    client: fl.Client, machine: Machine, ledger: Ledger
) -> None:
    """A debit exactly an hour before it is shown, one a second earlier is not; credits never."""
    assert machine.pay("plan", ref_id="known").transfer_id is not None
    (path,) = machine.journal_folder.glob("*.sqlite")
    backup = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=5)

    def at(seconds: int) -> str:
        return (backup + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")

    rows = {
        name: ledger.add(created_at=at(seconds), direction=direction)
        for name, seconds, direction in [
            ("on the bound", -3600, "DEBIT"), ("before it", -3601, "DEBIT"),
            ("in it", -1800, "DEBIT"), ("after the backup", 1, "DEBIT"), ("credit", 1, "CREDIT"),
        ]
    }  # fmt: skip
    Journal(path).mark_restored(at(0))
    shown: list[str] = []
    fl.resume(client, say=shown.append)
    lines = [line for line in shown if line.startswith("not in the restored journal")]
    named = {name for name, row in rows.items() if any(row["id"] in line for line in lines)}
    assert named == {"on the bound", "in it", "after the backup"}
    assert len(lines) == 3  # and not what the journal knows
    assert Journal(path).restored_from() is None


# ------------------------------------------------------------------- filters on the bound


@pytest.mark.filterwarnings("ignore:.*the service ignored")
@pytest.mark.parametrize("member", ["created_at", "updated_at"])
def test_a_row_exactly_on_the_bound_of_lte_is_in_it(
    client: fl.Client, ledger: Ledger, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the nanosecond, where the service ignores the filter and the client looks."""
    times = {
        "below": "2026-03-01T00:00:00.123456788Z",
        "on": "2026-03-01T00:00:00.123456789Z",
        "above": "2026-03-01T00:00:00.123456790Z",
    }
    for name, time in times.items():
        ledger.add(id=name, created_at=time, updated_at=time)
    listed = ledger.listed
    monkeypatch.setattr(
        ledger, "listed", lambda query: listed([pair for pair in query if "." not in pair[0]])
    )
    rows: Any = client.list_transfers
    found = {
        comparison: sorted(row.id for row in rows(**{f"{member}_{comparison}": times["on"]}))
        for comparison in ("lt", "lte", "eq", "gte", "gt")
    }
    assert found == {
        "lt": ["below"], "lte": ["below", "on"], "eq": ["on"], "gte": ["above", "on"],
        "gt": ["above"],
    }  # fmt: skip


# ------------------------------------------------------------- the command, and what it says


PAY = ("withdraw", "--profile", PROFILE, "--fiat-account", ACCOUNT)


@pytest.mark.filterwarnings("ignore::fundlab.base.errors.UnknownValueWarning")
@pytest.mark.parametrize("hidden", ["never", "always", "since the plan"])
def test_what_could_not_be_checked_ends_with_3(
    machine: Machine, ledger: Ledger, fundlab: Command, hidden: str
) -> None:
    """Another payment of today may be the same: the service does not show whom it paid, or shows
    it while it is planned, and not when it is sent."""
    ledger.add(amount="2.00", fee="25", ref_id="theirs",
               fiat_account_id=None if hidden == "always" else "other")  # fmt: skip
    lists = itertools.count()

    def before(request: Request) -> None:
        is_list = request.target.startswith("/v2/transfer/transfers?")
        if is_list and next(lists) == 1 and hidden == "since the plan":
            del ledger.transfers[0]["fiat_account_id"]

    ledger.before = before
    code, out, err = fundlab(*PAY, "--amount", "2.00", "--yes", "--json")
    answer = json.loads(out)
    assert answer["transfer"]["id"] == ledger.transfers[-1]["id"]
    assert next(lists) == 2
    assert len(answer["plan"]["unchecked"]) == (hidden != "never")
    assert ("whether transfer" in err) == (hidden != "never")
    assert code == (0 if hidden == "never" else 3)


@pytest.mark.filterwarnings("ignore::fundlab.base.errors.UnknownValueWarning")
def test_what_could_not_be_checked_as_it_was_sent_stands_on_the_card(
    client: fl.Client, machine: Machine, ledger: Ledger
) -> None:
    theirs = ledger.add(amount="1.00", fee="25", ref_id="theirs", fiat_account_id="other")
    plan = planned(client, machine)
    assert "Not checked" not in repr(plan)
    del theirs["fiat_account_id"]
    plan.submit(confirm=plan.code)
    assert f"Not checked: whether transfer {theirs['id']}" in repr(plan)


@pytest.mark.filterwarnings("ignore::fundlab.base.errors.UnknownValueWarning")
def test_a_row_whose_ref_id_may_be_its_payment_is_unknown_not_refused(
    client: fl.Client, machine: Machine, ledger: Ledger
) -> None:
    """The service does not show to which account what another machine made went."""
    payment = {"profile_id": PROFILE, "fiat_account_id": ACCOUNT, "amount": "1.00"}
    batch = fl.plan_withdrawals(
        client, pd.DataFrame([payment | {"ref_id": "shared"}]), say=machine.said.append
    )
    theirs = ledger.add(amount="1.00", fee="25", ref_id="shared", fiat_account_id=ACCOUNT)
    del theirs["fiat_account_id"]
    row = batch.submit(confirm=batch.code, progress=False).iloc[0]
    assert (row["state"], len(ledger.payments())) == ("unknown", 1)
    assert "cannot be told; nothing was sent now" in row["detail"]


@pytest.mark.parametrize("position", range(6))
def test_a_page_in_place_of_a_look_refuses_no_payment_of_a_batch(
    client: fl.Client, machine: Machine, ledger: Ledger, position: int
) -> None:
    """Whichever read of the submission is answered by something else than the service."""
    payment = {"profile_id": PROFILE, "fiat_account_id": ACCOUNT, "amount": "1.00"}
    batch = fl.plan_withdrawals(client, pd.DataFrame([payment]), say=machine.said.append)
    ledger.read_faults = {ledger.reads + position: Fault(status=409, effect=False)}
    try:
        states = batch.submit(confirm=batch.code, progress=False)["state"].tolist()
    except fl.errors.Conflict:
        states = []
    outcome = (states, len(ledger.payments()))
    assert outcome in (([], 0), (["absent"], 0), (["done"], 1))
    ledger.calm()
    assert batch.submit(confirm=batch.code, progress=False)["state"].tolist() == ["done"]
    assert len(ledger.payments()) == 1


BUSY = {"message": "service busy", "items_available": False}
NO_PAGE = "not a page: it has no array 'items'"


@pytest.mark.parametrize("way", ["plan", "batch", "command"])
@pytest.mark.parametrize("page", [1, 2])
def test_a_list_that_is_no_page_hides_no_duplicate(
    world: World, machine: Machine, ledger: Ledger, way: str, page: int
) -> None:
    """Another machine has paid the same; this one's list is answered with 200 by who knows what."""
    assert machine.pay("plan", ref_id="theirs").transfer_id is not None
    another = world.machine(ledger)
    first = BUSY if page == 1 else {"items": [], "next_page_cursor": "x"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            ledger, "listed", lambda query: BUSY if "page_cursor" in dict(query) else first
        )
        attempt = another.pay(way, ref_id="ours")
    assert NO_PAGE in attempt.text
    assert (attempt.sent, len(ledger.payments())) == ([], 1)
    assert "was submitted" in another.pay(way, ref_id="ours").text
    assert len(ledger.payments()) == 1


def test_a_list_that_is_no_page_settles_no_outcome(
    client: fl.Client, machine: Machine, ledger: Ledger
) -> None:
    """Neither that of a payment, which is asked for by its ref_id, nor what a restored journal
    lacks."""
    plan = planned(client, machine, ref_id="ours")
    code, listed = plan.code, ledger.listed
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ledger, "faults", [Fault(status=502)] * 20)
        patched.setattr(
            ledger, "listed", lambda query: BUSY if ledger.payments() else listed(query)
        )
        with pytest.raises(CallError) as caught:
            plan.submit(confirm=code)
        assert NO_PAGE in "\n".join(caught.value.__notes__)
        assert machine.states("ours") == ["unknown"]
        with pytest.raises(ProtocolError, match=NO_PAGE):
            fl.resume(client, say=machine.said.append)
        assert machine.states("ours") == ["unknown"]
    fl.resume(client, say=machine.said.append)
    assert (machine.states("ours"), len(ledger.payments())) == (["done"], 1)

    (path,) = machine.journal_folder.glob("*.sqlite")
    Journal(path).mark_restored("2026-01-01T00:00:00Z")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ledger, "listed", lambda query: BUSY)
        with pytest.raises(ProtocolError, match=NO_PAGE):
            fl.resume(client, say=machine.said.append)
    assert Journal(path).restored_from() == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "other", [{"direction": "CREDIT"}, {"type": "WIRE_DEPOSIT"}, {"amount": "2.00"}]
)
def test_an_answer_about_another_transfer_leaves_the_payment_in_doubt(
    machine: Machine, ledger: Ledger, way: str, other: dict[str, str]
) -> None:
    """It was sent, and no list shows it yet: never "not sent", and the next run finds it."""
    withdraw = ledger.withdraw
    ledger.lag()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            ledger, "withdraw",
            lambda request, wanted: (200, withdraw(request, wanted)[1] | other),
        )  # fmt: skip
        attempt = machine.pay(way, ref_id="ours")
    assert (attempt.transfer_id, len(ledger.payments())) == (None, 1)
    assert "the answer is about something else: " in attempt.text
    assert not attempt.says_unsent
    if way != "raw":  # the bare operation keeps no journal
        assert machine.states("ours") == ["unknown"]
    ledger.calm()
    assert machine.pay(way, ref_id="ours").transfer_id == ledger.payments()[0]["id"]
    assert len(ledger.payments()) == 1


def test_a_row_that_is_done_names_its_transfer_though_it_cannot_be_shown_again(
    client: fl.Client, machine: Machine, ledger: Ledger
) -> None:
    payment = {"profile_id": PROFILE, "fiat_account_id": ACCOUNT, "amount": "1.00"}
    batches = [
        fl.plan_withdrawals(client, pd.DataFrame([payment]), say=machine.said.append)
        for _ in range(2)
    ]
    first = batches[0].submit(confirm=batches[0].code, progress=False).iloc[0]
    ledger.transfers.clear()
    again = batches[1].submit(confirm=batches[1].code, progress=False).iloc[0]
    names = ["ref_id", "state", "status", "transfer_id", "fee", "total"]
    assert again[names].to_dict() == first[names].to_dict()
    assert first["state"] == "done"
    assert "does not know it" in again["detail"]


def test_a_total_a_memo_and_metadata_are_sent_as_they_were_given(
    machine: Machine, ledger: Ledger, fundlab: Command
) -> None:
    code, _, err = fundlab(
        *PAY, "--total", "40.00", "--memo", "Invoice 7", "--metadata", "order=7", "--metadata",
        "note=a=b", "--yes", "--json",
    )  # fmt: skip
    assert code == 0, err
    (request,) = [request for request in ledger.log if request.is_payment]
    sent = json.loads(request.body)
    assert (sent["total"], sent["memo"]) == ("40.00", "Invoice 7")
    assert sent["metadata"] == {"order": "7", "note": "a=b"}
    assert "amount" not in sent
    (made,) = ledger.payments()
    assert (made["amount"], made["total"]) == ("15.00", "40.00")


@pytest.mark.parametrize(
    "wrong",
    [
        (), ("--amount", "1.00", "--total", "1.00"), ("--total", "1,00"),
        ("--amount", "1.00", "--metadata", "order"), ("--amount", "1.00", "--metadata", "=7"),
    ],
)  # fmt: skip
def test_an_amount_beside_a_total_or_metadata_without_a_key_is_wrong_usage(
    machine: Machine, ledger: Ledger, fundlab: Command, wrong: tuple[str, ...]
) -> None:
    code, _, _ = fundlab(*PAY, *wrong, "--yes")
    assert (code, ledger.log) == (2, [])


def test_a_refusal_has_no_control_and_no_direction_of_its_own(
    client: fl.Client, machine: Machine, ledger: Ledger
) -> None:
    """The owner's name comes from the service: ESC would paint the terminal, bidi turn digits."""
    shown = account(ACCOUNT, status="REJECTED")
    odd = "Ann\x1b[2J\x07 \u202e\u2066evil\u2069\u200f Ltd\n\r"
    shown["fiat_account_owner"] = {"institution_details": {"name": odd}}
    ledger.accounts[ACCOUNT] = shown
    with pytest.raises(ActionRefused, match="is REJECTED, not APPROVED") as caught:
        planned(client, machine)
    for text in (str(caught.value), *map(str, caught.value.args)):
        assert "evil" in text
        assert re.search(r"[\x00-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text) is None


# --------------------------------------------------------------------- where journals are


def test_a_backup_after_a_first_sync_that_failed_takes_the_journals(
    machine: Machine, fundlab: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.pay("plan", ref_id="paid").transfer_id is not None
    (journal,) = machine.journal_folder.glob("*.sqlite")
    new, copy = tmp_path / "new", tmp_path / "copy"
    answer = Ledger.answer

    def refuse(self: Ledger, request: Any, fault: Any) -> tuple[int, Any]:
        listed = "/transfer/transfers" in request.target
        return (500, {}) if listed else answer(self, request, fault)

    monkeypatch.setattr(Ledger, "answer", refuse)
    code, _, _ = fundlab("sync", "transfers", "--store", new)
    assert code == 1
    done = fl.Store(new).backup(copy)
    assert done.journals == (journal.name,)
    code, out, _ = fundlab("backup", copy, "--store", new)
    assert code == 0
    assert "1 journal" in out


@pytest.mark.parametrize("other", ["https://host.example:443", "https://HOST.example:443"])
def test_the_port_of_https_makes_no_other_journal(other: str) -> None:
    def journal(base_url: str) -> tuple[str, str]:
        return identity_of({"base_url": base_url, "client_id": "c"})

    assert journal(other) == journal("https://host.example")
    assert journal("https://host.example:8443") != journal("https://host.example")
