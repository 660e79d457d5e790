"""What became of an attempt, by what was observed, what is shown, and who began it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from benches import Bench

import fundlab as fl
from fundlab.base.errors import ActionRefused, CallError, ProtocolError, ServiceError
from fundlab.payments.identity import DAY, WITHDRAWAL
from fundlab.payments.journal import Journal
from fundlab.payments.plan import EXPIRES_AFTER, look_up

PROBLEM = {"content-type": "application/problem+json"}


def problem(status: int) -> dict[str, Any]:
    body = {"type": "about:blank", "title": "No", "status": status}
    return {"status": status, "body": json.dumps(body), "headers": PROBLEM}


def refuse(bench: Bench, status: int, **more: Any) -> None:
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", **problem(status), **more)


def states(bench: Bench) -> list[str]:
    found: list[str] = bench.journal()["state"].tolist()
    return found


# ------------------------------------------------------------------ who may say refused


@pytest.mark.parametrize("status", [400, 403, 404, 422])
def test_a_problem_for_the_only_attempt_is_a_refusal(bench: Any, status: int) -> None:
    refuse(bench, status, count=1)
    with pytest.raises(ServiceError):
        bench.pay("11.00")
    assert states(bench) == ["refused"]


def test_408_then_403_is_no_refusal(bench: Any) -> None:
    """The first attempt may be under way still, whatever the second is told."""
    refuse(bench, 408, count=1)
    refuse(bench, 403, count=1, after=1)
    with pytest.raises(CallError):
        bench.pay("13.00")
    assert states(bench) == ["unknown"]


def test_resume_looks_once_more_at_a_refusal_of_today(
    bench: Any, lagging: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that checks funds before it knows its ref_ids refuses what it has just made."""
    send = bench.client.create_fiat_withdrawal

    def made_and_refused(**given: Any) -> Any:
        send(**given)
        error = ServiceError(403, "No", operation="create_fiat_withdrawal")
        error.refused = True
        raise error

    monkeypatch.setattr(bench.client, "create_fiat_withdrawal", made_and_refused)
    with pytest.raises(ServiceError):
        bench.pay("15.00")
    assert states(bench) == ["refused"]
    lagging.undo()
    now = fl.journal(folder=bench.client.settings.journal)["noted_at"].iloc[0].value
    assert fl.resume(bench.client, now=lambda: now + DAY + 1).empty
    assert fl.resume(bench.client, say=bench.said.append)["state"].tolist() == ["done"]
    assert bench.said[-1].startswith("made although it was refused, PENDING: withdrawal ")


