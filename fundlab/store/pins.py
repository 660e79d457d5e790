"""Pins: named states of a store, each a small file that says how far every table had come.

It ends in a hash of its name and content, so that damage, or the file of another pin, is an error.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fundlab.base.errors import InvalidRequest, StoreDamaged, StoreError, first_line
from fundlab.base.values import Instant
from fundlab.store import disk
from fundlab.store.remote import StorePath

PINS: Final = "pins"
_RESTORE: Final = "restore it from a backup, or delete it and with it the pin"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def is_pin_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def write_pin(folder: StorePath, name: str, made_at: int, limits: Mapping[str, int]) -> None:
    """The caller holds the store's lock. It is made ``made_at`` (ns), or just after the newest one,
    so that their order stays. Raises ``StoreError`` if the name is taken."""
    path = folder / f"{name}.json"
    if path.exists():
        raise StoreError(f"the pin {name!r} exists; choose another name")
    newest = max((Instant.parse(at).ns + 1 for at in read_pins(folder).values()), default=0)
    at = str(Instant.from_ns(max(made_at, newest)))
    hidden = disk.hidden_file(folder, name)
    hidden.unlink(missing_ok=True)  # of a run that was killed
    with disk.new_file(hidden) as file:
        content = {"made_at": at, "publications": dict(limits)}
        file.write(json.dumps(content | {"sha256": _hash(name, content)}).encode())
    disk.publish(hidden, path)


def read_pins(folder: StorePath) -> dict[str, str]:
    """Every pin and when it was made, oldest first."""
    made = {path.stem: _read(path)["made_at"] for path in _files(folder)}
    return dict(sorted(made.items(), key=lambda pin: pin[1]))


def pin_hashes(folder: StorePath) -> list[str]:
    """The hash of each pin's name and content, oldest first."""
    found = [(_read(path), path.stem) for path in _files(folder)]
    found.sort(key=lambda one: (one[0]["made_at"], one[1]))
    return [_hash(name, content) for content, name in found]


def pinned_limits(folder: StorePath, name: str) -> Mapping[str, int]:
    """For each table, the publication it had come to."""
    path = folder / f"{name}.json"
    if not is_pin_name(name) or not path.exists():
        known = ", ".join(read_pins(folder)) or "none"
        raise InvalidRequest(f"pin {name!r} does not exist; there are: {known}")
    limits: Mapping[str, int] = _read(path)["publications"]
    return limits


def each_pin(folder: StorePath) -> Iterator[tuple[str, Mapping[str, int] | StoreDamaged | OSError]]:
    """The name of every pin, and the publications it names, or what is wrong with it."""
    for path in _files(folder):
        try:
            yield path.stem, _read(path)["publications"]
        except (StoreDamaged, OSError) as error:
            yield path.stem, error


def _files(folder: StorePath) -> list[StorePath]:
    """Those that are published; names with a dot before them are unfinished, or a system's own."""
    names = (path for path in disk.files_in(folder) if path.name.endswith(".json"))
    return [path for path in names if not path.name.startswith(".")]


def _read(path: StorePath) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreDamaged(
            f"is not a pin ({first_line(error)})", path=path, hint=_RESTORE
        ) from None
    written = found.pop("sha256", None) if isinstance(found, dict) else None
    if written is None or written != _hash(path.stem, found):
        raise StoreDamaged("is not what was written", path=path, hint=_RESTORE)
    return found


def _hash(name: str, content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([name, content], sort_keys=True).encode()).hexdigest()
