"""How the command ends: one line or one JSON object and an exit status, whatever goes wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fundlab as fl
from fundlab.base.errors import (
    InvalidRequest,
    NetworkError,
    StoreLocked,
    install_command,
    printable,
)

COMMAND = f"{sys.executable} -m fundlab"


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if "FUNDLAB" not in name}
    return subprocess.run(
        ["sh", "-c", line], env=clean | variables, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let ``fundlab doctor`` raise an error."""

    def fail(error: BaseException) -> None:
        def doctor() -> Any:
            raise error

        monkeypatch.setattr("fundlab.client.doctor.doctor", doctor)

    return fail


def noted(error: BaseException, note: str) -> BaseException:
    error.add_note(note)
    return error


# -------------------------------------------------------------------------------- one object


@pytest.mark.parametrize(
    ("error", "status", "kind", "message"),
    [
        (
            noted(NetworkError("no answer"), "Run it again."),
            1, "NetworkError", "no answer. Run it again.",
        ),
        (StoreLocked("another run holds it"), 4, "StoreLocked", "another run holds it"),
        (
            noted(KeyboardInterrupt(), "It may have been sent."),
            130, "KeyboardInterrupt", "interrupted. It may have been sent.",
        ),
        (
            IsADirectoryError(21, "Is a directory", "data/demo.json"),
            1, "IsADirectoryError",
            "data/demo.json: Is a directory; see to it, then run the same again",
        ),
        *((
            kind(number, why, "file"), 1, kind.__name__,
            f"file: {why}; give another path, or make room there",
        ) for kind, number, why in (
            (FileExistsError, 17, "File exists"), (NotADirectoryError, 20, "Not a directory"),
        )),
        (
            OSError("cannot be done"),
            1, "OSError", "cannot be done; see to it, then run the same again",
        ),
        (
            FileNotFoundError(2, "No such file or directory"),
            1, "FileNotFoundError",
            "No such file or directory; see to it, then run the same again",
        ),
    ],
)  # fmt: skip
def test_what_went_wrong_is_one_line_or_one_object(
    fundlab: Any, failing: Any, error: BaseException, status: int, kind: str, message: str
) -> None:
    failing(error)
    assert fundlab("doctor") == (status, "", f"fundlab: {message}\n")
    ended, out, err = fundlab("doctor", "--json")
    assert (ended, json.loads(out), err) == (
        status, {"error": {"type": kind, "message": message}}, "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("山田\u3000商事", "山田 商事"),  # an ideographic space
        ("Société\u00a0Générale", "Société Générale"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # a joiner that the spelling needs
        ("a\tb", "a b"),
        ("12\u202e34\x1b[2J\n", "12\ufffd34\ufffd[2J\ufffd"),
    ],
)
def test_honest_names_stay_and_controls_do_not(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_wrong_usage_is_an_object_too(fundlab: Any) -> None:
    status, out, err = fundlab("verify", "--json", "--nope")
    assert (status, err) == (2, "")
    error = json.loads(out)["error"]
    assert error["type"] == "UsageError"
    assert error["message"].startswith("No such option")
    assert "--nope" in error["message"]
    status, out, err = fundlab("verify", "--nope")
    assert (status, out) == (2, "")
    assert err.startswith("Usage: fundlab verify [OPTIONS]")
    assert f"\nError: {error['message']}" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sync", "moons"], "'moons' is not one of 'transfers'"),
        (["sandbox", "--host", "0.0.0.0"], "Invalid value for --host: '0.0.0.0' is not loopback"),
        (["sandbox", "--host", "example.com"], "Invalid value for --host: 'example.com' is not"),
    ],
)
def test_what_is_not_accepted_is_wrong_usage(
    fundlab: Any, arguments: list[str], words: str
) -> None:
    status, out, err = fundlab(*arguments)
    assert (status, out) == (2, "")
    assert words in " ".join(err.split())


@pytest.mark.thorough
def test_no_answer_to_a_question_is_an_object(tmp_path: Path) -> None:
    out = tmp_path / "key.pem"
    done = shell(f"{COMMAND} keys new --out {out} --encrypt --json </dev/null")
    assert (done.returncode, out.exists()) == (1, False)
    error = json.loads(done.stdout)["error"]
    assert error["type"] == "SettingsError"
    assert "no password was given; nothing was written: type it at a term" in error["message"]


