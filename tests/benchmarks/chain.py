"""What the chain costs a sync: the share of its processor time that goes into naming the file
before and noting the newest one.

Run ``python tests/benchmarks/chain.py [--rounds N]``. A sync is ``store.sync`` of all tables from a
service in this process: without HTTP, start-up and imports, which would make the share smaller.
Three kinds: one of 200,000 new transfers and one of 1,000, each into an empty store, and an idle
one of the latter store, which publishes balances only. Exits with 1 if a share is over the bar of
the project, 1 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from load import Bar
from made_pages import BEGIN, page_bodies, transfer_record

from fundlab import Store
from fundlab.evidence import table_store
from fundlab.models import ProfileBalance
from fundlab.sync import run

LISTS = ("items", "events", "addresses")


class Pages:
    """The lists of a service with ``count`` transfers and nothing else."""

    base_url, client_id = "http://127.0.0.1:1", "bench"

    def __init__(self, count: int) -> None:
        self.count, self.bodies = count, list(page_bodies(count))

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes:
        given = dict(params)
        if operation != "list_transfers":
            return json.dumps({name: [] for name in LISTS} | {"next_page_cursor": ""}).encode()
        if (bound := given.get("updated_at.gte")) is None and given["order"] == "ASC":
            return self.bodies[int(given.get("page_cursor") or 0)]
        begun = datetime.fromisoformat(bound[:19] + "Z") if bound else None
        first = self.count - 1 if begun is None else int((begun - BEGIN).total_seconds()) + 1
        rows = [transfer_record(number) for number in range(max(first, 0), self.count)]
        return json.dumps({"items": rows, "next_page_cursor": ""}).encode()

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        return ProfileBalance.model_validate({"asset": asset, "available": "0", "trading": "0"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    spent = [0.0]

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            before = time.thread_time()
            try:
                return work(*given, **named)
            finally:
                spent[0] += time.thread_time() - before

        return timed

    for place, name in ((table_store.TableStore, "next_link"), (run, "write_head"),
                        (table_store, "write_head")):  # fmt: skip
        setattr(place, name, counted(getattr(place, name)))

    def share(what: str, service: Pages, stores: Sequence[Store]) -> Bar:
        shares, syncs = [], []
        for store in stores:
            spent[0], before = 0.0, time.process_time()
            store.sync(service, progress=False)  # type: ignore[arg-type]
            syncs.append(time.process_time() - before)
            shares.append(spent[0])
        print(f"{what}: {median(syncs):.4f} s, the chain {median(shares) * 1e3:.3f} ms of it")
        return Bar(f"chain, {what} (%)", 100 * median(shares) / median(syncs), 1.0, at_least=False)

    with tempfile.TemporaryDirectory(prefix="chain-bench-") as folder:
        few, many = Pages(1_000), Pages(200_000)
        stores = [Store(Path(folder) / str(number)) for number in range(rounds + 3)]
        bars = [
            share("a first sync of 1,000", few, stores[:rounds]),
            share("an idle sync", few, [stores[0]] * 2 * rounds),
            share("a first sync of 200,000", many, stores[rounds:]),
        ]
    print(*bars, sep="\n")
    return 0 if all(bar.reached for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
