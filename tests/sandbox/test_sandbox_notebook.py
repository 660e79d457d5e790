"""In a real notebook kernel: interrupting or closing it leaves no thread, port or file behind."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from extra_packages import needs

pytestmark = pytest.mark.thorough

TIMEOUT_S = 60

SETUP = """
import json, os, tempfile, threading, time
from pathlib import Path
import psutil
from fundlab import sandbox as sandboxes

def left():
    return {
        "threads": sorted(t.name for t in threading.enumerate() if "fundlab" in t.name),
        "listening": sorted(
            c.laddr.port for c in psutil.Process().net_connections("tcp")
            if c.status == "LISTEN" and c.laddr.port not in before
        ),
        "files": sorted(str(p) for p in Path(tempfile.gettempdir()).glob("fundlab-*")),
        "open": [f.path for f in psutil.Process().open_files() if f.path.endswith(".db")],
    }

before = set()
before = set(left()["listening"])
"""
NOTHING = {"threads": [], "listening": [], "files": [], "open": []}


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    start_new_kernel = needs("jupyter_client.manager").start_new_kernel
    manager, client = start_new_kernel(env={**os.environ, "TMPDIR": str(temporary)})
    try:
        run(client, SETUP)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def run(client: Any, code: str) -> Any:
    """Run a cell to its end; what its last printed line says, as JSON."""
    printed: list[str] = []

    def keep(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    reply = client.execute_interactive(code, output_hook=keep, timeout=TIMEOUT_S)["content"]
    assert reply["status"] == "ok", reply
    lines = "".join(printed).split("\n")
    return json.loads(lines[-2]) if len(lines) > 1 else None


def run_until_interrupted(
    manager: Any,
    client: Any,
    code: str,
    marker: Path,
    after_s: float = 0,
) -> None:
    """Start a cell, interrupt the kernel once ``marker`` exists, and see it interrupted."""
    sent = client.execute(code, stop_on_error=False)
    wait_for(marker)
    time.sleep(after_s)
    manager.interrupt_kernel()
    while True:
        reply = client.get_shell_msg(timeout=TIMEOUT_S)
        if reply["parent_header"].get("msg_id") == sent:
            break
    assert reply["content"]["status"] == "error"
    assert reply["content"]["ename"] == "KeyboardInterrupt"


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} did not appear"
        time.sleep(0.02)


def test_interrupting_a_cell_stops_the_sandbox_of_its_with_block(
    kernel: tuple[Any, Any], tmp_path: Path
) -> None:
    manager, client = kernel
    marker, db = tmp_path / "up", tmp_path / "sandbox.db"
    code = f"""
with sandboxes.serve(empty=True, signing=True, db={str(db)!r}) as running:
    during = left()
    Path({str(marker)!r}).touch()
    while True:
        time.sleep(0.05)
"""
    run_until_interrupted(manager, client, code, marker)
    during = run(client, "print(json.dumps(during))")
    assert during["threads"] == ["fundlab-sandbox"]
    assert len(during["listening"]) == len(during["files"]) == 1
    assert during["open"]
    assert run(client, "print(json.dumps(left()))") == NOTHING
    assert [path.name for path in tmp_path.glob("sandbox.db*")] == ["sandbox.db"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", during["listening"][0]), timeout=1)


def test_interrupting_the_start_leaves_nothing(kernel: tuple[Any, Any], tmp_path: Path) -> None:
    manager, client = kernel
    marker, db = tmp_path / "begun", tmp_path / "sandbox.db"
    code = f"""
Path({str(marker)!r}).touch()
sandboxes.serve(transfers=1_000_000, signing=True, db={str(db)!r})
"""
    run_until_interrupted(manager, client, code, marker, after_s=1.5)
    assert run(client, "print(json.dumps(left()))") == NOTHING
    run(client, f"with sandboxes.serve(empty=True, db={str(db)!r}): pass")
    assert run(client, "print(json.dumps(left()))") == NOTHING


def test_a_sandbox_outlives_the_interrupt_of_another_cell_and_stops_when_told_or_closed(
    kernel: tuple[Any, Any], tmp_path: Path
) -> None:
    manager, client = kernel
    marker, db = tmp_path / "up", tmp_path / "sandbox.db"
    run(client, f"running = sandboxes.serve(empty=True, signing=True, db={str(db)!r})")
    code = f"""
Path({str(marker)!r}).touch()
while True:
    time.sleep(0.05)
"""
    run_until_interrupted(manager, client, code, marker)
    run(client, "import requests\nassert requests.get(running.base_url + '/openapi.json').ok")
    run(client, "running.stop()")
    assert run(client, "print(json.dumps(left()))") == NOTHING
    run(client, f"running = sandboxes.serve(empty=True, signing=True, db={str(db)!r})")
    client.shutdown()
    deadline = time.monotonic() + TIMEOUT_S
    while manager.is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [path.name for path in tmp_path.glob("sandbox.db*")] == ["sandbox.db"]
    assert list((tmp_path / "temporary").glob("fundlab-*")) == []
