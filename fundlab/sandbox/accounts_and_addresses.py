"""Where money comes from and goes to: fiat accounts, deposit instructions, crypto addresses."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final

from pydantic import ValidationError

from fundlab.models import (
    CreateDepositAddress,
    CreateFiatAccount,
    CreateFiatDepositInstructions,
    CryptoNetwork,
    FiatNetwork,
    InstructionsInput,
    RoutingNumberType,
    StableAsset,
    UpdateFiatAccount,
)
from fundlab.models.json_schema import Schema
from fundlab.models.requests import changed_instructions
from fundlab.sandbox.behaviour import seconds_ns
from fundlab.sandbox.clock import micros_text
from fundlab.sandbox.database import Database
from fundlab.sandbox.refusals import invalid
from fundlab.sandbox.world import World, own_identity, seeded_uuid, to_bytes

REJECTED_ROUTING: Final = ("000000000", "XXXXXXXX")
MASK_KEEPS: Final = 4

Resource = dict[str, Any]

# ---------------------------------------------------------------------------- fiat accounts


def create_fiat_account(world: World, customer_id: str, wanted: CreateFiatAccount) -> Resource:
    """§4.8: ``PENDING``, reviewed ten seconds later."""
    world.check_ref_id("fiat_accounts", customer_id, wanted.ref_id)
    world.check_end_user(customer_id, wanted.identity_id, wanted.account_id)
    given = wanted.to_json()
    stamp = world.stamp()
    account = {
        "id": world.new_id("fiat_accounts"),
        **given,
        "fiat_network_instructions": returned_instructions(given["fiat_network_instructions"]),
        "status": "PENDING",
        "created_at": micros_text(stamp),
        "updated_at": micros_text(stamp),
    }
    insert_fiat_account(world.database, customer_id, account, stamp)
    _emit_account(world, customer_id, account, stamp)
    review_later(world, account["id"], 1)
    return account


def insert_fiat_account(
    database: Database, customer_id: str, account: Resource, created_ns: int
) -> None:
    database.insert(
        "fiat_accounts", id=account["id"], customer_id=customer_id, created_at_ns=created_ns,
        ref_id=account.get("ref_id"), status=account["status"], body=to_bytes(account),
        listed=to_bytes(as_listed(account)),
    )  # fmt: skip


def update_fiat_account(
    world: World, customer_id: str, account_id: str, wanted: UpdateFiatAccount
) -> Resource:
    """§4.10: back to ``PENDING`` and reviewed again; the owner's kind stays, and so does what is
    not given of network instructions of the same kind (live)."""
    account: Resource = json.loads(
        world.get("fiat_accounts", "fiat account", customer_id, account_id)
    )
    changes = wanted.to_json()
    owner = changes.get("fiat_account_owner")
    if owner is not None and _owner_kind(owner) != _owner_kind(account["fiat_account_owner"]):
        raise invalid("fiat_account_owner", "a person cannot become an institution or vice versa")
    if "fiat_network_instructions" in changes:
        instructions = changed_instructions(
            account["fiat_network_instructions"],
            returned_instructions(changes["fiat_network_instructions"]),
        )
        try:
            InstructionsInput.model_validate(instructions)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_input=False, include_context=False)
            lacking = [".".join(map(str, one["loc"])) for one in faults if one["type"] == "missing"]
            if lacking:  # what stays of the account, made under laxer rules maybe, is as it is
                detail = f"{', '.join(lacking)} is missing, and the account has none"
                raise invalid("fiat_network_instructions", detail) from None
        changes["fiat_network_instructions"] = instructions
    stamp = world.stamp()
    account |= {**changes, "status": "PENDING", "updated_at": micros_text(stamp)}
    world.database.run("UPDATE fiat_accounts SET version = version + 1 WHERE id = ?", account["id"])
    _store_account(world, customer_id, account, stamp)
    stored = world.database.one("SELECT version FROM fiat_accounts WHERE id = ?", account["id"])
    review_later(world, account["id"], stored[0] if stored else 0)
    return account


def review_later(world: World, account_id: str, version: int) -> None:
    takes_ns = seconds_ns(world.behaviour.review_seconds)
    world.schedule(world.clock.now_ns() + takes_ns, "review", f"{account_id} {version}")


def review_fiat_account(world: World, subject: str, at_ns: int) -> None:
    """Approve or reject, unless the account was updated since this review was ordered."""
    account_id, version = subject.split(" ")
    stored = world.database.one(
        "SELECT customer_id, body, version FROM fiat_accounts WHERE id = ?", account_id
    )
    if stored is None or stored[2] != int(version):
        return
    account = json.loads(stored[1])
    wire = account["fiat_network_instructions"].get("wire") or {}
    number = (wire.get("routing_details") or {}).get("routing_number")
    stamp = world.stamp(at_ns)
    account["status"] = "REJECTED" if number in REJECTED_ROUTING else "APPROVED"
    account["updated_at"] = micros_text(stamp)
    _store_account(world, stored[0], account, stamp)


def _store_account(world: World, customer_id: str, account: Resource, stamp: int) -> None:
    world.database.run(
        "UPDATE fiat_accounts SET status = ?, body = ?, listed = ? WHERE id = ?",
        account["status"], to_bytes(account), to_bytes(as_listed(account)), account["id"],
    )  # fmt: skip
    _emit_account(world, customer_id, account, stamp)


def _emit_account(world: World, customer_id: str, account: Resource, stamp: int) -> None:
    payload = {"id": account["id"], "status": account["status"]}
    payload |= {name: account[name] for name in ("ref_id", "identity_id") if name in account}
    kind = f"fiat_account.{account['status'].lower()}"
    world.emit(customer_id, kind, "fiat_account_status_change", payload, stamp)


def returned_instructions(given: Resource) -> Resource:
    """Network instructions as the service returns them: CUBIX always as ``cubix.account_id``."""
    if "wallet_address" not in given:
        return given
    return {"cubix": {"account_id": given["wallet_address"]}}


def as_listed(account: Resource) -> Resource:
    """What the list shows: the number's last four characters, and nothing about the owner but the
    country, which the live deployment's document requires."""
    shown = {name: value for name, value in account.items() if name != "fiat_account_owner"}
    instructions = dict(account["fiat_network_instructions"])
    for kind, name in (("wire", "account_number"), ("cubix", "account_id")):
        if instructions.get(kind):
            part = dict(instructions[kind])
            country = part.pop("fiat_account_owner_address", {}).get("country")
            if country is not None:
                part["fiat_account_owner_address"] = {"country": country}
            number = part.get(name) or ""
            part[name] = "X" * max(len(number) - MASK_KEEPS, 0) + number[-MASK_KEEPS:]
            instructions[kind] = part
    return {**shown, "fiat_network_instructions": instructions}


