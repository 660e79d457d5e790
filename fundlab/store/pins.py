"""Pins: named states of a store, each a small file that says how far every table had come."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from fundlab.errors import InvalidRequest, StoreDamaged, StoreError
from fundlab.store import disk
from fundlab.store.remote import StorePath

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def check_pin_name(name: str) -> None:
    """Raises ``InvalidRequest`` unless ``name`` can be one."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"pin {name!r}: give letters, digits, '.', '_' and '-'")


def write_pin(folder: StorePath, name: str, made_at: str, limits: Mapping[str, int]) -> None:
    """The caller holds the store's lock. Raises ``StoreError`` if the name is taken."""
    path = folder / f"{name}.json"
    if path.exists():
        raise StoreError(f"the pin {name!r} exists; choose another name")
    hidden = disk.hidden_file(folder, name)
    hidden.unlink(missing_ok=True)  # of a run that was killed
    with disk.new_file(hidden) as file:
        file.write(json.dumps({"made_at": made_at, "publications": dict(limits)}).encode())
    disk.publish(hidden, path)


def read_pins(folder: StorePath) -> dict[str, str]:
    """Every pin and when it was made, oldest first."""
    made = {path.stem: _read(path)["made_at"] for path in folder.glob("*.json")}
    return dict(sorted(made.items(), key=lambda pin: pin[1]))


def pinned_limits(folder: StorePath, name: str) -> Mapping[str, int]:
    """For each table, the publication it had come to."""
    path = folder / f"{name}.json"
    if not _NAME.fullmatch(name) or not path.exists():
        known = ", ".join(read_pins(folder)) or "none"
        raise InvalidRequest(f"pin {name!r} does not exist; there are: {known}")
    limits: Mapping[str, int] = _read(path)["publications"]
    return limits


def _read(path: StorePath) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreDamaged(f"{path}: {error}") from None
    return found
