"""Orchestration rules: what arrives at a source is converted 1:1, and may be sent on (§2.6)."""

from __future__ import annotations

from typing import Any, Final

from fundlab.base.values import Amount
from fundlab.models import (
    CreateDepositAddress,
    CreateFiatDepositInstructions,
    CreateOrchestrationRule,
    TransferType,
)
from fundlab.models.json_schema import ABSENT, Constraint, Schema
from fundlab.models.requests import CryptoSource, FiatSource, RuleDestination
from fundlab.sandbox.accounts_and_addresses import (
    ON_NETWORKS,
    check_address,
    create_deposit_address,
    create_instructions,
)
from fundlab.sandbox.clock import micros_text
from fundlab.sandbox.crypto_fees import crypto_withdrawal_fee
from fundlab.sandbox.ledger import MAX_UNITS, SCALE, units
from fundlab.sandbox.movements import (
    check_memo,
    link_conversion,
    move_between_profiles,
    send_out,
    withdrawal_terms,
)
from fundlab.sandbox.refusals import Refusal, conflict, invalid, not_found
from fundlab.sandbox.world import World, to_bytes

Rule = dict[str, Any]
CENT: Final = SCALE // 100

ASSETS_OF_ENDS: Final = tuple(
    Constraint(
        {
            "if": {"properties": {f"{end}_asset": {"const": "USD"}}},
            "then": {"properties": {end: {"properties": {"crypto": ABSENT}}}},
            "else": {"properties": {end: {"properties": {"fiat": ABSENT}}}},
        },
        f"{end}_asset must be USD where the {end} is fiat, and a stablecoin where it is crypto",
    )
    for end in ("source", "destination")
)
"""USD arrives and leaves by bank, the stablecoins on chain."""
RULE_RULES: Final[list[Schema]] = [
    *(constraint.schema for constraint in ASSETS_OF_ENDS),
    *(
        {
            "if": {"properties": {"destination": {"properties": {"crypto": {"properties": {
                "network": networks}}}, "required": ["crypto"]}}, "required": ["destination"]},
            "then": {"properties": {"destination": {"properties": {"crypto": {"properties": {
                "address": address}}}}}},
        }
        for networks, address in ON_NETWORKS
    ),
]  # fmt: skip
"""What ``create_rule`` takes beside the interface, in JSON Schema."""


def create_rule(world: World, customer_id: str, wanted: CreateOrchestrationRule) -> Rule:
    """§4.14; returns the bare rule."""
    world.check_ref_id("rules", customer_id, wanted.ref_id)
    world.check_profile(customer_id, wanted.profile_id)
    world.check_end_user(customer_id, wanted.identity_id, wanted.account_id)
    for constraint in ASSETS_OF_ENDS:
        try:
            constraint.check(wanted.to_json())
        except ValueError as error:
            field, _, message = str(error).partition(" ")
            raise invalid(field, message) from None
    destination = wanted.destination or RuleDestination.model_construct()
    if destination.profile is not None:
        world.check_profile(customer_id, destination.profile.profile_id)
    elif destination.fiat is not None:
        kind, _ = withdrawal_terms(
            world, customer_id, destination.fiat.fiat_account_id, wanted.identity_id,
            wanted.account_id,
        )  # fmt: skip
        check_memo("destination.fiat.memo", kind, destination.fiat.memo)
    elif destination.crypto is not None:
        crypto = destination.crypto
        if crypto.address is not None:
            check_address("destination.crypto.address", crypto.network, crypto.address)
    key, source = source_of(world, customer_id, wanted)
    asset = str(wanted.source_asset)
    existing = world.find("rules", source=key, source_asset=asset)
    if existing is not None:
        raise conflict("an active rule for this source and asset exists", existing)
    stamp = world.stamp()
    rule = {
        "id": world.new_id("rules"),
        **wanted.to_json(),
        "source": source,
        "status": "ACTIVE",
        "created_at": micros_text(stamp),
    }
    world.database.insert(
        "rules", id=rule["id"], customer_id=customer_id, created_at_ns=stamp,
        ref_id=wanted.ref_id, profile_id=wanted.profile_id, source=key, source_asset=asset,
        body=to_bytes(rule),
    )  # fmt: skip
    payload = {"id": rule["id"], "ref_id": wanted.ref_id, "status": "ACTIVE"}
    world.emit(customer_id, "orchestration_rule.active", "orchestration_rule", payload, stamp)
    return rule


def find_rule(world: World, source: str, profile_id: str, asset: str) -> Rule | None:
    """The rule for what arrives at ``source``; one for the whole profile comes second."""
    own = world.find("rules", source=source, source_asset=asset)
    return own or world.find("rules", source=f"profile:{profile_id}", source_asset=asset)


