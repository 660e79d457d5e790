"""Many clients of one sandbox, each of a customer of its own, at work for as long as they are told.

Run with the path of its instructions (JSON). It prints one JSON object when all have their money
and an account, and one at the end: each call's moment and latency, and what failed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fundlab as fl

FUNDS, CALLS_A_ROUND = "10000.00", 5


class Customer:
    """One client: what it did and expects."""

    def __init__(
        self, connection: dict[str, str], profile_id: str, account: dict[str, Any]
    ) -> None:
        self.client = fl.connect(**connection)
        self.profile_id, self.name = profile_id, connection["client_id"]
        self.account_id = self.client.create_fiat_account(**account).id
        self.calls: list[tuple[float, float]] = []
        self.paid: list[Any] = []
        self.failure: str | None = None

    def timed(self, call: Any, *given: Any, **named: Any) -> Any:
        begun = time.monotonic()
        answer = call(*given, **named)
        self.calls.append((begun, time.monotonic() - begun))
        return answer

    def hour(self, number: int) -> None:
        """Look, list, pay, and see what became of the payment before."""
        client, profile_id = self.client, self.profile_id
        left = self.timed(client.get_profile_balance, profile_id, "USD").available
        assert left == Decimal(FUNDS) - sum(paid.total for paid in self.paid), (
            self.name,
            number,
            left,
        )
        listed = self.timed(
            lambda: list(client.list_transfers(profile_ids=[profile_id], page_size=100))
        )
        assert len(listed) == len(self.paid) + 1
        if self.paid:
            assert self.timed(client.get_transfer, self.paid[-1].id).status == "COMPLETED"
        self.paid.append(
            self.timed(
                client.create_fiat_withdrawal, fiat_account_id=self.account_id, amount="1.00",
                profile_id=profile_id, ref_id=f"{self.name}-{number}",
            )
        )  # fmt: skip
        self.timed(lambda: list(client.list_events(max_rows=100, order="DESC")))

    def work(self, begin: float, hour_s: float, hours: int) -> None:
        try:
            for number in range(hours):
                time.sleep(max(0.0, begin + number * hour_s - time.monotonic()))
                self.hour(number)
        except BaseException as error:  # noqa: BLE001 - told to who started this program
            self.failure = f"{self.name}: {error!r}"


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    customers = [Customer(**one, account=given["account"]) for one in given["customers"]]
    print(json.dumps({"ready": len(customers)}), flush=True)
    sys.stdin.readline()
    begin, hour_s, hours = time.monotonic(), given["hour_s"], given["hours"]
    # one after another through the hour
    threads = [
        threading.Thread(
            target=customer.work,
            args=(begin + number * hour_s / len(customers), hour_s, hours),
        )
        for number, customer in enumerate(customers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls = sorted(
        (begun - begin, took) for customer in customers for begun, took in customer.calls
    )
    failures = [customer.failure for customer in customers if customer.failure]
    print(json.dumps({"calls": calls, "failures": failures}), flush=True)


if __name__ == "__main__":
    main()
