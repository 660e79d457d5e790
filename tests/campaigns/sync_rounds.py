"""A program for strace: it brings a store up to date again and again, with all that is published.

Run with the folder of the store, the number of rounds and a seed for how much each brings.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from fake_service import FakeService, moment, transfer

from fundlab.store import Store, staging


def rounds(folder: Path, count: int, chance: Random) -> None:
    """In each: a sync whose rows are staged in several files, a compaction, a pin."""
    staging.FILE_ROWS = 50  # type: ignore[misc]
    store = Store(folder)
    rows = [transfer(n) for n in range(200)]
    for number in range(count):
        rows += [transfer(2000 * (number + 1) + n) for n in range(chance.randint(1, 150))]
        events = [{"id": f"e-{n:04d}", "created_at": moment(n)} for n in range(50 + number)]
        service = FakeService([*rows], events=events, largest_page=40)
        store.sync(service, workers=1 + number % 3)  # type: ignore[arg-type]
        if number % 2:
            store.compact()
        store.pin(f"pin-{number}")


if __name__ == "__main__":
    rounds(Path(sys.argv[1]), int(sys.argv[2]), Random(int(sys.argv[3])))
