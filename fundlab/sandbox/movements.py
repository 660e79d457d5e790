"""Transfers: withdrawals and deposits, and what becomes of them when their time comes (§3.3)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final, Literal

from fundlab.base.values import Amount
from fundlab.models import (
    MAX_CUBIX_MEMO,
    MAX_WIRE_MEMO,
    CreateFiatWithdrawal,
    InitiateSandboxFiatDeposit,
    RoutingNumberType,
    TransferStatus,
    TransferType,
)
from fundlab.sandbox.behaviour import seconds_ns
from fundlab.sandbox.clock import NS, micros_text
from fundlab.sandbox.crypto_fees import amount_and_total, usd_value
from fundlab.sandbox.ledger import (
    CONVERSION,
    FEES,
    OUTSIDE,
    TRANSIT,
    Entry,
    available,
    held,
    total_of,
    units,
    units_text,
)  # fmt: skip
from fundlab.sandbox.refusals import insufficient_funds, invalid, not_found
from fundlab.sandbox.world import World, own_identity, seeded_uuid, to_bytes

FAILING_CENTS: Final = units(Amount("0.13"))
ONE: Final = units(Amount("1"))

SecondaryStatus = Literal[
    "TRAVEL_RULE_INFO_REQUESTED", "TRAVEL_RULE_REJECTED", "CUSTOMER_REJECTED",
    "PENDING_CUSTOMER_APPROVAL",
]  # fmt: skip
"""The names of the live deployment; there are no others."""
WHILE_PENDING: Final = ("TRAVEL_RULE_INFO_REQUESTED", "PENDING_CUSTOMER_APPROVAL")


def secondary(name: SecondaryStatus, detail: str) -> dict[str, Any]:
    """The member that tells why a transfer stands as it does (§2.4)."""
    return {"secondary_status": {"name": name, "detail": detail}}


SENT_BACK: Final = "the receiver sent the funds back (amounts ending in .13 are)"
FAILED_BY_AMOUNT: Final = {
    **secondary("CUSTOMER_REJECTED", SENT_BACK), "status_details": {"reason": SENT_BACK},
}  # fmt: skip
Row = dict[str, Any]
"""A transfer record (§2.4) as it is rendered."""


# ---------------------------------------------------------------------------- withdrawals


def create_withdrawal(world: World, customer_id: str, wanted: CreateFiatWithdrawal) -> Row:
    """Accept a fiat withdrawal and hold its total, in the caller's transaction (§4.12)."""
    world.check_ref_id("transfers", customer_id, wanted.ref_id)
    world.check_profile(customer_id, wanted.profile_id)
    world.check_end_user(customer_id, wanted.identity_id, wanted.account_id)
    kind, charge = withdrawal_terms(
        world, customer_id, wanted.fiat_account_id, wanted.identity_id, wanted.account_id
    )
    check_memo("memo", kind, wanted.memo)
    fee = units(charge)
    amount, total = amount_and_total(wanted, fee)
    spendable = world.ledger.balance(available(wanted.profile_id), wanted.asset)
    if total > spendable:
        raise insufficient_funds(
            wanted.profile_id, wanted.asset, units_text(spendable), units_text(total)
        )
    return send_out(
        world, customer_id, kind, wanted.profile_id, wanted.asset, amount, fee,
        at_ns=world.clock.now_ns(), ref_id=wanted.ref_id, identity_id=wanted.identity_id,
        account_id=wanted.account_id, fiat_account_id=wanted.fiat_account_id, memo=wanted.memo,
        metadata=wanted.metadata,
    )  # fmt: skip


def check_memo(field: str, kind: TransferType, memo: str | None) -> None:
    """Raises the 400 ``Refusal`` for a memo that is too long for the network."""
    most = MAX_CUBIX_MEMO if kind == TransferType.CUBIX_WITHDRAWAL else MAX_WIRE_MEMO
    if memo is not None and len(memo) > most:
        raise invalid(field, f"has {len(memo)} characters; at most {most} for a {kind}")


