"""One journal for a user, whatever the store: one intent, one limit, and nothing is left out."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from benches import Bench, approved_account
from payer import Payer, orders
from store_journals import StoreJournal

import fundlab as fl
from fundlab.base.errors import ActionRefused, DuplicateWarning, StoreDamaged, StoreError
from fundlab.payments.journal import Journal
from fundlab.sandbox.serve import Sandbox


def payment(bench: Bench, amount: str) -> dict[str, str]:
    return {
        "profile_id": bench.profile_id, "fiat_account_id": bench.account.id, "amount": amount,
    }  # fmt: skip


# ------------------------------------------------------------------------------ one intent


@pytest.mark.thorough
def test_two_stores_at_once_in_two_processes_pay_once(
    sandbox: Sandbox, new_bench: Callable[..., Any], tmp_path: Path
) -> None:
    """Eight of eight, without a ``ref_id``: each process has a store of its own."""
    for trial in range(8):
        with sandbox.connect() as client:
            account = approved_account(sandbox, client)
            wanted = {
                "profile_id": sandbox.profile_ids[2], "fiat_account_id": account.id,
                "amount": f"{trial + 1}.00",
            }  # fmt: skip
            payers = [
                Payer(orders(sandbox, tmp_path / f"{trial}-{name}", [wanted])) for name in "ab"
            ]
            for payer in payers:
                payer.start()
            results = [payer.result() for payer in payers]
            assert [failed for failed, _ in results] == [0, 0]
            rows = client.list_transfers(profile_ids=sandbox.profile_ids, page_size=1000)
            assert len([row for row in rows if row.fiat_account_id == account.id]) == 1, trial


def test_a_notebook_copied_into_another_folder_finds_its_payment(
    bench: Any, tmp_path: Path
) -> None:
    first = bench.plan("61.00", store=tmp_path / "here")
    made = first.submit(confirm=first.code)
    copy = bench.plan("61.00", store=tmp_path / "there" / "copy")
    assert (copy.ref_id, copy.code, copy.is_submitted) == (first.ref_id, first.code, True)
    assert copy.submit(confirm=first.code).id == made.id
    assert [transfer.id for transfer in bench.made()] == [made.id]
    assert fl.journal(tmp_path / "here")["ref_id"].tolist() == [first.ref_id]
    assert fl.journal(tmp_path / "there" / "copy").empty
    assert fl.journal()["store"].tolist() == [str(tmp_path / "here")]


def test_resume_settles_what_another_store_left_open(bench: Any, tmp_path: Path) -> None:
    bench.sandbox.faults.add("lost", "create_fiat_withdrawal")
    with pytest.raises(fl.errors.NetworkError):
        bench.pay("62.00", store=tmp_path / "here")
    bench.sandbox.faults.clear()
    settled = fl.resume(bench.client, store=tmp_path / "there")
    assert settled["state"].tolist() == ["done"]


def test_a_journal_of_its_own_is_a_setting(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[desk]\njournal = "/srv/journal"\n')
    config.chmod(0o600)
    monkeypatch.setenv("FUNDLAB_JOURNAL", "")
    given = {"base_url": "https://a.example.com", "auth_url": "https://a.example.com",
             "client_id": "c", "client_secret": "s"}  # fmt: skip
    assert fl.Settings.load("desk", environ={}, config_file=config, **given).journal == Path(
        "/srv/journal"
    )
    default = fl.Settings.load(environ={}, **given).journal
    assert default.is_absolute()
    assert default.parts[-2:] == ("fundlab", "journal")
    with bench.sandbox.connect(journal=tmp_path / "own") as client:
        plan = bench.plan("63.00", client=client)
        plan.submit(confirm=plan.code)
    assert len(fl.journal(folder=tmp_path / "own")) == 1


# ------------------------------------------------------------------------------ limits


def test_a_daily_limit_is_shared_by_all_stores(
    new_bench: Callable[..., Any], tmp_path: Path
) -> None:
    bench = new_bench(daily_withdrawal_limit="100")
    bench.pay("60.00", store=tmp_path / "here")
    with pytest.raises(ActionRefused, match=r"with the 60\.00 already withdrawn today") as refusal:
        bench.plan("40.01", store=tmp_path / "there")
    assert refusal.value.reason == "own_limit"
    assert bench.plan("40.00", store=tmp_path / "there").amount == 40


@pytest.fixture
def fresh() -> Iterator[Sandbox]:
    """A sandbox without other payments, whose time is taken for the user's."""
    with fl.sandbox.serve(seed=5, transfers=40, clock="manual") as running:
        yield running


