"""The main job, over real HTTP: what the command prints, leaves behind and proves."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import fundlab as fl
from fundlab import reports
from fundlab.base.errors import ActionError
from fundlab.cli import demo


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> demo.Demo:
    return demo.run(tmp_path_factory.mktemp("demo"), seed=7, transfers=600)


@pytest.mark.thorough
def test_the_demo_proves_every_balance_and_pays_once(ran: demo.Demo) -> None:
    paid = ran.withdrawal
    assert (ran.breaks, paid.status, paid.amount) == (0, "COMPLETED", "1000.00")
    assert Fraction(paid.total) == 1025
    assert Fraction(paid.balance_before) - Fraction(paid.balance_after) == 1025
    assert ran.rows["transfers"] == 601
    judgement = fl.reconcile.judge(fl.Store(ran.store))
    assert (ran.state, ran.balances, ran.verdict) == ("proved", judgement.balances, judgement.text)
    assert judgement.text in str(fl.Store(ran.store).verify())
    page = Path(ran.report).read_text(encoding="utf-8")
    assert judgement.headline in page
    assert judgement.detail in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert json.loads((Path(ran.report).parent / "demo.json").read_text())["breaks"] == 0


@pytest.mark.thorough
def test_what_the_demo_paid_is_said_with_separators(
    ran: demo.Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fundlab: Any
) -> None:
    asked: list[Any] = []

    def run(out: Path, *, seed: int, transfers: int, say: Any) -> demo.Demo:
        asked.append((out, seed, transfers))
        return ran

    monkeypatch.setattr(demo, "run", run)
    status, out, err = fundlab("demo", "--out", tmp_path, "--transfers", 300)
    assert (status, asked) == (0, [(tmp_path, 7, 300)]), err
    paid = json.loads((Path(ran.report).parent / "demo.json").read_text())["withdrawal"]
    before, after = (f"{Decimal(paid[f'balance_{when}']):,.2f}" for when in ("before", "after"))
    assert "," in after
    assert f"{ran.rows['balances']} observations of balances" in out  # not as many balances
    assert ran.balances < ran.rows["balances"]
    assert (
        f"withdrawal  1,000.00 USD + 25.00 fee: COMPLETED; available {before} → {after}, moved by "
        "exactly 1,025.00\n"
    ) in out


@pytest.mark.seconds
def test_the_demos_report_is_by_the_moments_that_the_command_reports_by(ran: demo.Demo) -> None:
    usual = reports.read_report(fl.Store(ran.store))
    page = Path(ran.report).read_text(encoding="utf-8")
    assert usual.basis == "settled"
    assert "by when transfers settled" in page
    assert "by when transfers were created" not in page
    assert ">Treasury<" in page  # as the card of its payment calls it
    assert "8d0d…d2ed" not in page


@pytest.mark.thorough
def test_the_demo_pays_by_plan_and_journal_apart_from_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "own"))
    monkeypatch.setenv("FUNDLAB_WITHDRAWAL_LIMIT", "250.00")
    monkeypatch.setenv("FUNDLAB_ALLOWED_ACCOUNTS", "landlord")
    steps: list[str] = []
    paid = demo.run(tmp_path / "out", transfers=10, say=steps.append).withdrawal
    noted = fl.journal(folder=tmp_path / "out" / "journal")
    columns = ["action", "state", "status", "resource_id", "ref_id"]
    assert noted[columns].iloc[1].tolist() == [
        "withdrawal", "done", "COMPLETED", paid.id, "demo-withdrawal"
    ]  # fmt: skip
    assert noted["action"].tolist() == ["fiat account", "withdrawal"]
    assert not (tmp_path / "own").exists()
    (card,) = [step for step in steps if "confirmation code" in step]
    assert "Withdraw 1,000.00 USD to Harbor Trading LLC" in card
    assert "••••6789" in card
    assert "000123456789" not in "".join(steps)


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_transfers_and_report(ran: demo.Demo, tmp_path: Path) -> None:
    again = demo.run(tmp_path, seed=7, transfers=600)
    columns = ["id", "amount", "fee", "total", "created_at", "updated_at", "status"]
    first, second = (fl.Store(run.store).read("transfers") for run in (ran, again))
    assert first[columns].equals(second[columns])
    pages = [Path(run.report).read_text(encoding="utf-8") for run in (ran, again)]
    folders = [str(Path(run.store).parent) for run in (ran, again)]
    neutral = [page.replace(folder, "OUT") for page, folder in zip(pages, folders, strict=True)]
    assert neutral[0] == neutral[1]


@pytest.fixture
def replaceable(ran: demo.Demo, tmp_path: Path) -> Path:
    """A folder with an earlier demo in it."""
    out = tmp_path / "out"
    shutil.copytree(Path(ran.store).parent, out)
    return out


@pytest.mark.thorough
def test_an_earlier_demo_is_replaced(replaceable: Path) -> None:
    (replaceable / "store" / "old").touch()
    demo.run(replaceable, transfers=10)
    assert not (replaceable / "store" / "old").exists()


def refused(out: Path) -> None:
    with pytest.raises(
        ActionError, match="not an earlier demo's, or holds payments; choose another folder"
    ):
        demo.run(out, transfers=10)


def test_what_is_not_an_earlier_demos_store_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaceable = tmp_path / "out"
    store = replaceable / "store"
    with fl.sandbox.serve(transfers=10, clock="manual") as sandbox, sandbox.connect() as client:
        fl.Store(store).sync(client, tables=["transfers"], progress=False)
    (replaceable / "demo.json").touch()
    with monkeypatch.context() as stopped:  # as it is now, it would be replaced
        stopped.setattr(shutil, "rmtree", lambda *given, **more: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            demo.run(replaceable, transfers=10)
    owner = {"base_url": "https://api.example.com", "client_id": "desk"}
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(fl.Store, "service", lambda store: owner)
        refused(replaceable)
    journal = store / "journal" / "service.sqlite"
    journal.parent.mkdir()
    journal.write_text("payments")
    refused(replaceable)
    assert journal.read_text() == "payments"
    shutil.rmtree(journal.parent)
    store.rename(replaceable / "elsewhere")
    store.symlink_to("elsewhere")
    refused(replaceable)
    assert len(fl.Store(replaceable / "elsewhere").read("transfers")) == 10
    kept = tmp_path / "store" / "kept.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    refused(tmp_path)
    assert kept.read_text() == "mine"


@pytest.mark.thorough
def test_after_an_interrupted_demo_the_next_one_runs(tmp_path: Path) -> None:
    def interrupted(step: str) -> None:
        if step.startswith("withdrawing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo.run(tmp_path, transfers=10, say=interrupted)
    assert (tmp_path / "store").exists()
    assert demo.run(tmp_path, transfers=10).breaks == 0


def test_rebuilt_balances_equal_the_ledger_to_the_last_decimal() -> None:
    """By hand from JSON, against the balances asked for one by one over HTTP."""
    with fl.sandbox.serve(seed=3, transfers=1_500) as sandbox, sandbox.connect() as client:
        sums: dict[tuple[Any, Any], Fraction] = defaultdict(Fraction)
        for transfer in client.list_transfers(page_size=1000):
            row = transfer.to_json()
            counts = row["status"] == "COMPLETED" or (
                row["status"] == "PENDING" and row["direction"] == "DEBIT"
            )
            if counts:
                sign = 1 if row["direction"] == "CREDIT" else -1
                asset = row.get("balance_asset") or row["asset"]
                sums[row["profile_id"], asset] += sign * Fraction(row["total"])
        assets = {asset for _, asset in sums}
        assert assets >= {"USD", "USDC", "USDP", "PYUSD", "USDG", "BTC", "ETH", "SOL"}
        for profile_id in sandbox.profile_ids:
            for asset in assets:
                answer = client.get_profile_balance(profile_id=profile_id, asset=asset)
                both = Fraction(answer.available) + Fraction(answer.trading)
                assert both == sums[profile_id, asset]


def test_a_sandbox_gone_in_mid_sync_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fundlab: Any
) -> None:
    path = tmp_path / "store"
    monkeypatch.setattr("fundlab.client.transport.pause_before", lambda *_: 0.0)
    with fl.sandbox.serve(seed=5, transfers=300, clock="manual") as sandbox:
        for name in ("base_url", "auth_url", "client_id", "client_secret"):
            monkeypatch.setenv(f"FUNDLAB_{name.upper()}", getattr(sandbox, name))
        assert fundlab("sync", "--store", path)[0] == 0
        before = fl.Store(path).read("transfers")
        sandbox.faults.add(operation="list_events", kind="reset")
        status, out, err = fundlab("sync", "--full", "--store", path)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("fundlab: list_events: ")
    assert fl.Store(path).read("transfers").equals(before)


def test_errors_are_json_when_asked_and_wrong_usage_exits_with_2(
    tmp_path: Path, fundlab: Any
) -> None:
    (tmp_path / "store").mkdir()
    status, out, _ = fundlab("demo", "--out", tmp_path, "--json")
    error = json.loads(out)["error"]
    assert (status, error["type"]) == (1, "ActionError")
    assert "choose another folder" in error["message"]
    assert fundlab("demo", "--transfers", "many")[0] == 2
