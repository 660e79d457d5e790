"""Execute cells (a JSON list on standard input) in a fresh Jupyter kernel; a program of its own.

``run`` executes them all and prints what they said. ``kill SECONDS`` executes the first, sends the
others, and kills the kernel that much later; it prints ``killed at work`` or ``too late``.
"""

from __future__ import annotations

import json
import sys
import time
from queue import Empty
from typing import Any

import nbformat
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

TIMEOUT_S = 60


def run(cells: list[str]) -> str:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3").execute()
    return json.dumps([cell.get("outputs") for cell in notebook.cells])


def kill(cells: list[str], seconds: float) -> str:
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=TIMEOUT_S)
    try:
        client.execute_interactive(cells[0], timeout=TIMEOUT_S, output_hook=lambda message: None)
        sent = {client.execute(cell) for cell in cells[1:]}
        finished = _answered(client, sent, time.monotonic() + seconds)
    finally:
        manager.shutdown_kernel(now=True)  # SIGKILL
        client.stop_channels()
    return "too late" if finished else "killed at work"


def _answered(client: BlockingKernelClient, sent: set[str], until: float) -> bool:
    """Whether every request of ``sent`` is answered before ``until``; returns no earlier."""
    while (left := until - time.monotonic()) > 0:
        try:
            reply: dict[str, Any] = client.get_shell_msg(timeout=left)
        except Empty:
            break
        sent.discard(reply["parent_header"]["msg_id"])
    return not sent


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(run(given) if sys.argv[1] == "run" else kill(given, float(sys.argv[2])))
