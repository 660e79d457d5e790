"""Pages of made-up transfers as the service would send them: 650 bytes a record, seeded."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

BEGIN: Final = datetime(2025, 1, 1, tzinfo=UTC)
TYPES: Final = (
    ("WIRE_DEPOSIT", "CREDIT"),
    ("WIRE_WITHDRAWAL", "DEBIT"),
    ("CRYPTO_DEPOSIT", "CREDIT"),
    ("CRYPTO_WITHDRAWAL", "DEBIT"),
)


def transfer_records(count: int, first: int = 0) -> Iterator[dict[str, Any]]:
    """Records ``first`` … in order of creation, one every second; the same ones every time."""
    for number in range(first, first + count):
        yield transfer_record(number)


def transfer_record(number: int, **changed: Any) -> dict[str, Any]:
    chance = random.Random(number)
    kind, direction = TYPES[number % len(TYPES)]
    cents, fee = chance.randrange(1, 10**9), (0, 2500)[direction == "DEBIT"]
    total = cents + fee
    created = BEGIN + timedelta(seconds=number)
    asset = ("USD", "USDC", "USDG")[number % 3]
    return {
        "id": _uuid(chance),
        "ref_id": f"order-{number:09d}",
        "customer_id": "0d1f2c3b-4a59-4687-9f00-112233445566",
        "profile_id": f"00000000-0000-4000-8000-{number % 40:012d}",
        "amount": _money(cents),
        "fee": _money(fee),
        "total": _money(total),
        "asset": asset,
        "balance_asset": asset,
        "direction": direction,
        "type": kind,
        "status": "COMPLETED",
        "metadata": {"desk": f"desk-{number % 7}", "batch": f"{number // 1000}"},
        "created_at": f"{created:%Y-%m-%dT%H:%M:%S}.{chance.randrange(10**9):09d}Z",
        "updated_at": f"{created:%Y-%m-%dT%H:%M:%S}.{chance.randrange(10**6):06d}Z",
        "auto_conversion": {},
        "crypto_network": "ETHEREUM" if "CRYPTO" in kind else None,
        "crypto_tx_hash": f"0x{chance.getrandbits(256):064x}" if "CRYPTO" in kind else None,
        "memo": None if number % 2 else f"invoice {number}",
        **changed,
    }


def event_record(number: int) -> dict[str, Any]:
    """That transfer ``number`` completed."""
    made = transfer_record(number)
    return {
        "id": f"event-{number:09d}",
        "type": "transfer.wire_deposit.completed",
        "created_at": made["created_at"],
        "object_type": "transfer_status_change",
        "object": {"id": made["id"], "new_status": "COMPLETED", "amount": made["amount"]},
    }


def page_bodies(count: int, page_rows: int = 1000, first: int = 0) -> Iterator[bytes]:
    """The JSON of each page; ``next_page_cursor`` is the number of the next page."""
    pages = -(-count // page_rows)
    for page in range(pages):
        rows = min(page_rows, count - page * page_rows)
        records = list(transfer_records(rows, first + page * page_rows))
        cursor = str(page + 1) if page + 1 < pages else ""
        yield json.dumps({"items": records, "next_page_cursor": cursor}).encode()


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


def _uuid(chance: random.Random) -> str:
    text = f"{chance.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"
