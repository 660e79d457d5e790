"""How much of a month of bank entries is matched, how much of it wrongly, and what it costs.

    python tests/benchmarks/bank.py [transfers …]

A month of so many transfers (10,000 and 100,000 by default) and about as many lines of the bank:
30% of the lines stand for several transfers or share one; some quote a reference, some name the
counterparty only, some neither; round amounts come often; one line in a hundred belongs to nothing,
and as many transfers never reach the bank.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from fundlab import bank

FIRST = date(2026, 10, 1)
CENT = Decimal("0.01")


def made_month(
    count: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, set[str]], dict[str, str]]:
    """Transfers, entries, the transfers that each entry is about, and what an entry says of them:
    ``reference``, ``name`` or ``nothing``."""
    rng = random.Random(seed)
    names = [f"{rng.choice('BCDFGHKLMNPRSTVZ')}{n:04}ombre Trading Ltd" for n in range(count // 20)]
    transfers: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    about: dict[str, set[str]] = {}
    says: dict[str, str] = {}

    def transfer(cents: int, day: int, name: str) -> dict[str, Any]:
        number = len(transfers)
        made = datetime(2026, 10, 1, 8, tzinfo=UTC) + timedelta(days=day, seconds=number % 30_000)
        row = {
            "id": f"{rng.randrange(16**8):08x}-{number:08}", "asset": "USD", "status": "COMPLETED",
            "direction": "CREDIT" if cents > 0 else "DEBIT",
            "type": "WIRE_DEPOSIT" if cents > 0 else "WIRE_WITHDRAWAL",
            "amount": CENT * abs(cents), "created_at": made, "updated_at": made,
            "counterparty": name,
        }  # fmt: skip
        transfers.append(row)
        return row

    def entry(cents: int, day: int, rows: list[dict[str, Any]], said: str) -> None:
        text = {"reference": " ".join(row["id"] for row in rows), "nothing": "WIRE",
                "name": rows[0]["counterparty"] if rows else ""}[said]  # fmt: skip
        name = f"b{len(entries):07}"
        entries.append({"entry_id": name, "amount": CENT * cents, "memo": text,
                        "booked_on": FIRST + timedelta(days=day)})  # fmt: skip
        about[name], says[name] = {row["id"] for row in rows}, said

    while len(transfers) < count:
        day, late, name = rng.randrange(31), rng.choice((0, 0, 1, 2)), rng.choice(names)
        sign, kind = rng.choice((1, 1, -1)), rng.random()
        amounts = [sign * _cents(rng) for _ in range(rng.randint(2, 5))]
        if kind < 0.01:  # of no transfer
            entry(amounts[0], day, [], "nothing")
        elif kind < 0.02:  # not at the bank
            transfer(amounts[0], day, name)
        elif kind < 0.12:  # several on one line
            said = rng.choice(("reference", "name", "name"))
            entry(sum(amounts), day + late, [transfer(a, day, name) for a in amounts], said)
        elif kind < 0.22:  # one in several parts
            one = transfer(sum(amounts), day, name)
            said = rng.choice(("reference", "name"))
            for amount in amounts:
                entry(amount, day + late, [one], said)
        else:
            said = rng.choice(("reference", "name", "nothing"))
            entry(amounts[0], day + late, [transfer(amounts[0], day, name)], said)
    frames = [pd.DataFrame(rows) for rows in (transfers, entries)]
    for frame in frames:
        frame["amount"] = pd.array(frame["amount"].tolist(), dtype="decimal")
    for column in ("created_at", "updated_at"):
        frames[0][column] = pd.to_datetime(frames[0][column]).astype("datetime64[ns, UTC]")
    return frames[0], frames[1], about, says


def _cents(rng: random.Random) -> int:
    cents = round(rng.lognormvariate(13, 1.5)) + 100
    return cents // 10_000 * 10_000 + 10_000 if rng.random() < 0.05 else cents


def judged(found: bank.Matching, about: dict[str, set[str]]) -> tuple[set[str], set[str], set[str]]:
    """The entries that are in a right group, those in a wrong one, and those of a group in which a
    line of nothing meets a transfer that never came, of one amount: nobody could know. So many of
    a group may belong elsewhere as it says are open."""
    right: set[str] = set()
    wrong: set[str] = set()
    alike: set[str] = set()
    parts: Counter[str] = Counter(name for ids in about.values() for name in ids)
    members = found.members[["group", "side", "item_id"]]
    groups: dict[int, dict[str, set[str]]] = {}
    for group, side, name in zip(*(members[column] for column in members), strict=True):
        groups.setdefault(group, {"bank": set(), "service": set()})[side].add(name)
    claims = found.groups.set_index("group")[["how", "open_entries", "open_transfers"]]
    for number, group in groups.items():
        booked, paid = group["bank"], group["service"]
        told = set().union(*(about[name] for name in booked))
        every = sum(len(about[name]) for name in booked) == sum(parts[name] for name in paid & told)
        how, *left = claims.loc[number]
        over = sum(not about[name] for name in booked), len(paid - told)
        met = min(over[0], sum(not parts[name] for name in paid)) if how == "amount" else 0
        held = told <= paid and every
        whole = held and over[0] <= left[0] and over[1] <= left[1]
        nothing = held and over[0] - met <= left[0] and over[1] - met <= left[1]
        (right if whole else alike if nothing else wrong).update(booked)
    return right, wrong, alike


def resident(name: str) -> int:
    """MiB, as Linux counts them for this process."""
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(name))
    return int(line.split()[1]) // 1024


def measure(count: int, seed: int = 7) -> dict[str, Any]:
    transfers, entries, about, says = made_month(count, seed)
    gc.collect()
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins with what there is now
    before = resident("VmHWM")
    start = time.process_time()
    found = bank.match(transfers, entries)
    seconds = time.process_time() - start
    peak = resident("VmHWM")
    right, wrong, alike = judged(found, about)
    # What nothing is said of may have several answers: two items of an amount within the window.
    listed = found.open["why"].isin(
        ["several answers", "an amount that comes often", "a sum that chance makes, too"]
    )
    several = {*found.open.loc[listed, "item_id"]}
    real = {name for name, ids in about.items() if ids}
    decidable = real - several
    return {
        "transfers": len(transfers), "lines": len(entries), "CPU seconds": round(seconds, 2),
        "right": len(right), "wrong": len(wrong), "alike by coincidence": len(alike),
        "several answers": len(real & several),
        "of the rest": f"{len(right) / len(decidable):.3%}",
        "of lines that say something": "{:.3%}".format(
            len(right & (named := {n for n in real if says[n] != "nothing"})) / len(named)
        ),
        "MiB more": peak - before,
        "how": found.groups["how"].value_counts().to_dict(),
    }  # fmt: skip


if __name__ == "__main__":
    for size in map(int, sys.argv[1:] or ("10000", "100000")):
        print(measure(size))
