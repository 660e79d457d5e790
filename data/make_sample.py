"""Makes ``data/sample`` again: ``python data/make_sample.py``.

A year of a customer with four profiles, ending on Monday, 2 November 2026, 9:00, from the sandbox's
seed. Two syncs: the second, after the weekend, changes what was pending, so that the store holds
earlier versions too. The month's end has a name, ``october``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import fundlab as fl

SAMPLE = Path(__file__).parent / "sample"
SEED, TRANSFERS, PROFILES = 7, 3_000, 4
WEEKEND_S = 33 * 3600


def make(folder: Path) -> fl.Store:
    """The sample store in ``folder``, which must not be there yet."""
    with (
        fl.sandbox.serve(
            seed=SEED, transfers=TRANSFERS, profiles=PROFILES, clock="manual"
        ) as sandbox,
        sandbox.connect() as client,
    ):
        store = fl.Store(folder, clock=lambda: sandbox.clock.now().ns)
        store.sync(client)
        store.pin("october")
        sandbox.clock.advance(WEEKEND_S)
        store.sync(client)
    (folder / ".lock").unlink()
    shutil.rmtree(folder / "runs")
    return fl.Store(folder, read_only=True)


if __name__ == "__main__":
    shutil.rmtree(SAMPLE, ignore_errors=True)
    sys.stdout.write(f"{make(SAMPLE).verify()}\n")
