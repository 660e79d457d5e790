"""Code as the cells of a real kernel: what each of them displays."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from extra_packages import needs

Displayed = list[dict[str, Any]]
"""By cell what is displayed, in order: the data of each by its MIME type."""


def run_cells(cells: Iterable[str], folder: Path) -> list[Displayed]:
    """Raises where a cell does, with what it said."""
    manager, client = needs("jupyter_client.manager").start_new_kernel(cwd=str(folder))
    try:
        return [_run(client, cell) for cell in cells]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _run(client: Any, cell: str) -> Displayed:
    shown: dict[Any, dict[str, Any]] = {}

    def take(message: Any) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind in ("execute_result", "display_data", "update_display_data"):
            place = content.get("transient", {}).get("display_id") or len(shown)
            shown[place] = content["data"]

    answer = client.execute_interactive(cell, timeout=300, output_hook=take)["content"]
    if answer["status"] != "ok":
        raise AssertionError("\n".join([cell, *answer["traceback"]]))
    return [one for one in shown.values() if any(map(str.strip, one.values()))]  # bars are gone