def _owner_kind(owner: Resource) -> str:
    return "person" if owner.get("person_details") else "institution"


# ---------------------------------------------------------------------------- deposit instructions


def create_instructions(
    world: World, customer_id: str, wanted: CreateFiatDepositInstructions
) -> Resource:
    """§4.1: ``VALID``, with a memo id of its own."""
    world.check_ref_id("fiat_deposit_instructions", customer_id, wanted.ref_id)
    world.check_profile(customer_id, wanted.profile_id)
    world.check_end_user(customer_id, wanted.identity_id, wanted.account_id)
    stamp = world.stamp()
    number = world.database.next_seq("fiat_deposit_instructions")
    instructions = {
        **render_instructions(
            world.seed, number, wanted.profile_id, customer_id, wanted.fiat_network,
            wanted.routing_number_type, micros_text(stamp),
        ),
        "identity_id": wanted.identity_id or own_identity(customer_id),
        "account_id": wanted.account_id,
        "ref_id": wanted.ref_id,
        "metadata": wanted.metadata,
    }  # fmt: skip
    insert_instructions(world.database, customer_id, instructions, stamp)
    return instructions


def insert_instructions(
    database: Database, customer_id: str, rendered: Resource, created_ns: int
) -> None:
    database.insert(
        "fiat_deposit_instructions", id=rendered["id"], customer_id=customer_id,
        created_at_ns=created_ns, ref_id=rendered.get("ref_id"), memo_id=rendered["memo_id"],
        profile_id=rendered["profile_id"], body=to_bytes(rendered),
    )  # fmt: skip