def test_where_money_is_real_a_daily_limit_counts_what_the_service_shows(
    fresh: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of other profiles, without a ``ref_id``; not what failed, is of another day, or is in
    the journal anyway."""
    fresh.clock.advance(86_400)
    monkeypatch.setattr("fundlab.settings.settings.Settings.is_production", True)
    now = lambda: fresh.clock.now().ns  # noqa: E731
    with fresh.connect(store=tmp_path, daily_withdrawal_limit="100") as client:
        account = approved_account(fresh, client)

        def plan(amount: str) -> Any:
            return fl.plan_withdrawal(
                client, profile_id=fresh.profile_ids[0], fiat_account_id=account.id,
                amount=amount, now=now,
            )  # fmt: skip

        for profile_id, amount in zip(fresh.profile_ids, ("30.00", "50.13"), strict=False):
            client.create_fiat_withdrawal(
                amount=amount, fiat_account_id=account.id, profile_id=profile_id
            )
        fresh.clock.advance(6)
        first = plan("20.00")
        first.submit(confirm=first.code)
        with pytest.raises(ActionRefused, match=r"the 50\.00 already withdrawn today"):
            plan("50.01")
        last = plan("50.00")
        client.create_fiat_withdrawal(
            amount="1.00", fiat_account_id=account.id, profile_id=fresh.profile_ids[1]
        )
        with pytest.raises(ActionRefused, match=r"the 51\.00 already withdrawn today"):
            last.submit(confirm=last.code)
        fresh.clock.advance(86_400)
        assert plan("99.00").amount == 99


# ------------------------------------------------------------------------------ two machines


def overtaken(here: Bench, there: Bench, monkeypatch: pytest.MonkeyPatch, amount: str) -> None:
    """``there``, another machine, pays the same between the last look of ``here`` and its send."""
    send = here.client.create_fiat_withdrawal

    def slow(**given: Any) -> Any:
        if Decimal(given["amount"]) == Decimal(amount):
            there.pay(amount)
        return send(**given)

    monkeypatch.setattr(here.client, "create_fiat_withdrawal", slow)


@pytest.fixture
def machines(new_bench: Callable[..., Any]) -> tuple[Bench, Bench]:
    here, there = new_bench(), new_bench()
    there.account = here.account
    return here, there


def test_a_duplicate_made_at_the_same_time_elsewhere_is_said_at_once(
    machines: tuple[Bench, Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = machines
    overtaken(here, there, monkeypatch, "64.00")
    with pytest.warns(DuplicateWarning, match="possible duplicate: 64.00 USD was paid") as caught:
        made = here.pay("64.00")
    (other,) = [transfer for transfer in here.made() if transfer.id != made.id]
    for name in (made.id, other.id, "look at them at once"):
        assert name in str(caught[0].message)
    assert here.journal()["detail"].tolist() == [str(caught[0].message)]
    fl.wait_for(here.client, made, sleep=here.sandbox.clock.advance)
    assert here.journal()["detail"].tolist() == [str(caught[0].message)]


def test_in_a_batch_too(machines: tuple[Bench, Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    here, there = machines
    overtaken(here, there, monkeypatch, "66.00")
    rows = pd.DataFrame([payment(here, amount) for amount in ("65.00", "66.00", "67.00")])
    batch = fl.plan_withdrawals(here.client, rows, say=here.said.append)
    with pytest.warns(DuplicateWarning, match="66.00 USD"):
        result = batch.submit(progress=False)
    assert result["state"].tolist() == ["done"] * 3
    assert result["detail"].notna().tolist() == [False, True, False]


def test_one_more_that_is_meant_is_no_duplicate(bench: Any) -> None:
    bench.pay("68.00")
    bench.pay("68.00", allow_duplicate=True)
    assert bench.journal()["detail"].isna().all()


# ------------------------------------------------------------------------------ taking over


@pytest.fixture
def old(bench: Any) -> StoreJournal:
    """The journal of an earlier version in the bench's store."""
    return StoreJournal(bench.store, bench.client, "a" * 32).create()


def test_what_an_earlier_version_paid_is_already_submitted(
    bench: Any, old: StoreJournal, tmp_path: Path
) -> None:
    made = old.pay(payment(bench, "70.00"), time.time_ns() - 10**9)
    assert fl.journal(bench.store)["state"].tolist() == ["done"]  # before it is taken over
    for store in (bench.store, tmp_path / "another", bench.store):
        plan = bench.plan("70", store=store)
        assert (plan.is_submitted, plan.ref_id) == (True, made.ref_id)
        assert plan.submit(confirm=plan.code).id == made.id
    assert len(bench.made()) == 1
    assert fl.journal(bench.store)["resource_id"].tolist() == [made.id]
    with pytest.raises(ActionRefused, match=r"submitted .* already") as refusal:
        bench.plan("70.00", ref_id=f"again-{bench.account.id}", store=tmp_path / "another")
    assert refusal.value.reason == "duplicate"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("sent", [True, False])
def test_what_an_earlier_version_left_open_is_settled(bench: Any, sent: bool, version: int) -> None:
    old = StoreJournal(bench.store, bench.client, "a" * 32, version).create()
    wanted = payment(bench, "71.00")
    name = old.confirm(wanted, time.time_ns() - 10**9)
    if version == 3:  # a wish for the same in other words
        with pytest.raises(ActionRefused, match=r"outcome is unknown; fl\.resume\(\) settles it"):
            bench.plan("71.00", ref_id=f"other-{bench.account.id}")
    if sent:
        bench.client.create_fiat_withdrawal(**wanted, ref_id=name)
    settled = fl.resume(bench.client)
    assert settled["state"].tolist() == ["done" if sent else "absent"]
    assert bench.plan("71").earlier.recorded_at < time.time_ns() - 10**9
    assert bench.pay("71.00").ref_id == name
    assert len(bench.made()) == 1
    assert fl.resume(bench.client)["ref_id"].tolist() == [name]  # still PENDING
    if version == 3:  # what is added from here on names the row before it
        with closing(sqlite3.connect(old.path)) as database:
            about = dict(database.execute("SELECT name, value FROM about"))
        assert (about["schema_version"], json.loads(about["unlinked"])["intents"]) == ("4", 1)


def test_what_an_earlier_version_pays_later_is_taken_over_too(
    bench: Any, old: StoreJournal
) -> None:
    old.confirm(payment(bench, "72.00"), time.time_ns())
    assert bench.plan("72.00").earlier is not None
    made = [old.pay(payment(bench, amount), time.time_ns()) for amount in ("73.00", "74.00")]
    assert [bench.pay(amount).id for amount in ("73.00", "74.00")] == [one.id for one in made]
    old.note(old.ref_id(payment(bench, "72.00")), "refused", time.time_ns())
    assert bench.plan("72.00").earlier.state == "refused"
    assert len(bench.made()) == 2


def test_the_most_committed_of_many_stores_counts(
    bench: Any, old: StoreJournal, tmp_path: Path
) -> None:
    """The same payment: refused in one store, paid from another, and by its own name in a third."""
    wanted = payment(bench, "75.00")
    old.note(old.confirm(wanted, time.time_ns()), "refused", time.time_ns())
    second = replace(old, store=tmp_path / "second", id="b" * 32).create()
    made = second.pay(wanted, time.time_ns())
    third = replace(old, store=tmp_path / "third", id="c" * 32).create()
    third.note(third.confirm(wanted, time.time_ns(), ref_id=made.ref_id), "done", 1, made)
    for store in (bench.store, third.store, second.store, bench.store):
        bench.plan("76.00", store=store)
    assert bench.pay("75.00").id == made.id
    assert len(bench.made()) == 1
    with bench.sandbox.connect(store=bench.store, daily_withdrawal_limit="100") as limited:
        assert bench.plan("25.00", client=limited).amount == 25  # counted once


def test_taking_over_is_all_or_nothing_and_done_once(
    bench: Any, old: StoreJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [old.confirm(payment(bench, f"{n}.00"), time.time_ns()) for n in range(1, 9)]

    add = Journal._add

    def full(book: Journal, table: str, *values: Any) -> int:
        if table == "events":
            raise StoreError("no room")
        return add(book, table, *values)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "_add", full)
        with pytest.raises(StoreError, match="no room"):
            bench.plan("77.00")
    assert fl.journal(folder=bench.client.settings.journal).empty
    for _ in range(3):
        bench.plan("77.00")
    assert fl.journal(folder=bench.client.settings.journal)["ref_id"].tolist() == names
    with closing(sqlite3.connect(bench.journal_file())) as database:
        assert database.execute("SELECT COUNT(*) FROM events").fetchone() == (8,)


OPEN = """
import sys
from pathlib import Path
from fundlab.payments.journal import Journal
service = {"base_url": sys.argv[1], "client_id": sys.argv[2]}
book = Journal(Path(sys.argv[3]), service)
print("ready", flush=True)
sys.stdin.readline()
book.take_over(Journal(Path(sys.argv[4])))
"""


@pytest.mark.thorough
def test_killed_while_taking_over_loses_no_intent(
    bench: Any, old: StoreJournal, tmp_path: Path
) -> None:
    names = [old.confirm(payment(bench, f"{n}.00"), n) for n in range(1, 200)]
    path = tmp_path / "journal.sqlite"
    for trial in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", OPEN, bench.client.base_url, bench.client.client_id, str(path),
             str(old.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()
            process.stdin.write(b"\n")
            process.stdin.flush()
            time.sleep(0.004 * trial)
            process.send_signal(signal.SIGKILL)
    service = {"base_url": bench.client.base_url, "client_id": bench.client.client_id}
    book = Journal(path, service)
    book.take_over(Journal(old.path))
    assert [(entry.ref_id, entry.origin) for entry in book.entries()] == [
        (name, "a" * 32) for name in names
    ]
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT COUNT(*) FROM events").fetchone() == (199,)


def test_a_damaged_journal_in_a_store_is_not_left_out(bench: Any, old: StoreJournal) -> None:
    old.confirm(payment(bench, "78.00"), time.time_ns())
    with closing(sqlite3.connect(old.path)) as database:
        database.execute("UPDATE intents SET likeness = 'other'")
        database.commit()
    with pytest.raises(StoreDamaged, match="is not what was written"):
        bench.plan("79.00")
    old.path.write_bytes(b"")
    with pytest.raises(StoreDamaged, match="is empty"):
        bench.plan("79.00")


# ------------------------------------------------------------------------------ the folder


def test_a_journal_that_cannot_be_written_sends_nothing(
    new_bench: Callable[..., Any], tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    bench = new_bench(journal=blocked / "journal")
    with pytest.raises(StoreError, match=r"cannot be made: .*nothing was sent.*FUNDLAB_JOURNAL"):
        bench.plan("80.00")
    assert bench.made() == []


def test_verify_names_damage_in_the_users_journal_of_its_service(
    bench: Any, tmp_path: Path
) -> None:
    store = fl.Store(bench.store)
    store.sync(bench.client, tables=["addresses"], progress=False)
    bench.pay("81.00")
    path = bench.journal_file()
    path.with_name("loopback-000000000000.sqlite").write_bytes(b"another service's")
    assert store.verify().ok
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * (path.stat().st_size - 4096))
    (problem,) = store.verify().problems
    assert (problem.table, problem.where) == ("journal", path.name)
    (tmp_path / "empty" / "transfers").mkdir(parents=True)
    assert fl.Store(tmp_path / "empty").verify().ok
