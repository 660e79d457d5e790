"""pytest's fixtures: what a test changes is undone after it, quickly, also in parallel; and a suite
that uses none of them imports nothing of the package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from sandbox_caller import Caller, caller_of, deposit, fund, instructions

from fundlab.base.errors import SandboxError
from fundlab.sandbox import Sandbox, serve

ROOT = Path(__file__).parents[2]
PLUGIN = "fundlab/sandbox/pytest_fundlab.py"
TRANSFERS = "/v2/transfer/transfers?limit=1000"
TESTS, WORKERS = 200, 2
SUITE = '''
import fundlab as fl
import pytest

@pytest.fixture(scope="session")
def account(fundlab_sandbox_session):
    """Made once, there for every test."""
    with fundlab_sandbox_session.connect() as client:
        return next(one for one in client.list_fiat_accounts() if one.status == "APPROVED")

@pytest.mark.parametrize("number", range(TESTS))
def test_a_payment(number, fundlab_sandbox, account):
    profile = fundlab_sandbox.profile_ids[0]
    with fl.connect() as client:
        before = client.get_profile_balance(profile, "USD").available
        paid = client.create_fiat_withdrawal(
            fiat_account_id=account.id, profile_id=profile, amount="1.00", ref_id="the same")
        fundlab_sandbox.clock.advance(3600)
        assert client.get_transfer(paid.id).status == "COMPLETED"
        left = client.get_profile_balance(profile, "USD").available
        fundlab_sandbox.faults.add("status", "list_events", status=503)
    # the same in each test, in every process: nothing of the others is here
    assert str(before) == "BEFORE" and before - left == paid.total
    assert str(fundlab_sandbox.clock.now()) == "2026-11-01T01:00:00.000000000Z"
'''
CONFTEST = """
import json, os, time
import pytest

spent = []

@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    begun = time.perf_counter()
    yield
    if fixturedef.argname == "fundlab_sandbox":
        spent.append(time.perf_counter() - begun)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    begun = time.perf_counter()
    yield
    spent.append(time.perf_counter() - begun)

def pytest_sessionfinish(session):
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    with open(f"spent-{worker}.json", "w") as file:
        json.dump(spent, file)
"""


def run(folder: Path, *arguments: str) -> str:
    """A suite of its own process, with the plugin beside the package, as an installation has it."""
    shutil.copy(ROOT / PLUGIN, folder)
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "pytest_fundlab", *arguments], cwd=folder,
        env=own | {"PYTHONPATH": f"{folder}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def suite(folder: Path, sandbox: Sandbox, tests: int) -> None:
    before = caller_of(sandbox)
    shown = before.balance(sandbox.profile_ids[0])["available"]
    before.close()
    text = SUITE.replace("TESTS", str(tests)).replace("BEFORE", shown)
    (folder / "test_payments.py").write_text(text)
    (folder / "conftest.py").write_text(CONFTEST)


@pytest.fixture
def same() -> Iterator[Sandbox]:
    """As the plugin's own is made."""
    with serve(seed=7, transfers=200, profiles=2, clock="manual") as sandbox:
        yield sandbox


@pytest.mark.thorough
def test_two_hundred_tests_that_change_state_each_begin_anew_side_by_side(
    tmp_path: Path, same: Sandbox
) -> None:
    """With under 15 ms of overhead a test: its fixture and teardown. (It took 3 ms.)"""
    suite(tmp_path, same, TESTS)
    assert f"{TESTS} passed" in run(tmp_path, "-n", str(WORKERS))
    spent = sorted(
        second for path in tmp_path.glob("spent-*.json") for second in json.loads(path.read_text())
    )
    assert len(spent) == 2 * TESTS
    overhead = sum(spent[:-WORKERS]) / TESTS  # without the last of each, which stops its sandbox
    assert overhead < 0.015


@pytest.mark.seconds
def test_a_suite_that_uses_none_of_it_imports_nothing_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    assert 'pytest_fundlab' in sys.modules\n"
        "    assert 'fundlab' not in sys.modules and 'pandas' not in sys.modules\n"
    )
    run(tmp_path, "-W", "error")


def test_an_installation_brings_the_fixtures() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"pytest_fundlab": "pytest_fundlab"}
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"][PLUGIN] == "pytest_fundlab.py"


# ---------------------------------------------------------------------------- checkpoints


def test_everything_goes_back_to_the_checkpoint(sandbox: Sandbox, caller: Caller) -> None:
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "77.70")
    memo_id = instructions(caller, profile_id)["memo_id"]
    assert deposit(caller, memo_id, "2.30").ok  # still PENDING at the checkpoint
    sandbox.faults.add("latency", "list_events", seconds=0, count=3)
    caller.get("/v2/events")
    sandbox.clock.shift_access(5)
    seen = [
        [*caller.rows(TRANSFERS)], sandbox.control.ledger(), sandbox.control.clock(),
        sandbox.control.faults(), sandbox.control.credentials(),
    ]  # fmt: skip
    sandbox.checkpoint()
    for _ in range(2):
        requests = sandbox.control.requests()
        sandbox.clock.advance(86_400)
        fund(caller, sandbox, profile_id, "1.00")
        sandbox.control.add_credential("more")
        sandbox.control.rotate_secret(sandbox.client_id)
        sandbox.control.revoke_tokens()
        caller.get("/v2/events")
        sandbox.faults.clear()
        sandbox.restore()
        now = [
            sandbox.control.ledger(), sandbox.control.clock(), sandbox.control.faults(),
            sandbox.control.credentials(),
        ]  # fmt: skip
        assert now == seen[1:]
        assert sandbox.control.requests() == requests
        assert [*caller.rows(TRANSFERS)] == seen[0]  # by the token of then
        sandbox.restore()
    sandbox.clock.advance(60)
    assert caller.balance(profile_id)["available"] == "80.00"


def test_what_was_loaded_or_reset_is_undone_too(sandbox: Sandbox, caller: Caller) -> None:
    saved = sandbox.control.save()
    fund(caller, sandbox, sandbox.profile_ids[0], "5")
    sandbox.checkpoint()
    for change in (lambda: sandbox.control.load(saved), sandbox.control.reset):
        change()
        assert [*caller.rows(TRANSFERS)] == []
        sandbox.restore()
        assert len([*caller.rows(TRANSFERS)]) == 1


def test_checkpoints_over_http(sandbox: Sandbox, caller: Caller) -> None:
    def act(action: str, **arguments: str) -> requests.Response:
        return requests.post(f"{sandbox.control_url}/{action}", json=arguments, timeout=5)

    assert act("checkpoint", name="clean").json() == {"name": "clean"}
    fund(caller, sandbox, sandbox.profile_ids[0], "5")
    assert act("restore", name="clean").json()["now"] == "2026-11-01T00:00:00.000000000Z"
    refused = act("restore", name="other")
    assert refused.status_code == 400
    assert refused.json()["detail"] == "there is no checkpoint 'other'; there are clean"


def test_checkpoints_are_not_kept_without_end(sandbox: Sandbox) -> None:
    for number in range(20):
        sandbox.checkpoint(str(number))
    sandbox.checkpoint("7")
    with pytest.raises(SandboxError, match="20 checkpoints are kept already"):
        sandbox.checkpoint("one more")
