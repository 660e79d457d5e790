"""Lists: keyset pages joined from rendered rows.

The key of a row is its time and ``seq``, its place in the order of insertion. A cursor holds the
key of the last row given, so page 900 costs what page 1 costs, and rows inserted meanwhile neither
hide nor repeat others. Cursors are opaque and carry a checksum; one that was altered, or that
belongs to another list or order, is a 400.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fundlab.models import (
    CryptoDestinationAddressQuery,
    EventQuery,
    FiatAccountQuery,
    FiatDepositInstructionsQuery,
    Query,
    TransferQuery,
)
from fundlab.sandbox.behaviour import seconds_ns
from fundlab.sandbox.refusals import invalid
from fundlab.sandbox.world import World, own_identity

COMPARISONS: Final = {"lt": "<", "lte": "<=", "eq": "=", "gte": ">=", "gt": ">"}
CHECKSUM_BYTES: Final = 8
SAME_POSITION: Final = "."
"""At the end of a cursor: the same position in another text, for the duplicated-page fault."""

Condition = tuple[str, Sequence[Any]]
"""SQL and the values for its question marks."""


@dataclass(frozen=True)
class Listing:
    """One list: where its rows are and how a page is laid out."""

    table: str
    items: str
    column: str = "body"


TRANSFERS: Final = Listing("transfers", "items")
EVENTS: Final = Listing("events", "events")
FIAT_ACCOUNTS: Final = Listing("fiat_accounts", "items", column="listed")
DEPOSIT_INSTRUCTIONS: Final = Listing("fiat_deposit_instructions", "items")
DESTINATION_ADDRESSES: Final = Listing("destination_addresses", "addresses")


def page(world: World, customer_id: str, query: Query) -> bytes:
    """One page as JSON. Raises the 400 ``Refusal``."""
    key = world.cursor_key
    listing, index, filters = selection(query, own_identity(customer_id))
    time = "updated_at_ns" if getattr(query, "order_by", "") == "UPDATED_AT" else "created_at_ns"
    mark = f"{listing.table} {time} {query.order}"
    conditions: list[Condition] = [("+customer_id = ?", [customer_id]), *filters]
    for name, sign in COMPARISONS.items():
        moment = getattr(query, f"{time.removesuffix('_ns')}_{name}")
        if moment is not None:
            conditions.append((f"{time} {sign} ?", [moment.ns]))
    retained = world.behaviour.event_retention_seconds
    if listing is EVENTS and retained is not None:
        conditions.append((f"{time} >= ?", [world.clock.now_ns() - seconds_ns(retained)]))
    if query.page_cursor is not None:
        after = "<" if query.order == "DESC" else ">"
        conditions.append(
            (f"({time}, seq) {after} (?, ?)", read_cursor(key, mark, query.page_cursor))
        )
    sql = (
        f"SELECT {listing.column}, {time}, seq FROM {listing.table}{index} "  # noqa: S608 - our own names
        f"WHERE {' AND '.join(condition for condition, _ in conditions)} "
        f"ORDER BY {time} {query.order}, seq {query.order} LIMIT ?"
    )
    values = [value for _, given in conditions for value in given]
    rows = world.database.all(sql, *values, query.limit + 1)
    cursor = ""
    if len(rows) > query.limit:
        rows.pop()
        cursor = write_cursor(key, mark, rows[-1][1], rows[-1][2])
    return b'{"%b":[%b],"next_page_cursor":"%b"}' % (
        listing.items.encode(), b",".join([row[0] for row in rows]), cursor.encode(),
    )  # fmt: skip


# ---------------------------------------------------------------------------- cursors


def write_cursor(key: bytes, mark: str, ns: int, seq: int) -> str:
    position = f"{ns}.{seq}".encode()
    return _cursor_text(_checksum(key, mark, position) + position)


def read_cursor(key: bytes, mark: str, cursor: str) -> tuple[int, int]:
    """Time and ``seq`` of a cursor of the list that ``mark`` names. Raises the 400 ``Refusal``."""
    text = cursor.rstrip(SAME_POSITION)
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise invalid("page_cursor", "cannot be read") from None
    checksum, position = raw[:CHECKSUM_BYTES], raw[CHECKSUM_BYTES:]
    genuine = hmac.compare_digest(checksum, _checksum(key, mark, position))
    if not genuine or _cursor_text(raw) != text:
        raise invalid("page_cursor", "cannot be read, or belongs to another list or order")
    ns, seq = position.split(b".")
    return int(ns), int(seq)


def _cursor_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _checksum(key: bytes, mark: str, position: bytes) -> bytes:
    text = mark.encode() + b" " + position
    return hashlib.blake2b(text, key=key, digest_size=CHECKSUM_BYTES).digest()


# ---------------------------------------------------------------------------- filters


def selection(query: Query, own: str) -> tuple[Listing, str, list[Condition]]:
    """The listing a query is for, the index to walk (or none named), and its filters; ``own`` is
    the customer's identity."""
    match query:
        case TransferQuery():
            selective = _in(
                {
                    "id": _ids(query.ids), "ref_id": query.ref_ids,
                    "group_id": _ids(query.group_ids), "crypto_tx_hash": query.crypto_tx_hashes,
                    "account_id": _ids(query.account_ids), "secondary": query.secondary_statuses,
                }
            ) + _of_identities(query.identity_ids or [], own)  # fmt: skip
            broad = {
                "profile_id": _ids(query.profile_ids), "type": query.type,
                "status": query.statuses,
            }  # fmt: skip
            if selective:
                return TRANSFERS, "", [*selective, *_in(broad, unindexed=True)]
            if query.order_by == "UPDATED_AT":
                return TRANSFERS, " INDEXED BY transfers_updated", _in(broad, unindexed=True)
            for column in ("status", "type", "profile_id"):
                wanted = broad[column]
                if wanted is not None and len(wanted) == 1:
                    index = f" INDEXED BY transfers_{column.removesuffix('_id')}"
                    rest = _in(broad | {column: None}, unindexed=True)
                    return TRANSFERS, index, [(f"{column} = ?", wanted), *rest]
            return TRANSFERS, " INDEXED BY transfers_created", _in(broad, unindexed=True)
        case EventQuery():
            filters: list[Condition] = [("is_test = ?", [int(bool(query.is_test))])]
            if query.type:
                filters.append(("type = ?", [query.type]))
            return EVENTS, "", filters
        case FiatDepositInstructionsQuery():
            return DEPOSIT_INSTRUCTIONS, "", _in({"id": _ids(query.ids), "ref_id": query.ref_ids})
        case FiatAccountQuery():
            return FIAT_ACCOUNTS, "", _in({"id": _ids(query.ids), "ref_id": query.ref_ids})
        case CryptoDestinationAddressQuery():
            filters = _in(
                {
                    "id": _ids(query.ids), "crypto_network": query.crypto_networks,
                    "address": query.addresses, "nickname": query.nicknames,
                }
            )  # fmt: skip
            if query.bookmarked_status is not None:
                filters.append(("bookmarked = ?", [int(query.bookmarked_status)]))
            identities = [*(query.identity_ids or ()), query.identity_id]
            given = [identity for identity in identities if identity]
            mine = _of_identities(given or [own], own)
            return DESTINATION_ADDRESSES, "", filters + mine
    raise TypeError(f"no list for {type(query).__name__}")


def _ids(values: list[str] | None) -> list[str] | None:
    """Ids compare without regard to case; the sandbox's own are in lower case."""
    return None if values is None else [value.lower() for value in values]


def _of_identities(given: list[str], own: str) -> list[Condition]:
    """Rows of these identities: those of the customer's ``own`` name none."""
    ends = [value for value in given if value.lower() != own]
    conditions = _in({"identity_id": _ids(ends)})
    if len(ends) < len(given):
        conditions.append(("identity_id IS NULL", []))
    values = [value for _, values in conditions for value in values]
    return [(f"({' OR '.join(sql for sql, _ in conditions)})", values)] if conditions else []


def _in(columns: dict[str, Any], *, unindexed: bool = False) -> list[Condition]:
    """``column IN (…)`` for each given filter; ``unindexed`` keeps the planner off its index."""
    plus = "+" if unindexed else ""
    return [
        (f"{plus}{column} IN ({', '.join('?' * len(values))})", [str(value) for value in values])
        for column, values in columns.items()
        if values
    ]
