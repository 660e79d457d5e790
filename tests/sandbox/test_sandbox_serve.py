"""Starting and stopping: fast, clean, restartable, in the background and in the foreground."""

from __future__ import annotations

import gc
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from sandbox_caller import caller_of, deposit, fund, instructions

from fundlab.base.errors import SandboxError
from fundlab.sandbox import Sandbox, run, serve

TRANSFERS = "/v2/transfer/transfers"


def port_of(sandbox: Sandbox) -> int:
    return int(sandbox.base_url.rpartition(":")[2])


def test_stopping_leaves_no_thread_port_or_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    threads = set(threading.enumerate())
    with serve(empty=True, signing=True) as sandbox:
        caller = caller_of(sandbox)
        assert caller.get(TRANSFERS).status_code == 200
        key = sandbox.signing_key
        assert key is not None
        assert key.stat().st_mode & 0o777 == 0o600
    caller.close()
    assert set(threading.enumerate()) == threads
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(sandbox)), timeout=1)
    sandbox.stop()
    assert "stopped" in repr(sandbox)


def test_one_that_was_stopped_is_freed() -> None:
    """FastAPI remembers thousands of functions, and some hold their application."""
    with serve(empty=True) as sandbox:
        faults = weakref.ref(sandbox.faults)
        caller = caller_of(sandbox)
        assert caller.get(TRANSFERS).status_code == 200
        caller.close()
    del sandbox, caller
    gc.collect()
    assert faults() is None


def test_an_interrupt_inside_the_block_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt), serve(empty=True):
        raise KeyboardInterrupt
    assert set(threading.enumerate()) == threads


def test_an_interrupt_while_starting_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set(threading.enumerate())

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "__init__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        serve(empty=True)
    assert set(threading.enumerate()) == threads


def test_an_interrupt_while_stopping_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set(threading.enumerate())
    sandbox = serve(empty=True)
    join, interrupts = threading.Thread.join, iter([KeyboardInterrupt])

    def interrupted_once(thread: threading.Thread, timeout: float | None = None) -> None:
        for interrupt in interrupts:
            raise interrupt
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        sandbox.stop()
    assert set(threading.enumerate()) == threads
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(sandbox)), timeout=1)


def test_the_secret_shows_nowhere() -> None:
    with serve(empty=True) as sandbox:
        secret = sandbox.client_secret
        assert len(secret) > 30
        assert secret not in repr(sandbox)
        assert secret not in str(vars(sandbox))
        assert sandbox.announcement()["client_secret"] == secret


def test_a_given_port_is_used_and_a_taken_one_named() -> None:
    with serve(empty=True) as sandbox:
        port = port_of(sandbox)
        with pytest.raises(SandboxError, match=f"port {port}: .* in use; port 0 picks a free one"):
            serve(empty=True, port=port)
    with serve(empty=True, port=port) as again:
        assert port_of(again) == port


@pytest.mark.parametrize(
    "options",
    [
        {"transfers": -1}, {"transfers": 10_000_001}, {"profiles": 0}, {"profiles": 1_001},
        {"clock": "slow"}, {"signing_alg": "RS256"}, {"port": 70_000}, {"scopes": ["all"]},
        {"host": "no.such.host.invalid"}, {"host": "h" * 70}, {"host": "0.0.0.0"}, {"host": "::"},
        {"host": "192.0.2.1"}, {"host": ""}, {"host": None}, {"seed": -1}, {"seed": "a"},
        {"seed": 1.5}, {"seed": True}, {"seed": 2**63}, {"transfers": "5"}, {"transfers": 1.5},
        {"profiles": "5"}, {"port": "x"}, {"port": 1.0}, {"scopes": "all"}, {"scopes": 5},
        {"scopes": [1]},
    ],
)  # fmt: skip
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    threads = set(threading.enumerate())
    with pytest.raises(SandboxError, match=next(iter(options)).removesuffix("s")):
        serve(**{"empty": "transfers" not in options, **options})
    assert set(threading.enumerate()) == threads


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "localhost", "::1"])
def test_loopback_is_served(host: str) -> None:
    with serve(empty=True, host=host) as sandbox:
        caller = caller_of(sandbox)
        assert caller.get(TRANSFERS).status_code == 200
        caller.close()


