"""Who and what the seeded history is about: profiles, end users, accounts and addresses."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

from fundlab.models import CryptoNetwork, FiatNetwork, RoutingNumberType
from fundlab.sandbox.accounts_and_addresses import (
    add_destination_address,
    insert_fiat_account,
    insert_instructions,
    render_instructions,
)
from fundlab.sandbox.clock import DAY_NS, NS, micros_text
from fundlab.sandbox.database import Database
from fundlab.sandbox.world import seeded_uuid

FIRST_NAMES: Final = ("Ada", "Grace", "Alan", "Mary", "Edsger", "Barbara", "Donald", "Radia")
LAST_NAMES: Final = (
    "Okafor", "Lindqvist", "Moreau", "Tanaka", "Garcia", "Novak", "Haddad", "Reyes",
)  # fmt: skip
COMPANIES: Final = (
    "Northwind Trading",
    "Blue Harbor",
    "Kestrel Capital",
    "Juniper Labs",
    "Meridian",
)
DEPARTMENTS: Final = ("treasury", "payroll", "settlement", "refunds")
REQUIRED_DOCUMENTS: Final = ("TAX_IDENTIFICATION", "PROOF_OF_RESIDENCY", "PROOF_OF_FUNDS")


@dataclass(frozen=True)
class EndUser:
    identity_id: str
    account_id: str
    approved_ns: int


@dataclass(frozen=True)
class SavedAccount:
    """A fiat account that withdrawals may target from ``since_ns`` on. ``kind`` as in its fees."""

    id: str
    kind: str
    since_ns: int


@dataclass
class People:
    """The cast, in order of appearance."""

    seed: int
    customer_id: str
    profile_ids: list[str]
    users: list[EndUser] = field(default_factory=list)
    accounts: list[SavedAccount] = field(default_factory=list)
    instructions: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    addresses: dict[CryptoNetwork, list[str]] = field(default_factory=dict)


def seed_people(database: Database, seed: int, profiles: int, start_ns: int, users: int) -> People:
    """Profiles and end users: they are there in an empty sandbox, too."""
    customer_id = seeded_uuid(seed, "customers", 1)
    people = People(
        seed, customer_id, [seeded_uuid(seed, "profiles", n + 1) for n in range(profiles)]
    )
    database.run_many(
        "INSERT INTO profiles (id, customer_id) VALUES (?, ?)",
        [(profile_id, customer_id) for profile_id in people.profile_ids],
    )
    for number in range(1, users + 1):
        identity_id = seeded_uuid(seed, "identities", number)
        account_id = seeded_uuid(seed, "end_user_accounts", number)
        # the first is there from the start, the others join over nine months
        approved_ns = start_ns + (number - 1) * 270 * DAY_NS // users // 1000 * 1000
        people.users.append(EndUser(identity_id, account_id, approved_ns))
    database.run_many(
        "INSERT INTO identities (id, customer_id, status, account_id) VALUES (?, ?, ?, ?)",
        [(user.identity_id, customer_id, "APPROVED", user.account_id) for user in people.users],
    )
    return people


def seed_places(database: Database, people: People, start_ns: int, end_ns: int, size: int) -> None:
    """Fiat accounts, deposit instructions and saved addresses, and the events about them.

    ``size`` is about how many fiat accounts and how many addresses there are.
    """
    chance = random.Random(people.seed)  # noqa: S311 - repeatable on purpose
    seed_instructions(database, people, start_ns)
    seed_accounts(database, people, chance, start_ns, end_ns, max(size, 6))
    seed_addresses(database, people, chance, start_ns, max(size, 2 * len(CryptoNetwork)))


def people_events(people: People) -> list[tuple[int, str, str, dict[str, Any]]]:
    """Documents are asked for, identities and fiat accounts are approved."""
    events: list[tuple[int, str, str, dict[str, Any]]] = []
    for number, user in enumerate(people.users):
        documents = list(REQUIRED_DOCUMENTS[: 1 + number % 3])
        asked = {
            "id": seeded_uuid(people.seed, "required_documents", number + 1),
            "identity_id": user.identity_id,
            "required_documents": documents,
        }
        approved = {
            "id": seeded_uuid(people.seed, "status_changes", number + 1),
            "identity_id": user.identity_id,
            "new_summary_status": "APPROVED",
            "old_summary_status": "PENDING",
        }
        asked_ns, approved_ns = user.approved_ns - DAY_NS + 17, user.approved_ns + 31 + number % 900
        events += [
            (asked_ns, "identity.documents_required", "identity_required_documents", asked),
            (approved_ns, "identity.approved", "identity_summary_status_change", approved),
        ]
    for account in people.accounts:
        payload = {"id": account.id, "status": "APPROVED"}
        events.append(
            (account.since_ns - DAY_NS // 2, "fiat_account.approved",
             "fiat_account_status_change", payload)
        )  # fmt: skip
    return events


def seed_instructions(database: Database, people: People, start_ns: int) -> None:
    number = 0
    for index, profile_id in enumerate(people.profile_ids):
        for network, routing in (
            (FiatNetwork.WIRE, RoutingNumberType.ABA),
            (FiatNetwork.WIRE, RoutingNumberType.SWIFT),
            (FiatNetwork.CUBIX, None),
        ):
            number += 1
            created_ns = start_ns + number * 61_000_003_000
            rendered = render_instructions(
                people.seed, number, profile_id, people.customer_id, network, routing,
                micros_text(created_ns),
            )  # fmt: skip
            rendered["ref_id"] = f"instructions-{number}"
            rendered["metadata"] = {
                "department": DEPARTMENTS[index % len(DEPARTMENTS)],
                "desk": f"{100 + number}",
            }
            kind = str(network) if routing is None else f"{network}-{routing}"
            people.instructions[profile_id, kind] = rendered
            insert_instructions(database, people.customer_id, rendered, created_ns)


def seed_accounts(
    database: Database,
    people: People,
    chance: random.Random,
    start_ns: int,
    end_ns: int,
    count: int,
) -> None:
    """The first three serve every kind from the start; the last two are PENDING and REJECTED."""
    for number in range(1, count + 1):
        kind = ("ABA", "SWIFT", "CUBIX")[(number - 1) % 3]
        status = {count - 1: "REJECTED", count: "PENDING"}.get(number, "APPROVED")
        created_ns = start_ns + (number - 1) * 200 * DAY_NS // count // 1000 * 1000
        if number <= 3:
            created_ns = start_ns + number * NS
        if status == "PENDING":
            created_ns = end_ns - 3600 * NS
        user = None
        if number > 3 and number % 4 == 0:
            user = chance.choice(people.users)
            created_ns = max(created_ns, user.approved_ns + 3600 * NS)
        first, last = chance.choice(FIRST_NAMES), chance.choice(LAST_NAMES)
        owner: dict[str, Any] = {
            "institution_details": {"name": f"{chance.choice(COMPANIES)} {number} Ltd"}
        }
        if user is not None:
            owner = {"person_details": {"first_name": first, "last_name": last}}
        if kind == "CUBIX":
            there = f"CUBIX-{chance.randrange(16**10):010X}"
            bank: dict[str, Any] = {"cubix": {"account_id": there}}
        else:
            numbers = {"ABA": "026009593", "SWIFT": "DEUTDEFF"}
            if status == "REJECTED":
                numbers = {"ABA": "000000000", "SWIFT": "XXXXXXXX"}
            address = {
                "country": "USA" if kind == "ABA" else "Germany",
                "address1": f"{number} Main Street",
                "city": "Springfield" if kind == "ABA" else "Frankfurt",
                "province": "IL" if kind == "ABA" else "HE",
                "zip_code": f"{60000 + number}",
            }
            bank = {
                "wire": {
                    "account_number": f"{chance.randrange(10**12):012d}",
                    "fiat_account_owner_address": address,
                    "routing_details": {
                        "routing_number_type": kind,
                        "routing_number": numbers[kind],
                        "bank_name": "First Example Bank",
                        "bank_address": address,
                    },
                }
            }
        updated_ns = created_ns if status == "PENDING" else created_ns + 6 * 3600 * NS
        account: dict[str, Any] = {
            "id": seeded_uuid(people.seed, "fiat_accounts", number),
            "ref_id": f"account-{number}",
            "identity_id": user.identity_id if user else None,
            "account_id": user.account_id if user else None,
            "fiat_account_owner": owner,
            "fiat_network_instructions": bank,
            "status": status,
            "metadata": {"department": chance.choice(DEPARTMENTS)},
            "created_at": micros_text(created_ns),
            "updated_at": micros_text(updated_ns),
        }
        account = {name: value for name, value in account.items() if value is not None}
        insert_fiat_account(database, people.customer_id, account, created_ns)
        if status == "APPROVED" and user is None:
            people.accounts.append(SavedAccount(account["id"], kind, created_ns + DAY_NS))


def seed_addresses(
    database: Database, people: People, chance: random.Random, start_ns: int, count: int
) -> None:
    """Two first-party addresses per network from the start, then also end users' own."""
    networks = list(CryptoNetwork)
    first_party = 2 * len(networks)
    for number in range(1, count + max(len(people.users), 3) + 1):
        network = networks[(number - 1) % len(networks)]
        user = None if number <= first_party or number <= count else chance.choice(people.users)
        created_ns = start_ns + number * NS
        if number > first_party:
            created_ns = start_ns + (number * 300 * DAY_NS) // (2 * count + 10) // 1000 * 1000
        if user is not None:
            created_ns = max(created_ns, user.approved_ns + NS)
        saved = add_destination_address(
            database, people.seed, people.customer_id, created_ns, network,
            nickname=f"{network.lower().replace('_', ' ')} {number}",
            bookmarked=chance.random() < 0.3, identity_id=user.identity_id if user else None,
        )  # fmt: skip
        if number <= first_party:
            people.addresses.setdefault(network, []).append(saved["address"])
