"""``fundlab withdraw``: what it prints, what it sends, how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fundlab as fl
from fundlab import cli

Run = Any


@pytest.fixture
def run(bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command for the bench; its status, standard output and standard error."""
    service = bench.sandbox.announcement()
    for name in ("base_url", "auth_url", "client_id", "client_secret"):
        monkeypatch.setenv(f"FUNDLAB_{name.upper()}", service[name])
    monkeypatch.setenv("FUNDLAB_STORE", str(bench.store))
    monkeypatch.setattr("fundlab.client.transport.pause_before", lambda *_: 0.0)

    def command(*options: str, answer: str = "") -> tuple[int, str, str]:
        given = ["--profile", bench.profile_id, "--fiat-account", bench.account.id]
        monkeypatch.setattr("sys.argv", ["fundlab", "withdraw", *given, *options])
        monkeypatch.setattr("sys.stdin", __import__("io").StringIO(answer))
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return command


def test_it_shows_the_plan_asks_and_sends(bench: Any, run: Run) -> None:
    status, out, _ = run("--amount", "70.00", answer="y\n")
    made = bench.made()
    assert (status, len(made)) == (0, 1)
    assert "SANDBOX · play money" in out
    assert "Withdraw 70.00 USD to Harbor Trading LLC" in out
    assert f"PENDING: transfer {made[0].id}, total 95.00 USD" in out


def test_a_no_sends_nothing(bench: Any, run: Run) -> None:
    status, out, _ = run("--amount", "70.00", answer="\n")
    assert (status, bench.made()) == (1, [])
    assert "not sent: the answer was no" in out


def test_a_dry_run_sends_nothing(bench: Any, run: Run) -> None:
    status, out, _ = run("--amount", "70.00", "--dry-run", "--yes")
    assert (status, bench.made()) == (0, [])
    assert "not sent: this was a dry run" in out


def test_a_dry_run_writes_no_request(bench: Any, run: Run, tmp_path: Path) -> None:
    status, out, _ = run("--amount", "70.00", "--dry-run", "--request", str(tmp_path / "r.json"))
    assert status == 0
    assert "not sent: this was a dry run" in out
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize(
    "more",
    [
        "--memo=m",
        "--metadata=a=b",
        "--asset=USD",
        "--identity=i",
        "--account=a",
        "--why=w",
        "--by=b",
        "--allow-duplicate",
    ],
)
def test_nothing_is_given_beside_what_others_approved(
    more: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["fundlab", "withdraw", "--approved", "r.json", more])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert "it names the payment; leave the rest out" in capsys.readouterr().err


def test_the_same_command_again_finds_what_was_sent(bench: Any, run: Run) -> None:
    assert run("--amount", "70.00", "--yes")[0] == 0
    status, out, err = run("--amount", "70")
    assert (status, len(bench.made())) == (0, 1)
    assert "already submitted, PENDING" in out
    assert "already submitted" in err
    status, out, _ = run("--amount", "70", "--json")
    answer = json.loads(out)
    assert (status, answer["already_submitted"]) == (0, True)
    assert answer["transfer"]["id"] == bench.made()[0].id
    assert answer["plan"]["amount"] == "70"


def test_it_waits_for_the_end(bench: Any, run: Run) -> None:
    bench.sandbox.faults.add("latency", "get_transfer", count=1, seconds=0.01)
    assert run("--amount", "70.13", "--yes")[0] == 0
    bench.sandbox.clock.advance(6)
    status, out, err = run("--amount", "70.13", "--yes", "--wait")
    assert (status, len(bench.made())) == (1, 1)
    assert "FAILED" in out
    said = f"withdrawal {bench.made()[0].id} has FAILED at the service; ask it why, and to pay "
    said += "again, give the payment another --ref-id"
    assert err.splitlines()[-1] == f"fundlab: {said}"
    status, out, err = run("--amount", "70.13", "--yes", "--json")
    assert (status, json.loads(out)["error"]) == (1, {"type": "ActionError", "message": said})
    assert said not in err
    assert run("--amount", "70.13", "--yes", "--ref-id", "again")[0] == 0
    assert bench.journal()["status"].tolist() == ["FAILED", "PENDING"]


def test_json_asks_nobody(bench: Any, run: Run) -> None:
    status, out, _ = run("--amount", "70.00", "--json", answer="y\n")
    assert (status, bench.made()) == (1, [])
    assert "give --yes" in json.loads(out)["error"]["message"]


