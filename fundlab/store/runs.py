"""The last run of each kind on a store: when it ended and what it found. Whoever keeps watch needs
not compute that again.

One small file for each kind, replaced at once. They prove nothing, and nothing depends on them: a
store without them is as good.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final, Literal

from fundlab.base.errors import StoreError
from fundlab.base.values import Instant
from fundlab.store import disk
from fundlab.store.remote import RemotePath, StorePath

RUNS: Final = "runs"

Run = Literal["sync", "verify", "report"]
log = logging.getLogger(__name__)


def write_run(folder: StorePath, run: Run, at: str, content: Mapping[str, Any]) -> None:
    """Note a ``run`` that ended ``at``. Where that cannot be written, a warning says so: what the
    run did is done."""
    path = folder / f"{run}.json"
    text = json.dumps({"at": at, **content}, sort_keys=True).encode()
    try:
        if isinstance(path, RemotePath):
            with disk.named(path):
                path.write_bytes(text)
        else:
            with disk.replacing(path) as file:
                file.write(text)
    except StoreError as error:
        log.warning("this %s is not noted for 'fundlab status': %s", run, error)


def read_runs(folder: StorePath) -> dict[str, dict[str, Any]]:
    """What is noted, by the kind of run; without what is not readable, as if it was never there."""
    found = {}
    for path in disk.files_in(folder):
        if path.name.startswith(".") or not path.name.endswith(".json"):
            continue
        try:
            content = json.loads(path.read_bytes())
            Instant.parse(content["at"])
        except (ValueError, TypeError, KeyError, FileNotFoundError):
            continue
        found[path.name.removesuffix(".json")] = content
    return found