def test_a_sandbox_in_the_foreground_does_without_standard_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    lines: list[str] = []

    def announce(line: str) -> None:
        lines.append(line)
        signal.raise_signal(signal.SIGTERM)

    run(empty=True, announce=announce)
    assert len(lines) == 1


def test_a_localhost_that_is_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _, port, **more: resolve("0.0.0.0", port, **more)
    )
    with pytest.raises(SandboxError, match=r"host 'localhost' is 0\.0\.0\.0 here, .* not loopback"):
        serve(empty=True, host="localhost")


def test_one_scope_may_be_a_text() -> None:
    with serve(empty=True, scopes="events:read_event") as sandbox:
        caller = caller_of(sandbox)
        assert caller.get("/v2/events").status_code == 200
        assert caller.get(TRANSFERS).status_code == 403
        caller.close()


def test_a_stopped_sandbox_says_so() -> None:
    with serve(empty=True, clock="manual") as sandbox:
        client_id = sandbox.client_id
    assert sandbox.client_id == client_id
    uses: list[Callable[[], object]] = [
        lambda: sandbox.clock.advance(1), lambda: sandbox.client_secret,
        lambda: sandbox.profile_ids, sandbox.announcement, sandbox.connect, sandbox.control.ledger,
        sandbox.control.save, sandbox.control.reset, lambda: sandbox.control.load(b"SQLite"),
        lambda: sandbox.control.add_credential("x"), sandbox.control.credentials,
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(SandboxError, match="the sandbox is stopped"):
            use()
    assert len(sandbox.requests()) == 0


# ---------------------------------------------------------------------------- database files


def test_a_later_start_picks_the_file_up(tmp_path: Path) -> None:
    db = tmp_path / "folder" / "sandbox.db"
    with serve(db=db, transfers=200, clock="manual", signing=True) as first:
        assert first._service.database.one("PRAGMA journal_mode") == ("wal",)
        caller = caller_of(first)
        fund(caller, first, first.profile_ids[0], "10")
        memo_id = instructions(caller, first.profile_ids[0])["memo_id"]
        assert deposit(caller, memo_id, "1").ok
        announced = first.announcement()
        rows = list(caller.rows(TRANSFERS))
        now = first.clock.advance(30)
        caller.close()
    assert db.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in db.parent.iterdir()] == ["sandbox.db"]
    with serve(db=db, clock="fast", signing=True) as second:
        assert second._service.database.one("PRAGMA journal_mode") == ("wal",)
        again = second.announcement()
        for name in ("client_id", "client_secret", "profile_ids", "signing_key_id"):
            assert again[name] == announced[name]
        assert second.clock.now() >= now
        caller = caller_of(second)
        assert {row["id"] for row in caller.rows(TRANSFERS)} == {row["id"] for row in rows}
        last = second.clock.now()
        caller.close()
    with serve(db=db, clock="manual") as third:
        assert third.clock.now() >= last


def test_a_file_may_have_the_name_that_sqlite_has_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with serve(db=":memory:", empty=True) as first:
        client_id = first.client_id
        assert (tmp_path / ":memory:").stat().st_size > 0
    with serve(db=":memory:", empty=True, seed=5) as second:
        assert second.client_id == client_id