def render_instructions(
    seed: int,
    number: int,
    profile_id: str,
    customer_id: str,
    network: FiatNetwork,
    routing: RoutingNumberType | None,
    created_at: str,
) -> Resource:
    """Deposit instructions number ``number`` of a seed."""
    digest = hashlib.blake2b(f"{seed}/memo/{number}".encode(), digest_size=16).hexdigest()
    return {
        "id": seeded_uuid(seed, "fiat_deposit_instructions", number),
        "profile_id": profile_id,
        "identity_id": own_identity(customer_id),
        "customer_id": customer_id,
        "status": "VALID",
        "memo_id": f"MEMO{digest[:12].upper()}",
        "fiat_network_instructions": receiving_bank(network, routing, profile_id, digest),
        "fiat_account_owner": {"institution_details": {"name": "Fundlab Sandbox Trust"}},
        "created_at": created_at,
    }


def receiving_bank(
    network: FiatNetwork, routing: RoutingNumberType | None, profile_id: str, digest: str
) -> Resource:
    """Where deposits are to be sent."""
    if network is FiatNetwork.CUBIX:
        return {"cubix": {"account_id": f"CUBIX-{digest[12:24].upper()}"}}
    address = {
        "country": "USA", "address1": "1 Liberty Plaza", "city": "New York",
        "province": "NY", "zip_code": "10006",
    }  # fmt: skip
    return {
        "wire": {
            "account_number": str(int(profile_id[:8], 16)).zfill(10),
            "fiat_account_owner_address": address,
            "routing_details": {
                "routing_number_type": str(routing),
                "routing_number": "SBOXUS33" if routing == "SWIFT" else "021000021",
                "bank_name": "Sandbox National Bank",
                "bank_address": address,
            },
        }
    }


# ---------------------------------------------------------------------------- crypto addresses

EVM_NETWORKS: Final = (
    CryptoNetwork.ETHEREUM, CryptoNetwork.POLYGON_POS, CryptoNetwork.BASE,
    CryptoNetwork.ARBITRUM_ONE, CryptoNetwork.INK, CryptoNetwork.XLAYER,
)  # fmt: skip


def create_deposit_address(
    world: World, customer_id: str, wanted: CreateDepositAddress
) -> Resource:
    """§4.13."""
    world.check_ref_id("deposit_addresses", customer_id, wanted.ref_id)
    world.check_profile(customer_id, wanted.profile_id)
    world.check_end_user(customer_id, wanted.identity_id, wanted.account_id)
    stamp = world.stamp()
    number = world.database.next_seq("deposit_addresses")
    network = wanted.crypto_network
    compatible = EVM_NETWORKS if network in EVM_NETWORKS else (network,)
    address = {
        "id": world.new_id("deposit_addresses"),
        "profile_id": wanted.profile_id,
        "customer_id": customer_id,
        "ref_id": wanted.ref_id,
        "identity_id": wanted.identity_id,
        "account_id": wanted.account_id,
        "crypto_network": str(network),
        "address": crypto_address(network, f"{world.seed}/deposit/{number}"),
        "conversion_target_asset": wanted.conversion_target_asset or "NO_CONVERSION",
        "compatible_crypto_networks": [str(entry) for entry in compatible],
        "metadata": wanted.metadata,
        "created_at": micros_text(stamp),
    }
    world.database.insert(
        "deposit_addresses", id=address["id"], customer_id=customer_id, created_at_ns=stamp,
        ref_id=wanted.ref_id, address=address["address"], profile_id=wanted.profile_id,
        body=to_bytes(address),
    )  # fmt: skip
    return address