def withdrawal_terms(
    world: World,
    customer_id: str,
    fiat_account_id: str,
    identity_id: str | None,
    account_id: str | None,
) -> tuple[TransferType, Amount]:
    """Type and fee of a withdrawal to an ``APPROVED`` account that is not another end user's.
    Raises 404 or 400."""
    account = world.find("fiat_accounts", id=fiat_account_id, customer_id=customer_id)
    if account is None:
        raise not_found("fiat account", "fiat_account_id", fiat_account_id)
    if account["status"] != "APPROVED":
        raise invalid("fiat_account_id", f"the fiat account is {account['status']}, not APPROVED")
    for owner, given in (("identity_id", identity_id), ("account_id", account_id)):
        if given is not None and account.get(owner, given) != given:
            raise invalid("fiat_account_id", f"the fiat account is of another {owner}")
    wire = account["fiat_network_instructions"].get("wire")
    if wire is None:
        return TransferType.CUBIX_WITHDRAWAL, world.behaviour.cubix_fee
    routing = RoutingNumberType(wire["routing_details"]["routing_number_type"])
    return TransferType.WIRE_WITHDRAWAL, world.behaviour.wire_fee(routing)


def send_out(
    world: World,
    customer_id: str,
    kind: TransferType,
    profile_id: str,
    asset: str,
    amount: int,
    fee: int,
    *,
    at_ns: int,
    **optional: Any,
) -> Row:
    """A withdrawal made at business time ``at_ns``: ``PENDING``, its total moved from available to
    held, due a little later. Asked for by a client, or by the service itself as a rule says.
    """
    row = add_transfer(
        world, customer_id, kind, profile_id, asset, amount, fee, TransferStatus.PENDING,
        at_ns=at_ns, **optional,
    )  # fmt: skip
    total = amount + fee
    entries = [(available(profile_id), asset, -total), (held(profile_id), asset, total)]
    world.ledger.post(row["id"], entries)
    takes_ns = seconds_ns(world.behaviour.withdrawal_seconds)
    world.schedule(at_ns + takes_ns, "withdrawal", row["id"])
    return row


def finish_withdrawal(
    world: World, transfer_id: str, at_ns: int, failure: Mapping[str, Any] | None = None
) -> None:
    """A held withdrawal leaves, or its hold is given back: for ``failure``, or its amount."""
    row = read_transfer(world, transfer_id)
    asset, profile_id = row["asset"], row["profile_id"]
    amount, fee = units(Amount(row["amount"])), units(Amount(row["fee"]))
    hold: Entry = (held(profile_id), asset, -(amount + fee))
    if failure is None:
        by_amount = FAILED_BY_AMOUNT if amount % ONE == FAILING_CENTS else None
        failure = failure_by_rule(world, row) or by_amount
    if failure:
        entries = [hold, (available(profile_id), asset, amount + fee)]
        row |= failure
        state = TransferStatus.FAILED
    else:
        entries = [hold, (OUTSIDE, asset, amount), (FEES, asset, fee)]
        state = TransferStatus.COMPLETED
    world.ledger.post(transfer_id, entries)
    change_transfer(world, row, state, at_ns)


def failure_by_rule(world: World, row: Row) -> Row | None:
    """Why a transfer fails that a rule of the behaviour fits: what its record says of it."""
    draw = uuid.UUID(seeded_uuid(world.seed, row["id"], 1)).int / 2**128
    for rule in world.behaviour.failures:
        if rule.fits(row, draw):
            return {"status_details": {"reason": rule.reason}}
    return None


# ---------------------------------------------------------------------------- deposits