def test_a_refusal_is_one_line(bench: Any, run: Run) -> None:
    status, out, err = run("--amount", "70.005", "--yes")
    assert (status, out, bench.made()) == (1, "", [])
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("fundlab: amount='70.005' has 3 decimals")


def test_a_likely_duplicate_needs_its_option(bench: Any, run: Run) -> None:
    assert run("--amount", "70.00", "--yes")[0] == 0
    options = ("--amount", "70.00", "--yes", "--ref-id", f"other-{bench.account.id}")
    status, _, err = run(*options)
    assert (status, len(bench.made())) == (1, 1)
    assert "--allow-duplicate" in err
    assert run(*options, "--allow-duplicate")[0] == 0
    assert len(bench.made()) == 2


@pytest.mark.parametrize("repeated", [(), ("--confirm-amount", "700"), ("--confirm-amount", "x")])
def test_yes_in_production_needs_the_amount_repeated(
    bench: Any, run: Run, monkeypatch: pytest.MonkeyPatch, repeated: tuple[str, ...]
) -> None:
    monkeypatch.setattr("fundlab.settings.settings.Settings.is_production", True)
    status, out, err = run("--amount", "70.00", "--yes", *repeated)
    assert (status, bench.made()) == (1, [])
    assert "PRODUCTION · real money" in out
    assert "--confirm-amount 70.00" in err
    assert run("--amount", "70.00", "--yes", "--confirm-amount", "70")[0] == 0
    assert len(bench.made()) == 1


