"""How long a seeded history takes, how much memory and disk, and whether it adds up.

Run ``python tests/benchmarks/sandbox_history.py [TRANSFERS] [DATABASE]``, by default 1,000,000 in
memory. A fresh process serves it; then every row is replayed in order of time, independently of the
code that made it: no balance may be below zero on the way, and what is left must be the ledger's.
Exits with 1 beyond 3 minutes or 4 GiB for a million transfers (more in proportion), or if the
history does not hold.
"""

from __future__ import annotations

import heapq
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import msgspec

from fundlab.sandbox import Sandbox, serve

TRANSFERS = 1_000_000
SECONDS = 180
GIBIBYTES = 4.0
COLUMNS = "created_at_ns, updated_at_ns, status, body"

Step = tuple[int, int, tuple[str, str], int]
"""Time, debits first, profile and asset, change in units of 10^-18."""


class Row(msgspec.Struct):
    profile_id: str
    asset: str
    direction: str
    total: str
    balance_asset: str | None = None


def main(transfers: int, db: Path | None) -> int:
    start = time.perf_counter()
    with serve(transfers=transfers, db=db, clock="manual") as sandbox:
        seconds = time.perf_counter() - start
        gibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        print(f"{transfers:,} transfers in {seconds:.1f} s, peak {gibibytes:.2f} GiB", flush=True)
        if db is not None:
            print(f"on disk {db.stat().st_size / 1e9:.2f} GB", flush=True)
        problems = replay(sandbox)
    size = max(1.0, transfers / TRANSFERS)
    if seconds > SECONDS * size or gibibytes > GIBIBYTES * size:
        problems.append(f"bars missed: {SECONDS * size:.0f} s, {GIBIBYTES * size:.0f} GiB")
    print("\n".join(problems) or "it holds, bars reached")
    return 1 if problems else 0


def replay(sandbox: Sandbox) -> list[str]:
    """What does not hold."""
    balances: defaultdict[tuple[str, str], int] = defaultdict(int)
    lowest = 0
    for _, _, key, change in steps(sandbox):
        balances[key] += change
        lowest = min(lowest, balances[key])
    problems = ["a balance was below zero"] if lowest < 0 else []
    audit = sandbox.control.ledger()
    if any(Decimal(total) for total in audit["totals"].values()):
        problems.append(f"the ledger does not sum to zero: {audit['totals']}")
    booked = {
        (account["owner"].removeprefix("available/"), account["asset"]): units(account["balance"])
        for account in audit["accounts"]
        if account["owner"].startswith("available/")
    }
    if {key: balance for key, balance in balances.items() if balance} != booked:
        problems.append("the transfers' sums are not the ledger's balances")
    return problems


def steps(sandbox: Sandbox) -> Iterator[Step]:
    """Every change of what is available, in order of time; rows arrive in order of creation."""
    decode = msgspec.json.Decoder(Row).decode
    later: list[Step] = []
    select = f"SELECT {COLUMNS} FROM transfers ORDER BY created_at_ns, seq"
    for created_ns, updated_ns, status, body in sandbox._service.database.each(select):
        while later and later[0][0] < created_ns:
            yield heapq.heappop(later)
        row = decode(body)
        total = units(row.total)
        if row.direction == "DEBIT":
            yield created_ns, 0, (row.profile_id, row.asset), -total
            if status == "FAILED":
                heapq.heappush(later, (updated_ns, 1, (row.profile_id, row.asset), total))
        elif status == "COMPLETED":
            key = row.profile_id, row.balance_asset or row.asset
            heapq.heappush(later, (updated_ns, 1, key, total))
    while later:
        yield heapq.heappop(later)


def units(text: str) -> int:
    whole, _, fraction = text.partition(".")
    return int(whole + fraction.ljust(18, "0"))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(
        main(
            int(arguments[0]) if arguments else TRANSFERS,
            Path(arguments[1]) if len(arguments) > 1 else None,
        )
    )
