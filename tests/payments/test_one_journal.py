"""One journal for a user, whatever the store: one intent, one limit, and nothing is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benches import Bench, approved_account
from payer import Payer, orders

import fundlab as fl
from fundlab.base.errors import ActionRefused, StoreError
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
                Payer(orders(sandbox, tmp_path / f"{trial}-{name}", [wanted])) for name in "abc"
            ]
            for payer in payers:
                payer.start()
            results = [payer.result() for payer in payers]
            assert [failed for failed, _ in results] == [0, 0, 0]
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
    nowhere = f"there is no store at {tmp_path}/there/copy; check the path, or"
    with pytest.raises(fl.errors.StoreError, match=nowhere):
        fl.journal(tmp_path / "there" / "copy")  # a mistyped path is not "nothing was paid"
    assert fl.journal()["store"].tolist() == [str(tmp_path / "here")]


def test_resume_settles_what_another_store_left_open(
    bench: Any, tmp_path: Path, lagging: Any
) -> None:
    bench.sandbox.faults.add("lost", "create_fiat_withdrawal")
    with pytest.raises(fl.errors.NetworkError):
        bench.pay("62.00", store=tmp_path / "here")
    lagging.undo()
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


def test_one_more_that_is_meant_is_no_duplicate(bench: Any) -> None:
    bench.pay("68.00")
    bench.pay("68.00", allow_duplicate=True)
    assert bench.journal()["detail"].isna().all()


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
    (tmp_path / "empty" / "runs").mkdir(parents=True)
    assert fl.Store(tmp_path / "empty").verify().ok