def pass_on(world: World, rule: Rule, deposit: Rule, at_ns: int) -> None:
    """Send what was converted to the rule's destination, if it names one elsewhere.

    A destination that names a network without an address leaves the money with the profile.
    """
    destination = rule.get("destination") or {}
    asset, amount = rule["destination_asset"], units(Amount(deposit["total"]))
    customer_id, profile_id = deposit["customer_id"], rule["profile_id"]
    user = {name: rule.get(name) for name in ("identity_id", "account_id")}
    passed: Rule | None = None
    if profile := destination.get("profile"):
        target = profile["profile_id"]
        has_room = world.ledger.all_of(target, asset) + amount <= MAX_UNITS
        if target != profile_id and has_room:
            passed = move_between_profiles(
                world, customer_id, asset, amount, profile_id, target, at_ns, **user
            )
    elif (crypto := destination.get("crypto")) and "address" in crypto:
        fee = units(crypto_withdrawal_fee(asset, crypto["network"], world.behaviour.network_fees))
        if amount > fee:
            passed = send_out(
                world, customer_id, TransferType.CRYPTO_WITHDRAWAL, profile_id, asset,
                amount - fee, fee, at_ns=at_ns, crypto_network=crypto["network"],
                destination_address=crypto["address"], **user,
            )  # fmt: skip
    elif fiat := destination.get("fiat"):
        try:
            kind, charge = withdrawal_terms(world, customer_id, fiat["fiat_account_id"], **user)
        except Refusal:  # no longer APPROVED: the money stays with the profile
            return
        fee = units(charge)
        amount -= amount % CENT  # by bank whole cents go out; the rest stays with the profile
        if amount > fee:
            passed = send_out(
                world, customer_id, kind, profile_id, asset, amount - fee, fee, at_ns=at_ns,
                fiat_account_id=fiat["fiat_account_id"], memo=fiat.get("memo"), **user,
            )  # fmt: skip
    if passed is not None:
        link_conversion(world, deposit, passed["id"])


# ---------------------------------------------------------------------------- ends


def _check_named(variant: str, end: FiatSource | CryptoSource, found: dict[str, str]) -> None:
    """Whatever else the request says of a source is true of the one that was found."""
    for name in type(end).model_fields:
        given = getattr(end, name)
        if given is not None and given != found.get(name):
            own = found.get(name, "none")
            raise invalid(f"source.{variant}.{name}", f"does not fit the source, whose is {own}")


def source_of(
    world: World, customer_id: str, wanted: CreateOrchestrationRule
) -> tuple[str, dict[str, Any]]:
    """The key of a source and the source as it is returned. Raises 400 or 404."""
    if (profile := wanted.source.profile) is not None:
        world.check_profile(customer_id, profile.profile_id)
        if profile.profile_id != wanted.profile_id:
            raise invalid("source.profile.profile_id", "must be the rule's own profile_id")
        return f"profile:{profile.profile_id}", {"profile": {"profile_id": profile.profile_id}}
    if (fiat := wanted.source.fiat) is not None:
        # existing deposit instructions by id or memo, or new ones for a network
        if fiat.deposit_instructions_id is not None or fiat.memo_id is not None:
            column = "memo_id" if fiat.deposit_instructions_id is None else "id"
            value = fiat.deposit_instructions_id or fiat.memo_id or ""
            instructions = _owned(
                world, "fiat_deposit_instructions", column, value, customer_id, wanted.profile_id
            )
        else:
            new = {
                "profile_id": wanted.profile_id, "fiat_network": fiat.network,
                "routing_number_type": fiat.account_type,
                "identity_id": wanted.identity_id, "account_id": wanted.account_id,
            }  # fmt: skip
            given = {name: value for name, value in new.items() if value is not None}
            instructions = create_instructions(
                world, customer_id, CreateFiatDepositInstructions.model_validate(given)
            )
        wire = instructions["fiat_network_instructions"].get("wire")
        source = {
            "deposit_instructions_id": instructions["id"],
            "network": "WIRE" if wire else "CUBIX",
            "memo_id": instructions["memo_id"],
        }
        if wire:
            source["account_type"] = wire["routing_details"]["routing_number_type"]
        _check_named("fiat", fiat, source)
        return f"instructions:{instructions['id']}", {"fiat": source}
    crypto = wanted.source.crypto
    assert crypto is not None  # noqa: S101 - exactly one of the three
    # an existing deposit address by id or address, or a new one on a network
    if crypto.address_id is not None or crypto.address is not None:
        column = "address" if crypto.address_id is None else "id"
        value = crypto.address_id or crypto.address or ""
        address = _owned(world, "deposit_addresses", column, value, customer_id, wanted.profile_id)
    else:
        asked = {
            "profile_id": wanted.profile_id, "crypto_network": crypto.network,
            "identity_id": wanted.identity_id, "account_id": wanted.account_id,
        }  # fmt: skip
        given = {name: value for name, value in asked.items() if value is not None}
        address = create_deposit_address(
            world, customer_id, CreateDepositAddress.model_validate(given)
        )
    source = {
        "address_id": address["id"],
        "address": address["address"],
        "network": address["crypto_network"],
    }
    _check_named("crypto", crypto, source)
    return f"address:{address['id']}", {"crypto": source}


def _owned(
    world: World, table: str, column: str, value: str, customer_id: str, profile_id: str
) -> dict[str, Any]:
    """The named source, which must belong to the rule's profile."""
    owned = world.find(table, **{column: value}, customer_id=customer_id)
    if owned is None:
        raise not_found("source", "source", value)
    if owned["profile_id"] != profile_id:
        raise invalid("source", "belongs to another profile")
    return owned