def conversion_target(world: World, source: str, asset: str) -> str | None:
    """What ``asset`` becomes by itself when it arrives at the deposit address ``source``."""
    address = world.find("deposit_addresses", id=source.removeprefix("address:")) or {}
    wanted = address.get("conversion_target_asset")
    return "USD" if wanted == "USD" and asset in set(StableAsset) else None


def add_destination_address(
    database: Database,
    seed: int,
    customer_id: str,
    created_ns: int,
    network: CryptoNetwork,
    address: str | None = None,
    nickname: str | None = None,
    bookmarked: bool = False,
    identity_id: str | None = None,
) -> Resource:
    """A saved destination address (§2.8); only seed data and the control interface add them."""
    number = database.next_seq("destination_addresses")
    saved: Resource = {
        "id": seeded_uuid(seed, "destination_addresses", number),
        "crypto_network": network.value,
        "address": address or crypto_address(network, f"{seed}/destination/{number}"),
        "nickname": nickname or f"{network.lower()} {number}",
        "status": "APPROVED",
        "created_at": micros_text(created_ns),
        "bookmarked": bookmarked,
        "identity_id": identity_id,
    }
    database.insert(
        "destination_addresses", id=saved["id"], customer_id=customer_id,
        created_at_ns=created_ns, crypto_network=network.value, address=saved["address"],
        nickname=saved["nickname"], bookmarked=int(bookmarked), identity_id=identity_id,
        body=to_bytes(saved),
    )  # fmt: skip
    return saved


_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE32: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
ADDRESS_PATTERNS: Final[dict[CryptoNetwork, str]] = {
    **dict.fromkeys(EVM_NETWORKS, "0x[0-9a-fA-F]{40}"),
    CryptoNetwork.BITCOIN: f"(bc|tb)1[{_BASE32}]{{11,71}}|[123mn][{_BASE58}]{{25,34}}",
    CryptoNetwork.LITECOIN: f"t?ltc1[{_BASE32}]{{11,71}}|[23LMmn][{_BASE58}]{{25,34}}",
    CryptoNetwork.BITCOIN_CASH: (
        f"((bitcoincash|bchtest):)?[qp][{_BASE32}]{{41}}|[123mn][{_BASE58}]{{25,34}}"
    ),
    CryptoNetwork.SOLANA: f"(?!(bc|tb|ltc)1)[{_BASE58}]{{40,44}}",
    CryptoNetwork.STELLAR: "G[A-Z2-7]{55}",
}
"""How an address of each network is spelled, of a test network too; checksums are not checked."""
ON_NETWORKS: Final[list[tuple[Schema, Schema]]] = [
    (
        {"enum": [network.value for network in CryptoNetwork if ADDRESS_PATTERNS[network] == own]},
        {"type": "string", "pattern": f"^({own})$"},
    )
    for own in dict.fromkeys(ADDRESS_PATTERNS.values())
]
"""Networks and the addresses on them, in JSON Schema."""


def check_address(field: str, network: str, address: str) -> None:
    """Raises the 400 ``Refusal`` for an address that is of another network, or of none."""
    if re.fullmatch(ADDRESS_PATTERNS[CryptoNetwork(network)], address) is None:
        raise invalid(field, f"{address[:80]!a} is not an address of {network}")


def crypto_address(network: CryptoNetwork, source: str) -> str:
    """An address in the style of its network, derived from ``source``; it exists on no chain."""
    digest = hashlib.sha512(source.encode()).digest()
    if network in EVM_NETWORKS:
        return "0x" + digest[:20].hex()
    base58 = "".join(_BASE58[byte % 58] for byte in digest)
    base32 = "".join(_BASE32[byte % 32] for byte in digest)
    if network is CryptoNetwork.BITCOIN:
        return "bc1q" + base32[:38]
    if network is CryptoNetwork.LITECOIN:
        return "ltc1q" + base32[:38]
    if network is CryptoNetwork.BITCOIN_CASH:
        return "bitcoincash:q" + base32[:41]
    if network is CryptoNetwork.STELLAR:
        return "G" + base32[:55].upper().replace("0", "B").replace("8", "C").replace("9", "D")
    return base58[:44]