def initiate_deposit(
    world: World, customer_id: str, wanted: InitiateSandboxFiatDeposit, *, late_s: float = 0
) -> None:
    """A simulated fiat deposit: listed ``PENDING`` at once, completed a minute later (§4.4).

    With ``late_s`` it only shows itself that much later than it should, under its old times.
    """
    instructions = world.find(
        "fiat_deposit_instructions", memo_id=wanted.memo_id, customer_id=customer_id
    )
    if instructions is None:
        raise invalid("memo_id", "no deposit instructions carry this memo_id")
    if instructions["status"] != "VALID":
        raise invalid("memo_id", f"the deposit instructions are {instructions['status']}")
    wire = "wire" in instructions["fiat_network_instructions"]
    identity_id = instructions["identity_id"]
    optional = {
        "identity_id": None if identity_id == own_identity(customer_id) else identity_id,
        "account_id": instructions.get("account_id"),
        "metadata": instructions.get("metadata"),
        "memo": wanted.memo_id,
    }
    arrival = Arrival(
        customer_id, TransferType.WIRE_DEPOSIT if wire else TransferType.CUBIX_DEPOSIT,
        instructions["profile_id"], wanted.asset, units(wanted.amount),
        f"instructions:{instructions['id']}", optional,
    )  # fmt: skip
    receive(world, arrival, late_s=late_s)


@dataclass(frozen=True)
class Arrival:
    """Money on its way in. ``source`` is the key that orchestration rules go by."""

    customer_id: str
    kind: TransferType
    profile_id: str
    asset: str
    amount: int
    source: str
    optional: dict[str, Any]


def receive(world: World, arrival: Arrival, *, late_s: float = 0) -> None:
    """List a deposit as ``PENDING`` and let it come due; or do both late."""
    now, takes_ns = world.clock.now_ns(), seconds_ns(world.behaviour.deposit_seconds)
    if late_s:
        ordered = world.stamp(now)
        subject = json.dumps([*astuple(arrival), ordered])
        world.schedule(now + takes_ns + round(late_s * NS), "late_deposit", subject)
        return
    row = add_transfer(
        world, arrival.customer_id, arrival.kind, arrival.profile_id, arrival.asset,
        arrival.amount, 0, TransferStatus.PENDING, **arrival.optional,
    )  # fmt: skip
    world.schedule(now + takes_ns, "deposit", json.dumps([row["id"], arrival.source]))


def backdate(world: World, row: Row, created_ns: int, updated_ns: int) -> None:
    """Give a transfer times of the past, as a service does that commits it late."""
    row["created_at"], row["updated_at"] = micros_text(created_ns), micros_text(updated_ns)
    world.database.run(
        "UPDATE transfers SET created_at_ns = ?, updated_at_ns = ?, body = ? WHERE id = ?",
        created_ns, updated_ns, to_bytes(row), row["id"],
    )  # fmt: skip


def credit_entries(row: Row) -> list[Entry]:
    """The posting of a completed deposit: outside → fees and the profile, converted on the way."""
    asset, target = row["asset"], row.get("balance_asset", row["asset"])
    amount, fee = units(Amount(row["amount"])), units(Amount(row["fee"]))
    entries = [(OUTSIDE, asset, -amount), (FEES, asset, fee)]
    if target == asset:
        return [*entries, (available(row["profile_id"]), asset, amount - fee)]
    return [
        *entries,
        (CONVERSION, asset, amount - fee),
        (CONVERSION, target, fee - amount),
        (available(row["profile_id"]), target, amount - fee),
    ]


# ---------------------------------------------------------------------------- between profiles