def test_an_interrupted_question_is_no_answer(tmp_path: Path) -> None:
    """At a terminal of its own, where Ctrl-C is typed at the question."""
    out = tmp_path / "key.pem"
    arguments = [sys.executable, "-m", "fundlab", "keys", "new", "--out", str(out), "--encrypt"]
    terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    with subprocess.Popen(
        [sys.executable, "-c", terminal, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        shown = b""
        while b"Password" not in shown:
            shown += process.stdout.read1()
        process.stdin.write(b"\x03")
        process.stdin.flush()
        shown += process.communicate(timeout=30)[0]
    assert process.returncode == 130
    assert b"fundlab: interrupted; run the same again" in shown
    assert not out.exists()


@pytest.mark.thorough
def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = shell(f"cd {gone} && rmdir {gone} && {COMMAND} demo --transfers 5 --json")
    assert done.returncode == 1
    message = json.loads(done.stdout)["error"]["message"]
    assert "the current folder is gone; change to another one" in message


def test_control_characters_do_not_reach_the_terminal(fundlab: Any, failing: Any) -> None:
    failing(NetworkError("said \x1b[2J\x1b]0;owned\x07 \u202eright to left"))
    _, _, err = fundlab("doctor")
    assert err == "fundlab: said �[2J�]0;owned� �right to left\n"


def test_an_empty_log_level_counts_as_none(
    fundlab: Any, failing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(NetworkError("reached"))
    monkeypatch.setenv("FUNDLAB_LOG", "")
    assert fundlab("doctor")[2] == "fundlab: reached\n"


# ----------------------------------------------------------------------- what cannot be written


@pytest.mark.thorough
def test_a_terminal_without_the_characters_gets_their_names(tmp_path: Path) -> None:
    there = tmp_path / "Größe"
    for variables, told in (
        ({"PYTHONIOENCODING": "ascii"}, f"fundlab: there is no store at {tmp_path}/Gr\\"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0"}, f"fundlab: path='{tmp_path}/Gr\\"),
    ):
        done = shell(f"{COMMAND} verify --store {there}", **variables, PYTHONCOERCECLOCALE="0")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(told)
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("json_too", ["", pytest.param("--json", marks=pytest.mark.thorough)])
def test_a_standard_output_that_cannot_be_written(tmp_path: Path, json_too: str) -> None:
    (tmp_path / "store" / "runs").mkdir(parents=True)
    line = f"{COMMAND} verify --store {tmp_path / 'store'} {json_too}"
    full = shell(f"{line} >/dev/full")
    assert full.returncode == 1
    assert full.stderr == (
        "fundlab: standard output cannot be written (No space left on device); see where it goes, "
        "then run the same again\n"
    )
    closed = shell(f"{line} >&-")
    assert closed.returncode == 1
    assert closed.stderr == (
        "fundlab: standard output is closed; see where it goes, then run the same again\n"
    )


@pytest.mark.thorough
def test_an_error_that_cannot_be_written_as_json_is_a_line(tmp_path: Path) -> None:
    done = shell(f"{COMMAND} verify --json --store {tmp_path / 'none'} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("fundlab: there is no store at ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full"])
def test_without_standard_error_the_result_stands(tmp_path: Path, stream: str) -> None:
    key = tmp_path / "key.pem"
    made = shell(f"{COMMAND} keys new --out {key} {stream}")
    assert (made.returncode, made.stdout[:26]) == (0, "-----BEGIN PUBLIC KEY-----")
    again = shell(f"{COMMAND} keys new --out {key} {stream}")
    assert (again.returncode, again.stdout) == (1, "")


def test_nothing_opened_later_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    """A line for standard error must not end up in a file that was opened in its place."""
    seen = (
        "import fundlab.base.terminal as c, os; c.prepare(); print(os.readlink('/proc/self/fd/2'))"
    )
    done = shell(f'{sys.executable} -c "{seen}" 2>&-')
    assert (done.returncode, done.stdout) == (0, "/dev/null\n")


@pytest.mark.parametrize(
    ("command", "lacks", "said"),
    [
        (["journal"], "pandas", True), (["verify"], "pyarrow", True),
        (["verify", "--json"], "pyarrow", True),
        (["journal"], "fundlab.payments.journal_files", False),  # a fault of ours, shown as one
    ],
)  # fmt: skip
def test_a_small_installation_names_what_a_command_lacks(
    command: list[str], lacks: str, said: bool, tmp_path: Path
) -> None:
    (tmp_path / "data" / "store" / "manifests").mkdir(parents=True)
    (tmp_path / "small.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {lacks!r}: raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from fundlab.cli import main\n"
        f"sys.argv = {['fundlab', *command]!r}\n"
        "main()\n"
    )
    done = shell(f"cd {tmp_path} && {sys.executable} small.py")
    assert done.returncode == 1
    line = (
        f"{lacks} is not installed: client and sandbox do without it, this command does not; run "
    )
    if "--json" in command:
        assert json.loads(done.stdout)["error"]["message"].startswith(line)
    elif said:
        assert done.stderr == f"fundlab: {line}{install_command()}\n"
    else:
        assert "Traceback" in done.stderr


def test_a_warning_is_one_line_without_a_place_in_our_code() -> None:
    line = (
        "import warnings, fundlab.base.terminal as c; from fundlab.base.errors import CardWarning; "
        "c.prepare(); warnings.warn('fee 0.02, not 0.01' + chr(27) + '[2J', CardWarning); "
        "warnings.warn('of pandas')"
    )
    done = shell(f'{sys.executable} -c "{line}"')
    assert done.returncode == 0
    ours, theirs = done.stderr.splitlines()
    assert ours == "fundlab: warning: fee 0.02, not 0.01\N{REPLACEMENT CHARACTER}[2J"
    assert theirs == "<string>:1: UserWarning: of pandas"


@pytest.mark.thorough
def test_a_key_whose_public_half_was_not_shown_is_not_kept(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    assert shell(f"{COMMAND} keys new --out {key} >/dev/full").returncode == 1
    assert not key.exists()
    assert shell(f"{COMMAND} keys new --out {key}").returncode == 0


def test_help_needs_no_pandas() -> None:
    line = "import sys; sys.argv = ['fundlab', '--help']; from fundlab.cli import main; main()"
    seen = "import atexit, sys; atexit.register(lambda: print('pandas' in sys.modules)); "
    done = shell(f'{sys.executable} -c "{seen}{line}"')
    assert done.returncode == 0
    assert done.stdout.endswith("False\n")


def test_the_help_is_not_cut_and_says_every_exit_status() -> None:
    shown = shell(f"{COMMAND} --help", COLUMNS="80").stdout
    commands = shown.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(commands) > 8
    assert [line for line in commands if line.endswith("...")] == []
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for text in (shown.partition("Exit status:")[2], readme.partition("exit status says")[2]):
        assert re.findall(r"\b(?:[0-4]|1[34][03])\b", text)[:7] == [*"01234", "130", "143"]


def test_the_ending_of_the_file_is_its_format(fundlab: Any, tmp_path: Path) -> None:
    given = ("export", "balances", "--store", fl.sample().path, "--out")
    assert fundlab(*given, tmp_path / "a.XLSX")[0] == 0
    assert (tmp_path / "a.XLSX").read_bytes()[:2] == b"PK"
    assert fundlab(*given, tmp_path / "plain", "--format", "csv")[0] == 0
    assert (tmp_path / "plain").read_text(encoding="utf-8").count("\n") == 81
    status, _, err = fundlab(*given, tmp_path / "balances")
    assert status == 2
    said = "balances does not end in .csv, .parquet, .json, .xlsx: give one of these, or --format"
    assert said in " ".join(err.split())


def test_a_file_that_names_another_format_is_wrong_usage(fundlab: Any, tmp_path: Path) -> None:
    status, _, err = fundlab(
        "export", "transfers", "--out", str(tmp_path / "a.XLSX"), "--format", "csv"
    )
    assert status == 2
    assert "a.XLSX names another format than csv" in " ".join(err.split())
    with pytest.raises(InvalidRequest, match="names another format than 'csv'"):
        fl.exports.write_rows(fl.sample().read("balances"), tmp_path / "a.json", "csv")
    assert [*tmp_path.iterdir()] == []