@pytest.mark.thorough
def test_a_forked_process_that_ends_leaves_its_parents_sandbox_alone(tmp_path: Path) -> None:
    """It ends as any script does, with all that is registered for that."""
    script = """
import os, sys
import fundlab as fl
with fl.sandbox.serve(db=sys.argv[1], empty=True, profiles=1, signing=True) as sandbox:
    child = os.fork()
    if not child:
        sys.exit()
    os.waitpid(child, 0)
    made = sandbox.connect().create_fiat_deposit_instructions(
        profile_id=sandbox.profile_ids[0], fiat_network="CUBIX", ref_id="kept"
    )
    print(made.ref_id, flush=True)
"""
    ran = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", script, tmp_path / "sandbox.db"],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "kept\n", "")
    with serve(db=tmp_path / "sandbox.db", empty=True) as again:
        caller = caller_of(again)
        (row,) = caller.rows("/v2/transfer/fiat-deposit-instructions")
        assert row["ref_id"] == "kept"
        caller.close()


def test_a_later_start_may_sign_with_the_other_algorithm(tmp_path: Path) -> None:
    for alg in ("ES256", "EdDSA", "ES256"):
        with serve(
            db=tmp_path / "a.db",
            empty=True,
            signing=True,
            signing_alg=alg,  # type: ignore[arg-type]
        ) as sandbox:
            assert str(sandbox.signing_key_id).endswith(alg)
            caller = caller_of(sandbox, alg=alg)
            assert caller.get(TRANSFERS).status_code == 200
            caller.close()
    with serve(db=tmp_path / "a.db") as unasked:  # the credential requires it still
        caller = caller_of(unasked, alg="ES256")
        assert caller.get(TRANSFERS).status_code == 200
        caller.close()


@pytest.mark.thorough
def test_two_sandboxes_cannot_share_a_file(tmp_path: Path) -> None:
    with serve(db=tmp_path / "a.db", empty=True), pytest.raises(SandboxError, match="another"):
        serve(db=tmp_path / "a.db", empty=True)


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b""])
def test_a_file_that_is_no_sandbox(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.db"
    path.write_bytes(content)
    path.chmod(0o644)
    if content:
        with pytest.raises(SandboxError, match=r"file\.db"):
            serve(db=path, empty=True)
        assert path.read_bytes() == content
        assert path.stat().st_mode & 0o777 == 0o644
    else:
        with serve(db=path, empty=True):
            assert path.stat().st_size > 0
            assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o644)
        with serve(db=path):
            assert path.stat().st_mode & 0o777 == 0o600


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE things (x)")
    connection.commit()
    connection.close()
    path.chmod(0o644)
    content = path.read_bytes()
    with pytest.raises(SandboxError, match=r"other\.db"):
        serve(db=path, empty=True)
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o644


def test_what_is_no_regular_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o644)
    with pytest.raises(SandboxError, match=r"pipe cannot be opened: it is not a regular file"):
        serve(db=pipe, empty=True)
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o644


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match="cannot be opened"):
        serve(db=tmp_path / "file" / "x.db", empty=True)


# ---------------------------------------------------------------------------- clocks


@pytest.mark.thorough
def test_the_fast_clock_runs_sixty_times_as_fast() -> None:
    with serve(empty=True, clock="fast") as sandbox:
        caller = caller_of(sandbox)
        memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
        assert deposit(caller, memo_id, "5").ok
        started = time.monotonic()
        while caller.balance(sandbox.profile_ids[0])["available"] != "5.00":
            assert time.monotonic() - started < 30
            time.sleep(0.05)
        assert time.monotonic() - started > 0.8
        caller.close()


def test_the_real_clock_is_not_before_the_history() -> None:
    with serve(empty=True, clock="real") as sandbox:
        now = sandbox.clock.now().ns
        assert now >= 1_793_491_200_000_000_000
        assert abs(now - max(time.time_ns(), 1_793_491_200_000_000_000)) < 5 * 10**9


def test_the_client_of_the_package_connects() -> None:
    with serve(transfers=50, signing=True, signing_alg="EdDSA") as sandbox:
        with sandbox.connect() as client:
            assert len(list(client.list_transfers(page_size=20))) == 50
        assert set(sandbox.requests()["status"]) == {200}