def test_production_asks_for_the_code(
    bench: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fundlab.settings.settings.Settings.is_production", True)
    assert run("--amount", "70.00", answer="y\n")[0] == 1
    assert bench.made() == []
    assert run("--amount", "70.00", answer=f"{bench.plan('70.00').code}\n")[0] == 0
    assert len(bench.made()) == 1


def test_in_production_a_mistyped_code_is_said_to_be_wrong(
    bench: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fundlab.settings.settings.Settings.is_production", True)
    status, out, err = run("--amount", "70.00", answer="AAAA-AAAA\n")
    assert (status, bench.made()) == (1, [])
    assert "what was typed is not the code that was shown; nothing was sent" in err
    assert "AAAA" not in err  # a key typed one question early, say
    assert "the answer was no" not in out + err


def test_a_request_is_followed_by_the_command_that_approves_it(
    bench: Any, run: Run, tmp_path: Any
) -> None:
    """As a shell takes it: a folder may have a space in its name."""
    folder = tmp_path / "of may"
    folder.mkdir()
    status, out, _ = run("--amount", "70.00", "--request", str(folder / "rent.json"))
    assert (status, bench.made()) == (0, [])
    assert f"others now run: fundlab approve '{folder}/rent.json'\n" in out


def test_the_total_of_what_was_made_has_its_separators(bench: Any, run: Run) -> None:
    status, out, _ = run("--amount", "12015.00", "--yes")
    assert status == 0
    assert ", total 12,040.00 USD" in out


def test_wrong_usage(run: Run) -> None:
    assert run()[0] == 2


@pytest.mark.parametrize("amount", ["13", "x", ""])
def test_a_repeated_amount_that_differs_is_refused_anywhere(
    bench: Any, run: Run, amount: str
) -> None:
    status, _, err = run("--amount", "12.00", "--yes", "--confirm-amount", amount)
    assert (status, bench.made()) == (1, [])
    assert "is not the amount of the plan; nothing was sent" in err
    assert run("--amount", "12.00", "--yes", "--confirm-amount", "12")[0] == 0


def test_no_answer_is_a_refusal_with_what_to_do(
    bench: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, err = run("--amount", "70.00")
    assert (status, bench.made()) == (1, [])
    assert "there was no answer; nothing was sent: answer at a terminal, or give --yes" in err


def test_a_dry_run_of_what_was_made_says_so(run: Run) -> None:
    assert run("--amount", "70.00", "--yes")[0] == 0
    status, out, _ = run("--amount", "70.00", "--dry-run")
    assert status == 0
    assert "not sent: this was a dry run; already submitted" in out


def test_a_code_may_be_typed_as_a_person_types(
    bench: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fundlab.settings.settings.Settings.is_production", True)
    typed = f" {bench.plan('70.00').code.lower().replace('-', ' ')} \n"
    assert run("--amount", "70.00", answer=typed)[0] == 0
    assert len(bench.made()) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("streams", ["<&-", ">/dev/full"])
def test_without_a_terminal_it_fails_in_one_line(bench: Any, run: Run, streams: str) -> None:
    command = (
        f"{sys.executable} -m fundlab withdraw --profile {bench.profile_id} "
        f"--fiat-account {bench.account.id} --amount 71.00 {streams}"
    )
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, bench.made()) == (1, [])
    assert len(done.stderr.strip().splitlines()) == 1
    expected = "nobody can be asked here" if "<" in streams else "standard output cannot be written"
    assert expected in done.stderr


def test_a_wait_that_cannot_be_is_refused_before_anything_is_sent(bench: Any, run: Run) -> None:
    status, _, err = run("--amount", "72.00", "--yes", "--wait", "--timeout", "inf")
    assert (status, bench.made()) == (1, [])
    assert "timeout=inf is not accepted" in err


@pytest.mark.filterwarnings("ignore::fundlab.errors.CardWarning")
@pytest.mark.filterwarnings("ignore::fundlab.errors.UnknownValueWarning")
def test_control_characters_of_the_service_do_not_reach_the_terminal(bench: Any, run: Run) -> None:
    known = bench.client.create_fiat_withdrawal(
        amount="1.00", fiat_account_id=bench.account.id, profile_id=bench.profile_id
    )
    odd = {"id": "3f0f\x1b[2J", "status": "PENDING\x1b]0;owned\x07", "amount": "73.00"}
    body = known.to_json() | odd
    del body["ref_id"]
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", status=200, body=json.dumps(body))
    status, out, err = run("--amount", "73.00", "--yes")
    assert status == 3  # not as the card showed it
    assert "\x1b" not in out + err
    assert "\x07" not in out + err
    assert "PENDING�]0;owned�: transfer 3f0f�[2J" in out


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_while_it_is_sent_says_how_to_go_on(
    bench: Any, run: Run, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def interrupted(*given: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("fundlab.client.client.Client.create_fiat_withdrawal", interrupted)
    status, out, err = run("--amount", "74.00", "--yes", *["--json"] * as_json)
    told = json.loads(out)["error"]["message"] if as_json else err
    assert status == 130
    assert "interrupted. The journal holds it as unknown: " in told
    assert bench.journal()["state"].tolist() == ["unknown"]


def test_an_interrupt_while_it_waits_names_what_was_sent(
    bench: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("fundlab.cli.agreement.wait_for", interrupted)
    status, out, _ = run("--amount", "75.00", "--yes", "--wait", "--json")
    assert status == 130
    assert (
        f"Transfer {bench.made()[0].id} was sent: only the waiting ended"
        in (json.loads(out)["error"]["message"])
    )


def test_a_failure_nobody_knows_the_outcome_of_says_how_to_go_on(bench: Any, run: Run) -> None:
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", status=502, body="x")
    status, out, _ = run("--amount", "76.00", "--yes", "--json")
    assert status == 1
    assert "The journal holds it as unknown: run" in json.loads(out)["error"]["message"]


@pytest.mark.thorough
@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full"])
def test_without_standard_error_the_payment_is_told(bench: Any, run: Run, stream: str) -> None:
    command = (
        f"{sys.executable} -m fundlab withdraw --profile {bench.profile_id} "
        f"--fiat-account {bench.account.id} --amount 77.00 --yes {stream}"
    )
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert f"PENDING: transfer {bench.made()[0].id}" in done.stdout


def test_what_has_no_amount_stands_beside_payments_in_the_journal(
    bench: Any, run: Run, fundlab: Any
) -> None:
    assert run("--amount", "70.00", "--yes")[0] == 0
    plan = fl.plan_deposit(bench.client, profile_id=bench.profile_id, say=bench.said.append)
    made = plan.submit(plan.code)
    status, out, err = fundlab("journal")
    assert status == 0, err
    paid, instructions = sorted(out.splitlines()[1:], key=lambda line: made.id in line)
    assert paid.split()[2:7] == ["done", "PENDING", "withdrawal", "70.00", "USD"]
    assert instructions.split()[2:6] == ["done", "VALID", "deposit", "instructions"]
    assert "NaN" not in out
    rows = {row["action"]: row for row in json.loads(fundlab("journal", "--json")[1])["rows"]}
    assert rows["withdrawal"]["amount"] == "70"
    assert rows["deposit instructions"]["amount"] is None
