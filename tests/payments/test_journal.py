"""The journal under strain: damaged, emptied, replaced, full; and what is noted when."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from benches import Bench

import fundlab as fl
from fundlab.base.errors import (
    ActionRefused,
    CallError,
    Conflict,
    NetworkError,
    StoreDamaged,
    StoreError,
)
from fundlab.cli.demo import BANK
from fundlab.payments.journal import Journal, create_journal

DAY = 86_400 * 1_000_000_000
NOON = 1_800_014_400 * 1_000_000_000
BARE = '{"title": "Conflict", "status": 409}'
PROBLEM = {"content-type": "application/problem+json"}


# ------------------------------------------------------------------------------ the file


def test_an_emptied_journal_is_not_begun_anew(bench: Any) -> None:
    bench.pay("1.00")
    plan = bench.plan("1.25")
    bench.journal_file().write_bytes(b"")
    with pytest.raises(StoreError, match="it is empty; restore it from a backup"):
        plan.submit()
    for use in (bench.plan, bench.journal):
        with pytest.raises(StoreDamaged, match="is empty: restore it from a backup"):
            use()
    assert bench.journal_file().stat().st_size == 0


def test_a_journal_that_another_program_holds(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = bench.plan("1.50")
    monkeypatch.setattr(sys.modules[Journal.__module__], "_PATIENCE_S", 0.05)
    with closing(sqlite3.connect(bench.journal_file(), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="another program has held it for a minute; wait for"):
            plan.submit()
    assert bench.made() == []
    assert plan.submit().amount == Decimal("1.5")


def test_a_journal_that_is_gone_is_not_made_again_under_a_plan(bench: Any) -> None:
    plan = bench.plan("2.00")
    path = bench.journal_file()
    path.unlink()
    with pytest.raises(StoreError, match="it is gone; bring it back"):
        plan.submit()
    assert not path.exists()
    assert bench.made() == []


def test_a_journal_that_was_replaced_under_a_plan_is_not_written(bench: Any) -> None:
    plan = bench.plan("3.00")
    bench.journal_file().unlink()
    bench.plan("4.00")  # another journal takes its place
    with pytest.raises(StoreDamaged, match="has been replaced by another"):
        plan.submit()
    assert bench.made() == []


def test_a_journal_others_can_read_is_closed_to_them(bench: Any) -> None:
    bench.plan("5.00")
    path = bench.journal_file()
    path.chmod(0o644)
    bench.plan("5.00")
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_journal_is_nobody_elses_from_its_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    connect = sqlite3.connect

    def seen(path: Path, **given: Any) -> sqlite3.Connection:
        modes.append(path.stat().st_mode & 0o777)
        return connect(path, **given)

    monkeypatch.setattr("sqlite3.connect", seen)
    create_journal(tmp_path / "new.sqlite", {"base_url": "https://a.example", "client_id": "desk"})
    assert modes[0] == (tmp_path / "new.sqlite").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        ("UPDATE intents SET body = 'text'", "is not what was written"),
        ("UPDATE intents SET facts = '{no json'", "is not what was written"),
        ("UPDATE intents SET facts = '[1]'", "is not what was written"),
        ("DELETE FROM about WHERE name = 'id'", "does not say whose it is"),
    ],
)
def test_a_journal_that_was_tampered_with_is_said(bench: Any, damage: str, match: str) -> None:
    bench.pay("6.00")
    with closing(sqlite3.connect(bench.journal_file())) as database:
        for trigger in ("intents_stay", "intents_kept"):
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute(damage)
        database.commit()
    with pytest.raises(StoreDamaged, match=match):
        bench.journal()


def test_a_journal_of_another_version_is_neither_read_nor_paid_with(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = bench.plan("6.00")
    bench.pay("5.00")
    monkeypatch.setattr("fundlab.payments.journal._VERSION", "99")
    for call in (bench.journal, lambda: plan.submit(confirm=plan.code)):
        with pytest.raises(StoreError, match=r"reads 99: use the version that made it"):
            call()
    assert len(bench.made()) == 1


def test_an_outcome_that_cannot_be_written_is_no_denial(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, add = bench.plan("7.00"), Journal._add

    def full(book: Journal, table: str, *values: Any) -> int:
        if table == "events" and values[2] != "unknown":
            raise StoreError("the journal cannot be used (database or disk is full)")
        return add(book, table, *values)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "_add", full)
        with pytest.raises(StoreError, match=r"withdrawal .* was accepted .*\(PENDING\)") as told:
            plan.submit()
    (made,) = bench.made()
    assert made.id in str(told.value)
    assert "nothing was sent" not in str(told.value)
    assert bench.pay("7.00").id == made.id


def test_a_failure_that_cannot_be_written_keeps_its_own_error(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = bench.plan("8.00")
    bench.sandbox.faults.add("reset", "create_fiat_withdrawal")

    def full(*given: object, **more: object) -> None:
        raise StoreError("no room")

    monkeypatch.setattr(Journal, "note", full)
    with pytest.raises(NetworkError) as failure:
        plan.submit()
    assert any("no room" in note for note in failure.value.__notes__)
    assert bench.journal()["state"].tolist() == ["unknown"]


# ------------------------------------------------------------------------------ conflicts


def conflict_after_a_lost_answer(bench: Bench) -> None:
    bench.sandbox.faults.add("lost", "create_fiat_withdrawal", count=1)
    bench.sandbox.faults.add(
        "status", "create_fiat_withdrawal", count=1, after=1, status=409, body=BARE, headers=PROBLEM
    )


def test_a_conflict_with_oneself_is_a_success(bench: Any) -> None:
    conflict_after_a_lost_answer(bench)
    assert [bench.pay("9.00").id] == [t.id for t in bench.made()]
    assert bench.journal()["state"].tolist() == ["done"]


def test_metadata_the_service_added_makes_no_other_payment(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, get = bench.client.create_fiat_withdrawal, bench.client.get_transfer

    def conflict(**given: Any) -> Any:
        existing = send(**given).to_json() | {"metadata": {"source": "api"}}
        raise Conflict(409, "Conflict", None, {"existing": existing}, operation="x")

    def shown(id_: str) -> Any:
        return get(id_).model_copy(update={"metadata": {"source": "api"}})

    monkeypatch.setattr(bench.client, "create_fiat_withdrawal", conflict)
    monkeypatch.setattr(bench.client, "get_transfer", shown)
    assert bench.pay("10.00").metadata == {"source": "api"}
    assert bench.journal()["state"].tolist() == ["done"]


@pytest.mark.parametrize("status", [408, 409])
def test_an_answer_that_may_hide_a_payment_leaves_it_unknown(bench: Any, status: int) -> None:
    body = f'{{"title": "so", "status": {status}}}'
    bench.sandbox.faults.add(
        "status", "create_fiat_withdrawal", status=status, body=body, headers=PROBLEM
    )
    with pytest.raises(CallError) as failure:
        bench.pay("11.00")
    assert "run the same cell again" in failure.value.__notes__[-1]
    assert bench.journal()["state"].tolist() == ["unknown"]
    bench.sandbox.faults.clear()
    bench.pay("11.00")
    assert len(bench.made()) == 1


# ------------------------------------------------------------------------------ what counts when


def test_a_refused_payment_counts_on_the_day_it_is_made(new_bench: Callable[..., Any]) -> None:
    bench, times = new_bench(daily_withdrawal_limit="100"), [NOON]
    body = '{"title": "no", "status": 400}'
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", status=400, body=body)
    with pytest.raises(CallError):
        bench.pay("90.00", now=lambda: times[0])
    bench.sandbox.faults.clear()
    times[0] += DAY
    bench.pay("90.00", now=lambda: times[0])
    with pytest.raises(ActionRefused, match=r"with the 90\.00 already withdrawn today"):
        bench.plan("80.00", now=lambda: times[0])


def test_a_payment_taken_in_from_elsewhere_counts_on_the_day_it_was_made(
    new_bench: Callable[..., Any],
) -> None:
    there, here = new_bench(), new_bench(daily_withdrawal_limit="100")
    here.account = there.account
    name = f"rent-{there.account.id}"
    made = there.pay("95.00", ref_id=name).created_at
    assert made is not None
    later = lambda: made.ns + 2 * DAY  # noqa: E731
    here.pay("95.00", ref_id=name, now=later)
    assert here.plan("10.00", now=later).amount == Decimal(10)
    assert here.journal()["confirmed_at"].tolist()[0].value == made.ns
    with pytest.raises(ActionRefused, match=r"95\.00 already withdrawn today"):
        here.plan("10.00", now=lambda: made.ns)


# ------------------------------------------------------------------------------ resume


@pytest.fixture
def deaf(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A bench whose withdrawals never get through, until ``undo``."""

    def lost(**given: Any) -> Any:
        raise NetworkError("no answer", operation="create_fiat_withdrawal").doubted()

    with monkeypatch.context() as patched:
        patched.setattr(bench.client, "create_fiat_withdrawal", lost)
        yield patched


