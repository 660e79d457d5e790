"""What syncs ask of the kernel, by ``strace``: was each file down before it got its name?

Run as a script, with a store's folder, a number of rounds and a seed, it is the program traced.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from fake_service import FakeService, moment, transfer

from fundlab import Store
from fundlab.store import staging

TRACED: Final = "openat,open,fsync,fdatasync,rename,renameat,renameat2,close,write,pwrite64"
_CALL: Final = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)", re.ASCII)
_FILE: Final = re.compile(r"^(\d+)<([^>]*)>")
_NAMES: Final = re.compile(r'"([^"]*)"')


@dataclass
class Publications:
    """The renames below one folder. ``unsafe`` are those not preceded by an fsync of the file after
    its last write, or not followed by one of the folder."""

    count: int = 0
    unsafe: list[str] = field(default_factory=list)


def publications(trace: Iterable[str], below: Path) -> Publications:
    """Read a trace of ``strace -f -y -e trace=…`` with ``TRACED``."""
    found = Publications()
    synced: set[str] = set()
    waiting: dict[str, str] = {}
    for call, arguments in _calls(trace):
        held = _FILE.match(arguments)
        if call in ("fsync", "fdatasync") and held:
            synced.add(held[2])
            waiting = {name: folder for name, folder in waiting.items() if folder != held[2]}
        elif call in ("write", "pwrite64") and held:
            synced.discard(held[2])
        elif call.startswith("rename"):
            before, after = (Path(name) for name in _NAMES.findall(arguments))
            if below in after.parents:
                found.count += 1
                if str(before) not in synced:
                    found.unsafe.append(f"{after}: renamed before its bytes were synced")
                waiting[str(after)] = str(after.parent)
    found.unsafe += [f"{name}: its folder was not synced after" for name in waiting]
    return found


def _calls(trace: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Calls that succeeded, in the order they ended."""
    started: dict[str, str] = {}
    for line in trace:
        process = line.split(" ", 1)[0]
        if line.rstrip().endswith("<unfinished ...>"):
            started[process] = line.rstrip().removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"^\d+ +<\.\.\. \w+ resumed>(.*)$", line)
        whole = started.pop(process, "") + resumed[1] if resumed else line
        match = _CALL.match(whole)
        if match is not None and not match[3].startswith("-"):
            yield match[1], match[2]


def main(folder: Path, rounds: int, chance: Random) -> None:
    """In each round: a sync whose rows are staged in several files, a compaction, a pin."""
    staging.FILE_ROWS = 50  # type: ignore[misc]
    store = Store(folder)
    rows = [transfer(n) for n in range(200)]
    for number in range(rounds):
        rows += [transfer(2000 * (number + 1) + n) for n in range(chance.randint(1, 150))]
        events = [{"id": f"e-{n:04d}", "created_at": moment(n)} for n in range(50 + number)]
        service = FakeService([*rows], events=events, largest_page=40)
        store.sync(service, workers=1 + number % 3)  # type: ignore[arg-type]
        if number % 2:
            store.compact()
        store.pin(f"pin-{number}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Random(int(sys.argv[3])))