def test_what_was_never_sent_is_absent(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = bench.plan("16.00")
    monkeypatch.setattr(plan.context.client.transport, "_origin", "http://127.0.0.1:1")
    monkeypatch.setattr(type(plan), "look_again", lambda plan: plan.recent)
    with pytest.raises(CallError, match="nothing was sent"):
        plan.submit()
    assert states(bench) == ["absent"]
    monkeypatch.undo()
    assert plan.submit().amount == 16


# ------------------------------------------------------------------ whose is it?


def test_an_old_answer_that_comes_again_is_not_a_second_payment(
    bench: Any, lagging: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = bench.pay("17.00")
    old = first.model_copy(update={"ref_id": None})
    monkeypatch.setattr(bench.client, "create_fiat_withdrawal", lambda **given: old)
    with pytest.raises(ProtocolError, match="which was made for ref_id") as caught:
        bench.pay("17.00", allow_duplicate=True)
    assert caught.value.in_doubt
    assert states(bench) == ["done", "unknown"]
    monkeypatch.undo()
    second = bench.pay("17.00", allow_duplicate=True)
    assert {first.id, second.id} == {made.id for made in bench.made()}


KINDS = [
    ("INTERNAL_TRANSFER_DEBIT", "DEBIT"), ("INTERNAL_TRANSFER_CREDIT", "CREDIT"),
    ("WIRE_DEPOSIT", "CREDIT"), ("CRYPTO_WITHDRAWAL", "DEBIT"), ("WIRE_WITHDRAWAL", "CREDIT"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "direction"), KINDS)
def test_another_kind_of_transfer_under_the_ref_id_is_said(
    bench: Any, kind: str, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"kind-{bench.account.id}"
    bench.client.create_fiat_withdrawal(
        amount="18.00", fiat_account_id=bench.account.id, profile_id=bench.profile_id, ref_id=name
    )
    get = bench.client.get_transfer

    def shown(id_: str) -> Any:
        return get(id_).model_copy(update={"type": kind, "direction": direction})

    monkeypatch.setattr(bench.client, "get_transfer", shown)
    with pytest.raises(ActionRefused, match=f"belongs to {kind}.*choose another ref_id") as refused:
        bench.plan("18.00", ref_id=name)
    assert refused.value.reason == "ref_id"
    assert bench.journal().empty


@pytest.mark.parametrize("hidden", ["type", "direction", "fiat_account_id", "amount", "profile_id"])
def test_what_would_decide_and_is_not_shown_is_in_doubt(
    bench: Any, hidden: str, lagging: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.sandbox.faults.add("lost", "create_fiat_withdrawal")
    with pytest.raises(CallError):
        bench.pay("19.00")
    lagging.undo()
    bench.sandbox.faults.clear()
    get = bench.client.get_transfer
    monkeypatch.setattr(
        bench.client, "get_transfer",
        lambda id_: type(get(id_)).model_validate(
            {name: text for name, text in get(id_).to_json().items() if name != hidden}
        ),
    )  # fmt: skip
    with pytest.raises(ActionRefused, match=f"does not show {hidden}.*cannot be told"):
        bench.pay("19.00")
    assert states(bench) == ["unknown"]
    assert len(bench.made()) == 1
    monkeypatch.undo()
    assert bench.pay("19.00").id == bench.made()[0].id


def test_another_owners_account_under_the_ref_id_is_not_mine(bench: Any) -> None:
    """Its number ends alike, which is all that a list shows."""
    from fundlab.cli.demo import BANK, OWNER

    name = f"account-{bench.account.id}"
    theirs = {"wire": {**BANK["wire"], "account_number": "999999996789"}}
    mine = {"wire": {**BANK["wire"], "account_number": "111111116789"}}
    bench.client.create_fiat_account(
        fiat_account_owner={"institution_details": {"name": "Somebody Else"}},
        fiat_network_instructions=theirs, ref_id=name,
    )  # fmt: skip
    with pytest.raises(ActionRefused, match=r"belongs to fiat account .*differs"):
        fl.register_fiat_account(
            bench.client, fiat_account_owner=OWNER, fiat_network_instructions=mine, ref_id=name
        )


def test_resume_creates_no_rule_after_its_plan_expired(bench: Any) -> None:
    plan = fl.plan_rule(
        bench.client, profile_id=bench.profile_id, source_asset="USDC", destination_asset="USD",
        source={"crypto": {"network": "ETHEREUM"}}, nickname="late", say=bench.said.append,
    )  # fmt: skip
    bench.sandbox.faults.add("reset", "create_orchestration_rule")
    with pytest.raises(CallError):
        plan.submit()
    bench.sandbox.faults.clear()
    later = plan.planned_at + 9 * DAY
    settled = fl.resume(bench.client, now=lambda: later, say=bench.said.append)
    assert settled["state"].tolist() == ["unknown"]
    assert "cannot be asked, and its plan expired" in settled["detail"].iloc[0]
    soon = plan.planned_at + EXPIRES_AFTER - DAY // 24
    again = fl.resume(bench.client, now=lambda: soon, say=bench.said.append)
    assert again["state"].tolist() == ["done"]


# ------------------------------------------------------------------ one intent, however spelt


# ------------------------------------------------------------------ the journal's newest rows


def test_a_journal_that_lost_its_newest_rows_is_damaged(bench: Any) -> None:
    bench.pay("22.00")
    with closing(sqlite3.connect(bench.journal_file())) as database:
        database.execute("DROP TRIGGER events_kept")
        database.execute("DELETE FROM events WHERE number = (SELECT MAX(number) FROM events)")
        database.commit()
    with pytest.raises(fl.errors.StoreDamaged, match="1 of 2 rows are there"):
        bench.plan("22.00")


def test_a_new_journals_name_is_synced_to_disk(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[Any, bool]] = []
    path = tmp_path / "journal" / "service.sqlite"
    monkeypatch.setattr(
        "fundlab.payments.journal.sync_folder",
        lambda folder: synced.append((folder, path.exists())),
    )
    Journal(path, {"base_url": "https://api.example.com", "client_id": "desk"})
    assert synced[-1] == (path.parent, True)


def test_a_row_that_shows_no_ref_id_and_is_another_payment_is_nobodys_answer() -> None:
    """A list that ignores the filter, of a service that shows no ref_id."""
    asked = {"ref_id": "mine", "profile_id": "p", "fiat_account_id": "a", "amount": "5.00",
             "asset": "USD"}  # fmt: skip

    def answer_to(amount: str) -> str:
        row = fl.models.Transfer.model_validate(
            {"id": "t-1", "type": "WIRE_WITHDRAWAL", "direction": "DEBIT", "status": "COMPLETED",
             "amount": amount, "fee": "0", "total": amount, "asset": "USD", "profile_id": "p",
             "fiat_account_id": "a", "created_at": "2026-11-01T00:00:00Z"}
        )  # fmt: skip
        client = SimpleNamespace(list_transfers=lambda **_: [row], get_transfer=lambda id_: row)
        journal = SimpleNamespace(made_for=lambda *_: None)
        context: Any = SimpleNamespace(client=client, journal=journal)
        return look_up(context, WITHDRAWAL, asked).answer

    assert answer_to("7.00") == "nothing"
    assert answer_to("5.00") != "nothing"
