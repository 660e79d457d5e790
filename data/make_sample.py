"""Makes ``data/sample`` again: ``python data/make_sample.py``.

A year of a customer with four profiles, ending on Monday, 2 November 2026, 9:00, from the sandbox's
seed. Two syncs: the second, after the weekend, changes what was pending, so that the store holds
earlier versions too. The month's end has a name, ``october``. ``data/statements`` is what the
customer's bank says of September and October: it lumps, keeps a fee back, books late, and makes two
mistakes a month.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import fundlab as fl

SAMPLE = Path(__file__).parent / "sample"
STATEMENTS = Path(__file__).parent / "statements"
SEED, TRANSFERS, PROFILES = 7, 3_000, 4
WEEKEND_S = 33 * 3600


def make(folder: Path, statements: Path) -> fl.Store:
    """The sample store in ``folder``, which must not be there yet, and its ``statements``."""
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
        statements.mkdir(exist_ok=True)
        for period in ("2026-09", "2026-10"):
            made = sandbox.control.bank_statement(
                period, opening="250000", batch=0.3, netted_fee="15", late_days=4, references=0.7,
                errors={"charge": 1, "missing": 1}, seed=3,
            )  # fmt: skip
            (statements / made["name"]).write_text(made["text"], encoding="utf-8")
    (folder / ".lock").unlink()
    shutil.rmtree(folder / "runs")
    return fl.Store(folder, read_only=True)


if __name__ == "__main__":
    shutil.rmtree(SAMPLE, ignore_errors=True)  # nothing writes to a store of that place
    Path(make(SAMPLE.with_name("made"), STATEMENTS).path).rename(SAMPLE)
    sys.stdout.write(f"{fl.sample().verify()}\n")
