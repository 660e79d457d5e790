"""What happens by itself as business time goes on: deposits, withdrawals and reviews come due.

Due work is settled before every request and after every move of the clock, in order of its time,
so that the same requests at the same business times always have the same outcome.
"""

from __future__ import annotations

import json
from typing import Final

from fundlab.models import TransferStatus, TransferType
from fundlab.sandbox.accounts_and_addresses import conversion_target, review_fiat_account
from fundlab.sandbox.behaviour import seconds_ns
from fundlab.sandbox.ledger import Overdrawn
from fundlab.sandbox.movements import (
    Arrival,
    add_transfer,
    backdate,
    change_transfer,
    credit_entries,
    failure_by_rule,
    finish_withdrawal,
    read_transfer,
)
from fundlab.sandbox.orchestration import find_rule, pass_on
from fundlab.sandbox.world import World

FAILED_BY_SIZE: Final = {"status_details": {"reason": "the balance would exceed 20 integer digits"}}


def settle(world: World) -> None:
    """Do everything that is due by now, oldest first."""
    database = world.database
    with database.lock:
        now = world.clock.now_ns()
        first = database.one("SELECT min(at_ns) FROM due")
        if first is None or first[0] is None or first[0] > now:
            return
        with database.transaction():
            while work := database.one(
                "SELECT seq, at_ns, kind, subject FROM due WHERE at_ns <= ? "
                "ORDER BY at_ns, seq LIMIT 1",
                now,
            ):
                seq, at_ns, kind, subject = work
                database.run("DELETE FROM due WHERE seq = ?", seq)
                if kind == "deposit":
                    transfer_id, source = json.loads(subject)
                    finish_deposit(world, transfer_id, source, at_ns)
                elif kind == "late_deposit":
                    *arrival, ordered_ns = json.loads(subject)
                    finish_late_deposit(world, Arrival(*arrival), ordered_ns, at_ns)
                elif kind == "withdrawal":
                    finish_withdrawal(world, subject, at_ns)
                elif kind == "review":
                    review_fiat_account(world, subject, at_ns)
                else:
                    raise ValueError(f"unknown due work {kind!r}")


def finish_deposit(world: World, transfer_id: str, source: str, at_ns: int) -> None:
    """A deposit arrives: credited as it is, or converted by the rule for its source."""
    row = read_transfer(world, transfer_id)
    if failure := failure_by_rule(world, row):
        change_transfer(world, row | failure, TransferStatus.FAILED, at_ns)
        return
    rule = find_rule(world, source, row["profile_id"], row["asset"])
    target = rule["destination_asset"] if rule else conversion_target(world, source, row["asset"])
    if target is not None:
        row["balance_asset"] = target
        row["auto_conversion"] = {"from_transfer_id": row["id"], "to_transfer_id": row["id"]}
    try:
        world.ledger.post(transfer_id, credit_entries(row))
    except Overdrawn:
        row.pop("balance_asset", None)
        row.pop("auto_conversion", None)
        row |= FAILED_BY_SIZE
        change_transfer(world, row, TransferStatus.FAILED, at_ns)
        return
    change_transfer(world, row, TransferStatus.COMPLETED, at_ns)
    if rule is not None:
        pass_on(world, rule, row, at_ns)


def finish_late_deposit(world: World, late: Arrival, ordered_ns: int, at_ns: int) -> None:
    """A deposit committed late: it appears completed, under the times it should have had."""
    row = add_transfer(
        world, late.customer_id, TransferType(late.kind), late.profile_id, late.asset, late.amount,
        0, TransferStatus.PENDING, at_ns=at_ns, **late.optional,
    )  # fmt: skip
    finish_deposit(world, row["id"], late.source, at_ns)
    takes_ns = seconds_ns(world.behaviour.deposit_seconds)
    backdate(world, read_transfer(world, row["id"]), ordered_ns, ordered_ns + takes_ns)
