"""Many clients of one sandbox, each of a customer of its own, that work at once, hour by hour.

Run with the path of its instructions (JSON). It prints one JSON object when all have an account,
and one with the latencies of every call after each hour, which begins with a line of its input.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import fundlab as fl

FUNDS = "10000.00"


class Customer:
    """One client, and what it has paid."""

    def __init__(
        self, connection: dict[str, str], profile_id: str, account: dict[str, Any]
    ) -> None:
        self.client = fl.connect(**connection)
        self.profile_id, self.name = profile_id, connection["client_id"]
        self.account_id = self.client.create_fiat_account(**account).id
        self.paid: list[Any] = []
        self.took_ms: list[float] = []

    def timed(self, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        begun = time.monotonic()
        answer = call(*given, **named)
        self.took_ms.append((time.monotonic() - begun) * 1e3)
        return answer

    def hour(self) -> list[float]:
        """Look, list, pay, and see what became of the payment before; how long each took."""
        client, profile_id = self.client, self.profile_id
        self.took_ms = []
        left = self.timed(client.get_profile_balance, profile_id, "USD").available
        assert left == Decimal(FUNDS) - sum(paid.total for paid in self.paid), (self.name, left)
        listed = self.timed(
            lambda: list(client.list_transfers(profile_ids=[profile_id], page_size=100))
        )
        assert len(listed) == len(self.paid) + 1, self.name
        if self.paid:
            before = self.timed(client.get_transfer, self.paid[-1].id)
            assert before.status == "COMPLETED", before
        paid = self.timed(
            client.create_fiat_withdrawal, fiat_account_id=self.account_id, amount="1.00",
            profile_id=profile_id, ref_id=f"{self.name}-{len(self.paid)}",
        )  # fmt: skip
        self.paid.append(paid)
        self.timed(lambda: list(client.list_events(max_rows=100, order="DESC")))
        return self.took_ms


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    customers = [Customer(**one, account=given["account"]) for one in given["customers"]]
    with ThreadPoolExecutor(len(customers)) as pool:
        print(json.dumps({"ready": len(customers)}), flush=True)
        for _ in sys.stdin:
            took_ms = [one for every in pool.map(Customer.hour, customers) for one in every]
            print(json.dumps(took_ms), flush=True)


if __name__ == "__main__":
    main()