def test_resume_settles_the_others_when_one_cannot_be(bench: Any, deaf: Any) -> None:
    name = f"taken-{bench.account.id}"
    for given in ({"ref_id": name}, {}):
        with pytest.raises(NetworkError):
            bench.pay("12.00" if given else "13.00", **given)
    deaf.undo()
    bench.client.create_fiat_withdrawal(
        amount="99.00", fiat_account_id=bench.account.id, profile_id=bench.profile_id, ref_id=name
    )
    settled = fl.resume(bench.client, say=bench.said.append)
    assert settled["state"].tolist() == ["unknown", "absent"]
    assert "amount is '99.00', not '12.00'" in settled["detail"].tolist()[0]
    assert bench.said[-1].startswith(f"not settled, withdrawal {name}: ")


@pytest.mark.parametrize("made", [True, False])
def test_resume_settles_a_lost_account_update(bench: Any, made: bool) -> None:
    wire = {"wire": {**BANK["wire"], "account_number": "000999999942"}}

    def change() -> Any:
        return fl.plan_account_update(
            bench.client, bench.account.id, fiat_network_instructions=wire, say=bench.said.append
        ).submit()

    fault = {"kind": "lost"} if made else {"kind": "status", "status": 500}
    bench.sandbox.faults.add(operation="update_fiat_account", **fault)
    with pytest.raises(CallError):
        change()
    bench.sandbox.faults.clear()
    settled = fl.resume(bench.client)
    assert settled["state"].tolist() == ["done" if made else "absent"]
    assert b"999999942" not in bench.journal_file().read_bytes()
    change()
    bench.sandbox.clock.advance(11)
    fl.resume(bench.client)
    assert bench.journal()["state"].tolist() == ["done"]
    assert fl.resume(bench.client).empty


def test_a_payment_not_sent_says_so(bench: Any, deaf: Any) -> None:
    with pytest.raises(NetworkError):
        bench.pay("14.00")
    with pytest.raises(ActionRefused, match=r"outcome is unknown; fl\.resume\(\) settles it"):
        bench.plan("14.00", ref_id=f"other-{bench.account.id}")
    fl.resume(bench.client, say=bench.said.append)
    with pytest.raises(ActionRefused, match="not sent so far; running its own cell again sends it"):
        bench.plan("14.00", ref_id=f"other-{bench.account.id}")
    assert "the service does not know it; submit() sends it, once" in repr(bench.plan("14.00"))
