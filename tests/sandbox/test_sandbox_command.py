"""``fundlab sandbox``: what it prints, how it stops, what it picks up and what it refuses."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from sandbox_caller import Caller

from fundlab.sandbox import serve

ALWAYS = {"base_url", "auth_url", "control_url", "client_id", "client_secret", "profile_ids"}
WITH_SIGNING = {"signing_key", "signing_key_id"}


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fundlab", "sandbox", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Where nohup runs the tests, SIGHUP is ignored, and a sandbox keeps to that.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )  # fmt: skip


@contextmanager
def serving(
    *arguments: str, by: signal.Signals = signal.SIGTERM, notes: str = ""
) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """A running sandbox and its first line; stopped by a signal, and seen to stop cleanly."""
    process = command(*arguments)
    try:
        assert process.stdout is not None
        info = json.loads(process.stdout.readline())
        yield info, process
        process.send_signal(by)
        more, errors = process.communicate(timeout=30)
        assert (process.returncode, more, errors) == (0, "", notes)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.thorough
@pytest.mark.parametrize("flags", [(), ("--signing",), ("--tls-self-signed",)])
def test_at_a_terminal_it_says_how_to_go_on_and_that_works(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    parent, child = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fundlab", "sandbox", "--empty", *flags],
        stdout=subprocess.PIPE, stderr=child, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        info = json.loads(process.stdout.readline())
        said = os.read(parent, 4_000).decode().replace("\r\n", "\n")
        assert said.count("\n") == 1
        assert info["client_secret"] not in said
        script = said.partition("when it asks for it: ")[2].replace(
            "fundlab init", f"{shlex.quote(sys.executable)} -m fundlab init"
        )
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path),
                   "FUNDLAB_CLIENT_SECRET": info["client_secret"]}  # fmt: skip
        done = subprocess.run(
            ["/bin/sh", "-c", script], env=environ, cwd=tmp_path, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "fundlab sync" in done.stdout
    finally:
        process.terminate()
        process.communicate()
        os.close(parent)
        os.close(child)


@pytest.mark.parametrize(
    "by",
    [
        signal.SIGTERM,
        *(pytest.param(n, marks=pytest.mark.thorough) for n in (signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_it_prints_one_line_serves_and_stops_cleanly(by: signal.Signals) -> None:
    options = ["--empty", "--profiles", "3", "--signing", "--signing-alg", "EdDSA"]
    with serving(*options, by=by) as (info, _):
        assert set(info) == ALWAYS | WITH_SIGNING
        assert len(info["profile_ids"]) == 3
        key = Path(info["signing_key"])
        caller = Caller(
            info["base_url"], info["client_id"], info["client_secret"],
            kid=info["signing_key_id"], pem=key.read_bytes(), alg="EdDSA",
        )  # fmt: skip
        assert caller.get("/v2/transfer/transfers").status_code == 200
        assert requests.get(info["control_url"], timeout=30).ok
        caller.close()
    assert not key.parent.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(info["base_url"].rpartition(":")[2])), timeout=1)


@pytest.mark.thorough
def test_a_signal_breaks_off_a_long_start(tmp_path: Path) -> None:
    db = tmp_path / "sandbox.db"
    process = command("--db", str(db), "--transfers", "300000")
    while not db.exists():
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0
    with serving("--db", str(db), "--transfers", "20") as (info, _):
        assert transfers(info) == 20


@pytest.mark.thorough
def test_a_killed_start_leaves_a_file_that_a_later_one_fills(tmp_path: Path) -> None:
    db = tmp_path / "sandbox.db"
    process = command("--db", str(db), "--transfers", "60000")
    while not db.exists() or db.stat().st_size < 5_000_000:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate()
    with serving("--db", str(db), "--transfers", "20") as (info, _):
        assert transfers(info) == 20


@pytest.mark.thorough
def test_a_later_start_picks_the_file_up_with_another_clock(tmp_path: Path) -> None:
    options = ["--db", str(tmp_path / "sandbox.db")]
    with serving(*options, "--transfers", "300", "--seed", "5") as (first, _):
        assert transfers(first) == 300
    with serving(*options, "--clock", "fast") as (second, _):
        assert transfers(second) == 300
        for name in ("client_id", "client_secret", "profile_ids"):
            assert second[name] == first[name]


@pytest.mark.thorough
def test_a_later_start_says_what_its_file_keeps(tmp_path: Path) -> None:
    db = str(tmp_path / "sandbox.db")
    with serve(db=db, transfers=30, seed=5, profiles=2) as first:
        profile_ids = first.profile_ids
    wanted = ["--db", db, "--seed", "6", "--transfers", "40", "--profiles", "2"]
    notes = (
        f"{db} keeps seed 5; seed 6 is for a new file\n"
        f"{db} keeps transfers 30; transfers 40 is for a new file\n"
    )
    with serving(*wanted, notes=notes) as (info, _):
        assert transfers(info) == 30
        assert info["profile_ids"] == profile_ids


def transfers(info: dict[str, Any]) -> int:
    caller = Caller(info["base_url"], info["client_id"], info["client_secret"])
    count = sum(1 for _ in caller.rows("/v2/transfer/transfers?limit=1000"))
    caller.close()
    return count


def test_a_port_in_use_is_named(fundlab: Any) -> None:
    with serve(empty=True) as sandbox:
        port = sandbox.base_url.rpartition(":")[2]
        status, _, message = fundlab("sandbox", "--empty", "--port", port)
    assert status == 1
    assert message.count("\n") == 1
    assert f"port {port}" in message
    assert "port 0 picks a free one" in message


@pytest.mark.thorough
def test_a_file_in_use_and_one_that_is_no_sandbox_are_named(tmp_path: Path, fundlab: Any) -> None:
    db, text = tmp_path / "sandbox.db", tmp_path / "notes.txt"
    text.write_text("not a database\n" * 500)
    with serve(empty=True, db=db):
        status, _, message = fundlab("sandbox", "--db", str(db))
    assert status == 1
    assert f"{db}" in message
    assert "another sandbox" in message
    status, _, message = fundlab("sandbox", "--db", str(text))
    assert status == 1
    assert f"{text}" in message


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "70000"], ["--port", "x"], ["--clock", "slow"], ["--signing-alg", "RS256"],
        ["--transfers", "-1"], ["--profiles", "0"], ["--nothing"],
        ["--host", "0.0.0.0"],
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_status_2(arguments: list[str], fundlab: Any) -> None:
    status, _, message = fundlab("sandbox", *arguments)
    assert status == 2
    assert arguments[0] in message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--transfers", "10000001"], "transfers 10000001 must be from 0 to 10000000"),
        (["--seed", "-1"], "seed -1 must be from 0 to 9223372036854775807"),
    ],
)
def test_what_cannot_be_served_is_named(arguments: list[str], expected: str, fundlab: Any) -> None:
    status, _, message = fundlab("sandbox", *arguments)
    assert status == 1
    assert expected in message
    assert message.count("\n") == 1
