"""The last run of each kind on a store: when it ended and what it found. Whoever keeps watch needs
not compute that again.

One small file for each kind, replaced at once, with a hash of its content. They prove nothing, and
no figure depends on them: a store without them is as good, but one that was changed is damage.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

from fundlab.base.atomic_files import sweep
from fundlab.base.errors import StoreDamaged, StoreError
from fundlab.store import disk
from fundlab.store.manifests import canonical
from fundlab.store.remote import StorePath

RUNS: Final = "runs"

Run = Literal["sync", "verify", "report"]
log = logging.getLogger(__name__)


def write_run(folder: StorePath, run: Run, at: str, content: Mapping[str, Any]) -> None:
    """Note a ``run`` that ended ``at``. Where that cannot be written, a warning says so: what the
    run did is done."""
    noted = {"at": at, **content}
    text = canonical(noted | {"sha256": _hash(run, noted)})
    try:
        disk.rewrite(folder / f"{run}.json", text)
    except StoreError as error:
        log.warning("this %s is not noted for 'fundlab status': %s", run, error)


def read_runs(folder: StorePath) -> dict[str, dict[str, Any]]:
    """What is noted, by the kind of run. Raises ``StoreDamaged`` for a note that is not what was
    written."""
    found = {}
    with disk.readable(folder):
        for run in get_args(Run):
            path = folder / f"{run}.json"
            try:
                content = json.loads(path.read_bytes())
                as_written = content.pop("sha256") == _hash(run, content)
            except FileNotFoundError:
                continue
            except (ValueError, TypeError, KeyError, AttributeError):
                as_written = False
            if not as_written:
                hint = f"remove it: the next 'fundlab {run}' writes it anew"
                raise StoreDamaged("is not what was written", path=path, hint=hint)
            found[run] = content
    return found


def sweep_notes(folder: StorePath) -> None:
    """Remove what runs left that were killed while they wrote."""
    if isinstance(folder, Path) and folder.is_dir():
        sweep(folder, "|".join(rf"{run}\.json" for run in get_args(Run)))


def _hash(run: str, content: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical([run, content])).hexdigest()