def move_between_profiles(
    world: World, customer_id: str, asset: str, amount: int, source: str, target: str, at_ns: int,
    **optional: Any,
) -> Row:  # fmt: skip
    """Both halves of a completed internal transfer; returns the credit half."""
    group_id = seeded_uuid(world.seed, "groups", world.database.next_seq("transfers"))
    debit = add_transfer(
        world, customer_id, TransferType.INTERNAL_TRANSFER_DEBIT, source, asset, amount, 0,
        TransferStatus.COMPLETED, at_ns=at_ns, group_id=group_id, **optional,
    )  # fmt: skip
    world.ledger.post(debit["id"], [(available(source), asset, -amount), (TRANSIT, asset, amount)])
    credit = add_transfer(
        world, customer_id, TransferType.INTERNAL_TRANSFER_CREDIT, target, asset, amount, 0,
        TransferStatus.COMPLETED, at_ns=at_ns, group_id=group_id, **optional,
    )  # fmt: skip
    world.ledger.post(credit["id"], [(TRANSIT, asset, -amount), (available(target), asset, amount)])
    return credit


# ---------------------------------------------------------------------------- records


def add_transfer(
    world: World,
    customer_id: str,
    kind: TransferType,
    profile_id: str,
    asset: str,
    amount: int,
    fee: int,
    status: TransferStatus,
    *,
    at_ns: int | None = None,
    **optional: Any,
) -> Row:
    """Insert a transfer record and emit its event."""
    stamp = world.stamp(at_ns)
    row: Row = {
        "id": world.new_id("transfers"),
        "ref_id": optional.pop("ref_id", None),
        "customer_id": customer_id,
        "profile_id": profile_id,
        "amount": units_text(amount),
        "fee": units_text(fee),
        "total": units_text(total_of(kind.direction, amount, fee)),
        "asset": asset,
        "direction": str(kind.direction),
        "type": str(kind),
        "status": str(status),
        "created_at": micros_text(stamp),
        "updated_at": micros_text(stamp),
        **optional,
    }
    if "crypto_network" in row:
        row["notional_value"] = usd_value(asset, amount + fee)
    row = {name: value for name, value in row.items() if value is not None}
    filtered = ("identity_id", "account_id", "ref_id", "group_id", "crypto_tx_hash")
    world.database.insert(
        "transfers", id=row["id"], customer_id=customer_id, created_at_ns=stamp,
        updated_at_ns=stamp, profile_id=profile_id, type=row["type"], status=row["status"],
        body=to_bytes(row), **{name: row.get(name) for name in filtered},
    )  # fmt: skip
    _emit_change(world, row, stamp)
    return row


def link_conversion(world: World, deposit: Row, to_transfer_id: str) -> None:
    """Note on a deposit that is being completed where the converted money goes.

    It is part of its completion, in the same transaction: no change and no event of its own.
    """
    deposit["auto_conversion"] = {**deposit["auto_conversion"], "to_transfer_id": to_transfer_id}
    world.database.run(
        "UPDATE transfers SET body = ? WHERE id = ?", to_bytes(deposit), deposit["id"]
    )


def change_transfer(world: World, row: Row, status: TransferStatus, at_ns: int) -> None:
    """Give a transfer its new status at business time ``at_ns`` and emit the event."""
    stamp = world.stamp(at_ns)
    if row.get("secondary_status", {}).get("name") in WHILE_PENDING:
        del row["secondary_status"]
    row["status"], row["updated_at"] = str(status), micros_text(stamp)
    world.database.run(
        "UPDATE transfers SET updated_at_ns = ?, status = ?, secondary = ?, body = ? WHERE id = ?",
        stamp, row["status"], row.get("secondary_status", {}).get("name"), to_bytes(row), row["id"],
    )  # fmt: skip
    _emit_change(world, row, stamp)


def read_transfer(world: World, transfer_id: str) -> Row:
    row = world.find("transfers", id=transfer_id)
    if row is None:
        raise not_found("transfer", "id", transfer_id)
    return row


def _emit_change(world: World, row: Row, stamp: int) -> None:
    names = ("id", "type", "status", "profile_id", "ref_id")
    payload = {name: row[name] for name in names if name in row}
    kind = f"transfer.{row['type'].lower()}.{row['status'].lower()}"
    world.emit(row["customer_id"], kind, "transfer_status_change", payload, stamp)
